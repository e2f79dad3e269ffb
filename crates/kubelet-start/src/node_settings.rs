//! Reads the settings of a kubelet of this node, its configuration files and the node's properties.
//!
//! A read may block on a broken disk, so the caller must use a thread that it can give up.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::node_facts::{NodeFacts, is_given};
use super::release::Builder;
use super::validation::CgroupVersion;
use super::{ConfigFile, ConfigFileError, StartSettings};
use plegctl_base::report::load::load;
use plegctl_node::host::proc::NodeMount;
use plegctl_node::host::{HostRoot, kernel_text};
use plegctl_node::kubelet::{KubeletSettings, drop_ins};

/// The maximum size of a configuration file. Usually the file has a few kilobytes.
pub const LARGEST_CONFIG: usize = 1 << 20;

/// Reads the configuration files on a kubelet's command line, and the node. `pid` is the running kubelet, and `now` the
/// current time in seconds since the Unix epoch.
pub fn read_node_settings(
    settings: &KubeletSettings,
    host: &HostRoot,
    proc: &Path,
    pid: Option<u32>,
    now: i64,
) -> StartSettings {
    let mut files = Vec::new();
    if let Some(path) = settings.flag("config") {
        files.push(config_file(Path::new(path), host, false));
    }
    if let Some(directory) = settings.flag("config-dir") {
        let below = host.path(directory);
        if below.exists() {
            let found = drop_ins(&below).into_iter();
            files.extend(found.map(|path| {
                let rest = path.strip_prefix(&below).map_or_else(|_| path.clone(), Path::to_path_buf);
                config_file(&Path::new(directory).join(rest), host, true)
            }));
        } else {
            let path = Arc::from(directory);
            files.push(ConfigFile { path, content: Err(ConfigFileError::Missing), is_drop_in: true });
        }
    }
    StartSettings {
        arguments: settings.own_arguments().to_vec(),
        files,
        // In a program with a built-in kubelet, the value of failCgroupV1 may not be visible.
        cgroups: if is_given(settings, "fail-cgroupv1", "failCgroupV1") {
            cgroups(proc, pid.unwrap_or(1))
        } else {
            None
        },
        node: Some(NodeFacts::read(settings, host, proc, pid, now)),
    }
}

fn config_file(path: &Path, host: &HostRoot, is_drop_in: bool) -> ConfigFile {
    let content = load(&host.path(path), LARGEST_CONFIG).map_err(|why| match why.kind() {
        io::ErrorKind::NotFound => ConfigFileError::Missing,
        _ => ConfigFileError::Unreadable(why.to_string()),
    });
    ConfigFile { path: Arc::from(path.display().to_string()), content, is_drop_in }
}

/// Returns the cgroup version that a process sees. Like the kubelet, looks at the file system of `/sys/fs/cgroup`.
fn cgroups(proc: &Path, pid: u32) -> Option<CgroupVersion> {
    let path = proc.join(pid.to_string()).join("mountinfo");
    let mounts = NodeMount::all(&kernel_text(&path).ok()?);
    let last = mounts.iter().rev().find(|mount| mount.target == "/sys/fs/cgroup")?;
    match last.kind.as_str() {
        "cgroup2" => Some(CgroupVersion::V2),
        "tmpfs" | "cgroup" => Some(CgroupVersion::V1),
        _ => None,
    }
}

/// Returns who built the kubelet of this node, according to the name of the operating system.
pub fn builder_of_node(host: &HostRoot) -> Builder {
    let texts = ["/etc/os-release", "/usr/lib/os-release"].map(|path| load(&host.path(path), 64 << 10));
    let Some(text) = texts.into_iter().find_map(Result::ok) else { return Builder::Unknown };
    let text = String::from_utf8_lossy(&text);
    let is_openshift = text.lines().any(|line| {
        line.starts_with("OPENSHIFT_VERSION=")
            || matches!(line.replace('"', "").as_str(), "ID=rhcos" | "ID=scos")
    });
    if is_openshift { Builder::OpenShift } else { Builder::Upstream }
}
