//! `health --state FILE`: what hung in the last run is not asked again with everything else.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::context::Context;
use super::{Error, Exit};
use crate::cri::{Call, Client, Endpoint, Filter, Outcome, Rpc, Runtime};
use crate::diagnosis::health_state::{HealthState, NextRun, RememberedHang};
use crate::diagnosis::report::{Confidence, HealthReport, Verdict};
use crate::report::load::{LARGEST_REPORT, load};

/// How long the call that hung, and who is there, are waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the last run left at `path`; nothing, where it left nothing that can be used.
pub fn read(path: &Path, endpoint: &Endpoint, context: &Context) -> HealthState {
    let name = path.display();
    let begin = |why: &str| {
        context.remark(&format!("`{name}` is begun anew: {why}"));
        HealthState::new(&endpoint.to_string())
    };
    let file = path.to_path_buf();
    let Some(read) = context.in_time(&format!("`{name}`"), move || load(&file, LARGEST_REPORT)) else {
        return HealthState::new(&endpoint.to_string());
    };
    match read {
        Ok(bytes) => match serde_json::from_slice::<HealthState>(&bytes) {
            Ok(standing) if standing.is_about(&endpoint.to_string()) => standing,
            Ok(_) => begin("it is about another runtime"),
            Err(why) => begin(&format!("it holds no state of plegctl: {why}")),
        },
        Err(why) if why.kind() == io::ErrorKind::NotFound => HealthState::new(&endpoint.to_string()),
        Err(why) => begin(&why.to_string()),
    }
}

/// The report of before, if what hung then hangs still or may not be asked yet; `None` where everything is to be judged.
pub async fn still(
    standing: &mut HealthState,
    context: &Context,
    endpoint: &Endpoint,
) -> Result<Option<HealthReport>, Error> {
    let clock = &context.clock;
    let step = standing.step(clock.wall());
    let Some((rpc, id)) = standing.hang().and_then(RememberedHang::call).filter(|_| step != NextRun::Judge)
    else {
        return Ok(None);
    };
    let client = context.client(endpoint, PATIENCE)?;
    let ask_again = step == NextRun::AskAgain;
    let version = async {
        // It is the call itself that hung, and its turn has not come.
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
        standing.asked_again(now);
    }
    match (version, call) {
        (Outcome::Silent, _) if rpc != Rpc::Version => standing.nobody_answers(now),
        (Outcome::Silent, _) | (Outcome::Ok, Outcome::Silent) => {}
        // It answers again, or the runtime is another one: both begin anew.
        (Outcome::Error, _) | (Outcome::Ok, Outcome::Ok | Outcome::Error) => return Ok(None),
    }
    Ok(standing.hang().map(|hang| hang.report(now)))
}

/// How a call ends that is waited for no longer than the others.
async fn within<T>(call: impl Future<Output = Call<T>>) -> Outcome {
    tokio::time::timeout(PATIENCE, call).await.map_or(Outcome::Silent, |call| call.outcome())
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

/// How the run ends: `exit` is what its own judgement says, the answer is what is announced after what was before.
pub fn settle(standing: &mut HealthState, report: &HealthReport, exit: Exit) -> Exit {
    if report.verdict == Verdict::Unknown {
        return exit;
    }
    let certain = report.primary.as_ref().is_some_and(|primary| primary.confidence == Confidence::Certain);
    if standing.announce(exit == Exit::Bad, certain) { Exit::Bad } else { Exit::Good }
}
