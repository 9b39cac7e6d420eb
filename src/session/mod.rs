//! The lab session as a pure state machine, `update(state, message) -> effects`, its checkpoint and its files.
//!
//! [`State::update`] decides; the runner carries [`Effect`]s out and answers with [`Message`]s; the screen draws [`State`].
//! [`checkpoint`] and [`files`] are the only parts that touch the disk.

mod applying;
mod checking;
pub mod checkpoint;
mod claims;
mod concluding;
pub mod files;
pub mod footer;
mod foreign;
mod losing;
pub mod message;
mod moving;
mod pipeline;
pub mod progress;
mod reset_plan;
mod resume;
mod sending;
pub mod state;
pub mod view;

pub use checkpoint::Checkpoint;
pub use claims::open_topics;
pub use files::{FilesError, SessionFiles, SessionView};
pub use footer::{Footer, Wait};
pub use message::{Context, Difference, Effect, Message, NO_SNAPSHOT, Reconcile};
pub use progress::{LabProgress, OpenReason, ProbeSend, StageFailure, StageRun};
pub use reset_plan::ResetPlan;
pub use state::{APPLIED, StagePhase, State, Step};
pub use view::{LabStanding, PredictionScore, uses_working_copy};
