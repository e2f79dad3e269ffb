//! D03: a list is too large for gRPC.

use super::list_size::{Batch, limit_history, list_size};
use super::owners::{OwnedPods, largest, owners};
use super::removal::{Removal, is_plain};
use super::{Case, finding};
use crate::cri::{Error, Rpc};
use crate::diagnosis::evidence::Shards;
use crate::diagnosis::facts::{Bytes, Counted, FactKind, Name, Quoted, Share};
use crate::diagnosis::limits;
use crate::diagnosis::report::{Confidence, HealthFinding, RuleId, Severity};
use crate::kubelet::{ListCallsSource, timing};
use crate::report::{Command, Step};

/// Applies D03: a list is close to or above the size that the kubelet accepts. Its limit is for a message: for the whole list,
/// unless the kubelet lists with streams.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
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
