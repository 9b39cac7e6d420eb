//! The lab session as a pure state machine, `update(state, message) -> effects`, its checkpoint and its files.
//!
//! [`State::update`] decides; the runner carries [`Effect`]s out and answers with [`Message`]s; the screen draws [`State`].

pub mod message;
pub mod state;

pub use message::{Effect, Message};
pub use state::{StagePhase, State};
