//! Work of the kubelet for a pod that fails: the runtime answers at once, with an error, and the kubelet tries again. Nothing
//! hangs then, so no call of plegctl shows it; the kubelet's journal does, and its events.
//!
//! The kubelet's message is read here, once, into a step, a cause and the runtime's own words. What is ordinary is left out:
//! images that cannot be pulled, containers that crash, missing configuration, and calls that time out, which is a hang.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::journal_line::{MAX_TEXT, logged_by, short};
use super::limits;
use super::words::shortened;
use crate::clock::Wall;
use crate::report::{PodRef, Rename, word_enum};

/// The programs that log as a kubelet: k3s and `MicroK8s` have it in one process with others.
pub(super) const KUBELETS: [&str; 3] = ["kubelet", "k3s", "microk8s.daemon-kubelite"];

/// The most pods that are kept.
const MAX_PODS: usize = 256;

word_enum! {
    /// What the kubelet does for a pod.
    #[derive(PartialOrd, Ord)]
    pub json enum FailingStep: as_str {
        /// Creates the pod's sandbox.
        CreateSandbox = "createSandbox",
        /// Creates or starts a container.
        StartContainer = "startContainer",
        /// Stops a container.
        StopContainer = "stopContainer",
        /// Stops the pod's sandbox.
        StopSandbox = "stopSandbox",
    } ALL
}

impl FailingStep {
    /// Returns whether the step belongs to the end of a pod.
    pub const fn is_of_end(self) -> bool {
        matches!(self, Self::StopContainer | Self::StopSandbox)
    }

    /// Returns the longest pause after which the kubelet tries again.
    const fn longest_pause(self) -> Duration {
        match self {
            Self::StartContainer => limits::FAILING_START_PAUSE,
            Self::CreateSandbox | Self::StopContainer | Self::StopSandbox => limits::FAILING_PAUSE,
        }
    }

    /// Reads the kind of the kubelet's error (`pkg/kubelet/container/sync_result.go`).
    fn of_error(kind: &str) -> Option<Self> {
        match kind {
            "CreatePodSandboxError" => Some(Self::CreateSandbox),
            "KillPodSandboxError" => Some(Self::StopSandbox),
            "CreateContainerError" | "RunContainerError" => Some(Self::StartContainer),
            "KillContainerError" => Some(Self::StopContainer),
            _ => None,
        }
    }
}

word_enum! {
    /// Why a step fails, by the runtime's words.
    #[derive(PartialOrd, Ord)]
    pub json enum FailureCause: as_str {
        /// A network plugin fails.
        Network = "network",
        /// The name is reserved for an earlier create.
        NameReserved = "nameReserved",
        /// The kubelet names cgroups for systemd and the runtime does not, or the other way round.
        CgroupDriver = "cgroupDriver",
        /// The cgroup cannot be made, or systemd refuses.
        Cgroup = "cgroup",
        /// A file system is full.
        NoSpace = "noSpace",
        /// The image of the sandboxes cannot be had.
        SandboxImage = "sandboxImage",
        /// The store of images and snapshots is damaged, or its disk is not mounted.
        ImageStore = "imageStore",
        /// None of these.
        Other = "other",
    }
}

/// Words of containerd, CRI-O, runc, crun and the kubelet, each with the cause that it shows. The first one that a message has
/// counts: a failed network plugin may say anything, and a cgroup that cannot be made has "no space left" in its words too.
const WORDS: [(&str, FailureCause); 28] = [
    ("network for sandbox", FailureCause::Network),
    ("pod network sandbox", FailureCause::Network),
    ("network for pod sandbox", FailureCause::Network),
    ("network teardown failed", FailureCause::Network),
    ("cni plugin not initialized", FailureCause::Network),
    ("cni config uninitialized", FailureCause::Network),
    (" is reserved", FailureCause::NameReserved),
    ("for systemd cgroups, got", FailureCause::CgroupDriver),
    ("but did not receive slice as parent", FailureCause::CgroupDriver),
    ("but received systemd slice as parent", FailureCause::CgroupDriver),
    (" cgroup", FailureCause::Cgroup),
    ("/sys/fs/cgroup", FailureCause::Cgroup),
    ("unable to start unit", FailureCause::Cgroup),
    ("error creating systemd unit", FailureCause::Cgroup),
    ("sd-bus call", FailureCause::Cgroup),
    ("org.freedesktop.systemd1", FailureCause::Cgroup),
    ("no space left on device", FailureCause::NoSpace),
    ("disk quota exceeded", FailureCause::NoSpace),
    ("sandbox image", FailureCause::SandboxImage),
    ("initializing source docker://", FailureCause::SandboxImage),
    ("mount callback failed on", FailureCause::ImageStore),
    ("failed to stat parent", FailureCause::ImageStore),
    ("missing parent", FailureCause::ImageStore),
    (" snapshot", FailureCause::ImageStore),
    ("layer not known", FailureCause::ImageStore),
    ("/storage/overlay", FailureCause::ImageStore),
    ("structure needs cleaning", FailureCause::ImageStore),
    ("input/output error", FailureCause::ImageStore),
];

