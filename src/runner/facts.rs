//! What was seen, as facts: one constructor a source, each with the command that shows it in the field.

mod books;
mod executions;

use jiff::Timestamp;

use super::expected::Subscription;
use super::matchers::LogEvent;
use crate::cluster::{AccessReview, BusMessage, LogLine};
use crate::embedded::bus::ConsumerInfo;
use crate::evidence::{Fact, Layer, Observation, PodInstance, Right};
use crate::session::message::GateCondition;

pub use books::{
    claim_changed, destination_record, ledger_attempt, ledger_effect, no_effect, order_state,
};
pub use executions::{Execution, put_off, stuck, workflow_created, workflow_phase};

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
