//! `report.html`: the whole report in one file that needs nothing else, opened from disk, printed, or sent by mail.
//!
//! No script, no address in any `src` or `href`, and a content security policy that allows neither. Pictures stand
//! inside as SVG. In a dark scheme the page is dark and the pictures stay on paper.

use std::path::Path;

use fencepost_checker::finding::Finding;
use fencepost_checker::verdict::Verdict;

use super::fault_table;
use super::headline::{FAILED, run_headline, verdict_word};
use super::markup::{block, element, list, more, story, table, text};
use super::plain::{counted, grouped, lasting};
use super::plots::PLOTS;
use super::source::Source;
use super::terminal::{severity_word, times};
use super::typeface::face;
use super::zombies::{self, zombies};
use crate::run_record::Teeth;

const STYLE: &str = include_str!("page.css");
/// More than this many findings, faults, zombies and lines are counted, not shown.
const MOST_FINDINGS: usize = 200;
const MOST_ROWS: usize = 200;
/// So many things that the reader of the history forgave are told at the top; all others at the end.
const MOST_WARNINGS: usize = 3;
const MOST_LINES: usize = 40;

/// A picture for the page.
pub struct Inlay {
    /// As in [`super::plots::scene`].
    pub name: String,
    /// An SVG element.
    pub svg: String,
}

/// The document. `failures`: what could not be drawn, one line each.
#[must_use]
pub fn page(source: &Source<'_>, inlays: &[Inlay], failures: &[String]) -> String {
    let run = source.run;
    let title = format!(
        "{}: run {} of suite {}",
        verdict_word(source.judgement.verdict),
        run.run,
        run.suite.name.as_str()
    );
    let body = [
        opening(source),
        findings(source, inlays),
        plots(inlays, failures),
        faults(source),
        unexercised(source),
        zombie_table(source),
        again(source),
        circumstances(source),
    ]
    .concat();
    document(&title, &body)
}

/// A document that needs nothing else.
#[must_use]
pub fn document(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; font-src data:\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         {}<style>\n{}{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        element("title", title),
        face()
    )
}

fn section(id: &str, title: &str, content: &str) -> String {
    format!(
        "<section id=\"{id}\">\n{}{content}</section>\n",
        element("h2", title)
    )
}

/// The verdict in one sentence, what went wrong with the run itself, where to go, and the numbers.
fn opening(source: &Source<'_>) -> String {
    let (run, judgement) = (source.run, source.judgement);
    let sentence = run_headline(run, judgement);
    let word = if sentence.starts_with(FAILED) {
        FAILED
    } else {
        verdict_word(judgement.verdict)
    };
    let rest = sentence.strip_prefix(word).unwrap_or(&sentence);
    let mut troubles = Vec::new();
    troubles.extend(
        run.ended_early
            .iter()
            .map(|why| format!("The load ended before its time: {why}.")),
    );
    troubles.extend(
        run.teeth
            .iter()
            .map(|teeth| format!("Teeth: {}.", teeth.sentence())),
    );
    troubles.extend(
        run.troubles
            .iter()
            .map(|trouble| format!("The run itself had trouble: {trouble}")),
    );
    troubles.extend(
        source
            .history
            .warnings
            .iter()
            .take(MOST_WARNINGS)
            .map(|warning| format!("Of the recording: {warning}.")),
    );
    let troubles = if troubles.is_empty() {
        String::new()
    } else {
        list(&troubles, MOST_LINES)
    };
    let heading = format!(
        "Run {} of suite {}, started {}",
        run.run,
        run.suite.name.as_str(),
        run.started
    );
    let places = [
        ("findings", "Findings"),
        ("plots", "Plots"),
        ("faults", "Faults"),
        ("unexercised", "What was not exercised"),
        ("zombies", "Zombies"),
        ("again", "How to replay"),
        ("circumstances", "Versions and machine"),
    ];
    let links: String = places
        .iter()
        .map(|(id, words)| format!("<a href=\"#{id}\">{words}</a>\n"))
        .collect();
    format!(
        "<header>\n{}<div class=\"verdict {word}\"><p><b>{word}</b>{}</p>\n{troubles}</div>\n{}<nav>\n{links}</nav>\n</header>\n",
        element("h1", &heading),
        text(rest, 800),
        tiles(source)
    )
}

