//! The real program on a pseudo-terminal: first order, keys, resizing, every way to leave, and what it leaves behind.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

/// A hang guard, far above what anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn size_of(count: u16) -> std::num::NonZero<u16> {
    std::num::NonZero::new(count).unwrap()
}

struct Session {
    parser: vt100::Parser,
    raw: Vec<u8>,
    output: mpsc::Receiver<Vec<u8>>,
    input: Box<dyn Write + Send>,
    child: Box<dyn portable_pty::Child + Send + Sync>,
    master: Box<dyn portable_pty::MasterPty + Send>,
}

impl Session {
    fn start(state: &Path, arguments: &[&str]) -> Self {
        let size = PtySize {
            rows: 24,
            cols: 80,
            pixel_width: 0,
            pixel_height: 0,
        };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_eventlab"));
        command.args(["--state-dir", state.to_str().unwrap()]);
        command.args(arguments);
        command.env("TERM", "xterm-256color");
        command.env("VISUAL", "sed -i s/atomic/edited/");
        command.env_remove("EVENTLAB_KILL_AT");
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (sender, output) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(length) = reader.read(&mut buffer) {
                if length == 0 || sender.send(buffer[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        let input = pair.master.take_writer().unwrap();
        Self {
            parser: vt100::Parser::new(size_of(24), size_of(80), 0),
            raw: Vec::new(),
            output,
            input,
            child,
            master: pair.master,
        }
    }

    fn send(&mut self, keys: &str) {
        self.input.write_all(keys.as_bytes()).unwrap();
        self.input.flush().unwrap();
    }

    fn take(&mut self, wait: Duration) {
        if let Ok(bytes) = self.output.recv_timeout(wait) {
            self.parser.process(&bytes);
            self.raw.extend(bytes);
        }
    }

    fn wait_for(&mut self, text: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.parser.screen().contents().contains(text) {
            assert!(
                Instant::now() < end,
                "no {text:?} on:\n{}",
                self.parser.screen().contents()
            );
            self.take(Duration::from_millis(50));
        }
    }

    /// The exit code, once the program has given the terminal back.
    fn ended(&mut self) -> u32 {
        let end = Instant::now() + PATIENCE;
        loop {
            self.take(Duration::from_millis(20));
            if let Some(status) = self.child.try_wait().unwrap() {
                while let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(200)) {
                    self.parser.process(&bytes);
                    self.raw.extend(bytes);
                }
                assert!(
                    !self.parser.screen().alternate_screen(),
                    "the alternate screen is still on"
                );
                assert!(
                    !self.parser.screen().hide_cursor(),
                    "the cursor is still hidden"
                );
                return status.exit_code();
            }
            assert!(
                Instant::now() < end,
                "it does not end:\n{}",
                self.parser.screen().contents()
            );
        }
    }
}

#[test]
fn enter_sends_one_order_and_lights_seven_cells() {
    let state = tempfile::tempdir().unwrap();
    let mut session = Session::start(state.path(), &[]);
    session.wait_for("Press Enter");
    session.send("\r");
    session.wait_for("Succeeded");
    session.wait_for("+1");
    session.wait_for("intakes 1 · approved 1 · completed 1 · effects 1");
    session.send("?");
    session.wait_for("Keys  (Esc closes)");
    session.send("\x1b");
    let size = PtySize {
        rows: 40,
        cols: 120,
        pixel_width: 0,
        pixel_height: 0,
    };
    session.master.resize(size).unwrap();
    session
        .parser
        .screen_mut()
        .set_size(size_of(40), size_of(120));
    session.wait_for("> 1 Send one order");
    session.send("q");
    assert_eq!(session.ended(), 0);
    assert!(String::from_utf8_lossy(&session.raw).contains("Saved in"));

    let mut again = Session::start(state.path(), &[]);
    again.wait_for("+1");
    again.wait_for("passed");
    again.send("\x03");
    assert_eq!(again.ended(), 0);
}

/// The editor gets the terminal, the screen takes it back, and keys still arrive.
#[test]
fn an_editor_gets_the_terminal_and_gives_it_back() {
    let state = tempfile::tempdir().unwrap();
    let mut session = Session::start(state.path(), &["--labs", &own_lab(state.path())]);
    session.wait_for("Edit me");
    session.send("e");
    session.wait_for("saved");
    session.send("vv");
    session.wait_for("working copy against");
    session.send("q");
    assert_eq!(session.ended(), 0);
    let copy = state
        .path()
        .join("embedded/manifests/base/process-order.yaml");
    assert!(std::fs::read_to_string(copy).unwrap().contains("- edited"));
}

/// A lab of one stage that edits a base manifest.
fn own_lab(folder: &Path) -> String {
    let labs = folder.join("own");
    std::fs::create_dir_all(&labs).unwrap();
    let lab = "name: own\ntitle: Own\nsummary: One stage.\nevent: own\nlayers: [effect]\nclusters: [embedded]\nlinks: []\nstages:\n  - name: fix\n    kind: fix\n    title: Edit me\n    text: Edit.\n    fix:\n      manifest: base/process-order.yaml\n      hints: [none]\n      solution: base/process-order.yaml\n      wrong:\n        - {name: w, manifest: base/process-order.yaml, why: none, fails: {gate: x}}\n";
    std::fs::write(labs.join("own.yaml"), lab).unwrap();
    labs.to_str().unwrap().to_owned()
}

#[test]
fn sigterm_gives_the_terminal_back() {
    let state = tempfile::tempdir().unwrap();
    let mut session = Session::start(state.path(), &[]);
    session.wait_for("Press Enter");
    let pid = i32::try_from(session.child.process_id().unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(session.ended(), 130);
}

#[test]
fn a_session_that_is_held_says_by_whom() {
    let state = tempfile::tempdir().unwrap();
    let mut first = Session::start(state.path(), &[]);
    first.wait_for("Press Enter");
    let mut second = Session::start(state.path(), &[]);
    assert_eq!(second.ended(), 3);
    let said = String::from_utf8_lossy(&second.raw).into_owned();
    assert!(
        said.contains(&first.child.process_id().unwrap().to_string()),
        "{said}"
    );
    first.send("q");
    assert_eq!(first.ended(), 0);
}
