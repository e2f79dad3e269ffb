//! D03: a list is too large for gRPC.

use super::list_size::{
    Batch, Refusal, is_over, largest_message, limit_history, list_size, percent_of_limit,
};
use super::owners::{OwnedPods, largest, owners};
use super::prelude::*;
use super::removal::{Removal, is_plain};
use crate::diagnosis::evidence::Shards;
use crate::diagnosis::facts::{Counted, Name, Share};
use crate::kubelet::{ListCallsSource, ListLimit, timing};

/// Applies D03: a list is close to or above the size that the kubelet accepts. Its limit is for a message: for the whole list,
/// unless the kubelet lists with streams.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let evidence = case.evidence;
    let lists = evidence.kubelet_lists();
    let (mut found, streams) = match lists.limit() {
        ListLimit::Message => (message_too_large(case)?, Some(true)),
        ListLimit::List | ListLimit::FallenBack => (list_too_large(case)?, Some(false)),
        // A message that is too large is too large as a part of a whole list too.
        ListLimit::NotKnown if evidence.refusal() == Refusal::Certain => (message_too_large(case)?, None),
        ListLimit::NotKnown if evidence.refusal() == Refusal::Possible => {
            (HealthFinding { confidence: Confidence::Likely, ..list_too_large(case)? }, None)
        }
        ListLimit::NotKnown if largest_message(&evidence.runtime).is_some() => {
            (message_too_large(case)?, None)
        }
        // What is only close to a limit, which perhaps is no limit here, is no reason to act.
        ListLimit::NotKnown => {
            (HealthFinding { confidence: Confidence::Possible, ..list_too_large(case)? }, None)
        }
    };
    if streams != Some(false) || lists.source != ListCallsSource::Release {
        found.add_fact(FactKind::KubeletListsBy { streams, why: Quoted(lists.reason()) });
    }
    // With streams, the same list fits: nothing has to be removed.
    found.steps.splice(..0, stream_again(case).into_iter().flatten());
    Some(found)
}

/// Returns the step that lets the kubelet list with streams again, if it fell back and the messages of a stream are small enough.
pub(super) fn stream_again(case: &Case<'_>) -> Option<Vec<Step>> {
    let evidence = case.evidence;
    let probe = evidence.stream_probe.filter(|_| evidence.fallback_matters())?;
    (!is_over(probe.answer.largest_message_bytes)).then(|| evidence.steps("streamAgain", &[]))
}

/// Applies D03 to the messages of a streamed list: to the largest one that was measured, otherwise to an estimate.
fn message_too_large(case: &Case<'_>) -> Option<HealthFinding> {
    let runtime = &case.evidence.runtime;
    if let Some((rpc, message)) = runtime.refused_list().filter(|(rpc, _)| rpc.is_streamed_list()) {
        return Some(refused(case, rpc, message));
    }
    if runtime.streamed_lists().next().is_none() {
        return batch_too_large(case);
    }
    let (severity, title, rpc, StreamedAnswer { entries, largest_message_bytes }) = largest_message(runtime)?;
    let excess = if is_over(largest_message_bytes) { Excess::Unknown } else { Excess::None };
    let mut found = oversized(case, severity, title, excess);
    found.rpc = Some(rpc.name().to_owned());
    let (size_bytes, percent) = (Bytes(largest_message_bytes), percent_of_limit(largest_message_bytes));
    found.put_fact_first(FactKind::MessageSize { rpc, entries, size_bytes, percent });
    Some(found)
}

/// Applies D03 to the messages of a streamed list. Their number of entries is that of the runtime's code, so the finding is
/// not certain.
fn batch_too_large(case: &Case<'_>) -> Option<HealthFinding> {
    let Batch { rpc, entries, bytes } = case.evidence.batches().max_by_key(|batch| batch.bytes)?;
    let size_bytes = Bytes(bytes);
    let (severity, title) = if is_over(bytes) {
        (Severity::Critical, FactKind::BatchTooLarge { rpc, size_bytes })
    } else if limits::reaches(bytes, timing::RECEIVE_LIMIT, limits::LIST_SIZE_WARNING_PERCENT) {
        (Severity::Warning, FactKind::BatchGrowsLarge { rpc })
    } else {
        return None;
    };
    let excess = if is_over(bytes) { Excess::Unknown } else { Excess::None };
    let mut found = oversized(case, severity, title, excess);
    found.confidence = Confidence::Likely;
    found.rpc = Some(rpc.name().to_owned());
    found.put_fact_first(FactKind::BatchSize { rpc, entries, size_bytes, percent: percent_of_limit(bytes) });
    Some(found)
}

