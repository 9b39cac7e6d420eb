//! Labs of which one thing is broken, drawn by a seed: from the list of faults to a lab like any other.
//!
//! [`Faults::draw`] puts the drawn fault into the stages: the broken manifest, its hints and wrong fixes, the causes of the
//! report. Nothing above the lab's files knows that anything was drawn.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::format::{Cause, Drawn, Failure, Lab, ReportTask, WrongFix};
use crate::evidence::Layer;

/// Stands for the seed in a lab's texts.
const SEED: &str = "{{seed}}";
/// Stands for the answer in a debrief: what was broken, and what shows it.
const TRUTH: &str = "{{truth}}";
/// So many causes are offered besides the right one.
const OTHER_CAUSES: usize = 6;

/// A manifest that is made for a fault: its name and its text.
pub type Made = (String, String);

/// Things of which one is broken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Faults {
    /// The manifest without a fault, below `manifests/`: the reference solution of every one.
    pub healthy: String,
    /// The name under which stages apply and fix it with the drawn fault; there is no such file.
    pub broken: String,
    pub list: Vec<Fault>,
}

/// One thing that can be broken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub name: String,
    /// The layer at fault, which the learner's report must name.
    pub layer: Layer,
    /// What is different from the healthy manifest.
    pub changes: Vec<Change>,
    /// How the fix stage fails while nothing is fixed.
    pub fails: Failure,
    /// The probe of the report, where it is another than the report stage says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<String>,
    /// The cause, as the report offers it.
    pub cause: String,
    /// What would be seen if it were this; told to who claims it wrongly, and in the debrief.
    pub shows: String,
    pub hints: Vec<String>,
    /// Fixes of this fault that must fail; that nothing was fixed is always one of them.
    #[serde(default)]
    pub wrong: Vec<FaultWrongFix>,
}

/// A change of a manifest's text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Must be in the text exactly once.
    pub replace: String,
    pub with: String,
}

/// A fix of a fault that must fail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FaultWrongFix {
    pub name: String,
    /// Why it is wrong, shown to an author.
    pub why: String,
    /// What it changes in the broken manifest.
    pub changes: Vec<Change>,
    pub fails: Failure,
}

/// Changes a text.
///
/// # Errors
/// A passage that is not there, or more than once.
fn changed(text: &str, changes: &[Change]) -> Result<String, String> {
    let mut text = text.to_owned();
    for change in changes {
        match text.matches(&change.replace).count() {
            1 => text = text.replacen(&change.replace, &change.with, 1),
            count => {
                return Err(format!(
                    "`replace: {:?}` is {count} times in the manifest, and must be there once",
                    change.replace
                ));
            }
        }
    }
    Ok(text)
}

