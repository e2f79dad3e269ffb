//! Checks whether a kubelet can start on a node: kubeconfig, certificates, swap, kernel settings, inotify, CPUs and the root
//! directory (KP031, KP033, KP054, KP060 to KP074 and KP079).
//!
//! The checks are a pure function of [`NodeFacts`] and the settings. [`super::runtime_checks`] checks the runtime.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::{Duration, UNIX_EPOCH};

use super::finding::StartFinding;
use super::node_facts::{CertificateFile, CertificateUse, KERNEL_SETTINGS, NodeFacts, Validity};
use super::release::TargetKubelet;
use super::runtime_checks;
use super::settings::MergedSettings;
use plegctl_base::report::{Confidence, Places, Severity};

/// A certificate that expires within this number of seconds gets a warning, if the kubelet does not renew it.
const EXPIRES_SOON_SECONDS: i64 = 14 * 86_400;

/// The number of inotify instances that a kubelet needs at its start.
const INOTIFY_OF_A_KUBELET: u64 = 4;

/// Returns the findings about the node.
pub fn check(node: &NodeFacts, settings: &MergedSettings, kubelet: TargetKubelet) -> Vec<StartFinding> {
    let mut findings = Vec::new();
    check_client(node, settings, &mut findings);
    for file in &node.certificates.files {
        check_certificate(file, node, settings, kubelet, &mut findings);
    }
    runtime_checks::check(node, settings, kubelet, &mut findings);
    check_swap(node, settings, kubelet, &mut findings);
    check_kernel(node, settings, &mut findings);
    check_inotify(node, &mut findings);
    check_reserved_cpus(node, settings, &mut findings);
    findings.extend(node.subordinate_ids.check(kubelet));
    if let Some(providers) = &node.credential_providers {
        findings.extend(providers.fault(kubelet));
    }
    findings.extend(
        node.root_is_no_directory
            .as_ref()
            .map(|root| StartFinding::of_flag("root-dir", "root-is-no-directory", &[("root", root)])),
    );
    findings
}

/// Reports a kubeconfig that does not exist, and settings for which a kubelet without a kubeconfig does not start.
fn check_client(node: &NodeFacts, settings: &MergedSettings, findings: &mut Vec<StartFinding>) {
    let Some(client) = &node.client else { return };
    let Some(kubeconfig) = &client.kubeconfig else {
        return check_webhooks(node, settings, findings);
    };
    let (file, flag, step) = match &client.bootstrap {
        _ if !kubeconfig.is_missing => return,
        Some(bootstrap) if bootstrap.is_missing => {
            (bootstrap, "bootstrap-kubeconfig", "unable to load bootstrap kubeconfig")
        }
        Some(_) => return,
        None if settings.is_on("rotateCertificates", false) => {
            (kubeconfig, "kubeconfig", "unable to load kubeconfig")
        }
        None => (kubeconfig, "kubeconfig", "invalid kubeconfig"),
    };
    let (path, kubeconfig) = (&file.path, &kubeconfig.path);
    let places: &Places<'_> = &[("kubeconfig", kubeconfig), ("step", &step), ("path", path)];
    let mut finding = StartFinding::of_flag(flag, "kubeconfig-missing", places);
    finding.file = Some(path.clone());
    findings.push(finding);
}

/// Reports that a kubelet without a kubeconfig is to ask the API server about its callers.
fn check_webhooks(node: &NodeFacts, settings: &MergedSettings, findings: &mut Vec<StartFinding>) {
    // A configuration file changes these two defaults.
    let has_file = node.resources.has_config_file;
    let mode = settings.non_empty("authorization.mode").map(|mode| mode.value);
    let asks = [
        (
            "authentication.webhook.enabled",
            "authentication",
            settings.is_on("authentication.webhook.enabled", has_file),
        ),
        ("authorization.mode", "authorization", mode.map_or(has_file, |mode| mode == "Webhook")),
    ];
    for (field, what, _) in asks.into_iter().filter(|(.., asks)| *asks) {
        findings.push(settings.finding(field, "webhook-without-kubeconfig", &[("what", &what)]));
    }
}

