//! Sessions driven by a runner that answers from a true world.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::evidence::OrderExpectation;
use crate::evidence::testing::{self, Request};
use crate::evidence::{Fate, Observation, Reason, Right};
use crate::lab::format::{Cause, Fix, OpenPoint, ProbeFailure, ProbeName, ReportTask};
use crate::lab::{AccessCheck, Action, Failure, GateMode, OrderCheck, Probe, StageKind};
use crate::session::message::{GateCondition, SendOutcome, StepError};

use super::*;

mod checks;
mod comebacks;
mod foreign;
mod observing;
mod properties;
mod stories;

pub(crate) fn probe(name: &str, fate: Fate) -> Probe {
    Probe {
        name: name.to_owned(),
        title: name.to_owned(),
        control: fate == Fate::Applied,
        method: "POST".to_owned(),
        path: None,
        headers: BTreeMap::new(),
        body: "{}".to_owned(),
        answer: crate::lab::format::Answer::Read,
        before: Vec::new(),
        copies: 1,
        fate,
        or: Vec::new(),
    }
}

pub(crate) fn missing_path() -> Fate {
    Fate::Stopped {
        layer: Layer::Filter,
        reason: Reason::MissingPath,
    }
}

pub(crate) fn duplicate() -> Fate {
    Fate::Stopped {
        layer: Layer::Effect,
        reason: Reason::Duplicate,
    }
}

pub(crate) fn stage(name: &str, kind: StageKind) -> Stage {
    Stage {
        name: name.to_owned(),
        kind,
        title: name.to_owned(),
        text: String::new(),
        apply: Vec::new(),
        afresh: false,
        before: Vec::new(),
        gate: GateMode::None,
        gate_fails: None,
        probes: Vec::new(),
        together: false,
        orders: Vec::new(),
        observe: false,
        access: Vec::new(),
        not_repeated: Vec::new(),
        predicts: None,
        fix: None,
        report: None,
        debrief: Vec::new(),
    }
}

pub(crate) fn lab(name: &str, stages: Vec<Stage>) -> Lab {
    Lab {
        name: name.to_owned(),
        title: name.to_owned(),
        summary: String::new(),
        event: name.to_owned(),
        layers: Layer::ALL.to_vec(),
        needs: Vec::new(),
        clusters: vec!["embedded".to_owned()],
        not_reproduced: Vec::new(),
        intro: name == "first-order",
        matrix: false,
        links: Vec::new(),
        stages,
        faults: None,
        drawn: None,
    }
}

pub(crate) fn access(verb: &str, allowed: bool) -> AccessCheck {
    AccessCheck {
        account: "order-sensor".to_owned(),
        verb: verb.to_owned(),
        resource: "workflows".to_owned(),
        group: "argoproj.io".to_owned(),
        allowed,
    }
}

fn report_task() -> ReportTask {
    ReportTask {
        stage: "send".to_owned(),
        probe: "flat".to_owned(),
        layer: None,
        causes: vec![
            Cause {
                text: "the path does not exist".to_owned(),
                right: true,
                because: None,
            },
            Cause {
                text: "the bus lost it".to_owned(),
                right: false,
                because: Some("the message is on the bus".to_owned()),
            },
        ],
        not_proven: vec![
            OpenPoint {
                text: "that a repeat changes nothing".to_owned(),
                open: true,
                proof: "sending it again".to_owned(),
            },
            OpenPoint {
                text: "that it was stored".to_owned(),
                open: false,
                proof: "the message on the bus".to_owned(),
            },
        ],
    }
}

