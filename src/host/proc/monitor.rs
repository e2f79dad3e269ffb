//! Finds the sandbox or container that a shim or CRI-O's conmon monitors, from the command line of that process.

use super::cgroup::container_id;
use crate::host::{Arguments, CriName};

/// Whether a process with this name is CRI-O's conmon, not a shim.
pub fn is_conmon(comm: &str) -> bool {
    comm.starts_with("conmon")
}

/// Returns the ids for which a shim (`-id`) or a conmon (`-c`) was started.
pub fn monitored_ids(command: &Arguments) -> impl Iterator<Item = &str> {
    ["id", "c", "cid"].into_iter().filter_map(|flag| command.flag(flag))
}

/// Returns the id of a conmon's container, and the name that CRI-O gave to the container.
pub fn conmon_container(command: &Arguments) -> Option<(&str, Option<CriName>)> {
    let id = container_id(command.flag("c").or_else(|| command.flag("cid"))?)?;
    let name = command.flag("n").or_else(|| command.flag("name")).and_then(CriName::parse);
    Some((id, name))
}
