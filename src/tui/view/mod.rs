//! Draws the session: header, text, probe table, counters, pane, footer, and what lies over them.
//!
//! Nothing here decides; everything drawn comes from [`State`] and [`App`].

mod header;
mod overlay;
mod pane;
mod table;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::app::{App, Area};
use super::keys::{self, Action};
use super::markdown;
use crate::session::{StagePhase, State};

/// Below this the screen says how much room it needs.
pub const LEAST: (u16, u16) = (60, 16);
/// From this width on the stages stand in a column of their own.
const WIDE: u16 = 100;
const SIDE: u16 = 28;

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, state: &State, app: &App) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        too_small(frame, area);
        return;
    }
    let (body, footer) = (
        Rect {
            height: area.height - 1,
            ..area
        },
        Rect {
            y: area.bottom() - 1,
            height: 1,
            ..area
        },
    );
    let main = if area.width >= WIDE {
        header::stages(
            frame,
            Rect {
                width: SIDE,
                ..body
            },
            state,
            app,
        );
        Rect {
            x: body.x + SIDE,
            width: body.width - SIDE,
            ..body
        }
    } else {
        body
    };
    draw_main(frame, main, state, app);
    draw_footer(frame, footer, state, app);
    overlay::draw(frame, body, state, app);
}

fn too_small(frame: &mut Frame<'_>, area: Rect) {
    let text = format!(
        "need {}x{}, have {}x{}; q quits",
        LEAST.0, LEAST.1, area.width, area.height
    );
    let y = area.y + area.height / 2;
    if area.height > 0 && area.width > 0 {
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

fn draw_main(frame: &mut Frame<'_>, area: Rect, state: &State, app: &App) {
    let mut room = Room { area };
    header::draw(frame, room.take(1), state, app);
    if app.zoom {
        let rest = room.rest();
        match app.area {
            Area::Text => draw_text(frame, rest, state, app),
            Area::Table => table::draw(frame, rest, state, app),
            Area::Pane => pane::draw(frame, rest, state, app),
        }
        return;
    }
    let rows = u16::try_from(state.rows().len()).unwrap_or(u16::MAX);
    let table = rows.saturating_add(1).min(area.height / 3).max(2);
    let free = area.height.saturating_sub(1 + table + 3);
    let text = (free * 3 / 5).max(3);
    draw_text(frame, room.take(text), state, app);
    rule(frame, room.take(1), app);
    table::draw(frame, room.take(table), state, app);
    table::counters(frame, room.take(1), state, app);
    rule(frame, room.take(1), app);
    pane::draw(frame, room.rest(), state, app);
}

/// Hands out rows from the top.
struct Room {
    area: Rect,
}

impl Room {
    fn take(&mut self, height: u16) -> Rect {
        let height = height.min(self.area.height);
        let taken = Rect {
            height,
            ..self.area
        };
        self.area.y += height;
        self.area.height -= height;
        taken
    }

    fn rest(self) -> Rect {
        self.area
    }
}

fn rule(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let rule = app.theme.rule(usize::from(area.width));
    frame.render_widget(Paragraph::new(Span::styled(rule, app.theme.dim())), area);
}

/// Lines of an area, from `scroll` on, with how much is below when something is.
fn scrolled(frame: &mut Frame<'_>, area: Rect, lines: &[Line<'static>], scroll: usize, app: &App) {
    let height = usize::from(area.height);
    let start = scroll.min(lines.len().saturating_sub(height));
    let end = (start + height).min(lines.len());
    let mut shown: Vec<Line<'static>> = lines[start..end].to_vec();
    let below = lines.len() - end;
    if below > 0
        && height > 1
        && let Some(last) = shown.last_mut()
    {
        *last = Line::from(Span::styled(
            format!("{} more lines, PgDn (Tab to the area first)", below + 1),
            app.theme.dim(),
        ));
    }
    frame.render_widget(Paragraph::new(shown), area);
}

fn draw_text(frame: &mut Frame<'_>, area: Rect, state: &State, app: &App) {
    let lines = text_lines(state, app, area.width);
    scrolled(frame, area, &lines, app.text_scroll, app);
}

/// Where the stage stands comes first, its text below.
fn text_lines(state: &State, app: &App, width: u16) -> Vec<Line<'static>> {
    let theme = app.theme;
    let mut lines = Vec::new();
    let Some(stage) = state.stage() else {
        return vec![Line::from("There are no labs.")];
    };
    let title = Style::new().patch(theme.strong());
    let title = if app.area == Area::Text {
        title.patch(theme.selected())
    } else {
        title
    };
    lines.push(Line::from(Span::styled(theme.text(&stage.title), title)));
    lines.extend(standing(state, app, width));
    lines.extend(markdown::render(&stage.text, width, theme));
    for (index, hint) in state.hints().iter().enumerate() {
        lines.push(Line::default());
        lines.extend(markdown::render(
            &format!("**Hint {}.** {hint}", index + 1),
            width,
            theme,
        ));
    }
    if !stage.debrief.is_empty() {
        lines.push(Line::default());
        lines.extend(markdown::render(&debrief(stage), width, theme));
    }
    if let Some(lab) = state.lab() {
        if state.stage_index() + 1 == lab.stages.len() {
            let links: String = lab
                .links
                .iter()
                .map(|link| format!("- {}: {}\n", link.title, link.url))
                .collect();
            lines.push(Line::default());
            lines.extend(markdown::render(&links, width, theme));
        }
        if state.stage_index() == 0 && !lab.not_reproduced.is_empty() {
            let notes: String = lab
                .not_reproduced
                .iter()
                .map(|note| format!("- {note}\n"))
                .collect();
            lines.push(Line::default());
            lines.extend(markdown::render(
                &format!("Not reproduced by the embedded cluster:\n\n{notes}"),
                width,
                theme,
            ));
        }
    }
    lines
}

