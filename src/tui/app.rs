//! What the screen itself remembers: area, pane, places in lists, what is open. Turns keys into commands.
//!
//! [`App::key`] and [`App::mouse`] answer a [`Command`] for the loop; [`App::prepare`] computes what the next frame shows.

mod moving;
mod opening;
mod overlay;
mod pointer;
mod questions;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::builtin::BuiltIn;
use super::cursor::Cursor;
use super::keys::{self, Action};
use super::logs::LogBook;
use super::look::{Look, Tables};
use super::manifest::{Compare, Texts};
use super::scene::Scene;
use super::search::Needle;
use super::theme::Theme;
use crate::evidence::Layer;
use crate::session::{Message, State};

pub use overlay::{Choice, Does, Overlay};
pub use questions::{before_applying, not_text, stage_word, unreadable, unsaved};

/// The three areas that can have the focus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    Text,
    #[default]
    Table,
    Pane,
}

/// What the pane shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pane {
    #[default]
    Evidence,
    Logs,
    Manifest,
    Ledger,
    Counters,
    Access,
    Gate,
    Report,
}

impl Pane {
    /// All panes in order.
    pub const ALL: [Pane; 8] = [
        Pane::Evidence,
        Pane::Logs,
        Pane::Manifest,
        Pane::Ledger,
        Pane::Counters,
        Pane::Access,
        Pane::Gate,
        Pane::Report,
    ];

    /// Its name on the screen.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Pane::Evidence => "evidence",
            Pane::Logs => "logs",
            Pane::Manifest => "manifest",
            Pane::Ledger => "ledger",
            Pane::Counters => "counters",
            Pane::Access => "access",
            Pane::Gate => "gate",
            Pane::Report => "report",
        }
    }

    /// Its place in [`Pane::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// Whether lines are added at its end while one looks.
    #[must_use]
    pub fn grows(self) -> bool {
        matches!(self, Pane::Evidence | Pane::Logs)
    }

    fn beside(self, steps: usize) -> Pane {
        Pane::ALL[(self.index() + steps) % Pane::ALL.len()]
    }
}

/// What the loop has to do for the screen.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Tell(Message),
    /// Do what Enter offers; an edited manifest is looked at before it is applied.
    GoOn,
    /// Hand the terminal to the learner's editor, at a line (from 1) where one is known.
    Edit {
        manifest: String,
        line: Option<usize>,
    },
    /// Open the built-in editor.
    EditHere {
        manifest: String,
        line: Option<usize>,
    },
    /// Open it with what was typed before and not saved, or drop that.
    TakeUp {
        manifest: String,
        keep: bool,
    },
    /// Save what the built-in editor holds.
    Save {
        manifest: String,
        text: String,
    },
    /// Check the working copy, and show which recorded probes it would judge otherwise.
    Preview {
        manifest: String,
    },
    Look(Look),
    Copy(String),
    Mouse(bool),
    Redraw,
    Suspend,
    Quit,
    Interrupt,
}

/// A line that is being typed at the foot of the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    pub text: String,
}

/// A search that goes on over several turns of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Searching {
    pub from: usize,
    pub forward: bool,
    /// The line at which it began, and ends once it came around.
    pub until: usize,
    /// It has come to an end and goes on from the other.
    pub around: bool,
}

impl Searching {
    /// Whether this line was looked at already.
    fn is_past(self, place: usize) -> bool {
        self.around
            && if self.forward {
                place > self.until
            } else {
                place < self.until
            }
    }
}

/// The screen's own state.
pub struct App {
    pub theme: Theme,
    /// There is a screen, whose texts name its keys; where words are typed none does.
    pub keys: bool,
    pub area: Area,
    pub pane: Pane,
    pub zoom: bool,
    pub overlay: Option<Overlay>,
    pub prompt: Option<Prompt>,
    pub editor: Option<BuiltIn>,
    /// Selected row and layer of the table.
    pub row: usize,
    pub layer: usize,
    pub text: Cursor,
    pub cursors: [Cursor; Pane::ALL.len()],
    pub wrap: bool,
    /// Lines of logs as they were written, not in short.
    pub raw: bool,
    /// Evidence of this probe only.
    pub by_probe: Option<String>,
    /// Evidence of this layer only.
    pub by_layer: Option<Layer>,
    /// Logs of this source only.
    pub source: Option<usize>,
    pub compare: Compare,
    pub needle: Needle,
    pub searching: Option<Searching>,
    /// A short answer to the last key.
    pub flash: Option<String>,
    /// What is to be known of what the last key has begun.
    pub note: Option<String>,
    /// What does not work any more, until the end.
    pub failure: Option<String>,
    pub logs: LogBook,
    pub manifest: Texts,
    /// The ledger and the CRM as last read, or why they could not be.
    pub tables: Option<Result<Tables, String>>,
    /// The report as Markdown, as of when the pane was opened.
    pub report: Option<Result<String, String>>,
    /// Whether the mouse belongs to the screen.
    pub mouse: bool,
    /// Where the webhook and the API can be reached, for the header.
    pub reach: Vec<String>,
    /// What is shown is a copy that nothing can be done in.
    pub read_only: bool,
    pub scene: Scene,
}

