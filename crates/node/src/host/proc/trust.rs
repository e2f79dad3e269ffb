//! Decides which processes qualify as the node's own kubelet, runtime, shim or OCI runtime.
//!
//! Every user can give a process any name and any command line, so a name proves nothing. A process qualifies by
//! facts that only the kernel sets: its user, its namespaces, its program and its cgroup. `docs/security.md` explains
//! the rules and their exceptions.

use std::fmt;
use std::io;
use std::path::Path;

use rustix::fs::{PROC_SUPER_MAGIC, statfs};
use rustix::io::Errno;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::{Role, cgroup};
use crate::host::{HostRoot, KernelDir};
use plegctl_base::report::Rename;

/// How the file names of kubelet programs begin. A distribution may add a version at the end. If a script starts the
/// kubelet, a distribution may add a dot at the beginning.
const KUBELET_PROGRAMS: [&str; 5] = ["kubelet", ".kubelet", "kubelite", "hyperkube", "k3s"];

/// Why a process with the name of a kubelet, runtime or shim does not qualify.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(Process(Program))]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Disqualification {
    /// It runs as a user who is neither root nor plegctl's own user.
    User(u32),
    /// It runs in another PID namespace.
    PidNamespace,
    /// It runs in another mount namespace and is not a system service.
    MountNamespace,
    /// Its cgroup belongs to a container or a pod.
    Container,
    /// Its program is set-user-id, so any user can start it as root with any name and arguments.
    SetUserId,
    /// Its program is not a kubelet.
    Program(String),
    /// Its program and namespaces cannot be read, and it was started from a login session.
    Unknown,
}

impl Disqualification {
    /// Whether it may still be the node's own kubelet, for example one that root runs from a container image.
    pub const fn may_be_genuine(&self) -> bool {
        matches!(self, Self::MountNamespace | Self::Container | Self::Unknown)
    }
}

impl fmt::Display for Disqualification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(uid) => write!(f, "it runs as user {uid}"),
            Self::PidNamespace => f.write_str("it runs in another pid namespace"),
            Self::MountNamespace => f.write_str("it runs in another mount namespace"),
            Self::Container => f.write_str("it runs in a container"),
            Self::SetUserId => f.write_str("its program is set-user-id"),
            Self::Program(program) => write!(f, "its program is {program}"),
            Self::Unknown => f.write_str("its program and its namespaces cannot be read"),
        }
    }
}

/// A fact about a process that the kernel shows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fact<T> {
    Known(T),
    /// The fact exists, but plegctl may not read it.
    Hidden,
    /// The fact does not exist. A copy of a process table in ordinary files may lack facts.
    Absent,
}

impl<T> Fact<T> {
    fn of(read: io::Result<T>) -> Self {
        match read {
            Ok(fact) => Self::Known(fact),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Self::Absent,
            Err(_) => Self::Hidden,
        }
    }
}

/// A namespace of the node, such as `mnt:[4026531832]`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NodeNamespace {
    /// The namespace of the node's first process.
    Node(String),
    /// plegctl's own namespace, if plegctl cannot read the node's namespace. plegctl may run in a container, so a
    /// process outside of plegctl's namespace may be in the node's namespace.
    Own(String),
    Unknown,
}

/// Decides which processes of a table qualify.
#[derive(Clone, Debug)]
pub struct ProcessTrust {
    /// plegctl's own user.
    uid: u32,
    pid_namespace: NodeNamespace,
    mount_namespace: NodeNamespace,
    /// Whether the table is a copy in ordinary files, in which missing facts prove nothing.
    is_copy: bool,
}

impl ProcessTrust {
    /// Creates the rules for the process table at `proc`. The directory `host` is the node's root directory.
    pub fn of_node(proc: &Path, host: &HostRoot) -> Self {
        let first = host.path("/proc/1");
        let host_is_mounted = host.as_path() != Path::new("/") && first.exists();
        if host_is_mounted { Self::with_first(proc, &first) } else { Self::of_table(proc) }
    }

    /// Creates the rules for the process table at `proc`, which must contain the node's first process.
    pub fn of_table(proc: &Path) -> Self {
        Self::with_first(proc, &proc.join("1"))
    }

