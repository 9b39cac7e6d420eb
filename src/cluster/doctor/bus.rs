//! The bus of the lab's namespace: can it be read, and what did earlier work leave on it.

use std::time::Duration;

use super::{Patient, Point};
use crate::cluster::NoBus;
use crate::embedded::bus::ConsumerInfo;

/// How long connecting may take.
const PATIENCE: Duration = Duration::from_secs(15);

pub(super) async fn points(patient: &Patient<'_>) -> Vec<Point> {
    let shows = format!("{} get eventbus default -o yaml", patient.kubectl_here());
    let started = tokio::time::Instant::now();
    let mut reason = "nothing answered".to_owned();
    while started.elapsed() < PATIENCE {
        match patient.cluster.try_bus() {
            Ok(bus) => {
                return vec![
                    Point::good("bus", "its client port answers", shows.clone()),
                    left_behind(bus.consumers().await),
                ];
            }
            Err(NoBus::ByLogAlone(why)) => {
                return vec![
                    Point::warn("bus", format!("it will not be read: {why}"), shows)
                        .mended_by("grant `get` on its Secret and `create` on pods/portforward, or leave it: logs decide, and say so"),
                ];
            }
            Err(NoBus::NotNow(why)) if why.contains("no EventBus") => {
                return vec![
                    Point::missing("bus", why, shows)
                        .mended_by(patient.eventlab("cluster prepare")),
                ];
            }
            Err(NoBus::NotNow(why)) => reason = why,
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    vec![
        Point::unknown(
            "bus",
            format!("not within {} s: {reason}", PATIENCE.as_secs()),
            shows,
        )
        .mended_by(format!(
            "{} get pods -l eventbus-name=default",
            patient.kubectl_here()
        )),
    ]
}

/// Consumers and buckets outlive Sensors: a Sensor made again under the same names would get everything at once.
fn left_behind(consumers: Result<Vec<ConsumerInfo>, crate::cluster::LookError>) -> Point {
    let shows = "nats consumer report default";
    let consumers = match consumers {
        Ok(consumers) => consumers,
        Err(error) => return Point::unknown("consumers", error.to_string(), shows),
    };
    let orphans: Vec<String> = consumers
        .iter()
        .filter(|one| one.num_waiting == 0)
        .map(|one| {
            format!(
                "{} on {} with {} pending",
                one.durable, one.filter_subject, one.num_pending
            )
        })
        .collect();
    match orphans.first() {
        None => Point::good("consumers", format!("{} of {} are pulled from", consumers.len(), consumers.len()), shows),
        Some(first) => Point::warn(
            "consumers",
            format!(
                "nobody pulls from {} of {} ({first}{}): a Sensor of the same names would get what is pending",
                orphans.len(),
                consumers.len(),
                if orphans.len() > 1 { ", …" } else { "" }
            ),
            shows,
        )
        .mended_by("nats consumer rm default NAME; the labs take new names at each attempt and are not harmed"),
    }
}
