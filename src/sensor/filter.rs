//! A dependency's filters: compiled once, judging many events, with upstream's decision and error texts.
//!
//! From above: [`Filter`], [`Decision`], [`FilterError`], [`CompileError`]; [`Filter::explain`] says why.

mod script_group;

use serde_json::Value;

use super::context::ContextGroup;
use super::data::DataGroup;
use super::decode::{DecodeError, Node};
use super::event::Event;
use super::explain::{
    ConditionReport, Explanation, Group, GroupReport, Listening, Operator, Outcome, Reason,
    Recorder, Silent,
};
use super::expression_filter::ExprGroup;
use super::json::PrefixSet;
use super::payload::Payload;
use super::spec::{DataSpec, FilterSpec};
use super::template::{Template, TemplateError};
use super::time::TimeGroup;
use script_group::ScriptGroup;

/// The filters of one dependency, ready to judge events; immutable, so it can be shared between threads.
#[derive(Debug)]
pub struct Filter {
    groups: Vec<CompiledGroup>,
    operator: Operator,
    prefixes: PrefixSet,
    /// Some group looks at the event's data.
    reads_data: bool,
    /// No `filters` at all: every event passes, whatever the operator.
    absent: bool,
}

#[derive(Debug)]
enum CompiledGroup {
    Exprs(ExprGroup),
    Data(DataGroup),
    Context(ContextGroup),
    Time(TimeGroup),
    Script(ScriptGroup),
}

/// Why filters cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// A field has a type that the controller could not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Something that upstream can judge and this program cannot yet.
    #[error("eventlab: {0} is not supported yet; leave it out to judge the rest")]
    Unsupported(String),
}

fn refuse_unsupported_templates(data: &[DataSpec]) -> Result<(), CompileError> {
    for (place, spec) in data.iter().enumerate() {
        if let Err(TemplateError::Outside(what)) = Template::parse(&spec.template) {
            return Err(CompileError::Unsupported(format!(
                "{what} in filters.data[{place}].template"
            )));
        }
    }
    Ok(())
}

/// An error that upstream's filter returns beside "not passed".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct FilterError {
    /// Reason of the first error.
    pub reason: Reason,
    /// Upstream's text.
    pub text: String,
}

/// What became of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether the event goes on to the trigger's conditions.
    pub passed: bool,
    /// Why it was dropped: `match` where it passed, else the reason of the group that decided.
    pub reason: Reason,
    /// The error, if it was dropped with one; a clean mismatch has none.
    pub error: Option<FilterError>,
}

impl Filter {
    /// Compiles the `filters` of a dependency with its `filtersLogicalOperator`, as they stand.
    ///
    /// Patterns and values that are wrong do not fail here: upstream finds them when an event reaches them.
    ///
    /// # Errors
    /// [`CompileError`] for a field of the wrong type and for what is not supported yet.
    pub fn compile(filters: Option<&Value>, operator: &str) -> Result<Self, CompileError> {
        Self::of(filters, operator, |spec| spec)
    }

    /// Compiles the `filters` of a manifest, as the Sensor's pod gets them from the controller.
    ///
    /// # Errors
    /// As [`Filter::compile`].
    pub fn of_manifest(filters: Option<&Value>, operator: &str) -> Result<Self, CompileError> {
        Self::of(filters, operator, FilterSpec::handed_over)
    }

    fn of(
        filters: Option<&Value>,
        operator: &str,
        handed: impl FnOnce(FilterSpec) -> FilterSpec,
    ) -> Result<Self, CompileError> {
        let mut filter = Self {
            groups: Vec::new(),
            operator: Operator::read(operator),
            prefixes: PrefixSet::default(),
            reads_data: false,
            absent: true,
        };
        let Some(filters) = filters.filter(|filters| !filters.is_null()) else {
            return Ok(filter);
        };
        let spec = handed(FilterSpec::decode(&Node::new(filters, "filters"))?);
        filter.absent = false;
        if let Some(exprs) = &spec.exprs {
            filter.groups.push(CompiledGroup::Exprs(ExprGroup::compile(
                exprs,
                &spec.expr_operator,
                &mut filter.prefixes,
            )));
        }
        if let Some(data) = &spec.data {
            refuse_unsupported_templates(data)?;
            filter.groups.push(CompiledGroup::Data(DataGroup::compile(
                data,
                &spec.data_operator,
                &mut filter.prefixes,
            )));
        }
        filter.groups.extend(
            spec.context
                .map(|context| CompiledGroup::Context(ContextGroup::compile(context))),
        );
        filter.groups.extend(
            spec.time
                .map(|time| CompiledGroup::Time(TimeGroup::compile(time))),
        );
        if !spec.script.is_empty() {
            let script = ScriptGroup::compile(&spec.script);
            if let Some(what) = script.outside() {
                let what = format!("{what} in filters.script");
                return Err(CompileError::Unsupported(what));
            }
            filter.groups.push(CompiledGroup::Script(script));
        }
        filter.reads_data = filter.groups.iter().any(CompiledGroup::reads_data);
        Ok(filter)
    }

    /// Judges one event.
    #[must_use]
    pub fn evaluate(&self, event: &Event) -> Decision {
        self.judge(event, &mut Silent)
    }

    /// Judges one event and says why; the decision is that of [`Filter::evaluate`].
    #[must_use]
    pub fn explain(&self, event: &Event) -> Explanation {
        let mut listening = Listening::default();
        let decision = self.judge(event, &mut listening);
        let mut groups = listening.groups;
        if let Some(place) = deciding_place(&groups, self.operator) {
            groups[place].decided = true;
        }
        Explanation {
            passed: decision.passed,
            error: decision.error.map(|error| error.text),
            reason: decision.reason,
            operator: self.operator,
            groups,
        }
    }

