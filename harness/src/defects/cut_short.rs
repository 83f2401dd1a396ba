//! Leases that ended before their time: what is seen of a lease that ran while its holder was still in the queue.
//!
//! ```text
//! c1  holds 41 ............ release of 41 sent (R)
//! c2     acquire, queued .......... granted 42, lease 200 ms
//! c3     acquire, queued ....................... granted 43 at R + 120 ms; nobody had released 42
//! ```
//!
//! A lock service whose leases begin at the grant cannot do this: 42 was granted after its predecessor's last sign of
//! life (its acquire, a renewal or its release, each answered ok, counts from when it was sent), so its lease ran until
//! that + ttl at least, unless its holder released it or acquired again. It is an observation and no finding of the
//! checker: systems that are sold as sound do it (a session's lease runs while it queues), and a fence makes it harmless.

use fencepost_checker::history::{Function, History, Name, Operation, Outcome, Token};

/// How finely times are told.
const TICK: u64 = 1_000_000;

/// A hold that ended before its lease can have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CutShort {
    /// The lock.
    pub lock: String,
    /// Whose hold it was.
    pub client: String,
    /// Under which token.
    pub token: Token,
    /// How long it had waited in the queue, in milliseconds.
    pub waited_ms: u64,
    /// The lease, in milliseconds.
    pub ttl_ms: u64,
    /// The most that it can have lived, in milliseconds.
    pub lived_ms: u64,
    /// Who was granted the lock then.
    pub successor: String,
}

impl CutShort {
    /// It in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self {
            lock,
            client,
            token,
            waited_ms,
            ttl_ms,
            lived_ms,
            successor,
        } = self;
        format!(
            "{client} had waited {waited_ms} ms for lock {lock} when it was granted token {token} for {ttl_ms} ms, and {successor} was granted the lock {lived_ms} ms after that at the latest, although nobody had released it"
        )
    }
}

/// Every hold that was cut short, by lock and token.
#[must_use]
pub fn cut_short(history: &History) -> Vec<CutShort> {
    let on_locks = |operation: &&Operation| {
        operation.lock.is_some()
            && matches!(
                operation.function,
                Function::Acquire | Function::Renew | Function::Release
            )
    };
    let operations: Vec<&Operation> = history.operations.iter().filter(on_locks).collect();
    let mut grants: Vec<&Operation> = operations
        .iter()
        .copied()
        .filter(|one| is(one, Function::Acquire) && one.token.is_some())
        .collect();
    grants.sort_by_key(|grant| (grant.lock, grant.token));
    let pairs = grants.windows(2);
    pairs
        .filter_map(|pair| cut(pair[0], pair[1], &operations, history))
        .collect()
}

fn is(operation: &Operation, function: Function) -> bool {
    operation.function == function && operation.outcome == Outcome::Ok
}

/// As whom the lock service knows it.
fn known_as(operation: &Operation) -> Name {
    operation.identity.unwrap_or(operation.client)
}

fn cut(
    grant: &Operation,
    next: &Operation,
    operations: &[&Operation],
    history: &History,
) -> Option<CutShort> {
    let (token, after) = (grant.token?, next.token?);
    let told = grant.completed?;
    let (ended, ttl_ms) = (next.completed?, grant.ttl_ms?);
    let follows = grant.lock == next.lock && after.value() == token.value() + 1;
    if !follows || known_as(grant) == known_as(next) {
        return None;
    }
    let of_lock = || operations.iter().filter(|one| one.lock == grant.lock);
    // Whatever may have ended the hold before its lease did.
    let given_up = of_lock().any(|one| {
        let ends = match one.function {
            Function::Release => one.token == Some(token) && one.outcome != Outcome::Failed,
            Function::Acquire => {
                known_as(one) == known_as(grant)
                    && one.invoked != grant.invoked
                    && one.outcome != Outcome::Failed
                    && one.invoked > grant.invoked
            }
            _ => false,
        };
        ends && one.invoked < ended
    });
    if given_up {
        return None;
    }
    // It was granted after its predecessor's last sign of life.
    let signs = of_lock().filter(|one| {
        one.outcome == Outcome::Ok
            && one
                .token
                .is_some_and(|other| other.value() + 1 == token.value())
            && one.invoked < told
    });
    let granted_after = signs
        .map(|one| one.invoked.time)
        .chain([grant.invoked.time])
        .max()?;
    let lived = ended.time.saturating_sub(granted_after);
    let name = |name| history.names.text(name).to_owned();
    (lived + TICK < ttl_ms * 1_000_000).then(|| CutShort {
        lock: grant.lock.map(name).unwrap_or_default(),
        client: name(grant.client),
        token,
        waited_ms: told.time.saturating_sub(grant.invoked.time) / 1_000_000,
        ttl_ms,
        lived_ms: lived.div_ceil(1_000_000),
        successor: name(next.client),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// c1 holds 41 and releases it at 100 ms, c2 has waited for it since 10 ms; c3 is granted 43 at `until` ms.
    fn history(until: u64, between: &[&str]) -> History {
        let line = |time: u64, process: u64, rest: &str| {
            format!(
                "\"time\":{},\"process\":{process},\"client\":\"c{process}\",\"lock\":\"l\",{rest}",
                time * 1_000_000
            )
        };
        let mut lines = vec![
            line(0, 1, r#""type":"invoke","f":"acquire","ttl":200"#),
            line(1, 1, r#""type":"ok","f":"acquire","token":41"#),
            line(10, 2, r#""type":"invoke","f":"acquire","ttl":200"#),
            line(20, 3, r#""type":"invoke","f":"acquire","ttl":200"#),
            line(100, 1, r#""type":"invoke","f":"release","token":41"#),
            line(102, 1, r#""type":"ok","f":"release""#),
            line(103, 2, r#""type":"ok","f":"acquire","token":42"#),
        ];
        lines.extend(between.iter().map(|rest| line(110, 2, rest)));
        lines.push(line(until, 3, r#""type":"ok","f":"acquire","token":43"#));
        let text: String = lines
            .iter()
            .enumerate()
            .map(|(index, line)| format!("{{\"index\":{index},{line}}}\n"))
            .collect();
        History::read(text.as_bytes()).expect("well-formed")
    }

    #[test]
    fn a_lease_that_ran_in_the_queue_shows_by_its_successor_and_one_that_began_at_the_grant_does_not()
     {
        let [cut] = &cut_short(&history(220, &[]))[..] else {
            panic!("42 lived for 120 of its 200 ms");
        };
        assert_eq!(
            cut.sentence(),
            "c2 had waited 93 ms for lock l when it was granted token 42 for 200 ms, and c3 was granted the lock 120 ms after that at the latest, although nobody had released it"
        );
        // The least that a lease can last that began after the release was sent.
        assert_eq!(cut_short(&history(300, &[])), []);
    }

    #[test]
    fn a_hold_that_its_holder_may_have_ended_was_not_cut_short() {
        for ended in [
            r#""type":"invoke","f":"release","token":42"#,
            r#""type":"invoke","f":"acquire","ttl":200"#,
        ] {
            assert_eq!(cut_short(&history(220, &[ended])), [], "{ended}");
        }
        let kept = r#""type":"invoke","f":"renew","token":42,"ttl":200"#;
        assert_eq!(cut_short(&history(220, &[kept])).len(), 1);
    }
}
