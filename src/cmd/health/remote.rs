//! `health --node NAME` on another machine than the node: reads the verdict of the node's recorder through the API
//! server. Without a recorder's answer, judges the node by the endpoints of its kubelet. The report says which source was
//! used, and why the recorder was not.
//!
//! With the recorder's token, reads also what its last diagnosis measured, and judges that with the rules of this plegctl.
//!
//! Each request has a part of the budget as its time limit, so that the whole run stays within the budget.

use std::sync::Arc;
use std::time::Duration;

use super::HealthArgs;
use super::saved::{self, MeasuredPart};
use crate::capture::recorder_verdict::RecorderVerdict;
use crate::clock::{Mono, Wall};
use crate::cmd::Error;
use crate::cmd::flags::remote_node::{self, NamespaceToken};
use crate::cmd::node::Node;
use crate::cmd::prediction;
use crate::diagnosis::input_file::InputFile;
use crate::diagnosis::not_ready::NotReady;
use crate::diagnosis::outside::{self, OutsideFacts, OutsideFindings, OutsidePod};
use crate::diagnosis::report::{
    Confidence, KubeletReport, NotChecked, Phase, ReportSource, SourceKind, SuspectReport, Verdict,
};
use crate::diagnosis::{HealthReport, RunFacts, VerdictFacts, judge_earlier, limit_severity, verdict};
use crate::fleet::{
    self, FleetRequest, KubeletDumps, ListedNode, NodeObjects, NodeReading, NodeReady, NodeReport,
    NodeVerdict, ObjectsRequest, RecorderPod, RecorderPods,
};
use crate::kubelet::kubeconfig::Cluster;
use crate::kubelet::{KubeletApi, http};
use crate::report::RuntimeRef;

/// The maximum number of requests in a row: the node, the pods of all namespaces and of one, the verdicts of two
/// recorders, and three requests to the kubelet.
const REQUESTS: u32 = 8;

/// The additional requests with a token: the facts of two recorders.
const REQUESTS_FOR_FACTS: u32 = 2;

/// Whether `health` judges the node from outside: the user wants this, or named a node that is not this machine.
pub(super) fn is_wanted(arguments: &HealthArgs, here: &Node) -> bool {
    arguments.node.as_ref().is_some_and(|node| arguments.no_recorder || !here.is_node(node))
}

impl HealthArgs {
    /// Returns the flag that needs the runtime, if the user gave one.
    pub(super) fn flag_for_the_runtime(&self) -> Option<&'static str> {
        let flags = [
            (self.probe_shims, "--probe-shims"),
            (self.state.is_some(), "--state"),
            (self.proc.is_some(), "--proc"),
            (!matches!(self.stacks.as_str(), "auto" | "never"), "--stacks"),
            (self.kubelet_metrics.is_some(), "--kubelet-metrics"),
            (self.kubelet_healthz.is_some(), "--kubelet-healthz"),
        ];
        flags.into_iter().find(|(given, _)| *given).map(|(_, flag)| flag)
    }
}

/// Judges the node that the user named. Returns also what was read, for a bundle.
pub(super) async fn diagnose(
    arguments: &HealthArgs,
    here: &Node,
    node: &str,
) -> Result<(HealthReport, Vec<InputFile>), Error> {
    if let Some(flag) = arguments.flag_for_the_runtime() {
        return Err(Error::NeedsRuntime { flag, node: node.to_owned() });
    }
    let started = here.clock.mono();
    let token = arguments.token.read()?;
    let budget = arguments.budget();
    let requests = REQUESTS + token.as_ref().map_or(0, |_| REQUESTS_FOR_FACTS);
    let look = OutsideLook {
        timeout: budget / requests,
        deadline: started.plus(budget),
        dumps: match arguments.stacks.as_str() {
            "auto" if arguments.deep => WantedDumps::Always,
            "auto" => WantedDumps::IfSuspicious,
            _ => WantedDumps::Never,
        },
        recorder: !arguments.no_recorder,
        keep: arguments.bundle.is_some(),
        token: token.as_ref(),
        here,
    };
    let (file, name) = (arguments.kubeconfig.clone(), arguments.context.as_deref());
    let cluster = remote_node::cluster(file, name, look.timeout, &here.global)?;
    let (mut report, read) = Box::pin(look_at(&cluster, node, &look)).await?;
    report.duration_seconds = here.clock.mono().since(started).as_secs_f64();
    Ok((report, read))
}

