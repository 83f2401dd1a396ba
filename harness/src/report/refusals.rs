//! `plots/refusals`: when the fence refused whom, one row a client, with totals at the right.

use std::collections::BTreeMap;

use fencepost_checker::history::{History, Name};

use super::bands::{bands, shade, skipped, strip, worker_of};
use super::belief::end_of;
use super::frame::{
    Axis, Sign, Unit, WIDTH, band_entries, captions, heading, legend, time_grid, time_numbers,
};
use super::lanes::natural;
use super::palette::{Answer, INK, LANE, SHADE_OF_PLOT, SOFT_INK, is_write};
use super::plain::{counted, grouped, plain};
use super::scene::{Anchor, Area, Mark, Scene, at, fitted, text_area};
use crate::run_record::RunRecord;

/// More clients than this are not drawn: those with the fewest refusals go first.
const MOST_ROWS: usize = 60;
const LEFT: f64 = 190.0;
/// Refusals nearer than this to one that is drawn share its mark, in pixels.
const NEAREST: f64 = 2.0;
/// Where the totals begin.
const TOTALS: f64 = 1_360.0;

/// One client's writes.
#[derive(Clone, Debug)]
struct Row {
    client: Name,
    writes: u64,
    /// When each refusal arrived.
    refused: Vec<u64>,
}

/// The picture.
#[must_use]
pub fn refusals(run: &RunRecord, history: &History) -> Scene {
    let title = "Writes refused by the fence, by client";
    let mut scene = Scene::new(WIDTH, title);
    let Rows {
        rows,
        refused,
        writes,
        mut notes,
    } = rows(history);
    let name = plain(&run.run, 16);
    let subtitle = format!(
        "run {name}: {} of {} refused; one mark a refusal, where its answer arrived",
        grouped(refused),
        counted(writes, "write")
    );
    let top = heading(&mut scene, title, &subtitle, 22.0);
    let axis = Axis {
        right: TOTALS - 30.0,
        ..Axis::whole(history.first_time, end_of(history).time, LEFT)
    };
    let bands = bands(history);
    let strip = strip(&mut scene, &axis, &bands, top);
    let row_height: f64 = if rows.len() > 24 { 20.0 } else { 32.0 };
    let height = (row_height * rows.len() as f64).max(row_height);
    let plot = Area::new(
        LEFT,
        strip.bottom + 14.0,
        axis.right,
        strip.bottom + 14.0 + height,
    );
    let unit = Unit {
        nanoseconds: 1e9,
        zero: 0,
    };

    for place in (0..rows.len()).step_by(2) {
        let top = plot.top + row_height * place as f64;
        scene.fill(
            Area::new(plot.left, top, plot.right, top + row_height),
            LANE,
        );
    }
    shade(&mut scene, &axis, bands.iter(), plot, SHADE_OF_PLOT);
    time_grid(&mut scene, &axis, unit, plot);
    let most = rows.iter().map(|row| row.refused.len()).max().unwrap_or(0);
    let mut thinned = 0;
    for (place, row) in rows.iter().enumerate() {
        let middle = plot.top + row_height * (place as f64 + 0.5);
        row_name(&mut scene, row.client, middle, run, history);
        thinned += marks(&mut scene, &axis, row, middle);
        total(&mut scene, row, most, middle, row_height);
    }
    if rows.is_empty() {
        scene.text(
            at(f64::midpoint(plot.left, plot.right), plot.middle()),
            "no client wrote",
            14.0,
            SOFT_INK,
            Anchor::Middle,
        );
    }
    scene.outline(plot, SOFT_INK, 1);

    let below = time_numbers(
        &mut scene,
        &axis,
        unit,
        plot.bottom,
        "seconds since the run began",
    );
    scene.text(
        at(TOTALS, below - 16.0),
        "refused of all writes",
        14.0,
        INK,
        Anchor::Start,
    );
    let entries = vec![(
        Sign::Mark(Mark::Cross, Answer::Refused.colour()),
        Answer::Refused.words().to_owned(),
    )];
    let below = legend(&mut scene, &entries, LEFT, below, 14.0);
    let below = legend(&mut scene, &band_entries(&bands), LEFT, below, 14.0);
    if thinned > 0 {
        notes.push(format!(
            "{} within {NEAREST} px of a drawn one and have no mark of their own: a number beside a mark counts it and them, where there is room; the totals count all.",
            counted(thinned, "refusal") + if thinned == 1 { " lies" } else { " lie" }
        ));
    }
    if strip.left_out > 0 {
        notes.push(format!(
            "{} found no row and are only shaded.",
            counted(strip.left_out as u64, "more kind of fault")
        ));
    }
    notes.extend(strip.hidden_note());
    notes.extend(skipped(history));
    let below = captions(&mut scene, &notes, LEFT, below + 2.0);
    scene.height = (below + 8.0) as u32;
    scene
}

