//! What must hold in a lab beyond its types: names resolve, and every claim of the file can be checked.

use std::collections::{BTreeMap, BTreeSet};

use super::action::Action;
use super::format::{Failure, GateMode, Lab, Probe, Stage, StageKind, WrongFix};
use crate::evidence::{Fate, Layer};

/// Findings of a lab, one sentence each; empty when it holds.
#[must_use]
pub fn lint(lab: &Lab, manifests: &BTreeMap<String, String>) -> Vec<String> {
    let mut findings = Vec::new();
    if !is_label(&lab.name) || !is_label(&lab.event) {
        findings.push(format!(
            "name `{}` and event `{}` must be lower-case words with dashes, at most 40 characters",
            lab.name, lab.event
        ));
    }
    if lab.stages.is_empty() {
        findings.push("a lab needs at least one stage".to_owned());
    }
    let mut faults = BTreeSet::new();
    for fault in lab.faults.iter().flat_map(|faults| &faults.list) {
        if !is_label(&fault.name) || !faults.insert(fault.name.as_str()) {
            findings.push(format!(
                "fault `{}` must have a lower-case name of its own",
                fault.name
            ));
        }
    }
    for cluster in &lab.clusters {
        if !matches!(cluster.as_str(), "embedded" | "kubernetes") {
            findings.push(format!(
                "cluster `{cluster}` is unknown: write `embedded` or `kubernetes`"
            ));
        }
    }
    let mut names = BTreeSet::new();
    for stage in &lab.stages {
        if !names.insert(stage.name.as_str()) {
            findings.push(format!("stage `{}` is there twice", stage.name));
        }
        for finding in lint_stage(lab, stage, manifests) {
            findings.push(format!("stage `{}`: {finding}", stage.name));
        }
    }
    findings
}

/// Whether a word can name a lab, an event or a probe.
pub(super) fn is_label(name: &str) -> bool {
    (1..=40).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
}

fn lint_stage(lab: &Lab, stage: &Stage, manifests: &BTreeMap<String, String>) -> Vec<String> {
    let mut findings = Vec::new();
    for file in stage
        .apply
        .iter()
        .filter(|file| !manifests.contains_key(*file))
    {
        findings.push(no_manifest(file, manifests));
    }
    lint_actions(stage, manifests, &mut findings);
    lint_orders(stage, &mut findings);
    let mut probes = BTreeSet::new();
    for probe in &stage.probes {
        if !is_label(&probe.name) {
            findings.push(format!(
                "probe name `{}` must be a lower-case word",
                probe.name
            ));
        }
        if !probes.insert(probe.name.as_str()) {
            findings.push(format!("probe `{}` is there twice", probe.name));
        }
        if probe.body.len() > 4 << 20 {
            findings.push(format!("the body of probe `{}` is over 4 MiB", probe.name));
        }
        lint_probe(probe, &mut findings);
    }
    if stage.observe && (stage.fix.is_some() || stage.probes.is_empty()) {
        findings.push("`observe` needs probes, and has no place in a fix".to_owned());
    }
    lint_checks(lab, stage, &mut findings);
    lint_kind(lab, stage, &mut findings);
    lint_fix(stage, manifests, &mut findings);
    findings
}

/// States that a claim can be awaited in or checked for.
const CLAIM_STATES: [&str; 5] = ["processing", "completed", "unresolved", "failed", "none"];

fn lint_actions(stage: &Stage, manifests: &BTreeMap<String, String>, findings: &mut Vec<String>) {
    let of_probes = stage.probes.iter().flat_map(|probe| &probe.before);
    for action in stage.before.iter().chain(of_probes) {
        match action {
            Action::Run { file, ends, .. } => {
                if !manifests.contains_key(file) {
                    findings.push(no_manifest(file, manifests));
                }
                if !["Succeeded", "Failed", "Error"].contains(&ends.as_str()) {
                    findings.push(format!("a Workflow does not end `{ends}`"));
                }
            }
            Action::Await { claim, .. } if !CLAIM_STATES.contains(&claim.as_str()) => {
                findings.push(format!("a claim has no state `{claim}`"));
            }
            _ => {}
        }
    }
}

