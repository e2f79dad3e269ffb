//! The signatures ST01 to ST22, which describe known causes in a dump, and the waits that are normal.
//!
//! A pattern lists frames from the caller to the innermost; each must appear in this order, and other frames may be
//! between them. `a|b` matches either name, a name that begins with `^` must be the innermost frame outside the Go
//! runtime, and `@chan send` at the end of the last name requires that goroutine state.

use super::daemon::Daemon;
use super::dump::Goroutine;
use super::wait;
use crate::report::{Rule, Severity};

/// Frames from the caller to the innermost.
type Frames = &'static [&'static str];

/// One row of the catalogue.
pub struct SignatureRow {
    /// The id, the title and the explanation.
    pub rule: Rule,
    /// The severity, unless the finding is only possible.
    pub severity: Severity,
    /// The programs whose dumps may contain it.
    pub daemons: &'static [Daemon],
    /// Patterns of the goroutines that wait for something outside the process: the cause.
    roots: &'static [Frames],
    /// Patterns of the goroutines that wait behind the cause, if no address shows that.
    queue: &'static [Frames],
    /// The calls that hang.
    pub hangs: &'static str,
    /// Public issue threads.
    threads: &'static [&'static str],
    /// The number of minutes after which a wait is longer than its caller wanted.
    patience_minutes: u32,
}

/// A signature from the catalogue or from a file, with parsed patterns.
#[derive(Clone, Debug)]
pub struct Signature {
    /// `ST01`
    pub id: String,
    /// The title.
    pub title: String,
    /// The severity, unless the finding is only possible.
    pub severity: Severity,
    /// The programs whose dumps may contain it; empty means all.
    pub daemons: Vec<Daemon>,
    /// Patterns of the cause.
    pub roots: Vec<Pattern>,
    /// Patterns of the goroutines that wait behind the cause.
    pub queue: Vec<Pattern>,
    /// The calls that hang.
    pub hangs: String,
    /// What the user can do.
    pub act: Vec<String>,
    /// Public issue threads.
    pub threads: Vec<String>,
    /// The number of minutes after which a wait is longer than its caller wanted.
    pub patience_minutes: u32,
}

/// The frames of a pattern, from the caller to the innermost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    frames: Vec<FramePattern>,
    state: Option<String>,
}

/// One frame of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FramePattern {
    any: Vec<String>,
    innermost: bool,
}

impl Pattern {
    /// Parses the frames of a pattern.
    pub fn new(frames: &[&str]) -> Self {
        let mut state = None;
        let wanted_frame = |text: &&str| {
            let (innermost, text) = text.strip_prefix('^').map_or((false, *text), |rest| (true, rest));
            let text = text.split_once('@').map_or(text, |(name, wanted)| {
                state = Some(wanted.to_owned());
                name
            });
            FramePattern { any: text.split('|').map(str::to_owned).collect(), innermost }
        };
        let frames = frames.iter().map(wanted_frame).collect();
        Self { frames, state }
    }

    /// Whether `goroutine` matches the pattern.
    pub fn matches(&self, goroutine: &Goroutine) -> bool {
        if self.state.as_ref().is_some_and(|state| *state != *goroutine.state) {
            return false;
        }
        let innermost = wait::innermost_frame(goroutine);
        let mut wanted = self.frames.iter().peekable();
        for (depth, frame) in goroutine.frames.iter().enumerate().rev() {
            // Each frame matches at most one frame of the pattern: the next one.
            if let Some(wanted_frame) = wanted.peek()
                && (!wanted_frame.innermost || depth == innermost)
                && wanted_frame.any.iter().any(|name| frame.function.contains(name.as_str()))
            {
                wanted.next();
            }
        }
        wanted.peek().is_none()
    }
}

impl From<&SignatureRow> for Signature {
    fn from(row: &SignatureRow) -> Self {
        let patterns = |frames: &[Frames]| frames.iter().map(|frames| Pattern::new(frames)).collect();
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Self {
            id: row.rule.id.to_owned(),
            title: row.rule.title.to_owned(),
            severity: row.severity,
            daemons: row.daemons.to_vec(),
            roots: patterns(row.roots),
            queue: patterns(row.queue),
            hangs: row.hangs.to_owned(),
            act: owned(row.rule.act),
            threads: owned(row.threads),
            patience_minutes: row.patience_minutes,
        }
    }
}

/// All signatures of the catalogue; a cause comes before its effects.
pub fn signatures() -> Vec<Signature> {
    MATCHING_ORDER
        .iter()
        .filter_map(|id| SIGNATURES.iter().find(|row| row.rule.id == *id))
        .map(Signature::from)
        .collect()
}

