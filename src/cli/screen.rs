//! `eventlab`: the lab on screen, or line by line.

use std::io::IsTerminal as _;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use futures::FutureExt as _;

use super::exit::{Exit, Failure};
use super::output::{Stdout, note};
use super::place::Place;
use super::start::{self, Started};
use super::waits;
use crate::runner::work::Patience;
use crate::tui::palette::{Background, ColorChoice, Depth, is_seven_bits};
use crate::tui::screen::{self, End, ScreenError};
use crate::tui::theme::Theme;
use crate::tui::{linear, terminal};

/// How the screen looks.
#[derive(Clone, Copy, Debug, Args)]
pub struct Look {
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t)]
    pub color: ColorChoice,
    /// What the colours must stand out from
    #[arg(long, global = true, value_enum, default_value_t)]
    pub background: Background,
    /// Draw with 7-bit characters only, as on a Linux console and under a locale without UTF-8
    #[arg(long, global = true)]
    pub ascii: bool,
    /// Line by line, for readers of screens: nothing is redrawn, every change is a new line, answers are typed
    #[arg(long, global = true)]
    pub accessible: bool,
}

impl Look {
    /// Whether a screen is to be drawn: there is a terminal, it can be drawn on, and nobody asked for lines.
    #[must_use]
    pub fn draws(self) -> bool {
        no_screen().is_none() && !self.accessible
    }

    /// The colours and characters of the screen.
    #[must_use]
    pub fn theme(self) -> Theme {
        let (term, color_term) = (variable("TERM"), variable("COLORTERM"));
        let term = term.as_deref();
        let colored = self.color.resolve(variable("NO_COLOR").as_deref(), term);
        let background = match self.background.resolve(variable("COLORFGBG").as_deref()) {
            // It says nothing of its colours, and is black unless somebody has made it otherwise.
            Background::Auto if term == Some("linux") => Background::Dark,
            background => background,
        };
        let depth = Depth::announced(term, color_term.as_deref());
        let theme = Theme::new(colored, self.seven_bits()).on(background, depth);
        if term == Some("linux") {
            theme.without_dim()
        } else {
            theme
        }
    }

    /// The characters of the lines: what is not read on a terminal is written as it is.
    fn lines(self) -> Theme {
        let terminal = std::io::stdout().is_terminal();
        Theme::new(false, self.ascii || terminal && self.seven_bits())
    }

    fn seven_bits(self) -> bool {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .filter_map(variable)
            .find(|value| !value.is_empty());
        self.ascii || is_seven_bits(variable("TERM").as_deref(), locale.as_deref())
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Opens the screen; line by line where there is none to draw on, which is said.
///
/// # Errors
/// A session that is held by somebody else, and whatever keeps the cluster from starting.
pub async fn open(place: &Place, look: Look, seed: Option<u32>) -> Result<Exit, Failure> {
    let folder = place.folder()?;
    if !look.accessible
        && let Some(lack) = no_screen()
    {
        note!("{lack}: line by line, as with --accessible; `eventlab run` plays labs by itself");
    }
    let catalog = Arc::new(place.catalog()?);
    place.bus.prepare(&folder).await?;
    let mut started =
        start::session_with_seed(place, &folder, catalog, Patience::SCREEN, seed).await?;
    waits::hush();
    let drawn = AssertUnwindSafe(draw(&mut started, look, &folder))
        .catch_unwind()
        .await;
    let unsaved = started.driver.unsaved();
    started.stop().await;
    let log = folder.join("logs/eventlab.log");
    if let Some(typed) = &unsaved {
        note!(
            "What was typed and not saved is in {}; E takes it up again.",
            typed.display()
        );
    }
    if let Ok(Ok(_)) = drawn {
        note!(
            "Saved in {}. The next `eventlab` goes on where you left.",
            folder.display()
        );
    }
    match drawn {
        Ok(Ok(End::Quit)) => Ok(Exit::Proven),
        Ok(Ok(End::Interrupted)) => Ok(Exit::Interrupted),
        Ok(Ok(End::Terminated)) => Ok(Exit::Terminated),
        Ok(Err(error @ ScreenError::Terminal(_))) => Err(Failure::environment(error)),
        Ok(Err(error)) => Err(Failure::environment(format!(
            "{error}. What was done before is saved in {}; the log is {}",
            folder.display(),
            log.display()
        ))),
        Err(_) => Err(Failure::internal(format!(
            "a defect of eventlab: {}. The session is saved in {}, and the next `eventlab` goes on where it was; the log is {}",
            terminal::last_panic().unwrap_or_else(|| "the screen has failed".to_owned()),
            folder.display(),
            log.display()
        ))),
    }
}

async fn draw(started: &mut Started, look: Look, folder: &Path) -> Result<End, ScreenError> {
    let Started {
        driver, cluster, ..
    } = started;
    if !look.draws() {
        return linear::run(driver, cluster, look.lines(), folder, &mut Stdout).await;
    }
    screen::run(driver, cluster, look.theme(), folder).await
}

/// Why no screen can be drawn.
fn no_screen() -> Option<&'static str> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        Some("there is no terminal to draw on")
    } else if std::env::var("TERM").is_ok_and(|term| term == "dumb") {
        Some("this terminal (TERM=dumb) cannot be drawn on")
    } else {
        None
    }
}
