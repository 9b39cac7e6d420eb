//! Why a filter decided as it did: the tree of groups and conditions, made only when somebody asks.

use serde::Serialize;

/// What a group, a condition or one of its values came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It holds.
    Passed,
    /// It does not hold.
    Failed,
    /// It could not be judged; upstream calls this an error.
    Error,
    /// The decision was made before.
    NotReached,
}

/// Stable code for the reason of an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// It holds.
    Match,
    /// The value is there and differs.
    Mismatch,
    /// The path leads nowhere.
    MissingPath,
    /// The condition lists no values.
    NoValues,
    /// A listed regular expression does not compile.
    BadRegex,
    /// An expression cannot be read or evaluated.
    BadExpression,
    /// A template cannot be read, fails or gives nothing.
    BadTemplate,
    /// A listed value is no boolean or number.
    BadValue,
    /// The condition's type is none of `bool`, `number`, `string`.
    BadType,
    /// The event's data is not valid JSON.
    InvalidJson,
    /// The event has no data, so there is nothing to judge.
    NoData,
    /// Judging it asks for more than this program does, so that upstream may decide otherwise.
    TooComplex,
    /// The event's time is outside the window.
    OutsideWindow,
    /// Start, stop or timezone of a time filter cannot be read.
    BadTime,
    /// The script returned something other than `true`.
    ScriptFalse,
    /// The script failed.
    ScriptError,
}

impl Reason {
    /// The code as it is written in reports and labs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Match => "match",
            Self::Mismatch => "mismatch",
            Self::MissingPath => "missing-path",
            Self::NoValues => "no-values",
            Self::BadRegex => "bad-regex",
            Self::BadExpression => "bad-expression",
            Self::BadTemplate => "bad-template",
            Self::BadValue => "bad-value",
            Self::BadType => "bad-type",
            Self::InvalidJson => "invalid-json",
            Self::NoData => "no-data",
            Self::TooComplex => "too-complex",
            Self::OutsideWindow => "outside-window",
            Self::BadTime => "bad-time",
            Self::ScriptFalse => "script-false",
            Self::ScriptError => "script-error",
        }
    }
}

/// Groups of a filter, in the order in which they are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// `filters.exprs`.
    Exprs,
    /// `filters.data`.
    Data,
    /// `filters.context`.
    Context,
    /// `filters.time`.
    Time,
    /// `filters.script`.
    Script,
}

/// How the members of a list are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operator {
    /// All must hold; anything but the exact word `or` means this.
    And,
    /// One must hold.
    Or,
}

impl Operator {
    /// Reads an operator as upstream's evaluation does.
    #[must_use]
    pub fn read(text: &str) -> Self {
        if text == "or" { Self::Or } else { Self::And }
    }
}

/// The decision and everything it rests on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// Whether the event passes.
    pub passed: bool,
    /// Upstream's error text, if there was an error.
    pub error: Option<String>,
    /// The reason of the group that decided; `match` if the event passes.
    pub reason: Reason,
    /// How the groups are put together.
    pub operator: Operator,
    /// The groups that the filter has; empty if it has none, and then every event passes.
    pub groups: Vec<GroupReport>,
}

impl Explanation {
    /// The group that decided; none if all were needed to pass.
    #[must_use]
    pub fn deciding_group(&self) -> Option<&GroupReport> {
        self.groups.iter().find(|group| group.decided)
    }

    /// The condition that decided, where the deciding group has conditions.
    #[must_use]
    pub fn deciding_condition(&self) -> Option<&ConditionReport> {
        self.deciding_group()?
            .conditions
            .iter()
            .find(|condition| condition.decided)
    }
}

/// One group's part in the decision.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupReport {
    /// Which group.
    pub group: Group,
    /// How its conditions are put together.
    pub operator: Operator,
    /// What it came to.
    pub outcome: Outcome,
    /// Why.
    pub reason: Reason,
    /// Upstream's error text.
    pub error: Option<String>,
    /// This group settled the whole decision.
    pub decided: bool,
    /// Its conditions, in listed order.
    pub conditions: Vec<ConditionReport>,
}

/// One condition: what was looked for, what was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConditionReport {
    /// Path into the event data, or the attribute's name for context and time.
    pub path: String,
    /// Type that the filter names.
    pub r#type: String,
    /// Comparator as the filter spells it, `=` where it is empty.
    pub comparator: String,
    /// The comparator does nothing for this type, so it is as if it were not there.
    pub comparator_ignored: bool,
    /// What the path leads to.
    pub found: Option<Found>,
    /// The values it is compared with, in the order tried.
    pub values: Vec<ValueReport>,
    /// What the condition came to.
    pub outcome: Outcome,
    /// Why.
    pub reason: Reason,
    /// Upstream's error text, without its frame.
    pub error: Option<String>,
    /// This condition settled its group.
    pub decided: bool,
}

/// A value of the event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Found {
    /// JSON type (`String`, `Number`, `True`, `False`, `Null`, `JSON`).
    pub kind: &'static str,
    /// As it stands in the event.
    pub raw: String,
    /// As the comparison sees it, after coercion to the filter's type.
    pub coerced: String,
}

/// One listed value of a condition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ValueReport {
    /// As the filter spells it.
    pub value: String,
    /// What comparing with it came to.
    pub outcome: Outcome,
}

/// Receives what an evaluation sees; the closures run only when somebody listens.
pub(super) trait Recorder {
    fn condition(&mut self, make: impl FnOnce() -> ConditionReport);
    fn group(&mut self, make: impl FnOnce(Vec<ConditionReport>) -> GroupReport);
}

/// Nobody listens.
pub(super) struct Silent;

impl Recorder for Silent {
    fn condition(&mut self, _: impl FnOnce() -> ConditionReport) {}
    fn group(&mut self, _: impl FnOnce(Vec<ConditionReport>) -> GroupReport) {}
}

/// Keeps everything.
#[derive(Default)]
pub(super) struct Listening {
    conditions: Vec<ConditionReport>,
    pub(super) groups: Vec<GroupReport>,
}

impl Recorder for Listening {
    fn condition(&mut self, make: impl FnOnce() -> ConditionReport) {
        self.conditions.push(make());
    }

    fn group(&mut self, make: impl FnOnce(Vec<ConditionReport>) -> GroupReport) {
        let conditions = std::mem::take(&mut self.conditions);
        self.groups.push(make(conditions));
    }
}
