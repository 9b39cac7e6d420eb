//! What one rendering may cost, and the words for what costs more.

/// Steps: nodes visited, and parts of the values that functions walk over.
const STEPS: usize = 10_000_000;
/// Longest output and longest single text, in bytes.
pub(super) const MAX_TEXT: usize = 4 << 20;
/// Templates that call one another.
pub(super) const MAX_CALLS: usize = 32;

/// A value grew too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("value is too large; build smaller texts and lists")]
pub(super) struct TooLarge;

/// Counts down the steps that are left.
#[derive(Debug)]
pub(super) struct Steps(usize);

impl Steps {
    /// A budget for data of that weight.
    pub fn new(weight: usize) -> Self {
        Self(STEPS.saturating_add(weight.saturating_mul(4)))
    }

    /// Takes steps away.
    pub fn take(&mut self, steps: usize) -> Result<(), String> {
        match self.0.checked_sub(steps) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => {
                self.0 = 0;
                Err("template takes too many steps; do less work in it".to_string())
            }
        }
    }
}

/// Beginnings and parts of the texts with which this program stops a template that upstream would render.
const OWN: [&str; 7] = [
    "eventlab: ",
    "template takes too many steps",
    "template is longer than ",
    "levels; split the template",
    "output is longer than 4 MiB",
    "templates call one another too deeply",
    "value is too large; build smaller",
];

/// Whether the text of an error is one of those.
pub(super) fn is_own(text: &str) -> bool {
    OWN.iter().any(|part| text.contains(part))
}
