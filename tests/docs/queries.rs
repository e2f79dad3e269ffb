//! Runs the queries of `docs/json.md` with jq. Without jq, the test is skipped with a message; with `CI=true` it fails.

use std::path::Path;
use std::{env, fs};

use super::root;
use crate::support::plegctl::Invocation;

#[test]
fn every_query_of_the_json_page_prints_something() {
    let has_jq = env::split_paths(&env::var_os("PATH").unwrap()).any(|folder| folder.join("jq").is_file());
    if !has_jq {
        assert!(env::var_os("CI").is_none(), "jq is not installed");
        eprintln!("skipped: jq is not installed");
        return;
    }
    let page = fs::read_to_string(root().join("docs/json.md")).unwrap();
    let (_, block) = page.split_once("```sh\n").unwrap();
    let (block, _) = block.split_once("```\n").unwrap();
    let queries: Vec<&str> = block.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(queries.len() >= 12, "{queries:?}");
    let program = Path::new(env!("CARGO_BIN_EXE_plegctl")).parent().unwrap();
    let path = format!("{}:{}", program.display(), env::var("PATH").unwrap());
    for query in queries {
        let run =
            Invocation::program("bash", &["-c", &format!("{query}; echo \"status ${{PIPESTATUS[1]}}\"")]);
        let output = run.env("PATH", &path).current_dir(root()).with_short_silences().run();
        let printed = output.stdout.strip_suffix("status 0\n").unwrap_or_default().trim();
        assert!(!printed.is_empty() && !printed.contains("null"), "{query}\n{output}");
    }
}

#[test]
fn query_of_the_readme_for_an_exit_code_leaves_out_what_ended_before_the_watch() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let (_, query) = readme.split_once("exit with 137:\nplegctl watch -o jsonl |\n").unwrap();
    let (query, _) = query.split_once("\n```").unwrap();
    let event = |name: &str, more: &str| {
        format!(r#"{{"kind":"Event","exitCode":137,"pod":{{"namespace":"shop","name":"{name}"}}{more}}}"#)
    };
    let events = format!("{}\n{}", event("old", r#","initial":true"#), event("new", ""));
    let output = Invocation::program("bash", &["-c", &format!("printf '%s' '{events}' |{query}")]).run();
    if !output.stderr.contains("jq: command not found") || env::var_os("CI").is_some() {
        assert_eq!(output.stdout, "shop/new\n", "{output}");
    }
}
