//! The loop: keys, messages, log lines and time in; frames out.

mod arrivals;
mod editing;

use std::path::Path;
use std::time::Duration;

use crossterm::event::{Event, KeyEventKind, MouseEventKind};
use futures::StreamExt as _;
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};
use tokio::time::Instant;

use self::arrivals::{Arrival, Arrivals, Looked};
use super::app::{App, Command, Overlay, Pane};
use super::logs::LogBook;
use super::look::{Answer, Look, Looker};
use super::manifest::Texts;
use super::signals::Signals;
use super::terminal::{Events, Surface, TerminalGuard};
use super::theme::Theme;
use super::vetting::vet;
use crate::cluster::{Cluster, LogFollower};
use crate::runner::driver::{Driver, DriverError};
use crate::runner::fault;
use crate::session::{Message, StagePhase};

/// Between two frames.
pub(super) const FRAME: Duration = Duration::from_millis(33);
/// How often the seconds of a wait are drawn.
const TICK: Duration = Duration::from_millis(250);
/// The longest text that is handed to the terminal's clipboard.
pub(super) const COPY_LIMIT: usize = 8 << 10;
/// The ledger is read again at most so often while one looks at it.
const LEDGER_AGAIN: Duration = Duration::from_secs(1);
/// Log lines that are taken in one turn.
const LINES: usize = 1024;
/// How long a stopped process may take to come to a stop.
const STOP: Duration = Duration::from_millis(300);

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
    /// Ctrl-C, SIGINT or SIGQUIT; SIGHUP, or the terminal went away.
    Interrupted,
    /// SIGTERM.
    Terminated,
}

/// Runs the screen until it is left.
///
/// # Errors
/// The terminal fails, or the session cannot be saved any more.
pub async fn run(
    driver: &mut Driver,
    cluster: &Cluster,
    theme: Theme,
    dir: &Path,
) -> Result<End, ScreenError> {
    let surface = TerminalGuard::take()?;
    Screen::new(driver, cluster, theme, dir, surface)?
        .run()
        .await
}

/// Stops the process group as the terminal's own Ctrl-Z does. False where no shell could bring it back: then it was not
/// stopped.
pub(super) async fn stop_until_continued() -> std::io::Result<bool> {
    let mut go_on = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
    let stopped = rustix::process::kill_current_process_group(Signal::TSTP);
    // The whole process stands still from here until `fg`.
    let went = tokio::time::timeout(STOP, go_on.recv()).await.is_ok();
    Ok(stopped.is_ok() && went)
}

/// The screen on any surface.
pub struct Screen<'a, S> {
    driver: &'a mut Driver,
    app: App,
    surface: S,
    /// `None` while something else has the terminal.
    events: Option<Events>,
    signals: Signals,
    /// Somebody who had stopped the process lets it go on.
    go_on: unix::Signal,
    arrivals: Arrivals,
    _follower: LogFollower,
    looker: Looker,
    /// What the answer to the last key was about.
    phase: StagePhase,
    dirty: bool,
    /// When the next frame may be drawn.
    deadline: Instant,
    /// The manifests are to be read again.
    stale_texts: bool,
    /// When the ledger was asked for last, and whether its answer is awaited.
    asked: Option<Instant>,
    reading: bool,
}

pub(super) async fn next_event(events: &mut Option<Events>) -> Option<std::io::Result<Event>> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

impl<'a, S: Surface> Screen<'a, S> {
    /// A screen that draws on a surface; the session's directory holds its log lines.
    ///
    /// # Errors
    /// Signals cannot be heard.
    pub fn new(
        driver: &'a mut Driver,
        cluster: &Cluster,
        theme: Theme,
        dir: &Path,
        mut surface: S,
    ) -> std::io::Result<Self> {
        let mut app = App::new(theme);
        app.reach.push(cluster.name().to_owned());
        app.logs = LogBook::in_folder(&dir.join("logs"));
        let (follower, logs) = cluster.follow_all_logs("");
        let looker = Looker {
            cluster: cluster.clone(),
            dir: dir.to_owned(),
            labs: driver.state().labs().clone(),
        };
        Ok(Self {
            phase: driver.state().phase().clone(),
            driver,
            app,
            events: Some(surface.events()),
            surface,
            signals: Signals::heard()?,
            go_on: signal(SignalKind::from_raw(Signal::CONT.as_raw()))?,
            arrivals: Arrivals::new(logs),
            _follower: follower,
            looker,
            dirty: true,
            deadline: Instant::now(),
            stale_texts: true,
            asked: None,
            reading: false,
        })
    }

