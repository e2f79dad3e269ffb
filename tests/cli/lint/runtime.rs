//! Tests of how `static-pods lint` compares the files with the running pods of a fake runtime: each check is tested
//! with and without its fault.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use plegctl_engine::cri::Rpc;
use plegctl_engine::manifests::checks::runtime::container_hash;
use plegctl_engine::manifests::{Kubelet, KubeletVersion, inspect_bytes};
use serde_json::Value;

use super::{GOOD, directory, lint, report};
use crate::support::plegctl::{Output, plegctl};
use crate::support::socket::{NotARuntime, TempDir};
use crate::support::{FakeRuntime, Node, node::EPOCH_NANOS};

const IMAGE: &str = "registry.k8s.io/app:1.0";
const UID: &str = "0123456789abcdef0123456789abcdef";

/// Creates a directory whose files are older than every pod of the fake runtime.
fn old(files: &[(&str, &str)]) -> TempDir {
    let directory = directory(files);
    for (name, _) in files {
        modified(&directory.path().join(name), nanos(EPOCH_NANOS - 1_000_000_000_000));
    }
    directory
}

fn nanos(nanos: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap())
}

/// Sets the modification time of a file.
fn modified(path: &Path, since_epoch: Duration) {
    File::options().write(true).open(path).unwrap().set_modified(UNIX_EPOCH + since_epoch).unwrap();
}

fn static_pod(node: Node, name: &str, uid: &str, sandbox: &str) -> Node {
    node.pod(name, uid)
        .sandbox(sandbox)
        .annotation("kubernetes.io/config.source", "file")
        .annotation("kubernetes.io/config.hash", uid)
}

/// Returns a node with the static pod of `web.yaml`, without containers.
fn web() -> Node {
    static_pod(Node::new(), "kube-system/web-node1", UID, "s1")
}

/// Adds the container of `web.yaml`, as a kubelet creates it.
fn app(node: Node) -> Node {
    node.container("c1", "app").annotation("io.kubernetes.container.hash", &container_hash("app", IMAGE))
}

/// Lints the files on this node. Returns the output, and the ids and severities of the findings about the runtime.
fn runtime_findings(files: &TempDir, node: Node) -> (Output, Vec<(String, String)>) {
    runtime_findings_with(files, node, &[])
}

fn runtime_findings_with(files: &TempDir, node: Node, more: &[&str]) -> (Output, Vec<(String, String)>) {
    let fake = FakeRuntime::start(node);
    let endpoint = fake.endpoint();
    let this = ["-r", &endpoint, "-o", "json", "--as", "/etc/kubernetes/manifests"];
    let output = lint(files.path(), &[&this[..], more].concat());
    let report = report(&output);
    let found = report["runtimeFindings"].as_array().unwrap().iter().map(|finding: &Value| {
        let text = |key: &str| finding[key].as_str().unwrap().to_owned();
        (text("id"), text("severity"))
    });
    let found = found.collect();
    (output, found)
}

fn assert_found(files: &TempDir, node: Node, expected: &[(&str, &str)]) {
    let (output, found) = runtime_findings(files, node);
    let found: Vec<(&str, &str)> = found.iter().map(|(id, severity)| (&**id, &**severity)).collect();
    assert_eq!(found, expected, "{output}");
}

#[test]
fn pod_that_runs_as_written_has_no_findings() {
    assert_found(&old(&[("web.yaml", GOOD)]), app(web()), &[]);
}

#[test]
fn sp120_manifest_without_a_running_pod() {
    let files = old(&[("web.yaml", GOOD)]);
    assert_found(&files, Node::new(), &[("SP120", "error")]);
    assert_found(&files, app(web()).not_ready(), &[("SP120", "error")]);
    let young = directory(&[("web.yaml", GOOD)]);
    assert_found(&young, Node::new(), &[]);
    let done = old(&[("web.yaml", &format!("{GOOD}  restartPolicy: Never\n"))]);
    assert_found(&done, app(web()).not_ready(), &[]);
}

#[test]
fn sp121_a_static_pod_without_a_file() {
    let files = old(&[("web.yaml", GOOD)]);
    let orphan = static_pod(app(web()), "kube-system/gone-node1", "u2", "s2");
    assert_found(&files, orphan, &[("SP121", "error")]);
    let of_the_api =
        app(web()).pod("default/x", "u2").sandbox("s2").annotation("kubernetes.io/config.source", "api");
    assert_found(&files, of_the_api, &[]);
    let of_a_url =
        app(web()).pod("default/x", "u2").sandbox("s2").annotation("kubernetes.io/config.source", "http");
    assert_found(&files, of_a_url, &[("SP121", "info")]);
    // If lint reads a single file, it does not know the other files of the kubelet, so it reports no pod without a
    // file.
    let fake = FakeRuntime::start(static_pod(app(web()), "kube-system/other-node1", "u2", "s2"));
    let output = lint(&files.path().join("web.yaml"), &["-r", &fake.endpoint(), "-o", "json"]);
    assert_eq!(report(&output)["runtimeFindings"], Value::Array(Vec::new()), "{output}");
}

