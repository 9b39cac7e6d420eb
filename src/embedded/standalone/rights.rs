//! Whether the identities of the controllers may do their first step: without their Roles they would only wait, and say so
//! in a log.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::embedded::controllers::{ControllerClients, Identity, Parts};

const EVENTS_ROLES: &str = "kubectl apply -f https://github.com/argoproj/argo-events/releases/download/v1.9.11/install.yaml";
const WORKFLOWS_ROLES: &str = "kubectl apply -n argo -f https://github.com/argoproj/argo-workflows/releases/download/v4.1.2/install.yaml";

/// What each identity that is to work here may not do, and what gives it the right.
pub async fn lacking(clients: &ControllerClients, parts: Parts) -> Vec<String> {
    let first_steps = [
        (
            parts.argo_events,
            Identity::ArgoEvents,
            &clients.argo_events,
            ("argoproj.io", "sensors"),
            EVENTS_ROLES,
        ),
        (
            parts.argo_workflows,
            Identity::ArgoWorkflows,
            &clients.argo_workflows,
            ("argoproj.io", "workflows"),
            WORKFLOWS_ROLES,
        ),
        (
            parts.scheduler,
            Identity::Scheduler,
            &clients.scheduler,
            ("", "pods"),
            "",
        ),
        (
            parts.core,
            Identity::Deployment,
            &clients.deployment,
            ("apps", "deployments"),
            "",
        ),
    ];
    let mut lacking = Vec::new();
    for (works, identity, client, (group, kind), roles) in first_steps {
        if !works || may_list(client, group, kind).await != Some(false) {
            continue;
        }
        let user = identity.user();
        let mend = match roles {
            "" => String::new(),
            roles => format!(
                "Argo's manifests have its Roles ({roles}; without the controller: scale it to 0), or "
            ),
        };
        lacking.push(format!(
            "{user} may not list {kind} there, so its controller waits until it may. {mend}use --as-me"
        ));
    }
    lacking
}

/// `None` when nobody could say.
async fn may_list(client: &Client, group: &str, kind: &str) -> Option<bool> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: Some("list".to_owned()),
                group: Some(group.to_owned()),
                resource: Some(kind.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer = api.create(&PostParams::default(), &review).await.ok()?;
    Some(answer.status?.allowed)
}
