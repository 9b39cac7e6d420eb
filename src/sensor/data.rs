//! Data filters: values at paths of the event's data, compared as regular expressions, booleans or numbers.

use std::borrow::Cow;

use super::explain::{ConditionReport, Found, Group, Outcome, Reason, ValueReport};
use super::json::PrefixSet;
use super::list_group::{self, ListGroup, Settled};
use super::number::{self, parse_bool, parse_float};
use super::path::Value;
use super::payload::{Place, Valid};
use super::regex::Regex;
use super::spec::DataSpec;
use super::template::{Template, TemplateError, is_no_value};

/// `filters.data`, compiled.
pub(super) type DataGroup = ListGroup<Condition>;

impl DataGroup {
    pub(super) fn compile(specs: &[DataSpec], operator: &str, prefixes: &mut PrefixSet) -> Self {
        let conditions = specs
            .iter()
            .map(|spec| Condition::compile(spec, prefixes))
            .collect();
        Self::new(conditions, operator)
    }
}

/// What one condition came to.
pub(super) struct Judged<'d> {
    outcome: Outcome,
    reason: Reason,
    trouble: Option<Trouble>,
    /// What the path leads to.
    found: Option<Value<'d>>,
    /// How many values were tried.
    tried: usize,
    /// What the template made of the value.
    templated: Option<Box<Value<'static>>>,
}

/// Why a condition could not be judged; its text is made when somebody wants it.
enum Trouble {
    /// The path leads nowhere.
    MissingPath,
    /// There is nothing to compare with.
    NoValues,
    /// The value that was tried last is wrong.
    WrongValue,
    /// The type is none that is known.
    UnknownType,
    /// What went wrong on the way.
    Text(String),
}

impl Judged<'_> {
    fn failing(reason: Reason, trouble: Trouble, tried: usize) -> Self {
        Self {
            outcome: Outcome::Error,
            reason,
            trouble: Some(trouble),
            found: None,
            tried,
            templated: None,
        }
    }

    fn settled(outcome: Outcome, reason: Reason, tried: usize) -> Self {
        Self {
            outcome,
            reason,
            trouble: None,
            found: None,
            tried,
            templated: None,
        }
    }
}

impl Settled for Judged<'_> {
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
    place: Place,
    kind: String,
    comparator: String,
    values: Vec<String>,
    matcher: Matcher,
    /// The template as written, and as read.
    template: Option<(String, Result<Template, TemplateError>)>,
}

/// What is wrong with a listed value.
#[derive(Debug, Clone)]
struct Wrong {
    text: String,
    /// This program stops at it, upstream might not.
    own: bool,
}

impl Wrong {
    fn of(error: &impl ToString) -> Self {
        Self {
            text: error.to_string(),
            own: false,
        }
    }
}

/// Listed values made ready; one that is wrong is an error only when it is reached.
#[derive(Debug)]
enum Matcher {
    Bool(Vec<Result<bool, Wrong>>),
    Number(Vec<Result<f64, Wrong>>, Comparator),
    String(Vec<Result<Regex, Wrong>>, Comparator),
    Unsupported,
}

impl Matcher {
    /// The error of the listed value that was tried as the `tried`th.
    fn wrong_value(&self, tried: usize) -> String {
        fn error<T>(values: &[Result<T, Wrong>], tried: usize) -> Option<&Wrong> {
            values.get(tried.checked_sub(1)?)?.as_ref().err()
        }
        let error = match self {
            Self::Bool(values) => error(values, tried),
            Self::Number(values, _) => error(values, tried),
            Self::String(values, _) => error(values, tried),
            Self::Unsupported => None,
        };
        error.map(|wrong| wrong.text.clone()).unwrap_or_default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Unknown,
}

impl Comparator {
    fn read(text: &str) -> Self {
        match text {
            "" | "=" => Self::Equal,
            "!=" => Self::NotEqual,
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterOrEqual,
            _ => Self::Unknown,
        }
    }

