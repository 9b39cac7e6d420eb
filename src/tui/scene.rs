//! What the next frame shows, computed before it is drawn: nothing is looked up, wrapped or counted while drawing.

use std::ops::Range;

use ratatui::layout::Rect;
use ratatui::text::Line;

use super::app::{App, Area, Overlay, Pane};
use super::keys::{self, Action};
use super::panes::{self, Shown};
use super::places::{Places, Wanted};
use super::view;
use crate::evidence::{Counters, Row};
use crate::lab::StageKind;
use crate::session::{Footer, State};

/// Columns that are left for what Enter does, however many other keys there are.
const LEAST_NEXT: usize = 20;

/// One key of the footer and the columns where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FooterItem {
    pub action: Action,
    pub key: String,
    pub word: String,
    pub from: u16,
    pub to: u16,
}

/// How the probe table is laid out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableLayout {
    /// The first row on the screen.
    pub first: usize,
    /// Width of the name and of each layer.
    pub widths: Vec<usize>,
    /// What the learner's rows are called.
    pub names: Vec<String>,
}

/// What lies over the screen, laid out.
#[derive(Clone, Debug, Default)]
pub struct Over {
    pub title: String,
    pub lines: Vec<Line<'static>>,
    /// The first line that is shown.
    pub first: usize,
}

/// What the next frame shows.
#[derive(Debug, Default)]
pub struct Scene {
    /// The session's state has changed.
    pub stale: bool,
    /// Only what is shown of it has.
    pub stale_block: bool,
    size: (u16, u16),
    text_width: u16,
    pub places: Places,
    pub rows: Vec<Row>,
    pub table: TableLayout,
    pub counters: Counters,
    /// The stage's text, wrapped.
    pub text: Vec<Line<'static>>,
    /// Places among the lab's facts that pass the filters.
    pub facts: Vec<usize>,
    /// Lines of the present pane, where it is neither the evidence nor the logs.
    pub block: Vec<Shown>,
    /// Which report the lines are of, and their width.
    report: Option<(usize, usize, u16)>,
    /// The lines of evidence or logs that are in view, with their places.
    pub in_view: Vec<(usize, String)>,
    pub footer: Vec<FooterItem>,
    pub over: Option<Over>,
    /// Where it lies.
    pub window: Rect,
    /// For each choice, its lines below the window's top.
    pub choices: Vec<Range<usize>>,
}

impl App {
    /// Computes what the next frame of this size shows.
    pub fn prepare(&mut self, state: &State, width: u16, height: u16) {
        let fresh = self.scene.size == (0, 0);
        let stale = self.scene.stale || fresh;
        let resized = self.scene.size != (width, height);
        let changed = stale || self.scene.stale_block || resized;
        if stale {
            self.scene.rows = state.rows();
            self.scene.counters = state.counters();
            self.scene.table.names = panes::row_names(&self.scene.rows, state);
        }
        let zoomed = self.zoom.then_some(self.area);
        let of = |rows, text| Places::of(width, height, rows, text, zoomed);
        let rows = self.scene.rows.len();
        let mut places = of(rows, Wanted::default());
        self.scene.places = places;
        if places.too_small {
            // Nothing of it is shown; the next larger size computes everything.
            self.scene.size = (0, 0);
            self.scene.footer.clear();
            return;
        }
        if stale || self.scene.text_width != places.text.width {
            self.scene.text = view::text_lines(state, self, places.text.width);
            self.scene.text_width = places.text.width;
        }
        places = of(
            rows,
            Wanted {
                lines: self.scene.text.len(),
                whole: self.area != Area::Pane && is_read(state),
            },
        );
        self.scene.places = places;
        if changed {
            self.scene.facts = panes::filtered(state, self);
            self.compute_block(state);
            self.scene.footer = footer(state, self, places.footer.width);
        }
        self.fit(state);
        self.read_lines(state);
        if changed {
            self.prepare_overlay(state);
        }
        self.scene.size = (width, height);
        self.scene.stale = false;
        self.scene.stale_block = false;
    }

    /// A long report is laid out once, not for every key.
    fn compute_block(&mut self, state: &State) {
        let width = self.scene.places.pane.width;
        let report = match (&self.report, self.pane) {
            (Some(Ok(text)), Pane::Report) => Some((text.as_ptr() as usize, text.len(), width)),
            _ => None,
        };
        if report.is_none() || report != self.scene.report {
            self.scene.block = panes::block(state, self, width);
            self.scene.report = report;
        }
    }

    /// Reads the lines that are in view, so that drawing reads nothing.
    fn read_lines(&mut self, state: &State) {
        let first = self.cursor().top;
        let height = usize::from(self.scene.places.pane.height);
        let end = (first + height).min(self.pane_length());
        self.scene.in_view = (first..end)
            .filter_map(|place| Some((place, panes::line_text(state, self, place)?)))
            .collect();
    }

    fn fit(&mut self, state: &State) {
        let places = self.scene.places;
        self.text.top = self.text.top.min(
            self.scene
                .text
                .len()
                .saturating_sub(usize::from(places.text.height)),
        );
        self.row = self.row.min(self.scene.rows.len().saturating_sub(1));
        let visible = usize::from(places.table.height).saturating_sub(1).max(1);
        let layout = &mut self.scene.table;
        layout.first = layout
            .first
            .clamp((self.row + 1).saturating_sub(visible), self.row);
        layout.widths = view::widths(
            &self.scene.rows,
            &layout.names,
            self.theme,
            usize::from(places.table.width),
        );
        let (length, height) = (self.pane_length(), usize::from(places.pane.height));
        let mut cursor = *self.cursor();
        if self.wrap && self.pane.grows() {
            let width = usize::from(places.pane.width);
            let rows = |place| panes::wrapped_rows(state, self, place, width);
            cursor.fit_rows(length, height, rows);
        } else {
            cursor.fit(length, height);
        }
        *self.cursor_mut() = cursor;
    }

