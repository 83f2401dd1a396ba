//! The report of a run with a million operations.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{BINARY, Row, folder, row};

/// The report of a run with a million operations, drawn by the binary from the saved run.
pub fn report() -> Vec<Row> {
    let out = folder();
    let run = saved_run(out.path(), 1_000_000);
    let begun = Instant::now();
    let mut command = Command::new(BINARY);
    let mut child = command
        .arg("report")
        .arg(&run)
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs");
    let pid = child.id();
    let mut peak = 0.0_f64;
    let status = loop {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let high = status.lines().find_map(|line| {
            line.strip_prefix("VmHWM:")?
                .trim()
                .trim_end_matches(" kB")
                .parse::<f64>()
                .ok()
        });
        peak = peak.max(high.unwrap_or(0.0) / 1024.0);
        if let Some(status) = child.try_wait().expect("ours") {
            break status;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(status.success(), "{status}");
    let seconds = begun.elapsed().as_secs_f64();
    let html = std::fs::metadata(run.join("report.html"))
        .expect("drawn")
        .len() as f64
        / 1e6;
    vec![
        row(
            "report of a run with 1,000,000 operations and 8,700 faults",
            format!("{seconds:.1} s"),
            "under 5 s",
        ),
        row("its memory at most", format!("{peak:.0} MB"), "1 GB"),
        row("its report.html", format!("{html:.1} MB"), "5 MB"),
    ]
}

/// One fault for so many operations, as in a default run of many hours.
const EVERY: u64 = 115;

fn fault(file: &mut impl Write, index: u64, time: u64, id: u64, phase: &str) {
    let (kind, of) = [
        ("pause", ""),
        ("hole", "-lock"),
        ("zombie", ""),
        ("lost-reply", "-resource"),
    ][id as usize % 4];
    let on = format!("w{}{of}", id % 5 + 1);
    writeln!(
        file,
        "{{\"index\":{index},\"time\":{time},\"type\":\"fault\",\"fault\":\"{kind}\",\"phase\":\"{phase}\",\"id\":{id},\"on\":[\"{on}\"],\"outcome\":\"installed\"}}"
    )
    .expect("written");
}

/// A short real run whose history is replaced by a made-up one of so many operations.
fn saved_run(out: &Path, operations: u64) -> PathBuf {
    let mut command = Command::new(BINARY);
    command
        .args(["run", "--time-limit", "1s", "--json", "--out"])
        .arg(out);
    let output = command.stderr(Stdio::null()).output().expect("it runs");
    let end: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let folder = PathBuf::from(end["folder"].as_str().expect("a path"));
    let history = folder.join("history.jsonl");
    let header = std::fs::read_to_string(&history)
        .expect("written")
        .lines()
        .next()
        .expect("a header")
        .to_owned();
    let mut file = std::io::BufWriter::new(std::fs::File::create(&history).expect("ours"));
    writeln!(file, "{header}").expect("written");
    let mut marks: BTreeMap<u64, u64> = BTreeMap::new();
    let mut index = 0;
    for operation in 0..operations {
        let (time, client) = (operation * 20_000, operation % 10);
        for (place, phase) in [(0, "begin"), (EVERY / 4, "end")] {
            if operation % EVERY == place {
                fault(&mut file, index, time, operation / EVERY, phase);
                index += 1;
            }
        }
        let lock = client % 4 + 1;
        let head = format!("\"process\":{},\"client\":\"c{}\"", 2 * client, client + 1);
        let token = marks.entry(lock).or_insert(1);
        let (ask, answer) = match operation % 1_000 {
            0..=9 => {
                *token += 1;
                (
                    format!("\"f\":\"acquire\",\"lock\":\"shard-{lock}\",\"ttl\":1000"),
                    format!("\"type\":\"ok\",\"f\":\"acquire\",\"token\":{token}"),
                )
            }
            10..=19 if *token > 1 => (
                format!(
                    "\"f\":\"write\",\"lock\":\"shard-{lock}\",\"key\":\"shard-{lock}\",\"token\":1,\"value\":\"s{operation}\""
                ),
                format!(
                    "\"type\":\"fail\",\"f\":\"write\",\"error\":\"stale-token\",\"high_water\":{token}"
                ),
            ),
            even if even % 2 == 0 => (
                format!(
                    "\"f\":\"write\",\"lock\":\"shard-{lock}\",\"key\":\"shard-{lock}\",\"token\":{token},\"value\":\"v{operation}\""
                ),
                format!("\"type\":\"ok\",\"f\":\"write\",\"high_water\":{token}"),
            ),
            _ => (
                format!("\"f\":\"renew\",\"lock\":\"shard-{lock}\",\"token\":{token}"),
                "\"type\":\"ok\",\"f\":\"renew\"".to_owned(),
            ),
        };
        writeln!(
            file,
            "{{\"index\":{index},\"time\":{time},{head},\"type\":\"invoke\",{ask}}}"
        )
        .expect("written");
        writeln!(
            file,
            "{{\"index\":{},\"time\":{},{head},{answer}}}",
            index + 1,
            time + 10_000
        )
        .expect("written");
        index += 2;
    }
    file.flush().expect("written");
    folder
}
