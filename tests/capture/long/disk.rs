//! Tests of the recorder on a full disk, on a disk that does not answer, and on a disk on which files cannot be deleted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use plegctl_engine::capture::Capture;
use plegctl_engine::cri::Rpc;

use crate::capture::service::get;
use crate::support::address::free_address;
use crate::support::captures::{CaptureDir, argument, skip};
use crate::support::plegctl::{Invocation, Output, plegctl};
use crate::support::{FakeRuntime, Node, RuntimeKind};

/// A small file system.
struct Disk(CaptureDir);

impl Disk {
    /// Creates a file system in memory.
    fn in_memory(options: &str) -> Option<Self> {
        let (place, target) = Self::target();
        let mounted = succeeds("mount", &["-t", "tmpfs", "-o", options, "tmpfs", argument(&target)]);
        mounted.then_some(Self(place))
    }

    /// Creates a file system in a file, with a loop device.
    fn in_a_file(bytes: u64) -> Option<Self> {
        let (place, target) = Self::target();
        let image = place.path("image");
        fs::File::create(&image).unwrap().set_len(bytes).unwrap();
        let is_mounted = succeeds("mkfs.ext4", &["-q", "-F", argument(&image)])
            && succeeds("mount", &["-o", "loop", argument(&image), argument(&target)]);
        is_mounted.then_some(Self(place))
    }

    /// Creates the directory on which the small disk is mounted.
    fn target() -> (CaptureDir, PathBuf) {
        let place = CaptureDir::make();
        let target = place.path("disk");
        fs::create_dir_all(&target).unwrap();
        (place, target)
    }
}

/// Whether the program can be run and succeeds.
fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path("disk")).status();
    }
}

/// Returns the node in one relist. Each relist has one new container with new random annotations instead of the
/// previous one, so each relist needs the same space in the capture on any machine.
fn node(relist: u32) -> Node {
    let noise = |number: u32| {
        let mut state = u64::from(relist * 64 + number) + 1;
        state = state.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        state ^= state >> 29;
        format!("{:016x}", state.wrapping_mul(0xBF58_476D_1CE4_E5B9))
    };
    let node = Node::many(5, 1).pod("default/short", "uid-short").sandbox("short");
    let node = node.container(&format!("short-{relist}"), "short");
    (0..32).fold(node, |node, number| node.annotation(&noise(number), &noise(number + 32)))
}

/// The number of relists: far more than fit on the disk.
const RELISTS: u32 = 200;

/// Records [`RELISTS`] relists, more than fit on the disk. Returns the recorder's output and the capture.
fn recorded(directory: &Path, more: &[&str]) -> (Output, Capture) {
    let fake = FakeRuntime::start_steps(RuntimeKind::Containerd21, (0..RELISTS).map(node));
    let (count, endpoint) = (RELISTS.to_string(), fake.endpoint());
    let how = ["record", "-r", &endpoint, argument(directory), "--period", "1ms", "--count", &count];
    let how = [how.as_slice(), &["--no-host", "--no-diagnose"], more].concat();
    let output = plegctl(&how);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("recorded 200 relists"), "{output}");
    let capture = Capture::open(directory).unwrap();
    assert_eq!(capture.damaged(), 0);
    (output, capture)
}

/// With these options, no call counts as slow on a busy machine, so no incident pins a segment.
const NEVER_SLOW: [&str; 2] = ["--slow", "1h"];

/// Asserts that the newest entries replace the oldest, and that no new entry is lost.
fn assert_newest_are_kept(directory: &Path, more: &[&str]) {
    let (output, capture) = recorded(directory, &[&NEVER_SLOW, more].concat());
    assert!(!output.stdout.contains("lost"), "{output}");
    assert!(capture.dropped > 0, "{output}");
    let numbers: Vec<_> = capture.relists.iter().map(|relist| relist.done.number).collect();
    let first = numbers[0];
    assert_eq!(numbers, (first..=u64::from(RELISTS)).collect::<Vec<_>>());
    assert!(first > 1 && numbers.len() > 3, "from {first}");
}

/// Makes the whole capture one incident. Asserts that the recording stops with a reason, and that the relists continue.
fn assert_recording_stops(directory: &Path) {
    let (output, capture) = recorded(directory, &["--slow", "1us"]);
    assert!(output.stdout.contains("No space left on device"), "{output}");
    assert!(output.stdout.contains("entries lost"), "{output}");
    let kept = capture.relists.len();
    assert!(kept > 3 && kept < 200, "{kept} relists");
    let replayed = plegctl(&["watch", "-r", &format!("capture:{}@+0s", argument(directory)), "-o", "jsonl"]);
    assert_eq!(replayed.code, Some(0), "{replayed}");
    assert!(replayed.stdout.contains("\"kind\":\"WatchSummary\""), "{replayed}");
}

