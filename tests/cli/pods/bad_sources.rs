//! Tests of `plegctl pods` with unreadable sources: each one is reported, the others still work, and the status is 2,
//! because it is not known what the unreadable source wants.

use std::fs;
use std::path::Path;
use std::process::Command;

use plegctl_engine::cri::{Code, Rpc};
use serde_json::{Value, json};

use super::api_server::{TestDir, list, pod};
use super::server::{Server, ServerAction};
use crate::support::plegctl::{Invocation, Output};
use crate::support::{FakeRuntime, Node, Reply};

const MANIFEST: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop, labels: {app: web}}\nspec:\n  containers: [{name: main, image: x}]\n";

/// Runs `pods` with the source under test and a good directory.
fn with_a_good_source(scratch: &TestDir, arguments: &[&str]) -> Output {
    let directory = scratch.0.join("good");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("web.yaml"), MANIFEST).unwrap();
    pods(&[&["--manifests", directory.to_str().unwrap()], arguments].concat())
}

fn pods(arguments: &[&str]) -> Output {
    let fixed = ["pods", "-o", "json", "--no-cri", "--node-name", "n1"];
    Invocation::new(&[&fixed, arguments].concat()).run()
}

fn report(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"))
}

/// Asserts that `pods` reports a bad source, and that with a good source, `pods` still shows the pods of that source.
fn assert_reported(scratch: &TestDir, source: &str, arguments: &[&str], words: &[&str]) {
    let only_bad = pods(arguments);
    assert_eq!(only_bad.code, Some(2), "{only_bad}");
    let output = with_a_good_source(scratch, arguments);
    assert_eq!(output.code, Some(2), "what the bad source wants is not known: {output}");
    for (output, sources) in [(&only_bad, 1), (&output, 2)] {
        let report = report(output);
        let all = report["sources"].as_array().unwrap();
        assert_eq!(all.len(), sources, "{output}");
        let row = all.iter().find(|row| row["name"] == source).unwrap();
        assert_eq!(row["ready"], false, "{output}");
        for word in words {
            assert!(row["error"].as_str().unwrap().contains(word), "{word}: {output}");
        }
    }
    let report = report(&output);
    assert_eq!(report["pods"][0]["name"], "web-n1", "{output}");
}

/// Asserts that `pods` reports a manifest URL whose server performs `act`.
fn assert_url_reported(scratch: &TestDir, act: ServerAction, words: &[&str]) {
    let server = Server::start(move |_, _| act.clone());
    assert_reported(scratch, "http", &["--manifest-url", &format!("{}/pods", server.url())], words);
}

#[test]
fn url_with_an_error_a_huge_body_or_no_body_is_reported() {
    let scratch = TestDir::new("bad-url");
    assert_url_reported(&scratch, ServerAction::Answer(500, b"no".to_vec()), &["/pods: 500"]);
    assert_url_reported(&scratch, ServerAction::ok(vec![b'#'; 11 << 20]), &["more than 10 MiB"]);
    assert_url_reported(&scratch, ServerAction::ok("<html></html>"), &["neither a Pod nor a PodList"]);
    let item = r#"{"metadata": {"name": "a"}, "spec": {}}"#;
    let list = format!(r#"{{"kind": "PodList", "apiVersion": "v1", "items": [{item}]}}"#);
    assert_url_reported(&scratch, ServerAction::ok(list), &["invalid pod"]);
}

#[test]
fn silent_url_is_given_up_after_ten_seconds() {
    let scratch = TestDir::new("silent-url");
    assert_url_reported(&scratch, ServerAction::Silent, &["did not answer within 10"]);
}

#[test]
fn redirects_of_a_url_are_followed_as_in_the_kubelet_up_to_its_limit() {
    let server = Server::start(|request, _| match request.path.as_str() {
        "/a" => ServerAction::Redirect("/b/c".to_owned()),
        "/b/c" => ServerAction::Redirect("d".to_owned()),
        "/b/d" => ServerAction::ok(MANIFEST),
        _ => ServerAction::Redirect("/loop".to_owned()),
    });
    let output = pods(&["--manifest-url", &format!("{}/a", server.url())]);
    assert_eq!(report(&output)["pods"][0]["name"], "web-n1", "{output}");
    let output = pods(&["--manifest-url", &format!("{}/loop", server.url())]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stdout.contains("redirects more than 10 times"), "{output}");
    let nobody = pods(&["--manifest-url", "http://127.0.0.1:1/"]);
    assert_eq!(nobody.code, Some(2), "{nobody}");
    assert!(nobody.stdout.contains("refuses the connection"), "{nobody}");
}

#[test]
fn url_gets_its_headers_and_its_bytes_are_not_decoded() {
    let server = Server::start(|_, _| {
        // The server sends text that is not UTF-8, because the kubelet hashes and compares bytes.
        ServerAction::ok([b"# \xff\n", MANIFEST.as_bytes()].concat())
    });
    let place = format!("{}/pods", server.url());
    let output = pods(&["--manifest-url", &place, "--manifest-url-header", "X-Node: n1"]);
    assert!(server.requests()[0].headers.lines().any(|line| line.eq_ignore_ascii_case("x-node: n1")));
    // Go's YAML reader rejects these bytes; a lossy decoding would turn them into a comment.
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stdout.contains("neither a Pod nor a PodList"), "{output}");
}

