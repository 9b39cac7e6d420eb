//! Script filters against what gopher-lua and Argo Events answered.

use eventlab::sensor::script::{Script, ScriptError};
use serde_json::Value;

fn golden(name: &str) -> String {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {path}: {error}"))
}

/// What the recorded scripts saw as `event`.
const EVENT: &str = r#"{"n":5,"s":"str","b":true,"big":9007199254740993,"l":[1,"two",{"x":1},true],"e":{},"o":{"k":"v"},"h":1e100,"f":1.5,"m":1e15}"#;

/// Scripts on which Lua 5.1 in C and gopher-lua differ in the language itself.
const DIFFERENT: [&str; 1] = [
    // C puts no position before a message that `error` raises directly under `pcall`.
    "local ok,e=pcall(error,\"x\") return e",
];

fn run(source: &str, data: &str) -> Result<bool, ScriptError> {
    Script::compile(source)?.evaluate(data.as_bytes())
}

/// Asks whether the script's last value is the recorded one.
fn question(script: &str, want: &str) -> String {
    let (kind, value) = want.split_once(':').unwrap_or((want, ""));
    let test = match kind {
        "bool" => format!("v == {value}"),
        "nil" => "v == nil".to_string(),
        "str" => {
            let bytes: String = value.bytes().map(|b| format!("\\{b:03}")).collect();
            format!("v == '{bytes}'")
        }
        _ if value == "NaN" => "type(v) == 'number' and v ~= v".to_string(),
        _ if value == "inf" => "v == 1/0".to_string(),
        _ => format!("type(v) == 'number' and v == {value}"),
    };
    format!(
        "local function script()\n{script}\nend\n\
         local function last(...) if select('#', ...) == 0 then return nil end return (select(select('#', ...), ...)) end\n\
         local v = last(script())\nreturn {test}"
    )
}

#[test]
fn values_are_those_of_gopher_lua() {
    let scripts: Vec<String> = serde_json::from_str(&golden("language/lua_scripts.json")).unwrap();
    let wants = golden("language/lua.jsonl");
    let mut wrong = Vec::new();
    for (script, want) in scripts.iter().zip(wants.lines()) {
        let want: String = serde_json::from_str(want).unwrap();
        if DIFFERENT.contains(&script.as_str()) {
            continue;
        }
        if want.starts_with("ERR") {
            if let Ok(got) = run(script, EVENT) {
                wrong.push(format!("{script}: got {got}, want {want}"));
            }
            continue;
        }
        let got = run(&question(script, &want), EVENT);
        if got != Ok(true) {
            wrong.push(format!("{script}: want {want}, got {got:?}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn filters_decide_as_in_argo_events() {
    let mut wrong = Vec::new();
    for line in golden("filters.jsonl").lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let filter = line["filter"].as_object().unwrap();
        let (Some(script), Some(data), 1) =
            (filter.get("script"), line["data"].as_str(), filter.len())
        else {
            continue;
        };
        let script = script.as_str().unwrap();
        if script.is_empty() {
            continue;
        }
        let got = run(script, data);
        let want = &line["want"];
        let same =
            got == Ok(true) && want["pass"] == true || got != Ok(true) && want["pass"] == false;
        if !same || got.is_err() != want["error"].is_string() {
            wrong.push(format!("{script} on {data}: got {got:?}, want {want}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
