//! The learner's report: each claim is answered from facts, and from nothing else.

use super::message::Effect;
use super::state::State;
use crate::evidence::journal::{Claim, ClaimAnswer};
use crate::evidence::{Entry, Fact, Layer, Observation, Row};
use crate::lab::format::ReportTask;

/// What a report must name, in this order.
pub const TOPICS: [&str; 4] = ["layer", "fact", "cause", "not-proven"];

/// Words that say that no layer stopped the event.
const NOWHERE: [&str; 4] = ["none", "no layer", "nowhere", "applied"];

/// The topics of a report for which no claim is supported.
#[must_use]
pub fn open_topics(claims: &[Claim]) -> Vec<&'static str> {
    TOPICS
        .into_iter()
        .filter(|topic| {
            !claims.iter().any(|claim| {
                claim.topic == *topic && matches!(claim.answer, ClaimAnswer::SupportedBy { .. })
            })
        })
        .collect()
}

/// What is missing until the report holds: each topic supported, and at least one open point named.
pub(super) fn missing_claims(claims: &[Claim]) -> Option<String> {
    let open = open_topics(claims);
    (!open.is_empty()).then(|| format!("not supported yet: {}", open.join(", ")))
}

fn contradicted(facts: Vec<u64>, because: impl Into<String>) -> ClaimAnswer {
    ClaimAnswer::ContradictedBy {
        facts,
        because: because.into(),
    }
}

/// What a report is about: the probe's row, and what the gate said of that go.
struct Subject<'a> {
    task: &'a ReportTask,
    row: Row,
    /// Conditions of the gate that did not hold, by layer.
    gate: Vec<(Layer, u64)>,
}

impl Subject<'_> {
    /// The layer in question with the facts that prove it; `None` is the effect that was there.
    fn proving_facts(&self) -> (Option<Layer>, Vec<u64>) {
        match self.task.layer {
            Some(layer) => (Some(layer), self.facts_of(layer)),
            None => proving_facts(&self.row),
        }
    }

    /// Facts of a layer at fault that need not have stopped the probe: its cell's and the gate's, else all there are.
    fn facts_of(&self, layer: Layer) -> Vec<u64> {
        let gate = self.gate.iter().filter(|(at, _)| *at == layer);
        let mut facts = self.row.cell(layer).facts.clone();
        facts.extend(gate.map(|(_, seq)| *seq));
        if facts.is_empty() {
            facts = self.row.facts();
            facts.extend(self.gate.iter().map(|(_, seq)| *seq));
        }
        facts
    }

    /// The layer that a fact speaks of.
    fn layer_of(&self, seq: u64) -> Option<Layer> {
        let of_gate = self.gate.iter().find(|(_, known)| *known == seq);
        let of_row = || {
            Layer::ALL
                .into_iter()
                .find(|layer| self.row.cell(*layer).facts.contains(&seq))
        };
        of_gate.map(|(layer, _)| *layer).or_else(of_row)
    }
}

/// The facts of the layer where the row ends: its first `no`, else its effect.
fn proving_facts(row: &Row) -> (Option<Layer>, Vec<u64>) {
    match row.first_failing() {
        Some(layer) => (Some(layer), row.cell(layer).facts.clone()),
        None if row.cell(Layer::Effect).passed() => (None, row.cell(Layer::Effect).facts.clone()),
        None => (None, Vec::new()),
    }
}

fn answer_layer(subject: &Subject<'_>, answer: &str) -> ClaimAnswer {
    let (stopped, facts) = subject.proving_facts();
    if facts.is_empty() {
        return ClaimAnswer::NothingShowsThis;
    }
    let word = answer.trim().to_lowercase();
    let claimed = match Layer::parse(&word) {
        Some(layer) => Some(layer),
        None if NOWHERE.contains(&word.as_str()) => None,
        None => return ClaimAnswer::NothingShowsThis,
    };
    match (claimed, stopped) {
        (claimed, stopped) if claimed == stopped => ClaimAnswer::SupportedBy { facts },
        (_, Some(_)) if subject.task.layer.is_some() => {
            contradicted(facts, "that layer did what it should")
        }
        (_, Some(layer)) => contradicted(facts, format!("the {layer} layer stopped it")),
        (_, None) => contradicted(facts, "it had its effect"),
    }
}

fn answer_fact(subject: &Subject<'_>, facts: &[Fact], answer: &str) -> ClaimAnswer {
    let number = answer.trim().trim_start_matches('#').parse::<u64>();
    let known = |seq: &u64| facts.iter().any(|fact| fact.seq == *seq);
    let Some(seq) = number.ok().filter(known) else {
        return ClaimAnswer::NothingShowsThis;
    };
    let (stopped, proving) = subject.proving_facts();
    if proving.contains(&seq) {
        return ClaimAnswer::SupportedBy { facts: vec![seq] };
    }
    let wanted = stopped.unwrap_or(Layer::Effect);
    match subject.layer_of(seq) {
        Some(layer) if subject.task.layer.is_some() => contradicted(
            vec![seq],
            format!("it speaks of the {layer} layer, where nothing was changed"),
        ),
        Some(layer) => contradicted(
            vec![seq],
            format!("it speaks of the {layer} layer, and the question is {wanted}"),
        ),
        None => contradicted(
            vec![seq],
            "it belongs to another request or another attempt",
        ),
    }
}

/// The choice named by its text or by its number from 1.
fn chosen<'a, T>(list: &'a [T], answer: &str, text: impl Fn(&T) -> &str) -> Option<&'a T> {
    let answer = answer.trim();
    if let Some(found) = list.iter().find(|one| text(one).trim() == answer) {
        return Some(found);
    }
    let number: usize = answer.parse().ok()?;
    list.get(number.checked_sub(1)?)
}

