//! From tokens to a tree: one level of precedence after the other, operators of one level from left to right.

use std::collections::HashMap;

use super::ExprError;
use super::lexer::{Kind, Token, TokenValue, seconds};
use super::value::ExprValue;
use crate::sensor::regex::Regex;

/// Parentheses inside one another.
const MAX_NESTING: usize = 64;

/// An operator between two values or before one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Separate,
    Then,
    Else,
    Coalesce,
    Or,
    And,
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
    Matches,
    DiffersFrom,
    In,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    Plus,
    Minus,
    Multiply,
    Divide,
    Modulus,
    Exponent,
    Negate,
    Invert,
    BitNot,
}

impl Operator {
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Separate => ",",
            Self::Then => "?",
            Self::Else => ":",
            Self::Coalesce => "??",
            Self::Or => "||",
            Self::And => "&&",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Greater => ">",
            Self::Less => "<",
            Self::GreaterOrEqual => ">=",
            Self::LessOrEqual => "<=",
            Self::Matches => "=~",
            Self::DiffersFrom => "!~",
            Self::In => "in",
            Self::BitAnd => "&",
            Self::BitOr => "|",
            Self::BitXor => "^",
            Self::ShiftLeft => "<<",
            Self::ShiftRight => ">>",
            Self::Plus => "+",
            Self::Minus | Self::Negate => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulus => "%",
            Self::Exponent => "**",
            Self::Invert => "!",
            Self::BitNot => "~",
        }
    }
}

/// A name of an expression, and its place among all of them.
#[derive(Debug, Clone)]
pub(super) struct Name {
    pub text: String,
    pub place: usize,
}

/// A part of an expression.
#[derive(Debug, Clone)]
pub(super) enum Node {
    /// Empty parentheses.
    Nothing,
    Literal(ExprValue),
    Pattern(Regex),
    Variable(Name),
    /// A name, and the fields that are asked of it.
    Accessor(Name, Vec<String>),
    Prefix(Operator, Box<Node>),
    /// Operators of one level, applied from left to right.
    Chain(Box<Node>, Vec<(Operator, Node)>),
}

/// The levels, the loosest first.
const LEVELS: [(Kind, &[Operator]); 10] = {
    use Operator::*;
    [
        (Kind::Separator, &[Separate]),
        (Kind::Ternary, &[Then, Else, Coalesce]),
        (Kind::LogicalOp, &[Or]),
        (Kind::LogicalOp, &[And]),
        (
            Kind::Comparator,
            &[
                Equal,
                NotEqual,
                Greater,
                Less,
                GreaterOrEqual,
                LessOrEqual,
                Matches,
                DiffersFrom,
                In,
            ],
        ),
        (Kind::Modifier, &[BitAnd, BitOr, BitXor]),
        (Kind::Modifier, &[ShiftLeft, ShiftRight]),
        (Kind::Modifier, &[Plus, Minus]),
        (Kind::Modifier, &[Multiply, Divide, Modulus]),
        (Kind::Modifier, &[Exponent]),
    ]
};

/// Plans checked tokens; gives the tree and its names, each once, in the order of the text.
pub(super) fn plan(tokens: &[Token]) -> Result<(Node, Vec<String>), ExprError> {
    let mut planner = Planner {
        tokens,
        at: 0,
        open: 0,
        names: Vec::new(),
        places: HashMap::new(),
    };
    let root = planner.level(0)?;
    Ok((root, planner.names))
}

struct Planner<'t> {
    tokens: &'t [Token],
    at: usize,
    open: usize,
    names: Vec<String>,
    places: HashMap<&'t str, usize>,
}

