//! Script filters in their place among the other groups.

use super::explain::{Group, GroupReport, Operator, Reason, Recorder};
use super::filter::Verdict;
use super::payload::{Content, Payload};
use super::script::{Script, ScriptError};

/// `filters.script`, compiled.
#[derive(Debug)]
pub(super) struct ScriptGroup {
    /// A mistake in the script is an error only when an event reaches it.
    script: Result<Script, String>,
}

impl ScriptGroup {
    pub(super) fn compile(source: &str) -> Self {
        Self {
            script: Script::compile(source).map_err(|error| error.to_string()),
        }
    }

    pub(super) fn judge(&self, payload: &Payload<'_>, recorder: &mut impl Recorder) -> Verdict {
        let verdict = match (payload.content(), payload.data()) {
            (Content::Absent, _) | (_, None) => Verdict::passed(Reason::NoData),
            (Content::Invalid, Some(data)) => Verdict::error(Reason::InvalidJson, invalid(data)),
            (Content::Json(_), Some(data)) => self.run(data),
        };
        recorder.group(|conditions| verdict.report(Group::Script, Operator::And, conditions));
        verdict
    }

    pub(super) fn skip(&self, recorder: &mut impl Recorder) {
        recorder.group(|_| GroupReport::not_reached(Group::Script, Operator::And));
    }

    fn run(&self, data: &[u8]) -> Verdict {
        let script = match &self.script {
            Ok(script) => script,
            Err(error) => return Verdict::error(Reason::ScriptError, error.clone()),
        };
        match script.evaluate(data) {
            Ok(true) => Verdict::passed(Reason::Match),
            Ok(false) => Verdict::failed(Reason::ScriptFalse),
            Err(error @ ScriptError::Data(_)) => {
                Verdict::error(Reason::InvalidJson, error.to_string())
            }
            Err(error) => Verdict::error(Reason::ScriptError, error.to_string()),
        }
    }
}

fn invalid(data: &[u8]) -> String {
    if data.trim_ascii().is_empty() {
        "unexpected end of JSON input".to_owned()
    } else {
        "event data is not valid JSON".to_owned()
    }
}
