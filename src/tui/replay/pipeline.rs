//! The EventSource and the Sensors that would be live, and where they lead a request.

use jiff::Timestamp;

use crate::cluster::{Manifest, Request};
use crate::embedded::api::create_refusal;
use crate::embedded::services::eventsource::{self, Heard, Intake};
use crate::report::explain::{Dependency, Sensor};
use crate::runner::sending::{EVENT_SOURCE, WEBHOOK_PORT};

/// The EventSource that the labs send to, and the Sensors behind it.
pub struct Pipeline {
    source: Manifest,
    sensors: Vec<Sensor>,
}

/// Where a request goes.
pub(super) enum Way<'p> {
    /// By an event that takes it in so, to these dependencies of a Sensor.
    Judged(&'p Sensor, Vec<&'p Dependency>, Box<Intake>),
    /// To a server that has no event at its path, and answers so.
    Unrouted(u16, &'static str),
    /// To nobody, and why.
    Nobody(String),
}

impl Pipeline {
    /// What is live once `edited` is applied: the last object of each kind and name counts.
    ///
    /// # Errors
    /// A sentence: there is no Sensor or EventSource, or one would be refused.
    pub fn of(live: &[Manifest], edited: &[Manifest], now: Timestamp) -> Result<Self, String> {
        let mut objects: Vec<&Manifest> = Vec::new();
        for manifest in live.iter().chain(edited) {
            objects.retain(|known| known.title() != manifest.title());
            objects.push(manifest);
        }
        let is_kind = |manifest: &Manifest, kind: &str| manifest.object["kind"] == kind;
        let sensors = objects
            .iter()
            .filter(|manifest| is_kind(manifest, "Sensor"))
            .map(|manifest| Sensor::of_manifest(&manifest.file, &manifest.object, now))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| error.to_string())?;
        if sensors.is_empty() {
            return Err("there is no Sensor in it, so no probe is replayed".to_owned());
        }
        let source = objects
            .into_iter()
            .find(|one| {
                is_kind(one, "EventSource") && one.object["metadata"]["name"] == EVENT_SOURCE
            })
            .ok_or_else(|| {
                format!("there is no EventSource {EVENT_SOURCE}, so no probe is replayed")
            })?;
        taken(source)?;
        Ok(Self {
            source: source.clone(),
            sensors,
        })
    }

    /// Where a request leads.
    ///
    /// # Errors
    /// Why that is not known here.
    pub(super) fn way(&self, request: &Request) -> Result<Way<'_>, String> {
        if request.method != "POST" {
            return Err(format!(
                "only POST requests are replayed, and this is a {}",
                request.method
            ));
        }
        let heard = eventsource::hears(&self.source.object, WEBHOOK_PORT, &request.path)?;
        let (event, intake) = match heard {
            Heard::Event(event, intake) => (event, intake),
            Heard::Guarded => {
                return Err("the EventSource asks for a token, which is not read here".to_owned());
            }
            Heard::Unrouted(status, text) => return Ok(Way::Unrouted(status, text)),
            Heard::Nobody => {
                let why = format!("nothing listens behind port {WEBHOOK_PORT} of its Service");
                return Ok(Way::Nobody(why));
            }
        };
        let hears = |one: &&Dependency| one.source == EVENT_SOURCE && one.event == event;
        let listening = self.sensors.iter().find_map(|sensor| {
            let dependencies: Vec<&Dependency> = sensor.dependencies.iter().filter(hears).collect();
            (!dependencies.is_empty()).then_some((sensor, dependencies))
        });
        let Some((sensor, dependencies)) = listening else {
            let why = format!("no dependency of a Sensor listens to {EVENT_SOURCE}/{event}");
            return Ok(Way::Nobody(why));
        };
        Ok(Way::Judged(sensor, dependencies, intake))
    }
}

/// Fails with the words of whoever does not take the EventSource: API or controller.
fn taken(source: &Manifest) -> Result<(), String> {
    let (file, title) = (&source.file, source.title());
    if let Some(refusal) = create_refusal(&source.object) {
        return Err(format!(
            "{file}: {title}: the API refuses it: {refusal}; correct the manifest"
        ));
    }
    match eventsource::validate(EVENT_SOURCE, &source.object["spec"]) {
        Ok(()) => Ok(()),
        Err(why) if why.starts_with("eventlab: ") => {
            Err(format!("{title} is not judged here: {why}"))
        }
        Err(why) => Err(format!(
            "{file}: {title}: the controller refuses it: {why}; until it is corrected, its old Deployment goes on"
        )),
    }
}
