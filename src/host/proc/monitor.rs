//! Reads the command lines of shims, of CRI-O's conmon and of OCI runtimes: which sandbox or container a shim or conmon
//! monitors, and which command an OCI runtime runs.

use super::cgroup::container_id;
use crate::host::{Arguments, CriName};

/// The sub-commands of an OCI runtime.
const SUB_COMMANDS: [&str; 11] =
    ["create", "start", "kill", "delete", "exec", "update", "state", "pause", "resume", "run", "init"];

/// Returns the sub-command of an OCI runtime: `create`.
pub fn sub_command(command: &Arguments) -> Option<&str> {
    command.iter().map(String::as_str).find(|word| SUB_COMMANDS.contains(word))
}

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
