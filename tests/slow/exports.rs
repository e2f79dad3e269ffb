//! `/capture?anonymise=1` of a recorder with large lists or many names needs little memory.

use std::fs;
use std::path::{Path, PathBuf};

use plegctl_engine::capture::{Capture, RecordedCall};
use plegctl_engine::cri::Rpc;

use crate::capture::exports::{Served, TOKEN, write_token};
use crate::support::address::free_address;
use crate::support::captures::{CaptureDir, argument, record, skip};
use crate::support::memory_use::{EXPORT_MEMORY, MemoryUse};
use crate::support::plegctl::Invocation;
use crate::support::{FakeRuntime, Node, RuntimeKind};

/// Returns a node with one container, which has an annotation of 512 KiB that needs little space on the disk.
fn with_an_annotation(relist: usize) -> Node {
    let node = Node::new().pod("default/web", "uid-1").sandbox("s1").container("c1", "web");
    node.annotation("example.com/notes", &format!("{relist:08}").repeat(1 << 16))
}

/// Returns a node with one container, which has 9000 labels whose values no other relist has.
pub fn with_other_labels(relist: usize) -> Node {
    let node = Node::new().pod("default/web", "uid-1").sandbox("s1").container("c1", "web");
    (0..9000).fold(node, |node, label| node.label(&format!("l{label}"), &format!("{relist}-{label}")))
}

#[test]
fn anonymised_export_of_large_lists_or_many_names_needs_little_memory() {
    for (number, of) in [with_an_annotation, with_other_labels].into_iter().enumerate() {
        let fake = FakeRuntime::start_steps(RuntimeKind::Containerd21, (0..40).map(of));
        let place = CaptureDir::make();
        record_forty(&fake.endpoint(), &place.path("capture"));
        fake.set_node(Node::default());
        let how = ["--period", "1h", "--no-host", "--no-diagnose", "--slow", "1h"];
        let mut served = Served::start_in(place, &fake.endpoint(), Some(TOKEN), &how);
        served.until("recording");
        fake.wait_for(Rpc::ListContainers, 41);
        let Some(memory) = MemoryUse::start(served.running.pid()) else {
            return skip("the highest memory use of a process cannot be reset here");
        };
        let (status, exported) = served.get("/capture?anonymise=1", Some(TOKEN));
        let more = memory.growth();
        let file = served.place.path("all.plegcap");
        fs::write(&file, exported.unwrap()).unwrap();
        println!("case {number}: {} KiB more", more >> 10);
        assert!(status == 200 && more <= EXPORT_MEMORY, "case {number}: {} KiB more", more >> 10);
        assert_has_lists(&file, 40);
        served.end();
    }
}

/// Records 40 relists, in parts: the lists and statuses of ten relists are smaller than a recorder's queue, so that a slow disk
/// loses none.
pub fn record_forty(endpoint: &str, directory: &Path) {
    for _ in 0..4 {
        let how = ["--count", "10", "--period", "1ms", "--no-host", "--no-diagnose", "--slow", "1h"];
        record(endpoint, directory, &how);
    }
}

/// Asserts that the lists of an exported capture can be read, and that there are this many of them and of relists.
pub fn assert_has_lists(file: &Path, count: usize) {
    let capture = Capture::open(file).unwrap();
    assert!(capture.relists.len() >= count, "{} relists", capture.relists.len());
    let listed = capture.calls.iter().filter(|call| call.rpc == Rpc::ListContainers).take(count);
    let readable = |call: &&RecordedCall| {
        let messages = call.end.as_ref().and_then(|end| capture.messages(end));
        messages.is_some_and(|messages| !messages.is_empty())
    };
    assert_eq!(listed.filter(readable).count(), count);
}

/// The memory limit of the recorder's container in our `DaemonSet`.
const CONTAINER_MEMORY: u64 = 192 << 20;

/// A control group with a memory limit, which is removed when this is dropped.
struct MemoryLimit(PathBuf);

