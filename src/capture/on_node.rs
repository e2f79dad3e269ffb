//! The forecasts of the recorder that runs on this node, for a live `health` and `top`, which look only once.
//!
//! With each sample of the node, the recorder replaces a small file in the directory of its capture, as long as a limit is
//! ahead. A reader finds the recorder among the processes that it has read anyway, and opens the directory through the recorder's
//! own descriptor: no path is guessed, none can be redirected, and nothing is read on a node without a recorder. The recorder has
//! to be a process of the node itself ([`ProcessTrust`]), and its directory has to be private to this user (`PrivateDirectory`).
//! `/proc/locks`, which names the holder of the capture's lock, is not read: each reading waits 10 ms for the kernel.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::private_directory::PrivateDirectory;
use crate::clock::Wall;
use crate::diagnosis::facts::ProcessRef;
use crate::diagnosis::forecast::{LimitForecast, STALE, known};
use crate::host::proc::{ProcessTrust, Role};
use crate::host::{KernelDir, kernel_record};
use crate::report::json;

/// The name of the file.
pub const FORECASTS: &str = "forecasts";

/// The largest size of the file, in bytes.
const MAX_SIZE: u64 = 4096;

/// The most forecasts in the file; each has about 300 bytes.
const MAX_FORECASTS: usize = 8;

/// The content of the file.
#[derive(Serialize, Deserialize)]
struct ForecastsOfRuntime {
    /// The endpoint of the runtime that is recorded.
    endpoint: String,
    /// The limits that will be reached.
    #[serde(deserialize_with = "known")]
    forecasts: Vec<LimitForecast>,
}

/// Returns the content of the file; `None` if no limit is ahead, so that there is no file.
pub fn text_of(endpoint: &str, forecasts: &[LimitForecast]) -> Option<String> {
    let forecasts: Vec<LimitForecast> = forecasts.iter().take(MAX_FORECASTS).cloned().collect();
    let is_ahead = !forecasts.is_empty();
    json::text(&ForecastsOfRuntime { endpoint: endpoint.to_owned(), forecasts }).filter(|_| is_ahead)
}

/// Returns the limits that will be reached, by the recorder on this node that records the runtime at `endpoint`. An error says
/// that a recorder was found and its file could not be read. `candidates` are the processes with the name of plegctl in the table
/// at `proc`.
pub fn forecasts_on_node(
    proc: &Path,
    candidates: &[u32],
    endpoint: &str,
    now: Wall,
) -> io::Result<Vec<LimitForecast>> {
    let mut failure = None;
    for process in trusted(proc, candidates) {
        match forecasts_of(&process) {
            Ok(Some(found)) if found.endpoint == endpoint => {
                let is_usable = |one: &LimitForecast| is_recent(one, now) && still_runs(proc, one);
                return Ok(found.forecasts.into_iter().filter(is_usable).collect());
            }
            Ok(_) => {}
            Err(why) => failure = Some(why),
        }
    }
    failure.map_or(Ok(Vec::new()), Err)
}

/// Returns the directories of those processes that are of the node itself.
fn trusted(proc: &Path, candidates: &[u32]) -> impl Iterator<Item = PathBuf> {
    let trust = ProcessTrust::of_table(proc);
    let is_trusted = move |dir: KernelDir| trust.judge(&dir, Role::Other, true).is_ok();
    let processes = candidates.iter().map(|pid| proc.join(pid.to_string()));
    processes.filter(move |process| KernelDir::open(process).is_ok_and(&is_trusted))
}

/// Reads the file of a recorder; `None` if it has none.
fn forecasts_of(recorder: &Path) -> io::Result<Option<ForecastsOfRuntime>> {
    let descriptors = recorder.join("fd");
    for number in KernelDir::open(&descriptors)?.numbered() {
        let directory = PrivateDirectory::of_descriptor(&descriptors.join(number.to_string()), FORECASTS)?;
        if let Some(directory) = directory {
            return Ok(Some(serde_json::from_slice(&directory.read(FORECASTS, MAX_SIZE)?)?));
        }
    }
    Ok(None)
}

/// Whether the last measurement is not too old. Neither is one from the future usable: the clock was set.
fn is_recent(forecast: &LimitForecast, now: Wall) -> bool {
    let age = now.duration_since(forecast.taken_at).max(forecast.taken_at.duration_since(now));
    age <= STALE
}

