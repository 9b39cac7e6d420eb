//! Go's time layouts, which show how the moment of 2006-01-02 15:04:05 would be written.
//!
//! From above: [`parse`] and [`format`]. Expressions try some layouts on every text; templates format by them.

#[cfg(test)]
mod tests;
mod write;

use jiff::civil::{Date, DateTime, Time};

pub use write::format;
use write::noon;

/// A moment as it was written: without a zone where none was.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// Date and time of day.
    pub datetime: DateTime,
    /// Seconds east of UTC, where the text says so.
    pub offset: Option<i32>,
    /// Name of the zone.
    pub zone: String,
}

impl Moment {
    /// A moment in UTC.
    #[must_use]
    pub fn utc(datetime: DateTime) -> Self {
        Self {
            datetime,
            offset: Some(0),
            zone: "UTC".to_string(),
        }
    }

    /// Writes the moment as Go's `time.Time` prints itself.
    #[must_use]
    pub fn to_go_string(&self) -> String {
        format("2006-01-02 15:04:05.999999999 -0700 MST", self)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Padding {
    None,
    Zero,
    Space,
}

/// A part of a layout.
#[derive(Debug, Clone, PartialEq)]
enum Item<'l> {
    Literal(&'l str),
    Year,
    ShortYear,
    Month,
    ShortMonth,
    MonthNumber(Padding),
    Day(Padding),
    YearDay(Padding),
    Weekday,
    ShortWeekday,
    Hour,
    Hour12(Padding),
    Minute(Padding),
    Second(Padding),
    Noon {
        upper: bool,
    },
    Zone,
    Offset {
        letter: bool,
        colons: bool,
        minutes: bool,
        seconds: bool,
    },
    Fraction {
        separator: char,
        digits: usize,
        trimmed: bool,
    },
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// Parts whose text alone says what they are; longer ones stand before their beginnings.
const PARTS: [(&str, Item<'static>); 33] = {
    use Item::*;
    const fn offset(letter: bool, colons: bool, minutes: bool, seconds: bool) -> Item<'static> {
        Item::Offset {
            letter,
            colons,
            minutes,
            seconds,
        }
    }
    [
        ("January", Month),
        ("Jan", ShortMonth),
        ("Monday", Weekday),
        ("Mon", ShortWeekday),
        ("MST", Zone),
        ("01", MonthNumber(Padding::Zero)),
        ("002", YearDay(Padding::Zero)),
        ("02", Day(Padding::Zero)),
        ("03", Hour12(Padding::Zero)),
        ("04", Minute(Padding::Zero)),
        ("05", Second(Padding::Zero)),
        ("06", ShortYear),
        ("15", Hour),
        ("1", MonthNumber(Padding::None)),
        ("2006", Year),
        ("2", Day(Padding::None)),
        ("__2", YearDay(Padding::Space)),
        ("_2", Day(Padding::Space)),
        ("3", Hour12(Padding::None)),
        ("4", Minute(Padding::None)),
        ("5", Second(Padding::None)),
        ("PM", Noon { upper: true }),
        ("pm", Noon { upper: false }),
        ("-07:00:00", offset(false, true, true, true)),
        ("-070000", offset(false, false, true, true)),
        ("-07:00", offset(false, true, true, false)),
        ("-0700", offset(false, false, true, false)),
        ("-07", offset(false, false, false, false)),
        ("Z07:00:00", offset(true, true, true, true)),
        ("Z070000", offset(true, false, true, true)),
        ("Z07:00", offset(true, true, true, false)),
        ("Z0700", offset(true, false, true, false)),
        ("Z07", offset(true, false, false, false)),
    ]
};

/// Splits a layout.
fn items(layout: &str) -> Vec<Item<'_>> {
    let mut items = Vec::new();
    let (mut literal, mut at) = (0, 0);
    while at < layout.len() {
        let rest = &layout[at..];
        let Some((item, length)) = part(rest) else {
            at += rest.chars().next().map_or(1, char::len_utf8);
            continue;
        };
        if literal < at {
            items.push(Item::Literal(&layout[literal..at]));
        }
        items.push(item);
        at += length;
        literal = at;
    }
    if literal < layout.len() {
        items.push(Item::Literal(&layout[literal..]));
    }
    items
}

fn part(rest: &str) -> Option<(Item<'_>, usize)> {
    if let Some(fraction) = fraction(rest) {
        return Some(fraction);
    }
    let (text, item) = PARTS.iter().find(|(text, _)| rest.starts_with(text))?;
    let name_goes_on = matches!(item, Item::ShortMonth | Item::ShortWeekday)
        && rest[text.len()..].starts_with(|c: char| c.is_ascii_lowercase());
    // In `_2006` the underscore is plain text.
    let year = *text == "_2" && rest.starts_with("_2006");
    (!name_goes_on && !year).then(|| (item.clone(), text.len()))
}

fn fraction(rest: &str) -> Option<(Item<'_>, usize)> {
    let separator = rest.chars().next().filter(|c| matches!(c, '.' | ','))?;
    let digit = rest[1..]
        .chars()
        .next()
        .filter(|c| matches!(c, '0' | '9'))?;
    let digits = rest[1..].chars().take_while(|c| *c == digit).count();
    let goes_on = rest[1 + digits..].starts_with(|c: char| c.is_ascii_digit());
    let item = Item::Fraction {
        separator,
        digits,
        trimmed: digit == '9',
    };
    (!goes_on).then_some((item, 1 + digits))
}

/// Reads a text by a layout; `None` where Go's `time.Parse` would return an error.
#[must_use]
pub fn parse(layout: &str, text: &str) -> Option<Moment> {
    let items = items(layout);
    let mut fields = Fields {
        month: 1,
        day: 1,
        ..Fields::default()
    };
    let mut rest = text;
    for (place, item) in items.iter().enumerate() {
        rest = fields.read(item, rest)?;
        let own_fraction = matches!(items.get(place + 1), Some(Item::Fraction { .. }));
        if matches!(item, Item::Second(_)) && !own_fraction {
            rest = fields.unannounced_fraction(rest)?;
        }
    }
    if rest.is_empty() {
        fields.moment()
    } else {
        None
    }
}

#[derive(Default)]
struct Fields {
    year: i16,
    month: i8,
    day: i8,
    year_day: Option<i16>,
    hour: i8,
    minute: i8,
    second: i8,
    nanosecond: i32,
    after_noon: Option<bool>,
    offset: Option<i32>,
    zone: String,
}

impl Fields {
    fn read<'t>(&mut self, item: &Item<'_>, text: &'t str) -> Option<&'t str> {
        let rest = match item {
            Item::Literal(literal) => skip(literal, text)?,
            Item::Year => store(number(text, 4, 4)?, &mut self.year)?,
            Item::ShortYear => {
                let (year, rest) = number(text, 2, 2)?;
                self.year =
                    i16::try_from(if year >= 69 { year + 1900 } else { year + 2000 }).ok()?;
                rest
            }
            Item::Month => store(name(text, &MONTHS, None)?, &mut self.month)?,
            Item::ShortMonth => store(name(text, &MONTHS, Some(3))?, &mut self.month)?,
            Item::MonthNumber(padding) => store(padded_number(text, *padding)?, &mut self.month)?,
            Item::Day(padding) => store(padded_number(text, *padding)?, &mut self.day)?,
            Item::YearDay(_) => {
                let (day, rest) = number(text.trim_start_matches(' '), 1, 3)?;
                self.year_day = Some(i16::try_from(day).ok()?);
                rest
            }
            Item::Weekday => name(text, &WEEKDAYS, None)?.1,
            Item::ShortWeekday => name(text, &WEEKDAYS, Some(3))?.1,
            Item::Hour => store(number(text, 1, 2)?, &mut self.hour)?,
            Item::Hour12(padding) => {
                let rest = store(padded_number(text, *padding)?, &mut self.hour)?;
                (self.hour <= 12).then_some(rest)?
            }
            Item::Minute(padding) => store(padded_number(text, *padding)?, &mut self.minute)?,
            Item::Second(padding) => store(padded_number(text, *padding)?, &mut self.second)?,
            Item::Noon { upper } => {
                let (word, rest) = text.split_at_checked(2)?;
                self.after_noon = Some(word == noon(true, *upper));
                (word == noon(true, *upper) || word == noon(false, *upper)).then_some(rest)?
            }
            Item::Zone => self.zone_name(text)?,
            Item::Offset {
                letter,
                colons,
                minutes,
                seconds,
            } => self.read_offset(
                text,
                *letter,
                *colons,
                usize::from(*minutes) + usize::from(*seconds),
            )?,
            Item::Fraction {
                digits, trimmed, ..
            } => self.fraction(text, *digits, *trimmed)?,
        };
        Some(rest)
    }

    /// Takes a fraction right after the seconds, which needs no place in the layout.
    fn unannounced_fraction<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        let digits = text
            .strip_prefix(['.', ','])
            .filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        match digits {
            Some(digits) => self.nanoseconds(digits),
            None => Some(text),
        }
    }

    fn fraction<'t>(&mut self, text: &'t str, digits: usize, trimmed: bool) -> Option<&'t str> {
        let after = text.strip_prefix(['.', ',']);
        if trimmed {
            return match after.filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
                Some(after) => self.nanoseconds(after),
                None => Some(text),
            };
        }
        let after = after?;
        let count = after.chars().take_while(char::is_ascii_digit).count();
        if count < digits {
            None
        } else {
            self.nanoseconds(&after[..digits]).map(|_| &after[digits..])
        }
    }

    fn nanoseconds<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        let count = text.chars().take_while(char::is_ascii_digit).count();
        let digits: String = text.chars().take(count.min(9)).collect();
        self.nanosecond = format!("{digits:0<9}").parse().ok()?;
        Some(&text[count..])
    }

    fn zone_name<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        let count = text.chars().take_while(char::is_ascii_uppercase).count();
        if !(3..=5).contains(&count) {
            return None;
        }
        self.zone = text[..count].to_string();
        self.offset.get_or_insert(0);
        Some(&text[count..])
    }

    fn read_offset<'t>(
        &mut self,
        text: &'t str,
        letter: bool,
        colons: bool,
        more: usize,
    ) -> Option<&'t str> {
        if let (true, Some(rest)) = (letter, text.strip_prefix('Z')) {
            self.offset = Some(0);
            self.zone = "UTC".to_string();
            return Some(rest);
        }
        let sign = match text.as_bytes().first()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        let (mut seconds, mut unit) = (0, 3600);
        let mut rest = &text[1..];
        for place in 0..=more {
            if place > 0 && colons {
                rest = rest.strip_prefix(':')?;
            }
            let (value, after) = number(rest, 2, 2)?;
            let limit = if place == 0 { 24 } else { 60 };
            seconds += i32::try_from(value).ok().filter(|value| *value < limit)? * unit;
            (unit, rest) = (unit / 60, after);
        }
        self.offset = Some(sign * seconds);
        Some(rest)
    }

    fn moment(self) -> Option<Moment> {
        let hour = match self.after_noon {
            Some(true) if self.hour < 12 => self.hour + 12,
            Some(false) if self.hour == 12 => 0,
            _ => self.hour,
        };
        let date = match self.year_day {
            Some(day) => Date::new(self.year, 1, 1)
                .ok()?
                .with()
                .day_of_year(day)
                .build()
                .ok()?,
            None => Date::new(self.year, self.month, self.day).ok()?,
        };
        let time = Time::new(hour, self.minute, self.second, self.nanosecond).ok()?;
        let zone = if self.offset.is_none() {
            "UTC".to_string()
        } else {
            self.zone
        };
        Some(Moment {
            datetime: DateTime::from_parts(date, time),
            offset: self.offset,
            zone,
        })
    }
}