    /// Runs until it is left.
    ///
    /// # Errors
    /// As [`run`].
    pub async fn run(&mut self) -> Result<End, ScreenError> {
        loop {
            let waiting = self.driver.state().wait().is_some();
            let searching = self.app.searching.is_some();
            let ended = tokio::select! {
                biased;
                end = self.signals.end() => Some(end),
                // Whoever had stopped the process had the terminal meanwhile.
                _ = self.go_on.recv() => self.take_back(),
                event = next_event(&mut self.events) => match event {
                    Some(Ok(event)) => self.event(event).await?,
                    // The terminal has gone away.
                    Some(Err(_)) | None => Some(End::Interrupted),
                },
                () = tokio::time::sleep_until(self.deadline), if self.dirty => self.draw(),
                arrival = self.arrivals.next(self.driver, waiting) => {
                    self.arrived(arrival)?;
                    None
                }
                () = std::future::ready(()), if searching => {
                    self.app.search_on();
                    self.dirty = true;
                    None
                }
            };
            if let Some(end) = ended {
                return Ok(end);
            }
        }
    }

    fn arrived(&mut self, arrival: Arrival) -> Result<(), ScreenError> {
        match arrival {
            Arrival::Work(message) => {
                self.driver.take(message)?;
                self.state_changed();
            }
            Arrival::Looked(looked) => self.answered(*looked),
            Arrival::Lines => {
                let lines = self.arrivals.lines.drain(..);
                lines.for_each(|line| self.app.logs.push(&line));
                self.dirty |= self.app.pane == Pane::Logs;
            }
            Arrival::Tick => {
                self.driver.tell(Message::Tick(jiff::Timestamp::now()))?;
                self.app.scene.stale_block = true;
                self.dirty = true;
            }
        }
        Ok(())
    }

    fn state_changed(&mut self) {
        fault::panic_point("screen-task");
        if *self.driver.state().phase() != self.phase {
            // What the last key was answered is over.
            self.phase = self.driver.state().phase().clone();
            self.app.flash = None;
        }
        self.app.touch();
        self.app.differs(self.driver.state());
        self.app.failure = self.driver.failure().map(str::to_owned);
        self.stale_texts = true;
        self.dirty = true;
    }

    /// Draws a frame; a terminal that cannot be drawn on has gone away.
    fn draw(&mut self) -> Option<End> {
        fault::panic_point("screen-draw");
        self.read_ledger_again();
        if std::mem::take(&mut self.stale_texts) {
            self.app.manifest = Texts::of(self.driver);
            self.app.scene.stale_block = true;
        }
        let state = self.driver.state();
        let Ok(size) = self.surface.size() else {
            return Some(End::Interrupted);
        };
        self.app.prepare(state, size.width, size.height);
        self.dirty = false;
        self.deadline = Instant::now() + FRAME;
        self.surface
            .draw(state, &self.app)
            .is_err()
            .then_some(End::Interrupted)
    }

    fn read_ledger_again(&mut self) {
        let due = self
            .asked
            .is_none_or(|asked| asked.elapsed() >= LEDGER_AGAIN);
        if self.app.pane == Pane::Ledger && self.app.scene.stale && due && !self.reading {
            self.look(Look::Tables);
        }
    }

    fn look(&mut self, look: Look) {
        if look == Look::Tables {
            self.asked = Some(Instant::now());
            self.reading = true;
        }
        let (looker, sender) = (self.looker.clone(), self.arrivals.answers());
        tokio::spawn(async move {
            let answer = looker.look(&look).await;
            // The screen may have been left meanwhile.
            let _ = sender.send((look, answer));
        });
    }

