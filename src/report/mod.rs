//! Incident report (Markdown), JSON and JUnit, from evidence alone.
//!
//! [`Report::new`] reads the journal's entries; [`markdown::render`] and [`json::render`] print the same report.
//! [`bundle`] packs a session for a colleague, [`junit`] tells a CI server of a run. [`explain`] follows one event through a Sensor.

pub mod bundle;
pub mod explain;
pub mod json;
pub mod junit;
pub mod markdown;
pub mod matrix;
pub mod metrics;
pub mod runbook;
mod standing;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::evidence::Scope;
use crate::evidence::journal::{Claim, IntentAction, Judgement, Note, Prediction, fact_numbers};
use crate::evidence::table::{Counters, ProbeRun, counters, rows};
use crate::evidence::{AccessRow, Entry, Fact, Layer, Outcome, Row, access_table};
use crate::lab::Lab;
use crate::session::APPLIED;

use standing::{Unjudged, complete, standing, unjudged};

/// The report over all labs that the journal mentions.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub labs: Vec<LabReport>,
    /// What of the session could not be read, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One lab: its attempts in order, what was claimed, and what is still open.
#[derive(Clone, Debug, Serialize)]
pub struct LabReport {
    pub name: String,
    pub title: String,
    /// Whether every check of every stage is proven in the end, and every report holds.
    pub complete: bool,
    pub attempts: Vec<AttemptReport>,
    pub claims: Vec<Claim>,
    pub changes: Vec<Note>,
    /// What service accounts may do, before and after; empty where no right was reviewed.
    pub access: Vec<AccessRow>,
    pub not_proven: Vec<String>,
    pub links: Vec<(String, String)>,
    /// All facts in order: the appendix.
    pub timeline: Vec<Fact>,
}

/// One attempt: its probes, counters and verdicts.
#[derive(Clone, Debug, Serialize)]
pub struct AttemptReport {
    pub attempt: u32,
    pub rows: Vec<SentRow>,
    pub counters: Counters,
    pub judgements: Vec<Judgement>,
    pub predictions: Vec<Scored>,
    /// Layers that did not stop a probe which was stopped, each by a fact of its own or a later one.
    pub ruled_out: Vec<RuledOut>,
}

/// A row, with the stage that sent it: probes of several stages share names.
#[derive(Clone, Debug, Serialize)]
pub struct SentRow {
    /// None for a request that the learner sent by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// What people call the probe; its name where the lab says nothing.
    pub title: String,
    #[serde(flatten)]
    pub row: Row,
}

/// A layer that a stopped event had passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuledOut {
    /// The stage that sent the probe; none for a request by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    pub probe: String,
    /// The request; a probe may be sent several times.
    pub trace: Option<String>,
    pub arrival: Option<String>,
    pub layer: Layer,
    pub facts: Vec<u64>,
}

/// A prediction and whether it came true; `None` while the row is not settled.
#[derive(Clone, Debug, Serialize)]
pub struct Scored {
    pub prediction: Prediction,
    pub right: Option<bool>,
}

impl Report {
    /// Builds the report from the journal.
    #[must_use]
    pub fn new(entries: &[Entry], labs: &[Lab]) -> Self {
        let mut names: Vec<&str> = Vec::new();
        for name in entries.iter().filter_map(lab_of) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Self {
            labs: names
                .into_iter()
                .map(|name| lab_report(name, entries, labs))
                .collect(),
            notes: Vec::new(),
        }
    }

    /// Says as well what of the session could not be read: what is missing is not what never was.
    #[must_use]
    pub fn with_notes(mut self, notes: &[String]) -> Self {
        self.notes.extend_from_slice(notes);
        self
    }

    /// Whether every lab in it is complete and nothing in it was refuted or stayed unproven at the end. What could not be read
    /// may have said otherwise.
    #[must_use]
    pub fn proven(&self) -> bool {
        self.notes.is_empty() && !self.labs.is_empty() && self.labs.iter().all(|lab| lab.complete)
    }
}

fn lab_of(entry: &Entry) -> Option<&str> {
    match entry {
        Entry::Fact(fact) => Some(&fact.lab),
        Entry::Intent(intent) => Some(&intent.lab),
        Entry::Prediction(prediction) => Some(&prediction.lab),
        Entry::Claim(claim) => Some(&claim.lab),
        Entry::Judgement(judgement) => Some(&judgement.lab),
        Entry::Note(note) => Some(&note.lab).filter(|lab| !lab.is_empty()),
        Entry::Outcome(_) => None,
    }
    .map(String::as_str)
}

