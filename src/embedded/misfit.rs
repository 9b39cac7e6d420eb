//! Which field of an object does not fit its type: the decoder says what it found, not where.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// An object as its type, or the field that does not fit and why.
///
/// # Errors
/// It does not fit.
pub fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_path_to_error::deserialize(value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    fn told(object: &Value) -> String {
        typed::<Pod>(object).unwrap_err()
    }

    #[test]
    fn the_field_is_named_wherever_it_is() {
        let pod = |container: Value| json!({"metadata": {"name": "x"}, "spec": {"containers": [{"name": "a"}, container, {"name": "c"}]}});
        for (object, path) in [
            (json!({"metadata": {"name": 1}}), "metadata.name: "),
            (
                json!({"metadata": {"labels": {"a/b~c": 1}}}),
                "metadata.labels.a/b~c: ",
            ),
            (json!({"spec": "x"}), "spec: "),
            (json!({"spec": {"containers": {}}}), "spec.containers: "),
            (
                pod(json!({"name": "b", "image": true})),
                "spec.containers[1].image: ",
            ),
            (
                pod(json!({"name": "b", "args": ["a", 1, "b"]})),
                "spec.containers[1].args[1]: ",
            ),
            (pod(json!("b")), "spec.containers[1]: "),
        ] {
            let said = told(&object);
            assert!(said.starts_with(path), "{object}: {said}");
        }
        // Nowhere in particular.
        assert_eq!(told(&json!("x")).find("invalid type"), Some(0));
        // Two of a kind: one of them is named.
        let said = told(&pod(json!({"name": true, "image": true})));
        assert!(said.starts_with("spec.containers[1]."), "{said}");
    }
}
