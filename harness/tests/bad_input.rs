//! Bad input gets one line that says what is wrong and what would be right, within seconds, and leaves nothing.

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Running, SmallDisk, fencepost, left_behind, only_json, outcome, short_suite, turn};

/// No bad input may take longer than this to be told.
const TOLD_WITHIN: Duration = Duration::from_secs(5);

/// Runs with `words`, and asserts that it was refused as wrong usage, in one line, in time, without a folder of a run.
fn refused(words: &[&str], expected: &str) {
    let out = tempfile::tempdir().expect("a folder");
    let begun = Instant::now();
    let output = fencepost()
        .arg("run")
        .args(words)
        .arg("--out")
        .arg(out.path())
        .output()
        .expect("it runs");
    let (code, stdout, stderr) = outcome(&output);
    assert_eq!((code, stdout.as_str()), (64, ""), "{words:?}: {stderr}");
    assert!(stderr.contains(expected), "{stderr:?} lacks {expected:?}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(begun.elapsed() < TOLD_WITHIN);
    assert_eq!(
        std::fs::read_dir(out.path()).expect("still there").count(),
        0,
        "nothing was begun"
    );
}

#[test]
fn a_suite_that_cannot_be_used_is_refused_with_its_file_and_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("my.toml");
    let named = path.to_str().expect("UTF-8");
    for (text, expected) in [
        (
            "[run]\nworkerz = 3\n",
            ", line 2: `workerz = 3`: unknown field `workerz`",
        ),
        (
            "[run]\ntime_limit = \"20 parsecs\"\n",
            ", line 2: `time_limit = \"20 parsecs\"`: \"20 parsecs\" is no such duration",
        ),
        ("[run]\nrate = 0\n", ", line 2: `rate = 0`: 0 is no rate"),
        (
            "[[fault]]\nkind = \"pause\"\nlength = \"3s..1s\"\n",
            ", line 3: `length = \"3s..1s\"`: \"3s..1s\" is upside down",
        ),
        (
            "[[fault]]\nkind = \"earthquake\"\n",
            ", line 2: `kind = \"earthquake\"`: unknown variant `earthquake`",
        ),
        ("[run\n", ", line 1: `[run`: "),
        (
            "[[fault]]\nkind = \"zombie\"\non = \"worker\"\n",
            ", line 3: `on = \"worker\"`: fault.on: a zombie fault takes no `on`",
        ),
        (
            "[run]\nclients = 3\n",
            ", line 2: `clients = 3`: run.clients: 4 locks for 3 clients",
        ),
        (
            "[worker]\ncommand = [\"no-such-program-here\"]\n",
            ", line 2: `command = [\"no-such-program-here\"]`: worker.command: there is no program \"no-such-program-here\"",
        ),
        (
            "[worker]\ncommand = [\"/etc/passwd\"]\n",
            ", line 2: `command = [\"/etc/passwd\"]`: worker.command: there is no program \"/etc/passwd\" that can be started",
        ),
    ] {
        std::fs::write(&path, text).expect("written");
        refused(&[named], expected);
    }
    // What a terminal would obey is written out.
    std::fs::write(&path, "[run]\nclients = \"\u{1b}[31m\u{9b}2J\"\n").expect("written");
    refused(&[named], ", line 2: `clients = \"\\u{1b}[31m\\u{9b}2J\"`: ");
    std::fs::write(&path, [0xff, 0xfe, 0x00]).expect("written");
    refused(&[named], "stream did not contain valid UTF-8");
    refused(
        &[folder.path().to_str().expect("UTF-8")],
        "no regular file: a TOML file is right",
    );
}

#[test]
fn an_address_that_does_not_answer_is_refused_before_anything_is_begun() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let dead = listener.local_addr().expect("an address").to_string();
    drop(listener);
    refused(
        &["--toxiproxy", &dead],
        &format!("--toxiproxy {dead} does not answer"),
    );
}

#[test]
fn a_server_that_is_no_toxiproxy_is_refused_in_time_and_quoted_shortly() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = listener.local_addr().expect("an address").to_string();
    let begun = Instant::now();
    refused(
        &["--toxiproxy", &silent],
        &format!("--toxiproxy {silent} takes connections and says nothing within 2s"),
    );
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
    drop(listener);

    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let shop = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("it is asked");
        let page = format!("HTTP/1.1 200 OK\r\n\r\n<html>\n{}", "buy ".repeat(10_000));
        // It does not read all of it.
        let _ = std::io::Write::write_all(&mut client, page.as_bytes());
    });
    let quoted = format!("{:?} ...", format!("<html>\n{}b", "buy ".repeat(28)));
    refused(
        &["--toxiproxy", &shop],
        &format!("--toxiproxy {shop} is no Toxiproxy: asked for its version, it says {quoted}"),
    );
}

