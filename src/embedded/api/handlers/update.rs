//! update and patch, of objects and of their status.

use std::sync::Arc;

use serde_json::Value;

use super::delete::finish;
use super::preconditions::{check_identity, check_uid, check_version, named_version};
use super::{Answer, Call, apply, create, value_of, write_failure};
use crate::embedded::api::admission;
use crate::embedded::api::body;
use crate::embedded::api::convert;
use crate::embedded::api::defaults;
use crate::embedded::api::go_json;
use crate::embedded::api::go_struct::Misfit;
use crate::embedded::api::go_text::quote;
use crate::embedded::api::managed::{self, Writer};
use crate::embedded::api::object;
use crate::embedded::api::patch::{self, PatchType};
use crate::embedded::api::registry::{Kind, Storage};
use crate::embedded::api::request::content_type;
use crate::embedded::api::status::{Cause, Failure};
use crate::embedded::api::store::{Place, Stored, WriteError};
use crate::embedded::api::validation;

/// Each failed try means that another write succeeded; so many in a row do not happen by chance.
pub(super) const TRIES: usize = 1000;

/// Which part of an object a request may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Main,
    Status,
    /// Spec alone, as the finalize subresource of a Namespace.
    Finalize,
}

impl Part {
    pub(super) fn of(call: &Call) -> Self {
        match call.attributes.subresource.as_str() {
            "status" => Part::Status,
            "finalize" => Part::Finalize,
            _ => Part::Main,
        }
    }
}

/// Replaces an object.
pub(super) fn put(call: &Call) -> Answer {
    let dry = call.dry_run()?;
    let mut value = call.object()?;
    check_identity(call, &value)?;
    create::place(call.kind, &mut value, call.namespace())?;
    let value = call.typed(value)?;
    let version = object::meta(&value, "resourceVersion").to_owned();
    for _ in 0..TRIES {
        let current = match call.current() {
            Err(failure) if failure.code() == 404 && is_made(call) => {
                match make(call, value.clone(), dry) {
                    // Somebody else has made it meanwhile.
                    Err(failure) if failure.code() == 409 && call.current().is_ok() => continue,
                    answer => return answer,
                }
            }
            other => other?,
        };
        let old = value_of(&current)?;
        check_uid(call, object::uid(&value), object::uid(&old))?;
        check_version(call, &version, &current)?;
        match replace(call, &current, &old, value.clone(), Part::of(call), dry) {
            Err(Stop::Retry) => {}
            Err(Stop::Fail(failure)) => return Err(failure),
            Ok(answer) => return Ok(answer),
        }
    }
    Err(Failure::modified(call.kind, &call.attributes.name))
}

/// True if an update of an object that is not there makes it.
fn is_made(call: &Call) -> bool {
    Part::of(call) == Part::Main && call.kind.made_by_update()
}

/// Makes the object of an update, for those who may create.
fn make(call: &Call, mut value: Value, dry: bool) -> Answer {
    create::check_may_create(call)?;
    check_uid(call, object::uid(&value), "")?;
    object::remove_meta(&mut value, "resourceVersion");
    create::create_typed(call, value, None, dry)
}

/// Why one try of a write ended without an answer.
pub(super) enum Stop {
    /// Somebody else wrote meanwhile.
    Retry,
    Fail(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Fail(failure)
    }
}

/// What an object has become.
pub(super) enum Replaced {
    Stored(Arc<Stored>),
    /// It is not stored: it was removed with its last finalizer, or this was a dry run.
    Unstored(Value),
}

/// Writes the new state of an object over `current`, under all rules of an update, and answers it.
fn replace(
    call: &Call,
    current: &Arc<Stored>,
    old: &Value,
    new: Value,
    part: Part,
    dry: bool,
) -> Result<axum::response::Response, Stop> {
    Ok(match replaced(call, current, old, new, part, dry)? {
        Replaced::Stored(stored) => call.answer(200, &stored),
        Replaced::Unstored(value) => call.answer_value(200, value),
    })
}

