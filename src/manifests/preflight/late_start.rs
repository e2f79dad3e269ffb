//! Checks values that the kubelet parses only after its runtime has answered (KP033), or that it ignores (KP034).

use super::catalogue::StartCheck;
use super::command_line::ParsedFlags;
use super::finding::StartFinding;
use super::release::{Builder, TargetKubelet};
use super::settings::{MergedSettings, Origin, ValueWithOrigin};
use crate::kubelet::is_address;
use crate::manifests::quantity::Quantity;
use crate::manifests::tree::ManifestNode;
use crate::report::{Confidence, Severity};

/// The signals of eviction thresholds (`pkg/kubelet/eviction/api/types.go`).
const SIGNALS: [&str; 8] = [
    "allocatableMemory.available",
    "containerfs.available",
    "containerfs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
];

/// The signal of process ids, which is valid too.
const PID_SIGNAL: &str = "pid.available";

/// The resources that systemReserved and kubeReserved may contain.
const RESERVABLE: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];

/// The cipher suites of Go's library that the kubelet accepts.
const CIPHER_SUITES: [&str; 24] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
];

/// Further cipher suites that only some releases accept. plegctl reports no finding about them.
const OTHER_SUITES: [&str; 3] =
    ["TLS_RSA_WITH_AES_128_CBC_SHA256", "TLS_RSA_WITH_AES_256_CBC_SHA", "TLS_RSA_WITH_RC4_128_SHA"];

/// The prefixes of labels that a kubelet may set on its own node (`kubeletapis.kubeletLabels` and its prefixes).
const LABEL_PREFIXES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// The labels below kubernetes.io that a kubelet may set on its own node.
const LABELS: [&str; 13] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.kubernetes.io/region",
    "failure-domain.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/instance-type",
    "kubernetes.io/os",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// Returns the findings about these values.
pub fn check(settings: &MergedSettings, flags: &ParsedFlags, kubelet: TargetKubelet) -> Vec<StartFinding> {
    let mut findings = Vec::new();
    check_authorization(settings, &mut findings);
    check_cipher_suites(settings, &mut findings);
    for path in ["systemReserved", "kubeReserved"] {
        check_reservation(settings, path, &mut findings);
    }
    for path in ["evictionHard", "evictionSoft"] {
        check_eviction_thresholds(settings, path, &mut findings);
    }
    check_cpu_policy(settings, &mut findings);
    // `OpenShift`'s kubelet accepts further labels for the node's role.
    if kubelet.builder != Builder::OpenShift {
        check_node_labels(flags, &mut findings);
    }
    check_node_ip(flags, &mut findings);
    check_cloud_provider(flags, kubelet, &mut findings);
    check_lock_file(flags, &mut findings);
    findings
}

fn refused(path: &str, origin: &Origin, message: String, reason: String) -> StartFinding {
    StartFinding::new(StartCheck::RefusedAtStart, message).at(origin).on(path).with_reason(reason)
}

fn check_authorization(settings: &MergedSettings, findings: &mut Vec<StartFinding>) {
    let Some(mode) = settings.non_empty("authorization.mode") else { return };
    if !matches!(mode.value.as_str(), "AlwaysAllow" | "Webhook") {
        findings.push(refused(
            "authorization.mode",
            &mode.origin,
            format!(
                "the authorization mode is `{}`, but the kubelet knows only AlwaysAllow and Webhook",
                mode.value
            ),
            format!("failed to run Kubelet: unknown authorization mode {}", mode.value),
        ));
    }
}

fn check_cipher_suites(settings: &MergedSettings, findings: &mut Vec<StartFinding>) {
    let Some(suites) = settings.list("tlsCipherSuites") else { return };
    let is_known =
        |suite: &&String| CIPHER_SUITES.contains(&suite.as_str()) || OTHER_SUITES.contains(&suite.as_str());
    if let Some(unknown) = suites.value.iter().find(|suite| !is_known(suite)) {
        findings.push(refused(
            "tlsCipherSuites",
            &suites.origin,
            format!("the kubelet does not know the cipher suite `{unknown}`"),
            format!("failed to construct kubelet dependencies: Cipher suite {unknown} not supported or doesn't exist"),
        ));
    }
}

