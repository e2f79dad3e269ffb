//! Reads and checks the subordinate ids of the user `kubelet`, from which the kubelet gives pods their user namespaces
//! (KP079).
//!
//! The rules come from a draft of the release notes of 1.38 (kubernetes/kubernetes#141345, #141968). No kubelet 1.38 confirms
//! them.

use std::fs;
use std::io;

use serde::Deserialize;

use super::finding::StartFinding;
use super::release::TargetKubelet;
use plegctl_base::report::Places;
use plegctl_base::report::load::load;
use plegctl_node::host::HostRoot;

/// The first minor release that refuses a range with the last id, and that looks the user up with getent.
const CHECKS_THE_RANGE: u8 = 38;

/// The last id. It means *no user*, and the kernel maps no range that contains it.
const LAST_ID: u64 = 4_294_967_295;

/// The files with subordinate ids.
const FILES: [&str; 2] = ["/etc/subuid", "/etc/subgid"];

/// The maximum size of a file.
const MAX_FILE_BYTES: usize = 1 << 20;

/// The maximum number of pod directories that are read.
const MAX_PODS: usize = 10_000;

/// The subordinate ids of a node's kubelet.
#[derive(Clone, Debug, Default)]
pub struct SubordinateIds {
    /// The ranges of the user `kubelet`.
    ranges: Vec<OwnedRange>,
    /// The ranges that the kubelet has recorded for pods, each with the UID of its pod.
    recorded: Vec<(String, IdRange)>,
    /// Whether the node has no `getent`.
    lacks_getent: bool,
    /// The files that could not be read, each with the reason.
    pub unread: Vec<(String, io::ErrorKind)>,
}

/// A range in `/etc/subuid` or `/etc/subgid`.
#[derive(Clone, Debug)]
struct OwnedRange {
    file: &'static str,
    line: usize,
    ids: IdRange,
}

/// Consecutive ids.
#[derive(Clone, Copy, Debug, Deserialize)]
struct IdRange {
    #[serde(rename = "hostId")]
    first: u64,
    #[serde(rename = "length")]
    count: u64,
}

impl IdRange {
    /// Whether the range ends at the last id or past it.
    const fn has_last_id(self) -> bool {
        self.first.saturating_add(self.count) > LAST_ID
    }
}

/// The file `userns` in a pod's directory.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordedMappings {
    #[serde(default)]
    uid_mappings: Vec<IdRange>,
    #[serde(default)]
    gid_mappings: Vec<IdRange>,
}

impl SubordinateIds {
    /// Reads the files of a node. `root` is the kubelet's root directory.
    pub fn read(root: &str, host: &HostRoot) -> Self {
        let mut read = Self::default();
        for file in FILES {
            let text = read.text(file, host);
            let lines = text.lines().enumerate();
            read.ranges.extend(lines.filter_map(|(index, line)| {
                Some(OwnedRange { file, line: index + 1, ids: range_of_kubelet(line)? })
            }));
        }
        read.lacks_getent = !read.ranges.is_empty()
            && ["/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin", "/sbin", "/run/current-system/sw/bin"]
                .iter()
                .all(|directory| !host.path(format!("{directory}/getent")).exists());
        let pods = format!("{root}/pods");
        match fs::read_dir(host.path(&pods)) {
            Ok(entries) => {
                for entry in entries.flatten().take(MAX_PODS) {
                    let uid = entry.file_name().to_string_lossy().into_owned();
                    let text = read.text(&format!("{pods}/{uid}/userns"), host);
                    let Ok(mappings) = serde_json::from_str::<RecordedMappings>(&text) else { continue };
                    let both = mappings.uid_mappings.into_iter().chain(mappings.gid_mappings);
                    read.recorded.extend(both.map(|ids| (uid.clone(), ids)));
                }
            }
            Err(why) => read.note_unread(&pods, why.kind()),
        }
        read
    }

    /// Returns the text of a file; nothing if there is no such file or it cannot be read.
    fn text(&mut self, path: &str, host: &HostRoot) -> String {
        match load(&host.path(path), MAX_FILE_BYTES) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(why) => {
                self.note_unread(path, why.kind());
                String::new()
            }
        }
    }

    fn note_unread(&mut self, path: &str, why: io::ErrorKind) {
        if why != io::ErrorKind::NotFound {
            self.unread.push((path.to_owned(), why));
        }
    }

    /// Returns the findings for a kubelet.
    pub fn check(&self, kubelet: TargetKubelet) -> Vec<StartFinding> {
        let release = kubelet.release;
        if !release.at_least(CHECKS_THE_RANGE) {
            return Vec::new();
        }
        let about = |row, places: &Places<'_>| {
            let common: &Places<'_> = &[("release", &release), ("last", &LAST_ID)];
            StartFinding::of(row, &[common, places].concat())
        };
        let mut findings = Vec::new();
        for OwnedRange { file, line, ids } in self.ranges.iter().filter(|range| range.ids.has_last_id()) {
            let places: &Places<'_> = &[("count", &ids.count), ("first", &ids.first), ("file", file)];
            let mut finding = about("subordinate-ids-of-user", places);
            finding.file = Some((*file).to_owned());
            finding.line = u32::try_from(*line).ok();
            findings.push(finding);
        }
        let mut named = None;
        for (uid, ids) in self.recorded.iter().filter(|(_, ids)| ids.has_last_id()) {
            // A pod has a range of users and a range of groups, usually the same.
            if named.replace(uid) != Some(uid) {
                findings.push(about("subordinate-ids-of-pod", &[("uid", uid), ("first", &ids.first)]));
            }
        }
        if self.lacks_getent {
            findings.push(about("no-getent", &[]));
        }
        findings
    }
}

