//! The walk itself: intake, filters, conditions, the object.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::intake::{self, Request, Taken};
use super::{
    Act, Dependency, DependencyStep, IntakeStep, LogLine, Sensor, Stop, TransformStep, TriggerStep,
    Walk, WalkError, hints, text_at,
};
use crate::embedded::services::eventsource::Intake;
use crate::embedded::services::sensor::cloud_event;
use crate::sensor::conditions::Conditions;
use crate::sensor::parameters::Events;
use crate::sensor::transform::{Transform, TransformError};
use crate::sensor::trigger::{self, Action, Origin, TriggerError};
use crate::sensor::{Event, Explanation, Filter};

const LOGGER: &str = "argo-events.sensor";
/// Stands for the id that the EventSource draws for each request.
const ID: &str = "00000000000000000000000000000000";

/// What comes in.
#[derive(Clone, Debug)]
pub enum Input {
    /// A request to the webhook, which takes it in so.
    Request(Request, Intake),
    /// Event data, or a whole CloudEvent.
    Event(Event),
}

impl Input {
    /// Reads an event: a CloudEvent as it stands on the bus, else event data.
    #[must_use]
    pub fn event(text: &[u8]) -> Self {
        let is_cloud_event = serde_json::from_slice::<Value>(text)
            .is_ok_and(|value| value.get("specversion").is_some() && value.get("source").is_some());
        let decoded = is_cloud_event
            .then(|| cloud_event::decode(text).ok())
            .flatten();
        Self::Event(decoded.unwrap_or_else(|| Event {
            data: Some(text.to_vec()),
            ..Event::default()
        }))
    }

    /// Source and name of the event, where it says them itself.
    #[must_use]
    pub fn address(&self) -> Option<(&str, &str)> {
        match self {
            Self::Event(event) if !event.source.is_empty() => Some((&event.source, &event.subject)),
            _ => None,
        }
    }
}

/// Follows one event to the dependencies of a Sensor that listen to it.
///
/// `now` is the event's time where it has none of its own.
///
/// # Errors
/// [`WalkError::Unsupported`] for a filter or transform that this program does not have.
pub fn walk(
    sensor: &Sensor,
    dependencies: &[&Dependency],
    input: &Input,
    now: Timestamp,
) -> Result<Walk, WalkError> {
    let Some(first) = dependencies.first() else {
        let text = format!("Sensor/{} has no such dependency", sensor.name);
        return Err(WalkError::Input(text));
    };
    let mut walk = Walk {
        sensor: format!("Sensor/{}", sensor.name),
        file: sensor.file.clone(),
        event: format!("{}/{}", first.source, first.event),
        passed: false,
        stopped_at: None,
        intake: None,
        data: None,
        dependencies: Vec::new(),
        triggers: Vec::new(),
        logs: Vec::new(),
        change: Vec::new(),
        notes: Vec::new(),
        live: None,
    };
    let filters = dependencies
        .iter()
        .map(|dependency| compile(dependency))
        .collect::<Result<Vec<_>, _>>()?;
    let Some(event) = walk.take_in(input, first, now) else {
        return Ok(walk);
    };
    let mut passed = Events::new();
    for (dependency, judge) in dependencies.iter().zip(&filters) {
        if let Some(event) = walk.judge(dependency, judge, &event)? {
            passed.insert(dependency.name.clone(), event);
        }
    }
    if passed.is_empty() {
        let none_judged = walk.dependencies.iter().all(|step| step.filter.is_none());
        walk.stopped_at = Some(if none_judged {
            Stop::Transform
        } else {
            Stop::Filter
        });
    } else {
        walk.change.clear();
    }
    walk.act(sensor, dependencies, &passed, now);
    Ok(walk)
}

/// What a dependency does with an event.
struct Judge {
    transform: Option<Transform>,
    filter: Filter,
}

fn compile(dependency: &Dependency) -> Result<Judge, WalkError> {
    let unsupported =
        |why: String| WalkError::Unsupported(format!("dependency {}: {why}", dependency.name));
    let value = &dependency.value;
    let transform = Transform::compile(value.get("transform"))
        .map_err(|error| unsupported(error.to_string()))?;
    let operator = text_at(value, "/filtersLogicalOperator");
    let filter = Filter::compile(value.get("filters"), &operator)
        .map_err(|error| unsupported(error.to_string()))?;
    Ok(Judge { transform, filter })
}

impl Walk {
    /// The event as it stands on the bus; `None` if the request does not get there.
    fn take_in(&mut self, input: &Input, first: &Dependency, now: Timestamp) -> Option<Event> {
        let event = match input {
            Input::Request(request, how) => {
                let (step, data) = self.answer(intake::take(request, how));
                self.intake = Some(step);
                Event {
                    data: Some(data?),
                    ..Event::default()
                }
            }
            Input::Event(event) => event.clone(),
        };
        let or = |given: String, usual: &str| {
            if given.is_empty() {
                usual.to_owned()
            } else {
                given
            }
        };
        let event = Event {
            id: or(event.id, ID),
            source: or(event.source, &first.source),
            subject: or(event.subject, &first.event),
            r#type: or(event.r#type, "webhook"),
            specversion: or(event.specversion, "1.0"),
            datacontenttype: or(event.datacontenttype, "application/json"),
            time: event.time.or(Some(now)),
            data: event.data,
        };
        let data = event.data.as_deref();
        self.data = data.map(|data| String::from_utf8_lossy(data).into_owned());
        Some(event)
    }

