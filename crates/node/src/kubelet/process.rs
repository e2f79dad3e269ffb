//! Finds the kubelet's process in a process table, reads its command line and files, and finds the node's name. A
//! process must qualify as the node's kubelet (`host::proc`) before its files are opened.

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::KubeletVersion;
use super::program::release_of_program;
use super::settings::{KubeletSettings, Setting};
use crate::host::proc::{
    Disqualification, KubeletCandidate, KubeletChoice, ProcSample, Process, ProcessStat, ProcessTrust, Role,
    StatTable, cgroup, is_service, waits_uninterruptibly,
};
use crate::host::{Arguments, HostRoot, KernelDir, ScalarsError, kernel_text};
use plegctl_base::report::load::load;

/// The largest certificate file that is read.
const LARGEST_CERTIFICATE: usize = 1 << 20;

/// A running kubelet, with its command line and configuration.
#[derive(Clone)]
pub struct KubeletProcess {
    /// The process id in the process table that was read.
    pub pid: u32,
    settings: KubeletSettings,
    certificate: Option<Vec<u8>>,
    /// Its directory in the process table.
    dir: Arc<KernelDir>,
}

impl fmt::Debug for KubeletProcess {
    /// Omits the certificate, because its file may contain the key too.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeletProcess")
            .field("pid", &self.pid)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// Reads the release of a kubelet from its program; `dir` is the directory of its process. A read can wait for a disk forever,
/// so call this in a thread that can be abandoned.
pub fn release_of_process(dir: &KernelDir) -> Option<KubeletVersion> {
    release_of_program(&dir.file("exe").ok()?)
}

impl KubeletProcess {
    /// Reads the files of the kubelet's process. A read can wait for a disk forever, so call this in a thread that
    /// can be abandoned.
    fn read(pid: u32, dir: KernelDir, arguments: Arguments, host: &HostRoot) -> Self {
        // A process in uninterruptible sleep has no arguments here: reading its command line could block.
        let cwd = if arguments.is_empty() { None } else { dir.link("cwd").ok() };
        let settings = KubeletSettings::read(arguments, cwd.as_deref(), host);
        let certificate = certificate(&settings, host);
        Self { pid, settings, certificate, dir: Arc::new(dir) }
    }

    /// Reads the release of the kubelet from its program. A read can wait for a disk forever, so call this in a thread
    /// that can be abandoned.
    pub fn program_release(&self) -> Option<KubeletVersion> {
        release_of_process(&self.dir)
    }

    /// Returns the certificate that the kubelet serves, as PEM; `None` if its file cannot be read.
    pub fn certificate(&self) -> Option<&[u8]> {
        self.certificate.as_deref()
    }

    /// Returns the port of a setting, or `default`. Port 0 means that the port is closed.
    pub fn port(&self, flag: &str, key: &str, default: u16) -> u16 {
        let settings = self.setting(flag, key).ok().flatten();
        settings.and_then(|port| port.value.parse().ok()).unwrap_or(default)
    }

    /// Returns the settings from the command line and the configuration files.
    pub fn settings(&self) -> &KubeletSettings {
        &self.settings
    }

    /// Returns the value of a flag; if the flag is repeated, the last value, as in the kubelet.
    pub fn flag(&self, name: &str) -> Option<&str> {
        self.settings.flag(name)
    }

    /// Returns a setting: the flag if present, otherwise the configuration key.
    pub fn setting(&self, flag: &str, key: &str) -> Result<Option<Setting>, Arc<ScalarsError>> {
        self.settings.setting(flag, key)
    }
}

/// The result of searching a process table for the kubelet.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// The kubelet, if one process qualifies, or if it is clear which of several processes is the node's kubelet.
    pub kubelet: Option<KubeletProcess>,
    /// Why processes with a kubelet's name do not qualify.
    pub refused: Vec<String>,
    /// Why processes in another PID namespace do not qualify. They belong to a node inside a container (kind,
    /// vcluster), so they need no warning.
    pub elsewhere: Vec<String>,
    /// The process table, if the search has read it.
    pub processes: Option<Arc<StatTable>>,
}