/// No process of any run under `out` is left, and no journal.
fn nothing_left(out: &Path) {
    for run in std::fs::read_dir(out)
        .into_iter()
        .flatten()
        .flatten()
        .flat_map(|suite| std::fs::read_dir(suite.path()))
        .flatten()
        .flatten()
    {
        let name = run.file_name().into_string().expect("UTF-8");
        let id = name.rsplit('-').next().expect("time and id");
        assert_eq!(left_behind(id), Vec::<String>::new(), "{name}");
        assert!(!run.path().join("data").exists(), "data of {name} is left");
        assert!(
            !support::state_home().join("fencepost").join(id).exists(),
            "a journal of {name} is left"
        );
    }
}

#[test]
fn a_port_that_is_taken_is_named_with_what_would_be_right() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let data = tempfile::tempdir().expect("a folder");
    let data = data.path().to_str().expect("UTF-8");
    for words in [
        &["toxiproxy", "--listen", &address][..],
        &["lock-service", "--listen", &address, "--data", data],
        &["fenced-resource", "--listen", &address, "--data", data],
    ] {
        let (code, _, stderr) = outcome(&fencepost().args(words).output().expect("it runs"));
        assert_eq!(code, 70, "{stderr}");
        assert!(
            stderr.contains(&format!("failed to listen on {address}"))
                && stderr.contains("a free address"),
            "{stderr}"
        );
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn a_worker_that_breaks_the_protocol_is_named_and_everything_is_taken_down() {
    let _turn = turn();
    // Each of them reads its hello first; what it does wrong follows.
    for (script, expected) in [
        (
            "read hello; echo I am no worker; sleep 60",
            "\"I am no worker\", which is no response",
        ),
        (
            "read hello; echo '{\"id\":1,\"type\":\"ok\"'; sleep 60",
            "which is no response",
        ),
        (
            "read hello; echo no luck today >&2; exit 3",
            "closed its standard output and ended with exit status: 3; its last words: no luck today",
        ),
        (
            "echo cannot even begin >&2; kill -9 $$",
            "closed its standard output and ended with signal: 9 (SIGKILL); its last words: cannot even begin",
        ),
        (
            "read hello; exec >&-; sleep 60",
            "closed its standard output: one line for each request, until its standard input is closed, is right",
        ),
        (
            "read hello; exit 0",
            "closed its standard output and ended with exit status: 0: one line for each request",
        ),
        (
            "read hello; read one; echo '[1,\"fail\",null,\"held\"]'; sleep 60",
            "which is no response: invalid type: sequence, expected an object",
        ),
        (
            "read hello; read one; echo '{\"id\":1,\"type\":{\"fail\":null}}'; sleep 60",
            "which is no response: invalid type: map, expected a string",
        ),
        (
            "read hello; read one; echo '{\"id\":99999,\"type\":\"ok\"}'; sleep 60",
            "answered id 99999, which is not open",
        ),
        (
            "read hello; while read line; do id=$(echo $line | sed 's/[^0-9]*\\([0-9]*\\).*/\\1/'); r='{\"id\":'$id',\"type\":\"fail\"}'; echo $r; echo $r; done",
            "which is not open: one answer to each request is right",
        ),
        ("read hello; yes", "\"y\", which is no response"),
        ("read hello; yes ''", "blank lines in a row"),
        (
            "read hello; tr '\\0' x < /dev/zero",
            "wrote a line of more than 524288 bytes",
        ),
        (
            "read hello; while read line; do id=$(echo $line | sed 's/[^0-9]*\\([0-9]*\\).*/\\1/'); echo '{\"id\":'$id',\"type\":\"ok\"}'; done",
            "with ok and no token",
        ),
    ] {
        let out = tempfile::tempdir().expect("a folder");
        let more = format!("[worker]\ncommand = [\"sh\", \"-c\", '''{script}''']\n");
        let suite = short_suite(out.path(), 60, &more);
        let begun = Instant::now();
        let output = fencepost()
            .arg("run")
            .arg(&suite)
            .args(["--json", "--seed", "1", "--out"])
            .arg(out.path())
            .output()
            .expect("it runs");
        let (code, stdout, _) = outcome(&output);
        let end = only_json(&stdout);
        assert_eq!(code, 70, "{script}: {end}");
        let trouble = end["troubles"][0].as_str().expect("a sentence");
        assert!(
            trouble.starts_with('w') && trouble.contains(expected),
            "{script}: {trouble}"
        );
        assert!(!trouble.contains('\n'), "{trouble}");
        assert!(
            begun.elapsed() < TOLD_WITHIN,
            "{script} took {:?}",
            begun.elapsed()
        );
        nothing_left(out.path());
    }
}

#[test]
fn a_service_that_does_not_come_back_ends_the_run_with_what_it_has() {
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    // The run is made by a copy of the program, which is gone when a service is to be started again from it.
    let copy = out.path().join("fencepost-copy");
    std::fs::copy(env!("CARGO_BIN_EXE_fencepost"), &copy).expect("copied");
    let more = "[[fault]]\nkind = \"kill\"\non = \"resource\"\nevery = \"4s\"\n";
    let suite = short_suite(out.path(), 60, more);
    let mut command = std::process::Command::new(&copy);
    command
        .env("XDG_STATE_HOME", support::state_home())
        .arg("run")
        .arg(&suite)
        .args(["--json", "--seed", "1", "--out"])
        .arg(out.path());
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it runs");
    let deadline = Instant::now() + Duration::from_secs(20);
    let under_way = || {
        let runs = std::fs::read_dir(out.path().join("short-local")).ok();
        let folder = runs.and_then(|mut runs| Some(runs.next()?.ok()?.path()));
        folder.is_some_and(|folder| {
            std::fs::metadata(folder.join("history.jsonl")).is_ok_and(|file| file.len() > 10_000)
        })
    };
    while !under_way() {
        assert!(Instant::now() < deadline, "it does not get under way");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::fs::remove_file(&copy).expect("removed");
    let mut stdout = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().expect("a pipe"), &mut stdout)
        .expect("UTF-8");
    assert_eq!(child.wait().expect("it ends").code(), Some(70), "{stdout}");
    let end = only_json(&stdout);
    assert!(
        end["troubles"][0]
            .as_str()
            .is_some_and(|trouble| trouble.starts_with("resource: failed to start again")),
        "{end}"
    );
    assert!(
        end["stats"]["operations"].as_u64() > Some(50),
        "what was recorded was judged"
    );
    nothing_left(out.path());
}

/// A worker that is itself in every process but `w3`, which does as the script says.
fn one_of_five(script: &str) -> String {
    let binary = env!("CARGO_BIN_EXE_fencepost");
    format!(
        "[worker]\ncommand = [\"sh\", \"-c\", \"\"\"case $FENCEPOST_RUN in */w3) {script};; *) exec '{binary}' worker;; esac\"\"\"]\n"
    )
}

#[test]
fn a_worker_that_answers_nothing_is_named_soon_after_the_load_at_the_latest() {
    let _turn = turn();
    let binary = env!("CARGO_BIN_EXE_fencepost");
    let quiet_after = format!("head -n 40 | '{binary}' worker; sleep 60");
    let (silent, half) = (
        "w3: has answered nothing for",
        "w3: has begun a line that does not end",
    );
    for (seconds, script, told) in [
        // The load is too short to tell it from one that is slow to start.
        (1, "read hello; sleep 60", silent),
        // It has answered before, so its silence ends the load.
        (60, quiet_after.as_str(), silent),
        (60, "read hello; printf '{'; sleep 60", half),
        // Its pipe stays open in a child's hands.
        (
            60,
            "sleep 60 & exit 3",
            "w3: has ended, though something of it",
        ),
    ] {
        let out = tempfile::tempdir().expect("a folder");
        let suite = short_suite(out.path(), seconds, &one_of_five(script));
        let mut run = Running::start(&suite, out.path(), &["--seed", "1"]);
        let (code, stdout) = run.end();
        let end = only_json(&stdout);
        assert_eq!(code, Some(70), "{script}: {end}");
        let troubles = end["troubles"].as_array().expect("a list");
        assert_eq!(troubles.len(), 1, "the others read every key: {end}");
        assert!(
            troubles[0]
                .as_str()
                .is_some_and(|trouble| trouble.starts_with(told)),
            "{script}: {end}"
        );
        let record = support::read(&run.folder().expect("it ran"), "run.json");
        let record: Value = serde_json::from_str(&record).expect("JSON");
        let took = |name: &str| {
            let phases = record["phases"].as_array().expect("a list").iter();
            let mut of_it = phases.filter(|phase| phase["name"] == name);
            let took = of_it.next().and_then(|phase| phase["took_ms"].as_u64());
            Duration::from_millis(took.expect("the run had it"))
        };
        let at_most = if told == silent {
            Duration::from_secs(30)
        } else {
            TOLD_WITHIN
        };
        assert!(took("load") < at_most, "{record}");
        assert!(
            took("settle") + took("final-reads") < TOLD_WITHIN,
            "{record}"
        );
        nothing_left(out.path());
    }
}

#[test]
fn a_worker_that_floods_its_log_gets_it_cut() {
    let _turn = turn();
    let binary = env!("CARGO_BIN_EXE_fencepost");
    let out = tempfile::tempdir().expect("a folder");
    let script = format!(
        "echo first words >&2; head -c 40000000 /dev/zero | tr '\\\\0' x >&2; exec '{binary}' worker"
    );
    let suite = short_suite(out.path(), 2, &one_of_five(&script));
    let mut run = Running::start(&suite, out.path(), &["--seed", "1"]);
    let (code, stdout) = run.end();
    assert!(matches!(code, Some(0 | 2)), "{stdout}");
    let log = run.folder().expect("it ran").join("logs/w3.log");
    let log = std::fs::read(log).expect("there");
    assert!(log.len() <= 16 << 20, "{} bytes", log.len());
    assert!(log.starts_with(b"first words"));
    let text = String::from_utf8_lossy(&log);
    assert!(text.contains("\n[log cut by fencepost: it had grown to"));
}

#[test]
fn a_worker_that_floods_in_its_answers_does_not_fill_the_disk() {
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    // Each answer says why in 400,000 bytes.
    let script = out.path().join("flood.sh");
    let flood = r#"why=$(head -c 400000 /dev/zero | tr '\0' x)
read hello
while read line; do
    id=$(echo "$line" | sed 's/[^0-9]*\([0-9]*\).*/\1/')
    printf '{"id":%s,"type":"fail","error":"%s"}\n' "$id" "$why"
done
"#;
    std::fs::write(&script, flood).expect("written");
    let worker = one_of_five(&format!("exec sh {}", script.display()));
    let suite = short_suite(out.path(), 2, &worker);
    let mut run = Running::start(&suite, out.path(), &["--seed", "1", "--rate", "max"]);
    let (code, stdout) = run.end();
    // Where it is asked for the last reads there may be none of a key.
    assert_ne!(code, Some(1), "{stdout}");
    let history = support::read(&run.folder().expect("it ran"), "history.jsonl");
    let longest = history.lines().map(str::len).max();
    assert!(longest < Some(2_000), "{longest:?}");
    assert!(history.contains("xxx…\""), "it flooded");
}

/// What lies in the folder and those below that nobody finished writing.
fn half_written(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() {
            found.extend(half_written(&entry.path()));
        } else if name.starts_with('.') {
            found.push(name);
        }
    }
    found
}

