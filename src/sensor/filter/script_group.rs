//! The script of a filter as one of its groups.

use crate::sensor::explain::{Group, GroupReport, Operator, Reason, Recorder};
use crate::sensor::payload::{Content, Payload};
use crate::sensor::script::{Script, ScriptError};

use super::Verdict;

/// `filters.script`, compiled; what does not compile is an error at every event, as upstream.
#[derive(Debug)]
pub(super) struct ScriptGroup {
    script: Result<Script, ScriptError>,
}

impl ScriptGroup {
    pub(super) fn compile(source: &str) -> Self {
        Self {
            script: Script::compile(source),
        }
    }

    /// What of the script upstream's engine runs and this one cannot.
    pub(super) fn outside(&self) -> Option<&str> {
        match &self.script {
            Err(ScriptError::Outside(what)) => Some(what),
            _ => None,
        }
    }

    pub(super) fn judge(&self, payload: &Payload<'_>, recorder: &mut impl Recorder) -> Verdict {
        let verdict = match payload.content() {
            Content::Absent => Verdict::passed(Reason::NoData),
            Content::Invalid => Verdict::error(Reason::InvalidJson, payload.invalid_text()),
            Content::Json(_) => self.run(payload),
        };
        recorder.group(|conditions| verdict.report(Group::Script, Operator::And, conditions));
        verdict
    }

    pub(super) fn skip(&self, recorder: &mut impl Recorder) {
        recorder.group(|_| GroupReport::not_reached(Group::Script, Operator::And));
    }

    fn run(&self, payload: &Payload<'_>) -> Verdict {
        let script = match &self.script {
            Ok(script) => script,
            Err(error) => return failed(error),
        };
        match script.evaluate(payload.bytes()) {
            Ok(true) => Verdict::passed(Reason::Match),
            Ok(false) => Verdict::failed(Reason::ScriptFalse),
            Err(error) => failed(&error),
        }
    }
}

fn failed(error: &ScriptError) -> Verdict {
    let reason = if error.is_own() {
        Reason::TooComplex
    } else {
        Reason::ScriptError
    };
    Verdict::error(reason, error.to_string())
}