fn tiles(source: &Source<'_>) -> String {
    let (stats, coverage) = (&source.judgement.stats, &source.judgement.coverage);
    let zombies = zombies(source.history);
    let completed = zombies.iter().filter(|zombie| zombie.completed).count() as u64;
    let (planned, installed) = coverage
        .faults
        .values()
        .fold((0, 0), |(planned, installed), fault| {
            (planned + fault.planned, installed + fault.installed)
        });
    let tiles = [
        (
            "stale writes refused",
            format!(
                "{} of {}",
                grouped(coverage.zombie_writes_refused),
                grouped(coverage.zombie_writes)
            ),
        ),
        ("zombies woken", grouped(completed)),
        (
            "faults installed",
            format!("{} of {}", grouped(installed), grouped(planned)),
        ),
        ("operations", grouped(stats.operations)),
        ("of unknown outcome", grouped(stats.unknown)),
        ("grants", grouped(stats.grants)),
        (
            "clients, locks, keys",
            format!(
                "{}, {}, {}",
                grouped(stats.clients),
                grouped(stats.locks),
                grouped(stats.keys)
            ),
        ),
        (
            "keys judged exactly",
            format!("{} of {}", grouped(stats.keys_judged), grouped(stats.keys)),
        ),
        ("recorded", lasting(stats.duration_ns as f64 / 1e9)),
    ];
    let tiles: String = tiles
        .iter()
        .map(|(what, number)| format!("<div><dt>{what}</dt><dd>{number}</dd></div>\n"))
        .collect();
    format!("<dl class=\"tiles\">\n{tiles}</dl>\n")
}

/// Roots with what follows from them inside.
fn findings(source: &Source<'_>, inlays: &[Inlay]) -> String {
    let all = &source.judgement.findings;
    if all.is_empty() {
        let words = match source.judgement.verdict {
            Verdict::Valid => "None: no rule was broken by what was recorded.",
            Verdict::Invalid | Verdict::Unknown => "None.",
        };
        return section("findings", "Findings", &element("p", words));
    }
    let shown = all.len().min(MOST_FINDINGS);
    // Only a root of its own can hold others; whatever names another cause stands by itself.
    let root = |finding: &Finding| {
        finding
            .cause
            .filter(|&cause| cause < shown && all[cause].cause.is_none())
    };
    let mut content = thinned_out(all.len(), shown, inlays);
    for (position, finding) in all.iter().enumerate().take(shown) {
        if root(finding).is_some() {
            continue;
        }
        let inner: String = all
            .iter()
            .enumerate()
            .take(shown)
            .filter(|(_, other)| root(other) == Some(position))
            .map(|(place, other)| card(source, inlays, place, other, ""))
            .collect();
        content.push_str(&card(source, inlays, position, finding, &inner));
    }
    section("findings", "Findings", &content)
}

/// How many of all findings are told, and how many have a timeline, where those are not all.
fn thinned_out(all: usize, shown: usize, inlays: &[Inlay]) -> String {
    let drawn = inlays
        .iter()
        .filter(|inlay| inlay.name.starts_with("finding-"))
        .count();
    if shown == all && drawn == all {
        return String::new();
    }
    let told = if shown < all {
        format!(
            "Of {} the first {} are told here: {} more are in verdict.json alone.",
            counted(all as u64, "finding"),
            grouped(shown as u64),
            grouped((all - shown) as u64)
        )
    } else {
        format!("{}, all told here.", counted(all as u64, "finding"))
    };
    let sentence = format!(
        "{told} {} of them {} a timeline here; fencepost report RUN --plot finding-N draws that of any other that has events.",
        grouped(drawn as u64),
        if drawn == 1 { "has" } else { "have" }
    );
    element("p", &sentence)
}

fn card(
    source: &Source<'_>,
    inlays: &[Inlay],
    position: usize,
    finding: &Finding,
    inner: &str,
) -> String {
    let severity = severity_word(finding.severity);
    let number = position + 1;
    let mut about = format!("seen {}", times(finding.count));
    for (what, name) in [("lock", &finding.lock), ("key", &finding.key)] {
        about.extend(name.iter().map(|name| format!(", {what} {name}")));
    }
    let cause = finding
        .cause
        .and_then(|cause| Some((cause, source.judgement.findings.get(cause)?)));
    about.extend(
        cause.map(|(cause, root)| format!(", follows from {} {}", cause + 1, root.finding)),
    );
    let events: Vec<String> = finding.events.iter().take(24).map(u64::to_string).collect();
    let mut lines = format!(
        "Events in history.jsonl, by index: {}",
        if events.is_empty() {
            "none".to_owned()
        } else {
            events.join(", ")
        }
    );
    if finding.events.len() > events.len() {
        lines.push_str(&format!(
            " and {} more",
            grouped((finding.events.len() - events.len()) as u64)
        ));
    }
    let figure: String = inlays
        .iter()
        .filter(|inlay| inlay.name == format!("finding-{number}"))
        .map(|inlay| format!("<figure>\n{}</figure>\n", inlay.svg))
        .collect();
    if figure.is_empty() && !finding.events.is_empty() {
        lines.push_str(&format!(
            ". No timeline here: fencepost report RUN --plot finding-{number}"
        ));
    }
    format!(
        "<article class=\"finding {severity}\" id=\"finding-{number}\">\n<h3>{number}. {}</h3>\n\
         <p><span class=\"badge\">{severity}</span>{}</p>\n{}{figure}<p class=\"soft\">{}</p>\n{inner}</article>\n",
        text(&finding.finding, 100),
        text(&about, 300),
        story(&finding.story),
        text(&lines, 600)
    )
}

