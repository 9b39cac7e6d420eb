//! A session that is killed at any point of what it writes comes back, and sends nothing twice.
//!
//! A whole session is run over real files and every write is remembered. Then the files are cut as a kill at that point
//! would leave them, the session is opened and taken up again, and played to its end.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use eventlab::evidence::journal::{IntentAction, unresolved};
use eventlab::evidence::{Entry, Fact, Layer, Observation};
use eventlab::lab::Lab;
use eventlab::session::checkpoint::FILE as CHECKPOINT;
use eventlab::session::files::{JOURNAL, read_entries};
use eventlab::session::message::{GateReport, SendOutcome};
use eventlab::session::{
    Checkpoint, Context, Effect, Message, SessionFiles, SessionView, StagePhase, State,
};
use jiff::Timestamp;

/// Every fate is settled by the answer alone, so that the runner of this test needs no cluster.
const LAB: &str = r"
name: kill
title: Kill
summary: A lab to be killed in.
event: kill
layers: [intake]
clusters: [embedded]
links: []
stages:
  - name: first
    kind: send
    title: Apply, act, gate, three probes
    text: ''
    apply: [kill/sensor.yaml]
    before: [delete-sensor-pod]
    gate: open
    probes:
      - {name: one, title: one, body: '{}', fate: {stops: intake, reason: no-such-endpoint}}
      - {name: two, title: two, body: '{}', fate: {stops: intake, reason: no-such-endpoint}}
      - {name: three, title: three, body: '{}', fate: {stops: intake, reason: no-such-endpoint}}
  - name: second
    kind: fix
    title: The learner's manifest
    text: ''
    gate: open
    fix: {manifest: kill/fix.yaml, hints: [], solution: kill/solution.yaml, wrong: []}
    probes:
      - {name: four, title: four, body: '{}', fate: {stops: intake, reason: no-such-endpoint}}
";

fn labs() -> Arc<[Lab]> {
    let lab: Lab = serde_yaml::from_str(LAB).unwrap();
    Arc::from(vec![lab])
}

/// How the disk looked after one write, and how many requests had been made by then.
#[derive(Clone)]
struct Moment {
    journal: u64,
    checkpoint: Option<Vec<u8>>,
    sent: usize,
}

/// A runner over real files that stands for the cluster.
struct Player {
    files: SessionFiles,
    state: State,
    ids: u32,
    moments: Vec<Moment>,
    /// Trace, attempt and probe of every request that was made.
    sent: Vec<Sent>,
}

impl Player {
    fn open(dir: &Path, ids: u32) -> (Player, Vec<Effect>) {
        let opened = SessionFiles::open(dir, Timestamp::UNIX_EPOCH).unwrap();
        let (state, effects) = State::resume(
            opened.checkpoint,
            &opened.entries,
            labs(),
            Timestamp::UNIX_EPOCH,
        );
        let player = Player {
            files: opened.files,
            state,
            ids,
            moments: Vec::new(),
            sent: Vec::new(),
        };
        (player, effects)
    }

    fn remember(&mut self) {
        let dir = self.files.dir();
        let moment = Moment {
            journal: fs::metadata(dir.join(JOURNAL)).unwrap().len(),
            checkpoint: fs::read(dir.join(CHECKPOINT)).ok(),
            sent: self.sent.len(),
        };
        self.moments.push(moment);
    }

    fn record(&mut self, entry: Entry) -> Entry {
        let written = self.files.append(entry).unwrap();
        self.remember();
        written
    }

    fn carry_out(&mut self, effect: &Effect) -> Vec<Message> {
        match effect {
            Effect::Checkpoint => {
                self.files.checkpoint(&self.state.checkpoint()).unwrap();
                self.remember();
                Vec::new()
            }
            Effect::Journal(entry) => {
                self.record((**entry).clone());
                Vec::new()
            }
            Effect::Apply { attempt, .. } => vec![Message::Applied {
                attempt: *attempt,
                result: Ok(vec!["fingerprint".to_owned()]),
            }],
            Effect::Act { action, .. } => vec![Message::Acted {
                action: action.clone(),
                result: Ok(()),
            }],
            Effect::OpenGate { .. } => vec![Message::Gate(GateReport {
                open: true,
                ..GateReport::default()
            })],
            Effect::Send {
                stage,
                attempt,
                trace,
                probe,
                ..
            } => {
                self.sent
                    .push((trace.clone(), *attempt, probe.name.clone()));
                let fact = answer(stage, *attempt, trace, &probe.name);
                let Entry::Fact(fact) = self.record(Entry::Fact(fact)) else {
                    return Vec::new();
                };
                vec![
                    Message::Facts(vec![fact]),
                    Message::Sent {
                        probe: probe.name.clone(),
                        trace: trace.clone(),
                        outcome: SendOutcome::Answered { status: 404 },
                    },
                ]
            }
            Effect::Collect { .. } => vec![Message::Collected { complete: true }],
            Effect::Review { .. } => vec![Message::Reviewed { result: Ok(()) }],
            Effect::Rewind { .. } | Effect::Reset { .. } => {
                vec![Message::Rewound { result: Ok(()) }]
            }
            _ => Vec::new(),
        }
    }

