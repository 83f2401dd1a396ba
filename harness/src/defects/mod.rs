//! The catalogue: every way in which fencing fails that can be planted, and what each must be found as.
//!
//! | file | noun |
//! |---|---|
//! | `resource.rs`, `lock.rs`, `holder.rs` | the rows, by where they are planted |
//! | `cut_short.rs` | leases that ended before their time: an observation, and what one defect is seen by |
//! | `alternative.rs` | systems without a fence that are safe all the same, and their neighbours that are not |
//! | `page.rs` | harness/docs/defects.md, from the rows |
//!
//! `fencepost list defects`, `fencepost selftest` and the page are made from these rows and nothing else. What a defect is in
//! one line is said where its switch is: in the service that has it, or in `workloads/src/defects.rs`.

pub mod alternative;
mod cut_short;
mod holder;
mod lock;
mod page;
mod resource;

use fencepost_checker::finding::{Finding, Severity};
use fencepost_checker::history::History;
use fencepost_checker::verdict::Judgement;
use fencepost_workloads::defects::{HOLDER_DEFECTS, HolderDefect};
use fencepost_workloads::suite::{Span, Suite};

pub use cut_short::{CutShort, cut_short};
pub use page::page;

/// What is planted in a run; at most one defect.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Defects {
    /// The defect's name.
    pub name: Option<String>,
    /// For the lock service.
    pub lock: Option<String>,
    /// For the resource.
    pub resource: Option<String>,
    /// For the holder.
    pub holder: Option<HolderDefect>,
    /// The findings of which one must be made.
    pub found_as: &'static [&'static str],
}

/// Where a defect is planted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// In the resource.
    Resource,
    /// In the lock service.
    Lock,
    /// In the holder; the resource is unfenced with it where the defect stands in the place of a fence.
    Holder,
}

impl Place {
    /// The name, for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Resource => "resource",
            Self::Lock => "lock service",
            Self::Holder => "holder",
        }
    }
}

/// One defect, as its file tells it.
#[derive(Clone, Copy, Debug)]
struct Row {
    name: &'static str,
    /// One of these must be found; none: the fence makes it harmless, and that is what must be seen.
    found_as: &'static [&'static str],
    /// What makes the story of that finding an explanation: it holds one of these. None: its name says it all.
    says: &'static [&'static str],
    /// The built-in suite that brings it out soonest.
    suite: &'static str,
    /// What it is in production.
    production: &'static str,
    /// What an operator sees, and which metrics tell.
    operator: &'static str,
    /// How Fencepost shows it.
    shown: &'static str,
    /// How to fix it.
    fix: &'static str,
}

/// One defect of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Where it is planted.
    pub place: Place,
    /// What it is, in one line.
    pub about: &'static str,
    row: &'static Row,
}

impl Entry {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.row.name
    }

    /// The findings of which one must be made; none: the run must be valid, with stale writes refused and leases cut short.
    #[must_use]
    pub fn found_as(&self) -> &'static [&'static str] {
        self.row.found_as
    }

    /// Words of which the story of the finding must hold one; none: anything goes.
    #[must_use]
    pub fn says(&self) -> &'static [&'static str] {
        self.row.says
    }

    /// The built-in suite that brings it out soonest.
    #[must_use]
    pub fn suite(&self) -> &'static str {
        self.row.suite
    }

    /// A command that finds it.
    #[must_use]
    pub fn command(&self) -> String {
        let (suite, name) = (self.row.suite, self.row.name);
        format!("fencepost run {suite} --defect {name} --fail-fast")
    }

    /// What must be found, in words.
    #[must_use]
    pub fn must_be(&self) -> String {
        match self.row.found_as {
            [] => "leases cut short, and refused stale writes".to_owned(),
            names => names.join(" or "),
        }
    }
}

/// Every defect that can be planted, in the order of the tables of the parts that have them.
#[must_use]
pub fn catalogue() -> Vec<Entry> {
    let resource = fencepost_fenced_resource::DEFECTS.iter().copied();
    let lock = fencepost_lock_service::DEFECTS.iter().copied();
    let holder = HOLDER_DEFECTS.iter().map(|&(_, name, about)| (name, about));
    let resource = entries(Place::Resource, resource::ROWS, resource);
    let lock = entries(Place::Lock, lock::ROWS, lock);
    let holder = entries(Place::Holder, holder::ROWS, holder);
    resource.chain(lock).chain(holder).collect()
}

/// A test holds the rows against the tables: none is missing.
fn entries(
    place: Place,
    rows: &'static [Row],
    table: impl Iterator<Item = (&'static str, &'static str)>,
) -> impl Iterator<Item = Entry> {
    table.filter_map(move |(name, about)| {
        let row = rows.iter().find(|row| row.name == name)?;
        Some(Entry { place, about, row })
    })
}

