//! D03, D04, D05, D30: lists that are too large or too slow, too many dead containers, slow status calls.

use std::time::Duration;

use super::owners::{OwnedPods, largest, owners};
use super::removal::{Removal, is_plain};
use super::{Case, finding, row};
use crate::cri::{Call, Error, Rpc};
use crate::diagnosis::advice::{self, DaemonFamily};
use crate::diagnosis::evidence::{Evidence, ListEvidence, Population, Shards};
use crate::diagnosis::facts::{self, Bytes, Counted, FactKind, Name, Quoted, Share};
use crate::diagnosis::limits;
use crate::diagnosis::report::{Confidence, HealthFinding, RuleId, Severity};
use crate::diagnosis::words::short;
use crate::kubelet::{KubeletLists, ListCallsSource, ListSigns, timing};
use crate::report::{Command, Step};

/// The size of a list.
struct ListSize {
    rpc: Rpc,
    bytes: u64,
    /// The number of items; unknown for a list that was not read to the end.
    items: Option<usize>,
    took: Duration,
}

/// Returns the size of a list that was answered, or that was received in part.
fn list_size<T>(call: Option<&Call<Vec<T>>>) -> Option<ListSize> {
    let call = call?;
    let items = match &call.result {
        Ok(items) => Some(items.len()),
        Err(why) if why.is_unread() => None,
        Err(_) => return None,
    };
    Some(ListSize { rpc: call.rpc, bytes: call.response_bytes, items, took: call.duration })
}

/// The largest message of the kubelet's streamed lists, estimated by the average size of an entry.
struct Batch {
    rpc: Rpc,
    entries: usize,
    bytes: u64,
}

impl Evidence {
    /// Returns how the kubelet lists.
    pub fn kubelet_lists(&self) -> KubeletLists {
        let fallback = self.journal.as_ref().and_then(|journal| journal.list_fallback.as_ref());
        KubeletLists::of(ListSigns {
            release: self.settings.kubelet.value,
            gate: self.kubelet.config.streamed_lists.as_ref(),
            gauge: self.kubelet.latest().and_then(|reading| reading.metrics.streams_lists),
            // A kubelet that was started later begins with streams again.
            logged_fallback: fallback
                .is_some_and(|known| self.kubelet.pid.is_none_or(|running| running == known.pid)),
        })
    }

    /// Whether a list as a whole is larger than the kubelet accepts in one message.
    pub(super) fn has_list_over_limit(&self) -> bool {
        self.over_kubelet_limit().is_some() || self.runtime.errors_of_lists().any(is_too_large)
    }

    /// Whether a list is so large that it matters whether the kubelet receives it in one message.
    pub(in crate::diagnosis) fn has_large_list(&self) -> bool {
        let lists = [size_and_items(&self.runtime.sandboxes), size_and_items(&self.runtime.containers)];
        let is_large = |(bytes, _): (u64, usize)| {
            limits::reaches(bytes, timing::RECEIVE_LIMIT, limits::LIST_SIZE_WARNING_PERCENT)
        };
        self.has_list_over_limit() || lists.into_iter().flatten().any(is_large)
    }

    /// Whether the kubelet may refuse a list because of its size, and this is not certain.
    pub(in crate::diagnosis) fn list_may_be_refused(&self) -> bool {
        let lists = self.kubelet_lists();
        if lists.are_streams() {
            // The messages of a list whose size is not known may be too large.
            let unknown = self.runtime.errors_of_lists().any(is_too_large) && self.batches().count() < 2;
            unknown || self.batches().any(|batch| timing::refused_message(batch.bytes).is_some())
        } else {
            !lists.are_unary() && self.has_list_over_limit()
        }
    }

