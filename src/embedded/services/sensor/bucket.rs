//! The Sensor's bucket on the bus: what its dependencies, triggers and half-met conditions were.
//!
//! It outlives the Sensor. At every start it is compared with the present spec, and what changed is purged.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::super::log::{Logger, fnv1a};
use super::cloud_event;
use super::spec::Sensor;
use crate::embedded::bus::{Bus, BusError, Delivery};
use crate::sensor::Event;

/// Key of the trigger names.
const TRIGGERS: &str = "Triggers";
/// Key of the dependency hashes.
const DEPENDENCIES: &str = "Deps";
/// The stream of Argo Events.
pub(super) const STREAM: &str = "default";

/// The durable consumer of one trigger and dependency.
pub(super) fn durable_name(sensor: &str, trigger: &str, dependency: &str) -> String {
    let key = format!("{sensor}-{trigger}-{dependency}");
    format!("group-{}", fnv1a(key.as_bytes()))
}

/// A dependency's event that waits for the rest of its trigger's conditions.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Waiting {
    pub stream_seq: u64,
    pub consumer_seq: u64,
    pub timestamp: jiff::Timestamp,
    /// The CloudEvent as it came.
    pub event: Box<RawValue>,
}

impl Waiting {
    /// The event as the filters saw it: a transform has made its data anew.
    pub(super) fn of(delivery: &Delivery, event: &Event) -> Option<Waiting> {
        let event = serde_json::from_slice(&cloud_event::encode(event)).ok()?;
        Some(Waiting {
            stream_seq: delivery.message.sequence,
            consumer_seq: delivery.consumer_sequence(),
            timestamp: delivery.message.time,
            event,
        })
    }
}

/// The bucket of one Sensor.
pub(super) struct Bucket {
    bus: Arc<dyn Bus>,
    name: String,
}

impl Bucket {
    pub(super) fn new(bus: Arc<dyn Bus>, sensor: &str) -> Bucket {
        Bucket {
            bus,
            name: sensor.to_owned(),
        }
    }

    /// Purges what changed since the last start, and stores the present spec.
    pub(super) async fn update(&self, sensor: &Sensor, log: &Logger) -> Result<(), BusError> {
        let name = &self.name;
        let stored: BTreeMap<String, u64> = self.read(DEPENDENCIES, log).await?.unwrap_or_default();
        let triggers: Vec<String> = self.read(TRIGGERS, log).await?.unwrap_or_default();
        if !triggers.is_empty() {
            log.info(
                &format!("found existing K/V store for sensor {name}, using that"),
                &[],
            );
        }
        log.info(
            &format!("successfully created/located K/V store for sensor {name}"),
            &[],
        );
        log.info(
            &format!("Comparing previous Spec stored in k/v store for sensor {name} to new Spec"),
            &[],
        );
        let dependencies = Changes::of_dependencies(&stored, sensor);
        dependencies.report(
            "Comparison of previous dependencies definitions to current",
            log,
        );
        let triggers = self.changes_of_triggers(&triggers, sensor, log).await?;
        triggers.report("Comparison of previous trigger list to current", log);
        for trigger in &triggers.valid {
            for dependency in dependencies.changed.iter().chain(&dependencies.removed) {
                self.purge(trigger, dependency, log).await?;
            }
        }
        for trigger in triggers.changed.iter().chain(&triggers.removed) {
            self.purge_all(trigger, log).await?;
        }
        self.store(sensor, &triggers.removed, log).await
    }

    async fn changes_of_triggers(
        &self,
        stored: &[String],
        sensor: &Sensor,
        log: &Logger,
    ) -> Result<Changes, BusError> {
        let mut changes = Changes::default();
        for name in stored {
            let Some(trigger) = sensor.triggers.iter().find(|trigger| trigger.name == *name) else {
                changes.removed.push(name.clone());
                continue;
            };
            if self.expression(name, log).await? == trigger.conditions {
                changes.valid.push(name.clone());
            } else {
                changes.changed.push(name.clone());
            }
        }
        Ok(changes)
    }

    /// The stored condition of a trigger; empty where the field was left out.
    async fn expression(&self, trigger: &str, log: &Logger) -> Result<String, BusError> {
        let key = expression_key(trigger);
        let value = self.bus.bucket_get(&self.name, &key).await?;
        let text = String::from_utf8_lossy(&value.unwrap_or_default()).into_owned();
        log.debug(&format!("Value of key {key}: {text}"), &[]);
        Ok(text)
    }

    /// Forgets one dependency of one trigger: its half-met condition and its place in the stream.
    async fn purge(&self, trigger: &str, dependency: &str, log: &Logger) -> Result<(), BusError> {
        let key = dependency_key(trigger, dependency);
        let durable = durable_name(&self.name, trigger, dependency);
        log.debug(
            &format!("purging dependency, including 1) key {key} from the K/V store, and 2) durable consumer {durable}"),
            &[],
        );
        self.bus.bucket_delete(&self.name, &key).await?;
        self.bus.delete_consumer(STREAM, &durable).await
    }

