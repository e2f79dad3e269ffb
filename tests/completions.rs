//! The committed completion scripts are what the program prints.
//!
//! After a change of the command line: `PLEGCTL_BLESS=1 cargo test --test completions`; with `-- --nocapture` it shows
//! what changed.

#[path = "support/difference.rs"]
mod difference;

use std::path::Path;
use std::process::Command;
use std::{env, fs};

#[test]
fn committed_completions_are_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("completions");
    for (shell, file) in [
        ("bash", "plegctl.bash"),
        ("zsh", "_plegctl"),
        ("fish", "plegctl.fish"),
        ("elvish", "plegctl.elv"),
        ("powershell", "_plegctl.ps1"),
    ] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_plegctl")).args(["completions", shell]).output().unwrap();
        assert!(output.status.success());
        let path = folder.join(file);
        let printed = String::from_utf8(output.stdout).unwrap();
        difference::blessed(&path, &printed);
        let committed = fs::read_to_string(&path).unwrap_or_default();
        let changed = difference::difference(&committed, &printed);
        assert!(committed == printed, "completions/{file} is stale: run `make completions`\n{changed}");
    }
}

#[test]
fn there_is_a_man_page_for_each_command() {
    let folder = env::temp_dir().join(format!("plegctl-man-{}", std::process::id()));
    let output = Command::new(env!("CARGO_BIN_EXE_plegctl")).arg("man").arg(&folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    for page in ["plegctl.1", "plegctl-relist.1", "plegctl-watch.1", "plegctl-diff.1"] {
        let text = fs::read_to_string(folder.join(page)).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{page}");
    }
    fs::remove_dir_all(&folder).unwrap();
}
