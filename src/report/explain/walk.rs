//! The walk up to the filters: intake, transforms, filters; what the triggers do then is in `act`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::intake::{self, Known, Request, Taken};
use super::{
    Dependency, DependencyStep, IntakeStep, LogLine, Sensor, Stop, TransformStep, Walk, WalkError,
    hints, text_at,
};
use crate::embedded::services::sensor::cloud_event;
use crate::sensor::parameters::{Events, may_show_type};
use crate::sensor::transform::{Transform, TransformError};
use crate::sensor::{Event, Explanation, Filter, GroupReport, Operator, Outcome, Reason};

pub(super) const LOGGER: &str = "argo-events.sensor";
/// Stands for the id that the EventSource draws for each request.
const ID: &str = "00000000000000000000000000000000";

/// What comes in.
#[derive(Clone, Debug)]
pub enum Input {
    /// A request to the webhook, which takes it in so; without that, as a webhook does by default.
    Request(Request, Option<Known>),
    /// A request that no EventSource listens to, and why.
    Unheard(String),
    /// Event data, or a whole CloudEvent, and the EventBus that its EventSource publishes to, where that is known.
    Event(Event, Option<String>),
}

/// The members of a JSON object, their values unread: data that this program cannot hold makes no other event of it.
#[must_use]
pub fn members(document: &[u8]) -> Option<BTreeMap<String, &RawValue>> {
    serde_json::from_slice(document).ok()
}

/// Whether a document is a whole CloudEvent, rather than event data.
#[must_use]
pub fn is_cloud_event(document: &[u8]) -> bool {
    members(document).is_some_and(|members| {
        ["specversion", "source"]
            .iter()
            .all(|key| members.contains_key(*key))
    })
}

impl Input {
    /// Reads an event: a CloudEvent as it stands on the bus, else event data.
    ///
    /// # Errors
    /// A CloudEvent that a Sensor cannot read.
    pub fn event(text: &[u8]) -> Result<Self, String> {
        if is_cloud_event(text) {
            let event = cloud_event::decode(text);
            return event
                .map(|event| Self::Event(event, None))
                .map_err(|error| format!("no CloudEvent that a Sensor reads: {error}"));
        }
        let event = Event {
            data: Some(text.to_vec()),
            ..Event::default()
        };
        Ok(Self::Event(event, None))
    }

    /// Source and name of the event, where it says them itself.
    #[must_use]
    pub fn address(&self) -> Option<(&str, &str)> {
        match self {
            Self::Event(event, _) if !event.source.is_empty() => {
                Some((&event.source, &event.subject))
            }
            _ => None,
        }
    }

    /// The EventBus that it goes to, where that is known.
    fn bus(&self) -> Option<&str> {
        match self {
            Self::Request(_, Some(known)) => Some(&known.intake.bus),
            Self::Event(_, Some(bus)) => Some(bus),
            _ => None,
        }
    }

    /// Whether nobody says the event's type: neither the event nor its EventSource.
    fn lacks_type(&self) -> bool {
        match self {
            Self::Request(_, known) => known.is_none(),
            Self::Unheard(_) => false,
            Self::Event(event, _) => event.r#type.is_empty(),
        }
    }

