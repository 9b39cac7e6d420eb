//! Objects of a template: one object under many names, as in Go, where `set` and its like change what all of them see.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::value::Value;

/// An object.
#[derive(Debug)]
pub(super) struct Map {
    now: RefCell<Rc<Members>>,
    /// The values are declared to be texts.
    pub texts: bool,
}

/// What an object holds at one time, and how much that is.
///
/// What is changed inside of its members later does not count in `weight` and `depth`.
#[derive(Debug, Clone, Default)]
pub(super) struct Members {
    pub members: BTreeMap<String, Value>,
    pub weight: usize,
    pub depth: usize,
}

impl Map {
    pub fn new(members: Members, texts: bool) -> Self {
        Self {
            now: RefCell::new(Rc::new(members)),
            texts,
        }
    }

    /// What it holds now; later changes are not seen in the answer.
    pub fn now(&self) -> Rc<Members> {
        self.now.borrow().clone()
    }

    /// How many members the next change copies first: all of them while somebody looks through what they were.
    pub fn copied_by_change(&self) -> usize {
        let now = self.now.borrow();
        if Rc::strong_count(&now) > 1 {
            now.members.len()
        } else {
            0
        }
    }

    /// Puts a member in, under every name that this object has.
    pub fn insert(&self, key: &str, value: Value) {
        self.change(|held| {
            held.weight = held.weight.saturating_add(weight(key, &value));
            held.depth = held.depth.max(1 + value.depth());
            if let Some(old) = held.members.insert(key.to_owned(), value) {
                held.weight = held.weight.saturating_sub(weight(key, &old));
            }
        });
    }

    /// Takes a member out.
    pub fn remove(&self, key: &str) {
        self.change(|held| {
            if let Some(old) = held.members.remove(key) {
                held.weight = held.weight.saturating_sub(weight(key, &old));
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Members)) {
        let mut now = self.now.take();
        change(Rc::make_mut(&mut now));
        self.now.replace(now);
    }
}

impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts && self.now().members == other.now().members
    }
}

fn weight(key: &str, value: &Value) -> usize {
    value.weight().saturating_add(1 + key.len() / 16)
}

impl Members {
    pub fn new(members: BTreeMap<String, Value>) -> Self {
        let weight = members.iter().fold(1usize, |sum, (key, value)| {
            sum.saturating_add(weight(key, value))
        });
        let depth = 1 + members.values().map(Value::depth).max().unwrap_or(0);
        Self {
            members,
            weight,
            depth,
        }
    }
}

/// Changes can make a chain of objects longer than the stack is deep, so what is let go is let go one by one.
impl Drop for Members {
    fn drop(&mut self) {
        let nested = |value: &Value| matches!(value, Value::Map(_) | Value::List(_));
        if !self.members.values().any(nested) {
            return;
        }
        let mut rest: Vec<Value> = std::mem::take(&mut self.members).into_values().collect();
        while let Some(value) = rest.pop() {
            match value {
                Value::List(list) => {
                    if let Some(mut list) = Rc::into_inner(list) {
                        rest.append(&mut list.items);
                    }
                }
                Value::Map(map) => {
                    let members =
                        Rc::into_inner(map).and_then(|map| Rc::into_inner(map.now.into_inner()));
                    if let Some(mut members) = members {
                        rest.extend(std::mem::take(&mut members.members).into_values());
                    }
                }
                _ => {}
            }
        }
    }
}
