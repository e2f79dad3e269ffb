//! `pods --why` and `pods --terminating`: what keeps a pod from ending or from starting.

use std::time::{Duration, SystemTime};

use plegctl_engine::cri::{Code, Rpc};
use serde_json::{Value, json};

use super::api_server::TestDir;
use crate::support::plegctl::{Invocation, plegctl};
use crate::support::pods_api::{PodsApiServer, listing, running_pod, time, wire};
use crate::support::{FakeRuntime, Node};

const SENTENCE: &str =
    "shop/db-0 terminates since 44m: umount of 10.1.2.3:/export by csi-nfs[2231] does not return";

/// The pod `shop/db-0` as the API server has it, deleted this long ago with a grace period of 30 s.
fn deleted(uid: &str, ago: Option<u64>) -> Value {
    let at = |ago| SystemTime::now() - Duration::from_secs(ago) + Duration::from_secs(30);
    let at = ago.map(|ago| humantime::format_rfc3339_seconds(at(ago)).to_string());
    let mut metadata =
        json!({"name": "db-0", "namespace": "shop", "uid": uid, "finalizers": ["example.com/backup"]});
    if let Some(at) = at {
        metadata["deletionTimestamp"] = at.into();
        metadata["deletionGracePeriodSeconds"] = 30.into();
    }
    json!({"kind": "PodList", "items": [{"metadata": metadata, "spec": {"nodeName": "sim-node"}}]})
}

/// The UID of `shop/db-0` in a scenario.
fn uid_in(scenario: &str) -> String {
    let output = plegctl(&["relist", "-r", scenario, "-o", "json"]);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let pods = report["pods"].as_array().unwrap();
    let pod = pods.iter().find(|pod| pod["name"] == "db-0").unwrap_or_else(|| panic!("{output}"));
    pod["uid"].as_str().unwrap().to_owned()
}

#[test]
fn the_first_line_names_the_umount_its_server_and_its_driver() {
    let output = plegctl(&["pods", "-r", "sim:terminating-pod", "--why", "shop/db-0"]);
    assert_eq!(output.code, Some(1), "{output}");
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(lines[0], SENTENCE, "{output}");
    assert!(lines.len() <= 24 && lines.iter().all(|line| line.chars().count() <= 100), "{output}");
    assert!(output.stdout.contains("make the file server 10.1.2.3 answer again"), "{output}");
    let wide = plegctl(&["pods", "-r", "sim:terminating-pod", "--why", "shop/db-0", "-o", "wide"]);
    assert!(wide.stdout.starts_with(SENTENCE) && wide.stdout.contains("--force"), "{wide}");
    let json = plegctl(&["pods", "-r", "sim:terminating-pod", "-n", "shop", "--why", "db-0", "-o", "json"]);
    let report: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&report["kind"], &report["state"]), (&"PodWhy".into(), &"held".into()), "{json}");
    assert_eq!(report["holders"][0]["kernelReason"]["owner"], "10.1.2.3:/export (nfs4)", "{json}");
    assert_eq!(report["graceSeconds"], 30);
}