/// The rules that `explain` shows.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    SIGNATURES.iter().map(|row| &row.rule)
}

/// The order of matching. A goroutine belongs to the first signature that matches: special ones before general ones,
/// causes before effects.
const MATCHING_ORDER: &[&str] = &[
    "ST10", "ST16", "ST17", "ST18", "ST21", "ST08", "ST05", "ST04", "ST11", "ST09", "ST01", "ST03", "ST06",
    "ST02", "ST12", "ST22", "ST14", "ST13", "ST15", "ST07", "ST19",
];

/// The signature of a lock for which many goroutines wait and which no other signature explains.
pub const LOCK: &str = "ST20";

/// Frames of long waits that block nothing and are always there.
const NORMAL: &[Frames] = &[
    &["process.(*Init).Wait"],
    &["client.(*task).Wait|containerd.(*task).Wait"],
    &["askClient).Wait"],
    &["(*service).Wait|(*local).Wait|sandboxService).WaitSandbox|andboxClient).WaitSandbox"],
    &["GetContainerEvents", "^GetContainerEvents"],
    &["(*ContainerIO)|cio.copyIO|io.NewCRILogger|redirectLogs"],
    &["grpc.(*Server).Serve"],
    &["ttrpc.(*Server).Serve"],
    &["v2.(*ShimManager).loadShims|(*shim).loadShim"],
];

/// Whether a goroutine waits as it does in a healthy daemon.
pub fn is_normal(goroutine: &Goroutine, normal: &[Pattern]) -> bool {
    normal.iter().any(|pattern| pattern.matches(goroutine))
}

/// The normal waits as patterns.
pub fn normal() -> Vec<Pattern> {
    NORMAL.iter().map(|frames| Pattern::new(frames)).collect()
}

/// Public issue threads whose frames may appear in a finding, each with the frames.
pub const THREADS: &[(Frames, &str)] = &[
    (&["statusStorage)."], "containerd#9770"),
    (&["statusStorage).UpdateSync|statusStorage).Update"], "containerd#12680"),
    (&["askClient).State", "ttrpc.(*Client).dispatch"], "containerd#1882"),
    (&["askClient).Kill", "ttrpc.(*Client).dispatch"], "containerd#3572"),
    (&["bbolt.(*DB).beginRWTx"], "containerd#8979"),
    (&["bbolt.(*DB).beginRWTx"], "buildkit#3743"),
    (&["snapshotter).Walk", "bbolt."], "containerd#1724"),
    (&["WithUser", "umount|Unmount"], "containerd#4485"),
    (&["cgroups", "go-metrics.(*Namespace).WithConstLabels"], "containerd#11233"),
    (&["adaptation.(*plugin).StateChange"], "containerd#13733"),
    (&["nri.(*local)."], "containerd#10085"),
    (&["ExecSync", "fifo."], "containerd#9668"),
    (&["go-cni.(*libcni)", "sync.(*RWMutex).RLock"], "go-cni#126"),
    (&["(*task).Start", "fifo.openFifo"], "containerd#4905"),
    (&["task.(*service).handleProcessExit"], "containerd#9103"),
    (&["reaper.Reap|reaper.reap"], "moby#40145"),
    (&["oci.(*runtimeOCI).UpdateContainerStatus"], "cri-o#9406"),
    (&["oci.(*runtimeOCI).UpdateContainerStatus"], "cri-o#9754"),
    (&["oci.(*Container).WaitOnStopTimeout"], "cri-o#8030"),
    (&["cri-o/internal/nri.(*local)"], "cri-o#10352"),
    (&["cri-o/internal/nri.(*local)"], "cri-o#9835"),
    (&["lockfile.", "LayerStore"], "cri-o#5772"),
    (&["GenericPLEG).", "PodSandboxStatus"], "kubernetes#98044"),
    (&["GenericPLEG).", "PodSandboxStatus"], "kubernetes#45419"),
    (&["cleanupOrphanedPodDirs"], "kubernetes#100178"),
    (&["cleanupOrphanedPodDirs"], "kubernetes#101622"),
    (&["getVfsStats"], "kubernetes#122491"),
    (&["startJob", "godbus"], "runc#1959"),
    (&["startJob", "godbus"], "runc#3904"),
    (&["godbus", "(*Object).Call"], "godbus#221"),
    (&["syscall.forkExec", "sync.(*RWMutex).Lock"], "go#26836"),
];

