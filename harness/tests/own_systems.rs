//! Systems of the user's own in containers: images and compose files, brought up, attacked and taken down, on a real
//! engine. Where none can be reached every test says so on standard error, past the test runner's capture.

mod support;

use std::io::Write;
use std::path::{Path, PathBuf};

use fencepost::targets::docker::Engine;
use serde_json::Value;
use support::contained::{OWN_RESOURCE, engine, folder, id, installed, left_at, run, suite};
use support::{Running, fencepost, left_behind, outcome, read, turn};

/// The image of every role under its common name, to stand for somebody's own.
fn own_image() {
    let output = fencepost().arg("image").output().expect("it runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn images_and_compose_services_of_ones_own_are_attacked_alike_and_all_of_them_is_removed() {
    let Some(engine) = engine() else { return };
    let _turn = turn();
    own_image();
    let out = tempfile::tempdir().expect("a folder");
    let compose = out.path().join("compose.yaml");
    // One whose policy would undo a kill, and a neighbour that is no node of the run.
    let lock = "image: fencepost:latest\n    restart: always\n    command: [lock-service, --listen, \"0.0.0.0:8100\", --data, /data]\n";
    let services = format!(
        "services:\n  thelock:\n    {lock}    volumes: [\"thelock:/data\"]\n  neighbour:\n    {lock}volumes:\n  thelock:\n"
    );
    std::fs::write(&compose, services).expect("written");
    let text = format!(
        "[run]\ntime_limit = \"8s\"\n{OWN_RESOURCE}\
         [nodes.lock]\ncompose = \"{}\"\nservice = \"thelock\"\nport = 8100\n\
         [expect]\nzombie_writes = 1\n[[fault]]\nkind = \"zombie\"\nevery = \"2s\"\n\
         [[fault]]\nkind = \"kill\"\non = \"lock\"\nevery = \"4s\"\nlength = \"700ms\"\n[[fault]]\nkind = \"kill\"\nevery = \"4s\"\n",
        compose.display()
    );
    let path = suite(
        out.path(),
        "own",
        &format!("[target]\nkind = \"docker\"\n{text}"),
    );
    if composes() {
        let (code, end) = run(&path, out.path(), &["--seed", "2"], None);
        assert_eq!((code, &end["verdict"]), (0, &Value::from("valid")), "{end}");
        installed(&end, &["zombie", "kill:lock", "kill:resource"]);
        nothing_granted_while_it_was_killed(&folder(&end));
        for log in ["lock.log", "resource.log", "compose-neighbour.log"] {
            assert!(folder(&end).join("logs").join(log).is_file(), "{log}");
        }
        assert_eq!(left_at(&engine, id(&end)), Vec::<String>::new());
        let (asked, project) = (engine.clone(), format!("fencepost-{}", id(&end)));
        let there = engine.wait_for(async move { asked.remove_project(&project).await });
        assert!(
            !there.expect("the engine answers"),
            "compose's containers and volumes are gone too"
        );

        std::fs::write(&compose, "services: [\n").expect("written");
        begins_not(&path, 64, "compose cannot use it: ");
        std::fs::remove_file(&compose).expect("removed");
        let (code, _, stderr) =
            outcome(&fencepost().arg("run").arg(&path).output().expect("it runs"));
        assert_eq!((code, stderr.lines().count()), (64, 1), "{stderr}");
        let told = format!(
            "compose = {compose:?}: No such file or directory (os error 2); a compose file is right"
        );
        assert!(stderr.contains(&told), "{stderr}");

        // One whose service ends at once: its last words are told.
        let broken = "services:\n  thelock:\n    image: fencepost:latest\n    command: [lock-service, --nonsense]\n";
        std::fs::write(&compose, broken).expect("written");
        begins_not(
            &path,
            70,
            "its last words: fencepost: unexpected argument '--nonsense'",
        );
    }
}

/// A kill lasts as long as it says: the engine does not bring its victim back.
fn nothing_granted_while_it_was_killed(folder: &Path) {
    let history = read(folder, "history.jsonl");
    let mut down = 0;
    let mut kills = 0;
    for line in history.lines().skip(1) {
        let event: Value = serde_json::from_str(line).expect("JSON");
        if event["plan"] == "kill:lock" && event["outcome"] == "installed" {
            let begins = event["phase"] == "begin";
            down += if begins { 1 } else { -1 };
            kills += i32::from(begins);
        } else if down > 0 && event["f"] == "acquire" {
            assert_ne!(event["type"], "ok", "granted by a service that is down");
        }
    }
    assert!(kills > 0, "it was killed");
}

#[test]
fn each_compose_file_is_a_project_of_its_own_and_one_for_both_roles_is_brought_up_once() {
    let Some(engine) = engine() else { return };
    if !composes() {
        let skipped = b"SKIPPED: there is no compose, so no file of one was brought up\n";
        let _ = std::io::stderr().write_all(skipped);
        return;
    }
    let _turn = turn();
    own_image();
    let out = tempfile::tempdir().expect("a folder");
    let role = |name: &str, service: &str, port: u16| {
        format!(
            "  {name}:\n    image: fencepost:latest\n    environment: [\"OF=${{FENCEPOST_RUN:-nobody}}\"]\n    command: [{service}, --listen, \"0.0.0.0:{port}\", --data, /data]\n"
        )
    };
    let (lock, resource) = ("lock-service", "fenced-resource");
    let write = |file: &str, services: &[String]| {
        let path = out.path().join(file);
        std::fs::write(&path, format!("services:\n{}", services.concat())).expect("written");
        path
    };
    let one = write("lock.yaml", &[role("app", lock, 8100)]);
    let other = write("resource.yaml", &[role("app", resource, 9000)]);
    let both = write(
        "both.yaml",
        &[role("issuer", lock, 8100), role("store", resource, 9000)],
    );
    for (name, [lock, resource]) in [
        ("two", [(&one, "app"), (&other, "app")]),
        ("one", [(&both, "issuer"), (&both, "store")]),
    ] {
        let node = |role: &str, (file, service): (&PathBuf, &str), port: u16| {
            let file = file.display();
            format!(
                "[nodes.{role}]\ncompose = \"{file}\"\nservice = \"{service}\"\nport = {port}\n"
            )
        };
        let text = format!(
            "[run]\ntime_limit = \"5s\"\n[target]\nkind = \"docker\"\n{}{}[expect]\nzombie_writes = 1\n\
             [[fault]]\nkind = \"zombie\"\nevery = \"1500ms\"\n",
            node("lock", lock, 8100),
            node("resource", resource, 9000)
        );
        let path = suite(out.path(), name, &text);
        let (code, end) = run(&path, out.path(), &["--seed", "2"], None);
        assert_eq!((code, &end["verdict"]), (0, &Value::from("valid")), "{end}");
        assert_eq!(left_at(&engine, id(&end)), Vec::<String>::new());
    }
}

/// Whether there is a compose of either kind.
fn composes() -> bool {
    let answers = |words: &&str| {
        let mut shell = std::process::Command::new("sh");
        let output = shell.args(["-c", words]).output();
        output.is_ok_and(|output| output.status.success())
    };
    ["docker compose version", "docker-compose version"]
        .iter()
        .any(answers)
}

#[test]
fn what_a_compose_goes_on_making_after_the_run_was_killed_is_healed_too() {
    let Some(engine) = engine() else { return };
    if !composes() {
        let skipped = b"SKIPPED: there is no compose, so none was left alone\n";
        let _ = std::io::stderr().write_all(skipped);
        return;
    }
    let _turn = turn();
    own_image();
    let out = tempfile::tempdir().expect("a folder");
    let compose = out.path().join("compose.yaml");
    // One after the other, so that it takes its time.
    let mut services = "services:\n".to_owned();
    for number in 1..=8 {
        services += &format!(
            "  s{number}:\n    image: fencepost:latest\n    command: [lock-service, --listen, \"0.0.0.0:8100\", --data, /data]\n"
        );
        if number > 1 {
            services += &format!("    depends_on: [s{}]\n", number - 1);
        }
    }
    std::fs::write(&compose, services).expect("written");
    let text = format!(
        "[target]\nkind = \"docker\"\n[nodes.lock]\ncompose = \"{}\"\nservice = \"s1\"\nport = 8100\n",
        compose.display()
    );
    let path = suite(out.path(), "composing", &text);
    let mut killed = Running::start(&path, out.path(), &[]);
    let has = |run: &Running, service: &'static str| {
        let Some(id) = run.id() else { return false };
        let (asked, project) = (engine.clone(), format!("fencepost-{id}"));
        let found = engine.wait_for(async move { asked.of_service(&project, service).await });
        found.expect("the engine answers").is_some()
    };
    assert!(killed.reaches("its second service", |run| has(run, "s2")));
    let run = killed.id().expect("it has a folder");
    killed.kill_both();
    assert_eq!(killed.end().0, None);
    let left = left_behind(&run);
    assert!(!left.is_empty(), "the compose goes on by itself");
    assert!(!has(&killed, "s8"), "it is not done");

    let (code, stdout, stderr) =
        outcome(&fencepost().args(["heal", &run]).output().expect("it runs"));
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert_eq!(left_behind(&run), Vec::<String>::new());
    assert_eq!(left_at(&engine, &run), Vec::<String>::new());
    let (asked, project) = (engine.clone(), format!("fencepost-{run}"));
    let there = engine.wait_for(async move { asked.remove_project(&project).await });
    assert!(
        !there.expect("the engine answers"),
        "all of it was removed already"
    );
}

