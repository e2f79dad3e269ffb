//! A stdout that leads nowhere, as a shell makes it.

use crate::support::plegctl::{Invocation, Output};

fn shell(script: &str) -> Output {
    let script = script.replace("PLEGCTL", env!("CARGO_BIN_EXE_plegctl"));
    Invocation::program("sh", &["-c", &script]).run()
}

#[test]
fn a_stdout_that_was_closed_before_the_start_is_no_silent_success() {
    let output = shell("PLEGCTL relist -r sim:quiet >&-");
    assert!(output.stderr.contains("note: stdout was closed"), "{output}");
    let output = shell("PLEGCTL explain >&-");
    assert!(output.stderr.contains("note: stdout was closed"), "{output}");
}

#[test]
fn whoever_wants_no_output_and_a_reader_that_leaves_are_no_news() {
    for end in [">/dev/null", "| true", "| head -n 1"] {
        let output = shell(&format!("{{ PLEGCTL relist -r sim:quiet; echo $? >&2; }} {end}"));
        assert_eq!(output.stderr, "0\n", "{end}: {output}");
    }
}
