//! A private containerd for a test: its directory, its process, and the watcher (`reap.sh`) that removes everything
//! when the test ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tonic::Code;

use super::calls::Calls;
use super::packages::{Containerd, Packages, script};
use super::{TIME_LIMIT, wait_for};

/// The image of every sandbox, by its name in `image.tar`.
const PAUSE_IMAGE: &str = "registry.local/pause:1";

/// The image of every container.
pub const BUSYBOX_IMAGE: &str = "registry.local/busybox:1";

/// The size of a test's disk: enough for the images and some pods. The file is sparse.
const DISK_BYTES: u64 = 512 << 20;

/// A running private containerd. Dropping this kills the daemon, its shims and its pods, and removes its directory.
///
/// The methods block: do not call them inside an async function.
pub struct RealRuntime {
    version: Containerd,
    packages: Packages,
    directory: PathBuf,
    daemon: Mutex<Option<Child>>,
    watcher: Child,
    pub(crate) calls: Calls,
}

impl RealRuntime {
    /// Starts a containerd and waits until it answers and has the test images.
    pub fn start(version: Containerd, packages: Packages) -> Self {
        Self::start_in(version, packages, |_| ())
    }

    /// Starts a containerd whose root is a separate file system in a file: see [`Self::freeze_disk`].
    pub fn start_on_its_own_disk(version: Containerd, packages: Packages) -> Self {
        Self::start_in(version, packages, |directory| {
            let (image, root) = (directory.join("disk"), directory.join("root"));
            fs::create_dir(&root).unwrap();
            fs::File::create(&image).unwrap().set_len(DISK_BYTES).unwrap();
            let (image, root) = (image.to_str().unwrap(), root.to_str().unwrap());
            tool("mkfs.ext4", &["-q", "-F", image]);
            tool("mount", &["-o", "loop", image, root]);
        })
    }

    fn start_in(version: Containerd, packages: Packages, prepare: impl FnOnce(&Path)) -> Self {
        sweep_stale_directories();
        let directory = fresh_directory();
        let watcher = start_watcher(&directory);
        let calls = Calls::to(&directory.join("containerd.sock"));
        let runtime = Self { version, packages, directory, daemon: Mutex::new(None), watcher, calls };
        for directory in ["cni", "cni-bin", "bin"] {
            fs::create_dir(runtime.directory.join(directory)).unwrap();
        }
        prepare(&runtime.directory);
        fs::write(runtime.config_file(), runtime.config()).unwrap();
        runtime.start_daemon();
        runtime.import_images();
        runtime
    }

