//! Writing a moment by a layout.

use jiff::civil::Weekday;

use super::{Item, MONTHS, Moment, Padding, WEEKDAYS, items};

fn padded(number: i64, width: usize, padding: Padding) -> String {
    match padding {
        Padding::None => number.to_string(),
        Padding::Zero => format!("{number:0width$}"),
        Padding::Space => format!("{number:width$}"),
    }
}

/// Writes a moment by a layout.
#[must_use]
pub fn format(layout: &str, moment: &Moment) -> String {
    items(layout)
        .iter()
        .map(|item| format_item(item, moment))
        .collect()
}

fn format_item(item: &Item<'_>, moment: &Moment) -> String {
    let (date, time) = (moment.datetime.date(), moment.datetime.time());
    let hour12 = match time.hour() % 12 {
        0 => 12,
        hour => hour,
    };
    let month = MONTHS
        .get(usize::try_from(date.month() - 1).unwrap_or(0))
        .copied()
        .unwrap_or_default();
    let weekday = weekday_name(date.weekday());
    match item {
        Item::Literal(text) => (*text).to_string(),
        Item::Year => padded(date.year().into(), 4, Padding::Zero),
        Item::ShortYear => padded(i64::from(date.year()).rem_euclid(100), 2, Padding::Zero),
        Item::Month => month.to_string(),
        Item::ShortMonth => month.chars().take(3).collect(),
        Item::MonthNumber(padding) => padded(date.month().into(), 2, *padding),
        Item::Day(padding) => padded(date.day().into(), 2, *padding),
        Item::YearDay(padding) => padded(date.day_of_year().into(), 3, *padding),
        Item::Weekday => weekday.to_string(),
        Item::ShortWeekday => weekday.chars().take(3).collect(),
        Item::Hour => padded(time.hour().into(), 2, Padding::Zero),
        Item::Hour12(padding) => padded(hour12.into(), 2, *padding),
        Item::Minute(padding) => padded(time.minute().into(), 2, *padding),
        Item::Second(padding) => padded(time.second().into(), 2, *padding),
        Item::Noon { upper } => noon(time.hour() >= 12, *upper).to_string(),
        Item::Zone if moment.zone.is_empty() => format_item(&OFFSET, moment),
        Item::Zone => moment.zone.clone(),
        Item::Offset {
            letter,
            colons,
            minutes,
            seconds,
        } => format_offset(
            moment.offset.unwrap_or(0),
            *letter,
            *colons,
            (*minutes, *seconds),
        ),
        Item::Fraction {
            separator,
            digits,
            trimmed,
        } => format_fraction(time.subsec_nanosecond(), *separator, *digits, *trimmed),
    }
}

const OFFSET: Item<'static> = Item::Offset {
    letter: false,
    colons: false,
    minutes: true,
    seconds: false,
};

fn weekday_name(weekday: Weekday) -> &'static str {
    let index = usize::try_from(weekday.to_sunday_zero_offset()).unwrap_or(0);
    WEEKDAYS.get(index).copied().unwrap_or_default()
}

pub(super) fn noon(after: bool, upper: bool) -> &'static str {
    match (after, upper) {
        (true, true) => "PM",
        (true, false) => "pm",
        (false, true) => "AM",
        (false, false) => "am",
    }
}

fn format_offset(
    offset: i32,
    letter: bool,
    colons: bool,
    (minutes, seconds): (bool, bool),
) -> String {
    if letter && offset == 0 {
        return "Z".to_string();
    }
    let sign = if offset < 0 { '-' } else { '+' };
    let (size, colon) = (offset.abs(), if colons { ":" } else { "" });
    let mut text = format!("{sign}{:02}", size / 3600);
    if minutes {
        text.push_str(&format!("{colon}{:02}", size / 60 % 60));
    }
    if seconds {
        text.push_str(&format!("{colon}{:02}", size % 60));
    }
    text
}

fn format_fraction(nanoseconds: i32, separator: char, digits: usize, trimmed: bool) -> String {
    let all = format!("{nanoseconds:09}");
    let shown = if digits > 9 {
        format!("{all:0<digits$}")
    } else {
        all[..digits].to_string()
    };
    let shown = if trimmed {
        shown.trim_end_matches('0')
    } else {
        &shown
    };
    if shown.is_empty() {
        String::new()
    } else {
        format!("{separator}{shown}")
    }
}
