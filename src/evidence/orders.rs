//! What must stand about an order: effects in the ledger, entries at the destination, the state of its claim.
//!
//! Judged from one whole look at both after everything that was sent had come to its end; a look that was not made proves
//! nothing.

use super::fact::{Fact, Observation};
use super::journal::Judgement;
use super::verdict::{Occasion, Outcome, Verdict};
use crate::words::counted;

/// What a stage expects of one order and action; a field that is not given is not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderExpectation {
    /// Name of the check.
    pub name: String,
    pub order: String,
    pub action: String,
    pub attempts: Option<u64>,
    pub effects: Option<u64>,
    pub effects_at_least: Option<u64>,
    pub records: Option<u64>,
    /// State of the claim, or `none`.
    pub claim: Option<String>,
}

/// What was seen of an order.
struct Seen<'a> {
    attempts: u64,
    effects: u64,
    records: Option<u64>,
    claim: Option<&'a str>,
}

/// Judges every expectation by the last look of this stage and attempt.
///
/// `not_looked` says why the look was not made. `open` says why the books were not closed by then: a run had not come to its
/// end, or the environment kept it from its work. What is missing may still come, and what is right may still become too
/// much; only what is too much already is decided.
#[must_use]
pub fn judge_orders(
    occasion: Occasion<'_>,
    expected: &[OrderExpectation],
    facts: &[Fact],
    not_looked: Option<&str>,
    open: Option<&str>,
) -> Vec<Judgement> {
    expected
        .iter()
        .map(|expectation| {
            let look = last_look(expectation, occasion, facts);
            Judgement {
                order: Some(expectation.name.clone()),
                ..occasion.judgement(holds(expectation, look, not_looked, open))
            }
        })
        .collect()
}

fn last_look<'a>(
    expectation: &OrderExpectation,
    occasion: Occasion<'_>,
    facts: &'a [Fact],
) -> Option<(&'a Fact, Seen<'a>)> {
    facts
        .iter()
        .filter(|fact| fact.counts_in(occasion.lab, occasion.attempt))
        .filter(|fact| fact.stage == occasion.stage)
        .filter_map(|fact| match &fact.observation {
            Observation::OrderState {
                order,
                action,
                attempts,
                effects,
                records,
                claim,
            } if *order == expectation.order && *action == expectation.action => Some((
                fact,
                Seen {
                    attempts: *attempts,
                    effects: *effects,
                    records: *records,
                    claim: claim.as_deref(),
                },
            )),
            _ => None,
        })
        .max_by_key(|(fact, _)| fact.seq)
}

