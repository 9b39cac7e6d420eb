//! Plays a lab without a learner: predictions and reports from the truth, fixes from the lab's own files.

use super::driver::{Driver, DriverError};
use crate::evidence::journal::Judgement;
use crate::evidence::{Layer, Row};
use crate::lab::{Failure, Lab, Stage, StageKind, WrongFix};
use crate::session::{Message, OpenReason, StageFailure, StagePhase};

/// So often a stage is done again whose request was to be early, and was not.
const MAX_RACES: usize = 5;

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
    Failed(Vec<StageFailure>),
    /// Could not see; some of the reasons may be of the environment: it could not look at all.
    Unproven(Vec<OpenReason>),
}

/// How a wrong fix went.
#[derive(Clone, Debug, PartialEq)]
pub enum WrongEnd {
    /// It failed, and for its own reason.
    AsItMust,
    Passes,
    OtherReason(Vec<StageFailure>),
    Unproven(Vec<OpenReason>),
    /// The stage came to no end.
    Stuck(String),
}

impl WrongEnd {
    /// What is wrong with it, in a sentence; `None` when it failed as it must.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        match self {
            WrongEnd::AsItMust => None,
            WrongEnd::Passes => Some("passes, and must fail".to_owned()),
            WrongEnd::OtherReason(failures) => Some(format!(
                "fails for another reason: {}",
                joined(failures.iter().map(|failure| failure.text.as_str()))
            )),
            WrongEnd::Unproven(reasons) => Some(format!(
                "stays unproven: {}",
                joined(reasons.iter().map(|reason| reason.text.as_str()))
            )),
            WrongEnd::Stuck(text) => Some(format!("comes to no end: {text}")),
        }
    }
}

fn joined<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.collect::<Vec<_>>().join("; ")
}

/// A report of progress.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    Stage {
        lab: String,
        number: usize,
        of: usize,
        stage: String,
        kind: StageKind,
        title: String,
        /// The stage only looks; nothing is judged.
        observe: bool,
        /// The manifest that a fix stage was tried with, below `manifests/`.
        tried: Option<String>,
        end: StageEnd,
        /// Every check of the stage.
        judgements: Vec<Judgement>,
    },
    WrongFix {
        lab: String,
        stage: String,
        name: String,
        why: String,
        /// How it must fail.
        wanted: Failure,
        end: WrongEnd,
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
            kind: stage.kind,
            title: stage.title.clone(),
            observe: stage.observe,
            tried: stage.fix.as_ref().map(|fix| fix.solution.clone()),
            end: end.clone(),
            judgements: judged(driver, lab, &stage),
        });
        match end {
            StageEnd::Passed => {}
            StageEnd::Failed(failures) => {
                let texts = failures.into_iter().map(|failure| failure.text);
                played.refuted.extend(texts);
                return Ok(played);
            }
            StageEnd::Unproven(reasons) => {
                played.environment |= reasons.iter().any(|reason| reason.environment);
                let texts = reasons.into_iter().map(|reason| reason.text);
                played.unproven.extend(texts);
                return Ok(played);
            }
        }
        if present(driver, lab).is_some_and(|(now, _)| now == index) {
            driver.tell(Message::Next)?;
        }
    }
    Ok(played)
}

/// The judgements of a stage, while the session still stands there.
fn judged(driver: &Driver, lab: &Lab, stage: &Stage) -> Vec<Judgement> {
    if stands_at(driver, lab, stage) {
        driver.state().judgements().to_vec()
    } else {
        Vec::new()
    }
}

