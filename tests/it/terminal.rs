//! The real program on a pseudo-terminal: first order, keys, resizing, every way to leave, and what it leaves behind.

use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

/// A hang guard, far above what anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

const SIZE: PtySize = PtySize {
    rows: 24,
    cols: 80,
    pixel_width: 0,
    pixel_height: 0,
};

fn size_of(count: u16) -> std::num::NonZero<u16> {
    std::num::NonZero::new(count).unwrap()
}

/// The program on a terminal of its own.
pub struct Session {
    pub parser: vt100::Parser,
    pub raw: Vec<u8>,
    output: mpsc::Receiver<Vec<u8>>,
    input: Box<dyn Write + Send>,
    pub child: Box<dyn portable_pty::Child + Send + Sync>,
    master: Box<dyn portable_pty::MasterPty + Send>,
}

impl Session {
    pub fn start(state: &Path, arguments: &[&str]) -> Self {
        Self::start_with(state, arguments, &[])
    }

    /// The program on a terminal that it does not lead: when that goes away, no signal says so.
    fn without_control(state: &Path) -> Self {
        let pair = native_pty_system().openpty(SIZE).unwrap();
        let name = pair.master.tty_name().unwrap();
        let no_control = rustix::fs::OFlags::NOCTTY.bits().cast_signed();
        let side = || {
            let mut options = std::fs::OpenOptions::new();
            options.read(true).write(true).custom_flags(no_control);
            std::process::Stdio::from(options.open(&name).unwrap())
        };
        let child = std::process::Command::new(env!("CARGO_BIN_EXE_eventlab"))
            .args(["--state-dir", state.to_str().unwrap()])
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .stdin(side())
            .stdout(side())
            .stderr(side())
            .spawn()
            .unwrap();
        drop(pair.slave);
        Self::over(Box::new(child), pair.master)
    }

