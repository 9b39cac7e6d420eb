//! Numbers and booleans as Go's `strconv`, `fmt` and `encoding/json` read and write them.
//!
//! From above: [`parse_float`], [`parse_bool`], [`format_plain`], [`format_general`], [`format_json`] and [`quote`].
//! Rust's own parser refuses hexadecimal floats and underscores and turns an overflow into infinity without an error,
//! and its formatter breaks ties of the last digit differently.

use std::fmt::Write as _;

/// Why a text is not a number or a boolean, with Go's text.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("strconv.{function}: parsing {}: {kind}", quote(.text))]
pub struct ScalarError {
    function: &'static str,
    text: Vec<u8>,
    kind: ScalarErrorKind,
}

impl ScalarError {
    /// What exactly is wrong.
    #[must_use]
    pub fn kind(&self) -> ScalarErrorKind {
        self.kind
    }
}

/// The two ways in which a scalar can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum ScalarErrorKind {
    /// The text is not of the grammar.
    #[error("invalid syntax")]
    Syntax,
    /// The number is too large; the value is the infinity that Go returns beside the error.
    #[error("value out of range")]
    Range(f64),
}

/// Reads a number as `strconv.ParseFloat(text, 64)` does.
///
/// # Errors
/// [`ScalarErrorKind::Syntax`] for any other text, [`ScalarErrorKind::Range`] for an overflow.
pub fn parse_float(text: &[u8]) -> Result<f64, ScalarError> {
    read_float(text).map_err(|kind| ScalarError {
        function: "ParseFloat",
        text: text.to_vec(),
        kind,
    })
}

/// Reads a number where Go code ignores the error: 0 for a syntax error, an infinity for an overflow.
#[must_use]
pub fn parse_float_or_zero(text: &[u8]) -> f64 {
    match read_float(text) {
        Ok(value) | Err(ScalarErrorKind::Range(value)) => value,
        Err(ScalarErrorKind::Syntax) => 0.0,
    }
}

/// Reads a boolean as `strconv.ParseBool` does: `1 t T true TRUE True` and `0 f F false FALSE False`.
///
/// # Errors
/// [`ScalarErrorKind::Syntax`] for any other text.
pub fn parse_bool(text: &[u8]) -> Result<bool, ScalarError> {
    match text {
        b"1" | b"t" | b"T" | b"true" | b"TRUE" | b"True" => Ok(true),
        b"0" | b"f" | b"F" | b"false" | b"FALSE" | b"False" => Ok(false),
        _ => Err(ScalarError {
            function: "ParseBool",
            text: text.to_vec(),
            kind: ScalarErrorKind::Syntax,
        }),
    }
}

/// A whole number of so few digits that floating point holds it exactly, which is what most texts are.
fn short_integer(text: &[u8]) -> Option<f64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 15 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let whole = digits
        .iter()
        .fold(0u64, |whole, digit| whole * 10 + u64::from(digit - b'0'));
    let whole = whole as f64;
    Some(if negative { -whole } else { whole })
}

fn read_float(text: &[u8]) -> Result<f64, ScalarErrorKind> {
    if let Some(whole) = short_integer(text) {
        return Ok(whole);
    }
    let (negative, body) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if let Some(special) = special_float(body, body.len() != text.len()) {
        return special.map(|value| if negative { -value } else { value });
    }
    let hex = matches!(body, [b'0', b'x' | b'X', ..]);
    let parts = FloatParts::split(if hex { &body[2..] } else { body }, hex)?;
    if parts.underscores && !underscores_are_between_digits(text) {
        return Err(ScalarErrorKind::Syntax);
    }
    let value = if hex {
        hex_value(parts.mantissa, parts.exponent)
    } else {
        decimal_value(&parts)?
    };
    let signed = if negative { -value } else { value };
    if value.is_infinite() {
        Err(ScalarErrorKind::Range(signed))
    } else {
        Ok(signed)
    }
}

/// `inf`, `infinity` and `nan` in any case; `nan` takes no sign.
fn special_float(body: &[u8], signed: bool) -> Option<Result<f64, ScalarErrorKind>> {
    if body.eq_ignore_ascii_case(b"inf") || body.eq_ignore_ascii_case(b"infinity") {
        Some(Ok(f64::INFINITY))
    } else if body.eq_ignore_ascii_case(b"nan") {
        Some(if signed {
            Err(ScalarErrorKind::Syntax)
        } else {
            Ok(f64::NAN)
        })
    } else {
        None
    }
}

