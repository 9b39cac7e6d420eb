//! JSON, base64 and checksums.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256, Sha512};

use super::{Answer, Function, new_text};
use crate::sensor::number::format_general;
use crate::sensor::template::json_text;
use crate::sensor::template::limits::{Failure, own, too_deep};
use crate::sensor::template::value::Value;

pub(super) const TABLE: &[Function] = &[
    Function("toJson", 1, Some(1), |_, a| {
        json(a.any(0), true, "").or_else(nothing)
    }),
    Function("mustToJson", 1, Some(1), |_, a| json(a.any(0), true, "")),
    Function("toRawJson", 1, Some(1), |_, a| json(a.any(0), false, "")),
    Function("mustToRawJson", 1, Some(1), |_, a| {
        json(a.any(0), false, "")
    }),
    Function("toPrettyJson", 1, Some(1), |_, a| {
        json(a.any(0), true, "  ").or_else(nothing)
    }),
    Function("mustToPrettyJson", 1, Some(1), |_, a| {
        json(a.any(0), true, "  ")
    }),
    Function("fromJson", 1, Some(1), |_, a| match read(a.text(0)?) {
        Ok((value, _)) => Ok(value),
        Err(Failure::Go(_)) => Ok(Value::Nil),
        Err(failure) => Err(failure),
    }),
    Function("mustFromJson", 1, Some(1), |_, a| match read(a.text(0)?)? {
        (_, Some(error)) => Err(error.into()),
        (value, None) => Ok(value),
    }),
    Function("b64enc", 1, Some(1), |_, a| {
        new_text(STANDARD.encode(a.text(0)?))
    }),
    Function("b64dec", 1, Some(1), |_, a| b64dec(a.text(0)?)),
    Function("b32enc", 1, Some(1), |_, a| {
        new_text(base32(a.text(0)?.as_bytes()))
    }),
    Function("b32dec", 1, Some(1), |_, a| match from_base32(a.text(0)?) {
        Ok(bytes) => decoded(bytes),
        Err(at) => new_text(format!("illegal base32 data at input byte {at}")),
    }),
    Function("sha1sum", 1, Some(1), |_, a| {
        let digest = ring::digest::digest(
            &ring::digest::SHA1_FOR_LEGACY_USE_ONLY,
            a.text(0)?.as_bytes(),
        );
        new_text(hexadecimal(digest.as_ref()))
    }),
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
    if let Some(number) = value.beyond_json() {
        return Err(format!("json: unsupported value: {}", format_general(number)).into());
    }
    let mut out = String::new();
    value.write_json(&mut out, escape_html, indent, 0);
    new_text(out)
}

/// What sprig makes of an error that it passes over.
fn nothing(failure: Failure) -> Answer {
    match failure {
        Failure::Go(_) => new_text(""),
        other => Err(other),
    }
}

/// Reads JSON text; with it the first error that Go's decoder finds and goes on after.
fn read(text: &str) -> Result<(Value, Option<String>), Failure> {
    let checked = json_text::check(text)?;
    let json = serde_json::from_str(&checked.text).map_err(|_| too_deep())?;
    Ok((Value::from_json(&json)?, checked.error))
}

/// What was decoded, if it is text: a template here holds no other bytes, where Go's does.
fn decoded(bytes: Vec<u8>) -> Answer {
    match String::from_utf8(bytes) {
        Ok(text) => new_text(text),
        Err(_) => Err(own(
            "decoding gives bytes that are not UTF-8, which a template here does not hold; decode them in the workflow",
        )),
    }
}

/// Decodes; a text that is not base64 gives the error's text, as sprig does.
fn b64dec(text: &str) -> Answer {
    // Go passes over line ends.
    let within: String = text.chars().filter(|c| !is_line_end(*c)).collect();
    match STANDARD.decode(&within) {
        Ok(bytes) => decoded(bytes),
        Err(_) => new_text(format!(
            "illegal base64 data at input byte {}",
            illegal_byte(text)
        )),
    }
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\r' | '\n')
}

/// Where Go's decoder stops: at what it does not take, line ends counted, or where the last group begins.
fn illegal_byte(text: &str) -> usize {
    let alphabet = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let mut bytes = text.bytes().enumerate();
    let mut bytes = std::iter::from_fn(|| bytes.find(|(_, byte)| !is_line_end(char::from(*byte))));
    let mut digits = 0;
    while let Some((at, byte)) = bytes.next() {
        match byte {
            byte if alphabet(byte) => digits += 1,
            b'=' if digits % 4 == 2 => {
                return match bytes.next() {
                    Some((_, b'=')) => bytes.next().map_or(at, |(at, _)| at),
                    Some((at, _)) => at,
                    None => text.len(),
                };
            }
            b'=' if digits % 4 == 3 => return bytes.next().map_or(at, |(at, _)| at),
            _ => return at,
        }
    }
    text.len() - digits % 4
}

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Encodes by RFC 4648, section 6.
fn base32(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(5) * 8);
    for group in bytes.chunks(5) {
        let mut word = [0; 8];
        word[3..3 + group.len()].copy_from_slice(group);
        let bits = u64::from_be_bytes(word);
        let used = (group.len() * 8).div_ceil(5);
        for place in 0..8 {
            let index = (bits >> (35 - 5 * place)) & 31;
            out.push(match place < used {
                true => BASE32[index as usize].into(),
                false => '=',
            });
        }
    }
    out
}

/// Decodes by RFC 4648, section 6; an error is the place where Go's decoder stops.
fn from_base32(text: &str) -> Result<Vec<u8>, usize> {
    let text: Vec<u8> = text
        .bytes()
        .filter(|c| !matches!(c, b'\r' | b'\n'))
        .collect();
    let mut out = Vec::with_capacity(text.len() * 5 / 8);
    for (group, part) in text.chunks(8).enumerate() {
        let digits = part.iter().position(|c| *c == b'=').unwrap_or(part.len());
        let start = group * 8;
        let mut bits = 0u64;
        for (place, c) in part[..digits].iter().enumerate() {
            let Some(value) = BASE32.iter().position(|digit| digit == c) else {
                return Err(start + place);
            };
            bits |= (value as u64) << (35 - 5 * place);
        }
        let padded = part.len() == 8 && part[digits..].iter().all(|c| *c == b'=');
        let is_last = start + part.len() == text.len();
        if part.len() < 8 {
            return Err(text.len());
        }
        if !padded || matches!(digits, 0 | 1 | 3 | 6) || (digits < 8 && !is_last) {
            return Err(start + digits);
        }
        out.extend_from_slice(&bits.to_be_bytes()[3..3 + digits * 5 / 8]);
    }
    Ok(out)
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