fn plots(inlays: &[Inlay], failures: &[String]) -> String {
    let mut content = String::new();
    for plot in &PLOTS {
        for inlay in inlays.iter().filter(|inlay| inlay.name == plot.name) {
            content.push_str(&format!(
                "<figure id=\"plot-{}\">\n<figcaption>{}</figcaption>\n{}</figure>\n",
                plot.name, plot.hint, inlay.svg
            ));
        }
    }
    if !failures.is_empty() {
        content.push_str(&element("p", "Not drawn:"));
        content.push_str(&list(failures, MOST_LINES));
    }
    section("plots", "Plots", &content)
}

fn faults(source: &Source<'_>) -> String {
    let mut rows = fault_table::rows(source.run, source.history);
    if rows.is_empty() {
        let none = element("p", "None was planned, and none was recorded.");
        return section("faults", "Faults", &none);
    }
    let counts: Vec<Vec<String>> = source
        .judgement
        .coverage
        .faults
        .iter()
        .map(|(label, count)| {
            let counts = [count.planned, count.installed, count.skipped, count.unknown];
            std::iter::once(label.clone())
                .chain(counts.map(grouped))
                .collect()
        })
        .collect();
    let mut content = String::new();
    if !counts.is_empty() {
        let head = [
            "fault",
            "planned",
            "installed",
            "skipped",
            "without evidence",
        ];
        content.push_str(&table(&head, &counts));
        content.push_str("<p></p>\n");
    }
    let all = rows.len();
    rows.truncate(MOST_ROWS);
    content.push_str(&table(&fault_table::HEAD, &rows));
    content.extend(more(all, MOST_ROWS, "fault").map(|more| element("p", &more)));
    section("faults", "Faults: plan, outcome, evidence", &content)
}

fn unexercised(source: &Source<'_>) -> String {
    let (coverage, stats) = (&source.judgement.coverage, &source.judgement.stats);
    let mut content = if coverage.unexercised.is_empty() {
        let words = match coverage.zombie_writes_expected {
            Some(expected) => format!(
                "Nothing: each kind of planned fault was installed with evidence at least once, and there were {} ({} expected).",
                counted(coverage.zombie_writes, "stale write"),
                grouped(expected)
            ),
            None if coverage.faults.is_empty() => {
                "Nothing was planned, so nothing is missing.".to_owned()
            }
            None => {
                "Nothing: each kind of planned fault was installed with evidence at least once."
                    .to_owned()
            }
        };
        element("p", &words)
    } else {
        list(&coverage.unexercised, MOST_LINES)
    };
    content.extend(
        source
            .run
            .teeth
            .iter()
            .map(|teeth| both_runs(source, teeth)),
    );
    if let Some(found) = &source.run.defect_found {
        content.push_str(&element("p", &format!("Planted: {found}.")));
    }
    if let Some(exercise) = &source.run.exercise {
        let rows: Vec<Vec<String>> = exercise
            .rows()
            .into_iter()
            .map(|(what, count, flag)| vec![what, grouped(count), flag.to_owned()])
            .collect();
        content.push_str(&element("p", "What the fence was made to do:"));
        content.push_str(&table(&["counter", "count", "raised by"], &rows));
    }
    if !stats.not_judged.is_empty() {
        content.push_str(&element("p", "Not judged by the exact check:"));
        content.push_str(&list(&stats.not_judged, MOST_LINES));
    }
    section("unexercised", "What was not exercised", &content)
}

