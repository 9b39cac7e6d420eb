//! What one rendering may cost, and what is said where it would cost more.
//!
//! Upstream knows none of these bounds. So an error keeps by its kind whose it is: any words could be a template's own.

use crate::sensor::json;
use crate::sensor::printf::TooLong;
use crate::sensor::regex::RegexError;

/// Steps: nodes visited, and parts of the values that functions walk over.
const STEPS: usize = 10_000_000;
/// Longest output and longest single text, in bytes.
pub(super) const MAX_TEXT: usize = 4 << 20;
/// Templates that call one another.
pub(super) const MAX_CALLS: usize = 32;

/// Why a part of a template gives nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// Upstream fails, too, with this text.
    Go(String),
    /// Upstream does not even call the function: its arguments do not fit.
    Arguments(Misfit),
    /// This program stops, where upstream might go on.
    Own(String),
}

/// How arguments do not fit a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Misfit {
    /// There are too many or too few.
    Count(String),
    /// The one at a place has another type than Go wants; `text` says so of a value.
    Type {
        place: usize,
        wanted: &'static str,
        text: String,
    },
}

impl Misfit {
    /// Go's words of a value.
    pub fn text(&self) -> &str {
        match self {
            Self::Count(text) | Self::Type { text, .. } => text,
        }
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Go(text)
    }
}

impl From<&str> for Failure {
    fn from(text: &str) -> Self {
        Self::Go(text.to_owned())
    }
}

impl From<RegexError> for Failure {
    fn from(error: RegexError) -> Self {
        if error.is_own() {
            Self::Own(error.to_string())
        } else {
            Self::Go(error.to_string())
        }
    }
}

impl From<TooLong> for Failure {
    fn from(_: TooLong) -> Self {
        TooLarge.into()
    }
}

/// A value grew too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

impl From<TooLarge> for Failure {
    fn from(_: TooLarge) -> Self {
        own("a value of the template is too large; build smaller texts and lists")
    }
}

/// What is said of data that nests too deeply; Go's decoder takes a hundred times as much.
pub(super) fn too_deep() -> Failure {
    own("the data is nested more than 100 levels deep; take the parts that are needed with a path")
}

/// Why data could not be read as JSON.
pub(super) fn too_deep_or(text: &str, error: &serde_json::Error) -> Failure {
    if json::is_valid(text.as_bytes()) {
        too_deep()
    } else {
        error.to_string().into()
    }
}

/// The end at a bound of this program.
pub(super) fn own(what: &str) -> Failure {
    Failure::Own(format!("eventlab: {what}"))
}

/// Counts down the steps that are left.
#[derive(Debug)]
pub(super) struct Steps(usize);

impl Steps {
    /// A budget for data of that weight.
    pub fn new(weight: usize) -> Self {
        Self(STEPS.saturating_add(weight.saturating_mul(4)))
    }

    /// Takes steps away.
    pub fn take(&mut self, steps: usize) -> Result<(), Failure> {
        match self.0.checked_sub(steps) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => {
                self.0 = 0;
                Err(own("the template takes too many steps; do less work in it"))
            }
        }
    }
}
