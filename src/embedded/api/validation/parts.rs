//! Small pieces that the checks of single kinds share: reading fields, port numbers and names, paths, quantities.

use serde_json::Value;

use super::{label_value, qualified_name};
use crate::embedded::api::status::Cause;

/// A field of text; empty if it is absent.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("")
}

/// A field that is a list; empty if it is absent.
pub(super) fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Transport protocols of ports.
pub(super) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// A word that must be one of these where it is given; `path` is that of the object it stands in.
pub(super) fn supported(
    value: &Value,
    path: &str,
    key: &str,
    all: &[&str],
    causes: &mut Vec<Cause>,
) {
    let given = text(value, key);
    if !given.is_empty() && !all.contains(&given) {
        causes.push(Cause::unsupported(format!("{path}.{key}"), given, all));
    }
}

/// A map of labels that picks objects; everything wrong in it is said of the map's own field.
pub(super) fn selector(map: Option<&Value>, field: &str, causes: &mut Vec<Cause>) {
    for (key, value) in map.and_then(Value::as_object).into_iter().flatten() {
        if let Some(why) = qualified_name(key) {
            causes.push(Cause::invalid(field, &Value::from(key.as_str()), &why));
        }
        if let Some(why) = label_value(value.as_str().unwrap_or("")) {
            causes.push(Cause::invalid(field, value, &why));
        }
    }
}

/// Port numbers go from 1 to 65535.
pub(super) fn port_number(port: &Value, field: String, causes: &mut Vec<Cause>) {
    if !port
        .as_i64()
        .is_some_and(|number| (1..=65_535).contains(&number))
    {
        causes.push(Cause::invalid(
            field,
            port,
            "must be between 1 and 65535, inclusive",
        ));
    }
}

/// Everything that is wrong with the name of a port (`IsValidPortName`, RFC 6335).
pub(super) fn port_name(name: &str) -> Vec<&'static str> {
    let mut wrong = Vec::new();
    if name.len() > 15 {
        wrong.push("must be no more than 15 characters");
    }
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !name.bytes().all(good) {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        wrong.push("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        wrong.push("must not begin or end with a hyphen");
    }
    wrong
}

/// A port by number or by name.
pub(super) fn port(port: Option<&Value>, field: &str, causes: &mut Vec<Cause>) {
    match port {
        Some(Value::String(name)) => {
            let wrong = port_name(name).into_iter();
            causes.extend(wrong.map(|why| Cause::invalid(field, &Value::from(name.as_str()), why)));
        }
        Some(number) => port_number(number, field.to_owned(), causes),
        None => port_number(&Value::from(0), field.to_owned(), causes),
    }
}

/// A path that stays below where it begins.
pub(super) fn path_below(path: &str, field: &str, causes: &mut Vec<Cause>) {
    let shown = Value::from(path);
    if path.starts_with('/') {
        causes.push(Cause::invalid(field, &shown, "must be a relative path"));
    }
    if path.split('/').any(|part| part == "..") {
        causes.push(Cause::invalid(field, &shown, "must not contain '..'"));
    }
}

/// The amount of a quantity (`1`, `250m`, `1Gi`, `2e3`), for comparisons.
#[must_use]
pub fn quantity(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-')));
    let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
    let number: f64 = number.parse().ok()?;
    let factor = match suffix {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1024.0_f64.powi(2),
        "Gi" => 1024.0_f64.powi(3),
        "Ti" => 1024.0_f64.powi(4),
        "Pi" => 1024.0_f64.powi(5),
        "Ei" => 1024.0_f64.powi(6),
        exponent => {
            let power = exponent.strip_prefix(['e', 'E'])?;
            10.0_f64.powi(power.parse().ok().filter(|power: &i32| power.abs() < 30)?)
        }
    };
    Some(number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_amounts_or_nothing() {
        for (text, want) in [
            ("1", 1.0),
            ("250m", 0.25),
            ("1Gi", 1_073_741_824.0),
            ("2e3", 2000.0),
            ("-1", -1.0),
            ("1.5k", 1500.0),
        ] {
            assert_eq!(quantity(text), Some(want), "{text}");
        }
        for bad in ["", "abc", "1x", "1 Gi", "e3", "1e", "--1", "1e999"] {
            assert_eq!(quantity(bad), None, "{bad}");
        }
    }

    #[test]
    fn ports_have_short_plain_names() {
        assert!(port_name("http-1").is_empty());
        for bad in [
            "",
            "UPPER",
            "123",
            "a--b",
            "-a",
            "a-",
            "a-very-long-name-indeed",
        ] {
            assert!(!port_name(bad).is_empty(), "{bad}");
        }
    }
}
