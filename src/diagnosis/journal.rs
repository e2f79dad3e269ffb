//! Parses the journal of the kubelet, the runtime and the kernel into the counts and lines that the rules need. Also has
//! the answer of systemd. `commands` reads both.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::failing_pods::{self, FailingPod, KUBELETS};
use super::journal_line::{MAX_TEXT, logged_by, short};
use super::kubelet::KubeletRuns;
use super::words::shortened;
use crate::clock::Wall;
use crate::kubelet::go_duration;
use crate::report::Rename;

/// After a pause of more than this many seconds in its messages that it skips its work, the kubelet has worked in between.
/// While it waits for a call of its own housekeeping, it skips no work for two minutes.
const WORKED: f64 = 150.0;

/// The result of `systemctl is-system-running`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(Word(Answered))]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SystemState {
    /// systemd answered with this word: `running`, `degraded`, …
    Answered(String),
    /// systemd did not answer for this long.
    Silent(Duration),
}

/// The messages in the journal that the rules need, as counts, ages and lines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Rename)]
#[names(
    Text(
        too_large,
        blocked_tasks,
        server_silent,
        lockups,
        gpu_error,
        out_of_memory,
        exhausted,
        watchdog,
        cri_plugin_error,
        config_unread
    ),
    Version(containerd_version),
    emptied(pod_errors, stops)
)]
#[serde(rename_all = "camelCase", default)]
pub struct Journal {
    /// The number of lines.
    pub lines: usize,
    /// The ages in "PLEG is not healthy" messages, in seconds, oldest message first.
    pub pleg_ages: Vec<f64>,
    /// The time of the last "PLEG is not healthy" message, in seconds since the Unix epoch, and the age in it, in seconds.
    pub last_pleg_message: Option<(f64, f64)>,
    /// The time of the kubelet's message that the node became not ready, if no later message shows that the kubelet worked
    /// again; in seconds since the Unix epoch.
    pub not_ready_since: Option<f64>,
    /// The time of the kubelet's last message that the node is not ready or that it skips its work.
    pub last_not_ready: Option<f64>,
    /// The messages of the last kubelet that no relist has succeeded: "pleg has yet to be successful", or an age that counts
    /// from the year 1.
    pub no_relist_yet: RepeatedMessage,
    /// The messages of the last kubelet that its start is not complete, although relists succeed.
    pub start_waits: RepeatedMessage,
    /// The last message about a list that was refused because of its size.
    pub too_large: Option<String>,
    /// The kubelet's last message that it falls back to unary lists.
    pub list_fallback: Option<ListFallback>,
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
    /// The time of that message, in seconds since the Unix epoch.
    pub exhausted_at: Option<f64>,
    /// The number of time-outs of D-Bus or systemd.
    pub bus_timeouts: usize,
    /// The steps of the kubelet's work for pods that fail at once, in the order of their first errors.
    pub failing_pods: Vec<FailingPod>,
    /// Whether the runtime began to recover its state and has not reported the end of the recovery.
    pub recovering: bool,
    /// How often systemd has started the runtime again because it had ended by itself.
    pub runtime_restarts: usize,
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
    /// The kubelet's last error about each pod, by `NAMESPACE/NAME` and by UID. No rule reads it, so it does not travel.
    #[serde(skip)]
    pub pod_errors: BTreeMap<String, String>,
    /// The kubelet's last stop of each container, by its id. No rule reads it, so it does not travel.
    #[serde(skip)]
    pub stops: BTreeMap<String, ContainerStop>,
}

/// The kubelet stops a container: the runtime sends SIGTERM at once, and SIGKILL at the end of the grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerStop {
    /// When it was stopped.
    pub at: Wall,
    /// The grace period.
    pub grace: Duration,
}

impl ContainerStop {
    /// Returns the end of the grace period.
    pub fn end(self) -> Wall {
        self.at.plus(self.grace)
    }
}