    /// Returns the largest message of each list whose size is known, if the runtime streams it.
    fn batches(&self) -> impl Iterator<Item = Batch> {
        let runtime = &self.runtime;
        let most = match self.family() {
            DaemonFamily::Crio => limits::CRIO_BATCH,
            DaemonFamily::Containerd | DaemonFamily::Other => limits::CONTAINERD_BATCH,
        };
        let of = move |rpc, (bytes, items): (u64, usize)| {
            let entries = items.min(most);
            let count = |items| u64::try_from(items).unwrap_or(u64::MAX);
            let bytes = bytes.saturating_mul(count(entries)) / count(items.max(1));
            Batch { rpc, entries, bytes }
        };
        let sandboxes = size_and_items(&runtime.sandboxes).map(|size| of(Rpc::StreamPodSandboxes, size));
        let containers = size_and_items(&runtime.containers).map(|size| of(Rpc::StreamContainers, size));
        sandboxes.into_iter().chain(containers)
    }
}

/// Whether a list is refused because of its size.
pub(super) fn is_too_large(error: &Error) -> bool {
    matches!(error, Error::TooLarge { .. })
}

/// Returns the size of a whole list in bytes, and the number of its items.
fn size_and_items<T>(list: &ListEvidence<T>) -> Option<(u64, usize)> {
    let read = list_size(list.first.as_ref()).and_then(|size| Some((size.bytes, size.items?)));
    let in_parts = || {
        let whole = list.shards.as_ref().filter(|shards| !shards.is_incomplete())?;
        Some((whole.bytes, whole.total))
    };
    read.or_else(in_parts)
}

/// Applies D03: a list is close to or above the size that the kubelet accepts. Its limit is for a message: for the whole list,
/// unless the kubelet lists with streams.
pub(super) fn too_large(case: &Case<'_>) -> Option<HealthFinding> {
    let lists = case.evidence.kubelet_lists();
    let why = || Quoted(lists.why());
    if lists.are_streams() {
        let mut found = batch_too_large(case)?;
        found.add_fact(FactKind::KubeletListsBy { streams: Some(true), why: why() });
        return Some(found);
    }
    let mut found = list_too_large(case)?;
    if !lists.are_unary() {
        // What is only close to a limit, which perhaps is no limit here, is no reason to act.
        let is_over = case.evidence.has_list_over_limit();
        found.confidence = if is_over { Confidence::Likely } else { Confidence::Possible };
        found.add_fact(FactKind::KubeletListsBy { streams: None, why: why() });
    } else if lists.source != ListCallsSource::Release {
        found.add_fact(FactKind::KubeletListsBy { streams: Some(false), why: why() });
    }
    Some(found)
}

/// Applies D03 to the messages of a streamed list. Their number of entries is that of the runtime's code, so the finding is
/// not certain.
fn batch_too_large(case: &Case<'_>) -> Option<HealthFinding> {
    let Batch { rpc, entries, bytes } = case.evidence.batches().max_by_key(|batch| batch.bytes)?;
    let (limit, size_bytes) = (timing::RECEIVE_LIMIT, Bytes(bytes));
    let is_over = timing::refused_message(bytes).is_some();
    let (severity, title) = if is_over {
        (Severity::Critical, FactKind::BatchTooLarge { rpc, size_bytes })
    } else if limits::reaches(bytes, limit, limits::LIST_SIZE_WARNING_PERCENT) {
        (Severity::Warning, FactKind::BatchGrowsLarge { rpc })
    } else {
        return None;
    };
    let excess = if is_over { Excess::Unknown } else { Excess::None };
    let mut found = oversized(case, severity, title, excess);
    found.confidence = Confidence::Likely;
    found.rpc = Some(rpc.name().to_owned());
    found.put_fact_first(FactKind::BatchSize { rpc, entries, size_bytes, percent: bytes * 100 / limit });
    Some(found)
}