    fn compare(self, value: f64, wanted: f64) -> bool {
        match self {
            Self::Equal => value == wanted,
            Self::NotEqual => value != wanted,
            Self::Less => value < wanted,
            Self::LessOrEqual => value <= wanted,
            Self::Greater => value > wanted,
            Self::GreaterOrEqual => value >= wanted,
            Self::Unknown => false,
        }
    }
}

impl Condition {
    fn compile(spec: &DataSpec, prefixes: &mut PrefixSet) -> Self {
        let comparator = Comparator::read(&spec.comparator);
        let values = || spec.values.iter();
        let matcher = match spec.kind.as_str() {
            "bool" => Matcher::Bool(
                values()
                    .map(|text| parse_bool(text.as_bytes()).map_err(|error| Wrong::of(&error)))
                    .collect(),
            ),
            "number" => {
                let numbers = values()
                    .map(|text| parse_float(text.as_bytes()).map_err(|error| Wrong::of(&error)));
                Matcher::Number(numbers.collect(), comparator)
            }
            "string" => Matcher::String(
                values()
                    .map(|text| {
                        Regex::new(text).map_err(|error| Wrong {
                            own: error.is_own(),
                            ..Wrong::of(&error)
                        })
                    })
                    .collect(),
                comparator,
            ),
            _ => Matcher::Unsupported,
        };
        Self {
            place: Place::new(&spec.path, prefixes),
            kind: spec.kind.clone(),
            comparator: spec.comparator.clone(),
            values: spec.values.clone(),
            matcher,
            template: Some(&spec.template)
                .filter(|text| !text.is_empty())
                .map(|text| (text.clone(), Template::parse(text))),
        }
    }

    /// What the template makes of the value's text: always a text again.
    fn apply_template(
        &self,
        value: &Value<'_>,
    ) -> Result<Option<Value<'static>>, (Reason, Trouble)> {
        let Some((written, template)) = &self.template else {
            return Ok(None);
        };
        let output = template
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|template| template.render_text(&String::from_utf8_lossy(&value.text())))
            .map_err(|error| {
                let reason = if error.is_own() {
                    Reason::TooComplex
                } else {
                    Reason::BadTemplate
                };
                (reason, Trouble::Text(error.to_string()))
            })?;
        if is_no_value(&output) {
            let text = format!("template '{written}' evaluated to empty string or no value");
            return Err((Reason::BadTemplate, Trouble::Text(text)));
        }
        Ok(Some(Value::from_quoted(&number::quote(output.as_bytes()))))
    }

    fn judge_value<'d>(&self, value: &Value<'_>) -> Judged<'d> {
        match &self.matcher {
            Matcher::Bool(wanted) => {
                let found = value.boolean();
                first_match(wanted, Reason::BadValue, |wanted| *wanted == found)
            }
            Matcher::Number(wanted, comparator) => {
                let found = value.number();
                first_match(wanted, Reason::BadValue, |wanted| {
                    comparator.compare(found, *wanted)
                })
            }
            Matcher::String(patterns, comparator) => {
                let found = value.text();
                first_match(patterns, Reason::BadRegex, |pattern| match comparator {
                    Comparator::Equal => pattern.is_match(&found),
                    Comparator::NotEqual => !pattern.is_match(&found),
                    _ => false,
                })
            }
            Matcher::Unsupported => Judged::failing(Reason::BadType, Trouble::UnknownType, 0),
        }
    }

    fn found(&self, value: &Value<'_>, templated: Option<&Value<'static>>) -> Found {
        let compared = templated.unwrap_or(value);
        let coerced = match self.matcher {
            Matcher::Bool(_) => Cow::Borrowed(if compared.boolean() { "true" } else { "false" }),
            Matcher::Number(..) => Cow::Owned(number::format_plain(compared.number())),
            Matcher::String(..) | Matcher::Unsupported => {
                Cow::Owned(String::from_utf8_lossy(&compared.text()).into_owned())
            }
        };
        Found {
            kind: value.kind().as_str(),
            raw: String::from_utf8_lossy(value.raw()).into_owned(),
            coerced: coerced.into_owned(),
        }
    }
}