impl Search {
    /// Searches the process table at `proc` for the kubelet of the node with the root `host`. Files that a
    /// command line names are opened only after the process has qualified.
    pub fn of(proc: &Path, host: &HostRoot) -> Self {
        Self::among(named_like_a_kubelet(proc), proc, host)
    }

    /// Searches as [`Self::of`] does, and keeps the process table for a caller that needs all processes.
    pub fn with_processes(proc: &Path, host: &HostRoot) -> Self {
        let processes = StatTable::read(proc);
        let named = processes.stats.iter().filter(|(_, stat)| Role::of(&stat.comm) == Role::Kubelet);
        let named = named.map(|(pid, stat)| (*pid, stat.comm.clone())).collect();
        Self { processes: Some(Arc::new(processes)), ..Self::among(named, proc, host) }
    }

    fn among(named: Vec<(u32, String)>, proc: &Path, host: &HostRoot) -> Self {
        let mut found = Self::default();
        let trust = ProcessTrust::of_node(proc, host);
        let (choice, qualified) = choose(proc, named, &trust, |why, text| match why {
            Disqualification::PidNamespace => found.elsewhere.push(text),
            _ => found.refused.push(text),
        });
        match choice {
            KubeletChoice::Nobody => {}
            KubeletChoice::One(pid) => {
                let chosen = qualified.into_iter().find(|qualified| qualified.candidate.pid == pid);
                found.kubelet = chosen
                    .map(|qualified| KubeletProcess::read(pid, qualified.dir, qualified.arguments, host));
            }
            KubeletChoice::Several(pids) => found.refused.push(several(&pids)),
        }
        found
    }
}

/// Returns the process id of the kubelet in the process table at `proc`; `None` if no process qualifies, or if
/// several processes qualify and it is not clear which of them is the node's kubelet.
pub fn kubelet_pid(proc: &Path) -> Option<u32> {
    match choose(proc, named_like_a_kubelet(proc), &ProcessTrust::of_table(proc), |_, _| {}).0 {
        KubeletChoice::One(pid) => Some(pid),
        KubeletChoice::Nobody | KubeletChoice::Several(_) => None,
    }
}

/// Returns the processes that have a kubelet's name, in the order of their ids.
fn named_like_a_kubelet(proc: &Path) -> Vec<(u32, String)> {
    let Ok(table) = KernelDir::open(proc) else { return Vec::new() };
    let mut pids = table.numbered();
    pids.sort_unstable();
    let name = |pid: u32| {
        let comm = table.record(&format!("{pid}/comm")).ok()?;
        let comm = comm.trim_ascii_end();
        (Role::of(comm) == Role::Kubelet).then(|| (pid, comm.to_owned()))
    };
    pids.into_iter().filter_map(name).collect()
}

/// Chooses among the processes that qualify as a kubelet. Calls `refuse` for each process that has a kubelet's name
/// but does not qualify.
fn choose(
    proc: &Path,
    named: Vec<(u32, String)>,
    trust: &ProcessTrust,
    mut refuse: impl FnMut(Disqualification, String),
) -> (KubeletChoice, Vec<QualifiedProcess>) {
    let mut qualified: Vec<QualifiedProcess> = Vec::new();
    for (pid, comm) in named {
        match QualifiedProcess::check(pid, &comm, proc, trust) {
            Some(Ok(process)) => qualified.push(process),
            Some(Err((why, text))) => refuse(why, text),
            None => {}
        }
    }
    let candidates: Vec<KubeletCandidate> =
        qualified.iter().map(|process| process.candidate.clone()).collect();
    (KubeletChoice::among(&candidates), qualified)
}

/// Returns the message why none of several kubelets is chosen.
pub fn several(pids: &[u32]) -> String {
    let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
    format!(
        "several kubelets run here (pids {}), and plegctl cannot tell which is the node's",
        pids.join(", ")
    )
}

