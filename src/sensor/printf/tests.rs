//! Verbs, flags and wrong verbs as Go prints them.

use super::*;
use proptest::prelude::*;

fn show(format: &str, arguments: &[Argument<'_>]) -> String {
    String::from_utf8(print(format.as_bytes(), arguments, 1 << 20).unwrap()).unwrap()
}

fn int(value: i64) -> Argument<'static> {
    Argument::Int(value, "int")
}

fn string(value: &str) -> Argument<'_> {
    Argument::Text(Cow::Borrowed(value.as_bytes()))
}

#[test]
fn verbs_follow_go() {
    assert_eq!(
        show(
            "%d|%5d|%-5d|%05d|%+d|% d",
            &[int(3), int(3), int(3), int(-3), int(3), int(3)]
        ),
        "3|    3|3    |-0003|+3| 3"
    );
    assert_eq!(
        show(
            "%x %X %#x %o %b %c %q %U",
            &[
                int(255),
                int(255),
                int(255),
                int(8),
                int(5),
                int(233),
                int(65),
                int(233)
            ]
        ),
        "ff FF 0xff 10 101 é 'A' U+00E9"
    );
    assert_eq!(
        show(
            "%5.2f|%e|%g|%G|%.3g|%.10g",
            &[
                Argument::Float(1.234),
                Argument::Float(1.5),
                Argument::Float(1e6),
                Argument::Float(1e-7),
                Argument::Float(1234.5),
                Argument::Float(0.1)
            ]
        ),
        " 1.23|1.500000e+00|1e+06|1E-07|1.23e+03|0.1"
    );
    assert_eq!(
        show(
            "%s|%5s|%-5s|%.2s|%q|%x|%v",
            &[
                string("é"),
                string("é"),
                string("a"),
                string("äöü"),
                string("a\"\n"),
                string("az"),
                string("b")
            ]
        ),
        "é|    é|a    |äö|\"a\\\"\\n\"|617a|b"
    );
    assert_eq!(
        show(
            "%t %v %v %T",
            &[
                Argument::Bool(true),
                Argument::Bool(false),
                Argument::Nil,
                Argument::Float(1.0)
            ]
        ),
        "true false <nil> float64"
    );
}

#[test]
fn wrong_verbs_are_told_in_the_text() {
    assert_eq!(
        show("%d %s %z", &[Argument::Float(3.0), int(3), string("a")]),
        "%!d(float64=3) %!s(int=3) %!z(string=a)"
    );
    assert_eq!(show("%d %d %", &[int(1)]), "1 %!d(MISSING) %!(NOVERB)");
    assert_eq!(
        show("a", &[int(1), string("b")]),
        "a%!(EXTRA int=1, string=b)"
    );
    assert_eq!(
        show("%[2]d %[1]d %[9]d", &[int(1), int(2)]),
        "2 1 %!d(BADINDEX)"
    );
    assert_eq!(
        show(
            "%*d|%-*d|%s",
            &[int(4), int(1), int(4), int(1), Argument::Nil]
        ),
        "   1|1   |%!s(<nil>)"
    );
    assert_eq!(
        show(
            "%v %f %5.1f",
            &[
                Argument::Float(f64::INFINITY),
                Argument::Float(f64::NAN),
                Argument::Float(f64::NEG_INFINITY)
            ]
        ),
        "+Inf NaN  -Inf"
    );
}

#[test]
fn containers_print_their_parts() {
    let list = || {
        Argument::List(
            "[]interface {}",
            vec![Argument::Float(1.0), Argument::Nil, string("a")],
        )
    };
    let map = || {
        Argument::Map(
            "map[string]interface {}",
            vec![(string("k"), Argument::Float(2.0))],
        )
    };
    assert_eq!(show("%v %+v", &[list(), map()]), "[1 <nil> a] map[k:2]");
    assert_eq!(
        show("%#v %#v", &[list(), map()]),
        r#"[]interface {}{1, interface {}(nil), "a"} map[string]interface {}{"k":2}"#
    );
    assert_eq!(
        show("%w", &[map()]),
        "%!w(map[string]interface {}=map[k:2])"
    );
    assert_eq!(
        show("", &[list(), map()]),
        "%!(EXTRA []interface {}=[1 <nil> a], map[string]interface {}=map[k:2])"
    );
    let limit = print(b"", &[list()], 4);
    assert_eq!(limit, Err(TooLong));
}

#[test]
fn long_results_are_refused() {
    assert_eq!(print(b"%1000000d", &[int(1)], 1000), Err(TooLong));
    assert_eq!(show("%9999999999d", &[int(1)]), "%!(NOVERB)%!(EXTRA int=1)");
}

/// Rust's own formatting knows no number of digits above 65,535.
#[test]
fn any_number_of_digits_is_printed() {
    for digits in [65_535, 65_536, 100_000, 1_000_000] {
        for (verb, least) in [
            ("f", digits),
            ("F", digits),
            ("e", digits),
            ("E", digits),
            ("g", 1),
            ("#g", digits),
            ("v", 1),
            ("x", digits),
            ("X", digits),
        ] {
            let (flag, verb) = verb.split_at(verb.len() - 1);
            for value in [1.5, 0.0, 1e300, 5e-324, f64::INFINITY, f64::NAN] {
                let format = format!("%{flag}.{digits}{verb}");
                let shown = print(format.as_bytes(), &[Argument::Float(value)], 1 << 21).unwrap();
                let least = if value.is_finite() { least } else { 3 };
                assert!(shown.len() >= least, "{format} {value}: {}", shown.len());
            }
        }
        for verb in ["d", "x", "o", "b", "U"] {
            let format = format!("%.{digits}{verb}");
            let shown = print(format.as_bytes(), &[int(-7)], 1 << 21).unwrap();
            assert!(shown.len() > digits, "{format}: {}", shown.len());
            let format = format!("%{digits}{verb}");
            let shown = print(format.as_bytes(), &[int(7)], 1 << 21).unwrap();
            assert_eq!(shown.len(), digits, "{format}");
        }
    }
    assert_eq!(
        show("%.3f %.3e", &[Argument::Float(2.5), Argument::Float(2.5)]),
        "2.500 2.500e+00"
    );
}

proptest! {
    #[test]
    fn no_format_panics(format in any::<Vec<u8>>(), n in any::<i64>(), f in any::<f64>(), s in any::<Vec<u8>>()) {
        let arguments = [int(n), Argument::Float(f), Argument::Text(Cow::Owned(s)), Argument::Nil];
        let _ = print(&format, &arguments, 1 << 16);
    }

    #[test]
    fn no_directive_panics(format in "(%[-+# 0]{0,3}[0-9]{0,3}(\\.[0-9]{0,3})?[a-zA-Z%\\[\\]*]){0,5}", n in any::<i64>(), f in any::<f64>()) {
        let arguments = [int(n), Argument::Float(f), string("text"), Argument::Float(f), int(n)];
        let _ = print(format.as_bytes(), &arguments, 1 << 16);
    }
}
