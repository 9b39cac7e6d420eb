//! Semantic versions and their constraints, as sprig's `semver` and `semverCompare` read them.

use std::cmp::Ordering;
use std::fmt;

use super::value::Value;

/// A version; `1` and `v1.2` are versions too.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Version {
    /// Major, minor and patch.
    pub numbers: [u64; 3],
    /// What stands behind the first `-`.
    pub prerelease: String,
    /// What stands behind `+`; it does not take part in comparisons.
    pub metadata: String,
    /// The text that was read.
    pub original: String,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        if !self.prerelease.is_empty() {
            write!(f, "-{}", self.prerelease)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

impl Version {
    /// Reads a version.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = || "invalid semantic version".to_owned();
        let shape = Shape::scan(text, |c| c.is_ascii_digit()).ok_or_else(invalid)?;
        if !shape.rest.is_empty() {
            return Err(invalid());
        }
        shape.version(text)
    }

    /// What a template reaches by a method of that name.
    pub fn part(&self, name: &str) -> Option<Value> {
        let number = |number: u64| Value::Int64(i64::try_from(number).unwrap_or(i64::MAX));
        Some(match name {
            "Major" => number(self.numbers[0]),
            "Minor" => number(self.numbers[1]),
            "Patch" => number(self.numbers[2]),
            "Prerelease" => Value::text(&self.prerelease),
            "Metadata" => Value::text(&self.metadata),
            "Original" => Value::text(&self.original),
            "String" => Value::text(self.to_string()),
            _ => return None,
        })
    }

    fn compare(&self, other: &Self) -> Ordering {
        let numbers = self.numbers.cmp(&other.numbers);
        numbers.then_with(|| compare_prereleases(&self.prerelease, &other.prerelease))
    }
}

/// A release is above its own prereleases.
fn compare_prereleases(a: &str, b: &str) -> Ordering {
    match (a.is_empty(), b.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let (mut a, mut b) = (a.split('.'), b.split('.'));
    loop {
        let order = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(a), Some(b)) => match (a.parse::<u64>(), b.parse::<u64>()) {
                (Ok(a), Ok(b)) => a.cmp(&b),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => a.cmp(b),
            },
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// The parts of a version or of the pattern in a constraint, as they stand in the text.
struct Shape<'t> {
    numbers: [&'t str; 3],
    prerelease: &'t str,
    metadata: &'t str,
    rest: &'t str,
}

impl<'t> Shape<'t> {
    fn scan(text: &'t str, is_digit: impl Fn(char) -> bool) -> Option<Self> {
        let run = |text: &'t str| {
            let end = text.find(|c: char| !is_digit(c)).unwrap_or(text.len());
            text.split_at(end)
        };
        let (major, mut rest) = run(text.strip_prefix('v').unwrap_or(text));
        if major.is_empty() {
            return None;
        }
        let mut numbers = [major, "", ""];
        for number in &mut numbers[1..] {
            let Some(behind) = rest.strip_prefix('.') else {
                break;
            };
            let (digits, behind) = run(behind);
            if digits.is_empty() {
                break;
            }
            (*number, rest) = (digits, behind);
        }
        let (prerelease, rest) = identifiers(rest, '-');
        let (metadata, rest) = identifiers(rest, '+');
        Some(Self {
            numbers,
            prerelease,
            metadata,
            rest,
        })
    }

    fn version(&self, original: &str) -> Result<Version, String> {
        let mut numbers = [0; 3];
        for (number, digits) in numbers.iter_mut().zip(self.numbers) {
            if !digits.is_empty() {
                let read = digits.parse::<u64>();
                *number =
                    read.map_err(|error| format!("error parsing version segment: {error}"))?;
            }
        }
        let zero = |part: &str| {
            part.len() > 1 && part.starts_with('0') && part.bytes().all(|b| b.is_ascii_digit())
        };
        if self.prerelease.split('.').any(zero) {
            return Err("version segment starts with 0".to_owned());
        }
        Ok(Version {
            numbers,
            prerelease: self.prerelease.to_owned(),
            metadata: self.metadata.to_owned(),
            original: original.to_owned(),
        })
    }
}

/// Names joined by dots behind a sign, and what follows them; none of it where the sign has no name behind it.
fn identifiers(text: &str, sign: char) -> (&str, &str) {
    let Some(list) = text.strip_prefix(sign) else {
        return ("", text);
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let mut end = 0;
    loop {
        let from = end + usize::from(end > 0);
        let Some(part) = list.get(from..) else { break };
        let length = part.find(|c: char| !is_name(c)).unwrap_or(part.len());
        if length == 0 {
            break;
        }
        end = from + length;
        if !list[end..].starts_with('.') {
            break;
        }
    }
    if end == 0 {
        ("", text)
    } else {
        list.split_at(end)
    }
}

const OPERATORS: [&str; 12] = [
    "", "=", "!=", ">", "<", ">=", "=>", "<=", "=<", "~", "~>", "^",
];

/// Says whether a version meets a constraint: alternatives joined by `||`, each a list that must hold as a whole.
pub(super) fn meets(constraint: &str, version: &str) -> Result<bool, String> {
    let constraint = without_ranges(constraint);
    let mut groups = Vec::new();
    for text in constraint.split("||") {
        groups.push(comparisons(text)?);
    }
    let version = Version::parse(version)?;
    Ok(groups.iter().any(|group| {
        let with_prereleases = group.iter().any(|one| !one.bound.prerelease.is_empty());
        (version.prerelease.is_empty() || with_prereleases)
            && group.iter().all(|one| one.holds(&version))
    }))
}

fn is_pattern(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, 'x' | 'X' | '*' | '|')
}

/// Writes `1.2 - 1.4` as `>= 1.2, <= 1.4`.
fn without_ranges(text: &str) -> String {
    let whole =
        |word: &str| Shape::scan(word, is_pattern).is_some_and(|shape| shape.rest.is_empty());
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut out: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        match (words.get(at + 1), words.get(at + 2)) {
            (Some(&"-"), Some(last)) if whole(word) && whole(last) => {
                out.push(format!(">= {word}, <= {last}"));
                at += 3;
            }
            _ => {
                out.push((*word).to_owned());
                at += 1;
            }
        }
    }
    out.join(" ")
}

