//! Runs `journalctl` and `systemctl is-system-running`, each with a time limit; either may be missing. No
//! other module runs programs.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::geteuid;

use super::evidence::{Evidence, suspicion};
use super::input_file::InputFile;
use super::report::NotChecked;
use super::{HealthMode, HealthRun, Inputs, offload, probes};
use crate::children::ProcessGroup;
use crate::cri::{CgroupDriver, Rpc, Runtime};
use crate::host::{HostRoot, open_to_others};
use crate::kubelet::go_duration;

/// The number of bytes that are read of a program's output.
const MAX_OUTPUT: u64 = 8 * 1024 * 1024;
/// The number of journal lines that are read.
const MAX_LINES: &str = "4000";
/// The start of the journal section that is read, as `journalctl --since` takes it.
const SINCE: &str = "-15min";

/// The units whose journal messages matter.
const UNITS: [&str; 8] = [
    "_SYSTEMD_UNIT=kubelet.service",
    "_SYSTEMD_UNIT=containerd.service",
    "_SYSTEMD_UNIT=crio.service",
    "_SYSTEMD_UNIT=k3s.service",
    "_SYSTEMD_UNIT=rke2-server.service",
    "_SYSTEMD_UNIT=rke2-agent.service",
    "_SYSTEMD_UNIT=snap.microk8s.daemon-kubelite.service",
    "_SYSTEMD_UNIT=node-problem-detector.service",
];

/// Why a program gave no output.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The program is not installed, or must not be run.
    #[error("{program} is not here: {detail}")]
    Absent {
        /// The program's name.
        program: &'static str,
        /// The operating system's message.
        detail: String,
    },
    /// The program exists and could not be started.
    #[error("{program} could not be started: {detail}")]
    NotStarted {
        /// The program's name.
        program: &'static str,
        /// The operating system's message.
        detail: String,
    },
    /// The program did not end in time and was killed.
    #[error("{program} did not end within {}", humantime::format_duration(*.waited))]
    Silent {
        /// The program's name.
        program: &'static str,
        /// The time limit.
        waited: Duration,
    },
}

/// The result of `systemctl is-system-running`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SystemState {
    /// systemd answered with this word: `running`, `degraded`, …
    Says(String),
    /// systemd did not answer for this long.
    Silent(Duration),
}

/// Runs `systemctl is-system-running`, to see whether systemd answers.
async fn system_state(limit: Duration) -> Result<SystemState, Error> {
    match run("systemctl", &["is-system-running"], limit).await {
        Ok(text) => {
            let word = text.trim().to_owned();
            if matches!(word.as_str(), "" | "offline" | "unknown") {
                return Err(Error::Absent {
                    program: "systemctl",
                    detail: "this node is not run by systemd".into(),
                });
            }
            Ok(SystemState::Says(word))
        }
        Err(Error::Silent { waited, .. }) => Ok(SystemState::Silent(waited)),
        Err(absent) => Err(absent),
    }
}

/// The journal and the answer of systemd.
#[derive(Default)]
pub(super) struct SystemAnswers {
    pub(super) journal: Option<Journal>,
    pub(super) systemd: Option<SystemState>,
    /// The runtime's cgroup driver, for a kubelet that does not report its own.
    pub(super) cgroup_driver: Option<String>,
    /// The journal, if a bundle is written.
    pub(super) input_file: Option<InputFile>,
    pub(super) not_checked: Vec<NotChecked>,
}

impl SystemAnswers {
    fn skip(&mut self, what: &str, why: impl Into<String>) {
        self.not_checked.push(NotChecked { what: what.to_owned(), why: why.into() });
    }

    fn without_journal(why: &str) -> Self {
        let mut answers = Self::default();
        answers.skip("the journal", why);
        answers
    }
}

