//! Decides the type and the value of a YAML scalar, with the rules of YAML 1.1 in go-yaml v2.

use std::sync::Arc;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, PAD};

use crate::timestamp::is_yaml_time;

/// A scalar with its type.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// Null.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number that Go prints as an integer.
    Int(i128),
    /// Any other finite number.
    Float(f64),
    /// `.nan` or `.inf`, which JSON cannot express.
    NotFinite,
    /// Text.
    Str(Arc<str>),
}

/// Why a scalar with an explicit tag has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagFault {
    /// The tag is `!!binary`, but the text is not base64.
    Base64,
    /// The text does not have the type of the tag.
    Mismatch {
        /// The type that the text has.
        found: &'static str,
        /// The type of the tag.
        wanted: String,
    },
}

/// The start of each tag of YAML's own types; `!!int` is the short form of `tag:yaml.org,2002:int`.
const PREFIX: &str = "tag:yaml.org,2002:";

/// Returns the value of a scalar. `plain` is false for quoted and block scalars, which are text if they have no tag.
pub fn resolve(tag: Option<&str>, plain: bool, text: &str) -> Result<Scalar, TagFault> {
    let Some(tag) = tag.filter(|tag| !tag.is_empty()) else {
        return Ok(if plain { implicit(text) } else { string(text) });
    };
    let Some(name) = tag.strip_prefix(PREFIX) else {
        return Ok(string(text));
    };
    match name {
        "binary" => binary(text),
        "bool" | "int" | "float" | "null" | "timestamp" => explicit(name, text),
        _ => Ok(string(text)),
    }
}

fn string(text: &str) -> Scalar {
    Scalar::Str(Arc::from(text))
}

/// Returns the value of a scalar with the tag `wanted`, if the text has that type.
fn explicit(wanted: &str, text: &str) -> Result<Scalar, TagFault> {
    if wanted == "timestamp" && is_yaml_time(text) {
        return Ok(string(text));
    }
    let value = implicit(text);
    let is_float = matches!(value, Scalar::Float(_) | Scalar::NotFinite) || float_text(text).is_some();
    let fits = match (wanted, &value) {
        ("bool", Scalar::Bool(_)) | ("null", Scalar::Null) | ("float", Scalar::Int(_)) => true,
        ("int", Scalar::Int(_)) => integer(&text.replace('_', "")).is_some(),
        ("float", _) => is_float,
        _ => false,
    };
    if fits {
        return Ok(value);
    }
    let found = match value {
        Scalar::Null => "!!null",
        Scalar::Bool(_) => "!!bool",
        Scalar::Int(_) => "!!int",
        Scalar::Float(_) | Scalar::NotFinite => "!!float",
        Scalar::Str(_) => "!!str",
    };
    Err(TagFault::Mismatch { found, wanted: format!("!!{wanted}") })
}

/// Returns the value of a plain scalar without a tag. Its text alone decides the type.
fn implicit(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => {
            return Scalar::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => {
            return Scalar::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf"
        | "-.Inf" | "-.INF" => return Scalar::NotFinite,
        _ => {}
    }
    let number = match text.bytes().next() {
        Some(b'.') => float_text(text),
        Some(b'0'..=b'9' | b'+' | b'-') => number(text),
        _ => None,
    };
    number.unwrap_or_else(|| string(text))
}

fn number(text: &str) -> Option<Scalar> {
    let plain = text.replace('_', "");
    if let Some(value) = integer(&plain) {
        return Some(Scalar::Int(value));
    }
    float_text(&plain)
}

/// Whether go-yaml reads the text as an integer. A float without a fraction, such as `1e3`, is not an integer here.
pub fn is_integer(text: &str) -> bool {
    integer(&text.replace('_', "")).is_some()
}

/// Parses an integer in Go's syntax, in which the prefix decides the base. The number must fit in 64 bits.
fn integer(plain: &str) -> Option<i128> {
    let (sign, signed, digits) = match plain.as_bytes().first() {
        Some(b'-') => (-1, true, plain.get(1..)?),
        Some(b'+') => (1, true, plain.get(1..)?),
        _ => (1, false, plain),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, body) = if let Some(body) = lower.strip_prefix("0x") {
        (16, body)
    } else if let Some(body) = lower.strip_prefix("0b") {
        (2, body)
    } else if let Some(body) = lower.strip_prefix("0o") {
        (8, body)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, lower.get(1..)?)
    } else {
        (10, lower.as_str())
    };
    if body.is_empty() || !body.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let value = i128::from_str_radix(body, base).ok()? * sign;
    let highest = if signed { i128::from(i64::MAX) } else { i128::from(u64::MAX) };
    (i128::from(i64::MIN)..=highest).contains(&value).then_some(value)
}

