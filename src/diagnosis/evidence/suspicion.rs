//! Decides whether the first answers are suspicious, so that the run takes second samples and reads more details.

use super::oddities::first_oddities;
use super::{Evidence, StatusRecord};
use crate::diagnosis::left_over_shims;
use crate::diagnosis::limits;
use crate::diagnosis::living_exits;
use crate::diagnosis::overdue_processes;
use crate::diagnosis::proc::{Process, Psi, Role};
use crate::diagnosis::shim_sizes;

/// Returns whether a call is silent or a list fails.
pub fn of_calls(evidence: &Evidence) -> bool {
    let runtime = &evidence.runtime;
    !runtime.is_reached()
        || !runtime.hung_lists().is_empty()
        || runtime.errors_of_lists().next().is_some()
        || runtime.status_calls.iter().chain(&runtime.shims).any(StatusRecord::is_silent)
}

/// Returns whether a list is slow, has many dead items, or contradicts itself.
pub fn of_lists(evidence: &Evidence) -> bool {
    let runtime = &evidence.runtime;
    let slow = [runtime.sandboxes.duration(), runtime.containers.duration()]
        .into_iter()
        .flatten()
        .any(|took| took > limits::LIST_SLOW);
    let many_dead = runtime.population().dead() > limits::DEAD_BACKLOG;
    slow || many_dead || !first_oddities(evidence).is_empty()
}

/// Returns whether a call, a process, a cgroup or the pressure on the node is suspicious.
pub fn of_node(evidence: &Evidence) -> bool {
    let Some(host) = evidence.node() else { return false };
    let sample = &host.first;
    let pressed = |resource, at: f64| sample.pressure_on(resource).highest(Psi::all_waited) >= at;
    of_calls(evidence)
        || overdue_processes::has_overdue_process(evidence)
        || shim_sizes::outliers(sample).next().is_some()
        || sample.frozen.iter().any(|freeze| evidence.concerns_cgroup(freeze))
        || sample
            .processes
            .values()
            .filter(|process| {
                let is_stopped = process.role == Role::Shim && process.is_stopped();
                !process.blocked.is_empty() || process.sleeps || is_stopped
            })
            .any(|process| evidence.concerns(process))
        || pressed(|pressure| pressure.io, limits::IO_FULL_HINT)
        || pressed(|pressure| pressure.memory, limits::MEMORY_FULL)
}

/// Returns whether a sign suggests that a shim does not answer, or a rule may report something about shims that were not
/// checked to be shims.
pub fn of_shims(evidence: &Evidence) -> bool {
    let Some(host) = evidence.node() else { return false };
    // Shims that wait for storage increase the I/O pressure. Without a measurement, pressure is assumed.
    let storage = host.first.pressure.io.is_none_or(|psi| psi.some >= limits::IO_FULL_HINT);
    // A process that works for a new sandbox has no known container. Only the command line of its shim shows to which
    // runtime it belongs, so the shims are read.
    let is_known =
        |process: &Process| process.container_id.as_deref().is_some_and(|id| evidence.names.knows(id));
    let old = |process: &Process| {
        process.age >= limits::OCI_PROCESS_OLD && !process.is_zombie() && !is_known(process)
    };
    let of_daemon = |shim: &Process| {
        let parent = host.first.processes.get(&shim.parent);
        old(shim) && parent.is_some_and(|parent| parent.role == Role::Daemon)
    };
    let is_odd = |shim: &Process| shim.is_stopped() || !shim.blocked.is_empty() || of_daemon(shim);
    storage
        || host.first.with_role(Role::OciRuntime).any(old)
        || host.first.with_role(Role::Shim).any(is_odd)
        || of_node(evidence)
        || of_lists(evidence)
        || evidence.runtime.ids_left_out > 0
        || living_exits::may_exist(evidence)
        || host.first.zombies_of_shims() > limits::ZOMBIES_OF_SHIMS
        || left_over_shims::has_too_many_shims(evidence)
}
