//! Runs `journalctl` and `systemctl is-system-running`, each with a time limit. A missing program is reported as not
//! checked. No other module of `diagnosis` runs programs.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::process::geteuid;

use super::evidence::{Evidence, suspicion};
use super::input_file::InputFile;
use super::journal::{Journal, SystemState};
use super::report::NotChecked;
use super::{HealthMode, HealthRun, Inputs, offload, probes};
use crate::children::ProcessGroup;
use crate::cri::{Rpc, Runtime};
use crate::host::shell_words;
use crate::host::{HostRoot, open_to_others};

/// The most bytes that are read of a program's output.
const MAX_OUTPUT: u64 = 8 * 1024 * 1024;
/// The most journal lines that are read.
const MAX_LINES: &str = "4000";
/// The start of the part of the journal that is read, for `journalctl --since`.
const SINCE: &str = "-15min";

/// The units in which a kubelet runs.
const KUBELET_UNITS: [&str; 5] = [
    "_SYSTEMD_UNIT=kubelet.service",
    "_SYSTEMD_UNIT=k3s.service",
    "_SYSTEMD_UNIT=rke2-server.service",
    "_SYSTEMD_UNIT=rke2-agent.service",
    "_SYSTEMD_UNIT=snap.microk8s.daemon-kubelite.service",
];

/// The other units whose journal messages matter.
const OTHER_UNITS: [&str; 3] = [
    "_SYSTEMD_UNIT=containerd.service",
    "_SYSTEMD_UNIT=crio.service",
    "_SYSTEMD_UNIT=node-problem-detector.service",
];

/// The messages of systemd that it starts a runtime again which has ended by itself (`SD_MESSAGE_UNIT_RESTART_SCHEDULED`).
const RESTARTS: [&str; 3] =
    ["MESSAGE_ID=5eb03494b6584870a536b337290809b3", "UNIT=containerd.service", "UNIT=crio.service"];

/// What systemd itself says of the kubelet's unit, such as that its process has ended. Only process 1 sets `_PID=1`.
const KUBELETS_UNIT: [&str; 3] = ["+", "_PID=1", "UNIT=kubelet.service"];

/// Why a program gave no output.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The program is not installed, or plegctl must not run it.
    #[error("{program} is not available: {detail}")]
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

/// Runs `systemctl is-system-running`, to see whether systemd answers.
async fn system_state(limit: Duration) -> Result<SystemState, Error> {
    match run("systemctl", &["is-system-running"], limit).await {
        Ok(text) => {
            let word = text.trim().to_owned();
            if matches!(word.as_str(), "" | "offline" | "unknown") {
                return Err(Error::Absent {
                    program: "systemctl",
                    detail: "systemd does not run on this node".into(),
                });
            }
            Ok(SystemState::Answered(word))
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
    fn skip(&mut self, what: &str, why: impl Display) {
        self.not_checked.push(NotChecked::new(what, why));
    }

    fn without_journal(why: &str) -> Self {
        let mut answers = Self::default();
        answers.skip("the journal", why);
        answers
    }
}

/// Reads the journal if something is suspicious, a bundle is written, or a kubelet runs or is missing here. Asks systemd
/// only if something is suspicious and the host root is `/`.
pub(super) async fn read_journal_and_systemd<R: Runtime + 'static>(
    run: HealthRun<'_, R>,
    evidence: &Evidence,
) -> SystemAnswers {
    let inputs = run.inputs;
    if let Some(text) = &inputs.simulated_journal {
        return SystemAnswers { journal: Some(Journal::of(text)), ..SystemAnswers::default() };
    }
    if !inputs.commands {
        return SystemAnswers::without_journal("left out");
    }
    let suspicious =
        inputs.mode == HealthMode::Deep || suspicion::of_calls(evidence) || suspicion::of_node(evidence);
    let is_missed = evidence.kubelet.pid.is_none() && evidence.kubelet.installed;
    if !suspicious && !inputs.keeps_input_files() && !is_missed && evidence.kubelet.pid.is_none() {
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
        Err(why) => answers.skip("the journal", why),
    }
    match systemd {
        Some(Ok(state)) => answers.systemd = Some(state),
        Some(Err(why)) => answers.skip("systemd", why),
        None => {}
    }
    answers
}

/// Returns the runtime's cgroup driver. Runtimes before 2023 do not implement this call.
async fn cgroup_driver<R: Runtime + 'static>(inputs: &Inputs<R>, limit: Duration) -> Option<String> {
    let call = probes::bounded(Rpc::RuntimeConfig, limit, inputs.control.cgroup_driver()).await;
    call.result.ok()?.map(|driver| driver.as_str().to_owned())
}

