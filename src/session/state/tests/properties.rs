//! Whatever happens in whatever order.

use proptest::prelude::*;

use super::*;
use crate::session::{Checkpoint, Wait};

/// What the outside may do in one step.
#[derive(Clone, Debug)]
enum Move {
    Say(Message),
    /// Deliver the n-th of the runner's answers that are under way.
    Deliver(usize),
    /// Lose it: the runner was killed or cancelled.
    Lose(usize),
    /// The process ends and comes back.
    Restart,
    /// A message of the runner that answers nothing.
    Stray(Message),
}

fn learner() -> impl Strategy<Value = Message> {
    let manifest = || "sensor.yaml".to_owned();
    prop_oneof![
        12 => Just(Message::Next),
        3 => Just(Message::Retry),
        1 => Just(Message::Reset),
        2 => Just(Message::Cancel),
        1 => Just(Message::Hint),
        1 => any::<bool>().prop_map(|confirmed| Message::Reveal { confirmed }),
        1 => Just(Message::Edited { manifest: manifest() }),
        2 => (prop::sample::select(vec!["nested", "flat", "x"]), any::<bool>()).prop_map(|(probe, none)| {
            Message::Predict { probe: probe.to_owned(), stops_at: (!none).then_some(Layer::Filter) }
        }),
        2 => (
            prop::sample::select(vec!["layer", "fact", "cause", "not-proven", "x"]),
            prop::sample::select(vec!["filter", "1", "2", "30", "-1", "none", ""]),
        ).prop_map(|(topic, answer)| Message::Report { topic: topic.to_owned(), answer: answer.to_owned() }),
        2 => (prop::sample::select(vec!["first-order", testing::LAB, "readiness", "x"]), 0..9usize)
            .prop_map(|(lab, stage)| Message::GoTo { lab: lab.to_owned(), stage }),
        1 => prop::sample::select(vec![Reconcile::Adopt, Reconcile::Reapply, Reconcile::Reset]).prop_map(Message::Reconcile),
    ]
}

fn stray() -> impl Strategy<Value = Message> {
    let result = || {
        any::<bool>().prop_map(|ok| {
            if ok {
                Ok(())
            } else {
                Err(environment("stray"))
            }
        })
    };
    prop_oneof![
        any::<bool>().prop_map(|complete| Message::Collected { complete }),
        result().prop_map(|result| Message::Rewound { result }),
        result().prop_map(|result| Message::Reviewed { result }),
        (0..4u32).prop_map(|attempt| Message::Applied {
            attempt,
            result: Ok(Vec::new())
        }),
        result().prop_map(|result| Message::Acted {
            action: Action::DeleteSensorPod,
            result
        }),
        Just(Message::Sent {
            probe: "flat".to_owned(),
            trace: "elsewhere".to_owned(),
            outcome: SendOutcome::Answered { status: 200 },
        }),
        Just(Message::Drift(vec![a_difference()])),
        Just(Message::Drift(Vec::new())),
        Just(Message::NotCompared {
            why: "forbidden".to_owned(),
        }),
        Just(Message::Unheard(Some(Wait {
            what: "the API server".to_owned(),
            since: Timestamp::MIN,
        }))),
        Just(Message::Unheard(None)),
        Just(Message::Tick(Timestamp::MAX)),
        Just(Message::Facts(vec![testing::consumer(1, 2)])),
    ]
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        6 => learner().prop_map(Move::Say),
        12 => (0..3usize).prop_map(Move::Deliver),
        1 => (0..3usize).prop_map(Move::Lose),
        1 => Just(Move::Restart),
        1 => stray().prop_map(Move::Stray),
    ];
    prop::collection::vec(one, 0..120)
}

/// What must hold over a whole session.
#[derive(Default)]
struct Watch {
    /// Traces of all sends, and by which attempt and probe.
    traces: BTreeSet<String>,
    sends: BTreeSet<(String, u32, String, String)>,
    intents: BTreeSet<String>,
    gate: bool,
}