/// Words of an error with a container's own program or volumes, whose names may have any of the words above.
const OF_THE_CONTAINER: [&str; 4] = ["exec: ", "executable file", "exec format error", "error mounting "];

impl FailureCause {
    /// Returns the cause that the runtime's words about a step show. A word that may be a part of a name, such as that of a pod or
    /// an image, counts only behind a blank.
    fn of_words(step: FailingStep, words: &str) -> Self {
        let words = format!(" {words}");
        let has = |part: &str| words.contains(part);
        if step == FailingStep::StartContainer && OF_THE_CONTAINER.into_iter().any(has) {
            return Self::Other;
        }
        WORDS.iter().find(|(part, _)| has(part)).map_or(Self::Other, |(_, cause)| *cause)
    }
}

/// A step for a pod that fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(Process(plugin), Text(words), NodePath(path))]
#[serde(rename_all = "camelCase")]
pub struct FailingPod {
    /// The pod.
    pub pod: PodRef,
    /// The step.
    pub step: FailingStep,
    /// Why, by the last error.
    pub cause: FailureCause,
    /// The network plugin that failed, if the runtime names it.
    pub plugin: Option<String>,
    /// The last error, in the words of the plugin or of the runtime.
    pub words: String,
    /// The first file or directory that these words name.
    pub path: Option<PathBuf>,
    /// The number of errors.
    pub failures: usize,
    /// The time of the first error.
    pub first: Wall,
    /// The time of the last error.
    pub last: Wall,
}

impl FailingPod {
    /// Reads a message of the kubelet (`pkg/kubelet/pod_workers.go`): `"Error syncing pod, skipping" err="…"
    /// pod="NAMESPACE/NAME" podUID="UID"`. `None` for another message and for an ordinary error.
    fn of_message(message: &str, at: Wall) -> Option<Self> {
        // Of a healthy kubelet's lines, few are errors.
        let error = message.strip_prefix('E')?;
        let (_, rest) = error.split_once("] \"Error syncing pod, skipping\" err=\"")?;
        let (error, rest) = quoted_text(rest)?;
        let (step, error) = step_and_error(&error)?;
        let value = |before: &str| rest.split_once(before)?.1.split('"').next();
        let (namespace, name) = value(" pod=\"")?.split_once('/')?;
        let [uid, namespace, name] = [value(" podUID=\"")?, namespace, name].map(short);
        Self::of_error(PodRef { uid, namespace, name }, step, &error, at)
    }

    /// Reads an event of the kubelet about a pod (`pkg/kubelet/events/event.go`): its reason and its message.
    pub fn of_event(pod: PodRef, reason: &str, message: &str, at: Wall) -> Option<Self> {
        // The kubelet's client writes this before a message that stands for several.
        let message = message.strip_prefix("(combined from similar events): ").unwrap_or(message);
        let after = |prefix: &str| message.strip_prefix(prefix).map(str::to_owned);
        let (step, error) = match reason {
            "FailedCreatePodSandBox" => {
                (FailingStep::CreateSandbox, after("Failed to create pod sandbox: ")?)
            }
            "FailedCreatePodContainer" => {
                (FailingStep::CreateSandbox, after("unable to ensure pod container exists: ")?)
            }
            // Without the gRPC code, as in the pod's status.
            "Failed" => {
                let error = after("Error: ").filter(|error| !error.contains("context deadline exceeded"));
                (FailingStep::StartContainer, error?)
            }
            "FailedKillPod" => step_and_error(message)?,
            _ => return None,
        };
        Self::of_error(pod, step, &error, at)
    }

