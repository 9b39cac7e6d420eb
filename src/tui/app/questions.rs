//! What the learner is asked: predictions, the report, which lab or stage, what to do about a difference, and whether
//! to start over.

use super::{App, Choice, Command, Does, Overlay};
use crate::evidence::Layer;
use crate::evidence::journal::{Claim, ClaimAnswer};
use crate::lab::StageKind;
use crate::session::{Message, Reconcile, State};
use crate::words::counted;

fn choose(title: impl Into<String>, preface: Vec<String>, choices: Vec<Choice>) -> Overlay {
    Overlay::Choose {
        title: title.into(),
        preface,
        choices,
        selected: 0,
    }
}

fn tell(text: impl Into<String>, message: Message) -> Choice {
    Choice::new(text, Does::Tell(message))
}

/// Asks before something is done; the first answer is no.
pub(super) fn confirm(title: &str, preface: Vec<String>, does: Does) -> Overlay {
    let choices = vec![Choice::new("no", Does::Nothing), Choice::new("yes", does)];
    choose(title, preface, choices)
}

/// The first probe without a prediction, or the one after `after`.
pub(super) fn prediction(state: &State, after: Option<&str>) -> Option<Overlay> {
    let predicted = state.predicted_stage()?;
    let open = state.unpredicted().first().copied();
    let probe = open.or_else(|| after.is_none().then(|| predicted.probes.first()).flatten())?;
    let predict = |text: &str, stops_at| {
        tell(
            text,
            Message::Predict {
                probe: probe.name.clone(),
                stops_at,
            },
        )
    };
    let mut choices = vec![predict("no layer: it has its effect", None)];
    choices.extend(
        Layer::ALL.map(|layer| predict(&format!("{} stops it", layer.name()), Some(layer))),
    );
    // Its number is known when it is sent.
    let body = probe.body.replace("{{attempt}}", "N");
    let mut preface = vec![format!("{} {body}", probe.method)];
    let headers = probe.headers.iter();
    preface.extend(headers.map(|(name, value)| format!("{name}: {value}")));
    Some(choose(
        format!("What becomes of: {}?", probe.title),
        preface,
        choices,
    ))
}

/// The questions of a report, in its order.
const QUESTIONS: [(&str, &str); 4] = [
    ("layer", "Which layer stopped it"),
    ("fact", "Which fact proves it"),
    ("cause", "What was the cause"),
    ("not-proven", "What is not proven"),
];

/// The claims of the present stage about a topic.
fn claims_of<'a>(state: &'a State, topic: &str) -> impl Iterator<Item = &'a Claim> {
    let stage = state.stage().map(|stage| stage.name.as_str());
    let claims = state
        .progress_here()
        .map_or(&[][..], |lab| lab.claims.as_slice());
    let topic = topic.to_owned();
    claims
        .iter()
        .filter(move |claim| claim.topic == topic && Some(claim.stage.as_str()) == stage)
}

fn is_supported(state: &State, topic: &str) -> bool {
    claims_of(state, topic).any(|claim| matches!(claim.answer, ClaimAnswer::SupportedBy { .. }))
}

/// The questions of the report. After an answer that holds it stands at the next one that is open, else where it was.
pub(super) fn report_topics(state: &State, after: Option<&str>) -> Option<Overlay> {
    state.stage()?.report.as_ref()?;
    let place = |topic: &str| QUESTIONS.iter().position(|(name, _)| *name == topic);
    let was = after.and_then(place);
    let open = |from: usize| {
        let mut later = QUESTIONS.iter().enumerate().skip(from);
        let found = later.find(|(_, (topic, _))| !is_supported(state, topic));
        found.map(|(index, _)| index)
    };
    let selected = match (after, was) {
        (Some(topic), Some(was)) if is_supported(state, topic) => {
            open(was).or_else(|| open(0)).unwrap_or(was)
        }
        (_, Some(was)) => was,
        _ => open(0).unwrap_or(0),
    };
    let choices = QUESTIONS
        .iter()
        .map(|(topic, question)| {
            let word = match claims_of(state, topic).last() {
                None => "open".to_owned(),
                Some(_) if is_supported(state, topic) => "supported".to_owned(),
                Some(claim) => claim.answer.to_string(),
            };
            Choice::new(
                format!("{question} ({word})"),
                Does::Answers((*topic).to_owned()),
            )
        })
        .collect();
    Some(Overlay::Choose {
        title: "Your report".to_owned(),
        preface: Vec::new(),
        choices,
        selected,
    })
}

/// Where Esc leads from answers to a question of the report: to the questions.
pub(super) fn outer(choices: &[Choice], state: &State) -> Option<Overlay> {
    match &choices.first()?.does {
        Does::Tell(Message::Report { topic, .. }) => {
            let mut questions = report_topics(state, None)?;
            if let Overlay::Choose { selected, .. } = &mut questions {
                *selected = QUESTIONS.iter().position(|(name, _)| name == topic)?;
            }
            Some(questions)
        }
        _ => None,
    }
}

