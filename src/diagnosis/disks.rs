//! Finds the directories to which the runtime and the kubelet write, and reads how full the file systems of these
//! directories are. It does not query network mounts, because their servers may not answer.

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use super::evidence::{Evidence, WrittenDisk};
use super::proc::{NodeMount, Ownership};
use super::report::NotChecked;
use super::{HealthRun, offload};
use crate::host::disks::{Disk, DiskError, LocatedDirectory, disk, resolve};
use crate::host::proc::{ProcessStat, Role, command_line};
use crate::host::{self, Arguments, kernel_text};
use crate::report::{Rename, word_enum};

/// The time limit for all disks together.
const TIME_LIMIT: Duration = Duration::from_millis(500);

/// The number of bytes that are read of one settings file of a runtime.
const MAX_SETTINGS_BYTES: u64 = 64 * 1024;

/// The number of CRI-O drop-in files that are read.
const MAX_DROP_INS: usize = 64;

/// The settings files of containers/storage; the first one that exists counts.
const STORAGE_CONF: [&str; 2] = ["/etc/containers/storage.conf", "/usr/share/containers/storage.conf"];

word_enum! {
    /// Who writes to a directory, and what.
    pub json enum DirectoryUse: as_str {
        /// The images and the containers of the runtime.
        RuntimeRoot = "the runtime's root",
        /// The state of the running containers.
        RuntimeState = "the runtime's state",
        /// The pods' volumes and the kubelet's own files.
        Kubelet = "the kubelet's",
    }
}

/// A directory to which the runtime or the kubelet writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(NodePath(path))]
pub struct WrittenDirectory {
    /// Who writes there, and what.
    pub usage: DirectoryUse,
    /// Its path on the node.
    pub path: PathBuf,
}

impl fmt::Display for WrittenDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.path.display(), self.usage)
    }
}

/// The command lines of the processes, which may name directories and settings files.
struct Owners {
    /// The name and the arguments of the runtime's process.
    runtime: Option<(String, Arguments)>,
    /// The arguments of the kubelet.
    kubelet: Option<Arguments>,
}

/// Reads the file system of each directory, within a time limit for all.
///
/// Returns the file systems, and notes about those that could not be read; `None` if the node's processes are not known.
pub(super) async fn read_disks<R>(
    run: HealthRun<'_, R>,
    evidence: &Evidence,
) -> Option<(Vec<WrittenDisk>, Vec<NotChecked>)> {
    let inputs = run.inputs;
    let host = evidence.node()?;
    let Ownership::OfRuntime { daemon } = host.ownership else { return None };
    let processes = &host.first.processes;
    let daemon = daemon.and_then(|pid| processes.get(&pid));
    let owners = Owners {
        runtime: daemon.map(|process| (process.comm.clone(), process.command.clone())),
        kubelet: crate::kubelet::kubelet_of(&host.first).map(|process| process.command.clone()),
    };
    let root = inputs.host_root.clone();
    // Paths are resolved in the mount namespace of this process, so the mounts of this process are needed. The first
    // sample has them if it was read from this process's `/proc`.
    let is_own_proc = inputs.proc.as_deref().is_some_and(|proc| proc == host::proc());
    let sampled_mounts = is_own_proc.then(|| host.first.mounts.clone());
    let work = move |send: &dyn Fn(DiskStep)| {
        let mounts = sampled_mounts.unwrap_or_else(own_mounts);
        for directory in directories(&owners, &root, &mounts) {
            send(DiskStep::Started(directory.clone()));
            let disk = disk(&root, &mounts, &directory.path);
            send(DiskStep::Done(directory, disk));
        }
    };
    let (steps, ended) = offload::collect(TIME_LIMIT.min(run.budget.left()), work).await;
    Some(by_device(steps, ended))
}

/// Returns the mounts of this process.
fn own_mounts() -> Vec<NodeMount> {
    NodeMount::all(&kernel_text(&host::proc().join("self/mountinfo")).unwrap_or_default())
}

