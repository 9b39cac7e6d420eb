//! Hostile scripts end, and nothing of one event reaches the next.

use proptest::prelude::*;

use super::{Script, ScriptError};

fn run(source: &str, data: &str) -> Result<bool, ScriptError> {
    Script::compile(source)?.evaluate(data.as_bytes())
}

fn passes(source: &str) -> bool {
    run(source, "{}") == Ok(true)
}

/// Runs scripts that only the limits can end.
fn all_end(sources: &[&str]) {
    for source in sources {
        let result = run(source, "{}");
        assert!(result.is_err(), "{source}: {result:?}");
    }
}

#[test]
fn what_only_this_engine_refuses_is_its_own() {
    for source in [
        format!("return 'a'{}", " .. event.a".repeat(250)),
        format!("return {}1{}", "(".repeat(250), ")".repeat(250)),
    ] {
        let error = Script::compile(&source).unwrap_err();
        assert!(error.is_own(), "{error}");
    }
    for source in ["return 'chunk has too many syntax levels", "return )"] {
        let error = Script::compile(source).unwrap_err();
        assert!(matches!(error, ScriptError::Syntax(_)), "{error}");
    }
}

#[test]
fn loops_are_stopped() {
    let stopped = [
        "while true do end",
        "repeat until false",
        "local function f() return f() end return f()",
        "while true do pcall(function() while true do end end) end",
        "while true do pcall(error) end",
        "return xpcall(function() while true do end end, function() return true end)",
        "return xpcall(function() while true do end end, function() while true do end end)",
        "return pcall(pcall, pcall, function() while true do end end)",
        "coroutine.wrap(function() while true do end end)()",
        "while true do coroutine.wrap(function() while true do end end)() end",
        "local co = coroutine.create(function() while true do coroutine.yield() end end) while true do coroutine.resume(co) end",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "local t = setmetatable({}, {__index = function() while true do end end}) return t.x",
        "for w in string.gmatch(('a'):rep(1000), 'a') do while true do end end",
        "return (string.gsub(('a'):rep(100000), 'a', function() while true do end end))",
        "while true do loadstring('return 1')() end",
        "load(function() return ' ' end)",
        "while true do os.date('%Y') end",
    ];
    for source in stopped {
        let result = run(source, "{}");
        let expected = matches!(
            result,
            Err(ScriptError::Stopped | ScriptError::Memory | ScriptError::Runtime(_))
        );
        assert!(expected, "{source}: {result:?}");
    }
    assert_eq!(run("while true do end", "{}"), Err(ScriptError::Stopped));
    assert_eq!(
        run("pcall(function() while true do end end) return true", "{}"),
        Err(ScriptError::Stopped)
    );
    let caught = "coroutine.resume(coroutine.create(function() while true do end end)) return true";
    assert_eq!(run(caught, "{}"), Err(ScriptError::Stopped));
}

#[test]
fn patterns_are_stopped() {
    all_end(&[
        "return string.find(string.rep('a', 60000), '.-.-.-.-b')",
        "return ('a'):rep(3000):find('.-.-.-b')",
        "return ('a'):rep(60000):match('.-.-.-.-b')",
        "return ('a'):rep(60000):gsub('.-.-.-.-b', '')",
        "for w in ('a'):rep(60000):gmatch('.-.-.-.-b') do end",
        "while true do ('a'):rep(1000000):find('b', 1, true) end",
        "local s = ('a'):rep(1000000) .. 'b' while true do s:find(s, 1, true) end",
        "return ('('):rep(100000):find(('%b()'):rep(1000))",
        "return ('a'):find('[a')",
        "return ('a'):rep(1100000):find('a*')",
    ]);
}

