//! Checks values that the kubelet refuses after its validation: endpoints (KP030), values that it parses only after its
//! runtime has answered (KP033), and values that it ignores (KP034).

use super::catalogue::StartCheck;
use super::command_line::ParsedFlags;
use super::finding::StartFinding;
use super::release::{Builder, TargetKubelet};
use super::settings::{MergedSettings, Origin, ValueWithOrigin, url_scheme};
use super::tables::Tables;
use plegctl_api_values::quantity::Quantity;
use plegctl_api_values::reader::json_text;
use plegctl_api_values::tree::ManifestNode;
use plegctl_base::report::{Confidence, Severity};
use plegctl_node::kubelet::{KubeletVersion, go_nanoseconds, is_address};

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

/// The threshold of evictionHard for memory if evictionHard is not set (`pkg/kubelet/eviction/defaults_linux.go`).
const DEFAULT_MEMORY_THRESHOLD: &str = "100Mi";

/// The resources that systemReserved and kubeReserved may contain.
const RESERVABLE: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];

/// Further cipher suites that only some releases accept. plegctl reports no finding about them.
const OTHER_SUITES: [&str; 3] =
    ["TLS_RSA_WITH_AES_128_CBC_SHA256", "TLS_RSA_WITH_AES_256_CBC_SHA", "TLS_RSA_WITH_RC4_128_SHA"];

/// The versions of TLS that the kubelet accepts as the oldest one.
const TLS_VERSIONS: [&str; 4] = ["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"];

/// The prefixes of labels that a kubelet may set on its own node (`kubeletapis.kubeletLabels` and its prefixes).
const LABEL_PREFIXES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// Returns the findings about these values.
pub fn check(settings: &MergedSettings, flags: &ParsedFlags, kubelet: TargetKubelet) -> Vec<StartFinding> {
    let mut findings = Vec::new();
    check_cipher_suites(settings, &mut findings);
    check_tls_version(settings, &mut findings);
    check_authorization(settings, &mut findings);
    for path in ["containerRuntimeEndpoint", "imageServiceEndpoint"] {
        check_endpoint(settings, path, &mut findings);
    }
    for path in ["systemReserved", "kubeReserved"] {
        check_reservation(settings, path, kubelet.release, &mut findings);
    }
    check_eviction(settings, kubelet.release, &mut findings);
    check_cpu_policy(settings, &mut findings);
    // The flag, which overrides reservedMemory, is not read.
    if flags.last("reserved-memory").is_none() {
        check_memory_policy(settings, kubelet, &mut findings);
    }
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
        |suite: &&String| Tables::get().is_cipher_suite(suite) || OTHER_SUITES.contains(&suite.as_str());
    if let Some(unknown) = suites.value.iter().find(|suite| !is_known(suite)) {
        findings.push(refused(
            "tlsCipherSuites",
            &suites.origin,
            format!("the kubelet does not know the cipher suite `{unknown}`"),
            format!("failed to construct kubelet dependencies: Cipher suite {unknown} not supported or doesn't exist"),
        ));
    }
}

fn check_tls_version(settings: &MergedSettings, findings: &mut Vec<StartFinding>) {
    const PATH: &str = "tlsMinVersion";
    let Some(version) = settings.non_empty(PATH) else { return };
    if !TLS_VERSIONS.contains(&version.value.as_str()) {
        findings.push(
            refused(
                PATH,
                &version.origin,
                format!("the kubelet does not know the TLS version `{}`", version.value),
                format!("failed to construct kubelet dependencies: unknown tls version {:?}", version.value),
            )
            .with_fix(format!("write one of {}", TLS_VERSIONS.join(", "))),
        );
    }
}

/// Checks that an endpoint is a Unix socket (`GetAddressAndDialer` in `cri-client`). The kubelet reads an endpoint without
/// a scheme as a path.
fn check_endpoint(settings: &MergedSettings, path: &str, findings: &mut Vec<StartFinding>) {
    let Some(endpoint) = settings.non_empty(path) else { return };
    let why = match url_scheme(&endpoint.value).as_deref() {
        None | Some("unix") => return,
        Some("tcp") => "only support unix socket endpoint".to_owned(),
        Some(other) => format!("protocol {other:?} not supported"),
    };
    let message = format!("{path} is `{}`, but the kubelet uses only Unix sockets", endpoint.value);
    findings.push(
        StartFinding::new(StartCheck::ValueRefused, message)
            .at(&endpoint.origin)
            .on(path)
            .with_reason(format!("failed to run Kubelet: {why}"))
            .with_fix("write the path of the runtime's socket as unix:///PATH"),
    );
}

