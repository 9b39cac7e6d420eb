//! Where an arrival belongs, and what waits until that is known.

use super::Task;
use crate::runner::facts::Arrival;

impl Task {
    /// What was seen while the bus could not be read.
    pub(super) async fn take_up_waiting(&mut self) {
        if self.waiting_lines.is_empty() && self.waiting_workflows.is_empty() {
            return;
        }
        for line in std::mem::take(&mut self.waiting_lines) {
            self.log_line(&line).await;
        }
        for (_, workflow) in std::mem::take(&mut self.waiting_workflows) {
            self.workflow(&workflow).await;
        }
    }

    /// Where the bus cannot be read at all, a trace of this session beside an arrival says where the arrival belongs.
    pub(super) async fn placed_by_trace(&mut self, arrival: &str, trace: Option<&str>) {
        let unknown = !arrival.is_empty()
            && arrival != "none"
            && self.cluster.by_log_alone().is_some()
            && !self.arrivals.contains_key(arrival);
        let place = trace.and_then(|trace| self.sent.get(trace)).cloned();
        let (true, Some(place)) = (unknown, place) else {
            return;
        };
        let known = Arrival {
            id: arrival.to_owned(),
            trace: trace.map(str::to_owned),
            sequence: None,
            place,
        };
        self.arrivals.insert(arrival.to_owned(), Some(known));
        Box::pin(self.take_up_waiting()).await;
    }

    /// Whether an arrival may still turn out to be one of this session.
    pub(super) fn may_be_placed(&self, arrival: &str) -> bool {
        !self.bus_read
            && !arrival.is_empty()
            && arrival != "none"
            && !self.arrivals.contains_key(arrival)
    }

    /// What is known of an arrival; reads the bus once when it is new. `None` for arrivals from before this session.
    pub(super) async fn arrival(&mut self, id: &str) -> Option<Arrival> {
        if id.is_empty() || id == "none" {
            return None;
        }
        if !self.arrivals.contains_key(id) {
            self.look_at_bus().await;
        }
        self.arrivals.get(id).cloned().flatten()
    }
}
