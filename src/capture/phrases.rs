//! The closed lists of an anonymised export: keys, words and phrases that plegctl writes itself, and the functions that
//! check a text against them. A text that is in none of the lists is replaced as a whole.
//!
//! A phrase has placeholders, such as `{rpc}`. Each placeholder (*place* in this module) accepts one kind of content
//! only. `{text}` accepts any text, which is kept or replaced by the same rule.

use crate::cri::{Code, Rpc};

/// Keys of the documents that a recorder writes. A field with any other key is removed.
#[rustfmt::skip]
pub const KEYS: &[&str] = &[
    "abandonedCalls", "apiVersion", "attempt", "basis", "behind", "behindWriters", "bytes", "call", "calls",
    "changedPods", "confidence", "container", "containers", "count", "cpuTicks", "culprits", "daemon",
    "delivered", "disagreements", "discardedEvents", "dump", "dumps", "durationSeconds", "endpoint", "error",
    "estimate", "eventedPleg", "evidence", "exitCode", "findings", "flaps", "frames", "from", "full",
    "fullRelistSeconds", "function", "goVersion", "goroutine", "goroutines", "groups", "healthy", "healthz",
    "holder", "holders", "hungCalls", "id", "ids", "initial", "keep", "kind", "kubelet", "limits", "lock",
    "message", "minutes", "name", "namespace", "next", "node", "notChecked", "notUnderstood", "otherEra",
    "outcome", "path", "peakAgeSeconds", "phase", "pid", "plegAgeSeconds", "pod", "pods", "pressure", "primary",
    "probes", "processes", "readingAgeSeconds", "reason", "relist", "requestTimeoutSeconds", "residentPages",
    "resource", "responseBytes", "rpc", "rpcs", "runtime", "sandboxes", "serialRelistSeconds", "severity",
    "silent", "some", "source", "state", "stoppedShims", "subject", "summary", "takenAt", "text", "threads", "thresholdSeconds",
    "time", "title", "to", "tookSeconds", "type", "uid", "value", "verdict", "version", "waitedSeconds",
    "waiters", "waits", "waitsFor", "what", "why", "wouldTrip",
];

/// Values that are words of this program, of the CRI, of the kernel or of the kubelet.
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

/// Pseudonyms of programs and of probes.
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

/// Reasons that a kubelet or a runtime gives for the state of a container.
#[rustfmt::skip]
const REASONS: &[&str] = &[
    "Completed", "Error", "OOMKilled", "ContainerCannotRun", "StartError", "Unknown", "ContainerStatusUnknown",
    "DeadlineExceeded", "Evicted", "seccomp killed",
];

/// Conditions of a runtime, and the reasons for them.
#[rustfmt::skip]
const CONDITIONS: &[&str] = &[
    "RuntimeReady", "NetworkReady", "ContainerdHasNoDeprecationWarnings", "NetworkPluginNotReady",
    "RuntimeNotReady", "ContainerdHasDeprecationWarnings", "NetworkUnavailable",
];

/// Values of labels and annotations that a kubelet or a runtime writes.
const FACTS: &[&str] = &["File", "FallbackToLogsOnError", "file", "http", "api", "container", "sandbox"];

/// The default sockets of runtimes.
#[rustfmt::skip]
const SOCKETS: &[&str] = &[
    "/run/containerd/containerd.sock", "/var/run/containerd/containerd.sock", "/run/crio/crio.sock",
    "/var/run/crio/crio.sock", "/run/cri-dockerd.sock", "/var/run/cri-dockerd.sock",
    "/run/k3s/containerd/containerd.sock", "/var/snap/microk8s/common/run/containerd.sock",
];

/// Series of a kubelet that a capture keeps.
#[rustfmt::skip]
const SERIES: &[&str] = &[
    "kubelet_pleg_last_seen_seconds", "kubelet_pleg_discard_events", "kubelet_pleg_relist_duration_seconds_bucket",
    "kubelet_pleg_relist_duration_seconds_sum", "kubelet_pleg_relist_duration_seconds_count",
    "kubelet_pleg_relist_interval_seconds_bucket", "kubelet_pleg_relist_interval_seconds_sum",
    "kubelet_pleg_relist_interval_seconds_count", "kubelet_evented_pleg_connection_success_count",
    "kubelet_evented_pleg_connection_error_count", "kubelet_evented_pleg_connection_latency_seconds_bucket",
    "kubelet_evented_pleg_connection_latency_seconds_sum", "kubelet_evented_pleg_connection_latency_seconds_count",
    "kubelet_runtime_operations_total", "kubelet_runtime_operations_errors_total", "kubernetes_build_info",
];

