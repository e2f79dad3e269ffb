//! Parses the journal of the kubelet, the runtime and the kernel into the counts and lines that the rules need. Also has
//! the answer of systemd. `commands` reads both.

use std::time::Duration;

use super::journal_line::logged_by;
use super::kubelet::KubeletRuns;
use crate::kubelet::go_duration;

/// The result of `systemctl is-system-running`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SystemState {
    /// systemd answered with this word: `running`, `degraded`, …
    Answered(String),
    /// systemd did not answer for this long.
    Silent(Duration),
}

/// The messages in the journal that the rules need, as counts, ages and lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Journal {
    /// The number of lines.
    pub lines: usize,
    /// The ages in "PLEG is not healthy" messages, in seconds, oldest message first.
    pub pleg_ages: Vec<f64>,
    /// The time of the last "PLEG is not healthy" message, in seconds since the Unix epoch, and the age in it, in seconds.
    pub last_pleg_message: Option<(f64, f64)>,
    /// The number of messages that show that no relist has succeeded: "pleg has yet to be successful", or an age that counts
    /// from the year 1.
    pub never_relisted: usize,
    /// The last message about a list that was refused because of its size.
    pub too_large: Option<String>,
    /// The last message that a name "is reserved for" another container.
    pub name_reserved: Option<String>,
    /// The number of `ExecSync` calls that timed out.
    pub exec_timeouts: usize,
    /// The seconds from the first to the last line.
    pub span_seconds: f64,
    /// Kernel messages about tasks that were blocked for more than 120 seconds.
    pub blocked_tasks: Vec<String>,
    /// The last kernel message about a file server that does not respond.
    pub server_silent: Option<String>,
    /// Kernel messages about processors that run no task, and about hardware errors that were not corrected.
    pub lockups: Vec<String>,
    /// The last kernel message about an NVIDIA device.
    pub gpu_error: Option<String>,
    /// The last kernel message about a process that was killed for lack of memory.
    pub out_of_memory: Option<String>,
    /// The last message about a limit of processes, threads or file descriptors that was reached.
    pub exhausted: Option<String>,
    /// The number of time-outs of D-Bus or systemd.
    pub bus_timeouts: usize,
    /// The number of failed network set-ups or tear-downs.
    pub network_failures: usize,
    /// Whether the runtime began to recover its state and has not reported the end of the recovery.
    pub recovering: bool,
    /// The number of starts of the runtime.
    pub runtime_starts: usize,
    /// The last message of a watchdog that restarts the kubelet.
    pub watchdog: Option<String>,
    /// The version that containerd logged at its last start.
    pub containerd_version: Option<String>,
    /// The error with which containerd did not load its CRI plugin at its last start.
    pub cri_plugin_error: Option<String>,
    /// The error with which containerd could not read its configuration at its last start.
    pub config_unread: Option<String>,
    /// The kubelet's processes and their last messages.
    pub kubelet_runs: KubeletRuns,
}

impl Journal {
    /// Parses the output of `journalctl --output=short-unix`.
    pub fn of(text: &str) -> Self {
        let mut found = Self::default();
        let mut first = None;
        let mut last = None;
        for line in text.lines() {
            let time = line.split(' ').next().and_then(|word| word.parse::<f64>().ok());
            first = first.or(time);
            last = time.or(last);
            found.lines += 1;
            let ages = found.pleg_ages.len();
            found.add(line);
            if let Some(age) = found.pleg_ages.get(ages) {
                found.last_pleg_message = time.map(|time| (time, *age));
            }
        }
        if let (Some(first), Some(last)) = (first, last) {
            found.span_seconds = (last - first).max(0.0);
        }
        found
    }

    /// Adds one line.
    fn add(&mut self, line: &str) {
        let has = |part: &str| line.contains(part);
        let shortened = || short(line);
        let keep_if = |is_match: bool, place: &mut Option<String>| {
            if is_match {
                *place = Some(shortened());
            }
        };
        if has("PLEG is not healthy") {
            if let Some(age) = pleg_age(line) {
                self.pleg_ages.push(age);
            }
            self.never_relisted +=
                usize::from(has("yet to be successful") || has("2562047h47m16.854775807s"));
        }
        keep_if(has("ResourceExhausted") && has("larger than max"), &mut self.too_large);
        keep_if(has("is reserved for"), &mut self.name_reserved);
        self.exec_timeouts += usize::from(has("ExecSync") && has("DeadlineExceeded"));
        if has("blocked for more than") && has("kernel") {
            self.blocked_tasks.push(shortened());
        }
        if has("kernel")
            && (has("soft lockup - CPU#")
                || has("detected stalls on CPUs")
                || has("self-detected stall on CPU")
                || (has("[Hardware Error]") && has("Uncorrected")))
        {
            self.lockups.push(shortened());
        }
        keep_if(has("NVRM: Xid") && has("kernel"), &mut self.gpu_error);
        keep_if(has("not responding") && has("server ") && has("kernel"), &mut self.server_silent);
        keep_if(has("Out of memory") || has("oom-kill:"), &mut self.out_of_memory);
        let is_exhausted = has("pthread_create failed")
            || has("too many open files")
            || has("resource temporarily unavailable");
        keep_if(is_exhausted, &mut self.exhausted);
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
        keep_if(has("node-problem-detector") && has("restart") && has("kubelet"), &mut self.watchdog);
        self.kubelet_runs.add(line);
        if let Some((_, message)) = logged_by(line, "containerd") {
            self.add_start_of_containerd(message);
        }
    }

