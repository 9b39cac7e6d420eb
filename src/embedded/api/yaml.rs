//! YAML for clients that ask for it, as Go's writer lays it out: keys in order, lists not indented.
//!
//! A text stands plain only where every reader takes it for a text, those of YAML 1.1 too, to which `yes`, `010` and a
//! time are something else; all others stand as JSON writes them, which is YAML.

use std::fmt::Write as _;

use serde_json::Value;

use super::object::is_filled;

/// A whole document. The value must not be nested deeper than what the API takes in.
#[must_use]
pub fn document(value: &Value) -> String {
    let mut out = String::new();
    match value {
        filled if is_filled(filled) => block(filled, 0, false, &mut out),
        other => {
            out.push_str(&scalar(other));
            out.push('\n');
        }
    }
    out
}

/// A filled map or list, each line of it indented by so many blanks, but for a first one that stands behind a dash.
fn block(value: &Value, indent: usize, behind_dash: bool, out: &mut String) {
    let mut first = behind_dash;
    let mut begin = |out: &mut String| {
        if !std::mem::take(&mut first) {
            out.extend(std::iter::repeat_n(' ', indent));
        }
    };
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            for key in keys {
                begin(out);
                out.push_str(&text(key));
                out.push(':');
                entry(&map[key], indent, out);
            }
        }
        Value::Array(list) => {
            for item in list {
                begin(out);
                out.push('-');
                element(item, indent, out);
            }
        }
        _ => {}
    }
}

/// What follows a key.
fn entry(value: &Value, indent: usize, out: &mut String) {
    if !is_filled(value) {
        let _ = writeln!(out, " {}", scalar(value));
        return;
    }
    out.push('\n');
    let deeper = if value.is_object() {
        indent + 2
    } else {
        indent
    };
    block(value, deeper, false, out);
}

/// What follows a dash: the first line of a map or list stands on the same line.
fn element(value: &Value, indent: usize, out: &mut String) {
    if !is_filled(value) {
        let _ = writeln!(out, " {}", scalar(value));
        return;
    }
    out.push(' ');
    block(value, indent + 2, true, out);
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(given) => text(given),
        Value::Object(_) => "{}".to_owned(),
        Value::Array(_) => "[]".to_owned(),
        other => other.to_string(),
    }
}

fn text(given: &str) -> String {
    const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let starts = given.starts_with(|c: char| c.is_ascii_alphabetic());
    let inner = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let colons = |c: char| c == ':';
    // A colon inside of a word is plain; at its end it would make a key.
    let plain = starts && given.chars().all(|c| inner(c) || colons(c)) && !given.ends_with(':');
    if plain && !WORDS.contains(&given.to_ascii_lowercase().as_str()) {
        return given.to_owned();
    }
    // YAML has no place for these, which JSON leaves as they are; readers of 1.1 take one of them for the end of a line.
    let mut quoted = String::new();
    for character in Value::from(given).to_string().chars() {
        match u32::from(character) {
            code @ (0x7f..=0x9f | 0x2028 | 0x2029 | 0xfeff | 0xfffe..=0xffff) => {
                let _ = write!(quoted, "\\u{code:04x}");
            }
            _ => quoted.push(character),
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_written_is_read_again() {
        let value = json!({
            "kind": "X", "apiVersion": "v1", "empty": {}, "none": [], "null": null,
            "texts": ["yes", "NO", "010", "1e3", "2024-01-01T00:00:00Z", "", " a", "a: b", "a:", "#x", "- x", "line\nline\ttab", "é\u{1f600}", "k:{\"name\":\"c\"}", "f:metadata", "~", "!!x", "del\u{7f}", "\u{85}next", "csi\u{9b}", "line\u{2028}", "\u{feff}mark", "a/b.c:8080"],
            "deep": [[1, [2.5, {"a": [{}, [], {"b": {"c": true}}]}]], {"x": 1, "y": [1, 2]}],
            "y": {".": {}, "n": "off"},
        });
        let written = document(&value);
        let read: Value = serde_saphyr::from_str(&written).expect(&written);
        assert_eq!(read, value, "{written}");
        let read: Value = serde_yaml::from_str(&written).expect(&written);
        assert_eq!(read, value, "{written}");
    }

    #[test]
    fn what_yaml_has_no_place_for_is_written_by_its_number() {
        for code in (0x7f..=0x9f).chain([0x2028, 0x2029, 0xfeff, 0xfffe, 0xffff]) {
            let character = char::from_u32(code).expect("a character");
            let written = document(&json!({"k": format!("a{character}b")}));
            assert_eq!(written, format!("k: \"a\\u{code:04x}b\"\n"));
        }
    }

    #[test]
    fn it_is_laid_out_as_go_does() {
        let value = json!({"kind": "List", "items": [{"metadata": {"name": "a", "time": "2024-01-01T00:00:00Z"}, "n": [1]}]});
        let want = "items:\n- metadata:\n    name: a\n    time: \"2024-01-01T00:00:00Z\"\n  \"n\":\n  - 1\nkind: List\n";
        assert_eq!(document(&value), want);
        assert_eq!(document(&json!("a b")), "\"a b\"\n");
        assert_eq!(document(&json!({})), "{}\n");
    }
}
