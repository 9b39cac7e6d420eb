//! Keys that Argo Events does not know: misspelt, in the wrong place, or simply ignored.

use serde_json::Value;

use super::super::known::{Holds, Level};
use super::super::site::Site;
use super::super::tree::{Entry, Kind};
use super::{Check, short};
use crate::sensor::{Event, Filter};

/// Checks the keys of a whole Sensor.
pub(super) fn check(check: &mut Check<'_>, root: &Site<'_>) {
    level(check, root, Level::Sensor, None);
}

/// Checks one object; `dependency` is the dependency around it.
fn level(check: &mut Check<'_>, site: &Site<'_>, at: Level, dependency: Option<&Site<'_>>) {
    let Kind::Map(entries) = &site.node.kind else {
        return;
    };
    let dependency = if at == Level::Dependency {
        Some(site)
    } else {
        dependency
    };
    for entry in entries {
        let child = Site {
            node: &entry.value,
            path: if site.path.is_empty() {
                entry.key.clone()
            } else {
                format!("{}.{}", site.path, entry.key)
            },
            key_mark: Some(&entry.key_mark),
        };
        match at.field(&entry.key) {
            None => unknown(check, entries, entry, &child, at, dependency),
            Some(Holds::Anything) => {}
            Some(Holds::One(inner)) => level(check, &child, inner, dependency),
            Some(Holds::Many(inner)) => {
                for item in child.items() {
                    level(check, &item, inner, dependency);
                }
            }
        }
    }
}

fn unknown(
    check: &mut Check<'_>,
    entries: &[Entry],
    entry: &Entry,
    site: &Site<'_>,
    at: Level,
    dependency: Option<&Site<'_>>,
) {
    let key = entry.key.as_str();
    let free = |name: &str| !entries.iter().any(|other| other.key == name);
    let consequence = consequence(dependency, at, key);
    if let Some(near) = nearest(key, at) {
        let fix = free(near)
            .then(|| check.key_fix(&entry.key_mark, key, near))
            .flatten();
        let finding = check.report_key(
            "misspelt-key",
            site,
            format!("`{}` is ignored{consequence}", short(key)),
        );
        finding.meant = Some(format!("`{near}`"));
        finding.fix = fix;
    } else if let Some(owners) = elsewhere(key, at) {
        let finding = check.report_key(
            "misplaced-key",
            site,
            format!(
                "`{}` is ignored here, in {}{consequence}",
                short(key),
                at.title()
            ),
        );
        finding.meant = Some(format!("it belongs to {owners}"));
    } else {
        let finding = check.report_key(
            "unknown-key",
            site,
            format!(
                "`{}` is no field of {} and is ignored{consequence}",
                short(key),
                at.title()
            ),
        );
        let known: Vec<&str> = at.fields().iter().map(|(name, _)| *name).collect();
        finding.meant = (known.len() < 9).then(|| format!("one of {}", known.join(", ")));
    }
}

/// The known field that a key is a spelling of.
fn nearest(key: &str, at: Level) -> Option<&'static str> {
    let fields = at.fields().iter().map(|(name, _)| *name);
    let simple = |text: &str| text.to_lowercase().replace(['-', '_'], "");
    let same = fields.clone().find(|name| simple(name) == simple(key));
    same.or_else(|| {
        let near = fields.filter(|name| name.len() > 3 && key.len() > 3);
        let mut near: Vec<(usize, &str)> = near
            .filter_map(|name| Some((distance(&simple(key), &simple(name))?, name)))
            .filter(|(far, name)| *far <= if name.len() > 6 { 2 } else { 1 })
            .collect();
        near.sort_unstable();
        near.first().map(|(_, name)| *name)
    })
}

/// Where a key is known.
fn elsewhere(key: &str, at: Level) -> Option<String> {
    // Names that say nothing about where they belong.
    if matches!(
        key,
        "name"
            | "type"
            | "source"
            | "value"
            | "template"
            | "metadata"
            | "time"
            | "path"
            | "k8s"
            | "version"
            | "id"
    ) {
        return None;
    }
    let owners: Vec<&str> = Level::ALL
        .iter()
        .filter(|level| **level != at && level.field(key).is_some())
        .map(|level| level.title())
        .collect();
    (!owners.is_empty() && owners.len() < 4).then(|| owners.join(" or "))
}

/// What comes of it that a key is ignored, where it is a key of filters.
fn consequence(dependency: Option<&Site<'_>>, at: Level, key: &str) -> &'static str {
    let of_filters = at == Level::Filters
        || (at == Level::Dependency
            && (nearest(key, at) == Some("filters") || Level::Filters.field(key).is_some()));
    match dependency {
        Some(dependency) if of_filters && accepts_everything(dependency) => {
            ", so this dependency has no filter and every event passes"
        }
        _ => "",
    }
}

/// Whether a dependency has no filter at all.
fn accepts_everything(dependency: &Site<'_>) -> bool {
    let json = dependency.json();
    let filters = json
        .get("filters")
        .filter(|filters| **filters != Value::Null);
    Filter::of_manifest(filters, "").is_ok_and(|filter| {
        let why = filter.explain(&Event::default());
        why.passed && why.groups.is_empty()
    })
}

/// How many characters have to be put in, taken out, changed or swapped; `None` for long names.
fn distance(one: &str, other: &str) -> Option<usize> {
    const LONGEST: usize = 40;
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    if one.len().max(other.len()) > LONGEST || one.len().abs_diff(other.len()) > 2 {
        return None;
    }
    let mut rows: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let change = rows[i][j] + usize::from(a != b);
            let mut best = change.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && one[i - 1] == *b && other[j - 1] == *a {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows.last().and_then(|row| row.last().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_are_recognized() {
        for (key, at, near) in [
            ("filter", Level::Dependency, Some("filters")),
            ("Filters", Level::Dependency, Some("filters")),
            (
                "dataLogicaloperator",
                Level::Filters,
                Some("dataLogicalOperator"),
            ),
            (
                "dataLogicalOperater",
                Level::Filters,
                Some("dataLogicalOperator"),
            ),
            (
                "data_logical_operator",
                Level::Filters,
                Some("dataLogicalOperator"),
            ),
            ("values", Level::Data, Some("value")),
            ("comparater", Level::Data, Some("comparator")),
            (
                "eventsourceName",
                Level::Dependency,
                Some("eventSourceName"),
            ),
            ("atleastOnce", Level::Trigger, Some("atLeastOnce")),
            ("name", Level::Filters, None),
            ("description", Level::Dependency, None),
        ] {
            assert_eq!(nearest(key, at), near, "{key}");
        }
    }
}
