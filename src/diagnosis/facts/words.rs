//! The kinds of facts: one row for each, with its fields and its English words. The rows are in sections by subject; the ids
//! say which rules use them.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    Address, Bytes, Call, ConditionName, Counted, Decimal, DescriptorUse, ExpectedLoad, Fact, FilePath,
    FileSystem, Function, Item, Items, Name, OwnerProcess, PodAge, PodBytes, PodChange, ProcessRef, Program,
    Quoted, Refusal, Release, Resource, Share, Took, Waits, Word,
};
use crate::clock::Wall;
use crate::cri::{Code, Rpc};
use crate::diagnosis::evidence::oddities::OddKind;
use crate::diagnosis::failing_pods::{FailingStep, FailureCause};
use crate::diagnosis::forecast::{LimitForecast, LimitKind};
use crate::diagnosis::proc::clients::IoCounters;
use crate::diagnosis::proc::is_conmon;
use crate::diagnosis::report::{RuleId, Verdict};
use crate::diagnosis::rules::row;
use crate::diagnosis::words::short;
use crate::manifests::preflight::{CertificateUse, refusal};
use crate::report::{Confidence, PodRef, Rename, plural};

/// Defines an enum with words. Each row has a kind, its fields with their types, and after `=>` the arguments of `format!` that
/// write its words. In these arguments, a field is a reference.
macro_rules! facts {
    ($(#[$about:meta])* $name:ident; $(
        $(#[$of_kind:meta])* $kind:ident $({ $($field:ident: $type:ty),+ })? => $words:literal $(, $argument:expr)*;
    )+) => {
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Rename)]
        #[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
        $(#[$about])*
        pub enum $name {
            $(
                $(#[$of_kind])*
                #[doc = concat!("`", $words, "`")]
                $kind $({ $(#[doc = "A value in these words."] $field: $type),+ })?,
            )+
        }

        #[cfg(test)]
        impl $name {
            /// Returns two facts of each kind: with as little as possible, and with everything.
            pub fn samples() -> Vec<Self> {
                use super::tests::Sample;
                let of_each = |is_full: bool| vec![$(Self::$kind $({ $($field: Sample::sample(is_full)),+ })?),+];
                [of_each(false), of_each(true)].concat()
            }
        }

        impl $name {
            fn write_words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$kind $({ $($field),+ })? => {
                        // Some fields are only for those who read the JSON, or for a renderer.
                        $($(let _ = $field;)+)?
                        write!(f, $words $(, $argument)*)
                    })+
                }
            }
        }
    };
}

impl fmt::Display for FactKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[cfg(test)]
        if super::tests::has_other_words() {
            return f.write_str("other words");
        }
        self.write_words(f)
    }
}

impl fmt::Display for WaitOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_words(f)
    }
}

/// What happens at a limit.
const fn at_the_limit(limit: LimitKind) -> &'static str {
    match limit {
        LimitKind::Threads => "with 10,000 threads, Go aborts the program: thread exhaustion",
        LimitKind::CgroupTasks => {
            "at pids.max, it can start no thread and no process, and Go aborts the program"
        }
        LimitKind::Descriptors => "without a descriptor, it can neither accept a connection nor open a file",
        LimitKind::CgroupMemory => "at the limit, the kernel kills a process of the cgroup",
        LimitKind::NodeTasks => "at the limit, no program of the node can start a thread or a process",
        LimitKind::SandboxList | LimitKind::ContainerList => {
            "above the limit, the kubelet refuses the list: every relist fails at once"
        }
        LimitKind::RuntimeRootBytes | LimitKind::RuntimeStateBytes => {
            "when it is full, the runtime can create, stop and remove nothing"
        }
        LimitKind::KubeletBytes => "when it is full, no pod starts, and pods that write there fail",
        LimitKind::RuntimeRootInodes | LimitKind::RuntimeStateInodes | LimitKind::KubeletInodes => {
            "without an inode, no file can be created: no pod starts"
        }
    }
}

/// The rest of a sentence about one thing or several: `does` or `do`.
const fn does(count: usize) -> &'static str {
    if count == 1 { "does" } else { "do" }
}

/// Joins the parts of a list.
fn list<T: fmt::Display>(parts: &[T]) -> String {
    parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The rest of a list: ` and 2 more`.
fn and_more(others: usize) -> String {
    if others == 0 { String::new() } else { format!(" and {others} more") }
}

/// Joins two parts of a sentence with `and`.
fn both(rpcs: &[Rpc]) -> String {
    let names: Vec<&str> = rpcs.iter().map(|rpc| rpc.name()).collect();
    names.join(" and ")
}

/// Writes an optional part of a sentence after `before`.
pub(super) fn with<T: fmt::Display>(before: &str, part: Option<&T>) -> String {
    part.map(|part| format!("{before}{part}")).unwrap_or_default()
}

/// The longest time without a relist, as text.
fn age(peak: Option<&Took>) -> String {
    peak.map_or_else(|| "no end".to_owned(), ToString::to_string)
}

/// The pod of a sandbox, if it is known.
fn pod_of(sandbox: Option<&Item>) -> Option<&PodRef> {
    sandbox?.pod.as_ref()
}

/// What contradicts itself in the runtime's answers, after the name of the sandbox, the container or the pod.
const fn contradiction(what: OddKind) -> &'static str {
    match what {
        OddKind::UnknownState => "is in state UNKNOWN",
        OddKind::NoCreationTime => "has no creation time (other tools show an age of about 50 years)",
        OddKind::TwiceRunning => "runs twice with the same name in one pod",
        OddKind::TwiceReady => "has two READY sandboxes",
        OddKind::TwoVersions => "has sandboxes of two versions, with two UIDs",
        OddKind::NoSandbox => "belongs to a sandbox that is not listed",
        OddKind::NoProcess => "is RUNNING and has no process",
        OddKind::NoMonitor => "is RUNNING, and its conmon is gone",
    }
}

/// What has changed of a pod.
const fn change(what: PodChange) -> &'static str {
    match what {
        PodChange::Created => "was created",
        PodChange::ContainerStarted => "had a container that started",
        PodChange::ContainerFinished => "had a container that ended",
        PodChange::Deleted => "was deleted",
        PodChange::GraceOver => "was to be killed",
    }
}

/// A list of pods, with the number of those that it does not name.
fn pods_and_more(pods: &[PodAge], others: usize) -> String {
    if others == 0 { list(pods) } else { format!("{}, and {others} more", list(pods)) }
}

/// What fails, and why.
const fn failure(cause: FailureCause, step: FailingStep) -> &'static str {
    match (cause, step) {
        (FailureCause::Network, step) if step.is_of_end() => "CNI DEL fails",
        (FailureCause::Network, _) => "CNI ADD fails",
        (FailureCause::NameReserved, _) => "its name stays reserved",
        (FailureCause::CgroupDriver, _) => "the cgroup drivers of kubelet and runtime differ",
        (FailureCause::Cgroup, _) => "cgroup or systemd refuses",
        (FailureCause::NoSpace, _) => "no space is left for the runtime",
        (FailureCause::SandboxImage, _) => "the image of the sandboxes is missing",
        (FailureCause::ImageStore, _) => "the image store is damaged or not mounted",
        (FailureCause::Other, FailingStep::CreateSandbox) => "the runtime cannot create the sandbox",
        (FailureCause::Other, FailingStep::StartContainer) => "the runtime cannot start a container",
        (FailureCause::Other, FailingStep::StopContainer) => "the runtime cannot stop a container",
        (FailureCause::Other, FailingStep::StopSandbox) => "the runtime cannot stop the sandbox",
    }
}

/// Converts a number for `plural`.
fn number(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// The kubelet's certificate.
const fn certificate(usage: CertificateUse) -> &'static str {
    match usage {
        CertificateUse::Client => "the kubelet's client certificate",
        CertificateUse::Serving => "the kubelet's serving certificate",
        CertificateUse::CallerAuthority => "the certificate authority (CA) of the kubelet's callers",
        CertificateUse::ServerAuthority => "the authority of the API server",
    }
}

/// A time without a fraction of a second.
fn date(at: Wall) -> String {
    humantime::format_rfc3339_seconds(at.system_time()).to_string()
}

/// Memory and threads: `12 MiB and 9 threads`.
fn size(bytes: u64, threads: u64) -> String {
    format!("{} MiB and {}", bytes >> 20, plural(number(threads), "thread"))
}

/// A pod, by its UID if its name is not known.
fn pod_or_uid(pod: &PodRef) -> String {
    if pod.name.is_empty() { pod.uid.clone() } else { pod.to_string() }
}

