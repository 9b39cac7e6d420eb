//! What comes in: a request, or events, from arguments, files or stdin.

use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::super::exit::Failure;
use super::{ExplainArgs, events, is_kind};
use crate::embedded::services::eventsource::{self, Intake};
use crate::kinds::event_bus_of;
use crate::report::explain::walk::Input;
use crate::report::explain::{Dependency, Known, Request, Sensor, Token};

/// Most bytes of a manifest, a body or an event that are read.
pub(super) const MAX_INPUT: u64 = 64 << 20;

/// What comes in, before it is known to which event.
pub(super) enum Source {
    Request(Request),
    Event(Box<Input>),
}

impl Source {
    /// Reads what comes in; a file may hold several events.
    pub(super) fn read(args: &ExplainArgs) -> Result<Vec<Self>, Failure> {
        let input = &args.input;
        if let Some(file) = &input.event {
            if !args.header.is_empty() || args.content_type.is_some() {
                return Err(Failure::usage(
                    "--header and --content-type belong to a request; an event has its headers in its data",
                ));
            }
            let read = events::read(&file.display().to_string(), &read(file)?)?;
            return Ok(read
                .into_iter()
                .map(|event| Self::Event(Box::new(event)))
                .collect());
        }
        let body = match (&input.body, &input.body_file) {
            (Some(body), _) => body.clone().into_bytes(),
            (None, Some(file)) => read(file)?,
            (None, None) => read(Path::new("-"))?,
        };
        Request::new(&args.header, args.content_type.as_deref(), body)
            .map(|request| vec![Self::Request(request)])
            .map_err(Failure::usage)
    }

    pub(super) fn address(&self) -> Option<(&str, &str)> {
        match self {
            Self::Request(_) => None,
            Self::Event(input) => input.address(),
        }
    }

    /// The input for one event, taken in as its EventSource says where that is among the objects.
    ///
    /// A running Sensor's EventSources are all known, so one that is not there listens to nothing.
    pub(super) fn resolve(
        &self,
        objects: &[(String, Value)],
        sensor: &Sensor,
        dependencies: &[&Dependency],
        live: bool,
    ) -> Result<Input, Failure> {
        let source = dependencies
            .first()
            .and_then(|first| event_source(objects, &sensor.namespace, &first.source));
        let request = match self {
            Self::Event(input) => return typed(input, dependencies, source),
            Self::Request(request) => request.clone(),
        };
        let Some(first) = dependencies.first() else {
            return Ok(Input::Request(request, None));
        };
        let Some((file, object)) = source else {
            return Ok(if live {
                Input::Unheard(format!(
                    "EventSource {} is not there: nothing listens, so nothing arrives",
                    first.source
                ))
            } else {
                Input::Request(request, None)
            });
        };
        let name = format!("{file}: EventSource/{}", first.source);
        match eventsource::intake(object, &first.event) {
            Ok(Some(intake)) => {
                let token = token(objects, &sensor.namespace, &intake)?;
                Ok(Input::Request(request, Some(Known { intake, token })))
            }
            Ok(None) if live => Ok(Input::Unheard(format!(
                "EventSource {} has no event {}: nothing listens, so nothing arrives",
                first.source, first.event
            ))),
            Ok(None) => Err(no_such_event(file, first)),
            Err(reason) if reason.starts_with("eventlab: ") => Err(Failure::environment(format!(
                "{name}: {reason}; `--event FILE` explains the data of its events"
            ))),
            Err(reason) => Err(Failure::usage(format!("{name}: {reason}"))),
        }
    }
}

fn no_such_event(file: &str, dependency: &Dependency) -> Failure {
    Failure::usage(format!(
        "{file}: EventSource/{} has no event {}; name one that it has in the dependency's eventName",
        dependency.source, dependency.event
    ))
}

