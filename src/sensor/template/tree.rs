//! The parsed template.

use std::fmt;

/// Something a template does.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Text(String),
    Action(Pipe),
    If(Branch),
    Range(Branch),
    With(Branch),
    Template {
        name: String,
        pipe: Option<Pipe>,
        at: usize,
    },
    Break,
    Continue,
}

/// A condition with what follows from it.
#[derive(Debug, Clone)]
pub(super) struct Branch {
    pub pipe: Pipe,
    pub then: Vec<Node>,
    pub otherwise: Vec<Node>,
}

/// Commands, each of which gets the value of the one before as its last argument.
#[derive(Debug, Clone)]
pub(super) struct Pipe {
    pub variables: Vec<String>,
    /// `=` and not `:=`.
    pub assigns: bool,
    pub commands: Vec<Command>,
}

/// A function with arguments, or a single value.
#[derive(Debug, Clone)]
pub(super) struct Command {
    pub operands: Vec<Operand>,
    pub at: usize,
}

/// A value in a command.
#[derive(Debug, Clone)]
pub(super) struct Operand {
    pub kind: OperandKind,
    pub at: usize,
}

#[derive(Debug, Clone)]
pub(super) enum OperandKind {
    Dot,
    Nil,
    Bool(bool),
    Int(i64, String),
    Float(f64, String),
    /// A whole number that only 64 bits without a sign hold.
    TooLarge(String),
    /// The value, and the text as it stands in the template.
    Text(String, String),
    Field(Vec<String>),
    Variable(String, Vec<String>),
    Function(String),
    Pipe(Box<Pipe>),
    Chain(Box<Operand>, Vec<String>),
}

fn write_fields(f: &mut fmt::Formatter<'_>, fields: &[String]) -> fmt::Result {
    fields.iter().try_for_each(|field| write!(f, ".{field}"))
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            OperandKind::Dot => f.write_str("."),
            OperandKind::Nil => f.write_str("nil"),
            OperandKind::Bool(value) => write!(f, "{value}"),
            OperandKind::Int(_, text)
            | OperandKind::Float(_, text)
            | OperandKind::TooLarge(text)
            | OperandKind::Text(_, text) => f.write_str(text),
            OperandKind::Field(fields) => write_fields(f, fields),
            OperandKind::Variable(name, fields) => {
                f.write_str(name)?;
                write_fields(f, fields)
            }
            OperandKind::Function(name) => f.write_str(name),
            OperandKind::Pipe(pipe) => write!(f, "({pipe})"),
            OperandKind::Chain(operand, fields) => {
                write!(f, "{operand}")?;
                write_fields(f, fields)
            }
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, operand) in self.operands.iter().enumerate() {
            let space = if place > 0 { " " } else { "" };
            write!(f, "{space}{operand}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.variables.is_empty() {
            let sign = if self.assigns { "=" } else { ":=" };
            write!(f, "{} {sign} ", self.variables.join(", "))?;
        }
        for (place, command) in self.commands.iter().enumerate() {
            let bar = if place > 0 { " | " } else { "" };
            write!(f, "{bar}{command}")?;
        }
        Ok(())
    }
}
