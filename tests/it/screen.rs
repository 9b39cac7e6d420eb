//! The screen: what is drawn at each size, and the real program on a pseudo-terminal.

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use eventlab::cluster::{ContainerInstance, LogLine};
use eventlab::evidence::{Fact, Layer, Observation, PodInstance};
use eventlab::lab::{Catalog, Probe};
use eventlab::session::message::{GateReport, SendOutcome};
use eventlab::session::{Context, Difference, Effect, Message, StagePhase, State, Wait};
use eventlab::tui::app::App;
use eventlab::tui::app::{Command, Overlay, Pane};
use eventlab::tui::look::{Look, Table};
use eventlab::tui::manifest::Texts;
use eventlab::tui::panes;
use eventlab::tui::theme::Theme;
use eventlab::tui::view;
use jiff::Timestamp;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};

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
    /// Facts of consumers name no probe, as where the gate was open before it was sent.
    unnamed: bool,
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
                let facts = self.facts(&lab, &stage, attempt, &trace, &probe);
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
        probe: &Probe,
    ) -> Vec<Fact> {
        let subject = format!("default.orders.{lab}");
        let rejected = probe.fate.stops_at() == Some(Layer::Filter);
        let mut observations = vec![
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
        if rejected {
            observations.truncate(3);
            observations.push((
                Layer::Filter,
                Observation::Discarded {
                    error: Some("data filter error (path 'body.event.kind' does not exist)".into()),
                },
            ));
        }
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
                let named = !self.unnamed || !matches!(observation, Observation::Consumer { .. });
                Fact {
                    seq: self.seq,
                    time: now(),
                    lab: lab.to_owned(),
                    stage: stage.to_owned(),
                    attempt,
                    probe: named.then(|| probe.name.clone()),
                    layer,
                    observation,
                    source: "test".to_owned(),
                    pod: Some(pod.clone()),
                    trace: Some(trace.to_owned()),
                    arrival: Some(format!("{:032x}", sha(trace))),
                    sequence: Some(1),
                    execution: Some(format!("5d9e0c2a-0000-4000-8000-{:012x}", sha(trace))),
                    business_key: None,
                    line: "a raw line".to_owned(),
                    command: "kubectl get something".to_owned(),
                }
            })
            .collect()
    }
}

/// A number for each trace.
fn sha(text: &str) -> u32 {
    text.bytes().fold(7, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    })
}

/// The lab `filter-path` up to its first fix: two of three bodies were rejected.
fn at_the_fix() -> State {
    until(|state| state.stage().unwrap().fix.is_some())
}

/// The stage before: what was sent is judged.
fn sent() -> State {
    until(|state| !state.stage().unwrap().probes.is_empty() && *state.phase() == StagePhase::Passed)
}

fn until(there: impl Fn(&State) -> bool) -> State {
    let mut played = Played {
        state: fresh(),
        seq: 0,
        unnamed: false,
    };
    played.tell(Message::GoTo {
        lab: "filter-path".to_owned(),
        stage: 0,
    });
    for _ in 0..30 {
        let stage = played.state.stage().unwrap().clone();
        if there(&played.state) {
            break;
        }
        if let Some(name) = &stage.predicts {
            let lab = played.state.lab().unwrap().clone();
            let predicted = lab.stages.iter().find(|one| one.name == *name).unwrap();
            for probe in &predicted.probes {
                played.tell(Message::Predict {
                    probe: probe.name.clone(),
                    stops_at: probe.fate.stops_at(),
                });
            }
        }
        played.tell(Message::Next);
    }
    assert!(there(&played.state));
    played.state
}

fn played() -> State {
    let mut played = Played {
        state: fresh(),
        seq: 0,
        unnamed: false,
    };
    played.tell(Message::Next);
    assert_eq!(*played.state.phase(), StagePhase::Passed);
    played.state
}

pub fn draw(state: &State, app: &mut App, width: u16, height: u16) -> Buffer {
    app.touch();
    app.prepare(state, width, height);
    let app = &*app;
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| view::draw(frame, state, app))
        .unwrap();
    terminal.backend().buffer().clone()
}

