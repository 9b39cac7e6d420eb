//! The built-in editor, for terminals without another and for a quick correction.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use ratatui_textarea::{CursorMove, TextArea};

use super::app::{App, Command};
use super::manifest;
use super::markdown::{cut, wrap};
use super::theme::Theme;
use crate::evidence::Outcome;

/// A working copy under the built-in editor.
pub struct BuiltIn {
    pub manifest: String,
    area: TextArea<'static>,
    saved: String,
    /// What is wrong with the text, checked when it was saved.
    error: Option<String>,
    /// Esc was pressed once with unsaved changes.
    leaving: bool,
}

impl BuiltIn {
    /// Opens a text at a line (from 1).
    #[must_use]
    pub fn new(manifest: &str, text: &str, line: Option<usize>, theme: Theme) -> Self {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut area = TextArea::new(lines);
        area.set_tab_length(2);
        area.set_line_number_style(theme.dim());
        area.set_cursor_line_style(ratatui::style::Style::new());
        area.set_cursor_style(theme.selected());
        let mut editor = Self {
            manifest: manifest.to_owned(),
            area,
            saved: String::new(),
            error: None,
            leaving: false,
        };
        editor.saved = editor.text();
        if let Some(line) = line {
            editor.go_to(line);
            editor.check();
        }
        editor
    }

    fn go_to(&mut self, line: usize) {
        let row = u16::try_from(line.saturating_sub(1)).unwrap_or(u16::MAX);
        self.area.move_cursor(CursorMove::Jump(row, 0));
    }

    /// What it holds; the last line ends.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.area.lines().join("\n");
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }

    /// Whether it holds what was not saved.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.text() != self.saved
    }

    /// Puts another text in the place of its own, which can be undone.
    pub fn put(&mut self, text: &str) {
        self.area.select_all();
        self.area.cut();
        self.area.insert_str(text.trim_end_matches('\n'));
        self.go_to(1);
    }

    /// Inserts what was pasted.
    pub fn paste(&mut self, text: &str) {
        self.leaving = false;
        self.area.insert_str(text);
    }

    /// What is wrong with the text; the cursor goes there.
    fn check(&mut self) {
        if let Some(line) = self.find_error() {
            self.go_to(line);
        }
    }

    /// Notes what is wrong, and answers the line where that is known.
    fn find_error(&mut self) -> Option<usize> {
        let checked = manifest::check(&self.manifest, &self.text());
        let (error, line) = match checked {
            Ok(_) => {
                self.error = None;
                return None;
            }
            Err(found) => found,
        };
        // The title names the file.
        let prefix = format!("{}: ", self.manifest);
        self.error = Some(error.strip_prefix(&prefix).unwrap_or(&error).to_owned());
        line
    }

    /// What stands below the text: at most three lines.
    fn foot(&self, width: usize, theme: Theme) -> Vec<Line<'static>> {
        let place = self.area.cursor();
        let (text, style) = match (&self.error, self.leaving) {
            (_, true) => (
                "not saved: Esc again leaves without saving, Ctrl-S saves".to_owned(),
                theme.strong(),
            ),
            (Some(error), _) => (error.clone(), theme.outcome(Outcome::Refuted).1),
            (None, _) => (
                format!(
                    "line {}, column {}   Ctrl-S save   Esc leave   Ctrl-U undo   Ctrl-R redo",
                    place.0 + 1,
                    place.1 + 1
                ),
                theme.dim(),
            ),
        };
        let mut lines = wrap(&[Span::styled(theme.text(&text), style)], width, "", "  ");
        lines.truncate(3);
        lines
    }

    /// Draws it over everything.
    pub fn draw(&self, frame: &mut Frame<'_>, area: Rect, theme: Theme) {
        let below = self.foot(usize::from(area.width), theme);
        let rows = u16::try_from(below.len())
            .unwrap_or(1)
            .min(area.height.saturating_sub(2));
        let head = Rect { height: 1, ..area };
        let foot = Rect {
            y: area.bottom().saturating_sub(rows),
            height: rows,
            ..area
        };
        let body = Rect {
            y: area.y + 1,
            height: area.height.saturating_sub(1 + rows),
            ..area
        };
        let width = usize::from(area.width);
        let changed = if self.is_changed() {
            " (not saved)"
        } else {
            ""
        };
        let title = cut(&theme.text(&format!("{}{changed}", self.manifest)), width);
        frame.render_widget(
            Paragraph::new(Line::from(Span::styled(title, theme.strong()))),
            head,
        );
        frame.render_widget(&self.area, body);
        frame.render_widget(Paragraph::new(below), foot);
    }
}

