//! The state of a session and its transitions.

/// Where a stage stands.
#[derive(Clone, Debug, PartialEq)]
pub enum StagePhase {
    /// Nothing done yet.
    Fresh,
}

/// Everything the screen shows and the checkpoint keeps.
#[derive(Clone, Debug, Default)]
pub struct State;
