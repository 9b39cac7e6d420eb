//! One table of keys: it feeds the loop, the footer, the help and the man page ([`for_manual`]).

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Next,
    Apply,
    Edit,
    EditHere,
    Hint,
    Reveal,
    Answer,
    Retry,
    Cancel,
    Reset,
    Labs,
    Stages,
    Open,
    Copy,
    NextArea,
    PreviousArea,
    NextPane,
    PreviousPane,
    /// The n-th pane, from 0.
    Pane(usize),
    Zoom,
    ByProbe,
    ByLayer,
    NextSource,
    PreviousSource,
    Wrap,
    Raw,
    Compare,
    Search,
    FindNext,
    FindPrevious,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Top,
    Bottom,
    Back,
    Mouse,
    Redraw,
    Suspend,
    Help,
    Quit,
    Interrupt,
}

/// Where a key is listed in the help and the manual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Lab,
    Look,
    Move,
    Program,
}

impl Group {
    /// All groups in order.
    pub const ALL: [Group; 4] = [Group::Lab, Group::Look, Group::Move, Group::Program];

    /// Its heading.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Group::Lab => "The lab",
            Group::Look => "Looking",
            Group::Move => "Moving",
            Group::Program => "The program",
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    pub action: Action,
    pub group: Group,
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

const fn row(
    action: Action,
    group: Group,
    keys: &'static [Chord],
    shown: &'static str,
    footer: &'static str,
    help: &'static str,
) -> Binding {
    Binding {
        action,
        group,
        keys,
        shown,
        footer,
        help,
    }
}

use Group::{Lab, Look, Move, Program};

/// Every key of the program.
#[rustfmt::skip]
pub const BINDINGS: &[Binding] = &[
    row(Action::Next, Lab, &[key(KeyCode::Enter)], "Enter", "next",
        "Do what the footer says: start the stage, continue it, or go on after it has passed. Nothing goes on by itself."),
    row(Action::Answer, Lab, &[character('p')], "p", "answer",
        "Predict, or answer the report: choose from a list."),
    row(Action::Edit, Lab, &[character('e')], "e", "edit",
        "Edit this stage's manifest in $VISUAL or $EDITOR."),
    row(Action::EditHere, Lab, &[character('E')], "E", "edit here",
        "Edit it in the built-in editor: Ctrl-S saves, Esc leaves, Ctrl-U undoes, Ctrl-R redoes. What the screen's end left unsaved is offered."),
    row(Action::Apply, Lab, &[character('a')], "a", "apply",
        "Show which cells of the recorded probes the edited filter would flip, and apply it."),
    row(Action::Hint, Lab, &[character('h')], "h", "hint",
        "Show the next hint, in a stage that has hints; elsewhere move left."),
    row(Action::Reveal, Lab, &[character('S')], "S", "solution",
        "Show the reference solution, after a try or on confirmation."),
    row(Action::Retry, Lab, &[character('r')], "r", "again",
        "Do the stage's work again, with new traces."),
    row(Action::Cancel, Lab, &[character('c')], "c", "cancel",
        "Stop waiting for what runs now."),
    row(Action::Labs, Lab, &[character('L')], "L", "labs",
        "List the labs, and go to one."),
    row(Action::Stages, Lab, &[character('b')], "b", "stages",
        "Back to a stage of this lab: the cluster returns to how it was at its start."),
    row(Action::Reset, Lab, &[character('R')], "R", "",
        "Start this lab over, on confirmation."),

    row(Action::Open, Look, &[character('o'), character(' ')], "o Space", "open",
        "Open the selected cell or line: its facts; from a fact, its log in its surroundings or its object."),
    row(Action::Copy, Look, &[character('y')], "y", "",
        "Copy the field command of what is selected or open (through the terminal, OSC 52)."),
    row(Action::NextPane, Look, &[character('v')], "v", "pane",
        "Show the next pane: evidence, logs, manifest, ledger, counters, access, gate, report."),
    row(Action::PreviousPane, Look, &[character('V')], "V", "",
        "Show the pane before."),
    row(Action::Pane(0), Look, &[character('1')], "1", "", "The evidence."),
    row(Action::Pane(1), Look, &[character('2')], "2", "", "The logs of the pods."),
    row(Action::Pane(2), Look, &[character('3')], "3", "", "The manifest."),
    row(Action::Pane(3), Look, &[character('4')], "4", "", "The ledger: orders, attempts, effects, claims, and the CRM's records."),
    row(Action::Pane(4), Look, &[character('5')], "5", "", "The four counters over time."),
    row(Action::Pane(5), Look, &[character('6')], "6", "", "What service accounts may do."),
    row(Action::Pane(6), Look, &[character('7')], "7", "", "The gate."),
    row(Action::Pane(7), Look, &[character('8')], "8", "", "The incident report so far."),
    row(Action::Zoom, Look, &[character('z')], "z", "",
        "Give the area all the room, or give it back."),
    row(Action::ByProbe, Look, &[character('f')], "f", "",
        "Evidence of the table's selected probe only, or of all."),
    row(Action::ByLayer, Look, &[character('F')], "F", "",
        "Evidence of the next layer only, or of all."),
    row(Action::NextSource, Look, &[character(']')], "]", "",
        "Logs of the next pod and container, or of all."),
    row(Action::PreviousSource, Look, &[character('[')], "[", "",
        "Logs of the pod and container before."),
    row(Action::Wrap, Look, &[character('w')], "w", "",
        "Wrap long lines of evidence and logs, or cut them."),
    row(Action::Raw, Look, &[character('x')], "x", "",
        "Evidence and logs: lines as they were written, or in short (time, level, message, fields)."),
    row(Action::Compare, Look, &[character('d')], "d", "",
        "Manifest: the text, against what is applied, against the original, against the reference once it is allowed."),
    row(Action::Search, Look, &[character('/')], "/", "",
        "Search the pane, or the text where that has the focus (upper and lower case are one, unless there is an upper one)."),
    row(Action::FindNext, Look, &[character('n')], "n", "",
        "Go to the next place found."),
    row(Action::FindPrevious, Look, &[character('N')], "N", "",
        "Go to the place found before."),

    row(Action::NextArea, Move, &[key(KeyCode::Tab)], "Tab", "",
        "Go to the next area: text, table, pane."),
    row(Action::PreviousArea, Move, &[key(KeyCode::BackTab)], "Shift-Tab", "",
        "Go to the area before."),
    row(Action::Up, Move, &[key(KeyCode::Up), character('k')], "Up k", "",
        "Move or scroll up."),
    row(Action::Down, Move, &[key(KeyCode::Down), character('j')], "Down j", "",
        "Move or scroll down."),
    row(Action::Left, Move, &[key(KeyCode::Left)], "Left", "",
        "Move left; in an open cell, the fact before."),
    row(Action::Right, Move, &[key(KeyCode::Right), character('l')], "Right l", "",
        "Move right; in an open cell, the next fact."),
    row(Action::PageUp, Move, &[key(KeyCode::PageUp), control('b')], "PgUp", "",
        "Scroll a page up (in the table: the text)."),
    row(Action::PageDown, Move, &[key(KeyCode::PageDown), control('f')], "PgDn", "",
        "Scroll a page down (in the table: the text)."),
    row(Action::Top, Move, &[key(KeyCode::Home), character('g')], "g", "",
        "Go to the top."),
    row(Action::Bottom, Move, &[key(KeyCode::End), character('G')], "G", "",
        "Go to the end, and follow it."),
    row(Action::Back, Move, &[key(KeyCode::Esc)], "Esc", "",
        "Close what is open."),

    row(Action::Help, Program, &[character('?'), key(KeyCode::F(1))], "?", "keys",
        "Show this list."),
    row(Action::Mouse, Program, &[character('m')], "m", "",
        "Free the mouse, so that the terminal can select text, or take it again."),
    row(Action::Redraw, Program, &[control('l')], "Ctrl-L", "",
        "Draw everything anew."),
    row(Action::Suspend, Program, &[control('z')], "Ctrl-Z", "",
        "Stop the program and give the terminal to the shell; `fg` comes back."),
    row(Action::Quit, Program, &[character('q')], "q", "quit",
        "Leave. Everything is saved, and the next start goes on here."),
    row(Action::Interrupt, Program, &[control('c')], "Ctrl-C", "",
        "Leave at once, whatever runs (exit code 130). Everything is saved; so is what is being typed in the built-in editor."),
];

/// What a key event means, if anything.
#[must_use]
pub fn action(event: KeyEvent) -> Option<Action> {
    if event.modifiers.contains(KeyModifiers::ALT) {
        return None;
    }
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

/// The keys for the manual: heading, and each key with its sentence.
pub fn for_manual() -> impl Iterator<Item = (&'static str, Vec<(&'static str, &'static str)>)> {
    Group::ALL.into_iter().map(|group| {
        let rows = BINDINGS
            .iter()
            .filter(|binding| binding.group == group)
            .map(|binding| (binding.shown, binding.help))
            .collect();
        (group.title(), rows)
    })
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
    fn the_manual_has_every_key_once() {
        let listed: usize = for_manual().map(|(_, rows)| rows.len()).sum();
        assert_eq!(listed, BINDINGS.len());
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
