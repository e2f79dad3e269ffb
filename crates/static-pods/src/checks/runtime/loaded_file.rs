//! Checks a file that the kubelet loads against its running pod: SP120, SP123 to SP125, SP128 to SP130 and SP134.

use std::time::Duration;

use super::RuntimeFinding;
use super::differences::{self, CreatorRelease};
use super::input::CompareInput;
use super::made::MadeFromFile;
use super::running::{MANY_RESTARTS, ready};
use crate::ContainerState;
use crate::{Check, FileReport, PodField, PodIdentity, Severity};
use crate::{RunningContainer, RunningPod};
use plegctl_base::clock::Wall;

/// How often the kubelet scans its files (fileCheckFrequency).
const SCAN_PERIOD: Duration = plegctl_node::kubelet::timing::FILE_CHECK_FREQUENCY;
/// The longest back-off. A container that has run for longer is not in a crash loop.
pub const LONGEST_BACK_OFF: Duration = Duration::from_secs(300);

/// The fix for a file that the running pod does not match.
const FIND_WHY_NOT_APPLIED: &str = "the kubelet has not applied the file: look for a second file with this pod, a \
                                    fixed uid, or a kubelet that does not run";

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

    fn finding(&self, check: Check, severity: Severity, message: impl Into<String>) -> RuntimeFinding {
        RuntimeFinding::new(check, severity, self.pod, message)
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
        let message = if sandboxes.is_empty() {
            "the manifest loads, but its pod does not run"
        } else {
            "the manifest loads, but none of its sandboxes is ready"
        };
        let fix = "check that the kubelet runs and reads this path; search its log for \"Pod was rejected\", \
                   \"Could not process manifest file\" and errors while creating the sandbox";
        let dead = sandboxes.iter().map(|instance| instance.sandbox_id.clone());
        Some(self.finding(Check::PodNotRunning, Severity::Error, message).with_fix(fix).with_ids(dead))
    }

    /// Reports a pod that was made from this text, but by another kubelet release than the one whose rules are applied
    /// (SP134).
    fn check_release(&self, newest: &RunningPod, made_by: &[String]) -> Option<RuntimeFinding> {
        let release = self.input.kubelet.version.to_string();
        if !self.input.version_given || made_by.contains(&release) {
            return None;
        }
        let message = format!(
            "a kubelet {} made the running pod from this file; kubelet {release} computes another UID and restarts the pod",
            made_by.join(" or ")
        );
        Some(
            self.finding(Check::OtherRelease, Severity::Info, message)
                .with_fix("plegctl static-pods lint --upgrade-to shows what an upgrade restarts")
                .with_ids([newest.sandbox_id.clone()]),
        )
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
        let message = format!("the running pod was made from a different version of the file{since}: {what}");
        let is_recent =
            modified.is_some_and(|modified| self.input.now.duration_since(modified) <= self.time_to_apply());
        let (severity, fix) = if is_recent {
            (Severity::Info, "wait for the kubelet's next scan and for the end of the old pod")
        } else {
            (Severity::Error, FIND_WHY_NOT_APPLIED)
        };
        self.finding(Check::OtherContent, severity, message)
            .with_fix(fix)
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
        Some(
            self.finding(Check::OtherContent, Severity::Error, differences::joined(differences))
                .with_fix(FIND_WHY_NOT_APPLIED)
                .with_ids([newest.sandbox_id.clone()])
                .with_ids(container_ids),
        )
    }

    /// Reports labels and annotations of the sandbox that differ from the file (SP124).
    fn check_metadata(&self, newest: &RunningPod) -> Option<RuntimeFinding> {
        let differences = differences::of_metadata(newest, &self.root);
        if differences.is_empty() {
            return None;
        }
        Some(
            self.finding(Check::OtherSettings, Severity::Warning, differences::joined(differences))
                .with_fix(
                    "check that the kubelet has read the file, and look for a second file that defines this pod",
                )
                .with_ids([newest.sandbox_id.clone()]),
        )
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
                self.finding(
                    Check::NeverCreated,
                    Severity::Warning,
                    format!("container {name} was never created"),
                )
                .with_fix("search the kubelet's log for errors about this container: image pull, hostPath volumes, configuration")
                .with_ids([newest.sandbox_id.clone()])
            })
            .collect()
    }

    /// Reports a file that sets another UID than the running pod has (SP130).
    fn check_fixed_uid(&self, newest: &RunningPod) -> Option<RuntimeFinding> {
        let uid = self.root.get("metadata").get("uid").str();
        if uid.is_empty() || uid == newest.uid.as_str() {
            return None;
        }
        let message = format!(
            "the file sets the UID {uid}, but the running pod has {}: the pod was made from an older file",
            newest.uid.as_str()
        );
        Some(
            self.finding(Check::OtherUid, Severity::Warning, message)
                .with_fix("wait 20 s for the next scan; if nothing changes, read the kubelet's log")
                .with_ids([newest.sandbox_id.clone()]),
        )
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
        let message = format!(
            "container {name} ends again and again: {} restarts, last exit code {}{reason}",
            latest.restarts, ended.exit_code
        );
        let finding = self
            .finding(Check::CrashLoop, Severity::Error, message)
            .with_ids([latest.id.clone(), ended.id.clone()]);
        Some(if ended.log_path.is_empty() {
            finding
        } else {
            finding.with_fix(format!("read {}", ended.log_path))
        })
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
        let (severity, message) = if sets_uid {
            (
                Severity::Warning,
                "the file was changed after the pod started, but it sets metadata.uid, so the kubelet does not apply a \
                 changed command, args or env",
            )
        } else {
            (Severity::Info, "the file was touched after the pod started, and the pod was not replaced")
        };
        Some(self.finding(Check::TouchedSince, severity, message).with_ids([newest.sandbox_id.clone()]))
    }
}
