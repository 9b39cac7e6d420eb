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

/// Whether some `return` gives more than a text, a number, `false` or nothing.
fn may_return_true(code: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices("return").any(|(at, word)| {
        let before = code[..at].chars().next_back();
        let after = &code[at + word.len()..];
        if before.is_some_and(is_word) || after.starts_with(is_word) {
            return false;
        }
        let value = after.trim_start();
        let value = value.split(['\n', ';']).next().unwrap_or_default().trim();
        let value = value.strip_suffix("end").unwrap_or(value).trim();
        let scalar = value.is_empty()
            || matches!(value, "false" | "nil" | "\"\"" | "end" | "else")
            || value.chars().all(|c| c.is_ascii_digit() || c == '.');
        !scalar
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
        ] {
            assert_eq!(may_return_true(code), may, "{code}");
        }
    }
}