/// Fills the disk, also root's reserved blocks, until this many bytes are free.
fn fill_except(disk: &Disk, bytes: u64) {
    let mount = disk.0.path("disk");
    let free = rustix::fs::statvfs(&mount).map(|about| about.f_bfree * about.f_frsize).unwrap();
    fs::write(mount.join("other-data"), vec![7; usize::try_from(free - bytes).unwrap()]).unwrap();
}

#[test]
fn full_disk_keeps_the_newest_entries_and_drops_the_oldest() {
    let Some(disk) = Disk::in_memory("size=4m") else {
        return skip("a file system cannot be mounted here (not root?)");
    };
    fill_except(&disk, 150 << 10);
    assert_newest_are_kept(&disk.0.path("disk/capture"), &[]);
}

#[test]
fn disk_without_inodes_keeps_the_newest_entries_and_drops_the_oldest() {
    // The root directory, the capture directory, the lock file and two segments need an inode each.
    let Some(disk) = Disk::in_memory("size=16m,nr_inodes=5") else {
        return skip("a file system cannot be mounted here (not root?)");
    };
    assert_newest_are_kept(&disk.0.path("disk/capture"), &["--max-size", "1MiB"]);
}

#[test]
fn full_loop_device_keeps_the_newest_entries() {
    let Some(disk) = Disk::in_a_file(4 << 20) else {
        return skip("a loop device cannot be mounted here (not root, or no mkfs.ext4?)");
    };
    // More than on tmpfs, because the file system itself needs some of the space.
    fill_except(&disk, 240 << 10);
    assert_newest_are_kept(&disk.0.path("disk/capture"), &[]);
}

#[test]
fn disk_full_of_one_incident_stops_the_recording_but_not_the_relists() {
    let Some(disk) = Disk::in_memory("size=4m") else {
        return skip("a file system cannot be mounted here (not root?)");
    };
    fill_except(&disk, 150 << 10);
    assert_recording_stops(&disk.0.path("disk/capture"));
}

#[test]
fn recorder_waits_for_a_disk_on_which_it_cannot_create_its_directory() {
    let Some(disk) = Disk::in_memory("size=4m,nr_inodes=1") else {
        return skip("a file system cannot be mounted here (not root?)");
    };
    let directory = disk.0.path("disk/capture");
    let how = ["record", "-r", "sim:quiet", argument(&directory), "--count", "2", "--period", "1ms"];
    let output = plegctl(&how);
    assert_eq!(output.code, Some(0), "{output}");
    let waits: Vec<_> =
        output.stdout.lines().filter(|line| line.starts_with("waiting for the disk")).collect();
    assert!(waits.len() == 1 && waits[0].contains("No space left on device"), "{output}");
    assert!(
        output.stdout.contains("recorded 2 relists") && output.stdout.contains("entries lost"),
        "{output}"
    );
}

/// A segment that even root cannot delete.
#[test]
fn immutable_segment_does_not_make_the_capture_exceed_its_size() {
    let Some(disk) = Disk::in_a_file(8 << 20) else {
        return skip("a loop device cannot be mounted here (not root, or no mkfs.ext4?)");
    };
    let directory = disk.0.path("disk/capture");
    recorded(&directory, &[&NEVER_SLOW[..], &["--max-size", "256KiB"]].concat());
    let segments = || {
        let files = fs::read_dir(&directory).unwrap().map(|file| file.unwrap());
        let mut segments: Vec<_> =
            files.filter(|file| file.file_name() != "lock").map(|file| file.path()).collect();
        segments.sort();
        segments
    };
    let immutable = segments().remove(0);
    if !succeeds("chattr", &["+i", argument(&immutable)]) {
        return skip("a file cannot be made immutable here (not root, or no chattr?)");
    }
    recorded(&directory, &[&NEVER_SLOW[..], &["--max-size", "256KiB"]].concat());
    let size: u64 = segments().iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert!(succeeds("chattr", &["-i", argument(&immutable)]));
    assert!(immutable.exists() && segments().len() > 1, "{:?}", segments());
    assert!(size <= 256 << 10, "{size} bytes");
}

/// A frozen file system: each write to it waits until this is dropped.
struct Frozen(PathBuf);

impl Frozen {
    fn freeze(mount: PathBuf) -> Option<Self> {
        succeeds("fsfreeze", &["--freeze", argument(&mount)]).then_some(Self(mount))
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        assert!(succeeds("fsfreeze", &["--unfreeze", argument(&self.0)]));
    }
}

