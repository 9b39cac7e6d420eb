//! The rules: id, level, what Argo Events does, and an example of what is found and of what is not.

use super::finding::Level;
use super::finding::Level::{Error, Note, Warning};

/// Where the lines of an example belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Under a dependency's `filters`.
    Filters,
    /// Under `spec.dependencies`.
    Dependencies,
    /// Under `spec.triggers`.
    Triggers,
    /// Under `spec`.
    Spec,
    /// They are a whole file.
    File,
    /// There are none.
    None,
}

/// A rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its id.
    pub id: &'static str,
    /// How bad its findings are.
    pub level: Level,
    /// What it finds, in one line.
    pub summary: &'static str,
    /// What Argo Events does, and what to do about it.
    pub why: &'static str,
    /// Where the lines of the examples belong.
    pub place: Place,
    /// What it finds.
    pub bad: &'static str,
    /// What it does not find.
    pub good: &'static str,
}

/// The rule of this id.
#[must_use]
pub fn find(id: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.id == id)
}

/// The level of a rule's findings.
pub(super) fn level(id: &str) -> Level {
    find(id).map_or(Warning, |rule| rule.level)
}

/// All rules.
pub const RULES: [Rule; 55] = [
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
        level: Error,
        summary: "a text with special characters that does not match itself",
        why: r#"Every value is a pattern, so a text such as order(1) or $5 does not match what it says."#,
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
    Rule {
        id: "misspelt-key",
        level: Error,
        summary: "a key that is ignored because of its spelling",
        why: r#"Sensors are stored with all fields, known or not, and Argo Events reads names with exact case. A misspelt key is ignored without a word; without `filters` every event passes."#,
        place: Place::Dependencies,
        bad: r#"- name: order
  eventSourceName: web
  eventName: orders
  filter:
    data:
      - path: body.kind
        type: string
        value: ["^order$"]"#,
        good: r#"- name: order
  eventSourceName: web
  eventName: orders
  filters:
    data:
      - path: body.kind
        type: string
        value: ["^order$"]"#,
    },
    Rule {
        id: "misplaced-key",
        level: Error,
        summary: "a key that belongs to another level",
        why: r#"A key at the wrong level is ignored without a word."#,
        place: Place::Dependencies,
        bad: r#"- name: order
  eventSourceName: web
  eventName: orders
  data:
    - path: body.kind
      type: string
      value: ["^order$"]"#,
        good: r#"- name: order
  eventSourceName: web
  eventName: orders
  filters:
    data:
      - path: body.kind
        type: string
        value: ["^order$"]"#,
    },
    Rule {
        id: "unknown-key",
        level: Warning,
        summary: "a key that Argo Events does not know",
        why: r#"Sensors are stored with all fields, known or not; what is not known is ignored."#,
        place: Place::Dependencies,
        bad: r#"- name: order
  eventSourceName: web
  eventName: orders
  description: orders of the shop"#,
        good: r#"- name: order # orders of the shop
  eventSourceName: web
  eventName: orders"#,
    },
    Rule {
        id: "path-outside-body",
        level: Warning,
        summary: "a path that does not start in the body",
        why: r#"The data of an HTTP event is {"header": …, "body": …}: a field of the request is body.kind, not kind. Where the EventSource is in the files, its kind decides."#,
        place: Place::Filters,
        bad: r#"data:
  - path: kind
    type: string
    value: ["^order$"]"#,
        good: r#"data:
  - path: body.kind
    type: string
    value: ["^order$"]"#,
    },
    Rule {
        id: "header-name",
        level: Warning,
        summary: "a header that is not spelt as it arrives",
        why: r#"HTTP servers write header names in one form, X-Order-Id, whatever the client sends, and paths are case-sensitive. A path that leads nowhere is an error and drops the event."#,
        place: Place::Filters,
        bad: r#"data:
  - path: header.x-order-id.0
    type: string
    value: ["^42$"]"#,
        good: r#"data:
  - path: header.X-Order-Id.0
    type: string
    value: ["^42$"]"#,
    },
    Rule {
        id: "header-index",
        level: Warning,
        summary: "a header as a whole instead of its first value",
        why: r#"A header has a list of values. The path of the whole header gives that list, whose text is ["order"], so anchors do not match and numbers are 0."#,
        place: Place::Filters,
        bad: r#"data:
  - path: header.X-Order-Kind
    type: string
    value: ["^order$"]"#,
        good: r#"data:
  - path: header.X-Order-Kind.0
    type: string
    value: ["^order$"]"#,
    },
    Rule {
        id: "foreign-path",
        level: Error,
        summary: "a path written as in JSONPath or jq",
        why: r#"Paths are gjson: names joined by dots, body.items.0.sku. $., a leading dot, [0] and -1 lead nowhere, and several paths are one list only inside of brackets."#,
        place: Place::Filters,
        bad: r#"data:
  - path: $.body.kind
    type: string
    value: ["^order$"]"#,
        good: r#"data:
  - path: body.items.0.kind
    type: string
    value: ["^order$"]
  - path: '[body.action,body.kind]'
    type: string
    value: ["^.*$"]"#,
    },
    Rule {
        id: "blank-in-path",
        level: Error,
        summary: "blanks in a path",
        why: r#"A blank belongs to the name beside it, so the path leads nowhere."#,
        place: Place::Filters,
        bad: r#"data:
  - path: "body. kind"
    type: string
    value: ["^order$"]"#,
        good: r#"data:
  - path: "body.kind"
    type: string
    value: ["^order$"]"#,
    },
    Rule {
        id: "unescaped-key",
        level: Warning,
        summary: "dots in a label or annotation key",
        why: r#"A dot starts a new name. In a key such as app.kubernetes.io/name it has to be escaped."#,
        place: Place::Filters,
        bad: r#"data:
  - path: body.metadata.labels.app.kubernetes.io/name
    type: string
    value: ["^shop$"]"#,
        good: r#"data:
  - path: body.metadata.labels.app\.kubernetes\.io/name
    type: string
    value: ["^shop$"]"#,
    },
    Rule {
        id: "list-as-scalar",
        level: Error,
        summary: "a list compared as a number or boolean",
        why: r#"A path with # in its middle gives the list of all values. A list counts as 0 or false; its elements are not compared."#,
        place: Place::Filters,
        bad: r#"data:
  - path: body.items.#.qty
    type: number
    comparator: ">"
    value: ["3"]"#,
        good: r#"data:
  - path: body.items.#
    type: number
    comparator: ">"
    value: ["3"]
  - path: body.items.#(sku=="B2").qty
    type: number
    comparator: ">"
    value: ["3"]"#,
    },
    Rule {
        id: "or-widens",
        level: Warning,
        summary: "a condition that alone lets every kind of event through",
        why: r#"With dataLogicalOperator: or one condition is enough. A flag or an amount beside the event's kind then passes events of every kind."#,
        place: Place::Filters,
        bad: r#"dataLogicalOperator: or
data:
  - path: body.kind
    type: string
    value: ["^order$"]
  - path: body.enabled
    type: bool
    value: ["true"]"#,
        good: r#"dataLogicalOperator: or
data:
  - path: body.kind
    type: string
    value: ["^order$"]
  - path: body.event
    type: string
    value: ["^order$"]"#,
    },
    Rule {
        id: "error-across-groups",
        level: Warning,
        summary: "an error that undoes another group",
        why: r#"With filtersLogicalOperator: or one group is enough, but an error in any group drops the event, though another group holds. A missing field is such an error in data and exprs."#,
        place: Place::Dependencies,
        bad: r#"- name: order
  eventSourceName: web
  eventName: orders
  filtersLogicalOperator: or
  filters:
    data:
      - path: body.kind
        type: string
        value: ["^order$"]
    exprs:
      - expr: amount > 100
        fields: [{name: amount, path: body.amount}]"#,
        good: r#"- name: order
  eventSourceName: web
  eventName: orders
  filtersLogicalOperator: or
  filters:
    context:
      type: webhook
    time:
      start: "08:00:00"
      stop: "18:00:00""#,
    },
    Rule {
        id: "missing-field",
        level: Note,
        summary: "a condition that a missing field does not meet",
        why: r#"A path that leads nowhere is an error and drops the event. A field that is not there is neither different, nor false, nor empty."#,
        place: Place::Filters,
        bad: r#"data:
  - path: body.kind
    type: string
    comparator: "!="
    value: ["^test$"]"#,
        good: r#"data:
  - path: body.kind
    type: string
    value: ["^order$"]"#,
    },
    Rule {
        id: "empty-filters",
        level: Warning,
        summary: "filters with nothing in them",
        why: r#"Empty filters let every event pass. An empty list is a group that holds for every event."#,
        place: Place::Filters,
        bad: r#"data: []"#,
        good: r#"data:
  - path: body.kind
    type: string
    value: ["^order$"]"#,
    },
    Rule {
        id: "context-ignored",
        level: Warning,
        summary: "a context attribute that is not compared",
        why: r#"Context filters compare type, subject, source and datacontenttype; id, specversion and time are read and not compared."#,
        place: Place::Filters,
        bad: r#"context:
  type: webhook
  id: "1""#,
        good: r#"context:
  type: webhook"#,
    },
    Rule {
        id: "bad-expression",
        level: Error,
        summary: "an expression that cannot be read",
        why: r#"Expressions are govaluate's: && || !, text in single quotes, numbers without exponent, and signs are read as one run (a > -1, not a>-1)."#,
        place: Place::Filters,
        bad: r#"exprs:
  - expr: amount>-1
    fields: [{name: amount, path: body.amount}]"#,
        good: r#"exprs:
  - expr: amount > -1
    fields: [{name: amount, path: body.amount}]"#,
    },
    Rule {
        id: "absent-expr-field",
        level: Error,
        summary: "an expression over a name that no field gives",
        why: r#"An expression sees only the names listed in its fields; another name is an error."#,
        place: Place::Filters,
        bad: r#"exprs:
  - expr: amount > 1 && vip
    fields: [{name: amount, path: body.amount}]"#,
        good: r#"exprs:
  - expr: amount > 1 && vip
    fields: [{name: amount, path: body.amount}, {name: vip, path: body.vip}]"#,
    },
    Rule {
        id: "unused-expr-field",
        level: Warning,
        summary: "a field that the expression does not use",
        why: r#"Every listed field must exist, used or not; else the event is dropped with an error before the expression is looked at."#,
        place: Place::Filters,
        bad: r#"exprs:
  - expr: amount > 1
    fields: [{name: amount, path: body.amount}, {name: vip, path: body.vip}]"#,
        good: r#"exprs:
  - expr: amount > 1
    fields: [{name: amount, path: body.amount}]"#,
    },
    Rule {
        id: "date-in-expression",
        level: Error,
        summary: "a date that never equals itself",
        why: r#"A text in an expression that looks like a date is read as a time, while the event's value stays a text."#,
        place: Place::Filters,
        bad: r#"exprs:
  - expr: day == '2024-01-01'
    fields: [{name: day, path: body.day}]"#,
        good: r#"exprs:
  - expr: day == 'monday'
    fields: [{name: day, path: body.day}]"#,
    },
    Rule {
        id: "bad-script",
        level: Error,
        summary: "a script that does not compile",
        why: r#"Scripts are Lua 5.1. One that does not compile drops every event with an error."#,
        place: Place::Filters,
        bad: r#"script: |
  if event.body.kind != "order" then return false end
  return true"#,
        good: r#"script: |
  if event.body.kind ~= "order" then return false end
  return true"#,
    },
    Rule {
        id: "script-never-true",
        level: Error,
        summary: "a script that never returns true",
        why: r#"Only the boolean true as the returned value passes; a text, a number or no value does not."#,
        place: Place::Filters,
        bad: r#"script: |
  if event.body.kind == "order" then return "true" end"#,
        good: r#"script: |
  return event.body.kind == "order""#,
    },
    Rule {
        id: "script-zero-index",
        level: Error,
        summary: "a list indexed from zero",
        why: r#"Lua's lists start at 1."#,
        place: Place::Filters,
        bad: r#"script: |
  return event.header["X-Kind"][0] == "order""#,
        good: r#"script: |
  return event.header["X-Kind"][1] == "order""#,
    },
    Rule {
        id: "unknown-dependency",
        level: Warning,
        summary: "a parameter from a dependency that does not exist",
        why: r#"A parameter whose dependency took no part in the firing takes its default, or is skipped without a word."#,
        place: Place::Triggers,
        bad: r#"- template:
    name: run
    k8s:
      source:
        resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {generateName: order-}}
      parameters:
        - src: {dependencyName: orders, dataKey: body.id}
          dest: metadata.labels.order"#,
        good: r#"- template:
    name: run
    k8s:
      source:
        resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {generateName: order-}}
      parameters:
        - src: {dependencyName: order, dataKey: body.id}
          dest: metadata.labels.order"#,
    },
    Rule {
        id: "merging-default",
        level: Warning,
        summary: "a default that makes different orders the same",
        why: r#"A parameter whose key is missing takes its default without a word. As a name or an id it merges all events that lack the field; the second one is then taken for a duplicate."#,
        place: Place::Triggers,
        bad: r#"- template:
    name: run
    k8s:
      source:
        resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {name: order-}}
      parameters:
        - src: {dependencyName: order, dataKey: body.id, value: unknown}
          dest: metadata.name
          operation: append"#,
        good: r#"- template:
    name: run
    k8s:
      source:
        resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {name: order-}}
      parameters:
        - src: {dependencyName: order, dataKey: body.id}
          dest: metadata.name
          operation: append
        - src: {dependencyName: order, dataKey: header.X-Trace.0, value: none}
          dest: metadata.labels.trace"#,
    },
    Rule {
        id: "number-through-template",
        level: Warning,
        summary: "a number that a template rewrites",
        why: r#"Numbers of JSON are floating point in a template: 1234567 is printed as 1.234567e+06. dataKey keeps the digits."#,
        place: Place::Triggers,
        bad: r#"- template:
    name: run
    k8s:
      source:
        resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {generateName: order-}}
      parameters:
        - src:
            dependencyName: order
            dataTemplate: "{{ .Input.body.amount }}"
          dest: metadata.labels.amount"#,
        good: r#"- template:
    name: run
    k8s:
      source:
        resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {generateName: order-}}
      parameters:
        - src:
            dependencyName: order
            dataKey: body.amount
          dest: metadata.labels.amount
        - src:
            dependencyName: order
            dataTemplate: "{{ .Input.body.customer }}"
          dest: metadata.labels.customer"#,
    },
    Rule {
        id: "bad-template",
        level: Error,
        summary: "a template that cannot be read",
        why: r#"Templates are Go's text/template with sprig; the data is .Input."#,
        place: Place::Filters,
        bad: r#"data:
  - path: body.kind
    type: string
    template: "{{ .Input | nosuch }}"
    value: ["^order$"]"#,
        good: r#"data:
  - path: body.kind
    type: string
    template: "{{ .Input | lower }}"
    value: ["^order$"]"#,
    },
    Rule {
        id: "parameter-index",
        level: Warning,
        summary: "a parameter behind the end of the list",
        why: r#"dest counts the entries of the object in the Sensor, not those of the WorkflowTemplate. Behind the end it makes an entry without a name, which the Workflow refuses."#,
        place: Place::Triggers,
        bad: r#"- template:
    name: run
    k8s:
      source:
        resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {generateName: order-}, spec: {workflowTemplateRef: {name: order}}}
      parameters:
        - src: {dependencyName: order, dataKey: body.id}
          dest: spec.arguments.parameters.0.value"#,
        good: r#"- template:
    name: run
    k8s:
      source:
        resource:
          apiVersion: argoproj.io/v1alpha1
          kind: Workflow
          metadata: {generateName: order-}
          spec: {workflowTemplateRef: {name: order}, arguments: {parameters: [{name: order-id, value: ""}]}}
      parameters:
        - src: {dependencyName: order, dataKey: body.id}
          dest: spec.arguments.parameters.0.value"#,
    },
    Rule {
        id: "bad-conditions",
        level: Error,
        summary: "conditions that are no condition over the dependencies",
        why: r#"Conditions name dependencies, joined with && and || and parentheses. A trigger whose conditions cannot be read is never subscribed."#,
        place: Place::Triggers,
        bad: r#"- template:
    name: run
    conditions: orders
    k8s:
      source:
        resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {generateName: order-}}"#,
        good: r#"- template:
    name: run
    conditions: order
    k8s:
      source:
        resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {generateName: order-}}"#,
    },
    Rule {
        id: "unused-dependency",
        level: Note,
        summary: "a dependency that no trigger names",
        why: r#"Events of a dependency that no trigger's conditions name do nothing."#,
        place: Place::Spec,
        bad: r#"dependencies:
  - {name: a, eventSourceName: web, eventName: a}
  - {name: b, eventSourceName: web, eventName: b}
triggers:
  - template:
      name: run
      conditions: a
      k8s:
        source:
          resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {generateName: order-}}"#,
        good: r#"dependencies:
  - {name: a, eventSourceName: web, eventName: a}
  - {name: b, eventSourceName: web, eventName: b}
