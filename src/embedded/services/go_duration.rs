//! Durations as Go writes them: `168h`, `1m30s`, `500ms`.

use std::time::Duration;

/// Reads a duration as Go's `time.ParseDuration`, without a sign; `None` when it is not one.
pub(super) fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut seconds = 0.0_f64;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .filter(|end| *end > 0)?;
        let (number, tail) = rest.split_at(digits);
        let unit_end = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        seconds += number.parse::<f64>().ok()? * unit_seconds(unit)?;
        rest = tail;
    }
    (!text.is_empty()).then_some(())?;
    // Go counts in nanoseconds of 63 bits, about 292 years.
    (seconds < 9.2e9)
        .then(|| Duration::try_from_secs_f64(seconds).ok())
        .flatten()
}

fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_add_up() {
        assert_eq!(parse("168h"), Some(Duration::from_secs(604_800)));
        assert_eq!(parse("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(parse("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(parse("0"), Some(Duration::ZERO));
        for bad in ["", "s", "5", "1x", "-1s", "1h 2m", "99999999999999999999h"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
