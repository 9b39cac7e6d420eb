//! The recorded probes, judged again by an edited EventSource or Sensor before it is applied: which cells would flip.
//!
//! Nothing is sent. A probe is replayed as the request that was sent, through the EventSource's intake and filter and the
//! Sensor's filters; only probes that one of these has decided are replayed.

mod pipeline;

use jiff::Timestamp;

use self::pipeline::{Pipeline, Way};
use crate::cluster::Manifest;
use crate::evidence::reason::{of_answer, of_discard};
use crate::evidence::{Layer, Observation, Reason, Row};
use crate::lab::Probe;
use crate::report::explain::walk::{Input, walk};
use crate::report::explain::{Act, DependencyStep, Request, Stop, TransformStep, Walk};
use crate::runner::sending;
use crate::session::State;

/// What EventSource and Sensor decide of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    Passed,
    /// The reason says by which layer.
    Rejected(Reason),
    /// The filter passes it, and its object cannot be built.
    NotBuilt,
    /// The filter passes it, and nothing is submitted for it alone.
    Waits,
}

/// A probe that was sent, and what became of it at EventSource and Sensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    pub stage: String,
    pub probe: Probe,
    pub trace: String,
    pub attempt: u32,
    pub judged: Judged,
    /// What the cell says that it was stopped at; empty where it passed.
    pub text: String,
}

/// What would become of a recorded probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Now {
    Passes,
    Rejected {
        reason: Reason,
        text: String,
    },
    /// The filter passes it, and the object cannot be built.
    NotSubmitted(String),
    /// The filter passes it, and the triggers' conditions ask for something else.
    Waits,
    /// Nobody hears of it.
    NotReached(String),
    /// That is not known here.
    NotJudged(String),
}

impl Now {
    /// `None` where nobody decides anything.
    fn judged(&self) -> Option<Judged> {
        match self {
            Now::Passes => Some(Judged::Passed),
            Now::Rejected { reason, .. } => Some(Judged::Rejected(*reason)),
            Now::NotSubmitted(_) => Some(Judged::NotBuilt),
            Now::Waits => Some(Judged::Waits),
            Now::NotReached(_) | Now::NotJudged(_) => None,
        }
    }

    fn is_known(&self) -> bool {
        !matches!(self, Now::NotJudged(_))
    }

    fn words(&self) -> String {
        match self {
            Now::Passes => "passes".to_owned(),
            Now::Rejected { reason, text } => format!("{} ({text})", stopped_by(*reason)),
            Now::NotSubmitted(why) => format!("passes the filter, and its object fails: {why}"),
            Now::Waits => {
                "passes the filter, and no trigger acts on it alone: see their conditions"
                    .to_owned()
            }
            Now::NotReached(why) => format!("does not reach the Sensor: {why}"),
            Now::NotJudged(why) => format!("not known: {why}"),
        }
    }
}

/// How it is said that a layer stops an event.
fn stopped_by(reason: Reason) -> &'static str {
    match reason.layer() {
        Layer::Intake => "refused",
        Layer::Bus => "kept off the bus",
        _ => "rejected",
    }
}

/// What an edit does to a recorded probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// It would be decided otherwise: passed or not, its object built or not, rejected for another reason.
    Flips,
    /// That is not known here.
    Open,
    /// It would be decided otherwise, and would be so without the edit: what is applied is not what it was sent to.
    Older,
    Same,
}

/// One line of the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    pub recorded: Recorded,
    pub now: Now,
    /// What would become of it by what is applied, where that is known.
    pub applied: Option<Now>,
}

impl Replayed {
    /// What the edit does to it.
    #[must_use]
    pub fn change(&self) -> Change {
        if !self.now.is_known() {
            return Change::Open;
        }
        if self.now.judged() == Some(self.recorded.judged) {
            return Change::Same;
        }
        let without = self.applied.as_ref().filter(|now| now.is_known());
        if without.is_some_and(|now| now.judged() == self.now.judged()) {
            Change::Older
        } else {
            Change::Flips
        }
    }

    /// The line as it is shown; `+` passes now and did not, `-` the other way round, `~` stops as before, and otherwise.
    #[must_use]
    pub fn line(&self) -> String {
        let passed = self.recorded.judged == Judged::Passed;
        let (mark, word) = match (self.change(), passed, self.now == Now::Passes) {
            (Change::Same, ..) => (" ", "same"),
            (Change::Open, ..) => ("?", "open"),
            (Change::Older, ..) => (" ", "older"),
            (Change::Flips, _, true) => ("+", "FLIPS"),
            (Change::Flips, true, false) => ("-", "FLIPS"),
            (Change::Flips, false, false) => ("~", "FLIPS"),
        };
        let title = &self.recorded.probe.title;
        let (before, now) = (self.recorded.words(), self.now.words());
        format!("{mark} {word:<5} {title}: {before}, now {now}")
    }
}

