//! Running a tree: every node takes a step, the output and the calls are bounded.

use std::collections::HashMap;

use super::TemplateError;
use super::functions::{self, Arguments, Context};
use super::limits::{Failure, MAX_CALLS, MAX_TEXT, Misfit, Steps, own};
use super::parser::Parsed;
use super::tree::{Branch, Command, Node, Operand, OperandKind, Pipe};
use super::value::Value;

/// Runs a template and gives its output.
pub(super) fn run(source: &str, parsed: &Parsed, root: Value) -> Result<String, TemplateError> {
    let context = Context {
        steps: Steps::new(root.weight()),
        patterns: HashMap::new(),
        changed: false,
    };
    let mut exec = Exec {
        source,
        parsed,
        context,
        variables: vec![Variable::root(root.clone())],
        null_dot: false,
        out: String::new(),
        calls: 0,
    };
    exec.list(&root, &parsed.root)?;
    Ok(exec.out)
}

struct Exec<'t> {
    source: &'t str,
    parsed: &'t Parsed,
    context: Context,
    variables: Vec<Variable>,
    /// The dot is a null that stands in data: where Go makes an empty object of what is missing, it refuses this one.
    null_dot: bool,
    out: String,
    calls: usize,
}

struct Variable {
    name: String,
    value: Value,
    /// It is a null that stands in data, as the dot may be one.
    null: bool,
}

/// A value, and whether it is a null that stands in data.
type Held = (Value, bool);

/// How a list of nodes ended.
#[derive(Clone, Copy, PartialEq)]
enum Flow {
    Done,
    Break,
    Continue,
}

type Outcome<T> = Result<T, TemplateError>;

impl Variable {
    fn root(value: Value) -> Self {
        Self {
            name: "$".to_string(),
            value,
            null: false,
        }
    }
}

impl<'t> Exec<'t> {
    /// The error of a failure at a node.
    fn failed<T>(&self, at: usize, node: &dyn std::fmt::Display, failure: Failure) -> Outcome<T> {
        match failure {
            Failure::Go(text) => self.error(at, node, &text),
            Failure::Arguments(misfit) => self.error(at, node, misfit.text()),
            Failure::Own(text) => Err(TemplateError::Limit(text)),
        }
    }

    fn error<T>(&self, at: usize, node: &dyn std::fmt::Display, text: &str) -> Outcome<T> {
        Err(TemplateError::execute(
            self.source,
            at,
            &node.to_string(),
            text,
        ))
    }

    fn list(&mut self, dot: &Value, nodes: &'t [Node]) -> Outcome<Flow> {
        for node in nodes {
            self.take(1)?;
            let flow = self.node(dot, node)?;
            if flow != Flow::Done {
                return Ok(flow);
            }
        }
        Ok(Flow::Done)
    }

    fn node(&mut self, dot: &Value, node: &'t Node) -> Outcome<Flow> {
        match node {
            Node::Text(text) => self.print(text)?,
            Node::Action(pipe) => {
                let value = self.pipe(dot, pipe)?;
                if pipe.variables.is_empty() {
                    if let Err(failure) = self.context.weigh(&value) {
                        return self.failed(pipe_place(pipe), pipe, failure);
                    }
                    let text = match &value {
                        Value::Nil => "<no value>".to_string(),
                        value => value.display(),
                    };
                    self.print(&text)?;
                }
            }
            Node::If(branch) | Node::With(branch) => {
                return self.scoped(|exec| {
                    let value = exec.pipe(dot, &branch.pipe)?;
                    let inner = if matches!(node, Node::With(_)) {
                        &value
                    } else {
                        dot
                    };
                    let null = exec.null_dot && !matches!(node, Node::With(_));
                    match value.is_true() {
                        true => exec.with_dot(null, |exec| exec.list(inner, &branch.then)),
                        false => exec.list(dot, &branch.otherwise),
                    }
                });
            }
            Node::Range(branch) => return self.scoped(|exec| exec.range(dot, branch)),
            Node::Template { name, pipe, at } => self.call(dot, name, pipe.as_ref(), *at)?,
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Done)
    }

    fn print(&mut self, text: &str) -> Outcome<()> {
        self.out.push_str(text);
        if self.out.len() > MAX_TEXT {
            let failure = own("the output of the template is longer than 4 MiB; write less");
            return self.failed(0, &"", failure);
        }
        self.take(text.len() / 16)
    }

