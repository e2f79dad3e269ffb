//! `kubectl debug node/…`: the node files that its profiles provide, and its terminal before a client attaches.

use crate::support::plegctl::{Invocation, plegctl};

/// The output of these arguments on a terminal of this size.
fn on_terminal(size: (u16, u16), arguments: &[&str]) -> String {
    let output = Invocation::in_terminal_of(size, env!("CARGO_BIN_EXE_plegctl"), arguments).run();
    assert_eq!(output.code, Some(0), "{output}");
    output.stdout
}

/// Whether the output contains escape sequences.
fn moves(text: &str) -> bool {
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
        assert!(!unmeasured.is_empty() && !moves(&unmeasured), "{arguments:?}: {unmeasured:?}");
    }
    let seen = on_terminal((24, 80), &["watch", "-r", "sim:quiet", "--count=3"]);
    assert!(moves(&seen), "nothing moves on a terminal that is measured: {seen:?}");
}

/// The profiles `netadmin` and `baseline` do not mount the node's files.
#[test]
fn error_without_the_nodes_files_names_the_debug_profile() {
    for command in ["relist", "watch", "health"] {
        let output = plegctl(&[command, "--host-root", env!("CARGO_TARGET_TMPDIR")]);
        assert_eq!(output.code, Some(2), "{output}");
        let said = format!("{}{}", output.stdout, output.stderr);
        assert!(said.contains("no container runtime found"), "{output}");
        assert!(said.contains("kubectl debug node/NODE --profile=sysadmin"), "{output}");
    }
}
