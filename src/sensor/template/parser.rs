//! From items to a tree, with Go's error texts.

use std::collections::HashMap;

use super::TemplateError;
use super::functions;
use super::lexer::{self, Item, Kind};
use super::literal;
use super::tree::{Branch, Command, Node, Operand, OperandKind, Pipe};

/// Blocks, pipes and parentheses inside one another.
const MAX_NESTING: usize = 64;

/// A template and those it defines.
#[derive(Debug, Clone)]
pub(super) struct Parsed {
    pub root: Vec<Node>,
    pub defined: HashMap<String, Vec<Node>>,
}

/// Reads a template.
pub(super) fn parse(source: &str) -> Result<Parsed, TemplateError> {
    let items = lexer::items(source)?;
    let mut parser = Parser {
        source,
        items,
        at: 0,
        nesting: 0,
        loops: 0,
        variables: vec!["$".to_string()],
        defined: HashMap::new(),
    };
    let (root, end) = parser.list()?;
    if let Some(end) = end {
        let text = format!("unexpected {{{{{}}}}}", end.text);
        return Err(TemplateError::parse(source, end.at, &text));
    }
    let root = parser.under_its_name(root)?;
    Ok(Parsed {
        root,
        defined: parser.defined,
    })
}

/// Whether nothing would be printed of a template but blanks: another one may have its name then.
fn is_blank(nodes: &[Node]) -> bool {
    nodes
        .iter()
        .all(|node| matches!(node, Node::Text(text) if text.trim().is_empty()))
}

