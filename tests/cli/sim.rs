//! The process tests of `plegctl sim` and the endpoint `sim:SCENARIO`.

use std::fs;

use crate::support::plegctl::{Invocation, Output, plegctl};
use crate::support::socket::TempDir;

#[test]
fn list_names_every_scenario() {
    let output = plegctl(&["sim", "list", "--no-headers"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.lines().all(|line| line.starts_with("sim:")), "{output}");
    let json = plegctl(&["sim", "list", "-o", "json"]);
    let list: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let scenarios = list["scenarios"].as_array().unwrap();
    assert_eq!((&list["kind"], scenarios.len()), (&"ScenarioList".into(), output.stdout.lines().count()));
    assert!(scenarios.len() > 20, "{json}");
    assert_eq!(list["scenarios"][0]["endpoint"], "sim:busy-deploy");
    let names = plegctl(&["sim", "list", "-o", "name"]);
    assert_eq!(names.stdout.lines().nth(1), Some("sim:crash-loop"), "{names}");
}

#[test]
fn simulated_time_continues_from_one_command_to_the_next() {
    let folder = TempDir::new();
    let saved = folder.path().join("before.json").display().to_string();
    let node = ["-r", "sim:busy-deploy"];
    let before = plegctl(&[&["relist", "--at", "1m", "--save", &saved], node.as_slice()].concat());
    assert_eq!(before.code, Some(0), "{before}");
    // The test does not wait: `--at` moves the scenario ten seconds forward.
    let after = plegctl(&[&["diff", "--at", "70s", &saved], node.as_slice()].concat());
    assert_eq!(after.code, Some(1), "{after}");
    assert!(
        after.stdout.contains("ContainerStarted") && after.stdout.contains("ContainerRemoved"),
        "{after}"
    );
    // Both lists have the same containers again: PLEG does not detect other creation times.
    assert!(!after.stdout.contains("changes that PLEG would not have noticed"), "{after}");
    assert!(after.stdout.starts_with("00:01:10"), "{after}");
    // Without `--at`, the scenario's time depends on the time of day.
    let first = plegctl(&[&["relist", "-o", "json", "-n", "kube-system"], node.as_slice()].concat());
    let second = plegctl(&[&["relist", "-o", "json", "-n", "kube-system"], node.as_slice()].concat());
    let pods =
        |output: &Output| serde_json::from_str::<serde_json::Value>(&output.stdout).unwrap()["pods"].clone();
    assert_eq!(pods(&first), pods(&second));
}

#[test]
fn identical_lines_of_a_diff_are_distinguished() {
    let folder = TempDir::new();
    let saved = folder.path().join("before.json").display().to_string();
    plegctl(&["relist", "-r", "sim:crash-loop", "--at", "1m", "--save", &saved]);
    let output = plegctl(&["diff", "-r", "sim:crash-loop", "--at", "3m", &saved]);
    let mut lines: Vec<&str> = output.stdout.lines().collect();
    let all = lines.len();
    assert!(all > 5, "{output}");
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), all, "{output}");
}

#[test]
fn sim_serve_serves_a_kubelet_too() {
    let folder = TempDir::new();
    let path = folder.path().join("sim.sock").display().to_string();
    let mut serving = Invocation::new(&["sim", "serve", "stale-kubelet", "--listen", &path]).spawn();
    assert_eq!(serving.line().unwrap(), format!("unix://{path}"));
    let url = serving.line().unwrap();
    let nothing = folder.path().display().to_string();
    let health = plegctl(&[
        "health",
        "-r",
        &path,
        "--proc",
        &nothing,
        "-o",
        "json",
        "--kubelet-metrics",
        &format!("{url}/metrics"),
        "--kubelet-healthz",
        &format!("{url}/healthz"),
    ]);
    assert_eq!(health.code, Some(1), "{health}");
    let report: serde_json::Value = serde_json::from_str(&health.stdout).unwrap();
    assert_eq!((&report["primary"]["id"], &report["phase"]), (&"D22".into(), &"kubelet".into()), "{health}");
    serving.signal("TERM");
    assert_eq!(serving.wait().code, Some(0));
}

