//! Limits, and expressions at random.

use std::collections::HashMap;

use proptest::prelude::*;

use super::{ExprError, ExprValue, Expression};
use crate::sensor::path;

fn variables() -> HashMap<String, ExprValue> {
    HashMap::from([
        ("a".to_string(), ExprValue::Number(5.0)),
        ("s".to_string(), ExprValue::Text("str".to_string())),
        ("b".to_string(), ExprValue::Bool(true)),
        ("n".to_string(), ExprValue::Nil),
        ("big".to_string(), ExprValue::Text("x".repeat(1 << 20))),
    ])
}

fn value(text: &str) -> Result<ExprValue, ExprError> {
    Expression::parse(text)?.evaluate(&variables())
}

#[test]
fn operators_of_one_level_go_from_left_to_right() {
    assert_eq!(value("2 ** 3 ** 2"), Ok(ExprValue::Number(64.0)));
    assert_eq!(value("10 - (4 - 3) - 2"), Ok(ExprValue::Number(7.0)));
    assert_eq!(value("b ? 'x' : n"), Ok(ExprValue::Text("x".to_string())));
    assert_eq!(value("s =~ 's' + 'tr'"), Ok(ExprValue::Bool(true)));
}

/// Whether an expression ended at a bound of this program, and says so.
fn own_bound(value: Result<ExprValue, ExprError>) -> bool {
    value.is_err_and(|error| error.is_own() && error.to_string().starts_with("eventlab: "))
}

#[test]
fn what_only_this_program_refuses_says_so() {
    let large = format!("{}a{}", "(?:".repeat(1001), ")".repeat(1001));
    for text in [
        format!("s =~ '{large}'"),
        format!("s =~ ('{large}' + '')"),
        format!("big {}", "+ big ".repeat(20)),
    ] {
        assert!(own_bound(value(&text)), "{text}");
    }
    for depth in [100, 101] {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let json = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            let field = ExprValue::from_path(&path::parse(json.as_bytes()));
            assert_eq!(own_bound(field), depth > 100, "{json}");
        }
    }
    // Words of this program in an expression are only words.
    for text in ["s =~ '(eventlab: '", "'eventlab: ' > 1", "eventlab > 1"] {
        assert!(!value(text).unwrap_err().is_own(), "{text}");
    }
}

#[test]
fn long_expressions_need_no_stack() {
    let sum = format!("1{}", " + 1".repeat(10_000));
    assert_eq!(value(&sum), Ok(ExprValue::Number(10_001.0)));
    let nested = format!("{}1{}", "(".repeat(60), ")".repeat(60));
    assert_eq!(value(&nested), Ok(ExprValue::Number(1.0)));
    let deep = format!("{}1{}", "(".repeat(20_000), ")".repeat(20_000));
    assert!(own_bound(value(&deep)));
    assert!(own_bound(value(&"1".repeat(100_000))));
}

#[test]
fn texts_do_not_grow_without_bound() {
    let joined = format!("big{}", " + big".repeat(5000));
    assert!(value(&joined).is_err_and(|error| error.is_own()));
}

#[test]
fn a_date_is_followed_by_no_question_mark() {
    for text in ["'2014-01-02' ?? 1", "1 > '2014-01-02' ? 1 : 2"] {
        let error = value(text).unwrap_err().to_string();
        assert!(
            error.starts_with("Cannot transition token types from TIME ["),
            "{error}"
        );
    }
    assert!(value("('2014-01-02') ?? 1").is_ok());
}

#[test]
fn odd_ends_are_errors() {
    for text in [
        "a\\", "[a", "'a", "a.", ".", "0x", "a.b.", "(1 +)", "(-)", "1 ? : 2", "[", "\\",
    ] {
        assert!(value(text).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = value(&text);
    }

    #[test]
    fn no_expression_panics(parts in proptest::collection::vec(proptest::sample::select(vec![
        "a", "s", "b", "n", "1", "2.5", "'x'", "\"2024-01-01\"", "true", "(", ")", "[a]", ",", "?", ":", "??", "&&", "||", "==",
        "!=", "<", ">=", "=~", "!~", "in", "&", "|", "^", "<<", ">>", "+", "-", "*", "/", "%", "**", "!", "~", "a.B", "0x1F",
    ]), 0..16)) {
        let _ = value(&parts.join(" "));
        let _ = value(&parts.concat());
    }
}
