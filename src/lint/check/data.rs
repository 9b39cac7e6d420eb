//! Data filters: the entries of `filters.data`, each given to the checks of its parts.

use super::super::site::Site;
use super::{Check, compare, paths, patterns};

/// One entry of `filters.data`.
pub(super) struct Condition<'t> {
    pub site: Site<'t>,
    pub path: &'t str,
    pub kind: &'t str,
    /// As written; empty where it is left out.
    pub comparator: &'t str,
    pub values: Vec<(&'t str, Site<'t>)>,
    pub templated: bool,
    /// A script of the same filters reads the value, too, and may ask for its type.
    pub scripted: bool,
}

impl<'t> Condition<'t> {
    pub(super) fn read(site: Site<'t>) -> Self {
        let values = site.list("value").into_iter();
        Self {
            path: site.text("path"),
            kind: site.text("type"),
            comparator: site.text("comparator"),
            values: values
                .filter_map(|value| Some((value.node.text()?, value)))
                .collect(),
            templated: !site.text("template").is_empty(),
            scripted: false,
            site,
        }
    }

    /// Where a finding about the whole entry points: its most telling part.
    pub(super) fn part(&self, key: &str) -> Site<'t> {
        self.site.get(key).unwrap_or_else(|| self.site.clone())
    }

    pub(super) fn texts(&self) -> Vec<&'t str> {
        self.values.iter().map(|(text, _)| *text).collect()
    }

    /// Whether the path may give a list instead of one value.
    pub(super) fn may_be_list(&self) -> bool {
        let list = self.path.contains('#') || self.path.contains('*');
        list || paths::header_without_index(self.path).is_some()
    }
}

/// Checks one entry; with `alternatives` one entry of the list is enough.
pub(super) fn check(
    check: &mut Check<'_>,
    condition: &Condition<'_>,
    source: Option<&str>,
    alternatives: bool,
) {
    if let Some(path) = condition.site.get("path") {
        paths::check(check, &path, source);
        paths::check_list(check, condition, source);
    }
    compare::check(check, condition, alternatives);
    if condition.kind == "string" {
        for (place, (text, value)) in condition.values.iter().enumerate() {
            patterns::check(check, condition, place, text, value);
        }
    }
    if let Some(template) = condition.site.get("template") {
        super::parameters::check_template(check, &template);
    }
}