/// When the goroutines of a kubelet are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WantedDumps {
    Never,
    /// Unless PLEG is healthy.
    IfSuspicious,
    Always,
}

/// How a node is looked at from outside.
struct OutsideLook<'a> {
    /// The time limit of one request.
    timeout: Duration,
    /// When the last request must have ended.
    deadline: Mono,
    /// When the kubelet's goroutines are read.
    dumps: WantedDumps,
    /// Whether the node's recorder is asked first.
    recorder: bool,
    /// Whether what is read is kept for a bundle.
    keep: bool,
    /// The recorder's token. With it, what the recorder measured is judged.
    token: Option<&'a NamespaceToken>,
    here: &'a Node,
}

impl OutsideLook<'_> {
    /// Whether a goroutine dump is worth what it costs the kubelet. An unreachable kubelet gives none.
    fn wants_dumps(&self, node: &NodeReport) -> bool {
        let is_suspicious = node.judged != Verdict::Healthy && node.verdict != NodeVerdict::Unreachable;
        match self.dumps {
            WantedDumps::Never => false,
            WantedDumps::IfSuspicious => is_suspicious,
            WantedDumps::Always => true,
        }
    }
}

impl OutsideLook<'_> {
    /// Reads the events of the suspects in the time that is left.
    async fn read_events(
        &self,
        cluster: &Cluster,
        pods: &mut [OutsidePod],
        suspects: &[SuspectReport],
        from: Wall,
    ) -> Option<NotChecked> {
        let left = self.deadline.since(self.here.clock.mono());
        let requests = u32::try_from(suspects.len()).unwrap_or(u32::MAX).max(1);
        fleet::read_events(cluster, pods, suspects, from, self.timeout.min(left / requests)).await
    }
}

/// Judges a node by its recorder, else by its kubelet.
async fn look_at(
    cluster: &Arc<Cluster>,
    node: &str,
    look: &OutsideLook<'_>,
) -> Result<(HealthReport, Vec<InputFile>), Error> {
    let timeout = look.timeout;
    let mut not_checked = Vec::new();
    let mut skip = |what: &str, why: &str| not_checked.push(NotChecked::new(what, why));
    let listed = match fleet::node(cluster, node, timeout).await {
        Ok(listed) => listed,
        Err(fleet::Error::Node { why: why @ http::Error::Forbidden { .. }, .. }) => {
            skip("the node's condition Ready", &why.to_string());
            ListedNode { name: node.to_owned(), ..ListedNode::default() }
        }
        Err(why) => return Err(why.into()),
    };
    let recorders = if look.recorder {
        of_recorder(cluster, &listed, look).await
    } else {
        Err("not asked (--no-recorder)".to_owned())
    };
    let (mut report, read) = match recorders {
        Ok(report) => (report, Vec::new()),
        Err(why) => Box::pin(of_kubelet(cluster, listed, look, why)).await,
    };
    skip("the runtime", "plegctl does not run on this node");
    report.not_checked.splice(0..0, not_checked);
    Ok((report, read))
}

