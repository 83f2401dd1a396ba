//! The race probe: what a resource does for each rule of the fence, asked of it alone. There is no lock service: tokens
//! are made up, in order.
//!
//! | file | noun |
//! |---|---|
//! | `subject.rs` | the resource that is asked, started here or reached at an address |
//! | `apart.rs` | its keys, apart from those of everybody else |
//! | `notes.rs` | everything that was asked and answered, as a history that the checker judges |
//! | `asked.rs` | two clients of the resource, whose every word is noted |
//! | `rules.rs` | the rules in their order, and what a row of the table says |
//! | `fence.rs` | the rules of one key after another: stale, equal, restarted |
//! | `races.rs` | the rules of writes at once |
//! | `numbers.rs` | the rules of tokens as numbers: compared, at the widths, huge |
//! | `wire.rs` | what only the reference resource's HTTP can be asked: tokens that are none, other paths |
//!
//! Each round has a key that nobody has touched. A rule is broken by what was answered, not by what was expected of it:
//! an answer that nobody has is none. A refusal is what the resource's own protocol calls one, and nothing else: an
//! address that answers 404 to everything refuses nothing, it does not understand.

mod apart;
mod asked;
mod fence;
mod notes;
mod numbers;
mod races;
mod rules;
mod subject;
mod wire;

pub use notes::Notes;
pub use rules::{Answer, Rule, Table, ask};
pub use subject::Subject;