/// Applies D03 to whole lists: the runtime refuses a list because of its size, or a list is close to or above the size that
/// the kubelet accepts. plegctl's own limit is much higher, so plegctl can read a list that is too large for the kubelet.
fn list_too_large(case: &Case<'_>) -> Option<HealthFinding> {
    let runtime = &case.evidence.runtime;
    let refused = runtime.errors_of_lists().find_map(|error| match error {
        Error::TooLarge { rpc, message } => Some((*rpc, message.clone())),
        _ => None,
    });
    if let Some((rpc, message)) = refused {
        let shards = match rpc {
            Rpc::ListPodSandbox => &runtime.sandboxes.shards,
            _ => &runtime.containers.shards,
        };
        let whole = shards.as_ref().filter(|shards| !shards.is_incomplete());
        let excess = whole.and_then(|shards| shards.bytes.checked_sub(timing::RECEIVE_LIMIT));
        let excess = excess.map_or(Excess::Unknown, Excess::Bytes);
        let mut found = oversized(case, Severity::Critical, FactKind::ListRefused { rpc }, excess);
        found.rpc = Some(rpc.name().to_owned());
        found.put_fact_first(FactKind::CallFailed { error: Quoted(message) });
        return Some(found);
    }
    let sizes = [list_size(runtime.sandboxes.first.as_ref()), list_size(runtime.containers.first.as_ref())];
    let largest = sizes.into_iter().flatten().max_by_key(|size| size.bytes)?;
    let limit = timing::RECEIVE_LIMIT;
    let (severity, title) = judge_size(largest.rpc, largest.bytes, largest.items.is_some())?;
    let excess = largest.bytes.checked_sub(limit).filter(|excess| *excess > 0);
    let excess = excess.map_or(Excess::None, Excess::Bytes);
    let mut found = oversized(case, severity, title, excess);
    found.rpc = Some(largest.rpc.name().to_owned());
    let (percent, received_bytes) = (largest.bytes * 100 / limit, Bytes(largest.bytes));
    let rpc = largest.rpc;
    let Some(items) = largest.items else {
        let after = largest.took.into();
        found.put_fact_first(FactKind::ListReadInPart { rpc, received_bytes, after, percent });
        return Some(found);
    };
    let bytes_each = largest.bytes / u64::try_from(items.max(1)).unwrap_or(u64::MAX);
    let excess_items = largest.bytes.saturating_sub(limit) / bytes_each.max(1);
    let pods = u64::try_from(case.evidence.runtime.pod_uids().len()).unwrap_or(u64::MAX);
    let excess_pods =
        excess_items.saturating_mul(pods).div_ceil(u64::try_from(items.max(1)).unwrap_or(u64::MAX));
    found.put_fact_first(FactKind::ListSize {
        rpc,
        received_bytes,
        items,
        bytes_each,
        percent,
        excess_items,
        excess_pods,
    });
    if bytes_each > 8192 {
        found.add_fact(FactKind::ItemsAreLarge);
    }
    Some(found)
}

/// Judges the size of a list: how severe it is, and the title of D03. `is_whole` says whether the list was read to its end.
pub(crate) fn judge_size(rpc: Rpc, size: u64, is_whole: bool) -> Option<(Severity, FactKind)> {
    let limit = timing::RECEIVE_LIMIT;
    if timing::refused_message(size).is_some() {
        return Some((Severity::Critical, FactKind::ListTooLarge { rpc, size_bytes: Bytes(size), is_whole }));
    }
    if limits::reaches(size, limit, limits::LIST_SIZE_CRITICAL_PERCENT) {
        return Some((Severity::Critical, FactKind::ListAlmostTooLarge { rpc }));
    }
    limits::reaches(size, limit, limits::LIST_SIZE_WARNING_PERCENT)
        .then_some((Severity::Warning, FactKind::ListGrowsLarge { rpc }))
}

/// How far a list is over the kubelet's limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Excess {
    /// It is below the limit.
    None,
    /// It is this many bytes over the limit.
    Bytes(u64),
    /// The runtime refuses it, and its size is not known.
    Unknown,
}

