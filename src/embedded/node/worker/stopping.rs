//! Ending a pod: termination, the kill after the grace period, and the last delete.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Preconditions};
use tokio::time::Instant;

use super::{Stopping, Why, Worker};
use crate::embedded::node::events::Kind;
use crate::embedded::node::pod_status::Failure;

/// First and longest pause between tries to remove the object.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

impl Worker {
    /// Asks everything to end, and kills it after `grace`; a second call may only shorten that.
    pub(super) fn stop(&mut self, why: Why, grace: Duration) {
        let kill_at = Instant::now() + grace;
        match &mut self.stopping {
            None => {
                for index in self.running() {
                    if why != Why::NodeEnds {
                        let message = format!("Stopping container {}", self.name(index));
                        self.container_event(index, Kind::Normal, "Killing", message);
                    }
                    // Without patience nothing of its shutdown code may run.
                    if !grace.is_zero() {
                        self.signal(index, false);
                    }
                }
                self.stopping = Some(Stopping {
                    why,
                    kill_at: Some(kill_at),
                });
            }
            Some(stopping) => {
                stopping.kill_at = stopping.kill_at.map(|known| known.min(kill_at));
                // A pod that is gone, or a node that ends, has nobody to tell.
                if matches!(why, Why::Gone | Why::NodeEnds) || stopping.why == Why::Deadline {
                    stopping.why = why;
                }
            }
        }
        if grace.is_zero() {
            self.on_time();
        }
    }

    /// Something that was waited for is due.
    pub(super) fn on_time(&mut self) {
        let now = Instant::now();
        if let Some(stopping) = &mut self.stopping {
            if stopping.kill_at.is_some_and(|at| at <= now) {
                stopping.kill_at = None;
                for index in self.running() {
                    self.signal(index, true);
                }
            }
            return;
        }
        if self.deadline().is_some_and(|at| at <= now) {
            let message =
                "Pod was active on the node longer than the specified deadline".to_owned();
            self.event("", Kind::Normal, "DeadlineExceeded", message.clone());
            self.failure = Some(Failure {
                reason: "DeadlineExceeded".to_owned(),
                message,
            });
            let seconds = self
                .pod
                .spec
                .as_ref()
                .and_then(|spec| spec.termination_grace_period_seconds)
                .unwrap_or(30);
            self.stop(
                Why::Deadline,
                Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
            );
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let seconds = self.pod.spec.as_ref()?.active_deadline_seconds?;
        self.started
            .checked_add(Duration::from_secs(u64::try_from(seconds).ok()?))
    }

    /// The last delete: the node says that nothing of the pod runs any more.
    pub(super) async fn remove_object(&self) {
        let parameters = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: Some(self.uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let metadata = &self.pod.metadata;
        let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
        let api = Api::<Pod>::namespaced(self.shared.client.clone(), namespace.unwrap_or_default());
        let mut pause = PAUSE.0;
        loop {
            match api.delete(name.unwrap_or_default(), &parameters).await {
                // 404 and 409: gone, or another pod has the name by now.
                Ok(_) => return,
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return,
                Err(error) => {
                    tracing::debug!(pod = name, %error, "pod not removed");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE.1);
                }
            }
        }
    }
}
