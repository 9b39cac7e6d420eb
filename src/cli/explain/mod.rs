//! `eventlab explain`: why a Sensor would pass or drop an event, and answers to the lines of golden files.

mod answers;
mod events;
mod live;
mod source;
mod watch;

use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use serde_json::Value;

use super::exit::{Exit, Failure};
use super::output::{self, note};
use super::place::Real;
use super::run::Format;
use crate::cluster::Manifest;
use crate::report::explain::walk::walk;
use crate::report::explain::{Dependency, Live, Sensor, Walk, WalkError, text};
use source::{Source, is_stdin, read};

/// Arguments of `explain`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArgs {
    /// Manifest with the Sensor, and with its EventSource if that is wanted; `-` reads stdin
    #[arg(short, long, value_name = "FILE", required_unless_present_any = ["cases", "live"])]
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
    /// Namespace of objects that name none (default: default); of a running Sensor the one that it is in (default: the context's)
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Time of the event, such as 2026-01-02T03:04:05Z (default: now)
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
    /// Explain again whenever one of the files changes, until it is interrupted
    #[arg(long, conflicts_with_all = ["cases", "live"])]
    watch: bool,
    #[command(flatten)]
    live: LiveArgs,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// A Sensor that runs, instead of one in a file.
#[derive(Clone, Debug, Args)]
struct LiveArgs {
    /// Explain what the running pod of a Sensor really has, with --context and --sensor
    #[arg(long, requires = "sensor", conflicts_with_all = ["file", "cases"])]
    live: bool,
    /// Name of the running Sensor
    #[arg(long, value_name = "NAME", requires = "live")]
    sensor: Option<String>,
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
    /// File with event data ({"header": …, "body": …}) or whole CloudEvents, one, several or a list; no request is made
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
  eventlab explain -f sensor.yaml --body-file order.json --watch
  eventlab explain --live --context staging --sensor orders --body '{\"kind\":\"order.created\"}'

Beside the Sensor, the files may hold its EventSource, and the Secret of that one's `authSecret`; without an EventSource
a webhook that takes every POST is assumed, and said.

Exit codes: 0 every event passes, 1 one is rejected, 2 a bad file or argument, 3 one is not judged: a bearer token whose
Secret is not among the files, a filter on the type of an event that says none, a call to another service, a limit of
eventlab's. A rejected event counts before one that is not judged.";

/// Explains.
///
/// # Errors
/// A file that cannot be read or does not hold; a Sensor that the controller refuses; a part that is not supported.
pub async fn run(real: &Real, args: &ExplainArgs) -> Result<Exit, Failure> {
    let result = explained(real, args).await;
    // Names and texts of manifests and events stand in messages.
    result.map_err(|failure| Failure {
        message: text::lines(&failure.message),
        ..failure
    })
}

async fn explained(real: &Real, args: &ExplainArgs) -> Result<Exit, Failure> {
    if let Some(file) = &args.input.cases {
        return answers::answer(file);
    }
    if args.live.live {
        let running = live::read(real, args).await?;
        return explain(args, &running.objects, running.sensors, Some(&running.live));
    }
    if args.watch {
        return watch::run(args);
    }
    once(args)
}

/// Explains what the files hold now.
fn once(args: &ExplainArgs) -> Result<Exit, Failure> {
    let objects = objects(args)?;
    let sensors = sensors(&objects)?;
    explain(args, &objects, sensors, None)
}

fn explain(
    args: &ExplainArgs,
    objects: &[(String, Value)],
    sensors: Vec<Sensor>,
    live: Option<&Live>,
) -> Result<Exit, Failure> {
    let now = args.at.unwrap_or_else(Timestamp::now);
    let inputs = Source::read(args)?;
    let (mut walks, mut outside) = (Vec::new(), Vec::new());
    for input in &inputs {
        let before = walks.len() + outside.len();
        for sensor in &sensors {
            for dependencies in wanted(sensor, args.dependency.as_deref(), input) {
                let elsewhere = source::elsewhere(objects, sensor, &dependencies);
                let input = input.resolve(objects, sensor, &dependencies, live.is_some())?;
                match walk(sensor, &dependencies, &input, now) {
                    Ok(mut walk) => {
                        walk.live = live.cloned();
                        walk.notes.extend(elsewhere);
                        walks.push(walk);
                    }
                    Err(WalkError::Unsupported(why)) => {
                        outside.push(format!("Sensor/{} ({}): {why}", sensor.name, sensor.file));
                    }
                    Err(error) => return Err(failure(error)),
                }
            }
        }
        if walks.len() + outside.len() == before {
            return Err(nothing_listens(&sensors, args.dependency.as_deref(), input));
        }
    }
    print(&walks, args.format)?;
    conclude(&walks, &outside)
}

/// How it ends: a rejected event counts before one that cannot be judged.
fn conclude(walks: &[Walk], outside: &[String]) -> Result<Exit, Failure> {
    if walks.iter().any(|walk| walk.judged && !walk.passed) {
        outside.iter().for_each(|why| note!("eventlab: {why}"));
        return Ok(Exit::NotProven);
    }
    if !outside.is_empty() {
        return Err(Failure::environment(outside.join("\neventlab: ")));
    }
    Ok(if walks.iter().any(|walk| !walk.judged) {
        Exit::Environment
    } else {
        Exit::Proven
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
    let namespace = args.namespace.as_deref().unwrap_or("default");
    for (_, object) in &mut objects {
        settle_namespace(object, namespace);
    }
    Ok(objects)
}

/// Gives an object that names no namespace the one that it would be applied to.
fn settle_namespace(object: &mut Value, namespace: &str) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let names_none = |known: &Value| known.is_null() || known == "";
    if metadata.get("namespace").is_none_or(names_none) {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
}

fn is_kind(object: &Value, kind: &str) -> bool {
    object["apiVersion"] == "argoproj.io/v1alpha1" && object["kind"] == kind
}

/// The Sensors, validated now: `--at` is the time of the event, which the controller does not know of.
fn sensors(objects: &[(String, Value)]) -> Result<Vec<Sensor>, Failure> {
    let now = Timestamp::now();
    let sensors = objects
        .iter()
        .filter(|(_, object)| is_kind(object, "Sensor"))
        .map(|(file, object)| Sensor::of_manifest(file, object, now))
        .collect::<Result<Vec<_>, _>>()
        .map_err(failure)?;
    if sensors.is_empty() {
        return Err(Failure::usage(
            "no Sensor in what -f names; give a manifest of kind Sensor, apiVersion argoproj.io/v1alpha1",
        ));
    }
    Ok(sensors)
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
    for (place, walk) in walks.iter().enumerate() {
        let text = match format {
            Format::Json => {
                let json = serde_json::to_string(walk).map_err(Failure::internal)?;
                text::json_line(&json) + "\n"
            }
            Format::Text => {
                let gap = if place > 0 { "\n" } else { "" };
                format!("{gap}{}", text::render(walk))
            }
        };
        output::raw(text.as_bytes());
    }
    Ok(())
}
