//! Decides what holds a pod (keeps it from ending or from starting), from the evidence of `health`, from what the sources say
//! about the pod, and from the look at its processes and mounts. It makes no calls and reads no clock. `start` has what concerns
//! only a pod that does not start.
//!
//! A kernel wait is *certain* only if the stack of the waiting task was readable, its owner is known, and it is proven
//! that the task belongs to the pod. A finalizer is always certain. A finding of `health` keeps its confidence.

use std::time::Duration;

use super::look::{PodLook, PodProcess, Umount, VolumeMount};
use super::report::{HolderKind, PodHold, PodHolder, PodWhy};
use super::start::Direction;
use super::{Deletion, PodFacts, PodStatus};
use crate::clock::Wall;
use crate::cri::{ContainerState, SandboxState};
use crate::diagnosis::advice;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::facts::{FactKind, WaitOwner};
use crate::diagnosis::journal::ContainerStop;
use crate::diagnosis::kernel_waits::{KernelWait, WaitKind};
use crate::diagnosis::limits;
use crate::diagnosis::overdue_processes;
use crate::diagnosis::proc::{Process, Role};
use crate::diagnosis::report::{CulpritOutcome, HealthFinding, HealthReport, Phase, Severity};
use crate::diagnosis::rules::steps::{Place, steps_of};
use crate::diagnosis::rules::{EveryPod, OwnPod, row};
use crate::diagnosis::words::seconds;
use crate::host::proc::NodeMount;
use crate::host::proc::usage::{OnTerm, PathUser, SignalSets};
use crate::report::duration::elapsed;
use crate::report::{Confidence, NotChecked, PodRef, Step, plural};

/// How long after the end of the grace period a pod may still end by itself: the kubelet stops the containers at the end,
/// and then unmounts volumes and reports.
pub(super) const MARGIN: Duration = Duration::from_secs(60);
/// How long after the end of its grace period a container may still run: the runtime sends SIGKILL and waits for its end.
const STOP_MARGIN: Duration = Duration::from_secs(10);
/// From this age on, a mount or an umount counts as stuck.
pub(super) const UMOUNT_OLD: Duration = Duration::from_secs(30);
/// A mount or an umount that is younger may only wait for a slow server.
pub(super) const UMOUNT_YOUNG: Duration = Duration::from_secs(10);
/// A process that started within this time of the deletion may be the preStop hook.
const HOOK_START: Duration = Duration::from_secs(10);
/// The most holders of one kind.
pub(super) const MAX_OF_KIND: usize = 3;

/// Decides what holds the pod. `health` is the report that was made from `evidence`.
pub fn judge(
    evidence: &Evidence,
    health: &HealthReport,
    facts: &PodFacts,
    look: &PodLook,
    now: Wall,
) -> PodWhy {
    let case = HolderCase { evidence, health, facts, look, now };
    let holders = case.holders();
    let state = case.state(&holders);
    let (deletion_at, grace_seconds) = match facts.deletion {
        Deletion::Requested { at, grace } => (Some(at), grace),
        _ => (None, None),
    };
    let is_primary =
        |first: &PodHolder| health.primary.as_ref().is_some_and(|primary| primary.title == first.title);
    let keep = holders.first().filter(|first| is_primary(first)).map(|_| health.keep.clone());
    PodWhy {
        keep: keep.unwrap_or_default(),
        taken_at: now,
        node: evidence.node.clone(),
        pod: facts.pod.clone(),
        state,
        summary: case.summary(state, &holders),
        deletion_at,
        grace_seconds,
        finalizers: facts.finalizers.clone(),
        holders,
        not_checked: case.not_checked(),
    }
}

pub(super) struct HolderCase<'a> {
    pub(super) evidence: &'a Evidence,
    health: &'a HealthReport,
    pub(super) facts: &'a PodFacts,
    pub(super) look: &'a PodLook,
    pub(super) now: Wall,
}

/// Whether a holder is likely or certain.
fn is_likely_or_certain(holder: &PodHolder) -> bool {
    holder.confidence != Confidence::Possible
}

fn any_of(found: &[PodHolder], kinds: &[HolderKind]) -> bool {
    found.iter().any(|holder| is_likely_or_certain(holder) && kinds.contains(&holder.kind))
}

impl<'a> HolderCase<'a> {
    pub(super) fn uid(&self) -> &str {
        &self.facts.pod.uid
    }