#[test]
fn sp122_an_old_version_of_a_refused_file() {
    for broken in [GOOD.replace("image:", "imag:"), GOOD.replace("  name", "\tname")] {
        let files = old(&[("web.yaml", &broken)]);
        assert_found(&files, app(web()), &[("SP122", "error")]);
        assert_found(&files, Node::new(), &[]);
    }
}

#[test]
fn sp123_other_images_or_containers() {
    let files = old(&[("web.yaml", &GOOD.replace("app:1.0", "app:2.0"))]);
    assert_found(&files, app(web()), &[("SP123", "error")]);
    let node = web().container("c1", "app").edit_container(|container| {
        container.image.get_or_insert_default().user_specified_image = IMAGE.to_owned();
    });
    assert_found(&files, node, &[("SP123", "error")]);
    let other = app(web()).container("c2", "more");
    assert_found(&old(&[("web.yaml", GOOD)]), other, &[("SP123", "error")]);
    // Before 1.31 the hash does not cover the image.
    let (output, found) = runtime_findings_with(&files, app(web()), &["--kubelet-version", "1.30"]);
    assert_eq!(found, [], "{output}");
}

#[test]
fn sp124_labels_and_annotations_that_differ() {
    let files = old(&[(
        "web.yaml",
        &GOOD.replace("  name: web\n", "  name: web\n  labels: {tier: a}\n  annotations: {x: w}\n"),
    )]);
    assert_found(&files, app(web()), &[("SP124", "warning")]);
    let same = web().annotation("x", "w").edit_sandbox(|sandbox| {
        sandbox.labels.push(crate::support::wire::pair("tier", "a"));
    });
    assert_found(&files, app(same), &[]);
}

#[test]
fn sp125_a_file_changed_after_the_start() {
    let files = directory(&[("web.yaml", GOOD)]);
    assert_found(&files, app(web()), &[("SP125", "info")]);
    let fixed =
        directory(&[("web.yaml", &GOOD.replace("  name: web\n", &format!("  name: web\n  uid: {UID}\n")))]);
    assert_found(&fixed, app(web()), &[("SP125", "warning")]);
    let slack = old(&[("web.yaml", GOOD)]);
    modified(&slack.path().join("web.yaml"), nanos(EPOCH_NANOS) + Duration::from_secs(30));
    assert_found(&slack, app(web()), &[]);
}

#[test]
fn sp126_and_sp127_two_sandboxes_at_once() {
    let files = old(&[("web.yaml", GOOD)]);
    let two_versions = app(static_pod(web(), "kube-system/web-node1", "another", "s2"));
    assert_found(&files, two_versions, &[("SP126", "error")]);
    // The version that the file wants is known by its UID, and works, so the other one may be ended.
    let kubelet = Kubelet {
        manifest_dir: Some("/etc/kubernetes/manifests".into()),
        ..Kubelet::new(KubeletVersion::CONFIRMED, "node1")
    };
    let file = inspect_bytes(&files.path().join("web.yaml"), GOOD.as_bytes(), &kubelet);
    let uid = file.uid.unwrap().unwrap();
    let node = static_pod(Node::new(), "kube-system/web-node1", &uid, "s1");
    let node = static_pod(app(node), "kube-system/web-node1", "another", "s2").container("c9", "app");
    let (output, _) = runtime_findings(&files, node);
    let fix = report(&output)["runtimeFindings"][0]["fix"].clone();
    assert_eq!(
        fix,
        "the file wants sandbox s1, which works; end the other version (changes state): crictl --timeout 60s stopp s2",
        "{output}"
    );
    let same_version = app(static_pod(web(), "kube-system/web-node1", UID, "s2"));
    assert_found(&files, same_version, &[("SP127", "warning")]);
    let replaced = app(static_pod(web().not_ready(), "kube-system/web-node1", UID, "s2"));
    assert_found(&files, replaced, &[]);
}

