//! Runs one effect after another and answers each with a message.
//!
//! Its intent is on disk before an effect gets here. A cancelled effect answers nothing any more.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::applying::{self, rename_dependencies};
use super::expected::subscriptions;
use super::facts::{self, Place};
use super::observer::{Focus, Observer};
use super::{fault, gate, looking, sending};
use crate::cluster::{
    self, AccessQuestion, ApplyError, Cluster, Fingerprint, LookError, Manifest, RewindError,
    SendError,
};
use crate::evidence::{Expectation, Fact, OrderExpectation, Right};
use crate::kinds;
use crate::lab::{Catalog, GateMode, Probe};
use crate::session::files::WorkingCopies;
use crate::session::message::{GateReport, SendOutcome, StepError};
use crate::session::{Effect, Message};
use crate::session::{NO_SNAPSHOT, uses_working_copy};

/// How long a session waits before it says "could not see".
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For an open gate; `None` waits until the learner cancels.
    pub gate: Option<Duration>,
    /// For what keeps the gate shut and will not change by itself: an image may be pulled at the second try, a controller
    /// may be about to look.
    pub stuck: Duration,
    /// For the rows of a stage.
    pub collect: Duration,
}

impl Patience {
    /// Of commands that wait for nobody to cancel them.
    pub const COMMAND: Patience = Patience {
        gate: Some(Duration::from_secs(60)),
        stuck: Duration::from_secs(10),
        collect: Duration::from_secs(30),
    };
}

impl Default for Patience {
    fn default() -> Self {
        let Self { stuck, collect, .. } = Self::COMMAND;
        Self {
            gate: None,
            stuck,
            collect,
        }
    }
}

/// Everything effects need.
pub struct Worker {
    pub cluster: Cluster,
    pub catalog: Arc<Catalog>,
    pub copies: WorkingCopies,
    pub observer: Arc<Observer>,
    pub messages: mpsc::UnboundedSender<(u64, Message)>,
    pub patience: Patience,
}

/// An effect with the generation that asked for it.
pub struct Job {
    pub generation: u64,
    pub cancel: CancellationToken,
    pub effect: Effect,
}

/// Which effect an answer belongs to.
struct Asked {
    generation: u64,
    about: String,
}

impl Worker {
    /// Works until the sender of jobs is dropped.
    pub async fn run(self, mut jobs: mpsc::UnboundedReceiver<Job>) {
        while let Some(job) = jobs.recv().await {
            if job.cancel.is_cancelled() {
                continue;
            }
            if keeps_going(&job.effect) {
                self.work(job).await;
                continue;
            }
            let cancel = job.cancel.clone();
            tokio::select! {
                () = cancel.cancelled() => {}
                () = self.work(job) => {}
            }
        }
    }

    fn answer(&self, asked: &Asked, message: Message) {
        fault::point("after effect", || asked.about.clone());
        // The driver is gone at the end of the session; nobody waits for the answer then.
        let _ = self.messages.send((asked.generation, message));
    }

