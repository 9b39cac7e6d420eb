//! The document against the rules of `junit-10.xsd`, whatever texts are in it.

use std::collections::BTreeMap;

use super::*;
use crate::evidence::{Fate, Verdict};
use crate::lab::Catalog;
use crate::session::{OpenReason, StageFailure};

/// An element as it was read.
#[derive(Debug, Default)]
struct Element {
    name: String,
    attributes: BTreeMap<String, String>,
    children: Vec<Element>,
    text: String,
}

/// A reader that takes only what XML 1.0 allows in a document without entities of its own.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn read(document: &'a str) -> Element {
        assert!(document.chars().all(is_allowed), "{document:?}");
        let mut reader = Reader { rest: document };
        reader.take("<?xml version=\"1.0\" encoding=\"UTF-8\"?>");
        reader.skip();
        let root = reader.element();
        assert_eq!(reader.rest.trim(), "");
        root
    }

    fn take(&mut self, wanted: &str) {
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.unwrap_or_else(|| panic!("no {wanted:?} at {:.60}", self.rest));
    }

    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn until(&mut self, ends: &[char]) -> &'a str {
        let end = self.rest.find(ends).expect("an end");
        let (found, rest) = self.rest.split_at(end);
        self.rest = rest;
        found
    }

    fn element(&mut self) -> Element {
        self.take("<");
        let mut element = Element {
            name: self.until(&[' ', '/', '>']).to_owned(),
            ..Element::default()
        };
        loop {
            self.skip();
            if self.rest.starts_with("/>") {
                self.take("/>");
                return element;
            }
            if self.rest.starts_with('>') {
                self.take(">");
                break;
            }
            let name = self.until(&['=']).to_owned();
            self.take("=\"");
            let value = unescaped(self.until(&['"', '<']));
            self.take("\"");
            assert!(element.attributes.insert(name, value).is_none());
        }
        loop {
            let text = self.until(&['<']);
            assert!(!text.contains("]]>"), "{text}");
            element.text.push_str(&unescaped(text));
            if self.rest.starts_with("</") {
                self.take(&format!("</{}>", element.name));
                return element;
            }
            element.children.push(self.element());
        }
    }
}

/// `Char` of XML 1.0.
fn is_allowed(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

fn unescaped(text: &str) -> String {
    let mut parts = text.split('&');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(';').expect("a reference ends");
        let one = match name {
            "lt" => '<',
            "gt" => '>',
            "amp" => '&',
            "quot" => '"',
            "apos" => '\'',
            number => {
                let digits = number.strip_prefix('#').expect("a known reference");
                let code = match digits.strip_prefix('x') {
                    Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16),
                    None => digits.parse(),
                };
                let found = char::from_u32(code.expect("a number")).expect("a character");
                assert!(is_allowed(found), "{found:?}");
                found
            }
        };
        plain.push(one);
        plain.push_str(rest);
    }
    plain
}

/// What may stand where: element, its attributes (those that must be there begin with `!`), its children, and whether it may
/// hold text.
const SCHEMA: &[(&str, &[&str], &[&str], bool)] = &[
    (
        "testsuites",
        &["name", "time", "tests", "failures", "errors"],
        &["testsuite"],
        false,
    ),
    (
        "testsuite",
        &[
            "!name",
            "!tests",
            "!failures",
            "!errors",
            "group",
            "time",
            "skipped",
            "timestamp",
            "hostname",
            "id",
            "package",
            "file",
            "log",
            "url",
        ],
        &[
            "testsuite",
            "properties",
            "testcase",
            "system-out",
            "system-err",
        ],
        false,
    ),
    ("properties", &[], &["property"], false),
    ("property", &["!name", "!value"], &[], false),
    (
        "testcase",
        &["!name", "time", "classname", "group"],
        &["skipped", "error", "failure", "system-out", "system-err"],
        false,
    ),
    ("failure", &["type", "message"], &[], true),
    ("error", &["type", "message"], &[], true),
    ("system-out", &[], &[], true),
];

