//! Decimal numbers of any size, a small part of `gopkg.in/inf.v0`.

use std::cmp::Ordering;

/// `digits` times ten to the minus `scale`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Decimal {
    pub negative: bool,
    /// The digits, most significant first, without leading zeros. Zero has no digits.
    digits: Vec<u8>,
    pub scale: i32,
}

impl Decimal {
    /// Reads ASCII digits and skips any other character.
    pub fn new(negative: bool, text: &str, scale: i32) -> Self {
        let digits = text.bytes().filter(u8::is_ascii_digit).map(|digit| digit - b'0');
        let digits: Vec<u8> = digits.skip_while(|digit| *digit == 0).collect();
        Self { negative: negative && !digits.is_empty(), digits, scale }
    }

    /// Creates a number from an integer and a scale.
    pub fn from_int(value: i64, scale: i32) -> Self {
        Self::new(value < 0, &value.unsigned_abs().to_string(), scale)
    }

    /// Returns the number with this sign.
    pub fn signed(self, negative: bool) -> Self {
        Self { negative: negative && !self.digits.is_empty(), ..self }
    }

    pub fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    pub fn len(&self) -> usize {
        self.digits.len()
    }

    /// Changes the scale, and rounds away from zero if digits are lost.
    pub fn rescale(&mut self, scale: i32) {
        let more = i64::from(scale) - i64::from(self.scale);
        self.scale = scale;
        if self.is_zero() {
            return;
        }
        if more >= 0 {
            let zeros = usize::try_from(more).unwrap_or_default();
            self.digits.resize(self.digits.len() + zeros, 0);
            return;
        }
        let lost = usize::try_from(-more).unwrap_or(usize::MAX);
        let kept = self.digits.len().saturating_sub(lost);
        let rest = lost > self.digits.len() || self.digits.iter().skip(kept).any(|digit| *digit != 0);
        self.digits.truncate(kept);
        if rest {
            self.increment();
        }
    }

    fn increment(&mut self) {
        for digit in self.digits.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                return;
            }
            *digit = 0;
        }
        self.digits.insert(0, 1);
    }

    /// Multiplies the digits without changing the scale.
    pub fn multiply(&mut self, factor: u64) {
        let mut carry: u128 = 0;
        for digit in self.digits.iter_mut().rev() {
            let product = u128::from(*digit) * u128::from(factor) + carry;
            *digit = last_digit(product);
            carry = product / 10;
        }
        let mut front = Vec::new();
        while carry > 0 {
            front.push(last_digit(carry));
            carry /= 10;
        }
        front.reverse();
        self.digits.splice(0..0, front);
    }

    /// Returns the sum, with the larger of both scales.
    pub fn plus(&self, other: &Self) -> Self {
        let (mut left, mut right) = (self.clone(), other.clone());
        let scale = self.scale.max(other.scale);
        left.rescale(scale);
        right.rescale(scale);
        if left.negative == right.negative {
            let digits = add(&left.digits, &right.digits);
            return Self { digits, ..left };
        }
        let (larger, smaller) =
            if left.magnitude(&right) == Ordering::Less { (right, left) } else { (left, right) };
        let digits = subtract(&larger.digits, &smaller.digits);
        Self { negative: larger.negative && !digits.is_empty(), digits, scale }
    }

    /// Compares the absolute values.
    fn magnitude(&self, other: &Self) -> Ordering {
        match (self.is_zero(), other.is_zero()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            (false, false) => {}
        }
        // The position of the first digit decides. If it is equal, the digits decide.
        let place =
            |number: &Self| i64::try_from(number.digits.len()).unwrap_or(i64::MAX) - i64::from(number.scale);
        place(self).cmp(&place(other)).then_with(|| {
            let length = self.digits.len().max(other.digits.len());
            let padded = |number: &'_ Self| {
                number.digits.iter().copied().chain(std::iter::repeat(0)).take(length).collect::<Vec<u8>>()
            };
            padded(self).cmp(&padded(other))
        })
    }

    /// Returns the lowest 64 bits of the digits, with the sign, as Go's `big.Int.Int64` does for any size.
    pub fn low_bits(&self) -> i64 {
        let fold = |bits: u64, digit: &u8| bits.wrapping_mul(10).wrapping_add(u64::from(*digit));
        let bits = self.digits.iter().fold(0_u64, fold).cast_signed();
        if self.negative { bits.wrapping_neg() } else { bits }
    }

    /// Returns the digits in base 2^64, least significant word first.
    pub fn words(&self) -> Vec<u64> {
        let mut words: Vec<u64> = Vec::new();
        // A word holds at most nineteen digits.
        for chunk in self.digits.chunks(19) {
            let mut carry = chunk.iter().fold(0_u128, |value, digit| value * 10 + u128::from(*digit));
            let factor = chunk.iter().fold(1_u128, |factor, _| factor * 10);
            for word in &mut words {
                let product = u128::from(*word) * factor + carry;
                *word = low_word(product);
                carry = product >> 64;
            }
            if carry > 0 {
                words.push(low_word(carry));
            }
        }
        words
    }

    /// Returns the digits as text.
    pub fn text(&self) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        self.digits.iter().map(|digit| char::from(b'0' + *digit)).collect()
    }

    /// Removes trailing zeros three at a time. Returns how many times.
    pub fn strip_thousands(&mut self) -> i32 {
        let mut times = 0;
        while !self.is_zero() && self.digits.ends_with(&[0, 0, 0]) {
            self.digits.truncate(self.digits.len() - 3);
            times += 1;
        }
        times
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, false) => self.magnitude(other),
            (true, true) => other.magnitude(self),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn last_digit(value: u128) -> u8 {
    u8::try_from(value % 10).unwrap_or_default()
}

