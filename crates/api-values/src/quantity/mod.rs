//! Resource quantities such as `100m`, `128Mi` or `1e3`: parsing, comparing, adding and printing like the kubelet.
//!
//! A quantity has the same internal form as in the kubelet, because the kubelet computes a pod's UID from that form, and
//! because the form decides when the kubelet's arithmetic overflows. A quantity with more than 38 digits is refused
//! ([`NotAQuantity::TooLong`]).

mod decimal;

use std::cmp::Ordering;
use std::fmt;

use plegctl_base::report::word_enum;
use plegctl_node::kubelet::KubeletVersion;

pub use decimal::Decimal;

/// A quantity, as in `k8s.io/apimachinery/pkg/api/resource`.
#[derive(Clone, Debug, Default)]
pub struct Quantity {
    amount: Amount,
    /// The text that the kubelet keeps; empty if the kubelet keeps none.
    written: String,
    format: Format,
}

/// The two internal forms of a number.
#[derive(Clone, Debug)]
pub enum Amount {
    /// `value` times ten to the power of `scale`.
    Small {
        /// The digits.
        value: i64,
        /// The number of zeros after the digits or, if negative, the number of decimal places.
        scale: i32,
    },
    /// A number that is too large or too precise for the small form.
    Large(Decimal),
}

impl Default for Amount {
    fn default() -> Self {
        Self::Small { value: 0, scale: 0 }
    }
}

word_enum! {
    /// The family of suffixes in which a quantity is written.
    #[derive(Default)]
    pub enum Format: name {
        /// A quantity that is absent.
        #[default]
        Absent = "",
        /// `k`, `M`, …
        DecimalSi = "DecimalSI",
        /// `Ki`, `Mi`, …
        BinarySi = "BinarySI",
        /// `e3`, …
        DecimalExponent = "DecimalExponent",
    }
}

/// The number of decimal places of the kubelet's most precise quantity.
const NANO: i32 = 9;
/// The number of decimal places of quantities in resource lists.
const MILLI: i32 = 3;

/// From this power of ten on, the kubelet needs seconds to compute the digits, and for a slightly larger power hours.
const ENDLESS_POWER: i32 = 5_000_000;

/// The first minor release that refuses an exponent outside of 32 bits instead of truncating it, according to
/// kubernetes/kubernetes#141203.
const REFUSES_LARGE_EXPONENTS: u8 = 38;

/// Why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAQuantity {
    /// The text has the wrong format.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Shape,
    /// The text has an unknown suffix.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// The text has no digits.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// The text is a quantity, but the kubelet would never finish parsing it.
    #[error("the power of ten is so large that the kubelet does not finish computing it")]
    Endless,
    /// The text is a quantity with more digits than plegctl can compute with.
    #[error("the number has more than 38 digits")]
    TooLong,
}

/// The parts of a quantity's text.
struct QuantityParts<'a> {
    negative: bool,
    /// The digits before the point, without leading zeros; `0` if no digit remains.
    whole: &'a str,
    /// The digits after the point.
    fraction: &'a str,
    suffix: &'a str,
    /// Whether the text has at least one digit before the suffix.
    has_digits: bool,
}

