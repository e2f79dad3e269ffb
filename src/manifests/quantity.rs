//! Resource quantities: `100m`, `128Mi`, `1e3`.

use std::cmp::Ordering;
use std::fmt;

/// An amount, exact to a billionth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Quantity {
    nanos: i128,
}

const NANOS: i128 = 1_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;
/// The largest amount that the kubelet's arithmetic keeps.
const LARGEST: i128 = 9_223_372_036_854_775_807 * NANOS;

/// The text is no quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAQuantity {
    /// It has the wrong shape.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Shape,
    /// It ends in an unknown suffix.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self { nanos: 0 };

    /// Reads a quantity as the kubelet does, including the odd forms it lets pass, like `1.` and `.5`.
    pub fn parse(text: &str) -> Result<Self, NotAQuantity> {
        if text.is_empty() {
            return Err(NotAQuantity::Shape);
        }
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (whole, rest) = split_digits(unsigned);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        let scale = scale(suffix)?;
        let magnitude = scale.apply(whole, fraction).min(LARGEST);
        Ok(Self { nanos: if negative { -magnitude } else { magnitude } })
    }

    /// The amount in thousandths, rounded away from zero: how the kubelet keeps requests and limits.
    #[must_use]
    pub fn rounded_to_milli(self) -> Self {
        let rest = self.nanos.rem_euclid(NANOS_PER_MILLI);
        if rest == 0 {
            return self;
        }
        let floor = self.nanos - rest;
        Self { nanos: if self.nanos < 0 { floor } else { floor + NANOS_PER_MILLI } }
    }

    /// Below zero.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Exactly zero.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// A whole number.
    pub fn is_whole(self) -> bool {
        self.nanos % NANOS == 0
    }

    /// A whole multiple of `unit`. Nothing is a multiple of zero.
    pub fn is_multiple_of(self, unit: Self) -> bool {
        unit.nanos != 0 && self.nanos % unit.nanos == 0
    }

    /// Compares with a whole number.
    pub fn cmp_whole(self, number: i64) -> Ordering {
        self.nanos.cmp(&(i128::from(number) * NANOS))
    }

    /// The sum, as large as the arithmetic allows.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos) }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos % NANOS == 0 {
            write!(f, "{}", self.nanos / NANOS)
        } else if self.nanos % NANOS_PER_MILLI == 0 {
            write!(f, "{}m", self.nanos / NANOS_PER_MILLI)
        } else {
            write!(f, "{}n", self.nanos)
        }
    }
}

/// What a suffix multiplies with: a power of two or of ten.
enum Scale {
    Two(u32),
    Ten(i64),
}

impl Scale {
    fn apply(&self, whole: &str, fraction: &str) -> i128 {
        match *self {
            Self::Ten(power) => decimal(whole, fraction, power.saturating_add(9)),
            Self::Two(power) => {
                // Twelve more digits than a billionth keep the rounding up honest after the multiplication.
                let fine = decimal(whole, fraction, 9 + 6);
                let scaled = fine.saturating_mul(1_i128 << power);
                scaled / 1_000_000 + i128::from(scaled % 1_000_000 != 0)
            }
        }
    }
}

/// `whole.fraction` times ten to the `power`, rounded up; as large as the arithmetic allows.
fn decimal(whole: &str, fraction: &str, power: i64) -> i128 {
    let digits = || whole.bytes().chain(fraction.bytes()).map(|digit| i128::from(digit.wrapping_sub(b'0')));
    let point = i64::try_from(whole.len()).unwrap_or(i64::MAX).saturating_add(power);
    let mut value: i128 = 0;
    let mut count: i64 = 0;
    let mut rest = false;
    for digit in digits() {
        if count < point {
            value = value.saturating_mul(10).saturating_add(digit);
        } else {
            rest |= digit != 0;
        }
        count += 1;
    }
    while count < point && value != 0 && value < LARGEST {
        value = value.saturating_mul(10);
        count += 1;
    }
    value.saturating_add(i128::from(rest))
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

fn scale(suffix: &str) -> Result<Scale, NotAQuantity> {
    let letters = suffix.trim_start_matches(['e', 'E', 'i', 'n', 'u', 'm', 'k', 'K', 'M', 'G', 'T', 'P']);
    let exponent = letters.strip_prefix(['+', '-']).unwrap_or(letters);
    if !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NotAQuantity::Shape);
    }
    Ok(match suffix {
        "n" => Scale::Ten(-9),
        "u" => Scale::Ten(-6),
        "m" => Scale::Ten(-3),
        "" => Scale::Ten(0),
        "k" => Scale::Ten(3),
        "M" => Scale::Ten(6),
        "G" => Scale::Ten(9),
        "T" => Scale::Ten(12),
        "P" => Scale::Ten(15),
        "E" => Scale::Ten(18),
        "Ki" => Scale::Two(10),
        "Mi" => Scale::Two(20),
        "Gi" => Scale::Two(30),
        "Ti" => Scale::Two(40),
        "Pi" => Scale::Two(50),
        "Ei" => Scale::Two(60),
        _ => {
            let power = suffix.strip_prefix(['e', 'E']).ok_or(NotAQuantity::Suffix)?;
            Scale::Ten(power.parse().map_err(|_| NotAQuantity::Suffix)?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(text: &str) -> i128 {
        Quantity::parse(text).unwrap().nanos
    }

    #[test]
    fn suffixes_scale() {
        assert_eq!(nanos("1"), NANOS);
        assert_eq!(nanos("100m"), NANOS / 10);
        assert_eq!(nanos("1Ki"), 1024 * NANOS);
        assert_eq!(nanos("1.5Gi"), 1_610_612_736 * NANOS);
        assert_eq!(nanos("1e3"), 1000 * NANOS);
        assert_eq!(nanos("1E3"), 1000 * NANOS);
        assert_eq!(nanos("1E"), 1_000_000_000_000_000_000 * NANOS);
        assert_eq!(nanos("-2"), -2 * NANOS);
        assert_eq!(nanos("0.5"), NANOS / 2);
        assert_eq!(nanos("1n"), 1);
        assert_eq!(nanos("5e-1"), NANOS / 2);
    }

    #[test]
    fn odd_forms_that_the_kubelet_takes_are_taken() {
        for text in [".5", "1.", "+1", "007", "1.G", "."] {
            assert!(Quantity::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn other_text_is_no_quantity() {
        for text in
            ["", "abc", "1 Mi", "100mi", "1gb", "1GB", "1Kib", "12,5", "1e", "1KI", "--1", "1.2.3", "0x10"]
        {
            assert!(Quantity::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn huge_and_tiny_amounts_stay_in_range() {
        assert_eq!(nanos("1e999999999"), LARGEST);
        assert_eq!(nanos("1e-999999999"), 1);
        assert_eq!(nanos("0e999999999"), 0);
        assert_eq!(nanos("9999999999999999999999999999999999999999999Ei"), LARGEST);
    }

    #[test]
    fn rounding_to_milli_goes_away_from_zero() {
        assert_eq!(Quantity::parse("0.0001").unwrap().rounded_to_milli(), Quantity::parse("1m").unwrap());
        assert!(Quantity::parse("-0.0001").unwrap().rounded_to_milli().is_negative());
    }
}
