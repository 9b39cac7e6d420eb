//! Aggregated ClusterRoles: rules gathered from the ClusterRoles that their selectors match.

use std::collections::HashSet;

use serde_json::Value;

use super::rule::{self, Rule};
use super::text;

/// Rounds of gathering: roles gather from roles that gather (`admin` from `edit` from `view`).
const MAX_DEPTH: usize = 16;

/// Every ClusterRole with its rules in force.
pub(super) fn resolve<'a>(cluster_roles: &[&'a Value]) -> Vec<(&'a Value, Vec<Rule>)> {
    let mut sorted: Vec<(&Value, Vec<Rule>)> = cluster_roles
        .iter()
        .map(|role| (*role, rule::parse_list(&role["rules"])))
        .collect();
    sorted.sort_by_key(|(role, _)| text(&role["metadata"], "name"));
    for _ in 0..MAX_DEPTH {
        if !gather_once(&mut sorted) {
            break;
        }
    }
    sorted
}

/// The rules of one aggregated ClusterRole, given all ClusterRoles; `None` when it has no aggregation rule.
#[must_use]
pub fn aggregated_rules(role: &Value, cluster_roles: &[&Value]) -> Option<Vec<Rule>> {
    selectors(role)?;
    let name = text(&role["metadata"], "name");
    let found = resolve(cluster_roles)
        .into_iter()
        .find(|(other, _)| text(&other["metadata"], "name") == name);
    found.map(|(_, rules)| rules)
}

/// Recomputes every aggregated role once; whether anything changed.
fn gather_once(roles: &mut [(&Value, Vec<Rule>)]) -> bool {
    let mut changed = false;
    for index in 0..roles.len() {
        let Some(selectors) = selectors(roles[index].0) else {
            continue;
        };
        let rules = gather(index, selectors, roles);
        if rules != roles[index].1 {
            roles[index].1 = rules;
            changed = true;
        }
    }
    changed
}

fn selectors(role: &Value) -> Option<&Vec<Value>> {
    role["aggregationRule"]["clusterRoleSelectors"].as_array()
}

fn gather(index: usize, selectors: &[Value], roles: &[(&Value, Vec<Rule>)]) -> Vec<Rule> {
    let (mut rules, mut seen) = (Vec::new(), HashSet::new());
    for selector in selectors {
        for (other, (role, found)) in roles.iter().enumerate() {
            if other == index || !selects(selector, &role["metadata"]["labels"]) {
                continue;
            }
            for rule in found {
                if seen.insert(rule.clone()) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    rules
}

/// `metav1.LabelSelector`: matchLabels and matchExpressions; an empty selector matches all.
fn selects(selector: &Value, labels: &Value) -> bool {
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let expressions = selector["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten();
    equal
        .into_iter()
        .all(|(key, value)| label(key) == value.as_str())
        && expressions.into_iter().all(|expression| {
            let value = label(text(expression, "key"));
            let listed = || {
                let values = expression["values"].as_array();
                value.is_some_and(|value| {
                    values
                        .into_iter()
                        .flatten()
                        .any(|item| item.as_str() == Some(value))
                })
            };
            match text(expression, "operator") {
                "In" => listed(),
                "NotIn" => !listed(),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}