impl<'a> QuantityParts<'a> {
    /// Splits a text. Checks its form, but not its suffix.
    fn parse(text: &'a str) -> Result<Self, NotAQuantity> {
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (digits, rest) = split_digits(unsigned);
        let whole = digits.trim_start_matches('0');
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        let has_digits = !digits.is_empty() || !fraction.is_empty();
        let letters = suffix.trim_start_matches(['e', 'E', 'i', 'n', 'u', 'm', 'k', 'K', 'M', 'G', 'T', 'P']);
        let exponent = letters.strip_prefix(['+', '-']).unwrap_or(letters);
        if !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(NotAQuantity::Shape);
        }
        let whole = if whole.is_empty() { "0" } else { whole };
        Ok(Self { negative, whole, fraction, suffix, has_digits })
    }

    /// Returns the value with the sign of this number.
    fn signed(&self, value: i64) -> i64 {
        if self.negative { value.wrapping_neg() } else { value }
    }

    /// Returns the digits before and after the point.
    fn digits(&self) -> String {
        format!("{}{}", self.whole, self.fraction)
    }

    /// Returns the number of digits after the point.
    fn decimals(&self) -> i32 {
        length(self.fraction)
    }

    /// Returns value and scale of the small form. Returns `None` if the kubelet's estimate shows that the number may not
    /// fit.
    fn small(&self, suffix: &Suffix) -> Result<Option<(i64, i32)>, NotAQuantity> {
        let (factor, scale, spare_digits) = match *suffix {
            Suffix::Ten { exponent, .. } => {
                (1, exponent.wrapping_sub(self.decimals()), 18 - length(self.whole) - self.decimals())
            }
            Suffix::Two(_) if !self.fraction.is_empty() => return Ok(None),
            Suffix::Two(exponent) => (1_i64 << exponent, 0, 14 - length(self.whole) - exponent * 3 / 10),
        };
        if spare_digits < 0 || scale < -NANO {
            return Ok(None);
        }
        let value: i64 = self.digits().parse().map_err(|_| NotAQuantity::Numeric)?;
        Ok(value.checked_mul(factor).map(|value| (self.signed(value), scale)))
    }

    /// Whether the kubelet keeps the text, because it considers the text canonical.
    fn keeps_text(&self, suffix: &Suffix, scale: i32) -> bool {
        match suffix {
            Suffix::Ten { .. } => {
                let digits = self.digits();
                scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0')
            }
            // Eight divides 1000, so the last three digits give the remainder of a division by eight.
            Suffix::Two(_) => {
                let tail = self.whole.get(self.whole.len().saturating_sub(3)..).unwrap_or(self.whole);
                tail.parse::<u32>().is_ok_and(|tail| tail % 8 != 0)
            }
        }
    }

    /// Returns the large form.
    fn large(&self, suffix: &Suffix) -> Result<(Decimal, Format), NotAQuantity> {
        if !self.has_digits {
            return Err(NotAQuantity::Numeric);
        }
        let unscaled: i128 = self.digits().parse().map_err(|_| NotAQuantity::TooLong)?;
        let mut amount =
            Decimal { unscaled: if self.negative { -unscaled } else { unscaled }, scale: self.decimals() };
        match *suffix {
            Suffix::Ten { exponent, .. } => amount.scale = amount.scale.wrapping_sub(exponent),
            Suffix::Two(exponent) => {
                amount.unscaled = amount.unscaled.checked_mul(1 << exponent).ok_or(NotAQuantity::TooLong)?;
            }
        }
        if is_endless(amount.scale) {
            return Err(NotAQuantity::Endless);
        }
        let mut format = suffix.format();
        if format == Format::BinarySi {
            let largest = i128::from(i64::MAX) * amount.unscaled.signum();
            if absolute(amount) > (Decimal { unscaled: largest.abs(), scale: 0 }) {
                return Ok((Decimal { unscaled: largest, scale: 0 }, format));
            }
        }
        if amount.unscaled != 0 {
            amount = amount.rescaled(NANO).ok_or(NotAQuantity::TooLong)?;
        }
        if format == Format::BinarySi && amount.unscaled != 0 && absolute(amount) < ONE {
            format = Format::DecimalSi;
        }
        Ok((amount, format))
    }
}

const ONE: Decimal = Decimal { unscaled: 1, scale: 0 };

/// Returns the number without its sign.
const fn absolute(number: Decimal) -> Decimal {
    Decimal { unscaled: number.unscaled.abs(), scale: number.scale }
}

/// Returns the number of digits.
fn length(digits: &str) -> i32 {
    i32::try_from(digits.len()).unwrap_or(i32::MAX / 4)
}

/// Whether the kubelet would need seconds or more to compute the digits of a number of this scale.
const fn is_endless(scale: i32) -> bool {
    scale.unsigned_abs() > ENDLESS_POWER.unsigned_abs()
}

