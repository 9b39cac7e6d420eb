//! Lines of the panes: evidence, logs, manifest, ledger, counters, access, gate, report.

pub mod access;

use std::collections::BTreeSet;

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::app::{App, Pane};
use super::brief;
use super::look::Table;
use super::markdown::{self, cut};
use crate::evidence::{CellState, Fact, Observation, Row, Scope, counters};
use crate::report::matrix;
use crate::session::State;

/// Points in time of the chart of the counters, at most.
const POINTS: usize = 48;
/// The widest that a column of a table becomes.
const COLUMN: usize = 40;
/// The narrowest that an identity is shown.
const IDENTITY: usize = 10;

/// One line of a pane, and what stands behind it.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    pub line: Line<'static>,
    /// The fact that it shows, by `seq`.
    pub fact: Option<u64>,
    /// The command that shows the same in the field.
    pub command: Option<String>,
}

impl Shown {
    fn plain(text: impl Into<String>, style: Style) -> Self {
        Self::of(Line::from(Span::styled(text.into(), style)))
    }

    fn of(line: Line<'static>) -> Self {
        Self {
            line,
            ..Self::default()
        }
    }
}

/// What the rows of the probe table are called.
#[must_use]
pub fn row_names(rows: &[Row], state: &State) -> Vec<String> {
    rows.iter().map(|row| row_name(row, state)).collect()
}

fn row_name(row: &Row, state: &State) -> String {
    if row.probe == crate::evidence::table::YOURS {
        return "yours (curl)".to_owned();
    }
    probe_title(state, &row.probe)
}

/// The title of a probe, of the stage first whose table is shown; its name where it has none.
#[must_use]
pub fn probe_title(state: &State, name: &str) -> String {
    let titles = state
        .lab()
        .into_iter()
        .flat_map(|lab| &lab.stages)
        .flat_map(|stage| &stage.probes);
    let shown = state.shown_stage().into_iter();
    let here = shown.flat_map(|stage| &stage.probes);
    here.chain(titles)
        .find(|probe| probe.name == name)
        .map_or_else(|| name.to_owned(), |probe| probe.title.clone())
}

/// Places of the facts that pass the evidence pane's filters.
#[must_use]
pub fn filtered(state: &State, app: &App) -> Vec<usize> {
    // What says that the Sensor was ready for a probe names no probe.
    let of_cells: BTreeSet<u64> = app
        .scene
        .rows
        .iter()
        .filter(|row| Some(row.probe.as_str()) == app.by_probe.as_deref())
        .flat_map(Row::facts)
        .collect();
    let passes = |fact: &Fact| {
        let layer = app.by_layer.is_none_or(|layer| fact.layer == layer);
        let probe = app.by_probe.as_deref().is_none_or(|probe| {
            fact.probe.as_deref() == Some(probe) || of_cells.contains(&fact.seq)
        });
        layer && probe
    };
    let facts = state.facts().iter().enumerate();
    facts
        .filter(|(_, fact)| passes(fact))
        .map(|(place, _)| place)
        .collect()
}

/// One fact in one line; its own line as it is, or in short.
#[must_use]
pub fn fact_text(fact: &Fact, raw: bool) -> String {
    let probe = fact.probe.as_deref().unwrap_or("-");
    let line = if raw {
        fact.line.clone()
    } else {
        brief::brief(&fact.line)
    };
    format!(
        "#{:<4}a{} {probe:<10} {:<6} [{}] {line}",
        fact.seq,
        fact.attempt,
        fact.layer.name(),
        fact.source,
    )
}

/// One line of the logs as it is shown, with its pod where more than one is followed.
#[must_use]
pub fn log_text(app: &App, place: usize) -> Option<String> {
    let (instance, text) = app.logs.line(app.source, place)?;
    let text = if app.raw { text } else { brief::brief(&text) };
    let text = app.theme.text(&text);
    let pod = if app.raw {
        instance.pod.clone()
    } else {
        brief::short_pod(&instance.pod)
    };
    Some(match app.source {
        Some(_) => text,
        None if instance.container == "main" => format!("{pod} {text}"),
        None => format!("{pod}/{} {text}", instance.container),
    })
}

