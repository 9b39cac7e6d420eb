//! When a stage can be judged: the rows have their fates, and the lines that name the judging pod are there.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Task;
use crate::evidence::table::rows;
use crate::evidence::{Expectation, Fact, Observation, ProbeRun, Row, Scope, is_decided};
use crate::runner::acting::has_ended;

/// How long the lines of a log may come behind the fates that other sources have shown.
const LATE_LINES: Duration = Duration::from_secs(3);
/// Who waits is so many times as patient while the cluster is known to be at it: a busy node takes minutes for what an idle one
/// does in seconds, and a Workflow's own deadline ends it within them.
const AT_IT: u32 = 7;

/// Somebody who waits for rows.
pub(super) struct Collecting {
    expected: Vec<Expectation>,
    pub(super) probes: Vec<ProbeRun>,
    lab: String,
    attempt: u32,
    wait: Duration,
    /// When something new of this lab came last.
    heard: Instant,
    /// Since when every row has its fate.
    known_since: Option<Instant>,
    done: oneshot::Sender<bool>,
}

/// How far a stage's rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Everything that is expected is proven or refuted.
    Decided,
    /// Every fate is known; what names the pod that judged may still come.
    Known,
    /// Nothing more can come of some request, although its fate is not known, and every other has its fate.
    Stuck,
    /// As before, and others are still open: whatever becomes of them, the stage cannot be proven.
    Lost,
    /// Open are only requests of an earlier process, with which whoever worked on them has ended.
    LeftBehind,
    Open,
}

impl Collecting {
    pub(super) fn new(
        expected: Vec<Expectation>,
        lab: &str,
        attempt: u32,
        wait: Duration,
        done: oneshot::Sender<bool>,
    ) -> Self {
        let probes = expected
            .iter()
            .filter_map(|one| {
                Some(ProbeRun {
                    name: one.probe.clone(),
                    trace: one.trace.clone()?,
                    attempt,
                })
            })
            .collect();
        Self {
            expected,
            probes,
            lab: lab.to_owned(),
            attempt,
            wait,
            heard: Instant::now(),
            known_since: None,
            done,
        }
    }

    /// Many runs at once take their time; who waits is patient as long as something happens.
    pub(super) fn hears(&mut self, written: &[Fact]) {
        if written.iter().any(|fact| fact.lab == self.lab) {
            self.heard = Instant::now();
        }
    }

    fn standing(&self, facts: &[Fact], left: &BTreeSet<String>) -> Standing {
        let scope = Scope {
            lab: &self.lab,
            attempt: self.attempt,
            settled: false,
        };
        let rows = rows(&self.probes, facts, scope);
        let own = &rows[..self.probes.len().min(rows.len())];
        let known = |row: &Row| row.fate.is_some();
        if own.iter().all(known) {
            return match is_decided(&self.expected, own, facts, scope) {
                true => Standing::Decided,
                false => Standing::Known,
            };
        }
        let never_stored = |row: &Row| never_stored(row, facts);
        let lost = own.iter().any(never_stored);
        let mut open = own.iter().filter(|row| !known(row) && !never_stored(row));
        let was_left = |row: &Row| row.trace.as_ref().is_some_and(|trace| left.contains(trace));
        match (lost, open.clone().next().is_some()) {
            (false, _) if open.all(was_left) => Standing::LeftBehind,
            (false, _) => Standing::Open,
            (true, false) => Standing::Stuck,
            (true, true) => Standing::Lost,
        }
    }

    /// Whether nothing new has come for longer than this.
    /// Where the cluster cannot be `seen`, what was under way when it last was says nothing of now.
    fn is_over(&self, facts: &[Fact], seen: bool, wait: Duration, now: Instant) -> bool {
        let quiet = now.duration_since(self.heard);
        let at_it = || seen && self.is_at_it(facts);
        quiet >= wait && (quiet >= self.wait * AT_IT || !at_it())
    }

    /// Whether some request is certainly under way: its run has not ended, or its message lies before a consumer that was
    /// there when it was stored.
    fn is_at_it(&self, facts: &[Fact]) -> bool {
        let mut own = self.probes.iter().map(|probe| probe.trace.as_str());
        own.any(|trace| {
            let of_trace = || {
                let all = facts.iter().rev();
                all.filter(move |fact| fact.trace.as_deref() == Some(trace))
            };
            runs(of_trace()) || of_trace().any(|fact| lies_before_a_consumer(fact, facts))
        })
    }

