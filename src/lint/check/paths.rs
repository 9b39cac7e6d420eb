//! Paths into event data: other languages' habits, blanks, places outside of the body, headers, lists.

use serde_json::{Value, json};

use super::super::known::TOP_OF_EVENT_DATA;
use super::super::site::Site;
use super::data::Condition;
use super::trial::{self, document, leads_somewhere};
use super::{Check, short};
use crate::embedded::services::eventsource::payload::canonical;
use crate::sensor::path;

/// Checks a path that a filter or a parameter looks at; `source` is the kind of event source, where it is known.
pub(super) fn check(check: &mut Check<'_>, site: &Site<'_>, source: Option<&str>) {
    let Some(path) = site.node.text().filter(|path| !path.is_empty()) else {
        return;
    };
    let found = blanks(check, site, path)
        || habits(check, site, path)
        || bare_comma(check, site, path)
        || dotted_key(check, site, path);
    if !found {
        outside_body(check, site, path, source);
        header_name(check, site, path, source);
    }
}

/// Whether the path that was meant exists in an event where the written one does not.
fn differs(written: &str, meant: &str) -> bool {
    document(meant, &json!("x")).is_some_and(|data| !leads_somewhere(&data, written))
}

fn blanks(check: &mut Check<'_>, site: &Site<'_>, path: &str) -> bool {
    let names: Vec<&str> = path.split('.').map(str::trim).collect();
    let meant = names.join(".");
    let special = path.contains(['#', '(', '[', '{', '"', '|', '@']);
    if special || meant == path || !differs(path, &meant) {
        return false;
    }
    let fix = check.text_fix(site, &meant, "take the blanks out", true);
    let finding = check.report(
        "blank-in-path",
        site,
        format!(
            "blanks belong to the names in `{}`, so it leads nowhere",
            short(path)
        ),
    );
    finding.meant = Some(format!("`{meant}`"));
    finding.fix = fix;
    true
}

/// JSONPath and jq.
fn habits(check: &mut Check<'_>, site: &Site<'_>, path: &str) -> bool {
    let root = path.starts_with("$.") || path.starts_with("$[");
    let dot = path.starts_with('.') && !path.starts_with("..");
    let index = bracketed_index(path);
    let last = path.split('.').any(|name| name == "-1");
    let all = path.contains("[*]");
    let deep = !path.starts_with("..") && path.contains("..") && !path.contains(['(', '"', '{']);
    if !(root || dot || index || last || all || deep) {
        return false;
    }
    let meant = if last {
        path.replace(".-1", ".@reverse.0")
    } else {
        let path = path.strip_suffix("[*]").unwrap_or(path);
        without_habits(&path.replace("[*]", ".#"))
    };
    // The last element has no plain path: it is tried on a list of one.
    let trial = if last {
        document(&path.replace(".-1", ".0"), &json!("x"))
            .is_some_and(|data| leads_somewhere(&data, &meant) && !leads_somewhere(&data, path))
    } else if all {
        document(&meant.replace(".#", ".0"), &json!("x"))
            .is_some_and(|data| leads_somewhere(&data, &meant) && !leads_somewhere(&data, path))
    } else {
        differs(path, &meant)
    };
    if !trial {
        return false;
    }
    // All elements are a list, and a search in depth may have meant another place.
    let safe = !all && !deep;
    let fix = check.text_fix(site, &meant, "write it as a gjson path", safe);
    let finding = check.report(
        "foreign-path",
        site,
        format!(
            "`{}` is written as in JSONPath or jq; paths are gjson, and this one leads nowhere",
            short(path)
        ),
    );
    finding.meant = Some(if deep {
        format!("`{meant}`, or the whole path: gjson does not search in depth")
    } else if all {
        format!("`{meant}`, the list of all of them; `.0` is the first")
    } else {
        format!("`{meant}`")
    });
    finding.fix = fix;
    true
}