/// Reads the journal and calls systemd, if there is a reason to run other programs.
pub(super) async fn ask_system<R: Runtime + 'static>(
    run: HealthRun<'_, R>,
    evidence: &Evidence,
) -> SystemAnswers {
    let inputs = run.inputs;
    if !inputs.commands {
        return SystemAnswers::without_journal("left out");
    }
    let suspicious =
        inputs.mode == HealthMode::Deep || suspicion::of_calls(evidence) || suspicion::of_node(evidence);
    if !suspicious && !inputs.keeps_input_files() && evidence.kubelet.pid.is_none() {
        return SystemAnswers::without_journal(
            "everything is answered and no kubelet runs here; use --deep to read it",
        );
    }
    let Some(limit) = run.budget.allow(inputs.deadlines().command) else {
        return SystemAnswers::without_journal("no budget left");
    };
    (run.progress)("the journal");
    let (text, systemd) = tokio::join!(journal(&inputs.host_root, limit), async {
        if suspicious && inputs.host_root == Path::new("/") { Some(system_state(limit).await) } else { None }
    });
    let mut answers = SystemAnswers::default();
    if suspicious && evidence.kubelet.config.cgroup_driver.is_none() && evidence.runtime.is_reached() {
        answers.cgroup_driver = cgroup_driver(inputs, limit).await;
    }
    match text.map(|text| (Journal::of(&text), text)) {
        Ok((journal, text)) if journal.lines > 0 => {
            answers.journal = Some(journal);
            let file = || InputFile::new("journal.txt", "kubelet, runtime and kernel", text);
            answers.input_file = inputs.keeps_input_files().then(file);
        }
        Ok(_) => answers.skip("the journal", "it has no readable line of the last 15 minutes"),
        Err(why) => answers.skip("the journal", why.to_string()),
    }
    match systemd {
        Some(Ok(state)) => answers.systemd = Some(state),
        Some(Err(why)) => answers.skip("systemd", why.to_string()),
        None => {}
    }
    answers
}

/// Returns the runtime's cgroup driver. Runtimes before 2023 do not implement this call.
async fn cgroup_driver<R: Runtime + 'static>(inputs: &Inputs<R>, limit: Duration) -> Option<String> {
    let call = probes::bounded(Rpc::RuntimeConfig, limit, inputs.control.cgroup_driver()).await;
    let word = match call.result.ok()?? {
        CgroupDriver::Systemd => "systemd",
        CgroupDriver::Cgroupfs => "cgroupfs",
    };
    Some(word.to_owned())
}

/// Reads the last minutes of the journal of the kubelet, the runtime and the kernel.
async fn journal(host_root: &Path, limit: Duration) -> Result<String, Error> {
    let host_root = host_root.to_path_buf();
    run_by("journalctl", limit, move || {
        // A journal that is not kept across reboots is under /run.
        let kept = host_root.join("var/log/journal");
        let dir = if kept.symlink_metadata().is_ok() { kept } else { host_root.join("run/log/journal") };
        let dir = dir.to_string_lossy();
        let mut args =
            vec!["--no-pager", "--quiet", "--output=short-unix", "--since", SINCE, "--lines", MAX_LINES];
        if host_root != Path::new("/") {
            args.extend(["--directory", &dir]);
        }
        // journalctl treats matches of one field as alternatives; `+` begins another set of matches.
        args.extend(UNITS);
        args.extend(["+", "_TRANSPORT=kernel"]);
        start("journalctl", &args)
    })
    .await
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that the ban on other programs names as its exception"
)]
fn start(program: &'static str, args: &[impl AsRef<OsStr>]) -> Result<Started, Error> {
    let mut command = Command::new(place_of(program, geteuid().is_root())?);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    ProcessGroup::start(&mut command).map_err(|why| match (why.kind(), why.to_string()) {
        (io::ErrorKind::NotFound, detail) => Error::Absent { program, detail },
        (_, detail) => Error::NotStarted { program, detail },
    })
}

/// A running program and its standard output.
type Started = (ProcessGroup, Option<ChildStdout>);

/// The directories in which systems keep programs that only root may replace.
const PROGRAM_FOLDERS: [&str; 3] = ["/usr/bin", "/bin", "/run/current-system/sw/bin"];

/// Returns the path to run for `program`. Root runs only programs from system directories: root's `$PATH` may
/// name a directory that other users may write to.
fn place_of(program: &'static str, we_are_root: bool) -> Result<PathBuf, Error> {
    if !we_are_root {
        return Ok(PathBuf::from(program));
    }
    let own = HostRoot::resolve(Some(Path::new("/")));
    let mut places = PROGRAM_FOLDERS.into_iter().map(|folder| Path::new(folder).join(program));
    places.find(|place| place.is_file() && open_to_others(&own, place).is_none()).ok_or_else(|| {
        let detail = format!("it is not in {}; for root $PATH does not count", PROGRAM_FOLDERS.join(", "));
        Error::Absent { program, detail }
    })
}

async fn run(program: &'static str, args: &[&str], limit: Duration) -> Result<String, Error> {
    let args: Vec<String> = args.iter().map(|&word| word.to_owned()).collect();
    run_by(program, limit, move || start(program, &args)).await
}

/// A program that a thread starts and reads; `group` is `None` until the program runs.
#[derive(Default)]
struct RunningProgram {
    group: Option<Arc<ProcessGroup>>,
    is_unwanted: bool,
}

impl RunningProgram {
    /// Stores the running program, and kills it at once if its caller is gone.
    fn begin(&mut self, group: Arc<ProcessGroup>) {
        if self.is_unwanted {
            group.end();
        }
        self.group = Some(group);
    }
}

