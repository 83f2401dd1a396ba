//! The rules of writes at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::asked::{Asked, heard, refused};
use super::fence::TIMES;
use super::rules::{Answer, Rule, Tally};
use super::{Notes, Subject};
use crate::error::HarnessError;

pub(super) const HIGHER_STAYS: &str = "of writes at once the higher token stays";

/// So many pairs of clients race side by side, each pair on keys of its own.
const PAIRS: u64 = 8;

/// t and t+1 at once, now and then t-1 too, a read between; then a read. Whoever is on top at the end must be the
/// higher of those that were accepted.
pub(super) async fn higher_stays(
    subject: &Subject,
    notes: &Arc<Notes>,
    rounds: u32,
) -> Result<Rule, HarnessError> {
    let mut pairs = JoinSet::new();
    for pair in 0..PAIRS {
        let asked = Asked::of(subject, notes)?;
        pairs.spawn(async move {
            let mut tally = Tally::default();
            for round in (1 + pair..=u64::from(rounds)).step_by(PAIRS as usize) {
                race(&asked, round, &mut tally).await;
            }
            tally
        });
    }
    let mut all = Tally::default();
    while let Some(ended) = pairs.join_next().await {
        all.add(ended.map_err(|error| HarnessError::Internal(error.to_string()))?);
    }
    Ok(all.rule(HIGHER_STAYS))
}

async fn race(asked: &Asked, round: u64, tally: &mut Tally) {
    let key = format!("race-{round}");
    let [lower, higher, lowest] = ["t", "t+1", "t-1"].map(|name| format!("{key} {name}"));
    // One of the two has a start that differs from round to round, so that checks and writes meet in every order. What
    // decides it must not be what decides the pair.
    let turn = round / PAIRS;
    let start = Duration::from_micros((turn / 2 % 8) * 150);
    let (first, second) = match turn % 2 {
        0 => (start, Duration::ZERO),
        _ => (Duration::ZERO, start),
    };
    let (_, high, _, _) = tokio::join!(
        async {
            tokio::time::sleep(first).await;
            asked.one(&key, 10, &lower).await
        },
        async {
            tokio::time::sleep(second).await;
            asked.two(&key, 11, &higher).await
        },
        async {
            match turn % 4 {
                0 => Some(asked.one(&key, 9, &lowest).await),
                _ => None,
            }
        },
        async {
            match turn % 3 {
                0 => asked.value(&key).await.ok(),
                _ => None,
            }
        },
    );
    // What became of the others shows in the history.
    match (high, asked.value(&key).await) {
        (Ok(_), Ok(Some(value))) if value == higher => tally.right(),
        (Ok(_), Ok(_)) => tally.wrong(),
        // A fresh key has nothing that could stand against the highest token.
        (high, _) if refused(&high) => tally.wrong(),
        (high, value) => tally.unknown(heard(&high).or(heard(&value))),
    }
}

/// One token by two clients at once. Whichever is refused, one of them is accepted and stays.
pub(super) async fn equal_at_once(asked: &Asked) -> Rule {
    const NAME: &str = "equal tokens of two clients at once";
    let (mut tally, mut both) = (Tally::default(), 0_u64);
    for round in 1..=TIMES {
        let key = format!("twice-{round}");
        let [first, second] = ["one", "two"].map(|name| format!("{key} {name}"));
        let (one, two) = tokio::join!(asked.one(&key, 7, &first), asked.two(&key, 7, &second));
        let value = asked.value(&key).await;
        match (one, two, value) {
            (one, two, _) if refused(&one) && refused(&two) => tally.wrong(),
            (one, two, Ok(value)) if one.is_ok() || two.is_ok() => {
                both += u64::from(one.is_ok() && two.is_ok());
                // One that nobody has the answer of may be there too.
                let may = |outcome: &Result<_, _>| outcome.is_ok() || heard(outcome).is_some();
                let stays = (may(&one) && value.as_ref() == Some(&first))
                    || (may(&two) && value.as_ref() == Some(&second));
                match stays {
                    true => tally.right(),
                    false => tally.wrong(),
                }
            }
            (one, two, value) => tally.unknown(heard(&one).or(heard(&two)).or(heard(&value))),
        }
    }
    let rule = tally.rule(NAME);
    match rule.answer {
        Answer::Kept => Rule::new(
            NAME,
            Answer::Seen,
            format!("both accepted {both} times of {TIMES}, and one of them stays"),
        ),
        _ => rule,
    }
}
