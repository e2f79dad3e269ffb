//! `plegctl sim` and the endpoint `sim:SCENARIO` as processes.

use std::fs;

use crate::support::plegctl::{Invocation, plegctl};
use crate::support::socket::TempDir;

#[test]
fn list_names_every_scenario() {
    let output = plegctl(&["sim", "list", "--no-headers"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(output.stdout.lines().count(), 14, "{output}");
    assert!(output.stdout.lines().all(|line| line.starts_with("sim:")), "{output}");
}

#[test]
fn describe_teaches() {
    let output = plegctl(&["sim", "describe", "hung-list"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("\nTry\n  plegctl health -r sim:hung-list\n"), "{output}");
}

#[test]
fn unknown_scenario_is_answered_with_the_nearest_one() {
    for arguments in [["sim", "describe", "hung-lsit"], ["relist", "-r", "sim:hung-lsit"]] {
        let output = plegctl(&arguments);
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{output}");
        assert!(
            output.stderr.starts_with("error: there is no scenario `hung-lsit`; known are quiet, "),
            "{output}"
        );
        assert!(output.stderr.ends_with("hint: did you mean `hung-list`?\n"), "{output}");
    }
}

#[test]
fn malformed_scenario_is_told_by_line_and_column() {
    let folder = TempDir::new();
    fs::write(folder.path().join("mine.yaml"), "title: x\npods: [\n").unwrap();
    let output = Invocation::new(&["relist", "-r", "sim:./mine.yaml"]).current_dir(folder.path()).run();
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.starts_with("error: ./mine.yaml:3:1: this is not YAML: "), "{output}");
}

#[test]
fn served_scenario_answers_until_it_is_told_to_stop() {
    let folder = TempDir::new();
    let socket = folder.path().join("sim.sock");
    let path = socket.to_str().unwrap();
    for (signal, listen) in [("INT", path.to_owned()), ("TERM", format!("unix://{path}"))] {
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
fn socket_that_cannot_be_made_is_one_clear_message() {
    let output = plegctl(&["sim", "serve", "quiet", "--listen", "/nowhere/at/all.sock"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert_eq!(
        output.stderr,
        "error: cannot listen on `/nowhere/at/all.sock`: No such file or directory (os error 2)\n\
         hint: the directory must exist and be writable, and the path short\n"
    );
}
