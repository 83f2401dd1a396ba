//! The rules of one key after another: stale, equal, left alone, restarted.

use fencepost_workloads::client::{Outcome, Written};

use super::asked::{Asked, heard, refused, told};
use super::rules::{Answer, Rule, Tally};

/// How often a rule without a race is asked.
pub(super) const TIMES: u64 = 20;

const UNDERSTOOD: &str = "a fresh key takes a write, a read gives it";
pub(super) const STALE: &str = "a token below the mark is refused";
pub(super) const RESTARTED: &str = "a restart keeps mark and value";

/// Whether the resource understands writes and reads at all; if it does not, why, in one line.
pub(super) async fn understood(asked: &Asked, http: bool) -> (Rule, Option<String>) {
    let way = |method: &str| match http {
        true => format!(" on {method} /v1/keys/first"),
        false => String::new(),
    };
    let stopped = |answer, why: String| (Rule::new(UNDERSTOOD, answer, &*why), Some(why));
    let written = asked.one("first", 1, "first").await;
    if refused(&written) {
        let why =
            "it refuses the first write of a fresh key as stale, so nothing else can be asked";
        return stopped(Answer::Broken, why.to_owned());
    }
    if let Err(failure) = written {
        let why = format!(
            "does not understand writes: {}{}",
            told(&failure),
            way("PUT")
        );
        return stopped(Answer::NotAsked, why);
    }
    match asked.value("first").await {
        Ok(Some(value)) if value == "first" => {
            (Rule::new(UNDERSTOOD, Answer::Kept, "1 of 1"), None)
        }
        Ok(Some(value)) => stopped(
            Answer::Broken,
            format!("it took \"first\" for a fresh key, and a read gives {value:?}"),
        ),
        Ok(None) => stopped(
            Answer::Broken,
            "it took a write for a fresh key, and a read gives nothing".to_owned(),
        ),
        Err(failure) => {
            let why = format!(
                "does not understand reads: {}{}",
                told(&failure),
                way("GET")
            );
            stopped(Answer::NotAsked, why)
        }
    }
}

pub(super) async fn stale(asked: &Asked) -> Rule {
    let mut tally = Tally::default();
    for round in 1..=TIMES {
        let key = format!("stale-{round}");
        let higher = asked.two(&key, round + 1, &format!("{key} new")).await;
        let lower = asked.one(&key, round, &format!("{key} old")).await;
        // What a read gives shows in the history.
        let _ = asked.value(&key).await;
        match (higher, lower) {
            (Ok(_), Ok(_)) => tally.wrong(),
            (Ok(_), lower) if refused(&lower) => tally.right(),
            (higher, lower) => tally.unknown(heard(&higher).or(heard(&lower))),
        }
    }
    tally.rule(STALE)
}

pub(super) async fn same_again(asked: &Asked) -> Rule {
    let mut tally = Tally::default();
    for round in 1..=TIMES {
        let key = format!("again-{round}");
        let first = asked.one(&key, round, &format!("{key} first")).await;
        let second = asked.one(&key, round, &format!("{key} second")).await;
        match (first, second) {
            (Ok(_), Ok(_)) => tally.right(),
            (Ok(_), second) if refused(&second) => tally.wrong(),
            (first, second) => tally.unknown(heard(&first).or(heard(&second))),
        }
    }
    tally.rule("a holder's second write is accepted")
}

pub(super) async fn equal(asked: &Asked) -> Rule {
    const NAME: &str = "an equal token of another client";
    let first = asked.one("equal", 7, "equal one").await;
    let second = asked.two("equal", 7, "equal two").await;
    match (first, second) {
        (Ok(_), Ok(_)) => Rule::new(
            NAME,
            Answer::Seen,
            "accepted: the issuer must give no token twice",
        ),
        (Ok(_), second) if refused(&second) => Rule::new(NAME, Answer::Seen, "refused"),
        (first, second) => {
            let why = heard(&first).or(heard(&second));
            Rule::not_asked(
                NAME,
                why.unwrap_or_else(|| "its first write was refused".into()),
            )
        }
    }
}

pub(super) async fn keys_apart(asked: &Asked) -> Rule {
    let mut tally = Tally::default();
    let high = asked.one("apart-a", 1_000, "apart a").await;
    let low = asked.two("apart-b", 1, "apart b").await;
    match (high, low) {
        (Ok(_), Ok(_)) => tally.right(),
        (_, low) if refused(&low) => tally.wrong(),
        (high, low) => tally.unknown(heard(&high).or(heard(&low))),
    }
    tally.rule("keys do not influence each other")
}

/// Writes to a key that is left alone while everything else is asked.
pub(super) async fn leave_alone(asked: &Asked) -> Outcome<Written> {
    asked.one("alone", 7, "alone before").await
}

pub(super) async fn after_a_while(asked: &Asked, before: Outcome<Written>) -> Rule {
    let mut tally = Tally::default();
    let late = asked.two("alone", 6, "alone late").await;
    let _ = asked.value("alone").await;
    match (before, late) {
        (Ok(_), late) if refused(&late) => tally.right(),
        (Ok(_), Ok(_)) => tally.wrong(),
        (before, late) => tally.unknown(heard(&before).or(heard(&late))),
    }
    tally.rule("a mark outlives a second without a write")
}

/// Writes what a restart must keep.
pub(super) async fn before_restart(asked: &Asked) -> Outcome<Written> {
    asked.one("restart", 7, "before").await
}

pub(super) async fn after_restart(asked: &Asked, before: Outcome<Written>) -> Rule {
    let mut tally = Tally::default();
    let late = asked.two("restart", 6, "late").await;
    let value = asked.value("restart").await;
    let kept = matches!(&value, Ok(Some(value)) if value == "before");
    match (before, late, value) {
        (Ok(_), late, Ok(_)) if refused(&late) && kept => tally.right(),
        (Ok(_), Ok(_), _) => tally.wrong(),
        (Ok(_), late, Ok(_)) if refused(&late) => tally.wrong(),
        (before, late, value) => {
            tally.unknown(heard(&before).or(heard(&late)).or(heard(&value)));
        }
    }
    tally.rule(RESTARTED)
}
