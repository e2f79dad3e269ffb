//! The types of the report of `plegctl stacks`. Their field names are the JSON names of the output with `-o json`;
//! fields with `serde(skip)` are only for the text output and for the naming of pods in `live`.
//!
//! `judge` creates the report and `live` adds names to it.

use serde::{Deserialize, Serialize};

use super::daemon::Daemon;
use plegctl_base::report::{Confidence, ContainerRef, PodRef, Seconds, Severity};

/// The report about all dumps of one run: which goroutine waits for which.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct StackReport {
    /// The most important finding in one sentence, which is the first line of the text output.
    pub summary: String,
    /// The dumps that were read.
    pub dumps: Vec<DumpInfo>,
    /// The most important finding, the same as `findings[0]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<Finding>,
    /// All findings, ordered by confidence and severity.
    pub findings: Vec<Finding>,
    /// All goroutines that wait for a lock.
    pub waits: Vec<Wait>,
    /// Equal stacks with their counts, the most frequent first.
    pub groups: Vec<StackGroup>,
    /// What the dumps cannot show, and what the report leaves out.
    pub limits: Vec<String>,
}

impl StackReport {
    /// Returns whether the exit status is 1: a finding about the present has a confidence above *possible* and a severity
    /// above *info*.
    pub fn has_problem(&self) -> bool {
        self.findings.iter().any(Finding::is_problem)
    }

    /// Returns whether a second dump may help: the wait of a finding is not proven to last, it would be a problem if it
    /// were, and no other finding is a proven problem.
    pub fn second_dump_may_help(&self) -> bool {
        let is_proven = |finding: &Finding| finding.is_problem() && finding.chain.is_proven;
        let matters = |finding: &Finding| {
            finding.chain.past.is_none()
                && finding.chain.full_severity.is_some_and(|full| full > Severity::Info)
        };
        !self.findings.iter().any(is_proven) && self.findings.iter().any(matters)
    }
}

/// One dump that was read.
#[plegctl_base::report::document_part]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DumpInfo {
    /// The file, socket or URL from which the dump was read.
    pub source: String,
    /// The program that wrote the dump.
    pub daemon: Daemon,
    /// The process id, if known.
    pub pid: Option<u32>,
    /// The Go release that built the program, if a path in the dump contains it.
    pub go_version: Option<String>,
    /// When the dump was taken, if known.
    pub taken_at: Option<String>,
    /// Set if plegctl found the dump on the node, but the dump does not show the present state.
    pub past: Option<PastDump>,
    /// The number of goroutines in the dump.
    pub goroutines: u64,
    /// The number of headers and lines that could not be parsed.
    pub not_understood: u64,
}

/// A dump that does not show the present state: it is old, or the process that wrote it has ended or is not known.
#[plegctl_base::report::document_part]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PastDump {
    /// The age of the dump.
    pub age_seconds: Seconds,
    /// Whether the process that wrote the dump has ended.
    pub process_ended: bool,
}

/// A finding: a cause that makes goroutines wait.
#[plegctl_base::report::document_part]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The signature's id: `ST01`.
    pub id: String,
    /// The signature's title.
    pub title: String,
    /// The severity; *info* if the finding is only possible.
    pub severity: Severity,
    /// How sure plegctl is of the finding.
    pub confidence: Confidence,
    /// The CRI calls that hang because of the cause, the most frequent first.
    #[serde(default)]
    pub rpcs: Vec<String>,
    /// The number of goroutines that wait behind the holder.
    #[serde(default)]
    pub waiters: u64,
    /// About how long the wait has lasted.
    pub waited_seconds: Option<Seconds>,
    /// Whether the duration is a lower bound: two dumps show the wait. Otherwise it is an estimate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waited_at_least: bool,
    /// The goroutine that holds what the waiters need, or that itself waits for the cause.
    pub holder: Option<Holder>,
    /// The facts that support the finding.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// What the user can do next.
    #[serde(default)]
    pub next: Vec<String>,
    /// Public issue threads about the same cause: `containerd#9770`.
    #[serde(default)]
    pub threads: Vec<String>,
    /// The goroutines of the finding and how they wait for each other.
    #[serde(skip)]
    pub chain: Chain,
}

impl Finding {
    /// Returns whether the finding is about the present, more than possible, and above *info*.
    fn is_problem(&self) -> bool {
        self.severity > Severity::Info && self.confidence != Confidence::Possible && self.chain.past.is_none()
    }
}

