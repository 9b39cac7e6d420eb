//! A line of a log as a person reads it: time, level, message, and the other fields after them. Called by the panes; what
//! a line says in full is shown when it is opened.

use serde_json::{Map, Value};

/// A longer line is left as it is.
const LIMIT: usize = 16 << 10;
/// Fields that say where in the program a line was written, not what happened.
const ASIDE: [&str; 3] = ["logger", "caller", "stacktrace"];

/// The line in short, where it is one of zap's or of the executor's; else as it is.
#[must_use]
pub fn brief(text: &str) -> String {
    if text.len() > LIMIT {
        return text.to_owned();
    }
    if let Some(short) = of_words(text) {
        return short;
    }
    if !text.starts_with('{') {
        return text.to_owned();
    }
    match serde_json::from_str::<Map<String, Value>>(text) {
        Ok(fields) => of_fields(&fields).unwrap_or_else(|| text.to_owned()),
        Err(_) => text.to_owned(),
    }
}

fn of_fields(fields: &Map<String, Value>) -> Option<String> {
    let level = fields.get("level")?.as_str()?;
    let message = fields.get("msg")?.as_str()?;
    let mut out = match fields.get("ts") {
        Some(Value::String(time)) => format!("{} ", clock(time)),
        Some(Value::Number(time)) => format!("{time} "),
        _ => String::new(),
    };
    out.push_str(&format!("{level:<5} {message}"));
    let rest = fields
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "level" | "msg" | "ts"))
        .filter(|(name, _)| !ASIDE.contains(&name.as_str()));
    for (name, value) in rest {
        match value {
            Value::String(text) => out.push_str(&format!(" {name}={text}")),
            other => out.push_str(&format!(" {name}={other}")),
        }
    }
    Some(out)
}

/// `time=… level=INFO msg="…" name=value`, as the executor writes them.
fn of_words(text: &str) -> Option<String> {
    let (time, rest) = text.strip_prefix("time=")?.split_once(' ')?;
    let (level, rest) = rest.strip_prefix("level=")?.split_once(' ')?;
    let rest = rest.strip_prefix("msg=")?;
    let (message, fields) = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?,
        None => rest.split_once(' ').unwrap_or((rest, "")),
    };
    // A quoted quote would be cut in the wrong place.
    if message.ends_with('\\') {
        return None;
    }
    let (time, level) = (clock(time), level.to_lowercase());
    let fields = fields.trim();
    let gap = if fields.is_empty() { "" } else { " " };
    Some(format!("{time} {level:<5} {message}{gap}{fields}"))
}

/// Hours to milliseconds of a time in RFC 3339; anything else as it is.
fn clock(time: &str) -> &str {
    let begin = time.find('T').map_or(0, |place| place + 1);
    let rest = time.get(begin..).unwrap_or(time);
    if begin == 0 || rest.len() < 12 || !rest.is_char_boundary(12) {
        return time;
    }
    rest.get(..12).unwrap_or(rest)
}

/// A pod's name in at most 24 columns: its beginning, and the end that tells it from others.
#[must_use]
pub fn short_pod(name: &str) -> String {
    const MOST: usize = 24;
    let length = name.chars().count();
    if length <= MOST {
        return name.to_owned();
    }
    let begin: String = name.chars().take(MOST - 8).collect();
    let end: String = name.chars().skip(length - 6).collect();
    format!("{begin}..{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zap_lines_are_short_and_others_stay() {
        let line = r#"{"level":"info","ts":"2026-11-30T00:29:49.597543Z","logger":"argo-events.sensor","caller":"x.go:1","msg":"Successfully processed trigger 'order'","triggerName":"order","triggeredBy":["dep"]}"#;
        let short = brief(line);
        assert!(
            short.starts_with("00:29:49.597 info  Successfully processed trigger 'order' "),
            "{short}"
        );
        assert!(
            short.contains("triggeredBy=[\"dep\"]") && !short.contains("x.go"),
            "{short}"
        );
        let line = r#"time=2026-11-30T01:02:40.866Z level=INFO msg="Starting Workflow Executor" version=v4.1"#;
        assert_eq!(
            brief(line),
            "01:02:40.866 info  Starting Workflow Executor version=v4.1"
        );
        for other in [
            r#"time=x level=y msg="a \" b""#,
            "plain text",
            "{\"order_id\":\"a\"}",
            "{\"level\":",
            "{\"level\":1,\"msg\":\"m\"}",
        ] {
            assert_eq!(brief(other), other);
        }
    }

    #[test]
    fn a_pod_keeps_both_ends_of_its_name() {
        assert_eq!(short_pod("order-kr5vc"), "order-kr5vc");
        assert_eq!(
            short_pod("orders-sensor-csl28-79746db7fb-hmdbd"),
            "orders-sensor-cs..-hmdbd"
        );
    }

    proptest::proptest! {
        #[test]
        fn any_line_has_a_short_form(text in "\\PC{0,80}") {
            let _ = brief(&text);
            assert!(short_pod(&text).chars().count() <= 24);
        }
    }
}
