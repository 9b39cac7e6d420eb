//! The pane below the table: its tabs, and the lines that are in view.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::tui::app::{App, Area, Pane};
use crate::tui::markdown::{cut, width_of};
use crate::tui::panes;

/// Draws the tabs and the pane's content.
pub fn draw(frame: &mut Frame<'_>, names: Rect, area: Rect, app: &App) {
    if names.height == 0 {
        return;
    }
    tabs(frame, names, app);
    let lines = match app.pane {
        Pane::Evidence | Pane::Logs if app.pane_length() == 0 => nothing(empty(app), app),
        Pane::Evidence | Pane::Logs if app.wrap => wrapped(area, app),
        Pane::Evidence | Pane::Logs => cut_lines(area, app),
        _ => block(area, app),
    };
    frame.render_widget(Paragraph::new(lines), area);
}

/// How the tabs are written, the present one in brackets, and how many columns are between two.
#[must_use]
pub fn tab_names(present: Pane, width: usize) -> ([String; Pane::ALL.len()], usize) {
    let names = Pane::ALL.map(|pane| {
        if pane == present {
            format!("[{}]", pane.name())
        } else {
            pane.name().to_owned()
        }
    });
    let needed: usize = names.iter().map(|name| name.len() + 3).sum();
    let between = if needed <= width + 3 { 3 } else { 1 };
    (names, between)
}

fn tabs(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let mut spans = Vec::new();
    let (names, between) = tab_names(app.pane, usize::from(area.width));
    for (pane, name) in Pane::ALL.into_iter().zip(names) {
        if !spans.is_empty() {
            let separator = app.theme.separator();
            let separator = if between == 1 {
                separator.trim()
            } else {
                separator
            };
            spans.push(Span::styled(separator, app.theme.dim()));
        }
        let present = pane == app.pane;
        let style = match (present, app.has_focus(Area::Pane)) {
            (true, true) => app.theme.selected(),
            (true, false) => app.theme.strong(),
            _ => app.theme.dim(),
        };
        spans.push(Span::styled(name, style));
    }
    let used: usize = spans.iter().map(|span| width_of(&span.content)).sum();
    let remark = app.theme.text(&panes::remark(app));
    if !remark.trim().is_empty() {
        // Where there is no room beside the tabs, they give way: the remark says what the pane leaves out.
        let room = usize::from(area.width);
        if used + 3 + width_of(&remark) > room {
            let name = format!("[{}]", app.pane.name());
            spans = vec![Span::styled(name, app.theme.strong())];
        }
        spans.push(Span::styled(format!("  {remark}"), app.theme.dim()));
    }
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

/// The part of a text that is in view.
fn window(text: &str, area: Rect, app: &App) -> String {
    let mut skipped = 0;
    let from = app.cursor().right;
    let rest: String = text
        .chars()
        .skip_while(|character| {
            let before = skipped < from;
            if before {
                skipped += unicode_width::UnicodeWidthChar::width(*character).unwrap_or(0);
            }
            before
        })
        .collect();
    cut(&rest, usize::from(area.width))
}

fn shown(text: &str, place: usize, area: Rect, app: &App) -> Line<'static> {
    let mut style = Style::new();
    if app.needle.is_in(text) {
        style = style.patch(app.theme.found());
    }
    if place == app.cursor().at && app.has_focus(Area::Pane) {
        style = style.patch(app.theme.selected());
    }
    Line::from(Span::styled(window(text, area, app), style))
}

fn in_view(area: Rect, app: &App) -> std::ops::Range<usize> {
    let first = app.cursor().top;
    let end = first + usize::from(area.height);
    first..end.min(app.pane_length())
}

fn nothing(text: &str, app: &App) -> Vec<Line<'static>> {
    vec![Line::from(Span::styled(text.to_owned(), app.theme.dim()))]
}

/// Why there is nothing.
fn empty(app: &App) -> &'static str {
    let filtered = app.by_probe.is_some() || app.by_layer.is_some();
    match app.pane {
        Pane::Evidence if filtered => "no facts pass the filter (f, F)",
        Pane::Evidence => "no facts yet",
        _ if app.read_only => {
            "logs are not kept; the lines that prove something are among the facts"
        }
        _ => "no log lines yet",
    }
}

fn cut_lines(area: Rect, app: &App) -> Vec<Line<'static>> {
    let lines = app.scene.in_view.iter();
    lines
        .map(|(place, text)| shown(text, *place, area, app))
        .collect()
}

/// The first line may have begun above the pane.
fn wrapped(area: Rect, app: &App) -> Vec<Line<'static>> {
    let width = usize::from(area.width).max(1);
    let lines = app.scene.in_view.iter();
    lines
        .flat_map(|(place, text)| panes::rows(text, width).map(move |row| (*place, row)))
        .skip(app.cursor().skip)
        .take(usize::from(area.height))
        .map(|(place, row)| shown(&row, place, area, app))
        .collect()
}

fn block(area: Rect, app: &App) -> Vec<Line<'static>> {
    in_view(area, app)
        .filter_map(|place| {
            let line = &app.scene.block.get(place)?.line;
            let marked = app.needle.is_in(&line.to_string());
            let here = place == app.cursor().at && app.has_focus(Area::Pane);
            if app.cursor().right > 0 {
                return Some(shown(&line.to_string(), place, area, app));
            }
            let mut line = line.clone();
            if marked {
                line = line.patch_style(app.theme.found());
            }
            if here {
                line = line.patch_style(app.theme.selected());
            }
            Some(line)
        })
        .collect()
}
