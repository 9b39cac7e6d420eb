//! The report as Markdown.

use std::fmt::Write as _;

use super::{AttemptReport, LabReport, Report, SentRow};
use crate::evidence::journal::{Claim, ClaimAnswer};
use crate::evidence::{AccessRow, CellState, Fact, Fate, Layer, Outcome, Row};

/// Writing to a String cannot fail.
macro_rules! put {
    ($out:expr, $($text:tt)*) => {
        let _ = writeln!($out, $($text)*);
    };
}

/// The whole report. It says of every half-done lab that it is one.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut out = String::from("# Incident report\n");
    if !report.notes.is_empty() {
        out.push_str("\n**Not all of this session could be read.**\n\n");
    }
    for note in &report.notes {
        put!(out, "- {}", line(note));
    }
    match (report.labs.is_empty(), report.notes.is_empty()) {
        (true, true) => {
            out.push_str("\nNothing was collected yet. Start a lab with `eventlab`.\n");
        }
        (true, false) => out.push_str("\nNothing else is there.\n"),
        (false, _) => {}
    }
    for lab in &report.labs {
        render_lab(&mut out, lab);
    }
    out
}

fn render_lab(out: &mut String, lab: &LabReport) {
    put!(out, "\n## {}: {}\n", lab.name, lab.title);
    if !lab.complete {
        put!(
            out,
            "**This lab is not finished.** What follows is what was collected so far.\n"
        );
    }
    for attempt in &lab.attempts {
        render_attempt(out, lab, attempt);
    }
    render_claims(out, &lab.claims);
    if !lab.changes.is_empty() {
        put!(out, "### Changes made\n");
        for change in &lab.changes {
            put!(
                out,
                "Attempt {}:\n\n{}\n",
                change.attempt,
                fenced(&change.text, "diff")
            );
        }
    }
    render_access(out, &lab.access);
    put!(out, "### Not proven\n");
    if lab.not_proven.is_empty() {
        put!(out, "Nothing was named. That is rarely true.");
    }
    for point in &lab.not_proven {
        put!(out, "- {}", line(point));
    }
    if !lab.links.is_empty() {
        put!(out, "\n### Read more\n");
        for (title, url) in &lab.links {
            put!(out, "- [{title}]({url})");
        }
    }
    render_timeline(out, &lab.timeline);
}

fn render_access(out: &mut String, access: &[AccessRow]) {
    if access.is_empty() {
        return;
    }
    put!(out, "### Access, before and after\n");
    put!(
        out,
        "| account | verb | resource | before | after | reviews |"
    );
    put!(out, "|---|---|---|---|---|---|");
    let word = |allowed: bool| if allowed { "yes" } else { "no" };
    for row in access {
        put!(
            out,
            "| {} | {} | {} | {} | {} |{} |",
            row.right.account,
            row.right.verb,
            row.right.resource_in_group(),
            word(row.before),
            row.after.map_or("not reviewed again", word),
            references(&row.facts)
        );
    }
    out.push('\n');
}

fn render_attempt(out: &mut String, lab: &LabReport, attempt: &AttemptReport) {
    put!(out, "### Attempt {}\n", attempt.attempt);
    put!(
        out,
        "| probe | {} | first failing layer |",
        Layer::ALL.map(Layer::name).join(" | ")
    );
    put!(out, "|---|{}---|", "---|".repeat(Layer::ALL.len()));
    for SentRow { title, row, .. } in &attempt.rows {
        let cells: Vec<_> = Layer::ALL.iter().map(|layer| cell(row, *layer)).collect();
        put!(
            out,
            "| {} | {} | {} |",
            line(title),
            cells.join(" | "),
            verdict_of(row)
        );
    }
    let counters = attempt.counters;
    put!(
        out,
        "\nintakes {} · approved {} · completed {} · effects {}\n",
        counters.intakes,
        counters.approved,
        counters.completed,
        counters.effects
    );
    for judgement in &attempt.judgements {
        let word = match judgement.verdict.outcome {
            Outcome::Proven => "proven",
            Outcome::Refuted => "refuted",
            Outcome::Unproven => "unproven",
        };
        let because = judgement
            .verdict
            .because
            .as_deref()
            .map(|because| format!(" ({})", line(because)))
            .unwrap_or_default();
        put!(
            out,
            "- **{word}**: {}{because}{}",
            line(&judgement.verdict.claim),
            references(&judgement.verdict.facts)
        );
        for fact in proving(lab, &judgement.verdict.facts) {
            put!(
                out,
                "  - `{}` — `{}`",
                listed(&fact.line),
                listed(&fact.command)
            );
        }
    }
    render_ruled_out(out, attempt);
    render_predictions(out, attempt);
    out.push('\n');
}