triggers:
  - template:
      name: run
      k8s:
        source:
          resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {generateName: order-}}"#,
    },
    Rule {
        id: "duplicate-dependency",
        level: Warning,
        summary: "two dependencies of one name",
        why: r#"Of several dependencies with one name only the last one counts."#,
        place: Place::Dependencies,
        bad: r#"- {name: order, eventSourceName: web, eventName: a}
- {name: order, eventSourceName: web, eventName: b}"#,
        good: r#"- {name: order, eventSourceName: web, eventName: a}
- {name: refund, eventSourceName: web, eventName: b}"#,
    },
    Rule {
        id: "two-dependencies-on-one-event",
        level: Warning,
        summary: "two dependencies that one event meets",
        why: r#"Each dependency is judged by itself. An event that passes the filters of two of them counts twice: with || the trigger runs twice, with && one event completes the condition."#,
        place: Place::Spec,
        bad: r#"dependencies:
  - {name: a, eventSourceName: web, eventName: orders}
  - {name: b, eventSourceName: web, eventName: orders}
triggers:
  - template:
      name: run
      conditions: a || b
      k8s:
        source:
          resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {generateName: order-}}"#,
        good: r#"dependencies:
  - {name: a, eventSourceName: web, eventName: orders}
  - {name: b, eventSourceName: web, eventName: refunds}
