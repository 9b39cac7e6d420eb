//! The ledger's read-only view, through its Service.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Cluster, LookError};

const SERVICE: &str = "order-ledger";
const PORT: u16 = 8080;
/// The external system that stands at the end of a delivery.
const DESTINATION: &str = "crm";
/// Rows in a full page, the ledger's own limit.
const PAGE: usize = 1000;

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
    /// `applied`, `duplicate`, `conflict`, `unresolved`, `busy`, `failed`, `refused`.
    pub outcome: String,
    /// Ledger time.
    #[serde(default)]
    pub clock: String,
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
    /// Ledger time.
    #[serde(default)]
    pub clock: String,
}

/// A change of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TransitionRow {
    pub seq: u64,
    pub order_id: String,
    pub action: String,
    pub state: String,
    pub workflow_uid: String,
    #[serde(default)]
    pub reference: String,
    #[serde(default)]
    pub detail: String,
    #[serde(default)]
    pub clock: String,
}

/// A claim as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ClaimRow {
    pub seq: u64,
    pub order_id: String,
    pub action: String,
    pub amount_cents: i64,
    pub state: String,
    #[serde(default)]
    pub reference: String,
    #[serde(default)]
    pub detail: String,
    pub workflow_uid: String,
    pub arrival: String,
    #[serde(default)]
    pub clock: String,
}

/// An entry at the destination.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RecordRow {
    pub seq: u64,
    pub reference: String,
    /// `ORDER:ACTION`.
    pub source_id: String,
    pub order_id: String,
    pub amount_cents: i64,
    #[serde(default)]
    pub workflow_uid: String,
    #[serde(default)]
    pub arrival: String,
}

/// Rows after a sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerView {
    pub attempts: Vec<AttemptRow>,
    pub effects: Vec<EffectRow>,
    pub transitions: Vec<TransitionRow>,
}

/// Sequences up to which the rows of a [`LedgerView`] are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerPosition {
    pub attempts: u64,
    pub effects: u64,
    pub transitions: u64,
}

/// Ledger and destination, read whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Books {
    pub attempts: Vec<AttemptRow>,
    pub effects: Vec<EffectRow>,
    pub claims: Vec<ClaimRow>,
    /// `None` where there is no destination.
    pub records: Option<Vec<RecordRow>>,
}

impl Books {
    /// How many runs of an order and action left a row.
    #[must_use]
    pub fn attempts_of(&self, order: &str, action: &str) -> u64 {
        let of = |row: &&AttemptRow| row.order_id == order && row.action == action;
        self.attempts.iter().filter(of).count() as u64
    }

    /// How many effects an order and action has.
    #[must_use]
    pub fn effects_of(&self, order: &str, action: &str) -> u64 {
        let of = |row: &&EffectRow| row.order_id == order && row.action == action;
        self.effects.iter().filter(of).count() as u64
    }

    /// How many entries an order and action has at the destination.
    #[must_use]
    pub fn records_of(&self, order: &str, action: &str) -> Option<u64> {
        let source = format!("{order}:{action}");
        let records = self.records.as_ref()?;
        Some(records.iter().filter(|row| row.source_id == source).count() as u64)
    }

    /// The state of the claim on an order and action.
    #[must_use]
    pub fn claim(&self, order: &str, action: &str) -> Option<&str> {
        self.claims
            .iter()
            .rev()
            .find(|row| row.order_id == order && row.action == action)
            .map(|row| row.state.as_str())
    }
}

trait Sequence {
    fn seq(&self) -> u64;
}

macro_rules! sequence {
    ($($row:ty),*) => { $(impl Sequence for $row { fn seq(&self) -> u64 { self.seq } })* };
}

sequence!(AttemptRow, EffectRow, TransitionRow, ClaimRow, RecordRow);

impl Cluster {
    /// Attempt and effect rows after the given sequences.
    ///
    /// # Errors
    /// [`LookError`] while the view cannot be reached.
    pub async fn ledger(&self, after: LedgerPosition) -> Result<LedgerView, LookError> {
        Ok(LedgerView {
            attempts: self.pages(SERVICE, "/attempts", after.attempts).await?,
            effects: self.pages(SERVICE, "/effects", after.effects).await?,
            transitions: self
                .pages(SERVICE, "/transitions", after.transitions)
                .await?,
        })
    }

    /// As [`Cluster::ledger`], going on where rows were read before.
    ///
    /// # Errors
    /// As there, and when the last attempt that was read is not there any more.
    pub async fn ledger_from(&self, read: LedgerPosition) -> Result<LedgerView, LookError> {
        let known = read.attempts;
        let mut view = self
            .ledger(LedgerPosition {
                attempts: known.saturating_sub(1),
                ..read
            })
            .await?;
        if known > 0 && view.attempts.first().map(|row| row.seq) != Some(known) {
            return Err(LookError::LedgerReplaced(known));
        }
        view.attempts.retain(|row| row.seq > known);
        Ok(view)
    }

    /// Whether the lab has a destination: a Service named `crm`.
    ///
    /// # Errors
    /// [`LookError`] while the API server does not answer.
    pub async fn has_destination(&self) -> Result<bool, LookError> {
        let api: kube::Api<k8s_openapi::api::core::v1::Service> =
            kube::Api::namespaced(self.client().clone(), self.namespace());
        api.get_opt(DESTINATION)
            .await
            .map(|service| service.is_some())
            .map_err(LookError::api("read", DESTINATION))
    }

    /// Entries at the destination after a sequence.
    ///
    /// # Errors
    /// [`LookError`] while it cannot be reached.
    pub async fn records(&self, after: u64) -> Result<Vec<RecordRow>, LookError> {
        self.pages(DESTINATION, "/admin/entries", after).await
    }

    /// Reads ledger and destination whole.
    ///
    /// # Errors
    /// [`LookError`] while one of them cannot be reached.
    pub async fn books(&self) -> Result<Books, LookError> {
        let records = if self.has_destination().await? {
            Some(self.records(0).await?)
        } else {
            None
        };
        Ok(Books {
            attempts: self.pages(SERVICE, "/attempts", 0).await?,
            effects: self.pages(SERVICE, "/effects", 0).await?,
            claims: self.pages(SERVICE, "/claims", 0).await?,
            records,
        })
    }

    /// Rows after a sequence, page by page to the last one.
    async fn pages<T: Sequence + serde::de::DeserializeOwned>(
        &self,
        service: &str,
        view: &str,
        mut after: u64,
    ) -> Result<Vec<T>, LookError> {
        let mut rows: Vec<T> = Vec::new();
        loop {
            let page: Vec<T> = self
                .get_json(service, PORT, &format!("{view}?after={after}"))
                .await?;
            let Some(last) = page.last().map(Sequence::seq).filter(|last| *last > after) else {
                return Ok(rows);
            };
            after = last;
            let full = page.len() >= PAGE;
            rows.extend(page);
            if !full {
                return Ok(rows);
            }
        }
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
