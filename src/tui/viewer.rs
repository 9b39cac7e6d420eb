//! An evidence bundle on the same screen: everything in it can be read, and nothing can be done.
//!
//! A bundle may come from anybody: nothing of it is looked up, followed or carried out, and what is copied is one line.

use crossterm::event::{Event, KeyEventKind, MouseEventKind};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use super::app::{App, Command, Pane};
use super::look::Look;
use super::manifest::Texts;
use super::screen::{self, COPY_LIMIT, End, FRAME, ScreenError, next_event};
use super::signals::Signals;
use super::terminal::{Events, Surface, TerminalGuard};
use super::theme::Theme;
use crate::report::bundle::Bundle;
use crate::report::markdown;
use crate::session::{Message, State};

/// Shows a bundle until it is left.
///
/// # Errors
/// The terminal fails.
pub async fn run(bundle: &Bundle, theme: Theme) -> Result<End, ScreenError> {
    let surface = TerminalGuard::take()?;
    Viewer::new(bundle, theme, surface).run().await
}

/// A bundle on any surface.
pub struct Viewer<'a, S> {
    bundle: &'a Bundle,
    state: State,
    app: App,
    surface: S,
    /// `None` while the shell has the terminal.
    events: Option<Events>,
    dirty: bool,
    /// When the next frame may be drawn.
    deadline: Instant,
}

impl<'a, S: Surface> Viewer<'a, S> {
    /// A bundle that is drawn on a surface.
    #[must_use]
    pub fn new(bundle: &'a Bundle, theme: Theme, mut surface: S) -> Self {
        let mut app = App::new(theme);
        app.read_only = true;
        app.pane = Pane::Report;
        app.reach.push(format!(
            "`{}` of {}",
            bundle.head.session,
            bundle.head.made.strftime("%Y-%m-%d %H:%M UTC")
        ));
        app.report = Some(Ok(markdown::render(&bundle.report())));
        app.tables = Some(Err(
            "the tables are not kept; the rows that were seen as facts are below".to_owned(),
        ));
        let mut viewer = Self {
            bundle,
            state: bundle.state(),
            app,
            events: Some(surface.events()),
            surface,
            dirty: true,
            deadline: Instant::now(),
        };
        viewer.show(bundle.state());
        viewer.state.note_found(bundle.notes.iter().cloned());
        viewer
    }

    /// Runs until it is left.
    ///
    /// # Errors
    /// As [`run`].
    pub async fn run(&mut self) -> Result<End, ScreenError> {
        let mut signals = Signals::heard()?;
        let mut go_on = signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?;
        loop {
            tokio::select! {
                biased;
                end = signals.end() => return Ok(end),
                _ = go_on.recv() => if !self.take_back() {
                    return Ok(End::Interrupted);
                },
                event = next_event(&mut self.events) => match event {
                    Some(Ok(event)) => if let Some(end) = self.event(event, &mut signals).await? {
                        return Ok(end);
                    },
                    Some(Err(_)) | None => return Ok(End::Interrupted),
                },
                () = tokio::time::sleep_until(self.deadline), if self.dirty => {
                    if !self.draw() {
                        return Ok(End::Interrupted);
                    }
                }
            }
        }
    }

    /// False when the terminal has gone away.
    fn draw(&mut self) -> bool {
        let Ok(size) = self.surface.size() else {
            return false;
        };
        self.app.prepare(&self.state, size.width, size.height);
        self.dirty = false;
        self.deadline = Instant::now() + FRAME;
        self.surface.draw(&self.state, &self.app).is_ok()
    }

    /// Shows the session at one of its stages.
    fn show(&mut self, state: State) {
        self.app.manifest = Texts {
            others: manifests(self.bundle, &state),
            ..Texts::default()
        };
        self.state = state;
        self.app.row = 0;
        self.app.text.top = 0;
        self.app.touch();
    }

