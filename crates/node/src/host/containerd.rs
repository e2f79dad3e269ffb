//! Reads containerd's configuration files: finds faults because of which containerd does not serve the CRI, and the
//! cgroup driver.
//!
//! containerd parses the files with other libraries than plegctl (go-toml 1 up to 1.7, go-toml 2 since 2.0), and a running
//! daemon may have read an older file. So the results are likely, but never certain.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::HostRoot;
use super::proc::ProcSample;
use plegctl_base::report::Rename;
use plegctl_base::report::load::load;

/// The configuration file of a containerd whose command line names no other.
pub const CONTAINERD_CONFIG: &str = "/etc/containerd/config.toml";

/// The sockets of a containerd that is started without a configuration file.
pub const CONTAINERD_SOCKETS: [&str; 2] =
    ["/run/containerd/containerd.sock", "/var/run/containerd/containerd.sock"];

/// The largest file that is read, in bytes.
const LARGEST_FILE: usize = 1 << 20;

/// The maximum number of imported files that are read.
const MAX_IMPORTS: usize = 64;

/// The names of the CRI plugin and its parts in the versions 1, 2 and 3 of the configuration.
const CRI_PLUGINS: [&str; 4] =
    ["cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"];

/// The plugin tables that contain the settings of runtimes, in the versions 1, 2 and 3 of the configuration.
const RUNTIME_TABLES: [&str; 3] = ["cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"];

/// The plugin tables that contain the settings of registries, in the same versions.
const IMAGE_TABLES: [&str; 3] = ["cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images"];

/// The OCI runtime that containerd uses without a configuration.
const DEFAULT_RUNTIME: &str = "runc";

/// A place in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(NodePath(file))]
#[serde(rename_all = "camelCase")]
pub struct ContainerdPlace {
    /// The path of the file on the node.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl std::fmt::Display for ContainerdPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A fault in the configuration because of which containerd does not serve the CRI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(Text(why, plugin))]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ContainerdFault {
    /// containerd cannot read the file, so it does not start.
    Unreadable {
        /// The place.
        at: ContainerdPlace,
        /// What is wrong.
        why: String,
    },
    /// `disabled_plugins` contains a part of the CRI plugin: containerd runs without the CRI.
    Disabled {
        /// The place.
        at: ContainerdPlace,
        /// The name in the list.
        plugin: String,
    },
    /// The CRI plugin refuses its settings: containerd runs without the CRI.
    Refused {
        /// The place.
        at: ContainerdPlace,
        /// What the settings contradict.
        why: String,
    },
}

impl ContainerdFault {
    /// Returns the place of the fault.
    pub const fn place(&self) -> &ContainerdPlace {
        match self {
            Self::Unreadable { at, .. } | Self::Disabled { at, .. } | Self::Refused { at, .. } => at,
        }
    }

    /// Describes the fault, without its place.
    pub fn text(&self) -> String {
        match self {
            Self::Unreadable { why, .. } => format!("containerd cannot read its configuration: {why}"),
            Self::Disabled { plugin, .. } => {
                format!(
                    "containerd's configuration switches its CRI plugin off: disabled_plugins has {plugin:?}"
                )
            }
            Self::Refused { why, .. } => {
                format!("containerd's CRI plugin refuses its configuration: {why}")
            }
        }
    }

    /// Whether containerd does not start at all with this fault.
    pub const fn stops_the_daemon(&self) -> bool {
        matches!(self, Self::Unreadable { .. })
    }
}

/// The part of containerd's configuration that decides whether a kubelet can use containerd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(NodePath(path, root, cni_directory))]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerdConfig {
    /// The path of the main file on the node.
    pub path: String,
    /// When the newest of the files was written.
    pub written: Option<SystemTime>,
    /// The first fault.
    pub fault: Option<ContainerdFault>,
    /// `SystemdCgroup` of the default runtime; `None` if some file could not be read.
    pub systemd_cgroup: Option<bool>,
    /// The directory of containerd's data, if a file sets it.
    pub root: Option<String>,
    /// The directory with the configuration of the network plugins, if a file sets it.
    pub cni_directory: Option<String>,
}

