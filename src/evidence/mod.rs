//! Layers, facts, correlation and verdict rules. Pure: no I/O.
//!
//! [`Fact`] is one observation; [`table`] turns the facts of an attempt into one [`Row`] a probe;
//! [`verdict`] holds the rules that turn rows into proven, refuted or unproven.

pub mod access;
mod cells;
pub mod fact;
pub mod journal;
pub mod layer;
pub mod matrix;
pub mod orders;
pub mod reason;
pub mod redact;
pub mod table;
#[cfg(test)]
pub(crate) mod testing;
mod trail;
pub mod verdict;

pub use access::{AccessExpectation, AccessRow, Right, access_table, judge_access};
pub use fact::{Fact, Observation, PodInstance};
pub use journal::Entry;
pub use layer::{Fate, Layer, Reason};
pub use matrix::{MatrixLine, matrix_line};
pub use orders::{OrderExpectation, judge_orders};
pub use table::{Cell, CellState, Counters, ProbeRun, Row, counters, rows};
pub use trail::{Scope, is_session_trace, trace_id};
pub use verdict::{
    Expectation, Occasion, Outcome, Verdict, is_decided, judge, stays_as_it_was, was_hindered,
};
