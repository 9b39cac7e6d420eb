//! What `eventlab run` and `lab test` print while labs are played.

use clap::ValueEnum;
use serde_json::{Value, json};

use super::output::{line, note};
use crate::evidence::{Fate, MatrixLine, Outcome};
use crate::lab::{Failure, Lab, StageKind};
use crate::report::junit::Junit;
use crate::report::matrix;
use crate::runner::autopilot::{Played, Progress, StageEnd, WrongEnd};
use crate::session::{OpenReason, StageFailure};

/// Most characters of a fact's line that are shown.
const LONGEST_LINE: usize = 600;

/// How a run is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RunFormat {
    #[default]
    Text,
    /// One JSON object a line
    Json,
    /// JUnit XML, when everything has ended
    Junit,
}

/// Prints progress in one format.
pub struct Printer {
    format: RunFormat,
    junit: Junit,
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Proven => "proven",
        Outcome::Refuted => "refuted",
        Outcome::Unproven => "unproven",
    }
}

/// Where nothing is checked, nothing is proven.
fn stage_word(end: &StageEnd, observe: bool, kind: StageKind) -> &'static str {
    match (end, kind) {
        (StageEnd::Passed, _) if observe => "observed",
        (
            StageEnd::Passed,
            StageKind::Read | StageKind::Predict | StageKind::Report | StageKind::Debrief,
        ) => "done",
        (StageEnd::Passed, _) => word(Outcome::Proven),
        (StageEnd::Failed(_), _) => word(Outcome::Refuted),
        (StageEnd::Unproven(_), _) => word(Outcome::Unproven),
    }
}

impl Printer {
    /// A printer for this format.
    #[must_use]
    pub fn new(format: RunFormat) -> Self {
        Self {
            format,
            junit: Junit::default(),
        }
    }

    /// Prints one step.
    pub fn progress(&mut self, progress: &Progress) {
        match self.format {
            RunFormat::Text => text(progress),
            RunFormat::Json => line(&json(progress).to_string()),
            RunFormat::Junit => self.junit.progress(progress),
        }
    }

    /// Prints how a lab went.
    pub fn lab(&mut self, lab: &Lab, played: &Played) {
        let outcome = if played.proven() {
            Outcome::Proven
        } else if played.refuted.is_empty() {
            Outcome::Unproven
        } else {
            Outcome::Refuted
        };
        match self.format {
            RunFormat::Junit => self.junit.lab(lab, played),
            RunFormat::Text => line(&format!("{}: {}", title(lab), word(outcome))),
            RunFormat::Json => line(
                &json!({
                    "lab": lab.name,
                    "seed": lab.drawn.as_ref().map(|drawn| drawn.seed),
                    "outcome": word(outcome),
                    "refuted": played.refuted,
                    "unproven": played.unproven,
                })
                .to_string(),
            ),
        }
    }

    /// Prints the table of a verification matrix.
    pub fn matrix(&mut self, lines: &[MatrixLine]) {
        match self.format {
            RunFormat::Text => line(&matrix::text(lines)),
            RunFormat::Json => {
                let rows: Vec<Value> = lines
                    .iter()
                    .map(|line| json!({"line": line, "holds": line.holds()}))
                    .collect();
                line(&json!({"matrix": rows}).to_string());
            }
            // Each line that does not hold is among what the lab refuted.
            RunFormat::Junit => {}
        }
    }

    /// Says that the run ended before everything was played, where the format has no other place for it.
    pub fn cut_off(&mut self, why: &str) {
        if self.format == RunFormat::Junit {
            self.junit.cut_off(why);
        }
    }

    /// Ends the output.
    pub fn finish(self) {
        if self.format != RunFormat::Junit {
            return;
        }
        match self.junit.render() {
            Ok(text) => line(text.trim_end()),
            Err(error) => note!("eventlab: cannot write JUnit: {error}"),
        }
    }
}

/// A lab's name, with its seed where it has one.
fn title(lab: &Lab) -> String {
    match &lab.drawn {
        Some(drawn) => format!("{} (seed {})", lab.name, drawn.seed),
        None => lab.name.clone(),
    }
}

