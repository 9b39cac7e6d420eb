//! Ledger and destination: new rows, changes of claims, and Workflows that ended without a row.

use super::Task;
use crate::runner::facts::{self, Place};

impl Task {
    pub(super) async fn look_at_ledger(&mut self) {
        if !self.places_arrivals() {
            return;
        }
        let Some(destination) = self.destination().await else {
            return;
        };
        let ended = std::mem::take(&mut self.ended);
        let records = if destination {
            self.cluster.records(self.records_read).await
        } else {
            Ok(Vec::new())
        };
        let (view, records) = match (self.cluster.ledger_from(self.ledger_read).await, records) {
            (Ok(view), Ok(records)) => (view, records),
            (Err(error), _) | (_, Err(error)) => {
                tracing::debug!(%error, "the ledger was not read");
                self.ended.extend(ended);
                return;
            }
        };
        let before = (self.ledger_read, self.records_read);
        for row in &view.attempts {
            self.placed_by_trace(&row.arrival, Some(&row.trace)).await;
        }
        let mut new = Vec::new();
        for row in records {
            self.records_read = self.records_read.max(row.seq);
            self.executions_with_rows.insert(row.workflow_uid.clone());
            if let Some(arrival) = self.arrival(&row.arrival).await {
                new.push(facts::destination_record(
                    &arrival,
                    &row,
                    self.cluster.namespace(),
                ));
            }
        }
        for row in view.transitions {
            self.ledger_read.transitions = self.ledger_read.transitions.max(row.seq);
            if let Some(place) = self.place_of_claim(&row.workflow_uid) {
                new.push(facts::claim_changed(&place, &row));
            }
        }
        for row in view.attempts {
            self.ledger_read.attempts = self.ledger_read.attempts.max(row.seq);
            self.executions_with_rows.insert(row.workflow_uid.clone());
            if let Some(arrival) = self.arrival(&row.arrival).await {
                new.push(facts::ledger_attempt(&arrival, &row));
            }
        }
        for row in view.effects {
            self.ledger_read.effects = self.ledger_read.effects.max(row.seq);
            self.executions_with_rows.insert(row.workflow_uid.clone());
            if let Some(arrival) = self.arrival(&row.arrival).await {
                new.push(facts::ledger_effect(&arrival, &row));
            }
        }
        if !self.places_arrivals() {
            // The bus went away meanwhile: these rows are read again.
            (self.ledger_read, self.records_read) = before;
            self.ended.extend(ended);
            self.write(new);
            return;
        }
        self.claims_read = true;
        for (uid, id) in ended {
            if self.executions_with_rows.contains(&uid) {
                continue;
            }
            if let Some(arrival) = self.arrival(&id).await {
                new.push(facts::no_effect(&arrival, &uid, self.ledger_read.attempts));
            }
        }
        self.write(new);
    }

    /// Rows of arrivals that nobody can place yet would be passed over.
    fn places_arrivals(&self) -> bool {
        self.bus_read || self.cluster.by_log_alone().is_some()
    }

    /// Whether there is a destination. Until that is known, nobody knows that a run has left nothing there.
    async fn destination(&mut self) -> Option<bool> {
        if self.destination.is_none() {
            match self.cluster.has_destination().await {
                Ok(there) => self.destination = Some(there),
                Err(error) => tracing::debug!(%error, "the destination was not looked for"),
            }
        }
        self.destination
    }

    /// A change of a claim belongs where its run belongs; one by hand or by a relay, to where the session stands.
    pub(super) fn place_of_claim(&self, uid: &str) -> Option<Place> {
        let own = self.executions.get(uid).cloned();
        own.or_else(|| {
            let focus = self.focus.as_ref().filter(|_| self.claims_read)?;
            Some(focus.place.clone())
        })
    }
}