/// A kubelet that lists with unary calls until it restarts, because the runtime does not implement a streaming call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(Word(call))]
#[serde(rename_all = "camelCase", default)]
pub struct ListFallback {
    /// The kubelet's process id.
    pub pid: u32,
    /// The call that the runtime refused. Each of the five streaming calls of the runtime service has this effect.
    pub call: String,
}

/// What one kubelet says again and again about its start. Every kubelet says it once, and then every few seconds until the start
/// goes on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Rename)]
#[serde(rename_all = "camelCase", default)]
pub struct RepeatedMessage {
    /// The kubelet's process id.
    pub pid: u32,
    /// The number of its messages.
    pub lines: usize,
    /// The times of its first and its last message, in seconds since the epoch.
    pub between: (f64, f64),
}

impl RepeatedMessage {
    fn add(&mut self, is_one: bool, line: &str, time: f64) {
        let logged = || KUBELETS.into_iter().find_map(|program| logged_by(line, program));
        let Some((pid, _)) = is_one.then(logged).flatten() else { return };
        let is_same = self.pid == pid && time - self.between.1 <= WORKED;
        let (lines, first) = if is_same { (self.lines + 1, self.between.0) } else { (1, time) };
        *self = Self { pid, lines, between: (first, time) };
    }
}

/// Texts of errors about a limit of processes, threads or file descriptors.
const EXHAUSTED: [&str; 3] =
    ["pthread_create failed", "too many open files", "resource temporarily unavailable"];

/// The most characters of a line that are kept before its part that matters.
const BEFORE: usize = 100;