/// The directories to which a runtime and a kubelet write. Both read their settings when they start, so the directories are
/// searched only when one of the two is another process. Where they are is searched again when a mount has changed.
#[derive(Debug, Default)]
pub struct WrittenDirectories {
    runtime: Option<u32>,
    kubelet: Option<u32>,
    directories: Vec<WrittenDirectory>,
    /// Tells whether a mount has changed since the last search.
    mounts: Option<File>,
    located: Vec<(DirectoryUse, LocatedDirectory)>,
}

impl WrittenDirectories {
    /// Returns the file systems to which the runtime that listens on `socket` and the kubelet write, each one once. `proc` is the
    /// process table and `root` the host root. The call may block for ever, so make it in a thread that can be abandoned.
    pub fn disks(
        &mut self,
        proc: &Path,
        root: &Path,
        socket: &Path,
        kubelet: Option<u32>,
    ) -> Vec<(DirectoryUse, Disk)> {
        let runtime = listening_pid(socket);
        let is_same = (self.runtime, self.kubelet) == (runtime, kubelet);
        if !is_same || self.mounts.as_ref().is_none_or(have_changed) {
            // A mount that changes while they are read counts as changed later.
            self.mounts = File::open(host::proc().join("self/mountinfo")).ok();
            let mounts = own_mounts();
            if !is_same {
                self.find(proc, root, &mounts, (runtime, kubelet));
            }
            let located = self.directories.iter().filter_map(|WrittenDirectory { usage, path }| {
                Some((*usage, LocatedDirectory::of(root, &mounts, path).ok()?))
            });
            self.located = located.collect();
        }
        let mut found: Vec<(DirectoryUse, Disk)> = Vec::new();
        for (usage, directory) in &self.located {
            let is_new = |disk: &Disk| found.iter().all(|(_, known)| known.device != disk.device);
            if let Some(disk) = directory.disk().filter(is_new) {
                found.push((*usage, disk));
            }
        }
        found
    }

    /// Finds the directories of this runtime and this kubelet.
    fn find(
        &mut self,
        proc: &Path,
        root: &Path,
        mounts: &[NodeMount],
        (runtime, kubelet): (Option<u32>, Option<u32>),
    ) {
        let process = |pid: u32| {
            let process = proc.join(pid.to_string());
            let command = command_line(&process);
            // It waits in the kernel right now, so its command line cannot be read.
            (command != Arguments::default()).then_some((ProcessStat::read(&process)?.comm, command))
        };
        let (daemon, kubelets) = (runtime.and_then(process), kubelet.and_then(process));
        self.runtime = runtime.filter(|_| daemon.is_some());
        self.kubelet = kubelet.filter(|_| kubelets.is_some());
        let owners = Owners {
            runtime: daemon.filter(|(name, _)| Role::of(name) == Role::Daemon),
            kubelet: kubelets.map(|(_, command)| command),
        };
        self.directories = directories(&owners, root, mounts);
    }
}

/// Whether a mount has changed since this file of mounts was opened.
fn have_changed(mounts: &File) -> bool {
    let mut polled = [PollFd::new(mounts, PollFlags::PRI)];
    poll(&mut polled, Some(&Timespec::default())) != Ok(0)
}

/// Returns the process that listens on a socket.
fn listening_pid(socket: &Path) -> Option<u32> {
    let stream = UnixStream::connect(socket).ok()?;
    let peer = rustix::net::sockopt::socket_peercred(stream).ok()?;
    u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
}

/// What the reading thread reports for each directory.
enum DiskStep {
    Started(WrittenDirectory),
    Done(WrittenDirectory, Result<Disk, DiskError>),
}

/// Groups the directories by disk, and lists the disks that could not be read. `ended` means that the thread ended in
/// time.
fn by_device(steps: Vec<DiskStep>, ended: bool) -> (Vec<WrittenDisk>, Vec<NotChecked>) {
    let mut disks: Vec<WrittenDisk> = Vec::new();
    let mut not_checked = Vec::new();
    let mut skip = |directory: &WrittenDirectory, why: String| {
        not_checked.push(NotChecked { what: format!("the disk under {directory}"), why });
    };
    let mut waits_for = None;
    for step in steps {
        match step {
            DiskStep::Started(directory) => waits_for = Some(directory),
            DiskStep::Done(directory, result) => {
                waits_for = None;
                match result {
                    Ok(disk) => match disks.iter_mut().find(|known| known.disk.device == disk.device) {
                        Some(known) => known.directories.push(directory),
                        None => disks.push(WrittenDisk { directories: vec![directory], disk }),
                    },
                    Err(DiskError::Absent(_)) => {}
                    Err(why @ DiskError::Remote { .. }) => {
                        skip(&directory, why.to_string());
                    }
                }
            }
        }
    }
    if let Some(directory) = waits_for.filter(|_| !ended) {
        skip(&directory, "it did not answer in time".to_owned());
    }
    (disks, not_checked)
}

