//! Small recordings for this room's tests, written as one would tell them. Times are milliseconds.

use std::collections::BTreeMap;

use fencepost_checker::finding::{Finding, Severity};
use fencepost_checker::history::History;
use fencepost_checker::verdict::{Coverage, FaultCount, Judgement, Stats, Verdict};
use fencepost_workloads::suite::Suite;
use serde_json::{Value, json};

use crate::run_record::{Phase, RunRecord};

/// Events in any order; [`Recording::history`] sorts them.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Time, and the line without index and time.
    lines: Vec<(u64, Value)>,
    processes: u64,
}

impl Recording {
    /// Any operation; every one is a process of its own. `answer` is `None` where none came.
    pub fn operation(
        &mut self,
        client: &str,
        from: u64,
        mut fields: Value,
        answer: Option<(u64, &str, Value)>,
    ) -> &mut Self {
        self.processes += 1;
        fields["process"] = self.processes.into();
        fields["client"] = client.into();
        fields["type"] = "invoke".into();
        let f = fields["f"].clone();
        self.lines.push((from * 1_000_000, fields));
        if let Some((to, kind, mut more)) = answer {
            more["process"] = self.processes.into();
            more["f"] = f;
            more["type"] = kind.into();
            self.lines.push((to * 1_000_000, more));
        }
        self
    }

    pub fn grant(&mut self, client: &str, lock: &str, token: u64, from: u64, to: u64) -> &mut Self {
        self.operation(
            client,
            from,
            json!({"f": "acquire", "lock": lock}),
            Some((to, "ok", json!({"token": token}))),
        )
    }

    pub fn acquire(
        &mut self,
        client: &str,
        lock: &str,
        from: u64,
        to: u64,
        kind: &str,
    ) -> &mut Self {
        self.operation(
            client,
            from,
            json!({"f": "acquire", "lock": lock}),
            Some((to, kind, json!({"error": "held"}))),
        )
    }

    pub fn release(
        &mut self,
        client: &str,
        lock: &str,
        token: u64,
        from: u64,
        to: u64,
        kind: &str,
    ) -> &mut Self {
        self.operation(
            client,
            from,
            json!({"f": "release", "lock": lock, "token": token}),
            Some((to, kind, json!({}))),
        )
    }

    pub fn renew(
        &mut self,
        client: &str,
        lock: &str,
        token: u64,
        from: u64,
        to: u64,
        kind: &str,
    ) -> &mut Self {
        self.operation(
            client,
            from,
            json!({"f": "renew", "lock": lock, "token": token}),
            Some((to, kind, json!({}))),
        )
    }

    /// `answer`: `ok`, `refused`, `fail` or `info`. The value is client and time.
    pub fn write(
        &mut self,
        client: &str,
        lock: &str,
        token: u64,
        from: u64,
        to: u64,
        answer: &str,
    ) -> &mut Self {
        let fields = json!({"f": "write", "lock": lock, "key": lock, "token": token, "value": format!("{client}-{from}")});
        let (kind, more) = match answer {
            "refused" => (
                "fail",
                json!({"error": "stale-token", "high_water": token + 1}),
            ),
            "fail" => ("fail", json!({"error": "connection refused"})),
            other => (other, json!({})),
        };
        self.operation(client, from, fields, Some((to, kind, more)))
    }

    pub fn fault(
        &mut self,
        id: u64,
        kind: &str,
        on: &[&str],
        from: u64,
        to: Option<u64>,
        outcome: &str,
    ) -> &mut Self {
        let line = |phase: &str| json!({"type": "fault", "fault": kind, "phase": phase, "id": id, "on": on, "outcome": outcome, "plan": kind});
        self.lines.push((from * 1_000_000, line("begin")));
        self.lines
            .extend(to.map(|to| (to * 1_000_000, line("end"))));
        self
    }

    pub fn zombie(
        &mut self,
        id: u64,
        client: &str,
        lock: &str,
        token: u64,
        from: u64,
        to: u64,
    ) -> &mut Self {
        self.fault(id, "zombie", &["w1"], from, Some(to), "installed");
        let begin = self.lines.len() - 2;
        let aim = &mut self.lines[begin].1;
        (aim["client"], aim["lock"], aim["token"]) = (client.into(), lock.into(), token.into());
        self
    }

