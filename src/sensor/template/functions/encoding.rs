//! JSON, base64 and checksums.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256, Sha512};

use super::{Answer, Function, new_bytes, new_text};
use crate::sensor::template::value::Value;

pub(super) const TABLE: &[Function] = &[
    Function("toJson", 1, Some(1), |_, a| json(a.any(0), true, "")),
    Function("mustToJson", 1, Some(1), |_, a| json(a.any(0), true, "")),
    Function("toRawJson", 1, Some(1), |_, a| json(a.any(0), false, "")),
    Function("mustToRawJson", 1, Some(1), |_, a| {
        json(a.any(0), false, "")
    }),
    Function("toPrettyJson", 1, Some(1), |_, a| {
        json(a.any(0), true, "  ")
    }),
    Function("mustToPrettyJson", 1, Some(1), |_, a| {
        json(a.any(0), true, "  ")
    }),
    Function("fromJson", 1, Some(1), |_, a| {
        Ok(from_json(a.text(0)?).unwrap_or(Value::Nil))
    }),
    Function("mustFromJson", 1, Some(1), |_, a| from_json(a.text(0)?)),
    Function("b64enc", 1, Some(1), |_, a| {
        new_text(STANDARD.encode(a.text(0)?))
    }),
    Function("b64dec", 1, Some(1), |_, a| b64dec(a.text(0)?)),
    Function("sha256sum", 1, Some(1), |_, a| {
        new_text(hexadecimal(&Sha256::digest(a.text(0)?)))
    }),
    Function("sha512sum", 1, Some(1), |_, a| {
        new_text(hexadecimal(&Sha512::digest(a.text(0)?)))
    }),
    Function("adler32sum", 1, Some(1), |_, a| {
        new_text(adler32(a.text(0)?.as_bytes()).to_string())
    }),
];

fn json(value: &Value, escape_html: bool, indent: &str) -> Answer {
    let mut out = String::new();
    value.write_json(&mut out, escape_html, indent, 0);
    new_text(out)
}

fn from_json(text: &str) -> Answer {
    serde_json::from_str(text)
        .map(|json| Value::from_json(&json))
        .map_err(|error| error.to_string())
}

/// Decodes; a text that is not base64 gives the error's text, as sprig does.
fn b64dec(text: &str) -> Answer {
    // Go passes over line ends.
    let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    match STANDARD.decode(&text) {
        Ok(bytes) => new_bytes(&bytes),
        Err(_) => new_text(format!(
            "illegal base64 data at input byte {}",
            illegal_byte(&text)
        )),
    }
}

/// Where Go's decoder stops: at the first character outside the alphabet, else where the last group is short.
fn illegal_byte(text: &str) -> usize {
    let alphabet = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let outside = text.bytes().position(|byte| !alphabet(byte));
    match outside {
        Some(at) if text.as_bytes()[at] != b'=' => at,
        Some(at) if at % 4 < 2 => at,
        Some(at) => at + 1,
        None => text.len() - text.len() % 4,
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn adler32(bytes: &[u8]) -> u32 {
    let (a, b) = bytes.iter().fold((1u32, 0u32), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65_521;
        (a, (b + a) % 65_521)
    });
    b << 16 | a
}
