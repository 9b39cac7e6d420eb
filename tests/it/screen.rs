//! The screen: what is drawn at each size, and the real program on a pseudo-terminal.

use std::sync::Arc;

use eventlab::evidence::{Fact, Layer, Observation, PodInstance};
use eventlab::lab::Catalog;
use eventlab::session::message::{GateReport, SendOutcome};
use eventlab::session::{Context, Effect, Message, StagePhase, State};
use eventlab::tui::app::App;
use eventlab::tui::theme::Theme;
use eventlab::tui::view;
use jiff::Timestamp;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn fresh() -> State {
    State::new(Catalog::bundled().unwrap().labs(), now())
}

/// A session whose effects are answered at once, as a cluster would that does everything right.
struct Played {
    state: State,
    seq: u64,
}

impl Played {
    fn tell(&mut self, message: Message) {
        let context = Context { now: now(), id: 7 };
        for effect in self.state.update(message, &context) {
            if let Some(answer) = self.answer(effect) {
                self.tell(answer);
            }
        }
    }

    fn answer(&mut self, effect: Effect) -> Option<Message> {
        match effect {
            Effect::Apply { attempt, .. } => Some(Message::Applied {
                attempt,
                result: Ok(Vec::new()),
            }),
            Effect::OpenGate { .. } => Some(Message::Gate(GateReport {
                open: true,
                ..GateReport::default()
            })),
            Effect::Send {
                lab,
                stage,
                attempt,
                trace,
                probe,
            } => {
                let facts = self.facts(&lab, &stage, attempt, &trace, &probe.name);
                self.tell(Message::Facts(facts));
                Some(Message::Sent {
                    probe: probe.name.clone(),
                    trace,
                    outcome: SendOutcome::Answered { status: 200 },
                })
            }
            Effect::Collect { .. } => Some(Message::Collected { complete: true }),
            Effect::Rewind { .. } | Effect::Reset { .. } => {
                Some(Message::Rewound { result: Ok(()) })
            }
            _ => None,
        }
    }

    fn facts(
        &mut self,
        lab: &str,
        stage: &str,
        attempt: u32,
        trace: &str,
        probe: &str,
    ) -> Vec<Fact> {
        let subject = format!("default.orders.{lab}");
        let observations = [
            (
                Layer::Intake,
                Observation::HttpAnswer {
                    status: 200,
                    body: "success".into(),
                },
            ),
            (
                Layer::Ready,
                Observation::Consumer {
                    durable: "group-1".into(),
                    subject: subject.clone(),
                    created_at_sequence: 0,
                    ack_floor: 1,
                    waiting: 1,
                    pending: 0,
                    ack_pending: 0,
                },
            ),
            (Layer::Bus, Observation::Stored { subject }),
            (
                Layer::Submit,
                Observation::Triggered {
                    trigger: "process-order".into(),
                },
            ),
            (
                Layer::Submit,
                Observation::WorkflowCreated {
                    name: "order-abcde".into(),
                },
            ),
            (
                Layer::Run,
                Observation::WorkflowPhase {
                    name: "order-abcde".into(),
                    phase: "Succeeded".into(),
                    message: String::new(),
                },
            ),
            (
                Layer::Effect,
                Observation::LedgerAttempt {
                    outcome: "applied".into(),
                    amount_cents: 4200,
                },
            ),
            (
                Layer::Effect,
                Observation::LedgerEffect {
                    amount_cents: 4200,
                    row: 1,
                },
            ),
        ];
        let pod = PodInstance {
            pod: "orders-sensor-x".into(),
            uid: "u".into(),
            container: "main".into(),
            instance: 0,
        };
        observations
            .into_iter()
            .map(|(layer, observation)| {
                self.seq += 1;
                Fact {
                    seq: self.seq,
                    time: now(),
                    lab: lab.to_owned(),
                    stage: stage.to_owned(),
                    attempt,
                    probe: Some(probe.to_owned()),
                    layer,
                    observation,
                    source: "test".to_owned(),
                    pod: Some(pod.clone()),
                    trace: Some(trace.to_owned()),
                    arrival: Some("0123456789abcdef0123456789abcdef".to_owned()),
                    sequence: Some(1),
                    execution: Some("5d9e0c2a-0000-4000-8000-000000000001".to_owned()),
                    business_key: None,
                    line: "a raw line".to_owned(),
                    command: "kubectl get something".to_owned(),
                }
            })
            .collect()
    }
}

