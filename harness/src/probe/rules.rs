//! The questions, one a rule.

use std::time::Duration;

use fencepost_workloads::client::{Failure, Outcome, Reason, Resource, Written};
use reqwest::StatusCode;

use super::{Notes, Subject};
use crate::error::HarnessError;

/// How often a rule without a race is asked.
const TIMES: u64 = 20;
/// Tokens at which a narrower number wraps or rounds.
const BOUNDARIES: [(&str, u64); 4] = [
    ("2^31", 1 << 31),
    ("2^32", 1 << 32),
    ("2^53", 1 << 53),
    ("2^63", 1 << 63),
];

/// What the resource does for one rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    /// It keeps it.
    Kept,
    /// It breaks it.
    Broken,
    /// Either is right; this is what it does.
    Seen,
    /// It could not be asked.
    NotAsked,
}

impl Answer {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Broken => "broken",
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

/// One client's words to the resource, and what is noted of them.
struct Asked<'a> {
    notes: &'a Notes,
    one: &'a dyn Resource,
    two: &'a dyn Resource,
}

impl Asked<'_> {
    async fn one(&self, key: &str, token: u64, value: &str) -> Outcome<Written> {
        self.notes.write(self.one, "one", (key, token, value)).await
    }

    async fn two(&self, key: &str, token: u64, value: &str) -> Outcome<Written> {
        self.notes.write(self.two, "two", (key, token, value)).await
    }

    async fn value(&self, key: &str) -> Option<String> {
        let reading = self.notes.read(self.one, "reader", key).await;
        reading.ok().and_then(|reading| reading.value)
    }
}

fn refused(outcome: &Outcome<Written>) -> bool {
    matches!(outcome, Err(Failure::Fail(Reason::StaleToken { .. })))
}

/// Asks for every rule. `rounds` are races, each on a fresh key.
///
/// # Errors
/// When the resource does not come back from a restart, or no client can be made.
pub async fn ask(
    subject: &mut Subject,
    notes: &Notes,
    rounds: u32,
) -> Result<Vec<Rule>, HarnessError> {
    let (one, two) = (subject.client("one")?, subject.client("two")?);
    let asked = Asked {
        notes,
        one: &*one,
        two: &*two,
    };
    let mut rules = vec![
        stale(&asked).await,
        same_again(&asked).await,
        equal(&asked).await,
        races(&asked, rounds).await,
        as_numbers(&asked).await,
        keys_apart(&asked).await,
    ];
    for (name, boundary) in BOUNDARIES {
        rules.push(boundary_kept(&asked, name, boundary).await);
    }
    rules.extend(malformed(subject.http()).await);
    asked.one("restart", 7, "before").await.ok();
    rules.push(match subject.restart().await? {
        true => {
            // Connections to the process that was killed are no use any more.
            let (one, two) = (subject.client("one")?, subject.client("two")?);
            let (one, two) = (&*one, &*two);
            restarted(&Asked { notes, one, two }).await
        }
        false => Rule {
            name: "a restart keeps mark and value",
            answer: Answer::NotAsked,
            detail: "it is not the probe's to restart".to_owned(),
        },
    });
    Ok(rules)
}

/// A rule whose every answer must be right; `wrong` counts those that were not, `unknown` those that nobody knows.
fn tallied(name: &'static str, asked: u64, wrong: u64, unknown: u64) -> Rule {
    let answer = match (wrong, asked - unknown) {
        (0, 0) => Answer::NotAsked,
        (0, _) => Answer::Kept,
        _ => Answer::Broken,
    };
    let right = asked - wrong - unknown;
    let unknown = match unknown {
        0 => String::new(),
        unknown => format!(", {unknown} without an answer"),
    };
    Rule {
        name,
        answer,
        detail: format!("{right} of {asked}{unknown}"),
    }
}

