//! What a create is refused with whatever else the cluster holds, for those who only want to know.

use serde_json::Value;

use super::registry::{self, Kind};
use super::status::Failure;
use super::{body, object, validation};

/// Group of Argo's own kinds.
const ARGO: &str = "argoproj.io";
/// What a client says of a resource that the server has not.
const NO_RESOURCE: &str = "the server could not find the requested resource";
/// Stands for the end of a name that the server makes.
const MADE: &str = "xxxxx";
/// Longest beginning of such a name.
const MAX_BASE: usize = 58;

/// The message with which a create of an object is refused for its kind, name or metadata; `None` where these hold.
#[must_use]
pub fn create_refusal(object: &Value) -> Option<String> {
    let mut named = object.clone();
    let base = object::meta(object, "generateName");
    let nameless = object
        .pointer("/metadata/name")
        .is_none_or(|name| name.is_null() || name == "");
    if nameless && !base.is_empty() {
        let name = format!("{}{MADE}", object::beginning(base, MAX_BASE));
        object::set_meta(&mut named, "name", name);
    }
    refusal(&named, true)
}

/// The message with which a change of an object is refused for its kind, name or metadata, whatever it was before.
#[must_use]
pub fn change_refusal(object: &Value) -> Option<String> {
    refusal(object, false)
}

fn refusal(value: &Value, whole: bool) -> Option<String> {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let row = registry::by_kind(group, kind);
    let known = row.filter(|row| row.version == version);
    // Of these groups a kind has one version only; of others a cluster may have more than are here.
    let one_version = row.is_some() && matches!(group, ARGO | "");
    if api_version.is_empty() || (known.is_none() && one_version) {
        return Some(NO_RESOURCE.to_owned());
    }
    if let Some(row) = known.filter(|_| whole)
        && let Some(misfit) = misfit(row, value)
    {
        return Some(misfit);
    }
    // What a cluster defines itself is named by the same rules as Argo's kinds.
    let rules: &Kind = match known {
        Some(row) => row,
        None => registry::by_kind(ARGO, "Workflow")?,
    };
    let mut causes = validation::check_metadata(rules, value);
    if whole && known.is_some_and(|row| row.group == ARGO) {
        causes.extend(validation::check_object(rules, value));
    }
    if causes.is_empty() {
        return None;
    }
    Some(message(Failure::invalid_as(
        group,
        kind,
        object::name(value),
        causes,
    )))
}

/// Why an object cannot be read as one of its kind: a field has another type.
fn misfit(row: &'static Kind, value: &Value) -> Option<String> {
    if object::deeper_than(value, body::MAX_DEPTH) {
        return None;
    }
    let value = match body::object(row, value.clone()) {
        Ok(value) => value,
        Err(failure) => return Some(message(failure)),
    };
    let why = body::typed(row, &value).err()?;
    Some(message(body::unhandled(row, &why.text)))
}

fn message(failure: Failure) -> String {
    match failure {
        Failure::Status(status) => status.message,
        Failure::PageNotFound => NO_RESOURCE.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workflow(metadata: &Value) -> Value {
        json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": metadata, "spec": {}})
    }

    #[test]
    fn names_and_labels_that_no_cluster_takes() {
        for good in [
            json!({"name": "a"}),
            json!({"generateName": "a-"}),
            json!({"generateName": "a".repeat(250)}),
            json!({"name": "a.b", "labels": {"x.io/a": "B_c"}}),
        ] {
            assert_eq!(create_refusal(&workflow(&good)), None, "{good}");
        }
        for (bad, said) in [
            (json!({}), "metadata.name: Required value"),
            (
                json!({"name": "ORD_1"}),
                r#"Workflow.argoproj.io "ORD_1" is invalid: metadata.name: Invalid value: "ORD_1": a lowercase"#,
            ),
            (json!({"name": "a".repeat(254)}), "must be no more than 253"),
            (json!({"generateName": "A_"}), r#"Invalid value: "A_xxxxx""#),
            (
                json!({"name": "a", "labels": {"b": "c d"}}),
                r#"metadata.labels: Invalid value: "c d""#,
            ),
        ] {
            let refusal = create_refusal(&workflow(&bad)).unwrap();
            assert!(refusal.contains(said), "{refusal}");
        }
    }

    /// A value of another type is told in the words of the API, before anything else of the object.
    #[test]
    fn values_of_another_type_are_refused() {
        let config = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
        let job = |value: Value| {
            let container =
                json!({"name": "c", "image": "i", "env": [{"name": "A", "value": value}]});
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}})
        };
        for good in [
            config(json!({"n": "1"})),
            config(json!({})),
            config(Value::Null),
            job(json!("1")),
            workflow(&json!({"name": "a", "annotations": {"n": "1"}, "creationTimestamp": null})),
        ] {
            assert_eq!(create_refusal(&good), None, "{good}");
        }
        for (bad, kind) in [
            (config(json!({"n": 1})), "ConfigMap"),
            (config(json!([1])), "ConfigMap"),
            (job(json!(1)), "Job"),
            (job(json!(true)), "Job"),
            (
                workflow(&json!({"name": "a", "annotations": {"n": 1}})),
                "Workflow",
            ),
            (workflow(&json!({"name": 5})), "Workflow"),
            (
                workflow(&json!({"name": 5, "generateName": "a-"})),
                "Workflow",
            ),
        ] {
            let refusal = create_refusal(&bad).unwrap();
            for said in [
                format!("cannot be handled as a {kind}: "),
                "cannot unmarshal".to_owned(),
            ] {
                assert!(refusal.contains(&said), "{said}: {refusal}");
            }
        }
    }

    #[test]
    fn kinds_that_no_cluster_has() {
        let of = |version: &str, kind: &str| {
            create_refusal(
                &json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": {}}),
            )
        };
        for (version, kind) in [
            ("", "Workflow"),
            ("argoproj.io/v1", "Workflow"),
            ("v2", "ConfigMap"),
        ] {
            assert_eq!(of(version, kind).as_deref(), Some(NO_RESOURCE), "{version}");
        }
        assert_eq!(of("batch/v1", "Job"), None);
        assert_eq!(of("example.org/v1beta1", "Thing"), None);
    }

    #[test]
    fn a_change_is_not_asked_for_the_whole_object() {
        let partial = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "a"}});
        assert_eq!(change_refusal(&partial), None);
        assert!(
            create_refusal(&partial)
                .unwrap()
                .contains("spec: Required value")
        );
    }
}
