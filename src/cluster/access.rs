//! What the lab's service accounts may do: access reviews (one right here, all of them in `rights`), and grants that a manifest no longer makes.

use k8s_openapi::api::authorization::v1::{
    LocalSubjectAccessReview, ResourceAttributes, SubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde::de::DeserializeOwned;

use super::apply::MANIFEST_ANNOTATION;
use super::manifest::text;
use super::{Cluster, Fingerprint, LookError, Manifest};
use crate::kinds::{MANAGED_BY, MANAGED_BY_LABEL};

/// What an access review asks of a service account of the lab's namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessQuestion<'a> {
    pub account: &'a str,
    pub verb: &'a str,
    /// Empty for the core group.
    pub group: &'a str,
    /// Plural, with its subresource where there is one: `pods/exec`.
    pub resource: &'a str,
}

/// The API server's answer to an access review.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessReview {
    pub allowed: bool,
    /// Why, as the authorizer puts it; often empty.
    pub reason: String,
}

impl Cluster {
    /// Asks whether a service account of the lab's namespace has a right there.
    ///
    /// The review names no object, so that a grant limited to names does not count as the right itself.
    ///
    /// # Errors
    /// [`LookError::Api`] when the review could not be made.
    pub async fn review(&self, asked: AccessQuestion<'_>) -> Result<AccessReview, LookError> {
        // The review of one namespace: whoever administers that alone may make it.
        let api: Api<LocalSubjectAccessReview> =
            Api::namespaced(self.client().clone(), self.namespace());
        let answer = api
            .create(&PostParams::default(), &question(asked, self.namespace()))
            .await
            .map_err(LookError::api("review the access of", asked.account))?;
        Ok(answer
            .status
            .map(|status| AccessReview {
                allowed: status.allowed && status.denied != Some(true),
                reason: status.reason.unwrap_or_default(),
            })
            .unwrap_or_default())
    }

    /// Deletes the lab's Roles and RoleBindings that an earlier version of a manifest made and this one does not.
    ///
    /// A right that was taken out of a file would stay otherwise, and the next check would judge it again. Nothing is done
    /// for files that grant nothing. The fingerprints of what is gone by that are added to `gone`, however it ends.
    ///
    /// # Errors
    /// [`LookError::Api`].
    pub async fn withdraw_grants(
        &self,
        file: &str,
        own: &[&Manifest],
        gone: &mut Vec<Fingerprint>,
    ) -> Result<(), LookError> {
        let named = |kind: &str| -> Vec<&str> {
            own.iter()
                .filter(|manifest| text(&manifest.object, "/kind") == kind)
                .map(|manifest| text(&manifest.object, "/metadata/name"))
                .collect()
        };
        let (roles, bindings) = (named("Role"), named("RoleBinding"));
        if roles.is_empty() && bindings.is_empty() {
            return Ok(());
        }
        self.withdraw::<RoleBinding>(file, &bindings, gone).await?;
        self.withdraw::<Role>(file, &roles, gone).await
    }

    async fn withdraw<K>(
        &self,
        file: &str,
        kept: &[&str],
        gone: &mut Vec<Fingerprint>,
    ) -> Result<(), LookError>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.client().clone(), self.namespace());
        let ours = ListParams::default().labels(&format!("{MANAGED_BY_LABEL}={MANAGED_BY}"));
        let list = api
            .list(&ours)
            .await
            .map_err(LookError::api("list grants", file))?;
        for object in list {
            let name = object.name_any();
            let from = object.annotations().get(MANIFEST_ANNOTATION);
            if from.map(String::as_str) != Some(file) || kept.contains(&name.as_str()) {
                continue;
            }
            match api.delete(&name, &DeleteParams::default()).await {
                Ok(_) => tracing::info!(name, file, "withdrew a grant"),
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(LookError::api("withdraw the grant", name)(error)),
            }
            gone.push(Fingerprint::gone(
                &K::api_version(&()),
                &K::kind(&()),
                &name,
            ));
        }
        Ok(())
    }
}

fn question(asked: AccessQuestion<'_>, namespace: &str) -> LocalSubjectAccessReview {
    let (resource, subresource) = match asked.resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
        None => (asked.resource, None),
    };
    LocalSubjectAccessReview {
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        spec: SubjectAccessReviewSpec {
            user: Some(format!(
                "system:serviceaccount:{namespace}:{}",
                asked.account
            )),
            groups: Some(vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ]),
            resource_attributes: Some(ResourceAttributes {
                namespace: Some(namespace.to_owned()),
                verb: Some(asked.verb.to_owned()),
                group: Some(asked.group.to_owned()),
                resource: Some(resource.to_owned()),
                subresource,
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..LocalSubjectAccessReview::default()
    }
}
