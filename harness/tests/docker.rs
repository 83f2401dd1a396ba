//! The same attack on containers, through the binary, on a real engine. Where none can be reached every test says so on
//! standard error, past the test runner's capture.

mod support;

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fencepost::faults;
use fencepost::targets::docker::Recipe;
use fencepost::targets::docker::cut::Filter;
use fencepost_workloads::seed::Seed;
use fencepost_workloads::suite::{Suite, TargetKind};
use nix::unistd::Pid;
use serde_json::Value;
use support::contained::{OWN_RESOURCE, engine, folder, id, installed, left_at, run, suite};
use support::relay::relay;
use support::{
    Running, SmallDisk, fencepost, findings, left_behind, only_json, outcome, read, turn,
};

/// What both targets can do.
const COMMON: &str = "[run]\ntime_limit = \"10s\"\n[expect]\nzombie_writes = 1\n\
    [[fault]]\nkind = \"zombie\"\nevery = \"1500ms\"\n\
    [[fault]]\nkind = \"pause\"\non = \"resource\"\nevery = \"4s\"\nlength = \"300ms..600ms\"\n\
    [[fault]]\nkind = \"hole\"\nevery = \"4s\"\nlength = \"1s\"\n\
    [[fault]]\nkind = \"kill\"\non = \"lock\"\nevery = \"5s\"\n";

#[test]
fn a_sound_system_in_containers_is_valid_by_the_plan_that_it_has_locally_and_leaves_nothing() {
    let Some(engine) = engine() else { return };
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let (code, end) = run(
        &suite(out.path(), "common", COMMON),
        out.path(),
        &["--seed", "11"],
        None,
    );
    assert_eq!((code, &end["verdict"]), (0, &Value::from("valid")), "{end}");
    assert_eq!(end["troubles"], Value::Array(Vec::new()));
    installed(
        &end,
        &["zombie", "pause:resource", "hole:worker-lock", "kill:lock"],
    );
    let saved = folder(&end);
    for log in ["lock", "resource", "proxy", "w1"] {
        assert!(saved.join(format!("logs/{log}.log")).is_file(), "{log}");
    }
    let record: Value = serde_json::from_str(&read(&saved, "run.json")).expect("JSON");
    assert!(
        record["means"]["engine"]
            .as_str()
            .is_some_and(|text| text.contains("Docker")),
        "{record}"
    );
    assert!(
        record["means"]["signals"]
            .as_str()
            .is_some_and(|text| text.starts_with("by host pid")),
        "{record}"
    );

    // The same seed and suite plan the same on this machine.
    let text = format!("name = \"common\"\n{COMMON}");
    let local = Suite::parse_for(&text, "test", Some(TargetKind::Local)).expect("a fine suite");
    let planned = serde_json::to_value(faults::plan(&local, Seed(11))).expect("plain data");
    assert_eq!(record["plan"], planned);

    assert_eq!(left_at(&engine, id(&end)), Vec::<String>::new());
    assert_eq!(left_behind(id(&end)), Vec::<String>::new());
}

/// Faults that were in force on a worker: packets of it were dropped, and it had no way out.
fn a_worker_struck_says_so(folder: &Path) {
    for line in read(folder, "history.jsonl").lines().skip(1) {
        let event: Value = serde_json::from_str(line).expect("JSON");
        let in_force = event["phase"] == "begin" && event["outcome"] == "installed";
        let evidence = event["evidence"].as_str().unwrap_or_default();
        match event["plan"].as_str() {
            Some("cut:worker") if in_force => {
                assert!(evidence.contains("packets dropped so far"), "{evidence}");
                assert!(!evidence.contains("; 0 packets"), "{evidence}");
            }
            Some("disconnect:holder") if in_force => {
                assert!(evidence.contains("it has no way out"), "{evidence}");
            }
            _ => {}
        }
    }
}

