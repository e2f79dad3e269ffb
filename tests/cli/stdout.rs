//! Tests of plegctl with a stdout that is closed, full or a pipe without a reader.

use std::fs;

use crate::support::plegctl::{Invocation, Output};
use crate::support::socket::TempDir;

fn shell(script: &str) -> Output {
    let script = script.replace("PLEGCTL", env!("CARGO_BIN_EXE_plegctl"));
    Invocation::program("sh", &["-c", &script]).run()
}

/// The standard library opens `/dev/null` for reading and writing in the place of a closed stdout, so the two cannot be
/// distinguished.
#[test]
fn closed_stdout_and_dev_null_are_no_error() {
    for stdout in [">&-", "1<>/dev/null"] {
        let output = shell(&format!("PLEGCTL relist -r sim:quiet {stdout}"));
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{stdout}: {output}");
    }
}

#[test]
fn failed_write_to_stdout_gives_one_error_and_status_2() {
    let capture = "capture check tests/captures/0.1.0.plegcap";
    for words in ["health -r sim:quiet", "relist -r sim:quiet -o json", "explain D01", capture, "--version"] {
        for (stdout, why) in
            [("1</dev/null", "Bad file descriptor"), ("1>/dev/full", "No space left on device")]
        {
            let output = shell(&format!("cd {}; PLEGCTL {words} {stdout}", env!("CARGO_MANIFEST_DIR")));
            assert_eq!(output.code, Some(2), "{output}");
            let expected = format!("error: cannot write the result: {why}");
            assert!(output.stderr.starts_with(&expected) && output.stderr.lines().count() == 1, "{output}");
        }
    }
}

/// The file size limit is 512 bytes, so a signal or an error interrupts every write.
#[test]
fn interrupted_file_write_leaves_no_file() {
    let folder = TempDir::new();
    for words in [
        "health -r sim:quiet --save",
        "health -r sim:quiet --bundle",
        "capture export tests/captures/0.1.0.plegcap",
    ] {
        let file = folder.path().join("file");
        for old in [None, Some("old")] {
            if let Some(old) = old {
                fs::write(&file, old).unwrap();
            }
            let output = shell(&format!(
                "cd {}; ulimit -c 0; ulimit -f 1; PLEGCTL {words} {} >/dev/null",
                env!("CARGO_MANIFEST_DIR"),
                file.display()
            ));
            assert_ne!(output.code, Some(0), "{output}");
            let names: Vec<_> =
                fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
            assert_eq!(names, old.map(|_| file.clone()).into_iter().collect::<Vec<_>>(), "{output}");
            assert_eq!(fs::read_to_string(&file).ok().as_deref(), old, "{output}");
        }
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn discarded_stdout_and_a_closed_pipe_are_no_error() {
    for end in [">/dev/null", "| true", "| head -n 1"] {
        let output = shell(&format!("{{ PLEGCTL relist -r sim:quiet; echo $? >&2; }} {end}"));
        assert_eq!(output.stderr, "0\n", "{end}: {output}");
    }
}
