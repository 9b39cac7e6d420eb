//! `eventlab trace`: one event through a pipeline of one's own, layer by layer.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::exit::{Exit, Failure};
use super::output::{line as print, note};
use super::place::Place;
use super::prepare::agreed;
use super::run::Format;
use super::start;
use crate::cluster::{Cluster, Context, ContextRequest, KnownCertificate};
use crate::embedded::services::eventsource;
use crate::kinds::NAMESPACE;
use crate::report::explain::walk::{Input, walk};
use crate::report::explain::{Request, Sensor, Stop, Walk};
use crate::runner::sending;
use crate::runner::trace::{
    Finding, Pipeline, Search, Sought, Standing, TraceError, Webhook, verdict,
};

/// Arguments of `trace`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TraceArgs {
    /// Namespace of the pipeline (default: that of the context; on the embedded cluster the lab's)
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// The EventSource
    #[arg(long, value_name = "NAME")]
    eventsource: String,
    /// Its event, where it has several
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// The Sensor
    #[arg(long, value_name = "NAME")]
    sensor: String,
    /// Body of the one request that is sent
    #[arg(long, value_name = "TEXT", required_unless_present = "no_send")]
    body: Option<String>,
    /// A header of the request, as `Name: value`
    #[arg(short = 'H', long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// Send nothing; look for an event that is there
    #[arg(long, conflicts_with = "body", requires = "arrival")]
    no_send: bool,
    /// The event's id, as the EventSource and the Sensor log it
    #[arg(long, value_name = "ID", requires = "no_send")]
    arrival: Option<String>,
    /// Do not ask before sending
    #[arg(long)]
    yes: bool,
    /// How long to look
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

const EXAMPLES: &str = "Examples:
  eventlab trace --context kind-lab -n shop --eventsource web --sensor orders --body '{\"kind\":\"order.created\"}'
  eventlab trace --context kind-lab -n shop --eventsource web --sensor orders --no-send --arrival 3f2a…
  eventlab trace --eventsource orders --sensor orders --event filter-path --body '{…}'   on the embedded cluster

The event is real: whatever the pipeline does with it is done. It carries one header more, X-Eventlab-Trace.

Exit codes: 0 it is proven how far the event came, 1 it is not, 2 usage, 3 could not look.";

/// Asks, sends one event, and says where it is.
///
/// # Errors
/// No cluster, no such pipeline, no answer to the question.
pub async fn run(place: &Place, args: &TraceArgs) -> Result<Exit, Failure> {
    let cluster = cluster(place, args).await?;
    let pipeline = Pipeline::look(
        &cluster,
        &args.eventsource,
        args.event.as_deref(),
        &args.sensor,
    )
    .await
    .map_err(failure)?;
    let search = if args.no_send {
        let sought = Sought {
            arrival: args.arrival.clone(),
            trace: None,
        };
        Some(Search::begin(&cluster, &pipeline, sought, false).await)
    } else {
        send(&cluster, &pipeline, args, place.real.webhook.is_some()).await?
    };
    let Some(mut search) = search else {
        note!("Nothing was sent.");
        return Ok(Exit::Proven);
    };
    let known = search
        .follow(&pipeline, Duration::from_secs(args.timeout))
        .await;
    let findings = search.findings(&pipeline);
    let predicted = match search.payload().await {
        Some(event) => Input::event(&event).and_then(|event| predict(&pipeline, &event)),
        None => request_of(args).and_then(|request| predict_request(&pipeline, request)),
    };
    tell(args, &search, &findings, &predicted);
    Ok(exit(&findings, known))
}

fn failure(error: TraceError) -> Failure {
    match error {
        TraceError::Look(error) => Failure::environment(error),
        error => Failure::usage(error),
    }
}

/// The context's cluster, else the embedded one that runs in another terminal.
async fn cluster(place: &Place, args: &TraceArgs) -> Result<Cluster, Failure> {
    let (context, default) = match start::confirmed(&place.real).await? {
        Some(context) => {
            let namespace = context.namespace.clone();
            (context, namespace)
        }
        None => (embedded(place).await?, NAMESPACE.to_owned()),
    };
    let namespace = args.namespace.clone().unwrap_or(default);
    let mut options = place.real.options(None);
    if let Some(address) = place.real.webhook {
        let service = format!("{}-eventsource-svc", args.eventsource);
        options.addresses = [(service, address)].into();
    }
    Ok(Cluster::of_context(&context, &namespace, options))
}

