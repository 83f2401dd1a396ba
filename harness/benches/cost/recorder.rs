//! What one recorded event costs.

use std::sync::Arc;
use std::time::Instant;

use fencepost::clock::RunClock;
use fencepost::runner::recorder::Recorder;
use fencepost_checker::history::{Header, Token, Type};
use fencepost_workloads::protocol::{Request, Response};

use crate::support::{Row, folder, row};

/// A recorded event: stamping it, and writing it to disk.
pub fn recorder() -> Vec<Row> {
    const OPERATIONS: u64 = 200_000;
    let out = folder();
    let path = out.path().join("history.jsonl");
    let header = Header {
        format: 1,
        ..Header::default()
    };
    let (recorder, writer) =
        Recorder::create(&path, header, RunClock::start(), Arc::default(), None).expect("a file");
    let begun = Instant::now();
    let cpu = thread_micros();
    for process in 0..OPERATIONS {
        let mut request = Request {
            process: process % 20,
            client: "c3".into(),
            f: "write".into(),
            lock: Some("shard-3".into()),
            key: Some("shard-3".into()),
            token: Some(Token::from(42_u64)),
            value: Some(format!("c3-{process}")),
            ..Request::default()
        };
        recorder.invoke(&mut request, 0, |_| {});
        let answer = Response {
            high_water: Some(Token::from(42_u64)),
            ..Response::new(request.id, Type::Ok)
        };
        recorder.complete(&answer, 0).expect("open");
    }
    let stamping = (thread_micros() - cpu) / (2.0 * OPERATIONS as f64);
    recorder.close();
    writer.join();
    let until_on_disk = begun.elapsed().as_secs_f64() * 1e6 / (2.0 * OPERATIONS as f64);
    let bytes = std::fs::metadata(&path).expect("written").len() as f64 / (2.0 * OPERATIONS as f64);
    vec![
        row(
            "a recorded event: stamping and handing over",
            format!("{stamping:.2} us"),
            "",
        ),
        row(
            "a recorded event, until all are on disk",
            format!("{until_on_disk:.2} us"),
            "",
        ),
        row(
            "a recorded event in the file",
            format!("{bytes:.0} bytes"),
            "",
        ),
    ]
}

/// Processor microseconds of this thread.
fn thread_micros() -> f64 {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_THREAD)
        .expect("always there");
    let micros = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 * 1e6 + time.tv_usec() as f64;
    micros(usage.user_time()) + micros(usage.system_time())
}
