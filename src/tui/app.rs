//! What the screen itself remembers: area, pane, scrolling, what is open. Turns keys into messages.

use std::collections::BTreeMap;

use crossterm::event::{KeyEvent, KeyEventKind};

use super::keys::{self, Action};
use super::logs::LogBook;
use super::theme::Theme;
use crate::evidence::Layer;
use crate::lab::StageKind;
use crate::session::{Message, Reconcile, State};

/// The three areas that can have the focus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    Text,
    #[default]
    Table,
    Pane,
}

/// What the pane shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pane {
    #[default]
    Evidence,
    Logs,
    Manifest,
    Ledger,
    Gate,
}

impl Pane {
    /// All panes in order.
    pub const ALL: [Pane; 5] = [
        Pane::Evidence,
        Pane::Logs,
        Pane::Manifest,
        Pane::Ledger,
        Pane::Gate,
    ];

    /// Its name on the screen.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Pane::Evidence => "evidence",
            Pane::Logs => "logs",
            Pane::Manifest => "manifest",
            Pane::Ledger => "ledger",
            Pane::Gate => "gate",
        }
    }

    fn next(self) -> Pane {
        let place = Pane::ALL.iter().position(|pane| *pane == self).unwrap_or(0);
        Pane::ALL[(place + 1) % Pane::ALL.len()]
    }
}

/// One line of a list to choose from.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    pub text: String,
    pub message: Option<Message>,
}

/// What lies over the screen.
#[derive(Clone, Debug, PartialEq)]
pub enum Overlay {
    Help {
        scroll: usize,
    },
    /// Facts of a cell, by `seq`.
    Facts {
        title: String,
        facts: Vec<u64>,
        selected: usize,
    },
    Choose {
        title: String,
        choices: Vec<Choice>,
        selected: usize,
    },
}

/// What the loop has to do for the screen.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Tell(Message),
    Edit { manifest: String },
    Copy(String),
    Quit,
}

/// The screen's own state.
pub struct App {
    pub theme: Theme,
    pub area: Area,
    pub pane: Pane,
    pub zoom: bool,
    pub overlay: Option<Overlay>,
    /// Selected row and layer of the table.
    pub row: usize,
    pub layer: usize,
    pub text_scroll: usize,
    /// Lines above the shown end of each pane; 0 follows the end.
    pub back: BTreeMap<Pane, usize>,
    /// A short answer to the last key.
    pub flash: Option<String>,
    pub logs: LogBook,
    /// Text of the manifest pane and where it comes from.
    pub manifest: Vec<String>,
    /// Where the webhook and the API can be reached, for the header of the gate pane.
    pub reach: Vec<String>,
}

impl App {
    /// A fresh screen.
    #[must_use]
    pub fn new(theme: Theme) -> Self {
        Self {
            theme,
            area: Area::default(),
            pane: Pane::default(),
            zoom: false,
            overlay: None,
            row: 0,
            layer: 0,
            text_scroll: 0,
            back: BTreeMap::new(),
            flash: None,
            logs: LogBook::default(),
            manifest: Vec::new(),
            reach: Vec::new(),
        }
    }

    /// Takes a key and answers what is to be done.
    pub fn key(&mut self, event: KeyEvent, state: &State) -> Option<Command> {
        if event.kind == KeyEventKind::Release {
            return None;
        }
        let action = keys::action(event)?;
        self.flash = None;
        if action == Action::Interrupt {
            return Some(Command::Quit);
        }
        if self.overlay.is_some() {
            return self.overlay_key(action, state);
        }
        self.screen_key(action, state)
    }

    fn screen_key(&mut self, action: Action, state: &State) -> Option<Command> {
        let footer = state.footer();
        match action {
            Action::Next if footer.reconcile => {
                self.overlay = Some(reconcile(state));
                None
            }
            Action::Next if footer.next_enabled => self.next(),
            Action::Next if footer.predict || footer.report => self.answer(state),
            Action::Next => self.flash(&footer.next),
            Action::Answer => self.answer(state),
            Action::Edit if footer.edit => {
                let manifest = state.stage()?.fix.as_ref()?.manifest.clone();
                Some(Command::Edit { manifest })
            }
            Action::Edit => self.flash("this stage has no manifest to edit"),
            Action::Hint => Some(Command::Tell(Message::Hint)),
            Action::Reveal if footer.reveal => {
                self.pane = Pane::Manifest;
                Some(Command::Tell(Message::Reveal { confirmed: false }))
            }
            Action::Reveal if footer.edit && !state.revealed() => self.confirm(
                "Show the solution without a try?",
                Message::Reveal { confirmed: true },
            ),
            Action::Reveal => self.flash("there is no solution to show here"),
            Action::Retry if footer.retry => Some(Command::Tell(Message::Retry)),
            Action::Retry => self.flash("there is nothing to do again here"),
            Action::Cancel if footer.cancel => Some(Command::Tell(Message::Cancel)),
            Action::Cancel => self.flash("nothing is under way"),
            Action::Reset => self.confirm(
                "Start this lab over? Its working copies are removed, its evidence is kept.",
                Message::Reset,
            ),
            Action::Labs => {
                self.overlay = Some(labs(state));
                None
            }
            Action::Open => self.open(state),
            Action::Copy => self.copy(state),
            Action::Help => {
                self.overlay = Some(Overlay::Help { scroll: 0 });
                None
            }
            Action::Quit => Some(Command::Quit),
            moving => {
                self.moved(moving, state);
                None
            }
        }
    }

