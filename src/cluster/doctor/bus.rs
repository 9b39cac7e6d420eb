//! The buses of the namespace: can each be read, and what did earlier work leave on it.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Api;
use kube::api::{DynamicObject, ListParams};

use super::{Patient, Point};
use crate::cluster::{Cluster, EVENT_BUS, NoBus};
use crate::embedded::bus::ConsumerInfo;
use crate::kinds;

/// How long connecting may take.
const PATIENCE: Duration = Duration::from_secs(15);

pub(super) async fn points(patient: &Patient<'_>) -> Vec<Point> {
    let mut points = Vec::new();
    for name in names(patient).await {
        let cluster = patient.cluster.with_event_bus(&name);
        let mut of_one = points_of(patient, &cluster).await;
        if name != EVENT_BUS {
            for point in &mut of_one {
                point.found = format!("EventBus {name}: {}", point.found);
            }
        }
        points.extend(of_one);
    }
    points
}

/// The EventBus of the labs, and those that an EventSource or a Sensor of the namespace names.
async fn names(patient: &Patient<'_>) -> Vec<String> {
    let mut named = BTreeSet::new();
    for kind in [kinds::event_source(), kinds::sensor()] {
        let client = patient.context.client.clone();
        let api: Api<DynamicObject> = Api::namespaced_with(client, patient.namespace(), &kind);
        // Who may not list them is told so by the points on rights.
        let Ok(list) = api.list(&ListParams::default()).await else {
            continue;
        };
        let name = |object: &DynamicObject| kinds::event_bus_of(&object.data).to_owned();
        named.extend(list.items.iter().map(name));
    }
    named.remove(EVENT_BUS);
    [EVENT_BUS.to_owned()].into_iter().chain(named).collect()
}

async fn points_of(patient: &Patient<'_>, cluster: &Cluster) -> Vec<Point> {
    let name = cluster.event_bus();
    let shows = format!("{} get eventbus {name} -o yaml", patient.kubectl_here());
    let started = tokio::time::Instant::now();
    let mut reason = "nothing answered".to_owned();
    while started.elapsed() < PATIENCE {
        match cluster.try_bus() {
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
                let mend = match name {
                    EVENT_BUS => patient.eventlab("cluster prepare"),
                    name => format!(
                        "make the EventBus {name}, or take `eventBusName` from what names it: {} get eventsources,sensors -o yaml",
                        patient.kubectl_here()
                    ),
                };
                return vec![Point::missing("bus", why, shows).mended_by(mend)];
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
            "{} get pods -l eventbus-name={name}",
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
