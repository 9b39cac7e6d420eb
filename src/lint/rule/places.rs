//! Keys, paths, and how conditions are put together.

use super::super::finding::Level::{Error, Note, Warning};
use super::{Place, Rule};

/// Rules of this kind.
pub(super) static RULES: [Rule; 16] = [
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
        why: r#"Paths are gjson: names joined by dots, body.items.0.sku. $., a leading dot, [0], [*], -1 and .. lead nowhere, and several paths are one list only inside of brackets."#,
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
        why: r#"A path that leads nowhere is an error and drops the event. A field that is not there is neither different, nor false, nor empty; and where a parameter has a default for it, the event is gone before that counts."#,
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
        why: r#"Empty filters let every event pass, and with `filtersLogicalOperator: or` none. The controller leaves an empty list out, so it is no group."#,
        place: Place::Filters,
        bad: r#"data: []"#,
        good: r#"data:
  - path: body.kind
    type: string
    value: ["^order$"]"#,
    },
    Rule {
        id: "context-pattern",
        level: Error,
        summary: "a context attribute that is written as a pattern",
        why: r#"Attributes of the context are compared as texts; neither * nor ^ and $ mean anything in them."#,
        place: Place::Filters,
        bad: r#"context:
  type: web*"#,
        good: r#"context:
  type: webhook"#,
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
];