/// The most names and UIDs whose errors are kept.
const MAX_POD_ERRORS: usize = 1000;

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
            let at =
                time.and_then(|time| Some(Wall::default().plus(Duration::try_from_secs_f64(time).ok()?)));
            found.kubelet_runs.add(line, at);
            if let Some(time) = time {
                found.add_readiness(line, time);
                let has = |part: &str| line.contains(part);
                let is_about_pleg = has("PLEG is not healthy");
                let none_yet = has("yet to be successful") || has("2562047h47m16.854775807s");
                found.no_relist_yet.add(is_about_pleg && none_yet, line, time);
                let waits =
                    has("Skipping pod synchronization") && has("status check may not have completed yet");
                found.start_waits.add(waits && !is_about_pleg, line, time);
            }
            if let Some(at) = at {
                found.add_stop(line, at);
                failing_pods::add_line(&mut found.failing_pods, line, at);
            }
            let ages = found.pleg_ages.len();
            found.add(line);
            if let Some(at) = EXHAUSTED.iter().find_map(|part| line.find(part)) {
                found.exhausted = Some(around(line, at));
                found.exhausted_at = time;
            }
            if let Some(age) = found.pleg_ages.get(ages) {
                found.last_pleg_message = time.map(|time| (time, *age));
            }
        }
        if let (Some(first), Some(last)) = (first, last) {
            found.span_seconds = (last - first).max(0.0);
        }
        found
    }

    /// Adds a line about whether the node is ready.
    fn add_readiness(&mut self, line: &str, time: f64) {
        // The kubelet logs this only from verbosity 2 on.
        if line.contains("event=\"NodeReady\"") {
            self.not_ready_since = None;
        }
        let became = line.contains("Node became not ready");
        if became || line.contains("Skipping pod synchronization") {
            if self.last_not_ready.is_some_and(|last| time - last > WORKED) {
                self.not_ready_since = None;
            }
            self.last_not_ready = Some(time);
            if became {
                self.not_ready_since = Some(time);
            }
        }
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
        let age = pleg_age(line).filter(|_| has("PLEG is not healthy"));
        self.pleg_ages.extend(age.map(|age| age.as_secs_f64()));
        keep_if(has("ResourceExhausted") && has("larger than max"), &mut self.too_large);
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
        self.bus_timeouts += usize::from(
            has("Failed to propagate agent release message") || (has("dbus") && has("Connection timed out")),
        );
        if has("Start recovering state") {
            self.recovering = true;
        }
        if has("containerd successfully booted") || has("Start event monitor") {
            self.recovering = false;
        }
        let is_restart = |message: &str| {
            message.contains(".service: Scheduled restart job") && !message.starts_with("kubelet.service: ")
        };
        self.runtime_restarts +=
            usize::from(logged_by(line, "systemd").is_some_and(|(_, message)| is_restart(message)));
        keep_if(has("node-problem-detector") && has("restart") && has("kubelet"), &mut self.watchdog);
        if let Some((pid, message)) = logged_by(line, "kubelet") {
            self.add_pod_error(message);
            self.add_list_fallback(pid, message);
        }
        if let Some((_, message)) = logged_by(line, "containerd") {
            self.add_start_of_containerd(message);
        }
    }

    /// Adds the kubelet's message that it falls back to unary lists: `StreamContainers not implemented, falling back to
    /// ListContainers`. A new kubelet begins with streams again.
    fn add_list_fallback(&mut self, pid: u32, message: &str) {
        if self.list_fallback.as_ref().is_some_and(|known| known.pid != pid) {
            self.list_fallback = None;
        }
        if let Some((before, _)) = message.split_once(" not implemented, falling back to ")
            && let Some(call) = before.rsplit([' ', '"']).next().filter(|call| call.starts_with("Stream"))
        {
            self.list_fallback = Some(ListFallback { pid, call: short(call) });
        }
    }

    /// Adds the kubelet's message that it stops a container, which it logs from verbosity 2 on:
    /// `… containerID="containerd://ID" gracePeriod=30`.
    fn add_stop(&mut self, line: &str, at: Wall) {
        let Some((_, message)) = logged_by(line, "kubelet") else { return };
        let stop = || {
            let (_, words) = message.split_once("\"Killing container with a grace period\"")?;
            let (_, id) = words.split_once(" containerID=\"")?.1.split_once("://")?;
            let (id, rest) = id.split_once('"')?;
            let grace = rest.split_once("gracePeriod=")?.1.split(' ').next()?.parse().ok()?;
            Some((id.to_owned(), ContainerStop { at, grace: Duration::from_secs(grace) }))
        };
        if let Some((id, stop)) = stop().filter(|_| self.stops.len() < MAX_POD_ERRORS) {
            self.stops.insert(id, stop);
        }
    }

    /// Adds an error of the kubelet about a pod. The beginning of a line has its severity (klog): `E1126 14:00:00.123`.
    fn add_pod_error(&mut self, message: &str) {
        let Some((_, words)) = message.split_once("] ").filter(|(head, _)| head.starts_with('E')) else {
            return;
        };
        let value = |before: &str| {
            let (_, rest) = words.split_once(before)?;
            rest.split('"').next().filter(|value| !value.is_empty())
        };
        // A volume operation has its error behind the names of the volume; other messages have it in quotation marks.
        let of_volume = words.split_once(" Error: ").map(|(_, error)| shortened(error, MAX_TEXT));
        let error = of_volume.or_else(|| quoted(words, " err=\""));
        let error = error.unwrap_or_else(|| shortened(words, MAX_TEXT));
        // This message only repeats that a volume operation has not succeeded.
        let is_effect = error.contains("unmounted volumes=");
        for key in [value(" pod=\""), value(" podUID=\""), value("(UID: \"")].into_iter().flatten() {
            let is_known = self.pod_errors.contains_key(key);
            if if is_known { !is_effect } else { self.pod_errors.len() < MAX_POD_ERRORS } {
                self.pod_errors.insert(key.to_owned(), error.clone());
            }
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
            self.cri_plugin_error = quoted(message, " error=\"");
        }
        if let Some(why) = message.strip_prefix("containerd: failed to load TOML") {
            self.config_unread = Some(short(why.trim_start_matches([':', ' '])));
        } else if let Some(why) = message.strip_prefix("containerd: failed to unmarshal TOML ") {
            self.config_unread = Some(short(why));
        }
    }
}

