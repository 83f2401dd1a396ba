//! The verdict and its cause in one sentence, with the denominators.

use fencepost_checker::finding::Severity;
use fencepost_checker::verdict::{Judgement, Verdict};

use crate::run_record::RunRecord;

use super::plain::{counted, grouped, plain};
use super::terminal::times;

/// One line for terminals and for the top of a report. Control characters of names are written as escapes.
///
/// ```text
/// valid: 214 stale writes attempted, 214 refused; 4,000 operations, 190 grants, 34 of 36 planned faults installed
/// invalid: stale-write-accepted (3 times); 214 stale writes attempted, 211 refused; ...
/// unknown: no zombie write was seen; 0 stale writes attempted, 0 refused; ...
/// ```
#[must_use]
pub fn headline(judgement: &Judgement) -> String {
    let verdict = verdict_word(judgement.verdict);
    match cause(judgement) {
        Some(cause) => format!(
            "{verdict}: {}; {}",
            plain(cause.trim_end_matches(['.', ' ', '\n']), 400),
            denominators(judgement)
        ),
        None => format!("{verdict}: {}", denominators(judgement)),
    }
}

/// The headline of a run: of one that failed, what went wrong comes first, because what was recorded is not the whole
/// truth then. A proven violation is the truth all the same.
///
/// ```text
/// failed: w3: closed its standard output; as far as it was recorded, valid: 7 stale writes attempted, ...
/// ```
#[must_use]
pub fn run_headline(run: &RunRecord, judgement: &Judgement) -> String {
    let headline = headline(judgement);
    match run.troubles.first() {
        Some(trouble) if judgement.verdict != Verdict::Invalid => {
            format!(
                "{FAILED}: {}; as far as it was recorded, {headline}",
                plain(trouble, 400)
            )
        }
        _ => headline,
    }
}

/// The word of a run that failed and in which no violation is proven.
pub const FAILED: &str = "failed";

/// The same for a history of which only the register was judged: neither grants nor zombies count there.
///
/// ```text
/// valid: 9 operations on 2 keys
/// ```
#[must_use]
pub fn register_headline(judgement: &Judgement) -> String {
    let verdict = verdict_word(judgement.verdict);
    let (operations, keys) = (
        counted(judgement.stats.operations, "operation"),
        counted(judgement.stats.keys, "key"),
    );
    let cause = cause(judgement).map_or(String::new(), |cause| format!("{}; ", plain(&cause, 400)));
    format!("{verdict}: {cause}{operations} on {keys}")
}

/// `valid`, `invalid` or `unknown`.
#[must_use]
pub fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Valid => "valid",
        Verdict::Invalid => "invalid",
        Verdict::Unknown => "unknown",
    }
}

/// The judge's own reason, else what it found or missed.
fn cause(judgement: &Judgement) -> Option<String> {
    judgement
        .reason
        .clone()
        .or_else(|| match judgement.verdict {
            Verdict::Valid => None,
            Verdict::Invalid => Some(violations(judgement)),
            Verdict::Unknown => Some(
                judgement
                    .coverage
                    .unexercised
                    .first()
                    .cloned()
                    .unwrap_or_else(|| "nothing was proven either way".to_owned()),
            ),
        })
}

/// The violations that follow from no other, with their counts.
fn violations(judgement: &Judgement) -> String {
    let roots = judgement
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Violation && finding.cause.is_none());
    let named: Vec<String> = roots
        .map(|finding| format!("{} ({})", finding.finding, times(finding.count)))
        .collect();
    if named.is_empty() {
        "a violation is proven".to_owned()
    } else {
        named.join(", ")
    }
}

fn denominators(judgement: &Judgement) -> String {
    let (coverage, stats) = (&judgement.coverage, &judgement.stats);
    let attempted = counted(coverage.zombie_writes, "stale write");
    let mut text = format!(
        "{attempted} attempted, {} refused; {}, {}",
        grouped(coverage.zombie_writes_refused),
        counted(stats.operations, "operation"),
        counted(stats.grants, "grant")
    );
    let (planned, installed) = coverage
        .faults
        .values()
        .fold((0, 0), |(planned, installed), fault| {
            (planned + fault.planned, installed + fault.installed)
        });
    if planned > 0 {
        text.push_str(&format!(
            ", {} of {} installed",
            grouped(installed),
            counted(planned, "planned fault")
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::sample::{judgement, stale_write_accepted};
    use super::*;

    #[test]
    fn a_valid_run_names_its_denominators() {
        assert_eq!(
            headline(&judgement(Vec::new())),
            "valid: 214 stale writes attempted, 214 refused; 4,000 operations, 190 grants, 1 of 2 planned faults installed"
        );
    }

    #[test]
    fn an_invalid_run_names_its_cause_first() {
        assert_eq!(
            headline(&judgement(vec![stale_write_accepted()])),
            "invalid: stale-write-accepted (3 times); 214 stale writes attempted, 211 refused; 4,000 operations, 190 grants, 1 of 2 planned faults installed"
        );
    }

    #[test]
    fn the_reason_of_the_judge_goes_first_and_breaks_no_line() {
        let reason = Some("the fence was not exercised\u{1b}[2J.\n".to_owned());
        let unknown = Judgement {
            verdict: Verdict::Unknown,
            reason,
            ..judgement(Vec::new())
        };
        let line = headline(&unknown);
        assert!(
            line.starts_with("unknown: the fence was not exercised\\u{1b}[2J; 214 stale"),
            "{line}"
        );
    }
}