/// Creates a finding D03 with the numbers of dead sandboxes and containers, and what to do.
fn oversized(case: &Case<'_>, severity: Severity, title: FactKind, excess: Excess) -> HealthFinding {
    let runtime = &case.evidence.runtime;
    let mut found = finding(RuleId::LargeList, severity, Confidence::Certain, title);
    let population = runtime.population();
    let uncounted = [&runtime.sandboxes.shards, &runtime.containers.shards]
        .into_iter()
        .flatten()
        .any(Shards::is_incomplete);
    let unread = runtime.unread_lists().next().is_some();
    let all = population.sandboxes + population.containers;
    found.add_fact(if unread && all == 0 {
        FactKind::DeadNotCounted
    } else {
        FactKind::DeadOfAll {
            dead_sandboxes: population.dead_sandboxes,
            sandboxes: population.sandboxes,
            exited_containers: population.exited,
            containers: population.containers,
            counted: match (unread, uncounted, population.from_shards) {
                (true, ..) => Counted::PartRead,
                (_, true, _) => Counted::Partly,
                (_, _, true) => Counted::InSmallerLists,
                _ => Counted::All,
            },
        }
    });
    for (rpc, shards) in
        [(Rpc::ListPodSandbox, &runtime.sandboxes.shards), (Rpc::ListContainers, &runtime.containers.shards)]
    {
        found.add_facts(shards.as_ref().map(|shards| smaller_lists(rpc, shards)));
    }
    let removal = Removal::of(runtime);
    // If nothing could be counted, dead sandboxes and containers are the most likely reason.
    let are_dead = all == 0 || removal.is_possible();
    let owners = owners(runtime, are_dead);
    if !owners.is_empty() {
        found.add_fact(FactKind::MostPods { are_dead, names: largest(&owners) });
    }
    // What to scale down comes before a general sentence, and what to remove after it.
    if !are_dead {
        found.add_facts(removal.facts());
    }
    found.add_fact(FactKind::GarbageCollectionListsToo);
    if are_dead {
        found.add_facts(removal.facts());
        found.steps = removal.of_dead();
        found.steps.extend(remove_many(case, &removal, &owners));
        if all == 0 {
            let pods = Command::limited(60, "crictl --timeout {}s pods --state notready");
            found.add_step(Step::look("which sandboxes are dead").with(pods));
            let exited = Command::limited(60, "crictl --timeout {}s ps -a --state exited");
            found.add_step(Step::look("which containers have exited").with(exited));
        }
        found.steps.extend(limit_history(owners.first()));
    }
    let is_enough = match excess {
        Excess::None => are_dead,
        Excess::Bytes(excess) => removal.dead_bytes() >= excess,
        Excess::Unknown => all == 0 || population.dead() * 10 >= all,
    };
    if !is_enough {
        let excess = match excess {
            Excess::None => None,
            Excess::Bytes(excess) => Some(excess),
            Excess::Unknown => Some(1),
        };
        found.steps.extend(removal.of_living(case, excess));
    }
    found
}

/// Returns the step that removes many dead sandboxes, one after the other, if crictl can list them.
fn remove_many(case: &Case<'_>, removal: &Removal<'_>, owners: &[OwnedPods]) -> Option<Step> {
    let list = case.evidence.runtime.sandboxes.first.as_ref()?;
    let is_listed = list.result.is_ok() && list.response_bytes <= timing::RECEIVE_LIMIT;
    let owner = owners.first().filter(|_| is_listed && removal.further_sandboxes() > 0)?;
    let prefix = owner.name.rsplit('/').next()?.trim_end_matches('*');
    let (name, namespace) = (&owner.name, &owner.namespace);
    (is_plain(prefix) && is_plain(namespace)).then(|| {
        let remove = Command::new(
            "crictl --timeout 60s pods --state notready --namespace {} --name {} -q | head -200 \
             | xargs -r -n 1 crictl --timeout 60s rmp",
        );
        let remove = remove.arg(format!("^{namespace}$")).arg(format!("^{prefix}"));
        Step::change(format!("or faster: 200 dead pods of {name}, one after the other")).with(remove)
    })
}

