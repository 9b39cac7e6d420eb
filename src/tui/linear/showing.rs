//! What is said when a word asks for it.

use super::texts::{counters_text, word};
use super::{Linear, WORDS};
use crate::evidence::Layer;
use crate::report::matrix;
use crate::tui::app::Pane;
use crate::tui::look::{Answer, Look, Table};
use crate::tui::manifest::{Compare, Texts};
use crate::tui::search::Needle;
use crate::tui::{keys, panes};
use crate::words::counted;

impl Linear<'_> {
    /// Says what a word asks to see; false where it asks for something else.
    pub(super) async fn shown(&mut self, word: &str, rest: &[&str]) -> bool {
        match word {
            "help" | "?" => self.help(),
            "status" | "table" => self.table(),
            "text" => self.said.place.clear(),
            "facts" => self.facts(rest),
            "manifest" => self.manifest(Compare::Nothing),
            "diff" => self.diff(rest),
            "gate" => self.pane(Pane::Gate),
            "access" => {
                let lines = panes::access::sentences(self.driver.state());
                lines.iter().for_each(|line| self.say(line));
            }
            "counters" => self.counters(),
            "report" => self.look(Look::Report).await,
            "ledger" => self.look(Look::Tables).await,
            "logs" => self.logs(rest).await,
            _ => return false,
        }
        true
    }

    pub(super) async fn look(&mut self, look: Look) {
        let answer = self.looker.look(&look).await;
        self.answer(answer);
    }

    /// The pods; the last lines of one; those of them that have a text.
    async fn logs(&mut self, words: &[&str]) {
        let Some((name, text)) = words.split_first() else {
            return self.look(Look::Pods).await;
        };
        let of = (*name).to_owned();
        let mut answer = self.looker.look(&Look::Log { of }).await;
        let needle = Needle::new(&text.join(" "));
        if let Ok(Answer::Object { title, lines, .. }) = &mut answer
            && !needle.is_empty()
        {
            lines.retain(|line| needle.is_in(line));
            *title = format!(
                "{title}, {} with {}",
                counted(lines.len(), "line"),
                needle.text()
            );
        }
        self.answer(answer);
    }

    /// What a pane of the screen shows.
    fn pane(&mut self, pane: Pane) {
        self.app.pane = pane;
        self.app.prepare(self.driver.state(), self.width(), 24);
        let lines = panes::block(self.driver.state(), &self.app, self.width());
        for shown in lines {
            self.say(&shown.line.to_string());
        }
        self.app.pane = Pane::Evidence;
    }

    /// The four counters, and the verification matrix where the lab is one.
    fn counters(&mut self) {
        let state = self.driver.state();
        let (matrix, counted) = (state.matrix().unwrap_or_default(), counters_text(state));
        matrix::sentences(&matrix).for_each(|line| self.say(&line));
        self.say(&counted);
        self.say("Equal counters say nothing about which events they counted.");
    }

    fn diff(&mut self, words: &[&str]) {
        match words.first() {
            None | Some(&"applied") => self.manifest(Compare::Applied),
            Some(&"original") => self.manifest(Compare::Original),
            Some(&("reference" | "solution")) => self.manifest(Compare::Reference),
            Some(other) => self.say(&format!(
                "diff compares with applied, original or reference, not with {other}"
            )),
        }
    }

    fn answer(&mut self, answer: Result<Answer, String>) {
        match answer {
            Ok(Answer::Object {
                title,
                lines,
                command,
            }) => {
                self.say(&title);
                lines.iter().for_each(|line| self.say(line));
                self.say(&format!("command: {}", self.driver.pasteable(&command)));
            }
            Ok(Answer::Report(text)) => self.say_markdown(&text),
            Ok(Answer::Tables(tables)) => {
                for line in tables.iter().flat_map(table_lines) {
                    self.say(&line);
                }
            }
            Err(error) => self.say(&error),
        }
    }

    fn help(&mut self) {
        for (word, _, what) in WORDS {
            self.say(&format!("{word}: {what}"));
        }
        for text in [
            "status: every probe and where it is",
            "facts PROBE LAYER: the facts of a cell, with their lines and commands",
            "manifest: this stage's manifest",
            "diff: the working copy against what is applied; diff original, diff reference: against those",
            "gate: what the gate waits for, and what holds",
            "access: what service accounts may do",
            "counters: the four counters of this attempt",
            "ledger: what the ledger holds",
            "logs: the pods; logs NAME: the last lines of the first whose name begins so; logs NAME TEXT: those that have the text",
            "report: the incident report so far",
            "text: the stage's text again",
            "A number chooses from a list; no leaves it.",
        ] {
            self.say(text);
        }
        self.say(&format!(
            "The same with keys on a screen: {} keys, see eventlab man.",
            keys::BINDINGS.len()
        ));
    }

    fn table(&mut self) {
        let state = self.driver.state();
        let rows = state.rows();
        let names = panes::row_names(&rows, state);
        let mut lines = Vec::new();
        for (row, name) in rows.iter().zip(names) {
            let cells: Vec<String> = Layer::ALL
                .iter()
                .map(|layer| {
                    let cell = row.cell(*layer);
                    format!("{} {}", layer.name(), word(cell.state, &cell.text))
                })
                .collect();
            lines.push(format!("{name} ({}): {}", row.probe, cells.join(", ")));
        }
        if lines.is_empty() {
            lines.push("no probe was sent yet".to_owned());
        }
        lines.iter().for_each(|line| self.say(line));
        self.said.offer.clear();
    }

    fn facts(&mut self, words: &[&str]) {
        let state = self.driver.state();
        let (Some(probe), Some(layer)) = (
            words.first(),
            words.get(1).and_then(|name| Layer::parse(name)),
        ) else {
            self.say("write it as: facts PROBE LAYER, such as facts control filter");
            return;
        };
        let mut lines = Vec::new();
        for row in state.rows().iter().filter(|row| row.probe == *probe) {
            for fact in row
                .cell(layer)
                .facts
                .iter()
                .filter_map(|seq| state.fact(*seq))
            {
                lines.push(format!(
                    "fact {}, {} in {}",
                    fact.seq, fact.time, fact.source
                ));
                lines.push(format!("line: {}", fact.line));
                let command = self.driver.pasteable(&fact.command);
                lines.push(format!("command: {command}"));
            }
        }
        if lines.is_empty() {
            lines.push(format!("there is no fact of {probe} at {layer} yet"));
        }
        lines.iter().for_each(|line| self.say(line));
    }

    pub(super) fn manifest(&mut self, compare: Compare) {
        self.app.manifest = Texts::of(self.driver);
        let lines = self.app.manifest.lines(compare, self.app.theme, false);
        if compare != Compare::Nothing && self.app.manifest.file.is_empty() {
            return self.say("this stage edits no manifest, so that there is nothing to compare");
        }
        if lines.is_empty() {
            self.say("this stage has no manifest");
        }
        self.say_lines(&lines);
        self.app.compare = Compare::Nothing;
        self.app.pane = Pane::Evidence;
    }
}