/// Returns the range in a line such as `kubelet:65536:7208960`, if it is the kubelet's.
fn range_of_kubelet(line: &str) -> Option<IdRange> {
    let mut parts = line.strip_prefix("kubelet:")?.split(':');
    let mut next = || parts.next()?.trim().parse::<u64>().ok();
    Some(IdRange { first: next()?, count: next()? })
}

#[cfg(test)]
mod tests {

    use super::*;
    use plegctl_base::report::Severity;

    const UID: &str = "1b5a6a4e-0a0b-4b5e-9d5c-0123456789ab";

    /// Creates a node's files and reads them.
    fn node(name: &str, files: &[(&str, &str)]) -> SubordinateIds {
        let root = std::env::temp_dir().join(format!("plegctl-subids-{}", std::process::id())).join(name);
        let _ = fs::remove_dir_all(&root);
        for (path, text) in files {
            let path = root.join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        SubordinateIds::read("/var/lib/kubelet", &HostRoot::resolve(Some(&root)))
    }

    fn found(ids: &SubordinateIds, release: &str) -> Vec<(Option<String>, Option<u32>, Option<String>)> {
        let findings = ids.check(TargetKubelet::upstream(release)).into_iter();
        findings.map(|finding| (finding.file, finding.line, finding.kubelet_reason)).collect()
    }

    #[test]
    fn a_range_of_the_kubelet_with_the_last_id_is_refused_from_138_on() {
        let files = [
            ("/usr/bin/getent", ""),
            ("/etc/subuid", "me:4294901760:65536\nkubelet:327680:4294836224\n"),
            ("/etc/subgid", "kubelet:65536:4294836224\n"),
        ];
        let ids = node("ranges", &files);
        assert_eq!(found(&ids, "1.38"), [(Some("/etc/subuid".to_owned()), Some(2), None)]);
        assert_eq!(found(&ids, "1.37"), []);
        let last = node("last", &[("/bin/getent", ""), ("/etc/subgid", "kubelet:65536:4294901760\n")]);
        assert_eq!(found(&last, "1.38").len(), 1, "the last id of this range is 4294967295");
        assert_eq!(found(&node("none", &[]), "1.38"), []);
    }

    #[test]
    fn a_recorded_range_with_the_last_id_is_refused_with_the_kubelets_words() {
        let mappings = |first: u64| {
            let one = format!("[{{\"hostId\":{first},\"containerId\":0,\"length\":65536}}]");
            format!("{{\"uidMappings\":{one},\"gidMappings\":{one}}}")
        };
        let path = format!("/var/lib/kubelet/pods/{UID}/userns");
        let ids = node("recorded", &[(&path, &mappings(4_294_901_760))]);
        let reason = format!(
            "failed to run Kubelet: failed to create kubelet: create user namespace manager: record pod mappings for \
             existing pod \"{UID}\": id 4294901760 is out of range"
        );
        assert_eq!(found(&ids, "1.38"), [(None, None, Some(reason))]);
        assert_eq!(found(&ids, "1.37"), []);
        assert_eq!(found(&node("recorded-low", &[(&path, &mappings(4_294_836_224))]), "1.38"), []);
    }

    #[test]
    fn a_node_whose_kubelet_has_subordinate_ids_needs_getent() {
        let text = "kubelet:65536:7208960\n";
        let warned = node("getent", &[("/etc/subuid", text)]).check(TargetKubelet::upstream("1.38"));
        assert_eq!(warned.iter().map(|found| found.severity).collect::<Vec<_>>(), [Severity::Warning]);
        assert_eq!(found(&node("getent-there", &[("/etc/subuid", text), ("/bin/getent", "")]), "1.38"), []);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let root = std::env::temp_dir().join(format!("plegctl-subids-{}/unread", std::process::id()));
        fs::create_dir_all(root.join("etc/subuid")).unwrap();
        let read = SubordinateIds::read("/var/lib/kubelet", &HostRoot::resolve(Some(&root)));
        assert_eq!(read.unread.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), ["/etc/subuid"]);
    }
}