/// Returns the report of the node's recorder, or why there is none.
async fn of_recorder(
    cluster: &Cluster,
    listed: &ListedNode,
    look: &OutsideLook<'_>,
) -> Result<HealthReport, String> {
    let &OutsideLook { token, timeout, here, .. } = look;
    let pods = fleet::find_recorders_on(cluster, &listed.name, None, timeout).await;
    let pods = pods.map_err(|why| why.to_string())?;
    if pods.is_empty() {
        return Err(format!("no running pod of it was found on {}", listed.name));
    }
    let answer = remote_node::first_answer(pods, async |pod| {
        let token = token.filter(|token| pod.is_in(&token.namespace));
        let no_facts = match token {
            None => None,
            Some(token) => match answer_with_facts(pod, cluster, token, timeout).await {
                Ok(answer) => return Ok(answer),
                Err(why) => Some(why),
            },
        };
        let answer = pod.verdict(cluster, timeout).await.map_err(|why| why.to_string())?;
        let verdict = parse_verdict(pod, &answer.text)?;
        let verdict = RecorderVerdict { no_facts: no_facts.or(verdict.no_facts), ..verdict };
        Ok(RecorderReport { date: answer.date, ..RecorderReport::from_verdict(verdict) })
    });
    let (RecorderReport { mut report, note, date }, pod) = answer.await?;
    if let Some(note) = note {
        here.remark(&note);
    }
    let ahead = fleet::clock_ahead(report.taken_at, date);
    report.node.clone_from(&listed.name);
    if let Some(source) = &mut report.source {
        source.pod = Some(pod);
        source.clock_ahead_seconds = (ahead != 0.0).then_some(ahead);
    }
    apply_condition(listed, &mut report);
    Ok(report)
}

/// The report of a recorder.
struct RecorderReport {
    report: HealthReport,
    /// How it differs from what the recorder reports, if it was judged again.
    note: Option<String>,
    /// The API server's time in seconds since the epoch.
    date: Option<f64>,
}

/// Reads the verdict with facts, and judges them. Returns an error if there is no usable answer with facts.
async fn answer_with_facts(
    pod: &RecorderPod,
    cluster: &Cluster,
    token: &NamespaceToken,
    timeout: Duration,
) -> Result<RecorderReport, String> {
    let answer = pod.verdict_with_facts(cluster, &token.header, timeout).await;
    let answer = answer.map_err(|why| why.to_string())?;
    let verdict = parse_verdict(pod, &answer.text)?;
    let unusable = |why: serde_json::Error| format!("the facts of {} cannot be read: {why}", pod.full_name());
    let part: MeasuredPart<'_> = serde_json::from_str(&answer.text).map_err(unusable)?;
    let report = match (part.measured, part.verdict_facts) {
        (Some(measured), Some(facts)) => judged_again(verdict, measured.get().as_bytes(), &facts),
        _ => RecorderReport::from_verdict(verdict),
    };
    Ok(RecorderReport { date: answer.date, ..report })
}

fn parse_verdict(pod: &RecorderPod, text: &str) -> Result<RecorderVerdict, String> {
    remote_node::parse(text, "RecorderVerdict")
        .map_err(|why| format!("the answer of {} is no verdict: {why}", pod.full_name()))
}

/// Judges what the diagnosis of a recorder measured.
fn judged_again(said: RecorderVerdict, measured: &[u8], facts: &VerdictFacts) -> RecorderReport {
    let measured = match RunFacts::read(measured) {
        Ok(measured) => measured,
        Err(why) => {
            let note = Some(saved::unreadable(&why));
            return RecorderReport { note, ..RecorderReport::from_verdict(said) };
        }
    };
    let measured_by = measured.plegctl().to_owned();
    let mut found = judge_earlier(&measured.into());
    let of_recorder = said.clone().into_report();
    prediction::keep(&mut found, prediction::prediction(&of_recorder).as_ref());
    let judged = said.with_diagnosis(&found, facts).into_report();
    let note = (judged != of_recorder).then(|| saved::difference(&measured_by, &judged, &of_recorder));
    let report = HealthReport {
        primary: found.primary,
        findings: found.findings,
        probes: found.probes,
        abandoned_calls: found.abandoned_calls,
        not_checked: found.not_checked,
        kubelet: found.kubelet,
        ..judged
    };
    RecorderReport { report, note, date: None }
}

