//! Everything that a service account may do in the lab's namespace, to find what is more than it needs.
//!
//! A review asks for one right, so that no list of reviews shows that there is no other one. The rules that apply to an
//! account do; they are asked for in its name.

use http::Request;
use http::header::CONTENT_TYPE;
use k8s_openapi::api::authorization::v1::{
    ResourceRule, SelfSubjectRulesReview, SelfSubjectRulesReviewSpec, SubjectRulesReviewStatus,
};

use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};

use super::{AccessReview, Cluster, LookError};
use crate::kinds::resource_in_group;

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
/// So many rights are named where there are more than an account needs.
const NAMED: usize = 6;
/// An account that nobody makes: what it may do, every account may.
const NOBODY: &str = "eventlab-nobody";

/// A namespace of every cluster in which no lab grants anything.
const ELSEWHERE: &str = "default";
/// Names that Kubernetes keeps for itself begin so.
const OF_THE_CLUSTER: &str = "system:";
/// What the authorizer of nodes says of every account that is no node's (`node_authorizer.go`).
const NODES: &str = "node authorizer does not support user rule resolution";

/// A right: verb, group and resource.
type Triple = (String, String, String);

impl Cluster {
    /// Asks whether a service account has a right in the lab's namespace beside those listed (verb, group, resource).
    ///
    /// Reviews of itself count as none, nor does what the administrators of a cluster of others grant to everybody. A grant
    /// limited to names is a right, too.
    ///
    /// # Errors
    /// [`LookError::Api`] when the rules could not be read.
    pub async fn review_others(
        &self,
        account: &str,
        listed: &[Triple],
    ) -> Result<AccessReview, LookError> {
        let common = if self.is_shared() {
            let elsewhere = self.grants_to_groups().await?;
            let namespace = if elsewhere {
                ELSEWHERE
            } else {
                self.namespace()
            };
            triples(&self.rules_of(NOBODY, namespace).await?)
        } else {
            Vec::new()
        };
        let mut others = triples(&self.rules_of(account, self.namespace()).await?);
        others.retain(|right| {
            !listed.contains(right) && !common.contains(right) && !is_about_oneself(right)
        });
        Ok(AccessReview {
            allowed: !others.is_empty(),
            reason: told(&others),
        })
    }

    /// Whether the lab's namespace has a binding to a group that is not the cluster's own: what it grants to everybody is
    /// the learner's grant, and not what every account may anyway.
    async fn grants_to_groups(&self) -> Result<bool, LookError> {
        let api: Api<RoleBinding> = Api::namespaced(self.client().clone(), self.namespace());
        let bindings = api.list(&ListParams::default()).await;
        let bindings = bindings.map_err(LookError::api("list", "RoleBindings"))?;
        Ok(bindings.iter().any(|binding| {
            let mut subjects = binding.subjects.iter().flatten();
            !binding.name_any().starts_with(OF_THE_CLUSTER)
                && subjects.any(|subject| subject.kind == "Group")
        }))
    }

    /// The rules that apply to a service account of the lab's namespace in a namespace, whoever granted them.
    async fn rules_of(&self, account: &str, asked: &str) -> Result<Vec<ResourceRule>, LookError> {
        let namespace = self.namespace();
        let review = SelfSubjectRulesReview {
            spec: SelfSubjectRulesReviewSpec {
                namespace: Some(asked.to_owned()),
            },
            ..SelfSubjectRulesReview::default()
        };
        let failed = |error| LookError::api("list the rights of", account)(error);
        let body =
            serde_json::to_vec(&review).map_err(|error| failed(kube::Error::SerdeError(error)))?;
        let request = Request::post(REVIEWS)
            .header(CONTENT_TYPE, "application/json")
            .header(
                "Impersonate-User",
                format!("system:serviceaccount:{namespace}:{account}"),
            )
            .body(body)
            .map_err(|error| failed(kube::Error::HttpError(error)))?;
        let answer: SelfSubjectRulesReview =
            self.client().request(request).await.map_err(failed)?;
        let status = answer.status.unwrap_or_default();
        if let Some(reason) = unknown_rest(&status) {
            let service = format!("the review of the rights of {account}");
            return Err(LookError::Answer { service, reason });
        }
        Ok(status.resource_rules)
    }
}

