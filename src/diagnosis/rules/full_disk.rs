//! D34: the disk under the runtime or the kubelet is full or read-only.

use std::path::PathBuf;

use super::failing_pods::{self, MAX_NAMED};
use super::prelude::*;
use crate::diagnosis::evidence::WrittenDisk;
use crate::diagnosis::facts::{FilePath, FileSystem};
use crate::host::disks::Disk;

/// Applies D34. That the disk is full is certain, but that this explains a hang is at most likely. That pods fail because of it is
/// certain if the runtime's words about them name a directory on this disk.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let host = case.evidence.node()?;
    let (disks, signs): (Vec<&WrittenDisk>, Vec<FactKind>) =
        host.disks.iter().filter_map(|disk| Some((disk, sign(disk)?))).unzip();
    let mut found = case.cause(
        RuleId::FullDisk,
        case.severity_of_cause(),
        Confidence::Likely,
        FactKind::CannotWriteFiles,
    );
    found.add_facts(signs);
    let named = disks.iter().find_map(|disk| without_space_on(disk, case));
    let disk = named.as_ref().map_or(*disks.first()?, |(disk, _)| disk);
    if let Some((_, pods)) = named {
        add_pods(&mut found, disk, &pods, case.evidence.taken_at);
    }
    let directories = Place::words(disk.directories.iter().map(|directory| directory.path.display()));
    found.steps = steps_of("fullDisk", &[("directories", directories)]);
    Some(found)
}

/// Returns the disk with the pods that fail because the runtime finds no space on it; `None` if there are none, or if a call
/// hangs, which is worse.
fn without_space_on<'a>(
    written: &'a WrittenDisk,
    case: &Case<'a>,
) -> Option<(&'a WrittenDisk, Vec<&'a FailingPod>)> {
    if written.disk.read_only || case.stuck() {
        return None;
    }
    let is_here =
        |path: &PathBuf| written.directories.iter().any(|directory| path.starts_with(&directory.path));
    let mut pods = failing_pods::persisting(case.evidence);
    pods.retain(|pod| pod.cause == FailureCause::NoSpace && pod.path.as_ref().is_some_and(is_here));
    pods.sort_by_key(|pod| (pod.step.is_of_end(), pod.first, &pod.pod.uid));
    let is_of_end = pods.first()?.step.is_of_end();
    pods.retain(|pod| pod.step.is_of_end() == is_of_end);
    Some((written, pods))
}

/// Makes the pods that fail because of the full disk the headline.
fn add_pods(found: &mut HealthFinding, disk: &WrittenDisk, pods: &[&FailingPod], now: Wall) {
    let uids: BTreeSet<&str> = pods.iter().map(|failing| failing.pod.uid.as_str()).collect();
    if let (Some(first), Some(directory)) = (pods.first(), disk.directories.first()) {
        let (directory, pod) = (FilePath::from(&directory.path.display()), first.pod.clone());
        found.set_title(FactKind::PodsFindNoSpace {
            directory,
            step: first.step,
            pod,
            others: uids.len() - 1,
        });
        found.add_fact(failing_pods::words(first));
    }
    found.confidence = Confidence::Certain;
    found.add_facts(pods.iter().take(MAX_NAMED).map(|failing| failing_pods::since(failing, now)));
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
