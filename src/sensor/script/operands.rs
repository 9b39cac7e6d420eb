//! The operands of `..` and `#` and the bounds of counting loops, written as calls where the machine differs from
//! upstream's engine.
//!
//! Upstream joins a number as it writes it everywhere, the machine by C's `%.14g`; upstream counts with numbers alone, the
//! machine also with texts; upstream's length of a table with gaps is its last place, the machine's any before a gap.
//! Lines stay where they are.

use super::tokens::{Placed, Token, tokens};

/// Gives the text of a number, and everything else as it is.
const TEXT: &str = "__text";
/// Gives a number as it is, and an error for everything else.
const COUNT: &str = "__count";
/// Gives a length; it stands in place of the `#`.
const LENGTH: &str = "__length";
const OWN: [&str; 3] = [TEXT, COUNT, LENGTH];
/// In another environment these are not found.
const ENVIRONMENTS: [&str; 2] = ["setfenv", "getfenv"];

/// Writes a script with those calls; `None` where it needs none, or where that cannot be done.
pub(super) fn written(source: &str) -> Option<String> {
    let tokens = tokens(source)?;
    let concerned = |placed: &Placed<'_>| {
        matches!(
            placed.token,
            Token::Concat | Token::Name("for") | Token::Symbol(b'#')
        )
    };
    let taken = |placed: &Placed<'_>| matches!(placed.token, Token::Name(name) if OWN.contains(&name) || ENVIRONMENTS.contains(&name));
    if !tokens.iter().any(concerned) || tokens.iter().any(taken) {
        return None;
    }
    let reader = Reader {
        ends: ends(&tokens)?,
        tokens: &tokens,
    };
    let mut calls = Vec::new();
    for at in 0..tokens.len() {
        reader.bounds(at, &mut calls);
        reader.joined(at, &mut calls);
        reader.measured(at, &mut calls);
    }
    (!calls.is_empty()).then(|| with_calls(source, &calls))
}

/// A call around some bytes of the script.
struct Call {
    function: &'static str,
    start: usize,
    end: usize,
}

/// A call that starts where another one does is found after it, and ends no later.
fn with_calls(source: &str, calls: &[Call]) -> String {
    let mut edits: Vec<(usize, &str, usize)> = Vec::with_capacity(3 * calls.len());
    for call in calls {
        let sign = usize::from(call.function == LENGTH);
        edits.extend([
            (call.start, call.function, 0),
            (call.start, "(", sign),
            (call.end, ")", 0),
        ]);
    }
    edits.sort_by_key(|(at, ..)| *at);
    let mut text = String::with_capacity(source.len() + 10 * calls.len());
    let mut done = 0;
    for (at, put, left_out) in edits {
        text.push_str(source.get(done..at).unwrap_or_default());
        // What is called may touch the word before it: `return#a`, `if(a)..b`.
        let joins = |last: &u8| *last == b'_' || last.is_ascii_alphanumeric();
        if put.starts_with('_') && text.as_bytes().last().is_some_and(joins) {
            text.push(' ');
        }
        text.push_str(put);
        done = done.max(at) + left_out;
    }
    text.push_str(source.get(done..).unwrap_or_default());
    text
}

/// What a token opens or closes, by the character of what closes it; blocks have letters.
enum Bracket {
    Opens(u8),
    Closes(u8),
}

fn bracket(token: Token<'_>) -> Option<Bracket> {
    Some(match token {
        Token::Symbol(b'(') => Bracket::Opens(b')'),
        Token::Symbol(b'[') => Bracket::Opens(b']'),
        Token::Symbol(b'{') => Bracket::Opens(b'}'),
        Token::Name("function" | "do" | "if") => Bracket::Opens(b'e'),
        Token::Name("repeat") => Bracket::Opens(b'u'),
        Token::Symbol(close @ (b')' | b']' | b'}')) => Bracket::Closes(close),
        Token::Name("end") => Bracket::Closes(b'e'),
        Token::Name("until") => Bracket::Closes(b'u'),
        _ => return None,
    })
}

/// For everything that opens, the place of what closes it; `None` for a script that is not whole.
fn ends(tokens: &[Placed<'_>]) -> Option<Vec<usize>> {
    let mut ends = vec![0; tokens.len()];
    let mut open: Vec<(usize, u8)> = Vec::new();
    for (at, placed) in tokens.iter().enumerate() {
        match bracket(placed.token) {
            None => {}
            Some(Bracket::Opens(wanted)) => open.push((at, wanted)),
            Some(Bracket::Closes(found)) => {
                let (opened, _) = open.pop().filter(|(_, wanted)| *wanted == found)?;
                *ends.get_mut(opened)? = at;
            }
        }
    }
    open.is_empty().then_some(ends)
}

struct Reader<'t, 's> {
    tokens: &'t [Placed<'s>],
    ends: Vec<usize>,
}

