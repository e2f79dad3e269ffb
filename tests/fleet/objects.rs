//! Tests of the Kubernetes objects in `deploy/`: the output of kustomize, and the rights that it requests.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use super::api::{Clients, Reply, Server};
use super::nodes::{authority, kubeconfig};
use super::{file, output_of, text, tool};
use crate::support::plegctl::plegctl;

const OVERLAYS: [&str; 4] = ["base", "overlays/k3s", "overlays/crio", "overlays/kubelet-access"];

/// Returns the documents of an overlay by kind, or `None` without kubectl.
fn built(overlay: &str) -> Option<BTreeMap<String, String>> {
    let kubectl = tool("kubectl", "kubectl, from trixie on")?;
    let all = output_of(Command::new(kubectl).arg("kustomize").arg(file("deploy").join(overlay)));
    let kind = |document: &str| {
        document
            .lines()
            .find_map(|line| line.strip_prefix("kind: "))
            .expect("an object has a kind")
            .to_owned()
    };
    Some(all.split("\n---\n").map(|document| (kind(document), document.to_owned())).collect())
}

/// Returns the pod of a `DaemonSet` as a manifest, without the one field that a static pod may not have.
fn pod_of(daemon_set: &str) -> String {
    let (_, template) = daemon_set.split_once("\n  template:\n").expect("a pod template");
    let mut pod = "apiVersion: v1\nkind: Pod\n".to_owned();
    for line in template.lines().map_while(|line| line.strip_prefix("    ")) {
        if line == "metadata:" {
            pod += "metadata:\n  name: plegctl\n  namespace: plegctl\n";
        } else if !line.starts_with("  serviceAccountName:") {
            pod += line;
            pod.push('\n');
        }
    }
    pod
}

#[test]
fn every_overlay_makes_the_same_objects() {
    for overlay in OVERLAYS {
        let Some(objects) = built(overlay) else { return };
        let kinds: Vec<&str> = objects.keys().map(String::as_str).collect();
        if overlay == "overlays/kubelet-access" {
            assert_eq!(
                kinds,
                ["ClusterRole", "ClusterRoleBinding", "DaemonSet", "Namespace", "ServiceAccount"]
            );
        } else {
            assert_eq!(kinds, ["DaemonSet", "Namespace", "ServiceAccount"], "{overlay}");
        }
        assert!(objects["Namespace"].contains("pod-security.kubernetes.io/enforce: privileged"), "{overlay}");
    }
}

