//! The lab line by line, for readers of screens, for dumb terminals and for pipes: nothing is redrawn, every change is
//! one new line, answers are typed.
//!
//! It drives the same [`App`] and the same session as the screen does; words stand for its keys.

mod news;
mod showing;
mod texts;

use std::io::{IsTerminal as _, Write};
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use ratatui::text::Line;

use self::news::Said;
use self::texts::{offer, place};
use super::app::{App, Command, Overlay};
use super::editor::{self, Editor};
use super::keys::Action;
use super::look::Looker;
use super::manifest::Compare;
use super::screen::{End, ScreenError};
use super::signals::Signals;
use super::terminal::Modes;
use super::theme::Theme;
use super::typed::Typed;
use super::vetting::vet;
use super::{brief, markdown, preview, view};
use crate::cluster::Cluster;
use crate::runner::driver::Driver;
use crate::session::{Message, StagePhase};

/// Where there is no terminal: wide enough that no sentence is broken for its own sake.
const WIDTH: u16 = 2000;
/// Lines that wait until what is under way has ended; more are not read before.
const MOST_WAITING: usize = 1000;

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
        app: App {
            keys: false,
            ..App::new(theme)
        },
        looker,
        out,
        said: Said::default(),
        signals: Signals::heard()?,
        typed: Typed::start()?,
        told_found: false,
        gone: false,
    };
    linear.run().await
}

struct Linear<'a> {
    driver: &'a mut Driver,
    app: App,
    looker: Looker,
    out: &'a mut (dyn Write + Send),
    said: Said,
    signals: Signals,
    typed: Typed,
    /// What was found when the session was taken up has been said.
    told_found: bool,
    /// Nobody reads any more.
    gone: bool,
}

