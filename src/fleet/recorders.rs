//! Finds the recorder's pods of all nodes with one list, and reads their verdicts.
//!
//! Any pod with the recorder's label can answer, and it can send anything. So an answer is limited in bytes and in memory,
//! each text in characters, and the culprits in number. A recorder can make the verdict on its node worse, but not better,
//! unless plegctl has no right to read the kubelet (see the module `verdict`).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::recorder::{
    MAX_ANSWER, MAX_POD_LIST, MAX_TRIED, NAMESPACE, RecorderError, RecorderPod, RecorderPodList, SELECTOR,
};
use super::verdict::error_text;
use super::{MAX_PAGES, PAGE};
use crate::clock::Wall;
use crate::diagnosis::forecast::{LimitForecast, known};
use crate::diagnosis::report::{Phase, Verdict};
use crate::diagnosis::rules;
use crate::kubelet::http::{self, HttpSession, encoded};
use crate::kubelet::kubeconfig::Cluster;
use crate::report::{API_VERSION, Confidence, ContainerRef, PodRef, fits_in_memory, optional_pod};

/// The maximum number of culprits of one recorder.
const MAX_CULPRITS: usize = 20;

/// The maximum number of characters of a text from a recorder.
const MAX_TEXT: usize = 300;

/// The length of the longest name of a process.
const MAX_PROCESS_NAME: usize = 15;

/// The smallest difference between the clocks of a node and the API server that counts. The API server's dates have a
/// resolution of one second, and the answer takes its time.
const MIN_CLOCK_DIFFERENCE: f64 = 5.0;

/// The recorder's running pods, by the name of their node.
#[derive(Clone, Debug, Default)]
pub struct RecorderPods {
    by_node: BTreeMap<String, Vec<RecorderPod>>,
}

/// The answer of a node's recorder.
#[derive(Clone, Debug, PartialEq)]
pub struct RecorderReading {
    /// Namespace and name of the pod that answered, or of the last one that was asked.
    pub pod: String,
    /// The verdict, or why there is none.
    pub verdict: Result<RecorderState, String>,
}

/// What a recorder knows about its node now.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecorderState {
    taken_at: Wall,
    verdict: Verdict,
    since: Wall,
    #[serde(default)]
    summary: String,
    primary: Option<RecorderFinding>,
    #[serde(default)]
    culprits: Vec<RecorderCulprit>,
    incident: Option<RecorderIncident>,
    #[serde(default, deserialize_with = "known")]
    forecasts: Vec<LimitForecast>,
    /// How far the node's clock is ahead of the API server's.
    #[serde(skip)]
    clock_ahead: f64,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct RecorderIncident {
    number: u64,
}

/// What `plegctl nodes` shows of a recorder.
#[crate::report::omit_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RecorderReport {
    /// Namespace and name of its pod.
    pub pod: String,
    /// Its verdict on the node; absent without an answer.
    pub verdict: Option<Verdict>,
    /// Why there is no verdict.
    pub error: Option<String>,
    /// The beginning of the open incident, else the end of the last one, else the start of the recorder; by the API
    /// server's clock.
    pub since: Option<Wall>,
    /// The reason for its verdict, in one sentence.
    pub summary: Option<String>,
    /// The number of the open incident.
    pub incident: Option<u64>,
    /// The most important finding about the open incident.
    pub primary: Option<RecorderFinding>,
    /// The calls that keep the kubelet waiting, the most certain one first; at most 20.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub culprits: Vec<RecorderCulprit>,
    /// The limit that is likely reached first.
    pub forecast: Option<LimitForecast>,
    /// How far the node's clock is ahead of the API server's, from five seconds on.
    pub clock_ahead_seconds: Option<f64>,
}

/// A finding of a recorder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RecorderFinding {
    /// The rule's id.
    pub id: String,
    /// The problem in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// How certain the finding is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// The RPC concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpc: Option<String>,
    /// The pod concerned.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_pod")]
    #[cfg_attr(test, schemars(with = "Option<crate::report::optional_pod::KnownNames<'static>>"))]
    pub pod: Option<PodRef>,
    /// The container concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerRef>,
    /// For what a task waits in the kernel.
    #[serde(default, skip_serializing)]
    #[cfg_attr(test, schemars(skip))]
    pub kernel_reason: Option<WaitOwner>,
}

