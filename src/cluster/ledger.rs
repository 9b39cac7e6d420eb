//! The ledger's read-only view, through its Service.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Cluster, LookError};

const SERVICE: &str = "order-ledger";
const PORT: u16 = 8080;

/// One run of `ledger apply`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AttemptRow {
    pub seq: u64,
    pub order_id: String,
    #[serde(default)]
    pub action: String,
    pub amount_cents: i64,
    pub arrival: String,
    #[serde(default)]
    pub trace: String,
    pub workflow_uid: String,
    /// `applied`, `duplicate`, `conflict`.
    pub outcome: String,
}

/// One business effect.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct EffectRow {
    pub seq: u64,
    pub order_id: String,
    #[serde(default)]
    pub action: String,
    pub amount_cents: i64,
    pub arrival: String,
    pub workflow_uid: String,
}

/// Rows after a sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerView {
    pub attempts: Vec<AttemptRow>,
    pub effects: Vec<EffectRow>,
}

impl Cluster {
    /// Attempt and effect rows after the given sequences.
    ///
    /// # Errors
    /// [`LookError`] while the view cannot be reached.
    pub async fn ledger(
        &self,
        attempts_after: u64,
        effects_after: u64,
    ) -> Result<LedgerView, LookError> {
        let attempts = self
            .get_json(SERVICE, PORT, &format!("/attempts?after={attempts_after}"))
            .await?;
        let effects = self
            .get_json(SERVICE, PORT, &format!("/effects?after={effects_after}"))
            .await?;
        Ok(LedgerView { attempts, effects })
    }

    /// The JSON that the view answers to a path and query, as it came.
    ///
    /// # Errors
    /// [`LookError`] while the view cannot be reached.
    pub async fn ledger_view(&self, path: &str) -> Result<String, LookError> {
        let answer: Box<RawValue> = self.get_json(SERVICE, PORT, path).await?;
        Ok(answer.get().to_owned())
    }
}
