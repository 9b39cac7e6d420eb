//! The bus: messages that are this session's, consumers and how far they have come, and requests that never arrived.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::{Focus, Task, place_of};
use crate::cluster::BusView;
use crate::embedded::bus::ConsumerInfo;
use crate::evidence::{Fact, Observation};
use crate::runner::facts::{self, Arrival, Place};
use crate::runner::releases;

impl Task {
    /// A 200 means that the message is stored already, or soon is (see [`releases::published_within`]): a read of the whole
    /// stream after that finds it, or proves that it is not there. Where the bus cannot be read now, a later read does.
    pub(super) async fn answered(&mut self, fact: Fact) {
        let (trace, place) = (fact.trace.clone(), place_of(&fact));
        let accepted = matches!(
            fact.observation,
            Observation::HttpAnswer { status: 200, .. }
        );
        self.write(vec![fact]);
        if let Some(trace) = trace.filter(|_| accepted) {
            self.accepted.insert(trace, (place, Instant::now()));
        }
        self.look_at_bus().await;
    }

    /// Writes down which of the accepted requests are not on the bus, after it was read to its end; the read began at `begun`.
    fn note_absent(&mut self, begun: Instant) {
        let wait = releases::published_within(&self.cluster);
        let is_due = |(_, since): &(Place, Instant)| *since + wait <= begun;
        let (due, later): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.accepted)
            .into_iter()
            .partition(|(_, accepted)| is_due(accepted));
        self.accepted = later;
        for (trace, (place, _)) in due {
            let before = self.sent_behind.get(&trace).copied().unwrap_or_default();
            if self.position.proves_absence_behind(before) && !self.is_stored(&trace) {
                self.write(vec![facts::not_stored(&place, &trace, self.position.read)]);
            }
        }
    }

    fn is_stored(&self, trace: &str) -> bool {
        let mut known = self.arrivals.values().flatten();
        known.any(|arrival| arrival.trace.as_deref() == Some(trace))
    }

    pub(super) fn bus(&self) -> BusView {
        self.cluster.bus()
    }

    /// Reads new messages; true when the stream was read to its end.
    pub(super) async fn look_at_bus(&mut self) -> bool {
        let begun = Instant::now();
        self.bus_read = self.read_bus().await;
        if self.bus_read {
            self.note_absent(begun);
        }
        self.bus_read
    }

    pub(super) async fn read_bus(&mut self) -> bool {
        let bus = self.bus();
        let Ok(last) = bus.last_sequence().await else {
            return false;
        };
        if self.position.is_of_another(last) {
            // The one that is gone may have had them.
            self.accepted.clear();
            self.sent_behind.clear();
        }
        let old = self.position.begin(last);
        while self.position.read < last {
            let Ok(messages) = bus.messages(self.position.read).await else {
                return false;
            };
            if messages.is_empty() {
                self.position.vanished_before(last);
                return false;
            }
            for message in &messages {
                self.position.reach(message.sequence);
            }
            let mut new = Vec::new();
            for message in messages
                .iter()
                .filter(|message| !message.arrival.is_empty())
            {
                if matches!(self.arrivals.get(&message.arrival), Some(Some(_))) {
                    continue;
                }
                let Some(place) =
                    self.place_of_message(message.trace.as_deref(), message.sequence > old)
                else {
                    self.arrivals.insert(message.arrival.clone(), None);
                    if let Some(trace) = &message.trace {
                        self.unplaced.insert(trace.clone(), message.sequence);
                    }
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

    /// Notes that a request is sent. Its message may have been read already, as somebody else's: then it is read again.
    pub(super) fn sends(&mut self, trace: String, place: Place) {
        if let Some(sequence) = self.unplaced.remove(&trace) {
            self.position.go_back_before(sequence);
        }
        self.sent_behind.insert(trace.clone(), self.position.read);
        self.sent.insert(trace, place);
    }

    pub(super) fn place_of_message(&self, trace: Option<&str>, new: bool) -> Option<Place> {
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
        let Some(focus) = self.focus.clone() else {
            return;
        };
        let bus = self.bus();
        let Ok(consumers) = bus.consumers().await else {
            return;
        };
        let mut new = self.unheard(&focus, &consumers);
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

    /// Stored messages that are waited for and that no consumer has the subject of.
    ///
    /// Consumers are read after the bus, so that each was there, or not, after the message was stored. A consumer of an
    /// earlier Sensor that nobody pulls from hears nothing.
    pub(super) fn unheard(&self, focus: &Focus, consumers: &[ConsumerInfo]) -> Vec<Fact> {
        let hears = |info: &ConsumerInfo, subject: &str| {
            let subject_fits = info.filter_subject == subject
                || info.filter_subject.is_empty()
                || info.filter_subject.contains(['*', '>']);
            subject_fits && (info.num_waiting > 0 || facts::is_expected(info, &focus.subscriptions))
        };
        let waited = |fact: &&Fact| {
            let trace = fact.known_trace();
            let mut probes = self.collecting.iter().flat_map(|one| &one.probes);
            probes.any(|probe| Some(probe.trace.as_str()) == trace)
        };
        let mut theirs: Vec<&str> = consumers
            .iter()
            .filter(|info| info.num_waiting > 0)
            .map(|info| info.filter_subject.as_str())
            .collect();
        theirs.sort_unstable();
        theirs.dedup();
        // Somebody between two pulls would be taken for nobody: the Sensor's own consumers must be there and wait.
        let settled = !focus.subscriptions.is_empty()
            && focus.subscriptions.iter().all(|wanted| {
                consumers
                    .iter()
                    .any(|info| info.durable == wanted.durable && info.num_waiting > 0)
            });
        if !settled {
            return Vec::new();
        }
        let of_message = |fact: &Fact| match &fact.observation {
            Observation::Stored { subject }
                if !focus
                    .subscriptions
                    .iter()
                    .any(|wanted| wanted.subject == *subject)
                    && !consumers.iter().any(|info| hears(info, subject)) =>
            {
                Some(facts::no_consumer(fact, subject, &theirs))
            }
            _ => None,
        };
        self.facts
            .iter()
            .filter(waited)
            .filter_map(of_message)
            .collect()
    }

    /// A request of an earlier process that is not on the bus now will not come any more: nobody is left to send it.
    pub(super) async fn look_up_cut_off(&mut self) {
        let waited: Vec<String> = self
            .collecting
            .iter()
            .flat_map(|collecting| &collecting.probes)
            .map(|probe| probe.trace.clone())
            .filter(|trace| self.cut_off.contains(trace))
            .collect();
        if waited.is_empty() || !self.look_at_bus().await || !self.position.proves_absence_behind(0)
        {
            return;
        }
        for trace in waited {
            self.cut_off.remove(&trace);
            if !self.is_stored(&trace)
                && let Some(place) = self.sent.get(&trace).cloned()
            {
                self.write(vec![facts::not_stored(&place, &trace, self.position.read)]);
            }
        }
    }
}
