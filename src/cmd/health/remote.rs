//! `health --node NAME` on another machine than the node: reads the verdict of the node's recorder through the API
//! server. Without a recorder's answer, judges the node by the endpoints of its kubelet. The report says which source was
//! used, and why the recorder was not.
//!
//! Each request has a part of the budget as its time limit, so that the whole run stays within the budget.

use std::sync::Arc;
use std::time::Duration;

use super::{BUDGET, HealthArgs};
use crate::cmd::Error;
use crate::cmd::context::Context;
use crate::cmd::recorder_pages::RecorderVerdict;
use crate::cmd::remote_node;
use crate::diagnosis::not_ready::NotReady;
use crate::diagnosis::report::{KubeletReport, NotChecked, Phase, ReportSource, SourceKind, Verdict};
use crate::diagnosis::{HealthReport, VerdictFacts, verdict};
use crate::fleet::{self, FleetRequest, ListedNode, NodeReady, NodeReport, RecorderPods};
use crate::kubelet::http;
use crate::kubelet::kubeconfig::Cluster;
use crate::report::RuntimeRef;

/// The maximum number of requests in a row: the node, the pods of all namespaces and of one, the verdicts of two
/// recorders, and three requests to the kubelet.
const REQUESTS: u32 = 8;

/// Whether `health` judges the node from outside: the user named a node but no runtime, and the runtime of that node is
/// not on this machine.
pub(super) fn is_wanted(arguments: &HealthArgs, context: &Context) -> bool {
    let Some(node) = &arguments.node else { return false };
    let is_here = || context.endpoint().is_ok() && context.node_name().as_ref() == Some(node);
    arguments.from.is_none() && !arguments.npd && !context.names_a_runtime() && !is_here()
}

impl HealthArgs {
    /// Returns the flag that needs the runtime, if the user gave one.
    pub(super) fn flag_for_the_runtime(&self) -> Option<&'static str> {
        let flags = [
            (self.bundle.is_some(), "--bundle"),
            (self.deep, "--deep"),
            (self.trace, "--trace"),
            (self.probe_shims, "--probe-shims"),
            (self.state.is_some(), "--state"),
            (self.proc.is_some(), "--proc"),
            (self.stacks != "auto", "--stacks"),
            (self.kubelet_metrics.is_some(), "--kubelet-metrics"),
            (self.kubelet_healthz.is_some(), "--kubelet-healthz"),
        ];
        flags.into_iter().find(|(given, _)| *given).map(|(_, flag)| flag)
    }
}

/// Judges the node that the user named.
pub(super) async fn diagnose(
    arguments: &HealthArgs,
    context: &Context,
    node: &str,
) -> Result<HealthReport, Error> {
    if let Some(flag) = arguments.flag_for_the_runtime() {
        return Err(Error::NeedsRuntime { flag, node: node.to_owned() });
    }
    let started = context.clock.mono();
    let timeout = arguments.budget.unwrap_or(BUDGET) / REQUESTS;
    let cluster =
        remote_node::cluster(arguments.kubeconfig.clone(), arguments.context.as_deref(), timeout, context)?;
    let mut report = judge_node(&cluster, node, timeout, context).await?;
    report.duration_seconds = context.clock.mono().since(started).as_secs_f64();
    Ok(report)
}

/// Judges a node by its recorder, else by its kubelet. Each request has the time limit `timeout`.
pub async fn judge_node(
    cluster: &Arc<Cluster>,
    node: &str,
    timeout: Duration,
    context: &Context,
) -> Result<HealthReport, Error> {
    let mut not_checked = Vec::new();
    let mut skip = |what: &str, why: String| not_checked.push(NotChecked { what: what.to_owned(), why });
    let listed = match fleet::node(cluster, node, timeout).await {
        Ok(listed) => listed,
        Err(fleet::Error::Node { why: why @ http::Error::Forbidden { .. }, .. }) => {
            skip("the node's condition Ready", why.to_string());
            ListedNode { name: node.to_owned(), ..ListedNode::default() }
        }
        Err(why) => return Err(why.into()),
    };
    let mut report = match of_recorder(cluster, &listed, timeout).await {
        Ok(report) => report,
        Err(why) => of_kubelet(cluster, listed, timeout, context, why).await,
    };
    skip(
        "the runtime",
        "plegctl does not run on this node; on the node, use -r for a runtime of its own".to_owned(),
    );
    report.not_checked.splice(0..0, not_checked);
    Ok(report)
}

