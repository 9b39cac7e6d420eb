//! What whoever plays from the shell is to do next, and what a stage without work asks: the requests to predict, the answers
//! to choose from.

use crate::lab::{Probe, StageKind};
use crate::report::explain::text;
use crate::session::{StagePhase, State};

/// So many characters of a request or of a fact's line are shown.
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
        Some(StageKind::Predict) => state.unpredicted().into_iter().map(request).collect(),
        Some(StageKind::Report) => state
            .open_topics()
            .into_iter()
            .flat_map(|topic| choices(state, topic))
            .collect(),
        _ => Vec::new(),
    }
}

fn request(probe: &Probe) -> String {
    // Its number is known when it is sent.
    let body = probe.body.replace("{{attempt}}", "N");
    let headers = probe.headers.iter();
    let headers: Vec<String> = headers
        .map(|(name, value)| format!(" {name}: {value};"))
        .collect();
    let text = format!(
        "{} ({}):{} {} {body}",
        probe.name,
        probe.title,
        headers.concat(),
        probe.method
    );
    text::one_line(&text, LINE)
}

/// The answers to one question, as `--claim` takes them.
fn choices(state: &State, topic: &str) -> Vec<String> {
    let choices = state.report_choices(topic).into_iter().enumerate();
    choices
        .map(|(index, (text, answer))| {
            let text = text::one_line(&text, LINE);
            match topic {
                "layer" | "fact" => format!("{topic}={answer}: {text}"),
                _ => format!("{topic}={}: {text}", index + 1),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Fate;
    use crate::session::state::tests::probe;

    #[test]
    fn a_request_is_one_line_without_anything_that_a_terminal_acts_on() {
        let mut asked = probe("flat", Fate::Applied);
        for body in [
            "{\n  \"a\": 1\n}".to_owned(),
            "\u{1b}[2J\r\u{7}\u{9b}31m\u{202e}".to_owned(),
            "\t{{attempt}}\0".to_owned(),
            "x".repeat(1 << 20),
        ] {
            asked.body.clone_from(&body);
            asked.title.clone_from(&body);
            asked.headers = [("X-A".to_owned(), body.clone())].into();
            let line = request(&asked);
            assert!(line.starts_with("flat ("), "{line}");
            assert!(!line.contains(|c: char| c.is_control() || c == '\u{202e}'));
            assert!(line.chars().count() <= LINE + 1, "{}", line.len());
        }
    }
}