fn lab_report(name: &str, entries: &[Entry], labs: &[Lab]) -> LabReport {
    let lab = labs.iter().find(|lab| lab.name == name);
    let mine: Vec<&Entry> = entries
        .iter()
        .filter(|entry| lab_of(entry) == Some(name))
        .collect();
    let facts: Vec<Fact> = mine
        .iter()
        .filter_map(|entry| {
            if let Entry::Fact(fact) = entry {
                Some(fact.clone())
            } else {
                None
            }
        })
        .collect();
    let there = fact_numbers(entries);
    let claims: Vec<Claim> = mine
        .iter()
        .filter_map(|entry| {
            if let Entry::Claim(claim) = entry {
                Some(claim.standing(&there))
            } else {
                None
            }
        })
        .collect();
    let judgements: Vec<Judgement> = mine
        .iter()
        .filter_map(|entry| {
            if let Entry::Judgement(judgement) = entry {
                Some(judgement.standing(&there))
            } else {
                None
            }
        })
        .collect();
    let mut changes: Vec<Note> = mine
        .iter()
        .filter_map(|entry| {
            if let Entry::Note(note) = entry {
                Some(note.clone())
            } else {
                None
            }
        })
        .filter(|note| note.topic == APPLIED)
        .collect();
    // The same change, applied again for another go.
    changes.dedup_by(|next, before| next.text == before.text);
    let standing = standing(&judgements);
    let unjudged = unjudged(&mine, lab, &judgements);
    LabReport {
        name: name.to_owned(),
        title: lab.map_or_else(String::new, |lab| lab.title.clone()),
        complete: lab.is_some_and(|lab| complete(lab, &standing, &unjudged, &claims)),
        attempts: attempts(name, lab, &mine, &facts, &judgements),
        not_proven: not_proven(lab, &standing, &unjudged, &claims),
        claims,
        changes,
        access: access_table(&facts, name),
        links: lab
            .map(|lab| {
                lab.links
                    .iter()
                    .map(|link| (link.title.clone(), link.url.clone()))
                    .collect()
            })
            .unwrap_or_default(),
        timeline: facts,
    }
}

fn attempts(
    name: &str,
    lab: Option<&Lab>,
    mine: &[&Entry],
    facts: &[Fact],
    judgements: &[Judgement],
) -> Vec<AttemptReport> {
    let mut probes: BTreeMap<u32, Vec<ProbeRun>> = BTreeMap::new();
    let mut stages: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for entry in mine {
        if let Entry::Intent(intent) = entry
            && let IntentAction::Send { probe } = &intent.action
        {
            stages
                .entry(intent.attempt)
                .or_default()
                .push(&intent.stage);
            probes.entry(intent.attempt).or_default().push(ProbeRun {
                name: probe.clone(),
                trace: intent.id.clone(),
                attempt: intent.attempt,
            });
        }
    }
    let predictions: Vec<&Prediction> = mine
        .iter()
        .filter_map(|entry| {
            if let Entry::Prediction(prediction) = entry {
                Some(prediction)
            } else {
                None
            }
        })
        .collect();
    probes
        .into_iter()
        .map(|(attempt, probes)| {
            let scope = Scope {
                lab: name,
                attempt,
                settled: true,
            };
            let stages = stages.get(&attempt).map_or(&[][..], Vec::as_slice);
            let rows = sent_rows(lab, stages, rows(&probes, facts, scope));
            AttemptReport {
                attempt,
                counters: counters(facts, scope),
                judgements: told_once(judgements, attempt),
                predictions: scored(&meant_for(&predictions, stages), &rows, attempt, judgements),
                ruled_out: rows.iter().flat_map(ruled_out).collect(),
                rows,
            }
        })
        .collect()
}

/// The rows with their stages, which come in the order in which the probes were sent; the learner's own follow.
fn sent_rows(lab: Option<&Lab>, stages: &[&str], rows: Vec<Row>) -> Vec<SentRow> {
    let sent = |(place, row): (usize, Row)| {
        let stage = stages.get(place).copied();
        let title = lab
            .and_then(|lab| {
                lab.stages
                    .iter()
                    .find(|one| Some(one.name.as_str()) == stage)
            })
            .and_then(|stage| stage.probes.iter().find(|probe| probe.name == row.probe))
            .map(|probe| probe.title.clone())
            .filter(|title| !title.is_empty());
        SentRow {
            stage: stage.map(str::to_owned),
            title: title.unwrap_or_else(|| row.probe.clone()),
            row,
        }
    };
    rows.into_iter().enumerate().map(sent).collect()
}

/// An attempt's judgements; what is judged twice with the same words and facts is told once.
fn told_once(judgements: &[Judgement], attempt: u32) -> Vec<Judgement> {
    let mut told: Vec<Judgement> = Vec::new();
    for judgement in judgements.iter().filter(|one| one.attempt == attempt) {
        let again = told.iter().any(|before| {
            Judgement {
                time: before.time,
                ..judgement.clone()
            } == *before
        });
        if !again {
            told.push(judgement.clone());
        }
    }
    told
}

