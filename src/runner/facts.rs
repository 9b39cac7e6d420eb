//! What was seen, as facts: one constructor a source, each with the command that shows it in the field.

use jiff::Timestamp;
use serde_json::Value;

use super::expected::Subscription;
use super::gate::NO_START_REASONS;
use super::matchers::LogEvent;
use crate::cluster::{
    AccessReview, AttemptRow, Books, BusMessage, EffectRow, LogLine, RecordRow, TransitionRow,
};
use crate::embedded::bus::ConsumerInfo;
use crate::evidence::{Fact, Layer, Observation, OrderExpectation, PodInstance, Right, reason};
use crate::session::message::GateCondition;
use crate::words::counted;

/// Where in the session something belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub lab: String,
    pub stage: String,
    pub attempt: u32,
    /// `None` for a request that the learner sent by hand.
    pub probe: Option<String>,
}

/// An arrival as the bus shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub id: String,
    pub trace: Option<String>,
    pub sequence: Option<u64>,
    pub place: Place,
}

impl Arrival {
    fn fact(
        &self,
        layer: Layer,
        observation: Observation,
        source: &str,
        line: String,
        command: String,
    ) -> Fact {
        Fact {
            trace: self.trace.clone(),
            arrival: Some(self.id.clone()),
            sequence: self.sequence,
            ..plain(&self.place, layer, observation, source, line, command)
        }
    }
}

fn plain(
    place: &Place,
    layer: Layer,
    observation: Observation,
    source: &str,
    line: String,
    command: String,
) -> Fact {
    Fact {
        seq: 0,
        time: Timestamp::now(),
        lab: place.lab.clone(),
        stage: place.stage.clone(),
        attempt: place.attempt,
        probe: place.probe.clone(),
        layer,
        observation,
        source: source.to_owned(),
        pod: None,
        trace: None,
        arrival: None,
        sequence: None,
        execution: None,
        business_key: None,
        line,
        command,
    }
}

/// The EventSource's answer to a probe.
#[must_use]
pub fn answer(place: &Place, trace: &str, status: u16, body: &str, command: &str) -> Fact {
    let body: String = body.chars().take(500).collect();
    let line = format!("HTTP {status} {body}");
    let observation = Observation::HttpAnswer { status, body };
    Fact {
        trace: Some(trace.to_owned()),
        ..plain(
            place,
            Layer::Intake,
            observation,
            "http",
            line,
            command.to_owned(),
        )
    }
}

/// No answer was read.
#[must_use]
pub fn answer_lost(place: &Place, trace: &str, error: &str, command: &str) -> Fact {
    let observation = Observation::AnswerLost {
        error: error.to_owned(),
    };
    Fact {
        trace: Some(trace.to_owned()),
        ..plain(
            place,
            Layer::Intake,
            observation,
            "http",
            error.to_owned(),
            command.to_owned(),
        )
    }
}

/// A message on the bus.
#[must_use]
pub fn stored(arrival: &Arrival, message: &BusMessage) -> Fact {
    let line = format!(
        "sequence {} on {}, id {}, stored {}",
        message.sequence, message.subject, message.arrival, message.time
    );
    let command = format!("nats stream get default {}", message.sequence);
    arrival.fact(
        Layer::Bus,
        Observation::Stored {
            subject: message.subject.clone(),
        },
        "bus",
        line,
        command,
    )
}

/// The stream was read to its end after the answer, and the trace is not in it.
#[must_use]
pub fn not_stored(place: &Place, trace: &str, last_sequence: u64) -> Fact {
    let line = format!("no message with this trace up to sequence {last_sequence}");
    let observation = Observation::NotStored { last_sequence };
    Fact {
        trace: Some(trace.to_owned()),
        ..plain(
            place,
            Layer::Bus,
            observation,
            "bus",
            line,
            "nats stream view default".to_owned(),
        )
    }
}

/// Nobody can judge a stored message: no consumer has its subject. `theirs` are the subjects that consumers have.
#[must_use]
pub fn no_consumer(stored: &Fact, subject: &str, theirs: &[&str]) -> Fact {
    let listed = if theirs.is_empty() {
        "there is no consumer at all".to_owned()
    } else {
        format!("those that are pulled from have {}", theirs.join(", "))
    };
    Fact {
        seq: 0,
        time: Timestamp::now(),
        layer: Layer::Ready,
        observation: Observation::NoConsumer {
            subject: subject.to_owned(),
        },
        source: "bus".to_owned(),
        line: format!("no consumer of the Sensor has the subject {subject}; {listed}"),
        command: "nats consumer report default".to_owned(),
        ..stored.clone()
    }
}

