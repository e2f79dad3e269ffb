//! [`assert_a_shell_reads_them`]: each command of a report, as it is printed on a narrow and on a wide screen, is the same
//! command for a shell. The other tests judge through it, so each command that they make is such a case. No command is run.

use std::collections::HashSet;
use std::process::Stdio;
use std::sync::{LazyLock, Mutex};

use crate::cri::Sandbox;
use crate::diagnosis::report::HealthReport;
use crate::diagnosis::{Evidence, judge as judge_once};
use crate::report::shell_lines::command_lines;
use crate::report::{PodRef, Step};

/// A name that ends a word, a line and a quotation, and would run a program.
const HOSTILE: &str = "x'\"; exit 7 #$(exit 7)`exit 7` \\|&\n";

/// Asserts it for the steps of the report, and for those of the same node whose pods have hostile names.
#[track_caller]
pub fn assert_a_shell_reads_them(evidence: &Evidence, report: &HealthReport) {
    let hostile = judge_once(&with_hostile_names(evidence.clone()));
    for step in steps(report).chain(steps(&hostile)) {
        assert_is_one_command(step);
    }
}

fn steps(report: &HealthReport) -> impl Iterator<Item = &Step> {
    report.keep.iter().chain(report.findings.iter().flat_map(|finding| &finding.steps))
}

/// Gives each pod, container and namespace a hostile name.
fn with_hostile_names(mut evidence: Evidence) -> Evidence {
    let rename = |pod: &mut PodRef| {
        pod.name.push_str(HOSTILE);
        pod.namespace.push_str(HOSTILE);
    };
    evidence.names.rename(&rename);
    let list = &mut evidence.runtime.sandboxes;
    let calls = list.first.iter_mut().chain(&mut list.second);
    for Sandbox { metadata, .. } in calls.filter_map(|call| call.result.as_mut().ok()).flatten() {
        if let Some(metadata) = metadata {
            metadata.name.push_str(HOSTILE);
            metadata.namespace.push_str(HOSTILE);
        }
    }
    evidence
}

/// Asserts that both shells accept the printed lines, and that they are the same command as the one in the document.
#[track_caller]
fn assert_is_one_command(step: &Step) {
    static SEEN: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    let Some(command) = &step.command else { return };
    if !SEEN.lock().unwrap().insert(command.clone()) {
        return;
    }
    let expected = structure(command).unwrap_or_else(|why| panic!("{command}: {why}"));
    for columns in [80, 200] {
        let printed = command_lines(command, 4, columns).join("\n");
        assert_eq!(structure(&printed).as_ref(), Ok(&expected), "{columns} columns: {printed}");
    }
}

/// Returns the command as bash has parsed it, after sh has accepted it. Neither runs it.
fn structure(command: &str) -> Result<String, String> {
    let run = |program: &str, arguments: &[&str]| {
        #[expect(clippy::disallowed_methods, reason = "the test needs a shell")]
        let output =
            std::process::Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let failed = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() && failed.is_empty() { Ok(said) } else { Err(failed) }
    };
    run("sh", &["-n", "-c", command])?;
    let parsed = run("bash", &["-c", &format!("f() {{\n{command}\n}}\ndeclare -f f")])?;
    // Where a long word continues in the next line, its quotation is closed and opened again.
    Ok(parsed.replace("''", ""))
}
