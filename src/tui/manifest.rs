//! What the manifest pane holds: the text, or how the working copy differs from what is applied, from the original, and
//! from the reference once it is allowed.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use similar::TextDiff;

use super::theme::Theme;
use crate::cluster::{Manifest, ManifestError};
use crate::evidence::Outcome;
use crate::runner::driver::Driver;

/// What the working copy is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compare {
    /// With nothing: the text itself.
    #[default]
    Nothing,
    Applied,
    Original,
    Reference,
}

impl Compare {
    /// The next one; the reference only where it may be shown.
    #[must_use]
    pub fn next(self, revealed: bool) -> Self {
        match self {
            Compare::Nothing => Compare::Applied,
            Compare::Applied => Compare::Original,
            Compare::Original if revealed => Compare::Reference,
            Compare::Original | Compare::Reference => Compare::Nothing,
        }
    }
}

/// The present stage's manifests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// The manifest that this stage edits; empty where it edits none.
    pub file: String,
    pub copy: String,
    /// Why the working copy cannot be read.
    pub trouble: Option<String>,
    pub original: String,
    /// What was applied last.
    pub applied: Option<String>,
    /// `None` while it may not be shown.
    pub reference: Option<String>,
    /// What the stage applies, where it edits nothing.
    pub others: Vec<(String, String)>,
}

impl Texts {
    /// Reads the present stage's manifests.
    #[must_use]
    pub fn of(driver: &Driver) -> Self {
        let state = driver.state();
        let Some(stage) = state.stage() else {
            return Self::default();
        };
        let text = |file: &String| {
            let copy = state
                .uses_working_copy(file)
                .then(|| driver.copy_text(file));
            let copy = copy.transpose().map_err(|error| error.to_string())?;
            Ok(copy.flatten().unwrap_or_else(|| driver.original(file)))
        };
        let Some(fix) = &stage.fix else {
            return Self {
                others: stage
                    .apply
                    .iter()
                    .rev()
                    .map(|file| (file.clone(), text(file).unwrap_or_else(|why: String| why)))
                    .collect(),
                ..Self::default()
            };
        };
        let (copy, trouble) = match text(&fix.manifest) {
            Ok(text) => (text, None),
            Err(why) => (String::new(), Some(why)),
        };
        Self {
            file: fix.manifest.clone(),
            copy,
            trouble,
            original: driver.original(&fix.manifest),
            applied: driver.applied_text(&fix.manifest),
            reference: state.revealed().then(|| driver.original(&fix.solution)),
            others: Vec::new(),
        }
    }

    /// The lines of the pane; they name keys only where there are some.
    #[must_use]
    pub fn lines(&self, compare: Compare, theme: Theme, keys: bool) -> Vec<Line<'static>> {
        let named = |text: &str, of_keys: &str| {
            let of_keys = if keys { of_keys } else { "" };
            titled(&format!("{text}{of_keys}"), theme)
        };
        if self.file.is_empty() {
            return self
                .others
                .iter()
                .flat_map(|(file, text)| {
                    std::iter::once(titled(&format!("# {file}"), theme))
                        .chain(text.lines().map(|line| yaml(line, theme)))
                        .collect::<Vec<_>>()
                })
                .collect();
        }
        let file = &self.file;
        if let Some(trouble) = &self.trouble {
            let style = theme.outcome(Outcome::Refuted).1;
            let said = Span::styled(theme.text(trouble), style);
            return vec![titled(&format!("# {file}"), theme), Line::from(said)];
        }
        let (title, from) = match compare {
            Compare::Nothing => {
                let word = if self.copy == self.original {
                    "not edited yet"
                } else {
                    "edited"
                };
                let title = named(
                    &format!("{file}, {word}"),
                    " (e edits, E edits here, d compares)",
                );
                return std::iter::once(title)
                    .chain(with_error(file, &self.copy, theme))
                    .collect();
            }
            Compare::Applied => match &self.applied {
                Some(applied) => ("the working copy against what is applied", applied),
                None => {
                    return vec![named(
                        &format!("{file} was not applied yet"),
                        " (d compares with the original)",
                    )];
                }
            },
            Compare::Original => ("the working copy against the original", &self.original),
            Compare::Reference => match &self.reference {
                Some(reference) => ("the reference against the working copy", reference),
                None => {
                    return vec![named("the reference is not shown yet", " (S asks for it)")];
                }
            },
        };
        let (old, new) = if compare == Compare::Reference {
            (&self.copy, from)
        } else {
            (from, &self.copy)
        };
        let title = named(&format!("{file}: {title}"), " (d compares with another)");
        std::iter::once(title)
            .chain(diff(old, new, theme))
            .collect()
    }
}

/// The lines of a manifest; what is wrong stands above its line, or above all.
fn with_error(file: &str, text: &str, theme: Theme) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = text.lines().map(|line| yaml(line, theme)).collect();
    if let Err((error, line)) = check(file, text) {
        let error = error.strip_prefix(&format!("{file}: ")).unwrap_or(&error);
        let said = Span::styled(
            theme.text(&format!("> {error}")),
            theme.outcome(Outcome::Refuted).1,
        );
        let place = line
            .map_or(0, |line| line.saturating_sub(1))
            .min(lines.len());
        lines.insert(place, Line::from(said));
    }
    lines
}

fn titled(text: &str, theme: Theme) -> Line<'static> {
    Line::from(Span::styled(theme.text(text), theme.dim()))
}