/// The scenarios with kubelet and shim faults, judged by `health`.
#[test]
fn long_kubelet_and_node_of_a_scenario_are_judged() {
    for (scenario, id, verdict) in [
        ("stale-kubelet", "D22", "unhealthy"),
        ("dead-kubelet", "D32", "unhealthy"),
        ("slow-status", "D05", "degraded"),
    ] {
        let output = plegctl(&["health", "-r", &format!("sim:{scenario}"), "-o", "json"]);
        let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(report["verdict"], verdict, "{output}");
        assert_eq!(report["primary"]["id"], id, "{output}");
        assert!(!output.stdout.contains("\"D01\""), "nothing hangs here: {output}");
    }
    for (scenario, reason, owner) in
        [("security-agent", "KR01", "falcon-sensor[4711]"), ("lost-gpu", "KR03", "nvidia")]
    {
        let output = plegctl(&["health", "-r", &format!("sim:{scenario}"), "-o", "json"]);
        let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(report["primary"]["id"], "D37", "{output}");
        assert_eq!(report["primary"]["kernelReason"]["id"], reason, "{output}");
        assert_eq!(report["primary"]["kernelReason"]["owner"], owner, "{output}");
        assert!(report["summary"].as_str().unwrap().contains(owner), "{output}");
    }
    // What can show the cause, and nothing else.
    let stacks = "kill -USR1 812; sleep 60; cp /tmp/containerd.812.stacks.log stacks-1.txt; kill -USR1 812";
    let kubelet = "/api/v1/nodes/sim-node/proxy/debug/pprof/goroutine";
    for (scenario, kept, read) in [
        (
            "hung-list",
            [stacks, "dmesg -T > dmesg.txt"].as_slice(),
            Some("plegctl stacks stacks-1.txt /tmp/containerd.812.stacks.log"),
        ),
        ("stopped-shim", &["dmesg -T > dmesg.txt"], None),
        (
            "lost-gpu",
            &["cat /proc/834/stack", "dmesg -T > dmesg.txt"],
            Some("dmesg -T | grep -i -e xid -e nvrm | tail -20"),
        ),
        (
            "terminating-pod",
            &["cat /proc/2290/stack", kubelet, "dmesg -T > dmesg.txt"],
            Some("timeout 5 bash -c '</dev/tcp/$0/2049' 10.1.2.3 && echo yes"),
        ),
    ] {
        let output = plegctl(&["health", "-r", &format!("sim:{scenario}"), "-o", "json"]);
        let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        let commands = |steps: &serde_json::Value| -> Vec<String> {
            let steps = steps.as_array().unwrap().iter();
            steps.filter_map(|step| step["command"].as_str().map(str::to_owned)).collect()
        };
        let keep = commands(&report["keep"]);
        assert_eq!(keep.len(), kept.len(), "{scenario}: {keep:#?}");
        assert!(keep.iter().zip(kept).all(|(command, part)| command.contains(part)), "{scenario}: {keep:#?}");
        let steps = commands(&report["primary"]["steps"]);
        assert!(read.is_none_or(|read| steps.iter().any(|step| step == read)), "{scenario}: {steps:#?}");
    }
    let left_over = plegctl(&["health", "-r", "sim:leftover-shims", "-o", "json"]);
    let report: serde_json::Value = serde_json::from_str(&left_over.stdout).unwrap();
    assert_eq!(report["primary"]["id"], "D38", "{left_over}");
    assert_eq!(report["primary"]["ids"].as_array().unwrap().len(), 24, "{left_over}");
    assert_eq!(report["verdict"], "degraded", "{left_over}");
    let mut lines = report["primary"]["evidence"].as_array().unwrap().iter();
    let list = lines.find_map(|line| line.as_str()?.rsplit_once("the process ids of the 24 oldest: "));
    let shims: std::collections::BTreeSet<u32> =
        list.unwrap().1.split(' ').map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(shims.len(), 24, "the step ends each of them: {left_over}");
    let deaf = plegctl(&["health", "-r", "sim:deaf-kubelet", "-o", "json"]);
    let report: serde_json::Value = serde_json::from_str(&deaf.stdout).unwrap();
    assert_eq!(
        (&report["primary"]["id"], &report["primary"]["confidence"]),
        (&"D41".into(), &"certain".into()),
        "{deaf}"
    );
    assert_eq!((deaf.code, report["verdict"].as_str()), (Some(1), Some("unhealthy")), "{deaf}");
    assert!(report["estimate"].get("notReadyAt").is_none(), "the node stays Ready: {deaf}");
    let deaf = plegctl(&["pods", "-r", "sim:deaf-kubelet", "-o", "json"]);
    let report: serde_json::Value = serde_json::from_str(&deaf.stdout).unwrap();
    let pods = report["pods"].as_array().unwrap();
    let count = |verdict: &str| pods.iter().filter(|pod| pod["verdict"] == verdict).count();
    // Three of those that are stuck have had no sandbox for 44 minutes.
    assert_eq!((deaf.code, count("deaf"), count("stuck"), count("starting")), (Some(1), 2, 12, 0), "{deaf}");
    let shim = plegctl(&["health", "-r", "sim:stopped-shim", "-o", "json"]);
    assert!(shim.stdout.contains("containerd-shim") && shim.stdout.contains("db-0"), "{shim}");
}

