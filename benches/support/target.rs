//! The runtimes that the benches measure, each in its own process: simulated runtimes, and real containerd with real
//! pods.

#[path = "../../tests/real_runtime/harness/mod.rs"]
pub mod harness;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::process::PLEGCTL;
use harness::daemon::RealRuntime;
use harness::packages::{Containerd, Packages};

/// Which real runtime to measure.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Measure this runtime (`unix:///…`) instead of a private containerd; see the bench `real_node`
    #[arg(long)]
    endpoint: Option<String>,
    /// Pods of the private containerd
    #[arg(long, default_value = "100")]
    pods: usize,
    /// Containers in each pod
    #[arg(long, default_value = "1")]
    containers: usize,
    /// Cargo passes this option to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    /// Returns the options for private containerds with these numbers of pods of two containers; only `self` if it names a
    /// runtime.
    pub fn with_sizes(self, pods: impl IntoIterator<Item = usize>) -> Vec<Self> {
        if self.endpoint.is_some() {
            return vec![self];
        }
        pods.into_iter().map(|pods| Self { pods, containers: 2, ..self.clone() }).collect()
    }
}

/// A running runtime. Dropping this stops the runtime if the bench has started it.
pub struct Target {
    /// Its description.
    pub name: String,
    socket: PathBuf,
    _owner: Owner,
}

/// Stops the runtime when it is dropped, unless somebody else started the runtime.
enum Owner {
    Somebody,
    Node(#[expect(dead_code, reason = "is kept to be dropped")] Box<RealRuntime>),
    Simulator(#[expect(dead_code, reason = "is kept to be dropped")] Simulator),
}

impl Target {
    /// Returns the socket as an endpoint.
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Returns the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Starts `plegctl sim serve` with this scenario.
    pub fn simulated(scenario: &str) -> Self {
        let simulator = Simulator::play(scenario);
        let socket = simulator.folder.join("sim.sock");
        Self { name: format!("sim:{scenario}"), socket, _owner: Owner::Simulator(simulator) }
    }

    /// Returns the real runtime that the options name, or a new private containerd. If there is none, prints the reason and
    /// returns `None`.
    pub fn real(options: &Options) -> Option<Self> {
        if let Some(endpoint) = &options.endpoint {
            let socket = PathBuf::from(endpoint.trim_start_matches("unix://"));
            return Some(Self { name: endpoint.clone(), socket, _owner: Owner::Somebody });
        }
        match Packages::find() {
            Ok(packages) => {
                let Options { pods, containers, .. } = *options;
                Some(Self::node(Containerd::V2, packages, pods, containers))
            }
            Err(reason) => {
                println!("\nreal containerd: skipped, {reason}");
                None
            }
        }
    }

    /// Starts a private containerd with this number of pods.
    pub fn node(version: Containerd, packages: Packages, pods: usize, containers_each: usize) -> Self {
        let node = RealRuntime::start(version, packages);
        // `health` reads more on a node with a problem.
        node.configure_network("loopback");
        node.run_pods(pods, containers_each);
        let name = format!("{version} with {pods} pods of {containers_each}");
        Self { name, socket: node.socket(), _owner: Owner::Node(Box::new(node)) }
    }
}

/// `plegctl sim serve` and the directory of its socket.
struct Simulator {
    process: Child,
    folder: PathBuf,
}

impl Simulator {
    /// Starts `plegctl sim` with a scenario.
    fn play(scenario: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("plegctl-bench-{}-{scenario}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder for the socket");
        let mut process = Command::new(PLEGCTL)
            .args(["sim", "serve", scenario, "--listen"])
            .arg(folder.join("sim.sock"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("plegctl runs");
        let stdout = process.stdout.take().expect("it is piped");
        let simulator = Self { process, folder };
        // The server prints its socket when it listens.
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("the server prints its socket");
        assert!(line.starts_with("unix://"), "plegctl sim serve {scenario} printed `{line}`");
        simulator
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
