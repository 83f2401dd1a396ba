//! Judges a recorded history of locks, fencing tokens and writes.
//!
//! One question: *did at most one writer succeed per token epoch?* The answer comes from the recording alone. This
//! crate has no clock, opens no file or socket, starts nothing and is not async, so a saved history gives the same
//! verdict everywhere, as often as it is asked.
//!
//! # What is decided, and what is not
//!
//! - [`judge`] proves violations. Each [`finding::Finding`] carries the operations that prove it and a story.
//! - *Valid* means that no rule of [`fencing::FINDINGS`] was broken by what the file holds. It says nothing about
//!   what did not happen; [`verdict::Coverage`] says how far the fence was exercised.
//! - Only what *precedes* counts: A precedes B when A's completion stands before B's invocation. Operations that
//!   overlap prove nothing about each other, and an unknown outcome may take effect at any later moment or never.
//! - Keys that are no plain registers (appends, compare-and-set, values written twice) are judged by the fencing
//!   rules, but by the exact check only up to there; so are keys on which something other than a write raises the high
//!   water. [`verdict::Stats::not_judged`] names them.
//! - What the beginning of a recording proves, the whole of it proves: no later line takes a violation back.
//! - A history without operations is no evidence, and *unknown*.
//!
//! # Example
//!
//! A holder with token 1 is paused, its successor writes with token 2, and the old write is accepted all the same:
//!
//! ```
//! use fencepost_checker::history::History;
//! use fencepost_checker::{Model, judge};
//! use fencepost_checker::verdict::Verdict;
//!
//! let recording = br#"
//! {"index":0,"time":0,"process":1,"client":"c1","type":"invoke","f":"acquire","lock":"L"}
//! {"index":1,"time":1000000,"process":1,"client":"c1","type":"ok","f":"acquire","token":1}
//! {"index":2,"time":5000000,"process":2,"client":"c2","type":"invoke","f":"acquire","lock":"L"}
//! {"index":3,"time":6000000,"process":2,"client":"c2","type":"ok","f":"acquire","token":2}
//! {"index":4,"time":7000000,"process":2,"client":"c2","type":"invoke","f":"write","lock":"L","key":"k","token":2,"value":"new"}
//! {"index":5,"time":8000000,"process":2,"client":"c2","type":"ok","f":"write"}
//! {"index":6,"time":9000000,"process":1,"client":"c1","type":"invoke","f":"write","lock":"L","key":"k","token":1,"value":"old"}
//! {"index":7,"time":9500000,"process":1,"client":"c1","type":"ok","f":"write"}
//! "#;
//! let history = History::read(recording)?;
//! let judgement = judge(&history, Model::Fencing);
//!
//! assert_eq!(judgement.verdict, Verdict::Invalid);
//! assert_eq!(judgement.reason.as_deref(), Some("stale-write-accepted on key k"));
//! assert_eq!(judgement.findings[0].events, [4, 5, 6, 7]);
//! assert!(judgement.findings[0].story.contains("token 1 was stale and had to be refused"));
//! # Ok::<(), fencepost_checker::history::HistoryError>(())
//! ```
//!
//! # Map
//!
//! | module | what it holds |
//! |---|---|
//! | [`history`] | events, operations and fault windows; reading and writing `history.jsonl` |
//! | [`fencing`] | the rules, one file a family, and the exact check of a fenced register |
//! | [`online`] | the same verdict while events stream in, in bounded memory |
//! | [`generate`] | histories that are made: of systems that keep their promises, or break one |
//! | [`models`] | what a history can be judged as, one object a file |
//! | [`linearizability`] | is there an order of atomic steps? The search, and the trait for models of one's own |
//! | `judge` | start here: rules, coverage and denominators become a verdict |
//! | `coverage`, `census` | zombie writes and faults against the plan; how many there are of what |
//! | [`finding`], [`verdict`] | the answer, as `verdict.json` has it |
//! | `object` | what is read from an object, or from a word, and from nothing else |

mod census;
mod coverage;
pub mod fencing;
pub mod finding;
pub mod generate;
pub mod history;
mod judge;
pub mod linearizability;
pub mod models;
mod object;
pub mod online;
#[cfg(test)]
mod scenario;
pub mod verdict;

pub use judge::{Options, impasses, judge, judge_within};
pub use models::{MODELS, Model};
