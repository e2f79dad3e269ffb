//! The report of `stacks`: the JSON of the contract.

use serde::{Deserialize, Serialize};

use super::daemon::Daemon;
use crate::report::{Confidence, ContainerRef, PodRef, Severity, optional_pod};

/// Which goroutine waits for which.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
#[non_exhaustive]
pub struct StackReport {
    /// The chain in one sentence; the first line of the text output.
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
    /// What the input cannot show, and what was left out.
    pub limits: Vec<String>,
}

impl StackReport {
    /// Whether something is held up, with a confidence above possible.
    pub fn is_held_up(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.severity > Severity::Info && finding.confidence != Confidence::Possible)
    }
}

impl StackReport {
    /// Whether a second dump may help: a possible finding would matter, and no finding has a higher confidence.
    pub fn leaves_a_doubt(&self) -> bool {
        let matters = |finding: &Finding| finding.chain.severity.is_some_and(|full| full > Severity::Info);
        !self.is_held_up() && self.findings.iter().any(matters)
    }
}

/// One dump that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DumpInfo {
    /// The source.
    pub source: String,
    /// The program.
    pub daemon: Daemon,
    /// The process id, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The Go release that built the program, if paths show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub go_version: Option<String>,
    /// When the dump was taken, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_at: Option<String>,
    /// How many goroutines the dump contains.
    pub goroutines: u64,
    /// Headers and lines that could not be parsed.
    pub not_understood: u64,
}

/// A finding: something that is held up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Finding {
    /// `ST01`
    pub id: String,
    /// The title.
    pub title: String,
    /// The severity.
    pub severity: Severity,
    /// The confidence.
    pub confidence: Confidence,
    /// The calls that hang because of it, the most frequent first.
    #[serde(default)]
    pub rpcs: Vec<String>,
    /// How many goroutines wait behind the holder.
    #[serde(default)]
    pub waiters: u64,
    /// For how many minutes at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minutes: Option<u32>,
    /// Which goroutine holds what the waiters need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
    /// The facts that support the finding.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// What the user can do next.
    #[serde(default)]
    pub next: Vec<String>,
    /// Public issue threads.
    #[serde(default)]
    pub threads: Vec<String>,
    /// The dump and the goroutines of the finding.
    #[serde(skip)]
    pub chain: Chain,
}

/// The chain behind a finding, from which the sentence and the tree are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// The index of the dump.
    pub dump: usize,
    /// The goroutines that wait for something outside of the process, the most telling one first, as indexes in the
    /// dump.
    pub roots: Vec<usize>,
    /// Who waits behind the roots: how many goroutines, of which call, and where.
    pub behind: Vec<WaitersBehind>,
    /// The lock for which the waiters wait: `a container's status lock`.
    pub lock: Option<String>,
    /// The call that the root serves.
    pub root_call: Option<String>,
    /// How many goroutines are roots.
    pub root_count: u64,
    /// The frames of the root, innermost first.
    pub root_frames: Vec<String>,
    /// What the root waits for.
    pub target: String,
    /// The calls that hang, in the catalogue's words.
    pub hangs: String,
    /// The severity that a finding above possible would have.
    pub severity: Option<Severity>,
    /// Whether addresses lead from the waiters to the holder.
    pub by_address: bool,
    /// Whether an earlier dump of the same process was compared.
    pub compared: bool,
    /// The sentence about it, where only that was kept in a capture.
    pub recorded: Option<String>,
}

/// Waiters of the same call in the same function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitersBehind {
    /// How many.
    pub count: u64,
    /// The call that they serve.
    pub call: Option<String>,
    /// The function in which they wait.
    pub at: String,
}

/// The goroutine that holds what others need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Holder {
    /// The goroutine's id; `None` in a profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goroutine: Option<u64>,
    /// The function in which it is.
    pub function: String,
    /// What the holder itself waits for.
    pub waits_for: WaitsFor,
    /// The pod for which it works, if its process's memory shows it.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_pod")]
    pub pod: Option<PodRef>,
    /// The container for which it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerRef>,
}

/// What a goroutine waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WaitsFor {
    /// The kind.
    pub kind: WaitKind,
    /// The process, if it is a known process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The file, or the process's program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The process's state, in the kernel's word: `stopped`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// The kinds of things that a goroutine waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Unknown.
    Unknown,
}

/// One goroutine that waits for a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Wait {
    /// The index of the dump; absent if there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dump: Option<usize>,
    /// The goroutine's id; `None` in a profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goroutine: Option<u64>,
    /// The call that it serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The kind of the lock.
    pub lock: &'static str,
    /// The function that wants the lock.
    pub at: String,
    /// For how many minutes at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minutes: Option<u32>,
    /// Goroutines that may hold the lock, the best candidate first.
    pub holders: Vec<u64>,
    /// Why they may hold it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'static str>,
    /// Writers that wait before this reader.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub behind_writers: Vec<u64>,
    /// How sure the holders are.
    pub confidence: Confidence,
}

/// Goroutines with equal stacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StackGroup {
    /// How many.
    pub count: u64,
    /// Their state.
    pub state: String,
    /// The longest wait, in whole minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minutes: Option<u32>,
    /// The frames, innermost first, shortened.
    pub frames: Vec<String>,
}