/// Reports reserved CPUs that the node does not have.
fn check_reserved_cpus(node: &NodeFacts, settings: &MergedSettings, findings: &mut Vec<StartFinding>) {
    let path = "reservedSystemCPUs";
    let (Some(reserved), Some(online)) = (settings.non_empty(path), &node.online_cpus) else { return };
    let (Some(wanted), Some(known)) = (cpu_ranges(&reserved.value), cpu_ranges(online)) else { return };
    let is_online = |cpus: &RangeInclusive<u64>| {
        known.iter().any(|known| known.contains(cpus.start()) && known.contains(cpus.end()))
    };
    if !wanted.iter().all(is_online) {
        let places: &Places<'_> = &[("cpus", &reserved.value), ("online", online)];
        findings.push(settings.finding(path, "reserved-cpus", places));
    }
}

/// Parses a list of CPUs such as `0-3,8`; `None` if it is not such a list. `validation` reports this.
fn cpu_ranges(list: &str) -> Option<Vec<RangeInclusive<u64>>> {
    let ranges = list.split(',').map(|range| {
        let (begin, end) = range.split_once('-').unwrap_or((range, range));
        Some(begin.parse().ok()?..=end.parse().ok()?)
    });
    ranges.collect()
}

fn check_certificate(
    file: &CertificateFile,
    node: &NodeFacts,
    settings: &MergedSettings,
    kubelet: TargetKubelet,
    findings: &mut Vec<StartFinding>,
) {
    let (path, now) = (&file.path, node.now);
    let about = |row, places: &Places<'_>| {
        let mut finding = StartFinding::of(row, &[&[("path", path as &dyn Display)], places].concat());
        finding.file = Some(path.clone());
        match file.named_by {
            Some(field) => finding.on(field),
            None => finding,
        }
    };
    let chain = match &file.content {
        Ok(chain) => chain,
        Err(std::io::ErrorKind::NotFound) => {
            let reason = missing_file_reason(file, kubelet);
            findings.extend(reason.map(|why| about("certificate-missing", &[("why", &why)])));
            return;
        }
        Err(_) => return,
    };
    if chain.key_matches == Some(false) {
        findings.push(about("key-of-other-certificate", &[]));
    }
    let name = file.usage.name();
    let severity = if file.usage.is_needed_for_the_server() { Severity::Error } else { Severity::Warning };
    let (Some(certificate), Some(validity)) = (file.deciding(), file.validity(now)) else { return };
    let renews = file.usage == CertificateUse::Client && settings.is_on("rotateCertificates", false);
    if let Validity::Expired(at) = validity {
        let places: &Places<'_> = &[("name", &name), ("date", &date(at))];
        let finding = about("certificate-expired", places).with_severity(severity);
        findings.push(if file.usage == CertificateUse::Client && node.certificates.can_bootstrap {
            finding.with_severity(Severity::Warning).with_fix(
                "nothing, if the token in the bootstrap kubeconfig is valid: the kubelet gets a new certificate",
            )
        } else if renews {
            finding
                .with_reason("The currently active client certificate has expired and the server is responsive, exiting.")
                .with_fix("delete the file and give the kubelet a new bootstrap kubeconfig")
        } else {
            finding.with_fix("issue a new certificate")
        });
    } else if let Validity::NotYet(from) = validity {
        let places: &Places<'_> = &[("name", &name), ("date", &date(from))];
        findings.push(about("certificate-not-yet-valid", places).with_severity(severity));
    } else if certificate.not_after - now < EXPIRES_SOON_SECONDS && !renews {
        let places: &Places<'_> = &[("name", &name), ("date", &date(certificate.not_after))];
        findings.push(about("certificate-expires-soon", places));
    }
    if file.usage == CertificateUse::Client
        && let Some(common_name) = &certificate.common_name
        && !(common_name.starts_with("system:node:")
            && certificate.organizations.iter().any(|group| group == "system:nodes"))
    {
        let places: &Places<'_> = &[("name", &format!("{common_name:?}"))];
        findings.push(about("certificate-of-other-name", places));
    }
}

