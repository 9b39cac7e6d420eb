//! The loop: keys, messages, log lines and time in; frames out.

use std::time::Duration;

use crossterm::clipboard::CopyToClipboard;
use crossterm::event::{Event, EventStream};
use crossterm::execute;
use futures::StreamExt as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::app::{App, Command};
use super::terminal::TerminalGuard;
use super::theme::Theme;
use super::{editor, manifest, view};
use crate::cluster::{Cluster, LogLine};
use crate::runner::driver::{Driver, DriverError};
use crate::session::Message;

/// Between two frames, unless a key asks for one at once.
const FRAME: Duration = Duration::from_millis(33);
/// How often the seconds of a wait are drawn.
const TICK: Duration = Duration::from_millis(250);
/// The longest text that is handed to the terminal's clipboard.
const COPY_LIMIT: usize = 8 << 10;

/// Why the screen ended other than by a key.
#[derive(Debug, thiserror::Error)]
pub enum ScreenError {
    #[error("the terminal cannot be used: {0}")]
    Terminal(#[from] std::io::Error),
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// How the screen ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Quit,
    /// SIGTERM or SIGHUP.
    Signalled,
}

/// Runs the screen until it is left.
///
/// # Errors
/// The terminal fails, or the session cannot be saved any more.
pub async fn run(driver: &mut Driver, cluster: &Cluster, theme: Theme) -> Result<End, ScreenError> {
    let mut guard = TerminalGuard::take()?;
    let mut app = App::new(theme);
    app.reach.push(cluster.name().to_owned());
    let (_follower, logs) = cluster.follow_logs("");
    let mut screen = Loop {
        driver,
        app,
        events: Some(EventStream::new()),
        logs,
        dirty: true,
        deadline: Instant::now(),
        shown: None,
    };
    screen.run(&mut guard).await
}

struct Loop<'a> {
    driver: &'a mut Driver,
    app: App,
    /// `None` while an editor has the terminal.
    events: Option<EventStream>,
    logs: mpsc::Receiver<LogLine>,
    dirty: bool,
    /// When the next frame may be drawn.
    deadline: Instant,
    /// Lab, stage and revision of what the manifest pane holds.
    shown: Option<(String, usize, bool)>,
}

async fn next_event(events: &mut Option<EventStream>) -> Option<std::io::Result<Event>> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

impl Loop<'_> {
    async fn run(&mut self, guard: &mut TerminalGuard) -> Result<End, ScreenError> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        let mut tick = tokio::time::interval(TICK);
        loop {
            let waiting = self.driver.state().wait().is_some();
            tokio::select! {
                biased;
                _ = terminate.recv() => return Ok(End::Signalled),
                _ = hang_up.recv() => return Ok(End::Signalled),
                event = next_event(&mut self.events) => match event {
                    Some(Ok(event)) => if let Some(end) = self.event(event, guard).await? {
                        return Ok(end);
                    },
                    Some(Err(error)) => return Err(error.into()),
                    // The terminal has gone away.
                    None => return Ok(End::Signalled),
                },
                () = tokio::time::sleep_until(self.deadline), if self.dirty => self.draw(guard)?,
                message = self.driver.next() => {
                    self.driver.take(message)?;
                    self.dirty = true;
                }
                Some(line) = self.logs.recv() => {
                    self.app.logs.push(line);
                    self.dirty = true;
                }
                _ = tick.tick(), if waiting => {
                    self.driver.tell(Message::Tick(jiff::Timestamp::now()))?;
                    self.dirty = true;
                }
            }
        }
    }

    fn draw(&mut self, guard: &mut TerminalGuard) -> Result<(), ScreenError> {
        self.refresh_manifest();
        let (state, app) = (self.driver.state(), &self.app);
        guard.screen.draw(|frame| view::draw(frame, state, app))?;
        self.dirty = false;
        self.deadline = Instant::now() + FRAME;
        Ok(())
    }

    fn refresh_manifest(&mut self) {
        let state = self.driver.state();
        let key = (
            state.lab().map(|lab| lab.name.clone()).unwrap_or_default(),
            state.stage_index(),
            state.revealed(),
        );
        if self.shown.as_ref() != Some(&key) {
            self.app.manifest = manifest::lines(self.driver);
            self.shown = Some(key);
        }
    }

    async fn event(
        &mut self,
        event: Event,
        guard: &mut TerminalGuard,
    ) -> Result<Option<End>, ScreenError> {
        self.dirty = true;
        self.deadline = Instant::now();
        let Event::Key(key) = event else {
            return Ok(None);
        };
        match self.app.key(key, self.driver.state()) {
            None => {}
            Some(Command::Quit) => return Ok(Some(End::Quit)),
            Some(Command::Tell(message)) => {
                self.driver.tell(message.clone())?;
                self.app.follow_up(&message, self.driver.state());
                self.shown = None;
            }
            Some(Command::Copy(text)) => self.copy(&text),
            Some(Command::Edit { manifest }) => self.edit(&manifest, guard).await?,
        }
        Ok(None)
    }

    fn copy(&mut self, text: &str) {
        let done = text.len() <= COPY_LIMIT
            && execute!(std::io::stdout(), CopyToClipboard::to_clipboard_from(text)).is_ok();
        self.app.flash = Some(if done {
            format!("copied: {text}")
        } else {
            "too long to copy through the terminal".to_owned()
        });
    }

    /// The event stream must be gone while the editor reads keys, else they are split between the two.
    async fn edit(&mut self, file: &str, guard: &mut TerminalGuard) -> Result<(), ScreenError> {
        let path = match self.driver.working_copy(file) {
            Ok(path) => path,
            Err(error) => {
                self.app.flash = Some(error.to_string());
                return Ok(());
            }
        };
        self.events = None;
        guard.lend();
        let edited = editor::edit(&path).await;
        guard.take_back()?;
        self.events = Some(EventStream::new());
        self.app.flash = match edited {
            Ok(()) => {
                self.driver.tell(Message::Edited {
                    manifest: file.to_owned(),
                })?;
                Some(manifest::check(file, &path))
            }
            Err(error) => Some(error),
        };
        self.shown = None;
        Ok(())
    }
}