#[test]
fn an_unknown_pod_gets_the_nearest_name_and_no_answer() {
    let output = plegctl(&["pods", "-r", "sim:terminating-pod", "--why", "shop/db-1"]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{output}");
    assert!(output.stderr.contains("there is no pod `shop/db-1` on this node"), "{output}");
    assert!(output.stderr.contains("did you mean shop/db-0?"), "{output}");
    let other = plegctl(&["pods", "-r", "sim:terminating-pod", "--why", "db-0"]);
    assert!(other.stderr.contains("did you mean shop/db-0?"), "the namespace is missing: {other}");

    let folder = TestDir::new("why-refused");
    let bad = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - {name: a, image: i, imagePullPolicy: Nver}\n";
    folder.file("web.yaml", bad);
    let manifests = folder.0.display().to_string();
    let refused = plegctl(&["pods", "-r", "sim:quiet", "--manifests", &manifests, "--why", "default/web-n1"]);
    assert!(
        refused.stderr.contains("plegctl pods lists also the manifests that the kubelet refuses"),
        "{refused}"
    );
}

#[test]
fn the_sources_say_whether_the_pod_is_being_deleted() {
    let folder = TestDir::new("why");
    let scenario = "sim:quiet";
    let uid = uid_in(scenario);
    let why = |list: Value| {
        let file = folder.file("pods.json", list.to_string());
        plegctl(&["pods", "-r", scenario, "--api-pods", &file, "--why", "shop/db-0", "-o", "json"])
    };
    let state = |output: &crate::support::plegctl::Output| {
        let report: Value =
            serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"));
        report["state"].as_str().unwrap().to_owned()
    };
    let wanted = why(deleted(&uid, None));
    assert_eq!((wanted.code, state(&wanted).as_str()), (Some(0), "notDeleted"), "{wanted}");
    let grace = why(deleted(&uid, Some(10)));
    assert_eq!((grace.code, state(&grace).as_str()), (Some(0), "inGrace"), "{grace}");
    let over = why(deleted(&uid, Some(600)));
    assert_eq!((over.code, state(&over).as_str()), (Some(1), "held"), "{over}");
    // The API server has another pod of this name: the old one was deleted with --force.
    let replaced = why(deleted("another-uid", None));
    assert!(replaced.stdout.contains("no source has shop/db-0 any more"), "{replaced}");
    let unknown = plegctl(&["pods", "-r", scenario, "--why", "shop/db-0"]);
    assert_eq!(unknown.code, Some(0), "{unknown}");
    assert!(unknown.stdout.starts_with("no source shows whether shop/db-0 is being deleted"), "{unknown}");
    assert!(unknown.stdout.contains("not checked: deletion timestamp"), "{unknown}");
}

#[test]
fn a_pod_whose_grace_period_is_over_is_stuck_and_can_be_selected() {
    let folder = TestDir::new("stuck");
    let scenario = "sim:stopped-shim";
    let uid = uid_in(scenario);
    let pods = |ago: Option<u64>, more: &[&str]| {
        let file = folder.file("pods.json", deleted(&uid, ago).to_string());
        plegctl(&[&["pods", "-r", scenario, "--api-pods", &file], more].concat())
    };
    let stuck = pods(Some(1800), &["--terminating"]);
    assert_eq!(stuck.code, Some(1), "{stuck}");
    assert!(stuck.stdout.contains("stuck"), "{stuck}");
    let list = deleted(&uid, Some(1800));
    let file = folder.file("pods.json", list.to_string());
    let json = plegctl(&["pods", "-r", scenario, "--api-pods", &file, "--terminating", "-o", "json"]);
    let report: Value = serde_json::from_str(&json.stdout).unwrap();
    // The report says when it was taken, so the minutes follow exactly, however late the program started.
    let at = |time: &Value| humantime::parse_rfc3339(time.as_str().unwrap()).unwrap();
    let ended = at(&list["items"][0]["metadata"]["deletionTimestamp"]);
    let minutes = at(&report["takenAt"]).duration_since(ended).unwrap().as_secs() / 60;
    let text = format!("containers still run; its grace period has been over for {minutes}m");
    assert!(report["pods"][0]["why"].as_str().unwrap().ends_with(&text), "{text}: {json}");
    let ending = pods(Some(10), &["--terminating", "-o", "name"]);
    assert_eq!((ending.code, ending.stdout.as_str()), (Some(0), "shop/db-0\n"), "{ending}");
    let none = pods(None, &["--terminating", "-o", "name"]);
    assert_eq!(none.stdout, "", "{none}");
}

#[test]
fn a_pod_that_does_not_start_is_explained_by_health_and_by_what_the_kubelet_does_not_know() {
    let why = |pod: &str| {
        let output = plegctl(&["pods", "-r", "sim:deaf-kubelet", "--why", pod, "-o", "json"]);
        assert_eq!(output.code, Some(1), "{output}");
        let report: Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(report["state"], "notStarting", "{output}");
        report
    };
    let waits = why("shop/new-0");
    assert_eq!(waits["holders"][0]["evidence"][0], "finding D41 of plegctl health", "{waits:#}");
    assert!(
        waits["summary"]
            .as_str()
            .unwrap()
            .starts_with("shop/new-0 does not start since 44m: the kubelet starts no pod")
    );
    let unknown = why("shop/new-3");
    let title = "the kubelet does not know it, so it does not receive the API server's pods";
    assert_eq!(unknown["holders"][0]["title"], title, "{unknown:#}");
}

#[test]
fn the_kubelets_own_reason_for_a_container_that_waits_is_the_answer() {
    let folder = TestDir::new("why-image");
    let server = PodsApiServer::start(&folder.0, |_| {
        let mut pod = running_pod("web", "uid-web", ("api", "n1"), "", 0);
        let status = pod.status.as_mut().unwrap();
        "Pending".clone_into(&mut status.phase);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        status.start_time = time(i64::try_from(now).unwrap() - 600);
        let waiting = wire::ContainerStateWaiting {
            reason: "ImagePullBackOff".to_owned(),
            message: "Back-off pulling image \"shop/web:9\"".to_owned(),
        };
        status.container_statuses[0].state =
            Some(wire::ContainerState { waiting: Some(waiting), ..Default::default() });
        listing(vec![pod])
    });
    let runtime = FakeRuntime::start(Node::new().pod("shop/web", "uid-web").sandbox("s1"));
    let words = ["pods", "-r", &runtime.endpoint(), "--pods-api", server.socket(), "--why", "shop/web"];
    let output = Invocation::new(&words).run();
    assert_eq!(output.code, Some(1), "{output}");
    let sentence = output.stdout.lines().take(2).collect::<Vec<_>>().join("").replace("  ", " ");
    assert_eq!(
        sentence,
        "shop/web does not start since 10m: container main waits: ImagePullBackOff: Back-off pulling image \"shop/web:9\"",
        "{output}"
    );
}

#[test]
fn nothing_is_known_of_a_pod_while_the_runtime_answers_nothing() {
    let folder = TestDir::new("why-silent");
    let pod = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "uid-web"},
        "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}});
    let file = folder.file("pods.json", json!({"kind": "PodList", "items": [pod]}).to_string());
    let runtime = FakeRuntime::start(Node::new().pod("shop/web", "uid-web").sandbox("s1"));
    let why = || {
        let endpoint = runtime.endpoint();
        let words = ["pods", "-r", &endpoint, "--api-pods", &file, "--node-name", "n1", "--why", "shop/web"];
        Invocation::new(&words).with_short_silences().run()
    };
    runtime.on(Rpc::ListContainers).fail(Code::Unavailable, "starting");
    let unknown = why();
    let sentence =
        "nothing is known of shop/web; the runtime does not list its containers: plegctl health shows why";
    assert_eq!((unknown.code, unknown.stdout.lines().next()), (Some(2), Some(sentence)), "{unknown}");
    runtime.remove_rules();
    for rpc in [Rpc::Version, Rpc::ListPodSandbox, Rpc::ListContainers] {
        runtime.on(rpc).hang();
    }
    let held = why();
    assert_eq!(held.code, Some(1), "{held}");
    let begin = "nothing is known of shop/web, and nothing starts or ends it: ";
    assert!(held.stdout.starts_with(begin) && held.stdout.contains(": plegctl health\n"), "{held}");
}

