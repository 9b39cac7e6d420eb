//! Correlation: the facts of one request, from its trace over its arrival id to its executions and ledger rows.
//!
//! Only [`super::table`] and [`super::verdict`] call this.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use super::fact::{Fact, Observation};

/// What is being looked at: one attempt of one lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope<'a> {
    pub lab: &'a str,
    pub attempt: u32,
    /// Nothing more is waited for, so that nothing is `pending`.
    pub settled: bool,
}

/// Facts of a scope, in journal order, each once.
pub(super) fn in_scope<'a>(facts: &'a [Fact], lab: &str, attempt: u32) -> Vec<&'a Fact> {
    in_scopes(facts, lab, &(attempt..=attempt))
}

/// Facts of several attempts, in journal order, each once.
pub(super) fn in_scopes<'a>(
    facts: &'a [Fact],
    lab: &str,
    attempts: &RangeInclusive<u32>,
) -> Vec<&'a Fact> {
    let mut kept: Vec<&Fact> = facts
        .iter()
        .filter(|fact| attempts.contains(&fact.attempt) && fact.counts_in(lab, fact.attempt))
        .collect();
    kept.sort_by_key(|fact| fact.seq);
    kept.dedup_by_key(|fact| fact.seq);
    kept
}

/// Whether this trace was made by a session for a probe of this lab.
///
/// Traces have the form `LAB-aATTEMPT-PROBE-HEX`, see [`trace_id`].
#[must_use]
pub fn is_session_trace(lab: &str, trace: &str) -> bool {
    trace
        .strip_prefix(lab)
        .and_then(|rest| rest.strip_prefix("-a"))
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The trace of one send.
#[must_use]
pub fn trace_id(lab: &str, attempt: u32, probe: &str, id: u32) -> String {
    format!("{lab}-a{attempt}-{probe}-{id:08x}")
}

/// The facts of one request, by what they say.
#[derive(Clone, Debug, Default)]
pub(super) struct Trail<'a> {
    /// Arrival ids that carry the trace; more than one makes everything behind the bus ambiguous.
    pub arrivals: Vec<&'a str>,
    pub answer: Option<&'a Fact>,
    pub lost: Option<&'a Fact>,
    pub stored: Option<&'a Fact>,
    pub not_stored: Option<&'a Fact>,
    pub received: Vec<&'a Fact>,
    /// No consumer had the message's subject after it was stored.
    pub unheard: Option<&'a Fact>,
    /// Every consumer of the message's subject.
    pub consumers: Vec<&'a Fact>,
    pub discarded: Vec<&'a Fact>,
    pub triggered: Vec<&'a Fact>,
    pub refused: Vec<&'a Fact>,
    pub created: Vec<&'a Fact>,
    pub phases: Vec<&'a Fact>,
    pub attempts: Vec<&'a Fact>,
    pub effects: Vec<&'a Fact>,
    /// Complete looks at the ledger that found nothing.
    pub no_effect: Vec<&'a Fact>,
}

/// Whether a fact ties a trace to an arrival id.
fn ties(fact: &Fact) -> bool {
    matches!(
        fact.observation,
        Observation::Stored { .. } | Observation::Received | Observation::WorkflowCreated { .. }
    )
}

/// Arrival ids that facts tie to this trace, the earliest first.
fn arrivals_of<'a>(trace: &str, facts: &[&'a Fact]) -> Vec<&'a str> {
    let mut found = Vec::new();
    for fact in facts.iter().filter(|fact| ties(fact)) {
        if let (Some(own), Some(arrival)) = (fact.known_trace(), fact.known_arrival())
            && own == trace
            && !found.contains(&arrival)
        {
            found.push(arrival);
        }
    }
    found
}

impl<'a> Trail<'a> {
    /// Follows a trace.
    pub fn of_trace(trace: &str, facts: &[&'a Fact]) -> Trail<'a> {
        let arrivals = arrivals_of(trace, facts);
        Trail::collect(Some(trace), arrivals, facts)
    }

    /// Follows an arrival whose trace is not one of ours.
    pub fn of_arrival(arrival: &'a str, facts: &[&'a Fact]) -> Trail<'a> {
        Trail::collect(None, vec![arrival], facts)
    }

