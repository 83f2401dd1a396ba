//! Judges a run while it is recorded, for `--fail-fast`.
//!
//! A thread of its own is handed every line after it was written, and asks the judge of streams now and then what is
//! proven. What is proven then is proven by the saved file too, which is what the run is judged by at its end.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fencepost_checker::Model;
use fencepost_checker::finding::{Finding, Severity};
use fencepost_checker::history::{Event, History, Line, Type, jsonl};
use fencepost_checker::online::{Limits, Online};
use fencepost_checker::verdict::Verdict;
use tokio::sync::watch;

use crate::error::HarnessError;

/// How often it is asked what is proven, at the most.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Findings that what comes later may take back: they count once they have lasted.
const TAKEN_BACK: [&str; 2] = ["starvation", "fenced-out"];

/// For how long.
const LASTS: Duration = Duration::from_secs(2);

/// Where the recorder sends what it has written.
pub type Lines = mpsc::Sender<Line>;

/// The thread that judges; it ends when the recorder does.
#[derive(Debug)]
pub struct Watch {
    proven: watch::Receiver<bool>,
    _thread: JoinHandle<()>,
}

impl Watch {
    /// Begins to judge what is sent: until a violation is proven, or where some are `wanted` one of these findings.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(wanted: &'static [&'static str]) -> Result<(Self, Lines), HarnessError> {
        let (lines, inbox) = mpsc::channel();
        let (found, proven) = watch::channel(false);
        let judged = move |inbox: &mpsc::Receiver<Line>| match wanted {
            [] => judge(inbox),
            wanted => judge_the_whole(inbox, wanted),
        };
        let thread = std::thread::Builder::new()
            .name("watch".to_owned())
            .spawn(move || {
                if judged(&inbox) {
                    let _ = found.send(true);
                }
                // What comes after is taken and dropped, so that the recorder keeps nothing for this.
                while inbox.recv().is_ok() {}
            })
            .map_err(|source| HarnessError::System {
                what: "start the thread that judges while the run goes on",
                source,
            })?;
        let watch = Self {
            proven,
            _thread: thread,
        };
        Ok((watch, lines))
    }

    /// Waits until a violation is proven; for ever if none is.
    pub async fn violation(&self) {
        let mut proven = self.proven.clone();
        if proven.wait_for(|&proven| proven).await.is_err() {
            std::future::pending().await
        }
    }
}

