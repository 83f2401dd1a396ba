//! The race probe: what a resource does for each rule of the fence, asked of it alone. There is no lock service: tokens
//! are made up, in order.
//!
//! | file | noun |
//! |---|---|
//! | `subject.rs` | the resource that is asked, started here or reached at an address |
//! | `notes.rs` | everything that was asked and answered, as a history that the checker judges |
//! | `rules.rs` | the questions, one a rule |
//!
//! Each round has a key that nobody has touched. A rule is broken by what was answered, not by what was expected of it:
//! an answer that nobody has is none.

mod notes;
mod rules;
mod subject;

pub use notes::Notes;
pub use rules::{Answer, Rule, ask};
pub use subject::Subject;
