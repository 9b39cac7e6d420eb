//! What the API server answered about rights, and what the stage expects of them.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::Shown;
use crate::evidence::access::reviewed;
use crate::evidence::{CellState, Fact, Observation, Right};
use crate::session::State;
use crate::tui::theme::Theme;

const NOTHING: &str = "no right was asked for in this lab yet";
/// What is said of an answer from before this go at the stage.
const BEFORE: &str = "asked before";
/// The names of the columns: what is judged stands before what a narrow screen cuts.
const COLUMNS: [&str; 7] = [
    "layer", "allowed", "judged", "account", "verb", "resource", "attempt",
];

/// A right that was asked for last, or that the stage still asks for.
struct Entry<'a> {
    right: Right,
    fact: Option<&'a Fact>,
    /// What the stage expects of it.
    wanted: Option<bool>,
    /// It was asked for in this go at the stage: an older answer proves nothing of now.
    current: bool,
}

/// Those that were asked for, then those that the stage still asks for.
fn entries(state: &State) -> Vec<Entry<'_>> {
    let mut latest: Vec<(Right, &Fact)> = Vec::new();
    for fact in state.facts() {
        if let Some(right) = reviewed(&fact.observation) {
            latest.retain(|(known, _)| *known != right);
            latest.push((right, fact));
        }
    }
    latest.sort_by(|(one, _), (other, _)| one.cmp(other));
    let expected: Vec<(Right, bool)> = state
        .stage()
        .into_iter()
        .flat_map(|stage| &stage.access)
        .map(|check| check.expectation())
        .map(|expectation| (expectation.right, expectation.allowed))
        .collect();
    let run = state.stage().zip(state.stage_run());
    let is_current = |fact: &Fact| {
        run.is_some_and(|(stage, run)| fact.stage == stage.name && fact.attempt == run.attempt)
    };
    let asked = latest.into_iter().map(|(right, fact)| {
        let wanted = expected.iter().find(|(known, _)| *known == right);
        let wanted = wanted.map(|(_, allowed)| *allowed);
        Entry {
            right,
            fact: Some(fact),
            wanted,
            current: is_current(fact),
        }
    });
    let mut entries: Vec<Entry<'_>> = asked.collect();
    for (right, allowed) in &expected {
        if entries.iter().all(|entry| entry.right != *right) {
            let (right, wanted) = (right.clone(), Some(*allowed));
            entries.push(Entry {
                right,
                fact: None,
                wanted,
                current: true,
            });
        }
    }
    entries
}

impl Entry<'_> {
    fn allowed(&self) -> Option<bool> {
        let fact = self.fact?;
        Some(matches!(
            fact.observation,
            Observation::Access { allowed: true, .. }
        ))
    }

    fn judged(&self) -> &'static str {
        match (self.allowed(), self.wanted) {
            (None, _) => "not asked yet",
            (Some(_), None) => "",
            (Some(_), Some(_)) if !self.current => BEFORE,
            (Some(allowed), Some(wanted)) if allowed == wanted => "as it must be",
            (Some(false), Some(_)) => "is missing",
            (Some(true), Some(_)) => "is too much",
        }
    }

    /// That of the judgement: what is allowed may be too much.
    fn style(&self, theme: Theme) -> Style {
        match (self.allowed(), self.wanted) {
            (None, _) => theme.dim(),
            (Some(_), None) => Style::new(),
            _ if !self.current => theme.dim(),
            (Some(allowed), Some(wanted)) if allowed == wanted => theme.cell(CellState::Yes),
            _ => theme.cell(CellState::No),
        }
    }

    fn cells(&self, theme: Theme) -> [String; 7] {
        let allowed = match self.allowed() {
            Some(true) => format!("{} yes", theme.mark(CellState::Yes)),
            Some(false) => format!("{} no", theme.mark(CellState::No)),
            None => "?".to_owned(),
        };
        let attempt = self.fact.map(|fact| format!("a{}", fact.attempt));
        [
            self.right.layer().name().to_owned(),
            allowed,
            self.judged().to_owned(),
            self.right.account.clone(),
            self.right.verb.clone(),
            self.right.resource_in_group(),
            attempt.unwrap_or_default(),
        ]
    }
}

