//! Seconds since 1970 as gojq writes them as a time and reads them from one, in UTC.
//!
//! gojq also takes times that are not quite ones (`2015-3-5`, 30 February, a 60th second) and makes others of them: a
//! program that comes to such a one is stopped.

use jaq_core::box_iter::box_once;
use jaq_core::native::{Fun, v};
use jaq_core::{Error, Native};
use jaq_json::{Num, Val};
use jiff::Timestamp;

use super::meter::{Data, Name, stop};

/// The time that a number of seconds is.
const TO_DATE: Name = "eventlab_todate";
/// The number of seconds that a time is.
const FROM_DATE: Name = "eventlab_fromdate";
/// Length of `2015-03-05T23:53:41`, and of its date.
const TIME: usize = 19;
const DATE: usize = 10;
/// The first and the last second with a year of four digits.
const YEARS: std::ops::RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;

type Result<T> = std::result::Result<T, Error<Val>>;

fn to_date(value: &Val) -> Result<Val> {
    let number = match value {
        Val::Num(number) => number.to_string().parse().unwrap_or(f64::NAN),
        Val::Arr(_) => stop("it makes a time of an array; have it make one of a number of seconds"),
        _ => {
            return Err(Error::str(
                "strftime cannot be applied to what is no number",
            ));
        }
    };
    let whole = format!("{:.0}", number.trunc()).parse();
    let seconds = whole.ok().filter(|seconds| YEARS.contains(seconds));
    let time = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
    match time {
        Some(time) => Ok(Val::utf8_str(time.to_string())),
        None => stop("it makes a time whose year has more than four digits"),
    }
}

fn from_date(value: &Val) -> Result<Val> {
    let Val::TStr(text) = value else {
        return Err(Error::str("strptime cannot be applied to what is no text"));
    };
    let text = String::from_utf8_lossy(text);
    let (time, zone) = text.split_at_checked(TIME).unwrap_or((&text, ""));
    let is_date = time.len() == DATE && has_shape(time, "0000-00-00");
    let is_time = has_shape(time, "0000-00-00T00:00:00");
    if is_date || (is_time && (zone.is_empty() || zone.starts_with('.'))) {
        let why = format!("{text:?} is not of the form %Y-%m-%dT%H:%M:%S%z");
        return Err(Error::str(why));
    }
    let is_zone = ["Z", "+00:00", "-00:00", "+0000", "-0000"];
    // jiff also takes zones of a day and more.
    let is_zone = is_zone.iter().any(|shape| has_shape(zone, shape))
        && (zone.get(1..3)).is_none_or(|hours| hours < "24");
    let read = (is_time && is_zone && !time.ends_with(":60"))
        .then(|| text.parse::<Timestamp>().ok())
        .flatten();
    match read.map(|time| isize::try_from(time.as_second())) {
        Some(Ok(seconds)) => Ok(Val::Num(Num::Int(seconds))),
        _ => stop("it reads a time that is not of the form 2015-03-05T23:53:41Z"),
    }
}

/// Whether a text is another one but for its digits.
fn has_shape(text: &str, shape: &str) -> bool {
    let alike = |(one, other): (u8, u8)| match other {
        b'0' => one.is_ascii_digit(),
        other => one == other,
    };
    text.len() == shape.len() && text.bytes().zip(shape.bytes()).all(alike)
}

/// The functions of dates.
pub(super) fn funs() -> [Fun<Data>; 2] {
    [
        (
            TO_DATE,
            v(0),
            Native::new(|cv| box_once(to_date(&cv.1).map_err(Into::into))),
        ),
        (
            FROM_DATE,
            v(0),
            Native::new(|cv| box_once(from_date(&cv.1).map_err(Into::into))),
        ),
    ]
}
