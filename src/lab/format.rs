//! The types of a lab file. Unknown keys are refused.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::faults::{Change, Fault, FaultWrongFix, Faults};
use crate::evidence::{AccessExpectation, Fate, Layer, Right};

/// One topic, one file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Lab {
    pub name: String,
    pub title: String,
    /// One sentence for `eventlab list`.
    pub summary: String,
    /// The event name of its own (the bus subject is `default.orders.EVENT`).
    pub event: String,
    pub layers: Vec<Layer>,
    /// What the lab needs, for example `sensor-debug-log`.
    #[serde(default)]
    pub needs: Vec<String>,
    /// `embedded`, `kubernetes`.
    pub clusters: Vec<String>,
    /// What the embedded cluster does not reproduce, in sentences.
    #[serde(default)]
    pub not_reproduced: Vec<String>,
    /// The first-run lab: not numbered, not listed.
    #[serde(default)]
    pub intro: bool,
    pub links: Vec<Link>,
    pub stages: Vec<Stage>,
    /// Things of which one is broken, drawn by a seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<Faults>,
    /// What was drawn; never part of a file.
    #[serde(skip)]
    pub drawn: Option<Drawn>,
}

/// The fault of a lab that was drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    pub seed: u32,
    pub fault: String,
    pub layer: Layer,
}

/// The official page or source behind a topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    pub title: String,
    pub url: String,
}

/// What a stage is for the learner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StageKind {
    Read,
    Apply,
    Gate,
    Predict,
    Send,
    Fix,
    Report,
    Debrief,
}

/// A numbered step of a lab. What it does, in this order: apply, before, gate, send the probes, review access, judge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Stage {
    pub name: String,
    pub kind: StageKind,
    pub title: String,
    /// Markdown.
    pub text: String,
    /// Manifest files (below `manifests/`), applied in order; a new attempt.
    #[serde(default)]
    pub apply: Vec<String>,
    /// Done after apply and before the gate.
    #[serde(default)]
    pub before: Vec<Action>,
    #[serde(default)]
    pub gate: GateMode,
    /// The gate must fail for this reason code, for example `invalid-sensor`; the probes are sent all the same, and are
    /// judged by whatever runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate_fails: Option<String>,
    #[serde(default)]
    pub probes: Vec<Probe>,
    /// Nothing is judged: what becomes of the probes is recorded, whatever it is, also where the gate fails.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub observe: bool,
    /// Rights of service accounts, reviewed after the probes.
    #[serde(default)]
    pub access: Vec<AccessCheck>,
    /// Probes of earlier stages that must not be handled again.
    #[serde(default)]
    pub not_repeated: Vec<ProbeName>,
    /// For `predict`: the stage whose probes are predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicts: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<ReportTask>,
    #[serde(default)]
    pub debrief: Vec<DebriefRow>,
}

/// Whether the gate must be open before the probes are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GateMode {
    /// Nothing is waited for.
    #[default]
    None,
    /// Only that the EventSource answers and the Sensor's pod is Ready.
    Ready,
    /// Every condition of the gate; the subscription by its line, or by consumer state where the level hides the line.
    Open,
    /// As `open`, and the subscription must be shown by its line.
    OpenByLine,
    /// The EventSource answers; the Sensor may be down.
    Intake,
}

/// Something done to the cluster before the probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Deletes the Sensor's pod and does not wait for its successor.
    DeleteSensorPod,
    /// Kills the Sensor's pod without a grace period.
    KillSensorPod,
}

/// How the client reads the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    #[default]
    Read,
    /// The client closes after the request is written and before the answer is read.
    Lost,
}

/// One HTTP request that a stage sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Probe {
    pub name: String,
    pub title: String,
    /// The probe that this filter, as it stands now, should accept.
    #[serde(default)]
    pub control: bool,
    #[serde(default = "post")]
    pub method: String,
    /// Defaults to the lab's endpoint, `/EVENT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Sent as written, in this order by name. `Content-Type: application/json` unless given.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body, byte for byte. `{{attempt}}` is replaced, so that an order id is new in every attempt.
    pub body: String,
    #[serde(default)]
    pub answer: Answer,
    pub fate: Fate,
}

fn post() -> String {
    "POST".to_owned()
}

/// What an access review must answer about a service account of the lab's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccessCheck {
    pub account: String,
    pub verb: String,
    /// Plural, with its subresource where there is one: `pods/exec`.
    pub resource: String,
    /// API group; the core group when it is not given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    pub allowed: bool,
}

impl AccessCheck {
    /// The check as the evidence judges it.
    #[must_use]
    pub fn expectation(&self) -> AccessExpectation {
        AccessExpectation {
            right: Right {
                account: self.account.clone(),
                verb: self.verb.clone(),
                group: self.group.clone(),
                resource: self.resource.clone(),
            },
            allowed: self.allowed,
        }
    }
}

/// A probe of another stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeName {
    pub stage: String,
    pub probe: String,
}

/// The manifest that the learner edits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Fix {
    /// File below `manifests/`, copied to the working copies; it is applied in place of the original from then on.
    pub manifest: String,
    pub hints: Vec<String>,
    /// File below `manifests/` with the reference solution.
    pub solution: String,
    pub wrong: Vec<WrongFix>,
}

/// A fix that must fail, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct WrongFix {
    pub name: String,
    /// File below `manifests/`.
    pub manifest: String,
    /// Why it is wrong, shown to an author.
    pub why: String,
    pub fails: Failure,
}

/// The reason a wrong fix must fail for: `{probe: NAME, observed: FATE}`, `{gate: REASON}` or
/// `{access: {account: NAME, verb: VERB, resource: PLURAL, group: GROUP}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "`fails` is {probe: NAME, observed: FATE}, {gate: REASON} or {access: {account: NAME, verb: VERB, resource: PLURAL, group: GROUP}}"
)]
pub enum Failure {
    /// A probe has this fate instead of the expected one.
    Probe(ProbeFailure),
    /// The gate does not open for this reason code: `invalid-sensor`, `no-subscribed-line`, `apply-refused`, …
    Gate(GateFailure),
    /// A right is missing or too much.
    Access(AccessFailure),
}

/// See [`Failure::Probe`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeFailure {
    pub probe: String,
    pub observed: Fate,
}

/// See [`Failure::Gate`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateFailure {
    pub gate: String,
}

/// See [`Failure::Access`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccessFailure {
    pub access: Right,
}

/// What the learner's report must name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ReportTask {
    /// The stage and probe the report is about.
    pub stage: String,
    pub probe: String,
    /// The layer at fault, where it is not the one that stops the probe: an event that should have been stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<Layer>,
    /// Causes to choose from; exactly one is right.
    #[serde(default)]
    pub causes: Vec<Cause>,
    /// Things not proven, to choose from; each says whether it is really open.
    pub not_proven: Vec<OpenPoint>,
}

/// A cause to choose from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cause {
    pub text: String,
    #[serde(default)]
    pub right: bool,
    /// Why not, when it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// Something that may not be proven by what was collected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OpenPoint {
    pub text: String,
    /// True when nothing that this lab collects proves it.
    pub open: bool,
    /// What would prove it, or what did.
    pub proof: String,
}

/// One row of the debrief.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DebriefRow {
    pub layer: Layer,
    pub observed: String,
    pub line: String,
    pub not_proven: String,
    pub would_prove: String,
}
