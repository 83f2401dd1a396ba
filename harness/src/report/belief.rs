//! Who believed to hold which lock when, from what each client was told.
//!
//! A belief is no fact: the lock service may have given the lock to somebody else long since. Two beliefs that
//! overlap are the reason why fencing exists.
//!
//! ```text
//! c1   acquire ok 41 |=====================| write under 41 refused: it knows now
//! c2                      acquire ok 42 |==========| release invoked
//! ```

use std::collections::{BTreeMap, HashMap};

use fencepost_checker::history::{Function, History, Instant, Name, Operation, Outcome, Token};

use super::palette::{Answer, is_write};

/// One client's belief that it holds one lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Belief {
    /// Who believes.
    pub client: Name,
    /// In which lock.
    pub lock: Name,
    /// Under which token.
    pub token: Token,
    /// When it was told of its grant.
    pub from: Instant,
    /// When it had reason to give up.
    pub to: Instant,
    /// What that reason was.
    pub end: End,
    /// The position of the acquire among the history's operations.
    pub grant: usize,
}

/// Why a belief ended.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum End {
    /// It asked for the lock to be released: from then on it does not write.
    Released,
    /// It was told that its token is stale.
    Refused,
    /// It was told that its lease is gone.
    NotRenewed,
    /// It asked for the lock anew.
    Acquired,
    /// Nothing ended it before the recording did.
    Open,
}

/// Every belief, in the order of the grants.
#[must_use]
pub fn beliefs(history: &History) -> Vec<Belief> {
    let last_use = last_uses(history);
    let mut changes: HashMap<(Name, Name), Vec<(u64, Change)>> = HashMap::new();
    for (position, operation) in history.operations.iter().enumerate() {
        let Some(lock) = operation.lock else { continue };
        let holder = (operation.client, lock);
        for change in changes_by(operation, position, history, &last_use) {
            changes
                .entry(holder)
                .or_default()
                .push((change.at().index, change));
        }
    }
    let end = end_of(history);
    let mut beliefs = Vec::new();
    for ((client, lock), mut of_holder) in changes {
        of_holder.sort_by_key(|(index, _)| *index);
        sweep(client, lock, &of_holder, end, &mut beliefs);
    }
    beliefs.sort_by_key(|belief| (belief.from, belief.grant));
    beliefs
}

/// Which of its lock's tokens a token is, in order of size: neighbours in time get different colours.
#[must_use]
pub fn turns(beliefs: &[Belief]) -> HashMap<(Name, Token), usize> {
    let mut tokens: BTreeMap<Name, Vec<Token>> = BTreeMap::new();
    for belief in beliefs {
        tokens.entry(belief.lock).or_default().push(belief.token);
    }
    let mut turns = HashMap::new();
    for (lock, mut of_lock) in tokens {
        of_lock.sort_unstable();
        of_lock.dedup();
        turns.extend(
            of_lock
                .into_iter()
                .enumerate()
                .map(|(turn, token)| ((lock, token), turn)),
        );
    }
    turns
}

/// The last instant of the recording.
#[must_use]
pub fn end_of(history: &History) -> Instant {
    let operations = history
        .operations
        .iter()
        .map(|operation| operation.completed.unwrap_or(operation.invoked));
    let faults = history
        .faults
        .iter()
        .map(|window| window.ended.unwrap_or(window.began));
    operations
        .chain(faults)
        .max()
        .unwrap_or(Instant { index: 0, time: 0 })
}

/// What bears on a client's belief in one lock.
#[derive(Clone, Copy, Debug)]
enum Change {
    Granted {
        at: Instant,
        token: Token,
        grant: usize,
    },
    /// `token`: the belief that ends; `None`: whichever there is.
    Ended {
        at: Instant,
        token: Option<Token>,
        end: End,
    },
}

impl Change {
    fn at(&self) -> Instant {
        match self {
            Self::Granted { at, .. } | Self::Ended { at, .. } => *at,
        }
    }
}

/// When a client last used a token: what it goes on using it still believes in.
type LastUse = HashMap<(Name, Name, Token), u64>;

fn last_uses(history: &History) -> LastUse {
    let mut last = LastUse::new();
    for operation in &history.operations {
        if let (true, Some(lock), Some(token)) = (
            is_write(operation) || operation.function == Function::Renew,
            operation.lock,
            operation.token,
        ) {
            last.insert((operation.client, lock, token), operation.invoked.index);
        }
    }
    last
}

fn changes_by(
    operation: &Operation,
    position: usize,
    history: &History,
    last_use: &LastUse,
) -> Vec<Change> {
    let token = operation.token;
    let ended = |at, end| Change::Ended { at, token, end };
    // A failed renewal or release may only say that the service could not be reached.
    let gave_up = |at: Instant| {
        let key = operation
            .lock
            .zip(token)
            .map(|(lock, token)| (operation.client, lock, token));
        key.and_then(|key| last_use.get(&key))
            .is_none_or(|&last| last <= at.index)
    };
    match (operation.function, operation.outcome, operation.completed) {
        (Function::Acquire, outcome, completed) => {
            let mut changes = vec![Change::Ended {
                at: operation.invoked,
                token: None,
                end: End::Acquired,
            }];
            if let (Outcome::Ok, Some(at), Some(token)) = (outcome, completed, token) {
                changes.push(Change::Granted {
                    at,
                    token,
                    grant: position,
                });
            }
            changes
        }
        (Function::Release, Outcome::Failed, Some(_)) if !gave_up(operation.invoked) => Vec::new(),
        (Function::Release, _, _) => vec![ended(operation.invoked, End::Released)],
        (Function::Renew, Outcome::Failed, Some(at)) if gave_up(at) => {
            vec![ended(at, End::NotRenewed)]
        }
        (_, _, Some(at)) if Answer::of(operation, history) == Answer::Refused => {
            vec![ended(at, End::Refused)]
        }
        _ => Vec::new(),
    }
}