const CONTAINERD: &[Daemon] = &[Daemon::Containerd];
const RUNTIMES: &[Daemon] = &[Daemon::Containerd, Daemon::Crio];
const CRIO: &[Daemon] = &[Daemon::Crio];
const KUBELET: &[Daemon] = &[Daemon::Kubelet];

const SHIM_CALLS: &str = "askClient).State|askClient).Kill|askClient).Stats|askClient).Exec|askClient).Delete|askClient).Create|askClient).Start|askClient).Update|askClient).Pids|askClient).Connect|askClient).Shutdown|askClient).Pause|askClient).Resume|askClient).CloseIO|askClient).ResizePty|andboxClient).SandboxStatus|andboxClient).StopSandbox|andboxClient).StartSandbox|andboxClient).SandboxMetrics|andboxClient).CreateSandbox|andboxClient).ShutdownSandbox";

/// Functions that access a file system.
const DISK: &str = "syscall.pwrite|syscall.write|syscall.Fsync|syscall.Fdatasync|unix.Fdatasync|syscall.Mkdirat|syscall.Renameat|syscall.openat|syscall.unlinkat|syscall.Ftruncate|unix.Pwrite|unix.Write|unix.Fsync|unix.Syncfs|unix.Mkdirat|unix.Renameat|unix.Openat|unix.Unlinkat|unix.Ftruncate";

/// The import paths of CRI-O's image and layer store, the older and the newer one.
const STORAGE: &str = "github.com/containers/storage|go.podman.io/storage";

/// The advice when one dump is not enough.
pub const TWO_DUMPS: &str =
    "take a second dump a minute later and pass both to `plegctl stacks`: it shows what is stuck in both";

/// The values that most signatures have.
const WARNING: SignatureRow = SignatureRow {
    rule: Rule { id: "", title: "", means: "", shows: "", confirm: &[], never: &[], act: &[] },
    severity: Severity::Warning,
    daemons: &[],
    roots: &[],
    queue: &[],
    hangs: "",
    threads: &[],
    patience_minutes: 1,
};