/// Kills the program on drop: its time is over, or its caller is gone.
struct EndOnDrop(Arc<Mutex<RunningProgram>>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.is_unwanted = true;
        if let Some(group) = &running.group {
            group.end();
        }
    }
}

/// Returns what a program prints. `start` may block on a disk that does not answer, so it runs in the thread
/// that reads the output, never on the event loop.
async fn run_by(
    program: &'static str,
    limit: Duration,
    start: impl FnOnce() -> Result<Started, Error> + Send + 'static,
) -> Result<String, Error> {
    let running = EndOnDrop(Arc::default());
    let shared = Arc::clone(&running.0);
    let text = offload::value(limit, move || {
        let (group, stdout) = start()?;
        let group = Arc::new(group);
        shared.lock().unwrap_or_else(PoisonError::into_inner).begin(Arc::clone(&group));
        let mut text = Vec::new();
        // The output up to a read error is still useful.
        let _ = stdout.map(|stdout| stdout.take(MAX_OUTPUT).read_to_end(&mut text));
        group.end();
        // The program was killed a moment ago, so its exit status means nothing.
        let _ = group.wait();
        Ok(String::from_utf8_lossy(&text).into_owned())
    })
    .await;
    text.unwrap_or(Err(Error::Silent { program, waited: limit }))
}

/// The counts and lines of interest in the journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Journal {
    /// The number of lines.
    pub lines: usize,
    /// The ages in "PLEG is not healthy" messages, in seconds, oldest message first.
    pub pleg_ages: Vec<f64>,
    /// The number of messages that say that PLEG has never relisted: "pleg has yet to be successful", or an
    /// age since year one.
    pub never_relisted: usize,
    /// The last message about a list that was refused for its size.
    pub too_large: Option<String>,
    /// The last message "name … is reserved".
    pub name_reserved: Option<String>,
    /// The number of `ExecSync` calls that timed out.
    pub exec_timeouts: usize,
    /// The seconds from the first to the last line.
    pub span_seconds: f64,
    /// Kernel messages about tasks that were blocked for more than 120 seconds.
    pub blocked_tasks: Vec<String>,
    /// The last kernel message about a file server that does not respond.
    pub server_silent: Option<String>,
    /// The last kernel message about memory that ran out.
    pub out_of_memory: Option<String>,
    /// The last message about processes, threads or descriptors that ran out.
    pub exhausted: Option<String>,
    /// The number of time-outs of D-Bus or systemd.
    pub bus_timeouts: usize,
    /// The number of failed network set-ups or tear-downs.
    pub network_failures: usize,
    /// Whether the runtime started to recover its state and did not report the end of the recovery.
    pub recovering: bool,
    /// The number of starts of the runtime.
    pub runtime_starts: usize,
    /// The last message of a watchdog that restarts the kubelet.
    pub watchdog: Option<String>,
}

impl Journal {
    /// Parses the output of `journalctl --output=short-unix`.
    pub fn of(text: &str) -> Self {
        let mut found = Self::default();
        let mut first = None;
        let mut last = None;
        for line in text.lines() {
            let stamp = line.split(' ').next().and_then(|word| word.parse::<f64>().ok());
            first = first.or(stamp);
            last = stamp.or(last);
            found.lines += 1;
            found.take(line);
        }
        if let (Some(first), Some(last)) = (first, last) {
            found.span_seconds = (last - first).max(0.0);
        }
        found
    }

    fn take(&mut self, line: &str) {
        let has = |part: &str| line.contains(part);
        let kept = || line.chars().take(300).collect::<String>();
        if has("PLEG is not healthy") {
            if let Some(age) = pleg_age(line) {
                self.pleg_ages.push(age);
            }
            self.never_relisted +=
                usize::from(has("yet to be successful") || has("2562047h47m16.854775807s"));
        }
        if has("ResourceExhausted") && has("larger than max") {
            self.too_large = Some(kept());
        }
        if has("is reserved for") {
            self.name_reserved = Some(kept());
        }
        self.exec_timeouts += usize::from(has("ExecSync") && has("DeadlineExceeded"));
        if has("blocked for more than") && has("kernel") {
            self.blocked_tasks.push(kept());
        }
        if has("not responding") && has("server ") && has("kernel") {
            self.server_silent = Some(kept());
        }
        if has("Out of memory") || has("oom-kill:") {
            self.out_of_memory = Some(kept());
        }
        if has("pthread_create failed")
            || has("too many open files")
            || has("resource temporarily unavailable")
        {
            self.exhausted = Some(kept());
        }
        self.bus_timeouts += usize::from(
            has("Failed to propagate agent release message") || (has("dbus") && has("Connection timed out")),
        );
        self.network_failures +=
            usize::from(has("failed to setup network") || has("failed to destroy network"));
        if has("Start recovering state") {
            self.recovering = true;
        }
        if has("containerd successfully booted") || has("Start event monitor") {
            self.recovering = false;
        }
        self.runtime_starts += usize::from(has("starting containerd") || has("Starting CRI-O"));
        if has("node-problem-detector") && has("restart") && has("kubelet") {
            self.watchdog = Some(kept());
        }
    }
}

