//! Schedules of `conditionsReset`: minute, hour, day of month, month, day of week, with robfig/cron's rules.
//!
//! From above: [`Schedule::parse`], [`Schedule::next`] and [`Schedule::previous`]. `@daily` and its like are not read.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

use super::time::{find_zone, instant_of};

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// Years that are searched, before there is said to be no time.
const YEARS: i16 = 5;
/// Steps of one search: no schedule needs as many.
const MAX_STEPS: usize = 100_000;

/// What a field may hold.
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

/// The values of a field, a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Values {
    bits: u64,
    /// Written as `*` or `?`: the other field of the day decides alone.
    star: bool,
}

impl Values {
    fn has(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| self.bits & (1 << value) != 0)
    }
}

/// A schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    minute: Values,
    hour: Values,
    day: Values,
    month: Values,
    weekday: Values,
    /// The zone that the text itself names.
    zone: Option<TimeZone>,
}

impl Schedule {
    /// Reads a schedule; `TZ=` and `CRON_TZ=` may stand before it. `None` where robfig/cron refuses it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let zoned = text
            .strip_prefix("TZ=")
            .or_else(|| text.strip_prefix("CRON_TZ="));
        let (zone, fields) = match zoned {
            None => (None, text),
            Some(zoned) => {
                let (zone, fields) = zoned.split_once(' ')?;
                (Some(find_zone(zone).ok()?), fields)
            }
        };
        let parts: Vec<&str> = fields.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = parts.as_slice() else {
            return None;
        };
        let [of_minute, of_hour, of_day, of_month, of_weekday] = &FIELDS;
        Some(Self {
            minute: of_minute.values(minute)?,
            hour: of_hour.values(hour)?,
            day: of_day.values(day)?,
            month: of_month.values(month)?,
            weekday: of_weekday.values(weekday)?,
            zone,
        })
    }

    /// The first time after an instant; `zone` counts where the text names none. A time that a clock change leaves out
    /// is passed over, one that it repeats comes twice.
    #[must_use]
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let zone = self.zone.as_ref().unwrap_or(zone);
        // The next whole second.
        let start = Timestamp::from_second(after.as_second().checked_add(1)?).ok()?;
        let mut clock = Clock { at: start, zone };
        let last = clock.local().year().checked_add(YEARS)?;
        let mut whole = Unit::Second;
        for _ in 0..MAX_STEPS {
            let local = clock.local();
            if local.year() > last {
                return None;
            }
            let unit = match self.off(local) {
                None if local.second() == 0 => return Some(clock.at),
                None => Unit::Second,
                Some(unit) => unit,
            };
            // What is smaller than the first unit that moves starts at zero.
            if whole < unit {
                clock.floor(unit)?;
                whole = unit;
            }
            clock.forward(unit)?;
        }
        None
    }

    /// The last time before an instant, as upstream looks for it.
    #[must_use]
    pub fn previous(&self, before: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let zone = self.zone.as_ref().unwrap_or(zone);
        let start = Timestamp::from_second(before.as_second().checked_sub(1)?).ok()?;
        let mut clock = Clock { at: start, zone };
        let first = clock.local().year().checked_sub(YEARS)?;
        for _ in 0..MAX_STEPS {
            let local = clock.local();
            if local.year() < first {
                return None;
            }
            match self.off(local) {
                None if local.second() == 0 => return Some(clock.at),
                None => clock.back(i64::from(local.second()))?,
                Some(unit) => {
                    clock.floor(unit)?;
                    clock.back(1)?;
                }
            }
        }
        None
    }

    /// The largest unit of a local time that does not fit.
    fn off(&self, local: DateTime) -> Option<Unit> {
        if !self.month.has(local.month()) {
            Some(Unit::Month)
        } else if !self.fits_day(local.date()) {
            Some(Unit::Day)
        } else if !self.hour.has(local.hour()) {
            Some(Unit::Hour)
        } else if !self.minute.has(local.minute()) {
            Some(Unit::Minute)
        } else {
            None
        }
    }

    /// Day of month and day of week are alternatives, unless one of them is a star.
    fn fits_day(&self, date: Date) -> bool {
        let of_month = self.day.has(date.day());
        let of_week = self.weekday.has(date.weekday().to_sunday_zero_offset());
        if self.day.star || self.weekday.star {
            of_month && of_week
        } else {
            of_month || of_week
        }
    }
}

/// Units, the smallest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Month,
}

/// An instant and its local clock.
struct Clock<'z> {
    at: Timestamp,
    zone: &'z TimeZone,
}

