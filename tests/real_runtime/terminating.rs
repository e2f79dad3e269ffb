//! `pods --why` names what holds a pod that is being deleted, and nothing for a pod that ends as it should. The pods are
//! real, and so are the umount and the program that wait for a FUSE file system that does not answer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, SystemTime};

use rustix::process::Pid;
use serde_json::{Value, json};

use crate::daemon::RealRuntime;
use crate::faults::{arguments, processes};
use crate::hanging_disk::HangingDisk;
use crate::packages::Containerd;
use crate::plegctl::{Invocation, copy_program};
use crate::pods::{ContainerSpec, Pod, PodSpec};
use crate::{real, wait_for};

on_each_containerd! {
    a_container_that_ignores_sigterm_holds_its_pod_and_a_well_one_does_not
    a_program_that_waits_for_a_silent_volume_holds_its_pod
    an_umount_that_waits_for_a_silent_daemon_holds_its_pod
}

/// The pod of the API server's list that was deleted with a grace period of 30 s, so that the period ends or ended at `at`.
fn deleted(pod: &Pod, name: &str, at: SystemTime, finalizers: &[&str]) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "shop", "uid": pod.uid, "finalizers": finalizers,
            "deletionTimestamp": humantime::format_rfc3339_seconds(at).to_string(), "deletionGracePeriodSeconds": 30,
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "app"}]},
    })
}

fn ten_minutes_ago() -> SystemTime {
    SystemTime::now() - Duration::from_secs(600)
}

/// Runs `pods --why` and returns its report.
fn why(runtime: &RealRuntime, node: &Path, name: &str, pods: &[Value]) -> Value {
    let file = runtime.directory().join("pods.json");
    fs::write(&file, json!({"kind": "List", "items": pods}).to_string()).unwrap();
    let (file, pod) = (file.to_str().unwrap(), format!("shop/{name}"));
    let endpoint = runtime.endpoint();
    let words =
        ["pods", "-r", &endpoint, "--node-name", "n1", "--api-pods", file, "--why", &pod, "-o", "json"];
    let output = Invocation::new(&words).env("PLEGCTL_TEST_NODE", node).run();
    let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"));
    let code = i32::from(report["state"] == "held");
    assert_eq!(output.code, Some(code), "{output}");
    report
}

/// Makes the processes of a node look ten minutes older: an umount that is younger than 10 s may only be slow.
fn aged(node: PathBuf) -> PathBuf {
    let uptime = fs::read_to_string("/proc/uptime").unwrap();
    let seconds: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
    let file = node.join("proc/uptime");
    fs::remove_file(&file).unwrap();
    fs::write(file, format!("{:.2} 0.00\n", seconds + 600.0)).unwrap();
    node
}

fn shop(name: &str) -> PodSpec {
    PodSpec::new(name).namespace("shop")
}

fn a_container_that_ignores_sigterm_holds_its_pod_and_a_well_one_does_not(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let loops = |trap: &str| ContainerSpec::new("app").shell(&format!("{trap}; while :; do sleep 1; done"));
    let stuck = runtime.run_pod(&shop("stuck"), &[loops("trap '' TERM")]);
    let well = runtime.run_pod(&shop("well"), &[loops("trap 'exit 0' TERM")]);
    let program = runtime.container_pid(&stuck.containers[0]).as_raw_nonzero().get();
    // A shell sets its traps a moment after its start.
    let ignores = || {
        let status = fs::read_to_string(format!("/proc/{program}/status")).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim().to_owned();
        (u64::from_str_radix(&mask, 16).unwrap() & 0x4000 != 0).then_some(())
    };
    wait_for("the shell to ignore SIGTERM", ignores);
    let node = runtime.node_with(&[]);
    let soon = SystemTime::now() + Duration::from_secs(120);
    let pods = [deleted(&stuck, "stuck", ten_minutes_ago(), &[]), deleted(&well, "well", soon, &[])];
    let found = why(&runtime, &node, "stuck", &pods);
    assert_eq!(found["holders"].as_array().unwrap().len(), 1, "{found:#}");
    let holder = &found["holders"][0];
    assert_eq!((&holder["kind"], &holder["pid"]), (&"container".into(), &program.into()), "{found:#}");
    let title = format!("sh[{program}] of container app ignores SIGTERM, and was not sent SIGKILL");
    assert_eq!(holder["title"], title, "{found:#}");
    let grace = why(&runtime, &node, "well", &pods);
    assert_eq!((&grace["state"], &grace["holders"]), (&"inGrace".into(), &json!([])), "{grace:#}");

    runtime.stop_pod(&stuck.sandbox_id);
    let node = runtime.node_with(&[]);
    let free = why(&runtime, &node, "stuck", &pods);
    assert_eq!((&free["state"], &free["holders"]), (&"free".into(), &json!([])), "{free:#}");
    let pods = [deleted(&stuck, "stuck", ten_minutes_ago(), &["example.com/backup"])];
    let kept = why(&runtime, &node, "stuck", &pods);
    assert_eq!(kept["holders"][0]["kind"], "finalizer", "{kept:#}");
    assert_eq!(kept["finalizers"], json!(["example.com/backup"]));
}