#[test]
fn truncated_or_invalid_pod_list_is_reported() {
    let scratch = TestDir::new("bad-list");
    let ServerAction::Answer(_, whole) = list(5, &[pod("a", 1, "Running")]) else { panic!() };
    let half = scratch.file("half.json", &whole[..whole.len() / 2]);
    assert_reported(&scratch, "api", &["--api-pods", &half], &["half.json", "it is not JSON: EOF"]);
    let node = scratch.file("node.json", r#"{"kind": "Node"}"#);
    assert_reported(&scratch, "api", &["--api-pods", &node], &["it is a `Node`, not a PodList"]);
    let shape = scratch.file("shape.json", r#"{"kind": "PodList", "items": 3}"#);
    assert_reported(&scratch, "api", &["--api-pods", &shape], &["it is not a list of pods"]);
    let empty = scratch.file("empty.json", "");
    assert_reported(&scratch, "api", &["--api-pods", &empty], &["is empty"]);
    assert_reported(
        &scratch,
        "api",
        &["--api-pods", "/nonexistent/list"],
        &["cannot read /nonexistent/list", "No such file"],
    );
}

#[test]
fn unusable_kubeconfig_is_reported() {
    let scratch = TestDir::new("bad-kubeconfig");
    let exec = scratch
        .kubeconfig("http://127.0.0.1:1", "exec: {apiVersion: v1, command: no-such-credential-program}");
    assert_reported(
        &scratch,
        "api",
        &["--kubeconfig", &exec],
        &["`no-such-credential-program`", "cannot be run"],
    );
    let password = scratch.kubeconfig("http://127.0.0.1:1", "username: me");
    assert_reported(&scratch, "api", &["--kubeconfig", &password], &["user name and password"]);
    let token = scratch.kubeconfig("http://127.0.0.1:1", "token: x");
    assert_reported(&scratch, "api", &["--kubeconfig", &token], &["refuses the connection"]);
    assert_reported(&scratch, "api", &["--kubeconfig", "/nonexistent"], &["cannot read `/nonexistent`"]);
    let half = scratch.file("half", "clusters: [{name: ");
    assert_reported(&scratch, "api", &["--kubeconfig", &half], &["is not a kubeconfig"]);
}

#[test]
fn api_server_with_errors_or_invalid_answers_is_reported() {
    let scratch = TestDir::new("bad-api");
    for (act, words) in [
        (ServerAction::status(401, "Unauthorized"), vec!["does not accept the credentials (401)"]),
        (
            ServerAction::status(403, "pods is forbidden"),
            vec!["pods is forbidden", "the kubelet's own kubeconfig"],
        ),
        (ServerAction::Redirect("https://login/".to_owned()), vec!["redirects to `https://login/`"]),
        (ServerAction::ok("<html>"), vec!["cannot be used: it is not JSON"]),
        (ServerAction::Answer(500, b"etcd".to_vec()), vec!["500: etcd"]),
    ] {
        let server = Server::start(move |_, _| act.clone());
        let config = scratch.kubeconfig(&server.url(), "token: x");
        assert_reported(&scratch, "api", &["--kubeconfig", &config], &words);
    }
}

/// The directory of a kubelet that kubeadm has installed.
const KUBELETS_OWN: &str = "/etc/kubernetes/manifests";

#[test]
fn missing_directory_of_the_kubelet_is_an_answer_and_any_other_one_and_a_device_are_errors() {
    let typo = pods(&["--manifests", "/nonexistent/manifests"]);
    assert!(typo.code == Some(2) && typo.stdout.is_empty(), "{typo}");
    assert!(typo.stderr.contains("cannot read the manifests of `/nonexistent/manifests`"), "{typo}");
    let device = pods(&["--manifests", "/dev/null"]);
    assert_eq!(device.code, Some(2), "{device}");
    assert!(device.stdout.contains("not a directory or file"), "{device}");
    if Path::new(KUBELETS_OWN).exists() {
        println!("the rest is skipped: {KUBELETS_OWN} exists");
        return;
    }
    let missing = pods(&["--manifests", KUBELETS_OWN]);
    assert_eq!(missing.code, Some(0), "the kubelet gets an empty set: {missing}");
    let report = report(&missing);
    assert_eq!((&report["sources"][0]["ready"], &report["sources"][0]["pods"]), (&json!(true), &json!(0)));
    assert!(report["sources"][0]["error"].as_str().unwrap().contains("does not exist"), "{missing}");
}

/// Runs plegctl as a user who may not read the directory: with `setpriv` if the tests run as root.
#[test]
fn directory_without_permission_is_reported() {
    let scratch = TestDir::new("permission");
    let closed = scratch.0.join("closed");
    fs::create_dir_all(closed.join("manifests")).unwrap();
    let mode =
        |mode| fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    mode(0o000);
    let path = closed.join("manifests");
    let path = path.to_str().unwrap();
    let is_root = fs::read_dir(&closed).is_ok();
    let arguments = ["pods", "-o", "json", "--no-cri", "--node-name", "n1", "--manifests", path];
    let output = if is_root {
        let plegctl = env!("CARGO_BIN_EXE_plegctl");
        let nobody = ["--reuid=65534", "--clear-groups", "--", plegctl];
        let words = [&nobody[..], &arguments].concat();
        let can = Command::new("setpriv").args([&nobody[..], &["--version"]].concat()).output();
        if !can.is_ok_and(|output| output.status.success()) {
            mode(0o755);
            return skipped("setpriv cannot run plegctl as nobody here");
        }
        Invocation::program("setpriv", &words).run()
    } else {
        Invocation::new(&arguments).run()
    };
    mode(0o755);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stdout.contains("ermission denied"), "{output}");
}

/// Runs plegctl in its own user namespace, so that the test's inotify limit affects no other process.
#[test]
fn inotify_limit_is_reported_with_its_sysctl_and_scans_continue() {
    let scratch = TestDir::new("inotify");
    let directory = scratch.0.join("manifests");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("web.yaml"), MANIFEST).unwrap();
    let limit = Path::new("/proc/sys/user/max_inotify_instances");
    let own = |words: &[&str]| -> Vec<String> {
        let script = format!("echo 0 > {} && exec \"$@\"", limit.display());
        let all = [&["--user", "--map-root-user", "sh", "-c", &script, "sh"], words].concat();
        all.into_iter().map(str::to_owned).collect()
    };
    let can = Command::new("unshare").args(own(&["true"])).output();
    if !can.is_ok_and(|output| output.status.success()) {
        return skipped("cannot create a user namespace with its own limits");
    }
    let plegctl = env!("CARGO_BIN_EXE_plegctl");
    let path = directory.to_str().unwrap();
    let arguments = [
        plegctl,
        "pods",
        "--watch",
        "-o",
        "jsonl",
        "--no-cri",
        "--node-name",
        "n1",
        "--manifests",
        path,
        "--file-check-frequency",
        "200ms",
    ];
    let mut watch = Invocation::program("unshare", &own(&arguments)).spawn();
    let mut next = || -> Value { serde_json::from_str(&watch.line().unwrap()).unwrap() };
    let (mut added, mut named) = (false, false);
    while !(added && named) {
        let line = next();
        added |= line["op"] == "ADD";
        named |= line["error"].as_str().is_some_and(|why| why.contains("fs.inotify.max_user_instances"));
    }
    fs::remove_file(directory.join("web.yaml")).unwrap();
    while next()["op"] != "REMOVE" {}
}

