//! Moving, filtering and searching.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::overlay::step;
use super::{App, Area, Command, Pane, Prompt, Searching};
use crate::evidence::Layer;
use crate::session::State;
use crate::tui::keys::Action;
use crate::tui::logs::Found;
use crate::tui::look::Look;
use crate::tui::panes::fact_text;
use crate::tui::search::{Needle, around};

/// Log lines that a search looks at in one turn of the loop.
const SEARCH_STEP: usize = 20_000;
/// The longest text that can be searched for.
const PROMPT_LIMIT: usize = 200;

impl App {
    pub(super) fn moved(&mut self, action: Action, state: &State) -> Option<Command> {
        match action {
            Action::NextArea => self.area = after(self.area),
            Action::PreviousArea => self.area = after(after(self.area)),
            Action::NextPane => return self.show(self.pane.beside(1)),
            Action::PreviousPane => return self.show(self.pane.beside(Pane::ALL.len() - 1)),
            Action::Pane(place) => return self.show(*Pane::ALL.get(place)?),
            Action::Zoom => {
                self.zoom = !self.zoom;
                self.touch();
            }
            Action::Back if self.zoom => {
                self.zoom = false;
                self.touch();
            }
            Action::Back => self.needle = Needle::default(),
            Action::ByProbe => self.filter_probe(),
            Action::ByLayer => self.filter_layer(),
            Action::NextSource | Action::PreviousSource => self.choose_source(action),
            Action::Wrap => {
                self.wrap = !self.wrap;
                self.flash = Some(if self.wrap {
                    "long lines are wrapped".to_owned()
                } else {
                    "long lines are cut".to_owned()
                });
            }
            Action::Raw => {
                self.raw = !self.raw;
                self.flash = Some(if self.raw {
                    "lines as they were written".to_owned()
                } else {
                    "lines in short: time, level, message, fields".to_owned()
                });
            }
            Action::Compare => {
                self.pane = Pane::Manifest;
                self.compare = self.compare.next(state.revealed());
                *self.cursor_mut() = Default::default();
                self.touch();
            }
            Action::Search => self.prompt = Some(Prompt::default()),
            Action::FindNext => self.find(true, state),
            Action::FindPrevious => self.find(false, state),
            scrolling => self.scrolled(scrolling, self.area),
        }
        None
    }

    /// Shows a pane and gives it the focus.
    pub(super) fn show(&mut self, pane: Pane) -> Option<Command> {
        self.pane = pane;
        self.area = Area::Pane;
        self.touch();
        match pane {
            Pane::Report => Some(Command::Look(Look::Report)),
            Pane::Ledger => Some(Command::Look(Look::Tables)),
            _ => None,
        }
    }

    /// Shows the ledger, as a fact leads to it.
    pub fn show_ledger(&mut self) {
        self.overlay = None;
        self.pane = Pane::Ledger;
        self.touch();
    }

    /// Moves in an area; in the table, pages move the text.
    pub(super) fn scrolled(&mut self, action: Action, area: Area) {
        let paging = matches!(action, Action::PageUp | Action::PageDown);
        match area {
            Area::Table if !paging => match action {
                Action::Left | Action::Hint => self.layer = self.layer.saturating_sub(1),
                Action::Right => self.layer = (self.layer + 1).min(Layer::ALL.len() - 1),
                other => self.row = step(self.row, other, self.scene.rows.len(), 5),
            },
            Area::Text | Area::Table => {
                let page = usize::from(self.scene.places.text.height).saturating_sub(1);
                self.text.scroll(action, self.scene.text.len(), page);
            }
            Area::Pane => {
                let action = if action == Action::Hint {
                    Action::Left
                } else {
                    action
                };
                let (length, grows) = (self.pane_length(), self.pane.grows());
                let page = usize::from(self.scene.places.pane.height);
                self.cursor_mut().go(action, length, page, grows);
            }
        }
    }

    /// Lines of the present pane.
    #[must_use]
    pub fn pane_length(&self) -> usize {
        match self.pane {
            Pane::Evidence => self.scene.facts.len(),
            Pane::Logs => self.logs.len(self.source),
            _ => self.scene.block.len(),
        }
    }

    fn filter_probe(&mut self) {
        self.pane = Pane::Evidence;
        self.by_probe = match self.by_probe {
            Some(_) => None,
            None => self
                .scene
                .rows
                .get(self.row.min(self.scene.rows.len().saturating_sub(1)))
                .map(|row| row.probe.clone()),
        };
        self.touch();
    }

    fn filter_layer(&mut self) {
        self.pane = Pane::Evidence;
        self.by_layer = match self.by_layer {
            None => Layer::ALL.first().copied(),
            Some(layer) => Layer::ALL.get(layer.index() + 1).copied(),
        };
        self.touch();
    }

    /// All sources, then each one, and all again.
    fn choose_source(&mut self, action: Action) {
        self.pane = Pane::Logs;
        self.area = Area::Pane;
        let count = self.logs.sources().count();
        let present = self.source.map_or(0, |source| source + 1);
        let next = if action == Action::NextSource {
            (present + 1) % (count + 1)
        } else {
            (present + count) % (count + 1)
        };
        self.source = next.checked_sub(1);
        *self.cursor_mut() = crate::tui::cursor::Cursor::following();
    }

