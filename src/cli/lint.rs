//! `eventlab lint`: hazards in Sensors, in files, directories and globs, and their fixes.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use jiff::Timestamp;

use super::exit::{Exit, Failure};
use super::output::{self, note};
use crate::lint::rule;
use crate::lint::{Input, NotRead, Options, Report, fix, lint, render, sarif};

/// Most bytes of a file that are read.
const MAX_INPUT: u64 = 16 << 20;
/// Deepest directory that is looked into.
const MAX_DEPTH: usize = 64;

const EXAMPLES: &str = "Examples:
  eventlab lint -f sensor.yaml
  eventlab lint -f deploy/ --deny bool-accepts-text
  kubectl get sensor orders -o yaml | eventlab lint -f -
  eventlab lint -f sensor.yaml --fix
  eventlab lint -f . --format sarif > eventlab.sarif
  eventlab lint --explain unescaped-dot

A comment `# eventlab: allow RULE` on the line, or on a line of its own before it, leaves a finding out.
EventSources, Roles and RoleBindings in the same files are taken into account.

Exit codes: 0 nothing worse than a note, 1 errors or warnings, 2 a bad file or argument.";

/// Arguments of `lint`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LintArgs {
    /// Manifest, directory (its *.yaml, *.yml and *.json) or glob; `-` reads stdin
    #[arg(short, long, value_name = "FILE", num_args = 1.., required_unless_present_any = ["list_rules", "explain"])]
    file: Vec<PathBuf>,
    /// Apply the fixes that cannot turn away what is accepted as intended
    #[arg(long)]
    fix: bool,
    /// Apply the suggested fixes, too; look at the difference before you apply it
    #[arg(long)]
    fix_suggested: bool,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// List the rules
    #[arg(long)]
    list_rules: bool,
    /// Explain a rule, with an example
    #[arg(long, value_name = "RULE")]
    explain: Option<String>,
    /// Count a rule's findings as errors (may be given several times)
    #[arg(long, value_name = "RULE")]
    deny: Vec<String>,
    /// Leave a rule's findings out (may be given several times)
    #[arg(long, value_name = "RULE")]
    allow: Vec<String>,
    /// The Sensors as they were before, to find what an edit leaves behind
    #[arg(long, value_name = "FILE")]
    previous: Vec<PathBuf>,
}

/// How findings are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object.
    Json,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// Annotations of GitHub Actions.
    Github,
}

/// Checks.
///
/// # Errors
/// A file that cannot be read or written, a rule that does not exist.
pub fn run(args: &LintArgs) -> Result<Exit, Failure> {
    if args.list_rules {
        print(&render::rules());
        return Ok(Exit::Proven);
    }
    if let Some(id) = &args.explain {
        let rule = rule::find(id).ok_or_else(|| unknown_rule(id))?;
        print(&render::explain(rule));
        return Ok(Exit::Proven);
    }
    let options = Options {
        allowed: rules(&args.allow)?,
        denied: rules(&args.deny)?,
    };
    let (mut inputs, unread) = inputs(&args.file)?;
    let previous = previous(&args.previous)?;
    let now = Timestamp::now();
    if args.fix || args.fix_suggested {
        mend(args, &mut inputs, &options, now)?;
        if inputs.iter().any(|input| input.name == "-") {
            // The mended text is the data then.
            for one in &unread {
                note!("{}: not read: {}", one.file, one.why);
            }
            let ended = ended(&lint(&inputs, &previous, &options, now));
            return Ok(if unread.is_empty() {
                ended
            } else {
                Exit::Usage
            });
        }
    }
    let mut report = lint(&inputs, &previous, &options, now);
    let blind = !unread.is_empty();
    report.not_read.extend(unread);
    print(&match args.format {
        Format::Text => render::text(&report),
        Format::Json => render::json(&report),
        Format::Sarif => sarif::sarif(&report, &inputs, &root()),
        Format::Github => render::github(&report, &root()),
    });
    if matches!(args.format, Format::Sarif | Format::Github) {
        for one in &report.not_read {
            note!("{}: not read: {}", one.file, one.why);
        }
        note!("{}", render::summary(&report));
    }
    Ok(if blind { Exit::Usage } else { ended(&report) })
}

