//! Tests of the toolset for HolmesGPT, an agent that investigates incidents: the toolset has the fields that HolmesGPT
//! reads, its commands only read, and each of them runs.

use std::collections::BTreeSet;
use std::env;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::probes::recorded;
use super::{file, output_of, tool};
use crate::support::plegctl::Invocation;
use crate::support::simulated_fleet::simulated_fleet;

/// The fields of a toolset and of a tool in HolmesGPT (holmes/core/tools.py). It refuses a toolset with another field.
const FIELDS: [&str; 6] = ["description", "enabled", "tags", "prerequisites", "llm_instructions", "tools"];
const TOOL_FIELDS: [&str; 5] = ["name", "description", "user_description", "command", "parameters"];

/// The commands that the toolset may run. None of them changes anything.
const READ_ONLY: [&str; 8] = [
    "plegctl nodes ",
    "plegctl explain ",
    "plegctl capture ls ",
    "plegctl capture report ",
    "plegctl health ",
    "plegctl stacks ",
    "kubectl get ",
    "kubectl logs ",
];

/// Options with which a command would write a file or would not end.
const NEVER: [&str; 8] = ["--bundle", "--save", "--log", "--watch", "--follow", "--state", " -f", " -w"];

fn toolset() -> Option<Value> {
    let renderer = tool("chart-render", "built by tests/fleet/fetch.sh")?;
    let json = output_of(Command::new(renderer).arg(file("deploy/holmesgpt/plegctl.yaml")));
    let documents: Vec<Value> = serde_json::from_str(&json).unwrap();
    Some(documents[0]["toolsets"]["plegctl"].clone())
}

fn words<'a>(tool: &'a Value, field: &str) -> &'a str {
    tool[field].as_str().unwrap_or_else(|| panic!("{tool} has no {field}"))
}

/// Returns the names in double braces.
fn placeholders(text: &str) -> BTreeSet<&str> {
    text.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap().trim()).collect()
}

#[test]
fn toolset_has_the_fields_of_holmesgpt_and_only_reads() {
    let Some(toolset) = toolset() else { return };
    for field in toolset.as_object().unwrap().keys() {
        assert!(FIELDS.contains(&field.as_str()), "HolmesGPT does not know {field}");
    }
    for tag in toolset["tags"].as_array().unwrap() {
        assert!(["core", "cluster", "cli"].contains(&tag.as_str().unwrap()), "{tag}");
    }
    let instructions = words(&toolset, "llm_instructions");
    let mut names = BTreeSet::new();
    for tool in toolset["tools"].as_array().unwrap() {
        let (name, command) = (words(tool, "name"), words(tool, "command"));
        assert!(names.insert(name), "two tools are named {name}");
        for field in tool.as_object().unwrap().keys() {
            assert!(TOOL_FIELDS.contains(&field.as_str()), "{name}: HolmesGPT does not know {field}");
        }
        let parameters: BTreeSet<&str> =
            tool["parameters"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        assert_eq!(placeholders(command), parameters, "{name}");
        assert_eq!(placeholders(words(tool, "user_description")), parameters, "{name}");
        assert!(READ_ONLY.iter().any(|start| command.starts_with(start)), "{name}: {command}");
        assert!(!NEVER.iter().any(|option| command.contains(option)), "{name}: {command}");
        // A value that begins with a dash must not become an option.
        for parameter in parameters {
            let before = command.split(&format!("{{{{ {parameter} }}}}")).next().unwrap();
            assert!(before.ends_with(['=', '/', ':', '@']) || before.contains(" -- "), "{name}: {command}");
        }
    }
    for word in instructions.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_') {
        assert!(!word.starts_with("pleg_") || names.contains(word), "the instructions name {word}");
    }
}

