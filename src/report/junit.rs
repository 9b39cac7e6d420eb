//! JUnit XML of a run, for CI servers: a suite a lab, a case a check; what stayed unproven is an error, not a failure.

use quick_junit::{
    NonSuccessKind, Property, Report, SerializeError, TestCase, TestCaseStatus, TestSuite,
};

use crate::evidence::Outcome;
use crate::evidence::journal::Judgement;
use crate::lab::{Lab, StageKind};
use crate::runner::autopilot::{Progress, StageEnd, WrongEnd};

/// Collects cases while labs are played.
#[derive(Debug, Default)]
pub struct Junit {
    /// Cases of the lab that is played.
    open: Vec<TestCase>,
    suites: Vec<TestSuite>,
}

impl Junit {
    /// Takes one step of a lab.
    pub fn progress(&mut self, progress: &Progress) {
        match progress {
            Progress::Stage {
                lab,
                stage,
                kind,
                end,
                judgements,
                ..
            } => {
                let class = format!("{lab}.{stage}");
                for judgement in judgements {
                    self.add(&class, check(judgement));
                }
                if judgements.is_empty() {
                    self.stage_without_checks(&class, *kind, end);
                }
            }
            Progress::WrongFix {
                lab,
                stage,
                name,
                why,
                end,
                ..
            } => {
                let mut case = match (end, end.complaint()) {
                    (_, None) => TestCase::new("", TestCaseStatus::success()),
                    (WrongEnd::Unproven(_) | WrongEnd::Stuck(_), Some(text)) => {
                        bad(NonSuccessKind::Error, "unproven", &text)
                    }
                    (_, Some(text)) => bad(NonSuccessKind::Failure, "refuted", &text),
                };
                case.name = format!("wrong fix {name} fails as it must").into();
                case.add_property(property("why", why.as_str()));
                self.add(&format!("{lab}.{stage}"), case);
            }
        }
    }

    /// A stage that came to no check: its gate, its apply, its report.
    fn stage_without_checks(&mut self, class: &str, kind: StageKind, end: &StageEnd) {
        match end {
            // Nothing is claimed by a text that was read.
            StageEnd::Passed
                if matches!(
                    kind,
                    StageKind::Read | StageKind::Predict | StageKind::Debrief
                ) => {}
            StageEnd::Passed => {
                let name = format!("{kind:?} ends well").to_lowercase();
                self.add(class, TestCase::new(name, TestCaseStatus::success()));
            }
            StageEnd::Failed(failures) => {
                for failure in failures {
                    let mut case = bad(NonSuccessKind::Failure, &failure.reason, &failure.text);
                    case.name = failure
                        .probe
                        .clone()
                        .unwrap_or_else(|| failure.reason.clone())
                        .into();
                    self.add(class, case);
                }
            }
            StageEnd::Unproven(reasons) => {
                for reason in reasons {
                    let mut case = bad(NonSuccessKind::Error, &reason.reason, &reason.text);
                    case.name = reason
                        .probe
                        .clone()
                        .unwrap_or_else(|| reason.reason.clone())
                        .into();
                    self.add(class, case);
                }
            }
        }
    }

    fn add(&mut self, class: &str, mut case: TestCase) {
        case.set_classname(class);
        self.open.push(case);
    }

    /// Ends the suite of a lab.
    pub fn lab(&mut self, lab: &Lab) {
        let mut suite = TestSuite::new(lab.name.as_str());
        suite.add_property(property("title", lab.title.as_str()));
        if let Some(drawn) = &lab.drawn {
            suite.add_property(property("seed", drawn.seed.to_string()));
        }
        suite.add_test_cases(std::mem::take(&mut self.open));
        self.suites.push(suite);
    }

    /// The document. Cases of a lab that was cut off are in a suite of their own.
    ///
    /// # Errors
    /// What XML cannot hold; there is nothing of it in a run.
    pub fn render(mut self) -> Result<String, SerializeError> {
        let mut report = Report::new("eventlab");
        report.add_test_suites(self.suites);
        if !self.open.is_empty() {
            let mut suite = TestSuite::new("interrupted");
            suite.add_test_cases(std::mem::take(&mut self.open));
            report.add_test_suite(suite);
        }
        report.to_string()
    }
}

/// A case that is to be named.
fn bad(kind: NonSuccessKind, reason: &str, text: &str) -> TestCase {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_type(reason).set_message(text);
    TestCase::new("", status)
}

fn check(judgement: &Judgement) -> TestCase {
    let verdict = &judgement.verdict;
    let text = verdict.because.clone().unwrap_or_default();
    let mut case = match verdict.outcome {
        Outcome::Proven => TestCase::new("", TestCaseStatus::success()),
        Outcome::Refuted => bad(NonSuccessKind::Failure, "refuted", &text),
        Outcome::Unproven => bad(NonSuccessKind::Error, "unproven", &text),
    };
    case.name = verdict.claim.as_str().into();
    case.add_property(property("attempt", judgement.attempt.to_string()));
    let optional = [
        ("probe", judgement.probe.clone()),
        (
            "expected",
            judgement.expected.as_ref().map(ToString::to_string),
        ),
        ("seen", judgement.observed.as_ref().map(ToString::to_string)),
        ("right", judgement.access.as_ref().map(ToString::to_string)),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            case.add_property(property(name, value));
        }
    }
    let facts: Vec<String> = verdict.facts.iter().map(ToString::to_string).collect();
    case.add_property(property("facts", facts.join(" ")));
    case
}

fn property(name: &str, value: impl AsRef<str>) -> Property {
    Property::new(name, value.as_ref())
}
