//! Judges the node on which a kubelet is to start. A pure function of [`NodeFacts`].

use std::time::{Duration, UNIX_EPOCH};

use super::catalogue::StartCheck;
use super::finding::StartFinding;
use super::node_facts::{CertificateFile, CertificateUse, KERNEL_SETTINGS, NodeFacts, rotates};
use super::release::TargetKubelet;
use super::settings::{MergedSettings, Origin};
use crate::kubelet::CertificateFacts;
use crate::report::{Confidence, Severity};

/// The names of containerd's CRI plugin in its configuration versions.
const CRI_PLUGINS: [&str; 3] = ["cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"];

/// From this remaining validity on, a certificate that nobody renews is worth a warning.
const SOON: i64 = 14 * 86_400;

/// How many inotify instances a kubelet needs at its start.
const INOTIFY_OF_A_KUBELET: u64 = 4;

/// Judges the node.
pub fn check(node: &NodeFacts, settings: &MergedSettings, kubelet: TargetKubelet) -> Vec<StartFinding> {
    let mut findings = Vec::new();
    for file in &node.certificates {
        certificate(file, node, settings, kubelet, &mut findings);
    }
    runtime(node, &mut findings);
    swap(node, settings, kubelet, &mut findings);
    kernel(node, settings, &mut findings);
    inotify(node, &mut findings);
    if let Some(root) = &node.root_is_no_directory {
        findings.push(
            StartFinding::new(
                StartCheck::RootIsNoDirectory,
                format!("the root directory {root} is no directory"),
            )
            .at(&Origin::Flag("root-dir".to_owned()))
            .saying(format!("mkdir {root}: not a directory")),
        );
    }
    findings
}

fn certificate(
    file: &CertificateFile,
    node: &NodeFacts,
    settings: &MergedSettings,
    kubelet: TargetKubelet,
    findings: &mut Vec<StartFinding>,
) {
    let (path, now) = (&file.path, node.now);
    let about = |check, message: String| {
        let mut finding = StartFinding::new(check, message);
        finding.file = Some(path.clone());
        match file.named_by {
            Some(field) => finding.on(field),
            None => finding,
        }
    };
    let chain = match &file.content {
        Ok(chain) => chain,
        Err(std::io::ErrorKind::NotFound) => {
            findings.extend(missing(file, kubelet).map(|reason| {
                about(StartCheck::CertificateMissing, format!("{path} does not exist")).saying(reason)
            }));
            return;
        }
        Err(_) => return,
    };
    if chain.key_matches == Some(false) {
        findings.push(about(
            StartCheck::KeyOfOtherCertificate,
            format!("the key does not belong to the certificate in {path}"),
        ));
    }
    let name = match file.usage {
        CertificateUse::Client => "the client certificate",
        CertificateUse::Serving => "the serving certificate",
        CertificateUse::CallerAuthority => "the authority of the kubelet's callers",
    };
    let severity = if file.usage == CertificateUse::Client { Severity::Error } else { Severity::Warning };
    // A file of authorities may keep old ones; the other files begin with their own certificate.
    let judged: Option<&CertificateFacts> = match file.usage {
        CertificateUse::CallerAuthority => chain.certificates.iter().max_by_key(|one| one.not_after),
        _ => chain.certificates.first(),
    };
    let Some(one) = judged else { return };
    let renews = file.usage == CertificateUse::Client && rotates(settings);
    if now > one.not_after {
        let message = format!("{name} expired on {}: {path}", date(one.not_after));
        let finding = about(StartCheck::CertificateExpired, message).with_severity(severity);
        findings.push(if file.usage == CertificateUse::Client && node.can_bootstrap {
            finding.with_severity(Severity::Warning).with_fix(
                "nothing, if the token in the bootstrap kubeconfig is valid: the kubelet gets a new certificate",
            )
        } else if renews {
            finding
                .saying("The currently active client certificate has expired and the server is responsive, exiting.")
                .with_fix("delete the file and give the kubelet a new bootstrap kubeconfig")
        } else {
            finding.with_fix("issue a new certificate")
        });
    } else if now < one.not_before {
        let message = format!("{name} is valid only from {} on: {path}", date(one.not_before));
        findings.push(
            about(StartCheck::CertificateNotYetValid, message)
                .with_severity(severity)
                .with_fix("check the clock of this node: date -u"),
        );
    } else if one.not_after - now < SOON && !renews {
        findings.push(about(
            StartCheck::CertificateExpiresSoon,
            format!("{name} expires on {}, and the kubelet does not renew it: {path}", date(one.not_after)),
        ));
    }
    if file.usage == CertificateUse::Client
        && let Some(common_name) = &one.common_name
        && !(common_name.starts_with("system:node:")
            && one.organizations.iter().any(|group| group == "system:nodes"))
    {
        findings.push(
            about(
                StartCheck::CertificateOfOtherName,
                format!("the client certificate is of {common_name:?}, not of a node: {path}"),
            )
            .with_confidence(Confidence::Likely),
        );
    }
}

/// What the kubelet says about a missing file; `None` if the file need not exist.
fn missing(file: &CertificateFile, kubelet: TargetKubelet) -> Option<String> {
    let open = format!("open {}: no such file or directory", file.path);
    file.named_by?;
    Some(match file.usage {
        CertificateUse::Client => format!("unable to read client-cert {} for", file.path),
        CertificateUse::CallerAuthority => format!("failed to run Kubelet: {open}"),
        CertificateUse::Serving if kubelet.release.at_least(31) => format!(
            "failed to run Kubelet: failed to create kubelet: failed to initialize file based certificate manager: unable to set up dynamic certificate manager for kubelet server cert files: {open}"
        ),
        CertificateUse::Serving => open,
    })
}

