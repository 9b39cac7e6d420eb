//! What comes in: a request, or events, from arguments, files or stdin.

use std::io::Read as _;
use std::path::Path;

use serde_json::Value;
use serde_json::value::RawValue;

use super::super::exit::Failure;
use super::{ExplainArgs, is_kind};
use crate::embedded::services::eventsource::{self, Intake};
use crate::report::explain::walk::Input;
use crate::report::explain::{Dependency, Request};

/// Most bytes of a manifest, a body or an event that are read.
const MAX_INPUT: u64 = 64 << 20;
/// Most events of one file.
const MAX_EVENTS: usize = 10_000;

/// What comes in, before it is known to which event.
pub(super) enum Source {
    Request(Request),
    Event(Input),
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
            let bytes = read(file)?;
            return Ok(documents(&bytes)
                .into_iter()
                .map(|document| Self::Event(Input::event(document)))
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
    pub(super) fn resolve(
        &self,
        objects: &[(String, Value)],
        dependencies: &[&Dependency],
    ) -> Result<Input, Failure> {
        let request = match self {
            Self::Event(input) => return Ok(input.clone()),
            Self::Request(request) => request.clone(),
        };
        let (Some(first), mut intake) = (dependencies.first(), Intake::default()) else {
            return Ok(Input::Request(request, Intake::default()));
        };
        let source = objects.iter().find(|(_, object)| {
            is_kind(object, "EventSource") && object["metadata"]["name"] == first.source.as_str()
        });
        if let Some((file, object)) = source {
            let name = format!("{file}: EventSource/{}", first.source);
            match eventsource::intake(object, &first.event) {
                Ok(Some(found)) => intake = found,
                Ok(None) => {
                    let text = format!(
                        "{name} has no event {}; name one that it has in the dependency's eventName",
                        first.event
                    );
                    return Err(Failure::usage(text));
                }
                Err(reason) if reason.starts_with("eventlab: ") => {
                    return Err(Failure::environment(format!("{name}: {reason}")));
                }
                Err(reason) => return Err(Failure::usage(format!("{name}: {reason}"))),
            }
        }
        Ok(Input::Request(request, intake))
    }
}

/// The JSON documents of a file, one after another; a file that is not JSON is one event with such data.
fn documents(bytes: &[u8]) -> Vec<&[u8]> {
    let stream = serde_json::Deserializer::from_slice(bytes).into_iter::<&RawValue>();
    let read: Result<Vec<&RawValue>, _> = stream.take(MAX_EVENTS).collect();
    match read {
        Ok(documents) if documents.len() > 1 => documents
            .into_iter()
            .map(|document| document.get().as_bytes())
            .collect(),
        _ => vec![bytes],
    }
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
