//! Checks whether a kubelet can start with the node's runtime: the runtime's socket, its answers to the kubelet's first
//! calls, and containerd's configuration (KP050 to KP053, KP055 and KP056).
//!
//! The checks are a pure function of [`NodeFacts`] and the settings.

use std::fmt::Display;

use super::catalogue::StartCheck;
use super::finding::StartFinding;
use super::node_facts::{CallRefusal, NodeFacts, RuntimeAnswer};
use super::release::TargetKubelet;
use super::settings::{MergedSettings, Origin};
use plegctl_base::report::{Confidence, Places, Severity};
use plegctl_node::host::{ContainerdConfig, ContainerdFault, InotifyUse};

/// The first minor release that uses the runtime's cgroup driver by default.
const USES_RUNTIME_DRIVER: u8 = 31;

/// The first minor release that does not start if the runtime does not serve `RuntimeConfig`, according to the release
/// notes of 1.37.
const NEEDS_RUNTIME_CONFIG: u8 = 38;

/// The setting of the feature gate with which the kubelet uses the runtime's cgroup driver.
const DRIVER_GATE: &str = "featureGates[KubeletCgroupDriverFromCRI]";

/// Adds the findings about the runtime.
pub fn check(
    node: &NodeFacts,
    settings: &MergedSettings,
    kubelet: TargetKubelet,
    findings: &mut Vec<StartFinding>,
) {
    let answer = node.runtime.as_ref();
    if let Some((socket, is_there)) = &node.runtime_socket {
        let refusal = answer.and_then(|answer| answer.version.as_ref().err());
        let has_cause = node.containerd.as_ref().is_some_and(|config| config.fault.is_some())
            || node.inotify.as_ref().is_some_and(InotifyUse::is_exhausted);
        findings.extend(unreached(socket, *is_there, refusal, has_cause));
    }
    if let Some((socket, is_there)) = &node.image_socket {
        findings.extend(unreached_images(socket, *is_there, node.image_refusal.as_ref(), settings));
    }
    let is_served = answer.is_some_and(|answer| answer.version.is_ok());
    if let Some(fault) = node.containerd.as_ref().and_then(|config| config.fault.as_ref()) {
        findings.push(containerd_finding(fault, is_served));
    }
    if let Some(answer) = answer.filter(|answer| answer.version.is_ok()) {
        findings.extend(check_runtime_config(answer, kubelet));
        findings.extend(check_cgroup_driver(answer, node.containerd.as_ref(), settings, kubelet));
    }
}

/// Returns the error of the runtime's answer, if the error does not show whether the runtime serves CRI v1.
pub fn unjudged_answer(answer: &RuntimeAnswer) -> Option<&str> {
    match &answer.version {
        Err(CallRefusal::Unjudged(why)) => Some(why),
        _ => None,
    }
}

/// Creates the finding about a runtime that does not answer the kubelet's first call, or answers it with an error.
/// `has_cause` says that another finding names a likely cause.
fn unreached(
    socket: &str,
    is_there: bool,
    refusal: Option<&CallRefusal>,
    has_cause: bool,
) -> Option<StartFinding> {
    let path = "containerRuntimeEndpoint";
    let validate = |why: &str| validation_error("runtime", socket, why);
    let dialing = |why: &str| validate(&dial_error(socket, why));
    if !is_there {
        let why = dialing("no such file or directory");
        let places: &Places<'_> = &[("socket", &socket), ("why", &why)];
        return Some(StartFinding::of("runtime-socket-missing", places).on(path));
    }
    let fix = if has_cause {
        "see the likely cause below"
    } else {
        "journalctl -u containerd | grep 'failed to load plugin'"
    };
    let finding = match refusal? {
        CallRefusal::NobodyListens => {
            let why = dialing("connection refused");
            StartFinding::of("runtime-does-not-listen", &[("socket", &socket), ("why", &why)])
        }
        CallRefusal::Unimplemented(message) => {
            let why = validate(&format!("code = Unimplemented desc = {message}"));
            StartFinding::of("cri-not-served", &[("socket", &socket), ("why", &why), ("fix", &fix)])
        }
        CallRefusal::WrongProtocol => StartFinding::of("no-grpc", &[("socket", &socket), ("fix", &fix)]),
        CallRefusal::Unjudged(_) => return None,
    };
    Some(finding.on(path))
}

