//! `eventlab cluster prepare` and `remove`: the lab's ground on a real cluster, made and taken away after a look at it.

use std::io::{BufRead as _, IsTerminal as _};
use std::time::Duration;

use clap::Args;
use tokio::time::Instant;

use super::exit::{Exit, Failure};
use super::output::{self, line as print, note};
use super::place::Place;
use super::start;
use crate::cluster::{ApplyError, Cluster, Inventory, Manifest, NamespaceEnd, Preview, Waiting};
use crate::kinds::NAMESPACE;
use crate::words::counted;

const LOOK: Duration = Duration::from_secs(1);
/// A reason that stays is told again after this.
const REMIND: Duration = Duration::from_secs(30);

/// Arguments of `cluster prepare`.
#[derive(Clone, Debug, Args)]
pub struct PrepareArgs {
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Show what would be made, and make nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Give up after so many seconds of waiting; image pulls take their time
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub timeout: u64,
}

/// Arguments of `cluster remove`.
#[derive(Clone, Debug, Args)]
pub struct RemoveArgs {
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Show what would be deleted, and delete nothing
    #[arg(long)]
    pub dry_run: bool,
}

async fn cluster(place: &Place, command: &str) -> Result<Cluster, Failure> {
    let context = start::confirmed(&place.real).await?.ok_or_else(|| {
        Failure::usage(format!(
            "cluster {command} is for a real cluster: name one with --context NAME; the embedded one needs nothing"
        ))
    })?;
    Ok(Cluster::of_context(
        &context,
        NAMESPACE,
        place.real.options(None),
    ))
}

/// Shows what it will make, makes it once that is confirmed, and waits with reasons.
///
/// # Errors
/// No context, objects that are not eventlab's in the way, no answer.
pub async fn prepare(place: &Place, args: &PrepareArgs) -> Result<Exit, Failure> {
    let cluster = cluster(place, "prepare").await?;
    let manifests = ground(place)?;
    let mut changes = 0;
    for manifest in &manifests {
        let preview = cluster.preview(manifest).await.map_err(refused)?;
        changes += usize::from(preview != Preview::Same);
        show(manifest, &preview);
    }
    if args.dry_run {
        return Ok(Exit::Proven);
    }
    let question = format!(
        "Make {} in namespace {NAMESPACE} of context {}?",
        counted(changes, "object"),
        cluster.name()
    );
    if changes > 0 && !agreed(args.yes, &question)? {
        note!("Nothing was made.");
        return Ok(Exit::Proven);
    }
    for manifest in &manifests {
        let applied = cluster.apply(manifest).await.map_err(refused)?;
        note!("{}: {:?}", manifest.title(), applied.change);
    }
    wait(&cluster, Duration::from_secs(args.timeout)).await
}

/// What every lab stands on: the base of the first one.
fn ground(place: &Place) -> Result<Vec<Manifest>, Failure> {
    let catalog = place.catalog()?;
    let labs = catalog.labs();
    let files = labs
        .iter()
        .flat_map(|lab| &lab.stages)
        .map(|stage| &stage.apply)
        .find(|files| files.iter().any(|file| file.starts_with("base/")))
        .cloned()
        .unwrap_or_default();
    let mut manifests = Vec::new();
    for file in files.iter().filter(|file| file.starts_with("base/")) {
        let text = catalog.manifest(file).map_err(Failure::usage)?;
        manifests.extend(Manifest::read(file, text).map_err(Failure::usage)?);
    }
    Ok(manifests)
}

fn refused(error: ApplyError) -> Failure {
    Failure::environment(error)
}

fn show(manifest: &Manifest, preview: &Preview) {
    let title = manifest.title();
    match preview {
        Preview::Same => print(&format!("= {title}")),
        Preview::Create(yaml) => {
            print(&format!("+ {title}"));
            yaml.lines().for_each(|line| print(&format!("+   {line}")));
        }
        Preview::Change(diff) => {
            print(&format!("~ {title}"));
            diff.lines().for_each(|line| print(&format!("    {line}")));
        }
    }
}

/// A yes from the flag or the terminal; without a terminal the flag is needed.
pub(super) fn agreed(yes: bool, question: &str) -> Result<bool, Failure> {
    if yes {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(format!(
            "{question} There is no terminal to ask on: add --yes"
        )));
    }
    output::ask(&format!("{question} [y/N]"));
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Failure::environment(format!("cannot read the answer: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Waits until everything is ready; each reason is told when it comes up, and again when it stays.
async fn wait(cluster: &Cluster, patience: Duration) -> Result<Exit, Failure> {
    let (started, mut told, mut last): (_, Vec<Waiting>, _) =
        (Instant::now(), Vec::new(), Instant::now());
    loop {
        let waiting = cluster.waiting().await.map_err(Failure::environment)?;
        if waiting.is_empty() {
            note!("Ready after {} s.", started.elapsed().as_secs());
            return Ok(Exit::Proven);
        }
        if waiting != told || last.elapsed() > REMIND {
            for one in &waiting {
                note!("{:>4} s  waiting for {one}", started.elapsed().as_secs());
            }
            (told, last) = (waiting.clone(), Instant::now());
        }
        if started.elapsed() > patience {
            let reasons: Vec<String> = waiting.iter().map(ToString::to_string).collect();
            return Err(Failure::environment(format!(
                "not ready after {} s: {}; `{}` looks closer, and prepare goes on where it is",
                patience.as_secs(),
                reasons.join("; "),
                cluster.shown("eventlab doctor")
            )));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Names what carries eventlab's label in its namespace, and deletes that once it is confirmed.
///
/// # Errors
/// No context, no answer, something that does not go.
pub async fn remove(place: &Place, args: &RemoveArgs) -> Result<Exit, Failure> {
    let cluster = cluster(place, "remove").await?;
    let inventory = cluster.inventory().await.map_err(Failure::environment)?;
    list(&cluster, &inventory);
    let nothing = inventory.ours.is_empty() && !inventory.namespace_is_ours;
    if args.dry_run || nothing {
        return Ok(Exit::Proven);
    }
    let question = format!(
        "Delete {} of namespace {NAMESPACE} in context {}?",
        counted(inventory.ours.len(), "object"),
        cluster.name()
    );
    if !agreed(args.yes, &question)? {
        note!("Nothing was deleted.");
        return Ok(Exit::Proven);
    }
    for held in &inventory.ours {
        cluster
            .take_away(held)
            .await
            .map_err(Failure::environment)?;
        note!("{held}: deleted");
    }
    match cluster
        .take_namespace_away()
        .await
        .map_err(Failure::environment)?
    {
        NamespaceEnd::Deleted => note!("Namespace/{NAMESPACE}: deleted"),
        NamespaceEnd::Kept(reason) => note!("Namespace/{NAMESPACE}: kept, {reason}"),
    }
    Ok(Exit::Proven)
}

fn list(cluster: &Cluster, inventory: &Inventory) {
    for held in &inventory.ours {
        print(&format!("- {held}"));
    }
    if inventory.namespace_is_ours {
        print(&format!("- Namespace/{}", cluster.namespace()));
    }
    for foreign in &inventory.foreign {
        print(&format!("  {foreign} is not eventlab's and stays"));
    }
    for unseen in &inventory.unseen {
        print(&format!("  {unseen} could not be looked at"));
    }
    if inventory.ours.is_empty() {
        note!(
            "Nothing in namespace {} of context {} carries eventlab's label.",
            cluster.namespace(),
            cluster.name()
        );
    }
}