/// Operations that a kubelet counts.
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

/// Known messages of the recorder, a diagnosis, a runtime or a transport.
#[rustfmt::skip]
const PHRASES: &[&str] = &[
    // A recorder.
    "told to", "--count", "nobody reads what it says", "nothing reads its output",
    "not over when the record ended", "still open when the recording ended",
    "the disk did not keep up", "a document does not fit a segment", "an event does not fit a segment",
    "{rpc} has not been answered for {time}", "{rpc} of {pod} has not been answered for {time}",
    "the relist has not been answered for {time}", "the last relist is {time} old",
    "{rpc} of {pod} took {time}", "{rpc} took {time}", "relist {number} took {time}",
    "{rpc} of {pod}: {text}", "{rpc}: {text}",
    // A call.
    "{rpc} did not answer within {time}",
    "the answer to {rpc} was not read to its end within {time}: {number} of it had come",
    "the answer to {rpc} did not arrive completely within {time}: {number} had arrived",
    "cannot reach the runtime at `{endpoint}`: {text}", "no such socket", "it is a file, not a socket",
    "it is a directory, not a socket", "permission denied", "connection refused",
    "`{endpoint}` does not speak gRPC: {text}", "the runtime closed the connection during {rpc}: {text}",
    "{rpc} is not implemented by this runtime: {text}", "the answer to {rpc} is too large: {text}",
    "cannot decode the answer to {rpc}: {text}", "the answer to {rpc} is refused: {text}",
    "plegctl itself failed over the answer to {rpc}: {text}",
    "plegctl itself failed while it processed the answer to {rpc}: {text}", "{rpc} is not recorded: {text}",
    "its answer was not kept", "closed by the recorder", "{rpc} failed: {code}: {text}",
    // A runtime.
    "an error occurred when try to find container: not found",
    "an error occurred when try to find sandbox: not found",
    "an error occurred when try to find container \"{id}\": not found",
    "an error occurred when try to find sandbox \"{id}\": not found",
    "container with ID starting with {id} not found: ID does not exist",
    "could not find container \"{id}\": container with ID starting with {id} not found: ID does not exist",
    "could not find pod \"{id}\": pod sandbox with ID starting with {id} not found: ID does not exist",
    "unknown service runtime.v1.RuntimeService", "unknown method {rpc} for service runtime.v1.RuntimeService",
    "method {rpc} not implemented", "server is not initialized yet", "not found",
    // A transport.
    "context deadline exceeded", "context canceled", "transport is closing", "broken pipe",
    "connection reset by peer", "error reading from server: EOF", "EOF",
    "grpc: received message larger than max ({number} vs. {number})",
    "trying to send message larger than max ({number} vs. {number})",
    "received message larger than max ({number} vs. {number})",
    // A kubelet.
    "pleg has yet to be successful", "pleg was last seen active {time} ago; threshold is {time}",
    // A diagnosis.
    "HEALTHY: {text} ({rule}, {confidence})", "DEGRADED: {text} ({rule}, {confidence})",
    "UNHEALTHY: {text} ({rule}, {confidence})", "UNKNOWN: {text} ({rule}, {confidence})",
    "HEALTHY: {text}", "DEGRADED: {text}", "UNHEALTHY: {text}", "UNKNOWN: {text}",
    "every probe is answered", "every probe is answered; a relist takes {time}",
    "{rpc} of {pod} does not answer", "{rpc} of {pod} and {number} more do not answer",
    "{rpc} does not answer", "{rpc} does not answer; the daemon is alive",
    "{rpc} and {rpc} do not answer", "{rpc} and {rpc} do not answer; the daemon is alive",
    "{rpc} and {rpc} did not answer within {time}",
    "{rpc} of {pod} is slow, answered after {time}",
    "{rpc} of {pod} and {number} more are slow, answered after {time}",
    "{rpc} of {pod} was answered after {time}", "{rpc} takes {time}; nothing found explains it",
    "{rpc} answered in {time}", "{rpc} answered after {time}", "{rpc} fails at once: {code}",
    "the shim of {pod} does not answer", "the runtime does not answer",
    "both lists {time}; a relist of every pod, as after a kubelet restart, {time}",
    "{number} pods, {number} sandboxes, {number} containers ({number} running, {number} exited)",
    "asked again, the slower list took {time}", "asked again, the slower list took {time}: it has recovered",
    "when repeated, the slower list call took {time}",
    "when repeated, the slower list call took {time}: it has recovered",
    "the kubelet's last relist is {number} s old", "left out", "no budget left",
    "give them with --kubelet-metrics, or a credential with --kubelet-token-file",
    "trouble may come and go: plegctl watch --until-slow {time}",
    "the problem may come and go; wait for it with: plegctl watch --until-slow {time}",
    "processes, pressure and limits of the node", "the journal", "the kubelet's /healthz",
    "the kubelet's metrics", "the kubelet's default", "the newest confirmed", "the newest known", "kubelet release", "one status call",
    "threshold", "time-out of one call", "median of {number} calls made one at a time", "{time}", "{number}",
];

