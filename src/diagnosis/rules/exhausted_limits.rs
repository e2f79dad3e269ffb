//! D14: processes, threads, descriptors or disk space are exhausted.

use super::prelude::*;
use super::unreachable_runtime;
use crate::diagnosis::facts::DescriptorUse;
use crate::diagnosis::proc::ProcSample;

/// Applies D14. A line in the journal makes the finding certain, a limit that is nearly used up makes it likely.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let mut signs = Vec::new();
    if case.evidence.no_thread {
        signs.push(FactKind::PlegctlGotNoThread);
    }
    if let Some(host) = case.evidence.node() {
        signs.extend(exhausted_on_node(case, host.latest()));
    }
    let logged = case.evidence.journal.as_ref().and_then(|journal| journal.exhausted.as_ref());
    let confidence = if logged.is_some() { Confidence::Certain } else { Confidence::Likely };
    signs.extend(logged.map(|line| FactKind::Logged { line: line.into() }));
    if signs.is_empty() {
        return None;
    }
    let mut found =
        case.cause(RuleId::ExhaustedLimits, case.severity_of_cause(), confidence, FactKind::LimitsRunOut);
    found.add_facts(signs);
    let without_descriptor = case
        .evidence
        .daemon()
        .and_then(|daemon| unreachable_runtime::without_descriptor(case.evidence, daemon));
    if let Some((full, steps)) = without_descriptor {
        found.set_title(FactKind::RuntimeOpensNoFile { full });
        found.steps = steps;
        let runtime = &case.evidence.runtime;
        let fails = runtime.status.as_ref().is_some_and(|call| call.result.is_err());
        if fails || runtime.errors_of_lists().next().is_some() {
            found.severity = Severity::Critical;
        }
    } else {
        found.add_step(Step::change("end the process that uses most of them, or raise the limit"));
    }
    Some(found)
}

/// Returns a sign for each maximum that the node, a cgroup or a process has nearly reached: a maximum number of tasks
/// or of file descriptors.
fn exhausted_on_node(case: &Case<'_>, sample: &ProcSample) -> Vec<FactKind> {
    let mut signs = Vec::new();
    let nearly = limits::EXHAUSTED_PERCENT;
    for (name, max) in [("pid_max", sample.tasks.pid_max), ("threads-max", sample.tasks.threads_max)] {
        if limits::reaches(sample.tasks.now, max, nearly) {
            signs.push(FactKind::TasksOf { tasks: sample.tasks.now, setting: name.into(), max });
            signs.extend(processes_with_most_tasks(case));
        }
    }
    signs.extend(sample.pids.iter().filter(|pids| limits::reaches(pids.current, pids.max, nearly)).map(
        |pids| FactKind::ProcessesIn { processes: pids.current, max: pids.max, cgroup: (&pids.path).into() },
    ));
    // Another runtime of the node has its own descriptors.
    for process in sample.processes.values().filter(|process| case.evidence.concerns(process)) {
        if let (Some(open), Some(limit)) = (process.descriptors, process.descriptor_limit)
            && limits::reaches(open, limit, nearly)
        {
            let full = DescriptorUse { process: process.into(), open, limit };
            signs.push(FactKind::DescriptorsOpen { full });
        }
    }
    signs
}

/// Names the process with the most threads, and the process with the most zombie children. A zombie counts as a task
/// until its parent collects it.
fn processes_with_most_tasks(case: &Case<'_>) -> Vec<FactKind> {
    let Some(host) = case.evidence.node() else {
        return Vec::new();
    };
    let processes = &host.latest().processes;
    let mut facts = Vec::new();
    let threads = processes.values().max_by_key(|process| process.threads);
    facts.extend(
        threads.map(|process| FactKind::HasThreads { process: process.into(), threads: process.threads }),
    );
    let mut zombies = std::collections::BTreeMap::<u32, usize>::new();
    for process in processes.values().filter(|process| process.is_zombie()) {
        *zombies.entry(process.parent).or_default() += 1;
    }
    if let Some((parent, count)) = zombies.into_iter().max_by_key(|(_, count)| *count) {
        let name = processes.get(&parent).map(|parent| (&parent.comm).into());
        facts.push(FactKind::ZombieChildren { pid: parent, name, zombies: count });
    }
    facts
}
