//! What a check found: rule, place, what happens, what was probably meant, and how to mend it.

use std::ops::Range;

use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// It accepts more than it says in cases that are often harmless.
    Note,
    /// It passes or drops events that it does not say it does.
    Warning,
    /// It does not go live, or every event is dropped.
    Error,
}

impl Level {
    /// The level's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule's id.
    pub rule: &'static str,
    /// How bad it is.
    pub level: Level,
    /// The file as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Where in the object, such as `spec.dependencies[0].filters.data[0].value[0]`.
    pub path: String,
    /// What Argo Events does with it.
    pub what: String,
    /// What was probably meant.
    pub meant: Option<String>,
    /// How to mend it.
    pub fix: Option<Fix>,
}

/// A change of the file that mends a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fix {
    /// What it does, in a few words.
    pub title: String,
    /// It cannot turn away an event that is accepted as intended now; others are suggestions.
    pub safe: bool,
    /// The replacements.
    pub edits: Vec<Edit>,
}

/// One replacement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Edit {
    /// Bytes of the file.
    pub bytes: Range<usize>,
    /// What stands there afterwards.
    pub text: String,
}
