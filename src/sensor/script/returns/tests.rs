//! What never returns `true` is told, and nothing is told of a script that does.

use proptest::prelude::*;

use super::super::Script;
use super::never_true;

/// Event data of several shapes.
const EVENTS: [&str; 5] = [
    "{}",
    r#"{"header":{"X-Kind":["order"]},"body":{"kind":"order","ok":true,"n":1,"t":[1,"a"]}}"#,
    r#"{"header":{},"body":{"kind":"Order","ok":false,"n":"1","t":{"x":true}}}"#,
    r#"{"body":{"kind":true,"ok":"true","n":0,"t":[]}}"#,
    r#"{"body":"order"}"#,
];

#[test]
fn what_cannot_be_true_is_told() {
    for (source, returned) in [
        ("", "nothing"),
        ("local ok = event.body.ok", "nothing"),
        ("return", "nothing"),
        ("return ...", "nothing"),
        ("return 'true'", "a text"),
        ("return [[true]]", "a text"),
        ("return 1", "a number"),
        ("return {true}", "a table or function"),
        ("return function() return true end", "a table or function"),
        ("return print(event)", "nothing"),
        // A result of a library function.
        ("return tostring(true)", "a text"),
        ("return tostring(event.body.ok == true)", "a text"),
        ("local text = tostring return text(event.body.ok)", "a text"),
        ("return tonumber(event.body.n)", "a number, nothing"),
        ("return #event.body.t", "a number"),
        ("return type(event.body.ok)", "a text"),
        (
            "return string.find(event.body.kind, '^order')",
            "a text, a number, nothing",
        ),
        (
            "return event.body.kind:match('^order')",
            "a text, a number, nothing",
        ),
        (
            "local b = event.body or {} return b.kind:find('x')",
            "a text, a number, nothing",
        ),
        ("return event.body.n + 1", "a number"),
        ("return event.body.kind .. ''", "a text"),
        ("return string['lower'](event.body.kind)", "a text"),
        ("return math.max(event.body.n, 1)", "a number"),
        // A comparison that never holds.
        ("return tostring(event.body.ok) == true", "false"),
        ("return type(event.body.ok) == 'bool'", "false"),
        ("return 'string' == type(1) and 1", "a number, false"),
        ("return event.body.kind:lower() == 'Order'", "false"),
        ("return 'order' == string.upper(event.body.kind)", "false"),
        ("return #event.body.t == '2'", "false"),
        ("return tonumber(event.body.n) == '1'", "false"),
        ("return (event.body.n - 1) == nil", "false"),
        ("return not (tonumber(event.body.n) ~= 'x')", "false"),
        // Choices between what is not true.
        ("return event.body.ok and 'yes' or 'no'", "a text"),
        ("return event.body.kind == 'x' and 1", "a number, false"),
        ("return false and event.body.ok", "false"),
        ("return 'x' or event.body.ok", "a text"),
        (
            "local ok = 'no' if event.body.ok then ok = 'yes' end return ok",
            "a text",
        ),
        (
            "local ok if event.body.ok then ok = 1 end return ok",
            "a number, nothing",
        ),
        (
            "if tostring(event.body.ok) == true then return true end",
            "nothing",
        ),
        (
            "if event.body.ok then return 1 else return 2 end return true",
            "a number",
        ),
        ("while nil do return true end return 0", "a number"),
        (
            "if false then return true elseif nil then return true end",
            "nothing",
        ),
        // The last of several values counts.
        ("return event.body.kind == 'order', 'kind'", "a text"),
        ("return true, false", "false"),
        // Functions of the script.
        ("local function ok() return true end ok()", "nothing"),
        (
            "local function ok(e) if e.ok then return 'yes' end end return ok(event.body)",
            "a text, nothing",
        ),
        (
            "function ok() return tostring(true) end return ok()",
            "a text",
        ),
        (
            "local function f(n) if n == 0 then return 'x' end return f(n - 1) end return f(3)",
            "a text",
        ),
        (
            "local function f() return 1, true end return (f())",
            "a number",
        ),
        // Names that nothing has set.
        ("return True", "nothing"),
        ("local ok = True return ok", "nothing"),
        ("return null == nil and 1", "a number, false"),
        ("return Event.body.ok", ""),
        ("local kind = Event.body.kind return kind == 'order'", ""),
        ("return body.kind == 'order'", ""),
        ("return contains(event.body.kind, 'order')", ""),
        ("error('x') return true", ""),
        ("return 1 < 'x'", ""),
        ("return event.body.n.x.y or true and nil > 1", "?"),
        ("goto over ::over:: return 'x'", "a text"),
    ] {
        if returned == "?" {
            assert_eq!(never_true(source), None, "{source}");
            continue;
        }
        let found = never_true(source).map(|words| words.join(", "));
        assert_eq!(found.as_deref(), Some(returned), "{source}");
        let script = Script::compile(source).unwrap();
        for event in EVENTS {
            assert_ne!(
                script.evaluate(event.as_bytes()),
                Ok(true),
                "{source}: {event}"
            );
        }
    }
}