/// The step that keeps finished pods from piling up.
const LIMIT_HISTORY: &str = "there, set ttlSecondsAfterFinished and the CronJob's history limits";

/// Returns the steps that keep dead pods from coming again.
fn limit_history(owner: Option<&OwnedPods>) -> Vec<Step> {
    let Some(OwnedPods { name, namespace, .. }) = owner.filter(|owner| is_plain(&owner.namespace)) else {
        let text = "find the Job or CronJob that leaves them; set ttlSecondsAfterFinished and history limits";
        return vec![Step::look(text)];
    };
    let find = Command::limited(30, "kubectl --request-timeout={}s -n {} get cronjobs,jobs").arg(namespace);
    vec![Step::look(format!("find what creates {name}")).with(find), Step::look(LIMIT_HISTORY)]
}

/// Returns the steps against dead pods: find what creates most of them, then delete those that are there.
fn against_dead_pods(case: &Case<'_>) -> Vec<Step> {
    let owners = owners(&case.evidence.runtime, true);
    let mut steps = limit_history(owners.first());
    let node = &case.evidence.node;
    steps.extend(owners.first().filter(|owner| is_plain(&owner.namespace)).map(|owner| {
        let namespace = &owner.namespace;
        let node = if is_plain(node) { node } else { "NODE" };
        let delete = Command::new(
            "kubectl -n {} delete pods --field-selector status.phase=Succeeded,spec.nodeName={} --wait=false",
        );
        Step::change(format!("delete all Succeeded pods of {namespace} on this node, with their logs"))
            .with(delete.arg(namespace).arg(node))
    }));
    steps
}

/// Describes a list that was fetched in parts, with the namespaces that have the most items.
fn smaller_lists(rpc: Rpc, shards: &Shards) -> FactKind {
    let mut top: Vec<_> = shards.by_namespace.iter().collect();
    top.sort_by(|one, other| other.1.cmp(one.1).then(one.0.cmp(other.0)));
    let share = |(namespace, count): (&String, &usize)| Share { name: Name::from(namespace), count: *count };
    FactKind::SmallerLists {
        rpc,
        items: shards.total,
        size_bytes: Bytes(shards.bytes),
        most_in: top.into_iter().take(3).map(share).collect(),
        too_large_in: shards.too_large_in.iter().take(3).map(Name::from).collect(),
        failed: shards.failed,
    }
}

/// Applies D04. It reports a leak only if the number grew during the run.
pub(super) fn backlog(case: &Case<'_>) -> Option<HealthFinding> {
    let runtime = &case.evidence.runtime;
    let population = runtime.population();
    let dead = population.dead();
    let ratio = population.exited > limits::DEAD_PER_RUNNING * population.running.max(1)
        && dead >= limits::DEAD_RATIO_FLOOR;
    if dead <= limits::DEAD_BACKLOG && !ratio {
        return None;
    }
    let slowest = runtime.sandboxes.duration().max(runtime.containers.duration());
    let slow = slowest.is_some_and(|slowest| slowest > limits::LIST_SLOW);
    let confidence =
        if slow || dead > limits::DEAD_BACKLOG { Confidence::Likely } else { Confidence::Possible };
    let mut found =
        finding(RuleId::DeadContainers, Severity::Warning, confidence, FactKind::DeadAreKept { dead });
    let Population { exited, running, dead_sandboxes, .. } = population;
    found.add_fact(FactKind::DeadAndRunning { exited, running, dead_sandboxes });
    found.add_facts(slowest.map(|slowest| FactKind::SlowerList { took: slowest.into() }));
    if let (Some(before), Some(after)) = (runtime.containers.items(), runtime.containers.second.as_ref())
        && let Ok(after) = &after.result
        && after.len() > before.len()
    {
        found.add_fact(FactKind::ListGrew { containers: after.len() - before.len() });
    }
    let owners = owners(runtime, true);
    if !owners.is_empty() {
        found.add_fact(FactKind::MostPods { are_dead: true, names: largest(&owners) });
    }
    found.add_facts(stays_below(case));
    found.steps = against_dead_pods(case);
    Some(found)
}