fn text(progress: &Progress) {
    match progress {
        Progress::Stage {
            lab,
            number,
            of,
            stage,
            kind,
            title,
            observe,
            end,
            tried,
            ..
        } => {
            let word = stage_word(end, *observe, *kind);
            let with = match (end, tried) {
                (StageEnd::Failed(_) | StageEnd::Unproven(_), Some(file)) => {
                    format!(" (with the solution, manifests/{file})")
                }
                _ => String::new(),
            };
            line(&format!(
                "{lab} {number}/{of} {stage}: {word}: {title}{with}"
            ));
            match end {
                StageEnd::Passed => {}
                StageEnd::Failed(failures) => failures.iter().for_each(failure),
                StageEnd::Unproven(reasons) => reasons.iter().for_each(open),
            }
        }
        Progress::WrongFix {
            lab,
            stage,
            name,
            why,
            wanted,
            end,
        } => {
            let Some(complaint) = end.complaint() else {
                line(&format!("{lab} wrong fix {name}: fails as it must: {why}"));
                return;
            };
            let short = complaint.split(':').next().unwrap_or_default().to_owned();
            line(&format!(
                "{lab} stage {stage}, wrong fix {name}: DOES NOT FAIL AS IT MUST: it {short}"
            ));
            line(&format!("    why it is wrong: {why}"));
            line(&format!("    must fail with:  {}", wanted_text(wanted)));
            match end {
                WrongEnd::OtherReason(failures) => failures.iter().for_each(failure),
                WrongEnd::Unproven(reasons) => reasons.iter().for_each(open),
                WrongEnd::Stuck(text) => line(&format!("    {text}")),
                WrongEnd::AsItMust | WrongEnd::Passes => {}
            }
        }
    }
}

fn wanted_text(failure: &Failure) -> String {
    match failure {
        Failure::Probe(probe) => format!("probe {}, seen {}", probe.probe, probe.observed),
        Failure::Gate(gate) => format!("gate {}", gate.gate),
        Failure::Access(access) => format!("the right {}", access.access),
        Failure::Order(order) => format!("order check {}", order.order),
    }
}

/// Expected against seen, each on a line of its own.
fn failure(failure: &StageFailure) {
    let fate = |fate: &Option<Fate>| {
        fate.as_ref()
            .map_or_else(|| "not settled".to_owned(), ToString::to_string)
    };
    match &failure.probe {
        Some(probe) => {
            line(&format!("    probe {probe}"));
            line(&format!("        expected: {}", fate(&failure.expected)));
            line(&format!("        seen:     {}", fate(&failure.observed)));
            line(&format!("        because:  {}", failure.text));
        }
        None if failure.reason == StageFailure::FATE => line(&format!("    {}", failure.text)),
        None => line(&format!("    gate {}: {}", failure.reason, failure.text)),
    }
    if let Some(text) = &failure.line {
        line(&format!("        line:     {}", cut(text)));
    }
}

/// A line of a log can be long.
fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST_LINE) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn open(reason: &OpenReason) {
    let about = match &reason.probe {
        Some(probe) => format!("probe {probe} is not settled: "),
        None => String::new(),
    };
    line(&format!("    {about}{}", reason.text));
}

fn json(progress: &Progress) -> Value {
    match progress {
        Progress::Stage {
            lab,
            number,
            of,
            stage,
            kind,
            title,
            observe,
            end,
            judgements,
            ..
        } => json!({
            "lab": lab,
            "stage": stage,
            "number": number,
            "of": of,
            "title": title,
            "outcome": stage_word(end, *observe, *kind),
            "because": because(end),
            "checks": judgements.iter().map(|one| json!({
                "probe": one.probe,
                "claim": one.verdict.claim,
                "outcome": word(one.verdict.outcome),
                "because": one.verdict.because,
                "facts": one.verdict.facts,
            })).collect::<Vec<_>>(),
        }),
        Progress::WrongFix {
            lab,
            stage,
            name,
            why,
            wanted,
            end,
        } => json!({
            "lab": lab,
            "stage": stage,
            "wrong-fix": name,
            "why": why,
            "must-fail-with": wanted_text(wanted),
            "fails-as-it-must": *end == WrongEnd::AsItMust,
            "because": end.complaint(),
        }),
    }
}

fn because(end: &StageEnd) -> Vec<&str> {
    match end {
        StageEnd::Passed => Vec::new(),
        StageEnd::Failed(failures) => failures
            .iter()
            .map(|failure| failure.text.as_str())
            .collect(),
        StageEnd::Unproven(reasons) => reasons.iter().map(|reason| reason.text.as_str()).collect(),
    }
}