    fn answer(&mut self, taken: Taken) -> (IntakeStep, Option<Vec<u8>>) {
        match taken {
            Taken::Data(step, data) => (step, Some(data)),
            Taken::Refused(stop, step, logs, change) => {
                self.stopped_at = Some(stop);
                (self.logs, self.change) = (logs, change);
                (step, None)
            }
        }
    }

    /// What the dependency's transform makes of the event; `None` where it fails.
    fn transform(
        &mut self,
        dependency: &Dependency,
        transform: &Transform,
        event: &Event,
    ) -> Result<Option<Event>, WalkError> {
        match transform.apply(event) {
            Ok(event) => Ok(Some(event)),
            Err(error @ TransformError::Unsupported(_)) => Err(WalkError::Unsupported(format!(
                "dependency {}: {error}",
                dependency.name
            ))),
            Err(TransformError::Failed(error)) => {
                self.logs.push(LogLine::new(
                    "error",
                    LOGGER,
                    "failed to apply event transformation, ",
                    &[("error", json!(error))],
                ));
                self.change.push(format!(
                    "the transform of {} fails, and the event is gone before its filters see it: correct the program, or allow for fields that are missing (of jq upstream words the error in its own way)",
                    dependency.name
                ));
                self.dependencies.push(DependencyStep {
                    name: dependency.name.clone(),
                    transform: Some(TransformStep::Error(error)),
                    filter: None,
                });
                Ok(None)
            }
        }
    }

    /// Judges one dependency; the event as its filters saw it, if it passes.
    fn judge(
        &mut self,
        dependency: &Dependency,
        judge: &Judge,
        event: &Event,
    ) -> Result<Option<Event>, WalkError> {
        let made = match &judge.transform {
            None => None,
            Some(transform) => match self.transform(dependency, transform, event)? {
                Some(event) => Some(event),
                None => return Ok(None),
            },
        };
        let transform = made.as_ref().map(|event| {
            let data = event.data.as_deref().unwrap_or_default();
            TransformStep::Data(String::from_utf8_lossy(data).into_owned())
        });
        let event = made.as_ref().unwrap_or(event);
        let why = judge.filter.explain(event);
        let data = event.data.as_deref().unwrap_or_default();
        self.logs
            .extend(discard_lines(&dependency.name, &why, event));
        if why.passed {
            self.notes.extend(hints::passing(&why));
        } else {
            self.change.extend(hints::rejecting(&why, data));
        }
        let passed = why.passed;
        self.dependencies.push(DependencyStep {
            name: dependency.name.clone(),
            transform,
            filter: Some(why),
        });
        Ok(passed.then(|| event.clone()))
    }

    /// What the triggers that name one of the dependencies do.
    fn act(&mut self, sensor: &Sensor, listening: &[&Dependency], passed: &Events, now: Timestamp) {
        let names: Vec<String> = sensor
            .dependencies
            .iter()
            .map(|dependency| dependency.name.clone())
            .collect();
        for value in &sensor.triggers {
            let conditions = Conditions::parse(&text_at(value, "/template/conditions"), &names);
            let wants = |name: &str| {
                conditions.as_ref().is_ok_and(|conditions| {
                    conditions
                        .dependencies()
                        .iter()
                        .any(|wanted| wanted == name)
                })
            };
            let concerned = listening.iter().any(|dependency| wants(&dependency.name));
            if conditions.is_ok() && !concerned {
                continue;
            }
            let by: Vec<String> = listening
                .iter()
                .map(|dependency| dependency.name.clone())
                .filter(|name| passed.contains_key(name) && wants(name))
                .collect();
            let mut step = blank(text_at(value, "/template/name"));
            match conditions {
                Err(error) => {
                    let text = error.to_string();
                    self.logs.push(LogLine::new(
                        "error",
                        LOGGER,
                        "failed to get dependency expression",
                        &[("triggerName", json!(step.name)), ("error", json!(text))],
                    ));
                    self.change.push("name the Sensor's dependencies in `conditions`, joined with && and ||; until then the trigger is never subscribed".to_owned());
                    (step.act, step.error) = (Act::Fails, Some(text));
                }
                Ok(conditions) => {
                    step.conditions = conditions.to_string();
                    if !by.is_empty() {
                        self.meet(&mut step, &conditions, &by);
                    }
                    if step.act == Act::Submits {
                        self.submit(&mut step, sensor, value, passed, now);
                    }
                }
            }
            self.triggers.push(step);
        }
        self.conclude(passed.is_empty());
    }

