//! What happened, in words that a tired person understands: one sentence a line, in order of time.
//!
//! Times are relative to the story's first event. A story is told from the operations of a witness and the faults
//! around it; it decides nothing.

use std::borrow::Cow;

use super::Case;
use crate::history::{
    FaultOutcome, FaultWindow, Function, Header, History, Instant, Name, Operation, Outcome, digits,
};

/// How many faults or operations of one kind a story names before it only counts.
pub(crate) const MOST: usize = 3;

const LONGEST_VALUE: usize = 40;

/// One thing worth a sentence.
#[derive(Clone, Debug)]
pub(crate) enum Scene<'a> {
    /// A grant, at the moment when its holder learned of it.
    Granted(&'a Operation),
    /// A grant, with the moment when it was asked for.
    Asked(&'a Operation),
    /// Any operation, with its answer.
    Happened(&'a Operation),
    /// A write that was refused although its holder had just been granted its token.
    RefusedHolder(&'a Operation),
    /// What was done to a worker, and which client it runs.
    Worker(&'a FaultWindow, Name),
    /// What was done to a service, and what the service is called.
    Service(&'a FaultWindow, &'static str),
}

/// A witness in order, each operation once, and a scene of each.
pub(crate) fn happened<'a>(case: &Case<'a>, witness: &mut Vec<usize>) -> Vec<Scene<'a>> {
    witness.sort_unstable();
    witness.dedup();
    let operations = witness.iter().map(|&op| case.operation(op));
    operations.map(Scene::Happened).collect()
}

/// Tells the scenes in order of time, then the ending as it stands.
pub(crate) fn tell(history: &History, mut scenes: Vec<Scene<'_>>, ending: &str) -> String {
    scenes.sort_by_key(Scene::time);
    let teller = Teller {
        history,
        origin: scenes.first().map_or(0, Scene::time),
    };
    let mut lines: Vec<String> = scenes.iter().map(|scene| teller.say(scene)).collect();
    lines.push(ending.to_owned());
    lines.join("\n")
}

/// The faults that were in force on a client's worker, or on a link of it, between two moments: the last few.
pub(crate) fn worker_faults<'a>(
    history: &'a History,
    client: Name,
    from: Instant,
    to: Instant,
) -> Vec<Scene<'a>> {
    let name = history.names.text(client);
    let header = history.header.as_ref();
    let touches = |window: &FaultWindow| touches_worker(header, name, window);
    let mut windows: Vec<_> = in_force(history, from, to)
        .filter(|window| touches(window))
        .collect();
    let spare = windows.len().saturating_sub(MOST);
    windows.drain(..spare).for_each(drop);
    windows
        .into_iter()
        .map(|window| Scene::Worker(window, client))
        .collect()
}

/// Whether a fault is on the worker of the client of this name, on a link of it, or aimed at it.
pub(crate) fn touches_worker(header: Option<&Header>, name: &str, window: &FaultWindow) -> bool {
    let clients = header.map(|header| &header.clients);
    // A restarted worker's clients are `c3~2`, `c3~3`: the header knows the first of them.
    let first_name = name.split('~').next().unwrap_or(name);
    let worker = clients.and_then(|clients| clients.get(name).or_else(|| clients.get(first_name)));
    let on_worker = worker.is_some_and(|worker| {
        let on = |node: &String| {
            node == worker
                || node
                    .strip_prefix(worker.as_str())
                    .is_some_and(|r| r.starts_with('-'))
        };
        window.begin.on.iter().any(on)
    });
    on_worker || window.begin.client.as_deref() == Some(name)
}

/// Kills and worse that were done to the lock service between two moments: the last few.
pub(crate) fn lock_service_faults(history: &History, from: Instant, to: Instant) -> Vec<Scene<'_>> {
    service_faults(history, "lock", "The lock service", from, to)
}

/// Kills and worse that were done to the resource between two moments: the last few.
pub(crate) fn resource_faults(history: &History, from: Instant, to: Instant) -> Vec<Scene<'_>> {
    service_faults(history, "resource", "The resource", from, to)
}

