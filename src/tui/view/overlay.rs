//! What lies over the screen: help, the facts of a cell, a choice, a text.

use std::ops::Range;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

use crate::evidence::Fact;
use crate::session::State;
use crate::tui::app::{App, Choice, Overlay};
use crate::tui::brief::brief;
use crate::tui::keys;
use crate::tui::manifest;
use crate::tui::markdown::{cut, width_of, wrap};
use crate::words::counted;

/// Lines of a log before and after the one that is a fact.
const AROUND: usize = 3;

/// An overlay in lines.
#[derive(Debug, Default)]
pub struct Laid {
    pub title: String,
    pub lines: Vec<Line<'static>>,
    /// The line that must be in view, or the first one.
    pub keep: usize,
    /// For each choice, its lines.
    pub choices: Vec<Range<usize>>,
}

/// Draws what is open, if anything is.
pub fn draw(frame: &mut Frame<'_>, app: &App) {
    let Some(over) = &app.scene.over else { return };
    let window = frame.area().intersection(app.scene.window);
    if window.height == 0 {
        return;
    }
    frame.render_widget(Clear, window);
    let visible = usize::from(window.height.saturating_sub(2));
    let mut shown = vec![Line::from(vec![
        Span::styled(app.theme.text(&over.title), app.theme.strong()),
        Span::styled("  (Esc closes)", app.theme.dim()),
    ])];
    shown.extend(
        over.lines
            .iter()
            .skip(over.first)
            .take(visible)
            .map(|line| {
                let mut line = line.clone();
                line.spans.insert(0, Span::raw(" "));
                line
            }),
    );
    let below = over.lines.len().saturating_sub(over.first + visible);
    frame.render_widget(Paragraph::new(shown), window);
    let foot = Rect {
        y: window.bottom() - 1,
        height: 1,
        ..window
    };
    let rule = app.theme.rule(usize::from(foot.width));
    frame.render_widget(Paragraph::new(Span::styled(rule, app.theme.dim())), foot);
    // The answer to the last key, which the overlay may cover, else how much is below.
    let (said, style) = match &app.flash {
        Some(flash) => (format!(" {flash} "), app.theme.strong()),
        None if below > 0 => (
            format!(" {} ", counted(below, "more line")),
            app.theme.dim(),
        ),
        None => return,
    };
    let said = cut(
        &app.theme.text(&said),
        usize::from(foot.width.saturating_sub(4)),
    );
    let place = Rect {
        x: foot.x + 2.min(foot.width),
        width: u16::try_from(width_of(&said)).unwrap_or(foot.width),
        ..foot
    };
    frame.render_widget(
        Paragraph::new(Span::styled(said, style)),
        place.intersection(foot),
    );
}

/// Lays an overlay out in lines of this width.
#[must_use]
pub fn lay_out(overlay: &Overlay, width: u16, state: &State, app: &App) -> Laid {
    match overlay {
        Overlay::Help { scroll } => Laid {
            title: "Keys".to_owned(),
            lines: help(width, app),
            keep: *scroll,
            choices: Vec::new(),
        },
        Overlay::Facts {
            title,
            facts,
            selected,
            scroll,
        } => facts_lines(title, facts, *selected, *scroll, width, state, app),
        Overlay::Choose {
            title,
            preface,
            choices,
            selected,
        } => choose(title, preface, choices, *selected, width, app),
        Overlay::Text {
            title,
            lines,
            scroll,
            command,
        } => {
            let mut laid: Vec<Line<'static>> = Vec::new();
            if let Some(command) = command {
                laid.extend(named("command", command, app.theme.code(), width, app));
                laid.push(Line::default());
            }
            laid.extend(
                lines
                    .iter()
                    .flat_map(|line| indented(manifest::yaml(line, app.theme), width)),
            );
            Laid {
                title: format!("{title}; y copies its command"),
                lines: laid,
                keep: *scroll,
                choices: Vec::new(),
            }
        }
    }
}

fn help(width: u16, app: &App) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for (heading, rows) in keys::for_manual() {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.push(Line::from(Span::styled(heading, app.theme.strong())));
        for (shown, help) in rows {
            lines.extend(wrap(
                &[
                    Span::styled(format!("{shown:<10}"), app.theme.strong()),
                    Span::raw(app.theme.text(help)),
                ],
                usize::from(width),
                "",
                "          ",
            ));
        }
    }
    lines
}

/// One fact in full, and which of how many it is.
fn facts_lines(
    title: &str,
    facts: &[u64],
    selected: usize,
    scroll: usize,
    width: u16,
    state: &State,
    app: &App,
) -> Laid {
    let fact = facts.get(selected).and_then(|seq| state.fact(*seq));
    let more = if facts.len() > 1 {
        ", Left Right others"
    } else {
        ""
    };
    let keys = format!("y copies, o its source{more}");
    Laid {
        title: format!("{title} {}/{}; {keys}", selected + 1, facts.len()),
        lines: fact
            .map(|fact| fact_lines(fact, width, app))
            .unwrap_or_default(),
        keep: scroll,
        choices: Vec::new(),
    }
}