/// What there is to draw.
#[derive(Debug)]
struct Rows {
    /// The clients that wrote, at most [`MOST_ROWS`].
    rows: Vec<Row>,
    /// Refusals of all clients.
    refused: u64,
    /// Writes of all clients.
    writes: u64,
    /// Whether some clients are left out.
    notes: Vec<String>,
}

fn rows(history: &History) -> Rows {
    let mut rows: BTreeMap<Name, Row> = BTreeMap::new();
    for write in history
        .operations
        .iter()
        .filter(|operation| is_write(operation))
    {
        let row = rows.entry(write.client).or_insert_with(|| Row {
            client: write.client,
            writes: 0,
            refused: Vec::new(),
        });
        row.writes += 1;
        if let (Answer::Refused, Some(completed)) = (Answer::of(write, history), write.completed) {
            row.refused.push(completed.time);
        }
    }
    let mut rows: Vec<Row> = rows.into_values().collect();
    let (all, writes) = (rows.len(), rows.iter().map(|row| row.writes).sum());
    let refused = rows.iter().map(|row| row.refused.len() as u64).sum();
    rows.sort_by_key(|row| std::cmp::Reverse(row.refused.len()));
    let mut notes = Vec::new();
    if all > MOST_ROWS {
        let hidden: usize = rows[MOST_ROWS..].iter().map(|row| row.refused.len()).sum();
        notes.push(format!("The {MOST_ROWS} of {all} clients with the most refusals are drawn; the others had {} together.", counted(hidden as u64, "refusal")));
    }
    rows.truncate(MOST_ROWS);
    rows.sort_by_key(|row| natural(history.names.text(row.client)));
    for row in &mut rows {
        row.refused.sort_unstable();
    }
    Rows {
        rows,
        refused,
        writes,
        notes,
    }
}

fn row_name(scene: &mut Scene, client: Name, middle: f64, run: &RunRecord, history: &History) {
    let client = history.names.text(client);
    let text = match worker_of(client, run, history) {
        Some(worker) => format!("{client} · {worker}"),
        None => client.to_owned(),
    };
    scene.text(
        at(LEFT - 10.0, middle),
        &fitted(&text, 14.0, LEFT - 24.0),
        14.0,
        INK,
        Anchor::End,
    );
}

/// Refusals that stand too near to one another for marks of their own.
struct Cluster {
    /// Where the first of them stands, and the mark.
    x: f64,
    count: u64,
}

fn clusters(axis: &Axis, refused: &[u64]) -> Vec<Cluster> {
    let mut clusters: Vec<Cluster> = Vec::new();
    for &time in refused {
        let x = axis.x(time);
        match clusters.last_mut().filter(|last| x - last.x < NEAREST) {
            Some(last) => last.count += 1,
            None => clusters.push(Cluster { x, count: 1 }),
        }
    }
    clusters
}

