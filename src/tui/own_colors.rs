//! The terminal's own 16 colours, written as every terminal with colours reads them.
//!
//! crossterm writes them as the first of 256 (`38;5;6`). A terminal that knows only `30` to `37` takes that for blinking; one
//! that does not know `90` to `97` leaves the text plain.

use std::io::{self, Write};

/// Rewrites what is written before it goes on, a frame at a time.
#[derive(Debug)]
pub struct OwnColors<W> {
    inner: W,
    /// Sequences come in pieces.
    frame: Vec<u8>,
}

impl<W> OwnColors<W> {
    /// A writer that writes to this one when it is flushed.
    pub fn new(inner: W) -> Self {
        Self {
            inner,
            frame: Vec::new(),
        }
    }
}

impl<W: Write> Write for OwnColors<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.frame.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let frame = std::mem::take(&mut self.frame);
        self.inner.write_all(&rewritten(&frame))?;
        self.inner.flush()
    }
}

/// A frame with each of the 16 in its short form.
fn rewritten(frame: &[u8]) -> Vec<u8> {
    const BEGIN: &[u8] = b"\x1b[";
    let mut out = Vec::with_capacity(frame.len());
    let mut rest = frame;
    while let Some(at) = rest.windows(BEGIN.len()).position(|pair| pair == BEGIN) {
        let (before, sequence) = rest.split_at(at + BEGIN.len());
        out.extend_from_slice(before);
        let is_parameter = |byte: &u8| byte.is_ascii_digit() || *byte == b';';
        let end = sequence.iter().position(|byte| !is_parameter(byte));
        let (parameters, after) = sequence.split_at(end.unwrap_or(sequence.len()));
        match std::str::from_utf8(parameters) {
            Ok(text) if after.first() == Some(&b'm') => out.extend(short(text).into_bytes()),
            _ => out.extend_from_slice(parameters),
        }
        rest = after;
    }
    out.extend_from_slice(rest);
    out
}

/// The parameters of a sequence that sets colours and attributes.
fn short(parameters: &str) -> String {
    let mut parts = parameters.split(';').peekable();
    let mut kept: Vec<String> = Vec::new();
    while let Some(part) = parts.next() {
        let base = match part {
            "38" => 30,
            "48" => 40,
            _ => {
                kept.push(part.to_owned());
                continue;
            }
        };
        let how = parts.next();
        if how == Some("5")
            && let Some(own) = parts.peek().and_then(|number| own(base, number))
        {
            parts.next();
            kept.push(own.to_string());
            continue;
        }
        // What belongs to it is no colour of its own: `38;2;38;5;6`.
        let values = if how == Some("2") { 3 } else { 1 };
        kept.push(part.to_owned());
        kept.extend(how.map(str::to_owned));
        kept.extend(parts.by_ref().take(values).map(str::to_owned));
    }
    kept.join(";")
}

/// The parameter of one of the 16, in the foreground from 30 and in the background from 40.
fn own(base: u16, number: &str) -> Option<u16> {
    match number.parse::<u16>().ok()? {
        normal @ 0..=7 => Some(base + normal),
        bright @ 8..=15 => Some(base + 60 + (bright - 8)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::CrosstermBackend;
    use ratatui::layout::Rect;
    use ratatui::style::{Color, Style};
    use ratatui::widgets::Paragraph;
    use ratatui::{TerminalOptions, Viewport};

    use super::*;
    use crate::tui::palette::{Background, Depth};
    use crate::tui::theme::Theme;

    #[test]
    fn only_the_sixteen_are_written_otherwise() {
        for (given, written) in [
            ("", ""),
            ("plain", "plain"),
            ("\x1b[38;5;6mx\x1b[39;49m", "\x1b[36mx\x1b[39;49m"),
            ("\x1b[38;5;0;48;5;7m", "\x1b[30;47m"),
            ("\x1b[38;5;8;48;5;15m", "\x1b[90;107m"),
            ("\x1b[1;38;5;12;4m", "\x1b[1;94;4m"),
            ("\x1b[38;5;16m", "\x1b[38;5;16m"),
            ("\x1b[38;5;74;49m", "\x1b[38;5;74;49m"),
            ("\x1b[38;2;38;5;6;48;5;1m", "\x1b[38;2;38;5;6;41m"),
            ("\x1b[;m\x1b[m\x1b[0m", "\x1b[;m\x1b[m\x1b[0m"),
            ("\x1b[38;5m\x1b[38m", "\x1b[38;5m\x1b[38m"),
            // Other sequences, and one that is cut off.
            ("\x1b[38;5;6H\x1b[?2026h", "\x1b[38;5;6H\x1b[?2026h"),
            ("\x1b[38;5;6", "\x1b[38;5;6"),
        ] {
            let mut writer = OwnColors::new(Vec::new());
            for byte in given.bytes() {
                writer.write_all(&[byte]).unwrap();
            }
            writer.flush().unwrap();
            assert_eq!(
                String::from_utf8(writer.inner).unwrap(),
                written,
                "{given:?}"
            );
        }
    }

    fn drawn(style: Style) -> String {
        // Whatever `NO_COLOR` says where the tests run.
        crossterm::style::force_color_output(true);
        let mut bytes = Vec::new();
        let options = TerminalOptions {
            viewport: Viewport::Fixed(Rect::new(0, 0, 4, 1)),
        };
        let backend = CrosstermBackend::new(OwnColors::new(&mut bytes));
        let mut terminal = Terminal::with_options(backend, options).unwrap();
        terminal
            .draw(|frame| frame.render_widget(Paragraph::new("text").style(style), frame.area()))
            .unwrap();
        drop(terminal);
        String::from_utf8(bytes).unwrap()
    }

    /// Whatever a theme draws with on a terminal that announces no more than its own colours.
    #[test]
    fn of_a_terminal_with_few_colours_nothing_is_asked_that_it_takes_for_blinking() {
        for background in [Background::Auto, Background::Dark, Background::Light] {
            let theme = Theme::new(true, false).on(background, Depth::Own);
            for style in [theme.code(), theme.change("+"), theme.change("-")] {
                let written = drawn(style);
                assert!(!written.contains("38;5;"), "{written:?}");
                let color = style.fg.unwrap();
                let bright = matches!(
                    color,
                    Color::LightBlue | Color::LightRed | Color::LightMagenta
                );
                let wanted = if bright { "\x1b[9" } else { "\x1b[3" };
                assert!(written.contains(wanted), "{color} {written:?}");
            }
        }
        let many = Theme::new(true, false).on(Background::Dark, Depth::Fixed);
        assert!(drawn(many.code()).contains("38;5;175"));
    }
}
