//! Values, types and comparators of data filters.

use super::super::finding::Level::{Error, Note, Warning};
use super::{Place, Rule};

/// Rules of this kind.
pub(super) static RULES: [Rule; 16] = [
    Rule {
        id: "unanchored-pattern",
        level: Warning,
        summary: "a pattern that matches anywhere in the text",
        why: r#"Every value of a string filter is a regular expression (RE2) that is searched for anywhere in the text. `order` lets `preorder` and `order-cancelled` through. Tie it to both ends with ^ and $. The change is only suggested, because an open pattern may be meant."#,
        place: Place::Filters,
        bad: r#"data:
  - path: body.kind
    type: string
    value: ["order"]"#,
        good: r#"data:
  - path: body.kind
    type: string
    value: ["^order$", ".*", "^(a|b)$"]"#,
    },
    Rule {
        id: "partly-anchored-pattern",
        level: Note,
        summary: "a pattern that is open at one end",
        why: r#"An anchor ties one end only. What ends (or starts) in a separator, such as ^refs/heads/, is taken as meant; so is an explicit .* at the open end."#,
        place: Place::Filters,
        bad: r#"data:
  - path: body.kind
    type: string
    value: ["^order"]"#,
        good: r#"data:
  - path: body.ref
    type: string
    value: ["^refs/heads/", "^order.*", '\.pdf$']"#,
    },
    Rule {
        id: "unescaped-dot",
        level: Warning,
        summary: "a dot between words that stands for any character",
        why: r#"A dot in a pattern matches every character, so order.created lets orderXcreated through. Escaped it means itself; in YAML use single quotes for that, or double the backslash."#,
        place: Place::Filters,
        bad: r#"data:
  - path: body.kind
    type: string
    value: ["^order.created$"]"#,
        good: r#"data:
  - path: body.kind
    type: string
    value: ['^order\.created$', "^order.*$", "^v[.]x$"]"#,
    },
    Rule {
        id: "not-its-own-match",
        level: Warning,
        summary: "a text with special characters that does not match itself",
        why: r#"Every value is a pattern, so a text such as order(1) or $5 does not match what it says. Written as only a pattern is (colou?r, ^a, a|b) it is none of these. The change is only suggested: what the pattern accepts now may be what is meant."#,
        place: Place::Filters,
        bad: r#"data:
  - path: body.kind
    type: string
    value: ["order(1)"]"#,
        good: r#"data:
  - path: body.kind
    type: string
    value: ['^order\(1\)$', '^(a|b)$']"#,
    },
    Rule {
        id: "bad-pattern",
        level: Error,
        summary: "a pattern that does not compile or is not RE2",
        why: r#"Patterns are RE2, without look-around and back-references. One that does not compile is found only when an event reaches it, and drops that event with an error; values before it in the list still pass."#,
        place: Place::Filters,
        bad: r#"data:
  - path: body.kind
    type: string
    value: ["^(?!test)"]"#,
        good: r#"data:
  - path: body.kind
    type: string
    value: ["^(?:order|refund)$"]"#,
    },
    Rule {
        id: "not-equal-list",
        level: Warning,
        summary: "`!=` with several values",
        why: r#"The values of a condition are alternatives, for every comparator. With != the condition holds as soon as one value differs, which is nearly always."#,
        place: Place::Filters,
        bad: r#"data:
  - path: body.kind
    type: string
    comparator: "!="
    value: ["^foo$", "^bar$"]"#,
        good: r#"data:
  - path: body.kind
    type: string
    comparator: "!="
    value: ["^(foo|bar)$"]"#,
    },
    Rule {
        id: "unparsable-value",
        level: Error,
        summary: "a value that is no boolean or number",
        why: r#"Values of type bool are read by Go's ParseBool (1, t, T, true, True, TRUE and their opposites), values of type number by ParseFloat. Another value drops every event that reaches it, while values before it in the list still pass."#,
        place: Place::Filters,
        bad: r#"data:
  - path: body.amount
    type: number
    comparator: ">"
    value: ["1,500"]"#,
        good: r#"data:
  - path: body.amount
    type: number
    comparator: ">"
    value: ["1500", "1e3"]"#,
    },
    Rule {
        id: "unknown-type",
        level: Error,
        summary: "a type that does not exist",
        why: r#"The types are bool, number and string. The controller takes any other word, the Sensor goes live, and every event is dropped with an error."#,
        place: Place::Filters,
        bad: r#"data:
  - path: body.amount
    type: integer
    comparator: ">"
    value: ["5"]"#,
        good: r#"data:
  - path: body.amount
    type: number
    comparator: ">"
    value: ["5"]"#,
    },
    Rule {
        id: "comparator-ignored",
        level: Warning,
        summary: "a comparator that does nothing",
        why: r#"A condition of type bool compares for equality, whatever its comparator says: != true passes true."#,
        place: Place::Filters,
        bad: r#"data:
  - path: body.test
    type: bool
    comparator: "!="
    value: ["true"]"#,
        good: r#"data:
  - path: body.test
    type: bool
    comparator: "="
    value: ["true"]"#,
    },
    Rule {
        id: "comparator-never-true",
        level: Error,
        summary: "a comparator that never holds",
        why: r#"Type string knows = and != only. The controller takes <, <=, > and >=, and then no event ever passes, without an error."#,
        place: Place::Filters,
        bad: r#"data:
  - path: body.amount
    type: string
    comparator: ">"
    value: ["100"]"#,
        good: r#"data:
  - path: body.amount
    type: number
    comparator: ">"
    value: ["100"]"#,
    },
    Rule {
        id: "unknown-comparator",
        level: Error,
        summary: "a comparator that is never live",
        why: r#"The comparators are =, !=, <, <=, > and >=. The API server takes any other, the controller refuses it in the status and leaves the old Deployment with the old filters running."#,
        place: Place::Filters,
        bad: r#"data:
  - path: body.kind
    type: string
    comparator: "=="
    value: ["^order$"]"#,
        good: r#"data:
  - path: body.kind
    type: string
    comparator: "="
    value: ["^order$"]"#,
    },
    Rule {
        id: "unknown-operator",
        level: Error,
        summary: "a logical operator that is never live",
        why: r#"The operators are `and` and `or` in lower case. The API server takes any other, the controller refuses it in the status and leaves the old Deployment with the old filters running."#,
        place: Place::Filters,
        bad: r#"dataLogicalOperator: OR
data:
  - path: body.kind
    type: string
    value: ["^order$"]"#,
        good: r#"dataLogicalOperator: or
data:
  - path: body.kind
    type: string
    value: ["^order$"]"#,
    },
    Rule {
        id: "bool-accepts-text",
        level: Note,
        summary: "type bool accepts texts and numbers",
        why: r#"The event's value is converted before it is compared: "true", "TRUE", "1", "t" and every number but 0 count as true."#,
        place: Place::Filters,
        bad: r#"data:
  - path: body.enabled
    type: bool
    value: ["true"]"#,
        good: r#"script: |
  return event.body.enabled == true"#,
    },
    Rule {
        id: "bool-false-accepts-anything",
        level: Warning,
        summary: "type bool with false accepts nearly everything",
        why: r#"What does not read as true counts as false: null, "yes", "n/a", lists and objects. Only a missing field does not (it is an error)."#,
        place: Place::Filters,
        bad: r#"data:
  - path: body.test
    type: bool
    value: ["false"]"#,
        good: r#"script: |
  return event.body.test == false"#,
    },
    Rule {
        id: "number-converts",
        level: Note,
        summary: "type number accepts texts of digits, and true",
        why: r#"The event's value is converted before it is compared: "150" counts as 150, and true as 1."#,
        place: Place::Filters,
        bad: r#"data:
  - path: body.amount
    type: number
    comparator: ">="
    value: ["1"]"#,
        good: r#"script: |
  return type(event.body.amount) == "number" and event.body.amount >= 1"#,
    },
    Rule {
        id: "number-accepts-text",
        level: Warning,
        summary: "a number filter that what is no number meets",
        why: r#"Text that is no number, null, lists and objects count as 0. A filter that 0 meets lets them through: < 100 accepts "150 EUR"."#,
        place: Place::Filters,
        bad: r#"data:
  - path: body.amount
    type: number
    comparator: "<"
    value: ["100"]"#,
        good: r#"data:
  - path: body.amount
    type: number
    comparator: ">"
    value: ["100"]"#,
    },
];
