//! The soak test: runs `watch`, `record` and, every minute, `health` on a containerd whose pods come and go, whose
//! daemon restarts, and whose shims are stopped and killed. Memory and descriptors must not grow, and no verdict may be
//! wrong.
//!
//! By default the test takes twenty seconds. `PLEGCTL_SOAK=90m cargo test --test real_runtime soak -- --nocapture` runs
//! it for 90 minutes and prints its figures.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::address::free_address;
use crate::daemon::RealRuntime;
use crate::packages::Containerd;
use crate::plegctl::{Invocation, Output, Running};
use crate::pods::{ContainerSpec, Pod, PodSpec};
use crate::{TIME_LIMIT, real};

/// The default duration.
const SHORT: Duration = Duration::from_secs(20);

/// The largest number of pods.
const PODS: usize = 6;

/// The memory of a process at the end must be less than 1.5 times its memory after a tenth of the run, plus this many
/// KiB.
const GAIN_KIB: u64 = 8 * 1024;

/// The test compares the smallest number of descriptors in the last third of the samples with that in the first third.
/// The number may grow by this many, because a stream may be open in every sample of a third of a short run.
const SPARE_DESCRIPTORS: usize = 8;

/// The resources of a process.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    resident_kib: u64,
    descriptors: usize,
    threads: u64,
    children: usize,
    zombies: usize,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resident_kib, descriptors, threads, children, zombies } = self;
        write!(
            f,
            "{resident_kib} KiB, {descriptors} fds, {threads} threads, {children} children, {zombies} zombies"
        )
    }
}

impl Figures {
    fn of(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let field = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
        };
        let children: Vec<String> = crate::faults::processes()
            .filter_map(|child| fs::read_to_string(format!("/proc/{}/stat", child.as_raw_nonzero())).ok())
            .filter_map(|stat| {
                let mut after_name = stat.rsplit_once(')')?.1.split_whitespace();
                let state = after_name.next()?.to_owned();
                (after_name.next()?.parse() == Ok(pid)).then_some(state)
            })
            .collect();
        Self {
            resident_kib: field("VmRSS:"),
            threads: field("Threads:"),
            descriptors: fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(),
            zombies: children.iter().filter(|state| *state == "Z").count(),
            children: children.len(),
        }
    }
}

/// Copies the program into `folder`, so that a new build does not replace it during the run. `PLEGCTL_SOAK_PROGRAM`
/// names another program.
fn copied(folder: &Path) -> PathBuf {
    let copy = folder.join("plegctl");
    let program = std::env::var_os("PLEGCTL_SOAK_PROGRAM").map(PathBuf::from);
    fs::copy(program.as_deref().unwrap_or(Path::new(env!("CARGO_BIN_EXE_plegctl"))), &copy).unwrap();
    copy
}

/// Reads the recorder's metrics.
fn scrape(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: soak\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// A node, the number of pods that the test has started on it, and the number of changes of each kind.
struct ChangingNode<'a> {
    runtime: &'a RealRuntime,
    pods: Vec<Pod>,
    pods_started: usize,
    changes: BTreeMap<&'static str, usize>,
}

impl ChangingNode<'_> {
    /// Counts a change of this kind.
    fn count(&mut self, what: &'static str) {
        *self.changes.entry(what).or_default() += 1;
    }

    fn run_pod(&mut self) -> Pod {
        self.pods_started += 1;
        let spec = PodSpec::new(&format!("soak-{}", self.pods_started % 10))
            .uid(&format!("soak-uid-{}", self.pods_started));
        self.count("pods run");
        self.runtime.run_pod(&spec, &[ContainerSpec::new("app"), ContainerSpec::new("side")])
    }

    fn remove_pod(&mut self, pod: &Pod) {
        self.runtime.stop_pod(&pod.sandbox_id);
        self.runtime.remove_pod(&pod.sandbox_id);
        self.count("pods removed");
    }

    /// Makes one ordinary change, and sometimes causes a fault.
    fn step(&mut self, number: usize) {
        if self.pods.len() >= PODS {
            let oldest = self.pods.remove(0);
            self.remove_pod(&oldest);
        }
        let pod = self.run_pod();
        match number % 8 {
            2 => {
                self.runtime.kill_container_process(&pod.containers[0]);
                self.count("container processes killed");
            }
            4 => {
                let stopped = self.runtime.stop_shim(&pod.sandbox_id);
                std::thread::sleep(Duration::from_secs(1));
                drop(stopped);
                self.count("shims stopped");
            }
            6 => {
                self.runtime.kill_shim(&pod.sandbox_id);
                self.count("shims killed");
            }
            _ => {}
        }
        self.pods.push(pod);
        match number % 40 {
            13 => {
                self.runtime.restart_daemon();
                self.count("daemon restarts");
            }
            33 => {
                self.runtime.kill_daemon();
                self.runtime.start_daemon();
                self.count("daemon kills");
            }
            _ => {}
        }
    }
}

