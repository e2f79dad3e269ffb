//! Estimates how long the kubelet's relist would take now, and whether the age of PLEG would exceed the threshold.
//!
//! The kubelet makes one call after the other. So the estimate uses the durations of status calls that plegctl made one at a
//! time, not of parallel calls. For a hung call it uses the kubelet's time-out.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::list_size::{Refusal, is_too_large};
use crate::clock::Wall;
use crate::cri::{Rpc, label};
use crate::diagnosis::evidence::{Evidence, Settings, StatusRecord};
use crate::diagnosis::limits;
use crate::diagnosis::names::ItemKind;
use crate::diagnosis::report::{Basis, EstimateReport};
use crate::diagnosis::words::seconds;
use crate::kubelet::Era;

/// The estimate, before it becomes part of the report.
#[derive(Clone, Debug, Default)]
pub struct Estimate {
    /// The duration of both list calls, if both were answered.
    pub lists: Option<Duration>,
    /// The number of calls that time out in one relist.
    pub hung_calls: usize,
    /// The number of pods that changed within the last minute.
    pub changed_pods: usize,
    /// The duration of a relist now.
    pub serial: Duration,
    /// The duration of a relist that visits every pod.
    pub full: Duration,
    /// The duration of a relist that visits every pod, without the hung calls.
    pub full_answering: Duration,
    /// The highest age that PLEG reaches before the lists of the next relist are answered; `None` if no relist succeeds, so
    /// that the age grows without end.
    pub peak_age: Option<Duration>,
    /// Whether the peak age exceeds the threshold.
    pub would_trip: bool,
    /// Whether PLEG becomes healthy again between two relists.
    pub flaps: bool,
    /// The median duration of the serial samples.
    pub per_call: Option<Duration>,
    /// The number of serial samples.
    pub samples: usize,
    /// The total duration of the calls that are much slower than the median.
    pub late: Duration,
    /// The 99th percentile of all answered status calls.
    pub p99: Option<Duration>,
    /// A note if the result of `would_trip` is different for a kubelet of another era.
    pub other_era: Option<String>,
}

/// Computes the estimate from the evidence.
pub fn estimate(evidence: &Evidence) -> Estimate {
    let measured = Measured::of(evidence);
    let mut estimate = measured.for_era(evidence.settings.kubelet.value.era());
    let other = [Era::TwoRounds, Era::OneRound, Era::OnDemand]
        .into_iter()
        .map(|era| (era, measured.for_era(era)))
        .find(|(_, other)| other.would_trip != estimate.would_trip);
    estimate.other_era = other.map(|(era, other)| {
        let then = if other.would_trip { "would trip" } else { "would not trip" };
        format!("with a kubelet {era} the threshold {then}: the age would peak at {}", other.peak_text())
    });
    estimate
}

/// The figures that do not depend on the kubelet's era.
struct Measured<'a> {
    evidence: &'a Evidence,
    /// Whether no relist succeeds, because a list fails or is too large for the kubelet.
    no_relist: bool,
    /// The pods with a hung status call.
    hung: BTreeSet<Cow<'a, str>>,
    /// The duration of the status calls for the pods that changed, and the number of these pods.
    now: (Duration, usize),
    /// The duration of the status calls for all pods that do not hang, and the number of these pods.
    all: (Duration, usize),
    cost: CallCost,
    /// The total duration of the calls that are much slower than the median.
    late: Duration,
}