/// Reads the last minutes of the journal of the kubelet, the runtime and the kernel.
async fn journal(host_root: &Path, limit: Duration) -> Result<String, Error> {
    // journalctl treats matches of one field as alternatives; `+` begins another set of matches.
    let units = KUBELET_UNITS.into_iter().chain(OTHER_UNITS);
    let matches = units.chain(["+", "_TRANSPORT=kernel", "+"]).chain(RESTARTS).chain(KUBELETS_UNIT);
    // Without `--reverse`, journalctl of systemd 252 begins at `--since` and prints the oldest lines.
    let mut args = vec!["--output=short-unix", "--since", SINCE, "--reverse", "--lines", MAX_LINES];
    args.extend(matches);
    journalctl(host_root, limit, args).await.map(|newest_first| oldest_first(&newest_first))
}

/// Returns the messages of a journal in the other order. The further lines of a message are indented and stay behind its first.
fn oldest_first(newest_first: &str) -> String {
    let mut messages: Vec<&str> = Vec::new();
    let mut rest = newest_first;
    while !rest.is_empty() {
        let is_first = |at: &usize| !rest.get(*at..).is_some_and(|line| line.starts_with([' ', '\t', '\n']));
        let mut ends = rest.match_indices('\n').map(|(at, _)| at + 1);
        let end = ends.find(is_first).unwrap_or(rest.len());
        let (message, others) = rest.split_at(end);
        messages.push(message);
        rest = others;
    }
    messages.iter().rev().flat_map(|message| [message.trim_end_matches('\n'), "\n"]).collect()
}

/// Runs `journalctl` on the node's journal.
async fn journalctl(host_root: &Path, limit: Duration, args: Vec<&'static str>) -> Result<String, Error> {
    let host_root = host_root.to_path_buf();
    run_with("journalctl", limit, move || {
        // A journal that does not survive a reboot is in /run.
        let persistent = host_root.join("var/log/journal");
        let dir = if persistent.symlink_metadata().is_ok() {
            persistent
        } else {
            host_root.join("run/log/journal")
        };
        let dir = dir.to_string_lossy();
        let mut all = vec!["--no-pager", "--quiet"];
        if host_root != Path::new("/") {
            all.extend(["--directory", &dir]);
        }
        all.extend(args);
        start("journalctl", &all)
    })
    .await
}

/// Returns the command line of the kubelet that last wrote into the node's journal, the program first. The journal itself
/// notes program, user and arguments of each writer, so no other user's process can pretend to be the kubelet.
pub async fn last_kubelet_command(host_root: &Path, limit: Duration) -> Result<Option<Vec<String>>, Error> {
    let args = vec!["--output=json", "--output-fields=_CMDLINE", "--lines=20", "_COMM=kubelet", "_UID=0"];
    let text = journalctl(host_root, limit, args).await?;
    Ok(text.lines().rev().find_map(command_of_entry))
}

/// Returns the command line in an entry of the journal. The journal lacks it if the writer had ended already.
fn command_of_entry(entry: &str) -> Option<Vec<String>> {
    let entry: serde_json::Value = serde_json::from_str(entry).ok()?;
    let words = shell_words(entry.get("_CMDLINE")?.as_str()?);
    let is_kubelet = Path::new(words.first()?).file_name().is_some_and(|name| name == "kubelet");
    is_kubelet.then_some(words)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that the ban on other programs names as its exception"
)]
fn start(program: &'static str, args: &[impl AsRef<OsStr>]) -> Result<Started, Error> {
    let mut command = Command::new(path_of(program, geteuid().is_root())?);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    ProcessGroup::start(&mut command).map_err(|why| match (why.kind(), why.to_string()) {
        (io::ErrorKind::NotFound, detail) => Error::Absent { program, detail },
        (_, detail) => Error::NotStarted { program, detail },
    })
}

/// A running program and its standard output.
type Started = (ProcessGroup, Option<ChildStdout>);

/// The directories of programs that only root may replace.
const PROGRAM_FOLDERS: [&str; 3] = ["/usr/bin", "/bin", "/run/current-system/sw/bin"];

/// Returns the path by which plegctl runs `program`. As root, plegctl runs only programs from system directories, because
/// `$PATH` may have a directory to which other users may write.
fn path_of(program: &'static str, is_root: bool) -> Result<PathBuf, Error> {
    if !is_root {
        return Ok(PathBuf::from(program));
    }
    let own = HostRoot::resolve(Some(Path::new("/")));
    let mut paths = PROGRAM_FOLDERS.into_iter().map(|folder| Path::new(folder).join(program));
    paths.find(|path| path.is_file() && open_to_others(&own, path).is_none()).ok_or_else(|| {
        let detail = format!("it is not in {}; as root, plegctl ignores $PATH", PROGRAM_FOLDERS.join(", "));
        Error::Absent { program, detail }
    })
}

/// Runs a program and returns its output.
async fn run(program: &'static str, args: &[&str], limit: Duration) -> Result<String, Error> {
    let args: Vec<String> = args.iter().map(|&word| word.to_owned()).collect();
    run_with(program, limit, move || start(program, &args)).await
}

