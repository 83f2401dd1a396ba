//! `hot-retry`: a holder sends a refused token again and again without a pause.
//!
//! After a definite refusal the same token can never succeed. Silent about writes that were on their way together
//! when the first refusal came: those are no retries. Silent where the file tells no times.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::case::Case;
use super::kinds::Kind;
use super::story::{self, Scene};
use super::{Draft, HOT_RETRY};
use crate::history::{Name, Operation, Token};

/// The gap, in nanoseconds, that a retry must keep to the refusal before it.
const HOT_NS: u64 = 10_000_000;

/// How many refusals in a row make a finding.
const ENOUGH: usize = 5;

type Holding = (Name, Option<Name>, Option<Token>);

/// A refusal as part of a row.
#[derive(Clone, Copy, Debug)]
struct Link {
    before: Option<usize>,
    first: usize,
    depth: usize,
}

/// One finding a lock, counting the rows of at least five refusals. O(n).
pub(crate) fn hot_retries(case: &Case<'_>) -> Vec<Draft> {
    if case.history.untimed {
        return Vec::new();
    }
    let mut last: HashMap<Holding, usize> = HashMap::new();
    let mut links: HashMap<usize, Link> = HashMap::new();
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    let mut hot: BTreeMap<Option<Name>, (u64, usize)> = BTreeMap::new();
    for moment in case.walk(Kind::REFUSAL) {
        let operation = case.operation(moment.op);
        let holding = (operation.client, case.lock(operation), operation.token);
        if moment.returns {
            last.insert(holding, moment.op);
            continue;
        }
        let before = last
            .get(&holding)
            .copied()
            .filter(|&before| gap(case.operation(before), operation) <= HOT_NS);
        let link = match before.and_then(|before| links.get(&before)) {
            Some(parent) => Link {
                before,
                first: parent.first,
                depth: parent.depth + 1,
            },
            None => Link {
                before: None,
                first: moment.op,
                depth: 1,
            },
        };
        let length = lengths.entry(link.first).or_default();
        if link.depth == ENOUGH && *length < ENOUGH {
            hot.entry(holding.1)
                .and_modify(|known| known.0 += 1)
                .or_insert((1, moment.op));
        }
        *length = link.depth.max(*length);
        links.insert(moment.op, link);
    }
    hot.into_iter()
        .map(|(lock, (count, fifth))| {
            let length = lengths[&links[&fifth].first];
            describe(case, lock, count, &row_up_to(&links, fifth), length)
        })
        .collect()
}

/// Nanoseconds from a refusal's answer to the next write.
fn gap(refused: &Operation, next: &Operation) -> u64 {
    let answered = refused.completed.unwrap_or(refused.invoked);
    next.invoked.time.saturating_sub(answered.time)
}

fn row_up_to(links: &HashMap<usize, Link>, last: usize) -> Vec<usize> {
    let mut row: Vec<usize> =
        std::iter::successors(Some(last), |op| links.get(op)?.before).collect();
    row.reverse();
    row
}

fn describe(
    case: &Case<'_>,
    lock: Option<Name>,
    count: u64,
    row: &[usize],
    length: usize,
) -> Draft {
    let first = case.operation(row[0]);
    let gaps: Vec<String> = row
        .windows(2)
        .map(|pair| {
            let tenths = gap(case.operation(pair[0]), case.operation(pair[1])) / 100_000;
            format!("{}.{}", tenths / 10, tenths % 10)
        })
        .collect();
    let client = case.text(first.client);
    let token = first
        .token
        .map(|token| token.to_string())
        .unwrap_or_default();
    let mut ending = format!(
        "It went on with token {token}: {length} refusals in a row, each sent within 10 ms after the refusal before (at first after {} ms).\n\
         That is wrong: a refused token can never succeed again; {client} must stop and acquire anew.",
        gaps.join(", ")
    );
    if count > 1 {
        ending += &format!("\n{count} such rows were seen under this lock in all.");
    }
    let story = story::tell(case.history, vec![Scene::Happened(first)], &ending);
    let key = first
        .key
        .filter(|_| row.iter().all(|&op| case.operation(op).key == first.key));
    Draft::new(HOT_RETRY, count, row.to_vec(), story).on(lock, key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    fn findings(scenario: &Scenario) -> Vec<(u64, Vec<u64>, String)> {
        let history = scenario.history();
        let case = Case::new(&history);
        let drafts = hot_retries(&case);
        drafts
            .into_iter()
            .map(|d| (d.count, super::super::events(&case, &d.witness), d.story))
            .collect()
    }

    fn refusals(s: &mut Scenario, count: usize, pause_ms: u64) -> Vec<u64> {
        let mut events = Vec::new();
        for at in 0..count {
            events.extend(s.refused("c1", "L", "k", 40, &format!("x{at}"), Some(41)));
            s.wait_ms(pause_ms);
        }
        events
    }

    #[test]
    fn five_refusals_without_a_pause_are_a_finding() {
        let mut s = Scenario::new();
        let mut events = refusals(&mut s, 7, 0);
        events.truncate(10);
        let [(1, witness, story)] = &findings(&s)[..] else {
            panic!("one finding")
        };
        assert_eq!(witness, &events);
        let expected = "\
c1 wrote \"x0\" to key k with token 40, sent at +0.0 ms, refused as stale at +1.0 ms, high water 41.
It went on with token 40: 7 refusals in a row, each sent within 10 ms after the refusal before (at first after 1.0, 1.0, 1.0, 1.0 ms).
That is wrong: a refused token can never succeed again; c1 must stop and acquire anew.";
        assert_eq!(story, expected);
    }

    #[test]
    fn four_refusals_or_pauses_above_ten_milliseconds_are_none() {
        let mut s = Scenario::new();
        refusals(&mut s, 4, 0);
        s.wait_ms(20);
        refusals(&mut s, 9, 10);
        assert_eq!(findings(&s), []);
    }

    #[test]
    fn writes_that_were_in_flight_together_are_no_retries() {
        let mut s = Scenario::new();
        let calls: Vec<_> = (0..6)
            .map(|at| s.write_call("c1", "L", "k", 40, &format!("x{at}")))
            .collect();
        for call in calls {
            s.refuse(call, Some(41));
        }
        assert_eq!(findings(&s), []);
    }
}
