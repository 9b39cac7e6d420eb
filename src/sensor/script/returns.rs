//! Whether a script can return `true` at all, judged without running it: a "never" is certain, whatever the event.
//!
//! Every expression, variable and function gets all the kinds of values that it may have. They start as none and grow
//! until nothing changes; what cannot be known counts as any.

#[cfg(test)]
mod tests;
mod value;

use std::collections::HashMap;

use super::jumps;
use super::known;
use super::syntax::{Block, Expression, Id, Source, Statement, Tree, Variable, tree};
use value::{Callee, Value};
pub(super) use value::{FALSE, NIL, NUMBER, OTHER, TEXT, TRUE, Text};

const FALSY: u8 = NIL | FALSE;

/// Looks at the whole script before none is taken that still changes something.
const MAX_LOOKS: usize = 50;

/// What a script returns that never returns `true`, in words; nothing for one that always ends in an error.
///
/// `None` for a script that may return `true`, as far as can be known.
#[must_use]
pub fn never_true(source: &str) -> Option<Vec<&'static str>> {
    let written = jumps::without(source).ok()?;
    let tree = tree(written.as_deref().unwrap_or(source))?;
    let reaches_further = |name| known::REACH_FURTHER.contains(&name);
    if tree
        .variables
        .iter()
        .filter_map(|variable| variable.global)
        .any(reaches_further)
    {
        return None;
    }
    let kinds = Judge::new(&tree).judge()?;
    (kinds & TRUE == 0).then(|| words(kinds))
}

fn words(kinds: u8) -> Vec<&'static str> {
    [
        (TEXT, "a text"),
        (NUMBER, "a number"),
        (FALSE, "false"),
        (OTHER, "a table or function"),
        (NIL, "nothing"),
    ]
    .iter()
    .filter(|(kind, _)| kinds & kind != 0)
    .map(|(_, word)| *word)
    .collect()
}

/// The first and the last value of what may be several.
type Ends<'s> = (Value<'s>, Value<'s>);

struct Judge<'t, 's> {
    tree: &'t Tree<'s>,
    /// The variables that are given an expression's value.
    given: HashMap<Id, Vec<Id>>,
    expressions: Vec<Ends<'s>>,
    variables: Vec<Value<'s>>,
    functions: Vec<Ends<'s>>,
}

impl<'t, 's> Judge<'t, 's> {
    fn new(tree: &'t Tree<'s>) -> Self {
        let never = (Value::NEVER, Value::NEVER);
        let mut given: HashMap<Id, Vec<Id>> = HashMap::new();
        for (id, variable) in tree.variables.iter().enumerate() {
            for source in &variable.sources {
                if let Source::First(expression) = source {
                    given.entry(*expression).or_default().push(id);
                }
            }
        }
        Self {
            tree,
            given,
            expressions: vec![never; tree.expressions.len()],
            variables: tree.variables.iter().map(at_first).collect(),
            functions: vec![never; tree.functions.len()],
        }
    }

    /// The kinds of the script's last value; `None` where they are not settled.
    fn judge(mut self) -> Option<u8> {
        for _ in 0..MAX_LOOKS {
            if !self.look() {
                let (_, last) = self.result(&self.tree.script);
                return Some(last.kinds);
            }
        }
        None
    }

    /// Looks at everything once; whether something has changed.
    fn look(&mut self) -> bool {
        let mut changed = false;
        for (id, expression) in self.tree.expressions.iter().enumerate() {
            let found = self.expression(expression);
            if found == self.expressions[id] {
                continue;
            }
            changed = true;
            self.expressions[id] = found;
            for variable in self.given.get(&id).into_iter().flatten() {
                self.variables[*variable] = self.variables[*variable].join(found.0);
            }
        }
        for (id, body) in self.tree.functions.iter().enumerate() {
            let found = self.result(body);
            changed |= found != self.functions[id];
            self.functions[id] = found;
        }
        changed
    }

