//! Starting a pod: volumes, then its containers in order, and what keeps one from starting.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::{Input, SETUP_PAUSE, Worker};
use crate::embedded::node::events::Kind;
use crate::embedded::node::probe::{Probe, Target};
use crate::embedded::node::process::Exit;
use crate::embedded::node::slot::State;
use crate::embedded::node::starter::{self, StartFailure, Started};
use crate::embedded::node::volumes::Setup;

/// From `ErrImagePull` to `ImagePullBackOff` (the kubelet's 10 s, divided by twenty).
const IMAGE_BACK_OFF: Duration = Duration::from_millis(500);

impl Worker {
    /// Starts whatever can be started now.
    pub(super) async fn advance(&mut self) {
        if self.held || self.stopping.is_some() || self.refused || self.is_over() {
            return;
        }
        if !self.set_up && !self.set_up_volumes().await {
            return;
        }
        loop {
            let now = Instant::now();
            let due = |index: &usize| self.slots[*index].due().is_some_and(|at| at <= now);
            let Some(index) = self.startable().find(due) else {
                return;
            };
            self.start_container(index).await;
        }
    }

    /// Containers whose turn it is: the first init container that has not succeeded, else all ordinary ones.
    pub(super) fn startable(&self) -> Box<dyn Iterator<Item = usize> + '_> {
        match self
            .slots
            .iter()
            .position(|slot| slot.init && !slot.has_succeeded())
        {
            Some(index) => Box::new(std::iter::once(index)),
            None => Box::new((0..self.slots.len()).filter(|index| !self.slots[*index].init)),
        }
    }

    async fn set_up_volumes(&mut self) -> bool {
        if self.setup_due > Instant::now() {
            return false;
        }
        let setup = Setup {
            client: &self.shared.client,
            pod: &self.pod,
            placement: &self.context.placement,
            folder: &self.context.folder,
            claims: &self.shared.claims,
            tokens: &self.context.tokens,
            ca: &self.shared.ca,
        };
        match setup.run().await {
            Ok(folders) => {
                self.context.folders = folders;
                self.set_up = true;
            }
            Err(error) => {
                self.event("", Kind::Warning, "FailedMount", error.0);
                self.setup_due = Instant::now() + self.setup_pause;
                self.setup_pause = (self.setup_pause * 2).min(SETUP_PAUSE.1);
            }
        }
        self.set_up
    }

    async fn start_container(&mut self, index: usize) {
        let instance = self.slots[index].next_instance();
        let identity = self.identity(index, instance);
        let siblings = self
            .slots
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != index)
            .map(|(_, slot)| (slot.name().to_owned(), slot.exit.subscribe()))
            .collect();
        let container = self.slots[index].spec.clone();
        if let Err(failure) = starter::check_image(&self.context, &container) {
            return self.not_started(index, instance, failure);
        }
        let image = container.image.clone().unwrap_or_default();
        let pulled = format!("Container image {image:?} already present on machine");
        self.container_event(index, Kind::Normal, "Pulled", pulled);
        match starter::start(&self.context, &container, identity, siblings).await {
            Ok(started) => self.started(index, instance, started),
            Err(failure) => self.not_started(index, instance, failure),
        }
    }

    fn started(&mut self, index: usize, instance: u32, started: Started) {
        let name = self.name(index);
        self.container_event(
            index,
            Kind::Normal,
            "Created",
            format!("Created container: {name}"),
        );
        if !started.denied.is_empty() {
            let message = format!(
                "variables that a child process may not have: {}",
                started.denied.join(", ")
            );
            self.container_event(index, Kind::Warning, "VariablesDenied", message);
        }
        self.container_event(
            index,
            Kind::Normal,
            "Started",
            format!("Started container {name}"),
        );
        let mut exit = started.running.process.exit();
        let own = self.own.clone();
        tokio::spawn(async move {
            // A process that is dropped unseen ends like one that nobody saw.
            let ended = exit
                .wait_for(Option::is_some)
                .await
                .ok()
                .and_then(|exit| *exit);
            let exit = ended.unwrap_or(Exit::Unknown);
            let _ = own.send(Input::Exited {
                slot: index,
                instance,
                exit,
            });
        });
        let id = self.container_id(index, instance);
        let probed = self.start_probe(index, instance, started.running.process.exit());
        let slot = &mut self.slots[index];
        slot.begin(instance, id);
        slot.run(started.running, probed);
    }

    /// Starts the readiness probe of an instance, if it has one that can be carried out.
    fn start_probe(
        &self,
        index: usize,
        instance: u32,
        exit: watch::Receiver<Option<Exit>>,
    ) -> bool {
        let probe = match Probe::of(&self.slots[index].spec) {
            None => return false,
            Some(Ok(probe)) => probe,
            Some(Err(why)) => {
                let message = format!("Readiness probe not carried out: {why}");
                self.container_event(index, Kind::Warning, "Unhealthy", message);
                return false;
            }
        };
        let target = Target {
            book: self.shared.addresses.clone(),
            uid: self.uid.clone(),
        };
        let own = self.own.clone();
        tokio::spawn(probe.run(target, exit, move |ready, failure| {
            // A worker that has ended needs no probe.
            let _ = own.send(Input::Ready {
                slot: index,
                instance,
                ready,
                failure,
            });
        }));
        true
    }

    fn not_started(&mut self, index: usize, instance: u32, failure: StartFailure) {
        match failure {
            StartFailure::Image(message) => self.no_image(index, message),
            StartFailure::Config(message) => {
                self.container_event(index, Kind::Warning, "Failed", format!("Error: {message}"));
                let due = Some(Instant::now() + self.setup_pause);
                self.setup_pause = (self.setup_pause * 2).min(SETUP_PAUSE.1);
                self.wait(index, "CreateContainerConfigError", message, due);
            }
            StartFailure::Ended {
                code,
                reason,
                message,
            } => {
                if reason == "StartError" {
                    self.container_event(
                        index,
                        Kind::Warning,
                        "Failed",
                        format!("Error: {message}"),
                    );
                }
                let id = self.container_id(index, instance);
                let slot = &mut self.slots[index];
                slot.begin(instance, id);
                slot.end(Exit::Code(code), Some(reason), Some(message));
                self.restart_if_due(index);
            }
        }
    }

    /// `ErrImagePull` first, `ImagePullBackOff` after a while; it stays at that, since nothing is ever pulled.
    fn no_image(&mut self, index: usize, message: String) {
        let slot = &self.slots[index];
        let image = slot.spec.image.clone().unwrap_or_default();
        let tried =
            matches!(&slot.state, State::Waiting { reason, .. } if reason == "ErrImagePull");
        if tried {
            let back_off = format!("Back-off pulling image {image:?}");
            self.container_event(index, Kind::Normal, "BackOff", back_off.clone());
            self.container_event(index, Kind::Warning, "Failed", "Error: ImagePullBackOff");
            return self.wait(
                index,
                "ImagePullBackOff",
                format!("{back_off}: ErrImagePull: {message}"),
                None,
            );
        }
        self.container_event(
            index,
            Kind::Warning,
            "Failed",
            format!("Failed to pull image {image:?}: {message}"),
        );
        self.container_event(index, Kind::Warning, "Failed", "Error: ErrImagePull");
        self.wait(
            index,
            "ErrImagePull",
            message,
            Some(Instant::now() + IMAGE_BACK_OFF),
        );
    }

    fn wait(&mut self, index: usize, reason: &str, message: String, due: Option<Instant>) {
        self.shared
            .logs
            .set_waiting(&self.uid, &self.name(index), reason);
        self.slots[index].wait(reason, Some(message), due);
    }
}
