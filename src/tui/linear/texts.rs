//! How the state of a session is said in sentences.

use crate::evidence::CellState;
use crate::session::{StagePhase, State};
use crate::tui::app::stage_word;
use crate::tui::view;

pub(super) fn counters_text(state: &State) -> String {
    let counters = state.counters();
    format!(
        "intakes {}, approved {}, completed {}, effects {}",
        counters.intakes, counters.approved, counters.completed, counters.effects
    )
}

pub(super) fn place(state: &State) -> String {
    match (state.lab(), state.stage()) {
        (Some(lab), Some(stage)) => format!(
            "Lab {}, stage {} of {}, {}: {}",
            lab.name,
            state.stage_index() + 1,
            lab.stages.len(),
            stage_word(stage.kind),
            stage.title
        ),
        _ => "There are no labs.".to_owned(),
    }
}

pub(super) fn phase(state: &State) -> String {
    let mut lines = match state.phase() {
        StagePhase::Passed => vec!["passed".to_owned()],
        StagePhase::Failed { failures } => failures
            .iter()
            .map(|failure| format!("refuted: {}", failure.text))
            .collect(),
        StagePhase::Unproven { reasons } => reasons.iter().map(view::why_unproven).collect(),
        StagePhase::Interrupted { .. } => {
            vec!["interrupted; nothing that was sent is sent again".to_owned()]
        }
        StagePhase::Fresh | StagePhase::Working { .. } => Vec::new(),
    };
    lines.extend(view::unresolved(state, false));
    lines.join("\n")
}

/// What can be done now.
pub(super) fn offer(state: &State) -> String {
    let footer = state.footer();
    if footer.cancel {
        return String::new();
    }
    let mut words = Vec::new();
    let asks = footer.predict || footer.report;
    if footer.next_enabled || footer.reconcile {
        words.push(format!("Enter: {}", footer.next));
    } else if asks {
        words.push(format!("Enter: answer ({})", footer.next));
    } else if !footer.next.is_empty() {
        words.push(footer.next.clone());
    }
    for (wanted, word) in [
        // Once it is answered, an answer may still be changed.
        (asks && footer.next_enabled, "answer"),
        (footer.edit, "edit"),
        (footer.edit, "apply"),
        (footer.hint, "hint"),
        (footer.reveal, "solution"),
        // Where Enter does it again, the word would say it twice.
        (footer.retry && !footer.next.starts_with("again"), "again"),
    ] {
        if wanted {
            words.push(word.to_owned());
        }
    }
    words.join("; ")
}

pub(super) fn word(state: CellState, text: &str) -> String {
    let word = match state {
        CellState::Yes => "yes",
        CellState::Implied => "implied",
        CellState::No => "no",
        CellState::Pending => "pending",
        CellState::Unknown => "unknown",
    };
    if text.is_empty() {
        word.to_owned()
    } else {
        format!("{word}, {text}")
    }
}
