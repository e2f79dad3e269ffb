//! Lists what the evidence lacks, with the reasons: calls that were not made, that have no outcome, that failed inside
//! plegctl, or that a capture does not contain.

use super::{Evidence, RuntimeEvidence};
use crate::cri::{Call, Error, Rpc};
use crate::diagnosis::report::NotChecked;
use crate::report::plural;

/// Removes the calls that failed inside plegctl, which show nothing about the runtime, and returns notes about them.
pub fn own_failures(runtime: &mut RuntimeEvidence) -> Vec<NotChecked> {
    let is_own = |why: &Error| matches!(why, Error::Internal { .. });
    let mut failed = remove_calls(runtime, is_own);
    failed.extend(remove_call(&mut runtime.version, is_own));
    // One line for each RPC, not for each id.
    failed.sort_by_key(|(rpc, _)| *rpc);
    failed.dedup_by_key(|(rpc, _)| *rpc);
    failed.into_iter().map(|(rpc, why)| NotChecked::new(rpc.name(), why)).collect()
}

/// Removes the calls that a capture does not contain, which show nothing about the runtime, and returns notes about them.
pub fn unrecorded_calls(runtime: &mut RuntimeEvidence) -> Vec<NotChecked> {
    let (status_calls, shims) = (runtime.status_calls.len(), runtime.shims.len());
    let removed = remove_calls(runtime, Error::is_unanswerable);
    let fewer = [status_calls - runtime.status_calls.len(), shims - runtime.shims.len()];
    let several = fewer.into_iter().filter(|count| *count > 0).map(|count| plural(count, "status call"));
    let of = |wanted: &[Rpc]| {
        let (_, why) = removed.iter().find(|(rpc, _)| wanted.contains(rpc))?;
        Some(match why {
            Error::Unanswerable { why, .. } => format!("not recorded: {why}"),
            other => other.to_string(),
        })
    };
    let single = Rpc::ALL.into_iter().filter(|rpc| rpc.is_list() || *rpc == Rpc::Status);
    let single = single.filter_map(|rpc| Some(NotChecked::new(rpc.name(), of(&[rpc])?)));
    let of_several =
        of(&[Rpc::PodSandboxStatus, Rpc::ContainerStatus, Rpc::ContainerStats]).unwrap_or_default();
    single.chain(several.map(|what| NotChecked::new(what, &of_several))).collect()
}

/// Removes the calls, except the first Version, that failed with an error for which `is_removed` is true. Returns these
/// calls with their errors.
fn remove_calls(runtime: &mut RuntimeEvidence, is_removed: fn(&Error) -> bool) -> Vec<(Rpc, Error)> {
    let mut removed = Vec::new();
    for records in [&mut runtime.status_calls, &mut runtime.shims] {
        records.retain(|record| match &record.result {
            Err(why) if is_removed(why) => {
                removed.push((record.rpc, why.clone()));
                false
            }
            _ => true,
        });
    }
    removed.extend(remove_call(&mut runtime.control, is_removed));
    removed.extend(remove_call(&mut runtime.status, is_removed));
    removed.extend(remove_call(&mut runtime.sandboxes.first, is_removed));
    removed.extend(remove_call(&mut runtime.sandboxes.second, is_removed));
    removed.extend(remove_call(&mut runtime.containers.first, is_removed));
    removed.extend(remove_call(&mut runtime.containers.second, is_removed));
    removed
}

/// Removes one call if it failed with an error for which `is_removed` is true.
fn remove_call<T>(call: &mut Option<Call<T>>, is_removed: fn(&Error) -> bool) -> Option<(Rpc, Error)> {
    let removed = call.take_if(|call| call.result.as_ref().is_err_and(is_removed))?;
    Some((removed.rpc, removed.result.err()?))
}

/// Lists what the evidence lacks because a call was not made, or has no outcome.
pub fn missing_answers(evidence: &Evidence) -> Vec<NotChecked> {
    let runtime = &evidence.runtime;
    let mut missing = Vec::new();
    let no_budget = "no budget left";
    if runtime.version.is_none() {
        missing.push(NotChecked::new("the runtime", no_budget));
    } else if runtime.is_reached() {
        let names = || evidence.not_checked.iter().map(|skipped| skipped.what.as_str());
        let is_skipped = |list| {
            let by = Rpc::ALL.into_iter().filter(|rpc| rpc.unary() == list);
            by.into_iter().any(|rpc| names().any(|name| name == rpc.name()))
        };
        let (sandboxes, containers) = (Rpc::ListPodSandbox, Rpc::ListContainers);
        let made = [
            (Rpc::Status, runtime.status.is_some()),
            (sandboxes, runtime.sandboxes.first.is_some() || is_skipped(sandboxes)),
            (containers, runtime.containers.first.is_some() || is_skipped(containers)),
        ];
        let not_made = made.into_iter().filter(|(_, is_made)| !is_made);
        missing.extend(not_made.map(|(rpc, _)| NotChecked::new(rpc.name(), no_budget)));
        for error in runtime.errors_of_lists() {
            if !matches!(error, Error::Silent { .. }) && !error.is_unread() {
                missing.push(NotChecked::new("the status of the items of this list", error));
            }
        }
    } else {
        let why = "the runtime does not answer Version, so plegctl made no further calls";
        missing.push(NotChecked::new("lists and status calls", why));
    }
    missing.extend(runtime.unread_lists().map(|why| NotChecked::new("the content of a large list", why)));
    if runtime.ids_left_out > 0 {
        let what = format!("the status of {}", plural(runtime.ids_left_out, "more id"));
        missing.push(NotChecked::new(what, "the budget was spent, or too many status calls were silent"));
    }
    let open = runtime.cut_short().count();
    if open > 0 {
        let why = "the run ended before these calls were answered or counted as hung";
        missing.push(NotChecked::new(format!("the result of {}", plural(open, "status call")), why));
    }
    if runtime.status_is_open() {
        missing.push(NotChecked::new(
            "the result of Status",
            "the run ended before Status was answered or counted as hung",
        ));
    }
    missing
}