fn played() -> State {
    let mut played = Played {
        state: fresh(),
        seq: 0,
    };
    played.tell(Message::Next);
    assert_eq!(*played.state.phase(), StagePhase::Passed);
    played.state
}

fn draw(state: &State, app: &App, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| view::draw(frame, state, app))
        .unwrap();
    terminal.backend().buffer().clone()
}

fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width).max(1);
    let symbols: Vec<&str> = buffer
        .content
        .iter()
        .map(ratatui::buffer::Cell::symbol)
        .collect();
    symbols
        .chunks(width)
        .map(|row| row.concat().trim_end().to_owned() + "\n")
        .collect()
}

fn app(colored: bool, ascii: bool) -> App {
    let mut app = App::new(Theme::new(colored, ascii));
    app.reach.push("embedded".to_owned());
    app
}

#[test]
fn the_first_screen_says_what_enter_does() {
    insta::assert_snapshot!(
        "first-80x24",
        text(&draw(&fresh(), &app(true, false), 80, 24))
    );
}

#[test]
fn seven_cells_are_lit_by_one_order() {
    for (width, height) in [(80, 24), (120, 40), (60, 16)] {
        let screen = text(&draw(&played(), &app(true, false), width, height));
        insta::assert_snapshot!(format!("played-{width}x{height}"), screen);
    }
}

#[test]
fn a_terminal_that_is_too_small_is_told_how_much_is_needed() {
    let screen = text(&draw(&played(), &app(true, false), 50, 10));
    assert!(screen.contains("need 60x16, have 50x10"), "{screen}");
}

#[test]
fn without_colour_no_cell_has_one_and_in_7_bits_every_byte_is() {
    let buffer = draw(&played(), &app(false, true), 120, 40);
    for cell in &buffer.content {
        assert_eq!(cell.fg, ratatui::style::Color::Reset);
        assert_eq!(cell.bg, ratatui::style::Color::Reset);
        assert!(cell.symbol().is_ascii(), "{:?}", cell.symbol());
    }
    let text = text(&buffer);
    assert!(text.contains("Succeeded") && text.contains("+1"), "{text}");
}

#[test]
fn the_selected_cell_is_told_apart_without_colour() {
    let mut app = app(false, false);
    app.layer = 5;
    let buffer = draw(&played(), &app, 80, 24);
    let reversed: String = buffer
        .content
        .iter()
        .filter(|cell| cell.modifier.contains(ratatui::style::Modifier::REVERSED))
        .map(ratatui::buffer::Cell::symbol)
        .collect();
    assert!(reversed.contains("Succeeded"), "{reversed:?}");
}

#[test]
fn no_size_and_no_key_panics() {
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
    let keys = "\toyvzLjkhlgGptSRcr? ";
    let state = played();
    let mut app = app(true, false);
    for (index, key) in keys.chars().cycle().take(400).enumerate() {
        let code = if key == '\t' {
            KeyCode::Tab
        } else {
            KeyCode::Char(key)
        };
        app.key(KeyEvent::new(code, KeyModifiers::NONE), &state);
        if index % 7 == 0 {
            app.key(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE), &state);
        }
        let (width, height) = ((index * 37 % 130) as u16, (index * 11 % 45) as u16);
        draw(&state, &app, width, height);
    }
}

#[test]
fn every_fact_of_a_cell_shows_its_line_and_command() {
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
    let state = played();
    let mut app = app(true, false);
    app.layer = 6;
    app.key(
        KeyEvent::new(KeyCode::Char('o'), KeyModifiers::NONE),
        &state,
    );
    let screen = text(&draw(&state, &app, 80, 24));
    for part in [
        "a raw line",
        "kubectl get something",
        "fact 1 of",
        "arrival",
    ] {
        assert!(screen.contains(part), "{part}:\n{screen}");
    }
}

#[test]
fn labs_of_the_catalogue_are_shared() {
    let catalog = Catalog::bundled().unwrap();
    assert!(Arc::ptr_eq(&catalog.labs(), &catalog.labs()));
}