pub fn text(buffer: &Buffer) -> String {
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

pub fn app(colored: bool, ascii: bool) -> App {
    let mut app = App::new(Theme::new(colored, ascii));
    app.reach.push("embedded".to_owned());
    app
}

#[test]
fn the_first_screen_says_what_enter_does() {
    insta::assert_snapshot!(
        "first-80x24",
        text(&draw(&fresh(), &mut app(true, false), 80, 24))
    );
}

#[test]
fn seven_cells_are_lit_by_one_order() {
    for (width, height) in [(80, 24), (120, 40), (60, 16), (40, 10), (1, 1)] {
        let screen = text(&draw(&played(), &mut app(true, false), width, height));
        insta::assert_snapshot!(format!("played-{width}x{height}"), screen);
    }
}

#[test]
fn a_terminal_that_is_too_small_is_told_how_much_is_needed() {
    let screen = text(&draw(&played(), &mut app(true, false), 50, 10));
    assert!(screen.contains("need 60x16, have 50x10"), "{screen}");
}

#[test]
fn without_colour_no_cell_has_one_and_in_7_bits_every_byte_is() {
    let buffer = draw(&played(), &mut app(false, true), 120, 40);
    for cell in &buffer.content {
        assert_eq!(cell.fg, ratatui::style::Color::Reset);
        assert_eq!(cell.bg, ratatui::style::Color::Reset);
        assert!(cell.symbol().is_ascii(), "{:?}", cell.symbol());
    }
    let text = text(&buffer);
    assert!(text.contains("Succeeded") && text.contains("+1"), "{text}");
}

#[test]
fn a_cluster_of_which_nothing_is_heard_is_what_is_waited_for_whatever_is_done() {
    let silent = Message::Unheard(Some(Wait {
        what: "the API server, which does not answer (https://a:6443/)".to_owned(),
        since: now(),
    }));
    let mut working = fresh();
    working.update(Message::Next, &Context { now: now(), id: 7 });
    for (mut state, cancels) in [(fresh(), false), (played(), false), (working, true)] {
        let context = Context { now: now(), id: 8 };
        let before = text(&draw(&state, &mut app(true, false), 80, 24));
        assert_eq!(state.update(silent.clone(), &context), Vec::new());
        let late = now() + jiff::SignedDuration::from_secs(4);
        state.update(Message::Tick(late), &context);
        let screen = text(&draw(&state, &mut app(true, false), 120, 24));
        let told = "waiting 4 s for the API server, which does not answer (https://a:6443/)";
        assert!(screen.contains(told), "{screen}");
        assert_eq!(screen.contains("(c cancels)"), cancels, "{screen}");
        assert_eq!(state.update(Message::Unheard(None), &context), Vec::new());
        let after = text(&draw(&state, &mut app(true, false), 80, 24));
        assert!(!after.contains("the API server"), "{after}");
        assert_eq!(after.contains("waiting"), before.contains("waiting"));
    }
}

#[test]
fn what_is_still_awaited_is_not_called_unproven() {
    let mut played = Played {
        state: fresh(),
        seq: 0,
        unnamed: false,
    };
    let context = Context { now: now(), id: 7 };
    let mut said = vec![Message::Next];
    while let Some(message) = said.pop() {
        for effect in played.state.update(message, &context) {
            if !matches!(effect, Effect::Send { .. }) {
                said.extend(played.answer(effect));
            }
        }
    }
    let told = "one order: unproven, between";
    for (message, awaited) in [(Message::Tick(now()), true), (Message::Cancel, false)] {
        played.state.update(message, &context);
        let screen = text(&draw(&played.state, &mut app(true, false), 100, 30));
        assert_eq!(screen.contains(told), !awaited, "{screen}");
    }
}

#[test]
fn the_selected_cell_is_told_apart_without_colour() {
    let mut app = app(false, false);
    app.layer = 5;
    let buffer = draw(&played(), &mut app, 80, 24);
    let reversed: String = buffer
        .content
        .iter()
        .filter(|cell| cell.modifier.contains(ratatui::style::Modifier::REVERSED))
        .map(ratatui::buffer::Cell::symbol)
        .collect();
    assert!(reversed.contains("Succeeded"), "{reversed:?}");
}

fn press(app: &mut App, state: &State, code: KeyCode) -> Option<Command> {
    app.prepare(state, 80, 24);
    app.key(KeyEvent::new(code, KeyModifiers::NONE), state)
}

fn typed(app: &mut App, state: &State, keys: &str) -> Option<Command> {
    let mut last = None;
    for key in keys.chars() {
        last = press(app, state, KeyCode::Char(key));
    }
    last
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]
    /// Whatever is pressed, clicked or resized: nothing panics, and a passed stage is left by Enter alone.
    #[test]
    fn no_size_no_key_and_no_click_panics_or_goes_on(
        events in proptest::collection::vec((0usize..70, 0u16..140, 0u16..50), 1..60)
    ) {
        let state = played_once();
        let mut app = app(true, false);
        for (event, x, y) in events {
            app.prepare(state, x, y);
            let command = match event {
                0..50 => {
                    let keys = "oyvVzLbjkhlgGptSRrc?/nNfF[]wd12345678aeEm ";
                    let code = match keys.chars().nth(event) {
                        Some(key) => KeyCode::Char(key),
                        None => [KeyCode::Tab, KeyCode::Esc, KeyCode::Backspace, KeyCode::Left, KeyCode::End,
                            KeyCode::PageDown, KeyCode::PageUp, KeyCode::Home][event % 8],
                    };
                    app.key(KeyEvent::new(code, KeyModifiers::NONE), state)
                }
                _ => {
                    let kind = [MouseEventKind::Down(MouseButton::Left), MouseEventKind::ScrollUp,
                        MouseEventKind::ScrollDown][event % 3];
                    let mouse = MouseEvent { kind, column: x, row: y, modifiers: KeyModifiers::NONE };
                    let on_next = app.scene.footer.first().is_some_and(|item| x < item.to) && y + 1 == app.scene.places.footer.bottom();
                    app.mouse(mouse, state).filter(|_| !on_next)
                }
            };
            let goes_on = matches!(command, Some(Command::GoOn));
            proptest::prop_assert!(!goes_on, "only Enter goes on");
            draw(state, &mut app, y.saturating_mul(3), x / 3);
        }
    }
}