/// The EventSource of that name beside a Sensor: the last one, as what is applied later stays.
fn event_source<'o>(
    objects: &'o [(String, Value)],
    namespace: &str,
    name: &str,
) -> Option<&'o (String, Value)> {
    let mut named = named_sources(objects, name).rev();
    named.find(|(_, object)| object["metadata"]["namespace"] == namespace)
}

fn named_sources<'o>(
    objects: &'o [(String, Value)],
    name: &str,
) -> impl DoubleEndedIterator<Item = &'o (String, Value)> {
    objects.iter().filter(move |(_, object)| {
        is_kind(object, "EventSource") && object["metadata"]["name"] == name
    })
}

/// Says so where the files hold an EventSource of the right name, and of other namespaces only.
pub(super) fn elsewhere(
    objects: &[(String, Value)],
    sensor: &Sensor,
    dependencies: &[&Dependency],
) -> Option<String> {
    let name = &dependencies.first()?.source;
    if event_source(objects, &sensor.namespace, name).is_some() {
        return None;
    }
    let other = named_sources(objects, name).find_map(|(_, object)| {
        let namespace = &object["metadata"]["namespace"];
        namespace.as_str()
    })?;
    Some(format!(
        "EventSource/{name} of namespace {other} is another one: a Sensor of namespace {} hears those of its own (--namespace is that of objects that name none)",
        sensor.namespace
    ))
}

/// Event data, as an event of the type and on the EventBus that its EventSource says.
fn typed(
    input: &Input,
    dependencies: &[&Dependency],
    source: Option<&(String, Value)>,
) -> Result<Input, Failure> {
    let mut input = input.clone();
    if let (Input::Event(event, bus), Some(first), Some((file, object))) =
        (&mut input, dependencies.first(), source)
    {
        let kind = eventsource::event_type(object, &first.event);
        let kind = kind.ok_or_else(|| no_such_event(file, first))?;
        if event.r#type.is_empty() {
            event.r#type = kind;
        }
        *bus = Some(event_bus_of(object).to_owned());
    }
    Ok(input)
}

/// The token that an EventSource's event asks for, as far as the Secrets among the objects tell.
fn token(objects: &[(String, Value)], namespace: &str, intake: &Intake) -> Result<Token, Failure> {
    let Some((name, key)) = &intake.auth else {
        return Ok(Token::Unknown);
    };
    let is_it = |object: &Value| {
        let metadata = &object["metadata"];
        object["apiVersion"] == "v1"
            && object["kind"] == "Secret"
            && metadata["name"] == name.as_str()
            && metadata["namespace"] == namespace
    };
    let Some((file, secret)) = objects.iter().rev().find(|(_, object)| is_it(object)) else {
        return Ok(Token::Unknown);
    };
    if let Some(text) = secret["stringData"][key.as_str()].as_str() {
        return Ok(Token::Value(text.as_bytes().to_vec()));
    }
    let Some(text) = secret["data"][key.as_str()].as_str() else {
        return Ok(Token::Missing);
    };
    let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    // The error would quote a part of it.
    STANDARD.decode(text).map(Token::Value).map_err(|_| {
        Failure::usage(format!(
            "{file}: Secret/{name}: data.{key} is no base64; encode the token, or write it under `stringData`"
        ))
    })
}

pub(super) fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

pub(super) fn open(file: &Path) -> Result<Box<dyn std::io::Read>, Failure> {
    if is_stdin(file) {
        return Ok(Box::new(std::io::stdin()));
    }
    let opened = std::fs::File::open(file)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))?;
    Ok(Box::new(opened))
}

pub(super) fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let mut limited = open(file)?.take(MAX_INPUT + 1);
    let cannot = |why: String| Failure::usage(format!("cannot read {}: {why}", file.display()));
    limited
        .read_to_end(&mut bytes)
        .map_err(|error| cannot(error.to_string()))?;
    if bytes.len() as u64 > MAX_INPUT {
        return Err(cannot(format!("it has more than {MAX_INPUT} bytes")));
    }
    Ok(bytes)
}