/// The run beside the one without its fence, whose report is in the folder next to this one's.
fn both_runs(source: &Source<'_>, teeth: &Teeth) -> String {
    let judgement = source.judgement;
    let mut findings: Vec<&str> = judgement
        .findings
        .iter()
        .map(|f| f.finding.as_str())
        .collect();
    findings.dedup();
    let row = |what: &str, verdict: Verdict, stale: u64, refused: u64, found: String| {
        let verdict = verdict_word(verdict).to_owned();
        vec![
            what.to_owned(),
            verdict,
            grouped(stale),
            grouped(refused),
            found,
        ]
    };
    let coverage = &judgement.coverage;
    let (stale, refused) = (coverage.zombie_writes, coverage.zombie_writes_refused);
    let rows = [
        row(
            "as it is",
            judgement.verdict,
            stale,
            refused,
            findings.join(", "),
        ),
        row(
            "without the fence",
            teeth.verdict,
            teeth.stale_writes,
            teeth.refused,
            teeth.findings.join(", "),
        ),
    ];
    let mut text = element("p", "The same plan with and without the fence:");
    text.push_str(&table(
        &["run", "verdict", "stale writes", "refused", "found"],
        &rows,
    ));
    if let Some(folder) = Path::new(&teeth.folder).file_name() {
        let words = format!(
            "The run without the fence has a report of its own, in the folder {} beside this one's.",
            folder.to_string_lossy()
        );
        text.push_str(&element("p", &words));
    }
    text
}

fn zombie_table(source: &Source<'_>) -> String {
    let zombies = zombies(source.history);
    if zombies.is_empty() {
        return section(
            "zombies",
            "Zombies",
            &element("p", "No zombie fault was planned."),
        );
    }
    let rows: Vec<Vec<String>> = zombies
        .iter()
        .take(MOST_ROWS)
        .map(|zombie| zombies::row(zombie, source.history))
        .collect();
    let mut content = table(&zombies::HEAD, &rows);
    content.extend(more(zombies.len(), MOST_ROWS, "zombie").map(|more| element("p", &more)));
    section("zombies", "Zombies", &content)
}

fn again(source: &Source<'_>) -> String {
    let run = source.run;
    let defect = run.defect.as_ref().map_or(String::new(), |defect| {
        element("p", &format!("A defect was planted: {defect}."))
    });
    let content = format!(
        "{defect}<p>The seed, {}, fixes the plan, not how real processes interleave; the saved history is judged the same everywhere.</p>\n{}",
        run.seed,
        block(&format!("{}\nfencepost check history.jsonl", run.replay))
    );
    section("again", "How to replay", &content)
}

