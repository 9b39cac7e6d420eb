//! Searching in what is shown.

/// What is searched for: plain text; upper and lower case are one, unless there is an upper-case letter in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needle {
    text: String,
    exact: bool,
}

impl Needle {
    /// Searches for this text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let exact = text.chars().any(char::is_uppercase);
        Self {
            text: text.to_owned(),
            exact,
        }
    }

    /// The text as it was typed.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether there is nothing to search for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Whether a line has it.
    #[must_use]
    pub fn is_in(&self, line: &str) -> bool {
        if self.text.is_empty() {
            return false;
        }
        if self.exact {
            return line.contains(&self.text);
        }
        if self.text.is_ascii() {
            let needle = self.text.as_bytes();
            return line
                .as_bytes()
                .windows(needle.len())
                .any(|part| part.eq_ignore_ascii_case(needle));
        }
        line.to_lowercase().contains(&self.text)
    }
}

/// The next line that has it, from `from` on and once around; the number of lines is `length`.
#[must_use]
pub fn around(
    length: usize,
    from: usize,
    forward: bool,
    is_hit: impl Fn(usize) -> bool,
) -> Option<usize> {
    (1..=length)
        .map(|step| {
            if forward {
                (from + step) % length
            } else {
                (from + 2 * length - step) % length
            }
        })
        .find(|place| is_hit(*place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_counts_only_when_typed() {
        assert!(Needle::new("kind").is_in("Kind: Sensor"));
        assert!(!Needle::new("Kind").is_in("kind: Sensor"));
        assert!(Needle::new("ä").is_in("Ärger"));
        assert!(!Needle::new("").is_in("anything"));
    }

    #[test]
    fn it_goes_around_once() {
        let hits = |place: usize| place == 2 || place == 5;
        assert_eq!(around(8, 2, true, hits), Some(5));
        assert_eq!(around(8, 5, true, hits), Some(2));
        assert_eq!(around(8, 2, false, hits), Some(5));
        assert_eq!(around(8, 3, true, |_| false), None);
        assert_eq!(around(0, 0, true, |_| true), None);
    }
}
