//! The keys, words and phrases that an anonymised export keeps because they contain no names, and the functions that check a
//! text against these lists. A text that is in none of the lists is replaced by its length.
//!
//! A phrase has placeholders, for example `{rpc}`. Each placeholder accepts only one kind of content. `{text}` accepts any
//! text, to which the same rules apply again.

use crate::cri::{Code, Rpc};

/// The keys in the documents that a recorder writes. A field with any other key is removed.
#[rustfmt::skip]
pub const KEYS: &[&str] = &[
    "abandonedCalls", "ageSeconds", "apiVersion", "attempt", "basis", "behind", "behindWriters", "bytes", "call", "calls",
    "changedPods", "confidence", "container", "containers", "count", "cpuTicks", "culprits", "daemon",
    "delivered", "disagreements", "discardedEvents", "dump", "dumps", "durationSeconds", "endpoint", "error",
    "estimate", "eventedPleg", "evidence", "exitCode", "findings", "flaps", "frames", "from", "full",
    "fullRelistSeconds", "function", "goVersion", "goroutine", "goroutines", "groups", "healthy", "healthz",
    "holder", "holders", "hungCalls", "id", "ids", "initial", "keep", "kind", "kubelet", "limits", "lock",
    "message", "minutes", "name", "namespace", "next", "node", "notChecked", "notReadyAt", "notReadySince", "notUnderstood", "otherEra",
    "outcome", "path", "peakAgeSeconds", "phase", "pid", "plegAgeSeconds", "pod", "pods", "pressure", "primary",
    "probes", "processes", "readingAgeSeconds", "reason", "relist", "requestTimeoutSeconds", "residentPages",
    "resource", "responseBytes", "rpc", "rpcs", "runtime", "sandboxes", "serialRelistSeconds", "severity",
    "silent", "some", "source", "state", "stoppedShims", "subject", "summary", "takenAt", "text", "threads", "thresholdSeconds",
    "time", "title", "to", "tookSeconds", "type", "uid", "value", "verdict", "version", "waitedAtLeast", "waitedSeconds",
    "waiters", "waits", "waitsFor", "what", "why", "wouldTrip",
];

/// The values that are words of plegctl, of the CRI, of the kernel or of the kubelet.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    // Documents.
    "plegctl/v1", "v1", "v1alpha2", "Event", "Health", "HealthReport", "StackReport", "generic", "evented",
    "container", "sandbox", "pod", "ContainerStarted", "ContainerDied", "ContainerRemoved", "ContainerChanged",
    "PodSync", "running", "exited", "unknown", "non-existent", "created", "ready", "notready",
    // Verdicts.
    "healthy", "degraded", "unhealthy", "none", "connect", "list", "status", "kubelet", "certain", "likely",
    "possible", "info", "warning", "error", "critical", "ok", "silent", "slow",
    // Goroutines.
    "containerd", "containerd-shim", "crio", "shim", "process", "file", "network", "lock", "memory", "stopped",
    // The kernel.
    "cpu", "io", "R", "S", "D", "T", "t", "Z", "X", "I",
];

/// The names of known programs and probes, which stay.
const PROGRAMS: &[&str] = &[
    "containerd",
    "cri-o",
    "crio",
    "dockerd",
    "docker",
    "cri-dockerd",
    "kubelet",
    "/healthz",
    "containerd-shim",
    "conmon",
];

/// The reasons that a kubelet or a runtime gives for the state of a container.
#[rustfmt::skip]
const REASONS: &[&str] = &[
    "Completed", "Error", "OOMKilled", "ContainerCannotRun", "StartError", "Unknown", "ContainerStatusUnknown",
    "DeadlineExceeded", "Evicted", "seccomp killed",
];

/// The conditions of a runtime, and the reasons for them.
#[rustfmt::skip]
const CONDITIONS: &[&str] = &[
    "RuntimeReady", "NetworkReady", "ContainerdHasNoDeprecationWarnings", "NetworkPluginNotReady",
    "RuntimeNotReady", "ContainerdHasDeprecationWarnings", "NetworkUnavailable",
];

/// The values of labels and annotations that a kubelet or a runtime writes.
const LABEL_VALUES: &[&str] =
    &["File", "FallbackToLogsOnError", "file", "http", "api", "container", "sandbox"];