fn lint_orders(stage: &Stage, findings: &mut Vec<String>) {
    let mut names = BTreeSet::new();
    for check in &stage.orders {
        if !names.insert(check.name.as_str()) {
            findings.push(format!("order check `{}` is there twice", check.name));
        }
        let asks = check.attempts.is_some()
            || check.effects.is_some()
            || check.effects_at_least.is_some()
            || check.records.is_some()
            || check.claim.is_some();
        if !asks {
            findings.push(format!("order check `{}` asks for nothing", check.name));
        }
        if let Some(claim) = &check.claim
            && !CLAIM_STATES.contains(&claim.as_str())
        {
            findings.push(format!("a claim has no state `{claim}`"));
        }
    }
}

/// Says that a manifest is not there, and what lies in its folder.
fn no_manifest(file: &str, manifests: &BTreeMap<String, String>) -> String {
    let Some((folder, _)) = file.rsplit_once('/') else {
        return format!(
            "there is no manifest `{file}`: it is named from manifests/ on, such as `base/eventbus.yaml`"
        );
    };
    let there: Vec<&str> = manifests
        .keys()
        .filter_map(|known| known.strip_prefix(folder)?.strip_prefix('/'))
        .take(8)
        .collect();
    if there.is_empty() {
        format!("there is no manifest `{file}`, and no folder manifests/{folder}/")
    } else {
        format!(
            "there is no manifest `{file}`; in manifests/{folder}/ there are {}",
            there.join(", ")
        )
    }
}

/// A fate that no event can have would never be seen, however right everything is.
fn lint_probe(probe: &Probe, findings: &mut Vec<String>) {
    for fate in std::iter::once(&probe.fate).chain(&probe.or) {
        let Some(why) = impossible(fate) else {
            continue;
        };
        findings.push(format!(
            "probe `{}` has an impossible fate: {why}",
            probe.name
        ));
    }
    if probe.control
        && probe
            .fate
            .stops_at()
            .is_some_and(|layer| layer <= Layer::Filter)
    {
        findings.push(format!(
            "probe `{}` is a control, which the filter accepts, and its fate is to be {}",
            probe.name, probe.fate
        ));
    }
}

/// Why an event cannot have this fate.
fn impossible(fate: &Fate) -> Option<String> {
    let (layer, reason) = match fate {
        Fate::Applied => return None,
        Fate::Stopped { layer, reason } => (*layer, *reason),
        Fate::AppliedButRunStopped { reason } => (Layer::Run, *reason),
    };
    (!reason.can_stop(layer)).then(|| {
        format!(
            "`{}` is a reason of the {} layer, not of {layer}",
            reason.code(),
            reason.layer()
        )
    })
}

fn lint_checks(lab: &Lab, stage: &Stage, findings: &mut Vec<String>) {
    let asks = matches!(
        stage.gate,
        GateMode::Deployed | GateMode::Ready | GateMode::Open | GateMode::OpenByLine
    );
    if stage.gate_fails.is_some() && !asks {
        findings.push("`gate-fails` needs a gate that looks at the Sensor".to_owned());
    }
    if stage.gate_fails.is_some() && stage.fix.is_some() {
        findings.push("a fix is to be live, so that `gate-fails` has no place in it".to_owned());
    }
    if stage.afresh && stage.apply.is_empty() && stage.fix.is_none() {
        findings.push("`afresh` deletes the Sensor, and this stage applies none".to_owned());
    }
    let mut rights = BTreeSet::new();
    for check in &stage.access {
        let right = check.expectation().right;
        if [&right.account, &right.verb, &right.resource]
            .iter()
            .any(|word| word.is_empty() || word.contains('*'))
        {
            findings.push(format!(
                "access check `{right}` must name one account, verb and resource"
            ));
        }
        if !rights.insert(right.clone()) {
            findings.push(format!("access check `{right}` is there twice"));
        }
    }
    let earlier = lab.stages.iter().take_while(|one| one.name != stage.name);
    for name in &stage.not_repeated {
        let known = earlier.clone().any(|other| {
            other.name == name.stage && other.probes.iter().any(|probe| probe.name == name.probe)
        });
        if !known {
            findings.push(format!(
                "`not-repeated` names no probe `{}` of an earlier stage `{}`",
                name.probe, name.stage
            ));
        }
    }
}

