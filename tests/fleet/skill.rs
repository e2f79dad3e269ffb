//! Tests of `skills/plegctl/SKILL.md`: each command in it runs as it is, on a simulated node and a simulated cluster, and none
//! of them changes anything.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{file, output_of, text, tool};
use crate::support::plegctl::Invocation;
use crate::support::simulated_fleet::simulated_fleet;
use crate::support::socket::TempDir;

const SKILL: &str = "skills/plegctl/SKILL.md";

/// The runtime of the commands without `--node`, with another culprit than the node has.
const RUNTIME: &str = "sim:hung-container";

/// Options with which a command would change more than a file that the user names, or would not end.
const NEVER: [&str; 3] = ["--state", " -w", "--follow"];

/// Returns the lines of all `sh` blocks.
fn commands(skill: &str) -> Vec<&str> {
    let blocks = skill.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.flat_map(str::lines).collect()
}

#[test]
fn skill_has_a_name_and_says_when_to_use_it() {
    let skill = text(SKILL);
    let head = skill.strip_prefix("---\n").and_then(|rest| rest.split("\n---\n").next()).expect("a head");
    let field =
        |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned();
    assert_eq!(field("name: "), "plegctl");
    // The limits of the format of skills.
    let description = field("description: ");
    assert!(description.contains("PLEG is not healthy") && description.len() <= 1024, "{description}");
    assert!(skill.lines().count() < 500);
}

#[test]
fn long_every_command_of_the_skill_runs() {
    if tool("jq", "jq").is_none() {
        return;
    }
    let fleet = simulated_fleet();
    let node = fleet.node_with("D02");
    let folder = TempDir::new();
    for (from, to) in [
        ("tests/captures/0.1.0.plegcap", "node.plegcap"),
        ("tests/recordings/stacks/c2-lock.t75.debug2.gz", "dump.gz"),
    ] {
        fs::copy(file(from), folder.path().join(to)).unwrap();
    }
    let programs = Path::new(env!("CARGO_BIN_EXE_plegctl")).parent().unwrap().display().to_string();
    let path = format!("{programs}:{}", env::var("PATH").unwrap());
    let skill = text(SKILL);
    let commands = commands(&skill);
    assert!(commands.len() > 18, "{commands:?}");
    for command in commands {
        assert!(command.starts_with("plegctl "), "{command}");
        assert!(!NEVER.iter().any(|option| command.contains(option)), "{command}");
        let on_node = command.replace("--node n1", &format!("--node {node}"));
        let run =
            Invocation::program("sh", &["-c", &on_node]).current_dir(folder.path()).with_short_silences();
        let run = run
            .env("PATH", &path)
            .env("KUBECONFIG", &fleet.kubeconfig)
            .env("HOME", folder.path().to_str().unwrap())
            .env("CONTAINER_RUNTIME_ENDPOINT", RUNTIME);
        let output = run.run();
        // 1 is the status of bad news, such as an unhealthy node.
        assert!(matches!(output.code, Some(0 | 1)), "{command}: {output}");
        assert!(!output.stdout.trim().is_empty(), "{command}: {output}");
        if command.starts_with("plegctl health --node") {
            let report: Value = serde_json::from_str(&output.stdout).unwrap();
            assert_eq!((&report["node"], &report["source"]["kind"]), (&node[..].into(), &"recorder".into()));
            assert_eq!(report["primary"]["id"], "D02", "{command}: {output}");
        }
        if command.ends_with("-o json") || command.starts_with("plegctl schema") {
            let checked = folder.path().join("document.json");
            fs::write(&checked, &output.stdout).unwrap();
            output_of(Command::new("jq").args(["-e", "."]).arg(&checked));
        }
    }
}

#[test]
fn fields_that_the_skill_names_are_in_the_schema() {
    let skill = text(SKILL);
    let (_, table) = skill.split_once("| field | says |\n|---|---|\n").expect("a table of fields");
    let table = table.split("\n\n").next().unwrap();
    let schema = text("docs/schema/HealthReport.json");
    let names = table.split('`').skip(1).step_by(2).flat_map(|path| path.split('.'));
    let names: Vec<&str> = names.map(|name| name.trim_end_matches("[]")).collect();
    assert!(names.len() > 18, "{names:?}");
    for name in names {
        assert!(schema.contains(&format!("\"{name}\": {{")), "HealthReport has no {name}");
    }
}
