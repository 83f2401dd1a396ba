//! Any bytes as Jepsen's history.edn: read or refused, the same however they come; no panic.
#![no_main]

use fencepost_checker::history::Format;
use libfuzzer_sys::fuzz_target;

mod in_blocks;

fuzz_target!(|bytes: &[u8]| in_blocks::same(bytes, Format::Edn));
