//! Sensor: validated, then run by a Deployment. An invalid one says so, and **its Deployment stays as it was**.
//!
//! A deleted Sensor leaves its consumers and its bucket on the bus alone.

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::json;

use super::Shared;
use super::conditions::{Conditions, is_ready};
use super::workload::{Failure, Workload};
use crate::embedded::controllers::runtime::objects::Labels;
use crate::embedded::controllers::runtime::{Next, ObjectKey, Reconcile, Result};
use crate::kinds;
use crate::sensor::validate::{Condition, Invalid, validate};

const FINALIZER: &str = "sensor-controller";
const DEPENDENCIES: &str = "DependenciesProvided";
const TRIGGERS: &str = "TriggersProvided";
const DEPLOYED: &str = "Deployed";

pub(super) struct SensorController(pub(super) Arc<Shared>);

/// Whether there is something to say about a Sensor.
enum Installed {
    Judged,
    /// It cannot even be read as a Sensor; the real controller says nothing then.
    Unreadable,
}

impl Reconcile for SensorController {
    type Key = ObjectKey;

    fn name(&self) -> &'static str {
        "sensor"
    }

    async fn reconcile(&self, key: ObjectKey) -> Result<Next> {
        let (shared, kind) = (&self.0, kinds::sensor());
        let Some(object) = shared.sensors.cache.get(&key) else {
            return Ok(Next::Done);
        };
        let deleting = object.metadata.deletion_timestamp.is_some();
        let object = shared
            .set_finalizer(&kind, &shared.sensors, &object, FINALIZER, !deleting)
            .await?;
        if deleting {
            return Ok(Next::Done);
        }
        let mut conditions = Conditions::start(
            object.data.get("status"),
            &[DEPENDENCIES, TRIGGERS, DEPLOYED],
        );
        let outcome = self.install(&object, &mut conditions).await;
        if let Ok(Installed::Unreadable) = outcome {
            return Ok(Next::Done);
        }
        let status = json!({"conditions": conditions.finish()});
        shared
            .write_status(&kind, &shared.sensors, &object, status)
            .await?;
        outcome.map(|_| Next::Done)
    }
}

impl SensorController {
    async fn install(
        &self,
        object: &DynamicObject,
        conditions: &mut Conditions,
    ) -> Result<Installed> {
        let Some(bus) = self.0.bus_of(object) else {
            conditions.mark_false(DEPLOYED, "EventBusNotFound", "EventBus not found.");
            return Ok(Installed::Judged);
        };
        match check(object, &bus, conditions) {
            Some(true) => {}
            Some(false) => return Ok(Installed::Judged),
            None => return Ok(Installed::Unreadable),
        }
        if !is_ready(bus.data.get("status")) {
            conditions.mark_false(DEPLOYED, "EventBusNotReady", "EventBus not ready.");
            return Ok(Installed::Judged);
        }
        let workload = Workload {
            kind: &kinds::sensor(),
            owner: object,
            role: "sensor",
            object_variable: "SENSOR_OBJECT",
            labels: labels(object),
            bus_config: &bus.data["status"]["config"],
        };
        match self.0.deploy(&workload).await {
            Ok(()) => conditions.mark_true(DEPLOYED),
            Err(Failure(reason, message, error)) => {
                conditions.mark_false(DEPLOYED, reason, message);
                return Err(error);
            }
        }
        Ok(Installed::Judged)
    }
}

fn labels(object: &DynamicObject) -> Labels {
    let name = object.name_any();
    Labels::from([
        ("controller".to_owned(), FINALIZER.to_owned()),
        ("sensor-name".to_owned(), name.clone()),
        ("owner-name".to_owned(), name),
    ])
}

/// Marks what the Sensor's spec provides; `None` if the object cannot even be read as a Sensor.
fn check(object: &DynamicObject, bus: &DynamicObject, conditions: &mut Conditions) -> Option<bool> {
    let whole = |object: &DynamicObject| serde_json::to_value(object).unwrap_or_default();
    match validate(&whole(object), &whole(bus), Timestamp::now()) {
        Ok(()) => {
            conditions.mark_true(DEPENDENCIES);
            conditions.mark_true(TRIGGERS);
            Some(true)
        }
        Err(Invalid::Refused {
            condition,
            reason,
            message,
        }) => {
            if condition == Condition::TriggersProvided {
                conditions.mark_true(DEPENDENCIES);
            }
            conditions.mark_false(condition.as_str(), reason, &message);
            Some(false)
        }
        Err(Invalid::Decode(error)) => {
            tracing::error!(target: "controllers", "sensor {} is left alone: {error}", ObjectKey::of(object));
            None
        }
    }
}
