use proptest::prelude::*;

use super::*;
use crate::evidence::testing::{LAB, Request, consumer, fact, fates, numbered, pod, requests};
use crate::evidence::trail::trace_id;

const SETTLED: Scope<'static> = Scope {
    lab: LAB,
    attempt: 1,
    settled: true,
};
const OPEN: Scope<'static> = Scope {
    settled: false,
    ..SETTLED
};

fn run_of(request: &Request) -> ProbeRun {
    ProbeRun {
        name: "probe".to_owned(),
        trace: request.trace.clone(),
        attempt: 1,
    }
}

fn row_with(request: &Request, facts: Vec<Fact>, scope: Scope<'_>) -> Row {
    rows(&[run_of(request)], &numbered(facts), scope).remove(0)
}

/// The facts of a request of this fate, without the kinds named.
fn without(fate: Fate, drop: &[&str]) -> (Request, Vec<Fact>) {
    let request = Request::new(1, fate);
    let facts = request
        .facts()
        .into_iter()
        .filter(|fact| !drop.contains(&kind(fact).as_str()))
        .collect();
    (request, facts)
}

fn kind(fact: &Fact) -> String {
    let value = serde_json::to_value(&fact.observation).unwrap();
    value["kind"].as_str().unwrap().to_owned()
}

/// `y`, `i`, `n`, `p` or `.` for each layer.
fn pattern(row: &Row) -> String {
    row.cells
        .iter()
        .map(|cell| match cell.state {
            CellState::Yes => 'y',
            CellState::Implied => 'i',
            CellState::No => 'n',
            CellState::Pending => 'p',
            CellState::Unknown => '.',
        })
        .collect()
}

#[test]
fn a_full_story_shows_its_own_fate() {
    for fate in fates() {
        let request = Request::new(1, fate.clone());
        let row = row_with(&request, request.facts(), SETTLED);
        assert_eq!(row.fate.as_ref(), Some(&fate), "{row:#?}");
        assert_eq!(row.unproven_between, None);
    }
}

#[test]
fn cells_of_one_request() {
    let applied = || Fate::Applied;
    let missing = || Fate::Stopped {
        layer: Layer::Filter,
        reason: Reason::MissingPath,
    };
    let early = || Fate::Stopped {
        layer: Layer::Ready,
        reason: Reason::NotSubscribed,
    };
    for (name, fate, drop, settled, open) in [
        ("everything", applied(), vec![], "yyyyyyy", "yyyyyyy"),
        (
            "no line, but the Workflow's label",
            applied(),
            vec!["triggered"],
            "yyyiyyy",
            "yyyiyyy",
        ),
        (
            "only the ledger",
            applied(),
            vec![
                "triggered",
                "workflow-created",
                "workflow-phase",
                "http-answer",
                "consumer",
            ],
            "iiyii.y",
            "iiyiipy",
        ),
        (
            "the answer alone",
            applied(),
            vec![
                "received",
                "stored",
                "consumer",
                "triggered",
                "workflow-created",
                "workflow-phase",
                "ledger-attempt",
                "ledger-effect",
            ],
            ".y.....",
            ".yp....",
        ),
        (
            "judged without a line",
            missing(),
            vec!["discarded"],
            "yyy....",
            "yyyp...",
        ),
        ("rejected", missing(), vec![], "yyyn...", "yyyn..."),
        (
            "rejected, consumer not read",
            missing(),
            vec!["consumer"],
            "iyyn...",
            "iyyn...",
        ),
        ("too early", early(), vec![], "nyy....", "nyy...."),
        (
            "too early, and the consumer is not there yet",
            early(),
            vec!["consumer"],
            ".yy....",
            "pyyp...",
        ),
        (
            "submitted, not run",
            applied(),
            vec!["workflow-phase", "ledger-attempt", "ledger-effect"],
            "yyyyy..",
            "yyyyypp",
        ),
        (
            "an attempt row is no effect row",
            applied(),
            vec!["ledger-effect"],
            "yyyyyy.",
            "yyyyyyp",
        ),
    ] {
        let (request, facts) = without(fate, &drop);
        assert_eq!(
            pattern(&row_with(&request, facts.clone(), SETTLED)),
            settled,
            "{name}"
        );
        assert_eq!(
            pattern(&row_with(&request, facts, OPEN)),
            open,
            "{name}, open"
        );
    }
}