#[test]
fn a_full_disk_ends_the_run_with_what_it_has() {
    let _turn = turn();
    let Some(small) = SmallDisk::mount("8m") else {
        return;
    };
    let suite_folder = tempfile::tempdir().expect("a folder");
    let suite = short_suite(suite_folder.path(), 60, "");
    let mut run = Running::start(&suite, small.path(), &["--rate", "max", "--seed", "1"]);
    let (code, stdout) = run.end();
    let end = only_json(&stdout);
    assert_eq!(code, Some(70), "{end}");
    let troubles = end["troubles"].to_string();
    assert!(troubles.contains("No space left on device"), "{end}");
    assert!(
        end["stats"]["operations"].as_u64() > Some(50),
        "what was recorded was judged: {end}"
    );
    assert_ne!(end["verdict"], Value::from("invalid"), "{end}");
    nothing_left(small.path());
    let folder = run.folder().expect("it ran");
    assert_eq!(half_written(small.path()), Vec::<String>::new());
    let troubles = end["troubles"].as_array().expect("a list");
    assert!(troubles.len() <= 3, "one line for many files: {end}");
    let record: Value = serde_json::from_str(&support::read(&folder, "run.json")).expect("JSON");
    assert_eq!(
        record["troubles"], end["troubles"],
        "the end is written down"
    );
    support::read(&folder, "verdict.json");
    assert!(support::read(&folder, "summary.md").contains("No space left on device"));

    // Where there is room the rest is drawn, and it is said what became of the run.
    let elsewhere = tempfile::tempdir().expect("a folder");
    let copy = elsewhere.path().join("copy");
    let copied = std::process::Command::new("cp")
        .arg("-r")
        .args([&folder, &copy])
        .status();
    assert!(copied.is_ok_and(|status| status.success()));
    let output = fencepost()
        .arg("report")
        .arg(&copy)
        .output()
        .expect("it runs");
    let (code, stdout, stderr) = outcome(&output);
    assert_eq!(code, 0, "{stderr}");
    assert!(!stderr.contains("no end"), "{stderr}");
    assert!(stdout.contains("report.html"), "{stdout}");
    assert!(support::read(&copy, "report.html").contains("No space left on device"));
}

