//! `eventlab list` and `report`: what is there, read without holding the session.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde_json::json;

use super::bundle;
use super::exit::{Exit, Failure};
use super::output::{line as print, note};
use super::place::Place;
use super::run::Format;
use crate::lab::COURSE;
use crate::report::{Report, json as report_json, markdown, runbook};
use crate::session::{LabStanding, SessionView, State};
use crate::words::counted;

/// Arguments of commands that only print.
#[derive(Clone, Debug, Args)]
pub struct PrintArgs {
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// How the report is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    #[default]
    Md,
    Json,
}

/// Arguments of `report`.
#[derive(Clone, Debug, Args)]
pub struct ReportArgs {
    #[arg(long, value_enum, default_value_t)]
    pub format: ReportFormat,
    /// Pack facts, report and manifests into this file instead, redacted, for `eventlab open`; exit 0 once it is written,
    /// whatever is proven in it
    #[arg(long, value_name = "FILE")]
    pub bundle: Option<PathBuf>,
    /// Print the recovery steps for the unresolved cases instead; exit 1 while there are any
    #[arg(long, conflicts_with = "format")]
    pub runbook: bool,
}

/// Lists the labs and how far this session is in each; of those of the course that are not there it says so.
///
/// # Errors
/// A lab file that does not hold.
pub fn list(place: &Place, args: &PrintArgs) -> Result<Exit, Failure> {
    let labs = place.catalog()?.labs();
    let state = kept(place)?;
    let standings = state.as_ref().map(State::standings).unwrap_or_default();
    let own = labs
        .iter()
        .filter(|lab| !lab.intro && !COURSE.iter().any(|(name, _)| *name == lab.name));
    // Other labs than the bundled ones: then the course says nothing of them.
    let begun = labs
        .iter()
        .any(|lab| COURSE.iter().any(|(name, _)| *name == lab.name));
    let course = COURSE.iter().filter_map(|(name, title)| {
        let lab = labs.iter().find(|lab| lab.name == *name);
        let row = lab.map(|lab| (lab.name.clone(), lab.summary.clone(), true));
        let missing = || {
            (
                (*name).to_owned(),
                format!("{title} (not among these labs)"),
                false,
            )
        };
        row.or_else(|| begun.then(missing))
    });
    for (name, text, there) in
        course.chain(own.map(|lab| (lab.name.clone(), lab.summary.clone(), true)))
    {
        let standing = standings.iter().find(|standing| standing.name == name);
        match args.format {
            Format::Text => {
                let stood = standing.map(stood).unwrap_or_default();
                print(format!("{name:<12} {stood:<8} {text}").trim_end());
            }
            Format::Json => print(
                &json!({
                    "lab": name, "summary": text, "there": there,
                    "passed": standing.map_or(0, |standing| standing.passed),
                    "stages": standing.map(|standing| standing.stages),
                    "completed": standing.is_some_and(|standing| standing.completed),
                    "current": standing.is_some_and(|standing| standing.current),
                })
                .to_string(),
            ),
        }
    }
    for text in state.iter().flat_map(State::found) {
        note!("eventlab: {text}");
    }
    Ok(Exit::Proven)
}

/// How far a lab is, in a word; empty where nothing was done.
fn stood(standing: &LabStanding) -> String {
    let mark = if standing.current { ">" } else { " " };
    if standing.completed {
        format!("{mark} done")
    } else if standing.passed > 0 || standing.current {
        format!("{mark} {}/{}", standing.passed, standing.stages)
    } else {
        String::new()
    }
}

/// The session as its files show it; `None` where there is none, or none that can be read: that is said.
fn kept(place: &Place) -> Result<Option<State>, Failure> {
    let folder = place.folder()?;
    if !folder.is_dir() {
        return Ok(None);
    }
    let view = match SessionView::open(&folder) {
        Ok(view) => view,
        Err(error) => {
            note!("eventlab: {error}");
            return Ok(None);
        }
    };
    for note in &view.notes {
        note!("eventlab: {note}");
    }
    let Some(checkpoint) = view.checkpoint else {
        return Ok(None);
    };
    let labs = place.catalog_of(Some(&checkpoint))?.labs();
    let (state, _) = State::resume(Some(checkpoint), &view.entries, labs, Timestamp::now());
    Ok(Some(state))
}

pub(super) fn view(folder: &Path) -> Result<SessionView, Failure> {
    SessionView::open(folder).map_err(Failure::environment)
}

/// Prints the incident report. Exit 1 while something in it is not proven; a bundle is handed on, and checks nothing.
///
/// # Errors
/// There is no such session, or it cannot be read.
pub fn report(place: &Place, args: &ReportArgs) -> Result<Exit, Failure> {
    let folder = place.folder()?;
    let view = view(&folder)?;
    if args.runbook {
        let cases = runbook::cases(&view.entries);
        print(&runbook::render(&cases, &runbook::in_work(&view.entries)));
        return Ok(if cases.is_empty() {
            Exit::Proven
        } else {
            Exit::NotProven
        });
    }
    let catalog = place.catalog_of(view.checkpoint.as_ref())?;
    let labs: Arc<[_]> = catalog.labs();
    for note in &view.notes {
        note!("eventlab: {note}");
    }
    let report = Report::new(&view.entries, &labs).with_notes(&view.notes);
    let exit = if report.proven() {
        Exit::Proven
    } else {
        Exit::NotProven
    };
    if let Some(file) = &args.bundle {
        let is_file = bundle::pack(&place.session_name(), &folder, &view, &labs, file)?;
        let open = report.labs.iter().filter(|lab| !lab.complete).count();
        let labs = counted(report.labs.len(), "lab");
        if is_file {
            print(&format!(
                "packed {labs}, {open} of them not finished; `eventlab open {}` shows it",
                file.display()
            ));
        } else {
            // The bundle may have gone to stdout.
            note!("packed {labs}, {open} of them not finished; `eventlab open FILE` shows it");
        }
        return Ok(Exit::Proven);
    }
    let text = match args.format {
        ReportFormat::Md => markdown::render(&report),
        ReportFormat::Json => report_json::render(&report).map_err(Failure::internal)?,
    };
    print(&text);
    Ok(exit)
}
