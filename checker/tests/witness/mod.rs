//! A finding's witness alone: the lines that it names, with the header, still prove it.

use fencepost_checker::finding::{Finding, Severity};
use fencepost_checker::history::History;
use fencepost_checker::verdict::Verdict;
use fencepost_checker::{Model, judge};
use serde_json::Value;

/// What is wrong with the witness of a finding among these lines, if anything is.
pub fn complaint(lines: &[&str], finding: &Finding) -> Option<String> {
    let of_witness = |line: &&&str| {
        let value: Value = serde_json::from_str(line).unwrap_or_default();
        let named = |index: u64| finding.events.contains(&index);
        value["type"] == "header"
            || (value["type"] != "fault" && value["index"].as_u64().is_some_and(named))
    };
    let alone: Vec<&str> = lines.iter().filter(of_witness).copied().collect();
    let history = match History::read(alone.join("\n").as_bytes()) {
        Ok(history) => history,
        Err(error) => return Some(format!("{}: {error}", finding.finding)),
    };
    // What is left of a key may break a rule with a name of its own, so its register is asked itself.
    let model = if finding.finding == "not-linearizable" && !finding_is_of_a_log(&alone) {
        Model::FencedRegister
    } else {
        Model::Fencing
    };
    let judgement = judge(&history, model);
    let again = judgement.findings.iter().any(|other| {
        (&other.finding, other.severity, &other.key)
            == (&finding.finding, finding.severity, &finding.key)
    });
    let blamed = finding.severity != Severity::Violation || judgement.verdict == Verdict::Invalid;
    (!again || !blamed).then(|| {
        let found: Vec<_> = judgement.findings.iter().map(|f| &f.finding).collect();
        format!(
            "{} on {:?}: its witness alone gives {found:?}\n{}",
            finding.finding,
            finding.key,
            alone.join("\n")
        )
    })
}

fn finding_is_of_a_log(lines: &[&str]) -> bool {
    lines.iter().any(|line| line.contains("\"append\""))
}