    /// Purges the dependencies that the stored condition names; none if it was left out.
    async fn purge_all(&self, trigger: &str, log: &Logger) -> Result<(), BusError> {
        log.debug(
            &format!("purging all dependencies for trigger {trigger}"),
            &[],
        );
        let expression = self.expression(trigger, log).await?;
        let names = expression
            .split(['&', '|', '(', ')', ' '])
            .filter(|name| !name.is_empty());
        for dependency in names {
            self.purge(trigger, dependency, log).await?;
        }
        Ok(())
    }

    async fn store(
        &self,
        sensor: &Sensor,
        removed: &[String],
        log: &Logger,
    ) -> Result<(), BusError> {
        for trigger in removed {
            self.bus
                .bucket_delete(&self.name, &expression_key(trigger))
                .await?;
        }
        let hashes: BTreeMap<_, _> = sensor
            .dependencies
            .iter()
            .map(|dependency| (dependency.name.as_str(), dependency.hash))
            .collect();
        self.write(DEPENDENCIES, &hashes, log).await?;
        let names: Vec<_> = sensor
            .triggers
            .iter()
            .map(|trigger| trigger.name.as_str())
            .collect();
        self.write(TRIGGERS, &names, log).await?;
        for trigger in &sensor.triggers {
            let conditions = trigger.conditions.clone().into_bytes();
            self.bus
                .bucket_put(&self.name, &expression_key(&trigger.name), conditions)
                .await?;
        }
        Ok(())
    }

    /// What waits for the rest of a trigger's conditions.
    pub(super) async fn waiting(
        &self,
        trigger: &str,
        dependency: &str,
    ) -> Result<Option<Waiting>, BusError> {
        let key = dependency_key(trigger, dependency);
        let value = self.bus.bucket_get(&self.name, &key).await?;
        value
            .map(|value| serde_json::from_slice(&value).map_err(|error| unreadable(&key, &error)))
            .transpose()
    }

    pub(super) async fn keep(
        &self,
        trigger: &str,
        dependency: &str,
        waiting: &Waiting,
    ) -> Result<(), BusError> {
        let key = dependency_key(trigger, dependency);
        let value = serde_json::to_vec(waiting).map_err(|error| unreadable(&key, &error))?;
        self.bus.bucket_put(&self.name, &key, value).await
    }

    pub(super) async fn clear(&self, trigger: &str, dependency: &str) -> Result<(), BusError> {
        self.bus
            .bucket_delete(&self.name, &dependency_key(trigger, dependency))
            .await
    }

    async fn read<T: serde::de::DeserializeOwned>(
        &self,
        key: &str,
        log: &Logger,
    ) -> Result<Option<T>, BusError> {
        let Some(value) = self.bus.bucket_get(&self.name, key).await? else {
            return Ok(None);
        };
        log.debug(
            &format!("Value of key {key}: {}", String::from_utf8_lossy(&value)),
            &[],
        );
        serde_json::from_slice(&value)
            .map(Some)
            .map_err(|error| unreadable(key, &error))
    }

    async fn write<T: Serialize + Sync>(
        &self,
        key: &str,
        value: &T,
        log: &Logger,
    ) -> Result<(), BusError> {
        let bytes = serde_json::to_vec(value).map_err(|error| unreadable(key, &error))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        self.bus.bucket_put(&self.name, key, bytes).await?;
        log.debug(&format!("successfully stored {text} under key {key}"), &[]);
        Ok(())
    }
}

fn dependency_key(trigger: &str, dependency: &str) -> String {
    format!("{trigger}/{dependency}")
}

fn expression_key(trigger: &str) -> String {
    format!("{trigger}/Expression")
}

fn unreadable(key: &str, error: &serde_json::Error) -> BusError {
    BusError::Refused(format!(
        "error unmarshalling the value of key {key}: {error}"
    ))
}

/// What became of the names that were stored.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    changed: Vec<String>,
    removed: Vec<String>,
    valid: Vec<String>,
}

impl Changes {
    fn of_dependencies(stored: &BTreeMap<String, u64>, sensor: &Sensor) -> Changes {
        let mut changes = Changes::default();
        for (name, hash) in stored {
            match sensor.dependency(name) {
                None => changes.removed.push(name.clone()),
                Some(dependency) if dependency.hash == *hash => changes.valid.push(name.clone()),
                Some(_) => changes.changed.push(name.clone()),
            }
        }
        changes
    }

    fn report(&self, what: &str, log: &Logger) {
        let [changed, removed, valid] =
            [&self.changed, &self.removed, &self.valid].map(|names| names.join(" "));
        log.info(
            &format!("{what}: changed=[{changed}], removed=[{removed}], still valid=[{valid}]"),
            &[],
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumer_is_named_by_the_hash_of_its_owner() {
        assert_eq!(
            durable_name("orders", "start", "order"),
            format!("group-{}", fnv1a(b"orders-start-order"))
        );
    }
}
