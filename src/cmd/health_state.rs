//! `health --state FILE`: a call that hung in the last run is repeated alone, instead of with all other
//! calls.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::context::Context;
use super::{Error, Exit};
use crate::cri::{Call, Client, Endpoint, Filter, Outcome, Rpc, Runtime};
use crate::diagnosis::health_state::{HealthState, NextRun, RememberedHang};
use crate::diagnosis::report::{Confidence, HealthReport, Verdict};
use crate::report::load::{LARGEST_REPORT, load};

/// The time limit for Version and for the repeated call.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// Reads the state of the last run; returns an empty state if there is none that can be used.
pub fn read(path: &Path, endpoint: &Endpoint, context: &Context) -> HealthState {
    let name = path.display();
    let begin = |why: &str| {
        context.remark(&format!("`{name}` is replaced with a new state: {why}"));
        HealthState::new(&endpoint.to_string())
    };
    let file = path.to_path_buf();
    let Some(read) = context.in_time(&format!("`{name}`"), move || load(&file, LARGEST_REPORT)) else {
        return HealthState::new(&endpoint.to_string());
    };
    match read {
        Ok(bytes) => match serde_json::from_slice::<HealthState>(&bytes) {
            Ok(state) if state.is_about(&endpoint.to_string()) => state,
            Ok(_) => begin("it is about another runtime"),
            Err(why) => begin(&format!("it is not a state file of plegctl: {why}")),
        },
        Err(why) if why.kind() == io::ErrorKind::NotFound => HealthState::new(&endpoint.to_string()),
        Err(why) => begin(&why.to_string()),
    }
}

/// Repeats the hung call if its pause is over. Returns the stored report if the call still hangs, and `None`
/// if a full run is needed.
pub async fn repeat_hung_call(
    state: &mut HealthState,
    context: &Context,
    endpoint: &Endpoint,
) -> Result<Option<HealthReport>, Error> {
    let clock = &context.clock;
    let step = state.step(clock.wall());
    let Some((rpc, id)) = state.hang().and_then(RememberedHang::call).filter(|_| step != NextRun::Judge)
    else {
        return Ok(None);
    };
    let client = context.client(endpoint, TIME_LIMIT)?;
    let ask_again = step == NextRun::AskAgain;
    let version = async {
        // Version itself hung, and it is too early to repeat it.
        if rpc == Rpc::Version && !ask_again {
            return Outcome::Silent;
        }
        within(client.version()).await
    };
    let call = async {
        match rpc {
            Rpc::Version => Outcome::Ok,
            _ if !ask_again => Outcome::Silent,
            _ => one(&client, rpc, id).await,
        }
    };
    let (version, call) = tokio::join!(version, call);
    let now = clock.wall();
    if ask_again {
        state.asked_again(now);
    }
    match (version, call) {
        (Outcome::Silent, _) if rpc != Rpc::Version => state.nobody_answers(now),
        (Outcome::Silent, _) | (Outcome::Ok, Outcome::Silent) => {}
        // The call is answered again, or the runtime is another one: a full run is needed.
        (Outcome::Error, _) | (Outcome::Ok, Outcome::Ok | Outcome::Error) => return Ok(None),
    }
    Ok(state.hang().map(|hang| hang.report(now)))
}

/// Waits for the call for a short time and returns its outcome.
async fn within<T>(call: impl Future<Output = Call<T>>) -> Outcome {
    tokio::time::timeout(TIME_LIMIT, call).await.map_or(Outcome::Silent, |call| call.outcome())
}

async fn one(client: &Client, rpc: Rpc, id: Option<&str>) -> Outcome {
    let id = id.unwrap_or_default();
    match rpc {
        Rpc::PodSandboxStatus => within(client.sandbox_status(id)).await,
        Rpc::ContainerStatus => within(client.container_status(id)).await,
        Rpc::ContainerStats => within(client.container_stats(id)).await,
        Rpc::ListPodSandbox | Rpc::StreamPodSandboxes => {
            within(client.list_sandboxes(&Filter::default())).await
        }
        Rpc::ListContainers | Rpc::StreamContainers => {
            within(client.list_containers(&Filter::default())).await
        }
        Rpc::Version => within(client.version()).await,
        Rpc::Status | Rpc::RuntimeConfig | Rpc::GetContainerEvents => within(client.status()).await,
    }
}

/// Returns the exit status to report: `exit` is the judgement of this run, to which the announcements of
/// earlier runs are added.
pub fn announced_exit(state: &mut HealthState, report: &HealthReport, exit: Exit) -> Exit {
    if report.verdict == Verdict::Unknown {
        return exit;
    }
    let certain = report.primary.as_ref().is_some_and(|primary| primary.confidence == Confidence::Certain);
    if state.announce(exit == Exit::Bad, certain) { Exit::Bad } else { Exit::Good }
}
