//! The probe table: one row a probe, one column a layer; and the four counters.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use unicode_width::UnicodeWidthStr;

use super::heading;
use crate::evidence::{Layer, Row};
use crate::tui::app::{App, Area};
use crate::tui::markdown::shortened;
use crate::tui::theme::Theme;

/// The narrowest that a name gets.
const LEAST_COLUMN: usize = 6;
/// The cells give way first, until they are as narrow as this.
const CELL: usize = 9;
/// What gives way where there is too little room, and until when: the cells or the name.
const CUTS: [(bool, usize); 6] = [
    (true, CELL),
    (false, 16),
    (true, 6),
    (false, 8),
    (true, 5),
    (false, LEAST_COLUMN),
];

/// Draws the rows; the selected cell is reversed.
pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App) {
    if area.height == 0 {
        return;
    }
    let (rows, layout) = (&app.scene.rows, &app.scene.table);
    let mut lines = vec![head(app)];
    let visible = usize::from(area.height).saturating_sub(1);
    for (index, row) in rows.iter().enumerate().skip(layout.first).take(visible) {
        lines.push(line(row, index, app));
    }
    if rows.is_empty() {
        lines.push(Line::from(Span::styled(
            "no probe was sent yet",
            app.theme.dim(),
        )));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn cell_text(row: &Row, layer: Layer, theme: Theme) -> String {
    let cell = row.cell(layer);
    let mark = theme.mark(cell.state);
    // A word that stands for a pass by itself needs no mark beside it: 200, Succeeded, +1.
    if cell.text.is_empty() {
        mark.to_owned()
    } else if cell.passed() {
        theme.text(&cell.text)
    } else {
        format!("{mark} {}", theme.text(&cell.text))
    }
}

/// Width of the name and of each layer: what is needed, and less where there is too little room. What a cell has no room for
/// stands below the text and in its facts; a name tells its row from the others.
#[must_use]
pub fn widths(rows: &[Row], names: &[String], theme: Theme, room: usize) -> Vec<usize> {
    let longest =
        |texts: &mut dyn Iterator<Item = String>| texts.map(|text| text.width()).max().unwrap_or(0);
    let mut widths =
        vec![longest(&mut names.iter().map(|name| theme.text(name))).max("probe".len())];
    for layer in Layer::ALL {
        widths.push(
            longest(&mut rows.iter().map(|row| cell_text(row, layer, theme)))
                .max(layer.name().len()),
        );
    }
    let gaps = 2 * (widths.len() - 1);
    for (cells, least) in CUTS {
        while widths.iter().sum::<usize>() + gaps > room {
            let (names, layers) = widths.split_at_mut(1);
            let columns = if cells { layers } else { names };
            match columns.iter_mut().max() {
                Some(widest) if *widest > least => *widest -= 1,
                _ => break,
            }
        }
    }
    widths
}

fn padded(text: &str, width: usize, theme: Theme) -> String {
    let text = shortened(text, width, theme.ellipsis());
    let space = width.saturating_sub(text.width());
    format!("{text}{}", " ".repeat(space + 2))
}

fn head(app: &App) -> Line<'static> {
    let names = std::iter::once("probe").chain(Layer::ALL.map(Layer::name));
    let mut spans = Vec::new();
    for (index, (name, width)) in names.zip(&app.scene.table.widths).enumerate() {
        let style = if index == 0 {
            heading(app, Area::Table)
        } else {
            app.theme.strong()
        };
        let name = shortened(name, *width, app.theme.ellipsis());
        let space = " ".repeat(width.saturating_sub(name.width()) + 2);
        spans.push(Span::styled(name, style));
        spans.push(Span::raw(space));
    }
    Line::from(spans)
}

fn line(row: &Row, index: usize, app: &App) -> Line<'static> {
    let layout = &app.scene.table;
    let width = |place: usize| layout.widths.get(place).copied().unwrap_or(LEAST_COLUMN);
    let name = layout
        .names
        .get(index)
        .map(String::as_str)
        .unwrap_or_default();
    let selected = index == app.row;
    let mut spans = vec![Span::styled(
        padded(&app.theme.text(name), width(0), app.theme),
        if selected {
            app.theme.strong()
        } else {
            Style::new()
        },
    )];
    for (place, layer) in Layer::ALL.into_iter().enumerate() {
        let text = padded(
            &cell_text(row, layer, app.theme),
            width(place + 1),
            app.theme,
        );
        let style = app.theme.cell(row.cell(layer).state);
        let style = if selected && app.area == Area::Table && app.layer == place {
            style.patch(app.theme.selected())
        } else {
            style
        };
        spans.push(Span::styled(text, style));
    }
    Line::from(spans)
}

