//! What is shown before an edited manifest is applied.

use super::app::{Overlay, before_applying, not_text, unreadable};
use super::manifest;
use super::replay::{self, Change, Replayed};
use crate::cluster::Manifest;
use crate::lab::Stage;
use crate::runner::applying;
use crate::runner::driver::{Driver, DriverError};
use crate::session::StagePhase;
use crate::words::counted;

/// The manifest that is to be looked at before Enter applies it: its working copy was edited, here or by another program.
/// The session is told of an edit that it does not know of.
///
/// # Errors
/// The session cannot be saved.
pub fn due(driver: &mut Driver) -> Result<Option<String>, DriverError> {
    let done = matches!(
        driver.state().phase(),
        StagePhase::Passed | StagePhase::Working { .. }
    );
    if done { Ok(None) } else { driver.edited() }
}

/// What is shown of a working copy: what applying it would do, or why it cannot be applied.
#[must_use]
pub fn of(driver: &Driver, file: &str) -> Overlay {
    let text = match driver.copy_text(file) {
        Ok(text) => text.unwrap_or_else(|| driver.original(file)),
        Err(error) => return not_text(file, &error.to_string()),
    };
    match manifest::check(file, &text) {
        Err((error, line)) => unreadable(file, &text, &error, line),
        Ok(edited) => overlay(driver, file, &text, &edited),
    }
}

/// What differs from what is applied, and the cells that would flip.
fn overlay(driver: &Driver, file: &str, text: &str, edited: &[Manifest]) -> Overlay {
    let mut lines = vec![match driver.applied_text(file) {
        Some(applied) if applied == text => "The same text is applied already.".to_owned(),
        Some(applied) => format!("{} against what is applied:", changes(&applied, text)),
        None => "Nothing of it is noted as applied.".to_owned(),
    }];
    lines.extend(replayed(driver, file, edited));
    let next = driver.state().footer().next;
    before_applying(file, lines, next.strip_prefix("again: ").unwrap_or(&next))
}

fn changes(old: &str, new: &str) -> String {
    let diff = similar::TextDiff::from_lines(old, new);
    let (mut added, mut removed) = (0, 0);
    for change in diff.iter_all_changes() {
        match change.tag() {
            similar::ChangeTag::Insert => added += 1,
            similar::ChangeTag::Delete => removed += 1,
            similar::ChangeTag::Equal => {}
        }
    }
    format!("{} more, {removed} less", counted(added, "line"))
}

/// The recorded probes under what is edited, in lines; what flips comes first.
fn replayed(driver: &Driver, file: &str, edited: &[Manifest]) -> Vec<String> {
    let original = Manifest::read(file, &driver.original(file)).unwrap_or_default();
    if let Some(misfit) = applying::misfit(file, &original, edited) {
        return vec![format!("It would be refused: {misfit}.")];
    }
    let state = driver.state();
    let recorded = replay::recorded(state);
    if recorded.is_empty() {
        return vec![
            "No probe of this lab was judged by a filter yet: nothing to replay.".to_owned(),
        ];
    }
    let event = state.lab().map(|lab| lab.event.clone()).unwrap_or_default();
    let now = jiff::Timestamp::now();
    match replay::replay(edited, &live(driver), &event, &recorded, now) {
        Err(error) => vec![error],
        Ok(mut answers) => {
            answers.sort_by_key(Replayed::change);
            std::iter::once(head(&answers))
                .chain(answers.iter().map(Replayed::line))
                .collect()
        }
    }
}

/// How many would be judged otherwise.
fn head(answers: &[Replayed]) -> String {
    let count = |change| answers.iter().filter(|one| one.change() == change).count();
    let all = counted(answers.len(), "recorded probe");
    let mut head = format!(
        "Of {all}, {} would be judged otherwise",
        count(Change::Flips)
    );
    match count(Change::Open) {
        0 => {}
        open => head.push_str(&format!(", {open} cannot be judged here (open)")),
    }
    match count(Change::Older) {
        0 => {}
        older => head.push_str(&format!(", {older} already are by what is applied (older)")),
    }
    head + ". Nothing was sent; only probes prove a filter."
}

/// The EventSources and Sensors that are live: of what the lab has applied up to here the last of each name.
fn live(driver: &Driver) -> Vec<Manifest> {
    let state = driver.state();
    let Some(lab) = state.lab() else {
        return Vec::new();
    };
    let begun = |stage: &Stage| {
        let kept = state.progress_here();
        kept.is_some_and(|kept| kept.runs.contains_key(&stage.name))
    };
    let mut found: Vec<Manifest> = Vec::new();
    for (index, stage) in lab.stages.iter().enumerate().take(state.stage_index() + 1) {
        let fix = stage.fix.iter().map(|fix| &fix.manifest);
        // What a stage edits is applied by its first go.
        let fix = fix.filter(|_| index < state.stage_index() || begun(stage));
        for file in stage.apply.iter().chain(fix) {
            let text = driver
                .applied_text(file)
                .unwrap_or_else(|| driver.original(file));
            if text.contains("EventSource") || text.contains("Sensor") {
                found.extend(Manifest::read(file, &text).unwrap_or_default());
            }
        }
    }
    found
}