impl MemoryLimit {
    /// Creates the group; `None` if that is not possible here.
    fn create(bytes: u64) -> Option<Self> {
        let version_1 = [("memory.limit_in_bytes", bytes), ("memory.memsw.limit_in_bytes", bytes)];
        let version_2 = [("memory.max", bytes), ("memory.swap.max", 0)];
        [("/sys/fs/cgroup/memory", version_1), ("/sys/fs/cgroup", version_2)].into_iter().find_map(
            |(parent, [(limit, bytes), (swap, with_swap)])| {
                let group = Self(Path::new(parent).join(format!("plegctl-test-{}", std::process::id())));
                fs::create_dir(&group.0).ok()?;
                fs::write(group.0.join(limit), bytes.to_string()).ok()?;
                // Without swap, this file may be missing.
                let _ = fs::write(group.0.join(swap), with_swap.to_string());
                Some(group)
            },
        )
    }

    /// Returns a command line that runs `words` in the group.
    fn run<'a>(&'a self, words: &[&'a str]) -> Vec<&'a str> {
        let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
        [&["-c", script, argument(&self.0), env!("CARGO_BIN_EXE_plegctl")], words].concat()
    }

    /// Returns the highest memory use, with the files in memory that the processes wrote.
    fn highest(&self) -> u64 {
        let names = ["memory.max_usage_in_bytes", "memory.peak"];
        let text = names.iter().find_map(|name| fs::read_to_string(self.0.join(name)).ok());
        text.map_or(0, |text| text.trim().parse().unwrap())
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // The kernel removes a group some time after its last process.
        for _ in 0..50 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
}

/// Returns an annotation of 512 KiB that cannot be compressed by more than a quarter, and that no other relist has.
fn random_text(relist: u64) -> String {
    let mut state = relist.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let letter = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(letters[usize::try_from(state >> 58).unwrap()])
    };
    (0..1 << 19).map(letter).collect()
}

/// Returns a node whose list is large and different in each relist.
fn large_node(relist: u64) -> Node {
    let node = Node::new().pod("default/web", "uid-1").sandbox("s1").container("c1", "web");
    node.annotation("example.com/notes", &random_text(relist))
}

#[test]
fn recorder_in_a_container_with_its_capture_in_memory_survives_an_anonymised_export() {
    let Some(limit) = MemoryLimit::create(CONTAINER_MEMORY) else {
        return skip("a control group with a memory limit cannot be created here (not root?)");
    };
    if !Path::new("/dev/shm").is_dir() {
        return skip("there is no file system in memory");
    }
    let memory = CaptureDir::make_in(Path::new("/dev/shm"));
    let fake = FakeRuntime::start_steps(RuntimeKind::Containerd21, (0..140).map(large_node));
    let (directory, token, address) = (memory.path("capture"), memory.path("token"), free_address());
    write_token(&token, TOKEN, 0o400);
    let endpoint = fake.endpoint();
    let start = |more: &[&str]| {
        let how = ["record", "-r", &endpoint, argument(&directory), "--max-size", "48MiB"];
        let always = ["--no-host", "--no-diagnose", "--slow", "1h"];
        let words = [&how[..], &always, more].concat();
        Invocation::program("sh", &limit.run(&words)).with_short_silences().spawn()
    };
    // The recorder's queue has room for all calls of ten relists.
    for _ in 0..14 {
        let recorded = start(&["--count", "10", "--period", "1ms"]).wait();
        assert_eq!(recorded.code, Some(0), "{recorded}");
    }
    let relists = Capture::open(&directory).unwrap().relists;
    let from = relists[relists.len() - 25].wall;
    fake.set_node(Node::default());
    let running =
        start(&["--period", "1h", "--metrics-listen", &address, "--serve-token-file", argument(&token)]);
    let mut served = Served { running, address, place: memory, printed: Vec::new() };
    served.until("recording");
    fake.wait_for(Rpc::ListContainers, 141);
    let segments = fs::read_dir(&directory).unwrap();
    let size: u64 = segments.map(|segment| segment.unwrap().metadata().unwrap().len()).sum();
    let before = limit.highest();
    let (status, exported) = served.get(&format!("/capture?from={from}&anonymise=1"), Some(TOKEN));
    println!(
        "capture {} MiB, at most {} MiB before the export and {} MiB after it",
        size >> 20,
        before >> 20,
        limit.highest() >> 20
    );
    assert!(size > 40 << 20, "the capture is too small: {size} bytes");
    let file = served.place.path("part.plegcap");
    fs::write(&file, exported.expect("the export is complete")).unwrap();
    assert_eq!((status, served.get("/healthz", None).0), (200, 200));
    assert_has_lists(&file, 25);
    served.end();
}
