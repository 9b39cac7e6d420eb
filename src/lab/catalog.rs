//! The labs and manifests that are compiled in, or those of a folder (`--labs DIR`).
//!
//! A folder holds `labs/*.yaml` and `manifests/`, or lab files beside `manifests/`; what it does not hold is taken from
//! the compiled-in set, so that an author's lab can use the base manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::bundled;
use super::faults::Faults;
use super::format::{Lab, Stage};
use super::lint;
use crate::cluster::Manifest;

/// A lab file or manifest may be this long.
const FILE_LIMIT: u64 = 1 << 20;

/// The course order of the twelve labs; a lab that is not there yet is listed as such.
pub const COURSE: [(&str, &str); 12] = [
    ("readiness", "Ready is not subscribed"),
    ("filter-path", "The path that is not there"),
    ("regex", "A pattern matches more than it says"),
    ("type", "What a typed filter accepts"),
    ("operator", "AND, OR and missing fields"),
    ("rbac", "Two identities, two missing rights"),
    ("duplicates", "Two requests, one order"),
    ("identity", "The choice of the business key"),
    ("claim", "The atomic claim under concurrency"),
    ("uncertain", "The outcome nobody saw"),
    ("retention", "How long a key must live"),
    ("incident", "Find the broken layer"),
];

/// The labs of the course `guide`, in order: one pipeline, broken six times.
pub const GUIDE: [&str; 6] = [
    "filter-path",
    "regex",
    "type",
    "operator",
    "rbac",
    "duplicates",
];

/// Why labs could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    #[error("cannot read {path}: {source}; check --labs")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path} is larger than {limit} bytes; split it")]
    TooLarge { path: PathBuf, limit: u64 },
    #[error("lab file {file}: {message}")]
    Format { file: String, message: String },
    #[error("lab file {file}: {}", findings.join("; "))]
    Lint { file: String, findings: Vec<String> },
    #[error("{first} and {second} are both labs named `{name}`; rename one")]
    TwiceNamed {
        name: String,
        first: String,
        second: String,
    },
    #[error(
        "{first} and {second} both have the event `{event}`; each lab needs one of its own, since consumers outlive Sensors"
    )]
    TwiceEvent {
        event: String,
        first: String,
        second: String,
    },
    #[error(
        "there are no lab files in {dir}: they are DIR/labs/*.yaml, `eventlab lab new NAME` writes one"
    )]
    Empty { dir: PathBuf },
    #[error("there is no lab named `{name}`; `eventlab list` names them")]
    Unknown { name: String },
    #[error("the lab `{name}` is not there yet; `eventlab list` shows which are")]
    NotYet { name: String },
    #[error("there is no manifest `{file}`; it must lie below manifests/")]
    NoManifest { file: String },
}

/// All labs with their manifests.
#[derive(Clone, Debug)]
pub struct Catalog {
    labs: Arc<[Lab]>,
    manifests: BTreeMap<String, String>,
    /// The lab files as they were read, by file name, in course order.
    files: Arc<[(String, Lab)]>,
    /// The manifests that were read, without those that were made for a fault.
    read: Arc<BTreeMap<String, String>>,
}

/// The seed of a catalog that was not asked for one.
const FIRST_SEED: u32 = 1;

impl Catalog {
    /// The labs that are compiled in.
    ///
    /// # Errors
    /// A bundled file that does not parse (a defect of the build).
    pub fn bundled() -> Result<Self, LabError> {
        Self::from_files(
            bundled::LABS
                .iter()
                .map(|(name, text)| ((*name).to_owned(), (*text).to_owned())),
            bundled_manifests(),
        )
    }

    /// The labs of a folder, over the compiled-in manifests.
    ///
    /// # Errors
    /// Unreadable or oversized files, and lab files that do not hold: with file, line and path where there is one.
    pub fn folder(dir: &Path) -> Result<Self, LabError> {
        let mut manifests = bundled_manifests();
        let manifest_dir = dir.join("manifests");
        for path in yaml_files(&manifest_dir)? {
            let name = relative_name(&manifest_dir, &path);
            manifests.insert(name, read_bounded(&path)?);
        }
        let lab_dir = if dir.join("labs").is_dir() {
            dir.join("labs")
        } else {
            dir.to_owned()
        };
        let mut files = Vec::new();
        for path in yaml_files(&lab_dir)? {
            if path.starts_with(&manifest_dir) {
                continue;
            }
            files.push((relative_name(&lab_dir, &path), read_bounded(&path)?));
        }
        if files.is_empty() {
            return Err(LabError::Empty {
                dir: dir.to_owned(),
            });
        }
        let catalog = Self::from_files(files.into_iter(), manifests)?;
        catalog.check_manifests()?;
        catalog.check_faults()?;
        Ok(catalog)
    }