    fn judge(&self, event: &Event, recorder: &mut impl Recorder) -> Decision {
        if self.absent {
            return Decision {
                passed: true,
                reason: Reason::Match,
                error: None,
            };
        }
        let data = event.data.as_deref().filter(|_| self.reads_data);
        let payload = Payload::new(data, &self.prefixes);
        let mut tally = Tally::new(self.operator);
        for group in &self.groups {
            if tally.stopped {
                group.skip(recorder);
            } else {
                tally.add(group.judge(event, &payload, recorder), group.is_script());
            }
        }
        tally.decide()
    }
}

impl CompiledGroup {
    fn judge(&self, event: &Event, payload: &Payload<'_>, recorder: &mut impl Recorder) -> Verdict {
        match self {
            Self::Exprs(group) => group.judge(payload, recorder),
            Self::Data(group) => group.judge(payload, recorder),
            Self::Context(group) => group.judge(event, recorder),
            Self::Time(group) => group.judge(event, recorder),
            Self::Script(group) => group.judge(payload, recorder),
        }
    }

    fn skip(&self, recorder: &mut impl Recorder) {
        match self {
            Self::Exprs(group) => group.skip(recorder),
            Self::Data(group) => group.skip(recorder),
            Self::Context(group) => group.skip(recorder),
            Self::Time(group) => group.skip(recorder),
            Self::Script(group) => group.skip(recorder),
        }
    }

    fn reads_data(&self) -> bool {
        matches!(self, Self::Exprs(_) | Self::Data(_) | Self::Script(_))
    }

    fn is_script(&self) -> bool {
        matches!(self, Self::Script(_))
    }
}

/// What one group came to.
#[derive(Debug)]
pub(super) struct Verdict {
    outcome: Outcome,
    reason: Reason,
    error: Option<String>,
}

impl Verdict {
    pub(super) fn passed(reason: Reason) -> Self {
        Self {
            outcome: Outcome::Passed,
            reason,
            error: None,
        }
    }

    pub(super) fn failed(reason: Reason) -> Self {
        Self {
            outcome: Outcome::Failed,
            reason,
            error: None,
        }
    }

    pub(super) fn error(reason: Reason, text: String) -> Self {
        Self {
            outcome: Outcome::Error,
            reason,
            error: Some(text),
        }
    }

    pub(super) fn outcome(&self) -> Outcome {
        self.outcome
    }

    pub(super) fn reason(&self) -> Reason {
        self.reason
    }

    pub(super) fn error_text(&self) -> Option<&str> {
        self.error.as_deref()
    }

    pub(super) fn report(
        &self,
        group: Group,
        operator: Operator,
        conditions: Vec<ConditionReport>,
    ) -> GroupReport {
        GroupReport {
            group,
            operator,
            outcome: self.outcome,
            reason: self.reason,
            error: self.error.clone(),
            decided: false,
            conditions,
        }
    }
}

impl GroupReport {
    pub(super) fn not_reached(group: Group, operator: Operator) -> Self {
        let verdict = Verdict {
            outcome: Outcome::NotReached,
            reason: Reason::Mismatch,
            error: None,
        };
        verdict.report(group, operator, Vec::new())
    }
}

/// Puts the groups together. With AND the first error ends it, while a mismatch does not, so a later group can still
/// turn the result into an error; with OR any error makes the result "not passed".
struct Tally {
    operator: Operator,
    any_passed: bool,
    first_failure: Option<Reason>,
    errors: Vec<String>,
    first_error: Option<Reason>,
    stopped: bool,
}

impl Tally {
    fn new(operator: Operator) -> Self {
        Self {
            operator,
            any_passed: false,
            first_failure: None,
            errors: Vec::new(),
            first_error: None,
            stopped: false,
        }
    }

    fn add(&mut self, verdict: Verdict, is_script: bool) {
        let Some(error) = verdict.error else {
            self.any_passed |= verdict.outcome == Outcome::Passed;
            if verdict.outcome == Outcome::Failed {
                self.first_failure.get_or_insert(verdict.reason);
            }
            return;
        };
        if is_script {
            // An error of the script is returned alone, whatever the others said.
            self.errors.clear();
            self.first_error = None;
        }
        self.first_error.get_or_insert(verdict.reason);
        self.errors.push(error);
        self.stopped = self.operator == Operator::And;
    }

    fn decide(self) -> Decision {
        if let Some(reason) = self.first_error {
            let error = FilterError {
                reason,
                text: self.errors.join(" / "),
            };
            return Decision {
                passed: false,
                reason,
                error: Some(error),
            };
        }
        let passed = match self.operator {
            Operator::And => self.first_failure.is_none(),
            Operator::Or => self.any_passed,
        };
        let reason = if passed {
            Reason::Match
        } else {
            self.first_failure.unwrap_or(Reason::Mismatch)
        };
        Decision {
            passed,
            reason,
            error: None,
        }
    }
}

/// The group that settled the decision, if one did alone.
fn deciding_place(groups: &[GroupReport], operator: Operator) -> Option<usize> {
    let first = |outcome: Outcome| groups.iter().position(|group| group.outcome == outcome);
    let script_error = groups
        .iter()
        .position(|group| group.group == Group::Script && group.outcome == Outcome::Error);
    let error = script_error.or_else(|| first(Outcome::Error));
    match operator {
        Operator::And => error.or_else(|| first(Outcome::Failed)),
        Operator::Or => error.or_else(|| first(Outcome::Passed)),
    }
}

#[cfg(test)]
mod tests;