    fn answered(&mut self, (look, answer): Looked) {
        self.dirty = true;
        self.app.scene.stale_block = true;
        match answer {
            Ok(Answer::Object {
                title,
                lines,
                command,
            }) => {
                self.app.overlay = Some(Overlay::Text {
                    title,
                    lines,
                    scroll: 0,
                    command: Some(command),
                });
            }
            Ok(Answer::Tables(tables)) => {
                self.reading = false;
                self.app.tables = Some(Ok(tables));
            }
            Ok(Answer::Report(text)) => self.app.report = Some(Ok(text)),
            Err(error) => match look {
                Look::Report => self.app.report = Some(Err(error)),
                _ => self.app.flash = Some(error),
            },
        }
    }

    async fn event(&mut self, event: Event) -> Result<Option<End>, ScreenError> {
        fault::panic_point("screen-event");
        let command = match event {
            Event::Key(key) if key.kind == KeyEventKind::Release => return Ok(None),
            Event::Key(key) => self.app.key(key, self.driver.state()),
            Event::Mouse(mouse)
                if matches!(mouse.kind, MouseEventKind::Moved | MouseEventKind::Up(_)) =>
            {
                return Ok(None);
            }
            Event::Mouse(mouse) => self.app.mouse(mouse, self.driver.state()),
            Event::Paste(text) => {
                self.app.paste(&text);
                None
            }
            _ => None,
        };
        self.dirty = true;
        match command {
            Some(command) => self.carry_out(command).await,
            None => Ok(None),
        }
    }

    async fn carry_out(&mut self, command: Command) -> Result<Option<End>, ScreenError> {
        match command {
            Command::Quit => return Ok(Some(End::Quit)),
            Command::Interrupt => return Ok(Some(End::Interrupted)),
            Command::GoOn => self.go_on()?,
            Command::Tell(message) => self.tell(message)?,
            Command::Copy(text) => self.copy(&text),
            Command::Edit { manifest, line } => return self.edit(&manifest, line).await,
            Command::EditHere { manifest, line } => self.edit_here(&manifest, line),
            Command::TakeUp { manifest, keep } => self.take_up(&manifest, keep),
            Command::Save { manifest, text } => self.save(&manifest, &text)?,
            Command::Preview { manifest } => self.preview(&manifest),
            Command::Look(Look::Tables) => {
                self.app.show_ledger();
                self.look(Look::Tables);
            }
            Command::Look(look) => self.look(look),
            Command::Mouse(on) => self.surface.mouse(on)?,
            Command::Redraw => return Ok(self.take_back()),
            Command::Suspend => return self.suspend().await,
        }
        Ok(None)
    }

    /// Tells the session what the learner asks for. A working copy that is no manifest starts nothing.
    fn tell(&mut self, message: Message) -> Result<(), ScreenError> {
        let state = self.driver.state();
        match vet(state, &message, &self.looker.dir, &self.looker.cluster) {
            Ok(notes) => self.app.note = notes.into_iter().next(),
            Err(why) => {
                self.app.flash = Some(why);
                return Ok(());
            }
        }
        self.driver.tell(message.clone())?;
        self.app.follow_up(&message, self.driver.state());
        self.state_changed();
        Ok(())
    }

    fn copy(&mut self, text: &str) {
        let text = self.driver.pasteable(text);
        let done = text.len() <= COPY_LIMIT && self.surface.copy(&text);
        self.app.flash = Some(if done {
            format!("copied: {text}")
        } else {
            format!(
                "too long to copy through the terminal ({} bytes, at most {COPY_LIMIT})",
                text.len()
            )
        });
    }

    /// Takes the terminal again and draws everything anew; one that cannot be taken has gone away.
    fn take_back(&mut self) -> Option<End> {
        if self.surface.take_back(self.app.mouse).is_err() {
            return Some(End::Interrupted);
        }
        self.app.touch();
        self.dirty = true;
        None
    }

    /// Gives the terminal to the shell and stops; goes on when the shell says so.
    async fn suspend(&mut self) -> Result<Option<End>, ScreenError> {
        self.events = None;
        self.surface.lend();
        let went = stop_until_continued().await?;
        // A job that is ended while it is stopped goes on for that alone, and the terminal stays the shell's.
        let ended = self.signals.until_foreground().await;
        let ended = ended.or_else(|| self.take_back());
        if ended.is_some() {
            return Ok(ended);
        }
        self.events = Some(self.surface.events());
        if !went {
            self.app.flash = Some("there is no shell here to come back from".to_owned());
        }
        Ok(None)
    }
}
