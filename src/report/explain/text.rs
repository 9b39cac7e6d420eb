//! A walk as text: one line a condition, the deciding one marked with `>`; nothing is told by colour.

use std::fmt::Write as _;

use super::{Act, DependencyStep, Live, Stop, TransformStep, TriggerStep, Walk};
use crate::sensor::{ConditionReport, GroupReport, Operator, Outcome};

/// Longest value of a condition, in characters.
const VALUE: usize = 80;
/// Longest line of data or log, in characters; the JSON format has all of it.
const LINE: usize = 1_000;

/// Renders a walk, ending in a line break.
#[must_use]
pub fn render(walk: &Walk) -> String {
    let mut out = String::new();
    let verdict = verdict(walk);
    line(
        &mut out,
        "",
        &format!(
            "{} ({}), event {}: {verdict}",
            walk.sensor, walk.file, walk.event
        ),
    );
    if let Some(live) = &walk.live {
        running(&mut out, live);
    }
    if let Some(intake) = &walk.intake {
        let status = intake
            .status
            .map_or("nobody".to_owned(), |status| status.to_string());
        let assumed = if intake.assumed {
            " (assumed: its EventSource is not known)"
        } else {
            ""
        };
        let answer = format!("{status} {}{assumed}", one_line(&intake.response, LINE));
        line(&mut out, "intake", &answer);
    }
    if let Some(data) = &walk.data {
        line(&mut out, "data", &one_line(data, LINE));
    }
    for dependency in &walk.dependencies {
        filter(&mut out, dependency);
    }
    for trigger in &walk.triggers {
        submit(&mut out, trigger);
    }
    for log in &walk.logs {
        let fields: Vec<String> = log
            .fields
            .iter()
            .map(|(name, value)| format!(" {name}={value}"))
            .collect();
        let text = format!("{}{}", log.msg, fields.concat());
        line(
            &mut out,
            "log",
            &format!("{:<5} {}", log.level, one_line(&text, LINE)),
        );
    }
    for change in &walk.change {
        line(&mut out, "change", change);
    }
    for note in &walk.notes {
        line(&mut out, "note", note);
    }
    out
}

fn running(out: &mut String, live: &Live) {
    let text = if live.same {
        format!("pod {} runs what the Sensor says", live.pod)
    } else {
        format!(
            "pod {} runs something else than the Sensor says; explained is what it runs",
            live.pod
        )
    };
    line(out, "live", &text);
    for condition in &live.conditions {
        line(out, "live", &one_line(condition, LINE));
    }
    for row in &live.difference {
        line(out, "", &format!("         {}", one_line(row, LINE)));
    }
}

fn verdict(walk: &Walk) -> String {
    let acted = walk.triggers.iter().any(|one| !one.triggered_by.is_empty());
    match (walk.passed, walk.stopped_at) {
        _ if !walk.judged && acted => "passes as far as eventlab can judge".to_owned(),
        _ if !walk.judged => "eventlab cannot judge it".to_owned(),
        (true, Some(_)) => "passes, and waits for other events".to_owned(),
        (true, None) => "passes".to_owned(),
        (false, stop) => {
            let place = match stop {
                Some(Stop::Intake) => "intake",
                Some(Stop::Bus) if walk.data.is_some() => "the bus: the Sensor reads another one",
                Some(Stop::Bus) => "the bus, by the EventSource's filter",
                Some(Stop::Transform) => "the transform",
                Some(Stop::Conditions) => "the triggers' conditions",
                Some(Stop::Submit) => "submit",
                Some(Stop::Filter) | None => "the filter",
            };
            format!("stops at {place}")
        }
    }
}

fn line(out: &mut String, name: &str, text: &str) {
    let text = one_line(text, usize::MAX);
    // Writing to a String does not fail.
    let _ = if name.is_empty() {
        writeln!(out, "{text}")
    } else {
        writeln!(out, "{name:<8} {text}")
    };
}

fn filter(out: &mut String, dependency: &DependencyStep) {
    match &dependency.transform {
        None => {}
        Some(TransformStep::Data(data)) => {
            let text = format!("dependency {}: {}", dependency.name, one_line(data, LINE));
            line(out, "made", &text);
        }
        Some(TransformStep::Error(error)) => {
            let text = format!(
                "dependency {} fails: {}",
                dependency.name,
                one_line(error, LINE)
            );
            line(out, "made", &text);
        }
    }
    if let Some(unjudged) = &dependency.unjudged {
        let text = format!(
            "dependency {} is not judged here: {unjudged}",
            dependency.name
        );
        line(out, "filter", &text);
        // As far as it went.
        let groups = dependency.filter.iter().flat_map(|why| &why.groups);
        groups.for_each(|group| group_lines(out, group));
        return;
    }
    let Some(why) = &dependency.filter else {
        return;
    };
    let verdict = if why.passed { "passes" } else { "rejects" };
    let more = match (why.groups.len(), why.operator) {
        (0, _) => ", it has no filters".to_owned(),
        (1, _) => String::new(),
        (_, Operator::And) => ", all groups must hold".to_owned(),
        (_, Operator::Or) => ", one group must hold".to_owned(),
    };
    let text = format!(
        "dependency {} {verdict} ({}){more}",
        dependency.name,
        why.reason.as_str()
    );
    line(out, "filter", &text);
    for group in &why.groups {
        group_lines(out, group);
    }
}