    /// Returns the places of the pod's names in a step.
    pub(super) fn pod_places(&self) -> [(&'static str, Place); 2] {
        let PodRef { namespace, name, .. } = &self.facts.pod;
        [("namespace", Place::word(namespace)), ("pod", Place::word(name))]
    }

    /// Whether `pod` is this pod. A source that does not know the UID, such as an older network plugin's environment, names the
    /// pod.
    pub(super) fn is_this(&self, pod: &PodRef) -> bool {
        let own = &self.facts.pod;
        if pod.uid.is_empty() || own.uid.is_empty() {
            (&pod.namespace, &pod.name) == (&own.namespace, &own.name)
        } else {
            pod.uid == own.uid
        }
    }

    /// Whether the sandbox or container with this id is of this pod, by the runtime's lists or by the pod's processes.
    pub(super) fn owns(&self, id: &str) -> bool {
        self.evidence.names.pod(id).is_some_and(|pod| self.is_this(&pod))
            || self.look.members.iter().any(|member| member.process.container_id.as_deref() == Some(id))
    }

    /// Whether the pod should have ended more than a minute ago, or no source has it any more.
    fn is_over(&self) -> bool {
        match self.facts.deletion {
            Deletion::Requested { at, .. } => self.now.duration_since(at) > MARGIN,
            Deletion::Gone | Deletion::Replaced => true,
            Deletion::NotRequested | Deletion::Unknown => false,
        }
    }

    /// Whether the grace period has ended.
    fn is_due(&self) -> bool {
        matches!(self.facts.deletion, Deletion::Requested { at, .. } if at <= self.now)
    }

    /// Whether a source says that the pod is to end.
    fn is_ending(&self) -> bool {
        matches!(self.facts.deletion, Deletion::Requested { .. } | Deletion::Gone | Deletion::Replaced)
    }

    fn holders(&self) -> Vec<PodHolder> {
        let direction = self.direction();
        let mut found = match direction {
            Direction::Runs | Direction::HasEnded => Vec::new(),
            Direction::Starts => self.hung_mounts(),
            Direction::Ends | Direction::Unknown => self.umounts(),
        };
        if !matches!(direction, Direction::Runs | Direction::HasEnded) {
            found.extend(self.kernel_waits());
        }
        found.extend(self.failing_steps(direction));
        let of_health = self.health_findings(direction, &found);
        found.extend(of_health);
        let overdue = self.overdue_processes(&found);
        found.extend(overdue);
        if direction == Direction::Starts {
            found.extend(self.words_of_kubelet());
            if !found.iter().any(is_likely_or_certain) {
                found.push(self.stage());
            }
        }
        if self.is_ending() {
            found.extend(self.hooks());
            // A network plugin is called when the containers have ended.
            let explains =
                [HolderKind::Kernel, HolderKind::Kubelet, HolderKind::Runtime, HolderKind::Network];
            if !any_of(&found, &explains) {
                found.extend(self.containers());
            }
        }
        let mounts = self.mounts(&found);
        found.extend(mounts);
        if self.is_over() && !found.iter().any(is_likely_or_certain) {
            found.extend(self.last_error(Confidence::Possible));
            found.extend(self.finalizers());
        }
        found.sort_by_key(|holder| (holder.confidence, holder.kind));
        found
    }

    fn state(&self, holders: &[PodHolder]) -> PodHold {
        match self.facts.deletion {
            Deletion::Requested { .. } if !self.is_over() => PodHold::InGrace,
            _ if self.direction() == Direction::Starts => {
                if self.is_young() {
                    PodHold::Starting
                } else {
                    PodHold::NotStarting
                }
            }
            _ if holders.iter().any(is_likely_or_certain) => PodHold::Held,
            _ if self.evidence.runtime.containers.latest().is_none() => PodHold::Unknown,
            Deletion::NotRequested => PodHold::NotDeleted,
            _ => PodHold::Free,
        }
    }

    fn summary(&self, state: PodHold, holders: &[PodHolder]) -> String {
        let pod = &self.facts.pod;
        let first = holders.first().map(|holder| holder.title.as_str());
        let since = self.facts.deletion.requested_at().map(|at| elapsed(self.now.duration_since(at)));
        let after = |separator: &str| first.map(|first| format!("{separator}{first}")).unwrap_or_default();
        let how = match (self.facts.deletion, since) {
            (Deletion::NotRequested, _) if self.direction() == Direction::Starts => {
                return format!("{pod} {}{}", self.how_it_starts(state), after(": "));
            }
            (Deletion::NotRequested, _) if self.direction() == Direction::Unknown => match state {
                PodHold::Held => format!("nothing is known of {pod}, and nothing starts or ends it"),
                _ => format!("nothing is known of {pod}"),
            },
            (Deletion::NotRequested, _) => {
                let status = self.facts.status.as_ref().filter(|status| status.has_ended);
                let has_ended = |status: &PodStatus| {
                    format!("has ended ({}) and ", status.reason.as_ref().unwrap_or(&status.phase))
                };
                let ended = status.map(has_ended).unwrap_or_default();
                let separator =
                    if state == PodHold::Held { ", but " } else { "; plegctl found only what is possible: " };
                return format!(
                    "{pod} {ended}is not being deleted: it has no deletion timestamp{}",
                    after(separator)
                );
            }
            (Deletion::Requested { at, .. }, Some(since)) if state == PodHold::InGrace => {
                let left = at.duration_since(self.now);
                let grace = if left.is_zero() {
                    format!("its grace period ended {} ago", elapsed(self.now.duration_since(at)))
                } else {
                    format!("{} of its grace period are left", elapsed(left))
                };
                return format!("{pod} terminates since {since}, and {grace}{}", after(": "));
            }
            (_, Some(since)) => format!("{pod} terminates since {since}"),
            (Deletion::Replaced, None) => {
                format!("an earlier version of {pod} still runs, and the new one starts after its end")
            }
            (Deletion::Gone, None) => format!("no source has {pod} any more"),
            (_, None) => format!("no source shows whether {pod} is being deleted"),
        };
        match (state, first) {
            (PodHold::Held, _) => format!("{how}{}", after(": ")),
            (PodHold::Unknown, _) => {
                format!("{how}; the runtime does not list its containers: plegctl health shows why")
            }
            (_, Some(first)) => format!("{how}; plegctl found only what possibly holds it: {first}"),
            (_, None) => format!("{how}; plegctl found nothing on this node that holds it"),
        }
    }

    /// Returns the process in the newest sample.
    fn process(&self, pid: u32) -> Option<&'a Process> {
        self.evidence.node()?.latest().processes.get(&pid)
    }