fn played_once() -> &'static State {
    static PLAYED: std::sync::OnceLock<State> = std::sync::OnceLock::new();
    PLAYED.get_or_init(played)
}

#[test]
fn a_press_acts_once_and_its_release_not_at_all() {
    let state = played();
    let mut app = app(true, false);
    app.prepare(&state, 80, 24);
    let mut event = KeyEvent::new(KeyCode::Right, KeyModifiers::NONE);
    app.key(event, &state);
    event.kind = crossterm::event::KeyEventKind::Release;
    app.key(event, &state);
    assert_eq!(app.layer, 1);
}

#[test]
fn every_fact_of_a_cell_shows_its_line_and_command() {
    let state = played();
    let mut app = app(true, false);
    app.layer = 6;
    press(&mut app, &state, KeyCode::Char('o'));
    let screen = text(&draw(&state, &mut app, 80, 24));
    for part in [
        "a raw line",
        "kubectl get something",
        "y copies, o its source",
        "arrival",
    ] {
        assert!(screen.contains(part), "{part}:\n{screen}");
    }
    insta::assert_snapshot!("facts-80x24", screen);
    let copied = press(&mut app, &state, KeyCode::Char('y'));
    assert_eq!(
        copied,
        Some(Command::Copy("kubectl get something".to_owned()))
    );
    let opened = press(&mut app, &state, KeyCode::Char('o'));
    assert_eq!(
        opened,
        Some(Command::Look(Look::Tables)),
        "an effect leads to the ledger"
    );
}

#[test]
fn panes_show_what_they_are_for() {
    let state = played();
    let mut app = app(true, false);
    app.manifest = Texts {
        file: "own/sensor.yaml".to_owned(),
        copy: "kind: Sensor # mine\nname: \"b\"\n".to_owned(),
        original: "kind: Sensor\n".to_owned(),
        applied: Some("kind: Sensor # mine\n".to_owned()),
        ..Texts::default()
    };
    app.logs.push(&log("one line"));
    app.report = Some(Ok(
        "# Report\n\n| a | b |\n|---|---|\n| 1 | 2 |\n".to_owned()
    ));
    app.tables = Some(Ok(vec![Table {
        title: "orders".to_owned(),
        columns: vec!["order_id".to_owned(), "amount_cents".to_owned()],
        rows: vec![vec!["o-1".to_owned(), "4200".to_owned()]],
        ..Table::default()
    }]));
    let mut shown = String::new();
    for key in "12345678".chars() {
        press(&mut app, &state, KeyCode::Char(key));
        let screen = text(&draw(&state, &mut app, 120, 34));
        let pane: Vec<&str> = screen.lines().skip(22).collect();
        shown.push_str(&pane.join("\n"));
        shown.push_str("\n=====\n");
    }
    press(&mut app, &state, KeyCode::Char('d'));
    shown.push_str(&text(&draw(&state, &mut app, 80, 24)));
    insta::assert_snapshot!("panes", shown);
}

