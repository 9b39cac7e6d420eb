//! Time filters: a window of the day, start included and stop excluded, in UTC or a time zone.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::event::Event;
use super::explain::{
    ConditionReport, Found, Group, GroupReport, Operator, Outcome, Reason, Recorder, ValueReport,
};
use super::filter::Verdict;
use super::number::quote;
use super::spec::TimeSpec;

/// `filters.time`, compiled; what cannot be read is an error at every event, as upstream.
#[derive(Debug)]
pub(super) struct TimeGroup {
    spec: TimeSpec,
    zone: Result<TimeZone, UnknownZone>,
    start: Result<Clock, ClockError>,
    stop: Result<Clock, ClockError>,
}

/// A time of day in nanoseconds since midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Clock(i128);

/// No such time zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid timezone '{0}': unknown time zone {0}")]
pub(super) struct UnknownZone(String);

/// Why a text is no `hh:mm:ss`; Go's text needs the date in front of it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ClockError {
    Expected { rest: String, wanted: &'static str },
    OutOfRange(&'static str),
    Extra(String),
}

const SECOND: i128 = 1_000_000_000;
const DAY: i128 = 86_400 * SECOND;
/// 0001-01-01T00:00:00Z, what an event without a time counts as.
const YEAR_ONE: i128 = -62_135_596_800 * SECOND;

impl TimeGroup {
    pub(super) fn compile(spec: TimeSpec) -> Self {
        Self {
            zone: find_zone(&spec.timezone),
            start: Clock::parse(&spec.start),
            stop: Clock::parse(&spec.stop),
            spec,
        }
    }

    pub(super) fn judge(&self, event: &Event, recorder: &mut impl Recorder) -> Verdict {
        let verdict = match self.holds(event.time) {
            Ok(true) => Verdict::passed(Reason::Match),
            Ok(false) => Verdict::failed(Reason::OutsideWindow),
            Err(error) => Verdict::error(Reason::BadTime, format!("time filter error ({error})")),
        };
        recorder.condition(|| self.report(event.time, &verdict));
        recorder.group(|conditions| verdict.report(Group::Time, Operator::And, conditions));
        verdict
    }

    pub(super) fn skip(&self, recorder: &mut impl Recorder) {
        recorder.group(|_| GroupReport::not_reached(Group::Time, Operator::And));
    }

    fn holds(&self, time: Option<Timestamp>) -> Result<bool, String> {
        let zone = self.zone.as_ref().map_err(ToString::to_string)?;
        let now = time.map_or(YEAR_ONE, Timestamp::as_nanosecond);
        let midnight = (now + offset_at(zone, now)).div_euclid(DAY) * DAY;
        let moment = |clock: &Result<Clock, ClockError>, text: &str| match clock {
            Ok(clock) => Ok(to_utc(zone, midnight + clock.0)),
            Err(error) => Err(error.text(midnight, text)),
        };
        let start = moment(&self.start, &self.spec.start)?;
        let stop = moment(&self.stop, &self.spec.stop)?;
        Ok(if start < stop {
            start <= now && now < stop
        } else {
            start <= now || now < stop
        })
    }

    fn report(&self, time: Option<Timestamp>, verdict: &Verdict) -> ConditionReport {
        let found = time.map(|time| time.to_string()).unwrap_or_default();
        let outcome = verdict.outcome();
        let zone = if self.spec.timezone.is_empty() {
            "UTC"
        } else {
            &self.spec.timezone
        };
        let local = match (time, &self.zone) {
            (Some(time), Ok(zone)) => time.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string(),
            _ => found.clone(),
        };
        ConditionReport {
            path: "time".to_owned(),
            r#type: zone.to_owned(),
            comparator: "in".to_owned(),
            comparator_ignored: false,
            found: Some(Found {
                kind: "String",
                raw: found,
                coerced: local,
            }),
            values: vec![ValueReport {
                value: format!("[{}, {})", self.spec.start, self.spec.stop),
                outcome,
            }],
            outcome,
            reason: verdict.reason(),
            error: verdict.error_text().map(ToOwned::to_owned),
            decided: outcome != Outcome::Passed,
        }
    }
}

/// Finds a time zone by its IANA name, in exactly that case; no name is UTC.
pub(super) fn find_zone(name: &str) -> Result<TimeZone, UnknownZone> {
    if matches!(name, "" | "UTC" | "Local") {
        return Ok(TimeZone::UTC);
    }
    let zone = TimeZone::get(name)
        .ok()
        .filter(|zone| zone.iana_name() == Some(name));
    zone.ok_or_else(|| UnknownZone(name.to_owned()))
}

/// The zone of a name as Argo Events takes it; `None` for one that there is not.
#[must_use]
pub fn zone(name: &str) -> Option<TimeZone> {
    find_zone(name).ok()
}

/// The instant of a local time, as Go's `time.Date` finds it.
pub(super) fn instant_of(zone: &TimeZone, local: jiff::civil::DateTime) -> Option<Timestamp> {
    let local = TimeZone::UTC.to_timestamp(local).ok()?.as_nanosecond();
    Timestamp::from_nanosecond(to_utc(zone, local)).ok()
}

/// Seconds of a window's start and stop on the same day, for validation.
pub(super) fn window_on(spec: &TimeSpec, now: Timestamp) -> Result<(i128, i128), String> {
    let zone = find_zone(&spec.timezone).map_err(|error| error.to_string())?;
    let midnight =
        (now.as_nanosecond() + offset_at(&zone, now.as_nanosecond())).div_euclid(DAY) * DAY;
    let moment = |text: &str| match Clock::parse(text) {
        Ok(clock) => Ok(to_utc(&zone, midnight + clock.0)),
        Err(error) => Err(error.text(midnight, text)),
    };
    Ok((moment(&spec.start)?, moment(&spec.stop)?))
}

/// The zone's offset from UTC, in nanoseconds, at an instant.
fn offset_at(zone: &TimeZone, instant: i128) -> i128 {
    let instant = Timestamp::from_nanosecond(instant).unwrap_or(Timestamp::UNIX_EPOCH);
    i128::from(zone.to_offset(instant).seconds()) * SECOND
}

/// The instant of a local time; in a gap or overlap the offset that Go's `time.Date` takes.
fn to_utc(zone: &TimeZone, local: i128) -> i128 {
    let guess = offset_at(zone, local);
    let offset = if guess == 0 {
        0
    } else {
        offset_at(zone, local - guess)
    };
    local - offset
}

impl Clock {
    /// Reads `15:04:05` as Go's `time.Parse` does: the hour may have one digit, a fraction may follow.
    fn parse(text: &str) -> Result<Self, ClockError> {
        let text = text.trim_start_matches(' ');
        let (hour, rest) = digits(text, 1, "15")?;
        in_range(hour, 24, "hour")?;
        let (minute, rest) = digits(colon(rest)?, 2, "04")?;
        in_range(minute, 60, "minute")?;
        let (second, rest) = digits(colon(rest)?, 2, "05")?;
        in_range(second, 60, "second")?;
        let (fraction, rest) = fraction(rest);
        if !rest.is_empty() {
            return Err(ClockError::Extra(rest.to_owned()));
        }
        Ok(Self(
            (i128::from(hour) * 3600 + i128::from(minute) * 60 + i128::from(second)) * SECOND
                + fraction,
        ))
    }
}

fn in_range(value: u32, end: u32, name: &'static str) -> Result<(), ClockError> {
    if value < end {
        Ok(())
    } else {
        Err(ClockError::OutOfRange(name))
    }
}

fn colon(text: &str) -> Result<&str, ClockError> {
    text.strip_prefix(':').ok_or_else(|| ClockError::Expected {
        rest: text.to_owned(),
        wanted: ":",
    })
}

/// Two digits, or one where that is enough.
fn digits<'t>(
    text: &'t str,
    least: usize,
    wanted: &'static str,
) -> Result<(u32, &'t str), ClockError> {
    let length = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    if length < least {
        return Err(ClockError::Expected {
            rest: text.to_owned(),
            wanted,
        });
    }
    let (number, rest) = text.split_at(length);
    Ok((
        number
            .bytes()
            .fold(0, |value, digit| value * 10 + u32::from(digit - b'0')),
        rest,
    ))
}