    fn take(&mut self, steps: usize) -> Outcome<()> {
        match self.context.steps.take(steps) {
            Ok(()) => Ok(()),
            Err(failure) => self.failed(0, &"", failure),
        }
    }

    /// Runs with another dot.
    fn with_dot<T>(&mut self, null: bool, run: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        let outer = std::mem::replace(&mut self.null_dot, null);
        let result = run(self);
        self.null_dot = outer;
        result
    }

    /// Runs with variables that are gone afterwards.
    fn scoped<T>(&mut self, run: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        let mark = self.variables.len();
        let result = run(self);
        self.variables.truncate(mark);
        result
    }

    fn range(&mut self, dot: &Value, branch: &'t Branch) -> Outcome<Flow> {
        let value = self.plain_pipe(dot, &branch.pipe)?;
        match &value {
            Value::List(list) => {
                let pairs = list
                    .items
                    .iter()
                    .enumerate()
                    .map(|(place, item)| (Value::Int(place as i64), item.clone()));
                self.each(dot, branch, pairs)
            }
            Value::Map(map) => {
                let now = map.now();
                let members = now.members.iter();
                let pairs = members.map(|(key, value)| (Value::text(key), value.clone()));
                self.each(dot, branch, pairs)
            }
            Value::Int(count) | Value::Int64(count) if branch.pipe.variables.len() > 1 => {
                let text = format!("can't use {count} to iterate over more than one variable");
                self.error(pipe_place(&branch.pipe), &branch.pipe, &text)
            }
            Value::Int(count) => self.each(
                dot,
                branch,
                (0..*count).map(|n| (Value::Nil, Value::Int(n))),
            ),
            Value::Int64(count) => self.each(
                dot,
                branch,
                (0..*count).map(|n| (Value::Nil, Value::Int64(n))),
            ),
            Value::Nil => self.list(dot, &branch.otherwise),
            other => {
                let text = format!("range can't iterate over {}", other.display());
                self.error(pipe_place(&branch.pipe), &branch.pipe, &text)
            }
        }
    }

    fn each(
        &mut self,
        dot: &Value,
        branch: &'t Branch,
        pairs: impl Iterator<Item = (Value, Value)>,
    ) -> Outcome<Flow> {
        let mut any = false;
        for (key, item) in pairs {
            any = true;
            let flow = self.scoped(|exec| {
                let null = item == Value::Nil;
                match branch.pipe.variables.as_slice() {
                    [one] => exec.set(one, (item.clone(), null), branch.pipe.assigns),
                    [first, second] => {
                        exec.set(first, (key, false), branch.pipe.assigns);
                        exec.set(second, (item.clone(), null), branch.pipe.assigns);
                    }
                    _ => {}
                }
                exec.with_dot(null, |exec| exec.list(&item, &branch.then))
            })?;
            if flow == Flow::Break {
                return Ok(Flow::Done);
            }
            self.take(1)?;
        }
        if any {
            Ok(Flow::Done)
        } else {
            self.list(dot, &branch.otherwise)
        }
    }

    fn call(&mut self, dot: &Value, name: &str, pipe: Option<&'t Pipe>, at: usize) -> Outcome<()> {
        let parsed = self.parsed;
        let Some(nodes) = parsed.defined.get(name) else {
            return self.error(
                at,
                &format!("template {name:?}"),
                &format!("template {name:?} not defined"),
            );
        };
        let value = match pipe {
            Some(pipe) => self.pipe(dot, pipe)?,
            None => Value::Nil,
        };
        if self.calls >= MAX_CALLS {
            let failure = own("the templates call one another more than 32 deep; call fewer");
            return self.failed(at, &"", failure);
        }
        self.calls += 1;
        let root = vec![Variable::root(value.clone())];
        let outer = std::mem::replace(&mut self.variables, root);
        self.with_dot(false, |exec| exec.list(&value, nodes))?;
        self.variables = outer;
        self.calls -= 1;
        Ok(())
    }

    fn set(&mut self, name: &str, (value, null): Held, assigns: bool) {
        let new = Variable {
            name: name.to_string(),
            value,
            null,
        };
        let mut known = self.variables.iter_mut().rev();
        match known.find(|known| known.name == name) {
            Some(old) if assigns => *old = new,
            _ => self.variables.push(new),
        }
    }

