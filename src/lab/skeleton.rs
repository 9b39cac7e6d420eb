//! The files of a new lab: a small one that runs and proves itself, for an author to change.

use super::catalog::COURSE;
use super::lint::is_label;

/// What stands for the lab's name in the files.
const PLACE: &str = "NAME";

const FILES: [(&str, &str); 5] = [
    ("labs/NAME.yaml", include_str!("skeleton/lab.yaml")),
    (
        "manifests/NAME/eventsource.yaml",
        include_str!("skeleton/eventsource.yaml"),
    ),
    (
        "manifests/NAME/sensor.yaml",
        include_str!("skeleton/sensor.yaml"),
    ),
    (
        "manifests/NAME/solution.yaml",
        include_str!("skeleton/solution.yaml"),
    ),
    (
        "manifests/NAME/wrong-no-filter.yaml",
        include_str!("skeleton/wrong-no-filter.yaml"),
    ),
];

/// Path below the author's folder and text of each file of a new lab.
///
/// # Errors
/// A name that cannot be one of a lab, with what it may be.
pub fn skeleton(name: &str) -> Result<Vec<(String, String)>, String> {
    if !is_label(name) {
        return Err(format!(
            "`{name}` cannot name a lab: lower-case letters, digits and dashes, at most 40, beginning and ending without a dash"
        ));
    }
    let taken = COURSE.iter().any(|(known, _)| *known == name);
    if taken || matches!(name, "base" | "guide" | "matrix" | "first-order") {
        return Err(format!(
            "`{name}` is a name of eventlab's own course; choose another"
        ));
    }
    let fill = |text: &str| text.replace(PLACE, name);
    Ok(FILES
        .iter()
        .map(|(path, text)| (fill(path), fill(text)))
        .collect())
}
