//! The kinds of facts: one row for each, with its fields and its English words. The rows are in the order of the files under
//! `rules` that use them.

use serde::{Deserialize, Serialize};

use super::{
    Address, Bytes, Call, Counted, Decimal, DescriptorUse, Fact, FilePath, Item, Items, Name, PodAge,
    PodBytes, ProcessRef, Quoted, Share, Took,
};
use crate::clock::Wall;
use crate::cri::{Code, Rpc};
use crate::diagnosis::evidence::oddities::OddKind;
use crate::diagnosis::words::short;
use crate::report::{PodRef, plural};

/// Defines [`FactKind`]. Each row has a kind, its fields with their types, and after `=>` the arguments of `format!` that
/// write its words. In these arguments, a field is a reference.
macro_rules! facts {
    ($($kind:ident $({ $($field:ident: $type:ty),+ })? => $words:literal $(, $argument:expr)*;)+) => {
        /// What was measured or concluded.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
        pub(crate) enum FactKind {
            $($kind $({ $($field: $type),+ })?,)+
            /// A fact of a later release.
            #[serde(other)]
            Unknown,
        }

        #[cfg(test)]
        impl FactKind {
            /// Returns two facts of each kind: with as little as possible, and with everything.
            pub(super) fn samples() -> Vec<Self> {
                use super::tests::Sample;
                let of_each = |is_full: bool| vec![$(Self::$kind $({ $($field: Sample::sample(is_full)),+ })?),+];
                [of_each(false), of_each(true)].concat()
            }
        }

        impl std::fmt::Display for FactKind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Self::$kind $({ $($field),+ })? => write!(f, $words $(, $argument)*),)+
                    Self::Unknown => f.write_str("a fact that this release does not know"),
                }
            }
        }
    };
}

/// The rest of a sentence about one thing or several: `does` or `do`.
const fn does(count: usize) -> &'static str {
    if count == 1 { "does" } else { "do" }
}

/// Joins the parts of a list.
fn list<T: std::fmt::Display>(parts: &[T]) -> String {
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
fn with<T: std::fmt::Display>(before: &str, part: Option<&T>) -> String {
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
        OddKind::TwoVersions => "runs twice, under two UIDs",
        OddKind::NoSandbox => "belongs to a sandbox that is not listed",
        OddKind::NoProcess => "is RUNNING and has no process",
        OddKind::NoMonitor => "is RUNNING, and its conmon is gone",
    }
}

/// A list of pods, with the number of those that it does not name.
fn pods_and_more(pods: &[PodAge], others: usize) -> String {
    if others == 0 { list(pods) } else { format!("{}, and {others} more", list(pods)) }
}

