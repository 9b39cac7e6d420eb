//! eventlab: a terminal lab for event-driven workflows with Argo Events and Argo Workflows.
//!
//! Modules are listed from the top of the house to its bottom; an arrow (`use crate::…`) goes down only.
//! `tests/it/architecture.rs` keeps it so.

pub mod cli;
pub mod cluster;
pub mod embedded;
pub mod evidence;
pub mod kinds;
pub mod lab;
pub mod ledger;
pub mod lint;
pub mod report;
pub mod runner;
pub mod sensor;
pub mod session;
pub mod tui;
pub mod words;
