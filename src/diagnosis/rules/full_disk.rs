//! D34: the disk under the runtime or the kubelet is full or read-only.

use super::prelude::*;
use crate::diagnosis::evidence::WrittenDisk;
use crate::diagnosis::facts::{FilePath, FileSystem, Quoted};
use crate::host::disks::Disk;

/// Applies D34. That the disk is full is certain, but that this explains a hang is at most likely.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let host = case.evidence.node()?;
    let signs: Vec<FactKind> = host.disks.iter().filter_map(sign).collect();
    if signs.is_empty() {
        return None;
    }
    let severity = case.severity_of_cause();
    let mut found = case.cause(RuleId::FullDisk, severity, Confidence::Likely, FactKind::CannotWriteFiles);
    found.add_facts(signs);
    found.add_step(what_is_full());
    found.add_step(Step::look(
        "if read-only: `dmesg -T` shows the error; free space or repair the disk before you restart anything",
    ));
    Some(found)
}

/// The step that shows what fills the disks.
pub(super) fn what_is_full() -> Step {
    let show = "timeout 20 df -h; timeout 20 df -i; crictl --timeout 20s images; timeout 60 du -xsh /var/log/pods /var/log/journal";
    Step::look("what is full, and with what").with(Command::new(show))
}

/// Returns whether the disk is full although some blocks are free: either they are reserved for root, or the disk is
/// small and ext4 withholds up to two percent even from root.
fn is_withheld(disk: &Disk) -> bool {
    let little = disk.free < limits::DISK_FREE_BYTES
        && !limits::reaches(disk.free, disk.size, limits::DISK_WITHHELD_PERCENT);
    disk.size > 0 && disk.available == 0 && little
}

/// Describes why nothing can be written to a file system; `None` if something can.
fn sign(written: &WrittenDisk) -> Option<FactKind> {
    let disk = &written.disk;
    let scarce = |free: u64, all: u64, least: u64| {
        all > 0 && free < least && !limits::reaches(free, all, limits::DISK_FREE_PERCENT)
    };
    let (file_system, device) = (FileSystem::from(&disk.kind), Quoted::from(&disk.device));
    let directories = written.directories.iter().map(FilePath::from).collect();
    if disk.read_only {
        Some(FactKind::DiskIsReadOnly { file_system, device, directories })
    } else if scarce(disk.free, disk.size, limits::DISK_FREE_BYTES) || is_withheld(disk) {
        let (free_bytes, bytes) = (disk.available.min(disk.free), disk.size);
        Some(FactKind::DiskIsFull { file_system, device, free_bytes, bytes, directories })
    } else if scarce(disk.free_inodes, disk.inodes, limits::DISK_FREE_INODES) {
        let (free_inodes, inodes) = (disk.free_inodes, disk.inodes);
        Some(FactKind::DiskHasNoInodes { file_system, device, free_inodes, inodes, directories })
    } else {
        None
    }
}
