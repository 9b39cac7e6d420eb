//! The screen, killed with SIGKILL and started again: the same stage, nothing sent twice, no fact lost, no child left.
//!
//! Killed at points that the program passes (`EVENTLAB_KILL_AT`) and at moments that nobody chose. A sample runs here; with
//! `EVENTLAB_ALL_KILL_POINTS=1` every point of a first order does.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::kill_points::{assert_no_child, assert_sent_once, facts, journal};
use crate::terminal::Session;

/// A hang guard, far above what anything here takes.
const PATIENCE: Duration = Duration::from_secs(90);
/// Pause between two keys: pressing again is what an impatient learner does.
const PAUSE: Duration = Duration::from_millis(400);

/// How a go on screen ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Passed,
    Killed,
}

fn passed(screen: &str) -> bool {
    screen.contains("+1") && (screen.contains("passed") || screen.contains("stage 2/2"))
}

/// Presses Enter, and `r` where the stage stayed unproven, until the first order is through or the program is gone.
fn play(session: &mut Session) -> End {
    let until = Instant::now() + PATIENCE;
    let mut pressed = Instant::now();
    let mut asked = false;
    loop {
        session.take(Duration::from_millis(25));
        let screen = session.screen();
        if session.gone() {
            return End::Killed;
        }
        if passed(&screen) {
            return End::Passed;
        }
        assert!(Instant::now() < until, "no end:\n{screen}");
        let waits = !screen.contains("⏎") || (asked && pressed.elapsed() < PAUSE);
        if !waits {
            session.press(if screen.contains("unproven") {
                "r"
            } else {
                "\r"
            });
            (pressed, asked) = (Instant::now(), true);
        }
    }
}

/// Comes back on screen after a kill and plays the stage to its end; then everything is as if nothing had happened.
fn comes_back(state: &Path, what: &str) {
    assert_no_child(state);
    let before = journal(state);
    let mut session = Session::start(state, &[]);
    session.wait_for("first-order");
    assert_eq!(play(&mut session), End::Passed, "{what}");
    session.send("q");
    assert_eq!(session.ended(), 0, "{what}");
    let after = journal(state);
    assert_sent_once(&after);
    assert!(
        facts(&before).is_subset(&facts(&after)),
        "{what}: a fact was lost"
    );
    assert_no_child(state);
}

/// False when the first order was through before the program came to this point.
fn survives(point: u64) -> bool {
    let state = tempfile::tempdir().unwrap();
    let at = point.to_string();
    let mut session = Session::start_with(state.path(), &[], &[("EVENTLAB_KILL_AT", &at)]);
    if play(&mut session) == End::Passed {
        session.send("q");
        session.ended();
        return false;
    }
    comes_back(state.path(), &format!("point {point}"));
    true
}

#[test]
fn a_screen_killed_at_a_point_comes_back() {
    if std::env::var_os("EVENTLAB_ALL_KILL_POINTS").is_some() {
        let reached = (1..500).take_while(|point| survives(*point)).count();
        eprintln!("the screen was killed at {reached} points");
        assert!(reached > 10, "{reached}");
        return;
    }
    // One while the stage is prepared, and one around the request.
    let spread = u64::from(std::process::id()) % 4;
    assert!(survives(3 + spread));
    assert!(survives(12 + spread));
}

#[test]
fn a_screen_killed_at_any_moment_comes_back() {
    let state = tempfile::tempdir().unwrap();
    let mut session = Session::start(state.path(), &[]);
    session.wait_for("Press Enter");
    session.send("\r");
    // From before the first object to after the last row, as chance will have it.
    let moment = u64::from(std::process::id() % 1500);
    std::thread::sleep(Duration::from_millis(moment));
    let pid = Pid::from_raw(i32::try_from(session.pid()).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    while !session.gone() {
        session.take(Duration::from_millis(25));
    }
    comes_back(state.path(), &format!("after {moment} ms"));
}
