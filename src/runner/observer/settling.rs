//! When a stage can be judged: the rows have their fates, and the lines that name the judging pod are there.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Task;
use crate::evidence::table::rows;
use crate::evidence::{Expectation, Fact, Observation, ProbeRun, Row, Scope, is_decided};

/// How long the lines of a log may come behind the fates that other sources have shown.
const LATE_LINES: Duration = Duration::from_secs(3);

/// Somebody who waits for rows.
pub(super) struct Collecting {
    expected: Vec<Expectation>,
    pub(super) probes: Vec<ProbeRun>,
    lab: String,
    attempt: u32,
    wait: Duration,
    until: Instant,
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
    /// Nothing more can come of some request, although its fate is not known.
    Stuck,
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
            until: Instant::now() + wait,
            known_since: None,
            done,
        }
    }

    /// Many runs at once take their time; who waits is patient as long as something happens.
    pub(super) fn hears(&mut self, written: &[Fact]) {
        if written.iter().any(|fact| fact.lab == self.lab) {
            self.until = Instant::now() + self.wait;
        }
    }

    fn standing(&self, facts: &[Fact]) -> Standing {
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
        match own.iter().all(|row| known(row) || never_stored(row, facts)) {
            true => Standing::Stuck,
            false => Standing::Open,
        }
    }

    /// Whether the waiting is over, and how.
    fn verdict(&mut self, facts: &[Fact], now: Instant) -> Option<bool> {
        let standing = self.standing(facts);
        if standing == Standing::Known {
            let since = *self.known_since.get_or_insert(now);
            if now.duration_since(since) < LATE_LINES && now < self.until {
                return None;
            }
            return Some(true);
        }
        self.known_since = None;
        match standing {
            Standing::Open => (now >= self.until).then_some(false),
            _ => Some(true),
        }
    }
}

impl Task {
    /// Tells those whose rows are settled, and those who have waited long enough.
    pub(super) fn answer_settled(&mut self) {
        let now = Instant::now();
        let facts = &self.facts;
        let mut waiting = Vec::new();
        for mut collecting in self.collecting.drain(..) {
            match collecting.verdict(facts, now) {
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

/// Nothing of this request can come any more, although no layer is known to have stopped it.
fn never_stored(row: &Row, facts: &[Fact]) -> bool {
    row.arrival.is_none()
        && facts.iter().any(|fact| {
            matches!(fact.observation, Observation::NotStored { .. })
                && fact.trace.is_some()
                && fact.trace == row.trace
        })
}