/// Returns the configuration file of the containerd that listens on `socket`: the file on the command line of its
/// process, or the default file for a default socket. `None` if another runtime listens there, or if the file is not
/// known.
pub fn containerd_config_path(sample: Option<&ProcSample>, socket: &str) -> Option<PathBuf> {
    let usual = || CONTAINERD_SOCKETS.contains(&socket).then(|| PathBuf::from(CONTAINERD_CONFIG));
    // A containerd that listens on another socket, as that of k3s does, has another file.
    let Some(sample) = sample else { return usual() };
    let owner = sample.socket_owner.and_then(|pid| sample.processes.get(&pid));
    let Some(daemon) = owner else { return usual() };
    if daemon.comm != "containerd" {
        return None;
    }
    // Without its command line, the file that the daemon read is not known.
    if daemon.command.is_empty() {
        return None;
    }
    let named = daemon.flag("config").or_else(|| daemon.flag("c"));
    match named.map(PathBuf::from) {
        None => Some(PathBuf::from(CONTAINERD_CONFIG)),
        // A relative path is resolved from the daemon's working directory, which is not known.
        Some(path) => path.is_absolute().then_some(path),
    }
}

impl ContainerdConfig {
    /// Reads the file and the files that it imports; `None` if the file does not exist or cannot be read.
    /// Reading may wait for a disk, so call this in a thread that can be abandoned.
    pub fn read(path: &Path, host: &HostRoot) -> Option<Self> {
        let main = SourceFile::read(path, host).ok()?;
        let mut config = Self { path: main.path.clone(), written: main.written, ..Self::default() };
        if let Err(fault) = config.add_files(&main, path, host) {
            config.fault = Some(fault);
        }
        Some(config)
    }

    /// Adds the settings of `main` and of the files that it imports. The error is the fault of the first file that is not
    /// TOML.
    fn add_files(&mut self, main: &SourceFile, path: &Path, host: &HostRoot) -> Result<(), ContainerdFault> {
        let document = main.parse()?;
        let (imports, all_known) = imported(&document, path, host);
        let read = imports.iter().filter_map(|path| SourceFile::read(path, host).ok());
        let files: Vec<SourceFile> = read.collect();
        let is_complete = all_known && files.len() == imports.len();
        self.written = files.iter().map(|file| file.written).fold(self.written, Option::max);
        let mut documents = vec![(main, document)];
        for file in &files {
            documents.push((file, file.parse()?));
        }
        let settings = LayeredConfig { documents: &documents, is_complete };
        self.fault = settings
            .disabled()
            .or_else(|| settings.unknown_default_runtime())
            .or_else(|| settings.mirrors_with_config_path());
        self.systemd_cgroup = settings.systemd_cgroup();
        self.root = settings.root();
        self.cni_directory = settings.cni_directory();
        Ok(())
    }
}

/// Returns the address of the debug socket that a configuration file of containerd names.
pub fn debug_address(path: &Path, host: &HostRoot) -> Option<String> {
    let file = SourceFile::read(path, host).ok()?;
    let document = file.parse().ok()?;
    let address = value(&document, &["debug", "address"])?.get_ref().as_str()?.trim_start_matches("unix://");
    (!address.is_empty()).then(|| address.to_owned())
}

/// One configuration file.
struct SourceFile {
    path: String,
    text: String,
    written: Option<SystemTime>,
}

impl SourceFile {
    fn read(path: &Path, host: &HostRoot) -> io::Result<Self> {
        let below = host.path(path);
        let text = load(&below, LARGEST_FILE)?;
        Ok(Self {
            path: path.display().to_string(),
            text: String::from_utf8_lossy(&text).into_owned(),
            written: fs::metadata(&below).and_then(|about| about.modified()).ok(),
        })
    }

    fn parse(&self) -> Result<DeTable<'_>, ContainerdFault> {
        let parsed = DeTable::parse(&self.text);
        parsed.map(Spanned::into_inner).map_err(|why| ContainerdFault::Unreadable {
            at: self.place(why.span().unwrap_or_default()),
            why: format!("it is not TOML: {}", why.message().replace('\n', " ")),
        })
    }

    /// Converts a range of bytes to the line and column of its start.
    fn place(&self, span: Range<usize>) -> ContainerdPlace {
        let before = self.text.get(..span.start).unwrap_or(&self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        ContainerdPlace { file: self.path.clone(), line: number(line), column: number(column) }
    }
}

