//! A stage counts as passed only while the journal holds the facts that proved each of its checks.

use std::path::Path;

use eventlab::evidence::journal::Judgement;
use eventlab::evidence::{Entry, Outcome};
use eventlab::session::SessionView;

use crate::program::{eventlab, text};

fn judgements(session: &Path) -> Vec<Judgement> {
    let entries = SessionView::open(session).unwrap().entries.into_iter();
    let judgements = entries.filter_map(|entry| match entry {
        Entry::Judgement(judgement) => Some(judgement),
        _ => None,
    });
    judgements
        .filter(|one| one.verdict.outcome == Outcome::Proven && !one.verdict.facts.is_empty())
        .collect()
}

/// The journal without the facts on which a judgement rests and others of its stage do not.
fn without_facts_of(session: &Path, judgement: &Judgement, others: &[Judgement]) -> Option<String> {
    let shared = |fact: &u64| {
        let mut others = others.iter().filter(|other| *other != judgement);
        others.any(|other| other.verdict.facts.contains(fact))
    };
    let own: Vec<u64> = judgement.verdict.facts.clone();
    let own: Vec<u64> = own.into_iter().filter(|fact| !shared(fact)).collect();
    let text = std::fs::read_to_string(session.join("evidence.jsonl")).unwrap();
    let kept = text.lines().filter(|line| {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        !entry["fact"]["seq"]
            .as_u64()
            .is_some_and(|seq| own.contains(&seq))
    });
    let kept: Vec<&str> = kept.collect();
    (!own.is_empty()).then(|| format!("{}\n", kept.join("\n")))
}

/// Each kind of check of a lab: without its facts alone, its stage is open again, by name.
fn each_check_is_needed(lab: &str, is_of_the_kind: impl Fn(&Judgement) -> bool) {
    let state = tempfile::tempdir().unwrap();
    let output = eventlab(state.path(), &["run", lab, "--keep"]);
    assert!(output.status.success(), "{}", text(&output));
    let session = state.path().join("embedded");
    let journal = session.join("evidence.jsonl");
    let whole = std::fs::read_to_string(&journal).unwrap();
    let all = judgements(&session);
    let mut tried = 0;
    for judgement in all.iter().filter(|one| is_of_the_kind(one)) {
        let Some(rest) = without_facts_of(&session, judgement, &all) else {
            continue;
        };
        std::fs::write(&journal, rest).unwrap();
        let said = text(&eventlab(state.path(), &["status"]));
        let wanted = format!(
            "stage `{}` of {lab} does not count as passed any more",
            judgement.stage
        );
        assert!(said.contains(&wanted), "{judgement:?}\n{said}");
        tried += 1;
    }
    assert!(tried > 0, "{lab} has no such check: {all:#?}");
    std::fs::write(&journal, whole).unwrap();
    let said = text(&eventlab(state.path(), &["status"]));
    assert!(!said.contains("does not count"), "{said}");
}

#[test]
fn a_stage_counts_only_while_its_probes_are_proven() {
    each_check_is_needed("first-order", |one| one.probe.is_some());
}

#[test]
fn a_stage_counts_only_while_its_rights_are_proven() {
    each_check_is_needed("rbac", |one| one.access.is_some());
}

#[test]
fn a_stage_counts_only_while_its_orders_are_proven() {
    each_check_is_needed("claim", |one| one.order.is_some());
}
