//! Checks a file that the kubelet loads against its running pod: SP120, SP123 to SP125, SP128 to SP130 and SP134.

use std::time::Duration;

use super::RuntimeFinding;
use super::differences::{self, CreatorRelease};
use super::input::CompareInput;
use super::made::MadeFromFile;
use super::running::{MANY_RESTARTS, ready};
use crate::ContainerState;
use crate::{FileReport, PodField, PodIdentity, Severity};
use crate::{RunningContainer, RunningPod};
use plegctl_base::clock::Wall;
use plegctl_base::report::Places;

/// How often the kubelet scans its files (fileCheckFrequency).
const SCAN_PERIOD: Duration = plegctl_node::kubelet::timing::FILE_CHECK_FREQUENCY;
/// The longest back-off. A container that has run for longer is not in a crash loop.
pub const LONGEST_BACK_OFF: Duration = Duration::from_secs(300);

/// A file that the kubelet loads, and the pod that should run from the file.
pub struct LoadedFile<'a> {
    file: &'a FileReport,
    pod: &'a PodIdentity,
    /// The decoded Pod.
    root: PodField<'a>,
    input: &'a CompareInput<'a>,
}

impl<'a> LoadedFile<'a> {
    /// Returns `None` if the file has no decoded Pod.
    pub fn new(file: &'a FileReport, pod: &'a PodIdentity, input: &'a CompareInput<'a>) -> Option<Self> {
        Some(Self { file, pod, root: file.decoded_root()?, input })
    }

    /// Returns all findings. `sandboxes` are those of the pod, newest first; `made` says whether the pod's UID proves
    /// that it was made from this text.
    pub fn check(&self, sandboxes: &[RunningPod], made: &MadeFromFile) -> Vec<RuntimeFinding> {
        let Some(newest) = ready(sandboxes).next() else {
            return self.check_nothing_runs(sandboxes).into_iter().collect();
        };
        let mut findings = Vec::new();
        match made {
            MadeFromFile::Same { by } => findings.extend(self.check_release(newest, by)),
            MadeFromFile::Another => findings.push(self.made_from_other_text(newest)),
            MadeFromFile::Unknown => {
                findings.extend(self.check_containers(newest));
                findings.extend(self.check_metadata(newest));
            }
        }
        findings.extend(self.check_missing_containers(newest));
        findings.extend(self.check_fixed_uid(newest));
        findings
            .extend(newest.containers.iter().filter_map(|(name, latest)| self.check_restarts(name, latest)));
        if *made == MadeFromFile::Unknown && !findings.iter().any(|finding| finding.severity > Severity::Info)
        {
            findings.extend(self.check_newer_file(newest));
        }
        findings
    }

    fn finding(&self, row: &str, places: &Places<'_>) -> RuntimeFinding {
        RuntimeFinding::of(row, self.pod, places)
    }

    /// When the file was last modified.
    fn modified(&self) -> Option<Wall> {
        self.file.meta.as_ref()?.modified_nanos.map(Wall::from_nanos)
    }

    /// How long the kubelet may need to apply a change: one scan, and the termination of the old pod.
    fn time_to_apply(&self) -> Duration {
        let grace = self.root.get("spec").get("terminationGracePeriodSeconds").opt_int().unwrap_or(30);
        SCAN_PERIOD + Duration::from_secs(u64::try_from(grace).unwrap_or(0))
    }

    /// Reports a file whose pod has no ready sandbox (SP120).
    fn check_nothing_runs(&self, sandboxes: &[RunningPod]) -> Option<RuntimeFinding> {
        let modified = self.modified()?;
        if self.input.now.duration_since(modified) <= SCAN_PERIOD + self.time_to_apply() {
            return None;
        }
        let restarts = !matches!(self.root.get("spec").get("restartPolicy").str(), "Never" | "OnFailure");
        if !restarts && !sandboxes.is_empty() {
            return None;
        }
        let row = if sandboxes.is_empty() { "pod-does-not-run" } else { "no-sandbox-is-ready" };
        let dead = sandboxes.iter().map(|instance| instance.sandbox_id.clone());
        Some(self.finding(row, &[]).with_ids(dead))
    }

    /// Reports a pod that was made from this text, but by another kubelet release than the one whose rules are applied
    /// (SP134).
    fn check_release(&self, newest: &RunningPod, made_by: &[String]) -> Option<RuntimeFinding> {
        let release = self.input.kubelet.version.to_string();
        if !self.input.version_given || made_by.contains(&release) {
            return None;
        }
        let places: &Places<'_> = &[("madeBy", &made_by.join(" or ")), ("release", &release)];
        Some(self.finding("other-release", places).with_ids([newest.sandbox_id.clone()]))
    }

