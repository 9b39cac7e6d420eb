//! Triggers: conditions, retries, names, and dependencies that share an event.

use std::collections::{BTreeMap, BTreeSet};

use super::super::finding::{Edit, Fix};
use super::super::site::Site;
use super::super::tree::Mark;
use super::exclusive::exclude_each_other;
use super::parameters::{self, Owner};
use super::{Check, object, short};
use crate::sensor::conditions::Conditions;
use crate::sensor::rate::Rate;
use crate::sensor::trigger;

/// Most pairs of dependencies of a Sensor whose filters are held against each other.
const MOST_PAIRS: usize = 2_000;

/// Checks all triggers, and the pod's log level.
pub(super) fn check(check: &mut Check<'_>, spec: &Site<'_>) {
    let dependencies = spec.list("dependencies");
    let names: Vec<String> = dependencies
        .iter()
        .map(|dependency| dependency.text("name").to_owned())
        .collect();
    let triggers = spec.list("triggers");
    let named = dependencies.iter().map(|one| (one.text("name"), one));
    let named: BTreeMap<&str, &Site<'_>> = named.collect();
    let mut pairs = MOST_PAIRS;
    let mut used: BTreeSet<String> = BTreeSet::new();
    let mut readable = !triggers.is_empty();
    for trigger in &triggers {
        one(check, trigger, &dependencies);
        match conditions(check, trigger, &names) {
            Some(conditions) => {
                shared_event(check, trigger, &conditions, &named, &mut pairs);
                used.extend(conditions.dependencies().iter().cloned());
            }
            None => readable = false,
        }
    }
    if readable {
        unused(check, &dependencies, &used);
    }
    log_level(check, spec);
}

fn one(check: &mut Check<'_>, trigger: &Site<'_>, dependencies: &[Site<'_>]) {
    if let Some(dead_letter) = trigger.get("dlqTrigger") {
        one(check, &dead_letter, dependencies);
    }
    let template = trigger.get("template");
    let acting = template
        .as_ref()
        .and_then(|template| trigger::KINDS.iter().find_map(|kind| template.get(kind)));
    match (&template, &acting) {
        (Some(template), Some(acting)) => not_carried_out(check, template, acting),
        (Some(template), None) if trigger.list("parameters").is_empty() => no_type(check, template),
        _ => {}
    }
    let resource = acting
        .as_ref()
        .and_then(|acting| acting.at(&["source", "resource"]));
    let owner = Owner {
        dependencies,
        resource: resource.as_ref(),
    };
    let of_template = trigger.list("parameters");
    let of_object = acting
        .as_ref()
        .map_or_else(Vec::new, |acting| acting.list("parameters"));
    let payload = acting
        .as_ref()
        .map_or_else(Vec::new, |acting| acting.list("payload"));
    parameters::check(check, &of_template, &owner);
    // What the trigger's own parameters rewrite is not what stands here.
    let rewritten = |part: &str| {
        let mut rewriting = of_template.iter();
        rewriting.any(|parameter| parameter.text("dest").contains(part))
    };
    for (part, list) in [(".parameters.", &of_object), (".payload.", &payload)] {
        if !rewritten(part) {
            parameters::check(check, list, &owner);
        }
    }
    let both: Vec<Site<'_>> = of_template.into_iter().chain(of_object).collect();
    if let (Some(acting), Some(resource)) = (&acting, &resource) {
        fixed_name(check, acting, resource, &both);
        let named = ["metadata.name", "metadata.generateName"];
        if named.iter().all(|path| !parameters::writes(&both, path)) {
            object::check_created(check, resource);
        }
    }
    retry(check, trigger);
    rate(check, trigger);
}

/// A trigger that says nothing to do; one that misspells it is told of the spelling.
fn no_type(check: &mut Check<'_>, template: &Site<'_>) {
    let json = template.json();
    let misspelt = |key: &String| {
        trigger::KINDS
            .iter()
            .any(|kind| kind.eq_ignore_ascii_case(key))
    };
    let mut keys = json.as_object().into_iter().flat_map(serde_json::Map::keys);
    if trigger::kind(&json).is_some() || keys.any(misspelt) {
        return;
    }
    let name = short(template.text("name"));
    let finding = check.report(
        "no-trigger-type",
        template,
        format!(
            "the Sensor goes live, and this trigger fails for every event: invalid trigger {name}, could not find an implementation"
        ),
    );
    finding.meant =
        Some("one of `k8s`, `argoWorkflow`, `http` and so on beside its name".to_owned());
}

/// A trigger of which the cluster inside this program does less than Argo Events.
fn not_carried_out(check: &mut Check<'_>, template: &Site<'_>, acting: &Site<'_>) {
    if let Some(outside) = trigger::outside(&template.json()) {
        let finding = check.report_key(
            "not-carried-out",
            acting,
            format!("Argo Events does this, the cluster inside eventlab does not: {outside}"),
        );
        finding.meant = Some("nothing, if it is for a real cluster".to_owned());
    }
}

fn fixed_name(check: &mut Check<'_>, acting: &Site<'_>, resource: &Site<'_>, list: &[Site<'_>]) {
    let creates = matches!(acting.text("operation"), "" | "create" | "submit");
    let object = resource.json();
    let name = parameters::field(&object, "/metadata/name");
    if !creates || name.is_empty() || parameters::writes(list, "metadata.name") {
        return;
    }
    let site = resource
        .at(&["metadata", "name"])
        .unwrap_or_else(|| resource.clone());
    let finding = check.report(
        "fixed-name",
        &site,
        format!(
            "every event creates `{}`: while the first one exists, the others fail with `already exists` and are lost",
            short(name)
        ),
    );
    finding.meant = Some(
        "`generateName`, or a parameter that puts the business key into `metadata.name`".to_owned(),
    );
}

