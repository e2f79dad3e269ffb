//! The objects in `deploy/`: what kustomize makes of them, and what they ask for.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use super::plegctl::plegctl;
use super::{file, output_of, text, tool};

const OVERLAYS: [&str; 4] = ["base", "overlays/k3s", "overlays/crio", "overlays/kubelet-access"];

/// The documents of an overlay by kind, or nothing where there is no kubectl.
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

/// The pod of a `DaemonSet` as a manifest of its own, without the one thing that a static pod may not have.
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

/// The pod's schema is known to `static-pods lint`: a field that the kubelet would drop, or a value that it refuses, is found.
#[test]
fn the_pods_are_pods_to_a_kubelet() {
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
            // Of a DaemonSet's pod, not of ours: its namespace, its class's number, its node selector, the tag of the image.
            .filter(|id| !["SP068", "SP069", "SP070", "SP081"].contains(id))
            .collect();
        assert_eq!(findings, [""; 0], "{overlay}: {lint}");
    }
}

#[test]
fn the_pods_ask_for_no_more_than_they_need() {
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
            "{overlay}: a mount beside the captures' can be written to"
        );
        assert!(daemon_set.contains("- mountPath: /captures\n          name: captures\n"), "{overlay}");
        assert!(daemon_set.contains("medium: Memory"), "{overlay}");
        // A volume of the socket itself, or of type "", is how nodes are broken.
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

#[test]
fn the_endpoint_is_below_what_is_mounted() {
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
    let role = text("deploy/overlays/kubelet-access/rbac.yaml");
    let role = role.split("---").next().unwrap();
    assert!(role.contains("resources: [nodes/metrics, nodes/configz]\n    verbs: [get]"), "{role}");
    assert_eq!(role.matches("verbs:").count(), 1);
    assert!(!role.lines().any(|line| !line.starts_with('#') && line.contains("proxy")), "{role}");
}

/// The binary must know what the `DaemonSet` tells it.
#[test]
fn the_arguments_are_arguments_of_this_program() {
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
        .map(|argument| if argument == "/captures" { captures.as_str() } else { argument })
        .collect();
    arguments.push("--count=1");
    let run = plegctl(&arguments);
    assert_eq!(run.code, Some(0), "{run}");
    let checked = plegctl(&["capture", "check", &captures]);
    fs::remove_dir_all(&captures).unwrap();
    assert_eq!(checked.code, Some(0), "{checked}");
}
