//! `eventlab hint`, `check`, `reset`: the same session from the shell.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::exit::{Exit, Failure};
use super::place::Place;
use super::seeds;
use super::start::{self, Started};
use crate::runner::work::Patience;
use crate::session::{Message, StagePhase};

const PATIENCE: Patience = Patience {
    gate: Some(Duration::from_secs(60)),
    collect: Duration::from_secs(30),
};

/// Arguments of `reset`.
#[derive(Clone, Debug, Args)]
pub struct ResetArgs {
    /// The lab to start over
    pub lab: String,
    /// Draw the fault of this lab anew, by this seed
    #[arg(long, value_name = "N", value_parser = seeds::parse)]
    pub seed: Option<u32>,
}

async fn open(place: &Place) -> Result<Started, Failure> {
    start::session(
        place,
        &place.folder()?,
        Arc::new(place.catalog()?),
        PATIENCE,
    )
    .await
}

fn print(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Shows the next hint of the present stage.
///
/// # Errors
/// Whatever keeps a session from starting.
pub async fn hint(place: &Place) -> Result<Exit, Failure> {
    let mut started = open(place).await?;
    let told = started
        .driver
        .tell(Message::Hint)
        .map_err(Failure::environment);
    let state = started.driver.state();
    let lines: Vec<String> = match state.notice() {
        Some(notice) => vec![notice.to_owned()],
        None => state.hints().last().into_iter().cloned().collect(),
    };
    started.stop().await;
    told?;
    lines.iter().for_each(|text| print(text));
    Ok(Exit::Proven)
}

/// Does the present stage's work once, and says how it stands.
///
/// # Errors
/// Whatever keeps a session from starting.
pub async fn check(place: &Place) -> Result<Exit, Failure> {
    let mut started = open(place).await?;
    let done = work(&mut started).await;
    let exit = stand(&started);
    started.stop().await;
    done?;
    Ok(exit)
}

async fn work(started: &mut Started) -> Result<(), Failure> {
    if *started.driver.state().phase() != StagePhase::Passed {
        started
            .driver
            .tell(Message::Next)
            .map_err(Failure::environment)?;
    }
    settle(started).await
}

async fn settle(started: &mut Started) -> Result<(), Failure> {
    while matches!(started.driver.state().phase(), StagePhase::Working { .. }) {
        let incoming = started.driver.next().await;
        started
            .driver
            .take(incoming)
            .map_err(Failure::environment)?;
    }
    Ok(())
}

fn stand(started: &Started) -> Exit {
    let state = started.driver.state();
    let place = state
        .lab()
        .zip(state.stage())
        .map(|(lab, stage)| format!("{} {}", lab.name, stage.name))
        .unwrap_or_default();
    if let Some(notice) = state.notice() {
        print(&format!("{place}: {notice}"));
    }
    match state.phase() {
        StagePhase::Passed => {
            print(&format!("{place}: proven"));
            Exit::Proven
        }
        StagePhase::Failed { failures } => {
            failures
                .iter()
                .for_each(|failure| print(&format!("{place}: refuted: {}", failure.text)));
            Exit::NotProven
        }
        StagePhase::Unproven { reasons } => {
            reasons
                .iter()
                .for_each(|reason| print(&format!("{place}: unproven: {}", reason.text)));
            if reasons.iter().any(|reason| reason.environment) {
                Exit::Environment
            } else {
                Exit::NotProven
            }
        }
        StagePhase::Fresh | StagePhase::Working { .. } | StagePhase::Interrupted { .. } => {
            print(&format!("{place}: {}", state.footer().next));
            Exit::Proven
        }
    }
}

/// Starts a lab over.
///
/// # Errors
/// An unknown lab, and whatever keeps a session from starting.
pub async fn reset(place: &Place, args: &ResetArgs) -> Result<Exit, Failure> {
    let catalog = place.catalog()?;
    let lab = catalog.lab(&args.lab).map_err(Failure::usage)?;
    if args.seed.is_some() && lab.faults.is_none() {
        return Err(Failure::usage(format!(
            "{} draws nothing, so that --seed has no place",
            args.lab
        )));
    }
    let mut started = open(place).await?;
    let done = reset_lab(&mut started, &args.lab).await;
    started.stop().await;
    done?;
    if let Some(seed) = args.seed {
        seeds::draw_anew(&place.folder()?, &args.lab, seed)?;
        print(&format!("{} has the seed {seed} now", args.lab));
    }
    print(&format!("{} starts over; its evidence is kept", args.lab));
    Ok(Exit::Proven)
}

async fn reset_lab(started: &mut Started, lab: &str) -> Result<(), Failure> {
    started
        .driver
        .tell(Message::GoTo {
            lab: lab.to_owned(),
            stage: 0,
        })
        .map_err(Failure::environment)?;
    settle(started).await?;
    started
        .driver
        .tell(Message::Reset)
        .map_err(Failure::environment)?;
    settle(started).await
}
