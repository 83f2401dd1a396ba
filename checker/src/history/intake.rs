//! Bytes in as they come, events out as soon as they are whole: for what cannot be read as a file.
//!
//! Promises: a line, a map or an error is given out with the block that ends it; what is held is the beginning of one
//! line or map, so a line that does not end is refused once it is too long. The order of what is given out, and what is
//! an error, do not depend on where blocks end.

use super::chunk::{ChunkReader, Joiner, Room};
use super::format::LOGGED;
use super::forms::{Forms, Place};
use super::jepsen::Jepsen;
use super::jsonl::{self, MAX_LINE, Placing, too_long};
use super::stream::MARK;
use super::{Format, History, HistoryError, Line, Pairing};

/// What becomes of a line of a history, with its number in the file, from 1.
pub type Sink<'a> = &'a mut dyn FnMut(usize, Line) -> Result<(), HistoryError>;

/// Turns blocks of bytes into lines of a history.
///
/// ```
/// use fencepost_checker::history::{Format, Lines};
///
/// let mut lines = Lines::new(Format::Edn);
/// let mut found = Vec::new();
/// let mut sink = |number, line| Ok(found.push((number, line)));
/// lines.push(b"{:process 0, :type :invoke, :f :read, :value nil}\n{:process 0, :ty", &mut sink)?;
/// lines.push(b"pe :ok, :f :read, :value 3}\n", &mut sink)?;
/// lines.end(&mut sink)?;
/// assert_eq!(found.len(), 2);
/// # Ok::<(), fencepost_checker::history::HistoryError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Lines {
    kind: Kind,
    warnings: Vec<String>,
}

#[derive(Clone, Debug)]
enum Kind {
    Jsonl(Cutter, Placing),
    Edn(Box<Forms>, Box<Jepsen>),
    Log(Cutter, Box<Jepsen>),
}

impl Lines {
    /// Nothing read yet.
    #[must_use]
    pub fn new(format: Format) -> Self {
        let kind = match format {
            Format::Jsonl => Kind::Jsonl(Cutter::default(), Placing::default()),
            Format::Edn => Kind::Edn(Box::new(Forms::new()), Box::default()),
            Format::JepsenLog => Kind::Log(Cutter::default(), Box::default()),
        };
        Self {
            kind,
            warnings: Vec::new(),
        }
    }

    /// Takes the next bytes, and gives `sink` each line that ends in them.
    ///
    /// # Errors
    /// The first line that is malformed, or what `sink` has against one. Nothing can be read after an error.
    pub fn push(&mut self, block: &[u8], sink: Sink<'_>) -> Result<(), HistoryError> {
        match &mut self.kind {
            Kind::Jsonl(cutter, placing) => cutter.push(block, &mut |number, text| {
                give_line(placing, &mut self.warnings, number, text, false, sink)
            }),
            Kind::Edn(forms, jepsen) => {
                forms.push(block, &mut |form, place| match jepsen.map(form, place)? {
                    Some(line) => sink(place.line, line),
                    None => Ok(()),
                })
            }
            Kind::Log(cutter, jepsen) => cutter.push(block, &mut |number, text| {
                give_logged(jepsen, number, text, sink)
            }),
        }
    }

    /// Takes note that nothing follows: a last line without a newline is given out, one that was cut short is not.
    ///
    /// # Errors
    /// As [`Lines::push`].
    pub fn end(&mut self, sink: Sink<'_>) -> Result<(), HistoryError> {
        match &mut self.kind {
            Kind::Jsonl(cutter, placing) => {
                let (number, text) = cutter.rest();
                give_line(placing, &mut self.warnings, number, &text, true, sink)
            }
            Kind::Edn(forms, jepsen) => {
                self.warnings.extend(jepsen.warnings());
                self.warnings.extend(forms.unfinished());
                Ok(())
            }
            Kind::Log(cutter, jepsen) => {
                let (number, text) = cutter.rest();
                // Where a crash cut the last line nothing tells: what is left of it may read as another value.
                if memchr::memmem::find(&text, LOGGED.as_bytes()).is_some() {
                    self.warnings
                        .push(format!("line {number} was cut short and is dropped"));
                }
                self.warnings.extend(jepsen.warnings());
                Ok(())
            }
        }
    }

    /// What was forgiven, one sentence each; complete after [`Lines::end`].
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The file has events and tells no times: all are 0, and mean nothing.
    #[must_use]
    pub fn untimed(&self) -> bool {
        match &self.kind {
            Kind::Jsonl(..) => false,
            Kind::Edn(_, jepsen) | Kind::Log(_, jepsen) => jepsen.untimed(),
        }
    }
}

fn give_line(
    placing: &mut Placing,
    warnings: &mut Vec<String>,
    number: usize,
    text: &[u8],
    unfinished: bool,
    sink: Sink<'_>,
) -> Result<(), HistoryError> {
    match jsonl::read_any(text, number, unfinished)? {
        None => Ok(()),
        Some(jsonl::Any::CutShort) => {
            warnings.push(format!("line {number} was cut short and is dropped"));
            Ok(())
        }
        Some(jsonl::Any::Line(line)) => {
            if let Some(index) = jsonl::position(&line) {
                placing.check(number, index)?;
            }
            sink(number, line)
        }
    }
}

