//! Tests of `pods --watch` with very many manifests and pods of the API server: it reports all of them, with memory
//! proportional to their bytes.
//!
//! `PLEGCTL_PODS=10000 PLEGCTL_PODS_OF=PROGRAM cargo test --test product slow::many_pods -- --nocapture` prints the memory and
//! the time for this number of pods and another program.

use std::fs;
use std::time::Instant;

use serde_json::{Value, json};

use super::memory::peak_of;
use crate::support::plegctl::Invocation;
use crate::support::socket::TempDir;

const MIB: usize = 1024 * 1024;
/// The memory of a run without pods: mostly the program, of which a debug build maps 20 MiB.
const BASE_MEMORY: usize = 30 * MIB;
/// A time limit for a debug build on a busy machine.
const TIME_LIMIT: std::time::Duration = std::time::Duration::from_secs(600);

/// Returns the number of pods. It is so large that plegctl would exceed the limits if it stored pods as trees.
fn many() -> usize {
    std::env::var("PLEGCTL_PODS").map_or(3000, |many| many.parse().unwrap())
}

/// Runs `pods --watch` until its first update, which has all pods, and returns the peak memory.
fn peak_at_the_first_update(arguments: &[&str]) -> usize {
    let fixed = ["pods", "--watch", "-o", "jsonl", "--no-cri", "--node-name", "n1", "--quiet"];
    let started = Instant::now();
    let program =
        std::env::var("PLEGCTL_PODS_OF").unwrap_or_else(|_| env!("CARGO_BIN_EXE_plegctl").to_owned());
    let mut watch =
        Invocation::program(&program, &[&fixed, arguments].concat()).time_limit(TIME_LIMIT).spawn();
    let update: Value = serde_json::from_str(&watch.line().unwrap()).unwrap();
    assert_eq!((update["op"].as_str(), update["pods"].as_array().unwrap().len()), (Some("ADD"), many()));
    let peak = peak_of(watch.pid()).unwrap();
    println!("{arguments:?}: {} MiB, {:.1} s", peak / MIB, started.elapsed().as_secs_f64());
    peak
}

#[test]
fn memory_for_many_files_is_proportional_to_their_bytes() {
    let folder = TempDir::new();
    let mut bytes = 0;
    for number in 0..many() {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web-{number}\n  namespace: shop\n  labels: {{app: web, number: \"{number}\"}}\n\
             spec:\n  containers:\n  - name: main\n    image: registry.example/web:{number}\n    args: [--listen=:8080, --verbose]\n\
             {:4}resources: {{requests: {{cpu: 100m, memory: 64Mi}}}}\n  volumes:\n  - name: data\n    hostPath: {{path: /srv/{number}}}\n",
            ""
        );
        bytes += text.len();
        fs::write(folder.path().join(format!("web-{number:05}.yaml")), text).unwrap();
    }
    let peak = peak_at_the_first_update(&["--manifests", folder.path().to_str().unwrap()]);
    // With the defaults that the kubelet adds, a pod has three times the bytes of its manifest.
    assert!(peak < 12 * bytes + BASE_MEMORY, "{} MiB for {} MiB", peak / MIB, bytes / MIB);
}

#[test]
fn memory_for_many_pods_of_the_api_server_is_proportional_to_their_bytes() {
    let folder = TempDir::new();
    let environment: Vec<Value> = (0..20)
        .map(|number| json!({"name": format!("VARIABLE_{number}"), "value": "x".repeat(60)}))
        .collect();
    let items: Vec<Value> = (0..many())
        .map(|number| {
            json!({
                "metadata": {"name": format!("web-{number}"), "namespace": "shop", "uid": format!("uid-{number}"),
                    "labels": {"app": "web"}},
                "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "x", "env": environment}]},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
            })
        })
        .collect();
    let text = json!({"kind": "PodList", "apiVersion": "v1", "items": items}).to_string();
    let bytes = text.len();
    let list = folder.path().join("list.json");
    fs::write(&list, text).unwrap();
    drop(items);
    let peak = peak_at_the_first_update(&["--api-pods", list.to_str().unwrap()]);
    // Like any answer, the list takes at most eight times its bytes, including the program; the ratio falls with the
    // number of pods.
    assert!(peak < (8 * bytes).min(4 * bytes + BASE_MEMORY), "{} MiB for {} MiB", peak / MIB, bytes / MIB);
}
