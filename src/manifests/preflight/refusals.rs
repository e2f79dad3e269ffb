//! Explains the last message in the log of a kubelet that exits at its start: its meaning, and the check of `preflight`
//! that finds the same problem.
//!
//! The texts come from the kubelet's source and from a real kubelet 1.36.2; `docs/preflight.md` describes the checks.

use super::catalogue::StartCheck;

/// Texts that occur only in the last message of a kubelet that exits.
const EXIT_TEXTS: [&str; 7] = [
    "\"command failed\" err=",
    "panic: failed to ",
    "\"Failed to start ContainerManager\" err=",
    "\"Failed to start cAdvisor\" err=",
    "\"Failed to listen and serve\" err=",
    "The currently active client certificate has expired and the server is responsive, exiting.",
    "No valid client certificate is found and the server is responsive, exiting.",
];

/// Why a kubelet exited, by its last message: a row of the table of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// A part of the kubelet's message.
    part: &'static str,
    /// The meaning, as a clause whose subject is the kubelet or what it needs.
    pub meaning: &'static str,
    /// The check that finds the same problem before the start.
    pub check: Option<StartCheck>,
}

const fn row(part: &'static str, meaning: &'static str, check: StartCheck) -> Refusal {
    Refusal { part, meaning, check: Some(check) }
}

/// The table of messages. The first matching row counts, so special texts come before general texts.
const TEXTS: &[Refusal] = &[
    row(
        "failed to validate kubelet configuration, error: [",
        "it refuses several values of its configuration",
        StartCheck::ValueRefused,
    ),
    row("unknown flag: ", "it does not know a flag", StartCheck::UnknownFlag),
    row("unknown shorthand flag: ", "it does not know a flag", StartCheck::UnknownFlag),
    row(
        "failed to parse kubelet flag: invalid argument ",
        "a flag has a bad value",
        StartCheck::BadFlagValue,
    ),
    row("unknown command ", "its command line has an argument that is not a flag", StartCheck::StrayArgument),
    row("unrecognized feature gate: ", "it does not know a feature gate", StartCheck::UnknownGate),
    row("feature is locked to ", "a feature gate is locked to another value", StartCheck::LockedGate),
    row(
        "but depends on features that are disabled",
        "a feature gate needs another gate that is off",
        StartCheck::ValuesContradict,
    ),
    row(
        "failed to read kubelet config file ",
        "its configuration file cannot be read",
        StartCheck::ConfigUnreadable,
    ),
    row(
        "failed to walk through kubelet dropin directory ",
        "its directory of drop-in files cannot be read",
        StartCheck::ConfigUnreadable,
    ),
    row("failed to decode: yaml: ", "its configuration file is not valid YAML", StartCheck::ConfigNotYaml),
    row("\" was empty", "its configuration file is empty", StartCheck::ConfigNotYaml),
    row("no kind ", "its configuration file has another kind or version", StartCheck::ConfigOfOtherKind),
    row("Object 'Kind' is missing", "its configuration file has no kind", StartCheck::ConfigOfOtherKind),
    row(
        "Object 'apiVersion' is missing",
        "its configuration file has no apiVersion",
        StartCheck::ConfigOfOtherKind,
    ),
    row(
        "failed to decode: ",
        "a field of its configuration has a value of another type",
        StartCheck::WrongType,
    ),
    row(
        "not run on a host using cgroup v1",
        "the node has cgroup v1, and failCgroupV1 is true",
        StartCheck::CgroupV1,
    ),
    row(
        "unknown service runtime.v1.RuntimeService",
        "the runtime does not serve CRI v1",
        StartCheck::CriNotServed,
    ),
    row(
        "validate CRI v1 runtime API for endpoint ",
        "it does not reach its runtime",
        StartCheck::RuntimeSocketMissing,
    ),
    row("running with swap on is not supported", "swap is on", StartCheck::SwapOn),
    row(
        "invalid kernel flag: ",
        "a kernel setting is not what protectKernelDefaults wants",
        StartCheck::KernelSetting,
    ),
    row("inotify_init: too many open files", "root has no inotify instances left", StartCheck::InotifyUsedUp),
    row(
        "The currently active client certificate has expired",
        "its client certificate has expired",
        StartCheck::CertificateExpired,
    ),
    Refusal {
        part: "No valid client certificate is found",
        meaning: "it has no valid client certificate",
        check: None,
    },
    row(
        "unable to read client-cert ",
        "its client certificate cannot be read",
        StartCheck::CertificateMissing,
    ),
    row("invalid kubeconfig: stat ", "its kubeconfig does not exist", StartCheck::CertificateMissing),
    Refusal {
        part: "unable to load bootstrap kubeconfig: ",
        meaning: "its bootstrap kubeconfig cannot be read",
        check: None,
    },
    Refusal {
        part: "cannot create certificate signing request: ",
        meaning: "it gets no client certificate, because the API server does not answer",
        check: None,
    },
    row(
        "failed to run Kubelet: open ",
        "a file that its settings name cannot be read",
        StartCheck::CertificateMissing,
    ),
    row(
        "failed to initialize file based certificate manager",
        "its serving certificate cannot be read",
        StartCheck::CertificateMissing,
    ),
    row(
        "private key does not match public key",
        "a key does not belong to its certificate",
        StartCheck::KeyOfOtherCertificate,
    ),
    row("bind: address already in use", "its port is taken", StartCheck::PortTaken),
    row(
        "labels specified with --node-labels",
        "it must not set a label of --node-labels",
        StartCheck::RefusedAtStart,
    ),
    row(
        "invalid Node Allocatable configuration",
        "it reserves more than the node has",
        StartCheck::RefusedAtStart,
    ),
    row(" value failed to parse: ", "a reservation cannot be parsed", StartCheck::RefusedAtStart),
    row("unsupported eviction signal ", "it does not know an eviction signal", StartCheck::RefusedAtStart),
    row(
        "quantities must match the regular expression",
        "a quantity cannot be parsed",
        StartCheck::RefusedAtStart,
    ),
    row(
        "is not a subset of online-cpus",
        "it reserves CPUs that the node does not have",
        StartCheck::RefusedAtStart,
    ),
    row("[cpumanager] ", "its CPU policy needs reserved CPUs", StartCheck::RefusedAtStart),
    row("unknown policy: ", "it does not know a policy", StartCheck::RefusedAtStart),
    row("bad --node-ip ", "--node-ip is not a pair of addresses", StartCheck::RefusedAtStart),
    row(
        "built-in cloud providers are disabled",
        "it has no built-in cloud provider",
        StartCheck::RefusedAtStart,
    ),
    row("unknown authorization mode ", "it does not know the authorization mode", StartCheck::RefusedAtStart),
    row("cannot exit on lock file contention", "it needs --lock-file", StartCheck::RefusedAtStart),
    row(
        ": not a directory",
        "a path that must be a directory is not a directory",
        StartCheck::RootIsNoDirectory,
    ),
    row(
        "failed to validate kubelet configuration, error: ",
        "it refuses a value of its configuration",
        StartCheck::ValueRefused,
    ),
    row("Unsupported log format", "it does not know the log format", StartCheck::ValueRefused),
];

