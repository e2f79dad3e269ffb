//! How much a process uses of its hard limits, and how many of its tasks the node has. A limit that cannot be read is absent.

use std::path::Path;

use super::cgroup;
use super::node::{hierarchy, parse_tasks};
use super::process::{descriptor_limits, descriptors};
use crate::host::{kernel_record, kernel_text};

/// How much of a limit is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitUse {
    /// How much is used.
    pub used: u64,
    /// The limit.
    pub max: u64,
}

/// A limit of cgroup v1 that is larger than this is none.
const NO_LIMIT: u64 = 1 << 60;

/// Returns the open descriptors of a process, against its soft limit.
pub fn descriptor_use(proc: &Path, pid: u32) -> Option<LimitUse> {
    let dir = proc.join(pid.to_string());
    let [max, _] = descriptor_limits(&dir);
    Some(LimitUse { max: max?, used: descriptors(&dir)? })
}

/// Returns the tasks in the cgroup of a process, against its own limit (`pids.max`); the limits of its parents do not count.
pub fn cgroup_tasks(proc: &Path, root: &Path, pid: u32) -> Option<LimitUse> {
    let max = of_cgroup(proc, root, pid, "pids", "pids.max")?.trim().parse().ok()?;
    let used = of_cgroup(proc, root, pid, "pids", "pids.current")?.trim().parse().ok()?;
    Some(LimitUse { used, max })
}

/// Returns the memory in the cgroup of a process that the kernel cannot write to a file and take back, against its own limit.
pub fn cgroup_memory(proc: &Path, root: &Path, pid: u32) -> Option<LimitUse> {
    let read = |name: &str| of_cgroup(proc, root, pid, "memory", name);
    let max = read("memory.max").or_else(|| read("memory.limit_in_bytes"))?;
    let max = max.trim().parse().ok().filter(|max| *max < NO_LIMIT)?;
    let stat = read("memory.stat")?;
    // v1 calls it `total_rss`, v2 `anon`.
    let value =
        |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    Some(LimitUse { used: value("anon").or_else(|| value("total_rss"))?, max })
}

/// Returns the tasks of the node, against the smaller one of its two limits.
pub fn node_tasks(proc: &Path) -> Option<LimitUse> {
    let limit = |name: &str| kernel_text(&proc.join("sys/kernel").join(name)).ok()?.trim().parse().ok();
    let max = [limit("pid_max"), limit("threads-max")].into_iter().flatten().min()?;
    let used = parse_tasks(&kernel_text(&proc.join("loadavg")).ok()?);
    (used > 0).then_some(LimitUse { used, max })
}

/// Reads a file of the cgroup of a process.
fn of_cgroup(proc: &Path, root: &Path, pid: u32, controller: &str, name: &str) -> Option<String> {
    let cgroups = kernel_record(&proc.join(format!("{pid}/cgroup"))).ok()?;
    let path = cgroup::path_in(&cgroups, controller).trim_start_matches('/');
    // The process is outside the part of the tree that is visible here.
    if path.split('/').any(|part| part == "..") {
        return None;
    }
    kernel_text(&hierarchy(root, controller).join(path).join(name)).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    fn node(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("plegctl-limits-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    const LIMITS: &str = "Limit   Soft Limit  Hard Limit  Units\nMax open files   1024   4096   files\n";

    #[test]
    fn limits_of_a_process_are_read_in_cgroup_v2() {
        let root = node(
            "v2",
            &[
                ("proc/7/cgroup", "0::/system.slice/containerd.service\n"),
                ("proc/7/limits", LIMITS),
                ("proc/7/fd/0", ""),
                ("proc/7/fd/1", ""),
                ("cgroup/cgroup.controllers", "pids memory"),
                ("cgroup/system.slice/containerd.service/pids.max", "4915\n"),
                ("cgroup/system.slice/containerd.service/pids.current", "120\n"),
                ("cgroup/system.slice/containerd.service/memory.max", "1073741824\n"),
                ("cgroup/system.slice/containerd.service/memory.stat", "anon_thp 1\nanon 4096\nfile 9999\n"),
            ],
        );
        let (proc, cgroup) = (root.join("proc"), root.join("cgroup"));
        assert_eq!(cgroup_tasks(&proc, &cgroup, 7), Some(LimitUse { used: 120, max: 4915 }));
        assert_eq!(cgroup_memory(&proc, &cgroup, 7), Some(LimitUse { used: 4096, max: 1 << 30 }));
        assert_eq!(descriptor_use(&proc, 7), Some(LimitUse { used: 2, max: 1024 }));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn limits_of_a_process_are_read_in_cgroup_v1() {
        let root = node(
            "v1",
            &[
                ("proc/7/cgroup", "8:pids:/fc\n4:memory:/other\n0::/\n"),
                ("cgroup/pids/fc/pids.max", "5000\n"),
                ("cgroup/pids/fc/pids.current", "649\n"),
                ("cgroup/memory/other/memory.limit_in_bytes", "1048576\n"),
                ("cgroup/memory/other/memory.stat", "rss 1\ntotal_rss 8192\n"),
            ],
        );
        let (proc, cgroup) = (root.join("proc"), root.join("cgroup"));
        assert_eq!(cgroup_tasks(&proc, &cgroup, 7), Some(LimitUse { used: 649, max: 5000 }));
        assert_eq!(cgroup_memory(&proc, &cgroup, 7), Some(LimitUse { used: 8192, max: 1 << 20 }));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn limit_that_cannot_be_read_is_absent() {
        let root = node(
            "none",
            &[
                ("proc/7/cgroup", "0::/free\n"),
                ("proc/8/cgroup", "0::/../../outside\n"),
                ("proc/loadavg", "0.00 0.01 0.05 1/345 6789\n"),
                ("cgroup/cgroup.controllers", ""),
                ("cgroup/free/pids.max", "max\n"),
                ("cgroup/free/pids.current", "12\n"),
                ("cgroup/free/memory.max", "max\n"),
                ("outside/pids.max", "7\n"),
                ("outside/pids.current", "7\n"),
            ],
        );
        let (proc, cgroup) = (root.join("proc"), root.join("cgroup"));
        for pid in [7, 8, 9] {
            assert_eq!(cgroup_tasks(&proc, &cgroup, pid), None, "{pid}");
            assert_eq!(cgroup_memory(&proc, &cgroup, pid), None, "{pid}");
            assert_eq!(descriptor_use(&proc, pid), None, "{pid}");
        }
        assert_eq!(node_tasks(&proc), None);
        fs::create_dir_all(proc.join("sys/kernel")).unwrap();
        fs::write(proc.join("sys/kernel/pid_max"), "32768\n").unwrap();
        assert_eq!(node_tasks(&proc), Some(LimitUse { used: 345, max: 32768 }));
        fs::remove_dir_all(root).unwrap();
    }
}