/// A server as the subject of a sentence.
fn subject(server: Option<&WaitOwner>) -> String {
    match server {
        Some(server) if server.process().is_some_and(|process| process.is_stopped) => format!("{server},"),
        Some(server) => server.to_string(),
        None => "a network or user-space file system".to_owned(),
    }
}

/// A shim with an article, or a conmon.
fn shim_or_conmon(process: &ProcessRef, article: &str) -> String {
    if is_conmon(&process.name) { process.to_string() } else { format!("{article}shim {process}") }
}

/// What the process was started for: a conmon for a container, a shim for a sandbox.
fn sandbox_or_container(process: &ProcessRef) -> &'static str {
    if is_conmon(&process.name) { "container" } else { "sandbox" }
}

/// Rounds a duration to at most one decimal of a second.
fn rounded(duration: Took) -> humantime::FormattedDuration {
    let millis = u64::try_from(duration.duration().as_millis()).unwrap_or(u64::MAX);
    let rounded = if millis >= 1000 { millis / 100 * 100 } else { millis };
    humantime::format_duration(Duration::from_millis(rounded))
}

/// Which version has no fault.
fn fix(version: Option<&Release>) -> String {
    version
        .map_or_else(|| "no version with a fix is known".to_owned(), |version| format!("fixed in {version}"))
}

facts! {
    /// Who or what keeps a task waiting in the kernel: `falcon-sensor[4711]`, `10.1.2.3:/export (nfs4)`, `s3fs (fuse) of s3fs[812],
    /// which is stopped`.
    WaitOwner;
    // A security agent, or the holder of a lock.
    Process { process: OwnerProcess } => "{process}";
    // A file server, or a file system that a process serves.
    Mounted { source: Address, file_system: FileSystem, daemon: Option<OwnerProcess> } =>
        "{source} ({file_system}){}", with(" of ", daemon.as_ref());
    // A module of the kernel.
    Module { name: Function } => "{name}";
    // A frozen control group, or the place of a frozen file system.
    Frozen { path: FilePath } => "{path}";
    Disk { name: Quoted } => "{name}";
}