/// Whether the process whose limit it is runs. After a restart, its growth begins anew.
fn still_runs(proc: &Path, forecast: &LimitForecast) -> bool {
    let runs = |process: &ProcessRef| {
        let name = kernel_record(&proc.join(process.pid.to_string()).join("comm"));
        name.is_ok_and(|name| name.trim_end() == process.name)
    };
    forecast.process.as_ref().is_none_or(runs)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::time::Duration;

    use super::*;
    use crate::diagnosis::forecast::LimitKind;
    use crate::report::Confidence;

    const ENDPOINT: &str = "unix:///run/containerd/containerd.sock";

    const ROOT: &str = "Uid:\t0\t0\t0\t0\nNSpid:\t40\n";

    fn now() -> Wall {
        Wall::from_nanos(1_795_000_000_000_000_000)
    }

    fn forecast() -> LimitForecast {
        LimitForecast::of_threads(now(), Duration::from_secs(18 * 3600), Confidence::Likely)
    }

    /// A process table with containerd as 812, and a recorder as 40, which has the directory of a capture open.
    struct TestNode(PathBuf);

    impl TestNode {
        fn new(name: &str) -> Self {
            let node =
                Self(std::env::temp_dir().join(format!("plegctl-on-node-{}-{name}", std::process::id())));
            node.process(812, "containerd");
            node.process(40, "plegctl");
            fs::create_dir(node.0.join("40/fd")).unwrap();
            fs::write(node.0.join("40/status"), ROOT).unwrap();
            symlink("../status", node.0.join("40/fd/3")).unwrap();
            symlink("../../812", node.0.join("40/fd/4")).unwrap();
            fs::create_dir(node.capture()).unwrap();
            fs::set_permissions(node.capture(), fs::Permissions::from_mode(0o700)).unwrap();
            symlink(node.capture(), node.0.join("40/fd/5")).unwrap();
            node.write(&text_of(ENDPOINT, &[forecast()]).unwrap());
            node
        }

        fn process(&self, pid: u32, name: &str) {
            let process = self.0.join(pid.to_string());
            fs::create_dir_all(&process).unwrap();
            fs::write(process.join("comm"), format!("{name}\n")).unwrap();
        }

        fn capture(&self) -> PathBuf {
            self.0.join("capture")
        }

        fn file(&self) -> PathBuf {
            self.capture().join(FORECASTS)
        }

        fn write(&self, text: &str) {
            fs::write(self.file(), text).unwrap();
        }

        fn at(&self, now: Wall) -> Vec<LimitForecast> {
            forecasts_on_node(&self.0, &[7, 40], ENDPOINT, now).unwrap()
        }

        fn refusal(&self) -> String {
            forecasts_on_node(&self.0, &[7, 40], ENDPOINT, now()).unwrap_err().to_string()
        }
    }

    impl Drop for TestNode {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn forecasts_of_the_recorder_of_this_runtime_are_found_wherever_its_directory_is() {
        let node = TestNode::new("found");
        assert_eq!(node.at(now()), [forecast()]);
        assert_eq!(forecasts_on_node(&node.0, &[40], "unix:///run/crio/crio.sock", now()).unwrap(), []);
        assert_eq!(forecasts_on_node(&node.0, &[7], ENDPOINT, now()).unwrap(), [], "it has ended");
        fs::remove_file(node.file()).unwrap();
        assert_eq!(node.at(now()), [], "no limit is ahead");
    }

    #[test]
    fn forecasts_of_a_recorder_that_no_longer_measures_are_left_out() {
        let node = TestNode::new("stale");
        let late = STALE + Duration::from_secs(1);
        assert_eq!(node.at(now().plus(STALE)), [forecast()]);
        assert_eq!(node.at(now().plus(late)), []);
        assert_eq!(node.at(now().minus(late)), [], "the clock was set back");
    }

    #[test]
    fn forecast_of_a_process_that_has_ended_is_left_out() {
        let node = TestNode::new("ended");
        let of_node = LimitForecast { process: None, limit: LimitKind::NodeTasks, ..forecast() };
        node.write(&text_of(ENDPOINT, &[forecast(), of_node.clone()]).unwrap());
        node.process(812, "sleep");
        assert_eq!(node.at(now()), std::slice::from_ref(&of_node));
        fs::remove_dir_all(node.0.join("812")).unwrap();
        assert_eq!(node.at(now()), [of_node]);
    }

    #[test]
    fn processes_of_other_users_and_of_containers_are_not_read() {
        let node = TestNode::new("others");
        let in_pod = "Uid:\t0\t0\t0\t0\nNSpid:\t40\t1\n";
        for status in ["Uid:\t1234\t1234\t1234\t1234\nNSpid:\t40\n", in_pod] {
            fs::write(node.0.join("40/status"), status).unwrap();
            assert_eq!(node.at(now()), [], "{status}");
        }
    }

    #[test]
    fn file_that_another_user_could_have_written_is_refused() {
        let node = TestNode::new("hostile");
        let allow = |mode| fs::set_permissions(node.capture(), fs::Permissions::from_mode(mode)).unwrap();
        allow(0o702);
        assert_eq!(node.refusal(), "it is a directory that others may write to");
        allow(0o700);
        // Only root can give a directory away.
        if chown(node.capture(), Some(65_534), None).is_ok() {
            assert_eq!(node.refusal(), "it is a directory that belongs to another user (65534)");
            chown(node.capture(), Some(0), None).unwrap();
        }
        let moved = node.capture().join("moved");
        fs::rename(node.file(), &moved).unwrap();
        symlink(&moved, node.file()).unwrap();
        assert!(!node.refusal().is_empty(), "a symbolic link");
        fs::remove_file(node.file()).unwrap();
        fs::hard_link(&moved, node.file()).unwrap();
        assert!(node.refusal().contains("it is a link"), "{}", node.refusal());
        fs::remove_file(node.file()).unwrap();
        for damaged in ["", "{", r#"{"endpoint": "x"}"#, &"x".repeat(5000)] {
            node.write(damaged);
            assert!(!node.refusal().is_empty(), "{damaged}");
        }
    }

    #[test]
    fn file_stays_small_and_has_the_limits_that_are_reached_first() {
        let process = Some(ProcessRef { name: "x".repeat(15), pid: u32::MAX });
        let forecasts: Vec<LimitForecast> = (0..32)
            .map(|pid| LimitForecast { used: pid, max: u64::MAX, process: process.clone(), ..forecast() })
            .collect();
        let text = text_of(ENDPOINT, &forecasts).unwrap();
        assert!(u64::try_from(text.len()).unwrap() < MAX_SIZE, "{}", text.len());
        let read: ForecastsOfRuntime = serde_json::from_str(&text).unwrap();
        assert_eq!(read.forecasts, forecasts[..MAX_FORECASTS]);
        assert_eq!(text_of(ENDPOINT, &[]), None);
    }
}
