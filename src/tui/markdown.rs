//! Lab text as lines: headings, lists, code, emphasis, tables, links; wrapped to a width.

use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::theme::Theme;

/// Renders Markdown into lines that are at most `width` columns wide (code is cut, all else is wrapped).
#[must_use]
pub fn render(text: &str, width: u16, theme: Theme) -> Vec<Line<'static>> {
    let mut renderer = Renderer::new(usize::from(width.max(10)), theme);
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        renderer.event(event);
    }
    renderer.finish()
}

/// As [`render`], for who hears it: a table is said row by row, each value behind the name of its column.
#[must_use]
pub fn render_spoken(text: &str, width: u16, theme: Theme) -> Vec<Line<'static>> {
    let mut renderer = Renderer::new(usize::from(width.max(10)), theme);
    renderer.spoken = true;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        renderer.event(event);
    }
    renderer.finish()
}

#[derive(Default)]
struct TableText {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<Vec<Span<'static>>>>,
    row: Vec<Vec<Span<'static>>>,
}

struct Renderer {
    width: usize,
    theme: Theme,
    lines: Vec<Line<'static>>,
    /// The paragraph, heading or item being collected.
    spans: Vec<Span<'static>>,
    style: Vec<Style>,
    /// For each open list: the next number of an ordered one.
    lists: Vec<Option<u64>>,
    /// What stands before the first line of the present item.
    marker: Option<String>,
    quote: usize,
    code: Option<String>,
    link: Option<String>,
    table: Option<TableText>,
    /// Tables are said in sentences, and rules are left out.
    spoken: bool,
}