fn text(node: &ValueWithOrigin<ManifestNode>) -> &str {
    node.value.as_str().unwrap_or_default()
}

/// Checks the resources and amounts of `systemReserved` or `kubeReserved`.
fn check_reservation(settings: &MergedSettings, path: &str, findings: &mut Vec<StartFinding>) {
    let flag = if path == "systemReserved" { "--system-reserved" } else { "--kube-reserved" };
    for (resource, amount) in settings.entries(path) {
        let shown = format!("{path}.{resource}");
        let why = if RESERVABLE.contains(&resource) {
            match Quantity::parse(text(amount)) {
                Err(why) => {
                    format!("failed to parse quantity {:?} for {resource:?} resource: {why}", text(amount))
                }
                Ok(quantity) if quantity.is_negative() => {
                    format!("resource quantity for {resource:?} cannot be negative: {}", text(amount))
                }
                Ok(_) => continue,
            }
        } else {
            format!("cannot reserve {resource:?} resource")
        };
        findings.push(refused(
            &shown,
            &amount.origin,
            format!("`{}` cannot be reserved as {resource}", text(amount)),
            format!("failed to run Kubelet: {flag} value failed to parse: {why}"),
        ));
    }
}

/// Checks the signals and values of `evictionHard` or `evictionSoft`.
fn check_eviction_thresholds(settings: &MergedSettings, path: &str, findings: &mut Vec<StartFinding>) {
    for (signal, threshold) in settings.entries(path) {
        let shown = format!("{path}.{signal}");
        let value = text(threshold);
        if !SIGNALS.contains(&signal) && signal != PID_SIGNAL {
            findings.push(refused(
                &shown,
                &threshold.origin,
                format!("the kubelet does not know the eviction signal `{signal}`"),
                format!("failed to run Kubelet: unsupported eviction signal {signal}"),
            ));
        } else if !value.ends_with('%')
            && let Err(why) = Quantity::parse(value)
        {
            findings.push(refused(
                &shown,
                &threshold.origin,
                format!("`{value}` is neither a quantity nor a percentage"),
                format!("failed to run Kubelet: {why}"),
            ));
        }
    }
}

/// Checks `cpuManagerPolicy`. The static policy needs reserved CPUs.
fn check_cpu_policy(settings: &MergedSettings, findings: &mut Vec<StartFinding>) {
    let Some(policy) = settings.non_empty("cpuManagerPolicy") else { return };
    let path = "cpuManagerPolicy";
    match policy.value.as_str() {
        "none" => {}
        "static" => {
            let is_reserved = settings.non_empty("reservedSystemCPUs").is_some()
                || ["systemReserved", "kubeReserved"].iter().any(|path| {
                    let mut entries = settings.entries(path);
                    entries.any(|(resource, amount)| {
                        resource == "cpu"
                            && Quantity::parse(text(amount)).is_ok_and(|amount| !amount.is_zero())
                    })
                });
            if !is_reserved {
                findings.push(
                    refused(
                        path,
                        &policy.origin,
                        "the static CPU policy needs reserved CPUs, but the settings reserve none".to_owned(),
                        "failed to run Kubelet: [cpumanager] unable to determine reserved CPU resources for static policy"
                            .to_owned(),
                    )
                    .with_fix("set reservedSystemCPUs, or cpu in kubeReserved or systemReserved"),
                );
            }
        }
        other => findings.push(refused(
            path,
            &policy.origin,
            format!("the CPU policy is `{other}`, but the kubelet knows only `none` and `static`"),
            format!("failed to run Kubelet: unknown policy: {other:?}"),
        )),
    }
}