fn low_word(value: u128) -> u64 {
    u64::try_from(value & u128::from(u64::MAX)).unwrap_or_default()
}

fn add(left: &[u8], right: &[u8]) -> Vec<u8> {
    let mut digits = Vec::new();
    let (mut left, mut right) = (left.iter().rev(), right.iter().rev());
    let mut carry = 0;
    loop {
        let (one, two) = (left.next(), right.next());
        if one.is_none() && two.is_none() && carry == 0 {
            break;
        }
        let sum = one.copied().unwrap_or_default() + two.copied().unwrap_or_default() + carry;
        digits.push(sum % 10);
        carry = sum / 10;
    }
    digits.reverse();
    digits
}

/// Subtracts. `left` must not be smaller than `right`.
fn subtract(left: &[u8], right: &[u8]) -> Vec<u8> {
    let mut digits = Vec::new();
    let mut right = right.iter().rev();
    let mut borrow = 0;
    for digit in left.iter().rev() {
        let less = right.next().copied().unwrap_or_default() + borrow;
        borrow = u8::from(*digit < less);
        digits.push(*digit + 10 * borrow - less);
    }
    while digits.last() == Some(&0) {
        digits.pop();
    }
    digits.reverse();
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str, scale: i32) -> Decimal {
        Decimal::new(text.starts_with('-'), text.trim_start_matches('-'), scale)
    }

    #[test]
    fn rounding_goes_away_from_zero() {
        let rescaled = |text: &str, from, to| {
            let mut number = number(text, from);
            number.rescale(to);
            number.text()
        };
        assert_eq!(rescaled("1999", 3, 0), "2");
        assert_eq!(rescaled("9999", 3, 0), "10");
        assert_eq!(rescaled("1", 30, 9), "1");
        assert_eq!(rescaled("5", 0, 3), "5000");
        assert_eq!(rescaled("0", 30, 9), "0");
    }

    #[test]
    fn words_and_low_bits_are_those_of_a_big_integer() {
        assert_eq!(number("18446744073709551617", 0).words(), [1, 1]);
        assert_eq!(number("18446744073709551617", 0).low_bits(), 1);
        assert_eq!(number("-18446744073709551618", 0).low_bits(), -2);
        assert_eq!(number("0", 0).words(), Vec::<u64>::new());
        let mut large = number("33", 0);
        large.multiply(1 << 60);
        assert_eq!(large.text(), (33_u128 << 60).to_string());
    }

    #[test]
    fn sums_and_comparisons_align_the_scales() {
        assert_eq!(number("15", 1).plus(&number("1", 3)).text(), "1501");
        assert_eq!(number("-15", 1).plus(&number("15", 1)), Decimal { scale: 1, ..Decimal::default() });
        assert_eq!(number("-15", 1).plus(&number("2", 0)).text(), "5");
        assert!(number("15", 1) < number("2", 0));
        assert_eq!(number("1500", 3).cmp(&number("15", 1)), Ordering::Equal);
        assert!(number("1", -2_000_000_000) > number("999", 0));
        assert!(number("-1", 0) < number("0", 5));
    }
}
