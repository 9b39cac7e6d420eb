//! The four counters of a session in the text format of Prometheus, from the evidence alone.
//!
//! Where Argo counts the same thing its name is used, so that the same queries work on both.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::evidence::table::{Counters, counters};
use crate::evidence::{Entry, Fact, Scope};

/// Name, help and labels beside `lab`.
const METRICS: [(&str, &str, &str); 4] = [
    (
        "argo_events_events_sent_total",
        "Requests that were answered 200 or are on the bus.",
        "",
    ),
    (
        "eventlab_approved_events_total",
        "Distinct events that a trigger submitted, or was refused for. Argo counts actions instead: argo_events_action_triggered_total and argo_events_action_failed_total.",
        "",
    ),
    (
        "argo_workflows_total_count",
        "Distinct Workflows that ended Succeeded.",
        ",phase=\"Succeeded\"",
    ),
    (
        "eventlab_business_effects_total",
        "Distinct effect rows of the order ledger. Argo cannot know them.",
        "",
    ),
];

/// The counters of every lab, over all its attempts.
#[must_use]
pub fn render(entries: &[Entry]) -> String {
    let facts: Vec<Fact> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Fact(fact) => Some(fact.clone()),
            _ => None,
        })
        .collect();
    let mut labs: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for fact in facts.iter().filter(|fact| fact.attempt > 0) {
        let attempts = labs.entry(&fact.lab).or_default();
        if !attempts.contains(&fact.attempt) {
            attempts.push(fact.attempt);
        }
    }
    let counted: Vec<(&str, Counters)> = labs
        .iter()
        .map(|(lab, attempts)| (*lab, sum(&facts, lab, attempts)))
        .collect();
    let mut text = String::new();
    for (index, (name, help, labels)) in METRICS.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter");
        for (lab, counters) in &counted {
            let value = [
                counters.intakes,
                counters.approved,
                counters.completed,
                counters.effects,
            ]
            .get(index)
            .copied()
            .unwrap_or(0);
            let _ = writeln!(text, "{name}{{lab=\"{}\"{labels}}} {value}", escaped(lab));
        }
    }
    text
}

fn sum(facts: &[Fact], lab: &str, attempts: &[u32]) -> Counters {
    let mut total = Counters::default();
    for attempt in attempts {
        let scope = Scope {
            lab,
            attempt: *attempt,
            settled: true,
        };
        let one = counters(facts, scope);
        total.intakes += one.intakes;
        total.approved += one.approved;
        total.completed += one.completed;
        total.effects += one.effects;
    }
    total
}

fn escaped(text: &str) -> String {
    text.replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_counters_stand_there_even_before_the_first_event() {
        let text = render(&[]);
        assert_eq!(text.matches("# TYPE").count(), 4);
        assert!(!text.contains("lab="));
        assert_eq!(escaped("a\"b\\\n"), r#"a\"b\\\n"#);
    }
}
