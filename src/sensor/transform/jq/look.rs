//! What of a program gojq and jaq answer alike; everything else is refused by name.

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Def, Pattern, Term};
use jaq_core::path::{Opt, Part, Path};

use super::super::TransformError;
use super::{changes, failed, known, meter, unsupported};

/// How many outputs a term has, if it has no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outputs {
    One,
    /// One or none.
    Maybe,
    Many,
}
use Outputs::{Many, Maybe, One};

/// Functions that gojq and jaq share: name, arguments, and how many outputs they have for each of their arguments.
const SHARED: [(&str, usize, Outputs); 121] = [
    ("not", 0, One),
    ("empty", 0, Maybe),
    ("error", 0, One),
    ("error", 1, One),
    ("length", 0, One),
    ("type", 0, One),
    ("tostring", 0, One),
    ("tonumber", 0, One),
    ("tojson", 0, One),
    ("fromjson", 0, One),
    ("ascii_downcase", 0, One),
    ("ascii_upcase", 0, One),
    ("explode", 0, One),
    ("implode", 0, One),
    ("trim", 0, One),
    ("ltrim", 0, One),
    ("rtrim", 0, One),
    ("startswith", 1, One),
    ("endswith", 1, One),
    ("split", 1, One),
    ("join", 1, One),
    ("test", 1, One),
    ("test", 2, One),
    ("capture", 1, Maybe),
    ("sub", 2, One),
    ("gsub", 2, One),
    ("has", 1, One),
    ("contains", 1, One),
    ("inside", 1, One),
    ("keys", 0, One),
    ("values", 0, Maybe),
    ("nulls", 0, Maybe),
    ("strings", 0, Maybe),
    ("numbers", 0, Maybe),
    ("booleans", 0, Maybe),
    ("arrays", 0, Maybe),
    ("objects", 0, Maybe),
    ("scalars", 0, Maybe),
    ("iterables", 0, Maybe),
    ("add", 0, One),
    ("any", 0, One),
    ("all", 0, One),
    ("any", 1, One),
    ("all", 1, One),
    ("map", 1, One),
    ("map_values", 1, One),
    ("select", 1, Maybe),
    ("sort", 0, One),
    ("sort_by", 1, One),
    ("group_by", 1, One),
    ("unique", 0, One),
    ("unique_by", 1, One),
    ("min", 0, One),
    ("max", 0, One),
    ("min_by", 1, One),
    ("max_by", 1, One),
    ("reverse", 0, One),
    ("first", 0, One),
    ("last", 0, One),
    ("flatten", 0, One),
    ("to_entries", 0, One),
    ("from_entries", 0, One),
    ("with_entries", 1, One),
    ("del", 1, One),
    ("floor", 0, One),
    ("ceil", 0, One),
    ("round", 0, One),
    ("abs", 0, One),
    ("null", 0, One),
    ("sqrt", 0, One),
    ("range", 1, Many),
    ("range", 2, Many),
    ("recurse", 0, Many),
    ("recurse", 1, Many),
    ("while", 2, Many),
    ("until", 2, One),
    ("first", 1, Maybe),
    ("limit", 2, Many),
    ("repeat", 1, Many),
    ("isempty", 1, One),
    ("any", 2, One),
    ("all", 2, One),
    ("nth", 1, One),
    ("in", 1, One),
    ("walk", 1, One),
    ("ltrimstr", 1, One),
    ("rtrimstr", 1, One),
    ("trimstr", 1, One),
    ("getpath", 1, One),
    ("setpath", 2, One),
    ("delpaths", 1, One),
    ("paths", 0, Many),
    ("paths", 1, Many),
    ("add", 1, One),
    ("last", 1, Maybe),
    ("transpose", 0, One),
    ("IN", 1, One),
    ("IN", 2, One),
    ("range", 3, Many),
    ("flatten", 1, One),
    ("indices", 1, One),
    ("index", 1, One),
    ("rindex", 1, One),
    ("pick", 1, One),
    ("toboolean", 0, One),
    ("utf8bytelength", 0, One),
    ("match", 1, Many),
    ("match", 2, Many),
    ("capture", 2, Many),
    ("scan", 1, Many),
    ("scan", 2, Many),
    ("splits", 1, Many),
    ("splits", 2, Many),
    ("split", 2, One),
    ("sub", 3, One),
    ("gsub", 3, One),
    ("now", 0, One),
    ("todate", 0, One),
    ("todateiso8601", 0, One),
    ("fromdate", 0, One),
    ("fromdateiso8601", 0, One),
];
/// Words that are no functions of either.
const CONSTANTS: [&str; 2] = ["true", "false"];
const FORMATS: [&str; 9] = [
    "@text", "@json", "@html", "@uri", "@base64", "@base64d", "@csv", "@tsv", "@sh",
];
/// Functions of patterns whose outputs name the groups.
const GROUPING: [&str; 3] = ["capture", "match", "scan"];
/// Functions of patterns, and which of their arguments holds the flags.
const FLAGGED: [(&str, usize); 8] = [
    ("test", 1),
    ("match", 1),
    ("capture", 1),
    ("scan", 1),
    ("split", 1),
    ("splits", 1),
    ("sub", 2),
    ("gsub", 2),
];
/// Functions whose argument names places.
const PLACING: [&str; 2] = ["del", "pick"];

