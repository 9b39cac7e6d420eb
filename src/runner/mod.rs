//! Carries effects out: apply, gate, send, collect; turns answers into messages.
//!
//! [`Driver`] owns a session's state and its files, and is what the screen and the shell drive.
//! Below it, [`observer`] looks at the cluster and writes facts, [`work`] runs one effect after another.

pub mod acting;
pub mod applying;
pub mod autopilot;
mod clearing;
mod drift;
pub mod driver;
pub mod errand;
pub mod expected;
pub mod facts;
pub mod fault;
pub mod gate;
pub mod looking;
pub mod matchers;
pub mod observer;
pub mod releases;
pub mod sending;
pub mod trace;
mod waiting;
pub mod work;
