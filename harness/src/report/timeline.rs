//! The lanes of the holder timeline, filled: beliefs as bars, writes as marks, faults behind, rings on top.
//!
//! What finds no room is left out and counted, so that a caption can say so. Lanes have their places already.

use std::collections::{BTreeMap, HashMap, HashSet};

use fencepost_checker::history::{History, Name, Token};

use super::bands::{Band, hatch_stopped, shade, worker_of};
use super::belief::Belief;
use super::frame::{Axis, RIGHT, Unit, time_grid};
use super::lanes::Lane;
use super::omissions::{NEAREST, Omissions};
use super::palette::{
    self, Answer, GRID, INK, LANE, SHADE_OF_ALL, SHADE_OF_LANE, SOFT_INK, TOKENS, VIOLATION,
};
use super::scene::{Anchor, Area, Mark, Point, Scene, at, fitted, text_area};
use super::story::moment;
use crate::run_record::RunRecord;

/// Where lanes begin; names stand left of it.
pub const LEFT: f64 = 230.0;
/// The radius of a ring.
const RING: u32 = 8;
/// Bars that are narrower than this are a stroke, in pixels.
const NARROW: f64 = 4.0;

/// The lanes and all that is needed to fill them.
pub struct Timeline<'a> {
    /// Says which worker runs which client.
    pub run: &'a RunRecord,
    /// What is shown.
    pub history: &'a History,
    /// Where a moment stands.
    pub axis: Axis,
    /// The faults that were in force.
    pub bands: &'a [Band<'a>],
    /// Which of its lock's tokens a token is, see [`super::belief::turns`].
    pub turns: HashMap<(Name, Token), usize>,
    /// From top to bottom.
    pub lanes: Vec<(&'a Lane, Area)>,
}

