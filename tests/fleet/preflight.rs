//! Tests of `plegctl nodes --preflight` against a scripted API server.

use serde_json::{Value, json};

use super::api::{Clients, Reply, Request, Server};
use super::nodes::{TestFile, authority, kubeconfig};
use crate::support::plegctl::{Invocation, Output};

/// Returns a node list with kubelets of this version.
fn node_list(names: &[&str], version: &str) -> Reply {
    let node = |name: &&str| {
        let info = json!({"kubeletVersion": version, "osImage": "Debian GNU/Linux 13 (trixie)"});
        json!({"metadata": {"name": name}, "status": {"nodeInfo": info}})
    };
    let items: Vec<Value> = names.iter().map(node).collect();
    Reply::ok(json!({"kind": "NodeList", "metadata": {}, "items": items}).to_string())
}

/// Returns a configz with these feature gates.
fn configz(gates: &Value) -> Reply {
    let config =
        json!({"syncFrequency": "1m0s", "maxPods": 110, "failCgroupV1": true, "featureGates": gates});
    Reply::ok(json!({"kubeletconfig": config}).to_string())
}

/// Returns the node of a request to its kubelet, and the document.
fn node_of(asked: &Request) -> Option<(&str, &str)> {
    asked.path.strip_prefix("/api/v1/nodes/")?.split_once("/proxy/")
}

fn preflight(config: &TestFile, release: &str, more: &[&str]) -> Output {
    let path = config.0.to_str().unwrap();
    let first = ["nodes", "--kubeconfig", path, "--preflight", release];
    Invocation::new(&[&first[..], more].concat()).run()
}

fn report(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"))
}

/// Returns a cluster in which the gate of n2 was removed in 1.37.
fn one_gate(asked: &Request) -> Reply {
    match node_of(asked) {
        None => node_list(&["n1", "n2"], "v1.36.2"),
        Some(("n2", "configz")) => configz(&json!({"PreventStaticPodAPIReferences": true})),
        Some(_) => configz(&json!({})),
    }
}

#[test]
fn a_removed_gate_and_whether_static_pods_restart_are_reported_for_each_node() {
    let server = Server::start("server", Clients::Any, one_gate);
    let config = kubeconfig(&server.url(), &authority(), "token: t");
    let output = preflight(&config, "1.37", &["-o", "json"]);
    assert_eq!(output.code, Some(1), "{output}");
    let found = report(&output);
    assert_eq!((&found["kind"], &found["upgradeTo"]), (&"FleetPreflight".into(), &"1.37".into()));
    let counts = json!({"nodes": 2, "starts": 1, "unknown": 0, "refused": 1, "restarts": 2});
    assert_eq!(found["counts"], counts, "{output}");
    let [worst, other] = [&found["nodes"][0], &found["nodes"][1]];
    assert_eq!((&worst["name"], &worst["verdict"]), (&"n2".into(), &"refused".into()), "{output}");
    assert_eq!((&other["name"], &other["verdict"]), (&"n1".into(), &"starts".into()), "{output}");
    let finding = &worst["findings"][0];
    assert_eq!(
        (&finding["id"], &finding["field"], finding.get("line")),
        (&"KP011".into(), &"featureGates.PreventStaticPodAPIReferences".into(), None)
    );
    assert_eq!(finding["kubeletReason"], "unrecognized feature gate: PreventStaticPodAPIReferences");
    assert_eq!(worst["restartsStaticPods"], true, "{output}");
    assert!(found["notChecked"][0]["what"].as_str().unwrap().contains("flags"), "{output}");
}

