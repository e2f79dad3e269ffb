//! Tests of what `--help` shows: every command has examples that work, and no line is wider than the terminal.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use plegctl_engine::capture::Capture;

use crate::support::plegctl::{Invocation, Output, plegctl};
use crate::support::socket::TempDir;

/// Returns the help of a command in a terminal of 80 columns.
fn help(command: &[String], option: &str) -> String {
    let words: Vec<&str> = command.iter().map(String::as_str).chain([option]).collect();
    let output = Invocation::new(&words).env("COLUMNS", "80").run();
    assert_eq!(output.code, Some(0), "{output}");
    output.stdout
}

/// Returns every command and sub-command, found in the help itself.
fn commands() -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let mut next = 0;
    while let Some(command) = all.get(next).cloned() {
        let text = help(&command, "--help");
        let listed =
            text.split("\nCommands:\n").nth(1).unwrap_or_default().split("\n\n").next().unwrap_or_default();
        let names =
            listed.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
        for name in names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
            all.push([command.clone(), vec![name.to_owned()]].concat());
        }
        next += 1;
    }
    all
}

#[test]
fn no_line_of_any_help_is_wider_than_80_columns() {
    let commands = commands();
    assert!(commands.len() > 20, "{commands:?}");
    for (command, option) in commands.iter().flat_map(|command| [(command, "-h"), (command, "--help")]) {
        for line in help(command, option).lines() {
            assert!(line.chars().count() <= 80, "{command:?} {option}: {line}");
        }
    }
}

/// Returns a directory with every file that an example names.
fn files() -> TempDir {
    let folder = TempDir::new();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = |name: &str| folder.path().join(name);
    let copy = |from: &str, to: &str| fs::copy(repository.join(from), path(to)).unwrap();
    copy("tests/recordings/stacks/c16-lock.t200.usr1.gz", "containerd.812.stacks.log");
    copy("tests/recordings/stacks/c16-lock.t5.usr1.gz", "first.log");
    copy("tests/recordings/stacks/c16-lock.t200.usr1.gz", "second.log");
    copy("docs/examples/kubelet-config.yaml", "kubelet.yaml");
    copy("src/sim/scenarios/quiet.yaml", "mine.yaml");
    copy("tests/captures/0.1.0.plegcap", "one.plegcap");
    fs::create_dir_all(path("manifests")).unwrap();
    fs::create_dir_all(path("home/.zfunc")).unwrap();
    for name in ["manifests/kube-scheduler.yaml", "manifests/kube-scheduler.yaml.bak"] {
        copy(&format!("docs/examples/{name}"), name);
    }
    for (name, text) in [("kubectl", r#"echo '{"kind": "PodList", "items": []}'"#), ("man", "cat \"$1\"")] {
        fs::create_dir_all(path("bin")).unwrap();
        fs::write(path("bin").join(name), format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(path("bin").join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let record = "record -r sim:crash-loop recording --count 3 --period 50ms --slow 1ms --no-diagnose";
    for arguments in ["relist -r sim:crash-loop --at 0s --save before.json", record] {
        let words: Vec<&str> = arguments.split(' ').collect();
        let output = Invocation::new(&words).current_dir(folder.path()).run();
        assert_eq!(output.code, Some(0), "{output}");
    }
    folder
}

/// Returns the exit statuses that an example may have on an empty node.
fn statuses(example: &str) -> &[i32] {
    let starts = |starts: &[&str]| starts.iter().any(|start| example.starts_with(start));
    if starts(&["plegctl nodes", "plegctl pods", "plegctl preflight --upgrade-to"]) {
        // They need a kubelet or a cluster.
        &[2]
    } else if example.contains("--node ") {
        // Without a cluster, `health` queries the runtime, and every other command has no answer.
        &[0, 2]
    } else if example.contains("diff capture:") {
        // Whether a container has changed depends on the moment.
        &[0, 1]
    } else if example.starts_with("plegctl static-pods lint") && !example.contains(".yaml") {
        // The manifests of the simulated node have no error.
        &[0, 1]
    } else if starts(&[
        "kubectl",
        "plegctl diff",
        "plegctl health -r sim:",
        "plegctl preflight --config",
        "plegctl stacks",
        "plegctl static-pods lint",
        "plegctl watch --until-slow",
    ]) {
        &[1]
    } else {
        &[0]
    }
}

/// Runs an example as a user would type it, with the files of the test in place of those of a node.
fn run(example: &str, folder: &TempDir, times: &[String; 2]) -> Output {
    let binary = Path::new(env!("CARGO_BIN_EXE_plegctl")).parent().unwrap().display();
    let search = std::env::var("PATH").unwrap();
    let line = [
        ("record /var/lib/plegctl", "record other-recording"),
        ("/var/lib/plegctl", "recording"),
        ("03:10:00", &times[0]),
        ("03:12:00", &times[1]),
        ("03:15:00", &times[1]),
        ("/tmp/", ""),
        ("/usr/local/", ""),
        ("127.0.0.1:9188", "127.0.0.1:0"),
        (" --for 1m", " --for 1s"),
        (" --for 1h", " --for 1s"),
    ]
    .iter()
    .fold(example.to_owned(), |line, (from, to)| line.replace(from, to));
    let endpoint = if line.contains("--until-slow") { "sim:slow-status" } else { "sim:crash-loop" };
    // The shell becomes plegctl, so that the signal below reaches it.
    let never_ends = line.contains("sim serve")
        || line.contains("sim fleet")
        || line.ends_with("record other-recording")
        || line.starts_with("plegctl top");
    let line = if never_ends { format!("exec {line}") } else { line };
    let mut running = Invocation::program("bash", &["-c", &format!("set -o pipefail; {line}")])
        .current_dir(folder.path())
        .with_short_silences()
        .env("PATH", format!("{}:{binary}:{search}", folder.path().join("bin").display()))
        .env("HOME", folder.path().join("home"))
        .env("CONTAINER_RUNTIME_ENDPOINT", endpoint)
        .spawn();
    if never_ends {
        running.line();
        running.signal("INT");
    }
    running.wait()
}

#[test]
fn long_every_example_of_the_help_works() {
    let folder = files();
    let relists = Capture::open(&folder.path().join("recording")).unwrap().relists;
    let times = [0, 2].map(|index: usize| relists[index].wall.to_string());
    let mut examples = Vec::new();
    for command in commands() {
        let text = help(&command, "--help");
        let (_, own) =
            text.split_once("\nExamples:\n").unwrap_or_else(|| panic!("{command:?} has no example"));
        let own = own.replace("|\n    ", "| ");
        examples.extend(own.lines().map(str::trim).filter(|line| !line.starts_with('#')).map(str::to_owned));
    }
    examples.sort();
    examples.dedup();
    assert!(examples.len() > 40, "{examples:?}");
    let mut wrong = Vec::new();
    for example in examples {
        let output = run(&example, &folder, &times);
        let expected = statuses(&example);
        if output.code.is_none_or(|code| !expected.contains(&code)) || output.stderr.contains("Usage:") {
            wrong.push(format!("{example}: expected exit status {expected:?}\n{output}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_option_that_the_help_leaves_out_is_still_accepted() {
    let shown = plegctl(&["explain", "--help"]).stdout;
    assert!(shown.contains("--color") && !shown.contains("--runtime-endpoint"), "{shown}");
    let output = plegctl(&["explain", "D01", "-r", "sim:quiet", "--timeout", "1s"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output}");
}