/// Returns the kubelet's message about a missing file; `None` if the file does not have to exist.
fn missing_file_reason(file: &CertificateFile, kubelet: TargetKubelet) -> Option<String> {
    let open = format!("open {}: no such file or directory", file.path);
    file.named_by?;
    Some(match file.usage {
        CertificateUse::Client => format!("unable to read client-cert {} for", file.path),
        CertificateUse::ServerAuthority => format!("unable to read certificate-authority {} for", file.path),
        CertificateUse::CallerAuthority => format!("failed to run Kubelet: {open}"),
        CertificateUse::Serving if kubelet.release.at_least(31) => format!(
            "failed to run Kubelet: failed to create kubelet: failed to initialize file based certificate manager: unable to set up dynamic certificate manager for kubelet server cert files: {open}"
        ),
        CertificateUse::Serving => open,
    })
}

/// Formats a time in seconds since the Unix epoch as RFC 3339.
fn date(seconds: i64) -> String {
    let since = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string()
}

fn check_swap(
    node: &NodeFacts,
    settings: &MergedSettings,
    kubelet: TargetKubelet,
    findings: &mut Vec<StartFinding>,
) {
    let Some(areas) = node.swaps.as_ref().filter(|areas| !areas.is_empty()) else { return };
    if !settings.is_on("failSwapOn", true) {
        return;
    }
    let finding = settings.finding("failSwapOn", "swap-on", &[("areas", &areas.join(", "))]);
    // Release 1.28 has another message, and the messages of 1.29 and 1.30 were not recorded.
    let is_recorded = kubelet.release.at_least(31);
    findings.push(StartFinding { kubelet_reason: finding.kubelet_reason.filter(|_| is_recorded), ..finding });
}

fn check_kernel(node: &NodeFacts, settings: &MergedSettings, findings: &mut Vec<StartFinding>) {
    if !settings.is_on("protectKernelDefaults", false) {
        return;
    }
    for (name, wanted) in KERNEL_SETTINGS {
        let Some(actual) = node.kernel.get(name).filter(|actual| **actual != wanted) else { continue };
        let dotted = name.replace('/', ".");
        let places: &Places<'_> =
            &[("name", &name), ("dotted", &dotted), ("actual", actual), ("wanted", &wanted)];
        findings.push(settings.finding("protectKernelDefaults", "kernel-setting", places));
    }
}