impl RecorderReport {
    /// Takes over the recorder's verdict.
    fn from_verdict(verdict: RecorderVerdict) -> Self {
        let no_facts = verdict.no_facts.clone();
        let mut report = verdict.into_report();
        let what = "the facts of the recorder's diagnosis";
        report.not_checked.extend(no_facts.map(|why| NotChecked::new(what, why)));
        Self { report, note: None, date: None }
    }
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
    if add_not_ready_since(listed, report) {
        return;
    }
    let now = report.taken_at;
    let since = listed.ready_since.map(|since| format!(" since {}", since.time_of_day(now)));
    let condition = format!("the node is {word}{}: {message}", since.unwrap_or_default());
    report.summary = match report.verdict {
        Verdict::Healthy => format!("the recorder sees no fault, but {condition}"),
        _ => format!("{}; {condition}", report.summary),
    };
    let reported = Some(report.verdict);
    report.verdict = verdict(&listed.add_ready(VerdictFacts { reported, ..VerdictFacts::default() }));
}

/// Adds to the summary since when an unhealthy node has not been ready, by its condition. Returns whether that is possible.
fn add_not_ready_since(listed: &ListedNode, report: &mut HealthReport) -> bool {
    let is_ready = matches!(listed.ready, None | Some(NodeReady::Yes));
    let is_named = report.primary.as_ref().is_some_and(|primary| primary.confidence != Confidence::Possible);
    let is_due = report.verdict == Verdict::Unhealthy && is_named && !is_ready;
    let since = listed.ready_since.filter(|_| is_due);
    if let Some(since) = since {
        report.set_not_ready(NotReady::Since(since), report.taken_at);
    }
    since.is_some()
}

/// Corrects the summary of a node that is still ready although the predicted time is over.
fn confirm_ready(report: &mut HealthReport) {
    let is_over = matches!(report.not_ready(), Some(NotReady::AtLatest(at)) if at <= report.taken_at);
    if let Some(primary) = report.primary.as_ref().filter(|_| is_over) {
        report.summary = format!("{}; the node is still Ready", primary.title);
    }
}

/// Reads the kubelet's documents and, unless they show that PLEG is healthy, its goroutines, and judges the node by them.
async fn of_kubelet(
    cluster: &Arc<Cluster>,
    listed: ListedNode,
    look: &OutsideLook<'_>,
    no_recorder: String,
) -> (HealthReport, Vec<InputFile>) {
    let request = FleetRequest { selector: None, concurrency: 1, timeout: look.timeout };
    let clock = &look.here.clock;
    let nodes = vec![listed.clone()];
    let readings = fleet::read_nodes(cluster, nodes, RecorderPods::default(), &request, clock, |_| ()).await;
    let judged = fleet::judge(&readings, None, &cluster.server, &cluster.context);
    let node = judged.nodes.into_iter().next();
    let node = node.unwrap_or(NodeReport { name: listed.name.clone(), ..NodeReport::default() });
    let facts = readings.readings.first();
    let mut facts = facts.map(|reading| outside_facts(reading, judged.taken_at)).unwrap_or_default();
    (facts.age, facts.threshold) = (node.facts.age, node.facts.threshold);
    let from = facts.last_seen.or(facts.taken_at).unwrap_or(judged.taken_at);
    let wants_dumps = look.wants_dumps(&node);
    let left = look.deadline.since(clock.mono());
    let request = ObjectsRequest {
        now: facts.taken_at.unwrap_or(judged.taken_at),
        from,
        answers_metrics: readings.readings.first().is_some_and(|reading| reading.metrics.is_ok()),
        is_healthy: !wants_dumps,
        timeout: look.timeout.min(left / 4),
        keep: look.keep,
    };
    let read_objects = || fleet::read_objects(cluster, &listed, request);
    let (mut objects, mut dumps) = (NodeObjects::default(), KubeletDumps::default());
    if wants_dumps {
        let kubelet = KubeletApi::through(cluster, &listed.name);
        let meanwhile = async { objects = read_objects().await };
        dumps = Box::pin(fleet::read_dumps(&kubelet, &**clock, look.deadline, look.keep, meanwhile)).await;
    } else if node.judged == Verdict::Healthy {
        objects = read_objects().await;
    }
    dumps.not_checked.extend(objects.not_checked);
    dumps.input_files.extend(objects.input_files);
    (facts.pods, facts.log, facts.failing) = (objects.pods, objects.log, objects.failing);
    facts.calls = dumps.calls.take();
    let mut found = outside::find(&facts);
    if !found.suspects.is_empty() {
        let refused = look.read_events(cluster, &mut facts.pods, &found.suspects, from).await;
        dumps.not_checked.extend(refused);
        found = outside::find(&facts);
    }
    let node = NodeReport { judged: verdict(&found.add_to(node.facts)), ..node };
    let read = std::mem::take(&mut dumps.input_files);
    let mut report = report_of(node, judged.taken_at, found, dumps, no_recorder);
    add_not_ready_since(&listed, &mut report);
    (report, read)
}

