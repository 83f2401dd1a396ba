//! A whole file, read block by block and by as many threads as there are.
//!
//! Promises: the same history and the same error as reading one line after the other; memory for a few blocks and the
//! history, whatever the size of the file; nothing is read after the first line that is wrong, but for blocks that are
//! on their way.
//!
//! One thread at a time takes the next block from the source and cuts it after its last whole line; many read such
//! chunks; the calling thread joins them in the order of the file.

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::Deref;
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::chunk::{Chunk, ChunkReader, Joiner};
use super::jsonl::{MAX_LINE, too_long};
use super::{History, HistoryError, ReadError};

/// How much is read at a time, in bytes: a chunk and what becomes of it stay in a core's cache.
const BLOCK: usize = 256 << 10;

/// The byte order mark that some editors put before a text.
pub(super) const MARK: &[u8] = b"\xef\xbb\xbf";

/// Where whole lines come from.
trait Source: Send {
    /// Lines that lie together in memory.
    type Bytes: Deref<Target = [u8]> + Send;

    /// The next whole lines and whether they are the last; `None` after those. Of an error the line is counted from the
    /// lines that were handed out before.
    fn next(&mut self) -> Result<Option<(Self::Bytes, bool)>, ReadError>;
}

/// Lines of a file that is in memory.
struct Held<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Source for Held<'a> {
    type Bytes = &'a [u8];

    fn next(&mut self) -> Result<Option<(&'a [u8], bool)>, ReadError> {
        let Some(rest) = self.rest else {
            return Ok(None);
        };
        let beyond = rest.get(BLOCK..);
        let end = beyond.and_then(|beyond| memchr::memchr(b'\n', beyond));
        let Some(end) = end else {
            self.rest = None;
            return Ok(Some((rest, true)));
        };
        let (lines, after) = rest.split_at(BLOCK + end + 1);
        self.rest = Some(after);
        Ok(Some((lines, false)))
    }
}

/// Lines of a file that is read as it is needed.
struct Streamed<R> {
    reader: R,
    /// The beginning of a line whose end has not been read.
    carried: Vec<u8>,
    begun: bool,
    ended: bool,
}

impl<R: Read + Send> Source for Streamed<R> {
    type Bytes = Vec<u8>;

    fn next(&mut self) -> Result<Option<(Vec<u8>, bool)>, ReadError> {
        if self.ended {
            return Ok(None);
        }
        let mut block = Vec::with_capacity(self.carried.len() + BLOCK);
        block.append(&mut self.carried);
        loop {
            let before = block.len();
            let wanted = BLOCK as u64;
            (&mut self.reader)
                .take(wanted)
                .read_to_end(&mut block)
                .map_err(ReadError::Io)?;
            self.ended = block.len() < before + BLOCK;
            if !self.begun {
                self.begun = true;
                if block.starts_with(MARK) {
                    block.drain(..MARK.len());
                }
            }
            if self.ended {
                return Ok(Some((block, true)));
            }
            if let Some(end) = memchr::memrchr(b'\n', &block) {
                self.carried.extend_from_slice(&block[end + 1..]);
                block.truncate(end + 1);
                return Ok(Some((block, false)));
            }
            if block.len() > MAX_LINE {
                self.ended = true;
                return Err(ReadError::History(too_long(1)));
            }
        }
    }
}

/// Reads a `history.jsonl` that is in memory.
pub(super) fn held(bytes: &[u8], threads: usize) -> Result<History, HistoryError> {
    let rest = Some(bytes.strip_prefix(MARK).unwrap_or(bytes));
    match read(Held { rest }, threads) {
        Ok(history) => Ok(history),
        Err(ReadError::History(error)) => Err(error),
        Err(ReadError::Io(error)) => unreachable!("memory is read without {error}"),
    }
}

/// Reads a `history.jsonl` as it comes.
pub(super) fn streamed(reader: impl Read + Send, threads: usize) -> Result<History, ReadError> {
    let source = Streamed {
        reader,
        carried: Vec::new(),
        begun: false,
        ended: false,
    };
    read(source, threads)
}

fn read<S: Source>(mut source: S, threads: usize) -> Result<History, ReadError> {
    let mut joiner = Joiner::default();
    if threads < 2 {
        let mut reader = ChunkReader::new(0, joiner.values());
        while let Some((bytes, last)) = source.next().map_err(|error| placed(&joiner, error))? {
            joiner.take(reader.read(bytes, last))?;
        }
        return Ok(joiner.finish());
    }
    /// What a thread sends for its turn: the lines that it took, or why it could not take any.
    type Turn<B> = (usize, Result<Chunk<B>, ReadError>);
    let source = Mutex::new((source, 0));
    let (send, receive) = sync_channel::<Turn<S::Bytes>>(threads * 2);
    thread::scope(|scope| {
        for number in 0..threads {
            let mut reader = ChunkReader::new(number, joiner.values());
            let (source, send) = (&source, send.clone());
            scope.spawn(move || {
                loop {
                    let (turn, taken) = {
                        let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
                        let taken = source.0.next();
                        source.1 += 1;
                        (source.1 - 1, taken)
                    };
                    let result = match taken {
                        Ok(None) => break,
                        Ok(Some((bytes, last))) => Ok(reader.read(bytes, last)),
                        Err(error) => Err(error),
                    };
                    let failed = result.is_err();
                    if send.send((turn, result)).is_err() || failed {
                        break;
                    }
                }
            });
        }
        drop(send);
        let mut waiting = BTreeMap::new();
        let mut next = 0;
        // The receiver goes away at the first error, and with it whoever still reads.
        for (turn, result) in receive {
            waiting.insert(turn, result);
            while let Some(result) = waiting.remove(&next) {
                joiner.take(result.map_err(|error| placed(&joiner, error))?)?;
                next += 1;
            }
        }
        Ok(joiner.finish())
    })
}

/// An error of a source, after what has been joined.
fn placed(joiner: &Joiner, error: ReadError) -> ReadError {
    match error {
        ReadError::History(error) => ReadError::History(joiner.place(error)),
        error => error,
    }
}
