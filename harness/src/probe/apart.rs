//! A resource asked under keys of one's own, so that neither what others have there nor what an earlier probe left is met.

use fencepost_checker::history::Token;
use fencepost_workloads::client::{Call, Reading, Resource, Write, Written};

/// The resource, every key of which begins with the same letters; whoever asks does not see them.
pub(super) struct Apart {
    pub(super) inner: Box<dyn Resource>,
    pub(super) prefix: String,
}

impl Apart {
    fn named(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }
}

impl Resource for Apart {
    fn write<'a>(&'a self, key: &'a str, token: Token, value: &'a str) -> Call<'a, Written> {
        Box::pin(async move { self.inner.write(&self.named(key), token, value).await })
    }

    fn read<'a>(&'a self, key: &'a str) -> Call<'a, Reading> {
        Box::pin(async move { self.inner.read(&self.named(key)).await })
    }

    fn write_as<'a>(&'a self, write: Write<'a>) -> Call<'a, Written> {
        Box::pin(async move {
            let key = self.named(write.key);
            self.inner.write_as(Write { key: &key, ..write }).await
        })
    }

    fn read_under<'a>(&'a self, lock: Option<&'a str>, key: &'a str) -> Call<'a, Reading> {
        Box::pin(async move { self.inner.read_under(lock, &self.named(key)).await })
    }
}
