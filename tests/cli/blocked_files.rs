//! Tests of `health` with input and output files that do not answer. In these tests, a FIFO without a reader or a
//! writer behaves like a file on a disk that hangs.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::plegctl::{Invocation, plegctl};
use crate::support::{FakeRuntime, Node};

fn node() -> Node {
    Node::new().pod("default/web-0", "uid-1").sandbox("s1").container("c1", "app")
}

fn fifo(folder: &Path) -> String {
    let path = folder.join("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path.display().to_string()
}

#[test]
fn verdict_is_printed_before_a_file_is_written() {
    for flag in ["--save", "--bundle"] {
        let fake = FakeRuntime::start(node());
        let fifo = fifo(fake.folder());
        let mut running =
            Invocation::new(&["health", "-r", &fake.endpoint(), "-o", "jsonl", flag, &fifo]).spawn();
        // Nobody reads from the FIFO yet, so plegctl cannot write to it.
        let line = running.line().unwrap_or_default();
        let report: Value = serde_json::from_str(&line).unwrap_or_else(|why| panic!("{flag}: {why}: {line}"));
        assert_eq!(report["verdict"], "healthy", "{flag}: {line}");
        let written = fs::read(&fifo).unwrap();
        let output = running.wait();
        assert_eq!(output.code, Some(0), "{flag}: {output}");
        assert!(!written.is_empty(), "{flag}");
    }
}

#[test]
fn unreadable_credential_does_not_hide_the_verdict() {
    let fake = FakeRuntime::start(node());
    let fifo = fifo(fake.folder());
    let known = ["--kubelet-url", "http://127.0.0.1:1", "--kubelet-token-file", &fifo];
    let output = plegctl(&[&["health", "-r", &fake.endpoint(), "-o", "json"], &known[..]].concat());
    let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"));
    let skipped = report["notChecked"].as_array().unwrap();
    let late = |skipped: &&Value| skipped["why"].as_str().unwrap().contains("did not answer within 1s");
    assert!(skipped.iter().find(late).is_some(), "{output}");
    // Without the credential, there is no answer about the kubelet (status 2). A hang of the runtime would still be
    // reported.
    assert_eq!((&report["verdict"], output.code), (&"unknown".into(), Some(2)), "{output}");
}
