//! Tests of the Helm chart: it renders the same objects as kustomize, and each value does what `values.schema.json` says.
//! `render.go` renders the chart with the template engine that Helm uses.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::{Map, Value, json};

use super::{file, output_of, text, tool};
use crate::support::plegctl::{Invocation, plegctl, schema};
use crate::support::socket::TempDir;

const CHART: &str = "deploy/chart/plegctl";

/// Returns the values that make the chart equal to an overlay of kustomize.
fn values_of(overlay: &str) -> Value {
    match overlay {
        "base" => json!({}),
        "overlays/k3s" => json!({"runtime": "k3s"}),
        "overlays/crio" => json!({"runtime": "crio"}),
        "overlays/kubelet-access" => json!({"kubeletAccess": true}),
        "overlays/monitoring" => json!({"monitoring": {"podMonitor": true, "rules": true}}),
        "overlays/network-policy" => json!({"networkPolicy": {"enabled": true}}),
        "overlays/serve-token" => json!({"serveTokenSecret": "plegctl-token"}),
        other => panic!("the chart has no values for {other}"),
    }
}

/// Returns every overlay in the checkout, and the base.
fn overlays() -> Vec<String> {
    let folders = fs::read_dir(file("deploy/overlays")).unwrap();
    let names = folders.map(|entry| format!("overlays/{}", entry.unwrap().file_name().display()));
    names.chain(["base".to_owned()]).collect()
}

const RENDERER: (&str, &str) = ("chart-render", "built by tests/fleet/fetch.sh");

/// Returns the objects that the chart renders with these values, in an order that does not depend on file names.
fn rendered(values: &Value) -> Option<Vec<Value>> {
    rendered_in("plegctl", values)
}

/// Returns the same for a release in this namespace.
fn rendered_in(namespace: &str, values: &Value) -> Option<Vec<Value>> {
    let renderer = tool(RENDERER.0, RENDERER.1)?;
    let json = output_of(Command::new(renderer).arg(file(CHART)).args([namespace, &values.to_string()]));
    Some(ordered(&json))
}

/// Returns a list of objects in the order of their kinds.
fn ordered(json: &str) -> Vec<Value> {
    let mut objects: Vec<Value> = serde_json::from_str(json).unwrap();
    objects.sort_by_key(|object| object["kind"].to_string());
    objects
}

/// Returns the objects that kustomize makes.
fn kustomized(overlay: &str) -> Option<Vec<Value>> {
    let kubectl = tool("kubectl", "kubectl, from trixie on")?;
    let renderer = tool(RENDERER.0, RENDERER.1)?;
    let yaml = output_of(Command::new(kubectl).arg("kustomize").arg(file("deploy").join(overlay)));
    let json = Invocation::program(renderer.to_str().unwrap(), &["-"]).stdin(yaml.into_bytes()).run();
    assert_eq!(json.code, Some(0), "{json}");
    Some(ordered(&json.stdout))
}

/// Returns the documents of a YAML file of the chart.
fn yaml(name: &str) -> Option<Value> {
    let renderer = tool(RENDERER.0, RENDERER.1)?;
    let json = output_of(Command::new(renderer).arg(file(CHART).join(name)));
    Some(serde_json::from_str::<Vec<Value>>(&json).unwrap().remove(0))
}

fn schema_of_values() -> Value {
    serde_json::from_str(&text("deploy/chart/plegctl/values.schema.json")).unwrap()
}

/// Takes the image out of the `DaemonSet`.
fn without_image(objects: &mut [Value]) -> Value {
    let set = objects.iter_mut().find(|object| object["kind"] == "DaemonSet").expect("a DaemonSet");
    set["spec"]["template"]["spec"]["containers"][0]["image"].take()
}

#[test]
fn chart_renders_the_objects_of_every_overlay() {
    for overlay in overlays() {
        let mut values = values_of(&overlay);
        let Some(without_namespace) = rendered(&values) else { return };
        values["namespace"] = json!({"create": true});
        let Some(mut chart) = rendered(&values) else { return };
        let Some(mut kustomize) = kustomized(&overlay) else { return };
        // The base names the image without a tag: the user sets both in kustomize.
        assert_eq!(without_image(&mut kustomize), "plegctl", "{overlay}");
        let versioned = concat!("plegctl:", env!("CARGO_PKG_VERSION"));
        assert_eq!(without_image(&mut chart), versioned, "{overlay}");
        assert_eq!(chart.len(), kustomize.len(), "{overlay}");
        for (chart, kustomize) in chart.iter().zip(&kustomize) {
            assert_eq!(chart, kustomize, "{overlay}: the chart is left, kustomize is right");
        }
        // Helm needs the namespace before it installs the chart.
        let kinds = |objects: &[Value]| -> Vec<String> {
            objects.iter().map(|object| object["kind"].as_str().unwrap().to_owned()).collect()
        };
        let mut expected = kinds(&kustomize);
        expected.retain(|kind| kind != "Namespace");
        assert_eq!(kinds(&without_namespace), expected, "{overlay}");
    }
}