/// A condition of the gate that did not hold when the gate failed.
#[must_use]
pub fn gate(place: &Place, condition: &GateCondition) -> Fact {
    let layer = match condition.name.as_str() {
        "event source" | "intake" => Layer::Intake,
        "event bus" => Layer::Bus,
        "ledger" => Layer::Effect,
        _ => Layer::Ready,
    };
    let observation = Observation::Gate {
        condition: condition.name.clone(),
        holds: condition.holds,
    };
    plain(
        place,
        layer,
        observation,
        "gate",
        format!("{}: {}", condition.name, condition.detail),
        condition.command.clone(),
    )
}

/// State of a consumer that the present Sensor must have.
#[must_use]
pub fn consumer(place: &Place, info: &ConsumerInfo) -> Fact {
    let line = format!(
        "consumer {} on {}: made {} after sequence {}, acknowledged up to {}, {} waiting, {} pending, {} unacknowledged",
        info.durable,
        info.filter_subject,
        info.created,
        info.created_at_sequence,
        info.ack_floor_stream,
        info.num_waiting,
        info.num_pending,
        info.num_ack_pending
    );
    let observation = Observation::Consumer {
        durable: info.durable.clone(),
        subject: info.filter_subject.clone(),
        created_at_sequence: info.created_at_sequence,
        ack_floor: info.ack_floor_stream,
        waiting: info.num_waiting,
        pending: info.num_pending,
        ack_pending: info.num_ack_pending,
    };
    plain(
        &Place {
            probe: None,
            ..place.clone()
        },
        Layer::Ready,
        observation,
        "bus",
        line,
        format!("nats consumer info default {}", info.durable),
    )
}

/// Facts of a log line, one for each arrival that it names.
#[must_use]
pub fn logged(
    event: &LogEvent,
    line: &LogLine,
    arrivals: &[Arrival],
    namespace: &str,
) -> Vec<Fact> {
    arrivals
        .iter()
        .filter_map(|arrival| log_fact(event, line, arrival, namespace))
        .collect()
}

fn log_fact(event: &LogEvent, line: &LogLine, arrival: &Arrival, namespace: &str) -> Option<Fact> {
    let (layer, observation, source) = match event {
        LogEvent::Discarded { error, .. } => (
            Layer::Filter,
            Observation::Discarded {
                error: error.clone(),
            },
            "sensor log",
        ),
        LogEvent::Triggered { trigger, .. } => (
            Layer::Submit,
            Observation::Triggered {
                trigger: trigger.clone(),
            },
            "sensor log",
        ),
        LogEvent::TriggerFailed { trigger, error, .. } => (
            Layer::Submit,
            Observation::TriggerFailed {
                trigger: trigger.clone(),
                error: error.clone(),
            },
            "sensor log",
        ),
        LogEvent::Received { .. } => (Layer::Intake, Observation::Received, "event source log"),
        _ => return None,
    };
    let pod = PodInstance {
        pod: line.pod.pod.clone(),
        uid: line.pod.uid.clone(),
        container: line.pod.container.clone(),
        instance: line.pod.instance,
    };
    let command = log_command(namespace, &pod, &arrival.id);
    Some(Fact {
        pod: Some(pod),
        ..arrival.fact(layer, observation, source, line.text.clone(), command)
    })
}

fn log_command(namespace: &str, pod: &PodInstance, text: &str) -> String {
    format!(
        "kubectl -n {namespace} logs {} -c {} | grep {text}",
        pod.pod, pod.container
    )
}

/// A Workflow as its object shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    pub name: String,
    pub uid: String,
    pub phase: String,
    pub message: String,
}

