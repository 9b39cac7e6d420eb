//! Proven, refuted or unproven: the three rules.
//!
//! *This event was rejected* rests on its discard line, *this filter is right* on an accepted and a rejected probe that
//! one pod instance judged, *nothing happened* on consumer state or on a window waited in full. What could not be looked
//! at is `unproven` with its reason. [`judge`] is the one entry for a stage.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::fact::{Fact, Observation, PodInstance};
use super::journal::Judgement;
use super::layer::{Fate, Layer, Reason};
use super::table::{Cell, CellState, Row, effect_count};
use super::trail::{Scope, Trail, in_scope, in_scopes};
use crate::words::counted;

/// The three outcomes; `Unproven` is never shown as a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Proven,
    Refuted,
    Unproven,
}

/// An answer to one claim, with the facts it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub outcome: Outcome,
    /// What was claimed, for example `flat was rejected by the filter: no such path`.
    pub claim: String,
    /// Why it is not proven, or what contradicts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// `seq` of the facts.
    pub facts: Vec<u64>,
}

impl Verdict {
    /// Whether a request that was to be early was not: nobody's fault, and another go may prove it.
    #[must_use]
    pub fn is_too_late(&self) -> bool {
        self.outcome == Outcome::Unproven && self.because.as_deref() == Some(TOO_LATE)
    }

    fn proven(claim: String, facts: Vec<u64>) -> Verdict {
        Verdict {
            outcome: Outcome::Proven,
            claim,
            because: None,
            facts,
        }
    }

    fn refuted(claim: String, because: String, facts: Vec<u64>) -> Verdict {
        Verdict {
            outcome: Outcome::Refuted,
            claim,
            because: Some(because),
            facts,
        }
    }

    fn unproven(claim: String, because: impl Into<String>, facts: Vec<u64>) -> Verdict {
        Verdict {
            outcome: Outcome::Unproven,
            claim,
            because: Some(because.into()),
            facts,
        }
    }
}

/// What a stage expects of one probe.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    pub probe: String,
    /// The trace it was sent with, if it was sent.
    pub trace: Option<String>,
    pub fate: Fate,
    pub control: bool,
}

/// Where and when a judgement is made.
#[derive(Clone, Copy, Debug)]
pub struct Occasion<'a> {
    pub time: Timestamp,
    pub lab: &'a str,
    pub stage: &'a str,
    pub attempt: u32,
}

impl<'a> Occasion<'a> {
    /// A verdict of this occasion, about no probe, right or order yet.
    #[must_use]
    pub fn judgement(&self, verdict: Verdict) -> Judgement {
        Judgement {
            time: self.time,
            lab: self.lab.to_owned(),
            stage: self.stage.to_owned(),
            attempt: self.attempt,
            probe: None,
            expected: None,
            observed: None,
            access: None,
            order: None,
            verdict,
        }
    }

    fn scope(&self) -> Scope<'a> {
        Scope {
            lab: self.lab,
            attempt: self.attempt,
            settled: true,
        }
    }
}

/// Judges a stage: one judgement a probe, then one about the filter if the probes were meant to reach it.
///
/// `rows` are those of [`super::rows`] for the same facts, settled.
#[must_use]
pub fn judge(
    occasion: Occasion<'_>,
    expected: &[Expectation],
    rows: &[Row],
    facts: &[Fact],
) -> Vec<Judgement> {
    let mut judgements: Vec<Judgement> = expected
        .iter()
        .map(|expectation| {
            let row = row_of(expectation, rows);
            let verdict = fate_holds(expectation, row, facts, occasion.scope());
            Judgement {
                probe: Some(expectation.probe.clone()),
                expected: Some(expectation.fate.clone()),
                observed: row.and_then(|row| row.fate.clone()),
                ..occasion.judgement(verdict)
            }
        })
        .collect();
    let filter = filter_is_right(expected, rows, facts, occasion.scope());
    judgements.extend(filter.map(|verdict| occasion.judgement(verdict)));
    judgements
}

/// Whether a stage can be judged: nothing that it expects is unproven any more.
///
/// Stricter than all rows having their fate: the filter's claim also needs the lines that name the pod instance.
#[must_use]
pub fn is_decided(
    expected: &[Expectation],
    rows: &[Row],
    facts: &[Fact],
    scope: Scope<'_>,
) -> bool {
    let open = |verdict: &Verdict| verdict.outcome == Outcome::Unproven;
    expected
        .iter()
        .all(|one| !open(&fate_holds(one, row_of(one, rows), facts, scope)))
        && filter_is_right(expected, rows, facts, scope).is_none_or(|verdict| !open(&verdict))
}

