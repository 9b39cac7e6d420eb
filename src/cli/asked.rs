//! What whoever plays from the shell is to do next, and what a stage without work asks: the requests to predict, the answers
//! to choose from.

use crate::lab::{Probe, StageKind};
use crate::session::{StagePhase, State};

/// So many characters of a fact's line are shown.
const LINE: usize = 300;

/// The command that gives what a stage without work wants first.
pub(super) fn answering(state: &State) -> &'static str {
    match state.stage().map(|stage| stage.kind) {
        Some(StageKind::Report) => "`eventlab next --claim TOPIC=ANSWER …`, or on the screen",
        _ => "`eventlab next --predict PROBE=LAYER …`, or on the screen",
    }
}

/// What to do now, with the command that does it.
pub(super) fn next_step(state: &State) -> String {
    let next = state.footer().next;
    if !state.drift().is_empty() {
        return format!(
            "{next} (`eventlab check --adopt`, `eventlab check --reapply`, `eventlab reset {}`)",
            state.lab().map_or("LAB", |lab| lab.name.as_str())
        );
    }
    let onward = *state.phase() == StagePhase::Passed
        || (*state.phase() == StagePhase::Fresh && !state.has_work());
    match (state.finished(), onward && state.footer().next_enabled) {
        (true, _) => next,
        (false, true) => format!("{next} (`eventlab next`)"),
        (false, false) if onward => format!("{next} ({})", answering(state)),
        (false, false) if matches!(state.phase(), StagePhase::Unproven { .. }) => {
            format!("{next} (`eventlab check`; with new requests `eventlab check --again`)")
        }
        (false, false) => format!("{next} (`eventlab check`)"),
    }
}

/// What is asked, one line each; nothing where nothing is asked any more.
pub(super) fn lines(state: &State) -> Vec<String> {
    match state.stage().map(|stage| stage.kind) {
        Some(StageKind::Predict) => predictions(state),
        Some(StageKind::Report) => state
            .open_topics()
            .into_iter()
            .flat_map(|topic| choices(state, topic))
            .collect(),
        _ => Vec::new(),
    }
}

/// The requests that have no prediction yet.
fn predictions(state: &State) -> Vec<String> {
    let predicted = state.stage().and_then(|stage| stage.predicts.as_ref());
    let Some((lab, name)) = state.lab().zip(predicted) else {
        return Vec::new();
    };
    let given = state
        .progress_here()
        .and_then(|lab| lab.predictions.get(name));
    let open = |probe: &&Probe| given.is_none_or(|given| !given.contains_key(&probe.name));
    lab.stages
        .iter()
        .filter(|stage| stage.name == *name)
        .flat_map(|stage| stage.probes.iter().filter(open))
        .map(request)
        .collect()
}

fn request(probe: &Probe) -> String {
    // Its number is known when it is sent.
    let body = probe.body.replace("{{attempt}}", "N");
    let headers = probe.headers.iter();
    let headers: Vec<String> = headers
        .map(|(name, value)| format!(" {name}: {value};"))
        .collect();
    format!(
        "{} ({}):{} {} {body}",
        probe.name,
        probe.title,
        headers.concat(),
        probe.method
    )
}

/// The answers to one question, as `--claim` takes them.
fn choices(state: &State, topic: &str) -> Vec<String> {
    let choices = state.report_choices(topic).into_iter().enumerate();
    choices
        .map(|(index, (text, answer))| {
            let text: String = text.chars().take(LINE).collect();
            match topic {
                "layer" | "fact" => format!("{topic}={answer}: {text}"),
                _ => format!("{topic}={}: {text}", index + 1),
            }
        })
        .collect()
}
