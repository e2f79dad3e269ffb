//! `kubectl debug node/…`: what its profiles give, and the terminal that it has before anybody is attached to it.

use crate::support::plegctl::{Invocation, plegctl};

/// What these arguments print on a terminal of that size.
fn on_terminal(size: (u16, u16), arguments: &[&str]) -> String {
    let output = Invocation::in_terminal_of(size, env!("CARGO_BIN_EXE_plegctl"), arguments).run();
    assert_eq!(output.code, Some(0), "{output}");
    output.stdout
}

/// Whether anything of it is more than lines of text.
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

/// The profiles `netadmin` and `baseline` mount no node.
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
