//! What can be broken on purpose, one small switch a defect.
//!
//! A defect is a mistake that real lock services have made. It is here so that a checker can be
//! shown to find it. Every switch of the service is in this file; without a defect each of them
//! is the sound rule.

use std::fmt;
use std::str::FromStr;

/// A mistake that the service makes on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Defect {
    /// The counter of a lock is only in memory: after a restart it starts again from 1.
    VolatileCounter,
}

/// Each defect: its name, and what it is in production.
pub const DEFECTS: &[(&str, &str)] = &[(
    "volatile-counter",
    "the token counter lives in memory only: a restart hands out 1, 2, 3 again (a cache, an in-memory lock table, a store restored from nothing)",
)];

/// The counter that a lock has after a restart, where the store says `stored`.
pub(crate) fn counter_after_restart(defect: Option<Defect>, stored: u64) -> u64 {
    match defect {
        Some(Defect::VolatileCounter) => 0,
        None => stored,
    }
}

impl Defect {
    /// The name by which it is asked for.
    pub fn name(self) -> &'static str {
        match self {
            Self::VolatileCounter => "volatile-counter",
        }
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Defect {
    type Err = UnknownDefect;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "volatile-counter" => Ok(Self::VolatileCounter),
            _ => Err(UnknownDefect { name: name.into() }),
        }
    }
}

/// A name that is no defect of the lock service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("find a defect {name:?} of the lock service; it knows {}", known())]
pub struct UnknownDefect {
    name: String,
}

fn known() -> String {
    let names: Vec<&str> = DEFECTS.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_in_the_table_is_a_defect_of_that_name() {
        for (name, line) in DEFECTS {
            let defect: Defect = name.parse().expect("a name of the table");
            assert_eq!(defect.name(), *name);
            assert!(!line.contains('\n'), "{name} is described in one line");
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = "volatile".parse::<Defect>().expect_err("no such defect");
        assert_eq!(
            error.to_string(),
            "find a defect \"volatile\" of the lock service; it knows volatile-counter"
        );
    }

    #[test]
    fn the_sound_service_keeps_its_counter_over_a_restart() {
        assert_eq!(counter_after_restart(None, 42), 42);
        assert_eq!(counter_after_restart(Some(Defect::VolatileCounter), 42), 0);
    }
}
