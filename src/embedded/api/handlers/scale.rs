//! The scale subresource: `autoscaling/v1` Scale of a workload.

use k8s_openapi::api::autoscaling::v1::Scale;
use serde_json::{Value, json};

use super::update::{self, Part, Replaced, Stop, TRIES, writer};
use super::{Answer, Call, apply, body, create, preconditions, value_of};
use crate::embedded::api::go_struct::{self, Misfit};
use crate::embedded::api::managed;
use crate::embedded::api::object;
use crate::embedded::api::patch::{self, PatchType};
use crate::embedded::api::request::content_type;
use crate::embedded::api::status::{Cause, Failure, json_response};

const VERSION: &str = "autoscaling/v1";
const KIND: &str = "Scale";

/// Carries out a request for the scale of a workload.
pub(super) fn handle(call: &Call) -> Answer {
    if call.attributes.verb == "get" {
        let current = call.current()?;
        return Ok(shown(call, &value_of(&current)?));
    }
    let dry = call.dry_run()?;
    let change = Change::read(call)?;
    for _ in 0..TRIES {
        let current = call.current()?;
        let old = value_of(&current)?;
        let new = changed(call, &old, &change)?;
        match update::replaced(call, &current, &old, new, Part::Main, dry) {
            Err(Stop::Retry) => {}
            Err(Stop::Fail(failure)) => return Err(failure),
            Ok(Replaced::Stored(stored)) => return Ok(shown(call, &value_of(&stored)?)),
            Ok(Replaced::Unstored(value)) => return Ok(shown(call, &value)),
        }
    }
    Err(Failure::modified(call.kind, &call.attributes.name))
}

/// What a request makes of a Scale.
enum Change {
    Put(Box<Scale>),
    Patch(PatchType, Value),
}

impl Change {
    fn read(call: &Call) -> Result<Self, Failure> {
        if call.attributes.verb != "patch" {
            let scale = put(&body::parse(&call.headers, &call.body)?)?;
            check_place(call, &scale)?;
            return Ok(Change::Put(Box::new(scale)));
        }
        let kind = PatchType::parse(&content_type(&call.headers), false)?;
        let patch = update::parse(call, kind)?;
        if kind == PatchType::Apply {
            apply::check_manager(call)?;
            apply::check_type(VERSION, KIND, &patch)?;
            apply::check_owners(&patch)?;
        } else {
            update::check_unforced(call)?;
        }
        Ok(Change::Patch(kind, patch))
    }
}

/// The workload with its new number of replicas.
fn changed(call: &Call, old: &Value, change: &Change) -> Result<Value, Failure> {
    let (mut new, scale) = match change {
        Change::Put(scale) => {
            preconditions::check_uid(call, &said(&scale.metadata.uid), object::uid(old))?;
            (old.clone(), Scale::clone(scale))
        }
        Change::Patch(PatchType::Apply, patch) => {
            let scale = declared(call, patch)?;
            (applied(call, old, &scale)?, scale)
        }
        Change::Patch(kind, patch) => (old.clone(), patched(call, old, *kind, patch)?),
    };
    let count = match change {
        // Of what nobody applies any more, nothing is left.
        Change::Patch(PatchType::Apply, _) => replicas(&new),
        _ => i64::from(
            scale
                .spec
                .as_ref()
                .and_then(|spec| spec.replicas)
                .unwrap_or(0),
        ),
    };
    if count < 0 {
        let why = "must be greater than or equal to 0";
        let cause = Cause::invalid("spec.replicas", &Value::from(count), why);
        let name = &call.attributes.name;
        return Err(Failure::invalid_as("autoscaling", KIND, name, vec![cause]));
    }
    check(call, old, &scale)?;
    if let Some(spec) = object::child(&mut new, "spec") {
        spec.insert("replicas".to_owned(), Value::from(count));
    }
    Ok(new)
}

fn said(text: &Option<String>) -> String {
    text.clone().unwrap_or_default()
}

/// A Scale has the name of its URL, and no other namespace.
fn check_place(call: &Call, scale: &Scale) -> Result<(), Failure> {
    let namespace = said(&scale.metadata.namespace);
    if !namespace.is_empty() && namespace != call.namespace() {
        return Err(Failure::bad_request(create::OTHER_NAMESPACE));
    }
    preconditions::check_name(call, &said(&scale.metadata.name))
}

