//! Conditions, triggers, accounts, and what never goes live.

use super::super::finding::Level::{Error, Note, Warning};
use super::{Place, Rule};

/// Rules of this kind.
pub(super) static RULES: [Rule; 18] = [
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
        id: "rate-limit",
        level: Error,
        summary: "a rate limit of no requests",
        why: r#"rateLimit.requestsPerUnit is how many times the trigger may run in a second, minute or hour. Left out it is 0, and the time of one request cannot be worked out."#,
        place: Place::Triggers,
        bad: r#"- template:
    name: run
    k8s:
      source:
        resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {generateName: order-}}
  rateLimit: {unit: Second, requestsPerUnit: 0}"#,
        good: r#"- template:
    name: run
    k8s:
      source:
        resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {generateName: order-}}
  rateLimit: {unit: Second, requestsPerUnit: 5}"#,
    },
    Rule {
        id: "object-name",
        level: Error,
        summary: "a name that no object may have",
        why: r#"Names are small letters, digits, - and ., and start and end with a letter or digit. The API server refuses a Sensor with another name, and what a trigger creates under one."#,
        place: Place::File,
        bad: r#"apiVersion: argoproj.io/v1alpha1
kind: Sensor
metadata: {name: Orders_New, namespace: shop}
spec:
  dependencies:
    - {name: a, eventSourceName: web, eventName: a}
  triggers:
    - template:
        name: run
        k8s:
          source:
            resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {generateName: order-}}"#,
        good: r#"apiVersion: argoproj.io/v1alpha1
kind: Sensor
metadata: {name: orders-new, namespace: shop}
spec:
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
        id: "api-version",
        level: Error,
        summary: "a version that has no Sensors",
        why: r#"Sensors are of argoproj.io/v1alpha1; there is no other version."#,
        place: Place::File,
        bad: r#"apiVersion: argoproj.io/v1
kind: Sensor
metadata: {name: orders, namespace: shop}
spec:
  dependencies:
    - {name: a, eventSourceName: web, eventName: a}
  triggers:
    - template:
        name: run
        k8s:
          source:
            resource: {apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {generateName: order-}}"#,
        good: r#"apiVersion: argoproj.io/v1alpha1
kind: Sensor
metadata: {name: orders, namespace: shop}
spec:
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
        why: r#"The Sensor submits under spec.template.serviceAccountName, without one under `default`. To create an object it needs the verb create on that resource and nothing else. Looked at where bindings are in the files: to the account, or to a group it belongs to."#,
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
        id: "no-trigger-type",
        level: Error,
        summary: "a trigger that says nothing to do",
        why: r#"The controller accepts a trigger without a type. Every event that reaches it is then lost with "could not find an implementation"."#,
        place: Place::Triggers,
        bad: r#"- template:
    name: run
    conditions: order"#,
        good: r#"- template:
    name: run
    conditions: order
    log: {}"#,
    },
    Rule {
        id: "not-carried-out",
        level: Note,
        summary: "a trigger that eventlab does not carry out itself",
        why: r#"Argo Events carries it out; the cluster inside eventlab refuses a Sensor that has it, and `eventlab explain` shows its filters and conditions but not what it sends."#,
        place: Place::Triggers,
        bad: r#"- template:
    name: tell
    kafka:
      url: kafka.example:9092
      topic: orders
      payload:
        - src: {dependencyName: order, dataKey: body.orderId}
          dest: id"#,
        good: r#"- template:
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
