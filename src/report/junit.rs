//! JUnit XML of a run, for CI servers: a suite a lab, a case a check; what stayed unproven is an error, not a failure.
//!
//! It holds to the schema that Jenkins' xUnit plugin checks files against (`junit-10.xsd`), which is narrower than what
//! others take: no properties below a case, and no count of skipped cases at the top.

use std::time::Instant;

use jiff::Timestamp;
use quick_junit::{
    NonSuccessKind, Property, Report, SerializeError, TestCase, TestCaseStatus, TestSuite,
};

use crate::evidence::Outcome;
use crate::evidence::journal::Judgement;
use crate::lab::{Lab, StageKind};
use crate::runner::autopilot::{Played, Progress, StageEnd, WrongEnd};

/// Collects cases while labs are played.
#[derive(Debug)]
pub struct Junit {
    /// Cases of the lab that is played.
    open: Vec<TestCase>,
    suites: Vec<TestSuite>,
    /// When that lab was begun.
    begun: (Timestamp, Instant),
}

impl Default for Junit {
    fn default() -> Self {
        Self {
            open: Vec::new(),
            suites: Vec::new(),
            begun: now(),
        }
    }
}

fn now() -> (Timestamp, Instant) {
    (Timestamp::now(), Instant::now())
}

impl Junit {
    /// Takes one step of a lab.
    pub fn progress(&mut self, progress: &Progress) {
        match progress {
            Progress::Stage {
                lab,
                stage,
                kind,
                observe,
                end,
                judgements,
                ..
            } => {
                let class = format!("{lab}.{stage}");
                for judgement in judgements {
                    self.add(&class, check(judgement));
                }
                let held = |one: &Judgement| one.verdict.outcome == Outcome::Proven;
                let fell = !matches!(end, StageEnd::Passed);
                if judgements.is_empty() || (fell && judgements.iter().all(held)) {
                    self.stage_without_checks(&class, *kind, *observe, end);
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
                case.set_system_out(format!("why: {why}"));
                self.add(&format!("{lab}.{stage}"), case);
            }
        }
    }

    /// A stage that came to no check: its gate, its apply, its report.
    fn stage_without_checks(
        &mut self,
        class: &str,
        kind: StageKind,
        observe: bool,
        end: &StageEnd,
    ) {
        match end {
            // Nothing is claimed by a text that was read, nor by a look.
            StageEnd::Passed
                if observe
                    || matches!(
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

    /// Ends the suite of a lab. One that did not hold is not all green, whatever it was that did not.
    pub fn lab(&mut self, lab: &Lab, played: &Played) {
        if !played.proven() && self.open.iter().all(is_green) {
            let class = lab.name.as_str();
            for text in &played.refuted {
                self.add(class, named(NonSuccessKind::Failure, "refuted", text));
            }
            for text in &played.unproven {
                self.add(class, named(NonSuccessKind::Error, "unproven", text));
            }
        }
        let mut suite = self.suite(&lab.name);
        suite.add_property(property("title", lab.title.as_str()));
        if let Some(drawn) = &lab.drawn {
            suite.add_property(property("seed", drawn.seed.to_string()));
        }
        self.suites.push(suite);
    }

    /// What was collected since the last one.
    fn suite(&mut self, name: &str) -> TestSuite {
        let (began, since) = std::mem::replace(&mut self.begun, now());
        let mut suite = TestSuite::new(name);
        // The oldest readers know no zone and no fraction.
        let began = began.strftime("%Y-%m-%dT%H:%M:%S").to_string();
        suite.extra.insert("timestamp".into(), began.into());
        suite.set_time(since.elapsed());
        suite.add_test_cases(std::mem::take(&mut self.open));
        suite
    }

    /// Says that the run ended before everything was played: what went well until then is not all.
    pub fn cut_off(&mut self, why: &str) {
        self.add("run", named(NonSuccessKind::Error, "cut-off", why));
    }

    /// The document. Cases of a lab that was cut off are in a suite of their own.
    ///
    /// # Errors
    /// What XML cannot hold; there is nothing of it in a run.
    pub fn render(mut self) -> Result<String, SerializeError> {
        let mut report = Report::new("eventlab");
        if !self.open.is_empty() {
            if self.open.iter().all(is_green) {
                self.cut_off("the lab was not played to its end");
            }
            let suite = self.suite("interrupted");
            self.suites.push(suite);
        }
        report.add_test_suites(self.suites);
        // Of the whole there is no such number in the schema.
        let skipped = format!(" skipped=\"{}\"", report.skipped);
        let document = report.to_string()?.replacen(&skipped, "", 1);
        // No characters, and the only ones that are left to stand where XML has none.
        Ok(document.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}"))
    }
}

fn is_green(case: &TestCase) -> bool {
    matches!(case.status, TestCaseStatus::Success { .. })
}

fn named(kind: NonSuccessKind, reason: &str, text: &str) -> TestCase {
    let mut case = bad(kind, reason, text);
    case.name = text.into();
    case
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
    let optional = [
        ("probe", judgement.probe.clone()),
        (
            "expected",
            judgement.expected.as_ref().map(ToString::to_string),
        ),
        ("seen", judgement.observed.as_ref().map(ToString::to_string)),
        ("right", judgement.access.as_ref().map(ToString::to_string)),
    ];
    let mut lines = vec![format!("attempt: {}", judgement.attempt)];
    let told = optional
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    lines.extend(told.map(|(name, value)| format!("{name}: {value}")));
    let facts: Vec<String> = verdict.facts.iter().map(ToString::to_string).collect();
    lines.push(format!("facts: {}", facts.join(" ")));
    case.set_system_out(lines.join("\n"));
    case
}

fn property(name: &str, value: impl AsRef<str>) -> Property {
    Property::new(name, value.as_ref())
}

#[cfg(test)]
mod tests;