/// Other lines of a log are nobody's business, whatever bytes they hold.
fn give_logged(
    jepsen: &mut Jepsen,
    number: usize,
    text: &[u8],
    sink: Sink<'_>,
) -> Result<(), HistoryError> {
    let Some(at) = memchr::memmem::find(text, LOGGED.as_bytes()) else {
        return Ok(());
    };
    let start = at + LOGGED.len();
    let place = Place {
        line: number,
        column: start + 1,
    };
    let Ok(text) = std::str::from_utf8(&text[start..]) else {
        return Err(place.error(None, "is not UTF-8"));
    };
    match jepsen.log_line(text, place)? {
        Some(line) => sink(number, line),
        None => Ok(()),
    }
}

/// Cuts blocks into lines.
#[derive(Clone, Debug, Default)]
struct Cutter {
    carried: Vec<u8>,
    begun: bool,
    lines: usize,
}

impl Cutter {
    fn push(
        &mut self,
        block: &[u8],
        sink: &mut impl FnMut(usize, &[u8]) -> Result<(), HistoryError>,
    ) -> Result<(), HistoryError> {
        let mut rest = block;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.carried.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            let (number, line) = self.rest();
            sink(number, &line)?;
            // Its room is used again.
            self.carried = line;
            self.carried.clear();
        }
        self.carried.extend_from_slice(rest);
        if self.carried.len() > MAX_LINE {
            return Err(too_long(self.lines + 1));
        }
        Ok(())
    }

    /// What has been carried, as a line, and its number.
    fn rest(&mut self) -> (usize, Vec<u8>) {
        let mut line = std::mem::take(&mut self.carried);
        if !self.begun && line.starts_with(MARK) {
            line.drain(..MARK.len());
        }
        self.begun = true;
        self.lines += 1;
        (self.lines, line)
    }
}

/// Turns blocks of bytes into a history, as they come.
#[derive(Debug)]
pub struct Intake {
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// JSON lines, the fast way.
    Swift {
        carried: Vec<u8>,
        begun: bool,
        lines: usize,
        reader: ChunkReader,
        joiner: Box<Joiner>,
    },
    /// Everything else.
    Plain(Box<(Lines, Pairing)>),
}

impl Intake {
    /// Nothing read yet.
    #[must_use]
    pub fn new(format: Format) -> Self {
        let way = if format == Format::Jsonl {
            let mut joiner = Box::<Joiner>::default();
            Way::Swift {
                carried: Vec::new(),
                begun: false,
                lines: 0,
                reader: ChunkReader::new(0, joiner.values()),
                joiner,
            }
        } else {
            Way::Plain(Box::new((Lines::new(format), Pairing::new())))
        };
        Self { way }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// The first line that is malformed or contradicts an earlier one. Nothing can be read after an error.
    pub fn push(&mut self, block: &[u8]) -> Result<(), HistoryError> {
        match &mut self.way {
            Way::Plain(plain) => {
                let (lines, pairing) = &mut **plain;
                lines.push(block, &mut |number, line| pairing.push(number, line))
            }
            Way::Swift {
                carried,
                begun,
                lines,
                reader,
                joiner,
            } => {
                let Some(end) = memchr::memrchr(b'\n', block) else {
                    carried.extend_from_slice(block);
                    if carried.len() > MAX_LINE {
                        return Err(too_long(*lines + 1));
                    }
                    return Ok(());
                };
                carried.extend_from_slice(&block[..=end]);
                let whole = without_mark(begun, carried);
                *lines += memchr::memchr_iter(b'\n', whole).count();
                joiner.take(reader.read(whole, false, Room::default()))?;
                carried.clear();
                carried.extend_from_slice(&block[end + 1..]);
                Ok(())
            }
        }
    }

    /// Everything that was read.
    ///
    /// # Errors
    /// A last line, without a newline, that is malformed.
    pub fn finish(self) -> Result<History, HistoryError> {
        match self.way {
            Way::Plain(plain) => {
                let (mut lines, mut pairing) = *plain;
                lines.end(&mut |number, line| pairing.push(number, line))?;
                let mut history = pairing.finish();
                history.untimed = lines.untimed();
                history
                    .warnings
                    .splice(0..0, lines.warnings().iter().cloned());
                Ok(history)
            }
            Way::Swift {
                carried,
                mut begun,
                mut reader,
                mut joiner,
                ..
            } => {
                let last = without_mark(&mut begun, &carried);
                joiner.take(reader.read(last, true, Room::default()))?;
                Ok(joiner.finish())
            }
        }
    }
}

fn without_mark<'a>(begun: &mut bool, bytes: &'a [u8]) -> &'a [u8] {
    let first = !std::mem::replace(begun, true);
    bytes.strip_prefix(MARK).filter(|_| first).unwrap_or(bytes)
}