/// An intro and two labs that use every kind of stage.
pub(crate) fn course() -> Arc<[Lab]> {
    let intro = Stage {
        apply: vec!["base.yaml".to_owned()],
        gate: GateMode::Open,
        probes: vec![probe("order", Fate::Applied)],
        ..stage("order", StageKind::Send)
    };
    let main = vec![
        stage("read", StageKind::Read),
        Stage {
            apply: vec!["base.yaml".to_owned(), "sensor.yaml".to_owned()],
            ..stage("apply", StageKind::Apply)
        },
        Stage {
            gate: GateMode::Open,
            ..stage("gate", StageKind::Gate)
        },
        Stage {
            predicts: Some("send".to_owned()),
            ..stage("predict", StageKind::Predict)
        },
        Stage {
            before: vec![Action::DeleteSensorPod],
            gate: GateMode::Open,
            probes: vec![
                probe("nested", Fate::Applied),
                probe("flat", missing_path()),
            ],
            ..stage("send", StageKind::Send)
        },
        Stage {
            gate: GateMode::Open,
            fix: Some(Fix {
                manifest: "sensor.yaml".to_owned(),
                hints: vec!["one".to_owned(), "two".to_owned()],
                solution: "solution.yaml".to_owned(),
                wrong: Vec::new(),
            }),
            probes: vec![
                probe("first", Fate::Applied),
                probe("again", duplicate()),
                probe("third", missing_path()),
            ],
            ..stage("fix", StageKind::Fix)
        },
        Stage {
            report: Some(report_task()),
            ..stage("report", StageKind::Report)
        },
        stage("debrief", StageKind::Debrief),
    ];
    let blind = Stage {
        apply: vec!["other.yaml".to_owned()],
        probes: vec![probe("early", Fate::Applied)],
        access: vec![access("list", false)],
        ..stage("early", StageKind::Send)
    };
    let rights = Stage {
        access: vec![access("create", false)],
        ..stage("rights", StageKind::Send)
    };
    let race = Stage {
        together: true,
        probes: vec![
            Probe {
                or: vec![duplicate()],
                ..probe("left", Fate::Applied)
            },
            Probe {
                or: vec![duplicate()],
                before: vec![Action::DeleteWorkflows, Action::KillSensorPod],
                ..probe("right", Fate::Applied)
            },
        ],
        orders: vec![OrderCheck {
            name: "once".to_owned(),
            order: "o-{{attempt}}".to_owned(),
            action: "charge".to_owned(),
            attempts: None,
            effects: Some(1),
            effects_at_least: None,
            records: None,
            claim: None,
        }],
        ..stage("race", StageKind::Send)
    };
    let stale = Stage {
        apply: vec!["refused.yaml".to_owned()],
        gate: GateMode::Open,
        gate_fails: Some("invalid-sensor".to_owned()),
        probes: vec![probe("old", Fate::Applied)],
        not_repeated: vec![ProbeName {
            stage: "early".to_owned(),
            probe: "early".to_owned(),
        }],
        ..stage("stale", StageKind::Send)
    };
    Arc::from(vec![
        lab("first-order", vec![intro]),
        lab(testing::LAB, main),
        lab("readiness", vec![blind, rights, race, stale]),
    ])
}

/// A runner over a true world: it answers effects, records the journal, and may be told to fail.
#[derive(Default)]
pub(crate) struct Runner {
    /// Fates by probe where they differ from what the stage expects.
    pub fates: BTreeMap<String, Fate>,
    /// Kinds of facts that are never seen.
    pub unseen: BTreeSet<String>,
    pub apply: Option<StepError>,
    pub gate: Option<StepError>,
    pub act: Option<StepError>,
    pub rewind: Option<StepError>,
    /// Why access cannot be reviewed.
    pub review: Option<StepError>,
    /// What accounts may do.
    pub rights: BTreeSet<Right>,
    /// Effects of each order that is looked up, where it is not one.
    pub order_effects: Option<u64>,
    pub not_sent: bool,
    pub journal: Vec<Entry>,
    pub effects: Vec<Effect>,
    sent: u64,
    facts: BTreeMap<String, Vec<Fact>>,
}

impl Runner {
    fn seq(&self) -> u64 {
        self.journal.len() as u64 + 1
    }

    fn record(&mut self, facts: Vec<Fact>) -> Message {
        let mut written = Vec::new();
        for mut fact in facts {
            fact.seq = self.seq();
            self.journal.push(Entry::Fact(fact.clone()));
            written.push(fact);
        }
        Message::Facts(written)
    }

    /// The messages that answer an effect.
    pub fn answer(&mut self, effect: &Effect) -> Vec<Message> {
        self.effects.push(effect.clone());
        match effect {
            Effect::Journal(entry) => {
                self.journal.push((**entry).clone());
                Vec::new()
            }
            Effect::Apply { attempt, .. } => vec![Message::Applied {
                attempt: *attempt,
                result: self.apply.clone().map_or(Ok(vec!["uid".to_owned()]), Err),
            }],
            Effect::Act { action, .. } => vec![Message::Acted {
                action: action.clone(),
                result: self.act.clone().map_or(Ok(()), Err),
            }],
            Effect::OpenGate { .. } => self.gate_reports(),
            Effect::Send {
                lab,
                stage,
                attempt,
                trace,
                probe,
            } => self.send(lab, stage, *attempt, trace, probe),
            Effect::Collect { probes, .. } => {
                let facts = probes
                    .iter()
                    .filter_map(|(_, trace, _)| self.facts.remove(trace))
                    .flatten()
                    .collect();
                vec![self.record(facts), Message::Collected { complete: true }]
            }
            Effect::Review {
                lab,
                stage,
                attempt,
                rights,
                orders,
            } => self.review(lab, stage, *attempt, rights, orders),
            Effect::Rewind { .. } | Effect::Reset { .. } => vec![Message::Rewound {
                result: self.rewind.clone().map_or(Ok(()), Err),
            }],
            _ => Vec::new(),
        }
    }

