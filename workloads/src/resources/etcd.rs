//! A key of the etcd that has the lock, written by a transaction that compares the lock's key.
//!
//! | `fence` | a write is |
//! |---|---|
//! | `conditional` | one Txn: if the lock key's `create_revision` is the token, put; else read what is there |
//! | `none` | a put |
//!
//! The name of the lock's key holds the lease of the grant, which a token does not tell. It is looked up by the
//! revision, once for each token, and kept. A key that is not found was deleted, and none will ever be created at that
//! revision again, so the look-up alone may refuse.
//!
//! No mark is kept. What is kept with each value is its token, and a refusal that finds a higher one names it. One that
//! does not find a higher one says `not-held`: the lock's key is gone, and nobody has written since.
//!
//! | what happened | outcome | why |
//! |---|---|---|
//! | the lock's key is gone and the value's token is higher | fail, `stale-token` with it | the transaction decided |
//! | the lock's key is gone and it is not | fail, `not-held` | the same |
//! | the lock's key could not be looked up | fail | the write was not sent yet |
//! | the Txn or put was not answered in time, or its connection broke | unknown | it may be committed |
//!
//! All else is in [`crate::client::etcd`].

use std::sync::{Mutex, PoisonError};

use etcd_client::{
    Compare, CompareOp, GetOptions, GetResponse, KeyValue, Txn, TxnOp, TxnOpResponse,
};
use fencepost_checker::history::Token;

use crate::client::etcd::{Cluster, place, steward as keys};
use crate::client::{
    Call, Endpoint, EndpointError, Failure, Outcome, Reading, Reason, Resource, Steward, Written,
};

/// Makes one client.
pub(super) fn connect(endpoint: &Endpoint<'_>) -> Result<Box<dyn Resource>, EndpointError> {
    let settings = &endpoint.options.resource_settings;
    let place = place(endpoint)?;
    Ok(Box::new(EtcdResource {
        cluster: Cluster::new(endpoint, settings)?,
        locks: format!("{place}locks/"),
        keys: format!("{place}keys/"),
        fenced: match settings.fence.as_deref() {
            None | Some("conditional") => true,
            Some("none") => false,
            Some(other) => return Err(endpoint.unusable(format!("{other:?} is no fence of etcd"))),
        },
        lock_key: Mutex::default(),
    }))
}

/// Makes the one who looks after the run's keys.
pub(super) fn steward(endpoint: &Endpoint<'_>) -> Result<Box<dyn Steward>, EndpointError> {
    keys(endpoint, &endpoint.options.resource_settings)
}

/// One client of etcd's keys.
struct EtcdResource {
    cluster: Cluster,
    /// Before the lock's key.
    locks: String,
    /// Before the key of a value.
    keys: String,
    fenced: bool,
    /// The lock's key of the token presented last.
    lock_key: Mutex<Option<(i64, Vec<u8>)>>,
}

impl EtcdResource {
    async fn write(&self, key: &str, token: Token, value: &str) -> Outcome<Written> {
        let key = format!("{}{key}", self.keys);
        let revision = i64::try_from(token.value()).map_err(|_| {
            Failure::Fail(Reason::Other(format!("{token} is no revision of etcd's")))
        })?;
        let value = format!("{revision} {value}");
        if !self.fenced {
            let put = self
                .cluster
                .call(async |mut client| client.put(key, value, None).await);
            put.await?;
            return Ok(Written { high_water: None });
        }
        let Some(lock_key) = self.lock_key(revision).await.map_err(not_sent)? else {
            let found = self.get(&key).await.map_err(not_sent)?;
            return Err(refusal(token, found.kvs().first()));
        };
        let ours = Compare::create_revision(lock_key, CompareOp::Equal, revision);
        let transaction = Txn::new()
            .when([ours])
            .and_then([TxnOp::put(key.as_str(), value, None)])
            .or_else([TxnOp::get(key.as_str(), None)]);
        let answer = self
            .cluster
            .call(async |mut client| client.txn(transaction).await)
            .await?;
        if answer.succeeded() {
            return Ok(Written { high_water: None });
        }
        let found = answer.op_responses().into_iter().find_map(|one| match one {
            TxnOpResponse::Get(found) => found.kvs().first().cloned(),
            _ => None,
        });
        Err(refusal(token, found.as_ref()))
    }

    /// The lock's key that was created at `revision`; `None` where it was deleted.
    async fn lock_key(&self, revision: i64) -> Outcome<Option<Vec<u8>>> {
        if let Some((known, key)) = &*self.lock_key.lock().unwrap_or_else(PoisonError::into_inner)
            && *known == revision
        {
            return Ok(Some(key.clone()));
        }
        let created_then = GetOptions::new()
            .with_prefix()
            .with_keys_only()
            .with_min_create_revision(revision)
            .with_max_create_revision(revision);
        let locks = self.locks.as_str();
        let found = self
            .cluster
            .call(async |mut client| client.get(locks, Some(created_then)).await)
            .await?;
        let key = found.kvs().first().map(|found| found.key().to_vec());
        if let Some(key) = &key {
            let mut kept = self.lock_key.lock().unwrap_or_else(PoisonError::into_inner);
            *kept = Some((revision, key.clone()));
        }
        Ok(key)
    }

    async fn read(&self, key: &str) -> Outcome<Reading> {
        let found = self.get(&format!("{}{key}", self.keys)).await?;
        let (token, value) = match found.kvs().first() {
            None => (None, None),
            Some(kept) => {
                let (token, value) = parts(kept).ok_or_else(|| {
                    Failure::Unknown("the value is not one that a client writes".to_owned())
                })?;
                (Some(token), Some(value))
            }
        };
        Ok(Reading {
            value,
            token,
            high_water: None,
        })
    }

    /// A read that needs a quorum.
    async fn get(&self, key: &str) -> Outcome<GetResponse> {
        self.cluster
            .call(async |mut client| client.get(key, None).await)
            .await
    }
}

/// What stands in a value's key: its token and itself.
fn parts(kept: &KeyValue) -> Option<(Token, String)> {
    let (token, value) = kept.value_str().ok()?.split_once(' ')?;
    Some((Token::from(token.parse::<i64>().ok()?), value.to_owned()))
}

/// The lock's key is gone, and this is what the transaction found instead.
fn refusal(token: Token, found: Option<&KeyValue>) -> Failure {
    let newer = found.and_then(parts).map(|(newer, _)| newer);
    Failure::Fail(match newer.filter(|newer| *newer > token) {
        Some(newer) => Reason::StaleToken {
            high_water: Some(newer),
        },
        None => Reason::NotHeld,
    })
}

/// A look before the write failed, in whatever way: the write was not sent.
fn not_sent(failure: Failure) -> Failure {
    Failure::Fail(match failure {
        Failure::Fail(reason) => reason,
        Failure::Unknown(text) => Reason::Other(format!("not written: a look before it: {text}")),
    })
}

impl Resource for EtcdResource {
    fn write<'a>(&'a self, key: &'a str, token: Token, value: &'a str) -> Call<'a, Written> {
        Box::pin(self.write(key, token, value))
    }

    fn read<'a>(&'a self, key: &'a str) -> Call<'a, Reading> {
        Box::pin(self.read(key))
    }
}