fn check_inotify(node: &NodeFacts, findings: &mut Vec<StartFinding>) {
    let Some(of_root) = &node.inotify else { return };
    let left = of_root.limit.saturating_sub(of_root.used);
    if left >= INOTIFY_OF_A_KUBELET {
        return;
    }
    let most = of_root.largest.as_ref().map(|(name, pid, own)| format!("; {name}[{pid}] has {own}"));
    let places: &Places<'_> =
        &[("used", &of_root.used), ("limit", &of_root.limit), ("most", &most.unwrap_or_default())];
    let finding = StartFinding::of("inotify-used-up", places);
    findings.push(if left == 0 {
        // The count may be too high, because the kernel counts processes in other user namespaces separately.
        finding.with_confidence(Confidence::Likely)
    } else {
        finding.with_severity(Severity::Warning).with_confidence(Confidence::Possible)
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::catalogue::StartCheck;
    use super::super::node_facts::KubeletCertificates;
    use super::*;
    use plegctl_api_values::reader::read;
    use plegctl_node::host::InotifyUse;
    use plegctl_node::kubelet::{CertificateChain, CertificateFacts};

    const NOW: i64 = 1_795_446_000;

    fn settings(text: &str) -> MergedSettings {
        let mut settings = MergedSettings::default();
        settings.add_file(&read(text.as_bytes()).root.unwrap(), &Arc::from("c.yaml"));
        settings
    }

    fn found(node: &NodeFacts, text: &str) -> Vec<(StartCheck, Severity, String)> {
        let findings = check(node, &settings(text), TargetKubelet::upstream("1.36")).into_iter();
        findings
            .map(|finding| (finding.id, finding.severity, finding.kubelet_reason.unwrap_or_default()))
            .collect()
    }

    fn with_certificate(usage: CertificateUse, not_before: i64, not_after: i64, name: &str) -> NodeFacts {
        let facts = CertificateFacts {
            not_before,
            not_after,
            common_name: Some(name.to_owned()),
            organizations: vec!["system:nodes".to_owned()],
        };
        let content = Ok(CertificateChain { certificates: vec![facts], key_matches: None });
        let file = CertificateFile { path: "/pki/c.pem".to_owned(), usage, named_by: None, content };
        let certificates = KubeletCertificates { files: vec![file], can_bootstrap: false };
        NodeFacts { now: NOW, certificates, ..NodeFacts::default() }
    }

    #[test]
    fn an_expired_client_certificate_is_an_error_and_an_expired_serving_certificate_a_warning() {
        let client =
            |from, to| found(&with_certificate(CertificateUse::Client, from, to, "system:node:n1"), "a: 1");
        let day = 86_400;
        assert_eq!(client(NOW - day, NOW + 90 * day), []);
        assert_eq!(client(NOW - 2 * day, NOW - day)[0].0, StartCheck::CertificateExpired);
        assert_eq!(client(NOW + day, NOW + 90 * day)[0].0, StartCheck::CertificateNotYetValid);
        assert_eq!(client(NOW - day, NOW + day)[0].0, StartCheck::CertificateExpiresSoon);
        let rotated = with_certificate(CertificateUse::Client, NOW - day, NOW + day, "system:node:n1");
        assert_eq!(found(&rotated, "rotateCertificates: true"), []);
        let serving = with_certificate(CertificateUse::Serving, NOW - 2 * day, NOW - day, "n1");
        assert_eq!(found(&serving, "a: 1")[0].1, Severity::Warning);
        let other = with_certificate(CertificateUse::Client, NOW - day, NOW + 90 * day, "admin");
        assert_eq!(found(&other, "a: 1")[0].0, StartCheck::CertificateOfOtherName);
    }

    #[test]
    fn swap_and_kernel_settings_are_errors_only_if_the_settings_require_it() {
        let node = NodeFacts { swaps: Some(vec!["/dev/sda2".to_owned()]), ..NodeFacts::default() };
        assert!(found(&node, "a: 1")[0].2.contains("running with swap on is not supported"));
        assert_eq!(found(&node, "failSwapOn: false"), []);
        let node = NodeFacts {
            kernel: [("vm/overcommit_memory", 0), ("kernel/panic", 10)].into(),
            ..NodeFacts::default()
        };
        assert_eq!(found(&node, "a: 1"), []);
        let reason = "invalid kernel flag: vm/overcommit_memory, expected value: 1, actual value: 0";
        assert_eq!(found(&node, "protectKernelDefaults: true")[0].2, reason);
    }

    #[test]
    fn used_up_inotify_instances_are_an_error_and_few_are_a_warning() {
        let node = |used| NodeFacts {
            inotify: Some(InotifyUse { used, limit: 128, largest: None }),
            ..NodeFacts::default()
        };
        assert_eq!(found(&node(100), "a: 1"), []);
        assert_eq!(found(&node(126), "a: 1")[0].1, Severity::Warning);
        assert_eq!(found(&node(128), "a: 1")[0].1, Severity::Error);
    }
}
