//! The model of `top`: what the relists of the last minutes have shown. It reads no clock and knows no terminal.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use crate::clock::{Mono, Wall};
use crate::cri::{self, Outcome};
use crate::diagnosis::calls::{RelistSettings, hung, list_size, long_relist, troubles};
use crate::diagnosis::forecast::LimitForecast;
use crate::diagnosis::not_ready::after_last_relist;
use crate::diagnosis::report::{HealthFinding, Phase, RuleId, Verdict};
use crate::diagnosis::rules::approaching_limit::findings_of;
use crate::diagnosis::rules::rules_about;
use crate::diagnosis::silence::SilenceLimits;
use crate::diagnosis::{VerdictFacts, Weight, verdict};
use crate::kubelet::{Metrics, timing};
use crate::pleg::relist_calls::RelistCalls;
pub use crate::pleg::relist_calls::SilentCall;
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
    /// Whether the kubelet uses Evented PLEG.
    pub relists_seldom: bool,
    /// When plegctl requested the metrics.
    pub read: Wall,
}

impl KubeletFigures {
    /// Takes the figures from the kubelet's metrics.
    pub fn from_metrics(metrics: &Metrics, read: Wall) -> Self {
        let since_epoch = metrics.last_seen.and_then(|seen| Duration::try_from_secs_f64(seen).ok());
        Self {
            last_seen: since_epoch.filter(|seen| !seen.is_zero()).map(|seen| Wall::default().plus(seen)),
            relists: metrics.relists.zip(metrics.relist_seconds),
            discarded: metrics.discarded,
            relists_seldom: metrics.evented_connections.is_some_and(|connections| connections > 0.0),
            read,
        }
    }

    /// Returns the age that the kubelet's last relist had at the time of the request.
    pub fn age(&self) -> Option<Duration> {
        Some(self.read.duration_since(self.last_seen?))
    }

    /// Returns this age, unless the kubelet relists only every 300 s, so that the metric does not show its last relist.
    pub fn pleg_age(&self) -> Option<Duration> {
        self.age().filter(|_| !self.relists_seldom)
    }
}

/// What happens to the node if a call stays silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// Nothing threatens.
    Calm,
    /// The calls are given up before PLEG is too old.
    StaysReady,
    /// The relist waits for a call and has not visited the pods that come after it.
    Unknown,
    /// The node is `NotReady` at this moment, at the latest; the moment may be over.
    NotReady(Mono),
}

/// The verdict of one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    pub verdict: Verdict,
    /// What a healthy verdict does not include.
    pub scope: &'static str,
    /// The rules that may explain the verdict.
    pub ids: Vec<RuleId>,
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

/// A limit that will be reached.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitAhead {
    pub finding: HealthFinding,
    /// The time until then.
    left: Duration,
}

impl LimitAhead {
    /// Describes the limits that a recorder forecasts, as they read at `now`.
    pub fn of(forecasts: &[LimitForecast], now: Wall) -> Vec<Self> {
        let left = forecasts.iter().map(|forecast| forecast.left(now));
        let findings = findings_of(forecasts, now).into_iter();
        findings.zip(left).map(|(finding, left)| Self { finding, left }).collect()
    }
}

/// What the screen shows.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The node's name.
    pub node: Option<String>,
    /// The runtime: name, version and endpoint.
    pub runtime: String,
    /// How the simulated kubelet relists.
    pub settings: RelistSettings,
    /// What the calls have shown.
    seen: RelistCalls,
    ended_calls: EndedCalls,
    /// The number of finished relists.
    pub finished: u64,
    /// The start of the last relist whose two list calls succeeded.
    pub last_list: Option<Mono>,
    pub pods: u64,
    relists: VecDeque<RelistSample>,
    /// The names of containers by their id.
    names: HashMap<String, String>,
    calls: BTreeMap<String, (PodRef, VecDeque<MinuteOfPod>)>,
    /// The newest entry is the last one.
    pub entries: VecDeque<Entry>,
    entry_count: u64,
    pub kubelet: Option<KubeletFigures>,
    /// The age of the kubelet's last relist, if it is known for this moment.
    pub kubelet_age: Option<Duration>,
    /// The runtime's daemon with its state, if it is stopped while a call has no answer.
    pub stopped_daemon: Option<String>,
    /// The limits that will be reached, by a recorder, the first one first.
    pub limits: Vec<LimitAhead>,
}

