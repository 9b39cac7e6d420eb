//! A few files in a compressed tar archive, written and read in memory. Only [`super`] calls this.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Component, Path};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use tar::{Archive, Builder, EntryType, Header};

use super::BundleError;

/// How much of an archive is read.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of everything in it, unpacked.
    pub bytes: u64,
    pub files: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 256 << 20,
            files: 4096,
        }
    }
}

/// Writes files in this order, each readable by its owner only.
pub(super) fn write(
    files: &[(String, Vec<u8>)],
    made: Timestamp,
    writer: impl Write,
) -> io::Result<()> {
    let mut archive = Builder::new(GzEncoder::new(writer, Compression::default()));
    for (name, bytes) in files {
        let mut header = Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(u64::try_from(made.as_second()).unwrap_or(0));
        archive.append_data(&mut header, name, bytes.as_slice())?;
    }
    archive.into_inner()?.finish()?.flush()
}

/// Reads all files by name.
pub(super) fn read(
    reader: impl Read,
    limits: Limits,
) -> Result<BTreeMap<String, Vec<u8>>, BundleError> {
    // One byte more than allowed tells a bundle that is too large from one that just fits.
    let bounded = GzDecoder::new(reader).take(limits.bytes.saturating_add(1));
    let mut archive = Archive::new(bounded);
    let mut files = BTreeMap::new();
    let mut left = limits.bytes;
    for entry in archive.entries().map_err(BundleError::Read)? {
        let mut entry = entry.map_err(BundleError::Read)?;
        if files.len() >= limits.files {
            return Err(BundleError::Refused(format!(
                "it has more than {} files",
                limits.files
            )));
        }
        let name = name_of(&entry)?;
        if entry.size() > left {
            return Err(too_large(limits));
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(BundleError::Read)?;
        left = left.saturating_sub(bytes.len() as u64);
        if files.insert(name.clone(), bytes).is_some() {
            return Err(BundleError::Refused(format!("{name} is in it twice")));
        }
    }
    Ok(files)
}

fn too_large(limits: Limits) -> BundleError {
    BundleError::Refused(format!(
        "unpacked it is larger than {} MiB",
        limits.bytes >> 20
    ))
}

/// The name of an ordinary file below the bundle's root.
fn name_of<R: Read>(entry: &tar::Entry<'_, R>) -> Result<String, BundleError> {
    let path = entry.path().map_err(BundleError::Read)?;
    let shown = path.to_string_lossy().escape_debug().to_string();
    if entry.header().entry_type() != EntryType::Regular {
        return Err(BundleError::Refused(format!("{shown} is not a file")));
    }
    let inside = |path: &Path| {
        path.components()
            .all(|part| matches!(part, Component::Normal(_)))
    };
    match path.to_str() {
        Some(name)
            if !name.is_empty()
                && name.len() <= 512
                && !name.chars().any(char::is_control)
                && inside(&path) =>
        {
            Ok(name.to_owned())
        }
        _ => Err(BundleError::Refused(format!(
            "the path {shown} leads out of it"
        ))),
    }
}
