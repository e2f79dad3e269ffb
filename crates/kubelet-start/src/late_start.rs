//! Checks values that the kubelet refuses after its validation: endpoints (KP030), values that it parses only after its
//! runtime has answered (KP033), and values that it ignores (KP034).

use super::command_line::ParsedFlags;
use super::finding::StartFinding;
use super::release::{Builder, TargetKubelet};
use super::settings::{MergedSettings, ValueWithOrigin, url_scheme};
use super::tables::Tables;
use plegctl_api_values::quantity::Quantity;
use plegctl_api_values::reader::json_text;
use plegctl_api_values::tree::ManifestNode;
use plegctl_base::report::{Confidence, Places};
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

fn check_authorization(settings: &MergedSettings, findings: &mut Vec<StartFinding>) {
    const PATH: &str = "authorization.mode";
    let Some(mode) = settings.non_empty(PATH).map(|mode| mode.value) else { return };
    if !matches!(mode.as_str(), "AlwaysAllow" | "Webhook") {
        findings.push(settings.finding(PATH, "authorization-mode", &[("mode", &mode)]));
    }
}

fn check_cipher_suites(settings: &MergedSettings, findings: &mut Vec<StartFinding>) {
    const PATH: &str = "tlsCipherSuites";
    let Some(suites) = settings.list(PATH) else { return };
    let is_known =
        |suite: &&String| Tables::get().is_cipher_suite(suite) || OTHER_SUITES.contains(&suite.as_str());
    let unknown = suites.value.iter().find(|suite| !is_known(suite));
    findings.extend(unknown.map(|suite| settings.finding(PATH, "cipher-suite", &[("suite", suite)])));
}

fn check_tls_version(settings: &MergedSettings, findings: &mut Vec<StartFinding>) {
    const PATH: &str = "tlsMinVersion";
    let Some(version) = settings.non_empty(PATH).map(|version| version.value) else { return };
    if !TLS_VERSIONS.contains(&version.as_str()) {
        let quoted = format!("{version:?}");
        let places: &Places<'_> =
            &[("version", &version), ("quoted", &quoted), ("known", &TLS_VERSIONS.join(", "))];
        findings.push(settings.finding(PATH, "tls-version", places));
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
    let places: &Places<'_> = &[("path", &path), ("endpoint", &endpoint.value), ("why", &why)];
    findings.push(settings.finding(path, "endpoint", places));
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
        let places: &Places<'_> =
            &[("amount", &text(amount)), ("resource", &resource), ("flag", &flag), ("why", &why)];
        findings.push(StartFinding::of("reservation", places).at(&amount.origin).on(&shown));
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
            let places: &Places<'_> = &[("path", &path), ("signal", &signal), ("creating", &creating)];
            let finding = if !SIGNALS.contains(&signal) && signal != PID_SIGNAL {
                StartFinding::of("eviction-signal", places)
            } else if let Some(why) = error(signal, value, release) {
                let value: &Places<'_> = &[("value", &value), ("why", &why)];
                StartFinding::of("eviction-value", &[places, value].concat())
            } else if path == "evictionSoft" && !is_ignored(value) && !is_graceful(signal) {
                StartFinding::of("eviction-grace-period", places)
            } else {
                continue;
            };
            findings.push(finding.at(&setting.origin).on(&format!("{path}.{signal}")));
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
                findings.push(settings.finding(path, "cpu-policy-without-cpus", &[]));
            }
        }
        other => {
            let places: &Places<'_> = &[("policy", &other), ("quoted", &format!("{other:?}"))];
            findings.push(settings.finding(path, "cpu-policy", places));
        }
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
    if policy.value != "Static" {
        let why = if policy.value == "BestEffort" && kubelet.release.at_least(32) {
            "policy \"BestEffort\" is not available for platform \"linux\"".to_owned()
        } else {
            format!("unknown policy: {:?}", policy.value)
        };
        let places: &Places<'_> = &[("policy", &policy.value), ("why", &why)];
        findings.push(settings.finding(path, "memory-policy", places));
        return;
    }
    let divided = divided_memory(settings);
    let places: &Places<'_> = &[("divided", &divided)];
    findings.push(match reserved_memory(settings) {
        Some(reserved) if reserved != divided => {
            let reserved: &Places<'_> = &[("reserved", &reserved)];
            settings.finding(path, "memory-policy-with-other-sum", &[places, reserved].concat())
        }
        Some(_) if divided.is_zero() => settings.finding(path, "memory-policy-without-memory", &[]),
        // evictionHard reserves a share of the node's memory.
        None if divided.is_zero() => settings.finding(path, "memory-policy-without-division", &[]),
        Some(_) | None => return,
    });
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
        let places: &Places<'_> = &[("labels", &refused.join(" "))];
        findings.push(StartFinding::of_flag("node-labels", "node-labels", places));
    }
}

fn check_node_ip(flags: &ParsedFlags, findings: &mut Vec<StartFinding>) {
    let Some(value) = flags.last("node-ip").filter(|value| !value.is_empty()) else { return };
    let parts: Vec<&str> = value.split(',').map(str::trim).collect();
    let (valid, invalid): (Vec<&str>, Vec<&str>) = parts.into_iter().partition(|part| is_address(part));
    let mut add = |row, places: &Places<'_>| findings.push(StartFinding::of_flag("node-ip", row, places));
    if !invalid.is_empty() {
        let quoted: Vec<String> = invalid.iter().map(|part| format!("{part:?}")).collect();
        add("node-ip-no-address", &[("invalid", &invalid.join(",")), ("quoted", &quoted.join(" "))]);
    }
    let is_one_address_or_pair = match valid.as_slice() {
        [] | [_] => true,
        [first, second] => first.contains(':') != second.contains(':'),
        _ => false,
    };
    if !is_one_address_or_pair {
        add("node-ip-no-pair", &[("value", &value), ("quoted", &format!("{value:?}"))]);
    }
    if valid.iter().any(|address| address.starts_with("127.") || *address == "::1") {
        add("node-ip-loopback", &[("value", &value)]);
    }
}

fn check_cloud_provider(flags: &ParsedFlags, kubelet: TargetKubelet, findings: &mut Vec<StartFinding>) {
    let Some(value) = flags.last("cloud-provider").filter(|value| !matches!(*value, "" | "external")) else {
        return;
    };
    if !kubelet.release.at_least(29) {
        return;
    }
    let quoted = format!("{value:?}");
    let places: &Places<'_> = &[("release", &kubelet.release), ("value", &value), ("quoted", &quoted)];
    findings.push(StartFinding::of_flag("cloud-provider", "cloud-provider", places).with_confidence(
        if kubelet.release.at_least(31) { Confidence::Certain } else { Confidence::Likely },
    ));
}

fn check_lock_file(flags: &ParsedFlags, findings: &mut Vec<StartFinding>) {
    let is_on = flags.last("exit-on-lock-contention") == Some("true");
    if is_on && flags.last("lock-file").is_none_or(str::is_empty) {
        let flag = "exit-on-lock-contention";
        findings.push(StartFinding::of_flag(flag, "no-lock-file", &[]));
    }
}
