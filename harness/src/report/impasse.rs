//! Where the order of a model ends, as one page: `fencepost check --model register --html FILE`.
//!
//! It shows the neighbourhood of the failure and not all that went before, so a page of a hundred thousand operations is
//! as small as one of ten: the last steps of the longest order, the state after them, and what cannot follow.

use fencepost_checker::linearizability::{Impasse, Placed};

use super::markup::{element, more, table};
use super::page::document;
use super::palette::{GRANTED, GRID, INK, LANE, PAPER, SOFT_INK, VIOLATION};
use super::plain::grouped;
use super::scene::{Anchor, Area, Scene, at, fitted};
use super::svg;

/// So many operations of the order, and so many that cannot follow, are drawn.
const DRAWN: usize = 20;

const WIDTH: u32 = 1_400;
/// Where names end and bars begin.
const LEFT: f64 = 420.0;
const RIGHT: f64 = 1_380.0;
const ROW: f64 = 26.0;
const SIZE: f64 = 14.0;

/// The page of a file. `headline`: the verdict in one sentence.
#[must_use]
pub fn impasse_page(file: &str, model: &str, headline: &str, impasses: &[Impasse]) -> String {
    let mut body = format!(
        "<header>\n{}{}</header>\n",
        element("h1", &format!("{file} as a {model}")),
        element("p", headline)
    );
    if impasses.is_empty() {
        body.push_str(&element(
            "p",
            "No order ends anywhere: there is nothing to show.",
        ));
    }
    body.extend(impasses.iter().map(section));
    document(&format!("{file}: where the order ends"), &body)
}

fn section(impasse: &Impasse) -> String {
    let part = impasse.part.as_ref();
    let title = part.map_or_else(|| "The object".to_owned(), |part| format!("Key {part}"));
    let reached = format!(
        "The longest order that was found holds {} of {} operations. After them the state is {}.",
        grouped(impasse.explained),
        grouped(impasse.operations),
        impasse.state
    );
    let first = impasse
        .cannot_follow
        .first()
        .map_or(String::new(), |first| {
            element(
                "p",
                &format!(
                    "{} by {} had to follow, and cannot.",
                    first.call, first.client
                ),
            )
        });
    let prefix = last(&impasse.prefix);
    let begins = impasse.explained - prefix.len() as u64;
    let rows = |placed: &[Placed], number: &dyn Fn(usize) -> String| -> Vec<Vec<String>> {
        let row = |(at, placed): (usize, &Placed)| {
            let completed = placed
                .completed
                .map_or_else(|| "never".to_owned(), |index| index.to_string());
            vec![
                number(at),
                placed.call.clone(),
                placed.client.clone(),
                placed.invoked.to_string(),
                completed,
            ]
        };
        placed.iter().enumerate().map(row).collect()
    };
    let head = |first: &'static str| {
        [
            first,
            "operation",
            "client",
            "sent at event",
            "answered at event",
        ]
    };
    let stuck = &impasse.cannot_follow[..impasse.cannot_follow.len().min(DRAWN)];
    let omitted = more(impasse.cannot_follow.len(), DRAWN, "operation")
        .map_or(String::new(), |more| element("p", &more));
    [
        "<section>\n".to_owned(),
        element("h2", &title),
        element("p", &reached),
        first,
        format!("<figure>\n{}</figure>\n", svg::element(&drawing(impasse))),
        element("h3", "The end of the longest order"),
        table(
            &head("step"),
            &rows(prefix, &|at| grouped(begins + at as u64 + 1)),
        ),
        element("h3", "What cannot follow"),
        table(&head(""), &rows(stuck, &|_| String::new())),
        omitted,
        "</section>\n".to_owned(),
    ]
    .concat()
}

fn last(prefix: &[Placed]) -> &[Placed] {
    &prefix[prefix.len().saturating_sub(DRAWN)..]
}