#[test]
fn the_table_has_the_refused_node_first_and_the_names_are_those_that_may_not_start() {
    let server = Server::start("server", Clients::Any, one_gate);
    let config = kubeconfig(&server.url(), &authority(), "token: t");
    let output = preflight(&config, "1.37", &[]);
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(
        lines[0].split_ascii_whitespace().collect::<Vec<_>>(),
        ["NAME", "VERDICT", "VERSION", "RESTARTS", "WHY"]
    );
    assert!(lines[1].starts_with("n2     refused   v1.36.2   all        the gate PreventStatic"), "{output}");
    assert!(lines[2].starts_with("n1     starts    v1.36.2   all        <none>"), "{output}");
    assert!(output.stdout.contains("2 nodes: 1 refused, 1 starts\n"), "{output}");
    assert!(output.stdout.ends_with("upgrade control-plane nodes one after another\n"), "{output}");
    let wide = preflight(&config, "1.37", &["-o", "wide"]);
    assert!(wide.stdout.contains("    the kubelet: unrecognized feature gate: Prevent"), "{wide}");
    assert_eq!(preflight(&config, "1.37", &["-o", "name"]).stdout, "n2\n");
    // The running release knows the gate, and a patch release restarts nothing.
    let output = preflight(&config, "1.36", &[]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("no setting that these kubelets report keeps kubelet 1.36"), "{output}");
}

#[test]
fn only_the_configuration_of_each_node_is_requested() {
    let names: Vec<String> = (0..100).map(|number| format!("node-{number:03}")).collect();
    let server = Server::start("server", Clients::Any, move |asked| match node_of(asked) {
        None => node_list(&names.iter().map(String::as_str).collect::<Vec<_>>(), "v1.36.2"),
        Some(_) => configz(&json!({})),
    });
    let config = kubeconfig(&server.url(), &authority(), "token: t");
    let output = preflight(&config, "1.37", &["-o", "json"]);
    assert_eq!((output.code, &report(&output)["counts"]["restarts"]), (Some(0), &100.into()), "{output}");
    let asked = server.requests();
    let of_configz = asked.iter().filter(|asked| node_of(asked).is_some_and(|of| of.1 == "configz")).count();
    assert_eq!((of_configz, asked.len()), (100, 101));
    // One connection for the list of nodes, and one for each concurrent request.
    assert_eq!(server.connections(), 17);
}

#[test]
fn a_node_that_may_not_be_read_is_unknown() {
    let server = Server::start("server", Clients::Any, |asked| match node_of(asked) {
        None => node_list(&["n1"], "v1.36.2"),
        Some(_) => Reply::Answer(403, json!({"message": "no"}).to_string()),
    });
    let config = kubeconfig(&server.url(), &authority(), "token: t");
    let output = preflight(&config, "1.37", &["-o", "json"]);
    let found = report(&output);
    assert_eq!((output.code, &found["nodes"][0]["verdict"]), (Some(2), &"unknown".into()), "{output}");
    assert_eq!(preflight(&config, "1.37", &["-o", "name"]).stdout, "n1\n");
}

#[test]
fn a_silent_kubelet_delays_only_itself_and_a_stranger_is_not_judged() {
    let server = Server::start("server", Clients::Any, |asked| match node_of(asked) {
        None => node_list(&["silent", "page", "well"], "v1.36.2"),
        Some(("silent", "configz")) => Reply::Silent,
        Some(("page", "configz")) => Reply::ok("<html>"),
        Some(_) => configz(&json!({})),
    });
    let config = kubeconfig(&server.url(), &authority(), "token: t");
    let output = preflight(&config, "1.37", &["-o", "json", "--timeout", "2s"]);
    let found = report(&output);
    assert_eq!((output.code, &found["counts"]["unknown"]), (Some(0), &2.into()), "{output}");
    assert!(found["nodes"][0]["why"].as_str().unwrap().contains("answers something else"), "{output}");
    assert!(found["nodes"][1]["why"].as_str().unwrap().contains("did not answer within 2s"), "{output}");
    assert_eq!(found["nodes"][2]["name"], "well", "{output}");
}

#[test]
fn a_release_that_is_no_release_and_a_watch_are_usage_errors() {
    let config = kubeconfig("https://127.0.0.1:1", &authority(), "token: t");
    for (release, more) in [("x", &[][..]), ("1.37", &["--watch"][..])] {
        let output = preflight(&config, release, more);
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{output}");
    }
}
