//! Any text as a suite: read or refused in one line; what is read survives being written and read again; no panic.
#![no_main]

use fencepost_workloads::suite::Suite;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Suite::parse(text, "fuzz") {
        Ok(suite) => {
            let written = serde_json::to_string(&suite).expect("plain data");
            assert_eq!(serde_json::from_str::<Suite>(&written).expect("its own words"), suite);
        }
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
});
