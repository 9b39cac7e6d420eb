//! A Sensor as the API and its controller take it.

use serde_json::Value;

use super::{WalkError, text_at};
use crate::embedded::api::create_refusal;
use crate::kinds;

/// A Sensor that the controller takes.
#[derive(Clone, Debug)]
pub struct Sensor {
    /// File of the manifest.
    pub file: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.namespace`, `default` where there is none.
    pub namespace: String,
    /// The EventBus that it reads.
    pub bus: String,
    /// The dependencies in listed order; of several with one name the last, as the others count nowhere.
    pub dependencies: Vec<Dependency>,
    /// Every name in listed order, which is what empty conditions are made of.
    pub(super) names: Vec<String>,
    pub(super) triggers: Vec<Value>,
}

/// A dependency of a Sensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Dependency {
    /// Its name.
    pub name: String,
    /// Name of the EventSource.
    pub source: String,
    /// Name of the event in it.
    pub event: String,
    pub(super) value: Value,
}

impl Sensor {
    /// Reads a Sensor of a manifest: first the API takes it, then the controller.
    ///
    /// # Errors
    /// [`WalkError::Input`] with what the API answers, and as [`Sensor::read`].
    pub fn of_manifest(
        file: &str,
        object: &Value,
        now: jiff::Timestamp,
    ) -> Result<Self, WalkError> {
        if let Some(refusal) = create_refusal(object) {
            let name = text_at(object, "/metadata/name");
            return Err(WalkError::Input(format!(
                "{file}: Sensor/{name}: the API refuses it: {refusal}; correct the manifest"
            )));
        }
        Self::read(file, object, now)
    }

    /// Reads a Sensor as the controller does.
    ///
    /// # Errors
    /// [`WalkError::Input`] with the condition and message that the controller leaves in the status.
    pub fn read(file: &str, object: &Value, now: jiff::Timestamp) -> Result<Self, WalkError> {
        use crate::sensor::validate::{Invalid, validate};
        let name = text_at(object, "/metadata/name");
        validate(object, &Value::Null, now).map_err(|invalid| {
            let why = match invalid {
                Invalid::Decode(error) => format!("the controller cannot decode it: {error}"),
                Invalid::Refused {
                    condition,
                    reason,
                    message,
                } => format!(
                    "the controller refuses it, condition {} is False, reason {reason}: {message}",
                    condition.as_str()
                ),
            };
            WalkError::Input(format!(
                "{file}: Sensor/{name}: {why}; until it is corrected, its old Deployment goes on with the old filters"
            ))
        })?;
        let items = |pointer| {
            let list = object.pointer(pointer).and_then(Value::as_array);
            list.cloned().unwrap_or_default()
        };
        let dependencies: Vec<Dependency> = items("/spec/dependencies")
            .into_iter()
            .map(Dependency::read)
            .collect();
        let namespace = text_at(object, "/metadata/namespace");
        Ok(Self {
            file: file.to_owned(),
            name,
            namespace: if namespace.is_empty() {
                "default".to_owned()
            } else {
                namespace
            },
            bus: kinds::event_bus_of(object).to_owned(),
            names: dependencies.iter().map(|one| one.name.clone()).collect(),
            dependencies: last_of_each_name(dependencies),
            triggers: items("/spec/triggers"),
        })
    }

    /// The dependencies by the event that they listen to, each event once.
    #[must_use]
    pub fn by_event(&self) -> Vec<Vec<&Dependency>> {
        let mut events: Vec<Vec<&Dependency>> = Vec::new();
        for dependency in &self.dependencies {
            let same = |known: &&mut Vec<&Dependency>| {
                known.first().is_some_and(|first| {
                    (&first.source, &first.event) == (&dependency.source, &dependency.event)
                })
            };
            match events.iter_mut().find(same) {
                Some(known) => known.push(dependency),
                None => events.push(vec![dependency]),
            }
        }
        events
    }

    /// Names that several dependencies have, each once.
    pub(super) fn repeated_names(&self) -> Vec<&str> {
        let count = |name: &str| self.names.iter().filter(|known| *known == name).count();
        let kept = self.dependencies.iter().map(|one| one.name.as_str());
        kept.filter(|name| count(name) > 1).collect()
    }
}

fn last_of_each_name(dependencies: Vec<Dependency>) -> Vec<Dependency> {
    let mut kept: Vec<Dependency> = Vec::new();
    for dependency in dependencies {
        kept.retain(|known| known.name != dependency.name);
        kept.push(dependency);
    }
    kept
}

impl Dependency {
    fn read(value: Value) -> Self {
        Self {
            name: text_at(&value, "/name"),
            source: text_at(&value, "/eventSourceName"),
            event: text_at(&value, "/eventName"),
            value,
        }
    }
}
