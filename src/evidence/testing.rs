//! Facts as a true world would give them, for the tests of this module and of the session.

use jiff::Timestamp;

use super::{Fact, Fate, Layer, Observation, PodInstance, Reason};

pub const LAB: &str = "filter-path";
pub const SUBJECT: &str = "default.orders.order";

pub fn pod(instance: u32) -> PodInstance {
    PodInstance {
        pod: "orders-sensor-x".to_owned(),
        uid: "pod-1".to_owned(),
        container: "main".to_owned(),
        instance,
    }
}

/// A fact that nothing is known about but its kind.
pub fn fact(layer: Layer, observation: Observation) -> Fact {
    let pod = observation.is_from_log().then(|| pod(0));
    Fact {
        seq: 0,
        time: Timestamp::UNIX_EPOCH,
        lab: LAB.to_owned(),
        stage: "send".to_owned(),
        attempt: 1,
        probe: None,
        layer,
        observation,
        source: String::new(),
        pod,
        trace: None,
        arrival: None,
        sequence: None,
        execution: None,
        business_key: None,
        line: String::new(),
        command: String::new(),
    }
}

/// What a request is in the true world.
#[derive(Clone, Debug)]
pub struct Request {
    pub trace: String,
    pub arrival: String,
    pub sequence: u64,
    pub fate: Fate,
    /// Container instance of the Sensor that judged it.
    pub instance: u32,
    /// Last stream sequence when the one consumer was created.
    pub consumer_at: u64,
}

impl Request {
    pub fn new(number: u64, fate: Fate) -> Request {
        Request {
            trace: super::trace_id(LAB, 1, "probe", number as u32),
            arrival: format!("arrival-{number}"),
            sequence: number + 10,
            consumer_at: if fate.stops_at() == Some(Layer::Ready) {
                number + 10
            } else {
                1
            },
            fate,
            instance: 0,
        }
    }

    fn own(&self, layer: Layer, observation: Observation) -> Fact {
        let mut fact = fact(layer, observation);
        if let Some(pod) = &mut fact.pod {
            pod.instance = self.instance;
        }
        fact.arrival = Some(self.arrival.clone());
        fact
    }

    fn traced(&self, layer: Layer, observation: Observation) -> Fact {
        Fact {
            trace: Some(self.trace.clone()),
            ..self.own(layer, observation)
        }
    }

    fn ran(&self, layer: Layer, observation: Observation) -> Fact {
        Fact {
            execution: Some(format!("uid-{}", self.arrival)),
            business_key: Some(format!("order-{}", self.arrival)),
            ..self.own(layer, observation)
        }
    }

    /// Every fact that can be seen of it.
    pub fn facts(&self) -> Vec<Fact> {
        let mut facts = vec![Fact {
            arrival: None,
            ..self.traced(
                Layer::Intake,
                Observation::HttpAnswer {
                    status: self.status(),
                    body: if self.status() == 500 {
                        "failed to record event"
                    } else {
                        ""
                    }
                    .to_owned(),
                },
            )
        }];
        match &self.fate {
            Fate::Stopped {
                layer: Layer::Intake,
                ..
            }
            | Fate::Stopped {
                layer: Layer::Bus, ..
            } => {
                facts.push(Fact {
                    arrival: None,
                    ..self.traced(Layer::Bus, Observation::NotStored { last_sequence: 99 })
                });
                return facts;
            }
            _ => {}
        }
        facts.push(self.traced(Layer::Intake, Observation::Received));
        facts.push(Fact {
            sequence: Some(self.sequence),
            ..self.traced(
                Layer::Bus,
                Observation::Stored {
                    subject: SUBJECT.to_owned(),
                },
            )
        });
        let not_ready = self.fate.stops_at() == Some(Layer::Ready);
        facts.push(consumer(self.consumer_at, self.sequence));
        if !not_ready {
            self.judged(&mut facts);
        }
        facts
    }

    fn status(&self) -> u16 {
        match self.fate {
            Fate::Stopped {
                layer: Layer::Intake,
                reason,
            } => match reason {
                Reason::Unauthorized => 401,
                Reason::PublishFailed => 500,
                _ => 404,
            },
            _ => 200,
        }
    }

    fn judged(&self, facts: &mut Vec<Fact>) {
        let trigger = "order".to_owned();
        match self.fate {
            Fate::Stopped {
                layer: Layer::Filter,
                reason,
            } => {
                let error = match reason {
                    Reason::Mismatch => None,
                    Reason::MissingPath => {
                        Some("data filter error (path 'body.kind' does not exist)".to_owned())
                    }
                    _ => Some("data filter error (error parsing regexp: x)".to_owned()),
                };
                facts.push(self.own(Layer::Filter, Observation::Discarded { error }));
            }
            Fate::Stopped {
                layer: Layer::Submit,
                reason,
            } => facts.push(
                self.own(
                    Layer::Submit,
                    Observation::TriggerFailed {
                        trigger,
                        error: match reason {
                            Reason::Unavailable => "Unauthorized",
                            _ => "workflows.argoproj.io is forbidden: User \"x\"",
                        }
                        .to_owned(),
                    },
                ),
            ),
            _ => {
                facts.push(self.own(Layer::Submit, Observation::Triggered { trigger }));
                self.executed(facts);
            }
        }
    }

