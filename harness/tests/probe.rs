//! `fencepost probe` through the binary: a sound resource, each that is broken on purpose, and addresses that are no
//! resource at all.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::Value;
use support::{fencepost, findings, only_json, outcome, turn};

fn probed(words: &[&str]) -> (i32, String, String) {
    let mut command = fencepost();
    command.arg("probe").args(words);
    outcome(&command.output().expect("it runs"))
}

fn row<'a>(table: &'a Value, rule: &str) -> &'a Value {
    let rows = table["rules"].as_array().expect("a list");
    let found = rows.iter().find(|row| row["rule"] == rule);
    found.unwrap_or_else(|| panic!("no row {rule:?}: {table}"))
}

const FIRST: &str = "a fresh key takes a write, a read gives it";
const HIGHER_STAYS: &str = "of writes at once the higher token stays";
const BUSY: &str = "the mark is a token that a writer presented";
const HUGE: &str = "a huge token is not believed from anybody";
const RESTART: &str = "a restart keeps mark and value";

#[test]
fn a_sound_resource_keeps_every_rule_and_is_warned_of_what_it_believes() {
    let _turn = turn();
    let (code, stdout, stderr) = probed(&["--rounds", "60", "--json"]);
    let sound = only_json(&stdout);
    assert_eq!(code, 0, "{sound}{stderr}");
    assert_eq!(findings(&sound), Vec::<String>::new());
    let rows = sound["rules"].as_array().expect("a list");
    for row in rows {
        let answer = row["answer"].as_str().expect("a word");
        match row["rule"].as_str() {
            Some(HUGE) => {
                assert_eq!(answer, "warning", "{row}");
                let detail = row["detail"].as_str().expect("a text");
                assert!(detail.contains("9223372036854775807"), "{row}");
            }
            _ => assert!(matches!(answer, "kept" | "seen"), "{row}"),
        }
    }
    assert_eq!(row(&sound, HIGHER_STAYS)["detail"], "60 of 60");
}

#[test]
fn each_defect_of_a_resource_that_one_key_shows_breaks_its_rule() {
    let _turn = turn();
    for (defect, rule) in [
        ("unfenced", "a token below the mark is refused"),
        ("check-then-write", HIGHER_STAYS),
        ("volatile-high-water", RESTART),
        ("global-high-water", "keys do not influence each other"),
        ("strictly-greater", "a holder's second write is accepted"),
        ("ack-before-durable", RESTART),
        ("refuses-after-applying", BUSY),
        ("32-bit-mark", "tokens around 2^31 keep their order"),
        ("float-mark", "tokens around 2^53 keep their order"),
        ("string-compare", "tokens are compared as numbers: 9 < 10"),
        ("poison", BUSY),
        ("mark-expires", "a mark outlives a second without a write"),
        ("unfenced-cache", "the path cache is fenced too"),
        ("unfenced-webhook", "the path webhook is fenced too"),
        ("unfenced-admin", "the path admin is fenced too"),
    ] {
        let (code, stdout, stderr) = probed(&["--rounds", "60", "--json", "--defect", defect]);
        let broken = only_json(&stdout);
        assert_eq!(code, 1, "{defect}: {broken}{stderr}");
        assert_eq!(broken["verdict"], "invalid", "{defect}");
        assert_eq!(row(&broken, rule)["answer"], "broken", "{defect}: {broken}");
        assert!(!findings(&broken).is_empty(), "{defect}: {broken}");
        if defect == "poison" {
            let detail = row(&broken, BUSY)["detail"].as_str().expect("a text");
            let stray = (1_u64 << 62).to_string();
            assert!(detail.contains("fenced out by") && detail.contains(&stray));
        }
    }
}

#[test]
fn a_resource_without_its_fence_is_found_and_cannot_have_a_defect_beside() {
    let _turn = turn();
    let (code, stdout, stderr) = probed(&["--rounds", "60", "--json", "--fence", "none"]);
    assert_eq!(code, 1, "{stdout}{stderr}");
    for wrong in [
        &["--fence", "none", "--defect", "poison"][..],
        &["--resource", "postgres"],
        &["--defect", "nosuch"],
    ] {
        let (code, stdout, stderr) = probed(wrong);
        assert_eq!(
            (code, stderr.lines().count()),
            (64, 1),
            "{wrong:?}: {stderr}"
        );
        assert_eq!(stdout, "", "{wrong:?}");
    }
}

/// Status and body for the first line of a request, in lower case.
type Answer = fn(&str) -> (u16, &'static str);

/// Answers every request on a loopback port as `answer` says.
fn stand_in(answer: Answer) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound").to_string();
    // The thread ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream, answer));
        }
    });
    address
}