#[test]
fn a_report_that_finds_no_room_is_told_in_one_line_and_not_named() {
    let _turn = turn();
    // Room for the run, and not for all its pictures.
    let Some(small) = SmallDisk::mount("3m") else {
        return;
    };
    let suite_folder = tempfile::tempdir().expect("a folder");
    let suite = short_suite(suite_folder.path(), 60, "");
    let output = fencepost()
        .args(["run", "--rate", "max", "--seed", "1", "--out"])
        .arg(small.path())
        .arg(&suite)
        .output()
        .expect("it runs");
    let (code, stdout, stderr) = outcome(&output);
    assert_eq!(code, 70, "{stdout} {stderr}");
    let lines = |word: &str| stdout.lines().filter(|line| line.starts_with(word)).count();
    assert!((1..=3).contains(&lines("trouble ")), "{stdout}");
    let page = stdout.lines().find_map(|line| line.strip_prefix("report "));
    assert!(
        page.is_none_or(|page| Path::new(page.trim()).exists()),
        "{stdout}"
    );
    assert_eq!(half_written(small.path()), Vec::<String>::new());
}

#[test]
fn a_disk_that_is_full_from_the_beginning_is_told_in_one_line_that_names_it() {
    let _turn = turn();
    let Some(small) = SmallDisk::mount("1m") else {
        return;
    };
    small.fill();
    // Where results are to be saved, and where the journal is.
    for state in [false, true] {
        let elsewhere = tempfile::tempdir().expect("a folder");
        let mut program = fencepost();
        let out = if state {
            program.env("XDG_STATE_HOME", small.path());
            elsewhere.path()
        } else {
            small.path()
        };
        let begun = Instant::now();
        program.args(["run", "--out"]).arg(out);
        let (code, stdout, stderr) = outcome(&program.output().expect("it runs"));
        assert_eq!((code, stdout.as_str()), (70, ""), "{stderr}");
        let told = stderr.lines().last().unwrap_or_default();
        let place = small.path().display().to_string();
        assert!(
            told.contains("failed to write")
                && told.contains(&place)
                && told.contains("No space left on device"),
            "{stderr}"
        );
        assert!(begun.elapsed() < TOLD_WITHIN);
        nothing_left(out);
        if state {
            let journals = std::fs::read_dir(small.path().join("fencepost"));
            assert_eq!(
                journals.expect("it was made").count(),
                0,
                "a journal is left"
            );
            let runs = std::fs::read_dir(out.join("default-local")).expect("it had begun");
            for run in runs.flatten() {
                let record = support::read(&run.path(), "run.json");
                assert!(record.contains("No space left on device"), "{record}");
                assert_eq!(half_written(&run.path()), Vec::<String>::new());
            }
        } else {
            // Nothing but what fills it, and the empty folder of the suite.
            assert_eq!(half_written(out), Vec::<String>::new());
            let runs = std::fs::read_dir(out.join("default-local")).expect("it had begun");
            assert_eq!(runs.count(), 0);
        }
    }
}

