//! Tests of `record` and `capture` with unusable input, which gives one clear error line and exit status 2.

use std::fs;

use crate::support::captures::{CaptureDir, argument, record, replayed};
use crate::support::plegctl::{Invocation, Output, command, copy_program, plegctl};

/// Asserts that the command prints one error with these words.
fn assert_refused(output: &Output, words: &str) {
    assert_eq!(output.code, Some(2), "{output}");
    let errors: Vec<_> = output.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{output}");
    assert!(errors[0].contains(words), "{output}");
    assert!(output.stderr.contains("hint: "), "{output}");
}

#[test]
fn error_names_a_file_that_is_no_capture() {
    let place = CaptureDir::make();
    let file = place.path("notes.txt");
    fs::write(&file, "dear diary").unwrap();
    for action in ["ls", "check", "report"] {
        assert_refused(&plegctl(&["capture", action, argument(&file)]), "is not a capture");
        assert_refused(&plegctl(&["capture", action, argument(&place.path("none"))]), "No such file");
    }
    assert_refused(&plegctl(&["relist", "-r", &format!("capture:{}", argument(&file))]), "is not a capture");
    assert_refused(&plegctl(&["record", "-r", "sim:quiet", argument(&place.path(""))]), "is not a capture");
    let later = place.path("later");
    fs::create_dir_all(&later).unwrap();
    fs::write(later.join("0000000001.seg"), b"plegcap\n\x63\x00000000").unwrap();
    assert_refused(&plegctl(&["capture", "ls", argument(&later)]), "version 99");
}

/// Root may write everywhere, so another user runs the program.
#[test]
fn error_names_a_directory_without_permission() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let place = CaptureDir::make();
    let directory = place.path("capture");
    record("sim:quiet", &directory, &["--count", "2", "--period", "1ms"]);
    let locked = place.path("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o500)).unwrap();
    // A copy of the program that every user can run.
    let program = place.path("plegctl");
    copy_program(env!("CARGO_BIN_EXE_plegctl"), &program);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let root = rustix::process::geteuid().is_root();
    let as_somebody = |arguments: &[&str]| {
        let mut command = command(&program);
        command.args(arguments);
        if root {
            command.uid(65_534).gid(65_534);
        } else {
            fs::set_permissions(&directory, fs::Permissions::from_mode(0o000)).unwrap();
        }
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert_eq!(errors.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{errors}");
        assert!(errors.contains("Permission denied"), "{errors}");
    };
    as_somebody(&["capture", "ls", argument(&directory)]);
    as_somebody(&["record", "-r", "sim:quiet", argument(&locked.join("capture"))]);
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn second_recorder_is_refused_and_the_error_names_the_first() {
    let place = CaptureDir::make();
    let directory = place.path("capture");
    let mut first = Invocation::new(&["record", "-r", "sim:quiet", argument(&directory)]).spawn();
    assert!(first.line().is_some());
    let second = plegctl(&["record", "-r", "sim:quiet", argument(&directory)]);
    assert_refused(&second, &format!("(process {})", first.pid()));
    // Reading a capture is possible while a recorder writes to it.
    assert_eq!(plegctl(&["capture", "ls", argument(&directory)]).code, Some(0));
    first.signal("TERM");
    assert_eq!(first.wait().code, Some(0));
}

#[test]
fn error_names_a_moment_outside_of_the_capture() {
    let place = CaptureDir::make();
    let directory = place.path("capture");
    // A busy machine is slow, which would open an incident.
    record("sim:quiet", &directory, &["--period", "10ms", "--count", "3", "--slow", "1h"]);
    let relist = |time: &str| plegctl(&["relist", "-r", &replayed(&directory, time)]);
    assert_refused(&relist("+2h"), "is outside of the capture");
    assert_refused(&relist("1999-01-01T00:00:00Z"), "is outside of the capture");
    assert_refused(&relist("noon"), "is not a moment of the capture");
    assert_refused(&relist("incident:7"), "has no incident 7; it has none");
}
