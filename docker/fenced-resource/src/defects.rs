//! Planted defects: the ways in which real resources get the fence wrong, as switches.
//!
//! Promises: without a defect nothing in this file runs, and each defect changes exactly what its
//! line in [`DEFECTS`] says. To add one: a variant, a name, a line in the table, and the one switch
//! that it turns.
//!
//! Does not promise to be safe. A service that runs with a defect corrupts what it holds; it is there
//! to show that the checker sees it.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::fence::{self, Decision};
use crate::way::Path;

/// How long a mark lasts under `mark-expires`. In production it is hours or days: a TTL, a retention, a clean-up job.
const MARK_LASTS: Duration = Duration::from_millis(150);

/// After so many writes to a key, `poison` has a stray token arrive.
const WRITES_BEFORE_STRAY: u32 = 25;

/// The stray token of `poison`.
const STRAY_TOKEN: u64 = 1 << 62;

/// `refuses-after-applying` says no to each so-many-th write that it has applied.
const APPLIED_BEFORE_NO: u32 = 8;

/// How long `check-then-write` takes from its check to its write: a round trip to a database.
pub(crate) const BETWEEN_CHECK_AND_WRITE: Duration = Duration::from_millis(25);

/// How long `ack-before-durable` keeps what it has answered in memory alone.
pub(crate) const DURABLE_AFTER: Duration = Duration::from_secs(5);

/// A way to get the fence wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Defect {
    /// The resource does not compare: every token is accepted, and the high water is the last token written.
    Unfenced,
    /// The mark is read and compared in one step, and the write is made in a later one.
    CheckThenWrite,
    /// Marks are kept in memory only: a restart forgets them, and keeps the values.
    VolatileHighWater,
    /// One mark stands for all keys.
    GlobalHighWater,
    /// A token equal to the mark is refused.
    StrictlyGreater,
    /// A write is answered while it is only in memory.
    AckBeforeDurable,
    /// Now and then an applied write is answered with a refusal.
    RefusesAfterApplying,
    /// Marks and tokens are compared and kept in 31 bits.
    NarrowMark,
    /// Marks and tokens are compared and kept as doubles.
    FloatMark,
    /// Tokens are compared as text.
    StringCompare,
    /// A stray, huge token is believed like any other.
    Poison,
    /// A mark that was not touched for a while is cleaned up.
    MarkExpires,
    /// The record is fenced, the copy that readers are served from is not.
    UnfencedCache,
    /// The record is fenced, the notification that goes out is not.
    UnfencedWebhook,
    /// The record is fenced, the operator's path to it is not.
    UnfencedAdmin,
    /// The keys of a lock are written one transaction each, and each is held against its own mark.
    MultiKey,
}

/// Every defect: its name on the command line, and what it is in production.
pub const DEFECTS: &[(&str, &str)] = &[
    (
        "unfenced",
        "the resource takes the token and never compares it, so whoever writes last wins",
    ),
    (
        "check-then-write",
        "the mark is read and compared, and the write is a second step: two writers pass the check together",
    ),
    (
        "volatile-high-water",
        "marks live in the process: a restart or a failover forgets them, and the next writer is anybody",
    ),
    (
        "global-high-water",
        "one mark for all keys: a busy lock fences out the holders of quiet ones",
    ),
    (
        "strictly-greater",
        "`>` where `>=` belongs: the holder's second write is refused",
    ),
    (
        "ack-before-durable",
        "a write is answered while it is only in memory: a crash takes back what was promised, mark and value",
    ),
    (
        "refuses-after-applying",
        "the answer of an applied write is a refusal (a retry below finds its own success)",
    ),
    (
        "32-bit-mark",
        "the mark is kept in 31 bits (an int column, an int32 field): from 2^31 on it starts again from 0",
    ),
    (
        "float-mark",
        "the mark is kept as a double (JSON numbers, Lua): above 2^53 neighbours are one number",
    ),
    (
        "string-compare",
        "tokens are compared as text: \"9\" stands above \"10\"",
    ),
    (
        "poison",
        "a huge token is believed from anybody: one stray write locks every rightful holder out",
    ),
    (
        "mark-expires",
        "the mark has a time to live or is cleaned up: after a quiet while the next writer is anybody",
    ),
    (
        "unfenced-cache",
        "the record is fenced, the cache in front of it is not: a late holder fills it with old data",
    ),
    (
        "unfenced-webhook",
        "the record is fenced, the notification that follows is not: a late holder still tells the world",
    ),
    (
        "unfenced-admin",
        "the record is fenced, the admin or import path is not: what goes that way overwrites a newer holder",
    ),
    (
        "multi-key",
        "two keys under one lock are written in two transactions: the mark moves with the first, the second is checked by itself",
    ),
];