/// Waits until the condition is true, however long a busy machine takes.
fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_true() {
        assert!(since.elapsed() < Duration::from_secs(300), "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The number of entries that a recorder has lost, from its metrics page.
fn lost_entries(address: &str) -> u64 {
    let (_, page) = get(address, "/metrics", "");
    let line = page.lines().find_map(|line| line.strip_prefix("plegctl_record_lost_entries_total "));
    line.unwrap().parse().unwrap()
}

/// The longest silence after which a call certainly hangs, with [`Invocation::with_short_silences`], and some more.
const SILENT: Duration = Duration::from_secs(5);

#[test]
fn disk_that_stalls_does_not_make_a_healthy_runtime_look_hung() {
    let Some(disk) = Disk::in_a_file(64 << 20) else {
        return skip("a loop device cannot be mounted here (not root, or no mkfs.ext4?)");
    };
    let mount = disk.0.path("disk");
    let directory = mount.join("capture");
    let pods = |exited: bool| {
        (0..8).fold(Node::new(), |node, number| {
            let name = format!("shop/web-{number}");
            let node = node.pod(&name, &format!("uid-{number}")).sandbox(&format!("sandbox-{number}"));
            let node = node.container(&format!("container-{number}"), "web");
            if exited { node.exited(0) } else { node }
        })
    };
    let fake = FakeRuntime::start(pods(false));
    let (endpoint, address) = (fake.endpoint(), free_address());
    let how = ["record", "-r", &endpoint, argument(&directory), "--period", "20ms", "--max-size", "1MiB"];
    let options = ["--no-host", "--no-diagnose", "--slow", "1h", "--metrics-listen", &address];
    let mut recorder = Invocation::new(&[how.as_slice(), &options].concat()).spawn();
    recorder.until("recording");
    wait_until("no relist was written", || Capture::open(&directory).is_ok_and(|now| now.relists.len() > 2));
    let Some(frozen) = Frozen::freeze(mount) else {
        return skip("a file system cannot be frozen here (no fsfreeze?)");
    };
    let stalled = Instant::now();
    // The answers fill the queue. Then each container exits, so that each has a status call whose answer does not fit.
    for rpc in [Rpc::ListContainers, Rpc::ContainerStatus] {
        fake.on(rpc).oversize(1 << 20);
    }
    wait_until("the queue is not full", || lost_entries(&address) > 0);
    let statuses = fake.calls_of(Rpc::ContainerStatus).len();
    fake.set_node(pods(true));
    fake.wait_for(Rpc::ContainerStatus, statuses + 8);
    let lists = fake.calls_of(Rpc::ListPodSandbox).len();
    fake.wait_for(Rpc::ListPodSandbox, lists + 3);
    fake.remove_rules();
    // An open call is silent only some time after it was sent.
    wait_until("time stands still", || stalled.elapsed() > SILENT);
    drop(frozen);
    let capture = || Capture::open(&directory).unwrap();
    let verdict = |capture: &Path| {
        let endpoint = format!("capture:{}", argument(capture));
        let output = Invocation::new(&["health", "-r", &endpoint, "-o", "json"]).with_short_silences().run();
        let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        (report["verdict"].as_str().unwrap().to_owned(), report["culprits"].clone(), output.to_string())
    };
    let assert_healthy = |what: &str, capture: &Path| {
        let (verdict, culprits, output) = verdict(capture);
        assert!(verdict == "healthy" && culprits.as_array().is_none_or(Vec::is_empty), "{what}: {output}");
    };
    wait_until("the disk does not work again", || !capture().losses.is_empty());
    // The newest relist can be one of which an answer was lost. Nothing is judged from it.
    wait_until("no whole relist after the stall", || verdict(&directory).0 != "unknown");
    assert_healthy("the full capture", &directory);
    let now = capture().relists.last().unwrap().wall.to_string();
    let exported = disk.0.path("after.plegcap");
    wait_until("no relist after the stall", || capture().relists.last().unwrap().wall.to_string() > now);
    let export = ["capture", "export", argument(&directory), argument(&exported), "--from", &now];
    let output = plegctl(&export);
    assert_eq!(output.code, Some(0), "{output}");
    assert_healthy("the export", &exported);
    let dropped = capture().dropped;
    wait_until("the loss is not evicted", || capture().losses.is_empty() && capture().dropped > dropped);
    assert_healthy("the evicted capture", &directory);
    recorder.signal("TERM");
    assert_eq!(recorder.wait().code, Some(0));
    let list = plegctl(&["capture", "report", argument(&directory), "-o", "json"]);
    let list: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
    assert_eq!(list["calls"], serde_json::json!([]), "no call was slow or hung");
}