pub(super) fn report_answers(state: &State, topic: &str) -> Option<Overlay> {
    state.stage()?.report.as_ref()?;
    let choices: Vec<Choice> = state
        .report_choices(topic)
        .into_iter()
        .map(|(text, answer)| {
            let topic = topic.to_owned();
            tell(text, Message::Report { topic, answer })
        })
        .collect();
    // The list stands at what was answered before.
    let before = claims_of(state, topic).last();
    let is_before = |choice: &Choice| match &choice.does {
        Does::Tell(Message::Report { answer, .. }) => {
            before.is_some_and(|claim| claim.statement == *answer)
        }
        _ => false,
    };
    let selected = choices.iter().position(is_before).unwrap_or(0);
    let question = QUESTIONS.iter().find(|(name, _)| *name == topic);
    let question = question.map_or(topic, |(_, question)| *question);
    Some(Overlay::Choose {
        title: format!("Your report: {question}?"),
        preface: Vec::new(),
        choices,
        selected,
    })
}

/// All labs; choosing one opens its stages.
pub(super) fn labs(state: &State) -> Overlay {
    let here = state.lab().map(|lab| lab.name.as_str());
    let mut selected = 0;
    let choices = state
        .labs()
        .iter()
        .enumerate()
        .map(|(index, lab)| {
            if here == Some(lab.name.as_str()) {
                selected = index;
            }
            let kept = state.progress_of(&lab.name);
            let passed = kept.map_or(0, |kept| {
                lab.stages
                    .iter()
                    .filter(|stage| kept.passed.contains(&stage.name))
                    .count()
            });
            let word = if kept.is_some_and(|kept| kept.completed) {
                "completed".to_owned()
            } else {
                format!("{passed} of {}", counted(lab.stages.len(), "stage"))
            };
            let present = if here == Some(lab.name.as_str()) {
                ", here"
            } else {
                ""
            };
            Choice::new(
                format!("{:<12} {} ({word}{present})", lab.name, lab.summary),
                Does::Stages(lab.name.clone()),
            )
        })
        .collect();
    Overlay::Choose {
        title: "Labs".to_owned(),
        preface: Vec::new(),
        choices,
        selected,
    }
}

/// The stages of a lab, or of the present one; of a copy they are only shown.
pub(super) fn stages(state: &State, lab: Option<&str>, copy: bool) -> Option<Overlay> {
    let here = state.lab().map(|lab| lab.name.as_str());
    let name = lab.or(here)?;
    let lab = state.labs().iter().find(|lab| lab.name == name)?;
    let kept = state.progress_of(name);
    let reached = state.reached_in(name);
    let mut selected = 0;
    let choices = lab
        .stages
        .iter()
        .enumerate()
        .map(|(index, stage)| {
            let present = here == Some(name) && index == state.stage_index();
            if present {
                selected = index;
            }
            let mut text = format!("{}/{} {}", index + 1, lab.stages.len(), stage.title);
            if stage.kind != StageKind::Read {
                text.push_str(&format!(" [{}]", stage_word(stage.kind)));
            }
            let passed = kept.is_some_and(|kept| kept.passed.contains(&stage.name));
            match (passed, present) {
                (true, true) => text.push_str(" (passed, here)"),
                (true, false) => text.push_str(" (passed)"),
                (false, true) => text.push_str(" (here)"),
                (false, false) if index > reached && !copy => text.push_str(" (not reached yet)"),
                (false, false) => {}
            }
            let message = Message::GoTo {
                lab: lab.name.clone(),
                stage: index,
            };
            tell(text, message)
        })
        .collect();
    let snapshots = kept.is_some_and(|kept| !kept.snapshots.is_empty());
    let begun = kept.is_some_and(|kept| kept.attempt > 0);
    let preface = if copy {
        "Each is shown as it was left."
    } else if snapshots && state.rewinds() {
        "Objects, bus and ledger return to how they were at the start of the stage. Evidence and working copies stay."
    } else if !begun {
        "Nothing of this lab was done yet."
    } else {
        "There are no snapshots: what the stages before had applied is applied again. Ledger and bus keep what they have."
    };
    Some(Overlay::Choose {
        title: format!("Go to a stage of {name}"),
        preface: vec![preface.to_owned()],
        choices,
        selected,
    })
}

/// The word of a stage's kind.
#[must_use]
pub fn stage_word(kind: StageKind) -> &'static str {
    match kind {
        StageKind::Read => "read",
        StageKind::Apply => "apply",
        StageKind::Gate => "gate",
        StageKind::Predict => "predict",
        StageKind::Send => "send",
        StageKind::Fix => "fix",
        StageKind::Report => "report",
        StageKind::Debrief => "debrief",
    }
}

const DIFFERS: &str = "The cluster is not as this session left it";

/// What to do about a cluster that is not as the session left it.
pub(super) fn reconcile(state: &State) -> Overlay {
    let choices = vec![
        tell(
            "adopt: go on with the cluster as it is",
            Message::Reconcile(Reconcile::Adopt),
        ),
        tell(
            "re-apply what this lab had applied, as a new attempt",
            Message::Reconcile(Reconcile::Reapply),
        ),
        tell(
            "reset: start the lab over",
            Message::Reconcile(Reconcile::Reset),
        ),
    ];
    let preface = state
        .drift()
        .iter()
        .map(|line| format!("- {line}"))
        .collect();
    choose(DIFFERS, preface, choices)
}

