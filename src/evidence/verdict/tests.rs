use proptest::prelude::*;

use super::*;
use crate::evidence::table::{ProbeRun, rows};
use crate::evidence::testing::{LAB, Request, consumer, fact, fates, numbered, requests};

const SCOPE: Scope<'static> = Scope {
    lab: LAB,
    attempt: 1,
    settled: true,
};
const OCCASION: Occasion<'static> = Occasion {
    time: Timestamp::UNIX_EPOCH,
    lab: LAB,
    stage: "send",
    attempt: 1,
};

fn stopped(layer: Layer, reason: Reason) -> Fate {
    Fate::Stopped { layer, reason }
}

fn missing() -> Fate {
    stopped(Layer::Filter, Reason::MissingPath)
}

/// Judges requests of a true world against what a stage expects of them.
fn judged(world: &[(Request, Fate)], facts: &[Fact]) -> Vec<Judgement> {
    let probes: Vec<ProbeRun> = world
        .iter()
        .map(|(request, _)| ProbeRun {
            name: request.arrival.clone(),
            trace: request.trace.clone(),
            attempt: 1,
        })
        .collect();
    let expected: Vec<Expectation> = world
        .iter()
        .map(|(request, fate)| Expectation {
            probe: request.arrival.clone(),
            trace: Some(request.trace.clone()),
            fate: fate.clone(),
            control: false,
        })
        .collect();
    judge(OCCASION, &expected, &rows(&probes, facts, SCOPE), facts)
}

fn world(fates: &[(Fate, Fate)]) -> (Vec<(Request, Fate)>, Vec<Fact>) {
    let mut fates = fates.to_vec();
    fates.sort_by_key(|(truth, _)| truth.stops_at() != Some(Layer::Ready));
    let (truths, expected): (Vec<Fate>, Vec<Fate>) = fates.into_iter().unzip();
    let world: Vec<(Request, Fate)> = requests(truths).into_iter().zip(expected).collect();
    let facts = world
        .iter()
        .flat_map(|(request, _)| request.facts())
        .collect();
    (world, numbered(facts))
}

/// Whether the environment kept it from its way.
fn hindered(truth: &Fate) -> bool {
    matches!(
        truth,
        Fate::Stopped { reason, .. } | Fate::AppliedButRunStopped { reason } if reason.is_of_the_environment()
    )
}

/// Where and why it is stopped: a stage that names a hindrance is about it.
fn place(fate: &Fate) -> Option<(Layer, Reason)> {
    match fate {
        Fate::Stopped { layer, reason } => Some((*layer, *reason)),
        Fate::AppliedButRunStopped { reason } => Some((Layer::Run, *reason)),
        Fate::Applied => None,
    }
}

/// Whether a hindered event shows all the same that something else was to become of it: it passed a layer that was to stop
/// it, or had an effect that it was not to have.
fn was_seen_before(truth: &Fate, expected: &Fate) -> bool {
    let at = truth.stops_at().unwrap_or(Layer::Run);
    let stops = expected.stops_at().filter(|layer| *layer != Layer::Ready);
    stops.is_some_and(|layer| layer < at) || (truth.stops_at().is_none() && stops.is_some())
}

#[test]
fn what_the_environment_did_not_take_is_told_in_the_words_of_whoever_said_so() {
    for (truth, words) in [
        (
            stopped(Layer::Intake, Reason::PublishFailed),
            "500 failed to record event",
        ),
        (stopped(Layer::Submit, Reason::Unavailable), "Unauthorized"),
        (
            stopped(Layer::Run, Reason::Unavailable),
            "ledger.db stayed locked",
        ),
    ] {
        let (world, facts) = world(&[(truth.clone(), Fate::Applied)]);
        let judgements = judged(&world, &facts);
        let verdict = &judgements[0].verdict;
        let because = verdict.because.clone().unwrap_or_default();
        assert_eq!(verdict.outcome, Outcome::Unproven, "{truth}: {verdict:?}");
        assert!(
            because.contains(words) && because.contains("environment"),
            "{because}"
        );
        // Nor is the filter blamed for it.
        assert!(
            judgements
                .iter()
                .all(|one| one.verdict.outcome != Outcome::Refuted),
            "{judgements:?}"
        );
    }
}

