//! Finds the command line of a kubelet that does not run in the systemd units of its node, whatever the unit's name.
//!
//! A unit is read as systemd reads it, with its drop-in files, its variables and its environment files. A command line
//! that a shell computes is not known here.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::KubeletSettings;
use crate::host::{Arguments, HostRoot, shell_words};
use plegctl_base::report::load::load;

/// The largest unit or environment file that is read.
const LARGEST_FILE: usize = 64 << 10;

/// The maximum number of units that are read.
const MOST_UNITS: usize = 2000;

/// The directories of units. A unit in an earlier directory replaces a unit of the same name in a later one.
const DIRECTORIES: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// The unit that counts if several units start a kubelet.
const USUAL_UNIT: &str = "kubelet.service";

/// Reads the settings that a systemd unit gives to the kubelet. Returns also the unit's name. `None` if no unit starts a
/// kubelet, or if it is not clear which of several does.
pub fn unit_settings(host: &HostRoot) -> Option<(KubeletSettings, String)> {
    let entries = UnitEntries::list(host);
    let read = |name: &String| KubeletUnit::read(name, &entries, host).map(|unit| (name.clone(), unit));
    let mut found: BTreeMap<String, KubeletUnit> = entries.services().filter_map(read).collect();
    let usual = found.remove_entry(USUAL_UNIT);
    // A unit may have several names.
    let any =
        found.pop_first().filter(|(_, unit)| found.values().all(|other| other.arguments == unit.arguments));
    let (name, unit) = usual.or(any)?;
    Some((KubeletSettings::read(unit.arguments, Some(&unit.directory), host), name))
}

/// The names in the directories of units, with the directories that have them. A node has more than a hundred units and few
/// drop-in files, so only what exists is opened.
struct UnitEntries(BTreeMap<String, Vec<PathBuf>>);

impl UnitEntries {
    fn list(host: &HostRoot) -> Self {
        let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for directory in DIRECTORIES.map(|directory| host.path(directory)) {
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                if let Ok(name) = entry.file_name().into_string() {
                    found.entry(name).or_default().push(directory.clone());
                }
            }
        }
        Self(found)
    }

    /// Returns the names of the services of this node.
    fn services(&self) -> impl Iterator<Item = &String> {
        self.0.keys().filter(|name| name.ends_with(".service")).take(MOST_UNITS)
    }

    /// Returns the paths of an entry, the one that counts first.
    fn paths(&self, name: &str) -> impl Iterator<Item = PathBuf> {
        self.0.get(name).into_iter().flatten().map(move |directory| directory.join(name))
    }
}

fn text(path: &Path) -> Option<String> {
    load(path, LARGEST_FILE).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// A unit that starts a kubelet.
struct KubeletUnit {
    arguments: Arguments,
    directory: PathBuf,
}

impl KubeletUnit {
    /// Reads a unit and its drop-in files; `None` if it starts no kubelet.
    fn read(name: &str, entries: &UnitEntries, host: &HostRoot) -> Option<Self> {
        let mut service = Service::default();
        service.add(&entries.paths(name).find_map(|path| text(&path)).unwrap_or_default());
        let mut drop_ins: BTreeMap<OsString, Vec<PathBuf>> = BTreeMap::new();
        for folder in entries.paths(&format!("{name}.d")) {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                drop_ins.entry(entry.file_name()).or_default().push(entry.path());
            }
        }
        drop_ins.retain(|name, _| Path::new(name).extension().is_some_and(|extension| extension == "conf"));
        for paths in drop_ins.values() {
            service.add(&paths.iter().find_map(|path| text(path)).unwrap_or_default());
        }
        let command = service.command.as_deref().filter(|command| command.contains("kubelet"))?;
        let words = expanded(command, &service.variables(host));
        // A wrapper may start the kubelet.
        let start = words
            .iter()
            .position(|word| Path::new(word).file_name().is_some_and(|name| name == "kubelet"))?;
        let arguments = words.get(start..)?.iter().cloned().collect();
        let directory = service.directory.unwrap_or_else(|| "/".to_owned());
        Some(Self { arguments, directory: PathBuf::from(directory) })
    }
}

/// The settings of a unit that decide about a command line.
#[derive(Default)]
struct Service {
    command: Option<String>,
    directory: Option<String>,
    environment: Vec<String>,
    environment_files: Vec<String>,
}

impl Service {
    /// Adds the settings of a file. An empty value removes the values so far.
    fn add(&mut self, text: &str) {
        let joined = text.replace("\\\n", " ");
        for line in joined.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
            let Some((key, value)) = line.split_once('=') else { continue };
            let value = value.trim().to_owned();
            let list = match key.trim() {
                "ExecStart" => {
                    self.command = Some(value).filter(|value| !value.is_empty());
                    continue;
                }
                "WorkingDirectory" => {
                    self.directory = Some(value).filter(|value| value.starts_with('/'));
                    continue;
                }
                "Environment" => &mut self.environment,
                "EnvironmentFile" => &mut self.environment_files,
                _ => continue,
            };
            if value.is_empty() {
                list.clear();
            } else {
                list.push(value);
            }
        }
    }

    /// Returns the variables. A file overrides the unit, and a later file overrides an earlier one.
    fn variables(&self, host: &HostRoot) -> BTreeMap<String, String> {
        let of_unit = self.environment.iter().flat_map(|line| shell_words(line));
        let paths = self.environment_files.iter().map(|path| path.trim_start_matches('-'));
        let texts = paths.filter_map(|path| text(&host.path(path)));
        let of_files = texts.flat_map(|text| {
            let joined = text.replace("\\\n", "");
            let lines = joined.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
            lines.map(|line| shell_words(line).join(" ")).collect::<Vec<_>>()
        });
        let pairs = of_unit.chain(of_files).filter_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            Some((name.trim().to_owned(), value.to_owned()))
        });
        pairs.collect()
    }
}