fn circumstances(source: &Source<'_>) -> String {
    let (run, history) = (source.run, source.history);
    let pair = |(name, value): (&String, &String)| vec![name.clone(), value.clone()];
    let mut rows = vec![
        vec!["started".to_owned(), run.started.clone()],
        vec!["command line".to_owned(), run.command_line.join(" ")],
    ];
    rows.extend(run.versions.iter().map(pair));
    rows.extend(run.machine.iter().map(pair));
    rows.extend(run.phases.iter().map(|phase| {
        vec![
            format!("phase {}", phase.name),
            lasting(phase.took_ms as f64 / 1e3),
        ]
    }));
    let mut content = table(&["what", "value"], &rows);
    if !history.warnings.is_empty() {
        let count = counted(history.warnings.len() as u64, "thing");
        content.push_str(&element(
            "p",
            &format!("The reader of the history forgave {count}:"),
        ));
        content.push_str(&list(&history.warnings, MOST_LINES));
    }
    section("circumstances", "Versions, machine and phases", &content)
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Recording, judgement, run, stale_write_accepted, zombie_refused};
    use super::*;
    use crate::run_record::RunRecord;

    fn made(run: &RunRecord, recording: &Recording, findings: Vec<Finding>) -> String {
        let (history, judgement) = (recording.history(), judgement(findings));
        page(&Source::new(run, &history, &judgement), &[], &[])
    }

    #[test]
    fn the_verdict_stands_first_with_its_denominators() {
        let text = made(&run(), &zombie_refused(), Vec::new());
        assert!(
            text.contains("<div class=\"verdict valid\"><p><b>valid</b>: 214 stale writes attempted, 214 refused; 4,000 operations, 190 grants, 1 of 2 planned faults installed</p>"),
            "{text}"
        );
        assert!(text.starts_with("<!DOCTYPE html>\n") && text.ends_with("</html>\n"));
    }

    #[test]
    fn what_follows_from_a_finding_stands_inside_of_it() {
        let named = |name: &str, cause| Finding {
            finding: name.to_owned(),
            cause,
            ..stale_write_accepted()
        };
        let text = made(
            &run(),
            &zombie_refused(),
            vec![
                named("root-a", None),
                named("root-b", None),
                named("of-a", Some(0)),
                named("of-nobody", Some(9)),
                named("of-itself", Some(4)),
            ],
        );
        let place = |name: &str| text.find(&format!(". {name}</h3>")).expect(name);
        assert!(place("root-a") < place("of-a") && place("of-a") < place("root-b"));
        assert!(place("root-b") < place("of-nobody") && place("of-nobody") < place("of-itself"));
        assert_eq!(text.matches("<article").count(), 5);
        assert_eq!(text.matches("</article>\n</article>").count(), 1);
        assert!(text.contains("follows from 1 root-a"), "{text}");
    }

    #[test]
    fn every_section_is_there_for_a_run_without_anything() {
        let text = made(&run(), &Recording::default(), Vec::new());
        for id in [
            "findings",
            "plots",
            "faults",
            "unexercised",
            "zombies",
            "again",
            "circumstances",
        ] {
            assert!(text.contains(&format!("<section id=\"{id}\">")), "{id}");
            assert!(text.contains(&format!("<a href=\"#{id}\">")), "{id}");
        }
        assert!(text.contains("fencepost run --seed 7"));
    }

    #[test]
    fn counters_of_zero_are_shown_and_those_that_were_never_counted_are_not() {
        let head = "What the fence was made to do";
        let never = made(&run(), &Recording::default(), Vec::new());
        assert!(!never.contains(head));
        let zero = RunRecord {
            exercise: Some(Default::default()),
            defect_found: Some("the planted defect unfenced was found".to_owned()),
            ..run()
        };
        let text = made(&zero, &Recording::default(), Vec::new());
        assert!(text.contains(head), "{text}");
        assert!(text.contains("restarts between observation and write"));
        assert!(text.contains("Planted: the planted defect unfenced was found."));
    }

    #[test]
    fn long_lists_are_cut_and_counted() {
        let mut recording = Recording::default();
        for id in 0..205 {
            recording.fault(id, "pause", &["w1"], id, Some(id + 1), "installed");
        }
        let many = vec![stale_write_accepted(); MOST_FINDINGS + 3];
        let text = made(&run(), &recording, many);
        assert!(text.contains("5 more faults not shown here."), "{text}");
        assert!(
            text.contains("Of 203 findings the first 200 are told here: 3 more are in verdict.json alone. 0 of them have a timeline here;"),
            "{text}"
        );
        assert_eq!(text.matches("<article").count(), MOST_FINDINGS);
        assert!(text.contains("No timeline here: fencepost report RUN --plot finding-7</p>"));
    }

    #[test]
    fn findings_without_a_timeline_of_their_own_are_counted() {
        let (run, history, judgement) = (
            run(),
            zombie_refused().history(),
            judgement(vec![stale_write_accepted(); 2]),
        );
        let inlay = |number: usize| Inlay {
            name: format!("finding-{number}"),
            svg: "<svg></svg>".to_owned(),
        };
        let with = |inlays: &[Inlay]| page(&Source::new(&run, &history, &judgement), inlays, &[]);
        let some = with(&[inlay(1)]);
        assert!(
            some.contains("<p>2 findings, all told here. 1 of them has a timeline here;"),
            "{some}"
        );
        assert_eq!(some.matches("No timeline here").count(), 1);
        let all = with(&[inlay(1), inlay(2)]);
        assert!(
            !all.contains("a timeline here") && !all.contains("No timeline"),
            "{all}"
        );
    }

    #[test]
    fn what_the_reader_forgave_stands_at_the_top_and_at_the_end() {
        let mut history = zombie_refused().history();
        history.warnings = vec!["line 9 was cut short and is dropped".to_owned()];
        let (run, judgement) = (run(), judgement(Vec::new()));
        let text = page(&Source::new(&run, &history, &judgement), &[], &[]);
        let told = "line 9 was cut short and is dropped";
        assert_eq!(text.matches(told).count(), 2, "{text}");
        let place = text.find(told).expect("it is there");
        assert!(place < text.find("<nav>").expect("there are links"));
    }

    #[test]
    fn trouble_and_an_early_end_stand_beside_the_verdict() {
        let run = RunRecord {
            ended_early: Some("SIGINT".to_owned()),
            troubles: vec!["worker <w2> died".to_owned()],
            ..run()
        };
        let text = made(&run, &Recording::default(), Vec::new());
        assert!(
            text.contains("<li>The load ended before its time: SIGINT.</li>\n<li>The run itself had trouble: worker &lt;w2&gt; died</li>"),
            "{text}"
        );
    }
}
