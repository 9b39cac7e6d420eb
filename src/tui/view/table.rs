//! The probe table: one row a probe, one column a layer; and the four counters.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use unicode_width::UnicodeWidthStr;

use crate::evidence::{Layer, Row};
use crate::session::State;
use crate::tui::app::{App, Area};
use crate::tui::markdown::cut;

/// The narrowest that the widest column gets.
const LEAST_COLUMN: usize = 6;

/// Draws the rows; the selected cell is reversed.
pub fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, app: &App) {
    let rows = state.rows();
    let widths = widths(&rows, state, app, usize::from(area.width));
    let mut lines = vec![head(&widths, app)];
    let visible = usize::from(area.height).saturating_sub(1);
    let selected = app.row.min(rows.len().saturating_sub(1));
    let start = (selected + 1).saturating_sub(visible);
    for (index, row) in rows.iter().enumerate().skip(start).take(visible) {
        lines.push(line(row, index == selected, &widths, state, app));
    }
    if rows.is_empty() {
        lines.push(Line::from(Span::styled(
            "no probe was sent yet",
            app.theme.dim(),
        )));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn name(row: &Row, state: &State) -> String {
    let titles = state
        .lab()
        .into_iter()
        .flat_map(|lab| &lab.stages)
        .flat_map(|stage| &stage.probes);
    let here = state.stage().into_iter().flat_map(|stage| &stage.probes);
    let title = here
        .chain(titles)
        .find(|probe| probe.name == row.probe)
        .map(|probe| probe.title.clone());
    title.unwrap_or_else(|| {
        if row.probe == "yours" {
            "yours (curl)".to_owned()
        } else {
            row.probe.clone()
        }
    })
}

fn cell_text(row: &Row, layer: Layer, app: &App) -> String {
    let cell = row.cell(layer);
    let mark = app.theme.mark(cell.state);
    // A word that stands for a pass by itself needs no mark beside it: 200, Succeeded, +1.
    if cell.text.is_empty() {
        mark.to_owned()
    } else if cell.passed() {
        app.theme.text(&cell.text)
    } else {
        format!("{mark} {}", app.theme.text(&cell.text))
    }
}

/// Width of the name and of each layer: what is needed, and cut from the widest where there is too little room.
fn widths(rows: &[Row], state: &State, app: &App, room: usize) -> Vec<usize> {
    let longest =
        |texts: &mut dyn Iterator<Item = String>| texts.map(|text| text.width()).max().unwrap_or(0);
    let mut widths = vec![longest(&mut rows.iter().map(|row| name(row, state))).max("probe".len())];
    for layer in Layer::ALL {
        widths.push(
            longest(&mut rows.iter().map(|row| cell_text(row, layer, app))).max(layer.name().len()),
        );
    }
    while widths.iter().sum::<usize>() + 2 * (widths.len() - 1) > room {
        let Some(widest) = widths.iter_mut().max() else {
            break;
        };
        if *widest <= LEAST_COLUMN {
            break;
        }
        *widest -= 1;
    }
    widths
}

fn padded(text: &str, width: usize) -> String {
    let text = cut(text, width);
    let space = width.saturating_sub(text.width());
    format!("{text}{}", " ".repeat(space + 2))
}

fn head(widths: &[usize], app: &App) -> Line<'static> {
    let names = std::iter::once("probe").chain(Layer::ALL.map(Layer::name));
    let text: String = names
        .zip(widths)
        .map(|(name, width)| padded(name, *width))
        .collect();
    let style = if app.area == Area::Table {
        app.theme.strong()
    } else {
        app.theme.dim()
    };
    Line::from(Span::styled(text, style))
}

fn line(row: &Row, selected: bool, widths: &[usize], state: &State, app: &App) -> Line<'static> {
    let mut spans = vec![Span::styled(
        padded(&app.theme.text(&name(row, state)), widths[0]),
        if selected {
            app.theme.strong()
        } else {
            Style::new()
        },
    )];
    for (index, layer) in Layer::ALL.into_iter().enumerate() {
        let text = padded(&cell_text(row, layer, app), widths[index + 1]);
        let style = app.theme.cell(row.cell(layer).state);
        let style = if selected && app.area == Area::Table && app.layer == index {
            style.patch(app.theme.selected())
        } else {
            style
        };
        spans.push(Span::styled(text, style));
    }
    Line::from(spans)
}

/// `intakes 3 · approved 1 · completed 1 · effects 1`.
pub fn counters(frame: &mut Frame<'_>, area: Rect, state: &State, app: &App) {
    let counters = state.counters();
    let parts = [
        ("intakes", counters.intakes),
        ("approved", counters.approved),
        ("completed", counters.completed),
        ("effects", counters.effects),
    ];
    let text: Vec<_> = parts
        .iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    frame.render_widget(
        Paragraph::new(Span::styled(text.join(app.theme.dot()), app.theme.strong())),
        area,
    );
}