    fn flash(&mut self, text: &str) -> Option<Command> {
        self.flash = Some(text.to_owned());
        None
    }

    fn next(&mut self) -> Option<Command> {
        self.text_scroll = 0;
        Some(Command::Tell(Message::Next))
    }

    fn confirm(&mut self, title: &str, message: Message) -> Option<Command> {
        let choices = vec![
            Choice {
                text: "no".to_owned(),
                message: None,
            },
            Choice {
                text: "yes".to_owned(),
                message: Some(message),
            },
        ];
        self.overlay = Some(Overlay::Choose {
            title: title.to_owned(),
            choices,
            selected: 0,
        });
        None
    }

    /// Opens the next question of a prediction or a report.
    fn answer(&mut self, state: &State) -> Option<Command> {
        let footer = state.footer();
        let overlay = if footer.predict {
            prediction(state, None)
        } else if footer.report {
            report_topics(state)
        } else {
            None
        };
        if overlay.is_none() {
            return self.flash("there is nothing to answer here");
        }
        self.overlay = overlay;
        None
    }

    /// After a message was taken: the next question of the same kind, if one is open.
    pub fn follow_up(&mut self, message: &Message, state: &State) {
        if self.overlay.is_some() {
            return;
        }
        self.overlay = match message {
            Message::Predict { probe, .. } => prediction(state, Some(probe)),
            Message::Report { .. } if state.footer().report => report_topics(state),
            _ => None,
        };
    }

    fn open(&mut self, state: &State) -> Option<Command> {
        let overlay = match self.area {
            Area::Pane if self.pane == Pane::Evidence => self
                .selected_fact(state)
                .map(|seq| facts_overlay("fact", vec![seq])),
            _ => self.selected_cell(state),
        };
        if overlay.is_none() {
            return self.flash("there is no fact behind this yet");
        }
        self.overlay = overlay;
        None
    }

    fn selected_cell(&self, state: &State) -> Option<Overlay> {
        let rows = state.rows();
        let row = rows.get(self.row.min(rows.len().saturating_sub(1)))?;
        let layer = *Layer::ALL.get(self.layer)?;
        let facts = row.cell(layer).facts.clone();
        (!facts.is_empty())
            .then(|| facts_overlay(&format!("{} at {}", row.probe, layer.name()), facts))
    }

    fn selected_fact(&self, state: &State) -> Option<u64> {
        let back = self.back.get(&Pane::Evidence).copied().unwrap_or(0);
        state.facts().iter().rev().nth(back).map(|fact| fact.seq)
    }

    fn copy(&mut self, state: &State) -> Option<Command> {
        let seq = match &self.overlay {
            Some(Overlay::Facts {
                facts, selected, ..
            }) => facts.get(*selected).copied(),
            _ => match self.area {
                Area::Pane if self.pane == Pane::Evidence => self.selected_fact(state),
                _ => match self.selected_cell(state) {
                    Some(Overlay::Facts { facts, .. }) => facts.first().copied(),
                    _ => None,
                },
            },
        };
        match seq.and_then(|seq| state.fact(seq)) {
            Some(fact) => Some(Command::Copy(fact.command.clone())),
            None => self.flash("there is no command to copy here"),
        }
    }