    /// The recording as the checker reads it.
    pub fn history(&self) -> History {
        let mut lines = self.lines.clone();
        lines.sort_by_key(|(time, _)| *time);
        let mut text = String::new();
        for (index, (time, mut line)) in lines.into_iter().enumerate() {
            (line["index"], line["time"]) = (index.into(), time.into());
            text.push_str(&line.to_string());
            text.push('\n');
        }
        History::read(text.as_bytes()).expect("a sample is well formed")
    }
}

/// A holder that is stopped, succeeded, woken and refused.
pub fn zombie_refused() -> Recording {
    zombie_story("refused")
}

/// The same with a resource that does not compare.
pub fn zombie_accepted() -> Recording {
    zombie_story("ok")
}

fn zombie_story(answer: &str) -> Recording {
    let mut recording = Recording::default();
    recording
        .grant("c1", "s", 41, 0, 4)
        .write("c1", "s", 41, 20, 22, "ok")
        .zombie(1, "c1", "s", 41, 100, 1_300);
    recording
        .grant("c2", "s", 42, 600, 1_104)
        .write("c2", "s", 42, 1_150, 1_152, "ok");
    recording
        .write("c1", "s", 41, 1_301, 1_303, answer)
        .write("c2", "s", 42, 1_320, 1_322, "ok");
    recording
}

/// The finding that [`zombie_accepted`] earns.
pub fn stale_write_accepted() -> Finding {
    Finding {
        finding: "stale-write-accepted".to_owned(),
        severity: Severity::Violation,
        cause: None,
        lock: Some("s".to_owned()),
        key: Some("s".to_owned()),
        count: 3,
        // The grants, the write under 42 and the late one under 41.
        events: vec![0, 1, 5, 6, 7, 8, 10, 11],
        story: "at 0 ms c1 was granted 41.\nat 1.1 s c2 was granted 42 and wrote.\nat 1.3 s c1 wrote under 41: accepted.".to_owned(),
    }
}

/// A judgement with `findings`.
pub fn judgement(findings: Vec<Finding>) -> Judgement {
    let verdict = if findings
        .iter()
        .any(|finding| finding.severity == Severity::Violation)
    {
        Verdict::Invalid
    } else {
        Verdict::Valid
    };
    let faults = BTreeMap::from([(
        "zombie".to_owned(),
        FaultCount {
            planned: 2,
            installed: 1,
            skipped: 1,
            unknown: 0,
        },
    )]);
    let refused = if findings.is_empty() { 214 } else { 211 };
    Judgement {
        verdict,
        reason: None,
        findings,
        coverage: Coverage {
            zombie_writes: 214,
            zombie_writes_refused: refused,
            zombie_writes_expected: Some(5),
            faults,
            unexercised: Vec::new(),
        },
        stats: Stats {
            operations: 4_000,
            ok: 3_500,
            failed: 400,
            unknown: 100,
            grants: 190,
            writes: 2_000,
            refused: 230,
            ..Stats::default()
        },
        impasses: Vec::new(),
    }
}

/// A run of two workers.
pub fn run() -> RunRecord {
    let text = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    };
    RunRecord {
        format: 1,
        run: "0badcafe".to_owned(),
        suite: Suite::parse("name = \"sample\"", "a test").expect("a name is a suite"),
        seed: 7,
        defect: None,
        started: "2026-01-02T03:04:05Z".to_owned(),
        command_line: vec!["fencepost".to_owned(), "run".to_owned()],
        replay: "fencepost run --seed 7".to_owned(),
        versions: text(&[("fencepost", "0.1.0")]),
        machine: text(&[("os", "linux"), ("cores", "2")]),
        means: BTreeMap::new(),
        clients: text(&[("c1", "w1"), ("c2", "w2"), ("c3", "w1")]),
        plan: Vec::new(),
        phases: vec![Phase {
            name: "load".to_owned(),
            took_ms: 1_400,
        }],
        exercise: None,
        defect_found: None,
        teeth: None,
        ended_early: None,
        troubles: Vec::new(),
    }
}
