//! Plays a lab without a learner: predictions and reports from the truth, fixes from the lab's own files.

use super::driver::{Driver, DriverError};
use crate::evidence::{Layer, Row};
use crate::lab::{Failure, Lab, Stage, StageKind, WrongFix};
use crate::session::{Message, StageFailure, StagePhase};

/// Which fixes are tried before the solution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tries {
    /// The solution at once.
    Solution,
    /// Every wrong fix first; each must fail for its own reason.
    EveryWrongFix,
    /// A sample of the wrong fixes, chosen by this number.
    Sample(u64),
}

/// How a stage went.
#[derive(Clone, Debug, PartialEq)]
pub enum StageEnd {
    Passed,
    Failed(Vec<String>),
    /// Could not see; `environment` when it could not look at all.
    Unproven {
        reasons: Vec<String>,
        environment: bool,
    },
}

/// A report of progress.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    Stage {
        lab: String,
        number: usize,
        of: usize,
        stage: String,
        title: String,
        end: StageEnd,
    },
    WrongFix {
        lab: String,
        name: String,
        why: String,
        end: Result<(), String>,
    },
}

/// How a lab went: the first stage that did not pass ends it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Played {
    pub refuted: Vec<String>,
    pub unproven: Vec<String>,
    pub environment: bool,
}

impl Played {
    /// Everything passed and every wrong fix failed as it must.
    #[must_use]
    pub fn proven(&self) -> bool {
        self.refuted.is_empty() && self.unproven.is_empty()
    }
}

/// Plays a lab from its first stage to its last.
///
/// # Errors
/// The session's files cannot be written any more.
pub async fn play(
    driver: &mut Driver,
    lab: &Lab,
    tries: Tries,
    report: &mut (dyn FnMut(Progress) + Send),
) -> Result<Played, DriverError> {
    enter(driver, lab).await?;
    let mut played = Played::default();
    while let Some((index, stage)) = present(driver, lab) {
        let end = play_stage(driver, lab, &stage, tries, &mut played, report).await?;
        report(Progress::Stage {
            lab: lab.name.clone(),
            number: index + 1,
            of: lab.stages.len(),
            stage: stage.name.clone(),
            title: stage.title.clone(),
            end: end.clone(),
        });
        match end {
            StageEnd::Passed => {}
            StageEnd::Failed(failures) => {
                played.refuted.extend(failures);
                return Ok(played);
            }
            StageEnd::Unproven {
                reasons,
                environment,
            } => {
                played.unproven.extend(reasons);
                played.environment |= environment;
                return Ok(played);
            }
        }
        if present(driver, lab).is_some_and(|(now, _)| now == index) {
            driver.tell(Message::Next)?;
        }
    }
    Ok(played)
}

/// Goes to the lab's first stage, or stays where a session that was cut off stands in it.
async fn enter(driver: &mut Driver, lab: &Lab) -> Result<(), DriverError> {
    let state = driver.state();
    let here = state.lab().is_some_and(|here| here.name == lab.name);
    let cut_off =
        here && !state.finished() && state.progress_here().is_none_or(|lab| !lab.completed);
    if !cut_off {
        driver.tell(Message::GoTo {
            lab: lab.name.clone(),
            stage: 0,
        })?;
    }
    settle(driver).await
}

/// The stage where the session stands, while it stands in this lab and the lab is not done.
fn present(driver: &Driver, lab: &Lab) -> Option<(usize, Stage)> {
    let state = driver.state();
    let here = state.lab().is_some_and(|here| here.name == lab.name) && !state.finished();
    here.then(|| {
        state
            .stage()
            .map(|stage| (state.stage_index(), stage.clone()))
    })
    .flatten()
}

async fn play_stage(
    driver: &mut Driver,
    lab: &Lab,
    stage: &Stage,
    tries: Tries,
    played: &mut Played,
    report: &mut (dyn FnMut(Progress) + Send),
) -> Result<StageEnd, DriverError> {
    match stage.kind {
        StageKind::Predict => predict(driver, lab, stage)?,
        StageKind::Report => claim(driver, stage)?,
        StageKind::Fix => {
            let untouched = driver.state().phase().clone();
            for wrong in chosen(stage, tries) {
                let end = try_wrong(driver, stage, wrong).await?;
                if let Err(text) = &end {
                    played
                        .refuted
                        .push(format!("wrong fix `{}`: {text}", wrong.name));
                }
                report(Progress::WrongFix {
                    lab: lab.name.clone(),
                    name: wrong.name.clone(),
                    why: wrong.why.clone(),
                    end,
                });
            }
            if let Some(fix) = &stage.fix {
                edit(driver, &fix.manifest, &fix.solution)?;
            }
            // A wrong fix that passed has passed the stage; the solution is still to be tried.
            if *driver.state().phase() == StagePhase::Passed && untouched != StagePhase::Passed {
                driver.tell(Message::Retry)?;
            }
        }
        _ => {}
    }
    let cut_off = matches!(driver.state().phase(), StagePhase::Interrupted { .. });
    if !matches!(
        driver.state().phase(),
        StagePhase::Passed | StagePhase::Working { .. }
    ) {
        driver.tell(Message::Next)?;
    }
    settle(driver).await?;
    // What was cut off and cannot be proven any more is done again, with new traces: the learner's key.
    if cut_off && matches!(driver.state().phase(), StagePhase::Unproven { .. }) {
        driver.tell(Message::Retry)?;
        settle(driver).await?;
    }
    Ok(end_of(driver, stage))
}