/// Applies D03 to whole lists: the runtime refuses a list because of its size, or a list is close to or above the size that
/// the kubelet accepts. plegctl's own limit is much higher, so plegctl can read a list that is too large for the kubelet.
fn list_too_large(case: &Case<'_>) -> Option<HealthFinding> {
    let runtime = &case.evidence.runtime;
    if let Some((rpc, message)) = runtime.refused_list() {
        return Some(refused(case, rpc, message));
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

/// Makes the finding about a list that the runtime refused because of its size, or because of that of a message.
fn refused(case: &Case<'_>, rpc: Rpc, message: String) -> HealthFinding {
    let runtime = &case.evidence.runtime;
    let shards = match rpc.unary() {
        Rpc::ListPodSandbox => &runtime.sandboxes.shards,
        _ => &runtime.containers.shards,
    };
    let whole = shards.as_ref().filter(|shards| !shards.is_incomplete() && !rpc.is_streamed_list());
    let excess = whole.and_then(|shards| shards.bytes.checked_sub(timing::RECEIVE_LIMIT));
    let excess = excess.map_or(Excess::Unknown, Excess::Bytes);
    let mut found = oversized(case, Severity::Critical, FactKind::ListRefused { rpc }, excess);
    found.rpc = Some(rpc.name().to_owned());
    found.put_fact_first(FactKind::CallFailed { error: Quoted(message) });
    found
}

/// Judges the size of a message of a streamed list: how severe it is, and the title of D03.
pub fn judge_message(rpc: Rpc, size: u64) -> Option<(Severity, FactKind)> {
    let (severity, _) = judge_size(rpc, size, true)?;
    let size_bytes = Bytes(size);
    Some((
        severity,
        match severity {
            _ if is_over(size) => FactKind::MessageTooLarge { rpc, size_bytes },
            Severity::Critical => FactKind::ListAlmostTooLarge { rpc },
            _ => FactKind::BatchGrowsLarge { rpc },
        },
    ))
}

/// Judges the size of a list: how severe it is, and the title of D03. `is_whole` says whether the list was read to its end.
pub fn judge_size(rpc: Rpc, size: u64, is_whole: bool) -> Option<(Severity, FactKind)> {
    let limit = timing::RECEIVE_LIMIT;
    if is_over(size) {
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
    let [sandboxes, containers] = runtime.list_rpcs();
    for (rpc, shards) in [(sandboxes, &runtime.sandboxes.shards), (containers, &runtime.containers.shards)] {
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
        found.steps.extend(remove_many(case, &removal, &owners).into_iter().flatten());
        if all == 0 {
            found.steps.extend(steps_of("deadItems", &[]));
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
fn remove_many(case: &Case<'_>, removal: &Removal<'_>, owners: &[OwnedPods]) -> Option<Vec<Step>> {
    let list = case.evidence.runtime.sandboxes.first.as_ref()?;
    let is_listed = list.result.is_ok() && list.response_bytes <= timing::RECEIVE_LIMIT;
    let owner = owners.first().filter(|_| is_listed && removal.further_sandboxes() > 0)?;
    let prefix = owner.name.rsplit('/').next()?.trim_end_matches('*');
    let of_names = ("names", Place::word(format!("^{prefix}")));
    let of_namespaces = ("namespaces", Place::word(format!("^{}$", owner.namespace)));
    let places = [owner.places(), [of_names, of_namespaces]].concat();
    (is_plain(prefix) && is_plain(&owner.namespace)).then(|| steps_of("removeMany", &places))
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
