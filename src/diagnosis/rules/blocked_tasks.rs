//! Tasks in uninterruptible sleep: for what they wait, and how the findings show them.

use super::prelude::*;
use crate::diagnosis::proc::Blocked;

/// Parts of the names of kernel functions that wait for a remote or FUSE file system.
const REMOTE_WAITS: [&str; 12] = [
    "nfs",
    "rpc_wait",
    "rpc_",
    "ceph",
    "cifs",
    "smb2_",
    "fuse",
    "request_wait_answer",
    "p9_client",
    "lustre",
    "ptlrpc_",
    // CIFS.
    "wait_for_response",
];

/// Parts of the names of kernel functions that wait for local storage.
pub(super) const LOCAL_WAITS: [&str; 14] = [
    "io_schedule",
    "blk_",
    "jbd2",
    "ext4",
    "xfs_",
    "btrfs",
    "wait_on_page",
    "folio_wait",
    "sync_inodes",
    "fsync",
    "writeback",
    "submit_bio",
    "umount",
    "balance_dirty",
];

/// Returns the longest part of a kernel function's name by which the rules recognise a wait for a file system.
pub fn known_wait(function: &str) -> Option<&'static str> {
    let parts = REMOTE_WAITS.iter().chain(&LOCAL_WAITS).copied();
    parts.filter(|part| function.contains(part)).max_by_key(|part| part.len())
}

pub(super) fn waits_for(task: &Blocked, parts: &[&str]) -> bool {
    let in_function = |function: &str| parts.iter().any(|part| function.contains(part));
    in_function(&task.wchan) || task.stack.iter().any(|line| in_function(line))
}

pub(super) fn is_remote(task: &Blocked) -> bool {
    waits_for(task, &REMOTE_WAITS)
}

/// Describes a blocked task.
pub(super) fn line(process: &Process, task: &Blocked) -> FactKind {
    let is_known = !task.wchan.is_empty() && task.wchan != "0";
    FactKind::TaskIsUninterruptible {
        process: process.into(),
        task: task.tid,
        function: is_known.then(|| (&task.wchan).into()),
        age: process.age.into(),
    }
}

/// Returns a line of the journal as a fact.
pub(super) fn logged(line: &String) -> FactKind {
    FactKind::Logged { line: line.into() }
}

pub(super) fn pod_of(case: &Case<'_>, process: &Process) -> Option<PodRef> {
    let by_id = process.container_id.as_deref().and_then(|id| case.evidence.names.pod(id));
    by_id.or_else(|| Some(case.evidence.names.pod_of_uid(process.pod_uid.as_deref()?)))
}
