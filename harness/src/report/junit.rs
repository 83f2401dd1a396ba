//! `junit.xml`: a run as a test suite, one case a rule, so that any CI shows which rule was broken, with the story.
//!
//! A rule that was broken is a failure. That the fence was exercised as planned is a case of its own, and an error
//! where it was not: a run that proves nothing must not look green.

use fencepost_checker::fencing::FINDINGS;
use fencepost_checker::finding::{Finding, Severity};
use fencepost_checker::verdict::{Judgement, Verdict};

use super::headline::headline;
use super::plain::{plain, plain_lines, xml};
use super::terminal::finding_text;
use crate::run_record::RunRecord;

/// The name of the case for coverage.
const EXERCISED: &str = "exercised";
/// At most so many findings of one rule are told.
const MOST_TOLD: usize = 10;

/// The document.
#[must_use]
pub fn junit(run: &RunRecord, judgement: &Judgement) -> String {
    let suite = format!("fencepost.{}", run.suite.name.as_str());
    let mut rules: Vec<&str> = FINDINGS.iter().map(|rule| rule.name).collect();
    // What another version of the rules found counts as well.
    for finding in &judgement.findings {
        if !rules.contains(&finding.finding.as_str()) {
            rules.push(&finding.finding);
        }
    }
    let mut cases: Vec<Case> = rules
        .iter()
        .map(|rule| Case::rule(rule, judgement))
        .collect();
    cases.push(Case::exercised(run, judgement));
    let count = |wanted: &str| {
        cases
            .iter()
            .filter(|case| case.fate == Some(wanted))
            .count()
    };
    let seconds = judgement.stats.duration_ns as f64 / 1e9;
    let attributes = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"0\" time=\"{seconds:.3}\"",
        cases.len(),
        count("failure"),
        count("error")
    );
    let told: String = cases.iter().map(|case| case.element(&suite)).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"fencepost\" {attributes}>\n\
         <testsuite name=\"{}\" {attributes} timestamp=\"{}\">\n<properties>\n{}</properties>\n{told}\
         <system-out>{}</system-out>\n</testsuite>\n</testsuites>\n",
        attribute(&suite),
        attribute(&run.started),
        properties(run),
        xml(&headline(judgement))
    )
}

fn properties(run: &RunRecord) -> String {
    let pairs = [
        ("run", run.run.clone()),
        ("seed", run.seed.to_string()),
        ("replay", run.replay.clone()),
    ];
    pairs
        .iter()
        .map(|(name, value)| {
            format!(
                "<property name=\"{name}\" value=\"{}\"/>\n",
                attribute(value)
            )
        })
        .collect()
}

/// One test case.
struct Case {
    name: String,
    /// `failure` or `error`; `None`: passed.
    fate: Option<&'static str>,
    message: String,
    /// What is inside of the failure or error.
    story: String,
    /// Warnings and observations.
    out: String,
}

impl Case {
    fn rule(rule: &str, judgement: &Judgement) -> Self {
        let (broken, noted): (Vec<&Finding>, Vec<&Finding>) = judgement
            .findings
            .iter()
            .filter(|finding| finding.finding == rule)
            .partition(|finding| finding.severity == Severity::Violation);
        let message = broken.first().map_or(String::new(), |first| {
            let text = finding_text(first);
            text.lines().next().unwrap_or_default().to_owned()
        });
        Self {
            name: rule.to_owned(),
            fate: (!broken.is_empty()).then_some("failure"),
            message,
            story: told(&broken),
            out: told(&noted),
        }
    }

    fn exercised(run: &RunRecord, judgement: &Judgement) -> Self {
        let mut lines = judgement.coverage.unexercised.clone();
        lines.extend(
            run.troubles
                .iter()
                .map(|trouble| format!("the run itself had trouble: {trouble}")),
        );
        if judgement.verdict == Verdict::Unknown && lines.is_empty() {
            lines.push(
                judgement
                    .reason
                    .clone()
                    .unwrap_or_else(|| "nothing was proven either way".to_owned()),
            );
        }
        Self {
            name: EXERCISED.to_owned(),
            fate: (!lines.is_empty()).then_some("error"),
            message: lines.first().cloned().unwrap_or_default(),
            story: plain_lines(&lines.join("\n"), 600, 40).join("\n"),
            out: run.ended_early.as_ref().map_or(String::new(), |why| {
                plain(&format!("ended early: {why}"), 600)
            }),
        }
    }

