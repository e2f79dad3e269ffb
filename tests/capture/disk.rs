//! A disk that is full.

use std::fs;
use std::process::Command;

use plegctl::capture::Capture;

use crate::support::plegctl::plegctl;
use crate::{Place, skip, word};

/// A file system in memory of a few MiB.
struct Disk(Place);

impl Disk {
    fn mount(size: &str) -> Option<Self> {
        let place = Place::make();
        let target = place.path("disk");
        fs::create_dir_all(&target).unwrap();
        let options = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs", word(&target)])
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(Self(place))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path("disk")).status();
    }
}

#[test]
fn a_disk_that_fills_stops_the_recording_and_not_the_watching() {
    let Some(disk) = Disk::mount("4m") else {
        return skip("a file system cannot be mounted here (not root?)");
    };
    let mount = disk.0.path("disk");
    // Nearly all of it is somebody else's.
    fs::write(mount.join("somebody"), vec![7; (4 << 20) - (150 << 10)]).unwrap();
    let directory = mount.join("capture");
    let how = ["record", "-r", "sim:busy-deploy", word(&directory), "--period", "1ms", "--count", "200"];
    let output = plegctl(&how);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("recorded 200 relists"), "{output}");
    assert!(output.stdout.contains("No space left on device"), "{output}");
    assert!(output.stdout.contains("entries lost"), "{output}");
    let capture = Capture::open(&directory).unwrap();
    assert_eq!(capture.damaged(), 0);
    let kept = capture.relists.len();
    assert!(kept > 3 && kept < 200, "{kept} relists");
}