#[test]
fn every_fate_is_proven_by_its_story_and_refuted_by_every_other() {
    for truth in fates() {
        for expected in fates() {
            let (world, facts) = world(&[(truth.clone(), expected.clone())]);
            let verdict = &judged(&world, &facts)[0].verdict;
            // What is stored after the subscription was not early; who sent it could not know.
            let late = expected.stops_at() == Some(Layer::Ready)
                && !matches!(truth.stops_at(), Some(Layer::Intake | Layer::Bus));
            let want = if truth == expected {
                Outcome::Proven
            } else if late
                || (hindered(&truth)
                    && place(&truth) != place(&expected)
                    && !was_seen_before(&truth, &expected))
            {
                Outcome::Unproven
            } else {
                Outcome::Refuted
            };
            assert_eq!(
                verdict.outcome, want,
                "{truth} judged as {expected}: {verdict:?}"
            );
            assert!(!verdict.facts.is_empty());
        }
    }
}

#[test]
fn a_probe_that_was_not_sent_is_unproven() {
    let expected = [Expectation {
        probe: "order".to_owned(),
        trace: None,
        fate: Fate::Applied,
        control: false,
    }];
    let judgements = judge(OCCASION, &expected, &[], &[]);
    assert_eq!(judgements[0].verdict.outcome, Outcome::Unproven);
    assert_eq!(
        judgements[0].verdict.because.as_deref(),
        Some("it was not sent")
    );
}

#[test]
fn what_could_not_be_looked_at_is_named() {
    for (drop, because) in [
        ("discarded", "no line of the Sensor names it"),
        ("nothing", ""),
    ] {
        let (world, mut facts) = world(&[(missing(), missing())]);
        facts.retain(|fact| {
            !(drop == "discarded" && matches!(fact.observation, Observation::Discarded { .. }))
        });
        let verdict = &judged(&world, &facts)[0].verdict;
        let text = verdict.because.clone().unwrap_or_default();
        assert!(text.contains(because), "{text}");
        assert_eq!(verdict.outcome == Outcome::Proven, drop == "nothing");
    }
}

#[test]
fn the_filter_is_right_only_by_one_pod_instance() {
    let (mut world, _) = world(&[(Fate::Applied, Fate::Applied), (missing(), missing())]);
    let facts = |world: &[(Request, Fate)]| {
        numbered(
            world
                .iter()
                .flat_map(|(request, _)| request.facts())
                .collect(),
        )
    };
    let last = judged(&world, &facts(&world)).pop().unwrap();
    assert_eq!(last.probe, None);
    assert_eq!(last.verdict.outcome, Outcome::Proven);
    assert_eq!(
        last.verdict.claim,
        "the filter accepts arrival-0 and rejects arrival-1"
    );

    world[1].0.instance = 1;
    let last = judged(&world, &facts(&world)).pop().unwrap();
    assert_eq!(last.verdict.outcome, Outcome::Unproven);
    assert!(
        last.verdict
            .because
            .unwrap()
            .contains("another pod instance")
    );
}

#[test]
fn one_kind_of_probe_makes_a_narrower_claim() {
    let (world_a, facts) = world(&[(Fate::Applied, Fate::Applied)]);
    let claim = judged(&world_a, &facts).pop().unwrap().verdict.claim;
    assert!(
        claim.contains("does not show that it rejects anything"),
        "{claim}"
    );
    let (world_r, facts) = world(&[(missing(), missing())]);
    let claim = judged(&world_r, &facts).pop().unwrap().verdict.claim;
    assert!(
        claim.contains("does not show that it accepts anything"),
        "{claim}"
    );
    let intake = stopped(Layer::Intake, Reason::NoSuchEndpoint);
    let (world_n, facts) = world(&[(intake.clone(), intake)]);
    assert_eq!(judged(&world_n, &facts).len(), 1);
}

#[test]
fn a_filter_that_lets_the_wrong_one_go_is_refuted() {
    let (world, facts) = world(&[(Fate::Applied, Fate::Applied), (Fate::Applied, missing())]);
    let judgements = judged(&world, &facts);
    assert_eq!(judgements[1].verdict.outcome, Outcome::Refuted);
    assert_eq!(judgements[2].verdict.outcome, Outcome::Refuted);
    assert_eq!(
        judgements[2].verdict.because.as_deref(),
        Some("it accepted arrival-1")
    );
}

#[test]
fn two_effects_of_one_arrival_are_not_applied() {
    let (world, mut facts) = world(&[(Fate::Applied, Fate::Applied)]);
    let mut again: Fact = facts
        .iter()
        .find(|fact| matches!(fact.observation, Observation::LedgerEffect { .. }))
        .unwrap()
        .clone();
    again.seq = 99;
    again.execution = Some("uid-again".to_owned());
    facts.push(again);
    let verdict = &judged(&world, &facts)[0].verdict;
    assert_eq!(verdict.outcome, Outcome::Refuted);
    assert!(verdict.because.as_ref().unwrap().contains("+2"));
}

