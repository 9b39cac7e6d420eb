//! Proven, refuted or unproven: the three rules.

use serde::{Deserialize, Serialize};

/// The three outcomes; `Unproven` is never shown as a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Proven,
    Refuted,
    Unproven,
}

/// An answer to one claim, with the facts it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub outcome: Outcome,
    /// What was claimed, for example `flat was rejected by the filter: no such path`.
    pub claim: String,
    /// Why it is not proven, or what contradicts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// `seq` of the facts.
    pub facts: Vec<u64>,
}