impl App {
    /// A fresh screen.
    #[must_use]
    pub fn new(theme: Theme) -> Self {
        let mut cursors = [Cursor::default(); Pane::ALL.len()];
        cursors[Pane::Evidence.index()] = Cursor::following();
        cursors[Pane::Logs.index()] = Cursor::following();
        Self {
            theme,
            keys: true,
            area: Area::default(),
            pane: Pane::default(),
            zoom: false,
            overlay: None,
            prompt: None,
            editor: None,
            row: 0,
            layer: 0,
            text: Cursor::default(),
            cursors,
            wrap: false,
            raw: false,
            by_probe: None,
            by_layer: None,
            source: None,
            compare: Compare::default(),
            needle: Needle::default(),
            searching: None,
            flash: None,
            note: None,
            failure: None,
            logs: LogBook::default(),
            manifest: Texts::default(),
            tables: None,
            report: None,
            mouse: true,
            reach: Vec::new(),
            read_only: false,
            scene: Scene::default(),
        }
    }

    /// The state has changed: everything is computed anew before the next frame.
    pub fn touch(&mut self) {
        self.scene.stale = true;
    }

    /// Where the present pane's list stands.
    #[must_use]
    pub fn cursor(&self) -> &Cursor {
        &self.cursors[self.pane.index()]
    }

    pub(super) fn cursor_mut(&mut self) -> &mut Cursor {
        &mut self.cursors[self.pane.index()]
    }

