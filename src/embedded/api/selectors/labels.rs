//! The label selector grammar of `k8s.io/apimachinery/pkg/labels`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::embedded::api::go_text::quote;
use crate::embedded::api::status::Failure;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    Exists,
    Missing,
    In,
    NotIn,
    GreaterThan,
    LessThan,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: BTreeSet<String>,
}

/// A parsed label selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

impl LabelSelector {
    /// Parses `a=b,c in (d,e),!f`.
    ///
    /// # Errors
    /// 400 with apimachinery's text.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let mut parser = Parser {
            tokens: tokens(text),
            at: 0,
        };
        parser
            .selector()
            .map(LabelSelector)
            .map_err(Failure::bad_request)
    }

    /// From a `metav1.LabelSelector` object; what it cannot express selects nothing.
    #[must_use]
    pub fn from_object(selector: &Value) -> Self {
        let mut requirements = Vec::new();
        for (key, value) in selector
            .get("matchLabels")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let values = value.as_str().map(str::to_owned).into_iter().collect();
            requirements.push(Requirement {
                key: key.clone(),
                operator: Operator::In,
                values,
            });
        }
        for item in selector
            .get("matchExpressions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let text = |key: &str| {
                item.get(key)
                    .and_then(Value::as_str)
                    .unwrap_or("")
                    .to_owned()
            };
            let operator = match text("operator").as_str() {
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::Missing,
                "NotIn" => Operator::NotIn,
                _ => Operator::In,
            };
            let values = item
                .get("values")
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            let values = values
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
            requirements.push(Requirement {
                key: text("key"),
                operator,
                values,
            });
        }
        LabelSelector(requirements)
    }

    /// True if it selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Compares with an object's labels.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0
            .iter()
            .all(|requirement| requirement.matches(labels.get(&requirement.key)))
    }
}

impl Requirement {
    fn matches(&self, value: Option<&String>) -> bool {
        match self.operator {
            Operator::Exists => value.is_some(),
            Operator::Missing => value.is_none(),
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::GreaterThan => self.compare(value, |have, want| have > want),
            Operator::LessThan => self.compare(value, |have, want| have < want),
        }
    }

    fn compare(&self, value: Option<&String>, order: fn(i64, i64) -> bool) -> bool {
        let want = self.values.iter().next().and_then(|want| want.parse().ok());
        let have = value.and_then(|value| value.parse().ok());
        matches!((have, want), (Some(have), Some(want)) if order(have, want))
    }
}

/// A token: its text and whether it is a word.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    text: String,
    word: bool,
}

const SPECIAL: &str = "=!(),<>";

/// Upstream's lexer knows no other white space (apimachinery `pkg/labels/selector.go`).
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn tokens(text: &str) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if is_blank(first) {
            rest = rest.trim_start_matches(is_blank);
            continue;
        }
        let (length, word) = if SPECIAL.contains(first) {
            let double = rest.starts_with("==") || rest.starts_with("!=");
            (if double { 2 } else { 1 }, false)
        } else {
            (
                rest.find(|c: char| is_blank(c) || SPECIAL.contains(c))
                    .unwrap_or(rest.len()),
                true,
            )
        };
        let (token, tail) = rest.split_at(length);
        out.push(Token {
            text: token.to_owned(),
            word,
        });
        rest = tail;
    }
    out
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn found(token: Option<&Token>) -> &str {
        token.map_or("", |token| token.text.as_str())
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                None => return Ok(requirements),
                Some(token) if token.word || token.text == "!" => {
                    let requirement = self.requirement();
                    requirements.push(
                        requirement.map_err(|why| format!("unable to parse requirement: {why}"))?,
                    );
                    match self.next() {
                        None => return Ok(requirements),
                        Some(token) if token.text == "," => match self.peek() {
                            Some(next) if next.word || next.text == "!" => {}
                            next => {
                                let found = Self::found(next);
                                return Err(format!(
                                    "found '{found}', expected: identifier after ','"
                                ));
                            }
                        },
                        Some(token) => {
                            return Err(format!(
                                "found '{}', expected: ',' or 'end of string'",
                                token.text
                            ));
                        }
                    }
                }
                Some(token) => {
                    return Err(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        token.text
                    ));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = self.peek().is_some_and(|token| token.text == "!");
        if negated {
            self.at += 1;
        }
        let key = match self.next() {
            Some(token) if token.word => token.text,
            other => {
                return Err(format!(
                    "found '{}', expected: identifier",
                    Self::found(other.as_ref())
                ));
            }
        };
        check_key(&key)?;
        let ends = self.peek().is_none_or(|token| token.text == ",");
        if negated || ends {
            let operator = if negated {
                Operator::Missing
            } else {
                Operator::Exists
            };
            return Ok(Requirement {
                key,
                operator,
                values: BTreeSet::new(),
            });
        }
        let (operator, list) = self.operator()?;
        let values = if list {
            self.list()?
        } else {
            BTreeSet::from([self.single()?])
        };
        check_values(&key, &operator, &values)?;
        Ok(Requirement {
            key,
            operator,
            values,
        })
    }

    fn operator(&mut self) -> Result<(Operator, bool), String> {
        let token = self.next();
        match Self::found(token.as_ref()) {
            "=" | "==" => Ok((Operator::In, false)),
            "!=" => Ok((Operator::NotIn, false)),
            "in" => Ok((Operator::In, true)),
            "notin" => Ok((Operator::NotIn, true)),
            ">" => Ok((Operator::GreaterThan, false)),
            "<" => Ok((Operator::LessThan, false)),
            other => Err(format!(
                "found '{other}', expected: in, notin, =, ==, !=, gt, lt"
            )),
        }
    }

    /// The value of `=` and its like; only a word, a comma or the end may come after them.
    fn single(&mut self) -> Result<String, String> {
        match self.peek() {
            Some(token) if !token.word && token.text != "," => {
                Err(format!("found '{}', expected: identifier", token.text))
            }
            _ => Ok(self.value()),
        }
    }

    /// A value may be missing: `a=` asks for the empty one.
    fn value(&mut self) -> String {
        match self.peek() {
            Some(token) if token.word => self.next().map(|token| token.text).unwrap_or_default(),
            _ => String::new(),
        }
    }

    fn list(&mut self) -> Result<BTreeSet<String>, String> {
        match self.next() {
            Some(token) if token.text == "(" => {}
            other => {
                return Err(format!(
                    "found '{}' expected: '('",
                    Self::found(other.as_ref())
                ));
            }
        }
        let mut values = BTreeSet::new();
        match self.peek() {
            Some(token) if token.word || matches!(token.text.as_str(), "," | ")") => {}
            other => {
                let found = Self::found(other);
                return Err(format!("found '{found}', expected: ',', ')' or identifier"));
            }
        }
        loop {
            values.insert(self.value());
            match self.next() {
                Some(token) if token.text == "," => {}
                Some(token) if token.text == ")" => return Ok(values),
                other => {
                    return Err(format!(
                        "found '{}', expected: ',' or ')'",
                        Self::found(other.as_ref())
                    ));
                }
            }
        }
    }
}