/// The default sockets of runtimes.
#[rustfmt::skip]
const SOCKETS: &[&str] = &[
    "/run/containerd/containerd.sock", "/var/run/containerd/containerd.sock", "/run/crio/crio.sock",
    "/var/run/crio/crio.sock", "/run/cri-dockerd.sock", "/var/run/cri-dockerd.sock",
    "/run/k3s/containerd/containerd.sock", "/var/snap/microk8s/common/run/containerd.sock",
];

/// The metrics of a kubelet that a capture contains.
#[rustfmt::skip]
const METRICS: &[&str] = &[
    "kubelet_pleg_last_seen_seconds", "kubelet_pleg_discard_events", "kubelet_pleg_relist_duration_seconds_bucket",
    "kubelet_pleg_relist_duration_seconds_sum", "kubelet_pleg_relist_duration_seconds_count",
    "kubelet_pleg_relist_interval_seconds_bucket", "kubelet_pleg_relist_interval_seconds_sum",
    "kubelet_pleg_relist_interval_seconds_count", "kubelet_evented_pleg_connection_success_count",
    "kubelet_evented_pleg_connection_error_count", "kubelet_evented_pleg_connection_latency_seconds_bucket",
    "kubelet_evented_pleg_connection_latency_seconds_sum", "kubelet_evented_pleg_connection_latency_seconds_count",
    "kubelet_runtime_operations_total", "kubelet_runtime_operations_errors_total", "kubernetes_build_info",
];

/// The runtime operations that a kubelet counts in its metrics.
#[rustfmt::skip]
const OPERATIONS: &[&str] = &[
    "attach", "checkpoint_container", "container_stats", "container_status", "create_container", "exec",
    "exec_sync", "get_container_events", "image_fs_info", "image_status", "list_container_stats",
    "list_containers", "list_images", "list_metric_descriptors", "list_pod_sandbox_metrics",
    "list_pod_sandbox_stats", "list_podsandbox", "podsandbox_stats", "podsandbox_status", "port_forward",
    "pull_image", "remove_container", "remove_image", "remove_podsandbox", "reopen_container_log",
    "run_podsandbox", "runtime_config", "start_container", "status", "stop_container", "stop_podsandbox",
    "update_container_resources", "update_runtime_config", "version",
];

/// The known messages of the recorder, of a diagnosis, of runtimes and of gRPC, of this release and of earlier ones: one on
/// each line that does not begin with `//`.
const PHRASES: &str = include_str!("phrases.txt");

/// Returns the known phrases.
fn phrases() -> impl Iterator<Item = &'static str> {
    PHRASES.lines().filter(|line| !line.starts_with("//"))
}

/// Replaces the names in the placeholders of a phrase by pseudonyms.
pub trait NameReplacer {
    /// Replaces a pod (`NAMESPACE/NAME`), a container (`NAMESPACE/NAME/CONTAINER`), or a single name; `None` if the
    /// name is not in the capture.
    fn pod(&self, text: &str) -> Option<String>;

    /// Replaces an id or a prefix of an id; `None` if the id is not in the capture.
    fn id(&self, text: &str) -> Option<String>;

    /// Replaces an endpoint.
    fn endpoint(&self, text: &str) -> String;
}

/// Returns the text with pseudonyms if it is a known phrase; otherwise a text about its length.
pub fn anonymise_phrase(text: &str, names: &dyn NameReplacer) -> String {
    if text.is_empty() {
        return String::new();
    }
    // No known phrase with its names is longer than 2048 bytes.
    let known = || phrases().find_map(|pattern| replace_placeholders(pattern, text, names, 0));
    let replaced = if text.len() <= 2048 { known() } else { None };
    replaced.unwrap_or_else(|| length_of_text(text))
}

/// Returns the text that replaces an unknown text.
pub fn length_of_text(text: &str) -> String {
    format!("(text of {} bytes)", text.len())
}

/// The maximum depth of phrases within phrases: a summary contains a call, and a call contains a message of the runtime.
const MAX_DEPTH: u8 = 4;