#[test]
fn what_only_containers_allow_is_in_force_with_evidence_and_undone() {
    let Some(engine) = engine() else { return };
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let text = "[run]\ntime_limit = \"18s\"\n[worker]\nwhere = \"docker\"\n[expect]\nzombie_writes = 1\n\
        [[fault]]\nkind = \"zombie\"\nevery = \"2s\"\n\
        [[fault]]\nkind = \"freeze\"\non = \"lock\"\nevery = \"6s\"\nlength = \"500ms\"\n\
        [[fault]]\nkind = \"freeze\"\non = \"worker\"\nevery = \"6s\"\nlength = \"500ms\"\n\
        [[fault]]\nkind = \"kill\"\non = \"worker\"\nevery = \"6s\"\nlength = \"300ms\"\n\
        [[fault]]\nkind = \"disconnect\"\non = \"holder\"\nevery = \"5s\"\nlength = \"700ms\"\n\
        [[fault]]\nkind = \"disconnect\"\non = \"lock\"\nevery = \"8s\"\nlength = \"500ms\"\n";
    let cuts = "[[fault]]\nkind = \"cut\"\nevery = \"7s\"\nlength = \"800ms\"\n\
        [[fault]]\nkind = \"cut\"\ndirection = \"out\"\nevery = \"7s\"\nlength = \"800ms\"\n\
        [[fault]]\nkind = \"cut\"\non = \"worker\"\nevery = \"7s\"\nlength = \"800ms\"\n";
    let mut labels = vec![
        "zombie",
        "freeze:lock",
        "freeze:worker",
        "kill:worker",
        "disconnect:holder",
        "disconnect:lock",
    ];
    let filter = Filter::here();
    let text = match filter {
        Ok(_) => {
            labels.extend(["cut:resource", "cut:resource:out", "cut:worker"]);
            format!("{text}{cuts}")
        }
        Err(_) => text.to_owned(),
    };
    let (code, end) = run(
        &suite(out.path(), "contained", &text),
        out.path(),
        &["--seed", "5"],
        None,
    );
    assert_eq!((code, &end["verdict"]), (0, &Value::from("valid")), "{end}");
    assert_eq!(end["troubles"], Value::Array(Vec::new()));
    installed(&end, &labels);
    let record: Value = serde_json::from_str(&read(&folder(&end), "run.json")).expect("JSON");
    a_worker_struck_says_so(&folder(&end));
    let dropped = record["means"]["packet drop"].as_str().expect("said");
    match &filter {
        Ok(filter) => assert_eq!(dropped, format!("{}, through nsenter", filter.name())),
        Err(why) => assert_eq!(dropped, format!("no: {why}")),
    }
    assert_eq!(left_at(&engine, id(&end)), Vec::<String>::new());
    assert_eq!(left_behind(id(&end)), Vec::<String>::new());
}

