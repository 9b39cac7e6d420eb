//! Whether a schedule is one that `conditionsReset` accepts: minute, hour, day of month, month, day of week.

use super::super::time::find_zone;

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

struct Field {
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field {
        least: 0,
        most: 59,
        names: &[],
    },
    Field {
        least: 0,
        most: 23,
        names: &[],
    },
    Field {
        least: 1,
        most: 31,
        names: &[],
    },
    Field {
        least: 1,
        most: 12,
        names: &MONTHS,
    },
    Field {
        least: 0,
        most: 6,
        names: &DAYS,
    },
];

/// Says whether the schedule is valid; `TZ=` and `CRON_TZ=` prefixes are, `@daily` and its like are not.
pub(super) fn is_valid(schedule: &str) -> bool {
    let zoned = schedule
        .strip_prefix("TZ=")
        .or_else(|| schedule.strip_prefix("CRON_TZ="));
    let fields = match zoned.map(|zoned| zoned.split_once(' ')) {
        None => schedule,
        Some(Some((zone, fields))) if find_zone(zone).is_ok() => fields,
        Some(_) => return false,
    };
    let parts: Vec<&str> = fields.split_whitespace().collect();
    parts.len() == FIELDS.len()
        && parts
            .iter()
            .zip(&FIELDS)
            .all(|(part, field)| field.accepts(part))
}

impl Field {
    fn accepts(&self, part: &str) -> bool {
        part.split(',')
            .filter(|range| !range.is_empty())
            .all(|range| self.accepts_range(range).unwrap_or(false))
    }

    /// `*`, `?`, `a`, `a-b`, each with an optional `/step`; `None` where something is no number.
    fn accepts_range(&self, range: &str) -> Option<bool> {
        let (span, step) = range
            .split_once('/')
            .map_or((range, None), |(span, step)| (span, Some(step)));
        let (first, last) = span
            .split_once('-')
            .map_or((span, None), |(first, last)| (first, Some(last)));
        let (start, end) = if matches!(first, "*" | "?") {
            (self.least, self.most)
        } else {
            let start = self.number(first)?;
            (start, last.map_or(Some(start), |last| self.number(last))?)
        };
        let end = if step.is_some() && last.is_none() {
            self.most
        } else {
            end
        };
        let step = step.map_or(Some(1), |step| step.parse::<u32>().ok())?;
        Some(self.least <= start && start <= end && end <= self.most && step > 0)
    }

    fn number(&self, text: &str) -> Option<u32> {
        let named = self
            .names
            .iter()
            .position(|name| text.eq_ignore_ascii_case(name));
        let first = self.least;
        named
            .and_then(|place| u32::try_from(place).ok())
            .map(|place| place + first)
            .or_else(|| text.parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_what_the_library_accepts() {
        let golden = |name: &str| {
            std::fs::read_to_string(format!(
                "{}/tests/golden/language/{name}",
                env!("CARGO_MANIFEST_DIR")
            ))
            .unwrap()
        };
        let schedules: Vec<String> = serde_json::from_str(&golden("cron_specs.json")).unwrap();
        let answers = golden("cron_robfig.txt");
        assert_eq!(schedules.len(), answers.lines().count());
        for (schedule, answer) in schedules.iter().zip(answers.lines()) {
            let wanted = !answer.starts_with("ERR") && !schedule.starts_with('@');
            assert_eq!(is_valid(schedule), wanted, "{schedule}: {answer}");
        }
    }
}
