//! Checks that compare the files of one directory with each other: SP100 to SP102. The summary of the report shows which
//! file defines which pod (SP105).

use std::collections::HashMap;
use std::path::Path;

use super::containers::containers;
use super::files::looks_like_backup;
use crate::{FileReport, FileVerdict, LintFinding, ManifestNode, PodField, PodIdentity, Position};
use plegctl_api_values::reader::json_text;
use plegctl_base::report::Places;

/// Adds findings to files that define the same pod, set the same UID or use the same host port.
pub fn check(files: &mut [FileReport]) {
    check_same_pod(files);
    check_same_uid(files);
    check_host_ports(files);
}

/// Reports each file whose pod another file defines too.
fn check_same_pod(files: &mut [FileReport]) {
    let winners: HashMap<PodIdentity, String> = files
        .iter()
        .filter(|file| file.verdict == FileVerdict::Loaded)
        .filter_map(|file| Some((file.pod.clone()?, file_name(&file.path))))
        .collect();
    for file in files.iter_mut().filter(|file| file.verdict == FileVerdict::Shadowed) {
        let Some(winner) = file.pod.as_ref().and_then(|pod| winners.get(pod)) else { continue };
        let loser = file_name(&file.path);
        // The file with the last name wins, even if it is a backup. So the fix must guess which file is the extra one.
        let (extra, real) = if looks_like_backup(&loser) && !looks_like_backup(winner) {
            (&loser, winner)
        } else if looks_like_backup(winner) || winner.len() > loser.len() {
            (winner, &loser)
        } else {
            (&loser, winner)
        };
        let places: &Places<'_> = &[("winner", winner), ("loser", &loser), ("extra", extra), ("real", real)];
        file.findings.push(LintFinding::of("same-pod", places));
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the decoded Pod, if the file loads.
fn loaded_pod(file: &FileReport) -> Option<PodField<'_>> {
    file.decoded_root().filter(|_| file.verdict == FileVerdict::Loaded)
}

/// Reports files that set the same UID for different pods.
fn check_same_uid(files: &mut [FileReport]) {
    let mut by_uid: HashMap<String, Vec<(usize, Position)>> = HashMap::new();
    for (index, file) in files.iter().enumerate() {
        let Some(pod) = loaded_pod(file) else { continue };
        let uid = pod.get("metadata").get("uid");
        if !uid.is_empty() {
            by_uid.entry(uid.str().to_owned()).or_default().push((index, uid.position()));
        }
    }
    for (uid, same_uid) in by_uid.into_iter().filter(|(_, same_uid)| same_uid.len() > 1) {
        for (place, &(index, position)) in same_uid.iter().enumerate() {
            // The message names one other file: the first, or the second for the first file itself.
            let other = same_uid.get(usize::from(place == 0)).and_then(|&(other, _)| files.get(other));
            let Some(other) = other else { continue };
            let is_equal = files.get(index).is_some_and(|file| are_equal_to_kubelet(file, other));
            let row = if is_equal { "same-uid-and-content" } else { "same-uid" };
            let places: &Places<'_> = &[("name", &file_name(&other.path)), ("uid", &uid)];
            if let Some(file) = files.get_mut(index) {
                file.findings.push(LintFinding::of(row, places).on_field("metadata.uid").at(position));
            }
        }
    }
}

/// Whether the kubelet sees no change between two pods with the same UID. The kubelet does not compare the names.
fn are_equal_to_kubelet(left: &FileReport, right: &FileReport) -> bool {
    let compared = |file: &FileReport| {
        let pod = &file.decoded()?.pod;
        let text = |node: Option<&ManifestNode>| node.map(json_text).unwrap_or_default();
        let metadata = pod.get("metadata");
        let of_metadata = |field: &str| text(metadata.and_then(|metadata| metadata.get(field)));
        Some([text(pod.get("spec")), of_metadata("labels"), of_metadata("annotations")])
    };
    compared(left).is_some() && compared(left) == compared(right)
}

/// A host port that a pod uses.
struct HostPort {
    /// The index of the file.
    file: usize,
    protocol: String,
    address: String,
    port: i64,
    field: String,
    position: Position,
}

impl HostPort {
    /// Whether the port is bound to every address of the node: it has no address, or the IPv4 wildcard.
    fn is_on_all_addresses(&self) -> bool {
        matches!(self.address.as_str(), "" | "0.0.0.0")
    }

    fn conflicts(&self, other: &Self) -> bool {
        self.file != other.file
            && self.port == other.port
            && self.protocol == other.protocol
            && (self.is_on_all_addresses() || other.is_on_all_addresses() || self.address == other.address)
    }
}

/// Reports pods of different files that use the same host port.
fn check_host_ports(files: &mut [FileReport]) {
    let ports: Vec<HostPort> =
        files.iter().enumerate().flat_map(|(index, file)| host_ports_of(index, file)).collect();
    let mut by_number: HashMap<(i64, &str), Vec<&HostPort>> = HashMap::new();
    for port in &ports {
        by_number.entry((port.port, &port.protocol)).or_default().push(port);
    }
    for port in &ports {
        let same_number = by_number.get(&(port.port, port.protocol.as_str()));
        let conflict = same_number.into_iter().flatten().find(|other| port.conflicts(other));
        let other = conflict.and_then(|conflict| files.get(conflict.file));
        let Some(other) = other.map(|other| file_name(&other.path)) else { continue };
        let Some(file) = files.get_mut(port.file) else { continue };
        let places: &Places<'_> = &[("other", &other), ("port", &port.port), ("protocol", &port.protocol)];
        let finding = LintFinding::of("shared-host-port", places);
        file.findings.push(finding.on_field(port.field.clone()).at(port.position));
    }
}

/// Returns the host ports of the containers that keep running: regular containers and sidecars.
fn host_ports_of(index: usize, file: &FileReport) -> Vec<HostPort> {
    let Some(pod) = loaded_pod(file) else { return Vec::new() };
    let spec = pod.get("spec");
    // The kubelet ignores the ports of init containers that end. A sidecar is an init container that keeps running.
    let regular = spec.get("containers").items().len();
    let all: Vec<PodField<'_>> = containers(&spec).collect();
    let first_regular = all.len().saturating_sub(regular);
    let long_running = all.into_iter().enumerate().filter(|(place, container)| {
        *place >= first_regular || container.get("restartPolicy").str() == "Always"
    });
    long_running
        .flat_map(|(_, container)| container.get("ports").items())
        .filter_map(|port| {
            let number = port.get("hostPort");
            Some(HostPort {
                file: index,
                protocol: port.get("protocol").str().to_owned(),
                address: port.get("hostIP").str().to_owned(),
                port: number.opt_int().filter(|number| *number > 0)?,
                field: number.path().to_owned(),
                position: number.position(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::checks::testing::{GOOD, NONE, TestDirectory, in_container, in_metadata, in_spec};

    #[test]
    fn sp100_is_reported_for_the_shadowed_file_only() {
        let directory = TestDirectory::new().with("a.yaml", GOOD).with("a.yaml.bak", GOOD);
        assert_eq!(directory.found(), [("a.yaml".to_owned(), vec![100]), ("a.yaml.bak".to_owned(), vec![])]);
        let other = TestDirectory::new().with("a.yaml", GOOD).with("b.yaml", GOOD.replace("web", "db"));
        assert!(other.found().iter().all(|(_, ids)| ids.is_empty()));
    }

    #[test]
    fn sp101_reports_one_uid_in_two_pods() {
        let first = in_metadata("uid: u");
        let second = first.replace("name: web", "name: db");
        let directory = TestDirectory::new().with("a.yaml", first).with("b.yaml", second.clone());
        assert!(directory.found().iter().all(|(_, ids)| *ids == [65, 101]), "{:?}", directory.found());
        let alone = TestDirectory::new().with("a.yaml", GOOD).with("b.yaml", second);
        assert_eq!(alone.found_in("b.yaml"), [65]);
    }

    #[test]
    fn sp101_distinguishes_pods_that_the_kubelet_considers_equal() {
        use crate::Check;
        use crate::checks::CheckContext;
        use crate::checks::testing::kubelet;
        let first = in_metadata("uid: u");
        let messages_with = |second: &str| {
            let directory = TestDirectory::new().with("a.yaml", &first).with("b.yaml", second);
            let kubelet = kubelet();
            let mut report = crate::inspect(&directory.0, &kubelet);
            let context = CheckContext {
                kubelet: &kubelet,
                configured: None,
                on_node: false,
                host: None,
                kubelet_settings: None,
            };
            crate::checks::run(&mut report, &context);
            let findings = report.files.into_iter().flat_map(|file| file.findings);
            findings
                .filter(|finding| finding.id == Check::SameUid)
                .map(|finding| finding.message)
                .collect::<Vec<_>>()
        };
        let twin = first.replace("name: web", "name: db");
        let messages = messages_with(&twin);
        assert_eq!(messages.len(), 2);
        assert!(
            messages.iter().all(|message| message.contains("never runs") && !message.contains("every scan"))
        );
        let other = messages_with(&twin.replace("app:1.0", "app:2.0"));
        assert!(other.len() == 2 && other.iter().all(|message| message.contains("every scan")), "{other:?}");
    }

    /// Returns the findings, which are equal in both files, of two pods with these host ports.
    fn findings_of_ports(first: &str, second: &str) -> Vec<u16> {
        let pod = |name: &str, port: &str| {
            in_container(&format!("ports: [{{containerPort: 80, {port}}}]"))
                .replace("name: web", &format!("name: {name}"))
        };
        let directory = TestDirectory::new().with("a.yaml", pod("a", first)).with("b.yaml", pod("b", second));
        assert_eq!(directory.found_in("a.yaml"), directory.found_in("b.yaml"));
        directory.found_in("a.yaml")
    }

    #[test]
    fn sp102_treats_a_missing_address_as_every_address() {
        assert_eq!(findings_of_ports("hostPort: 80", "hostPort: 80"), [102]);
        assert_eq!(findings_of_ports("hostPort: 80, hostIP: 127.0.0.1", "hostPort: 80"), [102]);
        assert_eq!(
            findings_of_ports("hostPort: 80, hostIP: 0.0.0.0", "hostPort: 80, hostIP: 10.0.0.1"),
            [102]
        );
        assert_eq!(
            findings_of_ports("hostPort: 80, hostIP: 127.0.0.1", "hostPort: 80, hostIP: 10.0.0.1"),
            NONE
        );
        assert_eq!(findings_of_ports("hostPort: 80, protocol: UDP", "hostPort: 80"), NONE);
        assert_eq!(findings_of_ports("hostPort: 80", "hostPort: 81"), NONE);
    }

    #[test]
    fn sp102_counts_the_container_ports_of_pods_with_host_network() {
        let host = |name: &str| {
            in_spec("hostNetwork: true")
                .replace("name: web", &format!("name: {name}"))
                .replace("    image:", "    ports: [{containerPort: 6443}]\n    image:")
        };
        let directory = TestDirectory::new().with("a.yaml", host("a")).with("b.yaml", host("b"));
        assert_eq!(directory.found_in("a.yaml"), [102]);
    }
}
