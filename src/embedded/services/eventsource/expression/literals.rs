//! The texts that are written out in an expression, and the patterns among them.
//!
//! Upstream reads escapes as Go does and runs Go's patterns; the library that evaluates does neither. So texts are read
//! here and written again as the library reads them, patterns in its own syntax.

use super::guard::Token;
use crate::sensor::regex::{RegexError, in_rust_syntax};

/// Most states of one pattern: it is compiled anew for every event.
const MAX_STATES: usize = 10_000;

/// An expression whose texts were written again.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub text: String,
    /// What is wrong with one of them: upstream says so at every event.
    pub broken: Option<String>,
    /// Steps that all patterns together take for a byte at most.
    pub steps: usize,
}

/// Writes the texts of an expression again.
///
/// # Errors
/// What of them is not supported, in words.
pub(super) fn rewrite(expression: &str, tokens: &[Token<'_>]) -> Result<Written, String> {
    let mut written = Written::default();
    let mut done = 0;
    for (place, token) in tokens.iter().enumerate() {
        let (before, after) = tokens.split_at(place);
        let after = after.get(1..).unwrap_or_default();
        let pattern = wants_pattern(before);
        match token {
            Token::Text(at, literal) => {
                if pattern && !ends_operand(after) {
                    return Err(MADE.to_owned());
                }
                let is_key = after.first() == Some(&Token::Mark(':'))
                    && matches!(before.last(), Some(Token::Mark('{' | ',')));
                written
                    .text
                    .push_str(expression.get(done..*at).unwrap_or_default());
                done = at + literal.len();
                literal_again(literal, pattern, is_key, &mut written)?;
            }
            _ if pattern => return Err(MADE.to_owned()),
            // Upstream's lexer knows no such quote.
            Token::Mark('`') => written.fail("unrecognized character: U+0060 '`'"),
            _ => {}
        }
    }
    written
        .text
        .push_str(expression.get(done..).unwrap_or_default());
    Ok(written)
}

const MADE: &str = "`matches` with a pattern that is not written out";

/// Whether what follows these tokens is a pattern; `matches` behind a dot is the name of a field.
fn wants_pattern(before: &[Token<'_>]) -> bool {
    match before {
        [.., Token::Mark('.'), Token::Name(_)] => false,
        [.., last] => *last == Token::Name("matches"),
        [] => false,
    }
}

/// Whether a text ends the operand in which it stands, so that nothing is made of it.
fn ends_operand(after: &[Token<'_>]) -> bool {
    match after {
        [] => true,
        [
            Token::Mark(')' | ']' | '}' | ',' | ':' | '=' | '!' | '<' | '>'),
            ..,
        ] => true,
        [Token::Mark('&'), Token::Mark('&'), ..] | [Token::Mark('|'), Token::Mark('|'), ..] => true,
        [Token::Mark('?'), next, ..] => !matches!(next, Token::Mark('.' | '?')),
        [Token::Name(name), ..] => matches!(*name, "and" | "or"),
        _ => false,
    }
}

impl Written {
    fn fail(&mut self, why: &str) {
        self.broken.get_or_insert(why.to_owned());
    }
}

fn literal_again(
    literal: &str,
    pattern: bool,
    is_key: bool,
    written: &mut Written,
) -> Result<(), String> {
    let text = match unescaped(literal) {
        Ok(text) => text,
        Err(why) => {
            written.fail(why);
            return Ok(());
        }
    };
    let text = if pattern {
        match in_rust_syntax(&text, MAX_STATES) {
            Ok((pattern, states)) => {
                written.steps = written.steps.saturating_add(states);
                pattern
            }
            Err(error) => return broken_pattern(&error, written),
        }
    } else if !literal.contains(['\\', '\r']) {
        written.text.push_str(literal);
        return Ok(());
    } else {
        text
    };
    if is_key || text.contains('`') {
        return Err(format!("the escapes in {literal}"));
    }
    // Nothing is an escape between these.
    written.text.push('`');
    written.text.push_str(&text);
    written.text.push('`');
    Ok(())
}

fn broken_pattern(error: &RegexError, written: &mut Written) -> Result<(), String> {
    if error.is_own() {
        return Err(error
            .to_string()
            .trim_start_matches("eventlab: ")
            .to_owned());
    }
    written.fail(&error.to_string());
    Ok(())
}

/// The text of a literal as upstream's lexer reads it.
fn unescaped(literal: &str) -> Result<String, &'static str> {
    const UNTERMINATED: &str = "literal not terminated";
    const ESCAPE: &str = "invalid char escape";
    let mut chars = literal.chars();
    let quote = chars.next().ok_or(UNTERMINATED)?;
    let inner = chars
        .as_str()
        .strip_suffix(quote)
        .filter(|inner| !inner.contains('\n'))
        .ok_or(UNTERMINATED)?;
    let mut text = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(first) = chars.next() {
        if first == '\r' {
            text.push('\n');
            continue;
        }
        if first != '\\' {
            text.push(first);
            continue;
        }
        let rest = chars.as_str();
        let (value, length) = match chars.next().ok_or(UNTERMINATED)? {
            'a' => ('\u{7}', 1),
            'b' => ('\u{8}', 1),
            'f' => ('\u{c}', 1),
            'n' => ('\n', 1),
            'r' => ('\r', 1),
            't' => ('\t', 1),
            'v' => ('\u{b}', 1),
            '\\' => ('\\', 1),
            other if other == quote => (quote, 1),
            '0'..='3' => (numbered(rest, 0, 3, 8).ok_or(ESCAPE)?, 3),
            'x' => (numbered(rest, 1, 2, 16).ok_or(ESCAPE)?, 3),
            'u' => (numbered(rest, 1, 4, 16).ok_or(ESCAPE)?, 5),
            'U' => (numbered(rest, 1, 8, 16).ok_or(ESCAPE)?, 9),
            _ => return Err(ESCAPE),
        };
        text.push(value);
        chars = rest[length..].chars();
    }
    Ok(text)
}

/// The character that some digits stand for; Go writes U+FFFD for a surrogate.
fn numbered(text: &str, from: usize, digits: usize, radix: u32) -> Option<char> {
    let digits = text.get(from..from + digits)?;
    if !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    let value = u32::from_str_radix(digits, radix).ok()?;
    (value <= u32::from(char::MAX)).then(|| char::from_u32(value).unwrap_or('\u{fffd}'))
}
