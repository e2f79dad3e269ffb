//! Finds the pods for which a call of the kubelet may hang. The dumps have no names, so a pod is never more than a suspect.
//!
//! Each reason has a source. A suspect is *likely* only with reasons from two sources, of which one fits no other pod.

use std::cmp::Reverse;
use std::mem::discriminant;
use std::time::Duration;

use super::OutsideFacts;
use super::pods::{OutsidePod, has_length};
use crate::clock::Wall;
use crate::cri::Rpc;
use crate::diagnosis::facts::{Fact, FactKind, PodChange, Quoted, Word};
use crate::diagnosis::report::{Confidence, SuspectReport};
use crate::stacks::kubelet::{KubeletCalls, PodShape, WaitingCall, WaitingWorker, WorkerTask};

/// The largest number of suspects.
const MAX_SUSPECTS: usize = 5;

/// The time before the hang in which a change may have caused it.
const WINDOW: Duration = Duration::from_secs(5 * 60);

/// A call that the kubelet makes for a change may hang a moment after the last relist began.
const AFTER: Duration = Duration::from_secs(5);

/// Where a reason comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReasonSource {
    /// The arguments in the kubelet's goroutines; how many pods fit.
    Goroutines { fitting: usize },
    /// The objects of the API server.
    Objects,
    /// What the kubelet logs or reports of calls for the pod.
    Log,
    /// A contradiction between the kubelet and the API server. It is a consequence of a hang as often as its cause.
    Contradiction,
}

impl ReasonSource {
    /// Whether the reason fits this pod only.
    const fn is_specific(self) -> bool {
        match self {
            Self::Goroutines { fitting } => fitting == 1,
            Self::Log => true,
            Self::Objects | Self::Contradiction => false,
        }
    }

    /// Whether two reasons come from the same source.
    fn is_same(self, other: Self) -> bool {
        discriminant(&self) == discriminant(&other)
    }
}

/// A reason to suspect a pod.
struct Reason {
    source: ReasonSource,
    /// How much the reason says, for the order of the suspects.
    weight: u32,
    fact: FactKind,
}

/// A pod with its reasons.
struct Suspect<'a> {
    pod: &'a OutsidePod,
    reasons: Vec<Reason>,
    /// The distance of its nearest change from the beginning of the hang.
    distance: Option<Duration>,
    /// The length of the name of the container that a call ends.
    container: Option<u64>,
}

/// Returns the suspects, the most suspicious first.
pub fn suspects(facts: &OutsideFacts) -> Vec<SuspectReport> {
    let none = KubeletCalls::default();
    let calls = facts.calls.as_ref().unwrap_or(&none);
    let is_late = facts.is_late();
    let workers = facts.stuck_workers();
    let relist = calls.relist.call().filter(|_| is_late);
    // A dump in which nothing waits for a call rules the pods out, and so does a runtime that answers no call.
    let is_ruled_out = facts.calls.is_some() && relist.is_none() && workers.is_empty();
    if is_ruled_out || calls.is_silent_runtime() || !is_late && workers.is_empty() {
        return Vec::new();
    }
    let mut suspects: Vec<Suspect<'_>> = facts.pods.iter().map(Suspect::of).collect();
    for worker in &workers {
        add_worker(worker, facts.taken_at, &mut suspects);
    }
    if let Some(call) = relist {
        add_relist(call, &mut suspects);
    }
    for suspect in &mut suspects {
        if is_late {
            suspect.add_changes(facts);
        }
        suspect.add_log(&facts.log);
        suspect.add_contradiction();
    }
    // If the calls for several pods wait, or `Status`, which is about no pod, they may all wait for something else.
    let named = suspects.iter().filter(|suspect| suspect.has_reason(ReasonSource::Log)).count();
    let is_alone = workers.len() <= 1 && named <= 1 && !calls.waiting.contains_key("Status");
    ranked(suspects, is_alone)
}