#[test]
fn a_row_without_a_no_says_between_which_layers() {
    for (drop, want) in [
        (vec!["workflow-phase"], (Some(Layer::Submit), Layer::Run)),
        (
            vec!["ledger-effect", "ledger-attempt"],
            (Some(Layer::Run), Layer::Effect),
        ),
        (
            vec![
                "triggered",
                "workflow-created",
                "workflow-phase",
                "ledger-effect",
                "ledger-attempt",
            ],
            (Some(Layer::Bus), Layer::Filter),
        ),
    ] {
        let (request, facts) = without(Fate::Applied, &drop);
        let row = row_with(&request, facts, SETTLED);
        assert_eq!(row.unproven_between, Some(want), "{drop:?}");
        assert_eq!(row.fate, None);
    }
    let request = Request::new(1, Fate::Applied);
    let row = row_with(&request, Vec::new(), SETTLED);
    assert_eq!(row.unproven_between, Some((None, Layer::Intake)));
}

#[test]
fn an_older_consumer_forbids_not_subscribed() {
    let early = Fate::Stopped {
        layer: Layer::Ready,
        reason: Reason::NotSubscribed,
    };
    let request = Request::new(1, early);
    let mut facts = request.facts();
    facts.push(consumer(3, 5));
    assert_eq!(
        row_with(&request, facts, SETTLED).cell(Layer::Ready).state,
        CellState::Yes
    );
}

#[test]
fn a_lost_answer_is_implied_by_the_message() {
    let request = Request::new(1, Fate::Applied);
    let mut facts = request.facts();
    facts[0].observation = Observation::AnswerLost {
        error: "closed".to_owned(),
    };
    let row = row_with(&request, facts.clone(), SETTLED);
    assert_eq!(row.cell(Layer::Intake).state, CellState::Implied);
    assert_eq!(row.fate, Some(Fate::Applied));
    facts.truncate(1);
    let row = row_with(&request, facts, SETTLED);
    assert_eq!(row.cell(Layer::Intake).state, CellState::Unknown);
    assert_eq!(row.cell(Layer::Intake).text, "lost");
}

#[test]
fn nothing_on_the_bus_needs_an_answer_and_a_complete_read() {
    let filtered = Fate::Stopped {
        layer: Layer::Bus,
        reason: Reason::SourceFilter,
    };
    for drop in ["http-answer", "not-stored"] {
        let (request, facts) = without(filtered.clone(), &[drop]);
        let row = row_with(&request, facts, SETTLED);
        assert_ne!(row.cell(Layer::Bus).state, CellState::No, "without {drop}");
        assert_eq!(row.fate, None);
    }
}

#[test]
fn facts_of_nowhere_prove_nothing() {
    let request = Request::new(1, Fate::Applied);
    type Spoil = fn(&mut Fact);
    let spoiled: [(&str, Spoil); 4] = [
        ("no attempt", |fact| fact.attempt = 0),
        ("an older attempt", |fact| fact.attempt = 7),
        ("another lab", |fact| fact.lab = "regex".to_owned()),
        ("not on disk", |fact| fact.seq = 0),
    ];
    for (name, spoil) in spoiled {
        let mut facts = numbered(request.facts());
        facts.iter_mut().for_each(spoil);
        let row = rows(&[run_of(&request)], &facts, SETTLED).remove(0);
        assert_eq!(pattern(&row), ".......", "{name}");
        assert_eq!(counters(&facts, SETTLED), Counters::default(), "{name}");
    }
    let (request, mut facts) = without(
        Fate::Stopped {
            layer: Layer::Filter,
            reason: Reason::Mismatch,
        },
        &[],
    );
    facts.iter_mut().for_each(|fact| fact.pod = None);
    assert_eq!(pattern(&row_with(&request, facts, SETTLED)), "yyy....");
}

#[test]
fn accepted_wins_over_discarded() {
    let request = Request::new(1, Fate::Applied);
    let mut facts = request.facts();
    let mut line = fact(Layer::Filter, Observation::Discarded { error: None });
    line.arrival = Some(request.arrival.clone());
    line.pod = Some(pod(4));
    facts.insert(0, line);
    assert_eq!(row_with(&request, facts, SETTLED).fate, Some(Fate::Applied));
}

