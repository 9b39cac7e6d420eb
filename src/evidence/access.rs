//! Rights of service accounts: what a stage expects of them, judged from access reviews.
//!
//! A right that is missing and a right that is too much are both refuted; a review that was not made proves nothing.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fact::{Fact, Observation};
use super::journal::Judgement;
use super::layer::Layer;
use super::verdict::{Occasion, Outcome, Verdict};

/// A right of a service account of the lab's namespace, as an access review asks for it.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct Right {
    /// Name of the service account.
    pub account: String,
    pub verb: String,
    /// API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Plural, with its subresource where there is one: `pods/exec`.
    pub resource: String,
}

impl Right {
    /// The verb and the resource that stand for every right which the stage does not list as allowed.
    const ANY_OTHER: (&'static str, &'static str) = ("any-other", "right");

    /// Whether this stands for every right of the account that the stage does not list as allowed.
    #[must_use]
    pub fn is_any_other(&self) -> bool {
        (self.verb.as_str(), self.resource.as_str()) == Self::ANY_OTHER && self.group.is_empty()
    }

    /// The layer that needs it: Workflows are made at `submit`, everything else belongs to `run`.
    #[must_use]
    pub fn layer(&self) -> Layer {
        if self.resource == "workflows" {
            Layer::Submit
        } else {
            Layer::Run
        }
    }

    /// Resource and group as `kubectl auth can-i` takes them.
    #[must_use]
    pub fn resource_in_group(&self) -> String {
        crate::kinds::resource_in_group(&self.group, &self.resource)
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {}",
            self.account,
            self.verb,
            self.resource_in_group()
        )
    }
}

/// What a stage expects of a right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessExpectation {
    pub right: Right,
    pub allowed: bool,
}

/// Judges every expectation by the last review of this stage and attempt.
///
/// `not_looked` says why reviews were not made, for those that are missing.
#[must_use]
pub fn judge_access(
    occasion: Occasion<'_>,
    expected: &[AccessExpectation],
    facts: &[Fact],
    not_looked: Option<&str>,
) -> Vec<Judgement> {
    expected
        .iter()
        .map(|expectation| {
            let review = review_of(expectation, occasion, facts);
            Judgement {
                access: Some(expectation.right.clone()),
                ..occasion.judgement(access_holds(expectation, review, not_looked))
            }
        })
        .collect()
}

/// A right in the access table of a lab: as it was found, and as it was left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessRow {
    pub right: Right,
    pub before: bool,
    /// `None` while it was reviewed once only.
    pub after: Option<bool>,
    /// `seq` of the first and the last review.
    pub facts: Vec<u64>,
}

/// Every right of a lab that was reviewed, by account, in the order of the first reviews.
#[must_use]
pub fn access_table(facts: &[Fact], lab: &str) -> Vec<AccessRow> {
    let mut reviews: Vec<&Fact> = facts.iter().filter(|fact| fact.lab == lab).collect();
    reviews.sort_by_key(|fact| fact.seq);
    let mut table: Vec<AccessRow> = Vec::new();
    for fact in reviews {
        let (Some(right), Observation::Access { allowed, .. }) =
            (reviewed(&fact.observation), &fact.observation)
        else {
            continue;
        };
        match table.iter_mut().find(|row| row.right == right) {
            Some(row) => {
                row.after = Some(*allowed);
                row.facts.truncate(1);
                row.facts.push(fact.seq);
            }
            None => table.push(AccessRow {
                right,
                before: *allowed,
                after: None,
                facts: vec![fact.seq],
            }),
        }
    }
    let mut accounts: Vec<String> = Vec::new();
    for row in &table {
        if !accounts.contains(&row.right.account) {
            accounts.push(row.right.account.clone());
        }
    }
    let place = |row: &AccessRow| accounts.iter().position(|one| *one == row.right.account);
    table.sort_by_key(place);
    table
}

fn review_of<'a>(
    expectation: &AccessExpectation,
    occasion: Occasion<'_>,
    facts: &'a [Fact],
) -> Option<&'a Fact> {
    facts
        .iter()
        .filter(|fact| fact.counts_in(occasion.lab, occasion.attempt))
        .filter(|fact| fact.stage == occasion.stage)
        .filter(|fact| reviewed(&fact.observation).as_ref() == Some(&expectation.right))
        .max_by_key(|fact| fact.seq)
}

/// The right that an observation speaks of.
#[must_use]
pub fn reviewed(observation: &Observation) -> Option<Right> {
    match observation {
        Observation::Access {
            account,
            verb,
            group,
            resource,
            ..
        } => Some(Right {
            account: account.clone(),
            verb: verb.clone(),
            group: group.clone(),
            resource: resource.clone(),
        }),
        _ => None,
    }
}