fn log(text: &str) -> LogLine {
    LogLine {
        pod: ContainerInstance {
            pod: "orders-sensor-x".to_owned(),
            uid: "u".to_owned(),
            container: "main".to_owned(),
            instance: 0,
        },
        text: text.to_owned(),
    }
}

#[test]
fn styles_say_the_same_as_the_words() {
    let state = played();
    let mut app = app(true, false);
    app.layer = 5;
    let buffer = draw(&state, &mut app, 80, 24);
    let find = |wanted: &str| {
        let screen = text(&buffer);
        let (y, line) = screen
            .lines()
            .enumerate()
            .find(|(_, line)| line.contains(wanted))
            .unwrap();
        let x = line[..line.find(wanted).unwrap()].chars().count();
        buffer[(x as u16, y as u16)].style()
    };
    let selected = find("Succeeded");
    assert!(selected.add_modifier.contains(Modifier::REVERSED));
    assert_eq!(selected.fg, Some(Color::Cyan));
    assert_eq!(find("+1").fg, Some(Color::Cyan));
    assert!(find("passed").add_modifier.contains(Modifier::BOLD));
    assert!(find("quit").add_modifier.is_empty());
}

#[test]
fn a_search_finds_goes_around_and_says_when_there_is_nothing() {
    let state = played();
    let mut app = app(true, false);
    for number in 0..50_000 {
        app.logs.push(&log(&format!("line {number}")));
    }
    typed(&mut app, &state, "2/line 777");
    press(&mut app, &state, KeyCode::Enter);
    let mut turns = 0;
    while app.searching.is_some() && app.search_on() {
        turns += 1;
        assert!(turns < 100);
    }
    // The end is followed: the search goes on from the top.
    let at = app.cursor().at;
    assert_eq!(app.logs.line(None, at).unwrap().1, "line 777");
    assert_eq!(app.flash.as_deref(), Some("line 777 found from the top"));
    typed(&mut app, &state, "N");
    while app.searching.is_some() && app.search_on() {}
    assert_eq!(app.flash.as_deref(), Some("line 777 found from the end"));
    let at = app.cursor().at;
    assert_eq!(app.logs.line(None, at).unwrap().1, "line 7779");
    let screen = text(&draw(&state, &mut app, 80, 24));
    assert!(
        screen.contains("line 7779") && screen.contains("7780 of 50000"),
        "{screen}"
    );
    typed(&mut app, &state, "/nowhere");
    press(&mut app, &state, KeyCode::Enter);
    while app.searching.is_some() && app.search_on() {}
    assert_eq!(app.flash.as_deref(), Some("not found: nowhere"));
    assert_eq!(app.cursor().at, at, "it stays where it was");
}

/// The only line that has it is the present one: once around, it is found again and not missed.
#[test]
fn a_search_finds_its_own_line_from_every_place_and_in_every_source() {
    let state = played();
    for (at, count) in [(0, 1), (0, 3), (1, 3), (2, 3), (4, 5)] {
        for key in ['n', 'N'] {
            let mut app = app(true, false);
            for number in 0..count {
                app.logs.push(&log(&format!("number {number}")));
            }
            typed(&mut app, &state, "2");
            for from in 0..count {
                draw(&state, &mut app, 80, 24);
                typed(&mut app, &state, &format!("/number {at}"));
                press(&mut app, &state, KeyCode::Enter);
                while app.searching.is_some() && app.search_on() {}
                assert_eq!(app.cursor().at, at, "from {from} of {count}");
                press(&mut app, &state, KeyCode::Char(key));
                while app.searching.is_some() && app.search_on() {}
                assert_eq!(app.cursor().at, at, "{key} from {from} of {count}");
            }
        }
    }
}

