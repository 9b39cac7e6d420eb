//! The fields that Argo Events knows at every level of a Sensor; it ignores all others.

use serde_json::Value;

/// A level of a Sensor: an object with known fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Sensor,
    Spec,
    PodTemplate,
    Container,
    Dependency,
    Transform,
    Filters,
    Data,
    Expr,
    ExprField,
    Time,
    Context,
    Trigger,
    TriggerTemplate,
    K8s,
    ArgoWorkflow,
    Http,
    Log,
    Source,
    Parameter,
    ParameterSource,
    Policy,
    PolicyK8s,
    PolicyStatus,
    Backoff,
    RateLimit,
    ConditionsReset,
    ByTime,
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// A scalar, or an object that others define.
    Anything,
    /// An object of this level.
    One(Level),
    /// A list of objects of this level.
    Many(Level),
}

use Holds::{Anything, Many, One};

const DEPENDENCY: &[(&str, Holds)] = &[
    ("name", Anything),
    ("eventSourceName", Anything),
    ("eventName", Anything),
    ("filters", One(Level::Filters)),
    ("filtersLogicalOperator", Anything),
    ("transform", One(Level::Transform)),
];
const FILTERS: &[(&str, Holds)] = &[
    ("exprs", Many(Level::Expr)),
    ("exprLogicalOperator", Anything),
    ("data", Many(Level::Data)),
    ("dataLogicalOperator", Anything),
    ("context", One(Level::Context)),
    ("time", One(Level::Time)),
    ("script", Anything),
];
const DATA: &[(&str, Holds)] = &[
    ("path", Anything),
    ("type", Anything),
    ("value", Anything),
    ("comparator", Anything),
    ("template", Anything),
];
const TRIGGER: &[(&str, Holds)] = &[
    ("template", One(Level::TriggerTemplate)),
    ("parameters", Many(Level::Parameter)),
    ("policy", One(Level::Policy)),
    ("retryStrategy", One(Level::Backoff)),
    ("rateLimit", One(Level::RateLimit)),
    ("atLeastOnce", Anything),
    ("dlqTrigger", One(Level::Trigger)),
];
const TRIGGER_TEMPLATE: &[(&str, Holds)] = &[
    ("name", Anything),
    ("conditions", Anything),
    ("conditionsReset", Many(Level::ConditionsReset)),
    ("k8s", One(Level::K8s)),
    ("argoWorkflow", One(Level::ArgoWorkflow)),
    ("http", One(Level::Http)),
    ("log", One(Level::Log)),
    ("awsLambda", Anything),
    ("custom", Anything),
    ("kafka", Anything),
    ("nats", Anything),
    ("slack", Anything),
    ("openWhisk", Anything),
    ("azureEventHubs", Anything),
    ("azureServiceBus", Anything),
    ("pulsar", Anything),
    ("email", Anything),
];
const POD_TEMPLATE: &[(&str, Holds)] = &[
    ("metadata", Anything),
    ("serviceAccountName", Anything),
    ("container", One(Level::Container)),
    ("volumes", Anything),
    ("securityContext", Anything),
    ("affinity", Anything),
    ("tolerations", Anything),
    ("nodeSelector", Anything),
    ("imagePullSecrets", Anything),
    ("priorityClassName", Anything),
    ("priority", Anything),
];
const SPEC: &[(&str, Holds)] = &[
    ("dependencies", Many(Level::Dependency)),
    ("triggers", Many(Level::Trigger)),
    ("template", One(Level::PodTemplate)),
    ("errorOnFailedRound", Anything),
    ("eventBusName", Anything),
    ("replicas", Anything),
    ("revisionHistoryLimit", Anything),
    ("loggingFields", Anything),
];
const HTTP: &[(&str, Holds)] = &[
    ("url", Anything),
    ("payload", Many(Level::Parameter)),
    ("tls", Anything),
    ("method", Anything),
    ("parameters", Many(Level::Parameter)),
    ("timeout", Anything),
    ("basicAuth", Anything),
    ("headers", Anything),
    ("secureHeaders", Anything),
    ("dynamicHeaders", Many(Level::Parameter)),
    ("host", Anything),
];
const K8S: &[(&str, Holds)] = &[
    ("source", One(Level::Source)),
    ("operation", Anything),
    ("parameters", Many(Level::Parameter)),
    ("patchStrategy", Anything),
    ("liveObject", Anything),
];
const ARGO_WORKFLOW: &[(&str, Holds)] = &[
    ("source", One(Level::Source)),
    ("operation", Anything),
    ("parameters", Many(Level::Parameter)),
    ("args", Anything),
];
const PARAMETER_SOURCE: &[(&str, Holds)] = &[
    ("dependencyName", Anything),
    ("contextKey", Anything),
    ("contextTemplate", Anything),
    ("dataKey", Anything),
    ("dataTemplate", Anything),
    ("value", Anything),
    ("useRawData", Anything),
];