#[test]
fn two_requests_with_one_trace_prove_nothing_behind_the_bus() {
    let first = Request::new(1, Fate::Applied);
    let mut second = Request::new(2, Fate::Applied);
    second.trace = first.trace.clone();
    let mut facts = first.facts();
    facts.extend(second.facts());
    let row = row_with(&first, facts, SETTLED);
    assert_eq!(row.cell(Layer::Filter).text, "2 arrivals");
    assert_eq!(row.fate, None);
    assert_eq!(row.arrival, None);
}

#[test]
fn own_requests_have_rows_of_their_own() {
    let probe = Request::new(1, Fate::Applied);
    let mut bare = Request::new(2, Fate::Applied);
    bare.trace = "none".to_owned();
    let mut named = Request::new(
        3,
        Fate::Stopped {
            layer: Layer::Filter,
            reason: Reason::Mismatch,
        },
    );
    named.trace = "my-curl".to_owned();
    let mut other = Request::new(4, Fate::Applied);
    other.trace = trace_id(LAB, 1, "earlier", 9);
    let facts: Vec<Fact> = [&probe, &bare, &named, &other]
        .into_iter()
        .flat_map(Request::facts)
        .collect();
    let rows = rows(&[run_of(&probe)], &numbered(facts), SETTLED);
    let names: Vec<_> = rows
        .iter()
        .map(|row| (row.probe.as_str(), row.trace.as_deref()))
        .collect();
    assert_eq!(
        names,
        [
            ("probe", Some(probe.trace.as_str())),
            (YOURS, None),
            (YOURS, Some("my-curl"))
        ]
    );
    assert_eq!(rows[1].fate, Some(Fate::Applied));
    assert_eq!(rows[2].first_failing(), Some(Layer::Filter));
}

#[test]
fn a_retry_has_its_own_row() {
    let first = Request::new(1, Fate::Applied);
    let retry = Request::new(
        2,
        Fate::Stopped {
            layer: Layer::Effect,
            reason: Reason::Duplicate,
        },
    );
    let facts: Vec<Fact> = [&first, &retry]
        .into_iter()
        .flat_map(Request::facts)
        .collect();
    let rows = rows(&[run_of(&first), run_of(&retry)], &numbered(facts), SETTLED);
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].fate, Some(Fate::Applied));
    assert_eq!(rows[1].cell(Layer::Effect).text, "duplicate");
}

#[test]
fn counters_stay_apart() {
    let facts: Vec<Fact> = fates()
        .into_iter()
        .enumerate()
        .flat_map(|(index, fate)| Request::new(index as u64, fate).facts())
        .collect();
    let twice: Vec<Fact> = facts.iter().chain(&facts).cloned().collect();
    let want = Counters {
        intakes: 17,
        approved: 12,
        completed: 4,
        effects: 4,
    };
    assert_eq!(counters(&numbered(facts), SETTLED), want);
    assert_eq!(
        counters(&numbered(twice), SETTLED),
        want,
        "facts seen twice"
    );
}

/// Kinds that are a layer's own positive facts.
fn own_kinds(layer: Layer) -> &'static [&'static str] {
    match layer {
        Layer::Ready => &["consumer"],
        Layer::Intake => &["http-answer"],
        Layer::Bus => &["stored"],
        Layer::Filter => &["triggered", "trigger-failed"],
        Layer::Submit => &["triggered", "workflow-created"],
        Layer::Run => &["workflow-phase"],
        Layer::Effect => &["ledger-effect"],
    }
}

fn worlds() -> impl Strategy<Value = Vec<Request>> {
    prop::collection::vec(prop::sample::select(fates()), 1..4).prop_map(requests)
}

/// Facts that contradict each other: identifiers exchanged at random.
fn soup() -> impl Strategy<Value = Vec<Fact>> {
    let pool: Vec<Fact> = fates()
        .into_iter()
        .enumerate()
        .flat_map(|(index, fate)| Request::new(index as u64 % 3, fate).facts())
        .collect();
    let one = (
        prop::sample::select(pool),
        0..4u64,
        0..3u32,
        any::<[bool; 4]>(),
    )
        .prop_map(|(mut fact, other, attempt, keep)| {
            let swap = Request::new(other, Fate::Applied);
            if !keep[0] {
                fact.trace = Some(swap.trace);
            }
            if !keep[1] {
                fact.arrival = Some(swap.arrival);
            }
            if !keep[2] {
                fact.pod = None;
            }
            if !keep[3] {
                fact.attempt = attempt;
            }
            fact
        });
    prop::collection::vec(one, 0..40)
}