    pub fn start_with(state: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let pair = native_pty_system().openpty(SIZE).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_eventlab"));
        command.args(["--state-dir", state.to_str().unwrap()]);
        command.args(arguments);
        command.env("TERM", "xterm-256color");
        command.env("LC_ALL", "C.UTF-8");
        command.env("VISUAL", "sed -i s/atomic/edited/");
        command.env_remove("EVENTLAB_KILL_AT");
        command.env_remove("NO_COLOR");
        for (name, value) in variables {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        Self::over(child, pair.master)
    }

    fn over(
        child: Box<dyn portable_pty::Child + Send + Sync>,
        master: Box<dyn portable_pty::MasterPty + Send>,
    ) -> Self {
        let mut reader = master.try_clone_reader().unwrap();
        let (sender, output) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(length) = reader.read(&mut buffer) {
                if length == 0 || sender.send(buffer[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        let input = master.take_writer().unwrap();
        Self {
            parser: vt100::Parser::new(size_of(24), size_of(80), 0),
            raw: Vec::new(),
            output,
            input,
            child,
            master,
        }
    }

    pub fn send(&mut self, keys: &str) {
        self.input.write_all(keys.as_bytes()).unwrap();
        self.input.flush().unwrap();
    }

    /// As [`Session::send`], for a program that may be gone.
    pub fn press(&mut self, keys: &str) {
        let _ = self.input.write_all(keys.as_bytes());
        let _ = self.input.flush();
    }

    /// Whether the program has ended.
    pub fn gone(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// A shell with job control that starts nothing by itself; `None` where there is none that sets the terminal for itself.
    pub fn shell(folder: &Path) -> Option<Self> {
        let found = std::process::Command::new("bash").arg("--version").output();
        if !found.is_ok_and(|output| output.status.success()) {
            return None;
        }
        let pair = native_pty_system().openpty(SIZE).unwrap();
        let mut command = CommandBuilder::new("bash");
        command.args(["--norc", "--noprofile", "-i"]);
        command.cwd(folder);
        command.env("PS1", "ready> ");
        // What is typed here is nobody's history.
        command.env("HISTFILE", "");
        command.env("TERM", "xterm-256color");
        command.env("LC_ALL", "C.UTF-8");
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        Some(Self::over(child, pair.master))
    }

    /// The terminal itself, as another program opens it.
    pub fn tty(&self) -> std::fs::File {
        let no_control = rustix::fs::OFlags::NOCTTY.bits().cast_signed();
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).custom_flags(no_control);
        options.open(self.master.tty_name().unwrap()).unwrap()
    }

    /// Closes the terminal, and waits for the program's end.
    pub fn hang_up(self) -> portable_pty::ExitStatus {
        let Session {
            master,
            input,
            output,
            mut child,
            ..
        } = self;
        drop((input, master, output));
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            if Instant::now() > end {
                child.kill().unwrap();
                panic!("it does not end");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.process_id().unwrap()
    }

    /// What the screen shows.
    pub fn screen(&self) -> String {
        self.parser.screen().contents()
    }

    pub fn take(&mut self, wait: Duration) {
        if let Ok(bytes) = self.output.recv_timeout(wait) {
            self.parser.process(&bytes);
            self.raw.extend(bytes);
        }
    }

    pub fn wait_for(&mut self, text: &str) {
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

    pub fn wait_gone(&mut self, text: &str) {
        let end = Instant::now() + PATIENCE;
        while self.parser.screen().contents().contains(text) {
            assert!(
                Instant::now() < end,
                "still {text:?} on:\n{}",
                self.parser.screen().contents()
            );
            self.take(Duration::from_millis(50));
        }
    }

    /// What an ended program has left to read. While somebody else has the terminal open there is no end of it: then until
    /// it is given back and quiet.
    fn take_rest(&mut self, end: Instant) {
        loop {
            match self.output.recv_timeout(Duration::from_millis(100)) {
                Ok(bytes) => {
                    self.parser.process(&bytes);
                    self.raw.extend(bytes);
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    let screen = self.parser.screen();
                    let is_back = !screen.alternate_screen() && !screen.hide_cursor();
                    if is_back || Instant::now() > end {
                        return;
                    }
                }
            }
        }
    }

    /// Waits until the program has said this, wherever on the screen it went.
    pub fn wait_said(&mut self, text: &str) {
        let end = Instant::now() + PATIENCE;
        while !String::from_utf8_lossy(&self.raw).contains(text) {
            assert!(Instant::now() < end, "it never said {text:?}");
            self.take(Duration::from_millis(50));
        }
    }

    /// The exit code, once the program has given the terminal back.
    pub fn ended(&mut self) -> u32 {
        let end = Instant::now() + PATIENCE;
        loop {
            self.take(Duration::from_millis(20));
            if let Some(status) = self.child.try_wait().unwrap() {
                self.take_rest(end);
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

fn run(state: &Path, arguments: &[&str]) -> String {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_eventlab"))
        .args(["--state-dir", state.to_str().unwrap()])
        .args(arguments)
        .env_remove("EVENTLAB_KILL_AT")
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The report's table, counters and verdicts, without the numbers of their facts.
fn summary(state: &Path) -> Vec<String> {
    let report = run(state, &["report"]);
    let body = report.split("### Timeline").next().unwrap();
    body.lines()
        .filter(|line| {
            ["#", "|", "intakes", "- **"]
                .iter()
                .any(|start| line.starts_with(start))
        })
        .map(|line| line.split(" [#").next().unwrap().to_owned())
        .collect()
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
    session.wait_gone("Keys  (Esc closes)");
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
    let headless = tempfile::tempdir().unwrap();
    assert_eq!(
        summary(state.path()),
        {
            run(headless.path(), &["check"]);
            summary(headless.path())
        },
        "the same report with and without a screen"
    );

    let mut again = Session::start(state.path(), &[]);
    again.wait_for("+1");
    again.wait_for("passed");
    again.send("\x03");
    assert_eq!(again.ended(), 130);
    assert!(String::from_utf8_lossy(&again.raw).contains("Saved in"));
}

/// The editor gets the terminal, the screen takes it back, and keys still arrive.
#[test]
fn an_editor_gets_the_terminal_and_gives_it_back() {
    let state = tempfile::tempdir().unwrap();
    let mut session = Session::start(state.path(), &["--labs", &own_lab(state.path())]);
    session.wait_for("Edit me");
    session.send("e");
    session.wait_for("Before it is applied");
    session.send("q");
    session.wait_gone("Before it is applied");
    session.send("dd");
    session.wait_for("the working copy against");
    session.send("q");
    assert_eq!(session.ended(), 0);
    let copy = state
        .path()
        .join("embedded/manifests/base/process-order.yaml");
    assert!(std::fs::read_to_string(copy).unwrap().contains("- edited"));
}

/// A lab of one stage that edits a base manifest.
pub fn own_lab(folder: &Path) -> String {
    let labs = folder.join("own");
    std::fs::create_dir_all(&labs).unwrap();
    let lab = "name: own\ntitle: Own\nsummary: One stage.\nevent: own\nlayers: [effect]\nclusters: [embedded]\nlinks: []\nstages:\n  - name: fix\n    kind: fix\n    title: Edit me\n    text: Edit.\n    fix:\n      manifest: base/process-order.yaml\n      hints: [none]\n      solution: base/process-order.yaml\n      wrong:\n        - {name: w, manifest: base/ledger.yaml, why: none, fails: {gate: x}}\n";
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
    assert_eq!(session.ended(), 143);
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

/// Signals, hang-ups and panics: the terminal is given back, the session saved, and the message names the log.
#[test]
fn a_panic_anywhere_gives_the_terminal_back_and_says_where_the_log_is() {
    for place in ["screen-draw", "screen-event", "screen-task"] {
        let state = tempfile::tempdir().unwrap();
        let mut session = Session::start_with(state.path(), &[], &[("EVENTLAB_PANIC_AT", place)]);
        if place != "screen-draw" {
            session.wait_for("Press Enter");
            session.send("\r");
        }
        assert_eq!(session.ended(), 4, "{place}");
        let said = String::from_utf8_lossy(&session.raw).into_owned();
        assert!(
            said.contains("logs/eventlab.log") && said.contains(place),
            "{place}: {said}"
        );
        assert!(said.contains("\x1b[?1000l"), "the mouse is free again");
        let mut again = Session::start(state.path(), &[]);
        again.wait_for("stage 1/2");
        again.send("q");
        assert_eq!(again.ended(), 0, "{place}: the session goes on");
    }
}

/// The part that carries out work fails: the screen says so, and can be left.
#[test]
fn a_panic_of_the_work_is_said_and_the_screen_lives_on() {
    let state = tempfile::tempdir().unwrap();
    let mut session =
        Session::start_with(state.path(), &[], &[("EVENTLAB_PANIC_AT", "before effect")]);
    session.wait_for("Press Enter");
    session.send("\r");
    session.wait_for("what carries out the work has failed");
    session.send("q");
    assert_eq!(session.ended(), 0);
    let log = std::fs::read_to_string(state.path().join("embedded/logs/eventlab.log")).unwrap();
    assert!(log.contains("before effect"), "{log}");
}

/// With the signal that a closed terminal sends, and without it, as where the program does not lead the terminal's session.
#[test]
fn a_terminal_that_goes_away_ends_the_program_and_saves_the_session() {
    for start in [
        (|state| Session::start(state, &[])) as fn(&Path) -> Session,
        Session::without_control,
    ] {
        let state = tempfile::tempdir().unwrap();
        let mut session = start(state.path());
        session.wait_for("Press Enter");
        session.send("\r");
        session.wait_for("Succeeded");
        session.wait_for("passed");
        let status = session.hang_up();
        // Nobody is left to read what the end of a screen says: that is no defect.
        assert_ne!(status.exit_code(), 4);
        let log = state.path().join("embedded/logs/eventlab.log");
        let log = std::fs::read_to_string(log).unwrap();
        assert!(!log.contains("panic"), "{log}");
        let mut again = Session::start(state.path(), &[]);
        again.wait_for("passed");
        again.send("q");
        assert_eq!(again.ended(), 0);
    }
}

/// Stopped from a shell with job control and brought back by `fg`; the terminal's settings are the same before and after.
#[test]
fn ctrl_z_gives_the_terminal_to_the_shell_and_fg_comes_back() {
    let state = tempfile::tempdir().unwrap();
    let pair = native_pty_system().openpty(SIZE).unwrap();
    let mut command = CommandBuilder::new("sh");
    command.args(["-i"]);
    command.env("PS1", "ready> ");
    command.env("HISTFILE", "");
    command.env("TERM", "xterm-256color");
    command.env("LC_ALL", "C.UTF-8");
    command.env_remove("ENV");
    let child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    let mut session = Session::over(child, pair.master);
    session.wait_for("ready>");
    let program = format!(
        "cd {} && stty -a >before; {} --state-dir state\r",
        state.path().display(),
        env!("CARGO_BIN_EXE_eventlab")
    );
    session.send(&program);
    session.wait_for("Press Enter");
    session.send("\x1a");
    session.wait_for("Stopped");
    session.send("stty -a >during; echo 'here I'' am'\r");
    session.wait_for("here I am");
    session.send("fg\r");
    session.wait_for("Press Enter");
    session.send("?");
    session.wait_for("The lab");
    session.send("qq");
    session.wait_for("Saved in");
    session.send("stty -a >after; echo 'all d''one'\r");
    session.wait_for("all done");
    let read = |name: &str| std::fs::read_to_string(state.path().join(name)).unwrap();
    assert_eq!(read("before"), read("during"));
    assert_eq!(read("before"), read("after"));
    session.send("exit\r");
    session.ended();
}

/// A press of the left button, as a terminal reports it; places count from 1.
fn click(session: &mut Session, text: &str) {
    session.wait_for(text);
    let contents = session.parser.screen().contents();
    let (row, line) = contents
        .lines()
        .enumerate()
        .find(|(_, line)| line.contains(text))
        .unwrap();
    let column = line.split(text).next().unwrap().chars().count();
    let (column, row) = (column + 1, row + 1);
    session.send(&format!("\x1b[<0;{column};{row}M\x1b[<0;{column};{row}m"));
}

#[test]
fn the_mouse_works_until_it_is_freed_and_sizes_may_come_in_a_storm() {
    let state = tempfile::tempdir().unwrap();
    let mut session = Session::start(state.path(), &[]);
    session.wait_for("Press Enter");
    click(&mut session, "counters");
    session.wait_for("[counters]");
    click(&mut session, "logs");
    session.wait_for("[logs]");
    session.send("m");
    session.wait_for("the mouse is free");
    assert!(String::from_utf8_lossy(&session.raw).contains("\x1b[?1000l"));
    session.send("m");
    session.wait_for("the mouse belongs to the screen");
    for step in 0..60_u16 {
        let size = PtySize {
            rows: 1 + step * 7 % 50,
            cols: 1 + step * 37 % 190,
            pixel_width: 0,
            pixel_height: 0,
        };
        session.master.resize(size).unwrap();
    }
    session
        .parser
        .screen_mut()
        .set_size(size_of(30), size_of(90));
    let size = PtySize {
        rows: 30,
        cols: 90,
        pixel_width: 0,
        pixel_height: 0,
    };
    session.master.resize(size).unwrap();
    session.wait_for("stage 1/2");
    session.wait_for("[logs]");
    session.send("q");
    assert_eq!(session.ended(), 0);
}

/// What is typed while the terminal gets another size, and what comes in one read with Esc, is not lost.
#[test]
fn keys_that_come_together_with_something_else_are_taken() {
    let state = tempfile::tempdir().unwrap();
    let mut session = Session::start(state.path(), &[]);
    session.wait_for("Press Enter");
    for rows in [25, 24].repeat(10) {
        session
            .parser
            .screen_mut()
            .set_size(size_of(rows), size_of(80));
        session.master.resize(PtySize { rows, ..SIZE }).unwrap();
        session.send("?");
        session.wait_for("Keys  (Esc closes)");
        session.send("\x1bv");
        session.wait_gone("Keys  (Esc closes)");
    }
    // Twenty steps through eight panes.
    session.wait_for("[counters]");
    session.send("\x1bq");
    assert_eq!(session.ended(), 0);
}

/// Line by line: no byte of a terminal's language, typed answers, every change a line of its own.
#[test]
fn the_linear_mode_needs_no_terminal() {
    let state = tempfile::tempdir().unwrap();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_eventlab"))
        .args([
            "--state-dir",
            state.path().to_str().unwrap(),
            "--accessible",
        ])
        .env_remove("EVENTLAB_KILL_AT")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"help\nnonsense\n\nfacts order filter\nstatus\nlogs\nlogs orders-sensor\nnext\nlabs\n2\nno\n")
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    for part in [
        "there is no word nonsense",
        "Lab first-order, stage 1 of 2",
        "one order: effect yes, +1",
        "passed",
        "command: kubectl",
        "Pods and their containers",
        "Last lines of orders-sensor",
        "Successfully processed trigger",
        "Lab first-order, stage 2 of 2",
        // The debrief and the links, which a screen shows below the text.
        "Not proven: that a second request",
        "https://argoproj.github.io/argo-events/",
        "2. ",
        "Go to a stage of",
    ] {
        assert!(text.contains(part), "{part:?} is missing:\n{text}");
    }
    assert!(!text.contains('\x1b'), "no escape: {text}");
}

/// A program may type without end: the work goes on all the same.
#[test]
fn endless_input_does_not_keep_the_work_from_going_on() {
    use std::io::BufRead as _;
    let state = tempfile::tempdir().unwrap();
    let mut child = super::program::command(state.path(), &["--accessible"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // Until the program is gone.
    let typing = std::thread::spawn(move || while input.write_all(&[b'\n'; 4096]).is_ok() {});
    let output = std::io::BufReader::new(child.stdout.take().unwrap());
    let (said, heard) = std::sync::mpsc::channel();
    let reading = std::thread::spawn(move || {
        let mut lines = output.lines().map_while(Result::ok);
        // Nobody waits for it any more where it came too late.
        let _ = said.send(lines.any(|line| line == "passed"));
    });
    let passed = heard.recv_timeout(PATIENCE);
    child.kill().unwrap();
    child.wait().unwrap();
    typing.join().unwrap();
    reading.join().unwrap();
    assert_eq!(passed, Ok(true), "its first stage never passed");
}

/// Told to end, each way of showing the lab ends with the code that says so.
#[test]
fn sigterm_line_by_line_has_its_own_exit_code() {
    use std::io::BufRead as _;
    let state = tempfile::tempdir().unwrap();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_eventlab"))
        .args([
            "--state-dir",
            state.path().to_str().unwrap(),
            "--accessible",
        ])
        .env_remove("EVENTLAB_KILL_AT")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // An end of the input is another end.
    let _input = child.stdin.take();
    let mut line = String::new();
    let mut said = std::io::BufReader::new(child.stdout.as_mut().unwrap());
    said.read_line(&mut line).unwrap();
    assert!(line.contains("line by line"), "{line}");
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn without_a_terminal_the_lab_goes_line_by_line_and_says_so() {
    let state = tempfile::tempdir().unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_eventlab"))
        .args(["--state-dir", state.path().to_str().unwrap()])
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("eventlab run") && said.contains("--accessible"),
        "{said}"
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("Lab first-order, stage 1 of 2"), "{text}");
    assert!(!text.contains('\x1b'), "no escape: {text}");
}
