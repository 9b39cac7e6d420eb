//! Reading the tree from the tokens.

use std::collections::HashMap;

use super::super::blocks::KEYWORDS;
use super::super::tokens::{Placed, Token};
use super::{Block, Expression, Id, Source, Statement, Tree, Variable};

/// Deepest nesting; Lua refuses more than 200 levels by itself.
const MAX_DEPTH: usize = 200;
/// How tightly a sign before an operand binds.
const UNARY: u8 = 8;

/// Reads a whole script.
pub(super) fn read<'s>(source: &'s str, tokens: &[Placed<'s>]) -> Option<Tree<'s>> {
    let mut reader = Reader {
        source,
        tokens,
        at: 0,
        depth: 0,
        functions: 0,
        scopes: vec![HashMap::new()],
        globals: HashMap::new(),
        tree: Tree::default(),
    };
    let script = reader.block()?;
    reader.tree.script = script;
    reader.peek().is_none().then_some(reader.tree)
}

struct Reader<'t, 's> {
    source: &'s str,
    tokens: &'t [Placed<'s>],
    at: usize,
    depth: usize,
    /// Functions around this place.
    functions: usize,
    scopes: Vec<HashMap<&'s str, Id>>,
    globals: HashMap<&'s str, Id>,
    tree: Tree<'s>,
}

