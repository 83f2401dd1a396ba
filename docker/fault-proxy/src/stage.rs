//! One toxic at work on one direction of one connection.
//!
//! Pure: time is an argument, no sockets, no sleeping. A stage takes items in order and passes them on in order; what
//! it holds it can give back, so that a toxic may be removed without losing a byte. Only a hole (`timeout`),
//! `reset_peer` and `limit_data` lose bytes, and each of them ends the connection for it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::dice::Dice;
use crate::toxic::{Bandwidth, Kind, Latency, Slicer, Toxic};

/// What an item costs besides its bytes, so that a million tiny pieces count too.
const OVERHEAD: usize = 64;

/// How a stream ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The sender closed its half; the other direction goes on.
    Fin,
    /// The whole connection closes: both sides see the end of the stream.
    Close,
    /// The whole connection is reset: both sides see RST.
    Reset,
}

/// What travels through a pipe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Item {
    /// Bytes that were read together.
    Bytes(Vec<u8>),
    /// The end, which keeps its place behind the bytes before it.
    End(End),
}

impl Item {
    /// What the item counts against a pipe's limit, in bytes.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Item::Bytes(bytes) => bytes.len() + OVERHEAD,
            Item::End(_) => OVERHEAD,
        }
    }
}

/// An item inside a stage.
#[derive(Debug)]
struct Held {
    item: Item,
    entered: Instant,
    /// In [-1, 1): where in the jitter this item lies, drawn once so that a changed toxic moves it consistently.
    sway: f64,
}

/// A toxic at work; see the module.
#[derive(Debug)]
pub(crate) struct Stage {
    toxic: Arc<Toxic>,
    /// Whether the draw of toxicity hit this connection.
    applies: bool,
    queue: VecDeque<Held>,
    weight: usize,
    /// When the toxic took hold here, or was last changed.
    since: Instant,
    /// `bandwidth` and `slicer`: nothing leaves before this.
    free_at: Instant,
    /// `limit_data`: bytes let through.
    passed: u64,
    /// `reset_peer`: when bytes first arrived; those bytes are lost.
    armed: Option<Instant>,
    /// This stage has ended the connection; whatever comes after is dropped.
    ended: bool,
}

/// `at + wait`, or a time so far away that nobody sees it.
fn later(at: Instant, wait: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    at.checked_add(wait).unwrap_or_else(|| at + YEAR)
}

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

impl Stage {
    /// Puts `toxic` to work, drawing whether it applies.
    pub(crate) fn new(toxic: Arc<Toxic>, now: Instant, dice: &mut Dice) -> Stage {
        Stage {
            applies: dice.unit() < f64::from(toxic.toxicity),
            toxic,
            queue: VecDeque::new(),
            weight: 0,
            since: now,
            free_at: now,
            passed: 0,
            armed: None,
            ended: false,
        }
    }

    /// The toxic's name.
    pub(crate) fn name(&self) -> &str {
        &self.toxic.name
    }

    /// What the stage holds, in bytes with overhead.
    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    /// Takes an item at the back.
    pub(crate) fn push(&mut self, item: Item, now: Instant, dice: &mut Dice) {
        self.weight += item.weight();
        self.queue.push_back(Held {
            item,
            entered: now,
            sway: dice.sway(),
        });
    }

    /// Changes the numbers or the toxicity, at once. Returns how the connection must end because bytes were lost.
    pub(crate) fn change(
        &mut self,
        toxic: Arc<Toxic>,
        now: Instant,
        dice: &mut Dice,
    ) -> Option<End> {
        let lossy = self.loss();
        self.toxic = toxic;
        self.applies = dice.unit() < f64::from(self.toxic.toxicity);
        self.since = now;
        self.free_at = now;
        lossy.filter(|_| !self.applies)
    }

    /// Ends the toxic's work. Returns what it held, in order, and how the connection must end because bytes were lost.
    pub(crate) fn leave(mut self) -> (Vec<Item>, Option<End>) {
        let loss = self.loss();
        (self.queue.drain(..).map(|held| held.item).collect(), loss)
    }

    /// How the connection must end if this stage stops here and now.
    fn loss(&self) -> Option<End> {
        match self.toxic.kind {
            Kind::Timeout(_) if self.applies => Some(End::Close),
            Kind::ResetPeer(_) if self.armed.is_some() => Some(End::Reset),
            _ => None,
        }
    }

    /// Moves what may leave at `now` to `out`; returns when to look again, if time alone can change anything.
    pub(crate) fn run(
        &mut self,
        now: Instant,
        dice: &mut Dice,
        out: &mut Vec<Item>,
    ) -> Option<Instant> {
        if self.ended {
            self.swallow();
            return None;
        }
        if !self.applies {
            while let Some(item) = self.pop() {
                out.push(item);
            }
            return None;
        }
        match self.toxic.kind {
            Kind::Latency(latency) => self.delay(latency, now, out),
            Kind::Bandwidth(bandwidth) => self.throttle(bandwidth, now, out),
            Kind::Timeout(hole) => {
                self.swallow();
                if hole.timeout == 0 {
                    return None;
                }
                self.end_at(
                    later(self.since, milliseconds(hole.timeout)),
                    End::Close,
                    now,
                    out,
                )
            }
            Kind::ResetPeer(reset) => {
                if !self.queue.is_empty() {
                    self.armed.get_or_insert(now);
                }
                self.swallow();
                let due = later(self.armed?, milliseconds(reset.timeout));
                self.end_at(due, End::Reset, now, out)
            }
            Kind::SlowClose(close) => self.hold_end(milliseconds(close.delay), now, out),
            Kind::Slicer(slicer) => self.slice(slicer, now, dice, out),
            Kind::LimitData(limit) => {
                self.limit(limit.bytes, out);
                None
            }
        }
    }