/// Returns the files that `imports` names, and whether all of them are known. A pattern with anything but one `*` in its
/// file name is not expanded.
fn imported(document: &DeTable<'_>, main: &Path, host: &HostRoot) -> (Vec<PathBuf>, bool) {
    let Some(list) = value(document, &["imports"]).and_then(|list| list.get_ref().as_array()) else {
        return (Vec::new(), true);
    };
    let directory = main.parent().unwrap_or(Path::new("/"));
    let (mut paths, mut all_known) = (Vec::new(), true);
    for pattern in list.iter().filter_map(|item| item.get_ref().as_str()) {
        let pattern = directory.join(pattern);
        let (Some(folder), Some(name)) =
            (pattern.parent(), pattern.file_name().and_then(|name| name.to_str()))
        else {
            all_known = false;
            continue;
        };
        if folder.to_str().is_none_or(|folder| folder.contains(['*', '?', '['])) || name.contains(['?', '['])
        {
            all_known = false;
            continue;
        }
        let Some((start, end)) = name.split_once('*') else {
            paths.push(pattern.clone());
            continue;
        };
        if end.contains('*') {
            all_known = false;
            continue;
        }
        // A directory that does not exist has no files.
        let entries = fs::read_dir(host.path(folder)).into_iter().flatten().flatten();
        let names: BTreeSet<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|own| {
                own.len() >= start.len() + end.len() && own.starts_with(start) && own.ends_with(end)
            })
            .collect();
        paths.extend(names.into_iter().map(|name| folder.join(name)));
    }
    all_known &= paths.len() <= MAX_IMPORTS;
    paths.truncate(MAX_IMPORTS);
    (paths, all_known)
}

/// Returns the value at a path of keys.
fn value<'a, 'i>(table: &'a DeTable<'i>, path: &[&str]) -> Option<&'a Spanned<DeValue<'i>>> {
    let (first, rest) = path.split_first()?;
    let found = table.iter().find(|(key, _)| key.get_ref() == first).map(|(_, value)| value)?;
    if rest.is_empty() { Some(found) } else { value(found.get_ref().as_table()?, rest) }
}

/// Whether the name of a plugin has all its parts (`io.containerd.TYPE.VERSION`).
fn is_complete_name(plugin: &str) -> bool {
    plugin.starts_with("io.containerd.") && plugin.split('.').count() >= 4
}

/// All files together; a later file overrides an earlier one.
struct LayeredConfig<'a, 'i> {
    documents: &'a [(&'a SourceFile, DeTable<'i>)],
    is_complete: bool,
}

impl<'a, 'i> LayeredConfig<'a, 'i> {
    /// Returns the last value at `path` in one of the plugin tables `tables`.
    fn last(&self, tables: &[&str], path: &[&str]) -> Option<(&'a SourceFile, &'a Spanned<DeValue<'i>>)> {
        self.documents.iter().rev().find_map(|(file, document)| {
            let found = tables.iter().find_map(|table| {
                let path: Vec<&str> = ["plugins", table].iter().chain(path).copied().collect();
                value(document, &path)
            })?;
            Some((*file, found))
        })
    }

    /// Returns the directory of containerd's data, if a file sets it.
    fn root(&self) -> Option<String> {
        let mut roots = self.documents.iter().rev().filter_map(|(_, document)| {
            value(document, &["root"])?.get_ref().as_str().filter(|root| !root.is_empty())
        });
        roots.next().map(str::to_owned)
    }

    /// Returns the directory with the configuration of the network plugins, if a file sets it.
    fn cni_directory(&self) -> Option<String> {
        let (_, directory) = self.last(&RUNTIME_TABLES, &["cni", "conf_dir"])?;
        directory.get_ref().as_str().filter(|path| !path.is_empty()).map(str::to_owned)
    }

