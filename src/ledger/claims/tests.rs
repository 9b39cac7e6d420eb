//! The states of a claim, and who may change them.

use super::*;
use crate::ledger::Reader;

fn request(workflow: &str) -> ClaimRequest {
    ClaimRequest {
        order_id: "o-1".into(),
        action: "notify".into(),
        amount_cents: 4200,
        workflow_uid: workflow.into(),
        arrival: "a-1".into(),
        lease: Duration::from_secs(30),
    }
}

fn ledger() -> (tempfile::TempDir, Ledger, Reader) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let ledger = Ledger::open(&path).unwrap();
    (folder, ledger, Reader::new(path))
}

fn now(state: &str) -> Settlement {
    Settlement::Now(state.to_owned())
}

/// Sequence of the claim as it stands.
fn seq(reader: &Reader) -> i64 {
    reader.claims(0, 10).unwrap().items[0].seq
}

fn look(ledger: &mut Ledger, reader: &Reader, finding: &Finding) -> Settlement {
    let seq = seq(reader);
    ledger.reconcile("o-1", "notify", seq, finding).unwrap()
}

fn won(outcome: ClaimOutcome) -> Owner {
    match outcome {
        ClaimOutcome::Won(owner) => owner,
        other => panic!("not won: {other:?}"),
    }
}

fn states(reader: &Reader) -> Vec<String> {
    reader
        .transitions(0, 100)
        .unwrap()
        .items
        .into_iter()
        .map(|row| row.state)
        .collect()
}

#[test]
fn one_run_wins_and_the_others_learn_what_came_of_it() {
    let (_folder, mut ledger, reader) = ledger();
    let owner = won(ledger.claim(&request("a")).unwrap());
    assert!(
        matches!(ledger.claim(&request("b")).unwrap(), ClaimOutcome::Busy { workflow_uid, .. } if workflow_uid == "a")
    );
    ledger.begin_write(&owner).unwrap();
    ledger.complete(&owner, "crm-7").unwrap();
    let later = ledger.claim(&request("b")).unwrap();
    assert_eq!(
        later,
        ClaimOutcome::Completed {
            reference: "crm-7".into()
        }
    );
    let conflict = ledger
        .claim(&ClaimRequest {
            amount_cents: 1,
            ..request("c")
        })
        .unwrap();
    assert_eq!(conflict, ClaimOutcome::Conflict { amount_cents: 4200 });
    assert_eq!(states(&reader), ["processing", "processing", "completed"]);
    let claim = &reader.claims(0, 10).unwrap().items[0];
    assert_eq!(
        (claim.state.as_str(), claim.reference.as_str(), claim.seq),
        ("completed", "crm-7", 3)
    );
}

#[test]
fn a_run_that_died_before_the_write_is_followed() {
    let (_folder, mut ledger, _reader) = ledger();
    let dead = won(ledger.claim(&request("a")).unwrap());
    ledger.advance_clock(Duration::from_secs(29)).unwrap();
    assert!(matches!(
        ledger.claim(&request("b")).unwrap(),
        ClaimOutcome::Busy { .. }
    ));
    ledger.advance_clock(Duration::from_secs(2)).unwrap();
    let owner = won(ledger.claim(&request("b")).unwrap());
    // It was not dead, only slow: it can change nothing any more.
    assert!(matches!(
        ledger.begin_write(&dead),
        Err(LedgerError::NotOwner { .. })
    ));
    assert!(matches!(
        ledger.complete(&dead, "crm-1"),
        Err(LedgerError::NotOwner { .. })
    ));
    assert!(matches!(
        ledger.fail(&dead, "x"),
        Err(LedgerError::NotOwner { .. })
    ));
    ledger.begin_write(&owner).unwrap();
    ledger.complete(&owner, "crm-2").unwrap();
    assert!(matches!(
        ledger.complete(&owner, "crm-3"),
        Err(LedgerError::NotOwner { .. })
    ));
}

#[test]
fn a_run_that_may_have_written_leaves_the_claim_unresolved_for_ever() {
    let (_folder, mut ledger, reader) = ledger();
    let owner = won(ledger.claim(&request("a")).unwrap());
    ledger.begin_write(&owner).unwrap();
    ledger.advance_clock(Duration::from_secs(31)).unwrap();
    assert!(matches!(
        ledger.claim(&request("b")).unwrap(),
        ClaimOutcome::Unresolved { .. }
    ));
    ledger
        .advance_clock(Duration::from_secs(365 * 24 * 3600))
        .unwrap();
    assert!(matches!(
        ledger.claim(&request("b")).unwrap(),
        ClaimOutcome::Unresolved { .. }
    ));
    assert!(matches!(
        ledger.complete(&owner, "crm-1"),
        Err(LedgerError::NotOwner { .. })
    ));

    let unknown = Finding::Unknown("no search".into());
    let looked_up = seq(&reader);
    assert_eq!(look(&mut ledger, &reader, &unknown), now("unresolved"));
    // What was looked up before somebody else wrote something settles nothing.
    assert_eq!(
        ledger
            .reconcile("o-1", "notify", looked_up, &Finding::Absent)
            .unwrap(),
        Settlement::Untouched("unresolved".into())
    );
    let found = Finding::Found("crm-1".into());
    assert_eq!(look(&mut ledger, &reader, &found), now("completed"));
    // A second look changes nothing.
    assert_eq!(
        look(&mut ledger, &reader, &Finding::Absent),
        Settlement::Untouched("completed".into())
    );
    assert_eq!(
        states(&reader),
        [
            "processing",
            "processing",
            "unresolved",
            "unresolved",
            "completed"
        ]
    );
    assert_eq!(
        ledger
            .reconcile("none", "notify", 1, &Finding::Absent)
            .unwrap(),
        Settlement::Missing
    );
}

