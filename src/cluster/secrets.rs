//! Values of the namespace's Secrets, so that they can be kept out of everything that is written.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::ListParams;

use super::{Cluster, LookError, Manifest};

impl Cluster {
    /// The texts that Secrets of the lab's namespace hold now.
    ///
    /// # Errors
    /// [`LookError::Api`]; on a cluster where Secrets may not be listed nothing of them is known.
    pub async fn secret_values(&self) -> Result<Vec<String>, LookError> {
        let api: Api<Secret> = Api::namespaced(self.client().clone(), self.namespace());
        let list = api
            .list(&ListParams::default())
            .await
            .map_err(LookError::api("list", "Secrets"))?;
        Ok(list.items.iter().flat_map(texts_of).collect())
    }

    /// What a Secret of the namespace holds under a key; `None` where there is nothing.
    ///
    /// # Errors
    /// [`LookError::Api`].
    pub async fn secret_value(&self, name: &str, key: &str) -> Result<Option<Vec<u8>>, LookError> {
        let api: Api<Secret> = Api::namespaced(self.client().clone(), self.namespace());
        let secret = api.get_opt(name).await;
        let secret = secret.map_err(LookError::api("read", format!("Secret {name}")))?;
        let data = secret.and_then(|secret| secret.data);
        Ok(data
            .and_then(|mut data| data.remove(key))
            .map(|bytes| bytes.0))
    }
}

/// The texts in a Secret; what is no text is written nowhere.
#[must_use]
pub fn texts_of(secret: &Secret) -> Vec<String> {
    let data = secret.data.iter().flatten().map(|(_, value)| &value.0);
    let texts = data.filter_map(|bytes| String::from_utf8(bytes.clone()).ok());
    let plain = secret.string_data.iter().flatten();
    texts.chain(plain.map(|(_, text)| text.clone())).collect()
}

/// The texts of a manifest that is a Secret; none of any other.
#[must_use]
pub fn texts_in(manifest: &Manifest) -> Vec<String> {
    let is_secret = manifest.object.get("kind").and_then(|kind| kind.as_str()) == Some("Secret");
    let secret = is_secret.then(|| serde_json::from_value::<Secret>(manifest.object.clone()).ok());
    secret.flatten().as_ref().map(texts_of).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(kind: &str) -> Manifest {
        Manifest {
            file: "f".to_owned(),
            object: serde_json::json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "s"},
                "data": {"a": "Y2FuYXJ5LW9uZQ==", "raw": "/wA="}, "stringData": {"b": "canary-two\nand three"}}),
        }
    }

    #[test]
    fn both_forms_of_a_secret_are_read_and_other_kinds_are_not() {
        assert_eq!(
            texts_in(&manifest("Secret")),
            ["canary-one", "canary-two\nand three"]
        );
        assert!(texts_in(&manifest("ConfigMap")).is_empty());
    }
}
