//! Tests of the recorder on a full disk, and on a disk on which files cannot be deleted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use plegctl::capture::Capture;

use crate::support::captures::{CaptureDir, argument, skip};
use crate::support::plegctl::{Output, plegctl};
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
