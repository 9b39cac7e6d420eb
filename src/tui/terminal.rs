//! The terminal: taken, given back in every way a program can end, and lent to an editor.

use std::io::{self, Write as _};
use std::sync::Once;

use crossterm::cursor::{Hide, Show};
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::execute;
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

/// What the screen draws on.
pub type Screen = Terminal<CrosstermBackend<io::Stdout>>;

/// A terminal in raw mode on the alternate screen; given back when it is dropped.
pub struct TerminalGuard {
    pub screen: Screen,
}

impl TerminalGuard {
    /// Takes the terminal. A panic gives it back before it is reported.
    ///
    /// # Errors
    /// There is no terminal, or it refuses.
    pub fn take() -> io::Result<Self> {
        install_panic_hook();
        enter()?;
        match Terminal::new(CrosstermBackend::new(io::stdout())) {
            Ok(screen) => Ok(Self { screen }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// Gives the terminal back for as long as something else needs it.
    pub fn lend(&mut self) {
        give_back();
    }

    /// Takes it again, and draws everything anew.
    ///
    /// # Errors
    /// The terminal refuses.
    pub fn take_back(&mut self) -> io::Result<()> {
        enter()?;
        // A new screen knows of nothing drawn. Clearing the old one would ask the terminal where its cursor is, and wait.
        self.screen = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(())
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        give_back();
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(
        io::stdout(),
        EnterAlternateScreen,
        EnableBracketedPaste,
        Hide
    )
}

/// Each part is tried, whatever became of the others: there is nobody left to tell.
fn give_back() {
    let _ = execute!(
        io::stdout(),
        DisableBracketedPaste,
        LeaveAlternateScreen,
        Show
    );
    let _ = disable_raw_mode();
    let _ = io::stdout().flush();
}

fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        let screen = std::thread::current().id();
        std::panic::set_hook(Box::new(move |info| {
            // A contained panic of a pod's thread is logged, and leaves the screen alone.
            if std::thread::current().id() == screen {
                give_back();
                previous(info);
            } else {
                tracing::error!(panic = %info, "panic");
            }
        }));
    });
}
