//! Expression filters: fields that are not given, fields that are given for nothing, dates.

use std::collections::{BTreeMap, HashMap};

use super::super::site::Site;
use super::{Check, paths, short};
use crate::sensor::expression::{ExprValue, Expression};

/// Checks one entry of `filters.exprs`.
pub(super) fn check(check: &mut Check<'_>, entry: &Site<'_>, source: Option<&str>) {
    let fields = entry.list("fields");
    for field in &fields {
        if let Some(path) = field.get("path") {
            paths::check(check, &path, source);
        }
    }
    let Some(site) = entry.get("expr") else {
        return;
    };
    let Some(text) = site.node.text().filter(|text| !text.is_empty()) else {
        return;
    };
    let expression = match Expression::parse(text) {
        Ok(expression) => expression,
        // More than this program reads says nothing against an expression.
        Err(error) if error.is_own() => return,
        Err(error) => return unreadable(check, &site, text, &error.to_string()),
    };
    let names = expression.names();
    let given: Vec<&str> = fields.iter().map(|field| field.text("name")).collect();
    for name in names.iter().filter(|name| !given.contains(name)) {
        absent(check, &site, name, &given);
    }
    for field in &fields {
        let name = field.text("name");
        if !name.is_empty() && !names.contains(&name) {
            let at = field.get("name").unwrap_or_else(|| field.clone());
            let finding = check.report(
                "unused-expr-field",
                &at,
                format!(
                    "the expression does not use `{}`, and yet an event without `{}` is dropped with an error",
                    short(name),
                    short(field.text("path"))
                ),
            );
            finding.meant = Some("leave the field out".to_owned());
        }
    }
    let told = check.found.len();
    dates(check, &site, text);
    if told == check.found.len() && names.iter().all(|name| given.contains(name)) {
        always_wrong(check, &site, text, &expression);
    }
}

/// An expression that is an error whatever its fields hold.
fn always_wrong(check: &mut Check<'_>, site: &Site<'_>, text: &str, expression: &Expression) {
    /// More fields make too many combinations.
    const MOST: u32 = 4;
    /// So many bytes of expressions are evaluated at most.
    const MOST_WORK: usize = 1 << 20;
    let names = expression.names();
    let kinds = [
        ExprValue::Number(1.0),
        ExprValue::Text("1".to_owned()),
        ExprValue::Bool(true),
        ExprValue::Bool(false),
        ExprValue::List(vec![ExprValue::Number(1.0)]),
        ExprValue::Map(BTreeMap::new()),
        ExprValue::Nil,
    ];
    let Ok(count) = u32::try_from(names.len()) else {
        return;
    };
    if count > MOST || kinds.len().pow(count).saturating_mul(text.len()) > MOST_WORK {
        return;
    }
    let mut error = None;
    for place in 0..kinds.len().pow(count) {
        let mut place = place;
        let mut values = HashMap::new();
        for name in &names {
            values.insert((*name).to_owned(), kinds[place % kinds.len()].clone());
            place /= kinds.len();
        }
        match expression.evaluate(&values) {
            Ok(_) => return,
            Err(why) if why.is_own() => return,
            Err(why) => error = Some(why.to_string()),
        }
    }
    let Some(error) = error else {
        return;
    };
    let finding = check.report(
        "bad-expression",
        site,
        format!(
            "the expression is an error whatever its fields hold ({}); every event that has them is dropped with it",
            short(&error)
        ),
    );
    finding.meant = Some(
        if lone_sign(text) {
            "`&&` and `||`; a single `&` or `|` works on the bits of numbers"
        } else {
            "operators that fit the kinds of their two sides"
        }
        .to_owned(),
    );
}

/// Whether a single `&` or `|` stands outside of texts.
fn lone_sign(text: &str) -> bool {
    let mut quote = None;
    let mut bare = String::new();
    for c in text.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '\'' | '"') => quote = Some(c),
            None => bare.push(c),
        }
    }
    bare.replace("&&", "").contains('&') || bare.replace("||", "").contains('|')
}

fn unreadable(check: &mut Check<'_>, site: &Site<'_>, text: &str, error: &str) {
    let finding = check.report(
        "bad-expression",
        site,
        format!("the expression cannot be read ({error}); every event that has its fields is dropped with an error"),
    );
    let words: Vec<&str> = text.split_whitespace().collect();
    finding.meant = Some(
        if words.contains(&"and") || words.contains(&"or") || words.contains(&"not") {
            "operators are `&&`, `||` and `!`".to_owned()
        } else if error.contains("Invalid token") {
            "signs are read as one run: put a blank before the sign of a number and before `!`, as in `a > -1`".to_owned()
        } else {
            "names of fields, numbers without exponent, text in single quotes".to_owned()
        },
    );
}

fn absent(check: &mut Check<'_>, site: &Site<'_>, name: &str, given: &[&str]) {
    // Where the name is never reached (`a || b`) the filter works for some events; the error is true all the same.
    let finding = check.report(
        "absent-expr-field",
        site,
        format!(
            "`{}` is none of the fields, so every event that reaches it is dropped with an error: No parameter '{}' found.",
            short(name),
            short(name)
        ),
    );
    finding.meant = Some(match name {
        "nil" | "null" => "there is no null; a missing field is an error by itself".to_owned(),
        "True" | "TRUE" | "False" | "FALSE" => format!("`{}`", name.to_ascii_lowercase()),
        _ => match given.first() {
            Some(_) => format!(
                "a field named `{}`, or one of {}",
                short(name),
                given.join(", ")
            ),
            None => format!("a field named `{}`", short(name)),
        },
    });
}

/// Texts that are read as times, and so never equal the text of a field.
fn dates(check: &mut Check<'_>, site: &Site<'_>, text: &str) {
    for literal in literals(text) {
        let is_time = Expression::parse(&format!("'{literal}'"))
            .and_then(|parsed| parsed.evaluate(&HashMap::new()))
            .is_ok_and(|value| matches!(value, ExprValue::Number(_)));
        if !is_time {
            continue;
        }
        let equal = Expression::parse(&format!("x == '{literal}'")).and_then(|parsed| {
            let value = ExprValue::Text(literal.to_owned());
            parsed.evaluate(&HashMap::from([("x".to_owned(), value)]))
        });
        if equal != Ok(ExprValue::Bool(true)) {
            let finding = check.report(
                "date-in-expression",
                site,
                format!(
                    "`'{}'` is read as a time, a number of seconds: the same text in an event is not equal to it, and `<` or `>` with it is an error",
                    short(literal)
                ),
            );
            finding.meant = Some(format!(
                "a data filter: `type: string`, `value: [\"^{}$\"]`",
                super::patterns::escaped(literal)
            ));
        }
    }
}

/// The quoted texts of an expression without escapes in them.
fn literals(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(['\'', '"']) {
        let after = &rest[start + 1..];
        let Some(end) = after.find(['\'', '"']) else {
            break;
        };
        if !after[..end].contains('\\') {
            found.push(&after[..end]);
        }
        rest = &after[end + 1..];
    }
    found
}
