//! The types of a lab file. Unknown keys are refused.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action::Action;
use super::faults::name_number;
pub use super::faults::{Change, Fault, FaultWrongFix, Faults};
use crate::evidence::{AccessExpectation, Fate, Layer, OrderExpectation, Right};

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
    /// Its stages that send are lines of the verification matrix.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub matrix: bool,
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
    /// The Sensor that is there is deleted with its pods before anything is applied: nothing of it hears what this stage sends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub afresh: bool,
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
    /// The probes are sent one after another without waiting for what becomes of them, so that their runs overlap.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub together: bool,
    /// What must stand about orders in the ledger and at the destination, looked up after the probes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<OrderCheck>,
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
    /// Only that the EventSource answers and the Sensor's status says `Deployed`; its pod may not even run.
    Deployed,
    /// Only that the EventSource answers and the Sensor's pod is Ready.
    Ready,
    /// Every condition of the gate; the subscription by its line, or by consumer state where the level hides the line.
    Open,
    /// As `open`, and the subscription must be shown by its line.
    OpenByLine,
    /// The EventSource answers; the Sensor may be down.
    Intake,
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
    /// Done before this probe is sent, once those before it are settled (unless the stage sends them together).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Action>,
    /// So many requests with the same bytes, named `NAME-1` and so on; each has the same fate and alternatives.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub copies: u32,
    pub fate: Fate,
    /// Fates that are as good: of equal requests that run at once, nobody can say which one comes first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub or: Vec<Fate>,
}

/// Most copies of one probe.
pub const MAX_COPIES: u32 = 200;

fn one() -> u32 {
    1
}

fn is_one(copies: &u32) -> bool {
    *copies == 1
}

impl Probe {
    /// The fate that is asked of a row that was seen to have `observed`.
    #[must_use]
    pub fn fate_for(&self, observed: Option<&Fate>) -> &Fate {
        self.or
            .iter()
            .find(|fate| Some(*fate) == observed)
            .unwrap_or(&self.fate)
    }
}

impl Stage {
    /// Offers the answers of a report in an order that says nothing about them: authors write the right one first.
    pub(super) fn mix_answers(&mut self) {
        if let Some(report) = &mut self.report {
            report.causes.sort_by_key(|cause| name_number(&cause.text));
            report
                .not_proven
                .sort_by_key(|point| name_number(&point.text));
        }
    }

    /// Puts every probe with copies in their place.
    pub(super) fn expand_copies(&mut self) {
        let probes = std::mem::take(&mut self.probes);
        for probe in probes {
            if probe.copies <= 1 {
                self.probes.push(probe);
                continue;
            }
            for number in 1..=probe.copies.min(MAX_COPIES) {
                self.probes.push(Probe {
                    name: format!("{}-{number}", probe.name),
                    before: if number == 1 {
                        probe.before.clone()
                    } else {
                        Vec::new()
                    },
                    copies: 1,
                    ..probe.clone()
                });
            }
        }
    }
}

/// What must stand about one order and action; a field that is not given is not checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OrderCheck {
    pub name: String,
    /// Order id; `{{attempt}}` is replaced.
    pub order: String,
    #[serde(default = "charge")]
    pub action: String,
    /// Rows of runs in the ledger, whatever their outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u64>,
    /// Rows of effects in the ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effects: Option<u64>,
    /// At least so many rows of effects, where chance decides how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effects_at_least: Option<u64>,
    /// Entries at the destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<u64>,
    /// State of the claim, or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
}

fn charge() -> String {
    "charge".to_owned()
}

impl OrderCheck {
    /// The check as the evidence judges it, in the attempt that goes by this name in order ids.
    #[must_use]
    pub fn expectation(&self, attempt: &str) -> OrderExpectation {
        OrderExpectation {
            name: self.name.clone(),
            order: self.order.replace("{{attempt}}", attempt),
            action: self.action.clone(),
            attempts: self.attempts,
            effects: self.effects,
            effects_at_least: self.effects_at_least,
            records: self.records,
            claim: self.claim.clone(),
        }
    }
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
    /// Plural, with its subresource where there is one: `pods/exec`. `right` with the verb `any-other` stands for every right
    /// that the stage does not list as allowed.
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

/// The reason a wrong fix must fail for: `{probe: NAME, observed: FATE}`, `{gate: REASON}`, `{order: CHECK}` or
/// `{access: {account: NAME, verb: VERB, resource: PLURAL, group: GROUP}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "`fails` is {probe: NAME, observed: FATE}, {gate: REASON}, {order: CHECK} or {access: {account: NAME, verb: VERB, resource: PLURAL, group: GROUP}}"
)]
pub enum Failure {
    /// A probe has this fate instead of the expected one.
    Probe(ProbeFailure),
    /// The gate does not open for this reason code: `invalid-sensor`, `no-subscribed-line`, `apply-refused`, …
    Gate(GateFailure),
    /// A right is missing or too much.
    Access(AccessFailure),
    /// An order check of this name is refuted.
    Order(OrderFailure),
}

/// See [`Failure::Order`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OrderFailure {
    pub order: String,
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