    /// A key while the text of a search is typed.
    pub(super) fn prompt_key(&mut self, event: KeyEvent, state: &State) {
        let Some(prompt) = &mut self.prompt else {
            return;
        };
        match event.code {
            KeyCode::Esc => self.prompt = None,
            KeyCode::Enter => {
                self.needle = Needle::new(&prompt.text);
                self.prompt = None;
                self.find(true, state);
            }
            KeyCode::Backspace => {
                prompt.text.pop();
            }
            KeyCode::Char('u') if event.modifiers.contains(KeyModifiers::CONTROL) => {
                prompt.text.clear();
            }
            KeyCode::Char(character)
                if !event.modifiers.contains(KeyModifiers::CONTROL)
                    && prompt.text.len() < PROMPT_LIMIT =>
            {
                prompt.text.push(character);
            }
            _ => {}
        }
    }

    /// The first line of what was pasted.
    pub(super) fn paste_into_prompt(&mut self, text: &str) {
        let line = text.lines().next().unwrap_or_default();
        if let Some(prompt) = &mut self.prompt {
            let room = PROMPT_LIMIT.saturating_sub(prompt.text.len());
            let characters = line.chars().filter(|character| !character.is_control());
            prompt.text.extend(characters.take(room));
        }
    }

    fn find(&mut self, forward: bool, state: &State) {
        if self.needle.is_empty() {
            self.flash("nothing to search for; / asks for it");
            return;
        }
        match (self.area, self.pane) {
            (Area::Text, _) => self.find_in_text(forward),
            (_, Pane::Logs) => {
                self.area = Area::Pane;
                self.search_logs(forward);
            }
            _ => {
                self.area = Area::Pane;
                self.find_in_pane(forward, state);
            }
        }
    }

    /// From beside the present line to the end, then from the other end back to it.
    fn search_logs(&mut self, forward: bool) {
        let (at, length) = (self.cursor().at, self.logs.len(self.source));
        let next = if forward {
            Some(at + 1).filter(|next| *next < length)
        } else {
            at.checked_sub(1)
        };
        let (from, left) = match next {
            Some(from) => (from, true),
            None => (other_end(forward, length), false),
        };
        self.searching = Some(Searching {
            from,
            forward,
            until: at,
            around: !left,
        });
        self.search_on();
    }

    fn find_in_text(&mut self, forward: bool) {
        let text = &self.scene.text;
        let hit = around(text.len(), self.text.top, forward, |line| {
            text.get(line)
                .is_some_and(|line| self.needle.is_in(&line.to_string()))
        });
        match hit {
            Some(line) => self.text.top = line,
            None => self.not_found(),
        }
    }

    fn find_in_pane(&mut self, forward: bool, state: &State) {
        let at = self.cursor().at;
        let evidence = self.pane == Pane::Evidence;
        let hit = around(self.pane_length(), at, forward, |place| {
            let text = if evidence {
                self.scene
                    .facts
                    .get(place)
                    .and_then(|at| state.facts().get(*at))
                    .map(|fact| fact_text(fact, true))
            } else {
                self.scene
                    .block
                    .get(place)
                    .map(|shown| shown.line.to_string())
            };
            text.is_some_and(|text| self.needle.is_in(&text))
        });
        match hit {
            Some(place) => self.cursor_mut().jump(place),
            None => self.not_found(),
        }
    }

    fn not_found(&mut self) {
        self.flash = Some(format!("not found: {}", self.needle.text()));
    }

    /// Goes on with a search in the logs; true while there is more to do.
    pub fn search_on(&mut self) -> bool {
        let Some(now) = self.searching else {
            return false;
        };
        let found = self.logs.find(
            self.source,
            &self.needle,
            now.from,
            now.forward,
            SEARCH_STEP,
        );
        self.searching = match found {
            Found::At(place) if !now.is_past(place) => {
                self.cursors[Pane::Logs.index()].jump(place);
                if now.around {
                    let end = if now.forward { "top" } else { "end" };
                    self.flash = Some(format!("{} found from the {end}", self.needle.text()));
                }
                None
            }
            Found::GoOn(from) if !now.is_past(from) => Some(Searching { from, ..now }),
            Found::Nowhere if !now.around => Some(Searching {
                from: other_end(now.forward, self.logs.len(self.source)),
                around: true,
                ..now
            }),
            _ => {
                self.not_found();
                None
            }
        };
        self.searching.is_some()
    }
}

/// What was pasted as it was copied: terminals send a line's end as the Enter key does, and nothing else that controls one
/// is meant to be typed.
pub(super) fn pasted(text: &str) -> String {
    let lines = text.replace("\r\n", "\n").replace('\r', "\n");
    let typed = |character: &char| !character.is_control() || matches!(character, '\n' | '\t');
    lines.chars().filter(typed).collect()
}

/// The line with which a search goes on once it has come to an end.
fn other_end(forward: bool, length: usize) -> usize {
    if forward { 0 } else { length.saturating_sub(1) }
}

fn after(area: Area) -> Area {
    match area {
        Area::Text => Area::Table,
        Area::Table => Area::Pane,
        Area::Pane => Area::Text,
    }
}