/// Parses the age in "pleg was last seen active 3m5.5s ago".
fn pleg_age(line: &str) -> Option<f64> {
    let (_, rest) = line.split_once("last seen active ")?;
    let age = go_duration(rest.split(' ').next()?)?;
    Some(age.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_in_pleg_messages_are_collected_in_order() {
        let line = |at: u32, age: &str| {
            format!(
                "17000000{at:02}.0 n kubelet[1]: \"Skipping pod synchronization\" err=\"PLEG is not healthy: pleg was \
                 last seen active {age} ago; threshold is 3m0s\""
            )
        };
        let journal = Journal::of(&[line(1, "3m1.5s"), line(11, "3m11.5s")].join("\n"));
        assert_eq!(journal.pleg_ages, [181.5, 191.5]);
        assert!((journal.span_seconds - 10.0).abs() < 1e-6);
    }

    #[test]
    fn finished_recovery_does_not_count() {
        let begun = "1.0 n containerd[1]: msg=\"Start recovering state\"";
        assert!(Journal::of(begun).recovering);
        let ended = format!("{begun}\n2.0 n containerd[1]: msg=\"containerd successfully booted in 0.1s\"");
        assert!(!Journal::of(&ended).recovering);
    }

    #[test]
    fn root_runs_a_program_by_its_absolute_path_or_not_at_all() {
        let programs = ["sh", "plegctl-test-no-such-program"];
        let [known, unknown] = programs.map(|program| place_of(program, true));
        assert!(known.unwrap().is_absolute());
        let why = unknown.unwrap_err().to_string();
        assert!(why.contains("it is not in /usr/bin, /bin") && why.contains("$PATH does not count"), "{why}");
        assert_eq!(place_of("sh", false).unwrap(), Path::new("sh"), "a plain user's own affair");
    }

    #[tokio::test]
    async fn child_of_a_program_that_is_given_up_ends_too() {
        let fifo = std::env::temp_dir().join(format!("plegctl-commands-{}", std::process::id()));
        #[expect(clippy::disallowed_methods, reason = "there is no safe call for it here")]
        let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        // Opening the FIFO waits for the child; reading to its end waits until nobody holds the FIFO open.
        let place = fifo.clone();
        let begun = tokio::task::spawn_blocking(move || std::fs::File::open(place).unwrap());
        let script = format!("sleep 600 9>'{}' & wait", fifo.display());
        let arguments = ["-c", &script];
        let mut held = tokio::select! {
            ended = run("sh", &arguments, Duration::from_secs(60)) => panic!("{ended:?}"),
            begun = begun => begun.unwrap(),
        };
        let mut nothing = Vec::new();
        tokio::task::spawn_blocking(move || held.read_to_end(&mut nothing).unwrap()).await.unwrap();
        std::fs::remove_file(fifo).unwrap();
    }

    #[tokio::test]
    async fn absent_program_is_an_error() {
        let answer = run("plegctl-test-no-such-program", &[], Duration::from_secs(5)).await;
        assert!(matches!(answer, Err(Error::Absent { .. })));
    }

    #[tokio::test]
    async fn starting_a_program_does_not_block_the_event_loop() {
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        let start = move || {
            // Simulates an exec from a disk that does not answer: only the other task on this event loop
            // releases it.
            let _ = blocked.recv();
            Err(Error::Absent { program: "journalctl", detail: "not there".to_owned() })
        };
        let (answer, ()) =
            tokio::join!(run_by("journalctl", Duration::from_secs(600), start), async { drop(release) });
        assert!(matches!(answer, Err(Error::Absent { .. })), "{answer:?}");
    }

    #[tokio::test]
    async fn program_that_does_not_start_in_time_is_silent() {
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        let start = move || {
            let _ = blocked.recv();
            Err(Error::Absent { program: "journalctl", detail: "not there".to_owned() })
        };
        let answer = run_by("journalctl", Duration::from_millis(1), start).await;
        drop(release);
        assert!(matches!(answer, Err(Error::Silent { .. })), "{answer:?}");
    }
}