fn service_faults<'a>(
    history: &'a History,
    node: &str,
    shown: &'static str,
    from: Instant,
    to: Instant,
) -> Vec<Scene<'a>> {
    let hit = |window: &&FaultWindow| {
        matches!(
            window.begin.fault.as_str(),
            "kill" | "redeploy" | "second-issuer" | "defect"
        ) && window.begin.on.iter().any(|on| on.contains(node))
    };
    let mut windows: Vec<_> = in_force(history, from, to).filter(hit).collect();
    let spare = windows.len().saturating_sub(MOST);
    windows.drain(..spare).for_each(drop);
    windows
        .into_iter()
        .map(|window| Scene::Service(window, shown))
        .collect()
}

/// Whether any fault that did take place, of those that `counts` names, was in force between two moments.
pub(crate) fn any_fault(
    history: &History,
    from: Instant,
    to: Instant,
    counts: impl Fn(&FaultWindow) -> bool,
) -> bool {
    in_force(history, from, to).any(counts)
}

fn in_force(history: &History, from: Instant, to: Instant) -> impl Iterator<Item = &FaultWindow> {
    history.faults.iter().filter(move |window| {
        window.outcome != FaultOutcome::Skipped
            && window.began.index <= to.index
            && window.ended.is_none_or(|ended| ended.index >= from.index)
    })
}

/// A value as people read it: JSON, shortened.
pub(crate) fn value_text(value: Option<&serde_json::Value>) -> String {
    match value {
        None => "something".to_owned(),
        Some(serde_json::Value::Null) => "nothing".to_owned(),
        Some(value) => {
            let text = digits(value).map_or_else(|| value.to_string(), str::to_owned);
            if text.chars().count() <= LONGEST_VALUE {
                return text;
            }
            text.chars()
                .take(LONGEST_VALUE)
                .chain("...".chars())
                .collect()
        }
    }
}

impl Scene<'_> {
    fn time(&self) -> u64 {
        match self {
            Self::Granted(op) => op.completed.unwrap_or(op.invoked).time,
            Self::Asked(op) | Self::Happened(op) | Self::RefusedHolder(op) => op.invoked.time,
            Self::Worker(window, _) | Self::Service(window, _) => window.began.time,
        }
    }
}

struct Teller<'a> {
    history: &'a History,
    origin: u64,
}

