//! What keeps a pod from starting: a mount that does not return, the kubelet's own words about it, and how far it has come.

use std::time::Duration;

use super::Deletion;
use super::judge::{HolderCase, MARGIN, MAX_OF_KIND, UMOUNT_OLD, UMOUNT_YOUNG, runs_for};
use super::look::Umount;
use super::report::{HolderKind, PodHold, PodHolder};
use crate::cri::{ContainerState, SandboxState};
use crate::diagnosis::rules::steps::{Place, steps_of};
use crate::diagnosis::words::shortened;
use crate::kubelet::pod_status::WaitingContainer;
use crate::report::duration::elapsed;
use crate::report::{Confidence, Step, plural};

/// The reasons of a container's status that name the cause, and not only that a call to the runtime failed.
const CAUSES: [&str; 5] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerConfigError",
];
/// The most characters of the kubelet's words in a title.
const MAX_WORDS: usize = 160;

/// What a pod should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// It should end.
    Ends,
    /// It should run, and a container of it does not.
    Starts,
    /// It runs, as far as plegctl sees.
    Runs,
    /// It has ended, and the kubelet starts it no more.
    HasEnded,
    /// No source says whether it should run, or the runtime does not say whether it runs.
    Unknown,
}

impl HolderCase<'_> {
    pub(super) fn direction(&self) -> Direction {
        let status = self.facts.status.as_ref();
        match self.facts.deletion {
            Deletion::Requested { .. } | Deletion::Gone | Deletion::Replaced => Direction::Ends,
            Deletion::Unknown => Direction::Unknown,
            Deletion::NotRequested
                if status.map_or_else(|| self.may_have_ended(), |status| status.has_ended) =>
            {
                Direction::HasEnded
            }
            Deletion::NotRequested => {
                let waits = self.waiting().next().is_some();
                let is_pending = status.is_some_and(|status| status.phase == "Pending");
                match self.running_containers() {
                    _ if waits => Direction::Starts,
                    Some(0) => Direction::Starts,
                    Some(_) => Direction::Runs,
                    None if is_pending => Direction::Starts,
                    None => Direction::Unknown,
                }
            }
        }
    }

    /// Whether all containers of a pod that may end have ended.
    fn may_have_ended(&self) -> bool {
        let listed = self.evidence.runtime.containers.latest().into_iter().flatten();
        let mut own = listed.filter(|container| self.owns(&container.id)).peekable();
        self.facts.may_end
            && own.peek().is_some()
            && own.all(|container| container.state == ContainerState::Exited)
    }

    /// Returns how many containers of the pod run; `None` if the runtime does not list them.
    fn running_containers(&self) -> Option<usize> {
        let listed = self.evidence.runtime.containers.latest()?.iter();
        let running = listed.filter(|container| container.state == ContainerState::Running);
        Some(running.filter(|container| self.owns(&container.id)).count())
    }

    /// Returns the containers that wait by the status and do not run by the runtime.
    fn waiting(&self) -> impl Iterator<Item = &WaitingContainer> {
        let listed = || self.evidence.runtime.containers.latest().into_iter().flatten();
        let runs = move |name: &str| {
            listed().any(|container| {
                container.state == ContainerState::Running
                    && container.metadata.as_ref().is_some_and(|metadata| metadata.name == name)
                    && self.owns(&container.id)
            })
        };
        let waiting = self.facts.status.iter().flat_map(|status| &status.waiting);
        waiting.filter(move |container| !runs(&container.name))
    }

    fn waited(&self) -> Option<Duration> {
        let since = self.facts.status.as_ref()?.since?;
        Some(self.now.duration_since(since))
    }

    /// Whether the pod may just be starting.
    pub(super) fn is_young(&self) -> bool {
        self.waited().is_some_and(|waited| waited <= MARGIN)
    }

    /// Describes that the pod does not run: `does not start since 44m`.
    pub(super) fn how_it_starts(&self, state: PodHold) -> String {
        let since = self.waited().map(|waited| format!(" since {}", elapsed(waited))).unwrap_or_default();
        match self.running_containers() {
            Some(running) if running > 0 => {
                format!("runs only in part, {}", plural(running, "container") + " of it")
            }
            _ if state == PodHold::Starting => format!("starts{since}"),
            _ => format!("does not start{since}"),
        }
    }

    /// Finds the mounts for this pod that do not return.
    pub(super) fn hung_mounts(&self) -> Vec<PodHolder> {
        self.look.mounting.iter().filter_map(|mount| self.hung_mount(mount)).take(MAX_OF_KIND).collect()
    }

    fn hung_mount(&self, mount: &Umount) -> Option<PodHolder> {
        let Umount { process, by } = mount;
        let path = mount.path();
        let is_own = !self.uid().is_empty()
            && path.is_some_and(|path| path.contains(&format!("/pods/{}/", self.uid())));
        // A CSI driver mounts first below `/plugins/`, for all pods that use the volume.
        let may_be_own = path.is_none_or(|path| path.contains("/plugins/")) && self.facts.has_remote_volume;
        let confidence = match (is_own, process.age) {
            (true, age) if age >= UMOUNT_OLD => Confidence::Likely,
            (true, age) if age >= UMOUNT_YOUNG => Confidence::Possible,
            (false, age) if may_be_own && age >= UMOUNT_OLD => Confidence::Possible,
            _ => return None,
        };
        let what = mount.source().map_or_else(|| "a mount".to_owned(), |source| format!("mount of {source}"));
        let title = format!("{what} by {by} does not return");
        let mut found = PodHolder::new(HolderKind::Mount, confidence, title).of_process(process);
        found.path = path.map(str::to_owned);
        found.add_evidence(runs_for(process));
        self.add_wait(&mut found, self.look.waits.iter().find(|wait| wait.pid == process.pid));
        Some(found)
    }

    /// Returns what the kubelet itself says: the status of the containers, else its last error about the pod in the journal.
    pub(super) fn words_of_kubelet(&self) -> Vec<PodHolder> {
        let by = self.facts.status.as_ref().map_or("", |status| status.by);
        let mut found: Vec<PodHolder> = Vec::new();
        // A step that fails has been described already, with the same words.
        let fails = !self.failing_steps(Direction::Starts).is_empty();
        for waiting in self.waiting() {
            let is_cause = CAUSES.contains(&waiting.reason.as_str());
            if fails && !is_cause {
                continue;
            }
            let confidence = if is_cause { Confidence::Certain } else { Confidence::Likely };
            let words = waiting.to_string();
            let mut holder = PodHolder::new(HolderKind::Status, confidence, shortened(&words, MAX_WORDS));
            holder.add_evidence(format!("{by} says: {words}"));
            holder.steps = steps_of("events", &self.pod_places());
            found.push(holder);
        }
        found.truncate(MAX_OF_KIND);
        if self.facts.is_unknown_to_kubelet {
            let title = "the kubelet does not know it, so it does not receive the API server's pods";
            let mut holder = PodHolder::new(HolderKind::Kubelet, Confidence::Likely, title);
            holder.add_evidence("the API server bound it to this node more than a minute ago");
            holder.steps = steps_of("otherPods", &[]);
            found.push(holder);
        }
        // The status has the same words as the journal, and is newer.
        if found.is_empty() && !fails {
            found.extend(self.last_error(Confidence::Likely));
        }
        found
    }

    /// Returns the kubelet's last error about the pod in the journal.
    pub(super) fn last_error(&self, confidence: Confidence) -> Option<PodHolder> {
        let errors = &self.evidence.journal.as_ref()?.pod_errors;
        let error = errors.get(self.uid()).or_else(|| errors.get(&self.facts.pod.to_string()))?;
        let mut holder = PodHolder::new(HolderKind::Status, confidence, shortened(error, MAX_WORDS));
        holder.add_evidence(format!("the kubelet's last error about it: {error}"));
        holder.steps = self.show_log();
        Some(holder)
    }

    /// Says how far the pod has come, if nothing else explains why it does not start.
    pub(super) fn stage(&self) -> PodHolder {
        let sandboxes = self.evidence.runtime.sandboxes.latest();
        let own = sandboxes.map(|listed| {
            listed
                .iter()
                .filter(|sandbox| sandbox.state == SandboxState::Ready && self.owns(&sandbox.id))
                .count()
        });
        let listed = self.evidence.runtime.containers.latest().into_iter().flatten();
        let containers = listed.filter(|container| self.owns(&container.id)).count();
        let title = match (own, containers) {
            (None, _) => "the runtime does not list its sandboxes, and nothing else was found",
            (Some(0), _) => {
                "the runtime has no running sandbox of it: the kubelet waits for its volumes, or the runtime has not made the sandbox"
            }
            (Some(_), 0) => {
                "its sandbox runs, and it has no container: the image is being pulled, or the container created"
            }
            (Some(_), _) => "its sandbox runs, and none of its containers does",
        };
        let mut holder = PodHolder::new(HolderKind::Stage, Confidence::Possible, title);
        let status = self.facts.status.as_ref();
        holder.evidence.extend(status.map(|status| {
            let reason = status.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
            format!("{} says {}{reason}", status.by, status.phase)
        }));
        holder.steps = [self.show_log(), steps_of("events", &self.pod_places())].concat();
        holder
    }

    fn show_log(&self) -> Vec<Step> {
        let pod = &self.facts.pod;
        steps_of(
            "logOfKubelet",
            &[("words", Place::word(if pod.uid.is_empty() { &pod.name } else { &pod.uid }))],
        )
    }
}
