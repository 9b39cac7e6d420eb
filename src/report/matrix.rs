//! The verification matrix as text.

use crate::evidence::MatrixLine;
use crate::words::counted;

/// A table of fixed columns, one line a case.
#[must_use]
pub fn text(lines: &[MatrixLine]) -> String {
    let mut out = format!(
        "{:<34} {:>7} {:>8} {:>9} {:>6} {:>7} {:>7} {:>10} {:>4}  VERDICT",
        "CASE",
        "INTAKES",
        "APPROVED",
        "COMPLETED",
        "ORDERS",
        "EFFECTS",
        "RECORDS",
        "UNRESOLVED",
        "OPEN"
    );
    for line in lines {
        let records = line
            .records
            .map_or_else(|| "-".to_owned(), |records| records.to_string());
        let verdict = verdict(line);
        out.push_str(&format!(
            "\n{:<34} {:>7} {:>8} {:>9} {:>6} {:>7} {:>7} {:>10} {:>4}  {verdict}",
            line.title,
            line.intakes,
            line.approved,
            line.completed,
            line.orders,
            line.effects,
            records,
            line.unresolved,
            line.open
        ));
    }
    out
}

/// The same in sentences, the verdict first: for a screen that is too narrow, and for whoever listens.
pub fn sentences(lines: &[MatrixLine]) -> impl Iterator<Item = String> {
    lines.iter().map(|line| {
        let records = line
            .records
            .map(|records| format!(", {}", counted(records, "record")))
            .unwrap_or_default();
        format!(
            "{}: {}; {}, {} approved, {} completed, {}, {}{records}, {} unresolved in between, {} unresolved still",
            line.title,
            verdict(line),
            counted(line.intakes, "intake"),
            line.approved,
            line.completed,
            counted(line.orders, "order"),
            counted(line.effects, "effect"),
            line.unresolved,
            line.open
        )
    })
}

fn verdict(line: &MatrixLine) -> &'static str {
    if line.holds() {
        "holds"
    } else {
        "DOES NOT HOLD"
    }
}
