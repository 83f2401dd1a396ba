//! Bad input gets one line that says what is wrong and what would be right, within seconds, and leaves nothing.

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{fencepost, left_behind, only_json, outcome, short_suite, turn};

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
            "[worker]\ncommand = [\"no-such-program-here\"]\n",
            "worker.command: there is no program \"no-such-program-here\"",
        ),
        (
            "[worker]\ncommand = [\"/etc/passwd\"]\n",
            "worker.command: there is no program \"/etc/passwd\" that can be started",
        ),
    ] {
        std::fs::write(&path, text).expect("written");
        refused(&[named], expected);
    }
    std::fs::write(&path, [0xff, 0xfe, 0x00]).expect("written");
    refused(&[named], "stream did not contain valid UTF-8");
    refused(&[folder.path().to_str().expect("UTF-8")], "Is a directory");
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
fn a_server_that_is_no_toxiproxy_ends_the_run_and_leaves_nothing() {
    let _turn = turn();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = listener.local_addr().expect("an address").to_string();
    let out = tempfile::tempdir().expect("a folder");
    let begun = Instant::now();
    let output = fencepost()
        .args(["run", "--toxiproxy", &silent, "--out"])
        .arg(out.path())
        .output()
        .expect("it runs");
    let (code, _, stderr) = outcome(&output);
    assert_eq!(code, 70, "{stderr}");
    assert!(
        stderr
            .lines()
            .last()
            .is_some_and(|line| line.contains("ask for the version") && line.contains(&silent)),
        "{stderr}"
    );
    assert!(
        begun.elapsed() < 3 * TOLD_WITHIN,
        "its deadline is 5 s, and then everything is taken down"
    );
    nothing_left(out.path());
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
            "closed its standard output; its last words: no luck today",
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
            "wrote a line of more than 1048576 bytes",
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

#[test]
fn a_full_disk_ends_the_run_with_what_it_has() {
    let _turn = turn();
    let small = tempfile::tempdir().expect("a folder");
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"])
        .arg(small.path())
        .output();
    if !mounted.is_ok_and(|mounted| mounted.status.success()) {
        // Past the capture of the test runner, so that everybody sees it.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"SKIPPED: a small file system cannot be mounted here; root can\n",
        );
        return;
    }
    let suite_folder = tempfile::tempdir().expect("a folder");
    let suite = short_suite(suite_folder.path(), 60, "");
    let output = fencepost()
        .arg("run")
        .arg(&suite)
        .args(["--json", "--rate", "max", "--seed", "1", "--out"])
        .arg(small.path())
        .output()
        .expect("it runs");
    let (code, stdout, stderr) = outcome(&output);
    let runs = std::fs::read_dir(small.path().join("short-local")).map_or(0, Iterator::count);
    let check = || {
        let end = only_json(&stdout);
        assert_eq!(code, 70, "{end}{stderr}");
        let troubles = end["troubles"].to_string();
        assert!(troubles.contains("No space left on device"), "{end}");
        assert!(
            end["stats"]["operations"].as_u64() > Some(50),
            "what was recorded was judged: {end}"
        );
        assert_ne!(end["verdict"], Value::from("invalid"), "{end}");
        assert_eq!(runs, 1);
        nothing_left(small.path());
    };
    let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
    let unmounted = std::process::Command::new("umount")
        .arg(small.path())
        .status();
    if let Err(failed) = checked {
        std::panic::resume_unwind(failed);
    }
    assert!(unmounted.is_ok_and(|status| status.success()), "unmounted");
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