impl Clock<'_> {
    fn local(&self) -> DateTime {
        self.zone.to_datetime(self.at)
    }

    fn set(&mut self, local: DateTime) -> Option<()> {
        self.at = instant_of(self.zone, local)?;
        Some(())
    }

    /// To the start of the unit.
    fn floor(&mut self, unit: Unit) -> Option<()> {
        let local = self.local();
        match unit {
            Unit::Second => Some(()),
            // Clock changes are whole minutes nowadays, so the start is so many seconds ago.
            Unit::Minute => self.back(i64::from(local.second())),
            Unit::Hour => self.set(local.date().at(local.hour(), 0, 0, 0)),
            Unit::Day => self.midnight(local.date()),
            Unit::Month => self.set(local.date().first_of_month().at(0, 0, 0, 0)),
        }
    }

    /// To the start of a day; where that does not exist, to the hour that stands for it.
    fn midnight(&mut self, date: Date) -> Option<()> {
        self.set(date.at(0, 0, 0, 0))?;
        let hour = i64::from(self.local().hour());
        match hour {
            0 => Some(()),
            13.. => self.forward_seconds((24 - hour) * 3600),
            _ => self.back(hour * 3600),
        }
    }

    /// On by one unit.
    fn forward(&mut self, unit: Unit) -> Option<()> {
        let local = self.local();
        match unit {
            Unit::Second => self.forward_seconds(1),
            Unit::Minute => self.forward_seconds(60),
            Unit::Hour => self.forward_seconds(3600),
            Unit::Day => {
                self.set(local.checked_add(Span::new().days(1)).ok()?)?;
                let hour = i64::from(self.local().hour());
                match hour {
                    0 => Some(()),
                    13.. => self.forward_seconds((24 - hour) * 3600),
                    _ => self.back(hour * 3600),
                }
            }
            Unit::Month => self.set(local.checked_add(Span::new().months(1)).ok()?),
        }
    }

    fn forward_seconds(&mut self, seconds: i64) -> Option<()> {
        self.at = Timestamp::from_second(self.at.as_second().checked_add(seconds)?).ok()?;
        Some(())
    }

    fn back(&mut self, seconds: i64) -> Option<()> {
        self.forward_seconds(-seconds)
    }
}

impl Field {
    fn values(&self, text: &str) -> Option<Values> {
        let mut all = Values {
            bits: 0,
            star: false,
        };
        for range in text.split(',').filter(|range| !range.is_empty()) {
            let values = self.range(range)?;
            all.bits |= values.bits;
            all.star |= values.star;
        }
        Some(all)
    }

    /// `*`, `?`, `a`, `a-b`, each with an optional `/step`; `None` where something is no number or out of bounds.
    fn range(&self, range: &str) -> Option<Values> {
        let (span, step) = range
            .split_once('/')
            .map_or((range, None), |(span, step)| (span, Some(step)));
        let (first, last) = span
            .split_once('-')
            .map_or((span, None), |(first, last)| (first, Some(last)));
        let any = matches!(first, "*" | "?");
        let (start, end) = if any {
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
        if self.least > start || start > end || end > self.most || step == 0 {
            return None;
        }
        let mut bits = 0_u64;
        let mut value = start;
        while value <= end {
            bits |= 1 << value;
            value = value.saturating_add(step);
        }
        Some(Values {
            bits,
            star: any && step == 1,
        })
    }

    fn number(&self, text: &str) -> Option<u32> {
        let named = self
            .names
            .iter()
            .position(|name| text.eq_ignore_ascii_case(name));
        named
            .and_then(|place| u32::try_from(place).ok())
            .map(|place| place + self.least)
            .or_else(|| text.parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden(name: &str) -> String {
        let root = env!("CARGO_MANIFEST_DIR");
        std::fs::read_to_string(format!("{root}/tests/golden/language/{name}")).unwrap()
    }

    fn times(schedule: &Schedule, from: &str) -> String {
        let mut at: Timestamp = from.parse().unwrap();
        let mut found = Vec::new();
        for _ in 0..4 {
            let Some(next) = schedule.next(at, &TimeZone::UTC) else {
                break;
            };
            found.push(next.to_string());
            at = next;
        }
        if found.is_empty() {
            return "none".to_owned();
        }
        found.join(" ")
    }

    #[test]
    fn schedules_are_those_of_the_library() {
        let schedules: Vec<String> = serde_json::from_str(&golden("cron_specs.json")).unwrap();
        let answers = golden("cron_robfig.txt");
        assert_eq!(schedules.len(), answers.lines().count());
        for (text, answer) in schedules.iter().zip(answers.lines()) {
            let schedule = Schedule::parse(text);
            if answer.starts_with("ERR") || text.starts_with('@') {
                assert!(schedule.is_none(), "{text}: {answer}");
                continue;
            }
            let schedule = schedule.unwrap_or_else(|| panic!("{text}: {answer}"));
            let spring = times(&schedule, "2026-03-07T12:00:00Z");
            let autumn = times(&schedule, "2026-10-31T12:00:00Z");
            assert_eq!(format!("{spring} {autumn}"), answer, "{text}");
        }
    }

    #[test]
    fn the_previous_time_comes_before_and_none_lies_between() {
        let now: Timestamp = "2026-03-09T10:30:15.5Z".parse().unwrap();
        for (text, wanted) in [
            ("* * * * *", "2026-03-09T10:30:00Z"),
            ("0 0 * * *", "2026-03-09T00:00:00Z"),
            ("0 12 * * *", "2026-03-08T12:00:00Z"),
            ("0 0 1 * *", "2026-03-01T00:00:00Z"),
            ("59 23 31 12 *", "2025-12-31T23:59:00Z"),
            ("0 0 29 2 *", "2024-02-29T00:00:00Z"),
            ("TZ=Europe/Berlin 0 6 * * *", "2026-03-09T05:00:00Z"),
            ("0 8 * * mon-fri", "2026-03-09T08:00:00Z"),
        ] {
            let schedule = Schedule::parse(text).unwrap();
            let previous = schedule.previous(now, &TimeZone::UTC).unwrap();
            assert_eq!(previous.to_string(), wanted, "{text}");
            let next = schedule.next(previous, &TimeZone::UTC).unwrap();
            assert!(next > now, "{text}: {next}");
        }
        let never = Schedule::parse("0 0 30 2 *").unwrap();
        assert_eq!(never.previous(now, &TimeZone::UTC), None);
    }
}
