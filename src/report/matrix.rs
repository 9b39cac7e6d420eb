//! The verification matrix as text.

use crate::evidence::MatrixLine;

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
        let verdict = if line.holds() {
            "holds"
        } else {
            "DOES NOT HOLD"
        };
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