/// The directory that the names of files are relative to.
fn root() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"))
}

fn ended(report: &Report) -> Exit {
    if report.fails() {
        Exit::NotProven
    } else {
        Exit::Proven
    }
}

fn print(text: &str) {
    output::raw(text.as_bytes());
}

fn unknown_rule(id: &str) -> Failure {
    let mut rules = rule::all();
    let near = rules.find(|rule| rule.id.contains(id) || id.contains(rule.id));
    let hint = near.map_or_else(
        || "`eventlab lint --list-rules` lists them".to_owned(),
        |rule| format!("did you mean {}?", rule.id),
    );
    Failure::usage(format!("no rule {id:?}; {hint}"))
}

fn rules(ids: &[String]) -> Result<BTreeSet<String>, Failure> {
    let known = |id: &str| rule::find(id).map(|rule| rule.id.to_owned());
    ids.iter()
        .flat_map(|ids| ids.split(','))
        .map(|id| known(id).ok_or_else(|| unknown_rule(id)))
        .collect()
}

/// The Sensors as they were: all of them, for one that is missing would seem to be new.
fn previous(files: &[PathBuf]) -> Result<Vec<Input>, Failure> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let (inputs, unread) = inputs(files)?;
    match unread.first() {
        Some(one) => Err(cannot_read(&one.file, &one.why)),
        None => Ok(inputs),
    }
}

/// What was found, and the directories that were not looked into.
#[derive(Default)]
struct Found {
    /// Files, and whether they were named themselves.
    files: Vec<(PathBuf, bool)>,
    links: Vec<PathBuf>,
    deep: Vec<PathBuf>,
}

impl Found {
    /// Says what was not looked into: no finding there means nothing.
    fn tell(&self) {
        for (what, directories) in [
            ("links to directories are not followed", &self.links),
            ("directories so deep are not looked into", &self.deep),
        ] {
            let Some(first) = directories.first() else {
                continue;
            };
            let more = match directories.len() {
                1 => String::new(),
                all => format!(" and {} more", all - 1),
            };
            note!(
                "{}{more}: {what}; name them with -f to check them",
                first.display()
            );
        }
    }
}

/// The files that are named, found in directories, or matched by globs, each once; and those among the found ones that
/// cannot be read.
fn inputs(files: &[PathBuf]) -> Result<(Vec<Input>, Vec<NotRead>), Failure> {
    let mut found = Found::default();
    for file in files {
        let text = file.to_string_lossy();
        if text == "-" || file.is_file() {
            found.files.push((file.clone(), true));
        } else if file.is_dir() {
            walk(file, 0, &mut found)?;
        } else if text.contains(['*', '?', '[']) {
            matched(&text, &mut found.files)?;
        } else {
            // Not a file, nor a directory: a pipe perhaps; else reading says what is wrong.
            found.files.push((file.clone(), true));
        }
    }
    found.tell();
    if found.files.is_empty() {
        return Err(Failure::usage(
            "no *.yaml, *.yml or *.json in what -f names; name a manifest or its directory",
        ));
    }
    let mut seen = BTreeSet::new();
    found.files.retain(|(file, _)| seen.insert(file.clone()));
    let (mut inputs, mut unread) = (Vec::new(), Vec::new());
    for (file, named) in found.files {
        let name = file.display().to_string();
        match read(&file) {
            // What should have written it has failed.
            Ok(text) if name == "-" && text.trim().is_empty() => {
                return Err(cannot_read("stdin", "it is empty"));
            }
            Ok(text) => inputs.push(Input { name, text, named }),
            Err(why) if named => return Err(cannot_read(&name, &why)),
            Err(why) => unread.push(NotRead { file: name, why }),
        }
    }
    Ok((inputs, unread))
}