#[test]
fn what_is_pasted_goes_into_the_search() {
    let state = played();
    let mut app = app(true, false);
    typed(&mut app, &state, "/");
    app.paste("needle\nand what follows");
    assert_eq!(app.prompt.as_ref().unwrap().text, "needle");
    app.paste(&"x".repeat(10_000));
    assert!(app.prompt.as_ref().unwrap().text.len() < 1_000);
}

#[test]
fn clicks_and_the_wheel_do_what_keys_do() {
    let state = played();
    let mut app = app(true, false);
    let buffer = draw(&state, &mut app, 80, 24);
    let screen = text(&buffer);
    let click = |app: &mut App, wanted: &str| {
        let (y, line) = screen
            .lines()
            .enumerate()
            .find(|(_, line)| line.contains(wanted))
            .unwrap();
        let x = line[..line.find(wanted).unwrap()].chars().count();
        let mouse = MouseEvent {
            kind: MouseEventKind::Down(MouseButton::Left),
            column: x as u16,
            row: y as u16,
            modifiers: KeyModifiers::NONE,
        };
        let command = app.mouse(mouse, &state);
        app.prepare(&state, 80, 24);
        command
    };
    click(&mut app, "Succeeded");
    assert_eq!(app.layer, 5);
    assert!(app.overlay.is_none(), "the first click selects");
    click(&mut app, "Succeeded");
    assert!(
        matches!(app.overlay, Some(Overlay::Facts { .. })),
        "the second opens"
    );
    click(&mut app, "q quit");
    app.overlay = None;
    click(&mut app, "ledger │");
    assert_eq!(app.pane, Pane::Ledger);
    assert_eq!(click(&mut app, "q quit"), Some(Command::Quit));
    assert_eq!(click(&mut app, "next stage"), Some(Command::GoOn));
}

#[test]
fn the_footer_keeps_the_help_and_the_way_out_at_every_width() {
    let state = played();
    for width in 60..=200 {
        let mut app = app(true, false);
        let screen = text(&draw(&state, &mut app, width, 24));
        let last = screen.lines().last().unwrap();
        assert!(
            last.contains("? keys") && last.contains("q quit"),
            "{width}: {last}"
        );
        assert!(last.starts_with("⏎ next stage"), "{width}: {last}");
    }
}

#[test]
fn every_key_stands_in_the_help() {
    let state = played();
    let mut app = app(true, true);
    press(&mut app, &state, KeyCode::Char('?'));
    let help = text(&draw(&state, &mut app, 120, 200));
    for binding in eventlab::tui::keys::BINDINGS {
        let (first, _) = binding.help.split_once(' ').unwrap();
        assert!(
            help.lines()
                .any(|line| line.contains(&format!(" {:<10}{first}", binding.shown))),
            "{} is missing:\n{help}",
            binding.shown
        );
    }
    assert!(help.is_ascii());
}

#[test]
fn wide_characters_and_hostile_text_stay_in_their_place() {
    let state = played();
    let mut app = app(true, false);
    app.logs
        .push(&log("漢字漢字 \u{1b}[2J \u{202e}esrever\u{202c} \u{7}"));
    typed(&mut app, &state, "2w");
    let buffer = draw(&state, &mut app, 60, 16);
    for cell in &buffer.content {
        assert!(!cell.symbol().chars().any(char::is_control));
        assert!(!cell.symbol().contains('\u{202e}'));
    }
}

#[test]
fn starting_over_names_what_is_restored_and_what_is_left() {
    let state = played();
    let mut app = app(true, false);
    press(&mut app, &state, KeyCode::Char('R'));
    let screen = text(&draw(&state, &mut app, 120, 40));
    for part in ["restores", "leaves", "evidence", "the ledger and the bus"] {
        assert!(screen.contains(part), "{part}:\n{screen}");
    }
    assert_eq!(
        press(&mut app, &state, KeyCode::Enter),
        None,
        "the first answer is no"
    );
}

#[test]
fn labs_of_the_catalogue_are_shared() {
    let catalog = Catalog::bundled().unwrap();
    assert!(Arc::ptr_eq(&catalog.labs(), &catalog.labs()));
}