/// A `[0]` or `["name"]` that follows a name.
fn bracketed_index(path: &str) -> bool {
    path.match_indices('[').any(|(at, _)| {
        let before = path[..at].chars().next_back();
        let after = path[at + 1..].chars().next();
        before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | ']'))
            && after.is_some_and(|c| c.is_ascii_digit() || matches!(c, '"' | '\''))
    })
}

fn without_habits(path: &str) -> String {
    let text = path.strip_prefix('$').unwrap_or(path);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '[' => out.push('.'),
            ']' | '"' | '\'' => {}
            c => out.push(c),
        }
    }
    let names: Vec<&str> = out.split('.').filter(|name| !name.is_empty()).collect();
    names.join(".")
}

/// Several paths joined with commas, without the brackets that make them one list.
fn bare_comma(check: &mut Check<'_>, site: &Site<'_>, path: &str) -> bool {
    let mut depth = 0_i32;
    let joined = path.chars().any(|c| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    let each: Vec<&str> = path.split(',').map(str::trim).collect();
    let likely = each.iter().all(|path| path.contains('.'));
    if !joined || !likely || path.starts_with(['[', '{']) {
        return false;
    }
    let meant = format!("[{path}]");
    let fix = check.text_fix(site, &meant, "put it in brackets", true);
    let finding = check.report(
        "foreign-path",
        site,
        format!(
            "commas join paths only inside of brackets; `{}` is one path that leads nowhere",
            short(path)
        ),
    );
    finding.meant = Some(format!("`{meant}`, whose text is a JSON list"));
    finding.fix = fix;
    true
}

/// Maps of Kubernetes whose keys may have dots and whose values are texts.
const MAPS: [&str; 4] = ["labels", "annotations", "matchLabels", "nodeSelector"];
/// Hosts that such keys begin or end with, as their last two names: of others nobody can tell whether they are one.
const HOSTS: [&str; 16] = [
    "amazonaws.com",
    "argoproj.io",
    "azure.com",
    "cert-manager.io",
    "fluxcd.io",
    "google.com",
    "helm.sh",
    "istio.io",
    "k8s.io",
    "knative.dev",
    "kubernetes.io",
    "openshift.io",
    "prometheus.io",
    "tekton.dev",
    "x-k8s.io",
    "crossplane.io",
];

/// Whether the names of a path before `/` end in a host of Kubernetes' world.
fn is_host(before: &str) -> bool {
    HOSTS.iter().any(|host| {
        let rest = before.strip_suffix(host);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

/// Label and annotation keys, whose dots are part of the name.
fn dotted_key(check: &mut Check<'_>, site: &Site<'_>, path: &str) -> bool {
    let Some((kept, key)) = host_key(path) else {
        return false;
    };
    let meant = kept.map(|kept| format!("{kept}{}", key.replace('.', "\\.")));
    if meant.as_ref().is_some_and(|meant| !differs(path, meant)) {
        return false;
    }
    let fix = meant
        .as_ref()
        .and_then(|meant| check.text_fix(site, meant, "escape the dots of the key", true));
    let what = match kept {
        Some(_) => format!("so the key `{key}` is not found"),
        None => format!("also those of the key that ends in `{key}`"),
    };
    let finding = check.report(
        "unescaped-key",
        site,
        format!("every dot in `{}` starts a new name, {what}", short(path)),
    );
    let meant = meant.unwrap_or_else(|| "app\\.kubernetes\\.io/name".to_owned());
    finding.meant = Some(format!(
        "{}`{meant}` (in single quotes, or `\\\\.` in double quotes)",
        match kept {
            Some(_) => "",
            None => "an escape before each dot of the key, as in ",
        }
    ));
    finding.fix = fix;
    true
}

/// Whether a path goes on with an element of a list.
fn is_element(path: &str) -> bool {
    let first = path.split('.').next().unwrap_or_default();
    first.bytes().all(|c| c.is_ascii_digit())
}

/// A key with a host in a path, and what stands before it where that is known.
fn host_key(path: &str) -> Option<(Option<&str>, &str)> {
    if path.contains(['\\', '#', '|', '*', '@', '?']) {
        return None;
    }
    let mut at = 0;
    let mut in_map = None;
    for name in path.split('.') {
        let start = at;
        at += name.len() + 1;
        if in_map.is_none() && MAPS.contains(&name) {
            in_map = path.split_at_checked(at);
        }
        let Some((end, _)) = name.split_once('/') else {
            continue;
        };
        let before = path.get(..start + end.len()).unwrap_or_default();
        return match in_map {
            Some((kept, key)) if key.contains('.') && !is_element(key) => Some((Some(kept), key)),
            Some(_) => None,
            None if start > 0 && is_host(before) => Some((None, &path[start..])),
            None => continue,
        };
    }
    None
}

/// The first name of a path that starts with a plain one.
fn first_name(path: &str) -> Option<&str> {
    let name = path.split(['.', '|']).next()?;
    let plain = name
        .chars()
        .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    (plain && !name.is_empty()).then_some(name)
}

fn outside_body(check: &mut Check<'_>, site: &Site<'_>, path: &str, source: Option<&str>) {
    let Some(first) = first_name(path) else {
        return;
    };
    let (nowhere, who) = match source {
        Some("webhook") => (
            !matches!(first, "header" | "body" | "metadata"),
            "the data of a webhook event has `header` and `body` at its top",
        ),
        Some(_) => return,
        None if of_no_code_host(path) => (
            true,
            "only GitHub, GitLab and Bitbucket give their events `headers`, and they send no such header: a webhook has `header`",
        ),
        None => (
            !TOP_OF_EVENT_DATA.contains(&first),
            "no source over HTTP puts such a name at the top of event data: that of a webhook is `header` and `body`",
        ),
    };
    if !nowhere {
        return;
    }
    let meant = if first == "headers" {
        path.replacen("headers", "header", 1)
    } else if first.eq_ignore_ascii_case("body") || first.eq_ignore_ascii_case("header") {
        path.replacen(first, &first.to_ascii_lowercase(), 1)
    } else {
        format!("body.{path}")
    };
    if !differs(path, &meant) {
        return;
    }
    let fix = check.text_fix(site, &meant, format!("write `{meant}`"), source.is_some());
    let finding = check.report(
        "path-outside-body",
        site,
        match source {
            Some(_) => format!("{who}; `{}` leads nowhere", short(path)),
            None => format!("{who}; there `{}` leads nowhere", short(path)),
        },
    );
    finding.meant = Some(format!("`{meant}`"));
    finding.fix = fix;
}

/// Whether a path under `headers` names a header of somebody's own.
fn of_no_code_host(path: &str) -> bool {
    const HOSTS: [&str; 9] = [
        "github",
        "gitlab",
        "hub-",
        "hook-",
        "event-",
        "request-",
        "attempt",
        "b3-",
        "forwarded",
    ];
    let name = path.strip_prefix("headers.").unwrap_or_default();
    let name = name.to_ascii_lowercase();
    let own = name.strip_prefix("x-");
    own.is_some_and(|name| !HOSTS.iter().any(|host| name.starts_with(host)))
}

/// The name of a header, and what follows it.
fn header_parts(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix("header.")?;
    let (name, more) = rest.split_once('.').unwrap_or((rest, ""));
    let token = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    (token && !name.is_empty()).then_some((name, more))
}

/// The header that a path takes as a whole, which is a list.
pub(super) fn header_without_index(path: &str) -> Option<&str> {
    header_parts(path)
        .filter(|(_, more)| more.is_empty())
        .map(|(name, _)| name)
}

fn header_name(check: &mut Check<'_>, site: &Site<'_>, path: &str, source: Option<&str>) {
    if !matches!(source, None | Some("webhook" | "sns")) {
        return;
    }
    let Some((name, more)) = header_parts(path) else {
        return;
    };
    let canonical = String::from_utf8_lossy(&canonical(name)).into_owned();
    if canonical == name {
        return;
    }
    let rest = if more.is_empty() {
        String::new()
    } else {
        format!(".{more}")
    };
    let meant = format!("header.{canonical}{rest}");
    let fix = check.text_fix(site, &meant, format!("write `{meant}`"), source.is_some());
    let finding = check.report(
        "header-name",
        site,
        format!(
            "the names of HTTP headers arrive as `{canonical}`, whatever the client wrote, and paths are case-sensitive: `{}` leads nowhere",
            short(path)
        ),
    );
    finding.meant = Some(format!("`{meant}`"));
    finding.fix = fix;
}

/// Paths whose value is a list where one value is wanted.
pub(super) fn check_list(check: &mut Check<'_>, condition: &Condition<'_>, source: Option<&str>) {
    if condition.templated {
        return;
    }
    header_index(check, condition, source);
    if matches!(condition.kind, "number" | "bool") && gives_list(condition.path) {
        let as_what = if condition.kind == "number" {
            "0"
        } else {
            "false"
        };
        let finding = check.report(
            "list-as-scalar",
            &condition.part("path"),
            format!(
                "`{}` gives a list, and a list counts as {as_what}: its elements are never compared",
                short(condition.path)
            ),
        );
        finding.meant = Some(
            "one element (`.0`), a query that finds one (`#(sku==\"B2\").qty`), or a script"
                .to_owned(),
        );
    }
}

fn header_index(check: &mut Check<'_>, condition: &Condition<'_>, source: Option<&str>) {
    let Some(name) = header_without_index(condition.path) else {
        return;
    };
    if !matches!(source, None | Some("webhook" | "sns")) {
        return;
    }
    let value = condition.texts().first().map_or("x", |text| *text);
    let bare = value
        .trim_start_matches('^')
        .trim_end_matches('$')
        .replace('\\', "");
    let name = String::from_utf8_lossy(&canonical(name)).into_owned();
    let data = json!({"header": {name.clone(): [bare]}, "body": {}}).to_string();
    let with = |path: String| {
        let mut entry = condition.site.json();
        entry["path"] = Value::String(path);
        let filters = json!({ "data": [entry] });
        trial::explain(&filters, "", &data).is_some_and(|why| why.passed)
    };
    let (whole, first) = (
        with(format!("header.{name}")),
        with(format!("header.{name}.0")),
    );
    let what = match (whole, first) {
        (false, true) => format!(
            "the value is a JSON list, `[\"{}\"]`, so the condition never holds as it is meant",
            short(&bare)
        ),
        (true, _) if condition.kind == "string" => format!(
            "the value is a JSON list, and the pattern is searched in its text `[\"{}\"]`",
            short(&bare)
        ),
        _ => return,
    };
    let meant = format!("{}.0", condition.path);
    let site = condition.part("path");
    let fix = check.text_fix(
        &site,
        &meant,
        "take the first value",
        !whole && source.is_some(),
    );
    let finding = check.report(
        "header-index",
        &site,
        format!("a header has a list of values: {what}"),
    );
    finding.meant = Some(format!("`{meant}`"));
    finding.fix = fix;
}

/// Whether a path with `#` gives a list in an event that has what it asks for.
fn gives_list(wanted: &str) -> bool {
    let Some((before, after)) = wanted.split_once(".#.") else {
        return wanted.ends_with(")#") || wanted.contains(")#.");
    };
    let Some(inner) =
        document(after, &json!(1)).and_then(|text| serde_json::from_str::<Value>(&text).ok())
    else {
        return false;
    };
    let Some(data) = document(before, &json!([inner])) else {
        return false;
    };
    path::get(data.as_bytes(), wanted.as_bytes()).is_ok_and(|value| value.is_array())
}