/// Returns the report of the node's recorder, or why there is none.
async fn of_recorder(
    cluster: &Cluster,
    listed: &ListedNode,
    timeout: Duration,
) -> Result<HealthReport, String> {
    let pods = fleet::recorder_pods(cluster, &listed.name, None, timeout).await;
    let pods = pods.map_err(|why| why.to_string())?;
    if pods.is_empty() {
        return Err(format!("no running pod of it was found on {}", listed.name));
    }
    let answer = remote_node::first_answer(pods, async |pod| {
        let answer = pod.verdict(cluster, timeout).await.map_err(|why| why.to_string())?;
        let verdict = remote_node::parse::<RecorderVerdict>(&answer.text, "RecorderVerdict");
        let unusable = |why| format!("the answer of {} is no verdict: {why}", pod.full_name());
        Ok((verdict.map_err(unusable)?, answer.date))
    });
    let ((verdict, date), pod) = answer.await?;
    let ahead = fleet::clock_ahead(verdict.taken_at, date);
    let mut report = verdict.into_report();
    report.node.clone_from(&listed.name);
    if let Some(source) = &mut report.source {
        source.pod = Some(pod);
        source.clock_ahead_seconds = (ahead != 0.0).then_some(ahead);
    }
    apply_condition(listed, &mut report);
    Ok(report)
}

/// Applies the node's condition `Ready`: it has the time since which the node is not ready, and such a node is never healthy,
/// whatever its recorder sees.
fn apply_condition(listed: &ListedNode, report: &mut HealthReport) {
    let Some(ready) = &listed.ready else { return };
    let (word, message) = match ready {
        NodeReady::No(message) => ("NotReady", message),
        NodeReady::Unknown(message) => ("not known to be ready", message),
        NodeReady::Yes => return confirm_ready(report),
    };
    let now = report.taken_at;
    if let (Verdict::Unhealthy, Some(_), Some(since)) = (report.verdict, &report.primary, listed.ready_since)
    {
        report.set_not_ready(NotReady::Since(since), now);
        return;
    }
    let since = listed.ready_since.map(|since| format!(" since {}", since.time_of_day(now)));
    let condition = format!("the node is {word}{}: {message}", since.unwrap_or_default());
    report.summary = match report.verdict {
        Verdict::Healthy => format!("the recorder sees no fault, but {condition}"),
        _ => format!("{}; {condition}", report.summary),
    };
    let reported = Some(report.verdict);
    report.verdict = verdict(&listed.add_ready(VerdictFacts { reported, ..VerdictFacts::default() }));
}

/// Corrects the summary of a node that is still ready although the predicted time is over.
fn confirm_ready(report: &mut HealthReport) {
    let is_over = matches!(report.not_ready(), Some(NotReady::AtLatest(at)) if at <= report.taken_at);
    if let Some(primary) = report.primary.as_ref().filter(|_| is_over) {
        report.summary = format!("{}; the node is still Ready", primary.title);
    }
}

/// Judges the node by the endpoints of its kubelet.
async fn of_kubelet(
    cluster: &Arc<Cluster>,
    listed: ListedNode,
    timeout: Duration,
    context: &Context,
    no_recorder: String,
) -> HealthReport {
    let request = FleetRequest { selector: None, concurrency: 1, timeout };
    let name = listed.name.clone();
    let nodes = vec![listed];
    let readings =
        fleet::read_nodes(cluster, nodes, RecorderPods::default(), &request, &context.clock, |_| ()).await;
    let judged = fleet::judge(&readings, None, &cluster.server, &cluster.context);
    let node = judged.nodes.into_iter().next().unwrap_or(NodeReport { name, ..NodeReport::default() });
    let verdict = node.judged;
    let age = node.pleg_age_seconds;
    let mut summary = node.why.unwrap_or_else(|| match age {
        Some(age) => format!("PLEG was last seen {age:.0} s ago"),
        None => "nothing is known about its PLEG".to_owned(),
    });
    if verdict == Verdict::Healthy {
        summary.push_str("; not looked at: the runtime, its shims and the node's disks");
    }
    HealthReport {
        api_version: HealthReport::API_VERSION.to_owned(),
        kind: HealthReport::KIND.to_owned(),
        taken_at: judged.taken_at,
        moment: None,
        trace_id: None,
        source: Some(ReportSource {
            kind: SourceKind::Kubelet,
            pod: None,
            since: None,
            incident: None,
            diagnosis_age_seconds: None,
            last_relist_age_seconds: None,
            clock_ahead_seconds: None,
            no_recorder: Some(no_recorder),
        }),
        node: node.name,
        runtime: RuntimeRef {
            name: node.runtime.as_ref().map(|runtime| runtime.name.clone()),
            version: node.runtime.map(|runtime| runtime.version),
            ..RuntimeRef::default()
        },
        list_calls: None,
        duration_seconds: 0.0,
        verdict,
        phase: Phase::None,
        summary,
        primary: None,
        findings: Vec::new(),
        culprits: Vec::new(),
        probes: Vec::new(),
        abandoned_calls: 0,
        not_checked: Vec::new(),
        estimate: None,
        kubelet: Some(KubeletReport {
            version: node.kubelet_version,
            pleg_age_seconds: age,
            discarded_events: node.discarded_events,
            evented_pleg: node.evented_pleg,
            ..KubeletReport::default()
        }),
        keep: Vec::new(),
        stacks: None,
    }
}