#[test]
fn library_loops_are_stopped() {
    all_end(&[
        "local t = {} for i = 1, 400000 do t[i] = -i end while true do table.sort(t) end",
        "local t = {} for i = 1, 1000 do t[i] = i end while true do table.sort(t, function() return true end) end",
        "local s = ('a'):rep(3000000) while true do s:upper() end",
        "local s = ('a'):rep(3000000) while true do s:reverse() end",
        "local t = {} for i = 1, 100000 do t[i] = 'a' end while true do table.concat(t) end",
        "local t = {} for i = 1, 100000 do t[i] = 'a' end while true do table.insert(t, 1, 'a') end",
        "local t = {} for i = 1, 100000 do t[i] = 'a' end while true do table.maxn(t) end",
        "while true do tonumber('12345678901234567890') end",
        "while true do string.format('%99999d', 1) end",
        "local s = ('a'):rep(3000000) while true do local x = s .. s end",
        "while true do unpack({}, 1, 7000) end",
    ]);
}

/// Upstream knows none of these bounds, so what a script does about them would be a decision that upstream never makes.
#[test]
fn a_bound_of_this_program_cannot_be_caught_and_says_whose_it_is() {
    let bounds = [
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "local t = {} for i = 1, 1000 do t[i] = ('a'):rep(100000) .. i end",
        "return ('a'):rep(2^31 - 1)",
        "return string.format('%999999d%999999d%999999d%999999d%999999d', 1, 2, 3, 4, 5)",
        "local s = ('a'):rep(1000000) return (s:gsub('a', s))",
        "local t = {} for i = 1, 100 do t[i] = ('a'):rep(100000) end return table.concat(t)",
        "return ('a'):rep(5000):byte()",
        "local function f(n) return (('a'):gsub('a', function() return f(n + 1) end)) end return f(0)",
        "local function f() return coroutine.wrap(f)() end return f()",
        "while true do end",
    ];
    for body in bounds {
        for source in [
            format!("{body} return true"),
            format!("pcall(function() {body} end) return true"),
            format!("local ok = pcall(function() {body} end) return not ok"),
            format!("xpcall(function() {body} end, function() return 'x' end) return true"),
            format!("coroutine.resume(coroutine.create(function() {body} end)) return true"),
            format!("pcall(coroutine.wrap(function() {body} end)) return true"),
            format!("pcall(string.gsub, 'a', 'a', function() {body} end) return true"),
            format!("pcall(table.sort, {{2, 1}}, function() {body} end) return true"),
        ] {
            let Ok(script) = Script::compile(&source) else {
                // A body that returns is the end of its chunk.
                continue;
            };
            let error = script.evaluate(b"{}").unwrap_err();
            assert!(error.is_own(), "{source}: {error}");
            assert!(error.to_string().starts_with("eventlab: "), "{error}");
            assert_eq!(script.evaluate(b"{}"), Err(error), "{source}");
        }
    }
}

#[test]
fn no_words_of_a_script_make_its_error_one_of_this_program() {
    for words in [
        "eventlab: the script takes too many steps for one event; do less per event",
        "resulting string too large",
        "script stopped",
        "chunk has too many syntax levels",
        "not enough memory",
    ] {
        for source in [
            format!("error('{words}')"),
            format!("error('{words}', 0)"),
            format!("error({{'{words}'}})"),
            format!("return event['{words}'].x"),
        ] {
            let error = run(&source, "{}").unwrap_err();
            assert!(
                matches!(error, ScriptError::Runtime(_)),
                "{source}: {error}"
            );
            assert!(!error.is_own(), "{error}");
        }
    }
}

#[test]
fn memory_is_bounded() {
    assert_eq!(
        run("local t = {} for i = 1, 1e9 do t[i] = i end", "{}"),
        Err(ScriptError::Memory)
    );
    assert_eq!(
        run("local s = 'a' while true do s = s .. s end", "{}"),
        Err(ScriptError::Memory)
    );
    all_end(&[
        "local t = {} for i = 1, 1e9 do t[i] = {} end",
        "return (''):rep(2^31 - 1) == 'a' or error('empty')",
        "return ('a'):rep(2^31 - 1)",
        "return ('a'):rep(1e15)",
        "local t = {} for i = 1, 1000 do t[i] = ('a'):rep(1000000) end return table.concat(t)",
        "local s = ('a'):rep(1000000) return (s:gsub('a', s))",
        "while true do pcall(function() local t = {} for i = 1, 1e9 do t[i] = i end end) end",
        "return string.format('%999999d', 1):rep(100)",
        "local t = {} while true do t = {t, coroutine.create(function() end)} end",
    ]);
}

