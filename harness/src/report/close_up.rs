//! The lanes of one finding's story, filled: beliefs, faults, marks and labels, large enough to read.

use std::collections::HashMap;

use fencepost_checker::history::{History, Name, Token};

use super::bands::{Band, hatch_stopped, shade, worker_of};
use super::belief::Belief;
use super::callouts::{Callout, arranged};
use super::frame::{Axis, RIGHT, Unit, time_grid};
use super::palette::{
    self, Answer, INK, LANE, SHADE_OF_ALL, SHADE_OF_LANE, SOFT_INK, VIOLATION, is_write,
};
use super::plain::{lasting, plain};
use super::scene::{Anchor, Area, Mark, Point, Scene, at, fitted, text_area};
use super::sentence::sentence;
use super::story::{Story, begin, moment, since};
use crate::run_record::RunRecord;

/// Where lanes begin; names stand left of it.
pub const LEFT: f64 = 150.0;
const LABEL: f64 = 16.0;
/// Between the rows of labels.
const ROW: f64 = 23.0;
const BAR: f64 = 46.0;
/// Below the bar, for what was done to the client.
const FOOT: f64 = 30.0;

/// The story with a little air on both sides.
#[must_use]
pub fn axis_of(story: &Story) -> Axis {
    let air = ((story.to - story.from) / 14).max(500_000);
    Axis::new(
        story.from.saturating_sub(air),
        story.to.saturating_add(air),
        LEFT,
        RIGHT,
    )
}

/// Milliseconds, or seconds for a long story.
#[must_use]
pub fn unit_of(story: &Story) -> Unit {
    let nanoseconds = if story.to - story.from < 4_000_000_000 {
        1e6
    } else {
        1e9
    };
    Unit {
        nanoseconds,
        zero: story.from,
    }
}

/// The lanes of a story and what fills them.
pub struct CloseUp<'a> {
    /// Says which worker runs which client.
    pub run: &'a RunRecord,
    /// What is shown.
    pub history: &'a History,
    /// Which part of it.
    pub story: &'a Story,
    /// Where a moment stands.
    pub axis: Axis,
    /// The faults in force meanwhile.
    pub bands: &'a [Band<'a>],
    /// All of the history.
    pub beliefs: &'a [Belief],
    /// Which of its lock's tokens a token is.
    pub turns: HashMap<(Name, Token), usize>,
}

