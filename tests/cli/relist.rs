//! The process tests of `plegctl relist`: its calls, its output, its files, and its errors.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use plegctl_engine::cri::{Code, Rpc};
use serde_json::Value;

use crate::support::plegctl::{Invocation, Output, copy_program, plegctl};
use crate::support::socket::{NotARuntime, TempDir};
use crate::support::wire;
use crate::support::{FakeRuntime, Gate, Node, RuntimeKind};

fn node() -> Node {
    Node::new()
        .pod("default/web-0", "uid-1")
        .sandbox("s1")
        .container("c1", "app")
        .container("c2", "side")
        .exited(137)
        .pod("kube-system/etcd-n1", "uid-2")
        .sandbox("s2")
        .container("c3", "etcd")
}

fn json(output: &Output) -> Value {
    assert_eq!(output.code, Some(0), "{output}");
    serde_json::from_str(&output.stdout).unwrap()
}

#[test]
fn one_relist_is_version_and_the_two_lists() {
    let fake = FakeRuntime::start(node());
    let report = json(&plegctl(&["relist", "-r", &fake.endpoint(), "-o", "json"]));
    let rpcs: Vec<Rpc> = fake.calls().iter().map(|call| call.rpc).collect();
    assert_eq!(rpcs, [Rpc::Version, Rpc::ListPodSandbox, Rpc::ListContainers]);
    assert!(fake.calls().iter().all(|call| call.authority == "localhost" && call.deadline.is_some()));
    assert_eq!(report["kind"], "RelistReport");
    assert_eq!(report["runtime"]["version"], "2.1.9+unknown");
    assert_eq!(report["counts"]["pods"], 2);
    assert_eq!(report["counts"]["containers"]["exited"], 1);
    assert_eq!(report["relist"]["calls"][0]["rpc"], "ListPodSandbox");
    assert!(report["relist"]["calls"][1]["responseBytes"].as_u64().unwrap() > 0);
}

#[test]
fn the_table_has_a_row_for_each_container_and_a_line_about_the_calls() {
    let fake = FakeRuntime::start(node());
    let output = plegctl(&["relist", "-r", &fake.endpoint()]);
    assert_eq!(output.code, Some(0), "{output}");
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert!(lines[0].starts_with("NAMESPACE     POD       CONTAINER   STATE"), "{output}");
    assert_eq!(lines.iter().filter(|line| line.contains("web-0")).count(), 2, "{output}");
    let last = lines.last().unwrap();
    assert!(
        last.starts_with("relist ") && last.contains("ListContainers") && last.contains("of 16 MiB"),
        "{output}"
    );
}

#[test]
fn filters_change_only_the_output() {
    let fake = FakeRuntime::start(node());
    let endpoint = fake.endpoint();
    let report =
        json(&plegctl(&["relist", "-r", &endpoint, "-n", "default", "--state", "exited", "-o", "json"]));
    assert_eq!(report["pods"].as_array().unwrap().len(), 1);
    assert_eq!(report["pods"][0]["containers"][0]["id"], "c2");
    assert_eq!(report["counts"]["pods"], 2);
    assert!(fake.calls().iter().all(|call| call.id.is_empty()));
    let by_name = plegctl(&["relist", "-r", &endpoint, "--sort-by", "name", "--no-headers"]);
    let first_words: Vec<&str> =
        by_name.stdout.lines().filter_map(|line| line.split_whitespace().nth(2)).take(3).collect();
    assert_eq!(first_words, ["app", "side", "etcd"], "{by_name}");
}

/// Returns a node with two namespaces, labels and digests.
fn labelled() -> Node {
    Node::new()
        .pod("shop/web-0", "uid-1")
        .sandbox("s1")
        .label("app", "web")
        .container("c1", "app")
        .edit_container(|container| {
            let digest = "0123456789abcdef".repeat(4);
            container.image = Some(wire::ImageSpec {
                image: format!("registry.example/app@sha256:{digest}"),
                ..wire::ImageSpec::default()
            });
        })
        .pod("shop/web-1", "uid-2")
        .sandbox("s2")
        .label("app", "web")
        .container("c2", "app")
        .pod("kube-system/etcd-n1", "uid-3")
        .sandbox("s3")
        .label("tier", "control")
        .container("c3", "etcd")
}

fn names(fake: &FakeRuntime, more: &[&str]) -> Vec<String> {
    let endpoint = fake.endpoint();
    let output = plegctl(&[&["relist", "-r", &endpoint, "-o", "name"], more].concat());
    assert_eq!(output.code, Some(0), "{output}");
    let mut names: Vec<String> = output.stdout.lines().map(str::to_owned).collect();
    names.sort_unstable();
    names
}