/// Writes the new state of an object over `current`, under all rules of an update.
pub(super) fn replaced(
    call: &Call,
    current: &Arc<Stored>,
    old: &Value,
    new: Value,
    part: Part,
    dry: bool,
) -> Result<Replaced, Stop> {
    let kind = call.kind;
    let name = call.attributes.name.as_str();
    let stored_kind = kind.stored_as();
    let mut new = settle(stored_kind, old, new, part);
    if !call.is_apply() {
        managed::track(stored_kind, old, &mut new, writer(call));
    }
    let store = call.api.store();
    let _allocating = admission::allocating(store, stored_kind);
    admission::admit_change(store, stored_kind, old, &mut new, dry)?;
    let mut causes = validation::check_metadata(kind, &new);
    causes.extend(validation::check_update(&new, old));
    causes.extend(validation::check_object(stored_kind, &new));
    causes.extend(validation::check_change(stored_kind, &new, old));
    if !causes.is_empty() {
        return Err(Failure::invalid(kind, name, causes).into());
    }
    if part == Part::Main {
        call.api
            .check_write(&call.user, &call.attributes, &new, Some(old))?;
    }
    object::set_meta(&mut new, "resourceVersion", current.rv.to_string());
    if finish::is_due(stored_kind, &new) {
        if !dry {
            finish::remove(call, current, new.clone())?;
        }
        return Ok(Replaced::Unstored(new));
    }
    if new == *old {
        return Ok(Replaced::Stored(Arc::clone(current)));
    }
    if dry {
        return Ok(Replaced::Unstored(new));
    }
    let bucket = call.bucket();
    let place = Place {
        bucket: &bucket,
        namespace: call.namespace(),
        name,
    };
    match call.api.store().put(place, Some(current.rv), new) {
        Ok(stored) => Ok(Replaced::Stored(stored)),
        Err(WriteError::Changed) => Err(Stop::Retry),
        Err(error) => Err(write_failure(kind, name, error).into()),
    }
}

/// Stores an object that the server itself has made out of `current`.
pub(super) fn store_as_is(
    call: &Call,
    current: &Arc<Stored>,
    mut new: Value,
    dry: bool,
) -> Result<(), Stop> {
    object::set_meta(&mut new, "resourceVersion", current.rv.to_string());
    if dry {
        return Ok(());
    }
    let bucket = call.bucket();
    let place = Place {
        bucket: &bucket,
        namespace: call.namespace(),
        name: &call.attributes.name,
    };
    match call.api.store().put(place, Some(current.rv), new) {
        Ok(_) => Ok(()),
        Err(WriteError::Changed) => Err(Stop::Retry),
        Err(error) => Err(write_failure(call.kind, &call.attributes.name, error).into()),
    }
}

/// Merges what a client may change with what it may not.
fn settle(kind: &Kind, old: &Value, mut new: Value, part: Part) -> Value {
    match part {
        Part::Main => {
            admission::keep_allocated(kind, old, &mut new);
            defaults::apply(kind, &mut new);
            if kind.status {
                object::set_field(&mut new, "status", old.get("status").cloned());
            }
        }
        Part::Status => new = status_of(kind, old, new),
        Part::Finalize => {
            let spec = new.get("spec").cloned();
            new = old.clone();
            object::set_field(&mut new, "spec", spec);
        }
    }
    system_metadata(old, &mut new);
    if kind.generation && (!same_spec(kind, old, &new) || is_annotated(kind, old, &new, part)) {
        let generation = old
            .pointer("/metadata/generation")
            .and_then(Value::as_u64)
            .unwrap_or(0);
        object::set_meta(&mut new, "generation", generation + 1);
    }
    new
}

/// Annotations of a Deployment count as its spec does, unless they come with its status.
fn is_annotated(kind: &Kind, old: &Value, new: &Value, part: Part) -> bool {
    let annotations = |object: &Value| object.pointer("/metadata/annotations").cloned();
    part == Part::Main && is_deployment(kind) && annotations(old) != annotations(new)
}

fn is_deployment(kind: &Kind) -> bool {
    (kind.group, kind.plural) == ("apps", "deployments")
}

