//! `eventlab run`: labs without a screen, with the reference solutions. `eventlab lab test`: every wrong fix as well.

use std::path::PathBuf;
use std::sync::Arc;

use super::exit::{Exit, Failure};
use super::place::Place;
use super::progress::{Printer, RunFormat};
use super::seeds;
use super::start;
use crate::evidence::MatrixLine;
use crate::lab::{Catalog, GUIDE, Lab};
use crate::runner::autopilot::{self, Played, Progress, Tries};
use crate::runner::work::Patience;
use clap::{Args, ValueEnum};

/// Waiting longer than this for a gate or a row is "could not see".
const PATIENCE: Patience = Patience::COMMAND;

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
    pub format: RunFormat,
    /// Use the session of that place instead of a fresh one that is removed afterwards
    #[arg(long)]
    pub keep: bool,
    /// Seed of the fault that the lab `incident` draws (default: any)
    #[arg(long, value_name = "N", value_parser = seeds::parse)]
    pub seed: Option<u32>,
}

/// Arguments of `lab test`.
#[derive(Clone, Debug, Args)]
pub struct TestArgs {
    /// Labs to test; `guide` stands for the labs of the guided course (default: all that are there)
    #[arg(value_name = "LAB")]
    pub names: Vec<String>,
    #[arg(long, value_enum, default_value_t)]
    pub format: RunFormat,
    /// One wrong fix of each lab, chosen by this number, instead of all
    #[arg(long, value_name = "N")]
    pub sample: Option<u64>,
    /// Only the fault that this seed draws, instead of every fault of the lab
    #[arg(long, value_name = "N", value_parser = seeds::parse)]
    pub seed: Option<u32>,
}

/// Runs labs with their solutions.
///
/// # Errors
/// Unknown labs, and whatever keeps a session from starting.
pub async fn run(place: &Place, args: &RunArgs) -> Result<Exit, Failure> {
    let asked = Asked {
        names: &args.names,
        tries: Tries::Solution,
        format: args.format,
        keep: args.keep,
        seed: args.seed,
    };
    play(place, asked).await
}

/// Runs labs with wrong fixes, then with their solutions.
///
/// # Errors
/// As [`run`].
pub async fn test(place: &Place, args: &TestArgs) -> Result<Exit, Failure> {
    let tries = args.sample.map_or(Tries::EveryWrongFix, Tries::Sample);
    let asked = Asked {
        names: &args.names,
        tries,
        format: args.format,
        keep: false,
        seed: args.seed,
    };
    play(place, asked).await
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

/// Labs that share a session, and the seed of what they draw.
struct Round {
    labs: Vec<String>,
    seed: Option<u32>,
}

/// What is played in which session: a lab that draws a fault is tested with each of them, every one in a fresh session.
fn rounds(labs: &[Lab], tries: Tries, seed: Option<u32>) -> Vec<Round> {
    let names = |labs: &[&Lab]| labs.iter().map(|lab| lab.name.clone()).collect::<Vec<_>>();
    if tries == Tries::Solution {
        let labs = names(&labs.iter().collect::<Vec<_>>());
        return vec![Round { labs, seed }];
    }
    let (drawing, plain): (Vec<&Lab>, Vec<&Lab>) =
        labs.iter().partition(|lab| lab.faults.is_some());
    let mut rounds = Vec::new();
    if !plain.is_empty() {
        rounds.push(Round {
            labs: names(&plain),
            seed: None,
        });
    }
    for lab in drawing {
        let all: Vec<u32> = lab
            .faults
            .iter()
            .flat_map(|faults| faults.seeds())
            .map(|(seed, _)| seed)
            .collect();
        let chosen = match (seed, tries) {
            (Some(seed), _) => vec![seed],
            (None, Tries::Sample(number)) => {
                let place = usize::try_from(number).unwrap_or(0) % all.len().max(1);
                all.into_iter().skip(place).take(1).collect()
            }
            (None, _) => all,
        };
        rounds.extend(chosen.into_iter().map(|seed| Round {
            labs: vec![lab.name.clone()],
            seed: Some(seed),
        }));
    }
    rounds
}

/// What is asked of `run` and `lab test`.
struct Asked<'a> {
    names: &'a [String],
    tries: Tries,
    format: RunFormat,
    keep: bool,
    seed: Option<u32>,
}

async fn play(place: &Place, asked: Asked<'_>) -> Result<Exit, Failure> {
    let catalog = Arc::new(place.catalog()?);
    let labs = chosen(&catalog, asked.names)?;
    let mut total = Played::default();
    let mut interrupted = false;
    let mut printer = Printer::new(asked.format);
    for round in rounds(&labs, asked.tries, asked.seed) {
        interrupted = play_round(place, &asked, &round, &catalog, &mut printer, &mut total).await?;
        if interrupted {
            break;
        }
    }
    printer.finish();
    Ok(exit_of(&total, interrupted))
}

/// Plays one round in its session; true when it was interrupted.
async fn play_round(
    place: &Place,
    asked: &Asked<'_>,
    round: &Round,
    catalog: &Arc<Catalog>,
    printer: &mut Printer,
    total: &mut Played,
) -> Result<bool, Failure> {
    let temporary = if asked.keep {
        None
    } else {
        Some(tempfile::Builder::new().prefix("eventlab-").tempdir().map_err(|error| Failure::environment(format!("cannot make a folder for this run: {error}; name one with --keep --state-dir")))?)
    };
    let folder: PathBuf = match &temporary {
        Some(dir) => dir.path().join("session"),
        None => place.folder()?,
    };
    place.bus.prepare(&folder).await?;
    let catalog = Arc::clone(catalog);
    let mut started =
        start::session_with_seed(place, &folder, catalog, PATIENCE, round.seed).await?;
    let mut interrupted = false;
    for name in &round.labs {
        let lab = match started.driver.catalog().lab(name) {
            Ok(lab) => lab.clone(),
            Err(error) => {
                started.stop().await;
                return Err(Failure::internal(error));
            }
        };
        if let Some(drawn) = &lab.drawn {
            eprintln!("eventlab: {name} with seed {}", drawn.seed);
        }
        let mut print = |progress: Progress| printer.progress(&progress);
        let played = tokio::select! {
            played = autopilot::play(&mut started.driver, &lab, asked.tries, &mut print) => played.map_err(Failure::environment),
            () = interrupt() => { interrupted = true; break; }
        };
        match played {
            Ok(mut played) => {
                if let Some(lines) = started.driver.state().matrix_of(&lab.name) {
                    printer.matrix(&lines);
                    played.refuted.extend(broken_lines(&lines, &played));
                }
                printer.lab(&lab, &played);
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
    Ok(interrupted)
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
