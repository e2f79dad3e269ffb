//! Reads the kubelet's warnings about pods from the API server: about calls that had no answer, and about steps that fail.

use std::time::Duration;

use serde_json::Value;

use super::error_text;
use crate::clock::Wall;
use crate::diagnosis::failing_pods::{FailingPod, add};
use crate::diagnosis::limits::FAILING_FOR;
use crate::diagnosis::outside::{OutsidePod, has_no_answer};
use crate::diagnosis::report::{NotChecked, SuspectReport};
use crate::kubelet::http::{HttpSession, encoded};
use crate::kubelet::kubeconfig::Cluster;
use crate::kubelet::pod_status::{entries, moment};
use crate::report::PodRef;

/// For how long before the hang, or before now, the kubelet's events count.
const BEFORE: Duration = Duration::from_secs(10 * 60);

/// The largest number of waiting pods whose events are read.
const MAX_WAITING: usize = 16;

/// The kubelet writes about 25 events about one pod, and then one in five minutes (`EventSourceObjectSpamFilter` of client-go).
const MANY_EVENTS: usize = 20;
const RARE_EVENTS: Duration = Duration::from_secs(5 * 60);

/// Adds to the pods of suspects what the kubelet reported of calls without an answer, in events since ten minutes before `from`.
/// Returns why the events of a pod cannot be read; those of the next pods are not requested then.
pub async fn read_events(
    cluster: &Cluster,
    pods: &mut [OutsidePod],
    suspects: &[SuspectReport],
    from: Wall,
    timeout: Duration,
) -> Option<NotChecked> {
    let mut session = cluster.client.session();
    let is_suspect = |pod: &&mut OutsidePod| suspects.iter().any(|suspect| suspect.pod == pod.pod);
    for pod in pods.iter_mut().filter(is_suspect) {
        match warnings(&mut session, &cluster.server, &pod.pod, timeout).await {
            Ok(list) => pod.no_answer.extend(reports(&list, from.minus(BEFORE))),
            Err(why) => return Some(lacking("the suspects' events", &why, "`list` on events")),
        }
    }
    None
}

/// Reads the events of at most 16 pods that have waited for a while: first of those that are to end, and of the newest of them.
/// Returns the steps that have failed again and again until a moment ago.
pub(super) async fn failing_steps(
    cluster: &Cluster,
    pods: &[OutsidePod],
    now: Wall,
    timeout: Duration,
) -> Result<Vec<FailingPod>, String> {
    let waits = |pod: &&OutsidePod| pod.waits(now).is_some_and(|waited| waited >= FAILING_FOR);
    let mut waiting: Vec<&OutsidePod> = pods.iter().filter(waits).collect();
    waiting.sort_by_key(|pod| (!pod.is_ending, pod.waits(now)));
    let (mut session, mut failing) = (cluster.client.session(), Vec::new());
    for pod in waiting.into_iter().take(MAX_WAITING) {
        let list = warnings(&mut session, &cluster.server, &pod.pod, timeout).await?;
        failing.extend(failing_of_pod(&pod.pod, &list, now));
    }
    Ok(failing)
}

