//! Judges for another release the settings that a running kubelet reports at `/configz`.
//!
//! The kubelet writes this document itself: it has the defaults of the running release, and neither kind nor version nor
//! the flags that set no field. So findings about unknown or repeated keys are dropped, and line numbers are removed.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::catalogue::StartCheck;
use super::config_file::{API_VERSION, KIND};
use super::finding::StartFinding;
use super::release::{Builder, TargetKubelet};
use super::{ConfigFile, StartSettings, is_of_openshift, settings_findings};
use plegctl_node::kubelet::KubeletVersion;

/// The section of the catalogue with the checks of feature gates.
const GATES: &str = "Feature gates";

/// Judges a `/configz` document of a kubelet of the release `running`; `None` if the text is no such document.
pub fn configz_findings(
    text: &str,
    running: Option<KubeletVersion>,
    target: TargetKubelet,
) -> Option<Vec<StartFinding>> {
    let mut document: Map<String, Value> = serde_json::from_str(text).ok()?;
    let Value::Object(mut settings) = document.remove("kubeletconfig")? else { return None };
    settings.insert("kind".to_owned(), KIND.into());
    settings.insert("apiVersion".to_owned(), API_VERSION.into());
    let file = ConfigFile {
        path: Arc::from("/configz"),
        content: Ok(Value::Object(settings).to_string().into_bytes()),
        // `/configz` does not show whether a setting comes from a flag or from a file. As for a drop-in file, the finding
        // quotes only the part of the kubelet's message that is the same in both cases, and errors are only likely.
        is_drop_in: true,
    };
    let settings = StartSettings { files: vec![file], ..StartSettings::default() };
    let builder = if is_of_openshift(&settings) { Builder::OpenShift } else { target.builder };
    let mut findings = settings_findings(&settings, TargetKubelet { builder, ..target }).findings;
    // On a downgrade only gates are judged: other values may be defaults of the newer release, and the older kubelet
    // sets its own.
    let is_downgrade = running.is_some_and(|running| running > target.release);
    findings.retain(|finding| {
        let is_of_text = matches!(finding.id, StartCheck::UnknownConfigField | StartCheck::RepeatedKey);
        !is_of_text && (!is_downgrade || finding.id.row().section == GATES)
    });
    for finding in &mut findings {
        (finding.file, finding.line, finding.column) = (None, None, None);
    }
    Some(findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plegctl_base::report::Severity;

    /// What a kubelet 1.36 with kubeadm's configuration reports: its defaults, and null for what is not set.
    const CONFIGZ: &str = r#"{"kubeletconfig":{"enableServer":true,"staticPodPath":"/etc/kubernetes/manifests",
        "podLogsDir":"/var/log/pods","syncFrequency":"1m0s","fileCheckFrequency":"20s","httpCheckFrequency":"20s",
        "address":"0.0.0.0","port":10250,"rotateCertificates":true,"authentication":{"x509":{"clientCAFile":
        "/etc/kubernetes/pki/ca.crt"},"webhook":{"enabled":true,"cacheTTL":"2m0s"},"anonymous":{"enabled":false}},
        "authorization":{"mode":"Webhook","webhook":{"cacheAuthorizedTTL":"5m0s","cacheUnauthorizedTTL":"30s"}},
        "registryPullQPS":5,"registryBurst":10,"eventRecordQPS":50,"eventBurst":100,"enableDebuggingHandlers":true,
        "healthzPort":10248,"healthzBindAddress":"127.0.0.1","oomScoreAdj":-999,"clusterDomain":"cluster.local",
        "clusterDNS":["10.96.0.10"],"streamingConnectionIdleTimeout":"4h0m0s","nodeStatusUpdateFrequency":"10s",
        "nodeStatusReportFrequency":"5m0s","nodeLeaseDurationSeconds":40,"imageMinimumGCAge":"2m0s",
        "imageMaximumGCAge":"0s","imageGCHighThresholdPercent":85,"imageGCLowThresholdPercent":80,
        "volumeStatsAggPeriod":"1m0s","cgroupsPerQOS":true,"cgroupDriver":"systemd","cpuManagerPolicy":"none",
        "singleProcessOOMKill":false,"cpuManagerReconcilePeriod":"10s","memoryManagerPolicy":"None",
        "topologyManagerPolicy":"none","topologyManagerScope":"container","runtimeRequestTimeout":"2m0s",
        "hairpinMode":"promiscuous-bridge","maxPods":110,"podPidsLimit":-1,"resolvConf":"/etc/resolv.conf",
        "cpuCFSQuota":true,"cpuCFSQuotaPeriod":"100ms","nodeStatusMaxImages":50,"maxOpenFiles":1000000,
        "contentType":"application/vnd.kubernetes.protobuf","kubeAPIQPS":50,"kubeAPIBurst":100,
        "serializeImagePulls":true,"evictionHard":{"imagefs.available":"15%","imagefs.inodesFree":"5%",
        "memory.available":"100Mi","nodefs.available":"10%","nodefs.inodesFree":"5%"},
        "evictionPressureTransitionPeriod":"5m0s","mergeDefaultEvictionSettings":false,"enableControllerAttachDetach":true,
        "makeIPTablesUtilChains":true,"iptablesMasqueradeBit":14,"iptablesDropBit":15,"failSwapOn":true,
        "memorySwap":{},"containerLogMaxSize":"10Mi","containerLogMaxFiles":5,"containerLogMaxWorkers":1,
        "containerLogMonitorInterval":"10s","configMapAndSecretChangeDetectionStrategy":"Watch",
        "enforceNodeAllocatable":["pods"],"volumePluginDir":"/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
        "logging":{"format":"text","flushFrequency":5000000000,"verbosity":0,"options":{"text":{"infoBufferSize":"0"},
        "json":{"infoBufferSize":"0"}}},"enableSystemLogHandler":true,"enableSystemLogQuery":false,
        "shutdownGracePeriod":"0s","shutdownGracePeriodCriticalPods":"0s","crashLoopBackOff":{},
        "reservedMemory":null,"enableProfilingHandler":true,"enableDebugFlagsHandler":true,"seccompDefault":false,
        "memoryThrottlingFactor":0.9,"registerNode":true,"localStorageCapacityIsolation":true,
        "containerRuntimeEndpoint":"unix:///run/containerd/containerd.sock","failCgroupV1":true,
        "imagePullCredentialsVerificationPolicy":"NeverVerifyPreloadedImages","memoryReservationPolicy":"None"GATES}}"#;

    fn found(gates: &str, running: &str, target: &str) -> Vec<(StartCheck, String)> {
        let gates = if gates.is_empty() { String::new() } else { format!(",\"featureGates\":{{{gates}}}") };
        let text = CONFIGZ.replace("GATES", &gates);
        let running = KubeletVersion::parse(running).unwrap();
        let findings = configz_findings(&text, Some(running), TargetKubelet::upstream(target)).unwrap();
        assert!(findings.iter().all(|one| one.file.is_none() && one.line.is_none()), "{findings:?}");
        let findings = findings.into_iter().filter(|finding| finding.severity > Severity::Info);
        findings.map(|finding| (finding.id, finding.kubelet_reason.unwrap_or_default())).collect()
    }

    #[test]
    fn the_defaults_of_a_running_kubelet_are_no_finding_in_any_release() {
        for target in 28..=38 {
            assert_eq!(found("", "1.36", &format!("1.{target}")), [], "1.{target}");
        }
    }

    #[test]
    fn a_gate_and_a_value_of_configz_are_findings_without_a_place() {
        let removed = "\"PreventStaticPodAPIReferences\":true";
        let unrecognized = "unrecognized feature gate: PreventStaticPodAPIReferences".to_owned();
        assert_eq!(found(removed, "1.36", "1.37"), [(StartCheck::RemovedGate, unrecognized)]);
        assert_eq!(found(removed, "1.36", "1.36"), []);
        let hidden = "\"EventedPLEG\":false},\"showHiddenMetricsForVersion\":\"1.35\",\"x\":{";
        assert_eq!(found(hidden, "1.36", "1.36"), []);
        assert_eq!(found(hidden, "1.36", "1.37")[0].0, StartCheck::ValueRefused);
        assert_eq!(found(hidden, "1.36", "1.35"), [], "only gates count for an older release");
    }

    #[test]
    fn what_is_not_configz_is_not_judged() {
        let judged = |text| configz_findings(text, None, TargetKubelet::upstream("1.37"));
        for text in ["", "<html>", "[]", "{}", "{\"kubeletconfig\":1}"] {
            assert_eq!(judged(text), None, "{text}");
        }
        assert_eq!(judged("{\"kubeletconfig\":{}}"), Some(Vec::new()));
    }
}
