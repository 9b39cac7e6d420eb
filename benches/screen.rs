//! What a frame costs: the main views at 200×60, with 200,000 log lines and 5,000 facts.
//!
//! `cargo bench --bench screen`. A frame has 33 ms.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use divan::Bencher;
use eventlab::cluster::{ContainerInstance, LogLine};
use eventlab::evidence::{Entry, Fact, Layer, Observation};
use eventlab::lab::Catalog;
use eventlab::report::{Report, markdown};
use eventlab::session::{Context, Message, State};
use eventlab::tui::app::{App, Area, Pane};
use eventlab::tui::search::Needle;
use eventlab::tui::theme::Theme;
use eventlab::tui::view;
use jiff::Timestamp;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

const SIZE: (u16, u16) = (200, 60);

fn main() {
    divan::main();
}

fn state() -> State {
    let labs = Catalog::bundled()
        .map(|catalog| catalog.labs())
        .unwrap_or_default();
    let now = Timestamp::UNIX_EPOCH;
    let mut state = State::new(labs, now);
    state.update(Message::Next, &Context { now, id: 1 });
    let facts = (1..=5000).map(|seq| Fact {
        seq,
        time: now,
        lab: "first-order".to_owned(),
        stage: "order".to_owned(),
        attempt: 1,
        probe: Some("order".to_owned()),
        layer: Layer::ALL[usize::try_from(seq % 7).unwrap_or(0)],
        observation: Observation::Received,
        source: "source log".to_owned(),
        pod: None,
        trace: Some("first-order-a1-order-00000001".to_owned()),
        arrival: Some(format!("{seq:032x}")),
        sequence: Some(seq),
        execution: None,
        business_key: None,
        line: format!(
            "{{\"level\":\"debug\",\"msg\":\"a line of the EventSource, number {seq}\"}}"
        ),
        command: "kubectl -n eventlab logs".to_owned(),
    });
    state.update(Message::Facts(facts.collect()), &Context { now, id: 2 });
    state
}

fn app(lines: usize) -> App {
    let mut app = App::new(Theme::new(true, false));
    let pod = ContainerInstance {
        pod: "orders-sensor-5d8f7c9b6-abcde".to_owned(),
        uid: "u".to_owned(),
        container: "main".to_owned(),
        instance: 0,
    };
    for number in 0..lines {
        app.logs.push(&LogLine {
            pod: pod.clone(),
            text: format!("{{\"level\":\"info\",\"ts\":\"2026-01-02T03:04:05Z\",\"logger\":\"argo-events.sensor\",\"msg\":\"line {number}\"}}"),
        });
    }
    app
}

fn frame(terminal: &mut Terminal<TestBackend>, app: &mut App, state: &State) {
    app.prepare(state, SIZE.0, SIZE.1);
    let drawn = terminal.draw(|frame| view::draw(frame, state, app));
    divan::black_box(drawn.is_ok());
}

fn terminal() -> Terminal<TestBackend> {
    match Terminal::new(TestBackend::new(SIZE.0, SIZE.1)) {
        Ok(terminal) => terminal,
        Err(never) => match never {},
    }
}

/// Everything is computed anew, as after a new fact.
#[divan::bench(args = Pane::ALL)]
fn after_a_fact(bencher: Bencher, pane: &Pane) {
    let (state, mut app, mut terminal) = (state(), app(10_000), terminal());
    app.pane = *pane;
    app.manifest.others = vec![(
        "a/sensor.yaml".to_owned(),
        "    - name: order # a line\n".repeat(400),
    )];
    let report = Report::new(&entries(&state), state.labs());
    app.report = Some(Ok(markdown::render(&report)));
    bencher.bench_local(|| {
        app.touch();
        frame(&mut terminal, &mut app, &state);
    });
}

fn entries(state: &State) -> Vec<Entry> {
    state.facts().iter().cloned().map(Entry::Fact).collect()
}

/// From a key to its frame, with the facts of a cell open, over 200,000 log lines.
#[divan::bench]
fn after_a_key_in_an_open_cell(bencher: Bencher) {
    let (state, mut app, mut terminal) = (state(), app(200_000), terminal());
    let press = |app: &mut App, code: KeyCode| {
        app.key(KeyEvent::new(code, KeyModifiers::NONE), &state);
    };
    frame(&mut terminal, &mut app, &state);
    press(&mut app, KeyCode::Right);
    press(&mut app, KeyCode::Char('o'));
    bencher.bench_local(|| {
        press(&mut app, KeyCode::Right);
        frame(&mut terminal, &mut app, &state);
    });
}

/// From a key to its frame, in wrapped logs.
#[divan::bench]
fn after_a_key_in_wrapped_logs(bencher: Bencher) {
    let (state, mut app, mut terminal) = (state(), app(200_000), terminal());
    app.wrap = true;
    app.raw = true;
    app.pane = Pane::Logs;
    app.area = Area::Pane;
    frame(&mut terminal, &mut app, &state);
    bencher.bench_local(|| {
        app.key(KeyEvent::new(KeyCode::PageUp, KeyModifiers::NONE), &state);
        frame(&mut terminal, &mut app, &state);
    });
}

/// From a key to its frame, in the logs.
#[divan::bench(args = [10_000, 200_000])]
fn after_a_key_in_the_logs(bencher: Bencher, lines: usize) {
    let (state, mut app, mut terminal) = (state(), app(lines), terminal());
    for key in ['2', 'k'] {
        app.prepare(&state, SIZE.0, SIZE.1);
        app.key(
            KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE),
            &state,
        );
    }
    bencher.bench_local(|| {
        app.key(KeyEvent::new(KeyCode::PageUp, KeyModifiers::NONE), &state);
        frame(&mut terminal, &mut app, &state);
    });
}

/// One turn of a search, and a search of everything.
#[divan::bench(args = [20_000, 200_000])]
fn search(bencher: Bencher, steps: usize) {
    let app = app(200_000);
    let needle = Needle::new("not to be found");
    bencher.bench_local(|| app.logs.find(None, &needle, 0, true, steps));
}

#[divan::bench]
fn add_a_log_line(bencher: Bencher) {
    let mut app = app(1);
    let line = LogLine {
        pod: ContainerInstance {
            pod: "orders-sensor".to_owned(),
            uid: "u".to_owned(),
            container: "main".to_owned(),
            instance: 0,
        },
        text: "x".repeat(200),
    };
    bencher.bench_local(|| app.logs.push(&line));
}
