//! Reads the subject and the validity of certificates, and checks whether a private key belongs to a certificate.
//!
//! This module verifies no signature. It reads the few fields directly from the DER encoding (RFC 5280), so that no
//! parser of all of X.509 is needed.

use tokio_rustls::rustls::crypto::ring::sign::any_supported_type;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{Error, InconsistentKeys};

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The object id 2.5.4.3, the common name.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
/// The object id 2.5.4.10, the organization.
const ORGANIZATION: [u8; 3] = [0x55, 0x04, 0x0a];

/// The subject and the validity of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The first second of its validity, since the Unix epoch.
    pub not_before: i64,
    /// The last second of its validity.
    pub not_after: i64,
    /// The common name of its subject.
    pub common_name: Option<String>,
    /// The organizations of its subject.
    pub organizations: Vec<String>,
}

/// The certificates of a PEM text, and whether the text's private key belongs to the first of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateChain {
    /// The certificates, in their order.
    pub certificates: Vec<CertificateFacts>,
    /// Whether the key belongs to the first certificate; `None` if there is no key or it cannot be compared.
    pub key_matches: Option<bool>,
}

impl CertificateChain {
    /// Reads the certificates of `pem` and the private key of `key`, which may be the same text. Certificates that
    /// cannot be read are left out.
    pub fn read(pem: &[u8], key: Option<&[u8]>) -> Self {
        let chain: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect();
        let certificates = chain.iter().filter_map(|der| facts(der)).collect();
        Self { certificates, key_matches: key.and_then(|key| matches_key(chain, key)) }
    }
}

/// Whether the key belongs to the first certificate of the chain.
fn matches_key(chain: Vec<CertificateDer<'static>>, key: &[u8]) -> Option<bool> {
    let key = PrivateKeyDer::from_pem_slice(key).ok()?;
    if chain.is_empty() {
        return None;
    }
    match CertifiedKey::new(chain, any_supported_type(&key).ok()?).keys_match() {
        Ok(()) => Some(true),
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => Some(false),
        Err(_) => None,
    }
}

