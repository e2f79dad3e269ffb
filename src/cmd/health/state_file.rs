//! `health --state FILE`: reads which call hung in the last run, and repeats only that call. If it still hangs, the
//! stored report is printed again, without a full run.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::cmd::Exit;
use crate::cmd::session::Session;
use crate::cri::{Call, Client, Filter, Outcome, Rpc, Runtime};
use crate::diagnosis::health_state::{HealthState, NextRun, RememberedHang};
use crate::diagnosis::report::{Confidence, HealthReport, Verdict};
use crate::kubelet::ListCalls;
use crate::report::load::{LARGEST_REPORT, load};

/// The time limit for Version and for the repeated call.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// Reads the state of the last run. Returns an empty state if the file does not exist or cannot be used.
pub fn read(path: &Path, session: &Session) -> HealthState {
    let Session { node, endpoint, .. } = session;
    let name = path.display();
    let replacement = |why: &str| {
        node.remark(&format!("`{name}` is replaced with a new state: {why}"));
        HealthState::new(&endpoint.to_string())
    };
    let file = path.to_path_buf();
    let Some(read) = node.in_time(&format!("`{name}`"), move || load(&file, LARGEST_REPORT)) else {
        return HealthState::new(&endpoint.to_string());
    };
    match read {
        Ok(bytes) => match serde_json::from_slice::<HealthState>(&bytes) {
            Ok(state) if state.is_about(&endpoint.to_string()) => state,
            Ok(_) => replacement("it is about another runtime"),
            Err(why) => replacement(&format!("it is not a state file of plegctl: {why}")),
        },
        Err(why) if why.kind() == io::ErrorKind::NotFound => HealthState::new(&endpoint.to_string()),
        Err(why) => replacement(&why.to_string()),
    }
}

/// Repeats the hung call if its pause is over. Returns the stored report if the call still hangs, and `None`
/// if a full run is needed.
pub async fn repeat_hung_call(state: &mut HealthState, session: &Session) -> Option<HealthReport> {
    let clock = &session.node.clock;
    let step = state.step(clock.wall());
    let (rpc, id) = state.hang().and_then(RememberedHang::call).filter(|_| step != NextRun::FullRun)?;
    let client = session.client(TIME_LIMIT);
    let repeats = step == NextRun::RepeatCall;
    let version = async {
        // Version itself hung, and it is too early to repeat it.
        if rpc == Rpc::Version && !repeats {
            return Outcome::Silent;
        }
        outcome_within_limit(client.version()).await
    };
    let call = async {
        match rpc {
            Rpc::Version => Outcome::Ok,
            _ if !repeats => Outcome::Silent,
            _ => repeat_call(&client, rpc, id).await,
        }
    };
    let (version, call) = tokio::join!(version, call);
    let now = clock.wall();
    if repeats {
        state.call_repeated(now);
    }
    match (version, call) {
        (Outcome::Silent, _) if rpc != Rpc::Version => state.version_is_silent(now),
        (Outcome::Silent, _) | (Outcome::Ok, Outcome::Silent) => {}
        // The call gets an answer again, or Version fails: a full run is needed.
        (Outcome::Error, _) | (Outcome::Ok, Outcome::Ok | Outcome::Error) => return None,
    }
    state.hang().map(|hang| hang.report(now))
}

/// Waits for the call for [`TIME_LIMIT`] and returns its outcome.
async fn outcome_within_limit<T>(call: impl Future<Output = Call<T>>) -> Outcome {
    tokio::time::timeout(TIME_LIMIT, call).await.map_or(Outcome::Silent, |call| call.outcome())
}

async fn repeat_call(client: &Client, rpc: Rpc, id: Option<&str>) -> Outcome {
    let id = id.unwrap_or_default();
    client.list_with(if rpc.is_streamed_list() { ListCalls::Stream } else { ListCalls::Unary });
    match rpc {
        Rpc::PodSandboxStatus => outcome_within_limit(client.sandbox_status(id)).await,
        Rpc::ContainerStatus => outcome_within_limit(client.container_status(id)).await,
        Rpc::ContainerStats => outcome_within_limit(client.container_stats(id)).await,
        Rpc::ListPodSandbox | Rpc::StreamPodSandboxes => {
            outcome_within_limit(client.list_sandboxes(&Filter::default())).await
        }
        Rpc::ListContainers | Rpc::StreamContainers => {
            outcome_within_limit(client.list_containers(&Filter::default())).await
        }
        Rpc::Version => outcome_within_limit(client.version()).await,
        Rpc::Status | Rpc::RuntimeConfig | Rpc::GetContainerEvents => {
            outcome_within_limit(client.status()).await
        }
    }
}

/// Returns the exit status for node-problem-detector. `exit` is the result of this run; the state decides whether a
/// change of the result is reported now or only when a second run confirms it.
pub fn reported_exit(state: &mut HealthState, report: &HealthReport, exit: Exit) -> Exit {
    if report.verdict == Verdict::Unknown {
        return exit;
    }
    let certain = report.primary.as_ref().is_some_and(|primary| primary.confidence == Confidence::Certain);
    if state.record_run(exit == Exit::Bad, certain) { Exit::Bad } else { Exit::Good }
}