    /// Finds the CRI plugin in the list of disabled plugins, or a name in the list with which containerd does not start:
    /// from version 2 of the format on, names must be complete (`io.containerd.grpc.v1.cri`).
    fn disabled(&self) -> Option<ContainerdFault> {
        self.documents.iter().find_map(|(file, document)| {
            let version = value(document, &["version"]).and_then(|version| version.get_ref().as_integer());
            let is_first_version = version.is_none_or(|version| version.as_str() == "1");
            let list = value(document, &["disabled_plugins"])?.get_ref().as_array()?;
            list.iter().find_map(|item| {
                let plugin = item.get_ref().as_str()?;
                let at = file.place(item.span());
                if !is_first_version && !is_complete_name(plugin) {
                    let why = format!(
                        "disabled_plugins has {plugin:?}, and in this version of the file names must be complete, such as \
                         io.containerd.grpc.v1.cri"
                    );
                    return Some(ContainerdFault::Unreadable { at, why });
                }
                CRI_PLUGINS
                    .contains(&plugin)
                    .then(|| ContainerdFault::Disabled { at, plugin: plugin.to_owned() })
            })
        })
    }

    /// Returns the name of the default OCI runtime, if a file sets it.
    fn default_runtime(&self) -> Option<(&'a SourceFile, &'a Spanned<DeValue<'i>>)> {
        self.last(&RUNTIME_TABLES, &["containerd", "default_runtime_name"])
    }

    /// Finds a default OCI runtime that no file defines.
    fn unknown_default_runtime(&self) -> Option<ContainerdFault> {
        let (file, named) = self.default_runtime()?;
        let name = named.get_ref().as_str().filter(|name| !name.is_empty() && *name != DEFAULT_RUNTIME)?;
        let is_defined = self.last(&RUNTIME_TABLES, &["containerd", "runtimes", name]).is_some();
        (self.is_complete && !is_defined).then(|| ContainerdFault::Refused {
            at: file.place(named.span()),
            why: format!("default_runtime_name is {name:?}, and no such runtime is defined"),
        })
    }

    /// Finds settings of registry mirrors in addition to a directory of such settings, which the CRI plugin refuses.
    fn mirrors_with_config_path(&self) -> Option<ContainerdFault> {
        let (_, path) = self.last(&IMAGE_TABLES, &["registry", "config_path"])?;
        path.get_ref().as_str().filter(|path| !path.is_empty())?;
        let (file, mirrors) = self.last(&IMAGE_TABLES, &["registry", "mirrors"])?;
        let first = mirrors.get_ref().as_table()?.iter().next()?.1;
        Some(ContainerdFault::Refused {
            at: file.place(first.span()),
            why: "registry.mirrors and registry.config_path exclude each other".to_owned(),
        })
    }