/// Numbers are joined as they are written elsewhere, a number in a text is no whole number, and indexes count in a way of
/// their own: as upstream's engine answers.
#[test]
fn the_engine_differs_from_c_where_upstreams_does() {
    for script in [
        "return 1e15 .. '' == '1000000000000000' and 'o-' .. 2 ^ 53 == 'o-9007199254740992'",
        "return 0.1 + 0.2 .. '' == '0.30000000000000004' and 1 / 0 .. '|' .. -(1 / 0) == '+Inf|-Inf'",
        "local t = {id = 20260102030405124} return 'o-' .. t.id .. '.' == 'o-20260102030405124.'",
        "return not pcall(function() for i = '1', 2 do end end)",
        "return not pcall(function() for i = 1, '2' do end end)",
        "local n = 0 for i = 1, n + 3, 1 do n = n + i end return n == 6",
        "return not pcall(string.rep, 'x', '2') and not pcall(string.sub, 'x', '1')",
        "return not pcall(string.char, '65') and not pcall(tonumber, '12', '16')",
        "return string.char(256) == '\\0' and string.char(-1) == '\\255' and string.char() == ''",
        "return select('#', ('abc'):byte()) == 3 and ('abc'):byte(-1) == 99 and ('abc'):byte(9) == nil",
        "return select('#', ('abc'):byte(0, 2)) == 0 and select('#', ('abc'):byte(2, 3)) == 2",
        "return ('abc'):sub(2) == 'bc' and ('abc'):sub(-2, -2) == 'b' and ('abc'):sub(0) == 'abc'",
        "return ('abc'):sub(1e300) == '' and ('abc'):sub(2, 1) == '' and ('abc'):sub(-9, 9) == 'abc'",
        "return table.concat({9}) == 9 and table.concat({1.5, 'x'}, ',', 0, 9) == '1.5,x'",
        "local t = {1, 2} table.insert(t, 1, 2, 3) return table.concat(t, ',') == '2,1,2'",
        "local t = {1, 2} table.insert(t, 0, 'q') return t[0] == 'q' and t[1] == 1 and t[2] == 2",
        "return table.remove({1, 2, 3}, 0) == 3 and table.remove({1}, 2) == nil",
        "return string.len(1e15) == 16 and string.format('%d', 'x') == '0'",
        "return string.format('%%', 5) == '%%!(EXTRA lua.LNumber=5)'",
    ] {
        assert_eq!(run(script, "{}"), Ok(true), "{script}");
    }
}

