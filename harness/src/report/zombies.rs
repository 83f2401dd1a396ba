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
    FaultOutcome, FaultWindow, History, Instant, Name, Operation, Outcome, Token,
};

use super::palette::{Answer, is_write};
use super::plain::lasting;
use super::sentence::sentence;

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
    /// Why nobody was stopped, where nobody was.
    pub skipped: Option<String>,
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
    let acknowledged = acknowledged(history);
    windows
        .into_iter()
        .map(|window| zombie(window, history, &of_client, &acknowledged))
        .collect()
}

/// The columns of a table.
pub const HEAD: [&str; 8] = [
    "id",
    "holder stopped",
    "lock",
    "token",
    "at",
    "for",
    "successor wrote",
    "first thing after waking",
];

/// A row of it, as text. A fault that stopped nobody says why.
#[must_use]
pub fn row(zombie: &Zombie, history: &History) -> Vec<String> {
    let seconds = |time: u64| time as f64 / 1e9;
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let client = zombie.client.clone();
    let holder = match (&zombie.skipped, zombie.completed) {
        (Some(why), _) if why.is_empty() => "skipped".to_owned(),
        (Some(why), _) => format!("skipped: {why}"),
        (None, true) => or_dash(client),
        (None, false) => format!("{} (not completed)", or_dash(client)),
    };
    let lasted = match (&zombie.skipped, zombie.resumed_at) {
        (Some(_), _) => "-".to_owned(),
        (None, Some(resumed)) => {
            lasting(seconds(resumed.time.saturating_sub(zombie.stopped_at.time)))
        }
        (None, None) => "never woken".to_owned(),
    };
    let first = match zombie.first_after {
        _ if !zombie.completed => "-".to_owned(),
        Some(position) => sentence(&history.operations[position], history),
        None => "nothing".to_owned(),
    };
    let successor = zombie.successor.as_ref();
    vec![
        zombie.id.to_string(),
        holder,
        or_dash(zombie.lock.clone()),
        or_dash(zombie.token.map(|token| token.to_string())),
        format!("{:.2} s", seconds(zombie.stopped_at.time)),
        lasted,
        or_dash(successor.map(|(client, token)| format!("{client} under {token}"))),
        first,
    ]
}

/// A client goes on under its name when its process is replaced, so its name finds the new process, too.
fn zombie(
    window: &FaultWindow,
    history: &History,
    of_client: &HashMap<Name, Vec<usize>>,
    acknowledged: &Acknowledged<'_>,
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
        skipped: (window.outcome == FaultOutcome::Skipped).then(|| window.evidence.join("; ")),
        stopped_at: window.began,
        resumed_at: window.ended,
        successor: successor(window, history, acknowledged),
        first_after,
        refused_first,
    }
}

/// The acknowledged writes of each lock, in the order of their answers.
type Acknowledged<'h> = HashMap<Name, Vec<(u64, &'h Operation)>>;

fn acknowledged(history: &History) -> Acknowledged<'_> {
    let mut of_lock = Acknowledged::new();
    for write in &history.operations {
        if let (true, Outcome::Ok, Some(lock), Some(answered)) =
            (is_write(write), write.outcome, write.lock, write.completed)
        {
            of_lock
                .entry(lock)
                .or_default()
                .push((answered.index, write));
        }
    }
    for writes in of_lock.values_mut() {
        writes.sort_by_key(|(index, _)| *index);
    }
    of_lock
}

/// The first acknowledged write under a higher token of the lock while the holder was stopped.
fn successor(
    window: &FaultWindow,
    history: &History,
    acknowledged: &Acknowledged<'_>,
) -> Option<(String, Token)> {
    let (token, lock) = (
        window.begin.token?,
        history.names.find(window.begin.lock.as_deref()?)?,
    );
    let until = window.ended.map_or(u64::MAX, |ended| ended.index);
    let writes = acknowledged.get(&lock)?;
    let after = writes.partition_point(|(index, _)| *index <= window.began.index);
    let (_, write) = writes[after..]
        .iter()
        .take_while(|(index, _)| *index < until)
        .find(|(_, write)| write.token > Some(token))?;
    Some((history.names.text(write.client).to_owned(), write.token?))
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
    fn a_fault_that_stopped_nobody_says_why() {
        let mut recording = Recording::default();
        recording.fault(1, "zombie", &[], 10, None, "skipped");
        let mut history = recording.history();
        history.faults[0].evidence = vec!["nobody held a lock".to_owned()];
        let [zombie] = zombies(&history)
            .try_into()
            .expect("one zombie fault was recorded");
        assert_eq!(
            row(&zombie, &history),
            [
                "1",
                "skipped: nobody held a lock",
                "-",
                "-",
                "0.01 s",
                "-",
                "-",
                "-"
            ]
        );
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
