//! What the bus shows: messages and where they belong, consumers, and requests of which nothing was stored.

use super::settling::Collecting;
use super::task::Task;
use crate::cluster::BusView;
use crate::evidence::{Fact, Observation};
use crate::runner::facts::{self, Arrival, Place};

impl Task {
    /// A 200 means that the message is stored already: a read of the whole stream after it finds it, or proves that it
    /// is not there.
    pub(super) async fn answered(&mut self, fact: Fact) {
        let (trace, place) = (fact.trace.clone().unwrap_or_default(), place_of(&fact));
        let accepted = matches!(
            fact.observation,
            Observation::HttpAnswer { status: 200, .. }
        );
        self.write(vec![fact]);
        let complete = self.look_at_bus().await;
        let found = self
            .arrivals
            .values()
            .flatten()
            .any(|arrival| arrival.trace.as_deref() == Some(trace.as_str()));
        if accepted && complete && !found {
            self.write(vec![facts::not_stored(&place, &trace, self.read_sequence)]);
        }
    }

    fn bus(&self) -> Option<BusView> {
        self.cluster.bus().ok()
    }

    /// Reads new messages; true when the stream was read to its end.
    pub(super) async fn look_at_bus(&mut self) -> bool {
        let Some(bus) = self.bus() else { return false };
        let Ok(last) = bus.last_sequence().await else {
            return false;
        };
        let old = *self.old_sequence.get_or_insert(last);
        while self.read_sequence < last {
            let Ok(messages) = bus.messages(self.read_sequence).await else {
                return false;
            };
            let Some(end) = messages.last().map(|message| message.sequence) else {
                break;
            };
            self.read_sequence = end;
            let mut new = Vec::new();
            for message in messages
                .iter()
                .filter(|message| !message.arrival.is_empty())
            {
                let Some(place) =
                    self.place_of_message(message.trace.as_deref(), message.sequence > old)
                else {
                    self.arrivals.insert(message.arrival.clone(), None);
                    continue;
                };
                let arrival = Arrival {
                    id: message.arrival.clone(),
                    trace: message.trace.clone(),
                    sequence: Some(message.sequence),
                    place,
                };
                new.push(facts::stored(&arrival, message));
                self.arrivals.insert(message.arrival.clone(), Some(arrival));
            }
            self.write(new);
        }
        true
    }

    fn place_of_message(&self, trace: Option<&str>, new: bool) -> Option<Place> {
        let sent = trace.and_then(|trace| self.sent.get(trace));
        let own = || {
            self.focus.as_ref().filter(|_| new).map(|focus| Place {
                probe: None,
                ..focus.place.clone()
            })
        };
        sent.cloned().or_else(own)
    }

    pub(super) async fn look_at_consumers(&mut self) {
        let (Some(focus), Some(bus)) = (self.focus.clone(), self.bus()) else {
            return;
        };
        let Ok(consumers) = bus.consumers().await else {
            return;
        };
        let mut new = Vec::new();
        for info in consumers
            .into_iter()
            .filter(|info| facts::is_expected(info, &focus.subscriptions))
        {
            let known = self.consumers.get(&info.durable);
            if known != Some(&info) {
                new.push(facts::consumer(&focus.place, &info));
                self.consumers.insert(info.durable.clone(), info);
            }
        }
        self.write(new);
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

    /// A request of an earlier process that is not on the bus now will not come any more: nobody is left to send it.
    pub(super) async fn look_up_cut_off(&mut self) {
        let waited: Vec<String> = self
            .collecting
            .iter()
            .flat_map(Collecting::traces)
            .filter(|trace| self.cut_off.contains(*trace))
            .map(str::to_owned)
            .collect();
        if waited.is_empty() || !self.look_at_bus().await {
            return;
        }
        for trace in waited {
            self.cut_off.remove(&trace);
            let stored = self
                .arrivals
                .values()
                .flatten()
                .any(|arrival| arrival.trace.as_ref() == Some(&trace));
            if !stored && let Some(place) = self.sent.get(&trace).cloned() {
                self.write(vec![facts::not_stored(&place, &trace, self.read_sequence)]);
            }
        }
    }
}

fn place_of(fact: &Fact) -> Place {
    Place {
        lab: fact.lab.clone(),
        stage: fact.stage.clone(),
        attempt: fact.attempt,
        probe: fact.probe.clone(),
    }
}
