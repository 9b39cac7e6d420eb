//! Pods that served before the node ended and do not serve again yet.
//!
//! When this machine starts again, all of its pods start at once, where a cluster of several nodes keeps its Services up.
//! A run that begins before the Service that it calls is back would fail for a reason that has nothing to do with it; so
//! pods that run once wait here, for a short time.

use std::collections::HashSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long pods that run once wait for those that served.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Who is waited for.
pub(super) struct Returning {
    state: watch::Sender<State>,
    patience: Duration,
}

enum State {
    /// The pods are not listed yet.
    Unknown,
    /// Uids, until a moment.
    Waiting(HashSet<String>, Instant),
    Over,
}

impl Returning {
    pub fn new(patience: Duration) -> Returning {
        Returning {
            state: watch::Sender::new(State::Unknown),
            patience,
        }
    }

    /// Takes the first list of this life of the node: what was ready in the one before is waited for.
    pub fn expect<'a>(&self, pods: impl Iterator<Item = &'a Pod>) {
        self.state.send_if_modified(|state| {
            if !matches!(state, State::Unknown) {
                return false;
            }
            let uids: HashSet<String> = pods
                .filter(|pod| served(pod))
                .filter_map(|pod| pod.metadata.uid.clone())
                .collect();
            *state = if uids.is_empty() {
                State::Over
            } else {
                State::Waiting(uids, Instant::now() + self.patience)
            };
            true
        });
    }

    /// This pod serves again, or never will.
    pub fn settle(&self, uid: &str) {
        self.state.send_if_modified(|state| {
            let State::Waiting(uids, _) = state else {
                return false;
            };
            let known = uids.remove(uid);
            if uids.is_empty() {
                *state = State::Over;
            }
            known
        });
    }

    /// Returns when nobody is waited for any more, or after the patience.
    pub async fn over(&self) {
        let mut changes = self.state.subscribe();
        loop {
            let until = match &*changes.borrow_and_update() {
                State::Over => return,
                State::Waiting(_, until) => Some(*until),
                State::Unknown => None,
            };
            let changed = match until {
                Some(until) => tokio::time::timeout_at(until, changes.changed()).await,
                None => Ok(changes.changed().await),
            };
            if changed.is_err() {
                self.state.send_replace(State::Over);
                return;
            }
        }
    }
}

/// Whether this pod was ready and goes on for ever.
fn served(pod: &Pod) -> bool {
    let policy = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.restart_policy.as_deref());
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let is_ready = |condition: &k8s_openapi::api::core::v1::PodCondition| {
        condition.type_ == "Ready" && condition.status == "True"
    };
    matches!(policy, None | Some("Always"))
        && pod.metadata.deletion_timestamp.is_none()
        && conditions.into_iter().any(is_ready)
}
