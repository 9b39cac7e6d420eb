//! Go's regular expressions (RE2 syntax), which string filters and `=~` use.
//!
//! Called from above: [`Regex::new`], [`Regex::is_match`] and [`Regex::find_submatches`]. The syntax is read here by hand, as no
//! rewriting into the syntax of a Rust library is right for every pattern; the library's automata run it,
//! so a search takes time linear in the text.

mod ast;
mod class;
mod emit;
mod error;
mod parser;
mod scan;
pub mod shape;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::OnceLock;

use emit::Places;
use regex_automata::meta;

pub use error::{RegexError, RegexErrorKind};

/// A compiled pattern that accepts and finds what Go's `regexp.Regexp` does.
#[derive(Debug, Clone)]
pub struct Regex {
    pattern: String,
    names: Vec<Option<String>>,
    /// It keeps no groups: with them the memory of a search grows with groups times states.
    automaton: meta::Regex,
    /// The same with groups, once somebody asks for them.
    grouping: OnceLock<Result<meta::Regex, RegexError>>,
}

/// Byte ranges of a match and of its groups, the whole match first.
pub type Submatches = Vec<Option<(usize, usize)>>;

impl Regex {
    /// Compiles a pattern.
    ///
    /// Fails with Go's error text; for patterns over 256 KiB, over 1,000 open groups or with an automaton over 20 MiB, some of
    /// which Go accepts, with one that says so ([`RegexError::is_own`]).
    pub fn new(pattern: &str) -> Result<Self, RegexError> {
        let parsed = parser::parse(pattern)?;
        let automaton = emit::build(pattern, &parsed, Places::Match)?;
        Ok(Self {
            pattern: pattern.to_string(),
            names: parsed.names,
            automaton,
            grouping: OnceLock::new(),
        })
    }

    /// Returns the pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.pattern
    }

    /// Returns the names of the groups, the whole match first.
    pub fn names(&self) -> &[Option<String>] {
        &self.names
    }

    /// Says whether the pattern matches anywhere in the text; a byte that is not UTF-8 counts as one U+FFFD.
    pub fn is_match(&self, text: &[u8]) -> bool {
        self.automaton.is_match(text_as_go_reads_it(text).as_ref())
    }

    /// Finds all matches that do not overlap, at most `limit`, with their groups.
    ///
    /// # Errors
    /// [`RegexErrorKind::Limit`] for a pattern of so many groups and states that a search would not fit into 32 MiB.
    pub fn find_submatches(
        &self,
        text: &[u8],
        limit: usize,
    ) -> Result<Vec<Submatches>, RegexError> {
        let grouping = self.grouping.get_or_init(|| {
            let parsed = parser::parse(&self.pattern)?;
            emit::build(&self.pattern, &parsed, Places::Groups)
        });
        let grouping = grouping.as_ref().map_err(Clone::clone)?;
        let read = text_as_go_reads_it(text);
        let origin = offsets(text, matches!(read, Cow::Owned(_)));
        let mut found = Vec::new();
        for captures in grouping.captures_iter(read.as_ref()).take(limit) {
            let group = |index| {
                let span = captures.get_group(index)?;
                Some((origin(span.start), origin(span.end)))
            };
            found.push((0..self.names.len()).map(group).collect());
        }
        Ok(found)
    }
}

/// A pattern in the syntax of the Rust library of that name, and how many states its automaton has: a search takes at most
/// so many steps for each byte.
///
/// # Errors
/// As [`Regex::new`]; [`RegexErrorKind::Limit`] for more states than wanted.
pub fn in_rust_syntax(pattern: &str, most_states: usize) -> Result<(String, usize), RegexError> {
    let parsed = parser::parse(pattern)?;
    emit::printed(&parsed)
        .filter(|(_, states)| *states <= most_states)
        .ok_or_else(|| RegexError::limit(pattern))
}

/// Replaces every byte that is not UTF-8 by one U+FFFD.
fn text_as_go_reads_it(text: &[u8]) -> Cow<'_, [u8]> {
    if std::str::from_utf8(text).is_ok() {
        return Cow::Borrowed(text);
    }
    let mut read = Vec::with_capacity(text.len() + 16);
    for chunk in text.utf8_chunks() {
        read.extend_from_slice(chunk.valid().as_bytes());
        for _ in chunk.invalid() {
            read.extend_from_slice("\u{FFFD}".as_bytes());
        }
    }
    Cow::Owned(read)
}

/// Returns a function from an offset in the text as read to the offset in the text as given.
fn offsets(text: &[u8], differs: bool) -> impl Fn(usize) -> usize {
    let mut replaced = Vec::new();
    if differs {
        let mut position = 0;
        for chunk in text.utf8_chunks() {
            position += chunk.valid().len();
            for _ in chunk.invalid() {
                position += 3;
                replaced.push(position);
            }
        }
    }
    move |offset| offset - 2 * replaced.partition_point(|&end| end <= offset)
}