/// Replaces the names in the placeholders of a phrase.
pub trait NameReplacer {
    /// Replaces a pod (`NAMESPACE/NAME`), a container (`NAMESPACE/NAME/CONTAINER`), or a single name; `None` if the
    /// name is not in the capture.
    fn pod(&self, text: &str) -> Option<String>;

    /// Replaces an id or a prefix of an id; `None` if the id is not in the capture.
    fn id(&self, text: &str) -> Option<String>;

    /// Replaces an endpoint.
    fn endpoint(&self, text: &str) -> String;
}

/// Returns the text with replaced names if it is a known phrase; otherwise its length.
pub fn phrase(text: &str, names: &dyn NameReplacer) -> String {
    if text.is_empty() {
        return String::new();
    }
    // No known phrase with its names is longer than 2048 bytes.
    let known = || PHRASES.iter().find_map(|pattern| filled(pattern, text, names, 0));
    let replaced = if text.len() <= 2048 { known() } else { None };
    replaced.unwrap_or_else(|| without(text))
}

/// Returns the replacement of a whole text.
pub fn without(text: &str) -> String {
    format!("(text of {} bytes)", text.len())
}

/// The maximum depth of phrases within phrases: a summary contains a call, and a call contains a message of the
/// runtime.
const DEEPEST: u8 = 4;

/// Returns the text with the content of every placeholder replaced; `None` if the text does not match the pattern.
fn filled(pattern: &str, text: &str, names: &dyn NameReplacer, depth: u8) -> Option<String> {
    let Some((before, rest)) = pattern.split_once('{') else {
        return (pattern == text).then(|| text.to_owned());
    };
    let (place, pattern) = rest.split_once('}')?;
    let text = text.strip_prefix(before)?;
    let next = pattern.split_once('{').map_or(pattern, |(literal, _)| literal);
    let tail = |end: usize| {
        let (content, rest) = text.split_at_checked(end)?;
        // Match the rest first, because that is cheaper than a nested text.
        let rest = filled(pattern, rest, names, depth)?;
        let content = content_of(place, content, names, depth)?;
        Some([before, &content, &rest].concat())
    };
    if next.is_empty() {
        return tail(text.len());
    }
    text.match_indices(next).find_map(|(end, _)| tail(end))
}

