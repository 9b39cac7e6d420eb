//! The stage's text, with where the stage stands above it.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::heading;
use crate::evidence::journal::Intent;
use crate::evidence::{CellState, Layer, Outcome};
use crate::lab::Stage;
use crate::session::{OpenReason, PredictionScore, StagePhase, State};
use crate::tui::app::{App, Area};
use crate::tui::markdown;
use crate::tui::panes;
use crate::tui::theme::Theme;

/// Draws the lines that are in view; the last row says how many are below.
pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App) {
    if area.height == 0 {
        return;
    }
    let lines = &app.scene.text;
    let height = usize::from(area.height);
    let start = app.text.top.min(lines.len().saturating_sub(height));
    let end = (start + height).min(lines.len());
    let mut shown: Vec<Line<'_>> = lines
        .get(start..end)
        .unwrap_or_default()
        .iter()
        .map(|line| marked(line, app))
        .collect();
    if start == 0
        && let Some(title) = shown.first_mut()
    {
        *title = title.clone().style(heading(app, Area::Text));
    }
    let below = lines.len() - end;
    if below > 0
        && height > 1
        && let Some(last) = shown.last_mut()
    {
        *last = Line::from(Span::styled(
            format!("{} more lines (PgDn)", below + 1),
            app.theme.dim(),
        ));
    }
    frame.render_widget(Paragraph::new(shown), area);
}

/// A line that a search has found is marked.
fn marked<'a>(line: &'a Line<'static>, app: &App) -> Line<'a> {
    if !app.needle.is_empty() && app.needle.is_in(&line.to_string()) {
        line.clone().patch_style(app.theme.found())
    } else {
        line.clone()
    }
}

/// Where the stage stands comes first, its text below, then hints, debrief and links.
#[must_use]
pub fn text_lines(state: &State, app: &App, width: u16) -> Vec<Line<'static>> {
    let theme = app.theme;
    let Some(stage) = state.stage() else {
        return vec![Line::from("There are no labs.")];
    };
    let mut lines = vec![Line::from(Span::raw(theme.text(&stage.title)))];
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
    lines.extend(after_text(state, theme, width, width >= 90));
    lines
}

/// What follows a stage's text: the debrief (as a table or as sentences), links at the lab's last stage, and what is not
/// reproduced at its first.
#[must_use]
pub fn after_text(state: &State, theme: Theme, width: u16, as_table: bool) -> Vec<Line<'static>> {
    let (Some(lab), Some(stage)) = (state.lab(), state.stage()) else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    if !stage.debrief.is_empty() {
        lines.push(Line::default());
        lines.extend(markdown::render(&debrief(stage, as_table), width, theme));
    }
    if state.stage_index() + 1 == lab.stages.len() && !lab.links.is_empty() {
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
    lines
}

/// The debrief as a table where there is room, else as a list.
fn debrief(stage: &Stage, as_table: bool) -> String {
    if !as_table {
        return stage
            .debrief
            .iter()
            .map(|row| {
                format!(
                    "- **{}**: {}. Line: {}. Not proven: {}. It would be proven by {}.\n",
                    row.layer.name(),
                    row.observed,
                    row.line,
                    row.not_proven,
                    row.would_prove
                )
            })
            .collect();
    }
    let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
    let rows: String = stage
        .debrief
        .iter()
        .map(|row| {
            format!(
                "| {} | {} | {} | {} | {} |\n",
                row.layer.name(),
                cell(&row.observed),
                cell(&row.line),
                cell(&row.not_proven),
                cell(&row.would_prove)
            )
        })
        .collect();
    format!(
        "| layer | observed | line | not proven | would be proven by |\n|---|---|---|---|---|\n{rows}"
    )
}

/// Equal lines as one, with how many they were: fifty copies of a probe can all have the same fate.
fn alike_once(lines: Vec<String>) -> Vec<String> {
    let mut counted: Vec<(String, usize)> = Vec::new();
    for line in lines {
        match counted.iter_mut().find(|(known, _)| *known == line) {
            Some((_, count)) => *count += 1,
            None => counted.push((line, 1)),
        }
    }
    counted
        .into_iter()
        .map(|(line, count)| match count {
            1 => line,
            _ => format!("{line} ({count} times)"),
        })
        .collect()
}

