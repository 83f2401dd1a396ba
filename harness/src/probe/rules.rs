//! The rules in their order, and what a row of the table says.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::asked::Asked;
use super::{Notes, Subject, fence, numbers, races, wire};
use crate::error::HarnessError;

/// What the resource does for one rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    /// It keeps it.
    Kept,
    /// It breaks it.
    Broken,
    /// It does as the rules ask, and that is dangerous all the same.
    Warning,
    /// Either is right; this is what it does.
    Seen,
    /// It could not be asked, or too few answers say anything.
    NotAsked,
}

impl Answer {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Broken => "broken",
            Self::Warning => "warning",
            Self::Seen => "seen",
            Self::NotAsked => "not asked",
        }
    }
}

/// A row of the table.
#[derive(Clone, Debug)]
pub struct Rule {
    /// What the rule asks for.
    pub name: &'static str,
    /// What the resource does.
    pub answer: Answer,
    /// How often, or what it did instead.
    pub detail: String,
}

impl Rule {
    pub(super) fn new(name: &'static str, answer: Answer, detail: impl Into<String>) -> Self {
        Self {
            name,
            answer,
            detail: detail.into(),
        }
    }

    pub(super) fn not_asked(name: &'static str, why: impl Into<String>) -> Self {
        Self::new(name, Answer::NotAsked, why)
    }
}

/// Everything that was asked.
#[derive(Clone, Debug)]
pub struct Table {
    /// The rows.
    pub rules: Vec<Rule>,
    /// Why nothing was asked after the first row.
    pub stopped: Option<String>,
}

impl Table {
    /// The rules without which a fence is none: a table in which one of them was not answered proves nothing.
    const CORE: [&str; 2] = [fence::STALE, races::HIGHER_STAYS];

    /// Whether every rule that makes a fence was kept.
    #[must_use]
    pub fn is_a_fence(&self) -> bool {
        let kept = |name| {
            let mut rules = self.rules.iter();
            rules.any(|rule| rule.name == name && rule.answer == Answer::Kept)
        };
        Self::CORE.into_iter().all(kept)
    }
}

/// The answers to one rule that is asked several times.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) asked: u64,
    pub(super) wrong: u64,
    pub(super) unknown: u64,
    /// What was heard the first time that it was no answer.
    pub(super) heard: Option<String>,
}

impl Tally {
    pub(super) fn right(&mut self) {
        self.asked += 1;
    }

    pub(super) fn wrong(&mut self) {
        self.asked += 1;
        self.wrong += 1;
    }

    pub(super) fn unknown(&mut self, heard: Option<String>) {
        self.asked += 1;
        self.unknown += 1;
        self.heard = self.heard.take().or(heard);
    }

    pub(super) fn add(&mut self, other: Self) {
        self.asked += other.asked;
        self.wrong += other.wrong;
        self.unknown += other.unknown;
        self.heard = self.heard.take().or(other.heard);
    }

    /// One wrong answer breaks the rule; it is kept if more than half of the answers say so, and the others nothing.
    pub(super) fn rule(self, name: &'static str) -> Rule {
        let Self {
            asked,
            wrong,
            unknown,
            heard,
        } = self;
        let right = asked - wrong - unknown;
        let answer = match wrong {
            0 if right <= unknown => Answer::NotAsked,
            0 => Answer::Kept,
            _ => Answer::Broken,
        };
        let mut detail = format!("{right} of {asked}");
        if unknown > 0 {
            detail += &format!(", {unknown} without an answer");
        }
        if let Some(heard) = heard {
            detail += &format!(" ({heard})");
        }
        Rule::new(name, answer, detail)
    }
}

/// How long a mark must outlive its last write, beside everything else that is asked.
const QUIET: Duration = Duration::from_secs(1);

/// Asks for every rule. `rounds` are races, each on a fresh key.
///
/// # Errors
/// When the resource does not come back from a restart, or no client can be made.
pub async fn ask(
    subject: &mut Subject,
    notes: &Arc<Notes>,
    rounds: u32,
) -> Result<Table, HarnessError> {
    let asked = Asked::of(subject, notes)?;
    let (first, stopped) = fence::understood(&asked, subject.http().is_some()).await;
    let mut rules = vec![first];
    if stopped.is_some() {
        return Ok(Table { rules, stopped });
    }
    let left_alone = fence::leave_alone(&asked).await;
    let since = Instant::now();
    rules.extend([
        fence::stale(&asked).await,
        fence::same_again(&asked).await,
        fence::equal(&asked).await,
        races::equal_at_once(&asked).await,
        races::higher_stays(subject, notes, rounds).await?,
        numbers::as_numbers(&asked).await,
        fence::keys_apart(&asked).await,
    ]);
    rules.extend(numbers::widths(&asked).await);
    rules.push(numbers::busy(&asked).await);
    rules.push(numbers::huge(&asked).await);
    rules.extend(wire::malformed(&asked, subject.http().as_deref()).await);
    rules.extend(wire::paths(&asked, subject.http().as_deref()).await);
    tokio::time::sleep(QUIET.saturating_sub(since.elapsed())).await;
    rules.push(fence::after_a_while(&asked, left_alone).await);
    let before = fence::before_restart(&asked).await;
    rules.push(match subject.restart().await? {
        true => {
            // Connections to the process that was killed are no use any more.
            let asked = Asked::of(subject, notes)?;
            fence::after_restart(&asked, before).await
        }
        false => Rule::not_asked(fence::RESTARTED, "it is not the probe's to restart"),
    });
    Ok(Table { rules, stopped })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tallied(right: u64, wrong: u64, unknown: u64) -> Rule {
        let heard = (unknown > 0).then(|| "HTTP 404".to_owned());
        let tally = Tally {
            asked: right + wrong + unknown,
            wrong,
            unknown,
            heard,
        };
        tally.rule("r")
    }

    #[test]
    fn what_nobody_answered_is_not_kept() {
        for (right, wrong, unknown, answer) in [
            (20, 0, 0, Answer::Kept),
            (19, 0, 1, Answer::Kept),
            (10, 0, 10, Answer::NotAsked),
            (0, 0, 20, Answer::NotAsked),
            (0, 0, 0, Answer::NotAsked),
            (0, 1, 19, Answer::Broken),
        ] {
            let rule = tallied(right, wrong, unknown);
            assert_eq!(rule.answer, answer, "{rule:?}");
        }
        assert_eq!(
            tallied(19, 0, 1).detail,
            "19 of 20, 1 without an answer (HTTP 404)"
        );
    }

    #[test]
    fn a_table_without_a_refusal_is_no_fence_however_much_of_the_rest_was_kept() {
        let row = |name, answer| Rule::new(name, answer, "");
        let table = |answer| Table {
            rules: vec![
                row(fence::STALE, answer),
                row(races::HIGHER_STAYS, Answer::Kept),
                row(fence::RESTARTED, Answer::NotAsked),
            ],
            stopped: None,
        };
        assert!(table(Answer::Kept).is_a_fence());
        assert!(!table(Answer::NotAsked).is_a_fence());
    }
}