/// Returns the directories to which the runtime and the kubelet write: those in flags or settings files, otherwise the
/// defaults.
fn directories(owners: &Owners, root: &Path, mounts: &[NodeMount]) -> Vec<WrittenDirectory> {
    let mut found = Vec::new();
    if let Some((comm, arguments)) = &owners.runtime {
        let (root_of, state_of) = if comm == "crio" {
            let set = CrioSettings::read(root, mounts, arguments);
            (set.root, set.runroot)
        } else {
            let file =
                arguments.flag("config").or_else(|| arguments.flag("c")).filter(|file| file.starts_with('/'));
            let file = file.unwrap_or("/etc/containerd/config.toml");
            let file =
                if comm == "containerd" { settings(root, mounts, Path::new(file)) } else { String::new() };
            let value_of =
                |name: &str| arguments.flag(name).or_else(|| setting(&file, None, name)).map(str::to_owned);
            (value_of("root"), value_of("state"))
        };
        let defaults = match comm.as_str() {
            "crio" => ["/var/lib/containers/storage", "/run/containers/storage"],
            "dockerd" | "cri-dockerd" => ["/var/lib/docker", "/run/docker"],
            _ => ["/var/lib/containerd", "/run/containerd"],
        };
        let owners = [DirectoryUse::RuntimeRoot, DirectoryUse::RuntimeState];
        for ((usage, value), default) in owners.into_iter().zip([root_of, state_of]).zip(defaults) {
            found.push(WrittenDirectory { usage, path: value.as_deref().unwrap_or(default).into() });
        }
    }
    if let Some(arguments) = &owners.kubelet {
        let path =
            arguments.flag("root-dir").filter(|path| path.starts_with('/')).unwrap_or("/var/lib/kubelet");
        found.push(WrittenDirectory { usage: DirectoryUse::Kubelet, path: path.into() });
    }
    found
}

/// Reads a settings file of the node; returns an empty text if it cannot be read.
fn settings(root: &Path, mounts: &[NodeMount], path: &Path) -> String {
    let mut text = Vec::new();
    let file = resolve(root, mounts, path).ok().and_then(|place| File::open(place).ok());
    if let Some(file) = file {
        // The part before a read error is used.
        let _ = file.take(MAX_SETTINGS_BYTES).read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// The directories that CRI-O's settings name.
#[derive(Debug, Default, PartialEq, Eq)]
struct CrioSettings {
    root: Option<String>,
    runroot: Option<String>,
}

impl CrioSettings {
    /// Reads the settings in CRI-O's order: a flag overrides the last drop-in that sets the value, a drop-in
    /// overrides crio.conf, and crio.conf overrides the settings of containers/storage.
    fn read(root: &Path, mounts: &[NodeMount], arguments: &Arguments) -> Self {
        let main = arguments.flag("config").or_else(|| arguments.flag("c")).unwrap_or("/etc/crio/crio.conf");
        let drop_ins =
            arguments.flag("config-dir").or_else(|| arguments.flag("d")).unwrap_or("/etc/crio/crio.conf.d");
        let mut found = Self::default();
        let read = |path: &Path| settings(root, mounts, path);
        let storage = STORAGE_CONF.iter().map(|path| read(Path::new(path))).find(|text| !text.is_empty());
        if let Some(text) = storage {
            found.take(&text, "storage", "graphroot");
        }
        let files = std::iter::once(PathBuf::from(main)).chain(files_in(root, mounts, Path::new(drop_ins)));
        for path in files {
            found.take(&read(&path), "crio", "root");
        }
        let flag = |name: &str| arguments.flag(name).map(str::to_owned);
        Self { root: flag("root").or(found.root), runroot: flag("runroot").or(found.runroot) }
    }

    /// Applies the values of one file; a later file overrides an earlier one.
    fn take(&mut self, text: &str, table: &str, root_key: &str) {
        let set = |key: &str| setting(text, Some(table), key).filter(|value| !value.is_empty());
        if let Some(value) = set(root_key) {
            self.root = Some(value.to_owned());
        }
        if let Some(value) = set("runroot") {
            self.runroot = Some(value.to_owned());
        }
    }
}

/// Returns the files of a directory in the order of their names, as paths of the node.
fn files_in(root: &Path, mounts: &[NodeMount], dir: &Path) -> Vec<PathBuf> {
    let Some(entries) = resolve(root, mounts, dir).ok().and_then(|place| fs::read_dir(place).ok()) else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> =
        entries.flatten().take(MAX_DROP_INS).map(|entry| dir.join(entry.file_name())).collect();
    files.sort();
    files
}

/// Returns the string value of `key` in `table`, or before the first table.
fn setting<'a>(toml: &'a str, table: Option<&str>, key: &str) -> Option<&'a str> {
    let mut at = None;
    for line in toml.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            at = Some(name.split_once(']').map_or("", |(name, _)| name.trim()));
        } else if at == table
            && let Some((name, value)) = line.split_once('=')
            && name.trim() == key
        {
            return quoted(value.trim());
        }
    }
    None
}

