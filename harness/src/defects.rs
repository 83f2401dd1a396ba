//! `--defect NAME`: what is planted, and in which part of the system.

use fencepost_workloads::defects::{HOLDER_DEFECTS, HolderDefect};

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
}

/// One line of `fencepost list defects`.
#[derive(Clone, Debug, PartialEq)]
pub struct DefectLine {
    /// The name.
    pub name: &'static str,
    /// `lock service`, `resource` or `holder`.
    pub planted_in: &'static str,
    /// What it is in production.
    pub about: &'static str,
}

/// Every defect that can be planted.
#[must_use]
pub fn catalogue() -> Vec<DefectLine> {
    let resource = fencepost_fenced_resource::DEFECTS
        .iter()
        .map(|&(name, about)| DefectLine {
            name,
            planted_in: "resource",
            about,
        });
    let lock = fencepost_lock_service::DEFECTS
        .iter()
        .map(|&(name, about)| DefectLine {
            name,
            planted_in: "lock service",
            about,
        });
    let holder = HOLDER_DEFECTS.iter().map(|&(_, name, about)| DefectLine {
        name,
        planted_in: "holder",
        about,
    });
    resource.chain(lock).chain(holder).collect()
}

impl Defects {
    /// The defect called `name`; `None` where there is none of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let line = catalogue().into_iter().find(|line| line.name == name)?;
        let planted = Some(name.to_owned());
        let defects = Self {
            name: planted.clone(),
            ..Self::default()
        };
        Some(match line.planted_in {
            "resource" => Self {
                resource: planted,
                ..defects
            },
            "lock service" => Self {
                lock: planted,
                ..defects
            },
            _ => Self {
                holder: name.parse().ok(),
                ..defects
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_defect_of_the_catalogue_can_be_planted_in_exactly_one_place() {
        for line in catalogue() {
            let defects = Defects::named(line.name).expect("it is in the catalogue");
            let places = [
                defects.lock.is_some(),
                defects.resource.is_some(),
                defects.holder.is_some(),
            ];
            assert_eq!(
                places.into_iter().filter(|&planted| planted).count(),
                1,
                "{}",
                line.name
            );
        }
        assert_eq!(Defects::named("no-such"), None);
    }
}