/// Who keeps a task in the kernel waiting.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct WaitOwner {
    /// A process or a mount, if known.
    pub owner: Option<String>,
}

/// A call that keeps the kubelet waiting.
#[crate::report::omit_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RecorderCulprit {
    /// The call.
    pub rpc: String,
    /// Full id of the sandbox or container.
    #[serde(default)]
    pub id: String,
    /// Its pod.
    #[serde(default, with = "optional_pod")]
    #[cfg_attr(test, schemars(with = "Option<crate::report::optional_pod::KnownNames<'static>>"))]
    pub pod: Option<PodRef>,
    /// The container, if the id is a container's.
    pub container: Option<ContainerRef>,
    /// How long the call took, or has been silent.
    #[serde(default)]
    pub waited_seconds: f64,
    /// How certain the recorder is of the outcome.
    pub confidence: Option<Confidence>,
}

/// Lists the recorder's running pods of all nodes: in one namespace, or in all of them. Without the right to list the pods of
/// all namespaces, looks in the namespace of `deploy/base`.
pub async fn find(
    cluster: &Cluster,
    namespace: Option<&str>,
    timeout: Duration,
) -> Result<RecorderPods, RecorderError> {
    find_with(cluster, namespace, "", timeout).await
}

/// Lists the recorder's running pods on one node, as [`find`].
pub async fn find_on(
    cluster: &Cluster,
    node: &str,
    namespace: Option<&str>,
    timeout: Duration,
) -> Result<Vec<RecorderPod>, RecorderError> {
    let of_node = format!("&fieldSelector={}", encoded(&format!("spec.nodeName={node}")));
    let mut found = find_with(cluster, namespace, &of_node, timeout).await?;
    Ok(found.by_node.remove(node).unwrap_or_default())
}

/// Lists the recorder's running pods; `more` is the rest of the query.
async fn find_with(
    cluster: &Cluster,
    namespace: Option<&str>,
    more: &str,
    timeout: Duration,
) -> Result<RecorderPods, RecorderError> {
    let server = &cluster.server;
    let in_namespace = |name: &str| format!("{server}/api/v1/namespaces/{}/pods", encoded(name));
    if let Some(name) = namespace {
        return list(cluster, &in_namespace(name), more, timeout).await;
    }
    match list(cluster, &format!("{server}/api/v1/pods"), more, timeout).await {
        Err(RecorderError::Http(http::Error::Forbidden { .. })) => {
            list(cluster, &in_namespace(NAMESPACE), more, timeout).await
        }
        found => found,
    }
}

/// Lists the recorder's running pods page by page.
async fn list(
    cluster: &Cluster,
    pods: &str,
    more: &str,
    timeout: Duration,
) -> Result<RecorderPods, RecorderError> {
    let mut session = cluster.client.session();
    let (mut found, mut next) = (RecorderPods::default(), String::new());
    for _ in 0..MAX_PAGES {
        let mut url = format!("{pods}?labelSelector={}{more}&limit={PAGE}", encoded(SELECTOR));
        if !next.is_empty() {
            url.extend(["&continue=", &encoded(&next)]);
        }
        let text = session.get_at_most(&url, MAX_POD_LIST, timeout).await?.document(&url)?;
        let page: RecorderPodList =
            serde_json::from_str(&text).map_err(|why| RecorderError::NoList(why.to_string()))?;
        for (node, pod) in page.items.into_iter().filter_map(super::recorder::RecorderPodItem::recorder) {
            let of_node = found.by_node.entry(node).or_default();
            if of_node.len() < MAX_TRIED {
                of_node.push(pod);
            }
        }
        next = page.metadata.next;
        if next.is_empty() {
            break;
        }
    }
    Ok(found)
}