    fn executed(&self, facts: &mut Vec<Fact>) {
        let name = format!("wf-{}", self.arrival);
        facts.push(Fact {
            trace: Some(self.trace.clone()),
            ..self.ran(
                Layer::Submit,
                Observation::WorkflowCreated { name: name.clone() },
            )
        });
        let phase = match self.fate {
            Fate::Stopped {
                layer: Layer::Run,
                reason,
            }
            | Fate::AppliedButRunStopped { reason } => {
                if reason == Reason::WorkflowError {
                    "Error"
                } else {
                    "Failed"
                }
            }
            _ => "Succeeded",
        };
        let message = match self.fate {
            Fate::Stopped { reason, .. } | Fate::AppliedButRunStopped { reason }
                if reason == Reason::Unavailable =>
            {
                "main: Error (exit code 75): error: ledger /data/ledger.db stayed locked"
            }
            _ => "",
        };
        for (phase, message) in [("Running", ""), (phase, message)] {
            facts.push(self.ran(
                Layer::Run,
                Observation::WorkflowPhase {
                    name: name.clone(),
                    phase: phase.to_owned(),
                    message: message.to_owned(),
                },
            ));
        }
        self.ledger(facts);
    }

    fn ledger(&self, facts: &mut Vec<Fact>) {
        let amount_cents = 4200;
        let attempt = |outcome: &str| {
            let outcome = outcome.to_owned();
            self.ran(
                Layer::Effect,
                Observation::LedgerAttempt {
                    outcome,
                    amount_cents,
                },
            )
        };
        match self.fate {
            Fate::Applied | Fate::AppliedButRunStopped { .. } => {
                facts.push(attempt("applied"));
                facts.push(self.ran(
                    Layer::Effect,
                    Observation::LedgerEffect {
                        amount_cents,
                        row: 0,
                    },
                ));
            }
            Fate::Stopped {
                layer: Layer::Effect,
                reason: Reason::Duplicate,
            } => {
                facts.push(attempt("duplicate"));
            }
            Fate::Stopped {
                layer: Layer::Effect,
                reason: Reason::Conflict,
            } => {
                facts.push(attempt("conflict"));
            }
            _ => facts.push(self.ran(Layer::Effect, Observation::NoEffect)),
        }
    }
}

/// Requests of one world: those that come before its one consumer exists come first.
pub fn requests(mut fates: Vec<Fate>) -> Vec<Request> {
    fates.sort_by_key(|fate| fate.stops_at() != Some(Layer::Ready));
    let mut requests: Vec<Request> = fates
        .into_iter()
        .enumerate()
        .map(|(index, fate)| Request::new(index as u64, fate))
        .collect();
    let consumer_at = requests
        .iter()
        .map(|one| one.consumer_at)
        .max()
        .unwrap_or(1);
    for request in &mut requests {
        request.consumer_at = consumer_at;
    }
    requests
}

/// The one consumer of the lab's subject.
pub fn consumer(created_at_sequence: u64, ack_floor: u64) -> Fact {
    fact(
        Layer::Ready,
        Observation::Consumer {
            durable: format!("group-{created_at_sequence}"),
            subject: SUBJECT.to_owned(),
            created_at_sequence,
            ack_floor,
            waiting: 1,
            pending: 0,
            ack_pending: 0,
        },
    )
}

/// Gives facts their place in the journal, in the given order.
pub fn numbered(mut facts: Vec<Fact>) -> Vec<Fact> {
    for (index, fact) in facts.iter_mut().enumerate() {
        fact.seq = index as u64 + 1;
    }
    facts
}

/// Every fate that a lab may state.
pub fn fates() -> Vec<Fate> {
    let stopped = |layer, reason| Fate::Stopped { layer, reason };
    vec![
        Fate::Applied,
        Fate::AppliedButRunStopped {
            reason: Reason::WorkflowError,
        },
        Fate::AppliedButRunStopped {
            reason: Reason::WorkflowFailed,
        },
        Fate::AppliedButRunStopped {
            reason: Reason::Unavailable,
        },
        stopped(Layer::Submit, Reason::Unavailable),
        stopped(Layer::Run, Reason::Unavailable),
        stopped(Layer::Ready, Reason::NotSubscribed),
        stopped(Layer::Intake, Reason::NoSuchEndpoint),
        stopped(Layer::Intake, Reason::Unauthorized),
        stopped(Layer::Intake, Reason::PublishFailed),
        stopped(Layer::Bus, Reason::SourceFilter),
        stopped(Layer::Filter, Reason::Mismatch),
        stopped(Layer::Filter, Reason::MissingPath),
        stopped(Layer::Filter, Reason::BadPattern),
        stopped(Layer::Submit, Reason::Forbidden),
        stopped(Layer::Run, Reason::WorkflowFailed),
        stopped(Layer::Run, Reason::WorkflowError),
        stopped(Layer::Effect, Reason::Duplicate),
        stopped(Layer::Effect, Reason::Conflict),
        stopped(Layer::Effect, Reason::NoEffect),
    ]
}