/// The old object with the new status; built-in kinds also take labels, annotations and finalizers this way, but no
/// labels of a Deployment.
fn status_of(kind: &Kind, old: &Value, new: Value) -> Value {
    let mut result = old.clone();
    object::set_field(&mut result, "status", new.get("status").cloned());
    if let Some(class) = old.pointer("/status/qosClass")
        && let Some(status) = object::child(&mut result, "status")
    {
        object::default_field(status, "qosClass", class.clone());
    }
    if let Some(owners) = new.pointer("/metadata/managedFields") {
        object::set_meta(&mut result, "managedFields", owners.clone());
    }
    if !kind.custom {
        let labels = Some("labels").filter(|_| !is_deployment(kind));
        for key in ["annotations", "finalizers"].into_iter().chain(labels) {
            match new.pointer(&format!("/metadata/{key}")) {
                Some(value) => object::set_meta(&mut result, key, value.clone()),
                None => object::remove_meta(&mut result, key),
            }
        }
    }
    result
}

/// Fields of `metadata` that belong to the server.
fn system_metadata(old: &Value, new: &mut Value) {
    object::remove_meta(new, "selfLink");
    for key in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
    ] {
        let was = old.pointer(&format!("/metadata/{key}"));
        let given = new
            .pointer(&format!("/metadata/{key}"))
            .is_some_and(|value| !value.is_null());
        match was {
            // A wrong one of these is told, not mended.
            Some(_) if given && !matches!(key, "generation" | "creationTimestamp") => {}
            None if given && key.starts_with("deletion") => {}
            Some(value) => object::set_meta(new, key, value.clone()),
            None => object::remove_meta(new, key),
        }
    }
}

/// True if nothing but metadata (and a status with a subresource of its own) differs.
fn same_spec(kind: &Kind, old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
        return true;
    };
    let counts = |key: &str| key != "metadata" && !(key == "status" && kind.status);
    let same = |(key, value): (&String, &Value)| !counts(key) || old.get(key) == Some(value);
    new.iter().all(same)
        && old
            .keys()
            .filter(|key| counts(key))
            .all(|key| new.contains_key(key))
}

/// Patches an object.
pub(super) fn patch(call: &Call) -> Answer {
    let dry = call.dry_run()?;
    let kind = PatchType::parse(&content_type(&call.headers), call.kind.custom)?;
    let patch = parse(call, kind)?;
    if kind == PatchType::Apply {
        call.check_applied()?;
        apply::check(call, &patch)?;
    } else {
        check_unforced(call)?;
    }
    for _ in 0..TRIES {
        let current = match call.current() {
            Err(failure)
                if kind == PatchType::Apply
                    && failure.code() == 404
                    && Part::of(call) == Part::Main =>
            {
                return apply::apply_new(call, patch, dry);
            }
            other => other?,
        };
        let old = value_of(&current)?;
        let new = patched(call, kind, &current, &old, &patch)?;
        match replace(call, &current, &old, new, Part::of(call), dry) {
            Err(Stop::Retry) => {}
            Err(Stop::Fail(failure)) => return Err(failure),
            Ok(answer) => return Ok(answer),
        }
    }
    Err(Failure::modified(call.kind, &call.attributes.name))
}

/// Only an apply can be forced.
pub(super) fn check_unforced(call: &Call) -> Result<(), Failure> {
    if call.query.get("force").is_none() {
        return Ok(());
    }
    let cause = Cause::forbidden("force", "may not be specified for non-apply patch");
    Err(bad_option(cause))
}

/// The patch, as the body of the request has it.
pub(super) fn parse(call: &Call, kind: PatchType) -> Result<Value, Failure> {
    let frame = match kind {
        PatchType::Apply => "error decoding YAML: error converting YAML to JSON: ",
        PatchType::Json | PatchType::Merge => "error decoding patch: ",
        PatchType::Strategic => "",
    };
    let ends_early = || {
        let read: Result<serde::de::IgnoredAny, _> = serde_json::from_slice(&call.body);
        kind != PatchType::Apply && read.is_err_and(|error| error.is_eof())
    };
    let refused = |why: &str| Failure::bad_request(format!("{frame}{why}"));
    let parsed =
        body::parse(&call.headers, &call.body).map_err(|failure| match failure.code() {
            400 if ends_early() => refused("unexpected end of JSON input"),
            400 => refused("the body of the request is not JSON"),
            _ => failure,
        })?;
    if call.body.is_empty() && kind != PatchType::Apply {
        return Err(refused("unexpected end of JSON input"));
    }
    Ok(parsed)
}

