//! The keys, words, programs and metrics that an anonymised export keeps because they contain no names.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::entry::ENDED_BY_COUNT;
use super::recorder::QUEUE_FULL;
use super::store::LARGE_DOCUMENT;
use crate::cri::{Code, Rpc};
use crate::diagnosis::kernel_waits::KernelWaitReason;
use crate::host::proc::cgroup::container_id;

/// The sections of `known_words.txt`, each with its words.
static SECTIONS: LazyLock<BTreeMap<&str, Vec<&str>>> = LazyLock::new(|| {
    let (mut sections, mut section) = (BTreeMap::<&str, Vec<&str>>::new(), "");
    for line in
        include_str!("known_words.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        match line.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(name) => section = name,
            None => sections.entry(section).or_default().extend(line.split(", ")),
        }
    }
    sections
});

/// Returns the words of a section.
fn words(section: &str) -> &'static [&'static str] {
    SECTIONS.get(section).map_or(&[], Vec::as_slice)
}

/// Returns the keys in the documents that a recorder writes. A field with any other key is removed.
pub fn keys() -> &'static [&'static str] {
    words("keys")
}

/// What stands before the id of a container in the last part of its cgroup.
const CONTAINER_PREFIXES: &[&str] = &["", "cri-containerd-", "crio-", "crio-conmon-", "docker-"];

/// What stands before the UID of a pod in a part of its cgroup.
const POD_PREFIXES: &[&str] = &["kubepods-pod", "kubepods-burstable-pod", "kubepods-besteffort-pod", "pod"];

/// Returns the text that replaces an unknown text.
pub fn length_of_text(text: &str) -> String {
    if text.is_empty() { String::new() } else { length(text) }
}

fn length(text: &str) -> String {
    format!("(text of {} bytes)", text.len())
}

fn is_rpc(text: &str) -> bool {
    Rpc::ALL.iter().any(|rpc| rpc.to_string() == text)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.len() <= 20 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether the text is the id of a rule, for example `D07` or `ST12`.
pub fn is_rule(text: &str) -> bool {
    let digits = text.strip_prefix("ST").or_else(|| text.strip_prefix('D'));
    digits.is_some_and(|digits| digits.len() == 2 && is_digits(digits))
}

/// Whether the text is a timestamp, for example `2026-11-22T00:00:00.5Z`.
fn is_timestamp(text: &str) -> bool {
    humantime::parse_rfc3339(text).is_ok()
}

/// Whether the value is a known word, which identifies nobody.
pub fn is_known_word(text: &str) -> bool {
    words("words").contains(&text)
        || [QUEUE_FULL, LARGE_DOCUMENT, ENDED_BY_COUNT].contains(&text)
        || is_rpc(text)
        || is_rule(text)
        || KernelWaitReason::with_id(text).is_some()
        || is_timestamp(text)
        || Code::ALL.iter().any(|code| code.name() == text)
}

/// Whether the text is the name of a known program or probe.
pub fn is_known_program(text: &str) -> bool {
    words("programs").contains(&text) || is_rpc(text)
}

/// Returns a known type of file system; that of FUSE for any other on FUSE.
pub fn file_system(text: &str) -> &'static str {
    let known = words("file systems").iter().find(|known| **known == text);
    let other = if text.starts_with("fuse.") { "fuse" } else { "" };
    known.copied().unwrap_or(other)
}

/// Whether the text is a namespace of containerd that the kubelet, Docker or `ctr` uses.
pub fn is_runtime_namespace(text: &str) -> bool {
    ["k8s.io", "moby", "default", ""].contains(&text)
}

/// Returns a part of a path that contains no name: a known directory, or the id of a pod or a container with known words around it.
pub fn path_part(part: &str) -> Option<String> {
    if part.is_empty() || words("path parts").contains(&part) || is_id(part) {
        return Some(part.to_owned());
    }
    let stem = part.strip_suffix(".scope").unwrap_or(part);
    if let Some(id) = container_id(part) {
        let front = stem.strip_suffix(id).unwrap_or_default();
        // systemd-style cgroups of containerd write `<slice>:cri-containerd:<id>`.
        let slice = front.strip_suffix(":cri-containerd:");
        let is_known =
            CONTAINER_PREFIXES.contains(&front) || slice.is_some_and(|slice| path_part(slice).is_some());
        return Some(if is_known { part.to_owned() } else { id.to_owned() });
    }
    let stem = part.strip_suffix(".slice").unwrap_or(part);
    let uid = POD_PREFIXES.iter().find_map(|prefix| stem.strip_prefix(prefix))?;
    is_id(&uid.replace('_', "-")).then(|| part.to_owned())
}