#[test]
fn a_fault_that_cannot_be_written_down_any_more_is_not_begun_and_the_run_goes_on() {
    let _turn = turn();
    let Some(small) = SmallDisk::mount("1m") else {
        return;
    };
    let out = tempfile::tempdir().expect("a folder");
    let faults =
        "[[fault]]\nkind = \"latency\"\nevery = \"50ms\"\nlength = \"10ms\"\ndelay = \"1ms\"\n";
    let suite = short_suite(out.path(), 3, faults);
    let mut program = fencepost();
    program.env("XDG_STATE_HOME", small.path());
    let mut run = Running::start_as(program, &suite, out.path(), &["--seed", "1"]);
    assert!(run.reaches("some operations", |run| {
        let history = run.folder().map(|folder| folder.join("history.jsonl"));
        history.is_some_and(|path| std::fs::metadata(path).is_ok_and(|file| file.len() > 2_000))
    }));
    small.fill();
    let (code, stdout) = run.end();
    let end = only_json(&stdout);
    assert_ne!(code, Some(1), "{end}");
    let history =
        std::fs::read_to_string(run.folder().expect("it ran").join("history.jsonl")).expect("read");
    let skipped = |line: &&str| {
        line.contains("\"outcome\":\"skipped\"") && line.contains("No space left on device")
    };
    assert!(history.lines().filter(skipped).count() > 0, "{end}");
    assert!(end["stats"]["operations"].as_u64() > Some(50), "{end}");
    nothing_left(out.path());
}

