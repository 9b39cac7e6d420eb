//! The rights of the present user for everything that eventlab does, asked for one by one.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;

use super::{Patient, Point, Verdict, quoted, server, why};
use crate::kinds::resource_in_group;
use crate::words::counted;

/// How many reviews are under way at a time.
const AT_ONCE: usize = 8;
/// So many deeds are named where rights are lacking.
const NAMED: usize = 3;

/// One right of the present user, on one resource.
#[derive(Clone, Copy, Debug)]
struct Right {
    verbs: &'static str,
    group: &'static str,
    resource: &'static str,
    /// What eventlab does by it, to stand behind "eventlab cannot".
    deed: &'static str,
}

const fn right(
    verbs: &'static str,
    group: &'static str,
    resource: &'static str,
    deed: &'static str,
) -> Right {
    Right {
        verbs,
        group,
        resource,
        deed,
    }
}

/// One use of the cluster, and the rights it takes.
struct Use {
    name: &'static str,
    /// What is lost without it.
    without: &'static str,
    verdict: Verdict,
    rights: &'static [Right],
}

const WRITE: &str = "get list create update delete";
const ARGO: &str = "argoproj.io";
const RBAC: &str = "rbac.authorization.k8s.io";

const USES: [Use; 6] = [
    Use {
        name: "rights: apply",
        without: "no lab can be set up",
        verdict: Verdict::Missing,
        rights: &[
            right(WRITE, "", "configmaps", "apply the labs' ConfigMaps"),
            right(WRITE, "", "services", "apply the labs' Services"),
            right(
                WRITE,
                "",
                "serviceaccounts",
                "apply the labs' service accounts",
            ),
            right(
                WRITE,
                "",
                "persistentvolumeclaims",
                "apply the ledger's volume",
            ),
            right(WRITE, "apps", "deployments", "apply the ledger and the CRM"),
            right(WRITE, RBAC, "roles", "apply the labs' Roles"),
            right(WRITE, RBAC, "rolebindings", "apply the labs' RoleBindings"),
            right(WRITE, ARGO, "eventbus", "apply the EventBus"),
            right(WRITE, ARGO, "eventsources", "apply the EventSources"),
            right(WRITE, ARGO, "sensors", "apply the Sensors"),
            right(
                WRITE,
                ARGO,
                "workflowtemplates",
                "apply the WorkflowTemplates",
            ),
            right(
                "list watch",
                ARGO,
                "workflows",
                "see which Workflows were made",
            ),
        ],
    },
    Use {
        name: "rights: grant",
        without: "nobody may grant rights that he does not have: the labs' Roles are refused",
        verdict: Verdict::Missing,
        rights: &[
            right(
                "create",
                ARGO,
                "workflows",
                "grant a Sensor to make Workflows",
            ),
            right(
                "create patch",
                ARGO,
                "workflowtaskresults",
                "grant a Workflow's pods to write their results",
            ),
        ],
    },
    Use {
        name: "rights: look",
        without: "every verdict stays unproven",
        verdict: Verdict::Missing,
        rights: &[
            right(
                "get list watch delete",
                "",
                "pods",
                "see the pods, and make one anew",
            ),
            right("get", "", "pods/log", "read the pods' logs"),
        ],
    },
    Use {
        name: "rights: reach",
        without: "an address has to lead to the webhook (--webhook)",
        verdict: Verdict::Missing,
        rights: &[
            right("get list", "", "services", "find the pods behind a Service"),
            right(
                "create",
                "",
                "pods/portforward",
                "reach webhook, ledger and bus",
            ),
        ],
    },
    Use {
        name: "rights: bus",
        without: "logs and objects decide (--log-only)",
        verdict: Verdict::Warn,
        rights: &[right(
            "get",
            "",
            "secrets",
            "log in at the bus, and read it",
        )],
    },
    Use {
        name: "rights: review",
        without: "the lab `rbac` cannot check what its service accounts may do",
        verdict: Verdict::Warn,
        rights: &[
            right(
                "create",
                "authorization.k8s.io",
                "localsubjectaccessreviews",
                "ask whether a service account may do something",
            ),
            right(
                "impersonate",
                "",
                "serviceaccounts",
                "list everything that a service account may do",
            ),
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

/// What is lacking of a right.
#[derive(Debug)]
struct Lack {
    right: Right,
    verbs: Vec<&'static str>,
}

impl Lack {
    fn resource(&self) -> String {
        resource_in_group(self.right.group, self.right.resource)
    }
}

async fn point(patient: &Patient<'_>, one: &Use) -> Point {
    let shows = format!("{} auth can-i --list", patient.kubectl_here());
    let asked: Vec<(&'static str, Right)> = one
        .rights
        .iter()
        .flat_map(|right| right.verbs.split(' ').map(move |verb| (verb, *right)))
        .collect();
    let mut answers = Vec::new();
    for some in asked.chunks(AT_ONCE) {
        let mut reviews = Vec::new();
        for (verb, right) in some {
            reviews.push(allowed(patient, verb, *right));
        }
        answers.extend(futures::future::join_all(reviews).await);
    }
    let mut lacking: Vec<Lack> = Vec::new();
    for ((verb, right), answer) in asked.iter().zip(answers) {
        match answer {
            Ok(true) => {}
            Ok(false) => match lacking.last_mut() {
                Some(last) if last.right.deed == right.deed => last.verbs.push(*verb),
                _ => lacking.push(Lack {
                    right: *right,
                    verbs: vec![*verb],
                }),
            },
            Err(error) => return Point::unknown(one.name, why(&error), shows),
        }
    }
    if lacking.is_empty() {
        return Point::good(one.name, format!("all {} are there", asked.len()), shows);
    }
    let found = format!("{}: {}", summary(&lacking, asked.len()), one.without);
    let user = server::user(patient).await.ok().flatten();
    let name = one.name.rsplit(' ').next().unwrap_or_default();
    let mend = format!(
        "ask whoever runs the cluster for: {}",
        granting(name, &lacking, patient.namespace(), user.as_deref())
    );
    Point::new(one.name, one.verdict, found, shows).mended_by(mend)
}

/// What eventlab cannot do, by deed: none of it, or the first few with the rights that are lacking, and how many more.
fn summary(lacking: &[Lack], asked: usize) -> String {
    let count: usize = lacking.iter().map(|one| one.verbs.len()).sum();
    let deeds: Vec<String> = lacking
        .iter()
        .take(NAMED)
        .map(|one| {
            format!(
                "{} ({} {})",
                one.right.deed,
                one.verbs.join(" "),
                one.resource()
            )
        })
        .collect();
    let more = match lacking.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(
            ", and {} of which rights are lacking",
            counted(more, "more resource")
        ),
    };
    let share = if count == asked {
        format!("none of {} is there", counted(asked, "right"))
    } else {
        format!("{count} of {} are lacking", counted(asked, "right"))
    };
    format!("eventlab cannot {}{more}; {share}", deeds.join(", nor "))
}

/// The commands that grant what is lacking: a Role for each set of verbs, or the administrators' own where it is much.
fn granting(name: &str, lacking: &[Lack], namespace: &str, user: Option<&str>) -> String {
    let user = quoted(user.unwrap_or("YOU"));
    let kubectl = format!("kubectl -n {namespace} create");
    if lacking.len() > NAMED {
        return format!(
            "{kubectl} rolebinding eventlab-admin --clusterrole admin --user {user}; then doctor names what is still missing"
        );
    }
    let mut roles: Vec<(String, Vec<String>)> = Vec::new();
    for one in lacking {
        let verbs = one.verbs.join(",");
        match roles.iter_mut().find(|(known, _)| *known == verbs) {
            Some((_, resources)) => resources.push(one.resource()),
            None => roles.push((verbs, vec![one.resource()])),
        }
    }
    let commands = roles.iter().enumerate().map(|(index, (verbs, resources))| {
        let role = match index {
            0 => format!("eventlab-{name}"),
            more => format!("eventlab-{name}-{}", more + 1),
        };
        format!(
            "{kubectl} role {role} --verb={verbs} --resource={} && {kubectl} rolebinding {role} --role {role} --user {user}",
            resources.join(",")
        )
    });
    commands.collect::<Vec<_>>().join(" && ")
}

async fn allowed(patient: &Patient<'_>, verb: &str, right: Right) -> Result<bool, kube::Error> {
    let (kind, part) = match right.resource.split_once('/') {
        Some((kind, part)) => (kind, Some(part.to_owned())),
        None => (right.resource, None),
    };
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: Some(verb.to_owned()),
                group: Some(right.group.to_owned()),
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

    fn lack(verbs: &'static str, resource: &'static str) -> Lack {
        Lack {
            right: right(verbs, "", resource, "do it"),
            verbs: verbs.split(' ').collect(),
        }
    }

    fn some(count: usize) -> Vec<Lack> {
        (0..count).map(|_| lack("get list", "pods")).collect()
    }

    #[test]
    fn what_is_lacking_is_told_in_a_line_however_much_it_is() {
        assert_eq!(
            summary(&some(1), 9),
            "eventlab cannot do it (get list pods); 2 of 9 rights are lacking"
        );
        assert_eq!(
            summary(&some(5), 57),
            "eventlab cannot do it (get list pods), nor do it (get list pods), nor do it (get list pods), and 2 more resources of which rights are lacking; 10 of 57 rights are lacking"
        );
        assert!(summary(&some(12), 24).ends_with("; none of 24 rights is there"));
    }

    #[test]
    fn what_is_lacking_is_granted_by_a_command() {
        let few = [
            lack("get list", "pods"),
            lack("get", "pods/log"),
            lack("get", "secrets"),
        ];
        assert_eq!(
            granting("look", &few, "eventlab", Some("a b")),
            "kubectl -n eventlab create role eventlab-look --verb=get,list --resource=pods \
             && kubectl -n eventlab create rolebinding eventlab-look --role eventlab-look --user 'a b' \
             && kubectl -n eventlab create role eventlab-look-2 --verb=get --resource=pods/log,secrets \
             && kubectl -n eventlab create rolebinding eventlab-look-2 --role eventlab-look-2 --user 'a b'"
        );
        let much = granting("apply", &some(4), "n", None);
        assert!(much.contains("--clusterrole admin --user YOU"), "{much}");
    }

    /// Each right says what it is for in words of its own.
    #[test]
    fn no_deed_stands_for_two_rights() {
        let rights: Vec<&Right> = USES.iter().flat_map(|one| one.rights).collect();
        let deeds: std::collections::BTreeSet<&str> = rights.iter().map(|one| one.deed).collect();
        assert_eq!(deeds.len(), rights.len());
    }
}
