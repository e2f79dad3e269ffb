//! [`KernelWaitReason`]: the kinds of waits in the kernel that plegctl knows, one row of `rules/reasons.txt` for each.

use std::sync::LazyLock;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::diagnosis::facts::WaitOwner;
use crate::diagnosis::rules::steps::{Place, TableStep, steps_of};
use crate::host::proc::waits::TaskLook;
use crate::report::{Rule, Step, word_enum};

/// The rows of the table of reasons.
const TABLE: &str = include_str!("../rules/reasons.txt");

word_enum! {
    /// Why a task waits in the kernel. Its word is the id that users see.
    #[derive(PartialOrd, Ord)]
    #[expect(missing_docs, reason = "the title of each is in `rules/reasons.txt`")]
    pub enum WaitKind: as_str {
        SecurityAgent = "KR01",
        NetworkLock = "KR02",
        Device = "KR03",
        RemoteFileSystem = "KR04",
        FrozenFileSystem = "KR05",
        BlockDevice = "KR06",
        UmountWrites = "KR07",
        FrozenCgroup = "KR08",
        FileLock = "KR09",
        MemoryReclaim = "KR10",
        StuckProcessor = "KR11",
        ShrinkerLock = "KR12",
    } ALL
}

/// One row of the table of reasons: a kind of wait, and the kernel functions by which plegctl recognises it.
#[derive(Debug)]
pub struct KernelWaitReason {
    /// The kind of wait.
    pub kind: WaitKind,
    /// The texts of the row.
    pub rule: &'static Rule,
    /// Beginnings of kernel functions. The task waits in a function that begins with one of them.
    functions: Vec<&'static str>,
    /// Beginnings of further kernel functions, one of which must be in the same stack; empty if none is required.
    with: Vec<&'static str>,
    /// The words before the owner's name.
    owner: &'static str,
    /// What the task waits for if the owner is not known.
    unknown: &'static str,
    /// What to do, in order.
    steps: Vec<TableStep>,
    /// How long a task of the runtime or the kubelet must wait until a person must end the wait; `None` if no time is enough.
    pub(super) overdue: Option<Duration>,
}

/// A reason travels as its id.
impl Serialize for KernelWaitReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.rule.id)
    }
}

impl<'de> Deserialize<'de> for &'static KernelWaitReason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = String::deserialize(deserializer)?;
        KernelWaitReason::with_id(&id)
            .ok_or_else(|| de::Error::custom("not a reason that this release knows"))
    }
}

impl KernelWaitReason {
    /// Returns all rows.
    pub fn all() -> &'static [Self] {
        static ROWS: LazyLock<Vec<KernelWaitReason>> = LazyLock::new(|| {
            let row = |rule: Rule| {
                let block = TABLE.split("\n\n").find(|block| block.get(1..5) == Some(rule.id))?;
                let steps: Vec<TableStep> = block.lines().filter_map(TableStep::read).collect();
                let general = steps.iter().filter(|step| step.tag != "server");
                let texts = general.map(|step| &*step.filled(&[]).to_string().leak());
                let act = texts.collect::<Vec<_>>().leak();
                let value = |key: &str| {
                    let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
                    line.unwrap_or_default()
                };
                let words = |key: &str| value(key).split_ascii_whitespace().collect();
                Some(KernelWaitReason {
                    kind: WaitKind::ALL.into_iter().find(|kind| kind.as_str() == rule.id)?,
                    rule: Box::leak(Box::new(Rule { act, ..rule })),
                    steps,
                    functions: words("functions"),
                    with: words("with"),
                    owner: value("owner"),
                    unknown: value("unknown"),
                    overdue: value("overdue").parse().ok().map(Duration::from_secs),
                })
            };
            Rule::table(TABLE).into_iter().filter_map(row).collect()
        });
        &ROWS
    }

    /// Returns the row with this id.
    pub fn with_id(id: &str) -> Option<&'static Self> {
        Self::all().iter().find(|row| row.rule.id == id)
    }

    /// Returns the row of a kind of wait.
    pub(in crate::diagnosis) fn row(kind: WaitKind) -> Option<&'static Self> {
        Self::all().iter().find(|row| row.kind == kind)
    }

    /// Returns what to do, in order.
    pub(super) fn steps(&self) -> impl Iterator<Item = TableStep> {
        self.steps.iter().copied()
    }

    /// Returns what to do without anything that is known of the node.
    pub fn general_steps(&self) -> impl Iterator<Item = Step> {
        let steps = self.steps().filter(|step| step.tag != "server");
        steps.map(|step| step.filled(&[])).chain(self.explain())
    }

    /// Returns the step that explains the reason.
    pub(super) fn explain(&self) -> Vec<Step> {
        steps_of("explainReason", &[("id", Place::word(self.rule.id))])
    }

    /// Returns the function in which a task waits, if this row recognises the wait.
    pub(super) fn function_in<'a>(&self, look: &'a TaskLook) -> Option<&'a str> {
        let places = || look.stack.iter().chain([&look.wchan]);
        let find = |beginnings: &[&str]| {
            let begins = |word: &str| beginnings.iter().any(|beginning| word.starts_with(beginning));
            places().find(|place| place.split(' ').any(begins)).map(String::as_str)
        };
        let found = find(&self.functions)?;
        (self.with.is_empty() || find(&self.with).is_some()).then_some(found)
    }

    /// Describes what a task waits for: `waits for the security agent falcon-sensor[812]`.
    pub fn describe(&self, owner: Option<&WaitOwner>) -> String {
        match owner {
            Some(owner) => format!("waits for {} {owner}", self.owner),
            None => format!("waits for {}", self.unknown),
        }
    }

    /// Returns the longest beginning of `function` by which plegctl recognises waits, of any row.
    pub fn known_beginning(function: &str) -> Option<&'static str> {
        let known = Self::all().iter().flat_map(|row| row.functions.iter().chain(&row.with));
        known.copied().filter(|known| function.starts_with(known)).max_by_key(|known| known.len())
    }

    /// Returns a whole function name by which this row recognises a wait, for a simulated task.
    pub(super) fn sample_function(&self) -> Option<&'static str> {
        let is_whole = |name: &&&str| !name.starts_with('[') && !name.ends_with('_');
        self.functions.iter().find(is_whole).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_wait_has_one_row_with_its_id() {
        let mut kinds: Vec<&str> = KernelWaitReason::all().iter().map(|row| row.kind.as_str()).collect();
        kinds.sort_unstable();
        assert_eq!(kinds, WaitKind::ALL.map(WaitKind::as_str));
        assert!(KernelWaitReason::all().iter().all(|row| row.rule.id == row.kind.as_str()));
        assert_eq!(TABLE.matches("\n[KR").count(), kinds.len());
    }
}
