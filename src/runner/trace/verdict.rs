//! What all findings of a trace say together.

use super::findings::{Finding, Standing};

/// What all findings say together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// It is known how far the event came, on each of its ways.
    pub proven: bool,
    pub text: String,
}

/// In one sentence how far the event came.
#[must_use]
pub fn verdict(findings: &[Finding]) -> Verdict {
    let is = |standing| move |one: &&Finding| one.standing == standing;
    let last = findings.iter().rfind(is(Standing::Through));
    let stopped = findings.iter().find(is(Standing::Stopped));
    // Behind the filter each trigger and each Workflow goes its own way; before it a later layer tells of the earlier.
    let open = findings
        .iter()
        .filter(|one| ["submit", "run"].contains(&one.layer))
        .find(is(Standing::Unproven));
    let unproven = |text: String| Verdict {
        proven: false,
        text: format!("unproven: {text}"),
    };
    match (stopped, last, open) {
        (Some(stopped), _, Some(open)) => unproven(format!(
            "it was stopped at {}: {}; beside that, {} is not known: {}",
            stopped.layer, stopped.line, open.layer, open.line
        )),
        (Some(stopped), last, None) => {
            let place = |one: &Finding| findings.iter().position(|other| std::ptr::eq(one, other));
            let beside =
                last.filter(|last| last.layer == stopped.layer || place(last) > place(stopped));
            let beside = beside.map_or(String::new(), |last| {
                format!("; beside that it came through {}", last.layer)
            });
            Verdict {
                proven: true,
                text: format!(
                    "proven: it was stopped at {}: {}{beside}",
                    stopped.layer, stopped.line
                ),
            }
        }
        (None, None, _) => unproven(match findings {
            [only] => only.line.clone(),
            _ => "nothing is known of it".to_owned(),
        }),
        (None, Some(last), open) => {
            let behind = findings.iter().skip_while(|one| !std::ptr::eq(*one, last));
            match behind.skip(1).find(is(Standing::Unproven)).or(open) {
                Some(next) => unproven(format!(
                    "it came through {}; {} is not known: {}",
                    last.layer, next.layer, next.line
                )),
                None => Verdict {
                    proven: true,
                    text: format!("proven: it came through {}", last.layer),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::findings::Proof;
    use super::*;

    /// Each way of an event counts: what is open on one of them is open.
    #[test]
    fn a_verdict_speaks_of_every_way() {
        let one = |layer, proof| Finding::new(layer, proof, format!("{layer} line"), "");
        let (yes, no, open) = (Proof::Passed, Proof::Stopped, Proof::Nothing);
        for (findings, proven, text) in [
            (
                vec![one("submit", yes), one("run", yes)],
                true,
                "came through run",
            ),
            // Later layers tell of the earlier.
            (
                vec![one("bus", open), one("filter", yes), one("submit", yes)],
                true,
                "came through submit",
            ),
            (
                vec![one("judged", yes), one("filter", open), one("submit", open)],
                false,
                "came through judged; filter is not known",
            ),
            (
                vec![one("submit", yes), one("submit", open), one("run", yes)],
                false,
                "came through run; submit is not known",
            ),
            (
                vec![one("submit", yes), one("run", yes), one("run", open)],
                false,
                "run is not known",
            ),
            (
                vec![one("submit", yes), one("submit", no), one("run", yes)],
                true,
                "stopped at submit: submit line; beside that it came through run",
            ),
            (
                vec![one("submit", no), one("submit", open)],
                false,
                "stopped at submit: submit line; beside that, submit is not known",
            ),
            (
                vec![one("bus", yes), one("filter", no)],
                true,
                "stopped at filter: filter line",
            ),
            (vec![one("intake", open)], false, "unproven: intake line"),
            (Vec::new(), false, "nothing is known"),
        ] {
            let said = verdict(&findings);
            assert_eq!(said.proven, proven, "{said:?}");
            assert!(said.text.contains(text), "{text}: {said:?}");
            assert_eq!(said.text.starts_with("proven"), proven, "{said:?}");
        }
    }
}
