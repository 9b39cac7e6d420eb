//! `eventlab completions SHELL` and `eventlab man`: made from the same table of commands that parses them.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use super::exit::{Exit, Failure};
use super::output;
use crate::tui::keys;

/// Arguments of `completions`.
#[derive(Clone, Debug, Args)]
pub struct CompletionsArgs {
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Arguments of `man`.
#[derive(Clone, Debug, Args)]
pub struct ManArgs {
    /// Write a page of each command into this folder (default: one page on stdout)
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Prints what a shell needs to complete commands and options.
///
/// # Errors
/// None here: what stdout does not take is told at the end.
pub fn completions(mut command: Command, args: &CompletionsArgs) -> Result<Exit, Failure> {
    let name = command.get_name().to_owned();
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut text);
    output::raw(&text);
    Ok(Exit::Proven)
}

/// Prints the man page, or writes one for each command.
///
/// # Errors
/// A folder that cannot be written.
pub fn man(command: Command, args: &ManArgs) -> Result<Exit, Failure> {
    let Some(dir) = &args.dir else {
        let mut text = Vec::new();
        Man::new(command)
            .render(&mut text)
            .map_err(Failure::internal)?;
        text.extend(keys_section().into_bytes());
        output::raw(&text);
        return Ok(Exit::Proven);
    };
    std::fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(command, dir))
        .map_err(|error| {
            Failure::environment(format!("cannot write to {}: {error}", dir.display()))
        })?;
    output::line(&dir.display().to_string());
    Ok(Exit::Proven)
}

/// The keys of the screen, from the table that reads them.
fn keys_section() -> String {
    let plain = |text: &str| text.replace('\\', "\\e").replace('-', "\\-");
    let mut text = ".SH KEYS\n".to_owned();
    for (heading, rows) in keys::for_manual() {
        text.push_str(&format!(".SS {heading}\n"));
        for (shown, help) in rows {
            text.push_str(&format!(".TP\n\\fB{}\\fR\n{}\n", plain(shown), plain(help)));
        }
    }
    text
}