#[test]
fn an_empty_volume_and_a_second_authority_are_found() {
    let Some(engine) = engine() else { return };
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let zombie = "[run]\ntime_limit = \"8s\"\n[[fault]]\nkind = \"zombie\"\nevery = \"2s\"\n";
    for (name, fault, expected) in [
        (
            "redeploy-resource",
            "kind = \"redeploy\"\nevery = \"3s\"\n",
            "high-water-lost",
        ),
        (
            "redeploy-lock",
            "kind = \"redeploy\"\non = \"lock\"\nevery = \"3s\"\n",
            "token-regression",
        ),
        (
            "second-issuer",
            "kind = \"second-issuer\"\nevery = \"5s\"\nlength = \"3s\"\n",
            "token-regression",
        ),
    ] {
        let text = format!("{zombie}[[fault]]\n{fault}");
        let (code, end) = run(
            &suite(out.path(), name, &text),
            out.path(),
            &["--seed", "3"],
            None,
        );
        assert_eq!(
            (code, &end["verdict"]),
            (1, &Value::from("invalid")),
            "{name}: {end}"
        );
        assert!(
            findings(&end).iter().any(|finding| finding == expected),
            "{name}: {:?}",
            findings(&end)
        );
        assert_eq!(end["troubles"], Value::Array(Vec::new()), "{name}");
        assert_eq!(left_at(&engine, id(&end)), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn a_clock_that_jumps_breaks_tokens_that_are_times_and_nothing_else() {
    let Some(engine) = engine() else { return };
    let program = Path::new(env!("CARGO_BIN_EXE_fencepost"));
    if !Recipe::of(program).expect("it can be read").faketime {
        let skipped = b"SKIPPED: no clock to preload here (apt-get install faketime), so none was made to jump\n";
        let _ = std::io::stderr().write_all(skipped);
        return;
    }
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let text = "[run]\ntime_limit = \"9s\"\n[expect]\nzombie_writes = 1\n[[fault]]\nkind = \"zombie\"\nevery = \"2s\"\n\
        [[fault]]\nkind = \"clock\"\non = \"lock\"\nevery = \"4s\"\nlength = \"1s\"\n\
        [[fault]]\nkind = \"clock\"\ndirection = \"back\"\nevery = \"4s\"\nlength = \"1s\"\n";
    let path = suite(out.path(), "clock", text);
    let (code, end) = run(&path, out.path(), &["--seed", "2"], None);
    assert_eq!((code, &end["verdict"]), (0, &Value::from("valid")), "{end}");
    installed(&end, &["clock:lock", "clock:resource:back"]);
    let (code, end) = run(
        &path,
        out.path(),
        &["--seed", "2", "--defect", "timestamp-tokens"],
        None,
    );
    assert_eq!(code, 1, "{end}");
    assert!(
        findings(&end)
            .iter()
            .any(|finding| finding == "token-regression"),
        "{:?}",
        findings(&end)
    );
    assert_eq!(left_at(&engine, id(&end)), Vec::<String>::new());
}

#[test]
fn a_fence_can_be_taken_out_and_tokens_begin_where_the_suite_says() {
    let Some(engine) = engine() else { return };
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let text = "[run]\ntime_limit = \"8s\"\n[lock]\nfirst_token = 3000000000\n[expect]\nzombie_writes = 1\n\
        [[fault]]\nkind = \"zombie\"\nevery = \"1s\"\n";
    let (code, end) = run(
        &suite(out.path(), "bites", text),
        out.path(),
        &["--seed", "4", "--teeth"],
        None,
    );
    assert_eq!((code, &end["verdict"]), (0, &Value::from("valid")), "{end}");
    assert_eq!(end["teeth"]["verdict"], "invalid", "{end}");
    assert_eq!(end["teeth"]["findings"][0], "stale-write-accepted", "{end}");
    let zombies = end["zombies"].as_array().expect("a list");
    assert!(!zombies.is_empty());
    for zombie in zombies {
        assert!(zombie["token"].as_u64() >= Some(3_000_000_000), "{zombie}");
    }
    let second = end["teeth"]["run"].as_str().expect("an id");
    assert_eq!(left_at(&engine, id(&end)), Vec::<String>::new());
    assert_eq!(left_at(&engine, second), Vec::<String>::new());
}

#[test]
fn an_engine_elsewhere_is_attacked_by_its_own_means_through_published_ports() {
    let Some(engine) = engine() else { return };
    if !Path::new("/var/run/docker.sock").exists() {
        return;
    }
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let common = COMMON.replace("[expect]", "[worker]\nwhere = \"docker\"\n[expect]");
    let text = common.replace("[[fault]]\nkind = \"hole\"", "[[fault]]\nkind = \"freeze\"\nevery = \"4s\"\nlength = \"400ms\"\n[[fault]]\nkind = \"hole\"");
    let host = relay();
    let (code, end) = run(
        &suite(out.path(), "remote", &text),
        out.path(),
        &["--seed", "11"],
        Some(&host),
    );
    assert_eq!((code, &end["verdict"]), (0, &Value::from("valid")), "{end}");
    installed(
        &end,
        &[
            "zombie",
            "pause:resource",
            "freeze:resource",
            "hole:worker-lock",
            "kill:lock",
        ],
    );
    let record: Value = serde_json::from_str(&read(&folder(&end), "run.json")).expect("JSON");
    assert!(
        record["means"]["signals"]
            .as_str()
            .is_some_and(|text| text.starts_with("through the engine")),
        "{record}"
    );
    assert!(
        record["means"]["links"]
            .as_str()
            .is_some_and(|text| text.contains("published")),
        "{record}"
    );
    assert_eq!(left_at(&engine, id(&end)), Vec::<String>::new());
}

#[test]
fn two_runs_at_once_do_not_disturb_each_other_and_what_a_killed_one_left_is_healed_alone() {
    let Some(engine) = engine() else { return };
    let _turn = turn();
    let (one, two) = (
        tempfile::tempdir().expect("a folder"),
        tempfile::tempdir().expect("a folder"),
    );
    let text = "[run]\ntime_limit = \"12s\"\n[expect]\nzombie_writes = 1\n\
        [[fault]]\nkind = \"zombie\"\nevery = \"2s\"\n\
        [[fault]]\nkind = \"freeze\"\nevery = \"1s\"\nlength = \"600ms\"\n";
    let docker = ["--target", "docker"];
    let mut sound = Running::start(&suite(one.path(), "sound", text), one.path(), &docker);
    let mut killed = Running::start(&suite(two.path(), "killed", text), two.path(), &docker);
    assert!(killed.reaches("a fault", Running::under_a_fault));
    let run = killed.id().expect("it has a folder");
    killed.kill_both();
    assert_eq!(killed.end().0, None);
    assert!(
        !left_at(&engine, &run).is_empty(),
        "nobody has removed anything yet"
    );

    let (code, stdout, stderr) =
        outcome(&fencepost().args(["heal", &run]).output().expect("it runs"));
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert!(
        stdout.contains(&format!("removed container fencepost-{run}-lock")),
        "{stdout}"
    );
    assert_eq!(left_at(&engine, &run), Vec::<String>::new());
    assert_eq!(left_behind(&run), Vec::<String>::new());

    let (code, stdout) = sound.end();
    let end = only_json(&stdout);
    assert_eq!(
        (code, &end["verdict"]),
        (Some(0), &Value::from("valid")),
        "{end}"
    );
    assert_eq!(left_at(&engine, id(&end)), Vec::<String>::new());
}

#[test]
fn what_is_to_be_kept_is_left_up_until_it_is_named() {
    let Some(engine) = engine() else { return };
    let _turn = turn();
    let out = tempfile::tempdir().expect("a folder");
    let text = "[run]\ntime_limit = \"2s\"\n[[fault]]\nkind = \"zombie\"\nevery = \"1s\"\n";
    let (_, end) = run(
        &suite(out.path(), "kept", text),
        out.path(),
        &["--keep"],
        None,
    );
    assert_eq!(end["troubles"], Value::Array(Vec::new()));
    let run = id(&end);
    assert!(left_at(&engine, run).contains(&format!("container fencepost-{run}-resource")));
    let heal = |words: &[&str]| {
        outcome(
            &fencepost()
                .arg("heal")
                .args(words)
                .output()
                .expect("it runs"),
        )
    };
    let (code, stdout, _) = heal(&[]);
    assert_eq!(code, 0);
    assert!(
        stdout.contains(&format!("run {run} was kept: left alone")),
        "{stdout}"
    );
    assert!(!left_at(&engine, run).is_empty());
    assert_eq!(heal(&[run]).0, 0);
    assert_eq!(left_at(&engine, run), Vec::<String>::new());
}

/// A run that cannot be begun: one line besides the first, within seconds, with this status.
fn refused(host: &str, status: i32, expected: &str) {
    let begun = Instant::now();
    let out = tempfile::tempdir().expect("a folder");
    let output = fencepost()
        .args(["run", "--target", "docker", "--out"])
        .arg(out.path())
        .env("DOCKER_HOST", host)
        .output()
        .expect("it runs");
    let (code, stdout, stderr) = outcome(&output);
    assert_eq!((code, stdout.as_str()), (status, ""), "{host}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains(expected), "{stderr:?} lacks {expected:?}");
    assert!(begun.elapsed() < Duration::from_secs(30));
}

/// Where a server answers whatever it is asked with this status and this page.
fn answering(status: &str, page: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let host = format!("tcp://{}", listener.local_addr().expect("an address"));
    let answer = format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{page}",
        page.len()
    );
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            // Until the request's empty line; a client that hangs up wants no answer.
            let mut seen = Vec::new();
            let mut byte = [0];
            while !seen.ends_with(b"\r\n\r\n") && client.read(&mut byte).is_ok_and(|n| n == 1) {
                seen.extend(byte);
            }
            let _ = client.write_all(answer.as_bytes());
        }
    });
    host
}