/// Returns what the kubelet's documents show, apart from its age. Without a time of the API server, plegctl's is taken.
fn outside_facts(reading: &NodeReading, taken_at: Wall) -> OutsideFacts {
    let config = reading.configz.as_ref().map(|configz| &configz.config);
    let listed = &reading.listed;
    let seen = reading.metrics.as_ref().ok().and_then(|metrics| metrics.metrics.last_seen);
    OutsideFacts {
        node: listed.name.clone(),
        provider_id: listed.provider_id.clone(),
        taken_at: reading.measured_at().or(listed.sent_at).or(Some(taken_at)),
        last_seen: seen.map(fleet::wall).or_else(|| listed.last_relist()),
        metrics_are_silent: reading.answers_after,
        is_reported: listed.ready.as_ref().is_some_and(NodeReady::is_about_pleg),
        gives_up: config.and_then(|config| Some(config.request_timeout.as_ref()?.value)),
        ..OutsideFacts::default()
    }
}

/// Returns the report about a node that was judged by its kubelet.
fn report_of(
    node: NodeReport,
    taken_at: Wall,
    found: OutsideFindings,
    dumps: KubeletDumps,
    no_recorder: String,
) -> HealthReport {
    let OutsideFindings { mut findings, suspects, keep, .. } = found;
    limit_severity(node.judged, &mut findings);
    let age = node.pleg_age_seconds;
    let named = findings.first().filter(|primary| primary.confidence != Confidence::Possible);
    let why = node.why.or_else(|| age.map(|age| format!("PLEG was last seen {age:.0} s ago")));
    let mut summary = match (named, why) {
        (Some(primary), Some(why)) if node.judged == Verdict::Unknown => format!("{}; {why}", primary.title),
        (Some(primary), _) => primary.title.clone(),
        (None, Some(why)) => why,
        (None, None) => "nothing is known about its PLEG".to_owned(),
    };
    if node.judged == Verdict::Healthy {
        summary.push_str("; not looked at: the runtime, its shims and the node's disks");
    }
    HealthReport {
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
        verdict: node.judged,
        phase: findings.first().map_or(Phase::None, |primary| primary.phase),
        summary,
        primary: findings.first().cloned(),
        findings,
        suspects,
        probes: dumps.probes,
        not_checked: dumps.not_checked,
        kubelet: Some(KubeletReport {
            version: node.kubelet_version,
            pleg_age_seconds: age,
            discarded_events: node.discarded_events,
            evented_pleg: node.evented_pleg,
            ..KubeletReport::default()
        }),
        keep,
        ..HealthReport::new(taken_at)
    }
}
