//! Explains the last message in the log of a kubelet that exits at its start: its meaning, and the check of `preflight`
//! that finds the same problem.
//!
//! The texts come from the kubelet's source and from a real kubelet 1.36.2; `docs/preflight.md` describes the checks.

use super::catalogue::StartCheck;

/// Texts that occur only in the last message of a kubelet that exits.
const EXIT_TEXTS: [&str; 8] = [
    "\"command failed\" err=",
    "\"Failed to register CRI auth plugins\" err=",
    "panic: failed to ",
    "\"Failed to start ContainerManager\" err=",
    "\"Failed to start cAdvisor\" err=",
    "\"Failed to listen and serve\" err=",
    "The currently active client certificate has expired and the server is responsive, exiting.",
    "No valid client certificate is found and the server is responsive, exiting.",
];

/// The table of messages.
const TABLE: &str = include_str!("refusals.txt");

/// Why a kubelet exited, by its last message: a row of the table of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The meaning, as a clause whose subject is the kubelet or what it needs.
    pub meaning: &'static str,
    /// The check that finds the same problem before the start.
    pub check: Option<StartCheck>,
}

impl Refusal {
    /// Returns the meaning of this reason, with the flag or the feature gate that the kubelet does not know.
    pub fn sentence(&self, reason: &str) -> String {
        let names = ["unknown flag: ", "unknown shorthand flag: ", "unrecognized feature gate: "];
        let name = names.iter().find_map(|part| reason.split_once(part)?.1.split(' ').next());
        match name.filter(|name| !name.is_empty()) {
            Some(name) => format!("{}: {name}", self.meaning),
            None => self.meaning.to_owned(),
        }
    }
}

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

/// Returns the part of a reason by which the table recognises it; also the reason that [`continues`] knows.
pub fn known_part(reason: &str) -> Option<&'static str> {
    if continues(reason) {
        return Some("<");
    }
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    rows.filter_map(|line| line.split('|').nth(1)).find(|part| reason.contains(part))
}

/// Returns the row for a reason, if the table has one.
pub fn refusal(reason: &str) -> Option<Refusal> {
    TABLE.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let (id, row) = line.split_once('|')?;
        let (part, meaning) = row.split_once('|')?;
        reason.contains(part).then(|| Refusal { meaning, check: StartCheck::named(id) })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Returns the last line of every start that was tried on a real kubelet 1.36.2.
    fn recorded() -> Vec<Value> {
        let path =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/recordings/kubelet-start-tried-1.36.2.json");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    #[test]
    fn every_row_of_the_table_is_complete() {
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let [id, part, meaning] = *line.split('|').collect::<Vec<_>>() else { panic!("{line}") };
            assert!(!part.is_empty() && !meaning.is_empty(), "{line}");
            assert!(id == "-" || StartCheck::named(id).is_some(), "{line}");
        }
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
        let name = |reason: &str| refusal(reason).unwrap().sentence(reason);
        assert_eq!(name("failed to parse kubelet flag: unknown flag: --x"), "it does not know a flag: --x");
        assert_eq!(name("unknown flag: "), "it does not know a flag", "an anonymised message");
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