impl Level {
    /// All levels.
    pub(super) const ALL: [Level; 28] = [
        Level::Sensor,
        Level::Spec,
        Level::PodTemplate,
        Level::Container,
        Level::Dependency,
        Level::Transform,
        Level::Filters,
        Level::Data,
        Level::Expr,
        Level::ExprField,
        Level::Time,
        Level::Context,
        Level::Trigger,
        Level::TriggerTemplate,
        Level::K8s,
        Level::ArgoWorkflow,
        Level::Http,
        Level::Log,
        Level::Source,
        Level::Parameter,
        Level::ParameterSource,
        Level::Policy,
        Level::PolicyK8s,
        Level::PolicyStatus,
        Level::Backoff,
        Level::RateLimit,
        Level::ConditionsReset,
        Level::ByTime,
    ];

    /// What the level is called in a message.
    pub(super) fn title(self) -> &'static str {
        match self {
            Level::Sensor => "the Sensor",
            Level::Spec => "`spec`",
            Level::PodTemplate => "`spec.template`",
            Level::Container => "`spec.template.container`",
            Level::Dependency => "a dependency",
            Level::Transform => "`transform`",
            Level::Filters => "`filters`",
            Level::Data => "a data filter",
            Level::Expr => "an expression filter",
            Level::ExprField => "a field of an expression filter",
            Level::Time => "`filters.time`",
            Level::Context => "`filters.context`",
            Level::Trigger => "a trigger",
            Level::TriggerTemplate => "a trigger's `template`",
            Level::K8s => "`k8s`",
            Level::ArgoWorkflow => "`argoWorkflow`",
            Level::Http => "`http`",
            Level::Log => "`log`",
            Level::Source => "`source`",
            Level::Parameter => "a parameter",
            Level::ParameterSource => "a parameter's `src`",
            Level::Policy => "`policy`",
            Level::PolicyK8s => "`policy.k8s`",
            Level::PolicyStatus => "`policy.status`",
            Level::Backoff => "a backoff",
            Level::RateLimit => "`rateLimit`",
            Level::ConditionsReset => "`conditionsReset`",
            Level::ByTime => "`byTime`",
        }
    }

    /// The fields of the level.
    pub(super) fn fields(self) -> &'static [(&'static str, Holds)] {
        match self {
            Level::Sensor => &[
                ("apiVersion", Anything),
                ("kind", Anything),
                ("metadata", Anything),
                ("spec", One(Level::Spec)),
                ("status", Anything),
            ],
            Level::Spec => SPEC,
            Level::PodTemplate => POD_TEMPLATE,
            Level::Container => &[
                ("resources", Anything),
                ("imagePullPolicy", Anything),
                ("securityContext", Anything),
                ("volumeMounts", Anything),
                ("env", Anything),
                ("envFrom", Anything),
            ],
            Level::Dependency => DEPENDENCY,
            Level::Transform => &[("jq", Anything), ("script", Anything)],
            Level::Filters => FILTERS,
            Level::Data => DATA,
            Level::Expr => &[("expr", Anything), ("fields", Many(Level::ExprField))],
            Level::ExprField => &[("name", Anything), ("path", Anything)],
            Level::Time => &[
                ("start", Anything),
                ("stop", Anything),
                ("timezone", Anything),
            ],
            Level::Context => &[
                ("id", Anything),
                ("source", Anything),
                ("specversion", Anything),
                ("type", Anything),
                ("datacontenttype", Anything),
                ("subject", Anything),
                ("time", Anything),
            ],
            Level::Trigger => TRIGGER,
            Level::TriggerTemplate => TRIGGER_TEMPLATE,
            Level::K8s => K8S,
            Level::ArgoWorkflow => ARGO_WORKFLOW,
            Level::Http => HTTP,
            Level::Log => &[("intervalSeconds", Anything)],
            Level::Source => &[
                ("s3", Anything),
                ("inline", Anything),
                ("file", Anything),
                ("url", Anything),
                ("configmap", Anything),
                ("git", Anything),
                ("resource", Anything),
            ],
            Level::Parameter => &[
                ("src", One(Level::ParameterSource)),
                ("dest", Anything),
                ("operation", Anything),
            ],
            Level::ParameterSource => PARAMETER_SOURCE,
            Level::Policy => &[
                ("k8s", One(Level::PolicyK8s)),
                ("status", One(Level::PolicyStatus)),
            ],
            Level::PolicyK8s => &[
                ("labels", Anything),
                ("backoff", One(Level::Backoff)),
                ("errorOnBackoffTimeout", Anything),
            ],
            Level::PolicyStatus => &[("allow", Anything)],
            Level::Backoff => &[
                ("duration", Anything),
                ("factor", Anything),
                ("jitter", Anything),
                ("steps", Anything),
            ],
            Level::RateLimit => &[("unit", Anything), ("requestsPerUnit", Anything)],
            Level::ConditionsReset => &[("byTime", One(Level::ByTime))],
            Level::ByTime => &[("cron", Anything), ("timezone", Anything)],
        }
    }

    /// What a field of the level holds; none if the level does not know it.
    pub(super) fn field(self, name: &str) -> Option<Holds> {
        let found = self.fields().iter().find(|(known, _)| *known == name);
        found.map(|(_, holds)| *holds)
    }
}