    async fn event(
        &mut self,
        event: Event,
        signals: &mut Signals,
    ) -> Result<Option<End>, ScreenError> {
        let command = match event {
            Event::Key(key) if key.kind == KeyEventKind::Release => return Ok(None),
            Event::Key(key) => self.app.key(key, &self.state),
            Event::Mouse(mouse)
                if matches!(mouse.kind, MouseEventKind::Moved | MouseEventKind::Up(_)) =>
            {
                return Ok(None);
            }
            Event::Mouse(mouse) => self.app.mouse(mouse, &self.state),
            Event::Paste(text) => {
                self.app.paste(&text);
                None
            }
            _ => None,
        };
        self.dirty = true;
        match command {
            None => {}
            Some(Command::Quit) => return Ok(Some(End::Quit)),
            Some(Command::Interrupt) => return Ok(Some(End::Interrupted)),
            Some(Command::Tell(Message::GoTo { lab, stage })) => {
                self.show(self.bundle.state_at(&lab, stage));
            }
            Some(Command::Copy(text)) => self.copy(&text),
            Some(Command::Mouse(on)) => self.surface.mouse(on)?,
            Some(Command::Redraw) if !self.take_back() => return Ok(Some(End::Interrupted)),
            Some(Command::Redraw) => {}
            Some(Command::Suspend) => return self.suspend(signals).await,
            // They are here already.
            Some(Command::Look(Look::Report | Look::Tables)) => self.app.touch(),
            Some(_) => {
                self.app.flash = Some(
                    "only what was seen is kept here; y copies the command that shows it"
                        .to_owned(),
                );
            }
        }
        Ok(None)
    }

    /// One line, whatever it holds: a line end would be carried out where it is pasted.
    fn copy(&mut self, text: &str) {
        let text: String = text
            .chars()
            .map(|character| {
                if character.is_control() {
                    ' '
                } else {
                    character
                }
            })
            .collect();
        let done = text.len() <= COPY_LIMIT && self.surface.copy(&text);
        self.app.flash = Some(if done {
            format!("copied, read it before you run it: {text}")
        } else {
            format!(
                "too long to copy through the terminal ({} bytes)",
                text.len()
            )
        });
    }

    /// False when the terminal has gone away.
    fn take_back(&mut self) -> bool {
        self.app.touch();
        self.dirty = true;
        self.surface.take_back(self.app.mouse).is_ok()
    }

    async fn suspend(&mut self, signals: &mut Signals) -> Result<Option<End>, ScreenError> {
        self.events = None;
        self.surface.lend();
        let went = screen::stop_until_continued().await?;
        if let Some(end) = signals.until_foreground().await {
            return Ok(Some(end));
        }
        if !self.take_back() {
            return Ok(Some(End::Interrupted));
        }
        self.events = Some(self.surface.events());
        if !went {
            self.app.flash = Some("there is no shell here to come back from".to_owned());
        }
        Ok(None)
    }
}