/// A stage that was left has passed; one without work is left by the same key that passes it.
fn end_of(driver: &Driver, stage: &Stage) -> StageEnd {
    let state = driver.state();
    if !state.drift().is_empty() {
        let text = state.drift().join("; ");
        return StageEnd::Unproven {
            reasons: vec![format!("the cluster differs from this session: {text}")],
            environment: true,
        };
    }
    if state.stage().is_none_or(|here| here.name != stage.name) {
        return StageEnd::Passed;
    }
    match state.phase() {
        StagePhase::Passed => StageEnd::Passed,
        StagePhase::Failed { failures } => StageEnd::Failed(
            failures
                .iter()
                .map(|failure| failure.text.clone())
                .collect(),
        ),
        StagePhase::Unproven { reasons } => StageEnd::Unproven {
            reasons: reasons.iter().map(|reason| reason.text.clone()).collect(),
            environment: reasons.iter().any(|reason| reason.environment),
        },
        StagePhase::Fresh if state.finished() => StageEnd::Passed,
        other => StageEnd::Unproven {
            reasons: vec![
                state
                    .notice()
                    .map_or_else(|| format!("the stage stands at {other:?}"), str::to_owned),
            ],
            environment: false,
        },
    }
}

/// Waits until nothing is under way.
async fn settle(driver: &mut Driver) -> Result<(), DriverError> {
    while matches!(driver.state().phase(), StagePhase::Working { .. }) {
        let message = driver.next().await;
        driver.take(message)?;
    }
    Ok(())
}

fn predict(driver: &mut Driver, lab: &Lab, stage: &Stage) -> Result<(), DriverError> {
    let predicted = lab
        .stages
        .iter()
        .find(|other| Some(&other.name) == stage.predicts.as_ref());
    for probe in predicted.into_iter().flat_map(|stage| &stage.probes) {
        driver.tell(Message::Predict {
            probe: probe.name.clone(),
            stops_at: probe.fate.stops_at(),
        })?;
    }
    Ok(())
}

fn claim(driver: &mut Driver, stage: &Stage) -> Result<(), DriverError> {
    let Some(task) = &stage.report else {
        return Ok(());
    };
    let rows = driver.state().rows();
    let row = rows
        .iter()
        .find(|row| row.probe == task.probe)
        .cloned()
        .unwrap_or_else(|| Row::blank(&task.probe));
    let layer = row.first_failing();
    let fact = row
        .cell(layer.unwrap_or(Layer::Effect))
        .facts
        .first()
        .copied()
        .unwrap_or_default();
    let cause = task
        .causes
        .iter()
        .find(|cause| cause.right)
        .map(|cause| cause.text.clone())
        .unwrap_or_default();
    let open = task
        .not_proven
        .iter()
        .find(|point| point.open)
        .map(|point| point.text.clone())
        .unwrap_or_default();
    let claims = [
        ("layer", layer.map_or("none", Layer::name).to_owned()),
        ("fact", fact.to_string()),
        ("cause", cause),
        ("not-proven", open),
    ];
    for (topic, answer) in claims {
        driver.tell(Message::Report {
            topic: topic.to_owned(),
            answer,
        })?;
    }
    Ok(())
}

fn chosen(stage: &Stage, tries: Tries) -> Vec<&WrongFix> {
    let all = stage.fix.iter().flat_map(|fix| &fix.wrong);
    match tries {
        Tries::Solution => Vec::new(),
        Tries::EveryWrongFix => all.collect(),
        Tries::Sample(seed) => {
            let all: Vec<_> = all.collect();
            let place = usize::try_from(seed).unwrap_or(0) % all.len().max(1);
            all.into_iter().skip(place).take(1).collect()
        }
    }
}

async fn try_wrong(
    driver: &mut Driver,
    stage: &Stage,
    wrong: &WrongFix,
) -> Result<Result<(), String>, DriverError> {
    if let Some(fix) = &stage.fix {
        edit(driver, &fix.manifest, &wrong.manifest)?;
    }
    // Where a wrong fix before has passed, `next` would leave the stage.
    let again = *driver.state().phase() == StagePhase::Passed;
    driver.tell(if again { Message::Retry } else { Message::Next })?;
    settle(driver).await?;
    Ok(match driver.state().phase() {
        StagePhase::Failed { failures }
            if failures.iter().any(|failure| failure.is(&wrong.fails)) =>
        {
            Ok(())
        }
        StagePhase::Failed { failures } => Err(format!(
            "fails for another reason than {}: {}",
            wanted(&wrong.fails),
            texts(failures)
        )),
        StagePhase::Passed => Err(format!("passes, and must fail: {}", wrong.why)),
        StagePhase::Unproven { reasons } => Err(format!(
            "stays unproven: {}",
            reasons
                .iter()
                .map(|reason| reason.text.as_str())
                .collect::<Vec<_>>()
                .join("; ")
        )),
        other => Err(format!("ends at {other:?}")),
    })
}

fn texts(failures: &[StageFailure]) -> String {
    failures
        .iter()
        .map(|failure| format!("{} ({:?})", failure.text, failure.observed))
        .collect::<Vec<_>>()
        .join("; ")
}

fn wanted(failure: &Failure) -> String {
    match failure {
        Failure::Probe(probe) => format!("{} being {:?}", probe.probe, probe.observed),
        Failure::Gate(gate) => format!("gate {}", gate.gate),
        Failure::Access(access) => format!("access to {}", access.access),
    }
}

/// Puts a file of the lab in the place of the working copy.
fn edit(driver: &mut Driver, manifest: &str, from: &str) -> Result<(), DriverError> {
    let text = driver.original(from);
    driver.write_copy(manifest, &text)?;
    driver.tell(Message::Edited {
        manifest: manifest.to_owned(),
    })
}
