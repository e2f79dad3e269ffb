//! Validates the format of names. Each function returns the problem of a text, or `None`.

use crate::kubelet::is_address;

/// The problem, in words that complete "the name ".
pub type NameProblem = Option<&'static str>;

const LABEL: &str =
    "must be at most 63 lower-case letters, digits and `-`, and start and end with a letter or digit";
const SUBDOMAIN: &str = "must be lower-case letters, digits, `-` and `.`, each part between dots starting and ending with a letter or digit";
const QUALIFIED: &str =
    "must be a name of at most 63 letters, digits, `-`, `_` and `.`, optionally after a DNS prefix and `/`";

fn alphanumeric_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn bordered(text: &str, border: fn(u8) -> bool, inner: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|byte| border(*byte))
        && bytes.last().is_some_and(|byte| border(*byte))
        && bytes.iter().all(|byte| inner(*byte))
}

fn label_shape(text: &str) -> bool {
    bordered(text, alphanumeric_lower, |byte| alphanumeric_lower(byte) || byte == b'-')
}

/// Validates an RFC 1123 label.
pub fn label(text: &str) -> NameProblem {
    (text.len() > 63 || !label_shape(text)).then_some(LABEL)
}

/// Validates an RFC 1123 subdomain.
pub fn subdomain(text: &str) -> NameProblem {
    if text.len() > 253 {
        return Some("must be no more than 253 characters long");
    }
    (!text.split('.').all(label_shape)).then_some(SUBDOMAIN)
}

/// Validates the prefix of a name: a subdomain that may end in a dash, because text is appended.
pub fn object_prefix(text: &str) -> NameProblem {
    match text.strip_suffix('-') {
        Some(rest) if text.len() > 1 => {
            let kept =
                rest.char_indices().next_back().map_or("", |(last, _)| rest.get(..last).unwrap_or_default());
            subdomain(&format!("{kept}a"))
        }
        _ => subdomain(text),
    }
}

/// Validates a DNS search path by the rule of newer releases, which allow underscores and a single dot.
pub fn relaxed_search(text: &str) -> NameProblem {
    let part = |part: &str| {
        let inner = |byte: u8| alphanumeric_lower(byte) || matches!(byte, b'-' | b'_');
        bordered(part.strip_prefix('_').unwrap_or(part), alphanumeric_lower, inner)
    };
    if text.len() > 253 {
        return Some("must be no more than 253 characters long");
    }
    (!text.split('.').all(part)).then_some(SUBDOMAIN)
}

fn name_part(text: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_alphanumeric();
    text.len() <= 63
        && bordered(text, alphanumeric, |byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
        })
}

/// Validates `name` or `dns.prefix/name`.
pub fn qualified(text: &str) -> NameProblem {
    let good = match text.split_once('/') {
        Some((prefix, name)) => subdomain(prefix).is_none() && name_part(name),
        None => name_part(text),
    };
    (!good).then_some(QUALIFIED)
}

/// Validates the value of a label.
pub fn label_value(text: &str) -> NameProblem {
    (!text.is_empty() && !name_part(text))
        .then_some("must be empty or at most 63 letters, digits, `-`, `_` and `.`, starting and ending with a letter or digit")
}

/// Validates the name of an environment variable, by the old rule or by the relaxed rule that allows almost any text.
pub fn env(text: &str, relaxed: bool) -> NameProblem {
    if relaxed {
        let good = !text.is_empty() && text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=');
        return (!good).then_some("must be printable ASCII characters other than `=`");
    }
    let shape = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let digit_first = text.bytes().next().is_none_or(|byte| byte.is_ascii_digit());
    if digit_first || !text.bytes().all(shape) {
        return Some("must be letters, digits, `_`, `-` and `.`, and must not start with a digit");
    }
    dots(text)
}

fn dots(text: &str) -> NameProblem {
    (text == "." || text.starts_with("..")).then_some("must not be `.` and must not start with `..`")
}

/// Validates a key of a config map or a secret.
pub fn config_key(text: &str) -> NameProblem {
    let shape = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if text.is_empty() || text.len() > 253 || !text.bytes().all(shape) {
        return Some("must be at most 253 letters, digits, `-`, `_` and `.`");
    }
    dots(text)
}

/// Validates the name of a port.
pub fn port(text: &str) -> NameProblem {
    if text.len() > 15 {
        return Some("must be no more than 15 characters long");
    }
    let shape = text.bytes().all(|byte| alphanumeric_lower(byte) || byte == b'-');
    let edges = text.starts_with('-') || text.ends_with('-') || text.contains("--");
    let letter = text.bytes().any(|byte| byte.is_ascii_lowercase());
    (!shape || edges || !letter)
        .then_some("must be lower-case letters, digits and single inner `-`, with at least one letter")
}