/// The value as a level knows it: fields that it ignores are gone, at every depth.
pub(super) fn only(level: Level, value: &Value) -> Value {
    let Value::Object(fields) = value else {
        return value.clone();
    };
    let kept = fields.iter().filter_map(|(name, value)| {
        let value = match (level.field(name)?, value) {
            (One(inner), value) => only(inner, value),
            (Many(inner), Value::Array(items)) => {
                items.iter().map(|item| only(inner, item)).collect()
            }
            (_, value) => value.clone(),
        };
        Some((name.clone(), value))
    });
    Value::Object(kept.collect())
}

/// Names that the data of some kind of event source has at its top; a name that is not here is none of them.
pub(super) const TOP_OF_EVENT_DATA: [&str; 75] = [
    "header",
    "headers",
    "body",
    "metadata",
    "contentType",
    "contentEncoding",
    "deliveryMode",
    "priority",
    "correlationId",
    "correlationID",
    "replyTo",
    "expiration",
    "messageId",
    "messageID",
    "message_id",
    "timestamp",
    "type",
    "appId",
    "exchange",
    "routingKey",
    "messageAttributes",
    "id",
    "partitionKey",
    "insertionTime",
    "applicationProperties",
    "enqueuedTime",
    "sequenceNumber",
    "subject",
    "eventTime",
    "userPayload",
    "topic",
    "attributes",
    "publishTime",
    "key",
    "partition",
    "notification",
    "nsqdAddress",
    "channel",
    "pattern",
    "stream",
    "values",
    "oldBody",
    "group",
    "version",
    "resource",
    "event",
    "name",
    "op",
    "token",
    "text",
    "user",
    "team",
    "object",
    "actions",
    "action_ts",
    "api_app_id",
    "bot_id",
    "callback_id",
    "channel_id",
    "channel_name",
    "command",
    "enterprise_id",
    "event_ts",
    "is_enterprise_install",
    "message",
    "response_url",
    "state",
    "submission",
    "team_domain",
    "team_id",
    "thread_ts",
    "trigger_id",
    "ts",
    "user_id",
    "user_name",
];
