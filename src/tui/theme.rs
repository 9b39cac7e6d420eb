//! Colours and symbols, resolved once: a screen without colour or without Unicode says the same.
//!
//! `NO_COLOR` and `TERM=dumb` leave every slot at the terminal's own colour, and meaning is carried by words, symbols and
//! attributes. (With crossterm 0.29 a colour command under `NO_COLOR` would reset the attributes as well, so no slot may
//! hold a colour then.)

use ratatui::style::{Modifier, Style};

use super::palette::{Background, Depth, Palette};
use crate::evidence::{CellState, Outcome};

/// Everything the views take a style or a symbol from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    palette: Option<Palette>,
    ascii: bool,
    /// Whether dim text can still be read.
    dims: bool,
}

impl Theme {
    /// A theme with or without colours (the terminal's own 16, for a dark background), with or without characters beyond
    /// 7 bits.
    #[must_use]
    pub fn new(colored: bool, ascii: bool) -> Self {
        Self {
            palette: colored.then(|| Palette::choose(Background::Dark, Depth::Own)),
            ascii,
            dims: true,
        }
    }

    /// The same for another background, with as many colours as the terminal has.
    #[must_use]
    pub fn on(self, background: Background, depth: Depth) -> Self {
        Self {
            palette: self.palette.map(|_| Palette::choose(background, depth)),
            ..self
        }
    }

    /// The same without dim text, for a terminal that draws it so dark that it cannot be read.
    #[must_use]
    pub fn without_dim(self) -> Self {
        Self {
            dims: false,
            ..self
        }
    }

    /// Whether only 7-bit characters may be drawn.
    #[must_use]
    pub fn is_ascii(self) -> bool {
        self.ascii
    }

    fn good(self) -> Style {
        self.palette
            .map_or(Style::new(), |palette| Style::new().fg(palette.good))
    }

    fn bad(self) -> Style {
        self.palette
            .map_or(Style::new(), |palette| Style::new().fg(palette.bad))
    }

    /// Text that is less important.
    #[must_use]
    pub fn dim(self) -> Style {
        if self.dims {
            Style::new().add_modifier(Modifier::DIM)
        } else {
            Style::new()
        }
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

    /// Code and commands.
    #[must_use]
    pub fn code(self) -> Style {
        self.palette
            .map_or(Style::new(), |palette| Style::new().fg(palette.code))
    }

    /// A place that a search has found.
    #[must_use]
    pub fn found(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
    }

    /// A line that a difference adds or takes away; its first character says the same.
    #[must_use]
    pub fn change(self, line: &str) -> Style {
        match line.chars().next() {
            Some('+') => self.good(),
            Some('-') => self.bad(),
            Some('@') => self.dim(),
            _ => Style::new(),
        }
    }

    /// A cell of the probe table.
    #[must_use]
    pub fn cell(self, state: CellState) -> Style {
        match state {
            // An implied one is told by its mark: dim and in colour it could not be read.
            CellState::Yes | CellState::Implied => self.good(),
            CellState::No => self.bad().add_modifier(Modifier::BOLD),
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
            Outcome::Proven => ("proven", self.good().add_modifier(Modifier::BOLD)),
            Outcome::Refuted => ("refuted", self.bad().add_modifier(Modifier::BOLD)),
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

    /// Heights of a column in eighths, from nothing to full; in 7 bits by digits.
    #[must_use]
    pub fn column(self, eighth: usize) -> char {
        const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        const ASCII: [char; 9] = [' ', '.', '.', ':', ':', '|', '|', '#', '#'];
        let from = if self.ascii { ASCII } else { BLOCKS };
        from[eighth.min(8)]
    }

    /// Stands for what is left out.
    #[must_use]
    pub fn ellipsis(self) -> &'static str {
        if self.ascii { ".." } else { "…" }
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
            match character {
                // Marks that turn the direction of writing would tear the line apart.
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
                character if character.is_control() => ' ',
                character => character,
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