fn text(node: &ValueWithOrigin<ManifestNode>) -> &str {
    node.value.as_str().unwrap_or_default()
}

/// Checks the resources and amounts of `systemReserved` or `kubeReserved`.
fn check_reservation(
    settings: &MergedSettings,
    path: &str,
    release: KubeletVersion,
    findings: &mut Vec<StartFinding>,
) {
    let flag = if path == "systemReserved" { "--system-reserved" } else { "--kube-reserved" };
    for (resource, amount) in settings.entries(path) {
        let shown = format!("{path}.{resource}");
        let why = if RESERVABLE.contains(&resource) {
            match Quantity::parse_by(text(amount), release) {
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

/// Returns the error in a value that belongs to a name.
type ErrorIn = fn(&str, &str, KubeletVersion) -> Option<String>;

/// Checks the settings of eviction. The kubelet parses `evictionHard` before it creates its parts, and the other settings
/// while it creates them.
fn check_eviction(settings: &MergedSettings, release: KubeletVersion, findings: &mut Vec<StartFinding>) {
    let is_graceful =
        |signal: &str| settings.entries("evictionSoftGracePeriod").any(|(known, _)| known == signal);
    let parse: [(&str, ErrorIn); 4] = [
        ("evictionHard", threshold_error),
        ("evictionSoft", threshold_error),
        ("evictionSoftGracePeriod", |_, value, _| go_nanoseconds(value).err()),
        ("evictionMinimumReclaim", |_, value, release| amount_error(value, release)),
    ];
    for (path, error) in parse {
        let creating = if path == "evictionHard" { "" } else { "failed to create kubelet: " };
        for (signal, setting) in settings.entries(path) {
            let value = text(setting);
            let (message, why) = if !SIGNALS.contains(&signal) && signal != PID_SIGNAL {
                (
                    format!("the kubelet does not know the eviction signal `{signal}`"),
                    format!("unsupported eviction signal {signal}"),
                )
            } else if let Some(why) = error(signal, value, release) {
                (format!("{path}: the kubelet does not accept `{value}` for {signal}"), why)
            } else if path == "evictionSoft" && !is_ignored(value) && !is_graceful(signal) {
                (
                    format!("evictionSoft has {signal}, but evictionSoftGracePeriod does not"),
                    format!("grace period must be specified for the soft eviction threshold {signal}"),
                )
            } else {
                continue;
            };
            let reason = format!("failed to run Kubelet: {creating}{why}");
            findings.push(refused(&format!("{path}.{signal}"), &setting.origin, message, reason));
        }
    }
}

/// Whether the kubelet ignores a threshold.
fn is_ignored(threshold: &str) -> bool {
    matches!(threshold, "0%" | "100%")
}

/// Returns the kubelet's error about the value of a threshold (`parseThresholdStatement`).
fn threshold_error(signal: &str, value: &str, release: KubeletVersion) -> Option<String> {
    if let Some(why) = amount_error(value, release) {
        return Some(why);
    }
    match value.strip_suffix('%') {
        None => {
            let amount = Quantity::parse(value).ok()?;
            let is_positive = !amount.is_negative() && !amount.is_zero();
            (!is_positive).then(|| format!("eviction threshold {signal} must be positive: {amount}"))
        }
        Some(percent) => {
            let percent: f32 = percent.parse().ok()?;
            let limit = match percent {
                _ if percent < 0.0 => ">= 0%",
                _ if percent > 100.0 => "<= 100%",
                _ => return None,
            };
            Some(format!("eviction percentage threshold {signal} must be {limit}: {value}"))
        }
    }
}

/// Returns the kubelet's error about a text that is neither a quantity nor a percentage.
fn amount_error(value: &str, release: KubeletVersion) -> Option<String> {
    match value.strip_suffix('%') {
        None => Quantity::parse_by(value, release).err().map(|why| why.to_string()),
        Some(percent) => {
            let percent = percent.trim_end_matches('%');
            let is_number = percent.parse::<f32>().is_ok();
            (!is_number).then(|| format!("strconv.ParseFloat: parsing {percent:?}: invalid syntax"))
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

/// Checks `memoryManagerPolicy`. The static policy needs reserved memory, and `reservedMemory` must divide it among the
/// NUMA nodes completely (`validateReservedMemory` and `NewPolicyStatic`).
fn check_memory_policy(settings: &MergedSettings, kubelet: TargetKubelet, findings: &mut Vec<StartFinding>) {
    let path = "memoryManagerPolicy";
    // Up to 1.31, a gate switches the memory manager off.
    let is_off = !settings.is_on("featureGates[MemoryManager]", true) && !kubelet.release.at_least(32);
    let Some(policy) = settings.non_empty(path).filter(|policy| policy.value != "None" && !is_off) else {
        return;
    };
    let refused = |message: String, why: Option<String>| {
        let finding = StartFinding::new(StartCheck::RefusedAtStart, message).at(&policy.origin).on(path);
        match why {
            Some(why) => finding.with_reason(format!("failed to run Kubelet: {why}")),
            None => finding,
        }
    };
    if policy.value != "Static" {
        let why = if policy.value == "BestEffort" && kubelet.release.at_least(32) {
            "policy \"BestEffort\" is not available for platform \"linux\"".to_owned()
        } else {
            format!("unknown policy: {:?}", policy.value)
        };
        let message = format!(
            "the memory policy is `{}`, but the kubelet knows only `None` and `Static`",
            policy.value
        );
        findings.push(refused(message, Some(why)));
        return;
    }
    let divided = divided_memory(settings);
    let reserved = reserved_memory(settings);
    let finding = match &reserved {
        Some(reserved) if *reserved != divided => refused(
            format!("reservedMemory divides {divided} of memory, but {reserved} are reserved"),
            Some(format!(
                "the total amount \"{divided}\" of type \"memory\" is not equal to the value \"{reserved}\" determined by Node Allocatable feature"
            )),
        ),
        Some(_) if divided.is_zero() => refused(
            "the static memory policy needs reserved memory, but the settings reserve none".to_owned(),
            Some("[memorymanager] you should specify the system reserved memory".to_owned()),
        ),
        // evictionHard reserves a share of the node's memory.
        None if divided.is_zero() => {
            refused("the static memory policy needs reservedMemory, which is empty".to_owned(), None)
        }
        Some(_) | None => return,
    };
    findings.push(finding.with_fix(
        "set reservedMemory, and make its sum equal to that of systemReserved, kubeReserved and evictionHard",
    ));
}

/// Returns the memory that `reservedMemory` divides among the NUMA nodes.
fn divided_memory(settings: &MergedSettings) -> Quantity {
    let list = settings.node("reservedMemory").and_then(|list| list.value.as_list()).unwrap_or_default();
    let amounts = list.iter().filter_map(|one| one.get("limits")?.get("memory"));
    let amounts = amounts.filter_map(|amount| Quantity::parse(&json_text(amount).replace('"', "")).ok());
    amounts.fold(Quantity::default(), |sum, amount| sum.plus(&amount))
}

/// Returns the memory that is not for pods; `None` if a part of it is not known or depends on the node's memory.
fn reserved_memory(settings: &MergedSettings) -> Option<Quantity> {
    let of = |path: &str, key: &str| {
        settings.entries(path).find(|(known, _)| *known == key).map(|(_, amount)| text(amount).to_owned())
    };
    let eviction = match of("evictionHard", "memory.available") {
        None if settings.is_incomplete => return None,
        None => settings.keeps_default_thresholds().then(|| DEFAULT_MEMORY_THRESHOLD.to_owned()),
        set => set,
    };
    let eviction = eviction.filter(|threshold| !is_ignored(threshold));
    let amounts = [of("systemReserved", "memory"), of("kubeReserved", "memory"), eviction];
    amounts
        .into_iter()
        .flatten()
        .try_fold(Quantity::default(), |sum, amount| Some(sum.plus(&Quantity::parse(&amount).ok()?)))
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
            && !Tables::get().is_label_of_kubelet(key)
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
