//! `eventlab report --bundle FILE` packs a session for a colleague, `eventlab open FILE` shows it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::Args;
use jiff::Timestamp;

use super::exit::{Exit, Failure};
use super::inspect::ReportFormat;
use super::output::{self, note};
use super::screen::Look;
use super::target::{self, Target};
use crate::lab::Lab;
use crate::report::bundle::{self, Bundle, Contents, Limits};
use crate::report::{json, markdown};
use crate::session::SessionView;
use crate::tui::screen::End;
use crate::tui::viewer;

/// Arguments of `open`.
#[derive(Clone, Debug, Args)]
pub struct OpenArgs {
    /// Bundle made by `eventlab report --bundle FILE`
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print the report instead of opening the screen; without a terminal that is what happens [default: md]. Exit 1 while
    /// something in it is not proven
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Print this manifest of it instead of the report
    #[arg(long, value_name = "NAME")]
    pub manifest: Option<String>,
}

/// Packs a session, and answers whether the file is a regular one: it is there whole then, or as it was before. A pipe or
/// a character device is written into, and stays what it is.
///
/// # Errors
/// The file cannot be written, or is nothing to write a bundle into.
pub fn pack(
    session: &str,
    folder: &Path,
    view: &SessionView,
    labs: &[Lab],
    file: &Path,
) -> Result<bool, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::environment(format!("cannot write {}: {error}", file.display()))
    };
    let contents = Contents {
        session,
        made: Timestamp::now(),
        entries: &view.entries,
        checkpoint: view.checkpoint.as_ref(),
        labs,
        manifests: &copies(folder, labs),
        notes: &view.notes,
    };
    match target::of(file)? {
        Target::Stream(path) => {
            let mut stream = File::options()
                .write(true)
                .open(path)
                .map_err(|error| failed(&error))?;
            bundle::pack(&contents, &mut stream).map_err(|error| failed(&error))?;
            Ok(false)
        }
        Target::File(path) => {
            let parent = match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                _ => Path::new("."),
            };
            let mut made = tempfile::Builder::new()
                .prefix(".eventlab-bundle-")
                .tempfile_in(parent)
                .map_err(|error| failed(&error))?;
            bundle::pack(&contents, &mut made).map_err(|error| failed(&error))?;
            made.as_file().sync_all().map_err(|error| failed(&error))?;
            made.persist(&path).map_err(|error| failed(&error.error))?;
            Ok(true)
        }
    }
}

/// The working copies that are there, by name.
fn copies(folder: &Path, labs: &[Lab]) -> BTreeMap<String, String> {
    let copies = SessionView::copies(folder);
    let stages = labs.iter().flat_map(|lab| &lab.stages);
    stages
        .filter_map(|stage| stage.fix.as_ref())
        .filter_map(|fix| {
            let text = copies.read(&fix.manifest).ok()??;
            Some((fix.manifest.clone(), text))
        })
        .collect()
}

/// Shows a bundle: on the screen where there is a terminal, else its report is printed. Exit 1 where the printed report has
/// something that is not proven.
///
/// # Errors
/// A file that cannot be read, or is no bundle.
pub async fn open(args: &OpenArgs, look: Look) -> Result<Exit, Failure> {
    let shown = args.file.display();
    let file = File::open(&args.file).map_err(|error| {
        Failure::usage(format!(
            "cannot open {shown}: {error}; `eventlab report --bundle FILE` makes such a file"
        ))
    })?;
    let bundle = Bundle::open(BufReader::new(file), Limits::default())
        .map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
    if let Some(name) = &args.manifest {
        let Some(text) = bundle.manifests.get(name) else {
            let there: Vec<&str> = bundle.manifests.keys().map(String::as_str).collect();
            return Err(Failure::usage(format!(
                "{shown} has no manifest `{name}`; there are: {}",
                there.join(", ")
            )));
        };
        print(text);
        return Ok(Exit::Proven);
    }
    let report = bundle.report();
    let exit = if report.proven() {
        Exit::Proven
    } else {
        Exit::NotProven
    };
    if args.format.is_none() && look.draws() {
        return match viewer::run(&bundle, look.theme()).await {
            Ok(End::Quit) => Ok(Exit::Proven),
            Ok(End::Interrupted) => Ok(Exit::Interrupted),
            Ok(End::Terminated) => Ok(Exit::Terminated),
            Err(error) => Err(Failure::environment(error)),
        };
    }
    for note in &bundle.notes {
        note!("eventlab: {}", visible(note));
    }
    match args.format.unwrap_or_default() {
        ReportFormat::Json => print(&json::render(&report).map_err(Failure::internal)?),
        ReportFormat::Md => {
            print(&introduction(&bundle));
            print(&markdown::render(&report));
        }
    }
    Ok(exit)
}

/// Where the session came from and stood, before its report.
fn introduction(bundle: &Bundle) -> String {
    let state = bundle.state();
    let mut lines = vec![format!(
        "Session `{}`, packed {} by eventlab {}. It is shown as it was, and nothing here is live.",
        bundle.head.session, bundle.head.made, bundle.head.eventlab
    )];
    if let (Some(lab), Some(stage)) = (state.lab(), state.stage()) {
        lines.push(format!(
            "It stood in lab `{}`, stage `{}` ({}), attempt {}; {} of its labs are done.",
            lab.name,
            stage.name,
            stage.title,
            state.attempt(),
            state.course_progress().0
        ));
    }
    let manifests: Vec<&str> = bundle.manifests.keys().map(String::as_str).collect();
    if !manifests.is_empty() {
        lines.push(format!(
            "Edited manifests, shown by `--manifest NAME`: {}.",
            manifests.join(", ")
        ));
    }
    lines.join("\n") + "\n"
}

/// The text without anything that a terminal would act upon; it may come from anybody.
fn visible(text: &str) -> String {
    let safe = |character: char| {
        let acts = character.is_control() && !matches!(character, '\n' | '\t');
        // Marks that turn the direction of text around hide what a line says.
        let turns = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if acts || turns { '\u{fffd}' } else { character }
    };
    text.chars().map(safe).collect()
}

fn print(text: &str) {
    output::line(&visible(text));
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn nothing_that_a_terminal_acts_upon_is_left() {
        assert_eq!(
            visible("a\u{1b}[2Jb\r\u{202e}c\td\n"),
            "a\u{fffd}[2Jb\u{fffd}\u{fffd}c\td\n"
        );
    }
}
