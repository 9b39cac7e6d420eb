//! Which scripts may run on a state that served another event before.
//!
//! Upstream starts every event afresh. A script that only reads the libraries cannot leave anything behind once its
//! globals are put into a table of their own; one that could change a library gets a new state for every event.

use std::collections::HashMap;

/// A token, as far as the question needs it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Token<'s> {
    Name(&'s str),
    /// A text or a number.
    Literal,
    Symbol(u8),
    /// `==`, `~=`, `<=` or `>=`, which assign nothing.
    Comparison,
}

/// Library tables, which may only stand in a call such as `string.find(…)`.
const LIBRARIES: [&str; 4] = ["string", "table", "math", "os"];

/// Names that reach other environments, metatables, coroutines or stubs that a script could fill.
const EXCLUDED: [&str; 18] = [
    "_G",
    "setmetatable",
    "getmetatable",
    "rawset",
    "rawget",
    "setfenv",
    "getfenv",
    "load",
    "loadstring",
    "loadfile",
    "dofile",
    "module",
    "require",
    "package",
    "coroutine",
    "debug",
    "io",
    "channel",
];

/// Says whether the script leaves nothing behind for the next event.
pub(super) fn leaves_nothing(source: &str) -> bool {
    let Some(tokens) = tokens(source.as_bytes(), source) else {
        return false;
    };
    let kinds: HashMap<&str, bool> = LIBRARIES
        .iter()
        .map(|name| (*name, true))
        .chain(EXCLUDED.iter().map(|name| (*name, false)))
        .collect();
    tokens.iter().enumerate().all(|(at, token)| {
        let Token::Name(name) = token else {
            return true;
        };
        let previous = at.checked_sub(1).and_then(|before| tokens.get(before));
        let is_field = matches!(previous, Some(Token::Symbol(b'.' | b':')));
        match kinds.get(name) {
            None => true,
            Some(_) if is_field => true,
            Some(false) => false,
            Some(true) => {
                previous != Some(&Token::Name("function")) && is_read_only(&tokens[at + 1..])
            }
        }
    })
}

/// Says whether what follows a library's name calls one of its functions or reads a number.
fn is_read_only(after: &[Token<'_>]) -> bool {
    match after {
        [
            Token::Symbol(b'.'),
            Token::Name(_),
            Token::Symbol(b'(' | b'{') | Token::Literal,
            ..,
        ] => true,
        [Token::Symbol(b'.'), Token::Name("huge" | "pi"), next @ ..] => {
            !matches!(next.first(), Some(Token::Symbol(b'=' | b',' | b'.' | b'[')))
        }
        _ => false,
    }
}

/// Splits a script; `None` where a text or comment does not end.
fn tokens<'s>(bytes: &[u8], source: &'s str) -> Option<Vec<Token<'s>>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&c) = bytes.get(at) {
        let next = bytes.get(at + 1).copied();
        match c {
            b' ' | b'\t'..=b'\r' => at += 1,
            b'-' if next == Some(b'-') => at = comment_end(bytes, at + 2)?,
            b'"' | b'\'' => {
                at = quoted_end(bytes, at)?;
                tokens.push(Token::Literal);
            }
            b'[' if long_bracket(bytes, at).is_some() => {
                at = long_end(bytes, at)?;
                tokens.push(Token::Literal);
            }
            b'=' | b'~' | b'<' | b'>' if next == Some(b'=') => {
                at += 2;
                tokens.push(Token::Comparison);
            }
            b'0'..=b'9' => {
                at = run_end(bytes, at);
                tokens.push(Token::Literal);
            }
            c if c == b'_' || c.is_ascii_alphabetic() => {
                let end = run_end(bytes, at);
                tokens.push(Token::Name(source.get(at..end)?));
                at = end;
            }
            c => {
                at += 1;
                tokens.push(Token::Symbol(c));
            }
        }
    }
    Some(tokens)
}

fn run_end(bytes: &[u8], at: usize) -> usize {
    let length = bytes[at..]
        .iter()
        .take_while(|c| **c == b'_' || c.is_ascii_alphanumeric())
        .count();
    at + length
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
    use super::leaves_nothing;
    use proptest::prelude::*;

    #[test]
    fn ordinary_scripts_share_a_state() {
        for script in [
            "return event.body.kind == 'order.created'",
            "x = 1 return string.find(event.body.kind, 'a') ~= nil",
            "local n = math.floor(2.5) return n <= math.huge and n == math.pi",
            "return event.body.table == event.string.io and ('x'):rep(2) == 'xx' -- string = 1",
            "return string.format [[%d]] == \"string = 1\" --[[ table = nil ]]",
        ] {
            assert!(leaves_nothing(script), "{script}");
        }
    }

    #[test]
    fn scripts_that_could_leave_something_do_not() {
        for script in [
            "string.find = nil",
            "string = {}",
            "local s = string return true",
            "function string.x() end",
            "string['find'] = nil",
            "a, string.x = 1, 2",
            "a, math.pi = 1, 2",
            "math.huge = 1",
            "getmetatable('').__index.find = nil",
            "setmetatable(_G, {})",
            "rawset(table, 'x', 1)",
            "for k in pairs(string) do end",
            "io.x = 1",
            "return 'unfinished",
            "--[[ unfinished",
        ] {
            assert!(!leaves_nothing(script), "{script}");
        }
    }

    proptest! {
        #[test]
        fn no_source_panics(source in any::<String>()) {
            leaves_nothing(&source);
        }

        #[test]
        fn no_source_of_syntax_panics(source in "[-\\[\\]=\"'\\\\\n a.s]{0,20}") {
            leaves_nothing(&source);
        }
    }
}
