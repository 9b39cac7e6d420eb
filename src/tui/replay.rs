//! The recorded probes, judged again by an edited Sensor before it is applied: which cells would flip.
//!
//! Nothing is sent. A probe is replayed as the request that was sent, through the EventSource's intake and the Sensor's
//! filters; only probes whose filter cell is known are replayed.

use jiff::Timestamp;

use crate::cluster::Manifest;
use crate::embedded::services::eventsource::{self, Intake};
use crate::evidence::reason::of_discard;
use crate::evidence::{Layer, Observation, Reason, Row};
use crate::lab::Probe;
use crate::report::explain::walk::{Input, walk};
use crate::report::explain::{Act, DependencyStep, Request, Sensor, Stop, TransformStep, Walk};
use crate::runner::sending;
use crate::session::State;

/// What a Sensor decides of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    Passed,
    Rejected(Reason),
    /// The filter passes it, and its object cannot be built.
    NotBuilt,
    /// The filter passes it, and nothing is submitted for it alone.
    Waits,
}

/// A probe that was sent, and what the Sensor made of it.
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

/// What the edited Sensor makes of a recorded probe.
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
    NotReached(String),
}

impl Now {
    /// `None` where the Sensor has nothing to decide.
    fn judged(&self) -> Option<Judged> {
        match self {
            Now::Passes => Some(Judged::Passed),
            Now::Rejected { reason, .. } => Some(Judged::Rejected(*reason)),
            Now::NotSubmitted(_) => Some(Judged::NotBuilt),
            Now::Waits => Some(Judged::Waits),
            Now::NotReached(_) => None,
        }
    }
}

/// One line of the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    pub recorded: Recorded,
    pub now: Now,
}

impl Replayed {
    /// Whether it would be decided otherwise: passed or not, its object built or not, rejected for another reason.
    #[must_use]
    pub fn flips(&self) -> bool {
        self.now.judged() != Some(self.recorded.judged)
    }

    /// The line as it is shown; `+` passes now and did not, `-` the other way round, `~` stops as before, and otherwise.
    #[must_use]
    pub fn line(&self) -> String {
        let text = &self.recorded.text;
        let because = |word: &str| match text.as_str() {
            "" => word.to_owned(),
            text => format!("{word} ({text})"),
        };
        let before = match self.recorded.judged {
            Judged::Passed if text.is_empty() => "passed".to_owned(),
            Judged::Passed | Judged::NotBuilt | Judged::Waits => {
                because("passed the filter, not submitted")
            }
            Judged::Rejected(_) => because("rejected"),
        };
        let now = match &self.now {
            Now::Passes => "passes".to_owned(),
            Now::Rejected { text, .. } => format!("rejected ({text})"),
            Now::NotSubmitted(why) => format!("passes the filter, and its object fails: {why}"),
            Now::Waits => {
                "passes the filter, and no trigger acts on it alone: see their conditions"
                    .to_owned()
            }
            Now::NotReached(why) => format!("does not reach the Sensor: {why}"),
        };
        let passed = self.recorded.judged == Judged::Passed;
        let (mark, word) = match (self.flips(), passed, self.now == Now::Passes) {
            (false, ..) => (" ", "same"),
            (true, _, true) => ("+", "FLIPS"),
            (true, true, false) => ("-", "FLIPS"),
            (true, false, false) => ("~", "FLIPS"),
        };
        let title = &self.recorded.probe.title;
        format!("{mark} {word:<5} {title}: {before}, now {now}")
    }
}

/// The probes of the present lab whose filter cell is known, each from the last go at its stage.
#[must_use]
pub fn recorded(state: &State) -> Vec<Recorded> {
    let (Some(lab), Some(progress)) = (state.lab(), state.progress_here()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for stage in &lab.stages {
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
    found
}

/// What was decided, and the text of the cell that stopped it; `None` where that is not known.
fn judged(row: &Row, state: &State) -> Option<(Judged, String)> {
    let (filter, submit) = (row.cell(Layer::Filter), row.cell(Layer::Submit));
    if filter.stopped() {
        return Some((Judged::Rejected(filter.reason?), filter.text.clone()));
    }
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

/// Judges recorded probes by the Sensor among `edited`.
///
/// # Errors
/// A sentence: there is no Sensor in it, the controller would refuse it, or it cannot be judged here.
pub fn replay(
    edited: &[Manifest],
    sources: &[Manifest],
    event: &str,
    recorded: &[Recorded],
    now: Timestamp,
) -> Result<Vec<Replayed>, String> {
    let is_sensor = |manifest: &&Manifest| manifest.object["kind"] == "Sensor";
    let manifest = edited
        .iter()
        .find(is_sensor)
        .ok_or("there is no Sensor in it, so no probe is replayed")?;
    let sensor =
        Sensor::read(&manifest.file, &manifest.object, now).map_err(|error| error.to_string())?;
    let dependencies = sensor
        .by_event()
        .into_iter()
        .find(|group| group.first().is_some_and(|first| first.event == event))
        .ok_or_else(|| {
            format!("no dependency of the Sensor listens to event {event}: nothing would reach it")
        })?;
    let intake = intake(sources, event)?;
    recorded
        .iter()
        .map(|one| {
            let request = sending::request(&one.probe, event, one.attempt, &one.trace);
            let headers: Vec<String> = request
                .headers
                .iter()
                .map(|(name, value)| format!("{name}: {value}"))
                .collect();
            let request = Request::new(&headers, None, request.body)?;
            let input = Input::Request(request, Some(intake.clone()));
            let walk =
                walk(&sensor, &dependencies, &input, now).map_err(|error| error.to_string())?;
            if let Some(why) = unjudged(&walk) {
                return Err(format!(
                    "probe {} is not judged here: {why}",
                    one.probe.name
                ));
            }
            Ok(Replayed {
                recorded: one.clone(),
                now: said(&walk),
            })
        })
        .collect()
}

/// What the EventSources make of an event; one that does not serve it takes nothing in.
fn intake(sources: &[Manifest], event: &str) -> Result<Intake, String> {
    let sources = sources
        .iter()
        .map(|manifest| &manifest.object)
        .filter(|object| object["kind"] == "EventSource");
    for object in sources {
        let found = eventsource::intake(object, event).map_err(|why| {
            format!("what the EventSource does with event {event} is not judged here: {why}")
        })?;
        if let Some(intake) = found {
            return Ok(intake);
        }
    }
    Ok(Intake::default())
}

/// Why a walk is not judged to its end; a certain rejection before that counts.
fn unjudged(walk: &Walk) -> Option<String> {
    let mut dependencies = walk.dependencies.iter();
    let why = dependencies.find_map(|one| one.unjudged.clone());
    let open = !walk.judged && walk.stopped_at.is_none();
    why.or_else(|| {
        open.then(|| "`eventlab explain` names what of it has no answer here".to_owned())
    })
}

fn said(walk: &Walk) -> Now {
    match walk.stopped_at {
        Some(Stop::Bus) => Now::NotReached("the EventSource's own filter drops it".to_owned()),
        Some(Stop::Intake) => {
            let answer = walk.intake.as_ref();
            Now::NotReached(
                answer.map_or_else(String::new, |answer| match answer.status {
                    Some(status) => format!("HTTP {status} {}", answer.response),
                    None => answer.response.clone(),
                }),
            )
        }
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