    fn pop(&mut self) -> Option<Item> {
        let held = self.queue.pop_front()?;
        self.weight -= held.item.weight();
        Some(held.item)
    }

    fn swallow(&mut self) {
        self.queue.clear();
        self.weight = 0;
    }

    /// Takes the first `count` bytes off the item in front, which is known to be bytes and longer than that.
    fn cut(&mut self, count: usize) -> Option<Item> {
        let front = self.queue.front_mut()?;
        let Item::Bytes(bytes) = &mut front.item else {
            return None;
        };
        let rest = bytes.split_off(count.min(bytes.len()));
        self.weight -= count;
        Some(Item::Bytes(std::mem::replace(bytes, rest)))
    }

    fn end_at(
        &mut self,
        due: Instant,
        end: End,
        now: Instant,
        out: &mut Vec<Item>,
    ) -> Option<Instant> {
        if now < due {
            return Some(due);
        }
        self.ended = true;
        out.push(Item::End(end));
        None
    }

    /// Every item, the end too, leaves when its own time has come: pipelined messages do not add up.
    fn delay(&mut self, latency: Latency, now: Instant, out: &mut Vec<Item>) -> Option<Instant> {
        while let Some(front) = self.queue.front() {
            let wait = latency.latency as f64 + front.sway * latency.jitter as f64;
            let wait = Duration::try_from_secs_f64(wait.max(0.0) / 1000.0).unwrap_or(Duration::MAX);
            let due = later(front.entered, wait);
            if now < due {
                return Some(due);
            }
            out.extend(self.pop());
        }
        None
    }

    /// An item leaves when its transmission at the given rate would be over, in slices of at most 100 ms.
    fn throttle(
        &mut self,
        bandwidth: Bandwidth,
        now: Instant,
        out: &mut Vec<Item>,
    ) -> Option<Instant> {
        if bandwidth.rate == 0 {
            return None;
        }
        let slice = usize::try_from(bandwidth.rate.saturating_mul(100)).unwrap_or(usize::MAX);
        while let Some(front) = self.queue.front() {
            let Item::Bytes(bytes) = &front.item else {
                out.extend(self.pop());
                continue;
            };
            let (length, count) = (bytes.len(), bytes.len().min(slice));
            // A rate of n kilobytes a second is n bytes a millisecond; `count` is at most a pipe's limit.
            let busy = Duration::from_nanos(count as u64 * 1_000_000 / bandwidth.rate);
            let due = later(self.free_at.max(front.entered), busy);
            if now < due {
                return Some(due);
            }
            self.free_at = due;
            out.extend(if count < length {
                self.cut(count)
            } else {
                self.pop()
            });
        }
        None
    }

    fn hold_end(&mut self, delay: Duration, now: Instant, out: &mut Vec<Item>) -> Option<Instant> {
        while let Some(front) = self.queue.front() {
            if matches!(front.item, Item::End(_)) {
                let due = later(front.entered, delay);
                if now < due {
                    return Some(due);
                }
            }
            out.extend(self.pop());
        }
        None
    }

    fn slice(
        &mut self,
        slicer: Slicer,
        now: Instant,
        dice: &mut Dice,
        out: &mut Vec<Item>,
    ) -> Option<Instant> {
        while let Some(front) = self.queue.front() {
            if now < self.free_at {
                return Some(self.free_at);
            }
            let Item::Bytes(bytes) = &front.item else {
                out.extend(self.pop());
                continue;
            };
            let largest = slicer.average_size.saturating_add(slicer.size_variation);
            if slicer.average_size == 0 || bytes.len() as u64 <= largest {
                out.extend(self.pop());
            } else {
                let size = slicer.average_size as f64 + dice.sway() * slicer.size_variation as f64;
                // At most `largest`, which is less than the length of the bytes in front.
                out.extend(self.cut((size as usize).max(1)));
            }
            self.free_at = later(now, Duration::from_micros(slicer.delay));
        }
        None
    }

    fn limit(&mut self, bytes: u64, out: &mut Vec<Item>) {
        while let Some(item) = self.pop() {
            let Item::Bytes(mut data) = item else {
                out.push(item);
                continue;
            };
            let left = bytes.saturating_sub(self.passed);
            data.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            self.passed += data.len() as u64;
            if !data.is_empty() {
                out.push(Item::Bytes(data));
            }
            if self.passed >= bytes {
                self.ended = true;
                self.swallow();
                out.push(Item::End(End::Close));
            }
        }
    }
}