impl RecorderPods {
    /// Returns the pods on a node.
    pub fn on(&self, node: &str) -> &[RecorderPod] {
        self.by_node.get(node).map_or(&[], Vec::as_slice)
    }

    /// Reads a page of the node's recorder as the document of this kind. Asks its second pod, if the first one gives
    /// none. Returns `None` if the node has no recorder.
    pub(super) async fn read<T>(
        &self,
        session: &mut HttpSession<'_>,
        server: &str,
        node: &str,
        page: &str,
        timeout: Duration,
        parse: impl Fn(&str, Option<f64>) -> Result<T, String>,
    ) -> Option<(&RecorderPod, Result<T, String>)> {
        let mut last = None;
        for pod in self.on(node) {
            let url = pod.url(server, page);
            let answer = session.get_at_most(&url, MAX_ANSWER, timeout).await;
            let answer = answer.and_then(|answer| Ok((answer.date, answer.document(&url)?)));
            let document = match answer {
                Ok((date, text)) => {
                    parse(&text, date).map_err(|why| format!("its answer cannot be used: {why}"))
                }
                Err(why) => Err(error_text(&why)),
            };
            let is_usable = document.is_ok();
            last = Some((pod, document));
            if is_usable {
                break;
            }
        }
        last
    }

    /// Reads the verdict of the node's recorder.
    pub(super) async fn read_verdict(
        &self,
        session: &mut HttpSession<'_>,
        server: &str,
        node: &str,
        timeout: Duration,
    ) -> Option<RecorderReading> {
        let (pod, verdict) =
            self.read(session, server, node, "verdict?o=json", timeout, RecorderState::parse).await?;
        Some(RecorderReading { pod: pod.full_name(), verdict })
    }
}

/// Checks that a text is a document of this kind which needs little memory.
pub fn check_document(text: &str, kind: &str) -> Result<(), String> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Heading {
        kind: String,
        api_version: String,
    }
    if !fits_in_memory(text.as_bytes()) {
        return Err("it is too large".to_owned());
    }
    let heading: Heading = serde_json::from_str(text).map_err(|why| why.to_string())?;
    if (heading.kind.as_str(), heading.api_version.as_str()) != (kind, API_VERSION) {
        let (kind, version) = (shortened(heading.kind), shortened(heading.api_version));
        return Err(format!("it is `{kind}` of `{version}`"));
    }
    Ok(())
}

/// Returns how many seconds a clock is ahead of the API server's; 0 if the difference is too small to be known.
pub fn clock_ahead(taken_at: Wall, date: Option<f64>) -> f64 {
    let ahead = date.map_or(0.0, |date| taken_at.seconds_since(Wall::from_nanos(0)) - date);
    if ahead.abs() >= MIN_CLOCK_DIFFERENCE { ahead } else { 0.0 }
}

/// Converts a time of a clock that is `ahead` seconds ahead of the API server's.
pub(super) fn corrected(time: Wall, ahead: f64) -> Wall {
    let by = Duration::try_from_secs_f64(ahead.abs()).unwrap_or_default();
    if ahead > 0.0 { time.minus(by) } else { time.plus(by) }
}

/// Cuts a text from outside.
pub(super) fn shortened(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
        text.truncate(end);
        text.push('…');
    }
    text
}

fn shorten(pod: Option<&mut PodRef>, container: Option<&mut ContainerRef>) {
    let pod = pod.into_iter().flat_map(|pod| [&mut pod.uid, &mut pod.namespace, &mut pod.name]);
    let container = container.into_iter().flat_map(|container| [&mut container.id, &mut container.name]);
    for text in pod.chain(container) {
        *text = shortened(std::mem::take(text));
    }
}

impl RecorderFinding {
    /// Cuts the texts.
    pub(super) fn shortened(mut self) -> Self {
        self.id = shortened(self.id);
        self.title = shortened(self.title);
        self.rpc = self.rpc.map(shortened);
        shorten(self.pod.as_mut(), self.container.as_mut());
        self
    }
}

