//! Context filters: equality on four attributes of the event.

use super::event::Event;
use super::explain::{
    ConditionReport, Found, Group, GroupReport, Operator, Outcome, Reason, Recorder, ValueReport,
};
use super::filter::Verdict;
use super::spec::ContextSpec;

/// `filters.context`, compiled: attribute names and wanted values, those that are not empty.
#[derive(Debug)]
pub(super) struct ContextGroup {
    wanted: Vec<(Attribute, String)>,
}

#[derive(Debug, Clone, Copy)]
enum Attribute {
    Type,
    Subject,
    Source,
    DataContentType,
}

impl Attribute {
    fn name(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Subject => "subject",
            Self::Source => "source",
            Self::DataContentType => "datacontenttype",
        }
    }

    fn of(self, event: &Event) -> &str {
        match self {
            Self::Type => &event.r#type,
            Self::Subject => &event.subject,
            Self::Source => &event.source,
            Self::DataContentType => &event.datacontenttype,
        }
    }
}

impl ContextGroup {
    pub(super) fn compile(spec: ContextSpec) -> Self {
        let all = [
            (Attribute::Type, spec.kind),
            (Attribute::Subject, spec.subject),
            (Attribute::Source, spec.source),
            (Attribute::DataContentType, spec.datacontenttype),
        ];
        Self {
            wanted: all
                .into_iter()
                .filter(|(_, wanted)| !wanted.is_empty())
                .collect(),
        }
    }

    pub(super) fn judge(&self, event: &Event, recorder: &mut impl Recorder) -> Verdict {
        let mut passed = true;
        for (attribute, wanted) in &self.wanted {
            let found = attribute.of(event);
            let decides = passed && found != wanted;
            passed &= found == wanted;
            recorder.condition(|| report(*attribute, wanted, found, decides));
        }
        let verdict = if passed {
            Verdict::passed(Reason::Match)
        } else {
            Verdict::failed(Reason::Mismatch)
        };
        recorder.group(|conditions| verdict.report(Group::Context, Operator::And, conditions));
        verdict
    }

    pub(super) fn skip(&self, recorder: &mut impl Recorder) {
        recorder.group(|_| GroupReport::not_reached(Group::Context, Operator::And));
    }
}

fn report(attribute: Attribute, wanted: &str, found: &str, decided: bool) -> ConditionReport {
    let (outcome, reason) = if wanted == found {
        (Outcome::Passed, Reason::Match)
    } else {
        (Outcome::Failed, Reason::Mismatch)
    };
    ConditionReport {
        path: attribute.name().to_owned(),
        r#type: "context".to_owned(),
        comparator: "=".to_owned(),
        comparator_ignored: false,
        found: Some(Found {
            kind: "String",
            raw: found.to_owned(),
            coerced: found.to_owned(),
        }),
        values: vec![ValueReport {
            value: wanted.to_owned(),
            outcome,
        }],
        outcome,
        reason,
        error: None,
        decided,
    }
}