impl Watch {
    /// Takes down what is sent, once each.
    fn remember(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Journal(entry) => {
                    if let Entry::Intent(intent) = &**entry {
                        self.intents.insert(intent.id.clone());
                    }
                }
                Effect::Send {
                    lab,
                    stage,
                    attempt,
                    trace,
                    probe,
                } => {
                    assert!(self.traces.insert(trace.clone()), "{trace} sent twice");
                    let key = (lab.clone(), *attempt, stage.clone(), probe.name.clone());
                    assert!(self.sends.insert(key.clone()), "{key:?} sent twice");
                    assert!(self.intents.contains(trace), "{trace} has no intent");
                }
                _ => {}
            }
        }
    }

    /// Checks the effects of one message.
    fn effects(&mut self, effects: &[Effect]) {
        self.remember(effects);
        for (index, effect) in effects.iter().enumerate() {
            if changes_the_world(effect) {
                assert!(
                    matches!(&effects[..index], [.., Effect::Checkpoint, Effect::Journal(entry)]
                        if matches!(**entry, Entry::Intent(_))),
                    "no checkpoint and intent before {effect:?}"
                );
            }
        }
    }
}

fn changes_the_world(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Send { .. }
            | Effect::Apply { .. }
            | Effect::Act { .. }
            | Effect::Rewind { .. }
            | Effect::Reset { .. }
    )
}

fn place(state: &State) -> (String, String) {
    (state.lab_name(), state.stage_name())
}

/// Every getter, which must not panic.
fn look(state: &State) {
    let _ = (
        state.rows(),
        state.counters(),
        state.footer(),
        state.wait(),
        state.standings(),
        state.prediction_score(),
        state.claims(),
        state.hints().len(),
    );
}

/// What no look at the objects came before says nothing of them.
fn assert_not_judged(message: &Message, phase: &StagePhase) {
    let says = match phase {
        StagePhase::Passed | StagePhase::Failed { .. } => true,
        StagePhase::Unproven { reasons } => reasons.iter().any(|one| !one.environment),
        _ => false,
    };
    // What is applied and what is done are the session's own.
    let own = matches!(message, Message::Applied { .. } | Message::Acted { .. });
    assert!(own || !says, "{message:?} led to {phase:?}");
}

struct Play {
    session: Session,
    under_way: Vec<Message>,
    watch: Watch,
    disk: Checkpoint,
}

impl Play {
    fn new(start: &str, failing: [bool; 3], unseen: bool) -> Play {
        let mut session = match start {
            "" => Session::new(),
            stage => Session::at(stage),
        };
        let mut watch = Watch::default();
        watch.remember(&session.runner.effects);
        let runner = &mut session.runner;
        runner.apply = failing[0].then(|| refusal("apply-refused"));
        runner.gate = failing[1].then(|| environment("no-answer"));
        runner.rewind = failing[2].then(|| environment("no-snapshot"));
        if unseen {
            runner.unseen.insert("discarded".to_owned());
        }
        let disk = session.state.checkpoint();
        Play {
            session,
            under_way: Vec::new(),
            watch,
            disk,
        }
    }

    fn take(&mut self, message: Message) {
        let before = place(&self.session.state);
        let working = self.session.state.working().is_some();
        let by_learner = matches!(
            message,
            Message::Next | Message::GoTo { .. } | Message::Reset | Message::Reconcile(_)
        );
        if let Message::Gate(report) = &message {
            self.watch.gate |= report.open;
        }
        let looked_first = self.session.state.may_judge_on(&message);
        let effects = self.session.raw(message.clone());
        if working && !looked_first {
            assert_not_judged(&message, &self.session.state.phase);
        }
        self.check_gate(&effects);
        self.watch.effects(&effects);
        let after = place(&self.session.state);
        assert!(
            by_learner || before == after,
            "{message:?} moved {before:?} to {after:?}"
        );
        if message == Message::Next && before != after {
            assert!(!working, "moved on while something was under way");
        }
        self.carry_out(effects);
        look(&self.session.state);
    }

