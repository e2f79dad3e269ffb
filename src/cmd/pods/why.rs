//! `pods --why NAMESPACE/POD`: shows what keeps a pod from ending or from starting.
//!
//! ```text
//! $ plegctl pods --why shop/db-0
//! shop/db-0 terminates since 44m: umount of 10.1.2.3:/export by csi-nfs[2231] does not return
//! ```
//!
//! The command reads the sources of pods, runs the checks of `health`, and then looks at the processes and mounts of the
//! pod. It makes no call a second time.

use std::cmp::Reverse;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::kubelet_view::KubeletView;
use super::sources;
use super::why_text as text;
use super::{PodsArgs, States};
use crate::clock::Wall;
use crate::cmd::diagnose::{BUDGET, inputs_of_caller};
use crate::cmd::event_loop::block_on;
use crate::cmd::node::Node;
use crate::cmd::render::health::ScreenStyle;
use crate::cmd::session::Session;
use crate::cmd::term::output::Output;
use crate::cmd::term::streams;
use crate::cmd::term::waiting::WaitingLine;
use crate::cmd::{Error, Exit};
use crate::cri::{Endpoint, Sandbox, SandboxState};
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::pod_holders::report::{PodHold, PodWhy};
use crate::diagnosis::pod_holders::{self, Deletion, PodFacts, PodStatus};
use crate::diagnosis::{gather, judge};
use crate::manifests::podconfig::{PodSource, WantedPod};
use crate::manifests::running::source;
use crate::manifests::{Kubelet, PodIdentity};
use crate::report::{PodRef, document, most_similar};
use crate::sim;

/// How long after its binding a pod is certainly known to a kubelet that receives the API server's pods.
const BOUND_FOR: Duration = Duration::from_secs(60);
/// The time limit for the look at the pod, after the checks of `health`.
const LOOK_BUDGET: Duration = Duration::from_secs(15);

/// Runs the command.
pub fn run(arguments: &PodsArgs, node: &Rc<Node>, kubelet: &Kubelet, pod: &str) -> Result<Exit, Error> {
    let identity = arguments.identity(pod);
    let line = WaitingLine::begin(node);
    let report = block_on(line.during(explain_pod(arguments, node, kubelet, &identity, &line)))??;
    arguments.output.print(&document(&report), node.global.style(), |out| match arguments.output {
        Output::Name => text::name(&report, out),
        output => {
            let style = ScreenStyle {
                wide: output == Output::Wide,
                terminal: streams::terminal_size(),
                ..ScreenStyle::default()
            };
            text::screen(&report, out, style)
        }
    })?;
    Ok(match report.state {
        PodHold::Held | PodHold::NotStarting => Exit::Bad,
        PodHold::Starting | PodHold::InGrace | PodHold::Free | PodHold::NotDeleted => Exit::Good,
        PodHold::Unknown => Exit::NoAnswer,
    })
}

async fn explain_pod(
    arguments: &PodsArgs,
    node: &Rc<Node>,
    kubelet: &Kubelet,
    identity: &PodIdentity,
    line: &WaitingLine<'_>,
) -> Result<PodWhy, Error> {
    let session = Session::of_node(node)?;
    let known = Box::pin(KnownPods::read(arguments, node, kubelet));
    let mut known = line.part("the sources of pods", known).await?;
    if let Endpoint::Sim { scenario } = &session.endpoint
        && !arguments.names_a_source()
    {
        known.simulated = sim::deleted_pods(&sim::load(scenario)?, node.clock.wall());
    }
    let mut inputs = inputs_of_caller(&session, BUDGET, Vec::new())?;
    let evidence = line.part("the checks of `plegctl health`", Box::pin(gather(&inputs, &|_| ()))).await;
    let report = judge(&evidence);
    let now = node.clock.wall();
    let in_findings = || {
        let named = report.findings.iter().filter_map(|finding| finding.pod.as_ref());
        let pod = named.into_iter().find(|pod| is_named(pod, identity))?.clone();
        Some(PodFacts { pod, ..PodFacts::default() })
    };
    let facts = known.facts(identity, &evidence, now).or_else(in_findings).ok_or_else(|| Error::Unknown {
        wanted: format!("pod `{}/{}` on this node", identity.namespace, identity.name),
        nearest: known.nearest(identity, &evidence),
        list: known.list(),
    })?;
    inputs.began = node.clock.mono();
    inputs.budget = LOOK_BUDGET;
    let look = Box::pin(pod_holders::look(&inputs, &evidence, &facts));
    let look = line.part("the pod's processes and mounts", look).await;
    Ok(pod_holders::judge(&evidence, &report, &facts, &look, now))
}

