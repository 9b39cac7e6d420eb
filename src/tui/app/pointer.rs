//! The mouse: wheel and click.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};

use super::{App, Area, Command, Overlay, Pane};
use crate::session::State;
use crate::tui::keys::Action;
use crate::tui::panes::rows;

/// Lines that the wheel moves.
const WHEEL: usize = 3;

impl App {
    /// Takes a mouse event; `None` for those that change nothing.
    pub fn mouse(&mut self, event: MouseEvent, state: &State) -> Option<Command> {
        let at = Position::new(event.column, event.row);
        match event.kind {
            MouseEventKind::ScrollUp => self.wheel(Action::Up, at, state),
            MouseEventKind::ScrollDown => self.wheel(Action::Down, at, state),
            MouseEventKind::Down(MouseButton::Left) => self.click(at, state),
            _ => None,
        }
    }

    fn wheel(&mut self, action: Action, at: Position, state: &State) -> Option<Command> {
        if self.editor.is_some() || self.prompt.is_some() {
            return None;
        }
        for _ in 0..WHEEL {
            if self.overlay.is_some() {
                self.overlay_key(action, state);
                continue;
            }
            let area = self.area_at(at)?;
            self.scrolled(action, area);
        }
        None
    }

    fn area_at(&self, at: Position) -> Option<Area> {
        let places = &self.scene.places;
        [
            (places.text, Area::Text),
            (places.table, Area::Table),
            (places.pane, Area::Pane),
            (places.tabs, Area::Pane),
        ]
        .into_iter()
        .find(|(area, _)| area.contains(at))
        .map(|(_, area)| area)
    }

    fn click(&mut self, at: Position, state: &State) -> Option<Command> {
        self.flash = None;
        self.note = None;
        self.scene.stale_block = true;
        if self.editor.is_some() || self.prompt.is_some() || self.scene.places.too_small {
            return None;
        }
        if let Some(overlay) = &self.overlay {
            let window = self.scene.window;
            if !window.contains(at) {
                self.overlay = None;
                return None;
            }
            if matches!(overlay, Overlay::Choose { .. }) {
                let place = usize::from(at.y - window.y);
                let chosen = self
                    .scene
                    .choices
                    .iter()
                    .position(|rows| rows.contains(&place))?;
                return self.choose(chosen, state);
            }
            return None;
        }
        let places = self.scene.places;
        if places.footer.contains(at) {
            let column = at.x - places.footer.x;
            let action = self
                .scene
                .footer
                .iter()
                .find(|item| (item.from..item.to).contains(&column))?
                .action;
            return self.screen_key(action, state);
        }
        if places.tabs.contains(at) {
            let column = usize::from(at.x - places.tabs.x);
            let pane = self.tab_at(column)?;
            return self.show(pane);
        }
        let area = self.area_at(at)?;
        let again = self.area == area;
        self.area = area;
        match area {
            Area::Text => None,
            Area::Table => self.click_table(at, places.table, again, state),
            Area::Pane => self.click_pane(at, places.pane, again, state),
        }
    }

    fn click_table(
        &mut self,
        at: Position,
        table: Rect,
        again: bool,
        state: &State,
    ) -> Option<Command> {
        let line = usize::from(at.y - table.y).checked_sub(1)?;
        let row = self.scene.table.first + line;
        if row >= self.scene.rows.len() {
            return None;
        }
        let column = usize::from(at.x - table.x);
        let mut edge = 0;
        let mut layer = None;
        for (place, width) in self.scene.table.widths.iter().enumerate() {
            edge += width + 2;
            if column < edge {
                layer = place.checked_sub(1);
                break;
            }
        }
        let same = again && self.row == row && Some(self.layer) == layer;
        self.row = row;
        self.layer = layer.unwrap_or(self.layer);
        if same { self.open(state) } else { None }
    }

    fn click_pane(
        &mut self,
        at: Position,
        pane: Rect,
        again: bool,
        state: &State,
    ) -> Option<Command> {
        let row = usize::from(at.y - pane.y);
        let line = if self.wrap && self.pane.grows() {
            self.wrapped_at(row, usize::from(pane.width))?
        } else {
            self.cursor().top + row
        };
        if line >= self.pane_length() {
            return None;
        }
        let same = again && self.cursor().at == line;
        self.cursor_mut().jump(line);
        if same { self.open(state) } else { None }
    }

    /// The line of which a row of a wrapped pane is.
    fn wrapped_at(&self, row: usize, width: usize) -> Option<usize> {
        let lines = self.scene.in_view.iter();
        lines
            .flat_map(|(place, text)| rows(text, width).map(move |_| *place))
            .nth(self.cursor().skip + row)
    }

    /// The pane whose name stands at this column of the tabs.
    fn tab_at(&self, column: usize) -> Option<Pane> {
        let mut edge = 0;
        let room = usize::from(self.scene.places.tabs.width);
        let (names, between) = crate::tui::view::tab_names(self.pane, room);
        for (pane, name) in Pane::ALL.into_iter().zip(names) {
            let width = name.len();
            if (edge..edge + width).contains(&column) {
                return Some(pane);
            }
            edge += width + between;
        }
        None
    }
}
