//! `health`: finds out what blocks PLEG, and how certain that is.
//!
//! A run has two steps. [`gather()`] calls the runtime and the kubelet and reads files of the node, and returns the
//! evidence. [`judge()`] applies the rules to the evidence and returns the report; it makes no calls. Each call has a
//! deadline, and a call that hangs is not repeated. Nothing here changes the node: the calls are the read-only ones of
//! [`crate::cri::Rpc`].
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use plegctl_engine::clock::SystemClock;
//! use plegctl_engine::diagnosis::{self, Inputs};
//! use plegctl_engine::sim::{self, Simulator};
//!
//! let clock = Arc::new(SystemClock::start());
//! let simulator = Simulator::start(&sim::load("quiet")?, clock.clone())?;
//! // Two connections: the second one calls Version while another call hangs.
//! let [main, control] = [(); 2].map(|()| Arc::new(simulator.client(Duration::from_secs(60), clock.clone())));
//! let mut inputs = Inputs::new(main, control, clock);
//! inputs.endpoint = "sim:quiet".into();
//! // The simulator has no processes on this machine.
//! inputs.proc = None;
//! let report = diagnosis::run(&inputs, &|probe| println!("{probe}")).await;
//! assert!(report.probes.iter().any(|probe| probe.name == "ListContainers"));
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```

mod advice;
mod budget;
pub mod commands;
mod daemon_watch;
pub mod disks;
pub mod evidence;
pub mod facts;
pub mod failing_pods;
pub mod forecast;
mod gather;
pub mod health_state;
pub mod id_search;
pub mod input_file;
pub mod journal;
mod journal_line;
mod judge;
pub mod kernel_waits;
pub mod kubelet;
pub mod left_over_shims;
pub mod limits;
mod listening_clock;
pub mod living_exits;
pub mod names;
mod node_facts;
mod node_files;
mod offload;
mod open_calls;
pub mod outside;
pub mod overdue_processes;
pub mod pod_holders;
mod probes;
mod processes;
mod recorded_processes;
pub mod report;
pub mod rules;
mod run_facts;
pub mod runtime_start;
pub mod shim_sizes;
pub mod silence;
mod simulated_processes;
pub mod stacks;
pub mod words;

#[cfg(test)]
pub mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use crate::host::proc;
pub use crate::host::proc::{ProcPaths, ProcSample, StatTable, sample};
pub use budget::StopSignal;
pub use evidence::Evidence;
pub use gather::gather;
pub use judge::{Relists, VerdictFacts, Weight, calls, limit_severity, not_ready, verdict};
pub use judge::{judge, judge_earlier, step_of_a_capture};
pub use kubelet::{KubeletInputs, LazyKubeletApi, MetricsSource, PodsSource};
pub use listening_clock::{CpuTimeSource, SlowdownSource};
pub use names::{ItemKind, OutsideId};
pub use node_facts::NodeFacts;
pub use open_calls::OpenCalls;
pub use probes::{CallEnd, CallersAbandonedCall, CallersPendingCall};
pub use processes::OWN_NAME;
pub use recorded_processes::RecordedProcesses;
pub use report::HealthReport;
pub use rules::known_wait;
pub use run_facts::RunFacts;
pub use simulated_processes::{HungUmount, SimulatedPod, SimulatedProcesses};

use crate::clock::{Clock, Mono};
use crate::cri::Runtime;
use crate::host;
use crate::kubelet::{KubeletVersion, ListCalls, ListGates};
use budget::RunBudget;
use limits::Deadlines;

/// Receives the name of each probe as it begins.
pub type OnProbe<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// How thoroughly a run measures. A sample is one reading of the lists, of the node's processes or of the kubelet's
/// metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HealthMode {
    /// Takes a second sample only if the first one looks suspicious.
    #[default]
    Normal,
    /// Always takes a second sample.
    Deep,
}

/// What the evidence keeps in addition to what the rules need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Nothing.
    #[default]
    Nothing,
    /// Files of the node, for a bundle.
    InputFiles,
}

/// What happens to pending calls at the end of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtEnd {
    /// They are cancelled.
    #[default]
    CancelPending,
    /// They continue until they are answered or their own deadline ends them.
    LeavePending,
}

/// The inputs of one run.
pub struct Inputs<R> {
    /// The main connection to the runtime. Its own deadline should be longer than the run.
    pub runtime: Arc<R>,
    /// A second connection, for Version while another call hangs.
    pub control: Arc<R>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The endpoint as the user gave it.
    pub endpoint: String,
    /// The path of the runtime's socket for the processes of the node; `None` for a simulator and a capture.
    pub socket: Option<PathBuf>,
    /// The path of the same socket for plegctl, which may run in a pod.
    pub socket_here: Option<PathBuf>,
    /// The node's name.
    pub node: String,
    /// The root of the node's file system.
    pub host_root: PathBuf,
    /// The node's `/proc`; `None` leaves processes out.
    pub proc: Option<PathBuf>,
    /// The `stat` of all processes in [`Self::proc`], if the caller has just read them. The run does not read them again.
    pub known_processes: Option<Arc<StatTable>>,
    /// The processes of a simulated node, used instead of `/proc`.
    pub simulated_processes: Option<SimulatedProcesses>,
    /// The journal of a simulated node, if it has one.
    pub simulated_journal: Option<String>,
    /// The processes of a recorded node, used instead of `/proc`.
    pub recorded_processes: Option<RecordedProcesses>,
    /// Whether the user named [`Self::proc`]; then a wrong path is an error instead of a note.
    pub proc_is_explicit: bool,
    /// The node's cgroup file system.
    pub cgroup: PathBuf,
    /// The time limit for the whole run.
    pub budget: Duration,
    /// When the run began.
    pub began: Mono,
    /// The longest time that the user lets the run wait for a pending call.
    pub patience: Duration,
    /// The run divides by this number all times after which a call without an answer counts as hung. It is 1; tests set
    /// a larger number to wait for a shorter time.
    pub silence_divisor: u32,
    /// How thoroughly the run measures.
    pub mode: HealthMode,
    /// Whether to call `ContainerStats` for every running container.
    pub probe_shims: bool,
    /// The user's flags about the kubelet.
    pub kubelet: KubeletInputs,
    /// The list calls to make; `None` for those of the kubelet.
    pub wanted_lists: Option<ListCalls>,
    /// The settings of the gate of streamed lists, as the kubelet's command line and files have them.
    pub list_gates: ListGates,
    /// The kubelet's release, if its program shows it.
    pub program_release: Option<KubeletVersion>,
    /// Whether `journalctl` and `systemctl` may be run.
    pub commands: bool,
    /// Which goroutine dump of the runtime the run uses if a call is silent.
    pub stacks: stacks::WantedDump,
    /// Calls to the runtime that plegctl made before this run and that are still pending. The run does not repeat them.
    pub callers_pending: Vec<CallersPendingCall>,
    /// Calls to the runtime that plegctl made before this run and gave up without an answer. The run does not repeat
    /// them.
    pub callers_abandoned: Vec<CallersAbandonedCall>,
    /// Known ids of sandboxes and containers. If `None`, the run may search the node's files and processes for ids.
    pub outside: Option<Vec<OutsideId>>,
    /// The moment that the run judges, if the endpoint is a capture. The run does not wait for recorded answers; it
    /// takes the duration of each call from the capture. A call that had no answer at that moment stays silent.
    pub recorded: Option<report::JudgedMoment>,
    /// The facts of the node that a recorder measured at this moment. The run judges them instead of reading a node.
    pub recorded_facts: Option<Box<NodeFacts>>,
    /// The limits that will be reached, by a recorder of this node.
    pub forecasts: Vec<forecast::LimitForecast>,
    /// The first line of the recorder's diagnosis, if the moment is part of an incident that was more than healthy. Without
    /// the facts of that diagnosis, a run that finds nothing does not know the verdict.
    pub recorded_diagnosis: Option<String>,
    /// What happens to pending calls at the end of the run.
    pub at_end: AtEnd,
    /// What the evidence keeps in addition to what the rules need.
    pub keep: Keep,
    /// Ends the run early; the report then contains what is known so far.
    pub stop: Option<StopSignal>,
    /// The calls of the run, for a caller that shows them while the run waits.
    pub calls: Arc<OpenCalls>,
    /// Returns the CPU time that this program has used.
    pub cpu_time: CpuTimeSource,
    /// Returns how much CPU contention slows this program down.
    pub slowdown: SlowdownSource,
}

impl<R> Inputs<R> {
    /// Creates inputs with the defaults of `plegctl health`: 30 seconds, this machine's `/proc`, no requests
    /// to the kubelet.
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
            known_processes: None,
            simulated_processes: None,
            simulated_journal: None,
            recorded_processes: None,
            proc_is_explicit: false,
            cgroup: PathBuf::from("/sys/fs/cgroup"),
            budget: Duration::from_secs(30),
            began,
            patience: limits::PATIENCE / silence_divisor,
            silence_divisor,
            mode: HealthMode::Normal,
            probe_shims: false,
            kubelet: KubeletInputs::default(),
            wanted_lists: None,
            list_gates: ListGates::default(),
            program_release: None,
            commands: false,
            stacks: stacks::WantedDump::Never,
            callers_pending: Vec::new(),
            callers_abandoned: Vec::new(),
            outside: None,
            recorded: None,
            recorded_facts: None,
            forecasts: Vec::new(),
            recorded_diagnosis: None,
            at_end: AtEnd::CancelPending,
            keep: Keep::Nothing,
            stop: None,
            calls: Arc::default(),
            cpu_time: host::time_on_processors,
            slowdown: host::slowed,
        }
    }

    fn is_recorded(&self) -> bool {
        self.recorded.is_some()
    }

    fn keeps_input_files(&self) -> bool {
        self.keep == Keep::InputFiles
    }

    fn deadlines(&self) -> Deadlines {
        Deadlines::within(self.budget)
    }

    fn silence(&self) -> silence::SilenceLimits {
        silence::SilenceLimits::within(self.patience.min(self.budget), self.silence_divisor)
    }

    /// Returns how long the run waits for one silent call: until `patience` ends or the hang is certain. After that,
    /// more silence does not change the report.
    fn max_silence(&self) -> Duration {
        self.patience.min(self.silence().certain)
    }
}

/// The values that all steps of one run use.
struct HealthRun<'a, R> {
    inputs: &'a Inputs<R>,
    budget: &'a RunBudget,
    progress: OnProbe<'a>,
}

impl<R> Clone for HealthRun<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for HealthRun<'_, R> {}

/// Gathers the evidence and judges it.
pub async fn run<R: Runtime + 'static>(inputs: &Inputs<R>, progress: OnProbe<'_>) -> HealthReport {
    // Boxed, because a run holds the state of every probe.
    judge(&Box::pin(gather(inputs, progress)).await)
}
