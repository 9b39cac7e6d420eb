//! What is shown before an edited manifest is applied.

use super::app::{Overlay, before_applying, not_text, unreadable};
use super::manifest;
use super::replay::{self, Replayed};
use crate::cluster::Manifest;
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
        None => "It was not applied before.".to_owned(),
    }];
    lines.extend(replayed(driver, edited));
    let next = driver.state().footer().next;
    before_applying(file, lines, &next)
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

/// The recorded probes under the edited Sensor, in lines; what flips comes first.
fn replayed(driver: &Driver, edited: &[Manifest]) -> Vec<String> {
    let state = driver.state();
    let recorded = replay::recorded(state);
    if recorded.is_empty() {
        return vec![
            "No probe of this lab was judged by a filter yet: nothing to replay.".to_owned(),
        ];
    }
    let event = state.lab().map(|lab| lab.event.clone()).unwrap_or_default();
    let now = jiff::Timestamp::now();
    let answers = sources(driver)
        .and_then(|sources| replay::replay(edited, &sources, &event, &recorded, now));
    match answers {
        Err(error) => vec![error],
        Ok(mut answers) => {
            let flips = answers.iter().filter(|one| one.flips()).count();
            answers.sort_by_key(|one| !one.flips());
            let head = format!(
                "Of {}, {flips} would be judged otherwise. Nothing was sent; only probes prove a filter.",
                counted(answers.len(), "recorded probe")
            );
            std::iter::once(head)
                .chain(answers.iter().map(Replayed::line))
                .collect()
        }
    }
}

/// The EventSources that the lab applies.
fn sources(driver: &Driver) -> Result<Vec<Manifest>, String> {
    let state = driver.state();
    let files = state
        .lab()
        .into_iter()
        .flat_map(|lab| &lab.stages)
        .flat_map(|stage| &stage.apply);
    let mut seen: Vec<&String> = Vec::new();
    let mut found = Vec::new();
    for file in files {
        if seen.contains(&file) {
            continue;
        }
        seen.push(file);
        let copy = if state.uses_working_copy(file) {
            driver
                .copy_text(file)
                .map_err(|error| format!("No probe is replayed: {error}."))?
        } else {
            None
        };
        let text = copy.unwrap_or_else(|| driver.original(file));
        if text.contains("EventSource") {
            found.extend(Manifest::read(file, &text).unwrap_or_default());
        }
    }
    Ok(found)
}