/// The decimal suffixes, each with its power of ten.
const POWERS_OF_TEN: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
/// The binary suffixes, each with its power of two.
const POWERS_OF_TWO: [(&str, i32); 7] =
    [("", 0), ("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// The factor that a suffix means.
enum Suffix {
    /// Two to this power.
    Two(i32),
    /// Ten to this power.
    Ten { exponent: i32, format: Format },
}

impl Suffix {
    /// Parses a suffix.
    fn parse(text: &str) -> Result<Self, NotAQuantity> {
        let power_in = |table: &[(&str, i32)]| {
            let row = table.iter().find(|(suffix, _)| *suffix == text);
            row.map(|(_, power)| *power)
        };
        if let Some(exponent) = power_in(&POWERS_OF_TEN) {
            return Ok(Self::Ten { exponent, format: Format::DecimalSi });
        }
        if let Some(exponent) = power_in(&POWERS_OF_TWO) {
            return Ok(Self::Two(exponent));
        }
        let power = text.strip_prefix(['e', 'E']).ok_or(NotAQuantity::Suffix)?;
        let power: i64 = power.parse().map_err(|_| NotAQuantity::Suffix)?;
        // Go truncates the exponent to 32 bits here.
        let low = u32::try_from(power & i64::from(u32::MAX)).unwrap_or_default();
        Ok(Self::Ten { exponent: low.cast_signed(), format: Format::DecimalExponent })
    }

    /// Returns the format in which the kubelet prints a quantity with this suffix.
    const fn format(&self) -> Format {
        match self {
            Self::Two(_) => Format::BinarySi,
            Self::Ten { format, .. } => *format,
        }
    }
}

impl Quantity {
    /// Zero.
    pub const ZERO: Self =
        Self { amount: Amount::Small { value: 0, scale: 0 }, written: String::new(), format: Format::Absent };

    /// Parses a quantity like a kubelet of this release.
    pub fn parse_by(text: &str, release: KubeletVersion) -> Result<Self, NotAQuantity> {
        if release.at_least(REFUSES_LARGE_EXPONENTS) && has_large_exponent(text) {
            return Err(NotAQuantity::Suffix);
        }
        Self::parse(text)
    }

    /// Parses a quantity like kubelets up to 1.37, which accept unusual forms such as `1.` and `.5`.
    pub fn parse(text: &str) -> Result<Self, NotAQuantity> {
        if text.is_empty() {
            return Err(NotAQuantity::Shape);
        }
        if text == "0" {
            return Ok(Self { written: text.to_owned(), format: Format::DecimalSi, ..Self::ZERO });
        }
        let parts = QuantityParts::parse(text)?;
        let suffix = Suffix::parse(parts.suffix)?;
        if let Some((value, scale)) = parts.small(&suffix)? {
            if is_endless(scale) {
                return Err(NotAQuantity::Endless);
            }
            let written = if parts.keeps_text(&suffix, scale) { text.to_owned() } else { String::new() };
            return Ok(Self { amount: Amount::Small { value, scale }, written, format: suffix.format() });
        }
        let (amount, format) = parts.large(&suffix)?;
        Ok(Self { amount: Amount::Large(amount), written: String::new(), format })
    }

    /// Returns the internal form.
    pub const fn amount(&self) -> &Amount {
        &self.amount
    }

    /// Returns the text that the kubelet keeps in addition to the number; empty if the kubelet keeps none.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// Returns the family of its suffix.
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Returns the number, whatever its internal form.
    fn decimal(&self) -> Decimal {
        match &self.amount {
            Amount::Small { value, scale } => {
                Decimal { unscaled: (*value).into(), scale: scale.saturating_neg() }
            }
            Amount::Large(amount) => *amount,
        }
    }

    /// Rounds the quantity away from zero to thousandths, as the kubelet does for requests and limits.
    #[must_use]
    pub fn rounded_to_milli(mut self) -> Self {
        match &mut self.amount {
            Amount::Small { scale, .. } if *scale >= -MILLI => return self,
            Amount::Small { value, scale } => {
                *value = without_last_digits(*value, scale.unsigned_abs() - MILLI.unsigned_abs());
                *scale = -MILLI;
            }
            Amount::Large(amount) => *amount = amount.rescaled(MILLI).unwrap_or(*amount),
        }
        self.written.clear();
        self
    }

    /// Whether the quantity is below zero.
    pub fn is_negative(&self) -> bool {
        match &self.amount {
            Amount::Small { value, .. } => *value < 0,
            Amount::Large(amount) => amount.unscaled < 0,
        }
    }

    /// Whether the quantity is zero.
    pub fn is_zero(&self) -> bool {
        match &self.amount {
            Amount::Small { value, .. } => *value == 0,
            Amount::Large(amount) => amount.unscaled == 0,
        }
    }

    /// Returns the number times ten to the power of `scale`, rounded away from zero, with 64 bits. As in the kubelet, a
    /// number that does not fit overflows or becomes zero.
    fn scaled(&self, scale: i32) -> i64 {
        match &self.amount {
            Amount::Small { value, scale: own_scale } => {
                let power = own_scale.saturating_add(scale);
                if power < 0 {
                    return without_last_digits(*value, power.unsigned_abs());
                }
                let factor = 10_i64.checked_pow(power.unsigned_abs());
                factor.and_then(|factor| value.checked_mul(factor)).unwrap_or_default()
            }
            Amount::Large(amount) => amount.rescaled(scale).map_or(0, Decimal::low_bits),
        }
    }

    /// Whether the kubelet considers the number an integer.
    pub fn is_whole(&self) -> bool {
        self.scaled(MILLI) % 1000 == 0
    }

    /// Whether the quantity is a multiple of `unit`. No quantity is a multiple of zero.
    pub fn is_multiple_of(&self, unit: &Self) -> bool {
        self.scaled(0).checked_rem(unit.scaled(0)) == Some(0)
    }

    /// Compares the quantity with an integer.
    pub fn cmp_whole(&self, number: i64) -> Ordering {
        self.decimal().cmp(&Decimal { unscaled: number.into(), scale: 0 })
    }

    /// Returns the sum, in the internal form that the kubelet's addition gives it. If the sum has more than 38 digits, the
    /// result is the larger of the two numbers.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        let amount = match (&self.amount, &other.amount) {
            (
                Amount::Small { value: left, scale: left_scale },
                Amount::Small { value: right, scale: right_scale },
            ) => small_sum((*left, *left_scale), (*right, *right_scale)),
            _ => None,
        };
        let large = || {
            let (left, right) = (self.decimal(), other.decimal());
            Amount::Large(left.plus(right).unwrap_or_else(|| left.max(right)))
        };
        let amount = amount.map_or_else(large, |(value, scale)| Amount::Small { value, scale });
        Self { amount, written: String::new(), format }
    }

    /// Returns the text that the kubelet kept, or else the kubelet's shortest notation of the number.
    fn canonical(&self) -> String {
        if !self.written.is_empty() {
            return self.written.clone();
        }
        let mut number = self.decimal();
        if number.unscaled == 0 {
            return "0".to_owned();
        }
        if self.format == Format::BinarySi
            && absolute(number) >= (Decimal { unscaled: 1024, scale: 0 })
            && let Some(whole) = number.rescaled(0)
        {
            let (digits, factors) = without_factor(whole.unscaled, 1024, 6);
            let suffix = POWERS_OF_TWO.get(factors).map(|(suffix, _)| *suffix).unwrap_or_default();
            return format!("{digits}{suffix}");
        }
        let scale = number.scale;
        let multiple_of_three = if scale % 3 == 0 { scale } else { scale + 3 - scale.rem_euclid(3) };
        number = number.rescaled(multiple_of_three).unwrap_or(number);
        let (digits, factors) = without_factor(number.unscaled, 1000, usize::MAX);
        let exponent = i32::try_from(factors).unwrap_or_default() * 3 - number.scale;
        let suffix = match POWERS_OF_TEN.iter().find(|(_, power)| *power == exponent) {
            Some((suffix, power)) if *power == 0 || self.format != Format::DecimalExponent => {
                (*suffix).to_owned()
            }
            _ => format!("e{exponent}"),
        };
        format!("{digits}{suffix}")
    }
}