#[test]
fn histories_that_cannot_be_read_are_told_in_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let invoke = |index: u64, process: u64| {
        format!(
            "{{\"index\":{index},\"time\":{index},\"process\":{process},\"type\":\"invoke\",\"f\":\"read\",\"key\":\"k\"}}\n"
        )
    };
    let ok = |index: u64, process: u64| {
        format!(
            "{{\"index\":{index},\"time\":{index},\"process\":{process},\"type\":\"ok\",\"f\":\"read\",\"value\":null}}\n"
        )
    };
    for (text, expected) in [
        (
            format!("{}{}", invoke(0, 1), invoke(1, 1)),
            ", line 2, field process: process 1 is still busy with its operation of line 1",
        ),
        (
            ok(0, 4),
            ", line 1, field process: process 4 completes an operation that it did not invoke",
        ),
        (
            format!("{}{{\"index\":1,\n{}", invoke(0, 1), ok(2, 1)),
            ", line 2",
        ),
        (
            format!("{}[1,1,1,\"c1\",\"ok\",\"read\"]\n", invoke(0, 1)),
            ", line 2: is not a JSON object",
        ),
        (
            invoke(0, 1).replace('}', ",}"),
            ", line 1: is not JSON: trailing comma at column ",
        ),
        (
            invoke(0, 1).replace("\"key\"", "\"token\":1.5,\"key\""),
            ", line 1, field token: ",
        ),
        (
            invoke(0, 1).replace("\"key\"", "\"token\":\"7\",\"key\""),
            ", line 1, field token: ",
        ),
        ("hello\n".to_owned(), ": no format that is known"),
    ] {
        let path = folder.path().join("history.jsonl");
        std::fs::write(&path, &text).expect("written");
        let (code, stdout, stderr) = outcome(
            &fencepost()
                .arg("check")
                .arg(&path)
                .output()
                .expect("it runs"),
        );
        assert_eq!((code, stdout.as_str()), (64, ""), "{text}");
        assert!(
            stderr.contains(expected) && stderr.lines().count() == 1,
            "{stderr}"
        );
    }

    // Ten million would be told at the same line: no more than 1,048,576 may be open.
    let path = folder.path().join("open.jsonl");
    let open: String = (0..=1 << 20).map(|index| invoke(index, index)).collect();
    std::fs::write(&path, open).expect("written");
    let begun = Instant::now();
    let ended = fencepost()
        .arg("check")
        .arg(&path)
        .output()
        .expect("it runs");
    let (code, stdout, stderr) = outcome(&ended);
    assert_eq!((code, stdout.as_str()), (64, ""), "{stderr}");
    assert!(
        stderr.contains("line 1048577") && stderr.lines().count() == 1,
        "{stderr}"
    );
    assert!(begun.elapsed() < TOLD_WITHIN, "after {:?}", begun.elapsed());

    // A line of 1 GB: a sparse file, so that the disk does not suffer.
    let path = folder.path().join("long.jsonl");
    std::fs::write(&path, "{\"index\":0,\"f\":\"").expect("written");
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|file| file.set_len(1 << 30))
        .expect("grown");
    let begun = Instant::now();
    let (code, _, stderr) = outcome(
        &fencepost()
            .arg("check")
            .arg(&path)
            .output()
            .expect("it runs"),
    );
    assert_eq!((code, stderr.lines().count()), (64, 1), "{stderr}");
    assert!(
        stderr.contains("line 1") && begun.elapsed() < TOLD_WITHIN,
        "{stderr} after {:?}",
        begun.elapsed()
    );
}