#[test]
fn recursion_is_bounded() {
    all_end(&[
        "local function f() return 1 + f() end return f()",
        "local function f() pcall(f) error('x') end f()",
        "local function f(s) return (s:gsub('.', f)) end return f('a')",
        "local function f() return coroutine.wrap(f)() end return f()",
        "local function f() local ok, e = coroutine.resume(coroutine.create(f)) error(e) end return f()",
        "local t = {} setmetatable(t, {__index = function(_, k) return t[k .. 'x'] end}) return t.x",
        "local t = setmetatable({}, {__tostring = function(t) return tostring(t) end}) return tostring(t)",
        "local function f() return xpcall(f, f) end f() error('done')",
        "local t = {} table.sort(t, nil) local function c(a, b) table.sort({1, 2}, c) return a < b end table.sort({1, 2}, c)",
    ]);
    let nested = format!("return {}1{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(matches!(run(&nested, "{}"), Err(ScriptError::TooLarge(_))));
    let mix = "local function f(n) return coroutine.wrap(function() return select(2, pcall(string.gsub, 'a', 'a', function() \
               return tostring(setmetatable({}, {__tostring = function() return f(n + 1) end})) end)) end)() end f(1) error('end')";
    all_end(&[mix]);
}

#[test]
fn many_values_do_not_break_the_machine() {
    for function in [
        "string.format, '%s'",
        "tostring",
        "string.find",
        "pcall, error",
        "select, 2",
        "string.char",
        "math.max",
    ] {
        let source = format!(
            "local t = {{}} for i = 1, 7900 do t[i] = 'a' .. i end return pcall({function}, unpack(t))"
        );
        let result = run(&source, "{}");
        assert!(
            !matches!(result, Err(ScriptError::Engine(_))),
            "{function}: {result:?}"
        );
    }
    for source in [
        "local t = {} for i = 1, 30 do t[i] = i end return select('#', pcall(unpack, t)) == 31",
        "local t = {} for i = 1, 30 do t[i] = i end return select('#', xpcall(function() return unpack(t) end, print)) == 31",
        "local t = {} for i = 1, 30 do t[i] = i end return select('#', coroutine.wrap(function() coroutine.yield(unpack(t)) end)()) == 30",
    ] {
        assert_eq!(run(source, "{}"), Ok(true), "{source}");
    }
    let closures =
        "local t = {} for i = 1, 9000 do t[i] = string.gmatch('abc', '.') end return true";
    assert_eq!(run(closures, "{}"), Ok(true));
}

#[test]
fn nothing_reaches_outside() {
    for source in [
        "os.execute('true')",
        "os.exit(1)",
        "io.open('/etc/passwd')",
        "require('os')",
        "dofile('/etc/passwd')",
        "loadfile('/etc/passwd')()",
        "string.dump(function() end)",
        "loadstring('\\27Lua')()",
        "debug.sethook()",
        "package.loadlib('x', 'y')",
    ] {
        let result = run(source, "{}");
        assert!(
            matches!(result, Err(ScriptError::Runtime(_))),
            "{source}: {result:?}"
        );
    }
}

#[test]
fn every_event_starts_afresh() {
    let scripts = [
        "local seen = counter counter = true return seen == nil",
        "if string.seen then return false end string.seen = 1 return true",
        "getmetatable('').__index.seen = (('x').seen or 0) + 1 return ('x').seen == 1",
        "local old = rawget(_G, 'x') rawset(_G, 'x', 1) return old == nil",
        "local e = getfenv(0) local old = e.x e.x = 1 return old == nil",
        "local fine = math.pi ~= 3 loadstring('math.pi = 3')() return fine",
        "local old = io.x io.x = 1 return old == nil",
        "local old = pairs pairs = nil return old ~= nil",
        "event.body.n = (event.body.n or 0) + 1 return event.body.n == 1",
    ];
    for source in scripts {
        let script = Script::compile(source).unwrap();
        for _ in 0..3 {
            assert_eq!(script.evaluate(br#"{"body":{}}"#), Ok(true), "{source}");
        }
    }
}

#[test]
fn a_stopped_script_works_for_the_next_event() {
    let script = Script::compile("if event.loop then while true do end end return true").unwrap();
    assert_eq!(
        script.evaluate(br#"{"loop":true}"#),
        Err(ScriptError::Stopped)
    );
    assert_eq!(script.evaluate(br#"{}"#), Ok(true));
}

#[test]
fn scripts_are_shared_between_threads() {
    let script = Script::compile("return event.n * 2 == event.m").unwrap();
    std::thread::scope(|scope| {
        for n in 0..4 {
            let script = &script;
            scope.spawn(move || {
                for _ in 0..50 {
                    let data = format!(r#"{{"n":{n},"m":{}}}"#, n * 2);
                    assert_eq!(script.evaluate(data.as_bytes()), Ok(true));
                }
            });
        }
    });
}

#[test]
fn errors_are_those_of_lua() {
    let message = |source: &str| run(source, "{}").unwrap_err().to_string();
    assert_eq!(message("error('boom')"), "<string>:1: boom");
    assert_eq!(
        message("\nreturn event.a.b"),
        "<string>:2: attempt to index field 'a' (a nil value)"
    );
    assert!(message("x = = 1").starts_with("<string>:1: unexpected symbol"));
    assert!(
        message("return ('x'):find()")
            .contains("bad argument #2 to find (string expected, got nil)")
    );
    assert_eq!(
        message("\n\nreturn string.rep()"),
        "<string>:3: bad argument #1 to rep (string expected, got nil)"
    );
    assert_eq!(
        message("local ok = table.insert({})"),
        "<string>:1: wrong number of arguments"
    );
}

/// Answers of gopher-lua 1.1.2.
#[test]
fn what_is_caught_is_what_upstream_catches() {
    for source in [
        "local ok, m = xpcall(function() error('a', 0) end, function(m) error('b', 0) end) return ok == false and m == 'b'",
        "local ok, m = xpcall(function() error('a', 0) end, function(m) return m .. 'b', 2 end) return ok == false and m == 'ab'",
        "local ok, m = xpcall(function() error('a', 0) end, function() end) return ok == false and m == nil",
        "return select('#', xpcall(function() error('a', 0) end, function() return 1, 2, 3 end)) == 2",
        "return select('#', xpcall(function() error('a', 0) end, function() return unpack({}, 1, 3000) end)) == 2",
        "return select('#', xpcall(function(...) return ... end, function(m) return m end, 1, 2)) == 1",
        "local ok, m = xpcall(function() error({}) end, function(m) return type(m) end) return m == 'table'",
        "return not pcall(xpcall, function() end) and not pcall(xpcall, 5, function() end)",
        "local ok, m = pcall(string.rep) return type(m) == 'string' and m:find('bad argument #1') ~= nil",
        "local ok, m = pcall(function() return string.rep() end) return m == '<string>:1: bad argument #1 to rep (string expected, got nil)'",
        "local ok, m = pcall(function() local x = table.insert({}) end) return m == '<string>:1: wrong number of arguments'",
        "local ok, m = pcall(function() assert(false, 'x') end) return m == '<string>:1: x'",
        "local ok, m = pcall(function() assert(nil) end) return m == '<string>:1: assertion failed!'",
        "local ok, m = pcall(function() assert(false, {}) end) return m == '<string>:1: bad argument #2 to assert (string expected, got table)'",
        "return select('#', assert(1, nil, 3)) == 3",
        "local ok, m = pcall(ipairs) return m:find('library', 1, true) == nil",
        "local ok, m = pcall(table.sort, {3, 1, 'x'}) return m == '<string>:1: attempt to compare string with number'",
        "local ok, m = pcall(5) return m == 'attempt to call a number value'",
        "return select(2, pcall(setmetatable({}, {__call = function() return true end})))",
        "local ok, m = pcall(string.gsub, 'abc', '%w', function() error('x', 0) end) return m == 'x'",
        "return true, table.insert({}, 1)",
        "return select('#', table.insert({}, 1)) == 0 and select('#', pcall(table.insert, {}, 1, 2, 3)) == 1",
        "return not pcall(table.insert, {}, '2', 'x') and not pcall(table.insert, {}, nil, 5) and not pcall(table.insert, 1, 2)",
        "local t = {1, 2, 3} table.insert(t, 1.5, 'x') table.insert(t, nil) return #t == 4 and t[1] == 'x'",
        "return os.time({}) == -62204155200 and os.time({year = 'x'}) == -62204155200",
        "return os.time({year = 2020, month = '01', day = ' 2', hour = 0}) == 1577923200",
    ] {
        assert_eq!(run(source, "{}"), Ok(true), "{source}");
    }
}

/// Answers of gopher-lua 1.1.2: the length of a table is its last place.
#[test]
fn lengths_reach_over_gaps() {
    for source in [
        "local t = {} t[3] = 1 return #t == 3 and table.getn(t) == 3 and select('#', unpack(t)) == 3",
        "local t = {1, 2, 3} t[5] = 1 return #t == 5 and t[#t] == 1",
        "local t = {1, 2, 3} t[2] = nil return #t == 3",
        "local t = {1, 2, 3} t[3] = nil return #t == 2",
        "local t = {nil, nil, 3} return #t == 3",
        "local t = {[1] = 1, [2] = 2, [4] = 4} return #t == 4",
        "local t = {n = 1, 5, 6, [2.5] = 1, [0] = 1, [-1] = 1} return #t == 2",
        "local t = {1, 2, 3} t[#t + 2] = 'x' table.insert(t, 'y') return #t == 6 and t[6] == 'y'",
        "local t = {} t[4] = 'd' table.insert(t, 'e') return t[5] == 'e' and table.remove(t) == 'e' and #t == 4",
        "local t = {} for i = 1, 1000 do t[#t + 1] = i end t[1002] = 1 return #t == 1002",
        "return #setmetatable({}, {__len = function() return 7 end}) == 7",
        "return #'abc' == 3 and #('a' .. 'b') == 2 and -#'ab' == -2 and #{1, 2} == 2 and #{} == 0",
        "local ok, m = pcall(function() return #nil end) return not ok and m:find('__len undefined') ~= nil",
        "local t = {{1}, {1, 2}} return #t[2] == 2 and #t[#t] == 2",
    ] {
        assert_eq!(run(source, "{}"), Ok(true), "{source}");
    }
    let kept =
        "local t = {} for i, v in ipairs(event.a) do if v > 1 then t[i] = v end end return #t == 3";
    assert_eq!(run(kept, r#"{"a": [1, 2, 3]}"#), Ok(true));
}

/// An error of the script's own in the words of a bound is its own; a bound is none that a script could catch.
#[test]
fn bounds_are_known_by_themselves_and_not_by_their_words() {
    for words in ["not enough memory", "script stopped", "stack overflow"] {
        for source in [
            format!("local ok, m = pcall(error, '{words}', 0) return m == '{words}'"),
            format!(
                "local ok, m = xpcall(function() error('{words}', 0) end, function(m) return m end) return m == '{words}'"
            ),
            format!(
                "local ok, m = xpcall(function() error('a', 0) end, function() error('{words}', 0) end) return m == '{words}'"
            ),
            format!(
                "pcall(error, '{words}', 0) return (select(2, pcall(pcall, error, '{words}', 0))) == false"
            ),
        ] {
            assert_eq!(run(&source, "{}"), Ok(true), "{source}");
        }
        let thrown = run(&format!("error('{words}', 0)"), "{}");
        assert_eq!(thrown, Err(ScriptError::Runtime(words.to_owned())));
    }
    for work in [
        "local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end",
        "local s = 'x' while true do s = s .. s end",
        "while true do end",
        "return ('x'):rep(1e9)",
        "local function f() return 1 + f() end return f()",
        "local t = {} for i = 1, 6000 do t[i] = i end return unpack(t)",
    ] {
        for source in [
            format!("pcall(function() {work} end) return true"),
            format!("pcall(error, 'a', 0) pcall(function() {work} end) return true"),
            format!("xpcall(function() {work} end, function() return 1 end) return true"),
            format!("xpcall(error, function() {work} end) return true"),
            format!("coroutine.resume(coroutine.create(function() {work} end)) return true"),
        ] {
            let result = run(&source, "{}");
            assert!(
                matches!(&result, Err(error) if error.is_own()),
                "{source}: {result:?}"
            );
        }
    }
}

/// Upstream's engine ends at 256 calls inside one another; what comes near is not judged, what ends in a call may go on.
#[test]
fn calls_go_no_deeper_than_upstream() {
    let deep = |n: u32| {
        format!(
            "local function f(n) if n == 0 then return 0 end return 1 + f(n - 1) end return f({n}) == {n}"
        )
    };
    assert_eq!(run(&deep(100), "{}"), Ok(true));
    for n in [256, 300, 5000] {
        let result = run(&deep(n), "{}");
        assert!(
            matches!(result, Err(ScriptError::TooLarge(_))),
            "{n}: {result:?}"
        );
    }
    // Whatever calls that ended in others lie between.
    for between in [1, 5, 20, 60] {
        let mixed = format!(
            "function h(n, k) if k > 0 then return h(n, k - 1) end if n == 0 then return true end local r = h(n - 1, {between}) return r end return h(300, {between})"
        );
        let result = run(&mixed, "{}");
        assert!(
            matches!(&result, Err(error) if error.is_own()),
            "{between}: {result:?}"
        );
    }
    for source in [
        "for i = 1, 40 do pcall(coroutine.resume, i) end return coroutine.resume(coroutine.create(function() end))",
        "local function f(n) if n == 0 then return true end return f(n - 1) end return f(20000)",
        "local function g(n) if n == 0 then return true end return g(n - 1) end local function f(n) if n == 0 then return g(1000) end return (f(n - 1)) end return f(50)",
    ] {
        assert_eq!(run(source, "{}"), Ok(true), "{source}");
    }
}

#[test]
fn data_is_read_as_upstream_reads_it() {
    let data = r#"{"a":[1,null,[2],{"b":[["x"],"y"]},"z"],"n":null,"d":1,"d":2,"u":"\ud83d\ude00\ud800é\n","o":{"k":{}},"t":true,"e":[]}"#;
    for source in [
        "return #event.a == 3 and event.a[2].b[1] == 'y' and event.a[3] == 'z'",
        "return event.n == nil and event.d == 2 and event.t and #event.e == 0",
        "return event.u == '\\240\\159\\152\\128\\239\\191\\189\\195\\169\\n'",
        "return next(event.o.k) == nil",
    ] {
        assert_eq!(run(source, data), Ok(true), "{source}");
    }
    let bad = |data: &str| run("return true", data).unwrap_err().to_string();
    assert_eq!(
        bad("[1]"),
        "json: cannot unmarshal array into Go value of type map[string]interface {}"
    );
    assert_eq!(bad(""), "unexpected end of JSON input");
    assert!(bad(r#"{"a":1e400}"#).starts_with("json: cannot unmarshal number 1e400"));
    assert!(
        bad(&format!(
            "{{\"a\":{}{}}}",
            "[".repeat(5000),
            "]".repeat(5000)
        ))
        .contains("nests deeper")
    );
    assert_eq!(run("return event.a == '\u{FFFD}\u{FFFD}'", "{}"), Ok(false));
    let script = Script::compile("return event.a == '\u{FFFD}\u{FFFD}'").unwrap();
    assert_eq!(script.evaluate(b"{\"a\":\"\xe2\x82\"}"), Ok(true));
}

#[test]
fn containers_of_any_width_and_depth_are_read_whole() {
    let script = "for i = 2, event.n do
          if event.o['k' .. i] ~= i or event.l[2 * i - 1] ~= 't' .. i or event.l[2 * i].v[1] ~= i then return false end
        end
        return event.o.k1 == nil and #event.l == 2 * event.n and event.o.last == nil and event.after";
    for width in [1, 2, 31, 32, 33, 63, 64, 65, 129, 300] {
        let members: Vec<String> = (1..=width).map(|i| format!("\"k{i}\":{i}")).collect();
        let values: Vec<String> = (1..=width)
            .map(|i| format!("null,\"t{i}\",[[],{{\"x\":{i}}}],{{\"v\":[{i}]}}"))
            .collect();
        let data = format!(
            "{{\"n\":{width},\"o\":{{{},\"k1\":null,\"last\":null}},\"l\":[{}],\"after\":true}}",
            members.join(","),
            values.join(",")
        );
        assert_eq!(run(script, &data), Ok(true), "{width}");
    }
    let script = "local depth, at = 0, event
        while at.d do
          depth, at = depth + 1, at.d
          if at.d and (#at.l ~= 2 or at.l[2].x ~= 1 or at.e ~= 'e') then return false end
        end
        return depth == 901";
    let open = "{\"l\":[{},{\"x\":1}],\"e\":\"e\",\"f\":{},\"d\":".repeat(900);
    let data = format!("{{\"d\":{open}{{}}{}}}", "}".repeat(900));
    assert_eq!(run(script, &data), Ok(true));
}

#[test]
fn large_events_are_read() {
    let list = format!("{{\"a\":[{}1]}}", "{\"b\":1},".repeat(100_000));
    assert_eq!(run("return #event.a == 100001", &list), Ok(true));
    let huge = format!("{{\"a\":[{}1]}}", "{\"b\":1},".repeat(1_000_000));
    assert_eq!(run("return true", &huge), Err(ScriptError::Memory));
}

#[test]
fn what_gopher_lua_does_otherwise_counts() {
    for source in [
        // A search that finds nothing gives no value, not a nil.
        "return select('#', ('a'):match('b')) == 0",
        "return tonumber(nil) == nil and not pcall(tonumber)",
        // An anchored pattern has one match, `%` before a letter stays, a limit of 0 stops nothing after a match.
        "local n = 0 for _ in ('aaa'):gmatch('^a') do n = n + 1 end return n == 1",
        "return ('a'):gsub('a', '%x') == '%x' and ('aa'):gsub('a', 'b', 0) == 'bb' and ('xa'):gsub('a', 'b', 0) == 'xa'",
        "return ('a'):find('%') == nil and ('a'):find('', 9) == 1",
        // A replacement is a text, not a number; a table as a result is written as nothing.
        "return not pcall(string.gsub, 'a', 'a', 1) and ('abc'):gsub('b', function() return {} end) == 'ac'",
        "return ('aaaa'):match('()[ab]%1$') == 4",
    ] {
        assert!(passes(source), "{source}: {:?}", run(source, "{}"));
    }
}

#[test]
fn library_functions_behave() {
    for source in [
        "local t = {5, 2, 4, 1, 3} table.sort(t, function(a, b) return a > b end) return table.concat(t, ',') == '5,4,3,2,1'",
        "local t = {} for i = 1, 100 do t[i] = (i * 37) % 101 end table.sort(t) for i = 2, 100 do if t[i - 1] > t[i] then return false end end return true",
        "local t = {1, 2, 3} table.insert(t, 2, 9) table.insert(t, 8) return table.concat(t, ',', 2) == '9,2,3,8' and table.remove(t, 1) == 1 and #t == 4",
        "local r = '' for k, v in ('a=1, b=2'):gmatch('(%w+)=(%w+)') do r = r .. k .. v end return r == 'a1b2'",
        "local n = 0 for _ in ('abc'):gmatch('') do n = n + 1 end return n == 4",
        "return ('hello'):gsub('l+', {ll = 'L'}) == 'heLo' and ('abc'):gsub('', '-') == '-a-b-c-'",
        "return ('x y'):gsub('(%w) (%w)', '%2 %1%%') == 'y x%' and ('abc'):gsub('%w', '%0%0', 2) == 'aabbc'",
        "return ('hello'):find('l', -2) == 4 and ('hello'):find('xyz') == nil and ('a.b'):find('.', 2, true) == 2",
        "local a, b = pcall(function() local c = coroutine.wrap(function(x) local y = coroutine.yield(x + 1) return y * 2 end) return c(1) + c(5) end) return a and b == 12",
        "return select('#', pcall(error)) == 2 and tostring(1e15) == '1000000000000000' and tonumber('0x10') == 16",
        "local r = math.random(3) return r >= 1 and r <= 3 and math.random() < 1",
        "return os.time({year = 1970, month = 1, day = 2, hour = 0}) == 86400 and os.date('!%Y-%m-%d', 86400) == '1970-01-02'",
        "return os.date('*t', 0).year == 1970 and type(os.clock()) == 'number'",
        "return xpcall(function(a) return a end, print, 5) and loadstring('syntax error here') == nil",
        "return string.format('%s %d %q %5.1f', 'a', 3.7, 'b', 2.25) == 'a 3 \"b\"   2.2'",
    ] {
        assert!(passes(source), "{source}: {:?}", run(source, "{}"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_source_panics(source in any::<String>(), data in any::<Vec<u8>>()) {
        if let Ok(script) = Script::compile(&source) {
            let result = script.evaluate(&data);
            prop_assert!(!matches!(result, Err(ScriptError::Engine(_))));
        }
    }

    #[test]
    fn no_data_panics(data in "[\\[\\]{}\",:0-9ent\\\\u\\-.]{0,30}") {
        let script = Script::compile("return event.a == nil").unwrap();
        let valid = serde_json::from_str::<serde_json::Value>(&data);
        let result = script.evaluate(data.as_bytes());
        if let Ok(serde_json::Value::Object(_)) = valid {
            prop_assert!(result.is_ok() || data.contains('e'));
        }
    }
}