fn row_of<'a>(expectation: &Expectation, rows: &'a [Row]) -> Option<&'a Row> {
    let trace = expectation.trace.as_deref()?;
    rows.iter()
        .find(|row| row.probe == expectation.probe && row.trace.as_deref() == Some(trace))
}

/// The race that a cluster won.
const TOO_LATE: &str = "it was not early: the consumer was there before the message was stored; do the step again: this time the cluster was quicker than its news, and nobody is to blame";

/// Compares the expected fate with the row, exactly.
#[must_use]
pub fn fate_holds(
    expectation: &Expectation,
    row: Option<&Row>,
    facts: &[Fact],
    scope: Scope<'_>,
) -> Verdict {
    let claim = format!("{}: {}", expectation.probe, expectation.fate);
    let Some(row) = row else {
        return Verdict::unproven(claim, "it was not sent", Vec::new());
    };
    // Whether a request was early is a matter of when it was sent, and of nothing that anybody wrote.
    if allowed_reason(&expectation.fate, Layer::Ready).is_some() && row.cell(Layer::Ready).passed()
    {
        let facts = row.cell(Layer::Ready).facts.clone();
        return Verdict::unproven(claim, TOO_LATE, facts);
    }
    let contradictions = contradictions(&expectation.fate, row);
    let hindered = contradictions
        .iter()
        .position(|(layer, _)| is_hindered(row.cell(*layer)));
    // What an event did not reach because of the environment says nothing of what was applied; what it did reach does.
    let refuting = contradictions.iter().enumerate().find(|(at, (layer, _))| {
        hindered.is_none_or(|first| *at < first || row.cell(*layer).state != CellState::No)
    });
    if let Some((_, (layer, because))) = refuting {
        return Verdict::refuted(claim, because.clone(), row.cell(*layer).facts.clone());
    }
    if let Some((layer, _)) = hindered.and_then(|at| contradictions.get(at)) {
        let because = hindrance(*layer, row, facts);
        return Verdict::unproven(claim, because, row.cell(*layer).facts.clone());
    }
    if row.fate.as_ref() != Some(&expectation.fate) {
        return Verdict::unproven(claim, open_question(row), row.facts());
    }
    match doubt(&expectation.fate, row, facts, scope) {
        Some(because) => Verdict::unproven(claim, because, row.facts()),
        None => Verdict::proven(claim, row.facts()),
    }
}

/// Whether a layer did not take the event for a reason of the environment.
fn is_hindered(cell: &Cell) -> bool {
    cell.state == CellState::No && cell.reason.is_some_and(Reason::is_of_the_environment)
}

/// Whether some layer did not take a request for a reason of the environment, whatever was expected of it.
#[must_use]
pub fn was_hindered(row: &Row) -> bool {
    row.cells.iter().any(is_hindered)
}

/// What the environment was not able to do, in the words of whoever said so.
fn hindrance(layer: Layer, row: &Row, facts: &[Fact]) -> String {
    let cell = row.cell(layer);
    let last = cell.facts.iter().max();
    let fact = last.and_then(|seq| facts.iter().find(|fact| fact.seq == *seq));
    let said = match fact.map(|fact| &fact.observation) {
        Some(Observation::WorkflowPhase { phase, message, .. }) => format!("{phase}, {message}"),
        Some(Observation::TriggerFailed { error, .. }) => error.clone(),
        Some(Observation::HttpAnswer { status, body }) => format!("{status} {}", body.trim_end()),
        _ => cell.text.clone(),
    };
    format!(
        "the {layer} layer was not able to take it, and that lies in the environment: {said}; mend that, then do the stage again"
    )
}

/// The cells whose facts speak against the fate, in the order of the layers, with what they say.
fn contradictions(fate: &Fate, row: &Row) -> Vec<(Layer, String)> {
    let contradiction = |layer: Layer| {
        let cell = row.cell(layer);
        let allowed = allowed_reason(fate, layer);
        match cell.state {
            CellState::No if allowed.is_none() || cell.reason != allowed => Some((
                layer,
                format!("the {layer} layer stopped it: {}", cell.text),
            )),
            CellState::Yes | CellState::Implied if allowed.is_some() => {
                Some((layer, format!("it passed the {layer} layer")))
            }
            CellState::Yes if layer == Layer::Effect && cell.text != "+1" => Some((
                layer,
                format!("it had its effect more than once: {}", cell.text),
            )),
            _ if layer == Layer::Effect && cell.passed() && !fate.passes(layer) => {
                Some((layer, "it had its effect".to_owned()))
            }
            _ => None,
        }
        .filter(|_| !behind_the_stop(fate, layer, cell.state))
    };
    Layer::ALL.into_iter().filter_map(contradiction).collect()
}