fn diff(old: &str, new: &str, theme: Theme) -> Vec<Line<'static>> {
    if old == new {
        return vec![Line::from("no difference")];
    }
    TextDiff::from_lines(old, new)
        .unified_diff()
        .context_radius(3)
        .to_string()
        .lines()
        .map(|line| Line::from(Span::styled(theme.text(line), theme.change(line))))
        .collect()
}

/// A line of YAML with its comment, key and text told apart.
#[must_use]
pub fn yaml(line: &str, theme: Theme) -> Line<'static> {
    let text = theme.text(line);
    let body = text.trim_start();
    let indent = text.len() - body.len();
    if body.starts_with('#') || body == "---" {
        return Line::from(Span::styled(text, theme.dim()));
    }
    let after_marks = body.trim_start_matches("- ");
    let marks = indent + body.len() - after_marks.len();
    let mut spans = Vec::new();
    let push = |from: usize, to: usize, style: Style, spans: &mut Vec<Span<'static>>| {
        if let Some(part) = text.get(from..to)
            && !part.is_empty()
        {
            spans.push(Span::styled(part.to_owned(), style));
        }
    };
    push(0, marks, Style::new(), &mut spans);
    let key = after_marks
        .find(": ")
        .or_else(|| after_marks.ends_with(':').then(|| after_marks.len() - 1))
        .filter(|_| !after_marks.starts_with(['"', '\'', '{', '[']));
    let value = match key {
        Some(length) => {
            push(marks, marks + length, theme.strong(), &mut spans);
            marks + length
        }
        None => marks,
    };
    let comment = text
        .get(value..)
        .and_then(|rest| rest.find(" #"))
        .map_or(text.len(), |place| value + place);
    let quoted = text
        .get(value..comment)
        .is_some_and(|value| value.contains(['"', '\'']));
    let style = if quoted { theme.code() } else { Style::new() };
    if quoted && comment < text.len() {
        // A `#` may stand inside the quotes: then all of it is text.
        push(value, text.len(), style, &mut spans);
    } else {
        push(value, comment, style, &mut spans);
        push(comment, text.len(), theme.dim(), &mut spans);
    }
    Line::from(spans)
}

/// What is wrong with a working copy, and in which line (from 1) where the YAML says it.
///
/// # Errors
/// A sentence, and the line.
pub fn check(file: &str, text: &str) -> Result<Vec<Manifest>, (String, Option<usize>)> {
    Manifest::read(file, text).map_err(|error| {
        let line = line_of(&error);
        (error.to_string(), line)
    })
}

fn line_of(error: &ManifestError) -> Option<usize> {
    match error {
        ManifestError::Yaml { place, .. } => {
            place.strip_prefix("line ")?.split(',').next()?.parse().ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEME: fn() -> Theme = || Theme::new(true, false);

    fn texts() -> Texts {
        Texts {
            file: "a/sensor.yaml".to_owned(),
            copy: "a: 1\nb: 3\n".to_owned(),
            trouble: None,
            original: "a: 1\nb: 2\n".to_owned(),
            applied: Some("a: 0\nb: 3\n".to_owned()),
            reference: None,
            others: Vec::new(),
        }
    }

    fn shown(compare: Compare) -> String {
        let lines = texts().lines(compare, THEME(), true);
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        lines.join("\n")
    }

    #[test]
    fn each_comparison_shows_its_own_difference() {
        assert!(shown(Compare::Nothing).contains("edited"));
        assert!(shown(Compare::Original).contains("-b: 2\n+b: 3"));
        assert!(shown(Compare::Applied).contains("-a: 0\n+a: 1"));
        assert!(shown(Compare::Reference).contains("not shown yet"));
    }

    /// Who types words has no keys: no title names one, whatever is there to compare.
    #[test]
    fn a_title_names_keys_on_a_screen_alone() {
        let all = [
            Compare::Nothing,
            Compare::Applied,
            Compare::Original,
            Compare::Reference,
        ];
        for (applied, reference) in [(None, None), (Some("a: 0\n"), Some("a: 5\n"))] {
            let texts = Texts {
                applied: applied.map(str::to_owned),
                reference: reference.map(str::to_owned),
                ..texts()
            };
            for compare in all {
                let title = |keys| texts.lines(compare, THEME(), keys)[0].to_string();
                assert!(title(true).ends_with(')'), "{}", title(true));
                assert!(!title(false).contains('('), "{}", title(false));
                assert!(title(true).starts_with(&title(false)));
            }
        }
    }

    #[test]
    fn the_reference_is_passed_over_until_it_may_be_shown() {
        let around = |revealed| {
            let mut compare = Compare::Nothing;
            (0..4)
                .map(|_| {
                    compare = compare.next(revealed);
                    compare
                })
                .collect::<Vec<_>>()
        };
        assert!(!around(false).contains(&Compare::Reference));
        assert!(around(true).contains(&Compare::Reference));
    }

    #[test]
    fn an_error_names_its_line() {
        let (text, line) = check("f.yaml", "a: b\nc: d: e\n").unwrap_err();
        assert_eq!(line, Some(2), "{text}");
        assert_eq!(check("f.yaml", "kind: A\n").unwrap_err().1, None);
    }

    proptest::proptest! {
        #[test]
        fn highlighting_loses_nothing(line in "[ -~äöü:#'\"\\-]{0,60}") {
            assert_eq!(yaml(&line, THEME()).to_string(), THEME().text(&line));
        }
    }
}