/// Passes over literal text; a space stands for one or more.
fn skip<'t>(literal: &str, text: &'t str) -> Option<&'t str> {
    let (mut literal, mut rest) = (literal, text);
    while let Some(c) = literal.chars().next() {
        if c == ' ' {
            if !rest.is_empty() && !rest.starts_with(' ') {
                return None;
            }
            literal = literal.trim_start_matches(' ');
            rest = rest.trim_start_matches(' ');
        } else {
            literal = &literal[c.len_utf8()..];
            rest = rest.strip_prefix(c)?;
        }
    }
    Some(rest)
}

fn number(text: &str, least: usize, most: usize) -> Option<(u32, &str)> {
    let count = text
        .chars()
        .take(most)
        .take_while(char::is_ascii_digit)
        .count();
    if count < least {
        return None;
    }
    Some((text[..count].parse().ok()?, &text[count..]))
}

fn padded_number(text: &str, padding: Padding) -> Option<(u32, &str)> {
    match padding {
        Padding::Zero => number(text, 2, 2),
        Padding::None => number(text, 1, 2),
        Padding::Space => number(text.strip_prefix(' ').unwrap_or(text), 1, 2),
    }
}

fn store<'t, T: TryFrom<u32>>((value, rest): (u32, &'t str), into: &mut T) -> Option<&'t str> {
    *into = T::try_from(value).ok()?;
    Some(rest)
}

/// Reads a name, whatever its case, and gives its place counted from 1.
fn name<'t>(text: &'t str, names: &[&str], cut: Option<usize>) -> Option<(u32, &'t str)> {
    for (place, name) in names.iter().enumerate() {
        let name = &name[..cut.unwrap_or(name.len()).min(name.len())];
        if let Some((start, rest)) = text.split_at_checked(name.len())
            && start.eq_ignore_ascii_case(name)
        {
            return Some((u32::try_from(place).ok()? + 1, rest));
        }
    }
    None
}
