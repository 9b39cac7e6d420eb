//! The tokens of a script, with their places: what the questions that are asked before it runs need to know.

/// A token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'s> {
    /// A name or keyword.
    Name(&'s str),
    /// A text.
    Text,
    /// A number.
    Number,
    /// A single character of syntax.
    Symbol(u8),
    /// `==`, `~=`, `<=` or `>=`, which assign nothing.
    Comparison,
    /// `..`
    Concat,
    /// `...`
    Rest,
    /// `::`
    Label,
}

/// A token and the bytes where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placed<'s> {
    pub token: Token<'s>,
    pub start: usize,
    pub end: usize,
}

/// Splits a script; `None` where a text or comment does not end.
pub(super) fn tokens(source: &str) -> Option<Vec<Placed<'_>>> {
    let bytes = source.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&c) = bytes.get(at) {
        let next = bytes.get(at + 1).copied();
        match c {
            b' ' | b'\t'..=b'\r' => {
                at += 1;
                continue;
            }
            b'-' if next == Some(b'-') => {
                at = comment_end(bytes, at + 2)?;
                continue;
            }
            _ => {}
        }
        let (token, end) = token(source, at, c, next)?;
        tokens.push(Placed {
            token,
            start: at,
            end,
        });
        at = end;
    }
    Some(tokens)
}

fn token(source: &str, at: usize, c: u8, next: Option<u8>) -> Option<(Token<'_>, usize)> {
    let bytes = source.as_bytes();
    Some(match c {
        b'"' | b'\'' => (Token::Text, quoted_end(bytes, at)?),
        b'[' if long_bracket(bytes, at).is_some() => (Token::Text, long_end(bytes, at)?),
        b'=' | b'~' | b'<' | b'>' if next == Some(b'=') => (Token::Comparison, at + 2),
        b':' if next == Some(b':') => (Token::Label, at + 2),
        b'.' if next == Some(b'.') && bytes.get(at + 2) == Some(&b'.') => (Token::Rest, at + 3),
        b'.' if next == Some(b'.') => (Token::Concat, at + 2),
        b'0'..=b'9' => (Token::Number, number_end(bytes, at)),
        b'.' if next.is_some_and(|digit| digit.is_ascii_digit()) => {
            (Token::Number, number_end(bytes, at))
        }
        c if c == b'_' || c.is_ascii_alphabetic() => {
            let end = run_end(bytes, at);
            (Token::Name(source.get(at..end)?), end)
        }
        c => (Token::Symbol(c), at + 1),
    })
}

fn run_end(bytes: &[u8], at: usize) -> usize {
    let length = bytes[at..]
        .iter()
        .take_while(|c| **c == b'_' || c.is_ascii_alphanumeric())
        .count();
    at + length
}

/// The end of a number; of two points in a row none belongs to it, so that `1..x` joins.
fn number_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(&c) = bytes.get(at) {
        let point = c == b'.' && bytes.get(at + 1) != Some(&b'.');
        let exponent = matches!(bytes.get(at.wrapping_sub(1)), Some(b'e' | b'E')) && at > start;
        let sign = exponent && matches!(c, b'+' | b'-');
        if !(point || sign || c == b'_' || c.is_ascii_alphanumeric()) {
            break;
        }
        at += 1;
    }
    at.max(start + 1)
}

fn quoted_end(bytes: &[u8], start: usize) -> Option<usize> {
    let quote = bytes[start];
    let mut at = start + 1;
    loop {
        match *bytes.get(at)? {
            b'\\' => at += 2,
            b'\n' => return None,
            c if c == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// Returns the level of `[[`, `[=[`, … at this place.
fn long_bracket(bytes: &[u8], at: usize) -> Option<usize> {
    let level = bytes[at + 1..].iter().take_while(|c| **c == b'=').count();
    (bytes.get(at + 1 + level) == Some(&b'[')).then_some(level)
}

fn long_end(bytes: &[u8], at: usize) -> Option<usize> {
    let level = long_bracket(bytes, at)?;
    let close = [b"]".as_slice(), &b"=".repeat(level), b"]"].concat();
    let start = at + level + 2;
    let end = bytes[start..]
        .windows(close.len())
        .position(|window| window == close)?;
    Some(start + end + close.len())
}

fn comment_end(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes.get(at) == Some(&b'[') && long_bracket(bytes, at).is_some() {
        return long_end(bytes, at);
    }
    let line = bytes[at..].iter().position(|c| *c == b'\n');
    Some(line.map_or(bytes.len(), |length| at + length))
}

#[cfg(test)]
mod tests {
    use super::{Token, tokens};

    #[test]
    fn numbers_points_and_colons_are_told_apart() {
        let kinds = |source: &str| -> Vec<String> {
            let tokens = tokens(source).unwrap();
            tokens
                .iter()
                .map(|placed| match placed.token {
                    Token::Name(name) => name.to_owned(),
                    Token::Symbol(c) => char::from(c).to_string(),
                    _ => format!("{:?}:{}", placed.token, &source[placed.start..placed.end]),
                })
                .collect()
        };
        assert_eq!(kinds("1..x"), ["Number:1", "Concat:..", "x"]);
        assert_eq!(kinds("1.5e-3-.5"), ["Number:1.5e-3", "-", "Number:.5"]);
        assert_eq!(kinds("a:b(...)"), ["a", ":", "b", "(", "Rest:...", ")"]);
        assert_eq!(kinds("::a:: --[[x]] b"), ["Label:::", "a", "Label:::", "b"]);
        assert_eq!(
            kinds("0x1F~=[==[]]]==]"),
            ["Number:0x1F", "Comparison:~=", "Text:[==[]]]==]"]
        );
    }
}