struct Parser<'t> {
    source: &'t str,
    items: Vec<Item>,
    at: usize,
    nesting: usize,
    loops: usize,
    variables: Vec<String>,
    defined: HashMap<String, Vec<Node>>,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Item> {
        self.items.get(self.at)
    }

    fn next(&mut self) -> Option<Item> {
        let item = self.items.get(self.at).cloned();
        self.at += usize::from(item.is_some());
        item
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|item| item.kind == Kind::Space) {
            self.at += 1;
        }
    }

    fn error(&self, text: &str) -> TemplateError {
        let at = self
            .items
            .get(self.at.saturating_sub(1))
            .map_or(self.source.len(), |item| item.at);
        TemplateError::parse(self.source, at, text)
    }

    fn unexpected(&self, item: Option<&Item>, context: &str) -> TemplateError {
        let what = match item {
            None => "EOF".to_string(),
            Some(item) if item.kind == Kind::Keyword => format!("<{}>", item.text),
            Some(item) => format!("{:?}", item.text),
        };
        self.error(&format!("unexpected {what} in {context}"))
    }

    fn enter(&mut self) -> Result<(), TemplateError> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(TemplateError::Limit(format!(
                "eventlab: the template is nested deeper than {MAX_NESTING} levels; split it"
            )));
        }
        Ok(())
    }

    /// Reads nodes up to `end` or `else`, which is given back, or to the end of the template.
    fn list(&mut self) -> Result<(Vec<Node>, Option<Item>), TemplateError> {
        let mut nodes = Vec::new();
        while let Some(item) = self.next() {
            if item.kind == Kind::Text {
                nodes.push(Node::Text(item.text));
                continue;
            }
            self.skip_space();
            match self
                .peek()
                .filter(|item| item.kind == Kind::Keyword)
                .cloned()
            {
                Some(keyword) => {
                    self.at += 1;
                    if matches!(keyword.text.as_str(), "end" | "else") {
                        return Ok((nodes, Some(keyword)));
                    }
                    nodes.extend(self.keyword(&keyword)?);
                }
                None => nodes.push(Node::Action(self.pipe("command", Kind::Close)?)),
            }
        }
        Ok((nodes, None))
    }

    fn keyword(&mut self, keyword: &Item) -> Result<Option<Node>, TemplateError> {
        self.enter()?;
        let node = match keyword.text.as_str() {
            "if" => Some(Node::If(self.branch("if")?)),
            "with" => Some(Node::With(self.branch("with")?)),
            "range" => Some(Node::Range(self.branch("range")?)),
            "template" => Some(self.template(keyword.at)?),
            "block" => Some(self.block(keyword.at)?),
            "define" => {
                self.define()?;
                None
            }
            name => {
                if self.loops == 0 {
                    return Err(self.error(&format!("{{{{{name}}}}} outside {{{{range}}}}")));
                }
                self.close(name)?;
                Some(if name == "break" {
                    Node::Break
                } else {
                    Node::Continue
                })
            }
        };
        self.nesting -= 1;
        Ok(node)
    }

    fn close(&mut self, context: &str) -> Result<(), TemplateError> {
        self.skip_space();
        let item = self.next();
        match &item {
            Some(item) if item.kind == Kind::Close => Ok(()),
            other => Err(self.unexpected(other.as_ref(), context)),
        }
    }

    /// Reads what belongs to a condition, to its `end`.
    fn branch(&mut self, name: &str) -> Result<Branch, TemplateError> {
        let scope = self.variables.len();
        let pipe = self.pipe(name, Kind::Close)?;
        self.loops += usize::from(name == "range");
        let (then, end) = self.list()?;
        self.loops -= usize::from(name == "range");
        let otherwise = match end {
            None => return Err(self.error("unexpected EOF")),
            Some(end) if end.text == "end" => {
                self.close("end")?;
                Vec::new()
            }
            Some(_) => self.otherwise(name)?,
        };
        self.variables.truncate(scope);
        Ok(Branch {
            pipe,
            then,
            otherwise,
        })
    }

    fn otherwise(&mut self, name: &str) -> Result<Vec<Node>, TemplateError> {
        self.skip_space();
        if let Some(item) = self.peek().cloned()
            && item.kind == Kind::Keyword
            && item.text == name
            && name != "range"
        {
            // `else if`: the inner condition's end is the outer one's as well.
            self.at += 1;
            self.enter()?;
            let branch = self.branch(name)?;
            self.nesting -= 1;
            return Ok(vec![if name == "if" {
                Node::If(branch)
            } else {
                Node::With(branch)
            }]);
        }
        self.close("else")?;
        let (nodes, end) = self.list()?;
        match end {
            Some(end) if end.text == "end" => {
                self.close("end")?;
                Ok(nodes)
            }
            Some(_) => Err(self.error("expected end; found {{else}}")),
            None => Err(self.error("unexpected EOF")),
        }
    }

    fn name(&mut self, context: &str) -> Result<String, TemplateError> {
        self.skip_space();
        let item = self.next();
        match item {
            Some(item) if item.kind == Kind::Quoted => literal::unquote(&item.text)
                .ok_or_else(|| self.error(&format!("invalid string {}", item.text))),
            other => Err(self.unexpected(other.as_ref(), context)),
        }
    }

    fn template(&mut self, at: usize) -> Result<Node, TemplateError> {
        let name = self.name("template clause")?;
        self.skip_space();
        let pipe = if self.peek().is_some_and(|item| item.kind == Kind::Close) {
            self.at += 1;
            None
        } else {
            Some(self.pipe("template clause", Kind::Close)?)
        };
        Ok(Node::Template { name, pipe, at })
    }

    fn block(&mut self, at: usize) -> Result<Node, TemplateError> {
        let name = self.name("block clause")?;
        let pipe = self.pipe("block clause", Kind::Close)?;
        self.body(&name)?;
        Ok(Node::Template {
            name,
            pipe: Some(pipe),
            at,
        })
    }

    fn define(&mut self) -> Result<(), TemplateError> {
        let name = self.name("define clause")?;
        self.close("define clause")?;
        self.body(&name)
    }

    /// Reads a named template, which knows no variables from outside.
    fn body(&mut self, name: &str) -> Result<(), TemplateError> {
        let variables = std::mem::replace(&mut self.variables, vec!["$".to_string()]);
        let loops = std::mem::take(&mut self.loops);
        let (nodes, end) = self.list()?;
        match end {
            Some(end) if end.text == "end" => self.close("end")?,
            Some(_) => return Err(self.error("unexpected {{else}} in define clause")),
            None => return Err(self.error("unexpected EOF")),
        }
        (self.variables, self.loops) = (variables, loops);
        match self.defined.get(name) {
            Some(before) if !is_blank(before) && is_blank(&nodes) => {}
            Some(before) if !is_blank(before) => return Err(self.defined_twice(name)),
            _ => {
                self.defined.insert(name.to_string(), nodes);
            }
        }
        Ok(())
    }

    /// The template itself, or the one that it defines under its own name where it is blank.
    fn under_its_name(&mut self, root: Vec<Node>) -> Result<Vec<Node>, TemplateError> {
        match self.defined.get(super::NAME) {
            Some(own) if !is_blank(own) && is_blank(&root) => Ok(own.clone()),
            Some(own) if !is_blank(own) => Err(self.defined_twice(super::NAME)),
            _ => Ok(root),
        }
    }

    fn defined_twice(&self, name: &str) -> TemplateError {
        self.error(&format!(
            "template: multiple definition of template {name:?}"
        ))
    }

    fn pipe(&mut self, context: &str, end: Kind) -> Result<Pipe, TemplateError> {
        self.enter()?;
        let (variables, assigns) = self.declarations(context)?;
        let mut commands: Vec<Command> = Vec::new();
        loop {
            self.skip_space();
            let item = self.peek().cloned();
            match item {
                Some(item) if item.kind == end => {
                    self.at += 1;
                    break;
                }
                Some(item) if starts_operand(item.kind) => commands.push(self.command(item.at)?),
                other => {
                    self.at += usize::from(other.is_some());
                    return Err(self.unexpected(other.as_ref(), context));
                }
            }
        }
        self.check(&commands, context)?;
        if !assigns {
            self.variables.extend(variables.iter().cloned());
        }
        self.nesting -= 1;
        Ok(Pipe {
            variables,
            assigns,
            commands,
        })
    }

    fn check(&self, commands: &[Command], context: &str) -> Result<(), TemplateError> {
        if commands.is_empty() {
            return Err(self.error(&format!("missing value for {context}")));
        }
        for (place, command) in commands.iter().enumerate().skip(1) {
            let executable = matches!(
                command.operands.first().map(|operand| &operand.kind),
                Some(
                    OperandKind::Field(_)
                        | OperandKind::Variable(..)
                        | OperandKind::Function(_)
                        | OperandKind::Pipe(_)
                        | OperandKind::Chain(..)
                )
            );
            if !executable {
                return Err(self.error(&format!(
                    "non executable command in pipeline stage {}",
                    place + 1
                )));
            }
        }
        Ok(())
    }

    /// Reads `$x :=`, `$x =` or, in a range, `$i, $x :=`.
    fn declarations(&mut self, context: &str) -> Result<(Vec<String>, bool), TemplateError> {
        let start = self.at;
        let mut variables = Vec::new();
        loop {
            self.skip_space();
            match self.next() {
                Some(item) if item.kind == Kind::Variable => variables.push(item.text),
                _ => break,
            }
            self.skip_space();
            match self.next() {
                Some(item) if matches!(item.kind, Kind::Declare | Kind::Assign) => {
                    return Ok((variables, item.kind == Kind::Assign));
                }
                Some(item)
                    if item.kind == Kind::Other
                        && item.text == ","
                        && context == "range"
                        && variables.len() < 2 => {}
                Some(item) if item.kind == Kind::Other && item.text == "," => {
                    return Err(self.error(&format!("too many declarations in {context}")));
                }
                _ => break,
            }
        }
        self.at = start;
        Ok((Vec::new(), false))
    }

    fn command(&mut self, at: usize) -> Result<Command, TemplateError> {
        let mut operands = Vec::new();
        loop {
            self.skip_space();
            operands.extend(self.operand()?);
            let item = self.next();
            match item {
                Some(item) if item.kind == Kind::Space => {}
                Some(item) if matches!(item.kind, Kind::Close | Kind::RightParen) => {
                    self.at -= 1;
                    break;
                }
                // One without a command behind it is passed over.
                Some(item) if item.kind == Kind::Pipe => break,
                other => return Err(self.unexpected(other.as_ref(), "operand")),
            }
        }
        if operands.is_empty() {
            return Err(self.error("empty command"));
        }
        Ok(Command { operands, at })
    }

    /// Reads a value with the fields that follow it without a space.
    fn operand(&mut self) -> Result<Option<Operand>, TemplateError> {
        let Some(item) = self.peek().cloned() else {
            return Ok(None);
        };
        if !starts_operand(item.kind) {
            return Ok(None);
        }
        self.at += 1;
        let kind = self.term(&item)?;
        let mut fields = Vec::new();
        let mut at = item.at;
        while let Some(field) = self.peek().filter(|item| item.kind == Kind::Field) {
            at = if fields.is_empty() { field.at } else { at };
            fields.push(field.text[1..].to_string());
            self.at += 1;
        }
        if fields.is_empty() {
            return Ok(Some(Operand { kind, at: item.at }));
        }
        let kind = match kind {
            OperandKind::Field(mut first) => {
                first.append(&mut fields);
                OperandKind::Field(first)
            }
            OperandKind::Variable(name, _) => OperandKind::Variable(name, fields),
            OperandKind::Bool(_)
            | OperandKind::Text(..)
            | OperandKind::Int(..)
            | OperandKind::Float(..)
            | OperandKind::TooLarge(..)
            | OperandKind::Nil
            | OperandKind::Dot => {
                return Err(self.error(&format!("unexpected . after term {:?}", item.text)));
            }
            kind => OperandKind::Chain(Box::new(Operand { kind, at: item.at }), fields),
        };
        Ok(Some(Operand { kind, at }))
    }

    fn term(&mut self, item: &Item) -> Result<OperandKind, TemplateError> {
        let text = item.text.clone();
        Ok(match item.kind {
            Kind::Dot => OperandKind::Dot,
            Kind::Nil => OperandKind::Nil,
            Kind::Bool => OperandKind::Bool(text == "true"),
            Kind::Field => OperandKind::Field(vec![text[1..].to_string()]),
            Kind::Number if literal::is_imaginary(&text) => {
                return Err(TemplateError::Outside(format!("the complex number {text}")));
            }
            Kind::Number => {
                literal::number(&text).map_err(|wrong| self.error(&format!("{wrong}: {text:?}")))?
            }
            Kind::Char => {
                match literal::unquote(&text).filter(|value| value.chars().count() == 1) {
                    Some(value) => OperandKind::Int(
                        value.chars().next().map_or(0, |c| i64::from(u32::from(c))),
                        text,
                    ),
                    None => {
                        return Err(self.error(&format!("malformed character constant: {text}")));
                    }
                }
            }
            Kind::Variable if self.variables.contains(&text) => {
                OperandKind::Variable(text, Vec::new())
            }
            Kind::Variable => return Err(self.error(&format!("undefined variable {text:?}"))),
            Kind::Identifier if functions::exists(&text) => OperandKind::Function(text),
            Kind::Identifier if functions::is_outside(&text) => {
                return Err(TemplateError::Outside(format!("the function {text}")));
            }
            Kind::Identifier => return Err(self.error(&format!("function {text:?} not defined"))),
            Kind::LeftParen => OperandKind::Pipe(Box::new(
                self.pipe("parenthesized pipeline", Kind::RightParen)?,
            )),
            _ => match literal::unquote(&text) {
                Some(value) => OperandKind::Text(value, text),
                None => return Err(self.error("invalid syntax")),
            },
        })
    }
}

fn starts_operand(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Bool
            | Kind::Char
            | Kind::Dot
            | Kind::Field
            | Kind::Identifier
            | Kind::Number
            | Kind::Nil
            | Kind::Quoted
            | Kind::Variable
            | Kind::LeftParen
    )
}
