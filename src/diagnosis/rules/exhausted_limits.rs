//! D14: processes, threads, descriptors or disk space are exhausted.

use super::prelude::*;
use super::unreachable_runtime;
use crate::diagnosis::facts::DescriptorUse;
use crate::diagnosis::judge::not_ready::is_at_most;
use crate::diagnosis::proc::PidsCgroup;

/// The time for which a line in the journal shows that a limit is reached. Whoever meets it tries again within seconds.
const LINE_VALID: Duration = Duration::from_secs(60);

/// Applies D14. A new line in the journal makes the finding certain, a limit that is nearly used up makes it likely. After an old
/// line alone, the limit may be raised or free again.
pub(super) fn find(case: &Case<'_>) -> Option<HealthFinding> {
    let mut signs = Vec::new();
    if case.evidence.no_thread {
        signs.push(FactKind::PlegctlGotNoThread);
    }
    if let Some(host) = case.evidence.node() {
        signs.extend(exhausted_on_node(case, host.latest()));
    }
    let logged = case.evidence.journal.as_ref().filter(|journal| journal.exhausted.is_some());
    let is_new = logged.is_some_and(|journal| is_at_most(LINE_VALID, case.evidence, journal.exhausted_at));
    let (confidence, severity, title) = match (is_new, logged, signs.is_empty()) {
        (true, ..) => (Confidence::Certain, case.severity_of_cause(), FactKind::LimitsRunOut),
        (false, _, false) => (Confidence::Likely, case.severity_of_cause(), FactKind::LimitsRunOut),
        (false, Some(_), true) => (Confidence::Possible, Severity::Info, FactKind::LimitsRanOut),
        (false, None, true) => return None,
    };
    let line = logged.and_then(|journal| journal.exhausted.as_ref());
    signs.extend(line.map(|line| FactKind::Logged { line: line.into() }));
    let mut found = case.cause(RuleId::ExhaustedLimits, severity, confidence, title);
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
        found.steps.extend(full_unit(case));
        found.add_step(Step::change("end the process that uses most of them, or raise the limit"));
    }
    Some(found)
}

/// Returns the step that raises the limit of a systemd unit with hardly any task left.
fn full_unit(case: &Case<'_>) -> Option<Step> {
    let host = case.evidence.node().filter(|_| case.evidence.has_systemd())?;
    let mut full = host.latest().pids.iter().filter(|pids| is_full(pids));
    let unit =
        full.find_map(|pids| pids.path.rsplit('/').next().filter(|unit| unit.ends_with(".service")))?;
    let raise = Command::new("systemctl set-property --runtime {} TasksMax=infinity").arg(unit);
    Some(Step::change("raise the limit of the unit until its next start").with(raise))
}

/// Whether nearly all tasks of a cgroup are used.
fn is_full(pids: &PidsCgroup) -> bool {
    limits::reaches(pids.current, pids.max, limits::EXHAUSTED_PERCENT)
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
    signs.extend(sample.pids.iter().filter(|pids| is_full(pids)).map(|pids| FactKind::ProcessesIn {
        processes: pids.current,
        max: pids.max,
        cgroup: (&pids.path).into(),
    }));
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
