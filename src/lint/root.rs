//! Names of files as other tools know them: from the directory that they are run in.

use std::path::{Component, Path, PathBuf};

/// The name of a file under a directory, from there; `None` for one that is elsewhere, or no file.
pub(super) fn inside(name: &str, root: &Path) -> Option<PathBuf> {
    let path = plain(&root.join(name));
    let inside = path.strip_prefix(plain(root)).ok()?;
    (name != "-").then(|| inside.to_owned())
}

/// A path without `.` and `..`.
pub(super) fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}