    fn overlay_key(&mut self, action: Action, state: &State) -> Option<Command> {
        if matches!(action, Action::Back | Action::Quit) {
            self.overlay = None;
            return None;
        }
        if action == Action::Copy {
            return self.copy(state);
        }
        match self.overlay.as_mut()? {
            Overlay::Help { scroll } => match action {
                Action::Help | Action::Next => self.overlay = None,
                other => *scroll = step(*scroll, other, keys::BINDINGS.len(), 10),
            },
            Overlay::Facts {
                facts, selected, ..
            } => match action {
                Action::Next | Action::Open => self.overlay = None,
                other => *selected = step(*selected, other, facts.len(), 1),
            },
            Overlay::Choose {
                choices, selected, ..
            } => {
                if !matches!(action, Action::Next | Action::Open) {
                    *selected = step(*selected, action, choices.len(), 5);
                    return None;
                }
                let message = choices
                    .get(*selected)
                    .and_then(|choice| choice.message.clone());
                self.overlay = None;
                return self.chosen(message?, state);
            }
        }
        None
    }

    /// A choice that names a topic of the report opens its answers; any other is told to the session.
    fn chosen(&mut self, message: Message, state: &State) -> Option<Command> {
        if let Message::Report { topic, answer } = &message
            && answer.is_empty()
        {
            self.overlay = report_answers(state, topic);
            return None;
        }
        Some(Command::Tell(message))
    }

    fn moved(&mut self, action: Action, state: &State) {
        match action {
            Action::NextArea => self.area = next_area(self.area),
            Action::PreviousArea => self.area = next_area(next_area(self.area)),
            Action::NextPane => {
                self.pane = self.pane.next();
                self.area = Area::Pane;
            }
            Action::Zoom => self.zoom = !self.zoom,
            Action::Back => self.zoom = false,
            Action::Left => self.layer = self.layer.saturating_sub(1),
            Action::Right => self.layer = (self.layer + 1).min(Layer::ALL.len() - 1),
            scrolling => match self.area {
                Area::Text => {
                    self.text_scroll = step(self.text_scroll, scrolling, usize::MAX >> 1, 10)
                }
                Area::Table => self.row = step(self.row, scrolling, state.rows().len(), 5),
                Area::Pane => self.scroll_pane(scrolling, state),
            },
        }
    }

    fn scroll_pane(&mut self, action: Action, state: &State) {
        let length = match self.pane {
            Pane::Evidence => state.facts().len(),
            Pane::Logs => self.logs.len(),
            Pane::Manifest => self.manifest.len(),
            Pane::Ledger | Pane::Gate => 200,
        };
        let back = self.back.entry(self.pane).or_default();
        // Panes that grow count from their end, so up means further back.
        let grows = matches!(self.pane, Pane::Evidence | Pane::Logs);
        *back = if grows {
            step(*back, mirrored(action), length, 10)
        } else {
            step(*back, action, length, 10)
        };
    }
}

fn mirrored(action: Action) -> Action {
    match action {
        Action::Up => Action::Down,
        Action::Down => Action::Up,
        Action::PageUp => Action::PageDown,
        Action::PageDown => Action::PageUp,
        Action::Top => Action::Bottom,
        Action::Bottom => Action::Top,
        other => other,
    }
}

fn next_area(area: Area) -> Area {
    match area {
        Area::Text => Area::Table,
        Area::Table => Area::Pane,
        Area::Pane => Area::Text,
    }
}

/// The place after a movement in a list.
fn step(place: usize, action: Action, length: usize, page: usize) -> usize {
    let last = length.saturating_sub(1);
    match action {
        Action::Up => place.min(last).saturating_sub(1),
        Action::Down => place.saturating_add(1).min(last),
        Action::PageUp => place.min(last).saturating_sub(page),
        Action::PageDown => place.saturating_add(page).min(last),
        Action::Top => 0,
        Action::Bottom => last,
        _ => place.min(last),
    }
}

fn facts_overlay(title: &str, facts: Vec<u64>) -> Overlay {
    Overlay::Facts {
        title: title.to_owned(),
        facts,
        selected: 0,
    }
}

/// The first probe without a prediction, or the one after `after`.
fn prediction(state: &State, after: Option<&str>) -> Option<Overlay> {
    let stage = state.stage()?;
    let predicted = state
        .lab()?
        .stages
        .iter()
        .find(|other| Some(&other.name) == stage.predicts.as_ref())?;
    let given = state
        .progress_here()
        .and_then(|lab| lab.predictions.get(&predicted.name));
    let open = |name: &str| given.is_none_or(|given| !given.contains_key(name));
    let probe = predicted
        .probes
        .iter()
        .find(|probe| open(&probe.name))
        .or_else(|| after.is_none().then(|| predicted.probes.first()).flatten())?;
    let mut choices = vec![choice(
        "no layer: it has its effect",
        Message::Predict {
            probe: probe.name.clone(),
            stops_at: None,
        },
    )];
    choices.extend(Layer::ALL.map(|layer| {
        choice(
            &format!("{} stops it", layer.name()),
            Message::Predict {
                probe: probe.name.clone(),
                stops_at: Some(layer),
            },
        )
    }));
    Some(Overlay::Choose {
        title: format!("What becomes of: {}?", probe.title),
        choices,
        selected: 0,
    })
}