    /// Whether the EventSource asks for a bearer token that is not known here.
    fn has_open_token(&self) -> bool {
        matches!(self, Self::Request(_, Some(known)) if known.is_open())
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
        judged: true,
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
        .map(|dependency| compile(dependency, input.lacks_type()))
        .collect::<Result<Vec<_>, _>>()?;
    let Some(event) = walk.take_in(input, first, now) else {
        return Ok(walk);
    };
    if walk.stops_at_bus(input, sensor) {
        return Ok(walk);
    }
    if input.lacks_type() && shows_type_of(sensor, dependencies) {
        walk.notes.push(format!(
            "a trigger takes the event's type, and that of a webhook is shown: {NO_TYPE}"
        ));
    }
    let mut passed = Events::new();
    for (dependency, judge) in dependencies.iter().zip(&filters) {
        if let Some(event) = walk.judge(dependency, judge, &event)? {
            passed.insert(dependency.name.clone(), event);
        }
    }
    for name in sensor.repeated_names() {
        walk.notes.push(format!(
            "several dependencies are named {name}; only the last of them counts, give each a name of its own"
        ));
    }
    if !passed.is_empty() {
        walk.change.clear();
    }
    walk.act(sensor, dependencies, &passed, now);
    if walk.passed && input.has_open_token() {
        (walk.passed, walk.judged) = (false, false);
    }
    Ok(walk)
}

/// Of an event without a type.
const NO_TYPE: &str =
    "the event says no type; give a whole CloudEvent, or its EventSource beside the Sensor";

/// Whether a trigger may show the type of one of these dependencies' events.
fn shows_type_of(sensor: &Sensor, dependencies: &[&Dependency]) -> bool {
    let shows = |one: &&Dependency| {
        let mut triggers = sensor.triggers.iter();
        triggers.any(|trigger| shows_type(trigger, &one.name))
    };
    dependencies.iter().any(shows)
}

/// Whether a parameter somewhere in a trigger may show the type of a dependency's event.
fn shows_type(trigger: &Value, dependency: &str) -> bool {
    match trigger {
        Value::Object(members) => members.iter().any(|(key, value)| {
            let of_it = key == "src" && text_at(value, "/dependencyName") == dependency;
            (of_it && may_show_type(value)) || shows_type(value, dependency)
        }),
        Value::Array(items) => items.iter().any(|item| shows_type(item, dependency)),
        _ => false,
    }
}

/// What a dependency does with an event.
struct Judge {
    transform: Option<Transform>,
    filter: Filter,
    /// The type that its filter wants, of an event whose type nobody says.
    open_type: Option<String>,
}

impl Judge {
    /// Why a decision about an event without a type is not known: with another one it would be another.
    fn rests_on_type(&self, event: &Event) -> Option<String> {
        let wanted = self.open_type.as_deref()?;
        let passes = |kind: String| {
            let event = Event {
                r#type: kind,
                ..event.clone()
            };
            self.filter.explain(&event).passed
        };
        (passes(wanted.to_owned()) != passes(format!("not {wanted}")))
            .then(|| format!("it asks for the type {wanted}, and {NO_TYPE}"))
    }
}

fn compile(dependency: &Dependency, lacks_type: bool) -> Result<Judge, WalkError> {
    let unsupported =
        |why: String| WalkError::Unsupported(format!("dependency {}: {why}", dependency.name));
    let value = &dependency.value;
    let transform = Transform::compile(value.get("transform"))
        .map_err(|error| unsupported(error.to_string()))?;
    let operator = text_at(value, "/filtersLogicalOperator");
    let filter = Filter::of_manifest(value.get("filters"), &operator)
        .map_err(|error| unsupported(error.to_string()))?;
    let wanted = text_at(value, "/filters/context/type");
    Ok(Judge {
        transform,
        filter,
        open_type: Some(wanted).filter(|wanted| lacks_type && !wanted.is_empty()),
    })
}

impl Walk {
    /// The event as it stands on the bus; `None` if the request does not get there.
    fn take_in(&mut self, input: &Input, first: &Dependency, now: Timestamp) -> Option<Event> {
        let event = match input {
            Input::Unheard(why) => {
                self.stopped_at = Some(Stop::Intake);
                self.change.push("create the EventSource with this event, or correct the dependency's eventSourceName and eventName".to_owned());
                self.intake = Some(IntakeStep {
                    status: None,
                    response: why.clone(),
                    assumed: false,
                });
                return None;
            }
            Input::Request(request, how) => {
                let taken = intake::take(request, how.as_ref().unwrap_or(&Known::default()));
                let (mut step, data) = self.answer(taken);
                step.assumed = how.is_none();
                self.intake = Some(step);
                let auth = how.as_ref().filter(|how| how.is_open());
                let auth = auth.and_then(|how| how.intake.auth.as_ref());
                if let (Some((secret, key)), Some(_)) = (auth, &data) {
                    self.notes.push(format!(
                        "the bearer token is not compared: the EventSource answers 401 unless it is that of Secret {secret}, key {key}; give the Secret beside the EventSource"
                    ));
                }
                Event {
                    data: Some(data?),
                    ..Event::default()
                }
            }
            Input::Event(event, _) => event.clone(),
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

    /// Whether the event goes to another EventBus than the Sensor reads; says which, where it is not the usual one.
    fn stops_at_bus(&mut self, input: &Input, sensor: &Sensor) -> bool {
        let reads = &sensor.bus;
        match input.bus() {
            Some(bus) if bus != reads => {
                self.stopped_at = Some(Stop::Bus);
                self.change.push(format!(
                    "give EventSource and Sensor the same `eventBusName`: the event goes to the EventBus {bus}, and the Sensor reads {reads}"
                ));
                return true;
            }
            _ if reads == "default" => {}
            Some(_) => self.notes.push(format!("on the EventBus {reads}")),
            None => self.notes.push(format!(
                "the Sensor reads the EventBus {reads}, and the event is taken to be on it: give its EventSource beside the Sensor to see whether it is"
            )),
        }
        false
    }

    fn answer(&mut self, taken: Taken) -> (IntakeStep, Option<Vec<u8>>) {
        match taken {
            Taken::Data(step, data) => (step, Some(data)),
            Taken::Refused(stop, step, logs, change) => {
                self.stopped_at = Some(stop);
                (self.logs, self.change) = (logs, change);
                (step, None)
            }
            Taken::Unknown(step, why) => {
                self.judged = false;
                self.notes.push(format!(
                    "the EventSource's filter is not judged here: {why}"
                ));
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
            Err(TransformError::Stopped(error)) => {
                self.dependencies.push(DependencyStep {
                    name: dependency.name.clone(),
                    transform: None,
                    filter: None,
                    unjudged: Some(format!("its transform: {error}")),
                });
                Ok(None)
            }
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
                    unjudged: None,
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
        let unjudged = unjudged(&why).or_else(|| judge.rests_on_type(event));
        if why.passed {
            self.notes.extend(hints::passing(&why));
        } else if unjudged.is_none() {
            self.logs
                .extend(discard_lines(&dependency.name, &why, event));
            self.change.extend(hints::rejecting(&why, data));
        }
        let passed = why.passed;
        self.dependencies.push(DependencyStep {
            name: dependency.name.clone(),
            transform,
            filter: Some(why),
            unjudged,
        });
        Ok(passed.then(|| event.clone()))
    }
}

/// Why a filter's decision is not known: one of its groups stopped at a limit of this program, and no other group settles it.
fn unjudged(why: &Explanation) -> Option<String> {
    if why.passed {
        return None;
    }
    let own = |group: &&GroupReport| group.reason == Reason::TooComplex;
    let errors = || why.groups.iter().filter(|group| group.error.is_some());
    let settled = match why.operator {
        // A group that does not hold drops the event, whatever the others come to.
        Operator::And => why
            .groups
            .iter()
            .any(|group| group.outcome == Outcome::Failed),
        // Any error drops it.
        Operator::Or => errors().any(|group| !own(&group)),
    };
    let mut errors = errors();
    let found = match why.operator {
        Operator::And => errors.next().filter(own),
        Operator::Or => errors.find(own),
    };
    found
        .filter(|_| !settled)
        .and_then(|group| group.error.clone())
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
