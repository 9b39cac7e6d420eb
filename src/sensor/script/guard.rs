//! Which scripts may run on a state that served another event before.
//!
//! Upstream starts every event afresh. A script that only reads the libraries cannot leave anything behind once its
//! globals are put into a table of their own; one that could change a library gets a new state for every event.

use std::collections::HashMap;

use super::tokens::{Placed, Token, tokens};

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
    let Some(tokens) = tokens(source) else {
        return false;
    };
    let kinds: HashMap<&str, bool> = LIBRARIES
        .iter()
        .map(|name| (*name, true))
        .chain(EXCLUDED.iter().map(|name| (*name, false)))
        .collect();
    tokens.iter().enumerate().all(|(at, placed)| {
        let Token::Name(name) = &placed.token else {
            return true;
        };
        let previous = at.checked_sub(1).and_then(|before| tokens.get(before));
        let previous = previous.map(|placed| placed.token);
        let is_field = matches!(previous, Some(Token::Symbol(b'.' | b':')));
        match kinds.get(name) {
            None => true,
            Some(_) if is_field => true,
            Some(false) => false,
            Some(true) => {
                previous != Some(Token::Name("function")) && is_read_only(&tokens[at + 1..])
            }
        }
    })
}

/// Says whether what follows a library's name calls one of its functions or reads a number.
fn is_read_only(after: &[Placed<'_>]) -> bool {
    let mut after = after.iter().map(|placed| placed.token);
    match (after.next(), after.next(), after.next()) {
        (
            Some(Token::Symbol(b'.')),
            Some(Token::Name(_)),
            Some(Token::Symbol(b'(' | b'{') | Token::Text),
        ) => true,
        (Some(Token::Symbol(b'.')), Some(Token::Name("huge" | "pi")), next) => {
            !matches!(next, Some(Token::Symbol(b'=' | b',' | b'.' | b'[')))
        }
        _ => false,
    }
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
