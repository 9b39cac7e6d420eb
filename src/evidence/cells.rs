//! The rules of the cells: what the facts of one request say about each layer.
//!
//! `yes` needs a fact of its own, `implied` a later fact of the same arrival, `no` a negative fact; a line that is
//! missing says nothing. Only [`super::table`] calls this.

use std::collections::BTreeMap;

use super::fact::{Fact, Observation};
use super::layer::{Fate, Layer, Reason};
use super::reason;
use super::table::{Cell, CellState, Row, effect_count};
use super::trail::Trail;

/// Builds the row of one request.
pub(super) fn row(probe: &str, trace: Option<&str>, trail: &Trail<'_>, settled: bool) -> Row {
    let mut row = Row {
        probe: probe.to_owned(),
        trace: trace.map(str::to_owned),
        arrival: match trail.arrivals.as_slice() {
            [one] => Some((*one).to_owned()),
            _ => None,
        },
        cells: [
            ready(trail),
            intake(trail),
            bus(trail),
            filter(trail),
            submit(trail),
            run(trail),
            effect(trail),
        ],
        fate: None,
        unproven_between: None,
    };
    if !settled {
        await_next(&mut row);
    }
    row.fate = fate(&row);
    if row.fate.is_none() {
        row.unproven_between = Some(between(&row));
    }
    row
}

fn cell(state: CellState, text: impl Into<String>, facts: &[&Fact]) -> Cell {
    let mut seqs: Vec<u64> = facts.iter().map(|fact| fact.seq).collect();
    seqs.sort_unstable();
    seqs.dedup();
    Cell {
        state,
        reason: None,
        text: text.into(),
        facts: seqs,
    }
}

fn no(reason: Reason, text: impl Into<String>, facts: &[&Fact]) -> Cell {
    Cell {
        reason: Some(reason),
        ..cell(CellState::No, text, facts)
    }
}

/// The consumer existed when the message was stored; negative only with a consumer that was made later and no older one,
/// or where no consumer has the message's subject at all.
fn ready(trail: &Trail<'_>) -> Cell {
    let Some(stored) = trail.stored else {
        return implied(&trail.judged());
    };
    if let Some(older) = trail.older_consumers().first() {
        return cell(CellState::Yes, "", &[stored, older]);
    }
    let judged = trail.judged();
    let unheard = trail.unheard;
    match trail.newer_consumers().last().copied().or(unheard) {
        Some(newer) if judged.is_empty() && trail.arrivals.len() < 2 => no(
            Reason::NotSubscribed,
            Reason::NotSubscribed.text(),
            &[stored, newer],
        ),
        _ => implied(&judged),
    }
}

fn implied(by: &[&Fact]) -> Cell {
    match by.first() {
        Some(first) => cell(CellState::Implied, "", &[first]),
        None => Cell::default(),
    }
}

fn intake(trail: &Trail<'_>) -> Cell {
    let mut later: Vec<&Fact> = trail.stored.into_iter().collect();
    later.extend(trail.judged());
    if let Some(fact) = trail.answer
        && let Observation::HttpAnswer { status, body } = &fact.observation
    {
        let text = status.to_string();
        return match (reason::of_answer(*status, body), later.first()) {
            (None, _) => cell(CellState::Yes, text, &[fact]),
            // The answer was wrong about what happened: the message is there.
            (Some(_), Some(later)) => cell(CellState::Implied, text, &[fact, later]),
            (Some(reason), None) => no(reason, text, &[fact]),
        };
    }
    if let Some(first) = later.first() {
        let lost = trail.lost;
        let facts: Vec<&Fact> = lost.into_iter().chain([*first]).collect();
        return cell(
            CellState::Implied,
            if lost.is_some() { "lost" } else { "" },
            &facts,
        );
    }
    match trail.lost {
        Some(lost) => cell(CellState::Unknown, "lost", &[lost]),
        None => Cell::default(),
    }
}

fn bus(trail: &Trail<'_>) -> Cell {
    if let Some(stored) = trail.stored {
        return cell(CellState::Yes, "", &[stored]);
    }
    let judged = trail.judged();
    if !judged.is_empty() || trail.arrivals.len() > 1 {
        return implied(&judged);
    }
    match (trail.answer, trail.not_stored) {
        (Some(answer), Some(empty)) if is_200(answer) => no(
            Reason::SourceFilter,
            Reason::SourceFilter.text(),
            &[answer, empty],
        ),
        _ => Cell::default(),
    }
}