impl<'s> Reader<'_, 's> {
    fn token(&self, at: usize) -> Option<Token<'s>> {
        self.tokens.get(at).map(|placed| placed.token)
    }

    /// A call around the tokens of a range that is not empty.
    fn call(&self, function: &'static str, from: usize, to: usize) -> Option<Call> {
        Some(Call {
            function,
            start: self.tokens.get(from)?.start,
            end: self.tokens.get(to.checked_sub(1)?)?.end,
        })
    }

    /// The bounds of `for NAME = FIRST, LAST[, STEP] do`.
    fn bounds(&self, at: usize, calls: &mut Vec<Call>) {
        if self.token(at) != Some(Token::Name("for"))
            || self.token(at + 2) != Some(Token::Symbol(b'='))
        {
            return;
        }
        let (mut from, mut to) = (at + 3, at + 3);
        while let Some(token) = self.token(to) {
            if ends_expression(token) {
                // No `do` can follow: this is no Lua, and to look for one would cost the whole rest.
                return;
            }
            let last = token == Token::Name("do");
            if last || token == Token::Symbol(b',') {
                let is_number = to == from + 1 && self.token(from) == Some(Token::Number);
                if to > from && !is_number {
                    calls.extend(self.call(COUNT, from, to));
                }
                from = to + 1;
            }
            if last {
                return;
            }
            to = self.over(to);
        }
    }

    /// The operand that starts here, if it is joined to another.
    fn joined(&self, at: usize, calls: &mut Vec<Call>) {
        let before = at.checked_sub(1).and_then(|before| self.token(before));
        if !before.is_some_and(opens_expression) {
            return;
        }
        let Some(end) = self.sum_end(at) else { return };
        let joined = before == Some(Token::Concat) || self.token(end) == Some(Token::Concat);
        let is_text = end == at + 1 && self.token(at) == Some(Token::Text);
        if joined && !is_text {
            calls.extend(self.call(TEXT, at, end));
        }
    }

    /// The operand of a `#`, with the sign itself; a power stays as it is, of which there is no length.
    fn measured(&self, at: usize, calls: &mut Vec<Call>) {
        if self.token(at) != Some(Token::Symbol(b'#')) {
            return;
        }
        let mut from = at + 1;
        while let Some(Token::Symbol(b'-' | b'#') | Token::Name("not")) = self.token(from) {
            from += 1;
        }
        let end = self.operand_end(from);
        if let Some(end) = end.filter(|end| self.token(*end) != Some(Token::Symbol(b'^'))) {
            calls.extend(self.call(LENGTH, at, end));
        }
    }

    /// The place behind a token, or behind what closes it.
    fn over(&self, at: usize) -> usize {
        let opens = matches!(
            self.token(at),
            Some(Token::Symbol(b'(' | b'[' | b'{') | Token::Name("function"))
        );
        match self.ends.get(at) {
            Some(end) if opens && *end > at => end + 1,
            _ => at + 1,
        }
    }

    /// The place behind an expression of operators that bind closer than `..`.
    fn sum_end(&self, mut at: usize) -> Option<usize> {
        loop {
            while matches!(
                self.token(at)?,
                Token::Symbol(b'-' | b'#') | Token::Name("not")
            ) {
                at += 1;
            }
            at = self.operand_end(at)?;
            match self.token(at) {
                Some(Token::Symbol(b'+' | b'-' | b'*' | b'/' | b'%' | b'^')) => at += 1,
                _ => return Some(at),
            }
        }
    }

    fn operand_end(&self, at: usize) -> Option<usize> {
        let mut end = self.over(at);
        match self.token(at)? {
            Token::Text | Token::Number | Token::Rest | Token::Symbol(b'{') => return Some(end),
            Token::Name("nil" | "true" | "false" | "function") => return Some(end),
            Token::Symbol(b'(') => {}
            Token::Name(name) if !is_keyword(name) => {}
            _ => return None,
        }
        loop {
            end = match self.token(end) {
                Some(Token::Symbol(b'.' | b':')) => end + 2,
                Some(Token::Symbol(b'(' | b'[' | b'{') | Token::Text) => self.over(end),
                _ => return Some(end),
            };
        }
    }
}

