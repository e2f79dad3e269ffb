//! Tests of plegctl as a plugin of kubectl: the links that start it, kubectl's own flags, completion through kubectl, and the
//! manifest for krew.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use super::{file, output_of, tool};
use crate::support::plegctl::{Invocation, Output};
use crate::support::simulated_fleet::simulated_fleet;

/// A folder that is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("kubectl-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Creates a folder with the two links of the plugin.
    fn with_links() -> Self {
        let folder = Self::new();
        for link in ["kubectl-plegctl", "kubectl_complete-plegctl"] {
            symlink(env!("CARGO_BIN_EXE_plegctl"), folder.0.join(link)).unwrap();
        }
        folder
    }

    /// Runs one of the links.
    fn run(&self, link: &str, arguments: &[&str]) -> Output {
        Invocation::program(self.0.join(link).to_str().unwrap(), arguments).run()
    }

    /// Runs kubectl, which finds the links; `None` without kubectl.
    fn kubectl(&self, arguments: &[&str]) -> Option<Output> {
        let kubectl = tool("kubectl", "kubectl, from trixie on")?;
        let path = env::var("PATH").unwrap();
        let run = Invocation::program(kubectl.to_str().unwrap(), arguments);
        let run = run.env("PATH", format!("{}:{path}", self.0.display()));
        Some(run.env("HOME", &self.0).run())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the candidates in a completion for kubectl, without their descriptions, and the directive.
fn candidates(output: &Output) -> (Vec<&str>, &str) {
    let mut lines: Vec<&str> =
        output.stdout.lines().map(|line| line.split('\t').next().unwrap_or_default()).collect();
    let directive = lines.pop().unwrap_or_else(|| panic!("{output}"));
    (lines, directive)
}

#[test]
fn plugin_takes_kubectls_flags_and_returns_plegctls_exit_status() {
    let config = &simulated_fleet().kubeconfig;
    let folder = Folder::with_links();
    let nodes = ["plegctl", "nodes", "--kubeconfig", config, "-n", "plegctl", "-o", "name"];
    let Some(here) = folder.kubectl(&[&nodes[..], &["--context", "sim-fleet"]].concat()) else { return };
    assert_eq!((here.code, here.stdout.lines().count()), (Some(1), 21), "{here}");
    let Some(elsewhere) = folder.kubectl(&[&nodes[..], &["--context", "elsewhere"]].concat()) else { return };
    assert_eq!(elsewhere.code, Some(2), "{elsewhere}");
    assert!(elsewhere.stderr.contains("has no context `elsewhere`"), "{elsewhere}");
}

#[test]
fn help_of_the_plugin_has_the_name_that_its_user_types() {
    let folder = Folder::with_links();
    for (arguments, usage) in [
        (&["--help"][..], "Usage: kubectl plegctl [OPTIONS] <COMMAND>"),
        (&["nodes", "--help"], "Usage: kubectl plegctl nodes [OPTIONS]"),
        (&["capture", "ls", "--help"], "Usage: kubectl plegctl capture ls"),
    ] {
        let output = folder.run("kubectl-plegctl", arguments);
        assert_eq!(output.code, Some(0), "{output}");
        assert!(output.stdout.contains(usage), "{output}");
    }
    let wrong = folder.run("kubectl-plegctl", &["nodes", "--limit", "x"]);
    assert_eq!(wrong.code, Some(2), "{wrong}");
    assert!(wrong.stderr.contains("--limit"), "{wrong}");
}

#[test]
fn plugin_prints_the_same_as_plegctl() {
    let folder = Folder::with_links();
    let plugin = folder.run("kubectl-plegctl", &["explain", "D01"]);
    let plegctl = crate::support::plegctl::plegctl(&["explain", "D01"]);
    assert_eq!((plugin.code, plugin.stdout), (Some(0), plegctl.stdout));
}

#[test]
fn completion_has_the_format_of_kubectl() {
    let folder = Folder::with_links();
    let complete = |words: &[&str]| folder.run("kubectl_complete-plegctl", words);
    let commands = complete(&["he"]);
    assert_eq!(commands.code, Some(0), "{commands}");
    assert_eq!(candidates(&commands).0.first(), Some(&"health"), "{commands}");
    assert!(commands.stdout.contains("health\tShow what blocks PLEG"), "{commands}");
    let options = complete(&["nodes", "--con"]);
    assert_eq!(candidates(&options), (vec!["--context", "--concurrency"], ":4"), "{options}");
    let scenarios = complete(&["relist", "-r", "sim:quie"]);
    assert_eq!(candidates(&scenarios), (vec!["sim:quiet"], ":4"), "{scenarios}");
    // Without a candidate, the shell completes files.
    assert_eq!(complete(&["explain", "nothing-like-this"]).stdout, ":0\n");
}

#[test]
fn kubectl_completes_the_plugin() {
    let folder = Folder::with_links();
    let Some(output) = folder.kubectl(&["__complete", "plegctl", "nodes", "--kubec"]) else { return };
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(candidates(&output), (vec!["--kubeconfig"], ":4"), "{output}");
}

#[test]
fn manifest_for_krew_names_files_of_each_tarball_with_its_checksum() {
    let Some(renderer) = tool("chart-render", "built by tests/fleet/fetch.sh") else { return };
    let folder = Folder::new();
    let version = env!("CARGO_PKG_VERSION");
    for machine in ["x86_64", "aarch64"] {
        let name = format!("plegctl-{version}-{machine}-unknown-linux-gnu");
        let packed = folder.0.join(&name);
        fs::create_dir(&packed).unwrap();
        for content in ["plegctl", "LICENSE"] {
            fs::write(packed.join(content), machine).unwrap();
        }
        let tarball = folder.0.join(format!("{name}.tar.gz"));
        output_of(Command::new("tar").arg("czf").arg(tarball).arg("-C").arg(&folder.0).arg(&name));
    }
    let script = file("packaging/krew.sh");
    let yaml = output_of(
        Command::new(&script).arg(version).arg(&folder.0).env("PLEGCTL_ADDRESS", "https://r.example/o/n"),
    );
    let path = folder.0.join("plegctl.yaml");
    fs::write(&path, yaml).unwrap();
    let manifest: Vec<Value> = serde_json::from_str(&output_of(Command::new(renderer).arg(&path))).unwrap();
    let manifest = &manifest[0];
    assert_eq!(manifest["apiVersion"], "krew.googlecontainertools.github.com/v1alpha2");
    assert_eq!((&manifest["kind"], &manifest["metadata"]["name"]), (&"Plugin".into(), &"plegctl".into()));
    // krew accepts only a version that starts with v.
    assert_eq!(manifest["spec"]["version"], format!("v{version}"));
    assert_eq!(manifest["spec"]["homepage"], "https://r.example/o/n");
    assert!(manifest["spec"]["shortDescription"].as_str().unwrap().len() <= 50);
    let platforms = manifest["spec"]["platforms"].as_array().unwrap();
    let architectures: Vec<&str> =
        platforms.iter().map(|each| each["selector"]["matchLabels"]["arch"].as_str().unwrap()).collect();
    assert_eq!(architectures, ["arm64", "amd64"]);
    for platform in platforms {
        let directory = format!("https://r.example/o/n/releases/download/v{version}/");
        let name = platform["uri"].as_str().unwrap().strip_prefix(&directory).unwrap();
        let tarball = folder.0.join(name);
        let sum = output_of(Command::new("sha256sum").arg(&tarball));
        assert_eq!(sum.split(' ').next(), platform["sha256"].as_str());
        let packed = output_of(Command::new("tar").arg("tzf").arg(&tarball));
        for entry in platform["files"].as_array().unwrap() {
            let from = entry["from"].as_str().unwrap();
            assert!(packed.lines().any(|line| line == from), "{name} has no {from}");
        }
        assert_eq!(platform["bin"], "plegctl");
    }
}

/// The script fails instead of writing a manifest without a platform.
#[test]
fn manifest_for_krew_needs_a_tarball() {
    let folder = Folder::new();
    let run = Invocation::program(
        file("packaging/krew.sh").to_str().unwrap(),
        &["9.9.9", folder.0.to_str().unwrap()],
    );
    let output = run.env("PLEGCTL_ADDRESS", "https://r.example/o/n").run();
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stderr.contains("there is no platform for"), "{output}");
}
