//! Expressions of `filters.exprs`: the language of govaluate at the commit that Argo Events uses.
//!
//! Called from above: [`Expression::parse`] and [`Expression::evaluate`]. Error texts are govaluate's.

mod evaluate;
mod grammar;
mod lexer;
mod plan;
#[cfg(test)]
mod tests;
mod value;

use std::borrow::Cow;
use std::collections::HashMap;

pub(super) use evaluate::Names;
use plan::Node;
pub use value::ExprValue;

/// Longest expression, in bytes.
const MAX_LENGTH: usize = 64 << 10;

/// Why an expression has no value; `Display` is govaluate's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExprError {
    /// The text is no expression.
    #[error("{0}")]
    Parse(String),
    /// It has no value for these names.
    #[error("{0}")]
    Evaluate(String),
    /// It is more than this program reads or builds, where govaluate might go on.
    #[error("{0}")]
    Limit(String),
}

impl ExprError {
    /// Whether this program stops here, where govaluate might go on.
    #[must_use]
    pub fn is_own(&self) -> bool {
        matches!(self, Self::Limit(_))
    }

    fn parse(text: impl Into<String>) -> Self {
        Self::Parse(text.into())
    }

    fn evaluate(text: impl Into<String>) -> Self {
        Self::Evaluate(text.into())
    }
}

/// A parsed expression.
#[derive(Debug, Clone)]
pub struct Expression {
    root: Node,
    names: Vec<String>,
}

impl Names for HashMap<String, ExprValue> {
    fn value(&self, _: usize, name: &str) -> Option<&ExprValue> {
        self.get(name)
    }
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    /// [`ExprError::Parse`]. Longer than 64 KiB or deeper than 64 parentheses is refused, though govaluate takes it.
    pub fn parse(text: &str) -> Result<Self, ExprError> {
        if text.len() > MAX_LENGTH {
            return Err(ExprError::Limit(format!(
                "eventlab: the expression is longer than {MAX_LENGTH} bytes; shorten it"
            )));
        }
        let tokens = lexer::tokens(text)?;
        grammar::check(&tokens)?;
        let (root, names) = plan::plan(&tokens)?;
        Ok(Self { root, names })
    }

    /// The names that it may ask for, each once, in the order of the text.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    /// Evaluates with values for names.
    ///
    /// # Errors
    /// [`ExprError::Evaluate`] for a name without a value, a wrong type, a pattern that does not compile.
    pub fn evaluate(&self, variables: &HashMap<String, ExprValue>) -> Result<ExprValue, ExprError> {
        self.evaluate_with(variables)
    }

    /// Evaluates as [`Expression::evaluate`] does, with values from elsewhere.
    pub(super) fn evaluate_with(&self, names: &dyn Names) -> Result<ExprValue, ExprError> {
        evaluate::evaluate(&self.root, names).map(Cow::into_owned)
    }
}
