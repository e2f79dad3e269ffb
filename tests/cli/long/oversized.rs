//! Tests of the commands that `health` prints against a list over the kubelet's limit. A stand-in for crictl runs them on
//! a node of files: it refuses what crictl refuses, and the fake runtime lists what is left.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::captures::CaptureDir;
use crate::support::plegctl::{Invocation, Output, plegctl};
use crate::support::{FakeRuntime, Node};

/// Each container is a file `containers/ID` with its sandbox, its state, its name, its attempt and its bytes, and each
/// sandbox is a file `sandboxes/ID` with its state. Like crictl, this reads the status of a sandbox before it removes the
/// sandbox, and cannot receive more than 16 MiB. It knows the commands that plegctl may print, and nothing else.
const CRICTL: &str = r#"#!/bin/sh
cd "$(dirname "$0")/.."
fail() { echo "crictl: $*" >&2; exit 1; }
only() { [ $# = 1 ] && [ -e "$1" ] || fail "not one: $*"; echo "$1"; }
[ "$1" = --timeout ] && shift 2 || fail "no time limit"
verb=$1; shift
case $verb in
rm)
    for id; do
        file=$(only containers/"$id"*) || exit 1
        read -r sandbox state name attempt bytes < "$file"
        [ "$state" = EXITED ] || fail "$id runs"
        rm "$file"
    done ;;
rmp)
    for id; do
        file=$(only sandboxes/"$id"*) || exit 1
        read -r state < "$file"
        [ "$state" = NOTREADY ] || fail "$id is ready"
        sandbox=${file#sandboxes/}
        all=$(cat containers/* | awk -v s="$sandbox" '$1 == s { sum += $5 } END { print sum + 0 }')
        [ "$all" -le 16777216 ] || fail "ResourceExhausted: received message larger than max ($all vs. 16777216)"
        for member in containers/*; do
            read -r of rest < "$member"
            [ "$of" = "$sandbox" ] && rm "$member"
        done
        rm "$file"
    done ;;
stopp)
    file=$(only sandboxes/"$1"*) || exit 1
    echo NOTREADY > "$file"
    sed -i "s/^\(${file#sandboxes/}\) RUNNING/\1 EXITED/" containers/* ;;
pods)
    [ "$*" = "--state notready --namespace ^batch\$ --name ^render- -q" ] || fail "$*"
    grep -l NOTREADY sandboxes/* | sed 's,.*/,,' ;;
*) fail "$verb" ;;
esac
"#;

/// A node of files, and the fake runtime that lists it.
struct OversizedNode {
    place: CaptureDir,
    fake: FakeRuntime,
}

/// Returns an id like those of containerd.
fn id(number: u64) -> String {
    format!("{:016x}", (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).repeat(4)
}

impl OversizedNode {
    fn new() -> Self {
        let place = CaptureDir::make();
        for directory in ["bin", "containers", "sandboxes"] {
            fs::create_dir_all(place.path(directory)).unwrap();
        }
        // The kubelet does nothing while its list fails, so the API server's answer changes nothing here.
        for (program, text) in [("crictl", CRICTL), ("kubectl", "#!/bin/sh\n")] {
            let path = place.path("bin").join(program);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { place, fake: FakeRuntime::start(Node::new()) }
    }

    fn sandbox(&self, number: u64, state: &str) {
        fs::write(self.place.path("sandboxes").join(id(number)), format!("{state}\n")).unwrap();
    }

    fn container(&self, number: u64, sandbox: u64, state: &str, (name, attempt): (&str, u32), kib: usize) {
        let text = format!("{} {state} {name} {attempt} {}\n", id(sandbox), kib << 10);
        fs::write(self.place.path("containers").join(id(number)), text).unwrap();
    }

    /// Reads the files of a kind, in the order of their names.
    fn files(&self, kind: &str) -> Vec<(String, Vec<String>)> {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(self.place.path(kind)).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let words =
            |path: &Path| fs::read_to_string(path).unwrap().split_whitespace().map(str::to_owned).collect();
        paths.iter().map(|path| (name(path), words(path))).collect()
    }

    /// Gives the runtime the node of the files, and runs `health`.
    fn health(&self) -> Value {
        let mut node = Node::new();
        for (number, (sandbox, state)) in self.files("sandboxes").into_iter().enumerate() {
            node = node.pod(&format!("batch/render-{number}"), &format!("uid-{}", &sandbox[..8]));
            node = node.sandbox(&sandbox);
            if state[0] == "NOTREADY" {
                node = node.not_ready();
            }
            for (container, words) in self.files("containers") {
                if words[0] != sandbox {
                    continue;
                }
                node = node.container(&container, &words[2]).attempt(words[3].parse().unwrap());
                node = node.annotation("a", &"x".repeat(words[4].parse().unwrap()));
                if words[1] == "EXITED" {
                    node = node.exited(0);
                }
            }
        }
        self.fake.set_node(node);
        let output = plegctl(&["health", "-r", &self.fake.endpoint(), "--budget", "10m", "-o", "json"]);
        serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"))
    }

    /// Runs a command of the report as a user would.
    fn run(&self, command: &str) -> Output {
        let path = format!("{}:{}", self.place.path("bin").display(), std::env::var("PATH").unwrap());
        let output = Invocation::program("sh", &["-c", command]).env("PATH", path).run();
        assert_eq!(output.code, Some(0), "{command}\n{output}");
        output
    }

    fn count(&self, kind: &str) -> usize {
        self.files(kind).len()
    }
}

/// Returns the commands in the steps of the first finding.
fn commands(report: &Value) -> Vec<String> {
    let steps = report["primary"]["steps"].as_array().unwrap().iter();
    steps.filter_map(|step| Some(step.get("command")?.as_str().unwrap().to_owned())).collect()
}

fn assert_refused(report: &Value) {
    assert_eq!(
        (&report["verdict"], &report["primary"]["id"]),
        (&"unhealthy".into(), &"D03".into()),
        "{report}"
    );
}

/// Whether an evidence line of the first finding contains the words.
fn says(report: &Value, words: &str) -> bool {
    let lines = report["primary"]["evidence"].as_array().unwrap();
    lines.iter().any(|line| line.as_str().unwrap().contains(words))
}

#[test]
fn replaced_containers_are_removed_by_the_printed_command_until_the_list_fits() {
    let node = OversizedNode::new();
    node.sandbox(0, "READY");
    // 60 containers run, and 15 of them have an earlier attempt: 17.2 MiB, and no dead sandbox.
    for number in 0..60 {
        node.container(100 + number, 0, "RUNNING", (&format!("c{number}"), 1), 235);
    }
    for number in 0..15 {
        node.container(200 + number, 0, "EXITED", (&format!("c{number}"), 0), 235);
    }
    // The last container of its name must stay: the kubelet would run it again.
    node.container(300, 0, "EXITED", ("once", 0), 1);
    let report = node.health();
    assert_refused(&report);
    assert!(says(&report, "1 exited container must stay"), "{report}");
    let first = commands(&report).remove(0);
    assert!(first.starts_with("crictl --timeout 60s rm "), "{report}");
    assert!(!commands(&report).iter().any(|command| command.contains("rmp")), "no sandbox is dead: {report}");
    node.run(&first);
    assert_eq!(node.count("containers"), 66, "{first}");
    assert_ne!(node.health()["verdict"], "unhealthy");
}

#[test]
fn dead_pods_are_removed_by_the_printed_commands() {
    let node = OversizedNode::new();
    for number in 0..24 {
        node.sandbox(number, "NOTREADY");
        node.container(100 + number, number, "EXITED", ("render", 0), 735);
    }
    let report = node.health();
    assert_refused(&report);
    let commands = commands(&report);
    let of = |verb: &str| commands.iter().find(|command| command.contains(verb)).unwrap().clone();
    node.run(&of(" rm "));
    assert_eq!((node.count("containers"), node.count("sandboxes")), (14, 24), "{commands:#?}");
    node.run(&of("60s rmp "));
    assert_eq!(node.count("sandboxes"), 14, "{commands:#?}");
    node.run(&of("xargs "));
    assert_eq!((node.count("containers"), node.count("sandboxes")), (0, 0), "{commands:#?}");
    assert_ne!(node.health()["primary"]["id"], "D03");
}

#[test]
fn a_list_without_anything_dead_names_the_largest_pod_and_commands_that_end_it() {
    let node = OversizedNode::new();
    node.sandbox(0, "READY");
    node.sandbox(1, "READY");
    node.container(99, 1, "RUNNING", ("small", 0), 1);
    for number in 0..75 {
        node.container(100 + number, 0, "RUNNING", (&format!("c{number}"), 0), 235);
    }
    let report = node.health();
    assert_refused(&report);
    assert!(says(&report, "nothing dead can be removed"), "{report}");
    assert!(says(&report, "the pods with the most bytes: batch/render-"), "{report}");
    // A pod of this size cannot be removed as a whole: its status is too large too.
    let commands = commands(&report);
    assert!(!commands.iter().any(|command| command.contains("rmp")), "{commands:#?}");
    for command in &commands {
        node.run(command);
    }
    assert_eq!(node.count("containers"), 66, "{commands:#?}");
    assert_ne!(node.health()["verdict"], "unhealthy");
}