fn is_200(fact: &Fact) -> bool {
    matches!(
        fact.observation,
        Observation::HttpAnswer { status: 200, .. }
    )
}

/// Accepted wins over discarded: another dependency, or an older pod, may have let the same arrival go.
fn filter(trail: &Trail<'_>) -> Cell {
    let lines: Vec<&Fact> = [&trail.triggered, &trail.refused]
        .into_iter()
        .flatten()
        .copied()
        .collect();
    if !lines.is_empty() {
        return cell(CellState::Yes, "", &lines);
    }
    let mut later = trail.created.clone();
    later.extend(&trail.phases);
    if !later.is_empty() {
        return implied(&later);
    }
    if let Some(fact) = trail.discarded.first()
        && let Observation::Discarded { error } = &fact.observation
    {
        let reason = reason::of_discard(error.as_deref());
        return no(reason, reason.text(), &trail.discarded);
    }
    // A row undoes no line of a Sensor: it may have been written by hand.
    if let Some(row) = trail.rows().first() {
        return implied(&[row]);
    }
    if trail.arrivals.len() > 1 {
        let text = format!("{} arrivals", trail.arrivals.len());
        return cell(CellState::Unknown, text, &[]);
    }
    match trail.acknowledged() {
        Some(fact) => cell(CellState::Unknown, "judged", &[fact]),
        None => Cell::default(),
    }
}

fn submit(trail: &Trail<'_>) -> Cell {
    let own: Vec<&Fact> = [&trail.triggered, &trail.created]
        .into_iter()
        .flatten()
        .copied()
        .collect();
    if !own.is_empty() {
        return cell(CellState::Yes, "", &own);
    }
    if !trail.phases.is_empty() {
        return implied(&trail.phases);
    }
    if let Some(fact) = trail.refused.first()
        && let Observation::TriggerFailed { error, .. } = &fact.observation
    {
        let reason = reason::of_trigger(error);
        return no(reason, reason.text(), &trail.refused);
    }
    implied(&trail.rows())
}

/// The last phase seen of a Workflow.
struct LastPhase<'a> {
    phase: &'a str,
    /// Why it did not end well, if it did not.
    reason: Option<Reason>,
    fact: &'a Fact,
}

/// The last phase seen of each Workflow of this arrival.
fn last_phases<'a>(trail: &Trail<'a>) -> Vec<LastPhase<'a>> {
    let mut last: BTreeMap<&str, LastPhase<'a>> = BTreeMap::new();
    for fact in &trail.phases {
        if let Observation::WorkflowPhase {
            name,
            phase,
            message,
        } = &fact.observation
        {
            let key = fact.known_execution().unwrap_or(name);
            let reason = reason::of_phase(phase, message);
            last.insert(
                key,
                LastPhase {
                    phase,
                    reason,
                    fact,
                },
            );
        }
    }
    last.into_values().collect()
}

/// One success is enough; `no` needs every Workflow seen to have ended badly.
fn run(trail: &Trail<'_>) -> Cell {
    let phases = last_phases(trail);
    let facts: Vec<&Fact> = phases.iter().map(|last| last.fact).collect();
    if let Some(last) = phases.iter().find(|last| last.phase == "Succeeded") {
        return cell(CellState::Yes, "Succeeded", &[last.fact]);
    }
    let open = phases.iter().find(|last| last.reason.is_none());
    if let Some(last) = open {
        let text = if last.phase.is_empty() {
            "created"
        } else {
            last.phase
        };
        return cell(CellState::Unknown, text, &facts);
    }
    match phases.first().and_then(|last| last.reason) {
        Some(reason) => match explained(trail) {
            // The workload says why it failed: its row is the better reason, on the same layer.
            Some((attempt, why)) => {
                let facts: Vec<&Fact> = facts.into_iter().chain([attempt]).collect();
                no(why, reason.text(), &facts)
            }
            None => no(reason, reason.text(), &facts),
        },
        None => Cell::default(),
    }
}

