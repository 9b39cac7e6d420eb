//! Where a file that somebody named is to be written: links are followed, and nothing but a regular file is replaced.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use super::exit::Failure;

/// Links that are followed; the system gives up at about as many.
const LINKS: usize = 40;

/// A place to write to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A regular file, there or not: it may be replaced as a whole.
    File(PathBuf),
    /// A pipe or a character device: it is written into.
    Stream(PathBuf),
}

/// What stands behind a name.
///
/// # Errors
/// A folder, a disk or a socket, into which no file is written, and links without an end.
pub fn of(named: &Path) -> Result<Target, Failure> {
    let refused = |what: &str| {
        Failure::usage(format!(
            "{} is {what}, and was left as it is; name a file",
            named.display()
        ))
    };
    let mut path = named.to_owned();
    // What stands behind /dev/stdout has no name of its own.
    if let Ok(kind) = fs::metadata(&path).map(|found| found.file_type()) {
        if kind.is_fifo() || kind.is_char_device() {
            return Ok(Target::Stream(path));
        }
        if !kind.is_file() {
            return Err(refused(match kind {
                kind if kind.is_dir() => "a folder",
                kind if kind.is_socket() => "a socket",
                _ => "a disk",
            }));
        }
    }
    for _ in 0..LINKS {
        let Ok(next) = fs::read_link(&path) else {
            return Ok(Target::File(path));
        };
        path = path.parent().unwrap_or(Path::new("")).join(next);
    }
    Err(refused("a link that leads nowhere"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn links_are_followed_to_what_is_there_or_will_be() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("below")).unwrap();
        fs::write(at("below/there"), "").unwrap();
        symlink("below/there", at("link")).unwrap();
        symlink("link", at("link-to-link")).unwrap();
        symlink("below/not-yet", at("dangling")).unwrap();
        symlink("round", at("round")).unwrap();
        for (name, real) in [
            ("below/there", "below/there"),
            ("new", "new"),
            ("link", "below/there"),
            ("link-to-link", "below/there"),
            ("dangling", "below/not-yet"),
        ] {
            assert_eq!(of(&at(name)).unwrap(), Target::File(at(real)), "{name}");
        }
        let round = of(&at("round")).unwrap_err();
        assert_eq!(round.exit.code(), 2, "{}", round.message);
    }

    #[test]
    fn what_is_no_regular_file_is_written_into_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let _socket = UnixListener::bind(at("socket")).unwrap();
        symlink("/dev/null", at("null")).unwrap();
        assert_eq!(
            of(Path::new("/dev/null")).unwrap(),
            Target::Stream("/dev/null".into())
        );
        assert_eq!(of(&at("null")).unwrap(), Target::Stream(at("null")));
        for named in [dir.path().to_owned(), at("socket")] {
            let refused = of(&named).unwrap_err();
            assert_eq!(refused.exit.code(), 2, "{}", refused.message);
        }
    }
}
