//! What lies over the screen, and its keys.

use super::{App, Area, Command, Pane, questions};
use crate::session::{Message, State};
use crate::tui::keys::{self, Action};

/// What choosing a line does.
#[derive(Clone, Debug, PartialEq)]
pub enum Does {
    Nothing,
    Tell(Message),
    /// Opens the stages of a lab.
    Stages(String),
    /// Opens the answers to a topic of the report.
    Answers(String),
    Command(Box<Command>),
}

/// One line of a list to choose from.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    pub text: String,
    pub does: Does,
}

impl Choice {
    pub(super) fn new(text: impl Into<String>, does: Does) -> Self {
        Self {
            text: text.into(),
            does,
        }
    }
}

/// What lies over the screen.
#[derive(Clone, Debug, PartialEq)]
pub enum Overlay {
    Help {
        scroll: usize,
    },
    /// Facts of a cell, by `seq`.
    Facts {
        title: String,
        facts: Vec<u64>,
        selected: usize,
        scroll: usize,
    },
    Choose {
        title: String,
        /// What is to be known before one chooses; lines that begin with `+` or `-` are drawn as changes.
        preface: Vec<String>,
        choices: Vec<Choice>,
        selected: usize,
    },
    /// An object, a message, an error: to be read.
    Text {
        title: String,
        lines: Vec<String>,
        scroll: usize,
        /// What `y` copies.
        command: Option<String>,
    },
}

impl App {
    pub(super) fn overlay_key(&mut self, action: Action, state: &State) -> Option<Command> {
        match action {
            Action::Back | Action::Quit => {
                let outer = match (action, self.overlay.as_ref()) {
                    (Action::Back, Some(Overlay::Choose { choices, .. })) => {
                        questions::outer(choices, state)
                    }
                    _ => None,
                };
                self.overlay = outer;
                return None;
            }
            Action::Copy => return self.copy(state),
            Action::Redraw => return Some(Command::Redraw),
            _ => {}
        }
        let page = usize::from(self.scene.places.body.height)
            .saturating_sub(6)
            .max(1);
        match self.overlay.as_mut()? {
            Overlay::Help { scroll } => match action {
                Action::Help | Action::Next => self.overlay = None,
                other => *scroll = step(*scroll, other, keys::BINDINGS.len() * 2, page),
            },
            Overlay::Text { scroll, lines, .. } => match action {
                Action::Next => self.overlay = None,
                other => *scroll = step(*scroll, other, lines.len(), page),
            },
            Overlay::Facts {
                facts,
                selected,
                scroll,
                ..
            } => match action {
                Action::Next => self.overlay = None,
                Action::Open => return self.open_fact(state),
                Action::Left | Action::Hint | Action::PreviousArea | Action::FindPrevious => {
                    *selected = selected.saturating_sub(1);
                    *scroll = 0;
                }
                Action::Right | Action::NextArea | Action::FindNext => {
                    *selected = (*selected + 1).min(facts.len().saturating_sub(1));
                    *scroll = 0;
                }
                other => *scroll = step(*scroll, other, 200, page),
            },
            Overlay::Choose {
                choices, selected, ..
            } => {
                if !matches!(action, Action::Next | Action::Open) {
                    *selected = step(*selected, action, choices.len(), page.min(5));
                    return None;
                }
                let does = choices.get(*selected).map(|choice| choice.does.clone());
                self.overlay = None;
                return self.chosen(does?, state);
            }
        }
        None
    }

    /// Chooses the n-th line at once, as a typed number does.
    pub fn pick(&mut self, place: usize, state: &State) -> Option<Command> {
        if let Some(Overlay::Choose {
            selected, choices, ..
        }) = &mut self.overlay
        {
            let count = choices.len();
            if place >= count {
                return self.flash(&format!("choose 1 to {count}"));
            }
            *selected = place;
            return self.overlay_key(Action::Next, state);
        }
        None
    }

    /// Chooses the n-th line, as a click does.
    pub(super) fn choose(&mut self, place: usize, state: &State) -> Option<Command> {
        if let Some(Overlay::Choose { selected, .. }) = &mut self.overlay {
            if *selected != place {
                *selected = place;
                return None;
            }
            return self.overlay_key(Action::Next, state);
        }
        None
    }

    fn chosen(&mut self, does: Does, state: &State) -> Option<Command> {
        match does {
            Does::Nothing => None,
            Does::Tell(message) => {
                self.touch();
                if matches!(
                    message,
                    Message::Next | Message::GoTo { .. } | Message::Reset
                ) {
                    self.text.top = 0;
                    self.row = 0;
                }
                Some(Command::Tell(message))
            }
            Does::Answers(topic) => {
                self.overlay = questions::report_answers(state, &topic);
                None
            }
            Does::Stages(lab) => {
                self.overlay = questions::stages(state, Some(&lab), self.read_only);
                None
            }
            Does::Command(command) => Some(*command),
        }
    }

    /// From a fact to where it was seen: its log, or its object.
    fn open_fact(&mut self, state: &State) -> Option<Command> {
        let Some(Overlay::Facts {
            facts, selected, ..
        }) = &self.overlay
        else {
            return None;
        };
        let fact = state.fact(*facts.get(*selected)?)?;
        if fact.observation.is_from_log()
            && let Some(pod) = &fact.pod
        {
            let place = self
                .logs
                .place_of(&pod.pod, &pod.uid, pod.instance, &fact.line);
            let Some((source, line)) = place else {
                return self
                    .flash("its log is not followed any more; y copies the command that reads it");
            };
            self.overlay = None;
            self.pane = Pane::Logs;
            self.area = Area::Pane;
            self.source = Some(source);
            self.cursor_mut().jump(line);
            self.touch();
            return None;
        }
        match crate::tui::look::behind(fact) {
            Some(look) => Some(Command::Look(look)),
            None => self.flash("there is no object behind this fact; y copies its command"),
        }
    }
}

/// The place after a movement in a list.
pub(super) fn step(place: usize, action: Action, length: usize, page: usize) -> usize {
    let last = length.saturating_sub(1);
    match action {
        Action::Up => place.min(last).saturating_sub(1),
        Action::Down => place.saturating_add(1).min(last),
        Action::PageUp => place.min(last).saturating_sub(page),
        Action::PageDown => place.saturating_add(page).min(last),
        Action::Top => 0,
        Action::Bottom => last,
        _ => place.min(last),
    }
}