/// The attempt row that says why the run ended badly, the last one of several.
fn explained<'a>(trail: &Trail<'a>) -> Option<(&'a Fact, Reason)> {
    trail.attempts.iter().rev().find_map(|fact| {
        let Observation::LedgerAttempt { outcome, .. } = &fact.observation else {
            return None;
        };
        let reason = reason::of_attempt(outcome)?;
        reason.fails_the_run().then_some((*fact, reason))
    })
}

fn effect(trail: &Trail<'_>) -> Cell {
    if !trail.effects.is_empty() {
        let text = format!("+{}", effect_count(&trail.effects));
        return cell(CellState::Yes, text, &trail.effects);
    }
    for fact in &trail.attempts {
        if let Observation::LedgerAttempt { outcome, .. } = &fact.observation
            && let Some(reason) = reason::of_attempt(outcome)
        {
            return no(reason, reason.text(), &trail.attempts);
        }
    }
    if let Some(fact) = trail.attempts.last()
        && let Observation::LedgerAttempt { outcome, .. } = &fact.observation
    {
        return cell(CellState::Unknown, outcome.as_str(), &trail.attempts);
    }
    let ran = !(trail.created.is_empty() && trail.triggered.is_empty() && trail.phases.is_empty());
    match trail.no_effect.last() {
        Some(last) if ran => no(Reason::NoEffect, Reason::NoEffect.text(), &[last]),
        _ => Cell::default(),
    }
}

/// Marks what may still come: the first unknown layer on the path, and `run` and `effect` apart.
fn await_next(row: &mut Row) {
    if Layer::ALL[..=Layer::Submit.index()]
        .iter()
        .any(|layer| row.cell(*layer).stopped())
    {
        return;
    }
    let reached = reached(row);
    let mut wait = |layer: Layer, text: &str| {
        let cell = &mut row.cells[layer.index()];
        if cell.state == CellState::Unknown {
            cell.state = CellState::Pending;
            if cell.text.is_empty() {
                cell.text = text.to_owned();
            }
        }
    };
    match reached {
        None => wait(Layer::Intake, ""),
        Some(Layer::Intake) => wait(Layer::Bus, ""),
        Some(Layer::Bus) => {
            wait(Layer::Ready, "");
            wait(Layer::Filter, "judging");
        }
        Some(Layer::Filter) => wait(Layer::Submit, ""),
        Some(_) => {
            wait(Layer::Run, "");
            wait(Layer::Effect, "");
        }
    }
}

/// The last layer of the path up to `submit` that was passed; `ready` is not a place on the path.
fn reached(row: &Row) -> Option<Layer> {
    [Layer::Submit, Layer::Filter, Layer::Bus, Layer::Intake]
        .into_iter()
        .find(|layer| row.cell(*layer).passed())
}

/// What the row proves as a whole. `run` and `effect` must both be known, since either may be there without the other.
fn fate(row: &Row) -> Option<Fate> {
    let stopped = |layer: Layer| {
        row.cell(layer)
            .reason
            .map(|reason| Fate::Stopped { layer, reason })
    };
    match row.first_failing() {
        Some(layer) if layer <= Layer::Submit => return stopped(layer),
        _ => {}
    }
    let run = row.cell(Layer::Run);
    let effect = row.cell(Layer::Effect);
    match (run.state, effect.state) {
        (CellState::Yes, CellState::Yes) => Some(Fate::Applied),
        (CellState::Yes, CellState::No) => stopped(Layer::Effect),
        (CellState::No, CellState::No) => stopped(Layer::Run),
        (CellState::No, CellState::Yes) => run
            .reason
            .map(|reason| Fate::AppliedButRunStopped { reason }),
        _ => None,
    }
}

/// The last layer known and the first that is not.
fn between(row: &Row) -> (Option<Layer>, Layer) {
    match reached(row) {
        None => (None, Layer::Intake),
        Some(Layer::Submit) => {
            let run = row.cell(Layer::Run);
            if run.passed() || run.stopped() {
                (Some(Layer::Run), Layer::Effect)
            } else {
                (Some(Layer::Submit), Layer::Run)
            }
        }
        Some(layer) => (Some(layer), Layer::ALL[layer.index() + 1]),
    }
}