/// Returns the kubelet's message about a `service` of the runtime that it cannot use.
fn validation_error(service: &str, socket: &str, why: &str) -> String {
    format!(
        "failed to run Kubelet: validate service connection: validate CRI v1 {service} API for endpoint \
         \"unix://{socket}\": rpc error: {why}"
    )
}

/// Returns the kubelet's words about a socket that it cannot connect to.
fn dial_error(socket: &str, why: &str) -> String {
    format!(
        "code = Unavailable desc = connection error: desc = \"transport: Error while dialing: dial unix {socket}: \
         connect: {why}\""
    )
}

/// Creates the finding about an image service on whose socket nobody listens.
fn unreached_images(
    socket: &str,
    is_there: bool,
    refusal: Option<&CallRefusal>,
    settings: &MergedSettings,
) -> Option<StartFinding> {
    let (row, why) = match refusal {
        _ if !is_there => ("image-socket-missing", "no such file or directory"),
        Some(CallRefusal::NobodyListens) => ("image-service-does-not-listen", "connection refused"),
        _ => return None,
    };
    let why = validation_error("image", socket, &dial_error(socket, why));
    Some(settings.finding("imageServiceEndpoint", row, &[("socket", &socket), ("why", &why)]))
}

/// Returns the finding about an error in containerd's configuration. If the running containerd serves the CRI
/// (`is_served`), it has read another configuration, so the error has an effect only from its next start on.
fn containerd_finding(fault: &ContainerdFault, is_served: bool) -> StartFinding {
    let (check, fix) = if matches!(fault, ContainerdFault::Disabled { .. }) {
        (StartCheck::CriPluginDisabled, "remove the plugin from disabled_plugins and restart containerd")
    } else {
        (StartCheck::ContainerdConfigBroken, "correct the file and restart containerd")
    };
    let later = if is_served { "; this has an effect from the next start of containerd on" } else { "" };
    let place = fault.place();
    // The running containerd may have read another file, and its parser is not plegctl's.
    let mut finding =
        StartFinding::new(check, format!("{}{later}", fault.text())).with_confidence(Confidence::Likely);
    finding.file = Some(place.file.clone());
    finding.line = Some(place.line);
    finding.column = Some(place.column);
    if !matches!(fault, ContainerdFault::Unreadable { .. }) {
        let reason = "rpc error: code = Unimplemented desc = unknown service runtime.v1.RuntimeService";
        finding.kubelet_reason = Some(reason.to_owned());
    }
    let finding = finding.with_fix(fix);
    if is_served { finding.with_severity(Severity::Warning) } else { finding }
}

/// Reports a runtime that does not serve `RuntimeConfig`, if the kubelet's release needs it.
fn check_runtime_config(answer: &RuntimeAnswer, kubelet: TargetKubelet) -> Option<StartFinding> {
    let is_missing = matches!(&answer.cgroup_driver, Some(Err(CallRefusal::Unimplemented(_))));
    (is_missing && kubelet.release.at_least(NEEDS_RUNTIME_CONFIG))
        .then(|| StartFinding::of("runtime-config-missing", &[("release", &kubelet.release)]))
}