fn holds(element: &Element) {
    let found = SCHEMA.iter().find(|(name, ..)| *name == element.name);
    let (_, attributes, children, text) = found.unwrap_or_else(|| panic!("{}", element.name));
    let plain = |name: &&str| name.trim_start_matches('!').to_owned();
    for name in element.attributes.keys() {
        assert!(
            attributes.iter().any(|one| plain(one) == *name),
            "{} {name}",
            element.name
        );
    }
    for name in attributes.iter().filter(|name| name.starts_with('!')) {
        assert!(
            element.attributes.contains_key(&plain(name)),
            "{} {name}",
            element.name
        );
    }
    for child in &element.children {
        assert!(
            children.contains(&child.name.as_str()),
            "{} in {}",
            child.name,
            element.name
        );
        holds(child);
    }
    assert!(
        *text || element.text.trim().is_empty(),
        "{:?}",
        element.text
    );
    if let Some(time) = element.attributes.get("time") {
        let (whole, fraction) = time.split_once('.').unwrap_or((time, ""));
        let digits = |text: &str| text.chars().all(|one| one.is_ascii_digit());
        assert!(
            whole.len() <= 3 && digits(whole) && digits(fraction),
            "{time}"
        );
    }
    if let Some(at) = element.attributes.get("timestamp") {
        assert!(
            at.len() == 19 && at.parse::<jiff::civil::DateTime>().is_ok(),
            "{at}"
        );
    }
}

/// As many cases of a suite as it says, of each kind.
fn counts(suite: &Element) {
    let said = |name: &str| suite.attributes[name].parse::<usize>().unwrap();
    let cases = || {
        suite
            .children
            .iter()
            .filter(|child| child.name == "testcase")
    };
    let with = |name: &str| {
        cases()
            .filter(|case| case.children.iter().any(|child| child.name == name))
            .count()
    };
    assert_eq!(said("tests"), cases().count());
    assert_eq!(said("failures"), with("failure"));
    assert_eq!(said("errors"), with("error"));
}

fn judgement(outcome: Outcome, text: &str) -> Judgement {
    Judgement {
        time: Timestamp::UNIX_EPOCH,
        lab: "filter-path".to_owned(),
        stage: "send".to_owned(),
        attempt: 1,
        probe: Some(text.to_owned()),
        expected: Some(Fate::Applied),
        observed: None,
        access: None,
        order: None,
        verdict: Verdict {
            outcome,
            claim: text.to_owned(),
            because: Some(text.to_owned()),
            facts: vec![1, 2],
        },
    }
}

fn stage(end: StageEnd, judgements: Vec<Judgement>) -> Progress {
    Progress::Stage {
        lab: "filter-path".to_owned(),
        number: 1,
        of: 1,
        stage: "send".to_owned(),
        kind: StageKind::Send,
        title: String::new(),
        observe: false,
        tried: None,
        end,
        judgements,
    }
}

fn failed(text: &str) -> StageEnd {
    StageEnd::Failed(vec![StageFailure {
        probe: None,
        reason: text.to_owned(),
        text: text.to_owned(),
        expected: None,
        observed: None,
        access: None,
        order: None,
        line: None,
    }])
}

fn unproven(text: &str) -> StageEnd {
    StageEnd::Unproven(vec![OpenReason {
        probe: None,
        reason: text.to_owned(),
        text: text.to_owned(),
        environment: true,
    }])
}

/// Texts come from manifests, log lines and answers: there is everything in them.
const TEXTS: [&str; 6] = [
    "plain",
    "<a href='x'>&amp; \"quoted\" ]]> -->",
    "\u{0}\u{1}\u{8}\u{b}\u{c}\u{1f}\u{7f}\u{85}\u{fffe}\u{ffff}",
    "\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7}",
    "line one\nline two\r\n\ttabbed",
    "größer → 日本 \u{202e}turned\u{202c} 🦀",
];