impl Teller<'_> {
    fn at(&self, time: u64) -> String {
        let passed = time.saturating_sub(self.origin);
        // Precision beyond 2^52 ns (52 days) does not matter in a story.
        #[allow(clippy::cast_precision_loss)]
        let ms = passed as f64 / 1e6;
        if passed < 1_000_000_000 {
            format!("+{ms:.1} ms")
        } else {
            format!("+{:.3} s", ms / 1e3)
        }
    }

    fn text(&self, name: Name) -> Cow<'_, str> {
        self.history.names.shown(name)
    }

    fn say(&self, scene: &Scene<'_>) -> String {
        match scene {
            Scene::Granted(op) => {
                let at = self.at(scene.time());
                format!(
                    "{} was granted token {} of lock {} at {at}.",
                    self.client(op),
                    token(op),
                    self.lock(op)
                )
            }
            Scene::Asked(op) => {
                let (client, lock) = (self.client(op), self.lock(op));
                let asked = self.at(op.invoked.time);
                let told = self.at(op.completed.unwrap_or(op.invoked).time);
                format!(
                    "{client} asked for lock {lock} at {asked} and was granted token {} at {told}.",
                    token(op)
                )
            }
            Scene::Happened(op) => self.happened(op),
            Scene::RefusedHolder(op) => {
                let at = self.at(op.completed.unwrap_or(op.invoked).time);
                let mark = op
                    .high_water
                    .map(|mark| format!(", high water {mark}"))
                    .unwrap_or_default();
                format!(
                    "{} held the new token {} and was refused at {at}{mark}.",
                    self.client(op),
                    token(op)
                )
            }
            Scene::Worker(window, client) => self.worker(window, *client),
            Scene::Service(window, service) => self.service(window, service),
        }
    }

    fn service(&self, window: &FaultWindow, service: &str) -> String {
        let began = self.at(window.began.time);
        let verb = match window.begin.fault.as_str() {
            "kill" => "was killed",
            "redeploy" => "was started anew on empty data",
            "defect" => "ran with a planted defect",
            _ => "got a second issuer beside it",
        };
        if window.begin.fault == "defect" {
            let evidence = window.evidence.first();
            let which = evidence
                .map(|name| format!(" ({name})"))
                .unwrap_or_default();
            return format!("{service} {verb}{which} from {began}.");
        }
        match window.ended {
            Some(ended) => format!(
                "{service} {verb} at {began} and was back at {}.",
                self.at(ended.time)
            ),
            None => format!("{service} {verb} at {began}."),
        }
    }

    fn worker(&self, window: &FaultWindow, client: Name) -> String {
        let client = self.text(client);
        let began = self.at(window.began.time);
        let kind = window.begin.fault.as_str();
        let on = if window.begin.on.is_empty() {
            "its worker".to_owned()
        } else {
            window.begin.on.join(", ")
        };
        let stopped = matches!(kind, "pause" | "zombie" | "between");
        let what = if kind == "between" {
            format!(
                "{on}, which runs {client}, had decided to write and was stopped before its request left,"
            )
        } else if stopped {
            format!("{on}, which runs {client}, was stopped")
        } else {
            format!("The fault {kind} was on {on}, on which {client} depends,")
        };
        let until = match window.ended {
            Some(ended) => format!("until {}", self.at(ended.time)),
            None => "to the end of the file".to_owned(),
        };
        let sure = if window.outcome == FaultOutcome::Installed {
            ""
        } else {
            ", without evidence"
        };
        let named = if stopped {
            format!(" ({kind}{sure})")
        } else {
            sure.to_owned()
        };
        format!("{what} from {began} {until}{named}.")
    }

    fn happened(&self, op: &Operation) -> String {
        let sent = self.at(op.invoked.time);
        let told = self.at(op.completed.unwrap_or(op.invoked).time);
        let client = self.client(op);
        let under = op
            .token
            .map(|token| format!(" with token {token}"))
            .unwrap_or_default();
        let mark = op
            .high_water
            .map(|mark| format!(", high water {mark}"))
            .unwrap_or_default();
        match (op.function, op.outcome) {
            (Function::Read, _) => {
                let value = value_text(self.history.value(op).as_ref());
                format!(
                    "{client} read {value} from {}, sent at {sent}, answered at {told}{mark}.",
                    self.key(op)
                )
            }
            (Function::Write | Function::Append | Function::Cas, outcome) => {
                let value = value_text(self.history.value(op).as_ref());
                let answer = match outcome {
                    Outcome::Ok => format!("accepted at {told}"),
                    Outcome::Failed
                        if op
                            .error
                            .is_some_and(|error| self.text(error) == "stale-token") =>
                    {
                        format!("refused as stale at {told}{mark}")
                    }
                    Outcome::Failed => format!("answered with a definite no at {told}"),
                    Outcome::Unknown => "never certainly answered".to_owned(),
                };
                format!(
                    "{client} wrote {value} to {}{under}, sent at {sent}, {answer}.",
                    self.key(op)
                )
            }
            (_, outcome) => {
                let verb = match op.function {
                    Function::Acquire => "asked for",
                    Function::Renew => "renewed",
                    Function::Release => "released",
                    _ => "called",
                };
                let answer = match outcome {
                    Outcome::Ok => format!("answered ok at {told}"),
                    Outcome::Failed => match op.error {
                        Some(error) => format!("answered no ({}) at {told}", self.text(error)),
                        None => format!("answered no at {told}"),
                    },
                    Outcome::Unknown => "never certainly answered".to_owned(),
                };
                format!(
                    "{client} {verb} lock {}{under}, sent at {sent}, {answer}.",
                    self.lock(op)
                )
            }
        }
    }

    fn client(&self, op: &Operation) -> Cow<'_, str> {
        self.text(op.client)
    }

    fn lock(&self, op: &Operation) -> Cow<'_, str> {
        op.lock
            .map_or(Cow::Borrowed("(unnamed)"), |lock| self.text(lock))
    }

    fn key(&self, op: &Operation) -> String {
        let key = op.key.map_or_else(
            || "the register".to_owned(),
            |key| format!("key {}", self.text(key)),
        );
        match op.path.map(|path| self.text(path)) {
            Some(path) if path != "primary" => format!("{key} by path {path}"),
            _ => key,
        }
    }
}

fn token(op: &Operation) -> String {
    op.token
        .map_or_else(|| "(none)".to_owned(), |token| token.to_string())
}
