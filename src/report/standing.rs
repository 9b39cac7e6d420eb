//! What stands at the end of a lab: of every stage the last verdicts, and goes that were never judged.

use crate::evidence::journal::{Claim, IntentAction, Judgement};
use crate::evidence::{Entry, Outcome, Right};
use crate::lab::{Lab, Stage};
use crate::session::open_topics;

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

/// Every stage that checks something ends with a proven verdict on each of its checks, and every report stage has each of
/// its topics supported.
pub(super) fn complete(
    lab: &Lab,
    standing: &[&Judgement],
    unjudged: &[Unjudged],
    claims: &[Claim],
) -> bool {
    lab.stages.iter().all(|stage| {
        let of_stage: Vec<&Judgement> = standing
            .iter()
            .filter(|judgement| judgement.stage == stage.name)
            .copied()
            .collect();
        let judged = stage.observe || all_judged(stage, &of_stage);
        let cut_off = unjudged.iter().any(|one| one.stage == stage.name);
        let proven = of_stage
            .iter()
            .all(|judgement| judgement.verdict.outcome == Outcome::Proven);
        proven && judged && !cut_off && reported(stage, claims)
    })
}

/// Whether there is a verdict on each probe, right and order of a stage: one that was lost may have been any.
fn all_judged(stage: &Stage, judgements: &[&Judgement]) -> bool {
    let any = |is_it: &dyn Fn(&Judgement) -> bool| judgements.iter().any(|one| is_it(one));
    let probe = |name: &String| any(&|one| one.probe.as_ref() == Some(name));
    let order = |name: &String| any(&|one| one.order.as_ref() == Some(name));
    let right = |wanted: &Right| any(&|one| one.access.as_ref() == Some(wanted));
    stage.probes.iter().all(|one| probe(&one.name))
        && stage.orders.iter().all(|one| order(&one.name))
        && stage
            .access
            .iter()
            .all(|one| right(&one.expectation().right))
}

/// Whether the report that a stage asks for holds.
fn reported(stage: &Stage, claims: &[Claim]) -> bool {
    let of_stage = claims.iter().filter(|claim| claim.stage == stage.name);
    let of_stage: Vec<Claim> = of_stage.cloned().collect();
    stage.report.is_none() || open_topics(&of_stage).is_empty()
}

#[cfg(test)]
pub(super) mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::evidence::journal::{ClaimAnswer, Intent};
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
        let verdict = Verdict {
            outcome,
            claim: "flat: passes".to_owned(),
            because: None,
            facts: Vec::new(),
        };
        Judgement {
            probe: Some("flat".to_owned()),
            ..occasion.judgement(verdict)
        }
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

    /// A verdict that is not there is no pass, whatever the others say; nor is a report of which a topic is open.
    #[test]
    fn every_probe_has_its_verdict_and_every_topic_its_claim() {
        let mut lab = testing::course()[1].clone();
        lab.stages.retain(|stage| stage.name == "send");
        let both: Vec<Judgement> = lab.stages[0]
            .probes
            .iter()
            .map(|probe| Judgement {
                probe: Some(probe.name.clone()),
                ..judged("send", 1, Outcome::Proven)
            })
            .collect();
        assert!(both.len() > 1);
        let is_complete = |judgements: &[&Judgement]| complete(&lab, judgements, &[], &[]);
        assert!(is_complete(&both.iter().collect::<Vec<_>>()));
        for gone in 0..both.len() {
            let rest = both.iter().enumerate().filter(|(place, _)| *place != gone);
            let rest: Vec<&Judgement> = rest.map(|(_, one)| one).collect();
            assert!(!is_complete(&rest), "without {gone}");
        }
        let mut course = testing::course()[1].clone();
        course.stages.retain(|stage| stage.report.is_some());
        assert!(!course.stages.is_empty());
        let claim = |topic: &str, answer: ClaimAnswer| Claim {
            time: Timestamp::UNIX_EPOCH,
            lab: "own".to_owned(),
            stage: course.stages[0].name.clone(),
            topic: topic.to_owned(),
            statement: "it was so".to_owned(),
            answer,
        };
        let supported = || ClaimAnswer::SupportedBy { facts: Vec::new() };
        let topics = ["layer", "fact", "cause", "not-proven"];
        let mut claims: Vec<Claim> = topics.map(|topic| claim(topic, supported())).into();
        assert!(complete(&course, &[], &[], &claims));
        claims[1].answer = ClaimAnswer::NothingShowsThis;
        assert!(!complete(&course, &[], &[], &claims));
        claims.remove(1);
        assert!(!complete(&course, &[], &[], &claims));
        assert!(!complete(&course, &[], &[], &[]));
    }

    /// The verdict of an earlier go is no verdict on what was sent since.
    #[test]
    fn a_later_go_that_was_cut_off_leaves_the_lab_open() {
        let mut lab = testing::course()[1].clone();
        lab.stages.retain(|stage| stage.name == "send");
        lab.stages[0].probes.retain(|probe| probe.name == "flat");
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
