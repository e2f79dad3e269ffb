//! The signatures ST01 to ST23, which describe known causes in a dump, and the waits that are normal.
//!
//! A pattern lists frames from the caller to the innermost; each must appear in this order, and other frames may be
//! between them. `a|b` matches either name, a name that begins with `^` must be the innermost frame outside the Go
//! runtime, and `@chan send` at the end of the last name requires that goroutine state.

use std::sync::LazyLock;

use super::daemon::Daemon;
use super::dump::Goroutine;
use super::wait;
use plegctl_base::report::{Rule, Severity};

/// The catalogue.
const TABLE: &str = include_str!("signatures.txt");

/// A signature from the catalogue, with parsed patterns.
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
    pub waiters: Vec<Pattern>,
    /// The calls that hang.
    pub hangs: String,
    /// What the user can do.
    pub act: Vec<String>,
    /// Public issue threads.
    pub threads: Vec<String>,
    /// The number of minutes after which a wait is longer than its caller wanted.
    pub overdue_minutes: u32,
    /// The number of such goroutines below which they are normal.
    pub least: usize,
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
    /// The function must contain one of these names.
    names: Vec<String>,
    /// Whether the frame must be the innermost frame outside the Go runtime.
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
            FramePattern { names: text.split('|').map(str::to_owned).collect(), innermost }
        };
        let frames = frames.iter().map(wanted_frame).collect();
        Self { frames, state }
    }

    /// Parses the text of a pattern, whose frames are separated by `>`.
    fn parse(text: &str) -> Self {
        Self::new(&text.split('>').map(str::trim).collect::<Vec<_>>())
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
                && wanted_frame.names.iter().any(|name| frame.function.contains(name.as_str()))
            {
                wanted.next();
            }
        }
        wanted.peek().is_none()
    }
}

/// Returns all signatures of the catalogue; a cause comes before its effects.
pub fn signatures() -> Vec<Signature> {
    MATCHING_ORDER.iter().filter_map(|id| signature(id)).collect()
}

fn signature(id: &str) -> Option<Signature> {
    CATALOGUE.iter().find(|signature| signature.id == id).cloned()
}

/// The signatures of the catalogue, in its order.
static CATALOGUE: LazyLock<Vec<Signature>> = LazyLock::new(|| {
    let text = TABLE.replace("DISK", DISK).replace("STORAGE", STORAGE).replace("SHIM_CALLS", SHIM_CALLS);
    // A test makes sure that no line is wrong.
    parse(&text).unwrap_or_default()
});

/// Parses the catalogue; `None` if a line is wrong.
fn parse(text: &str) -> Option<Vec<Signature>> {
    let mut found: Vec<Signature> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some((id, title)) = line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
            found.push(Signature::named(id, title));
        } else {
            let (key, value) = line.split_once(": ")?;
            found.last_mut()?.set(key, value)?;
        }
    }
    Some(found)
}

impl Signature {
    /// Returns a signature with the default values.
    fn named(id: &str, title: &str) -> Self {
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            severity: Severity::Warning,
            daemons: Vec::new(),
            roots: Vec::new(),
            waiters: Vec::new(),
            hangs: String::new(),
            act: Vec::new(),
            threads: Vec::new(),
            overdue_minutes: 1,
            least: 1,
        }
    }

    /// Applies one line `key: value`; `None` if it is wrong.
    fn set(&mut self, key: &str, value: &str) -> Option<()> {
        match key {
            "severity" if value == "critical" => self.severity = Severity::Critical,
            "severity" if value == "info" => self.severity = Severity::Info,
            "daemon" => self.daemons.push(Daemon::parse(value)?),
            "frames" => self.roots.push(Pattern::parse(value)),
            "waiters" => self.waiters.push(Pattern::parse(value)),
            "minutes" => self.overdue_minutes = value.parse().ok()?,
            "least" => self.least = value.parse().ok()?,
            "hangs" => value.clone_into(&mut self.hangs),
            "next" => self.act.push(value.to_owned()),
            "thread" => self.threads.push(value.to_owned()),
            // Only `explain` prints these texts.
            "means" | "shows" | "confirm" | "never" => {}
            _ => return None,
        }
        Some(())
    }
}

/// Returns the rules that `explain` shows.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| Rule::table(TABLE));
    RULES.iter()
}

/// The order of matching. A goroutine belongs to the first signature that matches: special ones before general ones,
/// causes before effects.
const MATCHING_ORDER: &[&str] = &[
    "ST10", "ST16", "ST17", "ST18", "ST21", "ST08", "ST05", "ST04", "ST11", "ST09", "ST01", "ST03", "ST06",
    "ST02", "ST12", "ST22", "ST14", "ST13", "ST15", "ST07", "ST19", "ST23",
];