/// `static-pods lint` knows the pod's schema, so it finds fields that a kubelet would drop and values that it would
/// reject.
#[test]
fn pods_of_the_manifests_are_valid_for_a_kubelet() {
    for overlay in OVERLAYS {
        let Some(objects) = built(overlay) else { return };
        let name = format!(
            "{}/{}-{}.yaml",
            env!("CARGO_TARGET_TMPDIR"),
            overlay.replace('/', "-"),
            std::process::id()
        );
        fs::write(&name, pod_of(&objects["DaemonSet"])).unwrap();
        let lint = plegctl(&["static-pods", "lint", &name, "--no-cri", "--node-name", "n1", "-o", "json"]);
        fs::remove_file(&name).unwrap();
        let report: serde_json::Value =
            serde_json::from_str(&lint.stdout).unwrap_or_else(|_| panic!("{lint}"));
        assert_eq!(report["files"][0]["verdict"], "loaded", "{overlay}: {lint}");
        let findings: Vec<&str> = report["files"][0]["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|finding| finding["id"].as_str().unwrap())
            // These findings are about any DaemonSet's pod: its namespace, its priority, its node selector, the tag of
            // the image.
            .filter(|id| !["SP068", "SP069", "SP070", "SP081"].contains(id))
            .collect();
        assert_eq!(findings, [""; 0], "{overlay}: {lint}");
    }
}

/// kubectl's output as JSON.
fn printed(arguments: &[&str]) -> Option<Value> {
    let kubectl = tool("kubectl", "kubectl, from trixie on")?;
    // A kubeconfig without a real cluster.
    let output =
        output_of(Command::new(kubectl).args(arguments).args(["-o", "json"]).env("KUBECONFIG", "/dev/null"));
    Some(serde_json::from_str(&output).unwrap())
}

/// Returns the first difference between two documents.
fn missing(wanted: &Value, there: &Value, path: &str) -> Option<String> {
    match (wanted, there) {
        (Value::Object(wanted), Value::Object(there)) => wanted.iter().find_map(|(key, value)| {
            let path = format!("{path}.{key}");
            there.get(key).map_or_else(|| Some(path.clone()), |there| missing(value, there, &path))
        }),
        (Value::Array(wanted), Value::Array(there)) => wanted.iter().enumerate().find_map(|(at, value)| {
            let path = format!("{path}[{at}]");
            there.get(at).map_or_else(|| Some(path.clone()), |there| missing(value, there, &path))
        }),
        _ => (wanted != there).then(|| path.to_owned()),
    }
}

/// Returns the fields of a file that kubectl's own Go types do not know. kubectl reads the file twice: as it is, and
/// converted to the typed object, which drops unknown fields and rejects wrong types.
fn unknown_to_kubectl(document: &str, typed: &[&str]) -> Option<String> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = format!("{}/object-{}-{number}.yaml", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    fs::write(&path, document).unwrap();
    let plain = printed(&["label", "--local", "--overwrite", "-f", &path, "a=b"]).unwrap();
    fs::write(&path, plain.to_string()).unwrap();
    let known = printed(&[typed, &["--local", "-f", &path]].concat()).unwrap();
    fs::remove_file(path).unwrap();
    missing(&plain, &known, "")
}

#[test]
fn fields_of_the_daemon_set_and_the_binding_are_known_to_kubectl() {
    // kubectl only prints what it has changed, so the test adds one entry at the end of a list.
    let variable = ["set", "env", "PLEGCTL=x"];
    let subject = ["set", "subject", "--serviceaccount=else:where"];
    for overlay in OVERLAYS {
        let Some(objects) = built(overlay) else { return };
        let daemon_set = &objects["DaemonSet"];
        assert_eq!(unknown_to_kubectl(daemon_set, &variable), None, "{overlay}");
        // An unknown field would be detected.
        let odd = daemon_set.replacen("  updateStrategy:\n", "  updates: 1\n  updateStrategy:\n", 1);
        assert_eq!(unknown_to_kubectl(&odd, &variable).as_deref(), Some(".spec.updates"));
        for binding in ["ClusterRoleBinding", "RoleBinding"].iter().filter_map(|kind| objects.get(*kind)) {
            assert_eq!(unknown_to_kubectl(binding, &subject), None);
            let odd = binding.replacen("roleRef:\n", "roleRef:\n  role: x\n", 1);
            assert_eq!(unknown_to_kubectl(&odd, &subject).as_deref(), Some(".roleRef.role"));
        }
    }
}

/// kubectl reads namespaces, service accounts and roles without types, so the test compares the files with objects that
/// kubectl creates. For a role, kubectl requests the list of resources.
#[test]
fn other_objects_equal_those_that_kubectl_creates() {
    let Some(objects) = built("overlays/kubelet-access") else { return };
    let read = |kind: &str| -> Value {
        let path = format!("{}/{kind}-{}.yaml", env!("CARGO_TARGET_TMPDIR"), std::process::id());
        fs::write(&path, &objects[kind]).unwrap();
        let mut object = printed(&["label", "--local", "-f", &path, "a=b"]).unwrap();
        fs::remove_file(path).unwrap();
        // kustomize sets the labels, whose values are strings.
        let labels = object["metadata"].as_object_mut().unwrap().remove("labels").unwrap();
        assert!(labels.as_object().unwrap().values().all(Value::is_string), "{labels}");
        object
    };
    let create =
        |arguments: &[&str]| printed(&[&["create"], arguments, &["--dry-run=client"]].concat()).unwrap();

    assert_eq!(missing(&read("Namespace"), &create(&["namespace", "plegctl"]), ""), None);

    let mut account = read("ServiceAccount");
    assert_eq!(account.as_object_mut().unwrap().remove("automountServiceAccountToken"), Some(false.into()));
    assert_eq!(missing(&account, &create(&["serviceaccount", "plegctl", "-n", "plegctl"]), ""), None);

    let server = Server::start("server", Clients::Any, |request| match request.path.split('?').next() {
        Some("/api") => Reply::ok(r#"{"kind":"APIVersions","versions":["v1"]}"#),
        Some("/apis") => Reply::ok(r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[]}"#),
        Some("/api/v1") => Reply::ok(
            r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"nodes","singularName":"node","namespaced":false,"kind":"Node","verbs":["get"]}]}"#,
        ),
        _ => Reply::Answer(404, String::new()),
    });
    let config = kubeconfig(&server.url(), &authority(), "token: t");
    let config = format!("--kubeconfig={}", config.0.display());
    let resources = "--resource=nodes/metrics,nodes/configz";
    let role = create(&["clusterrole", "plegctl-kubelet", "--verb=get", resources, &config]);
    assert_eq!(missing(&read("ClusterRole"), &role, ""), None);
}

