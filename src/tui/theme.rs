//! Colours and symbols, resolved once: a screen without colour or without Unicode says the same.
//!
//! `NO_COLOR` and `TERM=dumb` leave every slot at the terminal's own colour, and meaning is carried by words, symbols and
//! attributes. (With crossterm 0.29 a colour command under `NO_COLOR` would reset the attributes as well, so no slot may
//! hold a colour then.)

use ratatui::style::{Color, Modifier, Style};

use crate::evidence::{CellState, Outcome};

/// When colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorChoice {
    /// Unless `NO_COLOR` is set or the terminal is dumb.
    #[default]
    Auto,
    Always,
    Never,
}

impl ColorChoice {
    /// Resolves the choice from the environment (`NO_COLOR` non-empty, `TERM`).
    #[must_use]
    pub fn resolve(self, no_color: Option<&str>, term: Option<&str>) -> bool {
        match self {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => no_color.is_none_or(str::is_empty) && term != Some("dumb"),
        }
    }
}

/// Everything the views take a style or a symbol from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    colored: bool,
    ascii: bool,
}

impl Theme {
    /// A theme with or without colours, with or without characters beyond 7 bits.
    #[must_use]
    pub fn new(colored: bool, ascii: bool) -> Self {
        Self { colored, ascii }
    }

    /// Whether only 7-bit characters may be drawn.
    #[must_use]
    pub fn is_ascii(self) -> bool {
        self.ascii
    }

    fn colored(self, color: Color) -> Style {
        if self.colored {
            Style::new().fg(color)
        } else {
            Style::new()
        }
    }

    /// Text that is less important.
    #[must_use]
    pub fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Headings and names.
    #[must_use]
    pub fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The selected row, cell or tab.
    #[must_use]
    pub fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Code and commands. The blue and orange of the palette stay apart for all common kinds of colour blindness.
    #[must_use]
    pub fn code(self) -> Style {
        self.colored(Color::Cyan)
    }

    /// A cell of the probe table.
    #[must_use]
    pub fn cell(self, state: CellState) -> Style {
        match state {
            CellState::Yes => self.colored(Color::Blue),
            CellState::Implied => self.colored(Color::Blue).add_modifier(Modifier::DIM),
            CellState::No => self.colored(Color::Yellow).add_modifier(Modifier::BOLD),
            CellState::Pending => Style::new(),
            CellState::Unknown => self.dim(),
        }
    }

    /// The symbol of a cell; words beside it say the same.
    #[must_use]
    pub fn mark(self, state: CellState) -> &'static str {
        match (state, self.ascii) {
            (CellState::Yes, false) => "✔",
            (CellState::Yes, true) => "y",
            (CellState::Implied, false) => "(✔)",
            (CellState::Implied, true) => "(y)",
            (CellState::No, false) => "✘",
            (CellState::No, true) => "N",
            (CellState::Pending, false) => "…",
            (CellState::Pending, true) => "..",
            (CellState::Unknown, false) => "·",
            (CellState::Unknown, true) => "-",
        }
    }

    /// The word and style of a verdict.
    #[must_use]
    pub fn outcome(self, outcome: Outcome) -> (&'static str, Style) {
        match outcome {
            Outcome::Proven => (
                "proven",
                self.colored(Color::Blue).add_modifier(Modifier::BOLD),
            ),
            Outcome::Refuted => (
                "refuted",
                self.colored(Color::Yellow).add_modifier(Modifier::BOLD),
            ),
            Outcome::Unproven => (
                "unproven",
                Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            ),
        }
    }

    /// A horizontal rule of this width.
    #[must_use]
    pub fn rule(self, width: usize) -> String {
        (if self.ascii { "-" } else { "─" }).repeat(width)
    }

    /// Between the names of panes.
    #[must_use]
    pub fn separator(self) -> &'static str {
        if self.ascii { " | " } else { " │ " }
    }

    /// Between counters.
    #[must_use]
    pub fn dot(self) -> &'static str {
        if self.ascii { " - " } else { " · " }
    }

    /// The bullet of a list.
    #[must_use]
    pub fn bullet(self) -> &'static str {
        if self.ascii { "* " } else { "• " }
    }

    /// The Enter key.
    #[must_use]
    pub fn enter(self) -> &'static str {
        if self.ascii { "Enter" } else { "⏎" }
    }

    /// Text as this theme may draw it: without control characters, and in 7 bits where that is asked for.
    #[must_use]
    pub fn text(self, text: &str) -> String {
        let visible = text.chars().map(|character| {
            if character.is_control() {
                ' '
            } else {
                character
            }
        });
        if !self.ascii {
            return visible.collect();
        }
        visible.map(seven_bits).collect()
    }
}

fn seven_bits(character: char) -> &'static str {
    const ASCII: &str = " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~";
    match character {
        ' '..='~' => {
            let place = character as usize - ' ' as usize;
            ASCII.get(place..=place).unwrap_or("?")
        }
        '→' => "->",
        '…' => "...",
        '✔' => "y",
        '✘' => "N",
        '•' | '·' => "*",
        '–' | '—' | '─' => "-",
        '│' => "|",
        '’' | '‘' => "'",
        '“' | '”' => "\"",
        '⏎' => "Enter",
        _ => "?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_follows_choice_then_environment() {
        assert!(ColorChoice::Auto.resolve(None, Some("xterm")));
        assert!(ColorChoice::Auto.resolve(Some(""), Some("xterm")));
        assert!(!ColorChoice::Auto.resolve(Some("1"), Some("xterm")));
        assert!(!ColorChoice::Auto.resolve(None, Some("dumb")));
        assert!(ColorChoice::Always.resolve(Some("1"), Some("dumb")));
        assert!(!ColorChoice::Never.resolve(None, Some("xterm")));
    }

    #[test]
    fn without_colour_no_slot_holds_one_and_states_differ_by_mark() {
        let theme = Theme::new(false, true);
        let states = [
            CellState::Yes,
            CellState::Implied,
            CellState::No,
            CellState::Pending,
            CellState::Unknown,
        ];
        let marks: std::collections::BTreeSet<_> =
            states.iter().map(|state| theme.mark(*state)).collect();
        assert_eq!(marks.len(), states.len());
        for state in states {
            assert_eq!(theme.cell(state).fg, None);
            assert!(theme.mark(state).is_ascii());
        }
        assert!(theme.text("ä→✔\u{1b}[2J").is_ascii());
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        assert_eq!(
            Theme::new(true, false).text("a\u{1b}]0;x\u{7}b\n"),
            "a ]0;x b "
        );
    }
}
