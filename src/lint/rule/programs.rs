//! Expressions, scripts, templates and parameters.

use super::super::finding::Level::{Error, Warning};
use super::{Place, Rule};

/// Rules of this kind.
pub(super) static RULES: [Rule; 14] = [
    Rule {
        id: "bad-expression",
        level: Error,
        summary: "an expression that cannot be read",
        why: r#"Expressions are govaluate's: && || !, text in single quotes, numbers without exponent, and signs are read as one run (a > -1, not a>-1). An operator between kinds that it does not take is an error for every event: a single & works on the bits of numbers."#,
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
        id: "bad-transform",
        level: Error,
        summary: "a jq program that cannot be read",
        why: r#"A transform runs before the filters. One that fails takes the event away with a line that has no event id."#,
        place: Place::Dependencies,
        bad: r#"- name: order
  eventSourceName: shop
  eventName: orders
  transform:
    jq: '.body.total = (.body.items | map(.qty) | add'"#,
        good: r#"- name: order
  eventSourceName: shop
  eventName: orders
  transform:
    jq: '.body.total = (.body.items | map(.qty) | add)'"#,
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
        why: r#"A parameter whose dependency took no part in the firing takes its default, or is skipped without a word; in a payload without a default the Sensor's pod ends."#,
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
        id: "template-data",
        level: Error,
        summary: "a template that looks beside its data",
        why: r#"The data of a template is .Input: in a filter the value that the path leads to, in a parameter the event's data. Another name is <no value>, and what is behind it an error."#,
        place: Place::Triggers,
        bad: r#"- template:
    name: run
    k8s:
      source:
        resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {generateName: order-}}
      parameters:
        - src:
            dependencyName: order
            dataTemplate: "{{ .body.customer }}"
          dest: metadata.labels.customer"#,
        good: r#"- template:
    name: run
    k8s:
      source:
        resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {generateName: order-}}
      parameters:
        - src:
            dependencyName: order
            dataTemplate: "{{ .Input.body.customer }}"
          dest: metadata.labels.customer"#,
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
];
