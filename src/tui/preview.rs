//! What is shown before an edited manifest is applied.

use super::app::Overlay;
use super::replay::{self, Replayed};
use crate::cluster::Manifest;
use crate::runner::driver::Driver;

pub use super::app::unreadable;

/// The overlay for a working copy that can be read: what differs from what is applied, and the cells that would flip.
#[must_use]
pub fn overlay(driver: &Driver, file: &str, text: &str, edited: &[Manifest]) -> Overlay {
    let mut lines = vec![match driver.applied_text(file) {
        Some(applied) if applied == text => "The same text is applied already.".to_owned(),
        Some(applied) => format!("{} against what is applied:", changes(&applied, text)),
        None => "It was not applied before.".to_owned(),
    }];
    lines.extend(replayed(driver, edited));
    let next = driver.state().footer().next;
    super::app::before_applying(file, lines, &next)
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
    format!("{added} lines more, {removed} lines less")
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
    let sources = sources(driver);
    let now = jiff::Timestamp::now();
    match replay::replay(edited, &sources, &event, &recorded, now) {
        Err(error) => vec![error],
        Ok(mut answers) => {
            let flips = answers.iter().filter(|one| one.flips()).count();
            answers.sort_by_key(|one| !one.flips());
            let head = format!(
                "Of {} recorded probes, {flips} would be judged otherwise. Nothing was sent; only probes prove a filter.",
                answers.len()
            );
            std::iter::once(head)
                .chain(answers.iter().map(Replayed::line))
                .collect()
        }
    }
}

/// The EventSources that the lab applies.
fn sources(driver: &Driver) -> Vec<Manifest> {
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
        let text = driver
            .copy_text(file)
            .filter(|_| state.uses_working_copy(file))
            .unwrap_or_else(|| driver.original(file));
        if text.contains("EventSource") {
            found.extend(Manifest::read(file, &text).unwrap_or_default());
        }
    }
    found
}