struct FloatParts<'a> {
    mantissa: &'a [u8],
    exponent: &'a [u8],
    whole: &'a [u8],
    underscores: bool,
}

impl<'a> FloatParts<'a> {
    fn split(text: &'a [u8], hex: bool) -> Result<Self, ScalarErrorKind> {
        let (mut digits, mut dot, mut end) = (0usize, false, 0);
        for &byte in text {
            match byte {
                b'_' => {}
                b'.' if dot => return Err(ScalarErrorKind::Syntax),
                b'.' => dot = true,
                _ if is_digit(byte, hex) => digits += 1,
                _ => break,
            }
            end += 1;
        }
        let (mantissa, rest) = text.split_at(end);
        let exponent = match rest {
            [] if !hex => rest,
            [b'e' | b'E', tail @ ..] if !hex => exponent_digits(tail)?,
            [b'p' | b'P', tail @ ..] if hex => exponent_digits(tail)?,
            _ => return Err(ScalarErrorKind::Syntax),
        };
        if digits == 0 {
            return Err(ScalarErrorKind::Syntax);
        }
        Ok(Self {
            mantissa,
            exponent,
            whole: text,
            underscores: text.contains(&b'_'),
        })
    }
}

fn is_digit(byte: u8, hex: bool) -> bool {
    if hex {
        byte.is_ascii_hexdigit()
    } else {
        byte.is_ascii_digit()
    }
}

fn exponent_digits(tail: &[u8]) -> Result<&[u8], ScalarErrorKind> {
    let digits = tail
        .strip_prefix(b"+")
        .or_else(|| tail.strip_prefix(b"-"))
        .unwrap_or(tail);
    let rest_is_digits = digits
        .iter()
        .all(|byte| byte.is_ascii_digit() || *byte == b'_');
    if digits.first().is_some_and(u8::is_ascii_digit) && rest_is_digits {
        Ok(tail)
    } else {
        Err(ScalarErrorKind::Syntax)
    }
}

/// Go allows `_` only between digits, where a base prefix counts as a digit.
fn underscores_are_between_digits(text: &[u8]) -> bool {
    let unsigned = text
        .strip_prefix(b"-")
        .or_else(|| text.strip_prefix(b"+"))
        .unwrap_or(text);
    let prefixed = matches!(
        unsigned,
        [b'0', b'b' | b'B' | b'o' | b'O' | b'x' | b'X', ..]
    );
    let hex = prefixed && unsigned[1].eq_ignore_ascii_case(&b'x');
    let mut last = if prefixed { b'0' } else { b'^' };
    for &byte in &unsigned[if prefixed { 2 } else { 0 }..] {
        last = match byte {
            _ if is_digit(byte, hex) => b'0',
            b'_' if last == b'0' => b'_',
            b'_' => return false,
            _ if last == b'_' => return false,
            _ => b'!',
        };
    }
    last != b'_'
}

fn decimal_value(parts: &FloatParts<'_>) -> Result<f64, ScalarErrorKind> {
    let parse = |text: &[u8]| {
        std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.parse::<f64>().ok())
    };
    let value = if parts.underscores {
        let plain: Vec<u8> = parts
            .whole
            .iter()
            .copied()
            .filter(|byte| *byte != b'_')
            .collect();
        parse(&plain)
    } else {
        parse(parts.whole)
    };
    value.ok_or(ScalarErrorKind::Syntax)
}

/// The value of hexadecimal mantissa digits (one dot allowed) times two to the exponent, rounded half to even.
fn hex_value(mantissa: &[u8], exponent: &[u8]) -> f64 {
    let (mut bits, mut scale, mut sticky, mut after_dot) = (0u128, 0i64, false, false);
    for &byte in mantissa {
        match (byte as char).to_digit(16) {
            None => after_dot |= byte == b'.',
            Some(digit) if bits < 1 << 120 => {
                bits = bits * 16 + u128::from(digit);
                scale -= if after_dot { 4 } else { 0 };
            }
            Some(digit) => {
                sticky |= digit != 0;
                scale += if after_dot { 0 } else { 4 };
            }
        }
    }
    scale_bits(bits, scale.saturating_add(exponent_value(exponent)), sticky)
}