    fn pipe(&mut self, dot: &Value, pipe: &'t Pipe) -> Outcome<Value> {
        let value = self.plain_pipe(dot, pipe)?;
        for name in &pipe.variables {
            self.set(name, (value.clone(), false), pipe.assigns);
        }
        Ok(value)
    }

    fn plain_pipe(&mut self, dot: &Value, pipe: &'t Pipe) -> Outcome<Value> {
        let mut value = None;
        for command in &pipe.commands {
            value = Some(self.command(dot, command, value)?);
        }
        Ok(value.unwrap_or(Value::Nil))
    }

    fn command(
        &mut self,
        dot: &Value,
        command: &'t Command,
        last: Option<Value>,
    ) -> Outcome<Value> {
        self.take(1)?;
        let Some((first, rest)) = command.operands.split_first() else {
            return Ok(Value::Nil);
        };
        if let OperandKind::Function(name) = &first.kind {
            return self.function(dot, name, rest, last, command);
        }
        if matches!(first.kind, OperandKind::Nil) {
            return self.error(first.at, first, "nil is not a command");
        }
        if !rest.is_empty() || last.is_some() {
            let text = match &first.kind {
                OperandKind::Field(fields) => {
                    let field = fields.last().map_or("", String::as_str);
                    format!("{field} is not a method but has arguments")
                }
                _ => format!("can't give argument to non-function {first}"),
            };
            return self.error(first.at, first, &text);
        }
        self.operand(dot, first)
    }

    /// The value of an operand that stands for itself: what is no more than null is nothing then.
    fn operand(&mut self, dot: &Value, operand: &'t Operand) -> Outcome<Value> {
        self.held(dot, operand).map(|(value, _)| value)
    }

    /// What an operand leads to.
    fn held(&mut self, dot: &Value, operand: &'t Operand) -> Outcome<Held> {
        match &operand.kind {
            OperandKind::Dot => Ok((dot.clone(), self.null_dot)),
            OperandKind::Field(fields) => {
                self.fields((dot.clone(), self.null_dot), fields, operand)
            }
            OperandKind::Variable(name, fields) => {
                let mut known = self.variables.iter().rev();
                match known.find(|known| known.name == *name) {
                    Some(known) => self.fields((known.value.clone(), known.null), fields, operand),
                    None => self.error(operand.at, operand, &format!("undefined variable: {name}")),
                }
            }
            OperandKind::Chain(inner, fields) => {
                let value = self.operand(dot, inner)?;
                self.fields((value, false), fields, operand)
            }
            _ => self.made(dot, operand).map(|value| (value, false)),
        }
    }

    /// The value of an operand that leads nowhere.
    fn made(&mut self, dot: &Value, operand: &'t Operand) -> Outcome<Value> {
        match &operand.kind {
            OperandKind::Nil => Ok(Value::Nil),
            OperandKind::Bool(value) => Ok(Value::Bool(*value)),
            OperandKind::Int(value, _) => Ok(Value::Int(*value)),
            OperandKind::Float(value, _) => Ok(Value::Float(*value)),
            OperandKind::TooLarge(text) => {
                self.error(operand.at, operand, &format!("{text} overflows int"))
            }
            OperandKind::Text(value, _) => Ok(Value::text(value)),
            OperandKind::Function(name) => {
                let answer = self.called(name, &Arguments::new(&[], 0, &[]));
                answer.or_else(|failure| self.failed(operand.at, &Name(name), failure))
            }
            OperandKind::Pipe(pipe) => self.scoped(|exec| exec.pipe(dot, pipe)),
            _ => self.operand(dot, operand),
        }
    }

    fn fields(&self, from: Held, fields: &[String], operand: &Operand) -> Outcome<Held> {
        // Below a member that is missing there is nothing; below a null is an error.
        let (mut value, mut is_null) = from;
        for field in fields {
            value = match &value {
                Value::Map(map) => {
                    let member = map.now().members.get(field).cloned();
                    is_null = matches!(member, Some(Value::Nil));
                    member.unwrap_or(Value::Nil)
                }
                Value::Version(version) if version.part(field).is_some() => {
                    version.part(field).unwrap_or(Value::Nil)
                }
                Value::Nil if is_null => {
                    let text = format!("nil pointer evaluating interface {{}}.{field}");
                    return self.error(operand.at, operand, &text);
                }
                Value::Nil => Value::Nil,
                _ => {
                    let text = format!("can't evaluate field {field} in type interface {{}}");
                    return self.error(operand.at, operand, &text);
                }
            };
        }
        Ok((value, is_null))
    }

