//! [`Remedy`]: what ends a wait in the kernel.

use serde::{Deserialize, Serialize};

use crate::host::proc::Freeze;
use crate::report::Command;

/// What ends a wait in the kernel, with the place on the node.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Remedy {
    /// The cgroup is thawed.
    Thaw(Freeze),
    /// The FUSE connection is aborted. The kernel shows the connections in a file system of their own, which not every node has
    /// mounted.
    Abort { connection: u64, is_mounted: bool },
    /// The file system at this mount point is unfrozen.
    Unfreeze { target: String },
}

impl Remedy {
    /// Returns the command, which changes the state of the node.
    pub fn command(&self) -> Command {
        match self {
            Self::Thaw(freeze) => freeze.thaw(),
            Self::Abort { connection, is_mounted } => {
                let abort = if *is_mounted {
                    "echo 1 > /sys/fs/fuse/connections/{}/abort"
                } else {
                    "mount -t fusectl fusectl /sys/fs/fuse/connections && echo 1 > /sys/fs/fuse/connections/{}/abort"
                };
                Command::new(abort).arg(connection)
            }
            Self::Unfreeze { target } => Command::limited(10, "timeout {} fsfreeze -u {}").arg(target),
        }
    }
}
