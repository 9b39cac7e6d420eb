//! One policy rule: parsing, matching a request, and covering another rule.

use serde_json::{Map, Value};

use crate::embedded::api::attributes::{Attributes, ResourceAttributes};

/// `rbac.authorization.k8s.io/v1` PolicyRule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Rule {
    pub verbs: Vec<String>,
    pub api_groups: Vec<String>,
    pub resources: Vec<String>,
    pub resource_names: Vec<String>,
    pub non_resource_urls: Vec<String>,
}

/// Reads a `rules` field; anything that is not a list gives none.
pub(super) fn parse_list(rules: &Value) -> Vec<Rule> {
    rules
        .as_array()
        .into_iter()
        .flatten()
        .map(Rule::parse)
        .collect()
}

/// `resource` or `resource/subresource`, as rules write it.
pub(super) fn combined_resource(wanted: &ResourceAttributes) -> String {
    if wanted.subresource.is_empty() {
        wanted.resource.clone()
    } else {
        format!("{}/{}", wanted.resource, wanted.subresource)
    }
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == wanted)
}

fn has_or_star(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == "*" || item == wanted)
}

/// Whether a `nonResourceURLs` entry covers `path`: `*`, the same text, or a prefix ending in `*`.
fn url_covers(entry: &str, path: &str) -> bool {
    entry == "*"
        || entry == path
        || (entry.ends_with('*') && path.starts_with(entry.trim_end_matches('*')))
}

impl Rule {
    /// Reads one rule; missing or ill-typed fields are empty.
    #[must_use]
    pub fn parse(value: &Value) -> Rule {
        let list = |field: &str| {
            let items = value[field].as_array().into_iter().flatten();
            items
                .filter_map(|item| item.as_str().map(str::to_owned))
                .collect()
        };
        Rule {
            verbs: list("verbs"),
            api_groups: list("apiGroups"),
            resources: list("resources"),
            resource_names: list("resourceNames"),
            non_resource_urls: list("nonResourceURLs"),
        }
    }

    /// The rule as JSON, empty fields left out.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        let fields = [
            ("verbs", &self.verbs),
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.resource_names),
            ("nonResourceURLs", &self.non_resource_urls),
        ];
        for (name, items) in fields {
            if !items.is_empty() {
                map.insert(name.to_owned(), Value::from(items.clone()));
            }
        }
        Value::Object(map)
    }

    /// Whether this rule alone allows the request; `combined` is [`combined_resource`] of it.
    pub(super) fn allows(&self, attributes: &Attributes, combined: &str) -> bool {
        match attributes {
            Attributes::Resource(wanted) => {
                has_or_star(&self.verbs, &wanted.verb)
                    && has_or_star(&self.api_groups, &wanted.group)
                    && self.matches_resource(combined, &wanted.subresource)
                    && (self.resource_names.is_empty() || has(&self.resource_names, &wanted.name))
            }
            Attributes::NonResource { verb, path } => {
                has_or_star(&self.verbs, verb)
                    && self
                        .non_resource_urls
                        .iter()
                        .any(|entry| url_covers(entry, path))
            }
        }
    }

    fn matches_resource(&self, combined: &str, subresource: &str) -> bool {
        self.resources.iter().any(|resource| {
            resource == "*"
                || resource == combined
                || (!subresource.is_empty() && resource.strip_prefix("*/") == Some(subresource))
        })
    }

    /// Splits into rules of one verb, group, resource and name each.
    pub(super) fn break_down(&self) -> Vec<Rule> {
        let mut parts = Vec::new();
        let unnamed = [String::new()];
        let names = if self.resource_names.is_empty() {
            &unnamed[..]
        } else {
            &self.resource_names
        };
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    for name in names {
                        parts.push(Rule {
                            verbs: vec![verb.clone()],
                            api_groups: vec![group.clone()],
                            resources: vec![resource.clone()],
                            resource_names: if self.resource_names.is_empty() {
                                vec![]
                            } else {
                                vec![name.clone()]
                            },
                            non_resource_urls: vec![],
                        });
                    }
                }
            }
        }
        for url in &self.non_resource_urls {
            for verb in &self.verbs {
                parts.push(Rule {
                    verbs: vec![verb.clone()],
                    non_resource_urls: vec![url.clone()],
                    ..Rule::default()
                });
            }
        }
        parts
    }

    /// How many rules [`Rule::break_down`] makes.
    pub(super) fn parts(&self) -> usize {
        let named = self.api_groups.len().saturating_mul(self.resources.len());
        let named = named.saturating_mul(self.resource_names.len().max(1));
        named
            .saturating_add(self.non_resource_urls.len())
            .saturating_mul(self.verbs.len())
    }

    /// Whether this rule grants everything that `part` (one of [`Rule::break_down`]) does.
    pub(super) fn covers(&self, part: &Rule) -> bool {
        let all = |own: &[String], wanted: &[String]| {
            has(own, "*") || wanted.iter().all(|item| has(own, item))
        };
        all(&self.verbs, &part.verbs)
            && all(&self.api_groups, &part.api_groups)
            && part
                .resources
                .iter()
                .all(|resource| self.covers_resource(resource))
            && part.non_resource_urls.iter().all(|url| {
                self.non_resource_urls
                    .iter()
                    .any(|entry| url_covers(entry, url))
            })
            && self.covers_names(&part.resource_names)
    }

    fn covers_resource(&self, resource: &str) -> bool {
        has_or_star(&self.resources, resource)
            || resource
                .split_once('/')
                .is_some_and(|(_, sub)| has(&self.resources, &format!("*/{sub}")))
    }

    fn covers_names(&self, names: &[String]) -> bool {
        self.resource_names.is_empty()
            || (!names.is_empty() && names.iter().all(|name| has(&self.resource_names, name)))
    }
}
