//! The blocks of a script, with what jumps need to know of each: labels, gotos, breaks, locals, loops.

use super::ScriptError;
use super::tokens::{Placed, Token};

/// Deepest nesting of blocks; Lua refuses more than 200 levels by itself.
const MAX_DEPTH: usize = 200;

/// Words that are no names.
pub(super) const KEYWORDS: [&str; 22] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in",
    "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
];

/// A block of statements.
#[derive(Debug, Default)]
pub(super) struct Block<'s> {
    /// The byte where what ends it begins.
    pub end: usize,
    /// It belongs to a `repeat`, whose condition sees its locals.
    pub until: bool,
    pub items: Vec<Item<'s>>,
}

/// Something in a block that jumps have to do with, in the order of the text.
#[derive(Debug)]
pub(super) struct Item<'s> {
    pub start: usize,
    pub end: usize,
    pub kind: Kind<'s>,
}

#[derive(Debug)]
pub(super) enum Kind<'s> {
    Local(&'s str),
    Label(&'s str),
    Goto(&'s str),
    Break,
    /// `do`, `if`, or a loop, with its blocks.
    Compound {
        is_loop: bool,
        blocks: Vec<Block<'s>>,
    },
    /// A function's body; no jump leaves it.
    Function(Block<'s>),
    /// Any other statement, as far as it was noticed.
    Other,
}

/// Reads the blocks of a whole script.
pub(super) fn blocks<'s>(tokens: &[Placed<'s>], length: usize) -> Result<Block<'s>, ScriptError> {
    let mut reader = Reader {
        tokens,
        at: 0,
        length,
        depth: 0,
    };
    let block = reader.block(false)?;
    match reader.peek() {
        None => Ok(block),
        Some(_) => Err(reader.error()),
    }
}

struct Reader<'t, 's> {
    tokens: &'t [Placed<'s>],
    at: usize,
    length: usize,
    depth: usize,
}

