//! The process tests of `plegctl diff`: two relists from files, stdin or the node, and files that are no report.

use std::fs;

use serde_json::Value;

use crate::support::plegctl::{Invocation, plegctl};
use crate::support::{FakeRuntime, Node};

fn running() -> Node {
    Node::new().pod("default/web-0", "uid-1").sandbox("s1").container("c1", "app")
}

fn exited() -> Node {
    Node::new().pod("default/web-0", "uid-1").sandbox("s1").container("c1", "app").exited(137)
}

/// Saves a report of `fake` and returns its path.
fn save(fake: &FakeRuntime, name: &str) -> String {
    let path = fake.folder().join(name).display().to_string();
    let output = plegctl(&["relist", "-r", &fake.endpoint(), "--save", &path, "-o", "jsonl"]);
    assert_eq!(output.code, Some(0), "{output}");
    path
}

#[test]
fn diff_of_a_saved_report_and_the_node_gives_the_events_of_pleg() {
    let fake = FakeRuntime::start(running());
    let before = save(&fake, "before.json");
    fake.set_node(exited());
    let output = plegctl(&["diff", "-r", &fake.endpoint(), &before, "-o", "json"]);
    assert_eq!(output.code, Some(1), "{output}");
    let difference: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(difference["kind"], "DiffReport");
    assert_eq!(difference["events"][0]["type"], "ContainerDied");
    assert_eq!(difference["events"][0]["id"], "c1");
    assert_eq!(
        (&difference["events"][0]["from"], &difference["events"][0]["to"]),
        (&"running".into(), &"exited".into())
    );

    let after = save(&fake, "after.json");
    let table = plegctl(&["diff", &before, &after]);
    assert_eq!(table.code, Some(1), "{table}");
    let words = table.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("default/web-0 app running → exited ContainerDied"), "{table}");
    assert_eq!(plegctl(&["diff", &after, &after]).code, Some(0));
}

#[test]
fn a_side_can_be_a_simulation_at_a_time_or_another_runtime() {
    // Time passes between the two sides, and nothing changes in this scenario at that time.
    assert_eq!(plegctl(&["diff", "sim:quiet@5s", "sim:quiet@5s"]).code, Some(0));
    let output = plegctl(&["diff", "sim:crash-loop@10s", "sim:crash-loop@1h"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stdout.contains("ContainerDied"), "{output}");
    let (first, second) = (FakeRuntime::start(running()), FakeRuntime::start(exited()));
    let output = plegctl(&["diff", &first.endpoint(), &second.endpoint()]);
    assert_eq!(output.code, Some(1), "{output}");
    let unknown = plegctl(&["diff", "sim:unknown"]);
    assert_eq!(unknown.code, Some(2), "{unknown}");
    assert!(unknown.stderr.contains("scenario"), "{unknown}");
}

#[test]
fn either_side_can_be_stdin_but_not_both() {
    let fake = FakeRuntime::start(running());
    let saved = fs::read(save(&fake, "before.json")).unwrap();
    let output = Invocation::new(&["diff", "-r", &fake.endpoint(), "-"]).stdin(saved.clone()).run();
    assert_eq!(output.code, Some(0), "{output}");
    let output = Invocation::new(&["diff", "-r", &fake.endpoint(), "live", "-"]).stdin(saved).run();
    assert_eq!(output.code, Some(0), "{output}");
    let output = plegctl(&["diff", "-", "-"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("cannot read both sides from stdin"), "{output}");
}

/// Runs `diff` with this text on stdin and expects exit status 2 and `words` on stderr.
fn refused(text: impl Into<Vec<u8>>, words: &str) {
    let output = Invocation::new(&["diff", "-"]).stdin(text).run();
    assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{output}");
    assert!(output.stderr.contains(words) && output.stderr.contains("\nhint: "), "{output}");
}

#[test]
fn errors_distinguish_the_kinds_of_files_that_are_no_report() {
    let fake = FakeRuntime::start(running());
    let saved = fs::read_to_string(save(&fake, "before.json")).unwrap();
    refused("", "it is empty");
    refused("not json", "it is not JSON");
    refused(r#"{"apiVersion": "v1", "kind": "Pod"}"#, "not a RelistReport");
    refused("[1, 2]", "not a RelistReport");
    refused(&saved[..saved.len() / 2], "it ends too early");
    refused(saved.replace("plegctl/v1", "plegctl/v2"), "apiVersion `plegctl/v2`");
    refused(saved.replace("\"takenAt\"", "\"takenat\""), "it is not a RelistReport");
}

#[test]
fn error_names_a_missing_file() {
    let output = plegctl(&["diff", "/nowhere/at/all.json"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("cannot read /nowhere/at/all.json"), "{output}");
}

#[test]
fn diff_of_two_nodes_needs_force() {
    let fake = FakeRuntime::start(running());
    let before = save(&fake, "before.json");
    let other = fs::read_to_string(&before).unwrap();
    let mut report: Value = serde_json::from_str(&other).unwrap();
    report["node"] = "somewhere-else".into();
    let after = fake.folder().join("after.json");
    fs::write(&after, report.to_string()).unwrap();
    let after = after.display().to_string();
    let output = plegctl(&["diff", &before, &after]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("somewhere-else") && output.stderr.contains("--force"), "{output}");
    assert_eq!(plegctl(&["diff", "--force", &before, &after]).code, Some(0));
}