fn check_key(key: &str) -> Result<(), String> {
    match crate::embedded::api::validation::qualified_name(key) {
        Some(why) => Err(format!("<nil>: Invalid value: {}: {why}", quote(key))),
        None => Ok(()),
    }
}

fn check_values(key: &str, operator: &Operator, values: &BTreeSet<String>) -> Result<(), String> {
    for value in values {
        if let Some(why) = crate::embedded::api::validation::label_value(value) {
            let shown = quote(value);
            return Err(format!("values[0][{key}]: Invalid value: {shown}: {why}"));
        }
        let numeric = matches!(operator, Operator::GreaterThan | Operator::LessThan);
        if numeric && value.parse::<i64>().is_err() {
            return Err(format!(
                "values[0]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer",
                quote(value)
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn requirements() {
        let have = labels(&[("a", "1"), ("b", "x"), ("in", "y"), ("empty", "")]);
        let table = [
            ("", true),
            ("a=1", true),
            ("a==1,b=x", true),
            ("a!=1", false),
            ("zz!=1", true),
            ("a in (1,2)", true),
            ("a in (2, 3)", false),
            ("a notin (2)", true),
            ("zz notin (2)", true),
            ("!zz", true),
            ("! a", false),
            ("a,b", true),
            ("in", true),
            ("in=y", true),
            ("empty=", true),
            ("a=", false),
            ("a>0,a<2", true),
            ("a>1", false),
            ("b>1", false),
        ];
        for (text, want) in table {
            let selector = LabelSelector::parse(text).expect(text);
            assert_eq!(selector.matches(&have), want, "{text}");
        }
    }

    #[test]
    fn bad_selectors_say_why() {
        let table = [
            (
                "===",
                "found '==', expected: !, identifier, or 'end of string'",
            ),
            (
                "a in 1",
                "unable to parse requirement: found '1' expected: '('",
            ),
            (
                "a===",
                "unable to parse requirement: found '=', expected: identifier",
            ),
            (
                "a=(",
                "unable to parse requirement: found '(', expected: identifier",
            ),
            (
                "a in (",
                "unable to parse requirement: found '', expected: ',', ')' or identifier",
            ),
            ("a,,b", "found ',', expected: identifier after ','"),
            ("a=1,", "found '', expected: identifier after ','"),
            (
                "a b",
                "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
            ),
        ];
        for (text, want) in table {
            let body = LabelSelector::parse(text).expect_err(text).body();
            assert_eq!(body["message"], want, "{text}");
        }
        for text in ["a>x", "-a=1", "a=-x-", "a in (1", "(", "a,,b"] {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
        }
    }
}