impl<'s> Reader<'_, 's> {
    fn peek(&self) -> Option<Placed<'s>> {
        self.tokens.get(self.at).copied()
    }

    fn next(&mut self) -> Option<Placed<'s>> {
        let placed = self.peek();
        self.at += 1;
        placed
    }

    fn word(&self) -> Option<&'s str> {
        match self.peek()?.token {
            Token::Name(word) => Some(word),
            _ => None,
        }
    }

    /// Where the last token ended.
    fn behind(&self) -> usize {
        let last = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        last.map_or(0, |placed| placed.end)
    }

    fn error(&self) -> ScriptError {
        let near = self.peek().map_or(self.length, |placed| placed.start);
        ScriptError::Syntax(format!("parse error at byte {near}"))
    }

    fn expect(&mut self, word: &str) -> Result<(), ScriptError> {
        if self.word() != Some(word) {
            return Err(self.error());
        }
        self.at += 1;
        Ok(())
    }

    /// A block up to the keyword that ends it, which stays.
    fn block(&mut self, until: bool) -> Result<Block<'s>, ScriptError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ScriptError::TooLarge(
                "chunk has too many syntax levels".to_owned(),
            ));
        }
        let mut items = Vec::new();
        let mut returned = false;
        while let Some(placed) = self.peek()
            && !self.at_end_of_block()
        {
            // Nothing follows a `return`; that nothing but a label does, only this reader would miss.
            if returned && placed.token == Token::Label {
                return Err(self.error());
            }
            returned |= self.word() == Some("return");
            self.item(placed, &mut items)?;
        }
        self.depth -= 1;
        Ok(Block {
            end: self.peek().map_or(self.length, |placed| placed.start),
            until,
            items,
        })
    }

    fn at_end_of_block(&self) -> bool {
        let ends = |word| matches!(word, "end" | "else" | "elseif" | "until");
        self.peek().is_none() || self.word().is_some_and(ends)
    }

    /// A `break` is the last statement of its block.
    fn last(&mut self) -> Result<(), ScriptError> {
        if self.peek().map(|placed| placed.token) == Some(Token::Symbol(b';')) {
            self.at += 1;
        }
        match self.at_end_of_block() {
            true => Ok(()),
            false => Err(self.error()),
        }
    }

    fn item(&mut self, placed: Placed<'s>, items: &mut Vec<Item<'s>>) -> Result<(), ScriptError> {
        self.at += 1;
        let kind = match placed.token {
            Token::Label => self.label()?,
            Token::Name("function") => Kind::Function(self.function()?),
            Token::Name("goto") => match self.next().map(|placed| placed.token) {
                Some(Token::Name(name)) if !KEYWORDS.contains(&name) => Kind::Goto(name),
                _ => return Err(self.error()),
            },
            Token::Name("break") => {
                items.push(Item {
                    start: placed.start,
                    end: placed.end,
                    kind: Kind::Break,
                });
                return self.last();
            }
            Token::Name("local") => Kind::Local(self.local()),
            Token::Name("do") => self.compound(false)?,
            Token::Name("while" | "for") => {
                self.up_to("do", items)?;
                self.compound(true)?
            }
            Token::Name("if") => self.choice(items)?,
            Token::Name("repeat") => {
                let body = self.block(true)?;
                self.expect("until")?;
                self.expression(items)?;
                Kind::Compound {
                    is_loop: true,
                    blocks: vec![body],
                }
            }
            Token::Symbol(b';') => return Ok(()),
            _ => Kind::Other,
        };
        items.push(Item {
            start: placed.start,
            end: self.behind(),
            kind,
        });
        Ok(())
    }

    fn label(&mut self) -> Result<Kind<'s>, ScriptError> {
        let (name, close) = (self.next(), self.next());
        match (name.map(|one| one.token), close.map(|one| one.token)) {
            (Some(Token::Name(name)), Some(Token::Label)) if !KEYWORDS.contains(&name) => {
                Ok(Kind::Label(name))
            }
            _ => Err(self.error()),
        }
    }

    /// The last name that a `local` declares, for messages.
    fn local(&self) -> &'s str {
        let mut ahead = self.tokens.iter().skip(self.at).map(|placed| placed.token);
        let mut last = "";
        match ahead.next() {
            Some(Token::Name("function")) => {
                if let Some(Token::Name(name)) = ahead.next() {
                    last = name;
                }
            }
            Some(Token::Name(name)) => {
                last = name;
                while let (Some(Token::Symbol(b',')), Some(Token::Name(name))) =
                    (ahead.next(), ahead.next())
                {
                    last = name;
                }
            }
            _ => {}
        }
        last
    }

    fn function(&mut self) -> Result<Block<'s>, ScriptError> {
        // Name and parameters hold nothing that a block could be taken for.
        let body = self.block(false)?;
        self.expect("end")?;
        Ok(body)
    }

    /// One block and its `end`.
    fn compound(&mut self, is_loop: bool) -> Result<Kind<'s>, ScriptError> {
        let body = self.block(false)?;
        self.expect("end")?;
        Ok(Kind::Compound {
            is_loop,
            blocks: vec![body],
        })
    }

    fn choice(&mut self, items: &mut Vec<Item<'s>>) -> Result<Kind<'s>, ScriptError> {
        let mut blocks = Vec::new();
        loop {
            self.up_to("then", items)?;
            blocks.push(self.block(false)?);
            if self.word() != Some("elseif") {
                break;
            }
            self.at += 1;
        }
        if self.word() == Some("else") {
            self.at += 1;
            blocks.push(self.block(false)?);
        }
        self.expect("end")?;
        Ok(Kind::Compound {
            is_loop: false,
            blocks,
        })
    }

    /// Passes over an expression that a keyword ends; functions in it are kept.
    fn up_to(&mut self, word: &str, items: &mut Vec<Item<'s>>) -> Result<(), ScriptError> {
        while self.word() != Some(word) {
            let Some(placed) = self.next() else {
                return Err(self.error());
            };
            if placed.token == Token::Name("function") {
                self.function_item(placed, items)?;
            }
        }
        self.at += 1;
        Ok(())
    }

    fn function_item(
        &mut self,
        placed: Placed<'s>,
        items: &mut Vec<Item<'s>>,
    ) -> Result<(), ScriptError> {
        let body = self.function()?;
        items.push(Item {
            start: placed.start,
            end: self.behind(),
            kind: Kind::Function(body),
        });
        Ok(())
    }

    /// Passes over one expression: operands, what follows them, and operators between.
    fn expression(&mut self, items: &mut Vec<Item<'s>>) -> Result<(), ScriptError> {
        loop {
            while matches!(
                self.peek().map(|placed| placed.token),
                Some(Token::Name("not") | Token::Symbol(b'-' | b'#'))
            ) {
                self.at += 1;
            }
            self.operand(items)?;
            let operator = match self.peek().map(|placed| placed.token) {
                Some(Token::Name(word)) => matches!(word, "and" | "or"),
                Some(Token::Symbol(c)) => b"+-*/%^<>".contains(&c),
                Some(Token::Comparison | Token::Concat) => true,
                _ => false,
            };
            if !operator {
                return Ok(());
            }
            self.at += 1;
        }
    }

    fn operand(&mut self, items: &mut Vec<Item<'s>>) -> Result<(), ScriptError> {
        let Some(placed) = self.next() else {
            return Err(self.error());
        };
        match placed.token {
            Token::Name("function") => self.function_item(placed, items)?,
            Token::Symbol(open @ (b'(' | b'{')) => self.balanced(open, items)?,
            Token::Name(_) | Token::Text | Token::Number | Token::Rest => {}
            _ => return Err(self.error()),
        }
        loop {
            match self.peek().map(|placed| placed.token) {
                Some(Token::Symbol(open @ (b'(' | b'{' | b'['))) => {
                    self.at += 1;
                    self.balanced(open, items)?;
                }
                Some(Token::Symbol(b'.' | b':')) => self.at += 2,
                Some(Token::Text) => self.at += 1,
                _ => return Ok(()),
            }
        }
    }

    /// Passes over everything up to the bracket that closes the one just read.
    fn balanced(&mut self, open: u8, items: &mut Vec<Item<'s>>) -> Result<(), ScriptError> {
        let mut closing = vec![closing(open)];
        while let Some(wanted) = closing.last() {
            let Some(placed) = self.next() else {
                return Err(self.error());
            };
            match placed.token {
                Token::Symbol(c) if c == *wanted => drop(closing.pop()),
                Token::Symbol(open @ (b'(' | b'{' | b'[')) => closing.push(self::closing(open)),
                Token::Name("function") => self.function_item(placed, items)?,
                _ => {}
            }
        }
        Ok(())
    }
}

fn closing(open: u8) -> u8 {
    match open {
        b'(' => b')',
        b'{' => b'}',
        _ => b']',
    }
}
