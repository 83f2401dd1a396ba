//! `kind`: the name of a system, held against the table of those that there are.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::systems::{System, find, known};

/// Makes a client of one of the systems in a table.
pub trait Listed: Sized + 'static {
    /// `lock service` or `resource`.
    const WHAT: &'static str;
    /// The table. Its first row is the default.
    const ALL: &'static [System<Self>];
}

/// One row of the table.
pub struct Kind<C: 'static>(&'static System<C>);

impl<C> Kind<C> {
    /// The name, as written in a suite.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// The whole row.
    #[must_use]
    pub fn system(self) -> &'static System<C> {
        self.0
    }

    /// Whether `value` may stand under `key` (`token` or `fence`), which chooses one of the kind's variants.
    pub(super) fn takes(self, key: &str, value: Option<&str>) -> Result<(), String> {
        let System { name, variants, .. } = self.0;
        match value {
            None => Ok(()),
            Some(value) if variants.contains(&value) => Ok(()),
            Some(_) if variants.is_empty() => Err(format!("kind {name:?} takes no `{key}`")),
            Some(value) => {
                let right: Vec<_> = variants.iter().map(|one| format!("{one:?}")).collect();
                Err(format!(
                    "{value:?} is no {key} of kind {name:?}: {} is right",
                    right.join(" or ")
                ))
            }
        }
    }
}

impl<C> Clone for Kind<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Kind<C> {}

impl<C> PartialEq for Kind<C> {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl<C> fmt::Debug for Kind<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl<C: Listed> Default for Kind<C> {
    fn default() -> Self {
        Self(&C::ALL[0])
    }
}

impl<C> Serialize for Kind<C> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name)
    }
}

impl<'de, C: Listed> Deserialize<'de> for Kind<C> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        find(C::ALL, &name).map(Self).ok_or_else(|| {
            let (what, known) = (C::WHAT, known(C::ALL));
            de::Error::custom(format!("{name:?} is no known {what}: {known} is right"))
        })
    }
}
