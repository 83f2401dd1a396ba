//! What Fencepost asks of a system under test, and how it asks each system.
//!
//! | file | noun |
//! |---|---|
//! | [`suite`] | the file that fixes everything about a run |
//! | [`seed`] | one seed, one named random stream a consumer |
//! | [`protocol`] | the lines between the harness and a worker |
//! | [`holder`] | the pure state machine of one client |
//! | [`workload`] | which clients there are, what they do, and the final reads |
//! | [`client`] | what a lock and a resource must be able to do; `locks/` and `resources/` do it, one system a file |
//! | [`systems`] | what is known of each system: name, server, variants, feature |
//! | [`worker`] | the worker's side of the protocol |
//! | [`defects`] | what can be planted in a holder |
//!
//! Data walks one way: a workload draws operations, a worker carries them out, the harness records them.
//! Nothing here injects a fault or reads the run's clock.

pub mod client;
pub mod defects;
pub mod holder;
pub mod locks;
pub mod protocol;
pub mod resources;
pub mod seed;
pub mod suite;
pub mod systems;
pub mod worker;
pub mod workload;