/// The Workflow that carries an arrival.
#[must_use]
pub fn workflow_created(arrival: &Arrival, execution: &Execution, namespace: &str) -> Fact {
    let line = format!(
        "Workflow {} uid {} carries arrival {}",
        execution.name, execution.uid, arrival.id
    );
    let command = format!(
        "kubectl -n {namespace} get workflows -l arrival={}",
        arrival.id
    );
    let observation = Observation::WorkflowCreated {
        name: execution.name.clone(),
    };
    Fact {
        execution: Some(execution.uid.clone()),
        ..arrival.fact(Layer::Submit, observation, "workflow", line, command)
    }
}

/// What a pod of a Workflow cannot get over by itself: nobody sees it in the Workflow's own message.
#[must_use]
pub fn stuck(workflow: &Value) -> Option<String> {
    let nodes = workflow.pointer("/status/nodes")?.as_object()?;
    nodes
        .values()
        .filter(|node| node["phase"] == "Pending")
        .filter_map(|node| node["message"].as_str())
        .find(|message| {
            let mut signs = NO_START_REASONS.into_iter().chain(["Unschedulable"]);
            signs.any(|sign| message.contains(sign))
        })
        .map(str::to_owned)
}

/// What a pod of a Workflow could not do now and may do another time, as its node says it: the Workflow's own message often
/// names only the node.
#[must_use]
pub fn put_off(workflow: &Value) -> Option<String> {
    let nodes = workflow.pointer("/status/nodes")?.as_object()?;
    nodes
        .values()
        .filter(|node| matches!(node["phase"].as_str(), Some("Failed" | "Error")))
        .filter_map(|node| node["message"].as_str())
        .find(|message| reason::is_temporary(message))
        .map(str::to_owned)
}

/// The phase of a Workflow.
#[must_use]
pub fn workflow_phase(arrival: &Arrival, execution: &Execution, namespace: &str) -> Fact {
    let Execution {
        name,
        uid,
        phase,
        message,
    } = execution;
    let line = format!(
        "Workflow {name} uid {uid}: phase {phase}{}{message}",
        if message.is_empty() { "" } else { ", " }
    );
    let command = format!(
        "kubectl -n {namespace} get workflow {name} -o jsonpath='{{.status.phase}}{{\" \"}}{{.status.message}}'"
    );
    let observation = Observation::WorkflowPhase {
        name: name.clone(),
        phase: phase.clone(),
        message: message.clone(),
    };
    Fact {
        execution: Some(uid.clone()),
        ..arrival.fact(Layer::Run, observation, "workflow", line, command)
    }
}

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

/// The answer to an access review.
#[must_use]
pub fn access(place: &Place, right: &Right, review: &AccessReview, namespace: &str) -> Fact {
    let word = if review.allowed { "yes" } else { "no" };
    let reason = if review.reason.is_empty() {
        String::new()
    } else {
        format!(" ({})", review.reason)
    };
    let observation = Observation::Access {
        account: right.account.clone(),
        verb: right.verb.clone(),
        group: right.group.clone(),
        resource: right.resource.clone(),
        allowed: review.allowed,
        reason: review.reason.clone(),
    };
    let asked = if right.is_any_other() {
        "--list".to_owned()
    } else {
        format!("{} {}", right.verb, right.resource_in_group())
    };
    let command = format!(
        "kubectl -n {namespace} auth can-i {asked} --as system:serviceaccount:{namespace}:{}",
        right.account
    );
    plain(
        place,
        right.layer(),
        observation,
        "access review",
        format!("{right}: {word}{reason}"),
        command,
    )
}

/// Whether a consumer is one of those the present Sensor must have.
#[must_use]
pub fn is_expected(info: &ConsumerInfo, subscriptions: &[Subscription]) -> bool {
    subscriptions
        .iter()
        .any(|one| one.durable == info.durable && one.subject == info.filter_subject)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_that_waits_for_its_image_is_told_and_one_that_starts_is_not() {
        let workflow = |phase: &str, message: &str| json!({"status": {"nodes": {"a": {"phase": phase, "message": message}}}});
        let pull = "ImagePullBackOff: Back-off pulling image \"x\"";
        assert_eq!(stuck(&workflow("Pending", pull)).as_deref(), Some(pull));
        for (phase, message) in [
            ("Pending", "PodInitializing"),
            ("Succeeded", pull),
            ("Pending", ""),
        ] {
            assert_eq!(stuck(&workflow(phase, message)), None, "{phase} {message}");
        }
        assert_eq!(stuck(&json!({})), None);
    }
}