#[test]
fn health_and_lint_give_the_same_advice_about_a_pod_that_runs_twice_on_a_simulated_node() {
    let folder = TempDir::new();
    let manifests = folder.path().join("etc/kubernetes/manifests");
    fs::create_dir_all(&manifests).unwrap();
    fs::write(manifests.join("mine.yaml"), "kind: Pod\n").unwrap();
    let root = folder.path().to_str().unwrap();
    let at = ["-r", "sim:stale-static-pod", "--host-root", root, "-o", "json"];
    let health = plegctl(&[&["health"], &at[..]].concat());
    let health: serde_json::Value = serde_json::from_str(&health.stdout).unwrap();
    let steps = health["primary"]["steps"].as_array().unwrap();
    let keep = steps.iter().find_map(|step| step["purpose"].as_str()?.strip_prefix("do not end ")).unwrap();
    let keep = keep.split_once(':').unwrap().0;
    for arguments in [&["static-pods", "lint"][..], &["static-pods", "lint", "/etc/kubernetes/manifests"]] {
        let lint = plegctl(&[arguments, &at[..]].concat());
        assert_eq!(lint.code, Some(1), "{lint}");
        let report: serde_json::Value = serde_json::from_str(&lint.stdout).unwrap();
        let files = report["files"].as_array().unwrap().iter();
        let names: Vec<&str> = files.map(|file| file["path"].as_str().unwrap()).collect();
        let own =
            ["etcd.json", "kube-apiserver.json"].map(|name| format!("/etc/kubernetes/manifests/{name}"));
        assert_eq!(names, own, "this machine's files are not the simulated node's: {lint}");
        let mut findings = report["runtimeFindings"].as_array().unwrap().iter();
        let twice = findings.find(|finding| finding["id"] == "SP126").unwrap();
        let fix = twice["fix"].as_str().unwrap();
        assert!(fix.starts_with(&format!("do not end {keep}: it is the version that works")), "{lint}");
        assert!(!lint.stdout.contains("stopp"), "{lint}");
    }
}

