//! `summary.md`: verdict first, then the numbers, the stories, and how to repeat it. Fit to be shown as the summary of
//! a CI job: no images, no long lists.
//!
//! Names from the recording are escaped, stories are fenced: nothing that a history says is taken as markup.

use fencepost_checker::finding::Finding;
use fencepost_checker::history::History;
use fencepost_checker::verdict::Judgement;

use super::headline::run_headline;
use super::plain::{counted, fenced, grouped, lasting, markdown};
use super::terminal::{severity_word, times};
use super::zombies::{self, Zombie, zombies};
use crate::run_record::RunRecord;

/// More findings are counted, not told.
const MOST_FINDINGS: usize = 20;
/// More rows and lines are counted, not told: a job's summary is to be read at one go.
const MOST_ROWS: usize = 40;

/// A picture that was drawn.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Relative to the document, without `.svg` or `.png`.
    pub path: String,
    /// What it shows.
    pub title: String,
    /// The position of the finding that it tells, where it tells one.
    pub finding: Option<usize>,
}

/// The document. `failures`: what could not be drawn, one line each.
#[must_use]
pub fn summary(
    run: &RunRecord,
    history: &History,
    judgement: &Judgement,
    pictures: &[Picture],
    failures: &[String],
) -> String {
    let zombies = zombies(history);
    let parts = [
        format!("**{}**\n", markdown(&run_headline(run, judgement))),
        troubles(run),
        format!(
            "# Run {} of suite {}\n",
            markdown(&run.run),
            markdown(run.suite.name.as_str())
        ),
        unexercised(judgement),
        format!("## What was done\n\n{}", denominators(judgement, &zombies)),
        exercise(run),
        faults(judgement),
        findings(judgement, pictures),
        zombie_table(&zombies, history),
        plots(pictures, failures),
        repeat(run),
        circumstances(run, history),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(head.iter().map(|cell| (*cell).to_owned()).collect());
    text.push_str(&line(vec!["---".to_owned(); head.len()]));
    text.extend(rows.iter().cloned().map(line));
    text
}

fn bullets(lines: &[String]) -> String {
    let told = lines
        .iter()
        .take(MOST_ROWS)
        .map(|text| format!("- {}\n", markdown(text)));
    told.chain([not_shown(lines.len(), MOST_ROWS, "line")])
        .collect()
}

fn troubles(run: &RunRecord) -> String {
    let early = run.ended_early.as_ref().map_or(String::new(), |why| {
        format!("The load ended before its time: {}.\n", markdown(why))
    });
    let teeth = run.teeth.as_ref().map_or(String::new(), |teeth| {
        format!("Teeth: {}.\n", markdown(&teeth.sentence()))
    });
    let found = run.defect_found.as_ref().map_or(String::new(), |found| {
        format!("Planted: {}.\n", markdown(found))
    });
    let early = early + &found + &teeth;
    if run.troubles.is_empty() {
        return early;
    }
    format!(
        "{early}\nThe run itself had trouble:\n\n{}",
        bullets(&run.troubles)
    )
}

fn unexercised(judgement: &Judgement) -> String {
    if judgement.coverage.unexercised.is_empty() {
        return String::new();
    }
    format!(
        "## What was not exercised\n\n{}",
        bullets(&judgement.coverage.unexercised)
    )
}

/// What the fence was made to do, and what raises each counter: above all where every counter is 0. A run of an older
/// version has not counted.
fn exercise(run: &RunRecord) -> String {
    let Some(exercise) = &run.exercise else {
        return String::new();
    };
    let rows: Vec<Vec<String>> = exercise
        .rows()
        .into_iter()
        .map(|(what, count, flag)| vec![what, grouped(count), format!("`{flag}`")])
        .collect();
    let head = ["counter", "count", "raised by"];
    format!(
        "## What the fence was made to do\n\n{}",
        table(&head, &rows)
    )
}

fn denominators(judgement: &Judgement, zombies: &[Zombie]) -> String {
    let (stats, coverage) = (&judgement.stats, &judgement.coverage);
    let completed = zombies.iter().filter(|zombie| zombie.completed).count() as u64;
    let first = zombies
        .iter()
        .filter(|zombie| zombie.completed && zombie.refused_first)
        .count() as u64;
    let expected = coverage
        .zombie_writes_expected
        .map_or(String::new(), |expected| {
            format!(" (at least {} expected)", grouped(expected))
        });
    let row = |what: &str, count: String| vec![what.to_owned(), count];
    let rows = [
        row(
            "stale (zombie) writes attempted",
            grouped(coverage.zombie_writes) + &expected,
        ),
        row("of those refused", grouped(coverage.zombie_writes_refused)),
        row("zombie faults completed", grouped(completed)),
        row(
            "of those whose woken holder wrote first of all and was refused",
            grouped(first),
        ),
        row("operations", grouped(stats.operations)),
        row("answered ok", grouped(stats.ok)),
        row("answered fail", grouped(stats.failed)),
        row("outcome unknown", grouped(stats.unknown)),
        row("grants", grouped(stats.grants)),
        row("writes invoked", grouped(stats.writes)),
        row("writes refused by the fence", grouped(stats.refused)),
        row(
            "clients, locks, keys",
            format!(
                "{}, {}, {}",
                grouped(stats.clients),
                grouped(stats.locks),
                grouped(stats.keys)
            ),
        ),
        row("keys judged exactly", grouped(stats.keys_judged)),
        row(
            "from the first event to the last",
            lasting(stats.duration_ns as f64 / 1e9),
        ),
    ];
    let not_judged = if stats.not_judged.is_empty() {
        String::new()
    } else {
        format!("\nNot judged exactly:\n\n{}", bullets(&stats.not_judged))
    };
    table(&["what", "count"], &rows) + &not_judged
}

fn faults(judgement: &Judgement) -> String {
    if judgement.coverage.faults.is_empty() {
        return String::new();
    }
    let row = |(label, count): (&String, &fencepost_checker::verdict::FaultCount)| {
        let counts = [count.planned, count.installed, count.skipped, count.unknown].map(grouped);
        std::iter::once(markdown(label)).chain(counts).collect()
    };
    let rows: Vec<Vec<String>> = judgement.coverage.faults.iter().map(row).collect();
    format!(
        "## Faults\n\n{}",
        table(
            &["fault", "planned", "installed", "skipped", "unknown"],
            &rows
        )
    )
}

fn findings(judgement: &Judgement, pictures: &[Picture]) -> String {
    if judgement.findings.is_empty() {
        return "## Findings\n\nNone.\n".to_owned();
    }
    let told: Vec<String> = judgement
        .findings
        .iter()
        .enumerate()
        .take(MOST_FINDINGS)
        .map(|(position, finding)| told(position, finding, judgement, pictures))
        .collect();
    let more = not_shown(judgement.findings.len(), MOST_FINDINGS, "finding");
    format!("## Findings\n\n{}{more}", told.join("\n"))
}

fn told(position: usize, finding: &Finding, judgement: &Judgement, pictures: &[Picture]) -> String {
    let mut about = format!(
        "{}, seen {}",
        severity_word(finding.severity),
        times(finding.count)
    );
    for (what, name) in [("lock", &finding.lock), ("key", &finding.key)] {
        if let Some(name) = name {
            about.push_str(&format!(", {what} {}", markdown(name)));
        }
    }
    if let Some(root) = finding
        .cause
        .and_then(|cause| judgement.findings.get(cause).map(|root| (cause, root)))
    {
        about.push_str(&format!(
            ", follows from {} {}",
            root.0 + 1,
            markdown(&root.1.finding)
        ));
    }
    let events: Vec<String> = finding.events.iter().take(24).map(u64::to_string).collect();
    let more = if finding.events.len() > events.len() {
        format!(" and {} more", finding.events.len() - events.len())
    } else {
        String::new()
    };
    let pictured: String = pictures
        .iter()
        .filter(|picture| picture.finding == Some(position))
        .map(|picture| link(picture) + "\n")
        .collect();
    format!(
        "### {}. {}\n\n{about}\n\n{}\n{pictured}Events of the first witness: {}{more}\n",
        position + 1,
        markdown(&finding.finding),
        fenced("text", &finding.story),
        if events.is_empty() {
            "none".to_owned()
        } else {
            events.join(", ")
        }
    )
}

fn zombie_table(zombies: &[Zombie], history: &History) -> String {
    if zombies.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = zombies
        .iter()
        .take(MOST_ROWS)
        .map(|zombie| {
            let mut cells: Vec<String> = zombies::row(zombie, history)
                .iter()
                .map(|cell| markdown(cell))
                .collect();
            if let (true, Some(first)) = (zombie.refused_first, cells.last_mut()) {
                *first = format!("**{first}**");
            }
            cells
        })
        .collect();
    let more = not_shown(zombies.len(), MOST_ROWS, "zombie");
    format!("## Zombies\n\n{}{more}", table(&zombies::HEAD, &rows))
}

/// How many are left out, as a paragraph, if only `most` of `all` are told.
fn not_shown(all: usize, most: usize, thing: &str) -> String {
    let rest = all.saturating_sub(most) as u64;
    if rest == 0 {
        return String::new();
    }
    format!(
        "\n{} in report.html.\n",
        counted(rest, &format!("more {thing}"))
    )
}

/// Links and no images: where the summary of a job is shown there are no files beside it.
fn link(picture: &Picture) -> String {
    let path = &picture.path;
    format!(
        "{}: [svg]({path}.svg), [png]({path}.png)\n",
        markdown(&picture.title)
    )
}

fn plots(pictures: &[Picture], failures: &[String]) -> String {
    let mut text = "## Plots\n\nAll of them are in [report.html](report.html).\n\n".to_owned();
    for picture in pictures.iter().filter(|picture| picture.finding.is_none()) {
        text.push_str(&format!("- {}", link(picture)));
    }
    if !failures.is_empty() {
        text.push_str(&format!("\nNot drawn:\n\n{}", bullets(failures)));
    }
    text
}

fn repeat(run: &RunRecord) -> String {
    let defect = run.defect.as_ref().map_or(String::new(), |defect| {
        format!(" A defect was planted: {}.", markdown(defect))
    });
    format!(
        "## Again\n\nSeed {}.{defect} The seed fixes the plan, not how real processes interleave; the saved history is judged the same everywhere.\n\n{}",
        run.seed,
        fenced("sh", &run.replay)
    )
}

fn circumstances(run: &RunRecord, history: &History) -> String {
    let pair = |(name, value): (&String, &String)| vec![markdown(name), markdown(value)];
    let mut rows = vec![vec!["started".to_owned(), markdown(&run.started)]];
    rows.push(vec![
        "command line".to_owned(),
        markdown(&run.command_line.join(" ")),
    ]);
    rows.extend(run.versions.iter().map(pair));
    rows.extend(run.machine.iter().map(pair));
    rows.extend(run.phases.iter().map(|phase| {
        vec![
            format!("phase {}", markdown(&phase.name)),
            lasting(phase.took_ms as f64 / 1e3),
        ]
    }));
    let warnings = if history.warnings.is_empty() {
        String::new()
    } else {
        format!(
            "\nThe reader of the history warns:\n\n{}",
            bullets(&history.warnings)
        )
    };
    format!(
        "## Circumstances\n\n{}{warnings}",
        table(&["what", "value"], &rows)
    )
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Recording, judgement, run, stale_write_accepted, zombie_refused};
    use super::*;

    fn rendered(recording: &Recording, findings: Vec<Finding>) -> String {
        let picture = |path: &str, title: &str, finding| Picture {
            path: path.to_owned(),
            title: title.to_owned(),
            finding,
        };
        let pictures = [
            picture("plots/finding-1", "Close", Some(0)),
            picture("plots/holders", "Who held what", None),
        ];
        summary(
            &run(),
            &recording.history(),
            &judgement(findings),
            &pictures,
            &["plots/latency: too large".to_owned()],
        )
    }

    #[test]
    fn the_first_line_is_the_verdict_with_its_denominators() {
        let text = rendered(&zombie_refused(), Vec::new());
        assert_eq!(
            text.lines().next(),
            Some(
                "**valid: 214 stale writes attempted, 214 refused; 4,000 operations, 190 grants, 1 of 2 planned faults installed**"
            )
        );
    }

    #[test]
    fn numbers_zombies_replay_and_pictures_are_there() {
        let text = rendered(&zombie_refused(), Vec::new());
        for line in [
            "| stale (zombie) writes attempted | 214 (at least 5 expected) |",
            "| zombie | 2 | 1 | 1 | 0 |",
            "| 1 | c1 | s | 41 | 0.10 s | 1.20 s | c2 under 42 | **write c1-1301 under 41: refused, high water 42** |",
            "fencepost run --seed 7",
            "- Who held what: [svg](plots/holders.svg), [png](plots/holders.png)",
            "- plots/latency: too large",
            "| cores | 2 |",
            "| phase load | 1.40 s |",
        ] {
            assert!(
                text.lines().any(|shown| shown == line),
                "{line:?} is not in\n{text}"
            );
        }
    }

    #[test]
    fn a_story_is_fenced_and_a_cause_is_named() {
        let mut late = stale_write_accepted();
        late.story = "# no heading\n```\n<b>".to_owned();
        late.cause = Some(0);
        let text = rendered(&zombie_refused(), vec![stale_write_accepted(), late]);
        assert!(
            text.contains("````text\n# no heading\n```\n<b>\n````\n"),
            "{text}"
        );
        let close = text
            .find("Close: [svg](plots/finding-1.svg)")
            .expect("it is pictured");
        assert!(
            close < text.find("### 2.").expect("there are two"),
            "beside its story: {text}"
        );
        assert!(
            text.contains(
                "violation, seen 3 times, lock s, key s, follows from 1 stale-write-accepted\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn hostile_names_are_text_everywhere() {
        let evil = "<script>|`x`\n# h";
        let mut recording = Recording::default();
        recording
            .grant(evil, evil, 41, 0, 4)
            .zombie(1, evil, evil, 41, 10, 20)
            .write(evil, evil, 41, 30, 31, "refused");
        let finding = Finding {
            finding: evil.to_owned(),
            lock: Some(evil.to_owned()),
            key: Some(evil.to_owned()),
            ..stale_write_accepted()
        };
        let text = rendered(&recording, vec![finding]);
        assert!(
            !text.contains("<script>") && !text.contains("\n# h"),
            "{text}"
        );
        let row = text
            .lines()
            .find(|line| line.starts_with("| 1 |"))
            .expect("the zombie has a row");
        assert_eq!(row.replace("\\|", "").matches('|').count(), 9, "{row}");
    }

    #[test]
    fn an_early_end_and_troubles_are_told_before_the_numbers() {
        let run = RunRecord {
            ended_early: Some("SIGINT".to_owned()),
            troubles: vec!["worker w2 died".to_owned()],
            ..run()
        };
        let text = summary(
            &run,
            &Recording::default().history(),
            &judgement(Vec::new()),
            &[],
            &[],
        );
        let told = "The load ended before its time: SIGINT.\n\nThe run itself had trouble:\n\n- worker w2 died\n";
        assert!(
            text.find(told)
                .is_some_and(|at| at < text.find("## What was done").unwrap_or(0)),
            "{text}"
        );
    }

    #[test]
    fn counters_of_zero_are_shown_and_those_that_were_never_counted_are_not() {
        let told = |exercise| {
            let run = RunRecord { exercise, ..run() };
            let history = Recording::default().history();
            summary(&run, &history, &judgement(Vec::new()), &[], &[])
        };
        let head = "## What the fence was made to do";
        assert!(!told(None).contains(head));
        let zero = told(Some(Default::default()));
        assert!(
            zero.contains(head) && zero.contains("| zombie writes | 0 |"),
            "{zero}"
        );
    }

    #[test]
    fn a_run_without_anything_is_still_a_report() {
        let text = rendered(&Recording::default(), Vec::new());
        assert!(
            text.contains("## Findings\n\nNone.\n") && !text.contains("## Zombies"),
            "{text}"
        );
    }
}