/// A process that qualifies as a kubelet.
struct QualifiedProcess {
    candidate: KubeletCandidate,
    dir: KernelDir,
    arguments: Arguments,
}

impl QualifiedProcess {
    /// Checks the process `pid`, which has a kubelet's name: `None` if it does not run a kubelet, `Err` if it does not
    /// qualify.
    fn check(
        pid: u32,
        comm: &str,
        proc: &Path,
        trust: &ProcessTrust,
    ) -> Option<Result<Self, (Disqualification, String)>> {
        let path = proc.join(pid.to_string());
        // Open the directory once, so that all reads are of the same process.
        let dir = KernelDir::open(&path).ok()?;
        let awake = !waits_uninterruptibly(&path);
        let bytes = if awake { dir.bytes("cmdline").unwrap_or_default() } else { Vec::new() };
        let arguments = Arguments::from_cmdline(&bytes);
        let stat = ProcessStat::parse(&dir.record("stat").unwrap_or_default());
        if !is_kubelet(comm, &arguments) || stat.as_ref().is_some_and(ProcessStat::is_zombie) {
            return None;
        }
        let is_own = match trust.judge(&dir, Role::Kubelet, awake) {
            Ok(is_own) => is_own,
            Err(why) => {
                let text = format!("{comm}[{pid}] does not count as the kubelet: {why}");
                return Some(Err((why, text)));
            }
        };
        let cgroups = dir.record("cgroup").unwrap_or_default();
        let is_service = is_service(cgroup::path_of(&cgroups).0);
        let parent = stat.map_or(0, |stat| stat.parent);
        let candidate = KubeletCandidate { pid, parent, is_service, is_own };
        Some(Ok(Self { candidate, dir, arguments }))
    }
}

/// Reads the certificate from the configured file, else from the default paths of the certificate that the cluster
/// renews, of the one that the kubelet created, and of k3s and RKE2.
fn certificate(settings: &KubeletSettings, host: &HostRoot) -> Option<Vec<u8>> {
    let named = settings.setting("tls-cert-file", "tlsCertFile").ok().flatten().map(|named| named.value);
    let folder = settings.flag("cert-dir").unwrap_or("/var/lib/kubelet/pki");
    let default_paths = [
        format!("{folder}/kubelet-server-current.pem"),
        format!("{folder}/kubelet.crt"),
        "/var/lib/rancher/k3s/agent/serving-kubelet.crt".to_owned(),
        "/var/lib/rancher/rke2/agent/serving-kubelet.crt".to_owned(),
    ];
    named.into_iter().chain(default_paths).find_map(|path| {
        let path = host.path(path);
        // A renewed certificate is a symbolic link with an absolute path, which must be resolved below the host root.
        let path = fs::read_link(&path).map_or(path, |to| host.path(to));
        load(&path, LARGEST_CERTIFICATE).ok()
    })
}

/// Returns the kubelet in a process table that was read before; `None` if there is none, or if it is not clear which
/// of several processes is the node's kubelet.
pub fn kubelet_of(sample: &ProcSample) -> Option<&Process> {
    match choice(sample) {
        KubeletChoice::One(pid) => sample.processes.get(&pid),
        KubeletChoice::Nobody | KubeletChoice::Several(_) => None,
    }
}

/// Returns why a kubelet may run here although none was found; `None` if a kubelet was found or clearly none runs.
pub fn doubt(sample: &ProcSample) -> Option<String> {
    match choice(sample) {
        KubeletChoice::One(_) => None,
        KubeletChoice::Several(pids) => Some(several(&pids)),
        KubeletChoice::Nobody => {
            let (process, why) = sample.impostors(Role::Kubelet).find(|(_, why)| why.may_be_genuine())?;
            Some(format!("{} does not count as the kubelet: {why}", process.label()))
        }
    }
}

