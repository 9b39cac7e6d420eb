//! Patches: JSON merge (RFC 7386), JSON patch (RFC 6902) and strategic merge.

use json_patch::{PatchErrorKind, PatchOperation};
use serde_json::Value;

use super::body::MAX_DEPTH;
use super::go_json;
use super::object;
use super::status::Failure;

mod strategic;

pub use strategic::merge as strategic_merge;

/// Operations in one JSON patch, as kube-apiserver limits them.
const MAX_OPERATIONS: usize = 10_000;
/// Bytes that `copy` operations of one patch may add up to.
const MAX_COPIED: usize = 3 << 20;
/// List elements that a patch may have to move about.
const MAX_MOVED: usize = 20_000_000;

/// The patch formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchType {
    /// By media type; custom kinds take no strategic merge patch.
    ///
    /// # Errors
    /// 415 with the formats that the kind takes.
    pub fn parse(media_type: &str, custom: bool) -> Result<Self, Failure> {
        match media_type {
            "application/json-patch+json" => Ok(PatchType::Json),
            "application/merge-patch+json" => Ok(PatchType::Merge),
            "application/apply-patch+yaml" => Ok(PatchType::Apply),
            "application/strategic-merge-patch+json" if !custom => Ok(PatchType::Strategic),
            _ if custom => Err(Failure::unsupported_media_type(&[
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/apply-patch+yaml",
            ])),
            _ => {
                let text = "415: Unsupported Media Type";
                let details = Some(serde_json::Map::new());
                Err(Failure::status(415, "UnsupportedMediaType", text, details))
            }
        }
    }
}

/// Applies a merge patch.
///
/// # Errors
/// 400 if the patch is no object.
pub fn merge(mut object: Value, patch: &Value) -> Result<Value, Failure> {
    if patch.is_null() {
        return Err(Failure::bad_request("Invalid JSON Patch"));
    }
    if !patch.is_object() {
        return Err(Failure::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_json::word(patch)
        )));
    }
    json_patch::merge(&mut object, patch);
    Ok(object)
}

/// Applies a JSON patch.
///
/// # Errors
/// 400 for something else than a list, 413 for too many operations, 422 where an operation does not apply.
pub fn json(mut object: Value, patch: &Value) -> Result<Value, Failure> {
    if patch.is_null() {
        return Ok(object);
    }
    let Some(list) = patch.as_array() else {
        return Err(Failure::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
            go_json::word(patch)
        )));
    };
    if list.len() > MAX_OPERATIONS {
        return Err(Failure::too_large(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            list.len()
        )));
    }
    if let Some(other) = list.iter().find(|item| !item.is_object()) {
        return Err(Failure::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type handlers.jsonPatchOp",
            go_json::word(other)
        )));
    }
    let mut budget = Budget {
        copied: 0,
        moved: 0,
    };
    for item in list {
        step(&mut object, item, &mut budget)?;
    }
    Ok(object)
}

struct Budget {
    copied: usize,
    moved: usize,
}

impl Budget {
    fn spend(&mut self, object: &Value, operation: &PatchOperation) -> Result<(), Failure> {
        let elements = |path: &str| {
            let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
            object
                .pointer(parent)
                .and_then(Value::as_array)
                .map_or(0, Vec::len)
        };
        if puts_too_deep(object, operation) {
            return Err(Failure::too_large(
                "the JSON patch makes an object that is nested too deeply",
            ));
        }
        match operation {
            PatchOperation::Add(op) => self.moved += elements(op.path.as_str()),
            PatchOperation::Remove(op) => self.moved += elements(op.path.as_str()),
            PatchOperation::Move(op) => {
                self.moved += elements(op.path.as_str()) + elements(op.from.as_str())
            }
            PatchOperation::Copy(op) => {
                self.moved += elements(op.path.as_str());
                self.copied += object
                    .pointer(op.from.as_str())
                    .map_or(0, |value| value.to_string().len());
            }
            PatchOperation::Replace(_) | PatchOperation::Test(_) => {}
        }
        if self.copied > MAX_COPIED || self.moved > MAX_MOVED {
            return Err(Failure::too_large(
                "the JSON patch copies or moves too much; send the whole object instead",
            ));
        }
        Ok(())
    }
}

/// Copies of a value into itself double its depth, and whoever reads it later does so on one stack. What an object may not
/// be in the end is said then; here it has twice the room.
fn puts_too_deep(object: &Value, operation: &PatchOperation) -> bool {
    let (path, value) = match operation {
        PatchOperation::Add(op) => (op.path.as_str(), Some(&op.value)),
        PatchOperation::Replace(op) => (op.path.as_str(), Some(&op.value)),
        PatchOperation::Move(op) => (op.path.as_str(), object.pointer(op.from.as_str())),
        PatchOperation::Copy(op) => (op.path.as_str(), object.pointer(op.from.as_str())),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return false,
    };
    let above = path.matches('/').count();
    let room = (2 * MAX_DEPTH).checked_sub(above);
    value.is_some_and(|value| room.is_none_or(|room| object::deeper_than(value, room)))
}

fn step(object: &mut Value, item: &Value, budget: &mut Budget) -> Result<(), Failure> {
    let operation: PatchOperation =
        serde_json::from_value(item.clone()).map_err(|_| Failure::rejected())?;
    budget.spend(object, &operation)?;
    match json_patch::patch(object, std::slice::from_ref(&operation)) {
        Ok(()) => Ok(()),
        // Upstream's library lets a replace create what is missing at the last step.
        Err(error) if matches!(error.kind, PatchErrorKind::InvalidPointer) => {
            replace_missing(object, operation)
        }
        Err(_) => Err(Failure::rejected()),
    }
}

fn replace_missing(object: &mut Value, operation: PatchOperation) -> Result<(), Failure> {
    let PatchOperation::Replace(replace) = operation else {
        return Err(Failure::rejected());
    };
    let path = replace.path.as_str();
    let (parent, key) = path.rsplit_once('/').ok_or_else(Failure::rejected)?;
    let parent = object
        .pointer_mut(parent)
        .and_then(Value::as_object_mut)
        .ok_or_else(Failure::rejected)?;
    parent.insert(key.replace("~1", "/").replace("~0", "~"), replace.value);
    Ok(())
}
