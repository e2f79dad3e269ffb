//! One simulated fleet for all tests of a test binary. It starts with the first test that uses it, and ends with the binary.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use super::plegctl::{Invocation, Output, command};

/// Runs the fleet until the other end of stdin is closed: nothing ends the processes of a test binary when it ends.
const SCRIPT: &str = r#""$0" sim fleet --quiet & read -r end; kill "$!"; wait"#;

/// A simulated fleet of 200 nodes.
pub struct SimulatedFleet {
    /// The file of the kubeconfig.
    pub kubeconfig: String,
    /// The file with the recorders' token.
    pub token: String,
    /// Keeps the fleet running.
    _process: Child,
}

/// Returns the fleet.
pub fn simulated_fleet() -> &'static SimulatedFleet {
    static FLEET: OnceLock<SimulatedFleet> = OnceLock::new();
    FLEET.get_or_init(SimulatedFleet::start)
}

impl SimulatedFleet {
    fn start() -> Self {
        let mut shell = command("sh");
        shell
            .args(["-c", SCRIPT, env!("CARGO_BIN_EXE_plegctl")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        shell.env("TMPDIR", env!("CARGO_TARGET_TMPDIR"));
        // What is written into the documentation has the real figures.
        if env::var_os("PLEGCTL_BLESS").is_none() {
            shell.env("PLEGCTL_TEST_SILENCE_DIVISOR", "5");
        }
        let mut process = shell.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
        let line = lines.nth(1).expect("the fleet is served");
        let files = line.strip_prefix("kubeconfig ").unwrap();
        // The fleet prints no more lines, and its output may be closed.
        assert!(lines.any(|line| line.ends_with(" nodes --incidents")));
        let (kubeconfig, token) = files.split_once(", token of the recorders ").unwrap();
        Self { kubeconfig: kubeconfig.to_owned(), token: token.to_owned(), _process: process }
    }

    /// Returns plegctl with these arguments and the fleet as its cluster.
    pub fn invocation(&self, arguments: &[&str]) -> Invocation {
        Invocation::new(arguments).env("KUBECONFIG", &self.kubeconfig)
    }

    /// Runs plegctl with these arguments on the fleet.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.invocation(arguments).run()
    }

    /// Returns the document that plegctl prints with these arguments.
    pub fn document(&self, arguments: &[&str]) -> (Output, Value) {
        let output = self.run(&[arguments, &["-o", "json"]].concat());
        let document = serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"));
        (output, document)
    }

    /// Returns the name of the first node whose recorder has found this rule.
    pub fn node_with(&self, rule: &str) -> String {
        let (output, report) = self.document(&["nodes", "--sort-by", "name", "--timeout", "30s"]);
        let nodes = report["nodes"].as_array().unwrap();
        let found = nodes.iter().find(|node| node["recorder"]["primary"]["id"] == rule);
        found.unwrap_or_else(|| panic!("{output}"))["name"].as_str().unwrap().to_owned()
    }
}
