//! `eventlab`: the lab on screen.

use std::io::IsTerminal as _;
use std::sync::Arc;

use super::exit::{Exit, Failure};
use super::place::Place;
use super::start;
use crate::runner::work::Patience;
use crate::tui::screen::{self, End, ScreenError};
use crate::tui::theme::{ColorChoice, Theme};

/// Opens the screen. Without a terminal it says so, and how to go on without one.
///
/// # Errors
/// No terminal, a session that is held by somebody else, and whatever keeps the cluster from starting.
pub async fn open(
    place: &Place,
    color: ColorChoice,
    ascii: bool,
    seed: Option<u32>,
) -> Result<Exit, Failure> {
    let folder = place.folder()?;
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(Failure::usage(
            "there is no terminal to draw on. Without one: `eventlab run`, `status`, `check`, `report`; see `eventlab --help`",
        ));
    }
    let variable = |name: &str| std::env::var(name).ok();
    let theme = Theme::new(
        color.resolve(variable("NO_COLOR").as_deref(), variable("TERM").as_deref()),
        ascii,
    );
    let catalog = Arc::new(place.catalog()?);
    let mut started =
        start::session_with_seed(place, &folder, catalog, Patience::default(), seed).await?;
    let ended = screen::run(&mut started.driver, &started.cluster, theme).await;
    started.stop().await;
    match ended {
        Ok(End::Quit) => {
            eprintln!(
                "Saved in {}. The next `eventlab` goes on where you left.",
                folder.display()
            );
            Ok(Exit::Proven)
        }
        Ok(End::Signalled) => Ok(Exit::Interrupted),
        Err(error @ ScreenError::Terminal(_)) => Err(Failure::environment(error)),
        Err(error) => Err(Failure::environment(error)),
    }
}