/// Draws a row's refusals, with their number where marks fall together, and answers how many have no mark.
fn marks(scene: &mut Scene, axis: &Axis, row: &Row, middle: f64) -> u64 {
    let clusters = clusters(axis, &row.refused);
    for (place, cluster) in clusters.iter().enumerate() {
        let centre = at(cluster.x, middle);
        scene.mark(Mark::Cross, centre, 5.0, Answer::Refused.colour());
        if cluster.count > 1 {
            let beside = at(cluster.x + 9.0, middle);
            let words = grouped(cluster.count);
            let end = clusters
                .get(place + 1)
                .map_or(axis.right, |next| next.x - 7.0);
            if text_area(beside, &words, 12.0, Anchor::Start).right < end {
                scene.text(beside, &words, 12.0, INK, Anchor::Start);
            }
        }
    }
    row.refused.len() as u64 - clusters.len() as u64
}

fn total(scene: &mut Scene, row: &Row, most: usize, middle: f64, row_height: f64) {
    let longest = 90.0;
    let wide = longest * row.refused.len() as f64 / most.max(1) as f64;
    scene.fill(
        Area::new(
            TOTALS,
            middle - row_height * 0.25,
            TOTALS + wide,
            middle + row_height * 0.25,
        ),
        Answer::Refused.colour().tint(0.55),
    );
    let text = format!(
        "{} of {}",
        grouped(row.refused.len() as u64),
        grouped(row.writes)
    );
    scene.text(
        at(TOTALS + wide + 6.0, middle),
        &text,
        13.0,
        INK,
        Anchor::Start,
    );
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Recording, run, zombie_refused};
    use super::*;

    #[test]
    fn each_client_that_wrote_has_a_row_with_its_refusals() {
        let history = zombie_refused().history();
        let Rows { rows, notes, .. } = rows(&history);
        let table: Vec<_> = rows
            .iter()
            .map(|row| {
                (
                    history.names.text(row.client),
                    row.writes,
                    row.refused.clone(),
                )
            })
            .collect();
        assert_eq!(table, [("c1", 2, vec![1_303_000_000]), ("c2", 2, vec![])]);
        assert!(notes.is_empty());
        let scene = refusals(&run(), &history);
        scene.assert_readable();
        assert!(scene.text_areas().iter().any(|(text, _)| text == "1 of 2"));
    }

    #[test]
    fn clients_beyond_the_limit_are_counted_in_the_caption() {
        let mut recording = Recording::default();
        for client in 0..70 {
            recording.write(
                &format!("c{client}"),
                "s",
                1,
                client,
                client + 1,
                if client == 69 { "refused" } else { "ok" },
            );
        }
        let history = recording.history();
        let Rows { rows, notes, .. } = rows(&history);
        assert_eq!(rows.len(), MOST_ROWS);
        assert_eq!(
            history
                .names
                .text(rows.last().expect("there are rows").client),
            "c69"
        );
        assert_eq!(
            notes,
            [
                "The 60 of 70 clients with the most refusals are drawn; the others had 0 refusals together."
            ]
        );
        refusals(&run(), &history).assert_readable();
    }

    #[test]
    fn nobody_writing_is_said() {
        let scene = refusals(&run(), &Recording::default().history());
        scene.assert_readable();
        assert!(
            scene
                .text_areas()
                .iter()
                .any(|(text, _)| text == "no client wrote")
        );
    }

    #[test]
    fn refusals_that_fall_together_share_a_mark_with_their_number() {
        let mut recording = Recording::default();
        for turn in 0..5 {
            recording.write("c1", "s", 1, 1_000 + turn, 1_001 + turn, "refused");
        }
        recording.write("c1", "s", 1, 60_000, 60_001, "refused");
        let scene = refusals(&run(), &recording.history());
        scene.assert_readable();
        let texts = scene.text_areas();
        assert!(texts.iter().any(|(text, _)| text == "5"), "{texts:?}");
        assert!(texts.iter().any(|(text, _)| text == "6 of 6"));
        assert!(
            texts
                .iter()
                .any(|(text, _)| text.starts_with("4 refusals lie within 2 px of a drawn one")),
            "{texts:?}"
        );
    }
}