#[test]
fn pods_are_picked_by_namespace_label_and_pattern_as_with_kubectl() {
    let fake = FakeRuntime::start(labelled());
    let all = ["kube-system/etcd-n1", "shop/web-0", "shop/web-1"];
    assert_eq!(names(&fake, &[]), all);
    assert_eq!(names(&fake, &["-A"]), all);
    assert_eq!(names(&fake, &["-l", "app=web"]), all[1..]);
    assert_eq!(names(&fake, &["-l", "app=web", "--pod", "*-0"]), [all[1]]);
    assert_eq!(names(&fake, &["--selector", "app notin (web)"]), [all[0]]);
    assert_eq!(names(&fake, &["--pod", "kube-*/etcd-*"]), [all[0]]);
    for usage in [["-A", "-nshop"], ["-l", "app in (web"]] {
        let output = plegctl(&[&["relist", "-r", &fake.endpoint()], usage.as_slice()].concat());
        assert_eq!(output.code, Some(2), "{output}");
    }
}

#[test]
fn empty_result_is_reported_on_stderr() {
    let fake = FakeRuntime::start(labelled());
    let output = plegctl(&["relist", "-r", &fake.endpoint(), "-n", "shpo", "-l", "app=web"]);
    assert_eq!(
        (output.code, output.stderr.as_str()),
        (Some(0), "No pods found in namespace shpo with labels app=web\n")
    );
    assert!(!output.stdout.contains("NAMESPACE") && output.stdout.starts_with("relist "), "{output}");
    assert!(plegctl(&["relist", "-r", &fake.endpoint(), "-n", "shpo", "-q"]).stderr.is_empty());
}

#[test]
fn sort_by_duration_shows_the_slowest_status_call_first() {
    let fake = FakeRuntime::start(labelled());
    fake.on(Rpc::ContainerStatus).id("c3").delay(Duration::from_secs(3));
    let how = ["relist", "-r", &fake.endpoint(), "--sort-by", "duration", "--no-headers"];
    let without = plegctl(&how);
    assert_eq!(without.code, Some(2), "{without}");
    assert!(without.stderr.contains("hint: --inspect all"), "{without}");
    assert!(fake.calls().is_empty(), "a usage error makes no call");
    let output = plegctl(&[how.as_slice(), &["--inspect", "all"]].concat());
    let first: Vec<&str> = output.stdout.lines().next().unwrap().split_whitespace().collect();
    assert_eq!((first[1], first[7].ends_with('s')), ("etcd-n1", true), "{output}");
}

#[test]
fn digests_are_shortened_like_ids_in_tables() {
    let fake = FakeRuntime::start(labelled());
    let wide = plegctl(&["relist", "-r", &fake.endpoint(), "-o", "wide"]);
    assert!(wide.stdout.contains("  registry.example/app@sha256:0123456789ab\n"), "{wide}");
    let report = json(&plegctl(&["relist", "-r", &fake.endpoint(), "--pod", "web-0", "-o", "json"]));
    assert!(report["pods"][0]["containers"][0]["image"].as_str().unwrap().ends_with("89abcdef"), "{report}");
}

#[test]
fn only_the_wide_table_has_the_image_of_each_container() {
    let pods = node()
        .container("c4", "bare")
        .edit_container(|container| container.image = Some(wire::ImageSpec::default()))
        .pod("default/empty", "uid-3")
        .sandbox("s3");
    let fake = FakeRuntime::start(pods);
    let wide = plegctl(&["relist", "-r", &fake.endpoint(), "-o", "wide"]);
    assert_eq!(wide.code, Some(0), "{wide}");
    let mut images: Vec<(&str, &str)> = wide
        .stdout
        .lines()
        .take_while(|line| !line.is_empty())
        .map(|line| (line.split_whitespace().nth(2).unwrap(), line.split_whitespace().last().unwrap()))
        .collect();
    images.sort_unstable();
    let name = "registry.local/app:1";
    let none = "<none>";
    assert_eq!(
        images,
        [(none, none), ("CONTAINER", "IMAGE"), ("app", name), ("bare", none), ("etcd", name), ("side", name)],
        "{wide}"
    );
    let table = plegctl(&["relist", "-r", &fake.endpoint()]);
    assert!(!table.stdout.contains("IMAGE") && !table.stdout.contains(name), "{table}");
}