fn content_of(place: &str, content: &str, names: &dyn NameReplacer, depth: u8) -> Option<String> {
    let kept = |is_one: bool| is_one.then(|| content.to_owned());
    match place {
        "rpc" => kept(is_rpc(content)),
        "code" => kept(Code::ALL.iter().any(|code| code.name() == content)),
        "time" => kept(is_time(content)),
        "number" => kept(is_number(content)),
        "rule" => kept(is_rule(content)),
        "confidence" => kept(["certain", "likely", "possible"].contains(&content)),
        "pod" => names.pod(content),
        "id" => names.id(content),
        "endpoint" => Some(names.endpoint(content)),
        _ if depth < DEEPEST && !content.is_empty() => {
            let known = PHRASES.iter().find_map(|pattern| filled(pattern, content, names, depth + 1));
            Some(known.unwrap_or_else(|| without(content)))
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

/// `42`, `1.5`, `1.3 MiB`, `12 bytes`.
fn is_number(text: &str) -> bool {
    let (number, unit) = text.split_once(' ').unwrap_or((text, "B"));
    is_decimal(number) && ["B", "bytes", "KiB", "MiB", "GiB"].contains(&unit)
}

/// `2s`, `1m 30s`, `2m00s`, `3.4 s`, `3m1.5s`.
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

/// `D07`, `ST12`.
pub fn is_rule(text: &str) -> bool {
    let digits = text.strip_prefix("ST").or_else(|| text.strip_prefix('D'));
    digits.is_some_and(|digits| digits.len() == 2 && is_digits(digits))
}

/// `2026-11-22T00:00:00.5Z`: the format allows no other text.
fn is_stamp(text: &str) -> bool {
    humantime::parse_rfc3339(text).is_ok()
}

/// Whether a value is a common word, which identifies nobody.
pub fn is_word(text: &str) -> bool {
    WORDS.contains(&text)
        || is_rpc(text)
        || is_rule(text)
        || is_stamp(text)
        || Code::ALL.iter().any(|code| code.name() == text)
}

/// Whether this is the name of a known program or probe.
pub fn is_program(text: &str) -> bool {
    PROGRAMS.contains(&text) || is_rpc(text)
}

/// Whether this is a common reason, which identifies nobody.
pub fn is_reason(text: &str) -> bool {
    text.is_empty() || REASONS.contains(&text)
}

/// Whether this is a common condition of a runtime, or a common reason for one.
pub fn is_condition(text: &str) -> bool {
    text.is_empty() || CONDITIONS.contains(&text)
}

/// Whether the value of a label that the kubelet writes contains no name: it is a number, a hash, a time or a known
/// word.
pub fn is_fact(text: &str) -> bool {
    let is_hash = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash || FACTS.contains(&text) || is_stamp(text)
}

/// Whether this is the default endpoint of a runtime.
pub fn is_endpoint(text: &str) -> bool {
    SOCKETS.contains(&text.strip_prefix("unix://").unwrap_or(text))
}

/// Returns the leading numbers of a version, with a `v` before them if there is one. The rest is removed, because it
/// may name a company. Four numbers are an IP address and are removed too.
pub fn version(text: &str) -> &str {
    let digits = text.strip_prefix('v').unwrap_or(text);
    let end = digits.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(digits.len());
    let numbers = digits.get(..end).unwrap_or_default().trim_end_matches('.');
    if numbers.is_empty() || numbers.split('.').count() > 3 {
        return "";
    }
    text.get(..text.len() - digits.len() + numbers.len()).unwrap_or_default()
}

/// Returns the known series of a kubelet, with their known labels only.
pub fn series(text: &str) -> String {
    text.lines().filter_map(known_series).flat_map(|line| [line, "\n".to_owned()]).collect()
}

fn known_series(line: &str) -> Option<String> {
    let (head, value) = line.rsplit_once(' ')?;
    value.parse::<f64>().ok()?;
    let (name, labels) = match head.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}')?),
        None => (head, ""),
    };
    if !SERIES.contains(&name) {
        return None;
    }
    let known = |pair: &str| {
        let (key, quoted) = pair.split_once('=')?;
        let value = quoted.strip_prefix('"')?.strip_suffix('"')?;
        let value = match key {
            "le" => value.parse::<f64>().is_ok().then_some(value)?,
            "major" | "minor" => is_digits(value.trim_end_matches('+')).then_some(value)?,
            "git_version" => version(value),
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

    struct Shop;

    impl NameReplacer for Shop {
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
        phrase(text, &Shop)
    }

    #[test]
    fn known_phrase_keeps_its_words_and_loses_its_names() {
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
    fn version_is_its_numbers() {
        for (text, kept) in [
            ("v1.34.2-eks-acme", "v1.34.2"),
            ("1.36", "1.36"),
            ("2.1.9+acme", "2.1.9"),
            ("acme", ""),
            ("10.1.2.3", ""),
            ("v", ""),
            ("", ""),
        ] {
            assert_eq!(version(text), kept, "{text}");
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
    }

    #[test]
    fn series_keep_known_labels_only() {
        let text = "kubelet_pleg_last_seen_seconds 1.7e9\nkubelet_pleg_secret 1\n# HELP kubelet_pleg_last_seen_seconds anna\n\
                    kubelet_runtime_operations_total{operation_type=\"exec_sync\",node=\"anna\"} 4\n\
                    kubernetes_build_info{git_version=\"v1.34.2-anna\",platform=\"anna\"} 1\nkubelet_pleg_discard_events anna\n";
        let kept = "kubelet_pleg_last_seen_seconds 1.7e9\nkubelet_runtime_operations_total{operation_type=\"exec_sync\"} 4\n\
                    kubernetes_build_info{git_version=\"v1.34.2\"} 1\n";
        assert_eq!(series(text), kept);
    }
}
