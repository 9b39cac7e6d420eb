//! Dates, in UTC as in a container without a time zone.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::conversions::{decimal, to_int};
use super::{Answer, Arguments, Function, new_text};
use crate::sensor::go_duration;
use crate::sensor::layout::{self, Moment};
use crate::sensor::template::limits::Failure;
use crate::sensor::template::value::Value;

pub(super) const TABLE: &[Function] = &[
    Function("now", 0, Some(0), |_, _| {
        Ok(Value::Time(Box::new(moment(
            Timestamp::now(),
            &TimeZone::UTC,
            "UTC",
        ))))
    }),
    Function("date", 2, Some(2), |_, a| {
        in_zone(a.text(0)?, a.any(1), "UTC")
    }),
    Function("htmlDate", 1, Some(1), |_, a| {
        in_zone("2006-01-02", a.any(0), "UTC")
    }),
    Function("dateInZone", 3, Some(3), |_, a| {
        in_zone(a.text(0)?, a.any(1), a.text(2)?)
    }),
    Function("date_in_zone", 3, Some(3), |_, a| {
        in_zone(a.text(0)?, a.any(1), a.text(2)?)
    }),
    Function("htmlDateInZone", 2, Some(2), |_, a| {
        in_zone("2006-01-02", a.any(0), a.text(1)?)
    }),
    Function(
        "toDate",
        2,
        Some(2),
        |_, a| Ok(parsed(a)?.unwrap_or(zero())),
    ),
    Function("mustToDate", 2, Some(2), |_, a| {
        parsed(a)?.ok_or_else(|| {
            format!(
                "parsing time {:?} as {:?}: cannot parse",
                a.text(1).unwrap_or(""),
                a.text(0).unwrap_or("")
            )
            .into()
        })
    }),
    Function("unixEpoch", 1, Some(1), |_, a| match a.any(0) {
        Value::Time(moment) => new_text(instant(moment).as_second().to_string()),
        _ => a.wrong_type("time.Time", 0),
    }),
    Function("mustDateModify", 2, Some(2), must_modify_date),
    Function("must_date_modify", 2, Some(2), must_modify_date),
    Function("ago", 1, Some(1), |_, a| {
        let since = Timestamp::now().duration_since(instant(&time_of(a.any(0))));
        // Half a second and more is a second.
        let seconds = (since + SignedDuration::from_millis(500)).as_secs();
        new_text(duration(seconds.saturating_mul(SECOND)))
    }),
    Function("durationRound", 1, Some(1), |_, a| {
        new_text(rounded_duration(match a.any(0) {
            Value::Text(text) => go_duration::nanoseconds(text).unwrap_or(0),
            Value::Int64(nanoseconds) => *nanoseconds,
            Value::Time(moment) => {
                let since = Timestamp::now().duration_since(instant(moment));
                i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
            }
            _ => 0,
        }))
    }),
    Function("dateModify", 2, Some(2), modified_date),
    Function("date_modify", 2, Some(2), modified_date),
    Function("duration", 1, Some(1), |_, a| {
        // An `int` is neither text nor seconds to sprig, and gives nothing.
        let seconds = match a.any(0) {
            Value::Int64(seconds) => *seconds,
            Value::Text(text) => decimal(text),
            _ => 0,
        };
        new_text(duration(seconds.wrapping_mul(SECOND)))
    }),
];

fn moment(instant: Timestamp, zone: &TimeZone, name: &str) -> Moment {
    let zoned = instant.to_zoned(zone.clone());
    let abbreviation = zone.to_offset_info(instant).abbreviation().to_string();
    let name = if abbreviation.is_empty() {
        name.to_string()
    } else {
        abbreviation
    };
    Moment {
        datetime: zoned.datetime(),
        offset: Some(zoned.offset().seconds()),
        zone: name,
    }
}

fn instant(moment: &Moment) -> Timestamp {
    let offset = SignedDuration::from_secs(moment.offset.unwrap_or(0).into());
    let utc = moment
        .datetime
        .to_zoned(TimeZone::UTC)
        .map(|zoned| zoned.timestamp());
    utc.ok()
        .and_then(|utc| utc.checked_sub(offset).ok())
        .unwrap_or(Timestamp::UNIX_EPOCH)
}

fn zero() -> Value {
    let datetime = jiff::civil::DateTime::constant(1, 1, 1, 0, 0, 0, 0);
    Value::Time(Box::new(Moment::utc(datetime)))
}

/// A time, or whole seconds; anything else is now.
fn time_of(value: &Value) -> Moment {
    match value {
        Value::Time(moment) => (**moment).clone(),
        Value::Int(_) | Value::Int64(_) => {
            let instant = Timestamp::from_second(to_int(value)).unwrap_or(Timestamp::UNIX_EPOCH);
            moment(instant, &TimeZone::UTC, "UTC")
        }
        _ => moment(Timestamp::now(), &TimeZone::UTC, "UTC"),
    }
}

fn in_zone(layout: &str, value: &Value, zone: &str) -> Answer {
    let time_zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
    new_text(layout::format(
        layout,
        &moment(instant(&time_of(value)), &time_zone, zone),
    ))
}

fn parsed(a: &Arguments<'_>) -> Result<Option<Value>, Failure> {
    let found = layout::parse(a.text(0)?, a.text(1)?);
    Ok(found.map(|moment| {
        Value::Time(Box::new(Moment {
            offset: moment.offset.or(Some(0)),
            ..moment
        }))
    }))
}

fn must_modify_date(context: &mut super::Context, a: &Arguments<'_>) -> Answer {
    go_duration::nanoseconds(a.text(0)?)?;
    modified_date(context, a)
}

/// The largest unit alone; a year has 365 days and a month 30.
fn rounded_duration(nanoseconds: i64) -> String {
    let length = nanoseconds.unsigned_abs();
    const SECOND: u64 = 1_000_000_000;
    let units = [
        (31_536_000 * SECOND, "y"),
        (2_592_000 * SECOND, "mo"),
        (86_400 * SECOND, "d"),
        (3_600 * SECOND, "h"),
        (60 * SECOND, "m"),
        (SECOND, "s"),
    ];
    units.iter().find(|(size, _)| length > *size).map_or_else(
        || "0s".to_owned(),
        |(size, unit)| format!("{}{unit}", length / size),
    )
}

fn modified_date(_: &mut super::Context, a: &Arguments<'_>) -> Answer {
    let Value::Time(time) = a.any(1) else {
        return a.wrong_type("time.Time", 1);
    };
    let Ok(change) = go_duration::nanoseconds(a.text(0)?) else {
        return Ok(a.any(1).clone());
    };
    let datetime = time
        .datetime
        .checked_add(SignedDuration::from_nanos(change))
        .unwrap_or(time.datetime);
    Ok(Value::Time(Box::new(Moment {
        datetime,
        ..(**time).clone()
    })))
}

/// Nanoseconds of a second.
const SECOND: i64 = 1_000_000_000;

/// Writes nanoseconds as Go's `time.Duration`.
fn duration(nanoseconds: i64) -> String {
    let size = nanoseconds.unsigned_abs();
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let (seconds, fraction) = (size / SECOND.unsigned_abs(), size % SECOND.unsigned_abs());
    let fraction = match fraction {
        0 => String::new(),
        some => format!(".{some:09}").trim_end_matches('0').to_owned(),
    };
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{rest}{fraction}s"),
        (0, _) => format!("{sign}{minutes}m{rest}{fraction}s"),
        _ => format!("{sign}{hours}h{minutes}m{rest}{fraction}s"),
    }
}
