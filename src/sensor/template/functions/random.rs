//! What differs every time it is asked for.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Answer, Arguments, Context, Function, new_text};
use crate::sensor::template::limits::{Failure, MAX_TEXT, TooLarge};
use crate::sensor::template::value::Value;

pub(super) const TABLE: &[Function] = &[
    Function("uuidv4", 0, Some(0), |_, _| {
        new_text(uuid::Uuid::new_v4().to_string())
    }),
    Function("randAlphaNum", 1, Some(1), |context, a| {
        text(context, a, |c| c.is_ascii_alphanumeric())
    }),
    Function("randAlpha", 1, Some(1), |context, a| {
        text(context, a, |c| c.is_ascii_alphabetic())
    }),
    Function("randAscii", 1, Some(1), |context, a| {
        text(context, a, |c| (b' '..=b'~').contains(c))
    }),
    Function("randNumeric", 1, Some(1), |context, a| {
        text(context, a, |c| c.is_ascii_digit())
    }),
    Function("randBytes", 1, Some(1), |context, a| {
        let count = count(context, a)?;
        new_text(STANDARD.encode(bytes().take(count).collect::<Vec<_>>()))
    }),
    Function("randInt", 2, Some(2), |_, a| {
        let (least, most) = (a.int(0)?, a.int(1)?);
        match most.checked_sub(least).and_then(|n| u64::try_from(n).ok()) {
            Some(size) if size > 0 => Ok(Value::Int(least.wrapping_add((word() % size) as i64))),
            _ => Err("invalid argument to Intn".into()),
        }
    }),
    Function("shuffle", 1, Some(1), |context, a| {
        let mut letters: Vec<char> = a.text(0)?.chars().collect();
        context.steps.take(letters.len())?;
        for place in (1..letters.len()).rev() {
            letters.swap(place, (word() % (place as u64 + 1)) as usize);
        }
        new_text(letters.into_iter().collect::<String>())
    }),
];

fn bytes() -> impl Iterator<Item = u8> {
    std::iter::repeat_with(|| uuid::Uuid::new_v4().into_bytes())
        // The bytes that say which version it is are no chance.
        .flat_map(|bytes| bytes.into_iter().take(6))
}

fn word() -> u64 {
    bytes()
        .take(8)
        .fold(0, |word, byte| word << 8 | u64::from(byte))
}

fn count(context: &mut Context, a: &Arguments<'_>) -> Result<usize, Failure> {
    let count = usize::try_from(a.int(0)?).unwrap_or(0);
    if count > MAX_TEXT {
        return Err(TooLarge.into());
    }
    context.steps.take(count)?;
    Ok(count)
}

fn text(context: &mut Context, a: &Arguments<'_>, may: fn(&u8) -> bool) -> Answer {
    let count = count(context, a)?;
    let text: Vec<u8> = bytes().map(|c| c & 0x7f).filter(may).take(count).collect();
    new_text(String::from_utf8_lossy(&text))
}
