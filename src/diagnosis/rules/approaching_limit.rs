//! D46: something grows towards a hard limit.

use super::full_disk::what_is_full;
use super::prelude::*;
use std::path::Path;

use crate::clock::Wall;
use crate::diagnosis::forecast::{LimitForecast, LimitKind};

/// Applies D46.
pub(super) fn find(case: &Case<'_>) -> Vec<HealthFinding> {
    findings_of(&case.evidence.forecasts, case.evidence.taken_at)
}

/// Makes the findings about forecasts as they read at `now`, in the same order.
pub fn findings_of(forecasts: &[LimitForecast], now: Wall) -> Vec<HealthFinding> {
    forecasts.iter().map(|forecast| finding_of(forecast, now)).collect()
}

/// Makes the finding about a forecast as it reads at `now`. What is likely on the next day needs a person, everything else is
/// only worth knowing.
fn finding_of(forecast: &LimitForecast, now: Wall) -> HealthFinding {
    let is_soon = forecast.left(now) <= limits::FORECAST_SOON;
    let needs_person = is_soon && forecast.confidence == Confidence::Likely;
    let severity = if needs_person { Severity::Warning } else { Severity::Info };
    let title = FactKind::LimitFillsUp { forecast: forecast.clone() };
    let mut found = finding(RuleId::ApproachingLimit, severity, forecast.confidence, title);
    let measured = forecast.taken_at.duration_since(forecast.since).into();
    found.add_fact(FactKind::LimitIsFullAt { at: forecast.full_at, measured });
    found.add_fact(FactKind::AtTheLimit { limit: forecast.limit });
    found.steps = steps(forecast);
    found
}

fn steps(forecast: &LimitForecast) -> Vec<Step> {
    let pid = forecast.process.as_ref().map(|process| process.pid);
    match (forecast.limit, pid) {
        (LimitKind::Threads | LimitKind::CgroupTasks, Some(pid)) => vec![
            Step::look("in which calls of the kernel its threads wait").with(
                Command::new("cat /proc/{}/task/*/wchan | tr -c '[:alnum:]_' '\\n' | sort | uniq -c")
                    .pid(pid),
            ),
            Step::look("what its goroutines wait for").with(Command::new("plegctl stacks")),
            restart(),
        ],
        (LimitKind::Descriptors, Some(pid)) => {
            let list =
                Command::new("ls -l /proc/{}/fd | awk '{print $NF}' | sort | uniq -c | sort -n | tail");
            vec![Step::look("which files it has open").with(list.pid(pid)), restart()]
        }
        (LimitKind::SandboxList | LimitKind::ContainerList, _) => vec![
            Step::look("what the lists have").with(Command::new("plegctl relist")),
            Step::change(
                "remove dead sandboxes and containers, some at a time; health names them from 60 % on",
            ),
        ],
        (LimitKind::NodeTasks, _) => vec![
            Step::look("which programs have most tasks")
                .with(Command::new("ps -eLo comm | sort | uniq -c | sort -n | tail")),
        ],
        (
            LimitKind::RuntimeRootBytes
            | LimitKind::RuntimeRootInodes
            | LimitKind::RuntimeStateBytes
            | LimitKind::RuntimeStateInodes
            | LimitKind::KubeletBytes
            | LimitKind::KubeletInodes,
            _,
        ) => vec![
            what_is_full(directories(forecast.limit).into_iter().map(Path::new)),
            Step::change("remove what fills it: the kubelet's own cleaning is not enough"),
        ],
        (
            LimitKind::CgroupMemory | LimitKind::Threads | LimitKind::CgroupTasks | LimitKind::Descriptors,
            _,
        ) => {
            vec![restart()]
        }
    }
}

/// Returns the usual directories on the file system of a limit.
const fn directories(limit: LimitKind) -> [&'static str; 2] {
    match limit {
        LimitKind::KubeletBytes | LimitKind::KubeletInodes => ["/var/lib/kubelet", "/var/lib/kubelet/pods"],
        LimitKind::RuntimeStateBytes | LimitKind::RuntimeStateInodes => {
            ["/run/containerd", "/run/containers"]
        }
        _ => ["/var/lib/containerd", "/var/lib/containers"],
    }
}

fn restart() -> Step {
    Step::change("save its goroutine stacks, then restart it at a time that you choose; pods run on")
}
