//! The pane below the table: evidence, logs, manifest, ledger, gate.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::evidence::{Fact, Observation};
use crate::session::State;
use crate::tui::app::{App, Area, Pane};
use crate::tui::markdown::cut;

/// Draws the tabs and the pane's content.
pub fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, app: &App) {
    if area.height == 0 {
        return;
    }
    tabs(frame, Rect { height: 1, ..area }, app);
    let content = Rect {
        y: area.y + 1,
        height: area.height - 1,
        ..area
    };
    let lines = match app.pane {
        Pane::Evidence => evidence(content, state, app),
        Pane::Logs => logs(content, app),
        Pane::Manifest => manifest(content, app),
        Pane::Ledger => ledger(content, state, app),
        Pane::Gate => gate(content, state, app),
    };
    frame.render_widget(Paragraph::new(lines), content);
}

fn tabs(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let mut spans = Vec::new();
    for pane in Pane::ALL {
        if !spans.is_empty() {
            spans.push(Span::styled(app.theme.separator(), app.theme.dim()));
        }
        let style = match (pane == app.pane, app.area == Area::Pane) {
            (true, true) => app.theme.selected(),
            (true, false) => app.theme.strong(),
            _ => app.theme.dim(),
        };
        let name = if pane == app.pane {
            format!("[{}]", pane.name())
        } else {
            pane.name().to_owned()
        };
        spans.push(Span::styled(name, style));
    }
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

fn back(app: &App) -> usize {
    app.back.get(&app.pane).copied().unwrap_or(0)
}

fn cut_line(text: &str, area: Rect, style: Style, app: &App) -> Line<'static> {
    Line::from(Span::styled(
        cut(&app.theme.text(text), usize::from(area.width)),
        style,
    ))
}

/// Facts, newest at the bottom; the lowest shown one is the selected one.
fn evidence(area: Rect, state: &State, app: &App) -> Vec<Line<'static>> {
    let facts = state.facts();
    if facts.is_empty() {
        return vec![cut_line("no facts yet", area, app.theme.dim(), app)];
    }
    let end = facts.len().saturating_sub(back(app));
    let start = end.saturating_sub(usize::from(area.height));
    let mut lines: Vec<Line<'static>> = facts[start..end]
        .iter()
        .map(|fact| cut_line(&fact_text(fact), area, Style::new(), app))
        .collect();
    if app.area == Area::Pane
        && let Some(last) = lines.last_mut()
    {
        *last = last.clone().style(app.theme.selected());
    }
    lines
}

/// One fact in one line.
pub fn fact_text(fact: &Fact) -> String {
    let probe = fact.probe.as_deref().unwrap_or("-");
    format!(
        "#{} a{} {} {} [{}] {}",
        fact.seq,
        fact.attempt,
        probe,
        fact.layer.name(),
        fact.source,
        fact.line
    )
}

fn logs(area: Rect, app: &App) -> Vec<Line<'static>> {
    if app.logs.is_empty() {
        return vec![cut_line("no log lines yet", area, app.theme.dim(), app)];
    }
    app.logs
        .window(back(app), usize::from(area.height))
        .map(|line| {
            cut_line(
                &format!("{} {}", line.pod.pod, line.text),
                area,
                Style::new(),
                app,
            )
        })
        .collect()
}

fn manifest(area: Rect, app: &App) -> Vec<Line<'static>> {
    if app.manifest.is_empty() {
        return vec![cut_line(
            "this stage has no manifest",
            area,
            app.theme.dim(),
            app,
        )];
    }
    let start = back(app).min(app.manifest.len().saturating_sub(1));
    app.manifest
        .iter()
        .skip(start)
        .take(usize::from(area.height))
        .map(|line| cut_line(line, area, diff_style(line, app), app))
        .collect()
}

fn diff_style(line: &str, app: &App) -> Style {
    match line.chars().next() {
        Some('+') => app.theme.cell(crate::evidence::CellState::Yes),
        Some('-') => app.theme.cell(crate::evidence::CellState::No),
        _ => Style::new(),
    }
}

/// Rows of the ledger as they were seen, not as they might be now.
fn ledger(area: Rect, state: &State, app: &App) -> Vec<Line<'static>> {
    let rows: Vec<&Fact> = state
        .facts()
        .iter()
        .filter(|fact| {
            matches!(
                fact.observation,
                Observation::LedgerAttempt { .. }
                    | Observation::LedgerEffect { .. }
                    | Observation::DestinationRecord { .. }
                    | Observation::ClaimChanged { .. }
                    | Observation::OrderState { .. }
                    | Observation::NoEffect
            )
        })
        .collect();
    if rows.is_empty() {
        return vec![cut_line(
            "no rows of this lab were seen yet",
            area,
            app.theme.dim(),
            app,
        )];
    }
    rows.iter()
        .rev()
        .skip(back(app))
        .take(usize::from(area.height))
        .map(|fact| {
            cut_line(
                &format!("a{} {}", fact.attempt, fact.line),
                area,
                Style::new(),
                app,
            )
        })
        .collect()
}

fn gate(area: Rect, session: &State, app: &App) -> Vec<Line<'static>> {
    let report = session.gate();
    if report.conditions.is_empty() {
        return vec![cut_line(
            "the gate was not looked at in this stage",
            area,
            app.theme.dim(),
            app,
        )];
    }
    let lines = report.conditions.iter().map(|condition| {
        let (word, state) = if condition.holds {
            ("holds", crate::evidence::CellState::Yes)
        } else {
            ("waits", crate::evidence::CellState::No)
        };
        let seconds = condition
            .since
            .filter(|_| !condition.holds)
            .map(|since| {
                format!(
                    " {:.0} s",
                    session.now().duration_since(since).as_secs_f64().max(0.0)
                )
            })
            .unwrap_or_default();
        cut_line(
            &format!("{word}{seconds} {}: {}", condition.name, condition.detail),
            area,
            app.theme.cell(state),
            app,
        )
    });
    lines
        .skip(back(app))
        .take(usize::from(area.height))
        .collect()
}