impl<'a> Measured<'a> {
    fn of(evidence: &'a Evidence) -> Self {
        let runtime = &evidence.runtime;
        // If the kubelet may list with streams, the size of a list alone does not make a relist fail.
        let no_relist =
            runtime.list_errors().any(|error| !is_too_large(error)) || evidence.refusal() == Refusal::Certain;
        // A relist whose lists fail makes no status calls.
        let hung = if no_relist { BTreeSet::new() } else { hung_pods(evidence) };
        let changed = changed_pods(evidence, &hung);
        let calls = calls_by_pod(evidence);
        let cost = CallCost::of(&runtime.status_calls);
        let slow = slow_by_pod(evidence, &cost);
        let visit = |pod: &Cow<'_, str>| {
            let (of_sandboxes, of_containers) = calls.get(pod).copied().unwrap_or_default();
            let (late, slow_sandboxes, slow_containers) = slow.get(pod).copied().unwrap_or_default();
            times(cost.sandbox, of_sandboxes.saturating_sub(slow_sandboxes))
                + times(cost.container, of_containers.saturating_sub(slow_containers))
                + late
        };
        let now = changed.iter().map(visit).sum();
        let not_hung: Vec<&Cow<'_, str>> = calls.keys().filter(|pod| !hung.contains(*pod)).collect();
        let all = not_hung.iter().map(|pod| visit(pod)).sum();
        let late = slow.values().map(|(took, ..)| *took).sum();
        Self { evidence, no_relist, hung, now: (now, changed.len()), all: (all, not_hung.len()), cost, late }
    }

    /// Computes the estimate for kubelets of one era.
    fn for_era(&self, era: Era) -> Estimate {
        let runtime = &self.evidence.runtime;
        let settings = &self.evidence.settings;
        let no_relist = self.no_relist;
        let list = |answered: Option<Duration>, hung: bool| {
            answered.or_else(|| hung.then_some(settings.request_timeout.value))
        };
        let first_hangs = runtime.hangs(Rpc::ListPodSandbox);
        let sandboxes = list(runtime.sandboxes.duration(), first_hangs);
        let containers =
            list(runtime.containers.duration(), runtime.hangs(Rpc::ListContainers) && !first_hangs);
        let lists_time = sandboxes.unwrap_or_default() + containers.unwrap_or_default();
        let answered = runtime.sandboxes.duration().zip(runtime.containers.duration());
        let hung_calls = hung_calls(era, self.hung.len());
        // Kubelets of some eras make two more list calls for each pod for which they make status calls.
        let filtered_lists = era.lists_again_for_status().then_some(runtime.filtered_pair).flatten();
        let visits =
            |(calls, pods): (Duration, usize)| calls + times(filtered_lists.unwrap_or_default(), pods);
        let hung_time = times(settings.request_timeout.value, hung_calls);
        let all = visits(self.all);
        let status_time = if no_relist { Duration::ZERO } else { hung_time + visits(self.now) };
        let peak_age = peak_age(lists_time, status_time, settings.period);
        let threshold = settings.threshold.value;
        let would_trip = no_relist || peak_age > threshold;
        Estimate {
            lists: answered.map(|(first, second)| first + second),
            hung_calls: hung_calls + usize::from(!runtime.hung_lists().is_empty()),
            changed_pods: self.now.1 + self.hung.len(),
            serial: lists_time + status_time,
            full: lists_time + hung_time + all,
            full_answering: lists_time + all,
            peak_age: (!no_relist).then_some(peak_age),
            would_trip,
            // If the lists alone take longer than the threshold, PLEG never becomes healthy again.
            flaps: would_trip && !no_relist && lists_time <= threshold,
            per_call: self.cost.typical,
            samples: self.cost.samples,
            late: self.late,
            p99: p99(&runtime.status_calls),
            other_era: None,
        }
    }
}

/// Returns the keys of the pods with a hung status call.
fn hung_pods(evidence: &Evidence) -> BTreeSet<Cow<'_, str>> {
    evidence.runtime.hung().map(|record| pod_key(evidence, &record.target.id)).collect()
}

/// Returns a key for the pod of an id: the pod's UID, otherwise its name. An id without a known pod counts as a pod.
fn pod_key<'a>(evidence: &Evidence, id: &'a str) -> Cow<'a, str> {
    match evidence.names.pod(id) {
        None => Cow::Borrowed(id),
        Some(pod) if pod.uid.is_empty() => Cow::Owned(pod.to_string()),
        Some(pod) => Cow::Owned(pod.uid),
    }
}

/// Returns the pods with a sandbox or container that was created or finished within the last minute.
fn changed_pods<'a>(evidence: &'a Evidence, hung: &BTreeSet<Cow<'_, str>>) -> BTreeSet<Cow<'a, str>> {
    let now = evidence.taken_at;
    let recent = |at: Option<Wall>| at.is_some_and(|at| now.duration_since(at) <= limits::CHURN_WINDOW);
    let runtime = &evidence.runtime;
    let listed_sandboxes = runtime.sandboxes.items().into_iter().flatten();
    let listed_containers = runtime.containers.items().into_iter().flatten();
    let sandboxes = listed_sandboxes.map(|sandbox| (&sandbox.id, Wall::known(sandbox.created_at)));
    let containers = listed_containers.map(|container| (&container.id, Wall::known(container.created_at)));
    let finished = runtime.status_calls.iter().filter_map(|record| {
        let facts = record.result.as_ref().ok()?;
        Some((&record.target.id, facts.finished_at))
    });
    sandboxes
        .chain(containers)
        .chain(finished)
        .filter(|(_, at)| recent(*at))
        .map(|(id, _)| pod_key(evidence, id))
        .filter(|pod| !hung.contains(pod))
        .collect()
}

/// Returns the number of sandboxes and containers of each pod.
fn calls_by_pod(evidence: &Evidence) -> BTreeMap<Cow<'_, str>, (usize, usize)> {
    let mut calls: BTreeMap<Cow<'_, str>, (usize, usize)> = BTreeMap::new();
    for sandbox in evidence.runtime.sandboxes.items().into_iter().flatten() {
        calls.entry(pod_key(evidence, &sandbox.id)).or_default().0 += 1;
    }
    for container in evidence.runtime.containers.items().into_iter().flatten() {
        let pod = container
            .labels
            .get(label::POD_UID)
            .map_or_else(|| pod_key(evidence, &container.id), Cow::Borrowed);
        calls.entry(pod).or_default().1 += 1;
    }
    calls
}