fn lint_kind(lab: &Lab, stage: &Stage, findings: &mut Vec<String>) {
    let needs = |what: &str| format!("a {:?} stage needs {what}", stage.kind).to_lowercase();
    match stage.kind {
        StageKind::Apply if stage.apply.is_empty() => findings.push(needs("`apply`")),
        StageKind::Send
            if stage.probes.is_empty() && stage.access.is_empty() && stage.orders.is_empty() =>
        {
            findings.push(needs("`probes`, `access` or `orders`"));
        }
        StageKind::Fix if stage.fix.is_none() => findings.push(needs("`fix`")),
        StageKind::Debrief if stage.debrief.is_empty() => findings.push(needs("`debrief` rows")),
        StageKind::Predict => match &stage.predicts {
            None => findings.push(needs("`predicts`")),
            Some(name)
                if lab
                    .stages
                    .iter()
                    .any(|other| other.name == *name && !other.probes.is_empty()) => {}
            Some(name) => findings.push(format!("`predicts: {name}` names no stage with probes")),
        },
        StageKind::Report => lint_report(lab, stage, findings),
        _ => {}
    }
}

fn lint_report(lab: &Lab, stage: &Stage, findings: &mut Vec<String>) {
    let Some(report) = &stage.report else {
        findings.push("a report stage needs `report`".to_owned());
        return;
    };
    let known = lab.stages.iter().any(|other| {
        other.name == report.stage && other.probes.iter().any(|probe| probe.name == report.probe)
    });
    if !known {
        findings.push(format!(
            "`report` names no probe `{}` of a stage `{}`",
            report.probe, report.stage
        ));
    }
    if report.causes.iter().filter(|cause| cause.right).count() != 1 {
        findings.push("exactly one cause must be right".to_owned());
    }
    if report
        .causes
        .iter()
        .any(|cause| !cause.right && cause.because.is_none())
    {
        findings.push("a wrong cause needs `because`".to_owned());
    }
    if !report.not_proven.iter().any(|point| point.open) {
        findings.push("at least one point of `not-proven` must be open".to_owned());
    }
}

fn lint_fix(stage: &Stage, manifests: &BTreeMap<String, String>, findings: &mut Vec<String>) {
    let Some(fix) = &stage.fix else { return };
    let files = [&fix.manifest, &fix.solution]
        .into_iter()
        .chain(fix.wrong.iter().map(|wrong| &wrong.manifest));
    for file in files.filter(|file| !manifests.contains_key(*file)) {
        findings.push(no_manifest(file, manifests));
    }
    if fix.hints.is_empty() {
        findings.push("a fix needs hints".to_owned());
    }
    if fix.wrong.is_empty() {
        findings.push("a fix needs wrong fixes, so that its check is known to fail".to_owned());
    }
    let mut names = BTreeSet::new();
    for wrong in &fix.wrong {
        if !names.insert(wrong.name.as_str()) {
            findings.push(format!("wrong fix `{}` is there twice", wrong.name));
        }
        if wrong.manifest == fix.solution {
            findings.push(format!("wrong fix `{}` is the solution itself", wrong.name));
        }
        lint_failure(stage, wrong, findings);
    }
}

fn lint_failure(stage: &Stage, wrong: &WrongFix, findings: &mut Vec<String>) {
    match &wrong.fails {
        Failure::Probe(failure) => {
            if let Some(why) = impossible(&failure.observed) {
                findings.push(format!(
                    "wrong fix `{}` is to end in an impossible fate: {why}",
                    wrong.name
                ));
            }
            match stage
                .probes
                .iter()
                .find(|probe| probe.name == failure.probe)
            {
                None => findings.push(format!(
                    "wrong fix `{}` names no probe `{}` of this stage",
                    wrong.name, failure.probe
                )),
                Some(probe)
                    if probe.fate == failure.observed || probe.or.contains(&failure.observed) =>
                {
                    findings.push(format!(
                        "wrong fix `{}` has the expected fate of `{}`, so nothing would fail",
                        wrong.name, failure.probe
                    ));
                }
                Some(_) => {}
            }
        }
        Failure::Access(failure) => {
            let known = stage
                .access
                .iter()
                .any(|check| check.expectation().right == failure.access);
            if !known {
                findings.push(format!(
                    "wrong fix `{}` names no access check `{}` of this stage",
                    wrong.name, failure.access
                ));
            }
        }
        Failure::Order(failure) => {
            if !stage.orders.iter().any(|check| check.name == failure.order) {
                findings.push(format!(
                    "wrong fix `{}` names no order check `{}` of this stage",
                    wrong.name, failure.order
                ));
            }
        }
        Failure::Gate(_) => {}
    }
}
