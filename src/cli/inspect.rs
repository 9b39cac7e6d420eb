//! `eventlab list` and `report`: what is there, read without holding the session.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::bundle;
use super::exit::{Exit, Failure};
use super::place::Place;
use super::run::Format;
use crate::lab::COURSE;
use crate::report::{Report, json as report_json, markdown, runbook};
use crate::session::SessionView;

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
    /// Pack facts, report and manifests into this file instead, redacted, for `eventlab open`
    #[arg(long, value_name = "FILE")]
    pub bundle: Option<PathBuf>,
    /// Print the recovery steps for the unresolved cases instead; exit 1 while there are any
    #[arg(long, conflicts_with = "format")]
    pub runbook: bool,
}

pub(super) fn print(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Lists the labs, and says of those of the course that are not there yet that they are not.
///
/// # Errors
/// A lab file that does not hold.
pub fn list(place: &Place, args: &PrintArgs) -> Result<Exit, Failure> {
    let catalog = place.catalog()?;
    let labs = catalog.labs();
    let own = labs
        .iter()
        .filter(|lab| !lab.intro && !COURSE.iter().any(|(name, _)| *name == lab.name));
    let rows: Vec<(String, String, bool)> = COURSE
        .iter()
        .map(
            |(name, title)| match labs.iter().find(|lab| lab.name == *name) {
                Some(lab) => (lab.name.clone(), lab.summary.clone(), true),
                None => (
                    (*name).to_owned(),
                    format!("{title} (not there yet)"),
                    false,
                ),
            },
        )
        .chain(own.map(|lab| (lab.name.clone(), lab.summary.clone(), true)))
        .collect();
    for (name, text, there) in rows {
        match args.format {
            Format::Text => print(&format!("{name:<12} {text}")),
            Format::Json => {
                print(&json!({"lab": name, "summary": text, "there": there}).to_string())
            }
        }
    }
    Ok(Exit::Proven)
}

pub(super) fn view(folder: &Path) -> Result<SessionView, Failure> {
    SessionView::open(folder).map_err(Failure::environment)
}

/// Prints the incident report. Exit 1 while something in it is not proven.
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
    let report = Report::new(&view.entries, &labs);
    let exit = if report.proven() {
        Exit::Proven
    } else {
        Exit::NotProven
    };
    if let Some(file) = &args.bundle {
        bundle::pack(&place.session_name(), &folder, &view, &labs, file)?;
        print(&format!("{} shows it with `eventlab open`", file.display()));
        return Ok(exit);
    }
    let text = match args.format {
        ReportFormat::Md => markdown::render(&report),
        ReportFormat::Json => report_json::render(&report).map_err(Failure::internal)?,
    };
    print(&text);
    Ok(exit)
}
