//! Hands the terminal to the learner's editor.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

/// The editor: `$VISUAL`, else `$EDITOR`, else `vi` where there is one; it may have arguments.
///
/// # Errors
/// A sentence: none is set and `vi` is not there, or what is set cannot be read.
pub fn command() -> Result<Vec<String>, String> {
    let chosen = ["VISUAL", "EDITOR"]
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|value| !value.trim().is_empty());
    let text = match chosen {
        Some(text) => text,
        None if on_path("vi") => "vi".to_owned(),
        None => return Err("no $VISUAL, no $EDITOR and no vi".to_owned()),
    };
    let words = shell_words::split(&text)
        .map_err(|error| format!("$EDITOR cannot be read ({error}): {text}"))?;
    if words.is_empty() {
        Err("$EDITOR is empty".to_owned())
    } else {
        Ok(words)
    }
}

fn on_path(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

/// How an editor is told the line, where that is known of it.
fn at_line(program: &str, line: Option<usize>) -> Option<String> {
    let name = Path::new(program).file_name()?.to_str()?;
    let knows = [
        "vi", "vim", "nvim", "nano", "pico", "emacs", "mg", "micro", "kak", "joe",
    ];
    line.filter(|_| knows.contains(&name))
        .map(|line| format!("+{line}"))
}

/// How long an editor may take to put the terminal in order when it is told to end.
const GRACE: Duration = Duration::from_millis(500);

/// An editor at work on a file; it has the terminal.
pub struct Editor {
    program: String,
    child: Child,
}

impl Editor {
    /// Starts it on a file, at a line (from 1) where it knows how to be told one.
    ///
    /// # Errors
    /// A sentence for the screen: it cannot be started.
    pub fn start(words: &[String], path: &Path, line: Option<usize>) -> Result<Self, String> {
        let (program, arguments) = words.split_first().ok_or("no editor")?;
        let child = Command::new(program)
            .args(arguments)
            .args(at_line(program, line))
            .arg(path)
            .kill_on_drop(true)
            .stdin(Stdio::inherit())
            .stdout(Stdio::inherit())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| {
                format!(
                    "cannot start {program}: {error}; E edits here, or set $VISUAL. The file is {}",
                    path.display()
                )
            })?;
        Ok(Self {
            program: program.clone(),
            child,
        })
    }

    /// Waits until it ends.
    ///
    /// # Errors
    /// A sentence for the screen: it says that it failed.
    pub async fn ended(&mut self) -> Result<(), String> {
        let program = &self.program;
        match self.child.wait().await {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!(
                "{program} ended with {status}; the file is as it left it"
            )),
            Err(error) => Err(format!("cannot wait for {program}: {error}")),
        }
    }

    /// Tells it to end, so that it keeps what was typed in its own way; kills it where it does not.
    pub async fn stop(&mut self) {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(pid) = id.and_then(Pid::from_raw) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::TERM);
        }
        let ended = tokio::time::timeout(GRACE, self.child.wait()).await;
        if ended.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn editors_that_know_lines_are_told() {
        assert_eq!(at_line("/usr/bin/vim", Some(7)).as_deref(), Some("+7"));
        assert_eq!(at_line("code", Some(7)), None);
        assert_eq!(at_line("nano", None), None);
    }
}