/// A line of the evidence or of the logs as it is shown.
#[must_use]
pub fn line_text(state: &State, app: &App, place: usize) -> Option<String> {
    match app.pane {
        Pane::Evidence => {
            let fact = state.facts().get(*app.scene.facts.get(place)?)?;
            Some(app.theme.text(&fact_text(fact, app.raw)))
        }
        Pane::Logs => log_text(app, place),
        _ => None,
    }
}

/// The rows of the screen that a wrapped line takes; at least one.
pub fn rows(text: &str, width: usize) -> impl Iterator<Item = String> + use<> {
    let mut rows = markdown::pieces(text, width);
    if rows.is_empty() {
        rows.push(String::new());
    }
    rows.into_iter()
}

/// How many rows of the screen a wrapped line takes.
#[must_use]
pub fn wrapped_rows(state: &State, app: &App, place: usize, width: usize) -> usize {
    line_text(state, app, place).map_or(1, |text| rows(&text, width).count())
}

/// What stands beside the names of the panes.
#[must_use]
pub fn remark(app: &App) -> String {
    match app.pane {
        Pane::Evidence => {
            let mut parts = Vec::new();
            if let Some(probe) = &app.by_probe {
                parts.push(format!("only {probe} (f: all)"));
            }
            if let Some(layer) = app.by_layer {
                parts.push(format!("only {layer} (F: next)"));
            }
            parts.join(", ")
        }
        Pane::Logs => {
            let source = match app.source.and_then(|at| app.logs.sources().nth(at)) {
                Some(instance) => format!(
                    "{}/{} life {}",
                    instance.pod, instance.container, instance.instance
                ),
                None => "all pods ([ ] choose)".to_owned(),
            };
            let place = if app.cursor().follow {
                "following".to_owned()
            } else {
                format!("line {} of {}", app.cursor().at + 1, app.pane_length())
            };
            let remark = app.logs.remark().unwrap_or_default();
            format!("{source}, {place} {remark}")
        }
        _ => String::new(),
    }
}

/// Lines of the present pane, where it is neither the evidence nor the logs.
#[must_use]
pub fn block(state: &State, app: &App, width: u16) -> Vec<Shown> {
    match app.pane {
        Pane::Evidence | Pane::Logs => Vec::new(),
        Pane::Manifest => {
            let lines = app.manifest.lines(app.compare, app.theme, app.keys);
            if lines.is_empty() {
                return vec![Shown::plain("this stage has no manifest", app.theme.dim())];
            }
            lines.into_iter().map(Shown::of).collect()
        }
        Pane::Ledger => ledger(state, app, usize::from(width)),
        Pane::Counters => counted(state, app, usize::from(width)),
        Pane::Access => access::lines(state, app.theme),
        Pane::Gate => gate(state, app),
        Pane::Report => report(app, width),
    }
}

/// The ledger's own tables where they were read, and the rows that were seen as facts.
fn ledger(state: &State, app: &App, width: usize) -> Vec<Shown> {
    let mut lines = Vec::new();
    match &app.tables {
        None => lines.push(Shown::plain("reading the ledger …", app.theme.dim())),
        Some(Err(error)) => lines.push(Shown::plain(app.theme.text(error), app.theme.dim())),
        Some(Ok(tables)) => {
            for table in tables {
                lines.extend(rows_of(table, app, width));
            }
        }
    }
    let seen = state.facts().iter().filter(|fact| {
        matches!(
            fact.observation,
            Observation::LedgerAttempt { .. }
                | Observation::LedgerEffect { .. }
                | Observation::DestinationRecord { .. }
                | Observation::ClaimChanged { .. }
                | Observation::OrderState { .. }
                | Observation::NoEffect
        )
    });
    lines.push(Shown::plain(
        "rows that this lab has seen as facts",
        app.theme.strong(),
    ));
    let before = lines.len();
    lines.extend(seen.map(|fact| Shown {
        line: Line::from(app.theme.text(&fact_text(fact, app.raw))),
        fact: Some(fact.seq),
        command: None,
    }));
    if lines.len() == before {
        lines.push(Shown::plain("none yet", app.theme.dim()));
    }
    lines
}