impl Recorded {
    fn words(&self) -> String {
        let word = match self.judged {
            Judged::Passed if self.text.is_empty() => return "passed".to_owned(),
            Judged::Passed | Judged::NotBuilt | Judged::Waits => "passed the filter, not submitted",
            Judged::Rejected(reason) => stopped_by(reason),
        };
        match self.text.as_str() {
            "" => word.to_owned(),
            text => format!("{word} ({text})"),
        }
    }
}

/// The probes of the present lab that EventSource or Sensor have decided, each from the last go at its stage; those of the
/// last stages come first.
#[must_use]
pub fn recorded(state: &State) -> Vec<Recorded> {
    let (Some(lab), Some(progress)) = (state.lab(), state.progress_here()) else {
        return Vec::new();
    };
    let mut found: Vec<Recorded> = Vec::new();
    for stage in lab.stages.iter().rev() {
        let Some(run) = progress.runs.get(&stage.name) else {
            continue;
        };
        for row in state.rows_of(stage) {
            let probe = stage.probes.iter().find(|probe| probe.name == row.probe);
            if let (Some(probe), Some((judged, text))) = (probe, judged(&row, state)) {
                found.push(Recorded {
                    stage: stage.name.clone(),
                    probe: probe.clone(),
                    trace: row.trace.clone().unwrap_or_default(),
                    attempt: run.attempt,
                    judged,
                    text,
                });
            }
        }
    }
    name_stages(&mut found);
    found
}

/// Probes of several stages with one title are told apart by their stage.
fn name_stages(recorded: &mut [Recorded]) {
    let titles: Vec<String> = recorded.iter().map(|one| one.probe.title.clone()).collect();
    for one in recorded {
        let title = &one.probe.title;
        if titles.iter().filter(|other| *other == title).count() > 1 {
            one.probe.title = format!("{title}, stage {}", one.stage);
        }
    }
}

/// What was decided, and the text of the cell that stopped it; `None` where that is not known.
fn judged(row: &Row, state: &State) -> Option<(Judged, String)> {
    for layer in [Layer::Intake, Layer::Bus, Layer::Filter] {
        let cell = row.cell(layer);
        if cell.stopped() {
            let reason = cell.reason.filter(|one| !one.is_of_the_environment())?;
            return Some((Judged::Rejected(reason), cell.text.clone()));
        }
    }
    let (filter, submit) = (row.cell(Layer::Filter), row.cell(Layer::Submit));
    if !filter.passed() {
        return None;
    }
    if !submit.stopped() {
        // A trigger may wait for another event, or have come to nothing yet.
        return submit.passed().then(|| (Judged::Passed, String::new()));
    }
    let not_built = submit
        .facts
        .iter()
        .filter_map(|seq| state.fact(*seq))
        .any(|fact| match &fact.observation {
            Observation::TriggerFailed { error, .. } => is_of_the_object(error),
            _ => false,
        });
    let judged = if not_built {
        Judged::NotBuilt
    } else {
        Judged::Passed
    };
    Some((judged, submit.text.clone()))
}

/// Whether a trigger failed before the API server was asked: only that can be replayed.
fn is_of_the_object(error: &str) -> bool {
    !error.starts_with("failed to execute trigger, ")
        || error.contains("neither name nor generateName is given")
        || error.contains("unknown operation type")
}

/// Judges recorded probes by what is live once `edited` is applied.
///
/// # Errors
/// A sentence: nothing in it decides of an event, it would be refused, or it cannot be judged here.
pub fn replay(
    edited: &[Manifest],
    live: &[Manifest],
    event: &str,
    recorded: &[Recorded],
    now: Timestamp,
) -> Result<Vec<Replayed>, String> {
    let decides = |manifest: &Manifest| {
        let kind = manifest.object["kind"].as_str();
        kind.is_some_and(|kind| kind == "Sensor" || kind == "EventSource")
    };
    if !edited.iter().any(decides) {
        return Err(
            "there is neither a Sensor nor an EventSource in it, so no probe is replayed"
                .to_owned(),
        );
    }
    let pipeline = Pipeline::of(live, edited, now)?;
    // What is applied may be refused as well: then an older one goes on, which is not known here.
    let applied = Pipeline::of(live, &[], now).ok();
    let replayed = recorded.iter().map(|one| Replayed {
        recorded: one.clone(),
        now: again(&pipeline, event, one, now),
        applied: applied
            .as_ref()
            .map(|pipeline| again(pipeline, event, one, now)),
    });
    Ok(replayed.collect())
}

