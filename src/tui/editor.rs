//! Hands the terminal to the learner's editor.

use std::path::Path;
use std::process::Stdio;

/// The editor: `$VISUAL`, `$EDITOR`, or `vi`; it may have arguments.
fn command() -> Result<Vec<String>, String> {
    let chosen = ["VISUAL", "EDITOR"]
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|value| !value.trim().is_empty());
    let text = chosen.unwrap_or_else(|| "vi".to_owned());
    let words = shell_words::split(&text)
        .map_err(|error| format!("$EDITOR cannot be read ({error}): {text}"))?;
    if words.is_empty() {
        Err("$EDITOR is empty".to_owned())
    } else {
        Ok(words)
    }
}

/// Runs the editor on a file until it ends.
///
/// # Errors
/// A sentence for the footer: the editor cannot be started, or says that it failed.
pub async fn edit(path: &Path) -> Result<(), String> {
    let words = command()?;
    let (program, arguments) = words.split_first().ok_or("no editor")?;
    let status = tokio::process::Command::new(program)
        .args(arguments)
        .arg(path)
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
            "cannot start {program}: {error}; set $VISUAL or $EDITOR. The file is {}",
            path.display()
        )),
    }
}