impl list_group::Condition for Condition {
    type Judged<'d> = Judged<'d>;
    const GROUP: Group = Group::Data;
    const NAME: &'static str = "data";
    const EMPTY_IS_NONE: bool = true;

    fn judge<'d>(&self, data: &Valid<'d, '_>) -> Judged<'d> {
        let value = match self.place.find(data) {
            Ok(value) => value,
            Err(limit) => {
                let trouble = Trouble::Text(limit.to_string());
                return Judged::failing(Reason::TooComplex, trouble, 0);
            }
        };
        if !value.exists() {
            return Judged::failing(Reason::MissingPath, Trouble::MissingPath, 0);
        }
        let templated = if self.values.is_empty() {
            Err((Reason::NoValues, Trouble::NoValues))
        } else {
            self.apply_template(&value)
        };
        let mut judged = match templated {
            Ok(None) => self.judge_value(&value),
            Ok(Some(templated)) => {
                let mut judged = self.judge_value(&templated);
                judged.templated = Some(Box::new(templated));
                judged
            }
            Err((reason, trouble)) => Judged::failing(reason, trouble, 0),
        };
        judged.found = Some(value);
        judged
    }

    fn error(&self, judged: &Judged<'_>) -> String {
        match &judged.trouble {
            None => String::new(),
            Some(Trouble::MissingPath) => format!("path '{}' does not exist", self.place.path()),
            Some(Trouble::NoValues) => "no values specified".to_owned(),
            Some(Trouble::WrongValue) => self.matcher.wrong_value(judged.tried),
            Some(Trouble::UnknownType) => format!("unsupported JSON type '{}'", self.kind),
            Some(Trouble::Text(text)) => text.clone(),
        }
    }

    fn report(&self, judged: &Judged<'_>, decided: bool) -> ConditionReport {
        let values = self
            .values
            .iter()
            .enumerate()
            .map(|(place, value)| ValueReport {
                value: value.clone(),
                outcome: if place >= judged.tried {
                    Outcome::NotReached
                } else if place + 1 < judged.tried {
                    Outcome::Failed
                } else {
                    judged.outcome
                },
            });
        ConditionReport {
            found: judged
                .found
                .as_ref()
                .map(|value| self.found(value, judged.templated.as_deref())),
            values: values.collect(),
            outcome: judged.outcome,
            reason: judged.reason,
            error: judged.trouble.as_ref().map(|_| self.error(judged)),
            decided,
            ..self.not_reached()
        }
    }

    fn not_reached(&self) -> ConditionReport {
        let ignored = match self.matcher {
            Matcher::Bool(_) => !matches!(self.comparator.as_str(), "" | "="),
            _ => false,
        };
        ConditionReport {
            path: self.place.path().to_owned(),
            r#type: self.kind.clone(),
            comparator: if self.comparator.is_empty() {
                "=".to_owned()
            } else {
                self.comparator.clone()
            },
            comparator_ignored: ignored,
            found: None,
            values: self
                .values
                .iter()
                .map(|value| ValueReport {
                    value: value.clone(),
                    outcome: Outcome::NotReached,
                })
                .collect(),
            outcome: Outcome::NotReached,
            reason: Reason::Mismatch,
            error: None,
            decided: false,
        }
    }
}

/// Tries the values in order: the first that matches passes, the first that is wrong is an error.
fn first_match<'d, T>(
    wanted: &[Result<T, Wrong>],
    wrong: Reason,
    matches: impl Fn(&T) -> bool,
) -> Judged<'d> {
    for (place, wanted) in wanted.iter().enumerate() {
        match wanted {
            Ok(wanted) if matches(wanted) => {
                return Judged::settled(Outcome::Passed, Reason::Match, place + 1);
            }
            Ok(_) => {}
            Err(error) => {
                let reason = if error.own { Reason::TooComplex } else { wrong };
                return Judged::failing(reason, Trouble::WrongValue, place + 1);
            }
        }
    }
    Judged::settled(Outcome::Failed, Reason::Mismatch, wanted.len())
}
