//! The model of `top`: what the relists of the last minutes have shown. It reads no clock and knows no terminal.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use crate::clock::{Mono, Wall};
use crate::cri::Outcome;
use crate::diagnosis::not_ready::after_last_relist;
use crate::diagnosis::report::Verdict;
use crate::diagnosis::silence::SilenceLimits;
use crate::kubelet::{Metrics, timing};
use crate::pleg::stream::{Event, EventSubject, EventType, Relist};
use crate::pleg::{CallRecord, OpenCall, PlegState, PodRef};
use crate::report::duration::{elapsed, took};
use crate::report::{Confidence, plural};

/// The time that the latency chart and the slowest pods cover.
pub const WINDOW: Duration = Duration::from_secs(300);

/// The calls of a pod are summed up for each minute, and forgotten by the minute.
const MINUTE: Duration = Duration::from_secs(60);

/// The number of relists that are kept, if the period is very short.
const MAX_RELISTS: usize = 20_000;

/// The number of transitions that are kept.
const MAX_ENTRIES: usize = 1000;

/// The number of container names that are kept.
const MAX_NAMES: usize = 100_000;

/// A relist that takes longer than this is slow.
const SLOW: Duration = Duration::from_secs(1);

/// A running relist that takes longer than this is reported while it runs.
const LONG: Duration = Duration::from_secs(5);

/// One finished relist.
#[derive(Clone, Copy, Debug)]
struct RelistSample {
    ended: Mono,
    took: Duration,
}

/// The latency of the relists in [`WINDOW`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    pub last: Duration,
    pub p50: Duration,
    pub p99: Duration,
    pub max: Duration,
}

/// A call that is pending, or that was given up in the current or the last relist.
#[derive(Clone, Debug, PartialEq)]
pub struct SilentCall {
    pub rpc: String,
    pub id: Option<String>,
    pub pod: Option<PodRef>,
    /// The container's name, if a relist has shown it.
    pub container: Option<String>,
    pub waited: Duration,
    /// Whether the call was given up.
    pub given_up: bool,
}

/// The slowest call of a pod in [`WINDOW`].
#[derive(Clone, Debug, PartialEq)]
pub struct SlowPod {
    pub pod: PodRef,
    pub rpc: String,
    pub id: Option<String>,
    pub container: Option<String>,
    pub took: Duration,
    /// The number of calls for the pod.
    pub calls: u64,
}

/// The calls for one pod in one minute.
#[derive(Clone, Debug)]
struct MinuteOfPod {
    minute: u64,
    rpc: String,
    id: Option<String>,
    took: Duration,
    calls: u64,
}

/// The severity of a notice, which decides its color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Good,
    Warning,
    Critical,
}

/// A line of the list of transitions.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryKind {
    /// A container or sandbox changed its state.
    Event(Event),
    /// Something else happened: a call became silent, a relist failed.
    Notice(Level, String),
}

/// An entry of the list of transitions, with a number that no other entry has.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub number: u64,
    pub time: Wall,
    pub kind: EntryKind,
}

/// The kubelet's own figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KubeletFigures {
    /// The time of the kubelet's last relist.
    pub last_seen: Option<Wall>,
    /// The number of relists since the kubelet's start, and their total time in seconds.
    pub relists: Option<(f64, f64)>,
    /// The number of discarded events.
    pub discarded: Option<f64>,
    /// When plegctl requested the metrics.
    pub read: Wall,
}

impl KubeletFigures {
    /// Takes the figures from the kubelet's metrics.
    pub fn of(metrics: &Metrics, read: Wall) -> Self {
        let since_epoch = metrics.last_seen.and_then(|seen| Duration::try_from_secs_f64(seen).ok());
        Self {
            last_seen: since_epoch.filter(|seen| !seen.is_zero()).map(|seen| Wall::default().plus(seen)),
            relists: metrics.relists.zip(metrics.relist_seconds),
            discarded: metrics.discarded,
            read,
        }
    }