/// The pods that the sources and the kubelet have.
#[derive(Default)]
struct KnownPods {
    states: States,
    /// The kubelet's own pods; `None` if the kubelet was not queried or did not answer.
    kubelet: Option<Vec<Arc<WantedPod>>>,
    /// The pods of a scenario that are being deleted.
    simulated: Vec<sim::DeletedPod>,
}

impl KnownPods {
    /// Reads every source that can be read. A pod may be held without any of them, so an error is only a remark.
    async fn read(arguments: &PodsArgs, node: &Node, kubelet: &Kubelet) -> Result<Self, Error> {
        let configured = match sources::configured(arguments, node, kubelet) {
            Ok(configured) => Some(configured),
            Err(Error::NoSource) => None,
            Err(why) => return Err(why),
        };
        let view = KubeletView::chosen_by(arguments, node, None)?;
        let states = async {
            let (states, rows, _) = sources::read_once(configured?, &*node.clock).await;
            for row in rows {
                if let Some(why) = row.error {
                    node.remark(&format!("source {}: {why}", row.name));
                }
            }
            Some(states)
        };
        let of_kubelet = async {
            let pods = view.read(node).await?;
            let pods =
                pods.inspect_err(|why| node.remark(&format!("the kubelet's own pods are not known: {why}")));
            Some(pods.ok()?.pods.values().filter_map(|pod| pod.wanted().map(Arc::new)).collect())
        };
        let (states, of_kubelet) = tokio::join!(states, of_kubelet);
        Ok(Self { states: states.unwrap_or_default(), kubelet: of_kubelet, simulated: Vec::new() })
    }

    /// Returns the command that lists the pods with this one among them. A manifest that the kubelet refuses has no pod.
    fn list(&self) -> &'static str {
        if self.states.values().any(|state| !state.refused.is_empty()) {
            "pods lists also the manifests that the kubelet refuses, with the reasons"
        } else {
            "relist -o name lists the pods that the runtime has"
        }
    }

    fn of_source(&self, source: PodSource) -> Option<&[Arc<WantedPod>]> {
        self.states.get(&source)?.pods.as_deref()
    }

    /// Returns the pods of all sources and of the kubelet. A mirror pod stands for a static pod with another UID, and is
    /// left out.
    fn all(&self) -> impl Iterator<Item = &Arc<WantedPod>> {
        let of_sources = self.states.values().filter_map(|state| state.pods.as_deref()).flatten();
        of_sources.chain(self.kubelet.iter().flatten()).filter(|pod| pod.mirror_of.is_none())
    }

    /// Returns what is known about the pod with this name; `None` if neither a source nor the runtime has it.
    fn facts(&self, identity: &PodIdentity, evidence: &Evidence, now: Wall) -> Option<PodFacts> {
        let is_it = |pod: &&&Arc<WantedPod>| pod.identity == *identity;
        if let Some(known) = self.simulated.iter().find(|pod| is_named(&pod.pod, identity)) {
            return Some(simulated_facts(known, now));
        }
        let mut found: Vec<&Arc<WantedPod>> = self.all().filter(|pod| is_it(&pod)).collect();
        // A pod that is being deleted precedes another one of the same name.
        found.sort_by_key(|pod| !pod.is_terminating());
        let best = found.first();
        let in_runtime = running(identity, evidence);
        let other = in_runtime.iter().find(|(pod, is_alive, _)| {
            *is_alive && best.is_none_or(|best| best.known_uid() != Some(pod.uid.as_str()))
        });
        match (best, other) {
            (Some(best), _) if best.is_terminating() => Some(self.facts_of(best, now)),
            // The runtime still runs a pod that its source has dropped or replaced.
            (_, Some((pod, _, source))) if self.has_dropped(pod, *source) => {
                // Only of a static pod does the kubelet start the new version after the end of the old one.
                let is_replaced = best.is_some() && *source != Some(PodSource::Api);
                let deletion = if is_replaced { Deletion::Replaced } else { Deletion::Gone };
                Some(PodFacts { pod: pod.clone(), deletion, ..PodFacts::default() })
            }
            (Some(best), _) => Some(self.facts_of(best, now)),
            (None, _) => {
                let (pod, _, source) = other.or(in_runtime.first())?;
                let is_gone = self.has_dropped(pod, *source);
                let deletion = if is_gone { Deletion::Gone } else { Deletion::Unknown };
                Some(PodFacts { pod: pod.clone(), deletion, ..PodFacts::default() })
            }
        }
    }

    /// Returns what the sources and the kubelet say about a pod. The kubelet's status is newer than that of the API server.
    fn facts_of(&self, pod: &WantedPod, now: Wall) -> PodFacts {
        let in_kubelet = self.kubelet.iter().flatten().find(|known| known.uid == pod.uid);
        let of_kubelet = in_kubelet.and_then(|pod| PodStatus::of(&pod.status.read(), "the kubelet"));
        let status = of_kubelet.or_else(|| PodStatus::of(&pod.status.read(), "the API server"));
        // A kubelet without any pod of the API server may have just started.
        let of_api = |pods: &[Arc<WantedPod>]| {
            pods.iter().any(|known| self.kubelet.iter().flatten().any(|pod| pod.uid == known.uid))
        };
        let is_settled = self.of_source(PodSource::Api).is_some_and(of_api);
        let is_old = status
            .as_ref()
            .and_then(|status| status.since)
            .is_some_and(|since| now.duration_since(since) > BOUND_FOR);
        let is_unknown_to_kubelet = is_settled && is_old && in_kubelet.is_none();
        PodFacts { status, is_unknown_to_kubelet, ..facts_of(pod) }
    }

    /// Whether the source that this pod of the runtime came from was read and does not have the pod.
    fn has_dropped(&self, pod: &PodRef, source: Option<PodSource>) -> bool {
        let read = source.and_then(|source| self.of_source(source));
        read.is_some_and(|pods| {
            // The UID of a static pod is not known for every file.
            pods.iter().all(|wanted| wanted.known_uid().is_some_and(|uid| uid != pod.uid))
        })
    }

    /// Returns the most similar name of a known pod.
    fn nearest(&self, identity: &PodIdentity, evidence: &Evidence) -> Option<String> {
        let listed = evidence.runtime.sandboxes.items().into_iter().flatten();
        let listed = listed.filter_map(|sandbox| sandbox.metadata.as_ref());
        let names: Vec<String> = listed
            .map(|metadata| format!("{}/{}", metadata.namespace, metadata.name))
            .chain(self.all().map(|pod| format!("{}/{}", pod.identity.namespace, pod.identity.name)))
            .collect();
        let typed = format!("{}/{}", identity.namespace, identity.name);
        let same_name = || names.iter().find(|name| name.ends_with(&format!("/{}", identity.name))).cloned();
        let similar = most_similar(&typed, names.iter().map(String::as_str)).map(str::to_owned);
        similar.or_else(same_name)
    }
}