    fn review(
        &mut self,
        lab: &str,
        stage: &str,
        attempt: u32,
        rights: &[Right],
        orders: &[OrderExpectation],
    ) -> Vec<Message> {
        if let Some(error) = self.review.clone() {
            return vec![Message::Reviewed { result: Err(error) }];
        }
        let mut facts: Vec<Fact> = rights
            .iter()
            .map(|right| Fact {
                lab: lab.to_owned(),
                stage: stage.to_owned(),
                attempt,
                ..testing::fact(
                    right.layer(),
                    Observation::Access {
                        account: right.account.clone(),
                        verb: right.verb.clone(),
                        group: right.group.clone(),
                        resource: right.resource.clone(),
                        allowed: self.rights.contains(right),
                        reason: String::new(),
                    },
                )
            })
            .collect();
        facts.extend(orders.iter().map(|order| Fact {
            lab: lab.to_owned(),
            stage: stage.to_owned(),
            attempt,
            ..testing::fact(
                Layer::Effect,
                Observation::OrderState {
                    order: order.order.clone(),
                    action: order.action.clone(),
                    attempts: 2,
                    effects: self.order_effects.unwrap_or(1),
                    records: None,
                    claim: None,
                },
            )
        }));
        vec![self.record(facts), Message::Reviewed { result: Ok(()) }]
    }

    fn gate_reports(&self) -> Vec<Message> {
        let waiting = GateReport {
            open: false,
            conditions: vec![GateCondition {
                name: "subscribed".to_owned(),
                holds: false,
                detail: "stand by".to_owned(),
                since: None,
                command: String::new(),
            }],
            failed: None,
        };
        let last = GateReport {
            open: self.gate.is_none(),
            conditions: Vec::new(),
            failed: self.gate.clone(),
        };
        vec![Message::Gate(waiting), Message::Gate(last)]
    }

    fn send(
        &mut self,
        lab: &str,
        stage: &str,
        attempt: u32,
        trace: &str,
        probe: &Probe,
    ) -> Vec<Message> {
        let outcome = |outcome| Message::Sent {
            probe: probe.name.clone(),
            trace: trace.to_owned(),
            outcome,
        };
        if self.not_sent {
            return vec![outcome(SendOutcome::NotSent {
                error: "no route".to_owned(),
            })];
        }
        let fate = self.fates.get(&probe.name).unwrap_or(&probe.fate).clone();
        self.sent += 1;
        let mut request = Request::new(self.sent, fate);
        request.trace = trace.to_owned();
        let mut facts: Vec<Fact> = request
            .facts()
            .into_iter()
            .filter(|fact| {
                let value = serde_json::to_value(&fact.observation).unwrap();
                !self.unseen.contains(value["kind"].as_str().unwrap())
            })
            .map(|fact| Fact {
                lab: lab.to_owned(),
                stage: stage.to_owned(),
                attempt,
                ..fact
            })
            .collect();
        let first = facts.remove(0);
        self.facts.insert(trace.to_owned(), facts);
        vec![
            self.record(vec![first]),
            outcome(SendOutcome::Answered { status: 200 }),
        ]
    }
}

/// A session and its runner.
pub(crate) struct Session {
    pub state: State,
    pub runner: Runner,
    ids: u32,
}

impl Session {
    pub fn new() -> Session {
        Session {
            state: State::new(course(), Timestamp::UNIX_EPOCH),
            runner: Runner::default(),
            ids: 0,
        }
    }

    /// A session that stands at a stage of the main lab, everything before it passed.
    pub fn at(name: &str) -> Session {
        let mut session = Session::new();
        session.skip_to(name);
        session
    }

