//! What is not as it was said last: one line for each change, and each change once.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::texts::{counters_text, phase, word};
use crate::evidence::{CellState, Counters, Layer};
use crate::session::{StagePhase, State};
use crate::tui::{panes, view};

/// After so many seconds it is said that the same is still waited for; then after twice as many, and so on.
const LONG: u64 = 10;

/// What was said last.
#[derive(Default)]
pub(super) struct Said {
    pub place: String,
    phase: String,
    drift: Vec<String>,
    failure: String,
    wait: String,
    /// The seconds of a wait that are said next.
    long: u64,
    /// That it can be cancelled was said of what is under way.
    told_cancel: bool,
    notice: String,
    counters: Option<Counters>,
    predicted: Vec<String>,
    pub hints: usize,
    pub offer: String,
    cells: BTreeMap<(String, &'static str), String>,
}

impl Said {
    /// Nothing of this stage was said yet.
    pub(super) fn at(place: String) -> Self {
        Self {
            place,
            ..Self::default()
        }
    }

    /// The changes, in the order in which they are said.
    pub(super) fn news(&mut self, state: &State, failure: &str, now: Timestamp) -> Vec<String> {
        let mut lines: Vec<String> = self.waits(state, now).into_iter().collect();
        lines.extend(self.cells(state));
        lines.extend(self.counted(state));
        let notice = state.notice().unwrap_or_default();
        lines.extend(changed(&mut self.notice, notice));
        let phase = phase(state);
        if let Some(text) = changed(&mut self.phase, &phase) {
            lines.extend(text.lines().map(str::to_owned));
        }
        lines.extend(self.predictions(state));
        let drift = drift(state);
        if drift != self.drift {
            lines.extend(drift.iter().cloned());
            self.drift = drift;
        }
        lines.extend(changed(&mut self.failure, failure));
        lines
    }

    /// How long it is until a wait is said again.
    pub(super) fn due(&self, state: &State, now: Timestamp) -> Option<Duration> {
        let wait = state.wait()?;
        let waited = Duration::try_from(now.duration_since(wait.since)).unwrap_or_default();
        Some(Duration::from_secs(self.long.max(LONG)).saturating_sub(waited))
    }

    fn waits(&mut self, state: &State, now: Timestamp) -> Option<String> {
        let Some(wait) = state.wait() else {
            (self.wait, self.told_cancel) = (String::new(), false);
            return None;
        };
        let cancel = if state.footer().cancel {
            "; cancel stops it"
        } else {
            ""
        };
        if wait.what != self.wait {
            self.long = LONG;
            let cancel = if self.told_cancel { "" } else { cancel };
            self.told_cancel |= !cancel.is_empty();
            let text = format!("{}{cancel}", doing(&wait.what));
            self.wait = wait.what;
            return Some(text);
        }
        let waited = now.duration_since(wait.since).as_secs();
        let waited = u64::try_from(waited).unwrap_or_default();
        if waited < self.long {
            return None;
        }
        while self.long <= waited {
            self.long = self.long.saturating_mul(2);
        }
        let what = doing(&wait.what);
        Some(format!("{what}, for {waited} seconds now{cancel}"))
    }

