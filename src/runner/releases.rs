//! The texts of Argo Events' logs, release by release, and whether what is seen is of any of them.
//!
//! Source of each row: `sensors/listener.go`, `eventsources/eventing.go` and `eventbus/jetstream/sensor` at the tags
//! v1.6.3, v1.7.6, v1.8.1, v1.9.0 and v1.9.11.

use std::time::Duration;

use crate::cluster::Cluster;

/// What one release writes.
#[derive(Debug, PartialEq, Eq)]
pub struct Release {
    /// The minor release, such as `1.9`.
    pub name: &'static str,
    /// Begins the line of a trigger that was done.
    pub done: &'static str,
    /// The line of a trigger that failed.
    pub failed: &'static str,
    /// The level of a clean mismatch: at any higher level it is not written.
    pub mismatch: &'static str,
    /// Part of the line of a lost connection to the bus.
    pub lost: &'static str,
    /// Whether a subscription is told with its consumer: earlier buses had none.
    pub consumers: bool,
}

/// From the newest to the oldest that is known.
pub const RELEASES: [Release; 4] = [
    Release {
        name: "1.9",
        done: "Successfully processed trigger",
        failed: "Failed to execute a trigger",
        mismatch: "debug",
        lost: "EventBus connection lost",
        consumers: true,
    },
    Release {
        name: "1.8",
        done: "Successfully processed trigger",
        failed: "Failed to execute a trigger",
        mismatch: "warn",
        lost: "EventBus connection lost",
        consumers: true,
    },
    Release {
        name: "1.7",
        done: "Successfully processed trigger",
        failed: "Failed to execute a trigger",
        mismatch: "warn",
        lost: "NATS connection lost",
        consumers: true,
    },
    Release {
        name: "1.6",
        done: "successfully processed the trigger",
        failed: "failed to execute a trigger",
        mismatch: "warn",
        lost: "NATS connection lost",
        consumers: false,
    },
];

/// How long after its answer a webhook is given to publish the event: up to v1.9.5 it answers first
/// (`eventsources/sources/webhook/start.go`; from v1.9.6 on `eventsources/common/webhook/webhook.go` waits).
const LATE_PUBLISH: Duration = Duration::from_secs(5);

/// So long after a 200 nothing is said of a message that is not on the bus.
#[must_use]
pub fn published_within(cluster: &Cluster) -> Duration {
    // Whose release is not known there.
    if cluster.is_shared() {
        LATE_PUBLISH
    } else {
        Duration::ZERO
    }
}

/// Lines that every release writes on the way up; one of them tells that the log is one of Argo Events at all.
const LANDMARKS: [&str; 6] = [
    "starting sensor server",
    "starting eventsource server",
    "Sensor started.",
    "Eventing server started.",
    "the LEADER",
    "Subscribing to subject ",
];

/// The releases that are known, for people.
#[must_use]
pub fn known() -> String {
    let names: Vec<&str> = RELEASES.iter().rev().map(|release| release.name).collect();
    names.join(", ")
}

/// The row of a version such as `v1.9.11`.
#[must_use]
pub fn of_version(version: &str) -> Option<&'static Release> {
    let version = version.trim_start_matches('v');
    RELEASES.iter().find(|release| {
        version
            .strip_prefix(release.name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '+', '-']))
    })
}

/// Whether a message is one that any known release writes on the way up.
#[must_use]
pub fn is_landmark(message: &str) -> bool {
    LANDMARKS.iter().any(|mark| message.contains(mark))
}

/// How many lines are seen before a log without any known one is taken for one of another release.
pub const ENOUGH_LINES: u64 = 12;

/// What to say of a log of which no line is known.
#[must_use]
pub fn unknown(lines: u64) -> String {
    format!(
        "none of its {lines} lines is one that Argo Events {} write: eventlab cannot read this log",
        known()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_the_row_of_its_minor_release() {
        for (version, name) in [
            ("v1.9.11", Some("1.9")),
            ("1.9.0+abc1234.dirty", Some("1.9")),
            ("v1.7.6", Some("1.7")),
            ("v1.90.0", None),
            ("v1.10.0", None),
            ("latest+unknown", None),
            ("", None),
        ] {
            assert_eq!(of_version(version).map(|row| row.name), name, "{version}");
        }
        assert_eq!(known(), "1.6, 1.7, 1.8, 1.9");
    }
}