/// Converts a number for `plural`.
fn number(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

facts! {
    // mod.rs: D00
    NothingFound { serial: Took, kubelet_is_unchecked: bool } =>
        "all calls are answered; a relist takes {serial}{}", if *kubelet_is_unchecked { "; kubelet not checked" } else { "" };
    Population { pods: usize, sandboxes: usize, containers: usize, running: usize, exited: usize } =>
        "{}, {}, {} ({running} running, {exited} exited{}): all answered",
        plural(*pods, "pod"), plural(*sandboxes, "sandbox"), plural(*containers, "container"),
        match containers.saturating_sub(running + exited) { 0 => String::new(), others => format!(", {others} in another state") };
    RelistDurations { lists: Took, full: Took } =>
        "both lists take {lists}, a relist of every pod (after a kubelet restart) {full}";
    FarBelowThreshold { threshold: Took } =>
        "far below the {threshold} without a relist that make PLEG unhealthy";

    // hang.rs: D01, D02, D28
    ListsHang { rpcs: Vec<Rpc>, as_does: Option<Call>, daemon_is_stopped: bool } =>
        "{} {} not answer{}", both(rpcs), does(rpcs.len()),
        match as_does {
            Some(call) => format!(", nor does {call}"),
            None if *daemon_is_stopped => String::new(),
            None => "; the daemon is alive".to_owned(),
        };
    CallsSilent { rpcs: Vec<Rpc>, waited: Took } => "{} did not answer within {waited}", both(rpcs);
    VersionAnsweredMeanwhile { took: Took } =>
        "Version is answered in {took} at the same time, so the daemon is alive and waits for something internally";
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
        "{silent} of {} not answering {rpc}:", plural(*known, items.as_str());
    Culprit { of: Item } => "  {of:#}";
    SilentSoFar { call: Call, others: usize, waited: Took } =>
        "{call}{} has not answered for {waited}",
        match others { 0 => String::new(), others => format!(" (and {})", plural(*others, "other call")) };
    NoAnswerSoFar { call: Call, waited: Took } => "{call}: no answer within {waited}";
    TooEarlyForHang { likely_after: Took } =>
        "too early to count as hung: a hang is likely after {likely_after}";
    ManyStatusCallsHang { silent: usize, of: usize } =>
        "{silent} of {of} status calls do not answer: no single pod is to blame";
    StatusHangs { call: Call, others: usize } =>
        "{call}{} {} not answer", and_more(*others), does(others + 1);
    StatusSilent { rpc: Rpc, of: Item, waited: Took, blocked_by: Option<Box<Fact>> } =>
        "{rpc} of {of:#} did not answer within {waited}{}", with(", and ", blocked_by.as_ref());
    OtherCallsAnswered { lists_answer: bool, answered: usize } =>
        "{}, and so do {}", if *lists_answer { "both lists answer" } else { "no list is silent" },
        plural(*answered, "other status call");
    HangTripsThreshold { gives_up: Took, hung_calls: usize, peak: Option<Took>, threshold: Took } =>
        "the kubelet waits {gives_up} for each call and makes {} in a relist: so it relists every {}, and the node is NotReady after {threshold}",
        plural(*hung_calls, "such call"), age(peak.as_ref());
    HangStaysBelow { gives_up: Took, threshold: Took } =>
        "the kubelet gives up such a call after {gives_up}, before its threshold of {threshold}: the node stays Ready";
    PodsAreOld { peak: Option<Took> } => "the node stays Ready, but the state of its pods is up to {} old", age(peak.as_ref());
    OneHungCall => "one hung call costs one time-out, which is below the threshold";
    KubeletRelistAge { seconds: Decimal } => "the kubelet's last relist is {seconds:.0} s old";

    // clients.rs: D39
    DoesNotReadAnswers { process: ProcessRef } => "{process} does not read the runtime's answers";
    ManyClients { others: usize } => "{others} programs besides the kubelet call the runtime";
    SocketConnections { connections: usize, waiting: u32 } =>
        "{} to the runtime's socket, {waiting} not accepted yet", plural(*connections, "connection");
    SocketClient { process: ProcessRef, connections: usize, unread: u64 } =>
        "{process}: {}{}", plural(*connections, "connection"),
        match unread { 0 => String::new(), bytes => format!(", {} not read", plural(number(*bytes), "byte")) };

    // cri_missing.rs: D06
    InotifyUsedUp { is_now: bool } =>
        "containerd serves no CRI v1: root's inotify instances {} used up", if *is_now { "are" } else { "were" };
    CriPluginRefusesSettings => "containerd serves no CRI v1: its CRI plugin refuses its settings";
    CriPluginNotLoaded => "containerd serves no CRI v1: it did not load its CRI plugin";
    CriPluginDisabled => "containerd serves no CRI v1: disabled_plugins has its CRI plugin";
    OnlyOlderCri { version: Quoted } => "containerd {version} serves only an older CRI, not CRI v1";
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

    // pods.rs: D41
    PodsNeitherStartNorEnd { waiting: usize, ending: usize } =>
        "pods neither start ({waiting}) nor end ({ending}) on this node, although PLEG works";
    NothingStarts { waiting: usize, age: Took } =>
        "{waiting} pods have no sandbox after {age:#}, and nothing starts on this node";
    PodRunsAfterEnd { pod: PodRef, age: Took } => "pod {pod} still runs {age:#} after its end";
    PodsRunAfterEnd { ending: usize } => "{ending} pods still run after their end";
    PodsWithoutSandbox { pods: Vec<PodAge>, others: usize, newest_age: Took } =>
        "accepted by the kubelet, but without a sandbox: {}; the newest sandbox or container of the node is {newest_age:#} old",
        pods_and_more(pods, *others);
    PodsAfterGracePeriod { pods: Vec<PodAge>, others: usize } =>
        "still running although their grace period is over: {}", pods_and_more(pods, *others);
    KubeletAgeUnknown => "the kubelet's age is not known, or it has just started";
    OneSideOnly => "one side only: a volume, a secret or a process that cannot be killed explains it too";

    // reach.rs: D06, D07, D29
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

    // removal.rs: D03
    LargestPods { pods: Vec<PodBytes> } => "the pods with the most bytes: {}", list(pods);
    NothingDeadToRemove => "nothing dead can be removed: what makes the list large is in use";
    ExitedContainersNeeded { containers: usize } =>
        "{} must stay: each is the last of its name in a pod that runs", plural(*containers, "exited container");

    // size.rs: D03, D04, D05, D30
    ListRefused { rpc: Rpc } => "{rpc} fails: its answer is over the 16 MiB of gRPC";
    ListTooLarge { rpc: Rpc, size_bytes: Bytes, is_whole: bool } =>
        "the kubelet refuses {rpc}: {size_bytes}{} is over its 16 MiB", if *is_whole { "" } else { " and more" };
    ListAlmostTooLarge { rpc: Rpc } => "{rpc} has almost reached the size limit of gRPC";
    ListGrowsLarge { rpc: Rpc } => "{rpc} grows towards the limit of gRPC";
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
    DeadAreKept { dead: usize } => "{dead} dead containers and sandboxes are kept";
    DeadAndRunning { exited: usize, running: usize, dead_sandboxes: usize } =>
        "{exited} exited and {running} running containers, {dead_sandboxes} dead sandboxes";
    SlowerList { took: Took } => "the slower list takes {took}";
    ListGrew { containers: usize } => "the list grew by {} during this run", plural(*containers, "container");
    StatusCallsSlow { each: Took, relist: Took, full: Took } =>
        "each status call takes {each}, a relist now {relist}, of every pod {full}";
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
        "the age of PLEG reaches {}, its threshold is {threshold}: PLEG does not make the node NotReady", age(peak.as_ref());
    StatusSlow { call: Call, others: usize, took: Took } =>
        "{call}{} {} slow, answered after {took}", and_more(*others), if *others == 0 { "is" } else { "are" };
    StatusAnsweredLate { rpc: Rpc, of: Item, took: Took } => "{rpc} of {of:#} was answered after {took}";
    OtherCallsQuicker { calls: usize, than: Took } =>
        "{} were quicker than {than}", plural(*calls, "other status call");
    RelistWithSlowCalls { takes: Took } =>
        "the kubelet waits for each such call when its pod changes; a relist now takes {takes}";
    RelistWithoutSlowCalls { takes: Took } =>
        "a relist now takes {takes}; whenever this pod changes, the kubelet waits for this call too, and its other pods wait";
    FullRelistStaysBelow { full: Took, threshold: Took } =>
        "with all pods changed at once, a relist takes {full}, far below the threshold of {threshold}: the node stays Ready";
    ListSlow { rpc: Rpc, took: Took } => "{rpc} takes {took}; nothing found explains it";
    ListAnsweredLate { rpc: Rpc, took: Took } => "{rpc} answered after {took}";
    ListRepeated { took: Took, is_recovered: bool } =>
        "when repeated, the slower list call took {took}{}", if *is_recovered { ": it has recovered" } else { "" };
    LongestStatusCall { took: Took } => "no status call took longer than {took}";

    // state.rs: D16, D19, D20, D31, D33, D42
    Condition { name: Quoted, holds: bool, reason: Quoted, message: Quoted } =>
        "{name}={holds} reason:{reason} message:{message}";
    RuntimeNotReady => "the runtime says that it is not ready";
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
    NetworkFailuresLogged { failures: usize } =>
        "{} of network set-up or tear-down in the journal", plural(*failures, "failure");
    PodsCannotStartOrStop => "pods cannot start or stop because of this; it does not block PLEG";
    Contradiction { of: Item, what: OddKind } => "{} {}",
        if matches!(what, OddKind::TwiceReady | OddKind::TwoVersions) { of.to_string() } else { format!("{of:#}") },
        contradiction(*what);
    Contradictions { of: Vec<Item>, what: OddKind } =>
        "{}: {}", list(&of.iter().map(|of| format!("{of:#}")).collect::<Vec<_>>()), contradiction(*what);
    AndMore { others: usize } => "and {others} more";
    ExitAwaitsCommand { process: ProcessRef, command: Quoted, age: Took } =>
        "{process} {command} has not finished for {age}: the runtime records the exit only after it";
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
    TaskWaits { process: ProcessRef, task: u32, wait: Quoted } => "{process}, task {task} {wait}";
    TaskWaitsInKernel { process: ProcessRef, task: u32, function: Quoted } =>
        "{process}, task {task} waits in the kernel in both samples ({function})";
    CommandWorks { process: ProcessRef, age: Took } => "{process} works on it and has not finished for {age}";
    RuntimeStacks { chain: Quoted, signature: Quoted } => "{chain} ({signature})";
    RuntimeStacksConfirm { chain: Quoted } => "the runtime's goroutines confirm it: {chain}";

    // health_state.rs
    StillSilent { rpc: Rpc, age: Took, calls: u32 } =>
        "{rpc} is still silent after {}, called {}", humantime::format_duration(age.duration()),
        match calls { 1 => "once".to_owned(), calls => format!("{calls} times") };

    // Written elsewhere: by the reasons for waits in the kernel, by the judge of goroutine stacks, by manifests.
    Line { words: Quoted } => "{words}";
}