#[test]
fn a_stopped_probe_is_named_with_its_layer_and_reason() {
    let state = sent();
    let mut app = app(true, false);
    let buffer = draw(&state, &mut app, 80, 24);
    let screen = text(&buffer);
    assert!(
        screen.contains("order (flat): stopped at filter: no such path"),
        "{screen}"
    );
    let y = screen
        .lines()
        .position(|line| line.starts_with("order (flat)  "))
        .unwrap();
    let line = screen.lines().nth(y).unwrap();
    let x = line[..line.find('✘').unwrap()].chars().count();
    let style = buffer[(x as u16, y as u16)].style();
    assert_eq!(style.fg, Some(Color::Yellow));
    assert!(style.add_modifier.contains(Modifier::BOLD));
    press(&mut app, &state, KeyCode::Right);
    press(&mut app, &state, KeyCode::Char('h'));
    assert_eq!(app.layer, 0, "h moves left where there is no hint");
    let state = at_the_fix();
    let screen = text(&draw(&state, &mut app, 80, 24));
    assert!(screen.contains("e edit  a apply  h hint"), "{screen}");
    assert_eq!(
        press(&mut app, &state, KeyCode::Char('h')),
        Some(Command::Tell(Message::Hint))
    );
    assert!(matches!(
        press(&mut app, &state, KeyCode::Char('a')),
        Some(Command::Preview { .. })
    ));
    assert_eq!(
        press(&mut app, &state, KeyCode::Char('S')),
        None,
        "not without a question"
    );
    assert!(matches!(app.overlay, Some(Overlay::Choose { .. })));
}

#[test]
fn predictions_stand_in_the_order_of_the_table_and_wrong_ones_are_named() {
    let mut state = until(|state| state.stage().unwrap().predicts.is_some());
    let screen = |state: &State| text(&draw(state, &mut app(true, false), 80, 24));
    let predict = |state: &mut State, probe: &str, stops_at| {
        let context = Context { now: now(), id: 7 };
        let probe = probe.to_owned();
        state.update(Message::Predict { probe, stops_at }, &context);
    };
    for probe in ["form", "flat", "nested"] {
        predict(&mut state, probe, Some(Layer::Filter));
    }
    let shown = screen(&state);
    let lines: Vec<&str> = shown
        .lines()
        .filter(|line| line.starts_with("you predicted"))
        .collect();
    let titles = ["control (nested)", "order (flat)", "order (form)"];
    assert_eq!(
        lines,
        titles.map(|title| format!("you predicted: {title} stops at filter"))
    );
    let mut played = Played {
        state,
        seq: 0,
        unnamed: false,
    };
    played.tell(Message::Next);
    played.tell(Message::Next);
    let shown = screen(&played.state);
    assert!(
        shown.contains("your predictions: 2 of 3 were right"),
        "{shown}"
    );
    let wrong = "you predicted: control (nested) stops at filter: it was otherwise";
    assert!(shown.contains(wrong), "{shown}");
    assert_eq!(shown.matches("you predicted").count(), 1, "{shown}");
}

/// Answers the open question with the choice that has this text, as the screen does.
fn answered(app: &mut App, state: &mut State, choice: &str) {
    let Some(Overlay::Choose { choices, .. }) = &app.overlay else {
        panic!("no question is open: {:?}", app.overlay);
    };
    let texts: Vec<&str> = choices.iter().map(|one| one.text.as_str()).collect();
    let place = texts.iter().position(|text| text.contains(choice));
    let place = place.unwrap_or_else(|| panic!("{choice} is not in {texts:?}"));
    if let Some(Command::Tell(message)) = app.pick(place, state) {
        let context = Context { now: now(), id: 7 };
        state.update(message.clone(), &context);
        app.follow_up(&message, state);
    }
}

/// One name may be another request in another stage: the table has the title of the stage that it shows.
#[test]
fn a_table_of_another_stage_has_the_titles_of_that_stage() {
    let labs = Catalog::bundled().unwrap().labs();
    let now = Timestamp::UNIX_EPOCH;
    for lab in labs.iter() {
        for stage in &lab.stages {
            let of_report = stage.report.as_ref().map(|task| &task.stage);
            let Some(of) = stage.predicts.as_ref().or(of_report) else {
                continue;
            };
            let shown = lab.stages.iter().find(|one| one.name == *of).unwrap();
            let mut checkpoint = State::new(Arc::clone(&labs), now).checkpoint();
            checkpoint.lab.clone_from(&lab.name);
            checkpoint.stage.clone_from(&stage.name);
            let (state, _) = State::resume(Some(checkpoint), &[], Arc::clone(&labs), now);
            let titles: Vec<&str> = shown.probes.iter().map(|one| one.title.as_str()).collect();
            let names = panes::row_names(&state.rows(), &state);
            assert_eq!(names, titles, "{} {}", lab.name, stage.name);
        }
    }
}

