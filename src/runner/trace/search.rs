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
    BusMessage, BusView, Cluster, Hearing, LogFollower, LogLine, NoBus, Response, SendError,
    Silence, told,
};
use crate::embedded::bus::ConsumerInfo;
use crate::kinds;
use crate::runner::matchers::{self, LogEvent};

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
        let complete = self.answer.is_some() || self.sought.arrival.is_some();
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
        Some(
            self.consumers
                .iter()
                .all(|one| one.ack_floor_stream >= sequence),
        )
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
            return (all || rejected) && self.runs_ended();
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
                Some(judged) => judged && since > Duration::from_millis(500),
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
mod tests {
    use super::super::findings::Standing;
    use super::super::pipeline::tests::pipeline;
    use super::*;
    use crate::cluster::{BusAccess, ContainerInstance, Context, RealCluster};

    /// For an event that is on the bus, where nobody answers.
    async fn search() -> Search {
        let context = Context::silent("c").await;
        let options = RealCluster {
            bus: BusAccess::LogOnly,
            ..RealCluster::default()
        };
        let cluster = Cluster::of_context(&context, "ns", options);
        let sought = Sought {
            arrival: Some("a1".to_owned()),
            trace: None,
        };
        let mut search = Search::begin(&cluster, &pipeline(), sought, false).await;
        search.message = Some(BusMessage {
            sequence: 1,
            subject: "default.web.order".to_owned(),
            time: Timestamp::UNIX_EPOCH,
            arrival: "a1".to_owned(),
            trace: None,
        });
        search
    }

    /// Names, phases and what is said of the runs that were seen one after another.
    #[tokio::test]
    async fn a_workflow_that_is_cleaned_up_stays_seen() {
        let one = |name: &str, phase: &str| Candidate {
            name: name.to_owned(),
            trigger: String::new(),
            phase: phase.to_owned(),
            message: String::new(),
            created: String::new(),
            names_the_event: true,
            gone: false,
        };
        let triggered = triggered();
        for (looks, ended, standing, said) in [
            (
                vec![vec![one("w", "Running")], vec![]],
                true,
                Standing::Unproven,
                "not there any more",
            ),
            (
                vec![vec![one("w", "Succeeded")], vec![]],
                true,
                Standing::Through,
                "not there any more",
            ),
            (
                vec![vec![one("w", "Failed")], vec![]],
                true,
                Standing::Stopped,
                "not there any more",
            ),
            (
                vec![vec![one("w", "Running")], vec![one("w", "Failed")]],
                true,
                Standing::Stopped,
                "Failed",
            ),
            (
                vec![vec![one("w", "Running")]],
                false,
                Standing::Unproven,
                "Running",
            ),
            // Gone before anybody looked, or it names nothing of the event.
            (vec![vec![]], true, Standing::Unproven, "names it"),
        ] {
            let mut search = search().await;
            search.take(triggered.clone());
            for listed in looks {
                search.take_workflows(listed);
            }
            assert_eq!(search.runs_ended(), ended, "{said}");
            let findings = search.findings(&pipeline());
            let runs: Vec<_> = findings.iter().filter(|one| one.layer == "run").collect();
            let [run] = runs.as_slice() else {
                panic!("{findings:?}");
            };
            assert_eq!(run.standing, standing, "{run:?}");
            assert!(run.line.contains(said), "{run:?}");
        }
    }

    /// A trigger that has made a Workflow is proven by one of its own.
    #[tokio::test]
    async fn as_many_triggers_as_many_workflows() {
        let mut two = pipeline();
        let template = |name: &str| serde_json::json!({"template": {"name": name, "k8s": {"source": {"resource": {"kind": "Workflow"}}}}});
        two.sensor["spec"]["triggers"] = serde_json::json!([template("t"), template("u")]);
        two.subscriptions = crate::runner::expected::subscriptions(&two.sensor);
        let one = |name: &str, trigger: &str| Candidate {
            name: name.to_owned(),
            trigger: trigger.to_owned(),
            phase: "Succeeded".to_owned(),
            message: String::new(),
            created: String::new(),
            names_the_event: true,
            gone: false,
        };
        for (lines, listed, proven, said) in [
            (
                vec!["t", "u"],
                vec![one("a", "t"), one("b", "u")],
                true,
                "run",
            ),
            (
                vec!["t", "u"],
                vec![one("a", ""), one("b", "")],
                true,
                "run",
            ),
            (
                vec!["t", "u"],
                vec![one("a", "t")],
                false,
                "no Workflow of trigger u",
            ),
            // Made twice by the same trigger.
            (
                vec!["t", "u"],
                vec![one("a", "t"), one("b", "t")],
                false,
                "of trigger u",
            ),
            (
                vec!["t", "u"],
                vec![one("a", "")],
                false,
                "no Workflow of trigger",
            ),
            (vec!["t", "u"], vec![], false, "no Workflow of trigger t, u"),
            (
                vec!["t", "t"],
                vec![one("a", "t")],
                false,
                "no line of trigger u",
            ),
        ] {
            let mut search = search().await;
            for trigger in &lines {
                search.take(triggered_by(trigger));
            }
            search.take_workflows(listed);
            let findings = search.findings(&two);
            let verdict = super::super::verdict(&findings);
            assert_eq!(verdict.proven, proven, "{lines:?} {verdict:?}");
            assert!(verdict.text.contains(said), "{said}: {verdict:?}");
        }
    }