/// The signature of a lock for which many goroutines wait and which no other signature explains.
const LOCK: &str = "ST20";

/// Frames of long waits that block nothing and are always there.
const NORMAL: &[&str] = &[
    "process.(*Init).Wait",
    "client.(*task).Wait|containerd.(*task).Wait",
    "askClient).Wait",
    "(*service).Wait|(*local).Wait|sandboxService).WaitSandbox|andboxClient).WaitSandbox",
    "GetContainerEvents > ^GetContainerEvents",
    "(*ContainerIO)|cio.copyIO|io.NewCRILogger|redirectLogs",
    "grpc.(*Server).Serve",
    "ttrpc.(*Server).Serve",
    "v2.(*ShimManager).loadShims|(*shim).loadShim",
];

/// Whether a goroutine waits as it does in a healthy daemon.
pub fn is_normal(goroutine: &Goroutine) -> bool {
    static PATTERNS: LazyLock<Vec<Pattern>> =
        LazyLock::new(|| NORMAL.iter().map(|frames| Pattern::parse(frames)).collect());
    PATTERNS.iter().any(|pattern| pattern.matches(goroutine))
}

/// Returns the public issue threads whose frames may appear in a finding, each with the frames.
pub fn issue_threads() -> impl Iterator<Item = (&'static str, Pattern)> {
    let rows = include_str!("threads.txt").lines().filter_map(|line| line.split_once(": "));
    rows.map(|(thread, frames)| (thread, Pattern::parse(frames)))
}

/// The calls to a shim.
const SHIM_CALLS: &str = "askClient).State|askClient).Kill|askClient).Stats|askClient).Exec|askClient).Delete|askClient).Create|askClient).Start|askClient).Update|askClient).Pids|askClient).Connect|askClient).Shutdown|askClient).Pause|askClient).Resume|askClient).CloseIO|askClient).ResizePty|andboxClient).SandboxStatus|andboxClient).StopSandbox|andboxClient).StartSandbox|andboxClient).SandboxMetrics|andboxClient).CreateSandbox|andboxClient).ShutdownSandbox";

/// Functions that access a file system.
const DISK: &str = "syscall.pwrite|syscall.write|syscall.Fsync|syscall.Fdatasync|unix.Fdatasync|syscall.Mkdirat|syscall.Renameat|syscall.openat|syscall.unlinkat|syscall.Ftruncate|unix.Pwrite|unix.Write|unix.Fsync|unix.Syncfs|unix.Mkdirat|unix.Renameat|unix.Openat|unix.Unlinkat|unix.Ftruncate";

/// The import paths of CRI-O's image and layer store, the older and the newer one.
const STORAGE: &str = "github.com/containers/storage|go.podman.io/storage";

/// The advice when one dump is not enough.
pub const TWO_DUMPS: &str =
    "take a second dump a minute later and pass both to `plegctl stacks`: it shows what is stuck in both";

/// Returns the signature of a lock that no other signature explains.
pub fn unexplained_lock() -> Option<Signature> {
    signature(LOCK)
}

#[cfg(test)]
mod tests {
    use super::super::read::{Bounds, read};
    use super::*;

    fn first_match(frames: &[&str], state: &str) -> Option<String> {
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
            assert_eq!(first_match(&frames, "select").as_deref(), Some("ST01"), "{rpc}");
        }
    }

    #[test]
    fn frames_match_only_in_order_and_state() {
        let forward = ["x/pleg.(*GenericPLEG).Relist", "x/pleg.(*GenericPLEG).Start.func1"];
        assert_eq!(first_match(&forward, "chan send").as_deref(), Some("ST22"));
        assert_eq!(first_match(&forward, "select"), None);
        let backward = [
            "server.(*criService).UpdateContainerResources",
            "store/container.(*statusStorage).UpdateSync",
            "ttrpc.(*Client).dispatch",
        ];
        assert_eq!(first_match(&backward, "select"), None);
    }

    #[test]
    fn every_signature_is_matched_once_and_has_a_row() {
        let mut ids: Vec<String> = signatures().into_iter().map(|signature| signature.id).collect();
        ids.push(LOCK.to_owned());
        ids.sort();
        let rows: Vec<&str> = rules().map(|rule| rule.id).collect();
        assert_eq!(ids, rows);
        assert_eq!(rows.len(), 23);
    }
}