    /// Returns the name of the container with this id; `None` for a sandbox.
    fn container(&self, id: Option<&str>) -> Option<String> {
        Some(self.evidence.names.container(id?)?.name)
    }

    /// Whether a container of the pod runs, or its sandbox is ready, by the runtime or by the processes.
    fn is_alive(&self) -> bool {
        let of_pod = |id: &str| self.owns(id);
        let runtime = &self.evidence.runtime;
        let containers = runtime.containers.latest().into_iter().flatten();
        let sandboxes = runtime.sandboxes.latest().into_iter().flatten();
        !self.look.members.is_empty()
            || containers.filter(|one| one.state == ContainerState::Running).any(|one| of_pod(&one.id))
            || sandboxes.filter(|one| one.state == SandboxState::Ready).any(|one| of_pod(&one.id))
    }

    /// Whether the node and both lists of the runtime could be read, so that something missing from them really does
    /// not exist.
    fn sees_all(&self) -> bool {
        let runtime = &self.evidence.runtime;
        self.look.sees_node && runtime.containers.latest().is_some() && runtime.sandboxes.latest().is_some()
    }

    /// Whether the containers of the pod ended at least a minute ago; false if the runtime does not tell.
    fn ended_long_ago(&self) -> bool {
        let records = self.evidence.runtime.status_calls.iter().filter(|record| self.owns(&record.target.id));
        let ended = records.filter_map(|record| record.result.as_ref().ok()?.finished_at);
        ended.max().is_some_and(|at| self.now.duration_since(at) > MARGIN)
    }

