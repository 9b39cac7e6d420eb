//! What ledger and destination have written down.

use super::{Arrival, Place, plain};
use crate::cluster::{AttemptRow, Books, EffectRow, RecordRow, TransitionRow};
use crate::evidence::{Fact, Layer, Observation, OrderExpectation};
use crate::words::counted;

/// An attempt row of the ledger.
#[must_use]
pub fn ledger_attempt(arrival: &Arrival, row: &AttemptRow) -> Fact {
    let line = format!(
        "attempt {}: order {}, {} cents, workflow {}, arrival {}: {}{}",
        row.seq,
        row.order_id,
        row.amount_cents,
        row.workflow_uid,
        row.arrival,
        row.outcome,
        at_clock(&row.clock)
    );
    let observation = Observation::LedgerAttempt {
        outcome: row.outcome.clone(),
        amount_cents: row.amount_cents,
    };
    ledger_fact(
        arrival,
        observation,
        line,
        &row.workflow_uid,
        &row.order_id,
        "eventlab ledger attempts",
    )
}

/// An effect row of the ledger.
#[must_use]
pub fn ledger_effect(arrival: &Arrival, row: &EffectRow) -> Fact {
    let line = format!(
        "effect {}: order {}, +{} cents, workflow {}, arrival {}{}",
        row.seq,
        row.order_id,
        row.amount_cents,
        row.workflow_uid,
        row.arrival,
        at_clock(&row.clock)
    );
    let observation = Observation::LedgerEffect {
        amount_cents: row.amount_cents,
        row: row.seq,
    };
    ledger_fact(
        arrival,
        observation,
        line,
        &row.workflow_uid,
        &row.order_id,
        "eventlab ledger show",
    )
}

/// Ledger time, where the row has one.
fn at_clock(clock: &str) -> String {
    if clock.is_empty() {
        String::new()
    } else {
        format!(", ledger time {clock}")
    }
}

/// An entry at the destination.
#[must_use]
pub fn destination_record(arrival: &Arrival, row: &RecordRow, namespace: &str) -> Fact {
    let line = format!(
        "destination record {}: {}, {} cents, workflow {}, arrival {}",
        row.reference, row.source_id, row.amount_cents, row.workflow_uid, row.arrival
    );
    let observation = Observation::DestinationRecord {
        reference: row.reference.clone(),
        amount_cents: row.amount_cents,
    };
    let command = format!(
        "kubectl -n {namespace} port-forward service/crm 8080 & curl -s http://127.0.0.1:8080/admin/entries"
    );
    let fact = arrival.fact(Layer::Effect, observation, "destination", line, command);
    Fact {
        execution: Some(row.workflow_uid.clone()),
        business_key: Some(row.order_id.clone()),
        ..fact
    }
}

/// A change of a claim.
#[must_use]
pub fn claim_changed(place: &Place, row: &TransitionRow) -> Fact {
    let reference = if row.reference.is_empty() {
        String::new()
    } else {
        format!(", reference {}", row.reference)
    };
    let line = format!(
        "claim {} {}: {}{reference}, workflow {}: {}{}",
        row.order_id,
        row.action,
        row.state,
        row.workflow_uid,
        row.detail,
        at_clock(&row.clock)
    );
    let observation = Observation::ClaimChanged {
        action: row.action.clone(),
        state: row.state.clone(),
        reference: row.reference.clone(),
    };
    let fact = plain(
        place,
        Layer::Effect,
        observation,
        "ledger",
        line,
        "eventlab ledger claims".to_owned(),
    );
    Fact {
        execution: Some(row.workflow_uid.clone()),
        business_key: Some(row.order_id.clone()),
        ..fact
    }
}

/// What stands about an order, in ledger and destination.
#[must_use]
pub fn order_state(place: &Place, order: &OrderExpectation, books: &Books) -> Fact {
    let (id, action) = (&order.order, &order.action);
    let attempts = books.attempts_of(id, action);
    let effects = books.effects_of(id, action);
    let records = books.records_of(id, action);
    let claim = books.claim(id, action).map(str::to_owned);
    let at_destination = records.map_or(String::new(), |count| {
        format!(", {count} at the destination")
    });
    let line = format!(
        "order {id} {action}: {}, {} in the ledger{at_destination}, claim {}",
        counted(attempts, "attempt"),
        counted(effects, "effect"),
        claim.as_deref().unwrap_or("none")
    );
    let observation = Observation::OrderState {
        order: id.clone(),
        action: action.clone(),
        attempts,
        effects,
        records,
        claim,
    };
    let command = "eventlab ledger show".to_owned();
    let fact = plain(place, Layer::Effect, observation, "ledger", line, command);
    Fact {
        business_key: Some(id.clone()),
        ..fact
    }
}

/// The rows were read whole after the Workflow ended, and none names it.
#[must_use]
pub fn no_effect(arrival: &Arrival, uid: &str, last_attempt: u64) -> Fact {
    let line = format!("no row up to attempt {last_attempt} names workflow {uid}");
    let fact = arrival.fact(
        Layer::Effect,
        Observation::NoEffect,
        "ledger",
        line,
        "eventlab ledger attempts".to_owned(),
    );
    Fact {
        execution: Some(uid.to_owned()),
        ..fact
    }
}

fn ledger_fact(
    arrival: &Arrival,
    observation: Observation,
    line: String,
    uid: &str,
    key: &str,
    command: &str,
) -> Fact {
    let fact = arrival.fact(
        Layer::Effect,
        observation,
        "ledger",
        line,
        command.to_owned(),
    );
    Fact {
        execution: Some(uid.to_owned()),
        business_key: Some(key.to_owned()),
        ..fact
    }
}
