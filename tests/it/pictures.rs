//! The pictures of README: a recorded session of the embedded cluster, drawn by the code that draws the screen.
//!
//! `EVENTLAB_DRAW=1 cargo test --test it pictures` records a session anew with the real program and draws it. Without that
//! variable the record is drawn again, and compared with the pictures.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use eventlab::evidence::Entry;
use eventlab::lab::Catalog;
use eventlab::session::files::parse_entries;
use eventlab::session::{Checkpoint, StagePhase, State};
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};

use crate::screen::{app, draw, text};

/// Where the session is left: what was sent is judged.
const PLACE: &str = "after checkpoint: filter-path send passed";

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn record() -> PathBuf {
    folder("tests/golden/screen")
}

/// Plays the lab until the process dies at a place that the list does not have; without a list to its end.
fn play(state: &Path, variable: &str, list: &Path) -> ExitStatus {
    let output = Command::new(env!("CARGO_BIN_EXE_eventlab"))
        .args(["--state-dir", state.to_str().unwrap()])
        .args(["run", "filter-path", "--keep"])
        .env_remove("EVENTLAB_KILL_AT")
        .env(variable, list)
        .output()
        .unwrap();
    output.status
}

/// Records a session that stands where what was sent is judged.
fn record_anew() {
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("places");
    let whole = play(&dir.path().join("whole"), "EVENTLAB_KILL_NOTE", &list);
    assert!(whole.success());
    let text = fs::read_to_string(&list).unwrap();
    let mut places: BTreeSet<&str> = text.lines().collect();
    assert!(places.remove(PLACE), "{text}");
    let others: Vec<&str> = places.into_iter().collect();
    fs::write(&list, others.join("\n") + "\n").unwrap();
    let state = dir.path().join("left");
    assert_eq!(play(&state, "EVENTLAB_KILL_NEW", &list).signal(), Some(9));
    let died = fs::read_to_string(&list).unwrap();
    assert_eq!(died.lines().last(), Some(PLACE), "again: it died elsewhere");
    fs::create_dir_all(record()).unwrap();
    for file in ["checkpoint.json", "evidence.jsonl"] {
        fs::copy(state.join("embedded").join(file), record().join(file)).unwrap();
    }
}

/// The recorded session, at its report.
pub fn at_the_report() -> State {
    let labs = Catalog::bundled().unwrap().labs();
    let lab = labs.iter().find(|lab| lab.name == "filter-path").unwrap();
    let report = lab.stages.iter().find(|stage| stage.report.is_some());
    taken_up(|checkpoint| {
        checkpoint.stage.clone_from(&report.unwrap().name);
        checkpoint.phase = StagePhase::Fresh;
    })
}

/// The recorded session, as it is taken up again from a checkpoint that may be changed before.
fn taken_up(change: impl FnOnce(&mut Checkpoint)) -> State {
    let read = |file: &str| fs::read(record().join(file)).unwrap();
    let mut checkpoint = Checkpoint::parse(&read("checkpoint.json")).unwrap();
    change(&mut checkpoint);
    let (entries, damaged) = parse_entries(read("evidence.jsonl").as_slice()).unwrap();
    assert!(damaged.is_empty(), "{damaged:?}");
    let lines = entries.iter().filter_map(|entry| match entry {
        Entry::Fact(fact) => Some(fact.line.as_str()),
        _ => None,
    });
    assert!(
        lines
            .clone()
            .any(|line| line.contains("discarded due to filtering"))
    );
    let written = checkpoint.written;
    let labs = Catalog::bundled().unwrap().labs();
    State::resume(Some(checkpoint), &entries, labs, written).0
}

#[test]
fn the_pictures_are_the_real_screen() {
    let draws = std::env::var_os("EVENTLAB_DRAW").is_some();
    if draws {
        record_anew();
    }
    let state = taken_up(|_| ());
    assert_eq!(*state.phase(), StagePhase::Passed, "{:?}", state.found());
    let mut app = app(true, false);
    app.row = 1;
    app.layer = 3;
    let buffer = draw(&state, &mut app, 110, 34);
    for (file, now) in [("screen.txt", text(&buffer)), ("screen.svg", svg(&buffer))] {
        let path = folder("assets").join(file);
        if draws {
            fs::write(&path, &now).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == now,
            "assets/{file} is not the screen any more; draw it with EVENTLAB_DRAW=1 cargo test --test it pictures"
        );
    }
}

/// A buffer as a picture.
fn svg(buffer: &Buffer) -> String {
    const WIDE: f32 = 8.4;
    const HIGH: f32 = 18.0;
    let area = buffer.area;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0}\" height=\"{:.0}\" font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"14\">\n<rect width=\"100%\" height=\"100%\" fill=\"#14161a\"/>\n",
        f32::from(area.width) * WIDE + 16.0,
        f32::from(area.height) * HIGH + 16.0
    );
    for y in 0..area.height {
        let mut x = 0;
        while x < area.width {
            let style = buffer[(x, y)].style();
            let from = x;
            let mut run = String::new();
            while x < area.width && buffer[(x, y)].style() == style {
                run.push_str(buffer[(x, y)].symbol());
                x += 1;
            }
            let reversed = style.add_modifier.contains(Modifier::REVERSED);
            if run.trim().is_empty() && !reversed {
                continue;
            }
            let color = match style.fg {
                Some(Color::Cyan) => "#6fd3d3",
                Some(Color::Yellow) => "#e6b450",
                Some(Color::Green) => "#8fd18f",
                _ => "#d8dee9",
            };
            let (left, top) = (f32::from(from) * WIDE + 8.0, f32::from(y) * HIGH + 8.0);
            let length = f32::from(x - from) * WIDE;
            let mut ink = color;
            if reversed {
                out.push_str(&format!(
                    "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{length:.1}\" height=\"{HIGH}\" fill=\"{color}\"/>\n"
                ));
                ink = "#14161a";
            }
            let mut more = String::new();
            if style.add_modifier.contains(Modifier::BOLD) {
                more.push_str(" font-weight=\"bold\"");
            }
            if style.add_modifier.contains(Modifier::DIM) && !reversed {
                more.push_str(" opacity=\"0.6\"");
            }
            let escaped = run.replace('&', "&amp;").replace('<', "&lt;");
            out.push_str(&format!(
                "<text x=\"{left:.1}\" y=\"{:.1}\" textLength=\"{length:.1}\" xml:space=\"preserve\" fill=\"{ink}\"{more}>{escaped}</text>\n",
                top + 13.5
            ));
        }
    }
    out.push_str("</svg>\n");
    out
}
