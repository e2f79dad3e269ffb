//! Resource quantities: `100m`, `128Mi`, `1e3`, in the very form in which the kubelet keeps them.
//!
//! The form shows in what is printed of a pod and so in its UID, and it decides where the kubelet's arithmetic wraps.

mod decimal;

use std::cmp::Ordering;
use std::fmt;

pub use decimal::Decimal;

/// An amount, as `k8s.io/apimachinery/pkg/api/resource` keeps it.
#[derive(Clone, Debug, Default)]
pub struct Quantity {
    amount: Amount,
    written: String,
    format: Format,
}

/// Two ways to keep a number.
#[derive(Clone, Debug)]
pub enum Amount {
    /// `value` times ten to the `scale`.
    Small {
        /// The digits.
        value: i64,
        /// How many zeros follow, or with a minus how many of the digits are decimals.
        scale: i32,
    },
    /// Anything larger or finer.
    Large(Decimal),
}

impl Default for Amount {
    fn default() -> Self {
        Self::Small { value: 0, scale: 0 }
    }
}

/// In which family of suffixes an amount was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// None: an amount that was not given.
    #[default]
    Absent,
    /// `k`, `M`, …
    DecimalSi,
    /// `Ki`, `Mi`, …
    BinarySi,
    /// `e3`, …
    DecimalExponent,
}

impl Format {
    /// The kubelet's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Absent => "",
            Self::DecimalSi => "DecimalSI",
            Self::BinarySi => "BinarySI",
            Self::DecimalExponent => "DecimalExponent",
        }
    }
}

/// Scales of the kubelet's finest amount and of resource lists.
const NANO: i32 = 9;
const MILLI: i32 = 3;

/// The kubelet writes the power of ten out, digit by digit. From here on that takes it seconds, and a few digits
/// more take it hours.
const ENDLESS: i32 = 5_000_000;

/// The text is no quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAQuantity {
    /// It has the wrong shape.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Shape,
    /// It ends in an unknown suffix.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// It has no digits where they count.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// It is one, but the kubelet does not come to an end with it.
    #[error("the power of ten is so large that the kubelet does not finish computing it")]
    Endless,
}

/// A quantity in its parts: sign, digits before and behind the point, suffix.
struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
    has_digits: bool,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Result<Self, NotAQuantity> {
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

    fn signed(&self, value: i64) -> i64 {
        if self.negative { value.wrapping_neg() } else { value }
    }

    fn digits(&self) -> String {
        format!("{}{}", self.whole, self.fraction)
    }

    /// How many digits behind the point.
    fn decimals(&self) -> i32 {
        length(self.fraction)
    }

    /// The form that fits into 64 bits, if it surely does.
    fn small(&self, suffix: &Suffix) -> Result<Option<(i64, i32)>, NotAQuantity> {
        let (mantissa, scale, room) = match *suffix {
            Suffix::Ten { exponent, .. } => {
                (1, exponent.wrapping_sub(self.decimals()), 18 - length(self.whole) - self.decimals())
            }
            Suffix::Two(_) if !self.fraction.is_empty() => return Ok(None),
            Suffix::Two(exponent) => (1_i64 << exponent, 0, 14 - length(self.whole) - exponent * 3 / 10),
        };
        if room < 0 || scale < -NANO {
            return Ok(None);
        }
        let value: i64 = self.digits().parse().map_err(|_| NotAQuantity::Numeric)?;
        Ok(value.checked_mul(mantissa).map(|value| (self.signed(value), scale)))
    }

    /// What the text was, where the kubelet takes it for canonical and keeps it.
    fn keeps_text(&self, suffix: &Suffix, scale: i32) -> bool {
        match suffix {
            Suffix::Ten { .. } => {
                let digits = self.digits();
                scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0')
            }
            // The last three digits decide what the whole number leaves when divided by eight.
            Suffix::Two(_) => {
                let tail = self.whole.get(self.whole.len().saturating_sub(3)..).unwrap_or(self.whole);
                tail.parse::<u32>().is_ok_and(|tail| tail % 8 != 0)
            }
        }
    }

    fn large(&self, suffix: &Suffix) -> Result<(Decimal, Format), NotAQuantity> {
        if !self.has_digits {
            return Err(NotAQuantity::Numeric);
        }
        let mut amount = Decimal::new(self.negative, &self.digits(), self.decimals());
        match *suffix {
            Suffix::Ten { exponent, .. } => amount.scale = amount.scale.wrapping_sub(exponent),
            Suffix::Two(exponent) => amount.multiply(1 << exponent),
        }
        if is_endless(amount.scale) {
            return Err(NotAQuantity::Endless);
        }
        if !amount.is_zero() {
            amount.rescale(NANO);
        }
        let mut format = suffix.format();
        if format == Format::BinarySi {
            let magnitude = amount.clone().signed(false);
            let largest = Decimal::from_int(i64::MAX, 0);
            if magnitude > largest {
                amount = largest.signed(amount.negative);
            } else if !amount.is_zero() && magnitude < Decimal::from_int(1, 0) {
                format = Format::DecimalSi;
            }
        }
        Ok((amount, format))
    }
}