/// Orders the suspects and keeps the first ones.
fn ranked(mut suspects: Vec<Suspect<'_>>, is_alone: bool) -> Vec<SuspectReport> {
    suspects.retain(|suspect| suspect.reasons.iter().any(|reason| reason.weight > 0));
    suspects.sort_by_key(|suspect| {
        let weight: u32 = suspect.reasons.iter().map(|reason| reason.weight).sum();
        (Reverse(weight), suspect.distance.unwrap_or(Duration::MAX), &suspect.pod.pod)
    });
    suspects.truncate(MAX_SUSPECTS);
    suspects.into_iter().map(|suspect| suspect.report(is_alone)).collect()
}

/// Adds the reasons that a worker's call gives.
fn add_worker(worker: &WaitingWorker, now: Option<Wall>, suspects: &mut [Suspect<'_>]) {
    let call = &worker.call;
    let fits = fitting(&call.pod, suspects, |pod| pod.suits(worker.task, &call.rpc));
    let fitting = fits.len();
    for at in fits {
        let Some(suspect) = suspects.get_mut(at) else { continue };
        suspect.container = call.pod.container;
        suspect.add(
            ReasonSource::Goroutines { fitting },
            if fitting == 1 { 6 } else { 3 },
            FactKind::WorkerWaitsFor {
                task: Word::from(worker.task.as_str()),
                rpc: Word::from(&call.rpc),
                fitting,
            },
        );
        if let Some(waited) = suspect.pod.overdue(worker.task, now) {
            let fact = match worker.task {
                WorkerTask::Sync if suspect.pod.has_started => {
                    FactKind::ContainerNotRestarted { waited: waited.into() }
                }
                WorkerTask::Sync => FactKind::PodNotStarted { waited: waited.into() },
                WorkerTask::Terminate | WorkerTask::CleanUp => {
                    FactKind::PodNotEnded { waited: waited.into() }
                }
            };
            suspect.add(ReasonSource::Objects, 1, fact);
        }
    }
}

/// Adds the reason that the relist's call gives. A list call is about no pod, or about one that has changed for another reason.
fn add_relist(call: &WaitingCall, suspects: &mut [Suspect<'_>]) {
    let is_list = Rpc::named(&call.rpc).is_some_and(Rpc::is_list);
    if is_list || call.pod.uid.is_none() {
        return;
    }
    let fits = fitting(&call.pod, suspects, |_| true);
    let fitting = fits.len();
    let weight = match fitting {
        1 => 8,
        _ if call.pod.has_names() => 4,
        // Nearly every pod has a UID of this length.
        _ if fitting > MAX_SUSPECTS => return,
        _ => 2,
    };
    for at in fits {
        let Some(suspect) = suspects.get_mut(at) else { continue };
        let fact = FactKind::RelistCallFits { rpc: Word::from(&call.rpc), fitting };
        suspect.add(ReasonSource::Goroutines { fitting }, weight, fact);
    }
}

/// Returns the pods that fit the arguments of a call. If some of these suit the call by their state, only those.
fn fitting(shape: &PodShape, suspects: &[Suspect<'_>], suits: impl Fn(&OutsidePod) -> bool) -> Vec<usize> {
    let all = suspects.iter().enumerate().filter(|(_, suspect)| suspect.pod.fits(shape));
    let all: Vec<(usize, bool)> = all.map(|(at, suspect)| (at, suits(suspect.pod))).collect();
    let some_suit = all.iter().any(|(_, suits)| *suits);
    all.into_iter().filter(|(_, suits)| *suits || !some_suit).map(|(at, _)| at).collect()
}

impl<'a> Suspect<'a> {
    const fn of(pod: &'a OutsidePod) -> Self {
        Self { pod, reasons: Vec::new(), distance: None, container: None }
    }

    /// Adds a reason. Several workers that fit the pod are one reason.
    fn add(&mut self, source: ReasonSource, weight: u32, fact: FactKind) {
        if self.reasons.iter().all(|reason| reason.fact != fact) {
            self.reasons.push(Reason { source, weight, fact });
        }
    }

    /// Adds the change of the pod that is nearest to the beginning of the hang: when the last successful relist began. If that is
    /// not known, the last change.
    fn add_changes(&mut self, facts: &OutsideFacts) {
        let Some((began, now)) = facts.last_seen.or(facts.taken_at).zip(facts.taken_at) else { return };
        let (from, to) = (began.minus(WINDOW), began.plus(AFTER));
        let near = self.pod.changes.iter().filter(|(_, at)| (from..=to).contains(at));
        let distance = |at: Wall| began.duration_since(at).max(at.duration_since(began));
        let Some((what, at)) = near.min_by_key(|(_, at)| distance(*at)).copied() else { return };
        self.distance = Some(distance(at));
        let weight = match what {
            PodChange::Deleted | PodChange::GraceOver | PodChange::ContainerFinished => 2,
            PodChange::Created | PodChange::ContainerStarted => 1,
        };
        let fact = if facts.last_seen.is_some() {
            FactKind::PodChangedBefore { what, before: began.duration_since(at).into() }
        } else {
            FactKind::PodChangedAgo { what, ago: now.duration_since(at).into() }
        };
        self.add(ReasonSource::Objects, weight, fact);
    }

    /// Whether it has a reason from this source.
    fn has_reason(&self, source: ReasonSource) -> bool {
        self.reasons.iter().any(|reason| reason.source.is_same(source))
    }

    /// Adds the kubelet's last message about a call for the pod that had no answer.
    fn add_log(&mut self, log: &[String]) {
        let pod = &self.pod.pod;
        let names = [format!("pod=\"{pod}\""), format!("podUID=\"{}\"", pod.uid)];
        let ids = self.pod.containers.iter().filter(|container| !container.id.is_empty());
        let ids: Vec<&str> = ids.map(|container| container.id.as_str()).collect();
        let names_pod = |line: &&String| {
            names.iter().any(|name| line.contains(name)) || ids.iter().any(|id| line.contains(id))
        };
        let logged = log.iter().rfind(names_pod);
        let logged = logged.map(|line| FactKind::KubeletLogged { line: Quoted::from(line) });
        let reported = || {
            let message = self.pod.no_answer.last()?;
            Some(FactKind::KubeletReports { message: Quoted::from(message) })
        };
        if let Some(fact) = logged.or_else(reported) {
            self.add(ReasonSource::Log, 6, fact);
        }
    }

    /// Adds what the kubelet and the API server know differently of the pod.
    fn add_contradiction(&mut self) {
        if self.pod.is_only_in_kubelet && !self.reasons.is_empty() {
            self.add(ReasonSource::Contradiction, 2, FactKind::OnlyKubeletHasPod);
        }
        if !self.pod.gone.is_empty() {
            let containers = self.pod.gone.iter().map(Word::from).collect();
            self.add(ReasonSource::Contradiction, 4, FactKind::ContainersAreGone { containers });
        }
    }

    fn report(self, is_alone: bool) -> SuspectReport {
        let is_specific = self.reasons.iter().any(|reason| reason.source.is_specific());
        let first = self.reasons.first().map(|reason| reason.source);
        let has_two =
            first.is_some_and(|first| self.reasons.iter().any(|reason| !reason.source.is_same(first)));
        let likely = is_alone && is_specific && has_two;
        let mut named = self
            .pod
            .containers
            .iter()
            .filter(|container| self.container.is_some_and(|length| has_length(&container.name, length)));
        let container = named.next().filter(|_| named.next().is_none()).cloned();
        SuspectReport {
            pod: self.pod.pod.clone(),
            container,
            reasons: self.reasons.into_iter().map(|reason| Fact::from(reason.fact)).collect(),
            confidence: if likely { Confidence::Likely } else { Confidence::Possible },
        }
    }
}
