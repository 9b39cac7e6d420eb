//! What stands at the end of a lab: of every stage the last verdicts, and goes that were never judged.

use crate::evidence::journal::{Claim, IntentAction, Judgement};
use crate::evidence::{Entry, Outcome};
use crate::lab::{Lab, Stage};

/// A go at a stage in which something was sent, after the last one that was judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unjudged {
    pub stage: String,
    pub attempt: u32,
}

/// What stands in the end: of each stage its last attempt, and there the last verdict on each probe and claim, since a stage
/// may be looked at again.
pub(super) fn standing(judgements: &[Judgement]) -> Vec<&Judgement> {
    let mut standing: Vec<&Judgement> = Vec::new();
    for one in judgements {
        if Some(one.attempt) != last_judged(judgements, &one.stage) {
            continue;
        }
        standing.retain(|old| {
            (&old.stage, &old.probe, &old.verdict.claim)
                != (&one.stage, &one.probe, &one.verdict.claim)
        });
        standing.push(one);
    }
    standing
}

fn last_judged(judgements: &[Judgement], stage: &str) -> Option<u32> {
    let of_stage = judgements.iter().filter(|one| one.stage == stage);
    of_stage.map(|one| one.attempt).max()
}

/// The stages of a lab whose last go was cut off after something was sent: an earlier verdict says nothing about it. Stages
/// that only look are not judged.
pub(super) fn unjudged(
    entries: &[&Entry],
    lab: Option<&Lab>,
    judgements: &[Judgement],
) -> Vec<Unjudged> {
    let stages = lab.map_or(&[][..], |lab| &lab.stages);
    let cut = |stage: &Stage| {
        let attempt = last_sent(entries, &stage.name)?;
        (Some(attempt) > last_judged(judgements, &stage.name)).then(|| Unjudged {
            stage: stage.name.clone(),
            attempt,
        })
    };
    stages
        .iter()
        .filter(|stage| !stage.observe)
        .filter_map(cut)
        .collect()
}

fn last_sent(entries: &[&Entry], stage: &str) -> Option<u32> {
    let attempt = |entry: &&Entry| match entry {
        Entry::Intent(intent)
            if intent.stage == stage && matches!(intent.action, IntentAction::Send { .. }) =>
        {
            Some(intent.attempt)
        }
        _ => None,
    };
    entries.iter().filter_map(attempt).max()
}

/// Every stage with probes ends with proven verdicts, and every report stage has its claims.
pub(super) fn complete(
    lab: &Lab,
    standing: &[&Judgement],
    unjudged: &[Unjudged],
    claims: &[Claim],
) -> bool {
    lab.stages.iter().all(|stage| {
        let mut of_stage = standing
            .iter()
            .filter(|judgement| judgement.stage == stage.name)
            .peekable();
        let judged = stage.probes.is_empty() || stage.observe || of_stage.peek().is_some();
        let cut_off = unjudged.iter().any(|one| one.stage == stage.name);
        let proven = of_stage.all(|judgement| judgement.verdict.outcome == Outcome::Proven);
        let reported =
            stage.report.is_none() || claims.iter().any(|claim| claim.stage == stage.name);
        proven && judged && !cut_off && reported
    })
}

#[cfg(test)]
pub(super) mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::evidence::journal::Intent;
    use crate::evidence::{Occasion, Verdict};
    use crate::report::not_proven;
    use crate::session::state::tests as testing;

    pub(in crate::report) fn judged(stage: &str, attempt: u32, outcome: Outcome) -> Judgement {
        let occasion = Occasion {
            time: Timestamp::UNIX_EPOCH,
            lab: "own",
            stage,
            attempt,
        };
        occasion.judgement(Verdict {
            outcome,
            claim: "flat: passes".to_owned(),
            because: None,
            facts: Vec::new(),
        })
    }

    fn sent(stage: &str, attempt: u32) -> Entry {
        Entry::Intent(Intent {
            time: Timestamp::UNIX_EPOCH,
            lab: "own".to_owned(),
            stage: stage.to_owned(),
            attempt,
            id: format!("{stage}-{attempt}"),
            action: IntentAction::Send {
                probe: "flat".to_owned(),
            },
        })
    }

    /// A stage that was unproven is looked at again in the same attempt, and tried again in another.
    #[test]
    fn what_was_judged_anew_is_no_longer_open() {
        let judgements = [
            judged("send", 1, Outcome::Refuted),
            judged("send", 2, Outcome::Unproven),
            judged("send", 2, Outcome::Proven),
            judged("fix", 1, Outcome::Proven),
            judged("fix", 2, Outcome::Unproven),
        ];
        let outcomes: Vec<_> = standing(&judgements)
            .iter()
            .map(|one| (one.stage.as_str(), one.attempt, one.verdict.outcome))
            .collect();
        assert_eq!(
            outcomes,
            [("send", 2, Outcome::Proven), ("fix", 2, Outcome::Unproven)]
        );
        let open = not_proven(None, &standing(&judgements), &[], &[]);
        assert_eq!(open.len(), 1, "{open:?}");
        assert!(open[0].contains("stage `fix`"), "{open:?}");
    }

    /// The verdict of an earlier go is no verdict on what was sent since.
    #[test]
    fn a_later_go_that_was_cut_off_leaves_the_lab_open() {
        let mut lab = testing::course()[1].clone();
        lab.stages.retain(|stage| stage.name == "send");
        let judgements = [judged("send", 1, Outcome::Proven)];
        let ends = |entries: &[Entry]| {
            let entries: Vec<&Entry> = entries.iter().collect();
            let (standing, open) = (
                standing(&judgements),
                unjudged(&entries, Some(&lab), &judgements),
            );
            let named = not_proven(Some(&lab), &standing, &open, &[]);
            (complete(&lab, &standing, &open, &[]), named.len())
        };
        assert_eq!(ends(&[sent("send", 1)]), (true, 0));
        assert_eq!(ends(&[sent("send", 1), sent("send", 2)]), (false, 1));
    }
}