/// Splits a command line into words and replaces variables: `${NAME}` anywhere in a word, and `$NAME` if it is a word,
/// whose value may be several words.
fn expanded(command: &str, variables: &BTreeMap<String, String>) -> Vec<String> {
    let value = |name: &str| variables.get(name).map_or("", String::as_str);
    let words = shell_words(command).into_iter().flat_map(|word| {
        let is_name = |name: &&str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        match word.strip_prefix('$').filter(is_name) {
            Some(name) => shell_words(value(name)),
            None => vec![with_values(&word, value)],
        }
    });
    words.collect()
}

/// Replaces each `${NAME}` in a word, and each `%%` by a percent sign.
fn with_values<'a>(word: &str, value: impl Fn(&str) -> &'a str) -> String {
    let mut parts = word.split("${");
    let first = parts.next().unwrap_or_default().to_owned();
    let whole = parts.fold(first, |text, part| match part.split_once('}') {
        Some((name, rest)) => text + value(name) + rest,
        None => text + "${" + part,
    });
    whole.replace("%%", "%")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A temporary root with these files; it is deleted when the test ends.
    struct Node(PathBuf);

    impl Node {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let node = Self(std::env::temp_dir().join(format!("plegctl-unit-{name}-{}", std::process::id())));
            let _ = fs::remove_dir_all(&node.0);
            for (path, text) in files {
                let path = node.0.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            node
        }

        /// Returns the unit's name and the kubelet's arguments.
        fn found(&self) -> Option<(String, Vec<String>)> {
            let (settings, name) = unit_settings(&HostRoot::resolve(Some(&self.0)))?;
            Some((name, settings.own_arguments().to_vec()))
        }
    }

    impl Drop for Node {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_unit_of_any_name_is_found_with_its_drop_ins_variables_and_environment_files() {
        let node = Node::new(
            "any",
            &[
                ("usr/lib/systemd/system/ssh.service", "[Service]\nExecStart=/usr/sbin/sshd -D\n"),
                (
                    "usr/lib/systemd/system/node-agent.service",
                    "[Service]\n# ExecStart=/bin/false\nEnvironment=\"A=--v=1\" B=b\nEnvironmentFile=-/etc/default/agent\n\
                     EnvironmentFile=-/etc/none\nExecStart=/opt/bin/kubelet \\\n  --config=/etc/k.yaml $A ${B}x --c=${B} $NONE\n",
                ),
                ("etc/default/agent", "# a comment\nA=\"--v=2 --node-labels='x=y'\"\n"),
            ],
        );
        let arguments =
            ["--config=/etc/k.yaml", "--v=2", "--node-labels=x=y", "bx", "--c=b"].map(str::to_owned);
        assert_eq!(node.found(), Some(("node-agent.service".to_owned(), arguments.into())));
    }

    #[test]
    fn a_drop_in_replaces_the_command_and_a_unit_in_etc_replaces_the_packages() {
        let unit =
            |arguments: &str| format!("[Service]\nExecStart=/usr/bin/wrap /usr/bin/kubelet {arguments}\n");
        let (old, new) = (unit("--v=1"), unit("--v=2"));
        let mut files = vec![
            ("usr/lib/systemd/system/kubelet.service", old.as_str()),
            ("etc/systemd/system/kubelet.service", new.as_str()),
        ];
        let node = Node::new("replaced", &files);
        assert_eq!(node.found().unwrap().1, ["--v=2"]);
        files.push((
            "run/systemd/system/kubelet.service.d/10-a.conf",
            "[Service]\nExecStart=\nExecStart=-/usr/bin/kubelet --v=3\n",
        ));
        assert_eq!(Node::new("drop-in", &files).found().unwrap().1, ["--v=3"]);
    }

    #[test]
    fn of_several_units_the_usual_one_counts_and_a_shells_command_line_is_not_known() {
        let unit = "[Service]\nExecStart=/usr/bin/kubelet --v=1\n";
        let other = unit.replace("--v=1", "--v=2");
        let two = [("etc/systemd/system/a.service", unit), ("etc/systemd/system/b.service", other.as_str())];
        assert_eq!(Node::new("two", &two).found(), None);
        let alias = [two[0], ("etc/systemd/system/b.service", unit)];
        assert_eq!(Node::new("alias", &alias).found().unwrap().0, "a.service");
        let usual = [two[0], ("etc/systemd/system/kubelet.service", unit)];
        assert_eq!(Node::new("usual", &usual).found().unwrap().0, "kubelet.service");
        let shell = "[Service]\nExecStart=/bin/sh -c 'exec /usr/bin/kubelet $(cat /etc/flags)'\n";
        assert_eq!(Node::new("shell", &[("etc/systemd/system/kubelet.service", shell)]).found(), None);
    }
}