fn is_manifest(file: &Path) -> bool {
    let extension = file.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("yaml" | "yml" | "json"))
}

fn walk(directory: &Path, depth: usize, found: &mut Found) -> Result<(), Failure> {
    if depth == MAX_DEPTH {
        found.deep.push(directory.to_owned());
        return Ok(());
    }
    let cannot = |error: std::io::Error| {
        Failure::usage(format!("cannot list {}: {error}", directory.display()))
    };
    let mut entries = std::fs::read_dir(directory)
        .map_err(cannot)?
        .collect::<Result<Vec<_>, _>>()
        .map_err(cannot)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if path.is_file() && is_manifest(&path) {
            found.files.push((path, false));
        } else if hidden {
            // As other tools do with what is hidden.
        } else if is_directory {
            walk(&path, depth + 1, found)?;
        } else if path.is_dir() {
            // A link to a directory may lead round in a circle.
            found.links.push(path);
        }
    }
    Ok(())
}

fn matched(pattern: &str, found: &mut Vec<(PathBuf, bool)>) -> Result<(), Failure> {
    let paths = glob::glob(pattern)
        .map_err(|error| Failure::usage(format!("{pattern:?} is no glob: {error}")))?;
    let before = found.len();
    for path in paths.flatten().filter(|path| path.is_file()) {
        found.push((path, false));
    }
    if found.len() == before {
        return Err(Failure::usage(format!("no file matches {pattern:?}")));
    }
    Ok(())
}

fn cannot_read(name: &str, why: &str) -> Failure {
    Failure::usage(format!("cannot read {name}: {why}"))
}

fn read(file: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let opened: Box<dyn std::io::Read> = if file == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(file).map_err(|error| error.to_string())?)
    };
    opened
        .take(MAX_INPUT + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_INPUT {
        return Err(format!("it has more than {MAX_INPUT} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8; save it as UTF-8".to_owned())
}

/// Applies fixes and writes what changed: files in place, stdin to stdout.
fn mend(
    args: &LintArgs,
    inputs: &mut [Input],
    options: &Options,
    now: Timestamp,
) -> Result<(), Failure> {
    for place in 0..inputs.len() {
        let fix::Mended {
            text,
            applied,
            left_alone,
        } = fix::apply(inputs, place, args.fix_suggested, options, now);
        let Some(input) = inputs.get_mut(place) else {
            continue;
        };
        if input.name == "-" {
            print(&text);
        } else if applied > 0 {
            replace(Path::new(&input.name), &text)?;
            note!("{}: {applied} fixed", input.name);
        }
        if let Some(why) = left_alone {
            note!(
                "{}: {} left alone: {why}; mend by hand what is still found",
                input.name,
                if applied > 0 { "the rest is" } else { "it is" }
            );
        }
        input.text = text;
    }
    Ok(())
}

/// Replaces a file as a whole: whoever reads it sees the old text or the new one. A link stays a link.
fn replace(file: &Path, text: &str) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| {
        Failure::environment(format!(
            "cannot write {}: {error}; it is as it was",
            file.display()
        ))
    };
    let real = std::fs::canonicalize(file).map_err(cannot)?;
    let directory = real.parent().unwrap_or(Path::new("."));
    let permissions = std::fs::metadata(&real).map_err(cannot)?.permissions();
    let mut new = tempfile::NamedTempFile::new_in(directory).map_err(cannot)?;
    new.write_all(text.as_bytes()).map_err(cannot)?;
    new.as_file().set_permissions(permissions).map_err(cannot)?;
    new.as_file().sync_all().map_err(cannot)?;
    new.persist(&real).map_err(|error| cannot(error.error))?;
    Ok(())
}