impl Timeline<'_> {
    /// Draws everything inside `plot`, and rings and names what is `pointed` at.
    pub fn draw(
        &self,
        scene: &mut Scene,
        plot: Area,
        pointed: &BTreeMap<usize, String>,
    ) -> Omissions {
        let mut counts = Omissions::default();
        let struck: Vec<Vec<&Band<'_>>> = self
            .lanes
            .iter()
            .map(|(lane, _)| self.striking(lane))
            .collect();
        self.draw_paper(scene, plot, &struck);
        for ((lane, area), struck) in self.lanes.iter().zip(&struck) {
            self.draw_bars(scene, lane, *area, struck, &mut counts);
            self.draw_writes(scene, lane, *area, &mut counts);
        }
        let rings = self.rings(pointed);
        let names = ring_names(&rings, plot, &mut counts);
        let taken: Vec<Area> = names.iter().map(|(_, area)| area.grown(2.0)).collect();
        self.draw_numbers(scene, &taken, &mut counts);
        for (rule, area) in names {
            let place = at(area.left, area.middle());
            scene.label(place, rule, 14.0, VIOLATION, Anchor::Start);
        }
        for (centre, _) in rings {
            scene.ring(centre, RING, VIOLATION, 3);
        }
        counts
    }

    /// The faults that strike a lane's client.
    fn striking(&self, lane: &Lane) -> Vec<&Band<'_>> {
        self.bands
            .iter()
            .filter(|band| band.strikes(lane.client, self.run, self.history))
            .collect()
    }

    /// Lanes, faults and grid: what lies behind the data.
    fn draw_paper(&self, scene: &mut Scene, plot: Area, struck: &[Vec<&Band<'_>>]) {
        let mut heads: Vec<(Option<Name>, Area)> = Vec::new();
        for (place, (lane, area)) in self.lanes.iter().enumerate() {
            if place % 2 == 0 {
                scene.fill(*area, LANE);
            }
            match heads.last_mut() {
                Some((lock, head)) if *lock == lane.lock => head.bottom = area.bottom,
                _ => heads.push((lane.lock, *area)),
            }
            let client = self.history.names.text(lane.client);
            let text = match worker_of(client, self.run, self.history) {
                Some(worker) => format!("{client} · {worker}"),
                None => client.to_owned(),
            };
            scene.text(
                at(LEFT - 10.0, area.middle()),
                &fitted(&text, 14.0, 86.0),
                14.0,
                INK,
                Anchor::End,
            );
        }
        for (lock, head) in heads {
            let text = lock.map_or("no lock", |lock| self.history.names.text(lock));
            scene.text(
                at(24.0, head.middle()),
                &fitted(text, 14.0, LEFT - 136.0),
                14.0,
                INK,
                Anchor::Start,
            );
            scene.line(
                at(LEFT - 104.0, head.top + 3.0),
                at(LEFT - 104.0, head.bottom - 3.0),
                SOFT_INK,
                2,
            );
            scene.line(
                at(24.0, head.bottom + 4.0),
                at(RIGHT, head.bottom + 4.0),
                GRID,
                1,
            );
        }
        let all = self
            .bands
            .iter()
            .filter(|band| band.strikes_all(self.run, self.history));
        shade(scene, &self.axis, all, plot, SHADE_OF_ALL);
        for ((_, area), struck) in self.lanes.iter().zip(struck) {
            shade(
                scene,
                &self.axis,
                struck.iter().copied(),
                *area,
                SHADE_OF_LANE,
            );
            shade(
                scene,
                &self.axis,
                struck.iter().copied(),
                Area {
                    top: area.bottom - 3.0,
                    ..*area
                },
                1.0,
            );
        }
        time_grid(
            scene,
            &self.axis,
            Unit {
                nanoseconds: 1e9,
                zero: 0,
            },
            plot,
        );
        if self.lanes.is_empty() {
            scene.text(
                at(f64::midpoint(plot.left, plot.right), plot.middle()),
                "no grant and no write was recorded",
                14.0,
                SOFT_INK,
                Anchor::Middle,
            );
        }
        scene.outline(plot, SOFT_INK, 1);
    }

    fn bar(&self, belief: &Belief, lane: Area) -> Area {
        let (left, right) = (self.axis.x(belief.from.time), self.axis.x(belief.to.time));
        Area::new(
            left,
            lane.top + 4.0,
            right.max(left + 2.0),
            lane.bottom - 6.0,
        )
    }

    /// The bars of a lane, in layers: neighbours of one style are cheap in a picture.
    fn draw_bars(
        &self,
        scene: &mut Scene,
        lane: &Lane,
        area: Area,
        struck: &[&Band<'_>],
        counts: &mut Omissions,
    ) {
        let mut end = f64::NEG_INFINITY;
        let mut bars: Vec<(usize, Area)> = Vec::new();
        for belief in &lane.beliefs {
            let bar = self.bar(belief, area);
            if bar.right - end < NEAREST {
                counts.bars_left_out += 1;
                continue;
            }
            end = bar.right;
            let turn = self.turns.get(&(belief.lock, belief.token));
            bars.push((turn.copied().unwrap_or_default(), bar));
        }
        let wide = |(_, bar): &&(usize, Area)| bar.width() >= NARROW;
        for colour in 0..TOKENS {
            for (turn, bar) in bars
                .iter()
                .filter(wide)
                .filter(|(turn, _)| turn % TOKENS == colour)
            {
                scene.fill(*bar, palette::token(*turn));
            }
        }
        for (_, bar) in bars.iter().filter(wide) {
            hatch_stopped(scene, &self.axis, struck.iter().copied(), *bar);
        }
        for (_, bar) in &bars {
            if bar.width() >= NARROW {
                scene.outline(*bar, SOFT_INK, 1);
            } else {
                let x = f64::midpoint(bar.left, bar.right);
                scene.line(at(x, bar.top), at(x, bar.bottom), SOFT_INK, 1);
            }
        }
    }

    /// Where writes stand: below the numbers.
    fn mark_height(lane: Area) -> f64 {
        lane.bottom - 6.0 - lane.height() * 0.2
    }

    fn draw_writes(&self, scene: &mut Scene, lane: &Lane, area: Area, counts: &mut Omissions) {
        let reach = (area.height() * 0.13).max(3.0);
        let mut last = [f64::NEG_INFINITY; 4];
        let y = Self::mark_height(area);
        let mut writes: Vec<(u64, Answer)> = lane
            .writes
            .iter()
            .map(|&at| {
                (
                    self.moment(at),
                    Answer::of(&self.history.operations[at], self.history),
                )
            })
            .collect();
        // Rarer marks last, so that they lie on top.
        writes.sort_by_key(|&(time, answer)| {
            (Answer::ALL.iter().position(|other| *other == answer), time)
        });
        for (time, answer) in writes {
            let x = self.axis.x(time);
            let near = x - last[answer as usize] < NEAREST;
            if answer == Answer::Ok {
                counts.accepted += 1;
                counts.accepted_left_out += u64::from(near);
            } else if answer != Answer::Failed {
                counts.other_left_out += u64::from(near);
            }
            if near {
                continue;
            }
            last[answer as usize] = x;
            match answer {
                Answer::Ok => scene.mark(Mark::Tick, at(x, y), reach, answer.colour()),
                Answer::Refused => scene.mark(Mark::Cross, at(x, y), 4.5, answer.colour()),
                Answer::Unknown => scene.mark(Mark::Diamond, at(x, y), 4.5, answer.colour()),
                // It did not happen, and no fence had a part in it.
                Answer::Failed => {}
            }
        }
    }

    fn moment(&self, position: usize) -> u64 {
        moment(&self.history.operations[position])
    }

    fn draw_numbers(&self, scene: &mut Scene, taken: &[Area], counts: &mut Omissions) {
        for (lane, area) in &self.lanes {
            let size = if area.height() > 30.0 { 13.0 } else { 11.0 };
            for (order, belief) in lane.beliefs.iter().enumerate() {
                let bar = self.bar(belief, *area);
                let next = lane
                    .beliefs
                    .get(order + 1)
                    .map_or(RIGHT, |next| self.axis.x(next.from.time));
                // Not even one digit: measuring text is dear.
                if next.max(bar.right) - bar.left < size * 0.8 {
                    counts.without_number += 1;
                    continue;
                }
                let text = belief.token.to_string();
                let y = bar.top + size * 0.5 + 1.0;
                let inside = (at(bar.left + 4.0, y), bar.right - 3.0);
                let beside = (at(bar.right + 3.0, y), next - 3.0);
                let fits = |(place, right): &(Point, f64)| {
                    let needed = text_area(*place, &text, size, Anchor::Start);
                    needed.right <= *right && !taken.iter().any(|taken| taken.overlaps(&needed))
                };
                match [inside, beside].into_iter().find(fits) {
                    Some((place, _)) => scene.text(place, &text, size, INK, Anchor::Start),
                    None => counts.without_number += 1,
                }
            }
        }
    }

    /// Where the rings stand, each with the rule that its finding broke.
    fn rings<'p>(&self, pointed: &'p BTreeMap<usize, String>) -> Vec<(Point, &'p str)> {
        let mut of_lane: HashMap<usize, Area> = HashMap::new();
        for (lane, area) in &self.lanes {
            let grants = lane.beliefs.iter().map(|belief| belief.grant);
            let operations = lane.writes.iter().copied().chain(grants);
            let pointed = operations.filter(|position| pointed.contains_key(position));
            of_lane.extend(pointed.map(|position| (position, *area)));
        }
        let ring = |(position, rule): (&usize, &'p String)| {
            let y = Self::mark_height(*of_lane.get(position)?);
            Some((at(self.axis.x(self.moment(*position)), y), rule.as_str()))
        };
        pointed.iter().filter_map(ring).collect()
    }
}

