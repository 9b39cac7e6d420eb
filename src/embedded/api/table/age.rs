//! Ages as Kubernetes prints them (`duration.HumanDuration` of apimachinery).

use jiff::Timestamp;
use serde_json::Value;

/// How long ago a time in an object was; `<unknown>` when it is not there.
pub(super) fn since(time: Option<&Value>, now: Timestamp) -> String {
    match time
        .and_then(Value::as_str)
        .and_then(|text| text.parse::<Timestamp>().ok())
    {
        Some(time) => human(seconds_between(time, now)),
        None => "<unknown>".to_owned(),
    }
}

/// Whole seconds from `start` to `end`, towards zero.
pub(super) fn seconds_between(start: Timestamp, end: Timestamp) -> i64 {
    end.duration_since(start).as_secs()
}

/// A duration in one or two units.
pub(super) fn human(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let two = |large: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{small_unit}"),
    };
    match () {
        // Clocks may differ a little.
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 24 * 8 => two(hours / 24, "d", hours % 24, "h"),
        () if hours < 24 * 365 * 2 => format!("{}d", hours / 24),
        () if hours < 24 * 365 * 8 => two(hours / 24 / 365, "y", hours / 24 % 365, "d"),
        () => format!("{}y", hours / 24 / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_change_where_upstreams_do() {
        let (minute, hour, day) = (60, 3600, 86400);
        let cases = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * minute, "2m"),
            (9 * minute + 59, "9m59s"),
            (10 * minute + 59, "10m"),
            (179 * minute, "179m"),
            (3 * hour, "3h"),
            (7 * hour + 59 * minute, "7h59m"),
            (8 * hour + minute, "8h"),
            (47 * hour, "47h"),
            (2 * day, "2d"),
            (7 * day + 23 * hour, "7d23h"),
            (8 * day + hour, "8d"),
            (729 * day, "729d"),
            (730 * day, "2y"),
            (731 * day, "2y1d"),
            (9 * 365 * day + day, "9y"),
        ];
        for (seconds, want) in cases {
            assert_eq!(human(seconds), want, "{seconds}");
        }
    }
}
