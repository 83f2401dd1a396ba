//! The service as its clients see it: over HTTP, on a loopback port of its own.
//!
//! Promises: each file states one part of the contract. Does not test the writer's batches or the
//! store by themselves; those tests stand beside the code.

mod service;

mod bad_requests;
mod concurrent_writers;
mod fence;
mod observed;
mod restart;