triggers:
  - template:
      name: run
      conditions: a || b
      k8s:
        source:
          resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {generateName: order-}}"#,
    },
    Rule {
        id: "retry-without-at-least-once",
        level: Warning,
        summary: "a retryStrategy that does nothing",
        why: r#"Without atLeastOnce the event is acknowledged at once, the trigger runs in the background, and a failure loses the event: retryStrategy is ignored."#,
        place: Place::Triggers,
        bad: r#"- template:
    name: run
    k8s:
      source:
        resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {generateName: order-}}
  retryStrategy: {steps: 3}"#,
        good: r#"- template:
    name: run
    k8s:
      source:
        resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {generateName: order-}}
  atLeastOnce: true
  retryStrategy: {steps: 3}"#,
    },
    Rule {
        id: "fixed-name",
        level: Warning,
        summary: "one name for every event's object",
        why: r#"Two objects of one kind cannot have one name: while the first one exists, the others fail with `already exists`, and their events are acknowledged and gone."#,
        place: Place::Triggers,
        bad: r#"- template:
    name: run
    k8s:
      source:
        resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {name: order}}"#,
        good: r#"- template:
    name: run
    k8s:
      source:
        resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {name: order-}}
      parameters:
        - src: {dependencyName: order, dataKey: body.id}
          dest: metadata.name
          operation: append"#,
    },
    Rule {
        id: "removed-trigger",
        level: Note,
        summary: "a trigger that is gone, and comes back to a backlog",
        why: r#"A removed trigger leaves its consumer on the bus, which keeps its place. If a trigger of the same name and dependency comes back, it gets every event since then. Found with --previous only."#,
        place: Place::None,
        bad: r#""#,
        good: r#""#,
    },
    Rule {
        id: "log-level",
        level: Warning,
        summary: "a log level that counts as info",
        why: r#"LOG_LEVEL is debug, info, warn or error, in lower case; anything else counts as info, where a cleanly rejected event leaves no line with its id."#,
        place: Place::Spec,
        bad: r#"template:
  container:
    env: [{name: LOG_LEVEL, value: DEBUG}]
dependencies:
  - {name: a, eventSourceName: web, eventName: a}
triggers:
  - template:
      name: run
      k8s:
        source:
          resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {generateName: order-}}"#,
        good: r#"template:
  container:
    env: [{name: LOG_LEVEL, value: debug}]
