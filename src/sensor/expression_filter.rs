//! Expression filters: named values of the event's data, put into expressions.

use std::collections::HashMap;

use super::explain::{ConditionReport, Found, Group, Outcome, Reason, ValueReport};
use super::expression::{ExprError, ExprValue, Expression, Names};
use super::json::PrefixSet;
use super::list_group::{self, ListGroup, Settled};
use super::payload::{Place, Valid};
use super::spec::ExprSpec;

/// `filters.exprs`, compiled.
pub(super) type ExprGroup = ListGroup<Condition>;

impl ExprGroup {
    pub(super) fn compile(specs: &[ExprSpec], operator: &str, prefixes: &mut PrefixSet) -> Self {
        let conditions = specs
            .iter()
            .map(|spec| Condition::compile(spec, prefixes))
            .collect();
        Self::new(conditions, operator)
    }
}

/// What one expression came to.
pub(super) struct Judged {
    outcome: Outcome,
    reason: Reason,
    error: Option<String>,
    /// The values of the fields, in their order, and that of the expression if it has one; written out only when somebody
    /// asks.
    found: Option<(Vec<ExprValue>, Option<ExprValue>)>,
}

impl Judged {
    fn failing(reason: Reason, error: String) -> Self {
        Self {
            outcome: Outcome::Error,
            reason,
            error: Some(error),
            found: None,
        }
    }
}

impl Settled for Judged {
    fn outcome(&self) -> Outcome {
        self.outcome
    }

    fn reason(&self) -> Reason {
        self.reason
    }
}

/// One entry, compiled.
#[derive(Debug)]
pub(super) struct Condition {
    text: String,
    /// A mistake in the expression is an error only when an event reaches it.
    expression: Result<Expression, ExprError>,
    fields: Vec<(String, Place)>,
    /// For each name of the expression the place of its field.
    places: Vec<Option<usize>>,
}

impl Condition {
    fn compile(spec: &ExprSpec, prefixes: &mut PrefixSet) -> Self {
        let fields = spec
            .fields
            .iter()
            .map(|(name, path)| (name.clone(), Place::new(path, prefixes)));
        let expression = Expression::parse(&spec.expr);
        // Of two fields with one name the last counts.
        let known: HashMap<&str, usize> = spec
            .fields
            .iter()
            .enumerate()
            .map(|(place, (name, _))| (name.as_str(), place))
            .collect();
        let names = expression.as_ref().map(Expression::names);
        let names = names.unwrap_or_default().into_iter();
        let places = names.map(|name| known.get(name).copied()).collect();
        Self {
            text: spec.expr.clone(),
            places,
            expression,
            fields: fields.collect(),
        }
    }

    fn evaluate(&self, values: Vec<ExprValue>) -> Judged {
        let names = Fields {
            places: &self.places,
            values: &values,
        };
        let result = match &self.expression {
            Ok(expression) => expression.evaluate_with(&names),
            Err(error) => Err(error.clone()),
        };
        let value = match result {
            Ok(value) => value,
            Err(error) => {
                let reason = match error.is_own() {
                    true => Reason::TooComplex,
                    false => Reason::BadExpression,
                };
                return Judged {
                    found: Some((values, None)),
                    ..Judged::failing(reason, error.to_string())
                };
            }
        };
        let (outcome, reason) = if matches!(value, ExprValue::Bool(true)) {
            (Outcome::Passed, Reason::Match)
        } else {
            (Outcome::Failed, Reason::Mismatch)
        };
        Judged {
            outcome,
            reason,
            error: None,
            found: Some((values, Some(value))),
        }
    }
}

/// The values of an expression's names.
struct Fields<'c> {
    places: &'c [Option<usize>],
    values: &'c [ExprValue],
}

impl Names for Fields<'_> {
    fn value(&self, place: usize, _: &str) -> Option<&ExprValue> {
        self.values.get((*self.places.get(place)?)?)
    }
}

impl list_group::Condition for Condition {
    // An expression without fields is passed over by upstream.
    type Judged<'d> = Judged;
    const GROUP: Group = Group::Exprs;
    const NAME: &'static str = "expr";
    const EMPTY_IS_NONE: bool = false;

    fn judge(&self, data: &Valid<'_, '_>) -> Judged {
        let mut values = Vec::with_capacity(self.fields.len());
        for (_, place) in &self.fields {
            let value = match place.find(data) {
                Ok(value) => value,
                Err(limit) => return Judged::failing(Reason::TooComplex, limit.to_string()),
            };
            if !value.exists() {
                let error = format!("path '{}' does not exist", place.path());
                return Judged::failing(Reason::MissingPath, error);
            }
            match ExprValue::from_path(&value) {
                Ok(value) => values.push(value),
                Err(limit) => return Judged::failing(Reason::TooComplex, limit.to_string()),
            }
        }
        if values.is_empty() {
            return Judged {
                outcome: Outcome::NotReached,
                reason: Reason::NoValues,
                error: None,
                found: None,
            };
        }
        self.evaluate(values)
    }

    fn error(&self, judged: &Judged) -> String {
        judged.error.clone().unwrap_or_default()
    }

    fn report(&self, judged: &Judged, decided: bool) -> ConditionReport {
        let found = judged.found.as_ref().map(|(values, value)| {
            let names = self.fields.iter().map(|(name, _)| name.clone());
            let fields = names.zip(values.iter().cloned()).collect();
            let raw = ExprValue::Map(fields).to_string();
            Found {
                kind: "JSON",
                coerced: value
                    .as_ref()
                    .map_or_else(|| raw.clone(), ToString::to_string),
                raw,
            }
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
