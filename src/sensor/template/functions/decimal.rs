//! Decimal numbers as sprig's `addf` and its like compute with them: shortest digits in, 16 places in a division.

use num_bigint::{BigInt, Sign};

/// Places behind the point in a division.
const DIVISION_PLACES: i32 = 16;

/// A number: whole digits times a power of ten.
#[derive(Debug, Clone)]
pub(super) struct Decimal {
    digits: BigInt,
    exponent: i32,
}

impl Decimal {
    /// Reads a float by its shortest digits; infinities and NaN have none.
    pub fn from_float(value: f64) -> Option<Self> {
        if !value.is_finite() {
            return None;
        }
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e')?;
        let places = mantissa.split_once('.').map_or(0, |(_, after)| after.len());
        let exponent: i32 = exponent.parse().ok()?;
        Some(Self {
            digits: mantissa.replace('.', "").parse().ok()?,
            exponent: exponent - i32::try_from(places).ok()?,
        })
    }

    /// The nearest float.
    pub fn to_float(&self) -> f64 {
        format!("{}e{}", self.digits, self.exponent)
            .parse()
            .unwrap_or(f64::NAN)
    }

    pub fn add(&self, other: &Self) -> Self {
        let exponent = self.exponent.min(other.exponent);
        Self {
            digits: self.scaled(exponent) + other.scaled(exponent),
            exponent,
        }
    }

    pub fn sub(&self, other: &Self) -> Self {
        let exponent = self.exponent.min(other.exponent);
        Self {
            digits: self.scaled(exponent) - other.scaled(exponent),
            exponent,
        }
    }

    pub fn mul(&self, other: &Self) -> Self {
        Self {
            digits: &self.digits * &other.digits,
            exponent: self.exponent + other.exponent,
        }
    }

    /// Divides, rounding half away from zero; `None` by zero.
    pub fn div(&self, other: &Self) -> Option<Self> {
        if other.digits.sign() == Sign::NoSign {
            return None;
        }
        let shift = self.exponent - other.exponent + DIVISION_PLACES;
        let (mut over, mut under) = (self.digits.clone(), other.digits.clone());
        if shift >= 0 {
            over *= power(shift);
        } else {
            under *= power(-shift);
        }
        let (quotient, rest) = (&over / &under, &over % &under);
        let twice = BigInt::from(rest.magnitude().clone()) * 2;
        let digits = if twice < BigInt::from(under.magnitude().clone()) {
            quotient
        } else if (over.sign() == Sign::Minus) == (under.sign() == Sign::Minus) {
            quotient + 1
        } else {
            quotient - 1
        };
        Some(Self {
            digits,
            exponent: -DIVISION_PLACES,
        })
    }

    fn scaled(&self, exponent: i32) -> BigInt {
        &self.digits * power(self.exponent - exponent)
    }
}

fn power(exponent: i32) -> BigInt {
    BigInt::from(10).pow(exponent.unsigned_abs())
}