/// The learner's copies, that of the shown stage first.
fn manifests(bundle: &Bundle, state: &State) -> Vec<(String, String)> {
    let here = state
        .stage()
        .and_then(|stage| stage.fix.as_ref())
        .map(|fix| fix.manifest.as_str());
    let mut all: Vec<(String, String)> = bundle
        .manifests
        .iter()
        .map(|(name, text)| (name.clone(), text.clone()))
        .collect();
    all.sort_by_key(|(name, _)| Some(name.as_str()) != here);
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io;
    use std::sync::Arc;

    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
    use jiff::Timestamp;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::layout::Size;

    use super::*;
    use crate::evidence::Entry;
    use crate::evidence::journal::Note;
    use crate::lab::Lab;
    use crate::report::bundle::Head;
    use crate::tui::{keys, view};

    struct Paper {
        terminal: Terminal<TestBackend>,
        copied: Vec<String>,
    }

    impl Surface for Paper {
        fn size(&mut self) -> io::Result<Size> {
            Ok(Size::new(80, 24))
        }

        fn draw(&mut self, state: &State, app: &App) -> io::Result<()> {
            self.terminal
                .draw(|frame| view::draw(frame, state, app))
                .unwrap();
            Ok(())
        }

        fn events(&mut self) -> Events {
            Box::pin(futures::stream::pending())
        }

        fn lend(&mut self) {}

        fn take_back(&mut self, _mouse: bool) -> io::Result<()> {
            Ok(())
        }

        fn copy(&mut self, text: &str) -> bool {
            self.copied.push(text.to_owned());
            true
        }

        fn mouse(&mut self, _on: bool) -> io::Result<()> {
            Ok(())
        }
    }

    fn bundle(labs: &str) -> Bundle {
        let labs: Vec<Lab> = serde_yaml::from_str(labs).unwrap();
        let note = |text: &str| {
            Entry::Note(Note {
                time: Timestamp::MAX,
                lab: "l".to_owned(),
                stage: "\u{1b}]0;x\u{7}".to_owned(),
                attempt: u32::MAX,
                topic: "\u{202e}t".to_owned(),
                text: text.to_owned(),
            })
        };
        Bundle {
            head: Head {
                version: 1,
                eventlab: "9".to_owned(),
                made: Timestamp::MIN,
                session: "\u{1b}[2Jname\n".to_owned(),
                notes: Vec::new(),
            },
            entries: vec![note("a\r\nb"), note(&"\u{1f600}".repeat(5000))],
            checkpoint: None,
            labs: Arc::from(labs),
            manifests: BTreeMap::from([("m.yaml".to_owned(), "\t\u{1b}[31m: : :\n".repeat(50))]),
            notes: vec!["damaged \u{1b}[2J".to_owned()],
        }
    }

    const LAB: &str = r#"
- name: l
  title: "\x1b[2J title"
  summary: s
  event: e
  layers: [intake]
  clusters: [embedded]
  links: []
  stages:
    - name: one
      kind: send
      title: "wide 日本語 \u202e"
      text: "| a | b |\n|---|\n- x\n```\nnever closed"
      probes:
        - {name: p, title: "p \x1b[0m", body: "{}", fate: applied}
    - {name: two, kind: read, title: two, text: ""}
"#;

    const NO_STAGES: &str = "[{name: l, title: t, summary: s, event: e, layers: [intake], clusters: [embedded], links: [], stages: []}]";

    #[tokio::test]
    async fn whatever_is_in_it_every_key_is_answered_and_nothing_acts_on_the_terminal() {
        for labs in [LAB, NO_STAGES, "[]"] {
            let bundle = bundle(labs);
            let surface = Paper {
                terminal: Terminal::new(TestBackend::new(80, 24)).unwrap(),
                copied: Vec::new(),
            };
            let mut viewer = Viewer::new(&bundle, Theme::new(true, false), surface);
            let mut signals = Signals::heard().unwrap();
            assert!(viewer.draw());
            for round in 0..3 {
                for binding in keys::BINDINGS {
                    for chord in binding.keys {
                        if matches!(chord.code, KeyCode::Char('z')) && chord.control {
                            continue;
                        }
                        let modifiers = if chord.control {
                            KeyModifiers::CONTROL
                        } else {
                            KeyModifiers::NONE
                        };
                        let event = Event::Key(KeyEvent::new(chord.code, modifiers));
                        viewer.event(event, &mut signals).await.unwrap();
                        assert!(viewer.draw(), "{chord:?} in round {round}");
                    }
                }
            }
            let cells = &viewer.surface.terminal.backend().buffer().content;
            assert!(cells.iter().all(|cell| !cell.symbol().contains('\u{1b}')));
            let copied = &viewer.surface.copied;
            assert!(
                copied
                    .iter()
                    .all(|text| !text.contains(['\n', '\r', '\u{1b}']))
            );
        }
    }
}
