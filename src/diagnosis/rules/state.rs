//! D16, D19, D20, D31, D33: what the runtime reports about itself and its containers.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Case, finding};
use crate::cri::{Call, Error, Rpc, RuntimeCondition, RuntimeStatus};
use crate::diagnosis::advice::DaemonFamily;
use crate::diagnosis::evidence::oddities::{OddKind, Oddity, first_oddities, oddities};
use crate::diagnosis::evidence::{Evidence, StatusRecord, holders};
use crate::diagnosis::limits;
use crate::diagnosis::proc::{Process, Role, Shims, monitored_ids};
use crate::diagnosis::report::{Confidence, HealthFinding, Phase, RuleId, Severity};
use crate::diagnosis::words::{plural, seconds};

fn condition_text(condition: &RuntimeCondition) -> String {
    format!(
        "{}={} reason:{} message:{}",
        condition.kind, condition.holds, condition.reason, condition.message
    )
}

fn answer(evidence: &Evidence) -> Option<&RuntimeStatus> {
    evidence.runtime.status.as_ref()?.result.as_ref().ok()
}

/// Applies D31. The kubelet is `NotReady` after 30 s for this reason alone.
pub(super) fn not_ready(case: &Case<'_>) -> Option<HealthFinding> {
    let call = case.evidence.runtime.status.as_ref()?;
    let mut confidence = Confidence::Certain;
    let (title, line) = match &call.result {
        Ok(status) => match status.condition("RuntimeReady") {
            Some(ready) if ready.holds => return None,
            Some(ready) => ("the runtime says that it is not ready".to_owned(), condition_text(ready)),
            None => (
                "the runtime does not say whether it is ready".to_owned(),
                "its Status has no RuntimeReady condition".to_owned(),
            ),
        },
        // The run ended before this silence could be called a hang.
        Err(_) if case.evidence.runtime.status_is_open() => return None,
        Err(Error::Silent { waited, .. }) => {
            confidence = case.evidence.runtime.silence.confidence(*waited);
            (
                "Status is not answered".to_owned(),
                format!("Status did not answer within {}", seconds(*waited)),
            )
        }
        Err(why) => ("Status fails".to_owned(), why.to_string()),
    };
    let mut found = finding(RuleId::D31, Severity::Critical, confidence, title);
    found.rpc = Some("Status".to_owned());
    found.evidence.push(line);
    found.evidence.push("the kubelet says \"container runtime is down\" after 30 s of this".to_owned());
    found.next.push("journalctl -u containerd -u crio --since -15min".to_owned());
    Some(found)
}

/// Applies D16. The network makes the node `NotReady`, but does not affect PLEG.
pub(super) fn network(case: &Case<'_>) -> Option<HealthFinding> {
    let evidence = case.evidence;
    let mut signs = Vec::new();
    let mut confidence = Confidence::Possible;
    let mut title = "a network plugin is slow".to_owned();
    let not_ready =
        answer(evidence).and_then(|status| status.condition("NetworkReady")).filter(|ready| !ready.holds);
    if let Some(condition) = not_ready {
        confidence = Confidence::Certain;
        title = String::from("the network is not ready");
        signs.push(condition_text(condition));
    }
    for plugin in old_plugins(evidence) {
        if plugin.age >= limits::CNI_PROCESS_STUCK && confidence == Confidence::Possible {
            confidence = Confidence::Likely;
            title = format!("the network plugin {} hangs", plugin.label());
        }
        signs.push(format!("{} is {} old", plugin.label(), seconds(plugin.age)));
    }
    if let Some(journal) = evidence.journal.as_ref().filter(|journal| journal.network_failures > 0) {
        signs.push(format!(
            "{} failures of network set-up or tear-down in the journal",
            journal.network_failures
        ));
    }
    if signs.is_empty() {
        return None;
    }
    let mut found = finding(RuleId::D16, Severity::Warning, confidence, title);
    if not_ready.is_some() {
        found.rpc = Some("Status".to_owned());
    }
    found.evidence = signs;
    found.evidence.push("pods cannot start or stop because of this; it does not block PLEG".to_owned());
    found.next.push("is the network's DaemonSet running here? ls /etc/cni/net.d".to_owned());
    Some(found)
}

/// Returns the daemon's children that have the name of an installed network plugin. Other children, such as
/// image unpackers, may be as old as they like.
fn old_plugins(evidence: &Evidence) -> Vec<&Process> {
    let Some(host) = evidence.node() else {
        return Vec::new();
    };
    let sample = host.latest();
    let of_daemon = |pid: u32| sample.processes.get(&pid).is_some_and(|parent| parent.role == Role::Daemon);
    sample
        .with_role(Role::Other)
        .filter(|process| {
            process.age >= limits::CNI_PROCESS_OLD
                && !process.is_zombie()
                && host.network_plugins.contains(&process.comm)
                && of_daemon(process.parent)
        })
        .collect()
}

