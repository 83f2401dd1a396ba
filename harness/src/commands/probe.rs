//! `fencepost probe`: what a resource does for each rule of the fence, without a lock service.

use std::fmt::Write as _;

use fencepost_checker::verdict::{Judgement, Verdict};

use crate::cli::ProbeArguments;
use crate::error::HarnessError;
use crate::probe::{Answer, Notes, Rule, Subject, ask};
use crate::report;
use crate::runtime;
use crate::terminal::{complain, print, say};

/// Asks, prints a table and the findings, and returns the exit status.
///
/// # Errors
/// When a flag means nothing, or the resource does not serve.
pub fn probe(arguments: &ProbeArguments) -> Result<u8, HarnessError> {
    if let Some(defect) = &arguments.defect
        && !fencepost_fenced_resource::DEFECTS
            .iter()
            .any(|(name, _)| name == defect)
    {
        return Err(HarnessError::Usage(format!(
            "--defect: no {defect:?} of the resource; see `fencepost list defects`"
        )));
    }
    let runtime = runtime::on_two_threads()?;
    let (name, notes, rules) = runtime.block_on(async {
        let mut subject = Subject::open(arguments).await?;
        let (name, notes) = (subject.name(), Notes::default());
        complain(format_args!("{name}, {} rounds", arguments.rounds));
        let rules = ask(&mut subject, &notes, arguments.rounds).await;
        subject.close().await;
        Ok::<_, HarnessError>((name, notes, rules?))
    })?;
    let judgement = notes
        .judged()
        .map_err(|error| HarnessError::Internal(error.to_string()))?;
    if arguments.json {
        say(json(&name, &rules, &judgement));
    } else {
        print(&text(&name, notes.operations(), &rules, &judgement));
    }
    Ok(status(&rules, &judgement))
}

fn status(rules: &[Rule], judgement: &Judgement) -> u8 {
    let any = |answer| rules.iter().any(|rule| rule.answer == answer);
    if any(Answer::Broken) || judgement.verdict == Verdict::Invalid {
        return Verdict::Invalid.exit_code();
    }
    match any(Answer::Kept) {
        true => Verdict::Valid.exit_code(),
        false => Verdict::Unknown.exit_code(),
    }
}

fn text(name: &str, operations: usize, rules: &[Rule], judgement: &Judgement) -> String {
    let mut text = format!("{name}: {operations} operations\n\n");
    for Rule {
        name,
        answer,
        detail,
    } in rules
    {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:10}{name:46}{detail}", answer.word());
    }
    for finding in &judgement.findings {
        let _ = writeln!(text, "\n{}", report::finding_text(finding));
    }
    text
}

fn json(name: &str, rules: &[Rule], judgement: &Judgement) -> serde_json::Value {
    let rules: Vec<_> = rules
        .iter()
        .map(|rule| {
            serde_json::json!({
                "rule": rule.name,
                "answer": rule.answer.word(),
                "detail": rule.detail,
            })
        })
        .collect();
    serde_json::json!({
        "resource": name,
        "verdict": judgement.verdict,
        "rules": rules,
        "findings": judgement.findings,
        "stats": judgement.stats,
    })
}
