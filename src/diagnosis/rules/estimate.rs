//! Estimates how long the kubelet's serial relist would take now, and whether it exceeds the kubelet's
//! threshold.
//!
//! The kubelet makes one call after the other, so durations of parallel calls mean nothing here: the cost of
//! a status call comes from samples that were made one at a time. A hung call costs the kubelet's own
//! time-out, whatever the time-out of this run.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::clock::Wall;
use crate::cri::{Rpc, label};
use crate::diagnosis::evidence::{Evidence, Settings, StatusRecord};
use crate::diagnosis::limits;
use crate::diagnosis::names::ItemKind;
use crate::diagnosis::report::{Basis, EstimateReport};
use crate::diagnosis::words::seconds;
use crate::kubelet::{Era, timing};

/// The estimate, before it becomes part of the report.
#[derive(Clone, Debug, Default)]
pub struct Estimate {
    /// The duration of both list calls, if both were answered.
    pub lists: Option<Duration>,
    /// Calls that time out in one relist.
    pub hung_calls: usize,
    /// Pods that changed within the last minute.
    pub changed_pods: usize,
    /// The duration of a relist now.
    pub serial: Duration,
    /// The duration of a relist that visits every pod.
    pub full: Duration,
    /// The duration of a relist that visits every pod, without the hung calls.
    pub full_answering: Duration,
    /// The highest age of PLEG before the next relist has its lists; `None` if the age grows without end.
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
    /// The different verdict for a kubelet of another era.
    pub other_era: Option<String>,
}

/// Computes the estimate from the evidence.
pub fn estimate(evidence: &Evidence) -> Estimate {
    let measured = Measured::of(evidence);
    let mut estimate = measured.for_era(evidence.settings.kubelet.value.era());
    let other = [Era::A, Era::B, Era::C]
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
    no_relist: bool,
    hung: BTreeSet<Cow<'a, str>>,
    /// The duration of the status calls for the pods that changed, and the number of these pods.
    now: (Duration, usize),
    /// The duration of the status calls for all pods that do not hang, and the number of these pods.
    all: (Duration, usize),
    cost: CallCost,
    late: Duration,
}

impl<'a> Measured<'a> {
    fn of(evidence: &'a Evidence) -> Self {
        let runtime = &evidence.runtime;
        let no_relist = runtime.list_errors().next().is_some() || evidence.over_kubelet_limit().is_some();
        // A relist whose lists fail ends there and makes no status calls.
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
        let well: Vec<&Cow<'_, str>> = calls.keys().filter(|pod| !hung.contains(*pod)).collect();
        let all = well.iter().map(|pod| visit(pod)).sum();
        let late = slow.values().map(|(took, ..)| *took).sum();
        Self { evidence, no_relist, hung, now: (now, changed.len()), all: (all, well.len()), cost, late }
    }

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
        let fetches = if era.reinspects_in_a_second_round() { 2 } else { 1 };
        let hung_calls = self.hung.len() * fetches;
        // Kubelets of some eras make two more list calls for each pod that they visit.
        let relists = era.lists_again_for_status().then_some(runtime.filtered_pair).flatten();
        let visits = |(calls, pods): (Duration, usize)| calls + times(relists.unwrap_or_default(), pods);
        let hung_time = times(settings.request_timeout.value, hung_calls);
        let all = visits(self.all);
        let status_time = if no_relist { Duration::ZERO } else { hung_time + visits(self.now) };
        let peak_age = lists_time + status_time + settings.period + lists_time;
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
            // Lists that alone exceed the threshold keep the age above it all the time.
            flaps: would_trip && !no_relist && lists_time <= threshold,
            per_call: self.cost.typical,
            samples: self.cost.samples,
            late: self.late,
            p99: p99(&runtime.status_calls),
            other_era: None,
        }
    }
}

impl Evidence {
    /// Returns the list whose answer is larger than the kubelet accepts, with its size.
    pub fn over_kubelet_limit(&self) -> Option<(crate::cri::Rpc, u64)> {
        let sizes = [
            self.runtime.sandboxes.first.as_ref().map(|call| (call.rpc, call.response_bytes)),
            self.runtime.containers.first.as_ref().map(|call| (call.rpc, call.response_bytes)),
        ];
        sizes.into_iter().flatten().find(|(_, bytes)| *bytes > timing::RECEIVE_LIMIT)
    }
}

/// Returns the UIDs of the pods with a hung status call. An id without a known pod counts as a pod of its
/// own.
fn hung_pods(evidence: &Evidence) -> BTreeSet<Cow<'_, str>> {
    evidence.runtime.hung().map(|record| pod_key(evidence, &record.target.id)).collect()
}

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

/// Returns, by pod, the answered calls that are much slower than the median: their total duration, and how
/// many concern sandboxes and containers. Such a call is counted with its own duration, because the median of
/// quick calls says nothing about it.
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

/// The cost of one status call without parallel calls.
struct CallCost {
    sandbox: Duration,
    container: Duration,
    typical: Option<Duration>,
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
            // Without a serial sample, the quickest parallel call is the closest figure: parallel calls slow
            // each other down.
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

/// Returns the median, so that a single late answer does not count for every call.
fn median(durations: impl Iterator<Item = Duration>) -> Option<Duration> {
    let mut all: Vec<Duration> = durations.collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied()
}

fn p99(calls: &[StatusRecord]) -> Option<Duration> {
    let mut answered: Vec<Duration> =
        calls.iter().filter(|record| !record.is_silent()).map(|record| record.duration).collect();
    answered.sort_unstable();
    let at = (answered.len() * 99).div_ceil(100).saturating_sub(1);
    answered.get(at).copied()
}

fn times(duration: Duration, count: usize) -> Duration {
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
        let mut rests_on = vec![
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
            rests_on.push(basis("one status call", seconds(per_call), &source));
        }
        EstimateReport {
            serial_relist_seconds: self.serial.as_secs_f64(),
            full_relist_seconds: self.full.as_secs_f64(),
            hung_calls: self.hung_calls,
            changed_pods: self.changed_pods,
            request_timeout_seconds: settings.request_timeout.value.as_secs_f64(),
            threshold_seconds: settings.threshold.value.as_secs_f64(),
            peak_age_seconds: self.peak_age.map(|age| age.as_secs_f64()),
            would_trip: self.would_trip,
            flaps: self.flaps,
            basis: rests_on,
            other_era: self.other_era.clone(),
        }
    }
}