impl RecorderState {
    /// Parses the answer to `/verdict`. `date` is the API server's time.
    fn parse(text: &str, date: Option<f64>) -> Result<Self, String> {
        check_document(text, "RecorderVerdict")?;
        let mut state: Self = serde_json::from_str(text).map_err(|why| why.to_string())?;
        state.clock_ahead = clock_ahead(state.taken_at, date);
        state.summary = shortened(state.summary);
        state.primary = state.primary.map(RecorderFinding::shortened);
        state.culprits.truncate(MAX_CULPRITS);
        for culprit in &mut state.culprits {
            for text in [&mut culprit.rpc, &mut culprit.id] {
                *text = shortened(std::mem::take(text));
            }
            shorten(culprit.pod.as_mut(), culprit.container.as_mut());
        }
        Ok(state)
    }
}

impl RecorderState {
    /// Returns the limit that is likely reached first.
    fn forecast(&self) -> Option<LimitForecast> {
        let likely = self.forecasts.iter().filter(|one| one.confidence == Confidence::Likely);
        let first = likely.min_by_key(|one| one.full_at)?.clone();
        // The kernel cuts the names of processes.
        let process = first.process.filter(|process| process.name.len() <= MAX_PROCESS_NAME);
        Some(LimitForecast { process, ..first })
    }
}

impl RecorderReading {
    /// Whether the recorder reports that a list call hangs.
    pub fn has_silent_list(&self) -> bool {
        let Ok(state) = &self.verdict else { return false };
        let id = state.primary.as_ref().map(|primary| primary.id.as_str());
        let hung_list = rules::rules_about(&[Phase::List], true);
        state.verdict == Verdict::Unhealthy && hung_list.iter().any(|rule| Some(&*rule.to_string()) == id)
    }

    /// Returns what the report shows.
    pub fn report(&self) -> RecorderReport {
        let pod = self.pod.clone();
        match &self.verdict {
            Ok(state) => RecorderReport {
                pod,
                verdict: Some(state.verdict),
                error: None,
                since: Some(corrected(state.since, state.clock_ahead)),
                summary: Some(state.summary.clone()),
                incident: state.incident.as_ref().map(|incident| incident.number),
                primary: state.primary.clone(),
                culprits: state.culprits.clone(),
                forecast: state.forecast(),
                clock_ahead_seconds: (state.clock_ahead != 0.0).then_some(state.clock_ahead),
            },
            Err(why) => {
                RecorderReport { pod, error: Some(shortened(why.clone())), ..RecorderReport::default() }
            }
        }
    }
}