async fn stale(asked: &Asked<'_>) -> Rule {
    let (mut wrong, mut unknown) = (0, 0);
    for round in 1..=TIMES {
        let key = format!("stale-{round}");
        let higher = asked.two(&key, round + 1, &format!("{key} new")).await;
        let lower = asked.one(&key, round, &format!("{key} old")).await;
        asked.value(&key).await;
        match (higher, lower) {
            (Ok(_), Ok(_)) => wrong += 1,
            (Ok(_), lower) if refused(&lower) => {}
            _ => unknown += 1,
        }
    }
    tallied("a token below the mark is refused", TIMES, wrong, unknown)
}

async fn same_again(asked: &Asked<'_>) -> Rule {
    let (mut wrong, mut unknown) = (0, 0);
    for round in 1..=TIMES {
        let key = format!("again-{round}");
        let first = asked.one(&key, round, &format!("{key} first")).await;
        let second = asked.one(&key, round, &format!("{key} second")).await;
        match (first, second) {
            (Ok(_), Ok(_)) => {}
            (Ok(_), second) if refused(&second) => wrong += 1,
            _ => unknown += 1,
        }
    }
    tallied("a holder's second write is accepted", TIMES, wrong, unknown)
}

async fn equal(asked: &Asked<'_>) -> Rule {
    let first = asked.one("equal", 7, "equal one").await;
    let second = asked.two("equal", 7, "equal two").await;
    Rule {
        name: "an equal token of another client",
        answer: match first {
            Ok(_) => Answer::Seen,
            Err(_) => Answer::NotAsked,
        },
        detail: match second {
            Ok(_) => "accepted: the issuer must give no token twice".to_owned(),
            Err(Failure::Fail(reason)) => format!("refused: {reason}"),
            Err(Failure::Unknown(why)) => why,
        },
    }
}

/// t and t+1 at once, now and then t-1 too; then a read. Whoever is on top at the end must be the higher of those that
/// were accepted.
async fn races(asked: &Asked<'_>, rounds: u32) -> Rule {
    let (mut wrong, mut unknown) = (0, 0);
    for round in 1..=u64::from(rounds) {
        let key = format!("race-{round}");
        let [lower, higher, lowest] = ["t", "t+1", "t-1"].map(|name| format!("{key} {name}"));
        // The lower one has a start that differs from round to round, so that checks and writes meet in every order.
        let start = Duration::from_micros((round % 8) * 150);
        let late = |by: Duration| tokio::time::sleep(by);
        let (low, high, least) = tokio::join!(
            async {
                late(if round % 2 == 0 {
                    start
                } else {
                    Duration::ZERO
                })
                .await;
                asked.one(&key, 10, &lower).await
            },
            async {
                late(if round % 2 == 0 {
                    Duration::ZERO
                } else {
                    start
                })
                .await;
                asked.two(&key, 11, &higher).await
            },
            async {
                match round % 4 {
                    0 => Some(asked.one(&key, 9, &lowest).await),
                    _ => None,
                }
            },
        );
        let on_top = asked.value(&key).await;
        match (high, on_top) {
            (Ok(_), Some(value)) if value == higher => {}
            (Ok(_), Some(_)) => wrong += 1,
            // A fresh key has nothing that could stand against the highest token.
            (high, _) if refused(&high) => wrong += 1,
            _ => unknown += 1,
        }
        // What became of the others shows in the history.
        drop((low, least));
    }
    tallied(
        "of writes at once the higher token stays",
        rounds.into(),
        wrong,
        unknown,
    )
}

async fn as_numbers(asked: &Asked<'_>) -> Rule {
    let nine = asked.one("numbers", 9, "numbers 9").await;
    let ten = asked.two("numbers", 10, "numbers 10").await;
    let late = asked.one("numbers", 9, "numbers 9 again").await;
    let (wrong, unknown) = match (nine, ten, late) {
        (Ok(_), Ok(_), late) if refused(&late) => (0, 0),
        (Ok(_), ten, late) if refused(&ten) || late.is_ok() => (1, 0),
        _ => (0, 1),
    };
    tallied("tokens are compared as numbers: 9 < 10", 1, wrong, unknown)
}

async fn keys_apart(asked: &Asked<'_>) -> Rule {
    let high = asked.one("apart-a", 1_000, "apart a").await;
    let low = asked.two("apart-b", 1, "apart b").await;
    let (wrong, unknown) = match (high, low) {
        (Ok(_), Ok(_)) => (0, 0),
        (Ok(_), low) if refused(&low) => (1, 0),
        _ => (0, 1),
    };
    tallied("keys do not influence each other", 1, wrong, unknown)
}

