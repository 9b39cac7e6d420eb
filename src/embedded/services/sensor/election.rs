//! Who of a Sensor's pods is active: the one whose heartbeats the others hear on the bus.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::time::Instant;

use super::super::backoff::random_share;
use super::super::bus_link::dial;
use super::super::environment::{BusSettings, StartError};
use super::super::log::Logger;
use super::heartbeat::Heartbeat;
use crate::embedded::bus::{Bus, BusConnector, BusError};

/// Pod annotation that scales the gap between Ready and subscribed.
pub const GAP_ANNOTATION: &str = "eventlab.dev/election-seconds";
/// Gap without the annotation.
const DEFAULT_GAP: f64 = 0.2;
/// Longest gap that the annotation can ask for.
const MAX_GAP: f64 = 60.0;
/// Time between the heartbeats of the active pod.
const HEARTBEAT: Duration = Duration::from_millis(100);
/// Time between two tries to reach the bus again.
const RECONNECT: Duration = Duration::from_secs(1);

/// How long a pod waits before it thinks that there is no active one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Gap {
    /// This many seconds, and a little by chance.
    Seconds(f64),
    /// As upstream: half a second to a second, by chance.
    Upstream,
}

impl Gap {
    /// Reads the annotation; what is no number means the default.
    pub(super) fn read(annotation: Option<&str>) -> Gap {
        match annotation.map(str::trim) {
            Some("upstream") => Gap::Upstream,
            other => {
                let seconds = other
                    .and_then(|text| text.parse::<f64>().ok())
                    .filter(|seconds| *seconds >= 0.0);
                Gap::Seconds(seconds.unwrap_or(DEFAULT_GAP).min(MAX_GAP))
            }
        }
    }

    fn first(self) -> Duration {
        match self {
            Gap::Seconds(seconds) => {
                Duration::from_secs_f64(seconds * (1.0 + 0.1 * random_share()))
            }
            Gap::Upstream => Gap::silence(),
        }
    }

    /// The silence after which a pod that heard another one takes over.
    fn silence() -> Duration {
        Duration::from_secs_f64(0.5 + 0.5 * random_share())
    }
}

/// One pod's part in the election.
pub(super) struct Elector<'a> {
    pub connector: &'a BusConnector,
    pub settings: &'a BusSettings,
    pub log: &'a Logger,
    /// What the subjects of this election begin with.
    pub group: String,
    pub node: String,
    pub gap: Gap,
}

/// The active pod's term.
#[derive(Clone, Copy, Debug)]
pub(super) struct Term(u64);

type Heard = BoxStream<'static, Vec<u8>>;

impl Elector<'_> {
    /// Waits until this pod is the active one.
    pub(super) async fn stand(&self) -> Result<Term, StartError> {
        let (mut bus, mut heard) = self
            .connect()
            .await
            .map_err(|error| StartError(format!("failed to new Nats Rpc: {error}")))?;
        self.log.info("Not the LEADER, stand by ...", &[]);
        let mut term = 0;
        let mut until = Instant::now() + self.gap.first();
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(until) => break,
                next = heard.next() => match next {
                    Some(payload) => {
                        let Some(heartbeat) = self.of_another(&payload) else { continue };
                        term = term.max(heartbeat.term);
                        let wait = if heartbeat.resigned { self.gap.first() } else { Gap::silence() };
                        until = Instant::now() + wait;
                    }
                    None => {
                        (bus, heard) = self.reconnect().await;
                        until = Instant::now() + Gap::silence();
                    }
                },
            }
        }
        self.log.info("Becoming a Candidate, stand by ...", &[]);
        let term = Term(term.saturating_add(1));
        // As one of one it needs no answers; others on the bus learn of the new term.
        let votes = format!("{}.vote_request", self.group);
        let _ = bus.signal(&votes, self.heartbeat(term, false)).await;
        self.say(&*bus, term, false).await;
        self.log.info("I'm the LEADER, starting ...", &[]);
        Ok(term)
    }

    /// Keeps saying that this pod is active; ends only when another one has taken over.
    pub(super) async fn lead(&self, term: Term) {
        loop {
            let (bus, mut heard) = self.reconnect().await;
            let mut beat = tokio::time::interval(HEARTBEAT);
            beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _ = beat.tick() => self.say(&*bus, term, false).await,
                    next = heard.next() => match next {
                        Some(payload) if self.overruled(term, &payload) => {
                            self.log.info("Becoming a Follower, stand by ...", &[]);
                            return;
                        }
                        Some(_) => {}
                        None => break,
                    },
                }
            }
        }
    }

    /// Says that this pod ends.
    pub(super) async fn resign(&self, term: Term) {
        let connection = self
            .connector
            .0
            .connect(&self.settings.url, &self.settings.access);
        if let Ok(bus) = connection.await {
            // The others find out by themselves if this is lost.
            let _ = bus
                .signal(&self.heartbeats(), self.heartbeat(term, true))
                .await;
        }
    }

    fn heartbeats(&self) -> String {
        format!("{}.heartbeat", self.group)
    }

    fn overruled(&self, term: Term, payload: &[u8]) -> bool {
        self.of_another(payload).is_some_and(|heartbeat| {
            !heartbeat.resigned && (heartbeat.term, &heartbeat.node) > (term.0, &self.node)
        })
    }

    fn of_another(&self, payload: &[u8]) -> Option<Heartbeat> {
        Heartbeat::read(payload).filter(|heartbeat| heartbeat.node != self.node)
    }

    fn heartbeat(&self, Term(term): Term, resigned: bool) -> Vec<u8> {
        let heartbeat = Heartbeat {
            term,
            node: self.node.clone(),
            resigned,
        };
        heartbeat.write()
    }

    async fn say(&self, bus: &dyn Bus, term: Term, resigned: bool) {
        // A lost connection shows in the stream of what is heard.
        let _ = bus
            .signal(&self.heartbeats(), self.heartbeat(term, resigned))
            .await;
    }

    async fn connect(&self) -> Result<(Arc<dyn Bus>, Heard), BusError> {
        let bus = dial(self.connector, self.settings).await?;
        let heard = bus.listen(&self.heartbeats()).await?;
        Ok((bus, heard))
    }

    /// The elector never gives up on the bus.
    async fn reconnect(&self) -> (Arc<dyn Bus>, Heard) {
        loop {
            match self.connect().await {
                Ok(connected) => return connected,
                Err(_) => tokio::time::sleep(RECONNECT).await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotation_is_seconds_or_upstream() {
        assert_eq!(Gap::read(None), Gap::Seconds(0.2));
        assert_eq!(Gap::read(Some("1.5")), Gap::Seconds(1.5));
        assert_eq!(Gap::read(Some("upstream")), Gap::Upstream);
        for odd in ["", "-1", "NaN", "soon"] {
            assert_eq!(Gap::read(Some(odd)), Gap::Seconds(0.2), "{odd}");
        }
        assert_eq!(Gap::read(Some("inf")), Gap::Seconds(60.0));
    }
}