/// Adds two numbers in the small form, like Go's `int64Amount.Add`. Returns `None` if the sum does not fit.
fn small_sum((left, left_scale): (i64, i32), (right, right_scale): (i64, i32)) -> Option<(i64, i32)> {
    if right == 0 {
        return Some((left, left_scale));
    }
    if left == 0 {
        return Some((right, right_scale));
    }
    let scale = left_scale.min(right_scale);
    let aligned = |value: i64, own_scale: i32| {
        let factor = 10_i64.checked_pow(own_scale.checked_sub(scale)?.unsigned_abs())?;
        value.checked_mul(factor)
    };
    Some((aligned(left, left_scale)?.checked_add(aligned(right, right_scale)?)?, scale))
}

/// Removes the last `digits` digits and rounds away from zero.
fn without_last_digits(value: i64, digits: u32) -> i64 {
    let Some(divisor) = 10_i64.checked_pow(digits) else {
        return value.signum();
    };
    let rest = value % divisor;
    value / divisor + rest.signum()
}

/// Divides an integer other than zero by `factor` while there is no remainder, at most `most` times. Returns the result
/// and the number of divisions.
fn without_factor(mut number: i128, factor: i128, most: usize) -> (i128, usize) {
    let mut divisions = 0;
    while number % factor == 0 && divisions < most {
        number /= factor;
        divisions += 1;
    }
    (number, divisions)
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.amount, &other.amount) {
            (Amount::Small { value, scale }, Amount::Small { value: other_value, scale: other_scale })
                if scale == other_scale =>
            {
                value.cmp(other_value)
            }
            _ => self.decimal().cmp(&other.decimal()),
        }
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Quantities are equal if their numbers are equal, even if they are written differently.
impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.canonical())
    }
}