/// Returns what kustomize makes of an overlay with this text, next to the overlays of the checkout.
fn combined(text: &str) -> Option<std::process::Output> {
    let kubectl = tool("kubectl", "kubectl, from trixie on")?;
    let folder = TempDir::new();
    let own = folder.path().join("overlays/own");
    fs::create_dir_all(&own).unwrap();
    for part in ["base", "components"] {
        let copied = Command::new("cp").arg("-r").arg(file("deploy").join(part)).arg(folder.path()).status();
        assert!(copied.unwrap().success(), "{part}");
    }
    fs::write(own.join("kustomization.yaml"), text).unwrap();
    Some(Command::new(kubectl).arg("kustomize").arg(own).output().unwrap())
}

/// Sorts the lists of a pod whose order has no meaning, and its arguments.
fn with_sorted_lists(mut objects: Vec<Value>) -> Vec<Value> {
    let set = objects.iter_mut().find(|object| object["kind"] == "DaemonSet").expect("a DaemonSet");
    let pod = &mut set["spec"]["template"]["spec"];
    for list in ["/volumes", "/containers/0/volumeMounts", "/containers/0/args"] {
        let list = pod.pointer_mut(list).and_then(Value::as_array_mut).expect("a list");
        list.sort_by_key(ToString::to_string);
    }
    objects.sort_by_key(|object| (object["kind"].to_string(), object["metadata"]["name"].to_string()));
    objects
}

#[test]
fn overlays_combine_as_the_installation_guide_shows_and_equal_the_chart() {
    let guide = text("docs/install.md");
    let (_, example) = guide.split_once("```yaml\napiVersion: kustomize").expect("an example");
    let (example, _) = example.split_once("```").unwrap();
    let example = format!("apiVersion: kustomize{example}");
    let Some(built) = combined(&example) else { return };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let Some(renderer) = tool(RENDERER.0, RENDERER.1) else { return };
    let json = Invocation::program(renderer.to_str().unwrap(), &["-"]).stdin(built.stdout).run();
    let mut kustomize = with_sorted_lists(ordered(&json.stdout));
    let mut values = json!({"namespace": {"create": true}});
    for component in ["k3s", "kubelet-access", "serve-token"] {
        assert!(example.contains(&format!("components/{component}\n")), "{example}");
        let own = values_of(&format!("overlays/{component}"));
        values.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
    }
    let mut chart = with_sorted_lists(rendered(&values).unwrap());
    without_image(&mut kustomize);
    without_image(&mut chart);
    assert_eq!(kustomize, chart, "kustomize is left");
}

#[test]
fn a_runtime_after_a_component_that_adds_entries_is_refused() {
    let text = "kind: Kustomization\nresources: [../../base]\n\
        components: [../../components/kubelet-access, ../../components/RUNTIME]\n";
    for runtime in ["k3s", "crio"] {
        let Some(built) = combined(&text.replace("RUNTIME", runtime)) else { return };
        let why = String::from_utf8_lossy(&built.stderr);
        assert!(!built.status.success() && why.contains("testing value"), "{runtime}: {why}");
    }
}

