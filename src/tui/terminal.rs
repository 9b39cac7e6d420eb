//! The terminal: taken, given back in every way a program can end, and lent to an editor or to the shell.

use std::io::{self, IsTerminal as _, Write as _};
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::Once;
use std::sync::PoisonError;
use std::task::Poll;

use crossterm::clipboard::CopyToClipboard;
use crossterm::cursor::{Hide, Show};
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste, Event, EventStream};
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue};
use futures::{Stream, StreamExt as _};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::getpgrp;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

use super::app::App;
use super::own_colors::OwnColors;
use super::view;
use crate::session::State;

/// Keys, clicks and sizes.
pub type Events = Pin<Box<dyn Stream<Item = io::Result<Event>> + Send>>;

/// What the loop draws on and listens to: a terminal, or a test's buffer.
pub trait Surface: Send {
    /// Columns and rows.
    ///
    /// # Errors
    /// The terminal is gone.
    fn size(&mut self) -> io::Result<Size>;

    /// Draws a frame.
    ///
    /// # Errors
    /// The terminal is gone.
    fn draw(&mut self, state: &State, app: &App) -> io::Result<()>;

    /// Begins to listen. The stream before is dropped by then, else keys are split between the two.
    fn events(&mut self) -> Events;

    /// Gives the terminal back for as long as something else needs it.
    fn lend(&mut self);

    /// Takes it again, and draws everything anew.
    ///
    /// # Errors
    /// The terminal refuses.
    fn take_back(&mut self, mouse: bool) -> io::Result<()>;

    /// Hands a text to the terminal's clipboard; false where there is none.
    fn copy(&mut self, text: &str) -> bool;

    /// Takes the mouse or frees it.
    ///
    /// # Errors
    /// The terminal is gone.
    fn mouse(&mut self, on: bool) -> io::Result<()>;
}

type Screen = Terminal<CrosstermBackend<OwnColors<io::Stdout>>>;

/// A terminal in raw mode on the alternate screen; given back when it is dropped.
pub struct TerminalGuard {
    /// Never dropped: it would show the cursor, which [`give_back`] does, and panic where nobody reads any more.
    screen: ManuallyDrop<Screen>,
    before: Modes,
}

/// How the terminal was set at some time.
pub struct Modes(Option<Termios>);

impl Modes {
    /// As it is now; nothing where there is no terminal.
    #[must_use]
    pub fn now() -> Self {
        Self(tcgetattr(io::stdin()).ok())
    }

    /// Sets it so again, whoever has set it otherwise. A shell that has the terminal meanwhile has set it for itself.
    pub fn restore(&self) {
        if let Some(modes) = &self.0
            && in_foreground()
        {
            // A terminal that is gone needs no modes.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, modes);
        }
    }
}

/// Whether the terminal is this process group's; setting it from the background would stop the program.
pub(super) fn in_foreground() -> bool {
    tcgetpgrp(io::stdin()).map_or(true, |group| group == getpgrp())
}

impl TerminalGuard {
    /// Takes the terminal. A panic gives it back before it is reported.
    ///
    /// # Errors
    /// There is no terminal, or it refuses.
    pub fn take() -> io::Result<Self> {
        note_panics();
        let before = Modes::now();
        let entered = enter(true);
        match entered
            .and_then(|()| Terminal::new(CrosstermBackend::new(OwnColors::new(io::stdout()))))
        {
            Ok(screen) => Ok(Self {
                screen: ManuallyDrop::new(screen),
                before,
            }),
            Err(error) => {
                give_back(&before);
                Err(error)
            }
        }
    }
}

impl Surface for TerminalGuard {
    fn size(&mut self) -> io::Result<Size> {
        self.screen.size()
    }

    fn draw(&mut self, state: &State, app: &App) -> io::Result<()> {
        queue!(io::stdout(), BeginSynchronizedUpdate)?;
        self.screen.draw(|frame| view::draw(frame, state, app))?;
        execute!(io::stdout(), EndSynchronizedUpdate)
    }

    fn events(&mut self) -> Events {
        until_hang_up(EventStream::new())
    }

    fn lend(&mut self) {
        give_back(&self.before);
    }

    fn take_back(&mut self, mouse: bool) -> io::Result<()> {
        // Whoever had it meanwhile has set it otherwise, and crossterm sets nothing that it takes for set.
        disable_raw_mode()?;
        enter(mouse)?;
        // Clears it, and forgets what was drawn; unlike `clear` it does not ask the terminal where its cursor is, and wait.
        let size = self.screen.size()?;
        self.screen.resize(size.into())
    }

    fn copy(&mut self, text: &str) -> bool {
        execute!(io::stdout(), CopyToClipboard::to_clipboard_from(text)).is_ok()
    }

    fn mouse(&mut self, on: bool) -> io::Result<()> {
        let mut out = io::stdout();
        out.write_all(if on { MOUSE_ON } else { MOUSE_OFF })?;
        out.flush()
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        give_back(&self.before);
    }
}

/// Events until the terminal goes away. crossterm reads a terminal that hung up for ever and does not come back, so that it
/// must not be asked then.
fn until_hang_up(mut events: EventStream) -> Events {
    // A terminal that hung up no longer says that it is one.
    let is_terminal = io::stdin().is_terminal();
    Box::pin(futures::stream::poll_fn(move |context| {
        if is_terminal && hung_up() {
            return Poll::Ready(None);
        }
        events.poll_next_unpin(context)
    }))
}

fn hung_up() -> bool {
    let input = io::stdin();
    let mut watched = [PollFd::new(&input, PollFlags::IN)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut watched, Some(&at_once)).is_ok()
        && watched[0]
            .revents()
            .intersects(PollFlags::HUP | PollFlags::ERR)
}

/// Buttons and wheel with their place (1000, 1006), not every motion.
const MOUSE_ON: &[u8] = b"\x1b[?1000h\x1b[?1006h";
const MOUSE_OFF: &[u8] = b"\x1b[?1006l\x1b[?1000l";

fn enter(mouse: bool) -> io::Result<()> {
    enable_raw_mode()?;
    let mut out = io::stdout();
    execute!(out, EnterAlternateScreen, EnableBracketedPaste, Hide)?;
    if mouse {
        out.write_all(MOUSE_ON)?;
        out.flush()?;
    }
    Ok(())
}

/// Each part is tried, whatever became of the others: there is nobody left to tell.
fn give_back(before: &Modes) {
    let mut out = io::stdout();
    let _ = out.write_all(MOUSE_OFF);
    let _ = execute!(
        out,
        EndSynchronizedUpdate,
        DisableBracketedPaste,
        LeaveAlternateScreen,
        Show
    );
    if in_foreground() {
        let _ = disable_raw_mode();
    }
    before.restore();
    let _ = out.flush();
}

static LAST_PANIC: Mutex<Option<String>> = Mutex::new(None);

/// What the last panic of this process said, and where.
#[must_use]
pub fn last_panic() -> Option<String> {
    LAST_PANIC
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

/// From now on a panic goes to the log, whichever thread it is of; what it unwinds gives the terminal back.
fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            tracing::error!(panic = %info, "panic");
            *LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(info.to_string());
        }));
    });
}