    fn of_error(pod: PodRef, step: FailingStep, error: &str, at: Wall) -> Option<Self> {
        let error = error_of_runtime(error)?;
        let cause = FailureCause::of_words(step, error);
        let of_plugin = plugin_and_words(error).filter(|_| cause == FailureCause::Network);
        let (plugin, words) = of_plugin.map_or((None, error), |(plugin, words)| (Some(plugin), words));
        let (plugin, words) = (plugin.map(short), shortened(words.trim(), MAX_TEXT));
        let mut names = error.split([' ', '"', ':']);
        let path = names.find(|name| name.starts_with('/')).map(|path| short(path).into());
        Some(Self { pod, step, cause, plugin, words, path, failures: 1, first: at, last: at })
    }

    /// Returns whether the step has failed again and again. The journal has the messages of the last `span`.
    pub fn persists(&self, span: Duration) -> bool {
        self.failures >= limits::FAILING_TIMES
            && self.last.duration_since(self.first) >= limits::FAILING_FOR.min(span / 2)
    }

    /// Returns whether the kubelet may not have tried again since the last error.
    pub fn is_recent(&self, now: Wall) -> bool {
        now.duration_since(self.last) <= self.step.longest_pause()
    }
}

/// Adds what a line of a journal says, if a kubelet logged it: `STAMP HOST PROGRAM[PID]: MESSAGE`.
pub fn add_line(pods: &mut Vec<FailingPod>, line: &str, at: Wall) {
    let message = KUBELETS.into_iter().find_map(|program| logged_by(line, program));
    if let Some(new) = message.and_then(|(_, message)| FailingPod::of_message(message, at)) {
        add(pods, new);
    }
}

/// Adds errors of one step for one pod. The last one says why.
pub fn add(pods: &mut Vec<FailingPod>, new: FailingPod) {
    let is_same = |known: &&mut FailingPod| known.step == new.step && known.pod.uid == new.pod.uid;
    if let Some(known) = pods.iter_mut().find(is_same) {
        let (failures, first) = (known.failures + new.failures, known.first.min(new.first));
        if new.last >= known.last {
            *known = new;
        }
        (known.failures, known.first) = (failures, first);
    } else if pods.len() < MAX_PODS {
        pods.push(new);
    }
}

/// Returns the text up to its closing quotation mark, and what follows. A quotation mark in the text has a backslash.
fn quoted_text(text: &str) -> Option<(String, &str)> {
    let mut quoted = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((quoted, text.get(at + 1..)?)),
            '\\' => quoted.push(letters.next()?.1),
            _ => quoted.push(letter),
        }
    }
    None
}

/// Returns the step and the error with which it failed: `failed to "StartContainer" for "app" with RunContainerError: "…"`.
/// The kubelet makes a pod's cgroup before all other steps, and its error about that has no such form.
fn step_and_error(error: &str) -> Option<(FailingStep, String)> {
    if error.starts_with("failed to ensure that the pod: ") {
        return Some((FailingStep::CreateSandbox, error.to_owned()));
    }
    error.split(" with ").skip(1).find_map(|part| {
        let (kind, _) = part.split_once(": \"")?;
        let step = FailingStep::of_error(kind)?;
        let (_, text) = error.split_once(kind)?;
        Some((step, quoted_text(text.strip_prefix(": \"")?)?.0))
    })
}

/// Returns the runtime's own error: the text after the last `rpc error: code = Unknown desc = `. `None` for a call that the
/// runtime did not answer: rules about silent calls say more about it.
fn error_of_runtime(error: &str) -> Option<&str> {
    let Some((_, call)) = error.rsplit_once("rpc error: code = ") else { return Some(error) };
    let (code, words) = call.split_once(" desc = ")?;
    (!matches!(code, "DeadlineExceeded" | "Unavailable" | "Canceled")).then_some(words)
}

/// Returns the network plugin that failed, and its own words: `plugin type="cilium-cni" failed (delete): …`. If one plugin calls
/// another one, the last one failed.
fn plugin_and_words(error: &str) -> Option<(&str, &str)> {
    let (_, plugin) = error.rsplit_once("plugin type=\"")?;
    let (name, rest) = plugin.split_once('"')?;
    let (_, words) = rest.split_once(" failed (").and_then(|(_, rest)| rest.split_once("): "))?;
    Some((name, words))
}