#[test]
fn an_engine_that_cannot_be_reached_is_told_in_one_line() {
    refused(
        "unix:///no/such.sock",
        70,
        "docker: no engine at unix:///no/such.sock: ",
    );
    refused(
        "tcp://127.0.0.1:1",
        70,
        "docker: no engine answers at tcp://127.0.0.1:1 (",
    );
    refused(
        "ssh://somewhere",
        64,
        "DOCKER_HOST=ssh://somewhere names no engine that can be reached: unix:///var/run/docker.sock or tcp://HOST:2375 is right",
    );
    for host in ["tcp://", "http://", "tcp://host:notaport", "tcp://a b:1"] {
        let named = format!("DOCKER_HOST={host} names no engine that can be reached: ");
        refused(host, 64, &named);
    }
    refused("some\nthing", 64, "DOCKER_HOST=some thing names no engine");
    refused("unix:///no\nsuch", 70, "no engine at unix:///no such: ");
    // A server that is no engine, with a page that nobody wants to read.
    let page = format!("<html>{}</html>", "<p>Hello\n".repeat(500));
    let host = answering("503 Service Unavailable", &page);
    let told = "status 503 with a page that is no engine's; a Docker engine from 20.10 on is right";
    refused(&host, 70, told);
    let host = answering("502 Bad Gateway", "");
    refused(&host, 70, ": status 502 without a word; ");
    // A file that nobody listens at.
    let file = tempfile::NamedTempFile::new().expect("a file");
    let host = format!("unix://{}", file.path().display());
    refused(&host, 70, "docker: no engine answers at ");
}

