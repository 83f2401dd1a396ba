//! `plots/finding-N`: the holder timeline, zoomed to what one finding speaks of.
//!
//! Only the clients of the finding are shown. What its witness holds is labelled with what was asked and answered,
//! and so are the grants under which its writes were made; what should not have happened is ringed. Times count from
//! the first thing that is labelled, as in the finding's story: of a grant the answer counts, else the invocation. The
//! label stands at that time, and a line leads from there to the mark of the answer.

use fencepost_checker::history::Name;

use super::ReportError;
use super::bands::{Band, bands, strip};
use super::belief::turns;
use super::close_up::{CloseUp, LEFT, axis_of, unit_of};
use super::frame::{Sign, WIDTH, band_entries, captions, heading, legend, time_numbers};
use super::palette::{self, Answer, VIOLATION};
use super::plain::plain;
use super::scene::{Mark, Scene};
use super::source::Source;
use super::story::Story;
use super::terminal::times;

/// The picture of the finding at `position` in the judgement's list.
///
/// # Errors
/// When there is no such finding, or the recording holds none of its events.
pub fn finding_picture(source: &Source<'_>, position: usize) -> Result<Scene, ReportError> {
    let (run, history, judgement) = (source.run, source.history, source.judgement);
    let finding = judgement
        .findings
        .get(position)
        .ok_or(ReportError::NoFinding { position })?;
    let beliefs = source.beliefs();
    let story = Story::of(finding, history, beliefs).ok_or(ReportError::NoEvents { position })?;
    let place = match (&finding.lock, &finding.key) {
        (Some(lock), Some(key)) if lock != key => {
            format!(": lock {}, key {}", plain(lock, 24), plain(key, 24))
        }
        (Some(lock), _) => format!(": lock {}", plain(lock, 24)),
        (None, Some(key)) => format!(": key {}", plain(key, 24)),
        (None, None) => String::new(),
    };
    let title = format!("{}{place}", plain(&finding.finding, 40));
    let mut scene = Scene::new(WIDTH, &title);
    let first = if finding.count == 1 {
        ""
    } else {
        ", this is the first"
    };
    let subtitle = format!(
        "seen {}{first}; run {}; times count from the first event labelled here",
        times(finding.count),
        plain(&run.run, 16)
    );
    let top = heading(&mut scene, &title, &subtitle, 26.0);

    let axis = axis_of(&story);
    let strikes = |band: &Band<'_>| {
        let own = |&client: &Name| band.strikes(client, run, history);
        band.strikes_all(run, history) || story.clients.iter().any(own)
    };
    let bands: Vec<Band<'_>> = bands(history)
        .into_iter()
        .filter(|band| axis.shows(band.from, band.to) && strikes(band))
        .collect();
    let common: Vec<Band<'_>> = bands
        .iter()
        .filter(|band| band.strikes_all(run, history))
        .cloned()
        .collect();
    let strip = strip(&mut scene, &axis, &common, top);
    let close = CloseUp {
        run,
        history,
        story: &story,
        axis,
        bands: &bands,
        beliefs,
        turns: turns(beliefs),
    };
    let bottom = close.draw(&mut scene, &common, strip.bottom + 12.0);

    let unit = unit_of(&story);
    let words = if unit.nanoseconds < 1e9 {
        "milliseconds"
    } else {
        "seconds"
    };
    let below = time_numbers(
        &mut scene,
        &axis,
        unit,
        bottom,
        &format!("{words} since the first event labelled here"),
    );
    let below = legend(&mut scene, &entries(), LEFT, below + 2.0, 15.0);
    let below = legend(&mut scene, &band_entries(&bands), LEFT, below, 15.0);
    let below = captions(&mut scene, &story.notes(), LEFT, below + 4.0);
    scene.height = (below + 10.0) as u32;
    Ok(scene)
}