#[test]
fn what_may_be_true_is_left_alone() {
    for source in [
        "return true",
        "return event.body.ok",
        "return event.body['ok']",
        "return event.body.kind == 'order'",
        "return event.body.n == '1'",
        "return not event.body.ok",
        "return not not event.body.kind:find('x')",
        "return event.body.kind:find('x') ~= nil",
        "return event.body.kind:match('x') and true or false",
        "return event.body.ok or 'no'",
        "return 'kind', event.body.kind == 'order'",
        "return true, print()",
        "return true, ...",
        "local function none() end return true, none()",
        "return (event.body.ok)",
        "return pcall(tostring)",
        "return assert(event.body.ok)",
        "return select(1, event.body.ok)",
        "return rawequal(event.body.kind, 'order')",
        "return next({[true] = 1})",
        "return event.body.kind:lower() == 'order'",
        "return type(event.body.ok) == 'boolean' and event.body.ok",
        "if type(event.body.n) == 'number' then return event.body.n > 1 end return false",
        "for _, v in pairs(event.body.t) do if v == 'a' then return true end end return false",
        "for i = 1, #event.body.t do if event.body.t[i] == 'a' then return true end end",
        "local n = 0 repeat n = n + 1 if n == 2 then return true end until n > 5",
        "while true do if event then return true end end",
        "local ok = false if event.body.ok then ok = true end return ok",
        "local ok = false local function set() ok = true end set() return ok",
        "ok = false function set() ok = true end set() return ok",
        "local function f() return true end return f()",
        "local function f() return 1, true end return f()",
        "local function f(x) return x end return f(true)",
        "local function f(...) return ... end return f(true)",
        "local t = {lower = function() return true end} return t:lower()",
        "local t = {} t.lower = function() return true end return t:lower()",
        "event.body.lower = function() return true end return event.body:lower()",
        "local tostring = function() return true end return tostring(1)",
        "tostring = function() return true end return tostring(1)",
        "function tostring() return true end return tostring(1)",
        "string.lower = function() return true end return ('x'):lower()",
        "local string = {lower = function() return true end} return string.lower('x')",
        "_G.tostring = function() return true end return tostring(1)",
        "loadstring('tostring = function() return true end')() return tostring(1)",
        "return setmetatable({}, {__index = function() return true end}).x",
        "return setmetatable({}, {__add = function() return true end}) + 1",
        "return coroutine.wrap(function() return true end)()",
        "True = true return True",
        "for tostring in function(_, x) if not x then return pairs end end do return tostring ~= nil end",
        "do return true end",
        "if event.body.ok then goto yes end do return false end ::yes:: do return true end",
        "local f local function g(n) if n > 3 then return true end return f(n + 1) end f = g return g(1)",
    ] {
        assert_eq!(never_true(source), None, "{source}");
        Script::compile(source).unwrap();
    }
}