    /// Holds the trigger's condition against the dependencies that passed.
    fn meet(&mut self, step: &mut TriggerStep, conditions: &Conditions, by: &[String]) {
        let seen = |name: &str| by.iter().any(|known| known == name);
        step.triggered_by = by.to_vec();
        if conditions.needs_several() {
            let state: BTreeMap<&str, bool> = conditions
                .dependencies()
                .iter()
                .map(|name| (name.as_str(), seen(name)))
                .collect();
            let state: Vec<String> = state
                .iter()
                .map(|(name, seen)| format!("{name}:{seen}"))
                .collect();
            self.logs.push(LogLine::new(
                "info",
                LOGGER,
                format!("Current state of dependencies: map[{}]", state.join(" ")),
                &[("triggerName", json!(step.name))],
            ));
        }
        if !conditions.holds(seen) {
            let missing = conditions.dependencies().iter().filter(|name| !seen(name));
            step.waits_for = missing.cloned().collect();
            step.act = Act::Waits;
            return;
        }
        step.act = Act::Submits;
        // With AND the last event completes the condition; without, each event acts by itself.
        let acting = if conditions.needs_several() {
            by.last().into_iter().collect::<Vec<_>>()
        } else {
            by.iter().collect()
        };
        for name in acting {
            self.logs.push(LogLine::new(
                "info",
                LOGGER,
                format!("Triggering actions after receiving dependency {name}"),
                &[("triggerName", json!(step.name))],
            ));
        }
    }

    /// Builds the object.
    fn submit(
        &mut self,
        step: &mut TriggerStep,
        sensor: &Sensor,
        value: &Value,
        passed: &Events,
        now: Timestamp,
    ) {
        let events: Events = passed
            .iter()
            .filter(|(name, _)| step.triggered_by.contains(name))
            .map(|(name, event)| (name.clone(), event.clone()))
            .collect();
        let origin = Origin {
            sensor: &sensor.name,
            namespace: &sensor.namespace,
            now,
        };
        match trigger::build(value, &events, origin) {
            Ok(Action::Object(submission)) => {
                step.operation = Some(submission.operation.as_str().to_owned());
                step.object = Some(submission.object);
            }
            Ok(Action::Workflow(submission)) => {
                step.operation = Some("submit".to_owned());
                step.object = Some(submission.object);
            }
            Ok(Action::Log) => step.operation = Some("log".to_owned()),
            Err(error @ TriggerError::Unsupported(_)) => {
                (step.act, step.error) = (Act::NotShown, Some(error.to_string()));
            }
            Err(error) => {
                let text = error.logged();
                self.logs.push(LogLine::new(
                    "error",
                    LOGGER,
                    "Failed to execute a trigger",
                    &[
                        ("error", json!(text)),
                        ("triggerName", json!(step.name)),
                        ("triggeredBy", json!(step.triggered_by)),
                        (
                            "triggeredByEvents",
                            json!(events.values().map(|event| &event.id).collect::<Vec<_>>()),
                        ),
                    ],
                ));
                let data = events
                    .values()
                    .next()
                    .and_then(|event| event.data.as_deref());
                let data = data.unwrap_or_default();
                self.change.extend(hints::building(&error, value, data));
                (step.act, step.error) = (Act::Fails, Some(text));
            }
        }
    }

    /// Says where the way ends.
    fn conclude(&mut self, none_passed: bool) {
        if none_passed {
            return;
        }
        let acts = |act: Act| self.triggers.iter().any(|trigger| trigger.act == act);
        let (fails, goes_on) = (acts(Act::Fails), acts(Act::Submits) || acts(Act::NotShown));
        self.stopped_at = if fails {
            Some(Stop::Submit)
        } else if goes_on {
            None
        } else {
            Some(Stop::Conditions)
        };
        self.passed = !fails && (goes_on || acts(Act::Waits));
        if !self.passed && !fails {
            let text = "no trigger's `conditions` name a dependency that passed; name it there";
            self.change.push(text.to_owned());
        }
    }
}

fn blank(name: String) -> TriggerStep {
    TriggerStep {
        name,
        conditions: String::new(),
        act: Act::NotReached,
        triggered_by: Vec::new(),
        waits_for: Vec::new(),
        error: None,
        operation: None,
        object: None,
    }
}

/// The lines of an event that a filter drops.
fn discard_lines(dependency: &str, why: &Explanation, event: &Event) -> Vec<LogLine> {
    if why.passed {
        return Vec::new();
    }
    let event = cloud_event::describe(event);
    let discarded = match &why.error {
        Some(error) => {
            let text = format!("Event [{event}] discarded due to filtering error: {error}");
            LogLine::new("warn", LOGGER, text, &[])
        }
        None => {
            let text = format!("Event [{event}] discarded due to filtering");
            LogLine::new("debug", LOGGER, text, &[])
        }
    };
    let text = format!("not interested in dependency {dependency} (didn't pass filter)");
    vec![discarded, LogLine::new("info", LOGGER, text, &[])]
}