/// Returns the text with the content of every placeholder replaced; `None` if the text does not match the pattern.
fn replace_placeholders(pattern: &str, text: &str, names: &dyn NameReplacer, depth: u8) -> Option<String> {
    let Some((before, rest)) = pattern.split_once('{') else {
        return (pattern == text).then(|| text.to_owned());
    };
    let (placeholder, pattern) = rest.split_once('}')?;
    let text = text.strip_prefix(before)?;
    let next = pattern.split_once('{').map_or(pattern, |(literal, _)| literal);
    let tail = |end: usize| {
        let (content, rest) = text.split_at_checked(end)?;
        // Match the rest first, because that is cheaper than a nested text.
        let rest = replace_placeholders(pattern, rest, names, depth)?;
        let content = replace_content(placeholder, content, names, depth)?;
        Some([before, &content, &rest].concat())
    };
    if next.is_empty() {
        return tail(text.len());
    }
    text.match_indices(next).find_map(|(end, _)| tail(end))
}

/// Returns the replacement for the content of a placeholder; `None` if the placeholder does not accept the content.
fn replace_content(placeholder: &str, content: &str, names: &dyn NameReplacer, depth: u8) -> Option<String> {
    let keep_if = |is_valid: bool| is_valid.then(|| content.to_owned());
    match placeholder {
        "rpc" => keep_if(is_rpc(content)),
        "code" => keep_if(Code::ALL.iter().any(|code| code.name() == content)),
        "time" => keep_if(is_time(content)),
        "number" => keep_if(is_number(content)),
        "clock" => keep_if(is_clock(content)),
        "rule" => keep_if(is_rule(content)),
        "confidence" => keep_if(["certain", "likely", "possible"].contains(&content)),
        "pod" => names.pod(content),
        "id" => names.id(content),
        "endpoint" => Some(names.endpoint(content)),
        _ if depth < MAX_DEPTH && !content.is_empty() => {
            let known =
                phrases().find_map(|pattern| replace_placeholders(pattern, content, names, depth + 1));
            Some(known.unwrap_or_else(|| length_of_text(content)))
        }
        _ => None,
    }
}

