//! Whether the cluster is as the session left it: when it is taken up, and while it is open.

use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _, stream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::cluster::{Cluster, Drift, Fingerprint, LookError};
use crate::session::{Difference, StagePhase, State, Step};

/// Pause between two looks at a cluster in this process, and at one that others use.
const PAUSE: Duration = Duration::from_millis(500);
const SHARED_PAUSE: Duration = Duration::from_secs(5);
/// Objects that are read at once: a verdict waits for all of them, also where each takes seconds.
const AT_ONCE: usize = 8;

/// What a look at the objects has shown.
pub(super) struct Compared {
    /// An object that could not be read differs as it did before.
    pub drift: Vec<Difference>,
    /// Why objects could not be read.
    pub unseen: Vec<String>,
}

/// Compares what was applied with what is there; `known` is what differed so far.
pub(super) async fn compare(cluster: &Cluster, kept: &[String], known: &[Difference]) -> Compared {
    let (mut drift, mut unseen) = (Vec::new(), Vec::new());
    let kept = kept.iter().filter_map(|line| Fingerprint::parse(line));
    let looks: Vec<_> = kept.map(|kept| look_at(cluster, kept).boxed()).collect();
    let mut looks = stream::iter(looks).buffered(AT_ONCE);
    while let Some((kept, live)) = looks.next().await {
        match live {
            Ok(live) => drift.extend(difference(&kept, &live)),
            Err(error) => {
                let line = kept.to_string();
                drift.extend(known.iter().find(|one| one.kept == line).cloned());
                unseen.push(error.to_string());
            }
        }
    }
    Compared { drift, unseen }
}

async fn look_at(
    cluster: &Cluster,
    kept: Fingerprint,
) -> (Fingerprint, Result<Fingerprint, LookError>) {
    let live = cluster.live_fingerprint(&kept).await;
    (kept, live)
}

/// The fingerprints that hold now; none while this session changes what they are of, or was cut off while it did.
pub(super) fn settled(state: &State) -> Vec<String> {
    let changes = matches!(
        state.phase(),
        StagePhase::Working { step, .. } | StagePhase::Interrupted { step }
            if matches!(step, Step::Applying | Step::Reapplying | Step::Rewinding | Step::Resetting)
    );
    let here = state.progress_here().filter(|_| !changes);
    here.map(|lab| lab.fingerprints.clone()).unwrap_or_default()
}

/// What is to be compared. Its number tells it from all before, also where the fingerprints are the same again.
#[derive(Clone, Default)]
struct Question {
    number: u64,
    kept: Vec<String>,
    /// What is known to differ.
    known: Vec<Difference>,
}

/// Looks at the objects of an open session again and again; ends when it is dropped.
pub(super) struct Watch {
    question: watch::Sender<Question>,
    answers: mpsc::Receiver<(u64, Compared)>,
    task: JoinHandle<()>,
}

impl Watch {
    pub(super) fn start(cluster: Cluster) -> Self {
        let (question, asked) = watch::channel(Question::default());
        // One that is not taken is enough: what was seen before it is old.
        let (sender, answers) = mpsc::channel(1);
        Self {
            question,
            answers,
            task: tokio::spawn(look(cluster, asked, sender)),
        }
    }

    /// Says what is to be compared from now on.
    pub(super) fn expect(&self, kept: Vec<String>, known: &[Difference]) {
        self.question.send_if_modified(|question| {
            known.clone_into(&mut question.known);
            let changed = question.kept != kept;
            if changed {
                question.number += 1;
                question.kept = kept;
            }
            changed
        });
    }

    /// Asks for a look that begins after this; false where there is nothing to compare.
    pub(super) fn look_now(&self) -> bool {
        self.question.send_modify(|question| question.number += 1);
        !self.question.borrow().kept.is_empty()
    }

    /// What was seen of the objects that are compared now; for ever pending once nobody looks any more.
    pub(super) async fn next(&mut self) -> Compared {
        while let Some((number, compared)) = self.answers.recv().await {
            if number == self.question.borrow().number {
                return compared;
            }
        }
        std::future::pending().await
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn look(
    cluster: Cluster,
    mut asked: watch::Receiver<Question>,
    answers: mpsc::Sender<(u64, Compared)>,
) {
    let pause = if cluster.is_shared() {
        SHARED_PAUSE
    } else {
        PAUSE
    };
    loop {
        let Question {
            number,
            kept,
            known,
        } = asked.borrow_and_update().clone();
        if !kept.is_empty() {
            let compared = tokio::select! {
                compared = compare(&cluster, &kept, &known) => compared,
                // Somebody waits for a newer look.
                changed = asked.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
            };
            if let Some(error) = compared.unseen.first() {
                tracing::debug!(error, "objects cannot be compared");
            }
            if answers.send((number, compared)).await.is_err() {
                return;
            }
        }
        tokio::select! {
            changed = asked.changed() => if changed.is_err() {
                return;
            },
            () = tokio::time::sleep(pause), if !kept.is_empty() => {}
        }
    }
}

/// What the learner is told of an object that is not as it was left.
fn difference(kept: &Fingerprint, live: &Fingerprint) -> Option<Difference> {
    let how = match Drift::between(kept, live) {
        Drift::None => return None,
        Drift::Gone => "is gone".to_owned(),
        Drift::Back => "is there again".to_owned(),
        Drift::Replaced => "was deleted and made anew".to_owned(),
        Drift::Changed => "was changed".to_owned(),
        Drift::Version => format!(
            "has version {}, and had {} when this lab was applied",
            live.hash, kept.hash
        ),
    };
    Some(Difference {
        text: format!("{}/{} {how}", kept.kind, kept.name),
        kept: kept.to_string(),
        live: live.to_string(),
    })
}