fn retry(check: &mut Check<'_>, trigger: &Site<'_>) {
    let Some(site) = trigger.get("retryStrategy") else {
        return;
    };
    if trigger.flag("atLeastOnce") {
        return;
    }
    let fix = site
        .key_mark
        .filter(|_| trigger.get("atLeastOnce").is_none())
        .and_then(|key| at_least_once(check, trigger, key));
    let finding = check.report_key(
        "retry-without-at-least-once",
        &site,
        "without `atLeastOnce: true` the trigger runs once, after the event is acknowledged; `retryStrategy` does nothing",
    );
    finding.meant = Some("`atLeastOnce: true` beside it".to_owned());
    finding.fix = fix;
}

/// A rate of no requests.
fn rate(check: &mut Check<'_>, trigger: &Site<'_>) {
    let Some(limit) = trigger.get("rateLimit") else {
        return;
    };
    let (requests, what) = match Rate::read(&limit.json()) {
        Rate::Zero => (0, "Argo Events divides by it when the pod starts"),
        Rate::Negative(requests) => (requests, "no request has a time"),
        Rate::Free | Rate::Every(_) | Rate::Undecodable => return,
    };
    let site = limit.get("requestsPerUnit").unwrap_or(limit);
    let finding = check.report_key(
        "rate-limit",
        &site,
        format!("a limit of {requests} requests is none that a trigger can keep: {what}"),
    );
    finding.meant = Some("1 or more; without a limit, leave `rateLimit` out".to_owned());
}

/// A fix that puts `atLeastOnce: true` before a member of a trigger.
fn at_least_once(check: &Check<'_>, trigger: &Site<'_>, key: &Mark) -> Option<Fix> {
    if key.bytes.is_empty() {
        return None;
    }
    let before = check.source.get(..key.bytes.start)?;
    let indent = &before[before.rfind('\n').map_or(0, |at| at + 1)..];
    let alone = indent.chars().all(|c| matches!(c, ' ' | '\t'));
    let rest = check.source.get(trigger.node.mark.bytes.start..)?;
    let text = match (rest.starts_with('{'), check.json) {
        (true, true) => "\"atLeastOnce\": true,",
        (true, false) => "atLeastOnce: true,",
        (false, _) if alone => "atLeastOnce: true",
        (false, _) => return None,
    };
    let between = if alone {
        format!("\n{indent}")
    } else {
        " ".to_owned()
    };
    Some(Fix {
        title: "add `atLeastOnce: true`".to_owned(),
        safe: false,
        edits: vec![Edit {
            bytes: key.bytes.start..key.bytes.start,
            text: format!("{text}{between}"),
        }],
    })
}