impl Renderer {
    fn new(width: usize, theme: Theme) -> Self {
        Self {
            width,
            theme,
            lines: Vec::new(),
            spans: Vec::new(),
            style: vec![Style::new()],
            lists: Vec::new(),
            marker: None,
            quote: 0,
            code: None,
            link: None,
            table: None,
            spoken: false,
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text),
            Event::Code(text) => {
                let style = self.current().patch(self.theme.code());
                self.push(&text, style);
            }
            Event::SoftBreak => self.push(" ", self.current()),
            Event::HardBreak => self.flush(),
            Event::Rule if self.spoken => self.flush(),
            Event::Rule => {
                self.flush();
                let rule = self.theme.rule(self.width);
                self.lines
                    .push(Line::from(Span::styled(rule, self.theme.dim())));
                self.blank();
            }
            Event::Html(text) | Event::InlineHtml(text) => self.push(&text, self.current()),
            _ => {}
        }
    }

    fn current(&self) -> Style {
        self.style.last().copied().unwrap_or_default()
    }

    fn with(&mut self, modifier: Modifier) {
        self.style.push(self.current().add_modifier(modifier));
    }

    fn push(&mut self, text: &str, style: Style) {
        self.spans.push(Span::styled(self.theme.text(text), style));
    }

    fn text(&mut self, text: &str) {
        match &mut self.code {
            Some(code) => code.push_str(text),
            None => self.push(text, self.current()),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.flush();
                self.with(if level == HeadingLevel::H1 {
                    Modifier::BOLD | Modifier::UNDERLINED
                } else {
                    Modifier::BOLD
                });
            }
            Tag::List(first) => {
                self.flush();
                self.lists.push(first);
            }
            Tag::Item => {
                self.flush();
                self.marker = Some(self.next_marker());
            }
            Tag::Emphasis => self.with(Modifier::ITALIC),
            Tag::Strong => self.with(Modifier::BOLD),
            Tag::BlockQuote(_) => self.quote += 1,
            Tag::CodeBlock(kind) => {
                self.flush();
                let named = matches!(kind, CodeBlockKind::Fenced(_));
                self.code = Some(String::with_capacity(usize::from(named)));
            }
            Tag::Link { dest_url, .. } => {
                self.link = Some(dest_url.to_string());
                self.with(Modifier::UNDERLINED);
            }
            Tag::Table(alignments) => {
                self.flush();
                self.table = Some(TableText {
                    alignments,
                    ..TableText::default()
                });
            }
            Tag::TableHead => self.with(Modifier::BOLD),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                self.flush();
                self.style.pop();
                self.blank();
            }
            TagEnd::Paragraph => {
                self.flush();
                if self.lists.is_empty() {
                    self.blank();
                }
            }
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
                if self.lists.is_empty() {
                    self.blank();
                }
            }
            TagEnd::Item => self.flush(),
            TagEnd::Emphasis | TagEnd::Strong => {
                self.style.pop();
            }
            TagEnd::BlockQuote(_) => self.quote = self.quote.saturating_sub(1),
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::Link => self.end_link(),
            TagEnd::TableCell => self.end_cell(),
            TagEnd::TableHead => {
                self.style.pop();
                self.end_row();
            }
            TagEnd::TableRow => self.end_row(),
            TagEnd::Table => self.end_table(),
            _ => {}
        }
    }

    fn next_marker(&mut self) -> String {
        let indent = "  ".repeat(self.lists.len().saturating_sub(1));
        match self.lists.last_mut() {
            Some(Some(number)) => {
                let marker = format!("{indent}{number}. ");
                *number += 1;
                marker
            }
            _ => format!("{indent}{}", self.theme.bullet()),
        }
    }

    fn end_code(&mut self) {
        let code = self.code.take().unwrap_or_default();
        for line in code.lines() {
            let text = self.theme.text(line);
            self.lines.push(Line::from(vec![
                Span::raw("  "),
                Span::styled(cut(&text, self.width.saturating_sub(2)), self.theme.code()),
            ]));
        }
        self.blank();
    }

    fn end_link(&mut self) {
        self.style.pop();
        if let Some(url) = self.link.take() {
            self.push(&format!(" <{url}>"), self.theme.dim());
        }
    }

    fn end_cell(&mut self) {
        let spans = std::mem::take(&mut self.spans);
        if let Some(table) = &mut self.table {
            table.row.push(spans);
        }
    }

    fn end_row(&mut self) {
        if let Some(table) = &mut self.table {
            let row = std::mem::take(&mut table.row);
            table.rows.push(row);
        }
    }

    fn end_table(&mut self) {
        let Some(table) = self.table.take() else {
            return;
        };
        if self.spoken {
            return self.say_table(&table);
        }
        let columns = table.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                table
                    .rows
                    .iter()
                    .filter_map(|row| row.get(column))
                    .map(|cell| spans_width(cell))
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        for row in &table.rows {
            let mut spans = Vec::new();
            for (column, cell) in row.iter().enumerate() {
                let space = widths
                    .get(column)
                    .copied()
                    .unwrap_or(0)
                    .saturating_sub(spans_width(cell));
                let right = matches!(table.alignments.get(column), Some(Alignment::Right));
                if right {
                    spans.push(Span::raw(" ".repeat(space)));
                }
                spans.extend(cell.iter().cloned());
                spans.push(Span::raw(" ".repeat(if right { 2 } else { space + 2 })));
            }
            // A table that is too wide is wrapped row by row, with its later lines moved in.
            self.lines.extend(wrap(&spans, self.width, "", "    "));
        }
        self.blank();
    }

    fn say_table(&mut self, table: &TableText) {
        let Some((head, rows)) = table.rows.split_first() else {
            return;
        };
        for row in rows {
            let mut spans = Vec::new();
            for (name, cell) in head.iter().zip(row).filter(|(_, cell)| !cell.is_empty()) {
                spans.push(Span::raw(if spans.is_empty() { "- " } else { ", " }));
                if !name.is_empty() {
                    spans.extend(name.iter().cloned());
                    spans.push(Span::raw(": "));
                }
                spans.extend(cell.iter().cloned());
            }
            self.lines.extend(wrap(&spans, self.width, "", "  "));
        }
        self.blank();
    }

    fn blank(&mut self) {
        if self.lines.last().is_some_and(|line| line.width() > 0) {
            self.lines.push(Line::default());
        }
    }

    fn flush(&mut self) {
        let spans = std::mem::take(&mut self.spans);
        let marker = self.marker.take();
        if spans.is_empty() {
            return;
        }
        let quote = "> ".repeat(self.quote);
        let indent = if self.lists.is_empty() {
            String::new()
        } else {
            "  ".repeat(self.lists.len())
        };
        let first = format!("{quote}{}", marker.unwrap_or_else(|| indent.clone()));
        self.lines.extend(wrap(
            &spans,
            self.width,
            &first,
            &format!("{quote}{indent}"),
        ));
    }

    fn finish(mut self) -> Vec<Line<'static>> {
        self.flush();
        while self.lines.last().is_some_and(|line| line.width() == 0) {
            self.lines.pop();
        }
        self.lines
    }
}

