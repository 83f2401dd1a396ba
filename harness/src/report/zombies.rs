//! What became of each zombie fault: did the woken holder write first, and was it refused?
//!
//! ```text
//! c1  grant 41 ok |====== SIGSTOP ............................ SIGCONT | write under 41 -> stale-token
//! c2                       acquire ok 42   write under 42 ok
//! ```
//!
//! Only the recording is read. Whether a refusal was right is for the checker to say.

use std::collections::HashMap;

use fencepost_checker::history::{
    FaultOutcome, FaultWindow, History, Instant, Name, Outcome, Token,
};

use super::palette::{Answer, is_write};

/// One zombie fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Zombie {
    /// Of the fault.
    pub id: u64,
    /// Who was stopped, where the fault found a holder.
    pub client: Option<String>,
    /// The lock it held.
    pub lock: Option<String>,
    /// The token it believed in.
    pub token: Option<Token>,
    /// Installed, and undone before the recording ended.
    pub completed: bool,
    /// When it was stopped.
    pub stopped_at: Instant,
    /// When it went on; `None` where the recording ended first.
    pub resumed_at: Option<Instant>,
    /// Whose write under which higher token was first acknowledged meanwhile.
    pub successor: Option<(String, Token)>,
    /// The position of the first operation that the client began after it went on.
    pub first_after: Option<usize>,
    /// That operation was a write under the stale token, and the fence refused it.
    pub refused_first: bool,
}

/// Every zombie fault, in order.
#[must_use]
pub fn zombies(history: &History) -> Vec<Zombie> {
    let windows: Vec<&FaultWindow> = history
        .faults
        .iter()
        .filter(|window| window.begin.fault == "zombie")
        .collect();
    if windows.is_empty() {
        return Vec::new();
    }
    let mut of_client: HashMap<Name, Vec<usize>> = HashMap::new();
    for (position, operation) in history.operations.iter().enumerate() {
        of_client
            .entry(operation.client)
            .or_default()
            .push(position);
    }
    windows
        .into_iter()
        .map(|window| zombie(window, history, &of_client))
        .collect()
}

/// A client goes on under its name when its process is replaced, so its name finds the new process, too.
fn zombie(
    window: &FaultWindow,
    history: &History,
    of_client: &HashMap<Name, Vec<usize>>,
) -> Zombie {
    let begin = &window.begin;
    let client = begin
        .client
        .as_deref()
        .and_then(|client| history.names.find(client));
    let first_after = client.zip(window.ended).and_then(|(client, ended)| {
        let own = of_client.get(&client)?;
        let next = own
            .partition_point(|&position| history.operations[position].invoked.index < ended.index);
        own.get(next).copied()
    });
    let refused_first = first_after.is_some_and(|position| {
        let operation = &history.operations[position];
        operation.token.is_some()
            && operation.token == begin.token
            && Answer::of(operation, history) == Answer::Refused
    });
    Zombie {
        id: begin.id,
        client: begin.client.clone(),
        lock: begin.lock.clone(),
        token: begin.token,
        completed: window.outcome == FaultOutcome::Installed && window.ended.is_some(),
        stopped_at: window.began,
        resumed_at: window.ended,
        successor: successor(window, history),
        first_after,
        refused_first,
    }
}

/// The first acknowledged write under a higher token of the lock while the holder was stopped.
fn successor(window: &FaultWindow, history: &History) -> Option<(String, Token)> {
    let (token, lock) = (
        window.begin.token?,
        history.names.find(window.begin.lock.as_deref()?)?,
    );
    let until = window.ended.map_or(u64::MAX, |ended| ended.index);
    let acknowledged =
        |completed: Instant| window.began.index < completed.index && completed.index < until;
    history
        .operations
        .iter()
        .filter(|write| is_write(write) && write.outcome == Outcome::Ok && write.lock == Some(lock))
        .filter(|write| write.token.is_some_and(|higher| higher > token))
        .filter_map(|write| Some((write.completed.filter(|&at| acknowledged(at))?, write)))
        .min_by_key(|(completed, _)| completed.index)
        .and_then(|(_, write)| Some((history.names.text(write.client).to_owned(), write.token?)))
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Recording, zombie_refused};
    use super::*;

    #[test]
    fn a_woken_holder_that_is_refused_at_once_is_told_with_its_successor() {
        let history = zombie_refused().history();
        let [zombie] = zombies(&history)
            .try_into()
            .expect("one zombie fault was recorded");
        assert!(zombie.completed && zombie.refused_first);
        assert_eq!(
            (
                zombie.client.as_deref(),
                zombie.lock.as_deref(),
                zombie.token
            ),
            (Some("c1"), Some("s"), Some(41_u64.into()))
        );
        assert_eq!(zombie.successor, Some(("c2".to_owned(), 42_u64.into())));
        assert_eq!(
            (zombie.stopped_at.time, zombie.resumed_at.map(|at| at.time)),
            (100_000_000, Some(1_300_000_000))
        );
        let first = &history.operations[zombie.first_after.expect("it wrote")];
        assert_eq!(first.invoked.time, 1_301_000_000);
    }

    #[test]
    fn another_operation_before_the_write_spoils_it() {
        let mut recording = zombie_refused();
        recording.renew("c1", "s", 41, 1_300, 1_302, "fail");
        let history = recording.history();
        let [zombie] = zombies(&history)
            .try_into()
            .expect("one zombie fault was recorded");
        assert!(zombie.completed && !zombie.refused_first);
    }

    #[test]
    fn an_accepted_write_and_another_token_do_not_count_as_refused() {
        for (token, answer) in [(41, "ok"), (43, "refused"), (41, "info"), (41, "fail")] {
            let mut recording = Recording::default();
            recording
                .grant("c1", "s", 41, 0, 5)
                .zombie(1, "c1", "s", 41, 10, 50)
                .write("c1", "s", token, 60, 61, answer);
            let zombies = zombies(&recording.history());
            assert!(!zombies[0].refused_first, "{token} {answer}");
            assert_eq!(zombies[0].successor, None);
        }
    }

    #[test]
    fn a_fault_that_never_ended_or_was_skipped_is_not_completed() {
        let mut recording = Recording::default();
        recording
            .grant("c1", "s", 41, 0, 5)
            .fault(1, "zombie", &["w1"], 10, None, "installed");
        recording
            .fault(2, "zombie", &[], 20, Some(20), "skipped")
            .fault(3, "pause", &["w1"], 30, Some(40), "installed");
        let zombies = zombies(&recording.history());
        assert_eq!(
            zombies
                .iter()
                .map(|zombie| (zombie.id, zombie.completed))
                .collect::<Vec<_>>(),
            [(1, false), (2, false)]
        );
    }
}