/// Walks one holder's changes in order and closes each belief at the first that ends it.
fn sweep(
    client: Name,
    lock: Name,
    changes: &[(u64, Change)],
    end: Instant,
    beliefs: &mut Vec<Belief>,
) {
    let mut open: Option<Belief> = None;
    for &(_, change) in changes {
        match change {
            Change::Granted { at, token, grant } => {
                // Two acquires at once: the later grant replaces the earlier.
                beliefs.extend(open.take().map(|belief| Belief {
                    to: at,
                    end: End::Acquired,
                    ..belief
                }));
                open = Some(Belief {
                    client,
                    lock,
                    token,
                    from: at,
                    to: end,
                    end: End::Open,
                    grant,
                });
            }
            Change::Ended { at, token, end } => {
                let ends =
                    open.is_some_and(|belief| token.is_none_or(|token| token == belief.token));
                if ends {
                    beliefs.extend(open.take().map(|belief| Belief {
                        to: at,
                        end,
                        ..belief
                    }));
                }
            }
        }
    }
    beliefs.extend(open);
}

#[cfg(test)]
mod tests {
    use super::super::sample::Recording;
    use super::*;

    /// Client, token, from and to in ms, end.
    fn table(recording: &Recording) -> Vec<(String, i128, u64, u64, End)> {
        let history = recording.history();
        let row = |belief: &Belief| {
            let client = history.names.text(belief.client).to_owned();
            (
                client,
                belief.token.value(),
                belief.from.time / 1_000_000,
                belief.to.time / 1_000_000,
                belief.end,
            )
        };
        beliefs(&history).iter().map(row).collect()
    }

    #[test]
    fn a_belief_runs_from_the_grant_to_the_first_thing_that_ends_it() {
        let mut recording = Recording::default();
        recording
            .grant("c1", "s", 41, 0, 5)
            .write("c1", "s", 41, 10, 12, "ok");
        recording
            .grant("c2", "s", 42, 20, 30)
            .release("c2", "s", 42, 90, 95, "ok");
        recording.write("c1", "s", 41, 100, 101, "refused");
        recording
            .grant("c1", "s", 43, 110, 120)
            .renew("c1", "s", 43, 130, 131, "fail");
        recording
            .grant("c2", "s", 44, 200, 210)
            .acquire("c2", "s", 300, 310, "fail");
        recording
            .grant("c3", "s", 45, 400, 410)
            .write("c3", "s", 45, 420, 500, "info");
        assert_eq!(
            table(&recording),
            [
                ("c1".to_owned(), 41, 5, 101, End::Refused),
                ("c2".to_owned(), 42, 30, 90, End::Released),
                ("c1".to_owned(), 43, 120, 131, End::NotRenewed),
                ("c2".to_owned(), 44, 210, 300, End::Acquired),
                ("c3".to_owned(), 45, 410, 500, End::Open),
            ]
        );
    }

    #[test]
    fn a_renewal_that_only_failed_to_reach_the_service_ends_no_belief() {
        let mut recording = Recording::default();
        recording
            .grant("c1", "s", 41, 0, 5)
            .renew("c1", "s", 41, 10, 11, "fail")
            .write("c1", "s", 41, 20, 21, "ok");
        recording.release("c1", "s", 41, 50, 51, "info");
        assert_eq!(
            table(&recording),
            [("c1".to_owned(), 41, 5, 50, End::Released)]
        );
    }

    #[test]
    fn a_refusal_of_an_older_token_does_not_end_a_newer_belief() {
        let mut recording = Recording::default();
        recording
            .grant("c1", "s", 41, 0, 5)
            .grant("c1", "s", 43, 20, 25);
        recording
            .write("c1", "s", 41, 30, 31, "refused")
            .release("c1", "s", 43, 60, 61, "ok");
        assert_eq!(
            table(&recording),
            [
                ("c1".to_owned(), 41, 5, 20, End::Acquired),
                ("c1".to_owned(), 43, 25, 60, End::Released)
            ]
        );
    }

    #[test]
    fn locks_of_one_client_are_kept_apart() {
        let mut recording = Recording::default();
        recording
            .grant("c1", "s", 7, 0, 5)
            .grant("c1", "t", 7, 10, 15)
            .release("c1", "s", 7, 30, 31, "ok");
        recording.release("c1", "t", 7, 40, 41, "ok");
        assert_eq!(
            table(&recording),
            [
                ("c1".to_owned(), 7, 5, 30, End::Released),
                ("c1".to_owned(), 7, 15, 40, End::Released)
            ]
        );
    }

    #[test]
    fn an_empty_history_holds_no_belief() {
        assert_eq!(table(&Recording::default()), []);
    }

    #[test]
    fn neighbouring_tokens_of_a_lock_have_different_turns() {
        let mut recording = Recording::default();
        recording
            .grant("c1", "s", 10, 0, 1)
            .grant("c2", "s", 12, 2, 3)
            .grant("c1", "t", 12, 4, 5);
        let history = recording.history();
        let turns = turns(&beliefs(&history));
        let of = |lock: &str, token: u64| {
            turns[&(
                history.names.find(lock).expect("it was granted"),
                token.into(),
            )]
        };
        assert_eq!((of("s", 10), of("s", 12), of("t", 12)), (0, 1, 0));
    }
}