/// Names each rule once, beside one of its rings, where the name meets no other name and no ring.
fn ring_names<'p>(
    rings: &[(Point, &'p str)],
    plot: Area,
    counts: &mut Omissions,
) -> Vec<(&'p str, Area)> {
    let reach = f64::from(RING) + 2.0;
    let ring_areas: Vec<Area> = rings
        .iter()
        .map(|(centre, _)| Area::new(centre.x, centre.y, centre.x, centre.y).grown(reach))
        .collect();
    let mut names: Vec<(&str, Area)> = Vec::new();
    let mut done: HashSet<&str> = HashSet::new();
    for &(_, rule) in rings {
        if !done.insert(rule) {
            continue;
        }
        let own = rings.iter().filter(|(_, other)| *other == rule);
        let free = |place: &Area| {
            let mut others = names.iter().map(|(_, area)| area).chain(&ring_areas);
            !others.any(|other| other.overlaps(place))
        };
        match own
            .flat_map(|&(centre, _)| candidates(centre, rule, plot))
            .find(free)
        {
            Some(place) => names.push((rule, place)),
            None => counts.without_name += 1,
        }
    }
    names
}

/// Places for a ring's name: beside it, then above and below.
fn candidates(centre: Point, text: &str, plot: Area) -> Vec<Area> {
    let mut places = Vec::new();
    for (dx, dy) in [
        (13.0, 0.0),
        (8.0, -20.0),
        (8.0, 20.0),
        (13.0, -38.0),
        (13.0, 38.0),
    ] {
        for (x, anchor) in [(centre.x + dx, Anchor::Start), (centre.x - dx, Anchor::End)] {
            places.push(text_area(at(x, centre.y + dy), text, 14.0, anchor));
        }
    }
    places.retain(|place| {
        place.left >= plot.left
            && place.right <= plot.right
            && place.top >= plot.top
            && place.bottom <= plot.bottom
    });
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_is_named_once_where_no_ring_covers_its_name() {
        let plot = Area::new(0.0, 0.0, 600.0, 200.0);
        let near = |x: f64| at(x, 100.0);
        let rings = [
            (near(200.0), "one-rule"),
            (near(212.0), "another-rule"),
            (near(224.0), "one-rule"),
        ];
        let mut counts = Omissions::default();
        let names = ring_names(&rings, plot, &mut counts);
        assert_eq!(
            names.iter().map(|(rule, _)| *rule).collect::<Vec<_>>(),
            ["one-rule", "another-rule"]
        );
        assert!(!names[0].1.overlaps(&names[1].1));
        for (centre, _) in rings {
            let ring = Area::new(centre.x, centre.y, centre.x, centre.y).grown(f64::from(RING));
            assert!(
                names.iter().all(|(_, area)| !area.overlaps(&ring)),
                "{names:?}"
            );
        }
        assert_eq!(counts.without_name, 0);
    }

    #[test]
    fn a_rule_without_room_for_its_name_is_counted() {
        let mut counts = Omissions::default();
        let rings = [(at(5.0, 5.0), "a-rule")];
        assert!(ring_names(&rings, Area::new(0.0, 0.0, 10.0, 10.0), &mut counts).is_empty());
        assert!(
            counts
                .notes(0, 0)
                .contains(&"1 kind of finding found no room for a name.".to_owned())
        );
    }
}
