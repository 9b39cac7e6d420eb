//! Folders and files that only the user of this program may read.

use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Makes `folder` and its parents with mode 0700; fine if it is there.
pub(super) fn make_private_folder(folder: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
}

/// Replaces the content of a file with mode 0600 in one step.
pub(super) fn write_private_file(path: &Path, content: &[u8]) -> io::Result<()> {
    use std::io::Write;
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let unfinished = path.with_file_name(name);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(&unfinished)?.write_all(content)?;
    std::fs::rename(&unfinished, path)
}
