//! Runs one effect after another and answers each with a message.
//!
//! Its intent is on disk before an effect gets here. A cancelled effect answers nothing any more.

mod manifests;
mod opening;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::expected::subscriptions;
use super::facts::{self, Place};
use super::observer::{Focus, Observer};
use super::{fault, looking, sending};
use crate::cluster::{AccessQuestion, Cluster, LookError, RewindError, SendError};
use crate::evidence::{Expectation, Fact, OrderExpectation, Right};
use crate::kinds;
use crate::lab::{Catalog, Probe};
use crate::session::NO_SNAPSHOT;
use crate::session::files::WorkingCopies;
use crate::session::message::{SendOutcome, StepError};
use crate::session::{Effect, Message};

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
    /// For a look at the objects before a verdict: a cluster that does not answer holds no stage up for ever.
    pub look: Duration,
}

impl Patience {
    /// Of commands that wait for nobody to cancel them.
    pub const COMMAND: Patience = Patience {
        gate: Some(Duration::from_secs(60)),
        stuck: Duration::from_secs(10),
        collect: Duration::from_secs(30),
        look: Duration::from_secs(30),
    };
    /// Of a screen, where a learner may cancel.
    pub const SCREEN: Patience = Patience {
        gate: None,
        ..Self::COMMAND
    };
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
            if job.cancel.is_cancelled() && !is_owed(&job.effect) {
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
                must_fail,
            } => {
                self.focus(&lab, &stage, attempt).await;
                let place = Place {
                    lab,
                    stage,
                    attempt,
                    probe: None,
                };
                let must_fail = must_fail.as_deref();
                self.open_gate(&asked, mode, must_fail, &place).await;
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
            Effect::Snapshot {
                lab,
                stage,
                unless_there,
            } => {
                let name = snapshot_name(&lab, stage);
                if unless_there && self.cluster.has_snapshot(&name) {
                    return;
                }
                match self.cluster.snapshot(&name).await {
                    // Only then: what was applied belongs to the copy of that time.
                    Ok(()) => self.keep_applied(&lab, &name),
                    Err(error) => tracing::warn!(%error, lab, stage, "no snapshot of this stage"),
                }
            }
            Effect::Rewind { lab, stage } => {
                let name = snapshot_name(&lab, stage);
                self.observer.rewound();
                let result = self.cluster.rewind(&name).await.map_err(not_rewound);
                self.observer.rewound();
                if result.is_ok() {
                    self.put_back_applied(&lab, &name);
                }
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
            .rewind_if_there(&snapshot_name(lab, 0))
            .await
            .map_err(environment)
    }
}

/// The name of the copy of the cluster at the start of a stage.
pub(super) fn snapshot_name(lab: &str, stage: usize) -> String {
    format!("{lab}-{stage}")
}

/// What a session that ends at once leaves behind: the file that the learner is to edit next.
fn is_owed(effect: &Effect) -> bool {
    matches!(effect, Effect::OpenWorkingCopy { .. })
}

/// Half a copy, or a cluster half put back, is no state to leave anything in.
fn keeps_going(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Snapshot { .. }
            | Effect::Rewind { .. }
            | Effect::Reset { .. }
            | Effect::OpenWorkingCopy { .. }
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
