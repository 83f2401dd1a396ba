//! Memory, of child processes: what an operation takes, and the most that ten million from a file ever take.

use std::fs::{self, File};
use std::process::Command;

use fencepost_checker::history::History;
use fencepost_checker::{Model, judge};

use super::{Row, made, reader};

/// The word that makes this program such a child.
pub const CHILD: &str = "memory-child";

const OPERATIONS: u64 = 10_000_000;

pub fn measure(tell: &mut dyn FnMut(Row)) {
    let each = |kib: u64| kib * 1024 / OPERATIONS;
    let history = each(ask(&["history"]));
    let row = Row::new(
        "a history of 10,000,000 operations in memory",
        format!("{history} bytes an operation"),
    );
    tell(row.goal("150 bytes", history < 150));
    let peak = each(ask(&["register"]));
    tell(Row::new(
        "the same made and judged as fenced-register: peak memory",
        format!("{peak} bytes an operation"),
    ));
    let path = std::env::temp_dir().join(format!("fencepost-bench-{}.jsonl", std::process::id()));
    reader::write(&path, OPERATIONS);
    let size = fs::metadata(&path).expect("readable").len() / 1_000_000;
    for model in [Model::FencedRegister, Model::Fencing] {
        let peak = ask(&["check", path.to_str().expect("UTF-8"), model.name()]) * 1024 / 1_000_000;
        let row = Row::new(
            format!(
                "10,000,000 operations from a file of {size} MB, judged as {model}: peak memory"
            ),
            format!("{peak} MB"),
        );
        tell(row.goal("2,000 MB", peak <= 2000));
    }
    // A file in the folder for temporary files, and ours.
    let _ = fs::remove_file(&path);
}

/// A child's answer, in KiB.
fn ask(words: &[&str]) -> u64 {
    let own = std::env::current_exe().expect("this program");
    let output = Command::new(own)
        .arg(CHILD)
        .args(words)
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text.trim().parse().expect("a number")
}

/// Measures itself and prints the one number.
pub fn child(words: &[String]) {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["history"] => {
            let before = status("VmRSS");
            let history = made(OPERATIONS, 100, 1_000, 100);
            println!("{}", status("VmRSS") - before);
            drop(history);
        }
        ["register"] => {
            let history = made(OPERATIONS, 100, 1_000, 100);
            let judgement = judge(&history, Model::FencedRegister);
            assert_eq!(judgement.stats.operations, OPERATIONS);
            println!("{}", status("VmHWM"));
        }
        ["check", path, model] => {
            let file = File::open(path).expect("readable");
            let history = History::read_stream(file).expect("well-formed");
            let judgement = judge(&history, model.parse().expect("a model"));
            assert_eq!(judgement.stats.operations, OPERATIONS);
            println!("{}", status("VmHWM"));
        }
        _ => panic!("no such child: {words:?}"),
    }
}

/// A line of /proc/self/status, in KiB.
fn status(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find(|line| line.starts_with(name));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number
        .and_then(|number| number.parse().ok())
        .expect("a number of KiB")
}
