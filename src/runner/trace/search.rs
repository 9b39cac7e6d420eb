//! Following one event: the bus by trace or arrival, consumers, log lines, Workflows of the Sensor.

use std::time::Duration;

use jiff::Timestamp;
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::pipeline::{Pipeline, text};
use crate::cluster::{
    BusMessage, BusView, Cluster, ContainerInstance, Hearing, LogFollower, LogLine, NoBus,
    Response, SendError, Silence, told,
};
use crate::embedded::bus::ConsumerInfo;
use crate::kinds;
use crate::runner::expected::{Subscription, judges};
use crate::runner::matchers::{self, LogEvent};
use crate::runner::releases;

/// How long a rejection waits for another dependency to accept the same event, where the bus cannot tell.
const SETTLE: Duration = Duration::from_secs(3);
const SENSOR_LABEL: &str = "events.argoproj.io/sensor";
const TRIGGER_LABEL: &str = "events.argoproj.io/trigger";

/// What identifies the event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sought {
    pub trace: Option<String>,
    pub arrival: Option<String>,
}

/// A line that names the event, with where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub event: LogEvent,
    pub line: LogLine,
}

/// A Workflow of the Sensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub name: String,
    /// The trigger that made it, where it says so.
    pub trigger: String,
    pub phase: String,
    pub message: String,
    pub created: String,
    /// Something in it names the arrival or the trace.
    pub names_the_event: bool,
    /// It was there and is not any more.
    pub gone: bool,
}

impl Candidate {
    fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed" | "Error")
    }
}

/// Everything seen so far of one event.
pub struct Search {
    pub(super) sought: Sought,
    pub(super) answer: Option<Result<Response, SendError>>,
    answered_at: Option<Instant>,
    pub(super) message: Option<BusMessage>,
    /// The stream was read to its end after the answer, up to this sequence.
    pub(super) read_to: Option<u64>,
    /// Why the bus was not read.
    pub(super) no_bus: Option<String>,
    pub(super) consumers: Vec<ConsumerInfo>,
    /// Why the consumers could not be read.
    pub(super) no_consumers: Option<String>,
    pub(super) lines: Vec<Seen>,
    pub(super) workflows: Vec<Candidate>,
    /// Why Workflows could not be listed.
    pub(super) no_workflows: Option<String>,
    /// Lines that were seen, and whether any could be read at all.
    pub(super) lines_seen: u64,
    pub(super) lines_known: bool,
    /// Why nothing was heard of the API server for a while: what was not seen then is no evidence.
    pub(super) unheard: Option<String>,
    hearing: Option<Hearing>,
    since: Timestamp,
    /// Where reading the bus begins.
    after: u64,
    first_rejected: Option<Instant>,
    /// The stream is read no longer than this: a long one takes its time.
    until: Option<Instant>,
    followers: Vec<(LogFollower, mpsc::Receiver<LogLine>)>,
    /// With the EventBus that the EventSource publishes on.
    cluster: Cluster,
}

impl Search {
    /// Begins to look. For an event that is still to be sent, only what comes from now on counts.
    pub async fn begin(cluster: &Cluster, pipeline: &Pipeline, sought: Sought, new: bool) -> Self {
        let since = if new {
            Timestamp::now()
        } else {
            Timestamp::UNIX_EPOCH
        };
        let from = new.then(|| {
            since
                .saturating_sub(jiff::SignedDuration::from_secs(5))
                .unwrap_or(since)
        });
        let follow = |selector: String| cluster.follow_logs_since(&selector, from);
        let mut search = Self {
            followers: vec![
                follow(format!("sensor-name={}", pipeline.sensor_name())),
                follow(format!("eventsource-name={}", pipeline.source_name())),
            ],
            sought,
            answer: None,
            answered_at: None,
            message: None,
            read_to: None,
            no_bus: None,
            consumers: Vec::new(),
            no_consumers: None,
            lines: Vec::new(),
            workflows: Vec::new(),
            no_workflows: None,
            lines_seen: 0,
            lines_known: false,
            unheard: None,
            hearing: cluster.hearing(),
            since,
            after: 0,
            first_rejected: None,
            until: None,
            cluster: cluster.with_event_bus(pipeline.event_bus()),
        };
        // Also where the event is there already: a line may say enough long before the bus is connected.
        let last = search.last_sequence().await;
        if new {
            search.after = last.unwrap_or(0);
        }
        search
    }

    /// The bus that the event goes over.
    fn try_bus(&self) -> Result<BusView, NoBus> {
        self.cluster.try_bus()
    }