impl Linear<'_> {
    async fn run(&mut self) -> Result<End, ScreenError> {
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
            let due = self.said.due(self.driver.state(), Timestamp::now());
            if !working && !waiting.is_empty() {
                let line = waiting.remove(0);
                if let Some(end) = self.line(&line).await? {
                    return Ok(end);
                }
                continue;
            }
            if !open && !working {
                return Ok(End::Quit);
            }
            tokio::select! {
                biased;
                end = self.signals.end() => return Ok(end),
                // Before what is typed, of which there may be more than anybody can read.
                message = self.driver.next() => self.driver.take(message)?,
                line = self.typed.next(), if open && waiting.len() < MOST_WAITING => match line {
                    Some(line) if working && !at_once(&line) => {
                        self.later(&line);
                        waiting.push(line);
                    }
                    Some(line) => if let Some(end) = self.line(&line).await? {
                        return Ok(end);
                    },
                    None => open = false,
                },
                () = pass(due) => {}
            }
        }
    }

    /// Whoever types is told that a word waits; what comes from a file waits without a word.
    fn later(&mut self, line: &str) {
        let word = line.split_whitespace().next();
        if let Some(word) = word.filter(|_| std::io::stdin().is_terminal()) {
            self.say(&format!("{word} waits until this has ended"));
        }
    }

    fn say(&mut self, text: &str) {
        let text = self.app.theme.text(text);
        let wrote = writeln!(self.out, "{}", text.trim_end()).and_then(|()| self.out.flush());
        self.gone |= wrote.is_err();
    }

    fn say_markdown(&mut self, text: &str) {
        let lines = markdown::render_spoken(text, self.width(), self.app.theme);
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
        let asked = self.app.overlay.clone();
        self.app.differs(state);
        let asks_anew = self.app.overlay != asked;
        let mut lines = Vec::new();
        if !std::mem::replace(&mut self.told_found, true) {
            lines.extend(state.found().iter().cloned());
        }
        let place = place(state);
        let moved = place != self.said.place;
        if moved {
            self.said = Said::at(place.clone());
            self.app.row = 0;
        }
        let failure = self.driver.failure().unwrap_or_default();
        lines.extend(self.said.news(state, failure, Timestamp::now()));
        let hints = state.hints().to_vec();
        let text = state.stage().map(|stage| stage.text.clone());
        let offer = offer(state);
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
        if asks_anew {
            self.overlay();
        }
        // Whoever is asked something is told afterwards what can be done.
        if self.app.overlay.is_some() || offer == self.said.offer {
            return;
        }
        if !offer.is_empty() {
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

    /// Takes a typed line; answers how it ends, if one leaves.
    async fn line(&mut self, line: &str) -> Result<Option<End>, ScreenError> {
        let line = line.trim();
        if let Ok(number) = line.parse::<usize>()
            && let Some(Overlay::Choose { choices, .. }) = &self.app.overlay
        {
            let last = choices.len();
            if !(1..=last).contains(&number) {
                self.say(&format!("there is no {number}; type 1 to {last}, or no"));
                return Ok(None);
            }
            let command = self.app.pick(number.wrapping_sub(1), self.driver.state());
            return self.carry_out(command).await;
        }
        if line.parse::<usize>().is_ok() {
            self.say("no list is open; a number chooses from one");
            return Ok(None);
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let (word, rest) = match words.split_first() {
            Some((word, rest)) => (*word, rest),
            None => ("next", &[][..]),
        };
        match word {
            "quit" | "q" => return Ok(Some(End::Quit)),
            "no" if self.app.overlay.is_some() => {
                self.app.overlay = None;
                self.said.offer.clear();
            }
            word if self.shown(word, rest).await => {}
            word => return self.act(word).await,
        }
        Ok(None)
    }

    /// Does what a word stands for.
    async fn act(&mut self, word: &str) -> Result<Option<End>, ScreenError> {
        let found = WORDS.iter().find(|(name, ..)| *name == word);
        let Some((_, action, _)) = found else {
            self.say(&format!("there is no word {word}; help lists them"));
            return Ok(None);
        };
        if self.app.overlay.is_some() && *action == Action::Next {
            self.say("type the number of a choice, or no");
            return Ok(None);
        }
        self.app.overlay = None;
        self.app.prepare(self.driver.state(), 80, 24);
        let command = self.app.act(*action, self.driver.state());
        self.carry_out(command).await
    }

    async fn carry_out(&mut self, command: Option<Command>) -> Result<Option<End>, ScreenError> {
        match command {
            None => {}
            Some(Command::Quit) => return Ok(Some(End::Quit)),
            Some(Command::Interrupt) => return Ok(Some(End::Interrupted)),
            Some(Command::GoOn) => match preview::due(self.driver)? {
                Some(file) => self.app.overlay = Some(preview::of(self.driver, &file)),
                None => self.tell(Message::Next)?,
            },
            Some(Command::Tell(message)) => self.tell(message)?,
            Some(Command::Edit { manifest, line } | Command::EditHere { manifest, line }) => {
                if let Some(end) = self.edit(&manifest, line).await? {
                    return Ok(Some(end));
                }
            }
            Some(Command::Preview { manifest }) => {
                self.app.overlay = Some(preview::of(self.driver, &manifest));
            }
            Some(Command::Look(look)) => self.look(look).await,
            Some(Command::Copy(text)) => self.say(&text),
            Some(
                Command::Save { .. }
                | Command::TakeUp { .. }
                | Command::Mouse(_)
                | Command::Redraw
                | Command::Suspend,
            ) => {}
        }
        // What came of it, before the next question.
        self.changes();
        self.overlay();
        Ok(None)
    }

    fn tell(&mut self, message: Message) -> Result<(), ScreenError> {
        let state = self.driver.state();
        match vet(state, &message, &self.looker.dir, &self.looker.cluster) {
            Ok(notes) => notes.iter().for_each(|note| self.say(note)),
            Err(why) => {
                self.say(&why);
                return Ok(());
            }
        }
        self.driver.tell(message.clone())?;
        self.app.follow_up(&message, self.driver.state());
        if matches!(message, Message::Reveal { .. }) && self.driver.state().revealed() {
            self.manifest(Compare::Reference);
        }
        Ok(())
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
                    let number = index + 1;
                    // Stages have this number in their text, for who reads it from a screen.
                    let counted = choice.text.strip_prefix(&format!("{number}/"));
                    let text = counted.and_then(|rest| Some(rest.split_once(' ')?.1));
                    let text = spoken(text.unwrap_or(&choice.text));
                    self.say(&format!("{number}. {text}"));
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

    /// Nothing is read from the terminal while the editor has it.
    async fn edit(&mut self, file: &str, line: Option<usize>) -> Result<Option<End>, ScreenError> {
        let path = match self.driver.working_copy(file) {
            Ok(path) => path,
            Err(error) => {
                self.say(&error.to_string());
                return Ok(None);
            }
        };
        let editor = editor::command()
            .map_err(|why| {
                format!(
                    "{why}; edit {} in another terminal, then type apply",
                    path.display()
                )
            })
            .and_then(|words| {
                self.typed.pause();
                // Before the editor can set the terminal for itself.
                let modes = Modes::now();
                Ok((Editor::start(&words, &path, line)?, modes))
            });
        let edited = match editor {
            Ok((editor, modes)) => self.wait_for(editor, &modes).await,
            Err(why) => Ok(Err(why)),
        };
        self.signals.forget_keys().await;
        self.typed.resume()?;
        match edited? {
            Ok(Some(end)) => return Ok(Some(end)),
            Ok(None) => {
                self.driver.tell(Message::Edited {
                    manifest: file.to_owned(),
                })?;
                self.app.overlay = Some(preview::of(self.driver, file));
            }
            Err(why) => self.say(&why),
        }
        Ok(None)
    }

    /// The session goes on while the editor has the terminal; what changes is said afterwards.
    async fn wait_for(
        &mut self,
        mut editor: Editor,
        modes: &Modes,
    ) -> Result<Result<Option<End>, String>, ScreenError> {
        loop {
            let message = tokio::select! {
                biased;
                end = self.signals.end_beside_an_editor() => {
                    editor.stop().await;
                    modes.restore();
                    return Ok(Ok(Some(end)));
                }
                edited = editor.ended() => {
                    modes.restore();
                    return Ok(edited.map(|()| None));
                }
                message = self.driver.next() => message,
            };
            if let Err(error) = self.driver.take(message) {
                editor.stop().await;
                modes.restore();
                return Err(error.into());
            }
        }
    }
}

/// A choice as it is said: a log line behind its place in short, since nobody follows one of JSON by ear.
fn spoken(text: &str) -> String {
    match text.split_once(": ") {
        Some((place, line)) if line.starts_with('{') => {
            format!("{place}: {}", brief::brief(line))
        }
        _ => text.to_owned(),
    }
}

/// Until it is time to say again what is waited for; for ever where nothing is.
async fn pass(due: Option<Duration>) {
    match due {
        Some(due) => tokio::time::sleep(due).await,
        None => std::future::pending().await,
    }
}

/// Words that do not wait for what is under way.
fn at_once(line: &str) -> bool {
    matches!(
        line.trim(),
        "cancel" | "quit" | "q" | "status" | "table" | "gate" | "counters" | "help" | "?"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_among_choices_is_said_in_short() {
        let line = r#"#9 submit: {"level":"error","ts":"2026-11-30T20:03:31.834188539Z","logger":"l","caller":"c","msg":"Failed to execute a trigger","error":"no right"}"#;
        assert_eq!(
            spoken(line),
            "#9 submit: 20:03:31.834 error Failed to execute a trigger error=no right"
        );
        for other in ["#11 intake: HTTP 200 success", "submit", "a: {b"] {
            assert_eq!(spoken(other), other);
        }
    }
}