    /// Returns the age that the kubelet's last relist had at the time of the request.
    pub fn age(&self) -> Option<Duration> {
        Some(self.read.duration_since(self.last_seen?))
    }
}

/// What happens to the node if a call stays silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// Nothing threatens.
    Calm,
    /// The calls are given up before PLEG is too old.
    StaysReady,
    /// The node is `NotReady` at this moment, at the latest; the moment may be over.
    NotReady(Mono),
}

/// The verdict of one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    pub verdict: Verdict,
    /// The ids that `explain` knows, one of which fits.
    pub ids: &'static [&'static str],
    pub title: String,
    pub confidence: Option<Confidence>,
    pub outlook: Outlook,
    /// What to do; empty if the outlook says what matters.
    pub hint: String,
}

/// The calls that have ended in the running relist.
#[derive(Clone, Debug, Default)]
struct EndedCalls {
    count: u64,
    /// The duration of the slowest call.
    longest: Duration,
    /// The RPC of the slowest call.
    slowest: String,
}

/// What the screen shows.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The node's name.
    pub node: Option<String>,
    /// The runtime: name, version and endpoint.
    pub runtime: String,
    /// The age at which PLEG is not healthy.
    pub threshold: Duration,
    /// The time after which a call is given up.
    pub timeout: Duration,
    /// The start of the watch.
    started: Mono,
    /// The start of the running relist.
    pub relisting: Option<Mono>,
    ended_calls: EndedCalls,
    /// The number of finished relists.
    pub finished: u64,
    /// The start of the last relist whose two list calls succeeded.
    pub last_list: Option<Mono>,
    pub pods: u64,
    /// The call that has no answer yet.
    open: Option<OpenCall>,
    /// The calls of the current relist that were given up.
    given_up: Vec<SilentCall>,
    /// The calls of the last relist that were given up.
    given_up_before: Vec<SilentCall>,
    /// Why the last relist failed, and whether the runtime could not be reached.
    failure: Option<(String, bool)>,
    relists: VecDeque<RelistSample>,
    /// The names of containers by their id.
    names: HashMap<String, String>,
    calls: BTreeMap<String, (PodRef, VecDeque<MinuteOfPod>)>,
    /// The newest entry is the last one.
    pub entries: VecDeque<Entry>,
    entry_count: u64,
    pub kubelet: Option<KubeletFigures>,
    /// The runtime's daemon with its state, if it is stopped while a call has no answer.
    pub stopped_daemon: Option<String>,
}

impl Model {
    pub fn new(started: Mono, threshold: Duration, timeout: Duration) -> Self {
        Self { threshold, timeout, started, ..Self::default() }
    }

    /// A relist begins.
    pub fn relist_begins(&mut self, now: Mono) {
        self.relisting = Some(now);
        self.ended_calls = EndedCalls::default();
        self.given_up_before = std::mem::take(&mut self.given_up);
    }

    /// A relist has ended. `last_list` is the start of the last relist whose two list calls succeeded.
    pub fn relist_ended(&mut self, relist: &Relist, last_list: Option<Mono>, unreachable: bool, now: Mono) {
        let duration = relist.duration_seconds.duration();
        self.relisting = None;
        self.finished = relist.relist;
        self.last_list = last_list;
        self.relists.push_back(RelistSample { ended: now, took: duration });
        let is_old = |sample: &RelistSample| now.since(sample.ended) > WINDOW;
        while self.relists.len() > MAX_RELISTS || self.relists.front().is_some_and(is_old) {
            self.relists.pop_front();
        }
        self.given_up_before.clear();
        if let Some(error) = &relist.error {
            if self.failure.as_ref().is_none_or(|(known, _)| known != error) {
                let text = format!("relist {} failed after {}: {error}", relist.relist, took(duration));
                self.notice(relist.time, Level::Critical, text);
            }
            self.failure = Some((error.clone(), unreachable));
        } else {
            if self.failure.take().is_some() {
                let text = format!("relist {} succeeded in {}", relist.relist, took(duration));
                self.notice(relist.time, Level::Good, text);
            }
            self.pods = relist.pods;
        }
        // The first relist finds everything new, so its events say nothing about the node.
        if relist.interval_seconds.is_none() && relist.error.is_none() {
            let text = format!(
                "first relist in {}: {} pods, {} containers",
                took(duration),
                relist.pods,
                relist.containers
            );
            self.notice(relist.time, Level::Good, text);
        } else if duration > SLOW && relist.error.is_none() {
            self.notice(
                relist.time,
                Level::Warning,
                format!("relist {} took {}", relist.relist, took(duration)),
            );
        }
    }

