//! Finds the kubelet's process, reads its settings from its command line and configuration files, and chooses the
//! settings on which the estimate of a relist is based.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use super::start::invalid_certificates;
use super::{InvalidCertificate, KubeletEvidence, KubeletInputs};
use crate::diagnosis::evidence::{Evidence, Settings};
use crate::diagnosis::{Inputs, offload};
use crate::host::{HostRoot, KernelDir};
use crate::kubelet::{
    Config, KubeletSettings, KubeletVersion, Sourced, doubt, kubelet_of, release_of_process,
    stopped_settings, timing,
};

/// What the node's files and process table show of the kubelet.
#[derive(Default)]
pub(in crate::diagnosis) struct KubeletFiles {
    pub(in crate::diagnosis) pid: Option<u32>,
    pub(in crate::diagnosis) age: Option<Duration>,
    /// Whether a kubelet is or was installed on this node.
    pub(in crate::diagnosis) installed: bool,
    /// The settings from the command line and the files.
    pub(in crate::diagnosis) config: Config,
    /// The program names of the installed network plugins.
    pub(in crate::diagnosis) network_plugins: BTreeSet<String>,
    /// The certificates that are not valid now.
    pub(in crate::diagnosis) certificates: Vec<InvalidCertificate>,
}

/// Reads the files. Returns also why plegctl trusts no process to be the kubelet, if processes with its name exist.
pub(in crate::diagnosis) async fn read_files<R>(
    inputs: &Inputs<R>,
    evidence: &Evidence,
) -> (KubeletFiles, Option<String>) {
    let kubelet = evidence.node().and_then(|host| kubelet_of(host.latest()));
    let pid = kubelet.map(|process| process.pid);
    let doubt = evidence.node().and_then(|host| doubt(host.latest()));
    if let Some(simulated) = &inputs.simulated_processes {
        // The files of this machine do not belong to a simulated or recorded node.
        let age = kubelet.filter(|_| inputs.kubelet.pods.is_some()).map(|process| process.age);
        let installed = simulated.has_kubelet;
        return (KubeletFiles { pid, age, installed, ..KubeletFiles::default() }, doubt);
    }
    if inputs.is_recorded() {
        let installed = inputs.recorded_processes.as_ref().is_some_and(|recorded| recorded.has_kubelet);
        return (KubeletFiles { pid, installed, ..KubeletFiles::default() }, doubt);
    }
    let root = inputs.host_root.clone();
    let process = kubelet.map(|process| (process.command.clone(), process.directory.clone()));
    let is_this_node = inputs.proc.is_some();
    let now = inputs.clock.wall().nanos() / 1_000_000_000;
    let work = move || {
        // Only the names in the parent directory are read, because the directory itself may be a mount whose server does
        // not answer.
        let installed =
            ["kubelet", "rancher", "k0s"].iter().any(|name| has_entry(&root.join("var/lib"), name))
                || has_entry(&root.join("var/snap"), "microk8s");
        let network_plugins = network_plugins(&root);
        let host = HostRoot::resolve(Some(&root));
        let settings =
            process.map(|(command, directory)| KubeletSettings::read(command, directory.as_deref(), &host));
        let config = settings.as_ref().map(Config::from_settings).unwrap_or_default();
        // Finding the unit of a kubelet means reading the units of all programs.
        let stopped = || installed.then(|| stopped_settings(&host)).flatten().map(|(settings, _)| settings);
        let settings = settings.or_else(stopped).filter(|_| is_this_node);
        let certificates = settings.map(|settings| invalid_certificates(&settings, &host, now));
        let certificates = certificates.unwrap_or_default();
        KubeletFiles { installed, config, network_plugins, certificates, ..KubeletFiles::default() }
    };
    let read = offload::value(offload::FILES_TIME_LIMIT, work).await.unwrap_or_default();
    (KubeletFiles { pid, age: kubelet.map(|process| process.age), ..read }, doubt)
}

/// Returns the names of the installed network plugins, cut to 15 characters like the kernel's names of processes.
fn network_plugins(root: &Path) -> BTreeSet<String> {
    const DIRS: [&str; 4] = ["opt/cni/bin", "usr/libexec/cni", "usr/lib/cni", "var/lib/rancher/k3s/data/cni"];
    DIRS.iter()
        .filter_map(|dir| std::fs::read_dir(root.join(dir)).ok())
        .flat_map(Iterator::flatten)
        .filter_map(|entry| Some(entry.file_name().to_str()?.chars().take(15).collect()))
        .collect()
}

fn has_entry(dir: &Path, name: &str) -> bool {
    std::fs::read_dir(dir).is_ok_and(|entries| entries.flatten().any(|entry| entry.file_name() == name))
}

/// Reads the kubelet's version from its program, if nothing else shows it, and whether a large list is a problem depends on it.
/// Other runs do not wait for this.
pub(in crate::diagnosis) async fn program_version_if_it_matters<R>(
    inputs: &Inputs<R>,
    evidence: &Evidence,
) -> Option<String> {
    let is_known = inputs.kubelet.version.is_some() || release_in_metrics(&evidence.kubelet).is_some();
    if is_known || inputs.is_recorded() || !evidence.has_large_list() {
        return None;
    }
    let process = inputs.proc.as_ref()?.join(kubelet_of(evidence.node()?.latest())?.pid.to_string());
    let read = move || release_of_process(&KernelDir::open(&process).ok()?);
    offload::value(offload::FILES_TIME_LIMIT, read).await.flatten().map(|release| release.to_string())
}

fn release_in_metrics(kubelet: &KubeletEvidence) -> Option<KubeletVersion> {
    KubeletVersion::parse(kubelet.first.as_ref()?.metrics.version.as_deref()?).ok()
}

/// Chooses each setting for the estimate: from the user's flag, otherwise from the kubelet, otherwise the default.
pub(in crate::diagnosis) fn settings(flags: &KubeletInputs, kubelet: &KubeletEvidence) -> Settings {
    let defaults = Settings::default();
    let request_timeout = flags
        .request_timeout
        .map(|value| Sourced::new(value, "--runtime-request-timeout"))
        .or_else(|| kubelet.config.request_timeout.clone())
        .unwrap_or(defaults.request_timeout);
    let by_program =
        kubelet.program_version.as_deref().and_then(|version| KubeletVersion::parse(version).ok());
    let release = flags
        .version
        .map(|minor| Sourced::new(minor, "--kubelet-version"))
        .or_else(|| release_in_metrics(kubelet).map(|minor| Sourced::new(minor, "the kubelet's metrics")))
        .or_else(|| by_program.map(|minor| Sourced::new(minor, "the kubelet's program")))
        .unwrap_or(defaults.kubelet);
    let evented = kubelet.evented() == Some(true) && !release.value.evented_is_a_hint();
    let (by_mode, period) = if evented {
        (Sourced::new(timing::EVENTED_THRESHOLD, "Evented PLEG is in use"), timing::EVENTED_PERIOD)
    } else {
        (defaults.threshold, defaults.period)
    };
    let threshold = flags.threshold.map_or(by_mode, |value| Sourced::new(value, "--threshold"));
    let status_period = kubelet.config.status_update_frequency.map(timing::longest_status_period);
    let status_period = status_period.unwrap_or(defaults.status_period);
    Settings { request_timeout, threshold, period, status_period, kubelet: release }
}