    /// Finds the volume of the pod whose file system a task waits for. The owner of the wait must be known: then the task's
    /// function fits only one file system.
    fn volume_of(&self, wait: &KernelWait) -> Option<&'a VolumeMount> {
        let Some(WaitOwner::Mounted { source, file_system, .. }) = &wait.owner else { return None };
        let is_source = |mount: &NodeMount| mount.source == source.0 && mount.kind == file_system.0;
        self.look.mounts.iter().find(|volume| is_source(&volume.mount))
    }

    /// Whether another pod has mounted the same file system, so that a task may wait because of that pod.
    fn is_shared(&self, volume: &VolumeMount) -> bool {
        let mounts = self.evidence.node().map(|host| &host.latest().mounts);
        mounts.into_iter().flatten().any(|mount| {
            mount.device == volume.mount.device && mount.pod_uid().is_some_and(|uid| uid != self.uid())
        })
    }

    /// Finds the umounts of the pod's volumes that do not return.
    fn umounts(&self) -> Vec<PodHolder> {
        self.look.umounts.iter().filter_map(|umount| self.umount(umount)).take(MAX_OF_KIND).collect()
    }

    fn umount(&self, umount: &Umount) -> Option<PodHolder> {
        let directory = format!("/pods/{}/", self.uid());
        let Umount { process, by } = umount;
        let is_own = umount.path().map(|path| path.contains(&directory));
        let wait = self.look.waits.iter().find(|wait| wait.pid == process.pid);
        let old = process.age >= UMOUNT_OLD;
        let by_wait = wait.and_then(|wait| self.volume_of(wait));
        let remote: Vec<&VolumeMount> =
            self.look.mounts.iter().filter(|volume| volume.mount.is_remote()).collect();
        let (confidence, volume) = match (is_own, wait) {
            (Some(false), _) => return None,
            (Some(true), _) => {
                let at = |volume: &&VolumeMount| umount.path() == Some(&volume.mount.target);
                let volume = self.look.mounts.iter().find(at).or(by_wait);
                match wait {
                    Some(_) if process.age < UMOUNT_YOUNG => (Confidence::Possible, volume),
                    Some(wait) if wait.is_proven() => (Confidence::Certain, volume),
                    Some(_) => (Confidence::Likely, volume),
                    None if old => (Confidence::Likely, volume),
                    None => return None,
                }
            }
            // The command line of a blocked process cannot always be read safely.
            (None, Some(_))
                if process.age >= UMOUNT_YOUNG && by_wait.is_some_and(|volume| !self.is_shared(volume)) =>
            {
                (Confidence::Likely, by_wait)
            }
            (None, _) => {
                let may_be = self.facts.has_remote_volume || !remote.is_empty();
                if !may_be || process.state != 'D' || !(old || wait.is_some()) {
                    return None;
                }
                let only = remote.first().copied().filter(|_| remote.len() == 1);
                (Confidence::Possible, by_wait.or(only))
            }
        };
        let what = volume.map(VolumeMount::source).or_else(|| umount.path().map(str::to_owned));
        let title = match what {
            Some(what) => format!("umount of {what} by {by} does not return"),
            None => format!("an umount by {by} does not return"),
        };
        let mut found = PodHolder::new(HolderKind::Umount, confidence, title).of_process(process);
        let path = umount.path().or_else(|| volume.map(|volume| volume.mount.target.as_str()));
        found.path = path.map(str::to_owned);
        let label = process.label();
        let who = if *by == label { label } else { format!("{label} of {by}") };
        found.add_evidence(format!("{who} has been running for {}", elapsed(process.age)));
        found.evidence.extend(volume.map(describe));
        if is_own.is_none() {
            found.add_evidence(
                "its command line was not read, because it waits in the kernel; the path is not proven",
            );
        }
        self.add_wait(&mut found, wait);
        found.steps.push(Step::look(format!(
            "do not delete the pod with --force: the umount and the process {} stay, and nobody looks for them",
            process.pid
        )).about_process());
        Some(found)
    }

    /// Adds the reason for which a task waits, with its evidence and its steps.
    pub(super) fn add_wait(&self, found: &mut PodHolder, wait: Option<&KernelWait>) {
        let Some(wait) = wait else {
            found.steps.extend(found.pid.map(|pid| advice::kernel_stack("where it waits", pid)));
            return;
        };
        let process = self.process(wait.pid);
        let label = process.map_or_else(|| format!("process {}", wait.pid), Process::label);
        found.add_evidence(format!(
            "{label}, task {}: in {}, seen twice, and it did not run in between",
            wait.tid, wait.function
        ));
        // A volume that is known has been described already; without an owner, the facts are file systems that are possible.
        let is_known = |fact: &&FactKind| match fact {
            FactKind::SourceIsMountedAt { path, .. } if path.0.contains("/pods/") => true,
            _ => wait.owner.is_none() && found.path.is_some(),
        };
        let facts = wait.facts.iter().filter(|fact| !is_known(fact)).map(ToString::to_string);
        found.evidence.extend(facts.collect::<Vec<_>>());
        found.add_evidence(wait.stack().to_string());
        found.steps.extend(wait.steps(self.evidence.node_or_placeholder()));
        found.kernel_reason = Some(wait.report(process));
    }

    /// Finds the tasks that wait in the kernel: of the pod, of its shim and OCI runtime, and of programs that wait for a
    /// volume of the pod.
    fn kernel_waits(&self) -> Vec<PodHolder> {
        let mut found: Vec<PodHolder> = Vec::new();
        let mut seen: Vec<(WaitKind, &Option<WaitOwner>, HolderKind)> = Vec::new();
        for wait in &self.look.waits {
            let mut mounts = self.look.umounts.iter().chain(&self.look.mounting);
            if mounts.any(|umount| umount.process.pid == wait.pid) {
                continue;
            }
            let Some(holder) = self.kernel_wait(wait) else { continue };
            let kind = (wait.reason.kind, &wait.owner, holder.kind);
            // Tasks with the same reason, owner and kind are reported once.
            if !seen.contains(&kind) && found.len() < MAX_OF_KIND {
                seen.push(kind);
                found.push(holder);
            }
        }
        found
    }

    fn kernel_wait(&self, wait: &KernelWait) -> Option<PodHolder> {
        let process = self.process(wait.pid)?;
        let proven = if wait.is_proven() { Confidence::Certain } else { Confidence::Likely };
        let member = self.look.members.iter().find(|member| member.process.pid == wait.pid);
        let volume = self.volume_of(wait);
        let (kind, confidence, title) = if let Some(member) = member {
            let container = self.container(member.process.container_id.as_deref());
            let of = container.map(|name| format!(" of container {name}")).unwrap_or_default();
            (HolderKind::Kernel, proven, format!("{}{of} {}", process.label(), wait.waits()))
        } else if self.look.parts.contains(&wait.pid) {
            (HolderKind::Runtime, proven, format!("{} of this pod {}", process.label(), wait.waits()))
        } else {
            let volume = volume?;
            let confidence = if self.is_shared(volume) { Confidence::Possible } else { Confidence::Likely };
            if unmounts(wait) {
                let title = format!("umount of {} by {} does not return", volume.source(), process.label());
                (HolderKind::Umount, confidence, title)
            } else {
                (HolderKind::Kernel, confidence, format!("{} {}", process.label(), wait.waits()))
            }
        };
        let mut found = PodHolder::new(kind, confidence, title).of_process(process);
        found.path = volume.map(|volume| volume.mount.target.clone());
        found.evidence.extend(volume.map(describe));
        self.add_wait(&mut found, Some(wait));
        if member.is_some() {
            found.steps.extend(steps_of("noSignal", &[]));
        }
        Some(found)
    }

    /// Takes over everything that `health` found about this pod, and, for a pod that does not start or end, what keeps every pod
    /// of the node from it.
    fn health_findings(&self, direction: Direction, found: &[PodHolder]) -> Vec<PodHolder> {
        let (own, others): (Vec<&HealthFinding>, Vec<_>) =
            self.health.findings.iter().partition(|finding| self.is_about_pod(finding));
        let is_stuck = !matches!(direction, Direction::Runs | Direction::HasEnded);
        let counts = |finding: &&HealthFinding| {
            is_stuck && finding.confidence != Confidence::Possible && finding.severity != Severity::Info
        };
        let own = own.into_iter().filter_map(|finding| Some((kind_of_own(finding, found)?, finding)));
        let others = others.into_iter().filter(counts);
        let others = others.filter_map(|finding| Some((kind_for_all(finding, direction)?, finding)));
        let own = own.map(|(kind, finding)| {
            let mut holder = of_finding(kind, finding);
            // The title is about the first id. If that is the UID of a pod, it is about the kubelet.
            let first = finding.ids.first().and_then(|id| self.evidence.names.pod(id));
            if first.is_some_and(|pod| !self.is_this(&pod)) {
                holder.title = format!("this pod is one of several: {}", row(finding.id).rule().title);
            }
            holder
        });
        let mut holders: Vec<PodHolder> = own.collect();
        holders.extend(others.take(MAX_OF_KIND).map(|(kind, finding)| {
            let mut holder = of_finding(kind, finding);
            holder.steps.splice(..0, steps_of("wholeNode", &[]));
            holder
        }));
        holders.extend(self.calls_without_finding());
        holders
    }

    fn is_about_pod(&self, finding: &HealthFinding) -> bool {
        finding.pod.as_ref().is_some_and(|pod| self.is_this(pod))
            // D41 has the UIDs of pods.
            || finding.ids.iter().any(|id| self.owns(id) || (!id.is_empty() && id == self.uid()))
    }

    /// Returns the slow, silent and failing calls about this pod that no finding is about.
    fn calls_without_finding(&self) -> Option<PodHolder> {
        let in_finding = |id: &String| self.health.findings.iter().any(|finding| finding.ids.contains(id));
        let culprits = self.health.culprits.iter().filter(|culprit| self.owns(&culprit.id));
        let mut lines = culprits.filter(|culprit| !in_finding(&culprit.id)).map(|culprit| {
            let how = match culprit.outcome {
                CulpritOutcome::Silent => "has not answered for",
                CulpritOutcome::Slow => "answered after",
                CulpritOutcome::Error => "failed after",
            };
            let waited = Duration::try_from_secs_f64(culprit.waited_seconds).unwrap_or_default();
            format!("{} of {} {how} {}", culprit.rpc, self.evidence.names.name(&culprit.id), seconds(waited))
        });
        let mut holder = PodHolder::new(HolderKind::Runtime, Confidence::Possible, lines.next()?);
        holder.evidence.extend(lines.take(MAX_OF_KIND));
        holder.steps = steps_of("wholeNode", &[]);
        Some(holder)
    }

    /// Finds the network plugins and OCI runtime processes that work for this pod for too long. `health` names only the first of
    /// several pods.
    fn overdue_processes(&self, found: &[PodHolder]) -> Vec<PodHolder> {
        let Some(host) = self.evidence.node() else { return Vec::new() };
        let overdue = overdue_processes::find(self.evidence, host.latest());
        let own = overdue.filter_map(|process| {
            let id = host.overdue_ids.get(&process.pid).filter(|id| self.owns(id))?;
            let is_new = found.iter().all(|holder| holder.pid != Some(process.pid));
            is_new.then_some((process, id))
        });
        let holder = |(process, id): (&Process, &String)| {
            let is_plugin = process.role == Role::Other;
            let creates = overdue_processes::creates(process);
            let (kind, what, old) = if is_plugin {
                (HolderKind::Network, "the network plugin ", limits::CNI_PROCESS_STUCK)
            } else {
                (HolderKind::Runtime, "", limits::OCI_COMMAND_STUCK)
            };
            let hangs = (is_plugin || creates) && process.age >= old;
            let confidence = if hangs { Confidence::Likely } else { Confidence::Possible };
            let age = seconds(process.age);
            let title = format!("{what}{} has not finished for {age}", process.label());
            let mut holder = PodHolder::new(kind, confidence, title).of_process(process);
            holder.add_evidence(format!("it works on {}", self.evidence.names.describe(id)));
            let wait = host.waits.iter().find(|wait| wait.pid == process.pid);
            self.add_wait(&mut holder, wait);
            holder
        };
        own.map(holder).take(MAX_OF_KIND).collect()
    }

    /// Returns the processes of the pod that the runtime started, with the names of their containers.
    fn roots(&self) -> impl Iterator<Item = (&'a PodProcess, String)> {
        self.look
            .members
            .iter()
            .filter(|member| member.is_root)
            .filter_map(|member| Some((member, self.container(member.process.container_id.as_deref())?)))
    }

    /// Whether `member` is the program of its container; the other roots were started in the container later.
    fn is_main(&self, PodProcess { process, .. }: &PodProcess) -> bool {
        let roots = self.roots().map(|(root, _)| &root.process);
        let mut same = roots.filter(|other| other.container_id == process.container_id);
        !same.any(|other| (other.age, process.pid) > (process.age, other.pid))
    }

    /// Finds the commands of preStop hooks that run.
    fn hooks(&self) -> Vec<PodHolder> {
        let requested = self.facts.deletion.requested_at();
        let since = requested.map(|at| self.now.duration_since(at));
        let mut found = Vec::new();
        for (PodProcess { process, .. }, container) in
            self.roots().filter(|(member, _)| !self.is_main(member))
        {
            let Some(hook) = self.facts.pre_stop.iter().find(|hook| hook.container == container) else {
                continue;
            };
            let is_same = !hook.command.is_empty() && *process.command == *hook.command;
            let began_then = since
                .is_some_and(|since| process.age.abs_diff(since) <= HOOK_START && !hook.command.is_empty());
            let confidence = match (is_same, began_then) {
                (true, _) => Confidence::Likely,
                (false, true) => Confidence::Possible,
                (false, false) => continue,
            };
            let title = format!("the preStop hook of container {container} runs: {}", process.label());
            let mut holder = PodHolder::new(HolderKind::PreStop, confidence, title).of_process(process);
            holder.add_evidence(runs_for(process));
            holder.add_evidence(if is_same {
                format!("its command line is that of the hook: {}", hook.command.join(" "))
            } else {
                "it was started in the container when the pod was deleted; its command line is another one"
                    .to_owned()
            });
            holder.steps = steps_of("preStopHook", &[("pid", Place::Process(process.pid))]);
            found.push(holder);
        }
        found.truncate(MAX_OF_KIND);
        found
    }

    /// Returns how sure it is that a container that runs holds the pod. If a source has dropped the pod, only the kubelet's last
    /// stop shows whether the pod is in its grace period.
    fn of_running(&self, stop: Option<&ContainerStop>) -> Confidence {
        let is_known = stop.is_some() || !matches!(self.facts.deletion, Deletion::Gone | Deletion::Replaced);
        if is_known { Confidence::Likely } else { Confidence::Possible }
    }

    /// Returns how the kubelet has last stopped a container, by its journal. A kubelet or a runtime that is started again begins the
    /// whole grace period again.
    fn stop_of(&self, id: Option<&str>) -> Option<&'a ContainerStop> {
        self.evidence.journal.as_ref()?.stops.get(id?)
    }

    /// Finds the containers that run on.
    fn containers(&self) -> Vec<PodHolder> {
        let mains = self.roots().filter(|(member, _)| self.is_main(member));
        let mut found: Vec<PodHolder> = mains
            .filter_map(|(member, container)| self.running(member, &container))
            .take(MAX_OF_KIND)
            .collect();
        if found.is_empty() && self.is_over() && self.is_alive() {
            let has_container = self.roots().next().is_some();
            let title = if self.look.sees_node && !has_container {
                "its sandbox still runs, and none of its containers does"
            } else {
                "the runtime still runs it"
            };
            let mut holder = PodHolder::new(HolderKind::Container, self.of_running(None), title);
            holder.steps = steps_of("runsOn", &[]);
            found.push(holder);
        }
        found
    }

    /// Describes a container whose program runs on. Before the end of the grace period, only a program that does not end
    /// after `SIGTERM` is reported.
    fn running(&self, member: &PodProcess, container: &str) -> Option<PodHolder> {
        let PodProcess { process, signals, .. } = member;
        let label = format!("{} of container {container}", process.label());
        let on_term = signals.as_ref().map(SignalSets::on_term);
        let is_killed = signals.as_ref().is_some_and(SignalSets::is_killed);
        let how = match on_term {
            Some(OnTerm::Ignores) => Some("ignores SIGTERM"),
            Some(OnTerm::Drops) => Some("has no handler for SIGTERM, so the kernel drops the signal"),
            Some(OnTerm::Blocks) => Some("blocks SIGTERM"),
            Some(OnTerm::Handles | OnTerm::Ends) | None => None,
        };
        let stop = self.stop_of(process.container_id.as_deref());
        let is_over = stop.map_or_else(|| self.is_over(), |stop| self.now > stop.end().plus(STOP_MARGIN));
        let title = match (is_over, how) {
            (true, _) if is_killed => format!("{label} was sent SIGKILL and has not ended"),
            (true, Some(how)) => format!("{label} {how}, and was not sent SIGKILL"),
            (true, None) => format!("{label} runs on, and was not sent SIGKILL"),
            (false, Some(how)) if self.is_due() && stop.is_none() => {
                format!("{label} {how}; its grace period has ended, and SIGKILL is due")
            }
            (false, Some(how)) => format!("{label} {how}; it runs until the grace period ends"),
            (false, None) => return None,
        };
        let mut found =
            PodHolder::new(HolderKind::Container, self.of_running(stop), title).of_process(process);
        found.evidence.extend(stop.map(|stop| {
            let (at, end) = (stop.at.time_of_day(self.now), stop.end().time_of_day(self.now));
            format!(
                "the kubelet stopped it at {at} with a grace period of {} s, which ends at {end}",
                stop.grace.as_secs()
            )
        }));
        found.add_evidence(match on_term {
            Some(OnTerm::Handles) => "it handles SIGTERM itself (SigCgt in /proc/PID/status)".to_owned(),
            Some(OnTerm::Ends) => "SIGTERM would end it, so it has not got that signal either".to_owned(),
            Some(_) => format!("SigIgn, SigCgt and SigBlk in /proc/{}/status", process.pid),
            None => "its signal masks are not readable".to_owned(),
        });
        found.add_evidence(format!("{}, state {}", runs_for(process), process.state));
        found.steps = steps_of(if is_over { "runsOn" } else { "inGrace" }, &[]);
        if let Some(id) = process.container_id.as_ref().filter(|_| is_over) {
            found.steps.extend(steps_of("stopContainer", &[("id", Place::word(id))]));
        }
        Some(found)
    }

    /// Finds volumes that are still mounted although nothing of the pod runs.
    fn mounts(&self, found: &[PodHolder]) -> Vec<PodHolder> {
        let is_due = self.is_over() || self.facts.deletion == Deletion::Unknown;
        let volumes = &self.look.mounts;
        if !is_due || volumes.is_empty() || self.is_alive() || !self.sees_all() {
            return Vec::new();
        }
        let is_in_volume =
            |user: &PathUser| volumes.iter().any(|volume| user.path.starts_with(&volume.mount.target));
        let users = self.look.users.iter().filter(|(user, _)| is_in_volume(user));
        let users = users.take(MAX_OF_KIND).map(|(user, process)| {
            let (path, label) = (user.path.display().to_string(), process.label());
            let title = format!("{label} uses {path}, so the volume cannot be unmounted");
            let mut holder = PodHolder::new(HolderKind::Mount, Confidence::Likely, title).of_process(process);
            holder.path = Some(path);
            holder.add_evidence(format!("a descriptor or the working directory of {label} is there"));
            holder.steps = steps_of("userOfVolume", &[("pid", Place::Process(user.pid))]);
            holder
        });
        let mut holders: Vec<PodHolder> = users.collect();
        if !holders.is_empty() || any_of(found, &[HolderKind::Umount, HolderKind::Kernel]) {
            return holders;
        }
        // A moment after the end of the containers, the kubelet is just about to unmount.
        let is_late = self.facts.deletion != Deletion::Unknown && self.ended_long_ago();
        let confidence = if is_late { Confidence::Likely } else { Confidence::Possible };
        let first = volumes.iter().find(|volume| volume.mount.is_remote()).or(volumes.first());
        let others = match volumes.len() {
            0 | 1 => String::new(),
            all => format!(" and {}", plural(all - 1, "other volume")),
        };
        let title = first.map(|volume| {
            let is = if others.is_empty() { "is" } else { "are" };
            format!(
                "volume {} ({}){others} {is} still mounted, and no umount runs",
                volume.volume,
                volume.source()
            )
        });
        let mut holder = PodHolder::new(HolderKind::Mount, confidence, title.unwrap_or_default());
        holder.path = first.map(|volume| volume.mount.target.clone());
        holder.evidence.extend(volumes.iter().take(5).map(describe));
        holder.steps = steps_of("notUnmounted", &[("uid", Place::word(self.uid()))]);
        if let Some(driver) = volumes.iter().find_map(|volume| volume.driver.as_ref()) {
            holder.steps.extend(steps_of("csiDriver", &[("driver", Place::word(driver))]));
        }
        holders.push(holder);
        holders
    }

    /// Reports the finalizers, if nothing on the node holds the pod.
    fn finalizers(&self) -> Option<PodHolder> {
        let names = &self.facts.finalizers;
        let first = names.first().filter(|_| !self.is_alive() && self.look.mounts.is_empty())?;
        let final_delete = matches!(self.facts.deletion, Deletion::Requested { grace: Some(0), .. });
        let confidence = match (self.sees_all(), final_delete) {
            (true, true) => Confidence::Certain,
            (true, false) => Confidence::Likely,
            (false, _) => Confidence::Possible,
        };
        let others = match names.len() {
            0 | 1 => String::new(),
            all => format!(" and {}", plural(all - 1, "other finalizer")),
        };
        let title =
            format!("the API server keeps it because of the finalizer {first} ({}){others}", owner(first));
        let mut holder = PodHolder::new(HolderKind::Finalizer, confidence, title);
        holder.evidence.extend(names.iter().map(|name| format!("finalizer {name}: {}", owner(name))));
        if self.sees_all() {
            holder.add_evidence("the runtime runs nothing of the pod, and none of its volumes is mounted");
        }
        if final_delete {
            holder.add_evidence(
                "deletionGracePeriodSeconds is 0: the kubelet has done its part, or a user forced it",
            );
        }
        holder.steps = steps_of("finalizer", &self.pod_places());
        Some(holder)
    }

    fn not_checked(&self) -> Vec<NotChecked> {
        let mut skipped = self.look.not_checked.clone();
        let mut skip = |what: &str, why: &str| skipped.push(NotChecked::new(what, why));
        if self.facts.deletion == Deletion::Unknown {
            skip(
                "deletion timestamp, grace period and finalizers",
                "no source has them; give --kubeconfig FILE or --api-pods FILE",
            );
        }
        if self.is_ending() {
            for hook in self.facts.pre_stop.iter().filter(|hook| hook.command.is_empty()) {
                let why = "the kubelet runs it itself (HTTP or sleep), and no process on the node shows it";
                skip(&format!("the preStop hook of container {}", hook.container), why);
            }
        }
        if self.evidence.runtime.containers.latest().is_none() {
            skip("the containers of the pod", "the runtime does not list them; plegctl health shows why");
        }
        if !self.look.sees_node {
            let reasons = self.health.not_checked.iter().filter(|one| one.what.contains("processes"));
            let why = reasons.map(|one| one.why.as_str()).next();
            skip("the processes, mounts and umounts of the node", why.unwrap_or("they could not be read"));
        }
        skipped
    }
}