    fn from_files(
        files: impl Iterator<Item = (String, String)>,
        manifests: BTreeMap<String, String>,
    ) -> Result<Self, LabError> {
        let mut read: Vec<(String, Lab)> = Vec::new();
        for (file, text) in files {
            let mut lab: Lab = serde_yaml::from_str(&text).map_err(|error| LabError::Format {
                file: file.clone(),
                message: error.to_string(),
            })?;
            lab.stages.iter_mut().for_each(Stage::expand_copies);
            lab.stages.iter_mut().for_each(Stage::mix_answers);
            refuse_twins(&read, &file, &lab)?;
            read.push((file, lab));
        }
        read.sort_by_key(|(_, lab)| (position(&lab.name, lab.intro), lab.name.clone()));
        let unseeded = Self {
            labs: Arc::new([]),
            manifests: BTreeMap::new(),
            files: read.into(),
            read: Arc::new(manifests),
        };
        unseeded.seeded(&|_| FIRST_SEED)
    }

    /// The same labs, with the faults that these seeds draw.
    ///
    /// # Errors
    /// A lab that does not hold with its fault.
    pub fn seeded(&self, seed_of: &dyn Fn(&str) -> u32) -> Result<Self, LabError> {
        let mut labs = Vec::new();
        let mut manifests = (*self.read).clone();
        for (file, lab) in &*self.files {
            let (lab, made) = self.drawn(file, lab, seed_of(&lab.name))?;
            labs.push(lab);
            manifests.extend(made);
        }
        Ok(Self {
            labs: labs.into(),
            manifests,
            files: Arc::clone(&self.files),
            read: Arc::clone(&self.read),
        })
    }

    /// A lab with the fault of a seed, if it draws one; it holds then.
    fn drawn(
        &self,
        file: &str,
        lab: &Lab,
        seed: u32,
    ) -> Result<(Lab, Vec<(String, String)>), LabError> {
        let refused = |findings: Vec<String>| LabError::Lint {
            file: file.to_owned(),
            findings,
        };
        let (lab, made) =
            Faults::draw(lab, seed, &self.read).map_err(|text| refused(vec![text]))?;
        let findings = if made.is_empty() {
            lint::lint(&lab, &self.read)
        } else {
            let mut all = (*self.read).clone();
            all.extend(made.iter().cloned());
            lint::lint(&lab, &all)
        };
        if findings.is_empty() {
            Ok((lab, made))
        } else {
            Err(refused(findings))
        }
    }

    /// Whether every fault of every lab holds, drawn or not.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check_faults(&self) -> Result<(), LabError> {
        for (file, lab) in &*self.files {
            for (seed, _) in lab.faults.iter().flat_map(Faults::seeds) {
                self.drawn(file, lab, seed)?;
            }
        }
        Ok(())
    }

    /// Whether the manifests that stages apply, and the solutions, are manifests at all.
    fn check_manifests(&self) -> Result<(), LabError> {
        for (file, lab) in &*self.files {
            let mut findings = BTreeSet::new();
            let solutions = lab.stages.iter().filter_map(|stage| stage.fix.as_ref());
            let applied = lab.stages.iter().flat_map(|stage| &stage.apply);
            for manifest in applied.chain(solutions.map(|fix| &fix.solution)) {
                if let Some(text) = self.read.get(manifest)
                    && let Err(error) = Manifest::read(&format!("manifest {manifest}"), text)
                {
                    findings.insert(error.to_string());
                }
            }
            if !findings.is_empty() {
                return Err(LabError::Lint {
                    file: file.clone(),
                    findings: findings.into_iter().collect(),
                });
            }
        }
        Ok(())
    }

    /// The labs in course order, the intro first.
    #[must_use]
    pub fn labs(&self) -> Arc<[Lab]> {
        Arc::clone(&self.labs)
    }

    /// A lab by name.
    ///
    /// # Errors
    /// [`LabError::NotYet`] for a lab of the course that is not there yet, [`LabError::Unknown`] for any other name.
    pub fn lab(&self, name: &str) -> Result<&Lab, LabError> {
        if let Some(lab) = self.labs.iter().find(|lab| lab.name == name) {
            return Ok(lab);
        }
        let name = name.to_owned();
        if COURSE.iter().any(|(known, _)| *known == name) {
            Err(LabError::NotYet { name })
        } else {
            Err(LabError::Unknown { name })
        }
    }

    /// The same labs with another text for one manifest, whatever is drawn of them later.
    #[must_use]
    pub fn with_manifest(mut self, file: &str, text: String) -> Self {
        Arc::make_mut(&mut self.read).insert(file.to_owned(), text.clone());
        self.manifests.insert(file.to_owned(), text);
        self
    }

    /// The text of a manifest.
    ///
    /// # Errors
    /// [`LabError::NoManifest`].
    pub fn manifest(&self, file: &str) -> Result<&str, LabError> {
        self.manifests
            .get(file)
            .map(String::as_str)
            .ok_or_else(|| LabError::NoManifest {
                file: file.to_owned(),
            })
    }
}

