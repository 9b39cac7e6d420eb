//! `eventlab run`: labs without a screen, with the reference solutions. `eventlab lab test`: every wrong fix as well.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::exit::{Exit, Failure};
use super::output::note;
use super::place::Place;
use super::progress::{Printer, RunFormat};
use super::seeds;
use super::start;
use crate::evidence::MatrixLine;
use crate::lab::{Catalog, GUIDE, Lab};
use crate::runner::autopilot::{self, Played, Progress, Tries};
use crate::runner::work::Patience;
use crate::words::counted;
use clap::{Args, ValueEnum};
use tokio::signal::unix::{Signal, SignalKind, signal};

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
    // Before there is anything to leave behind.
    let mut stop = Stop::listen()?;
    let mut printer = Printer::new(asked.format);
    for round in rounds(&labs, asked.tries, asked.seed) {
        let played = play_round(
            place,
            &asked,
            &round,
            &catalog,
            &mut printer,
            &mut total,
            &mut stop,
        );
        if let Err(failure) = played.await {
            printer.cut_off(&failure.message);
            printer.finish();
            return Err(failure);
        }
        if stop.asked.is_some() {
            printer.cut_off("the run was told to stop before everything was played");
            break;
        }
    }
    printer.finish();
    Ok(stop.asked.unwrap_or_else(|| exit_of(&total)))
}

/// Plays one round in its session, until it is done or the process is told to stop.
async fn play_round(
    place: &Place,
    asked: &Asked<'_>,
    round: &Round,
    catalog: &Arc<Catalog>,
    printer: &mut Printer,
    total: &mut Played,
    stop: &mut Stop,
) -> Result<(), Failure> {
    let temporary = if asked.keep {
        None
    } else {
        Some(tempfile::Builder::new().prefix("eventlab-").tempdir().map_err(|error| Failure::environment(format!("cannot make a folder for this run: {error}; name one with --keep --state-dir")))?)
    };
    let folder: PathBuf = match &temporary {
        Some(dir) => dir.path().join("session"),
        None => place.folder()?,
    };
    let catalog = Arc::clone(catalog);
    let start = async {
        place.bus.prepare(&folder).await?;
        start::session_with_seed(place, &folder, catalog, PATIENCE, round.seed).await
    };
    let Some(started) = stop.or(start).await else {
        return Ok(());
    };
    let mut started = started?;
    for name in &round.labs {
        let lab = match started.driver.catalog().lab(name) {
            Ok(lab) => lab.clone(),
            Err(error) => {
                started.stop().await;
                return Err(Failure::internal(error));
            }
        };
        if let Some(drawn) = &lab.drawn {
            note!("eventlab: {name} with seed {}", drawn.seed);
        }
        let mut print = |progress: Progress| printer.progress(&progress);
        let played = tokio::select! {
            played = autopilot::play(&mut started.driver, &lab, asked.tries, &mut print) => played.map_err(Failure::environment),
            () = stop.signal() => break,
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
    Ok(())
}

fn exit_of(played: &Played) -> Exit {
    if played.proven() {
        Exit::Proven
    } else if played.environment && played.refuted.is_empty() {
        Exit::Environment
    } else {
        Exit::NotProven
    }
}

/// How long a start may go on after the process was told to stop: what it has begun is ended in order then.
const START_GRACE: Duration = Duration::from_secs(5);

/// SIGINT and SIGTERM, heard from the beginning on: what was made is removed, whoever asks for the end.
struct Stop {
    interrupt: Signal,
    terminate: Signal,
    /// What the process was told, once it was.
    asked: Option<Exit>,
}

impl Stop {
    fn listen() -> Result<Self, Failure> {
        let heard = |kind: SignalKind| {
            signal(kind)
                .map_err(|error| Failure::environment(format!("cannot listen to signals: {error}")))
        };
        Ok(Self {
            interrupt: heard(SignalKind::interrupt())?,
            terminate: heard(SignalKind::terminate())?,
            asked: None,
        })
    }

    /// Waits for a signal; a second call answers at once.
    async fn signal(&mut self) {
        if self.asked.is_some() {
            return;
        }
        let exit = tokio::select! {
            Some(()) = self.interrupt.recv() => Exit::Interrupted,
            Some(()) = self.terminate.recv() => Exit::Terminated,
            else => std::future::pending().await,
        };
        self.asked = Some(exit);
    }

    /// What a piece of work comes to; `None` when a signal came first and it did not end soon after.
    async fn or<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            done = &mut work => return Some(done),
            () = self.signal() => {}
        }
        tokio::time::timeout(START_GRACE, work).await.ok()
    }
}

/// Lines of the matrix that do not hold although their stage passed.
fn broken_lines(lines: &[MatrixLine], played: &Played) -> Vec<String> {
    lines
        .iter()
        .filter(|line| line.passed && !line.holds() && played.proven())
        .map(|line| {
            format!(
                "matrix: {}: {}, {}, {} unresolved still",
                line.title,
                counted(line.orders, "order"),
                counted(line.effects, "effect"),
                line.open
            )
        })
        .collect()
}