    fn with_first(proc: &Path, first: &Path) -> Self {
        let node_namespace = |name: &str| {
            let link = |process: &Path| {
                let target = std::fs::read_link(process.join("ns").join(name)).ok()?;
                Some(target.to_string_lossy().into_owned())
            };
            let node = link(first).map(NodeNamespace::Node);
            node.or_else(|| link(&proc.join("self")).map(NodeNamespace::Own))
                .unwrap_or(NodeNamespace::Unknown)
        };
        Self {
            uid: geteuid().as_raw(),
            pid_namespace: node_namespace("pid"),
            mount_namespace: node_namespace("mnt"),
            is_copy: !is_process_file_system(proc),
        }
    }

    /// Returns the rules that a plegctl which runs as `uid` would apply.
    #[cfg(test)]
    #[must_use]
    pub fn seen_by(self, uid: u32) -> Self {
        Self { uid, ..self }
    }

    /// Checks whether the process in this directory qualifies for the role, and returns an error if it does not. For a
    /// process that qualifies, returns `true` if it runs as plegctl's own user and this user is not root. If the
    /// process is not `awake`, its program is not read, because that could block.
    pub fn judge(&self, process: &KernelDir, role: Role, awake: bool) -> Result<bool, Disqualification> {
        let status = Fact::of(process.record("status"));
        let is_own = match &status {
            Fact::Known(text) => self.user(text)? && self.uid != 0,
            Fact::Absent if self.is_copy => false,
            // The kernel shows the user of every visible process to everybody, so a process without a user is doubtful.
            Fact::Absent | Fact::Hidden => return Err(Disqualification::Unknown),
        };
        let cgroups = process.record("cgroup").unwrap_or_default();
        let kind = CgroupKind::of(&cgroups);
        if is_own {
            // A process of plegctl's own user has no more rights than plegctl, so it counts, unless it runs in a
            // container, whose image may come from any source.
            let is_in_container = kind == CgroupKind::Container && !is_below_runtime(role);
            return if is_in_container { Err(Disqualification::Container) } else { Ok(true) };
        }
        if let Fact::Known(text) = &status
            && depth_of_pid_namespace(text) > 1
        {
            return Err(Disqualification::PidNamespace);
        }
        let namespace =
            |name: &str| Fact::of(process.link(name).map(|link| link.to_string_lossy().into_owned()));
        if let (NodeNamespace::Node(node), Fact::Known(own)) = (&self.pid_namespace, namespace("ns/pid"))
            && *node != own
        {
            return Err(Disqualification::PidNamespace);
        }
        let has_trusted_mounts = self.mounts(&namespace("ns/mnt"), kind, role)?;
        if awake {
            Self::program(process, role, kind, has_trusted_mounts, self.uid == 0)?;
        }
        Ok(false)
    }

    /// Whether all four user ids are plegctl's own.
    fn user(&self, status: &str) -> Result<bool, Disqualification> {
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
        let uids: Result<Vec<u32>, _> = line.split_ascii_whitespace().map(str::parse).collect();
        let Some(uids) = uids.ok().filter(|uids| uids.len() == 4) else {
            return Err(Disqualification::Unknown);
        };
        if uids.iter().all(|uid| *uid == self.uid) {
            return Ok(true);
        }
        uids.into_iter().find(|uid| *uid != 0).map_or(Ok(false), |uid| Err(Disqualification::User(uid)))
    }

    /// Returns whether the mount namespace is the node's, or the namespace of a system service with its own mounts.
    /// Returns `false` if plegctl does not know this, and an error if the process does not qualify.
    fn mounts(&self, own: &Fact<String>, kind: CgroupKind, role: Role) -> Result<bool, Disqualification> {
        match (&self.mount_namespace, own) {
            (NodeNamespace::Node(node) | NodeNamespace::Own(node), Fact::Known(own)) if node == own => {
                Ok(true)
            }
            // A systemd unit or a snap may create a mount namespace for a service. MicroK8s in strict confinement does
            // this.
            (NodeNamespace::Node(_), Fact::Known(_)) if kind == CgroupKind::Service => Ok(true),
            (NodeNamespace::Node(_), Fact::Known(_)) => Err(Disqualification::MountNamespace),
            // A process cannot leave its container's cgroup, so it does not qualify. The cgroup of CRI-O's conmon
            // contains the container's id, but conmon and the OCI runtime that conmon starts qualify there.
            _ if kind == CgroupKind::Container
                || (kind == CgroupKind::Monitor && !is_below_runtime(role)) =>
            {
                Err(Disqualification::Container)
            }
            _ => Ok(false),
        }
    }

