//! Working copies are looked at before anything is applied: one that is no manifest starts nothing, so that nothing is
//! judged and no attempt is used up.

use std::path::Path;

use crate::cluster::Cluster;
use crate::session::{Message, SessionView, State};

/// Looks at what a message would have applied. Answers what is to be said all the same.
///
/// # Errors
/// A working copy is no manifest: why, and what to do.
pub fn vet(
    state: &State,
    message: &Message,
    dir: &Path,
    cluster: &Cluster,
) -> Result<Vec<String>, String> {
    let copies = SessionView::copies(dir);
    let mut notes = Vec::new();
    for file in state.would_apply(message) {
        let objects = match copies.objects(&file) {
            Ok(Some(objects)) => objects,
            Ok(None) => {
                notes.push(format!(
                    "there is no working copy of {file}: the lab's own text is applied"
                ));
                continue;
            }
            Err(error) if error.is_of_the_copy() => return Err(not_begun(&error.to_string())),
            // Not the learner's: the work itself meets it, and tells it.
            Err(_) => continue,
        };
        for object in &objects {
            cluster
                .vet(object)
                .map_err(|error| not_begun(&format!("{}: {error}", object.file)))?;
        }
    }
    Ok(notes)
}

fn not_begun(why: &str) -> String {
    format!("{why}. Nothing was applied, and nothing is judged")
}
