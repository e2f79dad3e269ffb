//! What the diagnosis needs to know of the runtime, the node and the kubelet of a [`Session`], and the diagnosis for `watch`
//! and `record`. [`gather`] reads all of it, and [`judge`] decides.

mod recorded;
#[cfg(test)]
mod replay_tests;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::Error;
use super::flags::kubelet_access::{KubeletAccess, own_socket};
use super::session::Session;
use crate::clock::Clock;
use crate::cri::{CallObserver, Client, Endpoint};
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::report::HealthReport;
use crate::diagnosis::stacks::WantedDump;
use crate::diagnosis::{
    AtEnd, CallersAbandonedCall, CallersPendingCall, HungUmount, Inputs, ItemKind, KubeletInputs,
    LazyKubeletApi, MetricsSource, OutsideId, PodsSource, SimulatedPod, SimulatedProcesses, gather, judge,
};
use crate::host::{self, cpu_and_waiting_time};
use crate::sim::{self, KubeletPages, KubeletProcessState};

/// The default budget.
pub const BUDGET: Duration = Duration::from_secs(30);

/// The process id of a simulated node's kubelet.
pub const SIMULATED_KUBELET: u32 = 813;

/// Runs the diagnosis for `watch`; see [`diagnose_with_facts`].
pub async fn diagnose(
    session: &Session,
    known: Vec<CallersPendingCall>,
    given_up: Vec<CallersAbandonedCall>,
    stacks: WantedDump,
) -> Result<HealthReport, Error> {
    let diagnosis = diagnose_with_facts((session, None), known, given_up, stacks, None);
    diagnosis.await.map(|(report, _)| report)
}

/// Runs the diagnosis for `watch` or `record`. These commands pass their pending calls (`known`) and the calls that
/// they gave up (`given_up`), so that the diagnosis does not repeat them. With `keep_waiting`, calls that hang at the
/// end of the diagnosis stay pending for that time. An observer sees the calls instead of the one of the session. Returns also
/// what it measured.
pub async fn diagnose_with_facts(
    (session, observer): (&Session, Option<Arc<dyn CallObserver>>),
    known: Vec<CallersPendingCall>,
    given_up: Vec<CallersAbandonedCall>,
    stacks: WantedDump,
    keep_waiting: Option<Duration>,
) -> Result<(HealthReport, Evidence), Error> {
    let mut inputs = inputs_of_caller(session, keep_waiting.unwrap_or(BUDGET), known)?;
    if let Some(observer) = observer {
        for client in [&mut inputs.runtime, &mut inputs.control] {
            *client = Arc::new(Client::clone(client).with_observer(Arc::clone(&observer)));
        }
    }
    inputs.callers_abandoned = given_up;
    inputs.at_end = if keep_waiting.is_some() { AtEnd::LeavePending } else { AtEnd::CancelPending };
    // Only a runtime behind a socket can provide a new goroutine dump. A capture keeps the one that it contains.
    if matches!(session.endpoint, Endpoint::Unix { .. }) {
        inputs.stacks = stacks;
    }
    let evidence = Box::pin(gather(&inputs, &|_| ())).await;
    Ok((judge(&evidence), evidence))
}

/// Describes the runtime, the node and the kubelet for another command, which may have pending calls of its own.
pub fn inputs_of_caller(
    session: &Session,
    deadline: Duration,
    known: Vec<CallersPendingCall>,
) -> Result<Inputs<Client>, Error> {
    let api = own_api(&KubeletAccess::default(), session)?;
    let kubelet = KubeletInputs {
        healthz: own_healthz(session),
        metrics: api.clone().map(MetricsSource::Api),
        api,
        ..KubeletInputs::default()
    };
    let mut inputs = inputs(session, (BUDGET, deadline), kubelet)?;
    inputs.callers_pending.extend(known);
    Ok(inputs)
}

/// Describes the runtime, the node and the kubelet of a session for `gather`.
pub fn inputs(
    session: &Session,
    (budget, deadline): (Duration, Duration),
    kubelet: KubeletInputs,
) -> Result<Inputs<Client>, Error> {
    let node = &*session.node;
    let (main, control) = (Arc::new(session.client(deadline)), Arc::new(session.client(deadline)));
    let mut inputs = Inputs::new(main, control, session.clock());
    inputs.endpoint = session.endpoint.to_string();
    inputs.node = session.node_name().unwrap_or_default();
    inputs.host_root = node.host.as_path().to_path_buf();
    inputs.cgroup = node.host.path("/sys/fs/cgroup");
    inputs.budget = budget;
    inputs.kubelet = kubelet;
    inputs.wanted_lists = session.wanted_lists;
    inputs.list_gates = node.list_gates();
    inputs.program_release = node.program_release();
    match &session.endpoint {
        Endpoint::Unix { path, .. } => {
            inputs.socket = session.endpoint.path_on_node().map(PathBuf::from);
            inputs.socket_here = Some(path.clone());
            inputs.commands = true;
            inputs.known_processes = node.take_processes();
            // Only this node's kubelet, and never beside another node's runtime.
            inputs.kubelet.pods = own_socket(node).map(PodsSource::Socket);
        }
        // The processes, kubelet and journal of this machine do not belong to a simulated node, and perhaps
        // not to a capture's node.
        Endpoint::Sim { scenario } => {
            forget_own_healthz(&mut inputs.kubelet);
            inputs.proc = None;
            inputs.outside = Some(Vec::new());
            // This very process serves the answers, so its waits for a processor may delay them.
            inputs.cpu_time = cpu_and_waiting_time;
            add_simulated_processes(&mut inputs, &node.clock, scenario)?;
        }
        Endpoint::Custom { .. } => {
            forget_own_healthz(&mut inputs.kubelet);
            if let Some(playback) = session.playback() {
                recorded::fill_inputs(&mut inputs, playback);
            }
        }
    }
    Ok(inputs)
}

