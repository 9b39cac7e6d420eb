//! Character classes: `[…]`, `\d`, `[:alpha:]`, `\p{Greek}`, with case folding as Go does it.

use std::collections::HashMap;

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

use super::error::{RegexError, RegexErrorKind as Kind};
use super::scan::{consumed, escape, next_char};

type Ranges = &'static [(u32, u32)];

const DIGIT: Ranges = &[(0x30, 0x39)];
const PERL_SPACE: Ranges = &[(0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20)];
const WORD: Ranges = &[(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)];

/// More ranges than this in all classes together are refused as too large.
const MAX_RANGES: usize = 1 << 20;

/// Builds a class from code points, leaving out surrogates, which no text holds.
pub(super) fn class(ranges: &[(u32, u32)]) -> ClassUnicode {
    let parts = ranges.iter().flat_map(|&(low, high)| {
        [(low, high.min(0xD7FF)), (low.max(0xE000), high)]
            .into_iter()
            .filter(|(low, high)| low <= high)
    });
    ClassUnicode::new(parts.filter_map(|(low, high)| {
        let (low, high) = (char::from_u32(low)?, char::from_u32(high)?);
        Some(ClassUnicodeRange::new(low, high))
    }))
}

/// Adds the other cases of the letters, then negates: the order decides what `(?i)[^k]` means.
pub(super) fn fold_then_negate(
    mut class: ClassUnicode,
    fold_case: bool,
    negated: bool,
) -> ClassUnicode {
    if fold_case {
        // The error only says that the Unicode tables are not compiled in; they are.
        let _ = class.try_case_fold_simple();
    }
    if negated {
        class.negate();
    }
    class
}

/// Returns the ranges of `\d`, `\s`, `\w` and their negations.
fn perl_class(letter: char) -> Option<(Ranges, bool)> {
    let ranges = match letter.to_ascii_lowercase() {
        'd' => DIGIT,
        's' => PERL_SPACE,
        'w' => WORD,
        _ => return None,
    };
    Some((ranges, letter.is_ascii_uppercase()))
}

fn posix_class(name: &str) -> Option<(Ranges, bool)> {
    let (name, negated) = match name.strip_prefix('^') {
        Some(name) => (name, true),
        None => (name, false),
    };
    let ranges: Ranges = match name {
        "alnum" => &[(0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)],
        "alpha" => &[(0x41, 0x5A), (0x61, 0x7A)],
        "ascii" => &[(0x00, 0x7F)],
        "blank" => &[(0x09, 0x09), (0x20, 0x20)],
        "cntrl" => &[(0x00, 0x1F), (0x7F, 0x7F)],
        "digit" => DIGIT,
        "graph" => &[(0x21, 0x7E)],
        "lower" => &[(0x61, 0x7A)],
        "print" => &[(0x20, 0x7E)],
        "punct" => &[(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)],
        "space" => &[(0x09, 0x0D), (0x20, 0x20)],
        "upper" => &[(0x41, 0x5A)],
        "word" => WORD,
        "xdigit" => &[(0x30, 0x39), (0x41, 0x46), (0x61, 0x66)],
        _ => return None,
    };
    Some((ranges, negated))
}

/// Looks up a general category or a script; Go knows no other property.
fn unicode_class(name: &str) -> Option<ClassUnicode> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_- ".contains(c);
    if name.is_empty() || !name.chars().all(allowed) {
        return None;
    }
    let mut key: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    key.make_ascii_lowercase();
    // The tables' library takes `IsGreek` for Greek; no name that Go knows begins so.
    if key.starts_with("is") {
        return None;
    }
    match key.as_str() {
        "any" => Some(class(&[(0, 0x10FFFF)])),
        "ascii" => Some(class(&[(0, 0x7F)])),
        "cs" | "surrogate" => Some(class(&[])),
        "lc" | "casedletter" => table(r"[\p{Lu}\p{Ll}\p{Lt}]"),
        "assigned" => table(r"\P{Cn}"),
        _ => table(&format!(r"\p{{gc={name}}}")).or_else(|| {
            is_script_name(&key)
                .then(|| table(&format!(r"\p{{sc={name}}}")))
                .flatten()
        }),
    }
}

/// Go knows scripts by their names only; four letters are nearly always an ISO 15924 code.
fn is_script_name(key: &str) -> bool {
    key != "unknown"
        && (key.len() != 4
            || [
                "ahom", "cham", "kawi", "lisu", "miao", "modi", "newa", "thai", "toto",
            ]
            .contains(&key))
}

fn table(pattern: &str) -> Option<ClassUnicode> {
    let hir = regex_syntax::parse(pattern).ok()?;
    match hir.kind() {
        HirKind::Class(Class::Unicode(class)) => Some(class.clone()),
        HirKind::Literal(literal) => {
            let c = std::str::from_utf8(&literal.0).ok()?.chars().next()?;
            Some(class(&[(u32::from(c), u32::from(c))]))
        }
        _ => None,
    }
}

