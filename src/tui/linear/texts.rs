//! How the state of a session is said in sentences.

use super::Said;
use crate::evidence::{CellState, Layer};
use crate::session::{StagePhase, State};
use crate::tui::app::stage_word;
use crate::tui::{panes, view};

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
        StagePhase::Unproven { reasons } => reasons
            .iter()
            .map(|reason| format!("unproven: {}", reason.text))
            .collect(),
        StagePhase::Interrupted { .. } => vec!["interrupted".to_owned()],
        StagePhase::Fresh | StagePhase::Working { .. } => Vec::new(),
    };
    lines.extend(view::unresolved(state, false));
    lines.join("\n")
}

pub(super) fn drift(state: &State) -> Vec<String> {
    let drift = state.drift();
    let said = drift
        .iter()
        .map(|line| format!("the cluster differs: {line}"));
    said.collect()
}

/// What can be done now.
pub(super) fn offer(state: &State) -> String {
    let footer = state.footer();
    if footer.cancel {
        return String::new();
    }
    let mut words = Vec::new();
    if footer.next_enabled || footer.reconcile {
        words.push(format!("Enter: {}", footer.next));
    } else if !footer.next.is_empty() {
        words.push(footer.next.clone());
    }
    for (wanted, word) in [
        (footer.predict || footer.report, "answer"),
        (footer.edit, "edit"),
        (footer.edit, "apply"),
        (footer.hint, "hint"),
        (footer.reveal, "solution"),
        (footer.retry, "again"),
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

impl Said {
    /// Cells that have changed, each in one line.
    pub(super) fn cells(&mut self, state: &State) -> Vec<String> {
        let rows = state.rows();
        let names = panes::row_names(&rows, state);
        let mut lines = Vec::new();
        for (index, (row, name)) in rows.iter().zip(names).enumerate() {
            for layer in Layer::ALL {
                let cell = row.cell(layer);
                let now = word(cell.state, &cell.text);
                let key = (format!("{index} {name}"), layer.name());
                let settled = !matches!(cell.state, CellState::Unknown | CellState::Pending);
                let before = self.cells.insert(key, now.clone());
                if settled && before.as_deref() != Some(now.as_str()) {
                    lines.push(format!("{name}: {} {now}", layer.name()));
                }
            }
        }
        lines
    }
}
