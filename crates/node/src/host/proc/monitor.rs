//! Reads the command lines of shims, of CRI-O's conmon and of OCI runtimes: which sandbox or container a shim or conmon
//! monitors, and which command an OCI runtime runs.

use serde::{Serialize, Serializer};

use super::cgroup::container_id;
use crate::host::{Arguments, CriName};
use plegctl_base::report::rename::NameKind;

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

/// The flags of shims and conmons whose values rules read, each with what it names.
const READ_FLAGS: [(&str, NameKind); 8] = [
    ("id", NameKind::Id),
    ("c", NameKind::Id),
    ("cid", NameKind::Id),
    ("n", NameKind::Container),
    ("name", NameKind::Container),
    ("namespace", NameKind::RuntimeNamespace),
    ("address", NameKind::NodePath),
    ("exit-dir", NameKind::NodePath),
];

/// Returns what the value of a flag names, if rules read it.
pub fn kind_of_flag(name: &str) -> Option<NameKind> {
    READ_FLAGS.iter().find(|(flag, _)| *flag == name).map(|(_, kind)| *kind)
}

/// Whether rules read this word, which is no flag with a value.
pub fn is_read_word(word: &str) -> bool {
    SUB_COMMANDS.contains(&word) || READ_WORDS.contains(&word)
}

/// The other words that rules read: those that show whether a program contains a kubelet, whether a conmon runs an `exec`,
/// and what the program of a shim or an OCI runtime does.
const READ_WORDS: [&str; 6] = ["kubelet", "server", "agent", "-e", "--exec", "checkpoint"];

/// Serialises the words of a command line that rules read. All other words, some of which may be secrets, become empty, so
/// that each word keeps its place.
pub(super) fn known_words<S: Serializer>(command: &Arguments, serializer: S) -> Result<S::Ok, S::Error> {
    let mut is_value = false;
    let known = |(place, word): (usize, &String)| {
        let flag = word.strip_prefix('-').map(|word| word.strip_prefix('-').unwrap_or(word));
        let (name, value) = flag.map_or((None, None), |flag| match flag.split_once('=') {
            Some((name, value)) => (Some(name), Some(value)),
            None => (Some(flag), None),
        });
        let is_read_flag = name.and_then(kind_of_flag).is_some();
        let is_wanted = place == 0 || is_read_flag || is_value || is_read_word(word);
        is_value = is_read_flag && value.is_none();
        if is_wanted { word.as_str() } else { container_id(word).unwrap_or_default() }.to_owned()
    };
    command.iter().enumerate().map(known).collect::<Vec<_>>().serialize(serializer)
}