impl Model {
    pub fn new(started: Mono, settings: RelistSettings) -> Self {
        Self { settings, seen: RelistCalls::new(started), ..Self::default() }
    }

    /// A relist begins.
    pub fn relist_begins(&mut self, now: Mono) {
        self.seen.relist_begins(now);
        self.ended_calls = EndedCalls::default();
    }

    /// A relist has ended, possibly with this error of a list call. `last_list` is the start of the last relist whose two list
    /// calls succeeded.
    pub fn relist_ended(
        &mut self,
        relist: &Relist,
        last_list: Option<Mono>,
        cause: Option<cri::Error>,
        now: Mono,
    ) {
        let duration = relist.duration_seconds.duration();
        let failed_before = self.seen.failure().map(|failure| failure.text.clone());
        self.seen.relist_ended(relist, cause);
        self.finished = relist.relist;
        self.last_list = last_list;
        self.relists.push_back(RelistSample { ended: now, took: duration });
        let is_old = |sample: &RelistSample| now.since(sample.ended) > WINDOW;
        while self.relists.len() > MAX_RELISTS || self.relists.front().is_some_and(is_old) {
            self.relists.pop_front();
        }
        if let Some(error) = &relist.error {
            if failed_before.as_ref() != Some(error) {
                let text = format!("relist {} failed after {}: {error}", relist.relist, took(duration));
                self.notice(relist.time, Level::Critical, text);
            }
        } else {
            if failed_before.is_some() {
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
        if let (Some(PlegState::NonExistent), Some(id)) = (event.to, &event.id) {
            self.seen.removed(id);
        }
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
        self.seen.call_started(call);
    }

    /// A call has ended.
    pub fn call_finished(&mut self, call: &CallRecord, now: Mono, time: Wall) {
        self.seen.call_finished(call);
        let duration = call.duration_seconds.duration();
        let ended = &mut self.ended_calls;
        ended.count += 1;
        if duration > ended.longest {
            (ended.longest, ended.slowest) = (duration, call.rpc.clone());
        }
        if duration >= SilenceLimits::default().likely {
            let (level, how) = match call.outcome {
                Outcome::Ok => (Level::Good, "was answered"),
                Outcome::Error => (Level::Critical, "failed"),
                Outcome::Silent => (Level::Critical, "was given up"),
            };
            self.notice(time, level, format!("{} {how} after {}", self.about(call), elapsed(duration)));
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
        if let Some(call) = self.silent_calls(Mono::default()).into_iter().find(|call| !call.given_up) {
            let text = format!("{} has not answered for {}", call_and_target(&call), elapsed(waited));
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
        self.seen.open()
    }

    /// Returns the pending call, the calls that the current relist has given up, and the calls that the last relist had
    /// given up and the current relist has not made again so far.
    pub fn silent_calls(&self, now: Mono) -> Vec<SilentCall> {
        let mut calls = self.seen.silent(now);
        for call in &mut calls {
            call.container = self.container(call.id.as_deref());
        }
        calls
    }

    /// Describes an ended call with its pod and container.
    fn about(&self, call: &CallRecord) -> String {
        about(&call.rpc, call.pod.as_ref(), self.container(call.id.as_deref()).as_deref())
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
        let running = self.seen.running().map(|began| (Duration::ZERO, now.since(began)));
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
        now.since(self.last_list.unwrap_or(self.seen.started()))
    }

    /// Returns the first limit that needs a person.
    fn urgent_limit(&self) -> Option<&LimitAhead> {
        self.limits.iter().find(|limit| Weight::of(&limit.finding) == Weight::NeedsPerson)
    }

    /// Returns what decides the verdict: the calls that a watch makes anyway, the state of the daemon while one waits, the
    /// kubelet's own figures, and the limits that will be reached.
    fn facts(&self, now: Mono, is_hung: bool) -> VerdictFacts {
        let facts = VerdictFacts::of_calls(&self.seen, &self.settings, self.last_list, now);
        let stopped = match (&self.stopped_daemon, is_hung) {
            (None, _) => Weight::Nothing,
            (Some(_), false) => Weight::NeedsPerson,
            (Some(_), true) => Weight::MakesUnhealthy,
        };
        let ahead = self.urgent_limit().map(|limit| Weight::of(&limit.finding)).unwrap_or_default();
        VerdictFacts {
            age: facts.age.max(self.kubelet_age),
            found: facts.found.max(stopped).max(ahead),
            ..facts
        }
    }

    /// Judges the moment.
    pub fn judge(&self, now: Mono) -> Judgement {
        let calls = self.silent_calls(now);
        let worst = hung(&calls).max_by_key(|call| call.waited);
        let facts = self.facts(now, worst.is_some());
        let verdict = verdict(&facts);
        let kubelet_is_over = self.kubelet_age.is_some_and(|age| age > self.settings.threshold);
        let outlook = match verdict {
            Verdict::Unhealthy if kubelet_is_over => Outlook::Calm,
            Verdict::Unhealthy => self.not_ready(),
            Verdict::Degraded if worst.is_some() => Outlook::StaysReady,
            Verdict::Unknown if worst.is_some() => Outlook::Unknown,
            Verdict::Healthy | Verdict::Degraded | Verdict::Unknown => Outlook::Calm,
        };
        let scope = match self.kubelet {
            None => "calls only; kubelet not looked at",
            Some(_) => "calls and the kubelet's metrics only",
        };
        let (title, hint) = self.reason(verdict, worst, now);
        Judgement {
            verdict,
            scope,
            ids: self.ids(worst),
            title,
            confidence: worst.map(|call| {
                let by_length = SilenceLimits::default().confidence(call.waited);
                if call.hung_before { Confidence::Certain } else { by_length }
            }),
            outlook,
            hint,
        }
    }

    /// Returns the rules that may explain what the calls show.
    fn ids(&self, worst: Option<&SilentCall>) -> Vec<RuleId> {
        match worst {
            Some(_) if self.stopped_daemon.is_some() => rules_about(&[Phase::Connect], true),
            // Without a Version call, a silent list looks the same as a silent daemon.
            Some(call) if call.pod.is_none() => rules_about(&[Phase::List, Phase::Connect], true),
            Some(_) => rules_about(&[Phase::Status], true),
            None => {
                let error = self.seen.failure().and_then(|failure| failure.error.as_ref());
                let is_unreachable = error.is_some_and(cri::Error::is_unreachable);
                let unreachable =
                    if is_unreachable { rules_about(&[Phase::Connect], false) } else { Vec::new() };
                let ahead = self.urgent_limit().map(|limit| limit.finding.id);
                unreachable.into_iter().chain(ahead).collect()
            }
        }
    }

    /// Returns why the verdict is what it is, and what to do.
    fn reason(&self, verdict: Verdict, worst: Option<&SilentCall>, now: Mono) -> (String, String) {
        let plain = |title| (title, String::new());
        if let Some(call) = worst {
            let silence = if call.given_up { "given up after" } else { "no answer for" };
            let title = format!("{silence} {}: {}", elapsed(call.waited), call_and_target(call));
            return plain(match &self.stopped_daemon {
                Some(stopped) => format!("{stopped}; {title}"),
                None => title,
            });
        }
        if let Some(failure) = self.seen.failure() {
            return plain(format!("relists fail: {}", failure.text));
        }
        if let Some(age) = self.kubelet_age.filter(|age| *age > self.settings.threshold) {
            let hint = "the node is NotReady until the kubelet relists again: plegctl health".to_owned();
            return (format!("the kubelet's last relist is {} old", elapsed(age)), hint);
        }
        if let Some((_, title)) = list_size(&self.seen, &self.settings) {
            return plain(title.to_string());
        }
        if verdict == Verdict::Unhealthy {
            return plain(format!("PLEG was last active {} ago", elapsed(self.age(now))));
        }
        let latency = self.latency(now);
        let running = self.seen.running().map(|began| now.since(began)).filter(|running| *running > LONG);
        if let Some(running) = running {
            // A first relist visits every pod, which may take long on a healthy node.
            let which = if latency.is_none() { "first relist, of all pods," } else { "this relist" };
            let EndedCalls { count, longest, slowest } = &self.ended_calls;
            let (running, most) = (elapsed(running), took(*longest));
            return if *longest > SLOW {
                let title = format!("slow calls, up to {most}; {which} has run for {running}");
                let hint = format!(
                    "{count} answered, slowest {slowest}; NotReady only at {}; see iostat -x 1 5",
                    elapsed(self.settings.threshold)
                );
                (title, hint)
            } else {
                plain(format!("{which} has run for {running}: {count} calls answered, at most {most} each"))
            };
        }
        if let Some((call, is_new)) = troubles(&self.seen).first() {
            let about = self.about(call);
            let took = took(call.duration_seconds.duration());
            let title = match call.outcome {
                Outcome::Error => {
                    format!("{about} failed: {}", call.message.as_deref().unwrap_or_default())
                }
                Outcome::Ok | Outcome::Silent => format!("slow: {about} was answered after {took}"),
            };
            let hint = if *is_new { "" } else { "it has not been made again: plegctl health makes it now" };
            return (title, hint.to_owned());
        }
        if latency.is_none() {
            return plain("waiting for the first relist".to_owned());
        }
        if let Some((took, _)) = long_relist(&self.seen) {
            return plain(format!("a relist of all pods takes {}", elapsed(took)));
        }
        if let Some(limit) = self.urgent_limit() {
            let title = format!("a hard limit is likely reached in about {}", elapsed(limit.left));
            return (title, "what to do before: plegctl health".to_owned());
        }
        let hint = self.failing_container().unwrap_or_else(|| {
            let node = self.node.as_deref().unwrap_or("NODE");
            format!("if the node is NotReady all the same: kubectl describe node {node}")
        });
        ("every call is answered".to_owned(), hint)
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
        Some(format!(
            "{container} failed {count} ({how}): kubectl -n {namespace} logs {pod} -c {container} -p"
        ))
    }

    /// Returns when the node is `NotReady` at the latest if nothing changes.
    fn not_ready(&self) -> Outlook {
        // The kubelet's last relist may have begun one period later than this one.
        let last = self.last_list.unwrap_or(self.seen.started()).plus(timing::PERIOD);
        let status_period = timing::longest_status_period(timing::STATUS_UPDATE_FREQUENCY);
        Outlook::NotReady(last.plus(after_last_relist(self.settings.threshold, status_period)))
    }
}

/// Returns the call with its pod and container: `ContainerStatus of shop/db-0/postgres`.
pub fn call_and_target(call: &SilentCall) -> String {
    about(&call.rpc, call.pod.as_ref(), call.container.as_deref())
}

/// Describes a call.
fn about(rpc: &str, pod: Option<&PodRef>, container: Option<&str>) -> String {
    let mut text = rpc.to_owned();
    if let Some(pod) = pod {
        text.push_str(" of ");
        text.push_str(&pod_name(pod));
    }
    if let Some(container) = container {
        text.push('/');
        text.push_str(container);
    }
    text
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
