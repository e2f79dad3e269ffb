//! The kinds of facts: one row for each, with its fields and its English words. The rows are in the order of the files under
//! `rules` that use them.

use serde::{Deserialize, Serialize};

use super::{Call, Decimal, Item, Items, ProcessRef, Quoted, Took};
use crate::cri::Rpc;
use crate::report::plural;

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
    ListsSilent { rpcs: Vec<Rpc>, waited: Took } => "{} did not answer within {waited}", both(rpcs);
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
        "{call}{} {} not answer", match others { 0 => String::new(), others => format!(" and {others} more") }, does(others + 1);
    StatusSilent { rpc: Rpc, of: Item, waited: Took, blocked_by: Option<Quoted> } =>
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

    // Written elsewhere: by the reasons for waits in the kernel, by the judge of goroutine stacks, by manifests.
    Line { words: Quoted } => "{words}";
}
