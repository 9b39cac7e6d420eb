//! `eventlab hint`, `check`, `reset`: the same session from the shell.

use std::io::Write as _;
use std::sync::Arc;

use clap::Args;
use jiff::Timestamp;

use super::exit::{Exit, Failure};
use super::place::Place;
use super::seeds;
use super::start::{self, Started};
use crate::runner::work::Patience;
use crate::session::{Message, SessionView, StagePhase, State};

const PATIENCE: Patience = Patience::COMMAND;

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
    let folder = place.folder()?;
    place.bus.prepare(&folder).await?;
    start::session(place, &folder, Arc::new(place.catalog()?), PATIENCE).await
}

fn print(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// The session as its journal and checkpoint show it, while somebody else holds it.
struct Held {
    state: State,
    holder: String,
    /// Its work was under way when the checkpoint was written.
    working: bool,
}

fn held(place: &Place) -> Result<Option<Held>, Failure> {
    let folder = place.folder()?;
    let Some(holder) = crate::session::files::holder(&folder) else {
        return Ok(None);
    };
    let view = SessionView::open(&folder).map_err(Failure::environment)?;
    let working = view
        .checkpoint
        .as_ref()
        .is_some_and(|kept| matches!(kept.phase, StagePhase::Working { .. }));
    let labs = place.catalog_of(view.checkpoint.as_ref())?.labs();
    let (state, _) = State::resume(view.checkpoint, &view.entries, labs, Timestamp::now());
    Ok(Some(Held {
        state,
        holder: holder.to_string(),
        working,
    }))
}

/// Talk, not data.
fn remark(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Shows the next hint of the present stage; while somebody else holds the session, those that were shown.
///
/// # Errors
/// Whatever keeps a session from starting.
pub async fn hint(place: &Place) -> Result<Exit, Failure> {
    if let Some(held) = held(place)? {
        held.state.hints().iter().for_each(|text| print(text));
        remark(&format!(
            "The session is held by {}: it shows the next hint (h on its screen).",
            held.holder
        ));
        return Ok(Exit::Proven);
    }
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

/// Does the present stage's work once, and says how it stands; while somebody else holds the session, only the latter.
///
/// # Errors
/// Whatever keeps a session from starting.
pub async fn check(place: &Place) -> Result<Exit, Failure> {
    if let Some(held) = held(place)? {
        remark(&format!(
            "The session is held by {}: nothing is done here, this is how its stage stands.",
            held.holder
        ));
        if held.working {
            print(&format!("{}: under way", name(&held.state)));
            return Ok(Exit::NotProven);
        }
        let stood = stand(&held.state);
        // What was not done yet could not be done here.
        let is_judged = matches!(
            held.state.phase(),
            StagePhase::Passed | StagePhase::Failed { .. } | StagePhase::Unproven { .. }
        );
        return Ok(if is_judged { stood } else { Exit::Environment });
    }
    let mut started = open(place).await?;
    let done = work(&mut started).await;
    let exit = stand(started.driver.state());
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

/// Lab and stage.
fn name(state: &State) -> String {
    state
        .lab()
        .zip(state.stage())
        .map(|(lab, stage)| format!("{} {}", lab.name, stage.name))
        .unwrap_or_default()
}

fn stand(state: &State) -> Exit {
    let place = name(state);
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
    // Before it is done: whoever reads along can still interrupt it.
    let plan = started.driver.state().reset_plan(&args.lab);
    for text in &plan.restores {
        print(&format!("restores {text}"));
    }
    for text in &plan.leaves {
        print(&format!("leaves {text}"));
    }
    let done = reset_lab(&mut started, &args.lab).await;
    started.stop().await;
    done?;
    if let Some(seed) = args.seed {
        seeds::draw_anew(&place.folder()?, &args.lab, seed)?;
        print(&format!("{} has the seed {seed} now", args.lab));
    }
    print(&format!("{} starts over", args.lab));
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