fn group_lines(out: &mut String, group: &GroupReport) {
    let name = serde_json::to_value(group.group).unwrap_or_default();
    let name = name.as_str().unwrap_or_default();
    let rule = match (group.conditions.len(), group.operator) {
        (0 | 1, _) => "",
        (_, Operator::And) => " (all must hold)",
        (_, Operator::Or) => " (one must hold)",
    };
    let alone = group.conditions.is_empty();
    let marker = if alone && group.decided { ">" } else { " " };
    let error = group
        .error
        .as_deref()
        .filter(|_| alone)
        .map(|error| format!(": {}", one_line(error, LINE)));
    let text = format!(
        "{name}{rule} {}{}",
        came_to(group.outcome, group.reason.as_str()),
        error.unwrap_or_default()
    );
    line(out, "", &format!("       {marker} {text}"));
    for condition in &group.conditions {
        let marker = if group.decided && condition.decided {
            ">"
        } else {
            " "
        };
        line(
            out,
            "",
            &format!("       {marker}   {}", condition_text(condition)),
        );
    }
}

fn condition_text(condition: &ConditionReport) -> String {
    let found = match &condition.found {
        None if condition.outcome == Outcome::NotReached => "(not looked at)".to_owned(),
        None => "(not there)".to_owned(),
        Some(found) => {
            let raw = one_line(&found.raw, VALUE);
            let same = found.coerced == found.raw || found.raw.trim_matches('"') == found.coerced;
            if same {
                raw
            } else {
                format!(
                    "{raw} as {}",
                    one_line(&format!("{:?}", found.coerced), VALUE)
                )
            }
        }
    };
    let wanted: Vec<String> = condition
        .values
        .iter()
        .take(10)
        .map(|value| one_line(&value.value, VALUE))
        .collect();
    let more = if condition.values.len() > wanted.len() {
        " or …"
    } else {
        ""
    };
    let ignored = if condition.comparator_ignored {
        " (ignored)"
    } else {
        ""
    };
    let error = match &condition.error {
        Some(error) => format!(": {}", one_line(error, LINE)),
        None => String::new(),
    };
    format!(
        "{}  {found}  {}{ignored}  {}{more}  [{}]  {}{error}",
        one_line(&condition.path, VALUE),
        condition.comparator,
        wanted.join(" or "),
        condition.r#type,
        came_to(condition.outcome, condition.reason.as_str())
    )
}

fn came_to(outcome: Outcome, reason: &str) -> String {
    match outcome {
        Outcome::Passed => "passed".to_owned(),
        Outcome::Failed => format!("failed ({reason})"),
        Outcome::Error => format!("error ({reason})"),
        Outcome::NotReached => "not reached".to_owned(),
    }
}

fn submit(out: &mut String, trigger: &TriggerStep) {
    let by = trigger.triggered_by.join(", ");
    let error = one_line(trigger.error.as_deref().unwrap_or_default(), LINE);
    let text = match trigger.act {
        Act::NotReached => "not reached".to_owned(),
        Act::Waits => format!(
            "has seen {by}, waits for {} ({})",
            trigger.waits_for.join(", "),
            trigger.conditions
        ),
        Act::Fails => format!("fails: {error}"),
        Act::NotShown if by.is_empty() => format!("is not judged here: {error}"),
        Act::NotShown => format!("acts on {by}; with what is not shown: {error}"),
        Act::Submits => {
            let operation = trigger.operation.as_deref().unwrap_or_default();
            format!("acts on {by}: {operation}")
        }
    };
    line(out, "submit", &format!("trigger {} {text}", trigger.name));
    for made in &trigger.objects {
        if trigger.objects.len() > 1 {
            line(out, "", &format!("         from {}:", made.by.join(", ")));
        }
        let text = serde_json::to_string_pretty(&made.object).unwrap_or_default();
        for row in text.lines() {
            line(out, "", &format!("         {row}"));
        }
    }
}

/// A text of several lines, without anything that a terminal would act on.
#[must_use]
pub fn lines(text: &str) -> String {
    let lines: Vec<String> = text
        .lines()
        .map(|line| one_line(line, usize::MAX))
        .collect();
    lines.join("\n")
}

/// JSON with the control characters escaped that JSON itself allows in texts.
#[must_use]
pub fn json_line(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_control() || turns_text(c) {
            // Writing to a String does not fail.
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// A text in one line: what a terminal would act on is escaped, what is too long is cut.
#[must_use]
pub fn one_line(text: &str, limit: usize) -> String {
    let mut out = String::new();
    for (place, c) in text.chars().enumerate() {
        if place == limit {
            out.push('…');
            break;
        }
        if c.is_control() || turns_text(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Characters that a terminal does not show, and that change the order in which it shows others.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