#[test]
fn yaml_is_the_same_document() {
    let fake = FakeRuntime::start(labelled());
    let output = plegctl(&["relist", "-r", &fake.endpoint(), "-o", "yaml", "--pod", "web-0"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(
        output.stdout.starts_with("apiVersion: plegctl/v1\nkind: RelistReport\ntakenAt: \"20"),
        "{output}"
    );
    assert!(
        output.stdout.contains("\npods:\n  - uid: uid-1\n    namespace: shop\n    name: web-0\n"),
        "{output}"
    );
}

#[test]
fn progress_on_a_terminal_names_the_pending_calls() {
    let fake = FakeRuntime::start(labelled());
    let gate = Gate::new();
    fake.on(Rpc::ContainerStatus).id("c3").hold(&gate);
    let endpoint = fake.endpoint();
    let arguments = ["relist", "-r", &endpoint, "--inspect", "all"];
    let mut running = Invocation::in_terminal(&arguments).spawn();
    // Progress lines end with a carriage return and no line feed, so read until the text is complete.
    running.until("status of 2 of 3 pods, waiting ");
    running.until(" for ContainerStatus of kube-system/etcd-n1");
    gate.open();
    assert_eq!(running.wait().code, Some(0));
}

#[test]
fn saved_report_is_the_whole_node_and_has_no_difference_to_it() {
    let fake = FakeRuntime::start(node());
    let saved = fake.folder().join("before.json");
    let path = saved.display().to_string();
    let output = plegctl(&["relist", "-r", &fake.endpoint(), "-n", "nowhere", "--save", &path]);
    assert_eq!(output.code, Some(0), "{output}");
    let report: Value = serde_json::from_str(&fs::read_to_string(&saved).unwrap()).unwrap();
    assert_eq!(report["pods"].as_array().unwrap().len(), 2);
    let files: Vec<_> =
        fs::read_dir(fake.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!files.iter().any(|name| name.to_string_lossy().ends_with(".tmp")), "{files:?}");
    let same = plegctl(&["diff", "-r", &fake.endpoint(), &path]);
    assert_eq!(same.code, Some(0), "{same}");
}

#[test]
fn error_names_the_file_that_cannot_be_saved() {
    let fake = FakeRuntime::start(node());
    let output = plegctl(&["relist", "-r", &fake.endpoint(), "--save", "/nowhere/at/all.json"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("cannot write `/nowhere/at/all.json`"), "{output}");
}

#[test]
fn inspect_requests_each_id_once_and_survives_a_failure() {
    for serial in [true, false] {
        let fake = FakeRuntime::start(node());
        fake.on(Rpc::ContainerStatus).id("c3").fail(Code::Internal, "broken");
        let mode = if serial { "--serial" } else { "--concurrency=4" };
        let report =
            json(&plegctl(&["relist", "-r", &fake.endpoint(), "--inspect", "all", mode, "-o", "json"]));
        assert_eq!(fake.calls_of(Rpc::ContainerStatus).len(), 3);
        assert_eq!(fake.calls_of(Rpc::PodSandboxStatus).len(), 2);
        let calls = report["relist"]["calls"].as_array().unwrap();
        let failed: Vec<&Value> = calls.iter().filter(|call| call["outcome"] == "error").collect();
        assert_eq!((failed.len(), failed[0]["id"].as_str()), (1, Some("c3")));
        assert_eq!(failed[0]["code"], "Internal");
        assert_eq!(report["pods"].as_array().unwrap().len(), 2);
        let web = report["pods"].as_array().unwrap().iter().find(|pod| pod["name"] == "web-0").unwrap();
        let side = web["containers"].as_array().unwrap().iter().find(|one| one["id"] == "c2").unwrap();
        assert_eq!(side["status"]["exitCode"], 137);
    }
}

#[test]
fn hung_status_call_is_named_and_the_others_are_complete() {
    let fake = FakeRuntime::start(node());
    fake.on(Rpc::ContainerStatus).id("c1").hang();
    let output =
        plegctl(&["relist", "-r", &fake.endpoint(), "--inspect", "all", "--timeout", "3s", "-o", "wide"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("1 call got no answer, so the report is not complete"), "{output}");
    let row =
        output.stdout.lines().find(|line| line.contains("ContainerStatus of default/web-0 c1")).unwrap();
    assert!(row.contains("silent") && row.contains("did not answer within 3s"), "{output}");
    assert!(output.stdout.contains("1 silent"), "{output}");
}

#[test]
fn failed_status_call_is_named_below_the_table() {
    let fake = FakeRuntime::start(node());
    fake.on(Rpc::ContainerStatus).id("c3").fail(Code::Internal, "broken");
    let output = plegctl(&["relist", "-r", &fake.endpoint(), "--inspect", "all"]);
    let last = output.stdout.lines().last().unwrap();
    assert!(last.starts_with("  ContainerStatus of ") && last.contains(" c3: error after "), "{output}");
    assert!(last.ends_with("broken"), "{output}");
}

#[test]
fn inspect_needs_no_value() {
    let fake = FakeRuntime::start(node());
    let output = plegctl(&["relist", "--inspect", "-r", &fake.endpoint(), "-n", "default"]);
    assert_eq!((output.code, fake.calls_of(Rpc::ContainerStatus).len()), (Some(0), 3), "{output}");
}

#[test]
fn streamed_lists_are_used_only_with_the_option() {
    let fake = FakeRuntime::start_as(RuntimeKind::Containerd24, node());
    let endpoint = fake.endpoint();
    let plain = json(&plegctl(&["relist", "-r", &endpoint, "-o", "json"]));
    assert!(fake.calls_of(Rpc::StreamContainers).is_empty());
    let streamed = json(&plegctl(&["relist", "-r", &endpoint, "--list-calls", "stream", "-o", "json"]));
    assert_eq!(fake.calls_of(Rpc::StreamContainers).len(), 1);
    assert_eq!(plain["pods"], streamed["pods"]);
    let rpcs = |report: &Value| -> Vec<String> {
        let calls = report["relist"]["calls"].as_array().unwrap();
        calls.iter().map(|call| call["rpc"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(rpcs(&plain), ["ListPodSandbox", "ListContainers"]);
    assert_eq!(rpcs(&streamed), ["StreamPodSandboxes", "StreamContainers"]);
}

#[test]
fn the_list_calls_are_explained_with_v() {
    let fake = FakeRuntime::start_as(RuntimeKind::Containerd24, node());
    let notes =
        |choice: &str| plegctl(&["relist", "-v", "-r", &fake.endpoint(), "--list-calls", choice]).stderr;
    assert!(
        notes("stream").contains("the list calls are StreamPodSandboxes and StreamContainers: --list-calls")
    );
    assert!(notes("unary").contains("the list calls are ListPodSandbox and ListContainers: --list-calls"));
    let usual = notes("auto");
    assert!(
        usual.contains("the list calls are ListPodSandbox and ListContainers: CRIListStreaming is off"),
        "{usual}"
    );
}

#[test]
fn metrics_have_help_types_and_values() {
    let fake = FakeRuntime::start(node());
    let output = plegctl(&["relist", "-r", &fake.endpoint(), "-o", "prometheus"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("\nplegctl_containers{state=\"exited\"} 1\n"), "{output}");
    assert!(output.stdout.starts_with("# HELP plegctl_relist_duration_seconds "), "{output}");
}

/// Runs `relist` with an endpoint that is no runtime; expects exit status 2, an empty stdout, and `words` and a hint on
/// stderr.
fn no_answer(endpoint: &str, words: &str) {
    let output = plegctl(&["relist", "-r", endpoint, "--timeout", "3s"]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{output}");
    assert!(output.stderr.contains(words), "{output}");
    assert!(output.stderr.contains("\nhint: "), "{output}");
    assert_eq!(output.stderr.lines().count(), 2, "{output}");
}

#[test]
fn each_connection_failure_has_its_own_error() {
    let at = |socket: &NotARuntime| socket.path().display().to_string();
    no_answer(&at(&NotARuntime::missing()), "no such socket");
    no_answer(&at(&NotARuntime::regular_file()), "it is a regular file, not a socket");
    no_answer(&at(&NotARuntime::directory()), "it is a directory, not a socket");
    no_answer(&at(&NotARuntime::nobody_listens()), "connection refused");
    no_answer(&at(&NotARuntime::accepts_and_is_silent()), "Version did not answer within 3s");
    no_answer(&at(&NotARuntime::answers_http1()), "does not speak gRPC: it answered `HTTP/1.1 ");
    no_answer(&at(&NotARuntime::closes_at_once()), "closed the connection without an answer");
    no_answer("tcp://10.0.0.1:1234", "plegctl does not support the scheme `tcp`");
    no_answer("unix://run/x.sock", "is not absolute");
}

#[test]
fn error_names_a_runtime_with_only_the_old_api() {
    let fake = FakeRuntime::start(node());
    fake.on(Rpc::Version).fail(Code::Unimplemented, "unknown service runtime.v1.RuntimeService");
    no_answer(&fake.endpoint(), "Version is not implemented by this runtime");
}

#[test]
fn silent_list_is_named_and_not_repeated() {
    let fake = FakeRuntime::start(node());
    fake.on(Rpc::ListContainers).hang();
    no_answer(&fake.endpoint(), "ListContainers did not answer within 3s");
    assert_eq!(fake.calls_of(Rpc::ListContainers).len(), 1);
}

#[test]
fn failing_or_too_large_list_has_its_reason() {
    let fake = FakeRuntime::start(node());
    fake.on(Rpc::ListContainers).close();
    no_answer(&fake.endpoint(), "the runtime closed the connection during ListContainers");
    let fake = FakeRuntime::start(node());
    let text = "grpc: trying to send message larger than max (17000000 vs. 16777216)";
    fake.on(Rpc::ListContainers).fail(Code::ResourceExhausted, text);
    no_answer(&fake.endpoint(), "17000000 vs. 16777216");
}

#[test]
fn list_that_the_kubelet_cannot_read_is_still_shown() {
    let fake = FakeRuntime::start(Node::many(4, 5));
    fake.on(Rpc::ListContainers).oversize(20 << 20);
    let report = json(&plegctl(&["relist", "-r", &fake.endpoint(), "--timeout", "5m", "-o", "json"]));
    assert!(report["relist"]["calls"][1]["responseBytes"].as_u64().unwrap() > 16 << 20);
}

#[test]
fn settings_files_are_used_or_reported() {
    let fake = FakeRuntime::start(node());
    let settings = fake.folder().join("crictl.yaml");
    let path = settings.display().to_string();
    fs::write(&settings, format!("runtime-endpoint: {}\ntimeout: 60\n", fake.endpoint())).unwrap();
    let output = Invocation::new(&["relist", "-v"]).env("CRI_CONFIG_FILE", &settings).run();
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stderr.contains(&format!("from runtime-endpoint in {path}")), "{output}");

    fs::write(&settings, "runtime-endpoint: [\n").unwrap();
    let broken = plegctl(&["relist", "--config", &path]);
    assert_eq!(broken.code, Some(2), "{broken}");
    assert!(broken.stderr.contains(&path) && broken.stderr.contains("line 2 column 1"), "{broken}");
}

#[test]
fn endpoint_from_the_environment_is_below_the_host_root() {
    let fake = FakeRuntime::start(node());
    let root = fake.folder().display().to_string();
    let socket = fake.socket().file_name().unwrap().to_string_lossy().into_owned();
    let output = Invocation::new(&["relist", "-v", "--host-root", &root])
        .env("CONTAINER_RUNTIME_ENDPOINT", format!("unix:///{socket}"))
        .run();
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stderr.contains("from $CONTAINER_RUNTIME_ENDPOINT"), "{output}");
}

#[test]
fn error_without_a_runtime_lists_what_was_tried() {
    let root = TempDir::new();
    let output = plegctl(&["relist", "--host-root", &root.path().display().to_string()]);
    assert_eq!(output.code, Some(2), "{output}");
    for tried in [
        "--runtime-endpoint",
        "crictl.yaml",
        "containerd.sock",
        "crio.sock",
        "cri-dockerd.sock",
        "k3s",
        "sim:",
    ] {
        assert!(output.stderr.contains(tried), "{tried} is not in {output}");
    }
}

#[test]
fn directory_without_permission_is_not_a_missing_socket() {
    let fake = FakeRuntime::start(node());
    let closed = fake.folder().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let path = closed.join("x.sock");
    let arguments = ["relist", "-r", &path.display().to_string()];
    let output = if fs::metadata("/proc/self").unwrap().uid() == 0 {
        // Root can open every directory, so another user runs a copy of the program.
        let copy = fake.folder().join("plegctl");
        copy_program(env!("CARGO_BIN_EXE_plegctl"), &copy);
        let copy = copy.display().to_string();
        let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", &copy];
        Invocation::program("setpriv", &[nobody.as_slice(), &arguments].concat()).run()
    } else {
        plegctl(&arguments)
    };
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(output.code, Some(2), "{output}");
    assert!(
        output.stderr.contains("permission denied") && output.stderr.contains("hint: run plegctl as root"),
        "{output}"
    );
}

#[test]
fn closed_pipe_is_no_error() {
    let fake = FakeRuntime::start(Node::many(500, 4));
    let mut running = Invocation::new(&["relist", "-r", &fake.endpoint(), "-o", "json"]).spawn();
    assert!(running.line().is_some());
    running.close_stdout();
    let output = running.wait();
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
}

#[test]
fn interrupt_before_the_answer_ends_the_program_by_the_signal() {
    let fake = FakeRuntime::start(node());
    fake.on(Rpc::ListContainers).hang();
    let running = Invocation::new(&["relist", "-r", &fake.endpoint()]).spawn();
    fake.wait_for(Rpc::ListContainers, 1);
    running.signal("INT");
    assert_eq!(running.wait().signal, Some(2));
}