    fn collect(trace: Option<&str>, arrivals: Vec<&'a str>, facts: &[&'a Fact]) -> Trail<'a> {
        let mut trail = Trail {
            arrivals,
            ..Trail::default()
        };
        let executions = trail.executions(trace, facts);
        for fact in facts {
            if trail.owns(trace, &executions, fact) {
                trail.file(fact);
            }
        }
        if trail.arrivals.len() > 1 {
            trail.forget_behind_bus();
        } else {
            trail.consumers = trail.consumers_of_subject(facts);
        }
        trail
    }

    /// Uids of the Workflows that carry this arrival, or this trace and no arrival.
    fn executions(&self, trace: Option<&str>, facts: &[&'a Fact]) -> BTreeSet<&'a str> {
        facts
            .iter()
            .filter(|fact| matches!(fact.observation, Observation::WorkflowCreated { .. }))
            .filter(|fact| self.carries(trace, fact))
            .filter_map(|fact| fact.known_execution())
            .collect()
    }

    /// By arrival where the fact has one, else by trace.
    fn carries(&self, trace: Option<&str>, fact: &Fact) -> bool {
        match fact.known_arrival() {
            Some(arrival) => self.arrivals.contains(&arrival),
            None => trace.is_some() && fact.known_trace() == trace,
        }
    }

    fn owns(&self, trace: Option<&str>, executions: &BTreeSet<&str>, fact: &Fact) -> bool {
        match fact.observation {
            Observation::HttpAnswer { .. }
            | Observation::AnswerLost { .. }
            | Observation::NotStored { .. } => trace.is_some() && fact.known_trace() == trace,
            // A log line of the Sensor names arrivals only.
            Observation::Discarded { .. }
            | Observation::Triggered { .. }
            | Observation::TriggerFailed { .. } => {
                fact.known_arrival().is_some() && self.carries(trace, fact)
            }
            Observation::Stored { .. }
            | Observation::NoConsumer { .. }
            | Observation::Received
            | Observation::WorkflowCreated { .. } => self.carries(trace, fact),
            Observation::WorkflowPhase { .. }
            | Observation::LedgerAttempt { .. }
            | Observation::LedgerEffect { .. }
            | Observation::DestinationRecord { .. }
            | Observation::NoEffect
            | Observation::Window { .. } => {
                self.carries(trace, fact)
                    || fact
                        .known_execution()
                        .is_some_and(|uid| executions.contains(uid))
            }
            Observation::Consumer { .. }
            | Observation::Gate { .. }
            | Observation::ClaimChanged { .. }
            | Observation::OrderState { .. }
            | Observation::Access { .. } => false,
        }
    }

    fn file(&mut self, fact: &'a Fact) {
        match &fact.observation {
            Observation::HttpAnswer { .. } => self.answer = self.answer.or(Some(fact)),
            Observation::AnswerLost { .. } => self.lost = self.lost.or(Some(fact)),
            Observation::Stored { .. } => self.stored = self.stored.or(Some(fact)),
            Observation::NotStored { .. } => self.not_stored = Some(fact),
            Observation::NoConsumer { .. } => self.unheard = self.unheard.or(Some(fact)),
            Observation::Received => self.received.push(fact),
            Observation::Discarded { .. } => self.discarded.push(fact),
            Observation::Triggered { .. } => self.triggered.push(fact),
            Observation::TriggerFailed { .. } => self.refused.push(fact),
            Observation::WorkflowCreated { .. } => self.created.push(fact),
            Observation::WorkflowPhase { .. } => self.phases.push(fact),
            Observation::LedgerAttempt { .. } => self.attempts.push(fact),
            Observation::LedgerEffect { .. } | Observation::DestinationRecord { .. } => {
                self.effects.push(fact);
            }
            Observation::NoEffect => self.no_effect.push(fact),
            Observation::Window { .. } if fact.layer == super::Layer::Effect => {
                self.no_effect.push(fact);
            }
            Observation::Window { .. }
            | Observation::Consumer { .. }
            | Observation::Gate { .. }
            | Observation::ClaimChanged { .. }
            | Observation::OrderState { .. }
            | Observation::Access { .. } => {}
        }
    }

    /// Two requests with one trace cannot be told apart behind the bus.
    fn forget_behind_bus(&mut self) {
        self.unheard = None;
        for list in [
            &mut self.discarded,
            &mut self.triggered,
            &mut self.refused,
            &mut self.created,
            &mut self.phases,
            &mut self.attempts,
            &mut self.effects,
            &mut self.no_effect,
        ] {
            list.clear();
        }
    }

    fn consumers_of_subject(&self, facts: &[&'a Fact]) -> Vec<&'a Fact> {
        let Some((subject, _)) = self.message() else {
            return Vec::new();
        };
        facts
            .iter()
            .filter(|fact| {
                matches!(&fact.observation, Observation::Consumer { subject: own, .. } if own == subject)
            })
            .copied()
            .collect()
    }

    /// Subject and stream sequence of the stored message.
    pub fn message(&self) -> Option<(&'a str, u64)> {
        let fact = self.stored?;
        match (&fact.observation, fact.sequence) {
            (Observation::Stored { subject }, Some(sequence)) if sequence > 0 => {
                Some((subject, sequence))
            }
            _ => None,
        }
    }

    /// Facts which show that a consumer handed this arrival to a Sensor.
    pub fn judged(&self) -> Vec<&'a Fact> {
        [
            &self.discarded,
            &self.triggered,
            &self.refused,
            &self.created,
            &self.phases,
            &self.attempts,
            &self.effects,
        ]
        .into_iter()
        .flatten()
        .copied()
        .collect()
    }

    /// What the ledger has of it.
    pub fn rows(&self) -> Vec<&'a Fact> {
        [&self.attempts, &self.effects]
            .into_iter()
            .flatten()
            .copied()
            .collect()
    }

    /// Consumers that existed when the message was stored, the earliest read first.
    pub fn older_consumers(&self) -> Vec<&'a Fact> {
        self.split_consumers(true)
    }

    /// Consumers that were created after the message was stored.
    pub fn newer_consumers(&self) -> Vec<&'a Fact> {
        self.split_consumers(false)
    }

    fn split_consumers(&self, older: bool) -> Vec<&'a Fact> {
        let Some((_, sequence)) = self.message() else {
            return Vec::new();
        };
        self.consumers
            .iter()
            .filter(|fact| match fact.observation {
                Observation::Consumer {
                    created_at_sequence,
                    ..
                } => (created_at_sequence < sequence) == older,
                _ => false,
            })
            .copied()
            .collect()
    }

    /// The first read of a consumer, older than the message, that has acknowledged it.
    pub fn acknowledged(&self) -> Option<&'a Fact> {
        let (_, sequence) = self.message()?;
        self.older_consumers().into_iter().find(|fact| {
            matches!(fact.observation, Observation::Consumer { ack_floor, .. } if ack_floor >= sequence)
        })
    }
}
