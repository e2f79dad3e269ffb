//! Tests of `plegctl docs`.

use std::fs;
use std::path::Path;

use crate::support::plegctl::{Invocation, plegctl};

fn page(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn a_page_is_printed_and_no_pager_is_started() {
    for (arguments, path) in [
        (&["docs"][..], "docs/oncall.md"),
        (&["docs", "health.md#the-screen"], "docs/health.md"),
        (&["docs", "KubeletPlegUnhealthy"], "docs/runbooks/KubeletPlegUnhealthy.md"),
    ] {
        let output = Invocation::new(arguments).env("PAGER", "false").run();
        assert_eq!((output.code, output.stdout.as_str()), (Some(0), page(path).as_str()), "{output}");
        let size = (24, 80);
        let terminal = Invocation::in_terminal_of(size, env!("CARGO_BIN_EXE_plegctl"), arguments);
        let output = terminal.env("PAGER", "false").run();
        let first = page(path).lines().next().unwrap().to_owned();
        assert!(output.code == Some(0) && output.stdout.starts_with(&first), "{output}");
    }
}

#[test]
fn unknown_page_is_an_error_with_the_most_similar_name() {
    let output = plegctl(&["docs", "helth"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("there is no page `helth`"), "{output}");
    assert!(output.stderr.contains("did you mean health?"), "{output}");
}
