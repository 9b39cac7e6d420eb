//! The probe table: one row a probe, one cell a layer.
//!
//! [`rows`] and [`counters`] are views of the facts of one lab and attempt; they hold nothing of their own.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::cells;
use super::fact::{Fact, Observation};
use super::layer::{Fate, Layer, Reason};
use super::trail::{Scope, Trail, in_scope, is_session_trace};

/// Most rows that are made for requests of the learner's own; the newest are kept.
const OWN_ROWS: usize = 50;

/// Name of the rows for requests that the learner sent by hand.
pub const YOURS: &str = "yours";

/// State of one cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellState {
    /// Its own fact.
    Yes,
    /// A later fact of the same arrival.
    Implied,
    /// A negative fact with its line.
    No,
    /// Something may still come.
    Pending,
    /// Nothing is known.
    #[default]
    Unknown,
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub state: CellState,
    pub reason: Option<Reason>,
    /// Short text for the table: `200`, `no such path`, `Succeeded`, `+1`, `duplicate`.
    pub text: String,
    /// `seq` of its facts.
    pub facts: Vec<u64>,
}

impl Cell {
    /// Whether the event is known to have passed this layer.
    #[must_use]
    pub fn passed(&self) -> bool {
        matches!(self.state, CellState::Yes | CellState::Implied)
    }

    /// Whether a negative fact says that this layer stopped it.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.state == CellState::No
    }
}

/// One probe through all layers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The probe's name, or `yours` for a request that the learner sent by hand.
    pub probe: String,
    pub trace: Option<String>,
    pub arrival: Option<String>,
    pub cells: [Cell; 7],
    /// The fate as observed, once it is settled.
    pub fate: Option<Fate>,
    /// For a row that stopped without a `no`: the last layer known, and the first that is not.
    pub unproven_between: Option<(Option<Layer>, Layer)>,
}

impl Row {
    /// The row of a probe that has not been sent.
    #[must_use]
    pub fn blank(probe: &str) -> Row {
        Row {
            probe: probe.to_owned(),
            ..Row::default()
        }
    }

    /// The cell of a layer.
    #[must_use]
    pub fn cell(&self, layer: Layer) -> &Cell {
        &self.cells[layer.index()]
    }

    /// The first layer with a negative fact.
    #[must_use]
    pub fn first_failing(&self) -> Option<Layer> {
        Layer::ALL
            .into_iter()
            .find(|layer| self.cell(*layer).stopped())
    }

    /// `seq` of every fact in the row, each once, in order.
    #[must_use]
    pub fn facts(&self) -> Vec<u64> {
        let all: BTreeSet<u64> = self
            .cells
            .iter()
            .flat_map(|cell| cell.facts.iter().copied())
            .collect();
        all.into_iter().collect()
    }
}

/// The four counters, which stay apart everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Requests that were answered 200 or are on the bus.
    pub intakes: u64,
    /// Distinct arrival ids that were submitted or refused at submit.
    pub approved: u64,
    /// Distinct Workflows that ended Succeeded.
    pub completed: u64,
    /// Distinct effects, in the ledger or at the destination.
    pub effects: u64,
}

/// One send of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeRun {
    pub name: String,
    pub trace: String,
    pub attempt: u32,
}

/// One row a probe in the given order, then one for each request of the learner's own in this attempt.
///
/// The result depends on the set of facts and their `seq` alone, not on the order in which they are given.
#[must_use]
pub fn rows(probes: &[ProbeRun], facts: &[Fact], scope: Scope<'_>) -> Vec<Row> {
    let here = in_scope(facts, scope.lab, scope.attempt);
    let mut rows: Vec<Row> = probes
        .iter()
        .map(|probe| {
            let trail = if probe.attempt == scope.attempt {
                Trail::of_trace(&probe.trace, &here)
            } else {
                Trail::of_trace(&probe.trace, &in_scope(facts, scope.lab, probe.attempt))
            };
            cells::row(&probe.name, Some(&probe.trace), &trail, scope.settled)
        })
        .collect();
    for arrival in own_arrivals(probes, &here, scope.lab) {
        let trail = Trail::of_arrival(arrival, &here);
        let trace = here
            .iter()
            .filter(|fact| fact.known_arrival() == Some(arrival))
            .find_map(|fact| fact.known_trace());
        rows.push(cells::row(YOURS, trace, &trail, scope.settled));
    }
    rows
}

