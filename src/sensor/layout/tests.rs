//! Layouts written and read as in Go.

use super::*;
use proptest::prelude::*;

fn moment(year: i16, month: i8, day: i8, hour: i8, minute: i8, second: i8, nano: i32) -> Moment {
    Moment::utc(DateTime::new(year, month, day, hour, minute, second, nano).unwrap())
}

#[test]
fn layouts_show_how_a_moment_is_written() {
    let sunday = moment(2024, 3, 3, 15, 4, 5, 120_000_000);
    for (layout, want) in [
        (
            "Mon Jan _2 15:04:05 MST 2006",
            "Sun Mar  3 15:04:05 UTC 2024",
        ),
        ("Monday, January 2 2006", "Sunday, March 3 2024"),
        ("02/01/06 03:04:05.000 PM", "03/03/24 03:04:05.120 PM"),
        ("2006-01-02T15:04:05.999Z07:00", "2024-03-03T15:04:05.12Z"),
        (
            "2006-01-02 15:04:05 -0700 pm",
            "2024-03-03 15:04:05 +0000 pm",
        ),
        (
            "002|__2|1/2 3:4:5|Janet|_2006",
            "063| 63|3/3 3:4:5|Janet|_2024",
        ),
    ] {
        assert_eq!(format(layout, &sunday), want, "{layout}");
    }
    assert_eq!(sunday.to_go_string(), "2024-03-03 15:04:05.12 +0000 UTC");
}

#[test]
fn texts_are_read_as_in_go() {
    let read =
        |layout: &str, text: &str| parse(layout, text).map(|m| (m.datetime.to_string(), m.offset));
    assert_eq!(
        read("2006-01-02", "2024-02-29"),
        Some(("2024-02-29T00:00:00".to_string(), None))
    );
    assert_eq!(read("2006-01-02", "2023-02-29"), None);
    assert_eq!(read("2006-01-02", "2023-2-9"), None);
    assert_eq!(
        read("3:04PM", "12:05AM"),
        Some(("0000-01-01T00:05:00".to_string(), None))
    );
    assert_eq!(
        read("15:04:05", "01:02:03.5"),
        Some(("0000-01-01T01:02:03.5".to_string(), None))
    );
    let zoned = Some(("2024-01-01T10:00:00".to_string(), Some(-5400)));
    assert_eq!(
        read("2006-01-02T15:04:05Z07:00", "2024-01-01T10:00:00-01:30"),
        zoned
    );
    assert_eq!(
        read("Mon Jan _2 15:04:05 2006", "tue jan  2 03:04:05 2024").map(|r| r.0),
        Some("2024-01-02T03:04:05".to_string())
    );
    assert_eq!(read("2006-01-02", "2024-01-02 "), None);
}

proptest! {
    #[test]
    fn no_text_panics(layout in "[A-Za-z0-9 _.:,\\-+éZ]{0,30}", text in "[A-Za-z0-9 _.:,\\-+éZ]{0,30}") {
        let _ = parse(&layout, &text);
        let _ = format(&layout, &moment(2024, 1, 2, 3, 4, 5, 6));
    }

    #[test]
    fn what_is_written_is_read(seconds in 0i64..4_000_000_000, nano in 0i32..1_000_000_000) {
        let stamp = jiff::Timestamp::new(seconds, nano).unwrap();
        let moment = Moment::utc(stamp.to_zoned(jiff::tz::TimeZone::UTC).datetime());
        let layout = "Mon Jan _2 2006 15:04:05.999999999 Z0700";
        prop_assert_eq!(parse(layout, &format(layout, &moment)), Some(moment));
    }
}