/// Around a width: what is below is refused, what is above is accepted, and the mark is told as it is.
async fn boundary_kept(asked: &Asked<'_>, name: &'static str, boundary: u64) -> Rule {
    let rule = match name {
        "2^31" => "tokens around 2^31 keep their order",
        "2^32" => "tokens around 2^32 keep their order",
        "2^53" => "tokens around 2^53 keep their order",
        _ => "tokens around 2^63 keep their order",
    };
    let key = format!("around {name}").replace(['^', ' '], "-");
    let mut told = Vec::new();
    for token in [boundary - 1, boundary, boundary + 1] {
        match asked.one(&key, token, &format!("{key} {token}")).await {
            Ok(Written { high_water }) => {
                let right = high_water.is_none_or(|mark| mark == token.into());
                told.extend((!right).then(|| format!("the mark after {token} is told as another")));
            }
            Err(Failure::Fail(Reason::StaleToken { .. })) => {
                told.push(format!("{token} was refused, although it rises"));
            }
            // It may have a width, as long as it says so.
            Err(failure) => {
                return Rule {
                    name: rule,
                    answer: Answer::Seen,
                    detail: format!("{token} is not taken: {failure:?}"),
                };
            }
        }
        asked.value(&key).await;
    }
    let late = asked.two(&key, boundary, &format!("{key} late")).await;
    told.extend(
        late.is_ok()
            .then(|| format!("{boundary} was accepted after {}", boundary + 1)),
    );
    Rule {
        name: rule,
        answer: if told.is_empty() {
            Answer::Kept
        } else {
            Answer::Broken
        },
        detail: if told.is_empty() {
            "4 of 4".to_owned()
        } else {
            told.join("; ")
        },
    }
}

/// Writes without a token, and with what is none. Only where the wire can be spoken badly.
async fn malformed(http: Option<&str>) -> Vec<Rule> {
    const MISSING: &str = "a write without a token is refused";
    const MALFORMED: &str = "a token that is no number is refused";
    let not_asked = |name| Rule {
        name,
        answer: Answer::NotAsked,
        detail: "the client of this resource always sends a number".to_owned(),
    };
    let client = reqwest::Client::builder().no_proxy().build();
    let (Some(address), Ok(client)) = (http, client) else {
        return vec![not_asked(MISSING), not_asked(MALFORMED)];
    };
    let put = |key: &str, token: Option<&str>| {
        let request = client
            .put(format!("http://{address}/v1/keys/{key}"))
            .body("v");
        match token {
            Some(token) => request.header("fencing-token", token).send(),
            None => request.send(),
        }
    };
    let mut rules = Vec::new();
    for (name, tokens) in [
        (MISSING, &[None][..]),
        (
            MALFORMED,
            &[
                Some(""),
                Some("-1"),
                Some("1.5"),
                Some("7x"),
                Some("1e3"),
                Some("18446744073709551616"),
            ],
        ),
    ] {
        let (mut wrong, mut unknown) = (0, 0);
        for (number, token) in tokens.iter().enumerate() {
            let answer = put(&format!("bad-{number}"), *token).await;
            match answer.map(|answer| answer.status()) {
                Ok(StatusCode::OK) => wrong += 1,
                Ok(status) if status.is_client_error() => {}
                _ => unknown += 1,
            }
        }
        rules.push(tallied(name, tokens.len() as u64, wrong, unknown));
    }
    rules
}

async fn restarted(asked: &Asked<'_>) -> Rule {
    let late = asked.two("restart", 6, "late").await;
    let value = asked.value("restart").await;
    let kept = value.as_deref() == Some("before");
    let (wrong, unknown) = match (&late, kept) {
        (late, true) if refused(late) => (0, 0),
        (Err(Failure::Unknown(_)), _) => (0, 1),
        _ => (1, 0),
    };
    tallied("a restart keeps mark and value", 1, wrong, unknown)
}