    fn run(&mut self, effects: Vec<Effect>) {
        let mut queue: VecDeque<Message> = VecDeque::new();
        for effect in effects {
            queue.extend(self.carry_out(&effect));
        }
        while let Some(message) = queue.pop_front() {
            for effect in self.update(message) {
                queue.extend(self.carry_out(&effect));
            }
        }
    }

    fn update(&mut self, message: Message) -> Vec<Effect> {
        self.ids += 1;
        let context = Context {
            now: Timestamp::UNIX_EPOCH,
            id: self.ids,
        };
        self.state.update(message, &context)
    }

    fn press(&mut self, message: Message) {
        let effects = self.update(message);
        self.run(effects);
    }

    /// Plays to the end; what stays unproven although it was looked up is done again on the learner's key.
    fn finish(&mut self) {
        let mut looked = false;
        for _ in 0..40 {
            if self.state.finished() {
                return;
            }
            let unproven = matches!(self.state.phase(), StagePhase::Unproven { .. });
            let again = unproven && std::mem::replace(&mut looked, unproven);
            looked &= unproven && !again;
            self.press(if again { Message::Retry } else { Message::Next });
        }
        panic!("the session does not end: {:?}", self.state.phase());
    }
}

fn answer(stage: &str, attempt: u32, trace: &str, probe: &str) -> Fact {
    Fact {
        seq: 0,
        time: Timestamp::UNIX_EPOCH,
        lab: "kill".to_owned(),
        stage: stage.to_owned(),
        attempt,
        probe: Some(probe.to_owned()),
        layer: Layer::Intake,
        observation: Observation::HttpAnswer {
            status: 404,
            body: String::new(),
        },
        source: "http".to_owned(),
        pod: None,
        trace: Some(trace.to_owned()),
        arrival: None,
        sequence: None,
        execution: None,
        business_key: None,
        line: "HTTP 404".to_owned(),
        command: "curl".to_owned(),
    }
}

/// Trace, attempt and probe of one request.
type Sent = (String, u32, String);

/// A whole session, its journal, and every moment of its disk.
fn recorded() -> (Vec<u8>, Vec<Moment>, Vec<Sent>) {
    let dir = tempfile::tempdir().unwrap();
    let (mut player, effects) = Player::open(dir.path(), 0);
    player.run(effects);
    player.finish();
    let journal = fs::read(dir.path().join(JOURNAL)).unwrap();
    assert!(player.moments.len() > 20, "{}", player.moments.len());
    (journal, player.moments, player.sent)
}

/// A session directory as a kill left it.
fn left(journal: &[u8], checkpoint: Option<&[u8]>) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(JOURNAL), journal).unwrap();
    if let Some(checkpoint) = checkpoint {
        fs::write(dir.path().join(CHECKPOINT), checkpoint).unwrap();
    }
    dir
}

fn sends(entries: &[Entry]) -> Vec<Sent> {
    entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Intent(intent) => match &intent.action {
                IntentAction::Send { probe } => {
                    Some((intent.id.clone(), intent.attempt, probe.clone()))
                }
                _ => None,
            },
            _ => None,
        })
        .collect()
}

