//! What `stacks` says, as data: the JSON of the contract.

use serde::{Deserialize, Serialize};

use super::daemon::Daemon;
use crate::report::{Confidence, ContainerRef, PodRef, Severity, optional_pod};

/// Who waits for whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub struct StackReport {
    /// The chain in one sentence; the first line of the screen.
    pub summary: String,
    /// What was read.
    pub dumps: Vec<DumpInfo>,
    /// What matters most, the same as `findings[0]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<Finding>,
    /// All findings, the surest and worst first.
    pub findings: Vec<Finding>,
    /// Everybody who waits for a lock.
    pub waits: Vec<Wait>,
    /// Equal stacks counted, the most frequent first.
    pub groups: Vec<Group>,
    /// What this form cannot tell, and what was left out.
    pub limits: Vec<String>,
}

impl StackReport {
    /// Whether something is held up, as far as we are sure of it.
    pub fn is_held_up(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.severity > Severity::Info && finding.confidence != Confidence::Possible)
    }
}

impl StackReport {
    /// Whether a second dump may say more: something is possible that would matter, and nothing is surer than that.
    pub fn leaves_a_doubt(&self) -> bool {
        let matters = |finding: &Finding| finding.chain.severity.is_some_and(|full| full > Severity::Info);
        !self.is_held_up() && self.findings.iter().any(matters)
    }
}

/// One dump that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DumpInfo {
    /// Where it came from.
    pub source: String,
    /// Of which program.
    pub daemon: Daemon,
    /// Its process, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Go release that built it, where paths tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub go_version: Option<String>,
    /// When it was taken, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_at: Option<String>,
    /// How many goroutines it tells of.
    pub goroutines: u64,
    /// Headers and lines that fit no form known.
    pub not_understood: u64,
}

/// Something that is held up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// `ST01`
    pub id: String,
    /// In a few words.
    pub title: String,
    /// How much it matters.
    pub severity: Severity,
    /// How sure we are.
    pub confidence: Confidence,
    /// The calls that hang by it, the most frequent first.
    pub rpcs: Vec<String>,
    /// How many goroutines wait behind the holder.
    pub waiters: u64,
    /// For how many minutes at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minutes: Option<u32>,
    /// Who has what they wait for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
    /// Why we think so.
    pub evidence: Vec<String>,
    /// What to look at.
    pub next: Vec<String>,
    /// Public threads.
    pub threads: Vec<String>,
    /// Which dump it is from, and who is in it.
    #[serde(skip)]
    pub chain: Chain,
}

/// The chain behind a finding: what the sentence and the tree are made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// The dump, by its number.
    pub dump: usize,
    /// Goroutines that wait for what stands outside, the telling one first. Positions in the dump.
    pub roots: Vec<usize>,
    /// Who waits behind them: how many of which call, and where.
    pub behind: Vec<Behind>,
    /// What the waiters wait for: `a container's status lock`.
    pub lock: Option<String>,
    /// The call that the root serves.
    pub root_call: Option<String>,
    /// How many goroutines are roots.
    pub root_count: u64,
    /// Frames of the root, innermost first.
    pub root_frames: Vec<String>,
    /// What the root waits for.
    pub target: String,
    /// Which calls hang by it, in the catalogue's words.
    pub hangs: String,
    /// How much it matters where it is more than possible.
    pub severity: Option<Severity>,
    /// Whether addresses lead from the waiters to the holder.
    pub by_address: bool,
    /// Whether an earlier dump of the same process was compared.
    pub compared: bool,
    /// The sentence about it, where only that was kept in a capture.
    pub recorded: Option<String>,
}

/// Waiters of the same call at the same place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    /// How many.
    pub count: u64,
    /// The call they serve.
    pub call: Option<String>,
    /// Where they wait.
    pub at: String,
}

/// Who has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// Its number; none in a profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goroutine: Option<u64>,
    /// Where it is.
    pub function: String,
    /// What it waits for itself.
    pub waits_for: WaitsFor,
    /// The pod it works for, if memory told.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_pod")]
    pub pod: Option<PodRef>,
    /// The container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerRef>,
}

/// What somebody waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitsFor {
    /// Its kind.
    pub kind: Kind,
    /// The process, if it is one that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The file, or the process's program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The process's state, in the kernel's word: `stopped`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// Kinds of what is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A shim's answer.
    Shim,
    /// A process: a child, or the other end of a call.
    Process,
    /// A file or its file system.
    File,
    /// The network.
    Network,
    /// A lock.
    Lock,
    /// Memory.
    Memory,
    /// Not known.
    Unknown,
}

/// One waiter at a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// Which dump it is in; absent where there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dump: Option<usize>,
    /// Its number; none in a profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goroutine: Option<u64>,
    /// The call it serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Kind of the lock.
    pub lock: &'static str,
    /// The function that wants it.
    pub at: String,
    /// For how many minutes at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minutes: Option<u32>,
    /// Candidates, best first.
    pub holders: Vec<u64>,
    /// Why they are candidates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'static str>,
    /// Who waits to write before this reader.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub behind_writers: Vec<u64>,
    /// How sure we are of them.
    pub confidence: Confidence,
}

/// Equal stacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// How many.
    pub count: u64,
    /// What they do.
    pub state: String,
    /// The longest, in whole minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minutes: Option<u32>,
    /// Where, innermost first, shortened to what names the place.
    pub frames: Vec<String>,
}
