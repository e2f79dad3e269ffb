//! Tests of the Grafana dashboard and of the Prometheus rules: they query only series that exist.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use super::probes::served_metrics;
use super::{file, output_of, text, tool};
use crate::support::plegctl::Invocation;

const DASHBOARD: &str = "deploy/grafana/pleg-node.json";
const RULES: &str = "deploy/prometheus/plegctl.rules.yaml";

/// Series that Prometheus itself creates.
const OF_PROMETHEUS: [&str; 2] = ["up", "ALERTS"];

/// The series of an exposition, including families without a sample.
fn names(exposition: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in exposition.lines() {
        let mut words = line.strip_prefix("# TYPE ").into_iter().flat_map(str::split_whitespace);
        match (words.next(), words.next()) {
            (Some(name), Some("histogram")) => {
                names.extend(["bucket", "sum", "count"].map(|part| format!("{name}_{part}")));
            }
            (Some(name), Some(_)) => _ = names.insert(name.to_owned()),
            _ => {}
        }
    }
    names
}

/// All series of the kubelet and of plegctl. The metrics of `watch` have the kubelet's names.
fn known() -> BTreeSet<String> {
    let arguments = ["health", "-r", "sim:hung-container", "-o", "prometheus"];
    let health = Invocation::new(&arguments).with_short_silences().run();
    let mut known = names(&served_metrics());
    known.append(&mut names(&health.stdout));
    known.extend(OF_PROMETHEUS.map(str::to_owned));
    known
}

fn dashboard() -> serde_json::Value {
    serde_json::from_str(&text(DASHBOARD)).unwrap()
}

/// Every query of the dashboard.
fn queries() -> Vec<String> {
    let dashboard = dashboard();
    let expressions = |value: &serde_json::Value| value["expr"].as_str().map(str::to_owned);
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let mut queries: Vec<String> = panels
        .flat_map(|panel| panel["targets"].as_array().unwrap())
        .map(|target| expressions(target).unwrap())
        .collect();
    queries.extend(dashboard["annotations"]["list"].as_array().unwrap().iter().filter_map(expressions));
    queries.push(dashboard["templating"]["list"][1]["query"]["query"].as_str().unwrap().to_owned());
    queries
}

/// The metric names in a query: words outside of braces and quotes that are neither functions nor keywords.
fn metrics_of(query: &str) -> BTreeSet<String> {
    let mut bare = String::new();
    let (mut depth, mut quoted) = (0_u32, false);
    for letter in query.chars() {
        match letter {
            '"' => quoted = !quoted,
            '{' | '[' if !quoted => depth += 1,
            '}' | ']' if !quoted => depth -= 1,
            _ if quoted || depth > 0 => {}
            _ => bare.push(letter),
        }
    }
    let word = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != ':';
    bare.split(word)
        .filter(|word| {
            ["kubelet_", "plegctl", "instance:"].iter().any(|ours| word.starts_with(ours))
                || OF_PROMETHEUS.contains(word)
        })
        .map(str::to_owned)
        .collect()
}

#[test]
fn dashboard_uses_only_existing_metrics() {
    let known = known();
    let queries = queries();
    assert!(queries.len() > 15, "{queries:?}");
    for query in queries {
        let used = metrics_of(&query);
        assert!(!used.is_empty(), "no metric in {query}");
        for name in used {
            assert!(known.contains(&name), "no metric {name} exists for the query {query}");
        }
    }
}

#[test]
fn rules_use_only_existing_metrics() {
    let rules = text(RULES);
    let mut known = known();
    known.extend(
        rules.lines().filter_map(|line| line.trim_start().strip_prefix("- record: ")).map(str::to_owned),
    );
    let used: BTreeSet<String> = rules
        .lines()
        .filter(|line| !line.trim_start().starts_with('#') && !line.contains("summary:"))
        .filter(|line| !line.contains("description:") && !line.contains("name: "))
        .flat_map(|line| metrics_of(line.trim_start().trim_start_matches("expr: ")))
        .collect();
    assert!(used.len() > 8, "{used:?}");
    for name in used {
        assert!(known.contains(&name), "no metric {name} exists");
    }
}

/// promtool has no command that parses one expression offline, so each expression becomes a rule.
#[test]
fn queries_of_the_dashboard_are_valid_promql() {
    let Some(promtool) = tool("promtool", "prometheus") else { return };
    let mut rules = "groups:\n- name: dashboard\n  rules:\n".to_owned();
    for (number, query) in queries().iter().enumerate() {
        let query = query.replace("$__rate_interval", "5m");
        // The query of a variable is inside of a Grafana function.
        let inner = query.strip_prefix("query_result(").and_then(|rest| rest.strip_suffix(')'));
        let query = serde_json::to_string(inner.unwrap_or(&query)).unwrap();
        rules.extend(["  - record: q", &number.to_string(), "\n    expr: ", &query, "\n"]);
    }
    let path = format!("{}/dashboard-{}.yaml", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    fs::write(&path, rules).unwrap();
    output_of(Command::new(promtool).args(["check", "rules"]).arg(&path));
    fs::remove_file(path).unwrap();
}

#[test]
fn panels_do_not_overlap() {
    let dashboard = dashboard();
    let mut taken = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{panel}");
        for cell in
            (at("x")..at("x") + at("w")).flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y)))
        {
            assert!(taken.insert(cell), "{} overlaps another panel", panel["title"]);
        }
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "two panels have one id");
        assert!(panel["description"].as_str().is_some_and(|text| !text.is_empty()), "{}", panel["title"]);
    }
    assert!(file(DASHBOARD).is_file());
}
