//! Tests of the Grafana dashboards and of the Prometheus rules: they query only series that exist.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;

use super::nodes::TestFile;
use super::probes::{recorded_metrics, served_metrics};
use super::{file, output_of, text, tool};
use crate::support::plegctl::Invocation;

const DASHBOARDS: [&str; 2] = ["deploy/grafana/pleg-node.json", "deploy/grafana/pleg-cluster.json"];
const RULES: &str = "deploy/prometheus/plegctl.rules.yaml";

/// Series that Prometheus itself creates.
const OF_PROMETHEUS: [&str; 2] = ["up", "ALERTS"];

/// Returns the series of an exposition, including families without a sample.
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

/// Returns all series of the kubelet and of plegctl, and those that the rules record. The metrics of `watch` have the
/// kubelet's names; `record` serves in addition its own, which name the culprit of an incident.
fn known() -> BTreeSet<String> {
    let arguments = ["health", "-r", "sim:hung-container", "-o", "prometheus"];
    let health = Invocation::new(&arguments).with_short_silences().run();
    let mut known = names(&served_metrics());
    known.append(&mut names(&health.stdout));
    known.append(&mut names(&recorded_metrics()));
    known.extend(
        text(RULES)
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix("- record: "))
            .map(str::to_owned),
    );
    known.extend(OF_PROMETHEUS.map(str::to_owned));
    known
}

fn dashboard(path: &str) -> Value {
    serde_json::from_str(&text(path)).unwrap()
}

/// Returns every query of a dashboard.
fn queries(dashboard: &Value) -> Vec<String> {
    let expressions = |value: &Value| value["expr"].as_str().map(str::to_owned);
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let mut queries: Vec<String> = panels
        .flat_map(|panel| panel["targets"].as_array().unwrap())
        .map(|target| expressions(target).unwrap())
        .collect();
    queries.extend(dashboard["annotations"]["list"].as_array().unwrap().iter().filter_map(expressions));
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
    queries.extend(
        variables
            .filter_map(|variable| variable["query"]["query"].as_str())
            .map(query_of_variable)
            .map(str::to_owned),
    );
    queries
}

/// Returns the PromQL in the query of a variable, which is inside of a Grafana function.
fn query_of_variable(query: &str) -> &str {
    let inner = |function: &str| query.strip_prefix(function).and_then(|rest| rest.strip_suffix(')'));
    inner("query_result(")
        .or_else(|| inner("label_values(").and_then(|both| both.rsplit_once(", ")).map(|(metric, _)| metric))
        .unwrap_or_else(|| panic!("unknown function in {query}"))
}

/// Returns the metric names in a query: words outside of braces and quotes that are neither functions nor keywords.
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
            ["kubelet_", "plegctl", "instance:", "node:", "cluster:"]
                .iter()
                .any(|ours| word.starts_with(ours))
                || OF_PROMETHEUS.contains(word)
        })
        .map(str::to_owned)
        .collect()
}

#[test]
fn dashboards_use_only_existing_metrics() {
    let known = known();
    for path in DASHBOARDS {
        let queries = queries(&dashboard(path));
        assert!(queries.len() > 12, "{path}: {queries:?}");
        for query in queries {
            let used = metrics_of(&query);
            assert!(!used.is_empty(), "{path}: no metric in {query}");
            for name in used {
                assert!(known.contains(&name), "{path}: no metric {name} exists for the query {query}");
            }
        }
    }
}

