//! Who works on the other API server already: controllers that hold a Lease are left their work.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

use crate::embedded::controllers::Parts;

/// A Lease that was not renewed for so long is nobody's.
const STALE: SignedDuration = SignedDuration::from_secs(90);
/// Leases of the controllers that the embedded ones stand for, and their part.
const KNOWN: [(&str, Part); 4] = [
    ("kube-controller-manager", Part::Core),
    ("kube-scheduler", Part::Scheduler),
    ("argo-events-controller", Part::ArgoEvents),
    ("workflow-controller", Part::ArgoWorkflows),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Core,
    Scheduler,
    ArgoEvents,
    ArgoWorkflows,
}

/// Controllers that hold a Lease now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// `NAMESPACE/NAME` of each Lease.
    pub leases: Vec<String>,
    parts: Vec<Part>,
}

impl Others {
    /// Looks through the cluster's Leases.
    ///
    /// # Errors
    /// They may not be listed. An API server without Leases has nobody.
    pub async fn look(client: &Client) -> Result<Self, kube::Error> {
        let api: Api<Lease> = Api::all(client.clone());
        match api.list(&ListParams::default()).await {
            Ok(list) => Ok(Self::among(&list.items, Timestamp::now())),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    fn among(leases: &[Lease], now: Timestamp) -> Self {
        let mut others = Self::default();
        for lease in leases.iter().filter(|lease| is_held(lease, now)) {
            let name = lease.name_any();
            let Some((_, part)) = KNOWN.iter().find(|(known, _)| name == *known) else {
                continue;
            };
            others
                .leases
                .push(format!("{}/{name}", lease.namespace().unwrap_or_default()));
            others.parts.push(*part);
        }
        others
    }

    /// What is left to do.
    #[must_use]
    pub fn left(&self) -> Parts {
        let free = |part: Part| !self.parts.contains(&part);
        Parts {
            core: free(Part::Core),
            scheduler: free(Part::Scheduler),
            argo_events: free(Part::ArgoEvents),
            argo_workflows: free(Part::ArgoWorkflows),
        }
    }
}

impl fmt::Display for Others {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.leases.join(", "))
    }
}

fn is_held(lease: &Lease, now: Timestamp) -> bool {
    let Some(spec) = &lease.spec else {
        return false;
    };
    let held = spec
        .holder_identity
        .as_deref()
        .is_some_and(|name| !name.is_empty());
    let renewed = spec.renew_time.as_ref().map(|time| time.0);
    held && renewed.is_some_and(|renewed| now.duration_since(renewed) < STALE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_lease_that_is_renewed_keeps_its_work() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let lease = |name: &str, holder: &str, renewed: &str| -> Lease {
            serde_json::from_value(
                json!({"metadata": {"name": name, "namespace": "kube-system"},
                "spec": {"holderIdentity": holder, "renewTime": renewed}}),
            )
            .unwrap()
        };
        let fresh = "2026-01-02T03:04:00.000000Z";
        let leases = [
            lease("kube-controller-manager", "a", fresh),
            lease("kube-scheduler", "a", "2026-01-02T03:00:00.000000Z"),
            lease("workflow-controller", "", fresh),
            lease("some-other", "a", fresh),
        ];
        let others = Others::among(&leases, now);
        assert_eq!(others.to_string(), "kube-system/kube-controller-manager");
        let left = others.left();
        assert!(!left.core && left.scheduler && left.argo_events && left.argo_workflows);
        assert_eq!(Others::default().left(), Parts::ALL);
    }
}