/// Why the list does not show all rights. What the authorizer of nodes cannot list concerns nodes alone.
fn unknown_rest(status: &SubjectRulesReviewStatus) -> Option<String> {
    let told = status.evaluation_error.as_deref().unwrap_or_default();
    (status.incomplete && told != NODES).then(|| {
        let told = if told.is_empty() {
            "no reason given"
        } else {
            told
        };
        format!("the server's list is incomplete: {told}")
    })
}

/// Every right of some rules, each once.
fn triples(rules: &[ResourceRule]) -> Vec<Triple> {
    let mut triples = Vec::new();
    for rule in rules {
        for verb in &rule.verbs {
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    triples.push((verb.clone(), group.clone(), resource.clone()));
                }
            }
        }
    }
    triples.sort();
    triples.dedup();
    triples
}

/// Whoever has proven who he is may ask what he may.
fn is_about_oneself((verb, group, resource): &Triple) -> bool {
    verb == "create"
        && ["authorization.k8s.io", "authentication.k8s.io"].contains(&group.as_str())
        && resource.starts_with("selfsubject")
}

/// The first few of them in words.
fn told(rights: &[Triple]) -> String {
    let mut words: Vec<String> = rights
        .iter()
        .take(NAMED)
        .map(|(verb, group, resource)| format!("{verb} {}", resource_in_group(group, resource)))
        .collect();
    if let Some(more) = rights.len().checked_sub(NAMED).filter(|more| *more > 0) {
        words.push(format!("{more} more"));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> ResourceRule {
        let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        ResourceRule {
            api_groups: Some(list(groups)),
            resources: Some(list(resources)),
            resource_names: None,
            verbs: list(verbs),
        }
    }

    #[test]
    fn every_right_of_a_rule_counts_once_and_reviews_of_oneself_are_no_right() {
        let rules = [
            rule(&["argoproj.io"], &["workflows"], &["create", "patch"]),
            rule(&["argoproj.io"], &["workflows"], &["create"]),
            rule(&["", "apps"], &["pods"], &["get"]),
            rule(
                &["authorization.k8s.io"],
                &["selfsubjectaccessreviews"],
                &["create"],
            ),
        ];
        let mut rights = triples(&rules);
        rights.retain(|right| !is_about_oneself(right));
        assert_eq!(
            told(&rights),
            "create workflows.argoproj.io, get pods, get pods.apps, patch workflows.argoproj.io"
        );
        let parts = triples(&[rule(&["", "argoproj.io"], &["pods/log"], &["get"])]);
        assert_eq!(told(&parts), "get pods/log, get pods.argoproj.io/log");
        let many = triples(&[rule(&["*"], &["*"], &["a", "b", "c", "d", "e", "f", "g"])]);
        assert!(told(&many).ends_with("f *.*, 1 more"), "{}", told(&many));
        let others = [
            rule(&["authorization.k8s.io"], &["*"], &["create"]),
            rule(&[""], &["selfsubjectaccessreviews"], &["create"]),
        ];
        assert!(!triples(&others).iter().any(is_about_oneself));
    }

    #[test]
    fn a_list_that_says_itself_that_it_is_not_whole_shows_nothing() {
        for (incomplete, told, known) in [
            (false, None, true),
            // A binding to a Role that is not there.
            (
                false,
                Some("roles.rbac.authorization.k8s.io \"x\" not found"),
                true,
            ),
            (true, Some(NODES), true),
            (
                true,
                Some("webhook authorizer does not support user rule resolution"),
                false,
            ),
            (true, None, false),
        ] {
            let status = SubjectRulesReviewStatus {
                incomplete,
                evaluation_error: told.map(str::to_owned),
                ..SubjectRulesReviewStatus::default()
            };
            assert_eq!(
                unknown_rest(&status).is_none(),
                known,
                "{incomplete} {told:?}"
            );
        }
    }
}
