//! A list of conditions put together by AND or OR: what `filters.data` and `filters.exprs` have in common.
//!
//! Called from `filter` alone; `data` and `expression_filter` are its kinds of conditions.

use super::explain::{ConditionReport, Group, GroupReport, Operator, Outcome, Reason, Recorder};
use super::filter::Verdict;
use super::payload::{Content, Payload, Valid};

/// What one condition came to.
pub(super) trait Settled {
    /// How it ended; `NotReached` for one that is passed over.
    fn outcome(&self) -> Outcome;
    /// Why.
    fn reason(&self) -> Reason;
}

/// A condition of a list.
pub(super) trait Condition {
    /// What it comes to, with what a report needs.
    type Judged<'d>: Settled;
    /// Its group.
    const GROUP: Group;
    /// The group's name in upstream's error texts.
    const NAME: &'static str;
    /// Whether an empty list passes before anything is looked at, as no list does.
    const EMPTY_IS_NONE: bool;

    fn judge<'d>(&self, data: &Valid<'d, '_>) -> Self::Judged<'d>;
    /// Upstream's text of the error, without its frame; empty where there is none.
    fn error(&self, judged: &Self::Judged<'_>) -> String;
    fn report(&self, judged: &Self::Judged<'_>, decided: bool) -> ConditionReport;
    fn not_reached(&self) -> ConditionReport;
}

/// A compiled list.
#[derive(Debug)]
pub(super) struct ListGroup<C> {
    conditions: Vec<C>,
    operator: Operator,
}

impl<C: Condition> ListGroup<C> {
    pub(super) fn new(conditions: Vec<C>, operator: &str) -> Self {
        Self {
            conditions,
            operator: Operator::read(operator),
        }
    }

    pub(super) fn judge(&self, payload: &Payload<'_>, recorder: &mut impl Recorder) -> Verdict {
        let verdict = if C::EMPTY_IS_NONE && self.conditions.is_empty() {
            Verdict::passed(Reason::Match)
        } else {
            match payload.content() {
                Content::Absent => Verdict::passed(Reason::NoData),
                Content::Invalid => Verdict::error(
                    Reason::InvalidJson,
                    format!("{} filter error (event data not valid JSON)", C::NAME),
                ),
                Content::Json(data) => self.judge_conditions(&data, recorder),
            }
        };
        recorder.group(|conditions| verdict.report(C::GROUP, self.operator, conditions));
        verdict
    }

    pub(super) fn skip(&self, recorder: &mut impl Recorder) {
        recorder.group(|_| GroupReport::not_reached(C::GROUP, self.operator));
    }

    fn judge_conditions(&self, data: &Valid<'_, '_>, recorder: &mut impl Recorder) -> Verdict {
        // Most errors under OR are forgotten when a later condition holds, so their texts wait.
        let mut failed: Vec<(&C, C::Judged<'_>)> = Vec::new();
        for (place, condition) in self.conditions.iter().enumerate() {
            let judged = condition.judge(data);
            let decides = match (self.operator, judged.outcome()) {
                // One that is passed over neither holds nor fails.
                (_, Outcome::NotReached) => false,
                (Operator::Or, outcome) => outcome == Outcome::Passed,
                (Operator::And, outcome) => outcome != Outcome::Passed,
            };
            recorder.condition(|| condition.report(&judged, decides));
            if decides {
                self.conditions[place + 1..]
                    .iter()
                    .for_each(|rest| recorder.condition(|| rest.not_reached()));
                return deciding(condition, &judged);
            }
            if judged.outcome() == Outcome::Error {
                failed.push((condition, judged));
            }
        }
        match (self.operator, failed.first()) {
            (Operator::And, _) => Verdict::passed(Reason::Match),
            (Operator::Or, None) => Verdict::failed(Reason::Mismatch),
            (Operator::Or, Some((_, first))) => {
                let errors: Vec<String> = failed
                    .iter()
                    .map(|(condition, judged)| condition.error(judged))
                    .collect();
                // One that this program could not judge might have held.
                let open =
                    |(_, judged): &&(&C, C::Judged<'_>)| judged.reason() == Reason::TooComplex;
                let reason = failed
                    .iter()
                    .find(open)
                    .map_or(first.reason(), |_| Reason::TooComplex);
                Verdict::error(
                    reason,
                    format!("{} filter errors [{}]", C::NAME, errors.join(" / ")),
                )
            }
        }
    }
}

/// The verdict of the condition that decides.
fn deciding<C: Condition>(condition: &C, judged: &C::Judged<'_>) -> Verdict {
    match judged.outcome() {
        Outcome::Error => Verdict::error(
            judged.reason(),
            format!("{} filter error ({})", C::NAME, condition.error(judged)),
        ),
        Outcome::Passed => Verdict::passed(judged.reason()),
        _ => Verdict::failed(judged.reason()),
    }
}
