//! Decides which processes qualify as the node's own kubelet, runtime, shim or OCI runtime.
//!
//! Every user can give a process any name and any command line, so a name proves nothing. A process qualifies by
//! facts that only the kernel decides: its user, its namespaces, its program and its cgroup. `docs/security.md` has
//! the rule and its exceptions.

use std::fmt;
use std::io;
use std::path::Path;

use rustix::fs::{PROC_SUPER_MAGIC, statfs};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::{Role, cgroup};
use crate::host::{HostRoot, KernelDir};

/// File names of kubelet programs. Distributions add a version, or a dot for a wrapped program.
const KUBELET_PROGRAMS: [&str; 5] = ["kubelet", ".kubelet", "kubelite", "hyperkube", "k3s"];

/// Why a process with the name of a kubelet, runtime or shim does not qualify.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disqualification {
    /// It runs as a user who is neither root nor plegctl's own user.
    User(u32),
    /// It runs in another PID namespace.
    PidNamespace,
    /// It runs in another mount namespace and is not a system service.
    MountNamespace,
    /// Its cgroup belongs to a container or a pod.
    Container,
    /// Its program is set-user-id, so whoever starts it chooses its name and arguments.
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
    /// The fact does not exist, as in a copy of a process table.
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
    /// plegctl's own namespace, if the node's cannot be read. A process in another namespace may still be in the
    /// node's.
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
    /// For the process table at `proc` of the node with the root `host`.
    pub fn of_node(proc: &Path, host: &HostRoot) -> Self {
        let first = host.path("/proc/1");
        let is_elsewhere = host.as_path() != Path::new("/") && first.exists();
        if is_elsewhere { Self::with_first(proc, &first) } else { Self::of_table(proc) }
    }

    /// For the process table at `proc`, if it is the whole node's.
    pub fn of_table(proc: &Path) -> Self {
        Self::with_first(proc, &proc.join("1"))
    }

    fn with_first(proc: &Path, first: &Path) -> Self {
        let reference = |name: &str| {
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
            pid_namespace: reference("pid"),
            mount_namespace: reference("mnt"),
            is_copy: !is_process_file_system(proc),
        }
    }

    /// The same decisions for a plegctl that runs as `uid`.
    #[cfg(test)]
    pub(crate) fn seen_by(self, uid: u32) -> Self {
        Self { uid, ..self }
    }

    /// Whether the process in this directory qualifies for the role. The result is true if it runs as plegctl's own
    /// user, who is not root. If the process is not `awake`, its program is not read, because that could block.
    pub fn judge(&self, process: &KernelDir, role: Role, awake: bool) -> Result<bool, Disqualification> {
        let status = Fact::of(process.record("status"));
        let is_own = match &status {
            Fact::Known(text) => self.user(text)? && self.uid != 0,
            // The kernel shows the user of every visible process to everybody.
            Fact::Absent if self.is_copy => false,
            Fact::Absent | Fact::Hidden => return Err(Disqualification::Unknown),
        };
        let cgroups = process.record("cgroup").unwrap_or_default();
        let kind = CgroupKind::of(&cgroups);
        if is_own {
            // A process of plegctl's own user has no more rights than plegctl. A process in a container runs somebody
            // else's image.
            let is_member = kind == CgroupKind::Container && !is_below_runtime(role);
            return if is_member { Err(Disqualification::Container) } else { Ok(true) };
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
        let is_known = self.mounts(&namespace("ns/mnt"), kind, role)?;
        if awake {
            Self::program(process, role, kind, is_known, self.uid == 0)?;
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

    /// Whether the mount namespace is known to be the node's.
    fn mounts(&self, own: &Fact<String>, kind: CgroupKind, role: Role) -> Result<bool, Disqualification> {
        match (&self.mount_namespace, own) {
            (NodeNamespace::Node(node) | NodeNamespace::Own(node), Fact::Known(own)) if node == own => {
                Ok(true)
            }
            // A systemd unit or a snap may give its service its own mounts: MicroK8s in strict confinement.
            (NodeNamespace::Node(_), Fact::Known(_)) if kind == CgroupKind::Service => Ok(true),
            (NodeNamespace::Node(_), Fact::Known(_)) => Err(Disqualification::MountNamespace),
            // A container cannot leave its cgroup. The cgroup of CRI-O's conmon has the container's id too, and the
            // OCI runtime that conmon starts is in the same cgroup.
            _ if kind == CgroupKind::Container
                || (kind == CgroupKind::Monitor && !is_below_runtime(role)) =>
            {
                Err(Disqualification::Container)
            }
            _ => Ok(false),
        }
    }

    fn program(
        process: &KernelDir,
        role: Role,
        kind: CgroupKind,
        is_known: bool,
        we_are_root: bool,
    ) -> Result<(), Disqualification> {
        let Ok(link) = process.link("exe") else {
            // If the program cannot be read, a login session could have started `sudo` under this name.
            let is_doubtful = we_are_root && !is_known && kind == CgroupKind::Session;
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

/// Whether a cgroup is that of a system service, also as seen from a container with its own cgroup namespace.
pub fn is_service(path: &str) -> bool {
    let mut parts = path.split('/').filter(|part| !matches!(*part, "" | ".."));
    parts.next() == Some("system.slice") && parts.next_back().is_some_and(|last| last.ends_with(".service"))
}

/// The depth of the PID namespace: `NSpid` has a number for each namespace, from the table's own inwards.
fn depth_of_pid_namespace(status: &str) -> usize {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    line.split_ascii_whitespace().count()
}

fn is_process_file_system(proc: &Path) -> bool {
    match statfs(proc) {
        Ok(about) => about.f_type == PROC_SUPER_MAGIC,
        // If the file system cannot be examined, it is treated as a real one.
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
    /// This one.
    One(u32),
    /// Several candidates, and no fact distinguishes them.
    Several(Vec<u32>),
}

impl KubeletChoice {
    /// Prefers the candidate of plegctl's own user, then the one that is a system service.
    pub fn among(candidates: &[KubeletCandidate]) -> Self {
        let pids: Vec<u32> = candidates.iter().map(|candidate| candidate.pid).collect();
        // Between fork and exec, a child of the kubelet has the kubelet's name and program.
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
pub(crate) mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A copy of a process table; it is deleted when the test ends.
    pub(crate) struct Table(pub(crate) PathBuf);

    /// A process to copy.
    #[derive(Clone, Copy)]
    pub(crate) struct Copied<'a> {
        pub(crate) comm: &'a str,
        pub(crate) uids: [u32; 4],
        pub(crate) pids: &'a str,
        pub(crate) pid_namespace: &'a str,
        pub(crate) mount_namespace: &'a str,
        pub(crate) cgroup: &'a str,
        pub(crate) program: &'a str,
        pub(crate) line: &'a str,
    }

    /// A kubelet as kubeadm installs it.
    pub(crate) const KUBELET: Copied<'static> = Copied {
        comm: "kubelet",
        uids: [0; 4],
        pids: "7",
        pid_namespace: "pid:[1]",
        mount_namespace: "mnt:[1]",
        cgroup: "/system.slice/kubelet.service",
        program: "usr/bin/kubelet",
        line: "kubelet --v=2",
    };

    impl Table {
        pub(crate) fn new(name: &str) -> Self {
            // Two tests may copy the same process.
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("plegctl-trust-{name}-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = fs::remove_dir_all(&path);
            let table = Self(path);
            let first = Copied { comm: "systemd", program: "sbin/init", cgroup: "/init.scope", ..KUBELET };
            table.process(1, &first);
            table
        }

        pub(crate) fn process(&self, pid: u32, copied: &Copied<'_>) {
            let dir = self.proc().join(pid.to_string());
            for sub in ["ns", "task"] {
                fs::create_dir_all(dir.join(sub)).unwrap();
            }
            let [real, effective, saved, files] = copied.uids;
            let status = format!(
                "Name:\t{}\nUid:\t{real}\t{effective}\t{saved}\t{files}\nNSpid:\t{}\n",
                copied.comm, copied.pids
            );
            fs::write(dir.join("status"), status).unwrap();
            fs::write(dir.join("stat"), format!("{pid} ({}) S 1 0 0", copied.comm)).unwrap();
            fs::write(dir.join("comm"), format!("{}\n", copied.comm)).unwrap();
            fs::write(dir.join("cgroup"), format!("0::{}\n", copied.cgroup)).unwrap();
            fs::write(dir.join("cmdline"), copied.line.replace(' ', "\0")).unwrap();
            symlink(copied.pid_namespace, dir.join("ns/pid")).unwrap();
            symlink(copied.mount_namespace, dir.join("ns/mnt")).unwrap();
            let program = self.0.join(copied.program);
            fs::create_dir_all(program.parent().unwrap()).unwrap();
            fs::write(&program, "").unwrap();
            symlink(&program, dir.join("exe")).unwrap();
        }

        pub(crate) fn proc(&self) -> PathBuf {
            self.0.join("proc")
        }

        /// The decision of a plegctl that runs as `uid` on the process 7.
        fn seen_by(&self, uid: u32, role: Role) -> Result<(), Disqualification> {
            let trust = ProcessTrust::of_table(&self.proc()).seen_by(uid);
            trust.judge(&KernelDir::open(&self.proc().join("7")).unwrap(), role, true).map(drop)
        }
    }

    impl Drop for Table {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn verdict(uid: u32, role: Role, copied: &Copied<'_>) -> Result<(), Disqualification> {
        let table = Table::new(&format!("{uid}-{}", copied.program.replace('/', "-")));
        table.process(7, copied);
        table.seen_by(uid, role)
    }

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn roots_process_in_the_nodes_namespaces_counts_and_another_users_does_not() {
        assert_eq!(verdict(0, Role::Kubelet, &KUBELET), Ok(()));
        for role in [Role::Kubelet, Role::Daemon, Role::Shim] {
            let stranger = Copied { uids: [1000; 4], ..KUBELET };
            assert_eq!(verdict(0, role, &stranger), Err(Disqualification::User(1000)));
        }
        // A set-user-id program keeps the real user id of the user who started it.
        let lent = Copied { uids: [1000, 0, 0, 0], ..KUBELET };
        assert_eq!(verdict(0, Role::Kubelet, &lent), Err(Disqualification::User(1000)));
    }

    #[test]
    fn users_that_cannot_be_read_are_not_roots() {
        let table = Table::new("users");
        table.process(7, &KUBELET);
        for uids in ["0 0 0", "x 0 0 0 0", "0 0 0 0 0", "-1 0 0 0"] {
            fs::write(table.proc().join("7/status"), format!("Uid:\t{uids}\nNSpid:\t7\n")).unwrap();
            assert_eq!(table.seen_by(0, Role::Kubelet), Err(Disqualification::Unknown), "{uids}");
        }
    }

    #[test]
    fn root_in_a_container_does_not_count() {
        let cgroup = format!("/kubepods/burstable/podu-1/{ID}");
        let inside = Copied { pids: "7 1", pid_namespace: "pid:[2]", mount_namespace: "mnt:[2]", ..KUBELET };
        assert_eq!(verdict(0, Role::Kubelet, &inside), Err(Disqualification::PidNamespace));
        let host_pid = Copied { mount_namespace: "mnt:[2]", cgroup: &cgroup, ..KUBELET };
        assert_eq!(verdict(0, Role::Kubelet, &host_pid), Err(Disqualification::MountNamespace));
        // The cgroup shows a service, but below the cgroup of its own container.
        let nested = format!("{cgroup}/system.slice/kubelet.service");
        let nested = Copied { cgroup: &nested, ..host_pid };
        assert_eq!(verdict(0, Role::Kubelet, &nested), Err(Disqualification::MountNamespace));
    }

    #[test]
    fn a_service_with_mounts_of_its_own_counts() {
        let snap = Copied {
            comm: "kubelite",
            mount_namespace: "mnt:[2]",
            cgroup: "/system.slice/snap.microk8s.daemon-kubelite.service",
            program: "snap/microk8s/7/kubelite",
            ..KUBELET
        };
        assert_eq!(verdict(0, Role::Kubelet, &snap), Ok(()));
        let session = Copied { cgroup: "/user.slice/user-0.slice/session-1.scope", ..snap };
        assert_eq!(verdict(0, Role::Kubelet, &session), Err(Disqualification::MountNamespace));
    }

    #[test]
    fn set_user_id_program_is_never_a_kubelet() {
        let table = Table::new("lends");
        table.process(7, &KUBELET);
        let program = table.0.join(KUBELET.program);
        fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
        for role in [Role::Kubelet, Role::Daemon, Role::Shim] {
            assert_eq!(table.seen_by(0, role), Err(Disqualification::SetUserId));
        }
        let another = Copied { program: "usr/bin/sudo", ..KUBELET };
        assert!(matches!(verdict(0, Role::Kubelet, &another), Err(Disqualification::Program(_))));
        assert_eq!(verdict(0, Role::Daemon, &another), Ok(()), "a runtime has many programs");
    }

    #[test]
    fn cgroup_shows_a_container_if_namespaces_are_hidden() {
        let judge = |cgroup: &str, role| {
            let table = Table::new(&format!("hidden-{}", cgroup.len()));
            table.process(7, &Copied { cgroup, ..KUBELET });
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
            "a container's own cgroup of that name"
        );
        let session = "/user.slice/user-1000.slice/session-1.scope";
        assert_eq!(judge(session, Role::Kubelet), Err(Disqualification::Unknown));
    }

    #[test]
    fn plain_user_accepts_processes_of_root_and_own_processes_only() {
        let own = Copied {
            uids: [1000; 4],
            pids: "7 1",
            pid_namespace: "pid:[2]",
            mount_namespace: "mnt:[2]",
            cgroup: "/user.slice/user-1000.slice/user@1000.service/app.slice/k3s-rootless.service",
            ..KUBELET
        };
        assert_eq!(verdict(1000, Role::Kubelet, &own), Ok(()), "a rootless kubelet");
        assert_eq!(verdict(1001, Role::Kubelet, &own), Err(Disqualification::User(1000)));
        assert_eq!(verdict(1000, Role::Kubelet, &KUBELET), Ok(()), "root's");
        let cgroup = format!("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope");
        let contained = Copied { cgroup: &cgroup, ..own };
        assert_eq!(verdict(1000, Role::Kubelet, &contained), Err(Disqualification::Container));
    }

    #[test]
    fn facts_that_a_copy_lacks_do_not_disqualify_a_process() {
        let table = Table::new("bare");
        table.process(7, &KUBELET);
        for name in ["1", "7/ns", "7/status"] {
            let path = table.proc().join(name);
            if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
        }
        assert_eq!(table.seen_by(0, Role::Kubelet), Ok(()));
    }

    #[test]
    fn service_is_chosen_among_several_and_children_do_not_count() {
        let of = |pid, parent, is_service| KubeletCandidate { pid, parent, is_service, is_own: false };
        assert_eq!(KubeletChoice::among(&[]), KubeletChoice::Nobody);
        assert_eq!(KubeletChoice::among(&[of(7, 1, false)]), KubeletChoice::One(7));
        assert_eq!(KubeletChoice::among(&[of(3, 1, false), of(7, 1, true)]), KubeletChoice::One(7));
        assert_eq!(
            KubeletChoice::among(&[of(7, 1, true), of(9, 7, true)]),
            KubeletChoice::One(7),
            "forked, not yet another"
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
            "a rootless one of ours"
        );
    }
}