impl CloseUp<'_> {
    /// Draws all lanes from `top` downwards, the faults `common` to all behind them; answers where they end.
    pub fn draw(&self, scene: &mut Scene, common: &[Band<'_>], top: f64) -> f64 {
        let callouts: Vec<Vec<Callout>> = self
            .story
            .clients
            .iter()
            .map(|&client| self.callouts(client))
            .collect();
        let mut areas = Vec::new();
        let mut y = top;
        for lane in &callouts {
            let rows = lane
                .iter()
                .map(|callout| callout.row + 1)
                .max()
                .unwrap_or(0);
            let height = 14.0 + ROW * rows as f64 + BAR + FOOT;
            areas.push(Area::new(LEFT, y, RIGHT, y + height));
            y += height;
        }
        let plot = Area::new(LEFT, top, RIGHT, y);
        for area in areas.iter().step_by(2) {
            scene.fill(*area, LANE);
        }
        shade(scene, &self.axis, common.iter(), plot, SHADE_OF_ALL);
        for (&client, area) in self.story.clients.iter().zip(&areas) {
            let own = self
                .bands
                .iter()
                .filter(|band| band.strikes(client, self.run, self.history));
            shade(scene, &self.axis, own, *area, SHADE_OF_LANE);
        }
        time_grid(scene, &self.axis, unit_of(self.story), plot);
        let meanwhile = self.meanwhile();
        for ((&client, area), callouts) in self.story.clients.iter().zip(&areas).zip(&callouts) {
            self.draw_lane(scene, client, *area, callouts, &meanwhile);
        }
        scene.outline(plot, SOFT_INK, 1);
        y
    }

    /// The operations within the axis: looked for once for all lanes, because a history may hold millions.
    fn meanwhile(&self) -> Vec<usize> {
        let operations = &self.history.operations;
        let inside = |&position: &usize| {
            let time = moment(&operations[position]);
            self.axis.from <= time && time <= self.axis.to
        };
        (0..operations.len()).filter(inside).collect()
    }

    fn draw_lane(
        &self,
        scene: &mut Scene,
        client: Name,
        lane: Area,
        callouts: &[Callout],
        meanwhile: &[usize],
    ) {
        let bar = Area::new(LEFT, lane.bottom - FOOT - BAR, RIGHT, lane.bottom - FOOT);
        let name = self.history.names.text(client);
        scene.text(
            at(LEFT - 14.0, bar.middle() - 9.0),
            &fitted(name, 18.0, LEFT - 24.0),
            18.0,
            INK,
            Anchor::End,
        );
        if let Some(worker) = worker_of(name, self.run, self.history) {
            let text = fitted(&format!("on {worker}"), 14.0, LEFT - 24.0);
            scene.text(
                at(LEFT - 14.0, bar.middle() + 12.0),
                &text,
                14.0,
                SOFT_INK,
                Anchor::End,
            );
        }
        self.draw_beliefs(scene, client, bar, callouts);
        self.draw_faults(scene, client, lane);
        for callout in callouts {
            let y = bar.top - 12.0 - ROW * callout.row as f64;
            scene.line(
                at(callout.x, y + ROW * 0.4),
                at(callout.x, bar.bottom - 12.0),
                callout.colour,
                1,
            );
        }
        self.draw_marks(scene, client, bar, meanwhile);
        for callout in callouts {
            let y = bar.top - 12.0 - ROW * callout.row as f64;
            scene.label(
                at(callout.text_x(), y),
                &callout.text,
                LABEL,
                callout.colour,
                callout.anchor,
            );
        }
    }

    fn draw_beliefs(&self, scene: &mut Scene, client: Name, bar: Area, callouts: &[Callout]) {
        let shown = |belief: &&Belief| {
            belief.client == client
                && Some(belief.lock) == self.story.lock
                && self.axis.shows(belief.from.time, belief.to.time)
        };
        for belief in self.beliefs.iter().filter(shown) {
            let left = self.axis.x(belief.from.time);
            let area = Area::new(
                left,
                bar.top,
                self.axis.x(belief.to.time).max(left + 2.0),
                bar.bottom,
            );
            scene.fill(
                area,
                palette::token(
                    self.turns
                        .get(&(belief.lock, belief.token))
                        .copied()
                        .unwrap_or_default(),
                ),
            );
            scene.outline(area, SOFT_INK, 1);
            let stopping = self
                .bands
                .iter()
                .filter(|band| band.strikes(client, self.run, self.history));
            hatch_stopped(
                scene,
                &self.axis,
                stopping,
                Area {
                    top: bar.top + 26.0,
                    ..area
                },
            );
            let name = plain(self.history.names.text(client), 12);
            let token = belief.token;
            let texts = [
                format!("{name} believes that it holds the lock, token {token}"),
                format!("token {token}"),
                token.to_string(),
            ];
            if let Some((text, place)) = Self::bar_text(&texts, area, callouts) {
                scene.text(place, text, LABEL, INK, Anchor::Start);
            }
        }
    }

    /// The longest of `texts` that fits into the bar without a callout's line through it, and where.
    fn bar_text<'t>(
        texts: &'t [String],
        bar: Area,
        callouts: &[Callout],
    ) -> Option<(&'t str, Point)> {
        let behind_lines = callouts
            .iter()
            .map(|callout| callout.x)
            .filter(|&x| bar.left <= x && x <= bar.right);
        let mut starts: Vec<f64> = std::iter::once(bar.left)
            .chain(behind_lines)
            .map(|x| x + 8.0)
            .collect();
        starts.sort_by(f64::total_cmp);
        let places = texts.iter().flat_map(|text| {
            starts
                .iter()
                .map(move |&x| (text.as_str(), at(x, bar.top + 15.0)))
        });
        let free = |text: &str, place: Point| {
            let area = text_area(place, text, LABEL, Anchor::Start).grown(4.0);
            area.right <= bar.right
                && callouts
                    .iter()
                    .all(|callout| callout.x <= area.left || area.right <= callout.x)
        };
        places.into_iter().find(|(text, place)| free(text, *place))
    }

    /// Names the faults of a lane below its bar, where they do not run into each other.
    fn draw_faults(&self, scene: &mut Scene, client: Name, lane: Area) {
        let y = lane.bottom - FOOT * 0.5;
        let mut end = LEFT;
        for band in self
            .bands
            .iter()
            .filter(|band| band.strikes(client, self.run, self.history))
        {
            let begin = &band.window.begin;
            let (left, right) = (
                self.axis.x(band.from),
                self.axis.x(band.to).max(self.axis.x(band.from) + 2.0),
            );
            scene.fill(
                Area::new(left, lane.bottom - 5.0, right, lane.bottom),
                band.colour(),
            );
            let on = begin
                .on
                .first()
                .map_or(String::new(), |on| format!("{} ", plain(on, 16)));
            let doubt = if band.certain {
                ""
            } else {
                ", without evidence"
            };
            let kind = plain(&begin.fault, 16);
            let what = plain(palette::fault_words(&begin.fault), 28);
            let text = format!(
                "{kind}: {on}{what} for {}{doubt}",
                lasting((band.to - band.from) as f64 / 1e9)
            );
            let fits =
                |from: f64| text_area(at(from, y), &text, 14.0, Anchor::Start).right <= RIGHT;
            let width = text_area(at(0.0, y), &text, 14.0, Anchor::Start).width();
            let from = if fits(left + 6.0) {
                left + 6.0
            } else {
                RIGHT - 6.0 - width
            };
            if from >= end {
                scene.text(at(from, y - 2.0), &text, 14.0, INK, Anchor::Start);
                end = from + width + 12.0;
            }
        }
    }

    /// All writes of the window, and whatever else the story tells, on the client's bar.
    fn draw_marks(&self, scene: &mut Scene, client: Name, bar: Area, meanwhile: &[usize]) {
        let y = bar.bottom - 12.0;
        let mut last = f64::NEG_INFINITY;
        for &position in meanwhile {
            let operation = &self.history.operations[position];
            let told = self.story.tells(position);
            let time = moment(operation);
            let other = is_write(operation)
                && (operation.lock.is_none() || operation.lock == self.story.lock);
            if operation.client != client || !(told || other) {
                continue;
            }
            let centre = at(self.axis.x(time), y);
            if !told && centre.x - last < 3.0 {
                continue;
            }
            last = centre.x;
            let answer = Answer::of(operation, self.history);
            if told {
                scene.line(
                    at(self.axis.x(operation.invoked.time), y),
                    centre,
                    answer.colour(),
                    3,
                );
            }
            match answer {
                Answer::Ok if is_write(operation) => {
                    scene.mark(Mark::Tick, centre, 8.0, answer.colour())
                }
                Answer::Ok => scene.mark(Mark::Dot, centre, 4.0, answer.colour()),
                Answer::Refused => scene.mark(Mark::Cross, centre, 6.0, answer.colour()),
                Answer::Failed => scene.mark(Mark::Triangle, centre, 5.0, answer.colour()),
                Answer::Unknown => scene.mark(Mark::Diamond, centre, 6.0, answer.colour()),
            }
            if self.story.guilty.contains(&position) {
                scene.ring(centre, 11, VIOLATION, 3);
            }
        }
    }

    /// A label stands at the time that it names: where the operation began. Its mark is where its answer came.
    fn callouts(&self, client: Name) -> Vec<Callout> {
        let mut own: Vec<usize> = self
            .story
            .labelled
            .iter()
            .copied()
            .filter(|&at| self.history.operations[at].client == client)
            .collect();
        own.sort_unstable();
        let labels = own.into_iter().map(|position| {
            let operation = &self.history.operations[position];
            let colour = if self.story.guilty.contains(&position) {
                VIOLATION
            } else {
                INK
            };
            let mut text = format!(
                "{} {}",
                since(begin(operation).saturating_sub(self.story.from)),
                sentence(operation, self.history)
            );
            if self.story.guilty.contains(&position) {
                text.push_str(&self.story.too_late(operation, self.history));
            }
            (self.axis.x(begin(operation)), text, colour)
        });
        arranged(labels.collect(), LABEL, LEFT, RIGHT)
    }
}

