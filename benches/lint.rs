//! Measures the time to lint a directory of static pods, compared with reading it, and the time to check a kubelet's
//! configuration, compared with starting the program.

pub mod support;

use std::fs;
use std::path::{Path, PathBuf};

use support::process::{PLEGCTL, peak_memory, wall};
use support::{figure, heading, in_turn, mebibytes, ratio};

const SIZES: [usize; 2] = [10, 500];

const TURNS: usize = 50;

/// A configuration with two faults.
const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/examples/kubelet-config.yaml");

/// A manifest like kubeadm's, with a misspelt field so that there is a finding.
const MANIFEST: &str = "apiVersion: v1
kind: Pod
metadata:
  name: NAME
  namespace: kube-system
  labels: {component: NAME, tier: control-plane}
spec:
  hostNetwork: true
  priorityClassName: system-node-critical
  securityContext: {seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: NAME
    image: registry.example/kube-scheduler:v1.36.2
    command: [kube-scheduler, --kubeconfig=/etc/kubernetes/scheduler.conf, --leader-elect=true]
    comand: [misspelt]
    livenessProbe:
      httpGet: {path: /livez, port: 10259, host: 127.0.0.1, scheme: HTTPS}
      failureThreshold: 8
      initialDelaySeconds: 10
      periodSeconds: 10
      timeoutSeconds: 15
    resources: {requests: {cpu: 100m}}
    volumeMounts:
    - {mountPath: /etc/kubernetes/scheduler.conf, name: kubeconfig, readOnly: true}
  volumes:
  - name: kubeconfig
    hostPath: {path: /etc/kubernetes/scheduler.conf, type: FileOrCreate}
";

fn main() {
    let place = std::env::temp_dir().join(format!("plegctl-bench-lint-{}", std::process::id()));
    heading("static-pods lint, whole process", "lint");
    for size in SIZES {
        let directory = place.join(size.to_string());
        let files = write(&directory, size);
        let files: Vec<&str> = files.iter().map(|file| text(file)).collect();
        let lint = ["static-pods", "lint", text(&directory), "--no-cri", "--fail-on", "never"];
        let (ours, reading) = in_turn(TURNS, || wall(PLEGCTL, &lint), || wall("/bin/cat", &files));
        ratio(&format!("plegctl static-pods lint, {size} manifests"), &ours, "/bin/cat of them", &reading);
        figure("  peak memory", &mebibytes(peak_memory(PLEGCTL, &lint)));
    }
    fs::remove_dir_all(&place).expect("it was made above");
    heading("preflight, whole process", "lint");
    let preflight = ["preflight", "--config", CONFIG, "--kubelet-version", "1.36", "--fail-on", "never"];
    let (ours, start) = in_turn(TURNS, || wall(PLEGCTL, &preflight), || wall(PLEGCTL, &["--version"]));
    ratio("plegctl preflight, one configuration", &ours, "plegctl --version", &start);
}

/// Writes this number of manifests; returns their paths.
fn write(directory: &Path, size: usize) -> Vec<PathBuf> {
    fs::create_dir_all(directory).expect("the temporary directory can be written to");
    (0..size)
        .map(|number| {
            let name = format!("pod-{number}");
            let path = directory.join(format!("{name}.yaml"));
            fs::write(&path, MANIFEST.replace("NAME", &name)).expect("the directory can be written to");
            path
        })
        .collect()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is of ASCII")
}
