//! Whatever ends the program, stops it or writes on its terminal, with and without an editor: the terminal is as it was,
//! and nothing that was typed is lost.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use rustix::termios::{LocalModes, Termios, tcgetattr};

use super::terminal::{Session, own_lab};

/// A hang guard, far above what anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

const MANIFEST: &str = "embedded/manifests/base/process-order.yaml";

fn pid(session: &Session) -> Pid {
    Pid::from_raw(i32::try_from(session.pid()).unwrap()).unwrap()
}

fn said(session: &Session) -> String {
    String::from_utf8_lossy(&session.raw).into_owned()
}

fn assert_cooked(modes: &Termios, what: &str) {
    let wanted = LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
    assert!(modes.local_modes.contains(wanted), "{what}: {modes:?}");
}

/// An editor: a script that is called with the file.
fn editor(folder: &Path, script: &str) -> String {
    let path = folder.join("editor");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn wait_until(what: &str, mut there: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !there() {
        assert!(Instant::now() < end, "not yet: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn every_signal_gives_the_terminal_back_and_says_where_the_session_is_saved() {
    for (signal, code) in [
        (Signal::INT, 130),
        (Signal::QUIT, 130),
        (Signal::TERM, 143),
        (Signal::HUP, 130),
    ] {
        for arguments in [&[][..], &["--accessible"]] {
            let state = tempfile::tempdir().unwrap();
            let mut session = Session::start(state.path(), arguments);
            // While somebody has it open, it keeps how it was set.
            let tty = session.tty();
            session.wait_for("Press Enter");
            kill_process(pid(&session), signal).unwrap();
            let ended = session.ended();
            let what = format!("{signal:?} {arguments:?}");
            assert_eq!(ended, code, "{what}");
            assert_cooked(&tcgetattr(&tty).unwrap(), &what);
            session.wait_said("Saved in");
        }
    }
}

/// An editor that ends when it is told to, and one that does not; both have set the terminal for themselves.
#[test]
fn a_signal_while_an_editor_is_open_leaves_no_editor_and_the_terminal_as_it_was() {
    for (index, trap) in ["", "trap '' TERM HUP\n"].into_iter().enumerate() {
        for signal in [Signal::TERM, Signal::HUP] {
            for arguments in [&[][..], &["--accessible"]] {
                let state = tempfile::tempdir().unwrap();
                let folder = state.path();
                let script = format!(
                    "{trap}stty raw -echo\necho $$ >{0}/pid.new\nmv {0}/pid.new {0}/pid\necho editor is open\nwhile :; do sleep 0.05; done",
                    folder.display()
                );
                let labs = own_lab(folder);
                let mut all = vec!["--labs", labs.as_str()];
                all.extend(arguments);
                let visual = editor(folder, &script);
                let mut session = Session::start_with(folder, &all, &[("VISUAL", &visual)]);
                let tty = session.tty();
                session.wait_for("Edit me");
                session.send(if arguments.is_empty() { "e" } else { "edit\n" });
                session.wait_for("editor is open");
                let text = std::fs::read_to_string(folder.join("pid")).unwrap();
                let child = Pid::from_raw(text.trim().parse().unwrap()).unwrap();
                kill_process(pid(&session), signal).unwrap();
                let ended = session.ended();
                let what = format!("{index} {signal:?} {arguments:?}");
                assert!(ended > 128, "{what}: {ended}");
                assert_cooked(&tcgetattr(&tty).unwrap(), &what);
                assert!(test_kill_process(child).is_err(), "{what}: it lives on");
            }
        }
    }
}

/// Ctrl-C in an editor that leaves it to the terminal is the editor's.
#[test]
fn keys_that_signal_are_the_editors_while_it_is_open() {
    for arguments in [&[][..], &["--accessible"]] {
        let state = tempfile::tempdir().unwrap();
        let folder = state.path();
        let labs = own_lab(folder);
        let mut all = vec!["--labs", labs.as_str()];
        all.extend(arguments);
        let visual = editor(
            folder,
            "trap 'echo \"# by the trap\" >>\"$1\"; exit 0' INT\necho editor is open\nwhile :; do sleep 0.05; done",
        );
        let mut session = Session::start_with(folder, &all, &[("VISUAL", &visual)]);
        session.wait_for("Edit me");
        session.send(if arguments.is_empty() { "e" } else { "edit\n" });
        session.wait_for("editor is open");
        session.send("\x03");
        session.wait_for("Before it is applied");
        let copy = std::fs::read_to_string(folder.join(MANIFEST)).unwrap();
        assert!(copy.ends_with("# by the trap\n"), "{copy}");
        session.send(if arguments.is_empty() { "qq" } else { "quit\n" });
        assert_eq!(session.ended(), 0);
    }
}

/// What is typed while an editor is open is the editor's, whether its word was typed when nothing ran or waited its turn.
#[test]
fn an_editor_of_the_linear_mode_gets_what_is_typed() {
    for typed in ["edit\n", "\nedit\n"] {
        let state = tempfile::tempdir().unwrap();
        let folder = state.path();
        let labs = own_lab(folder);
        let visual = editor(
            folder,
            "echo editor is open\nfor n in 1 2 3; do read line; echo \"# $line\" >>\"$1\"; done",
        );
        let arguments = ["--labs", labs.as_str(), "--accessible"];
        let mut session = Session::start_with(folder, &arguments, &[("VISUAL", &visual)]);
        session.wait_for("Edit me");
        session.send(typed);
        session.wait_for("editor is open");
        session.send("status\nlabs\nquit\n");
        session.wait_for("Before it is applied");
        let copy = std::fs::read_to_string(folder.join(MANIFEST)).unwrap();
        assert!(copy.ends_with("# status\n# labs\n# quit\n"), "{copy}");
        session.send("quit\n");
        assert_eq!(session.ended(), 0);
    }
}

#[test]
fn the_session_goes_on_while_an_editor_is_open() {
    for arguments in [&[][..], &["--accessible"]] {
        let state = tempfile::tempdir().unwrap();
        let folder = state.path();
        let labs = own_lab(folder);
        let mut all = vec!["--labs", labs.as_str()];
        all.extend(arguments);
        let script = format!(
            "echo editor is open\nuntil test -e {}/close; do sleep 0.05; done",
            folder.display()
        );
        let visual = editor(folder, &script);
        let mut session = Session::start_with(folder, &all, &[("VISUAL", &visual)]);
        session.wait_for("Edit me");
        // The word waits for the work where lines are typed; a key does not.
        session.send(if arguments.is_empty() {
            "\re"
        } else {
            "\nedit\n"
        });
        session.wait_for("editor is open");
        wait_until("the stage has passed", || {
            let text = std::fs::read_to_string(folder.join("embedded/checkpoint.json"));
            text.is_ok_and(|text| {
                let kept: serde_json::Value = serde_json::from_str(&text).unwrap();
                kept["labs"]["own"]["passed"][0] == "fix"
            })
        });
        std::fs::write(folder.join("close"), "").unwrap();
        session.wait_for("passed");
        session.send(if arguments.is_empty() { "q" } else { "quit\n" });
        session.wait_for("Saved in");
        assert_eq!(session.ended(), 0);
    }
}

/// Not by its own Ctrl-Z: nothing was given back before it stood still.
#[test]
fn a_program_that_is_stopped_from_outside_comes_back_whole() {
    let state = tempfile::tempdir().unwrap();
    let Some(mut session) = Session::shell(state.path()) else {
        eprintln!("SKIPPED: there is no bash, so nothing was stopped from outside");
        return;
    };
    session.wait_for("ready>");
    let program = env!("CARGO_BIN_EXE_eventlab");
    session.send(&format!("{program} --state-dir state\r"));
    session.wait_for("Press Enter");
    for round in 0..2 {
        let lock = std::fs::read_to_string(state.path().join("state/embedded/lock")).unwrap();
        let number: String = lock
            .chars()
            .skip_while(|character| !character.is_ascii_digit())
            .take_while(char::is_ascii_digit)
            .collect();
        let program = Pid::from_raw(number.parse().unwrap()).unwrap();
        kill_process(program, Signal::STOP).unwrap();
        session.wait_for("Stopped");
        session.send(&format!("echo 'the shell'' {round}'\r"));
        session.wait_for(&format!("the shell {round}"));
        session.send("fg\r");
        session.wait_for("Press Enter");
        session.wait_gone("the shell");
        // Keys arrive one by one, and are not echoed.
        session.send("?");
        session.wait_for("Keys  (Esc closes)");
        session.send("\x1b");
        session.wait_gone("Keys  (Esc closes)");
    }
    session.send("q");
    session.wait_for("Saved in");
    session.send("exit\r");
    session.ended();
}

/// At once, and long after it has stopped.
#[test]
fn a_job_that_is_ended_while_it_is_stopped_ends() {
    for pause in ["", "sleep 1; "] {
        let state = tempfile::tempdir().unwrap();
        let Some(mut session) = Session::shell(state.path()) else {
            eprintln!("SKIPPED: there is no bash, so no stopped job was ended");
            return;
        };
        session.wait_for("ready>");
        let program = env!("CARGO_BIN_EXE_eventlab");
        session.send(&format!("{program} --state-dir state\r"));
        session.wait_for("Press Enter");
        session.send("\x1a");
        session.wait_for("Stopped");
        session.send(&format!("{pause}kill %1; wait %1; echo 'it has'' ended'\r"));
        session.wait_for("it has ended");
        session.send("exit\r");
        session.ended();
    }
}

#[test]
fn what_another_program_wrote_on_the_screen_is_gone_after_ctrl_l() {
    use std::io::Write as _;
    let state = tempfile::tempdir().unwrap();
    let mut session = Session::start(state.path(), &[]);
    session.wait_for("Press Enter");
    let mut tty = session.tty();
    tty.write_all(b"\x1b[5;3Hjunk of another program").unwrap();
    session.wait_for("junk of another program");
    session.send("\x0c");
    session.wait_gone("junk of another program");
    session.wait_for("Press Enter");
    session.send("q");
    assert_eq!(session.ended(), 0);
}

/// How a screen with an unsaved text in its editor is ended.
type Ending = (&'static str, fn(Session) -> String);

fn by_key(mut session: Session) -> String {
    session.send("\x03");
    assert_eq!(session.ended(), 130);
    said(&session)
}

fn by_signal(mut session: Session) -> String {
    kill_process(pid(&session), Signal::TERM).unwrap();
    assert_eq!(session.ended(), 143);
    said(&session)
}

fn by_closing(session: Session) -> String {
    session.hang_up();
    "typed and not saved".to_owned()
}

#[test]
fn what_was_typed_and_not_saved_is_kept_said_and_offered_again() {
    let endings: [Ending; 3] = [
        ("a key", by_key),
        ("a signal", by_signal),
        ("closing", by_closing),
    ];
    for (what, end) in endings {
        let state = tempfile::tempdir().unwrap();
        let labs = own_lab(state.path());
        let arguments = ["--labs", labs.as_str()];
        let mut session = Session::start(state.path(), &arguments);
        session.wait_for("Edit me");
        session.send("E");
        session.wait_for("Ctrl-S save");
        // A terminal that closes types a line end and an end of input; here, neither breaks the manifest.
        session.send("# typed\r# rest\r\x1b[A");
        session.wait_for("# rest");
        session.wait_for("(not saved)");
        let last = end(session);
        assert!(last.contains("typed and not saved"), "{what}: {last}");
        let copy = state.path().join(MANIFEST);
        let kept = PathBuf::from(format!("{}.unsaved", copy.display()));
        let typed = std::fs::read_to_string(&kept).unwrap();
        assert!(typed.starts_with("# typed"), "{what}: {typed}");

        // Later, then taken up, then saved: it is offered until it is.
        let mut again = Session::start(state.path(), &arguments);
        again.wait_for("Edit me");
        again.send("E");
        again.wait_for("not all of it was saved");
        again.send("q");
        again.wait_gone("not all of it was saved");
        again.send("E");
        again.wait_for("not all of it was saved");
        again.send("\r");
        again.wait_for("# typed");
        again.wait_for("(not saved)");
        again.send("\x13");
        again.wait_for("Before it is applied");
        let saved = std::fs::read_to_string(&copy).unwrap();
        assert_eq!(saved, typed, "{what}");
        assert!(!kept.exists(), "{what}");
        again.send("q");
        again.wait_gone("Before it is applied");
        again.send("E");
        again.wait_for("Ctrl-S save");
        again.send("\x1b");
        again.wait_gone("Ctrl-S save");
        again.send("q");
        assert_eq!(again.ended(), 0, "{what}");
        assert!(!said(&again).contains("not saved is in"), "{what}");
    }
}

#[test]
fn what_was_typed_and_not_saved_can_be_dropped() {
    let state = tempfile::tempdir().unwrap();
    let labs = own_lab(state.path());
    let arguments = ["--labs", labs.as_str()];
    let mut session = Session::start(state.path(), &arguments);
    session.wait_for("Edit me");
    session.send("E");
    session.wait_for("Ctrl-S save");
    session.send("# typed\r");
    session.wait_for("# typed");
    by_key(session);
    let mut again = Session::start(state.path(), &arguments);
    again.wait_for("Edit me");
    again.send("E");
    again.wait_for("not all of it was saved");
    again.send("j\r");
    again.wait_for("Ctrl-S save");
    assert!(!again.screen().contains("# typed"), "{}", again.screen());
    let kept = format!("{}.unsaved", state.path().join(MANIFEST).display());
    assert!(!Path::new(&kept).exists());
    again.send("\x03");
    assert_eq!(again.ended(), 130);
    assert!(!Path::new(&kept).exists(), "nothing was typed");
}

/// Nothing of the learner's is replaced by what only looks like it.
#[test]
fn a_working_copy_that_is_no_text_is_said_and_never_overwritten() {
    let state = tempfile::tempdir().unwrap();
    let labs = own_lab(state.path());
    let arguments = ["--labs", labs.as_str()];
    let copy = state.path().join(MANIFEST);
    std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
    let bytes = b"kind: A\n# h\xe4tte\n";
    std::fs::write(&copy, bytes).unwrap();
    let mut session = Session::start(state.path(), &arguments);
    session.wait_for("Edit me");
    session.send("E");
    session.wait_for("line 2 of the working copy is not UTF-8 (byte 0xe4)");
    session.send("3");
    session.wait_for("[manifest]");
    session.wait_for("is not UTF-8");
    for key in ["a", "\r"] {
        session.send(key);
        session.wait_for("cannot be applied");
        session.send("q");
        session.wait_gone("cannot be applied");
    }
    session.send("q");
    assert_eq!(session.ended(), 0);
    assert_eq!(std::fs::read(&copy).unwrap(), bytes);

    let arguments = ["--labs", labs.as_str(), "--accessible"];
    let mut lines = Session::start(state.path(), &arguments);
    lines.wait_for("Edit me");
    lines.send("manifest\napply\n");
    lines.wait_for("cannot be applied");
    lines.send("quit\n");
    assert_eq!(lines.ended(), 0);
    assert!(said(&lines).contains("0xe4"), "{}", said(&lines));
    assert_eq!(std::fs::read(&copy).unwrap(), bytes);
}

#[test]
fn an_edit_of_another_program_is_looked_at_before_it_is_applied() {
    for (arguments, enter) in [(&[][..], "\r"), (&["--accessible"][..], "\n")] {
        let state = tempfile::tempdir().unwrap();
        let labs = own_lab(state.path());
        let mut all = vec!["--labs", labs.as_str()];
        all.extend(arguments);
        let mut session = Session::start(state.path(), &all);
        session.wait_for("Edit me");
        session.send(enter);
        session.wait_for("passed");
        session.send(if arguments.is_empty() { "q" } else { "quit\n" });
        assert_eq!(session.ended(), 0);

        // The lab starts over; what was applied is known.
        let folder = tempfile::tempdir().unwrap();
        let labs = own_lab(folder.path());
        let mut all = vec!["--labs", labs.as_str()];
        all.extend(arguments);
        let mut session = Session::start(folder.path(), &all);
        session.wait_for("Edit me");
        let original = state
            .path()
            .join("embedded/applied/base/process-order.yaml");
        let text = std::fs::read_to_string(original).unwrap();
        let copy = folder.path().join(MANIFEST);
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        std::fs::write(&copy, format!("# by another program\n{text}")).unwrap();
        session.send(enter);
        session.wait_for("Before it is applied");
        session.send(if arguments.is_empty() { "\r" } else { "1\n" });
        session.wait_for("passed");
        session.send(if arguments.is_empty() { "q" } else { "quit\n" });
        assert_eq!(session.ended(), 0);
        let applied = folder
            .path()
            .join("embedded/applied/base/process-order.yaml");
        let applied = std::fs::read_to_string(applied).unwrap();
        assert!(applied.starts_with("# by another program"), "{applied}");
    }
}

#[test]
fn the_linear_mode_has_words_for_what_the_panes_show() {
    let state = tempfile::tempdir().unwrap();
    let mut session = Session::start(state.path(), &["--accessible"]);
    session.wait_for("Press Enter");
    session.send("\n");
    session.wait_for("passed");
    for (word, part) in [
        ("gate", "holds "),
        ("access", "no right was asked for"),
        ("counters", "Equal counters say nothing"),
        ("diff", "edits no manifest"),
        ("diff nonsense", "not with nonsense"),
        (
            "logs orders-sensor Successfully processed",
            "with Successfully processed",
        ),
    ] {
        session.raw.clear();
        session.send(&format!("{word}\n"));
        wait_until(part, || {
            session.take(Duration::from_millis(50));
            said(&session).contains(part)
        });
    }
    session.send("quit\n");
    assert_eq!(session.ended(), 0);
}