/// Removes the URL of a health check on this machine, because this machine's kubelet does not belong to a simulated or
/// recorded node. A path stays: with `--node`, it goes through the API server to the named node.
fn forget_own_healthz(kubelet: &mut KubeletInputs) {
    kubelet.healthz = kubelet.healthz.take().filter(|url| url.starts_with('/'));
}

/// Adds the processes and the kubelet of a scenario to the inputs, if the scenario has them.
fn add_simulated_processes(
    inputs: &mut Inputs<Client>,
    clock: &Arc<dyn Clock>,
    scenario: &str,
) -> Result<(), Error> {
    let scenario = sim::load(scenario)?;
    let Some(processes) = scenario.processes.clone() else { return Ok(()) };
    // The state letters of /proc/PID/stat.
    let letter = |stopped: bool| if stopped { 'T' } else { 'S' };
    let pods = sim::pod_processes(&scenario, &processes, clock.wall());
    inputs.outside = Some(pods.iter().flat_map(ids_on_node).collect());
    inputs.simulated_journal = sim::kubelet_journal(&scenario, clock.wall());
    inputs.simulated_processes = Some(SimulatedProcesses {
        kubelet: match processes.kubelet {
            KubeletProcessState::Dead => None,
            state => Some((SIMULATED_KUBELET, letter(state == KubeletProcessState::Stopped))),
        },
        has_kubelet: true,
        daemon: None,
        left_over_shims: sim::left_over_shims(&scenario, &processes),
        hung_umounts: sim::deleted_pods(&scenario, clock.wall())
            .into_iter()
            .map(|deleted| HungUmount {
                pod_uid: deleted.pod.uid,
                source: deleted.umount.source,
                by: (deleted.umount.by, deleted.umount.pid),
                age: deleted.umount.since.saturating_sub(deleted.umount.grace),
            })
            .collect(),
        pods: pods
            .into_iter()
            .map(|pod| SimulatedPod {
                sandbox_id: pod.sandbox_id,
                uid: pod.pod.uid,
                shim: if pod.kernel_wait.is_some() { 'D' } else { letter(pod.shim_is_stopped) },
                kernel_wait: pod.kernel_wait.map(|wait| (wait.reason, wait.owner)),
                containers: pod.containers,
            })
            .collect(),
    });
    inputs.kubelet.pods = sim::pod_documents(&scenario, &processes, clock.wall())
        .map(|documents| PodsSource::Simulated(documents.kubelet));
    let url = KubeletPages::new(processes, Arc::clone(clock)).serve().map_err(Error::Start)?;
    inputs.kubelet.healthz = Some(format!("{url}/healthz"));
    inputs.kubelet.metrics.get_or_insert_with(|| MetricsSource::Url(format!("{url}/metrics")));
    Ok(())
}

/// Returns the ids that the processes and the files of the runtime show for a simulated pod.
fn ids_on_node(pod: &sim::PodProcesses) -> Vec<OutsideId> {
    let found =
        |id: &str, kind| OutsideId { kind: Some(kind), pod: Some(pod.pod.clone()), ..OutsideId::bare(id) };
    let containers = pod.containers.iter().map(|(id, name)| OutsideId {
        container: Some(name.clone()),
        sandbox_id: Some(pod.sandbox_id.clone()),
        ..found(id, ItemKind::Container)
    });
    containers.chain([found(&pod.sandbox_id, ItemKind::Sandbox)]).collect()
}

/// Returns the kubelet's API that the user's flags name. Without flags, returns the API of this node's kubelet if the
/// runtime runs on this node.
pub fn own_api(given: &KubeletAccess, session: &Session) -> Result<Option<LazyKubeletApi>, Error> {
    let api = match session.endpoint {
        Endpoint::Unix { .. } => given.api_or_own(&session.node),
        Endpoint::Sim { .. } | Endpoint::Custom { .. } => given.api(&session.node),
    };
    match api {
        Ok(api) => Ok(api.map(LazyKubeletApi::known)),
        // A credential file on a disk that does not answer must not prevent the verdict.
        Err(Error::Credential(why)) if why.is_late() => {
            let why = why.to_string();
            Ok(Some(LazyKubeletApi::made_by(move |_| Err(why.clone()))))
        }
        Err(why) => Err(why),
    }
}

/// Returns the URL of the health check of this node's kubelet, unless the kubelet serves none.
pub fn own_healthz(session: &Session) -> Option<String> {
    let Endpoint::Unix { .. } = session.endpoint else { return Some(default_healthz()) };
    let Some(running) = session.node.kubelet() else { return Some(default_healthz()) };
    let port = running.port("healthz-port", "healthzPort", host::healthz_port());
    let address = running.setting("healthz-bind-address", "healthzBindAddress").ok().flatten();
    let address = address.and_then(|address| address.value.parse::<IpAddr>().ok());
    let address = match address {
        // A kubelet that listens on all addresses also listens on this one.
        Some(address) if !address.is_unspecified() => address,
        _ => Ipv4Addr::LOCALHOST.into(),
    };
    (port != 0).then(|| format!("http://{}/healthz", SocketAddr::new(address, port)))
}

/// Returns the kubelet's default health check.
fn default_healthz() -> String {
    format!("http://127.0.0.1:{}/healthz", host::healthz_port())
}
