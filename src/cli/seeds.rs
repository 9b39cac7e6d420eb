//! Seeds of labs that draw a fault: given, kept by the session, or drawn here.

use std::path::Path;

use jiff::Timestamp;

use super::exit::Failure;
use crate::lab::Catalog;
use crate::session::{Checkpoint, SessionFiles};

/// Drawn seeds are short enough to be told to somebody.
const LARGEST_DRAWN: u128 = 9999;

/// A seed of the command line.
pub fn parse(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| "a whole number from 0 to 4294967295".to_owned())
}

/// A seed of its own.
#[must_use]
pub fn random() -> u32 {
    let number = uuid::Uuid::new_v4().as_u128() % LARGEST_DRAWN + 1;
    u32::try_from(number).unwrap_or(1)
}

/// The labs with the seeds of a session: the asked one, else the kept one, else any.
///
/// # Errors
/// A lab that was begun with another seed than the asked one.
pub fn seeded(
    catalog: &Catalog,
    checkpoint: Option<&Checkpoint>,
    asked: Option<u32>,
) -> Result<Catalog, Failure> {
    let kept = |lab: &str| checkpoint?.seeds.get(lab).copied();
    let begun = |lab: &str| {
        checkpoint
            .and_then(|checkpoint| checkpoint.labs.get(lab))
            .is_some_and(|lab| !lab.runs.is_empty() || !lab.passed.is_empty())
    };
    for lab in catalog.labs().iter().filter(|lab| lab.faults.is_some()) {
        if let (Some(asked), Some(kept)) = (asked, kept(&lab.name))
            && asked != kept
            && begun(&lab.name)
        {
            return Err(Failure::usage(format!(
                "the session is in `{0}` with seed {kept}; `eventlab reset {0} --seed {asked}` starts the other one",
                lab.name
            )));
        }
    }
    let any = random();
    catalog
        .seeded(&|lab| asked.or_else(|| kept(lab)).unwrap_or(any))
        .map_err(Failure::usage)
}

/// Gives a lab that nothing is done of another seed.
///
/// # Errors
/// The session is held by somebody else, or its checkpoint cannot be written.
pub fn draw_anew(folder: &Path, lab: &str, seed: u32) -> Result<(), Failure> {
    let mut opened = SessionFiles::open(folder, Timestamp::now()).map_err(Failure::environment)?;
    let Some(mut checkpoint) = opened.checkpoint.take() else {
        return Ok(());
    };
    checkpoint.seeds.insert(lab.to_owned(), seed);
    opened
        .files
        .checkpoint(&checkpoint)
        .map_err(Failure::environment)
}
