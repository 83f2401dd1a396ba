//! From a JSONL file, end to end, against a plain read of the same file and against a general parser.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use fencepost_checker::generate::Generator;
use fencepost_checker::history::History;
use fencepost_checker::verdict::Verdict;
use fencepost_checker::{Model, judge};

use super::{Row, best, millions, rate, settings, timed, worked};

const OPERATIONS: u64 = 1_000_000;

pub fn measure(tell: &mut dyn FnMut(Row)) {
    let path = std::env::temp_dir().join(format!("fencepost-bench-{}.jsonl", std::process::id()));
    write(&path, OPERATIONS);
    let lines = OPERATIONS * 2;
    let [mut plain, mut general, mut read, mut whole, mut busy] = [const { Vec::new() }; 5];
    for _ in 0..5 {
        plain.push(timed(|| fs::read(&path).expect("readable")).0);
        if general.len() < 3 {
            let bytes = fs::read(&path).expect("readable");
            general.push(timed(|| parse_generally(&bytes)).0);
        }
        let open = || File::open(&path).expect("readable");
        let before = worked();
        let (time, history) = timed(|| History::read_stream(open()).expect("well-formed"));
        read.push(time);
        busy.push(worked() - before);
        assert_eq!(history.events, lines, "every operation has its completion");
        drop(history);
        let (time, judgement) = timed(|| {
            let history = History::read_stream(open()).expect("well-formed");
            judge(&history, Model::Fencing)
        });
        assert_eq!(judgement.verdict, Verdict::Valid);
        whole.push(time);
    }
    let bytes = fs::metadata(&path).expect("readable").len();
    // A file in the folder for temporary files, and ours.
    let _ = fs::remove_file(&path);
    let (plain, general) = (best(&plain), best(&general));
    let (read, whole) = (best(&read), best(&whole));
    let times = |a: std::time::Duration, b: std::time::Duration| a.as_secs_f64() / b.as_secs_f64();
    let figure = format!("JSONL read, 2,000,000 lines, {} MB", bytes / 1_000_000);
    let value = format!(
        "{} lines; {} of processor time",
        rate(lines, read),
        rate(lines, best(&busy))
    );
    let row = Row::new(figure, value);
    tell(row.goal("4 million/s", millions(lines, read) >= 4.0));
    tell(Row::new(
        "JSONL read, against a plain read of the file",
        format!("{:.1} times its time", times(read, plain)),
    ));
    let row = Row::new(
        "JSONL read, against serde_json parsing every line into a Value",
        format!("{:.1} times as fast", times(general, read)),
    );
    tell(row.goal("5 times", times(general, read) >= 5.0));
    let row = Row::new(
        "JSONL read and judged by all findings",
        format!(
            "{} lines, {:.1} times as fast as serde_json parses",
            rate(lines, whole),
            times(general, whole)
        ),
    );
    tell(row.goal("4 million/s", millions(lines, whole) >= 4.0));
}

fn parse_generally(bytes: &[u8]) -> usize {
    let lines = bytes.split(|&byte| byte == b'\n');
    let parsed = lines.filter_map(|line| serde_json::from_slice::<serde_json::Value>(line).ok());
    parsed.filter(serde_json::Value::is_object).count()
}

/// Writes a made history of 100 clients on 1,000 keys.
pub fn write(path: &Path, operations: u64) {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).expect("a temporary file"));
    let mut line = Vec::new();
    for made in Generator::new(&settings(operations, 100, 1_000, 100)) {
        line.clear();
        made.write(&mut line);
        out.write_all(&line).expect("there is room");
    }
    out.flush().expect("there is room");
}
