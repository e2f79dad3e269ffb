//! Decimal numbers of up to 38 digits, with the few functions of Go's `gopkg.in/inf.v0` that quantities need.

use std::cmp::Ordering;

/// A number: `unscaled` divided by ten to the power of `scale`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decimal {
    /// The digits, as a whole number.
    pub unscaled: i128,
    /// How many of the digits are decimal places.
    pub scale: i32,
}

impl Decimal {
    /// Returns the number with this scale, rounded away from zero if digits are lost. Returns `None` if the result has too
    /// many digits.
    pub fn rescaled(self, scale: i32) -> Option<Self> {
        let added_digits = scale.saturating_sub(self.scale);
        let power = 10_i128.checked_pow(added_digits.unsigned_abs());
        let unscaled = match power {
            _ if self.unscaled == 0 => 0,
            Some(factor) if added_digits >= 0 => self.unscaled.checked_mul(factor)?,
            None if added_digits >= 0 => return None,
            Some(divisor) => self.unscaled / divisor + (self.unscaled % divisor).signum(),
            None => self.unscaled.signum(),
        };
        Some(Self { unscaled, scale })
    }

    /// Returns the sum, with the larger of both scales. Returns `None` if the sum has too many digits.
    pub fn plus(self, other: Self) -> Option<Self> {
        let scale = self.scale.max(other.scale);
        let (left, right) = (self.rescaled(scale)?, other.rescaled(scale)?);
        Some(Self { unscaled: left.unscaled.checked_add(right.unscaled)?, scale })
    }

    /// Returns the lowest 64 bits of the unscaled number, as Go's `big.Int.Int64` does for any size.
    pub fn low_bits(self) -> i64 {
        low_word(self.unscaled.cast_unsigned()).cast_signed()
    }

    /// Returns the absolute unscaled number in base 2^64, least significant word first.
    pub fn words(self) -> Vec<u64> {
        let number = self.unscaled.unsigned_abs();
        let mut words = vec![low_word(number), low_word(number >> 64)];
        while words.last() == Some(&0) {
            words.pop();
        }
        words
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        // The power of ten of the first digit decides. If both powers are equal, the digits decide.
        let first_digit = |number: &Self| {
            let digits = number.unscaled.unsigned_abs().checked_ilog10().map_or(0, i64::from);
            digits - i64::from(number.scale)
        };
        let sign = self.unscaled.signum();
        let by_size = || {
            let first = first_digit(self).cmp(&first_digit(other));
            first.then_with(|| {
                let scale = self.scale.max(other.scale);
                let digits = |number: &Self| number.rescaled(scale).map(|number| number.unscaled.abs());
                // Both first digits have the same power of ten. So a number gets too many digits only if it is larger.
                match (digits(self), digits(other)) {
                    (None, _) => Ordering::Greater,
                    (_, None) => Ordering::Less,
                    (left, right) => left.cmp(&right),
                }
            })
        };
        sign.cmp(&other.unscaled.signum()).then_with(|| match sign {
            0 => Ordering::Equal,
            1 => by_size(),
            _ => by_size().reverse(),
        })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

fn low_word(value: u128) -> u64 {
    u64::try_from(value & u128::from(u64::MAX)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn number(unscaled: i128, scale: i32) -> Decimal {
        Decimal { unscaled, scale }
    }

    #[test]
    fn rounding_goes_away_from_zero() {
        let rescaled = |unscaled, from, to| number(unscaled, from).rescaled(to).map(|number| number.unscaled);
        assert_eq!(rescaled(1999, 3, 0), Some(2));
        assert_eq!(rescaled(-1999, 3, 0), Some(-2));
        assert_eq!(rescaled(1, 30, 9), Some(1));
        assert_eq!(rescaled(1, 300, 9), Some(1));
        assert_eq!(rescaled(5, 0, 3), Some(5000));
        assert_eq!(rescaled(0, 0, 300), Some(0));
        assert_eq!(rescaled(5, 0, 38), None);
        assert_eq!(rescaled(5, 0, 300), None);
    }

    #[test]
    fn words_and_low_bits_equal_gos_big_integer() {
        assert_eq!(number(18_446_744_073_709_551_617, 0).words(), [1, 1]);
        assert_eq!(number(-18_446_744_073_709_551_617, 0).words(), [1, 1]);
        assert_eq!(number(18_446_744_073_709_551_617, 0).low_bits(), 1);
        assert_eq!(number(-18_446_744_073_709_551_618, 0).low_bits(), -2);
        assert_eq!(number(0, 0).words(), Vec::<u64>::new());
    }

    #[test]
    fn sums_and_comparisons_align_the_scales() {
        assert_eq!(number(15, 1).plus(number(1, 3)), Some(number(1501, 3)));
        assert_eq!(number(-15, 1).plus(number(15, 1)), Some(number(0, 0)));
        assert_eq!(number(-15, 1).plus(number(2, 0)), Some(number(5, 1)));
        assert!(number(15, 1) < number(2, 0));
        assert_eq!(number(1500, 3).cmp(&number(15, 1)), Ordering::Equal);
        assert!(number(1, -2_000_000_000) > number(999, 0));
        assert!(number(-1, 0) < number(0, 5) && number(-2, 0) < number(-1, 0));
        // In the common scale, the first number has one digit too many.
        assert!(number(9, -38) > number(i128::MAX / 10 * 5, 0) && number(i128::MAX, 0) < number(2, -38));
    }
}