fn spans_width(spans: &[Span<'_>]) -> usize {
    spans.iter().map(|span| span.content.width()).sum()
}

/// Columns that a text takes.
#[must_use]
pub fn width_of(text: &str) -> usize {
    text.width()
}

/// The text up to a width.
#[must_use]
pub fn cut(text: &str, width: usize) -> String {
    let mut used = 0;
    let mut result = String::new();
    for character in text.chars() {
        let columns = unicode_width::UnicodeWidthChar::width(character).unwrap_or(0);
        if used + columns > width {
            break;
        }
        used += columns;
        result.push(character);
    }
    result
}

/// As [`cut`]; what is left out is marked.
#[must_use]
pub fn shortened(text: &str, width: usize, mark: &str) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(mark.width());
    format!("{}{}", cut(text, room), cut(mark, width))
}

/// A text in pieces of a width; none where there is no room or no text.
#[must_use]
pub fn pieces(text: &str, width: usize) -> Vec<String> {
    let mut rest = text;
    let mut found = Vec::new();
    loop {
        let head = cut(rest, width);
        if head.is_empty() {
            return found;
        }
        rest = rest.get(head.len()..).unwrap_or_default();
        found.push(head);
    }
}

/// Wraps styled text at blanks; words longer than a line are split. A word may change its style within.
#[must_use]
pub fn wrap(spans: &[Span<'static>], width: usize, first: &str, rest: &str) -> Vec<Line<'static>> {
    let mut wrapper = Wrapper {
        width,
        rest,
        lines: Vec::new(),
        line: vec![Span::raw(first.to_owned())],
        used: first.width(),
        empty: true,
    };
    let mut word: Vec<Span<'static>> = Vec::new();
    for span in spans {
        for piece in span.content.split_inclusive(' ') {
            word.push(Span::styled(piece.to_owned(), span.style));
            if piece.ends_with(' ') {
                wrapper.word(std::mem::take(&mut word));
            }
        }
    }
    wrapper.word(word);
    wrapper.lines.push(trimmed(wrapper.line));
    wrapper.lines
}

struct Wrapper<'a> {
    width: usize,
    rest: &'a str,
    lines: Vec<Line<'static>>,
    line: Vec<Span<'static>>,
    used: usize,
    /// Nothing but the indent stands on the line.
    empty: bool,
}

impl Wrapper<'_> {
    /// Adds a word with the blank that ends it.
    fn word(&mut self, word: Vec<Span<'static>>) {
        let length: usize = word.iter().map(|piece| piece.content.width()).sum();
        let blank = word
            .last()
            .is_some_and(|piece| piece.content.ends_with(' '));
        if self.used + length - usize::from(blank) > self.width && !self.empty {
            self.wrap();
        }
        if self.empty && length == usize::from(blank) {
            return;
        }
        for piece in word {
            self.piece(&piece);
        }
    }

    /// Adds a part of a word, over as many lines as it needs.
    fn piece(&mut self, piece: &Span<'static>) {
        let mut text = piece.content.as_ref();
        while !text.is_empty() && self.used + text.trim_end().width() > self.width {
            let head = cut(text, self.width.saturating_sub(self.used));
            let head = if head.is_empty() && self.empty {
                text.chars().take(1).collect()
            } else {
                head
            };
            text = text.get(head.len()..).unwrap_or_default();
            self.line.push(Span::styled(head, piece.style));
            self.wrap();
        }
        if !text.is_empty() {
            self.used += text.width();
            self.empty = false;
            self.line.push(Span::styled(text.to_owned(), piece.style));
        }
    }

    fn wrap(&mut self) {
        let full = std::mem::replace(&mut self.line, vec![Span::raw(self.rest.to_owned())]);
        self.lines.push(trimmed(full));
        self.used = self.rest.width();
        self.empty = true;
    }
}