/// Arrivals that no probe of this lab caused, the newest [`OWN_ROWS`] in order of appearance.
fn own_arrivals<'a>(probes: &[ProbeRun], facts: &[&'a Fact], lab: &str) -> Vec<&'a str> {
    let ours = |fact: &Fact| {
        fact.probe.is_some()
            || fact.known_trace().is_some_and(|trace| {
                is_session_trace(lab, trace) || probes.iter().any(|probe| probe.trace == trace)
            })
    };
    let taken: BTreeSet<&str> = facts
        .iter()
        .filter(|fact| ours(fact))
        .filter_map(|fact| fact.known_arrival())
        .collect();
    let mut seen = BTreeSet::new();
    let mut found: Vec<&str> = facts
        .iter()
        .filter(|fact| {
            matches!(
                fact.observation,
                Observation::Stored { .. }
                    | Observation::Received
                    | Observation::WorkflowCreated { .. }
            )
        })
        .filter_map(|fact| fact.known_arrival())
        .filter(|arrival| !taken.contains(arrival) && seen.insert(*arrival))
        .collect();
    let surplus = found.len().saturating_sub(OWN_ROWS);
    found.drain(..surplus);
    found
}

/// Counts intakes, approved events, completed Workflows and effects of one lab and attempt.
#[must_use]
pub fn counters(facts: &[Fact], scope: Scope<'_>) -> Counters {
    let here = in_scope(facts, scope.lab, scope.attempt);
    Counters {
        intakes: intakes(&here),
        approved: approved(&here),
        completed: completed(&here),
        effects: effect_count(&here),
    }
}

fn count(set: BTreeSet<&str>) -> u64 {
    set.len() as u64
}

/// Every arrival is an intake, and so is every answer 200 whose arrival is not known.
fn intakes(facts: &[&Fact]) -> u64 {
    let arrivals = facts
        .iter()
        .filter(|fact| !matches!(fact.observation, Observation::Received))
        .filter_map(|fact| fact.known_arrival())
        .collect();
    let matched: BTreeSet<&str> = facts
        .iter()
        .filter(|fact| fact.known_arrival().is_some())
        .filter_map(|fact| fact.known_trace())
        .collect();
    let answered = facts
        .iter()
        .filter(|fact| {
            matches!(
                fact.observation,
                Observation::HttpAnswer { status: 200, .. }
            )
        })
        .filter_map(|fact| fact.known_trace())
        .filter(|trace| !matched.contains(trace))
        .collect();
    count(arrivals) + count(answered)
}

fn approved(facts: &[&Fact]) -> u64 {
    count(
        facts
            .iter()
            .filter(|fact| {
                matches!(
                    fact.observation,
                    Observation::Triggered { .. }
                        | Observation::TriggerFailed { .. }
                        | Observation::WorkflowCreated { .. }
                )
            })
            .filter_map(|fact| fact.known_arrival())
            .collect(),
    )
}

fn completed(facts: &[&Fact]) -> u64 {
    count(
        facts
            .iter()
            .filter_map(|fact| match &fact.observation {
                Observation::WorkflowPhase { name, phase, .. } if phase == "Succeeded" => {
                    Some(fact.known_execution().unwrap_or(name))
                }
                _ => None,
            })
            .collect(),
    )
}

/// Rows of the ledger and entries at the destination that one run made for one business key.
#[derive(Default)]
struct Made<'a> {
    rows: BTreeSet<u64>,
    references: BTreeSet<&'a str>,
}

/// How many effects the facts show.
///
/// A row of the ledger and an entry at the destination, of the same run and business key, are two sights of one effect;
/// two rows, or two entries, are two.
pub(super) fn effect_count(facts: &[&Fact]) -> u64 {
    let mut made: BTreeMap<(&str, &str), Made<'_>> = BTreeMap::new();
    for fact in facts {
        let run = fact.known_execution().or(fact.known_arrival());
        let key = (
            run.unwrap_or_default(),
            fact.business_key.as_deref().unwrap_or_default(),
        );
        match &fact.observation {
            Observation::LedgerEffect { row, .. } => {
                made.entry(key).or_default().rows.insert(*row);
            }
            Observation::DestinationRecord { reference, .. } => {
                made.entry(key).or_default().references.insert(reference);
            }
            _ => {}
        }
    }
    made.values()
        .map(|made| made.rows.len().max(made.references.len()) as u64)
        .sum()
}

#[cfg(test)]
mod tests;