#[test]
fn describe_explains_the_fault_and_what_to_try() {
    let output = plegctl(&["sim", "describe", "hung-list"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("\nTry\n  plegctl health -r sim:hung-list\n"), "{output}");
    assert!(output.stdout.contains("that is how the culprit is found"), "{output}");
    assert!(output.stdout.contains("container `worker` of the pod shop/queue-0"), "{output}");
    let health =
        Invocation::new(&["health", "-r", "sim:hung-list", "-o", "json"]).with_short_silences().run();
    let report: serde_json::Value = serde_json::from_str(&health.stdout).unwrap();
    let title = "ListContainers does not answer, nor does ContainerStatus of shop/queue-0/worker";
    assert_eq!(report["primary"]["title"], title, "health names what the description names: {health}");
}

#[test]
fn error_for_an_unknown_scenario_suggests_the_nearest_one() {
    for arguments in [["sim", "describe", "hung-lsit"], ["relist", "-r", "sim:hung-lsit"]] {
        let output = plegctl(&arguments);
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{output}");
        assert!(
            output.stderr.starts_with("error: there is no scenario `hung-lsit`; known are big-node, "),
            "{output}"
        );
        assert!(output.stderr.ends_with("hint: did you mean `hung-list`?\n"), "{output}");
    }
}

#[test]
fn error_in_a_scenario_has_line_and_column() {
    let folder = TempDir::new();
    fs::write(folder.path().join("mine.yaml"), "title: x\npods: [\n").unwrap();
    let output = Invocation::new(&["relist", "-r", "sim:./mine.yaml"]).current_dir(folder.path()).run();
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.starts_with("error: ./mine.yaml:3:1: this is not YAML: "), "{output}");
}

#[test]
fn served_scenario_answers_until_a_signal_ends_it() {
    let folder = TempDir::new();
    let socket = folder.path().join("sim.sock");
    let path = socket.to_str().unwrap();
    let listens = [("INT", path.to_owned()), ("TERM", format!("unix://{path}")), ("HUP", path.to_owned())];
    for (signal, listen) in listens {
        let mut serving = Invocation::new(&["sim", "serve", "quiet", "--listen", &listen]).spawn();
        assert_eq!(serving.line().unwrap(), format!("unix://{path}"));

        let relist = plegctl(&["relist", "-r", path]);
        assert_eq!(relist.code, Some(0), "{relist}");
        assert!(relist.stdout.contains("kube-apiserver-sim-node"), "{relist}");

        let second = plegctl(&["sim", "serve", "quiet", "--listen", path]);
        assert_eq!(second.code, Some(2), "{second}");
        assert!(
            second.stderr.starts_with(&format!("error: cannot listen on `{path}`: the path exists\n")),
            "{second}"
        );

        serving.signal(signal);
        let output = serving.wait();
        assert_eq!(output.code, Some(0), "{output}");
        assert!(!socket.exists());
    }
}

#[test]
fn runtime_that_is_down_refuses_in_process_and_on_its_socket() {
    let output = plegctl(&["relist", "-r", "sim:runtime-down"]);
    assert_eq!(output.code, Some(2), "{output}");
    let refused = "error: cannot reach the runtime at `sim:runtime-down`: connection refused\n";
    assert!(output.stderr.starts_with(refused), "{output}");

    let folder = TempDir::new();
    let path = folder.path().join("sim.sock");
    let path = path.to_str().unwrap();
    let mut serving = Invocation::new(&["sim", "serve", "runtime-down", "--listen", path]).spawn();
    assert_eq!(serving.line().unwrap(), format!("unix://{path}"));
    let output = plegctl(&["relist", "-r", path]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains(": connection refused\n"), "{output}");
    serving.signal("TERM");
    assert_eq!(serving.wait().code, Some(0));
}

#[test]
fn socket_that_cannot_be_created_gives_one_error() {
    let output = plegctl(&["sim", "serve", "quiet", "--listen", "/nowhere/at/all.sock"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert_eq!(
        output.stderr,
        "error: cannot listen on `/nowhere/at/all.sock`: No such file or directory (os error 2)\n\
         hint: the directory must exist and be writable, and the path short\n"
    );
}