    fn first(&self, id: Id) -> Value<'s> {
        self.expressions.get(id).map_or(Value::ANY, |ends| ends.0)
    }

    fn expression(&self, expression: &Expression<'s>) -> Ends<'s> {
        let value = match expression {
            Expression::Nil => Value::of(NIL),
            Expression::False => Value::of(FALSE),
            Expression::True => Value::of(TRUE),
            Expression::Number | Expression::Arithmetic => Value::of(NUMBER),
            Expression::Joined | Expression::Text(None) => Value::of(TEXT),
            Expression::Text(Some(text)) => Value {
                text: Text::Is(text),
                ..Value::of(TEXT)
            },
            Expression::Rest { in_function: false } => Value::of(NIL),
            Expression::Rest { in_function: true } => Value::ANY,
            Expression::Table(values) => Value {
                data: values.iter().all(|id| self.first(*id).data),
                ..Value::of(OTHER)
            },
            Expression::Function(id) => Value::function(Callee::Own(*id)),
            Expression::Variable(id) => self.variables[*id],
            Expression::Field(of, name) => self.field(*of, *name),
            Expression::Method(of, name) => self.method(*of, name),
            Expression::Call(callee) => return self.call(self.first(*callee)),
            Expression::Single(id) => self.first(*id),
            Expression::Not(id) => Value::of(negated(self.first(*id).kinds)),
            Expression::Equal { sides, negated } => {
                Value::of(equal(self.first(sides.0), self.first(sides.1), *negated))
            }
            Expression::Ordered(left, right) => {
                let both = self.first(*left).kinds & self.first(*right).kinds;
                // Numbers are compared with numbers and texts with texts; everything else is an error.
                Value::of(if both & (NUMBER | TEXT) == 0 {
                    0
                } else {
                    TRUE | FALSE
                })
            }
            Expression::And(left, right) => {
                let left = self.first(*left);
                let right = if left.may_be(!FALSY) {
                    self.first(*right)
                } else {
                    Value::NEVER
                };
                left.only(FALSY).join(right)
            }
            Expression::Or(left, right) => {
                let left = self.first(*left);
                let right = if left.may_be(FALSY) {
                    self.first(*right)
                } else {
                    Value::NEVER
                };
                left.only(!FALSY).join(right)
            }
        };
        (value, value)
    }

    /// A library that the script leaves as it is, by its name.
    fn library(&self, id: Id) -> Option<&'s str> {
        let Expression::Variable(variable) = self.tree.expressions.get(id)? else {
            return None;
        };
        let variable = self.tree.variables.get(*variable)?;
        let name = variable.global.filter(|name| known::is_library(name))?;
        (variable.sources.is_empty() && !self.tree.writes_fields).then_some(name)
    }

    fn field(&self, of: Id, name: Option<&str>) -> Value<'s> {
        let value = self.first(of);
        if !value.may_be(TEXT | OTHER) {
            return Value::NEVER;
        }
        match (self.library(of), name) {
            (Some("math"), Some("pi" | "huge")) => Value::of(NUMBER),
            (Some(library), Some(name)) => known_function(library, name),
            _ => Value {
                data: value.data,
                ..Value::ANY
            },
        }
    }

    /// A method of a text is one of the library; a table may have another one by that name.
    fn method(&self, of: Id, name: &str) -> Value<'s> {
        let value = self.first(of);
        if !value.may_be(TEXT | OTHER) {
            return Value::NEVER;
        }
        match !self.tree.writes_fields && (value.data || !value.may_be(OTHER)) {
            true => known_function("string", name),
            false => Value::ANY,
        }
    }

    fn call(&self, callee: Value<'s>) -> Ends<'s> {
        match callee.calls {
            Callee::No => (Value::NEVER, Value::NEVER),
            Callee::Own(id) => self.functions[id],
            Callee::Library(known) => {
                let value = |kinds| {
                    let value = Value::of(kinds);
                    match known.text {
                        Some(text) if value.may_be(TEXT) => Value { text, ..value },
                        _ => value,
                    }
                };
                (value(known.first), value(known.last))
            }
            Callee::Any => (Value::ANY, Value::ANY),
        }
    }

    /// What a body returns; `nil` where its end is reached.
    fn result(&self, body: &Block) -> Ends<'s> {
        let mut returned = (Value::NEVER, Value::NEVER);
        if self.reaches_its_end(body, &mut returned) {
            let nil = Value::of(NIL);
            returned = (returned.0.join(nil), returned.1.join(nil));
        }
        returned
    }

    /// Walks over a block for what it returns; whether what stands behind it may be reached.
    fn reaches_its_end(&self, block: &Block, returned: &mut Ends<'s>) -> bool {
        let errs = |id: &Id| self.first(*id).kinds == 0;
        for statement in block {
            let goes_on = match statement {
                Statement::Break => false,
                Statement::Return(values) => {
                    if !values.iter().any(errs) {
                        let (first, last) = self.returned(values);
                        *returned = (returned.0.join(first), returned.1.join(last));
                    }
                    false
                }
                Statement::Values(values) => !values.iter().any(errs),
                Statement::Do(block) => self.reaches_its_end(block, returned),
                Statement::Choice { arms, otherwise } => {
                    self.choice(arms, otherwise.as_ref(), returned)
                }
                Statement::Loop { condition, body } => {
                    let condition = condition.map_or(Value::ANY, |id| self.first(id));
                    if condition.may_be(!FALSY) {
                        self.reaches_its_end(body, returned);
                    }
                    condition.kinds != 0
                }
            };
            if !goes_on {
                return false;
            }
        }
        true
    }

    fn choice(
        &self,
        arms: &[(Id, Block)],
        otherwise: Option<&Block>,
        returned: &mut Ends<'s>,
    ) -> bool {
        let mut goes_on = false;
        for (condition, block) in arms {
            let condition = self.first(*condition);
            if condition.may_be(!FALSY) {
                goes_on |= self.reaches_its_end(block, returned);
            }
            if !condition.may_be(FALSY) {
                return goes_on;
            }
        }
        goes_on | otherwise.is_none_or(|block| self.reaches_its_end(block, returned))
    }

    /// The first and the last of the values that a `return` lists.
    fn returned(&self, values: &[Id]) -> Ends<'s> {
        let (Some(first), Some(last)) = (values.first(), values.last()) else {
            return (Value::of(NIL), Value::of(NIL));
        };
        let ends = |id: Id| self.expressions.get(id).copied();
        let (only, mut end) = ends(*last).unwrap_or((Value::ANY, Value::ANY));
        let [.., before, _] = values else {
            return (only, end);
        };
        // A call that gives nothing leaves the value before it as the last one.
        let may_be_none = matches!(
            self.tree.expressions.get(*last),
            Some(Expression::Call(_) | Expression::Rest { .. })
        );
        if may_be_none {
            end = end.join(self.first(*before));
        }
        (self.first(*first), end)
    }
}