/// Validates the name of an HTTP header.
pub fn header(text: &str) -> NameProblem {
    let good = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (!good).then_some("must be letters, digits and `-`")
}

/// Validates a port number.
pub fn port_number(number: i64) -> NameProblem {
    (!(1..=65_535).contains(&number)).then_some("must be between 1 and 65535")
}

/// Validates a user or group id.
pub fn id_number(number: i64) -> NameProblem {
    (!(0..=2_147_483_647).contains(&number)).then_some("must be between 0 and 2147483647")
}

/// Validates file permission bits.
pub fn file_mode(number: i64) -> NameProblem {
    (!(0..=0o777).contains(&number)).then_some("must be between 0 and 0777")
}

/// Validates a path below another path: not absolute and without `..`.
pub fn descending_path(text: &str) -> NameProblem {
    if text.starts_with('/') {
        return Some("must be a relative path");
    }
    no_backsteps(text)
}

/// Validates a path that may become a file name: it must not start with `..`.
pub fn local_path(text: &str) -> NameProblem {
    descending_path(text).or_else(|| text.starts_with("..").then_some("must not start with `..`"))
}

/// Validates a path without `..` elements.
pub fn no_backsteps(text: &str) -> NameProblem {
    text.split('/').any(|part| part == "..").then_some("must not contain `..`")
}

/// Validates an IP address with the lenient parser that the kubelet inherited from older Go releases.
pub fn ip(text: &str) -> NameProblem {
    (!is_address(text)).then_some("must be an IP address")
}

/// Returns the problem of an address that the lenient parser accepts and the strict parser does not.
pub fn strict_ip(text: &str) -> NameProblem {
    if text.split(['.', ':']).any(|part| part.len() > 1 && part.starts_with('0')) && !text.contains(':') {
        return Some("must not have leading zeros");
    }
    let mapped = |address: std::net::Ipv6Addr| address.to_ipv4_mapped().is_some();
    (text.contains(':') && text.parse().is_ok_and(mapped))
        .then_some("must not be an IPv4 address written as IPv6")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks valid and invalid texts.
    fn table(check: impl Fn(&str) -> NameProblem, good: &[&str], bad: &[&str]) {
        for text in good {
            assert_eq!(check(text), None, "{text:?} is good");
        }
        for text in bad {
            assert!(check(text).is_some(), "{text:?} is bad");
        }
    }

    #[test]
    fn labels() {
        let long = "a".repeat(64);
        table(label, &["a", "a-b", "1", &long[..63]], &["", "-a", "a-", "A", "a.b", "a_b", &long]);
    }

    #[test]
    fn subdomains() {
        let long = "a".repeat(254);
        table(subdomain, &["a", "a.b-c.d", &long[..253]], &["", ".", "a.", ".a", "a..b", "A", "a_b", &long]);
        table(relaxed_search, &["a_b.c", "_x"], &["", "a..b", "A", "__x", "x_"]);
    }

    #[test]
    fn qualified_names_and_values() {
        table(qualified, &["a", "A.b_c-1", "x.y/Z"], &["", "/a", "a/", "a/b/c", "-a", "X/y", "a b"]);
        table(label_value, &["", "a", "A.b_c-1"], &["-a", "a b", "a/", &"x".repeat(64)]);
    }

    #[test]
    fn environment_names_by_both_rules() {
        table(|text| env(text, false), &["A", "_a.b-c", ".a"], &["", "1A", "a b", "a=b", ".", "..", "..a"]);
        table(|text| env(text, true), &["1A", "a b", ".."], &["", "a=b", "ä", "a\n"]);
    }

    #[test]
    fn ports_and_keys() {
        table(port, &["http", "a-1", "1a"], &["", "-a", "a-", "a--b", "80", "HTTP", &"a".repeat(16)]);
        table(config_key, &["a", "A.b_c-1", ".a"], &["", ".", "..", "..a", "a/b", &"a".repeat(254)]);
    }

    #[test]
    fn addresses() {
        table(
            ip,
            &["1.2.3.4", "01.02.3.4", "::1", "fe80::1", "::ffff:1.2.3.4"],
            &["", "1.2.3", "300.1.1.1", "1.2.3.4.5", "fe80::1%eth0", "x", "1.2.3.4:80"],
        );
    }

    #[test]
    fn paths() {
        table(descending_path, &["", "a/b", "..a", "a..b"], &["/a", "..", "a/../b", "../a"]);
        table(local_path, &["a/b", "a..b"], &["..a", "..", "/a"]);
    }
}
