//! The lab line by line, for readers of screens, for dumb terminals and for pipes: nothing is redrawn, every change is
//! one new line, answers are typed.
//!
//! It drives the same [`App`] and the same session as the screen does; words stand for its keys.

use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal as _, Write};
use std::path::Path;

use ratatui::text::Line;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::app::{App, Command, Overlay, Pane, stage_word};
use super::keys::Action;
use super::look::{Answer, Looker};
use super::manifest::{self, Texts};
use super::screen::{End, ScreenError};
use super::theme::Theme;
use super::vetting::vet;
use super::{editor, keys, markdown, preview, view};
use crate::cluster::Cluster;
use crate::evidence::{CellState, Layer};
use crate::runner::driver::Driver;
use crate::session::{Message, SessionView, StagePhase, State};

/// Where there is no terminal: wide enough that no sentence is broken for its own sake.
const WIDTH: u16 = 2000;

/// The words that are typed, and the keys they stand for.
const WORDS: &[(&str, Action, &str)] = &[
    (
        "next",
        Action::Next,
        "do what is offered; an empty line does the same",
    ),
    ("answer", Action::Answer, "predict, or answer the report"),
    (
        "edit",
        Action::Edit,
        "edit this stage's manifest in $VISUAL or $EDITOR",
    ),
    (
        "apply",
        Action::Apply,
        "show what the edited filter would flip, and apply it",
    ),
    ("hint", Action::Hint, "the next hint"),
    (
        "solution",
        Action::Reveal,
        "the reference solution, after a try or on confirmation",
    ),
    ("again", Action::Retry, "do the stage's work again"),
    ("cancel", Action::Cancel, "stop waiting for what runs now"),
    ("labs", Action::Labs, "list the labs, and go to one"),
    ("stages", Action::Stages, "go back to a stage of this lab"),
    ("reset", Action::Reset, "start this lab over"),
    ("quit", Action::Quit, "leave; everything is saved"),
];

/// Runs until the input ends or one leaves.
///
/// # Errors
/// The session cannot be saved any more.
pub async fn run(
    driver: &mut Driver,
    cluster: &Cluster,
    theme: Theme,
    dir: &Path,
    out: &mut (dyn Write + Send),
) -> Result<End, ScreenError> {
    let looker = Looker {
        cluster: cluster.clone(),
        dir: dir.to_owned(),
        labs: driver.state().labs().clone(),
    };
    let mut linear = Linear {
        driver,
        app: App::new(theme),
        looker,
        out,
        said: Said::default(),
        told_found: false,
        gone: false,
    };
    linear.run(typed()).await
}

/// Lines of stdin. The thread that reads them ends with the process.
fn typed() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// What was said last, so that only changes are.
#[derive(Default)]
struct Said {
    place: String,
    phase: String,
    wait: String,
    notice: String,
    counters: String,
    hints: usize,
    offer: String,
    cells: BTreeMap<(String, &'static str), String>,
}

struct Linear<'a> {
    driver: &'a mut Driver,
    app: App,
    looker: Looker,
    out: &'a mut (dyn Write + Send),
    said: Said,
    /// What was found when the session was taken up has been said.
    told_found: bool,
    /// Nobody reads any more.
    gone: bool,
}