fn rows_of(table: &Table, app: &App, room: usize) -> Vec<Shown> {
    let theme = app.theme;
    let with_command = |line: Line<'static>| Shown {
        line,
        fact: None,
        command: Some(table.command.clone()),
    };
    // One that could not be read has no number of rows.
    let title = if table.remark.is_some() && table.rows.is_empty() {
        table.title.clone()
    } else {
        format!("{} ({})", table.title, table.rows.len())
    };
    let title = Span::styled(title, theme.strong());
    let mut lines = vec![with_command(Line::from(title))];
    if let Some(remark) = &table.remark {
        lines.push(with_command(Line::from(Span::styled(
            theme.text(remark),
            theme.dim(),
        ))));
    }
    if table.rows.is_empty() {
        return lines;
    }
    let widths = column_widths(table, room);
    let line = |cells: &[String]| -> String {
        let padded = widths.iter().enumerate().map(|(place, width)| {
            let cell = cells.get(place).map(String::as_str).unwrap_or_default();
            let cell = if cell.width() > *width && is_identity(cell) {
                format!("{}..", cut(cell, width.saturating_sub(2)))
            } else {
                cut(&theme.text(cell), *width)
            };
            format!("{cell}{}  ", " ".repeat(width.saturating_sub(cell.width())))
        });
        padded.collect::<String>().trim_end().to_owned()
    };
    lines.push(with_command(Line::from(Span::styled(
        line(&table.columns),
        theme.dim(),
    ))));
    lines.extend(
        table
            .rows
            .iter()
            .map(|row| with_command(Line::from(line(row)))),
    );
    lines
}

/// What each column needs; identities give way where there is too little room: their beginning tells them apart.
fn column_widths(table: &Table, room: usize) -> Vec<usize> {
    let cells = |place: usize| table.rows.iter().filter_map(move |row| row.get(place));
    let mut widths: Vec<usize> = table
        .columns
        .iter()
        .enumerate()
        .map(|(place, name)| {
            let longest = cells(place).map(|cell| cell.width()).max().unwrap_or(0);
            longest.max(name.width()).min(COLUMN)
        })
        .collect();
    let total = |widths: &[usize]| widths.iter().map(|width| width + 2).sum::<usize>();
    for (place, name) in table.columns.iter().enumerate() {
        let identities = cells(place).all(|cell| cell.is_empty() || is_identity(cell));
        if identities && total(&widths) > room {
            widths[place] = widths[place].min(name.width().max(IDENTITY));
        }
    }
    widths
}