    /// Checks the program of a process: it must not be set-user-id, and must be a kubelet for the role of the
    /// kubelet.
    fn program(
        process: &KernelDir,
        role: Role,
        kind: CgroupKind,
        has_trusted_mounts: bool,
        plegctl_is_root: bool,
    ) -> Result<(), Disqualification> {
        let Ok(link) = process.link("exe") else {
            // Root can read the program of every process of the node, so a process with an unreadable program is
            // doubtful. For example, a user in a login session can start `sudo` with the name of a kubelet.
            let is_doubtful = plegctl_is_root && !has_trusted_mounts && kind == CgroupKind::Session;
            return if is_doubtful { Err(Disqualification::Unknown) } else { Ok(()) };
        };
        if process.is_set_user_id("exe") {
            return Err(Disqualification::SetUserId);
        }
        let name = link.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let fits = role != Role::Kubelet || KUBELET_PROGRAMS.iter().any(|program| name.starts_with(program));
        if fits { Ok(()) } else { Err(Disqualification::Program(link.to_string_lossy().into_owned())) }
    }
}

/// Whether the runtime starts processes of this role for a container.
const fn is_below_runtime(role: Role) -> bool {
    matches!(role, Role::Shim | Role::OciRuntime)
}

/// The kind of cgroup in which a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CgroupKind {
    /// A container or a pod.
    Container,
    /// CRI-O's scope for the conmon of a container, outside of the container.
    Monitor,
    /// A systemd service of the system.
    Service,
    /// A user's login session.
    Session,
    Elsewhere,
}

impl CgroupKind {
    fn of(cgroups: &str) -> Self {
        let (path, _) = cgroup::path_of(cgroups);
        let (above, last) = path.rsplit_once('/').unwrap_or_default();
        let is_contained = |path: &str| {
            path.rsplit('/').find_map(cgroup::container_id).is_some() || cgroup::pod_uid_of(path).is_some()
        };
        if last.starts_with("crio-conmon-") && !is_contained(above) {
            Self::Monitor
        } else if is_contained(path) {
            Self::Container
        } else if is_service(path) {
            Self::Service
        } else if path.split('/').any(|part| part == "user.slice") {
            Self::Session
        } else {
            Self::Elsewhere
        }
    }
}

/// Whether a cgroup belongs to a system service. A container with its own cgroup namespace sees the path with `..` in
/// front.
pub fn is_service(path: &str) -> bool {
    let mut parts = path.split('/').filter(|part| !matches!(*part, "" | ".."));
    parts.next() == Some("system.slice") && parts.next_back().is_some_and(|last| last.ends_with(".service"))
}

/// Counts the PID namespaces of a process, from the namespace of the process table down to its own: `NSpid` has one
/// number for each. A process in the namespace of the process table has 1.
fn depth_of_pid_namespace(status: &str) -> usize {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    line.split_ascii_whitespace().count()
}

fn is_process_file_system(proc: &Path) -> bool {
    match statfs(proc) {
        Ok(about) => about.f_type == PROC_SUPER_MAGIC,
        // If plegctl cannot examine the file system, it assumes a real process table.
        Err(why) => why != Errno::NOENT,
    }
}

/// A process that qualifies as a kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletCandidate {
    /// Process id.
    pub pid: u32,
    /// Id of the parent.
    pub parent: u32,
    /// Whether its cgroup is that of a system service.
    pub is_service: bool,
    /// Whether it runs as plegctl's own user, if that is not root.
    pub is_own: bool,
}

/// Which of several candidates is the kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeletChoice {
    /// There are no candidates.
    Nobody,
    /// The process with this id.
    One(u32),
    /// Several candidates, and no fact distinguishes them.
    Several(Vec<u32>),
}

impl KubeletChoice {
    /// Chooses one candidate: prefers the candidate of plegctl's own user, then the candidate that is a system
    /// service.
    pub fn among(candidates: &[KubeletCandidate]) -> Self {
        let pids: Vec<u32> = candidates.iter().map(|candidate| candidate.pid).collect();
        // A child of the kubelet has the kubelet's name and program until it runs its own program.
        let mut left: Vec<&KubeletCandidate> =
            candidates.iter().filter(|candidate| !pids.contains(&candidate.parent)).collect();
        for fits in [
            |candidate: &KubeletCandidate| candidate.is_own,
            |candidate: &KubeletCandidate| candidate.is_service,
        ] {
            if left.len() > 1 && left.iter().any(|candidate| fits(candidate)) {
                left.retain(|candidate| fits(candidate));
            }
        }
        match left.as_slice() {
            [] => Self::Nobody,
            [one] => Self::One(one.pid),
            several => Self::Several(several.iter().map(|candidate| candidate.pid).collect()),
        }
    }
}