/// Rows that the table has no room for.
fn hidden(app: &App) -> usize {
    let visible = usize::from(app.scene.places.table.height).saturating_sub(1);
    app.scene.rows.len().saturating_sub(visible)
}

/// `intakes 3 · approved 1 · completed 1 · effects 1`, and how many rows of the table are not shown.
pub fn counters(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let counters = app.scene.counters;
    let parts = [
        ("intakes", counters.intakes),
        ("approved", counters.approved),
        ("completed", counters.completed),
        ("effects", counters.effects),
    ];
    let mut text: Vec<_> = parts
        .iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    let hidden = hidden(app);
    if hidden > 0 {
        text.push(format!("{hidden} more"));
    }
    let long = text.join(app.theme.dot());
    let text = if long.width() > usize::from(area.width) {
        text.join(" ")
    } else {
        long
    };
    frame.render_widget(Paragraph::new(Span::styled(text, app.theme.strong())), area);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::evidence::CellState;
    use crate::tui::places::{Places, Wanted};

    /// A table of rows with long names and long cells on a screen of this size.
    fn table(count: usize, width: u16, height: u16) -> App {
        let mut app = App::new(Theme::new(false, false));
        app.scene.rows = vec![Row::blank("probe"); count];
        for row in &mut app.scene.rows {
            for cell in &mut row.cells {
                cell.state = CellState::No;
                cell.text = "no such path".to_owned();
            }
        }
        app.scene.table.names = (0..count)
            .map(|number| format!("order {number} of a long name"))
            .collect();
        app.scene.places = Places::of(width, height, count, Wanted::default(), None);
        let room = usize::from(app.scene.places.table.width);
        let layout = &app.scene.table;
        app.scene.table.widths = widths(&app.scene.rows, &layout.names, app.theme, room);
        app
    }

    fn drawn(app: &App, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal
            .draw(|frame| {
                draw(frame, app.scene.places.table, app);
                counters(frame, app.scene.places.counters, app);
            })
            .unwrap();
        let buffer = terminal.backend().buffer();
        let rows = buffer.content.chunks(usize::from(width));
        rows.map(|row| row.iter().map(|cell| cell.symbol()).collect())
            .collect()
    }

    #[test]
    fn rows_that_are_not_shown_are_counted() {
        for (count, height) in [
            (1, 16),
            (3, 16),
            (7, 16),
            (7, 24),
            (50, 24),
            (50, 60),
            (2, 60),
        ] {
            for zoomed in [None, Some(Area::Table)] {
                let mut app = table(count, 60, height);
                app.scene.places = Places::of(60, height, count, Wanted::default(), zoomed);
                let lines = drawn(&app, 60, height);
                let shown = lines
                    .iter()
                    .filter(|line| line.starts_with("order"))
                    .count();
                let hidden = count - shown;
                let said = (hidden > 0).then(|| format!("{hidden} more"));
                let counted = lines
                    .iter()
                    .find(|line| line.starts_with("intakes"))
                    .unwrap();
                match said {
                    Some(said) => assert!(counted.contains(&said), "{said}: {lines:?}"),
                    None => assert!(!counted.contains("more"), "{lines:?}"),
                }
            }
        }
    }

    #[test]
    fn names_give_way_last_every_cut_is_marked_and_a_wider_screen_shows_no_less() {
        let mut before = 0_usize;
        for width in 60..=220 {
            let app = table(3, width, 24);
            let widths = &app.scene.table.widths;
            let room = usize::from(app.scene.places.table.width);
            let used = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
            assert!(used <= room, "{width}: {widths:?}");
            // The list of stages takes nothing of what 80 columns have.
            assert!(room >= before.min(80), "{width}: {room} after {before}");
            before = room;
            let name = app.scene.table.names[0].width();
            assert!(
                widths[0] == name || widths[1..].iter().all(|cell| *cell <= CELL),
                "{width}: {widths:?}"
            );
            let lines = drawn(&app, width, 24);
            let cut = lines.iter().find(|line| line.contains("order")).unwrap();
            let whole = widths[0] == name && cut.matches("no such path").count() == 7;
            assert_eq!(!whole, cut.contains('…'), "{width}: {cut}");
        }
    }
}