fn length(digits: &str) -> i32 {
    i32::try_from(digits.len()).unwrap_or(i32::MAX / 4)
}

const fn is_endless(scale: i32) -> bool {
    scale.unsigned_abs() > ENDLESS.unsigned_abs()
}

/// What a suffix multiplies with: a power of two or of ten.
enum Suffix {
    Two(i32),
    Ten { exponent: i32, format: Format },
}

impl Suffix {
    fn of(text: &str) -> Result<Self, NotAQuantity> {
        let si = |exponent| Self::Ten { exponent, format: Format::DecimalSi };
        Ok(match text {
            "n" => si(-9),
            "u" => si(-6),
            "m" => si(-3),
            "" => si(0),
            "k" => si(3),
            "M" => si(6),
            "G" => si(9),
            "T" => si(12),
            "P" => si(15),
            "E" => si(18),
            "Ki" => Self::Two(10),
            "Mi" => Self::Two(20),
            "Gi" => Self::Two(30),
            "Ti" => Self::Two(40),
            "Pi" => Self::Two(50),
            "Ei" => Self::Two(60),
            _ => {
                let power = text.strip_prefix(['e', 'E']).ok_or(NotAQuantity::Suffix)?;
                let power: i64 = power.parse().map_err(|_| NotAQuantity::Suffix)?;
                // Go cuts the number to 32 bits there.
                let low = u32::try_from(power & i64::from(u32::MAX)).unwrap_or_default();
                Self::Ten { exponent: low.cast_signed(), format: Format::DecimalExponent }
            }
        })
    }

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

    /// Reads a quantity as the kubelet does, including the odd forms it lets pass, like `1.` and `.5`.
    pub fn parse(text: &str) -> Result<Self, NotAQuantity> {
        if text.is_empty() {
            return Err(NotAQuantity::Shape);
        }
        if text == "0" {
            return Ok(Self { written: text.to_owned(), format: Format::DecimalSi, ..Self::ZERO });
        }
        let parts = Parts::of(text)?;
        let suffix = Suffix::of(parts.suffix)?;
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

    /// How it is kept.
    pub const fn amount(&self) -> &Amount {
        &self.amount
    }

    /// The text that the kubelet keeps beside the number; empty where it keeps none.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// The family of its suffix.
    pub const fn format(&self) -> Format {
        self.format
    }

    fn decimal(&self) -> Decimal {
        match &self.amount {
            Amount::Small { value, scale } => Decimal::from_int(*value, scale.saturating_neg()),
            Amount::Large(amount) => amount.clone(),
        }
    }

    /// The amount in thousandths, rounded away from zero: how the kubelet keeps requests and limits.
    #[must_use]
    pub fn rounded_to_milli(mut self) -> Self {
        match &mut self.amount {
            Amount::Small { scale, .. } if *scale >= -MILLI => return self,
            Amount::Small { value, scale } => {
                *value = divided(*value, scale.unsigned_abs() - MILLI.unsigned_abs());
                *scale = -MILLI;
            }
            Amount::Large(amount) => amount.rescale(MILLI),
        }
        self.written.clear();
        self
    }

    /// Below zero.
    pub fn is_negative(&self) -> bool {
        match &self.amount {
            Amount::Small { value, .. } => *value < 0,
            Amount::Large(amount) => amount.negative,
        }
    }

    /// Exactly zero.
    pub fn is_zero(&self) -> bool {
        match &self.amount {
            Amount::Small { value, .. } => *value == 0,
            Amount::Large(amount) => amount.is_zero(),
        }
    }

    /// In units of ten to the minus `scale`, rounded up, as 64 bits: what does not fit wraps or becomes zero, as it
    /// does in the kubelet.
    fn scaled(&self, scale: i32) -> i64 {
        match &self.amount {
            Amount::Small { value, scale: own } => {
                let more = own.saturating_add(scale);
                if more < 0 {
                    return divided(*value, more.unsigned_abs());
                }
                let factor = 10_i64.checked_pow(more.unsigned_abs());
                factor.and_then(|factor| value.checked_mul(factor)).unwrap_or_default()
            }
            Amount::Large(amount) => {
                let mut amount = amount.clone();
                amount.rescale(scale);
                amount.low_bits()
            }
        }
    }

    /// A whole number, as the kubelet counts.
    pub fn is_whole(&self) -> bool {
        self.scaled(MILLI) % 1000 == 0
    }

    /// A whole multiple of `unit`. Nothing is a multiple of zero.
    pub fn is_multiple_of(&self, unit: &Self) -> bool {
        self.scaled(0).checked_rem(unit.scaled(0)) == Some(0)
    }

    /// Compares with a whole number.
    pub fn cmp_whole(&self, number: i64) -> Ordering {
        self.decimal().cmp(&Decimal::from_int(number, 0))
    }

    /// The sum, in the form that the kubelet's addition gives it.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        let amount = match (&self.amount, &other.amount) {
            (Amount::Small { value: left, scale: fine }, Amount::Small { value: right, scale: coarse }) => {
                small_sum((*left, *fine), (*right, *coarse))
            }
            _ => None,
        };
        let amount = match amount {
            Some((value, scale)) => Amount::Small { value, scale },
            None => Amount::Large(self.decimal().plus(&other.decimal())),
        };
        Self { amount, written: String::new(), format }
    }

    /// As the kubelet writes it: the text it kept, else the shortest.
    fn canonical(&self) -> String {
        if !self.written.is_empty() {
            return self.written.clone();
        }
        let mut number = self.decimal();
        if number.is_zero() {
            return "0".to_owned();
        }
        let sign = if number.negative { "-" } else { "" };
        let below = |number: &Decimal| number.clone().signed(false) < Decimal::from_int(1024, 0);
        if self.format == Format::BinarySi && !below(&number) {
            number.rescale(0);
            let (digits, times) = without_1024(&number);
            let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].get(times).copied().unwrap_or_default();
            return format!("{sign}{digits}{suffix}");
        }
        let scale = number.scale;
        number.rescale(if scale % 3 == 0 { scale } else { scale + 3 - scale.rem_euclid(3) });
        let exponent = number.strip_thousands() * 3 - number.scale;
        let digits = number.text();
        let suffix = match (self.format, exponent) {
            (_, 0) => String::new(),
            (Format::DecimalExponent, exponent) => format!("e{exponent}"),
            (_, -9) => "n".to_owned(),
            (_, -6) => "u".to_owned(),
            (_, -3) => "m".to_owned(),
            (_, 3) => "k".to_owned(),
            (_, 6) => "M".to_owned(),
            (_, 9) => "G".to_owned(),
            (_, 12) => "T".to_owned(),
            (_, 15) => "P".to_owned(),
            (_, 18) => "E".to_owned(),
            (_, exponent) => format!("e{exponent}"),
        };
        format!("{sign}{digits}{suffix}")
    }
}