    /// Returns `SystemdCgroup` of the default OCI runtime; `None` if some file could not be read.
    fn systemd_cgroup(&self) -> Option<bool> {
        if !self.is_complete {
            return None;
        }
        let name = self.default_runtime().and_then(|(_, name)| name.get_ref().as_str());
        let name = name.filter(|name| !name.is_empty()).unwrap_or(DEFAULT_RUNTIME);
        let path = ["containerd", "runtimes", name, "options", "SystemdCgroup"];
        match self.last(&RUNTIME_TABLES, &path) {
            None => Some(false),
            Some((_, value)) => value.get_ref().as_bool(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::proc::{Process, Role};

    /// A temporary host root with containerd's configuration, deleted when the test ends.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder =
                std::env::temp_dir().join(format!("plegctl-containerd-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(folder.join("etc/containerd/conf.d")).unwrap();
            Self(folder)
        }

        fn with(self, name: &str, text: &str) -> Self {
            fs::write(self.0.join("etc/containerd").join(name), text).unwrap();
            self
        }

        fn read(&self) -> ContainerdConfig {
            let host = HostRoot::resolve(Some(&self.0));
            ContainerdConfig::read(Path::new(CONTAINERD_CONFIG), &host).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn fault(name: &str, text: &str) -> Option<(u32, u32, String)> {
        let config = Folder::new(name).with("config.toml", text).read();
        config.fault.map(|fault| (fault.place().line, fault.place().column, fault.text()))
    }

    #[test]
    fn the_debug_socket_is_the_address_in_the_section_debug() {
        let address = |text: &str| {
            let folder = Folder::new("debug").with("config.toml", text);
            debug_address(Path::new(CONTAINERD_CONFIG), &HostRoot::resolve(Some(&folder.0)))
        };
        let debug = "[debug]\n  # a comment\n  address = \"unix:///run/d/debug.sock\" # here\n";
        let config =
            format!("version = 3\n[grpc]\n  address = \"/run/c.sock\"\n{debug}[metrics]\n  address = \"\"\n");
        assert_eq!(address(&config).as_deref(), Some("/run/d/debug.sock"));
        assert_eq!(address("[debug]\naddress = \"\"\n"), None);
        assert_eq!(address("[grpc]\naddress = \"/run/c.sock\"\n"), None);
    }

    #[test]
    fn the_list_of_disabled_plugins_is_read_in_every_form() {
        let place = |text: &str| fault("disabled", text).map(|(line, column, _)| (line, column));
        assert_eq!(place("version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n"), Some((2, 21)));
        assert_eq!(place("disabled_plugins = [\n  # no Kubernetes\n  'cri',\n]\n[grpc]\n"), Some((3, 3)));
        assert_eq!(place("disabled_plugins = ['io.containerd.cri.v1.runtime']\n"), Some((1, 21)));
        assert_eq!(place("#disabled_plugins = [\"cri\"]\ndisabled_plugins = []\n"), None);
        assert_eq!(place("disabled_plugins = ['io.containerd.internal.v1.opt']\n"), None);
        // The key counts above the first table only.
        assert_eq!(place("[plugins]\ndisabled_plugins = [\"cri\"]\n"), None);
    }

    #[test]
    fn a_short_name_of_a_plugin_disables_it_in_the_first_version_and_stops_later_ones() {
        let text = |version: &str| format!("{version}disabled_plugins = ['cri']\n");
        let found = |version: &str| {
            let folder = Folder::new("short").with("config.toml", &text(version));
            folder.read().fault.unwrap().stops_the_daemon()
        };
        assert!(!found("") && !found("version = 1\n"));
        assert!(found("version = 2\n") && found("version = 3\n"));
        let (_, _, why) = fault("short", "version = 2\ndisabled_plugins = ['restart']\n").unwrap();
        assert!(why.contains("disabled_plugins has \"restart\""), "{why}");
    }

    #[test]
    fn broken_toml_is_found_with_its_place() {
        let (line, _, text) = fault("broken", "version = 2\n[plugins\nx = 1\n").unwrap();
        assert_eq!(line, 2, "{text}");
        assert!(text.starts_with("containerd cannot read its configuration: it is not TOML: "), "{text}");
        assert!(fault("twice", "version = 2\nversion = 3\n").is_some());
        assert_eq!(fault("empty", ""), None);
    }

    #[test]
    fn a_default_runtime_that_nobody_defines_is_refused() {
        for table in ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"] {
            let text = format!("[plugins.\"{table}\".containerd]\ndefault_runtime_name = \"nvidia\"\n");
            let (line, column, why) = fault("runtime", &text).unwrap();
            assert_eq!((line, column), (2, 24));
            assert!(why.contains("\"nvidia\", and no such runtime is defined"), "{why}");
            let defined =
                format!("{text}[plugins.\"{table}\".containerd.runtimes.nvidia]\nruntime_type = 'x'\n");
            assert_eq!(fault("runtime", &defined), None);
            assert_eq!(fault("runtime", &text.replace("nvidia", "runc")), None);
        }
    }

    #[test]
    fn mirrors_and_a_directory_of_registries_exclude_each_other() {
        let path = "[plugins.'io.containerd.grpc.v1.cri'.registry]\nconfig_path = '/etc/certs.d'\n";
        assert_eq!(fault("mirrors", path), None);
        let mirrors =
            "[plugins.'io.containerd.grpc.v1.cri'.registry.mirrors.'docker.io']\nendpoint = ['https://m']\n";
        assert_eq!(fault("mirrors", mirrors), None);
        assert!(fault("mirrors", &format!("{path}{mirrors}")).is_some());
        let none = format!("{path}[plugins.'io.containerd.grpc.v1.cri'.registry.mirrors]\n");
        assert_eq!(fault("mirrors", &none), None);
    }

    #[test]
    fn imported_files_count_over_the_main_file() {
        let main = "version = 2\nimports = ['conf.d/*.toml']\n\
            [plugins.'io.containerd.grpc.v1.cri'.containerd]\ndefault_runtime_name = 'nvidia'\n";
        let nvidia = "[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.nvidia.options]\nSystemdCgroup = true\n";
        let folder = Folder::new("imports").with("config.toml", main);
        assert!(folder.read().fault.is_some());
        let folder = folder.with("conf.d/99-nvidia.toml", nvidia);
        let config = folder.read();
        assert_eq!((config.fault, config.systemd_cgroup), (None, Some(true)));
        let folder = folder.with("conf.d/10-off.toml", "disabled_plugins = ['cri']\n");
        let fault = folder.read().fault.unwrap();
        assert_eq!(fault.place().file, "/etc/containerd/conf.d/10-off.toml");
        // A pattern that plegctl does not expand hides settings, so nothing is concluded from what is absent.
        let folder = Folder::new("imports-deep").with("config.toml", &main.replace("conf.d/*", "*/x"));
        assert_eq!((folder.read().fault, folder.read().systemd_cgroup), (None, None));
    }

    #[test]
    fn the_data_directory_is_the_one_that_the_last_file_sets() {
        let folder = Folder::new("root").with("config.toml", "imports = ['conf.d/*.toml']\nroot = '/data'\n");
        assert_eq!(folder.read().root.as_deref(), Some("/data"));
        let folder = folder.with("conf.d/10-root.toml", "root = '/other'\n");
        let folder = folder.with("conf.d/20-root.toml", "root = ''\n");
        assert_eq!(folder.read().root.as_deref(), Some("/other"));
        assert_eq!(Folder::new("no-root").with("config.toml", "").read().root, None);
    }

    #[test]
    fn the_cgroup_driver_is_that_of_the_default_runtime() {
        let driver = |text: &str| Folder::new("driver").with("config.toml", text).read().systemd_cgroup;
        let runc =
            "[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc.options]\nSystemdCgroup = true\n";
        assert_eq!(driver(""), Some(false));
        assert_eq!(driver(runc), Some(true));
        let other = "[plugins.'io.containerd.grpc.v1.cri'.containerd]\ndefault_runtime_name = 'kata'\n\
            [plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.kata]\nruntime_type = 'x'\n";
        assert_eq!(driver(&format!("{runc}{other}")), Some(false));
        let new = runc.replace("grpc.v1.cri", "cri.v1.runtime");
        assert_eq!(driver(&new), Some(true));
        assert_eq!(driver("version = ["), None);
    }

    #[test]
    fn the_file_is_that_of_the_process_that_listens() {
        let process = |pid: u32, comm: &str, command: &[&str]| Process {
            pid,
            comm: comm.to_owned(),
            role: Role::of(comm),
            command: command.iter().copied().collect(),
            ..Process::default()
        };
        let sample = |owner, processes: Vec<Process>| ProcSample {
            socket_owner: owner,
            processes: processes.into_iter().map(|process| (process.pid, process)).collect(),
            ..ProcSample::default()
        };
        let usual = CONTAINERD_SOCKETS[0];
        let path = |sample: &ProcSample, socket: &str| {
            containerd_config_path(Some(sample), socket).map(|path| path.display().to_string())
        };
        let own = sample(Some(7), vec![process(7, "containerd", &["containerd", "-c", "/etc/k3s.toml"])]);
        assert_eq!(path(&own, "/run/k3s/containerd/containerd.sock").as_deref(), Some("/etc/k3s.toml"));
        let plain = sample(Some(7), vec![process(7, "containerd", &["/usr/bin/containerd"])]);
        assert_eq!(path(&plain, usual).as_deref(), Some(CONTAINERD_CONFIG));
        let relative = sample(Some(7), vec![process(7, "containerd", &["containerd", "--config=c.toml"])]);
        assert_eq!(path(&relative, usual), None);
        assert_eq!(path(&sample(Some(7), vec![process(7, "crio", &["crio"])]), "/run/crio/crio.sock"), None);
        // Nobody listens: only a usual socket belongs to the usual file.
        let none = sample(None, Vec::new());
        assert_eq!(path(&none, usual).as_deref(), Some(CONTAINERD_CONFIG));
        assert_eq!(path(&none, "/run/other.sock"), None);
        let elsewhere = sample(None, vec![process(7, "containerd", &["containerd", "-c", "/etc/k3s.toml"])]);
        assert_eq!(path(&elsewhere, usual).as_deref(), Some(CONTAINERD_CONFIG));
        assert_eq!(containerd_config_path(None, "/run/other.sock"), None);
    }
}
