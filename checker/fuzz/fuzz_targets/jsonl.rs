//! Any bytes as `history.jsonl`: read or refused, and judged the same twice; no panic.
#![no_main]

use fencepost_checker::history::History;
use fencepost_checker::{Model, judge};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(history) = History::read(bytes) {
        for model in [Model::Fencing, Model::FencedRegister] {
            assert_eq!(judge(&history, model), judge(&history, model));
        }
    }
});
