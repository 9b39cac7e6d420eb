//! The recorded probes, judged again by an edited Sensor before it is applied: which cells would flip.
//!
//! Nothing is sent. A probe is replayed as the request that was sent, through the EventSource's intake and the Sensor's
//! filters; only probes whose filter cell is known are replayed.

use jiff::Timestamp;

use crate::cluster::Manifest;
use crate::embedded::services::eventsource::{self, Intake};
use crate::evidence::{Layer, Row};
use crate::lab::Probe;
use crate::report::explain::walk::{Input, walk};
use crate::report::explain::{Act, DependencyStep, Request, Sensor, Stop, TransformStep, Walk};
use crate::runner::sending;
use crate::session::State;

/// A probe that was sent, and what the Sensor made of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    pub stage: String,
    pub probe: Probe,
    pub trace: String,
    pub attempt: u32,
    pub passed: bool,
    /// What the filter cell says.
    pub text: String,
}

/// What the edited Sensor makes of a recorded probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Now {
    Passes,
    Rejected(String),
    /// The filter passes it, and the object cannot be built.
    NotSubmitted(String),
    NotReached(String),
}

/// One line of the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    pub recorded: Recorded,
    pub now: Now,
}

impl Replayed {
    /// Whether the filter's cell would be another one.
    #[must_use]
    pub fn flips(&self) -> bool {
        let passes = matches!(self.now, Now::Passes | Now::NotSubmitted(_));
        passes != self.recorded.passed
    }

    /// The line as it is shown; `+` passes now and did not, `-` the other way round.
    #[must_use]
    pub fn line(&self) -> String {
        let before = if self.recorded.passed {
            "passed".to_owned()
        } else if self.recorded.text.is_empty() {
            "rejected".to_owned()
        } else {
            format!("rejected ({})", self.recorded.text)
        };
        let now = match &self.now {
            Now::Passes => "passes".to_owned(),
            Now::Rejected(why) => format!("rejected ({why})"),
            Now::NotSubmitted(why) => format!("passes the filter, and its object fails: {why}"),
            Now::NotReached(why) => format!("does not reach the Sensor: {why}"),
        };
        let (mark, word) = match (self.flips(), self.recorded.passed) {
            (true, false) => ("+", "FLIPS"),
            (true, true) => ("-", "FLIPS"),
            (false, _) => (" ", "same"),
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
            if let (Some(probe), Some(recorded)) = (probe, judged(&row)) {
                found.push(Recorded {
                    stage: stage.name.clone(),
                    probe: probe.clone(),
                    trace: row.trace.clone().unwrap_or_default(),
                    attempt: run.attempt,
                    passed: recorded.0,
                    text: recorded.1,
                });
            }
        }
    }
    found
}

/// Whether the filter passed it and the cell's text; `None` where that is not known.
fn judged(row: &Row) -> Option<(bool, String)> {
    let cell = row.cell(Layer::Filter);
    (cell.passed() || cell.stopped()).then(|| (cell.passed(), cell.text.clone()))
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
    let intake = intake(sources, event);
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
            if let Some(why) = walk
                .dependencies
                .iter()
                .find_map(|one| one.unjudged.as_ref())
            {
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

fn intake(sources: &[Manifest], event: &str) -> Intake {
    sources
        .iter()
        .map(|manifest| &manifest.object)
        .filter(|object| object["kind"] == "EventSource")
        .find_map(|object| eventsource::intake(object, event).ok().flatten())
        .unwrap_or_default()
}

fn said(walk: &Walk) -> Now {
    match walk.stopped_at {
        Some(Stop::Intake) => {
            let answer = walk.intake.as_ref();
            Now::NotReached(
                answer.map_or_else(String::new, |answer| match answer.status {
                    Some(status) => format!("HTTP {status} {}", answer.response),
                    None => answer.response.clone(),
                }),
            )
        }
        Some(Stop::Filter) => {
            let step = walk.dependencies.first();
            Now::Rejected(step.map_or_else(String::new, rejection))
        }
        _ => match walk.triggers.iter().find(|step| step.act == Act::Fails) {
            Some(step) => Now::NotSubmitted(step.error.clone().unwrap_or_default()),
            None => Now::Passes,
        },
    }
}

/// Why a dependency does not take an event.
fn rejection(step: &DependencyStep) -> String {
    match (&step.filter, &step.transform) {
        (Some(filter), _) => match &filter.error {
            Some(error) => error.clone(),
            None => filter.reason.as_str().to_owned(),
        },
        (None, Some(TransformStep::Error(error))) => format!("its transform fails: {error}"),
        (None, _) => "its transform fails".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::Catalog;

    fn recorded(name: &str, body: &str, passed: bool) -> Recorded {
        let catalog = Catalog::bundled().unwrap();
        let lab = catalog.lab("filter-path").unwrap();
        let probe = lab.stages.iter().find_map(|stage| stage.probes.first());
        Recorded {
            stage: "send".to_owned(),
            probe: Probe {
                name: name.to_owned(),
                title: name.to_owned(),
                headers: Default::default(),
                body: body.to_owned(),
                ..probe.unwrap().clone()
            },
            trace: "filter-path-a1-x-00000000".to_owned(),
            attempt: 1,
            passed,
            text: String::new(),
        }
    }

    fn lines(file: &str) -> Vec<String> {
        let catalog = Catalog::bundled().unwrap();
        let read = |file: &str| Manifest::read(file, catalog.manifest(file).unwrap()).unwrap();
        let probes = [
            recorded(
                "nested",
                r#"{"event":{"kind":"order.created","orderId":"o","amount":1}}"#,
                true,
            ),
            recorded(
                "flat",
                r#"{"kind":"order.created","orderId":"o","amount":1}"#,
                false,
            ),
            recorded(
                "cancelled",
                r#"{"kind":"order.cancelled","orderId":"o","amount":1}"#,
                false,
            ),
        ];
        replay(
            &read(file),
            &read("base/eventsource.yaml"),
            "filter-path",
            &probes,
            Timestamp::UNIX_EPOCH,
        )
        .unwrap()
        .iter()
        .map(Replayed::line)
        .collect()
    }

    #[test]
    fn the_untouched_filter_flips_nothing() {
        for line in lines("filter-path/sensor.yaml") {
            assert!(line.contains("same"), "{line}");
        }
    }

    #[test]
    fn the_solution_flips_the_two_it_should() {
        let lines = lines("filter-path/solution.yaml");
        assert!(
            lines[0].starts_with("- FLIPS nested: passed, now rejected"),
            "{lines:?}"
        );
        assert!(
            lines[1].starts_with("+ FLIPS flat: rejected, now passes"),
            "{lines:?}"
        );
        assert!(lines[2].starts_with("  same  cancelled"), "{lines:?}");
    }

    #[test]
    fn what_cannot_be_replayed_is_said() {
        let none = replay(&[], &[], "filter-path", &[], Timestamp::UNIX_EPOCH);
        assert!(none.unwrap_err().contains("no Sensor"));
        let catalog = Catalog::bundled().unwrap();
        let text = catalog.manifest("filter-path/sensor.yaml").unwrap();
        let sensor = Manifest::read("s", text).unwrap();
        let other = replay(&sensor, &[], "another", &[], Timestamp::UNIX_EPOCH);
        assert!(other.unwrap_err().contains("listens to event another"));
        let broken = Manifest::read(
            "s",
            &text.replace("eventName: filter-path", "eventName: ''"),
        )
        .unwrap();
        assert!(replay(&broken, &[], "filter-path", &[], Timestamp::UNIX_EPOCH).is_err());
    }
}