    /// No send without an open gate since the work was started or continued.
    fn check_gate(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::OpenGate { .. } => self.watch.gate = false,
                Effect::Send { .. } => {
                    let stage = self.session.state.current_stage().unwrap();
                    if stage.gate != GateMode::None {
                        assert!(self.watch.gate, "sent before the gate was open");
                    }
                }
                _ => {}
            }
        }
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match &effect {
                Effect::Checkpoint => self.disk = self.session.state.checkpoint(),
                // Nothing of cancelled work is delivered any more.
                Effect::CancelWork => self.under_way.clear(),
                _ => {}
            }
            let answers = self.session.runner.answer(&effect);
            self.under_way.extend(answers);
        }
    }

    fn restart(&mut self) {
        self.under_way.clear();
        self.watch.gate = false;
        let (state, effects) = State::resume(
            Some(self.disk.clone()),
            &self.session.runner.journal,
            course(),
            Timestamp::UNIX_EPOCH,
        );
        let changing = effects.iter().find(|effect| changes_the_world(effect));
        assert!(
            changing.is_none(),
            "did {changing:?} by itself after a restart"
        );
        assert!(state.working().is_none());
        self.session.state = state;
        self.watch.effects(&effects);
        self.carry_out(effects);
        look(&self.session.state);
    }

    fn play(&mut self, one: Move) {
        match one {
            Move::Say(message) | Move::Stray(message) => self.take(message),
            Move::Deliver(index) => {
                if !self.under_way.is_empty() {
                    // Messages of one task keep their order.
                    let _ = index;
                    let message = self.under_way.remove(0);
                    self.take(message);
                }
            }
            Move::Lose(index) => {
                if index < self.under_way.len() {
                    self.under_way.remove(index);
                }
            }
            Move::Restart => self.restart(),
        }
    }
}

fn starts() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "gate", "send", "fix", "report", "early", "rights"])
}

proptest! {
    #[test]
    fn nothing_is_sent_twice_or_unannounced_and_nothing_moves_by_itself(
        start in starts(),
        moves in moves(),
        failing in any::<[bool; 3]>(),
        unseen: bool,
    ) {
        let failing = failing.map(|fails| fails && moves.len() % 3 == 0);
        let mut play = Play::new(start, failing, unseen);
        for one in moves {
            play.play(one);
        }
    }

    #[test]
    fn a_checkpoint_brings_the_session_back(start in starts(), moves in moves()) {
        let mut play = Play::new(start, [false; 3], false);
        for one in moves {
            play.play(one);
        }
        let state = &play.session.state;
        let written = state.checkpoint();
        let read = Checkpoint::parse(&serde_json::to_vec(&written).unwrap()).unwrap();
        prop_assert_eq!(&read, &written);
        let (back, _) = State::resume(Some(read), &play.session.runner.journal, course(), Timestamp::UNIX_EPOCH);
        prop_assert_eq!(place(&back), place(state));
        let want = match state.phase.clone() {
            StagePhase::Working { step, .. } => StagePhase::Interrupted { step },
            phase => phase,
        };
        prop_assert_eq!(&back.phase, &want);
        prop_assert_eq!(back.attempt(), state.attempt());
        let sends = |state: &State| state.run().map(|run| run.sends.iter().map(|send| send.trace.clone()).collect::<Vec<_>>());
        prop_assert_eq!(sends(&back), sends(state));
    }

    #[test]
    fn any_prefix_of_a_checkpoint_loads_or_is_damaged(at in 0.0..1.0f64) {
        let mut session = Session::at("fix");
        session.say(Message::Next);
        let bytes = serde_json::to_vec_pretty(&session.state.checkpoint()).unwrap();
        let end = (at * bytes.len() as f64) as usize;
        let parsed = Checkpoint::parse(&bytes[..end]);
        prop_assert!(matches!(parsed, Err(crate::session::checkpoint::ParseError::Damaged(_))));
    }
}