const SETTLED: &str = "Nothing differs any more";

/// Stands where the question stood whose difference went away: the key that was to answer it closes this, and nothing else.
fn settled(state: &State) -> Overlay {
    let said = if state.drift().is_empty() {
        "The objects of this lab are as this session left them; nothing was done."
    } else {
        "It differs again by now; nothing was done. Enter asks what to do once this is closed."
    };
    let choices = vec![Choice::new("close", Does::Nothing)];
    choose(SETTLED, vec![said.to_owned()], choices)
}

impl App {
    /// Whoever is asked what to do about a cluster that differs is asked about how it differs now. The question never goes
    /// away by itself: the key that is on its way would mean something else.
    pub fn differs(&mut self, state: &State) {
        let Some(Overlay::Choose {
            title, selected, ..
        }) = &self.overlay
        else {
            return;
        };
        let at = *selected;
        match title.as_str() {
            DIFFERS if state.drift().is_empty() => self.overlay = Some(settled(state)),
            DIFFERS => {
                self.overlay = Some(reconcile(state));
                if let Some(Overlay::Choose { selected, .. }) = &mut self.overlay {
                    *selected = at;
                }
            }
            SETTLED => self.overlay = Some(settled(state)),
            _ => {}
        }
    }
}

/// Whether to start the lab over, with what that restores and what it leaves.
pub(super) fn reset(state: &State) -> Overlay {
    let name = state.lab().map(|lab| lab.name.clone()).unwrap_or_default();
    let reset = state.reset_plan(&name);
    let restored = reset.restores.iter().map(|text| format!("restores {text}"));
    let left = reset.leaves.iter().map(|text| format!("leaves {text}"));
    confirm(
        &format!("Start {name} over?"),
        restored.chain(left).collect(),
        Does::Tell(Message::Reset),
    )
}

/// What the learner may do about a working copy that cannot be read: line and column in place.
#[must_use]
pub fn unreadable(manifest: &str, text: &str, error: &str, line: Option<usize>) -> Overlay {
    let mut preface = vec![error.to_owned()];
    if let Some(line) = line {
        let first = line.saturating_sub(3).max(1);
        for (index, content) in text.lines().enumerate().skip(first - 1).take(5) {
            let number = index + 1;
            let mark = if number == line { ">" } else { " " };
            preface.push(format!("{mark}{number:>4} {content}"));
        }
    }
    let edit = |command: fn(String, Option<usize>) -> Command| {
        Does::Command(Box::new(command(manifest.to_owned(), line)))
    };
    let choices = vec![
        Choice::new(
            "correct it here",
            edit(|manifest, line| Command::EditHere { manifest, line }),
        ),
        Choice::new(
            "correct it in $EDITOR",
            edit(|manifest, line| Command::Edit { manifest, line }),
        ),
        Choice::new("later; nothing is applied", Does::Nothing),
    ];
    choose(format!("{manifest} cannot be applied"), preface, choices)
}

/// What the learner may do about a working copy that is no text, or cannot be read at all: nothing here overwrites it.
#[must_use]
pub fn not_text(manifest: &str, error: &str) -> Overlay {
    let manifest = manifest.to_owned();
    let line = None;
    let edit = Command::Edit {
        manifest: manifest.clone(),
        line,
    };
    let choices = vec![
        Choice::new("correct it in $EDITOR", Does::Command(Box::new(edit))),
        Choice::new("later; nothing is applied", Does::Nothing),
    ];
    choose(
        format!("{manifest} cannot be applied"),
        vec![error.to_owned()],
        choices,
    )
}

/// What becomes of what was typed and not saved when the screen ended.
#[must_use]
pub fn unsaved(manifest: &str) -> Overlay {
    let take_up = |keep| {
        Does::Command(Box::new(Command::TakeUp {
            manifest: manifest.to_owned(),
            keep,
        }))
    };
    let choices = vec![
        Choice::new("go on with what was not saved", take_up(true)),
        Choice::new("drop it, and edit what was saved", take_up(false)),
        Choice::new("later", Does::Nothing),
    ];
    let preface = vec!["The screen had ended while it was being edited.".to_owned()];
    choose(
        format!("{manifest}: not all of it was saved"),
        preface,
        choices,
    )
}

/// What an edited filter would judge otherwise, before it is applied.
#[must_use]
pub fn before_applying(manifest: &str, lines: Vec<String>, next: &str) -> Overlay {
    let choices = vec![
        Choice::new(format!("apply it: {next}"), Does::Tell(Message::Next)),
        Choice::new(
            "edit it again here",
            Does::Command(Box::new(Command::EditHere {
                manifest: manifest.to_owned(),
                line: None,
            })),
        ),
        Choice::new("later", Does::Nothing),
    ];
    choose("Before it is applied", lines, choices)
}