/// Checks the labels that the kubelet sets on its own node.
fn check_node_labels(flags: &ParsedFlags, findings: &mut Vec<StartFinding>) {
    let pairs = flags.all("node-labels").flat_map(|value| value.split(','));
    let keys = pairs.filter_map(|pair| pair.split('=').next()).map(str::trim).filter(|key| !key.is_empty());
    let is_refused = |key: &&str| {
        let Some((namespace, _)) = key.split_once('/') else { return false };
        let is_below = |domain: &str| {
            namespace == domain || namespace.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
        };
        (is_below("kubernetes.io") || is_below("k8s.io"))
            && !LABELS.contains(key)
            && !LABEL_PREFIXES.iter().any(|prefix| is_below(prefix))
    };
    let mut refused: Vec<&str> = keys.filter(is_refused).collect();
    refused.sort_unstable();
    refused.dedup();
    if !refused.is_empty() {
        let list = refused.join(" ");
        findings.push(
            StartFinding::new(
                StartCheck::RefusedAtStart,
                format!("a kubelet must not set these labels on its own node: {list}"),
            )
            .at(&Origin::Flag("node-labels".to_owned()))
            .with_reason(format!(
                "failed to validate kubelet flags: unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [{list}]"
            ))
            .with_fix("set these labels through the API server: kubectl label node"),
        );
    }
}

fn check_node_ip(flags: &ParsedFlags, findings: &mut Vec<StartFinding>) {
    let Some(value) = flags.last("node-ip").filter(|value| !value.is_empty()) else { return };
    let origin = Origin::Flag("node-ip".to_owned());
    let parts: Vec<&str> = value.split(',').map(str::trim).collect();
    let (valid, invalid): (Vec<&str>, Vec<&str>) = parts.into_iter().partition(|part| is_address(part));
    if !invalid.is_empty() {
        let quoted: Vec<String> = invalid.iter().map(|part| format!("{part:?}")).collect();
        findings.push(
            StartFinding::new(
                StartCheck::ValueIgnored,
                format!("--node-ip: `{}` is not an IP address", invalid.join(",")),
            )
            .at(&origin)
            .with_reason(format!(
                "Could not parse some node IP(s), ignoring them\" IPs=[{}]",
                quoted.join(" ")
            )),
        );
    }
    let is_one_address_or_pair = match valid.as_slice() {
        [] | [_] => true,
        [first, second] => first.contains(':') != second.contains(':'),
        _ => false,
    };
    if !is_one_address_or_pair {
        findings.push(
            StartFinding::new(StartCheck::RefusedAtStart, format!("--node-ip {value} is not a pair of an IPv4 and an IPv6 address"))
                .at(&origin)
                .with_reason(format!(
                    "failed to run Kubelet: bad --node-ip {value:?}: must contain either a single IP or a dual-stack pair of IPs"
                )),
        );
    }
    if valid.iter().any(|address| address.starts_with("127.") || *address == "::1") {
        findings.push(
            StartFinding::new(
                StartCheck::ValueIgnored,
                format!("--node-ip {value} is a loopback address: the kubelet starts, but its node does not become ready"),
            )
            .at(&origin)
            .with_severity(Severity::Error)
            .with_reason("failed to validate nodeIP: nodeIP can't be loopback address"),
        );
    }
}

fn check_cloud_provider(flags: &ParsedFlags, kubelet: TargetKubelet, findings: &mut Vec<StartFinding>) {
    let Some(value) = flags.last("cloud-provider").filter(|value| !matches!(*value, "" | "external")) else {
        return;
    };
    if !kubelet.release.at_least(29) {
        return;
    }
    findings.push(
        StartFinding::new(
            StartCheck::RefusedAtStart,
            format!("kubelet {} has no built-in cloud provider {value}", kubelet.release),
        )
        .at(&Origin::Flag("cloud-provider".to_owned()))
        .with_reason(format!(
            "failed to run Kubelet: failed to create kubelet: cloud provider {value:?} was specified, but built-in cloud providers are disabled. Please set --cloud-provider=external and migrate to an external cloud provider"
        ))
        .with_confidence(if kubelet.release.at_least(31) { Confidence::Certain } else { Confidence::Likely })
        .with_fix("set --cloud-provider=external and run an external cloud provider"),
    );
}

fn check_lock_file(flags: &ParsedFlags, findings: &mut Vec<StartFinding>) {
    let is_on = flags.last("exit-on-lock-contention") == Some("true");
    if is_on && flags.last("lock-file").is_none_or(str::is_empty) {
        findings.push(
            StartFinding::new(StartCheck::RefusedAtStart, "--exit-on-lock-contention needs --lock-file")
                .at(&Origin::Flag("exit-on-lock-contention".to_owned()))
                .with_reason(
                    "failed to run Kubelet: cannot exit on lock file contention: no lock file specified",
                ),
        );
    }
}