    /// The bus takes a moment to connect; without it the search goes on by log.
    async fn last_sequence(&mut self) -> Option<u64> {
        let started = Instant::now();
        loop {
            match self.try_bus() {
                Ok(bus) => return bus.last_sequence().await.ok(),
                Err(NoBus::NotNow(_)) if started.elapsed() < Duration::from_secs(10) => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Err(error) => {
                    self.no_bus = Some(error.to_string());
                    return None;
                }
            }
        }
    }

    /// What the client saw of its own request.
    pub fn answered(&mut self, answer: Result<Response, SendError>) {
        self.answer = Some(answer);
        self.answered_at = Some(Instant::now());
    }

    /// Looks until it is known how far the event came, or patience is over. True when it is known.
    pub async fn follow(&mut self, pipeline: &Pipeline, patience: Duration) -> bool {
        let started = Instant::now();
        self.until = Some(started + patience);
        loop {
            self.look(pipeline).await;
            if self.settled(pipeline) {
                return true;
            }
            if started.elapsed() > patience {
                return false;
            }
            self.lines_for(self.cluster.look_interval()).await;
        }
    }

    async fn look(&mut self, pipeline: &Pipeline) {
        self.look_at_bus().await;
        self.look_at_consumers(pipeline).await;
        self.look_at_workflows(pipeline).await;
    }

    async fn look_at_bus(&mut self) {
        if self.message.is_some() {
            return;
        }
        let bus = match self.try_bus() {
            Ok(bus) => bus,
            Err(error) => {
                self.no_bus = Some(error.to_string());
                return;
            }
        };
        self.no_bus = None;
        let wait = releases::published_within(&self.cluster);
        let is_published = self.answered_at.is_some_and(|at| at.elapsed() >= wait);
        let complete = is_published || self.sought.arrival.is_some();
        loop {
            let messages = match bus.messages(self.after).await {
                Ok(messages) => messages,
                Err(error) => {
                    self.no_bus = Some(error.to_string());
                    return;
                }
            };
            let Some(last) = messages.last().map(|message| message.sequence) else {
                if complete {
                    self.read_to = Some(self.after);
                }
                return;
            };
            self.after = last;
            if let Some(found) = messages.into_iter().find(|message| self.is_sought(message)) {
                self.sought.arrival = Some(found.arrival.clone());
                self.sought.trace = self.sought.trace.take().or_else(|| found.trace.clone());
                self.message = Some(found);
                return;
            }
            if self.until.is_some_and(|until| Instant::now() > until) {
                self.no_bus = Some(format!(
                    "in the time given the stream was read up to sequence {last}, and more is there (--timeout)"
                ));
                return;
            }
        }
    }

    fn is_sought(&self, message: &BusMessage) -> bool {
        match (&self.sought.arrival, &self.sought.trace) {
            (Some(arrival), _) => message.arrival == *arrival,
            (None, Some(trace)) => message.trace.as_ref() == Some(trace),
            (None, None) => false,
        }
    }