#[test]
fn sp128_container_that_restarts_repeatedly() {
    let files = old(&[("web.yaml", GOOD)]);
    let crashing = || app(web()).attempt(7).exited(1);
    let (output, found) = runtime_findings(&files, crashing());
    assert_eq!(found, [("SP128".to_owned(), "error".to_owned())], "{output}");
    assert!(output.stdout.contains("7 restarts, last exit code 1"), "{output}");
    assert_found(&files, app(web()).attempt(1).exited(1), &[]);
    assert_found(&files, app(web()).attempt(7).exited(0), &[]);
    // The container has run for years since its last restart.
    let recovered = app(crashing()).edit_container(|container| container.id = "c2".to_owned()).attempt(8);
    assert_found(&files, recovered, &[]);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let again = app(crashing()).edit_container(|container| container.id = "c2".to_owned()).attempt(8);
    assert_found(&files, again.created_at(i64::try_from(now).unwrap()), &[("SP128", "error")]);
}

#[test]
fn sp128_requests_only_the_status_of_restarting_containers() {
    let files = old(&[("web.yaml", GOOD)]);
    let fake = FakeRuntime::start(
        app(web()).attempt(7).exited(1).pod("default/x", "u").sandbox("s9").container("c9", "x"),
    );
    lint(files.path(), &["-r", &fake.endpoint()]);
    let rpcs: Vec<Rpc> = fake.calls().iter().map(|call| call.rpc).collect();
    assert_eq!(rpcs, [Rpc::ListPodSandbox, Rpc::ListContainers, Rpc::ContainerStatus]);
}

#[test]
fn sp129_container_that_was_never_created() {
    let files = old(&[("web.yaml", &format!("{GOOD}  - name: side\n    image: registry.k8s.io/side:1\n"))]);
    assert_found(&files, app(web()), &[("SP129", "warning")]);
    let init = old(&[("web.yaml", &format!("{GOOD}  initContainers: [{{name: init, image: 'i:1'}}]\n"))]);
    let waiting = web()
        .container("c0", "init")
        .annotation("io.kubernetes.container.hash", &container_hash("init", "i:1"));
    assert_found(&init, waiting, &[]);
}

#[test]
fn sp130_uid_differs_from_the_files() {
    let files = old(&[("web.yaml", &GOOD.replace("  name: web\n", "  name: web\n  uid: new\n"))]);
    assert_found(&files, app(web()), &[("SP130", "warning")]);
    let same = old(&[("web.yaml", &GOOD.replace("  name: web\n", &format!("  name: web\n  uid: {UID}\n")))]);
    assert_found(&same, app(web()), &[]);
}

#[test]
fn sp131_another_node() {
    let files = old(&[("web.yaml", GOOD)]);
    let node = app(static_pod(Node::new(), "kube-system/web-other", UID, "s1"));
    assert_found(&files, node, &[("SP131", "info")]);
}

#[test]
fn sp132_many_ended_sandboxes() {
    let files = old(&[("web.yaml", GOOD)]);
    let with_dead = |dead: usize| {
        let node = (0..dead).fold(Node::new(), |node, number| {
            static_pod(node, "kube-system/web-node1", UID, &format!("d{number}")).not_ready()
        });
        app(static_pod(node, "kube-system/web-node1", UID, "s1"))
    };
    assert_found(&files, with_dead(5), &[("SP132", "info")]);
    assert_found(&files, with_dead(4), &[]);
}

#[test]
fn findings_about_the_runtime_count_and_can_be_ignored() {
    let files = old(&[("web.yaml", GOOD)]);
    let fake = FakeRuntime::start(Node::new());
    let endpoint = fake.endpoint();
    assert_eq!(lint(files.path(), &["-r", &endpoint]).code, Some(1));
    assert_eq!(lint(files.path(), &["-r", &endpoint, "--ignore", "SP120"]).code, Some(0));
    let calls_before = fake.calls().len();
    let output = lint(files.path(), &["-r", &endpoint, "--no-cri", "-o", "json"]);
    assert_eq!((output.code, fake.calls().len()), (Some(0), calls_before), "{output}");
    assert_eq!(report(&output)["notChecked"][0]["why"], "--no-cri");
}

#[test]
fn unreachable_runtime_does_not_prevent_linting_the_files() {
    let files = directory(&[("web.yaml", "")]);
    let nobody = NotARuntime::missing();
    let output = lint(files.path(), &["-r", &nobody.path().display().to_string(), "-o", "json"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stderr.contains("not compared with the runtime"), "{output}");
    let report = report(&output);
    assert_eq!(report["files"][0]["verdict"], "rejected");
    assert!(report["notChecked"][0]["why"].as_str().unwrap().contains("no such"), "{output}");
}

#[test]
fn without_an_endpoint_only_the_nodes_own_manifests_are_compared() {
    let files = old(&[("web.yaml", GOOD)]);
    let unnamed = lint(files.path(), &[]);
    assert_eq!((unnamed.code, unnamed.stderr.as_str()), (Some(0), ""), "{unnamed}");
    let host = TempDir::new();
    let directory = host.path().join("etc/kubernetes/manifests");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("web.yaml"), "").unwrap();
    let root = host.path().display().to_string();
    let output = plegctl(&["static-pods", "lint", "--host-root", &root]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stderr.contains("not compared with the runtime"), "{output}");
}

