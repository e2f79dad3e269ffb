//! The shapes of names: each function says what is wrong with a text, or nothing.

use crate::kubelet::is_address;

/// What is wrong, in words that complete "the name ".
pub type Wrong = Option<&'static str>;

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

/// An RFC 1123 label.
pub fn label(text: &str) -> Wrong {
    (text.len() > 63 || !label_shape(text)).then_some(LABEL)
}

/// An RFC 1123 subdomain.
pub fn subdomain(text: &str) -> Wrong {
    if text.len() > 253 {
        return Some("must be no more than 253 characters long");
    }
    (!text.split('.').all(label_shape)).then_some(SUBDOMAIN)
}

/// The beginning of a name: a subdomain to which something is added, so that it may end in a dash.
pub fn object_prefix(text: &str) -> Wrong {
    match text.strip_suffix('-') {
        Some(rest) if text.len() > 1 => {
            let kept =
                rest.char_indices().next_back().map_or("", |(last, _)| rest.get(..last).unwrap_or_default());
            subdomain(&format!("{kept}a"))
        }
        _ => subdomain(text),
    }
}

/// A DNS search path as newer releases take it: underscores and a lone dot are fine.
pub fn relaxed_search(text: &str) -> Wrong {
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

/// `name` or `dns.prefix/name`.
pub fn qualified(text: &str) -> Wrong {
    let good = match text.split_once('/') {
        Some((prefix, name)) => subdomain(prefix).is_none() && name_part(name),
        None => name_part(text),
    };
    (!good).then_some(QUALIFIED)
}

/// The value of a label.
pub fn label_value(text: &str) -> Wrong {
    (!text.is_empty() && !name_part(text))
        .then_some("must be empty or at most 63 letters, digits, `-`, `_` and `.`, starting and ending with a letter or digit")
}

/// The name of an environment variable, by the old rule or by the one that lets almost anything pass.
pub fn env(text: &str, relaxed: bool) -> Wrong {
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

fn dots(text: &str) -> Wrong {
    (text == "." || text.starts_with("..")).then_some("must not be `.` and must not start with `..`")
}

/// A key of a config map or a secret.
pub fn config_key(text: &str) -> Wrong {
    let shape = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if text.is_empty() || text.len() > 253 || !text.bytes().all(shape) {
        return Some("must be at most 253 letters, digits, `-`, `_` and `.`");
    }
    dots(text)
}

/// The name of a port.
pub fn port(text: &str) -> Wrong {
    if text.len() > 15 {
        return Some("must be no more than 15 characters long");
    }
    let shape = text.bytes().all(|byte| alphanumeric_lower(byte) || byte == b'-');
    let edges = text.starts_with('-') || text.ends_with('-') || text.contains("--");
    let letter = text.bytes().any(|byte| byte.is_ascii_lowercase());
    (!shape || edges || !letter)
        .then_some("must be lower-case letters, digits and single inner `-`, with at least one letter")
}

/// The name of an HTTP header.
pub fn header(text: &str) -> Wrong {
    let good = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (!good).then_some("must be letters, digits and `-`")
}

/// A port number.
pub fn port_number(number: i64) -> Wrong {
    (!(1..=65_535).contains(&number)).then_some("must be between 1 and 65535")
}

/// A user or group number.
pub fn id_number(number: i64) -> Wrong {
    (!(0..=2_147_483_647).contains(&number)).then_some("must be between 0 and 2147483647")
}

/// File permission bits.
pub fn file_mode(number: i64) -> Wrong {
    (!(0..=0o777).contains(&number)).then_some("must be between 0 and 0777")
}

/// A path below another one: not absolute and without `..`.
pub fn descending_path(text: &str) -> Wrong {
    if text.starts_with('/') {
        return Some("must be a relative path");
    }
    no_backsteps(text)
}

/// A path that may become a file name of its own: it does not even start with `..`.
pub fn local_path(text: &str) -> Wrong {
    descending_path(text).or_else(|| text.starts_with("..").then_some("must not start with `..`"))
}

/// A path without `..` elements.
pub fn no_backsteps(text: &str) -> Wrong {
    text.split('/').any(|part| part == "..").then_some("must not contain `..`")
}

/// An IP address as Go's older, sloppy parser takes it.
pub fn ip(text: &str) -> Wrong {
    (!is_address(text)).then_some("must be an IP address")
}

/// What is wrong with the spelling of an address that the older parser takes.
pub fn strict_ip(text: &str) -> Wrong {
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

    /// Texts that are fine and texts that are not.
    fn table(check: impl Fn(&str) -> Wrong, good: &[&str], bad: &[&str]) {
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