/// Splits off the first DER element: returns its tag, its content, and the bytes after it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match *first {
        short @ 0..=0x7f => (usize::from(short), rest),
        // A length of up to four bytes; a certificate has only some kilobytes.
        long @ 0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            (digits.iter().fold(0, |sum: usize, digit| (sum << 8) | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

/// Splits off the first DER element if it has the tag `wanted`: returns its content and the bytes after it.
fn element_with_tag(bytes: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    element(bytes).filter(|(tag, _, _)| *tag == wanted).map(|(_, content, rest)| (content, rest))
}

/// Reads the facts of one certificate; `None` if its encoding is not as expected.
fn facts(der: &[u8]) -> Option<CertificateFacts> {
    let (certificate, _) = element_with_tag(der, SEQUENCE)?;
    let (signed, _) = element_with_tag(certificate, SEQUENCE)?;
    // The version is left out in certificates of version 1.
    let rest = element_with_tag(signed, VERSION).map_or(signed, |(_, rest)| rest);
    // Skip the serial number, the algorithm and the issuer.
    let rest = (0..3).try_fold(rest, |rest, _| element(rest).map(|(_, _, rest)| rest))?;
    let (validity, rest) = element_with_tag(rest, SEQUENCE)?;
    let (tag, text, later) = element(validity)?;
    let not_before = moment(tag, text)?;
    let (tag, text, _) = element(later)?;
    let not_after = moment(tag, text)?;
    let (subject, _) = element_with_tag(rest, SEQUENCE)?;
    Some(CertificateFacts {
        not_before,
        not_after,
        common_name: attributes(subject, COMMON_NAME).pop(),
        organizations: attributes(subject, ORGANIZATION),
    })
}

/// Returns the values of one attribute of a subject.
fn attributes(mut name: &[u8], wanted: [u8; 3]) -> Vec<String> {
    let mut found = Vec::new();
    while let Some((mut set, rest)) = element_with_tag(name, SET) {
        while let Some((attribute, others)) = element_with_tag(set, SEQUENCE) {
            if let Some((id, value)) = element_with_tag(attribute, OBJECT_ID)
                && id == wanted
                && let Some((_, text, _)) = element(value)
            {
                found.push(String::from_utf8_lossy(text).into_owned());
            }
            set = others;
        }
        name = rest;
    }
    found
}

/// Parses a time of the form `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ` to seconds since the Unix epoch.
fn moment(tag: u8, text: &[u8]) -> Option<i64> {
    let digits = text.strip_suffix(b"Z")?;
    let number = |from: usize, length: usize| -> Option<i64> {
        let digits = digits.get(from..from + length)?;
        digits
            .iter()
            .try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0')))
    };
    let (year, month_at) = match (tag, digits.len()) {
        // Two digits mean 1950 to 2049 (RFC 5280, 4.1.2.5.1).
        (UTC_TIME, 12) => (number(0, 2)?, 2),
        (GENERALIZED_TIME, 14) => (number(0, 4)?, 4),
        _ => return None,
    };
    let year = match tag {
        UTC_TIME if year < 50 => year + 2000,
        UTC_TIME => year + 1900,
        _ => year,
    };
    let part = |index: usize| number(month_at + 2 * index, 2);
    let (month, day, hour, minute, second) = (part(0)?, part(1)?, part(2)?, part(3)?, part(4)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    Some(days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Returns the number of days from 1970-01-01 to a date of the Gregorian calendar. The computation lets a year begin
/// in March, so that a leap day is the last day of its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_years = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // 719 468 days from 0000-03-01 to 1970-01-01.
    of_years + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_time_are_read() {
        assert_eq!(moment(UTC_TIME, b"700101000000Z"), Some(0));
        assert_eq!(moment(UTC_TIME, b"491231235959Z"), Some(2_524_607_999));
        assert_eq!(moment(GENERALIZED_TIME, b"20261123150000Z"), Some(1_795_446_000));
        assert_eq!(moment(GENERALIZED_TIME, b"99991231235959Z"), Some(253_402_300_799));
        assert_eq!(moment(GENERALIZED_TIME, b"20240229000000Z"), Some(1_709_164_800));
        for bad in [b"20261323150000Z".as_slice(), b"2026112315000Z", b"20261123150000", b"2026112315000xZ"] {
            assert_eq!(moment(GENERALIZED_TIME, bad), None);
        }
    }

    const CLIENT: &[u8] = include_bytes!("../../../../tests/fleet/pki/client.crt");
    const CLIENT_KEY: &[u8] = include_bytes!("../../../../tests/fleet/pki/client.key");
    const SERVER_KEY: &[u8] = include_bytes!("../../../../tests/fleet/pki/server.key");

    #[test]
    fn subject_validity_and_key_of_a_certificate_are_read() {
        let chain = CertificateChain::read(CLIENT, Some(CLIENT_KEY));
        let [facts] = chain.certificates.as_slice() else { panic!("{chain:?}") };
        assert_eq!(
            (facts.common_name.as_deref(), facts.organizations.as_slice()),
            (Some("somebody"), ["system:masters".to_owned()].as_slice())
        );
        assert!(facts.not_before < facts.not_after, "{facts:?}");
        assert_eq!(chain.key_matches, Some(true));
        assert_eq!(CertificateChain::read(CLIENT, Some(SERVER_KEY)).key_matches, Some(false));
        let both = [CLIENT, CLIENT_KEY].concat();
        assert_eq!(CertificateChain::read(&both, Some(&both)).key_matches, Some(true));
        assert_eq!(CertificateChain::read(CLIENT, None).key_matches, None);
        assert!(CertificateChain::read(b"no PEM", Some(b"no key")).certificates.is_empty());
    }

    #[test]
    fn a_certificate_that_is_cut_off_has_no_facts() {
        let whole = CertificateDer::pem_slice_iter(CLIENT).next().unwrap().unwrap();
        assert!(facts(&whole).is_some());
        for length in 0..whole.len() {
            assert_eq!(facts(&whole[..length]), None, "{length}");
        }
    }
}