/// The directory of a CSI volume of the pod, as the kubelet creates it.
fn csi_volume(runtime: &RealRuntime, uid: &str) -> PathBuf {
    let volume = runtime.directory().join(format!("kubelet/pods/{uid}/volumes/kubernetes.io~csi/pvc-1"));
    fs::create_dir_all(&volume).unwrap();
    volume
}

fn state_of(pid: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn a_program_that_waits_for_a_silent_volume_holds_its_pod(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let spec = shop("db-0");
    // The tests of other versions run at the same time, and their volumes must belong to other pods.
    let uid = format!("7f0c2a4e-0000-4000-8000-{:012}", runtime.daemon_pid().as_raw_nonzero());
    let uid = uid.as_str();
    let volume = csi_volume(&runtime, uid);
    let disk = HangingDisk::mount(volume.join("mount"));
    // The mount of the directory above brings the silent file system with it.
    // The file's name tells this program from those of the tests that run at the same time.
    let file = format!("/data/mount/{}", runtime.daemon_pid().as_raw_nonzero());
    let command = format!("cat {file}; sleep 1000");
    let reads = ContainerSpec::new("app").mount(&volume, "/data").shell(&command);
    let pod = runtime.run_pod(&spec.uid(uid), &[reads]);
    let waits = |pid: &Pid| arguments(*pid).contains(&file) && state_of(*pid) == Some('D');
    let reader = wait_for("the program to wait for its file", || processes().find(waits));
    let reader = reader.as_raw_nonzero().get();
    let node = runtime.node_with(&[]);
    let found = why(&runtime, &node, "db-0", &[deleted(&pod, "db-0", ten_minutes_ago(), &[])]);
    let holder = &found["holders"][0];
    assert_eq!((&holder["kind"], &holder["pid"]), (&"kernel".into(), &reader.into()), "{found:#}");
    let title = holder["title"].as_str().unwrap();
    let begin = format!("cat[{reader}] of container app waits for the file system hang (fuse)");
    assert!(title.starts_with(&begin), "{found:#}");
    assert_eq!(holder["kernelReason"]["id"], "KR04", "{found:#}");
    assert!(found["summary"].as_str().unwrap().ends_with(title), "{found:#}");
    drop(disk);
}

/// A copy of the shell with the name of a CSI driver, which unmounts a path.
struct CsiDriver(Child);

impl CsiDriver {
    fn unmount(runtime: &RealRuntime, path: &Path) -> Self {
        let program = runtime.directory().join("csi-hang");
        copy_program("/bin/sh", &program);
        let driver = Command::new(program)
            .args(["-c", "umount \"$1\"; :", "csi-hang"])
            .arg(path)
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .spawn();
        Self(driver.unwrap())
    }
}

impl Drop for CsiDriver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn an_umount_that_waits_for_a_silent_daemon_holds_its_pod(version: Containerd) {
    let Some(runtime) = real(version) else { return };
    let pod = runtime.run_pod(&shop("db-0"), &[ContainerSpec::new("app")]);
    let other = runtime.run_pod(&shop("web-0"), &[ContainerSpec::new("app")]);
    let mount = csi_volume(&runtime, &pod.uid).join("mount");
    let disk = HangingDisk::mount(mount.clone());
    let driver = CsiDriver::unmount(&runtime, &mount);
    let path = mount.to_str().unwrap();
    let waits = |pid: &Pid| {
        let words = arguments(*pid);
        words.len() > 1 && words[0] == "umount" && words[1] == path && state_of(*pid) == Some('D')
    };
    let umount = wait_for("the umount to wait", || processes().find(waits)).as_raw_nonzero().get();
    runtime.stop_pod(&pod.sandbox_id);
    runtime.stop_pod(&other.sandbox_id);
    let node = aged(runtime.node_with(&[]));
    let pods =
        [deleted(&pod, "db-0", ten_minutes_ago(), &[]), deleted(&other, "web-0", ten_minutes_ago(), &[])];
    let found = why(&runtime, &node, "db-0", &pods);
    let holder = &found["holders"][0];
    assert_eq!((&holder["kind"], &holder["pid"]), (&"umount".into(), &umount.into()), "{found:#}");
    let title = format!("umount of hang (fuse) by csi-hang[{}] does not return", driver.0.id());
    assert_eq!(holder["title"], title, "{found:#}");
    assert_eq!(holder["path"], path, "{found:#}");
    assert_ne!(holder["confidence"], "possible", "{found:#}");
    assert_eq!(holder["kernelReason"]["id"], "KR04", "{found:#}");
    let free = why(&runtime, &node, "web-0", &pods);
    assert_eq!((&free["state"], &free["holders"]), (&"free".into(), &json!([])), "{free:#}");
    drop((disk, driver));
}
