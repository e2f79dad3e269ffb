//! A long watch, a recording and a diagnosis every minute, on a containerd whose pods come and go, whose daemon
//! restarts, and whose shims are stopped and killed: memory and descriptors do not grow, nothing is left behind, and no
//! verdict is wrong.
//!
//! As a test it takes twenty seconds. `PLEGCTL_SOAK=90m cargo test --test real_runtime soak -- --nocapture` runs it for
//! long and prints its figures.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::daemon::RealRuntime;
use crate::packages::Containerd;
use crate::plegctl::{Invocation, Output, Running};
use crate::pods::{ContainerSpec, Pod, PodSpec};
use crate::{PATIENCE, real};

/// The default duration.
const SHORT: Duration = Duration::from_secs(20);

/// The largest number of pods.
const PODS: usize = 6;

/// The memory that a watch may gain after its first tenth, in addition to half of what it had.
const GAIN_KIB: u64 = 8 * 1024;

/// By how many descriptors the minimum may differ in a short run, whose few samples may all include an open stream.
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

/// A copy of the program, which a new build does not replace: the one of this build, or the released one.
fn copied(folder: &Path) -> PathBuf {
    let copy = folder.join("plegctl");
    let program = std::env::var_os("PLEGCTL_SOAK_PROGRAM").map(PathBuf::from);
    fs::copy(program.as_deref().unwrap_or(Path::new(env!("CARGO_BIN_EXE_plegctl"))), &copy).unwrap();
    copy
}

fn scrape(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: soak\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The node and the changes that are made to it.
struct Churn<'a> {
    runtime: &'a RealRuntime,
    pods: Vec<Pod>,
    made: usize,
    done: BTreeMap<&'static str, usize>,
}

