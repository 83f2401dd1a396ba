//! One direction of one connection: what was read, waits in the toxics, and may be written.
//!
//! ```text
//! source --push--> [stage] --> [stage] --> ready --front/wrote--> sink
//!                  oldest      newest
//! ```
//!
//! Pure, like `stage`: time is an argument. A new toxic goes last, as in Toxiproxy, and takes what is ready but not
//! yet written, so that it is in force for every byte that has not left. Nothing is reordered, ever.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::dice::Dice;
use crate::stage::{End, Item, Stage};
use crate::toxic::Toxic;

/// How much one direction may hold before its source is no longer read: 1 MiB, overhead of small pieces included.
pub(crate) const LIMIT: usize = 1 << 20;

/// One direction of one connection; see the module.
#[derive(Debug)]
pub(crate) struct Pipe {
    stages: Vec<Stage>,
    ready: VecDeque<Item>,
    ready_weight: usize,
    /// The source has ended; nothing is read any more.
    drained: bool,
    /// The sink is gone; whatever comes is dropped.
    broken: bool,
    /// The end has reached the sink.
    done: bool,
    dice: Dice,
}

impl Pipe {
    /// An open pipe through the given toxics, in their order.
    pub(crate) fn new<'a>(toxics: impl Iterator<Item = &'a Arc<Toxic>>, now: Instant) -> Pipe {
        let mut dice = Dice::new();
        let stages = toxics
            .map(|toxic| Stage::new(Arc::clone(toxic), now, &mut dice))
            .collect();
        Pipe {
            stages,
            ready: VecDeque::new(),
            ready_weight: 0,
            drained: false,
            broken: false,
            done: false,
            dice,
        }
    }

    /// How many bytes may be read from the source now; 0 is back-pressure, or the end.
    pub(crate) fn room(&self) -> usize {
        if self.drained {
            return 0;
        }
        let held: usize = self.stages.iter().map(Stage::weight).sum();
        LIMIT.saturating_sub(held + self.ready_weight)
    }

    /// Whether the end has reached the sink, or the sink is gone.
    pub(crate) fn done(&self) -> bool {
        self.done
    }

    /// Takes bytes that were read from the source.
    pub(crate) fn push(&mut self, bytes: &[u8], now: Instant) {
        self.enter(0, Item::Bytes(bytes.to_vec()), now);
    }

    /// The source has ended so. [`End::Close`] may follow [`End::Fin`].
    pub(crate) fn end(&mut self, end: End, now: Instant) {
        self.drained = true;
        self.enter(0, Item::End(end), now);
    }

    /// Moves what is due towards the sink; returns when to look again.
    pub(crate) fn advance(&mut self, now: Instant) -> Option<Instant> {
        let mut wake: Option<Instant> = None;
        let mut passed = Vec::new();
        for position in 0..self.stages.len() {
            let at = self.stages[position].run(now, &mut self.dice, &mut passed);
            wake = wake.into_iter().chain(at).min();
            for item in passed.drain(..) {
                self.enter(position + 1, item, now);
            }
        }
        wake
    }

    /// What is to be written next.
    pub(crate) fn front(&self) -> Option<&Item> {
        self.ready.front()
    }

    /// `count` bytes of the item in front were written, or the end in front was carried out.
    pub(crate) fn wrote(&mut self, count: usize) {
        match self.ready.front_mut() {
            Some(Item::Bytes(bytes)) if count < bytes.len() => {
                bytes.drain(..count);
                self.ready_weight -= count;
            }
            Some(item) => {
                self.ready_weight -= item.weight();
                self.done |= matches!(item, Item::End(_));
                self.ready.pop_front();
            }
            None => {}
        }
    }

    /// The sink is gone: drops all that is held and all that will come.
    pub(crate) fn break_off(&mut self) {
        self.broken = true;
        self.done = true;
        self.stages.clear();
        self.ready.clear();
        self.ready_weight = 0;
    }

    /// Puts a toxic last. What is ready goes through it, in order.
    pub(crate) fn add(&mut self, toxic: &Arc<Toxic>, now: Instant) {
        if self.broken {
            return;
        }
        let mut stage = Stage::new(Arc::clone(toxic), now, &mut self.dice);
        for item in self.ready.drain(..) {
            stage.push(item, now, &mut self.dice);
        }
        self.ready_weight = 0;
        self.stages.push(stage);
    }

    /// Changes the toxic of that name. Returns how the connection must end because bytes were lost.
    pub(crate) fn change(&mut self, toxic: &Arc<Toxic>, now: Instant) -> Option<End> {
        let dice = &mut self.dice;
        self.stages
            .iter_mut()
            .filter(|stage| stage.name() == toxic.name)
            .find_map(|stage| stage.change(Arc::clone(toxic), now, dice))
    }

    /// Removes the toxic of that name and lets what it held go on. Returns how the connection must end because
    /// bytes were lost.
    pub(crate) fn remove(&mut self, name: &str, now: Instant) -> Option<End> {
        let position = self.stages.iter().position(|stage| stage.name() == name)?;
        let (items, loss) = self.stages.remove(position).leave();
        for item in items {
            // What a stage holds is newer than anything behind it, so it joins at the back of the next.
            self.enter(position, item, now);
        }
        loss
    }

    /// Puts an item at the back of the stage at `position`, or of what is ready.
    fn enter(&mut self, position: usize, item: Item, now: Instant) {
        if self.broken {
            return;
        }
        match self.stages.get_mut(position) {
            Some(stage) => stage.push(item, now, &mut self.dice),
            None => {
                self.ready_weight += item.weight();
                self.ready.push_back(item);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn toxic(json: &str) -> Arc<Toxic> {
        Arc::new(Toxic::from_request(json.as_bytes()).expect("the test's toxic is well formed"))
    }

    fn pipe_with(json: &[&str], now: Instant) -> Pipe {
        let toxics: Vec<_> = json.iter().map(|json| toxic(json)).collect();
        Pipe::new(toxics.iter(), now)
    }

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// All bytes that may be written at `now`, and the end behind them if there is one.
    fn delivered(pipe: &mut Pipe, now: Instant) -> (String, Option<End>) {
        pipe.advance(now);
        let mut text = String::new();
        while let Some(item) = pipe.front().cloned() {
            match item {
                Item::Bytes(bytes) => {
                    text.push_str(&String::from_utf8_lossy(&bytes));
                    pipe.wrote(bytes.len());
                }
                Item::End(end) => {
                    pipe.wrote(0);
                    return (text, Some(end));
                }
            }
        }
        (text, None)
    }

    fn text(pipe: &mut Pipe, now: Instant) -> String {
        delivered(pipe, now).0
    }

    #[test]
    fn pipelined_messages_are_each_delayed_and_not_by_the_sum() {
        let start = Instant::now();
        let mut pipe = pipe_with(
            &[r#"{"type":"latency","attributes":{"latency":100}}"#],
            start,
        );
        for step in 0..5 {
            pipe.push(step.to_string().as_bytes(), start + ms(step * 10));
        }
        assert_eq!(pipe.advance(start + ms(50)), Some(start + ms(100)));
        assert_eq!(text(&mut pipe, start + ms(99)), "");
        assert_eq!(text(&mut pipe, start + ms(100)), "0");
        assert_eq!(text(&mut pipe, start + ms(125)), "12");
        assert_eq!(text(&mut pipe, start + ms(140)), "34");
    }

    #[test]
    fn a_stall_that_is_removed_delivers_what_it_held_in_order() {
        let start = Instant::now();
        let mut pipe = pipe_with(
            &[r#"{"type":"latency","attributes":{"latency":3600000}}"#],
            start,
        );
        pipe.push(b"one ", start);
        pipe.push(b"two", start);
        pipe.end(End::Fin, start);
        assert_eq!(
            delivered(&mut pipe, start + ms(3_000_000)),
            (String::new(), None)
        );
        assert_eq!(
            pipe.remove("latency_downstream", start + ms(3_000_000)),
            None
        );
        assert_eq!(
            delivered(&mut pipe, start + ms(3_000_000)),
            ("one two".to_owned(), Some(End::Fin))
        );
        assert!(pipe.done());
    }

    #[test]
    fn a_shorter_latency_counts_for_what_is_already_held() {
        let start = Instant::now();
        let mut pipe = pipe_with(
            &[r#"{"type":"latency","attributes":{"latency":9000}}"#],
            start,
        );
        pipe.push(b"held", start);
        assert_eq!(text(&mut pipe, start + ms(50)), "");
        let shorter = toxic(r#"{"type":"latency","attributes":{"latency":10}}"#);
        assert_eq!(pipe.change(&shorter, start + ms(50)), None);
        assert_eq!(text(&mut pipe, start + ms(50)), "held");
    }

    #[test]
    fn jitter_stays_within_its_bounds() {
        let start = Instant::now();
        let json = r#"{"type":"latency","attributes":{"latency":100,"jitter":40}}"#;
        let mut early = 0;
        for _ in 0..200 {
            let mut pipe = pipe_with(&[json], start);
            pipe.push(b"x", start);
            assert_eq!(text(&mut pipe, start + ms(59)), "");
            early += usize::from(text(&mut pipe, start + ms(100)) == "x");
            text(&mut pipe, start + ms(140));
            assert_eq!(
                pipe.room(),
                LIMIT,
                "nothing is held after latency and jitter"
            );
        }
        assert!(
            (20..180).contains(&early),
            "{early} of 200 came before the mean"
        );
    }

    #[test]
    fn a_hole_swallows_bytes_and_the_end_and_its_removal_closes() {
        let start = Instant::now();
        let mut pipe = pipe_with(&[r#"{"type":"timeout"}"#], start);
        pipe.push(b"lost", start);
        pipe.end(End::Fin, start);
        assert_eq!(pipe.advance(start), None);
        assert_eq!(
            delivered(&mut pipe, start + ms(1_000_000)),
            (String::new(), None)
        );
        assert_eq!(pipe.remove("timeout_downstream", start), Some(End::Close));
    }

    #[test]
    fn a_hole_takes_what_was_ready_but_not_written() {
        let start = Instant::now();
        let mut pipe = pipe_with(&[], start);
        pipe.push(b"almost out", start);
        pipe.add(&toxic(r#"{"type":"timeout"}"#), start);
        assert_eq!(text(&mut pipe, start), "");
        assert_eq!(pipe.room(), LIMIT);
    }

    #[test]
    fn a_timeout_closes_when_its_time_is_up() {
        let start = Instant::now();
        let mut pipe = pipe_with(
            &[r#"{"type":"timeout","attributes":{"timeout":300}}"#],
            start,
        );
        pipe.push(b"lost", start + ms(200));
        assert_eq!(pipe.advance(start + ms(200)), Some(start + ms(300)));
        assert_eq!(
            delivered(&mut pipe, start + ms(300)),
            (String::new(), Some(End::Close))
        );
    }

    #[test]
    fn bandwidth_of_zero_holds_everything_and_loses_nothing() {
        let start = Instant::now();
        let mut pipe = pipe_with(&[r#"{"type":"bandwidth"}"#], start);
        pipe.push(b"held", start);
        pipe.end(End::Fin, start);
        assert_eq!(
            delivered(&mut pipe, start + ms(9_000_000)),
            (String::new(), None)
        );
        assert_eq!(pipe.remove("bandwidth_downstream", start), None);
        assert_eq!(
            delivered(&mut pipe, start),
            ("held".to_owned(), Some(End::Fin))
        );
    }

    #[test]
    fn bandwidth_lets_its_rate_through_and_no_burst_after_a_stall() {
        let start = Instant::now();
        let mut pipe = pipe_with(&[r#"{"type":"bandwidth","attributes":{"rate":0}}"#], start);
        pipe.push(&[b'x'; 10_000], start);
        let slow = toxic(r#"{"type":"bandwidth","attributes":{"rate":10}}"#);
        let changed = start + ms(60_000);
        pipe.change(&slow, changed);
        assert_eq!(text(&mut pipe, changed), "");
        assert_eq!(text(&mut pipe, changed + ms(500)).len(), 5_000);
        assert_eq!(text(&mut pipe, changed + ms(999)).len(), 4_000);
        assert_eq!(text(&mut pipe, changed + ms(1_000)).len(), 1_000);
    }

    #[test]
    fn reset_peer_waits_for_bytes_and_then_for_its_timeout() {
        let start = Instant::now();
        let mut pipe = pipe_with(
            &[r#"{"type":"reset_peer","attributes":{"timeout":20}}"#],
            start,
        );
        assert_eq!(
            delivered(&mut pipe, start + ms(60_000)),
            (String::new(), None)
        );
        let sent = start + ms(60_000);
        pipe.push(b"x", sent);
        assert_eq!(pipe.advance(sent), Some(sent + ms(20)));
        assert_eq!(
            delivered(&mut pipe, sent + ms(20)),
            (String::new(), Some(End::Reset))
        );
    }

    #[test]
    fn limit_data_lets_exactly_its_bytes_through_and_closes() {
        let start = Instant::now();
        let mut pipe = pipe_with(
            &[r#"{"type":"limit_data","attributes":{"bytes":5}}"#],
            start,
        );
        pipe.push(b"abc", start);
        assert_eq!(delivered(&mut pipe, start), ("abc".to_owned(), None));
        pipe.push(b"defg", start);
        pipe.push(b"h", start);
        assert_eq!(
            delivered(&mut pipe, start),
            ("de".to_owned(), Some(End::Close))
        );
    }

    #[test]
    fn slow_close_delays_the_end_only() {
        let start = Instant::now();
        let mut pipe = pipe_with(
            &[r#"{"type":"slow_close","attributes":{"delay":40}}"#],
            start,
        );
        pipe.push(b"now", start);
        pipe.end(End::Fin, start);
        assert_eq!(delivered(&mut pipe, start), ("now".to_owned(), None));
        assert_eq!(
            delivered(&mut pipe, start + ms(40)),
            (String::new(), Some(End::Fin))
        );
    }

    #[test]
    fn slicer_cuts_to_its_sizes_and_waits_between_them() {
        let start = Instant::now();
        let json =
            r#"{"type":"slicer","attributes":{"average_size":10,"size_variation":3,"delay":1000}}"#;
        let mut pipe = pipe_with(&[json], start);
        pipe.push(&[b'x'; 100], start);
        let mut sizes = Vec::new();
        for step in 0..40 {
            pipe.advance(start + ms(step));
            if let Some(Item::Bytes(bytes)) = pipe.front() {
                let size = bytes.len();
                sizes.push(size);
                pipe.wrote(size);
            }
            assert_eq!(pipe.front(), None, "one piece a millisecond");
        }
        assert_eq!(sizes.iter().sum::<usize>(), 100);
        let (_, all_but_last) = sizes.split_last().expect("there are pieces");
        assert!(
            all_but_last.iter().all(|size| (7..=13).contains(size)),
            "{sizes:?}"
        );
    }

    #[test]
    fn toxicity_of_zero_leaves_the_connection_alone_and_alive() {
        let start = Instant::now();
        let mut pipe = pipe_with(&[r#"{"type":"timeout","toxicity":0.0}"#], start);
        pipe.push(b"through", start);
        assert_eq!(text(&mut pipe, start), "through");
        assert_eq!(pipe.remove("timeout_downstream", start), None);
    }

    #[test]
    fn two_toxics_keep_the_order_when_the_first_is_removed() {
        let start = Instant::now();
        let first = r#"{"name":"a","type":"latency","attributes":{"latency":1000}}"#;
        let second = r#"{"name":"b","type":"latency","attributes":{"latency":50}}"#;
        let mut pipe = pipe_with(&[first, second], start);
        pipe.push(b"old ", start);
        pipe.advance(start + ms(1000));
        pipe.push(b"new", start + ms(1000));
        assert_eq!(pipe.remove("a", start + ms(1010)), None);
        assert_eq!(text(&mut pipe, start + ms(1049)), "");
        assert_eq!(text(&mut pipe, start + ms(1060)), "old new");
    }

    #[test]
    fn the_limit_counts_bytes_and_pieces_and_lifts_when_they_leave() {
        let start = Instant::now();
        let mut pipe = pipe_with(&[r#"{"type":"bandwidth"}"#], start);
        while pipe.room() > 0 {
            let count = pipe.room().min(16 * 1024);
            pipe.push(&vec![b'x'; count], start);
        }
        pipe.remove("bandwidth_downstream", start);
        assert!(text(&mut pipe, start).len() <= LIMIT);
        assert_eq!(pipe.room(), LIMIT);
    }

    #[test]
    fn a_partial_write_keeps_the_rest_in_front() {
        let start = Instant::now();
        let mut pipe = pipe_with(&[], start);
        pipe.push(b"abcdef", start);
        pipe.wrote(2);
        assert_eq!(pipe.front(), Some(&Item::Bytes(b"cdef".to_vec())));
        pipe.wrote(4);
        assert_eq!(pipe.front(), None);
        assert_eq!(pipe.room(), LIMIT);
    }
}