#[test]
fn runtime_that_keeps_failing_is_reported_once() {
    let scratch = TestDir::new("failing");
    fs::write(scratch.0.join("web.yaml"), MANIFEST).unwrap();
    let runtime = FakeRuntime::start(Node::new());
    let failing =
        |text: &str| runtime.on(Rpc::ListPodSandbox).times(1000, &Reply::fail(Code::Unavailable, text));
    failing("going away");
    let path = scratch.0.to_str().unwrap();
    let words = ["pods", "--watch", "--node-name", "n1", "--manifests", path, "-r", &runtime.endpoint()];
    let watch = Invocation::new(&words).spawn();
    runtime.wait_for(Rpc::ListPodSandbox, 4);
    runtime.remove_rules();
    failing("still away");
    let relists = runtime.calls_of(Rpc::ListPodSandbox).len();
    runtime.wait_for(Rpc::ListPodSandbox, relists + 4);
    watch.signal("TERM");
    let output = watch.wait();
    for why in ["going away", "still away"] {
        assert_eq!(output.stderr.matches(why).count(), 1, "{output}");
    }
}

fn skipped(reason: &str) {
    use std::io::Write;
    let thread = std::thread::current();
    // Not `eprintln!`: the test harness captures its output in tests that pass.
    let _ = writeln!(std::io::stderr(), "skipped {}: {reason}", thread.name().unwrap_or("a test"));
}

#[test]
fn missing_sources_and_an_invalid_selector_are_usage_errors() {
    let output = Invocation::new(&["pods", "--host-root", "/nonexistent"]).run();
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("--kubeconfig FILE"), "{output}");
    let output = pods(&["--manifests", "/tmp", "-l", "a near (b)"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("not a condition on a label"), "{output}");
}
