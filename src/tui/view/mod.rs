//! Draws the session: header, text, probe table, counters, pane, footer, and what lies over them.
//!
//! Nothing here decides or looks anything up: what is drawn is in the [`App`] and its [`super::scene::Scene`].

mod header;
mod overlay;
mod pane;
mod table;
mod text;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::app::{App, Area};
use super::markdown::cut;
use super::places::LEAST;
use crate::session::State;

pub use overlay::lay_out;
pub use pane::tab_names;
pub use table::widths;
pub use text::{after_text, predicted, text_lines, unresolved, why_unproven};

/// Draws what [`App::prepare`] has computed for this size.
pub fn draw(frame: &mut Frame<'_>, state: &State, app: &App) {
    let places = &app.scene.places;
    if places.too_small {
        too_small(frame, frame.area());
        return;
    }
    // Between computing and drawing the terminal may have shrunk: then the next frame fits.
    let fits = frame.area().width >= places.footer.right()
        && frame.area().height >= places.footer.bottom();
    if !fits {
        return;
    }
    if let Some(editor) = &app.editor {
        editor.draw(frame, frame.area(), app.theme);
        return;
    }
    if places.side.width > 0 {
        header::stages(frame, places.side, state, app);
    }
    header::draw(frame, places.header, state, app);
    text::draw(frame, places.text, app);
    rule(frame, places.rule, app);
    table::draw(frame, places.table, app);
    table::counters(frame, places.counters, app);
    status(frame, places.status, state, app);
    pane::draw(frame, places.tabs, places.pane, app);
    footer(frame, places.footer, app);
    overlay::draw(frame, app);
}

fn too_small(frame: &mut Frame<'_>, area: Rect) {
    let text = format!(
        "need {}x{}, have {}x{}; q quits",
        LEAST.0, LEAST.1, area.width, area.height
    );
    let y = area.y + area.height / 2;
    if area.height > 0 && area.width > 0 {
        let text = cut(&text, usize::from(area.width));
        frame.render_widget(
            Paragraph::new(text).centered(),
            Rect {
                y,
                height: 1,
                ..area
            },
        );
    }
}

fn rule(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let rule = app.theme.rule(usize::from(area.width));
    frame.render_widget(Paragraph::new(Span::styled(rule, app.theme.dim())), area);
}

/// The second rule: what is being typed or searched, what does not work, what is waited for and since when, what the
/// last key answered.
fn status(frame: &mut Frame<'_>, area: Rect, state: &State, app: &App) {
    rule(frame, area, app);
    let text = match &app.prompt {
        Some(prompt) => prompt_text(&prompt.text, usize::from(area.width.saturating_sub(4))),
        None => status_text(state, app),
    };
    if text.is_empty() || area.width < 4 {
        return;
    }
    let line = cut(
        &app.theme.text(&format!(" {text} ")),
        usize::from(area.width - 2),
    );
    let width = u16::try_from(super::markdown::width_of(&line)).unwrap_or(area.width);
    let place = Rect {
        x: area.x + 2.min(area.width),
        width: width.min(area.width.saturating_sub(2)),
        ..area
    };
    frame.render_widget(
        Paragraph::new(Span::styled(line, app.theme.strong())),
        place,
    );
}

/// What is typed, with the end of it in sight however long it is.
fn prompt_text(typed: &str, room: usize) -> String {
    const KEYS: &str = "   (Enter searches, Esc leaves)";
    let room = room.saturating_sub(KEYS.len() + 2);
    let mut shown = typed;
    while super::markdown::width_of(shown) > room {
        let mut characters = shown.chars();
        characters.next();
        shown = characters.as_str();
    }
    format!("/{shown}_{KEYS}")
}

fn status_text(state: &State, app: &App) -> String {
    let mut parts = Vec::new();
    if let Some(failure) = &app.failure {
        parts.push(failure.clone());
    }
    if let Some(searching) = &app.searching {
        parts.push(format!(
            "searching {}: line {} of {} (Esc stops)",
            app.needle.text(),
            searching.from + 1,
            app.pane_length()
        ));
    }
    if let Some(flash) = &app.flash {
        parts.push(flash.clone());
    }
    // Also where the text that lists how is not on the screen.
    if let Some(first) = state.drift().first() {
        parts.push(format!("the cluster differs: {first}"));
    }
    if let Some(note) = &app.note {
        parts.push(note.clone());
    }
    if let Some(wait) = state.wait() {
        let waited = state
            .now()
            .duration_since(wait.since)
            .as_secs_f64()
            .max(0.0);
        let cancel = if state.footer().cancel {
            " (c cancels)"
        } else {
            ""
        };
        parts.push(format!("waiting {waited:.0} s for {}{cancel}", wait.what));
    } else if app.flash.is_none()
        && let Some(notice) = state.notice()
    {
        parts.push(notice.to_owned());
    }
    parts.join("; ")
}

fn footer(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let mut spans = Vec::new();
    for item in &app.scene.footer {
        spans.push(Span::styled(item.key.clone(), app.theme.strong()));
        spans.push(Span::raw(format!(" {}  ", item.word)));
    }
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

/// The style of a heading of an area: it shows the focus.
fn heading(app: &App, area: Area) -> ratatui::style::Style {
    if app.has_focus(area) {
        app.theme.strong().patch(app.theme.selected())
    } else {
        app.theme.strong()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_last_stays_in_sight() {
        let long = format!("{}äend", "x".repeat(500));
        for room in [0, 10, 60, 200] {
            let text = prompt_text(&long, room);
            assert!(text.contains("_   (Enter searches"), "{text}");
            assert!(room < 40 || text.contains("end_"), "{text}");
            assert!(room < 40 || crate::tui::markdown::width_of(&text) <= room);
        }
        assert!(prompt_text("ab", 60).starts_with("/ab_"));
    }
}
