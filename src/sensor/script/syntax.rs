//! The tree of a script, as far as it says which values the script may return.
//!
//! Expressions, variables and functions lie in lists, and an expression lies behind all that it is made of; so nothing
//! that walks over a long one recurses.

mod reader;

use super::tokens::tokens;

/// The place of an expression, a variable or a function in its list.
pub(super) type Id = usize;

#[derive(Debug)]
pub(super) enum Expression<'s> {
    Nil,
    False,
    True,
    Number,
    /// A text, and what it says where that can be read as it stands.
    Text(Option<&'s str>),
    /// `...`: no value in the script itself, any in a function.
    Rest {
        in_function: bool,
    },
    Table(Vec<Id>),
    Function(Id),
    Variable(Id),
    /// `a.b` or `a["b"]` with its name; `a[i]` without.
    Field(Id, Option<&'s str>),
    Method(Id, &'s str),
    Call(Id),
    /// In parentheses: one value.
    Single(Id),
    Not(Id),
    /// Arithmetic and lengths.
    Arithmetic,
    Joined,
    Equal {
        sides: (Id, Id),
        negated: bool,
    },
    Ordered(Id, Id),
    And(Id, Id),
    Or(Id, Id),
}

/// What a variable is given somewhere.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source {
    Nil,
    Number,
    First(Id),
    Any,
}

#[derive(Debug, Default)]
pub(super) struct Variable<'s> {
    /// Its name, if it is a global one.
    pub global: Option<&'s str>,
    pub sources: Vec<Source>,
}

#[derive(Debug)]
pub(super) enum Statement {
    Return(Vec<Id>),
    Break,
    /// A call, or values that are given to names.
    Values(Vec<Id>),
    Do(Block),
    Choice {
        arms: Vec<(Id, Block)>,
        otherwise: Option<Block>,
    },
    Loop {
        condition: Option<Id>,
        body: Block,
    },
}

pub(super) type Block = Vec<Statement>;

#[derive(Debug, Default)]
pub(super) struct Tree<'s> {
    pub expressions: Vec<Expression<'s>>,
    pub variables: Vec<Variable<'s>>,
    /// The bodies of functions.
    pub functions: Vec<Block>,
    pub script: Block,
    /// Something is written into a field of something.
    pub writes_fields: bool,
}

/// Reads a script that compiles; `None` where it is none, or has gotos.
pub(super) fn tree(source: &str) -> Option<Tree<'_>> {
    let tokens = tokens(source)?;
    reader::read(source, &tokens)
}
