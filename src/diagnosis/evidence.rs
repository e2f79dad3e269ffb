//! What the probes brought home, before anybody judges it.
//!
//! One field for each step of the ladder. Nothing here says what a figure means; that is what [`super::rules`] is for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use super::commands::{Journal, SystemState};
use super::kubelet::KubeletEvidence;
use super::limits;
use super::names::{Kind, Names};
use super::paper::Paper;
use super::proc::{Ownership, ProcSample, Throttled};
use super::report::{JudgedMoment, NotChecked};
use super::silence::Scale;
use crate::clock::{Mono, Wall};
use crate::cri::{
    Call, Container, ContainerState, Error, Rpc, RuntimeStatus, Sandbox, SandboxState, Version,
};
use crate::host::disks::Disk;
use crate::kubelet::timing;
use crate::kubelet::{KubeletVersion, Sourced};
use crate::stacks::report::StackReport;

/// Everything that one run learned.
#[derive(Debug, Default)]
pub struct Evidence {
    /// When the probing began.
    pub taken_at: Wall,
    /// How long it took.
    pub took: Duration,
    /// The moment of a capture that it is about.
    pub moment: Option<JudgedMoment>,
    /// The node's name.
    pub node: String,
    /// The endpoint as the user knows it.
    pub endpoint: String,
    /// The runtime's socket as its daemon calls it.
    pub socket: Option<PathBuf>,
    /// Other sockets that exist here, for a wrong endpoint.
    pub other_sockets: Vec<String>,
    /// What the estimate rests on.
    pub settings: Settings,
    /// What the runtime answered.
    pub runtime: RuntimeEvidence,
    /// Who an id is.
    pub names: Names,
    /// What the node shows of itself.
    pub host: Option<HostEvidence>,
    /// What the kubelet was told and says.
    pub kubelet: KubeletEvidence,
    /// What the journal has.
    pub journal: Option<Journal>,
    /// What systemd says of itself.
    pub systemd: Option<SystemState>,
    /// This very process was refused a thread.
    pub no_thread: bool,
    /// The runtime's goroutines, if something is silent and it gives them.
    pub stacks: Option<StackReport>,
    /// What the node wrote down itself, if it is wanted.
    pub papers: Vec<Paper>,
    /// Why the run ended before it had asked everything.
    pub cut_off: Option<String>,
    /// Whether that is because somebody wanted its end.
    pub interrupted: bool,
    /// What was not looked at, and why.
    pub not_checked: Vec<NotChecked>,
    /// What the user pointed us to and is not what it should be.
    pub bad_input: Vec<String>,
}

impl Evidence {
    /// Notes that something was not looked at.
    pub fn skip(&mut self, what: &str, why: impl Into<String>) {
        self.not_checked.push(NotChecked { what: what.into(), why: why.into() });
    }

    /// Takes out the calls that we failed over ourselves: they say nothing of the runtime.
    pub fn disown(&mut self) {
        let mut failed = Vec::new();
        let runtime = &mut self.runtime;
        disowned(&mut runtime.version, &mut failed);
        disowned(&mut runtime.control, &mut failed);
        disowned(&mut runtime.status, &mut failed);
        disowned(&mut runtime.sandboxes.first, &mut failed);
        disowned(&mut runtime.sandboxes.second, &mut failed);
        disowned(&mut runtime.containers.first, &mut failed);
        disowned(&mut runtime.containers.second, &mut failed);
        for records in [&mut runtime.asked, &mut runtime.shims] {
            records.retain(|record| match &record.result {
                Err(why @ Error::Own { rpc, .. }) => {
                    failed.push((*rpc, why.to_string()));
                    false
                }
                _ => true,
            });
        }
        // One line a call, not one an id.
        failed.sort_unstable();
        failed.dedup_by_key(|(rpc, _)| *rpc);
        for (rpc, why) in failed {
            self.skip(rpc.name(), why);
        }
    }

