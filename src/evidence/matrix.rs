//! The verification matrix: one line a stage, with the counters that must come out of it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::fact::{Fact, Observation};
use super::table::{Counters, counters};
use super::trail::Scope;

/// One line: what was sent in a stage, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MatrixLine {
    pub stage: String,
    pub title: String,
    pub intakes: u64,
    pub approved: u64,
    pub completed: u64,
    /// Intended effects: the orders of the line.
    pub orders: u64,
    /// Effects in the ledger.
    pub effects: u64,
    /// Records at the destination; absent where there is none.
    pub records: Option<u64>,
    /// Orders that were unresolved at some time: cases that were to be seen.
    pub unresolved: u64,
    /// Orders that are unresolved still.
    pub open: u64,
    /// Whether each order for itself has one effect, and one record where records are kept.
    pub each_once: bool,
    /// Whether the stage has passed, with the fate of each request.
    pub passed: bool,
}

impl MatrixLine {
    /// One effect and one record of each intended effect, nothing left open, and the stage has passed.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.passed && self.orders > 0 && self.each_once && self.open == 0
    }
}

/// The last look at each order of a stage.
fn last_looks(facts: &[Fact]) -> Vec<(u64, Option<u64>, Option<&str>)> {
    let mut looks = BTreeMap::new();
    for fact in facts {
        if let Observation::OrderState {
            order,
            action,
            effects,
            records,
            claim,
            ..
        } = &fact.observation
        {
            looks.insert((order, action), (*effects, *records, claim.as_deref()));
        }
    }
    looks.into_values().collect()
}

/// The line of a stage, from the facts of its last go.
#[must_use]
pub fn matrix_line(
    facts: &[Fact],
    scope: Scope<'_>,
    stage: &str,
    title: &str,
    passed: bool,
) -> MatrixLine {
    let own: Vec<Fact> = facts
        .iter()
        .filter(|fact| fact.stage == stage && fact.counts_in(scope.lab, scope.attempt))
        .cloned()
        .collect();
    let Counters {
        intakes,
        approved,
        completed,
        ..
    } = counters(&own, scope);
    let looks = last_looks(&own);
    let unresolved: BTreeSet<&str> = own
        .iter()
        .filter(|fact| {
            matches!(&fact.observation, Observation::ClaimChanged { state, .. } if state == "unresolved")
        })
        .filter_map(|fact| fact.business_key.as_deref())
        .collect();
    let records: Vec<u64> = looks
        .iter()
        .filter_map(|(_, records, _)| *records)
        .collect();
    MatrixLine {
        stage: stage.to_owned(),
        title: title.to_owned(),
        intakes,
        approved,
        completed,
        orders: looks.len() as u64,
        effects: looks.iter().map(|(effects, ..)| effects).sum(),
        records: (!records.is_empty()).then(|| records.iter().sum()),
        unresolved: unresolved.len() as u64,
        open: looks
            .iter()
            .filter(|(.., claim)| *claim == Some("unresolved"))
            .count() as u64,
        each_once: looks
            .iter()
            .all(|(effects, records, _)| *effects == 1 && records.is_none_or(|count| count == 1)),
        passed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Layer;
    use crate::evidence::testing::{LAB, fact, numbered};

    fn look(order: &str, effects: u64, records: u64, claim: &str) -> Fact {
        fact(
            Layer::Effect,
            Observation::OrderState {
                order: order.into(),
                action: "notify".into(),
                attempts: 2,
                effects,
                records: Some(records),
                claim: Some(claim.into()),
            },
        )
    }

    fn line(facts: Vec<Fact>, passed: bool) -> MatrixLine {
        let scope = Scope {
            lab: LAB,
            attempt: 1,
            settled: true,
        };
        matrix_line(&numbered(facts), scope, "send", "A line", passed)
    }

    #[test]
    fn a_line_holds_with_one_effect_and_one_record_an_order_and_nothing_open() {
        for (facts, passed, holds) in [
            (vec![look("a", 1, 1, "completed")], true, true),
            (vec![look("a", 1, 1, "completed")], false, false),
            (vec![], true, false),
            (vec![look("a", 1, 2, "completed")], true, false),
            (vec![look("a", 2, 1, "completed")], true, false),
            (vec![look("a", 0, 1, "unresolved")], true, false),
            (vec![look("a", 1, 1, "unresolved")], true, false),
            (
                vec![look("a", 1, 1, "completed"), look("b", 1, 1, "completed")],
                true,
                true,
            ),
            // Only the last look at an order counts.
            (
                vec![look("a", 0, 1, "unresolved"), look("a", 1, 1, "completed")],
                true,
                true,
            ),
            // One order twice and the other never: the sums alone would hold.
            (
                vec![look("a", 2, 1, "completed"), look("b", 0, 1, "completed")],
                true,
                false,
            ),
            (
                vec![look("a", 1, 2, "completed"), look("b", 1, 0, "completed")],
                true,
                false,
            ),
        ] {
            let line = line(facts.clone(), passed);
            assert_eq!(line.holds(), holds, "{line:?} {facts:?}");
        }
    }

    #[test]
    fn what_was_unresolved_stays_to_be_seen() {
        let mut seen = fact(
            Layer::Effect,
            Observation::ClaimChanged {
                action: "notify".into(),
                state: "unresolved".into(),
                reference: String::new(),
            },
        );
        seen.business_key = Some("a".into());
        let line = line(vec![seen, look("a", 1, 1, "completed")], true);
        assert_eq!((line.unresolved, line.open, line.holds()), (1, 0, true));
    }
}