/// A run whose set-up fails: this status, and one line that holds this, with everything taken down.
fn begins_not(suite: &Path, status: i32, expected: &str) {
    let out = tempfile::tempdir().expect("a folder");
    let mut command = fencepost();
    command
        .arg("run")
        .arg(suite)
        .args(["--target", "docker", "--out"])
        .arg(out.path());
    let (code, stdout, stderr) = outcome(&command.output().expect("it runs"));
    assert_eq!((code, stdout.as_str()), (status, ""), "{stderr}");
    assert!(stderr.contains(expected), "{stderr:?} lacks {expected:?}");
    // The suite's own line comes first.
    assert_eq!(stderr.lines().count(), 2, "{stderr}");
    let runs = std::fs::read_dir(out.path()).expect("a folder").flatten();
    let folders = runs.flat_map(|suite| {
        std::fs::read_dir(suite.path())
            .into_iter()
            .flatten()
            .flatten()
    });
    for folder in folders {
        let name = folder.file_name().to_string_lossy().into_owned();
        let run = name.rsplit('-').next().unwrap_or_default();
        let engine = Engine::reach().expect("it was there");
        assert_eq!(left_at(&engine, run), Vec::<String>::new());
    }
}

#[test]
fn an_image_that_cannot_be_had_or_does_not_serve_is_told_with_its_last_words() {
    if engine().is_none() {
        return;
    }
    let _turn = turn();
    own_image();
    let out = tempfile::tempdir().expect("a folder");
    let broken = OWN_RESOURCE.replace("\"--data\", \"/data\"]", "\"--nonsense\"]");
    begins_not(
        &suite(
            out.path(),
            "broken",
            &format!("[target]\nkind = \"docker\"\n{broken}"),
        ),
        70,
        "resource: ended with exit status: 64 before it answered; its last words: fencepost: unexpected argument '--nonsense'",
    );
    let missing = OWN_RESOURCE.replace("fencepost:latest", "localhost:1/nobody/nothing:1");
    begins_not(
        &suite(
            out.path(),
            "missing",
            &format!("[target]\nkind = \"docker\"\n{missing}"),
        ),
        70,
        "resource: failed to pull localhost:1/nobody/nothing:1, which is not there: ",
    );
}