#[test]
fn pods_have_no_more_rights_than_they_need() {
    for overlay in OVERLAYS {
        let Some(objects) = built(overlay) else { return };
        let daemon_set = &objects["DaemonSet"];
        for needed in [
            "allowPrivilegeEscalation: false",
            "readOnlyRootFilesystem: true",
            "drop:\n            - ALL",
            "type: RuntimeDefault",
            "type: spc_t",
            "priorityClassName: system-node-critical",
            "- operator: Exists",
            "fieldPath: spec.nodeName",
            "path: /readyz",
        ] {
            assert!(daemon_set.contains(needed), "{overlay} lacks {needed}");
        }
        for never in
            ["privileged: true", "type: Socket", "containerd.sock\n            type", "hostIPC", "SYS_"]
        {
            assert!(!daemon_set.contains(never), "{overlay} has {never}");
        }
        let mounts = daemon_set.matches("- mountPath:").count();
        assert_eq!(
            daemon_set.matches("readOnly: true").count(),
            mounts - 1,
            "{overlay}: a mount other than the captures is writable"
        );
        assert_eq!(
            daemon_set.matches("recursiveReadOnly: IfPossible").count(),
            mounts - 1,
            "{overlay}: what is mounted below a mount can be written to"
        );
        assert!(daemon_set.contains("- mountPath: /captures\n          name: captures\n"), "{overlay}");
        assert!(daemon_set.contains("medium: Memory"), "{overlay}");
        // A volume of the socket itself, or of type "", can break a node.
        assert_eq!(
            daemon_set.matches("hostPath:").count(),
            daemon_set.matches("type: Directory\n").count(),
            "{overlay}"
        );

        let host = overlay == "overlays/kubelet-access";
        assert_eq!(daemon_set.contains("hostPID: true"), host, "{overlay}");
        assert_eq!(daemon_set.contains("hostNetwork: true"), host, "{overlay}");
        assert_eq!(daemon_set.contains("automountServiceAccountToken: true"), host, "{overlay}");
    }
}

/// The other tests lint the pods as static pods, which may not refer to a Secret.
#[test]
fn overlay_with_the_token_adds_only_the_secret_to_the_base() {
    let (Some(base), Some(objects)) = (built("base"), built("overlays/serve-token")) else { return };
    assert_eq!(objects.keys().collect::<Vec<_>>(), base.keys().collect::<Vec<_>>());
    let mut lines: Vec<&str> = objects["DaemonSet"].lines().map(str::trim).collect();
    for line in base["DaemonSet"].lines() {
        let at = lines.iter().position(|known| *known == line.trim()).unwrap_or_else(|| panic!("{line}"));
        lines.remove(at);
    }
    // The lists have other first and last elements than those of the base, so their dashes move.
    let mut words: Vec<&str> = lines.iter().map(|line| line.trim_start_matches("- ")).collect();
    words.sort_unstable();
    let expected = [
        "--serve-token-file=/token/token",
        "defaultMode: 256",
        "mountPath: /token",
        "name: token",
        "name: token",
        "optional: true",
        "readOnly: true",
        "secret:",
        "secretName: plegctl-token",
    ];
    assert_eq!(words, expected);
}

#[test]
fn endpoint_is_below_a_mounted_path() {
    for overlay in OVERLAYS {
        let Some(objects) = built(overlay) else { return };
        let daemon_set = &objects["DaemonSet"];
        let socket = daemon_set.split("--runtime-endpoint=unix://").nth(1).unwrap().lines().next().unwrap();
        let folder = socket.rsplit_once('/').unwrap().0;
        assert!(
            daemon_set.contains(&format!("- mountPath: {folder}\n          name: runtime")),
            "{overlay}: {folder}"
        );
        assert!(
            daemon_set.contains(&format!("path: {folder}\n          type: Directory\n        name: runtime")),
            "{overlay}"
        );
    }
}

#[test]
fn the_role_can_read_two_documents_of_a_kubelet_and_nothing_else() {
    let role = text("deploy/components/kubelet-access/rbac.yaml");
    let role = role.split("---").next().unwrap();
    assert!(role.contains("resources: [nodes/metrics, nodes/configz]\n    verbs: [get]"), "{role}");
    assert_eq!(role.matches("verbs:").count(), 1);
    assert!(!role.lines().any(|line| !line.starts_with('#') && line.contains("proxy")), "{role}");
}

/// The binary accepts the arguments of the `DaemonSet`.
#[test]
fn arguments_in_the_manifests_are_valid() {
    let manifest = text("deploy/base/daemonset.yaml");
    let captures = format!("{}/captures-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let mut arguments: Vec<&str> = manifest
        .split_once("args:\n")
        .unwrap()
        .1
        .lines()
        .map_while(|line| line.trim_start().strip_prefix("- "))
        .map(|argument| {
            if argument.starts_with("--runtime-endpoint=") {
                "--runtime-endpoint=sim:quiet"
            } else {
                argument
            }
        })
        .map(|argument| {
            if argument.starts_with("--metrics-listen=") { "--metrics-listen=127.0.0.1:0" } else { argument }
        })
        .map(|argument| if argument == "/captures/node" { captures.as_str() } else { argument })
        .collect();
    arguments.push("--count=1");
    let run = plegctl(&arguments);
    assert_eq!(run.code, Some(0), "{run}");
    let checked = plegctl(&["capture", "check", &captures]);
    fs::remove_dir_all(&captures).unwrap();
    assert_eq!(checked.code, Some(0), "{checked}");
}