fn is_named(pod: &PodRef, identity: &PodIdentity) -> bool {
    pod.namespace == identity.namespace && pod.name == identity.name
}

/// Returns the runtime's pods with this name, the newest first: whether the sandbox is ready, and the kubelet's source.
fn running(identity: &PodIdentity, evidence: &Evidence) -> Vec<(PodRef, bool, Option<PodSource>)> {
    let mut sandboxes: Vec<_> = evidence.runtime.sandboxes.latest().into_iter().flatten().collect();
    sandboxes.sort_by_key(|sandbox| Reverse(sandbox.created_at));
    let pod = |sandbox: &&Sandbox| {
        let metadata = sandbox.metadata.as_ref()?;
        let (uid, namespace) = (metadata.uid.clone(), metadata.namespace.clone());
        let pod = PodRef { uid, namespace, name: metadata.name.clone() };
        let is_ready = sandbox.state == SandboxState::Ready;
        is_named(&pod, identity).then(|| (pod, is_ready, source(sandbox)))
    };
    sandboxes.iter().filter_map(pod).collect()
}

fn facts_of(pod: &WantedPod) -> PodFacts {
    let deletion = match pod.deletion_at() {
        Some(at) => Deletion::Requested { at, grace: pod.content.grace.read().as_u64() },
        None => Deletion::NotRequested,
    };
    let PodIdentity { namespace, name } = pod.identity.clone();
    let facts = PodFacts {
        pod: PodRef { uid: pod.known_uid().unwrap_or_default().to_owned(), namespace, name },
        deletion,
        finalizers: pod.finalizer_names(),
        ..PodFacts::default()
    };
    facts.with_spec(&pod.content.spec.read())
}

fn simulated_facts(deleted: &sim::DeletedPod, now: Wall) -> PodFacts {
    let sim::SimulatedUmount { since, grace, .. } = deleted.umount;
    PodFacts {
        pod: deleted.pod.clone(),
        deletion: Deletion::Requested { at: now.minus(since).plus(grace), grace: Some(grace.as_secs()) },
        has_remote_volume: true,
        ..PodFacts::default()
    }
}
