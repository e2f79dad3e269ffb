//! Tests of plegctl in a pod of `kubectl debug node/…`: the node files that its profiles provide, and its terminal
//! before a client attaches.

use crate::support::plegctl::{Invocation, plegctl};

/// Returns the output of these arguments on a terminal of this size.
fn on_terminal(size: (u16, u16), arguments: &[&str]) -> String {
    let output = Invocation::in_terminal_of(size, env!("CARGO_BIN_EXE_plegctl"), arguments).run();
    assert_eq!(output.code, Some(0), "{output}");
    output.stdout
}

/// Whether the output contains terminal escape sequences.
fn has_escapes(text: &str) -> bool {
    text.contains('\u{1b}') || text.replace("\r\n", "\n").contains('\r')
}

#[test]
fn terminal_without_columns_is_treated_as_no_terminal() {
    for arguments in [
        ["watch", "-r", "sim:quiet", "--count=3"],
        ["health", "-r", "sim:quiet", "--deep"],
        ["relist", "-r", "sim:quiet", "--inspect=all"],
    ] {
        let unmeasured = on_terminal((0, 0), &arguments);
        assert!(!unmeasured.is_empty() && !has_escapes(&unmeasured), "{arguments:?}: {unmeasured:?}");
    }
    let seen = on_terminal((24, 80), &["watch", "-r", "sim:quiet", "--count=3"]);
    assert!(has_escapes(&seen), "no escape sequence on a terminal with a size: {seen:?}");
}

/// The profiles `netadmin` and `baseline` do not mount the node's files.
#[test]
fn error_without_the_nodes_files_names_the_debug_profile() {
    for command in ["relist", "watch", "health"] {
        let output = plegctl(&[command, "--host-root", env!("CARGO_TARGET_TMPDIR")]);
        assert_eq!(output.code, Some(2), "{output}");
        let text = format!("{}{}", output.stdout, output.stderr);
        assert!(text.contains("no container runtime found"), "{output}");
        assert!(text.contains("kubectl debug node/NODE --profile=sysadmin"), "{output}");
    }
}
