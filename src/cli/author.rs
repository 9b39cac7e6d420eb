//! `eventlab lab new` and `lab schema`: for authors of labs.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;

use super::exit::{Exit, Failure};
use super::output::{self, note};
use crate::lab::{schema, skeleton};

/// Arguments of `lab new`.
#[derive(Clone, Debug, Args)]
pub struct NewArgs {
    /// Name of the lab: lower-case letters, digits and dashes
    pub name: String,
    /// Folder of labs to write it into; it may hold others (default: a new folder of the lab's name)
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Writes a lab that runs and proves itself. No file that is there is touched.
///
/// # Errors
/// A name that cannot be one, a lab of that name in the folder, and a folder that cannot be written.
pub fn new(args: &NewArgs) -> Result<Exit, Failure> {
    let files = skeleton(&args.name).map_err(Failure::usage)?;
    let dir = args
        .dir
        .clone()
        .unwrap_or_else(|| PathBuf::from(&args.name));
    if let Some((file, _)) = files
        .iter()
        .find(|(file, _)| dir.join(file).symlink_metadata().is_ok())
    {
        return Err(Failure::usage(format!(
            "{} is there already, and nothing was written; choose another name or --dir",
            dir.join(file).display()
        )));
    }
    for (file, text) in &files {
        let path = dir.join(file);
        write_new(&path, text).map_err(|error| {
            Failure::environment(format!("cannot write {}: {error}", path.display()))
        })?;
        output::line(&path.display().to_string());
    }
    let (shown, name) = (dir.display(), &args.name);
    note!(
        "Prove it:  eventlab --labs {shown} lab test {name}\nPlay it:   eventlab --labs {shown} --session {name}"
    );
    Ok(Exit::Proven)
}

fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)?
        .write_all(text.as_bytes())
}

/// Prints the JSON Schema of lab files.
///
/// # Errors
/// None that a schema can have.
pub fn print_schema() -> Result<Exit, Failure> {
    let text = serde_json::to_string_pretty(&schema()).map_err(Failure::internal)?;
    output::line(&text);
    Ok(Exit::Proven)
}