/// Whether the text has an exponent that, or whose negative, does not fit in 32 bits.
fn has_large_exponent(text: &str) -> bool {
    let suffix = QuantityParts::parse(text).map_or("", |parts| parts.suffix);
    let exponent = suffix.strip_prefix(['e', 'E']).and_then(|power| power.parse::<i64>().ok());
    exponent.is_some_and(|power| power.unsigned_abs() > i32::MAX.unsigned_abs().into())
}

/// Splits a text after its leading digits.
fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(text: &str) -> Quantity {
        Quantity::parse(text).unwrap()
    }

    #[test]
    fn suffixes_multiply_the_number() {
        for (text, same) in [
            ("100m", "0.1"),
            ("1Ki", "1024"),
            ("1.5Gi", "1610612736"),
            ("1e3", "1000"),
            ("1E3", "1000"),
            ("1E", "1000000000000000000"),
            ("0.5", "500m"),
            ("5e-1", "500m"),
            ("1n", "0.000000001"),
            ("1e4294967296", "1"),
        ] {
            assert_eq!(quantity(text), quantity(same), "{text}");
        }
        assert!(quantity("-2").is_negative());
    }

    #[test]
    fn unusual_quantities_that_the_kubelet_accepts_are_accepted() {
        for text in [".5", "1.", "+1", "007", "1.G", ".", "m", "-", "+"] {
            assert!(Quantity::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_no_quantity_is_rejected() {
        for text in [
            "", "abc", "1 Mi", "100mi", "1gb", "1GB", "1Kib", "12,5", "1e", "1KI", "--1", "1.2.3", "0x10",
            "Ei", "e-10",
        ] {
            assert!(Quantity::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_quantity_that_the_kubelet_never_finishes_is_an_error() {
        for text in ["1e2147483647", "1E9999999", "1e-999999999", "0e999999999"] {
            assert_eq!(Quantity::parse(text), Err(NotAQuantity::Endless), "{text}");
        }
        assert!(Quantity::parse("1e1000").is_ok());
    }

    #[test]
    fn an_exponent_beyond_32_bits_is_truncated_up_to_137_and_refused_by_138() {
        let by = |text, release| Quantity::parse_by(text, KubeletVersion::parse(release).unwrap());
        for text in ["1e4294967297", "1E4294967297", "1e-4294967297", "1e-2147483648"] {
            assert_eq!(by(text, "1.38").unwrap_err(), NotAQuantity::Suffix, "{text}");
            assert_ne!(by(text, "1.37").err(), Some(NotAQuantity::Suffix), "{text}");
        }
        assert_eq!(by("1e4294967297", "1.37").unwrap(), quantity("10"));
        // The next steps of the kubelet's computation did not change.
        assert_eq!(by("1e2147483647", "1.38").unwrap_err(), NotAQuantity::Endless);
        assert_eq!(by("1e3", "1.38").unwrap(), quantity("1000"));
    }

    #[test]
    fn binary_quantities_are_limited_to_64_bits_and_decimal_quantities_are_not() {
        assert_eq!(quantity("9007199254740993Ki"), quantity("9223372036854775807"));
        assert_eq!(quantity("9999999999Ei"), quantity("8Ei"));
        assert_eq!(quantity("-9999999999Ei"), quantity("-9223372036854775807"));
        assert!(quantity("1e40") > quantity("8Ei"));
        assert!(quantity("7").is_whole() && !quantity("7.5").is_whole());
    }

    #[test]
    fn a_quantity_with_too_many_digits_is_refused() {
        let long = "9".repeat(43);
        for text in [&*long, "3172558511033790540e19", "99999999999999999999999999999999999999Ei"] {
            assert_eq!(Quantity::parse(text), Err(NotAQuantity::TooLong), "{text}");
        }
        let sum = quantity("1e1000").plus(&quantity("1"));
        assert_eq!(sum, quantity("1e1000"));
    }

    #[test]
    fn rounding_to_milli_goes_away_from_zero() {
        assert_eq!(quantity("0.0001").rounded_to_milli(), quantity("1m"));
        assert_eq!(quantity("-0.0001").rounded_to_milli(), quantity("-1m"));
        assert_eq!(quantity("1.0000000001").rounded_to_milli(), quantity("1001m"));
    }

    #[test]
    fn quantities_are_formatted_as_in_the_kubelet() {
        for (text, canonical) in [
            ("1000m", "1"),
            ("1024Ki", "1Mi"),
            ("0.001", "1m"),
            ("+1", "+1"),
            ("1e0", "1e0"),
            ("1000e3", "1e6"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("1.5k", "1500"),
            ("123456789012345678901n", "123456789012345678901n"),
        ] {
            assert_eq!(quantity(text).to_string(), canonical, "{text}");
        }
    }
}