/// A uid or an event id: long, and without a meaning of its own.
fn is_identity(text: &str) -> bool {
    text.len() >= 32
        && text
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// The attempt whose rows are shown.
fn shown_attempt(state: &State, app: &App) -> u32 {
    app.scene
        .rows
        .iter()
        .flat_map(Row::facts)
        .find_map(|seq| state.fact(seq))
        .map_or_else(|| state.attempt(), |fact| fact.attempt)
}

/// The verification matrix, where the lab is one; then the chart.
fn counted(state: &State, app: &App, width: usize) -> Vec<Shown> {
    let matrix = state.matrix().unwrap_or_default();
    let table = matrix::text(&matrix);
    let texts: Vec<String> = if matrix.is_empty() {
        Vec::new()
    } else if table.lines().all(|line| line.width() <= width) {
        table.lines().map(str::to_owned).collect()
    } else {
        matrix::sentences(&matrix)
            .flat_map(|line| markdown::wrap(&[Span::raw(line)], width, "", "  "))
            .map(|line| line.to_string())
            .collect()
    };
    let mut lines: Vec<Shown> = texts
        .iter()
        .map(|line| Shown::plain(app.theme.text(line), Style::new()))
        .collect();
    lines.extend(chart(state, app, width));
    lines
}

/// The four counters over the time of the attempt, all on one scale.
fn chart(state: &State, app: &App, width: usize) -> Vec<Shown> {
    let theme = app.theme;
    let attempt = shown_attempt(state, app);
    let Some(lab) = state.lab() else {
        return Vec::new();
    };
    let mut facts: Vec<Fact> = state
        .facts()
        .iter()
        .filter(|fact| fact.counts_in(&lab.name, attempt))
        .cloned()
        .collect();
    facts.sort_by_key(|fact| fact.time);
    let (Some(first), Some(last)) = (
        facts.first().map(|fact| fact.time),
        facts.last().map(|fact| fact.time),
    ) else {
        return vec![Shown::plain(
            "nothing was counted in this attempt yet",
            theme.dim(),
        )];
    };
    let span = last.duration_since(first).as_secs_f64().max(0.001);
    let points = POINTS.min(width.saturating_sub(20)).max(2);
    let scope = Scope {
        lab: &lab.name,
        attempt,
        settled: true,
    };
    let series: Vec<[u64; 4]> = (1..=points)
        .map(|point| {
            let share = point as f64 / points as f64;
            let until = facts.partition_point(|fact| {
                fact.time.duration_since(first).as_secs_f64() <= span * share
            });
            let counted = counters(facts.get(..until).unwrap_or_default(), scope);
            [
                counted.intakes,
                counted.approved,
                counted.completed,
                counted.effects,
            ]
        })
        .collect();
    let most = series.iter().flatten().copied().max().unwrap_or(0).max(1);
    let mut lines = vec![Shown::plain(
        format!("attempt {attempt}, {span:.1} s; a full column is {most}"),
        theme.dim(),
    )];
    for (place, name) in ["intakes", "approved", "completed", "effects"]
        .into_iter()
        .enumerate()
    {
        let columns: String = series
            .iter()
            .map(|point| {
                let eighth = (point[place] * 8).div_ceil(most);
                theme.column(usize::try_from(eighth).unwrap_or(8))
            })
            .collect();
        let now = series.last().map_or(0, |point| point[place]);
        lines.push(Shown::plain(
            format!("{name:<10}{now:>5}  {columns}"),
            theme.cell(CellState::Yes),
        ));
    }
    lines.push(Shown::plain(
        "Equal counters say nothing about which events they counted.",
        theme.dim(),
    ));
    lines
}

fn gate(state: &State, app: &App) -> Vec<Shown> {
    let theme = app.theme;
    let report = state.gate();
    if report.conditions.is_empty() {
        let text = if app.read_only {
            "how the gate stood is not kept; what it found wrong is among the facts (layer ready)"
        } else {
            "the gate was not looked at in this stage"
        };
        return vec![Shown::plain(text, theme.dim())];
    }
    let lines = report.conditions.iter().map(|condition| {
        let (word, cell) = if condition.holds {
            ("holds", CellState::Yes)
        } else {
            ("waits", CellState::No)
        };
        let seconds = condition
            .since
            .filter(|_| !condition.holds)
            .map(|since| {
                let waited = state.now().duration_since(since).as_secs_f64().max(0.0);
                format!(" {waited:.0} s")
            })
            .unwrap_or_default();
        let text = format!("{word}{seconds} {}: {}", condition.name, condition.detail);
        Shown {
            line: Line::from(Span::styled(theme.text(&text), theme.cell(cell))),
            fact: None,
            command: Some(condition.command.clone()),
        }
    });
    lines.collect()
}

fn report(app: &App, width: u16) -> Vec<Shown> {
    match &app.report {
        None => vec![Shown::plain("reading the journal …", app.theme.dim())],
        Some(Err(error)) => vec![Shown::plain(app.theme.text(error), app.theme.dim())],
        Some(Ok(text)) => markdown::render(text, width, app.theme)
            .into_iter()
            .map(Shown::of)
            .collect(),
    }
}