/// What becomes of a probe that goes again.
fn again(pipeline: &Pipeline, event: &str, recorded: &Recorded, now: Timestamp) -> Now {
    let request = sending::request(&recorded.probe, event, recorded.attempt, &recorded.trace);
    let (sensor, dependencies, intake) = match pipeline.way(&request) {
        Ok(Way::Judged(sensor, dependencies, intake)) => (sensor, dependencies, intake),
        Ok(Way::Unrouted(status @ 400.., text)) => return refused(status, text),
        Ok(Way::Unrouted(status, text)) => {
            let why = format!("the server answers {status} {text} by itself at this path");
            return Now::NotReached(why);
        }
        Ok(Way::Nobody(why)) => return Now::NotReached(why),
        Err(why) => return Now::NotJudged(why),
    };
    let headers: Vec<String> = request
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    let walked = Request::new(&headers, None, request.body).and_then(|request| {
        let input = Input::Request(request, Some((*intake).into()));
        walk(sensor, &dependencies, &input, now).map_err(|error| error.to_string())
    });
    match walked {
        Ok(walk) => unjudged(&walk).map_or_else(|| said(&walk), Now::NotJudged),
        Err(why) => Now::NotJudged(why),
    }
}

fn refused(status: u16, response: &str) -> Now {
    Now::Rejected {
        reason: of_answer(status, response).unwrap_or(Reason::BadBody),
        text: format!("HTTP {status} {response}").trim_end().to_owned(),
    }
}

/// Why a walk is not judged to its end; a certain rejection before that counts.
fn unjudged(walk: &Walk) -> Option<String> {
    let mut dependencies = walk.dependencies.iter();
    let why = dependencies.find_map(|one| one.unjudged.clone());
    let open = !walk.judged && walk.stopped_at.is_none();
    why.or_else(|| {
        // Where there is no data, the EventSource's filter is what has no answer.
        let note = walk.notes.last().filter(|_| walk.data.is_none()).cloned();
        let other = || "`eventlab explain` names what of it has no answer here".to_owned();
        open.then(|| note.unwrap_or_else(other))
    })
}

fn said(walk: &Walk) -> Now {
    match walk.stopped_at {
        Some(Stop::Bus) => Now::Rejected {
            reason: Reason::SourceFilter,
            text: source_filter(walk),
        },
        Some(Stop::Intake) => match &walk.intake {
            Some(answer) => refused(answer.status.unwrap_or_default(), &answer.response),
            None => Now::NotReached("no EventSource takes it".to_owned()),
        },
        Some(Stop::Conditions) => Now::Waits,
        Some(Stop::Filter | Stop::Transform) => {
            let step = walk.dependencies.first();
            step.map_or_else(
                || Now::Rejected {
                    reason: Reason::Mismatch,
                    text: String::new(),
                },
                rejection,
            )
        }
        Some(Stop::Submit) | None => match walk.triggers.iter().find(|step| step.act == Act::Fails)
        {
            Some(step) => Now::NotSubmitted(step.error.clone().unwrap_or_default()),
            None => Now::Passes,
        },
    }
}

/// What the EventSource's filter makes of an event that it drops.
fn source_filter(walk: &Walk) -> String {
    let mut lines = walk.logs.iter();
    match lines.find_map(|line| line.fields.get("error")?.as_str()) {
        Some(error) => format!("the EventSource's filter fails: {error}"),
        None => "the EventSource's filter is not true of it".to_owned(),
    }
}

/// Why a dependency does not take an event.
fn rejection(step: &DependencyStep) -> Now {
    let (reason, text) = match (&step.filter, &step.transform) {
        (Some(filter), _) => {
            let reason = of_discard(filter.error.as_deref());
            let plain = || filter.reason.as_str().to_owned();
            (reason, filter.error.clone().unwrap_or_else(plain))
        }
        (None, Some(TransformStep::Error(error))) => {
            (Reason::FilterError, format!("its transform fails: {error}"))
        }
        (None, _) => (Reason::FilterError, "its transform fails".to_owned()),
    };
    Now::Rejected { reason, text }
}

#[cfg(test)]
mod tests;