    async fn look_at_consumers(&mut self, pipeline: &Pipeline) {
        if pipeline.split_bus().is_some() {
            return;
        }
        let consumers = match self.try_bus() {
            Ok(bus) => bus.consumers().await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match consumers {
            Ok(consumers) => {
                self.no_consumers = None;
                self.consumers = consumers
                    .into_iter()
                    .filter(|one| one.filter_subject == pipeline.subject)
                    .filter(|one| {
                        let mut wanted = pipeline.subscriptions.iter();
                        wanted.any(|wanted| wanted.durable == one.durable)
                    })
                    .collect();
            }
            Err(why) => self.no_consumers = Some(why),
        }
    }

    async fn look_at_workflows(&mut self, pipeline: &Pipeline) {
        let api: Api<DynamicObject> = Api::namespaced_with(
            self.cluster.client().clone(),
            self.cluster.namespace(),
            &kinds::workflow(),
        );
        let selector = format!("{SENSOR_LABEL}={}", pipeline.sensor_name());
        // A trigger may create something else, or elsewhere; then there is nothing to be seen here.
        let list = match api.list(&ListParams::default().labels(&selector)).await {
            Ok(list) => list,
            Err(error) => {
                let why = told(&error);
                // Who is not heard, or does not know us, may have had something to say of more than Workflows.
                if !matches!(&error, kube::Error::Api(status) if status.code != 401 && status.code < 500)
                {
                    self.unheard.get_or_insert_with(|| why.clone());
                }
                self.no_workflows = Some(why);
                return;
            }
        };
        self.no_workflows = None;
        let new = list.items.into_iter().filter(|one| {
            let created = one.metadata.creation_timestamp.as_ref();
            // Whole seconds.
            created.is_some_and(|time| time.0.as_second() >= self.since.as_second())
        });
        let listed = new
            .map(|one| candidate(&one, &self.sought))
            .filter(|one| one.names_the_event || self.answer.is_some())
            .collect();
        self.take_workflows(listed);
    }

    /// What was seen of a Workflow is kept when it is cleaned up.
    fn take_workflows(&mut self, listed: Vec<Candidate>) {
        self.workflows
            .retain(|known| listed.iter().all(|one| one.name != known.name));
        for known in &mut self.workflows {
            known.gone = true;
        }
        self.workflows.extend(listed);
        // Times are whole seconds: others of the same second say nothing once one names the event.
        if self.workflows.iter().any(|one| one.names_the_event) {
            self.workflows.retain(|one| one.names_the_event);
        }
    }

    /// Takes up log lines for a while.
    async fn lines_for(&mut self, wait: Duration) {
        let until = Instant::now() + wait;
        loop {
            let [(_, sensor), (_, source)] = self.followers.as_mut_slice() else {
                return;
            };
            let line = tokio::select! {
                Some(line) = sensor.recv() => line,
                Some(line) = source.recv() => line,
                silence = heard(&mut self.hearing) => {
                    if let Some(silence) = silence {
                        let why = format!("for a while nothing was heard of {}", silence.what);
                        self.unheard.get_or_insert(why);
                    }
                    continue;
                }
                () = tokio::time::sleep_until(until) => return,
            };
            self.take(line);
        }
    }

    fn take(&mut self, line: LogLine) {
        self.lines_seen += 1;
        let Some(event) = matchers::read(&line.text) else {
            return;
        };
        self.lines_known = true;
        if let LogEvent::Received { arrival, trace } = &event
            && self.sought.arrival.is_none()
            && trace.is_some()
            && *trace == self.sought.trace
        {
            self.sought.arrival = Some(arrival.clone());
        }
        // Lines of an arrival that is not known yet wait, too.
        let names = match &event {
            LogEvent::Discarded { arrival, .. } | LogEvent::Received { arrival, .. } => {
                vec![arrival]
            }
            LogEvent::Triggered { arrivals, .. } | LogEvent::TriggerFailed { arrivals, .. } => {
                arrivals.iter().collect()
            }
            _ => return,
        };
        let wanted = match &self.sought.arrival {
            Some(arrival) => names.contains(&arrival),
            None => true,
        };
        if wanted && self.lines.len() < 10_000 {
            self.lines.push(Seen { event, line });
        }
    }

    /// The lines that name this event.
    pub(super) fn own_lines(&self) -> impl Iterator<Item = &Seen> {
        let arrival = self.sought.arrival.as_ref();
        self.lines.iter().filter(move |seen| {
            let Some(arrival) = arrival else {
                return false;
            };
            match &seen.event {
                LogEvent::Discarded { arrival: id, .. }
                | LogEvent::Received { arrival: id, .. } => id == arrival,
                LogEvent::Triggered { arrivals, .. } | LogEvent::TriggerFailed { arrivals, .. } => {
                    arrivals.contains(arrival)
                }
                _ => false,
            }
        })
    }

    /// Whether the consumers have gone past the event; `None` where the bus does not say.
    pub(super) fn judged(&self, pipeline: &Pipeline) -> Option<bool> {
        let sequence = self.message.as_ref()?.sequence;
        if self.consumers.len() < pipeline.subscriptions.len() {
            return Some(false);
        }
        let has_judged = |one: &ConsumerInfo| {
            one.created_at_sequence < sequence && one.ack_floor_stream >= sequence
        };
        Some(self.consumers.iter().all(has_judged))
    }

    /// Rejections of the event. A pod that ended before it acknowledged is followed by one that rejects anew: those of one
    /// container instance count.
    pub(super) fn rejections(&self) -> usize {
        let mut of_instance: Vec<(&ContainerInstance, usize)> = Vec::new();
        let discarded = |seen: &&Seen| matches!(seen.event, LogEvent::Discarded { .. });
        for seen in self.own_lines().filter(discarded) {
            let pod = &seen.line.pod;
            match of_instance.iter_mut().find(|(known, _)| *known == pod) {
                Some((_, count)) => *count += 1,
                None => of_instance.push((pod, 1)),
            }
        }
        let counts = of_instance.into_iter().map(|(_, count)| count);
        counts.max().unwrap_or_default()
    }

    /// So many rejections there can be beside triggers that have `acted`: one of each dependency of each trigger, but for
    /// the one that let the event pass.
    pub(super) fn may_reject(&self, pipeline: &Pipeline, acted: &[&str]) -> usize {
        let of_one = |one: &Subscription| {
            let judges = judges(&pipeline.sensor, &one.trigger, &one.subject);
            let passed = acted.contains(&one.trigger.as_str());
            judges.saturating_sub(usize::from(passed))
        };
        pipeline.subscriptions.iter().map(of_one).sum()
    }

    fn settled(&mut self, pipeline: &Pipeline) -> bool {
        match &self.answer {
            Some(Err(SendError::NotSent(_))) => return true,
            Some(Ok(response)) if response.status != 200 => return true,
            _ => {}
        }
        if self.message.is_none() && self.read_to.is_some() && self.own_lines().next().is_none() {
            return true;
        }
        let (mut triggers, mut rejected) = (Vec::new(), false);
        for seen in self.own_lines() {
            match &seen.event {
                LogEvent::Triggered { trigger, .. } | LogEvent::TriggerFailed { trigger, .. } => {
                    triggers.push(trigger.clone());
                }
                LogEvent::Discarded { .. } => rejected = true,
                _ => {}
            }
        }
        if !triggers.is_empty() {
            let all = pipeline
                .subscriptions
                .iter()
                .all(|one| triggers.contains(&one.trigger));
            let acted: Vec<&str> = triggers.iter().map(String::as_str).collect();
            let silence_is_told = || self.rejections() >= self.may_reject(pipeline, &acted);
            return (all || silence_is_told()) && self.runs_ended();
        }
        if pipeline.split_bus().is_some() && self.message.is_some() {
            let since = self.first_rejected.get_or_insert_with(Instant::now);
            return since.elapsed() > SETTLE;
        }
        if rejected {
            let since = self
                .first_rejected
                .get_or_insert_with(Instant::now)
                .elapsed();
            return match self.judged(pipeline) {
                Some(judged) if self.rejections() >= self.may_reject(pipeline, &[]) => {
                    judged && since > Duration::from_millis(500)
                }
                // The rest will not be written.
                Some(judged) => judged && !pipeline.writes_mismatches() && since > SETTLE,
                None => since > SETTLE,
            };
        }
        // Judged, and no line will say how: below debug a clean mismatch is not written.
        self.judged(pipeline) == Some(true)
            && !pipeline.writes_mismatches()
            && self
                .first_rejected
                .get_or_insert_with(Instant::now)
                .elapsed()
                > SETTLE
            && self.runs_ended()
    }

    fn runs_ended(&self) -> bool {
        self.workflows.iter().all(|one| one.gone || one.has_ended())
    }

    /// The arrival id, once it is known.
    #[must_use]
    pub fn arrival(&self) -> Option<&str> {
        self.sought.arrival.as_deref()
    }

    /// The message of the event as it stands on the bus.
    pub async fn payload(&self) -> Option<Vec<u8>> {
        let sequence = self.message.as_ref()?.sequence;
        let bus = self.try_bus().ok()?;
        bus.payload(sequence).await.ok().flatten()
    }
}

/// What is said next of an API server; for ever pending where nobody asks.
async fn heard(hearing: &mut Option<Hearing>) -> Option<Silence> {
    match hearing {
        Some(hearing) => hearing.next().await,
        None => std::future::pending().await,
    }
}

fn candidate(workflow: &DynamicObject, sought: &Sought) -> Candidate {
    let metadata = &workflow.metadata;
    let labels = metadata
        .labels
        .iter()
        .flatten()
        .map(|(_, value)| value.as_str());
    let notes = metadata
        .annotations
        .iter()
        .flatten()
        .map(|(_, value)| value.as_str());
    let parameters = workflow
        .data
        .pointer("/spec/arguments/parameters")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|parameter| text(parameter, "/value"));
    let is_it = |value: &str| {
        !value.is_empty()
            && (sought.arrival.as_deref() == Some(value) || sought.trace.as_deref() == Some(value))
    };
    let names_the_event = labels.chain(notes).chain(parameters).any(is_it);
    Candidate {
        name: metadata.name.clone().unwrap_or_default(),
        trigger: metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(TRIGGER_LABEL).cloned())
            .unwrap_or_default(),
        phase: text(&workflow.data, "/status/phase").to_owned(),
        message: text(&workflow.data, "/status/message").to_owned(),
        created: metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0.to_string())
            .unwrap_or_default(),
        names_the_event,
        gone: false,
    }
}

#[cfg(test)]
mod tests;