impl Defects {
    /// The defect called `name`; `None` where there is none of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let entry = catalogue().into_iter().find(|entry| entry.name() == name)?;
        let planted = Some(name.to_owned());
        let defects = Self {
            name: planted.clone(),
            found_as: entry.found_as(),
            ..Self::default()
        };
        Some(match entry.place {
            Place::Resource => Self {
                resource: planted,
                ..defects
            },
            Place::Lock => Self {
                lock: planted,
                ..defects
            },
            Place::Holder => {
                let holder: Option<HolderDefect> = name.parse().ok();
                let open = holder.is_some_and(HolderDefect::instead_of_a_fence);
                Self {
                    holder,
                    resource: open.then(|| "unfenced".to_owned()),
                    ..defects
                }
            }
        })
    }

    /// As what the planted defect was found, in one sentence; or that it had to be found and was not. `None` where none is
    /// planted.
    #[must_use]
    pub fn found(
        &self,
        judgement: &Judgement,
        history: &History,
    ) -> Option<Result<String, String>> {
        let name = self.name.as_ref()?;
        let catalogue = catalogue();
        let entry = catalogue.iter().find(|entry| entry.name() == name)?;
        let named = |finding: &&Finding| self.found_as.contains(&finding.finding.as_str());
        let observed = match self.found_as.is_empty() {
            true => cut_short(history),
            false => Vec::new(),
        };
        Some(
            match (judgement.findings.iter().find(named), observed.first()) {
                (Some(finding), _) => Ok(format!(
                    "the planted defect {name} was found as {}, {}",
                    finding.finding,
                    match finding.severity {
                        Severity::Violation => "a violation",
                        Severity::Warning => "a warning, which does not make a run invalid",
                        Severity::Observation =>
                            "an observation, which does not make a run invalid",
                    }
                )),
                (None, Some(first)) => Ok(format!(
                    "the planted defect {name} was observed {} times, and is no violation: {}",
                    observed.len(),
                    first.sentence()
                )),
                (None, None) => Err(format!(
                    "the planted defect {name} was not found as {}; `{}` brings it out",
                    entry.must_be(),
                    entry.command()
                )),
            },
        )
    }

    /// Changes in a suite what the defect changes in how the system is set up.
    pub fn set_up(&self, suite: &mut Suite) {
        if self.holder == Some(HolderDefect::LongLease) {
            suite.lock.lease = Span(suite.lock.lease.0 * LONGER);
        }
    }
}

/// How much longer `long-lease` asks for.
const LONGER: u32 = 10;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fencepost_checker::fencing::FINDINGS;
    use fencepost_workloads::suite::built_in;

    use super::*;

    #[test]
    fn every_defect_has_a_row_and_every_row_a_defect() {
        let tables = fencepost_fenced_resource::DEFECTS.len()
            + fencepost_lock_service::DEFECTS.len()
            + HOLDER_DEFECTS.len();
        let rows = resource::ROWS.len() + lock::ROWS.len() + holder::ROWS.len();
        assert_eq!((catalogue().len(), rows), (tables, tables));
        assert!(tables >= 28, "{tables} defects");
        let names: BTreeSet<_> = catalogue().iter().map(Entry::name).collect();
        assert_eq!(names.len(), tables, "no name twice");
    }

    #[test]
    fn rows_name_findings_and_suites_that_there_are_and_say_everything() {
        for entry in catalogue() {
            let name = entry.name();
            for found in entry.found_as() {
                assert!(
                    FINDINGS.iter().any(|finding| finding.name == *found),
                    "{name}: {found}"
                );
            }
            assert!(
                built_in(entry.suite()).is_some(),
                "{name}: {}",
                entry.suite()
            );
            let Row {
                production,
                operator,
                shown,
                fix,
                ..
            } = entry.row;
            for text in [production, operator, shown, fix] {
                assert!(text.len() > 40 && text.ends_with('.'), "{name}: {text}");
            }
        }
    }

    #[test]
    fn a_defect_is_planted_where_its_row_says() {
        for entry in catalogue() {
            let defects = Defects::named(entry.name()).expect("it is in the catalogue");
            assert_eq!(
                defects.lock.is_some(),
                entry.place == Place::Lock,
                "{}",
                entry.name()
            );
            assert_eq!(defects.holder.is_some(), entry.place == Place::Holder);
            assert!(defects.resource.is_some() || entry.place != Place::Resource);
        }
        assert_eq!(Defects::named("no-such"), None);
        let clock = Defects::named("clock-check").expect("a defect");
        assert_eq!(clock.resource.as_deref(), Some("unfenced"));
    }
}
