//! Checks the resources that a kubelet shares with the other programs of its node: ports, the lock file, file systems,
//! cgroups and addresses (KP042 and KP072 to KP076).
//!
//! The checks are a pure function of [`NodeResources`], the settings and the flags.

use std::net::IpAddr;

use super::command_line::ParsedFlags;
use super::finding::StartFinding;
use super::node_resources::{KubeletPort, NodeResources, PORTS, UsedDisk};
use super::settings::MergedSettings;
use plegctl_base::report::{Confidence, Places, Severity};

/// Returns the findings about the resources of the node.
pub fn check(resources: &NodeResources, settings: &MergedSettings, flags: &ParsedFlags) -> Vec<StartFinding> {
    let mut judge = ResourceJudge { resources, settings, flags, findings: Vec::new() };
    judge.check_reserved_cgroups();
    for port in &PORTS {
        judge.check_port(port);
    }
    judge.check_node_ip();
    judge.check_lock_file();
    for disk in &resources.disks {
        judge.check_disk(disk);
    }
    judge.findings
}

/// Collects the findings.
struct ResourceJudge<'a> {
    resources: &'a NodeResources,
    settings: &'a MergedSettings,
    flags: &'a ParsedFlags,
    findings: Vec<StartFinding>,
}

impl ResourceJudge<'_> {
    /// Reports a missing cgroup in which the kubelet is to enforce a reservation. The kubelet does not create this cgroup.
    fn check_reserved_cgroups(&mut self) {
        let enforced =
            self.settings.list("enforceNodeAllocatable").map(|list| list.value).unwrap_or_default();
        for (field, key, words) in [
            ("systemReservedCgroup", "system-reserved", "System Reserved"),
            ("kubeReservedCgroup", "kube-reserved", "Kube Reserved"),
        ] {
            let compressible = format!("{key}-compressible");
            let words = if enforced.iter().any(|one| one == key) {
                words.to_owned()
            } else if enforced.contains(&compressible) {
                format!("{words} Compressible")
            } else {
                continue;
            };
            let Some(name) = self.settings.non_empty(field) else { continue };
            let path = name.value;
            if self.resources.cgroups.get(&path) == Some(&false) {
                let quoted = format!("{path:?}");
                let places: &Places<'_> =
                    &[("path", &path), ("quoted", &quoted), ("key", &key), ("words", &words)];
                self.findings.push(self.settings.finding(field, "reserved-cgroup-missing", places));
            }
        }
    }

    /// Returns the value of an integer setting. If the setting is missing, returns `default`, provided that the kubelet is
    /// known to use its defaults.
    fn integer(&self, field: &str, default: Option<i128>) -> Option<i128> {
        match self.settings.int(field) {
            Some(found) => Some(found.value),
            None => default.filter(|_| self.resources.has_known_defaults && !self.settings.is_set(field)),
        }
    }

    /// Reports another process that listens on a port of the kubelet.
    fn check_port(&mut self, port: &KubeletPort) {
        let is_health = port.field == "healthzPort";
        if !is_health && !self.settings.is_on("enableServer", true) {
            return;
        }
        let has_default = !(port.only_without_file && self.resources.has_config_file);
        let value = self.integer(port.field, has_default.then_some(port.default.into()));
        let value = match value {
            // For this port, zero means the default. Zero switches the other ports off.
            Some(0) if port.field == "port" => port.default,
            Some(value) if value != 0 => u16::try_from(value).unwrap_or_default(),
            _ => return,
        };
        let address = self.settings.non_empty(port.address);
        let address = address.as_ref().map_or(port.default_address, |address| address.value.as_str());
        let Ok(address) = address.parse::<IpAddr>() else { return };
        let listeners = self.resources.listeners.iter().flatten();
        let mut taken = listeners.filter(|listener| listener.port == value);
        let Some(listener) = taken.find(|listener| overlaps(address, listener.address)) else { return };
        let words = format!("{:?}", format!("listen tcp {address}:{value}: bind: address already in use"));
        let (pid, name) = (listener.owner.pid, &listener.owner.name);
        let places: &Places<'_> = &[
            ("name", name),
            ("pid", &pid),
            ("port", &value),
            ("address", &listener.address),
            ("field", &port.field),
            ("words", &words),
        ];
        let finding = self.settings.finding(port.field, "port-taken", places);
        self.findings.push(if is_health {
            // The kubelet starts, and tries to open this port every five seconds. Until then its health checks fail.
            finding.with_reason("\"Failed to start healthz server\"").with_severity(Severity::Warning)
        } else {
            // The kubelet's message about the read-only port was not recorded, so its wording is only likely.
            let is_recorded = port.field == "port" && address.is_ipv4();
            finding.with_confidence(if is_recorded { Confidence::Certain } else { Confidence::Likely })
        });
    }

    /// Reports a `--node-ip` that is not an address of the node.
    fn check_node_ip(&mut self) {
        let (Some(value), Some(own)) = (self.flags.last("node-ip"), &self.resources.addresses) else {
            return;
        };
        for text in value.split(',').map(str::trim) {
            let Ok(address) = text.parse::<IpAddr>() else { continue };
            // With the unspecified address, the kubelet chooses an address itself. `late_start` reports a loopback address.
            if address.is_unspecified() || address.is_loopback() || own.contains(&address) {
                continue;
            }
            let places: &Places<'_> = &[("address", &address)];
            self.findings.push(StartFinding::of_flag("node-ip", "node-ip-not-here", places));
        }
    }

    /// Reports another process that holds the kubelet's lock file.
    fn check_lock_file(&mut self) {
        let (Some((path, holder)), true) =
            (&self.resources.lock_holder, self.flags.last("lock-file").is_some())
        else {
            return;
        };
        let quoted = format!("{path:?}");
        let places: &Places<'_> =
            &[("name", &holder.name), ("pid", &holder.pid), ("path", path), ("quoted", &quoted)];
        self.findings.push(StartFinding::of_flag("lock-file", "lock-file-held", places));
    }

    /// Reports a file system without free space or inodes.
    fn check_disk(&mut self, UsedDisk { path, disk }: &UsedDisk) {
        for (what, left, all) in [("space", disk.free, disk.size), ("inodes", disk.free_inodes, disk.inodes)]
        {
            // Some file systems have no limit of inodes, and report zero.
            if all > 0 && left == 0 {
                self.findings.push(StartFinding::of("disk-full", &[("path", path), ("what", &what)]));
            }
        }
    }
}

