//! What lies over the screen: help, the facts of a cell, a choice.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

use crate::evidence::Fact;
use crate::session::State;
use crate::tui::app::{App, Choice, Overlay};
use crate::tui::keys::BINDINGS;
use crate::tui::markdown::wrap;

/// Draws what is open, if anything is.
pub fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, app: &App) {
    let Some(overlay) = &app.overlay else { return };
    let width = area.width.saturating_sub(4);
    let (title, lines, keep) = match overlay {
        Overlay::Help { scroll } => ("Keys".to_owned(), help(width, app), *scroll),
        Overlay::Facts {
            title,
            facts,
            selected,
        } => facts_lines(title, facts, *selected, width, state, app),
        Overlay::Choose {
            title,
            choices,
            selected,
        } => choose(title, choices, *selected, width, app),
    };
    let height = u16::try_from(lines.len())
        .unwrap_or(u16::MAX)
        .saturating_add(2)
        .min(area.height.saturating_sub(2));
    let window = Rect {
        x: area.x,
        y: area.y + (area.height - height) / 2,
        width: area.width,
        height,
    };
    frame.render_widget(Clear, window);
    let rule = app.theme.rule(usize::from(window.width));
    let visible = usize::from(height.saturating_sub(2));
    let start = (keep + 1)
        .saturating_sub(visible)
        .min(lines.len().saturating_sub(visible));
    let mut shown = vec![Line::from(vec![
        Span::styled(app.theme.text(&title), app.theme.strong()),
        Span::styled("  (Esc closes)", app.theme.dim()),
    ])];
    shown.extend(lines.into_iter().skip(start).take(visible).map(|mut line| {
        line.spans.insert(0, Span::raw(" "));
        line
    }));
    shown.push(Line::from(Span::styled(rule, app.theme.dim())));
    frame.render_widget(Paragraph::new(shown), window);
}

fn help(width: u16, app: &App) -> Vec<Line<'static>> {
    BINDINGS
        .iter()
        .flat_map(|binding| {
            wrap(
                &[
                    Span::styled(format!("{:<10}", binding.shown), app.theme.strong()),
                    Span::raw(binding.help),
                ],
                usize::from(width),
                "",
                "          ",
            )
        })
        .collect()
}

/// One fact in full, and which of how many it is.
fn facts_lines(
    title: &str,
    facts: &[u64],
    selected: usize,
    width: u16,
    state: &State,
    app: &App,
) -> (String, Vec<Line<'static>>, usize) {
    let title = format!(
        "{title}, fact {} of {}; y copies its command",
        selected + 1,
        facts.len()
    );
    let lines = facts
        .get(selected)
        .and_then(|seq| state.fact(*seq))
        .map(|fact| fact_lines(fact, width, app))
        .unwrap_or_default();
    (title, lines, 0)
}

fn fact_lines(fact: &Fact, width: u16, app: &App) -> Vec<Line<'static>> {
    let pod = fact.pod.as_ref().map(|pod| {
        format!(
            "{} container {} instance {} (uid {})",
            pod.pod, pod.container, pod.instance, pod.uid
        )
    });
    let fields = [
        ("number", Some(format!("#{}", fact.seq))),
        (
            "seen",
            Some(format!(
                "{} in {} (stage {}, attempt {})",
                fact.time, fact.source, fact.stage, fact.attempt
            )),
        ),
        ("layer", Some(fact.layer.name().to_owned())),
        ("pod", pod),
        ("trace", fact.trace.clone()),
        ("arrival", fact.arrival.clone()),
        (
            "sequence",
            fact.sequence.map(|sequence| sequence.to_string()),
        ),
        ("execution", fact.execution.clone()),
        ("order", fact.business_key.clone()),
        ("line", Some(fact.line.clone())),
        ("command", Some(fact.command.clone())),
    ];
    let mut lines = Vec::new();
    for (name, value) in fields {
        let Some(value) = value else { continue };
        let style = if name == "command" {
            app.theme.code()
        } else {
            Style::new()
        };
        let spans = [
            Span::styled(format!("{name:<10}"), app.theme.dim()),
            Span::styled(app.theme.text(&value), style),
        ];
        lines.extend(wrap(&spans, usize::from(width), "", "          "));
    }
    lines
}

fn choose(
    title: &str,
    choices: &[Choice],
    selected: usize,
    width: u16,
    app: &App,
) -> (String, Vec<Line<'static>>, usize) {
    let mut lines = Vec::new();
    let mut keep = 0;
    for (index, choice) in choices.iter().enumerate() {
        let here = index == selected;
        let style = if here {
            app.theme.selected()
        } else {
            Style::new()
        };
        let mark = if here { "> " } else { "  " };
        lines.extend(wrap(
            &[Span::styled(app.theme.text(&choice.text), style)],
            usize::from(width),
            mark,
            "  ",
        ));
        if here {
            keep = lines.len().saturating_sub(1);
        }
    }
    (
        format!(
            "{title}  {} of {}, Enter chooses",
            selected + 1,
            choices.len()
        ),
        lines,
        keep,
    )
}