/// The reason with which this fate lets a layer stop the event.
fn allowed_reason(fate: &Fate, layer: Layer) -> Option<Reason> {
    match fate {
        Fate::Stopped { layer: at, reason } if *at == layer => Some(*reason),
        Fate::AppliedButRunStopped { reason } if layer == Layer::Run => Some(*reason),
        _ => None,
    }
}

/// A negative fact behind the layer that was to stop it agrees with the fate; `ready` has nothing on the path before it.
fn behind_the_stop(fate: &Fate, layer: Layer, state: CellState) -> bool {
    let behind = |at: Layer| at != Layer::Ready && layer > at;
    state == CellState::No && fate.stops_at().is_some_and(behind)
}

/// What a fate needs besides its row.
fn doubt(fate: &Fate, row: &Row, facts: &[Fact], scope: Scope<'_>) -> Option<&'static str> {
    match fate {
        Fate::Stopped {
            layer: Layer::Intake,
            reason: Reason::PublishFailed,
        } => {
            let trace = row.trace.as_deref()?;
            let trail = Trail::of_trace(trace, &in_scope(facts, scope.lab, scope.attempt));
            trail
                .not_stored
                .is_none()
                .then_some("publishing failed, and the bus was not read afterwards")
        }
        _ => None,
    }
}

/// Why a row that stopped without a negative fact proves nothing.
fn open_question(row: &Row) -> String {
    let Some((known, unknown)) = row.unproven_between else {
        return "what was seen does not settle it".to_owned();
    };
    let text = &row.cell(unknown).text;
    let detail = match unknown {
        Layer::Ready | Layer::Intake if text == "lost" => "the answer was lost, and no message of it was seen".to_owned(),
        Layer::Ready | Layer::Intake => "no answer was read, and no message of it was seen".to_owned(),
        Layer::Bus => "no message of it was seen, and the bus was not read to the end".to_owned(),
        Layer::Filter if text == "judged" => "a consumer has acknowledged it, and no line of the Sensor names it (a clean mismatch is logged at debug level only)".to_owned(),
        Layer::Filter if text.is_empty() => "it is on the bus, and nothing shows that a Sensor judged it".to_owned(),
        Layer::Filter => format!("{text} carry its trace, so that they cannot be told apart"),
        Layer::Submit => "no line and no Workflow names it".to_owned(),
        Layer::Run if text.is_empty() => "no phase of its Workflow was seen".to_owned(),
        Layer::Run => format!("its Workflow was last seen {text}"),
        Layer::Effect => "the ledger was not read after its Workflow ended".to_owned(),
    };
    match known {
        Some(known) => format!("not proven between {known} and {unknown}: {detail}"),
        None => format!("not proven at {unknown}: {detail}"),
    }
}

/// *This filter is right*: every probe that was to reach the filter, accepted or rejected as expected by one pod instance.
///
/// A stage with only one kind makes the narrower claim and says so. `None` when no probe was to reach the filter.
#[must_use]
pub fn filter_is_right(
    expected: &[Expectation],
    rows: &[Row],
    facts: &[Fact],
    scope: Scope<'_>,
) -> Option<Verdict> {
    let (accepted, rejected): (Vec<&Expectation>, Vec<&Expectation>) = expected
        .iter()
        .filter(|one| one.fate.passes(Layer::Filter) || one.fate.stops_at() == Some(Layer::Filter))
        .partition(|one| one.fate.passes(Layer::Filter));
    let claim = filter_claim(&accepted, &rejected)?;
    let judged: Vec<&Expectation> = accepted
        .into_iter()
        .chain(rejected.iter().copied())
        .collect();
    let mut seqs = Vec::new();
    let mut open = None;
    for one in &judged {
        let cell = row_of(one, rows).map(|row| row.cell(Layer::Filter));
        let passes = one.fate.passes(Layer::Filter);
        if let Some(cell) = cell {
            if (cell.stopped() && passes) || (cell.passed() && !passes) {
                let did = if passes { "rejected" } else { "accepted" };
                let because = format!("it {did} {}", one.probe);
                return Some(Verdict::refuted(claim, because, cell.facts.clone()));
            }
            seqs.extend(cell.facts.iter().copied());
        }
        if cell.is_none_or(|cell| !cell.passed() && !cell.stopped()) && open.is_none() {
            open = Some(format!(
                "what the filter did with {} is not proven",
                one.probe
            ));
        }
    }
    seqs.sort_unstable();
    seqs.dedup();
    let both = !rejected.is_empty() && rejected.len() < judged.len();
    let open = open.or_else(|| both.then(|| divided(&judged, rows, facts, scope)).flatten());
    Some(match open {
        Some(because) => Verdict::unproven(claim, because, seqs),
        None => Verdict::proven(claim, seqs),
    })
}

fn filter_claim(accepted: &[&Expectation], rejected: &[&Expectation]) -> Option<String> {
    let names = |list: &[&Expectation]| {
        list.iter()
            .map(|one| one.probe.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    Some(match (accepted.is_empty(), rejected.is_empty()) {
        (true, true) => return None,
        (false, false) => format!(
            "the filter accepts {} and rejects {}",
            names(accepted),
            names(rejected)
        ),
        (false, true) => format!(
            "the filter accepts {} (this stage does not show that it rejects anything)",
            names(accepted)
        ),
        (true, false) => format!(
            "the filter rejects {} (this stage does not show that it accepts anything)",
            names(rejected)
        ),
    })
}

/// Why the probes cannot be compared, if no single pod instance judged them all.
fn divided(
    judged: &[&Expectation],
    rows: &[Row],
    facts: &[Fact],
    scope: Scope<'_>,
) -> Option<String> {
    let here = in_scope(facts, scope.lab, scope.attempt);
    let mut common: Option<Vec<&PodInstance>> = None;
    for one in judged {
        let cell = row_of(one, rows)?.cell(Layer::Filter);
        let own: Vec<&PodInstance> = here
            .iter()
            .filter(|fact| cell.facts.contains(&fact.seq) && fact.observation.is_from_log())
            .filter_map(|fact| fact.pod.as_ref())
            .collect();
        if own.is_empty() {
            return Some(format!("no line names the pod that judged {}", one.probe));
        }
        common = Some(match common {
            None => own,
            Some(before) => before.into_iter().filter(|pod| own.contains(pod)).collect(),
        });
        if common.as_ref().is_some_and(Vec::is_empty) {
            return Some(format!(
                "another pod instance judged {}, so that its filter may have been another",
                one.probe
            ));
        }
    }
    None
}

/// *Nothing happened*: the event was not handled a second time, and had no second effect.
///
/// Proven by a consumer that acknowledged it and was not created anew, else by a window waited in full.
#[must_use]
pub fn not_repeated(row: &Row, facts: &[Fact], scope: Scope<'_>) -> Verdict {
    let claim = format!("{}: no replay and no second effect", row.probe);
    let here = in_scope(facts, scope.lab, scope.attempt);
    let trail = match (&row.trace, &row.arrival) {
        (Some(trace), _) => Trail::of_trace(trace, &here),
        (None, Some(arrival)) => Trail::of_arrival(arrival, &here),
        (None, None) => return Verdict::unproven(claim, "its arrival is not known", Vec::new()),
    };
    let (runs, effects) = outcomes_of(&trail);
    if runs > 1 || effects > 1 {
        let because = format!(
            "{} and {} carry it",
            counted(runs, "Workflow"),
            counted(effects, "effect")
        );
        return Verdict::refuted(claim, because, row.facts());
    }
    if let Some(fact) = finally_acknowledged(&trail) {
        return Verdict::proven(claim, vec![fact.seq]);
    }
    match waited(&here, &trail) {
        Some(fact) => Verdict::proven(claim, vec![fact.seq]),
        None => Verdict::unproven(
            claim,
            "no consumer is known to have kept it acknowledged, and no window was waited in full",
            row.facts(),
        ),
    }
}

/// *It stays as it was*: an event of an earlier attempt was not handled again when something was put right later.
///
/// `row` is that of `stage` and `then`; `now` is the later attempt, in which its consumer must have been read, or the one that
/// has taken the place of its consumer. An event that was stopped before it had a Workflow must still have none.
#[must_use]
pub fn stays_as_it_was(
    row: &Row,
    stage: &str,
    facts: &[Fact],
    then: Scope<'_>,
    now: u32,
) -> Verdict {
    let claim = format!(
        "{} of stage {stage}: stays as it was, is not handled again",
        row.probe
    );
    let here = in_scopes(facts, then.lab, &(then.attempt..=now));
    let Some(trace) = &row.trace else {
        return Verdict::unproven(claim, "it was not sent", Vec::new());
    };
    let trail = Trail::of_trace(trace, &here);
    let (runs, effects) = outcomes_of(&trail);
    let allowed = usize::from(
        row.fate
            .as_ref()
            .is_some_and(|fate| fate.passes(Layer::Submit)),
    );
    if runs > allowed || effects > allowed {
        let because = format!(
            "{} and {} carry it now",
            counted(runs, "Workflow"),
            counted(effects, "effect")
        );
        return Verdict::refuted(claim, because, row.facts());
    }
    match left_behind(&trail) {
        Some(seqs)
            if trail
                .consumers
                .last()
                .is_some_and(|last| last.attempt == now) =>
        {
            Verdict::proven(claim, seqs)
        }
        _ => Verdict::unproven(
            claim,
            "its consumer was not seen since with the message acknowledged",
            row.facts(),
        ),
    }
}

/// The last reads of all consumers that its message ever had, if none of them can hand it out any more: each has acknowledged
/// it, or was made behind it, as the one of a dependency that was renamed later; and one has acknowledged it.
fn left_behind(trail: &Trail<'_>) -> Option<Vec<u64>> {
    let (_, sequence) = trail.message()?;
    let mut lives: BTreeMap<(&str, u64), &Fact> = BTreeMap::new();
    for fact in &trail.consumers {
        if let Observation::Consumer {
            durable,
            created_at_sequence,
            ..
        } = &fact.observation
        {
            lives.insert((durable.as_str(), *created_at_sequence), fact);
        }
    }
    let acknowledged = |fact: &Fact| matches!(fact.observation, Observation::Consumer { ack_floor, .. } if ack_floor >= sequence);
    let is_older = |created: u64| created < sequence;
    let all = lives
        .iter()
        .all(|((_, created), last)| !is_older(*created) || acknowledged(last));
    let heard = lives.keys().any(|(_, created)| is_older(*created));
    let mut seqs: Vec<u64> = lives.values().map(|fact| fact.seq).collect();
    seqs.sort_unstable();
    (all && heard).then_some(seqs)
}

/// How many Workflows and effects carry an event.
fn outcomes_of(trail: &Trail<'_>) -> (usize, usize) {
    let mut runs: Vec<&str> = trail
        .created
        .iter()
        .filter_map(|fact| fact.known_execution())
        .collect();
    runs.sort_unstable();
    runs.dedup();
    let effects = usize::try_from(effect_count(&trail.effects)).unwrap_or(usize::MAX);
    (runs.len(), effects)
}

/// The last read of the one consumer that acknowledged the message, if every read shows the same consumer.
fn finally_acknowledged<'a>(trail: &Trail<'a>) -> Option<&'a Fact> {
    let (_, sequence) = trail.message()?;
    let same_life = |fact: &&Fact, other: &&Fact| match (&fact.observation, &other.observation) {
        (
            Observation::Consumer {
                durable: a,
                created_at_sequence: x,
                ..
            },
            Observation::Consumer {
                durable: b,
                created_at_sequence: y,
                ..
            },
        ) => a == b && x == y,
        _ => false,
    };
    let last = trail.consumers.last()?;
    let kept = trail.consumers.iter().all(|other| same_life(last, other));
    match last.observation {
        Observation::Consumer {
            ack_floor,
            created_at_sequence,
            ..
        } if kept && created_at_sequence < sequence && ack_floor >= sequence => Some(last),
        _ => None,
    }
}

/// A window that was waited in full after everything that is known of the event.
fn waited<'a>(here: &[&'a Fact], trail: &Trail<'_>) -> Option<&'a Fact> {
    let last = trail
        .judged()
        .into_iter()
        .chain(trail.stored)
        .map(|fact| fact.seq)
        .max()?;
    here.iter()
        .filter(|fact| matches!(fact.observation, Observation::Window { seconds } if seconds > 0))
        .filter(|fact| {
            fact.known_trace().is_none() || trail.no_effect.iter().any(|own| own.seq == fact.seq)
        })
        .find(|fact| fact.seq > last)
        .copied()
}

#[cfg(test)]
mod tests;
