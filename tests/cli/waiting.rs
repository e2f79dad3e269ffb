//! Tests in a terminal of 80 columns: what a command prints while it waits, and where its lines end.

use std::collections::BTreeSet;

use crate::support::captures::{CaptureDir, argument, record};
use crate::support::plegctl::{Invocation, Output, plegctl};

/// Runs plegctl in a terminal of 80 columns.
fn in_terminal(arguments: &[&str]) -> Output {
    Invocation::in_terminal_of((50, 80), env!("CARGO_BIN_EXE_plegctl"), arguments).env("NO_COLOR", "1").run()
}

#[test]
fn command_that_waits_says_for_what() {
    let sim = ["-r", "sim:hung-list", "--at", "1h", "--timeout", "3s"];
    for (arguments, source) in [
        (&["pods", "--manifests", "tests/docs"][..], "for the runtime's lists"),
        (&["static-pods", "lint"], "for the runtime's lists"),
        (&["diff", "live", "sim:quiet"], "s for ListContainers"),
        (&["pods", "--why", "default/x"], "for the checks of `plegctl health`"),
    ] {
        let output = in_terminal(&[&sim[..], arguments].concat());
        assert!(output.stdout.contains("waiting ") && output.stdout.contains(source), "{output}");
        assert!(!output.stdout.contains("ListContainers, waiting"), "the call is named once: {output}");
    }
}

/// Returns the words without figures, which differ between two runs, and the ids.
fn words(text: &str) -> BTreeSet<&str> {
    let is_id = |word: &str| word.len() >= 12 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let words = text.split_whitespace();
    words.filter(|word| is_id(word) || !word.bytes().any(|byte| byte.is_ascii_digit())).collect()
}

#[test]
fn no_line_on_a_terminal_is_wider_than_it_and_no_word_is_broken() {
    let folder = CaptureDir::make();
    let capture = folder.path("capture");
    record("sim:quiet", &capture, &["--count", "2", "--period", "10ms"]);
    let capture = argument(&capture);
    for arguments in [
        &["relist", "-r", "sim:quiet", "--at", "1h"][..],
        &["relist", "-r", "sim:quiet", "--at", "1h", "-o", "wide"],
        &["pods", "-r", "sim:quiet", "--at", "1h", "--manifests", "tests/docs"],
        &["capture", "ls", capture],
        &["explain"],
        &["explain", "D01"],
        &["static-pods", "lint", "-r", "sim:stale-static-pod", "--at", "1h"],
        &["preflight", "--config", "docs/examples/kubelet-config.yaml", "--kubelet-version", "1.35"],
        &["stacks", "-r", "sim:hung-list", "--at", "1h"],
        &["sim", "list"],
        &["sim", "describe", "hung-list"],
        &["relist", "-r", "sim:none"],
        &["relist", "-r", "sim:hung-list", "--at", "1h", "--timeout", "1s"],
    ] {
        let arguments = [arguments, &["--quiet"][..]].concat();
        let (shown, piped) = (in_terminal(&arguments), plegctl(&arguments));
        let text = shown.stdout.replace("\r\n", "\n");
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}\n{shown}");
        }
        let all = format!("{}\n{}", piped.stdout, piped.stderr);
        let missing: Vec<_> = words(&all).difference(&words(&text)).copied().collect();
        assert!(missing.is_empty(), "{missing:?}\n{shown}");
    }
}