impl RecorderReport {
    /// Returns the pod and the container that keep the kubelet waiting, if they are known.
    pub fn culprit(&self) -> Option<String> {
        let (pod, container) = match (self.culprits.first(), &self.primary) {
            (Some(culprit), _) if culprit.pod.is_some() => (&culprit.pod, &culprit.container),
            (_, Some(primary)) => (&primary.pod, &primary.container),
            _ => return None,
        };
        let pod = pod.as_ref()?.to_string();
        let name = container.as_ref().map_or("", |container| container.name.as_str());
        Some(if name.is_empty() { pod } else { format!("{pod}/{name}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: f64 = 1_795_262_400.0;

    fn state(extra: &str) -> Result<RecorderState, String> {
        let text = format!(
            r#"{{"apiVersion":"plegctl/v1","kind":"RecorderVerdict","takenAt":"2026-11-21T12:00:42Z","verdict":"unhealthy","since":"2026-11-21T11:58:42Z"{extra}}}"#
        );
        RecorderState::parse(&text, Some(NOON))
    }

    fn reading(extra: &str) -> RecorderReading {
        RecorderReading { pod: "plegctl/x".to_owned(), verdict: state(extra) }
    }

    #[test]
    fn times_are_shown_by_the_api_servers_clock() {
        let report = reading("").report();
        assert_eq!(report.clock_ahead_seconds, Some(42.0));
        assert_eq!(report.since.unwrap().to_string(), "2026-11-21T11:58:00.000000000Z");
        assert!(clock_ahead(Wall::from_nanos(1_795_262_404_000_000_000), Some(NOON)).abs() < f64::EPSILON);
    }

    #[test]
    fn the_likely_limit_that_is_reached_first_is_reported() {
        let forecast = |limit: &str, hour: u32, confidence: &str, process: &str| {
            format!(
                r#"{{"limit":"{limit}","process":{{"name":"{process}","pid":812}},"used":6312,"max":10000,"perMinute":3.4,
                "since":"2026-11-21T09:10:00Z","takenAt":"2026-11-21T12:00:00Z","fullAt":"2026-11-21T{hour}:00:00Z",
                "confidence":"{confidence}"}}"#
            )
        };
        let all = [
            forecast("descriptors", 14, "possible", "containerd"),
            forecast("threads", 18, "likely", "containerd"),
            forecast("a limit of a later release", 13, "likely", "containerd"),
            forecast("cgroupTasks", 20, "likely", "containerd"),
        ];
        let found = reading(&format!(r#","forecasts":[{}]"#, all.join(","))).report().forecast.unwrap();
        assert_eq!(found.limit.as_str(), "threads");
        assert!(found.to_string().ends_with("full in about 6h"), "{found}");
        let long = forecast("threads", 18, "likely", &"x".repeat(5000));
        assert_eq!(reading(&format!(r#","forecasts":[{long}]"#)).report().forecast.unwrap().process, None);
        assert_eq!(reading("").report().forecast, None);
    }

    #[test]
    fn only_a_hung_list_makes_the_metrics_hang() {
        let primary = |id: &str, rpc: &str| format!(r#","primary":{{"id":"{id}","rpc":"{rpc}"}}"#);
        assert!(reading(&primary("D02", "ListContainers")).has_silent_list());
        assert!(!reading(&primary("D01", "ContainerStatus")).has_silent_list());
        assert!(!reading(&primary("D05", "ListContainers")).has_silent_list());
        assert!(!reading("").has_silent_list());
    }

    #[test]
    fn texts_and_culprits_of_a_recorder_are_limited() {
        let long = "é".repeat(5000);
        let culprit = format!(r#"{{"rpc":"R","id":"{long}","pod":{{"name":"{long}"}}}}"#);
        let culprits = vec![culprit; 30].join(",");
        let state = state(&format!(
            r#","summary":"{long}","primary":{{"id":"{long}","title":"{long}"}},"culprits":[{culprits}]"#
        ));
        let state = state.unwrap();
        assert_eq!(state.culprits.len(), MAX_CULPRITS);
        let culprit = &state.culprits[0];
        let primary = state.primary.as_ref().unwrap();
        let texts =
            [&culprit.id, &culprit.pod.as_ref().unwrap().name, &primary.id, &primary.title, &state.summary];
        assert!(texts.iter().all(|text| text.chars().count() == MAX_TEXT + 1), "{texts:?}");
    }

    #[test]
    fn answers_that_are_no_verdict_are_refused() {
        let lists = format!("[{}[]]", "[],".repeat(400_000));
        for text in ["", "[]", "{}", "null", r#"{"kind":"RecorderVerdict","apiVersion":"v2"}"#, &lists] {
            assert!(RecorderState::parse(text, None).is_err(), "{text:.40}");
        }
        assert!(state(r#","culprits":{}"#).is_err());
        assert!(state(r#","verdict":"fine""#).is_err());
    }

    #[test]
    fn culprit_is_a_call_else_what_the_finding_names() {
        let pod = r#""pod":{"namespace":"shop","name":"db-0"},"container":{"id":"c","name":"pg"}"#;
        let primary = format!(r#","primary":{{"id":"D02",{pod}}}"#);
        assert_eq!(reading(&primary).report().culprit().as_deref(), Some("shop/db-0/pg"));
        let call = r#","culprits":[{"rpc":"PodSandboxStatus","pod":{"namespace":"a","name":"b"}}]"#;
        assert_eq!(reading(&format!("{primary}{call}")).report().culprit().as_deref(), Some("a/b"));
        assert_eq!(reading("").report().culprit(), None);
    }
}