fn entries() -> Vec<(Sign, String)> {
    vec![
        (
            Sign::Bars((0..palette::TOKENS).map(palette::token).collect()),
            "a client believes that it holds the lock".to_owned(),
        ),
        (
            Sign::Hatch(palette::token(0)),
            "while it is stopped".to_owned(),
        ),
        (
            Sign::Line(Answer::Ok.colour(), 3),
            "from the request to its answer".to_owned(),
        ),
        (
            Sign::Mark(Mark::Tick, Answer::Ok.colour()),
            "write accepted".to_owned(),
        ),
        (
            Sign::Mark(Mark::Cross, Answer::Refused.colour()),
            "write refused".to_owned(),
        ),
        (
            Sign::Mark(Mark::Diamond, Answer::Unknown.colour()),
            "outcome unknown".to_owned(),
        ),
        (Sign::Ring(VIOLATION), "should not have happened".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Recording, judgement, run, stale_write_accepted, zombie_accepted};
    use super::*;
    use fencepost_checker::finding::{Finding, Severity};

    fn texts(scene: &Scene) -> Vec<String> {
        scene
            .text_areas()
            .into_iter()
            .map(|(text, _)| text)
            .collect()
    }

    #[test]
    fn the_story_is_labelled_with_what_was_asked_and_answered() {
        let scene = finding_picture(
            &Source::new(
                &run(),
                &zombie_accepted().history(),
                &judgement(vec![stale_write_accepted()]),
            ),
            0,
        )
        .expect("there is a finding");
        scene.assert_readable();
        let texts = texts(&scene);
        for text in [
            "stale-write-accepted: lock s",
            "+0.0 ms granted 41",
            "+1.100 s granted 42",
            "+1.146 s write c2-1150 under 42: ACCEPTED",
            "+1.297 s write c1-1301 under 41: ACCEPTED after 42 was accepted",
            "c1 believes that it holds the lock, token 41",
            "zombie: w1 stopped (SIGSTOP) for 1.20 s",
        ] {
            assert!(
                texts.iter().any(|shown| shown == text),
                "{text:?} is not in {texts:?}"
            );
        }
    }

    #[test]
    fn the_grants_of_accepted_writes_belong_to_the_story() {
        let history = zombie_accepted().history();
        let writes_only = Finding {
            events: vec![7, 8, 10, 11],
            ..stale_write_accepted()
        };
        let with_grants = finding_picture(
            &Source::new(&run(), &history, &judgement(vec![stale_write_accepted()])),
            0,
        )
        .expect("there is a finding");
        let without = finding_picture(
            &Source::new(&run(), &history, &judgement(vec![writes_only])),
            0,
        )
        .expect("there is a finding");
        assert!(with_grants == without);
    }

    #[test]
    fn refusals_name_the_high_water() {
        let mut recording = Recording::default();
        for at in 0..5 {
            recording.write("c1", "s", 41, at * 3, at * 3 + 1, "refused");
        }
        let finding = Finding {
            finding: "hot-retry".to_owned(),
            events: (0..10).collect(),
            ..stale_write_accepted()
        };
        let scene = finding_picture(
            &Source::new(&run(), &recording.history(), &judgement(vec![finding])),
            0,
        )
        .expect("there is a finding");
        scene.assert_readable();
        let refused = texts(&scene)
            .into_iter()
            .filter(|text| text.ends_with("under 41: refused, high water 42"))
            .count();
        assert_eq!(refused, 5);
    }

    #[test]
    fn a_long_story_is_labelled_at_its_ends_and_says_so() {
        let mut recording = Recording::default();
        for at in 0..40 {
            recording.write(&format!("c{at}"), "s", 41, at * 3, at * 3 + 1, "ok");
        }
        let finding = Finding {
            severity: Severity::Warning,
            events: (0..80).collect(),
            ..stale_write_accepted()
        };
        let scene = finding_picture(
            &Source::new(&run(), &recording.history(), &judgement(vec![finding])),
            0,
        )
        .expect("there is a finding");
        scene.assert_readable();
        let texts = texts(&scene);
        assert!(
            texts
                .iter()
                .any(|text| text == "28 operations of the story are not labelled."),
            "{texts:?}"
        );
        assert!(
            texts
                .iter()
                .any(|text| text == "32 clients of the story are left out."),
            "{texts:?}"
        );
    }

    #[test]
    fn a_finding_that_is_not_there_is_an_error() {
        let history = zombie_accepted().history();
        assert!(matches!(
            finding_picture(&Source::new(&run(), &history, &judgement(Vec::new())), 0),
            Err(ReportError::NoFinding { position: 0 })
        ));
        let elsewhere = Finding {
            events: vec![999],
            ..stale_write_accepted()
        };
        assert!(matches!(
            finding_picture(
                &Source::new(&run(), &history, &judgement(vec![elsewhere])),
                0
            ),
            Err(ReportError::NoEvents { position: 0 })
        ));
    }
}