impl App {
    /// A key of the built-in editor.
    pub(super) fn editor_key(&mut self, event: KeyEvent) -> Option<Command> {
        let editor = self.editor.as_mut()?;
        let control = event.modifiers.contains(KeyModifiers::CONTROL);
        match event.code {
            KeyCode::Char('s') if control => {
                editor.leaving = false;
                let text = editor.text();
                editor.check();
                editor.saved.clone_from(&text);
                let manifest = editor.manifest.clone();
                if editor.error.is_none() {
                    self.editor = None;
                }
                Some(Command::Save { manifest, text })
            }
            KeyCode::Esc if editor.leaving || !editor.is_changed() => {
                let unreadable = editor.error.take();
                self.editor = None;
                self.touch();
                unreadable.and_then(|error| self.flash(&format!("cannot be applied yet: {error}")))
            }
            KeyCode::Esc => {
                editor.leaving = true;
                None
            }
            _ => {
                editor.leaving = false;
                editor.area.input(event);
                // Once something was wrong, it is said until it is not.
                if editor.error.is_some() {
                    editor.find_error();
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(app: &mut App, code: KeyCode, modifiers: KeyModifiers) -> Option<Command> {
        app.editor_key(KeyEvent::new(code, modifiers))
    }

    fn app(text: &str) -> App {
        let theme = Theme::new(false, false);
        let mut app = App::new(theme);
        app.editor = Some(BuiltIn::new("a/sensor.yaml", text, None, theme));
        app
    }

    const GOOD: &str = "apiVersion: v1\nkind: A\nmetadata: {name: a}\n";

    #[test]
    fn a_good_text_is_saved_and_left() {
        let mut app = app(GOOD);
        press(&mut app, KeyCode::Char('#'), KeyModifiers::NONE);
        let saved = press(&mut app, KeyCode::Char('s'), KeyModifiers::CONTROL);
        let Some(Command::Save { text, .. }) = saved else {
            panic!("{saved:?}")
        };
        assert_eq!(
            text,
            format!("#{GOOD}").replace("#apiVersion: v1\n", "#apiVersion: v1\n")
        );
        assert!(
            app.editor.is_some(),
            "without apiVersion it cannot be applied: it stays open"
        );
    }

    #[test]
    fn an_error_keeps_it_open_at_its_line() {
        let mut app = app("apiVersion: v1\nkind: a: b\n");
        press(&mut app, KeyCode::Char('s'), KeyModifiers::CONTROL);
        let editor = app.editor.as_ref().unwrap();
        assert!(
            editor.error.as_ref().unwrap().contains("line 2"),
            "{:?}",
            editor.error
        );
        assert_eq!(editor.area.cursor().0, 1);
    }

    /// However a terminal sends the ends of lines: xterm and tmux as the Enter key does, others as they are.
    #[test]
    fn what_is_pasted_keeps_its_lines_and_nothing_that_controls_a_terminal() {
        for end in ["\n", "\r", "\r\n"] {
            let mut app = app("");
            let lines = ["kind: A", "\ta: \u{1b}[31m日本\u{7}", "", "b: 1", ""];
            app.paste(&lines.join(end));
            let editor = app.editor.as_ref().unwrap();
            assert_eq!(editor.text(), "kind: A\n\ta: [31m日本\n\nb: 1\n", "{end:?}");
            app.editor = None;
            app.prompt = Some(crate::tui::app::Prompt::default());
            app.paste(&["one", "two"].join(end));
            assert_eq!(app.prompt.unwrap().text, "one", "{end:?}");
        }
    }

    #[test]
    fn what_is_not_saved_is_not_lost_by_one_key() {
        let mut app = app(GOOD);
        press(&mut app, KeyCode::Char('x'), KeyModifiers::NONE);
        press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
        assert!(app.editor.is_some());
        press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
        assert!(app.editor.is_none());
    }
}