/// Returns for each pod the answered calls that are much slower than the median: their total duration, and the numbers of
/// sandboxes and containers. The estimate uses the durations of these calls, not the median.
fn slow_by_pod<'a>(
    evidence: &'a Evidence,
    cost: &CallCost,
) -> BTreeMap<Cow<'a, str>, (Duration, usize, usize)> {
    let typical = cost.typical.unwrap_or_default();
    let mut slow: BTreeMap<Cow<'a, str>, (Duration, usize, usize)> = BTreeMap::new();
    for record in evidence.runtime.slow_calls() {
        if record.duration >= typical * limits::OUTLIER_FACTOR {
            let (took, sandboxes, containers) = slow.entry(pod_key(evidence, &record.target.id)).or_default();
            *took += record.duration;
            match record.target.kind {
                ItemKind::Sandbox => *sandboxes += 1,
                ItemKind::Container => *containers += 1,
            }
        }
    }
    slow
}

/// The typical duration of one status call while no other call is pending.
struct CallCost {
    /// The median for sandboxes.
    sandbox: Duration,
    /// The median for containers.
    container: Duration,
    /// The median for both.
    typical: Option<Duration>,
    /// The number of calls that were made one at a time.
    samples: usize,
}

impl CallCost {
    fn of(calls: &[StatusRecord]) -> Self {
        let serial = |kind: Option<ItemKind>| {
            let wanted = calls
                .iter()
                .filter(|record| record.serial && kind.is_none_or(|kind| record.target.kind == kind));
            median(wanted.map(|record| record.duration))
        };
        let any = serial(None).or_else(|| {
            // Without a serial sample, the quickest parallel call is the best estimate, because parallel calls slow each
            // other down.
            calls.iter().filter(|record| !record.is_silent()).map(|record| record.duration).min()
        });
        Self {
            sandbox: serial(Some(ItemKind::Sandbox)).or(any).unwrap_or_default(),
            container: serial(Some(ItemKind::Container)).or(any).unwrap_or_default(),
            typical: any,
            samples: calls.iter().filter(|record| record.serial).count(),
        }
    }
}

/// Returns the median. Unlike the mean, it does not depend on a single late answer.
fn median(durations: impl Iterator<Item = Duration>) -> Option<Duration> {
    let mut all: Vec<Duration> = durations.collect();
    all.sort();
    all.get(all.len() / 2).copied()
}

/// Returns the 99th percentile of the durations of the answered calls.
fn p99(calls: &[StatusRecord]) -> Option<Duration> {
    let mut answered: Vec<Duration> =
        calls.iter().filter(|record| !record.is_silent()).map(|record| record.duration).collect();
    answered.sort();
    let at = (answered.len() * 99).div_ceil(100).saturating_sub(1);
    answered.get(at).copied()
}

/// Returns how many calls reach the kubelet's time-out in one relist, if this many pods have one that hangs.
pub const fn hung_calls(era: Era, pods: usize) -> usize {
    if era.reinspects_in_a_second_round() { pods * 2 } else { pods }
}

/// Returns the highest age that PLEG reaches: its last relist began before its lists were listed and its pods visited, and
/// the next one counts when its lists are answered.
pub fn peak_age(lists: Duration, statuses: Duration, period: Duration) -> Duration {
    lists + statuses + period + lists
}

/// Returns the duration of this many calls in a row.
pub fn times(duration: Duration, count: usize) -> Duration {
    duration.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
}

impl Estimate {
    /// Formats the peak age.
    pub fn peak_text(&self) -> String {
        self.peak_age.map_or_else(|| "no end".to_owned(), seconds)
    }

    /// Converts the estimate for the report.
    pub fn report(&self, settings: &Settings) -> EstimateReport {
        let basis = |what: &str, value: String, source: &str| Basis {
            what: what.to_owned(),
            value,
            source: source.to_owned(),
        };
        let mut all_basis = vec![
            basis("kubelet release", settings.kubelet.value.to_string(), &settings.kubelet.source),
            basis(
                "time-out of one call",
                seconds(settings.request_timeout.value),
                &settings.request_timeout.source,
            ),
            basis("threshold", seconds(settings.threshold.value), &settings.threshold.source),
        ];
        if let Some(per_call) = self.per_call {
            let source = if self.samples > 0 {
                format!("median of {} calls made one at a time", self.samples)
            } else {
                "the fastest of the parallel calls".to_owned()
            };
            all_basis.push(basis("one status call", seconds(per_call), &source));
        }
        EstimateReport {
            serial_relist_seconds: Some(self.serial.as_secs_f64()),
            full_relist_seconds: Some(self.full.as_secs_f64()),
            hung_calls: self.hung_calls,
            changed_pods: self.changed_pods,
            request_timeout_seconds: settings.request_timeout.value.as_secs_f64(),
            threshold_seconds: settings.threshold.value.as_secs_f64(),
            peak_age_seconds: self.peak_age.map(|age| age.as_secs_f64()),
            would_trip: self.would_trip,
            flaps: self.flaps,
            // The time depends on the verdict, which `judge` decides.
            not_ready_at: None,
            not_ready_since: None,
            basis: all_basis,
            other_era: self.other_era.clone(),
        }
    }
}
