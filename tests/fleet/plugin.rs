//! Tests of the configuration for node-problem-detector (NPD): its fields have the values that NPD's documentation
//! requires.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::text;
use crate::support::plegctl::Invocation;

fn config() -> Value {
    serde_json::from_str(&text("deploy/npd/plegctl-monitor.json")).unwrap()
}

/// Returns the path of a state file that does not exist yet.
fn state(what: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("npd-{}.json", what.replace(':', "-")));
    // The file may not exist.
    let _ = std::fs::remove_file(&path);
    path
}

/// Runs the rule's arguments with a scenario and a state file of the test.
fn run(scenario: &str, state: &Path) -> (i32, String) {
    let config = config();
    let rule = &config["rules"][0];
    let mut arguments: Vec<&str> =
        rule["args"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap()).collect();
    let state = state.to_str().unwrap();
    assert!(arguments.contains(&"--state"), "{arguments:?}");
    if let Some(path) = arguments.iter_mut().find(|argument| argument.starts_with("/run/")) {
        *path = state;
    }
    arguments.extend(["-r", scenario]);
    let output = Invocation::new(&arguments).without_load().run();
    (output.code.unwrap(), output.stdout)
}

#[test]
fn time_outs_and_lengths_of_the_plugin_fit_plegctls_limits() {
    let config = config();
    let plugin = &config["pluginConfig"];
    assert_eq!(config["plugin"], "custom");
    // `health --npd` ends within 4 s and prints at most 80 bytes. Two concurrent runs would make two list calls at a
    // time.
    assert_eq!(plugin["timeout"], "5s");
    assert_eq!(plugin["max_output_length"], 80);
    assert_eq!(plugin["concurrency"], 1);
    assert_eq!(plugin["invoke_interval"], "30s");
}

#[test]
fn plugin_has_one_condition_with_two_permanent_reasons() {
    let config = config();
    let [condition] = config["conditions"].as_array().unwrap().as_slice() else { panic!("{config}") };
    let [rule] = config["rules"].as_array().unwrap().as_slice() else { panic!("{config}") };
    assert_eq!((&condition["type"], &rule["condition"]), (&"PLEGUnhealthy".into(), &"PLEGUnhealthy".into()));
    assert_eq!(condition["reason"], "PLEGIsHealthy");
    assert_eq!(rule["reason"], "PLEGIsUnhealthy");
    assert_eq!(rule["type"], "permanent");
    // Other programs compare the reason as text: the message may change, but the reason must not.
    assert_eq!(config["pluginConfig"]["enable_message_change_based_condition_update"], false);
}

#[test]
fn plugin_rule_has_the_exit_statuses_of_the_contract() {
    for (scenario, status) in
        [("sim:quiet", 0), ("sim:hung-container", 0), ("sim:hung-two-pods", 1), ("sim:hung-list", 1)]
    {
        let state = state(scenario);
        let (first, stdout) = run(scenario, &state);
        assert_eq!(
            first, 0,
            "{scenario}: a hang is only likely after 4 s, so it needs a second run: {stdout}"
        );
        let (code, stdout) = run(scenario, &state);
        assert_eq!(code, status, "{scenario}: {stdout}");
        let line = stdout.strip_suffix('\n').unwrap();
        assert!(line.len() <= 80 && line.is_ascii() && !line.contains('\n'), "{scenario}: {line}");
        assert!(line.starts_with('D'), "{scenario}: {line}");
    }
}

/// NPD treats every status except 0 and 1 as "unknown" and does not change the condition.
#[test]
fn missing_verdict_does_not_change_the_condition() {
    let (code, stdout) = run("/nonexistent/plegctl-test.sock", &state("nobody"));
    assert!(code == 1 || code == 2, "{stdout}");
    assert!(stdout.starts_with("D06"), "{stdout}");
}