/// Applies D05. If each call is slow, the finding does not blame the number of pods. If each status call is quick, the
/// number of pods is blamed only for the time of these calls: slow lists are D30.
pub(super) fn slow_pass(case: &Case<'_>) -> Option<HealthFinding> {
    let estimate = &case.estimate;
    let Some(lists) = estimate.lists else { return late_answers(case) };
    let pass = estimate.full_answering;
    // A few slow calls among many quick ones do not make each call slow.
    let is_slow = |took: Option<Duration>, limit| took.is_some_and(|took| took > limit);
    let slow_calls =
        is_slow(estimate.p99, limits::CALL_SLOW) && is_slow(estimate.per_call, limits::CALL_SLOW / 2);
    let explained = estimate.late + if slow_calls { Duration::ZERO } else { lists };
    if pass.saturating_sub(explained) < limits::RELIST_SLOW {
        return late_answers(case);
    }
    let severity = if pass >= limits::RELIST_VERY_SLOW { Severity::Critical } else { Severity::Warning };
    let pods = case.evidence.runtime.pod_uids().len();
    let (each, full) = (estimate.per_call.unwrap_or_default().into(), pass.into());
    let (dead, all) = {
        let population = case.evidence.runtime.population();
        (population.dead_sandboxes, population.sandboxes)
    };
    // After a restart, the kubelet makes status calls for dead pods too.
    let are_dead = dead * 2 > all;
    let title = if slow_calls {
        FactKind::StatusCallsSlow { each, relist: estimate.serial.into(), full }
    } else {
        FactKind::RelistSlow { pods, most_are_dead: are_dead, full }
    };
    let mut found = finding(RuleId::SlowStatuses, severity, Confidence::Likely, title);
    let (changed, takes) = (estimate.changed_pods, estimate.serial.into());
    found.add_fact(FactKind::RelistNow { pods, changed, takes });
    found.add_fact(FactKind::StatusCallTimes { each, p99: estimate.p99.unwrap_or_default().into() });
    found.add_fact(if slow_calls { FactKind::EachCallIsSlow } else { FactKind::MostCallsAreQuick });
    if are_dead {
        let names = largest(&owners(&case.evidence.runtime, true));
        found.add_fact(FactKind::MostPods { are_dead, names });
    }
    found.add_facts(stays_below(case));
    found.add_fact(FactKind::AllPodsAfterRestart);
    if slow_calls {
        found.add_step(advice::node_pressure("find out why each call is slow (storage, memory, CPU)"));
        found.add_step(Step::look("nothing has to be restarted or deleted for this: the runtime answers"));
    } else if are_dead {
        found.steps = against_dead_pods(case);
    } else {
        found.add_step(Step::look("spread rollouts and Jobs; fewer pods on this node"));
    }
    Some(found)
}

/// Says that PLEG stays healthy, if the estimate is that the age of PLEG stays below the threshold.
fn stays_below(case: &Case<'_>) -> Option<FactKind> {
    let estimate = &case.estimate;
    let is_known = case.estimate_is_known() && estimate.lists.is_some() && !estimate.would_trip;
    let threshold = case.evidence.settings.threshold.value.into();
    is_known.then(|| FactKind::AgeStaysBelow { peak: estimate.peak_age.map(Into::into), threshold })
}