/// Whether the container's conmon is gone too.
fn has_no_conmon(evidence: &Evidence, id: &str, sandbox: Option<&str>) -> bool {
    let Some(host) = evidence.node().filter(|_| evidence.family() == DaemonFamily::Crio) else {
        return false;
    };
    // The command lines of conmon processes have not been read.
    if host.latest().shims == Shims::Counted {
        return false;
    }
    let is_its = |named: &str| named == id || Some(named) == sandbox;
    let of_it = |conmon: &Process| monitored_ids(&conmon.command).any(is_its);
    !host.latest().with_role(Role::Shim).any(of_it)
}

/// Applies D19. A single sample may show a creation or a removal in progress.
pub(super) fn inconsistent(case: &Case<'_>) -> Option<HealthFinding> {
    let runtime = &case.evidence.runtime;
    let first = first_oddities(case.evidence);
    let again = runtime.sandboxes.second.is_some() || runtime.containers.second.is_some();
    let mut lasting = first;
    if again {
        let later = oddities(case.evidence, runtime.sandboxes.latest(), runtime.containers.latest());
        lasting.retain(|oddity| later.contains(oddity));
    }
    let worst = lasting.first()?;
    let confidence = if again { worst.kind.confidence() } else { Confidence::Possible };
    let id = worst.id;
    let who = match worst.kind {
        OddKind::TwiceReady => {
            case.evidence.names.pod(id).map_or_else(|| id.to_owned(), |pod| pod.to_string())
        }
        _ => case.evidence.names.describe(id),
    };
    let title = format!("{who} {}", worst.kind.text());
    let found = finding(RuleId::D19, Severity::Warning, confidence, title);
    let mut found = case.about(found, id);
    found.phase = Phase::List;
    let ids = lasting.iter().flat_map(Oddity::ids).take(limits::MOST_IDS);
    found.ids = ids.map(str::to_owned).collect();
    found.evidence.extend(lasting.iter().take(10).map(|oddity| {
        let who: Vec<String> = oddity.ids().take(10).map(|id| case.evidence.names.describe(id)).collect();
        format!("{}: {}", who.join(", "), oddity.kind.text())
    }));
    if lasting.len() > 10 {
        found.evidence.push(format!("and {} more", lasting.len() - 10));
    }
    let unwatched = |oddity: &&Oddity<'_>| {
        let sandbox = case.evidence.names.sandbox_of(oddity.id);
        oddity.kind == OddKind::NoProcess && has_no_conmon(case.evidence, oddity.id, sandbox)
    };
    let unwatched = lasting.iter().filter(unwatched).count();
    if unwatched > 0 {
        found.evidence.push(format!(
            "{unwatched} of them also lost their conmon: nothing will notice the exit, and the list shows \
             RUNNING for ever"
        ));
    }
    found.evidence.push(if again {
        "seen in two samples".to_owned()
    } else {
        "seen in one sample: a creation or removal may be under way".to_owned()
    });
    found
        .next
        .push("compare with the processes of its cgroup; has the runtime been restarted lately?".to_owned());
    Some(found)
}

/// Returns why a status call failed, if it did.
fn failure(record: &StatusRecord) -> Option<String> {
    Some(match &record.result {
        Err(why) if why.is_failure() => why.to_string(),
        Ok(facts) if !facts.present => "the answer has no status in it".to_owned(),
        Ok(facts) if facts.created_at.is_none() => "the status has no creation time".to_owned(),
        _ => return None,
    })
}

/// Applies D20. "Not found" after a list is a race, not an error.
pub(super) fn failing_status(case: &Case<'_>) -> Option<HealthFinding> {
    let runtime = &case.evidence.runtime;
    let listed = runtime.sandboxes.items().is_some() || runtime.containers.items().is_some();
    let failing: Vec<&StatusRecord> =
        runtime.status_calls.iter().filter(|record| failure(record).is_some()).collect();
    let first = failing.first().filter(|_| listed)?;
    let (id, rpc) = (&first.target.id, first.rpc);
    let title = format!(
        "{} of {} fails; the kubelet repeats the call in every relist",
        rpc,
        case.evidence.names.describe(id)
    );
    let found = finding(RuleId::D20, Severity::Warning, Confidence::Certain, title);
    let mut found = case.about(found, id);
    found.phase = Phase::Status;
    found.rpc = Some(rpc.name().to_owned());
    found.ids = failing.iter().take(limits::MOST_IDS).map(|record| record.target.id.clone()).collect();
    found.evidence.push(format!(
        "{} of {}",
        failing.len(),
        plural(runtime.status_calls.len(), "status call")
    ));
    found.evidence.extend(failing.iter().take(5).filter_map(|record| {
        Some(format!("{}: {}", case.evidence.names.describe(&record.target.id), failure(record)?))
    }));
    let busy =
        |record: &&StatusRecord| failure(record).is_some_and(|why| why.contains("device or resource busy"));
    if failing.iter().any(busy) {
        found.evidence.push("its network namespace is also mounted in another place".to_owned());
    }
    found.next.push(
        "the pod's events wait until this call is answered; see the runtime's journal for this id".to_owned(),
    );
    Some(found)
}

