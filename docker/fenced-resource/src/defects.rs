//! Planted defects: the ways in which real resources get the fence wrong, as switches.
//!
//! Promises: without a defect nothing in this file runs, and each defect changes exactly what its
//! line in [`DEFECTS`] says. To add one: a variant, a name, a line in the table, and the one switch
//! that it turns.
//!
//! Does not promise to be safe. A service that runs with a defect corrupts what it holds; it is there
//! to show that the checker sees it.

use std::fmt;
use std::str::FromStr;

use crate::fence::Decision;

/// A way to get the fence wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Defect {
    /// The resource does not compare: every token is accepted, and the high water is the last token written.
    Unfenced,
}

/// Every defect: its name on the command line, and what it is in production.
pub const DEFECTS: &[(&str, &str)] = &[(
    "unfenced",
    "the resource takes the token and never compares it, so whoever writes last wins",
)];

impl Defect {
    /// Every defect, in the order of [`DEFECTS`].
    pub const ALL: &[Defect] = &[Defect::Unfenced];

    /// The name by which the command line and reports know it.
    pub fn name(self) -> &'static str {
        match self {
            Defect::Unfenced => "unfenced",
        }
    }

    /// What stands in the place of [`fence::decide`](crate::fence::decide) under this defect.
    pub(crate) fn decide(self, _token: u64, _high_water: u64) -> Decision {
        match self {
            Defect::Unfenced => Decision::Accept,
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
        Defect::ALL
            .iter()
            .copied()
            .find(|defect| defect.name() == name)
            .ok_or_else(|| UnknownDefect(name.to_owned()))
    }
}

/// The name of a defect that this service does not have; it holds the name that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the fenced resource has no defect `{0}`; it has: {known}", known = known_names())]
pub struct UnknownDefect(pub String);

fn known_names() -> String {
    let names: Vec<&str> = DEFECTS.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::{DEFECTS, Defect};

    #[test]
    fn every_defect_is_in_the_table_under_its_own_name() {
        let in_table: Vec<&str> = DEFECTS.iter().map(|(name, _)| *name).collect();
        let in_code: Vec<&str> = Defect::ALL.iter().map(|defect| defect.name()).collect();
        assert_eq!(in_table, in_code);
        for &defect in Defect::ALL {
            assert_eq!(defect.name().parse::<Defect>(), Ok(defect));
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = "unfensed".parse::<Defect>().expect_err("no such defect");
        assert_eq!(
            error.to_string(),
            "the fenced resource has no defect `unfensed`; it has: unfenced"
        );
    }
}