/// The API server passes the part of the path after `proxy` on to the recorder.
#[test]
fn recorder_answers_the_paths_of_the_toolset() {
    let Some(toolset) = toolset() else { return };
    let tools = toolset["tools"].as_array().unwrap().iter();
    let paths: Vec<&str> =
        tools.filter_map(|tool| words(tool, "command").split_once("/proxy").map(|(_, path)| path)).collect();
    assert_eq!(paths, ["/verdict", "/incidents?since=24h"]);
    for (path, shown) in paths.into_iter().zip(["D01", "IncidentList"]) {
        let answer = recorded(path);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
        assert!(answer.contains(shown), "{path}: {answer}");
    }
}

#[test]
fn every_command_of_the_toolset_runs() {
    let Some(toolset) = toolset() else { return };
    let Some(_) = tool("kubectl", "kubectl, from trixie on") else { return };
    let fleet = simulated_fleet();
    let node = fleet.node_with("D02");
    let (shown, label) = (format!("\"name\": \"{node}\""), format!("kubernetes.io/hostname={node}"));
    let capture = file("tests/captures/0.1.0.plegcap").display().to_string();
    let dump = file("tests/recordings/stacks/c2-lock.t75.debug2.gz").display().to_string();
    let programs = Path::new(env!("CARGO_BIN_EXE_plegctl")).parent().unwrap().display().to_string();
    let path = format!("{programs}:{}", env::var("PATH").unwrap());
    for tool in toolset["tools"].as_array().unwrap() {
        let (name, mut command) = (words(tool, "name"), words(tool, "command").to_owned());
        let (parameter, value, shown) = match name {
            "pleg_unhealthy_nodes" => ("", "", shown.as_str()),
            "pleg_nodes" => ("selector", label.as_str(), node.as_str()),
            "pleg_incidents" => ("", "", "15 of 200 nodes had incidents since "),
            "pleg_node_health" => ("node", node.as_str(), "\"kind\": \"HealthReport\""),
            "pleg_node_incidents" => ("node", node.as_str(), "\"kind\": \"IncidentList\""),
            "pleg_before_upgrade" => ("release", "1.37", "\"kind\": \"FleetPreflight\""),
            "pleg_explain" => ("id", "D02", "a list does not answer"),
            "pleg_recorders" => ("", "", "Usage:\n  kubectl get"),
            "pleg_recorder_verdict" | "pleg_recorder_incidents" => {
                ("pod", "plegctl-x7k2p", "Usage:\n  kubectl get")
            }
            "pleg_recorder_log" => ("pod", "plegctl-x7k2p", "Usage:\n  kubectl logs"),
            "pleg_capture_incidents" => ("file", capture.as_str(), "\"number\": 1"),
            "pleg_capture_report" => ("file", capture.as_str(), "D01"),
            "pleg_verdict_at" => ("file", capture.as_str(), "\"kind\": \"HealthReport\""),
            "pleg_goroutines" => ("file", dump.as_str(), "\"kind\": \"StackReport\""),
            other => panic!("no example for {other}"),
        };
        // HolmesGPT quotes a value as Python's shlex does.
        for (parameter, value) in [(parameter, value), ("time", "incident:1")] {
            command = command.replace(&format!("{{{{ {parameter} }}}}"), &format!("'{value}'"));
        }
        // kubectl parses its options before it prints the help; an unknown option is an error.
        if command.starts_with("kubectl") {
            command += " --help";
        }
        let run = Invocation::program("sh", &["-c", &command]);
        let run = run
            .env("PATH", &path)
            .env("KUBECONFIG", &fleet.kubeconfig)
            .env("HOME", env!("CARGO_TARGET_TMPDIR"));
        let output = run.run();
        assert_eq!(output.code, Some(0), "{name}: {command}: {output}");
        assert!(output.stdout.contains(shown), "{name}: {output}");
    }
    for prerequisite in toolset["prerequisites"].as_array().unwrap() {
        let run = Invocation::program("sh", &["-c", words(prerequisite, "command")]).env("PATH", &path).run();
        assert_eq!(run.code, Some(0), "{run}");
    }
}