fn access_holds(
    expectation: &AccessExpectation,
    review: Option<&Fact>,
    not_looked: Option<&str>,
) -> Verdict {
    let right = &expectation.right;
    let may = if expectation.allowed {
        "may"
    } else {
        "may not"
    };
    let claim = if right.is_any_other() {
        let what = if expectation.allowed {
            "something"
        } else {
            "anything"
        };
        format!("{} {may} do {what} else", right.account)
    } else {
        format!(
            "{} {may} {} {}",
            right.account,
            right.verb,
            right.resource_in_group()
        )
    };
    let verdict = |outcome, because: Option<String>, facts| Verdict {
        outcome,
        claim: claim.clone(),
        because,
        facts,
    };
    let Some(fact) = review else {
        let because = not_looked.unwrap_or("no access review of this stage asked for it");
        return verdict(Outcome::Unproven, Some(because.to_owned()), Vec::new());
    };
    match fact.observation {
        Observation::Access { allowed, .. } if allowed == expectation.allowed => {
            verdict(Outcome::Proven, None, vec![fact.seq])
        }
        _ if expectation.allowed => verdict(
            Outcome::Refuted,
            Some(if right.is_any_other() {
                "it may do nothing else".to_owned()
            } else {
                "it may not: this right is missing".to_owned()
            }),
            vec![fact.seq],
        ),
        Observation::Access { ref reason, .. } if right.is_any_other() => verdict(
            Outcome::Refuted,
            Some(format!("it may, and that is more than it needs: {reason}")),
            vec![fact.seq],
        ),
        Observation::Access { ref reason, .. } if !reason.is_empty() => verdict(
            Outcome::Refuted,
            Some(format!(
                "it may: this right is more than it needs; {reason}"
            )),
            vec![fact.seq],
        ),
        _ => verdict(
            Outcome::Refuted,
            Some("it may: this right is more than it needs".to_owned()),
            vec![fact.seq],
        ),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::evidence::testing;

    fn right(resource: &str) -> Right {
        Right {
            account: "order-sensor".to_owned(),
            verb: "create".to_owned(),
            group: "argoproj.io".to_owned(),
            resource: resource.to_owned(),
        }
    }

    fn review(seq: u64, stage: &str, resource: &str, allowed: bool) -> Fact {
        let Right {
            account,
            verb,
            group,
            resource,
        } = right(resource);
        let observation = Observation::Access {
            account,
            verb,
            group,
            resource,
            allowed,
            reason: String::new(),
        };
        Fact {
            seq,
            stage: stage.to_owned(),
            ..testing::fact(Layer::Submit, observation)
        }
    }

    fn outcomes(facts: &[Fact], expected: &[(&str, bool)]) -> Vec<Outcome> {
        let expected: Vec<AccessExpectation> = expected
            .iter()
            .map(|(resource, allowed)| AccessExpectation {
                right: right(resource),
                allowed: *allowed,
            })
            .collect();
        let occasion = Occasion {
            time: Timestamp::UNIX_EPOCH,
            lab: testing::LAB,
            stage: "after",
            attempt: 1,
        };
        judge_access(occasion, &expected, facts, Some("the API is gone"))
            .into_iter()
            .map(|judgement| judgement.verdict.outcome)
            .collect()
    }

    #[test]
    fn missing_and_surplus_rights_are_refuted_and_the_unseen_is_unproven() {
        let facts = [
            review(1, "after", "workflows", true),
            review(2, "after", "secrets", false),
        ];
        assert_eq!(
            outcomes(
                &facts,
                &[
                    ("workflows", true),
                    ("workflows", false),
                    ("secrets", false),
                    ("secrets", true),
                    ("pods", false)
                ]
            ),
            [
                Outcome::Proven,
                Outcome::Refuted,
                Outcome::Proven,
                Outcome::Refuted,
                Outcome::Unproven
            ]
        );
    }

    #[test]
    fn only_the_last_review_of_this_stage_counts() {
        let facts = [
            review(1, "after", "workflows", false),
            review(2, "after", "workflows", true),
            review(3, "before", "workflows", false),
        ];
        assert_eq!(outcomes(&facts, &[("workflows", true)]), [Outcome::Proven]);
    }

    #[test]
    fn the_table_has_the_first_and_the_last_review_of_each_right() {
        let mut other = review(4, "before", "pods", true);
        if let Observation::Access { account, .. } = &mut other.observation {
            "order-runner".clone_into(account);
        }
        let facts = [
            review(1, "before", "workflows", false),
            review(2, "before", "secrets", false),
            review(5, "after", "workflows", false),
            other,
            review(9, "after", "workflows", true),
        ];
        let table: Vec<_> = access_table(&facts, testing::LAB)
            .into_iter()
            .map(|row| (row.right.resource, row.before, row.after, row.facts))
            .collect();
        assert_eq!(
            table,
            [
                ("workflows".to_owned(), false, Some(true), vec![1, 9]),
                ("secrets".to_owned(), false, None, vec![2]),
                ("pods".to_owned(), true, None, vec![4]),
            ]
        );
        assert!(access_table(&facts, "another").is_empty());
    }

    #[test]
    fn a_surplus_that_nobody_asked_for_by_name_is_refuted_with_what_it_is() {
        let mut fact = review(1, "after", "right", true);
        if let Observation::Access {
            verb,
            group,
            reason,
            ..
        } = &mut fact.observation
        {
            (*verb, *group, *reason) = (
                "any-other".to_owned(),
                String::new(),
                "update workflows.argoproj.io".to_owned(),
            );
        }
        let right = reviewed(&fact.observation).unwrap();
        assert!(right.is_any_other());
        let judged = |allowed| {
            let expectation = AccessExpectation {
                right: right.clone(),
                allowed,
            };
            access_holds(&expectation, Some(&fact), None)
        };
        let refuted = judged(false);
        assert_eq!(refuted.outcome, Outcome::Refuted);
        assert_eq!(refuted.claim, "order-sensor may not do anything else");
        assert!(
            refuted
                .because
                .is_some_and(|because| because.ends_with("update workflows.argoproj.io"))
        );
        assert_eq!(judged(true).outcome, Outcome::Proven);
    }

    #[test]
    fn rights_read_as_kubectl_writes_them() {
        assert_eq!(
            right("workflows").to_string(),
            "order-sensor create workflows.argoproj.io"
        );
        let core = Right {
            group: String::new(),
            ..right("pods/exec")
        };
        assert_eq!(core.to_string(), "order-sensor create pods/exec");
    }
}