    /// Cells that have changed, each in one line. What is only implied is left until nothing more comes of it.
    fn cells(&mut self, state: &State) -> Vec<String> {
        let rows = state.rows();
        let names = panes::row_names(&rows, state);
        let working = matches!(state.phase(), StagePhase::Working { .. });
        let mut lines = Vec::new();
        for (index, (row, name)) in rows.iter().zip(names).enumerate() {
            for layer in Layer::ALL {
                let cell = row.cell(layer);
                if working && cell.state == CellState::Implied {
                    continue;
                }
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

    /// The counters that have gone on.
    fn counted(&mut self, state: &State) -> Option<String> {
        let now = state.counters();
        let Some(before) = self.counters.replace(now) else {
            return (now != Counters::default()).then(|| counters_text(state));
        };
        let of = |counters: Counters| {
            let Counters {
                intakes,
                approved,
                completed,
                effects,
            } = counters;
            [
                ("intakes", intakes),
                ("approved", approved),
                ("completed", completed),
                ("effects", effects),
            ]
        };
        let pairs = of(now).into_iter().zip(of(before));
        let gone_on: Vec<String> = pairs
            .filter(|(now, before)| now != before)
            .map(|((name, count), _)| format!("{name} {count}"))
            .collect();
        // A new attempt counts anew, and says so.
        let said = !gone_on.is_empty() && now != Counters::default();
        said.then(|| gone_on.join(", "))
    }

    /// What was predicted, once it is; how it came out, once that is known of all.
    fn predictions(&mut self, state: &State) -> Vec<String> {
        let predicts = state.stage().is_some_and(|stage| stage.predicts.is_some());
        let ended = !matches!(
            state.phase(),
            StagePhase::Working { .. } | StagePhase::Fresh
        );
        if !predicts && !ended {
            return Vec::new();
        }
        let now = view::predicted(state);
        let before = std::mem::replace(&mut self.predicted, now.clone());
        now.into_iter()
            .filter(|line| !before.contains(line))
            .collect()
    }
}

/// A text that is another one than was said.
fn changed(said: &mut String, now: &str) -> Option<String> {
    if said == now {
        return None;
    }
    now.clone_into(said);
    (!now.is_empty()).then(|| now.to_owned())
}

fn drift(state: &State) -> Vec<String> {
    let drift = state.drift();
    let said = drift
        .iter()
        .map(|line| format!("the cluster differs: {line}"));
    said.collect()
}

/// What is under way, in words: an activity, or what is waited for.
fn doing(what: &str) -> String {
    let first = what.split_whitespace().next().unwrap_or_default();
    if first.ends_with("ing") {
        what.to_owned()
    } else {
        format!("waiting for {what}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Fate;
    use crate::lab::StageKind;
    use crate::session::state::tests::{lab, probe, stage};
    use crate::session::{Context, Message};

    fn working() -> State {
        let mut send = stage("send", StageKind::Send);
        send.apply = vec!["a.yaml".to_owned()];
        send.probes = vec![probe("order", Fate::Applied)];
        let now = Timestamp::UNIX_EPOCH;
        let mut state = State::new([lab("filter-path", vec![send])].into(), now);
        state.update(Message::Next, &Context { now, id: 1 });
        assert!(state.wait().is_some());
        state
    }

    /// The same wait is said again with its seconds, at longer and longer intervals, and never twice for one moment.
    #[test]
    fn a_long_wait_is_said_with_its_seconds() {
        let state = working();
        let mut said = Said::default();
        let mut heard = Vec::new();
        for second in 0..100 {
            let now = Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(second);
            for _ in 0..3 {
                heard.extend(said.news(&state, "", now));
            }
            let due = said.due(&state, now).unwrap();
            assert!(
                due > Duration::ZERO && due <= Duration::from_secs(80),
                "{due:?}"
            );
        }
        let seconds = |count: u32| format!("applying, for {count} seconds now; cancel stops it");
        let mut wanted = vec!["applying; cancel stops it".to_owned()];
        wanted.extend([10, 20, 40, 80].map(seconds));
        assert_eq!(heard, wanted);
    }

    #[test]
    fn what_is_under_way_is_said_as_what_it_is() {
        for (what, said) in [
            ("applying", "applying"),
            ("sending flat", "sending flat"),
            ("the gate", "waiting for the gate"),
            (
                "what was sent, before flat",
                "waiting for what was sent, before flat",
            ),
            ("flat: bus", "waiting for flat: bus"),
            ("", "waiting for "),
        ] {
            assert_eq!(doing(what), said);
        }
    }

    /// Nothing is said twice.
    #[test]
    fn what_has_not_changed_is_not_said() {
        let state = working();
        let now = Timestamp::UNIX_EPOCH;
        let mut said = Said::default();
        assert_eq!(said.news(&state, "it failed", now).len(), 2);
        assert_eq!(said.news(&state, "it failed", now), Vec::<String>::new());
        assert_eq!(said.news(&state, "", now), Vec::<String>::new());
    }
}