/// Wraps a line and keeps the blanks that it begins with.
fn indented(line: Line<'static>, width: u16) -> Vec<Line<'static>> {
    let mut blanks = 0;
    let mut spans: Vec<Span<'static>> = Vec::new();
    for span in line.spans {
        if !spans.is_empty() {
            spans.push(span);
            continue;
        }
        let rest = span.content.trim_start_matches(' ');
        blanks += span.content.len() - rest.len();
        if !rest.is_empty() {
            spans.push(Span::styled(rest.to_owned(), span.style));
        }
    }
    let width = usize::from(width);
    let indent = " ".repeat(blanks.min(width / 2));
    wrap(&spans, width, &indent, &format!("{indent}  "))
}

fn named(name: &str, value: &str, style: Style, width: u16, app: &App) -> Vec<Line<'static>> {
    let spans = [
        Span::styled(format!("{name:<10}"), app.theme.dim()),
        Span::styled(app.theme.text(value), style),
    ];
    wrap(&spans, usize::from(width), "", "          ")
}

fn fact_lines(fact: &Fact, width: u16, app: &App) -> Vec<Line<'static>> {
    let pod = fact.pod.as_ref().map(|pod| {
        format!(
            "{} container {} instance {} (uid {})",
            pod.pod, pod.container, pod.instance, pod.uid
        )
    });
    let fields = [
        ("line", Some(fact.line.clone())),
        ("command", Some(fact.command.clone())),
        (
            "seen",
            Some(format!(
                "{} in {} (stage {}, attempt {})",
                fact.time, fact.source, fact.stage, fact.attempt
            )),
        ),
        (
            "fact",
            Some(format!("#{} of layer {}", fact.seq, fact.layer.name())),
        ),
        ("pod", pod),
        ("trace", fact.trace.clone()),
        ("arrival", fact.arrival.clone()),
        (
            "sequence",
            fact.sequence.map(|sequence| sequence.to_string()),
        ),
        ("execution", fact.execution.clone()),
        ("order", fact.business_key.clone()),
    ];
    let mut lines = Vec::new();
    for (name, value) in fields {
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            continue;
        };
        let style = match name {
            "command" => app.theme.code(),
            "line" => app.theme.strong(),
            _ => Style::new(),
        };
        lines.extend(named(name, &value, style, width, app));
    }
    lines.extend(surroundings(fact, width, app));
    lines
}

/// What its container wrote before and after, where its log is followed.
fn surroundings(fact: &Fact, width: u16, app: &App) -> Vec<Line<'static>> {
    let place = fact
        .pod
        .as_ref()
        .filter(|_| fact.observation.is_from_log())
        .and_then(|pod| {
            app.logs
                .place_of(&pod.pod, &pod.uid, pod.instance, &fact.line)
        });
    let Some((source, at)) = place else {
        return Vec::new();
    };
    let mut lines = vec![
        Line::default(),
        Line::from(Span::styled("in its surroundings", app.theme.dim())),
    ];
    for line in at.saturating_sub(AROUND)..=at + AROUND {
        let Some((_, text)) = app.logs.line(Some(source), line) else {
            continue;
        };
        let text = if app.raw { text } else { brief(&text) };
        let (mark, style) = if line == at {
            ("> ", app.theme.strong())
        } else {
            ("  ", app.theme.dim())
        };
        lines.extend(wrap(
            &[Span::styled(app.theme.text(&text), style)],
            usize::from(width),
            mark,
            "    ",
        ));
    }
    lines
}

fn choose(
    title: &str,
    preface: &[String],
    choices: &[Choice],
    selected: usize,
    width: u16,
    app: &App,
) -> Laid {
    let mut lines: Vec<Line<'static>> = preface
        .iter()
        .flat_map(|line| {
            let style = app.theme.change(line);
            indented(Line::from(Span::styled(app.theme.text(line), style)), width)
        })
        .collect();
    if !lines.is_empty() {
        lines.push(Line::default());
    }
    let mut keep = 0;
    let mut places = Vec::new();
    for (index, choice) in choices.iter().enumerate() {
        let here = index == selected;
        let style = if here {
            app.theme.selected()
        } else {
            Style::new()
        };
        let mark = if here { "> " } else { "  " };
        let first = lines.len();
        lines.extend(wrap(
            &[Span::styled(app.theme.text(&choice.text), style)],
            usize::from(width),
            mark,
            "  ",
        ));
        places.push(first..lines.len());
        if here {
            keep = lines.len().saturating_sub(1);
        }
    }
    Laid {
        title: format!(
            "{title}  {} of {}, Enter chooses",
            selected + 1,
            choices.len()
        ),
        lines,
        keep,
        choices: places,
    }
}