/// The Sensor's line stands against a row that names an execution which nobody created.
#[test]
fn a_row_written_by_hand_undoes_no_line_of_the_sensor() {
    let forbidden = Fate::Stopped {
        layer: Layer::Submit,
        reason: Reason::Forbidden,
    };
    for truth in [missing(), forbidden] {
        let (world, mut facts) = world(&[(truth.clone(), Fate::Applied)]);
        let row = Request::new(7, Fate::Applied)
            .facts()
            .into_iter()
            .filter(|fact| fact.layer == Layer::Effect);
        for (index, mut fact) in row.enumerate() {
            fact.seq = 90 + index as u64;
            fact.arrival = Some(world[0].0.arrival.clone());
            facts.push(fact);
        }
        let judgement = &judged(&world, &facts)[0];
        assert_eq!(judgement.verdict.outcome, Outcome::Refuted, "{judgement:?}");
        assert_eq!(judgement.observed.as_ref(), Some(&truth));
    }
}

#[test]
fn a_stage_is_decided_once_nothing_is_unproven() {
    let (world, facts) = world(&[(Fate::Applied, Fate::Applied), (missing(), missing())]);
    let probes: Vec<ProbeRun> = world
        .iter()
        .map(|(request, _)| ProbeRun {
            name: request.arrival.clone(),
            trace: request.trace.clone(),
            attempt: 1,
        })
        .collect();
    let expected: Vec<Expectation> = world
        .iter()
        .map(|(request, fate)| Expectation {
            probe: request.arrival.clone(),
            trace: Some(request.trace.clone()),
            fate: fate.clone(),
            control: false,
        })
        .collect();
    let decided =
        |facts: &[Fact]| is_decided(&expected, &rows(&probes, facts, SCOPE), facts, SCOPE);
    assert!(decided(&facts));
    let without_line: Vec<Fact> = facts
        .iter()
        .filter(|fact| !matches!(fact.observation, Observation::Triggered { .. }))
        .cloned()
        .collect();
    let fates = rows(&probes, &without_line, SCOPE);
    assert!(fates.iter().all(|row| row.fate.is_some()));
    assert!(
        !decided(&without_line),
        "which pod accepted it is not known yet"
    );
}

fn repeated(facts: Vec<Fact>) -> Verdict {
    let request = Request::new(1, Fate::Applied);
    let facts = numbered(facts);
    let probe = ProbeRun {
        name: "order".to_owned(),
        trace: request.trace,
        attempt: 1,
    };
    not_repeated(&rows(&[probe], &facts, SCOPE)[0], &facts, SCOPE)
}

#[test]
fn nothing_happened_needs_a_kept_consumer_or_a_window() {
    let story = Request::new(1, Fate::Applied).facts();
    let with = |more: Fact| story.iter().cloned().chain([more]).collect::<Vec<_>>();
    let window = || fact(Layer::Submit, Observation::Window { seconds: 10 });
    assert_eq!(repeated(story.clone()).outcome, Outcome::Proven);
    assert_eq!(repeated(with(consumer(1, 30))).outcome, Outcome::Proven);
    assert_eq!(
        repeated(with(consumer(20, 30))).outcome,
        Outcome::Unproven,
        "created anew"
    );

    let blind: Vec<Fact> = story
        .iter()
        .filter(|fact| !matches!(fact.observation, Observation::Consumer { .. }))
        .cloned()
        .collect();
    assert_eq!(repeated(blind.clone()).outcome, Outcome::Unproven);
    let late = blind.iter().cloned().chain([window()]).collect();
    assert_eq!(repeated(late).outcome, Outcome::Proven);
    let early = [window()].into_iter().chain(blind).collect();
    assert_eq!(
        repeated(early).outcome,
        Outcome::Unproven,
        "waited before it happened"
    );
}

/// An order that was refused at its submit, and the reads of consumers in later attempts.
fn stays(later: &[(u32, Fact)]) -> Verdict {
    let request = Request::new(1, stopped(Layer::Submit, Reason::Forbidden));
    let mut facts = request.facts();
    facts.extend(later.iter().cloned().map(|(attempt, mut fact)| {
        fact.attempt = attempt;
        fact
    }));
    let facts = numbered(facts);
    let probe = ProbeRun {
        name: "order".to_owned(),
        trace: request.trace.clone(),
        attempt: 1,
    };
    let row = rows(&[probe], &facts, SCOPE)[0].clone();
    stays_as_it_was(&row, "forbidden", &facts, SCOPE, 3)
}