fn conditions(check: &mut Check<'_>, trigger: &Site<'_>, names: &[String]) -> Option<Conditions> {
    let template = trigger.get("template")?;
    let text = template.text("conditions");
    if names.is_empty() {
        return None;
    }
    match Conditions::parse(text, names) {
        Ok(conditions) => Some(conditions),
        Err(error) => {
            let site = template.get("conditions").unwrap_or(template);
            let finding = check.report(
                "bad-conditions",
                &site,
                format!("the trigger is never subscribed: {error}"),
            );
            finding.meant = Some(format!(
                "names of dependencies ({}) joined with && and ||",
                few(names)
            ));
            None
        }
    }
}

/// Names for a message; of many the first ones.
fn few(names: &[String]) -> String {
    const SHOWN: usize = 20;
    let more = if names.len() > SHOWN { ", …" } else { "" };
    let shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    format!("{}{more}", shown.join(", "))
}

/// Two dependencies of one trigger that listen to the same event.
fn shared_event(
    check: &mut Check<'_>,
    trigger: &Site<'_>,
    conditions: &Conditions,
    named: &BTreeMap<&str, &Site<'_>>,
    pairs: &mut usize,
) {
    let mut heard: BTreeMap<(&str, &str), Vec<&Site<'_>>> = BTreeMap::new();
    for name in conditions.dependencies() {
        let Some(one) = named.get(name.as_str()).copied() else {
            continue;
        };
        let address = (one.text("eventSourceName"), one.text("eventName"));
        let before = heard.entry(address).or_default();
        let other = before.iter().copied().find(|other| {
            *pairs = pairs.saturating_sub(1);
            *pairs > 0 && !exclude_each_other(other, one)
        });
        before.push(one);
        let Some(other) = other else {
            continue;
        };
        let (first, second) = (other.text("name"), one.text("name"));
        let site = trigger
            .at(&["template", "conditions"])
            .or_else(|| trigger.at(&["template", "name"]))
            .unwrap_or_else(|| trigger.clone());
        let what = if conditions.needs_several() {
            format!(
                "`{first}` and `{second}` listen to the same event: one that passes both filters counts for both"
            )
        } else {
            format!(
                "`{first}` and `{second}` listen to the same event: one that passes both filters runs the trigger twice"
            )
        };
        let finding = check.report("two-dependencies-on-one-event", &site, what);
        finding.meant = Some(
            "one dependency whose filter says both, or filters that exclude each other".to_owned(),
        );
        return;
    }
}

fn unused(check: &mut Check<'_>, dependencies: &[Site<'_>], used: &BTreeSet<String>) {
    for dependency in dependencies {
        let name = dependency.text("name");
        if name.is_empty() || used.contains(name) {
            continue;
        }
        let site = dependency.get("name").unwrap_or_else(|| dependency.clone());
        let finding = check.report(
            "unused-dependency",
            &site,
            format!(
                "no trigger's `conditions` name `{}`, so its events do nothing",
                short(name)
            ),
        );
        finding.meant = Some("name it in `conditions`, or leave it out".to_owned());
    }
}

fn log_level(check: &mut Check<'_>, spec: &Site<'_>) {
    let Some(container) = spec.at(&["template", "container"]) else {
        return;
    };
    for variable in container.list("env") {
        if variable.text("name") != "LOG_LEVEL" {
            continue;
        }
        let Some(site) = variable.get("value") else {
            continue;
        };
        let text = variable.text("value");
        if text.is_empty() || matches!(text, "debug" | "info" | "warn" | "error") {
            continue;
        }
        let lower = text.trim().to_ascii_lowercase();
        let meant = matches!(lower.as_str(), "debug" | "info" | "warn" | "error").then_some(lower);
        let fix = meant
            .as_deref()
            .and_then(|meant| check.text_fix(&site, meant, format!("write `{meant}`"), true));
        let finding = check.report(
            "log-level",
            &site,
            format!(
                "`{}` is no level and counts as info: a dropped event leaves no line with its id",
                short(text)
            ),
        );
        finding.meant = Some(meant.map_or_else(
            || "one of debug, info, warn, error".to_owned(),
            |meant| format!("`{meant}`"),
        ));
        finding.fix = fix;
    }
}