/// Returns the status calls in which CRI-O waited for a lost exit. They take the time that CRI-O waits for
/// the exit file, and return the exit code that CRI-O then sets.
pub fn lost_exits(evidence: &Evidence) -> Vec<&StatusRecord> {
    if evidence.family() != DaemonFamily::Crio {
        return Vec::new();
    }
    let runtime = &evidence.runtime;
    let lost = |record: &&StatusRecord| {
        record.duration >= limits::LOST_EXIT_WAIT
            && record.result.as_ref().is_ok_and(|facts| facts.exit_code == Some(-1))
    };
    let mut found: Vec<&StatusRecord> = runtime.status_calls.iter().filter(lost).collect();
    found.sort_unstable_by(|one, other| one.target.id.cmp(&other.target.id));
    found
}

/// Applies D33. Such calls are slow, never hung: CRI-O answers in the end, with exit code -1.
pub(super) fn lost_exit(case: &Case<'_>) -> Option<HealthFinding> {
    let evidence = case.evidence;
    let lost = lost_exits(evidence);
    let first = lost.first()?;
    let who = evidence.names.name(&first.target.id);
    let more = if lost.len() > 1 { format!(" and {} more", lost.len() - 1) } else { String::new() };
    let title = format!(
        "CRI-O lost the exit of {who}{more}: each status call waits {} for it",
        seconds(first.duration)
    );
    let found = finding(RuleId::D33, Severity::Warning, Confidence::Certain, title);
    let mut found = case.about(found, &first.target.id);
    found.phase = Phase::Status;
    found.rpc = Some(first.rpc.name().to_owned());
    found.ids = lost.iter().map(|record| record.target.id.clone()).collect();
    let of_pods = slow_pods_of(evidence, &lost);
    let total: Duration = lost.iter().chain(&of_pods).map(|record| record.duration).sum();
    let with_pods = if of_pods.is_empty() {
        ""
    } else {
        "; PodSandboxStatus of their pods waits for them too (the runtime sends pod events)"
    };
    found.evidence.push(format!(
        "answered with EXITED and exit code -1: slow, not hung; a relist of all of them takes {}{with_pods}",
        seconds(total)
    ));
    for record in lost.iter().take(5) {
        let id = &record.target.id;
        let who = evidence.names.describe(id);
        match holders::holders(evidence, id).shim {
            Some(conmon) if conmon.is_stopped() => {
                found.evidence.push(format!(
                    "{who}: its {} is stopped (state {})",
                    conmon.label(),
                    conmon.state
                ));
                found.next.push(format!(
                    "who stopped it? kill -CONT {} makes its calls quick (changes state)",
                    conmon.pid
                ));
            }
            Some(conmon) => found.evidence.push(format!("{who}: its {} lives", conmon.label())),
            None if evidence.node().is_some() => {
                found.evidence.push(format!("{who}: its conmon is gone, so the exit code is lost"));
                found.next.push(remove(id));
            }
            None => found.evidence.push(format!("{who}: its conmon is stopped or gone")),
        }
    }
    if found.next.is_empty() {
        let id = crate::diagnosis::words::short(&first.target.id);
        found.next.push(format!("pgrep -af {id}   # its conmon: in state T, continue it with kill -CONT"));
        found.next.push(format!("gone: {}", remove(&first.target.id)));
    }
    Some(found)
}

/// Returns the command that removes such a container. The removal waits as long as a status call, and crictl
/// gives up after 2 s by default.
fn remove(id: &str) -> String {
    format!("crictl --timeout 60s rm {} (changes state)", crate::diagnosis::words::short(id))
}

/// Returns the slow `PodSandboxStatus` calls of these containers' pods: with pod events on, CRI-O fetches the
/// status of each container for such a call.
pub fn slow_pods_of<'a>(evidence: &'a Evidence, lost: &[&StatusRecord]) -> Vec<&'a StatusRecord> {
    let pods: BTreeSet<&str> =
        lost.iter().filter_map(|record| evidence.names.sandbox_of(&record.target.id)).collect();
    let slow = |record: &&StatusRecord| {
        record.rpc == Rpc::PodSandboxStatus
            && record.duration >= limits::LOST_EXIT_WAIT
            && record.result.is_ok()
            && pods.contains(record.target.id.as_str())
    };
    evidence.runtime.status_calls.iter().filter(slow).collect()
}

/// For D22: whether a call was answered quickly.
pub(super) fn quick<T>(call: Option<&Call<T>>) -> bool {
    call.is_some_and(|call| call.result.is_ok() && call.duration < limits::LIST_SLOW)
}