    /// The engine has emitted an event.
    pub fn event(&mut self, event: Event) {
        if let (EventSubject::Container, Some(id), Some(name)) = (event.subject, &event.id, &event.name)
            && !name.is_empty()
        {
            if event.to == Some(PlegState::NonExistent) {
                self.names.remove(id);
            } else if self.names.len() < MAX_NAMES {
                self.names.insert(id.clone(), name.clone());
            }
        }
        if !event.initial && event.event_type != EventType::PodSync {
            self.entry(event.time, EntryKind::Event(event));
        }
    }

    /// A call starts.
    pub fn call_started(&mut self, call: &OpenCall) {
        self.open = Some(call.clone());
    }

    /// A call has ended.
    pub fn call_finished(&mut self, call: &CallRecord, now: Mono, time: Wall) {
        self.open = None;
        let duration = call.duration_seconds.duration();
        let ended = &mut self.ended_calls;
        ended.count += 1;
        if duration > ended.longest {
            (ended.longest, ended.slowest) = (duration, call.rpc.clone());
        }
        let silent = SilentCall {
            rpc: call.rpc.clone(),
            id: call.id.clone(),
            pod: call.pod.clone(),
            container: self.container(call.id.as_deref()),
            waited: duration,
            given_up: true,
        };
        if duration >= SilenceLimits::default().likely {
            let (level, how) = match call.outcome {
                Outcome::Ok => (Level::Good, "was answered"),
                Outcome::Error => (Level::Critical, "failed"),
                Outcome::Silent => (Level::Critical, "was given up"),
            };
            self.notice(time, level, format!("{} {how} after {}", silent.about(), elapsed(duration)));
        }
        self.given_up_before.retain(|known| (&known.rpc, &known.id) != (&silent.rpc, &silent.id));
        if call.outcome == Outcome::Silent {
            self.given_up.push(silent);
        }
        let Some(pod) = &call.pod else { return };
        let minute = minute_of(now);
        let (_, minutes) =
            self.calls.entry(pod.uid.clone()).or_insert_with(|| (pod.clone(), VecDeque::new()));
        let sample =
            MinuteOfPod { minute, rpc: call.rpc.clone(), id: call.id.clone(), took: duration, calls: 1 };
        match minutes.back_mut().filter(|last| last.minute == minute) {
            Some(last) if last.took < duration => *last = MinuteOfPod { calls: last.calls + 1, ..sample },
            Some(last) => last.calls += 1,
            None => minutes.push_back(sample),
        }
    }

    /// The pending call has been silent for `waited`.
    pub fn silence(&mut self, time: Wall, waited: Duration) {
        if let Some(call) = self.pending(Mono::default().plus(Duration::MAX)) {
            let text = format!("{} has not answered for {}", call.about(), elapsed(waited));
            self.notice(time, Level::Critical, text);
        }
    }

    /// Forgets the calls that are older than [`WINDOW`], in whole minutes.
    pub fn forget_old(&mut self, now: Mono) {
        let oldest = minute_of(now).saturating_sub(WINDOW.as_secs() / MINUTE.as_secs());
        self.calls.retain(|_, (_, minutes)| {
            minutes.retain(|minute| minute.minute > oldest || oldest == 0);
            !minutes.is_empty()
        });
    }

