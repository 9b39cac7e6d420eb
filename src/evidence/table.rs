//! The probe table: one row a probe, one cell a layer.

use serde::{Deserialize, Serialize};

use super::layer::{Fate, Layer, Reason};

/// State of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellState {
    /// Its own fact.
    Yes,
    /// A later fact of the same arrival.
    Implied,
    /// A negative fact with its line.
    No,
    /// Something may still come.
    Pending,
    /// Nothing is known.
    Unknown,
}

/// One cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub state: CellState,
    pub reason: Option<Reason>,
    /// Short text for the table: `200`, `no such path`, `Succeeded`, `+1`, `duplicate`.
    pub text: String,
    /// `seq` of its facts.
    pub facts: Vec<u64>,
}

/// One probe through all layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The probe's name, or `yours` for a request that the learner sent by hand.
    pub probe: String,
    pub trace: Option<String>,
    pub arrival: Option<String>,
    pub cells: [Cell; 7],
    /// The fate as observed, once it is settled.
    pub fate: Option<Fate>,
    /// For a row that stopped without a `no`: the last layer known, and the first that is not.
    pub unproven_between: Option<(Option<Layer>, Layer)>,
}

/// The four counters, which stay apart everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    pub intakes: u64,
    /// Distinct arrival ids that were submitted or refused at submit.
    pub approved: u64,
    pub completed: u64,
    pub effects: u64,
}
