//! Counts the inotify instances of root. The kernel limits their number for each user, and a kubelet needs some of them.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{KernelDir, kernel_text};
use plegctl_base::report::Rename;

/// How many inotify instances the processes of root use, and the limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(Process(largest))]
#[serde(rename_all = "camelCase")]
pub struct InotifyUse {
    /// The number of open instances.
    pub used: u64,
    /// The number that the kernel allows.
    pub limit: u64,
    /// The process with the most instances: its name, its id, and the number of its instances.
    pub largest: Option<(String, u32, u64)>,
}

impl InotifyUse {
    /// Whether root cannot create another instance.
    pub const fn is_exhausted(&self) -> bool {
        self.used >= self.limit
    }

    /// Counts the instances of all processes of root but `except`. `None` if some process hides its descriptors,
    /// because the sum would be too small.
    pub fn count(proc: &Path, except: Option<u32>) -> Option<Self> {
        let number = |file: &str| kernel_text(&proc.join(file)).ok()?.trim().parse::<u64>().ok();
        let of_user = number("sys/fs/inotify/max_user_instances")?;
        // A user namespace has its own limit. The lower of the two limits applies.
        let limit = number("sys/user/max_inotify_instances").map_or(of_user, |own| own.min(of_user));
        let mut counted = Self { used: 0, limit, largest: None };
        for pid in KernelDir::open(proc).ok()?.numbered() {
            let process = proc.join(pid.to_string());
            let status = kernel_text(&process.join("status")).unwrap_or_default();
            let is_of_root = status
                .lines()
                .find_map(|line| line.strip_prefix("Uid:"))
                .is_some_and(|ids| ids.split_ascii_whitespace().next() == Some("0"));
            if Some(pid) == except || !is_of_root {
                continue;
            }
            let descriptors = match fs::read_dir(process.join("fd")) {
                Ok(descriptors) => descriptors,
                Err(why) if why.kind() == io::ErrorKind::PermissionDenied => return None,
                // The process has ended.
                Err(_) => continue,
            };
            let is_instance = |descriptor: &fs::DirEntry| {
                let target = fs::read_link(descriptor.path());
                target.is_ok_and(|target| target.as_os_str() == "anon_inode:inotify")
            };
            let own = u64::try_from(descriptors.flatten().filter(is_instance).count()).unwrap_or(u64::MAX);
            counted.used += own;
            if own > counted.largest.as_ref().map_or(0, |(_, _, most)| *most) {
                let comm = kernel_text(&process.join("comm")).unwrap_or_default();
                counted.largest = Some((comm.trim_end().to_owned(), pid, own));
            }
        }
        Some(counted)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn instances_of_root_count_and_those_of_others_do_not() {
        let proc = std::env::temp_dir().join(format!("plegctl-inotify-use-{}", std::process::id()));
        let _ = fs::remove_dir_all(&proc);
        let process = |pid: u32, uid: u32, instances: u32| {
            let dir = proc.join(pid.to_string());
            fs::create_dir_all(dir.join("fd")).unwrap();
            fs::write(dir.join("status"), format!("Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")).unwrap();
            fs::write(dir.join("comm"), format!("p{pid}\n")).unwrap();
            symlink("/dev/null", dir.join("fd/0")).unwrap();
            for number in 0..instances {
                symlink("anon_inode:inotify", dir.join(format!("fd/{}", 3 + number))).unwrap();
            }
        };
        process(10, 0, 2);
        process(11, 0, 3);
        process(12, 1000, 5);
        process(13, 0, 4);
        assert_eq!(InotifyUse::count(&proc, None), None, "without the limit nothing is known");
        fs::create_dir_all(proc.join("sys/fs/inotify")).unwrap();
        fs::write(proc.join("sys/fs/inotify/max_user_instances"), "9\n").unwrap();
        let of_root = InotifyUse::count(&proc, None).unwrap();
        assert_eq!((of_root.used, of_root.limit, of_root.is_exhausted()), (9, 9, true));
        assert_eq!(of_root.largest, Some(("p13".to_owned(), 13, 4)));
        let without = InotifyUse::count(&proc, Some(13)).unwrap();
        assert_eq!((without.used, without.is_exhausted()), (5, false));
        fs::create_dir_all(proc.join("sys/user")).unwrap();
        fs::write(proc.join("sys/user/max_inotify_instances"), "5\n").unwrap();
        assert!(InotifyUse::count(&proc, Some(13)).unwrap().is_exhausted());
        fs::remove_dir_all(&proc).unwrap();
    }
}