/// A line without the blank at which it was wrapped.
fn trimmed(mut spans: Vec<Span<'static>>) -> Line<'static> {
    if let Some(last) = spans.last_mut() {
        last.content = last.content.trim_end().to_owned().into();
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str, width: u16) -> Vec<String> {
        render(text, width, Theme::new(false, false))
            .iter()
            .map(|line| {
                line.spans
                    .iter()
                    .map(|span| span.content.as_ref())
                    .collect::<String>()
                    .trim_end()
                    .to_owned()
            })
            .collect()
    }

    #[test]
    fn a_table_is_said_row_by_row() {
        let text = "| account | needs | after |\n|---|---:|---|\n| order-sensor | `create` workflows | yes |\n| other | | no |\n\n---\n";
        let lines = render_spoken(text, 200, Theme::new(true, false));
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "- account: order-sensor, needs: create workflows, after: yes",
                "- account: other, after: no"
            ]
        );
    }

    #[test]
    fn blocks_are_laid_out() {
        let text = "# Title\n\nSome *emphasis* and `code` here.\n\n- one\n- two\n  longer\n\n1. first\n2. second\n\n```json\n{\"a\": 1}\n```\n\n| a | b |\n|---|---|\n| 1 | two |\n";
        assert_eq!(
            plain(text, 40),
            [
                "Title",
                "",
                "Some emphasis and code here.",
                "",
                "• one",
                "• two longer",
                "",
                "1. first",
                "2. second",
                "",
                "  {\"a\": 1}",
                "",
                "a  b",
                "1  two"
            ]
        );
    }

    #[test]
    fn lines_keep_to_the_width() {
        let text = "A paragraph with a-very-long-word-that-does-not-fit-anywhere and 漢字漢字漢字漢字漢字 and more words.\n\n- item with enough words to be wrapped twice over\n\n| a | b |\n|---|---|\n| a long cell | another long cell |\n";
        for width in [10, 11, 17, 40] {
            for line in render(text, width, Theme::new(true, false)) {
                assert!(line.width() <= usize::from(width), "{width}: {line:?}");
            }
        }
    }

    #[test]
    fn a_word_that_changes_its_style_is_not_torn() {
        assert_eq!(
            plain("Send it when **Ready**. Then wait.", 20),
            ["Send it when Ready.", "Then wait."]
        );
        assert_eq!(
            plain("Send it when **Ready**. Then", 18),
            ["Send it when", "Ready. Then"]
        );
    }

    #[test]
    fn wrapped_items_keep_their_indent() {
        assert_eq!(
            plain("- one two three four", 12),
            ["• one two", "  three four"]
        );
    }

    proptest::proptest! {
        #[test]
        fn wrapping_ends_at_every_width(
            text in "[a-z 漢]{0,60}", width in 0usize..9, first in "[ >]{0,6}", rest in "[ >]{0,6}"
        ) {
            let lines = wrap(&[Span::raw(text)], width, &first, &rest);
            assert!(lines.len() <= 200);
        }

        #[test]
        fn any_text_is_rendered(text in "\\PC{0,200}", width in 0u16..60) {
            let _ = render(&text, width, Theme::new(true, false));
        }
    }
}