#[test]
fn pod_in_the_network_of_its_node_serves_its_pages_only_at_the_address_of_the_node() {
    for overlay in overlays() {
        let Some(objects) = kustomized(&overlay) else { return };
        let set = objects.iter().find(|object| object["kind"] == "DaemonSet").unwrap();
        let pod = &set["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let arguments =
            container["args"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap());
        let addresses: Vec<&str> =
            arguments.filter_map(|argument| argument.strip_prefix("--metrics-listen=")).collect();
        if pod["hostNetwork"] == true {
            assert_eq!(addresses, ["$(HOST_IP):9469"], "{overlay}");
            let variables = container["env"].as_array().unwrap();
            let host = variables.iter().find(|variable| variable["name"] == "HOST_IP").unwrap();
            assert_eq!(host["valueFrom"]["fieldRef"]["fieldPath"], "status.hostIP", "{overlay}");
        } else {
            assert_eq!(addresses, ["0.0.0.0:9469"], "{overlay}");
        }
    }
}

#[test]
fn pods_of_all_combinations_are_valid_for_a_kubelet() {
    for runtime in ["containerd", "k3s", "crio"] {
        let values = json!({"runtime": runtime, "kubeletAccess": true, "extraArgs": ["--period=2s"]});
        let Some(objects) = rendered(&values) else { return };
        let set = objects.iter().find(|object| object["kind"] == "DaemonSet").unwrap();
        let mut pod = set["spec"]["template"].clone();
        let folder = &pod["spec"]["volumes"][1]["hostPath"]["path"];
        assert_eq!(folder, &pod["spec"]["containers"][0]["volumeMounts"][1]["mountPath"], "{runtime}");
        let endpoint = pod["spec"]["containers"][0]["args"][1].as_str().unwrap();
        let socket = format!("--runtime-endpoint=unix://{}/", folder.as_str().unwrap());
        assert!(endpoint.starts_with(&socket), "{runtime}: {endpoint}");
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod["metadata"]["name"] = "plegctl".into();
        // A static pod may not have an account.
        pod["spec"].as_object_mut().unwrap().remove("serviceAccountName");
        let path = format!("{}/chart-{runtime}-{}.json", env!("CARGO_TARGET_TMPDIR"), std::process::id());
        fs::write(&path, pod.to_string()).unwrap();
        let lint = plegctl(&["static-pods", "lint", &path, "--no-cri", "--node-name", "n1", "-o", "json"]);
        fs::remove_file(&path).unwrap();
        let report: Value = serde_json::from_str(&lint.stdout).unwrap_or_else(|_| panic!("{lint}"));
        assert_eq!(report["files"][0]["verdict"], "loaded", "{runtime}: {lint}");
        let errors = report["files"][0]["findings"].as_array().unwrap();
        assert!(errors.iter().all(|finding| finding["severity"] != "error"), "{runtime}: {lint}");
    }
}

#[test]
fn every_value_changes_its_field() {
    let pod = "/spec/template/spec";
    let container = "/spec/template/spec/containers/0";
    for (values, pointer, expected) in [
        (
            json!({"image": {"repository": "r.example/p"}}),
            format!("{container}/image"),
            "r.example/p:0.1.0".into(),
        ),
        (json!({"image": {"tag": "9"}}), format!("{container}/image"), "plegctl:9".into()),
        (json!({"image": {"pullPolicy": "Always"}}), format!("{container}/imagePullPolicy"), "Always".into()),
        (
            json!({"image": {"pullSecrets": [{"name": "s"}]}}),
            format!("{pod}/imagePullSecrets"),
            json!([{"name": "s"}]),
        ),
        (json!({"captures": {"maxSize": "1GiB"}}), format!("{container}/args/3"), "--max-size=1GiB".into()),
        (
            json!({"captures": {"sizeLimit": "2Gi"}}),
            format!("{pod}/volumes/1/emptyDir/sizeLimit"),
            "2Gi".into(),
        ),
        // A text that YAML would read as something else stays one argument.
        (json!({"extraArgs": ["--a=b: #c"]}), format!("{container}/args/5"), "--a=b: #c".into()),
        (
            json!({"maxUnavailable": 3}),
            "/spec/updateStrategy/rollingUpdate/maxUnavailable".to_owned(),
            3.into(),
        ),
        (
            json!({"resources": {"limits": {"memory": "1Gi"}}}),
            format!("{container}/resources/limits/memory"),
            "1Gi".into(),
        ),
        (
            json!({"serveTokenSecret": "t"}),
            format!("{pod}/volumes/0/secret"),
            json!({"secretName": "t", "optional": true, "defaultMode": 0o400}),
        ),
        (json!({"nodeSelector": {"pool": "x"}}), format!("{pod}/nodeSelector/pool"), "x".into()),
        (json!({"tolerations": []}), format!("{pod}/tolerations"), json!([])),
    ] {
        let Some(objects) = rendered(&values) else { return };
        let set = objects.iter().find(|object| object["kind"] == "DaemonSet").unwrap();
        assert_eq!(set.pointer(&pointer), Some(&expected), "{values}");
    }
}

#[test]
fn releases_for_two_runtimes_share_no_object() {
    let values = json!({"kubeletAccess": true, "networkPolicy": {"enabled": true},
        "monitoring": {"podMonitor": true, "rules": true}});
    let names = |namespace: &str| -> Option<BTreeSet<String>> {
        let name = |object: Value| {
            let about = &object["metadata"];
            format!("{} {} {}", object["kind"], about["namespace"], about["name"])
        };
        Some(rendered_in(namespace, &values)?.into_iter().map(name).collect())
    };
    let (Some(first), Some(second)) = (names("plegctl"), names("plegctl-crio")) else { return };
    assert_eq!(first.len(), 7, "{first:?}");
    assert!(first.is_disjoint(&second), "{first:?} {second:?}");
}

#[test]
fn only_the_named_clients_may_connect_to_the_recorders() {
    let clients = json!({"enabled": true, "namespace": "prom", "cidrs": ["10.0.0.0/28"]});
    let Some(objects) = rendered(&json!({"networkPolicy": clients})) else { return };
    let policy = objects.iter().find(|object| object["kind"] == "NetworkPolicy").unwrap();
    let namespace = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "prom"}}});
    let from = json!([namespace, {"ipBlock": {"cidr": "10.0.0.0/28"}}]);
    assert_eq!(
        policy["spec"]["ingress"],
        json!([{"ports": [{"port": 9469, "protocol": "TCP"}], "from": from}])
    );
    let set = objects.iter().find(|object| object["kind"] == "DaemonSet").unwrap();
    assert_eq!(policy["spec"]["podSelector"], set["spec"]["selector"]);
}