fn exponent_value(text: &[u8]) -> i64 {
    const ENOUGH: i64 = 1_000_000_000_000;
    let size = text
        .iter()
        .filter(|byte| byte.is_ascii_digit())
        .fold(0i64, |value, byte| {
            (value * 10 + i64::from(byte - b'0')).min(ENOUGH)
        });
    if text.first() == Some(&b'-') {
        -size
    } else {
        size
    }
}

fn scale_bits(bits: u128, scale: i64, sticky: bool) -> f64 {
    if bits == 0 {
        return 0.0;
    }
    let width = 128 - i64::from(bits.leading_zeros());
    let mut exponent = scale.saturating_add(width - 1);
    if exponent > 1023 {
        return f64::INFINITY;
    }
    let keep = if exponent >= -1022 {
        53
    } else {
        53 - (-1022 - exponent)
    };
    if keep < 0 {
        return 0.0;
    }
    let mut rounded = round_to_even(bits, width - keep, sticky);
    if exponent < -1022 {
        return f64::from_bits(rounded);
    }
    if rounded >> 53 != 0 {
        rounded >>= 1;
        exponent += 1;
        if exponent > 1023 {
            return f64::INFINITY;
        }
    }
    let biased = u64::try_from(exponent + 1023).unwrap_or(0);
    f64::from_bits((biased << 52) | (rounded & ((1 << 52) - 1)))
}

fn round_to_even(bits: u128, drop: i64, sticky: bool) -> u64 {
    let Ok(drop) = u32::try_from(drop) else {
        return u64::try_from(bits << drop.unsigned_abs().min(127)).unwrap_or(0);
    };
    if drop == 0 {
        return u64::try_from(bits).unwrap_or(0);
    }
    let kept = bits.checked_shr(drop).unwrap_or(0);
    let rest = if drop >= 128 {
        bits
    } else {
        bits & ((1 << drop) - 1)
    };
    let half = 1u128 << (drop - 1).min(127);
    let up = rest > half || (rest == half && (sticky || kept & 1 == 1));
    u64::try_from(kept).unwrap_or(0) + u64::from(up)
}

/// Shortest digits without leading or trailing zeros, and the decimal exponent of the first digit.
fn shortest_digits(value: f64) -> (String, i32) {
    let value = value.abs();
    if value == 0.0 {
        return ("0".to_owned(), 0);
    }
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let leading = all.len() - all.trim_start_matches('0').len();
    let point = i32::try_from(whole.len()).unwrap_or(0) - 1 - i32::try_from(leading).unwrap_or(0);
    (
        all.trim_matches('0').to_owned(),
        exponent.parse::<i32>().unwrap_or(0) + point,
    )
}

fn not_finite(value: f64) -> Option<&'static str> {
    match value {
        _ if value.is_nan() => Some("NaN"),
        f64::INFINITY => Some("+Inf"),
        f64::NEG_INFINITY => Some("-Inf"),
        _ => None,
    }
}

/// Writes a number as `strconv.FormatFloat(value, 'f', -1, 64)` does: never with an exponent.
#[must_use]
pub fn format_plain(value: f64) -> String {
    if let Some(text) = not_finite(value) {
        return text.to_owned();
    }
    let (digits, exponent) = shortest_digits(value);
    positional(value.is_sign_negative(), &digits, exponent)
}

/// Writes a number as `fmt`'s `%v` does: with an exponent below 1e-4 and from 1e6 on.
#[must_use]
pub fn format_general(value: f64) -> String {
    if let Some(text) = not_finite(value) {
        return text.to_owned();
    }
    let (digits, exponent) = shortest_digits(value);
    if (-4..6).contains(&exponent) {
        positional(value.is_sign_negative(), &digits, exponent)
    } else {
        scientific(value.is_sign_negative(), &digits, exponent, 2)
    }
}

/// Writes a number as `encoding/json` does: with an exponent below 1e-6 and from 1e21 on.
///
/// JSON has no text for infinities and not-a-number; they are written as `%v` writes them.
#[must_use]
pub fn format_json(value: f64) -> String {
    let size = value.abs();
    if value.is_finite() && size != 0.0 && !(1e-6..1e21).contains(&size) {
        let (digits, exponent) = shortest_digits(value);
        let width = if (-9..0).contains(&exponent) { 1 } else { 2 };
        scientific(value.is_sign_negative(), &digits, exponent, width)
    } else {
        format_plain(value)
    }
}