/// Returns the kind of a finding about this pod; `None` if the look at this pod has found the same.
fn kind_of_own(finding: &HealthFinding, found: &[PodHolder]) -> Option<HolderKind> {
    let rule = row(finding.id);
    if rule.own == OwnPod::AsLogged {
        return None;
    }
    let same_task = |pid: u32| found.iter().any(|holder| holder.pid == Some(pid));
    let is_found = finding.kernel_reason.as_ref().is_some_and(|reason| same_task(reason.pid))
        || rule.own == OwnPod::UnlessWaitIsFound && any_of(found, &[HolderKind::Kernel, HolderKind::Umount]);
    (!is_found).then_some(rule.holder)
}

/// Returns the kind of a finding that keeps every pod of the node from ending or from starting.
fn kind_for_all(finding: &HealthFinding, direction: Direction) -> Option<HolderKind> {
    let rule = row(finding.id);
    let starts = direction == Direction::Starts;
    let applies = match rule.every {
        EveryPod::No => false,
        EveryPod::Yes => true,
        EveryPod::WhileItLasts => finding.phase != Phase::None,
        EveryPod::Starts => starts,
        EveryPod::StartsIfCall => starts && finding.rpc.is_some(),
    };
    applies.then_some(rule.holder)
}

fn of_finding(kind: HolderKind, finding: &HealthFinding) -> PodHolder {
    // The finding is about the pod, but no pod may wait for what it found.
    let keeps_nothing = row(finding.id).own == OwnPod::No;
    let confidence = if keeps_nothing { Confidence::Possible } else { finding.confidence };
    let mut holder = PodHolder {
        kernel_reason: finding.kernel_reason.clone(),
        pid: finding.kernel_reason.as_ref().map(|reason| reason.pid).or(finding.pid),
        process: finding.kernel_reason.as_ref().map(|reason| reason.process.clone()),
        ..PodHolder::new(kind, confidence, finding.title.clone())
    };
    holder.add_evidence(format!("finding {} of plegctl health", finding.id));
    holder.evidence.extend(finding.evidence.iter().cloned());
    holder.steps.clone_from(&finding.steps);
    holder.steps.extend(steps_of("explainFinding", &[("id", Place::word(finding.id))]));
    holder
}

