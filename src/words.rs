//! Words beside numbers.

use std::fmt::Display;

/// `1 line`, `2 lines`.
#[must_use]
pub fn counted(count: impl Display, what: &str) -> String {
    let count = count.to_string();
    let ending = if count == "1" { "" } else { "s" };
    format!("{count} {what}{ending}")
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_one() {
        for (count, said) in [
            (0_u64, "0 rows"),
            (1, "1 row"),
            (2, "2 rows"),
            (11, "11 rows"),
            (21, "21 rows"),
        ] {
            assert_eq!(counted(count, "row"), said);
        }
    }
}
