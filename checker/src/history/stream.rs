//! A whole file, read block by block and by as many threads as there are.
//!
//! Promises: the same history and the same error as reading one line after the other; memory for a few blocks and the
//! history, whatever the size of the file; nothing is read after the first line that is wrong, but for blocks that are
//! on their way.
//!
//! One thread at a time takes the next block from the source and cuts it after its last whole line; many read such
//! chunks; and one at a time joins them in the order of the file.

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::Deref;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::chunk::{Chunk, ChunkReader, Joiner, Room};
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
    /// lines that were handed out before. `spare` were handed out before, and are not needed any more.
    fn next(
        &mut self,
        spare: Option<Self::Bytes>,
    ) -> Result<Option<(Self::Bytes, bool)>, ReadError>;
}

/// Lines of a file that is in memory.
struct Held<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Source for Held<'a> {
    type Bytes = &'a [u8];

    fn next(&mut self, _: Option<&'a [u8]>) -> Result<Option<(&'a [u8], bool)>, ReadError> {
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

    fn next(&mut self, spare: Option<Vec<u8>>) -> Result<Option<(Vec<u8>, bool)>, ReadError> {
        if self.ended {
            return Ok(None);
        }
        let mut block = spare.unwrap_or_default();
        block.clear();
        block.reserve(self.carried.len() + BLOCK);
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

fn read<S: Source>(source: S, threads: usize) -> Result<History, ReadError> {
    let mut joiner = Joiner::default();
    if threads < 2 {
        return read_alone(source, joiner);
    }
    let values = joiner.values();
    let source = Mutex::new((source, 0));
    let joint = Joint {
        state: Mutex::new(Joining {
            joiner: Some(joiner),
            waiting: BTreeMap::new(),
            next: 0,
            spare: Vec::new(),
            failed: None,
            abandoned: false,
        }),
        moved: Condvar::new(),
        most: threads * 2,
    };
    thread::scope(|scope| {
        for number in 0..threads {
            let reader = ChunkReader::new(number, values.clone());
            let (source, joint) = (&source, &joint);
            scope.spawn(move || read_in_turn(source, joint, reader));
        }
    });
    let state = joint.state.into_inner();
    let state = state.unwrap_or_else(PoisonError::into_inner);
    match state.failed {
        Some(error) => Err(error),
        None => Ok(state.joiner.unwrap_or_default().finish()),
    }
}

/// As one thread does it.
fn read_alone<S: Source>(mut source: S, mut joiner: Joiner) -> Result<History, ReadError> {
    let mut reader = ChunkReader::new(0, joiner.values());
    let (mut spare, mut room) = (None, Room::default());
    while let Some((bytes, last)) = source.next(spare).map_err(|error| placed(&joiner, error))? {
        let taken = joiner.take(reader.read(bytes, last, room))?;
        (spare, room) = (Some(taken.0), taken.1);
    }
    Ok(joiner.finish())
}

/// As one of several threads does it, until there is nothing more to read, or something was wrong.
fn read_in_turn<S: Source>(
    source: &Mutex<(S, usize)>,
    joint: &Joint<S::Bytes>,
    mut reader: ChunkReader,
) {
    let _watch = Watch(joint);
    loop {
        let (spare, room) = lock(&joint.state).spare.pop().unzip();
        let (turn, taken) = {
            let mut source = lock(source);
            let taken = source.0.next(spare);
            source.1 += 1;
            (source.1 - 1, taken)
        };
        let read = match taken {
            Ok(None) => return,
            Ok(Some((bytes, last))) => Ok(reader.read(bytes, last, room.unwrap_or_default())),
            Err(error) => Err(error),
        };
        let failed = read.is_err();
        if !joint.hand_in(turn, read) || failed {
            return;
        }
    }
}

/// Where chunks are joined, by whichever thread hands one in while nobody joins: what it has just read is still in its
/// core's cache, no thread waits for another, and there are as many threads as cores.
struct Joint<B> {
    state: Mutex<Joining<B>>,
    /// A chunk was joined, or there will be no more.
    moved: Condvar,
    /// How many chunks may wait for one that is still being read.
    most: usize,
}

struct Joining<B> {
    /// `None` while a thread joins with it, and after an error.
    joiner: Option<Joiner>,
    /// By turn, what has been read of the file: lines, or why there are none.
    waiting: BTreeMap<usize, Result<Chunk<B>, ReadError>>,
    /// Whose turn it is to be joined.
    next: usize,
    /// What has been joined, for whoever reads next.
    spare: Vec<(B, Room)>,
    /// The first error of the file.
    failed: Option<ReadError>,
    /// A thread has panicked.
    abandoned: bool,
}

impl<B> Joining<B> {
    fn is_over(&self) -> bool {
        self.failed.is_some() || self.abandoned
    }
}

impl<B: Deref<Target = [u8]>> Joint<B> {
    /// Takes what was read in this turn, and joins whatever has its turn, unless somebody does. Says whether there is
    /// more to do.
    fn hand_in(&self, turn: usize, read: Result<Chunk<B>, ReadError>) -> bool {
        let mut state = lock(&self.state);
        state.waiting.insert(turn, read);
        if let Some(mut joiner) = state.joiner.take() {
            loop {
                let next = state.next;
                let Some(read) = state.waiting.remove(&next) else {
                    // Under the same lock: whoever hands in the next finds that nobody joins.
                    state.joiner = Some(joiner);
                    break;
                };
                drop(state);
                let joined = read
                    .map_err(|error| placed(&joiner, error))
                    .and_then(|chunk| joiner.take(chunk).map_err(ReadError::History));
                state = lock(&self.state);
                self.moved.notify_all();
                match joined {
                    Ok(spare) => {
                        state.next += 1;
                        state.spare.push(spare);
                    }
                    Err(error) => {
                        state.failed = Some(error);
                        break;
                    }
                }
            }
        }
        while !state.is_over() && state.waiting.len() >= self.most {
            let waited = self.moved.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        !state.is_over()
    }
}

/// Ends the waiting of the others where its thread panics.
struct Watch<'a, B>(&'a Joint<B>);

impl<B> Drop for Watch<'_, B> {
    fn drop(&mut self) {
        if thread::panicking() {
            lock(&self.0.state).abandoned = true;
            self.0.moved.notify_all();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An error of a source, after what has been joined.
fn placed(joiner: &Joiner, error: ReadError) -> ReadError {
    match error {
        ReadError::History(error) => ReadError::History(joiner.place(error)),
        error => error,
    }
}
