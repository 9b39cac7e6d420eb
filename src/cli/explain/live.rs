//! A Sensor that runs: what its pod carries, against what the Sensor says.

use jiff::Timestamp;
use serde_json::Value;

use super::super::exit::Failure;
use super::super::place::Place;
use super::LiveArgs;
use crate::report::explain::{Live, Sensor};

/// What runs.
pub(super) struct Running {
    /// The EventSources of its dependencies, as far as they can be read.
    pub objects: Vec<(String, Value)>,
    pub sensors: Vec<Sensor>,
    pub live: Live,
}

pub(super) async fn read(_: &Place, _: &LiveArgs, _: Timestamp) -> Result<Running, Failure> {
    Err(Failure::environment("--live is not there yet"))
}
