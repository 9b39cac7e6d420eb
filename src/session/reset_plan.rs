//! What starting a lab over restores and what it leaves, in words, before it is done.

use super::state::State;

/// What a reset would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResetPlan {
    pub restores: Vec<String>,
    pub leaves: Vec<String>,
}

impl State {
    /// What starting this lab over would do: manifests, objects, ledger, bus, progress.
    #[must_use]
    pub fn reset_plan(&self, lab: &str) -> ResetPlan {
        let mut plan = ResetPlan::default();
        let Some(found) = self.labs().iter().find(|one| one.name == lab) else {
            return plan;
        };
        let kept = self.progress_of(lab);
        let mut copies: Vec<&str> = found
            .stages
            .iter()
            .filter_map(|stage| stage.fix.as_ref())
            .map(|fix| fix.manifest.as_str())
            .collect();
        copies.dedup();
        if !copies.is_empty() {
            plan.restores.push(format!(
                "the manifests {} (your working copies of them are removed)",
                copies.join(", ")
            ));
        }
        let first = found.stages.first().map(|stage| stage.name.as_str());
        let snapshot = kept
            .zip(first)
            .is_some_and(|(kept, first)| kept.snapshots.contains_key(first));
        let world = "the objects in the cluster, the ledger and the bus";
        if !self.rewinds() {
            plan.leaves.push(format!(
                "{world}: others use this cluster, and nothing of it is set back; each stage applies its manifests again"
            ));
        } else if snapshot {
            plan.restores
                .push(format!("{world}, to how they were at the start of the lab"));
        } else {
            plan.leaves.push(format!(
                "{world}: there is no snapshot of the start of the lab"
            ));
        }
        plan.restores.push(
            "the lab's progress: its passed stages, predictions, hints and answers begin anew, in a new attempt"
                .to_owned(),
        );
        plan.leaves.push(
            "all evidence of the attempts so far, and the progress of the other labs".to_owned(),
        );
        if kept.is_some_and(|kept| kept.completed) {
            plan.leaves
                .push("that this lab was completed once".to_owned());
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use crate::lab::StageKind;
    use crate::session::State;
    use crate::session::state::tests::{lab, stage};

    /// What is promised is what can be done: a cluster of others is not set back.
    #[test]
    fn a_cluster_that_others_use_is_left_as_it_is() {
        let labs = vec![lab("one", vec![stage("send", StageKind::Send)])];
        for (tag, copied, restored) in [
            (None, true, true),
            (None, false, false),
            (Some("abcde"), true, false),
            (Some("abcde"), false, false),
        ] {
            let mut state = State::new(labs.clone().into(), jiff::Timestamp::UNIX_EPOCH);
            state.set_tag(tag);
            if copied {
                state.snapshot(&mut Vec::new());
            }
            let plan = state.reset_plan("one");
            let says = |list: &[String]| {
                list.iter()
                    .any(|one| one.contains("the ledger and the bus"))
            };
            assert_eq!(says(&plan.restores), restored, "{tag:?} {copied}: {plan:?}");
            assert_eq!(says(&plan.leaves), !restored, "{tag:?} {copied}: {plan:?}");
        }
    }
}
