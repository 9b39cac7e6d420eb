//! One table of keys: it feeds the loop, the footer and the help.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Next,
    Edit,
    Hint,
    Reveal,
    Answer,
    Retry,
    Cancel,
    Reset,
    Labs,
    Open,
    Copy,
    NextArea,
    PreviousArea,
    NextPane,
    Zoom,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Top,
    Bottom,
    Back,
    Help,
    Quit,
    Interrupt,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    pub action: Action,
    pub keys: &'static [Chord],
    /// How the keys are written.
    pub shown: &'static str,
    /// One or two words for the footer; empty where the footer leaves it out.
    pub footer: &'static str,
    /// One sentence for the help.
    pub help: &'static str,
}

/// A key with or without Ctrl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chord {
    pub code: KeyCode,
    pub control: bool,
}

const fn key(code: KeyCode) -> Chord {
    Chord {
        code,
        control: false,
    }
}

const fn character(character: char) -> Chord {
    key(KeyCode::Char(character))
}

const fn control(character: char) -> Chord {
    Chord {
        code: KeyCode::Char(character),
        control: true,
    }
}

/// Every key of the program.
pub const BINDINGS: &[Binding] = &[
    Binding {
        action: Action::Next,
        keys: &[key(KeyCode::Enter)],
        shown: "Enter",
        footer: "next",
        help: "Do what the footer says: start the stage, continue it, or go on after it has passed.",
    },
    Binding {
        action: Action::Answer,
        keys: &[character('p')],
        shown: "p",
        footer: "answer",
        help: "Predict, or answer the report: choose from a list.",
    },
    Binding {
        action: Action::Edit,
        keys: &[character('e')],
        shown: "e",
        footer: "edit",
        help: "Edit this stage's manifest in $VISUAL or $EDITOR.",
    },
    Binding {
        action: Action::Hint,
        keys: &[character('t')],
        shown: "t",
        footer: "hint",
        help: "Show the next hint.",
    },
    Binding {
        action: Action::Reveal,
        keys: &[character('S')],
        shown: "S",
        footer: "solution",
        help: "Show the reference solution, after a try or on confirmation.",
    },
    Binding {
        action: Action::Retry,
        keys: &[character('r')],
        shown: "r",
        footer: "again",
        help: "Do the stage's work again, with new traces.",
    },
    Binding {
        action: Action::Cancel,
        keys: &[character('c')],
        shown: "c",
        footer: "cancel",
        help: "Stop waiting for what runs now.",
    },
    Binding {
        action: Action::Open,
        keys: &[character('o'), character(' ')],
        shown: "o",
        footer: "open",
        help: "Open the selected cell or line: its facts, raw lines and commands.",
    },
    Binding {
        action: Action::Copy,
        keys: &[character('y')],
        shown: "y",
        footer: "",
        help: "Copy the field command of what is selected or open.",
    },
    Binding {
        action: Action::NextArea,
        keys: &[key(KeyCode::Tab)],
        shown: "Tab",
        footer: "",
        help: "Go to the next area: text, table, pane.",
    },
    Binding {
        action: Action::PreviousArea,
        keys: &[key(KeyCode::BackTab)],
        shown: "Shift-Tab",
        footer: "",
        help: "Go to the area before.",
    },
    Binding {
        action: Action::NextPane,
        keys: &[character('v')],
        shown: "v",
        footer: "pane",
        help: "Show the next pane: evidence, logs, manifest, ledger, gate.",
    },
    Binding {
        action: Action::Zoom,
        keys: &[character('z')],
        shown: "z",
        footer: "",
        help: "Give the area all the room, or give it back.",
    },
    Binding {
        action: Action::Labs,
        keys: &[character('L')],
        shown: "L",
        footer: "labs",
        help: "List the labs and their stages, and go to one.",
    },
    Binding {
        action: Action::Reset,
        keys: &[character('R')],
        shown: "R",
        footer: "",
        help: "Start this lab over, on confirmation.",
    },
    Binding {
        action: Action::Up,
        keys: &[key(KeyCode::Up), character('k')],
        shown: "Up k",
        footer: "",
        help: "Move or scroll up.",
    },
    Binding {
        action: Action::Down,
        keys: &[key(KeyCode::Down), character('j')],
        shown: "Down j",
        footer: "",
        help: "Move or scroll down.",
    },
    Binding {
        action: Action::Left,
        keys: &[key(KeyCode::Left), character('h')],
        shown: "Left h",
        footer: "",
        help: "Move left.",
    },
    Binding {
        action: Action::Right,
        keys: &[key(KeyCode::Right), character('l')],
        shown: "Right l",
        footer: "",
        help: "Move right.",
    },
    Binding {
        action: Action::PageUp,
        keys: &[key(KeyCode::PageUp), control('b')],
        shown: "PgUp",
        footer: "",
        help: "Scroll a page up.",
    },
    Binding {
        action: Action::PageDown,
        keys: &[key(KeyCode::PageDown), control('f')],
        shown: "PgDn",
        footer: "",
        help: "Scroll a page down.",
    },
    Binding {
        action: Action::Top,
        keys: &[key(KeyCode::Home), character('g')],
        shown: "g",
        footer: "",
        help: "Go to the top.",
    },
    Binding {
        action: Action::Bottom,
        keys: &[key(KeyCode::End), character('G')],
        shown: "G",
        footer: "",
        help: "Go to the end, and follow it.",
    },
    Binding {
        action: Action::Back,
        keys: &[key(KeyCode::Esc)],
        shown: "Esc",
        footer: "",
        help: "Close what is open.",
    },
    Binding {
        action: Action::Help,
        keys: &[character('?'), key(KeyCode::F(1))],
        shown: "?",
        footer: "keys",
        help: "Show this list.",
    },
    Binding {
        action: Action::Quit,
        keys: &[character('q')],
        shown: "q",
        footer: "quit",
        help: "Leave. Everything is saved, and the next start goes on here.",
    },
    Binding {
        action: Action::Interrupt,
        keys: &[control('c')],
        shown: "Ctrl-C",
        footer: "",
        help: "Leave at once, whatever runs.",
    },
];

/// What a key event means, if anything.
#[must_use]
pub fn action(event: KeyEvent) -> Option<Action> {
    let chord = Chord {
        code: event.code,
        control: event.modifiers.contains(KeyModifiers::CONTROL),
    };
    BINDINGS
        .iter()
        .find(|binding| binding.keys.contains(&chord))
        .map(|binding| binding.action)
}

/// The table's row for an action.
#[must_use]
pub fn binding(action: Action) -> Option<&'static Binding> {
    BINDINGS.iter().find(|binding| binding.action == action)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_key_means_two_things_and_every_action_is_explained() {
        let mut seen = BTreeSet::new();
        for binding in BINDINGS {
            assert!(!binding.help.is_empty() && !binding.shown.is_empty());
            for chord in binding.keys {
                assert!(
                    seen.insert(format!("{chord:?}")),
                    "{chord:?} is bound twice"
                );
            }
        }
    }

    #[test]
    fn control_c_always_leaves() {
        assert_eq!(
            action(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)),
            Some(Action::Interrupt)
        );
        assert_eq!(
            action(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::NONE)),
            Some(Action::Cancel)
        );
    }
}
