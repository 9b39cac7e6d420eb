//! Waits of the real controllers, scaled down for a lab. What a manifest states in seconds is never scaled.

use std::time::Duration;

/// How long the controllers wait where the real ones have a built-in delay.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Before a finished pod is deleted by `podGC` without `deleteDelayDuration` (upstream: 5 s).
    pub pod_gc_delay: Duration,
    /// Before the end of a pod that is being deleted is judged by its containers. Upstream looks every 10 s
    /// and so nearly always finds the pod gone: `pod deleted`.
    pub deleted_pod_grace: Duration,
    /// Before a pod whose containers were told to end is deleted (upstream kills after 30 s).
    pub termination_grace: Duration,
    /// How many Workflows are worked on at a time (upstream: 32).
    pub workflow_workers: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pod_gc_delay: Duration::from_secs(1),
            deleted_pod_grace: Duration::from_millis(300),
            termination_grace: Duration::from_secs(5),
            workflow_workers: 8,
        }
    }
}
