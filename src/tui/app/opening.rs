//! Opening what is selected, and copying its command.

use super::{App, Area, Command, Overlay, Pane};
use crate::cluster::ContainerInstance;
use crate::evidence::Layer;
use crate::session::State;

impl App {
    pub(super) fn open(&mut self, state: &State) -> Option<Command> {
        if self.area == Area::Pane && self.pane == Pane::Logs {
            return self.open_log_line();
        }
        let overlay = match self.area {
            Area::Pane => self
                .selected_fact(state)
                .map(|seq| facts("fact", vec![seq])),
            _ => self.selected_cell(state),
        };
        if overlay.is_none() {
            return self.flash("there is no fact behind this yet");
        }
        self.overlay = overlay;
        None
    }

    /// A line in full, with what stands around it.
    fn open_log_line(&mut self) -> Option<Command> {
        let at = self.cursor().at;
        let (instance, _) = self.logs.line(self.source, at)?;
        let title = format!("{} {}", instance.pod, instance.container);
        let command = self.log_command(instance);
        let first = at.saturating_sub(5);
        let lines = (first..at + 6)
            .filter_map(|place| {
                let (_, text) = self.logs.line(self.source, place)?;
                let mark = if place == at { "> " } else { "  " };
                Some(format!("{mark}{}", pretty(&text)))
            })
            .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        self.overlay = Some(Overlay::Text {
            title,
            lines,
            scroll: 0,
            command,
        });
        None
    }

    /// Reads the log of a container's life; `None` where it is older than those that are kept.
    fn log_command(&self, life: &ContainerInstance) -> Option<String> {
        let later = self
            .logs
            .sources()
            .filter(|other| {
                (&other.uid, &other.container) == (&life.uid, &life.container)
                    && other.instance > life.instance
            })
            .map(|other| other.instance - life.instance)
            .max();
        let previous = match later {
            None => "",
            Some(1) => " --previous",
            Some(_) => return None,
        };
        Some(format!(
            "kubectl -n {} logs {} -c {}{previous}",
            crate::kinds::NAMESPACE,
            life.pod,
            life.container
        ))
    }

    pub(super) fn selected_cell(&self, state: &State) -> Option<Overlay> {
        let rows = &self.scene.rows;
        let row = rows.get(self.row.min(rows.len().saturating_sub(1)))?;
        let layer = *Layer::ALL.get(self.layer)?;
        let seqs = row.cell(layer).facts.clone();
        let known = seqs.iter().any(|seq| state.fact(*seq).is_some());
        known.then(|| facts(&format!("{} at {}", row.probe, layer.name()), seqs))
    }

    fn selected_fact(&self, state: &State) -> Option<u64> {
        let at = self.cursor().at;
        match self.pane {
            Pane::Evidence => {
                let place = self.scene.facts.get(at)?;
                state.facts().get(*place).map(|fact| fact.seq)
            }
            _ => self.scene.block.get(at)?.fact,
        }
    }

    pub(super) fn copy(&mut self, state: &State) -> Option<Command> {
        let command = match &self.overlay {
            Some(Overlay::Text { command, .. }) => command.clone(),
            Some(Overlay::Facts {
                facts, selected, ..
            }) => facts
                .get(*selected)
                .and_then(|seq| state.fact(*seq))
                .map(|fact| fact.command.clone()),
            Some(_) => None,
            None => self.selected_command(state),
        };
        match command.filter(|text| !text.is_empty()) {
            Some(command) => Some(Command::Copy(command)),
            None => self.flash("there is no command to copy here"),
        }
    }

    fn selected_command(&self, state: &State) -> Option<String> {
        let of = |seq: u64| state.fact(seq).map(|fact| fact.command.clone());
        if self.area == Area::Pane {
            if self.pane == Pane::Logs {
                let (instance, _) = self.logs.line(self.source, self.cursor().at)?;
                return self.log_command(instance);
            }
            if let Some(seq) = self.selected_fact(state) {
                return of(seq);
            }
            return self.scene.block.get(self.cursor().at)?.command.clone();
        }
        match self.selected_cell(state)? {
            Overlay::Facts { facts, .. } => facts.first().copied().and_then(of),
            _ => None,
        }
    }
}

/// A JSON line with its fields one below the other; any other line as it is.
fn pretty(text: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(serde_json::Value::Object(fields)) if text.len() < 8 << 10 => {
            let mut out = String::new();
            for (place, (name, value)) in fields.iter().enumerate() {
                let value = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                let gap = if place == 0 { "" } else { "\n      " };
                out.push_str(&format!("{gap}{name}: {value}"));
            }
            out
        }
        _ => text.to_owned(),
    }
}

pub(super) fn facts(title: &str, facts: Vec<u64>) -> Overlay {
    Overlay::Facts {
        title: title.to_owned(),
        facts,
        selected: 0,
        scroll: 0,
    }
}