/// Whether one of the findings is made before the lines end, or would be if it ended now; a short run is soon judged as a
/// whole.
fn judge_the_whole(inbox: &mpsc::Receiver<Line>, wanted: &[&str]) -> bool {
    let (mut text, mut new) = (String::new(), false);
    let mut waiting: BTreeMap<u64, Event> = BTreeMap::new();
    let (mut index, mut time) = (0, 0);
    let (mut asked, mut pause) = (Instant::now(), ASK_EVERY);
    let mut found_since: Option<Instant> = None;
    let lasts = match wanted.iter().any(|name| TAKEN_BACK.contains(name)) {
        true => LASTS,
        false => Duration::ZERO,
    };
    loop {
        match inbox.recv_timeout(ASK_EVERY) {
            Ok(line) => {
                if let Line::Fault(fault) = &line {
                    (index, time) = (fault.index, fault.time);
                }
                if let Line::Event(event) = &line {
                    (index, time) = (event.index, event.time);
                    waiting.remove(&event.process);
                    if event.kind == Type::Invoke && event.f == "acquire" {
                        waiting.insert(event.process, (**event).clone());
                    }
                }
                push(&mut text, &line);
                new = true;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return false,
        }
        if new && asked.elapsed() >= pause {
            let begun = Instant::now();
            if found(&text, &waiting, index, time, wanted) {
                if found_since.get_or_insert(begun).elapsed() >= lasts {
                    return true;
                }
            } else {
                found_since = None;
            }
            // At most a tenth of the time is spent on it, however long the run is.
            pause = ASK_EVERY.max(begun.elapsed() * 10);
            (new, asked) = (false, Instant::now());
        }
    }
}

/// Whether a finding is made if the run ends now: who queues then never hears what became of it.
fn found(
    text: &str,
    waiting: &BTreeMap<u64, Event>,
    index: u64,
    time: u64,
    wanted: &[&str],
) -> bool {
    let mut text = text.to_owned();
    for (number, event) in (1..).zip(waiting.values()) {
        let given_up = Event {
            kind: Type::Info,
            index: index + number,
            time,
            ..event.clone()
        };
        push(&mut text, &Line::Event(Box::new(given_up)));
    }
    // The recorder's own lines fit each other; if they did not, the saved file would tell.
    let Ok(history) = History::read(text.as_bytes()) else {
        return false;
    };
    let judgement = fencepost_checker::judge(&history, Model::Fencing);
    let named = |finding: &Finding| wanted.contains(&finding.finding.as_str());
    judgement.findings.iter().any(named)
}

fn push(text: &mut String, line: &Line) {
    text.push_str(&jsonl::write(line));
    text.push('\n');
}

/// A violation that nothing takes back.
fn stays(finding: &Finding) -> bool {
    finding.severity == Severity::Violation && !TAKEN_BACK.contains(&finding.finding.as_str())
}

/// Whether a violation is proven before the lines end.
fn judge(inbox: &mpsc::Receiver<Line>) -> bool {
    // A window is copied whenever it is asked, so it is kept small.
    let limits = Limits {
        values: 1 << 12,
        tokens: 1 << 12,
        ..Limits::default()
    };
    let mut online = Online::new(Model::Fencing, limits);
    let (mut number, mut new, mut asked) = (0, false, Instant::now());
    let mut found_since: Option<Instant> = None;
    loop {
        match inbox.recv_timeout(ASK_EVERY) {
            Ok(line) => {
                number += 1;
                new = true;
                // The recorder's own lines fit each other; if they did not, the saved file would tell.
                if online.push(number, line).is_err() {
                    return false;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return false,
        }
        // One that may be taken back is asked for again although nothing has come.
        if (new || found_since.is_some()) && asked.elapsed() >= ASK_EVERY {
            let judgement = online.so_far();
            let invalid = judgement.verdict == Verdict::Invalid;
            found_since = found_since.or(Some(Instant::now())).filter(|_| invalid);
            let lasts = found_since.is_some_and(|since| since.elapsed() >= LASTS);
            if lasts || judgement.findings.iter().any(stays) {
                return true;
            }
            (new, asked) = (false, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITES: &[u8] = br#"
{"index":0,"time":0,"process":1,"client":"c1","type":"invoke","f":"write","key":"k","token":2,"value":"a"}
{"index":1,"time":1,"process":1,"client":"c1","type":"ok","f":"write"}
{"index":2,"time":2,"process":2,"client":"c2","type":"invoke","f":"write","key":"k","token":1,"value":"b"}
{"index":3,"time":3,"process":2,"client":"c2","type":"ok","f":"write"}
"#;

    /// Each of three newest holders is refused, because of a write whose token was lost on its way to its holder.
    fn fenced_out() -> String {
        let mut text = String::new();
        let mut index = 0;
        let mut line = |process: u64, client: u64, kind: &str, fields: &str| {
            text += &format!(
                "{{\"index\":{index},\"time\":{index},\"process\":{process},\"client\":\"c{client}\",\"type\":\"{kind}\",\"lock\":\"L\",{fields}}}\n"
            );
            index += 1;
        };
        let acquire = "\"f\":\"acquire\"";
        let write = |token: u64| {
            format!("\"f\":\"write\",\"key\":\"k\",\"token\":{token},\"value\":\"v{token}\"")
        };
        line(8, 9, "invoke", acquire);
        line(8, 9, "info", acquire);
        line(9, 9, "invoke", &write(9));
        line(9, 9, "ok", &write(9));
        for token in 1..=3 {
            line(token, token, "invoke", acquire);
            line(token, token, "ok", &format!("{acquire},\"token\":{token}"));
            line(token, token, "invoke", &write(token));
            let refused = format!(
                "{},\"error\":\"stale-token\",\"high_water\":9",
                write(token)
            );
            line(token, token, "fail", &refused);
        }
        text
    }

    #[tokio::test]
    async fn what_may_be_taken_back_is_told_once_it_has_lasted() {
        let (watch, lines) = Watch::start(&[]).expect("a thread");
        for line in jsonl::parse(fenced_out().as_bytes())
            .expect("well-formed")
            .lines
        {
            lines.send(line).expect("it listens");
        }
        let early = tokio::time::timeout(LASTS / 2, watch.violation()).await;
        assert!(early.is_err(), "a later holder may be let in");
        watch.violation().await;
    }

    #[tokio::test]
    async fn a_violation_is_told_while_lines_still_come() {
        let (watch, lines) = Watch::start(&[]).expect("a thread");
        let parsed = jsonl::parse(WRITES).expect("well-formed").lines;
        for line in parsed.iter().take(3) {
            lines.send(line.clone()).expect("it listens");
        }
        let early = tokio::time::timeout(3 * ASK_EVERY, watch.violation()).await;
        assert!(early.is_err(), "nothing is proven by an open write");
        lines.send(parsed[3].clone()).expect("it listens");
        watch.violation().await;
        assert!(
            lines.send(parsed[3].clone()).is_ok(),
            "it still takes lines"
        );
    }
}