    /// One trigger that failed beside one that was done is told, and so is what the other made.
    #[tokio::test]
    async fn a_trigger_that_failed_is_not_covered_by_another() {
        let mut search = search().await;
        search.take(triggered());
        let text = r#"{"level":"error","msg":"Failed to execute a trigger","triggerName":"u","error":"no right","triggeredBy":["d"],"triggeredByEvents":["a1"]}"#;
        search.take(LogLine {
            text: text.to_owned(),
            ..line("")
        });
        let findings = search.findings(&pipeline());
        let verdict = super::super::verdict(&findings);
        assert!(
            !verdict.text.starts_with("proven: it came through"),
            "{verdict:?}"
        );
        assert!(
            verdict.text.contains("trigger u failed: no right"),
            "{verdict:?}"
        );
        assert!(
            findings.iter().any(|one| one.line == "done: t"),
            "{findings:?}"
        );
    }

    /// That nothing is in the stream drops an event only while everything was heard.
    #[tokio::test]
    async fn silence_is_no_evidence_where_nobody_was_heard() {
        let mut filtering = pipeline();
        filtering.event_source["spec"]["webhook"]["order"]["filter"] =
            serde_json::json!({"expression": "a == 1"});
        let failing = |search: &mut Search, what: &str| match what {
            "bus" => search.no_bus = Some("no answer".to_owned()),
            "server" => search.unheard = Some("no answer".to_owned()),
            _ => {}
        };
        for what in ["", "bus", "server"] {
            let mut search = search().await;
            search.message = None;
            search.answer = Some(Ok(Response {
                status: 200,
                body: String::new(),
            }));
            (search.read_to, search.no_bus) = (Some(7), None);
            failing(&mut search, what);
            let findings = search.findings(&filtering);
            let bus = findings.iter().find(|one| one.layer == "bus").unwrap();
            let stopped = bus.standing == Standing::Stopped;
            assert_eq!(stopped, what.is_empty(), "{what}: {bus:?}");
            assert_eq!(bus.line.contains("no answer"), !stopped, "{bus:?}");
            assert_eq!(bus.line.contains("own filter dropped"), stopped, "{bus:?}");
        }
    }

    /// Several dependencies listen: a line of one says nothing of the other.
    #[tokio::test]
    async fn one_rejection_of_several_listeners_needs_the_silence_of_the_rest() {
        let discarded =
            line("Event [ID 'a1', Source 'o', Time 'x', Data '{}'] discarded due to filtering");
        let mut two = pipeline();
        let listener = two.sensor["spec"]["dependencies"][0].clone();
        two.sensor["spec"]["dependencies"] = serde_json::json!([listener.clone(), listener]);
        for (pipeline, heard, standing) in [
            (pipeline(), true, Standing::Stopped),
            (pipeline(), false, Standing::Stopped),
            (two.clone(), true, Standing::Stopped),
            (two, false, Standing::Unproven),
        ] {
            let mut search = search().await;
            search.take(discarded.clone());
            search.unheard = (!heard).then(|| "no answer".to_owned());
            let findings = search.findings(&pipeline);
            let filter = findings.iter().find(|one| one.layer == "filter").unwrap();
            assert_eq!(filter.standing, standing, "{filter:?}");
        }
    }

    #[tokio::test]
    async fn consumers_that_could_not_be_read_are_not_called_absent() {
        let mut search = search().await;
        search.look_at_consumers(&pipeline()).await;
        let findings = search.findings(&pipeline());
        let judged = findings.iter().find(|one| one.layer == "judged").unwrap();
        assert_eq!(judged.standing, Standing::Unproven);
        assert!(judged.line.contains("could not look"), "{judged:?}");
        assert!(!judged.line.contains("not there"), "{judged:?}");
    }

    #[tokio::test]
    async fn what_may_not_be_listed_is_not_called_gone() {
        let mut search = search().await;
        search.take(triggered());
        search.look_at_workflows(&pipeline()).await;
        let findings = search.findings(&pipeline());
        let run = findings.last().unwrap();
        assert_eq!((run.layer, run.standing), ("run", Standing::Unproven));
        assert!(run.line.contains("does not answer"), "{run:?}");
    }

    fn triggered() -> LogLine {
        triggered_by("t")
    }

    fn triggered_by(trigger: &str) -> LogLine {
        let text = format!(
            r#"{{"level":"info","msg":"Successfully processed trigger '{trigger}'","triggerName":"{trigger}","triggeredBy":["d"],"triggeredByEvents":["a1"]}}"#
        );
        LogLine { text, ..line("") }
    }

    fn line(message: &str) -> LogLine {
        let pod = ContainerInstance {
            pod: "p".to_owned(),
            uid: "u".to_owned(),
            container: "main".to_owned(),
            instance: 0,
        };
        let text = format!(r#"{{"level":"info","msg":"{message}"}}"#);
        LogLine { pod, text }
    }

    /// What cannot be read is said of many lines of which none is known; of a log that is quiet it is not.
    #[tokio::test]
    async fn a_quiet_log_is_no_unknown_one() {
        for (strange, known, unreadable) in
            [(0, 0, false), (3, 0, false), (40, 0, true), (40, 1, false)]
        {
            let mut search = search().await;
            for _ in 0..strange {
                search.take(line("event discarded by filter"));
            }
            for _ in 0..known {
                search.take(line("Sensor started."));
            }
            let findings = search.findings(&pipeline());
            let filter = findings.iter().find(|one| one.layer == "filter").unwrap();
            let said = filter.line.starts_with("no line of the logs is one");
            assert_eq!(said, unreadable, "{strange} {known}: {filter:?}");
            if !unreadable {
                assert!(
                    filter
                        .would_prove
                        .as_ref()
                        .unwrap()
                        .contains("LOG_LEVEL=debug")
                );
            }
        }
    }
}
