//! The keys, words, programs and metrics that an anonymised export keeps because they contain no names.

use super::entry::ENDED_BY_COUNT;
use super::recorder::QUEUE_FULL;
use super::store::{LARGE_DOCUMENT, LARGE_EVENT};
use crate::cri::{Code, Rpc};
use crate::diagnosis::kernel_waits::KernelWaitReason;

/// The keys in the documents that a recorder writes. A field with any other key is removed.
#[rustfmt::skip]
pub const KEYS: &[&str] = &[
    "ageSeconds", "apiVersion", "attempt", "behind", "behindWriters", "bytes", "call", "calls", "confidence",
    "container", "containers", "count", "cpuTicks", "daemon", "delivered", "dump", "dumps", "durationSeconds",
    "endpoint", "error", "evidence", "exitCode", "findings", "frames", "from", "full", "function", "goVersion",
    "goroutine", "goroutines", "groups", "healthy", "holder", "holders", "id", "ids", "initial", "kind", "kubelet",
    "limits", "lock", "message", "minutes", "name", "namespace", "next", "node", "notUnderstood", "outcome", "path",
    "pid", "pod", "pods", "pressure", "primary", "processes", "reason", "relist", "residentPages", "resource", "rpc",
    "rpcs", "runtime", "sandboxes", "severity", "silent", "some", "source", "state", "stoppedShims", "subject",
    "summary", "takenAt", "text", "threads", "thresholdSeconds", "time", "title", "to", "tookSeconds", "type", "uid",
    "verdict", "version", "waitedAtLeast", "waitedSeconds", "waiters", "waits", "waitsFor", "what", "why",
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
    "cpu", "io", "R", "S", "D", "T", "t", "Z", "X", "I", "kernel.pid_max", "kernel.threads-max",
    "ext4", "xfs", "btrfs", "overlay", "tmpfs", "nfs", "nfs4", "cifs", "ceph", "fuse", "9p", "lustre",
    // The sub-commands of OCI runtimes.
    "checkpoint", "create", "delete", "events", "exec", "kill", "pause", "ps", "restore", "resume", "run",
    "start", "update", "init",
    // Why a recorder lost entries or ended.
    QUEUE_FULL, LARGE_DOCUMENT, LARGE_EVENT, ENDED_BY_COUNT, "SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM",
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
    "conmonrs",
    "runc",
    "crun",
    "youki",
    "runsc",
    "kata-runtime",
    "umount",
    "umount.nfs",
    "umount.nfs4",
    "mount",
    "mount.nfs",
    "systemd",
    "k3s",
    "k3s-server",
    "k3s-agent",
    "rke2",
    "kubelite",
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
    WORDS.contains(&text)
        || is_rpc(text)
        || is_rule(text)
        || KernelWaitReason::of(text).is_some()
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
                    kubernetes_build_info{git_version=\"v1.34.2-anna\",platform=\"anna\"} 1\nkubelet_pleg_discard_events anna\n";
        let kept = "kubelet_pleg_last_seen_seconds 1.7e9\nkubelet_runtime_operations_total{operation_type=\"exec_sync\"} 4\n\
                    kubernetes_build_info{git_version=\"v1.34.2\"} 1\n";
        assert_eq!(known_metrics(text), kept);
    }
}
