//! Linearizability: is there an order of atomic steps that explains what was answered?
//!
//! A [`Model`] says what an object does, one call at a time. [`check`] takes a history apart into the model's
//! independent parts (keys), decides each one exactly, all cores at once, and says of each part that has no such order
//! how far one can get.
//!
//! # A model of one's own
//!
//! A counter that is added to and read, with a history that no counter can have: a read finds 1 although both additions
//! were over.
//!
//! ```
//! use fencepost_checker::history::History;
//! use fencepost_checker::linearizability::{Answer, Limits, Model, Recorded, Unfit, check};
//!
//! struct Counter;
//!
//! #[derive(Clone, Debug, Eq, Hash, PartialEq)]
//! enum Call {
//!     Add(i64),
//!     Read(i64),
//! }
//!
//! impl Model for Counter {
//!     type State = i64;
//!     type Call = Call;
//!
//!     fn call(&mut self, recorded: Recorded<'_>) -> Result<Option<Call>, Unfit> {
//!         let number = recorded.value().and_then(serde_json::Value::as_i64);
//!         match (recorded.f(), number) {
//!             _ if recorded.is_failed() => Ok(None),
//!             ("add", Some(number)) => Ok(Some(Call::Add(number))),
//!             ("read", _) if recorded.is_unknown() => Ok(None),
//!             ("read", Some(number)) => Ok(Some(Call::Read(number))),
//!             _ => Err(recorded.unfit("counter", "it has add and read, with whole numbers")),
//!         }
//!     }
//!
//!     fn initial(&self) -> i64 {
//!         0
//!     }
//!
//!     fn step(&self, &sum: &i64, call: &Call) -> Option<i64> {
//!         match *call {
//!             Call::Add(number) => sum.checked_add(number),
//!             Call::Read(found) => (found == sum).then_some(sum),
//!         }
//!     }
//! }
//!
//! let recording = br#"
//! {"index":0,"time":0,"process":1,"type":"invoke","f":"add","value":1}
//! {"index":1,"time":1,"process":2,"type":"invoke","f":"add","value":1}
//! {"index":2,"time":2,"process":1,"type":"ok","f":"add"}
//! {"index":3,"time":3,"process":2,"type":"ok","f":"add"}
//! {"index":4,"time":4,"process":1,"type":"invoke","f":"read"}
//! {"index":5,"time":5,"process":1,"type":"ok","f":"read","value":1}
//! "#;
//! let history = History::read(recording)?;
//! let decided = check(Counter, &history, &Limits::default())?;
//!
//! let Answer::Illegal { impasse, .. } = &decided.parts[0].answer else { panic!("a counter lost an addition") };
//! assert_eq!((impasse.explained, impasse.state.as_str()), (2, "2"));
//! assert_eq!(impasse.cannot_follow[0].call, "Read(1)");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | noun |
//! |---|---|
//! | `model.rs` | the trait; what a model may promise so that less is tried |
//! | `entry.rs` | a call and the time in which it may have happened |
//! | `limits.rs` | where a search stops without an answer |
//! | `parts.rs` | a history taken apart; the parts decided, all cores at once |
//! | `timeline.rs` | a part's calls as a line of events |
//! | `search.rs` | the search |
//! | `memo.rs` | where it has been |
//! | `impasse.rs` | how far it got |
//! | `finding.rs` | what was decided, as findings |
//! | `zones.rs` | a register of unique values, decided without it |
//! | `chain.rs` | what only grows, decided without it |

pub(crate) mod chain;
mod entry;
mod finding;
mod impasse;
mod limits;
mod memo;
mod model;
mod parts;
mod search;
mod timeline;
pub(crate) mod zones;

pub(crate) use finding::{SHOWN, Verdicts};

pub use entry::{Conflict, Entry};
pub use impasse::{Impasse, Placed};
pub use limits::{Exhausted, Limits};
pub use model::{Effect, Model, Recorded, Trace, Unfit};
pub use parts::{Answer, Decided, Part, check, search};