/// Reports that the kubelet and the runtime have different cgroup drivers.
fn check_cgroup_driver(
    answer: &RuntimeAnswer,
    containerd: Option<&ContainerdConfig>,
    settings: &MergedSettings,
    kubelet: TargetKubelet,
) -> Option<StartFinding> {
    let set = settings.non_empty("cgroupDriver");
    let own = set.as_ref().map_or("cgroupfs", |set| set.value.as_str());
    let origin = set.as_ref().map_or(Origin::Default, |set| set.origin.clone());
    let about = |row, places: &Places<'_>| {
        let places = [&[("own", &own as &dyn Display)], places].concat();
        Some(StartFinding::of(row, &places).at(&origin).on("cgroupDriver"))
    };
    match answer.cgroup_driver.as_ref()? {
        Ok(Some(runtimes)) if own == *runtimes => None,
        Ok(Some(runtimes)) => {
            let uses_runtimes =
                kubelet.release.at_least(USES_RUNTIME_DRIVER) && settings.is_on(DRIVER_GATE, true);
            if uses_runtimes {
                // Without a setting, nobody expects another driver than the runtime's.
                set.as_ref()?;
                return about("cgroup-driver-unused", &[("runtimes", runtimes)]);
            }
            about("cgroup-drivers", &[("runtimes", runtimes)])
        }
        Ok(None) | Err(CallRefusal::Unimplemented(_)) => {
            let containerd = containerd?;
            let runtimes = if containerd.systemd_cgroup? { "systemd" } else { "cgroupfs" };
            let is_systemd = own == "systemd";
            let places: &Places<'_> =
                &[("runtimes", &runtimes), ("path", &containerd.path), ("isSystemd", &is_systemd)];
            if own == runtimes { None } else { about("cgroup-driver-of-containerd", places) }
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use plegctl_api_values::reader::read;
    use plegctl_node::host::ContainerdPlace;

    const SOCKET: &str = "/run/containerd/containerd.sock";

    fn found(node: &NodeFacts, text: &str, release: &str) -> Vec<StartFinding> {
        let mut settings = MergedSettings::default();
        settings.add_file(&read(text.as_bytes()).root.unwrap(), &Arc::from("c.yaml"));
        let mut findings = Vec::new();
        check(node, &settings, TargetKubelet::upstream(release), &mut findings);
        findings
    }

    fn checks(node: &NodeFacts, text: &str, release: &str) -> Vec<(StartCheck, Severity, Confidence)> {
        let findings = found(node, text, release).into_iter();
        findings.map(|finding| (finding.id, finding.severity, finding.confidence)).collect()
    }

    fn unimplemented() -> CallRefusal {
        CallRefusal::Unimplemented("unknown service runtime.v1.RuntimeService".to_owned())
    }

    fn refused(why: CallRefusal) -> NodeFacts {
        NodeFacts {
            runtime_socket: Some((SOCKET.to_owned(), true)),
            runtime: Some(RuntimeAnswer { version: Err(why), cgroup_driver: None }),
            ..NodeFacts::default()
        }
    }

    fn served(driver: Result<Option<&'static str>, CallRefusal>) -> NodeFacts {
        NodeFacts {
            runtime_socket: Some((SOCKET.to_owned(), true)),
            runtime: Some(RuntimeAnswer { version: Ok(()), cgroup_driver: Some(driver) }),
            ..NodeFacts::default()
        }
    }

    fn with_fault(node: NodeFacts, fault: ContainerdFault) -> NodeFacts {
        let config = ContainerdConfig { fault: Some(fault), ..ContainerdConfig::default() };
        NodeFacts { containerd: Some(config), ..node }
    }

    fn disabled() -> ContainerdFault {
        let at = ContainerdPlace { file: "/etc/containerd/config.toml".to_owned(), line: 2, column: 21 };
        ContainerdFault::Disabled { at, plugin: "cri".to_owned() }
    }

    #[test]
    fn a_runtime_without_cri_v1_and_its_cause_are_two_findings_with_the_kubelets_message() {
        let node = with_fault(refused(unimplemented()), disabled());
        let findings = found(&node, "a: 1", "1.36");
        let ids: Vec<StartCheck> = findings.iter().map(|finding| finding.id).collect();
        assert_eq!(ids, [StartCheck::CriNotServed, StartCheck::CriPluginDisabled]);
        assert_eq!(
            findings[0].kubelet_reason.as_deref(),
            Some(
                "failed to run Kubelet: validate service connection: validate CRI v1 runtime API for endpoint \
                 \"unix:///run/containerd/containerd.sock\": rpc error: code = Unimplemented desc = unknown service \
                 runtime.v1.RuntimeService"
            )
        );
        assert_eq!((findings[1].line, findings[1].column), (Some(2), Some(21)));
    }

    #[test]
    fn a_fault_in_the_file_of_a_runtime_that_answers_is_a_warning() {
        let likely = Confidence::Likely;
        let node = with_fault(served(Ok(None)), disabled());
        assert_eq!(
            checks(&node, "a: 1", "1.36"),
            [(StartCheck::CriPluginDisabled, Severity::Warning, likely)]
        );
    }

    #[test]
    fn a_call_whose_error_shows_nothing_is_no_finding() {
        let node = refused(CallRefusal::Unjudged("Version did not answer within 10s".to_owned()));
        assert_eq!(checks(&node, "a: 1", "1.36"), []);
        assert_eq!(
            unjudged_answer(node.runtime.as_ref().unwrap()),
            Some("Version did not answer within 10s")
        );
        let nobody = refused(CallRefusal::NobodyListens);
        let reason = found(&nobody, "a: 1", "1.36")[0].kubelet_reason.clone().unwrap();
        assert!(reason.ends_with("connect: connection refused\""), "{reason}");
        assert_eq!(unjudged_answer(nobody.runtime.as_ref().unwrap()), None);
    }

    #[test]
    fn different_cgroup_drivers_have_no_effect_from_131_on_and_conflict_before() {
        let systemd = served(Ok(Some("systemd")));
        let wanted = "cgroupDriver: cgroupfs\n";
        let message = |release: &str, text: &str| {
            found(&systemd, text, release).pop().map(|finding| (finding.severity, finding.message))
        };
        assert!(message("1.36", wanted).unwrap().1.contains("has no effect"));
        assert_eq!(message("1.36", "a: 1"), None, "no setting names a driver");
        assert_eq!(message("1.36", "cgroupDriver: systemd\n"), None);
        assert!(message("1.30", "a: 1").unwrap().1.contains("the runtime's is systemd"));
        let off = format!("{wanted}featureGates: {{KubeletCgroupDriverFromCRI: false}}\n");
        let (severity, text) = message("1.33", &off).unwrap();
        assert!(text.contains("the runtime's is systemd"), "{text}");
        assert_eq!(severity, Severity::Warning, "the kubelet starts");
    }

    #[test]
    fn without_an_answer_containerds_file_decides_about_the_driver() {
        let node = |systemd| NodeFacts {
            containerd: Some(ContainerdConfig {
                path: "/etc/containerd/config.toml".to_owned(),
                systemd_cgroup: systemd,
                ..ContainerdConfig::default()
            }),
            ..served(Err(unimplemented()))
        };
        let clash = [(StartCheck::CgroupDrivers, Severity::Warning, Confidence::Likely)];
        assert_eq!(checks(&node(Some(false)), "cgroupDriver: systemd\n", "1.36"), clash);
        assert_eq!(checks(&node(Some(true)), "a: 1", "1.36"), clash);
        assert_eq!(checks(&node(Some(true)), "cgroupDriver: systemd\n", "1.36"), []);
        assert_eq!(checks(&node(None), "cgroupDriver: systemd\n", "1.36"), []);
    }

    #[test]
    fn a_kubelet_138_needs_runtime_config() {
        let node = served(Err(unimplemented()));
        assert_eq!(checks(&node, "a: 1", "1.37"), []);
        assert_eq!(
            checks(&node, "a: 1", "1.38"),
            [(StartCheck::RuntimeConfigMissing, Severity::Error, Confidence::Likely)]
        );
        assert_eq!(checks(&served(Ok(None)), "a: 1", "1.38"), []);
    }
}