/// The goroutines of a finding. The *roots* wait for something outside the process, which is the cause; the *waiters*
/// wait for what the roots hold. The text output makes a sentence and a tree from these fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// The index of the dump in the report.
    pub dump: usize,
    /// The roots as indexes of goroutines in the dump, the most important root first.
    pub roots: Vec<usize>,
    /// The waiters, grouped by call and function.
    pub behind: Vec<WaitersBehind>,
    /// The lock for which the waiters wait: `a container's status lock`.
    pub lock: Option<String>,
    /// The call that the first root serves.
    pub root_call: Option<String>,
    /// The number of root goroutines; a profile counts several goroutines with one stack.
    pub root_count: u64,
    /// The frames of the first root, innermost first, without those of libraries.
    pub root_frames: Vec<String>,
    /// What the first root waits for: `its shim`.
    pub target: String,
    /// The calls that hang, in the catalogue's words.
    pub hangs: String,
    /// The severity that the finding has as soon as it is more than possible.
    pub full_severity: Option<Severity>,
    /// Whether addresses in the dump lead from the waiters to the holder.
    pub by_address: bool,
    /// Whether an earlier dump of the same process was compared.
    pub compared: bool,
    /// Whether the wait is known to last, not only by an age that Go prints.
    pub is_proven: bool,
    /// Set if the dump does not show the present state.
    pub past: Option<PastDump>,
    /// The sentence about the finding, if it comes from a capture, which contains no other field of the chain.
    pub recorded: Option<String>,
}

/// Waiters that serve the same call and wait in the same function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitersBehind {
    /// The number of waiters.
    pub count: u64,
    /// The call that they serve.
    pub call: Option<String>,
    /// The function in which they wait.
    pub at: String,
}

/// The goroutine that holds what the waiters need.
#[plegctl_base::report::document_part]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The goroutine's id; `None` in a profile.
    pub goroutine: Option<u64>,
    /// The innermost function that is not of a library.
    pub function: String,
    /// What the holder itself waits for.
    pub waits_for: WaitsFor,
    /// The pod for which it works, if the running process or its children show it.
    pub pod: Option<PodRef>,
    /// The container for which it works.
    pub container: Option<ContainerRef>,
}

/// What a holder waits for.
#[plegctl_base::report::document_part]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitsFor {
    /// The kind of the thing.
    pub kind: WaitKind,
    /// The process id, if it is a known process.
    pub pid: Option<u32>,
    /// The path of the file, or the name of the process.
    pub path: Option<String>,
    /// The state of the process: `stopped`.
    pub state: Option<String>,
}

/// The kinds of things that a goroutine waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum WaitKind {
    /// The answer of a shim.
    Shim,
    /// A process: a child, or the peer of a call.
    Process,
    /// A file or its file system.
    File,
    /// The network.
    Network,
    /// A lock.
    Lock,
    /// Memory.
    Memory,
    /// Something that the dump does not show.
    Unknown,
}

/// One goroutine that waits for a lock.
#[plegctl_base::report::document_part]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// The index of the dump; absent if there is only one.
    pub dump: Option<usize>,
    /// The goroutine's id; `None` in a profile.
    pub goroutine: Option<u64>,
    /// The call that it serves.
    pub call: Option<String>,
    /// The kind of the lock: `RWMutex.RLock`.
    pub lock: &'static str,
    /// The function that wants the lock.
    pub at: String,
    /// About how long the wait has lasted.
    pub waited_seconds: Option<Seconds>,
    /// Whether the duration is a lower bound: two dumps show the wait. Otherwise it is an estimate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub waited_at_least: bool,
    /// The ids of goroutines that may hold the lock.
    pub holders: Vec<u64>,
    /// Why these goroutines may hold the lock.
    pub why: Option<&'static str>,
    /// The ids of writers that wait for the same lock, if this goroutine wants to read. A waiting writer blocks new
    /// readers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub behind_writers: Vec<u64>,
    /// How sure plegctl is of the holders.
    pub confidence: Confidence,
}

/// Goroutines with equal stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct StackGroup {
    /// The number of goroutines.
    pub count: u64,
    /// Their state.
    pub state: String,
    /// About how long the longest wait has lasted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_seconds: Option<Seconds>,
    /// The frames without import paths, innermost first; long stacks are cut.
    pub frames: Vec<String>,
}