    /// What came of a part of the run, or nothing and a note where it failed of itself.
    pub fn held<T: Default>(&mut self, what: &str, part: Result<T, String>) -> T {
        part.unwrap_or_else(|why| {
            self.skip(what, format!("plegctl itself failed over it: {why}"));
            T::default()
        })
    }

    /// Whether the daemon got so little of a processor, by the limit of its own cgroup, that nobody else is to blame.
    pub fn daemon_is_held_back(&self) -> bool {
        self.node()
            .and_then(HostEvidence::held_back_percent)
            .is_some_and(|percent| percent >= limits::HELD_BACK_PERCENT)
    }

    /// The process table, if it is this runtime's.
    pub fn node(&self) -> Option<&HostEvidence> {
        self.host.as_ref().filter(|host| matches!(host.ownership, Ownership::Ours { .. }))
    }
}

fn disowned<T>(call: &mut Option<Call<T>>, failed: &mut Vec<(Rpc, String)>) {
    if let Some(Call { rpc, result: Err(why @ Error::Own { .. }), .. }) = call {
        failed.push((*rpc, why.to_string()));
        *call = None;
    }
}

/// What the kubelet of this node is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Its time-out of one call.
    pub request_timeout: Sourced<Duration>,
    /// Age at which PLEG is unhealthy.
    pub threshold: Sourced<Duration>,
    /// Its pause between two relists.
    pub period: Duration,
    /// Its release.
    pub kubelet: Sourced<KubeletVersion>,
}

impl Default for Settings {
    fn default() -> Self {
        let source = "the kubelet's default";
        Self {
            request_timeout: Sourced::new(timing::REQUEST_TIMEOUT, source),
            threshold: Sourced::new(timing::THRESHOLD, source),
            period: timing::PERIOD,
            kubelet: Sourced::new(KubeletVersion::NEWEST, "the newest known"),
        }
    }
}

/// What the runtime answered, call by call.
#[derive(Debug, Default)]
pub struct RuntimeEvidence {
    /// From which silence on a call is called hung.
    pub silence: Scale,
    /// The first call: a socket that cannot be reached fails here, with its own word.
    pub version: Option<Call<Version>>,
    /// Version on the other connection: after a silent one, and beside a pending list.
    pub control: Option<Call<Version>>,
    /// What the runtime says of its own state.
    pub status: Option<Call<RuntimeStatus>>,
    /// All sandboxes.
    pub sandboxes: ListEvidence<Sandbox>,
    /// All containers.
    pub containers: ListEvidence<Container>,
    /// One pair of lists filtered to one pod, as kubelets before 1.36 send for each changed pod.
    pub filtered_pair: Option<Duration>,
    /// Every status call.
    pub asked: Vec<StatusRecord>,
    /// Ids that were not asked, because the budget or the number of silent ones forbade it.
    pub unasked: usize,
    /// How many ids the hunt took from outside the CRI.
    pub outside_ids: usize,
    /// Shims asked through `ContainerStats`.
    pub shims: Vec<StatusRecord>,
}

impl RuntimeEvidence {
    /// Status calls that have been silent for so long that they are called hung.
    pub fn hung(&self) -> impl Iterator<Item = &StatusRecord> {
        self.asked.iter().filter(|record| record.is_silent() && self.silence.hangs(record.duration))
    }

    /// Status calls that were answered late, the slowest first.
    pub fn slow_calls(&self) -> Vec<&StatusRecord> {
        let late = |record: &&StatusRecord| !record.is_silent() && record.duration >= limits::STATUS_SLOW;
        let mut slow: Vec<&StatusRecord> = self.asked.iter().filter(late).collect();
        slow.sort_unstable_by(|one, other| {
            (other.duration, &one.target.id).cmp(&(one.duration, &other.target.id))
        });
        slow
    }