fn debrief(stage: &crate::lab::Stage) -> String {
    let rows = stage.debrief.iter().map(|row| {
        format!(
            "- **{}**: {}. Line: {}. Not proven: {}. It would be proven by {}.\n",
            row.layer.name(),
            row.observed,
            row.line,
            row.not_proven,
            row.would_prove
        )
    });
    rows.collect()
}

/// What is waited for, what failed, what is unproven: in words, above everything else.
fn standing(state: &State, app: &App, width: u16) -> Vec<Line<'static>> {
    let theme = app.theme;
    let mut texts: Vec<(String, Style)> = Vec::new();
    match state.phase() {
        StagePhase::Failed { failures } => texts.extend(failures.iter().map(|failure| {
            (
                format!("refuted: {}", failure.text),
                theme.outcome(crate::evidence::Outcome::Refuted).1,
            )
        })),
        StagePhase::Unproven { reasons } => texts.extend(reasons.iter().map(|reason| {
            (
                format!("unproven: {}", reason.text),
                theme.outcome(crate::evidence::Outcome::Unproven).1,
            )
        })),
        StagePhase::Passed => texts.push((
            "passed".to_owned(),
            theme.outcome(crate::evidence::Outcome::Proven).1,
        )),
        StagePhase::Interrupted { .. } => texts.push((
            "interrupted; Enter continues, nothing that was sent is sent again".to_owned(),
            theme.strong(),
        )),
        StagePhase::Working { .. } | StagePhase::Fresh => {}
    }
    for intent in state.unresolved() {
        texts.push((format!("unresolved: request {} of an earlier run may have been sent; it is looked up, and never sent again by itself", intent.id), theme.strong()));
    }
    if !state.drift().is_empty() {
        texts.push((
            format!(
                "the cluster differs from this session: {}. Enter: adopt, re-apply or reset",
                state.drift().join("; ")
            ),
            theme.strong(),
        ));
    }
    let mut lines: Vec<Line<'static>> = texts
        .into_iter()
        .flat_map(|(text, style)| {
            markdown::wrap(
                &[Span::styled(theme.text(&text), style)],
                usize::from(width),
                "",
                "  ",
            )
        })
        .collect();
    if !lines.is_empty() {
        lines.push(Line::default());
    }
    lines
}

/// A wait with its seconds, else the last answer to a key, else the keys.
fn draw_footer(frame: &mut Frame<'_>, area: Rect, state: &State, app: &App) {
    let theme = app.theme;
    let note = app.flash.as_deref().or(state.notice());
    let mut spans = Vec::new();
    if let Some(wait) = state.wait() {
        let seconds = state
            .now()
            .duration_since(wait.since)
            .as_secs_f64()
            .max(0.0);
        spans.push(Span::styled(
            theme.text(&format!("waiting {seconds:.0} s for {}", wait.what)),
            theme.strong(),
        ));
        spans.push(Span::raw("  "));
    } else if let Some(note) = note {
        spans.push(Span::styled(theme.text(note), theme.strong()));
        spans.push(Span::raw("  "));
    }
    let footer = state.footer();
    for (action, enabled) in [
        (Action::Next, footer.next_enabled || footer.reconcile),
        (Action::Answer, footer.predict || footer.report),
        (Action::Cancel, footer.cancel),
        (Action::Edit, footer.edit),
        (Action::Hint, footer.hint),
        (Action::Reveal, footer.reveal),
        (Action::Retry, footer.retry),
        (Action::Open, true),
        (Action::NextPane, true),
        (Action::Labs, true),
        (Action::Help, true),
        (Action::Quit, true),
    ] {
        let Some(binding) = keys::binding(action).filter(|_| enabled) else {
            continue;
        };
        let shown = if action == Action::Next {
            theme.enter()
        } else {
            binding.shown
        };
        let word = if action == Action::Next {
            footer.next.as_str()
        } else {
            binding.footer
        };
        spans.push(Span::styled(shown.to_owned(), theme.strong()));
        spans.push(Span::raw(format!(" {}  ", theme.text(word))));
    }
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}
