//! Where each part of the screen lies, for drawing and for the mouse.

use ratatui::layout::Rect;

use super::app::Area;

/// Below this the screen says how much room it needs.
pub const LEAST: (u16, u16) = (60, 16);
/// From this width on the stages stand in a column of their own.
const WIDE: u16 = 100;
const SIDE: u16 = 28;
/// That column takes nothing of the width that the rest has on a screen without it.
const MAIN: u16 = 80;
/// Lines that are left to the pane beside a text that is to be read.
const LEAST_PANE: u16 = 3;
/// A text has at least so many rows where there is room, and grows by so many.
const SHORT: u16 = 8;
const STEP: u16 = 4;

/// The parts of the screen; one that is not shown is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    pub too_small: bool,
    /// Everything but the footer.
    pub body: Rect,
    /// The list of stages.
    pub side: Rect,
    pub header: Rect,
    pub text: Rect,
    pub rule: Rect,
    pub table: Rect,
    pub counters: Rect,
    /// The second rule, which says what is waited for.
    pub status: Rect,
    pub tabs: Rect,
    pub pane: Rect,
    pub footer: Rect,
}

/// How many lines the text has, and whether it is to be read whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub lines: usize,
    pub whole: bool,
}

impl Wanted {
    /// Its rows where so many are free: more than its share where it is to be read, less where it is short and the screen
    /// is high, in steps, so that a line more or less does not move everything.
    fn of(self, free: u16) -> u16 {
        let usual = (free * 3 / 5).max(3);
        let lines = u16::try_from(self.lines).unwrap_or(u16::MAX);
        if self.whole {
            return usual.max(lines.min(free.saturating_sub(LEAST_PANE)));
        }
        let steps = lines.saturating_add(2).div_ceil(STEP).saturating_mul(STEP);
        usual.min(steps.max(SHORT))
    }
}

impl Places {
    /// The places on a screen of this size, with this many rows of probes; `zoomed` has all the room.
    #[must_use]
    pub fn of(width: u16, height: u16, rows: usize, text: Wanted, zoomed: Option<Area>) -> Self {
        let all = Rect::new(0, 0, width, height);
        if width < LEAST.0 || height < LEAST.1 {
            return Self {
                too_small: true,
                body: all,
                ..Self::default()
            };
        }
        let body = Rect {
            height: height - 1,
            ..all
        };
        let wide = width >= WIDE;
        let side = if wide {
            Rect {
                width: SIDE.min(width.saturating_sub(MAIN)),
                ..body
            }
        } else {
            Rect::default()
        };
        let main = Rect {
            x: side.width,
            width: width - side.width,
            ..body
        };
        let mut room = Room { area: main };
        let mut places = Self {
            body,
            side,
            header: room.take(1),
            footer: Rect {
                y: height - 1,
                height: 1,
                ..all
            },
            ..Self::default()
        };
        match zoomed {
            Some(area) => places.zoom(area, room),
            None => places.share(rows, text, room),
        }
        places
    }

    fn zoom(&mut self, area: Area, mut room: Room) {
        let rest = room.take(room.area.height.saturating_sub(1));
        self.status = room.take(1);
        match area {
            Area::Text => self.text = rest,
            Area::Table => {
                let mut room = Room { area: rest };
                self.table = room.take(rest.height.saturating_sub(1));
                self.counters = room.area;
            }
            Area::Pane => {
                let mut room = Room { area: rest };
                self.tabs = room.take(1);
                self.pane = room.area;
            }
        }
    }

    fn share(&mut self, rows: usize, text: Wanted, mut room: Room) {
        let height = room.area.height;
        let rows = u16::try_from(rows).unwrap_or(u16::MAX);
        let table = rows.saturating_add(1).min(height / 3).max(2);
        let free = height.saturating_sub(table + 4);
        let text = text.of(free);
        self.text = room.take(text);
        self.rule = room.take(1);
        self.table = room.take(table);
        self.counters = room.take(1);
        self.status = room.take(1);
        self.tabs = room.take(1);
        self.pane = room.area;
    }
}

/// Hands out rows from the top.
struct Room {
    area: Rect,
}

impl Room {
    fn take(&mut self, height: u16) -> Rect {
        let height = height.min(self.area.height);
        let taken = Rect {
            height,
            ..self.area
        };
        self.area.y += height;
        self.area.height -= height;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn every_part_lies_on_the_screen_and_none_over_another(
            width in 0u16..400, height in 0u16..120, rows in 0usize..70_000, lines in 0usize..200,
            whole in proptest::prelude::any::<bool>(), zoom in 0usize..4
        ) {
            let zoomed = [None, Some(Area::Text), Some(Area::Table), Some(Area::Pane)][zoom];
            let places = Places::of(width, height, rows, Wanted { lines, whole }, zoomed);
            let all = Rect::new(0, 0, width, height);
            let parts = [places.side, places.header, places.text, places.rule, places.table, places.counters,
                places.status, places.tabs, places.pane, places.footer];
            for (index, part) in parts.iter().enumerate() {
                assert_eq!(all.intersection(*part).area(), part.area());
                for other in &parts[index + 1..] {
                    assert_eq!(part.intersection(*other).area(), 0, "{part:?} {other:?}");
                }
            }
            assert_eq!(places.too_small, width < 60 || height < 16);
            if !places.too_small && zoomed.is_none() {
                assert!(places.pane.height >= 2 && places.table.height >= 2 && places.text.height >= 3);
            }
        }
    }
}
