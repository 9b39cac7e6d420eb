//! `eventlab run`: labs without a screen, with the reference solutions. `eventlab lab test`: every wrong fix as well.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::exit::{Exit, Failure};
use super::place::Place;
use super::progress::Printer;
use super::start;
use crate::evidence::MatrixLine;
use crate::lab::{Catalog, GUIDE, Lab};
use crate::runner::autopilot::{self, Played, Progress, Tries};
use crate::runner::work::Patience;
use clap::{Args, ValueEnum};

/// Waiting longer than this for a gate or a row is "could not see".
const PATIENCE: Patience = Patience {
    gate: Some(Duration::from_secs(60)),
    collect: Duration::from_secs(30),
};

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[default]
    Text,
    /// One JSON object a line
    Json,
}

/// Arguments of `run`.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Labs to run, in this order; `guide` stands for the labs of the guided course; `matrix` ends with its table
    /// (default: all that are there)
    #[arg(value_name = "LAB")]
    pub names: Vec<String>,
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Use the session of that place instead of a fresh one that is removed afterwards
    #[arg(long)]
    pub keep: bool,
}

/// Arguments of `lab test`.
#[derive(Clone, Debug, Args)]
pub struct TestArgs {
    /// Labs to test; `guide` stands for the labs of the guided course (default: all that are there)
    #[arg(value_name = "LAB")]
    pub names: Vec<String>,
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// One wrong fix of each lab, chosen by this number, instead of all
    #[arg(long, value_name = "N")]
    pub sample: Option<u64>,
}

/// Runs labs with their solutions.
///
/// # Errors
/// Unknown labs, and whatever keeps a session from starting.
pub async fn run(place: &Place, args: &RunArgs) -> Result<Exit, Failure> {
    play(place, &args.names, Tries::Solution, args.format, args.keep).await
}

/// Runs labs with wrong fixes, then with their solutions.
///
/// # Errors
/// As [`run`].
pub async fn test(place: &Place, args: &TestArgs) -> Result<Exit, Failure> {
    let tries = args.sample.map_or(Tries::EveryWrongFix, Tries::Sample);
    play(place, &args.names, tries, args.format, false).await
}

fn chosen(catalog: &Catalog, names: &[String]) -> Result<Vec<Lab>, Failure> {
    if names.is_empty() {
        return Ok(catalog
            .labs()
            .iter()
            .filter(|lab| !lab.intro)
            .cloned()
            .collect());
    }
    names
        .iter()
        .flat_map(|name| match name.as_str() {
            "guide" => GUIDE.to_vec(),
            name => vec![name],
        })
        .map(|name| catalog.lab(name).cloned().map_err(Failure::usage))
        .collect()
}

async fn play(
    place: &Place,
    names: &[String],
    tries: Tries,
    format: Format,
    keep: bool,
) -> Result<Exit, Failure> {
    let catalog = Arc::new(place.catalog()?);
    let labs = chosen(&catalog, names)?;
    let temporary = if keep {
        None
    } else {
        Some(tempfile::Builder::new().prefix("eventlab-").tempdir().map_err(|error| Failure::environment(format!("cannot make a folder for this run: {error}; name one with --keep --state-dir")))?)
    };
    let folder: PathBuf = match &temporary {
        Some(dir) => dir.path().join("session"),
        None => place.folder()?,
    };
    let mut started = start::session(place, &folder, catalog, PATIENCE).await?;
    let mut total = Played::default();
    let mut interrupted = false;
    let mut printer = Printer::new(format);
    for lab in &labs {
        let mut print = |progress: Progress| printer.progress(&progress);
        let played = tokio::select! {
            played = autopilot::play(&mut started.driver, lab, tries, &mut print) => played.map_err(Failure::environment),
            () = interrupt() => { interrupted = true; break; }
        };
        match played {
            Ok(mut played) => {
                if let Some(lines) = started.driver.state().matrix_of(&lab.name) {
                    printer.matrix(&lines);
                    played.refuted.extend(broken_lines(&lines, &played));
                }
                printer.lab(lab, &played);
                total.refuted.extend(played.refuted);
                total.unproven.extend(played.unproven);
                total.environment |= played.environment;
            }
            Err(failure) => {
                started.stop().await;
                return Err(failure);
            }
        }
    }
    started.stop().await;
    printer.finish();
    Ok(exit_of(&total, interrupted))
}

fn exit_of(played: &Played, interrupted: bool) -> Exit {
    if interrupted {
        Exit::Interrupted
    } else if played.proven() {
        Exit::Proven
    } else if played.environment && played.refuted.is_empty() {
        Exit::Environment
    } else {
        Exit::NotProven
    }
}

async fn interrupt() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Lines of the matrix that do not hold although their stage passed.
fn broken_lines(lines: &[MatrixLine], played: &Played) -> Vec<String> {
    lines
        .iter()
        .filter(|line| line.passed && !line.holds() && played.proven())
        .map(|line| {
            format!(
                "matrix: {}: {} orders, {} effects, {} unresolved still",
                line.title, line.orders, line.effects, line.open
            )
        })
        .collect()
}
