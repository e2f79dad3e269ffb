//! D34: a file system is full or read-only.

use super::Case;
use crate::diagnosis::evidence::WrittenDisk;
use crate::diagnosis::limits;
use crate::diagnosis::report::{Confidence, HealthFinding, RuleId};
use crate::host::disks::Disk;
use crate::report::{Command, Step};

/// Applies D34. That the disk is full is certain, but that this explains a hang is at most likely.
pub(super) fn full(case: &Case<'_>) -> Option<HealthFinding> {
    let host = case.evidence.node()?;
    let signs: Vec<String> = host.disks.iter().filter_map(sign).collect();
    if signs.is_empty() {
        return None;
    }
    let title = "the runtime or the kubelet cannot write to its directories";
    let mut found = case.cause(RuleId::D34, case.severity_of_cause(), Confidence::Likely, title);
    found.evidence = signs;
    let show = "timeout 20 df -h; timeout 20 df -i; crictl --timeout 20s images; timeout 60 du -xsh /var/log/pods /var/log/journal";
    found.add_step(Step::look("what is full, and with what").with(Command::new(show)));
    found.add_step(Step::look(
        "if read-only: `dmesg -T` shows the error; free space or repair the disk before you restart anything",
    ));
    Some(found)
}

/// Returns whether the disk is full although some blocks are free: either they are reserved for root, or the disk is
/// small and ext4 withholds up to two percent even from root.
fn is_withheld(disk: &Disk) -> bool {
    let little = disk.free < limits::DISK_FREE_BYTES
        && !limits::reaches(disk.free, disk.size, limits::DISK_WITHHELD_PERCENT);
    disk.size > 0 && disk.available == 0 && little
}

/// Describes why nothing can be written to a file system; `None` if something can.
fn sign(written: &WrittenDisk) -> Option<String> {
    let disk = &written.disk;
    let scarce = |free: u64, all: u64, least: u64| {
        all > 0 && free < least && !limits::reaches(free, all, limits::DISK_FREE_PERCENT)
    };
    let what = if disk.read_only {
        "is read-only".to_owned()
    } else if scarce(disk.free, disk.size, limits::DISK_FREE_BYTES) || is_withheld(disk) {
        format!("is full: {} of {} MiB are free", disk.available.min(disk.free) >> 20, disk.size >> 20)
    } else if scarce(disk.free_inodes, disk.inodes, limits::DISK_FREE_INODES) {
        format!("cannot store more files: {} of {} inodes are free", disk.free_inodes, disk.inodes)
    } else {
        return None;
    };
    Some(format!("{} ({}) {what}: {}", disk.kind, disk.device, written.directories.join(", ")))
}