dependencies:
  - {name: a, eventSourceName: web, eventName: a}
triggers:
  - template:
      name: run
      k8s:
        source:
          resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {generateName: order-}}"#,
    },
    Rule {
        id: "submit-account",
        level: Warning,
        summary: "an account with other rights than its triggers need",
        why: r#"The Sensor submits under spec.template.serviceAccountName. To create an object it needs the verb create on that resource and nothing else. Looked at where Role and RoleBinding are in the files."#,
        place: Place::File,
        bad: r#"apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: submit, namespace: shop}
rules:
  - {apiGroups: ["argoproj.io"], resources: ["workflows"], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: submit, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: submit}
subjects: [{kind: ServiceAccount, name: submit}]
---
apiVersion: argoproj.io/v1alpha1
kind: Sensor
metadata: {name: orders, namespace: shop}
spec:
  template: {serviceAccountName: submit}
  dependencies:
    - {name: a, eventSourceName: web, eventName: a}
  triggers:
    - template:
        name: run
        k8s:
          source:
            resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {generateName: order-}}"#,
        good: r#"apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: submit, namespace: shop}
rules:
  - {apiGroups: ["argoproj.io"], resources: ["workflows"], verbs: ["create"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: submit, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: submit}
subjects: [{kind: ServiceAccount, name: submit}]
---
apiVersion: argoproj.io/v1alpha1
kind: Sensor
metadata: {name: orders, namespace: shop}
spec:
  template: {serviceAccountName: submit}
  dependencies:
    - {name: a, eventSourceName: web, eventName: a}
  triggers:
    - template:
        name: run
        k8s:
          source:
            resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {generateName: order-}}"#,
    },
    Rule {
        id: "wrong-type",
        level: Error,
        summary: "a field of a type that the controller cannot decode",
        why: r#"The API server stores a Sensor as it is; the controller decodes it into fixed types. Values of a condition are texts: value: [true] or [50] cannot be decoded, and nothing of the edit goes live."#,
        place: Place::Filters,
        bad: r#"data:
  - path: body.amount
    type: number
    comparator: ">"
    value: [50.0]"#,
        good: r#"data:
  - path: body.amount
    type: number
    comparator: ">"
    value: ["50.0"]"#,
    },
    Rule {
        id: "refused",
        level: Error,
        summary: "a Sensor that the controller refuses",
        why: r#"The controller says so in the status conditions and leaves the Deployment as it was: the old filters go on."#,
        place: Place::Filters,
        bad: r#"data:
  - path: body.kind
    type: string
    value: []"#,
        good: r#"data:
  - path: body.kind
    type: string
    value: ["^order$"]"#,
    },
    Rule {
        id: "duplicate-key",
        level: Warning,
        summary: "a key that is there twice",
        why: r#"Kubernetes takes the last of two equal keys; kubectl may refuse the file."#,
        place: Place::Filters,
        bad: r#"script: return false
script: return event.body.ok == true"#,
        good: r#"script: return event.body.ok == true"#,
    },
    Rule {
        id: "yaml",
        level: Error,
        summary: "a file that is no YAML",
        why: r#"Nothing of the file can be applied."#,
        place: Place::Filters,
        bad: r#"data: ["#,
        good: r#"data:
  - path: body.kind
    type: string
    value: ["^order$"]"#,
    },
];

