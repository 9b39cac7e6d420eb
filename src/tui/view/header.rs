//! The header line, and on wide screens the list of stages.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::session::State;
use crate::tui::app::{App, stage_word};
use crate::tui::markdown::{cut, shortened, width_of};
use crate::tui::theme::Theme;

/// `eventlab  filter-path 2/12  stage 4/8 send  attempt 1  embedded`.
pub fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, app: &App) {
    let theme = app.theme;
    let mut spans = vec![Span::styled("eventlab", theme.strong())];
    if app.read_only {
        spans.push(Span::raw("  read-only"));
    }
    if let (Some(lab), Some(stage)) = (state.lab(), state.stage()) {
        let standings = state.standings();
        let place = standings
            .iter()
            .position(|standing| standing.current)
            .map_or_else(String::new, |place| {
                format!(" {}/{}", place + 1, standings.len())
            });
        spans.push(Span::raw(format!("  {}{place}", lab.name)));
        spans.push(Span::raw(format!(
            "  stage {}/{} {}",
            state.stage_index() + 1,
            lab.stages.len(),
            stage_word(stage.kind)
        )));
        spans.push(Span::raw(format!("  attempt {}", state.attempt())));
    }
    let (right, settled) = state.prediction_score();
    if settled > 0 {
        spans.push(Span::raw(format!("  predicted {right}/{settled}")));
    }
    for line in &app.reach {
        spans.push(Span::styled(format!("  {line}"), theme.dim()));
    }
    let spans = within(spans, usize::from(area.width), theme);
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

/// The spans that there is room for; what is left out is marked.
fn within(spans: Vec<Span<'static>>, room: usize, theme: Theme) -> Vec<Span<'static>> {
    let mut used = 0;
    let mut kept = Vec::with_capacity(spans.len());
    let all: usize = spans.iter().map(|span| width_of(&span.content)).sum();
    let room = if all > room {
        room.saturating_sub(width_of(theme.ellipsis()))
    } else {
        room
    };
    for span in spans {
        let text = cut(&span.content, room - used);
        used += width_of(&text);
        kept.push(Span::styled(text, span.style));
    }
    if all > room {
        kept.push(Span::raw(theme.ellipsis()));
    }
    kept
}

/// The stages of the lab, the present one marked by a sign and reversed.
pub fn stages(frame: &mut Frame<'_>, area: Rect, state: &State, app: &App) {
    let theme = app.theme;
    let Some(lab) = state.lab() else { return };
    let width = usize::from(area.width.saturating_sub(2));
    let passed = |name: &str| {
        state
            .progress_here()
            .is_some_and(|here| here.passed.contains(name))
    };
    let mut lines = vec![
        Line::from(Span::styled(
            shortened(&theme.text(&lab.title), width, theme.ellipsis()),
            theme.strong(),
        )),
        Line::default(),
    ];
    for (index, stage) in lab.stages.iter().enumerate() {
        let here = index == state.stage_index();
        let mark = if here {
            ">"
        } else if passed(&stage.name) {
            theme.mark(crate::evidence::CellState::Yes)
        } else {
            " "
        };
        let text = shortened(
            &format!("{mark} {} {}", index + 1, theme.text(&stage.title)),
            width,
            theme.ellipsis(),
        );
        lines.push(Line::from(Span::styled(
            text,
            if here {
                theme.selected()
            } else {
                ratatui::style::Style::new()
            },
        )));
    }
    lines.push(Line::default());
    for standing in state.standings() {
        let mark = if standing.completed {
            theme.mark(crate::evidence::CellState::Yes)
        } else {
            " "
        };
        let style = if standing.current {
            theme.strong()
        } else {
            theme.dim()
        };
        lines.push(Line::from(Span::styled(
            cut(&format!("{mark} {}", standing.name), width),
            style,
        )));
    }
    let here = 2 + state.stage_index();
    let first = (here + 4)
        .saturating_sub(usize::from(area.height))
        .min(here);
    frame.render_widget(
        Paragraph::new(lines.split_off(first)),
        Rect {
            width: area.width.saturating_sub(1),
            ..area
        },
    );
}