    /// Reports a pod whose UID proves that it was not made from the file's present text (SP123).
    fn made_from_other_text(&self, newest: &RunningPod) -> RuntimeFinding {
        let modified = self.modified();
        let since =
            modified.map(|modified| format!(", which was last changed at {modified}")).unwrap_or_default();
        let (mut differences, container_ids) = self.container_differences(newest);
        differences.extend(differences::of_metadata(newest, &self.root));
        let what = if differences.is_empty() {
            "the runtime shows no difference, so the command, the arguments, the environment, the mounts or another field changed".to_owned()
        } else {
            differences::joined(differences)
        };
        let is_recent =
            modified.is_some_and(|modified| self.input.now.duration_since(modified) <= self.time_to_apply());
        let row = if is_recent { "made-from-recent-text" } else { "made-from-other-text" };
        self.finding(row, &[("since", &since), ("what", &what)])
            .with_ids([newest.sandbox_id.clone()])
            .with_ids(container_ids)
    }

    fn container_differences(&self, newest: &RunningPod) -> (Vec<String>, Vec<String>) {
        let release =
            CreatorRelease { minor: self.input.kubelet.version.minor(), is_given: self.input.version_given };
        differences::of_containers(newest, &self.root, release)
    }

    /// Reports containers that the file does not have or that have another image (SP123).
    fn check_containers(&self, newest: &RunningPod) -> Option<RuntimeFinding> {
        let (differences, container_ids) = self.container_differences(newest);
        if differences.is_empty() {
            return None;
        }
        let finding = self.finding("other-containers", &[("differences", &differences::joined(differences))]);
        Some(finding.with_ids([newest.sandbox_id.clone()]).with_ids(container_ids))
    }

    /// Reports labels and annotations of the sandbox that differ from the file (SP124).
    fn check_metadata(&self, newest: &RunningPod) -> Option<RuntimeFinding> {
        let differences = differences::of_metadata(newest, &self.root);
        if differences.is_empty() {
            return None;
        }
        let finding = self.finding("other-metadata", &[("differences", &differences::joined(differences))]);
        Some(finding.with_ids([newest.sandbox_id.clone()]))
    }

    /// Reports containers of the file that the kubelet has not created although it had the time (SP129).
    fn check_missing_containers(&self, newest: &RunningPod) -> Vec<RuntimeFinding> {
        let created = Wall::known(newest.created_at);
        if created.is_none_or(|created| self.input.now.duration_since(created) <= self.time_to_apply()) {
            return Vec::new();
        }
        let spec = self.root.get("spec");
        let init_unfinished = spec.get("initContainers").items().iter().any(|init| {
            let sidecar = init.get("restartPolicy").str() == "Always";
            let latest = newest.containers.get(init.get("name").str());
            // A finished init container may be missing, because the kubelet removes it after a while.
            !sidecar && latest.is_some_and(|latest| latest.state != ContainerState::Exited)
        });
        if init_unfinished {
            return Vec::new();
        }
        let containers = spec.get("containers").items();
        let names = containers.iter().map(|container| container.get("name").str());
        names
            .filter(|name| !newest.containers.contains_key(*name))
            .map(|name| {
                let finding = self.finding("never-created", &[("name", &name)]);
                finding.with_ids([newest.sandbox_id.clone()])
            })
            .collect()
    }

    /// Reports a file that sets another UID than the running pod has (SP130).
    fn check_fixed_uid(&self, newest: &RunningPod) -> Option<RuntimeFinding> {
        let uid = self.root.get("metadata").get("uid").str();
        if uid.is_empty() || uid == newest.uid.as_str() {
            return None;
        }
        let finding = self.finding("other-uid", &[("uid", &uid), ("own", &newest.uid.as_str())]);
        Some(finding.with_ids([newest.sandbox_id.clone()]))
    }

    /// Reports a container that fails and restarts often (SP128).
    fn check_restarts(&self, name: &str, latest: &RunningContainer) -> Option<RuntimeFinding> {
        let ended = latest.ended.as_ref().filter(|ended| ended.exit_code != 0)?;
        let created = Wall::known(latest.created_at)?;
        let runs = latest.state == ContainerState::Running;
        let runs_for_long = runs && self.input.now.duration_since(created) > LONGEST_BACK_OFF;
        if latest.restarts < MANY_RESTARTS || runs_for_long {
            return None;
        }
        let reason = if ended.reason.is_empty() { String::new() } else { format!(" ({})", ended.reason) };
        let row = if ended.log_path.is_empty() { "crash-loop-without-log" } else { "crash-loop" };
        let places: &Places<'_> = &[
            ("name", &name),
            ("restarts", &latest.restarts),
            ("code", &ended.exit_code),
            ("reason", &reason),
            ("log", &ended.log_path),
        ];
        Some(self.finding(row, places).with_ids([latest.id.clone(), ended.id.clone()]))
    }

    /// Reports a file that is newer than its pod (SP125). This is weak evidence: a new modification time alone restarts
    /// no pod, and the runtime does not show whether the command line changed.
    fn check_newer_file(&self, newest: &RunningPod) -> Option<RuntimeFinding> {
        let modified = self.modified()?;
        let created = Wall::known(newest.created_at)?;
        if modified <= created.plus(self.time_to_apply()) {
            return None;
        }
        let sets_uid = !self.root.get("metadata").get("uid").is_empty();
        let row = if sets_uid { "changed-since" } else { "touched-since" };
        Some(self.finding(row, &[]).with_ids([newest.sandbox_id.clone()]))
    }
}