fn answer_cause(subject: &Subject<'_>, answer: &str) -> (String, ClaimAnswer) {
    let Some(cause) = chosen(&subject.task.causes, answer, |cause| &cause.text) else {
        return (answer.to_owned(), ClaimAnswer::NothingShowsThis);
    };
    let (_, facts) = subject.proving_facts();
    let answer = if facts.is_empty() {
        ClaimAnswer::NothingShowsThis
    } else if cause.right {
        ClaimAnswer::SupportedBy { facts }
    } else {
        let because = cause.because.as_deref();
        contradicted(
            facts,
            because.unwrap_or("the facts of this request say otherwise"),
        )
    };
    (cause.text.clone(), answer)
}

fn answer_not_proven(subject: &Subject<'_>, answer: &str) -> (String, ClaimAnswer) {
    let Some(point) = chosen(&subject.task.not_proven, answer, |point| &point.text) else {
        return (answer.to_owned(), ClaimAnswer::NothingShowsThis);
    };
    let answer = if point.open {
        ClaimAnswer::SupportedBy { facts: Vec::new() }
    } else {
        contradicted(subject.row.facts(), point.proof.clone())
    };
    (point.text.clone(), answer)
}

impl State {
    /// Claims of the current report stage, one a topic and every one of `not-proven`.
    #[must_use]
    pub fn claims(&self) -> Vec<Claim> {
        let stage = self.stage_name();
        self.here()
            .map(|lab| {
                lab.claims
                    .iter()
                    .filter(|claim| claim.stage == stage)
                    .cloned()
                    .collect()
            })
            .unwrap_or_default()
    }

    /// What may be answered to a question of the present report: in words, and as the report takes it.
    #[must_use]
    pub fn report_choices(&self, topic: &str) -> Vec<(String, String)> {
        let Some(task) = self.current_stage().and_then(|stage| stage.report.as_ref()) else {
            return Vec::new();
        };
        let word = |word: &str| (word.to_owned(), word.to_owned());
        match topic {
            "layer" => {
                let none = ("no layer: it had its effect".to_owned(), "none".to_owned());
                let layers = Layer::ALL.into_iter().map(|layer| word(layer.name()));
                std::iter::once(none).chain(layers).collect()
            }
            "fact" => self.report_facts(task),
            "cause" => task.causes.iter().map(|cause| word(&cause.text)).collect(),
            "not-proven" => {
                let points = task.not_proven.iter();
                points.map(|point| word(&point.text)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The facts of the probe in question, and what the gate said of that go.
    fn report_facts(&self, task: &ReportTask) -> Vec<(String, String)> {
        let row = self.rows().into_iter().find(|row| row.probe == task.probe);
        let of_probe = row.map(|row| row.facts()).unwrap_or_default();
        let of_gate = self.failed_gate(&task.stage).into_iter();
        of_probe
            .into_iter()
            .chain(of_gate.map(|(_, seq)| seq))
            .filter_map(|seq| self.fact(seq))
            .map(|fact| {
                let text = format!("#{} {}: {}", fact.seq, fact.layer.name(), fact.line);
                (text, fact.seq.to_string())
            })
            .collect()
    }

    /// Questions of the present report that have no answer yet that holds.
    #[must_use]
    pub fn open_topics(&self) -> Vec<&'static str> {
        open_topics(&self.claims())
    }

    /// Conditions of the gate that did not hold in the last go at a stage, by layer.
    #[must_use]
    pub fn failed_gate(&self, stage: &str) -> Vec<(Layer, u64)> {
        let run = self.here().and_then(|lab| lab.runs.get(stage));
        let attempt = run.map_or(0, |run| run.attempt);
        let failed = |fact: &&Fact| {
            fact.stage == stage
                && fact.attempt == attempt
                && matches!(fact.observation, Observation::Gate { holds: false, .. })
        };
        self.facts()
            .iter()
            .filter(failed)
            .map(|fact| (fact.layer, fact.seq))
            .collect()
    }

    pub(super) fn report(&mut self, topic: &str, answer: &str, out: &mut Vec<Effect>) {
        let Some(task) = self.current_stage().and_then(|stage| stage.report.clone()) else {
            self.notice = Some("this stage asks for no report".to_owned());
            return;
        };
        let subject = Subject {
            task: &task,
            row: self.row_of(&task.stage, &task.probe),
            gate: self.failed_gate(&task.stage),
        };
        let lab = self.lab_name();
        let facts = self.facts.get(&lab).map_or(&[][..], Vec::as_slice);
        let (statement, answer) = match topic {
            "layer" => (answer.to_owned(), answer_layer(&subject, answer)),
            "fact" => (answer.to_owned(), answer_fact(&subject, facts, answer)),
            "cause" => answer_cause(&subject, answer),
            "not-proven" => answer_not_proven(&subject, answer),
            _ => {
                self.notice = Some(format!("a report has the topics {}", TOPICS.join(", ")));
                return;
            }
        };
        let claim = Claim {
            time: self.now,
            lab,
            stage: self.stage_name(),
            topic: topic.to_owned(),
            statement,
            answer,
        };
        let claims = &mut self.here_mut().claims;
        claims.retain(|old| {
            old.stage != claim.stage
                || old.topic != claim.topic
                || (claim.topic == "not-proven" && old.statement != claim.statement)
        });
        claims.push(claim.clone());
        out.push(Effect::Journal(Box::new(Entry::Claim(claim))));
        out.push(Effect::Checkpoint);
    }
}
