//! The command line as scripts meet it: exit statuses, one line for what is wrong, JSON and nothing else on stdout.

mod support;

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;
use support::{fencepost, only_json, outcome};

const VALID: &str = r#"{"index":0,"time":0,"process":1,"client":"c1","type":"invoke","f":"acquire","lock":"l"}
{"index":1,"time":10,"process":1,"client":"c1","type":"ok","f":"acquire","token":1}
{"index":2,"time":20,"process":1,"client":"c1","type":"invoke","f":"write","lock":"l","key":"k","token":1,"value":"a"}
{"index":3,"time":30,"process":1,"client":"c1","type":"ok","f":"write"}
"#;

/// c2 was granted 2 and has written when c1's write under 1 is sent and accepted.
const INVALID: &str = r#"{"index":0,"time":0,"process":1,"client":"c1","type":"invoke","f":"acquire","lock":"l"}
{"index":1,"time":10,"process":1,"client":"c1","type":"ok","f":"acquire","token":1}
{"index":2,"time":20,"process":2,"client":"c2","type":"invoke","f":"acquire","lock":"l"}
{"index":3,"time":30,"process":2,"client":"c2","type":"ok","f":"acquire","token":2}
{"index":4,"time":40,"process":2,"client":"c2","type":"invoke","f":"write","lock":"l","key":"k","token":2,"value":"b"}
{"index":5,"time":50,"process":2,"client":"c2","type":"ok","f":"write"}
{"index":6,"time":60,"process":1,"client":"c1","type":"invoke","f":"write","lock":"l","key":"k","token":1,"value":"a"}
{"index":7,"time":70,"process":1,"client":"c1","type":"ok","f":"write"}
"#;

fn files(folder: &tempfile::TempDir) -> [String; 3] {
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    [
        write("valid.jsonl", VALID),
        write("invalid.jsonl", INVALID),
        write(
            "broken.jsonl",
            "{\"index\":0,\"time\":0,\"process\":1,\"type\":\"invoke\",\"f\":\"read\",\"token\":1.5}\n{}\n",
        ),
    ]
}

#[test]
fn check_judges_each_file_and_the_worst_is_the_exit_status() {
    let folder = tempfile::tempdir().expect("a folder");
    let [valid, invalid, broken] = files(&folder);
    for (given, status) in [
        (vec![&valid], 0),
        (vec![&invalid], 1),
        (vec![&broken], 64),
        (vec![&broken, &valid], 64),
        (vec![&valid, &broken, &invalid], 1),
    ] {
        let (code, _, _) = outcome(
            &fencepost()
                .arg("check")
                .args(&given)
                .output()
                .expect("it runs"),
        );
        assert_eq!(code, status, "{given:?}");
    }
}

#[test]
fn check_tells_the_story_of_a_stale_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let [_, invalid, _] = files(&folder);
    let (_, stdout, _) = outcome(
        &fencepost()
            .args(["check", &invalid])
            .output()
            .expect("it runs"),
    );
    assert!(
        stdout.starts_with(&format!("{invalid}: invalid")),
        "{stdout}"
    );
    assert!(
        stdout.contains("stale-write-accepted")
            && stdout.contains("c1 wrote \"a\" to key k with token 1"),
        "{stdout}"
    );
}

#[test]
fn check_json_prints_one_object_a_file_in_order_and_goes_on_after_an_unreadable_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let [valid, invalid, broken] = files(&folder);
    let (code, stdout, stderr) = outcome(
        &fencepost()
            .args(["check", "--json", &broken, &valid, &invalid])
            .output()
            .expect("it runs"),
    );
    assert_eq!((code, stderr.as_str()), (1, ""));
    let lines: Vec<Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(
        (&lines[0]["file"], &lines[0]["verdict"]),
        (&Value::from(broken), &Value::Null)
    );
    assert_eq!(
        (&lines[0]["error"]["line"], &lines[0]["error"]["field"]),
        (&Value::from(1), &Value::from("token"))
    );
    assert_eq!(
        (&lines[1]["verdict"], &lines[1]["findings"]),
        (&Value::from("valid"), &Value::Array(Vec::new()))
    );
    assert_eq!(
        (&lines[2]["verdict"], &lines[2]["findings"][0]["events"]),
        (&Value::from("invalid"), &serde_json::json!([4, 5, 6, 7]))
    );
}