    fn function(
        &mut self,
        dot: &Value,
        name: &str,
        operands: &'t [Operand],
        last: Option<Value>,
        command: &Command,
    ) -> Outcome<Value> {
        if matches!(name, "and" | "or") {
            return self.shortcut(dot, name == "and", operands, last, command);
        }
        let mut arguments = Vec::with_capacity(operands.len() + 1);
        let mut constants = 0;
        let mut nulls = Vec::new();
        for (place, operand) in operands.iter().enumerate() {
            if matches!(operand.kind, OperandKind::Int(..) | OperandKind::Float(..)) {
                constants |= 1u32.checked_shl(place as u32).unwrap_or(0);
            }
            let (value, null) = self.held(dot, operand)?;
            if null {
                nulls.push(place);
            }
            arguments.push(value);
        }
        arguments.extend(last);
        let arguments = Arguments::new(&arguments, constants, &nulls);
        match self.called(name, &arguments) {
            Ok(value) => Ok(value),
            Err(Failure::Arguments(misfit)) => self.misfit(name, operands, command.at, &misfit),
            Err(failure) => self.failed(command.at, command, failure),
        }
    }

    /// The error of arguments that do not fit: Go tells it at the argument, and of what is written there in its own words.
    fn misfit<T>(
        &self,
        name: &str,
        operands: &[Operand],
        at: usize,
        misfit: &Misfit,
    ) -> Outcome<T> {
        let Misfit::Type {
            place,
            wanted,
            text,
        } = misfit
        else {
            return self.error(at, &Name(name), misfit.text());
        };
        match (operands.get(*place), operands.last()) {
            (Some(operand), _) => {
                let text = written(operand, wanted).unwrap_or_else(|| text.clone());
                self.error(operand.at, operand, &text)
            }
            (None, Some(last)) => self.error(last.at, last, text),
            (None, None) => self.error(at, &Name(name), text),
        }
    }

    fn called(&mut self, name: &str, arguments: &Arguments<'_>) -> Result<Value, Failure> {
        let skipped = usize::from(functions::takes_one_member(name));
        let mut walked = arguments.all().iter().skip(skipped);
        let weight: usize = walked.try_fold(1usize, |sum, value| {
            Ok::<_, Failure>(sum.saturating_add(self.context.weigh(value)?))
        })?;
        self.context.steps.take(weight)?;
        match functions::call(&mut self.context, name, arguments) {
            Err(Failure::Go(text)) => Err(format!("error calling {name}: {text}").into()),
            answer => answer,
        }
    }

    /// `and` and `or` evaluate no further than they must.
    fn shortcut(
        &mut self,
        dot: &Value,
        and: bool,
        operands: &'t [Operand],
        last: Option<Value>,
        command: &Command,
    ) -> Outcome<Value> {
        let mut value = Value::Nil;
        for operand in operands {
            value = self.operand(dot, operand)?;
            if value.is_true() != and {
                return Ok(value);
            }
        }
        match last {
            Some(last) => Ok(last),
            None if operands.is_empty() => {
                let name = if and { "and" } else { "or" };
                let text = format!("wrong number of args for {name}: want at least 1 got 0");
                self.error(command.at, &Name(name), &text)
            }
            None => Ok(value),
        }
    }
}

/// What Go says of a constant where another type is wanted.
fn written(operand: &Operand, wanted: &str) -> Option<String> {
    let constant = match &operand.kind {
        OperandKind::Nil => return Some(format!("cannot assign nil to {wanted}")),
        OperandKind::Bool(_)
        | OperandKind::Int(..)
        | OperandKind::Float(..)
        | OperandKind::Text(..) => operand,
        _ => return None,
    };
    let kind = match wanted {
        "int" => "integer",
        "float64" => "float",
        "string" | "bool" => wanted,
        _ => return Some(format!("can't handle {constant} for arg of type {wanted}")),
    };
    Some(format!("expected {kind}; found {constant}"))
}

struct Name<'n>(&'n str);

impl std::fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

fn pipe_place(pipe: &Pipe) -> usize {
    pipe.commands.first().map_or(0, |command| command.at)
}