/// ST01 to ST22.
pub const SIGNATURES: &[SignatureRow] = &[
    SignatureRow {
        rule: Rule {
            id: "ST01",
            title: "one container's status lock is held by a resource update that waits for its shim",
            means: "ListContainers needs the status lock of every container. So one container whose update does not return blocks ListContainers for every client, and blocks PLEG. The lock itself works.",
            shows: "UpdateContainerResources → statusStorage.UpdateSync → ttrpc dispatch (of State or Update) in one goroutine; ListContainers and all calls for that container in statusStorage.Get.",
            confirm: &[
                "look at the state of the container's shim: stopped (T), in the kernel (D), or gone",
                "a live dump names the container and its shim",
            ],
            never: &[
                "that the runtime is deadlocked",
                "that a restart of the runtime is the first thing to do: the shim stays as it is",
            ],
            act: &[
                "examine the shim, not the lock: `cat /proc/PID/status` and, as root, `/proc/PID/stack`",
                "a stopped shim goes on with `kill -CONT PID` (changes state)",
                "if it never answers, kill that one shim: its pod is restarted (changes state)",
            ],
        },
        severity: Severity::Critical,
        daemons: CONTAINERD,
        roots: &[&["UpdateContainerResources", "statusStorage).Update", "ttrpc.(*Client).dispatch"]],
        queue: &[&["statusStorage).Get", "sync.(*RWMutex).RLock"]],
        hangs: "ListContainers for every client, and every call for that container",
        threads: &["containerd#9770", "containerd#12680"],
        ..WARNING
    },
    SignatureRow {
        rule: Rule {
            id: "ST02",
            title: "a shim does not answer",
            means: "Calls for the containers of one pod wait for that pod's shim; no lock is held, so other pods are served. Stats of all wait with it.",
            shows: "Callers in ttrpc dispatch under State, Kill, Stats, Exec, Delete, Create or Start, all with the same client.",
            confirm: &[
                "look at the shim's state in /proc",
                "take a dump of the shim itself: it often waits for the OCI runtime (ST06)",
                TWO_DUMPS,
            ],
            never: &[
                "that the shim is at fault: it may wait for runc, or be stopped",
                "anything from Wait calls and exit monitors: they wait as long as a container lives",
            ],
            act: &[
                "find the shim of that pod and look at its state and its children",
                "kill what it waits for before you kill the shim (changes state)",
            ],
        },
        daemons: CONTAINERD,
        roots: &[&[SHIM_CALLS, "ttrpc.(*Client).dispatch"]],
        hangs: "calls for that pod; stats of all pods",
        threads: &["containerd#1882", "containerd#3572"],
        ..WARNING
    },
    SignatureRow {
        rule: Rule {
            id: "ST03",
            title: "a CNI plugin does not end",
            means: "RunPodSandbox and StopPodSandbox wait for a network plugin's process. Where a reload of the network configuration queues behind them, Status queues behind that, and the node turns NotReady for its network.",
            shows: "go-cni Setup or Remove (CRI-O: ocicni) → invoke.ExecPlugin → exec.Cmd.Wait.",
            confirm: &[
                "the plugin is a child of the runtime: `ps -o pid,stat,etime,args --ppid RUNTIME`",
                TWO_DUMPS,
            ],
            never: &[
                "that it blocks PLEG: list calls need no lock that it holds",
                "that the runtime is at fault",
            ],
            act: &[
                "find out what the plugin waits for: its log, its daemon's socket",
                "a grandchild may hold the plugin's output open after it was killed: look for it too",
            ],
        },
        daemons: RUNTIMES,
        roots: &[&["cni", "invoke.(*RawExec).ExecPlugin", "os/exec.(*Cmd).Wait|os.(*Process).wait"]],
        queue: &[
            &["go-cni.(*libcni)", "sync.(*RWMutex)"],
            &["ocicni", "sync.(*RWMutex)"],
            &["getResourceOrWait"],
        ],
        hangs: "RunPodSandbox, StopPodSandbox; then Status, so NetworkReady",
        threads: &["go-cni#126"],
        ..WARNING
    },
    SignatureRow {
        rule: Rule {
            id: "ST04",
            title: "the metadata database cannot write",
            means: "The file system under the runtime's root does not take writes: one transaction is stuck in it and all others queue. In containerd 1.7 an exit handler may hold a container's status lock meanwhile, and then lists hang too.",
            shows: "bbolt.(*Tx).Commit → pwrite or fdatasync in one goroutine; bbolt.(*DB).beginRWTx in others; mkdir, open or rename below the root in more.",
            confirm: &[
                "`/proc/PID/fd` says which file it is, its mount which disk",
                "I/O pressure and D state: plegctl health",
            ],
            never: &[
                "that the database is corrupt",
                "that the disk is broken: it may be full, throttled or frozen",
            ],
            act: &["look at that file system: full, frozen (fsfreeze), throttled, failing", TWO_DUMPS],
        },
        daemons: CONTAINERD,
        roots: &[
            &["bbolt.(*Tx).Commit", DISK],
            &["bbolt.(*DB)", "bbolt.(*Tx).write|bbolt.(*Tx).Commit|bbolt.fdatasync"],
            &["statusStorage).UpdateSync", DISK],
            // containerd 2 removes a bundle before it takes the status lock.
            &["handleContainerExit|handleSandboxExit|v2.NewBundle|v2.(*Bundle)|v2.atomicDelete", DISK],
        ],
        queue: &[&["bbolt.(*DB).beginRWTx"]],
        hangs: "creates and removes; sometimes ListContainers",
        threads: &["containerd#8979", "buildkit#3743"],
        ..WARNING
    },
    SignatureRow {
        rule: Rule {
            id: "ST05",
            title: "the snapshotter cannot write",
            means: "Garbage collection of snapshots is stuck in a write and holds the snapshotter's lock.",
            shows: "metadata.(*snapshotter).garbageCollect or pruneBranch → Remove → Commit → write; its lock in Prepare and Remove; gcScheduler in WaitGroup.",
            confirm: &["`/proc/PID/fd` says which file it is", TWO_DUMPS],
            never: &["that garbage collection is at fault"],
            act: &["look at the file system below the snapshotter's root"],
        },
        daemons: CONTAINERD,
        roots: &[&[
            "metadata.(*snapshotter).garbageCollect|metadata.(*snapshotter).pruneBranch",
            "Commit|Remove",
            DISK,
        ]],
        queue: &[&["metadata.(*snapshotter)", "sync.(*RWMutex)"]],
        hangs: "CreateContainer, RunPodSandbox, RemovePodSandbox",
        threads: &["containerd#1724"],
        ..WARNING
    },
    SignatureRow {
        rule: Rule {
            id: "ST06",
            title: "the OCI runtime's process does not return",
            means: "An OCI runtime (runc, crun) was started and does not end. Meanwhile the shim holds its container's lock, so State, Stats and Delete wait, and containerd sees a silent shim. In CRI-O, the process runs under the container's operation lock, and ContainerStats holds the single lock of all stats.",
            shows: "Shim: go-runc Create, Start, Kill or Exec → reaper.(*Monitor).Wait. CRI-O: oci.(*runtimeOCI).runtimeCmd → exec.Cmd.Wait; of a create oci.(*runtimeOCI).CreateContainer in select.",
            confirm: &[
                "the OCI runtime is a child of the shim, of conmon or of CRI-O: look at its age and state",
                TWO_DUMPS,
            ],
            never: &["that the shim is at fault", "anything from a young process: a create takes a moment"],
            act: &[
                "find out what it waits for: `/proc/PID/stack` as root",
                "killing the hung OCI runtime often frees the node (changes state)",
            ],
        },
        daemons: &[Daemon::ContainerdShim, Daemon::Crio],
        roots: &[
            &[
                "go-runc.(*Runc).Create|go-runc.(*Runc).Start|go-runc.(*Runc).Kill|go-runc.(*Runc).Exec|go-runc.(*Runc).Delete|go-runc.(*Runc).Update|go-runc.(*Runc).State|go-runc.(*Runc).Pause|go-runc.(*Runc).Resume",
                "reaper.(*Monitor).Wait",
            ],
            &[
                "oci.(*runtimeOCI).runtimeCmd|oci.(*runtimeOCI).UpdateContainerStatus",
                "os/exec.(*Cmd).Wait|os.(*Process).wait",
            ],
            &["oci.(*runtimeOCI).ExecSyncContainer", "os/exec.(*Cmd).Wait|os.(*Process).wait"],
            // CRI-O lets conmon run the create command and waits for conmon's report.
            &["_Handler", "^oci.(*runtimeOCI).CreateContainer"],
        ],
        queue: &[
            &["process.(*Init)", "sync.(*Mutex).Lock"],
            &["task.(*service)", "sync.(*Mutex).Lock"],
            &["statsserver.(*StatsServer)", "sync.(*Mutex).Lock"],
            &["oci.(*Container)", "sync.(*RWMutex)"],
        ],
        hangs: "start, stop, exec and stats of that container; with CRI-O stats of all",
        threads: &["cri-o#9406", "cri-o#9754"],
        ..WARNING
    },
    SignatureRow {
        rule: Rule {
            id: "ST07",
            title: "an image pull waits for its registry",
            means: "This does not affect PLEG: a registry accepted the connection and does not answer.",
            shows: "PullImage → http roundTrip or getConn.",
            confirm: &["query the registry from this node"],
            never: &["that the runtime hangs", "that PLEG suffers"],
            act: &["look at the registry, the proxy and the pull's time-out"],
        },
        severity: Severity::Info,
        daemons: RUNTIMES,
        roots: &[&[
            "PullImage",
            "net/http.(*persistConn).roundTrip|net/http.(*Transport).getConn|net.(*netFD).connect",
        ]],
        hangs: "PullImage of that image",
        ..WARNING
    },
    SignatureRow {
        rule: Rule {
            id: "ST08",
            title: "a reader of the event stream does not read",
            means: "The stream's window is full, and the queue of events behind it blocks every publisher: pods can be neither created nor stopped.",
            shows: "GetContainerEvents → SendMsg → writeQuota.get; EventQueue.Send under RunPodSandbox, StopPodSandbox and exit handlers.",
            confirm: &["who is connected to the socket: `ss -xp`", TWO_DUMPS],
            never: &["that the kubelet is the reader that has stopped"],
            act: &["end the reader that does not read (changes state)"],
        },
        severity: Severity::Critical,
        daemons: RUNTIMES,
        roots: &[&["GetContainerEvents", "SendMsg", "writeQuota).get"]],
        queue: &[&["EventQueue[...]).Send|EventQueue).Send|generateAndSendContainerEvent"]],
        hangs: "RunPodSandbox, StopPodSandbox: pods are neither created nor removed",
        ..WARNING
    },
    SignatureRow {
        rule: Rule {
            id: "ST09",
            title: "an NRI plugin does not answer",
            means: "One call waits for a plugin and holds the single lock of all NRI calls. So all creates and stops wait, while list calls and status calls are answered. Two locks that are taken in opposite orders look the same.",
            shows: "nri.(*local).RunPodSandbox → adaptation → ttrpc dispatch; others at the mutex of nri.(*local).",
            confirm: &["which plugins are there: /opt/nri/plugins, /etc/nri", TWO_DUMPS],
            never: &["that a shim is at fault, though the frame below is ttrpc's too"],
            act: &[
                "look at the plugin's process and its log",
                "stopping the plugin frees the lock (changes state)",
            ],
        },
        daemons: RUNTIMES,
        roots: &[&[
            "nri.(*local)",
            "adaptation.(*plugin)|adaptation.(*Adaptation)",
            "ttrpc.(*Client).dispatch",
        ]],
        queue: &[&["nri.(*local)", "sync.(*Mutex).Lock"]],
        hangs: "creates and stops of everybody; lists still answer",
        threads: &["containerd#13733", "containerd#10085", "cri-o#10352", "cri-o#9835"],
        ..WARNING
    },
    SignatureRow {
        rule: Rule {
            id: "ST10",
            title: "the CRI service waits for an NRI plugin to register",
            means: "containerd does not serve the CRI before its NRI plugins have registered: all calls are refused as not initialized.",
            shows: "criService.Run → Adaptation.startPlugins → plugin.start.",
            confirm: &["calls are refused with `server is not initialized yet`"],
            never: &["that the runtime is starting up as it should"],
            act: &["look at the plugins in /opt/nri/plugins"],
        },
        severity: Severity::Critical,
        daemons: CONTAINERD,
        roots: &[&["criService).Run", "adaptation.(*Adaptation).startPlugins", "adaptation.(*plugin).start"]],
        hangs: "all calls are refused",
        ..WARNING
    },
    SignatureRow {
        rule: Rule {
            id: "ST11",
            title: "CRI-O's image or layer store cannot write",
            means: "The file system below containers/storage does not take writes while the store's lock is held.",
            shows: "Any frame of containers/storage above a write, sync, mkdir, open, rename or unlink, such as layerStore.saveLayers → LockFile.RecordWrite → unix.Pwrite; others at the lock of layers or images.",
            confirm: &["`/proc/PID/fd` says which file it is", TWO_DUMPS],
            never: &[
                "that the store is corrupt",
                "anything from one write of an image pull: a large layer takes its time",
            ],
            act: &["look at the file system below /var/lib/containers"],
        },
        daemons: CRIO,
        roots: &[&[STORAGE, DISK]],
        queue: &[&[STORAGE, "sync.(*RWMutex)|sync.(*Mutex)"]],
        hangs: "RunPodSandbox, CreateContainer, ListImages, ImageStatus",
        threads: &["cri-o#5772"],
        ..WARNING
    },
    SignatureRow {
        rule: Rule {
            id: "ST12",
            title: "conmon does not answer, or a container does not stop",
            means: "CRI-O waits for conmon, or for a container that has not ended in its grace period. Ages rarely help: a stop may take as long as its caller allows, and calls that wait for a lost exit end after seconds and start again.",
            shows: "ReopenContainerLog waiting for conmon; several waitForExitFile with one container's address; StopLoopForContainer in BackoffUntil, which is after the kill; WaitOnStopTimeout for longer than the time-out that StopContainer has as its last argument.",
            confirm: &["look at the container's conmon and at its init process", TWO_DUMPS],
            never: &["anything about a stop that is still within its grace period"],
            act: &[
                "look at the container's conmon: in state T, continue it with `kill -CONT PID` (changes state)",
                "check whether the container's processes are in D state",
            ],
        },
        daemons: CRIO,
        roots: &[
            &["ReopenContainerLog_Handler", "oci.(*runtimeOCI).ReopenContainerLog"],
            &["waitForExitFile"],
            &["WaitOnStopTimeout|StopLoopForContainer"],
        ],
        hangs: "log rotation, stops; lists answer",
        threads: &["cri-o#8030"],
        patience_minutes: 20,
        ..WARNING
    },
    SignatureRow {
        rule: Rule {
            id: "ST13",
            title: "the kubelet's PLEG waits for the runtime",
            means: "A relist waits for the runtime's answer; the frame names the call. The sync loop, garbage collection, eviction and log rotation may wait for the same.",
            shows: "GenericPLEG relist → runtimeServiceClient.X → RecvMsg.",
            confirm: &[
                "the runtime's own dump shows the reason: look for the same call there",
                "`plegctl health` asks the runtime the same",
            ],
            never: &[
                "that the kubelet is at fault",
                "anything from a short age: each call ends after the kubelet's two minutes and begins anew",
            ],
            act: &["`plegctl health`", "take the runtime's dump: `plegctl stacks` says from where"],
        },
        severity: Severity::Critical,
        daemons: KUBELET,
        roots: &[&["GenericPLEG)", "runtimeServiceClient)."]],
        queue: &[&[
            "HandlePodCleanups|containerGC)|eviction.|containerLogManager)|criStatsProvider)",
            "runtimeServiceClient).",
        ]],
        hangs: "the kubelet's own view of the node",
        threads: &["kubernetes#98044", "kubernetes#45419"],
        ..WARNING
    },
    SignatureRow {
        rule: Rule {
            id: "ST14",
            title: "the kubelet's sync loop waits, PLEG does not",
            means: "PLEG is healthy, but nothing happens: the sync loop, which acts on its events, is blocked in a mount or in a call.",
            shows: "syncLoopIteration or HandlePodCleanups → stat, umount or a call to the runtime.",
            confirm: &["`/healthz/syncloop` of the kubelet", TWO_DUMPS],
            never: &["that PLEG is at fault"],
            act: &["look at what the innermost frame waits for: a dead mount, or the runtime"],
        },
        severity: Severity::Critical,
        daemons: KUBELET,
        roots: &[
            &["syncLoopIteration|HandlePodCleanups", "runtimeServiceClient)."],
            &["syncLoopIteration|HandlePodCleanups", "stat|umount|Unmount"],
        ],
        hangs: "the kubelet starts no new pods and kills no removed ones",
        ..WARNING
    },
    SignatureRow {
        rule: Rule {
            id: "ST15",
            title: "the kubelet's pod workers wait, PLEG does not",
            means: "Some pods wait for the runtime to create or to stop them; the others go on.",
            shows: "podWorkerLoop → RunPodSandbox, StopPodSandbox or StopContainer.",
            confirm: &["the runtime's own dump says why", TWO_DUMPS],
            never: &["that the kubelet is at fault", "that PLEG is concerned"],
            act: &["take the runtime's dump: `plegctl stacks` says from where"],
        },
        daemons: KUBELET,
        roots: &[&[
            "podWorkerLoop|killContainersWithSyncResult",
            "runtimeServiceClient).RunPodSandbox|runtimeServiceClient).StopPodSandbox|runtimeServiceClient).StopContainer|runtimeServiceClient).CreateContainer|runtimeServiceClient).StartContainer|runtimeServiceClient).RemovePodSandbox|runtimeServiceClient).UpdateContainerResources",
        ]],
        hangs: "those pods only",
        ..WARNING
    },
    SignatureRow {
        rule: Rule {
            id: "ST16",
            title: "a dead network mount below the kubelet",
            means: "A stat of a directory whose server does not answer never returns.",
            shows: "IsLikelyNotMountPoint or cleanupOrphanedPodDirs → fstatat; cAdvisor's getVfsStats → Statfs.",
            confirm: &["the kubelet has a thread in D state; its mountinfo names the server"],
            never: &["that every pod with such a volume is at fault"],
            act: &["bring the server back, or unmount by force (changes state)"],
        },
        severity: Severity::Critical,
        daemons: KUBELET,
        roots: &[
            &["cleanupOrphanedPodDirs|IsLikelyNotMountPoint", "fstatat|Stat"],
            &["getVfsStats", "Statfs"],
        ],
        hangs: "the sync loop, stats",
        threads: &["kubernetes#100178", "kubernetes#101622", "kubernetes#122491"],
        ..WARNING
    },
    SignatureRow {
        rule: Rule {
            id: "ST17",
            title: "systemd or D-Bus does not answer",
            means: "Creating a pod's cgroup waits for systemd.",
            shows: "startJob → godbus.(*Object).Call.",
            confirm: &["`systemctl is-system-running` answers at once on a healthy node"],
            never: &["this where the cgroup driver is cgroupfs"],
            act: &["look at systemd: its CPU, its jobs, D-Bus"],
        },
        roots: &[&["startJob|StartTransientUnit|SetUnitProperties|StopUnit", "(*Object).Call"]],
        hangs: "pod cgroups, so pod creation",
        threads: &["runc#1959", "runc#3904", "godbus#221"],
        ..WARNING
    },
    SignatureRow {
        rule: Rule {
            id: "ST18",
            title: "an unmount does not end",
            means: "An unmount first writes dirty pages to the disk; on a slow or dead disk this can take very long.",
            shows: "WithTempMount or snapshot cleanup → mount.Unmount → umount2.",
            confirm: &["a thread of the runtime in D state; I/O pressure"],
            never: &["that the runtime leaks mounts"],
            act: &["look at the disk below"],
        },
        daemons: RUNTIMES,
        roots: &[&["mount.", "unix.Unmount|syscall.Unmount|unix.umount"]],
        hangs: "CreateContainer, removals",
        threads: &["containerd#4485"],
        ..WARNING
    },
    SignatureRow {
        rule: Rule {
            id: "ST19",
            title: "exec probes run long",
            means: "The probes' own processes do not end. The runtime is well.",
            shows: "ExecSync → execInternal [select].",
            confirm: &["the probe's command, run by hand in the container"],
            never: &["that the runtime hangs"],
            act: &["look at the probe's command and its time-out"],
        },
        severity: Severity::Info,
        daemons: CONTAINERD,
        roots: &[&["ExecSync", "^execInternal"]],
        hangs: "those probes",
        ..WARNING
    },
    SignatureRow {
        rule: Rule {
            id: LOCK,
            title: "goroutines wait for one lock",
            means: "No known cause matches; only addresses show who holds the lock.",
            shows: "Several goroutines at the same lock.",
            confirm: &[TWO_DUMPS],
            never: &[
                "a deadlock: a long wait looks the same",
                "that the candidate is the holder: it is a candidate",
            ],
            act: &["look at what the candidate waits for"],
        },
        hangs: "what the waiting calls say",
        ..WARNING
    },
    SignatureRow {
        rule: Rule {
            id: "ST21",
            title: "a fork is stuck",
            means: "Go forks while it holds a lock: a child that does not reach exec blocks every other process start.",
            shows: "syscall.forkExec at a lock in some, forkAndExecInChild or readlen in one.",
            confirm: &[TWO_DUMPS],
            never: &["that the started programs are the cause"],
            act: &["look for a child of the daemon that still has the daemon's name, and its state"],
        },
        roots: &[&["syscall.forkExec", "syscall.forkAndExecInChild|syscall.readlen"]],
        queue: &[&["syscall.forkExec", "sync.(*RWMutex).Lock"]],
        hangs: "every start",
        threads: &["go#26836"],
        ..WARNING
    },
    SignatureRow {
        rule: Rule {
            id: "ST22",
            title: "the kubelet's event channel is full",
            means: "A relist cannot deliver its events: nothing receives them.",
            shows: "A relist in [chan send].",
            confirm: &["kubelet_pleg_discard_events rises"],
            never: &["that the runtime is at fault"],
            act: &["look at the sync loop: it should take the events"],
        },
        severity: Severity::Critical,
        daemons: KUBELET,
        roots: &[&["GenericPLEG)", "^GenericPLEG).@chan send"]],
        hangs: "PLEG",
        ..WARNING
    },
];