fn is_rpc(text: &str) -> bool {
    Rpc::ALL.iter().any(|rpc| rpc.to_string() == text)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.len() <= 20 && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_decimal(text: &str) -> bool {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    is_digits(whole) && is_digits(part)
}

/// Whether the text is a number, for example `42`, `1.5`, `1.3 MiB` or `12 bytes`.
fn is_number(text: &str) -> bool {
    let (number, unit) = text.split_once(' ').unwrap_or((text, "B"));
    is_decimal(number) && ["B", "bytes", "KiB", "MiB", "GiB"].contains(&unit)
}

/// Whether the text is a time of day, perhaps with its date: `22:13:20`, `2023-11-14 22:13:20`.
fn is_clock(text: &str) -> bool {
    matches!(text.len(), 8 | 19) && text.bytes().all(|byte| byte.is_ascii_digit() || b"-: ".contains(&byte))
}

/// Whether the text is a duration, for example `2s`, `1m 30s`, `2m00s`, `3.4 s` or `3m1.5s`.
fn is_time(text: &str) -> bool {
    const UNITS: [&str; 12] = ["ns", "us", "µs", "ms", "s", "m", "h", "d", "day", "days", "min", "month"];
    let mut rest = text;
    while !rest.is_empty() {
        let unit = rest.find(|letter: char| letter.is_alphabetic()).unwrap_or(rest.len());
        let (number, after) = rest.split_at(unit);
        let number = number.trim_end_matches(' ');
        let end = after.find(|letter: char| !letter.is_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if !is_decimal(number) || !UNITS.contains(&unit) {
            return false;
        }
        rest = after.strip_prefix(' ').unwrap_or(after);
    }
    !text.is_empty()
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
    WORDS.contains(&text)
        || is_rpc(text)
        || is_rule(text)
        || is_timestamp(text)
        || Code::ALL.iter().any(|code| code.name() == text)
}

/// Whether the text is the name of a known program or probe.
pub fn is_known_program(text: &str) -> bool {
    PROGRAMS.contains(&text) || is_rpc(text)
}

/// Whether the text is a known reason, which identifies nobody.
pub fn is_known_reason(text: &str) -> bool {
    text.is_empty() || REASONS.contains(&text)
}

/// Whether the text is a known condition of a runtime, or a known reason for one.
pub fn is_known_condition(text: &str) -> bool {
    text.is_empty() || CONDITIONS.contains(&text)
}

/// Whether the value of a label that the kubelet writes contains no name: a number, a hash, a timestamp or a known word.
pub fn is_known_label_value(text: &str) -> bool {
    let is_hash = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash || LABEL_VALUES.contains(&text) || is_timestamp(text)
}

/// Whether the text is the default endpoint of a runtime.
pub fn is_default_endpoint(text: &str) -> bool {
    SOCKETS.contains(&text.strip_prefix("unix://").unwrap_or(text))
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
    if !METRICS.contains(&name) {
        return None;
    }
    let known = |pair: &str| {
        let (key, quoted) = pair.split_once('=')?;
        let value = quoted.strip_prefix('"')?.strip_suffix('"')?;
        let value = match key {
            "le" => value.parse::<f64>().is_ok().then_some(value)?,
            "major" | "minor" => is_digits(value.trim_end_matches('+')).then_some(value)?,
            "git_version" => version_numbers(value),
            "operation_type" => OPERATIONS.contains(&value).then_some(value)?,
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

    struct ShopNames;

    impl NameReplacer for ShopNames {
        fn pod(&self, text: &str) -> Option<String> {
            (text == "shop/db-0").then(|| "namespace-1/pod-1".to_owned())
        }

        fn id(&self, text: &str) -> Option<String> {
            (text == "abc").then(|| "id-1".to_owned())
        }

        fn endpoint(&self, _: &str) -> String {
            "endpoint-1".to_owned()
        }
    }

    fn anonymised(text: &str) -> String {
        anonymise_phrase(text, &ShopNames)
    }

    #[test]
    fn known_phrase_keeps_its_words_and_replaces_its_names() {
        let why = anonymised("ContainerStatus of shop/db-0 has not been answered for 2s");
        assert_eq!(why, "ContainerStatus of namespace-1/pod-1 has not been answered for 2s");
        let summary = anonymised("UNHEALTHY: ContainerStatus of shop/db-0 does not answer (D01, certain)");
        assert_eq!(summary, "UNHEALTHY: ContainerStatus of namespace-1/pod-1 does not answer (D01, certain)");
        let lost = anonymised("cannot reach the runtime at `unix:///home/anna/x.sock`: connection refused");
        assert_eq!(lost, "cannot reach the runtime at `endpoint-1`: connection refused");
    }

    #[test]
    fn unknown_text_is_replaced_by_its_length() {
        assert_eq!(anonymised("nfs.example.com:/home is stale"), "(text of 30 bytes)");
        let half = anonymised("ListContainers failed: Unknown: token hunter2 is expired");
        assert_eq!(half, "ListContainers failed: Unknown: (text of 24 bytes)");
        assert_eq!(anonymised("ContainerStatus of shop/web-7 took 2s"), "(text of 37 bytes)");
        assert_eq!(anonymised(""), "");
        let long = "x".repeat(100_000);
        assert_eq!(anonymised(&long), "(text of 100000 bytes)");
    }

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
    fn times_and_numbers_are_distinguished_from_words() {
        for time in ["2s", "1m 30s", "2m00s", "3.4 s", "511ms", "3m1.5s", "54 ms"] {
            assert!(is_time(time), "{time}");
        }
        for other in ["", "s", "2", "2 secrets", "two s", "2s anna", "2s2"] {
            assert!(!is_time(other), "{other}");
        }
        assert!(is_number("1.3 MiB") && is_number("7") && !is_number("7 pods") && !is_number("v7"));
        assert!(is_clock("22:13:20") && is_clock("2023-11-14 22:13:20") && !is_clock("shop/web"));
    }

    #[test]
    fn metrics_keep_only_known_labels() {
        let text = "kubelet_pleg_last_seen_seconds 1.7e9\nkubelet_pleg_secret 1\n# HELP kubelet_pleg_last_seen_seconds anna\n\
                    kubelet_runtime_operations_total{operation_type=\"exec_sync\",node=\"anna\"} 4\n\
                    kubernetes_build_info{git_version=\"v1.34.2-anna\",platform=\"anna\"} 1\nkubelet_pleg_discard_events anna\n";
        let kept = "kubelet_pleg_last_seen_seconds 1.7e9\nkubelet_runtime_operations_total{operation_type=\"exec_sync\"} 4\n\
                    kubernetes_build_info{git_version=\"v1.34.2\"} 1\n";
        assert_eq!(known_metrics(text), kept);
    }
}