/// What is known to have let a stopped event pass.
fn ruled_out(sent: &SentRow) -> Vec<RuledOut> {
    let row = &sent.row;
    let Some(stopped) = row.first_failing() else {
        return Vec::new();
    };
    Layer::ALL
        .into_iter()
        .take_while(|layer| *layer < stopped)
        .filter(|layer| row.cell(*layer).passed())
        .map(|layer| RuledOut {
            stage: sent.stage.clone(),
            probe: row.probe.clone(),
            trace: row.trace.clone(),
            arrival: row.arrival.clone(),
            layer,
            facts: row.cell(layer).facts.clone(),
        })
        .collect()
}

/// The predictions about stages that were sent in an attempt, each probe's last one: probes of several stages share names.
fn meant_for<'a>(predictions: &[&'a Prediction], sent: &[&str]) -> Vec<&'a Prediction> {
    let of = |one: &Prediction| (one.stage.clone(), one.attempt, one.probe.clone());
    let mut last: Vec<&Prediction> = Vec::new();
    for prediction in predictions {
        if sent.contains(&prediction.stage.as_str()) {
            last.retain(|earlier| of(earlier) != of(prediction));
            last.push(prediction);
        }
    }
    last
}

/// A prediction belongs to the attempt whose judgements follow it.
fn scored(
    predictions: &[&Prediction],
    rows: &[SentRow],
    attempt: u32,
    judgements: &[Judgement],
) -> Vec<Scored> {
    let judged = |probe: &str| {
        judgements.iter().any(|judgement| {
            judgement.attempt == attempt && judgement.probe.as_deref() == Some(probe)
        })
    };
    predictions
        .iter()
        .filter(|prediction| {
            (prediction.attempt == attempt || prediction.attempt.checked_add(1) == Some(attempt))
                && judged(&prediction.probe)
        })
        .map(|prediction| {
            let fate = rows
                .iter()
                .find(|sent| {
                    sent.row.probe == prediction.probe
                        && sent.stage.as_deref() == Some(prediction.stage.as_str())
                })
                .and_then(|sent| sent.row.fate.as_ref());
            Scored {
                prediction: (*prediction).clone(),
                right: fate.map(|fate| fate.stops_at() == prediction.stops_at),
            }
        })
        .collect()
}

/// What stayed unproven, and what the learner named as open; each with what would prove it.
fn not_proven(
    lab: Option<&Lab>,
    standing: &[&Judgement],
    unjudged: &[Unjudged],
    claims: &[Claim],
) -> Vec<String> {
    let cut = unjudged.iter().map(|one| {
        format!(
            "stage `{}`: what was sent in attempt {} was not judged. What would prove it: the stage done again, to its end.",
            one.stage, one.attempt
        )
    });
    let unproven = standing
        .iter()
        .filter(|judgement| judgement.verdict.outcome == Outcome::Unproven)
        .map(|judgement| {
            format!(
                "{}: {}. What would prove it: stage `{}` done again, where what is missing can be seen.",
                judgement.verdict.claim,
                judgement.verdict.because.clone().unwrap_or_default(),
                judgement.stage
            )
        });
    let open = claims
        .iter()
        .filter(|claim| claim.topic == "not-proven")
        .map(|claim| match proof(lab, claim) {
            Some(proof) => format!("{} What would prove it: {proof}", claim.statement),
            None => claim.statement.clone(),
        });
    unproven.chain(cut).chain(open).collect()
}

/// What would prove the point that a claim names, as the lab says.
fn proof<'a>(lab: Option<&'a Lab>, claim: &Claim) -> Option<&'a str> {
    let stage = lab?.stages.iter().find(|stage| stage.name == claim.stage)?;
    let points = &stage.report.as_ref()?.not_proven;
    let point = points.iter().find(|point| point.text == claim.statement)?;
    Some(point.proof.as_str())
}

#[cfg(test)]
mod tests {
    use super::standing::tests::judged;
    use super::*;