/// Returns the part of a message that gives the reason for the exit; `None` if the kubelet continues after this message, or
/// if a signal ended the kubelet.
pub fn exit_reason(message: &str) -> Option<String> {
    let words = EXIT_TEXTS.iter().find(|words| message.contains(**words))?;
    let (before, after) = message.split_once(*words)?;
    let reason = if words.ends_with("err=") { after } else { message.get(before.len()..)? };
    let reason = reason.trim();
    let reason = reason.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(reason);
    (!reason.contains("context canceled")).then(|| reason.replace("\\\"", "\""))
}

/// Whether the reason is in the lines after the message. The kubelet writes a reason with line breaks in this way.
pub fn continues(reason: &str) -> bool {
    reason == "<"
}

/// Returns the row for a reason, if the table has one.
pub fn refusal(reason: &str) -> Option<&'static Refusal> {
    TEXTS.iter().find(|row| reason.contains(row.part))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// The last line of every start that was tried on a real kubelet 1.36.2.
    fn recorded() -> Vec<Value> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings/kubelet-start-tried-1.36.2.json");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    #[test]
    fn every_recorded_refusal_of_a_real_kubelet_has_a_meaning() {
        let mut known = 0;
        for case in recorded() {
            let line = case["line"].as_str().unwrap();
            let Some(reason) = exit_reason(line) else {
                assert!(!line.contains("\"command failed\"") || line.contains("context canceled"), "{line}");
                continue;
            };
            assert!(refusal(&reason).is_some(), "{line}");
            known += 1;
        }
        assert!(known >= 45, "{known}");
    }

    #[test]
    fn recorded_messages_have_the_expected_meaning_and_check() {
        let of = |case: &str| {
            let line = recorded().into_iter().find(|one| one["case"] == case).unwrap();
            let found = refusal(&exit_reason(line["line"].as_str().unwrap()).unwrap()).unwrap();
            (found.check.map(StartCheck::id), found.meaning)
        };
        assert_eq!(of("noflag"), (Some("KP001"), "it does not know a flag"));
        assert_eq!(of("lockedcfg"), (Some("KP012"), "a feature gate is locked to another value"));
        assert_eq!(of("lockedflag").0, Some("KP012"));
        assert_eq!(of("gatenoval").0, Some("KP004"));
        assert_eq!(of("empty").0, Some("KP021"));
        assert_eq!(of("wrongtype").0, Some("KP023"));
        assert_eq!(of("validation").0, Some("KP030"));
        assert_eq!(of("cri_nosock").0, Some("KP050"));
        assert_eq!(of("cri_unimpl").0, Some("KP051"));
        assert_eq!(of("g_inotify").0, Some("KP054"));
        assert_eq!(of("g_nocert").0, Some("KP063"));
        assert_eq!(of("f_rootfile").0, Some("KP074"));
        assert_eq!(of("portinuse"), (Some("KP072"), "its port is taken"));
        let single = "\"command failed\" err=\"failed to validate kubelet configuration, error: kubelet is configured to \
            not run on a host using cgroup v1. cgroup v1 support is unsupported and will be removed in a future release\"";
        assert_eq!(refusal(&exit_reason(single).unwrap()).unwrap().check, Some(StartCheck::CgroupV1));
    }

    #[test]
    fn a_message_after_which_the_kubelet_continues_is_not_a_reason() {
        for line in [
            "I codec.go:102] \"Using lenient decoding as strict decoding failed\" err=\"strict decoding error: unknown \
             field \\\"x\\\"\"",
            // OpenShift's kubelet only warns.
            "W feature_gate.go:352] unrecognized feature gate: GatewayAPI",
            "E file_linux.go:59] \"Unable to read config path\" err=\"path does not exist, ignoring\"",
            "E run.go:72] \"command failed\" err=\"failed to run Kubelet: rpc error: code = Canceled desc = context canceled\"",
        ] {
            assert_eq!(exit_reason(line), None, "{line}");
        }
        let reason =
            exit_reason("E run.go:72] \"command failed\" err=\"unknown policy: \\\"foo\\\"\"").unwrap();
        assert_eq!(reason, "unknown policy: \"foo\"");
        assert!(continues(&exit_reason("E run.go:72] \"command failed\" err=<").unwrap()));
    }
}