/// Takes a session up again, checks that it does nothing by itself, and plays it to its end.
fn come_back(dir: &Path, before: &[Sent]) -> Player {
    let (entries, _) = read_entries(dir).unwrap();
    let announced = sends(&entries);
    for sent in before {
        assert!(
            announced.contains(sent),
            "{sent:?} was sent before its intent was on disk"
        );
    }
    let open: BTreeSet<String> = unresolved(&entries)
        .into_iter()
        .map(|intent| intent.id.clone())
        .collect();

    let (mut player, effects) = Player::open(dir, 1000);
    player.run(effects);
    assert!(player.sent.is_empty(), "sent by itself: {:?}", player.sent);
    let run = player.state.stage_run().cloned().unwrap_or_default();
    for send in &run.sends {
        assert_eq!(send.is_unresolved(), open.contains(&send.trace), "{send:?}");
    }

    player.finish();
    let mut traces = BTreeSet::new();
    let mut probes = BTreeSet::new();
    for (trace, attempt, probe) in announced.iter().chain(&player.sent) {
        assert!(traces.insert(trace.clone()), "trace {trace} was used twice");
        assert!(
            probes.insert((*attempt, probe.clone())),
            "{probe} was sent twice in attempt {attempt}"
        );
    }
    let (entries, notes) = read_entries(dir).unwrap();
    assert!(notes.is_empty(), "{notes:?}");
    assert_eq!(sends(&entries).len(), traces.len());
    player
}

#[test]
fn killed_after_any_write_it_comes_back() {
    let (journal, moments, sent) = recorded();
    for moment in &moments {
        let cut = &journal[..usize::try_from(moment.journal).unwrap()];
        let dir = left(cut, moment.checkpoint.as_deref());
        come_back(dir.path(), &sent[..moment.sent]);
    }
}

#[test]
fn killed_within_a_line_it_comes_back() {
    let (journal, moments, sent) = recorded();
    let mut before = Moment {
        journal: 0,
        checkpoint: None,
        sent: 0,
    };
    for (index, moment) in moments.iter().enumerate() {
        let (from, to) = (before.journal, moment.journal);
        // One place a line, by turns: after its first byte, in its middle, before its end.
        let end = match index % 3 {
            0 => from + 1,
            1 => (from + to) / 2,
            _ => to.saturating_sub(1),
        };
        if end > from && end < to {
            let cut = &journal[..usize::try_from(end).unwrap()];
            let dir = left(cut, before.checkpoint.as_deref());
            // A request is made after its intent, so that the torn line says nothing of it.
            come_back(dir.path(), &sent[..before.sent]);
        }
        before = moment.clone();
    }
}

#[test]
fn any_prefix_of_the_journal_is_read() {
    let (journal, _, _) = recorded();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(JOURNAL);
    let mut ends: Vec<usize> = Vec::new();
    for (index, byte) in journal.iter().enumerate() {
        if *byte == b'\n' {
            ends.push(index + 1);
        }
    }
    for end in 0..=journal.len() {
        fs::write(&path, &journal[..end]).unwrap();
        let (entries, notes) = read_entries(dir.path()).unwrap();
        let whole = ends.iter().filter(|line| **line <= end).count();
        assert_eq!(entries.len(), whole, "at {end}");
        let torn = end > 0 && !ends.contains(&end);
        assert_eq!(notes.len(), usize::from(torn), "at {end}: {notes:?}");
    }
}

#[test]
fn any_prefix_of_the_checkpoint_loads_or_is_reported() {
    let (journal, moments, _) = recorded();
    let checkpoint = moments.last().unwrap().checkpoint.clone().unwrap();
    for end in 0..checkpoint.len() {
        let dir = left(&journal, Some(&checkpoint[..end]));
        let view = SessionView::open(dir.path()).unwrap();
        // Without its last newline it is still whole.
        let whole = end + 1 == checkpoint.len();
        assert_eq!(view.checkpoint.is_some(), whole, "at {end}");
        assert_eq!(view.notes.is_empty(), whole, "at {end}");
        assert!(
            dir.path().join(CHECKPOINT).exists(),
            "a reader changes nothing"
        );
    }
    for end in [0, 1, checkpoint.len() / 2, checkpoint.len() - 2] {
        let dir = left(&journal, Some(&checkpoint[..end]));
        assert!(come_back(dir.path(), &[]).state.finished());
    }
}

#[test]
fn an_older_checkpoint_with_a_newer_journal_sends_nothing_twice() {
    let (journal, moments, sent) = recorded();
    let checkpoints: Vec<Vec<u8>> = moments
        .iter()
        .filter_map(|moment| moment.checkpoint.clone())
        .collect();
    for checkpoint in checkpoints {
        Checkpoint::parse(&checkpoint).unwrap();
        let dir = left(&journal, Some(&checkpoint));
        come_back(dir.path(), &sent);
    }
}