/// Returns the quoted text at the beginning of `value`.
fn quoted(value: &str) -> Option<&str> {
    let quote = value.chars().next().filter(|first| matches!(first, '"' | '\''))?;
    Some(value.get(1..)?.split_once(quote)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(words: &[&str]) -> Arguments {
        Arguments::from_cmdline(words.join("\0").as_bytes())
    }

    fn paths(owners: &Owners, root: &Path) -> Vec<String> {
        directories(owners, root, &[]).into_iter().map(|one| one.path.display().to_string()).collect()
    }

    #[test]
    fn flags_override_settings_files_and_files_override_defaults() {
        let root = std::env::temp_dir().join(format!("plegctl-places-{}", std::process::id()));
        std::fs::create_dir_all(root.join("etc/containerd")).unwrap();
        let settings = "version = 3\n# root = \"/no\"\nroot = '/data/root' # big\n[grpc]\nstate = \"/no\"\n";
        std::fs::write(root.join("etc/containerd/config.toml"), settings).unwrap();
        let owners = |comm: &str, runtime: &[&str], kubelet: &[&str]| Owners {
            runtime: Some((comm.to_owned(), arguments(runtime))),
            kubelet: Some(arguments(kubelet)),
        };
        let by_file = owners("containerd", &["containerd"], &["kubelet"]);
        assert_eq!(paths(&by_file, &root), ["/data/root", "/run/containerd", "/var/lib/kubelet"]);
        let by_flag = owners(
            "containerd",
            &["containerd", "--root=/r", "--state", "/s"],
            &["kubelet", "--root-dir=/k"],
        );
        assert_eq!(paths(&by_flag, &root), ["/r", "/s", "/k"]);
        let crio = owners("crio", &["crio", "--runroot", "/rr"], &["kubelet"]);
        assert_eq!(paths(&crio, &root), ["/var/lib/containers/storage", "/rr", "/var/lib/kubelet"]);
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn crios_directories_come_from_its_settings_in_crios_order() {
        let root = std::env::temp_dir().join(format!("plegctl-crio-places-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let places = |words: &[&str]| {
            let crio = Owners { runtime: Some(("crio".to_owned(), arguments(words))), kubelet: None };
            paths(&crio, &root)
        };
        assert_eq!(places(&["crio"]), ["/var/lib/containers/storage", "/run/containers/storage"]);
        write("usr/share/containers/storage.conf", "[storage]\ngraphroot = \"/distro\"\n");
        assert_eq!(places(&["crio"]), ["/distro", "/run/containers/storage"]);
        write(
            "etc/containers/storage.conf",
            "graphroot = \"/no\"\n[storage]\ndriver = \"overlay\"\ngraphroot = \"/storage\" # big\nrunroot = '/storage-run'\n[storage.options]\nrunroot = \"/no\"\n",
        );
        assert_eq!(places(&["crio"]), ["/storage", "/storage-run"]);
        write(
            "etc/crio/crio.conf",
            "[crio]\n# root = \"/no\"\nroot = \"/main\"\n[crio.runtime]\nroot = \"/no\"\n",
        );
        assert_eq!(places(&["crio"]), ["/main", "/storage-run"]);
        write("etc/crio/crio.conf.d/20-late.conf", "[crio]\nroot = \"/late\"\n");
        write("etc/crio/crio.conf.d/10-early.conf", "[crio]\nroot = \"/early\"\nrunroot = \"/early-run\"\n");
        assert_eq!(places(&["crio"]), ["/late", "/early-run"]);
        assert_eq!(places(&["crio", "--root", "/flag"]), ["/flag", "/early-run"]);
        write("other.conf", "[crio]\nroot = \"/other\"\n");
        let elsewhere = ["crio", "--config=/other.conf", "-d", "/none"];
        assert_eq!(places(&elsewhere), ["/other", "/storage-run"]);
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn disks_of_a_node_are_found_by_its_processes_and_each_one_once() {
        let proc = std::env::temp_dir().join(format!("plegctl-written-{}", std::process::id()));
        // The directory of the kubelet's flag, and the default one, which is another.
        std::fs::create_dir_all(proc.join("7/pods")).unwrap();
        std::fs::create_dir_all(proc.join("var/lib/kubelet")).unwrap();
        std::fs::write(proc.join("7/cmdline"), "kubelet\0--root-dir=/7/pods\0").unwrap();
        std::fs::write(proc.join("7/stat"), "7 (kubelet) S 1 2").unwrap();
        // The process of this test listens on the socket.
        let socket = proc.join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let own = proc.join(std::process::id().to_string());
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("cmdline"), "containerd\0--root=/\0--state=/7\0").unwrap();
        let found = |name: &str| {
            let mut directories = WrittenDirectories::default();
            let fields: Vec<String> = (0..40).map(|field: u32| field.to_string()).collect();
            let stat = format!("{} ({name}) S 1 {}", std::process::id(), fields.join(" "));
            std::fs::write(own.join("stat"), stat).unwrap();
            let mut disks = || -> Vec<DirectoryUse> {
                let disks = directories.disks(&proc, &proc, &socket, Some(7));
                disks.into_iter().map(|(usage, _)| usage).collect()
            };
            let first = disks();
            assert_eq!(disks(), first, "as long as no mount changes, nothing is searched again");
            first
        };
        assert_eq!(found("containerd"), [DirectoryUse::RuntimeRoot]);
        assert_eq!(found("nginx"), [DirectoryUse::Kubelet]);
        std::fs::write(proc.join("7/stat"), "7 (kubelet) D 1 2").unwrap();
        assert_eq!(found("nginx"), [], "its directory is not known, and the default one may be another");
        std::fs::remove_dir_all(&proc).unwrap();
    }

    #[test]
    fn a_disk_under_two_directories_is_listed_once_and_an_unread_disk_is_noted() {
        let disk = |device: &str| Ok(Disk { device: device.to_owned(), ..Disk::default() });
        let remote = DiskError::Remote { path: "/k".into(), kind: "nfs4".into() };
        let at = |path: &str| WrittenDirectory { usage: DirectoryUse::Kubelet, path: path.into() };
        let steps = vec![
            DiskStep::Done(at("a"), disk("8:1")),
            DiskStep::Done(at("b"), disk("8:1")),
            DiskStep::Done(at("c"), Err(DiskError::Absent("c".into()))),
            DiskStep::Done(at("k"), Err(remote)),
            DiskStep::Started(at("d")),
        ];
        let (disks, not_checked) = by_device(steps, false);
        assert_eq!(disks.len(), 1);
        assert_eq!(disks[0].directories, [at("a"), at("b")]);
        let skipped: Vec<String> =
            not_checked.iter().map(|skip| format!("{}: {}", skip.what, skip.why)).collect();
        assert_eq!(
            skipped,
            [
                "the disk under k (the kubelet's): `/k` is on nfs4; plegctl does not query it, because its server may be unreachable",
                "the disk under d (the kubelet's): it did not answer in time"
            ]
        );
    }
}
