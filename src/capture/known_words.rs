//! The keys, words, programs and metrics that an anonymised export keeps because they contain no names.

use super::entry::ENDED_BY_COUNT;
use super::recorder::QUEUE_FULL;
use super::store::LARGE_DOCUMENT;
use crate::cri::{Code, Rpc};
use crate::diagnosis::kernel_waits::KernelWaitReason;
use crate::host::proc::cgroup::container_id;

/// The keys in the documents that a recorder writes. A field with any other key is removed.
#[rustfmt::skip]
pub const KEYS: &[&str] = &[
    "ageSeconds", "apiVersion", "attempt", "behind", "behindWriters", "bytes", "call", "calls", "confidence",
    "container", "containers", "count", "cpuTicks", "daemon", "delivered", "dump", "dumps", "durationSeconds",
    "endpoint", "error", "evidence", "exitCode", "findings", "frames", "from", "full", "function", "goVersion",
    "goroutine", "goroutines", "groups", "healthy", "holder", "holders", "id", "ids", "initial", "kind", "kubelet",
    "largestShim", "limit", "limits", "lock", "max", "message", "minutes", "name", "namespace", "next", "node", "notUnderstood", "outcome", "path",
    "pid", "pod", "pods", "pressure", "primary", "processes", "reason", "relist", "residentPages", "resource", "rpc",
    "rpcs", "runtime", "sandboxes", "severity", "silent", "some", "source", "state", "stoppedShims", "subject",
    "summary", "takenAt", "text", "threads", "thresholdSeconds", "time", "title", "to", "tookSeconds", "type", "uid", "used",
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
    // Limits.
    "threads", "cgroupTasks", "descriptors", "cgroupMemory", "nodeTasks", "sandboxList", "containerList",
    "runtimeRootBytes", "runtimeRootInodes", "runtimeStateBytes", "runtimeStateInodes", "kubeletBytes", "kubeletInodes",
    // The sub-commands of OCI runtimes.
    "checkpoint", "create", "delete", "events", "exec", "kill", "pause", "ps", "restore", "resume", "run",
    "start", "update", "init",
    // The states of systemd, and its drivers of cgroups.
    "initializing", "starting", "maintenance", "stopping", "systemd", "cgroupfs",
    // Requests to a kubelet.
    "kubelet /healthz", "kubelet /configz", "kubelet metrics", "kubelet Pods API",
    // Why a recorder lost entries or ended.
    QUEUE_FULL, LARGE_DOCUMENT, ENDED_BY_COUNT, "SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM",
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
    "containerd-shim-runc-v2",
    "conmon",
    "conmonrs",
    "runc:[0:PARENT]",
    "runc:[1:CHILD]",
    "runc:[2:INIT]",
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

/// The types of file systems that stay; another one on FUSE becomes `fuse`.
#[rustfmt::skip]
const FILE_SYSTEMS: &[&str] = &[
    "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "vfat", "overlay", "aufs", "squashfs", "tmpfs", "ramfs", "rootfs",
    "proc", "sysfs", "cgroup", "cgroup2", "devpts", "devtmpfs", "mqueue", "bpf", "debugfs", "tracefs", "securityfs",
    "pstore", "configfs", "hugetlbfs", "nsfs", "autofs", "binfmt_misc", "nfs", "nfs4", "cifs", "smb3", "ceph",
    "glusterfs", "lustre", "9p", "afs", "beegfs", "ocfs2", "gfs2", "fuse", "fuse.sshfs", "fuse.ceph-fuse",
    "fuse.s3fs", "fuse.gcsfuse", "fuse.glusterfs", "virtiofs",
];

/// The parts of paths that stay: the directories of the system, of the kubelet and of cgroups.
#[rustfmt::skip]
const PATH_PARTS: &[&str] = &[
    "", ".", "..", "proc", "sys", "fs", "cgroup", "dev", "etc", "run", "var", "lib", "opt", "usr", "home", "root", "tmp", "bin", "sbin",
    "cni", "net.d", "kubernetes", "kubelet", "containerd", "crio", "docker", "config.toml", "containerd.sock", "crio.sock", "pki",
    "pods", "volumes", "kubepods", "besteffort", "burstable", "guaranteed", "kubepods.slice", "kubepods-besteffort.slice",
    "kubepods-burstable.slice", "system.slice", "user.slice", "init.scope", "containerd.service", "crio.service", "docker.service",
    "kubelet.service", "k3s.service", "podruntime.slice", "kubernetes.io~nfs", "kubernetes.io~csi", "kubernetes.io~empty-dir",
    "kubernetes.io~projected", "kubernetes.io~secret", "kubernetes.io~configmap", "mount", "unified", "cpu,cpuacct", "memory",
];

/// What stands before the id of a container in the last part of its cgroup.
const CONTAINER_PREFIXES: &[&str] = &["", "cri-containerd-", "crio-", "crio-conmon-", "docker-"];

/// What stands before the UID of a pod in a part of its cgroup.
const POD_PREFIXES: &[&str] = &["kubepods-pod", "kubepods-burstable-pod", "kubepods-besteffort-pod", "pod"];

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
    "kubelet_cri_streaming_enabled", "kubelet_runtime_operations_total", "kubelet_runtime_operations_errors_total", "kubernetes_build_info",
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
        || KernelWaitReason::with_id(text).is_some()
        || is_timestamp(text)
        || Code::ALL.iter().any(|code| code.name() == text)
}

/// Whether the text is the name of a known program or probe.
pub fn is_known_program(text: &str) -> bool {
    PROGRAMS.contains(&text) || is_rpc(text)
}

/// Returns a known type of file system; that of FUSE for any other on FUSE.
pub fn file_system(text: &str) -> &'static str {
    let known = FILE_SYSTEMS.iter().find(|known| **known == text);
    let other = if text.starts_with("fuse.") { "fuse" } else { "" };
    known.copied().unwrap_or(other)
}

/// Whether the text is a namespace of containerd that the kubelet, Docker or `ctr` uses.
pub fn is_runtime_namespace(text: &str) -> bool {
    ["k8s.io", "moby", "default", ""].contains(&text)
}

/// Returns a part of a path that contains no name: a known directory, or the id of a pod or a container with known words around it.
pub fn path_part(part: &str) -> Option<String> {
    if PATH_PARTS.contains(&part) || is_id(part) {
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
            "service" => ["runtime", "image"].contains(&value).then_some(value)?,
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
                    kubelet_cri_streaming_enabled{service=\"runtime\"} 1\n\
                    kubernetes_build_info{git_version=\"v1.34.2-anna\",platform=\"anna\"} 1\nkubelet_pleg_discard_events anna\n";
        let kept = "kubelet_pleg_last_seen_seconds 1.7e9\nkubelet_runtime_operations_total{operation_type=\"exec_sync\"} 4\n\
                    kubelet_cri_streaming_enabled{service=\"runtime\"} 1\n\
                    kubernetes_build_info{git_version=\"v1.34.2\"} 1\n";
        assert_eq!(known_metrics(text), kept);
    }
}