impl Linear<'_> {
    async fn run(
        &mut self,
        mut typed: mpsc::UnboundedReceiver<String>,
    ) -> Result<End, ScreenError> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        self.say(
            "eventlab, line by line. Type help for the words; an empty line does what is offered.",
        );
        let mut waiting: Vec<String> = Vec::new();
        let mut open = true;
        loop {
            self.changes();
            if self.gone {
                return Ok(End::Quit);
            }
            let working = matches!(self.driver.state().phase(), StagePhase::Working { .. });
            if !working && !waiting.is_empty() {
                let line = waiting.remove(0);
                if self.line(&line).await? {
                    return Ok(End::Quit);
                }
                continue;
            }
            if !open && !working {
                return Ok(End::Quit);
            }
            tokio::select! {
                biased;
                _ = terminate.recv() => return Ok(End::Terminated),
                _ = hang_up.recv() => return Ok(End::Interrupted),
                _ = interrupt.recv() => return Ok(End::Quit),
                line = typed.recv(), if open => match line {
                    Some(line) if working && !at_once(&line) => waiting.push(line),
                    Some(line) => if self.line(&line).await? {
                        return Ok(End::Quit);
                    },
                    None => open = false,
                },
                message = self.driver.next() => self.driver.take(message)?,
            }
        }
    }

    fn say(&mut self, text: &str) {
        let text = self.app.theme.text(text);
        let wrote = writeln!(self.out, "{}", text.trim_end()).and_then(|()| self.out.flush());
        self.gone |= wrote.is_err();
    }

    fn say_markdown(&mut self, text: &str) {
        let lines = markdown::render(text, self.width(), self.app.theme);
        self.say_lines(&lines);
    }

    fn say_lines(&mut self, lines: &[Line<'_>]) {
        for line in lines {
            self.say(&line.to_string());
        }
    }

    /// Words are kept whole where a terminal would break them.
    fn width(&self) -> u16 {
        let terminal = std::io::stdout().is_terminal();
        let size = terminal.then(|| crossterm::terminal::size().ok()).flatten();
        size.map_or(WIDTH, |(columns, _)| columns.max(20))
    }

    /// One line for each thing that is not as it was said last.
    fn changes(&mut self) {
        let state = self.driver.state();
        let mut lines = Vec::new();
        if !std::mem::replace(&mut self.told_found, true) {
            lines.extend(state.found().iter().cloned());
        }
        let place = place(state);
        let moved = place != self.said.place;
        if moved {
            self.said = Said {
                place: place.clone(),
                ..Said::default()
            };
            self.app.row = 0;
        }
        let wait = state.wait().map(|wait| wait.what).unwrap_or_default();
        if wait != self.said.wait && !wait.is_empty() {
            lines.push(format!("waiting for {wait}; cancel stops it"));
        }
        self.said.wait = wait;
        lines.extend(self.said.cells(state));
        let counters = state.counters();
        let counted = format!(
            "intakes {}, approved {}, completed {}, effects {}",
            counters.intakes, counters.approved, counters.completed, counters.effects
        );
        if counted != self.said.counters && !(moved && counters == Default::default()) {
            lines.push(counted.clone());
        }
        self.said.counters = counted;
        let notice = state.notice().unwrap_or_default().to_owned();
        if notice != self.said.notice && !notice.is_empty() {
            lines.push(notice.clone());
        }
        self.said.notice = notice;
        let phase = phase(state);
        if phase != self.said.phase && !phase.is_empty() {
            lines.extend(phase.lines().map(str::to_owned));
        }
        self.said.phase = phase;
        let hints = state.hints().to_vec();
        let text = state.stage().map(|stage| stage.text.clone());
        if let Some(failure) = self.driver.failure() {
            lines.push(failure.to_owned());
        }
        let offer = offer(self.driver.state());
        if moved {
            self.say("");
            self.say(&place);
            self.say_stage(&text.unwrap_or_default());
        }
        for (index, hint) in hints.iter().enumerate().skip(self.said.hints) {
            self.say_markdown(&format!("Hint {}. {hint}", index + 1));
        }
        self.said.hints = hints.len();
        for line in lines {
            self.say(&line);
        }
        if let Some(flash) = self.app.flash.take() {
            self.say(&flash);
        }
        if offer != self.said.offer && !offer.is_empty() {
            self.say(&offer);
        }
        self.said.offer = offer;
    }

    /// A stage's text and what follows it, the debrief in sentences.
    fn say_stage(&mut self, text: &str) {
        self.say_markdown(text);
        let (state, theme) = (self.driver.state(), self.app.theme);
        let after = view::after_text(state, theme, self.width(), false);
        self.say_lines(&after);
    }

    /// Takes a typed line; true to leave.
    async fn line(&mut self, line: &str) -> Result<bool, ScreenError> {
        let line = line.trim();
        if let Ok(number) = line.parse::<usize>()
            && self.app.overlay.is_some()
        {
            let command = self.app.pick(number.wrapping_sub(1), self.driver.state());
            return self.carry_out(command).await;
        }
        let mut words = line.split_whitespace();
        match words.next() {
            Some("help" | "?") => self.help(),
            Some("status" | "table") => self.table(),
            Some("text") => self.said.place.clear(),
            Some("facts") => {
                let words: Vec<&str> = words.collect();
                self.facts(&words);
            }
            Some("manifest") => self.manifest(),
            Some("report") => {
                let answer = self.looker.look(&super::look::Look::Report).await;
                self.answer(answer);
            }
            Some("ledger") => {
                let answer = self.looker.look(&super::look::Look::Tables).await;
                self.answer(answer);
            }
            Some("logs") => {
                let look = match words.next() {
                    Some(of) => super::look::Look::Log { of: of.to_owned() },
                    None => super::look::Look::Pods,
                };
                let answer = self.looker.look(&look).await;
                self.answer(answer);
            }
            Some("quit" | "q") => return Ok(true),
            Some("no") if self.app.overlay.is_some() => self.app.overlay = None,
            word => {
                let word = word.unwrap_or("next");
                let found = WORDS.iter().find(|(name, ..)| *name == word);
                let Some((_, action, _)) = found else {
                    self.say(&format!("there is no word {word}; help lists them"));
                    return Ok(false);
                };
                if self.app.overlay.is_some() && *action == Action::Next {
                    self.say("type the number of a choice, or no");
                    return Ok(false);
                }
                self.app.overlay = None;
                self.app.prepare(self.driver.state(), 80, 24);
                let command = self.app.act(*action, self.driver.state());
                return self.carry_out(command).await;
            }
        }
        Ok(false)
    }

    async fn carry_out(&mut self, command: Option<Command>) -> Result<bool, ScreenError> {
        match command {
            None => {}
            Some(Command::Quit) => return Ok(true),
            Some(Command::Tell(message)) => {
                let state = self.driver.state();
                match vet(state, &message, &self.looker.dir, &self.looker.cluster) {
                    Ok(notes) => notes.iter().for_each(|note| self.say(note)),
                    Err(why) => {
                        self.say(&why);
                        return Ok(false);
                    }
                }
                self.driver.tell(message.clone())?;
                self.app.follow_up(&message, self.driver.state());
                if matches!(message, Message::Reveal { .. }) && self.driver.state().revealed() {
                    self.manifest();
                }
            }
            Some(Command::Edit { manifest, line } | Command::EditHere { manifest, line }) => {
                self.edit(&manifest, line).await?;
            }
            Some(Command::Preview { manifest }) => self.preview(&manifest),
            Some(Command::Look(look)) => {
                let answer = self.looker.look(&look).await;
                self.answer(answer);
            }
            Some(Command::Copy(text)) => self.say(&text),
            Some(Command::Save { .. } | Command::Mouse(_) | Command::Redraw | Command::Suspend) => {
            }
        }
        self.overlay();
        Ok(false)
    }

    fn answer(&mut self, answer: Result<Answer, String>) {
        match answer {
            Ok(Answer::Object { title, lines, .. }) => {
                self.say(&title);
                lines.iter().for_each(|line| self.say(line));
            }
            Ok(Answer::Report(text)) => self.say_markdown(&text),
            Ok(Answer::Tables(tables)) => {
                for table in tables {
                    self.say(&format!("{}, {} rows", table.title, table.rows.len()));
                    for row in &table.rows {
                        let cells = table.columns.iter().zip(row);
                        let cells: Vec<String> = cells
                            .filter(|(_, cell)| !cell.is_empty())
                            .map(|(name, cell)| format!("{name} {cell}"))
                            .collect();
                        self.say(&cells.join(", "));
                    }
                }
            }
            Err(error) => self.say(&error),
        }
    }

    /// Says a question with its numbered choices; anything else that is open is said and closed.
    fn overlay(&mut self) {
        match self.app.overlay.clone() {
            Some(Overlay::Choose {
                title,
                preface,
                choices,
                ..
            }) => {
                self.say(&title);
                preface.iter().for_each(|line| self.say(line));
                for (index, choice) in choices.iter().enumerate() {
                    self.say(&format!("{}. {}", index + 1, choice.text));
                }
                self.say("Type a number, or no.");
            }
            Some(Overlay::Text { title, lines, .. }) => {
                self.say(&title);
                lines.iter().for_each(|line| self.say(line));
                self.app.overlay = None;
            }
            Some(Overlay::Facts { .. } | Overlay::Help { .. }) | None => self.app.overlay = None,
        }
    }

    fn help(&mut self) {
        for (word, _, what) in WORDS {
            self.say(&format!("{word}: {what}"));
        }
        for text in [
            "status: every probe and where it is",
            "facts PROBE LAYER: the facts of a cell, with their lines and commands",
            "manifest: this stage's manifest",
            "ledger: what the ledger holds",
            "logs: the pods; logs NAME: the last lines of the first whose name begins so",
            "report: the incident report so far",
            "text: the stage's text again",
            "A number chooses from a list; no leaves it.",
        ] {
            self.say(text);
        }
        self.say(&format!(
            "The same with keys on a screen: {} keys, see eventlab man.",
            keys::BINDINGS.len()
        ));
    }

    fn table(&mut self) {
        let state = self.driver.state();
        let rows = state.rows();
        let names = super::panes::row_names(&rows, state);
        let mut lines = Vec::new();
        for (row, name) in rows.iter().zip(names) {
            let cells: Vec<String> = Layer::ALL
                .iter()
                .map(|layer| {
                    let cell = row.cell(*layer);
                    format!("{} {}", layer.name(), word(cell.state, &cell.text))
                })
                .collect();
            lines.push(format!("{name} ({}): {}", row.probe, cells.join(", ")));
        }
        if lines.is_empty() {
            lines.push("no probe was sent yet".to_owned());
        }
        lines.iter().for_each(|line| self.say(line));
        self.said.offer.clear();
    }

    fn facts(&mut self, words: &[&str]) {
        let state = self.driver.state();
        let (Some(probe), Some(layer)) = (
            words.first(),
            words.get(1).and_then(|name| Layer::parse(name)),
        ) else {
            self.say("write it as: facts PROBE LAYER, such as facts control filter");
            return;
        };
        let mut lines = Vec::new();
        for row in state.rows().iter().filter(|row| row.probe == *probe) {
            for fact in row
                .cell(layer)
                .facts
                .iter()
                .filter_map(|seq| state.fact(*seq))
            {
                lines.push(format!(
                    "fact {}, {} in {}",
                    fact.seq, fact.time, fact.source
                ));
                lines.push(format!("line: {}", fact.line));
                lines.push(format!("command: {}", fact.command));
            }
        }
        if lines.is_empty() {
            lines.push(format!("there is no fact of {probe} at {layer} yet"));
        }
        lines.iter().for_each(|line| self.say(line));
    }

    fn manifest(&mut self) {
        self.app.manifest = Texts::of(self.driver);
        for line in self.app.manifest.lines(self.app.compare, self.app.theme) {
            self.say(&line.to_string());
        }
        self.app.compare = manifest::Compare::Nothing;
        self.app.pane = Pane::Evidence;
    }

    async fn edit(&mut self, file: &str, line: Option<usize>) -> Result<(), ScreenError> {
        let path = match self.driver.working_copy(file) {
            Ok(path) => path,
            Err(error) => {
                self.say(&error.to_string());
                return Ok(());
            }
        };
        let edited = match editor::command() {
            Ok(words) => editor::edit(&words, &path, line).await,
            Err(why) => Err(format!(
                "{why}; edit {} in another terminal, then type apply",
                path.display()
            )),
        };
        match edited {
            Ok(()) => {
                self.driver.tell(Message::Edited {
                    manifest: file.to_owned(),
                })?;
                self.preview(file);
            }
            Err(error) => self.say(&error),
        }
        Ok(())
    }

    fn preview(&mut self, file: &str) {
        if let Err(error) = SessionView::copies(&self.looker.dir).read(file) {
            self.say(&error.to_string());
            return;
        }
        let text = self
            .driver
            .copy_text(file)
            .unwrap_or_else(|| self.driver.original(file));
        self.app.overlay = Some(match manifest::check(file, &text) {
            Err((error, line)) => preview::unreadable(file, &text, &error, line),
            Ok(edited) => preview::overlay(self.driver, file, &text, &edited),
        });
    }
}