    fn prepare_overlay(&mut self, state: &State) {
        self.scene.over = None;
        self.scene.choices.clear();
        let Some(overlay) = self.overlay.take() else {
            return;
        };
        let body = self.scene.places.body;
        let laid = view::lay_out(&overlay, body.width.saturating_sub(4), state, self);
        let lines = laid.lines;
        let height = u16::try_from(lines.len())
            .unwrap_or(u16::MAX)
            .saturating_add(2)
            .min(body.height.saturating_sub(2));
        self.scene.window = Rect {
            x: body.x,
            y: body.y + (body.height.saturating_sub(height)) / 2,
            width: body.width,
            height,
        };
        let visible = usize::from(height.saturating_sub(2));
        let last = lines.len().saturating_sub(visible);
        let first = match &overlay {
            Overlay::Choose { .. } => (laid.keep + 1).saturating_sub(visible).min(last),
            _ => laid.keep.min(last),
        };
        self.scene.choices = laid
            .choices
            .iter()
            .map(|rows| shifted(rows, first))
            .collect();
        self.scene.over = Some(Over {
            title: laid.title,
            lines,
            first,
        });
        self.overlay = Some(match overlay {
            // What is scrolled beyond the end comes back at the first key.
            Overlay::Help { .. } => Overlay::Help { scroll: first },
            Overlay::Facts {
                title,
                facts,
                selected,
                ..
            } => Overlay::Facts {
                title,
                facts,
                selected,
                scroll: first,
            },
            Overlay::Text {
                title,
                lines,
                command,
                ..
            } => Overlay::Text {
                title,
                lines,
                scroll: first,
                command,
            },
            choose => choose,
        });
    }

    /// Whether this area has the focus.
    #[must_use]
    pub fn has_focus(&self, area: Area) -> bool {
        self.area == area && self.overlay.is_none()
    }
}

/// Whether there is more to be read in this stage than to be looked at.
fn is_read(state: &State) -> bool {
    state.stage().is_some_and(|stage| {
        matches!(
            stage.kind,
            StageKind::Read | StageKind::Predict | StageKind::Report | StageKind::Debrief
        )
    })
}

/// Rows of a choice below the window's top, of which the first row is the title.
fn shifted(rows: &Range<usize>, first: usize) -> Range<usize> {
    if rows.end <= first {
        return 0..0;
    }
    rows.start.saturating_sub(first) + 1..rows.end - first + 1
}

/// The keys that do something now. What does not fit is left out, never the help and the way out.
fn footer(state: &State, app: &App, width: u16) -> Vec<FooterItem> {
    // Nothing can be done in a copy.
    let now = if app.read_only {
        Footer::default()
    } else {
        state.footer()
    };
    let wanted = [
        (Action::Next, now.next_enabled || now.reconcile),
        (Action::Cancel, now.cancel),
        (Action::Answer, now.predict || now.report),
        (Action::Edit, now.edit),
        (Action::Apply, now.edit && !now.cancel),
        (Action::Hint, now.hint),
        (Action::Retry, now.retry),
        (Action::Reveal, now.reveal),
        (Action::EditHere, now.edit),
        (Action::Open, true),
        (Action::NextPane, true),
        (Action::Labs, true),
        (Action::Stages, app.read_only),
    ];
    let last = [Action::Help, Action::Quit].map(|action| item(action, "", app));
    let mut room = usize::from(width);
    for end in last.iter().flatten() {
        room = room.saturating_sub(columns(end));
    }
    let near = [
        Action::Cancel,
        Action::Answer,
        Action::Edit,
        Action::Apply,
        Action::Hint,
    ];
    // What Enter does is cut before the keys of the stage's own work are left out.
    let reserved: usize = wanted
        .iter()
        .filter(|(action, wanted)| *wanted && near.contains(action))
        .filter_map(|(action, _)| item(*action, "", app))
        .map(|found| columns(&found))
        .sum();
    let mut items: Vec<FooterItem> = Vec::new();
    for (action, _) in wanted.into_iter().filter(|(_, wanted)| *wanted) {
        let Some(mut found) = item(action, &now.next, app) else {
            continue;
        };
        let most = if action == Action::Next {
            room.saturating_sub(reserved).max(LEAST_NEXT).min(room)
        } else {
            room
        };
        if columns(&found) > most {
            if action != Action::Next {
                continue;
            }
            let over = columns(&found) - most;
            let keep = super::markdown::width_of(&found.word).saturating_sub(over);
            found.word = super::markdown::cut(&found.word, keep);
        }
        room = room.saturating_sub(columns(&found));
        items.push(found);
    }
    items.extend(last.into_iter().flatten());
    let mut from = 0;
    for item in &mut items {
        item.from = from;
        item.to = from.saturating_add(u16::try_from(columns(item)).unwrap_or(u16::MAX) - 2);
        from = item.to + 2;
    }
    items
}

fn columns(item: &FooterItem) -> usize {
    super::markdown::width_of(&item.key) + super::markdown::width_of(&item.word) + 3
}

fn item(action: Action, next: &str, app: &App) -> Option<FooterItem> {
    let binding = keys::binding(action)?;
    let (key, word) = if action == Action::Next {
        (app.theme.enter(), next)
    } else {
        let first = binding.shown.split(' ').next().unwrap_or_default();
        (first, binding.footer)
    };
    Some(FooterItem {
        action,
        key: key.to_owned(),
        word: app.theme.text(word),
        from: 0,
        to: 0,
    })
}