    async fn work(&self, job: Job) {
        let asked = Asked {
            generation: job.generation,
            about: fault::about_effect(&job.effect),
        };
        fault::point("before effect", || asked.about.clone());
        match job.effect {
            Effect::Apply {
                lab,
                stage,
                attempt,
                manifests,
            } => {
                let mut fingerprints = Vec::new();
                let applied = self
                    .apply(&lab, &stage, attempt, &manifests, &mut fingerprints)
                    .await;
                let before = match &applied {
                    Ok(change) => change.clone().map(|diff| Message::Changed { diff }),
                    Err(_) => Some(Message::AppliedInPart {
                        fingerprints: fingerprints.clone(),
                    }),
                };
                if let Some(message) = before {
                    // The effect's own answer follows: one place to die at after it, not two of one name.
                    let _ = self.messages.send((asked.generation, message));
                }
                let result = applied.map(|_| fingerprints);
                self.answer(&asked, Message::Applied { attempt, result });
            }
            Effect::Act {
                action, attempt, ..
            } => {
                let result = self.act(&action, attempt).await;
                self.answer(&asked, Message::Acted { action, result });
            }
            Effect::OpenGate {
                lab,
                stage,
                attempt,
                mode,
            } => {
                self.focus(&lab, &stage, attempt).await;
                let place = Place {
                    lab,
                    stage,
                    attempt,
                    probe: None,
                };
                self.open_gate(&asked, mode, &place).await;
            }
            Effect::Send {
                lab,
                stage,
                attempt,
                trace,
                probe,
            } => {
                let outcome = self
                    .send(
                        Place {
                            lab,
                            stage,
                            attempt,
                            probe: Some(probe.name.clone()),
                        },
                        &trace,
                        &probe,
                    )
                    .await;
                self.answer(
                    &asked,
                    Message::Sent {
                        probe: probe.name.clone(),
                        trace,
                        outcome,
                    },
                );
            }
            Effect::Collect {
                lab,
                stage,
                attempt,
                probes,
            } => {
                self.focus(&lab, &stage, attempt).await;
                let expected = probes
                    .into_iter()
                    .map(|(probe, trace, fate)| Expectation {
                        probe,
                        trace: Some(trace),
                        fate,
                        control: false,
                    })
                    .collect();
                let complete = self
                    .observer
                    .settled(expected, &lab, attempt, self.patience.collect)
                    .await;
                self.answer(&asked, Message::Collected { complete });
            }
            Effect::Review {
                lab,
                stage,
                attempt,
                rights,
                orders,
            } => {
                let place = Place {
                    lab,
                    stage,
                    attempt,
                    probe: None,
                };
                let result = self.review(&place, &rights, &orders).await;
                self.answer(&asked, Message::Reviewed { result });
            }
            Effect::Snapshot { lab, stage } => {
                if let Err(error) = self.cluster.snapshot(&format!("{lab}-{stage}")).await {
                    tracing::warn!(%error, lab, stage, "no snapshot of this stage");
                }
            }
            Effect::Rewind { lab, stage } => {
                self.observer.rewound();
                let result = self
                    .cluster
                    .rewind(&format!("{lab}-{stage}"))
                    .await
                    .map_err(not_rewound);
                self.observer.rewound();
                self.answer(&asked, Message::Rewound { result });
            }
            Effect::Reset { lab } => {
                self.observer.rewound();
                let result = self.reset(&lab).await;
                self.observer.rewound();
                self.answer(&asked, Message::Rewound { result });
            }
            Effect::OpenWorkingCopy { manifest } => {
                if let Err(error) = self.open_copy(&manifest) {
                    tracing::error!(error = error.text, manifest, "opening the working copy");
                }
            }
            Effect::Checkpoint | Effect::Journal(_) | Effect::CancelWork => {}
        }
    }

    /// Answers how what it applied differs from the lab's own files, as a diff; `None` where it does not. What it has changed
    /// is in `fingerprints`, however it ended.
    async fn apply(
        &self,
        lab: &str,
        stage: &str,
        attempt: u32,
        files: &[String],
        fingerprints: &mut Vec<String>,
    ) -> Result<Option<String>, StepError> {
        let mut manifests = Vec::new();
        let mut texts = Vec::new();
        for file in files {
            let text = self.text(lab, stage, file)?;
            let read = Manifest::read(file, &text).map_err(|error| refused(error.to_string()))?;
            self.check_edit(file, &text, &read)?;
            manifests.extend(read);
            texts.push((file, text));
        }
        if self.is_afresh(lab, stage) {
            self.delete_sensor().await?;
            let sensor = kinds::sensor();
            let gone = Fingerprint::gone(&sensor.api_version, &sensor.kind, looking::SENSOR);
            fingerprints.push(gone.to_string());
        }
        let suffix = self.cluster.attempt_suffix(lab, attempt);
        for manifest in &mut manifests {
            // Before anybody can write a word of it.
            let secrets = cluster::texts_in(manifest);
            if !secrets.is_empty() {
                texts.retain(|(file, _)| **file != manifest.file);
            }
            self.observer.hide(secrets);
            rename_dependencies(manifest, &suffix);
            fault::point("between objects", || format!("{lab} {}", manifest.title()));
            let applied = self
                .cluster
                .apply(manifest)
                .await
                .map_err(|error| not_applied(&manifest.file, &error))?;
            tracing::info!(object = manifest.title(), change = ?applied.change, "applied");
            fingerprints.push(applied.fingerprint.to_string());
        }
        match self.cluster.server_fingerprint().await {
            Ok(server) => fingerprints.push(server.to_string()),
            Err(error) => tracing::warn!(%error, "the cluster's version is not kept"),
        }
        for file in files {
            let own: Vec<&Manifest> = manifests.iter().filter(|one| one.file == *file).collect();
            let gone = self.cluster.withdraw_grants(file, &own).await;
            let gone = gone.map_err(environment)?;
            fingerprints.extend(gone.iter().map(ToString::to_string));
        }
        // Without the files that hold a Secret.
        let mut change = String::new();
        for (file, text) in texts {
            if let Err(error) = self.copies.note_applied(file, &text) {
                tracing::warn!(%error, "noting what was applied");
            }
            let original = self.catalog.manifest(file).unwrap_or_default();
            change.push_str(&applying::change(file, original, &text));
        }
        self.focus(lab, stage, attempt).await;
        Ok((!change.is_empty()).then_some(change))
    }

