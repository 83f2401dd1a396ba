//! Workflow commands that GitHub Actions turns into annotations of a run: one line each, on standard output.
//!
//! Nothing that a recording says can become a command of its own: lines and the signs of a command are escaped, and
//! [`quoted`] stops commands while other text is printed.

use fencepost_checker::finding::{Finding, Severity};
use fencepost_checker::verdict::{Judgement, Verdict};

use super::headline::headline;
use super::plain::{plain, plain_lines};
use super::terminal::severity_word;
use crate::run_record::RunRecord;

/// GitHub shows ten of a kind for each step; more would only push out what other steps have to say.
const MOST: usize = 9;

/// One annotation for the verdict and one for each finding, roots first, each line ended.
///
/// ```text
/// ::error title=fencepost%3A invalid::stale-write-accepted on key s; 214 stale writes attempted, ...
/// ::error title=violation%3A stale-write-accepted::c1 was granted token 1 ...%0Ac2 ...
/// ```
#[must_use]
pub fn github(judgement: &Judgement) -> String {
    let mut lines = vec![of_verdict(judgement)];
    lines.extend(of_findings(judgement));
    lines.concat()
}

/// The same for a run, of which what went wrong with it comes first.
#[must_use]
pub fn github_run(run: &RunRecord, judgement: &Judgement) -> String {
    let troubles = run.troubles.iter().take(MOST);
    let mut lines: Vec<String> = troubles
        .map(|trouble| command("error", "fencepost: the run failed", trouble))
        .collect();
    if lines.is_empty() || judgement.verdict == Verdict::Invalid {
        lines.push(of_verdict(judgement));
    }
    lines.extend(of_findings(judgement));
    lines.concat()
}

fn of_verdict(judgement: &Judgement) -> String {
    let level = match judgement.verdict {
        Verdict::Valid => "notice",
        // A run that proves nothing fails its job, so it says why as loudly as a broken one.
        Verdict::Invalid | Verdict::Unknown => "error",
    };
    let sentence = headline(judgement);
    let (verdict, rest) = sentence.split_once(": ").unwrap_or((&sentence, ""));
    command(level, &format!("fencepost: {verdict}"), rest)
}

fn of_findings(judgement: &Judgement) -> Vec<String> {
    let mut lines = Vec::new();
    let mut findings: Vec<&Finding> = judgement.findings.iter().collect();
    // Stable: within both groups the most severe stay first.
    findings.sort_by_key(|finding| finding.cause.is_some());
    lines.extend(findings.iter().take(MOST).map(|finding| of(finding)));
    let rest = findings.len().saturating_sub(MOST);
    if rest > 0 {
        let words = format!("{rest} more findings are in the report");
        lines.push(command("notice", "fencepost", &words));
    }
    lines
}

/// `text` between two commands that make the runner take nothing in it for a command. `word` must be one that
/// `text` cannot know.
#[must_use]
pub fn quoted(text: &str, word: &str) -> String {
    format!("::stop-commands::{word}\n{text}::{word}::\n")
}

fn of(finding: &Finding) -> String {
    let level = match finding.severity {
        Severity::Violation => "error",
        Severity::Warning => "warning",
        Severity::Observation => "notice",
    };
    let title = format!("{}: {}", severity_word(finding.severity), finding.finding);
    command(
        level,
        &title,
        &plain_lines(&finding.story, 400, 20).join("\n"),
    )
}

fn command(level: &str, title: &str, message: &str) -> String {
    let title = escaped(&plain(title, 120))
        .replace(':', "%3A")
        .replace(',', "%2C");
    format!("::{level} title={title}::{}\n", escaped(message))
}

fn escaped(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use super::super::sample::{judgement, run, stale_write_accepted};
    use super::*;

    #[test]
    fn the_verdict_comes_first_and_each_finding_is_one_line() {
        let mut warning = stale_write_accepted();
        (warning.severity, warning.finding) = (Severity::Warning, "hot-retry".to_owned());
        let text = github(&judgement(vec![stale_write_accepted(), warning]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(
            lines[0].starts_with(
                "::error title=fencepost%3A invalid::stale-write-accepted (3 times); "
            ),
            "{text}"
        );
        assert_eq!(
            lines[1],
            "::error title=violation%3A stale-write-accepted::at 0 ms c1 was granted 41.%0Aat 1.1 s c2 was granted 42 and wrote.%0Aat 1.3 s c1 wrote under 41: accepted."
        );
        assert!(
            lines[2].starts_with("::warning title=warning%3A hot-retry::"),
            "{text}"
        );
    }

    #[test]
    fn a_run_that_failed_is_an_error_and_never_called_valid_and_a_violation_is_told_besides() {
        let failed = RunRecord {
            troubles: vec!["w2: closed its standard output".to_owned()],
            ..run()
        };
        let quiet = github_run(&failed, &judgement(Vec::new()));
        assert_eq!(
            quiet,
            "::error title=fencepost%3A the run failed::w2: closed its standard output\n"
        );
        let violated = github_run(&failed, &judgement(vec![stale_write_accepted()]));
        assert!(violated.starts_with(&quiet), "{violated}");
        assert!(
            violated.contains("::error title=fencepost%3A invalid::"),
            "{violated}"
        );
        let fine = judgement(Vec::new());
        assert_eq!(github_run(&run(), &fine), github(&fine));
    }

    #[test]
    fn a_valid_run_is_a_notice_and_one_that_proves_nothing_is_an_error() {
        let valid = github(&judgement(Vec::new()));
        assert!(
            valid.starts_with("::notice title=fencepost%3A valid::214 stale writes"),
            "{valid}"
        );
        let unknown = Judgement {
            verdict: Verdict::Unknown,
            ..judgement(Vec::new())
        };
        assert!(github(&unknown).starts_with("::error title=fencepost%3A unknown::"));
    }

    #[test]
    fn no_text_becomes_a_command() {
        let mut finding = stale_write_accepted();
        finding.finding = "x::error file=a,line=1::\r\n::warning::".to_owned();
        finding.story = "50 %\n::error::gotcha\r\n::set-output name=a::b".to_owned();
        let text = github(&judgement(vec![finding]));
        assert_eq!(text.lines().count(), 2, "{text}");
        let line = text.lines().nth(1).expect("there are two");
        assert!(
            line.starts_with("::error title=violation%3A x%3A%3Aerror file=a%2Cline=1%3A%3A\\r\\n%3A%3Awarning%3A%3A::50 %25%0A::error::gotcha%0A"),
            "{line}"
        );
        assert_eq!(
            quoted("::error::x\n", "w0rd"),
            "::stop-commands::w0rd\n::error::x\n::w0rd::\n"
        );
    }

    #[test]
    fn many_findings_are_cut_and_counted() {
        let text = github(&judgement(vec![stale_write_accepted(); 12]));
        assert_eq!(text.matches("::error title=violation").count(), MOST);
        assert!(
            text.ends_with("::notice title=fencepost::3 more findings are in the report\n"),
            "{text}"
        );
    }
}