    /// Returns the CRI socket, as a path.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("containerd.sock")
    }

    /// Returns the CRI socket as an endpoint: `unix:///…`.
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// Returns the directory that has all files of this instance.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Configures a network with this plugin, so that the daemon reports no network error. Pods use the host's network all the
    /// same, unless they ask for their own.
    pub fn configure_network(&self, plugin: &str) {
        let network = format!(r#"{{"cniVersion":"0.4.0","name":"test","plugins":[{{"type":"{plugin}"}}]}}"#);
        fs::write(self.directory.join("cni/10-test.conflist"), network).unwrap();
    }

    /// Returns the name of the directory. The cgroup that contains all pods of this containerd has the same name.
    pub fn name(&self) -> &str {
        self.directory.file_name().unwrap().to_str().unwrap()
    }

    /// Returns the daemon's process.
    pub fn daemon_pid(&self) -> Pid {
        let daemon = self.daemon.lock().unwrap();
        Pid::from_child(daemon.as_ref().expect("the daemon is running"))
    }

    /// Starts the daemon after [`Self::kill_daemon`], on the same directories, and waits until it answers.
    pub fn start_daemon(&self) {
        let daemon = self.with_log(self.daemon_command()).spawn().unwrap();
        let previous = self.daemon.lock().unwrap().replace(daemon);
        assert!(previous.is_none(), "the daemon was running already");
        wait_for("containerd to answer", || {
            self.assert_daemon_lives();
            self.calls.version(Duration::from_secs(1)).ok()
        });
    }

    /// Starts the daemon with a configuration that keeps it from serving the CRI, and waits until it refuses the CRI or
    /// has ended. Returns whether it runs.
    pub fn start_without_cri(&self) -> bool {
        let mut daemon = self.with_log(self.daemon_command()).spawn().unwrap();
        let runs = wait_for("containerd to refuse the CRI or to end", || {
            if daemon.try_wait().unwrap().is_some() {
                return Some(false);
            }
            let answer = self.calls.version(Duration::from_secs(1));
            answer.is_err_and(|why| why.code() == Code::Unimplemented).then_some(true)
        });
        if runs {
            let previous = self.daemon.lock().unwrap().replace(daemon);
            assert!(previous.is_none(), "the daemon was running already");
        }
        runs
    }

    /// Returns the command that starts the daemon.
    pub fn daemon_command(&self) -> Command {
        let mut command = Command::new(self.packages.program(self.version, "containerd"));
        command
            .arg("--config")
            .arg(self.config_file())
            // Programs in `bin`, which a test may add, precede the tools of the packages.
            .env(
                "PATH",
                format!("{}/bin:{}", self.directory.display(), self.packages.search_path(self.version)),
            )
            .env("LD_LIBRARY_PATH", self.packages.library_path());
        command
    }

    fn with_log(&self, mut command: Command) -> Command {
        let log = fs::File::options().create(true).append(true).open(self.log_file()).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).process_group(0);
        command
    }

    /// Replaces the configuration by what `edit` makes of it. The next start of the daemon reads it.
    pub fn edit_config(&self, edit: impl FnOnce(&str) -> String) {
        let text = fs::read_to_string(self.config_file()).unwrap();
        fs::write(self.config_file(), edit(&text)).unwrap();
    }

    /// Kills the daemon. Its shims and containers keep running, as on a node.
    pub fn kill_daemon(&self) {
        self.end_daemon(Signal::KILL);
    }

    /// Ends the daemon with SIGTERM, as systemd does, and starts it again. Its shims and containers keep running.
    pub fn restart_daemon(&self) {
        self.end_daemon(Signal::TERM);
        self.start_daemon();
    }

    fn end_daemon(&self, signal: Signal) {
        // A restarted daemon forgets the shims that it cannot reach.
        self.remember_shims();
        let mut daemon = self.daemon.lock().unwrap().take().expect("the daemon is running");
        kill_process(Pid::from_child(&daemon), signal).unwrap();
        wait_for("the daemon to end", || daemon.try_wait().unwrap());
    }

    fn assert_daemon_lives(&self) {
        let mut daemon = self.daemon.lock().unwrap();
        let ended = daemon.as_mut().and_then(|daemon| daemon.try_wait().unwrap());
        assert!(ended.is_none(), "containerd ended by itself: {ended:?}");
    }

    /// Creates a host root with the files of this machine. Its process table has only this runtime's processes and
    /// `others`, so that plegctl does not see the processes of other tests. A second call replaces the first host root.
    pub fn node_with(&self, others: &[Pid]) -> PathBuf {
        let node = self.directory.join("node");
        let _ = fs::remove_dir_all(&node);
        fs::create_dir_all(node.join("proc")).unwrap();
        for entry in fs::read_dir("/").unwrap() {
            let name = entry.unwrap().file_name();
            if name != "proc" {
                symlink(Path::new("/").join(&name), node.join(&name)).unwrap();
            }
        }
        let others: Vec<String> = others.iter().map(|pid| pid.as_raw_nonzero().to_string()).collect();
        for entry in fs::read_dir("/proc").unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let is_of_this_runtime = || {
                let text =
                    |file: &str| fs::read_to_string(format!("/proc/{name}/{file}")).unwrap_or_default();
                text("cmdline").contains(self.directory.to_str().unwrap())
                    || text("cgroup").contains(self.name())
            };
            if name.parse::<u32>().is_err() || name == "1" || others.contains(&name) || is_of_this_runtime() {
                symlink(Path::new("/proc").join(&name), node.join("proc").join(&name)).unwrap();
            }
        }
        node
    }

    /// [`Self::node_with`] for a machine that has been up for `older` seconds longer, so that its processes look older, and
    /// their tasks look as if they had waited for longer.
    pub fn aged_node(&self, older: f64) -> PathBuf {
        let node = self.node_with(&[]);
        let uptime = fs::read_to_string("/proc/uptime").unwrap();
        let seconds: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        let file = node.join("proc/uptime");
        fs::remove_file(&file).unwrap();
        fs::write(file, format!("{:.2} 0.00\n", seconds + older)).unwrap();
        let own = node.join("proc/thread-self");
        fs::remove_file(&own).unwrap();
        fs::create_dir(&own).unwrap();
        fs::write(own.join("sched"), format!("se.exec_start: {:.6}\n", furthest_clock() + older * 1000.0))
            .unwrap();
        node
    }

    fn import_images(&self) {
        self.import(&self.packages.image(), &[PAUSE_IMAGE, BUSYBOX_IMAGE]);
    }

    /// Imports an archive of images and waits until the CRI has these images.
    pub fn import(&self, archive: &Path, names: &[&str]) {
        let output = Command::new(self.packages.program(self.version, "ctr"))
            .arg("--address")
            .arg(self.socket())
            .args(["--namespace", "k8s.io", "images", "import"])
            .arg(archive)
            .output()
            .unwrap();
        assert!(output.status.success(), "cannot import the images: {output:?}");
        // containerd reports an import to its CRI plugin with an event, so the CRI may have the image a moment later.
        for image in names {
            let known = || self.calls.has_image(image, TIME_LIMIT).unwrap().then_some(());
            wait_for("the CRI to know the images", known);
        }
    }

    /// Returns the configuration file of the daemon.
    pub fn config_file(&self) -> PathBuf {
        // `reap.sh` finds the daemon by this name.
        self.directory.join("config.toml")
    }

    fn log_file(&self) -> PathBuf {
        self.directory.join("containerd.log")
    }

    /// Returns the configuration of the daemon, which writes nothing outside of the directory.
    fn config(&self) -> String {
        let directory = self.directory.display();
        let format = if self.version == Containerd::V2 { 3 } else { 2 };
        let top = format!(
            r#"version = {format}
root = "{directory}/root"
state = "{directory}/state"
# This plugin would create /opt/containerd.
disabled_plugins = ["io.containerd.internal.v1.opt"]

[grpc]
  address = "{directory}/containerd.sock"

[debug]
  address = "{directory}/debug.sock"
"#
        );
        let cri = match self.version {
            Containerd::V1_6 => cri_tables_before_2(&self.directory, ""),
            Containerd::V1_7 => cri_tables_before_2(&self.directory, "enable_cdi = false"),
            Containerd::V2 => cri_tables_of_2(&self.directory),
        };
        top + &cri
    }

    fn print_log(&self) {
        let log = fs::read_to_string(self.log_file()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = &lines[lines.len().saturating_sub(30)..];
        eprintln!("last lines of {}:\n{}", self.version, tail.join("\n"));
    }
}