    /// Adds a line to the list of transitions.
    pub fn notice(&mut self, time: Wall, level: Level, text: String) {
        self.entry(time, EntryKind::Notice(level, text));
    }

    fn entry(&mut self, time: Wall, kind: EntryKind) {
        self.entry_count += 1;
        // A relist's events come after its end was seen, with the time at which they happened. Only a clock that was set
        // makes a large difference.
        let is_newer = |entry: &&Entry| entry.time > time && entry.time.duration_since(time) <= MINUTE;
        let newer = self.entries.iter().rev().take_while(is_newer).count();
        let at = self.entries.len().saturating_sub(newer);
        self.entries.insert(at, Entry { number: self.entry_count, time, kind });
        if self.entries.len() > MAX_ENTRIES {
            self.entries.pop_front();
        }
    }

    fn container(&self, id: Option<&str>) -> Option<String> {
        self.names.get(id?).cloned()
    }

    /// Returns the call of the engine that has no answer yet.
    pub const fn open(&self) -> Option<&OpenCall> {
        self.open.as_ref()
    }

    fn pending(&self, now: Mono) -> Option<SilentCall> {
        let open = self.open.as_ref()?;
        Some(SilentCall {
            rpc: open.rpc.name().to_owned(),
            id: open.id.clone(),
            pod: open.pod.clone(),
            container: self.container(open.id.as_deref()),
            waited: now.since(open.started),
            given_up: false,
        })
    }

    /// Returns the pending call, the calls that the current relist has given up, and the calls that the last relist had
    /// given up and the current relist has not made again so far.
    pub fn silent_calls(&self, now: Mono) -> Vec<SilentCall> {
        let mut calls: Vec<SilentCall> = self.pending(now).into_iter().collect();
        for call in self.given_up.iter().chain(&self.given_up_before) {
            if calls.iter().all(|known| (&known.rpc, &known.id) != (&call.rpc, &call.id)) {
                calls.push(call.clone());
            }
        }
        calls
    }

    /// Returns the pods whose calls took longest in [`WINDOW`], the slowest first.
    pub fn slow_pods(&self) -> Vec<SlowPod> {
        let mut pods: Vec<SlowPod> = self
            .calls
            .values()
            .filter_map(|(pod, minutes)| {
                let worst = minutes.iter().max_by_key(|minute| minute.took)?;
                Some(SlowPod {
                    pod: pod.clone(),
                    rpc: worst.rpc.clone(),
                    id: worst.id.clone(),
                    container: self.container(worst.id.as_deref()),
                    took: worst.took,
                    calls: minutes.iter().map(|minute| minute.calls).sum(),
                })
            })
            .collect();
        pods.sort_by(|one, other| other.took.cmp(&one.took).then_with(|| one.pod.uid.cmp(&other.pod.uid)));
        pods
    }

    /// Returns the latency of the relists in [`WINDOW`].
    pub fn latency(&self, now: Mono) -> Option<Latency> {
        let in_window = self.relists.iter().filter(|sample| now.since(sample.ended) <= WINDOW);
        let mut sorted: Vec<Duration> = in_window.map(|sample| sample.took).collect();
        sorted.sort();
        let rank = |percent: usize| sorted.get((sorted.len() * percent).div_ceil(100).max(1) - 1).copied();
        Some(Latency {
            last: self.relists.back()?.took,
            p50: rank(50)?,
            p99: rank(99)?,
            max: *sorted.last()?,
        })
    }

