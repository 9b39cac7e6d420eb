//! `$(NAME)` in commands, arguments and values, as `k8s.io/third_party/forked/golang/expansion` replaces it.

/// Replaces references that `lookup` knows; `$$` stands for one `$`, and an unknown reference stays as it is.
pub(super) fn expand(text: &str, lookup: impl Fn(&str) -> Option<String>) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(position) = rest.find('$') {
        let (before, after) = rest.split_at(position);
        result.push_str(before);
        let after = after.get(1..).unwrap_or_default();
        rest = if let Some(tail) = after.strip_prefix('$') {
            result.push('$');
            tail
        } else if let Some((name, tail)) = reference(after) {
            match lookup(name) {
                Some(value) => result.push_str(&value),
                None => {
                    result.push_str("$(");
                    result.push_str(name);
                    result.push(')');
                }
            }
            tail
        } else {
            result.push('$');
            after
        };
    }
    result.push_str(rest);
    result
}

/// The name in `(NAME)…` and what follows it.
fn reference(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('(')?.split_once(')')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_replaced_once() {
        let lookup = |name: &str| match name {
            "A" => Some("1".to_owned()),
            "B" => Some("$(A)".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        for (text, expected) in [
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$(B)", "$(A)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$$$$(A)", "$$(A)"),
            ("$(NONE)-$(A)", "$(NONE)-1"),
            ("$(EMPTY)", ""),
            ("$A ${A} $", "$A ${A} $"),
            ("$(A", "$(A"),
            ("$()", "$()"),
            ("€$(A)€", "€1€"),
        ] {
            assert_eq!(expand(text, lookup), expected, "{text}");
        }
    }
}