    pub fn skip_to(&mut self, name: &str) {
        for _ in 0..60 {
            if self.state.stage_name() == name && self.state.phase == StagePhase::Fresh {
                return;
            }
            match self.state.stage_name().as_str() {
                "predict" => self.predict_all(),
                "report" => self.report_all(),
                _ => {}
            }
            self.say(Message::Next);
        }
        panic!("stage {name} was not reached: {:?}", self.state.phase);
    }

    pub fn predict_all(&mut self) {
        for (probe, stops_at) in [("nested", None), ("flat", Some(Layer::Bus))] {
            self.say(Message::Predict {
                probe: probe.to_owned(),
                stops_at,
            });
        }
    }

    pub fn report_all(&mut self) {
        let row = self.state.row_of("send", "flat");
        let line = row.cell(Layer::Filter).facts[0].to_string();
        for (topic, answer) in [
            ("layer", "filter"),
            ("fact", line.as_str()),
            ("cause", "1"),
            ("not-proven", "that a repeat changes nothing"),
        ] {
            self.tell(topic, answer);
        }
    }

    /// Presses the key and answers everything but the first send; answers its trace.
    pub fn until_silent_at_send(&mut self) -> String {
        let mut queue = VecDeque::from([Message::Next]);
        let mut trace = None;
        while let Some(message) = queue.pop_front() {
            for effect in self.raw(message) {
                match &effect {
                    Effect::Send { trace: sent, .. } => trace = Some(sent.clone()),
                    _ => queue.extend(self.runner.answer(&effect)),
                }
            }
        }
        trace.unwrap()
    }

    /// The program ended while the present go was under way.
    pub fn cut_off(&mut self) {
        self.state.run_mut().unwrap().cut_off = true;
    }

    pub fn tell(&mut self, topic: &str, answer: &str) {
        self.say(Message::Report {
            topic: topic.to_owned(),
            answer: answer.to_owned(),
        });
    }

    pub fn context(&mut self) -> Context {
        self.ids += 1;
        Context {
            now: Timestamp::from_second(i64::from(self.ids)).unwrap(),
            id: self.ids,
        }
    }

    /// One message without the runner's answers.
    pub fn raw(&mut self, message: Message) -> Vec<Effect> {
        let context = self.context();
        self.state.update(message, &context)
    }

    /// One message and everything that follows from it.
    pub fn say(&mut self, message: Message) -> Vec<Effect> {
        let mut queue = VecDeque::from([message]);
        let mut all = Vec::new();
        while let Some(message) = queue.pop_front() {
            for effect in self.raw(message) {
                queue.extend(self.runner.answer(&effect));
                all.push(effect);
            }
        }
        all
    }
}

pub(crate) fn kinds(effects: &[Effect]) -> Vec<&'static str> {
    effects
        .iter()
        .map(|effect| match effect {
            Effect::Checkpoint => "checkpoint",
            Effect::Apply { .. } => "apply",
            Effect::Act { .. } => "act",
            Effect::OpenGate { .. } => "gate",
            Effect::Send { .. } => "send",
            Effect::Collect { .. } => "collect",
            Effect::Review { .. } => "review",
            Effect::Journal(entry) => match **entry {
                Entry::Intent(_) => "intent",
                Entry::Outcome(_) => "outcome",
                Entry::Judgement(_) => "judgement",
                _ => "journal",
            },
            Effect::Snapshot { .. } => "snapshot",
            Effect::Rewind { .. } => "rewind",
            Effect::Reset { .. } => "reset",
            Effect::OpenWorkingCopy { .. } => "open",
            Effect::CancelWork => "cancel",
        })
        .collect()
}

/// An object that is not as it was applied.
pub(crate) fn a_difference() -> Difference {
    Difference {
        text: "Sensor/orders was changed".to_owned(),
        kept: "argoproj.io/v1alpha1 Sensor orders uid 1".to_owned(),
        live: "argoproj.io/v1alpha1 Sensor orders uid 2".to_owned(),
    }
}

pub(crate) fn environment(reason: &str) -> StepError {
    StepError {
        reason: reason.to_owned(),
        text: format!("{reason} happened"),
        environment: true,
    }
}

pub(crate) fn refusal(reason: &str) -> StepError {
    StepError {
        environment: false,
        ..environment(reason)
    }
}

pub(crate) fn wrong_fix(probe: &str, observed: Fate) -> Failure {
    Failure::Probe(ProbeFailure {
        probe: probe.to_owned(),
        observed,
    })
}
