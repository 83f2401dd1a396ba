//! Histories of other checkers' test suites, whose verdicts are known. They lie outside of the project; where they are
//! absent, that is said. `FENCEPOST_SHARED` names the folder above them where it is another one.
#![allow(clippy::disallowed_methods)]

mod foreign;

use std::path::{Path, PathBuf};

use fencepost_checker::history::History;
use fencepost_checker::linearizability::{Answer, Decided, Limits, Model, check, search};
use fencepost_checker::models::{CasRegister, Kv, MultiRegister};
use serde_json::{Value, json};

/// The files under `folder` of the shared histories, or none.
fn files(folder: &str) -> Vec<(PathBuf, String)> {
    let shared = std::env::var_os("FENCEPOST_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"),
        PathBuf::from,
    );
    let folder = shared.join("histories").join(folder);
    let Ok(entries) = std::fs::read_dir(&folder) else {
        // Past the capture of the test runner, so that everybody sees it.
        let told = format!("SKIPPED: {} is not there\n", folder.display());
        let _ = std::io::Write::write_all(&mut std::io::stderr(), told.as_bytes());
        return Vec::new();
    };
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|end| end != "tsv"))
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a readable file");
            (path, text)
        })
        .collect();
    files.sort();
    files
}

fn is_legal(decided: &Decided) -> bool {
    decided.parts.iter().all(|part| match part.answer {
        Answer::Legal => true,
        Answer::Illegal { .. } => false,
        Answer::Unknown { exhausted, .. } => panic!("no budget, and yet {exhausted:?}"),
    })
}

/// With the exact decisions where there are some, and with the search alone.
fn legal_both_ways<M: Model + Clone>(model: M, history: &History) -> bool {
    let limits = Limits::default();
    let decided = check(model.clone(), history, &limits).expect("a history of this model");
    let searched = search(model, history, &limits).expect("a history of this model");
    assert_eq!(is_legal(&decided), is_legal(&searched));
    is_legal(&decided)
}

#[test]
fn etcd_logs_have_the_verdicts_of_porcupine() {
    let files = files("porcupine-etcd");
    let Some((first, _)) = files.first() else {
        return;
    };
    let verdicts = std::fs::read_to_string(first.with_file_name("verdicts.tsv")).expect("verdicts");
    let expected = |name: &str| {
        let line = verdicts.lines().find(|line| line.starts_with(name));
        line.expect("a verdict for each file").ends_with("ok")
    };
    let mut wrong = Vec::new();
    for (path, text) in &files {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("a name");
        if legal_both_ways(CasRegister::new(&Value::Null), &foreign::etcd(text)) != expected(name) {
            wrong.push(name);
        }
    }
    assert_eq!(wrong, Vec::<&str>::new());
    assert_eq!(files.len(), 51);
}

#[test]
fn kv_histories_are_what_their_names_say() {
    for (path, text) in files("porcupine-kv") {
        let expected = path.to_string_lossy().contains("-ok");
        let kv = Kv::new(&Value::Null).expect("a text");
        assert_eq!(
            legal_both_ways(kv, &foreign::jepsen(&text)),
            expected,
            "{}",
            path.display()
        );
    }
}

#[test]
fn knossos_registers_are_what_their_folders_say() {
    for (folder, expected) in [
        ("knossos/cas-register/good", true),
        ("knossos/cas-register/bad", false),
    ] {
        for (path, text) in files(folder) {
            let history = foreign::jepsen(&text);
            let legal = legal_both_ways(CasRegister::new(&json!(0)), &history);
            assert_eq!(legal, expected, "{}", path.display());
        }
    }
}

#[test]
fn knossos_multi_registers_are_what_their_folder_says() {
    for (path, text) in files("knossos/multi-register/good") {
        let history = foreign::jepsen(&text);
        assert!(history.operations.len() > 100, "{}", path.display());
        let beginning = json!({"x": 0, "y": 0});
        let model = MultiRegister::new(&beginning).expect("an object");
        assert!(legal_both_ways(model, &history), "{}", path.display());
    }
}