    /// An edit holds what it is an edit of; else the cluster would be judged as somebody else left it.
    fn check_edit(&self, file: &str, text: &str, edited: &[Manifest]) -> Result<(), StepError> {
        let original = self.catalog.manifest(file).unwrap_or_default();
        if original == text {
            return Ok(());
        }
        let original = Manifest::read(file, original).unwrap_or_default();
        match applying::misfit(file, &original, edited) {
            Some(misfit) => Err(refused(misfit)),
            None => Ok(()),
        }
    }

    /// Whether the stage wants a Sensor of which nothing was there before.
    fn is_afresh(&self, lab: &str, stage: &str) -> bool {
        let lab = self.catalog.lab(lab);
        lab.is_ok_and(|lab| {
            let mut stages = lab.stages.iter();
            stages.any(|one| one.name == stage && one.afresh)
        })
    }

    /// The working copy from the stage on that edits it, else the lab's own text.
    pub(super) fn text(&self, lab: &str, stage: &str, file: &str) -> Result<String, StepError> {
        let edited = self
            .catalog
            .lab(lab)
            .is_ok_and(|lab| uses_working_copy(lab, stage, file));
        if !edited {
            let original = self.catalog.manifest(file).map(str::to_owned);
            return original.map_err(environment);
        }
        match self.copies.read(file) {
            Ok(Some(text)) => Ok(text),
            Ok(None) => {
                let original = self.catalog.manifest(file).map(str::to_owned);
                original.map_err(environment)
            }
            Err(error) => Err(environment(error)),
        }
    }

    fn open_copy(&self, file: &str) -> Result<(), StepError> {
        let original = self.catalog.manifest(file).map_err(environment)?;
        self.copies.open(file, original).map_err(environment)?;
        Ok(())
    }

    /// Tells the observer where the session stands, and which consumers the live Sensor must have.
    async fn focus(&self, lab: &str, stage: &str, attempt: u32) {
        let sensor = looking::get(&self.cluster, &kinds::sensor(), looking::SENSOR)
            .await
            .ok()
            .flatten();
        let place = Place {
            lab: lab.to_owned(),
            stage: stage.to_owned(),
            attempt,
            probe: None,
        };
        self.observer.focus(Focus {
            place,
            subscriptions: sensor.as_ref().map(subscriptions).unwrap_or_default(),
        });
    }