proptest! {
    #[test]
    fn order_of_arrival_does_not_matter(
        facts in soup().prop_map(numbered).prop_flat_map(|facts| (Just(facts.clone()), Just(facts).prop_shuffle())),
        settled: bool,
    ) {
        let probes: Vec<ProbeRun> = (0..3).map(|n| run_of(&Request::new(n, Fate::Applied))).collect();
        let scope = Scope { settled, ..SETTLED };
        prop_assert_eq!(rows(&probes, &facts.0, scope), rows(&probes, &facts.1, scope));
        prop_assert_eq!(counters(&facts.0, scope), counters(&facts.1, scope));
    }

    #[test]
    fn facts_of_other_attempts_change_nothing(facts in soup().prop_map(numbered), settled: bool) {
        let probes: Vec<ProbeRun> = (0..3).map(|n| run_of(&Request::new(n, Fate::Applied))).collect();
        let scope = Scope { settled, ..SETTLED };
        let now: Vec<Fact> = facts.iter().filter(|fact| fact.attempt == 1).cloned().collect();
        prop_assert_eq!(rows(&probes, &facts, scope), rows(&probes, &now, scope));
        prop_assert_eq!(counters(&facts, scope), counters(&now, scope));
    }

    #[test]
    fn yes_needs_a_fact_of_its_own(facts in soup().prop_map(numbered), settled: bool) {
        let probes: Vec<ProbeRun> = (0..3).map(|n| run_of(&Request::new(n, Fate::Applied))).collect();
        for row in rows(&probes, &facts, Scope { settled, ..SETTLED }) {
            for layer in Layer::ALL {
                let cell = row.cell(layer);
                let kinds: Vec<String> = facts
                    .iter()
                    .filter(|fact| cell.facts.contains(&fact.seq))
                    .map(kind)
                    .collect();
                match cell.state {
                    CellState::Yes => prop_assert!(
                        kinds.iter().any(|kind| own_kinds(layer).contains(&kind.as_str())),
                        "{layer} {kinds:?}"
                    ),
                    CellState::Implied | CellState::No => prop_assert!(!kinds.is_empty(), "{layer}"),
                    CellState::Pending => prop_assert!(!settled),
                    CellState::Unknown => {}
                }
            }
            prop_assert_eq!(row.fate.is_none(), row.unproven_between.is_some());
        }
    }

    #[test]
    fn fewer_true_facts_never_give_another_fate(
        world in worlds(),
        keep in prop::collection::vec(any::<bool>(), 60),
    ) {
        let all: Vec<Fact> = world.iter().flat_map(Request::facts).collect();
        let some: Vec<Fact> = numbered(all)
            .into_iter()
            .zip(keep.iter().cycle())
            .filter_map(|(fact, keep)| keep.then_some(fact))
            .collect();
        let probes: Vec<ProbeRun> = world.iter().map(run_of).collect();
        for (row, request) in rows(&probes, &some, SETTLED).into_iter().zip(&world) {
            if let Some(fate) = row.fate {
                prop_assert_eq!(&fate, &request.fate);
            }
        }
    }
}

/// A request whose subject no consumer has, as read from the bus.
fn unheard(request: &Request) -> Fact {
    Fact {
        trace: Some(request.trace.clone()),
        arrival: Some(request.arrival.clone()),
        ..fact(
            Layer::Ready,
            Observation::NoConsumer {
                subject: "default.orders.other".to_owned(),
            },
        )
    }
}

#[test]
fn a_subject_that_no_consumer_has_stops_the_message_at_ready() {
    let not_subscribed = Fate::Stopped {
        layer: Layer::Ready,
        reason: Reason::NotSubscribed,
    };
    let (request, mut facts) = without(not_subscribed.clone(), &["consumer"]);
    assert_eq!(row_with(&request, facts.clone(), SETTLED).fate, None);
    facts.push(unheard(&request));
    assert_eq!(
        row_with(&request, facts, SETTLED).fate,
        Some(not_subscribed)
    );
}

#[test]
fn a_message_that_was_judged_was_heard_whatever_the_consumers_said() {
    for fate in [
        Fate::Applied,
        Fate::Stopped {
            layer: Layer::Filter,
            reason: Reason::Mismatch,
        },
    ] {
        let (request, mut facts) = without(fate.clone(), &[]);
        facts.push(unheard(&request));
        assert_eq!(row_with(&request, facts, SETTLED).fate, Some(fate));
    }
}
