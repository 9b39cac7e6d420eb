//! The lab session as a pure state machine, `update(state, message) -> effects`, and its checkpoint.