/// Words that do not wait for what is under way.
fn at_once(line: &str) -> bool {
    matches!(
        line.trim(),
        "cancel" | "quit" | "q" | "status" | "table" | "help" | "?"
    )
}

fn place(state: &State) -> String {
    match (state.lab(), state.stage()) {
        (Some(lab), Some(stage)) => format!(
            "Lab {}, stage {} of {}, {}: {}",
            lab.name,
            state.stage_index() + 1,
            lab.stages.len(),
            stage_word(stage.kind),
            stage.title
        ),
        _ => "There are no labs.".to_owned(),
    }
}

fn phase(state: &State) -> String {
    let mut lines = match state.phase() {
        StagePhase::Passed => vec!["passed".to_owned()],
        StagePhase::Failed { failures } => failures
            .iter()
            .map(|failure| format!("refuted: {}", failure.text))
            .collect(),
        StagePhase::Unproven { reasons } => reasons
            .iter()
            .map(|reason| format!("unproven: {}", reason.text))
            .collect(),
        StagePhase::Interrupted { .. } => vec!["interrupted".to_owned()],
        StagePhase::Fresh | StagePhase::Working { .. } => Vec::new(),
    };
    lines.extend(
        state
            .drift()
            .iter()
            .map(|line| format!("the cluster differs: {line}")),
    );
    lines.extend(view::unresolved(state, false));
    lines.join("\n")
}