/// What a planted defect remembers beside the records. A sound service never looks at it.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    highest: u64,
    touched: HashMap<String, Instant>,
    writes: HashMap<String, u32>,
    applied: u32,
}

impl Defect {
    /// Every defect, in the order of [`DEFECTS`].
    pub const ALL: &[Defect] = &[
        Defect::Unfenced,
        Defect::CheckThenWrite,
        Defect::VolatileHighWater,
        Defect::GlobalHighWater,
        Defect::StrictlyGreater,
        Defect::AckBeforeDurable,
        Defect::RefusesAfterApplying,
        Defect::NarrowMark,
        Defect::FloatMark,
        Defect::StringCompare,
        Defect::Poison,
        Defect::MarkExpires,
        Defect::UnfencedCache,
        Defect::UnfencedWebhook,
        Defect::UnfencedAdmin,
        Defect::MultiKey,
    ];

    /// The name by which the command line and reports know it.
    pub fn name(self) -> &'static str {
        match self {
            Defect::Unfenced => "unfenced",
            Defect::CheckThenWrite => "check-then-write",
            Defect::VolatileHighWater => "volatile-high-water",
            Defect::GlobalHighWater => "global-high-water",
            Defect::StrictlyGreater => "strictly-greater",
            Defect::AckBeforeDurable => "ack-before-durable",
            Defect::RefusesAfterApplying => "refuses-after-applying",
            Defect::NarrowMark => "32-bit-mark",
            Defect::FloatMark => "float-mark",
            Defect::StringCompare => "string-compare",
            Defect::Poison => "poison",
            Defect::MarkExpires => "mark-expires",
            Defect::UnfencedCache => "unfenced-cache",
            Defect::UnfencedWebhook => "unfenced-webhook",
            Defect::UnfencedAdmin => "unfenced-admin",
            Defect::MultiKey => "multi-key",
        }
    }

    /// Whether writes by this path are not compared at all.
    pub(crate) fn leaves_open(self, path: Path) -> bool {
        matches!(
            (self, path),
            (Defect::UnfencedCache, Path::Cache)
                | (Defect::UnfencedWebhook, Path::Webhook)
                | (Defect::UnfencedAdmin, Path::Admin)
        )
    }

    /// The mark that a write to `key` is held against, where the record says `stored`.
    pub(crate) fn mark(self, key: &str, stored: u64, memory: &Memory) -> u64 {
        match self {
            Defect::GlobalHighWater => memory.highest.max(stored),
            Defect::MarkExpires => {
                let touched = memory.touched.get(key);
                let fresh = touched.is_some_and(|touched| touched.elapsed() < MARK_LASTS);
                if fresh { stored } else { 0 }
            }
            _ => stored,
        }
    }

    /// What stands in the place of [`fence::decide`] under this defect.
    pub(crate) fn decide(self, token: u64, high_water: u64) -> Decision {
        let accept = match self {
            // Whoever passed the check writes.
            Defect::Unfenced | Defect::CheckThenWrite => true,
            Defect::StrictlyGreater => token > high_water || high_water == 0,
            Defect::NarrowMark => narrow(token) >= narrow(high_water),
            Defect::FloatMark => token as f64 >= high_water as f64,
            Defect::StringCompare => token.to_string() >= high_water.to_string(),
            _ => return fence::decide(token, high_water),
        };
        if accept {
            Decision::Accept
        } else {
            Decision::Refuse
        }
    }

    /// The mark that is kept after an accepted write of `token` to `key`.
    pub(crate) fn mark_after(self, key: &str, token: u64, memory: &mut Memory) -> u64 {
        match self {
            Defect::NarrowMark => narrow(token),
            Defect::FloatMark => token as f64 as u64,
            Defect::GlobalHighWater => {
                memory.highest = memory.highest.max(token);
                token
            }
            Defect::MarkExpires => {
                memory.touched.insert(key.to_owned(), Instant::now());
                token
            }
            Defect::Poison => {
                let writes = memory.writes.entry(key.to_owned()).or_default();
                *writes += 1;
                if *writes == WRITES_BEFORE_STRAY {
                    STRAY_TOKEN
                } else {
                    token
                }
            }
            _ => token,
        }
    }

    /// Whether a write that has just been applied is answered with a refusal.
    pub(crate) fn denies(self, memory: &mut Memory) -> bool {
        if self != Defect::RefusesAfterApplying {
            return false;
        }
        memory.applied += 1;
        memory.applied.is_multiple_of(APPLIED_BEFORE_NO)
    }
}

