//! `eventlab status`: where a session stands, read without holding it.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::asked;
use super::exit::{Exit, Failure};
use super::inspect::{PrintArgs, view};
use super::output::line as print;
use super::place::Place;
use super::run::Format;
use super::start;
use crate::embedded::cluster::known_addresses;
use crate::embedded::stores::lost_stores;
use crate::session::{StagePhase, State};

/// Where the session stands, who holds it, and where its cluster can be reached.
///
/// # Errors
/// There is no such session, or it cannot be read.
pub fn status(place: &Place, args: &PrintArgs) -> Result<Exit, Failure> {
    let folder = place.folder()?;
    let view = view(&folder)?;
    let catalog = place.catalog_of(view.checkpoint.as_ref())?;
    let (mut state, _) = State::resume(
        view.checkpoint.clone(),
        &view.entries,
        catalog.labs(),
        Timestamp::now(),
    );
    let running = start::running(&folder);
    if running.is_none() {
        // As the next start will find it.
        state.lose(&lost_stores(&folder));
    }
    let addresses = running.as_ref().map(|_| known_addresses(&folder));
    let counters = state.counters();
    let mut value = json!({
        "session": place.session_name(),
        "folder": folder,
        "held": view.holder.as_ref().map(ToString::to_string),
        "lab": state.lab().map(|lab| lab.name.clone()),
        "seed": state.lab().and_then(|lab| Some(lab.drawn.as_ref()?.seed)),
        "stage": state.stage().map(|stage| stage.name.clone()),
        "attempt": state.attempt(),
        "phase": state.phase(),
        "next": state.footer().next,
        "intakes": counters.intakes, "approved": counters.approved, "completed": counters.completed, "effects": counters.effects,
        "unresolved": state.unresolved().iter().map(|intent| intent.id.clone()).collect::<Vec<_>>(),
        "api": running.as_ref().map(|running| running.api.clone()),
        "kubeconfig": running.as_ref().map(|running| running.kubeconfig.clone()),
        "addresses": addresses,
        "notes": view.notes.iter().chain(state.found()).collect::<Vec<_>>(),
    });
    match args.format {
        Format::Json => print(&value.to_string()),
        Format::Text => {
            value["phase"] = json!(phase(&state));
            value["next"] = json!(asked::next_step(&state));
            value["addresses"] =
                json!(address_lines(addresses.as_ref().and_then(Value::as_object)));
            print_lines(&value);
        }
    }
    Ok(Exit::Proven)
}

/// The phase in a word, and what it is about, a line each.
fn phase(state: &State) -> Vec<String> {
    match state.phase() {
        StagePhase::Fresh => vec!["not begun".to_owned()],
        StagePhase::Passed => vec!["passed".to_owned()],
        StagePhase::Working { step, .. } | StagePhase::Interrupted { step } => {
            vec![format!("interrupted: {}", state.step_phrase(*step))]
        }
        StagePhase::Failed { failures } => {
            let texts = failures.iter().map(|failure| failure.text.clone());
            std::iter::once("failed".to_owned()).chain(texts).collect()
        }
        StagePhase::Unproven { reasons } => {
            let texts = reasons.iter().map(|reason| reason.text.clone());
            std::iter::once("unproven".to_owned())
                .chain(texts)
                .collect()
        }
    }
}

/// The real address of each Service, the webhook's first.
fn address_lines(addresses: Option<&Map<String, Value>>) -> Vec<String> {
    let mut lines: Vec<String> = addresses
        .into_iter()
        .flatten()
        .map(|(service, port)| format!("127.0.0.1:{port} is {service}"))
        .collect();
    lines.sort_by_key(|line| !line.contains("-eventsource-svc"));
    lines
}

fn print_lines(value: &Value) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            Value::Array(items) if items.is_empty() => continue,
            Value::Array(items) => items
                .iter()
                .map(|item| {
                    item.as_str()
                        .map_or_else(|| item.to_string(), str::to_owned)
                })
                .collect::<Vec<_>>()
                .join("\n            "),
            other => other.to_string(),
        };
        print(&format!("{key:<12}{text}"));
    }
}