    async fn open_gate(&self, asked: &Asked, mode: GateMode, place: &Place) {
        let started = tokio::time::Instant::now();
        let mut last = GateReport::default();
        let mut stuck = Stuck::default();
        loop {
            let (mut report, hopeless) = self.gate_report(mode).await;
            gate::carry_since(&mut report, &last, Timestamp::now());
            let stayed = stuck.stayed(hopeless, self.patience.stuck);
            let late = self
                .gate_patience()
                .is_some_and(|limit| started.elapsed() > limit);
            if !report.open && report.failed.is_none() {
                report.failed = stayed.or_else(|| late.then(|| gate_timeout(&report)));
            }
            let ended = report.open || report.failed.is_some();
            if report.failed.is_some() {
                let failing = report.conditions.iter().filter(|one| !one.holds);
                let seen = failing.map(|one| facts::gate(place, one)).collect();
                self.observer.note(seen).await;
            }
            if report != last {
                self.answer(asked, Message::Gate(report.clone()));
                last = report;
            }
            if ended {
                return;
            }
            tokio::time::sleep(self.cluster.look_interval()).await;
        }
    }

    /// Where images are pulled and nodes are busy, a pod may take minutes; what keeps it from starting ends the wait before.
    fn gate_patience(&self) -> Option<Duration> {
        let times = if self.cluster.is_shared() { 5 } else { 1 };
        self.patience.gate.map(|limit| limit * times)
    }

    /// The gate as it stands, and what of it will not change by itself.
    async fn gate_report(&self, mode: GateMode) -> (GateReport, Option<StepError>) {
        let (mut report, stuck) = match looking::look(&self.cluster, &self.observer, mode).await {
            Ok(input) => (gate::evaluate(&input), gate::stuck(&input)),
            Err(error) => (gate::could_not_look(&error.to_string()), None),
        };
        for one in &mut report.conditions {
            one.command = self.cluster.shown(&one.command);
        }
        (report, stuck)
    }

    async fn send(&self, place: Place, trace: &str, probe: &Probe) -> SendOutcome {
        let event = self
            .catalog
            .lab(&place.lab)
            .map(|lab| lab.event.clone())
            .unwrap_or_default();
        let request = sending::request(
            probe,
            &event,
            self.cluster.attempt_name(place.attempt),
            trace,
        );
        let url = self
            .cluster
            .service_url(sending::WEBHOOK_SERVICE, sending::WEBHOOK_PORT)
            .unwrap_or_default();
        let command = sending::command(&request, &url);
        self.observer.sent(trace, place.clone());
        let about = format!("{} {} {}", place.lab, place.stage, probe.name);
        fault::point("before request", || about.clone());
        let answered = self
            .cluster
            .send(sending::WEBHOOK_SERVICE, sending::WEBHOOK_PORT, &request)
            .await;
        // The request was made, and nothing of its answer is on disk.
        fault::point("after request", || about);
        match answered {
            Ok(response) => {
                self.observer.answered(facts::answer(
                    &place,
                    trace,
                    response.status,
                    &response.body,
                    &command,
                ));
                SendOutcome::Answered {
                    status: response.status,
                }
            }
            Err(SendError::NotSent(error)) => SendOutcome::NotSent { error },
            Err(SendError::AnswerLost(error)) => {
                self.observer
                    .answered(facts::answer_lost(&place, trace, &error, &command));
                SendOutcome::Lost { error }
            }
        }
    }

    /// Asks the API server about every right, and reads what stands about orders; what it answered is on disk before the first error is told.
    async fn review(
        &self,
        place: &Place,
        rights: &[Right],
        orders: &[OrderExpectation],
    ) -> Result<(), StepError> {
        let mut seen = Vec::new();
        let mut failed = None;
        for right in rights {
            let asked = if right.is_any_other() {
                let listed = self.listed_rights(place, &right.account);
                self.cluster.review_others(&right.account, &listed).await
            } else {
                self.cluster.review(question(right)).await
            };
            match asked {
                Ok(review) => {
                    seen.push(facts::access(
                        place,
                        right,
                        &review,
                        self.cluster.namespace(),
                    ));
                }
                Err(error) => failed = failed.or(Some(environment(error))),
            }
        }
        if !orders.is_empty() {
            match self.order_states(place, orders).await {
                Ok(states) => seen.extend(states),
                Err(error) => failed = failed.or(Some(environment(error))),
            }
        }
        self.observer.note(seen).await;
        failed.map_or(Ok(()), Err)
    }