    fn element(&self, suite: &str) -> String {
        let fate = self.fate.map_or(String::new(), |fate| {
            format!(
                "<{fate} message=\"{}\" type=\"{}\">{}</{fate}>\n",
                attribute(&self.message),
                attribute(&self.name),
                xml(&self.story)
            )
        });
        let out = if self.out.is_empty() {
            String::new()
        } else {
            format!("<system-out>{}</system-out>\n", xml(&self.out))
        };
        format!(
            "<testcase classname=\"{}\" name=\"{}\" time=\"0\">\n{fate}{out}</testcase>\n",
            attribute(suite),
            attribute(&self.name)
        )
    }
}

fn told(findings: &[&Finding]) -> String {
    let mut texts: Vec<String> = findings
        .iter()
        .take(MOST_TOLD)
        .map(|finding| plain_lines(&finding_text(finding), 600, 40).join("\n"))
        .collect();
    let rest = findings.len().saturating_sub(MOST_TOLD);
    if rest > 0 {
        texts.push(format!("{rest} more in verdict.json"));
    }
    texts.join("\n\n")
}

fn attribute(text: &str) -> String {
    xml(&plain(text, 300))
}

#[cfg(test)]
mod tests {
    use super::super::sample::{judgement, run, stale_write_accepted};
    use super::*;

    fn unknown() -> Judgement {
        let mut judgement = judgement(Vec::new());
        judgement.verdict = Verdict::Unknown;
        judgement.coverage.unexercised = vec!["zombie writes: 0 of the 5 expected".to_owned()];
        judgement
    }

    #[test]
    fn a_valid_run_is_a_case_a_rule_and_one_for_coverage_and_all_pass() {
        let text = junit(&run(), &judgement(Vec::new()));
        assert_eq!(text.matches("<testcase ").count(), FINDINGS.len() + 1);
        let head = format!(
            "<testsuite name=\"fencepost.sample\" tests=\"{}\" failures=\"0\" errors=\"0\" skipped=\"0\"",
            FINDINGS.len() + 1
        );
        assert!(text.contains(&head), "{text}");
        assert!(!text.contains("<failure") && !text.contains("<error"));
        assert!(text.contains("name=\"exercised\""));
    }

    #[test]
    fn a_violation_is_a_failure_with_its_story_and_a_warning_is_only_told() {
        let mut warning = stale_write_accepted();
        warning.severity = Severity::Warning;
        warning.finding = "hot-retry".to_owned();
        let text = junit(&run(), &judgement(vec![stale_write_accepted(), warning]));
        assert!(text.contains("failures=\"1\" errors=\"0\""), "{text}");
        let failure = "<failure message=\"violation stale-write-accepted, seen 3 times, lock s, key s\" type=\"stale-write-accepted\">violation stale-write-accepted, seen 3 times, lock s, key s\n    at 0 ms c1 was granted 41.\n";
        assert!(text.contains(failure), "{text}");
        assert!(
            text.contains("name=\"hot-retry\" time=\"0\">\n<system-out>warning hot-retry"),
            "{text}"
        );
    }

    #[test]
    fn an_unknown_verdict_and_trouble_of_the_run_are_errors() {
        let text = junit(&run(), &unknown());
        assert!(
            text.contains("failures=\"0\" errors=\"1\"")
                && text.contains(
                    "<error message=\"zombie writes: 0 of the 5 expected\" type=\"exercised\">"
                ),
            "{text}"
        );
        let troubled = RunRecord {
            troubles: vec!["worker w2 died".to_owned()],
            ..run()
        };
        let text = junit(&troubled, &judgement(Vec::new()));
        assert!(
            text.contains("<error message=\"the run itself had trouble: worker w2 died\""),
            "{text}"
        );
        let mut silent = unknown();
        silent.coverage.unexercised.clear();
        assert!(
            junit(&run(), &silent).contains("<error message=\"nothing was proven either way\"")
        );
    }

    #[test]
    fn hostile_text_is_neither_markup_nor_illegal_xml() {
        let evil = "]]></failure><script>\u{0}\u{1b}\u{202e}\"'&";
        let mut finding = stale_write_accepted();
        finding.finding = evil.to_owned();
        finding.story = evil.to_owned();
        finding.lock = Some(evil.repeat(1_000));
        let text = junit(&run(), &judgement(vec![finding]));
        assert_eq!(text.matches("<failure").count(), 1);
        assert_eq!(text.matches("</failure>").count(), 1);
        assert!(!text.contains("<script") && !text.contains("]]>"));
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'));
        assert_eq!(text.matches("<testcase ").count(), FINDINGS.len() + 2);
    }
}