/// One comparison with a version, of which parts may be left open.
struct Comparison<'t> {
    operator: &'t str,
    bound: Version,
    /// How many of the numbers are given.
    given: usize,
}

fn comparisons(text: &str) -> Result<Vec<Comparison<'_>>, String> {
    let improper = || format!("improper constraint: {text:?}");
    let mut rest = text.trim_start();
    let mut found = Vec::new();
    loop {
        let end = rest
            .find(|c: char| !"=!<>~^".contains(c))
            .unwrap_or(rest.len());
        let (operator, behind) = rest.split_at(end);
        if !OPERATORS.contains(&operator) {
            return Err(improper());
        }
        let bound = behind.trim_start();
        let shape = Shape::scan(bound, is_pattern).ok_or_else(improper)?;
        let after = shape.rest.trim_start();
        found.push(comparison(operator, &shape)?);
        if after.is_empty() {
            return Ok(found);
        }
        rest = match after.strip_prefix(',') {
            Some(behind) => behind.trim_start(),
            None if after.len() < shape.rest.len() => after,
            None => return Err(improper()),
        };
    }
}

fn comparison<'t>(operator: &'t str, shape: &Shape<'_>) -> Result<Comparison<'t>, String> {
    let open = |number: &str| matches!(number, "" | "x" | "X" | "*");
    let given = shape.numbers.iter().position(|number| open(number));
    let given = given.unwrap_or(3);
    let mut numbers = shape.numbers;
    numbers[given..].fill("");
    let bound = Shape { numbers, ..*shape };
    let bound = bound.version("").map_err(|_| "constraint parser error")?;
    Ok(Comparison {
        operator,
        bound,
        given,
    })
}

impl Comparison<'_> {
    fn holds(&self, version: &Version) -> bool {
        let order = version.compare(&self.bound);
        match self.operator {
            "" | "=" if self.given == 3 => order.is_eq(),
            "" | "=" | "~" | "~>" => order.is_ge() && self.is_near(version),
            "!=" => self.differs(version, order),
            ">" => self.is_below(version, order),
            "<" => order.is_lt(),
            ">=" | "=>" => order.is_ge(),
            "<=" | "=<" => self.is_not_below(version, order),
            _ => order.is_ge() && self.is_compatible(version),
        }
    }

    /// How many of the leading numbers are those of the bound.
    fn shared(&self, version: &Version) -> usize {
        let pairs = self.bound.numbers.iter().zip(&version.numbers);
        pairs.take_while(|(a, b)| a == b).count()
    }

    fn is_near(&self, version: &Version) -> bool {
        let all_zero = self.bound.numbers == [0; 3] && matches!(self.given, 0 | 3);
        all_zero || self.shared(version) >= self.given.clamp(1, 2)
    }

    fn differs(&self, version: &Version, order: Ordering) -> bool {
        match self.given {
            0 | 3 => order.is_ne(),
            1 => self.shared(version) < 1,
            _ => {
                self.shared(version) < 2
                    || compare_prereleases(&version.prerelease, &self.bound.prerelease).is_ne()
            }
        }
    }

    /// The bound lies below the version: with open parts, below all that the open parts may be.
    fn is_below(&self, version: &Version, order: Ordering) -> bool {
        match self.given {
            1 | 2 => version.numbers[..self.given] > self.bound.numbers[..self.given],
            _ => order.is_gt(),
        }
    }

    fn is_not_below(&self, version: &Version, order: Ordering) -> bool {
        match self.given {
            3 => order.is_le(),
            // An open major number stands for 0 here.
            0 => version.numbers[..2] <= self.bound.numbers[..2],
            given => version.numbers[..given] <= self.bound.numbers[..given],
        }
    }

    /// The first number that is not zero stays.
    fn is_compatible(&self, version: &Version) -> bool {
        let [major, minor, _] = self.bound.numbers;
        let shared = self.shared(version);
        match (major, minor, self.given) {
            (1.., ..) | (_, _, 1) => shared >= 1,
            (0, 1.., _) | (_, _, 2) => shared >= 2,
            _ => shared == 3,
        }
    }
}
