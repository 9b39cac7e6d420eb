//! Ages as Kubernetes prints them (`k8s.io/apimachinery/pkg/util/duration.HumanDuration`).

use jiff::Timestamp;

/// The age of a moment in RFC 3339, `<unknown>` without one.
pub(super) fn since(text: &str, now: Timestamp) -> String {
    match text.parse::<Timestamp>() {
        Ok(time) => human(now.as_second() - time.as_second()),
        Err(_) if text.is_empty() => "<unknown>".to_owned(),
        Err(_) => "<invalid>".to_owned(),
    }
}

/// Two units at most, and fewer the longer it takes.
pub(super) fn human(seconds: i64) -> String {
    let pair = |big: i64, unit: &str, small: i64, rest: &str| match small {
        0 => format!("{big}{unit}"),
        _ => format!("{big}{unit}{small}{rest}"),
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    match seconds {
        i64::MIN..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => pair(days, "d", hours % 24, "h"),
        _ if years < 2 => format!("{days}d"),
        _ if years < 8 => pair(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        let (minute, hour, day) = (60, 3600, 86_400);
        let table = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (9 * minute + 59, "9m59s"),
            (10 * minute + 1, "10m"),
            (179 * minute, "179m"),
            (3 * hour, "3h"),
            (7 * hour + 59 * minute, "7h59m"),
            (47 * hour, "47h"),
            (2 * day, "2d"),
            (7 * day + 23 * hour, "7d23h"),
            (729 * day, "729d"),
            (730 * day, "2y"),
            (3 * 365 * day + 4 * day, "3y4d"),
            (9 * 365 * day, "9y"),
        ];
        for (seconds, want) in table {
            assert_eq!(human(seconds), want, "{seconds}");
        }
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().expect("time");
        assert_eq!(since("2026-01-01T00:00:00Z", now), "10m");
        assert_eq!(since("", now), "<unknown>");
        assert_eq!(since("x", now), "<invalid>");
    }
}