impl Churn<'_> {
    fn count(&mut self, what: &'static str) {
        *self.done.entry(what).or_default() += 1;
    }

    fn make(&mut self) -> Pod {
        self.made += 1;
        let spec = PodSpec::new(&format!("soak-{}", self.made % 10)).uid(&format!("soak-uid-{}", self.made));
        self.count("pods run");
        self.runtime.run_pod(&spec, &[ContainerSpec::new("app"), ContainerSpec::new("side")])
    }

    fn unmake(&mut self, pod: &Pod) {
        self.runtime.stop_pod(&pod.sandbox_id);
        self.runtime.remove_pod(&pod.sandbox_id);
        self.count("pods removed");
    }

    /// Makes one ordinary change, and sometimes causes a fault.
    fn step(&mut self, number: usize) {
        if self.pods.len() >= PODS {
            let oldest = self.pods.remove(0);
            self.unmake(&oldest);
        }
        let pod = self.make();
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

/// Runs `health` while there is no fault that would make PLEG unhealthy, or while the daemon is stopped.
fn verdict(program: &Path, endpoint: &str) -> (String, Value) {
    let arguments = ["health", "-o", "json", "-r", endpoint];
    let output =
        Invocation::program(program.to_str().unwrap(), &arguments).on_this_machine().bound(PATIENCE).run();
    let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"));
    (report["verdict"].as_str().unwrap().to_owned(), report)
}

/// Starts a long run. Its output goes into its log or capture, because an unread stdout would block it.
fn start(program: &Path, words: &[&str]) -> Running {
    let quiet = ["-c", "exec \"$0\" \"$@\" > /dev/null", program.to_str().unwrap()];
    Invocation::program("sh", &[&quiet, words].concat()).on_this_machine().bound(STARVED).spawn()
}

/// The time limit of a command whose speed is not tested, on a busy machine. `benches/` measures speed as ratios.
const STARVED: Duration = Duration::from_secs(600);

/// Reads the whole capture and returns how long that took.
fn check(program: &Path, capture: &Path) -> (Output, Duration) {
    let began = Instant::now();
    let arguments = ["capture", "check", capture.to_str().unwrap()];
    let output =
        Invocation::program(program.to_str().unwrap(), &arguments).on_this_machine().bound(STARVED).run();
    (output, began.elapsed())
}

/// The size limit of a capture.
const CAPTURE: u64 = 4 * 1024 * 1024;

/// The size of the files in a directory.
fn size(directory: &Path) -> u64 {
    // A segment may be deleted between the listing and the query of its size.
    fs::read_dir(directory)
        .unwrap()
        .filter_map(|entry| entry.unwrap().metadata().ok())
        .map(|file| file.len())
        .sum()
}

/// Memory and descriptors have not grown, and there are no zombies.
fn flat(who: &str, seen: &[Figures]) {
    let (early, late) = (seen[seen.len() / 10], seen[seen.len() - 1]);
    assert!(seen.iter().all(|figures| figures.zombies == 0), "{who}: {seen:#?}");
    assert!(late.resident_kib < early.resident_kib * 3 / 2 + GAIN_KIB, "{who}: {early}, then {late}");
    // The minimum counts: the descriptors of a stream and its guard come and go, but a leak stays.
    let at_rest = |some: &[Figures]| some.iter().map(|figures| figures.descriptors).min().unwrap();
    let third = seen.len().div_ceil(3);
    let (first, last) = (at_rest(&seen[..third]), at_rest(&seen[seen.len() - third..]));
    assert!(last <= first + SPARE_DESCRIPTORS, "{who}: {first} descriptors, then {last}");
}

#[test]
fn soak() {
    let Some(runtime) = real(Containerd::V2) else { return };
    let length = std::env::var("PLEGCTL_SOAK").ok();
    let length = length.map_or(SHORT, |text| humantime::parse_duration(&text).unwrap());
    let beat = (length / 10).min(Duration::from_secs(60));
    let folder = std::env::temp_dir().join(format!("plegctl-soak-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let (program, log, capture) = (copied(&folder), folder.join("watch.jsonl"), folder.join("capture"));
    let (endpoint, ports) = (runtime.endpoint(), [free_port(), free_port()]);
    let listen = ports.map(|port| format!("127.0.0.1:{port}"));
    // A daemon that restarts refuses thousands of streams.
    let words = ["watch", "--mode", "compare", "--retries", "1000000", "-o", "jsonl", "-q", "-r", &endpoint];
    let more = ["--log", log.to_str().unwrap(), "--metrics-listen", &listen[0]];
    let watch = start(&program, &[&words[..], &more].concat());
    let most = format!("{}KiB", CAPTURE / 1024);
    let words =
        ["record", capture.to_str().unwrap(), "--max-size", &most, "--before", "10s", "--after", "10s"];
    let more = ["--period", "1s", "--metrics-listen", &listen[1], "-r", &endpoint];
    let record = start(&program, &[&words[..], &more].concat());
    let mut churn = Churn { runtime: &runtime, pods: Vec::new(), made: 0, done: BTreeMap::new() };
    let (began, mut number) = (Instant::now(), 0);
    let (mut next, mut wrong) = (beat, Vec::new());
    let (mut seen, mut recorder): (Vec<Figures>, Vec<Figures>) = Default::default();
    let mut verdicts: BTreeMap<String, usize> = BTreeMap::new();
    while began.elapsed() < length {
        churn.step(number);
        number += 1;
        if began.elapsed() < next {
            continue;
        }
        next += beat;
        let (figures, recording) = (Figures::of(watch.pid()), Figures::of(record.pid()));
        for port in ports {
            let metrics = scrape(port);
            assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
        }
        let kept = size(&capture);
        assert!(kept <= CAPTURE, "a capture of {kept} bytes");
        let (said, report) = verdict(&program, &endpoint);
        if said == "unhealthy" || said == "unknown" {
            wrong.push(report);
        }
        *verdicts.entry(said.clone()).or_default() += 1;
        if seen.len() % 5 == 4 {
            let stopped = runtime.stop_daemon();
            let (said, report) = verdict(&program, &endpoint);
            drop(stopped);
            if said != "unhealthy" {
                wrong.push(report);
            }
            *verdicts.entry(format!("{said} of a stopped daemon")).or_default() += 1;
            // The capture is read while the recorder writes to it.
            let (checked, took) = check(&program, &capture);
            assert_eq!(checked.code, Some(0), "{checked}");
            println!("the capture read in {took:.1?}");
        }
        println!(
            "{:>6.0?} {figures}; {said}; log {} KiB; record {recording}; capture {} KiB",
            began.elapsed(),
            fs::metadata(&log).unwrap().len() / 1024,
            kept / 1024,
        );
        seen.push(figures);
        recorder.push(recording);
    }
    watch.signal("INT");
    record.signal("INT");
    let (output, kept) = (watch.wait(), record.wait());
    let (checked, took) = check(&program, &capture);
    println!("{kept}\n{checked}\nread in {took:.1?}");
    println!("{number} steps: {:?}\nverdicts: {verdicts:?}", churn.done);
    let text = fs::read_to_string(&log).unwrap();
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for record in &records {
        *kinds.entry(record["kind"].as_str().unwrap()).or_default() += 1;
    }
    let summary = records.iter().rfind(|record| record["kind"] == "WatchSummary").unwrap();
    println!("records: {kinds:?}\nsummary: {summary}");
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!((kept.code, checked.code), (Some(0), Some(0)), "{kept}\n{checked}");
    assert_eq!(wrong, Vec::<Value>::new(), "verdicts that are wrong");
    flat("watch", &seen);
    flat("record", &recorder);
}