/// Describes for how long the process has been running.
pub(super) fn runs_for(process: &Process) -> String {
    format!("{} has been running for {}", process.label(), elapsed(process.age))
}

/// Whether a task is in the umount of a file system.
fn unmounts(wait: &KernelWait) -> bool {
    const FUNCTIONS: [&str; 5] =
        ["umount", "deactivate_super", "deactivate_locked_super", "generic_shutdown_super", "cleanup_mnt"];
    wait.stack.iter().any(|line| FUNCTIONS.iter().any(|function| line.contains(function)))
}

/// Describes a mounted volume. The path is that below the pod's directory, which is long.
fn describe(volume: &VolumeMount) -> String {
    let NodeMount { source, kind, target, .. } = &volume.mount;
    let driver = volume.driver.as_ref().map(|driver| format!(", CSI driver {driver}")).unwrap_or_default();
    let below = target.split_once("/pods/").and_then(|(_, rest)| rest.split_once('/')).map(|(_, path)| path);
    let path = below.unwrap_or(target);
    format!("volume {}{driver}: {source} ({kind}), mounted at {path} in the pod's directory", volume.volume)
}

/// Returns who removes a finalizer, by its name.
fn owner(finalizer: &str) -> String {
    match finalizer.split_once('/') {
        Some(("batch.kubernetes.io", "job-tracking")) => "the Job controller of Kubernetes".to_owned(),
        None if matches!(finalizer, "foregroundDeletion" | "orphan") => {
            "the garbage collector of Kubernetes".to_owned()
        }
        Some((domain, _)) if domain == "kubernetes.io" || domain.ends_with(".kubernetes.io") => {
            format!("a part of Kubernetes ({domain})")
        }
        Some((domain, _)) => format!("a controller of {domain}"),
        None => "an unknown controller".to_owned(),
    }
}