    /// Whether the waiting is over, and how.
    fn verdict(
        &mut self,
        facts: &[Fact],
        left: &BTreeSet<String>,
        seen: bool,
        now: Instant,
    ) -> Option<bool> {
        let standing = self.standing(facts, left);
        if standing == Standing::Known {
            let since = *self.known_since.get_or_insert(now);
            if now.duration_since(since) < LATE_LINES && now < self.heard + self.wait {
                return None;
            }
            return Some(true);
        }
        self.known_since = None;
        let quiet = now.duration_since(self.heard);
        match standing {
            Standing::Open => self.is_over(facts, seen, self.wait, now).then_some(false),
            Standing::LeftBehind => {
                // A bus that cannot be read yet may still have it.
                let wait = if seen {
                    LATE_LINES.min(self.wait)
                } else {
                    self.wait
                };
                self.is_over(facts, seen, wait, now).then_some(false)
            }
            Standing::Lost => (quiet >= LATE_LINES.min(self.wait)).then_some(false),
            _ => Some(true),
        }
    }
}

impl Task {
    /// Tells those whose rows are settled, and those who have waited long enough.
    pub(super) fn answer_settled(&mut self) {
        let now = Instant::now();
        let seen = self.bus_read || self.cluster.by_log_alone().is_some();
        let (facts, none) = (&self.facts, BTreeSet::new());
        // On somebody else's cluster they are still worked on.
        let left = if self.cluster.is_shared() {
            &none
        } else {
            &self.left
        };
        let mut waiting = Vec::new();
        for mut collecting in self.collecting.drain(..) {
            match collecting.verdict(facts, left, seen, now) {
                Some(settled) => {
                    // Nobody may be waiting any more, after a cancel.
                    let _ = collecting.done.send(settled);
                }
                None if collecting.done.is_closed() => {}
                None => waiting.push(collecting),
            }
        }
        self.collecting = waiting;
    }
}

/// Whether a Workflow among these facts, the latest first, has not ended.
fn runs<'a>(facts: impl Iterator<Item = &'a Fact>) -> bool {
    let mut told = BTreeSet::new();
    facts
        .filter_map(|fact| match &fact.observation {
            Observation::WorkflowPhase { phase, .. } => {
                let latest = told.insert(fact.execution.as_deref());
                latest.then_some(phase.as_str())
            }
            _ => None,
        })
        .any(|phase| !has_ended(phase))
}

/// Whether a message is stored that a consumer, older than it, has not come to as far as is known.
fn lies_before_a_consumer(fact: &Fact, facts: &[Fact]) -> bool {
    let (Observation::Stored { subject }, Some(sequence)) = (&fact.observation, fact.sequence)
    else {
        return false;
    };
    let latest = facts.iter().rev().find_map(|one| match &one.observation {
        Observation::Consumer {
            subject: theirs,
            created_at_sequence,
            ack_floor,
            ..
        } if theirs == subject => Some((*created_at_sequence, *ack_floor)),
        _ => None,
    });
    latest.is_some_and(|(created, floor)| created < sequence && floor < sequence)
}

