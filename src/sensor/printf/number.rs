//! Numbers under every verb that takes them.

use super::{Spec, ascii, pad, powers};
use crate::sensor::number::{format_general, is_printable, quote};

pub(super) fn print_int(out: &mut Vec<u8>, spec: &Spec, verb: char, value: i64) -> bool {
    let size = value.unsigned_abs();
    let (prefix, digits) = match verb {
        'd' | 'v' => ("", size.to_string()),
        'b' => ("0b", format!("{size:b}")),
        'o' | 'O' => ("", format!("{size:o}")),
        'x' => ("0x", format!("{size:x}")),
        'X' => ("0X", format!("{size:X}")),
        'c' => {
            pad(out, spec, rune(value).to_string().as_bytes());
            return true;
        }
        'q' => {
            let quoted = quoted_rune(rune(value));
            let quoted = if spec.plus { ascii(&quoted) } else { quoted };
            pad(out, spec, quoted.as_bytes());
            return true;
        }
        'U' => {
            pad(
                out,
                &Spec {
                    zero: false,
                    ..spec.clone()
                },
                code_point(spec, value).as_bytes(),
            );
            return true;
        }
        _ => return false,
    };
    let prefix = match verb {
        'O' => "0o",
        _ if spec.sharp => prefix,
        _ => "",
    };
    let digits = octal(spec, verb, value < 0, digits);
    let number = with_sign(spec, value < 0, prefix, &digits);
    pad(
        out,
        &Spec {
            zero: false,
            ..spec.clone()
        },
        number.as_bytes(),
    );
    true
}

/// Octal digits with the zero that `#` puts before them.
fn octal(spec: &Spec, verb: char, negative: bool, digits: String) -> String {
    let zeros = leading_zeros(spec, negative, &digits);
    if spec.sharp && matches!(verb, 'o' | 'O') && !digits.starts_with('0') && zeros == 0 {
        format!("0{digits}")
    } else {
        digits
    }
}

/// `U+0041`, with `#` the character as well.
fn code_point(spec: &Spec, value: i64) -> String {
    let least = spec.precision.unwrap_or(4).max(4);
    let digits = format!("{value:X}");
    let zeros = "0".repeat(least.saturating_sub(digits.len()));
    let mut text = format!("U+{zeros}{digits}");
    let shown = u32::try_from(value).ok().and_then(char::from_u32);
    if let Some(c) = shown.filter(|c| spec.sharp && is_printable(*c)) {
        text.push_str(&format!(" '{c}'"));
    }
    text
}

/// Puts sign, prefix and leading zeros before the digits, as precision or zero padding ask for.
fn with_sign(spec: &Spec, negative: bool, prefix: &str, digits: &str) -> String {
    if spec.precision == Some(0) && digits == "0" {
        return String::new();
    }
    let zeros = "0".repeat(leading_zeros(spec, negative, digits));
    format!("{}{prefix}{zeros}{digits}", sign(spec, negative))
}

fn sign(spec: &Spec, negative: bool) -> &'static str {
    match (negative, spec.plus, spec.space) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    }
}

fn leading_zeros(spec: &Spec, negative: bool, digits: &str) -> usize {
    let least = match (spec.precision, spec.width) {
        (Some(precision), _) => precision,
        (None, Some(width)) if spec.zero => width.saturating_sub(sign(spec, negative).len()),
        _ => 0,
    };
    least.saturating_sub(digits.len())
}