fn positional(negative: bool, digits: &str, exponent: i32) -> String {
    let sign = if negative { "-" } else { "" };
    let Ok(before_point) = usize::try_from(exponent + 1) else {
        let zeros = usize::try_from(-exponent - 1).unwrap_or(0);
        return format!("{sign}0.{}{digits}", "0".repeat(zeros));
    };
    if before_point == 0 {
        format!("{sign}0.{digits}")
    } else if before_point >= digits.len() {
        format!("{sign}{digits}{}", "0".repeat(before_point - digits.len()))
    } else {
        format!(
            "{sign}{}.{}",
            &digits[..before_point],
            &digits[before_point..]
        )
    }
}

fn scientific(negative: bool, digits: &str, exponent: i32, width: usize) -> String {
    let sign = if negative { "-" } else { "" };
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!(
        "{sign}{first}{point}{rest}e{exponent_sign}{:0width$}",
        exponent.abs()
    )
}

/// Quotes a text as `strconv.Quote` does.
#[must_use]
pub fn quote(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            quote_char(&mut out, character);
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.push('"');
    out
}

fn quote_char(out: &mut String, character: char) {
    let short = match character {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\x07' => "\\a",
        '\x08' => "\\b",
        '\x0c' => "\\f",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\x0b' => "\\v",
        _ => "",
    };
    let code = u32::from(character);
    if !short.is_empty() {
        out.push_str(short);
    } else if is_printable(character) {
        out.push(character);
    } else if code < 0x80 {
        let _ = write!(out, "\\x{code:02x}");
    } else if code < 0x1_0000 {
        let _ = write!(out, "\\u{code:04x}");
    } else {
        let _ = write!(out, "\\U{code:08x}");
    }
}

/// Go prints letters, marks, numbers, punctuation, symbols and the ASCII space; the rest is escaped.
#[must_use]
pub(crate) fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return (' '..='~').contains(&character);
    }
    // Alone, a mark would be escaped; it is printable behind a letter.
    let mut buffer = [b'a'; 5];
    let length = character.encode_utf8(&mut buffer[1..]).len();
    std::str::from_utf8(&buffer[..=length]).is_ok_and(|text| text.escape_debug().count() == 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_only_go_reads() {
        for (text, want) in [
            ("0x1p-2", 0.25),
            ("1_000", 1000.0),
            ("0x_1p1", 2.0),
            ("iNf", f64::INFINITY),
            ("-.5e1", -5.0),
        ] {
            assert_eq!(parse_float(text.as_bytes()), Ok(want), "{text}");
        }
    }

    #[test]
    fn refuses_with_the_texts_of_go() {
        let error = |text: &str| parse_float(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(
            error("150 EUR"),
            "strconv.ParseFloat: parsing \"150 EUR\": invalid syntax"
        );
        assert_eq!(
            error("1e400"),
            "strconv.ParseFloat: parsing \"1e400\": value out of range"
        );
        assert_eq!(
            parse_bool(b"yes").unwrap_err().to_string(),
            "strconv.ParseBool: parsing \"yes\": invalid syntax"
        );
        assert!(parse_float(b"1e99999999999999999999999").is_err());
        assert_eq!(parse_float(b"0e99999999999999999999999"), Ok(0.0));
    }

    #[test]
    fn an_ignored_error_leaves_zero_or_infinity() {
        assert_eq!(parse_float_or_zero(b"1,500"), 0.0);
        assert_eq!(parse_float_or_zero(b"-1e400"), f64::NEG_INFINITY);
    }

    #[test]
    fn quotes_like_go() {
        assert_eq!(
            quote("a\"b\\\n\u{1}é\u{a0}".as_bytes()),
            "\"a\\\"b\\\\\\n\\x01é\\u00a0\""
        );
        assert_eq!(quote(b"\xff"), "\"\\xff\"");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_panic(text: Vec<u8>) {
            let _ = parse_float(&text);
            let _ = quote(&text);
        }

        #[test]
        fn plain_text_reads_back(value in proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL) {
            for text in [format_plain(value), format_general(value), format_json(value)] {
                proptest::prop_assert_eq!(parse_float(text.as_bytes()), Ok(value));
            }
        }
    }
}