/// Returns the time of the processor whose clock is most ahead, in milliseconds. Each has its own clock, which leaves out what
/// interrupts and other machines took.
fn furthest_clock() -> f64 {
    let allowed = sched_getaffinity(None).unwrap();
    let clock = |processor: usize| {
        let mut only = CpuSet::new();
        only.set(processor);
        sched_setaffinity(None, &only).unwrap();
        let sched = fs::read_to_string("/proc/thread-self/sched").unwrap();
        let time = sched.lines().find_map(|line| line.strip_prefix("se.exec_start")).unwrap();
        time.split_once(':').unwrap().1.trim().parse::<f64>().unwrap()
    };
    let furthest =
        (0..CpuSet::MAX_CPU).filter(|number| allowed.is_set(*number)).map(clock).fold(0.0, f64::max);
    sched_setaffinity(None, &allowed).unwrap();
    furthest
}

impl Drop for RealRuntime {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.print_log();
        }
        // The end of its stdin tells the watcher to remove everything.
        drop(self.watcher.stdin.take());
        let _ = self.watcher.wait();
        // The watcher has killed the daemon, which is a child of this process and a zombie until this wait.
        let daemon = self.daemon.get_mut().ok().and_then(Option::take);
        if let Some(mut daemon) = daemon {
            let _ = daemon.wait();
        }
    }
}

fn cri_tables_before_2(directory: &Path, cdi: &str) -> String {
    let directory = directory.display();
    format!(
        r#"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  {cdi}
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{directory}/cni-bin"
    conf_dir = "{directory}/cni"
"#
    )
}

fn cri_tables_of_2(directory: &Path) -> String {
    let directory = directory.display();
    format!(
        r#"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  enable_cdi = false
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{directory}/cni-bin"]
    conf_dir = "{directory}/cni"

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE_IMAGE}"

# This plugin would create a socket in /var/run, outside of the directory.
[plugins."io.containerd.nri.v1.nri"]
  disable = true
"#
    )
}

/// Runs a tool of the system.
pub fn tool(name: &str, arguments: &[&str]) {
    let output = Command::new(name)
        .args(arguments)
        // The directories of these tools may be missing in `PATH`.
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .unwrap_or_else(|why| panic!("cannot run {name}: {why}"));
    assert!(output.status.success(), "{name} {}: {output:?}", arguments.join(" "));
}

/// Returns the path of a directory that does not exist yet. It is short, because the path of a socket may have at most
/// 107 bytes.
fn fresh_directory() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("plegctl-rt-{}-{count}", std::process::id()))
}

/// Starts the watcher, which creates `directory` and removes it after the test. Waits until the directory exists.
fn start_watcher(directory: &Path) -> Child {
    let mut watcher = Command::new("sh")
        .arg(script("reap.sh"))
        .arg("watch")
        .arg(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = watcher.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n", "reap.sh cannot create {}", directory.display());
    watcher
}

fn sweep_stale_directories() {
    static SWEPT: OnceLock<()> = OnceLock::new();
    SWEPT.get_or_init(|| sweep(&std::env::temp_dir()));
}

/// Removes the containerds in `place` whose watcher was killed.
pub fn sweep(place: &Path) {
    let output = Command::new("sh").arg(script("reap.sh")).arg("sweep").arg(place).output().unwrap();
    assert!(output.status.success(), "cannot sweep old runtimes: {output:?}");
}