async fn embedded(place: &Place) -> Result<Context, Failure> {
    let folder = place.folder()?;
    let running = start::running(&folder).ok_or_else(|| {
        Failure::environment(
            "no cluster to look at: name one with --context, or start the embedded one with `eventlab cluster start` in another terminal",
        )
    })?;
    let request = ContextRequest {
        name: "admin".to_owned(),
        kubeconfig: Some(running.kubeconfig),
        confirmed: None,
    };
    Context::load(&request).await.map_err(Failure::environment)
}

/// `None` when the answer to the question was no.
async fn send(
    cluster: &Cluster,
    pipeline: &Pipeline,
    args: &TraceArgs,
    reached: bool,
) -> Result<Option<Search>, Failure> {
    let webhook = pipeline.webhook(reached).map_err(failure)?;
    let headers = headers(&args.header)?;
    let trace = format!(
        "trace-{}",
        uuid::Uuid::new_v4().simple().to_string().split_at(12).0
    );
    let body = args.body.clone().unwrap_or_default().into_bytes();
    let request = webhook.request(&headers, body, &trace);
    let certificate = certificate(cluster, &webhook).await?;
    let scheme = if certificate.is_some() {
        "https"
    } else {
        "http"
    };
    let url = format!("{scheme}://{}:{}", webhook.service, webhook.port);
    note!("{}", sending::command(&request, &url));
    let question = format!(
        "Send this one event to EventSource {} in namespace {} of {}?",
        pipeline.source_name(),
        pipeline.namespace,
        cluster.name()
    );
    if !agreed(args.yes, &question)? {
        return Ok(None);
    }
    let sought = Sought {
        trace: Some(trace),
        arrival: None,
    };
    let mut search = Search::begin(cluster, pipeline, sought, true).await;
    let (service, port) = (&webhook.service, webhook.port);
    let answer = match &certificate {
        Some(known) => cluster.send_secured(service, port, &request, known).await,
        None => cluster.send(service, port, &request).await,
    };
    search.answered(answer);
    Ok(Some(search))
}

/// What a webhook over TLS has to show: the certificate of its Secret, since its name is of the cluster.
async fn certificate(
    cluster: &Cluster,
    webhook: &Webhook,
) -> Result<Option<KnownCertificate>, Failure> {
    let Some(place) = &webhook.tls else {
        return Ok(None);
    };
    let (name, key) = (&place.name, &place.key);
    let unread = |why: String| {
        Failure::environment(format!(
            "the webhook speaks TLS, and {why}; send the event as you always do and look for it with --no-send --arrival ID"
        ))
    };
    let value = cluster.secret_value(name, key).await;
    let value = value.map_err(|error| unread(error.to_string()))?;
    let Some(pem) = value else {
        return Err(unread(format!("there is no {key} in a Secret {name}")));
    };
    let known = KnownCertificate::from_pem(&pem)
        .map_err(|error| unread(format!("{key} of Secret {name} cannot be used: {error}")))?;
    Ok(Some(known))
}

fn headers(given: &[String]) -> Result<Vec<(String, String)>, Failure> {
    given
        .iter()
        .map(|text| {
            let (name, value) = text.split_once(':').ok_or_else(|| {
                Failure::usage(format!(
                    "--header {text:?} is no header; write it as `Name: value`"
                ))
            })?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        })
        .collect()
}

fn request_of(args: &TraceArgs) -> Result<Request, String> {
    let body = args.body.clone().ok_or("the event itself is not known")?;
    Request::new(&args.header, None, body.into_bytes())
}

fn predict_request(pipeline: &Pipeline, request: Request) -> Result<Walk, String> {
    let intake = eventsource::intake(&without_tls(&pipeline.event_source), &pipeline.event)?
        .ok_or("the event is no webhook")?;
    predict(pipeline, &Input::Request(request, Some(intake.into())))
}

/// An EventSource whose webhooks speak plain HTTP: what becomes of a request that was taken is the same.
fn without_tls(event_source: &Value) -> Value {
    let mut plain = event_source.clone();
    let webhooks = plain.pointer_mut("/spec/webhook");
    let events = webhooks.and_then(Value::as_object_mut);
    let events = events.into_iter().flat_map(|events| events.values_mut());
    for event in events.filter_map(Value::as_object_mut) {
        event.remove("serverCertSecret");
        event.remove("serverKeySecret");
    }
    plain
}

