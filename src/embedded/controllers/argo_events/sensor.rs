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
use crate::embedded::services::sensor::unsupported;
use crate::kinds;
use crate::sensor;
use crate::sensor::validate::{Condition, Invalid};

const FINALIZER: &str = "sensor-controller";
const DEPENDENCIES: &str = "DependenciesProvided";
const TRIGGERS: &str = "TriggersProvided";
const DEPLOYED: &str = "Deployed";

pub(super) struct SensorController(pub(super) Arc<Shared>);

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
        let status = json!({
            "conditions": conditions.finish(),
            "observedGeneration": object.metadata.generation,
        });
        shared
            .write_status(&kind, &shared.sensors, &object, status)
            .await?;
        outcome.map(|()| Next::Done)
    }
}

impl SensorController {
    async fn install(&self, object: &DynamicObject, conditions: &mut Conditions) -> Result<()> {
        let Some(bus) = self.0.bus_of(object) else {
            conditions.mark_false(DEPLOYED, "EventBusNotFound", "EventBus not found.");
            return Ok(());
        };
        if !validate(object, &bus, conditions) {
            return Ok(());
        }
        if !is_ready(bus.data.get("status")) {
            conditions.mark_false(DEPLOYED, "EventBusNotReady", "EventBus not ready.");
            return Ok(());
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
        Ok(())
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

/// Marks dependencies and triggers, in this order; the first that is invalid leaves the rest unknown.
///
/// A Sensor that cannot be decoded leaves its status as it was, as upstream does. One that asks for something this
/// program does not have is refused here, so that no event is ever judged by half a filter.
fn validate(object: &DynamicObject, bus: &DynamicObject, conditions: &mut Conditions) -> bool {
    let value = |object: &DynamicObject| serde_json::to_value(object).unwrap_or_default();
    let sensor = value(object);
    match sensor::validate::validate(&sensor, &value(bus), Timestamp::now()) {
        Ok(()) => {}
        Err(Invalid::Decode(error)) => {
            tracing::error!(sensor = object.name_any(), %error, "a Sensor cannot be decoded");
            return false;
        }
        Err(Invalid::Refused {
            condition,
            reason,
            message,
        }) => {
            refuse(conditions, condition, reason, &message);
            return false;
        }
    }
    if let Some((condition, message)) = unsupported(&sensor) {
        refuse(conditions, condition, "Unsupported", &message);
        return false;
    }
    conditions.mark_true(DEPENDENCIES);
    conditions.mark_true(TRIGGERS);
    true
}

fn refuse(conditions: &mut Conditions, condition: Condition, reason: &str, message: &str) {
    if condition == Condition::TriggersProvided {
        conditions.mark_true(DEPENDENCIES);
    }
    conditions.mark_false(condition.as_str(), reason, message);
}