/// Returns the text between `before`, which ends with a quotation mark, and the next one. A quotation mark in the text has a
/// backslash.
fn quoted(line: &str, before: &str) -> Option<String> {
    let (_, rest) = line.split_once(before)?;
    let mut is_escaped = false;
    let end = rest.find(|letter: char| {
        let is_end = letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        is_end
    })?;
    Some(shortened(&rest.get(..end)?.replace("\\\"", "\""), MAX_TEXT))
}

/// Returns the program that logged a line, and the part of the line around `at`. The kubelet quotes an error several times in a
/// line, so that the error may be far behind its beginning.
fn around(line: &str, at: usize) -> String {
    let program = line.split(' ').nth(2).unwrap_or_default();
    let (before, after) = line.split_at(at);
    let start = before.char_indices().rev().nth(BEFORE).map_or(0, |(start, _)| start);
    let before = before.get(start..).unwrap_or_default();
    short(&format!("{program} …{before}{after}"))
}

/// Parses the age in "pleg was last seen active 3m5.5s ago".
pub fn pleg_age(line: &str) -> Option<Duration> {
    let (_, rest) = line.split_once("last seen active ")?;
    go_duration(rest.split(' ').next()?)
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
    fn the_kubelets_last_error_about_a_pod_is_kept_and_a_volumes_own_error_is_not_replaced() {
        let line = |message: &str| format!("1.0 n kubelet[7]: {message}\n");
        let error = |messages: &[&str], key: &str| {
            let text: String = messages.iter().map(|message| line(message)).collect();
            Journal::of(&text).pod_errors.get(key).cloned()
        };
        let syncs = "E1126 14:00:00.1    7 pod_workers.go:1324] \"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" \
            for \\\"app\\\" with ErrImagePull: \\\"no such host\\\"\" pod=\"shop/web-1\" podUID=\"u-1\"";
        let words = "failed to \"StartContainer\" for \"app\" with ErrImagePull: \"no such host\"";
        for key in ["shop/web-1", "u-1"] {
            assert_eq!(error(&[syncs], key).as_deref(), Some(words));
        }
        let mounts = "E1126 14:00:00.1    7 nestedpendingoperations.go:348] Operation for \"{volumeName:x podName:u-1 nodeName:}\" \
            failed. No retries permitted until 2026 (durationBeforeRetry 500ms). Error: MountVolume.SetUp failed for volume \"c\" \
            (UniqueName: \"x\") pod \"web-1\" (UID: \"u-1\") : configmap \"c\" not found";
        let waits = syncs.replace("failed to", "unmounted volumes=[c], failed to");
        for messages in [[syncs, mounts, waits.as_str()], [mounts, waits.as_str(), waits.as_str()]] {
            assert!(error(&messages, "u-1").unwrap().ends_with("configmap \"c\" not found"), "{messages:?}");
        }
        assert_eq!(error(&[mounts, syncs], "u-1").as_deref(), Some(words), "the newer error of another kind");
        assert_eq!(error(&[&syncs.replacen('E', "I", 1)], "u-1"), None, "no error");
    }

    #[test]
    fn a_fallback_to_unary_lists_counts_until_another_kubelet_logs() {
        let line = "1.0 n kubelet[7]: I1126 14:00:00.1 7 x.go:1] \"StreamContainerStats not implemented, falling back to \
            ListContainerStats\"";
        let fallback = Some(ListFallback { pid: 7, call: "StreamContainerStats".to_owned() });
        assert_eq!(Journal::of(line).list_fallback, fallback);
        let later = |pid: u32| {
            format!("{line}\n2.0 n kubelet[{pid}]: I1126 14:00:00.1 7 x.go:1] \"Started kubelet\"")
        };
        assert_eq!(Journal::of(&later(7)).list_fallback, fallback);
        assert_eq!(Journal::of(&later(8)).list_fallback, None);
        assert_eq!(Journal::of(&line.replace("kubelet[", "containerd[")).list_fallback, None);
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