    /// Returns the longest relist of each of `columns` parts of [`WINDOW`], the oldest part first. The running relist
    /// counts in the last part; a part without relists is `None`.
    pub fn chart(&self, columns: usize, now: Mono) -> Vec<Option<Duration>> {
        let mut parts = vec![None; columns];
        let running = self.relisting.map(|began| (Duration::ZERO, now.since(began)));
        let ended = self.relists.iter().map(|sample| (now.since(sample.ended), sample.took));
        for (age, took) in ended.chain(running) {
            let back = scaled(age, WINDOW, columns);
            let place = columns.checked_sub(back + 1).and_then(|index| parts.get_mut(index));
            if let Some(part) = place {
                *part = (*part).max(Some(took));
            }
        }
        parts
    }

    /// Returns the age of PLEG as the kubelet computes it: since the start of the last relist whose lists both
    /// succeeded, or since the start of the watch.
    pub fn age(&self, now: Mono) -> Duration {
        now.since(self.last_list.unwrap_or(self.started))
    }

    /// Judges the moment, from the calls that a watch makes anyway.
    pub fn judge(&self, now: Mono) -> Judgement {
        let limits = SilenceLimits::default();
        let calls = self.silent_calls(now);
        let worst = calls.iter().find(|call| call.given_up || limits.hangs(call.waited));
        let age = self.age(now);
        let outlook = self.outlook(&calls, now);
        let verdict = match outlook {
            Outlook::Calm | Outlook::StaysReady => Verdict::Degraded,
            Outlook::NotReady(_) => Verdict::Unhealthy,
        };
        let plain = |verdict, title| Judgement {
            verdict,
            ids: &[],
            title,
            confidence: None,
            outlook,
            hint: String::new(),
        };
        if let Some(call) = worst {
            let silence = if call.given_up { "given up after" } else { "no answer for" };
            let title = format!("{silence} {}: {}", elapsed(call.waited), call.about());
            // Without a Version call, a silent list looks the same as a silent daemon.
            let ids: &[_] = if call.pod.is_none() { &["D02", "D07"] } else { &["D01"] };
            let confidence = Some(limits.confidence(call.waited));
            if let Some(stopped) = &self.stopped_daemon {
                let title = format!("{stopped}; {title}");
                return Judgement { ids: &["D07"], confidence, ..plain(verdict, title) };
            }
            return Judgement { ids, confidence, ..plain(verdict, title) };
        }
        if let Some((error, unreachable)) = &self.failure {
            let ids: &[_] = if *unreachable { &["D06"] } else { &[] };
            return Judgement { ids, ..plain(Verdict::Unhealthy, format!("relists fail: {error}")) };
        }
        if let Outlook::NotReady(_) = outlook {
            return plain(Verdict::Unhealthy, format!("PLEG was last active {} ago", elapsed(age)));
        }
        let latency = self.latency(now);
        let running = self.relisting.map(|began| now.since(began)).filter(|running| *running > LONG);
        if let Some(running) = running {
            let EndedCalls { count, longest, slowest } = &self.ended_calls;
            let (verdict, which) = match latency {
                // A first relist visits every pod, which may take long on a healthy node.
                None => (Verdict::Unknown, "first relist, of all pods,"),
                Some(_) => (Verdict::Degraded, "this relist"),
            };
            let (running, most) = (elapsed(running), took(*longest));
            return if *longest > SLOW {
                let title = format!("slow calls, up to {most}; {which} has run for {running}");
                let hint = format!(
                    "{count} answered, slowest {slowest}; NotReady only at {}; see iostat -x 1 5",
                    elapsed(self.threshold)
                );
                Judgement { hint, ..plain(Verdict::Degraded, title) }
            } else {
                let title =
                    format!("{which} has run for {running}: {count} calls answered, at most {most} each");
                plain(verdict, title)
            };
        }
        match latency {
            None => plain(Verdict::Unknown, "waiting for the first relist".to_owned()),
            Some(latency) if latency.last > SLOW => plain(
                Verdict::Degraded,
                format!("relists are slow: the last one took {}", took(latency.last)),
            ),
            Some(latency) => Judgement {
                hint: self.failing_container().unwrap_or_else(|| {
                    let node = self.node.as_deref().unwrap_or("NODE");
                    format!("if the node is NotReady all the same: kubectl describe node {node}")
                }),
                ..plain(
                    Verdict::Healthy,
                    format!(
                        "the runtime answers every call; plegctl's last relist took {}",
                        took(latency.last)
                    ),
                )
            },
        }
    }