/// What failed, what is unproven, which layer stopped what: in words, above everything else.
fn standing(state: &State, app: &App, width: u16) -> Vec<Line<'static>> {
    let theme = app.theme;
    let mut texts: Vec<(String, Style)> = Vec::new();
    texts.extend(
        state
            .found()
            .iter()
            .map(|text| (text.clone(), theme.strong())),
    );
    let asks = state.footer().reconcile;
    if !state.drift().is_empty() {
        let how = if asks {
            "Enter: adopt, re-apply or reset"
        } else {
            "It is settled once what is under way has ended"
        };
        texts.push((
            format!(
                "the cluster differs from this session: {}. {how}",
                state.drift().join("; ")
            ),
            theme.strong(),
        ));
    }
    match state.phase() {
        StagePhase::Failed { failures } => texts.extend(failures.iter().map(|failure| {
            (
                format!("refuted: {}", failure.text),
                theme.outcome(Outcome::Refuted).1,
            )
        })),
        StagePhase::Unproven { reasons } => texts.extend(
            reasons
                .iter()
                .map(|reason| (why_unproven(reason), theme.outcome(Outcome::Unproven).1)),
        ),
        StagePhase::Passed => {
            texts.push(("passed".to_owned(), theme.outcome(Outcome::Proven).1));
        }
        StagePhase::Interrupted { .. } if app.read_only => {
            texts.push((
                "it was under way, or interrupted".to_owned(),
                theme.strong(),
            ));
        }
        StagePhase::Interrupted { .. } => {
            let how = if asks {
                "it goes on once the difference is settled"
            } else {
                "Enter continues"
            };
            texts.push((
                format!("interrupted; {how}, nothing that was sent is sent again"),
                theme.strong(),
            ));
        }
        StagePhase::Working { .. } | StagePhase::Fresh => {}
    }
    let stopped = alike_once(stopped(app));
    texts.extend(stopped.into_iter().map(|text| (text, theme.strong())));
    texts.extend(predicted(state).into_iter().map(|text| (text, theme.dim())));
    let open = unresolved(state, app.read_only);
    texts.extend(open.into_iter().map(|text| (text, theme.strong())));
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

/// A reason in words: what was not proven, or that nothing could be looked at, which is nobody's fault here.
#[must_use]
pub fn why_unproven(reason: &OpenReason) -> String {
    let word = if reason.environment {
        "could not look"
    } else {
        "unproven"
    };
    format!("{word}: {}", reason.text)
}

/// What the learner has predicted of this stage, or in it: each prediction, and once all are settled how many were right and
/// which were not.
#[must_use]
pub fn predicted(state: &State) -> Vec<String> {
    let Some(stage) = state.stage() else {
        return Vec::new();
    };
    let of = stage.predicts.as_ref().unwrap_or(&stage.name);
    let line = |score: PredictionScore| {
        let title = panes::probe_title(state, &score.probe);
        let said = match score.predicted {
            None => "has its effect".to_owned(),
            Some(layer) => format!("stops at {}", layer.name()),
        };
        let so = match score.right() {
            None => "",
            Some(true) => ": so it was",
            Some(false) => ": it was otherwise",
        };
        format!("you predicted: {title} {said}{so}")
    };
    let scores = state.predictions_of(of);
    let (all, right) = (scores.len(), |score: &PredictionScore| {
        score.right() == Some(true)
    });
    if all == 0 || scores.iter().any(|score| score.right().is_none()) {
        return scores.into_iter().map(line).collect();
    }
    let count = scores.iter().filter(|score| right(score)).count();
    let head = format!("your predictions: {count} of {all} were right");
    let wrong = scores.into_iter().filter(|score| !right(score)).map(line);
    std::iter::once(head).chain(wrong).collect()
}

/// Requests of an earlier process of which nobody knows whether they were sent.
#[must_use]
pub fn unresolved(state: &State, read_only: bool) -> Vec<String> {
    let looked_up = if read_only {
        "nothing in here says what became of it"
    } else {
        "it is looked up, and never sent again by itself"
    };
    let text = |intent: &Intent| {
        format!(
            "unresolved: request {} of an earlier run may have been sent; {looked_up}",
            intent.id
        )
    };
    state.unresolved().iter().map(text).collect()
}

/// Which layer stopped which probe, and why; one line for each.
fn stopped(app: &App) -> Vec<String> {
    let names = app.scene.table.names.iter();
    let rows = app.scene.rows.iter().zip(names);
    rows.filter_map(|(row, name)| {
        if let Some(layer) = row.first_failing() {
            let cell = row.cell(layer);
            let why = if cell.text.is_empty() {
                String::new()
            } else {
                format!(": {}", cell.text)
            };
            // A red Workflow does not say that the work was not done.
            let effect = if layer < Layer::Effect && row.cell(Layer::Effect).passed() {
                ", and it had its effect"
            } else {
                ""
            };
            return Some(format!("{name}: stopped at {}{why}{effect}", layer.name()));
        }
        // What is still awaited stands in the table, and no word of it is said too early.
        let awaited = |layer: &Layer| row.cell(*layer).state == CellState::Pending;
        if Layer::ALL.iter().any(awaited) {
            return None;
        }
        let (before, next) = row.unproven_between?;
        let before = before.map_or("its sending", Layer::name);
        Some(format!(
            "{name}: unproven, between {before} and {}",
            next.name()
        ))
    })
    .collect()
}
