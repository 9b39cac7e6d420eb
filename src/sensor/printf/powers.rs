//! Floating point numbers with an exponent of two, as `%b` and `%x` write them.

/// Bits of the mantissa after its first one.
const MANTISSA: u32 = 52;
const BIAS: i64 = 1023;

/// Mantissa with the first bit, and the exponent of two of that bit.
fn parts(value: f64) -> (u64, i64) {
    let bits = value.to_bits();
    let fraction = bits & ((1 << MANTISSA) - 1);
    // Eleven bits: they fit.
    let exponent = i64::try_from((bits >> MANTISSA) & 0x7ff).unwrap_or_default();
    if exponent == 0 {
        (fraction, 1 - BIAS)
    } else {
        (fraction | (1 << MANTISSA), exponent - BIAS)
    }
}

fn signed(exponent: i64) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{:02}", exponent.abs())
}

/// The mantissa as a whole number, such as `4503599627370496p-52`.
pub(super) fn binary(value: f64) -> String {
    let (mantissa, exponent) = parts(value);
    let exponent = exponent - i64::from(MANTISSA);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}p{sign}{}", exponent.abs())
}

/// The mantissa in hexadecimal digits, such as `0x1.8p+01`; all that are needed where no precision is given.
pub(super) fn hexadecimal(value: f64, precision: Option<usize>) -> String {
    const FIRST: u32 = 60;
    let (mut mantissa, mut exponent) = parts(value);
    if mantissa == 0 {
        exponent = 0;
    }
    mantissa <<= FIRST - MANTISSA;
    while mantissa != 0 && mantissa & (1 << FIRST) == 0 {
        mantissa <<= 1;
        exponent -= 1;
    }
    if let Some(digits) = precision.filter(|digits| *digits < 15) {
        (mantissa, exponent) = rounded(mantissa, exponent, digits);
    }
    let first = (mantissa >> FIRST) & 1;
    let fraction = format!("{:015x}", mantissa & ((1 << FIRST) - 1));
    let fraction = match precision {
        None => fraction.trim_end_matches('0').to_owned(),
        Some(digits) if digits <= fraction.len() => fraction[..digits].to_owned(),
        Some(digits) => {
            let zeros = digits.saturating_sub(fraction.len());
            fraction + &"0".repeat(zeros)
        }
    };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("0x{first}{point}{fraction}p{}", signed(exponent))
}

/// Rounds to so many hexadecimal digits, to even where both are as near.
fn rounded(mut mantissa: u64, mut exponent: i64, digits: usize) -> (u64, i64) {
    const FIRST: usize = 60;
    let shift = digits * 4;
    let extra = (mantissa << shift) & ((1 << FIRST) - 1);
    mantissa >>= FIRST - shift;
    if (extra | (mantissa & 1)) > 1 << (FIRST - 1) {
        mantissa += 1;
    }
    mantissa <<= FIRST - shift;
    if mantissa & (1 << (FIRST + 1)) != 0 {
        mantissa >>= 1;
        exponent += 1;
    }
    (mantissa, exponent)
}
