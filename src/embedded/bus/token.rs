//! The reply subject of a delivery, in both of the forms that servers write.

/// What a delivery's reply subject says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// How often the message was handed out, from 1.
    pub delivered: u64,
    pub stream_sequence: u64,
    /// How often the consumer has handed out anything, this time included.
    pub consumer_sequence: u64,
    /// When the message was stored, in nanoseconds since the epoch.
    pub stored: i128,
}

impl Token {
    /// Reads `$JS.ACK.STREAM.CONSUMER.…`, or the longer form that names domain and account first.
    pub(super) fn parse(text: &str) -> Option<Token> {
        let parts: Vec<&str> = text.strip_prefix("$JS.ACK.")?.split('.').collect();
        let numbers = match parts.len() {
            7 => parts.get(2..7)?,
            9.. => parts.get(4..9)?,
            _ => return None,
        };
        let [delivered, stream, consumer, stored, _left] = numbers else {
            return None;
        };
        Some(Token {
            delivered: delivered.parse().ok()?,
            stream_sequence: stream.parse().ok()?,
            consumer_sequence: consumer.parse().ok()?,
            stored: stored.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_nothing_else() {
        let wanted = Token {
            delivered: 1,
            stream_sequence: 7,
            consumer_sequence: 3,
            stored: 1700,
        };
        let short = "$JS.ACK.default.group-1.1.7.3.1700.0";
        let long = "$JS.ACK._.hash.default.group-1.1.7.3.1700.0.random";
        for text in [short, long] {
            assert_eq!(Token::parse(text), Some(wanted), "{text}");
        }
        for odd in [
            "",
            "$JS.ACK.",
            "$JS.ACK.a.b.c",
            "$JS.ACK.a.b.x.7.3.1.0",
            "_INBOX.a",
        ] {
            assert_eq!(Token::parse(odd), None, "{odd}");
        }
    }
}
