//! What `run` and `check` print: findings with their stories, and the denominators.

use fencepost_checker::finding::{Finding, Severity};
use fencepost_checker::history::History;
use fencepost_checker::verdict::Judgement;

use super::plain::{counted, grouped, plain};
use super::zombies::zombies;

/// A finding with its story, several lines without a last newline. Control characters of names are written as escapes.
#[must_use]
pub fn finding_text(finding: &Finding) -> String {
    let mut text = format!(
        "{} {}, seen {}",
        severity_word(finding.severity),
        plain(&finding.finding, 60),
        times(finding.count)
    );
    for (what, name) in [("lock", &finding.lock), ("key", &finding.key)] {
        text.extend(
            name.iter()
                .map(|name| format!(", {what} {}", plain(name, 60))),
        );
    }
    text.extend(
        finding
            .story
            .lines()
            .map(|line| format!("\n    {}", plain(line, 400))),
    );
    text
}

/// `violation`, `warning` or `observation`.
#[must_use]
pub fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Observation => "observation",
        Severity::Warning => "warning",
        Severity::Violation => "violation",
    }
}

/// `once` or `3 times`.
#[must_use]
pub fn times(count: u64) -> String {
    if count == 1 {
        "once".to_owned()
    } else {
        counted(count, "time")
    }
}

/// Keys that were not judged exactly, or not to their end, one line each; empty where all were.
#[must_use]
pub fn not_judged_text(judgement: &Judgement) -> String {
    let lines = judgement.stats.not_judged.iter();
    lines
        .map(|why| format!("not judged     {}\n", plain(why, 400)))
        .collect()
}

/// How much was done, one line a thing, the words in a column of 15; without a last newline.
#[must_use]
pub fn denominators(history: &History, judgement: &Judgement) -> String {
    let (stats, coverage) = (&judgement.stats, &judgement.coverage);
    let expected = coverage
        .zombie_writes_expected
        .map_or(String::new(), |expected| {
            format!(" (at least {} expected)", grouped(expected))
        });
    let mut rows = vec![(
        "stale writes",
        format!(
            "{} attempted, {} refused{expected}",
            grouped(coverage.zombie_writes),
            grouped(coverage.zombie_writes_refused)
        ),
    )];
    let zombies: Vec<_> = zombies(history)
        .into_iter()
        .filter(|zombie| zombie.completed)
        .collect();
    if !zombies.is_empty() {
        let first = zombies.iter().filter(|zombie| zombie.refused_first).count();
        rows.push(("zombies", format!("{} stopped and woken, of whom {first} wrote before anything else and met a refusal", zombies.len())));
    }
    rows.push((
        "operations",
        format!(
            "{}: {} ok, {} failed, {} unknown",
            grouped(stats.operations),
            grouped(stats.ok),
            grouped(stats.failed),
            grouped(stats.unknown)
        ),
    ));
    rows.push((
        "grants",
        format!(
            "{} of {} to {}",
            grouped(stats.grants),
            counted(stats.locks, "lock"),
            counted(stats.clients, "client")
        ),
    ));
    rows.push((
        "writes",
        format!(
            "{} to {}, {} refused by the fence",
            grouped(stats.writes),
            counted(stats.keys, "key"),
            grouped(stats.refused)
        ),
    ));
    for (label, count) in &coverage.faults {
        let mut text = format!(
            "{}: {} of {} installed",
            plain(label, 40),
            grouped(count.installed),
            grouped(count.planned)
        );
        for (number, word) in [
            (count.skipped, "skipped"),
            (count.unknown, "without evidence"),
        ] {
            if number > 0 {
                text.push_str(&format!(", {} {word}", grouped(number)));
            }
        }
        rows.push(("fault", text));
    }
    rows.into_iter()
        .map(|(word, text)| format!("{word:<15}{text}"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::sample::{judgement, stale_write_accepted, zombie_refused};
    use super::*;

    #[test]
    fn a_finding_is_told_with_its_story_indented() {
        let mut finding = stale_write_accepted();
        finding.story.push_str("\n\u{1b}[2J");
        assert_eq!(
            finding_text(&finding),
            "violation stale-write-accepted, seen 3 times, lock s, key s\n    at 0 ms c1 was granted 41.\n    at 1.1 s c2 was granted 42 and wrote.\n    \
             at 1.3 s c1 wrote under 41: accepted.\n    \\u{1b}[2J"
        );
    }

    #[test]
    fn denominators_stand_in_columns() {
        let mut judgement = judgement(Vec::new());
        (
            judgement.stats.locks,
            judgement.stats.clients,
            judgement.stats.keys,
        ) = (1, 2, 1);
        assert_eq!(
            denominators(&zombie_refused().history(), &judgement),
            "stale writes   214 attempted, 214 refused (at least 5 expected)\n\
             zombies        1 stopped and woken, of whom 1 wrote before anything else and met a refusal\n\
             operations     4,000: 3,500 ok, 400 failed, 100 unknown\n\
             grants         190 of 1 lock to 2 clients\n\
             writes         2,000 to 1 key, 230 refused by the fence\n\
             fault          zombie: 1 of 2 installed, 1 skipped"
        );
    }
}
