//! Lua: scripts that do not compile, that never return true, that index from zero.

use super::super::site::Site;
use super::{Check, short};
use crate::sensor::script::{Script, ScriptError};

/// Checks `filters.script`.
pub(super) fn check(check: &mut Check<'_>, site: &Site<'_>) {
    let Some(text) = site.node.text().filter(|text| !text.trim().is_empty()) else {
        return;
    };
    let code = code_of(text);
    let Ok(script) = compiled(check, site, text, &code) else {
        return;
    };
    if !may_return_true(&code) && !passes_something(&script) {
        let finding = check.report(
            "script-never-true",
            site,
            "the script never returns the boolean `true`, so no event passes",
        );
        finding.meant = Some(
            "`return event.body.kind == \"…\"`; a text, a number or no value is not true"
                .to_owned(),
        );
    }
    zero_index(check, site, &code);
}

/// Checks `transform.script`.
pub(super) fn check_transform(check: &mut Check<'_>, site: &Site<'_>) {
    let Some(text) = site.node.text().filter(|text| !text.trim().is_empty()) else {
        return;
    };
    let code = code_of(text);
    if compiled(check, site, text, &code).is_ok() {
        zero_index(check, site, &code);
    }
}

fn compiled(check: &mut Check<'_>, site: &Site<'_>, text: &str, code: &str) -> Result<Script, ()> {
    match Script::compile(text) {
        Ok(script) => Ok(script),
        Err(ScriptError::Syntax(error)) => {
            let finding = check.report(
                "bad-script",
                site,
                format!(
                    "the script does not compile, so every event is dropped with an error: {}",
                    short(&error)
                ),
            );
            finding.meant = if code.contains("!=") {
                Some("`~=` is Lua's unequal".to_owned())
            } else if code.contains("&&") || code.contains("||") {
                Some("Lua writes `and`, `or` and `not`".to_owned())
            } else {
                Some("Lua 5.1".to_owned())
            };
            Err(())
        }
        Err(_) => Err(()),
    }
}

/// The script without comments, and with every text as `""`.
fn code_of(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(comment) = rest.strip_prefix("--") {
            rest = match long_bracket(comment) {
                Some(after) => after,
                None => comment.find('\n').map_or("", |end| &comment[end..]),
            };
            out.push(' ');
        } else if let Some(after) = long_bracket(rest) {
            out.push_str("\"\"");
            rest = after;
        } else if c == '"' || c == '\'' {
            out.push_str("\"\"");
            rest = after_quoted(&rest[1..], c);
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

/// What follows a long bracket; `None` if none starts here.
fn long_bracket(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('[')?;
    let level = inner.len() - inner.trim_start_matches('=').len();
    let inner = inner[level..].strip_prefix('[')?;
    let close = format!("]{}]", "=".repeat(level));
    Some(
        inner
            .find(&close)
            .map_or("", |end| &inner[end + close.len()..]),
    )
}

fn after_quoted(text: &str, quote: char) -> &str {
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        if c == '\\' {
            characters.next();
        } else if c == quote || c == '\n' {
            return &text[at + c.len_utf8()..];
        }
    }
    ""
}

/// Whether some `return` of the script itself gives more than a text, a number, `false` or nothing.
///
/// What a function inside returns counts only where the script returns what the function gives.
fn may_return_true(code: &str) -> bool {
    let words: Vec<&str> = words(code).collect();
    // What each open block is: a function or not.
    let mut blocks: Vec<bool> = Vec::new();
    for (place, word) in words.iter().enumerate() {
        match *word {
            "function" => blocks.push(true),
            "if" | "do" | "repeat" => blocks.push(false),
            "end" | "until" => {
                blocks.pop();
            }
            "return" if !blocks.contains(&true) => {
                let value = words[place + 1..].iter().take_while(|word| {
                    !matches!(**word, ";" | "end" | "else" | "elseif" | "until")
                });
                let value: Vec<&str> = value.copied().collect();
                if !never_true(&value) {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

/// Nothing, `false`, `nil`, a text or a number by itself.
fn never_true(value: &[&str]) -> bool {
    match value {
        [] | ["false" | "nil" | "\"\""] => true,
        [number] => number.chars().all(|c| c.is_ascii_digit()),
        [whole, ".", part] => [whole, part]
            .iter()
            .all(|digits| digits.chars().all(|c| c.is_ascii_digit())),
        _ => false,
    }
}

/// The names, numbers and signs of a script, texts as `""`.
fn words(code: &str) -> impl Iterator<Item = &str> {
    let mut rest = code;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let first = rest.chars().next()?;
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let length = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if rest.starts_with("\"\"") {
            2
        } else {
            first.len_utf8()
        };
        let (word, after) = rest.split_at(length);
        rest = after;
        Some(word)
    })
}

/// A script that passes an empty event passes something after all.
fn passes_something(script: &Script) -> bool {
    [&b"{}"[..], br#"{"header":{},"body":{}}"#]
        .iter()
        .any(|data| script.evaluate(data) == Ok(true))
}

fn zero_index(check: &mut Check<'_>, site: &Site<'_>, code: &str) {
    let compact: String = code.chars().filter(|c| !c.is_whitespace()).collect();
    // A list that the script fills itself may start where it likes.
    let filled = compact
        .match_indices("[0]=")
        .any(|(at, found)| !compact[at + found.len()..].starts_with('='));
    if compact.contains("[0]") && compact.contains("event") && !filled {
        let finding = check.report(
            "script-zero-index",
            site,
            "Lua's lists start at 1: the element `[0]` of an event's list is nil",
        );
        finding.meant = Some("`[1]`, as in `event.header[\"X-Order-Id\"][1]`".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_without_texts_and_comments() {
        for (text, code) in [
            ("return 'a' -- no\nx", "return \"\"  \nx"),
            ("a --[[ return true\n]] b", "a   b"),
            ("s = [==[ x ]] ]==] t", "s = \"\" t"),
            (r#"s = "a\"b" t"#, "s = \"\" t"),
            ("--", " "),
        ] {
            assert_eq!(
                code_of(text).replace("  ", " "),
                code.replace("  ", " "),
                "{text}"
            );
        }
    }

    #[test]
    fn a_return_of_something_may_be_true() {
        for (code, may) in [
            ("return true", true),
            ("return event.body.kind == \"\"", true),
            ("if x then return true end return false", true),
            ("local ok = true", false),
            ("return \"\"", false),
            ("return 1", false),
            ("if x then return false end", false),
            ("returned = true", false),
            ("return\ntrue", true),
            ("return f()", true),
            ("if x then return false end return nil", false),
            ("local function f() return true end return f()", true),
            ("local f = function() return true end return 1", false),
            ("local function f() if x then return true end end", false),
            (
                "local function f() return 1 end if x then return true end",
                true,
            ),
            ("for i = 1, 2 do if x then return true end end", true),
            (
                "while x do return false end repeat return nil until y",
                false,
            ),
            ("return not x", true),
            ("return 1.5", false),
            ("do return true end", true),
        ] {
            assert_eq!(may_return_true(code), may, "{code}");
        }
    }
}