/// Go's `int64Amount.Add`; nothing if it does not fit.
fn small_sum((left, fine): (i64, i32), (right, coarse): (i64, i32)) -> Option<(i64, i32)> {
    if right == 0 {
        return Some((left, fine));
    }
    if left == 0 {
        return Some((right, coarse));
    }
    let scale = fine.min(coarse);
    let aligned = |value: i64, own: i32| {
        let factor = 10_i64.checked_pow(own.checked_sub(scale)?.unsigned_abs())?;
        value.checked_mul(factor)
    };
    Some((aligned(left, fine)?.checked_add(aligned(right, coarse)?)?, scale))
}

/// A number without its last `digits`, rounded away from zero.
fn divided(value: i64, digits: u32) -> i64 {
    let Some(divisor) = 10_i64.checked_pow(digits) else {
        return value.signum();
    };
    let rest = value % divisor;
    value / divisor + rest.signum()
}

/// A whole number without its factors of 1024, and how many there were.
fn without_1024(number: &Decimal) -> (String, usize) {
    let Ok(mut value) = number.text().parse::<u64>() else { return (number.text(), 0) };
    let mut times = 0;
    while value % 1024 == 0 && value > 0 && times < 6 {
        value /= 1024;
        times += 1;
    }
    (value.to_string(), times)
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.amount, &other.amount) {
            (Amount::Small { value, scale }, Amount::Small { value: other, scale: same })
                if scale == same =>
            {
                value.cmp(other)
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

/// Amounts are equal however they are written.
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
    fn suffixes_scale() {
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
    fn odd_forms_that_the_kubelet_takes_are_taken() {
        for text in [".5", "1.", "+1", "007", "1.G", ".", "m", "-", "+"] {
            assert!(Quantity::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn other_text_is_no_quantity() {
        for text in [
            "", "abc", "1 Mi", "100mi", "1gb", "1GB", "1Kib", "12,5", "1e", "1KI", "--1", "1.2.3", "0x10",
            "Ei", "e-10",
        ] {
            assert!(Quantity::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn powers_that_the_kubelet_never_finishes_are_named() {
        for text in ["1e2147483647", "1E9999999", "1e-999999999", "0e999999999"] {
            assert_eq!(Quantity::parse(text), Err(NotAQuantity::Endless), "{text}");
        }
        assert!(Quantity::parse("1e1000").is_ok());
    }

    #[test]
    fn binary_amounts_stop_at_64_bits_and_decimal_ones_do_not() {
        assert_eq!(quantity("9007199254740993Ki"), quantity("9223372036854775807"));
        assert_eq!(quantity("9999999999999999999999999999999999999999999Ei"), quantity("8Ei"));
        assert!(quantity("1e40") > quantity("8Ei"));
        assert!(!quantity("3172558511033790540e19").is_whole());
        assert!(quantity("7").is_whole() && !quantity("7.5").is_whole());
    }

    #[test]
    fn rounding_to_milli_goes_away_from_zero() {
        assert_eq!(quantity("0.0001").rounded_to_milli(), quantity("1m"));
        assert_eq!(quantity("-0.0001").rounded_to_milli(), quantity("-1m"));
        assert_eq!(quantity("1.0000000001").rounded_to_milli(), quantity("1001m"));
    }

    #[test]
    fn amounts_are_written_as_the_kubelet_writes_them() {
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