/// Requests the warnings about a pod.
async fn warnings(
    session: &mut HttpSession<'_>,
    server: &str,
    pod: &PodRef,
    timeout: Duration,
) -> Result<Value, String> {
    let selector = encoded(&format!("type=Warning,involvedObject.uid={}", pod.uid));
    let namespace = encoded(&pod.namespace);
    let url = format!("{server}/api/v1/namespaces/{namespace}/events?limit=100&fieldSelector={selector}");
    let answer = session.get_as(&url, "*/*", timeout).await;
    let text = answer.and_then(|answer| answer.document(&url)).map_err(|why| error_text(&why))?;
    // An answer that is no list of events shows nothing.
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

/// Returns the messages of events about calls without an answer, the last one last.
fn reports(list: &Value, since: Wall) -> Vec<String> {
    let mut reports: Vec<(Wall, String)> = entries(list, "items")
        .filter_map(|event| {
            let message = event.get("message")?.as_str()?;
            let at = last_time(event)?;
            (at >= since && has_no_answer(message)).then(|| (at, message.to_owned()))
        })
        .collect();
    reports.sort();
    reports.into_iter().map(|(_, message)| message).collect()
}

/// Returns when an event happened last.
fn last_time(event: &Value) -> Option<Wall> {
    moment(event.get("lastTimestamp")).or_else(|| moment(event.get("eventTime")))
}

/// Returns the steps for a pod that have failed again and again until a moment ago, by its events.
fn failing_of_pod(pod: &PodRef, list: &Value, now: Wall) -> Vec<FailingPod> {
    let (mut failing, mut total) = (Vec::new(), 0_usize);
    for event in entries(list, "items").filter(|event| is_of_kubelet(event)) {
        let Some(at) = last_time(event).filter(|at| *at >= now.minus(BEFORE)) else { continue };
        let count = event.get("count").and_then(Value::as_u64).unwrap_or(1);
        let failures = usize::try_from(count).unwrap_or(usize::MAX);
        let first = moment(event.get("firstTimestamp")).unwrap_or(at);
        let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
        total = total.saturating_add(failures);
        if let Some(one) = FailingPod::of_event(pod.clone(), text("reason"), text("message"), at) {
            add(&mut failing, FailingPod { failures, first, ..one });
        }
    }
    let pause = if total >= MANY_EVENTS { RARE_EVENTS } else { Duration::ZERO };
    failing.retain(|one| one.persists(Duration::MAX) && one.is_recent(now.minus(pause)));
    failing
}

/// Whether the kubelet wrote an event. Others may write events with the same reasons.
fn is_of_kubelet(event: &Value) -> bool {
    event.pointer("/source/component").is_some_and(|component| component == "kubelet")
}

/// Explains what could not be read.
pub(super) fn lacking(what: &str, why: &str, right: &str) -> NotChecked {
    NotChecked::new(what, format!("{why}; it needs {right}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::diagnosis::Weight;
    use crate::diagnosis::outside::{OutsideFacts, find};
    use crate::diagnosis::report::{Confidence, HealthFinding, RuleId};

    fn ago(seconds: u64) -> Wall {
        "2026-11-21T12:00:00Z".parse::<Wall>().unwrap().minus(Duration::from_secs(seconds))
    }

    fn event(reason: &str, message: &str, count: u64, [first, last]: [u64; 2]) -> Value {
        json!({"type": "Warning", "reason": reason, "message": message, "count": count,
            "firstTimestamp": ago(first), "lastTimestamp": ago(last), "source": {"component": "kubelet", "host": "n1"}})
    }

    /// Returns a pod that was created 400 s ago and whose container waits for this reason; with its sandbox since then, if it has
    /// one.
    fn pod(uid: &str, reason: &str, sandbox: Option<u64>) -> Value {
        let condition = json!({"type": "PodReadyToStartContainers", "status": if sandbox.is_some() { "True" } else { "False" },
            "lastTransitionTime": ago(sandbox.unwrap_or(400))});
        json!({"metadata": {"namespace": "shop", "name": format!("web-{uid}"), "uid": uid},
            "spec": {"containers": [{"name": "main"}]},
            "status": {"phase": "Pending", "startTime": ago(400), "conditions": [condition],
                "containerStatuses": [{"name": "main", "restartCount": 0, "state": {"waiting": {"reason": reason}}}]}})
    }

    fn deleted(uid: &str) -> Value {
        let mut pod = pod(uid, "ContainerCreating", Some(390));
        pod["metadata"]["deletionTimestamp"] = json!(ago(300));
        pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
        pod
    }

    /// Returns what is found of pods with these events, all read now.
    fn found(pods: &[(Value, Vec<Value>)]) -> Vec<HealthFinding> {
        let mut facts = OutsideFacts { taken_at: Some(ago(0)), ..OutsideFacts::default() };
        for (object, events) in pods {
            let pod = OutsidePod::of(object).unwrap();
            facts.failing.extend(failing_of_pod(&pod.pod, &json!({"items": events}), ago(0)));
            facts.pods.push(pod);
        }
        find(&facts).findings
    }

    fn titles(pods: &[(Value, Vec<Value>)]) -> Vec<(String, Confidence)> {
        found(pods).into_iter().map(|found| (found.title, found.confidence)).collect()
    }

    const ADD: &str = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox \
        \"fc34\": plugin type=\"example-cni\" failed (add): unable to connect to agent";
    const CREATE: &str = "FailedCreatePodSandBox";

    fn failing(uid: &str) -> (Value, Vec<Value>) {
        let combined = format!("(combined from similar events): {ADD}");
        let events = vec![event(CREATE, ADD, 1, [380, 380]), event(CREATE, &combined, 9, [200, 12])];
        (pod(uid, "ContainerCreating", None), events)
    }

    #[test]
    fn pods_that_fail_are_compared_with_those_that_start() {
        let title = |more: &str| format!("CNI ADD fails: shop/web-a{more} cannot start");
        assert_eq!(titles(&[failing("a")]), [(title(""), Confidence::Likely)]);
        let two = [failing("a"), failing("b")];
        let [found] = &found(&two)[..] else { panic!() };
        assert_eq!((found.id, found.confidence), (RuleId::FailingPods, Confidence::Likely));
        assert_eq!(found.title, title(" and 1 more"));
        assert_eq!(found.evidence[0], "the network plugin example-cni says: unable to connect to agent");
        assert_eq!(found.evidence[1], "shop/web-a: 10 errors in the last 6m20s, the last one 12s ago");
        let started = (pod("c", "ErrImagePull", Some(100)), Vec::new());
        assert_eq!(titles(&[failing("a"), started.clone()]), [(title(""), Confidence::Possible)]);
        // A pod in the node's network needs no plugin.
        let mut host = started;
        host.0["spec"]["hostNetwork"] = true.into();
        assert_eq!(titles(&[failing("a"), host]), [(title(""), Confidence::Likely)]);
    }

    #[test]
    fn pod_whose_sandbox_cannot_be_removed_cannot_end() {
        let kill = "error killing pod: failed to \"KillPodSandbox\" for \"a\" with KillPodSandboxError: \"rpc error: code = \
            Unknown desc = failed to destroy network for sandbox \\\"7d94\\\": plugin type=\\\"example-cni\\\" failed (delete): \
            connection refused\"";
        let events = |count, times| vec![event("FailedKillPod", kill, count, times)];
        let title = "CNI DEL fails: shop/web-a cannot end".to_owned();
        let cannot_end = [(title, Confidence::Likely)];
        assert_eq!(titles(&[(deleted("a"), events(20, [280, 12]))]), cannot_end);
        assert_eq!(titles(&[(deleted("a"), events(20, [280, 160]))]), cannot_end, "events are rare after 25");
        assert_eq!(titles(&[(deleted("a"), events(8, [280, 160]))]), [], "it has ended since");
        assert_eq!(titles(&[(deleted("a"), events(2, [280, 12]))]), [], "it may be the beginning");
        assert_eq!(titles(&[(pod("a", "ContainerCreating", Some(390)), events(8, [280, 12]))]), []);
        let silent = kill.replace("Unknown", "DeadlineExceeded");
        assert_eq!(titles(&[(deleted("a"), vec![event("FailedKillPod", &silent, 8, [280, 12])])]), []);
    }

    #[test]
    fn containers_that_cannot_be_created_count_by_their_cause() {
        let store = "Error: failed to create containerd container: failed to stat parent: stat /x/snapshots/1/fs: no such file";
        let of = |uid: &str, reason: &str, message: &str| {
            (pod(uid, reason, Some(390)), vec![event("Failed", message, 5, [300, 12])])
        };
        let two = |reason: &str, message: &str| titles(&[of("a", reason, message), of("b", reason, message)]);
        let title =
            "the image store is damaged or not mounted: shop/web-a and 1 more cannot start".to_owned();
        assert_eq!(two("CreateContainerError", store), [(title, Confidence::Likely)]);
        // The key has the name of what is damaged elsewhere.
        let key = "Error: couldn't find key snapshot in ConfigMap shop/web";
        assert_eq!(two("CreateContainerConfigError", key), []);
        assert_eq!(two("CreateContainerError", "Error: context deadline exceeded"), []);
        let foreign = |(pod, mut events): (Value, Vec<Value>)| {
            events[0]["source"]["component"] = "operator".into();
            (pod, events)
        };
        let foreign = ["a", "b"].map(|uid| foreign(of(uid, "CreateContainerError", store)));
        assert_eq!(titles(&foreign), [], "only the kubelet knows");
    }

    #[test]
    fn a_hundred_nodes_with_ordinary_events_stay_healthy() {
        let exec = "Error: failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create \
            failed: unable to start container process: exec: \"/no/such/program\": no such file or directory";
        let pull =
            "Failed to pull image \"r/x:9\": rpc error: code = NotFound desc = no space left on device";
        let back_off = "Back-off restarting failed container main in pod web_shop(u)";
        let mount = "MountVolume.SetUp failed for volume \"v\" : configmap \"cgroup\" not found";
        let running = Some(390);
        let ordinary = [
            ("ImagePullBackOff", running, "Failed", pull),
            ("ErrImagePull", running, "Failed", "Error: ErrImagePull"),
            ("ImagePullBackOff", running, "Failed", "Error: ImagePullBackOff"),
            ("CrashLoopBackOff", running, "BackOff", back_off),
            ("RunContainerError", running, "Failed", exec),
            ("CreateContainerConfigError", running, "Failed", "Error: secret \"snapshot\" not found"),
            ("ContainerCreating", None, "FailedMount", mount),
            // It has succeeded since.
            ("ImagePullBackOff", Some(5), CREATE, ADD),
        ];
        let mut state = 0x9e37_79b9_u64;
        let mut below = |limit: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % limit
        };
        for node in 0..100 {
            let mut pods: Vec<(Value, Vec<Value>)> = (0..=below(12))
                .map(|number| {
                    let (waits, sandbox, reason, message) = ordinary[usize::try_from(below(8)).unwrap()];
                    let times = [380 - below(100), below(200)];
                    let events = vec![event(reason, message, 3 + below(30), times)];
                    (pod(&format!("o-{number}"), waits, sandbox), events)
                })
                .collect();
            // Two errors, and the third attempt is to come.
            pods.push((
                pod("t", "ContainerCreating", None),
                vec![event(CREATE, ADD, 1 + below(2), [30, 10])],
            ));
            let weight = found(&pods).iter().map(Weight::of).max();
            assert_eq!(weight, None, "node {node}: {pods:#?}");
        }
    }
}
