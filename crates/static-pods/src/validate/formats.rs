//! The formats of texts that the table names.

use plegctl_api_values::names;
pub use plegctl_api_values::names::{FormatProblem, TextRule};

use crate::image_name::is_host_label;
use crate::sysctl::dotted;

/// Returns the format with this name in the table.
pub fn format(name: &str) -> Option<TextRule> {
    FORMATS.iter().find(|(known, _)| *known == name).map(|(_, format)| *format)
}

const FORMATS: &[(&str, TextRule)] = &[
    ("config-key", names::config_key),
    ("descending-path", names::descending_path),
    ("env-name", names::strict_env),
    ("finalizer", finalizer),
    ("group-version", group_version),
    ("header", names::header),
    ("host-port-list", host_port_list),
    ("ip", names::ip),
    ("iscsi-name", iscsi_name),
    ("label", names::label),
    ("label-value", names::label_value),
    ("linux-signal", linux_signal),
    ("local-path", names::local_path),
    ("lower-subdomain", |text| names::subdomain(&text.to_lowercase())),
    ("no-backsteps", names::no_backsteps),
    ("no-slash", |text| text.contains('/').then_some("must not contain `/`")),
    ("not-blank", |text| text.trim().is_empty().then_some("must not be blank")),
    ("not-of-ipc", not_of_ipc),
    ("not-of-network", not_of_network),
    ("object-prefix", names::object_prefix),
    ("port-name", names::port),
    ("printable", printable),
    ("qualified", names::qualified),
    ("relaxed-env-name", names::relaxed_env),
    ("relaxed-search", relaxed_search),
    ("search", |text| names::subdomain(text.strip_suffix('.').unwrap_or(text))),
    ("signer", signer),
    ("strict-ip", names::strict_ip),
    ("subdomain", names::subdomain),
    ("sysctl", sysctl),
    ("trimmed", |text| (text.trim() != text).then_some("must not start or end with white space")),
    ("windows-user", windows_user),
];

fn finalizer(text: &str) -> FormatProblem {
    let is_standard = matches!(text, "kubernetes" | "orphan" | "foregroundDeletion");
    (!is_standard && !text.contains('/'))
        .then_some("must be a standard finalizer or have a domain and `/` before its name")
}

fn group_version(text: &str) -> FormatProblem {
    let version = match text.split_once('/') {
        Some((_, version)) => version,
        None => text,
    };
    (version.is_empty() || version.contains('/')).then_some("must name a version")
}

fn printable(text: &str) -> FormatProblem {
    let is_odd = |letter: char| letter.is_control() || (letter.is_whitespace() && letter != ' ');
    text.contains(is_odd).then_some("must be printable")
}

/// A search path by the rule of releases from 1.35 on, which also allow `.`.
fn relaxed_search(text: &str) -> FormatProblem {
    if text == "." { None } else { names::relaxed_search(text.strip_suffix('.').unwrap_or(text)) }
}

fn signer(text: &str) -> FormatProblem {
    let is_signer = text
        .split_once('/')
        .is_some_and(|(domain, path)| names::subdomain(domain).is_none() && !path.is_empty());
    (!is_signer).then_some("must be a domain and a path, such as `example.com/signer`")
}

fn sysctl(name: &str) -> FormatProblem {
    let is_edge = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        bytes.first().is_some_and(is_edge)
            && bytes.last().is_some_and(is_edge)
            && bytes.iter().all(|byte| is_edge(byte) || matches!(byte, b'-' | b'_'))
    };
    (name.len() > 253 || !name.split(['.', '/']).all(is_part))
        .then_some("must be lower-case letters, digits, `-`, `_`, with `.` or `/` between the parts")
}

fn not_of_ipc(sysctl: &str) -> FormatProblem {
    let name = dotted(sysctl);
    let is_of_ipc = name == "kernel.sem"
        || ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|start| name.starts_with(start));
    is_of_ipc.then_some("may not be set together with hostIPC")
}

fn not_of_network(sysctl: &str) -> FormatProblem {
    dotted(sysctl).starts_with("net.").then_some("may not be set together with hostNetwork")
}

fn linux_signal(name: &str) -> FormatProblem {
    (!is_linux_signal(name)).then_some("must be a Linux signal such as SIGTERM")
}