/// Somebody who may not open the engine's socket, without a word of root's.
#[test]
fn a_socket_that_one_may_not_open_is_told_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("engine.sock");
    let _listener = UnixListener::bind(&socket).expect("it listens");
    for (path, mode) in [(folder.path(), 0o777), (socket.as_path(), 0o600)] {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
    }
    let somebody = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        command.arg(env!("CARGO_BIN_EXE_fencepost"));
        command
    };
    if !somebody()
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
    {
        let skipped = b"SKIPPED: nobody else can be made to run this binary here; root can\n";
        // Past the capture of the test runner.
        let _ = std::io::stderr().write_all(skipped);
        return;
    }
    let output = somebody()
        .args(["run", "--target", "docker", "--out"])
        .arg(folder.path())
        .env("XDG_STATE_HOME", folder.path())
        .env("DOCKER_HOST", format!("unix://{}", socket.display()))
        .output()
        .expect("it runs");
    let (code, stdout, stderr) = outcome(&output);
    assert_eq!((code, stdout.as_str()), (70, ""), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let told = format!(
        "docker: no permission on unix://{}: be root, or a member of the group",
        socket.display()
    );
    assert!(stderr.contains(&told), "{stderr}");
}

#[test]
fn a_full_disk_ends_a_run_in_containers_with_what_it_has_and_leaves_nothing() {
    let Some(engine) = engine() else { return };
    let _turn = turn();
    let Some(small) = SmallDisk::mount("8m") else {
        return;
    };
    let suite_folder = tempfile::tempdir().expect("a folder");
    let suite = suite(suite_folder.path(), "full", "[run]\ntime_limit = \"60s\"\n");
    let flags = ["--rate", "max", "--seed", "1", "--faults", "none"];
    let (code, end) = run(&suite, small.path(), &flags, None);
    assert_eq!(code, 70, "{end}");
    let troubles = end["troubles"].to_string();
    assert!(troubles.contains("No space left on device"), "{end}");
    assert_ne!(end["verdict"], Value::from("invalid"), "{end}");
    assert!(end["stats"]["operations"].as_u64() > Some(50), "{end}");
    assert_eq!(left_at(&engine, id(&end)), Vec::<String>::new());
    assert_eq!(left_behind(id(&end)), Vec::<String>::new());
}