/// One line a right.
pub(super) fn lines(state: &State, theme: Theme) -> Vec<Shown> {
    let entries = entries(state);
    if entries.is_empty() {
        return vec![Shown::plain(NOTHING, theme.dim())];
    }
    let cells: Vec<[String; 7]> = entries.iter().map(|entry| entry.cells(theme)).collect();
    let widths: [usize; 7] = std::array::from_fn(|column| {
        let widest = cells.iter().map(|cells| cells[column].width()).max();
        widest.unwrap_or(0).max(COLUMNS[column].width())
    });
    let line = |cells: [&str; 7]| {
        let padded = cells.iter().zip(widths).map(|(cell, width)| {
            let space = " ".repeat(width.saturating_sub(cell.width()));
            format!("{cell}{space} ")
        });
        padded.collect::<String>().trim_end().to_owned()
    };
    let mut lines = vec![Shown::plain(line(COLUMNS), theme.dim())];
    lines.extend(entries.iter().zip(&cells).map(|(entry, cells)| {
        let text = theme.text(&line(cells.each_ref().map(String::as_str)));
        Shown {
            line: Line::from(Span::styled(text, entry.style(theme))),
            fact: entry.fact.map(|fact| fact.seq),
            command: None,
        }
    }));
    lines
}

/// The same in sentences.
#[must_use]
pub fn sentences(state: &State) -> Vec<String> {
    let entries = entries(state);
    if entries.is_empty() {
        return vec![NOTHING.to_owned()];
    }
    entries.iter().map(sentence).collect()
}

fn sentence(entry: &Entry<'_>) -> String {
    let Right { account, verb, .. } = &entry.right;
    let resource = entry.right.resource_in_group();
    let layer = entry.right.layer();
    let does = match (entry.right.is_any_other(), entry.allowed()) {
        (true, Some(true)) => format!("{account} may do more than is listed here"),
        (true, Some(false)) => format!("{account} may do nothing that is not listed here"),
        (true, None) => format!("whether {account} may do more than is listed here"),
        (false, Some(true)) => format!("{account} may {verb} {resource}"),
        (false, Some(false)) => format!("{account} may not {verb} {resource}"),
        (false, None) => format!("whether {account} may {verb} {resource}"),
    };
    let judged = match entry.judged() {
        "" => String::new(),
        BEFORE => ", as it was when it was asked before".to_owned(),
        judged if judged.starts_with("is ") => format!(", which {judged}"),
        judged => format!(", {judged}"),
    };
    format!("{layer}: {does}{judged}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::testing::fact;

    /// Each answer against each expectation: the words and the colour are those of the judgement.
    #[test]
    fn what_is_allowed_and_too_much_is_no_good_news() {
        let theme = Theme::new(true, false);
        let right = Right {
            account: "order-sensor".to_owned(),
            verb: "create".to_owned(),
            group: "argoproj.io".to_owned(),
            resource: "workflows".to_owned(),
        };
        let (good, bad) = (theme.cell(CellState::Yes), theme.cell(CellState::No));
        for (allowed, wanted, judged, style) in [
            (true, Some(true), "as it must be", good),
            (false, Some(false), "as it must be", good),
            (true, Some(false), "is too much", bad),
            (false, Some(true), "is missing", bad),
            (true, None, "", Style::new()),
        ] {
            let observation = Observation::Access {
                account: right.account.clone(),
                verb: right.verb.clone(),
                group: right.group.clone(),
                resource: right.resource.clone(),
                allowed,
                reason: String::new(),
            };
            let fact = fact(right.layer(), observation);
            let entry = Entry {
                right: right.clone(),
                fact: Some(&fact),
                wanted,
                current: true,
            };
            assert_eq!((entry.judged(), entry.style(theme)), (judged, style));
            let before = Entry {
                current: false,
                ..entry
            };
            let nothing = wanted.map_or("", |_| BEFORE);
            assert_eq!(before.judged(), nothing);
            assert!(before.style(theme) != good && before.style(theme) != bad);
        }
        let entry = Entry {
            right,
            fact: None,
            wanted: Some(true),
            current: true,
        };
        assert_eq!(entry.judged(), "not asked yet");
    }

    /// Who hears it must not take one right more for all rights.
    #[test]
    fn other_rights_are_not_all_rights() {
        let right = Right {
            account: "order-sensor".to_owned(),
            verb: "any-other".to_owned(),
            group: String::new(),
            resource: "right".to_owned(),
        };
        assert!(right.is_any_other());
        for (allowed, said) in [
            (
                true,
                "order-sensor may do more than is listed here, as it must be",
            ),
            (
                false,
                "order-sensor may do nothing that is not listed here, as it must be",
            ),
        ] {
            let observation = Observation::Access {
                account: right.account.clone(),
                verb: right.verb.clone(),
                group: right.group.clone(),
                resource: right.resource.clone(),
                allowed,
                reason: String::new(),
            };
            let fact = fact(right.layer(), observation);
            let entry = Entry {
                right: right.clone(),
                fact: Some(&fact),
                wanted: Some(allowed),
                current: true,
            };
            assert!(sentence(&entry).ends_with(said), "{}", sentence(&entry));
        }
    }
}
