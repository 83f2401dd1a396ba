//! `fencepost probe`: what a resource does for each rule of the fence, without a lock service.

use std::fmt::Write as _;
use std::sync::Arc;

use fencepost_checker::verdict::{Judgement, Verdict};

use crate::cli::ProbeArguments;
use crate::error::HarnessError;
use crate::guardian::let_signals_in;
use crate::probe::{Answer, Notes, Rule, Subject, Table, ask};
use crate::report;
use crate::runtime;
use crate::terminal::{complain, print, say_json};

/// Asks, prints a table and the findings, and returns the exit status.
///
/// # Errors
/// When a flag means nothing, or the resource does not serve.
pub fn probe(arguments: &ProbeArguments) -> Result<u8, HarnessError> {
    // They end it, and its guardian what it has started.
    let_signals_in();
    if let Some(defect) = &arguments.defect
        && !fencepost_fenced_resource::DEFECTS
            .iter()
            .any(|(name, _)| name == defect)
    {
        return Err(HarnessError::Usage(format!(
            "--defect: no {defect:?} of the resource; see `fencepost list defects`"
        )));
    }
    if let (Some(defect), Some("none")) = (&arguments.defect, arguments.fence.as_deref()) {
        return Err(HarnessError::Usage(format!(
            "--fence none takes the fence out, --defect {defect} breaks it: one of the two is right"
        )));
    }
    if arguments.resource == "reference"
        && let Some(fence) = &arguments.fence
        && (arguments.address.is_some() || fence != "none")
    {
        return Err(HarnessError::Usage(format!(
            "--fence {fence}: the reference resource has its own fence, and only one that the probe starts can be without (--fence none): leave --fence out"
        )));
    }
    let runtime = runtime::on_two_threads()?;
    let (name, notes, table) = runtime.block_on(async {
        let mut subject = Subject::open(arguments).await?;
        let (name, notes) = (subject.name(), Arc::<Notes>::default());
        complain(format_args!("{name}, {} rounds", arguments.rounds));
        let table = ask(&mut subject, &notes, arguments.rounds).await;
        if subject.keeps_keys() && table.as_ref().is_ok_and(|table| table.stopped.is_none()) {
            let prefix = subject.prefix();
            complain(format_args!("its keys stay there: all begin with {prefix}"));
        }
        subject.close().await;
        Ok::<_, HarnessError>((name, notes, table?))
    })?;
    let judgement = notes
        .judged()
        .map_err(|error| HarnessError::Internal(error.to_string()))?;
    let (verdict, reason) = verdict(&table, &judgement);
    if arguments.json {
        say_json(&json(
            &name,
            &table,
            (verdict, reason.as_deref()),
            &judgement,
        ));
    } else {
        print(&text(&name, notes.operations(), &table, &judgement));
    }
    if let Some(reason) = reason {
        complain(format_args!("{name}: {reason}"));
    }
    Ok(verdict.exit_code())
}

/// Broken rules and violations make it invalid. What was not asked is never valid: then the reason says why.
fn verdict(table: &Table, judgement: &Judgement) -> (Verdict, Option<String>) {
    let broken = table.rules.iter().any(|rule| rule.answer == Answer::Broken);
    let stopped = table.stopped.clone();
    if broken || judgement.verdict == Verdict::Invalid {
        (Verdict::Invalid, stopped)
    } else if stopped.is_none() && table.is_a_fence() {
        (Verdict::Valid, None)
    } else {
        let reason = || "too few answers say anything about the fence".to_owned();
        (Verdict::Unknown, Some(stopped.unwrap_or_else(reason)))
    }
}

fn text(name: &str, operations: usize, table: &Table, judgement: &Judgement) -> String {
    let mut text = String::new();
    if table.stopped.is_none() {
        text = format!("{name}: {operations} operations\n\n");
    }
    for Rule {
        name,
        answer,
        detail,
    } in table.rules.iter().filter(|_| table.stopped.is_none())
    {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:10}{name:46}{detail}", answer.word());
    }
    for finding in &judgement.findings {
        let _ = writeln!(text, "\n{}", report::finding_text(finding));
    }
    text
}

fn json(
    name: &str,
    table: &Table,
    (verdict, reason): (Verdict, Option<&str>),
    judgement: &Judgement,
) -> serde_json::Value {
    let rules: Vec<_> = table
        .rules
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
        "verdict": verdict,
        "reason": reason,
        "rules": rules,
        "findings": judgement.findings,
        "stats": judgement.stats,
    })
}
