//! The rights of the present user for everything that eventlab does, asked for one by one.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;

use super::{Patient, Point, Verdict, why};
use crate::words::counted;

/// How many reviews are under way at a time.
const AT_ONCE: usize = 8;
/// So many resources are named where rights are lacking.
const NAMED: usize = 3;

/// One use of the cluster, and the rights it takes: verbs, group, resource.
struct Use {
    name: &'static str,
    /// What is lost without it.
    without: &'static str,
    verdict: Verdict,
    rights: &'static [(&'static str, &'static str, &'static str)],
}

const WRITE: &str = "get list create update delete";

const USES: [Use; 6] = [
    Use {
        name: "rights: apply",
        without: "the labs' objects cannot be made",
        verdict: Verdict::Missing,
        rights: &[
            (WRITE, "", "configmaps"),
            (WRITE, "", "services"),
            (WRITE, "", "serviceaccounts"),
            (WRITE, "", "persistentvolumeclaims"),
            (WRITE, "apps", "deployments"),
            (WRITE, "rbac.authorization.k8s.io", "roles"),
            (WRITE, "rbac.authorization.k8s.io", "rolebindings"),
            (WRITE, "argoproj.io", "eventbus"),
            (WRITE, "argoproj.io", "eventsources"),
            (WRITE, "argoproj.io", "sensors"),
            (WRITE, "argoproj.io", "workflowtemplates"),
            ("list watch", "argoproj.io", "workflows"),
        ],
    },
    Use {
        name: "rights: grant",
        without: "nobody may grant rights that he does not have: the labs' Roles are refused",
        verdict: Verdict::Missing,
        rights: &[
            ("create", "argoproj.io", "workflows"),
            ("create patch", "argoproj.io", "workflowtaskresults"),
        ],
    },
    Use {
        name: "rights: look",
        without: "logs and pods cannot be seen: every verdict stays unproven",
        verdict: Verdict::Missing,
        rights: &[
            ("get list watch delete", "", "pods"),
            ("get", "", "pods/log"),
        ],
    },
    Use {
        name: "rights: reach",
        without: "webhook, ledger and bus cannot be reached but by an address (--webhook)",
        verdict: Verdict::Missing,
        rights: &[
            ("get list", "", "services"),
            ("create", "", "pods/portforward"),
        ],
    },
    Use {
        name: "rights: bus",
        without: "the bus is not read: logs and objects decide (--log-only)",
        verdict: Verdict::Warn,
        rights: &[("get", "", "secrets")],
    },
    Use {
        name: "rights: review",
        without: "the lab `rbac` cannot check what its service accounts may do",
        verdict: Verdict::Warn,
        rights: &[
            (
                "create",
                "authorization.k8s.io",
                "localsubjectaccessreviews",
            ),
            ("impersonate", "", "serviceaccounts"),
        ],
    },
];

pub(super) async fn points(patient: &Patient<'_>) -> Vec<Point> {
    let mut points = Vec::new();
    for one in &USES {
        points.push(point(patient, one).await);
    }
    points
}

async fn point(patient: &Patient<'_>, one: &Use) -> Point {
    let shows = format!("{} auth can-i --list", patient.kubectl_here());
    let asked: Vec<_> = one
        .rights
        .iter()
        .flat_map(|(verbs, group, resource)| {
            verbs.split(' ').map(move |verb| (verb, *group, *resource))
        })
        .collect();
    let mut answers = Vec::new();
    for some in asked.chunks(AT_ONCE) {
        let mut reviews = Vec::new();
        for right in some {
            reviews.push(allowed(patient, *right));
        }
        answers.extend(futures::future::join_all(reviews).await);
    }
    let mut verbs_lacking: Vec<(String, Vec<&str>)> = Vec::new();
    for (right, answer) in asked.iter().zip(answers) {
        match answer {
            Ok(true) => {}
            Ok(false) => {
                let resource = in_group(right);
                match verbs_lacking.last_mut() {
                    Some((last, verbs)) if *last == resource => verbs.push(right.0),
                    _ => verbs_lacking.push((resource, vec![right.0])),
                }
            }
            Err(error) => return Point::unknown(one.name, why(&error), shows),
        }
    }
    if verbs_lacking.is_empty() {
        return Point::good(one.name, format!("all {} are there", asked.len()), shows);
    }
    let found = format!("{}: {}", one.without, summary(&verbs_lacking, asked.len()));
    let rest = if verbs_lacking.len() <= NAMED {
        format!("or for a Role with {}", named(&verbs_lacking))
    } else {
        "then doctor names what is still missing".to_owned()
    };
    let mend = format!(
        "ask whoever runs the cluster for: kubectl -n {} create rolebinding eventlab-admin --clusterrole admin --user YOU; {rest}",
        patient.namespace(),
    );
    Point::new(one.name, one.verdict, found, shows).mended_by(mend)
}

/// What is lacking, by resource: none of them, or the first few with their verbs and how many more.
fn summary(lacking: &[(String, Vec<&str>)], asked: usize) -> String {
    let count: usize = lacking.iter().map(|(_, verbs)| verbs.len()).sum();
    if lacking.len() > NAMED && count == asked {
        return format!(
            "none of {asked} rights on {} resources is there",
            lacking.len()
        );
    }
    let more = lacking.len().saturating_sub(NAMED);
    let more = if more == 0 {
        String::new()
    } else {
        format!(" and {}", counted(more, "more resource"))
    };
    format!("{count} of {asked} are lacking: {}{more}", named(lacking))
}

/// The first few, with their verbs.
fn named(lacking: &[(String, Vec<&str>)]) -> String {
    let named: Vec<String> = lacking
        .iter()
        .take(NAMED)
        .map(|(resource, verbs)| format!("{resource} ({})", verbs.join(" ")))
        .collect();
    named.join(", ")
}

fn in_group((_, group, resource): &(&str, &str, &str)) -> String {
    match (group.is_empty(), resource.split_once('/')) {
        (true, _) => (*resource).to_owned(),
        (false, None) => format!("{resource}.{group}"),
        (false, Some((kind, part))) => format!("{kind}.{group}/{part}"),
    }
}

async fn allowed(
    patient: &Patient<'_>,
    (verb, group, resource): (&str, &str, &str),
) -> Result<bool, kube::Error> {
    let (kind, part) = match resource.split_once('/') {
        Some((kind, part)) => (kind, Some(part.to_owned())),
        None => (resource, None),
    };
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: Some(verb.to_owned()),
                group: Some(group.to_owned()),
                resource: Some(kind.to_owned()),
                subresource: part,
                namespace: Some(patient.namespace().to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api: Api<SelfSubjectAccessReview> = Api::all(patient.context.client.clone());
    let answer = api.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lacking_is_told_in_a_line_however_much_it_is() {
        let some = |count: usize| -> Vec<(String, Vec<&str>)> {
            (0..count)
                .map(|number| (format!("r{number}"), vec!["get", "list"]))
                .collect()
        };
        assert_eq!(summary(&some(1), 9), "2 of 9 are lacking: r0 (get list)");
        assert_eq!(
            summary(&some(5), 57),
            "10 of 57 are lacking: r0 (get list), r1 (get list), r2 (get list) and 2 more resources"
        );
        assert_eq!(
            summary(&some(12), 24),
            "none of 24 rights on 12 resources is there"
        );
        assert_eq!(summary(&some(1), 2), "2 of 2 are lacking: r0 (get list)");
    }
}