/// Returns the words of a text whose lines a shell has joined.
fn joined(text: &str) -> String {
    let text = text.replace('\r', "").replace("'\\\n'", "").replace("\\\n", "");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_command_can_be_pasted_at_any_width_and_what_a_step_reads_is_saved_before() {
    for (scenario, pod, end_of_sentence) in [
        ("sim:hung-container", "shop/db-0", "shop/db-0/postgres does not answer"),
        ("sim:hung-list", "shop/queue-0", "answer, nor does ContainerStatus of shop/queue-0/worker"),
    ] {
        let known = ["pods", "-q", "-r", scenario, "--why", pod, "-o"];
        let run = |columns: u16, format: &str| {
            let words = [&known[..], &[format]].concat();
            let terminal = Invocation::in_terminal_of((24, columns), env!("CARGO_BIN_EXE_plegctl"), &words);
            terminal.with_short_silences().env("NO_COLOR", "1").run()
        };
        let json = plegctl(&[&known[..], &["json"]].concat());
        let report: Value = serde_json::from_str(&json.stdout).unwrap_or_else(|_| panic!("{json}"));
        let steps = [&report["keep"], &report["holders"][0]["steps"]];
        let steps = steps.into_iter().flat_map(|steps| steps.as_array().expect("an array"));
        let commands: Vec<&str> = steps.filter_map(|step| step["command"].as_str()).collect();
        assert!(commands.len() > 3, "{json}");
        for columns in [60, 80] {
            let wide = run(columns, "wide");
            for command in &commands {
                assert!(joined(&wide.stdout).contains(&joined(command)), "{columns} {command}: {wide}");
            }
            assert_eq!(wide.stdout.matches("uid ").count(), 1, "{wide}");
        }
        let screen = run(80, "table");
        let lines: Vec<&str> = screen.stdout.lines().map(str::trim_end).collect();
        assert!(lines.len() < 24 && lines[1].ends_with(end_of_sentence), "{screen}");
        let at = |text: &str| screen.stdout.find(text).unwrap_or_else(|| panic!("{text}: {screen}"));
        assert!(at("KEEP BEFORE ANY CHANGE") < at("saved above"), "{screen}");
    }
}