#[cfg(test)]
mod tests {

    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::super::copies::{KUBELET, ProcTable, TableProcess};
    use super::*;

    impl ProcTable {
        /// Checks the process 7 with the rules of a plegctl that runs as `uid`.
        fn seen_by(&self, uid: u32, role: Role) -> Result<(), Disqualification> {
            let trust = ProcessTrust::of_table(&self.proc()).seen_by(uid);
            trust.judge(&KernelDir::open(&self.proc().join("7")).unwrap(), role, true).map(drop)
        }
    }

    fn verdict(uid: u32, role: Role, written: &TableProcess<'_>) -> Result<(), Disqualification> {
        let table = ProcTable::new(&format!("{uid}-{}", written.program.replace('/', "-"))).unwrap();
        table.process(7, written).unwrap();
        table.seen_by(uid, role)
    }

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn a_process_of_root_in_the_nodes_namespaces_qualifies_and_one_of_another_user_does_not() {
        assert_eq!(verdict(0, Role::Kubelet, &KUBELET), Ok(()));
        for role in [Role::Kubelet, Role::Daemon, Role::Shim] {
            let stranger = TableProcess { uids: [1000; 4], ..KUBELET };
            assert_eq!(verdict(0, role, &stranger), Err(Disqualification::User(1000)));
        }
        // A set-user-id program keeps the real user id of the user who started it.
        let set_user_id = TableProcess { uids: [1000, 0, 0, 0], ..KUBELET };
        assert_eq!(verdict(0, Role::Kubelet, &set_user_id), Err(Disqualification::User(1000)));
    }

    #[test]
    fn a_process_whose_users_cannot_be_parsed_does_not_qualify() {
        let table = ProcTable::new("users").unwrap();
        table.process(7, &KUBELET).unwrap();
        for uids in ["0 0 0", "x 0 0 0 0", "0 0 0 0 0", "-1 0 0 0"] {
            fs::write(table.proc().join("7/status"), format!("Uid:\t{uids}\nNSpid:\t7\n")).unwrap();
            assert_eq!(table.seen_by(0, Role::Kubelet), Err(Disqualification::Unknown), "{uids}");
        }
    }

    #[test]
    fn a_process_of_root_in_a_container_does_not_qualify() {
        let cgroup = format!("/kubepods/burstable/podu-1/{ID}");
        let inside = TableProcess {
            namespace_pids: "7 1",
            pid_namespace: "pid:[2]",
            mount_namespace: "mnt:[2]",
            ..KUBELET
        };
        assert_eq!(verdict(0, Role::Kubelet, &inside), Err(Disqualification::PidNamespace));
        let host_pid = TableProcess { mount_namespace: "mnt:[2]", cgroup: &cgroup, ..KUBELET };
        assert_eq!(verdict(0, Role::Kubelet, &host_pid), Err(Disqualification::MountNamespace));
        // The cgroup shows a service, but below the cgroup of its own container.
        let nested = format!("{cgroup}/system.slice/kubelet.service");
        let nested = TableProcess { cgroup: &nested, ..host_pid };
        assert_eq!(verdict(0, Role::Kubelet, &nested), Err(Disqualification::MountNamespace));
    }

    #[test]
    fn a_service_in_its_own_mount_namespace_qualifies() {
        let snap = TableProcess {
            comm: "kubelite",
            mount_namespace: "mnt:[2]",
            cgroup: "/system.slice/snap.microk8s.daemon-kubelite.service",
            program: "snap/microk8s/7/kubelite",
            ..KUBELET
        };
        assert_eq!(verdict(0, Role::Kubelet, &snap), Ok(()));
        let session = TableProcess { cgroup: "/user.slice/user-0.slice/session-1.scope", ..snap };
        assert_eq!(verdict(0, Role::Kubelet, &session), Err(Disqualification::MountNamespace));
    }

    #[test]
    fn a_set_user_id_program_never_qualifies() {
        let table = ProcTable::new("set-user-id").unwrap();
        table.process(7, &KUBELET).unwrap();
        let program = table.0.join(KUBELET.program);
        fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
        for role in [Role::Kubelet, Role::Daemon, Role::Shim] {
            assert_eq!(table.seen_by(0, role), Err(Disqualification::SetUserId));
        }
        let another = TableProcess { program: "usr/bin/sudo", ..KUBELET };
        assert!(matches!(verdict(0, Role::Kubelet, &another), Err(Disqualification::Program(_))));
        assert_eq!(
            verdict(0, Role::Daemon, &another),
            Ok(()),
            "the name of the program matters only for a kubelet"
        );
    }