impl<'t> Planner<'t> {
    fn next(&mut self) -> Option<&'t Token> {
        let token = self.tokens.get(self.at)?;
        self.at += 1;
        Some(token)
    }

    fn name(&mut self, text: &'t str) -> Name {
        let place = *self.places.entry(text).or_insert_with(|| {
            self.names.push(text.to_owned());
            self.names.len() - 1
        });
        Name {
            text: text.to_owned(),
            place,
        }
    }

    fn level(&mut self, level: usize) -> Result<Node, ExprError> {
        let Some((kind, operators)) = LEVELS.get(level) else {
            return self.value();
        };
        let first = self.level(level + 1)?;
        let mut rest = Vec::new();
        while let Some(operator) = self.operator(*kind, operators) {
            let pattern = matches!(operator, Operator::Matches | Operator::DiffersFrom)
                .then(|| self.pattern());
            let right = match pattern.transpose()?.flatten() {
                Some(pattern) => pattern,
                None => self.level(level + 1)?,
            };
            rest.push((operator, right));
        }
        Ok(if rest.is_empty() {
            first
        } else {
            Node::Chain(Box::new(first), rest)
        })
    }

    fn operator(&mut self, kind: Kind, operators: &[Operator]) -> Option<Operator> {
        let token = self
            .tokens
            .get(self.at)
            .filter(|token| token.kind == kind)?;
        let TokenValue::Text(symbol) = &token.value else {
            return None;
        };
        let operator = operators
            .iter()
            .find(|operator| operator.symbol() == symbol)?;
        self.at += 1;
        Some(*operator)
    }

    /// Compiles a text that stands right of `=~` at once, so that its mistakes are those of the expression.
    fn pattern(&mut self) -> Result<Option<Node>, ExprError> {
        let Some(Token {
            kind: Kind::String,
            value: TokenValue::Text(pattern),
        }) = self.tokens.get(self.at)
        else {
            return Ok(None);
        };
        // An operator that binds tighter makes the text part of something else.
        let regex = Regex::new(pattern).map_err(|error| {
            let text = error.to_string();
            if error.is_own() {
                ExprError::Limit(text)
            } else {
                ExprError::Parse(text)
            }
        })?;
        let tighter = self
            .tokens
            .get(self.at + 1)
            .is_some_and(|next| next.kind == Kind::Modifier);
        if tighter {
            return Ok(None);
        }
        self.at += 1;
        Ok(Some(Node::Pattern(regex)))
    }

    fn value(&mut self) -> Result<Node, ExprError> {
        let Some(token) = self.next() else {
            return Ok(Node::Nothing);
        };
        Ok(match (token.kind, &token.value) {
            (Kind::Clause, _) => return self.clause(),
            (Kind::Prefix, TokenValue::Text(symbol)) => {
                let operator = match symbol.as_str() {
                    "-" => Operator::Negate,
                    "!" => Operator::Invert,
                    _ => Operator::BitNot,
                };
                Node::Prefix(operator, Box::new(self.value()?))
            }
            (Kind::Variable, TokenValue::Text(name)) => Node::Variable(self.name(name)),
            (Kind::Accessor, TokenValue::Parts(parts)) => match parts.split_first() {
                Some((name, fields)) => Node::Accessor(self.name(name), fields.to_vec()),
                None => Node::Nothing,
            },
            (Kind::Time, TokenValue::Time(moment)) => {
                Node::Literal(ExprValue::Number(seconds(moment)))
            }
            (Kind::String, TokenValue::Text(text)) => Node::Literal(ExprValue::Text(text.clone())),
            (_, TokenValue::Number(number)) => Node::Literal(ExprValue::Number(*number)),
            (_, TokenValue::Bool(value)) => Node::Literal(ExprValue::Bool(*value)),
            (Kind::ClauseClose, _) => {
                self.at -= 1;
                Node::Nothing
            }
            (kind, _) => {
                let text = format!(
                    "Unable to plan token kind: '{}', value: '{token}'",
                    kind.name()
                );
                return Err(ExprError::parse(text));
            }
        })
    }

    fn clause(&mut self) -> Result<Node, ExprError> {
        self.open += 1;
        if self.open > MAX_NESTING {
            let text = format!(
                "eventlab: parentheses nest deeper than {MAX_NESTING} levels; split the expression"
            );
            return Err(ExprError::Limit(text));
        }
        let inner = self.level(0)?;
        self.open -= 1;
        // What follows is the closing parenthesis, or something that may not stand there and is passed over.
        self.next();
        // A chain in parentheses stays apart from the one around it.
        Ok(match inner {
            chain @ Node::Chain(..) => Node::Chain(Box::new(chain), Vec::new()),
            other => other,
        })
    }
}