/// What is left of a number in a signed column of 32 bits whose sign is not looked at.
fn narrow(number: u64) -> u64 {
    number & 0x7fff_ffff
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
    use super::{DEFECTS, Defect, Memory};

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
            format!(
                "the fenced resource has no defect `unfensed`; it has: {}",
                super::known_names()
            )
        );
        assert!(error.to_string().contains("unfenced, check-then-write, "));
    }

    #[test]
    fn each_defect_of_the_comparison_is_wrong_where_its_line_says_and_right_elsewhere() {
        use crate::fence::{self, Decision::*};
        let two = |power: u32| 1_u64 << power;
        let wrong = [
            (Defect::Unfenced, 1, 2, Accept),
            (Defect::StrictlyGreater, 2, 2, Refuse),
            (Defect::NarrowMark, 1, two(31), Accept),
            (Defect::NarrowMark, two(31), two(31) - 1, Refuse),
            (Defect::FloatMark, two(53), two(53) + 1, Accept),
            (Defect::StringCompare, 9, 10, Accept),
            (Defect::StringCompare, 10, 9, Refuse),
        ];
        for (defect, token, mark, decision) in wrong {
            assert_eq!(defect.decide(token, mark), decision, "{defect}");
            assert_ne!(fence::decide(token, mark), decision, "{defect}");
        }
        for (token, mark) in [(3, 2), (2, 3), (1, 0)] {
            for &defect in Defect::ALL {
                if !matches!(defect, Defect::Unfenced | Defect::CheckThenWrite) {
                    assert_eq!(defect.decide(token, mark), fence::decide(token, mark));
                }
            }
        }
    }

    #[test]
    fn a_mark_kept_too_narrow_says_another_number() {
        let mut memory = Memory::default();
        let two = |power: u32| 1_u64 << power;
        let mut kept = |defect: Defect, token| defect.mark_after("k", token, &mut memory);
        assert_eq!(kept(Defect::NarrowMark, two(31) + 5), 5);
        assert_eq!(kept(Defect::FloatMark, two(53) + 1), two(53));
        assert_eq!(kept(Defect::StringCompare, two(53) + 1), two(53) + 1);
    }

    #[test]
    fn a_stray_token_is_believed_once_and_only_under_poison() {
        let mut memory = Memory::default();
        let marks: Vec<u64> = (0..super::WRITES_BEFORE_STRAY + 1)
            .map(|_| Defect::Poison.mark_after("k", 7, &mut memory))
            .collect();
        let strays = marks.iter().filter(|&&mark| mark == super::STRAY_TOKEN);
        assert_eq!(strays.count(), 1);
        assert_eq!(Defect::Unfenced.mark_after("k", 7, &mut memory), 7);
    }

    #[test]
    fn one_mark_for_all_keys_is_the_highest_of_any() {
        let mut memory = Memory::default();
        let global = Defect::GlobalHighWater;
        assert_eq!(global.mark_after("a", 9, &mut memory), 9);
        assert_eq!(global.mark("b", 1, &memory), 9);
        assert_eq!(
            Defect::MarkExpires.mark("b", 1, &memory),
            0,
            "never touched"
        );
    }
}
