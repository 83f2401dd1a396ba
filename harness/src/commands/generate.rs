//! `fencepost generate`: a made history, for trying checkers on.

use std::fs::File;
use std::io::{ErrorKind, Write};

use fencepost_checker::generate::{Generator, Settings};

use crate::cli::GenerateArguments;
use crate::error::HarnessError;

/// How much is written at a time, in bytes.
const BLOCK: usize = 1 << 18;

/// Writes the history, event by event, to a file or to standard output. A reader that goes away ends it.
///
/// # Errors
/// When a share is none, the file cannot be written, or the history gave no occasion for its defect.
pub fn generate(arguments: &GenerateArguments) -> Result<u8, HarnessError> {
    for (flag, share) in [
        ("--reads", arguments.reads),
        ("--zombies", arguments.zombies),
        ("--timeouts", arguments.timeouts),
        ("--nameless", arguments.nameless),
    ] {
        if !(0.0..=1.0).contains(&share) {
            let message = format!("{flag} {share} is no share: 0 to 1 is, e.g. 0.2");
            return Err(HarnessError::Usage(message));
        }
    }
    let settings = Settings {
        operations: arguments.operations,
        clients: arguments.clients,
        keys: arguments.keys,
        locks: arguments.locks,
        seed: arguments.seed,
        reads: arguments.reads,
        zombies: arguments.zombies,
        timeouts: arguments.timeouts,
        nameless: arguments.nameless,
        defect: arguments.defect,
    };
    let mut events = Generator::new(&settings);
    match &arguments.out {
        None => match write(&mut events, std::io::stdout().lock()) {
            Ok(()) => {}
            Err(source) if source.kind() == ErrorKind::BrokenPipe => return Ok(0),
            Err(source) => {
                let what = "write to standard output";
                return Err(HarnessError::System { what, source });
            }
        },
        Some(path) => {
            let written = File::create(path).and_then(|file| write(&mut events, file));
            written.map_err(|source| HarnessError::Output {
                path: path.clone(),
                source,
            })?;
        }
    }
    if let Some(defect) = arguments.defect.filter(|_| events.planted().is_none()) {
        let message = format!(
            "the history gives no occasion for --defect {defect}, so it is honest: more --operations, --clients, --zombies or --reads may give one"
        );
        return Err(HarnessError::Internal(message));
    }
    Ok(0)
}

fn write(events: &mut Generator, mut out: impl Write) -> std::io::Result<()> {
    let mut block = Vec::with_capacity(BLOCK + 1024);
    for event in events {
        event.write(&mut block);
        if block.len() >= BLOCK {
            out.write_all(&block)?;
            block.clear();
        }
    }
    out.write_all(&block)?;
    out.flush()
}