/// Reads classes and keeps the Unicode tables that one pattern uses more than once.
#[derive(Default)]
pub(super) struct ClassReader {
    unicode: HashMap<(String, bool, bool), ClassUnicode>,
    ranges: usize,
}

/// A class and what follows it in the pattern.
pub(super) type Read<'p> = (ClassUnicode, &'p str);

impl ClassReader {
    /// Reads `\d`, `\W`, `\pN`, `\p{Greek}` and the like; `None` where `text` is none of them.
    pub fn escaped<'p>(
        &mut self,
        text: &'p str,
        fold_case: bool,
    ) -> Result<Option<Read<'p>>, RegexError> {
        let Some(('\\', after)) = next_char(text) else {
            return Ok(None);
        };
        let Some((letter, rest)) = next_char(after) else {
            return Ok(None);
        };
        if letter == 'p' || letter == 'P' {
            return self.unicode(text, rest, letter == 'P', fold_case).map(Some);
        }
        Ok(perl_class(letter).map(|(ranges, negated)| {
            let class = fold_then_negate(class(ranges), fold_case, negated);
            (class, rest)
        }))
    }

    fn unicode<'p>(
        &mut self,
        text: &'p str,
        after: &'p str,
        negated: bool,
        fold_case: bool,
    ) -> Result<Read<'p>, RegexError> {
        let invalid = |part| RegexError::new(Kind::InvalidClassRange, part);
        let (name, rest) = match next_char(after) {
            None => return Err(invalid(text)),
            Some(('{', braced)) => braced.split_once('}').ok_or_else(|| invalid(text))?,
            Some((_, rest)) => (consumed(after, rest), rest),
        };
        let (name, negated) = match name.strip_prefix('^') {
            Some(name) => (name, !negated),
            None => (name, negated),
        };
        let key = (name.to_string(), negated, fold_case);
        if let Some(class) = self.unicode.get(&key) {
            return Ok((class.clone(), rest));
        }
        let class = unicode_class(name).ok_or_else(|| invalid(consumed(text, rest)))?;
        let class = fold_then_negate(class, fold_case, negated);
        self.unicode.insert(key, class.clone());
        Ok((class, rest))
    }

    /// Reads `[…]`; `text` starts with the bracket.
    pub fn bracketed<'p>(
        &mut self,
        text: &'p str,
        fold_case: bool,
    ) -> Result<Read<'p>, RegexError> {
        let mut rest = &text[1..];
        let negated = rest.starts_with('^');
        if negated {
            rest = &rest[1..];
        }
        let mut ranges = Vec::new();
        let mut first = true;
        while first || !rest.starts_with(']') {
            first = false;
            let (item, after) = self.item(text, rest, fold_case)?;
            self.charge(item.ranges().len(), text)?;
            ranges.extend_from_slice(item.ranges());
            rest = after;
        }
        let class = fold_then_negate(ClassUnicode::new(ranges), false, negated);
        Ok((class, &rest[1..]))
    }

    /// Counts ranges towards the limit of the whole pattern.
    pub fn charge(&mut self, ranges: usize, text: &str) -> Result<(), RegexError> {
        self.ranges += ranges;
        if self.ranges > MAX_RANGES {
            return Err(RegexError::limit(text));
        }
        Ok(())
    }

    fn item<'p>(
        &mut self,
        whole: &str,
        text: &'p str,
        fold_case: bool,
    ) -> Result<Read<'p>, RegexError> {
        if let Some(named) = posix_item(text, fold_case)? {
            return Ok(named);
        }
        if let Some(escaped) = self.escaped(text, fold_case)? {
            return Ok(escaped);
        }
        let (low, mut rest) = class_char(whole, text)?;
        let mut high = low;
        if rest.len() > 1 && rest.starts_with('-') && !rest[1..].starts_with(']') {
            (high, rest) = class_char(whole, &rest[1..])?;
        }
        if high < low {
            return Err(RegexError::new(
                Kind::InvalidClassRange,
                consumed(text, rest),
            ));
        }
        Ok((
            fold_then_negate(class(&[(low, high)]), fold_case, false),
            rest,
        ))
    }
}

fn posix_item(text: &str, fold_case: bool) -> Result<Option<Read<'_>>, RegexError> {
    let Some((name, rest)) = text
        .strip_prefix("[:")
        .and_then(|after| after.split_once(":]"))
    else {
        return Ok(None);
    };
    let (ranges, negated) = posix_class(name)
        .ok_or_else(|| RegexError::new(Kind::InvalidClassRange, consumed(text, rest)))?;
    Ok(Some((
        fold_then_negate(class(ranges), fold_case, negated),
        rest,
    )))
}

fn class_char<'p>(whole: &str, text: &'p str) -> Result<(u32, &'p str), RegexError> {
    if text.starts_with('\\') {
        return escape(text);
    }
    match next_char(text) {
        Some((c, rest)) => Ok((u32::from(c), rest)),
        None => Err(RegexError::new(Kind::MissingBracket, whole)),
    }
}