/// The length of the shortest text that can be an id.
const MIN_ID_LENGTH: usize = 12;

/// Whether the text looks like an id that a runtime or a kubelet generated.
pub fn is_id(text: &str) -> bool {
    text.len() >= MIN_ID_LENGTH && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// Whether the text is a known reason, which identifies nobody.
pub fn is_known_reason(text: &str) -> bool {
    text.is_empty() || words("reasons").contains(&text)
}

/// Whether the text is a known condition of a runtime, or a known reason for one.
pub fn is_known_condition(text: &str) -> bool {
    text.is_empty() || words("conditions").contains(&text)
}

/// Whether the value of a label that the kubelet writes contains no name: a number, a hash, a timestamp or a known word.
pub fn is_known_label_value(text: &str) -> bool {
    let is_hash = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash || words("label values").contains(&text) || is_timestamp(text)
}

/// Whether the text is the default endpoint of a runtime.
pub fn is_default_endpoint(text: &str) -> bool {
    words("sockets").contains(&text.strip_prefix("unix://").unwrap_or(text))
}

/// Returns the leading numbers of a version, and the `v` before them. The rest is removed, because it may name a company.
/// Four numbers are removed too, because they may be an IP address.
pub fn version_numbers(text: &str) -> &str {
    let digits = text.strip_prefix('v').unwrap_or(text);
    let end = digits.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(digits.len());
    let numbers = digits.get(..end).unwrap_or_default().trim_end_matches('.');
    if numbers.is_empty() || numbers.split('.').count() > 3 {
        return "";
    }
    text.get(..text.len() - digits.len() + numbers.len()).unwrap_or_default()
}

/// Returns the known metrics of a kubelet, with only their known labels.
pub fn known_metrics(text: &str) -> String {
    text.lines().filter_map(known_metric).flat_map(|line| [line, "\n".to_owned()]).collect()
}

/// Returns one line of known metrics, without unknown labels; `None` for any other line.
fn known_metric(line: &str) -> Option<String> {
    let (head, value) = line.rsplit_once(' ')?;
    value.parse::<f64>().ok()?;
    let (name, labels) = match head.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}')?),
        None => (head, ""),
    };
    if !words("metrics").contains(&name) {
        return None;
    }
    let known = |pair: &str| {
        let (key, quoted) = pair.split_once('=')?;
        let value = quoted.strip_prefix('"')?.strip_suffix('"')?;
        let value = match key {
            "le" => value.parse::<f64>().is_ok().then_some(value)?,
            "major" | "minor" => is_digits(value.trim_end_matches('+')).then_some(value)?,
            "git_version" => version_numbers(value),
            "service" => ["runtime", "image"].contains(&value).then_some(value)?,
            "operation_type" => words("operations").contains(&value).then_some(value)?,
            _ => return None,
        };
        Some(format!("{key}=\"{value}\""))
    };
    let labels: Vec<String> = labels.split(',').filter_map(known).collect();
    let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    Some(format!("{name}{labels} {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_reduced_to_its_numbers() {
        for (text, kept) in [
            ("v1.34.2-eks-acme", "v1.34.2"),
            ("1.36", "1.36"),
            ("2.1.9+acme", "2.1.9"),
            ("acme", ""),
            ("10.1.2.3", ""),
            ("v", ""),
            ("", ""),
        ] {
            assert_eq!(version_numbers(text), kept, "{text}");
        }
    }

    #[test]
    fn metrics_keep_only_known_labels() {
        let text = "kubelet_pleg_last_seen_seconds 1.7e9\nkubelet_pleg_secret 1\n# HELP kubelet_pleg_last_seen_seconds anna\n\
                    kubelet_runtime_operations_total{operation_type=\"exec_sync\",node=\"anna\"} 4\n\
                    kubelet_cri_streaming_enabled{service=\"runtime\"} 1\n\
                    kubernetes_build_info{git_version=\"v1.34.2-anna\",platform=\"anna\"} 1\nkubelet_pleg_discard_events anna\n";
        let kept = "kubelet_pleg_last_seen_seconds 1.7e9\nkubelet_runtime_operations_total{operation_type=\"exec_sync\"} 4\n\
                    kubelet_cri_streaming_enabled{service=\"runtime\"} 1\n\
                    kubernetes_build_info{git_version=\"v1.34.2\"} 1\n";
        assert_eq!(known_metrics(text), kept);
    }
}
