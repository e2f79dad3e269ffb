//! Validates the format of names, paths and numbers. Each function returns the problem of a text, or `None` if the text is
//! valid.

use plegctl_node::kubelet::is_address;

/// What is wrong with a text or a number, in words that continue a sentence such as "the name …"; `None` if nothing is
/// wrong.
pub type FormatProblem = Option<&'static str>;

/// A rule for the format of a text.
pub type TextRule = fn(&str) -> FormatProblem;

const LABEL: &str =
    "must be at most 63 lower-case letters, digits and `-`, and start and end with a letter or digit";
const SUBDOMAIN: &str = "must be lower-case letters, digits, `-` and `.`, each part between dots starting and ending with a letter or digit";
const QUALIFIED: &str =
    "must be a name of at most 63 letters, digits, `-`, `_` and `.`, optionally after a DNS prefix and `/`";
const LABEL_VALUE: &str = "must be empty or at most 63 letters, digits, `-`, `_` and `.`, starting and ending with a letter or digit";

/// The kubelet's own texts for these rules (`k8s.io/apimachinery/pkg/util/validation`). It has other texts for a name that is
/// too long, which differ between releases.
const LABEL_WORDS: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_WORDS: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const NAME_PART_WORDS: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE_WORDS: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Returns the kubelet's own text about the problem of a text, if it is known.
pub fn kubelet_words(problem: &str, text: &str) -> Option<String> {
    let words = match (problem, text.split_once('/')) {
        (LABEL, _) if !is_label_of_any_length(text) => LABEL_WORDS,
        (SUBDOMAIN, _) => SUBDOMAIN_WORDS,
        (LABEL_VALUE, _) if text.len() <= 63 => LABEL_VALUE_WORDS,
        (QUALIFIED, None) if text.len() <= 63 && !text.is_empty() => NAME_PART_WORDS,
        (QUALIFIED, Some((prefix, name))) if !prefix.is_empty() && !name.contains('/') => {
            if subdomain(prefix) == Some(SUBDOMAIN) {
                return Some(format!("prefix part {SUBDOMAIN_WORDS}"));
            }
            (!name.is_empty() && name.len() <= 63).then_some(NAME_PART_WORDS)?
        }
        _ => return None,
    };
    Some(words.to_owned())
}

fn alphanumeric_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// Whether `is_allowed` is true for all bytes of a text, and `is_end` for the first and the last byte.
fn consists_of(text: &str, is_end: fn(u8) -> bool, is_allowed: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|byte| is_end(*byte))
        && bytes.last().is_some_and(|byte| is_end(*byte))
        && bytes.iter().all(|byte| is_allowed(*byte))
}

/// Whether a text has the form of an RFC 1123 label, of any length.
fn is_label_of_any_length(text: &str) -> bool {
    consists_of(text, alphanumeric_lower, |byte| alphanumeric_lower(byte) || byte == b'-')
}

/// Validates an RFC 1123 label.
pub fn label(text: &str) -> FormatProblem {
    (text.len() > 63 || !is_label_of_any_length(text)).then_some(LABEL)
}

/// Validates an RFC 1123 subdomain.
pub fn subdomain(text: &str) -> FormatProblem {
    if text.len() > 253 {
        return Some("must be no more than 253 characters long");
    }
    (!text.split('.').all(is_label_of_any_length)).then_some(SUBDOMAIN)
}

/// Validates the prefix of a name: a subdomain that may end with a dash, because the API server appends text.
pub fn object_prefix(text: &str) -> FormatProblem {
    match text.strip_suffix('-') {
        // Like the API server, replaces the last two characters, a dash and the one before it, by the letter `a`. So
        // the API server accepts any character before the dash.
        Some(rest) if text.len() > 1 => {
            let shortened =
                rest.char_indices().next_back().map_or("", |(last, _)| rest.get(..last).unwrap_or_default());
            subdomain(&format!("{shortened}a"))
        }
        _ => subdomain(text),
    }
}

/// Validates a DNS search path by the rule of newer releases, which allow underscores. These releases also allow `.` as
/// the whole path, which the caller checks.
pub fn relaxed_search(text: &str) -> FormatProblem {
    let part = |part: &str| {
        let inner = |byte: u8| alphanumeric_lower(byte) || matches!(byte, b'-' | b'_');
        consists_of(part.strip_prefix('_').unwrap_or(part), alphanumeric_lower, inner)
    };
    if text.len() > 253 {
        return Some("must be no more than 253 characters long");
    }
    (!text.split('.').all(part)).then_some(SUBDOMAIN)
}

/// Whether a text is valid as the part after the `/` of a qualified name (`prefix/name`), or as the value of a label.
fn is_name_part(text: &str) -> bool {
    text.len() <= 63 && consists_of(text, |byte| byte.is_ascii_alphanumeric(), is_name_byte)
}

/// Validates `name` or `dns.prefix/name`.
pub fn qualified(text: &str) -> FormatProblem {
    let good = match text.split_once('/') {
        Some((prefix, name)) => subdomain(prefix).is_none() && is_name_part(name),
        None => is_name_part(text),
    };
    (!good).then_some(QUALIFIED)
}

/// Validates the value of a label.
pub fn label_value(text: &str) -> FormatProblem {
    (!text.is_empty() && !is_name_part(text)).then_some(LABEL_VALUE)
}

/// Validates the name of an environment variable by the relaxed rule, which allows almost any text.
pub fn relaxed_env(text: &str) -> FormatProblem {
    let good = !text.is_empty() && text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=');
    (!good).then_some("must be printable ASCII characters other than `=`")
}

