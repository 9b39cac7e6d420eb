//! Tokens of a pod's service account, asked from the API as the kubelet asks for them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::Mutex;

use super::sources::SetupError;

/// The longest that an API server gives (seconds): a token outlives any session, and any jump of a clock, so that a running
/// container needs no other. Where a server gives less, the next container gets a new one.
const LIFETIME: i64 = 1 << 32;

/// The tokens of one pod, asked for once.
#[derive(Debug)]
pub(super) struct Tokens {
    namespace: String,
    account: String,
    pod: BoundObjectReference,
    /// By audience; the empty one is the API server's own.
    known: Mutex<BTreeMap<String, Known>>,
}

#[derive(Debug)]
struct Known {
    token: String,
    /// `None` where the server did not say.
    ends: Option<Timestamp>,
}

impl Tokens {
    pub(super) fn of(pod: &Pod) -> Tokens {
        let metadata = &pod.metadata;
        let account = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.service_account_name.clone());
        Tokens {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            account: account
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| "default".to_owned()),
            pod: BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: metadata.name.clone(),
                uid: metadata.uid.clone(),
            },
            known: Mutex::default(),
        }
    }

    /// The pod's token for an audience.
    pub(super) async fn for_audience(
        &self,
        client: &Client,
        audience: Option<&str>,
    ) -> Result<String, SetupError> {
        let audience = audience.unwrap_or_default();
        let mut known = self.known.lock().await;
        let now = Timestamp::now();
        let lasting = |one: &&Known| one.ends.is_none_or(|end| now < end);
        if let Some(one) = known.get(audience).filter(lasting) {
            return Ok(one.token.clone());
        }
        let new = self.request(client, audience).await.map_err(|error| {
            SetupError(format!(
                "failed to fetch token for serviceaccount {}/{}: {error}",
                self.namespace, self.account
            ))
        })?;
        let token = new.token.clone();
        known.insert(audience.to_owned(), new);
        Ok(token)
    }

    async fn request(&self, client: &Client, audience: &str) -> Result<Known, kube::Error> {
        let spec = TokenRequestSpec {
            audiences: (!audience.is_empty()).then(|| vec![audience.to_owned()]),
            bound_object_ref: Some(self.pod.clone()),
            expiration_seconds: Some(LIFETIME),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest {
            spec: Some(spec),
            ..TokenRequest::default()
        };
        let api = Api::<ServiceAccount>::namespaced(client.clone(), &self.namespace);
        let answer: TokenRequest = api
            .create_subresource("token", &self.account, &PostParams::default(), &request)
            .await?;
        let status = answer.status.unwrap_or_default();
        Ok(Known {
            token: status.token.unwrap_or_default(),
            ends: status.expiration_timestamp.map(|end| end.0),
        })
    }
}
