//! The frame of a picture over time: heading, fault rows, any number of plots below one another, one time axis,
//! legends and captions. What is inside of the plots is drawn by whoever asked for them.

use fencepost_checker::history::History;

use super::bands::{Band, Strip, bands, shade, skipped, strip};
use super::belief::end_of;
use super::frame::{
    Axis, Sign, Unit, band_entries, captions, heading, legend, time_grid, time_numbers,
};
use super::palette::{INK, SHADE_OF_PLOT, SOFT_INK};
use super::plain::{counted, plain};
use super::scene::{Anchor, Area, Scene, at, fitted};
use crate::run_record::RunRecord;

/// How time is counted: in seconds from the begin of the run.
const SECONDS: Unit = Unit {
    nanoseconds: 1e9,
    zero: 0,
};

/// A picture that is being drawn, from the top downwards.
pub struct Panel<'h> {
    /// Where a moment stands.
    pub axis: Axis,
    bands: Vec<Band<'h>>,
    strip: Strip,
    /// What is said of faults that were never in force.
    skipped: Option<String>,
    /// Where the next plot begins.
    top: f64,
    /// Where the last plot ended.
    bottom: f64,
}

impl<'h> Panel<'h> {
    /// Heading and fault rows. `about` is told after the run's id; plots begin at `left`.
    pub fn begin(
        scene: &mut Scene,
        run: &RunRecord,
        history: &'h History,
        about: &str,
        left: f64,
    ) -> Self {
        let title = scene.title.clone();
        let subtitle = format!("run {}: {about}", plain(&run.run, 16));
        let top = heading(scene, &title, &subtitle, 22.0);
        let axis = Axis::whole(history.first_time, end_of(history).time, left);
        let bands = bands(history);
        let strip = strip(scene, &axis, &bands, top);
        Self {
            axis,
            bands,
            top: strip.bottom + 14.0,
            bottom: strip.bottom,
            strip,
            skipped: skipped(history),
        }
    }

    /// Paper, faults and grid of the next plot, `height` pixels high and named at its left.
    pub fn plot(&mut self, scene: &mut Scene, height: f64, name: &str) -> Area {
        let plot = Area::new(self.axis.left, self.top, self.axis.right, self.top + height);
        shade(scene, &self.axis, self.bands.iter(), plot, SHADE_OF_PLOT);
        time_grid(scene, &self.axis, SECONDS, plot);
        if !name.is_empty() {
            let room = self.axis.left - 24.0 - 76.0;
            scene.text(
                at(24.0, plot.middle()),
                &fitted(name, 15.0, room),
                15.0,
                INK,
                Anchor::Start,
            );
        }
        self.bottom = plot.bottom;
        self.top = plot.bottom + 14.0;
        plot
    }

    /// Says in the middle of `plot` that there is nothing to draw.
    pub fn nothing(scene: &mut Scene, plot: Area, words: &str) {
        let centre = at(f64::midpoint(plot.left, plot.right), plot.middle());
        scene.label(centre, words, 14.0, SOFT_INK, Anchor::Middle);
    }

    /// Time axis, legends and captions; settles the height of the picture.
    pub fn end(
        self,
        scene: &mut Scene,
        axis_title: &str,
        entries: &[(Sign, String)],
        mut notes: Vec<String>,
    ) {
        let left = self.axis.left;
        let below = time_numbers(scene, &self.axis, SECONDS, self.bottom, axis_title);
        let below = legend(scene, entries, left, below, 14.0);
        let below = legend(scene, &band_entries(&self.bands), left, below, 14.0);
        if self.strip.left_out > 0 {
            notes.push(format!(
                "{} found no row and are only shaded.",
                counted(self.strip.left_out as u64, "more kind of fault")
            ));
        }
        notes.extend(self.strip.hidden_note());
        notes.extend(self.skipped);
        let below = captions(scene, &notes, left, below + 2.0);
        scene.height = (below + 8.0) as u32;
    }
}