/// Parses a decimal float in YAML's syntax. If Go prints the float without exponent and fraction, it becomes an integer in
/// the kubelet's JSON.
fn float_text(plain: &str) -> Option<Scalar> {
    if !looks_like_float(plain) {
        return None;
    }
    let value: f64 = plain.parse().ok()?;
    if !value.is_finite() {
        return None;
    }
    Some(integral(value).map_or(Scalar::Float(value), Scalar::Int))
}

/// Returns the integer that Go prints for a float, if Go prints neither a fraction nor an exponent; from 1e21 on, Go
/// prints an exponent.
fn integral(value: f64) -> Option<i128> {
    if value.fract() != 0.0 || value.abs() >= 1e21 {
        return None;
    }
    // Go prints the shortest digits that identify the float, followed by zeros.
    value.to_string().parse().ok()
}

fn looks_like_float(text: &str) -> bool {
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match body.find(['e', 'E']) {
        Some(at) => (body.get(..at).unwrap_or_default(), body.get(at + 1..)),
        None => (body, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa_ok = digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty());
    let exponent_ok = exponent.is_none_or(|exponent| {
        let body = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !body.is_empty() && digits(body)
    });
    mantissa_ok && exponent_ok
}

fn binary(text: &str) -> Result<Scalar, TagFault> {
    let bytes = base64(text).ok_or(TagFault::Base64)?;
    Ok(Scalar::Str(Arc::from(String::from_utf8_lossy(&bytes))))
}

/// Decodes standard base64 with padding. Like Go's decoder, this skips line breaks and ignores unused bits.
fn base64(text: &str) -> Option<Vec<u8>> {
    const LIKE_GO: GeneralPurpose = GeneralPurpose::new(&STANDARD, PAD.with_decode_allow_trailing_bits(true));
    let digits: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    LIKE_GO.decode(digits).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Scalar {
        resolve(None, true, text).unwrap()
    }

    #[test]
    fn integers_are_read_in_every_base() {
        for (text, value) in [
            ("80", 80),
            ("+80", 80),
            ("-80", -80),
            ("0100", 64),
            ("0o20", 16),
            ("0x50", 80),
            ("0X50", 80),
            ("0b11", 3),
            ("-0b11", -3),
            ("1_0", 10),
            ("0", 0),
            ("18446744073709551615", 18_446_744_073_709_551_615),
        ] {
            assert_eq!(plain(text), Scalar::Int(value), "{text}");
        }
    }

    #[test]
    fn floats_without_a_fraction_become_integers() {
        for (text, value) in [("08", 8), ("80.0", 80), ("010.0", 10), ("1e1", 10), (".8e2", 80), ("1.", 1)] {
            assert_eq!(plain(text), Scalar::Int(value), "{text}");
        }
        assert_eq!(plain("80.5"), Scalar::Float(80.5));
        assert_eq!(plain("1.20"), Scalar::Float(1.2));
        assert_eq!(plain("1e21"), Scalar::Float(1e21));
    }

    #[test]
    fn yaml_1_1_words_are_booleans_and_nulls() {
        for text in ["y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"] {
            assert_eq!(plain(text), Scalar::Bool(true), "{text}");
        }
        for text in ["n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"] {
            assert_eq!(plain(text), Scalar::Bool(false), "{text}");
        }
        for text in ["", "~", "null", "Null", "NULL"] {
            assert_eq!(plain(text), Scalar::Null, "{text}");
        }
    }

    #[test]
    fn a_text_that_only_looks_like_a_number_is_a_string() {
        for text in
            ["12:30:45", "2024-01-02", "1.2.3", "-", "+", "0x", "_1", "yES", "1e999", "0xfg", "1e", "e1"]
        {
            assert_eq!(plain(text), string(text), "{text}");
        }
    }

    #[test]
    fn quoted_scalars_are_text_unless_a_tag_says_otherwise() {
        assert_eq!(resolve(None, false, "80").unwrap(), string("80"));
        assert_eq!(resolve(Some("tag:yaml.org,2002:int"), false, "80").unwrap(), Scalar::Int(80));
        assert_eq!(resolve(Some("tag:yaml.org,2002:str"), true, "123").unwrap(), string("123"));
        assert_eq!(resolve(Some("!foo"), true, "123").unwrap(), string("123"));
        assert!(resolve(Some("tag:yaml.org,2002:int"), true, "abc").is_err());
        assert!(resolve(Some("tag:yaml.org,2002:bool"), true, "1").is_err());
    }

    #[test]
    fn a_binary_scalar_is_decoded_from_base64() {
        assert_eq!(resolve(Some("tag:yaml.org,2002:binary"), true, "aGVsbG8=").unwrap(), string("hello"));
        for invalid in ["aGVsbG8", "aGVsbG8==", "aGVs=bG8", "aGV-bG8="] {
            assert_eq!(resolve(Some("tag:yaml.org,2002:binary"), true, invalid), Err(TagFault::Base64));
        }
        assert_eq!(resolve(Some("tag:yaml.org,2002:binary"), true, "aGVs\nbG9=").unwrap(), string("hello"));
    }
}
