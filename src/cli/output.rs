//! The one place where commands write: data to stdout, talk to stderr.
//!
//! A write that fails does not end the work, which has a session to leave in order. The first error is kept, and
//! [`ended`] makes it the program's end: data that did not arrive is never an exit 0.

use std::io::{self, ErrorKind, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::exit::{Exit, Failure};

/// The first error of stdout. The stream is the process's, and so is what became of it.
static BROKEN: Mutex<Option<(ErrorKind, String)>> = Mutex::new(None);

fn broken() -> MutexGuard<'static, Option<(ErrorKind, String)>> {
    BROKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Standard output. What it does not take is remembered; nothing is written after that.
#[derive(Debug)]
pub struct Stdout;

impl Stdout {
    fn done<T>(result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result
            && error.kind() != ErrorKind::Interrupted
        {
            broken().get_or_insert_with(|| (error.kind(), error.to_string()));
        }
        result
    }

    fn is_usable() -> io::Result<()> {
        match broken().as_ref() {
            Some((kind, why)) => Err(io::Error::new(*kind, why.clone())),
            None => Ok(()),
        }
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Stdout::is_usable()?;
        Stdout::done(io::stdout().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Stdout::is_usable()?;
        Stdout::done(io::stdout().flush())
    }
}

/// `eprintln!` that bears with a stderr that takes nothing.
macro_rules! note {
    ($($text:tt)*) => {
        $crate::cli::output::talk(&format!($($text)*))
    };
}
pub(super) use note;

/// Prints a line of data.
pub fn line(text: &str) {
    raw(format!("{text}\n").as_bytes());
}

/// Prints data as it is.
pub fn raw(bytes: &[u8]) {
    // What became of it is kept for the end.
    let _ = Stdout.write_all(bytes);
}

/// Says something beside the data, to whoever is there: after a hang-up nobody is.
pub fn talk(text: &str) {
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Asks something on stderr; the answer stands in the same line.
pub fn ask(question: &str) {
    let _ = io::stderr().write_all(format!("{question} ").as_bytes());
}

/// Keeps what a library's own printing came to.
pub fn keep(printed: io::Result<()>) {
    // Nothing is there to be handed on: it is kept.
    let _ = Stdout::done(printed);
}

/// Flushes stdout and answers how the program ends: where data did not arrive, not as if it had. A reader that went away
/// has what it wanted.
pub fn ended(result: Result<Exit, Failure>) -> Result<Exit, Failure> {
    match (result, undelivered()) {
        (Ok(Exit::Proven | Exit::NotProven), Some(why)) => Err(Failure::environment(why)),
        (Err(mut failure), Some(why)) => {
            failure.message = format!("{}\neventlab: {why}", failure.message);
            Err(failure)
        }
        (Ok(exit), Some(why)) => {
            note!("eventlab: {why}");
            Ok(exit)
        }
        (result, None) => result,
    }
}

/// Says whether stdout takes nothing any more, so that what goes on for ever may end.
pub fn is_gone() -> bool {
    // What it came to is kept, as of every write.
    let _ = Stdout.flush();
    broken().is_some() || nobody_reads()
}

/// Says whether stdout is a pipe or a terminal whose other end was closed: that is known before anything is written.
fn nobody_reads() -> bool {
    let stdout = io::stdout();
    let mut looked = [PollFd::new(&stdout, PollFlags::empty())];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let gone = PollFlags::ERR | PollFlags::HUP;
    poll(&mut looked, Some(&at_once)).is_ok() && looked[0].revents().intersects(gone)
}

/// Flushes stdout, and answers why it did not take what was written.
pub fn undelivered() -> Option<String> {
    // What it came to is kept, as of every write.
    let _ = Stdout.flush();
    match broken().as_ref() {
        None | Some((ErrorKind::BrokenPipe, _)) => None,
        Some((kind, why)) => Some(format!(
            "cannot write to standard output: {why}; {}",
            match kind {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge =>
                    "free some space, or redirect it elsewhere",
                _ => "redirect it elsewhere",
            }
        )),
    }
}
