//! `eventlab hint`, `check`, `next`, `reset`: the same session from the shell.

use std::sync::Arc;

use clap::Args;
use jiff::Timestamp;
use serde_json::json;

use super::asked::{self, answering, next_step};
use super::exit::{Exit, Failure};
use super::output::{line as print, talk as remark};
use super::place::Place;
use super::run::Format;
use super::seeds;
use super::start::{self, Started};
use crate::evidence::Layer;
use crate::evidence::journal::ClaimAnswer;
use crate::runner::work::Patience;
use crate::session::{Message, Reconcile, SessionView, StagePhase, State};
use crate::tui::vetting::vet;

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

/// Arguments of `check`.
#[derive(Clone, Copy, Debug, Args)]
pub struct CheckArgs {
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Where the cluster is not as the session left it: go on with it as it is
    #[arg(long, conflicts_with = "reapply")]
    pub adopt: bool,
    /// Where the cluster is not as the session left it: apply again what the lab had applied
    #[arg(long)]
    pub reapply: bool,
    /// Do the stage's work again with new requests, also where it was done or waits to be seen
    #[arg(long)]
    pub again: bool,
}

/// Arguments of `next`.
#[derive(Clone, Debug, Args)]
pub struct NextArgs {
    /// Which layer stops a probe (`none`, if none does), in a stage that asks for it; once a probe
    #[arg(long, value_name = "PROBE=LAYER", value_parser = pair)]
    pub predict: Vec<(String, String)>,
    /// A statement of a report stage: TOPIC is layer, fact (its number), cause or not-proven; once a topic
    #[arg(long, value_name = "TOPIC=ANSWER", value_parser = pair)]
    pub claim: Vec<(String, String)>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE".to_owned())?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

impl NextArgs {
    /// What the learner says here, in order.
    fn said(&self) -> Result<Vec<Message>, Failure> {
        let mut said = Vec::new();
        for (probe, layer) in &self.predict {
            let stops_at = match layer.as_str() {
                "none" => None,
                name => Some(Layer::parse(name).ok_or_else(|| {
                    let layers = Layer::ALL.map(Layer::name).join(", ");
                    Failure::usage(format!(
                        "there is no layer `{name}`; there are none, {layers}"
                    ))
                })?),
            };
            said.push(Message::Predict {
                probe: probe.clone(),
                stops_at,
            });
        }
        said.extend(self.claim.iter().map(|(topic, answer)| Message::Report {
            topic: topic.clone(),
            answer: answer.clone(),
        }));
        Ok(said)
    }
}

impl CheckArgs {
    fn choice(self) -> Option<Reconcile> {
        match (self.adopt, self.reapply) {
            (true, _) => Some(Reconcile::Adopt),
            (_, true) => Some(Reconcile::Reapply),
            _ => None,
        }
    }
}

async fn open(place: &Place) -> Result<Started, Failure> {
    let folder = place.folder()?;
    place.bus.prepare(&folder).await?;
    start::session(place, &folder, Arc::new(place.catalog()?), PATIENCE).await
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
pub async fn check(place: &Place, args: &CheckArgs) -> Result<Exit, Failure> {
    if let Some(held) = held(place)? {
        remark(&format!(
            "The session is held by {}: nothing is done here, this is how its stage stands.",
            held.holder
        ));
        if held.working && args.format == Format::Text {
            print(&format!("{}: under way", name(&held.state)));
            return Ok(Exit::NotProven);
        }
        let stood = stand(&held.state, args.format);
        // What was not done yet could not be done here.
        let is_judged = matches!(
            held.state.phase(),
            StagePhase::Passed | StagePhase::Failed { .. } | StagePhase::Unproven { .. }
        );
        return Ok(if is_judged { stood } else { Exit::Environment });
    }
    let mut started = open(place).await?;
    say_found(started.driver.state());
    let done = work(&mut started, args).await;
    // A file that cannot be applied is said alone: how the stage stood before is not of what it says.
    let judged = !matches!(&done, Err(failure) if failure.exit == Exit::Usage);
    let exit = judged.then(|| stand(started.driver.state(), args.format));
    started.stop().await;
    done?;
    Ok(exit.unwrap_or(Exit::Usage))
}

/// What was found damaged, or otherwise than the session left it.
fn say_found(state: &State) {
    state
        .found()
        .iter()
        .for_each(|text| remark(&format!("eventlab: {text}")));
}

async fn work(started: &mut Started, args: &CheckArgs) -> Result<(), Failure> {
    if let Some(choice) = args.choice() {
        tell(started, Message::Reconcile(choice))?;
        settle(started).await?;
        if let Some(notice) = started.driver.state().notice() {
            remark(&format!("eventlab: {notice}"));
        }
    }
    // An edit in the learner's own editor is one, too.
    let edited = started.driver.edited().map_err(Failure::environment)?;
    let state = started.driver.state();
    if let (StagePhase::Passed, Some(file), false) = (state.phase(), edited, args.again) {
        remark(&format!(
            "eventlab: {file} was edited since this stage has passed, and the edit is not applied: `eventlab check --again` does the stage with it"
        ));
    }
    // What has nothing to do is left by `next` alone.
    let todo = state.has_work() && state.drift().is_empty();
    let key = match state.phase() {
        _ if !todo => None,
        StagePhase::Fresh => Some(Message::Next),
        _ if args.again => Some(Message::Retry),
        StagePhase::Passed => None,
        _ => Some(Message::Next),
    };
    if let Some(key) = key {
        tell(started, key)?;
    }
    settle(started).await
}

/// Tells what may have working copies applied, once they have been looked at.
fn tell(started: &mut Started, message: Message) -> Result<(), Failure> {
    let dir = started.folder();
    let notes = vet(started.driver.state(), &message, dir, &started.cluster);
    for note in notes.map_err(Failure::usage)? {
        remark(&format!("eventlab: {note}"));
    }
    started.driver.tell(message).map_err(Failure::environment)
}

/// Goes on from a stage that has passed, or in which there is nothing to do.
///
/// # Errors
/// Whatever keeps a session from starting, and a session that somebody else holds.
pub async fn next(place: &Place, args: &NextArgs) -> Result<Exit, Failure> {
    let said = args.said()?;
    let mut started = open(place).await?;
    say_found(started.driver.state());
    let done = go_on(&mut started, said).await;
    started.stop().await;
    done
}

async fn go_on(started: &mut Started, said: Vec<Message>) -> Result<Exit, Failure> {
    let before = name(started.driver.state());
    if !started.driver.state().drift().is_empty() {
        return Ok(stand(started.driver.state(), Format::Text));
    }
    for message in said {
        started.driver.tell(message).map_err(Failure::environment)?;
        if let Some(notice) = started.driver.state().notice() {
            print(&format!("{before}: {notice}"));
            return Ok(Exit::NotProven);
        }
    }
    let state = started.driver.state();
    let may_go = match state.phase() {
        StagePhase::Passed => true,
        StagePhase::Fresh => !state.has_work(),
        _ => false,
    };
    if !may_go {
        print(&format!(
            "{before}: not passed yet; `eventlab check` does its work ({})",
            state.footer().next
        ));
        return Ok(Exit::NotProven);
    }
    started
        .driver
        .tell(Message::Next)
        .map_err(Failure::environment)?;
    settle(started).await?;
    let state = started.driver.state();
    if state.finished() {
        let open = state.open_labs();
        print(&state.footer().next);
        if open.is_empty() {
            return Ok(Exit::Proven);
        }
        print(&format!(
            "not complete: {}; `L` on the screen goes to one, `eventlab reset LAB` starts one over",
            open.join(", ")
        ));
        return Ok(Exit::NotProven);
    }
    if name(state) == before {
        // It still wants something of the learner, and says what.
        let why = state.notice().unwrap_or("it did not go on");
        print(&format!("{before}: {why} ({})", answering(state)));
        for claim in state.claims() {
            if !matches!(claim.answer, ClaimAnswer::SupportedBy { .. }) {
                print(&format!("{before}: {}: {}", claim.topic, claim.answer));
            }
        }
        asked::lines(state).iter().for_each(|line| print(line));
        return Ok(Exit::NotProven);
    }
    let title = state.stage().map_or("", |stage| stage.title.as_str());
    print(&format!("{}: {title}", name(state)));
    if let Some(text) = state.stage().map(|stage| stage.text.trim()) {
        print(text);
    }
    asked::lines(state).iter().for_each(|line| print(line));
    print(&format!("{}: {}", name(state), next_step(state)));
    Ok(Exit::Proven)
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

/// Says how the present stage stands, and answers the exit code that fits it.
fn stand(state: &State, format: Format) -> Exit {
    match format {
        Format::Text => tell_stand(state),
        Format::Json => print(
            &json!({
                "lab": state.lab().map(|lab| &lab.name),
                "stage": state.stage().map(|stage| &stage.name),
                "attempt": state.attempt(),
                "phase": state.phase(),
                "drift": state.drift(),
                "notice": state.notice(),
                "next": state.footer().next,
            })
            .to_string(),
        ),
    }
    exit_of(state)
}

fn exit_of(state: &State) -> Exit {
    match state.phase() {
        _ if !state.drift().is_empty() => Exit::Environment,
        StagePhase::Passed => Exit::Proven,
        StagePhase::Unproven { reasons } if reasons.iter().any(|one| one.environment) => {
            Exit::Environment
        }
        // Something is wanted of the learner first, or there is nothing to prove.
        StagePhase::Fresh if !state.has_work() && state.footer().next_enabled => Exit::Proven,
        _ => Exit::NotProven,
    }
}

fn tell_stand(state: &State) {
    let place = name(state);
    if let Some(notice) = state.notice() {
        print(&format!("{place}: {notice}"));
    }
    if !state.drift().is_empty() {
        for text in &state.drift() {
            print(&format!("{place}: unproven: {text}"));
        }
        print(&format!("{place}: {}", next_step(state)));
        return;
    }
    match state.phase() {
        StagePhase::Passed => {
            print(&format!("{place}: {}", passed(state)));
            remark(&format!("next: {}", next_step(state)));
        }
        StagePhase::Failed { failures } => {
            failures
                .iter()
                .for_each(|failure| print(&format!("{place}: refuted: {}", failure.text)));
            remark(&format!("next: {}", next_step(state)));
        }
        StagePhase::Unproven { reasons } => {
            reasons
                .iter()
                .for_each(|reason| print(&format!("{place}: unproven: {}", reason.text)));
            remark(&format!("next: {}", next_step(state)));
        }
        StagePhase::Fresh if !state.has_work() => {
            print(&format!("{place}: nothing is checked in this stage"));
            asked::lines(state).iter().for_each(|line| print(line));
            print(&format!("{place}: {}", next_step(state)));
        }
        StagePhase::Fresh | StagePhase::Working { .. } | StagePhase::Interrupted { .. } => {
            print(&format!("{place}: not done yet: {}", next_step(state)));
        }
    }
}

/// How a passed stage stands, in a word: one that only looks, or where nothing is checked, has proven nothing.
fn passed(state: &State) -> &'static str {
    match state.stage() {
        Some(stage) if stage.observe => "done (this stage only looks)",
        Some(_) if !state.has_work() => "done (nothing is checked in this stage)",
        _ => "proven",
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