/// What the live filter would decide, by our own evaluation.
fn predict(pipeline: &Pipeline, input: &Input) -> Result<Walk, String> {
    let now = Timestamp::now();
    let sensor = Sensor::read("live", &pipeline.sensor, now).map_err(|error| error.to_string())?;
    let wanted = (pipeline.source_name(), pipeline.event.as_str());
    let dependencies = sensor.by_event();
    let dependencies = dependencies
        .iter()
        .find(|some| {
            some.first()
                .is_some_and(|first| (first.source.as_str(), first.event.as_str()) == wanted)
        })
        .ok_or("no dependency listens to it")?;
    walk(&sensor, dependencies, input, now).map_err(|error| error.to_string())
}

/// In one sentence.
fn prediction(predicted: &Result<Walk, String>) -> String {
    match predicted {
        Err(reason) => format!("predicted: nothing, {reason}"),
        Ok(walk) => match walk.stopped_at {
            _ if !walk.judged => "predicted: nothing for certain, part of its way is not judged here (`eventlab explain --live` shows which)".to_owned(),
            None => "predicted: it passes the live filter".to_owned(),
            Some(stop) => {
                let place = match stop {
                    Stop::Intake => "the EventSource refuses it",
                    Stop::Bus if walk.data.is_some() => {
                        "it goes to another EventBus than the Sensor reads"
                    }
                    Stop::Bus => "the EventSource's own filter keeps it off the bus",
                    Stop::Transform => "the dependency's transform fails",
                    Stop::Filter => "the live filter drops it",
                    Stop::Conditions => "it waits for the trigger's other dependencies",
                    Stop::Submit => "the object cannot be built",
                };
                let line = walk.logs.iter().rev().find(|line| !line.msg.is_empty());
                let line = line.map_or(String::new(), |line| format!(": {}", line.msg));
                format!("predicted: {place}{line}")
            }
        },
    }
}

fn tell(args: &TraceArgs, search: &Search, findings: &[Finding], predicted: &Result<Walk, String>) {
    let verdict = verdict(findings).text;
    if args.format == Format::Json {
        let value = json!({
            "arrival": search.arrival(),
            "verdict": verdict,
            "layers": findings,
            "predicted": prediction(predicted),
        });
        return print(&value.to_string());
    }
    for finding in findings {
        let word = match finding.standing {
            Standing::Through => "yes",
            Standing::Stopped => "NO",
            Standing::Unproven => "unproven",
        };
        print(&format!("{:<8} {word:<9} {}", finding.layer, finding.line));
        if !finding.command.is_empty() {
            print(&format!("{:18} see: {}", "", finding.command));
        }
        if let Some(would) = &finding.would_prove {
            print(&format!("{:18} would prove it: {would}", ""));
        }
    }
    print(&prediction(predicted));
    print(&verdict);
}

fn exit(findings: &[Finding], known: bool) -> Exit {
    // A request that was not sent: nothing could be looked at.
    if let [only] = findings
        && only.standing == Standing::Unproven
    {
        return Exit::Environment;
    }
    let stopped = findings.iter().any(|one| one.standing == Standing::Stopped);
    if verdict(findings).proven && (known || stopped) {
        Exit::Proven
    } else {
        Exit::NotProven
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_of_a_request_over_tls_is_predicted_too() {
        let secret = json!({"name": "s", "key": "tls.crt"});
        let pipeline = |value: &str| Pipeline {
            namespace: "ns".into(),
            event_source: json!({"metadata": {"name": "web", "namespace": "ns"}, "spec": {"webhook": {
                "order": {"port": "12000", "endpoint": "/o", "method": "POST", "serverCertSecret": secret, "serverKeySecret": secret}}}}),
            sensor: json!({"metadata": {"name": "shop", "namespace": "ns"}, "spec": {
                "dependencies": [{"name": "d", "eventSourceName": "web", "eventName": "order",
                    "filters": {"data": [{"path": "body.kind", "type": "string", "value": [value]}]}}],
                "triggers": [{"template": {"name": "t", "log": {}}}]}}),
            event: "order".into(),
            subject: "default.web.order".into(),
            subscriptions: Vec::new(),
            sensor_level: None,
            source_level: None,
            release: None,
            kubectl: "kubectl -n ns".into(),
        };
        for (value, passes) in [("a", true), ("b", false)] {
            let headers = ["Content-Type: application/json".to_owned()];
            let request = Request::new(&headers, None, br#"{"kind":"a"}"#.to_vec()).unwrap();
            let walk = predict_request(&pipeline(value), request).unwrap();
            assert_eq!(walk.stopped_at.is_none(), passes, "{value}");
        }
    }
}