/// Spreads neighbouring seeds (the finalizer of SplitMix64).
fn mixed(seed: u64) -> u64 {
    let mut value = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A position below `length`; 0 for an empty list.
fn drawn_position(seed: u64, length: usize) -> usize {
    let length = u64::try_from(length.max(1)).unwrap_or(1);
    usize::try_from(mixed(seed) % length).unwrap_or(0)
}

impl Faults {
    /// The fault of a seed: the one whose name and seed give the largest number (rendezvous hashing). A fault that is added
    /// takes its share of the seeds, one that is taken away gives its own up, and all others draw what they drew before.
    #[must_use]
    pub fn of_seed(&self, seed: u32) -> Option<&Fault> {
        let weight = |fault: &Fault| mixed(name_number(&fault.name) ^ mixed(u64::from(seed)));
        self.list
            .iter()
            .max_by(|one, other| (weight(one), &one.name).cmp(&(weight(other), &other.name)))
    }

    /// The smallest seed from 1 of each fault, in the order of the list.
    #[must_use]
    pub fn seeds(&self) -> Vec<(u32, &str)> {
        let mut found: BTreeMap<&str, u32> = BTreeMap::new();
        // Each fault has its seed long before this, as long as there are at most a few hundred.
        for seed in 1..=100_000 {
            if found.len() == self.list.len() {
                break;
            }
            if let Some(fault) = self.of_seed(seed) {
                found.entry(fault.name.as_str()).or_insert(seed);
            }
        }
        self.list
            .iter()
            .filter_map(|fault| Some((*found.get(fault.name.as_str())?, fault.name.as_str())))
            .collect()
    }

    /// The lab with the fault of a seed, and the manifests that are made for it.
    ///
    /// # Errors
    /// What does not hold in the lab's list of faults.
    pub fn draw(
        lab: &Lab,
        seed: u32,
        manifests: &BTreeMap<String, String>,
    ) -> Result<(Lab, Vec<Made>), String> {
        let Some(faults) = &lab.faults else {
            return Ok((lab.clone(), Vec::new()));
        };
        let Some(fault) = faults.of_seed(seed) else {
            return Err("`faults` needs a `list`".to_owned());
        };
        faults
            .put(lab, fault, seed, manifests)
            .map_err(|text| format!("fault `{}`: {text}", fault.name))
    }

    fn put(
        &self,
        lab: &Lab,
        fault: &Fault,
        seed: u32,
        manifests: &BTreeMap<String, String>,
    ) -> Result<(Lab, Vec<Made>), String> {
        let healthy = manifests
            .get(&self.healthy)
            .ok_or_else(|| format!("there is no manifest `{}`", self.healthy))?;
        let broken = changed(healthy, &fault.changes)?;
        let (wrong, mut made) = self.wrong_fixes(fault, &broken)?;
        made.push((self.broken.clone(), broken));
        if let Some((file, _)) = made.iter().find(|(file, _)| manifests.contains_key(file)) {
            return Err(format!(
                "`{file}` is made from the fault, and there is a manifest of that name"
            ));
        }
        let mut lab = lab.clone();
        let truth = format!("{} {}", fault.cause, fault.shows);
        let fill = |text: &str| text.replace(SEED, &seed.to_string());
        lab.title = fill(&lab.title);
        for stage in &mut lab.stages {
            stage.title = fill(&stage.title);
            stage.text = fill(&stage.text).replace(TRUTH, &truth);
            if let Some(fix) = &mut stage.fix
                && fix.manifest == self.broken
            {
                fix.hints.extend(fault.hints.iter().cloned());
                fix.wrong.extend(wrong.iter().cloned());
            }
            if let Some(report) = &mut stage.report {
                self.answer(report, fault, seed);
            }
        }
        lab.drawn = Some(Drawn {
            seed,
            fault: fault.name.clone(),
            layer: fault.layer,
        });
        Ok((lab, made))
    }

    /// The wrong fixes of a fault with the manifests that are made for them; first that nothing was fixed.
    fn wrong_fixes(
        &self,
        fault: &Fault,
        broken: &str,
    ) -> Result<(Vec<WrongFix>, Vec<Made>), String> {
        let mut wrong = vec![WrongFix {
            name: "untouched".to_owned(),
            manifest: self.broken.clone(),
            why: fault.cause.clone(),
            fails: fault.fails.clone(),
        }];
        let mut made = Vec::new();
        for fix in &fault.wrong {
            let file = format!("{}.{}", self.broken, fix.name);
            let text = changed(broken, &fix.changes)
                .map_err(|text| format!("wrong fix `{}`: {text}", fix.name))?;
            made.push((file.clone(), text));
            wrong.push(WrongFix {
                name: fix.name.clone(),
                manifest: file,
                why: fix.why.clone(),
                fails: fix.fails.clone(),
            });
        }
        Ok((wrong, made))
    }

    /// The report's truth: the layer, the probe, the right cause among others, in an order of the seed.
    fn answer(&self, report: &mut ReportTask, fault: &Fault, seed: u32) {
        report.layer = Some(fault.layer);
        if let Some(probe) = &fault.probe {
            report.probe.clone_from(probe);
        }
        let mut others: Vec<&Fault> = self
            .list
            .iter()
            .filter(|other| other.name != fault.name && other.cause != fault.cause)
            .collect();
        // Causes of the same layer are the ones that must be told apart.
        others.sort_by_key(|other| {
            let place = mixed(u64::from(seed) << 32 | (mixed(name_number(&other.name)) >> 32));
            (other.layer != fault.layer, place)
        });
        let mut causes: Vec<Cause> = others
            .into_iter()
            .take(OTHER_CAUSES)
            .map(|other| Cause {
                text: other.cause.clone(),
                right: false,
                because: Some(format!("it is not what was seen. {}", other.shows)),
            })
            .collect();
        let place = drawn_position(u64::from(seed) ^ 0x5eed, causes.len() + 1);
        causes.insert(
            place,
            Cause {
                text: fault.cause.clone(),
                right: true,
                because: None,
            },
        );
        report.causes.extend(causes);
    }
}

/// A number that a text always has, and that says nothing about it.
pub(super) fn name_number(name: &str) -> u64 {
    name.bytes().fold(0, |number, byte| {
        mixed(number.wrapping_mul(257).wrapping_add(u64::from(byte)))
    })
}
