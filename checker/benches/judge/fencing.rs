//! All findings together, in memory.

use fencepost_checker::verdict::Verdict;
use fencepost_checker::{Model, judge};

use super::{Row, SHAPES, grouped, made, median, rate, timed};

pub fn measure(tell: &mut dyn FnMut(Row)) {
    let operations = 1_000_000;
    for &(shape, clients, keys, locks) in SHAPES {
        let history = made(operations, clients, keys, locks);
        let mut judged = Vec::new();
        let mut registers = Vec::new();
        for _ in 0..3 {
            let (time, judgement) = timed(|| judge(&history, Model::Fencing));
            assert_eq!(judgement.verdict, Verdict::Valid, "{:?}", judgement.reason);
            judged.push(time);
            registers.push(timed(|| judge(&history, Model::FencedRegister)).0);
        }
        let (judged, register) = (median(&mut judged), median(&mut registers));
        tell(Row {
            figure: format!("all findings, {} operations, {shape}", grouped(operations)),
            value: format!(
                "{}, {:.1} times the register alone",
                rate(operations, judged),
                judged.as_secs_f64() / register.as_secs_f64()
            ),
            goal: "4 million/s",
        });
    }
}