/// What can be done now.
fn offer(state: &State) -> String {
    let footer = state.footer();
    if footer.cancel {
        return String::new();
    }
    let mut words = Vec::new();
    if footer.next_enabled || footer.reconcile {
        words.push(format!("Enter: {}", footer.next));
    } else if !footer.next.is_empty() {
        words.push(footer.next.clone());
    }
    for (wanted, word) in [
        (footer.predict || footer.report, "answer"),
        (footer.edit, "edit"),
        (footer.edit, "apply"),
        (footer.hint, "hint"),
        (footer.reveal, "solution"),
        (footer.retry, "again"),
    ] {
        if wanted {
            words.push(word.to_owned());
        }
    }
    words.join("; ")
}

fn word(state: CellState, text: &str) -> String {
    let word = match state {
        CellState::Yes => "yes",
        CellState::Implied => "implied",
        CellState::No => "no",
        CellState::Pending => "pending",
        CellState::Unknown => "unknown",
    };
    if text.is_empty() {
        word.to_owned()
    } else {
        format!("{word}, {text}")
    }
}

impl Said {
    /// Cells that have changed, each in one line.
    fn cells(&mut self, state: &State) -> Vec<String> {
        let rows = state.rows();
        let names = super::panes::row_names(&rows, state);
        let mut lines = Vec::new();
        for (index, (row, name)) in rows.iter().zip(names).enumerate() {
            for layer in Layer::ALL {
                let cell = row.cell(layer);
                let now = word(cell.state, &cell.text);
                let key = (format!("{index} {name}"), layer.name());
                let settled = !matches!(cell.state, CellState::Unknown | CellState::Pending);
                let before = self.cells.insert(key, now.clone());
                if settled && before.as_deref() != Some(now.as_str()) {
                    lines.push(format!("{name}: {} {now}", layer.name()));
                }
            }
        }
        lines
    }
}