#[test]
fn a_suite_that_does_not_fit_the_target_is_refused() {
    let out = tempfile::tempdir().expect("a folder");
    for (text, target, expected) in [
        (
            "[[fault]]\nkind = \"freeze\"\n",
            "local",
            "freeze:resource needs containers: [target] kind = \"docker\" is right",
        ),
        (
            "[lock]\nkind = \"etcd\"\nlease = \"2s\"\n[target]\nkind = \"docker\"\n",
            "docker",
            "kind \"etcd\" has no image of its own in the docker target",
        ),
        (
            "[worker]\nwhere = \"docker\"\n",
            "local",
            "workers in containers need the docker target",
        ),
        (
            "[[fault]]\nkind = \"cut\"\non = \"worker\"\n",
            "docker",
            "cut:worker needs workers in containers: [worker] where = \"docker\" is right",
        ),
        (
            "[[fault]]\nkind = \"clock\"\non = \"worker\"\n",
            "docker",
            "a clock fault on \"worker\" cannot be done: \"lock\" or \"resource\" is right",
        ),
        (
            "[target]\nkind = \"docker\"\n[nodes.lock]\nimage = \"UPPER/Case:1\"\nport = 1\n",
            "docker",
            "\"UPPER/Case:1\" is no image: ",
        ),
    ] {
        let path = suite(out.path(), "unfit", text);
        let mut command = fencepost();
        command
            .arg("run")
            .arg(&path)
            .args(["--target", target, "--out"])
            .arg(out.path());
        let (code, _, stderr) = outcome(&command.output().expect("it runs"));
        assert_eq!(code, 64, "{text}: {stderr}");
        assert!(stderr.contains(expected), "{text}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn a_defect_is_not_planted_in_an_image_that_knows_nothing_of_it() {
    let out = tempfile::tempdir().expect("a folder");
    let text = format!("[target]\nkind = \"docker\"\n{OWN_RESOURCE}");
    let path = suite(out.path(), "own", &text);
    for (flags, expected) in [
        (
            &["--defect", "unfenced"][..],
            "--defect unfenced: it is planted in the reference resource, and [nodes.resource] is another: a suite without [nodes.resource] is right",
        ),
        // A holder's defect that stands in the place of a fence.
        (
            &["--defect", "clock-check"],
            "--defect clock-check: it is planted in the reference resource, and ",
        ),
        (
            &["--teeth"],
            "--teeth: resource.fence: only the reference resource can be told to be without its fence",
        ),
    ] {
        let mut command = fencepost();
        command
            .arg("run")
            .arg(&path)
            .args(flags)
            .arg("--out")
            .arg(out.path());
        let (code, stdout, stderr) = outcome(&command.output().expect("it runs"));
        // What is wrong with the suite is told before an engine is asked; the fence is taken out after that.
        if flags[0] == "--teeth" && engine().is_none() {
            continue;
        }
        assert_eq!((code, stdout.as_str()), (64, ""), "{stderr}");
        assert!(stderr.contains(expected), "{stderr:?} lacks {expected:?}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn packets_are_dropped_by_root_or_the_run_is_refused_before_it_begins() {
    if engine().is_none() {
        return;
    }
    let out = tempfile::tempdir().expect("a folder");
    let path = suite(out.path(), "cuts", "[[fault]]\nkind = \"cut\"\n");
    let refused = |host: Option<&str>| {
        let mut command = fencepost();
        command
            .arg("run")
            .arg(&path)
            .args(["--target", "docker", "--out"])
            .arg(out.path());
        // What the packet filter needs is looked for here; `nsenter` alone is not enough.
        match host {
            Some(host) => command.env("DOCKER_HOST", host),
            None => command.env("PATH", "/no/such"),
        };
        let (code, stdout, stderr) = outcome(&command.output().expect("it runs"));
        assert_eq!((code, stdout.as_str()), (64, ""), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        stderr
    };
    let here = refused(None);
    assert!(
        here.contains("cuts cannot run here: cut:resource drops packets, and "),
        "{here}"
    );
    if Path::new("/var/run/docker.sock").exists() {
        let elsewhere = refused(Some(&relay()));
        assert!(
            elsewhere.contains("is not of this machine: disconnect is right instead"),
            "{elsewhere}"
        );
    }
}

/// A number of somebody else is no container's.
#[test]
fn pids_of_others_are_nobodys_containers() {
    let own = Pid::this().as_raw();
    assert!(!fencepost::targets::proc::is_contained(own, ""));
    assert!(!fencepost::targets::proc::is_contained(
        own,
        "no such container"
    ));
}
