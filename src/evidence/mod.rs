//! Layers, facts, correlation and verdict rules. Pure: no I/O.
//!
//! [`Fact`] is one observation; [`table`] turns the facts of an attempt into one [`Row`] a probe;
//! [`verdict`] holds the rules that turn rows into proven, refuted or unproven.

pub mod fact;
pub mod journal;
pub mod layer;
pub mod redact;
pub mod table;
pub mod verdict;

pub use fact::{Fact, Observation, PodInstance};
pub use journal::Entry;
pub use layer::{Fate, Layer, Reason};
pub use table::{Cell, CellState, Counters, Row};
pub use verdict::{Outcome, Verdict};