    /// The rights of an account that the stage lists as allowed: verb, group and resource of each.
    fn listed_rights(&self, place: &Place, account: &str) -> Vec<(String, String, String)> {
        let lab = self.catalog.lab(&place.lab);
        lab.iter()
            .flat_map(|lab| &lab.stages)
            .filter(|stage| stage.name == place.stage)
            .flat_map(|stage| &stage.access)
            .filter(|check| check.allowed && check.account == account)
            .map(|check| {
                let Right {
                    verb,
                    group,
                    resource,
                    ..
                } = check.expectation().right;
                (verb, group, resource)
            })
            .collect()
    }

    /// Reads the ledger and the destination whole: one fact an order.
    async fn order_states(
        &self,
        place: &Place,
        orders: &[OrderExpectation],
    ) -> Result<Vec<Fact>, LookError> {
        let books = self.cluster.books().await?;
        Ok(orders
            .iter()
            .map(|order| facts::order_state(place, order, &books))
            .collect())
    }

    /// A lab starts over without working copies; on the embedded cluster from its first snapshot.
    async fn reset(&self, lab: &str) -> Result<(), StepError> {
        for file in self
            .catalog
            .lab(lab)
            .iter()
            .flat_map(|lab| &lab.stages)
            .filter_map(|stage| stage.fix.as_ref())
            .map(|fix| &fix.manifest)
        {
            self.copies.discard(file).map_err(environment)?;
        }
        self.cluster
            .rewind_if_there(&format!("{lab}-0"))
            .await
            .map_err(environment)
    }
}

/// Since when the same thing keeps the gate shut that will not change by itself.
#[derive(Default)]
struct Stuck(Option<(StepError, tokio::time::Instant)>);

impl Stuck {
    /// The error, once it was there at every look for so long.
    fn stayed(&mut self, hopeless: Option<StepError>, patience: Duration) -> Option<StepError> {
        let Some(error) = hopeless else {
            self.0 = None;
            return None;
        };
        let now = tokio::time::Instant::now();
        let since = match &self.0 {
            Some((before, since)) if before.reason == error.reason => *since,
            _ => now,
        };
        self.0 = Some((error.clone(), since));
        (now.duration_since(since) >= patience).then_some(error)
    }
}

/// Half a copy, or a cluster half put back, is no state to leave anything in.
fn keeps_going(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Snapshot { .. } | Effect::Rewind { .. } | Effect::Reset { .. }
    )
}

fn question(right: &Right) -> AccessQuestion<'_> {
    AccessQuestion {
        account: &right.account,
        verb: &right.verb,
        group: &right.group,
        resource: &right.resource,
    }
}

fn gate_timeout(report: &GateReport) -> StepError {
    let waiting: Vec<_> = report
        .conditions
        .iter()
        .filter(|condition| !condition.holds)
        .map(|condition| format!("{}: {}", condition.name, condition.detail))
        .collect();
    StepError {
        reason: "gate-timeout".to_owned(),
        text: format!(
            "the gate did not open in time; still waiting for {}",
            waiting.join("; ")
        ),
        environment: true,
    }
}

/// A failure of what was applied, unless it says nothing of it.
fn not_applied(file: &str, error: &ApplyError) -> StepError {
    let text = format!("{file}: {error}");
    if error.is_of_the_manifest() {
        refused(text)
    } else {
        environment(text)
    }
}

fn refused(text: String) -> StepError {
    StepError {
        reason: "apply-refused".to_owned(),
        text,
        environment: false,
    }
}

/// A snapshot that is not there has a reason of its own: the session goes on without it.
fn not_rewound(error: RewindError) -> StepError {
    match error {
        RewindError::NoSnapshot(_) => StepError {
            reason: NO_SNAPSHOT.to_owned(),
            text: error.to_string(),
            environment: true,
        },
        error @ RewindError::Failed { .. } => environment(error),
    }
}

pub(super) fn environment(error: impl ToString) -> StepError {
    StepError {
        reason: "environment".to_owned(),
        text: error.to_string(),
        environment: true,
    }
}
