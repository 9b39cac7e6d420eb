//! The program as a shell runs it, on a state directory of its own.

use std::path::Path;
use std::process::{Command, Output};

/// A command line of it, to be changed before it runs.
pub fn command(state: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eventlab"));
    command
        .args(["--state-dir", state.to_str().unwrap()])
        .args(arguments)
        .env_remove("EVENTLAB_KILL_AT");
    command
}

/// Runs it to its end.
pub fn eventlab(state: &Path, arguments: &[&str]) -> Output {
    command(state, arguments).output().unwrap()
}

/// Runs it to its end, with the state directory as its place for everything.
pub fn eventlab_inside(state: &Path, arguments: &[&str]) -> Output {
    let mut command = command(state, arguments);
    command.env("TMPDIR", state).current_dir(state);
    command.output().unwrap()
}

/// What it said, on stdout and then on stderr.
pub fn text(output: &Output) -> String {
    format!(
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