/// The whole new object, in storage shape.
fn patched(
    call: &Call,
    kind: PatchType,
    current: &Stored,
    old: &Value,
    patch: &Value,
) -> Result<Value, Failure> {
    let shown = match call.kind.storage {
        Storage::Shared(_) => convert::from_storage(old.clone()),
        Storage::Own | Storage::Virtual => old.clone(),
    };
    let new = match kind {
        PatchType::Merge => patch::merge(shown, patch)?,
        PatchType::Json => patch::json(shown, patch)?,
        PatchType::Strategic => {
            let mut new = patch::strategic_merge(shown.clone(), patch)?;
            // It is a typed object that is merged into.
            for key in ["apiVersion", "kind"] {
                object::set_field(&mut new, key, shown.get(key).cloned());
            }
            new
        }
        PatchType::Apply => {
            apply::check_declared(call, patch)?;
            let force = call.query.flag("force");
            managed::apply(call.kind, Some(&shown), patch, writer(call), force)?
        }
    };
    let refused = |why: Misfit| misfitting(kind, patch, &why);
    if matches!(new.get("metadata"), Some(it) if !it.is_object() && !it.is_null()) {
        body::typed(call.kind, &new).map_err(refused)?;
    }
    check_kind(call.kind, &new)?;
    let mut new = body::object(call.kind, new)?;
    check_identity(call, &new)?;
    create::place(call.kind, &mut new, call.namespace())?;
    let typed = body::normalize(call.kind, new).map_err(refused)?;
    if let Some(why) = call.strict(call.findings_of_patch(&typed.unknown))? {
        return Err(bad_patch(&why));
    }
    let new = typed.value;
    let version = named_version(object::meta(&new, "resourceVersion"))?;
    if version.is_some_and(|version| version != current.rv) {
        return Err(Failure::modified(call.kind, &call.attributes.name));
    }
    Ok(new)
}

/// What a patch has made does not fit its type.
pub(super) fn misfitting(kind: PatchType, patch: &Value, why: &Misfit) -> Failure {
    if kind == PatchType::Strategic {
        let shown = Value::from(go_json::plain(patch));
        return bad_patch(&format!("{shown}: {}", why.converted));
    }
    bad_patch(&why.text)
}

fn bad_patch(why: &str) -> Failure {
    let cause = Cause {
        reason: "FieldValueInvalid",
        field: "patch".to_owned(),
        message: format!("Invalid value: {why}"),
    };
    Failure::invalid_as("", "", "", vec![cause])
}

/// A custom object says of what kind and version it is, also after a patch.
fn check_custom_kind(kind: &Kind, new: &Value, found: &str, version: &str) -> Result<(), Failure> {
    let expected = kind.api_version();
    if found.is_empty() {
        let shown = object::sorted(new.clone()).to_string();
        let why = body::without_kind(&shown);
        return Err(bad_patch(&format!("{}: {why}", quote(&shown))));
    }
    if version.is_empty() {
        let why = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
        return Err(Failure::internal(why));
    }
    if version != expected {
        let why = format!("must be {expected}");
        let cause = Cause::invalid("apiVersion", &Value::from(version), &why);
        return Err(Failure::invalid_as(
            "",
            kind.kind,
            object::name(new),
            vec![cause],
        ));
    }
    Ok(())
}

/// A patch may not make another kind of an object.
fn check_kind(kind: &Kind, new: &Value) -> Result<(), Failure> {
    let text = |key: &str| new.get(key).and_then(Value::as_str).unwrap_or("");
    let (found, version) = (text("kind"), text("apiVersion"));
    let differs = |is: &str, expected: &str| !is.is_empty() && is != expected;
    let other = differs(found, kind.kind) || differs(version, &kind.api_version());
    if kind.custom {
        return check_custom_kind(kind, new, found, version);
    }
    if !other {
        return Ok(());
    }
    Err(bad_patch(&format!(
        "no kind {} is registered for version {}",
        quote(found),
        quote(version)
    )))
}

pub(super) fn bad_option(cause: Cause) -> Failure {
    Failure::invalid_as("meta.k8s.io", "PatchOptions", "", vec![cause])
}

/// Who writes, as `managedFields` has it.
pub(super) fn writer(call: &Call) -> Writer<'_> {
    Writer {
        manager: call.manager(),
        subresource: &call.attributes.subresource,
    }
}
