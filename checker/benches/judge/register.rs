//! The exact check of a fenced register, in memory, on one core.

use fencepost_checker::verdict::Verdict;
use fencepost_checker::{Model, judge};

use super::{Row, SHAPES, busy, grouped, made, median, millions, rate};

pub fn measure(tell: &mut dyn FnMut(Row)) {
    for operations in [1_000_000, 10_000_000] {
        for &(shape, clients, keys, locks) in SHAPES {
            let history = made(operations, clients, keys, locks);
            let mut judged = Vec::new();
            let mut passes = Vec::new();
            for _ in 0..3 {
                let (time, judgement) = busy(|| judge(&history, Model::FencedRegister));
                assert_eq!(judgement.verdict, Verdict::Valid, "{:?}", judgement.reason);
                judged.push(time);
                let invoked = history.operations.iter().map(|op| op.invoked.index);
                passes.push(busy(|| std::hint::black_box(invoked.fold(0, u64::wrapping_add))).0);
            }
            let (judged, pass) = (median(&mut judged), median(&mut passes));
            let row = Row::new(
                format!(
                    "fenced register, {} operations, {shape}",
                    grouped(operations)
                ),
                format!(
                    "{}, {:.0} passes over the history",
                    rate(operations, judged),
                    judged.as_secs_f64() / pass.as_secs_f64()
                ),
            );
            tell(row.goal("10 million/s", millions(operations, judged) >= 10.0));
        }
    }
}