#[test]
fn alerts_of_the_chart_link_to_the_runbooks_of_its_release() {
    let values = json!({"monitoring": {"rules": true, "labels": {"release": "stack"}, "runbooks": "https://h.example/r"}});
    let Some(objects) = rendered(&values) else { return };
    let rule = objects.iter().find(|object| object["kind"] == "PrometheusRule").unwrap();
    assert_eq!(rule["metadata"]["labels"]["release"], "stack");
    let groups = rule["spec"]["groups"].as_array().unwrap().iter();
    let rules = groups.flat_map(|group| group["rules"].as_array().unwrap());
    let alerts: Vec<&Value> = rules.filter(|rule| rule.get("alert").is_some()).collect();
    assert!(alerts.len() > 9, "{rule}");
    for alert in alerts {
        let page = format!("https://h.example/r/{}.md", alert["alert"].as_str().unwrap());
        assert_eq!(alert["annotations"]["runbook_url"], page);
    }
}

/// Adds the path of each field that a schema describes to `paths`, such as `.image.tag`.
fn described(schema: &Value, at: &str, paths: &mut BTreeSet<String>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let at = format!("{at}.{name}");
        described(field, &at, paths);
        if field["properties"].is_null() {
            assert!(field["description"].as_str().is_some_and(|text| !text.is_empty()), "{at}");
            paths.insert(at);
        }
    }
}

#[test]
fn schema_accepts_the_defaults_and_refuses_wrong_values() {
    let Some(defaults) = yaml("values.yaml") else { return };
    let schema = schema_of_values();
    assert_eq!(schema::misfits(&defaults, &schema), [""; 0]);
    let mut paths = BTreeSet::new();
    described(&schema, "", &mut paths);
    for path in paths {
        let found = defaults.pointer(&path.replace('.', "/"));
        assert!(found.is_some(), "values.yaml has no {path}");
    }
    for (pointer, wrong) in [
        ("/runtime", json!("docker")),
        ("/kubeletAccess", json!("yes")),
        ("/serveTokenSecret", json!(true)),
        ("/image/pullPolicy", json!("Sometimes")),
        ("/image/pullSecrets", json!(["registry"])),
        ("/tolerations", json!([{"effect": "None"}])),
        ("/extraArgs", json!("--period=2s")),
        ("/resources", json!({"cpu": "1"})),
    ] {
        let mut values = defaults.clone();
        *values.pointer_mut(pointer).unwrap() = wrong;
        assert!(!schema::misfits(&values, &schema).is_empty(), "{pointer}");
    }
    let mut misspelt = Map::from_iter(defaults.as_object().unwrap().clone());
    misspelt.insert("kubeletacces".to_owned(), true.into());
    assert!(!schema::misfits(&misspelt.into(), &schema).is_empty());
}

#[test]
fn chart_has_the_version_of_the_program() {
    let Some(about) = yaml("Chart.yaml") else { return };
    assert_eq!(about["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(about["appVersion"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&about["apiVersion"], &about["name"]), (&"v2".into(), &"plegctl".into()));
}
