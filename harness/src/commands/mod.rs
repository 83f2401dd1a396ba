//! The verbs, one a file. Each returns its exit status, or the failure that `main` turns into a message and a status.

pub mod attach;
pub mod check;
pub mod doctor;
pub mod generate;
pub mod heal;
pub mod image;
pub mod list;
pub mod probe;
pub mod report;
pub mod run;
pub mod selftest;
pub mod serve;
