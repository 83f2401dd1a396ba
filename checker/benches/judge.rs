//! How fast the judge is, as ratios within one run: `cargo bench -p fencepost-checker`. One section a file.
// A benchmark needs the clock that the judge has not.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

#[path = "../tests/foreign/mod.rs"]
mod foreign;
#[path = "judge/search.rs"]
mod search;

fn main() {
    search::section();
}