    /// Calls without an answer that are too young to be called hung: those that are open when the run ends, and those that
    /// were given up. The longest first; a moment's silence is none.
    pub fn silent_so_far(&self, interrupted: bool) -> Vec<(Rpc, Option<&Target>, Duration)> {
        fn open<T>(call: Option<&Call<T>>) -> Option<(Rpc, Duration)> {
            match call?.result {
                Err(Error::Silent { rpc, waited }) => Some((rpc, waited)),
                _ => None,
            }
        }
        let single = [
            open(self.version.as_ref()),
            open(self.status.as_ref()),
            open(self.sandboxes.first.as_ref()),
            open(self.containers.first.as_ref()),
        ];
        let single = single.into_iter().flatten().filter(|_| interrupted);
        let records = self.asked.iter().chain(&self.shims);
        let records = records.filter(|record| record.is_silent() && (interrupted || !record.pending));
        let mut silent: Vec<(Rpc, Option<&Target>, Duration)> = single
            .map(|(rpc, waited)| (rpc, None, waited))
            .chain(records.map(|record| (record.rpc, Some(&record.target), record.duration)))
            .filter(|(_, _, waited)| *waited >= limits::SILENT_AT_LEAST && !self.silence.hangs(*waited))
            .collect();
        silent.sort_unstable_by(|one, other| (other.2, one.0, one.1).cmp(&(one.2, other.0, other.1)));
        silent
    }

    /// Status calls for which the run ended too early: not answered, and not silent for long.
    pub fn cut_short(&self) -> impl Iterator<Item = &StatusRecord> {
        self.asked.iter().filter(|record| match record.result {
            Err(Error::Silent { .. }) => !self.silence.hangs(record.duration),
            Err(ref why) => why.is_unread(),
            Ok(_) => false,
        })
    }

    /// The same of Status.
    pub fn status_is_open(&self) -> bool {
        self.status.as_ref().and_then(|call| call.result.as_ref().err()).is_some_and(|why| self.is_open(why))
    }

    /// Whether nobody knows yet what became of a call: it was not silent for long, or is not read to its end.
    fn is_open(&self, why: &Error) -> bool {
        match why {
            Error::Silent { waited, .. } => !self.silence.hangs(*waited),
            why => why.is_unread(),
        }
    }

    /// Lists that have been silent for so long that they are called hung, by name.
    pub fn hung_lists(&self) -> Vec<(Rpc, Duration)> {
        [self.sandboxes.silent(), self.containers.silent()]
            .into_iter()
            .flatten()
            .filter(|(_, waited)| self.silence.hangs(*waited))
            .collect()
    }

    /// Why lists were not read to their end, where the runtime had answered, or was about to.
    pub fn unread_lists(&self) -> impl Iterator<Item = &Error> {
        [self.sandboxes.error(), self.containers.error()].into_iter().flatten().filter(|why| why.is_unread())
    }

    /// Whether this list is called hung.
    pub fn hangs(&self, list: Rpc) -> bool {
        self.hung_lists().iter().any(|(rpc, _)| *rpc == list)
    }

    /// Why a list has no answer, where more waiting would not have changed it.
    pub fn list_errors(&self) -> impl Iterator<Item = &Error> {
        [self.sandboxes.error(), self.containers.error()]
            .into_iter()
            .flatten()
            .filter(|why| !self.is_open(why))
    }

    /// Whether both lists were answered, with a list, an error or a silence that means something.
    pub fn lists_are_known(&self) -> bool {
        let known = |error: Option<&Error>| error.is_none_or(|why| !self.is_open(why));
        self.sandboxes.first.is_some()
            && self.containers.first.is_some()
            && known(self.sandboxes.error())
            && known(self.containers.error())
    }

    /// How long Version has been silent on the first connection and on the second, where both silences are long
    /// enough to be a hang.
    pub fn both_versions_silent(&self) -> Option<(Duration, Duration)> {
        let silent = |call: &Option<Call<Version>>| match call.as_ref()?.result {
            Err(Error::Silent { waited, .. }) if self.silence.hangs(waited) => Some(waited),
            _ => None,
        };
        silent(&self.version).zip(silent(&self.control))
    }

