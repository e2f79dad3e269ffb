//! [`KernelWaitReason`]: the kinds of waits in the kernel that plegctl knows, one row of `rules/reasons.txt` for each.

use std::sync::LazyLock;
use std::time::Duration;

use crate::host::proc::waits::TaskLook;
use crate::report::Rule;

/// The rows of the table of reasons.
const TABLE: &str = include_str!("../rules/reasons.txt");

/// One row of the table of reasons: a kind of wait, and the kernel functions by which plegctl recognises it.
#[derive(Debug)]
pub struct KernelWaitReason {
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
    /// How long a task of the runtime or the kubelet must wait until a person must end the wait; `None` if no time is enough.
    pub(super) overdue: Option<Duration>,
}

impl KernelWaitReason {
    /// Returns all rows.
    pub fn all() -> &'static [Self] {
        static ROWS: LazyLock<Vec<KernelWaitReason>> = LazyLock::new(|| {
            let rules: &'static [Rule] = Rule::table(TABLE).leak();
            let row = |rule: &'static Rule| {
                let block = TABLE.split("\n\n").find(|block| block.get(1..5) == Some(rule.id))?;
                let value = |key: &str| {
                    let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
                    line.unwrap_or_default()
                };
                let words = |key: &str| value(key).split_ascii_whitespace().collect();
                Some(KernelWaitReason {
                    rule,
                    functions: words("functions"),
                    with: words("with"),
                    owner: value("owner"),
                    unknown: value("unknown"),
                    overdue: value("overdue").parse().ok().map(Duration::from_secs),
                })
            };
            rules.iter().filter_map(row).collect()
        });
        &ROWS
    }

    /// Returns the row with this id.
    pub fn of(id: &str) -> Option<&'static Self> {
        Self::all().iter().find(|row| row.rule.id == id)
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
    pub(super) fn describe(&self, owner: Option<&str>) -> String {
        match owner {
            Some(owner) => format!("waits for {} {owner}", self.owner),
            None => format!("waits for {}", self.unknown),
        }
    }

    /// Returns a whole function name by which this row recognises a wait, for a simulated task.
    pub(super) fn sample_function(&self) -> Option<&'static str> {
        let is_whole = |name: &&&str| !name.starts_with('[') && !name.ends_with('_');
        self.functions.iter().find(is_whole).copied()
    }
}