/// A program that a separate thread starts and whose output it reads.
#[derive(Default)]
struct RunningProgram {
    /// The program and its children, once they run.
    group: OnceLock<ProcessGroup>,
    /// Whether nobody waits for the output any more.
    is_abandoned: AtomicBool,
}

/// Kills the program when it is dropped: the time limit is over, or the caller gave up.
struct EndOnDrop(Arc<RunningProgram>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        // The thread looks at this after it has stored the program, so one of the two ends it.
        self.0.is_abandoned.store(true, Ordering::SeqCst);
        if let Some(group) = self.0.group.get() {
            group.end();
        }
    }
}

/// Runs a program with a function that starts it, and returns the output. `start` may block on a disk that does not answer,
/// so it runs in the thread that reads the output, never on the event loop.
async fn run_with(
    program: &'static str,
    limit: Duration,
    start: impl FnOnce() -> Result<Started, Error> + Send + 'static,
) -> Result<String, Error> {
    let running = EndOnDrop(Arc::default());
    let shared = Arc::clone(&running.0);
    let text = offload::value(limit, move || {
        let (group, stdout) = start()?;
        let group = shared.group.get_or_init(|| group);
        if shared.is_abandoned.load(Ordering::SeqCst) {
            group.end();
        }
        let mut text = Vec::new();
        // The output up to a read error is still useful.
        let _ = stdout.map(|stdout| stdout.take(MAX_OUTPUT).read_to_end(&mut text));
        group.end();
        // The line above may have killed the program, so its exit status means nothing.
        let _ = group.wait();
        Ok(String::from_utf8_lossy(&text).into_owned())
    })
    .await;
    text.unwrap_or(Err(Error::Silent { program, waited: limit }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_message_comes_last_with_its_further_lines() {
        let newest_first = "3.0 n k[1]: c\n      more\n\n      of c\n2.0 n k[1]: b\n1.0 n k[1]: a\n";
        assert_eq!(
            oldest_first(newest_first),
            "1.0 n k[1]: a\n2.0 n k[1]: b\n3.0 n k[1]: c\n      more\n\n      of c\n"
        );
        assert_eq!((oldest_first(""), oldest_first("1.0 a")), (String::new(), "1.0 a\n".to_owned()));
    }

    #[test]
    fn the_command_line_of_an_entry_of_the_journal_is_split_into_words() {
        let of = |entry: &str| command_of_entry(entry).map(|words| words.join("|"));
        let entry = r#"{"_CMDLINE":"/usr/bin/kubelet --config=/etc/k.yaml \"--node-labels=a=b,c=d e\"","__CURSOR":"s=1"}"#;
        assert_eq!(
            of(entry).as_deref(),
            Some("/usr/bin/kubelet|--config=/etc/k.yaml|--node-labels=a=b,c=d e")
        );
        for other in ["", "{}", r#"{"_CMDLINE":[1,2]}"#, r#"{"_CMDLINE":"/bin/sh -c kubelet"}"#] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn root_runs_a_program_by_its_absolute_path_or_not_at_all() {
        let programs = ["sh", "plegctl-test-no-such-program"];
        let [known, unknown] = programs.map(|program| path_of(program, true));
        assert!(known.unwrap().is_absolute());
        let why = unknown.unwrap_err().to_string();
        assert!(why.contains("it is not in /usr/bin, /bin") && why.contains("ignores $PATH"), "{why}");
        assert_eq!(path_of("sh", false).unwrap(), Path::new("sh"), "other users may use their $PATH");
    }

    #[tokio::test]
    async fn a_program_that_is_given_up_ends_together_with_its_child() {
        let fifo = std::env::temp_dir().join(format!("plegctl-commands-{}", std::process::id()));
        #[expect(clippy::disallowed_methods, reason = "there is no safe call for it here")]
        let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        // To open the FIFO waits for the child. To read to its end waits until no process has the FIFO open.
        let path = fifo.clone();
        let begun = tokio::task::spawn_blocking(move || std::fs::File::open(path).unwrap());
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
    async fn a_program_that_is_not_installed_is_absent() {
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
            tokio::join!(run_with("journalctl", Duration::from_secs(600), start), async { drop(release) });
        assert!(matches!(answer, Err(Error::Absent { .. })), "{answer:?}");
    }

    #[tokio::test]
    async fn a_program_that_does_not_start_in_time_is_silent() {
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        let start = move || {
            let _ = blocked.recv();
            Err(Error::Absent { program: "journalctl", detail: "not there".to_owned() })
        };
        let answer = run_with("journalctl", Duration::from_millis(1), start).await;
        drop(release);
        assert!(matches!(answer, Err(Error::Silent { .. })), "{answer:?}");
    }
}