fn serve(mut stream: TcpStream, answer: Answer) {
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line.trim().is_empty() {
                break;
            }
            head.push(line.trim().to_ascii_lowercase());
        }
        let header = |name: &str| {
            let line = head.iter().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim_start_matches(':').trim())
        };
        let length: u64 =
            header("content-length").map_or(0, |text| text.parse().expect("a number"));
        let _ = std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink());
        let (status, body) = answer(&head[0]);
        let text = format!(
            "HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        if stream.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn an_address_that_understands_nothing_is_never_a_fence() {
    let _turn = turn();
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port");
    let closed = nobody.local_addr().expect("it is bound").to_string();
    drop(nobody);
    for (address, said) in [
        (
            stand_in(|_| (404, "")),
            "does not understand writes: HTTP 404 without a body on PUT /v1/keys/",
        ),
        (
            stand_in(|_| (401, "{\"error\":\"who-are-you\"}")),
            "does not understand writes: HTTP 401 who-are-you on PUT /v1/keys/",
        ),
        (
            stand_in(|_| (400, "{\"error\":\"bad-request\"}")),
            "does not understand writes: HTTP 400 bad-request on PUT /v1/keys/",
        ),
        (
            stand_in(|line| match line.starts_with("put") {
                true => (200, "{\"high_water\":1}"),
                false => (404, ""),
            }),
            "does not understand reads: HTTP 404 without a body on GET /v1/keys/",
        ),
        // The first write passes, and then nobody is let in: no refusal of the fence was ever seen.
        (
            stand_in(|line| match line.split(' ').collect::<Vec<_>>()[..2] {
                ["put", key] if key.ends_with("-first") => (200, "{\"high_water\":1}"),
                ["get", key] if key.ends_with("-first") => {
                    (200, "{\"value\":\"first\",\"token\":1,\"high_water\":1}")
                }
                ["get", _] => (200, "{\"value\":null,\"high_water\":0}"),
                _ => (401, ""),
            }),
            "too few answers say anything about the fence",
        ),
        (closed, "no connection could be made"),
    ] {
        let (code, stdout, stderr) = probed(&["--address", &address, "--rounds", "20", "--json"]);
        let table = only_json(&stdout);
        assert_eq!(
            (code, &table["verdict"]),
            (2, &Value::from("unknown")),
            "{table}"
        );
        assert!(
            stderr.lines().any(|line| line.contains(said)),
            "{said}: {stderr}"
        );
        let reason = table["reason"].as_str().expect("a reason");
        assert!(reason.contains(said), "{said}: {reason}");
    }
    let address = stand_in(|_| (404, ""));
    let (code, stdout, stderr) = probed(&["--address", &address, "--rounds", "20"]);
    assert_eq!((code, &*stdout), (2, ""), "{stderr}");
}

#[test]
fn a_fresh_key_that_refuses_its_first_write_is_broken_and_nothing_else_is_asked() {
    let _turn = turn();
    let address = stand_in(|_| (409, "{\"error\":\"stale-token\",\"high_water\":9}"));
    let (code, stdout, stderr) = probed(&["--address", &address, "--json"]);
    let table = only_json(&stdout);
    assert_eq!(code, 1, "{table}{stderr}");
    assert_eq!(table["rules"].as_array().map(Vec::len), Some(1), "{table}");
    assert_eq!(row(&table, FIRST)["answer"], "broken", "{table}");
}

/// A reference resource of somebody's; it ends with this.
struct Theirs {
    process: std::process::Child,
    address: String,
    _data: tempfile::TempDir,
}

impl Theirs {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        drop(listener);
        let data = tempfile::tempdir().expect("a folder");
        let mut command = fencepost();
        command
            .args(["fenced-resource", "--listen", &address, "--data"])
            .arg(data.path())
            .stderr(std::process::Stdio::null());
        let process = command.spawn().expect("it starts");
        let theirs = Self {
            process,
            address,
            _data: data,
        };
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while TcpStream::connect(&theirs.address).is_err() {
            assert!(std::time::Instant::now() < deadline, "it listens");
            std::thread::yield_now();
        }
        theirs
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_resource_that_was_probed_before_and_holds_keys_of_others_is_as_sound_as_a_new_one() {
    let _turn = turn();
    let theirs = Theirs::start();
    let request = "PUT /v1/keys/first HTTP/1.1\r\nHost: x\r\nFencing-Token: 900\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx";
    let mut stream = TcpStream::connect(&theirs.address).expect("it listens");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    for time in ["first", "second"] {
        let words = ["--rounds", "60", "--json", "--address", &theirs.address];
        let (code, stdout, stderr) = probed(&words);
        assert_eq!(code, 0, "{time}: {stdout}{stderr}");
        assert_eq!(findings(&only_json(&stdout)), Vec::<String>::new());
        assert!(stderr.contains("its keys stay there: all begin with fp_"));
    }
    let words = ["--address", &theirs.address, "--fence", "none"];
    let (code, _, stderr) = probed(&words);
    assert_eq!((code, stderr.lines().count()), (64, 1), "{stderr}");
}