/// The line that a list of choices stands at.
fn stands_at(app: &App) -> String {
    match &app.overlay {
        Some(Overlay::Choose {
            choices, selected, ..
        }) => choices[*selected].text.clone(),
        other => panic!("nothing to choose from: {other:?}"),
    }
}

#[test]
fn the_report_stands_at_the_next_open_question_and_esc_leads_back_to_the_list() {
    let mut state = crate::pictures::at_the_report();
    let mut app = app(true, false);
    press(&mut app, &state, KeyCode::Char('p'));
    assert!(
        stands_at(&app).starts_with("Which layer"),
        "{}",
        stands_at(&app)
    );
    // An answer that does not hold leaves it where it was.
    answered(&mut app, &mut state, "Which layer");
    answered(&mut app, &mut state, "intake");
    let at = stands_at(&app);
    assert_eq!(
        at,
        "Which layer stopped it (contradicted: the filter layer stopped it)"
    );
    // One that does goes to the next question.
    answered(&mut app, &mut state, "Which layer");
    assert_eq!(stands_at(&app), "intake", "what was answered before");
    answered(&mut app, &mut state, "filter");
    assert_eq!(stands_at(&app), "Which fact proves it (open)");
    // Looking at another question and leaving it comes back to that one.
    answered(&mut app, &mut state, "What was the cause");
    press(&mut app, &state, KeyCode::Esc);
    assert_eq!(stands_at(&app), "What was the cause (open)");
    press(&mut app, &state, KeyCode::Esc);
    assert_eq!(app.overlay, None);
    press(&mut app, &state, KeyCode::Char('p'));
    assert_eq!(stands_at(&app), "Which fact proves it (open)");
}

/// What stands behind the cells of a probe is its evidence, whether it names the probe or not.
#[test]
fn the_evidence_of_a_probe_has_every_fact_of_its_cells() {
    let mut played = Played {
        state: fresh(),
        seq: 0,
        unnamed: true,
    };
    played.tell(Message::Next);
    let state = played.state;
    let mut app = app(true, false);
    draw(&state, &mut app, 80, 24);
    typed(&mut app, &state, "f");
    draw(&state, &mut app, 80, 24);
    let shown: Vec<u64> = app
        .scene
        .facts
        .iter()
        .map(|at| state.facts()[*at].seq)
        .collect();
    let behind = app.scene.rows[0].facts();
    assert!(
        behind
            .iter()
            .any(|seq| state.fact(*seq).unwrap().probe.is_none()),
        "{behind:?}"
    );
    assert!(
        behind.iter().all(|seq| shown.contains(seq)),
        "{behind:?} {shown:?}"
    );
    typed(&mut app, &state, "F");
    draw(&state, &mut app, 80, 24);
    assert_eq!(app.by_layer, Some(Layer::Ready));
    assert!(!app.scene.facts.is_empty());
}

#[test]
fn a_log_line_is_copied_with_the_command_that_still_shows_it() {
    let state = played();
    let mut app = app(true, false);
    for instance in 0..3 {
        app.logs.push(&LogLine {
            pod: ContainerInstance {
                pod: "p".to_owned(),
                uid: "u".to_owned(),
                container: "main".to_owned(),
                instance,
            },
            text: format!("life {instance}"),
        });
    }
    typed(&mut app, &state, "2");
    let mut commands = Vec::new();
    for key in ["y", "ky", "ky"] {
        draw(&state, &mut app, 80, 24);
        commands.push(typed(&mut app, &state, key));
    }
    let base = "kubectl -n eventlab logs p -c main".to_owned();
    assert_eq!(commands[0], Some(Command::Copy(base.clone())));
    assert_eq!(
        commands[1],
        Some(Command::Copy(format!("{base} --previous")))
    );
    assert_eq!(commands[2], None, "the log of that life is gone");
}