#[test]
fn what_a_person_writes_down_stays_and_what_is_not_open_is_not_hers_to_decide() {
    let (_folder, mut ledger, reader) = ledger();
    let dana = Person {
        name: "dana",
        note: "may be there twice",
    };
    let found = Finding::Found("crm-9".into());
    let owner = won(ledger.claim(&request("a")).unwrap());
    let decide = |ledger: &mut Ledger, finding: &Finding| {
        ledger.decide("o-1", "notify", finding, dana).unwrap()
    };
    assert_eq!(
        decide(&mut ledger, &found),
        Settlement::Untouched("processing".into())
    );
    ledger.begin_write(&owner).unwrap();
    ledger.mark_unresolved(&owner, "timeout").unwrap();
    let nobody = Finding::Unknown(String::new());
    assert_eq!(decide(&mut ledger, &nobody), now("unresolved"));
    // A look in vain does not wipe the risk out.
    assert_eq!(
        look(&mut ledger, &reader, &Finding::Unknown("no search".into())),
        Settlement::Untouched("unresolved".into())
    );
    let detail = reader.claims(0, 10).unwrap().items.remove(0).detail;
    assert_eq!(
        detail,
        "nobody can find out, decided by dana: may be there twice"
    );
    for (finding, name) in [
        (Finding::Found(String::new()), "dana"),
        (found.clone(), " "),
        // A risk that nobody put into words.
        (nobody.clone(), "dana"),
    ] {
        let by = Person { name, note: "" };
        let refused = ledger.decide("o-1", "notify", &finding, by);
        assert!(matches!(refused, Err(LedgerError::Invalid { .. })));
    }
    assert_eq!(decide(&mut ledger, &found), now("completed"));
    assert_eq!(
        decide(&mut ledger, &Finding::Absent),
        Settlement::Untouched("completed".into())
    );
    let row = reader.claims(0, 10).unwrap().items.remove(0);
    assert_eq!(
        (row.state.as_str(), row.reference.as_str()),
        ("completed", "crm-9")
    );
}

#[test]
fn what_is_certainly_not_there_may_be_tried_again() {
    let (_folder, mut ledger, reader) = ledger();
    let owner = won(ledger.claim(&request("a")).unwrap());
    ledger.begin_write(&owner).unwrap();
    ledger.mark_unresolved(&owner, "timeout").unwrap();
    assert_eq!(
        ledger.claim(&request("b")).unwrap(),
        ClaimOutcome::Unresolved {
            detail: "timeout".into()
        }
    );
    assert_eq!(look(&mut ledger, &reader, &Finding::Absent), now("failed"));
    let owner = won(ledger.claim(&request("b")).unwrap());
    ledger.fail(&owner, &"x".repeat(5000)).unwrap();
    let owner = won(ledger.claim(&request("c")).unwrap());
    ledger.advance_clock(Duration::from_secs(31)).unwrap();
    assert!(
        matches!(
            ledger.begin_write(&owner),
            Err(LedgerError::NotOwner { .. })
        ),
        "the lease is over"
    );
    assert!(
        reader
            .transitions(0, 100)
            .unwrap()
            .items
            .iter()
            .all(|row| row.detail.len() <= 512)
    );
}

#[test]
fn bad_requests_leave_nothing() {
    let (_folder, mut ledger, reader) = ledger();
    for bad in [
        ClaimRequest {
            order_id: String::new(),
            ..request("a")
        },
        ClaimRequest {
            workflow_uid: " ".into(),
            ..request("a")
        },
        ClaimRequest {
            amount_cents: 0,
            ..request("a")
        },
        ClaimRequest {
            lease: Duration::ZERO,
            ..request("a")
        },
        ClaimRequest {
            lease: Duration::MAX,
            ..request("a")
        },
    ] {
        assert!(
            matches!(ledger.claim(&bad), Err(LedgerError::Invalid { .. })),
            "{bad:?}"
        );
    }
    assert!(reader.claims(0, 10).unwrap().items.is_empty());
}