/// A fraction of a second after `.` or `,`, in nanoseconds.
fn fraction(text: &str) -> (i128, &str) {
    let Some(tail) = text.strip_prefix(['.', ',']) else {
        return (0, text);
    };
    let length = tail.bytes().take_while(u8::is_ascii_digit).count();
    if length == 0 {
        return (0, text);
    }
    let (number, rest) = tail.split_at(length);
    let padded = number.bytes().chain(std::iter::repeat(b'0')).take(9);
    (
        padded.fold(0, |value, digit| value * 10 + i128::from(digit - b'0')),
        rest,
    )
}

impl ClockError {
    fn text(&self, midnight: i128, clock: &str) -> String {
        let date = Timestamp::from_nanosecond(midnight)
            .unwrap_or(Timestamp::UNIX_EPOCH)
            .strftime("%Y-%m-%d")
            .to_string();
        let value = quote(format!("{date} {clock}").as_bytes());
        match self {
            Self::Expected { rest, wanted } => {
                format!(
                    "parsing time {value} as \"2006-01-02 15:04:05\": cannot parse {} as \"{wanted}\"",
                    quote(rest.as_bytes())
                )
            }
            Self::OutOfRange(name) => format!("parsing time {value}: {name} out of range"),
            Self::Extra(rest) => format!(
                "parsing time {value}: extra text: {}",
                quote(rest.as_bytes())
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(start: &str, stop: &str, timezone: &str, at: &str) -> Result<bool, String> {
        let spec = TimeSpec {
            start: start.into(),
            stop: stop.into(),
            timezone: timezone.into(),
        };
        TimeGroup::compile(spec).holds(Some(at.parse().unwrap()))
    }

    #[test]
    fn start_counts_and_stop_does_not() {
        assert_eq!(
            holds("03:04:05", "04:00:00", "", "2026-01-02T03:04:05Z"),
            Ok(true)
        );
        assert_eq!(
            holds("02:00:00", "03:04:05", "", "2026-01-02T03:04:05Z"),
            Ok(false)
        );
    }

    #[test]
    fn a_stop_before_the_start_is_on_the_next_day() {
        assert_eq!(
            holds("22:00:00", "01:00:00", "", "2026-01-02T23:00:00Z"),
            Ok(true)
        );
        assert_eq!(
            holds("22:00:00", "01:00:00", "", "2026-01-02T12:00:00Z"),
            Ok(false)
        );
    }

    #[test]
    fn the_day_is_the_zones_day() {
        assert_eq!(
            holds("08:00:00", "09:00:00", "Asia/Seoul", "2026-01-01T23:30:00Z"),
            Ok(true)
        );
        assert!(holds("08:00:00", "09:00:00", "asia/seoul", "2026-01-01T23:30:00Z").is_err());
    }

    #[test]
    fn unreadable_times_have_the_texts_of_go() {
        assert_eq!(
            holds("02:00", "", "", "2026-01-02T03:04:05Z").unwrap_err(),
            "parsing time \"2026-01-02 02:00\" as \"2006-01-02 15:04:05\": cannot parse \"\" as \":\""
        );
        assert_eq!(
            holds("25:00:00", "", "", "2026-01-02T03:04:05Z").unwrap_err(),
            "parsing time \"2026-01-02 25:00:00\": hour out of range"
        );
        assert_eq!(
            holds("2:00:00.5", "4:00:00", "", "2026-01-02T03:04:05Z"),
            Ok(true)
        );
    }
}