impl<'s> Reader<'_, 's> {
    fn peek(&self) -> Option<Token<'s>> {
        self.tokens.get(self.at).map(|placed| placed.token)
    }

    fn next(&mut self) -> Option<Token<'s>> {
        let token = self.peek()?;
        self.at += 1;
        Some(token)
    }

    /// Passes over a token, if it is this one.
    fn takes(&mut self, token: Token<'_>) -> bool {
        let taken = self.peek() == Some(token);
        self.at += usize::from(taken);
        taken
    }

    fn expect(&mut self, token: Token<'_>) -> Option<()> {
        self.takes(token).then_some(())
    }

    fn name(&mut self) -> Option<&'s str> {
        match self.next()? {
            Token::Name(name) => Some(name),
            _ => None,
        }
    }

    /// What the token before stands for in the script.
    fn written(&self) -> Option<&'s str> {
        let placed = self.tokens.get(self.at.checked_sub(1)?)?;
        self.source.get(placed.start..placed.end)
    }

    fn push(&mut self, expression: Expression<'s>) -> Id {
        self.tree.expressions.push(expression);
        self.tree.expressions.len() - 1
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.depth += 1;
        let read = (self.depth <= MAX_DEPTH).then(|| read(self)).flatten();
        self.depth -= 1;
        read
    }

    fn declare(&mut self, name: &'s str, sources: Vec<Source>) -> Id {
        let id = self.tree.variables.len();
        self.tree.variables.push(Variable {
            global: None,
            sources,
        });
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, id);
        }
        id
    }

    fn variable(&mut self, name: &'s str) -> Id {
        let local = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        if let Some(id) = local.or_else(|| self.globals.get(name)) {
            return *id;
        }
        let id = self.tree.variables.len();
        self.tree.variables.push(Variable {
            global: Some(name),
            sources: Vec::new(),
        });
        self.globals.insert(name, id);
        id
    }

    /// A block up to the keyword that ends it, which stays.
    fn block(&mut self) -> Option<Block> {
        self.deeper(|reader| {
            reader.scopes.push(HashMap::new());
            let block = reader.statements();
            reader.scopes.pop();
            block
        })
    }

    fn statements(&mut self) -> Option<Block> {
        let mut block = Vec::new();
        loop {
            match self.peek() {
                None | Some(Token::Name("end" | "else" | "elseif" | "until")) => {
                    return Some(block);
                }
                Some(Token::Symbol(b';')) => self.at += 1,
                Some(_) => block.push(self.statement()?),
            }
        }
    }

    fn body(&mut self) -> Option<Block> {
        let block = self.block()?;
        self.expect(Token::Name("end"))?;
        Some(block)
    }

    fn statement(&mut self) -> Option<Statement> {
        let Some(Token::Name(word)) = self.peek() else {
            return self.call_or_assignment();
        };
        if matches!(
            word,
            "return" | "break" | "do" | "while" | "repeat" | "if" | "for" | "function" | "local"
        ) {
            self.at += 1;
        }
        Some(match word {
            "return" => Statement::Return(self.returned()?),
            "break" => Statement::Break,
            "do" => Statement::Do(self.body()?),
            "while" => {
                let condition = Some(self.expression()?);
                self.expect(Token::Name("do"))?;
                let body = self.body()?;
                Statement::Loop { condition, body }
            }
            "repeat" => self.repeat()?,
            "if" => self.choice()?,
            "for" => self.counted()?,
            "function" => {
                self.named_function()?;
                Statement::Values(Vec::new())
            }
            "local" => Statement::Values(self.local()?),
            _ => return self.call_or_assignment(),
        })
    }

    fn returned(&mut self) -> Option<Vec<Id>> {
        let over = matches!(
            self.peek(),
            None | Some(Token::Symbol(b';') | Token::Name("end" | "else" | "elseif" | "until"))
        );
        match over {
            true => Some(Vec::new()),
            false => self.list(),
        }
    }

    /// The condition of a `repeat` sees the locals of its body.
    fn repeat(&mut self) -> Option<Statement> {
        self.deeper(|reader| {
            reader.scopes.push(HashMap::new());
            let body = reader.statements()?;
            reader.expect(Token::Name("until"))?;
            reader.expression()?;
            reader.scopes.pop();
            Some(Statement::Loop {
                condition: None,
                body,
            })
        })
    }

    fn choice(&mut self) -> Option<Statement> {
        let mut arms = Vec::new();
        loop {
            let condition = self.expression()?;
            self.expect(Token::Name("then"))?;
            arms.push((condition, self.block()?));
            if !self.takes(Token::Name("elseif")) {
                break;
            }
        }
        let otherwise = match self.takes(Token::Name("else")) {
            true => Some(self.block()?),
            false => None,
        };
        self.expect(Token::Name("end"))?;
        Some(Statement::Choice { arms, otherwise })
    }

    fn counted(&mut self) -> Option<Statement> {
        let names = self.names()?;
        let source = match self.next()? {
            Token::Symbol(b'=') => Source::Number,
            Token::Name("in") => Source::Any,
            _ => return None,
        };
        self.list()?;
        self.expect(Token::Name("do"))?;
        self.scopes.push(HashMap::new());
        for name in names {
            self.declare(name, vec![source]);
        }
        let body = self.body()?;
        self.scopes.pop();
        Some(Statement::Loop {
            condition: None,
            body,
        })
    }

    fn names(&mut self) -> Option<Vec<&'s str>> {
        let mut names = vec![self.name()?];
        while self.takes(Token::Symbol(b',')) {
            names.push(self.name()?);
        }
        Some(names)
    }

    fn named_function(&mut self) -> Option<()> {
        let name = self.name()?;
        let variable = self.variable(name);
        let mut fields = 0;
        let mut method = false;
        while let Some(Token::Symbol(sign @ (b'.' | b':'))) = self.peek() {
            self.at += 1;
            self.name()?;
            fields += 1;
            method = sign == b':';
        }
        let function = self.function(method)?;
        if fields == 0 {
            self.give(variable, Source::First(function));
        } else {
            self.tree.writes_fields = true;
        }
        Some(())
    }

    fn give(&mut self, variable: Id, source: Source) {
        if let Some(variable) = self.tree.variables.get_mut(variable) {
            variable.sources.push(source);
        }
    }

    fn local(&mut self) -> Option<Vec<Id>> {
        if self.takes(Token::Name("function")) {
            let name = self.name()?;
            let variable = self.declare(name, Vec::new());
            let function = self.function(false)?;
            self.give(variable, Source::First(function));
            return Some(Vec::new());
        }
        let names = self.names()?;
        let values = match self.takes(Token::Symbol(b'=')) {
            true => self.list()?,
            false => Vec::new(),
        };
        for (place, name) in names.into_iter().enumerate() {
            let source = self.source_of(&values, place);
            self.declare(name, vec![source]);
        }
        Some(values)
    }

    /// What the name at a place is given by a list of values.
    fn source_of(&self, values: &[Id], place: usize) -> Source {
        if let Some(value) = values.get(place) {
            return Source::First(*value);
        }
        let last = values.last().and_then(|id| self.tree.expressions.get(*id));
        match last {
            Some(Expression::Call(_) | Expression::Rest { .. }) => Source::Any,
            _ => Source::Nil,
        }
    }

    fn call_or_assignment(&mut self) -> Option<Statement> {
        let mut targets = vec![self.suffixed()?];
        while self.takes(Token::Symbol(b',')) {
            targets.push(self.suffixed()?);
        }
        if !self.takes(Token::Symbol(b'=')) {
            let call = targets.pop().filter(|_| targets.is_empty())?;
            let is_call = matches!(self.tree.expressions.get(call), Some(Expression::Call(_)));
            return is_call.then(|| Statement::Values(vec![call]));
        }
        let values = self.list()?;
        for (place, target) in targets.into_iter().enumerate() {
            match self.tree.expressions.get(target)? {
                Expression::Variable(variable) => {
                    let variable = *variable;
                    self.give(variable, self.source_of(&values, place));
                }
                Expression::Field(..) => self.tree.writes_fields = true,
                _ => return None,
            }
        }
        Some(Statement::Values(values))
    }

    fn list(&mut self) -> Option<Vec<Id>> {
        let mut values = vec![self.expression()?];
        while self.takes(Token::Symbol(b',')) {
            values.push(self.expression()?);
        }
        Some(values)
    }

    fn expression(&mut self) -> Option<Id> {
        self.operation(0)
    }

    /// An expression of operators that bind more tightly than `limit`.
    fn operation(&mut self, limit: u8) -> Option<Id> {
        self.deeper(|reader| {
            let mut left = reader.signed()?;
            while let Some((binds, right_binds)) = reader.operator()
                && binds > limit
            {
                let operator = reader.next()?;
                let written = reader.written()?;
                let right = reader.operation(right_binds)?;
                left = reader.push(operated(operator, written, left, right)?);
            }
            Some(left)
        })
    }

    fn signed(&mut self) -> Option<Id> {
        match self.peek()? {
            Token::Name("not") => {
                self.at += 1;
                let operand = self.operation(UNARY)?;
                Some(self.push(Expression::Not(operand)))
            }
            Token::Symbol(b'-' | b'#') => {
                self.at += 1;
                self.operation(UNARY)?;
                Some(self.push(Expression::Arithmetic))
            }
            _ => self.operand(),
        }
    }

    /// How tightly the operator here binds on its left and on its right.
    fn operator(&self) -> Option<(u8, u8)> {
        Some(match self.peek()? {
            Token::Name("or") => (1, 1),
            Token::Name("and") => (2, 2),
            Token::Comparison | Token::Symbol(b'<' | b'>') => (3, 3),
            Token::Concat => (5, 4),
            Token::Symbol(b'+' | b'-') => (6, 6),
            Token::Symbol(b'*' | b'/' | b'%') => (7, 7),
            Token::Symbol(b'^') => (10, 9),
            _ => return None,
        })
    }

    fn operand(&mut self) -> Option<Id> {
        let expression = match self.peek()? {
            Token::Name("nil") => Expression::Nil,
            Token::Name("false") => Expression::False,
            Token::Name("true") => Expression::True,
            Token::Number => Expression::Number,
            Token::Rest => Expression::Rest {
                in_function: self.functions > 0,
            },
            Token::Text => {
                self.at += 1;
                let text = self.written().and_then(plain);
                return Some(self.push(Expression::Text(text)));
            }
            Token::Symbol(b'{') => return self.table(),
            Token::Name("function") => {
                self.at += 1;
                return self.function(false);
            }
            _ => return self.suffixed(),
        };
        self.at += 1;
        Some(self.push(expression))
    }

    /// A name or something in parentheses, with fields and calls behind it.
    fn suffixed(&mut self) -> Option<Id> {
        let mut left = match self.next()? {
            Token::Symbol(b'(') => {
                let inner = self.expression()?;
                self.expect(Token::Symbol(b')'))?;
                self.push(Expression::Single(inner))
            }
            Token::Name(name) if !KEYWORDS.contains(&name) => {
                let variable = self.variable(name);
                self.push(Expression::Variable(variable))
            }
            _ => return None,
        };
        loop {
            match self.peek() {
                Some(Token::Symbol(b'.')) => {
                    self.at += 1;
                    let name = self.name()?;
                    left = self.push(Expression::Field(left, Some(name)));
                }
                Some(Token::Symbol(b'[')) => {
                    self.at += 1;
                    let key = self.expression()?;
                    self.expect(Token::Symbol(b']'))?;
                    let name = match self.tree.expressions.get(key) {
                        Some(Expression::Text(text)) => *text,
                        _ => None,
                    };
                    left = self.push(Expression::Field(left, name));
                }
                Some(Token::Symbol(b':')) => {
                    self.at += 1;
                    let name = self.name()?;
                    let method = self.push(Expression::Method(left, name));
                    self.arguments()?;
                    left = self.push(Expression::Call(method));
                }
                Some(Token::Symbol(b'(' | b'{') | Token::Text) => {
                    self.arguments()?;
                    left = self.push(Expression::Call(left));
                }
                _ => return Some(left),
            }
        }
    }

    fn arguments(&mut self) -> Option<()> {
        match self.peek()? {
            Token::Text => self.at += 1,
            Token::Symbol(b'{') => {
                self.table()?;
            }
            Token::Symbol(b'(') => {
                self.at += 1;
                if !self.takes(Token::Symbol(b')')) {
                    self.list()?;
                    self.expect(Token::Symbol(b')'))?;
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn table(&mut self) -> Option<Id> {
        self.expect(Token::Symbol(b'{'))?;
        let mut values = Vec::new();
        while !self.takes(Token::Symbol(b'}')) {
            let named = matches!(self.peek(), Some(Token::Name(_)))
                && self.tokens.get(self.at + 1).map(|placed| placed.token)
                    == Some(Token::Symbol(b'='));
            if named {
                self.at += 2;
            } else if self.takes(Token::Symbol(b'[')) {
                self.expression()?;
                self.expect(Token::Symbol(b']'))?;
                self.expect(Token::Symbol(b'='))?;
            }
            values.push(self.expression()?);
            if !self.takes(Token::Symbol(b',')) && !self.takes(Token::Symbol(b';')) {
                self.expect(Token::Symbol(b'}'))?;
                break;
            }
        }
        Some(self.push(Expression::Table(values)))
    }

    /// Parameters and body of a function.
    fn function(&mut self, method: bool) -> Option<Id> {
        self.expect(Token::Symbol(b'('))?;
        self.scopes.push(HashMap::new());
        if method {
            self.declare("self", vec![Source::Any]);
        }
        while !self.takes(Token::Symbol(b')')) {
            match self.next()? {
                Token::Symbol(b',') => continue,
                Token::Name(name) => self.declare(name, vec![Source::Any]),
                // Functions that use `...` also have its values in the table `arg`.
                Token::Rest => self.declare("arg", vec![Source::Any]),
                _ => return None,
            };
        }
        self.functions += 1;
        let body = self.body()?;
        self.functions -= 1;
        self.scopes.pop();
        self.tree.functions.push(body);
        let function = self.tree.functions.len() - 1;
        Some(self.push(Expression::Function(function)))
    }
}

fn operated<'s>(operator: Token<'_>, written: &str, left: Id, right: Id) -> Option<Expression<'s>> {
    Some(match operator {
        Token::Name("or") => Expression::Or(left, right),
        Token::Name("and") => Expression::And(left, right),
        Token::Comparison if matches!(written, "==" | "~=") => Expression::Equal {
            sides: (left, right),
            negated: written == "~=",
        },
        Token::Comparison | Token::Symbol(b'<' | b'>') => Expression::Ordered(left, right),
        Token::Concat => Expression::Joined,
        Token::Symbol(_) => Expression::Arithmetic,
        _ => return None,
    })
}

/// What stands between quotes, if nothing in it is written in another way.
fn plain(written: &str) -> Option<&str> {
    let inner = written
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .or_else(|| written.strip_prefix('\'')?.strip_suffix('\''))?;
    (!inner.contains('\\')).then_some(inner)
}