/// Runs `health` and returns the verdict and the report.
fn verdict(program: &Path, endpoint: &str) -> (String, Value) {
    let arguments = ["health", "-o", "json", "-r", endpoint];
    let output = Invocation::program(program.to_str().unwrap(), &arguments)
        .on_this_machine()
        .time_limit(TIME_LIMIT)
        .run();
    let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"));
    (report["verdict"].as_str().unwrap().to_owned(), report)
}

/// Starts a long run and discards its stdout, because an unread pipe would block the run. The test reads the log or the
/// capture of the run instead.
fn start(program: &Path, words: &[&str]) -> Running {
    let quiet = ["-c", "exec \"$0\" \"$@\" > /dev/null", program.to_str().unwrap()];
    Invocation::program("sh", &[&quiet, words].concat()).on_this_machine().time_limit(BUSY_TIME_LIMIT).spawn()
}

/// The time limit of a run whose speed this test does not check. It is long enough for a busy machine.
const BUSY_TIME_LIMIT: Duration = Duration::from_secs(600);

/// Reads the whole capture and returns how long that took.
fn check(program: &Path, capture: &Path) -> (Output, Duration) {
    let began = Instant::now();
    let arguments = ["capture", "check", capture.to_str().unwrap()];
    let output = Invocation::program(program.to_str().unwrap(), &arguments)
        .on_this_machine()
        .time_limit(BUSY_TIME_LIMIT)
        .run();
    (output, began.elapsed())
}

/// The size limit of a capture.
const CAPTURE: u64 = 4 * 1024 * 1024;

/// Returns the size of the files in a directory.
fn size(directory: &Path) -> u64 {
    // A segment may be deleted between the listing and the query of its size.
    fs::read_dir(directory)
        .unwrap()
        .filter_map(|entry| entry.unwrap().metadata().ok())
        .map(|file| file.len())
        .sum()
}

/// Asserts that memory and descriptors have not grown, and that there are no zombies.
fn assert_no_growth(who: &str, samples: &[Figures]) {
    let (early, late) = (samples[samples.len() / 10], samples[samples.len() - 1]);
    assert!(samples.iter().all(|figures| figures.zombies == 0), "{who}: {samples:#?}");
    assert!(late.resident_kib < early.resident_kib * 3 / 2 + GAIN_KIB, "{who}: {early}, then {late}");
    // An event stream and its guard process have descriptors only while the stream is open. A leaked descriptor stays
    // open, so it is also in the sample with the fewest descriptors.
    let fewest_descriptors = |some: &[Figures]| some.iter().map(|figures| figures.descriptors).min().unwrap();
    let third = samples.len().div_ceil(3);
    let first = fewest_descriptors(&samples[..third]);
    let last = fewest_descriptors(&samples[samples.len() - third..]);
    assert!(last <= first + SPARE_DESCRIPTORS, "{who}: {first} descriptors, then {last}");
}

