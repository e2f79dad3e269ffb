//! Finds the directory in which a runtime looks for the configuration of its network plugins.

use std::fs;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::proc::ProcSample;
use super::{Arguments, ContainerdConfig, HostRoot, containerd_config_path};
use plegctl_base::report::load::load;

/// The directory if nothing else is configured, for containerd and for CRI-O.
pub const CNI_DIRECTORY: &str = "/etc/cni/net.d";

/// The largest file that is read, in bytes.
const LARGEST_FILE: usize = 1 << 20;

/// The maximum number of drop-in files that are read.
const MOST_DROP_INS: usize = 64;

/// Returns the directory that is configured for the runtime that listens on `socket`; `None` if the runtime's process is not
/// known, or if its settings name none. Reading may wait for a disk, so call this in a thread that can be abandoned.
pub fn cni_directory(sample: &ProcSample, socket: &str, host: &HostRoot) -> Option<String> {
    let daemon = sample.processes.get(&sample.socket_owner?)?;
    if daemon.comm == "crio" {
        return of_crio(&daemon.command, host);
    }
    let path = containerd_config_path(Some(sample), socket)?;
    ContainerdConfig::read(&path, host)?.cni_directory
}

/// Reads `network_dir`: a flag overrides the drop-in files, and a later drop-in file an earlier one.
fn of_crio(arguments: &Arguments, host: &HostRoot) -> Option<String> {
    let flag = |name: &str, letter: &str| arguments.flag(name).or_else(|| arguments.flag(letter));
    if let Some(directory) = arguments.flag("cni-config-dir") {
        return Some(directory.to_owned());
    }
    let main = PathBuf::from(flag("config", "c").unwrap_or("/etc/crio/crio.conf"));
    let folder = Path::new(flag("config-dir", "d").unwrap_or("/etc/crio/crio.conf.d"));
    let entries = fs::read_dir(host.path(folder)).into_iter().flatten().flatten().take(MOST_DROP_INS);
    let mut files: Vec<PathBuf> = entries.map(|entry| folder.join(entry.file_name())).collect();
    files.sort();
    let named = |path: &PathBuf| network_dir(&load(&host.path(path), LARGEST_FILE).ok()?);
    files.iter().rev().chain([&main]).find_map(named)
}

fn network_dir(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let document = DeTable::parse(&text).ok()?;
    let network = document.get_ref().get("crio")?.get_ref().get("network")?.get_ref();
    network.get("network_dir")?.get_ref().as_str().filter(|path| !path.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::proc::{Process, Role};

    /// Returns the directory of the runtime with this command line on a node with these files.
    fn found(comm: &str, command: &[&str], files: &[(&str, &str)]) -> Option<String> {
        let root = std::env::temp_dir().join(format!("plegctl-cni-{comm}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let daemon = Process {
            pid: 7,
            comm: comm.to_owned(),
            role: Role::of(comm),
            command: command.iter().copied().collect(),
            ..Process::default()
        };
        let sample =
            ProcSample { socket_owner: Some(7), processes: [(7, daemon)].into(), ..ProcSample::default() };
        let directory = cni_directory(&sample, "/run/r.sock", &HostRoot::resolve(Some(&root)));
        let _ = fs::remove_dir_all(&root);
        directory
    }

    #[test]
    fn the_directory_of_containerd_is_that_of_its_cri_plugin() {
        for table in ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"] {
            let text = format!("[plugins.'{table}'.cni]\nconf_dir = '/var/lib/rancher/cni/net.d'\n");
            let files = [("etc/c.toml", text.as_str())];
            let directory = found("containerd", &["containerd", "-c", "/etc/c.toml"], &files);
            assert_eq!(directory.as_deref(), Some("/var/lib/rancher/cni/net.d"), "{table}");
        }
        assert_eq!(found("containerd", &["containerd"], &[("etc/containerd/config.toml", "")]), None);
    }

    #[test]
    fn the_directory_of_crio_is_that_of_its_flag_its_last_drop_in_or_its_file() {
        let of = |path: &str| format!("[crio.network]\nnetwork_dir = \"{path}\"\n");
        let (main, early, late) = (of("/main"), of("/early"), of("/late"));
        let mut files = vec![("etc/crio/crio.conf", main.as_str())];
        assert_eq!(found("crio", &["crio"], &files).as_deref(), Some("/main"));
        files.push(("etc/crio/crio.conf.d/20-b.conf", &late));
        files.push(("etc/crio/crio.conf.d/10-a.conf", &early));
        files.push(("etc/crio/crio.conf.d/30-c.conf", "[crio.runtime]\nlog_level = 'info'\n"));
        assert_eq!(found("crio", &["crio"], &files).as_deref(), Some("/late"));
        assert_eq!(found("crio", &["crio", "--cni-config-dir=/flag"], &files).as_deref(), Some("/flag"));
        assert_eq!(found("crio", &["crio"], &[("etc/crio/crio.conf", "broken")]), None);
    }
}