    /// Names the container that ended with an error most often on this screen, and the command for its log.
    fn failing_container(&self) -> Option<String> {
        let mut failures: BTreeMap<(&str, &str, &str), (usize, String)> = BTreeMap::new();
        for entry in &self.entries {
            let EntryKind::Event(Event { pod, name: Some(container), exit_code: Some(code), reason, .. }) =
                &entry.kind
            else {
                continue;
            };
            if *code != 0 {
                let (count, how) = failures.entry((&pod.namespace, &pod.name, container)).or_default();
                *count += 1;
                let reason = reason.as_deref().map(|reason| format!(" {reason}")).unwrap_or_default();
                *how = format!("{code}{reason}");
            }
        }
        let ((namespace, pod, container), (count, how)) =
            failures.into_iter().max_by_key(|(_, (count, _))| *count)?;
        let count = plural(count, "time");
        Some(format!("{how}, {count}: kubectl -n {namespace} logs {pod} -c {container} -p"))
    }

    /// Estimates what happens if the silent calls stay silent.
    fn outlook(&self, calls: &[SilentCall], now: Mono) -> Outlook {
        let age = self.age(now);
        // The kubelet's last relist may have begun one period later than this one.
        let last = self.last_list.unwrap_or(self.started).plus(timing::PERIOD);
        let status_period = timing::longest_status_period(timing::STATUS_UPDATE_FREQUENCY);
        let not_ready = Outlook::NotReady(last.plus(after_last_relist(self.threshold, status_period)));
        if age >= self.threshold {
            return not_ready;
        }
        let hangs = |call: &&SilentCall| call.given_up || SilenceLimits::default().hangs(call.waited);
        let Some(call) = calls.iter().find(hangs) else {
            return if self.failure.is_some() { not_ready } else { Outlook::Calm };
        };
        // While a list call is silent, no relist succeeds.
        if call.pod.is_none() {
            return not_ready;
        }
        // A relist makes its status calls one after the other, and waits for each silent one until its time-out.
        let hung = u32::try_from(calls.iter().filter(hangs).count()).unwrap_or(u32::MAX);
        let rest = self.timeout.saturating_sub(if call.given_up { Duration::ZERO } else { call.waited });
        if self.timeout.saturating_mul(hung) >= self.threshold
            || (!call.given_up && age + rest >= self.threshold)
        {
            not_ready
        } else {
            Outlook::StaysReady
        }
    }
}

impl SilentCall {
    /// Returns the call with its pod and container: `ContainerStatus of shop/db-0/postgres`.
    pub fn about(&self) -> String {
        let mut text = self.rpc.clone();
        if let Some(pod) = &self.pod {
            text.push_str(" of ");
            text.push_str(&pod_name(pod));
        }
        if let Some(container) = &self.container {
            text.push('/');
            text.push_str(container);
        }
        text
    }
}

/// Returns `namespace/name`; if the name is not known, the UID.
pub fn pod_name(pod: &PodRef) -> String {
    if pod.name.is_empty() { pod.uid.clone() } else { format!("{}/{}", pod.namespace, pod.name) }
}

fn minute_of(now: Mono) -> u64 {
    now.since(Mono::default()).as_secs() / MINUTE.as_secs()
}

/// Scales a part of `whole` to a number of columns.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a column"
)]
pub fn scaled(part: Duration, whole: Duration, columns: usize) -> usize {
    (part.as_secs_f64() / whole.as_secs_f64().max(1e-9) * columns as f64) as usize
}