/// Returns the UID that a kubelet 1.`minor` gives web.yaml with this text.
fn uid_by(text: &str, minor: u8) -> String {
    let kubelet = Kubelet::new(KubeletVersion::nearest(minor), "node1");
    let file = inspect_bytes(Path::new("/etc/kubernetes/manifests/web.yaml"), text.as_bytes(), &kubelet);
    file.uid.unwrap().unwrap()
}

/// Returns the field `runs` of the first file: whether the running pod was created from the same text, and by which
/// releases.
fn runs_of_first_file(output: &Output) -> Value {
    report(output)["files"][0]["runs"].clone()
}

#[test]
fn equal_uid_names_the_release_that_created_the_pod() {
    let files = old(&[("web.yaml", GOOD)]);
    for (minor, by) in [(28, "1.28"), (30, "1.30"), (32, "1.32"), (34, "1.34"), (36, "1.36")] {
        let node = || app(static_pod(Node::new(), "kube-system/web-node1", &uid_by(GOOD, minor), "s1"));
        let (output, found) = runtime_findings(&files, node());
        assert_eq!(found, [], "{output}");
        let runs = runs_of_first_file(&output);
        assert_eq!(runs["text"], "same", "{output}");
        assert!(runs["madeBy"].as_array().unwrap().contains(&Value::from(by)), "{output}");
        // With `--kubelet-version 1.36`, lint reports that this release did not create the pod.
        let (output, found) = runtime_findings_with(&files, node(), &["--kubelet-version", "1.36"]);
        let expected: &[(String, String)] = match minor {
            36 => &[],
            _ => &[("SP134".to_owned(), "info".to_owned())],
        };
        assert_eq!(found, expected, "{output}");
    }
}

#[test]
fn sp123_is_certain_if_the_uids_of_the_node_are_known() {
    let db = GOOD.replace("name: web", "name: db");
    let edited = GOOD.replace("app:1.0", "app:1.0\n    args: [--verbose]");
    let files = old(&[("db.yaml", &db), ("web.yaml", &edited)]);
    let kubelet = Kubelet::new(KubeletVersion::nearest(33), "node1");
    let of_db = inspect_bytes(Path::new("/etc/kubernetes/manifests/db.yaml"), db.as_bytes(), &kubelet);
    let before = static_pod(app(web()), "kube-system/db-node1", &of_db.uid.unwrap().unwrap(), "s2");
    let before = before
        .container("c2", "app")
        .annotation("io.kubernetes.container.hash", &container_hash("app", IMAGE));
    let (output, found) = runtime_findings(&files, before);
    assert_eq!(found, [("SP123".to_owned(), "error".to_owned())], "{output}");
    let report = report(&output);
    let message = report["runtimeFindings"][0]["message"].as_str().unwrap();
    assert!(message.contains("arguments") && message.contains("last changed at"), "{message}");
    assert_eq!(report["files"][1]["runs"]["text"], "another", "{output}");
    // If no pod of the node has a UID of a known release, another UID proves nothing.
    let (output, found) = runtime_findings(&old(&[("web.yaml", &edited)]), app(web()));
    assert_eq!(found, [], "{output}");
    let report = crate::cli::lint::report(&output);
    assert!(report["notChecked"][0]["why"].as_str().unwrap().contains("--as"), "{output}");
}

#[test]
fn directory_other_than_the_nodes_has_no_orphans() {
    let files = old(&[("web.yaml", GOOD)]);
    let fake = FakeRuntime::start(static_pod(app(web()), "kube-system/other-node1", "u2", "s2"));
    let output = lint(files.path(), &["-r", &fake.endpoint(), "-o", "json"]);
    assert_eq!(report(&output)["runtimeFindings"], Value::Array(Vec::new()), "{output}");
}

#[test]
fn every_path_of_the_nodes_own_directory_is_recognised() {
    let host = TempDir::new();
    let directory = host.path().join("etc/kubernetes/manifests");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("web.yaml"), GOOD).unwrap();
    let link = host.path().join("link");
    std::os::unix::fs::symlink(&directory, &link).unwrap();
    let root = host.path().display().to_string();
    let output = lint(&link, &["--host-root", &root, "-o", "json"]);
    assert!(output.stderr.contains("not compared with the runtime"), "{output}");
    assert_eq!(report(&output)["files"][0]["podUid"], uid_by(GOOD, 36), "{output}");
}
