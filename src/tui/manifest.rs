//! What the manifest pane holds: the working copy, as a diff against the original where it was edited.

use std::path::Path;

use similar::TextDiff;

use crate::cluster::Manifest;
use crate::runner::driver::Driver;

/// Lines of the present stage's manifest.
#[must_use]
pub fn lines(driver: &Driver) -> Vec<String> {
    let state = driver.state();
    let Some(stage) = state.stage() else {
        return Vec::new();
    };
    if let Some(fix) = &stage.fix {
        let original = driver.original(&fix.manifest);
        let copy = driver
            .copy_text(&fix.manifest)
            .unwrap_or_else(|| original.clone());
        if state.revealed() {
            return titled(
                "reference solution against the working copy",
                &diff(&copy, &driver.original(&fix.solution)),
            );
        }
        if copy != original {
            return titled("working copy against the original", &diff(&original, &copy));
        }
        return titled("working copy, not edited yet (e)", &original);
    }
    let texts = stage.apply.iter().rev().map(|file| {
        format!(
            "# {file}\n{}",
            driver
                .copy_text(file)
                .unwrap_or_else(|| driver.original(file))
        )
    });
    texts
        .collect::<Vec<_>>()
        .join("\n")
        .lines()
        .map(str::to_owned)
        .collect()
}

fn titled(title: &str, text: &str) -> Vec<String> {
    std::iter::once(title.to_owned())
        .chain(text.lines().map(str::to_owned))
        .collect()
}

fn diff(old: &str, new: &str) -> String {
    if old == new {
        return "no difference".to_owned();
    }
    TextDiff::from_lines(old, new)
        .unified_diff()
        .context_radius(3)
        .to_string()
}

/// What is to be said of a saved working copy.
#[must_use]
pub fn check(file: &str, path: &Path) -> String {
    match std::fs::read_to_string(path) {
        Ok(text) => match Manifest::read(file, &text) {
            Ok(_) => "saved; Enter applies it".to_owned(),
            Err(error) => error.to_string(),
        },
        Err(error) => format!("cannot read {}: {error}", path.display()),
    }
}