    #[test]
    fn cgroup_shows_a_container_if_namespaces_are_hidden() {
        let judge = |cgroup: &str, role| {
            let table = ProcTable::new(&format!("hidden-{}", cgroup.len())).unwrap();
            table.process(7, &TableProcess { cgroup, ..KUBELET }).unwrap();
            for name in ["1/ns/mnt", "1/ns/pid", "7/ns/mnt", "7/ns/pid", "7/exe"] {
                fs::remove_file(table.proc().join(name)).unwrap();
            }
            table.seen_by(0, role)
        };
        assert_eq!(judge("/../../../system.slice/kubelet.service", Role::Kubelet), Ok(()));
        let pod = format!("/../cri-containerd-{ID}.scope");
        assert_eq!(judge(&pod, Role::Kubelet), Err(Disqualification::Container));
        assert_eq!(judge(&pod, Role::Shim), Err(Disqualification::Container));
        let monitor = format!("/system.slice/crio-conmon-{ID}.scope");
        assert_eq!(judge(&monitor, Role::Shim), Ok(()));
        let inside = format!("/kubepods/podu-1/{ID}/crio-conmon-{ID}.scope");
        assert_eq!(
            judge(&inside, Role::Shim),
            Err(Disqualification::Container),
            "a container may create a cgroup with the name of a conmon"
        );
        let session = "/user.slice/user-1000.slice/session-1.scope";
        assert_eq!(judge(session, Role::Kubelet), Err(Disqualification::Unknown));
    }

    #[test]
    fn for_a_plegctl_without_root_only_processes_of_root_and_of_its_own_user_qualify() {
        let own = TableProcess {
            uids: [1000; 4],
            namespace_pids: "7 1",
            pid_namespace: "pid:[2]",
            mount_namespace: "mnt:[2]",
            cgroup: "/user.slice/user-1000.slice/user@1000.service/app.slice/k3s-rootless.service",
            ..KUBELET
        };
        assert_eq!(verdict(1000, Role::Kubelet, &own), Ok(()), "a rootless kubelet");
        assert_eq!(verdict(1001, Role::Kubelet, &own), Err(Disqualification::User(1000)));
        assert_eq!(verdict(1000, Role::Kubelet, &KUBELET), Ok(()), "root's");
        let cgroup = format!("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope");
        let contained = TableProcess { cgroup: &cgroup, ..own };
        assert_eq!(verdict(1000, Role::Kubelet, &contained), Err(Disqualification::Container));
    }

    #[test]
    fn facts_that_a_copy_lacks_do_not_disqualify_a_process() {
        let table = ProcTable::new("bare").unwrap();
        table.process(7, &KUBELET).unwrap();
        for name in ["1", "7/ns", "7/status"] {
            let path = table.proc().join(name);
            if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
        }
        assert_eq!(table.seen_by(0, Role::Kubelet), Ok(()));
    }

    #[test]
    fn a_system_service_is_preferred_and_children_are_ignored() {
        let of = |pid, parent, is_service| KubeletCandidate { pid, parent, is_service, is_own: false };
        assert_eq!(KubeletChoice::among(&[]), KubeletChoice::Nobody);
        assert_eq!(KubeletChoice::among(&[of(7, 1, false)]), KubeletChoice::One(7));
        assert_eq!(KubeletChoice::among(&[of(3, 1, false), of(7, 1, true)]), KubeletChoice::One(7));
        assert_eq!(
            KubeletChoice::among(&[of(7, 1, true), of(9, 7, true)]),
            KubeletChoice::One(7),
            "a child that has not started its own program yet"
        );
        assert_eq!(
            KubeletChoice::among(&[of(3, 1, true), of(7, 1, true)]),
            KubeletChoice::Several(vec![3, 7])
        );
        assert_eq!(
            KubeletChoice::among(&[of(3, 1, false), of(7, 1, false)]),
            KubeletChoice::Several(vec![3, 7])
        );
        let own = KubeletCandidate { is_own: true, ..of(9, 1, false) };
        assert_eq!(
            KubeletChoice::among(&[of(7, 1, true), own]),
            KubeletChoice::One(9),
            "a rootless kubelet of plegctl's user"
        );
    }
}