    /// Takes a key and answers what is to be done.
    pub fn key(&mut self, event: KeyEvent, state: &State) -> Option<Command> {
        if event.kind == KeyEventKind::Release {
            return None;
        }
        // Esc and a key that arrive together read as Alt and the key; tmux and slow lines send them so. Nothing here wants Alt.
        if event.modifiers.contains(KeyModifiers::ALT) && self.editor.is_none() {
            let escape = KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE);
            let modifiers = event.modifiers.difference(KeyModifiers::ALT);
            return self
                .single_key(escape, state)
                .or_else(|| self.single_key(KeyEvent { modifiers, ..event }, state));
        }
        self.single_key(event, state)
    }

    fn single_key(&mut self, event: KeyEvent, state: &State) -> Option<Command> {
        let action = keys::action(event);
        if action == Some(Action::Interrupt) {
            return Some(Command::Interrupt);
        }
        if action == Some(Action::Suspend) {
            return Some(Command::Suspend);
        }
        self.flash = None;
        self.note = None;
        self.scene.stale_block = true;
        if self.scene.places.too_small {
            return (action == Some(Action::Quit)).then_some(Command::Quit);
        }
        if self.prompt.is_some() {
            self.prompt_key(event, state);
            return None;
        }
        if self.editor.is_some() {
            return self.editor_key(event);
        }
        let action = action?;
        self.searching = None;
        if self.overlay.is_some() {
            return self.overlay_key(action, state);
        }
        self.screen_key(action, state)
    }

    /// Does what a key would do; for the linear mode, where words are typed.
    pub fn act(&mut self, action: Action, state: &State) -> Option<Command> {
        self.flash = None;
        if self.overlay.is_some() {
            return self.overlay_key(action, state);
        }
        self.screen_key(action, state)
    }

    fn screen_key(&mut self, action: Action, state: &State) -> Option<Command> {
        if self.read_only && acts(action) {
            return self.flash("this is a copy: it can be read, and nothing can be done in it");
        }
        let footer = state.footer();
        match action {
            Action::Next if footer.reconcile => {
                self.overlay = Some(questions::reconcile(state));
                None
            }
            Action::Next if footer.next_enabled => Some(Command::GoOn),
            Action::Next if footer.predict || footer.report => self.answer(state),
            Action::Next => self.flash(&footer.next),
            Action::Answer => self.answer(state),
            Action::Apply => self.apply(state),
            Action::Edit | Action::EditHere => self.edit(action, state),
            Action::Hint if footer.edit && !self.read_only => {
                self.touch();
                self.text.top = usize::MAX >> 1;
                Some(Command::Tell(Message::Hint))
            }
            Action::Reveal => self.reveal(state),
            Action::Retry if footer.retry => Some(Command::Tell(Message::Retry)),
            Action::Retry => self.flash("there is nothing to do again here"),
            Action::Cancel if footer.cancel => Some(Command::Tell(Message::Cancel)),
            Action::Cancel => self.flash("nothing is under way"),
            Action::Reset => {
                self.overlay = Some(questions::reset(state));
                None
            }
            Action::Labs => {
                self.overlay = Some(questions::labs(state));
                None
            }
            Action::Stages => {
                self.overlay = questions::stages(state, None, self.read_only);
                None
            }
            Action::Open => self.open(state),
            Action::Copy => self.copy(state),
            Action::Help => {
                self.overlay = Some(Overlay::Help { scroll: 0 });
                None
            }
            Action::Mouse => {
                self.mouse = !self.mouse;
                self.flash = Some(if self.mouse {
                    "the mouse belongs to the screen; m frees it".to_owned()
                } else {
                    "the mouse is free: select text with it; m takes it again".to_owned()
                });
                Some(Command::Mouse(self.mouse))
            }
            Action::Redraw => Some(Command::Redraw),
            Action::Quit => Some(Command::Quit),
            moving => self.moved(moving, state),
        }
    }

    /// Takes what was pasted: into the built-in editor, or the first line of it into what is searched for.
    pub fn paste(&mut self, text: &str) {
        let text = moving::pasted(text);
        if let Some(editor) = &mut self.editor {
            editor.paste(&text);
        } else if self.prompt.is_some() {
            self.paste_into_prompt(&text);
        }
    }

    pub(super) fn flash(&mut self, text: &str) -> Option<Command> {
        self.flash = Some(text.to_owned());
        None
    }

    fn apply(&mut self, state: &State) -> Option<Command> {
        let footer = state.footer();
        if !footer.edit {
            return self.flash("this stage has no manifest to apply; Enter does its work");
        }
        if footer.cancel {
            let word = if self.keys { "c" } else { "cancel" };
            return self.flash(&format!("something is under way; {word} stops it"));
        }
        let manifest = state.stage()?.fix.as_ref()?.manifest.clone();
        Some(Command::Preview { manifest })
    }

    fn edit(&mut self, action: Action, state: &State) -> Option<Command> {
        let Some(fix) = state.stage().and_then(|stage| stage.fix.as_ref()) else {
            return self.flash("this stage has no manifest to edit");
        };
        let (manifest, line) = (fix.manifest.clone(), None);
        Some(if action == Action::Edit {
            Command::Edit { manifest, line }
        } else {
            Command::EditHere { manifest, line }
        })
    }

    fn reveal(&mut self, state: &State) -> Option<Command> {
        let footer = state.footer();
        if state.revealed() || footer.reveal {
            self.pane = Pane::Manifest;
            self.compare = Compare::Reference;
            self.touch();
        }
        if footer.reveal {
            return Some(Command::Tell(Message::Reveal { confirmed: false }));
        }
        if footer.edit && !state.revealed() {
            self.overlay = Some(questions::confirm(
                "Show the reference without a try?",
                vec!["The report will say that it was shown.".to_owned()],
                Does::Tell(Message::Reveal { confirmed: true }),
            ));
            return None;
        }
        if state.revealed() {
            None
        } else {
            self.flash("there is no solution to show here")
        }
    }

    /// Opens the next question of a prediction or a report.
    fn answer(&mut self, state: &State) -> Option<Command> {
        let footer = state.footer();
        let overlay = if footer.predict {
            questions::prediction(state, None)
        } else if footer.report {
            questions::report_topics(state, None)
        } else {
            None
        };
        if overlay.is_none() {
            return self.flash("there is nothing to answer here");
        }
        self.overlay = overlay;
        None
    }

    /// After a message was taken: the next question of the same kind, if one is open.
    pub fn follow_up(&mut self, message: &Message, state: &State) {
        self.touch();
        if self.overlay.is_some() {
            return;
        }
        self.overlay = match message {
            Message::Predict { probe, .. } => questions::prediction(state, Some(probe)),
            Message::Report { topic, .. } if state.footer().report => {
                questions::report_topics(state, Some(topic))
            }
            Message::Reveal { .. } if state.revealed() => {
                self.pane = Pane::Manifest;
                self.compare = Compare::Reference;
                None
            }
            _ => None,
        };
    }
}

/// Whether a key would change the session.
fn acts(action: Action) -> bool {
    matches!(
        action,
        Action::Next
            | Action::Apply
            | Action::Edit
            | Action::EditHere
            | Action::Reveal
            | Action::Answer
            | Action::Retry
            | Action::Cancel
            | Action::Reset
    )
}
