//! ConfigMaps and Secrets that a container refers to, read from the API when it starts.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Container, Secret};
use kube::{Api, Client};

/// Why a container cannot be set up; its text is what `kubectl describe` shows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct SetupError(pub String);

/// Data of one ConfigMap or Secret, by key.
pub(super) type Data = BTreeMap<String, Vec<u8>>;

/// What was read; a name without data does not exist.
#[derive(Clone, Debug, Default)]
pub(super) struct Sources {
    pub config_maps: BTreeMap<String, Option<Data>>,
    pub secrets: BTreeMap<String, Option<Data>>,
}

impl Sources {
    /// Reads what `container` refers to in its environment.
    pub(super) async fn of_environment(
        client: &Client,
        namespace: &str,
        container: &Container,
    ) -> Result<Sources, SetupError> {
        let mut sources = Sources::default();
        for source in container.env_from.iter().flatten() {
            if let Some(reference) = &source.config_map_ref {
                sources
                    .add_config_map(client, namespace, &reference.name)
                    .await?;
            }
            if let Some(reference) = &source.secret_ref {
                sources
                    .add_secret(client, namespace, &reference.name)
                    .await?;
            }
        }
        for source in container
            .env
            .iter()
            .flatten()
            .filter_map(|variable| variable.value_from.as_ref())
        {
            if let Some(reference) = &source.config_map_key_ref {
                sources
                    .add_config_map(client, namespace, &reference.name)
                    .await?;
            }
            if let Some(reference) = &source.secret_key_ref {
                sources
                    .add_secret(client, namespace, &reference.name)
                    .await?;
            }
        }
        Ok(sources)
    }

    /// Reads a ConfigMap, once.
    pub(super) async fn add_config_map(
        &mut self,
        client: &Client,
        namespace: &str,
        name: &str,
    ) -> Result<(), SetupError> {
        if !self.config_maps.contains_key(name) {
            let read = Api::<ConfigMap>::namespaced(client.clone(), namespace)
                .get_opt(name)
                .await;
            let found = read.map_err(|error| unreadable("configmap", name, &error))?;
            self.config_maps
                .insert(name.to_owned(), found.map(config_map_data));
        }
        Ok(())
    }

    /// Reads a Secret, once.
    pub(super) async fn add_secret(
        &mut self,
        client: &Client,
        namespace: &str,
        name: &str,
    ) -> Result<(), SetupError> {
        if !self.secrets.contains_key(name) {
            let read = Api::<Secret>::namespaced(client.clone(), namespace)
                .get_opt(name)
                .await;
            let found = read.map_err(|error| unreadable("secret", name, &error))?;
            self.secrets.insert(name.to_owned(), found.map(secret_data));
        }
        Ok(())
    }

    /// Data of a ConfigMap; nothing when it is not there and that is fine.
    pub(super) fn config_map(
        &self,
        name: &str,
        optional: bool,
    ) -> Result<Option<&Data>, SetupError> {
        present(self.config_maps.get(name), "configmap", name, optional)
    }

    /// Data of a Secret; nothing when it is not there and that is fine.
    pub(super) fn secret(&self, name: &str, optional: bool) -> Result<Option<&Data>, SetupError> {
        present(self.secrets.get(name), "secret", name, optional)
    }
}

fn present<'a>(
    data: Option<&'a Option<Data>>,
    kind: &str,
    name: &str,
    optional: bool,
) -> Result<Option<&'a Data>, SetupError> {
    match data.and_then(Option::as_ref) {
        Some(data) => Ok(Some(data)),
        None if optional => Ok(None),
        None => Err(SetupError(format!("{kind} {name:?} not found"))),
    }
}

fn unreadable(kind: &str, name: &str, error: &kube::Error) -> SetupError {
    SetupError(format!("get {kind} {name:?}: {error}"))
}

fn config_map_data(object: ConfigMap) -> Data {
    let text = object
        .data
        .unwrap_or_default()
        .into_iter()
        .map(|(key, value)| (key, value.into_bytes()));
    let binary = object
        .binary_data
        .unwrap_or_default()
        .into_iter()
        .map(|(key, value)| (key, value.0));
    text.chain(binary).collect()
}

fn secret_data(object: Secret) -> Data {
    object
        .data
        .unwrap_or_default()
        .into_iter()
        .map(|(key, value)| (key, value.0))
        .collect()
}
