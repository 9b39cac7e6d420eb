//! Which token may follow which: most mistakes are found here, before anything is planned.

use super::ExprError;
use super::lexer::{Kind, Token};

const AFTER_VALUE: &[Kind] = &[
    Kind::Modifier,
    Kind::Comparator,
    Kind::LogicalOp,
    Kind::ClauseClose,
    Kind::Ternary,
    Kind::Separator,
];

/// A date or a compiled pattern is followed by no `?`.
const AFTER_CONSTANT: &[Kind] = &[
    Kind::Modifier,
    Kind::Comparator,
    Kind::LogicalOp,
    Kind::ClauseClose,
    Kind::Separator,
];

/// Says whether `next` may follow `before`.
pub(super) fn may_follow(before: Kind, next: Kind) -> bool {
    use Kind::*;
    let allowed: &[Kind] = match before {
        Unknown => &[
            Prefix, Numeric, Boolean, Variable, Pattern, Accessor, String, Time, Clause,
        ],
        Clause => &[
            Prefix,
            Numeric,
            Boolean,
            Variable,
            Pattern,
            Accessor,
            String,
            Time,
            Clause,
            ClauseClose,
        ],
        ClauseClose => &[
            Comparator,
            Modifier,
            Numeric,
            Boolean,
            Variable,
            String,
            Pattern,
            Time,
            Clause,
            ClauseClose,
            LogicalOp,
            Ternary,
            Separator,
        ],
        Numeric | Boolean | String | Variable => AFTER_VALUE,
        Time | Pattern => AFTER_CONSTANT,
        Accessor => &[
            Clause,
            Modifier,
            Comparator,
            LogicalOp,
            ClauseClose,
            Ternary,
            Separator,
        ],
        Modifier => &[
            Prefix,
            Numeric,
            Variable,
            Accessor,
            String,
            Boolean,
            Clause,
            ClauseClose,
        ],
        Comparator => &[
            Prefix,
            Numeric,
            Boolean,
            Variable,
            Accessor,
            String,
            Time,
            Clause,
            ClauseClose,
            Pattern,
        ],
        LogicalOp => &[
            Prefix,
            Numeric,
            Boolean,
            Variable,
            Accessor,
            String,
            Time,
            Clause,
            ClauseClose,
        ],
        Ternary => &[
            Prefix, Numeric, Boolean, String, Time, Variable, Accessor, Clause, Separator,
        ],
        Prefix => &[Numeric, Boolean, Variable, Accessor, Clause, ClauseClose],
        Separator => &[
            Prefix, Numeric, Boolean, String, Time, Variable, Accessor, Clause,
        ],
    };
    allowed.contains(&next)
}

fn may_end(last: Kind) -> bool {
    matches!(last, Kind::ClauseClose | Kind::Accessor) || may_follow(last, Kind::LogicalOp)
}

/// Checks the order of tokens and the balance of parentheses.
pub(super) fn check(tokens: &[Token]) -> Result<(), ExprError> {
    let count = |kind| tokens.iter().filter(|token| token.kind == kind).count();
    if count(Kind::Clause) != count(Kind::ClauseClose) {
        return Err(ExprError::parse("Unbalanced parenthesis"));
    }
    let mut last: Option<&Token> = None;
    for token in tokens {
        let before = last.map_or(Kind::Unknown, |last| last.kind);
        if !may_follow(before, token.kind) {
            return Err(wrong_order(last, token));
        }
        last = Some(token);
    }
    match last {
        Some(last) if may_end(last.kind) => Ok(()),
        _ => Err(ExprError::parse("Unexpected end of expression")),
    }
}

fn wrong_order(last: Option<&Token>, token: &Token) -> ExprError {
    let (kind, value) = match last {
        Some(last) if last.kind == Kind::Variable && token.kind == Kind::Clause => {
            return ExprError::parse(format!("Undefined function {last}"));
        }
        Some(last) => (last.kind, last.to_string()),
        None => (Kind::Unknown, "<nil>".to_string()),
    };
    ExprError::parse(format!(
        "Cannot transition token types from {} [{value}] to {} [{token}]",
        kind.name(),
        token.kind.name()
    ))
}