#[cfg(test)]
mod tests {
    use super::super::belief::beliefs;
    use super::super::sample::{Recording, run, stale_write_accepted};
    use super::*;

    #[test]
    fn a_label_stands_at_the_time_that_it_names() {
        let mut recording = Recording::default();
        for at in 0..5 {
            recording.write("c1", "s", 41, at * 10, at * 10 + 7, "refused");
        }
        let history = recording.history();
        let finding = fencepost_checker::finding::Finding {
            events: (0..10).collect(),
            ..stale_write_accepted()
        };
        let beliefs = beliefs(&history);
        let story = Story::of(&finding, &history, &beliefs).expect("its events are there");
        let close = CloseUp {
            run: &run(),
            history: &history,
            story: &story,
            axis: axis_of(&story),
            bands: &[],
            beliefs: &beliefs,
            turns: HashMap::new(),
        };
        let callouts = close.callouts(story.clients[0]);
        assert_eq!(callouts.len(), 5);
        for callout in callouts {
            let named = callout.text.split_once(" ms ").expect("a time").0;
            let named: f64 = named.trim_start_matches('+').parse().expect("a number");
            let there = close.axis.x(story.from + (named * 1e6) as u64);
            assert!((callout.x - there).abs() < 0.01, "{callout:?}");
        }
    }
}
