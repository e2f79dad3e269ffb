//! Tests of `plegctl health --node NAME` on the hangs of real kubelets, each recorded with the node's objects and the truth.
//! The files in `tests/recordings/hangs` have the answers of the kubelet and of the API server, with their times moved to the noon
//! of the scripted API server. The second dump refers to the goroutines of the first one that have not changed.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use super::api::{Clients, Reply, Request, Server};
use super::file;
use super::outside::{DUMP, health, report};

/// A recorded hang.
struct Hang(Value);

impl Hang {
    fn all() -> Vec<Self> {
        let files = fs::read_dir(file("tests/recordings/hangs")).unwrap();
        let mut paths: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths.iter().map(PathBuf::as_path).map(Self::read).collect()
    }

    fn read(path: &Path) -> Self {
        let mut text = String::new();
        GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
        Self(serde_json::from_str(&text).unwrap())
    }

    /// Returns both dumps.
    fn dumps(&self) -> [String; 2] {
        let block = |block: &Value| match block {
            Value::String(text) => text.clone(),
            at => self.0["dumps"][0][usize::try_from(at.as_u64().unwrap()).unwrap()]
                .as_str()
                .unwrap()
                .to_owned(),
        };
        let dump =
            |nth: usize| self.0["dumps"][nth].as_array().unwrap().iter().map(block).collect::<Vec<_>>();
        [0, 1].map(|nth| dump(nth).join("\n\n") + "\n")
    }

    /// Starts an API server that gives the recorded answers.
    fn serve(&self) -> Server {
        let (hang, dumps, taken) = (self.0.clone(), self.dumps(), AtomicUsize::new(0));
        let list = |items: &Value| Reply::ok(json!({"items": items}).to_string());
        Server::start("server", Clients::Any, move |request: &Request| match request.path.as_str() {
            DUMP => Reply::ok(dumps[taken.fetch_add(1, Ordering::SeqCst).min(1)].clone()),
            "/api/v1/nodes/n1" => Reply::ok(hang["node"].to_string()),
            path if path.ends_with("/configz") => {
                Reply::ok(r#"{"kubeletconfig":{"runtimeRequestTimeout":"2m0s"}}"#)
            }
            path if path.ends_with("/proxy/metrics") => {
                hang["metrics"].as_str().map_or(Reply::Silent, Reply::ok)
            }
            path if path.starts_with("/api/v1/pods?") => list(&hang["pods"]),
            path if path.ends_with("/proxy/pods") => list(&hang["kubeletPods"]),
            path if path.ends_with("/metrics/resource") => measured(&hang["resource"]),
            path if path.contains("/events?") => {
                let is_wanted =
                    |event: &&Value| path.ends_with(event["involvedObject"]["uid"].as_str().unwrap());
                let events = hang["events"].as_array().unwrap().iter().filter(is_wanted);
                list(&events.cloned().collect())
            }
            _ => Reply::Answer(404, String::new()),
        })
    }

    /// The pod for which the call hangs, if plegctl is to find a hang: a call that the kubelet makes for a probe or an image, or
    /// to remove what has ended, does not concern PLEG and no pod's start or end.
    fn culprit(&self) -> Option<&str> {
        let rpc = self.0["rpc"].as_str().unwrap();
        let is_harmless = matches!(rpc, "ExecSync" | "PullImage" | "RemoveContainer" | "RemovePodSandbox");
        self.0["pod"].as_str().filter(|_| !is_harmless)
    }
}

/// Returns the kubelet's page with these containers, each with its pod's namespace and name.
fn measured(containers: &Value) -> Reply {
    let Some(containers) = containers.as_array() else { return Reply::Answer(404, String::new()) };
    let line = |container: &Value| {
        let [container, namespace, pod] = [0, 1, 2].map(|nth| &container[nth]);
        format!(
            "container_start_time_seconds{{container={container},namespace={namespace},pod={pod}}} 1.7e+09\n"
        )
    };
    Reply::ok(containers.iter().map(line).collect::<String>())
}

#[test]
fn call_of_each_recorded_hang_is_named_and_its_pod_is_a_suspect() {
    let (mut rows, mut ranks) = (Vec::new(), Vec::new());
    for hang in Hang::all() {
        let server = hang.serve();
        let output = health(&server, &["-o", "json", "--no-recorder", "--deep", "--budget", "16s"]);
        let report = report(&output);
        let suspects: Vec<(String, &str)> =
            report["suspects"].as_array().into_iter().flatten().map(named).collect();
        let (name, culprit) = (hang.0["name"].as_str().unwrap(), hang.culprit());
        let rank = suspects.iter().position(|(pod, _)| Some(pod.as_str()) == culprit);
        rows.push(format!("{name}: {} {culprit:?}: {rank:?} of {suspects:?}", report["primary"]["id"]));
        if culprit.is_none() {
            assert_eq!((output.code, &report["verdict"]), (Some(0), &"healthy".into()), "{name}: {output}");
            assert!(suspects.is_empty() && report.get("primary").is_none(), "{name}: {output}");
            continue;
        }
        assert_eq!(report["primary"]["rpc"], hang.0["rpc"], "{name}: {output}");
        let may_be_likely = |(pod, confidence): &(String, &str)| {
            *confidence == "possible" || (*confidence == "likely" && Some(pod.as_str()) == culprit)
        };
        assert!(suspects.len() <= 5 && suspects.iter().all(may_be_likely), "{name}: {output}");
        ranks.push(rank);
    }
    let share = |found: usize| found * 100 / ranks.len();
    let among = share(ranks.iter().flatten().count());
    let first = share(ranks.iter().filter(|rank| **rank == Some(0)).count());
    assert!(ranks.len() >= 12 && among >= 90 && first >= 70, "{among} % and {first} %: {rows:#?}");
}

/// Returns the name of a suspect, and how certain it is.
fn named(suspect: &Value) -> (String, &str) {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap().to_owned();
    let pod = &suspect["pod"];
    (format!("{}/{}", text(pod, "namespace"), text(pod, "name")), suspect["confidence"].as_str().unwrap())
}