/// A table in sentences. One that could not be read has no number of rows.
fn table_lines(table: &Table) -> Vec<String> {
    let Table {
        title,
        columns,
        rows,
        remark,
        ..
    } = table;
    let count = counted(rows.len(), "row");
    let mut lines = vec![match remark {
        Some(why) if rows.is_empty() => format!("{title}: {why}"),
        Some(remark) => format!("{title}, {count}, {remark}"),
        None => format!("{title}, {count}"),
    }];
    for row in rows {
        let cells = columns.iter().zip(row);
        let cells: Vec<String> = cells
            .filter(|(_, cell)| !cell.is_empty())
            .map(|(name, cell)| format!("{name} {cell}"))
            .collect();
        lines.push(cells.join(", "));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_could_not_be_read_has_no_number_of_rows() {
        let mut table = Table {
            title: "orders".to_owned(),
            columns: vec!["id".to_owned(), "note".to_owned()],
            ..Table::default()
        };
        assert_eq!(table_lines(&table), ["orders, 0 rows"]);
        table.remark = Some("nobody answers".to_owned());
        assert_eq!(table_lines(&table), ["orders: nobody answers"]);
        table.rows = vec![vec!["o-1".to_owned(), String::new()]];
        table.remark = Some("7 older rows are left out".to_owned());
        assert_eq!(
            table_lines(&table),
            ["orders, 1 row, 7 older rows are left out", "id o-1"]
        );
    }
}