fn choice(sample: &ProcSample) -> KubeletChoice {
    let alive = sample.with_role(Role::Kubelet).filter(|process| !process.is_zombie());
    let kubelets = alive.filter(|process| is_kubelet(&process.comm, &process.command));
    let candidates: Vec<KubeletCandidate> = kubelets
        .map(|process| KubeletCandidate {
            pid: process.pid,
            parent: process.parent,
            is_service: is_service(&process.cgroup),
            is_own: process.is_own,
        })
        .collect();
    KubeletChoice::among(&candidates)
}

/// Whether a program with this name runs a kubelet. For k3s and hyperkube, the first argument decides. If the
/// arguments cannot be read, the name decides.
fn is_kubelet(comm: &str, arguments: &Arguments) -> bool {
    let starts = |words: &[&str]| arguments.get(1).is_none_or(|first| words.contains(&first.as_str()));
    match comm {
        "k3s" => starts(&["server", "agent"]),
        "hyperkube" => starts(&["kubelet"]),
        _ => true,
    }
}

/// Returns the name that the kubelet gives to this node: its `--hostname-override`, otherwise the hostname, in lower
/// case.
///
/// Outside of containers, the kernel's hostname is preferred to the node's `/etc/hostname`. Inside a container, the
/// file is preferred, because a container has its own hostname.
pub fn node_name(settings: Option<&KubeletSettings>, host: &HostRoot, proc: &Path) -> Option<String> {
    if let Some(name) = settings.and_then(|settings| settings.flag("hostname-override")) {
        return non_empty(name);
    }
    let of_kernel = || non_empty(&kernel_text(&proc.join("sys/kernel/hostname")).ok()?);
    let of_file = || non_empty(&std::fs::read_to_string(host.path("/etc/hostname")).ok()?);
    if host.is_this_system(proc) { of_kernel().or_else(of_file) } else { of_file().or_else(of_kernel) }
}

