//! Tests of `support::plegctl`, which runs programs for the other tests.

use std::time::Duration;

use crate::support::plegctl::{Invocation, plegctl};

fn shell(line: &str) -> Invocation {
    Invocation::program("sh", &["-c", line])
}

#[test]
fn output_has_stdout_stderr_and_status_separately() {
    let output = shell("echo out; echo err >&2; exit 3").run();
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("out\n", "err\n"));
    assert_eq!((output.code, output.signal), (Some(3), None));
    let text = output.to_string();
    for part in ["echo out", "Some(3)", "--- stdout\nout", "--- stderr\nerr"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn plegctl_is_the_program_that_runs() {
    let output = plegctl(&["--some-argument"]);
    assert!(output.command.contains("plegctl") && output.command.contains("--some-argument"), "{output}");
    assert_eq!(output.signal, None, "{output}");
}

#[test]
fn environment_has_only_what_the_test_sets() {
    let output = shell("echo $HOME-$NO_COLOR-$(cat)").env("NO_COLOR", "1").stdin("in").run();
    assert_eq!(output.stdout, "-1-in\n", "{output}");
}

#[test]
#[should_panic(expected = "so far")]
fn program_that_does_not_end_fails_the_test_and_shows_its_stderr() {
    shell("echo so far >&2; exec sleep 1000").time_limit(Duration::from_secs(5)).run();
}

#[test]
fn lines_are_read_while_it_runs_and_a_signal_ends_it() {
    let mut running = shell("echo one; echo two; exec sleep 1000").spawn();
    assert_eq!(running.line().as_deref(), Some("one"));
    assert_eq!(running.line().as_deref(), Some("two"));
    running.signal("INT");
    let output = running.wait();
    assert_eq!((output.code, output.signal), (None, Some(2)), "{output}");
}

#[test]
#[should_panic(expected = "did not end within")]
fn stdout_that_is_not_read_blocks_the_program() {
    shell("exec head -c 1000000 /dev/zero").time_limit(Duration::from_millis(200)).spawn().wait_unread();
}

#[test]
fn unread_stdout_is_in_the_output_at_the_end() {
    let output = shell("echo one; echo two").spawn().wait();
    assert_eq!((output.stdout.as_str(), output.code), ("one\ntwo\n", Some(0)), "{output}");
}

#[test]
fn closed_stdout_is_a_broken_pipe() {
    let mut running = shell("read go; yes; echo $? >&2").stdin("").spawn();
    running.close_stdout();
    let output = running.wait();
    assert!(output.stderr.lines().any(|line| line == "141" || line == "1"), "{output}");
}

#[test]
fn terminal_is_a_terminal_and_passes_the_status_on() {
    let script = "test -t 1 && test -t 2 && echo \"it's $TERM\"; exit 4";
    let output = Invocation::program_in_terminal("sh", &["-c", script]).run();
    assert_eq!((output.stdout.as_str(), output.code), ("it's xterm-256color\r\n", Some(4)), "{output}");
}