/// An example as a whole file.
#[must_use]
pub fn example(place: Place, lines: &str) -> String {
    const HEAD: &str = "apiVersion: argoproj.io/v1alpha1\nkind: Sensor\nmetadata:\n  name: orders\n  namespace: shop\nspec:\n";
    const DEPENDENCY: &str =
        "    - name: order\n      eventSourceName: web\n      eventName: orders\n";
    const TRIGGER: &str = "    - template:\n        name: run\n        k8s:\n          operation: create\n          source:\n            resource:\n              apiVersion: argoproj.io/v1alpha1\n              kind: Workflow\n              metadata:\n                generateName: order-\n";
    let indented = |by: usize| {
        lines
            .lines()
            .map(|line| format!("{}{line}\n", " ".repeat(by)))
            .collect::<String>()
    };
    match place {
        Place::Filters => format!(
            "{HEAD}  dependencies:\n{DEPENDENCY}      filters:\n{}  triggers:\n{TRIGGER}",
            indented(8)
        ),
        Place::Dependencies => format!(
            "{HEAD}  dependencies:\n{}  triggers:\n{TRIGGER}",
            indented(4)
        ),
        Place::Triggers => format!(
            "{HEAD}  dependencies:\n{DEPENDENCY}  triggers:\n{}",
            indented(4)
        ),
        Place::Spec => format!("{HEAD}{}", indented(2)),
        Place::File => indented(0),
        Place::None => String::new(),
    }
}