    /// Adds a message about containerd's start. A new start makes the messages of the previous start void.
    fn add_start_of_containerd(&mut self, message: &str) {
        let has = |part: &str| message.contains(part);
        if has("msg=\"starting containerd\"") {
            let (_, version) = message.split_once(" version=").unwrap_or_default();
            let version = version.split_ascii_whitespace().next();
            self.containerd_version = version.map(|version| short(version.trim_matches('"')));
            self.cri_plugin_error = None;
            self.config_unread = None;
        }
        if has("msg=\"failed to load plugin") && has("io.containerd.grpc.v1.cri") {
            self.cri_plugin_error = quoted_error(message);
        }
        if let Some(why) = message.strip_prefix("containerd: failed to load TOML") {
            self.config_unread = Some(short(why.trim_start_matches([':', ' '])));
        } else if let Some(why) = message.strip_prefix("containerd: failed to unmarshal TOML ") {
            self.config_unread = Some(short(why));
        }
    }
}

/// Returns the value of `error="…"` in a message of containerd.
fn quoted_error(line: &str) -> Option<String> {
    let (_, rest) = line.split_once(" error=\"")?;
    let mut is_escaped = false;
    let end = rest.find(|letter: char| {
        let is_end = letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        is_end
    })?;
    Some(short(&rest.get(..end)?.replace("\\\"", "\"")))
}

/// Returns the first 300 characters of a text.
fn short(text: &str) -> String {
    text.chars().take(300).collect()
}

/// Parses the age in "pleg was last seen active 3m5.5s ago", in seconds.
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
        assert_eq!(journal.last_pleg_message, Some((1_700_000_011.0, 191.5)));
        assert!((journal.span_seconds - 10.0).abs() < 1e-6);
    }

    #[test]
    fn a_recovery_that_has_ended_is_not_reported() {
        let begun = "1.0 n containerd[1]: msg=\"Start recovering state\"";
        assert!(Journal::of(begun).recovering);
        let ended = format!("{begun}\n2.0 n containerd[1]: msg=\"containerd successfully booted in 0.1s\"");
        assert!(!Journal::of(&ended).recovering);
    }

    /// Lines that real containerds 1.6.20, 1.7.24 and 2.1.9 wrote.
    #[test]
    fn containerds_error_about_its_cri_plugin_is_kept_until_its_next_start() {
        let start = "1.0 n containerd[1]: time=\"2026-11-23T18:03:51Z\" level=info msg=\"starting containerd\" \
            revision=\"1.6.20~ds1-1+deb12u3\" version=\"1.6.20~ds1\"";
        let old = "2.0 n containerd[1]: time=\"2026-11-23T18:03:51Z\" level=warning msg=\"failed to load plugin \
            io.containerd.grpc.v1.cri\" error=\"failed to create CRI service: failed to create cni conf monitor for default: \
            failed to create fsnotify watcher: too many open files\"";
        let new = "2.0 n containerd[1]: time=\"2026-11-23T18:02:20Z\" level=warning msg=\"failed to load plugin\" \
            error=\"unable to load CRI runtime service plugin dependency: invalid plugin config: no corresponding runtime \
            configured in `containerd.runtimes` for `containerd` `default_runtime_name = \\\"nvidia\\\"\" \
            id=io.containerd.grpc.v1.cri type=io.containerd.grpc.v1";
        let version = |line: &str| Journal::of(line).containerd_version;
        assert_eq!(version(start).as_deref(), Some("1.6.20~ds1"));
        let newer = start.replace("\"1.6.20~ds1\"", "2.1.9+unknown");
        assert_eq!(version(&newer).as_deref(), Some("2.1.9+unknown"));
        let found = |lines: &[&str]| Journal::of(&lines.join("\n")).cri_plugin_error;
        assert!(
            found(&[start, old]).unwrap().ends_with("failed to create fsnotify watcher: too many open files")
        );
        assert!(
            found(&[start, new]).unwrap().ends_with("default_runtime_name = \"nvidia\""),
            "{:?}",
            found(&[new])
        );
        assert_eq!(found(&[start, old, start]), None);
        let other = new.replace("grpc.v1.cri", "snapshotter.v1.devmapper");
        assert_eq!(found(&[start, &other]), None);
    }

    #[test]
    fn containerds_error_about_its_configuration_is_kept() {
        let found = |line: &str| Journal::of(&format!("1.0 n containerd[7]: {line}")).config_unread;
        let old = "containerd: failed to load TOML: /etc/containerd/config.toml: (13, 2): unexpected token unclosed table \
            key, was expecting a table key";
        assert!(found(old).unwrap().starts_with("/etc/containerd/config.toml: (13, 2): unexpected"));
        let uri = "containerd: failed to load TOML from /etc/containerd/config.toml: invalid disabled plugin URI \"cri\" \
            expect io.containerd.x.vx";
        assert!(found(uri).unwrap().contains("invalid disabled plugin URI"));
        let new = "containerd: failed to unmarshal TOML at row 16 column 40: toml: expected ']' to close table name";
        assert_eq!(found(new).unwrap(), "at row 16 column 40: toml: expected ']' to close table name");
    }
}
