//! Everything that a service account may do in the lab's namespace, to find what is more than it needs.
//!
//! A review asks for one right, so that no list of reviews shows that there is no other one. The rules that apply to an
//! account do; they are asked for in its name.

use http::Request;
use http::header::CONTENT_TYPE;
use k8s_openapi::api::authorization::v1::{
    ResourceRule, SelfSubjectRulesReview, SelfSubjectRulesReviewSpec,
};

use super::{AccessReview, Cluster, LookError};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
/// So many rights are named where there are more than an account needs.
const NAMED: usize = 6;
/// An account that nobody makes: what it may do, every account may.
const NOBODY: &str = "eventlab-nobody";

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
            triples(&self.rules_of(NOBODY).await?)
        } else {
            Vec::new()
        };
        let mut others = triples(&self.rules_of(account).await?);
        others.retain(|right| {
            !listed.contains(right) && !common.contains(right) && !is_about_oneself(right)
        });
        Ok(AccessReview {
            allowed: !others.is_empty(),
            reason: told(&others),
        })
    }

    /// The rules that apply to a service account in the lab's namespace, whoever granted them.
    async fn rules_of(&self, account: &str) -> Result<Vec<ResourceRule>, LookError> {
        let namespace = self.namespace();
        let review = SelfSubjectRulesReview {
            spec: SelfSubjectRulesReviewSpec {
                namespace: Some(namespace.to_owned()),
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
        Ok(answer
            .status
            .map(|status| status.resource_rules)
            .unwrap_or_default())
    }
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
        .map(|(verb, group, resource)| match group.as_str() {
            "" => format!("{verb} {resource}"),
            group => format!("{verb} {resource}.{group}"),
        })
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
        let many = triples(&[rule(&["*"], &["*"], &["a", "b", "c", "d", "e", "f", "g"])]);
        assert!(told(&many).ends_with("f *.*, 1 more"), "{}", told(&many));
        let others = [
            rule(&["authorization.k8s.io"], &["*"], &["create"]),
            rule(&[""], &["selfsubjectaccessreviews"], &["create"]),
        ];
        assert!(!triples(&others).iter().any(is_about_oneself));
    }
}