    /// Probes of two stages may share a name, and a probe may be sent twice.
    #[test]
    fn what_is_ruled_out_is_said_of_each_request_with_its_own_facts() {
        use crate::evidence::journal::Intent;
        use crate::evidence::testing::{LAB, Request, numbered};
        use crate::evidence::{Fate, Reason};
        use crate::session::state::tests::{probe, stage};
        let mut stages = Vec::new();
        for (name, title) in [("one", "order (first)"), ("two", "order (second)")] {
            let mut send = stage(name, crate::lab::StageKind::Send);
            send.probes = vec![probe("order", Fate::Applied)];
            send.probes[0].title = title.to_owned();
            stages.push(send);
        }
        let lab = crate::session::state::tests::lab(LAB, stages);
        let stopped = || Fate::Stopped {
            layer: Layer::Filter,
            reason: Reason::Mismatch,
        };
        let requests = [(1, "one"), (2, "two"), (3, "two")];
        let mut facts = Vec::new();
        let mut entries = Vec::new();
        for (number, stage) in requests {
            let request = Request::new(number, stopped());
            entries.push(Entry::Intent(Intent {
                time: jiff::Timestamp::UNIX_EPOCH,
                lab: LAB.to_owned(),
                stage: stage.to_owned(),
                attempt: 1,
                id: request.trace.clone(),
                action: IntentAction::Send {
                    probe: "order".to_owned(),
                },
            }));
            facts.extend(request.facts());
        }
        entries.extend(numbered(facts).into_iter().map(Entry::Fact));
        let report = Report::new(&entries, std::slice::from_ref(&lab));
        let attempt = &report.labs[0].attempts[0];
        assert_eq!(attempt.rows.len(), 3);
        let text = markdown::render(&report);
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("- ruled out for"))
            .collect();
        assert_eq!(lines.len(), 3, "{text}");
        let mut said = std::collections::BTreeSet::new();
        for line in &lines {
            assert_eq!(line.matches("intake").count(), 1, "{line}");
            assert!(said.insert(*line), "{line} is said twice");
        }
        assert!(lines[0].contains("order (first)"), "{}", lines[0]);
        assert!(lines[2].contains("order (second)"), "{}", lines[2]);
        assert!(json::render(&report).unwrap().contains("order (second)"));
    }

    #[test]
    fn one_claim_with_the_same_facts_is_told_once() {
        let one = judged("send", 1, Outcome::Proven);
        let mut later = one.clone();
        later.time += std::time::Duration::from_secs(1);
        let mut other = one.clone();
        other.verdict.outcome = Outcome::Refuted;
        let told = told_once(&[one.clone(), later, other.clone()], 1);
        assert_eq!(told, [one, other]);
    }

    /// Whatever is lost of the facts, a verdict that rested on them is no pass any more.
    #[test]
    fn a_verdict_without_its_facts_proves_nothing() {
        use crate::evidence::testing::{LAB, Request, numbered};
        use crate::evidence::{Fate, journal::ClaimAnswer};
        use crate::session::state::tests::{probe, stage};
        let facts = numbered(Request::new(1, Fate::Applied).facts());
        let rests_on: Vec<u64> = facts.iter().map(|fact| fact.seq).collect();
        let mut judgement = judged("send", 1, Outcome::Proven);
        judgement.lab = LAB.to_owned();
        judgement.verdict.facts.clone_from(&rests_on);
        let claim = Claim {
            time: jiff::Timestamp::UNIX_EPOCH,
            lab: LAB.to_owned(),
            stage: "send".to_owned(),
            topic: "fact".to_owned(),
            statement: "it was applied".to_owned(),
            answer: ClaimAnswer::SupportedBy {
                facts: rests_on.clone(),
            },
        };
        let mut send = stage("send", crate::lab::StageKind::Send);
        send.probes = vec![probe("flat", Fate::Applied)];
        let lab = crate::session::state::tests::lab(LAB, vec![send]);
        let report = |without: Option<u64>| {
            let kept = facts.iter().filter(|fact| Some(fact.seq) != without);
            let mut entries: Vec<Entry> = kept.cloned().map(Entry::Fact).collect();
            entries.push(Entry::Judgement(judgement.clone()));
            entries.push(Entry::Claim(claim.clone()));
            Report::new(&entries, std::slice::from_ref(&lab))
        };
        let whole = report(None);
        assert!(whole.proven());
        let supported = |report: &Report| {
            matches!(
                report.labs[0].claims[0].answer,
                ClaimAnswer::SupportedBy { .. }
            )
        };
        assert!(supported(&whole));
        for gone in rests_on {
            let report = report(Some(gone));
            assert!(!report.proven(), "without #{gone}");
            assert!(!supported(&report), "without #{gone}");
            let text = markdown::render(&report);
            assert!(!text.contains("**proven**"), "{text}");
            assert!(
                text.contains(&format!("does not hold #{gone} any more")),
                "{text}"
            );
        }
    }

    #[test]
    fn what_could_not_be_read_is_said_in_every_form() {
        let note = "lines of the journal cannot be read and prove nothing: 1, 2";
        let report = Report::new(&[], &[]).with_notes(&[note.to_owned()]);
        let text = markdown::render(&report);
        assert!(
            text.contains(note) && !text.contains("Nothing was collected"),
            "{text}"
        );
        assert!(json::render(&report).unwrap().contains(note));
        assert!(markdown::render(&Report::new(&[], &[])).contains("Nothing was collected"));
    }
}
