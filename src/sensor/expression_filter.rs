//! Expression filters: named values of the event's data, put into expressions.

use std::collections::HashMap;

use super::explain::{
    ConditionReport, Found, Group, GroupReport, Operator, Outcome, Reason, Recorder, ValueReport,
};
use super::expression::{ExprValue, Expression};
use super::filter::Verdict;
use super::json::PrefixSet;
use super::payload::{Content, Payload, Place, Valid};
use super::spec::ExprSpec;

/// `filters.exprs`, compiled.
#[derive(Debug)]
pub(super) struct ExprGroup {
    conditions: Vec<Condition>,
    operator: Operator,
}

impl ExprGroup {
    pub(super) fn compile(specs: &[ExprSpec], operator: &str, prefixes: &mut PrefixSet) -> Self {
        let conditions = specs
            .iter()
            .map(|spec| Condition::compile(spec, prefixes))
            .collect();
        Self {
            conditions,
            operator: Operator::read(operator),
        }
    }

    pub(super) fn judge(&self, payload: &Payload<'_>, recorder: &mut impl Recorder) -> Verdict {
        let verdict = if self.conditions.is_empty() {
            Verdict::passed(Reason::Match)
        } else {
            match payload.content() {
                Content::Absent => Verdict::passed(Reason::NoData),
                Content::Invalid => Verdict::error(
                    Reason::InvalidJson,
                    "expr filter error (event data not valid JSON)".to_owned(),
                ),
                Content::Json(data) => self.judge_conditions(&data, recorder),
            }
        };
        recorder.group(|conditions| verdict.report(Group::Exprs, self.operator, conditions));
        verdict
    }

    pub(super) fn skip(&self, recorder: &mut impl Recorder) {
        recorder.group(|_| GroupReport::not_reached(Group::Exprs, self.operator));
    }

    fn judge_conditions(&self, data: &Valid<'_, '_>, recorder: &mut impl Recorder) -> Verdict {
        let mut errors: Vec<String> = Vec::new();
        let mut first_error = None;
        for (place, condition) in self.conditions.iter().enumerate() {
            let judged = condition.judge(data);
            let decides = match (self.operator, judged.outcome) {
                // An expression without fields is passed over by upstream: it neither holds nor fails.
                (_, Outcome::NotReached) => false,
                (Operator::Or, outcome) => outcome == Outcome::Passed,
                (Operator::And, outcome) => outcome != Outcome::Passed,
            };
            recorder.condition(|| condition.report(&judged, decides));
            if decides {
                self.conditions[place + 1..]
                    .iter()
                    .for_each(|rest| recorder.condition(|| rest.not_reached()));
                return judged.into_verdict();
            }
            if let Some(error) = judged.error {
                first_error.get_or_insert(judged.reason);
                errors.push(error);
            }
        }
        match (self.operator, first_error) {
            (Operator::And, _) => Verdict::passed(Reason::Match),
            (Operator::Or, None) => Verdict::failed(Reason::Mismatch),
            (Operator::Or, Some(reason)) => Verdict::error(
                reason,
                format!("expr filter errors [{}]", errors.join(" / ")),
            ),
        }
    }
}

/// What one expression came to.
struct Judged {
    outcome: Outcome,
    reason: Reason,
    error: Option<String>,
    /// The fields as one object, and the expression's value.
    found: Option<(String, String)>,
}

impl Judged {
    fn error(reason: Reason, error: String) -> Self {
        Self {
            outcome: Outcome::Error,
            reason,
            error: Some(error),
            found: None,
        }
    }

    fn into_verdict(self) -> Verdict {
        match self.error {
            Some(error) => Verdict::error(self.reason, format!("expr filter error ({error})")),
            None if self.outcome == Outcome::Passed => Verdict::passed(self.reason),
            None => Verdict::failed(self.reason),
        }
    }
}

#[derive(Debug)]
struct Condition {
    text: String,
    /// A mistake in the expression is an error only when an event reaches it.
    expression: Result<Expression, String>,
    fields: Vec<(String, Place)>,
}

impl Condition {
    fn compile(spec: &ExprSpec, prefixes: &mut PrefixSet) -> Self {
        let fields = spec
            .fields
            .iter()
            .map(|(name, path)| (name.clone(), Place::new(path, prefixes)));
        Self {
            text: spec.expr.clone(),
            expression: Expression::parse(&spec.expr).map_err(|error| error.to_string()),
            fields: fields.collect(),
        }
    }

    fn judge(&self, data: &Valid<'_, '_>) -> Judged {
        let mut variables = HashMap::new();
        for (name, place) in &self.fields {
            let value = match place.find(data) {
                Ok(value) => value,
                Err(limit) => return Judged::error(Reason::TooComplex, limit.to_string()),
            };
            if !value.exists() {
                let error = format!("path '{}' does not exist", place.path());
                return Judged::error(Reason::MissingPath, error);
            }
            variables.insert(name.clone(), ExprValue::from_path(&value));
        }
        if variables.is_empty() {
            return Judged {
                outcome: Outcome::NotReached,
                reason: Reason::NoValues,
                error: None,
                found: None,
            };
        }
        self.evaluate(&variables)
    }

    fn evaluate(&self, variables: &HashMap<String, ExprValue>) -> Judged {
        let result = match &self.expression {
            Ok(expression) => expression
                .evaluate(variables)
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.clone()),
        };
        let value = match result {
            Ok(value) => value,
            Err(error) => return Judged::error(Reason::BadExpression, error),
        };
        let (outcome, reason) = if value == ExprValue::Bool(true) {
            (Outcome::Passed, Reason::Match)
        } else {
            (Outcome::Failed, Reason::Mismatch)
        };
        let fields = variables
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let found = Some((ExprValue::Map(fields).to_string(), value.to_string()));
        Judged {
            outcome,
            reason,
            error: None,
            found,
        }
    }

    fn report(&self, judged: &Judged, decided: bool) -> ConditionReport {
        let found = judged.found.clone().map(|(raw, coerced)| Found {
            kind: "JSON",
            raw,
            coerced,
        });
        ConditionReport {
            found,
            values: vec![ValueReport {
                value: self.text.clone(),
                outcome: judged.outcome,
            }],
            outcome: judged.outcome,
            reason: judged.reason,
            error: judged.error.clone(),
            decided,
            ..self.not_reached()
        }
    }

    fn not_reached(&self) -> ConditionReport {
        let paths: Vec<&str> = self.fields.iter().map(|(_, place)| place.path()).collect();
        ConditionReport {
            path: paths.join(", "),
            r#type: "expr".to_owned(),
            comparator: "=".to_owned(),
            comparator_ignored: false,
            found: None,
            values: vec![ValueReport {
                value: self.text.clone(),
                outcome: Outcome::NotReached,
            }],
            outcome: Outcome::NotReached,
            reason: Reason::Mismatch,
            error: None,
            decided: false,
        }
    }
}