/// Whether a port cannot be opened on the address `own` while another socket listens on the same port of `other`. If one of
/// them is unspecified, it includes all IPv4 and IPv6 addresses (as in Go).
fn overlaps(own: IpAddr, other: IpAddr) -> bool {
    own.is_unspecified() || other.is_unspecified() || own == other
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::catalogue::StartCheck;
    use super::super::command_line;
    use super::super::node_resources::{Listener, ProcessName};
    use super::super::release::TargetKubelet;
    use super::*;
    use plegctl_api_values::reader::read;
    use plegctl_node::host::disks::Disk;
    use plegctl_node::host::shell_words;

    /// Returns a plain kubelet with a configuration file.
    fn plain() -> NodeResources {
        NodeResources { has_known_defaults: true, has_config_file: true, ..NodeResources::default() }
    }

    /// Returns the findings for a configuration and a command line.
    fn found(resources: &NodeResources, text: &str, flags: &str) -> Vec<StartFinding> {
        let flags = command_line::parse(&shell_words(flags), TargetKubelet::upstream("1.36"));
        let mut settings = MergedSettings::default();
        settings.add_file(&read(text.as_bytes()).root.unwrap(), &Arc::from("c.yaml"));
        settings.add_flags(&flags.flags);
        check(resources, &settings, &flags)
    }

    /// Returns the checks, severities and lines of the findings.
    fn ids(resources: &NodeResources, text: &str, flags: &str) -> Vec<(StartCheck, Severity, Option<u32>)> {
        let findings = found(resources, text, flags).into_iter();
        findings.map(|finding| (finding.id, finding.severity, finding.line)).collect()
    }

    fn listening(address: &str, port: u16) -> NodeResources {
        let owner = ProcessName { pid: 812, name: "nginx".to_owned() };
        let listener = Listener { address: address.parse().unwrap(), port, owner };
        NodeResources { listeners: Some(vec![listener]), ..plain() }
    }

    #[test]
    fn a_taken_port_stops_the_kubelet_and_a_taken_health_port_only_its_health_check() {
        let taken = |severity, line| [(StartCheck::PortTaken, severity, line)];
        let everywhere = listening("0.0.0.0", 10250);
        assert_eq!(ids(&everywhere, "a: 1", ""), taken(Severity::Error, None));
        let finding = &found(&everywhere, "a: 1", "")[0];
        assert_eq!(finding.message, "nginx (pid 812) listens on port 10250 of 0.0.0.0");
        assert_eq!(
            finding.kubelet_reason.as_deref(),
            Some(
                "\"Failed to listen and serve\" err=\"listen tcp 0.0.0.0:10250: bind: address already in use\""
            )
        );
        assert_eq!(ids(&everywhere, "a: 1\nport: 10350\n", ""), []);
        assert_eq!(ids(&listening("::1", 10350), "a: 1\nport: 10350\n", ""), taken(Severity::Error, Some(2)));
        assert_eq!(ids(&everywhere, "enableServer: false", ""), []);
        let elsewhere = listening("10.0.0.9", 10250);
        assert_eq!(ids(&elsewhere, "address: 10.0.0.4", ""), []);
        assert_eq!(ids(&elsewhere, "a: 1", ""), taken(Severity::Error, None));
        assert_eq!(ids(&listening("127.0.0.1", 10248), "a: 1", ""), taken(Severity::Warning, None));
        assert_eq!(ids(&listening("10.0.0.9", 10248), "a: 1", ""), []);
        assert_eq!(ids(&listening("127.0.0.1", 10248), "healthzPort: 0", ""), []);
    }

    #[test]
    fn the_read_only_port_has_a_default_only_without_a_configuration_file() {
        let taken = listening("0.0.0.0", 10255);
        assert_eq!(ids(&taken, "a: 1", ""), []);
        assert_eq!(ids(&taken, "a: 1\nreadOnlyPort: 10255", "").len(), 1);
        let without_file = NodeResources { has_config_file: false, ..taken.clone() };
        assert_eq!(ids(&without_file, "a: 1", "").len(), 1);
        assert_eq!(ids(&without_file, "a: 1", "--read-only-port=0"), []);
        let inside_another_program = NodeResources { has_known_defaults: false, ..without_file };
        assert_eq!(ids(&inside_another_program, "a: 1", ""), []);
    }

    #[test]
    fn a_reserved_cgroup_is_needed_only_where_it_is_enforced() {
        let missing = NodeResources {
            cgroups: [("/runtime".to_owned(), false), ("/system".to_owned(), true)].into(),
            ..plain()
        };
        let text = "kubeReservedCgroup: /runtime\nsystemReservedCgroup: /system\n";
        assert_eq!(ids(&missing, text, ""), []);
        let enforced = format!("{text}enforceNodeAllocatable: [pods, system-reserved, kube-reserved]\n");
        let finding = &found(&missing, &enforced, "")[0];
        assert_eq!((finding.id, finding.line), (StartCheck::ReservedCgroupMissing, Some(1)));
        let reason = finding.kubelet_reason.as_deref().unwrap();
        assert!(
            reason.ends_with("Failed to enforce Kube Reserved Cgroup Limits on \"/runtime\""),
            "{reason}"
        );
        let compressible = format!("{text}enforceNodeAllocatable: [pods, kube-reserved-compressible]\n");
        let reason = found(&missing, &compressible, "")[0].kubelet_reason.clone().unwrap();
        assert!(reason.contains("enforce Kube Reserved Compressible Cgroup"), "{reason}");
        assert_eq!(found(&missing, &enforced, "").len(), 1, "the other cgroup exists");
    }

    #[test]
    fn a_node_ip_of_another_machine_is_a_warning() {
        let own = ["10.0.0.4", "fd00::4"].map(|address| address.parse().unwrap());
        let node = NodeResources { addresses: Some(own.into()), ..plain() };
        for good in ["10.0.0.4", "10.0.0.4,fd00:0::4", "0.0.0.0", "::", "127.0.0.1", "x"] {
            assert_eq!(ids(&node, "a: 1", &format!("--node-ip={good}")), [], "{good}");
        }
        let finding = &found(&node, "a: 1", "--node-ip=10.0.0.5")[0];
        assert_eq!((finding.id, finding.severity), (StartCheck::NodeIpNotHere, Severity::Warning));
        assert_eq!(finding.field.as_deref(), Some("--node-ip"));
        assert!(finding.kubelet_reason.as_deref().unwrap().contains("node IP: \\\"10.0.0.5\\\" not found"));
        assert_eq!(ids(&plain(), "a: 1", "--node-ip=10.0.0.5"), [], "the addresses are not known");
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let full = [(StartCheck::DiskFull, Severity::Error, None)];
        let of = |free, inodes, free_inodes| {
            let disk = Disk { size: 1000, free, available: free, inodes, free_inodes, ..Disk::default() };
            let disks = vec![UsedDisk { path: "/d".to_owned(), disk }];
            ids(&NodeResources { disks, ..plain() }, "a: 1", "")
        };
        assert_eq!(of(1, 1000, 1), []);
        assert_eq!(of(0, 1000, 500), full);
        assert_eq!(of(500, 1000, 0), full);
        assert_eq!(of(500, 0, 0), [], "this file system has no limit of inodes");
    }

    #[test]
    fn a_held_lock_file_stops_the_kubelet_that_is_to_wait_for_it() {
        let holder = ProcessName { pid: 41, name: "kubelet".to_owned() };
        let held = NodeResources { lock_holder: Some(("/run/k.lock".to_owned(), holder)), ..plain() };
        let finding = &found(&held, "a: 1", "--lock-file=/run/k.lock")[0];
        assert_eq!((finding.id, finding.severity), (StartCheck::LockFileHeld, Severity::Error));
        assert_eq!(finding.kubelet_reason.as_deref(), Some("\"Acquiring file lock\" path=\"/run/k.lock\""));
        assert_eq!(ids(&held, "a: 1", ""), [], "without the flag there is no lock");
    }
}