/// Looks through a program.
pub(super) fn check(term: &Term<&str>) -> Result<(), TransformError> {
    let mut look = Look {
        functions: Vec::new(),
        changing: false,
    };
    look.term(term).map(drop)
}

/// A function of the program, or an argument of one.
struct Function<'s> {
    name: &'s str,
    arguments: usize,
    outputs: Outputs,
}

/// Each method says how many outputs a term has.
struct Look<'s> {
    /// The functions in scope, innermost last.
    functions: Vec<Function<'s>>,
    /// What is looked at says where something is changed.
    changing: bool,
}

type Counted = Result<Outputs, TransformError>;

impl<'s> Look<'s> {
    fn term(&mut self, term: &Term<&'s str>) -> Counted {
        match term {
            Term::Num(text) if text.parse().is_ok_and(f64::is_infinite) => {
                Err(refused("a number beyond floating point"))
            }
            Term::Id | Term::Num(_) | Term::Arr(None) => Ok(One),
            Term::Var(name) if *name == "$ENV" => Err(refused("$ENV")),
            Term::Var(_) => Ok(One),
            Term::Recurse => Ok(Many),
            Term::Str(format, parts) => self.text(*format, parts),
            Term::Arr(Some(inner)) => self.term(inner).map(|_| One),
            Term::Obj(members) => {
                let mut outputs = One;
                for (key, value) in members {
                    outputs = outputs.max(self.term(key)?);
                    if let Some(value) = value {
                        outputs = outputs.max(self.term(value)?);
                    }
                }
                Ok(outputs)
            }
            Term::Neg(inner) => self.term(inner),
            Term::BinOp(left, operator, right) => self.operation(left, operator, right),
            Term::TryCatch(inner, catch) => {
                let outputs = self.term(inner)?;
                match catch {
                    Some(catch) => Ok(outputs.max(self.term(catch)?)),
                    None => Ok(outputs.max(Maybe)),
                }
            }
            Term::IfThenElse(cases, otherwise) => self.branches(cases, otherwise.as_deref()),
            Term::Call(name, arguments) => self.call(name, arguments),
            Term::Path(base, path) => self.path(base, path),
            Term::Fold(name, source, pattern, parts) => self.fold(name, source, pattern, parts),
            Term::Def(definitions, body) => self.definitions(definitions, body),
            Term::Label(_, body) => self.term(body).map(|outputs| outputs.max(Maybe)),
            Term::Break(_) => Ok(Maybe),
        }
    }

    /// A term that may say where something is changed.
    fn place(&mut self, term: &Term<&'s str>, changing: bool) -> Counted {
        let outer = self.changing;
        self.changing = outer || changing;
        let outputs = self.term(term);
        self.changing = outer;
        outputs
    }