#[test]
fn rules_use_only_existing_metrics() {
    let rules = text(RULES);
    let known = known();
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
fn queries_of_the_dashboards_are_valid_promql() {
    let Some(promtool) = tool("promtool", "prometheus") else { return };
    let mut rules = "groups:\n- name: dashboard\n  rules:\n".to_owned();
    let all = DASHBOARDS.iter().flat_map(|path| queries(&dashboard(path)));
    for (number, query) in all.enumerate() {
        let query = serde_json::to_string(&query.replace("$__rate_interval", "5m")).unwrap();
        rules.extend(["  - record: q", &number.to_string(), "\n    expr: ", &query, "\n"]);
    }
    let path = format!("{}/dashboard-{}.yaml", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    fs::write(&path, rules).unwrap();
    output_of(Command::new(promtool).args(["check", "rules"]).arg(&path));
    fs::remove_file(path).unwrap();
}

#[test]
fn panels_do_not_overlap() {
    for path in DASHBOARDS {
        let mut taken = BTreeSet::new();
        let mut ids = BTreeSet::new();
        for panel in dashboard(path)["panels"].as_array().unwrap() {
            let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
            assert!(at("x") + at("w") <= 24, "{panel}");
            for cell in
                (at("x")..at("x") + at("w")).flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y)))
            {
                assert!(taken.insert(cell), "{} overlaps another panel", panel["title"]);
            }
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "two panels have one id");
            let description = panel["description"].as_str();
            assert!(description.is_some_and(|text| !text.is_empty()), "{}", panel["title"]);
        }
    }
}

/// Grafana's own types have every field of the dashboards, and do not have a misspelt one.
#[test]
fn fields_of_the_dashboards_are_known_to_grafana() {
    let Some(program) = tool("grafana-fields", "tests/fleet/fetch.sh") else { return };
    let unknown = |path: &str| output_of(Command::new(&program).arg(path));
    for path in DASHBOARDS {
        assert_eq!(unknown(file(path).to_str().unwrap()), "", "{path}");
        let misspelt = TestFile::new(&text(path).replace("\"legendFormat\"", "\"legendFormt\""));
        let output = Command::new(&program).arg(&misspelt.0).output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(!output.status.success() && shown.contains(": /panels/*/targets/*/legendFormt"), "{shown}");
    }
}

/// Grafana ignores a field that it does not know and shows nothing for a variable that does not exist, without an error.
#[test]
fn dashboards_have_the_fields_and_variables_that_grafana_needs() {
    let built_in = ["__rate_interval", "__data", "__all"];
    let mut uids = BTreeSet::new();
    for path in DASHBOARDS {
        let dashboard = dashboard(path);
        assert!(uids.insert(dashboard["uid"].as_str().unwrap().to_owned()), "two dashboards have one uid");
        assert!(dashboard["schemaVersion"].as_u64().is_some_and(|version| version >= 36), "{path}");
        let variables: BTreeSet<&str> = dashboard["templating"]["list"]
            .as_array()
            .unwrap()
            .iter()
            .map(|variable| variable["name"].as_str().unwrap())
            .collect();
        let whole = text(path);
        for used in whole.split('$').skip(1) {
            let name: String = used
                .trim_start_matches('{')
                .chars()
                .take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '_')
                .collect();
            assert!(
                variables.contains(name.as_str()) || built_in.contains(&name.as_str()),
                "{path}: ${name}"
            );
        }
        for panel in dashboard["panels"].as_array().unwrap() {
            let kind = panel["type"].as_str().unwrap();
            assert!(["stat", "timeseries", "table", "heatmap"].contains(&kind), "{path}: {kind}");
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
            let mut references = BTreeSet::new();
            for target in panel["targets"].as_array().unwrap() {
                assert!(references.insert(target["refId"].as_str().unwrap()), "{}", panel["title"]);
                // A heat map of buckets needs this format and the upper bound of each bucket as the name of its series.
                let buckets = (target["format"] == "heatmap", target["legendFormat"] == "{{le}}");
                assert_eq!(buckets, (kind == "heatmap", kind == "heatmap"), "{}", panel["title"]);
            }
        }
    }
    // The cluster's dashboard links to the node's one.
    assert!(text(DASHBOARDS[1]).contains("/d/plegctl-node?var-instance="));
    assert!(uids.contains("plegctl-node"));
}
