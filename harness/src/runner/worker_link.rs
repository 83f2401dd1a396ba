//! The pipes to one worker: lines out in batches, answers in one by one.
//!
//! An answer is stamped by the recorder the moment its line has been read, before anybody else hears of it.

use std::process::{ChildStdin, ChildStdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fencepost_workloads::protocol::{Hello, Request, Response};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

use super::recorder::Recorder;
use crate::error::HarnessError;

/// A longer line from a worker is an error, not a reason to fill the memory. Half of what a line of the history may hold,
/// so that what was answered can always be recorded and read again.
const LINE_LIMIT: u64 = 1 << 19;

/// More lines in a row that say nothing are a flood.
const BLANK_LIMIT: u32 = 1_000;

/// What is said of a worker whose standard output has ended; whether it has ended too is for its keeper to say.
pub(super) const CLOSED: &str = "closed its standard output";

/// What a worker's pipes tell the conductor.
#[derive(Debug)]
pub enum FromWorker {
    /// An answer, recorded already.
    Answer(Response),
    /// The pipe is closed, or holds what no worker may say; nothing more will come. The text says which.
    Ended(String),
}

/// The sending side of a worker's pipe. Dropping it closes the worker's standard input, which ends the worker.
#[derive(Clone, Debug)]
pub struct WorkerLink {
    lines: mpsc::UnboundedSender<String>,
    within_a_line: Arc<AtomicBool>,
}

impl WorkerLink {
    /// Says hello and starts the two tasks that serve the pipes. `report` is told of answers and of the end.
    ///
    /// # Errors
    /// When the pipes cannot be made asynchronous.
    pub fn open<F>(
        stdin: ChildStdin,
        stdout: ChildStdout,
        worker: usize,
        hello: &Hello,
        recorder: Arc<Recorder>,
        report: F,
    ) -> Result<Self, HarnessError>
    where
        F: Fn(FromWorker) + Send + Sync + 'static,
    {
        let system = |source| HarnessError::System {
            what: "use a worker's pipes",
            source,
        };
        let stdin = tokio::process::ChildStdin::from_std(stdin).map_err(system)?;
        let stdout = tokio::process::ChildStdout::from_std(stdout).map_err(system)?;
        let (lines, outbox) = mpsc::unbounded_channel();
        lines
            .send(encode(hello))
            .expect("the receiver is right here");
        tokio::spawn(write_lines(stdin, outbox));
        let within_a_line = Arc::new(AtomicBool::new(false));
        let begun = Arc::clone(&within_a_line);
        tokio::spawn(async move {
            let why = read_answers(stdout, worker, &recorder, &begun, &report).await;
            report(FromWorker::Ended(why));
        });
        Ok(Self {
            lines,
            within_a_line,
        })
    }

    /// Whether the worker has begun a line and not ended it.
    #[must_use]
    pub fn is_within_a_line(&self) -> bool {
        self.within_a_line.load(Ordering::Relaxed)
    }

    /// Queues a request; a worker that is gone swallows it, and its end is reported by the reading side.
    pub fn send(&self, request: &Request) {
        let _ = self.lines.send(encode(request));
    }
}

fn encode(line: &impl serde::Serialize) -> String {
    let mut text = serde_json::to_string(line).expect("protocol lines are plain data");
    text.push('\n');
    text
}

/// Writes every line that is ready, flushes once, and always before waiting.
async fn write_lines(
    mut stdin: tokio::process::ChildStdin,
    mut outbox: mpsc::UnboundedReceiver<String>,
) {
    while let Some(mut batch) = outbox.recv().await {
        while let Ok(line) = outbox.try_recv() {
            batch.push_str(&line);
        }
        // A broken pipe is the worker's end, which the reading side reports.
        if stdin.write_all(batch.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

/// Reads until the pipe ends or says something impossible; returns why.
async fn read_answers(
    stdout: impl AsyncRead + Unpin,
    worker: usize,
    recorder: &Recorder,
    within_a_line: &AtomicBool,
    report: &impl Fn(FromWorker),
) -> String {
    let mut reader = BufReader::with_capacity(1 << 16, stdout);
    let mut line = Vec::new();
    let mut blank = 0;
    loop {
        line.clear();
        within_a_line.store(false, Ordering::Relaxed);
        // An error comes again below.
        let begun = reader.fill_buf().await.is_ok_and(|bytes| !bytes.is_empty());
        within_a_line.store(begun, Ordering::Relaxed);
        match (&mut reader)
            .take(LINE_LIMIT)
            .read_until(b'\n', &mut line)
            .await
        {
            Ok(0) => return CLOSED.to_owned(),
            Ok(_) if line.last() != Some(&b'\n') && line.len() as u64 >= LINE_LIMIT => {
                return format!(
                    "wrote a line of more than {LINE_LIMIT} bytes: one response a line is right"
                );
            }
            Ok(_) => {}
            Err(error) => return format!("its standard output broke: {error}"),
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            blank += 1;
            if blank > BLANK_LIMIT {
                return format!("wrote {blank} blank lines in a row: one response a line is right");
            }
            continue;
        }
        let response: Response = match serde_json::from_slice(&line) {
            Ok(response) => response,
            Err(error) => {
                let shown = String::from_utf8_lossy(&line[..line.len().min(120)])
                    .trim()
                    .to_owned();
                return format!(
                    "wrote {shown:?}, which is no response: {error}; {{\"id\":7,\"type\":\"ok\"}} is an example"
                );
            }
        };
        // An answer to the hello, which has no id of its own, is allowed and says nothing.
        if response.id == 0 {
            blank += 1;
            if blank > BLANK_LIMIT {
                return format!(
                    "answered id 0 {blank} times: one response to each request is right"
                );
            }
            continue;
        }
        blank = 0;
        match recorder.complete(&response, worker) {
            Ok(true) => report(FromWorker::Answer(response)),
            Ok(false) => {}
            Err(wrong) => return wrong,
        }
    }
}