/// Whether the session stands at this stage: that of another lab may have the same name.
fn stands_at(driver: &Driver, lab: &Lab, stage: &Stage) -> bool {
    let state = driver.state();
    state.lab().is_some_and(|here| here.name == lab.name)
        && state.stage().is_some_and(|here| here.name == stage.name)
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
    // As an earlier process has left it.
    let left_open = matches!(
        driver.state().phase(),
        StagePhase::Interrupted { .. } | StagePhase::Unproven { .. }
    );
    match stage.kind {
        StageKind::Predict => predict(driver, lab, stage)?,
        StageKind::Report => claim(driver, stage)?,
        StageKind::Fix => {
            let untouched = driver.state().phase().clone();
            for wrong in chosen(stage, tries) {
                let end = try_wrong(driver, stage, wrong).await?;
                if let Some(text) = end.complaint() {
                    let text =
                        format!("stage `{}`, wrong fix `{}`: {text}", stage.name, wrong.name);
                    match &end {
                        // Nobody saw whether it fails.
                        WrongEnd::Unproven(reasons) => {
                            played.environment |= reasons.iter().any(|reason| reason.environment);
                            played.unproven.push(text);
                        }
                        _ => played.refuted.push(text),
                    }
                }
                report(Progress::WrongFix {
                    lab: lab.name.clone(),
                    stage: stage.name.clone(),
                    name: wrong.name.clone(),
                    why: wrong.why.clone(),
                    wanted: wrong.fails.clone(),
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
    if !matches!(
        driver.state().phase(),
        StagePhase::Passed | StagePhase::Working { .. }
    ) {
        driver.tell(Message::Next)?;
    }
    settle(driver).await?;
    // What was cut off and cannot be proven any more is done again, with new traces: the learner's key. So is a stage whose
    // request was to be early, and was not.
    let mut cut_off = left_open;
    for _ in 0..MAX_RACES {
        let phase = driver.state().phase();
        let again =
            phase.is_too_late() || (cut_off && matches!(phase, StagePhase::Unproven { .. }));
        if !again {
            break;
        }
        cut_off = false;
        driver.tell(Message::Retry)?;
        settle(driver).await?;
    }
    Ok(end_of(driver, lab, stage))
}

/// A stage that was left has passed; one without work is left by the same key that passes it.
fn end_of(driver: &Driver, lab: &Lab, stage: &Stage) -> StageEnd {
    let state = driver.state();
    let open = |text: String, environment: bool| {
        StageEnd::Unproven(vec![OpenReason {
            probe: None,
            reason: "session".to_owned(),
            text,
            environment,
        }])
    };
    if !state.drift().is_empty() {
        let text = state.drift().join("; ");
        return open(
            format!("the cluster differs from this session: {text}"),
            true,
        );
    }
    if !stands_at(driver, lab, stage) {
        return StageEnd::Passed;
    }
    match state.phase() {
        StagePhase::Passed => StageEnd::Passed,
        StagePhase::Failed { failures } => StageEnd::Failed(failures.clone()),
        StagePhase::Unproven { reasons } => StageEnd::Unproven(reasons.clone()),
        StagePhase::Fresh if state.finished() => StageEnd::Passed,
        other => open(
            state
                .notice()
                .map_or_else(|| format!("the stage stands at {other:?}"), str::to_owned),
            false,
        ),
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
    let layer = task.layer.or_else(|| row.first_failing());
    let gate = driver.state().failed_gate(&task.stage);
    let of_gate = gate.iter().find(|(at, _)| Some(*at) == layer);
    let own = row.cell(layer.unwrap_or(Layer::Effect)).facts.first();
    let fact = own
        .copied()
        .or(of_gate.map(|(_, seq)| *seq))
        .or(row.facts().first().copied())
        .or(gate.first().map(|(_, seq)| *seq))
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
) -> Result<WrongEnd, DriverError> {
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
            WrongEnd::AsItMust
        }
        StagePhase::Failed { failures } => WrongEnd::OtherReason(failures.clone()),
        StagePhase::Passed => WrongEnd::Passes,
        StagePhase::Unproven { reasons } => WrongEnd::Unproven(reasons.clone()),
        other => WrongEnd::Stuck(
            driver
                .state()
                .notice()
                .map_or_else(|| format!("the stage stands at {other:?}"), str::to_owned),
        ),
    })
}

/// Puts a file of the lab in the place of the working copy.
fn edit(driver: &mut Driver, manifest: &str, from: &str) -> Result<(), DriverError> {
    let text = driver.original(from);
    driver.write_copy(manifest, &text)?;
    driver.tell(Message::Edited {
        manifest: manifest.to_owned(),
    })
}
