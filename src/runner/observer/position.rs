//! How far the bus was read, and what that proves.

/// A place in the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// The last sequence that was read.
    pub read: u64,
    /// The last sequence when reading began: what is behind it may be the learner's own.
    old: Option<u64>,
    /// The last sequence of a message that was gone before it could be read; 0 where none was.
    vanished: u64,
}

impl Position {
    /// Begins a read up to the stream's last sequence, and answers where reading once began.
    ///
    /// A stream that ends before what was read was made anew; what was read of the old one says nothing of it.
    pub fn begin(&mut self, last: u64) -> u64 {
        if self.is_of_another(last) {
            *self = Self::default();
        }
        *self.old.get_or_insert(last)
    }

    /// Whether a stream that ends at `last` is not the one that was read.
    pub fn is_of_another(&self, last: u64) -> bool {
        last < self.read
    }

    /// What lies behind the message before `sequence` is read again.
    pub fn go_back_before(&mut self, sequence: u64) {
        self.read = self.read.min(sequence.saturating_sub(1));
    }

    /// Notes that the next message that is there was read; those that are passed over are gone.
    pub fn reach(&mut self, sequence: u64) {
        let passed_over = sequence.saturating_sub(1);
        if passed_over > self.read {
            self.vanished = self.vanished.max(passed_over);
        }
        self.read = sequence;
    }

    /// Notes that what lies before `last` is not there any more; what it was is not known.
    pub fn vanished_before(&mut self, last: u64) {
        self.vanished = self.vanished.max(last);
        self.read = last;
    }

    /// Whether a message behind `sequence` that was not seen in a complete read was never stored.
    pub fn proves_absence_behind(&self, sequence: u64) -> bool {
        self.vanished <= sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_went_back_is_read_from_its_beginning() {
        let mut position = Position::default();
        assert_eq!(position.begin(3), 3);
        position.read = 6;
        assert_eq!(position.begin(6), 3);
        // Every shorter stream is another one.
        for last in 0..6 {
            let mut position = position;
            assert_eq!(position.begin(last), last);
            assert_eq!(position.read, 0);
        }
    }

    #[test]
    fn what_vanished_unread_says_nothing_of_what_was_stored_later() {
        let mut position = Position::default();
        position.begin(9);
        assert!(position.proves_absence_behind(0));
        position.vanished_before(9);
        position.begin(12);
        for (sequence, proven) in [(0, false), (8, false), (9, true), (12, true)] {
            assert_eq!(position.proves_absence_behind(sequence), proven);
        }
        position.reach(10);
        position.reach(12);
        for (sequence, proven) in [(9, false), (10, false), (11, true)] {
            assert_eq!(position.proves_absence_behind(sequence), proven);
        }
        position.begin(2);
        assert!(position.proves_absence_behind(0));
    }

    #[test]
    fn a_stream_that_lost_its_beginning_does_not_prove_what_was_there() {
        let mut position = Position::default();
        position.begin(9);
        for sequence in 4..=9 {
            position.reach(sequence);
        }
        assert!(!position.proves_absence_behind(0));
        assert!(!position.proves_absence_behind(2));
        assert!(position.proves_absence_behind(3));
    }

    #[test]
    fn what_was_taken_for_somebody_elses_is_read_again() {
        let mut position = Position::default();
        position.begin(3);
        position.read = 9;
        for (sequence, read) in [(12, 9), (7, 6), (8, 6), (1, 0), (0, 0)] {
            position.go_back_before(sequence);
            assert_eq!(position.read, read);
            assert_eq!(position.begin(9), 3);
        }
        assert!(position.proves_absence_behind(0));
    }
}