#[test]
fn whatever_is_in_a_run_the_document_holds_to_the_schema() {
    let catalog = Catalog::bundled().unwrap();
    let lab = catalog.lab("filter-path").unwrap();
    let mut junit = Junit::default();
    for text in TEXTS {
        for outcome in [Outcome::Proven, Outcome::Refuted, Outcome::Unproven] {
            junit.progress(&stage(StageEnd::Passed, vec![judgement(outcome, text)]));
        }
        for end in [StageEnd::Passed, failed(text), unproven(text)] {
            junit.progress(&stage(end, Vec::new()));
        }
        for end in [
            WrongEnd::AsItMust,
            WrongEnd::Passes,
            WrongEnd::Stuck(text.to_owned()),
        ] {
            junit.progress(&Progress::WrongFix {
                lab: "filter-path".to_owned(),
                stage: text.to_owned(),
                name: text.to_owned(),
                why: text.to_owned(),
                wanted: crate::lab::Failure::Order(crate::lab::format::OrderFailure {
                    order: text.to_owned(),
                }),
                end,
            });
        }
        junit.lab(lab, &Played::default());
    }
    // Cut off before the lab had ended.
    junit.progress(&stage(
        StageEnd::Passed,
        vec![judgement(Outcome::Proven, "x")],
    ));
    let document = junit.render().unwrap();
    let root = Reader::read(&document);
    assert_eq!(root.name, "testsuites");
    holds(&root);
    assert_eq!(root.children.len(), TEXTS.len() + 1);
    root.children.iter().for_each(counts);
    let bad = |name: &str| -> usize {
        let said = root
            .children
            .iter()
            .map(|suite| suite.attributes[name].parse::<usize>());
        said.map(Result::unwrap).sum()
    };
    // What was cut off was green until then: one error says that it is not all.
    let (failures, errors) = (TEXTS.len() * 3, TEXTS.len() * 3 + 1);
    for (name, sum) in [("failures", failures), ("errors", errors)] {
        assert_eq!(bad(name), sum, "{name}");
        assert_eq!(root.attributes[name], sum.to_string());
    }
    let plain = &root.children[0].children;
    let said: Vec<&str> = plain
        .iter()
        .flat_map(|case| &case.children)
        .filter(|child| child.name == "system-out")
        .map(|child| child.text.trim())
        .collect();
    assert!(
        said.contains(&"attempt: 1\nprobe: plain\nexpected: applied\nfacts: 1 2"),
        "{said:?}"
    );
}

#[test]
fn an_empty_run_is_a_document() {
    let document = Junit::default().render().unwrap();
    let root = Reader::read(&document);
    holds(&root);
    assert!(root.children.is_empty());
}

/// However it is told that something did not hold, some case says so.
#[test]
fn what_did_not_hold_is_never_all_green() {
    let catalog = Catalog::bundled().unwrap();
    let lab = catalog.lab("filter-path").unwrap();
    let green = || vec![judgement(Outcome::Proven, "held")];
    let refuted = Played {
        refuted: vec!["a line of the matrix does not hold".to_owned()],
        ..Played::default()
    };
    let open = Played {
        unproven: vec!["could not look".to_owned()],
        environment: true,
        ..Played::default()
    };
    let quiet = Played::default();
    for (end, played, failures, errors) in [
        (StageEnd::Passed, &quiet, "0", "0"),
        (StageEnd::Passed, &refuted, "1", "0"),
        (StageEnd::Passed, &open, "0", "1"),
        (failed("gate"), &refuted, "1", "0"),
        (unproven("gate"), &open, "0", "1"),
    ] {
        let mut junit = Junit::default();
        junit.progress(&stage(end, green()));
        junit.lab(lab, played);
        let root = Reader::read(&junit.render().unwrap());
        holds(&root);
        let said = &root.children[0].attributes;
        assert_eq!(
            (said["failures"].as_str(), said["errors"].as_str()),
            (failures, errors)
        );
    }
}

/// What went well until a run was cut off is not all of it, whoever says so.
#[test]
fn a_run_that_was_cut_off_is_never_all_green() {
    let green = stage(StageEnd::Passed, vec![judgement(Outcome::Proven, "held")]);
    for (steps, why) in [
        (vec![green.clone()], None),
        (vec![green], Some("told to stop")),
        (vec![], Some("there is no folder")),
    ] {
        let mut junit = Junit::default();
        steps.iter().for_each(|step| junit.progress(step));
        if let Some(why) = why {
            junit.cut_off(why);
        }
        let document = junit.render().unwrap();
        let root = Reader::read(&document);
        holds(&root);
        assert_eq!(root.children[0].attributes["errors"], "1", "{document}");
        assert!(
            document.contains(why.unwrap_or("not played to its end")),
            "{document}"
        );
    }
}

/// A stage that only looks proves nothing.
#[test]
fn a_look_is_no_case() {
    let mut look = stage(StageEnd::Passed, Vec::new());
    if let Progress::Stage { observe, .. } = &mut look {
        *observe = true;
    }
    let mut junit = Junit::default();
    junit.progress(&look);
    assert!(!junit.render().unwrap().contains("<testcase"));
}
