//! A disk that is full.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use plegctl::capture::Capture;

use crate::support::captures::{Place, skip, word};
use crate::support::plegctl::plegctl;
use crate::support::{FakeRuntime, Kind, Node};

/// A small file system.
struct Disk(Place);

impl Disk {
    /// In memory.
    fn in_memory(size: &str) -> Option<Self> {
        let (place, target) = Self::target();
        let options = format!("size={size}");
        let mounted = done("mount", &["-t", "tmpfs", "-o", &options, "tmpfs", word(&target)]);
        mounted.then_some(Self(place))
    }

    /// In a file, by a loop device.
    fn in_a_file(bytes: u64) -> Option<Self> {
        let (place, target) = Self::target();
        let image = place.path("image");
        fs::File::create(&image).unwrap().set_len(bytes).unwrap();
        let made = done("mkfs.ext4", &["-q", "-F", word(&image)])
            && done("mount", &["-o", "loop", word(&image), word(&target)]);
        made.then_some(Self(place))
    }

    fn target() -> (Place, PathBuf) {
        let place = Place::make();
        let target = place.path("disk");
        fs::create_dir_all(&target).unwrap();
        (place, target)
    }
}

fn done(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path("disk")).status();
    }
}

/// The node of a relist: one container more or less each time, whose name and annotations nobody has said before, so that
/// each relist takes as much as any other, however fast the machine is.
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

/// How many relists there are: far more than the disk takes.
const RELISTS: u32 = 200;

/// Records until the disk is full and beyond: the watch goes on, and says what became of the recording.
fn filled(disk: &Disk) {
    let mount = disk.0.path("disk");
    let directory = mount.join("capture");
    let fake = FakeRuntime::start_steps(Kind::Containerd21, (0..RELISTS).map(node));
    let (count, endpoint) = (RELISTS.to_string(), fake.endpoint());
    let how = ["record", "-r", &endpoint, word(&directory), "--period", "1ms", "--count", &count];
    let how = [how.as_slice(), &["--no-host", "--no-diagnose"]].concat();
    let output = plegctl(&how);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("recorded 200 relists"), "{output}");
    assert!(output.stdout.contains("No space left on device"), "{output}");
    assert!(output.stdout.contains("entries lost"), "{output}");
    let capture = Capture::open(&directory).unwrap();
    assert_eq!(capture.damaged(), 0);
    let kept = capture.relists.len();
    assert!(kept > 3 && kept < 200, "{kept} relists");
    let replayed = plegctl(&["watch", "-r", &format!("capture:{}@+0s", word(&directory)), "-o", "jsonl"]);
    assert_eq!(replayed.code, Some(0), "{replayed}");
    assert!(replayed.stdout.contains("\"kind\":\"WatchSummary\""), "{replayed}");
}

/// Leaves so many bytes, those in reserve for root among them: the rest is somebody else's.
fn leave(disk: &Disk, bytes: u64) {
    let mount = disk.0.path("disk");
    let free = rustix::fs::statvfs(&mount).map(|about| about.f_bfree * about.f_frsize).unwrap();
    fs::write(mount.join("somebody"), vec![7; usize::try_from(free - bytes).unwrap()]).unwrap();
}

#[test]
fn a_disk_that_fills_stops_the_recording_and_not_the_watching() {
    let Some(disk) = Disk::in_memory("4m") else {
        return skip("a file system cannot be mounted here (not root?)");
    };
    leave(&disk, 150 << 10);
    filled(&disk);
}

#[test]
fn a_loop_device_of_four_mebibytes_that_fills_does_the_same() {
    let Some(disk) = Disk::in_a_file(4 << 20) else {
        return skip("a loop device cannot be mounted here (not root, or no mkfs.ext4?)");
    };
    // The file system needs room of its own: with less, hardly a segment is had.
    leave(&disk, 240 << 10);
    filled(&disk);
}