/// One line a stopped probe: the layers that did not stop it, with what shows it.
fn render_ruled_out(out: &mut String, attempt: &AttemptReport) {
    for SentRow { stage, title, row } in &attempt.rows {
        let layers: Vec<String> = attempt
            .ruled_out
            .iter()
            .filter(|one| {
                (&one.stage, &one.probe) == (stage, &row.probe)
                    && (&one.trace, &one.arrival) == (&row.trace, &row.arrival)
            })
            .map(|one| format!("{}{}", one.layer, references(&one.facts)))
            .collect();
        if !layers.is_empty() {
            put!(
                out,
                "- ruled out for {}: {}",
                line(title),
                layers.join(", ")
            );
        }
    }
}

fn render_predictions(out: &mut String, attempt: &AttemptReport) {
    for scored in &attempt.predictions {
        let said = scored
            .prediction
            .stops_at
            .map_or("it has its effect".to_owned(), |layer| {
                format!("{} stops it", layer.name())
            });
        let came = match scored.right {
            Some(true) => "right",
            Some(false) => "wrong",
            None => "not settled",
        };
        put!(
            out,
            "- prediction for {}: {said}: {came}",
            scored.prediction.probe
        );
    }
}

/// The few facts that carry a verdict; all of them are in the timeline.
fn proving<'a>(lab: &'a LabReport, facts: &[u64]) -> impl Iterator<Item = &'a Fact> {
    let facts = facts.to_vec();
    lab.timeline
        .iter()
        .filter(move |fact| facts.contains(&fact.seq))
        .take(4)
}

fn cell(row: &Row, layer: Layer) -> String {
    let cell = row.cell(layer);
    let mark = match cell.state {
        CellState::Yes => "yes",
        CellState::Implied => "(yes)",
        CellState::No => "**no**",
        CellState::Pending => "…",
        CellState::Unknown => "·",
    };
    if cell.text.is_empty() {
        mark.to_owned()
    } else {
        format!("{mark} {}", line(&cell.text))
    }
}

fn verdict_of(row: &Row) -> String {
    match (&row.fate, row.unproven_between) {
        (Some(Fate::Applied), _) => "none".to_owned(),
        (Some(Fate::Stopped { layer, reason }), _) => {
            format!("{}: {}", layer.name(), reason.text())
        }
        (Some(Fate::AppliedButRunStopped { reason }), _) => {
            format!("run: {} (the effect is there)", reason.text())
        }
        (None, Some((Some(after), before))) => {
            format!("unproven, between {} and {}", after.name(), before.name())
        }
        (None, Some((None, before))) => format!("unproven, before {}", before.name()),
        (None, None) => "unproven".to_owned(),
    }
}

fn render_claims(out: &mut String, claims: &[Claim]) {
    if claims.is_empty() {
        return;
    }
    put!(out, "### Claims\n");
    for claim in claims {
        let answer = match &claim.answer {
            ClaimAnswer::SupportedBy { facts } => format!("supported{}", references(facts)),
            ClaimAnswer::ContradictedBy { facts, because } => {
                format!("contradicted: {}{}", line(because), references(facts))
            }
            ClaimAnswer::NothingShowsThis => "nothing that was collected shows this".to_owned(),
        };
        put!(
            out,
            "- {}: {} — {answer}",
            claim.topic,
            line(&claim.statement)
        );
    }
    out.push('\n');
}

fn render_timeline(out: &mut String, facts: &[Fact]) {
    put!(out, "\n### Timeline\n");
    put!(
        out,
        "| seq | time | attempt | probe | layer | source | line |"
    );
    put!(out, "|---|---|---|---|---|---|---|");
    for fact in facts {
        let text: String = fact.line.chars().take(240).collect();
        let probe = fact.probe.as_deref().unwrap_or("");
        put!(
            out,
            "| {} | {} | {} | {} | {} | {} | `{}` |",
            fact.seq,
            fact.time,
            fact.attempt,
            probe,
            fact.layer.name(),
            fact.source,
            code(&text)
        );
    }
}

fn references(facts: &[u64]) -> String {
    if facts.is_empty() {
        return String::new();
    }
    let numbers: Vec<_> = facts.iter().map(|seq| format!("#{seq}")).collect();
    format!(" [{}]", numbers.join(", "))
}

/// One line of text that cannot break a table or a list.
fn line(text: &str) -> String {
    text.replace(['\n', '\r'], " ").replace('|', "\\|")
}

/// The same inside backticks in a table.
fn code(text: &str) -> String {
    line(text).replace('`', "'")
}

/// One line inside backticks outside of tables: nothing is escaped there, so that a command can be copied.
fn listed(text: &str) -> String {
    text.replace(['\n', '\r'], " ").replace('`', "'")
}

/// A fence longer than any run of backticks inside.
fn fenced(text: &str, language: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for character in text.chars() {
        run = if character == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat((longest + 1).max(3));
    format!("{fence}{language}\n{}\n{fence}", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::{code, listed};

    #[test]
    fn a_command_in_a_list_can_be_copied_and_one_in_a_table_breaks_no_column() {
        let command = "kubectl logs p -c main | grep x";
        assert_eq!(listed(command), command);
        assert_eq!(code(command), "kubectl logs p -c main \\| grep x");
    }
}