/// One row an operation, from where it was sent to where it was answered; as far apart as the events that are shown.
fn drawing(impasse: &Impasse) -> Scene {
    let prefix = last(&impasse.prefix);
    let begins = impasse.explained - prefix.len() as u64;
    let in_order = prefix
        .iter()
        .enumerate()
        .map(|(at, placed)| (placed, Some(begins + at as u64 + 1)));
    let stuck = impasse.cannot_follow.iter().take(DRAWN);
    let mut rows: Vec<(&Placed, Option<u64>)> =
        in_order.chain(stuck.map(|placed| (placed, None))).collect();
    rows.sort_by_key(|(placed, _)| placed.invoked);
    let mut events: Vec<u64> = rows
        .iter()
        .flat_map(|(placed, _)| std::iter::once(placed.invoked).chain(placed.completed))
        .collect();
    events.sort_unstable();
    events.dedup();
    let step = (RIGHT - LEFT) / (events.len() as f64 + 1.0);
    let x =
        |index: u64| LEFT + step * (events.partition_point(|&event| event < index) as f64 + 0.5);
    let mut scene = Scene::new(
        WIDTH,
        "The operations around the place where the order ends: when each was sent and answered",
    );
    let first = impasse.cannot_follow.first().map(|placed| placed.invoked);
    let mut top = 12.0;
    for (nth, &(placed, number)) in rows.iter().enumerate() {
        let middle = top + ROW / 2.0;
        if nth % 2 == 1 {
            scene.fill(Area::new(0.0, top, f64::from(WIDTH), top + ROW), LANE);
        }
        let name = fitted(
            &format!("{}: {}", placed.client, placed.call),
            SIZE,
            LEFT - 30.0,
        );
        scene.text(at(12.0, middle), &name, SIZE, INK, Anchor::Start);
        let (from, to) = (x(placed.invoked), placed.completed.map_or(RIGHT, x));
        let bar = Area::new(from, top + 4.0, to, top + ROW - 4.0);
        let colour = match number {
            Some(_) => GRANTED.tint(0.25),
            None if Some(placed.invoked) == first => VIOLATION,
            None => VIOLATION.tint(0.4),
        };
        scene.fill(bar, colour);
        scene.outline(bar, GRID, 1);
        if let Some(number) = number {
            let place = at((from + to) / 2.0, middle);
            scene.text(place, &number.to_string(), SIZE - 2.0, INK, Anchor::Middle);
        }
        if placed.completed.is_none() {
            scene.text(
                at(RIGHT - 4.0, middle),
                "no answer",
                SIZE - 3.0,
                SOFT_INK,
                Anchor::End,
            );
        }
        top += ROW;
    }
    let legend = "Blue: a step of the longest order, with its number. Orange: cannot follow; the strong one had to.";
    scene.fill(
        Area::new(0.0, top, f64::from(WIDTH), top + ROW + 8.0),
        PAPER,
    );
    scene.text(
        at(12.0, top + ROW / 2.0 + 4.0),
        legend,
        SIZE - 1.0,
        SOFT_INK,
        Anchor::Start,
    );
    // Some tens of rows.
    scene.height = (top + ROW + 12.0) as u32;
    scene
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(invoked: u64, completed: Option<u64>, client: &str, call: &str) -> Placed {
        Placed {
            invoked,
            completed,
            client: client.to_owned(),
            call: call.to_owned(),
        }
    }

    fn impasse(name: &str) -> Impasse {
        Impasse {
            part: Some(name.to_owned()),
            explained: 99_000,
            operations: 100_000,
            prefix: (0..64)
                .map(|at| placed(at * 2, Some(at * 2 + 1), name, "write 1"))
                .collect(),
            state: name.to_owned(),
            cannot_follow: (0..64)
                .map(|at| placed(200 + at, (at > 0).then_some(300 + at), name, name))
                .collect(),
        }
    }

    #[test]
    fn hostile_names_stay_text_and_the_page_stays_small() {
        let evil = "</text></td><script>alert(1)</script>\"' onload=x\u{202e}";
        let impasses = vec![impasse(evil); 20];
        let page = impasse_page(evil, "register", evil, &impasses);
        assert!(!page.contains("<script") && !page.contains('\u{202e}'));
        assert!(page.contains("&lt;script&gt;"));
        assert!(page.len() < 1 << 20, "{} bytes", page.len());
    }

    #[test]
    fn it_says_how_far_the_order_gets_and_what_cannot_follow() {
        let page = impasse_page("a.jsonl", "register", "invalid: x", &[impasse("k7")]);
        for told in [
            "Key k7",
            "holds 99,000 of 100,000 operations",
            "k7 by k7 had to follow, and cannot.",
            "<td>99,000</td>",
            "44 more operations not shown here.",
            "no answer",
            "<svg",
        ] {
            assert!(page.contains(told), "{told}");
        }
        let none = impasse_page("a.jsonl", "register", "valid", &[]);
        assert!(none.contains("nothing to show") && !none.contains("<svg"));
    }
}
