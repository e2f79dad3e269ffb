//! Tests of the Prometheus rules and alerts in `deploy/prometheus`, and of their runbook pages.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use super::probes::recorded_metrics;
use super::{file, output_of, text, tool};
use crate::support::difference;

const RULES: &str = "deploy/prometheus/plegctl.rules.yaml";
const CASES: &str = "deploy/prometheus/tests/alerts.yaml";
const CLUSTER_CASES: &str = "deploy/prometheus/tests/cluster.yaml";

/// Returns the values of `key` on all lines that have it.
fn values<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.trim_start().strip_prefix(key)).map(str::trim).collect()
}

fn alerts() -> BTreeSet<String> {
    values(&text(RULES), "- alert: ").into_iter().map(str::to_owned).collect()
}

#[test]
fn every_alert_fires_exactly_in_its_cases() {
    let Some(promtool) = tool("promtool", "prometheus") else { return };
    output_of(Command::new(&promtool).args(["check", "rules"]).arg(file(RULES)));
    output_of(Command::new(&promtool).args(["test", "rules"]).arg(file(CASES)));
}

#[test]
fn rules_for_a_cluster_record_the_expected_values() {
    let Some(promtool) = tool("promtool", "prometheus") else { return };
    output_of(Command::new(&promtool).args(["test", "rules"]).arg(file(CLUSTER_CASES)));
}

#[test]
fn every_rule_for_a_cluster_has_a_case() {
    let cases = text(CLUSTER_CASES);
    let rules = text(RULES);
    let recorded: BTreeSet<&str> = values(&rules, "- record: ").into_iter().collect();
    for rule in recorded.iter().filter(|rule| rule.starts_with("cluster:") || rule.starts_with("node:")) {
        assert!(cases.contains(&format!("'{rule}{{")) || cases.contains(&format!("({rule})")), "{rule}");
    }
}

#[test]
fn every_alert_has_a_case_that_fires_and_one_that_does_not() {
    let cases = text(CASES);
    let quiet = values(&cases, "- {eval_time: ");
    let firing = values(&cases, "alertname: ");
    for alert in alerts() {
        assert!(firing.contains(&alert.as_str()), "no test sees {alert} fire");
        let silent = format!("alertname: {alert}}}");
        assert!(quiet.iter().any(|case| case.ends_with(&silent)), "no test sees {alert} stay quiet");
    }
}

#[test]
fn every_alert_has_a_runbook_with_commands() {
    let rules = text(RULES);
    let linked: BTreeSet<&str> = values(&rules, "runbook_url: ").into_iter().collect();
    assert_eq!(linked.len(), alerts().len(), "two alerts share a page, or one has none");
    let index = text("docs/runbooks/README.md");
    for alert in alerts() {
        let page = format!("docs/runbooks/{alert}.md");
        assert!(linked.contains(page.as_str()), "{alert} does not link {page}");
        assert!(index.contains(&format!("[{alert}]({alert}.md)")), "{alert} is not in the list of pages");
        let page = text(&page);
        assert!(page.starts_with(&format!("# {alert}\n")), "{alert} has somebody else's page");
        let run =
            page.split_once("## Run\n\n```sh\n").unwrap_or_else(|| panic!("{alert} has nothing to run")).1;
        assert!(run.split("```").next().is_some_and(|block| !block.trim().is_empty()), "{alert}");
    }
    let pages = fs::read_dir(file("docs/runbooks")).unwrap().count();
    assert_eq!(pages, alerts().len() + 1, "a page without its alert");
}

#[test]
fn object_for_the_prometheus_operator_has_the_rules() {
    let rules = text(RULES);
    let rules = rules.lines().filter(|line| !line.starts_with('#'));
    let rules: String =
        rules.map(|line| if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") }).collect();
    let command = "cargo xtask write alerts";
    let expected = format!(
        "# Generated from {RULES} by `{command}`.\napiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\n\
         metadata:\n  name: plegctl\n  namespace: plegctl\nspec:\n{rules}"
    );
    let path = "deploy/components/monitoring/rules.yaml";
    if !difference::update_if_blessed(&file(path), &expected) {
        assert_eq!(text(path), expected, "{path}: {command}");
    }
}

/// Whoever counts the series of the kubelets by their names alone does not count the recorder's too.
#[test]
fn recorder_serves_no_series_of_the_kubelet() {
    let served = recorded_metrics();
    assert!(served.contains("\nplegctl_pleg_relist_duration_seconds_count "), "{served}");
    assert!(!served.contains("kubelet_"), "{served}");
}

/// Debian's Prometheus is built without Kubernetes, so the service discovery is removed.
#[test]
fn all_scrape_configurations_are_equal() {
    let Some(promtool) = tool("promtool", "prometheus") else { return };
    let folder = env!("CARGO_TARGET_TMPDIR");
    let config = format!("{folder}/scrape-{}.yaml", std::process::id());
    let known: String = text("deploy/prometheus/scrape.yaml")
        .lines()
        .filter(|line| !line.contains("kubernetes_sd_configs"))
        .flat_map(|line| [line, "\n"])
        .collect();
    fs::write(&config, known).unwrap();
    output_of(Command::new(&promtool).args(["check", "config", "--syntax-only"]).arg(&config));
    fs::remove_file(&config).unwrap();
}