#[test]
fn long_and_deep_scripts_are_judged_in_bounded_time_and_stack() {
    let long = format!("return {}'x'", "event.body.ok and ".repeat(12_000));
    assert!(never_true(&long).is_some());
    let chain: String = (1..4_000).map(|n| format!("v{n} = v{} ", n - 1)).collect();
    let reversed: String = (1..4_000)
        .rev()
        .map(|n| format!("v{n} = v{} ", n - 1))
        .collect();
    assert_eq!(
        never_true(&format!("{chain}return v3999")),
        Some(vec!["nothing"])
    );
    assert_eq!(
        never_true(&format!("v0 = true {reversed}return v3999")),
        None
    );
    for (open, close) in [
        ("(", ")"),
        ("{", "}"),
        ("not ", ""),
        ("function() return ", " end"),
    ] {
        let deep = format!("return {}1{}", open.repeat(5_000), close.repeat(5_000));
        assert_eq!(never_true(&deep), None, "{open}");
    }
    let blocks = format!("{}{}", "do ".repeat(5_000), "end ".repeat(5_000));
    assert_eq!(never_true(&blocks), None);
}

fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "nil",
        "true",
        "false",
        "1",
        "'order'",
        "'Order'",
        "event",
        "event.body",
        "event.body.kind",
        "event.body.ok",
        "event.body.n",
        "event.body.t",
        "x",
        "y",
        "f()",
        "f(x)",
        "g",
        "{}",
        "...",
        "tostring",
        "string.lower",
        "event.body['t'].x",
        "'boolean'",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(4, 24, 3, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            (
                two.clone(),
                prop::sample::select(vec!["==", "~=", "and", "or", "..", "+", "<"])
            )
                .prop_map(|((a, b), sign)| format!("({a} {sign} {b})")),
            (
                inner.clone(),
                prop::sample::select(vec![
                    "tostring",
                    "type",
                    "tonumber",
                    "not ",
                    "#",
                    "-",
                    "string.upper",
                    "select(1, ",
                    "pcall(type, ",
                    "(function(...) return ... end)",
                    "(function(a) x = a return y end)",
                    "pcall(f, ",
                ])
            )
                .prop_map(|(a, call)| match call.contains(", ") {
                    true => format!("{call}{a})"),
                    false => format!("{call}({a})"),
                }),
            (
                inner.clone(),
                prop::sample::select(vec!["lower", "find", "upper", "len"])
            )
                .prop_map(|(a, method)| format!("({a}):{method}('o')")),
            two.prop_map(|(a, b)| format!("(function() if {a} then return {b} end end)()")),
            inner.prop_map(|a| format!("({{k = {a}}}).k")),
        ]
    })
}

fn script() -> impl Strategy<Value = String> {
    let statement = (expression(), expression(), 0..11u8).prop_map(|(a, b, kind)| match kind {
        0 => format!("local x = {a}"),
        1 => format!("x, y = {a}, {b}"),
        2 => format!("if {a} then return {b} end"),
        3 => format!("local function f(...) return {a}, {b} end"),
        4 => format!("function f(z) x = z return {a} end"),
        5 => format!("for i = 1, 2 do if {a} then y = {b} end end"),
        6 => format!("while {a} do do return {b} end end"),
        7 => format!("repeat local x = {a} if x then break end until ({b}) or true"),
        8 => format!("g = {{{a}, lower = {b}}}"),
        9 => format!("for _, y in pairs(event.body or {{}}) do if y == {a} then return y end end"),
        _ => format!("do local y = {a} if y then x = {b} else return x end end"),
    });
    (
        prop::collection::vec(statement, 0..6),
        expression(),
        expression(),
        0..3u8,
    )
        .prop_map(|(statements, a, b, kind)| {
            let end = match kind {
                0 => format!("return {a}"),
                1 => format!("return {a}, {b}"),
                _ => String::new(),
            };
            format!("{}\n{end}", statements.join("\n"))
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn never_is_never(source in script()) {
        if never_true(&source).is_some() && let Ok(script) = Script::compile(&source) {
            for event in EVENTS {
                prop_assert_ne!(script.evaluate(event.as_bytes()), Ok(true), "{}: {}", &source, event);
            }
        }
    }

    #[test]
    fn no_source_panics(pieces in prop::collection::vec(prop::sample::select(vec![
        "a", ".", "..", "(", ")", "[", "]", "{", "}", "for", "=", ",", "do", "end", "function", "-", "not", "'x'",
        "1", ":", "return", "if", "then", "else", "elseif", "repeat", "until", "while", "in", "...", "local", "\n",
        "==", "and", "or", "true", "break", ";", "é",
    ]), 0..30)) {
        let _ = never_true(&pieces.join(" "));
        let _ = never_true(&pieces.concat());
    }
}