/// Validates the name of an environment variable by the old rule.
pub fn strict_env(text: &str) -> FormatProblem {
    let digit_first = text.bytes().next().is_none_or(|byte| byte.is_ascii_digit());
    if digit_first || !text.bytes().all(is_name_byte) {
        return Some("must be letters, digits, `_`, `-` and `.`, and must not start with a digit");
    }
    dots(text)
}

/// Rejects `.` and names that start with `..`.
fn dots(text: &str) -> FormatProblem {
    (text == "." || text.starts_with("..")).then_some("must not be `.` and must not start with `..`")
}

/// Validates a key of a config map or a secret.
pub fn config_key(text: &str) -> FormatProblem {
    if text.is_empty() || text.len() > 253 || !text.bytes().all(is_name_byte) {
        return Some("must be at most 253 letters, digits, `-`, `_` and `.`");
    }
    dots(text)
}

/// Validates the name of a port.
pub fn port(text: &str) -> FormatProblem {
    if text.len() > 15 {
        return Some("must be no more than 15 characters long");
    }
    let shape = text.bytes().all(|byte| alphanumeric_lower(byte) || byte == b'-');
    let has_wrong_dash = text.starts_with('-') || text.ends_with('-') || text.contains("--");
    let letter = text.bytes().any(|byte| byte.is_ascii_lowercase());
    (!shape || has_wrong_dash || !letter)
        .then_some("must be lower-case letters, digits and single inner `-`, with at least one letter")
}

/// Validates the name of an HTTP header.
pub fn header(text: &str) -> FormatProblem {
    let good = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (!good).then_some("must be letters, digits and `-`")
}

/// Validates a port number.
pub fn port_number(number: i64) -> FormatProblem {
    (!(1..=65_535).contains(&number)).then_some("must be between 1 and 65535")
}

/// Validates a path below another path: it must be relative and must not contain `..`.
pub fn descending_path(text: &str) -> FormatProblem {
    if text.starts_with('/') {
        return Some("must be a relative path");
    }
    no_backsteps(text)
}

/// Validates the path of a file that the kubelet creates in a volume: it must be relative, must not contain `..` as a
/// part, and must not start with `..`.
pub fn local_path(text: &str) -> FormatProblem {
    descending_path(text).or_else(|| text.starts_with("..").then_some("must not start with `..`"))
}

/// Validates a path without `..` elements.
pub fn no_backsteps(text: &str) -> FormatProblem {
    text.split('/').any(|part| part == "..").then_some("must not contain `..`")
}

/// Validates an IP address by the lenient rules of old Go releases. The kubelet still uses these rules.
pub fn ip(text: &str) -> FormatProblem {
    (!is_address(text)).then_some("must be an IP address")
}

/// Validates an IP address that [`ip`] accepts by the strict rules of newer kubelets.
pub fn strict_ip(text: &str) -> FormatProblem {
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

    /// Asserts that a rule accepts all good texts and rejects all bad texts.
    fn assert_rule(check: impl Fn(&str) -> FormatProblem, good: &[&str], bad: &[&str]) {
        for text in good {
            assert_eq!(check(text), None, "{text:?} is good");
        }
        for text in bad {
            assert!(check(text).is_some(), "{text:?} is bad");
        }
    }

    #[test]
    fn labels_follow_rfc_1123() {
        let long = "a".repeat(64);
        assert_rule(label, &["a", "a-b", "1", &long[..63]], &["", "-a", "a-", "A", "a.b", "a_b", &long]);
    }

    #[test]
    fn subdomains_and_search_paths_have_valid_labels() {
        let long = "a".repeat(254);
        assert_rule(
            subdomain,
            &["a", "a.b-c.d", &long[..253]],
            &["", ".", "a.", ".a", "a..b", "A", "a_b", &long],
        );
        assert_rule(relaxed_search, &["a_b.c", "_x"], &["", "a..b", "A", "__x", "x_"]);
    }

    #[test]
    fn label_keys_and_values_have_different_rules() {
        assert_rule(qualified, &["a", "A.b_c-1", "x.y/Z"], &["", "/a", "a/", "a/b/c", "-a", "X/y", "a b"]);
        assert_rule(label_value, &["", "a", "A.b_c-1"], &["-a", "a b", "a/", &"x".repeat(64)]);
    }

    #[test]
    fn environment_names_have_a_strict_and_a_relaxed_rule() {
        assert_rule(strict_env, &["A", "_a.b-c", ".a"], &["", "1A", "a b", "a=b", ".", "..", "..a"]);
        assert_rule(relaxed_env, &["1A", "a b", ".."], &["", "a=b", "ä", "a\n"]);
    }

    #[test]
    fn port_names_and_config_map_keys_have_allowed_characters_and_lengths() {
        assert_rule(port, &["http", "a-1", "1a"], &["", "-a", "a-", "a--b", "80", "HTTP", &"a".repeat(16)]);
        assert_rule(config_key, &["a", "A.b_c-1", ".a"], &["", ".", "..", "..a", "a/b", &"a".repeat(254)]);
    }

    #[test]
    fn addresses_may_have_leading_zeros_but_no_zone_or_port() {
        assert_rule(
            ip,
            &["1.2.3.4", "01.02.3.4", "::1", "fe80::1", "::ffff:1.2.3.4"],
            &["", "1.2.3", "300.1.1.1", "1.2.3.4.5", "fe80::1%eth0", "x", "1.2.3.4:80"],
        );
    }

    #[test]
    fn paths_must_stay_below_their_directory() {
        assert_rule(descending_path, &["", "a/b", "..a", "a..b"], &["/a", "..", "a/../b", "../a"]);
        assert_rule(local_path, &["a/b", "a..b"], &["..a", "..", "/a"]);
    }
}