fn opens_expression(token: Token<'_>) -> bool {
    match token {
        Token::Symbol(c) => b"=(,{[<>;".contains(&c),
        Token::Comparison | Token::Concat => true,
        Token::Name(word) => matches!(
            word,
            "return" | "if" | "elseif" | "while" | "until" | "in" | "and" | "or"
        ),
        _ => false,
    }
}

/// Whether no expression of a `for` goes on here; a function's body has been jumped over.
fn ends_expression(token: Token<'_>) -> bool {
    let goes_on = ["do", "and", "or", "not", "nil", "true", "false", "function"];
    matches!(token, Token::Name(word) if is_keyword(word) && !goes_on.contains(&word))
}

fn is_keyword(name: &str) -> bool {
    super::blocks::KEYWORDS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::written;
    use proptest::prelude::*;

    #[test]
    fn operands_of_joins_and_bounds_of_loops_are_called() {
        for (script, wanted) in [
            ("return a .. 'x'", "return __text(a) .. 'x'"),
            (
                "return 'x'..1+2*-n..f(b..c).d",
                "return 'x'..__text(1+2*-n)..__text(f(__text(b)..__text(c)).d)",
            ),
            (
                "x = not a .. b == c .. d",
                "x = __text(not a) .. __text(b) == __text(c) .. __text(d)",
            ),
            (
                "t = {[a..1] = function() return b .. 2 end .. c}",
                "t = {[__text(a)..__text(1)] = __text(function() return __text(b) .. __text(2) end) .. __text(c)}",
            ),
            (
                "f 'x' y = s:rep(2){1}[3] .. ...",
                "f 'x' y = __text(s:rep(2){1}[3]) .. __text(...)",
            ),
            (
                "for i = a, b + 1, c do end",
                "for i = __count(a), __count(b + 1), __count(c) do end",
            ),
            ("return #a", "return __length(a)"),
            ("return#a", "return __length(a)"),
            ("if#a>0 then end", "if __length(a)>0 then end"),
            ("x = a or#b", "x = a or __length(b)"),
            (
                "x = not#a and-b..c",
                "x = not __length(a) and __text(-b)..__text(c)",
            ),
            ("return(a)..b", "return __text((a))..__text(b)"),
            (
                "return - # a.b[#c]:d() + 1 .. #'x'",
                "return __text(- __length( a.b[__length(c)]:d()) + 1) .. __text(__length('x'))",
            ),
            ("return ##a", "return __length(__length(a))"),
            (
                "for i = 1, #t do end",
                "for i = 1, __count(__length(t)) do end",
            ),
            (
                "for i = 1, f(1, 2) do x = i .. '' end",
                "for i = 1, __count(f(1, 2)) do x = __text(i) .. '' end",
            ),
            (
                "for i = a .. b, 2 do end",
                "for i = __count(__text(a) .. __text(b)), 2 do end",
            ),
            (
                "if a..b then elseif c..d then end",
                "if __text(a)..__text(b) then elseif __text(c)..__text(d) then end",
            ),
        ] {
            assert_eq!(written(script).as_deref(), Some(wanted), "{script}");
        }
        for script in [
            "return a + b",
            "return #a ^ 2",
            "return #",
            "return # == 1",
            "return 'a' .. 'b'",
            "for k, v in pairs(t) do end",
            "return __text .. 1",
            "setfenv(1, {}) return a .. b",
            "return a .. )",
            "return (a .. b",
            "for",
            "for i = 1",
            "x = ..",
        ] {
            assert_eq!(written(script), None, "{script}");
        }
    }

    #[test]
    fn bounds_end_where_no_expression_goes_on() {
        for script in ["for a=b,", "for a=f(1),", "for a=not b,", "for a=b if "] {
            let source = script.repeat(20_000);
            let longest = 3 * source.len();
            assert!(
                written(&source).is_none_or(|text| text.len() < longest),
                "{script}"
            );
        }
        assert_eq!(
            written("for i = f(function() for j = a, b do end end), n do end").as_deref(),
            Some(
                "for i = __count(f(function() for j = __count(a), __count(b) do end end)), __count(n) do end"
            )
        );
    }

    proptest! {
        #[test]
        fn no_source_panics(pieces in prop::collection::vec(prop::sample::select(vec![
            "a", "..", "#", "(", ")", "[", "]", "{", "}", "for", "=", ",", "do", "end", "function", "-", "not", "'x'", "1",
            ".", ":", "return", "if", "then", "repeat", "until", "...", "\n", "é",
        ]), 0..30)) {
            written(&pieces.join(" "));
            written(&pieces.concat());
        }
    }
}
