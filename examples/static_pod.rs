//! Lints the manifest of a static pod and prints the UID that the kubelet gives the pod.
//!
//! ```console
//! $ cargo run --example static_pod -- /etc/kubernetes/manifests/etcd.yaml node1 1.34
//! ```
//!
//! The UID depends on the kubelet's release, on the node's name and on the path. Whether the kubelet accepts the file
//! depends on the release. The example reads only the file and connects to nothing.

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;

use plegctl_engine::manifests::{Kubelet, KubeletVersion, inspect_file};

/// Reads path, node and release from the command line.
pub fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: static_pod PATH [NODE [RELEASE]]")?;
    let node = arguments.next().unwrap_or_else(|| "node1".to_owned());
    let version = match arguments.next() {
        Some(release) => KubeletVersion::parse(&release)?,
        None => KubeletVersion::CONFIRMED,
    };
    run(Path::new(&path), &Kubelet::new(version, node), &mut io::stdout())
}

/// Prints the findings, then the verdict with the UID.
pub fn run(path: &Path, kubelet: &Kubelet, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let file = inspect_file(path, kubelet);
    for finding in &file.findings {
        let line = finding.line.map_or_else(String::new, |line| format!(" line {line}:"));
        writeln!(out, "{}{line} {}", finding.id.id(), finding.message)?;
    }
    match (&file.pod, &file.uid) {
        (Some(pod), Some(Ok(uid))) => {
            writeln!(out, "{:?} as {}/{}, UID {uid}", file.verdict, pod.namespace, pod.name)?;
        }
        (_, Some(Err(unknown))) => writeln!(out, "{:?}, {unknown}", file.verdict)?,
        _ => writeln!(out, "{:?}", file.verdict)?,
    }
    Ok(())
}
