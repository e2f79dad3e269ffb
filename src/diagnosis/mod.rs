//! `health`: what holds PLEG up, and how sure we are.
//!
//! Evidence, then rules, then a report. [`gather`] asks the runtime, the kubelet and the node, each question once and
//! with a deadline; [`judge`] is a pure function of what came back. Nothing here changes anything: the calls are the
//! read-only ones of [`crate::cri::Rpc`], and a call that hangs is left alone.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use plegctl::clock::SystemClock;
//! use plegctl::diagnosis::{self, Inputs};
//! use plegctl::sim::{self, Simulator};
//!
//! let clock = Arc::new(SystemClock::start());
//! let simulator = Simulator::start(&sim::load("quiet")?, clock.clone())?;
//! // Two connections: one for everything, one to ask beside a call that hangs.
//! let [main, control] = [(); 2].map(|()| Arc::new(simulator.client(Duration::from_secs(60), clock.clone())));
//! let mut inputs = Inputs::new(main, control, clock);
//! inputs.endpoint = "sim:quiet".into();
//! // The simulator is no process of this machine.
//! inputs.proc = None;
//! let report = diagnosis::run(&inputs, &|probe| println!("{probe}")).await;
//! assert!(report.probes.iter().any(|probe| probe.name == "ListContainers"));
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```

mod advice;
mod budget;
pub(crate) mod commands;
mod culprits;
mod disks;
pub(crate) mod estimate;
pub(crate) mod evidence;
mod gather;
pub(crate) mod hunt;
pub(crate) mod join;
mod judge;
pub(crate) mod kubelet;
pub(crate) mod limits;
mod listening;
pub(crate) mod names;
mod offload;
pub(crate) mod paper;
mod papers;
mod played;
mod probes;
pub mod report;
pub(crate) mod rules;
pub(crate) mod silence;
pub(crate) mod stacks;
pub(crate) mod standing;
mod summary;
pub(crate) mod words;

#[cfg(test)]
pub(crate) mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use crate::host::proc;
pub use crate::host::proc::{Places, ProcSample, sample};
pub use budget::Stop;
pub use evidence::Evidence;
pub use gather::gather;
pub use judge::judge;
pub use kubelet::{KubeletInputs, MetricsSource, Way};
pub use listening::{OwnTime, Slowed};
pub use names::{Kind, OutsideId};
pub use played::{Played, PlayedPod};
pub use probes::{CallEnd, GivenUp, KnownHang};
pub use report::HealthReport;

use crate::clock::{Clock, Mono};
use crate::cri::Runtime;
use crate::host;
use limits::Deadlines;

/// Told the name of each probe as it begins.
pub type Progress<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// How thorough and how quick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// For a person.
    #[default]
    Normal,
    /// Second samples everywhere.
    Deep,
    /// For node-problem-detector.
    Npd,
}

/// What is kept beside what the rules need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Nothing.
    #[default]
    Nothing,
    /// The node's own words, for a bundle.
    Papers,
}

/// What becomes of calls that are silent when a run is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Silent {
    /// They are given up.
    #[default]
    LetGo,
    /// They go on until they are answered or their own deadline ends them.
    WaitedFor,
}

/// Everything that a run needs.
pub struct Inputs<R> {
    /// The connection for everything. Its own deadline should be longer than ours.
    pub runtime: Arc<R>,
    /// Another connection, for Version beside a call that hangs.
    pub control: Arc<R>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The endpoint as the user knows it.
    pub endpoint: String,
    /// The runtime's socket as its daemon calls it; `None` for a simulator.
    pub socket: Option<PathBuf>,
    /// The same socket as this process finds it.
    pub socket_here: Option<PathBuf>,
    /// The node's name.
    pub node: String,
    /// Where the node's file system is.
    pub host_root: PathBuf,
    /// Where the node's process file system is; `None` leaves it out.
    pub proc: Option<PathBuf>,
    /// What is played instead of it.
    pub played: Option<Played>,
    /// Whether the user named [`Self::proc`], so that a wrong one is worth more than a note.
    pub proc_is_explicit: bool,
    /// Where the node's cgroup file system is.
    pub cgroup: PathBuf,
    /// The time that the whole run may take.
    pub budget: Duration,
    /// Since when it runs.
    pub began: Mono,
    /// How long a pending call is waited for.
    pub patience: Duration,
    /// By how much the limits of silence are shorter than the contract's: 1 except in tests.
    pub(crate) silence_divisor: u32,
    /// How thorough and how quick.
    pub mode: Mode,
    /// Ask `ContainerStats` of every running container.
    pub probe_shims: bool,
    /// What is known of the kubelet beforehand.
    pub kubelet: KubeletInputs,
    /// Whether `journalctl` and `systemctl` may be run.
    pub commands: bool,
    /// Where a goroutine dump may come from when something is silent.
    pub stacks: stacks::Wanted,
    /// Calls that somebody else waits for right now and that are not to be made again.
    pub known: Vec<KnownHang>,
    /// Calls that somebody else gave up a moment ago and that are not to be made again.
    pub given_up: Vec<GivenUp>,
    /// Ids that are known beforehand, instead of those that the node's files have.
    pub outside: Option<Vec<OutsideId>>,
    /// The moment of the capture that is judged, if it is one: every answer is there at once, with the time that it took
    /// then, and what had not been answered by then never is.
    pub recorded: Option<report::JudgedMoment>,
    /// What becomes of calls that are silent when the run is over.
    pub silent: Silent,
    /// What is wanted beside what the rules need.
    pub keep: Keep,
    /// Ends the run early, with what is known by then.
    pub stop: Option<Stop>,
    /// How this program knows that it is itself what is slow.
    pub own_time: OwnTime,
    /// And how slow others make it.
    pub slowed: Slowed,
}

impl<R> Inputs<R> {
    /// A run with the defaults of `plegctl health`: 30 seconds, this machine's `/proc`, no kubelet asked.
    pub fn new(runtime: Arc<R>, control: Arc<R>, clock: Arc<dyn Clock>) -> Self {
        let began = clock.mono();
        let silence_divisor = crate::test_settings::silence_divisor();
        Self {
            runtime,
            control,
            clock,
            endpoint: String::new(),
            socket: None,
            socket_here: None,
            node: String::new(),
            host_root: PathBuf::from("/"),
            proc: Some(host::proc()),
            played: None,
            proc_is_explicit: false,
            cgroup: PathBuf::from("/sys/fs/cgroup"),
            budget: Duration::from_secs(30),
            began,
            patience: limits::PATIENCE / silence_divisor,
            silence_divisor,
            mode: Mode::Normal,
            probe_shims: false,
            kubelet: KubeletInputs::default(),
            commands: false,
            stacks: stacks::Wanted::Never,
            known: Vec::new(),
            given_up: Vec::new(),
            outside: None,
            recorded: None,
            silent: Silent::LetGo,
            keep: Keep::Nothing,
            stop: None,
            own_time: host::time_on_processors,
            slowed: host::slowed,
        }
    }

    fn is_recorded(&self) -> bool {
        self.recorded.is_some()
    }

    fn keeps_papers(&self) -> bool {
        self.keep == Keep::Papers
    }

    fn deadlines(&self) -> Deadlines {
        Deadlines::within(self.budget)
    }

    fn silence(&self) -> silence::Scale {
        silence::Scale::within(self.patience.min(self.budget), self.silence_divisor)
    }

    /// How long a call without an answer is waited for.
    fn enough(&self) -> Duration {
        self.patience.min(self.silence().certain)
    }
}

/// Probes, judges and reports.
pub async fn run<R: Runtime + 'static>(inputs: &Inputs<R>, progress: Progress<'_>) -> HealthReport {
    // On the heap: a run holds the state of every probe.
    judge(&Box::pin(gather(inputs, progress)).await)
}