    /// Version answered at least once.
    pub fn version_answer(&self) -> Option<&Version> {
        [&self.version, &self.control].into_iter().flatten().find_map(|call| call.result.as_ref().ok())
    }

    /// Whether a status call, a list or Status itself was answered.
    pub fn anything_but_version_answers(&self) -> bool {
        self.status.as_ref().is_some_and(|call| call.result.is_ok())
            || self.sandboxes.items().is_some()
            || self.containers.items().is_some()
            || self.asked.iter().any(|record| !record.is_silent())
    }

    /// Every pod UID that the lists name.
    pub fn pod_uids(&self) -> BTreeSet<&str> {
        self.sandboxes
            .items()
            .into_iter()
            .flatten()
            .filter_map(|sandbox| sandbox.metadata.as_ref())
            .map(|metadata| metadata.uid.as_str())
            .collect()
    }

    /// How many sandboxes and containers are dead, and how many containers run.
    pub fn population(&self) -> Population {
        let mut found = Population::default();
        for sandbox in self.sandboxes.items().into_iter().flatten() {
            found.sandboxes += 1;
            found.dead_sandboxes += usize::from(sandbox.state == SandboxState::NotReady);
        }
        for container in self.containers.items().into_iter().flatten() {
            found.containers += 1;
            match container.state {
                ContainerState::Exited => found.exited += 1,
                ContainerState::Running => found.running += 1,
                ContainerState::Created | ContainerState::Unknown => {}
            }
        }
        if let Some(shards) = &self.sandboxes.shards {
            found.from_shards = true;
            found.dead_sandboxes += shards.dead;
            found.sandboxes += shards.total;
        }
        if let Some(shards) = &self.containers.shards {
            found.from_shards = true;
            found.exited += shards.dead;
            found.containers += shards.total;
            found.running += shards.total.saturating_sub(shards.dead);
        }
        found
    }
}

/// How many of what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Population {
    /// All sandboxes.
    pub sandboxes: usize,
    /// Those that are not ready.
    pub dead_sandboxes: usize,
    /// All containers.
    pub containers: usize,
    /// Those that have exited.
    pub exited: usize,
    /// Those that run.
    pub running: usize,
    /// The lists were too large and these are sums of smaller ones.
    pub from_shards: bool,
}

impl Population {
    /// Everything dead.
    pub const fn dead(&self) -> usize {
        self.dead_sandboxes + self.exited
    }
}

/// One of the two lists.
#[derive(Debug)]
pub struct ListEvidence<T> {
    /// The list.
    pub first: Option<Call<Vec<T>>>,
    /// The list again, where the first answer was suspicious.
    pub second: Option<Call<Vec<T>>>,
    /// The parts, where the whole was too large.
    pub shards: Option<Shards>,
}

impl<T> Default for ListEvidence<T> {
    fn default() -> Self {
        Self { first: None, second: None, shards: None }
    }
}

impl<T> ListEvidence<T> {
    /// The answer.
    pub fn items(&self) -> Option<&[T]> {
        self.first.as_ref()?.result.as_deref().ok()
    }

    /// The later answer, or the only one.
    pub fn latest(&self) -> Option<&[T]> {
        self.second.as_ref().and_then(|call| call.result.as_deref().ok()).or_else(|| self.items())
    }

    /// Why there is no answer.
    pub fn error(&self) -> Option<&Error> {
        self.first.as_ref()?.result.as_ref().err()
    }

    /// The call and how long it was waited for, if it was not answered.
    pub fn silent(&self) -> Option<(Rpc, Duration)> {
        match self.error()? {
            Error::Silent { rpc, waited } => Some((*rpc, *waited)),
            _ => None,
        }
    }

    /// Whether the call has ended, with an answer or an error of the runtime's.
    pub fn has_ended(&self) -> bool {
        self.first.is_some() && self.silent().is_none()
    }