/// Lines of one to four rows, followed at their end: no row is empty, and a click finds the line that is drawn there.
#[test]
fn wrapped_lines_fill_the_pane_and_can_be_clicked() {
    let state = played();
    for count in [3, 20, 41] {
        let mut app = app(true, false);
        for number in 0..count {
            let mark = format!("<{number}>");
            app.logs.push(&log(&mark.repeat(1 + number * 37 % 100)));
        }
        typed(&mut app, &state, "2w");
        let screen = text(&draw(&state, &mut app, 80, 24));
        let pane = app.scene.places.pane;
        let rows: Vec<&str> = screen
            .lines()
            .skip(usize::from(pane.y))
            .take(usize::from(pane.height))
            .collect();
        let full = rows.iter().all(|row| !row.trim().is_empty());
        assert!(full || count == 3, "{screen}");
        for (row, shown) in rows.iter().enumerate() {
            let Some(number) = shown.split(['<', '>']).find_map(|part| {
                part.parse::<usize>()
                    .ok()
                    .filter(|_| shown.contains(&format!("<{part}>")))
            }) else {
                continue;
            };
            let mouse = MouseEvent {
                kind: MouseEventKind::Down(MouseButton::Left),
                column: pane.x,
                row: pane.y + row as u16,
                modifiers: KeyModifiers::NONE,
            };
            app.mouse(mouse, &state);
            assert_eq!(app.cursor().at, number, "row {row}:\n{screen}");
            // A second click on a line opens it.
            app.overlay = None;
        }
    }
}

fn differs(state: &mut State, seen: &[&str]) {
    let seen = seen.iter().map(|text| Difference {
        text: (*text).to_owned(),
        kept: "kept".to_owned(),
        live: "live".to_owned(),
    });
    state.update(
        Message::Drift(seen.collect()),
        &Context { now: now(), id: 7 },
    );
}

/// The key that was on its way to a question whose difference went away closes it, and means nothing else; so too where it
/// has come back meanwhile.
#[test]
fn a_question_that_is_settled_by_itself_stays_until_a_key_closes_it() {
    for again in [&[][..], &["Role/order-submit was changed"]] {
        for key in [
            KeyCode::Enter,
            KeyCode::Char(' '),
            KeyCode::Esc,
            KeyCode::Char('q'),
        ] {
            let (mut state, mut app) = (fresh(), app(false, false));
            differs(&mut state, &["Role/order-submit was changed"]);
            assert_eq!(press(&mut app, &state, KeyCode::Enter), None);
            let asked = text(&draw(&state, &mut app, 80, 24));
            assert!(
                asked.contains("adopt: go on with the cluster as it is"),
                "{asked}"
            );
            for seen in [&[][..], again] {
                differs(&mut state, seen);
                app.differs(&state);
            }
            let open = text(&draw(&state, &mut app, 80, 24));
            assert!(open.contains("Nothing differs any more"), "{open}");
            assert!(!open.contains("adopt: go on"), "{open}");
            assert_eq!(press(&mut app, &state, key), None, "{key:?}");
            assert_eq!(app.overlay, None, "{key:?}");
            let next = press(&mut app, &state, KeyCode::Enter);
            let asks = app.overlay.is_some();
            let goes = next == Some(Command::GoOn);
            assert_eq!((goes, asks), (again.is_empty(), !again.is_empty()));
        }
    }
}

/// What Enter would do is offered where it would do it: not while something is under way, and not beside another offer.
#[test]
fn what_is_offered_of_a_difference_is_what_enter_does() {
    let mut state = fresh();
    let context = Context { now: now(), id: 7 };
    let fresh = |state: &State| text(&draw(state, &mut app(false, false), 200, 40));
    differs(&mut state, &["Role/order-submit was changed"]);
    assert!(fresh(&state).contains("Enter: adopt, re-apply or reset"));
    differs(&mut state, &[]);
    state.update(Message::Next, &context);
    differs(&mut state, &["Role/order-submit was changed"]);
    assert!(matches!(state.phase(), StagePhase::Working { .. }));
    let screen = fresh(&state);
    assert!(!screen.contains("Enter: adopt"), "{screen}");
    assert!(
        screen.contains("once what is under way has ended"),
        "{screen}"
    );
    state.update(Message::Cancel, &context);
    let screen = fresh(&state);
    assert!(!matches!(state.phase(), StagePhase::Working { .. }));
    assert!(
        screen.contains("Enter: adopt") && !screen.contains("Enter continues"),
        "{screen}"
    );
}