fn choice(text: &str, message: Message) -> Choice {
    Choice {
        text: text.to_owned(),
        message: Some(message),
    }
}

fn report_topics(state: &State) -> Option<Overlay> {
    state.stage()?.report.as_ref()?;
    let stage = &state.stage()?.name;
    let claims = state
        .progress_here()
        .map(|lab| lab.claims.as_slice())
        .unwrap_or_default();
    let topics = [
        ("layer", "Which layer stopped it"),
        ("fact", "Which fact proves it"),
        ("cause", "What was the cause"),
        ("not-proven", "What is not proven"),
    ];
    let choices = topics
        .iter()
        .map(|(topic, question)| {
            let claimed = claims
                .iter()
                .filter(|claim| claim.topic == *topic && claim.stage == *stage)
                .count();
            let text = format!(
                "{question} {}",
                if claimed > 0 { "(answered)" } else { "(open)" }
            );
            choice(
                &text,
                Message::Report {
                    topic: (*topic).to_owned(),
                    answer: String::new(),
                },
            )
        })
        .collect();
    Some(Overlay::Choose {
        title: "Your report".to_owned(),
        choices,
        selected: 0,
    })
}

fn report_answers(state: &State, topic: &str) -> Option<Overlay> {
    let task = state.stage()?.report.as_ref()?;
    let answer = |text: &str, answer: &str| {
        choice(
            text,
            Message::Report {
                topic: topic.to_owned(),
                answer: answer.to_owned(),
            },
        )
    };
    let choices = match topic {
        "layer" => std::iter::once(answer("no layer: it had its effect", "none"))
            .chain(Layer::ALL.map(|layer| answer(layer.name(), layer.name())))
            .collect(),
        "fact" => state
            .rows()
            .iter()
            .find(|row| row.probe == task.probe)
            .map(|row| row.facts())
            .unwrap_or_default()
            .into_iter()
            .chain(
                state
                    .failed_gate(&task.stage)
                    .into_iter()
                    .map(|(_, seq)| seq),
            )
            .filter_map(|seq| state.fact(seq))
            .map(|fact| {
                answer(
                    &format!("#{} {}: {}", fact.seq, fact.layer.name(), fact.line),
                    &fact.seq.to_string(),
                )
            })
            .collect(),
        "cause" => task
            .causes
            .iter()
            .map(|cause| answer(&cause.text, &cause.text))
            .collect(),
        _ => task
            .not_proven
            .iter()
            .map(|point| answer(&point.text, &point.text))
            .collect(),
    };
    Some(Overlay::Choose {
        title: topic.to_owned(),
        choices,
        selected: 0,
    })
}

fn labs(state: &State) -> Overlay {
    let mut choices = Vec::new();
    let mut selected = 0;
    for lab in state.labs().iter() {
        let passed = state.progress_of(&lab.name);
        for (index, stage) in lab.stages.iter().enumerate() {
            let here = state.lab().is_some_and(|here| here.name == lab.name)
                && index == state.stage_index();
            let done = passed.is_some_and(|lab| lab.passed.contains(&stage.name));
            if here {
                selected = choices.len();
            }
            let kind = if stage.kind == StageKind::Read {
                ""
            } else {
                stage_word(stage.kind)
            };
            let text = format!(
                "{}{} {}/{} {} {kind}",
                if here { "> " } else { "  " },
                lab.name,
                index + 1,
                lab.stages.len(),
                stage.title
            );
            choices.push(choice(
                &format!("{text}{}", if done { " (passed)" } else { "" }),
                Message::GoTo {
                    lab: lab.name.clone(),
                    stage: index,
                },
            ));
        }
    }
    Overlay::Choose {
        title: "Go to a stage (its work is taken back to its start)".to_owned(),
        choices,
        selected,
    }
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

fn reconcile(state: &State) -> Overlay {
    let choices = vec![
        choice(
            "adopt: go on with the cluster as it is",
            Message::Reconcile(Reconcile::Adopt),
        ),
        choice(
            "re-apply what this lab had applied",
            Message::Reconcile(Reconcile::Reapply),
        ),
        choice(
            "reset: start the lab over",
            Message::Reconcile(Reconcile::Reset),
        ),
    ];
    Overlay::Choose {
        title: format!("The cluster differs: {}", state.drift().join("; ")),
        choices,
        selected: 0,
    }
}