/// What a Scale says of the workload that it is meant for.
fn check(call: &Call, old: &Value, scale: &Scale) -> Result<(), Failure> {
    let (is, was) = (said(&scale.metadata.uid), object::uid(old));
    if !is.is_empty() && is != was {
        let why = preconditions::other_uid(&is, was);
        return Err(Failure::conflict_in(
            call.kind,
            "scale",
            &call.attributes.name,
            &why,
        ));
    }
    let version = preconditions::named_version(&said(&scale.metadata.resource_version))?;
    let current = preconditions::named_version(object::meta(old, "resourceVersion"))?;
    if version.is_some() && version != current {
        return Err(Failure::modified(call.kind, &call.attributes.name));
    }
    Ok(())
}

fn put(sent: &Value) -> Result<Scale, Failure> {
    let unhandled = |found: &str, why: &str| body::unhandled_as(found, "v1", KIND, why);
    let found = sent.get("kind").and_then(Value::as_str).unwrap_or("");
    if !matches!(found, "" | KIND) {
        let why = format!("converting (v1.{found}) to (autoscaling.Scale): unknown conversion");
        return Err(unhandled(found, &why));
    }
    go_struct::decode(sent).map_err(|why| unhandled(KIND, &why.text))
}

fn patched(call: &Call, old: &Value, kind: PatchType, patch: &Value) -> Result<Scale, Failure> {
    let shown = scale(call, old);
    let new = match kind {
        PatchType::Json => patch::json(shown, patch)?,
        PatchType::Strategic => patch::strategic_merge(shown, patch)?,
        PatchType::Merge | PatchType::Apply => patch::merge(shown, patch)?,
    };
    let scale = go_struct::decode(&new).map_err(|why| update::misfitting(kind, patch, &why))?;
    check_place(call, &scale)?;
    Ok(scale)
}

/// A Scale that is applied names only what a Scale has.
fn declared(call: &Call, patch: &Value) -> Result<Scale, Failure> {
    let read: Result<Scale, Misfit> = go_struct::decode(patch);
    let typed = match &read {
        Ok(scale) => serde_json::to_value(scale).map_err(|error| Misfit::told(error.to_string())),
        Err(why) => Err(why.clone()),
    };
    let named = format!("{VERSION}, Kind={KIND}");
    apply::check_typed(call.kind, &named, patch, typed)?;
    let mut scale = read.map_err(|why| Failure::bad_request(why.text))?;
    // It is merged into one that has a name.
    scale
        .metadata
        .name
        .get_or_insert_with(|| call.attributes.name.clone());
    check_place(call, &scale)?;
    Ok(scale)
}

/// What is applied to the Scale is applied to the one field of the workload that it stands for.
fn applied(call: &Call, old: &Value, scale: &Scale) -> Result<Value, Failure> {
    let mut configuration = json!({
        "apiVersion": call.kind.api_version(), "kind": call.kind.kind,
        "metadata": {"name": call.attributes.name},
    });
    if let Some(count) = scale.spec.as_ref().and_then(|spec| spec.replicas) {
        configuration["spec"] = json!({"replicas": count});
    }
    let force = call.query.flag("force");
    managed::apply(call.kind, Some(old), &configuration, writer(call), force)
}

fn replicas(workload: &Value) -> i64 {
    let count = workload.pointer("/spec/replicas");
    count.and_then(Value::as_i64).unwrap_or(0)
}

fn shown(call: &Call, workload: &Value) -> axum::response::Response {
    json_response(200, scale(call, workload).to_string())
}

fn scale(call: &Call, workload: &Value) -> Value {
    let labels = workload
        .pointer("/spec/selector/matchLabels")
        .and_then(Value::as_object);
    let selector: Vec<String> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("")))
        .collect();
    let mut spec = json!({});
    if replicas(workload) != 0 {
        spec["replicas"] = json!(replicas(workload));
    }
    let number = workload.pointer("/status/replicas").and_then(Value::as_i64);
    json!({
        "kind": KIND, "apiVersion": VERSION,
        "metadata": {
            "name": call.attributes.name, "namespace": call.namespace(), "uid": object::uid(workload),
            "resourceVersion": object::meta(workload, "resourceVersion"),
            "creationTimestamp": object::meta(workload, "creationTimestamp"),
        },
        "spec": spec,
        "status": {"replicas": number.unwrap_or(0), "selector": selector.join(",")},
    })
}