/// Applies D05 to single calls whose late answers delay the events of their pods.
fn late_answers(case: &Case<'_>) -> Option<HealthFinding> {
    let mut lost = super::state::lost_exits(case.evidence);
    lost.extend(super::state::slow_pods_of(case.evidence, &lost));
    let mut slow = case.evidence.slow_calls();
    slow.retain(|record| !lost.iter().any(|lost| lost.target == record.target));
    let slowest = slow.first()?;
    let of = case.evidence.names.item(&slowest.target.id);
    let call = facts::Call { rpc: slowest.rpc, of: Some(of) };
    let title = FactKind::StatusSlow { call, others: slow.len() - 1, took: slowest.duration.into() };
    let mut found = case.about(
        finding(RuleId::SlowStatuses, Severity::Warning, case.confidence_in_answers(), title),
        Some(&slowest.target.id),
    );
    found.rpc = Some(slowest.rpc.name().to_owned());
    found.ids = slow.iter().map(|record| record.target.id.clone()).collect();
    found.add_facts(slow.iter().take(5).map(|record| FactKind::StatusAnsweredLate {
        rpc: record.rpc,
        of: case.evidence.names.item(&record.target.id),
        took: record.duration.into(),
    }));
    let calls = case.evidence.runtime.status_calls.len() - slow.len();
    found.add_fact(FactKind::OtherCallsQuicker { calls, than: limits::STATUS_SLOW.into() });
    let estimate = &case.estimate;
    let takes = estimate.serial.into();
    if estimate.serial >= slowest.duration {
        found.add_fact(FactKind::RelistWithSlowCalls { takes });
        found.add_facts(stays_below(case));
    } else {
        found.add_fact(FactKind::RelistWithoutSlowCalls { takes });
        let threshold = case.evidence.settings.threshold.value;
        if estimate.lists.is_some() && estimate.hung_calls == 0 && estimate.full < threshold / 2 {
            let full = estimate.full.into();
            found.add_fact(FactKind::FullRelistStaysBelow { full, threshold: threshold.into() });
        }
    }
    found.add_step(Step::look("the runtime answers, so nothing has to be restarted or deleted"));
    let find = Command::new("pgrep -af {}").arg(short(&slowest.target.id));
    found.add_step(Step::look("whether a runc or crun still works on it (no output: none)").with(find));
    found.add_step(advice::node_pressure("look at storage, memory and CPU of the node"));
    found.add_step(advice::until_slow());
    Some(found)
}

/// Applies D30: a list is slow, and no other finding explains it.
pub(super) fn slow_lists(case: &Case<'_>, findings: &[HealthFinding]) -> Option<HealthFinding> {
    let runtime = &case.evidence.runtime;
    let took = [
        (Rpc::ListPodSandbox, runtime.sandboxes.duration()),
        (Rpc::ListContainers, runtime.containers.duration()),
    ];
    let slowest = took.into_iter().filter_map(|(rpc, took)| Some((took?, rpc))).max();
    let (took, rpc) = slowest.filter(|(took, _)| *took > limits::LIST_SLOW)?;
    let explained = findings
        .iter()
        .any(|found| found.confidence != Confidence::Possible && row(found.id).traits.explains_slow_list);
    if explained {
        return None;
    }
    let severity = if took >= limits::LIST_VERY_SLOW { Severity::Critical } else { Severity::Warning };
    let title = FactKind::ListSlow { rpc, took: took.into() };
    let mut found = finding(RuleId::SlowLists, severity, Confidence::Certain, title);
    found.rpc = Some(rpc.name().to_owned());
    let again = [
        runtime.sandboxes.second.as_ref().map(|call| call.duration),
        runtime.containers.second.as_ref().map(|call| call.duration),
    ];
    let again = again.into_iter().flatten().max();
    found.add_fact(FactKind::ListAnsweredLate { rpc, took: took.into() });
    found.add_facts(again.map(|again| FactKind::ListRepeated {
        took: again.into(),
        is_recovered: again <= limits::LIST_SLOW,
    }));
    let others = runtime.status_calls.iter().map(|record| record.duration);
    found.add_facts(others.max().map(|longest| FactKind::LongestStatusCall { took: longest.into() }));
    found.add_step(advice::node_pressure("look at storage, memory and CPU of the node"));
    found.add_step(advice::until_slow());
    Some(found)
}
