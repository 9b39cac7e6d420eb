//! Durations as Go writes them: `168h`, `1m30s`, `500ms`; the rules and texts of `time.ParseDuration`.

use std::fmt::Write as _;
use std::time::Duration;

/// Go counts in nanoseconds of 63 bits, about 292 years.
const LIMIT: u128 = 1 << 63;
/// So many digits after the point are read; Go ignores those that no longer count, too.
const FRACTION_DIGITS: usize = 18;

/// Reads a duration that is not below zero; `None` when it is not one.
#[must_use]
pub fn parse(text: &str) -> Option<Duration> {
    let nanoseconds = nanoseconds(text).ok()?;
    u64::try_from(nanoseconds).ok().map(Duration::from_nanos)
}

/// Reads a duration.
///
/// # Errors
/// What is wrong with it, in Go's words.
pub fn nanoseconds(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", quote(text));
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0_u128;
    while !rest.is_empty() {
        let (whole, fraction, tail) = number(rest).ok_or_else(invalid)?;
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, tail) = tail.split_at(end.unwrap_or(tail.len()));
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quote(text)));
        }
        let size = unit_size(unit).ok_or_else(|| {
            let (unit, text) = (quote(unit), quote(text));
            format!("time: unknown unit {unit} in duration {text}")
        })?;
        total += whole * size + part(fraction, size);
        if total > LIMIT {
            return Err(invalid());
        }
        rest = tail;
    }
    let signed = i128::try_from(total).map(|total| if negative { -total } else { total });
    signed
        .ok()
        .and_then(|signed| i64::try_from(signed).ok())
        .ok_or_else(invalid)
}

/// The digits before and after the point, and what comes then; `None` where no number stands or one that is too large.
fn number(text: &str) -> Option<(u128, &str, &str)> {
    let digits = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit());
        end.unwrap_or(text.len())
    };
    let (whole, tail) = text.split_at(digits(text));
    let (fraction, tail) = match tail.strip_prefix('.') {
        Some(after) => after.split_at(digits(after)),
        None => ("", tail),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole = match whole {
        "" => 0,
        digits => digits.parse().ok().filter(|number| *number <= LIMIT)?,
    };
    Some((whole, fraction, tail))
}

/// What the digits after the point are of a unit.
fn part(fraction: &str, size: u128) -> u128 {
    let counted = &fraction[..fraction.len().min(FRACTION_DIGITS)];
    let scale = counted.bytes().fold(1, |scale: u128, _| scale * 10);
    counted
        .parse::<u128>()
        .map_or(0, |number| number * size / scale)
}

fn unit_size(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// The quotes of package `time`, which writes what is not plain ASCII byte by byte.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='\x7f' => out.push(c),
            _ => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    let _ = write!(out, "\\x{byte:02x}");
                }
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_add_up() {
        assert_eq!(parse("168h"), Some(Duration::from_secs(604_800)));
        assert_eq!(parse("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(parse("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(parse(".5s"), Some(Duration::from_millis(500)));
        assert_eq!(parse("+1µs"), Some(Duration::from_micros(1)));
        assert_eq!(parse("0"), Some(Duration::ZERO));
        assert_eq!(nanoseconds("-1.5h"), Ok(-5_400_000_000_000));
        assert_eq!(nanoseconds("-9223372036854775808ns"), Ok(i64::MIN));
        assert_eq!(nanoseconds("0.1234567891234567899999s"), Ok(123_456_789));
        let many = format!("0.{}s", "3".repeat(100_000));
        assert_eq!(nanoseconds(&many), Ok(333_333_333));
        for bad in ["", "s", "5", "1x", "-1s", "1h 2m", "99999999999999999999h"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    /// Measured on Go 1.27.
    #[test]
    fn what_is_none_is_told_as_go_tells_it() {
        for (text, why) in [
            ("x", "invalid duration \"x\""),
            ("1", "missing unit in duration \"1\""),
            ("-1", "missing unit in duration \"-1\""),
            ("-", "invalid duration \"-\""),
            (".s", "invalid duration \".s\""),
            ("1..2s", "missing unit in duration \"1..2s\""),
            ("1S", "unknown unit \"S\" in duration \"1S\""),
            (
                "1é",
                "unknown unit \"\\xc3\\xa9\" in duration \"1\\xc3\\xa9\"",
            ),
            ("1\"", "unknown unit \"\\\"\" in duration \"1\\\"\""),
            ("9999999h", "invalid duration \"9999999h\""),
            (
                "9223372036854775808ns",
                "invalid duration \"9223372036854775808ns\"",
            ),
        ] {
            assert_eq!(nanoseconds(text), Err(format!("time: {why}")), "{text}");
        }
    }
}