    fn text(&mut self, format: Option<&str>, parts: &[StrPart<&'s str, Term<&'s str>>]) -> Counted {
        format.map_or(Ok(()), text_format)?;
        let mut outputs = One;
        for part in parts {
            if let StrPart::Term(term) = part {
                outputs = outputs.max(self.term(term)?);
            }
        }
        Ok(outputs)
    }

    fn operation(
        &mut self,
        left: &Term<&'s str>,
        operator: &BinaryOp<&'s str>,
        right: &Term<&'s str>,
    ) -> Counted {
        if let BinaryOp::Pipe(Some(pattern)) = operator {
            destructuring(pattern)?;
        }
        let left = self.place(left, changes::assigns(operator))?;
        let right = self.term(right)?;
        Ok(match operator {
            BinaryOp::Comma => Many,
            BinaryOp::Alt if left <= Maybe => right,
            _ => left.max(right),
        })
    }

    fn branches(
        &mut self,
        cases: &[(Term<&'s str>, Term<&'s str>)],
        otherwise: Option<&Term<&'s str>>,
    ) -> Counted {
        let mut outputs = One;
        for (condition, then) in cases {
            outputs = outputs.max(self.term(condition)?).max(self.term(then)?);
        }
        if let Some(otherwise) = otherwise {
            outputs = outputs.max(self.term(otherwise)?);
        }
        Ok(outputs)
    }