fn holds(
    expectation: &OrderExpectation,
    look: Option<(&Fact, Seen<'_>)>,
    not_looked: Option<&str>,
    open: Option<&str>,
) -> Verdict {
    let claim = format!(
        "order {} {}: {}",
        expectation.order,
        expectation.action,
        wanted(expectation).join(", ")
    );
    let verdict = |outcome, because: Option<String>, facts| Verdict {
        outcome,
        claim: claim.clone(),
        because,
        facts,
    };
    let Some((fact, seen)) = look else {
        let because = not_looked.unwrap_or("the ledger was not read after the probes");
        return verdict(Outcome::Unproven, Some(because.to_owned()), Vec::new());
    };
    let facts = vec![fact.seq];
    if expectation.records.is_some() && seen.records.is_none() {
        let because = "there is no destination to look at".to_owned();
        return verdict(Outcome::Unproven, Some(because), facts);
    }
    let differences = differences(expectation, &seen);
    match open {
        Some(why) if differences.is_empty() => {
            let because = format!("{why}, and could still add to it");
            verdict(Outcome::Unproven, Some(because), facts)
        }
        Some(why) if !too_much(expectation, &seen) => {
            let because = format!("{}, and {why}", differences.join(", "));
            verdict(Outcome::Unproven, Some(because), facts)
        }
        None if differences.is_empty() => verdict(Outcome::Proven, None, facts),
        _ => verdict(Outcome::Refuted, Some(differences.join(", ")), facts),
    }
}

fn wanted(expectation: &OrderExpectation) -> Vec<String> {
    let mut parts = Vec::new();
    parts.extend(expectation.attempts.map(|count| counted(count, "attempt")));
    parts.extend(expectation.effects.map(|count| counted(count, "effect")));
    parts.extend(
        expectation
            .effects_at_least
            .map(|count| format!("at least {}", counted(count, "effect"))),
    );
    parts.extend(
        expectation
            .records
            .map(|count| counted(count, "destination record")),
    );
    parts.extend(
        expectation
            .claim
            .as_ref()
            .map(|claim| format!("claim {claim}")),
    );
    parts
}

fn differences(expectation: &OrderExpectation, seen: &Seen<'_>) -> Vec<String> {
    let mut parts = Vec::new();
    if expectation
        .attempts
        .is_some_and(|count| count != seen.attempts)
    {
        parts.push(format!("it has {}", counted(seen.attempts, "attempt")));
    }
    let few = expectation
        .effects_at_least
        .is_some_and(|least| seen.effects < least);
    if few
        || expectation
            .effects
            .is_some_and(|count| count != seen.effects)
    {
        parts.push(format!("it has {}", counted(seen.effects, "effect")));
    }
    if let Some(records) = seen.records
        && expectation.records.is_some_and(|count| count != records)
    {
        parts.push(format!("it has {}", counted(records, "destination record")));
    }
    let claim = seen.claim.unwrap_or("none");
    if expectation
        .claim
        .as_ref()
        .is_some_and(|wanted| wanted != claim)
    {
        parts.push(format!("its claim is {claim}"));
    }
    parts
}

/// Whether there is more than there should be, which no later run takes back.
fn too_much(expectation: &OrderExpectation, seen: &Seen<'_>) -> bool {
    let more = |wanted: Option<u64>, there: u64| wanted.is_some_and(|count| there > count);
    more(expectation.attempts, seen.attempts)
        || more(expectation.effects, seen.effects)
        || more(expectation.records, seen.records.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Layer;
    use crate::evidence::testing::{fact, numbered};

    fn expectation() -> OrderExpectation {
        OrderExpectation {
            name: "once".into(),
            order: "o-1".into(),
            action: "notify".into(),
            attempts: None,
            effects: Some(1),
            effects_at_least: None,
            records: Some(1),
            claim: Some("completed".into()),
        }
    }

    fn look(effects: u64, records: Option<u64>, claim: Option<&str>) -> Fact {
        fact(
            Layer::Effect,
            Observation::OrderState {
                order: "o-1".into(),
                action: "notify".into(),
                attempts: effects,
                effects,
                records,
                claim: claim.map(str::to_owned),
            },
        )
    }

    fn outcome(facts: Vec<Fact>, under_way: bool) -> (Outcome, String) {
        let facts = numbered(facts);
        let (lab, stage, attempt) = facts.first().map_or_else(
            || ("l".to_owned(), "s".to_owned(), 1),
            |fact| (fact.lab.clone(), fact.stage.clone(), fact.attempt),
        );
        let occasion = Occasion {
            time: jiff::Timestamp::UNIX_EPOCH,
            lab: &lab,
            stage: &stage,
            attempt,
        };
        let open = under_way.then_some("a run had not ended by then");
        let judged = judge_orders(occasion, &[expectation()], &facts, None, open);
        (
            judged[0].verdict.outcome,
            judged[0].verdict.because.clone().unwrap_or_default(),
        )
    }

    #[test]
    fn an_order_is_judged_by_the_last_whole_look() {
        for (facts, want, because) in [
            (vec![], Outcome::Unproven, "not read"),
            (
                vec![look(1, Some(1), Some("completed"))],
                Outcome::Proven,
                "",
            ),
            (
                vec![look(1, None, Some("completed"))],
                Outcome::Unproven,
                "no destination",
            ),
            (
                vec![look(1, Some(2), Some("completed"))],
                Outcome::Refuted,
                "2 destination records",
            ),
            (
                vec![look(0, Some(1), Some("unresolved"))],
                Outcome::Refuted,
                "it has 0 effects, its claim is unresolved",
            ),
            (
                vec![look(2, Some(2), None), look(1, Some(1), Some("completed"))],
                Outcome::Proven,
                "",
            ),
            (
                vec![look(1, Some(1), None)],
                Outcome::Refuted,
                "its claim is none",
            ),
        ] {
            let (outcome, text) = outcome(facts, false);
            assert_eq!(outcome, want, "{text}");
            assert!(text.contains(because), "{text}");
        }
    }

    /// A run that has not ended can still bring what is missing or one too many; it takes nothing away.
    #[test]
    fn while_a_run_is_under_way_only_what_is_too_much_is_decided() {
        for (seen, want) in [
            (look(0, Some(0), None), Outcome::Unproven),
            (look(0, Some(1), Some("processing")), Outcome::Unproven),
            (look(2, Some(1), Some("completed")), Outcome::Refuted),
            (look(1, Some(2), Some("completed")), Outcome::Refuted),
            (look(1, Some(1), Some("completed")), Outcome::Unproven),
        ] {
            let (outcome, text) = outcome(vec![seen], true);
            assert_eq!(outcome, want, "{text}");
        }
    }
}