fn non_empty(text: &str) -> Option<String> {
    let text = text.trim().to_lowercase();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::host::proc::copies::{KUBELET, ProcTable, TableProcess};

    /// A root with a process table; it is deleted when the test ends.
    struct Node(PathBuf);

    impl Node {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("plegctl-kubelet-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(path.join("proc/sys/kernel")).unwrap();
            Self(path)
        }

        /// Adds a process with two threads in these states.
        fn process(self, pid: u32, comm: &str, states: [char; 2], line: &str) -> Self {
            let directory = self.0.join(format!("proc/{pid}"));
            for (thread, state) in [pid, pid + 1].into_iter().zip(states) {
                let task = directory.join(format!("task/{thread}"));
                fs::create_dir_all(&task).unwrap();
                fs::write(task.join("stat"), format!("{thread} ({comm}) {state} 1 0 0")).unwrap();
            }
            fs::write(directory.join("stat"), format!("{pid} ({comm}) {} 1 0 0", states[0])).unwrap();
            fs::write(directory.join("comm"), format!("{comm}\n")).unwrap();
            fs::write(directory.join("cmdline"), line.replace(' ', "\0")).unwrap();
            self
        }

        fn file(self, path: &str, text: &str) -> Self {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            self
        }

        fn find(&self) -> Option<KubeletProcess> {
            Search::of(&self.0.join("proc"), &HostRoot::resolve(Some(&self.0))).kubelet
        }

        fn name(&self) -> Option<String> {
            let found = self.find();
            let settings = found.as_ref().map(KubeletProcess::settings);
            node_name(settings, &HostRoot::resolve(Some(&self.0)), &self.0.join("proc"))
        }
    }

    impl Drop for Node {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// The user ids of a process that another user runs.
    const OTHER_USER: [u32; 4] = [4_000_000; 4];

    fn search(table: &ProcTable) -> Search {
        Search::of(&table.proc(), &HostRoot::resolve(Some(&table.0)))
    }

    #[test]
    fn a_kubelet_of_another_user_is_not_chosen_even_with_a_lower_pid() {
        let table = ProcTable::new("lower").unwrap();
        let line = "kubelet --kubeconfig=/tmp/kc --hostname-override=evil";
        table.process(3, &TableProcess { uids: OTHER_USER, line, ..KUBELET }).unwrap();
        table.process(7, &TableProcess { line: "kubelet --hostname-override=n1", ..KUBELET }).unwrap();
        let found = search(&table);
        let kubelet = found.kubelet.unwrap();
        assert_eq!((kubelet.pid, kubelet.flag("hostname-override")), (7, Some("n1")));
        assert_eq!(found.refused, ["kubelet[3] does not count as the kubelet: it runs as user 4000000"]);
    }

    #[test]
    fn a_file_that_only_an_impostor_names_is_not_opened() {
        let table = ProcTable::new("names").unwrap();
        let impostors = [
            TableProcess { uids: OTHER_USER, ..KUBELET },
            TableProcess { mount_namespace: "mnt:[2]", cgroup: "/user.slice", ..KUBELET },
            TableProcess { namespace_pids: "7 1", ..KUBELET },
            TableProcess { program: "usr/bin/sudo", ..KUBELET },
        ];
        let secret = table.0.join("secret.yaml");
        fs::write(&secret, "staticPodPath: /found\n").unwrap();
        let line = format!("kubelet --config={} --tls-cert-file={0}", secret.display());
        for (pid, impostor) in (3..).zip(&impostors) {
            table.process(pid, &TableProcess { line: &line, ..*impostor }).unwrap();
        }
        let found = search(&table);
        assert!(found.kubelet.is_none());
        assert_eq!((found.refused.len(), found.elsewhere.len()), (3, 1), "{found:?}");
        // The same file is read for a kubelet that qualifies.
        table.process(9, &TableProcess { line: &line, ..KUBELET }).unwrap();
        let kubelet = search(&table).kubelet.unwrap();
        assert_eq!(kubelet.setting("x", "staticPodPath").unwrap().unwrap().value, "/found");
        assert!(kubelet.certificate().is_some());
    }

    #[test]
    fn two_equal_kubelets_are_reported_and_neither_is_chosen() {
        let table = ProcTable::new("two").unwrap();
        table.process(3, &KUBELET).unwrap();
        table.process(7, &KUBELET).unwrap();
        let found = search(&table);
        assert!(found.kubelet.is_none());
        assert_eq!(
            found.refused,
            ["several kubelets run here (pids 3, 7), and plegctl cannot tell which is the node's"]
        );
        // A kubelet that a user started in a login session is not the service.
        let table = ProcTable::new("hand").unwrap();
        table
            .process(3, &TableProcess { cgroup: "/user.slice/user-0.slice/session-1.scope", ..KUBELET })
            .unwrap();
        table.process(7, &KUBELET).unwrap();
        assert_eq!(search(&table).kubelet.unwrap().pid, 7);
    }

    #[test]
    fn a_relative_configuration_file_is_found_from_the_kubelets_directory() {
        let table = ProcTable::new("cwd").unwrap();
        table.process(7, &TableProcess { line: "kubelet --config=k.yaml", ..KUBELET }).unwrap();
        let unknown = search(&table).kubelet.unwrap();
        assert!(unknown.setting("pod-manifest-path", "staticPodPath").is_err(), "its directory is not known");
        fs::create_dir_all(table.0.join("var/lib/k")).unwrap();
        fs::write(table.0.join("var/lib/k/k.yaml"), "staticPodPath: /m\n").unwrap();
        std::os::unix::fs::symlink("/var/lib/k", table.proc().join("7/cwd")).unwrap();
        let kubelet = search(&table).kubelet.unwrap();
        assert_eq!(kubelet.setting("pod-manifest-path", "staticPodPath").unwrap().unwrap().value, "/m");
    }

    #[test]
    fn a_kubelet_is_found_under_every_name() {
        let lines = [
            ("kubelet", "/usr/bin/kubelet --v=2"),
            ("kubelite", "kubelite --v=2"),
            ("k3s-server", "k3s server --v=2"),
            ("k3s server", "k3s server --v=2"),
            ("k3s-agent", "k3s agent --v=2"),
            ("k3s", "k3s agent --v=2"),
            ("hyperkube", "hyperkube kubelet --v=2"),
        ];
        for (comm, line) in lines {
            let node = Node::new("names").process(7, comm, ['S', 'S'], line);
            assert_eq!(
                node.find().and_then(|found| found.flag("v").map(str::to_owned)).as_deref(),
                Some("2"),
                "{comm}"
            );
        }
    }

    #[test]
    fn a_process_that_only_has_the_name_is_not_a_kubelet() {
        for (comm, line) in
            [("k3s", "k3s kubectl get pods"), ("hyperkube", "hyperkube scheduler"), ("kubectl", "kubectl")]
        {
            assert!(Node::new("others").process(7, comm, ['S', 'S'], line).find().is_none(), "{line}");
        }
    }

    #[test]
    fn no_arguments_are_read_if_any_thread_is_in_uninterruptible_sleep() {
        let line = "kubelet --hostname-override=n1";
        for states in [['S', 'D'], ['D', 'S']] {
            let found = Node::new("waits").process(7, "kubelet", states, line).find().unwrap();
            assert_eq!((found.pid, found.flag("hostname-override")), (7, None), "{states:?}");
        }
        let found = Node::new("waits").process(7, "kubelet", ['S', 'R'], line).find().unwrap();
        assert_eq!(found.flag("hostname-override"), Some("n1"));
    }

    #[test]
    fn the_certificate_is_also_found_below_another_root() {
        let certificate = |node: &Node| {
            let found = node.find().unwrap();
            found.certificate().map(|text| String::from_utf8_lossy(text).into_owned())
        };
        let settings = "kubelet --tls-cert-file=/etc/kubelet.pem --port=10260";
        let node =
            Node::new("pki").process(7, "kubelet", ['S', 'S'], settings).file("etc/kubelet.pem", "settings");
        assert_eq!(certificate(&node).as_deref(), Some("settings"));
        let running = node.find().unwrap();
        assert_eq!((running.port("port", "port", 10250), running.port("x", "x", 10248)), (10260, 10248));
        assert!(!format!("{running:?}").contains("certificate"), "its file may have the key too");

        let node = || Node::new("pki").process(7, "kubelet", ['S', 'S'], "kubelet --v=2");
        assert_eq!(certificate(&node()), None);
        assert_eq!(
            certificate(&node().file("var/lib/kubelet/pki/kubelet.crt", "own")).as_deref(),
            Some("own")
        );
        let renewed = node().file("var/lib/kubelet/pki/kubelet-server-2026.pem", "renewed");
        let link = renewed.0.join("var/lib/kubelet/pki/kubelet-server-current.pem");
        std::os::unix::fs::symlink("/var/lib/kubelet/pki/kubelet-server-2026.pem", link).unwrap();
        assert_eq!(certificate(&renewed).as_deref(), Some("renewed"));
    }

    #[test]
    fn the_override_has_priority_over_the_kernels_name_and_the_kernels_name_over_the_file() {
        let this_system = |node: Node| {
            for process in ["self", "1"] {
                fs::create_dir_all(node.0.join(format!("proc/{process}/ns"))).unwrap();
                std::os::unix::fs::symlink("uts:[1]", node.0.join(format!("proc/{process}/ns/uts"))).unwrap();
            }
            node
        };
        let node =
            || Node::new("name").file("etc/hostname", "File\n").file("proc/sys/kernel/hostname", "Kernel\n");
        assert_eq!(
            node().name().as_deref(),
            Some("file"),
            "in a container, the kernel's name is the container's"
        );
        assert_eq!(this_system(node()).name().as_deref(), Some("kernel"));
        let named =
            this_system(node()).process(7, "kubelet", ['S', 'S'], "kubelet --hostname-override N1 --v=2");
        assert_eq!(named.name().as_deref(), Some("n1"));
        assert_eq!(Node::new("name").name(), None);
    }
}