    /// `reduce` and `foreach`, where each step has one outcome: of several, jaq and gojq go on differently.
    fn fold(
        &mut self,
        name: &str,
        source: &Term<&'s str>,
        pattern: &Pattern<&'s str>,
        parts: &[Term<&'s str>],
    ) -> Counted {
        destructuring(pattern)?;
        if self.changing {
            return Err(unsupported(format!(
                "`{name}` in a jq program is not supported for a place that is changed; name the place by a path"
            )));
        }
        self.term(source)?;
        for (place, part) in parts.iter().enumerate() {
            let outputs = self.term(part)?;
            if place < 2 && outputs != One {
                return Err(unsupported(format!(
                    "`{name}` in a jq program is supported where its start and its update have exactly one output each"
                )));
            }
        }
        Ok(if name == "reduce" { One } else { Many })
    }

    fn definitions(&mut self, definitions: &[Def<&'s str>], body: &Term<&'s str>) -> Counted {
        let before = self.functions.len();
        for definition in definitions {
            // What it calls may be itself, of which nothing is known yet.
            let scope = self.functions.len();
            let arguments = definition.args.len();
            let function = |name, arguments, outputs| Function {
                name,
                arguments,
                outputs,
            };
            self.functions
                .push(function(definition.name, arguments, Many));
            for argument in &definition.args {
                let name = argument.trim_start_matches('$');
                self.functions.push(function(name, 0, Many));
            }
            // It may stand where something is changed.
            let outputs = self.place(&definition.body, true)?;
            self.functions.truncate(scope);
            self.functions
                .push(function(definition.name, arguments, outputs));
        }
        let outputs = self.term(body);
        self.functions.truncate(before);
        outputs
    }

    fn call(&mut self, name: &str, arguments: &[Term<&'s str>]) -> Counted {
        let own = self
            .functions
            .iter()
            .rev()
            .find(|one| one.name == name && one.arguments == arguments.len())
            .map(|own| own.outputs);
        let mut given = One;
        for argument in arguments {
            given = given.max(self.place(argument, own.is_some() || PLACING.contains(&name))?);
        }
        if let Some(outputs) = own {
            return Ok(outputs.max(given));
        }
        if arguments.is_empty() && (CONSTANTS.contains(&name) || FORMATS.contains(&name)) {
            return Ok(One);
        }
        let shared = SHARED
            .iter()
            .find(|(known, arity, _)| *known == name && *arity == arguments.len());
        let Some((_, _, outputs)) = shared else {
            return unshared(name, arguments.len());
        };
        pattern(name, arguments)?;
        if name == "limit" && !matches!(arguments.first(), Some(Term::Num(_))) {
            return Err(refused("limit with a number that is not written there"));
        }
        Ok(if COLLECTING.contains(&name) {
            *outputs
        } else {
            given.max(*outputs)
        })
    }

    fn path(&mut self, base: &Term<&'s str>, path: &Path<Term<&'s str>>) -> Counted {
        let mut outputs = self.term(base)?;
        for (part, optional) in &path.0 {
            if matches!(optional, Opt::Optional) {
                outputs = outputs.max(Maybe);
            }
            match part {
                Part::Index(index) => outputs = outputs.max(self.term(index)?),
                Part::Range(None, None) => outputs = Many,
                Part::Range(from, to) => {
                    for bound in [from, to].into_iter().flatten() {
                        outputs = outputs.max(self.term(bound)?);
                    }
                }
            }
        }
        Ok(outputs)
    }
}

/// A function that the two do not share, or a format.
fn unshared(name: &str, arguments: usize) -> Counted {
    if known::is_function(name, arguments) {
        Err(refused(&format!("{name}/{arguments}")))
    } else if name.starts_with('@') {
        text_format(name).map(|()| One)
    } else {
        // It fails at every event.
        Err(failed(format!("function not defined: {name}/{arguments}")))
    }
}

/// The pattern and the flags of a function that has some.
fn pattern(name: &str, arguments: &[Term<&str>]) -> Result<(), TransformError> {
    if GROUPING.contains(&name) && !arguments.first().is_some_and(takes_all_groups) {
        let what = format!("{name} with groups that may be left out");
        return Err(refused(&what));
    }
    let flagged = FLAGGED.iter().find(|(known, _)| *known == name);
    match flagged.and_then(|(_, place)| arguments.get(*place)) {
        Some(flags) => flags_of_a_pattern(name, flags),
        None => Ok(()),
    }
}

/// A format that both write alike.
fn text_format(name: &str) -> Result<(), TransformError> {
    if FORMATS.contains(&name) {
        Ok(())
    } else if known::is_format(name) {
        Err(refused(name))
    } else {
        Err(failed(format!("format not defined: {name}")))
    }
}

/// Whether every group of a pattern has a part in each match: jaq leaves out the others, gojq gives null.
fn takes_all_groups(pattern: &Term<&str>) -> bool {
    let Term::Str(None, parts) = pattern else {
        return false;
    };
    parts.iter().all(|part| match part {
        StrPart::Str(text) => !["|", ")?", ")*", "){"]
            .iter()
            .any(|open| text.contains(open)),
        _ => true,
    })
}

/// Flags that both take alike.
fn flags_of_a_pattern(name: &str, flags: &Term<&str>) -> Result<(), TransformError> {
    let Term::Str(None, parts) = flags else {
        let what = format!("{name} with flags that are not written there");
        return Err(refused(&what));
    };
    let known = parts.iter().all(|part| match part {
        StrPart::Str(text) => text.chars().all(|flag| "gi".contains(flag)),
        _ => false,
    });
    if known {
        Ok(())
    } else {
        Err(refused(&format!("{name} with other flags than g and i")))
    }
}

/// Functions that gather what their argument puts out.
const COLLECTING: [&str; 17] = [
    "map",
    "map_values",
    "with_entries",
    "any",
    "all",
    "sort_by",
    "group_by",
    "unique_by",
    "del",
    "min_by",
    "max_by",
    "first",
    "isempty",
    "add",
    "last",
    "IN",
    "pick",
];

/// Patterns are taken apart by keys that stand in the program.
fn destructuring(pattern: &Pattern<&str>) -> Result<(), TransformError> {
    match pattern {
        Pattern::Var(_) => Ok(()),
        Pattern::Arr(parts) if parts.len() > meter::MAX_PARTS => {
            Err(refused("destructuring of so long an array"))
        }
        Pattern::Arr(parts) => parts.iter().try_for_each(destructuring),
        Pattern::Obj(members) => members.iter().try_for_each(|(key, part)| match key {
            Term::Var(_) => destructuring(part),
            Term::Str(None, parts)
                if parts.iter().all(|part| !matches!(part, StrPart::Term(_))) =>
            {
                destructuring(part)
            }
            _ => Err(refused("destructuring by a computed key")),
        }),
    }
}

fn refused(what: &str) -> TransformError {
    unsupported(format!(
        "`{what}` in a jq program is not supported; write it in another way, or use a script"
    ))
}