    /// How long an answered list took.
    pub fn duration(&self) -> Option<Duration> {
        self.items()?;
        self.first.as_ref().map(|call| call.duration)
    }
}

/// A list asked in parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shards {
    /// Parts that were answered.
    pub answered: usize,
    /// Parts that were not, with the reason of the last one.
    pub failed: usize,
    /// Items in them.
    pub total: usize,
    /// Dead ones among them.
    pub dead: usize,
    /// Bytes of all parts.
    pub bytes: u64,
    /// Items by namespace.
    pub by_namespace: BTreeMap<String, usize>,
}

/// Something to ask the status of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// What it is.
    pub kind: Kind,
    /// Its full id.
    pub id: String,
}

impl Target {
    /// Stands for one that is not known any more.
    pub const fn nobody() -> Self {
        Self { kind: Kind::Container, id: String::new() }
    }
}

/// One status call.
#[derive(Clone, Debug)]
pub struct StatusRecord {
    /// What was asked.
    pub target: Target,
    /// The call.
    pub rpc: Rpc,
    /// How long it took.
    pub duration: Duration,
    /// Size of the answer.
    pub response_bytes: u64,
    /// What it came to.
    pub result: Result<StatusFacts, Error>,
    /// Whether nothing else was asked meanwhile.
    pub serial: bool,
    /// Whether it is still under way.
    pub pending: bool,
}

impl StatusRecord {
    /// A call that is under way and has not been answered for so long.
    pub fn silent(target: Target, rpc: Rpc, waited: Duration) -> Self {
        Self {
            target,
            rpc,
            duration: waited,
            response_bytes: 0,
            result: Err(Error::Silent { rpc, waited }),
            serial: false,
            pending: true,
        }
    }

    /// Not answered.
    pub fn is_silent(&self) -> bool {
        matches!(self.result, Err(Error::Silent { .. }))
    }
}

/// What the rules need of a status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusFacts {
    /// The answer had a status in it.
    pub present: bool,
    /// When it was created, if known.
    pub created_at: Option<Wall>,
    /// When the container started, if it has.
    pub started_at: Option<Wall>,
    /// When the container finished, if it has.
    pub finished_at: Option<Wall>,
    /// Its exit code, if it has exited.
    pub exit_code: Option<i32>,
}

/// What the node shows of itself, in one look or two.
#[derive(Debug, Default)]
pub struct HostEvidence {
    /// Whose process table it is.
    pub ownership: Ownership,
    /// When the first look was.
    pub looked_at: Mono,
    /// The first look.
    pub first: ProcSample,
    /// Names of the network plugins that are installed, cut as the kernel cuts them.
    pub network_plugins: BTreeSet<String>,
    /// A second look, and how much later.
    pub second: Option<(Duration, ProcSample)>,
    /// How the daemon's cgroup is held back at the end of the run, and how long after the first look that is.
    pub throttled_at_last: Option<(Duration, Throttled)>,
    /// What the runtime and the kubelet write to.
    pub disks: Vec<WrittenDisk>,
}

/// A file system that somebody needs to write to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenDisk {
    /// The directories on it, and whose they are.
    pub directories: Vec<String>,
    /// How full it is.
    pub disk: Disk,
}

impl HostEvidence {
    /// The part of the time, in percent, in which the daemon was held back by the limit of its own cgroup.
    pub fn held_back_percent(&self) -> Option<f64> {
        let (apart, later) = self.throttled_at_last?;
        let held_back = later.held_back.saturating_sub(self.first.daemon_throttled?.held_back);
        (!apart.is_zero()).then(|| 100.0 * held_back.as_secs_f64() / apart.as_secs_f64())
    }

    /// The later look, or the only one.
    pub fn latest(&self) -> &ProcSample {
        self.second.as_ref().map_or(&self.first, |(_, sample)| sample)
    }
}
