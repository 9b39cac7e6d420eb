//! What comes in: a request, or events, from arguments, files or stdin.

use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

use super::super::exit::Failure;
use super::{ExplainArgs, events, is_kind};
use crate::embedded::services::eventsource;
use crate::report::explain::walk::Input;
use crate::report::explain::{Dependency, Request, Sensor};

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
            Self::Event(input) => return Ok(typed(input, dependencies, source)),
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
            Ok(Some(found)) => Ok(Input::Request(request, Some(found))),
            Ok(None) if live => Ok(Input::Unheard(format!(
                "EventSource {} has no event {}: nothing listens, so nothing arrives",
                first.source, first.event
            ))),
            Ok(None) => Err(Failure::usage(format!(
                "{name} has no event {}; name one that it has in the dependency's eventName",
                first.event
            ))),
            Err(reason) if reason.starts_with("eventlab: ") => Err(Failure::environment(format!(
                "{name}: {reason}; `--event FILE` explains the data of its events"
            ))),
            Err(reason) => Err(Failure::usage(format!("{name}: {reason}"))),
        }
    }
}

/// The EventSource of that name beside a Sensor. An object without a namespace goes wherever the others are applied.
fn event_source<'o>(
    objects: &'o [(String, Value)],
    namespace: &str,
    name: &str,
) -> Option<&'o (String, Value)> {
    let named = || {
        objects.iter().filter(|(_, object)| {
            is_kind(object, "EventSource") && object["metadata"]["name"] == name
        })
    };
    let of = |object: &Value| {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        namespace.to_owned()
    };
    let here = named().find(|(_, object)| of(object) == namespace);
    // Of a Sensor without a namespace `default` is said.
    here.or_else(|| named().find(|(_, object)| of(object).is_empty() || namespace == "default"))
}

/// Event data, as an event of the type that its EventSource says.
fn typed(input: &Input, dependencies: &[&Dependency], source: Option<&(String, Value)>) -> Input {
    let mut input = input.clone();
    if let (Input::Event(event), Some(first), Some((_, object))) =
        (&mut input, dependencies.first(), source)
        && event.r#type.is_empty()
    {
        event.r#type = eventsource::event_type(object, &first.event).unwrap_or_default();
    }
    input
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