facts! {
    /// What was measured or concluded.
    FactKind;
    // D00
    NothingFound { serial: Took, kubelet_is_unchecked: bool } =>
        "all calls are answered; a relist takes {serial}";
    Population { pods: usize, sandboxes: usize, containers: usize, running: usize, exited: usize } =>
        "{}, {}, {} ({running} running, {exited} exited{}): all answered",
        plural(*pods, "pod"), plural(*sandboxes, "sandbox"), plural(*containers, "container"),
        match containers.saturating_sub(running + exited) { 0 => String::new(), others => format!(", {others} created or unknown") };
    RelistDurations { lists: Took, full: Took } =>
        "both lists take {lists}; with every pod, as after a kubelet restart, {full}";
    UnhealthyAfter { threshold: Took } =>
        "PLEG becomes unhealthy only after {threshold} without a relist";

    // D36
    CertificateExpired { usage: CertificateUse, at: Wall } =>
        "{} expired on {}", certificate(*usage), date(*at);
    CertificateNotYetValid { usage: CertificateUse, from: Wall } =>
        "{} is valid only from {} on", certificate(*usage), date(*from);
    IsInFile { path: FilePath } => "it is in {path}";
    CertificateEffect { usage: CertificateUse } => "{}", match usage {
        CertificateUse::Client => "without it the kubelet cannot report to the API server: the node becomes NotReady",
        CertificateUse::ServerAuthority => "with it the kubelet trusts no API server: the node becomes NotReady",
        CertificateUse::Serving => "with it, callers may refuse the kubelet: logs, exec and metrics",
        CertificateUse::CallerAuthority => "with it, the kubelet refuses its callers: logs, exec and metrics",
    };
    CertificateIsReplacedAtStart =>
        "there is a bootstrap kubeconfig: if its token is valid, the kubelet gets a new certificate at its next start";

    // D34
    CannotWriteFiles => "the runtime or the kubelet cannot write to its directories";
    PodsFindNoSpace { directory: FilePath, step: FailingStep, pod: PodRef, others: usize } =>
        "the disk of {directory} is full: {pod}{} cannot {}", and_more(*others), if step.is_of_end() { "end" } else { "start" };
    DiskIsReadOnly { file_system: FileSystem, device: Quoted, directories: Vec<FilePath> } =>
        "{file_system} ({device}) is read-only: {}", list(directories);
    DiskIsFull { file_system: FileSystem, device: Quoted, free_bytes: u64, bytes: u64, directories: Vec<FilePath> } =>
        "{file_system} ({device}) is full: {} of {} MiB are free: {}", free_bytes >> 20, bytes >> 20, list(directories);
    DiskHasNoInodes { file_system: FileSystem, device: Quoted, free_inodes: u64, inodes: u64, directories: Vec<FilePath> } =>
        "{file_system} ({device}) cannot store more files: {free_inodes} of {inodes} inodes are free: {}", list(directories);

    // D40
    HasGrown { process: ProcessRef, bytes: Option<u64>, threads: Option<u64>, descriptors: Option<u64>, age: Took } =>
        "{process} has {} after {age:#}", [
            bytes.map(|bytes| format!("{} MiB of memory", bytes >> 20)),
            threads.map(|threads| format!("{threads} threads")),
            descriptors.map(|open| format!("{open} open descriptors")),
        ].into_iter().flatten().collect::<Vec<_>>().join(" and ");
    SizeOfProcess { bytes: u64, threads: u64, descriptors: u64, expected: ExpectedLoad, age: Took } =>
        "{} MiB, {threads} threads, {descriptors} descriptors for {expected}; started {age:#} ago", bytes >> 20;
    SteadyGrowth { bytes_per_day: u64 } => "if it grew steadily: {} MiB for each day", bytes_per_day >> 20;
    NoKnownLeak => "no release of this version is known to leak; a busy node can need as much";
    ShimIsLarge { shim: ProcessRef, pod: Option<PodRef>, bytes: u64, threads: u64 } =>
        "{shim}{} is far larger than the other shims: {}", with(" of ", pod.as_ref()), size(*bytes, *threads);
    SizeAmongShims { bytes: u64, threads: u64, age: Took, shims: usize, median_bytes: u64, median_threads: u64 } =>
        "{}, {age:#} old; the median of {shims} shims is {}", size(*bytes, *threads), size(*median_bytes, *median_threads);
    GoroutinesWaitForEver =>
        "goroutines that wait for ever make a shim so large; a stop or an exec of its pod may hang with them";

    // D45
    PodsFail { step: FailingStep, cause: FailureCause, pod: PodRef, others: usize } =>
        "{}: {pod}{} cannot {}", failure(*cause, *step), and_more(*others), if step.is_of_end() { "end" } else { "start" };
    StepFails { step: FailingStep, cause: FailureCause, words: Quoted } => "{}: {words}", failure(*cause, *step);
    PluginSays { plugin: Program, words: Quoted } => "the network plugin {plugin} says: {words}";
    RuntimeSays { words: Quoted } => "the runtime says: {words}";
    HasFailed { pod: PodRef, failures: usize, since: Took, last: Took } =>
        "{pod}: {} in the last {since:#}, the last one {last:#} ago", plural(*failures, "error");
    NothingElseStarted { step: FailingStep } => "{} since then", match step {
        FailingStep::CreateSandbox => "no other pod has started",
        _ => "no container of another pod has started",
    };
    OthersStarted { pods: usize } => "{} started since then, so it may concern only these", plural(*pods, "other pod");

    // D18, D21, D24, D25, D26
    Logged { line: Quoted } => "{line}";
    NameStaysReserved { pod: PodRef, others: usize } =>
        "an earlier create has not finished, so a name stays reserved: {pod}{} cannot start", and_more(*others);
    NameIsTaken { pod: PodRef, others: usize } =>
        "the runtime has already created what has a pod's name: {pod}{} cannot start", and_more(*others);
    RecoveryHasNotFinished => "the runtime began to recover its state and has not finished";
    RuntimeKeepsRestarting => "the runtime keeps restarting";
    RuntimeRestarts { restarts: usize } =>
        "it has ended by itself, and systemd has started it again, {} within the last 15 minutes", plural(*restarts, "time");
    RecoveryHasNoEnd => "\"Start recovering state\" without a message about the end";
    RuntimeRestores { waits_for: Item } => "the runtime restores its containers and waits for {waits_for}";
    StateDelaysCalls { process: ProcessRef, age: Took } =>
        "{process} state for this container has not finished for {age}; the daemon answers no calls until then";
    ItsTaskWaits { task: u32, function: Function } => "its task {task} waits uninterruptibly in {function}";
    NoRelistHasSucceeded => "no relist has succeeded since the kubelet started";
    LinesAboutIt { lines: usize } => "{} about this in the last 15 minutes", plural(*lines, "line");
    PlegCameBack => "PLEG was unhealthy and came back, more than once";
    PlegWasUnhealthy => "PLEG was unhealthy within the last 15 minutes";
    PlegAgeRose { seconds: Decimal, messages: usize, periods: usize } =>
        "the age of PLEG rose to {seconds:.0} s: {} in {}", plural(*messages, "message"), plural(*periods, "period");
    CallsTimedOutInRelists { calls: Decimal, timeout: Took } =>
        "about {calls:.0} calls of {timeout} timed out in each relist: a status call hung and then ended";
    PlegAgeOnlyGrew => "the age only grew: a list call hung or failed";
    RestartsHideCause => "each restart hides the cause and resets the kubelet's metrics";

    // D37, with the facts of kernel_waits
    ProcessWaits { process: ProcessRef, pod: Option<PodRef>, waits: Waits } => "{} {waits}", match pod {
        Some(pod) if process.name.starts_with("umount") => format!("{pod} cannot end: {process}"),
        Some(pod) => format!("{process} of {pod}"),
        None => process.to_string(),
    };
    DidNotRun { process: ProcessRef, task: u32, function: Function, age: Took } =>
        "{process}, task {task}: in {function}, seen twice, and it did not run in between; the process is {age:#} old";
    HasWaited { at_least: Took } => "it has waited for {at_least:#}, at least";
    PodsOfMount { pods: Vec<PodRef> } => "pods with a volume on it, which may neither start nor end: {}",
        list(&pods.iter().map(pod_or_uid).collect::<Vec<_>>());
    ProgramsWaitForTheSame { programs: usize } => "{} wait for the same", plural(*programs, "program");
    KernelStack { functions: Vec<Function> } => "{}", match functions.as_slice() {
        [] => "its kernel stack is not readable (not root?), so the reason is not certain".to_owned(),
        [first, rest @ ..] => rest.iter().fold(format!("kernel stack: {first}"), |all, next| format!("{all} < {next}")),
    };
    KernelReportsLockup => "the kernel reports that a processor or the hardware is stuck";
    MessagesBefore { messages: usize } => "{} in the last minutes; the last one:", plural(*messages, "message");
    AgentDecides { agent: OwnerProcess } =>
        "{agent} decides about file accesses: its /proc/PID/fdinfo has a fanotify group with permission events";
    RemovesNetworkNamespaces { process: ProcessRef } => "{process} removes network namespaces";
    MayBeMount { source: Address, file_system: FileSystem } => "{source} ({file_system})";
    SourceIsMountedAt { source: Address, file_system: Option<FileSystem>, path: FilePath } =>
        "{source}{} is mounted at {path}", file_system.as_ref().map(|kind| format!(" ({kind})")).unwrap_or_default();
    FuseRequestsWait { requests: u64, connection: u64 } => "{requests} requests wait in FUSE connection {connection}";
    ItWritesTo { path: FilePath } => "it writes to {path}";
    RuntimeAndKubeletWriteTo { paths: Vec<FilePath> } => "the runtime and the kubelet write to {}", list(paths);
    RunsHere { process: ProcessRef } => "{process} runs here and may have frozen it";
    DiskStalls { disk: Quoted, requests_in_flight: u64 } =>
        "{disk}: {requests_in_flight} requests in flight, none completed between two looks";
    HasLocked { process: OwnerProcess, path: Option<FilePath> } =>
        "{process} has locked {}", path.as_ref().map_or("the file", |path| path.0.as_str());

    // D22, D23, D32
    RelistIsOverThreshold { age: Took, threshold: Took } =>
        "the kubelet's last relist is {age} old, over its threshold of {threshold}";
    NoNewRelistSucceeds { age: Took } => "the kubelet's last relist is {age} old, and no new one succeeds";
    RelistAges { before: Decimal, apart_seconds: Decimal, after: Decimal } =>
        "its last relist was {before:.0} s old, and {apart_seconds:.0} s later {after:.0} s";
    KubeletRelistsAgain => "the age falls: the kubelet relists again";
    MetricsAreOld { age: Took } => "according to metrics that are {age} old";
    CauseIsInKubelet => "the runtime answers, and the age still grows: the cause is in the kubelet";
    CauseIsInKubeletOrOver => "the runtime answers now: the cause is in the kubelet, or the problem is over";
    RuntimeDoesNotAnswerWell => "the runtime does not answer well either: start with the runtime";
    EventsWereDiscarded { events: Decimal } =>
        "the kubelet discarded {events:.0} events between the readings: its event channel is full";
    TaskWaitsIn { process: ProcessRef, task: u32, function: Function } =>
        "{process}, task {task} waits uninterruptibly in {function}";
    OwnRelistIsQuick { age: Took, own: Took } =>
        "the kubelet's last relist is {age} old; plegctl's own relist takes {own}";
    KubeletRelistedMeanwhile { age: Took } =>
        "the kubelet relisted {age} ago, although a call of plegctl is not answered";
    HealthzDoesNotCheckPleg => "its /healthz says ok, but /healthz does not check PLEG";
    HealthzFailsAlone { status: u16 } => "its /healthz answers {status}; the runtime answers";
    MetricsSilentThoughHealthy { lists_hang: bool } => "its /healthz says ok and its /metrics is silent{}",
        if *lists_hang { ": it waits for a list call itself" } else { "; plegctl's list calls are answered" };
    EndpointsDiffer { kubelet: Address, plegctl: Address } =>
        "the kubelet uses the runtime at {kubelet}, but plegctl called the runtime at {plegctl}";
    KubeletUsesEventedPleg => "this kubelet uses Evented PLEG";
    EventedRelistsSeldom =>
        "it relists every 300 s and is unhealthy after 10 min; its last-seen metric proves nothing";
    EventedIsAHint =>
        "from 1.37 on, EventedPLEG is only a hint: the kubelet relists every second and is unhealthy after 3 min as \
         without it, a CONTAINER_STOPPED event relists one pod, and after five failures the stream is off until the \
         kubelet restarts (according to its code)";
    FallbackIsNotLogged { verbosity: u8 } =>
        "it logs a fallback to relisting only from verbosity 4 on; it runs with {verbosity}";
    EventStreamBroke { times: Decimal } => "its event stream broke {times:.0} times";
    KubeletSaysUnhealthy => "the kubelet says that it is not healthy";
    HealthzAnswers { status: u16, text: Quoted } => "/healthz answers {status}: {text}";
    HealthzIsSilent => "the kubelet does not answer /healthz";
    NoAnswerWithin { waited: Took } => "no answer within {waited}";
    MetricsAreSilent => "the kubelet does not answer /metrics";
    KubeletWaitsForListOrLock =>
        "its /healthz says ok: the kubelet waits for a list call, for the stats of a shim, or for its own lock";
    KubeletMayWaitForList => "it may wait for a list call, but plegctl's list calls are answered, or for the stats of a shim";
    NoKubeletRuns => "no kubelet runs on this node";
    OnlyRuntimeRuns => "the process table has the runtime and no kubelet";
    KubeletShouldRun { pods: usize } =>
        "a kubelet should run here: its directory exists and the runtime has {}", plural(*pods, "pod");
    KubeletWouldNotStart { fault: Quoted } => "no kubelet runs on this node, and it would not start: {fault}";
    PreflightFinds { check: Word, message: Quoted } => "preflight, {check}: {message}";
    SeeFile { path: FilePath, line: Option<u32> } => "see {path}{}", with(", line ", line.as_ref());
    RuntimeIsNotAtFault => "the runtime is not at fault for this";
    KubeletExits { is_restarted: bool, message: Refusal } => "{}: {}",
        if *is_restarted { "the kubelet keeps exiting" } else { "no kubelet runs on this node" },
        refusal(&message.0).map_or("it exits at its start".to_owned(), |refusal| refusal.sentence(&message.0));
    LastMessage { message: Refusal } => "its last message: {message}";
    EndedInARow { processes: usize } => "{processes} processes in a row ended so within the last 15 minutes";
    KubeletMayStartNow => "the runtime answers now: the kubelet may start at its next attempt";
    StartWithTheRuntime => "start with the runtime";
    KubeletIsStopped { process: ProcessRef, state: char } => "the kubelet is stopped: {process} is in state {state}";
    KubeletIsFrozen { process: ProcessRef, cgroup: FilePath } => "the kubelet is frozen: {process} is in {cgroup}";
    ItsHealthzIsSilent { waited: Took } => "its /healthz did not answer within {waited}";
    NothingRelists => "while the kubelet is stopped, nothing relists; this is not the runtime's fault";

    // D12, D13, D14, D15, D17, D35
    Pressure { resource: Resource, node: Option<Decimal>, runtime: Option<Decimal> } =>
        "{resource} pressure: {} tasks{}", if *resource == Resource::Cpu { "some" } else { "all" },
        match (node, runtime) {
            (Some(node), None) => format!(" waited {node:.0} % of the last 10 s"),
            (Some(node), Some(own)) => format!(" waited {node:.0} % of the last 10 s, in the runtime's own cgroup {own:.0} %"),
            (None, Some(own)) => format!(" in the runtime's own cgroup waited {own:.0} % of the last 10 s"),
            (None, None) => " waited".to_owned(),
        };
    NodeIsOutOfMemory => "the node is out of memory";
    MemoryIsAvailable { available_bytes: u64, bytes: u64 } =>
        "{} of {} MiB of memory are available", available_bytes >> 20, bytes >> 20;
    KilledForMemory { processes: u64, within: Took } =>
        "the kernel killed {} for lack of memory within {within}", plural(number(*processes), "process");
    MajorPageFaults { faults: u64, within: Took } => "{faults} major page faults within {within}";
    VersionIsSlow { version: Took, quickest_status: Took } =>
        "Version took {version}, the quickest status call {quickest_status}";
    HypervisorTakes { percent: Decimal } => "the hypervisor takes {percent:.0} % of the CPU";
    CpuLimitThrottled { process: Option<ProcessRef>, limit_percent: Option<Decimal>, percent: Decimal } =>
        "{} has a CPU limit{}, which throttled it {percent:.0} % of the time",
        process.as_ref().map_or_else(|| "the runtime".to_owned(), ToString::to_string),
        limit_percent.map(|limit| format!(" of {limit:.1} % of a processor")).unwrap_or_default();
    ThreadsOfRuntimeWaited { percent: Decimal } =>
        "the threads of the runtime itself waited for a processor for {percent:.0} % of the time, together";
    EverythingIsLate => "everything that the runtime does is late because of this; no single pod is the cause";
    LimitsRunOut => "processes, threads or file descriptors run out";
    LimitsRanOut => "processes, threads or file descriptors ran out within the last 15 minutes";
    RuntimeOpensNoFile { full: DescriptorUse } => "the runtime can open no file: {full}";
    PlegctlGotNoThread =>
        "plegctl could not start a thread: a limit of its user, its cgroup (pids.max) or the node is reached";
    TasksOf { tasks: u64, setting: Word, max: u64 } => "{tasks} tasks of {setting} {max}";
    ProcessesIn { processes: u64, max: u64, cgroup: FilePath } =>
        "{processes} of {max} tasks (processes and threads) in {cgroup}";
    DescriptorsOpen { full: DescriptorUse } => "{full}";
    HasThreads { process: ProcessRef, threads: u64 } => "{process} has {threads} threads";
    ZombieChildren { pid: u32, name: Option<Program>, zombies: usize } => "zombie children of {}: {zombies}",
        name.as_ref().map_or_else(|| pid.to_string(), |name| format!("{name}[{pid}]"));
    SystemdDoesNotKeepUp => "systemd does not keep up";
    SystemdWaits => "systemd waits uninterruptibly";
    SystemdIsBusy { percent: Decimal } => "systemd uses {percent:.0} % of one CPU";
    SystemctlDidNotEnd { waited: Took } => "systemctl is-system-running did not end within {waited}";
    BusTimeouts { timeouts: usize } => "{} of D-Bus in the journal", plural(*timeouts, "time-out");
    ManyMounts { mounts: usize } => "{mounts} mounts";
    ExecProbesPileUp => "exec probes pile up";
    HasThreadsFor { process: ProcessRef, threads: u64, expected: ExpectedLoad } =>
        "{process} has {threads} threads for {expected}";
    HasDescriptorsFor { process: ProcessRef, descriptors: u64, expected: ExpectedLoad } =>
        "{process} has {descriptors} descriptors open for {expected}";
    ThreadsGrew { from: u64, to: u64 } => "its number of threads grew from {from} to {to} during this run";
    ExecProbesTimeOut { per_minute: Decimal } => "{per_minute:.0} exec probes per minute time out";
    CallsAreExecs { percent: Decimal } => "{percent:.0} % of the kubelet's calls to the runtime are execs";
    ZombiesUnderShims { zombies: usize } => "{zombies} zombies under shims";

    // D46
    LimitFillsUp { forecast: LimitForecast } => "{forecast}";
    LimitIsFullAt { at: Wall, measured: Took } =>
        "if it goes on, it is full at about {}; measured over {measured:#}", at.whole_seconds();
    AtTheLimit { limit: LimitKind } => "{}", at_the_limit(*limit);

    // D08, D09, D10, D11
    TaskIsUninterruptible { process: ProcessRef, task: u32, function: Option<Function>, age: Took } =>
        "{process}, task {task}: waits uninterruptibly in {}; the process is {age:#} old",
        function.as_ref().map_or("an unknown kernel function (not root?)", |function| function.0.as_str());
    StorageKeepsWaiting => "storage keeps the node waiting";
    IoPressureIsNotMeasured => "this kernel does not measure I/O pressure";
    ServerDoesNotAnswer { server: Option<WaitOwner>, pod: Option<PodRef>, process: ProcessRef } =>
        "{} does not answer; {} waits for it", subject(server.as_ref()),
        pod.as_ref().map_or_else(|| process.to_string(), ToString::to_string);
    MountedAt { path: FilePath } => "mounted at {path}";
    ItWaits { waits: Waits } => "it {waits}";
    OciProcessHasNotFinished { process: ProcessRef, of: Item, age: Took } => "{process} of {of} has not finished for {age}";
    MonitorIsStopped { monitor: ProcessRef, of: Item } => "{} of {of} is stopped", shim_or_conmon(monitor, "the ");
    MonitorWaits { monitor: ProcessRef, of: Item, waits: Option<Waits> } => "{} of {of} {}", shim_or_conmon(monitor, "the "),
        waits.as_ref().map_or_else(|| "waits in the kernel".to_owned(), ToString::to_string);
    CallAboutItIsSilent { rpc: Rpc, of: Item, waited: Took } =>
        "{rpc} of it ({}) did not answer within {waited}", short(&of.id);
    ListWaitsForIt { rpc: Rpc, waited: Took } => "{rpc} waits for it: no answer within {waited}";
    OciProcess { process: ProcessRef, verb: Option<Word>, state: char, age: Took } =>
        "{process}{}: state {state}, {age} old", with(" ", verb.as_ref());
    ItsMonitor { monitor: ProcessRef, state: char, threads: u64 } =>
        "its {}: state {state}, {threads} threads", shim_or_conmon(monitor, "");
    ItsPodHasMounted { source: Address, file_system: FileSystem } => "its pod has {source} ({file_system}) mounted";
    ShimDoesNotAnswer { of: Item } => "the shim of {of:#} does not answer";
    StatsSilent { waited: Took } =>
        "ContainerStats, the only read-only call that reaches the shim, was not answered within {waited}";
    ShimHasNotStarted { shim: ProcessRef, pod: Option<PodRef>, age: Took } =>
        "{shim}{} has not started its container for {age}", with(" of ", pod.as_ref());
    ProcessHasNotFinished { process: ProcessRef, verb: Option<Word>, pod: Option<PodRef>, age: Took } =>
        "{process}{}{} has not finished for {age}", with(" ", verb.as_ref()), with(" of ", pod.as_ref());
    WorksOn { of: Item } => "it works on {of:#}";
    StoppedBySignal { process: ProcessRef, state: char } =>
        "{process} is in state {state}: a signal or a debugger has stopped it";
    NoCallWaitsForItNow => "no list and no status call waits for it now";
    CreateDelaysStart => "no list and no status call waits for it; the pod cannot start before it ends";
    StateDelaysRecord =>
        "no list waits for it; while it runs, the runtime can neither record the exit of the container nor stop or remove it";
    KillDelaysEnd =>
        "no list and no status call waits for it; the call that stops the container does, and the pod does not end";
    DeleteDelaysRemoval => "no list and no status call waits for it; the call that removes the container does";
    ShimDelaysStart =>
        "no list and no status call waits for it; the call that creates the container does, and the pod cannot start. \
         It has not detached from the runtime: does it wait for the log?";
    MonitorIsInState { monitor: ProcessRef, of: Option<Item>, state: char } =>
        "{} of {} is stopped (state {state})", shim_or_conmon(monitor, "the "),
        of.as_ref().map_or_else(|| monitor.to_string(), |of| format!("{of:#}"));
    StoppedShimBlocks { of: Item, shim: ProcessRef, state: char } =>
        "stop and exec of {of:#} will hang: its shim {shim} is stopped (state {state})";
    ConmonIsMissed =>
        "list calls, status calls, stats and exec still work without it. But the container's exit is not noticed, its \
         log is not reopened, and stopping or removing it takes some seconds longer";
    ShimIsMissed =>
        "its containers run on, and lists and status calls do not need the shim, so PLEG works; but this pod cannot be \
         stopped, and its exec probes and stats hang";
    CgroupIsFrozen { cgroup: FilePath, pod: Option<PodRef> } =>
        "the cgroup of {} is frozen", pod.as_ref().map_or_else(|| cgroup.to_string(), ToString::to_string);
    IsFrozen { cgroup: FilePath, seen_twice: bool } =>
        "{cgroup} is frozen{}", if *seen_twice { ", in two samples" } else { "" };
    ProcessesInIt { processes: usize } => "{} in it", plural(*processes, "process");
    MayHaveFrozenIt { process: ProcessRef } => "{process} runs for it and may have frozen it";
    NobodyKnownFrozeIt => "the kernel does not record who froze it; no OCI runtime and no criu work on it now";
    CheckpointMayFreeze =>
        "kubelets from 1.37 on may freeze every container of a pod on purpose while CheckpointPod runs";

    // D38
    LeftOverShim { shim: ProcessRef } =>
        "{shim} of a {} that is gone still runs", if is_conmon(&shim.name) { "container" } else { "pod" };
    LeftOverShims { shims: usize, are_conmons: bool } => "{} of {}s that are gone still run",
        plural(*shims, if *are_conmons { "conmon" } else { "shim" }), if *are_conmons { "container" } else { "pod" };
    LeftOverTogether { bytes: u64, threads: u64, oldest: Took } =>
        "together {}, the oldest was started {oldest:#} ago; PLEG does not wait for them, so the node stays Ready",
        size(*bytes, *threads);
    LeftOver { shim: ProcessRef, pod: Option<PodRef>, of: Item, age: Took, bytes: u64, threads: u64, below: usize, bundle_is_deleted: bool } =>
        "{shim}{}, {} {}: {age:#} old, {}; {}{}", with(" of ", pod.as_ref()), sandbox_or_container(shim), short(&of.id),
        size(*bytes, *threads),
        match below { 0 => "no process runs below it".to_owned(), count => format!("below it runs {}", plural(*count, "process")) },
        if *bundle_is_deleted { "; its bundle is deleted" } else { "" };
    MoreLeftOver { more: usize, oldest: Vec<u32> } => "and {more} more; the process ids of the {} oldest: {}",
        oldest.len(), oldest.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    LeftOverStillRan { after: Took } => "all of them still ran {after} after the lists were answered";
    LeftOverSeenOnce => "seen once; a shim that is just ending looks the same";

    // D27
    KnownFault { program: Program, version: Release, fault: Quoted } => "{program} {version} has a known fault: {fault}";
    KnownLeak { program: Program, version: Release, fault: Quoted, source: Quoted, fixed_in: Option<Release> } =>
        "{program} {version} has a known leak: {fault} ({source}; {})", fix(fixed_in.as_ref());
    See { source: Quoted } => "see {source}";
    FixedIn { version: Option<Release> } => "{}", fix(version.as_ref());
    NoProofOfFault => "there is no proof that it is the cause here";

    // D01, D02, D28
    ListsHang { rpcs: Vec<Rpc>, as_does: Option<Call>, daemon_is_stopped: bool } =>
        "{} {} not answer{}", both(rpcs), does(rpcs.len()),
        match as_does {
            Some(call) => format!(", nor does {call}"),
            None if *daemon_is_stopped => String::new(),
            None => "; the daemon is alive".to_owned(),
        };
    CallsSilent { rpcs: Vec<Rpc>, waited: Took } => "{} did not answer within {waited}", both(rpcs);
    VersionAnsweredMeanwhile { took: Took } =>
        "Version is answered in {took} at the same time, so the daemon is alive, and blocked inside";
    VersionSilentMeanwhile { waited: Took } =>
        "Version is not answered within {waited} at the same time: the whole daemon is blocked, not one lock";
    CallFailed { error: Quoted } => "{error}";
    VersionAnsweredBefore { took: Took } => "Version answered in {took} just before";
    KubeletWaitsForListToo =>
        "the kubelet's /healthz is ok and its /metrics is silent: the kubelet waits for a list call too";
    ListAnswered { rpc: Rpc, took: Took } => "{rpc} answered in {took}";
    NoneKnownWithoutList { items: Items } => "no {items} is known without the list, so none can be named";
    NotAllAsked { rpc: Rpc, known: usize, items: Items, left_out: usize } =>
        "{rpc} is answered for {}, and there was no time for {}: no culprit is named",
        plural(*known, items.as_str()), plural(*left_out, "other id");
    AllKnownAnswered { rpc: Rpc, known: usize, items: Items } =>
        "{rpc} is answered for each of the {} that are known without the list: no culprit is named",
        plural(*known, items.as_str());
    TooEarlyToName { rpc: Rpc, silent: usize, known: usize, items: Items } =>
        "{rpc} was not yet answered for {silent} of {} when the time was over, which is too early to count as hung: no culprit is named",
        plural(*known, items.as_str());
    NoSingleCause { rpc: Rpc, silent: usize, known: usize, items: Items } =>
        "{rpc} is not answered for {silent} of {}: no single one is the cause, so no culprit is named",
        plural(*known, items.as_str());
    CulpritsAre { rpc: Rpc, silent: usize, known: usize, items: Items } =>
        "only {} of {} {} silent too: the list probably waits for {}",
        match silent { 1 => "this one".to_owned(), _ => silent.to_string() },
        plural(*known, items.as_str()),
        if *silent == 1 { "is" } else { "are" },
        if *silent == 1 { "it" } else { "one of them:" };
    Culprit { of: Item } => "  {of:#}";
    SilentSoFar { call: Call, others: usize, waited: Took } =>
        "{call}{} has not answered for {waited}",
        match others { 0 => String::new(), others => format!(" (and {})", plural(*others, "other call")) };
    NoAnswerSoFar { call: Call, waited: Took } => "{call}: no answer within {waited}";
    TooEarlyForHang { likely_after: Took } =>
        "too early to count as hung: a hang is likely after {likely_after}";
    ManyStatusCallsHang { silent: usize, of: usize } =>
        "{silent} of {of} status calls do not answer: no single pod is to blame";
    StatusHangs { call: Call, and: Option<Item>, others: usize } => "{call}{} {} not answer",
        and.as_ref().map_or_else(|| and_more(*others), |and| format!(" and {and}")), does(others + 1);
    StatusSilent { rpc: Rpc, of: Item, waited: Took, blocked_by: Option<Box<Fact>> } =>
        "{rpc} of {of:#} did not answer within {waited}{}", with(", and ", blocked_by.as_ref());
    OtherCallsAnswered { lists_answer: bool, answered: usize } =>
        "{}, and so do {}", if *lists_answer { "both lists answer" } else { "no list is silent" },
        plural(*answered, "other status call");
    HangTripsThreshold { gives_up: Took, hung_calls: usize, peak: Option<Took>, threshold: Took } =>
        "the kubelet gives up each call after {gives_up}; with {} a relist {}; {threshold} are allowed: the node becomes NotReady",
        plural(*hung_calls, "such call"), match peak {
            Some(peak) => format!("takes {peak}"),
            None => "does not end".to_owned(),
        };
    HangStaysBelow { gives_up: Took, threshold: Took } =>
        "the kubelet gives up such a call after {gives_up}, before its threshold of {threshold}: the node stays Ready";
    PodsAreOld { peak: Option<Took> } => "the node stays Ready, but the state of its pods is up to {} old", age(peak.as_ref());
    OneHungCall => "one hung call costs one time-out, which is below the threshold";
    KubeletRelistAge { seconds: Decimal } => "the kubelet's last relist is {seconds:.0} s old";

    // D39
    DoesNotReadAnswers { process: ProcessRef } => "{process} does not read the runtime's answers";
    ReadsMostAnswers { process: ProcessRef, read: Bytes, within: Took } =>
        "{process} reads most of what the runtime writes: {read} in {within}";
    ManyClients { others: usize } => "{others} programs besides the kubelet call the runtime";
    SocketConnections { connections: usize, waiting: u32 } =>
        "{} to the runtime's socket, {waiting} not accepted yet", plural(*connections, "connection");
    SocketClient { process: ProcessRef, connections: usize, unread: u64, io: Option<IoCounters> } =>
        "{process}: {}{}{}", plural(*connections, "connection"),
        match unread { 0 => String::new(), bytes => format!(", {} not read", plural(number(*bytes), "byte")) },
        with("; ", io.as_ref());
    RuntimeReadsAndWrites { within: Took, io: IoCounters } => "in {within}, the runtime {io}";
    CountersHaveAll =>
        "these numbers have all files and sockets of a program, but not what one in C++, Python or Rust reads from a socket";

    // D06
    InotifyUsedUp { is_now: bool } =>
        "containerd serves no CRI v1: root's inotify instances {} used up", if *is_now { "are" } else { "were" };
    CriPluginRefusesSettings => "containerd serves no CRI v1: its CRI plugin refuses its settings";
    CriPluginNotLoaded => "containerd serves no CRI v1: it did not load its CRI plugin";
    CriPluginDisabled => "containerd serves no CRI v1: disabled_plugins has its CRI plugin";
    OnlyOlderCri { version: Release } => "containerd {version} serves only an older CRI, not CRI v1";
    ConfigurationUnreadable => "nothing listens on the socket: containerd cannot read its configuration";
    CriPluginError { error: Quoted } => "containerd did not load its CRI plugin: {error}";
    ContainerdStartError { error: Quoted } => "containerd does not start: {error}";
    LikelyFault { place: FilePath, fault: Quoted } => "likely: {place}: {fault}";
    FaultOfNextStart { place: FilePath, fault: Quoted } =>
        "{place}: {fault}; the daemon that runs has not read this, so the fault counts at its next start";
    CriPluginNeedsInotify => "likely: its CRI plugin needs an inotify instance at its start";
    InotifyInstances { used: u64, limit: u64, most: Option<ProcessRef>, of_most: u64 } =>
        "root uses {used} of {limit} inotify instances{}",
        with("; ", most.as_ref().map(|process| format!("{process} has {of_most}")).as_ref());
    CriV1Since => "containerd serves CRI v1 from 1.6 on; the kubelet uses no older CRI";
    WhoServesNoCriV1 =>
        "containerd without its CRI plugin, and containerd before 1.6 or CRI-O before 1.23, which serve only an older \
         CRI, answer so";

    // D41
    PodsNeitherStartNorEnd { waiting: usize, ending: usize } =>
        "the kubelet starts no pod ({waiting} wait) and ends none ({ending} wait), although PLEG works";
    NothingStarts { waiting: usize, age: Took } =>
        "{waiting} pods have no sandbox after {age:#}, and nothing starts on this node";
    PodRunsAfterEnd { pod: PodRef, age: Took } => "pod {pod} still runs {age:#} after its end";
    PodsRunAfterEnd { ending: usize } => "{ending} pods still run after their end";
    PodsWithoutSandbox { pods: Vec<PodAge>, others: usize, newest_age: Took } =>
        "accepted by the kubelet, but without a sandbox: {}; the newest sandbox or container of the node is {newest_age:#} old",
        pods_and_more(pods, *others);
    PodsAfterGracePeriod { pods: Vec<PodAge>, others: usize } =>
        "still running although their grace period is over: {}", pods_and_more(pods, *others);
    KubeletStartWaits { lasts: Took } =>
        "the kubelet starts and ends no pod: for {lasts:#}, its start has waited to read the containers";
    StartReadsContainers =>
        "at its start, it reads each container (by its shim) and each disk; until then, relists work and pods do not";
    KubeletAgeUnknown => "the kubelet's age is not known, or it has just started";
    OneSideOnly => "one side only: a volume, a secret or a process that cannot be killed explains it too";

    // D06, D07, D29
    NoSuchSocket => "there is no such socket";
    EndpointIsDirectory => "the endpoint is a directory, not a socket";
    EndpointIsFile => "the endpoint is a file, not a socket";
    SocketPermissionDenied => "no permission to open the socket";
    NothingListens => "nothing listens on the runtime's socket";
    NoGrpc => "the process that listens on the socket does not speak gRPC";
    NoCriV1 => "the process that listens there does not serve the CRI v1 API";
    ConnectionClosed => "the runtime closes the connection";
    RuntimeUnreachable => "the runtime cannot be reached";
    VersionFails => "the runtime answers Version with an error";
    KubeletUsesThisEndpoint { source: Quoted } => "the kubelet uses this endpoint ({source})";
    KubeletUsesAnotherEndpoint { endpoint: Address, source: Quoted } =>
        "the kubelet uses another endpoint, {endpoint} ({source})";
    OtherSocket { endpoint: Address } => "there is also {endpoint}";
    RuntimeDoesNotAnswer => "the runtime accepts connections and does not answer";
    RuntimeStopped { process: ProcessRef, state: char } =>
        "the runtime is stopped: {process} is in state {state}";
    RuntimeWasStopped { process: Option<ProcessRef>, state: char, from: Wall, to: Wall, began_before: bool, seen_at: Wall } =>
        "the runtime was stopped: {} was in state {state} from {}{} to {}",
        process.as_ref().map_or_else(|| "the daemon".to_owned(), ToString::to_string), from.time_of_day(*seen_at),
        if *began_before { " or earlier" } else { "" }, to.time_of_day(*seen_at);
    RuntimeAcceptsNothing { full: DescriptorUse } => "the runtime accepts no connection: {full}";
    DaemonState { process: ProcessRef, state: char, threads: u64, resident_mebibytes: u64, up: Option<Took> } =>
        "{process}: state {state}, {threads} threads, {resident_mebibytes} MiB resident{}", with(", up ", up.as_ref());
    StoppedBySomebody => "somebody stopped it with a signal or a debugger";
    CpuUsed { used: Took, within: Took } => "it used {used} of CPU time in {within}";
    VersionSilentTwice { first: Took, second: Took } =>
        "Version did not answer within {first}, nor within {second} on a second connection";
    StoppedInEveryLook { process: ProcessRef, state: char, length: Took } =>
        "{process} was in state {state} in every look for {length}, at intervals of 0.25 s, and used no CPU time: no call was answered meanwhile";
    RunsAgain => "it runs again, so nothing has to be restarted or deleted";
    ListFails { rpc: Rpc, code: Option<Code> } =>
        "{rpc} fails at once: {}", code.map_or("no answer", Code::name);
    RelistTimeDoesNotAdvance =>
        "after each such error, the kubelet's time of the last relist does not advance, while its duration metric stays small";

    // D03
    LargestPods { pods: Vec<PodBytes> } => "the pods with the most bytes: {}", list(pods);
    NothingDeadToRemove => "nothing dead can be removed: what makes the list large is in use";
    ExitedContainersNeeded { containers: usize } =>
        "{} must stay: each is the last of its name in a pod that runs", plural(*containers, "exited container");

    // D03, D04, D05, D30
    ListRefused { rpc: Rpc } => "{rpc} fails: its answer is over gRPC's limit of 16 MiB";
    ListTooLarge { rpc: Rpc, size_bytes: Bytes, is_whole: bool } =>
        "the kubelet refuses {rpc}: {size_bytes}{} is over its 16 MiB", if *is_whole { "" } else { " and more" };
    ListAlmostTooLarge { rpc: Rpc } => "{rpc} has almost reached the size limit of gRPC";
    ListGrowsLarge { rpc: Rpc } => "{rpc} grows towards the limit of gRPC";
    KubeletListsBy { streams: Option<bool>, why: Quoted } =>
        "{}: {why}",
        match streams {
            Some(true) => "the kubelet lists with streams, so its limit is for a message and not for a list",
            Some(false) => "the kubelet lists with unary calls",
            None => "how the kubelet lists is not known, and its limit is for the whole list only without streams",
        };
    BatchTooLarge { rpc: Rpc, size_bytes: Bytes } =>
        "the kubelet probably refuses {rpc}: a message of about {size_bytes} is over its 16 MiB";
    StreamStalled { rpc: Rpc, entries: u64 } =>
        "{rpc} stalled after {entries} entries; the kubelet uses none of them";
    MessageTooLarge { rpc: Rpc, size_bytes: Bytes } =>
        "the kubelet refuses {rpc}: a message of {size_bytes} is over its 16 MiB";
    MessageSize { rpc: Rpc, entries: u64, size_bytes: Bytes, percent: u64 } =>
        "{rpc}: the largest message has {size_bytes}, {percent} % of the kubelet's limit; all messages have {entries} entries";
    KubeletFellBack => "the kubelet fell back to unary lists, and lists so until it restarts";
    RefusedStream { call: Quoted } =>
        "the runtime did not implement {call} then; one of the five streaming calls is enough";
    RefusedStreamNotKnown =>
        "which of the five streaming calls the runtime did not implement is not known: the kubelet's message is not in the journal that was read";
    WholeListSize { rpc: Rpc, size_bytes: Bytes, percent: u64 } =>
        "{rpc}: the whole list has {size_bytes}, {percent} % of the kubelet's limit";
    ListMayBeLarge =>
        "a list has more than half of 16 MiB, and it is not known whether the kubelet receives it in one message";
    BatchGrowsLarge { rpc: Rpc } => "the messages of {rpc} grow towards the limit of gRPC";
    BatchSize { rpc: Rpc, entries: usize, size_bytes: Bytes, percent: u64 } =>
        "{rpc}: {entries} entries in a message have about {size_bytes}, by the average size of an entry: {percent} % of the kubelet's limit";
    ListReadInPart { rpc: Rpc, received_bytes: Bytes, after: Took, percent: u64 } =>
        "{rpc} was not read completely: {received_bytes} had arrived after {after}, {percent} % of the kubelet's limit";
    ListSize { rpc: Rpc, received_bytes: Bytes, items: usize, bytes_each: u64, percent: u64, excess_items: u64, excess_pods: u64 } =>
        "{rpc} received {received_bytes} for {items} items ({bytes_each} bytes each): {percent} % of the kubelet's limit{}",
        match excess_items { 0 => String::new(), _ => format!(", about {excess_items} items (those of {excess_pods} pods) too many") };
    ItemsAreLarge => "the items are large: long annotations or labels";
    DeadNotCounted =>
        "the numbers of dead sandboxes and exited containers are not known: no answer was read completely";
    DeadOfAll { dead_sandboxes: usize, sandboxes: usize, exited_containers: usize, containers: usize, counted: Counted } =>
        "{dead_sandboxes} of {} are dead, {exited_containers} of {} have exited{}",
        plural(*sandboxes, "sandbox"), plural(*containers, "container"),
        match counted {
            Counted::All => "",
            Counted::InSmallerLists => " (counted in smaller lists)",
            Counted::Partly => " (not all could be counted)",
            Counted::PartRead => "; what was not read is not counted",
        };
    SmallerLists { rpc: Rpc, items: usize, size_bytes: Bytes, most_in: Vec<Share>, too_large_in: Vec<Name>, failed: usize } =>
        "{rpc} in smaller lists: {} ({size_bytes}), most in {}{}{}", plural(*items, "item"),
        if most_in.is_empty() { "no namespace".to_owned() } else { list(most_in) },
        if too_large_in.is_empty() { String::new() } else { format!("; too large even alone: {}", list(too_large_in)) },
        if *failed == 0 { String::new() } else { format!("; {} without an answer", plural(*failed, "list")) };
    MostPods { are_dead: bool, names: Vec<Share> } =>
        "most {} by name: {}", if *are_dead { "dead pods" } else { "pods" }, list(names);
    GarbageCollectionListsToo =>
        "the kubelet's garbage collection makes the same list call, so the node does not recover by itself";
    DeadAreKept { dead: usize } => "{dead} dead containers and sandboxes have not been removed";
    DeadAndRunning { exited: usize, running: usize, dead_sandboxes: usize } =>
        "{exited} exited and {running} running containers, {dead_sandboxes} dead sandboxes";
    SlowerList { took: Took } => "the slower list takes {took}";
    ListGrew { containers: usize } => "the list grew by {} during this run", plural(*containers, "container");
    StatusCallsSlow { each: Took, relist: Took, full: Took } =>
        "each status call is slow ({each}): a relist takes {relist}, after a kubelet restart {full}";
    RelistSlow { pods: usize, most_are_dead: bool, full: Took } =>
        "a relist of all {}{} takes {full}", plural(*pods, "pod"), if *most_are_dead { ", most of them dead," } else { "" };
    RelistNow { pods: usize, changed: usize, takes: Took } =>
        "{}, {changed} changed within a minute: a relist now takes {takes}", plural(*pods, "pod");
    StatusCallTimes { each: Took, p99: Took } => "one status call takes {each}, 99 % of them at most {p99}";
    EachCallIsSlow => "each call is slow: the problem is latency, not the number of pods";
    MostCallsAreQuick => "most calls are quick, so their number is the cause";
    AllPodsAfterRestart =>
        "the kubelet makes status calls for all pods only after its restart, and otherwise for the pods that changed";
    AgeStaysBelow { peak: Option<Took>, threshold: Took } =>
        "the age of PLEG peaks at {}, its threshold is {threshold}: this does not make the node NotReady", age(peak.as_ref());
    StatusSlow { call: Call, others: usize, took: Took } =>
        "{call}{} {} slow, answered after {took}", and_more(*others), if *others == 0 { "is" } else { "are" };
    StatusAnsweredLate { rpc: Rpc, of: Item, took: Took } => "{rpc} of {of:#} was answered after {took}";
    OtherCallsQuicker { calls: usize, than: Took } =>
        "{} were quicker than {than}", plural(*calls, "other status call");
    RelistWithSlowCalls { takes: Took } =>
        "the kubelet waits for each such call when its pod changes; a relist now takes {takes}";
    RelistWithoutSlowCalls { takes: Took } =>
        "a relist takes {takes} until this pod changes; then the kubelet waits for this call too, and its other pods wait";
    FullRelistStaysBelow { full: Took, threshold: Took } =>
        "with all pods changed at once, a relist takes {full}, below the threshold of {threshold}: this alone does not make the node NotReady";
    ListSlow { rpc: Rpc, took: Took } => "{rpc} takes {took}; nothing found explains it";
    ListAnsweredLate { rpc: Rpc, took: Took } => "{rpc} answered after {took}";
    ListRepeated { took: Took, is_recovered: bool } =>
        "when repeated, the slower list call took {took}{}", if *is_recovered { ": it has recovered" } else { "" };
    LongestStatusCall { took: Took } => "no status call took longer than {took}";

    // D16, D19, D20, D31, D33, D42
    Condition { name: ConditionName, holds: bool, reason: ConditionName, message: Quoted } =>
        "{name}={holds} reason:{reason} message:{message}";
    RuntimeReadinessUnknown => "the runtime does not say whether it is ready";
    NoRuntimeReady => "its Status has no RuntimeReady condition";
    RuntimeStatusSilent => "Status is not answered";
    RuntimeStatusFails => "Status fails";
    RuntimeDownAfter30s => "the kubelet reports \"container runtime is down\" if this lasts for 30 s";
    NetworkPluginSlow => "a network plugin is slow";
    NetworkNotReady => "the network is not ready";
    NetworkPluginHangs { process: ProcessRef, sandbox: Option<Item> } =>
        "the network plugin {process}{} hangs", with(" of ", pod_of(sandbox.as_ref()));
    NetworkPluginUnfinished { process: ProcessRef, sandbox: Option<Item>, age: Took } =>
        "the network plugin {process}{} has not finished for {age}", with(" of ", pod_of(sandbox.as_ref()));
    NetworkPluginAge { process: ProcessRef, sandbox: Option<Item>, age: Took } =>
        "{process}{} is {age} old", sandbox.as_ref().map(|of| format!(" of sandbox {of:#}")).unwrap_or_default();
    PodsCannotStartOrStop => "pods cannot start or stop because of this; it does not block PLEG";
    Contradiction { of: Item, what: OddKind } => "{} {}",
        if matches!(what, OddKind::TwiceReady | OddKind::TwoVersions) { of.to_string() } else { format!("{of:#}") },
        contradiction(*what);
    Contradictions { of: Vec<Item>, what: OddKind } =>
        "{}: {}", list(&of.iter().map(|of| format!("{of:#}")).collect::<Vec<_>>()), contradiction(*what);
    AndMore { others: usize } => "and {others} more";
    ExitAwaitsCommand { process: ProcessRef, command: Word, age: Took } =>
        "{process} {command} has not finished for {age}: the runtime records the exit only after it";
    ExitIsHeld { of: Item, why: Box<Fact> } => "what keeps the exit of {of} from being recorded: {why}";
    ConmonLostToo { containers: usize } =>
        "{containers} of them also lost their conmon: nothing records the exit, so the list shows RUNNING for ever";
    NothingMonitors =>
        "its processes run on; but nothing records its exit, nothing reads its output, and a write to it fails";
    SeenTwice => "seen in two samples";
    SeenOnce => "seen in one sample: the runtime may just be creating or removing it";
    ExitedButAlive { of: Item, process: ProcessRef } =>
        "the runtime says that {of} has exited, but its process {process} runs";
    RanAfterList { after: Took } => "it still ran {after} after the list was answered";
    EndRecorded { ago: Took } => "the runtime recorded its end {ago:#} ago";
    SeenOnceMayEnd => "seen once; a container that is just ending looks the same";
    FirstProcess { process: ProcessRef, of: Item, age: Took, state: char, below: Option<ProcessRef> } =>
        "{process} is the first process of container {}: started {age:#} ago, state {state}{}",
        short(&of.id), with(", below ", below.as_ref());
    ExitCodeRecorded { code: i32, is_of_failed_state: bool } => "the runtime recorded exit code {code}{}",
        if *is_of_failed_state { ", as CRI-O does if its OCI runtime's `state` fails" } else { "" };
    KubeletActsOnFalseExit =>
        "the kubelet acts on an exit that did not happen: by the pod's restart policy, a second copy starts while this one runs";
    StatusFails { rpc: Rpc, of: Item } => "{rpc} of {of:#} fails; the kubelet repeats the call in every relist";
    FailingCalls { failing: usize, of: usize } => "{failing} of {}", plural(*of, "status call");
    StatusError { of: Item, error: Quoted } => "{of:#}: {error}";
    StatusMissing { of: Item } => "{of:#}: the answer contains no status";
    StatusWithoutCreationTime { of: Item } => "{of:#}: the status has no creation time";
    NetworkNamespaceInUse => "its network namespace is also mounted in another place";
    ExitLost { of: Item, others: usize, wait: Took } =>
        "CRI-O lost the exit of {of}{}: each status call waits {wait} for it", and_more(*others);
    LostExitAnswers { relist: Took, pods_wait: bool } =>
        "answered with EXITED and exit code -1: slow, not hung; a relist of all of them takes {relist}{}",
        if *pods_wait { "; PodSandboxStatus of their pods waits for them too (the runtime sends pod events)" } else { "" };
    ConmonStopped { of: Item, conmon: ProcessRef, state: char } =>
        "{of:#}: its {conmon} is stopped (state {state})";
    ConmonRuns { of: Item, conmon: ProcessRef } => "{of:#}: its {conmon} runs";
    ConmonGone { of: Item } => "{of:#}: its conmon is gone, so the exit code is lost";
    ConmonStoppedOrGone { of: Item } => "{of:#}: its conmon is stopped or gone";

    // evidence/container_parts.rs, stacks.rs: what blocks a call, for several rules
    CgroupFrozen { path: FilePath } => "its cgroup {path} is frozen";
    ShimStopped { shim: ProcessRef, state: char } => "its shim {shim} is stopped (state {state})";
    TaskWaits { process: ProcessRef, task: u32, waits: Waits } => "{process}, task {task} {waits}";
    TaskWaitsInKernel { process: ProcessRef, task: u32, function: Function } =>
        "{process}, task {task} waits in the kernel in both samples ({function})";
    CommandWorks { process: ProcessRef, age: Took } => "{process} works on it and has not finished for {age}";
    RuntimeStacks { chain: Quoted, signature: Word } => "{chain} ({signature})";
    RuntimeStacksConfirm { chain: Quoted } => "the runtime's goroutines confirm it: {chain}";

    // health_state.rs
    StillSilent { rpc: Rpc, age: Took, calls: u32 } =>
        "{rpc} is still silent after {}, called {}", humantime::format_duration(age.duration()),
        match calls { 1 => "once".to_owned(), calls => format!("{calls} times") };

    // outside: what the documents and the dumps of a kubelet show
    RelistWaitsFor { call: Call } => "{call} does not answer: the kubelet's relist waits for it";
    SameCallInBothDumps { apart: Took } => "two goroutine dumps of the kubelet, {apart} apart, show the same call";
    CallHasWaited { about: Took } => "Go counts {} of waiting, and may be two minutes wrong", {
        plural(number(about.duration().as_secs() / 60), "minute")
    };
    GoroutinesWaitForCall { rpc: Word, goroutines: usize } => "{goroutines} goroutines of the kubelet wait for {rpc}";
    AllCallsWait { rpcs: Vec<Word> } => "Version waits too, so the runtime answers no call: {}", list(rpcs);
    MetricsWaitToo => "the kubelet's /configz answers and its /metrics is silent";
    CallIsRepeated { gives_up: Took } =>
        "the kubelet gives up the call after {} and repeats it: waiting ends the hang only if the runtime answers again",
        humantime::format_duration(gives_up.duration());

    WorkersWaitFor { rpcs: Vec<Word>, workers: usize } =>
        "{} {} for {}; PLEG does not", plural(*workers, "pod worker"),
        if *workers == 1 { "waits" } else { "wait" }, list(rpcs);
    WorkersWaitToo { rpcs: Vec<Word>, workers: usize } =>
        "{} {} for {} at the same time", plural(*workers, "pod worker"),
        if *workers == 1 { "waits" } else { "wait" }, list(rpcs);
    WorkerWaitsFor { task: Word, rpc: Word, fitting: usize } =>
        "a pod worker that {task} a pod waits for {rpc}; by the lengths of its names, {} {}",
        plural(*fitting, "pod"), if *fitting == 1 { "fits" } else { "fit" };
    RelistCallFits { rpc: Word, fitting: usize } =>
        "the relist's {rpc} is about a pod; by the lengths of its names, {} {}",
        plural(*fitting, "pod"), if *fitting == 1 { "fits" } else { "fit" };
    PodNotStarted { waited: Took } => "it was created {waited:#} ago and has not started";
    ContainerNotRestarted { waited: Took } => "a container of it ended {waited:#} ago and has not started again";
    PodNotEnded { waited: Took } => "its end has been due for {waited:#}";
    PodChangedBefore { what: PodChange, before: Took } =>
        "it {} {}", change(*what), match before.duration() {
            Duration::ZERO => "as the last relist began".to_owned(),
            _ => format!("{before:#} before the last relist began"),
        };
    PodChangedAgo { what: PodChange, ago: Took } => "it {} {ago:#} ago", change(*what);
    KubeletLogged { line: Quoted } => "the kubelet logged: {line}";
    KubeletReports { message: Quoted } => "the kubelet reports: {message}";
    OnlyKubeletHasPod => "the kubelet still has it, and the API server does not";
    ContainersAreGone { containers: Vec<Word> } =>
        "{} {} for the API server, and {} gone from the kubelet's /metrics/resource", list(containers),
        if containers.len() == 1 { "runs" } else { "run" }, if containers.len() == 1 { "is" } else { "are" };

    // capture/incident.rs: why an incident began, and its first line
    CallIsOpen { call: Call, waited: Took } => "{call} has not been answered for {}", rounded(*waited);
    RelistIsOpen { waited: Took } => "the relist has not been answered for {}", rounded(*waited);
    LastRelistIsOld { age: Took } => "the last relist is {} old", rounded(*age);
    CallWasSlow { call: Call, took: Took } => "{call} took {}", rounded(*took);
    RelistWasSlow { relist: u64, took: Took } => "relist {relist} took {}", rounded(*took);
    CallHasFailed { call: Call, error: Quoted } => "{call}: {error}";
    KubeletGone => "the kubelet is gone";
    KubeletProcessIsStopped { pid: u32 } => "the kubelet is stopped: process {pid}";
    KubeletWasStarted => "the kubelet was restarted";
    KubeletWasReplaced { before: u32, now: u32 } =>
        "the kubelet was restarted: process {before} is gone, process {now} runs";
    KubeletIsOverThreshold => "the kubelet has not relisted for longer than its threshold";
    ProcessIsStopped { process: ProcessRef } => "{} is stopped: process {}", process.name, process.pid;
    DiagnosisFound { verdict: Verdict, what: Box<Fact>, rule: RuleId, confidence: Confidence } =>
        "{}: {what} ({rule}, {confidence})", verdict.as_str().to_uppercase();
    DiagnosisFoundNothing { verdict: Verdict } => "{}: nothing found", verdict.as_str().to_uppercase();

    // The title in the file of a rule, if a finding needs no other.
    TitleOf { rule: RuleId } => "{}", row(*rule).rule().title;
    // Written elsewhere: by the reasons for waits in the kernel, by the judge of goroutine stacks, by manifests.
    Line { words: Quoted } => "{words}";
    // A fact of a later release.
    #[serde(other)]
    Unknown => "a fact that this release does not know";
}
