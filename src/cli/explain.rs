//! `eventlab explain`: why a Sensor would pass or drop an event, and answers to the lines of golden files.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use jiff::Timestamp;
use serde_json::Value;

use super::exit::{Exit, Failure};
use super::run::Format;
use crate::cluster::Manifest;
use crate::embedded::services::eventsource::{self, Intake};
use crate::report::explain::walk::{Input, walk};
use crate::report::explain::{Dependency, Request, Sensor, Walk, WalkError, text};
use crate::sensor::cases;

/// Most bytes of a manifest, a body or an event that are read.
const MAX_INPUT: u64 = 64 << 20;

/// Arguments of `explain`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArgs {
    /// Manifest with the Sensor, and with its EventSource if that is wanted; `-` reads stdin
    #[arg(short, long, value_name = "FILE", required_unless_present = "cases")]
    file: Vec<PathBuf>,
    /// Only this dependency (default: every event that the Sensor listens to)
    #[arg(short, long, value_name = "NAME")]
    dependency: Option<String>,
    #[command(flatten)]
    input: InputArgs,
    /// A header of the request, as `Name: value`
    #[arg(short = 'H', long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// The request's content type (default: application/json)
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Time of the event, such as 2026-01-02T03:04:05Z (default: now)
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What comes in; one of these.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
struct InputArgs {
    /// Body of the request
    #[arg(long, value_name = "TEXT")]
    body: Option<String>,
    /// File with the body of the request
    #[arg(long, value_name = "FILE")]
    body_file: Option<PathBuf>,
    /// File with event data ({"header": …, "body": …}) or with a whole CloudEvent; no request is made
    #[arg(long, value_name = "FILE")]
    event: Option<PathBuf>,
    /// Answer the lines of a file in the shape of the golden files instead
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    cases: Option<PathBuf>,
    /// `-` reads the body of the request from stdin
    #[arg(value_name = "-", value_parser = ["-"])]
    stdin: Option<String>,
}

const EXAMPLES: &str = "Examples:
  eventlab explain -f sensor.yaml --body '{\"kind\":\"order.created\"}'
  eventlab explain -f sensor.yaml --dependency order --body-file order.json -H 'X-Order-Id: o-1'
  curl -s https://shop.example/order.json | eventlab explain -f sensor.yaml --format json -

Exit codes: 0 every event passes, 1 one is rejected, 2 a bad file or argument, 3 something eventlab cannot judge.";

/// Explains.
///
/// # Errors
/// A file that cannot be read or does not hold; a Sensor that the controller refuses; a part that is not supported.
pub fn run(args: &ExplainArgs) -> Result<Exit, Failure> {
    if let Some(file) = &args.input.cases {
        return answer_cases(file);
    }
    let now = args.at.unwrap_or_else(Timestamp::now);
    let objects = objects(args)?;
    let sensors = sensors(&objects, now)?;
    let input = Source::read(args)?;
    let mut walks = Vec::new();
    for sensor in &sensors {
        for dependencies in wanted(sensor, args.dependency.as_deref(), &input) {
            let input = input.resolve(&objects, &dependencies)?;
            walks.push(walk(sensor, &dependencies, &input, now).map_err(failure)?);
        }
    }
    if walks.is_empty() {
        return Err(nothing_listens(
            &sensors,
            args.dependency.as_deref(),
            &input,
        ));
    }
    print(&walks, args.format)?;
    Ok(if walks.iter().all(|walk| walk.passed) {
        Exit::Proven
    } else {
        Exit::NotProven
    })
}

fn failure(error: WalkError) -> Failure {
    match error {
        WalkError::Input(_) => Failure::usage(error),
        WalkError::Unsupported(_) => Failure::environment(error),
    }
}

/// The objects of all files, with their file.
fn objects(args: &ExplainArgs) -> Result<Vec<(String, Value)>, Failure> {
    let stdin = args.file.iter().filter(|file| is_stdin(file)).count()
        + usize::from(args.input.stdin.is_some())
        + [&args.input.body_file, &args.input.event]
            .iter()
            .filter(|file| file.as_deref().is_some_and(is_stdin))
            .count();
    if stdin > 1 {
        return Err(Failure::usage(
            "stdin can be read once; give the Sensor or the body as a file",
        ));
    }
    let mut objects = Vec::new();
    for file in &args.file {
        let name = file.display().to_string();
        let bytes = read(file)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Failure::usage(format!("{name}: not UTF-8; save it as UTF-8")))?;
        let manifests = Manifest::read(&name, &text).map_err(Failure::usage)?;
        objects.extend(manifests.into_iter().map(|m| (m.file, m.object)));
    }
    Ok(objects)
}

