//! The recovery steps for the unresolved cases at hand, as Markdown, from the journal alone.

use std::collections::BTreeMap;

use crate::evidence::{Entry, Fact, Observation};

/// A delivery whose outcome nobody knows, as it was last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    pub lab: String,
    pub order: String,
    pub action: String,
    /// The line of the change that left it unresolved.
    pub line: String,
    /// Uid of the Workflow that may have done the work.
    pub workflow: String,
}

/// The cases whose last change was to `unresolved`, in order of that change.
#[must_use]
pub fn cases(entries: &[Entry]) -> Vec<Case> {
    last_in(entries, "unresolved")
}

/// The claims that were in work when this session last looked: done by now, or left by a run that is gone.
#[must_use]
pub fn in_work(entries: &[Entry]) -> Vec<Case> {
    last_in(entries, "processing")
}

fn last_in(entries: &[Entry], wanted: &str) -> Vec<Case> {
    let mut last: BTreeMap<(&str, &str, &str), &Fact> = BTreeMap::new();
    for entry in entries {
        if let Entry::Fact(fact) = entry
            && let Observation::ClaimChanged { action, .. } = &fact.observation
        {
            let order = fact.business_key.as_deref().unwrap_or_default();
            last.insert((&fact.lab, order, action), fact);
        }
    }
    let mut open: Vec<(u64, Case)> = last
        .into_iter()
        .filter(|(_, fact)| {
            matches!(&fact.observation, Observation::ClaimChanged { state, .. } if state == wanted)
        })
        .map(|((lab, order, action), fact)| {
            let case = Case {
                lab: lab.to_owned(),
                order: order.to_owned(),
                action: action.to_owned(),
                line: fact.line.clone(),
                workflow: fact.execution.clone().unwrap_or_default(),
            };
            (fact.seq, case)
        })
        .collect();
    open.sort_by_key(|(seq, _)| *seq);
    open.into_iter().map(|(_, case)| case).collect()
}

/// The runbook: what not to do, what to do for each case, and what may become one.
#[must_use]
pub fn render(cases: &[Case], in_work: &[Case]) -> String {
    let mut out = String::from("# Runbook: outcomes that nobody saw\n\n");
    if cases.is_empty() {
        out.push_str(
            "No case is unresolved, as far as this session has seen. `eventlab ledger claims` shows how it is now.\n",
        );
        out.push_str(&still(in_work));
        return out;
    }
    out.push_str(&format!(
        "{} unresolved, as this session last saw {}. `eventlab ledger claims` shows how it is now.\n\n",
        cases.len(),
        if cases.len() == 1 { "it" } else { "them" }
    ));
    out.push_str(RULES);
    for (number, case) in cases.iter().enumerate() {
        out.push_str(&one(number + 1, case));
    }
    out.push_str(&still(in_work));
    out.push_str(AFTER);
    out
}

/// Claims that somebody works on, or nobody any more.
fn still(in_work: &[Case]) -> String {
    if in_work.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "\n## In work when last seen

Done by now, or left by a run that is gone. Once the lease is over, `eventlab ledger reconcile` takes such a claim out of its \
hands: `failed` where the call had not begun, else unresolved, and looked up at once.

",
    );
    for case in in_work {
        out.push_str(&format!(
            "- `{}`, action `{}` (lab {}), by Workflow `{}`\n",
            case.order, case.action, case.lab, case.workflow
        ));
    }
    out
}

const RULES: &str = "**Until a case is settled:** submit no Workflow for it, retry none, delete no claim. The claim holds every \
retry back, and that is what it is for. A red Workflow does not say that the work was not done.

";

const AFTER: &str = "
## When all are settled

1. `eventlab ledger claims`: nothing is `unresolved`.
2. `eventlab ledger verify`: effects and balances agree, and no key was applied twice.
3. For a case that was *absent*: `eventlab ledger replay --order-id ORDER --action ACTION --by NAME`. It goes through the \
same claim as every run.
";

/// A word as a shell takes it, whatever is in it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn one(number: usize, case: &Case) -> String {
    let Case {
        lab,
        order,
        action,
        line,
        workflow,
    } = case;
    let (quoted_order, quoted_action) = (quoted(order), quoted(action));
    format!(
        "## {number}. Order `{order}`, action `{action}` (lab {lab})

    {line}

1. **Look at the destination**, by the source id `{order}:{action}`. The entry may carry the uid of Workflow `{workflow}`.
   - It can be searched: `eventlab ledger reconcile` (runs in a pod beside the ledger).
   - It honours idempotency keys, and its window is not over: `eventlab ledger reconcile --repeat-with-key` asks again with the \
same key.
   - Neither: a person looks with the destination's own means.
2. **Settle it**, if no program could: `eventlab ledger decide --order-id {quoted_order} --action {quoted_action} --found REFERENCE --by \
NAME --note 'WHAT WAS SEEN'`. `--absent` instead only if nothing can still arrive there: a call that hangs may still be written.
3. **If nobody can find out**, it stays unresolved, and the risk that remains is written down by name: `eventlab ledger decide \
--order-id {quoted_order} --action {quoted_action} --unknown --by NAME --note 'THE RISK'`.

"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Layer;
    use crate::evidence::testing::{fact, numbered};

    fn change(order: &str, state: &str) -> Fact {
        Fact {
            business_key: Some(order.to_owned()),
            execution: Some("uid-1".to_owned()),
            ..fact(
                Layer::Effect,
                Observation::ClaimChanged {
                    action: "notify".to_owned(),
                    state: state.to_owned(),
                    reference: String::new(),
                },
            )
        }
    }

    fn entries(changes: &[(&str, &str)]) -> Vec<Entry> {
        let facts = changes
            .iter()
            .map(|(order, state)| change(order, state))
            .collect();
        numbered(facts).into_iter().map(Entry::Fact).collect()
    }

    #[test]
    fn a_claim_in_work_is_named_since_its_run_may_be_gone() {
        let entries = entries(&[("a", "processing"), ("b", "processing"), ("b", "completed")]);
        let in_work = in_work(&entries);
        assert_eq!(cases(&entries), []);
        let text = render(&[], &in_work);
        assert!(text.contains("No case is unresolved"), "{text}");
        assert!(text.contains("- `a`, action `notify`"), "{text}");
        assert!(!text.contains("- `b`"), "{text}");
    }

    #[test]
    fn a_case_is_at_hand_until_its_last_change_settles_it() {
        let entries = entries(&[
            ("b", "processing"),
            ("b", "unresolved"),
            ("a", "unresolved"),
            ("c", "unresolved"),
            ("c", "completed"),
            ("a", "unresolved"),
        ]);
        let cases = cases(&entries);
        let orders: Vec<&str> = cases.iter().map(|case| case.order.as_str()).collect();
        assert_eq!(orders, ["b", "a"]);
        let text = render(&cases, &[]);
        for part in [
            "2 unresolved",
            "`b:notify`",
            "--absent",
            "--order-id 'b' --action 'notify' --unknown",
            "ledger verify",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("`c:notify`"), "{text}");
        assert!(render(&[], &[]).contains("No case is unresolved"));
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