/// Two labs of one name, or on one event, would take each other's evidence.
fn refuse_twins(read: &[(String, Lab)], file: &str, lab: &Lab) -> Result<(), LabError> {
    for (other, known) in read {
        let (first, second) = (other.clone(), file.to_owned());
        if known.name == lab.name {
            return Err(LabError::TwiceNamed {
                name: lab.name.clone(),
                first,
                second,
            });
        }
        if known.event == lab.event {
            return Err(LabError::TwiceEvent {
                event: lab.event.clone(),
                first,
                second,
            });
        }
    }
    Ok(())
}

fn position(name: &str, intro: bool) -> usize {
    if intro {
        return 0;
    }
    COURSE
        .iter()
        .position(|(known, _)| *known == name)
        .map_or(COURSE.len() + 1, |index| index + 1)
}

fn bundled_manifests() -> BTreeMap<String, String> {
    bundled::MANIFESTS
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect()
}

fn relative_name(base: &Path, path: &Path) -> String {
    path.strip_prefix(base)
        .unwrap_or(path)
        .to_string_lossy()
        .replace('\\', "/")
}

fn read_bounded(path: &Path) -> Result<String, LabError> {
    let read = |source| LabError::Read {
        path: path.to_owned(),
        source,
    };
    if std::fs::metadata(path).map_err(read)?.len() > FILE_LIMIT {
        return Err(LabError::TooLarge {
            path: path.to_owned(),
            limit: FILE_LIMIT,
        });
    }
    std::fs::read_to_string(path).map_err(read)
}

/// YAML files of a folder and its folders, sorted; links are not followed.
fn yaml_files(dir: &Path) -> Result<Vec<PathBuf>, LabError> {
    let mut files = Vec::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(dir) = pending.pop() {
        let entries = match std::fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error)
                if error.kind() == std::io::ErrorKind::NotFound && dir.ends_with("manifests") =>
            {
                continue;
            }
            Err(source) => return Err(LabError::Read { path: dir, source }),
        };
        for entry in entries {
            let entry = entry.map_err(|source| LabError::Read {
                path: dir.clone(),
                source,
            })?;
            let kind = entry.file_type().map_err(|source| LabError::Read {
                path: entry.path(),
                source,
            })?;
            let path = entry.path();
            if kind.is_dir() {
                pending.push(path);
            } else if kind.is_file()
                && path
                    .extension()
                    .is_some_and(|extension| extension == "yaml" || extension == "yml")
            {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_text_of_a_manifest_stays_whatever_is_drawn() {
        let (file, text) = ("base/eventbus.yaml", "# another bus\n");
        let catalog = Catalog::bundled().expect("labs");
        assert_ne!(catalog.manifest(file).expect("a manifest"), text);
        let other = catalog.with_manifest(file, text.to_owned());
        assert_eq!(other.manifest(file).expect("a manifest"), text);
        let drawn = other.seeded(&|_| 7).expect("labs");
        assert_eq!(drawn.manifest(file).expect("a manifest"), text);
    }
}
