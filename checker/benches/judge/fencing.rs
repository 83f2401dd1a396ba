//! All findings together, in memory, on all cores.

use fencepost_checker::verdict::Verdict;
use fencepost_checker::{Model, judge};

use super::{Row, SHAPES, best, grouped, made, millions, rate, timed, worked};

const ROUNDS: u32 = 5;

pub fn measure(tell: &mut dyn FnMut(Row)) {
    let operations = 1_000_000;
    for &(shape, clients, keys, locks) in SHAPES {
        let history = made(operations, clients, keys, locks);
        let mut judged = Vec::new();
        let mut registers = Vec::new();
        let before = worked();
        for _ in 0..ROUNDS {
            let (time, judgement) = timed(|| judge(&history, Model::Fencing));
            assert_eq!(judgement.verdict, Verdict::Valid, "{:?}", judgement.reason);
            judged.push(time);
        }
        let processor = (worked() - before) / ROUNDS;
        for _ in 0..ROUNDS {
            registers.push(timed(|| judge(&history, Model::FencedRegister)).0);
        }
        let judged = best(&judged);
        let row = Row::new(
            format!("all findings, {} operations, {shape}", grouped(operations)),
            format!(
                "{}, {:.1} times the register alone; {} of processor time",
                rate(operations, judged),
                judged.as_secs_f64() / best(&registers).as_secs_f64(),
                rate(operations, processor),
            ),
        );
        tell(row.goal("4 million/s", millions(operations, judged) >= 4.0));
    }
}
