//! How much of a text a pattern speaks of: its anchors, and a text that it matches.
//!
//! Called from above: [`Shape::of`], for those who tell people what their pattern lets through.

use regex_syntax::hir::{Class, Hir, HirKind, Look};

use super::emit::{self, DEEP};
use super::error::RegexError;
use super::{Regex, parser};

/// Longest sample, in characters.
const MAX_SAMPLE: usize = 200;
/// Deepest part of a pattern that a sample is made for.
const MAX_DEPTH: u32 = 60;

/// Whether a pattern is tied to one end of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tied {
    /// Every alternative is.
    Always,
    /// Some alternatives are and others are not.
    Sometimes,
    /// No alternative is.
    Never,
}

/// What a pattern matches, seen from its ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// The start of the text.
    pub start: Tied,
    /// The end of the text.
    pub end: Tied,
    /// A text that the pattern matches as a whole; none where one is not easily made.
    pub sample: Option<String>,
}

impl Shape {
    /// Looks at a pattern; `None` for one that is nested too deeply to look at.
    ///
    /// # Errors
    /// [`RegexError`] as [`Regex::new`].
    pub fn of(pattern: &str) -> Result<Option<Self>, RegexError> {
        let regex = Regex::new(pattern)?;
        let parsed = parser::parse(pattern)?;
        if parsed.height > DEEP {
            return Ok(None);
        }
        let hir = emit::hir(&parsed.node);
        let mut sample = String::new();
        let whole = write_sample(&hir, 0, &mut sample).is_some();
        let sample = Some(sample).filter(|text| whole && regex.is_match(text.as_bytes()));
        let looks = hir.properties();
        Ok(Some(Self {
            start: tied(
                looks.look_set_prefix().contains(Look::Start),
                looks.look_set_prefix_any().contains(Look::Start),
            ),
            end: tied(
                looks.look_set_suffix().contains(Look::End),
                looks.look_set_suffix_any().contains(Look::End),
            ),
            sample,
        }))
    }
}

fn tied(always: bool, sometimes: bool) -> Tied {
    match (always, sometimes) {
        (true, _) => Tied::Always,
        (false, true) => Tied::Sometimes,
        (false, false) => Tied::Never,
    }
}

/// Writes a text that the part matches; `None` where it gets long, deep or impossible.
fn write_sample(hir: &Hir, depth: u32, out: &mut String) -> Option<()> {
    if depth > MAX_DEPTH || out.len() > MAX_SAMPLE {
        return None;
    }
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => out.push_str(std::str::from_utf8(&literal.0).ok()?),
        HirKind::Class(class) => out.push(member(class)?),
        HirKind::Repetition(repetition) => {
            for _ in 0..repetition.min {
                write_sample(&repetition.sub, depth + 1, out)?;
            }
        }
        HirKind::Capture(capture) => write_sample(&capture.sub, depth + 1, out)?,
        HirKind::Concat(parts) => {
            for part in parts {
                write_sample(part, depth + 1, out)?;
            }
        }
        HirKind::Alternation(parts) => write_sample(parts.first()?, depth + 1, out)?,
    }
    Some(())
}

/// A member of a class that reads well: `X`, else a letter or digit, else its first.
fn member(class: &Class) -> Option<char> {
    let Class::Unicode(class) = class else {
        return None;
    };
    let has = |wanted: char| {
        class
            .iter()
            .any(|range| range.start() <= wanted && wanted <= range.end())
    };
    let mut usual = "Xxa0-".chars();
    usual
        .find(|wanted| has(*wanted))
        .or_else(|| class.iter().next().map(|range| range.start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(pattern: &str) -> Shape {
        Shape::of(pattern).unwrap().unwrap()
    }

    #[test]
    fn anchors_are_seen_in_every_alternative() {
        use Tied::{Always, Never, Sometimes};
        for (pattern, start, end) in [
            ("order", Never, Never),
            ("^order", Always, Never),
            ("order$", Never, Always),
            ("^order$", Always, Always),
            (r"\Aorder\z", Always, Always),
            ("^(a|b)$", Always, Always),
            ("^a|b$", Sometimes, Sometimes),
            ("^a$|^b$", Always, Always),
            ("(?m)^a$", Never, Never),
            ("(?:^a)$", Always, Always),
            ("", Never, Never),
        ] {
            let shape = shape(pattern);
            assert_eq!((shape.start, shape.end), (start, end), "{pattern}");
        }
    }

    #[test]
    fn a_sample_is_matched_by_its_pattern() {
        for (pattern, sample) in [
            ("order.created", Some("orderXcreated")),
            (r"^order\.created$", Some("order.created")),
            ("^(a|b)[0-9]{2}$", Some("a00")),
            (r"a\bb", None),
            ("a*", Some("")),
        ] {
            assert_eq!(shape(pattern).sample.as_deref(), sample, "{pattern}");
        }
    }
}