fn is_kind(object: &Value, kind: &str) -> bool {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    version.starts_with("argoproj.io/") && object["kind"] == kind
}

fn sensors(objects: &[(String, Value)], now: Timestamp) -> Result<Vec<Sensor>, Failure> {
    let sensors = objects
        .iter()
        .filter(|(_, object)| is_kind(object, "Sensor"))
        .map(|(file, object)| Sensor::read(file, object, now))
        .collect::<Result<Vec<_>, _>>()
        .map_err(failure)?;
    if sensors.is_empty() {
        return Err(Failure::usage(
            "no Sensor in what -f names; give a manifest of kind Sensor, apiVersion argoproj.io/v1alpha1",
        ));
    }
    Ok(sensors)
}

/// What comes in, before it is known to which event.
enum Source {
    Request(Request),
    Event(Input),
}

impl Source {
    fn read(args: &ExplainArgs) -> Result<Self, Failure> {
        let input = &args.input;
        if let Some(file) = &input.event {
            if !args.header.is_empty() || args.content_type.is_some() {
                return Err(Failure::usage(
                    "--header and --content-type belong to a request; an event has its headers in its data",
                ));
            }
            return Ok(Self::Event(Input::event(&read(file)?)));
        }
        let body = match (&input.body, &input.body_file) {
            (Some(body), _) => body.clone().into_bytes(),
            (None, Some(file)) => read(file)?,
            (None, None) => read(Path::new("-"))?,
        };
        Request::new(&args.header, args.content_type.as_deref(), body)
            .map(Self::Request)
            .map_err(Failure::usage)
    }

    fn address(&self) -> Option<(&str, &str)> {
        match self {
            Self::Request(_) => None,
            Self::Event(input) => input.address(),
        }
    }

    /// The input for one event, taken in as its EventSource says where that is among the objects.
    fn resolve(
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

/// The dependencies to be explained, by the event that reaches them.
fn wanted<'s>(sensor: &'s Sensor, name: Option<&str>, input: &Source) -> Vec<Vec<&'s Dependency>> {
    if let Some(name) = name {
        let named = sensor.dependencies.iter().rev();
        let found = named.filter(|dependency| dependency.name == name).take(1);
        return found.map(|dependency| vec![dependency]).collect();
    }
    let mut events = sensor.by_event();
    if let Some(address) = input.address() {
        events.retain(|dependencies| {
            let first = dependencies.first();
            first.is_some_and(|first| (first.source.as_str(), first.event.as_str()) == address)
        });
    }
    events
}

fn nothing_listens(sensors: &[Sensor], name: Option<&str>, input: &Source) -> Failure {
    let known = sensors.iter().flat_map(|sensor| &sensor.dependencies);
    if let Some(name) = name {
        let known: Vec<&str> = known.map(|known| known.name.as_str()).collect();
        return Failure::usage(format!(
            "no dependency {name:?}; the Sensor has {}",
            known.join(", ")
        ));
    }
    let known: Vec<String> = known
        .map(|known| format!("{}/{}", known.source, known.event))
        .collect();
    let (source, event) = input.address().unwrap_or_default();
    Failure::usage(format!(
        "no dependency listens to {source}/{event}; the Sensor listens to {}. Name one with --dependency",
        known.join(", ")
    ))
}

fn print(walks: &[Walk], format: Format) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for (place, walk) in walks.iter().enumerate() {
        let text = match format {
            Format::Json => serde_json::to_string(walk).map_err(Failure::internal)? + "\n",
            Format::Text => {
                let gap = if place > 0 { "\n" } else { "" };
                format!("{gap}{}", text::render(walk))
            }
        };
        // A reader that closes the pipe has seen enough.
        let _ = out.write_all(text.as_bytes());
    }
    Ok(())
}

fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

fn open(file: &Path) -> Result<Box<dyn std::io::Read>, Failure> {
    if is_stdin(file) {
        return Ok(Box::new(std::io::stdin()));
    }
    let opened = std::fs::File::open(file)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))?;
    Ok(Box::new(opened))
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
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

/// Answers every line of a file of cases; a line that is no case ends it.
fn answer_cases(file: &Path) -> Result<Exit, Failure> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let name = file.display();
    for (place, line) in BufReader::new(open(file)?).lines().enumerate() {
        let wrong = |why: String| Failure::usage(format!("{name}, line {}: {why}", place + 1));
        let line = line.map_err(|error| wrong(error.to_string()))?;
        if line.trim().is_empty() {
            continue;
        }
        let answer = cases::answer(&line).map_err(|error| wrong(error.to_string()))?;
        if writeln!(out, "{answer}").is_err() {
            return Ok(Exit::Proven);
        }
    }
    let _ = out.flush();
    Ok(Exit::Proven)
}