/// A time as RFC 3339.
fn date(seconds: i64) -> String {
    let since = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string()
}

fn runtime(node: &NodeFacts, findings: &mut Vec<StartFinding>) {
    if let Some(disabled) = &node.disabled_plugins
        && let Some(plugin) = disabled.plugins.iter().find(|plugin| CRI_PLUGINS.contains(&plugin.as_str()))
    {
        let message = format!(
            "containerd's configuration switches its CRI plugin off: disabled_plugins has {plugin:?}"
        );
        let mut finding = StartFinding::new(StartCheck::CriPluginDisabled, message)
            .saying("rpc error: code = Unimplemented desc = unknown service runtime.v1.RuntimeService")
            .with_fix("remove the plugin from disabled_plugins and restart containerd")
            // The containerd that runs may have another file.
            .with_confidence(Confidence::Likely);
        finding.file = Some(disabled.path.clone());
        finding.line = Some(disabled.line);
        finding.column = Some(1);
        findings.push(finding);
    }
    if let Some((socket, false)) = &node.runtime_socket {
        findings.push(
            StartFinding::new(StartCheck::RuntimeSocketMissing, format!("there is no socket {socket}"))
                .on("containerRuntimeEndpoint")
                .saying(format!(
                    "failed to run Kubelet: validate service connection: validate CRI v1 runtime API for endpoint \"unix://{socket}\": rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while dialing: dial unix {socket}: connect: no such file or directory\""
                ))
                .with_fix("start the runtime, or correct containerRuntimeEndpoint"),
        );
    }
}

fn swap(
    node: &NodeFacts,
    settings: &MergedSettings,
    kubelet: TargetKubelet,
    findings: &mut Vec<StartFinding>,
) {
    let Some(areas) = node.swaps.as_ref().filter(|areas| !areas.is_empty()) else { return };
    if !settings.is_on("failSwapOn", true) {
        return;
    }
    let finding = StartFinding::new(
        StartCheck::SwapOn,
        format!("swap is on ({}), and failSwapOn is true", areas.join(", ")),
    )
    .at(&settings.origin("failSwapOn"))
    .on("failSwapOn")
    .with_fix("swapoff -a, or set failSwapOn: false");
    // The text of 1.28 is another one, and that of 1.29 and 1.30 was not read.
    findings.push(if kubelet.release.at_least(31) {
        finding.saying("failed to run Kubelet: running with swap on is not supported, please disable swap or set --fail-swap-on flag to false")
    } else {
        finding
    });
}

fn kernel(node: &NodeFacts, settings: &MergedSettings, findings: &mut Vec<StartFinding>) {
    if !settings.is_on("protectKernelDefaults", false) {
        return;
    }
    for (name, wanted) in KERNEL_SETTINGS {
        let Some(actual) = node.kernel.get(name).filter(|actual| **actual != wanted) else { continue };
        findings.push(
            StartFinding::new(
                StartCheck::KernelSetting,
                format!("{} is {actual}, and protectKernelDefaults wants {wanted}", name.replace('/', ".")),
            )
            .at(&settings.origin("protectKernelDefaults"))
            .on("protectKernelDefaults")
            .saying(format!("invalid kernel flag: {name}, expected value: {wanted}, actual value: {actual}"))
            .with_fix(format!("sysctl -w {}={wanted}", name.replace('/', "."))),
        );
    }
}

fn inotify(node: &NodeFacts, findings: &mut Vec<StartFinding>) {
    let Some(of_root) = node.inotify else { return };
    let left = of_root.limit.saturating_sub(of_root.used);
    if left >= INOTIFY_OF_A_KUBELET {
        return;
    }
    let message = format!(
        "root uses {} of {} inotify instances without the kubelet's own",
        of_root.used, of_root.limit
    );
    let finding = StartFinding::new(StartCheck::InotifyUsedUp, message)
        .saying("\"Failed to start cAdvisor\" err=\"inotify_init: too many open files\"")
        .with_fix("sysctl -w fs.inotify.max_user_instances=8192");
    findings.push(if left == 0 {
        // Instances of processes in other user namespaces are counted elsewhere.
        finding.with_confidence(Confidence::Likely)
    } else {
        finding.with_severity(Severity::Warning).with_confidence(Confidence::Possible)
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::node_facts::LimitUse;
    use super::*;
    use crate::kubelet::CertificateChain;
    use crate::manifests::reader::read;

    const NOW: i64 = 1_795_446_000;

    fn settings(text: &str) -> MergedSettings {
        let mut settings = MergedSettings::default();
        settings.add_file(&read(text.as_bytes()).root.unwrap(), &Arc::from("c.yaml"));
        settings
    }

    fn found(node: &NodeFacts, text: &str) -> Vec<(StartCheck, Severity, String)> {
        let findings = check(node, &settings(text), TargetKubelet::upstream("1.36")).into_iter();
        findings.map(|one| (one.id, one.severity, one.kubelet_reason.unwrap_or_default())).collect()
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
        NodeFacts { now: NOW, certificates: vec![file], ..NodeFacts::default() }
    }

    #[test]
    fn a_client_certificate_outside_of_its_validity_is_an_error_and_another_one_a_warning() {
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
    fn swap_and_kernel_settings_count_as_the_kubelet_counts_them() {
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
        let node = |used| NodeFacts { inotify: Some(LimitUse { used, limit: 128 }), ..NodeFacts::default() };
        assert_eq!(found(&node(100), "a: 1"), []);
        assert_eq!(found(&node(126), "a: 1")[0].1, Severity::Warning);
        assert_eq!(found(&node(128), "a: 1")[0].1, Severity::Error);
    }
}