fn equal(left: Value<'_>, right: Value<'_>, negated: bool) -> u8 {
    if left.kinds == 0 || right.kinds == 0 {
        return 0;
    }
    let both = left.kinds & right.kinds;
    let same_text = both & TEXT != 0 && !left.text.never_is(right.text);
    match (both & !TEXT != 0 || same_text, negated) {
        (true, _) => TRUE | FALSE,
        (false, true) => TRUE,
        (false, false) => FALSE,
    }
}

fn negated(kinds: u8) -> u8 {
    let of = |given: u8, result: u8| if kinds & given == 0 { 0 } else { result };
    of(!FALSY, FALSE) | of(FALSY, TRUE)
}

/// What a variable is apart from the expressions that it is given.
fn at_first<'s>(variable: &Variable<'s>) -> Value<'s> {
    let unset = match variable.global {
        None => Value::NEVER,
        Some("event") => Value::DATA,
        Some(name) => global(name),
    };
    let sources = variable.sources.iter().map(|source| match source {
        Source::Nil => Value::of(NIL),
        Source::Number => Value::of(NUMBER),
        Source::First(_) => Value::NEVER,
        Source::Any => Value::ANY,
    });
    sources.fold(unset, Value::join)
}

/// A global name that the script does not set.
fn global<'s>(name: &str) -> Value<'s> {
    match known::function("", name) {
        Some(known) => Value::function(Callee::Library(known)),
        None if known::is_library(name) => Value {
            data: false,
            ..Value::of(OTHER)
        },
        None if known::GLOBALS.contains(&name) => Value::ANY,
        None => Value::of(NIL),
    }
}

fn known_function<'s>(library: &str, name: &str) -> Value<'s> {
    known::function(library, name)
        .map_or(Value::ANY, |known| Value::function(Callee::Library(known)))
}
