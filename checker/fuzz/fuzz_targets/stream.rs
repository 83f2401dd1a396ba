//! Any bytes as `history.jsonl`, in blocks: what comes out is what comes out of the whole; no panic.
#![no_main]

use fencepost_checker::history::Format;
use libfuzzer_sys::fuzz_target;

mod in_blocks;

fuzz_target!(|bytes: &[u8]| in_blocks::same(bytes, Format::Jsonl));
