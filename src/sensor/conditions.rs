//! A trigger's `conditions`: which of its dependencies must have seen an event.
//!
//! From above: [`Conditions::parse`], [`Conditions::dependencies`], [`Conditions::holds`].

use std::fmt;

/// Most nested parentheses that are read.
const MAX_NESTING: usize = 200;

/// A condition over dependency names with `&&`, `||` and parentheses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conditions {
    text: String,
    root: Term,
    dependencies: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Term {
    Name(usize),
    All(Vec<Term>),
    Any(Vec<Term>),
}

/// Why conditions cannot be read; the trigger is then never subscribed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConditionsError {
    /// A name that no dependency has.
    #[error("failed to get dependency expression: unknown name {0}; name one of the dependencies")]
    UnknownDependency(String),
    /// Something else than a name, an operator or a parenthesis, or one in the wrong place.
    #[error("failed to get dependency expression: unexpected {found} at byte {at} of {text:?}")]
    Unexpected {
        /// What stands there.
        found: String,
        /// Where.
        at: usize,
        /// The whole condition.
        text: String,
    },
    /// Parentheses nested too deeply.
    #[error("eventlab: parentheses are nested more than {MAX_NESTING} deep")]
    TooDeep,
    /// There are no dependencies at all.
    #[error("failed to get dependency expression: there are no dependencies")]
    Empty,
}

impl Conditions {
    /// Reads `conditions` over the Sensor's dependencies; empty conditions want all of them.
    ///
    /// A `-` in a name may also be written `_`, as upstream takes both for the same.
    ///
    /// # Errors
    /// [`ConditionsError`] if the text is not a condition over these names.
    pub fn parse(conditions: &str, dependencies: &[String]) -> Result<Self, ConditionsError> {
        let text = if conditions.is_empty() {
            dependencies.join("&&")
        } else {
            conditions.to_owned()
        };
        if text.is_empty() {
            return Err(ConditionsError::Empty);
        }
        let mut parser = Parser {
            text: &text,
            at: 0,
            known: dependencies,
            used: Vec::new(),
        };
        let root = parser.any(0)?;
        parser.skip_space();
        if parser.at < text.len() {
            return Err(parser.unexpected());
        }
        let mut names = parser.used;
        let mut shown = String::new();
        render(&root, &names, false, &mut shown);
        let mut root = root;
        let mut kept: Vec<String> = Vec::new();
        renumber(&mut root, &mut names, &mut kept);
        Ok(Self {
            text: shown,
            root,
            dependencies: kept,
        })
    }

    /// The dependencies it names, each once, in the order of the condition.
    #[must_use]
    pub fn dependencies(&self) -> &[String] {
        &self.dependencies
    }

    /// Whether it holds for the dependencies that have seen an event.
    ///
    /// Without any `&&` one event of any of its dependencies is enough, and this is what `||` says too.
    #[must_use]
    pub fn holds(&self, seen: impl Fn(&str) -> bool) -> bool {
        self.judge(&self.root, &seen)
    }

    /// Whether events must be kept until the rest arrives: there is an `&&`.
    #[must_use]
    pub fn needs_several(&self) -> bool {
        self.text.contains('&')
    }