/// The signature of a lock that no other signature explains.
pub fn lock() -> Option<Signature> {
    SIGNATURES.iter().find(|row| row.rule.id == LOCK).map(Signature::from)
}

#[cfg(test)]
mod tests {
    use super::super::read::{Bounds, read};
    use super::*;

    fn first_fit(frames: &[&str], state: &str) -> Option<String> {
        let lines: Vec<String> =
            frames.iter().map(|frame| format!("{frame}(0x1)\n\t/a.go:1 +0x1\n")).collect();
        let text = format!("goroutine 1 [{state}]:\n{}", lines.concat());
        let dump = read(text.as_bytes(), Bounds::default()).unwrap().dumps.remove(0);
        let goroutine = &dump.goroutines[0];
        let fits = |signature: &Signature| signature.roots.iter().any(|root| root.matches(goroutine));
        signatures().into_iter().find(fits).map(|signature| signature.id)
    }

    #[test]
    fn update_that_calls_its_shim_holds_the_status_lock() {
        for rpc in ["State", "Update"] {
            let shim = format!("task.(*taskClient).{rpc}");
            let frames = [
                "github.com/containerd/ttrpc.(*Client).dispatch",
                &shim,
                "store/container.(*statusStorage).UpdateSync",
                "server.(*criService).UpdateContainerResources",
            ];
            assert_eq!(first_fit(&frames, "select").as_deref(), Some("ST01"), "{rpc}");
        }
    }

    #[test]
    fn frames_match_only_in_order_and_state() {
        let forward = ["x/pleg.(*GenericPLEG).Relist", "x/pleg.(*GenericPLEG).Start.func1"];
        assert_eq!(first_fit(&forward, "chan send").as_deref(), Some("ST22"));
        assert_eq!(first_fit(&forward, "select"), None);
        let backward = [
            "server.(*criService).UpdateContainerResources",
            "store/container.(*statusStorage).UpdateSync",
            "ttrpc.(*Client).dispatch",
        ];
        assert_eq!(first_fit(&backward, "select"), None);
    }

    #[test]
    fn every_signature_is_matched_once_and_has_a_row() {
        let mut ids: Vec<String> = signatures().into_iter().map(|signature| signature.id).collect();
        ids.push(LOCK.to_owned());
        ids.sort();
        let rows: Vec<&str> = rules().map(|rule| rule.id).collect();
        assert_eq!(ids, rows);
        assert_eq!(rows.len(), 22);
    }
}