fn rune(value: i64) -> char {
    u32::try_from(value)
        .ok()
        .and_then(char::from_u32)
        .unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn quoted_rune(c: char) -> String {
    match c {
        '\'' => "'\\''".to_string(),
        '"' => "'\"'".to_string(),
        c => {
            let quoted = quote(c.to_string().as_bytes());
            format!("'{}'", quoted.trim_matches('"'))
        }
    }
}

pub(super) fn print_float(out: &mut Vec<u8>, spec: &Spec, verb: char, value: f64) -> bool {
    let size = value.abs();
    let digits = match (verb, spec.precision) {
        ('v' | 'g' | 'G', None) => format_general(size),
        ('v' | 'g' | 'G', Some(precision)) => general(size, precision.max(1)),
        ('e' | 'E', precision) => scientific(size, precision.unwrap_or(6)),
        ('f' | 'F', precision) => fixed(size, precision.unwrap_or(6)),
        ('b', _) => powers::binary(size),
        ('x' | 'X', precision) => powers::hexadecimal(size, precision),
        _ => return false,
    };
    let digits = if matches!(verb, 'E' | 'G' | 'X') {
        digits.to_uppercase()
    } else {
        digits
    };
    let digits = if spec.sharp && verb != 'b' {
        pointed(&digits, verb, spec.precision)
    } else {
        digits
    };
    if !value.is_finite() {
        not_finite(out, spec, value);
        return true;
    }
    let number = Spec {
        precision: None,
        ..spec.clone()
    };
    let signed = with_sign(&number, value.is_sign_negative(), "", &digits);
    pad(
        out,
        &Spec {
            zero: false,
            ..number
        },
        signed.as_bytes(),
    );
    true
}

/// What `#` asks for: a decimal point always, and the zeros that `g` leaves out.
fn pointed(digits: &str, verb: char, precision: Option<usize>) -> String {
    let hexadecimal = matches!(verb, 'x' | 'X');
    let exponent = digits.find(|c: char| match c {
        'p' | 'P' => true,
        'e' | 'E' => !hexadecimal,
        _ => false,
    });
    let (mantissa, tail) = digits.split_at(exponent.unwrap_or(digits.len()));
    let wanted = match verb {
        'v' | 'g' | 'G' | 'x' => precision.unwrap_or(6),
        _ => 0,
    };
    let shown = mantissa.chars().filter(|c| *c != '.');
    let mut significant = shown.skip_while(|c| *c == '0').count();
    let mut out = mantissa.to_owned();
    if !mantissa.contains('.') {
        // A zero alone is a digit, too.
        significant += usize::from(mantissa == "0");
        out.push('.');
    }
    out.push_str(&"0".repeat(wanted.saturating_sub(significant)));
    out + tail
}

fn not_finite(out: &mut Vec<u8>, spec: &Spec, value: f64) {
    let text = match value {
        _ if value.is_nan() && spec.plus => "+NaN",
        _ if value.is_nan() && spec.space => " NaN",
        _ if value.is_nan() => "NaN",
        f64::NEG_INFINITY => "-Inf",
        _ if spec.space && !spec.plus => " Inf",
        _ => "+Inf",
    };
    pad(
        out,
        &Spec {
            zero: false,
            ..spec.clone()
        },
        text.as_bytes(),
    );
}

/// Decimals after which every number has nothing but zeros; the formatting of numbers takes no more than 65,535.
const EXACT: usize = 1100;

fn fixed(value: f64, decimals: usize) -> String {
    let exact = decimals.min(EXACT);
    format!("{value:.exact$}") + &more_zeros(value, decimals)
}

/// Those beyond the exact ones.
fn more_zeros(value: f64, decimals: usize) -> String {
    if value.is_finite() {
        "0".repeat(decimals.saturating_sub(EXACT))
    } else {
        String::new()
    }
}

fn scientific(value: f64, precision: usize) -> String {
    let exact = precision.min(EXACT);
    let text = format!("{value:.exact$e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let mantissa = mantissa.to_owned() + &more_zeros(value, precision);
            let (sign, digits) = match exponent.strip_prefix('-') {
                Some(digits) => ('-', digits),
                None => ('+', exponent),
            };
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        None => text,
    }
}

/// The shorter of both notations with that many significant digits, zeros at the end left out.
fn general(value: f64, precision: usize) -> String {
    let text = scientific(value, precision - 1);
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text;
    };
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let trim = |number: &str| match number.contains('.') {
        true => number
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_string(),
        false => number.to_string(),
    };
    let mantissa = trim(mantissa);
    let digits = mantissa.len() - usize::from(mantissa.contains('.'));
    let point = exponent + 1;
    let precision = i64::try_from(precision).unwrap_or(i64::MAX);
    let digits = i64::try_from(digits).unwrap_or(i64::MAX);
    let limit = if precision > digits && digits >= point {
        digits
    } else {
        precision
    };
    if exponent < -4 || exponent >= limit {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let decimals = usize::try_from(precision - point).unwrap_or(0).min(EXACT);
    trim(&format!("{value:.decimals$}"))
}