#[test]
fn soak() {
    let Some(runtime) = real(Containerd::V2) else { return };
    let length = std::env::var("PLEGCTL_SOAK").ok();
    let length = length.map_or(SHORT, |text| humantime::parse_duration(&text).unwrap());
    let interval = (length / 10).min(Duration::from_secs(60));
    let folder = std::env::temp_dir().join(format!("plegctl-soak-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let (program, log, capture) = (copied(&folder), folder.join("watch.jsonl"), folder.join("capture"));
    let (endpoint, listen) = (runtime.endpoint(), [free_address(), free_address()]);
    // While the daemon restarts, it refuses thousands of streams; the watch must not give up.
    let words = ["watch", "--mode", "compare", "--retries", "1000000", "-o", "jsonl", "-q", "-r", &endpoint];
    let more = ["--log", log.to_str().unwrap(), "--metrics-listen", &listen[0]];
    let watch = start(&program, &[&words[..], &more].concat());
    let most = format!("{}KiB", CAPTURE / 1024);
    let words =
        ["record", capture.to_str().unwrap(), "--max-size", &most, "--before", "10s", "--after", "10s"];
    let more = ["--period", "1s", "--metrics-listen", &listen[1], "-r", &endpoint];
    let record = start(&program, &[&words[..], &more].concat());
    let mut node =
        ChangingNode { runtime: &runtime, pods: Vec::new(), pods_started: 0, changes: BTreeMap::new() };
    let (began, mut number) = (Instant::now(), 0);
    let (mut next, mut wrong) = (interval, Vec::new());
    let (mut watch_samples, mut record_samples): (Vec<Figures>, Vec<Figures>) = Default::default();
    let mut verdicts: BTreeMap<String, usize> = BTreeMap::new();
    while began.elapsed() < length {
        node.step(number);
        number += 1;
        if began.elapsed() < next {
            continue;
        }
        next += interval;
        let (watch_figures, record_figures) = (Figures::of(watch.pid()), Figures::of(record.pid()));
        for address in &listen {
            let metrics = scrape(address);
            assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
        }
        let capture_size = size(&capture);
        assert!(capture_size <= CAPTURE, "a capture of {capture_size} bytes");
        let (verdict_word, report) = verdict(&program, &endpoint);
        if verdict_word == "unhealthy" || verdict_word == "unknown" {
            wrong.push(report);
        }
        *verdicts.entry(verdict_word.clone()).or_default() += 1;
        if watch_samples.len() % 5 == 4 {
            let stopped = runtime.stop_daemon();
            let (verdict_word, report) = verdict(&program, &endpoint);
            drop(stopped);
            if verdict_word != "unhealthy" {
                wrong.push(report);
            }
            *verdicts.entry(format!("{verdict_word} of a stopped daemon")).or_default() += 1;
            // Reads the capture while the recorder writes to it.
            let (checked, took) = check(&program, &capture);
            assert_eq!(checked.code, Some(0), "{checked}");
            println!("the capture read in {took:.1?}");
        }
        println!(
            "{:>6.0?} {watch_figures}; {verdict_word}; log {} KiB; record {record_figures}; capture {} KiB",
            began.elapsed(),
            fs::metadata(&log).unwrap().len() / 1024,
            capture_size / 1024,
        );
        watch_samples.push(watch_figures);
        record_samples.push(record_figures);
    }
    watch.signal("INT");
    record.signal("INT");
    let (watch_output, record_output) = (watch.wait(), record.wait());
    let (checked, took) = check(&program, &capture);
    println!("{record_output}\n{checked}\nread in {took:.1?}");
    println!("{number} steps: {:?}\nverdicts: {verdicts:?}", node.changes);
    let text = fs::read_to_string(&log).unwrap();
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for record in &records {
        *kinds.entry(record["kind"].as_str().unwrap()).or_default() += 1;
    }
    let summary = records.iter().rfind(|record| record["kind"] == "WatchSummary").unwrap();
    println!("records: {kinds:?}\nsummary: {summary}");
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(watch_output.code, Some(0), "{watch_output}");
    assert_eq!((record_output.code, checked.code), (Some(0), Some(0)), "{record_output}\n{checked}");
    assert_eq!(wrong, Vec::<Value>::new(), "verdicts that are wrong");
    assert_no_growth("watch", &watch_samples);
    assert_no_growth("record", &record_samples);
}
