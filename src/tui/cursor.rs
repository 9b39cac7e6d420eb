//! A place in a list of lines: which line is the present one, which is the first on the screen.

use super::keys::Action;

/// Where a list stands. [`Cursor::fit`] is called before each frame, so that nothing is computed while drawing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The present line.
    pub at: usize,
    /// The first line on the screen.
    pub top: usize,
    /// Rows of the first line that are above the screen, where lines take more than one.
    pub skip: usize,
    /// Columns that are moved out to the left.
    pub right: usize,
    /// Stays at the end when lines are added.
    pub follow: bool,
}

impl Cursor {
    /// A list that is read from its end.
    #[must_use]
    pub fn following() -> Self {
        Self {
            follow: true,
            ..Self::default()
        }
    }

    /// Brings the place into a list of this length, and the present line onto a screen of this height.
    pub fn fit(&mut self, length: usize, height: usize) {
        self.skip = 0;
        let last = length.saturating_sub(1);
        if self.follow {
            self.at = last;
        }
        self.at = self.at.min(last);
        let height = height.max(1);
        if self.at < self.top {
            self.top = self.at;
        } else if self.at >= self.top + height {
            self.top = self.at + 1 - height;
        }
        self.top = self.top.min(length.saturating_sub(height));
    }

    /// As [`Cursor::fit`], where a line takes more than one row of the screen: the present line is shown whole where that is
    /// possible, and no row above it stays empty for a line that does not fit.
    pub fn fit_rows(&mut self, length: usize, height: usize, rows: impl Fn(usize) -> usize) {
        self.fit(length, height);
        let mut used = rows(self.at).max(1);
        let mut first = self.at;
        while used < height && first > self.top {
            first -= 1;
            used += rows(first).max(1);
        }
        self.top = first;
        // A line that is higher than the screen is read from its beginning.
        if first < self.at {
            self.skip = used.saturating_sub(height);
        }
    }

    /// Moves the present line; `ends` says that the end is followed once it is reached by [`Action::Bottom`].
    pub fn go(&mut self, action: Action, length: usize, page: usize, ends: bool) {
        let last = length.saturating_sub(1);
        let page = page.max(1);
        match action {
            Action::Up => self.at = self.at.min(last).saturating_sub(1),
            Action::Down => self.at = self.at.saturating_add(1).min(last),
            Action::PageUp => self.at = self.at.min(last).saturating_sub(page),
            Action::PageDown => self.at = self.at.saturating_add(page).min(last),
            Action::Top => self.at = 0,
            Action::Bottom => self.at = last,
            Action::Left => self.right = self.right.saturating_sub(8),
            Action::Right => self.right = (self.right + 8).min(1 << 16),
            _ => return,
        }
        if !matches!(action, Action::Left | Action::Right) {
            self.follow = ends && (action == Action::Bottom || self.at == last && last > 0);
        }
    }

    /// Scrolls a text that has no present line.
    pub fn scroll(&mut self, action: Action, length: usize, page: usize) {
        let most = length.saturating_sub(page.max(1));
        self.top = match action {
            Action::Up => self.top.min(most).saturating_sub(1),
            Action::Down => self.top.saturating_add(1).min(most),
            Action::PageUp => self.top.min(most).saturating_sub(page.max(1)),
            Action::PageDown => self.top.saturating_add(page.max(1)).min(most),
            Action::Top => 0,
            Action::Bottom => most,
            _ => self.top.min(most),
        };
    }

    /// Goes to a line and no longer follows the end.
    pub fn jump(&mut self, line: usize) {
        self.at = line;
        self.follow = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn the_present_line_is_on_the_screen(
            moves in proptest::collection::vec(0usize..8, 0..40), length in 0usize..60, height in 1usize..20
        ) {
            let actions = [Action::Up, Action::Down, Action::PageUp, Action::PageDown, Action::Top, Action::Bottom,
                Action::Left, Action::Right];
            let mut cursor = Cursor::following();
            for chosen in moves {
                cursor.go(actions[chosen], length, height, true);
                cursor.fit(length, height);
                assert!(cursor.top <= cursor.at && cursor.at < cursor.top + height);
                assert!(cursor.at < length.max(1));
                let mut wrapped = cursor;
                wrapped.fit_rows(length, height, |line| line % 3 + 1);
                assert!(wrapped.top <= wrapped.at);
                let rows = |line: usize| line % 3 + 1;
                let above: usize = (wrapped.top..wrapped.at).map(rows).sum();
                let above = above - wrapped.skip;
                assert!(above < height, "the present line begins on the screen");
                if wrapped.at + 1 == length {
                    let all: usize = (0..length).map(rows).sum();
                    let shown = above + rows(wrapped.at);
                    assert!(shown >= all.min(height), "the end of the list leaves no row empty");
                }
            }
        }
    }

    #[test]
    fn the_end_is_followed_until_one_goes_up() {
        let mut cursor = Cursor::following();
        cursor.fit(10, 4);
        assert_eq!((cursor.at, cursor.top), (9, 6));
        cursor.go(Action::Up, 10, 4, true);
        cursor.fit(20, 4);
        assert_eq!(cursor.at, 8);
        cursor.go(Action::Bottom, 20, 4, true);
        cursor.fit(30, 4);
        assert_eq!(cursor.at, 29);
    }
}