/// A message at 11, its consumer of then (made at 1), and that of a dependency which was renamed later.
#[test]
fn what_no_consumer_can_hand_out_any_more_stays_as_it_was() {
    let same = |floor: u64| consumer(1, floor);
    let later = |floor: u64| consumer(12, floor);
    let early = |floor: u64| consumer(5, floor);
    for (reads, outcome) in [
        (vec![(3, same(13))], Outcome::Proven),
        (vec![(2, same(12)), (3, same(13))], Outcome::Proven),
        (vec![(3, later(13))], Outcome::Proven),
        (vec![(2, later(12)), (3, later(13))], Outcome::Proven),
        (vec![(2, later(12)), (3, consumer(13, 14))], Outcome::Proven),
        // Nobody has looked since.
        (vec![], Outcome::Unproven),
        (vec![(2, same(12))], Outcome::Unproven),
        (vec![(2, later(12))], Outcome::Unproven),
        (vec![(4, later(13))], Outcome::Unproven),
        // One that was made before it may still hand it out.
        (vec![(3, early(5))], Outcome::Unproven),
        (vec![(2, early(5)), (3, later(13))], Outcome::Unproven),
        (vec![(3, early(13))], Outcome::Proven),
    ] {
        assert_eq!(stays(&reads).outcome, outcome, "{reads:?}");
    }
}

#[test]
fn a_second_workflow_of_one_arrival_is_a_replay() {
    let mut story = Request::new(1, Fate::Applied).facts();
    let mut again = story
        .iter()
        .find(|fact| matches!(fact.observation, Observation::WorkflowCreated { .. }))
        .unwrap()
        .clone();
    again.execution = Some("uid-again".to_owned());
    story.push(again);
    assert_eq!(repeated(story).outcome, Outcome::Refuted);
}

fn pairs() -> impl Strategy<Value = Vec<(Fate, Fate)>> {
    let fate = || prop::sample::select(fates());
    let pair = prop_oneof![
        fate().prop_map(|fate| (fate.clone(), fate)),
        (fate(), fate())
    ];
    prop::collection::vec(pair, 1..4)
}

proptest! {
    /// From true facts, however few, nothing false is proven and nothing true is refuted.
    #[test]
    fn no_false_claim_is_proven(
        fates in pairs(),
        instances in prop::collection::vec(0..2u32, 4),
        keep in prop::collection::vec(prop::bool::weighted(0.8), 60),
    ) {
        let (mut world, _) = world(&fates);
        for ((request, _), instance) in world.iter_mut().zip(&instances) {
            request.instance = *instance;
        }
        let all = numbered(world.iter().flat_map(|(request, _)| request.facts()).collect());
        let some: Vec<Fact> = all
            .iter()
            .zip(keep.iter().cycle())
            .filter(|(_, keep)| **keep)
            .map(|(fact, _)| fact.clone())
            .collect();
        let whole = judged(&world, &all);
        let part = judged(&world, &some);
        for (whole, part) in whole.iter().zip(&part) {
            match whole.verdict.outcome {
                Outcome::Proven => prop_assert_ne!(part.verdict.outcome, Outcome::Refuted),
                Outcome::Refuted | Outcome::Unproven => {
                    prop_assert_ne!(part.verdict.outcome, Outcome::Proven, "{:?}", part);
                }
            }
        }
    }

    #[test]
    fn older_attempts_change_no_verdict(fates in pairs(), old in pairs()) {
        let (world_now, facts) = world(&fates);
        let (_, older) = world(&old);
        let both: Vec<Fact> = facts
            .iter()
            .cloned()
            .chain(older.into_iter().map(|mut fact| {
                fact.seq += 1000;
                fact.attempt = 2;
                fact
            }))
            .collect();
        prop_assert_eq!(judged(&world_now, &facts), judged(&world_now, &both));
    }
}

#[test]
fn an_order_that_was_meant_to_be_early_and_was_not_is_nobodys_fault() {
    let early = stopped(Layer::Ready, Reason::NotSubscribed);
    let (requests, facts) = world(&[(Fate::Applied, early.clone())]);
    let late = &judged(&requests, &facts)[0].verdict;
    assert_eq!(late.outcome, Outcome::Unproven, "{late:?}");
    let because = late.because.as_deref().unwrap_or_default();
    assert!(because.contains("not early"), "{late:?}");
    assert!(late.is_too_late());
    let (requests, facts) = world(&[(early.clone(), early)]);
    assert_eq!(
        judged(&requests, &facts)[0].verdict.outcome,
        Outcome::Proven
    );
}