/// Nothing of this request can come any more, although no layer is known to have stopped it.
fn never_stored(row: &Row, facts: &[Fact]) -> bool {
    row.arrival.is_none()
        && facts.iter().any(|fact| {
            matches!(fact.observation, Observation::NotStored { .. })
                && fact.trace.is_some()
                && fact.trace == row.trace
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Layer;
    use crate::evidence::testing;

    const WAIT: Duration = Duration::from_secs(10);

    fn run(uid: &str, phase: &str) -> Fact {
        let observation = Observation::WorkflowPhase {
            name: uid.to_owned(),
            phase: phase.to_owned(),
            message: String::new(),
        };
        Fact {
            trace: Some("t".to_owned()),
            execution: Some(uid.to_owned()),
            ..testing::fact(Layer::Run, observation)
        }
    }

    fn stored(sequence: u64, consumer: &Fact) -> Fact {
        let Observation::Consumer { subject, .. } = &consumer.observation else {
            unreachable!("a consumer");
        };
        let subject = subject.clone();
        Fact {
            trace: Some("t".to_owned()),
            sequence: Some(sequence),
            ..testing::fact(Layer::Bus, Observation::Stored { subject })
        }
    }

    /// Whether it is given up after a while without news.
    fn given_up(facts: &[Fact], seen: bool, quiet: Duration) -> bool {
        let (done, _settled) = oneshot::channel();
        let expected = Expectation {
            probe: "p".to_owned(),
            trace: Some("t".to_owned()),
            fate: crate::evidence::Fate::Applied,
            control: false,
        };
        let collecting = Collecting::new(vec![expected], "lab", 1, WAIT, done);
        collecting.is_over(facts, seen, WAIT, collecting.heard + quiet)
    }

    /// A request that was cut off before the bus had it, beside one whose run waits for a partner.
    #[test]
    fn beside_a_request_that_never_came_the_others_are_waited_for_a_little() {
        let of = |trace: &str, fact: Fact| Fact {
            trace: Some(trace.to_owned()),
            ..fact
        };
        let lost = Observation::NotStored { last_sequence: 4 };
        let lost = of("lost", testing::fact(Layer::Bus, lost));
        let running = of("t", run("a", "Running"));
        let expected = |probe: &str, trace: &str| Expectation {
            probe: probe.to_owned(),
            trace: Some(trace.to_owned()),
            fate: crate::evidence::Fate::Applied,
            control: false,
        };
        let both = vec![expected("p", "t"), expected("q", "lost")];
        let (lab, attempt) = (running.lab.clone(), running.attempt);
        for (facts, alone) in [(vec![running.clone(), lost], true), (vec![running], false)] {
            let (done, _settled) = oneshot::channel();
            let mut collecting = Collecting::new(both.clone(), &lab, attempt, WAIT, done);
            let at = |after: Duration| collecting.heard + after;
            let (soon, later) = (at(LATE_LINES / 2), at(LATE_LINES));
            let none = BTreeSet::new();
            let told = collecting.verdict(&facts, &none, true, soon);
            assert_eq!(told, None, "{facts:?}");
            let told = collecting.verdict(&facts, &none, true, later);
            assert_eq!(told, alone.then_some(false), "{facts:?}");
        }
    }

    /// A message that a Sensor had acknowledged when it was killed, and one that it had not.
    #[test]
    fn what_a_process_that_is_gone_worked_on_is_waited_for_a_little() {
        let left = BTreeSet::from(["t".to_owned()]);
        let (acknowledged, held) = (testing::consumer(3, 4), testing::consumer(3, 3));
        let taken = vec![stored(4, &acknowledged), acknowledged];
        let again = vec![stored(4, &held), held];
        let own = BTreeSet::new();
        for (facts, left, ends) in [
            (&taken, &left, true),
            (&taken, &own, false),
            (&again, &left, false),
        ] {
            let (done, _settled) = oneshot::channel();
            let expected = Expectation {
                probe: "p".to_owned(),
                trace: Some("t".to_owned()),
                fate: crate::evidence::Fate::Applied,
                control: false,
            };
            let (lab, attempt) = (facts[0].lab.clone(), facts[0].attempt);
            let mut collecting = Collecting::new(vec![expected], &lab, attempt, WAIT, done);
            let later = collecting.heard + LATE_LINES;
            let told = collecting.verdict(facts, left, true, later);
            assert_eq!(told, ends.then_some(false), "{facts:?}");
        }
    }

    #[test]
    fn what_is_under_way_is_waited_for_longer_and_not_for_ever() {
        let (before, after) = (testing::consumer(3, 3), testing::consumer(5, 5));
        for (facts, under_way) in [
            (vec![], false),
            (vec![run("a", "Running")], true),
            (vec![run("a", "Running"), run("a", "Failed")], false),
            (vec![run("a", "Failed"), run("b", "Pending")], true),
            (vec![stored(4, &before)], false),
            (vec![stored(4, &before), before.clone()], true),
            (
                vec![stored(4, &before), before.clone(), testing::consumer(3, 4)],
                false,
            ),
            (vec![stored(4, &after), after.clone()], false),
        ] {
            assert!(!given_up(&facts, true, WAIT / 2), "{facts:?}");
            assert_eq!(given_up(&facts, true, WAIT), !under_way, "{facts:?}");
            assert!(given_up(&facts, true, WAIT * AT_IT), "{facts:?}");
            assert!(!given_up(&facts, false, WAIT / 2), "{facts:?}");
            assert!(given_up(&facts, false, WAIT), "{facts:?}");
        }
    }
}
