//! Waits for the gate, and says what it waits for.

use std::time::Duration;

use jiff::Timestamp;

use super::{Asked, Worker};
use crate::lab::GateMode;
use crate::runner::facts::{self, Place};
use crate::runner::{gate, looking};
use crate::session::Message;
use crate::session::message::{GateReport, StepError};

/// Since when the same thing keeps the gate shut that will not change by itself.
#[derive(Default)]
struct Stuck(Option<(StepError, tokio::time::Instant)>);

impl Stuck {
    /// The error, once it was there at every look for so long.
    fn stayed(&mut self, hopeless: Option<StepError>, patience: Duration) -> Option<StepError> {
        let Some(error) = hopeless else {
            self.0 = None;
            return None;
        };
        let now = tokio::time::Instant::now();
        let since = match &self.0 {
            Some((before, since)) if before.reason == error.reason => *since,
            _ => now,
        };
        self.0 = Some((error.clone(), since));
        (now.duration_since(since) >= patience).then_some(error)
    }
}

impl Worker {
    pub(super) async fn open_gate(
        &self,
        asked: &Asked,
        mode: GateMode,
        must_fail: Option<&str>,
        place: &Place,
    ) {
        let started = tokio::time::Instant::now();
        let mut last = GateReport::default();
        let mut stuck = Stuck::default();
        loop {
            let (mut report, hopeless) = self.gate_report(mode).await;
            gate::carry_since(&mut report, &last, Timestamp::now());
            let stayed = stuck.stayed(hopeless, self.patience.stuck);
            let late = self
                .gate_patience()
                .is_some_and(|limit| started.elapsed() > limit);
            let awaited =
                |error: &StepError| !error.environment && Some(error.reason.as_str()) == must_fail;
            if report.failed.as_ref().is_some_and(awaited) && !gate::takes_requests(&report) {
                report.failed = None;
            }
            if !report.open && report.failed.is_none() {
                report.failed = stayed.or_else(|| late.then(|| gate_timeout(&report)));
            }
            let ended = report.open || report.failed.is_some();
            if report.failed.is_some() {
                let failing = report.conditions.iter().filter(|one| !one.holds);
                let seen = failing.map(|one| facts::gate(place, one)).collect();
                self.observer.note(seen).await;
            }
            if report != last {
                self.answer(asked, Message::Gate(report.clone()));
                last = report;
            }
            if ended {
                return;
            }
            tokio::time::sleep(self.cluster.look_interval()).await;
        }
    }

    /// Where images are pulled and nodes are busy, a pod may take minutes; what keeps it from starting ends the wait before.
    fn gate_patience(&self) -> Option<Duration> {
        let times = if self.cluster.is_shared() { 5 } else { 1 };
        self.patience.gate.map(|limit| limit * times)
    }

    /// The gate as it stands, and what of it will not change by itself.
    async fn gate_report(&self, mode: GateMode) -> (GateReport, Option<StepError>) {
        let (mut report, stuck) = match looking::look(&self.cluster, &self.observer, mode).await {
            Ok(input) => (gate::evaluate(&input), gate::stuck(&input)),
            Err(error) => (gate::could_not_look(&error.to_string()), None),
        };
        for one in &mut report.conditions {
            one.command = self.cluster.shown(&one.command);
        }
        (report, stuck)
    }
}

fn gate_timeout(report: &GateReport) -> StepError {
    let waiting: Vec<_> = report
        .conditions
        .iter()
        .filter(|condition| !condition.holds)
        .map(|condition| format!("{}: {}", condition.name, condition.detail))
        .collect();
    StepError {
        reason: "gate-timeout".to_owned(),
        text: format!(
            "the gate did not open in time; still waiting for {}",
            waiting.join("; ")
        ),
        environment: true,
    }
}
