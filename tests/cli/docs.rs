//! Tests of `plegctl docs`.

use std::fs;
use std::path::Path;

use crate::support::plegctl::{Invocation, plegctl};

fn page(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn without_a_terminal_a_page_is_printed_and_no_pager_is_started() {
    for (arguments, path) in [
        (&["docs"][..], "docs/oncall.md"),
        (&["docs", "health.md#the-screen"], "docs/health.md"),
        (&["docs", "KubeletPlegUnhealthy"], "docs/runbooks/KubeletPlegUnhealthy.md"),
    ] {
        let output = Invocation::new(arguments).env("PAGER", "false").run();
        assert_eq!((output.code, output.stdout.as_str()), (Some(0), page(path).as_str()), "{output}");
    }
}

#[test]
fn on_a_terminal_the_users_pager_shows_the_page() {
    let run = |pager: &str| {
        Invocation::in_terminal_of((24, 80), env!("CARGO_BIN_EXE_plegctl"), &["docs", "faq"])
            .env("PAGER", pager)
            .run()
    };
    let first = page("docs/faq.md").lines().next().unwrap().to_owned();
    let numbered = run("cat -n");
    assert!(numbered.stdout.contains(&format!("1\t{first}")), "{numbered}");
    for without in ["", "no-such-pager-of-ours"] {
        let plain = run(without);
        assert!(plain.code == Some(0) && plain.stdout.starts_with(&first), "{plain}");
    }
}

#[test]
fn unknown_page_is_an_error_with_the_most_similar_name() {
    let output = plegctl(&["docs", "helth"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("there is no page `helth`"), "{output}");
    assert!(output.stderr.contains("did you mean health?"), "{output}");
}
