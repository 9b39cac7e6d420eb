//! The account that submits: what the files bind to it, against what its triggers need.

use super::super::site::Site;
use super::super::world::{Role, Rule};
use super::{Check, short};
use crate::sensor::trigger::plural;

/// One right: a verb on a resource of a group.
struct Need {
    group: String,
    resource: String,
    verbs: Vec<&'static str>,
}

/// Checks the Sensor's service account; without one its pod runs as `default`.
pub(super) fn check(check: &mut Check<'_>, spec: &Site<'_>) {
    let named = spec.at(&["template", "serviceAccountName"]);
    let account = named
        .as_ref()
        .and_then(|site| site.node.text())
        .filter(|name| !name.is_empty())
        .unwrap_or("default");
    let site = named
        .clone()
        .or_else(|| spec.get("template"))
        .unwrap_or_else(|| spec.clone());
    let Some(needs) = needs(spec) else {
        return;
    };
    let bound = check.world.roles_of(check.namespace, account);
    for role in &bound.roles {
        let more: Vec<String> = role
            .rules
            .iter()
            .filter_map(|rule| excess(rule, &needs))
            .collect();
        if !more.is_empty() {
            too_much(check, &site, account, role, &more, &needs);
        }
    }
    if bound.roles.is_empty() || bound.may_be_more {
        return;
    }
    for need in &needs {
        let mut rules = bound.roles.iter().flat_map(|role| &role.rules);
        let wanted = need.verbs.contains(&"create");
        if wanted && !rules.any(|rule| allows(rule, need, "create")) {
            let finding = check.report(
                "submit-account",
                &site,
                format!(
                    "none of the roles that the files bind to `{}` lets it create {}: its triggers fail with `forbidden`, and their events are lost",
                    short(account),
                    need.resource
                ),
            );
            finding.meant = Some(format!("a Role with the verb create on {}", need.resource));
        }
    }
}

fn too_much(
    check: &mut Check<'_>,
    site: &Site<'_>,
    account: &str,
    role: &Role,
    more: &[String],
    needs: &[Need],
) {
    let unnamed = if site.path.ends_with("serviceAccountName") {
        ""
    } else {
        ", which every pod without an account of its own runs as,"
    };
    let finding = check.report(
        "submit-account",
        site,
        format!(
            "{} `{}` gives `{}`{unnamed} more than its triggers need: {}",
            role.kind,
            short(&role.name),
            short(account),
            more.join("; ")
        ),
    );
    let enough: Vec<String> = needs
        .iter()
        .map(|need| format!("{} on {}", need.verbs.join(", "), need.resource))
        .collect();
    finding.meant = Some(enough.join("; "));
}

/// What the triggers need; `None` if one of them needs what is not known here.
fn needs(spec: &Site<'_>) -> Option<Vec<Need>> {
    let mut needs: Vec<Need> = Vec::new();
    for trigger in spec.list("triggers") {
        needs_of(&trigger, &mut needs)?;
        let mut dead_letter = trigger.get("dlqTrigger");
        while let Some(trigger) = dead_letter {
            needs_of(&trigger, &mut needs)?;
            dead_letter = trigger.get("dlqTrigger");
        }
    }
    (!needs.is_empty()).then_some(needs)
}

fn needs_of(trigger: &Site<'_>, needs: &mut Vec<Need>) -> Option<()> {
    let template = trigger.get("template")?;
    // A parameter of the trigger itself may make it another one.
    if !trigger.list("parameters").is_empty() {
        return None;
    }
    if let Some(k8s) = template.get("k8s") {
        let resource = k8s.at(&["source", "resource"])?;
        let (group, _) = resource
            .text("apiVersion")
            .split_once('/')
            .unwrap_or(("", ""));
        let mut verbs: Vec<&'static str> = match k8s.text("operation") {
            "" | "create" => vec!["create"],
            "update" => vec!["get", "create", "update"],
            "patch" => vec!["get", "create", "patch"],
            "delete" => vec!["get", "delete"],
            _ => return None,
        };
        // The policy and `liveObject` look at the object again.
        if trigger.at(&["policy", "k8s"]).is_some() || k8s.flag("liveObject") {
            verbs.push("get");
        }
        needs.push(Need {
            group: group.to_owned(),
            resource: plural(resource.text("kind")),
            verbs,
        });
    } else if let Some(workflow) = template.get("argoWorkflow") {
        if workflow.text("operation") != "submit" || !workflow.list("args").is_empty() {
            return None;
        }
        // Argo's command line reads the template, and the Sensor lists what was made.
        let need = |resource: &str, verbs| Need {
            group: "argoproj.io".to_owned(),
            resource: resource.to_owned(),
            verbs,
        };
        needs.push(need("workflows", vec!["create", "list", "get"]));
        needs.push(need("workflowtemplates", vec!["get"]));
        needs.push(need("clusterworkflowtemplates", vec!["get"]));
    }
    Some(())
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|one| one == wanted || one == "*")
}

fn allows(rule: &Rule, need: &Need, verb: &str) -> bool {
    let place = has(&rule.groups, &need.group) && has(&rule.resources, &need.resource);
    // A name is not known yet when an object is created.
    place && has(&rule.verbs, verb) && (rule.names.is_empty() || verb != "create")
}

/// What a rule gives beyond the needs.
fn excess(rule: &Rule, needs: &[Need]) -> Option<String> {
    if rule
        .groups
        .iter()
        .any(|group| group == "coordination.k8s.io")
        && rule.groups.len() == 1
    {
        // Leader election may need leases.
        return None;
    }
    let needed = |group: &str, resource: &str, verb: &str| {
        needs.iter().any(|need| {
            need.group == group && need.resource == resource && need.verbs.contains(&verb)
        })
    };
    let more = rule.groups.iter().any(|group| {
        rule.resources
            .iter()
            .any(|resource| rule.verbs.iter().any(|verb| !needed(group, resource, verb)))
    });
    more.then(|| format!("{} on {}", rule.verbs.join(", "), rule.resources.join(", ")))
}