#[test]
fn check_reads_standard_input() {
    let mut child = fencepost()
        .args(["check", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(INVALID.as_bytes())
        .expect("written");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(
        only_json(&String::from_utf8_lossy(&output.stdout))["verdict"],
        "invalid"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_reader_that_goes_away_changes_no_exit_status() {
    let folder = tempfile::tempdir().expect("a folder");
    let [_, invalid, broken] = files(&folder);
    for (words, status) in [
        (vec!["check", &invalid], 1),
        (vec!["check", "--json", &invalid], 1),
        (vec!["check", "--json", &broken], 64),
        (vec!["list", "findings"], 0),
        (vec!["run", "nosuch"], 64),
    ] {
        let mut command = fencepost();
        let mut child = command
            .args(&words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(
            child.wait().expect("it ends").code(),
            Some(status),
            "{words:?}"
        );
    }
}

#[test]
fn the_register_alone_is_judged_by_its_own_model() {
    // Nobody was granted 9: the fencing rules object, the register does not care.
    let text = VALID.replace(
        "\"f\":\"write\",\"lock\":\"l\",\"key\":\"k\",\"token\":1",
        "\"f\":\"write\",\"lock\":\"l\",\"key\":\"k\",\"token\":9",
    );
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history.jsonl");
    std::fs::write(&path, text).expect("written");
    let status = |model: &str| {
        fencepost()
            .args(["check", "--model", model])
            .arg(&path)
            .output()
            .expect("it runs")
            .status
            .code()
    };
    assert_eq!(status("fencing"), Some(1));
    assert_eq!(status("fenced-register"), Some(0));
}

/// A read finds what nobody had written before the recording began; the read after it finds what nobody wrote at all.
const JOINED: [&str; 3] = [
    r#"{"index":0,"time":0,"process":1,"type":"invoke","f":"read","key":"<b>k"}
{"index":1,"time":1,"process":1,"type":"ok","f":"read","value":7}
"#,
    r#"{"index":2,"time":2,"process":1,"type":"invoke","f":"write","key":"<b>k","value":8}
{"index":3,"time":3,"process":1,"type":"ok","f":"write"}
"#,
    r#"{"index":4,"time":4,"process":1,"type":"invoke","f":"read","key":"<b>k"}
{"index":5,"time":5,"process":1,"type":"ok","f":"read","value":7}
"#,
];

#[test]
fn a_recording_that_joined_a_running_system_is_judged_from_what_it_finds() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("joined.jsonl");
    for (lines, flags, status) in [
        (&JOINED[..1], &[][..], 1),
        (&JOINED[..1], &["--joined"], 0),
        (&JOINED[..2], &["--joined"], 0),
        (&JOINED[..], &["--joined"], 1),
    ] {
        std::fs::write(&path, lines.concat()).expect("written");
        for model in ["register", "cas-register"] {
            let mut command = fencepost();
            command
                .args(["check", "--model", model])
                .args(flags)
                .arg(&path);
            let (code, stdout, _) = outcome(&command.output().expect("it runs"));
            assert_eq!(code, status, "{model} {flags:?}: {stdout}");
        }
    }
}

#[test]
fn a_page_shows_where_the_order_of_a_model_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("broken.jsonl");
    std::fs::write(&path, JOINED.concat()).expect("written");
    let page = folder.path().join("page.html");
    let mut command = fencepost();
    command.args(["check", "--model", "register", "--joined", "--html"]);
    command.arg(&page).arg(&path);
    assert_eq!(outcome(&command.output().expect("it runs")).0, 1);
    let html = std::fs::read_to_string(&page).expect("it is written");
    assert!(html.contains("holds 2 of 3 operations"), "{html}");
    assert!(html.contains("&lt;b&gt;k") && !html.contains("<b>k"));

    // A fenced register is decided without an order, and the page has one all the same; however long the file.
    let mut lines = String::new();
    for at in 0..50_000_u64 {
        let value = if at == 49_999 {
            "nobody's".to_owned()
        } else {
            format!("v{at}")
        };
        lines += &format!(
            "{{\"index\":{},\"time\":{at},\"process\":1,\"type\":\"invoke\",\"f\":\"write\",\"key\":\"k\",\"token\":1,\"value\":\"v{at}\"}}\n\
             {{\"index\":{},\"time\":{at},\"process\":1,\"type\":\"ok\",\"f\":\"write\"}}\n\
             {{\"index\":{},\"time\":{at},\"process\":1,\"type\":\"invoke\",\"f\":\"read\",\"key\":\"k\"}}\n\
             {{\"index\":{},\"time\":{at},\"process\":1,\"type\":\"ok\",\"f\":\"read\",\"value\":\"{value}\"}}\n",
            4 * at,
            4 * at + 1,
            4 * at + 2,
            4 * at + 3
        );
    }
    std::fs::write(&path, lines).expect("written");
    let mut command = fencepost();
    command.args(["check", "--model", "fenced-register", "--html"]);
    command.arg(&page).arg(&path);
    assert_eq!(outcome(&command.output().expect("it runs")).0, 1);
    let html = std::fs::read_to_string(&page).expect("it is written");
    assert!(
        html.contains("holds 99,999 of 100,000 operations"),
        "{html}"
    );
    assert!(html.len() < 1 << 20, "{} bytes", html.len());
}

#[test]
fn generate_says_when_it_had_no_occasion_for_its_defect() {
    let generate = |zombies: &str| {
        let mut command = fencepost();
        command.args(["generate", "--operations", "2000", "--timeouts", "0"]);
        command.args(["--defect", "stale-write", "--zombies", zombies]);
        outcome(&command.output().expect("it runs"))
    };
    let (code, _, stderr) = generate("0");
    assert_eq!((code, stderr.lines().count()), (70, 1), "{stderr}");
    assert!(
        stderr.contains("no occasion for --defect stale-write"),
        "{stderr}"
    );
    let (code, _, stderr) = generate("0.5");
    assert_eq!((code, stderr.as_str()), (0, ""));
}

#[test]
fn list_prints_names_first_and_one_a_line() {
    for (what, names) in [
        ("suites", &["default"][..]),
        ("workloads", &["register"]),
        (
            "faults",
            &[
                "zombie",
                "pause",
                "hole",
                "lost-reply",
                "latency",
                "reset",
                "kill",
            ],
        ),
        ("defects", &["unfenced", "volatile-counter", "hot-loop"]),
        ("targets", &["local"]),
        ("models", &["fencing", "fenced-register"]),
        (
            "findings",
            &[
                "stale-write-accepted",
                "double-writer-in-epoch",
                "token-regression",
                "duplicate-token",
                "write-without-grant",
                "hot-retry",
                "not-linearizable",
            ],
        ),
    ] {
        let (code, stdout, stderr) =
            outcome(&fencepost().args(["list", what]).output().expect("it runs"));
        assert_eq!((code, stderr.as_str()), (0, ""));
        let listed: Vec<&str> = stdout
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        for name in names {
            assert!(
                listed.contains(name),
                "list {what} lacks {name}: {listed:?}"
            );
        }
        assert!(
            stdout
                .lines()
                .all(|line| line.split_whitespace().count() > 3),
            "each line says what it is: {stdout}"
        );
    }
}

#[test]
fn wrong_usage_is_one_line_and_status_64() {
    let nowhere = "/proc/no-such-folder";
    for (words, expected) in [
        (&["run", "nosuch"][..], "no suite \"nosuch\""),
        (&["run", "nosuch.toml"], "nosuch.toml: No such file"),
        (&["run", "--defect", "nosuch"], "no defect \"nosuch\""),
        (&["list", "suite", "nosuch"], "no built-in suite \"nosuch\""),
        (&["check", "--model", "nosuch", "x"], "no model \"nosuch\""),
        (
            &["check", "--initial", "0", "--steps", "9", nowhere],
            "--initial, --steps do not apply to the model fencing",
        ),
        (
            &["check", "--html", "x.html", nowhere],
            "--html does not apply to the model fencing",
        ),
        (
            &["check", "--model", "mutex", "--initial", "7", nowhere],
            "--initial 7: a mutex begins as true (held) or false",
        ),
        (
            &["check", "--model", "queue", "--joined", nowhere],
            "--joined: a queue cannot be judged from the middle",
        ),
        (&["check", nowhere], "/proc/no-such-folder: No such file"),
        (&["--no-such-flag"], "unexpected argument '--no-such-flag'"),
        (
            &["run", "--no-such-flag"],
            "unexpected argument '--no-such-flag' found",
        ),
        (
            &["run", "--time-limit", "20"],
            "'20' for '--time-limit <DURATION>': \"20\" is no such duration: one like",
        ),
        (
            &["run", "--rate", "fast"],
            "'fast' for '--rate <HZ>': fast is no rate: operations a second from 0.1 to 1000000, or \"max\", is right",
        ),
        (
            &["run", "--seed", "-1"],
            "'-1' for '--seed <N>': a whole number from 0 to 18446744073709551615 is right",
        ),
        (
            &["run", "--toxiproxy", "nowhere"],
            "'nowhere' for '--toxiproxy <HOST:PORT>': invalid socket address; HOST:PORT, e.g. 127.0.0.1:8474, is right",
        ),
        (&["frobnicate"], "unrecognized subcommand 'frobnicate'"),
        (
            &["check"],
            "required arguments were not provided: <FILE>...",
        ),
    ] {
        let (code, stdout, stderr) = outcome(&fencepost().args(words).output().expect("it runs"));
        assert_eq!((code, stdout.as_str()), (64, ""), "{words:?}");
        assert!(
            stderr.starts_with("fencepost: ") && stderr.contains(expected),
            "{stderr}"
        );
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
    // Without a verb, what there is is shown.
    let (code, _, stderr) = outcome(&fencepost().output().expect("it runs"));
    assert!(
        code == 64 && stderr.contains("Usage: fencepost <COMMAND>"),
        "{stderr}"
    );
    assert_eq!(
        fencepost()
            .arg("--help")
            .output()
            .expect("it runs")
            .status
            .code(),
        Some(0)
    );
    assert_eq!(
        fencepost()
            .arg("--version")
            .output()
            .expect("it runs")
            .status
            .code(),
        Some(0)
    );
}

#[test]
fn the_worker_answers_a_request_whose_line_comes_in_pieces_and_ends_with_its_input() {
    use std::io::{BufRead, BufReader};
    let mut child = fencepost()
        .arg("worker")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut answers = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    // Nobody listens on port 1, so that each write is a definite failure, and an answer all the same.
    let hello = r#"{"f":"hello","clients":["c1"],"links":{"lock":"127.0.0.1:1","resource":"127.0.0.1:1"},"options":{"lock":"reference","resource":"reference","timeout_ms":500}}"#;
    let write = |id: u32| {
        format!(
            r#"{{"id":{id},"process":1,"client":"c1","f":"write","key":"k","token":1,"value":"v"}}"#
        )
    };
    let (first, second) = (write(7), write(8));
    writeln!(stdin, "{hello}\n{first}").expect("sent");
    let answer = |line: Option<std::io::Result<String>>| -> Value {
        serde_json::from_str(&line.expect("an answer").expect("readable")).expect("JSON")
    };
    assert_eq!(answer(answers.next())["id"], 7);
    // It has read everything there is when the next line begins.
    let (head, tail) = second.split_at(20);
    write!(stdin, "{head}").expect("sent");
    stdin.flush().expect("sent");
    std::thread::sleep(std::time::Duration::from_millis(50));
    writeln!(stdin, "{tail}").expect("sent");
    let told = answer(answers.next());
    assert_eq!(
        (&told["id"], &told["type"]),
        (&Value::from(8), &Value::from("fail"))
    );
    drop(stdin);
    assert!(answers.next().is_none(), "nothing more is said");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn a_result_that_cannot_be_written_is_a_failure_and_a_reader_that_has_gone_is_none() {
    for verb in [["list", "suites"], ["list", "defects"]] {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .expect("Linux has it");
        let ended = fencepost()
            .args(verb)
            .stdout(full)
            .output()
            .expect("it runs");
        let told = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(70), "{verb:?}: {told}");
        assert!(
            told.starts_with("fencepost: failed to write to standard output: No space left"),
            "{told}"
        );
        assert_eq!(told.lines().count(), 1, "{told}");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let ended = fencepost()
            .args(verb)
            .stdout(writer)
            .output()
            .expect("it runs");
        assert_eq!(ended.status.code(), Some(0), "{verb:?}");
    }
}
