//! Templates in filters and parameters: Go's text/template with the functions of sprig.
//!
//! Called from above: [`Template::parse`] and [`Template::render`]. Numbers of JSON are floats, so 1234567 is written
//! `1.234567e+06` and does not compare with 5: that is what templates do in the field. Functions that read the
//! environment, look up hosts or make keys are refused by name.

mod exec;
mod functions;
mod json_text;
mod lexer;
mod limits;
mod literal;
mod map;
mod parser;
mod semver;
#[cfg(test)]
mod tests;
mod tree;
mod value;

use std::collections::BTreeMap;

use limits::Failure;
use parser::Parsed;
use value::Value;

/// Longest template, in bytes.
const MAX_SOURCE: usize = 64 << 10;
/// The name that Argo Events gives its templates; error texts show it.
const NAME: &str = "param";

/// Why a template gives no text; `Display` is Go's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The text is no template.
    #[error("{0}")]
    Parse(String),
    /// It has a part that upstream knows and eventlab does not, named here.
    #[error("eventlab: {0} in a template is not supported; leave it out to judge the rest")]
    Outside(String),
    /// It failed on this input.
    #[error("{0}")]
    Execute(String),
    /// It is more than eventlab reads or does, where upstream might go on.
    #[error("{0}")]
    Limit(String),
}

impl From<Failure> for TemplateError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Go(text) => Self::Execute(text),
            Failure::Arguments(misfit) => Self::Execute(misfit.text().to_owned()),
            Failure::Own(text) => Self::Limit(text),
        }
    }
}

impl TemplateError {
    /// Whether this program stops here, where upstream might go on.
    #[must_use]
    pub fn is_own(&self) -> bool {
        matches!(self, Self::Outside(_) | Self::Limit(_))
    }

    fn parse(source: &str, at: usize, text: &str) -> Self {
        Self::Parse(format!(
            "template: {NAME}:{}: {text}",
            lexer::line(source, at)
        ))
    }

    fn execute(source: &str, at: usize, node: &str, text: &str) -> Self {
        let before = &source.as_bytes()[..at.min(source.len())];
        let column = before
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(at, |newline| at - newline - 1);
        let line = lexer::line(source, at);
        Self::Execute(format!(
            "template: {NAME}:{line}:{column}: executing \"{NAME}\" at <{node}>: {text}"
        ))
    }
}

/// Says whether Argo Events takes an output for no value.
#[must_use]
pub fn is_no_value(output: &str) -> bool {
    matches!(output, "" | "<no value>")
}

/// A parsed template.
#[derive(Debug, Clone)]
pub struct Template {
    source: String,
    parsed: Parsed,
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// [`TemplateError::Parse`], and [`TemplateError::Limit`] for more than 64 KiB or 64 levels.
    pub fn parse(source: &str) -> Result<Self, TemplateError> {
        if source.len() > MAX_SOURCE {
            return Err(TemplateError::Limit(format!(
                "eventlab: the template is longer than {MAX_SOURCE} bytes; shorten it"
            )));
        }
        let parsed = parser::parse(source)?;
        Ok(Self {
            source: source.to_string(),
            parsed,
        })
    }

    /// Renders the template with `.Input` as given.
    ///
    /// # Errors
    /// [`TemplateError::Execute`], and [`TemplateError::Limit`] for output over 4 MiB and for too many steps.
    pub fn render(&self, input: &serde_json::Value) -> Result<String, TemplateError> {
        self.run(Value::from_json(input)?)
    }

    fn run(&self, input: Value) -> Result<String, TemplateError> {
        let members = BTreeMap::from([("Input".to_string(), input)]);
        exec::run(&self.source, &self.parsed, Value::root(members))
    }

    /// Renders the template with JSON text as `.Input`.
    ///
    /// # Errors
    /// As [`Template::render`], and for text that is not JSON.
    pub fn render_json(&self, input: &[u8]) -> Result<String, TemplateError> {
        // Like Go's decoder, take every byte that is not UTF-8 for U+FFFD.
        let text = String::from_utf8_lossy(input);
        let input = Value::parse_json(&text).map_err(|error| limits::too_deep_or(&text, &error))?;
        self.run(input)
    }

    /// Renders the template with a text as `.Input`.
    ///
    /// # Errors
    /// As [`Template::render`].
    pub fn render_text(&self, input: &str) -> Result<String, TemplateError> {
        self.render(&serde_json::Value::String(input.to_string()))
    }
}