fn is_linux_signal(name: &str) -> bool {
    const NAMES: [&str; 36] = [
        "ABRT", "ALRM", "BUS", "CHLD", "CLD", "CONT", "FPE", "HUP", "ILL", "INT", "IO", "IOT", "KILL",
        "PIPE", "POLL", "PROF", "PWR", "QUIT", "SEGV", "STKFLT", "STOP", "SYS", "TERM", "TRAP", "TSTP",
        "TTIN", "TTOU", "URG", "USR1", "USR2", "VTALRM", "WINCH", "XCPU", "XFSZ", "RTMIN", "RTMAX",
    ];
    let Some(short) = name.strip_prefix("SIG") else { return false };
    let has_offset = |start: &str, highest: u8| {
        let offset = short.strip_prefix(start).and_then(|rest| rest.parse().ok());
        offset.is_some_and(|offset: u8| (1..=highest).contains(&offset))
    };
    NAMES.contains(&short) || has_offset("RTMIN+", 15) || has_offset("RTMAX-", 14)
}

/// The name of an iSCSI target, which starts with `iqn`, `eui` or `naa`.
fn iscsi_name(name: &str) -> FormatProblem {
    let (kind, rest) = name.split_at_checked(3).unwrap_or_default();
    let has_digits = |count: usize| {
        rest.len() == count + 1 && rest.bytes().skip(1).all(|byte| byte.is_ascii_alphanumeric())
    };
    let is_name = match kind {
        "eui" => has_digits(16),
        "naa" => has_digits(32),
        "iqn" => name.match_indices("iqn.").any(|(at, _)| is_iqn(name.get(at + 4..).unwrap_or_default())),
        _ => false,
    };
    (!is_name).then_some("must be an iqn, eui or naa name")
}

/// Whether the text after `iqn.` is valid, such as `2001-04.com.example:storage`.
fn is_iqn(rest: &str) -> bool {
    let bytes = rest.as_bytes();
    let digits = |range: std::ops::Range<usize>| {
        bytes.get(range).is_some_and(|part| part.iter().all(u8::is_ascii_digit))
    };
    let has_date = digits(0..4) && bytes.get(4) == Some(&b'-') && digits(5..7) && bytes.get(7) == Some(&b'.');
    let Some((authority, unit)) = rest.get(8..).and_then(|rest| rest.split_once(':')) else { return false };
    let is_odd = |letter: char| matches!(letter, ',' | ';' | '*' | '&' | '$' | '|') || letter.is_whitespace();
    has_date
        && !authority.is_empty()
        && authority.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
        && !unit.is_empty()
        && !unit.contains(is_odd)
}

fn host_port_list(text: &str) -> FormatProblem {
    (!text.split(',').all(is_host_port)).then_some("must be pairs of host:port, separated by commas")
}

/// Whether a text is `HOST:PORT`, as Go splits it.
fn is_host_port(pair: &str) -> bool {
    let parts = match pair.strip_prefix('[') {
        Some(rest) => rest.split_once("]:"),
        None => pair.split_once(':'),
    };
    parts.is_some_and(|(host, port)| !host.contains(['[', ']']) && !port.contains([':', '[', ']']))
}

/// A Windows user name, with or without a domain.
fn windows_user(text: &str) -> FormatProblem {
    if text.is_empty() {
        return Some("may not be empty");
    }
    if text.chars().any(|letter| letter.is_ascii_control()) {
        return Some("may not contain control characters");
    }
    let (domain, user) = text.split_once('\\').map_or((None, text), |(domain, user)| (Some(domain), user));
    if user.contains('\\') {
        return Some("may contain one backslash at most");
    }
    if domain.is_some_and(|domain| !is_windows_domain(domain)) {
        return Some("must have a NetBIOS or DNS name before the backslash");
    }
    if user.is_empty() || user.len() > 104 {
        return Some("must have a user name of 1 to 104 characters");
    }
    let is_blank = user.trim_matches(['.', ' ']).is_empty();
    let is_odd = |letter: char| "\"/\\:;|=,+*?<>@[]".contains(letter);
    (is_blank || user.contains(is_odd))
        .then_some("must have a user name without any of \" / \\ [ ] : ; | = , + * ? < > @")
}

/// Whether a text is a `NetBIOS` name or a DNS name.
fn is_windows_domain(text: &str) -> bool {
    if text.is_empty() || text.len() > 255 {
        return false;
    }
    let is_odd = |letter: char| "\\/:*?\"<>|".contains(letter);
    let is_netbios = text.len() <= 15 && !text.starts_with('.') && !text.contains(is_odd);
    is_netbios || text.split('.').all(is_host_label)
}