    fn judge(&self, term: &Term, seen: &impl Fn(&str) -> bool) -> bool {
        match term {
            Term::Name(place) => self.dependencies.get(*place).is_some_and(|name| seen(name)),
            Term::All(terms) => terms.iter().all(|term| self.judge(term, seen)),
            Term::Any(terms) => terms.iter().any(|term| self.judge(term, seen)),
        }
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// Writes a term without spaces, as upstream logs it.
fn render(term: &Term, names: &[String], inner: bool, out: &mut String) {
    let (terms, operator) = match term {
        Term::Name(place) => return out.push_str(names.get(*place).map_or("", String::as_str)),
        Term::All(terms) => (terms, "&&"),
        Term::Any(terms) => (terms, "||"),
    };
    out.push_str(if inner { "(" } else { "" });
    for (place, term) in terms.iter().enumerate() {
        out.push_str(if place > 0 { operator } else { "" });
        render(term, names, true, out);
    }
    out.push_str(if inner { ")" } else { "" });
}

/// Makes every name one entry of the kept list.
fn renumber(term: &mut Term, names: &mut [String], kept: &mut Vec<String>) {
    match term {
        Term::Name(place) => {
            let name = names
                .get_mut(*place)
                .map(std::mem::take)
                .unwrap_or_default();
            *place = kept
                .iter()
                .position(|known| *known == name)
                .unwrap_or_else(|| {
                    kept.push(name);
                    kept.len() - 1
                });
        }
        Term::All(terms) | Term::Any(terms) => terms
            .iter_mut()
            .for_each(|term| renumber(term, names, kept)),
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    known: &'t [String],
    used: Vec<String>,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn unexpected(&self) -> ConditionsError {
        let found = self
            .rest()
            .chars()
            .next()
            .map_or("end".to_owned(), |character| format!("{character:?}"));
        ConditionsError::Unexpected {
            found,
            at: self.at,
            text: self.text.to_owned(),
        }
    }

    fn any(&mut self, depth: usize) -> Result<Term, ConditionsError> {
        let mut terms = vec![self.all(depth)?];
        while self.take("||") {
            terms.push(self.all(depth)?);
        }
        Ok(one_or(terms, Term::Any))
    }

    fn all(&mut self, depth: usize) -> Result<Term, ConditionsError> {
        let mut terms = vec![self.single(depth)?];
        while self.take("&&") {
            terms.push(self.single(depth)?);
        }
        Ok(one_or(terms, Term::All))
    }

    fn single(&mut self, depth: usize) -> Result<Term, ConditionsError> {
        if depth >= MAX_NESTING {
            return Err(ConditionsError::TooDeep);
        }
        if self.take("(") {
            let inner = self.any(depth + 1)?;
            return if self.take(")") {
                Ok(inner)
            } else {
                Err(self.unexpected())
            };
        }
        let length = self
            .rest()
            .find(|character: char| character.is_whitespace() || "()&|".contains(character))
            .unwrap_or(self.rest().len());
        if length == 0 {
            return Err(self.unexpected());
        }
        let name = &self.text[self.at..self.at + length];
        self.at += length;
        let same = |known: &&String| known.replace('-', "_") == name.replace('-', "_");
        // Of names that differ only in `-` and `_` the last one wins upstream.
        let Some(dependency) = self.known.iter().rev().find(same) else {
            return Err(ConditionsError::UnknownDependency(name.to_owned()));
        };
        self.used.push(dependency.clone());
        Ok(Term::Name(self.used.len() - 1))
    }
}

fn one_or(mut terms: Vec<Term>, make: impl FnOnce(Vec<Term>) -> Term) -> Term {
    match terms.pop() {
        Some(only) if terms.is_empty() => only,
        Some(last) => {
            terms.push(last);
            make(terms)
        }
        None => make(terms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Conditions, ConditionsError> {
        Conditions::parse(text, &["a".to_owned(), "b-1".to_owned(), "c".to_owned()])
    }

    fn holds(text: &str, seen: &[&str]) -> bool {
        parse(text).unwrap().holds(|name| seen.contains(&name))
    }

    #[test]
    fn no_conditions_want_every_dependency() {
        let all = parse("").unwrap();
        assert_eq!(all.to_string(), "a&&b-1&&c");
        assert!(all.needs_several() && !all.holds(|name| name != "c") && all.holds(|_| true));
    }

    #[test]
    fn and_binds_closer_than_or() {
        assert!(holds("a || b-1 && c", &["a"]));
        assert!(!holds("(a || b-1) && c", &["a"]));
        assert!(holds("(a||b_1)&&c", &["b-1", "c"]));
    }

    #[test]
    fn names_come_once_in_the_order_of_the_condition() {
        assert_eq!(parse("(c || a) && c").unwrap().dependencies(), ["c", "a"]);
        assert_eq!(parse("(c || a) && c").unwrap().to_string(), "(c||a)&&c");
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        for text in ["x", "a &&", "a b-1", "(a", "a)", "a & b-1", "!a", "()", " "] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse(&"(".repeat(100_000)), Err(ConditionsError::TooDeep));
        assert_eq!(Conditions::parse("", &[]), Err(ConditionsError::Empty));
    }

    proptest! {
        #[test]
        fn any_text_gives_an_answer(text in "[abc1 ()&|_!\\-é]{0,20}") {
            if let Ok(conditions) = parse(&text) {
                let again = parse(&conditions.to_string()).unwrap();
                prop_assert_eq!(again.dependencies(), conditions.dependencies());
            }
        }
    }
}
