//! Hands the terminal to the learner's editor.

use std::path::Path;
use std::process::Stdio;

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

/// Runs the editor on a file until it ends.
///
/// # Errors
/// A sentence for the screen: the editor cannot be started, or says that it failed.
pub async fn edit(words: &[String], path: &Path, line: Option<usize>) -> Result<(), String> {
    let (program, arguments) = words.split_first().ok_or("no editor")?;
    let status = tokio::process::Command::new(program)
        .args(arguments)
        .args(at_line(program, line))
        .arg(path)
        .kill_on_drop(true)
        .stdin(Stdio::inherit())
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit())
        .status()
        .await;
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!(
            "{program} ended with {status}; the file is as it left it"
        )),
        Err(error) => Err(format!(
            "cannot start {program}: {error}; E edits here, or set $VISUAL. The file is {}",
            path.display()
        )),
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
