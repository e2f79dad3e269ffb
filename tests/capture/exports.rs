//! `/capture` and `/verdict?facts=true` of a running recorder: who gets them, and what they contain.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plegctl_engine::capture::{Capture, RecordedCall};
use plegctl_engine::cri::Rpc;
use serde_json::Value;

use super::service::until;
use crate::support::address::free_address;
use crate::support::captures::{CaptureDir, argument, record, skip};
use crate::support::memory_use::{EXPORT_MEMORY, MemoryUse};
use crate::support::plegctl::{Invocation, Running, plegctl};
use crate::support::{FakeRuntime, Node, RuntimeKind};

const TOKEN: &str = "0123456789abcdef-first";
const NEXT_TOKEN: &str = "0123456789abcdef-second";

/// A recorder with a token file.
struct Served {
    running: Running,
    address: String,
    place: CaptureDir,
    /// The lines that were read from the recorder so far.
    printed: Vec<String>,
}

impl Served {
    fn start(endpoint: &str, token: Option<&str>, more: &[&str]) -> Self {
        Self::start_in(CaptureDir::make(), endpoint, token, more)
    }

    /// Starts a recorder that may find an earlier capture.
    fn start_in(place: CaptureDir, endpoint: &str, token: Option<&str>, more: &[&str]) -> Self {
        let address = free_address();
        let (directory, file) = (place.path("capture"), place.path("token"));
        if let Some(token) = token {
            write_token(&file, token, 0o400);
        }
        let how = ["record", "-r", endpoint, argument(&directory), "--metrics-listen", &address];
        let how = [&how[..], &["--serve-token-file", argument(&file)], more].concat();
        let running = Invocation::new(&how).with_short_silences().spawn();
        Self { running, address, place, printed: Vec::new() }
    }

    fn until(&mut self, words: &str) {
        let line = until(&mut self.running, words);
        self.printed.push(line);
    }

    fn token_file(&self) -> PathBuf {
        self.place.path("token")
    }

    /// Requests a page; returns the status and the body, which is `None` if its end is missing.
    fn get(&self, target: &str, token: Option<&str>) -> (u16, Option<Vec<u8>>) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let token = token.map(|token| format!("X-Plegctl-Token: {token}\r\n")).unwrap_or_default();
        stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: node\r\n{token}\r\n").as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(answer[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let body = &answer[end + 4..];
        let is_chunked = head.contains("Transfer-Encoding: chunked");
        (status, if is_chunked { joined(body) } else { Some(body.to_vec()) })
    }

    fn text(&self, target: &str, token: Option<&str>) -> (u16, String) {
        let (status, body) = self.get(target, token);
        (status, String::from_utf8_lossy(&body.unwrap()).into_owned())
    }

    /// Ends the recorder; returns the lines that were read before and all later output.
    fn end(self) -> String {
        self.running.signal("TERM");
        let output = self.running.wait();
        assert_eq!(output.code, Some(0), "{output}");
        format!("{}{}{}", self.printed.join("\n"), output.stdout, output.stderr)
    }
}

/// Joins the chunks of a body; `None` if the last one is missing.
fn joined(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(end + 2..end + 2 + length)?);
        rest = rest.get(end + 4 + length..)?;
    }
}

/// Replaces the token file, as the kubelet does when a Secret changes.
fn write_token(file: &Path, token: &str, mode: u32) {
    let new = file.with_extension("new");
    fs::write(&new, token).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(mode)).unwrap();
    fs::rename(&new, file).unwrap();
}

#[test]
fn capture_of_an_incident_is_complete() {
    let mut served = Served::start("sim:hung-container", Some(TOKEN), &["--slow", "1s"]);
    served.until("D01");
    let file = served.place.path("one.plegcap");
    // The recorder prints a diagnosis before it has written it.
    let since = Instant::now();
    let listed = loop {
        let (status, exported) = served.get("/capture?incident=1", Some(TOKEN));
        assert_eq!(status, 200);
        fs::write(&file, exported.unwrap()).unwrap();
        let listed = plegctl(&["capture", "ls", argument(&file), "-o", "json"]);
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap_or_else(|_| panic!("{listed}"));
        if listed["incidents"][0]["primary"].is_object() || since.elapsed() > Duration::from_secs(60) {
            break listed;
        }
    };
    let primary = &listed["incidents"][0]["primary"];
    assert_eq!(
        (&primary["id"], &primary["container"]["name"]),
        (&"D01".into(), &"postgres".into()),
        "{listed}"
    );
    assert_eq!(plegctl(&["capture", "check", argument(&file)]).code, Some(0));

    let (_, anonymous) = served.get("/capture?incident=1&anonymise=1", Some(TOKEN));
    let other = served.place.path("anonymous.plegcap");
    fs::write(&other, anonymous.unwrap()).unwrap();
    let report = plegctl(&["capture", "report", argument(&other), "-o", "json"]);
    assert!(report.stdout.contains("D01") && !report.stdout.contains("postgres"), "{report}");
    assert!(!report.stdout.contains("db-0"), "{report}");
    served.end();
}

#[test]
fn wrong_requests_and_unknown_incidents_are_refused_with_the_reason() {
    let mut served = Served::start("sim:quiet", Some(TOKEN), &["--slow", "1h"]);
    served.until("recording");
    for (target, status, why) in [
        ("/capture?incident=7", 404, "no such incident"),
        ("/capture?incident=one", 400, "the number of an incident"),
        ("/capture?from=yesterday", 400, "a time in UTC"),
        ("/capture?since=1h", 400, "/capture takes only"),
        ("/verdict?facts=yes", 400, "facts=true"),
        ("/verdict?facts=true&o=text", 400, "facts=true"),
    ] {
        let (found, text) = served.text(target, Some(TOKEN));
        assert_eq!(found, status, "{target}: {text}");
        assert!(text.contains(why), "{target}: {text}");
    }
    served.end();
}

#[test]
fn facts_of_a_diagnosis_need_the_token_and_a_recorder_says_why_it_has_none() {
    for (more, diagnosed, why) in [
        (&["--slow", "1s"][..], "D01", None),
        (&["--slow", "1s", "--no-host"], "D01", Some("the recorder runs with --no-host")),
        (&["--slow", "1h"], "recording", None),
    ] {
        let mut served = Served::start("sim:hung-container", Some(TOKEN), more);
        served.until(diagnosed);
        let (status, text) = served.text("/verdict?facts=true&o=json", Some(TOKEN));
        let verdict: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((status, &verdict["kind"]), (200, &"RecorderVerdict".into()), "{text}");
        assert_eq!(verdict["noFacts"].as_str(), why, "{text}");
        let has_facts = diagnosed == "D01" && why.is_none();
        assert_eq!(verdict["measured"]["runtime"].is_object(), has_facts, "{text}");
        for (target, token) in [("/verdict", None), ("/verdict?o=json", Some(TOKEN))] {
            let (_, text) = served.text(target, token);
            assert!(!text.contains("measured") && !text.contains("noFacts"), "{text}");
        }
        assert_eq!(served.get("/verdict?facts=true", None).0, 401);
        assert_eq!(served.get("/verdict?facts=true", Some(NEXT_TOKEN)).0, 403);
        served.end();
    }
}

#[test]
fn pages_stay_closed_until_the_token_is_right_and_a_new_token_counts_at_once() {
    let mut served = Served::start("sim:quiet", None, &["--slow", "1h"]);
    served.until("/capture and /verdict?facts=true are closed until the token file");
    let file = served.token_file();
    let fifo = served.place.path("fifo");
    assert_eq!(Invocation::program("mkfifo", &["-m", "400", argument(&fifo)]).run().code, Some(0));
    let steps: [(&dyn Fn(), &str); 7] = [
        (&|| (), "No such file"),
        (&|| write_token(&file, "", 0o400), "it is empty"),
        (&|| write_token(&file, "short", 0o400), "at least 16"),
        (&|| write_token(&file, &"x".repeat(5000), 0o400), "longer than 512 bytes"),
        (&|| write_token(&file, TOKEN, 0o444), "other users may read or change it"),
        (&|| fs::rename(&fifo, &file).unwrap(), "not a regular file"),
        (
            &|| {
                fs::remove_file(&file).unwrap();
                fs::create_dir(&file).unwrap();
            },
            "not a regular file",
        ),
    ];
    for (step, why) in steps {
        step();
        for target in ["/capture", "/verdict?facts=true"] {
            let (status, text) = served.text(target, Some(TOKEN));
            assert_eq!(status, 503, "{why}: {text}");
            assert!(text.contains("are closed") && text.contains(why), "{why}: {text}");
        }
        assert_eq!(served.get("/verdict?facts=true", None).0, 401, "{why}");
    }
    fs::remove_dir(&file).unwrap();
    write_token(&file, TOKEN, 0o400);
    assert_eq!(served.get("/verdict?facts=true", Some(TOKEN)).0, 200);
    assert_eq!(served.text("/verdict?facts=true", None).0, 401);
    for wrong in ["", "0123456789abcdef", NEXT_TOKEN] {
        assert_eq!(
            served.text("/verdict?facts=true", Some(wrong)),
            (403, "the recorder has another token\n".to_owned())
        );
    }
    write_token(&file, NEXT_TOKEN, 0o400);
    assert_eq!(served.get("/verdict?facts=true", Some(TOKEN)).0, 403);
    assert_eq!(served.get("/verdict?facts=true", Some(NEXT_TOKEN)).0, 200);
    // The pages without a token need none.
    assert_eq!(served.get("/verdict", None).0, 200);
    for segment in fs::read_dir(served.place.path("capture")).unwrap() {
        let bytes = fs::read(segment.unwrap().path()).unwrap();
        assert!(!bytes.windows(16).any(|window| window == b"0123456789abcdef"), "the capture has no token");
    }
    let printed = served.end();
    assert!(!printed.contains("0123456789abcdef"), "{printed}");
}

#[test]
fn export_makes_no_call_while_a_list_hangs() {
    let fake = FakeRuntime::start(Node::default());
    // On a busy machine, a list that is answered may take a second.
    let how = ["--no-diagnose", "--no-host", "--slow", "5s", "--period", "50ms"];
    let mut served = Served::start(&fake.endpoint(), Some(TOKEN), &how);
    served.until("recording");
    fake.wait_for(Rpc::ListContainers, 2);
    fake.on(Rpc::ListContainers).hang();
    served.until("incident 1:");
    let lists = || (fake.calls_of(Rpc::ListPodSandbox).len(), fake.calls_of(Rpc::ListContainers).len());
    let before = lists();
    let (status, exported) = served.get("/capture?incident=1", Some(TOKEN));
    let file = served.place.path("one.plegcap");
    fs::write(&file, exported.unwrap()).unwrap();
    let listed = plegctl(&["capture", "ls", argument(&file), "-o", "json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!((status, &listed["incidents"][0]["number"]), (200, &1.into()), "{listed}");
    assert!(served.get("/verdict?facts=true", Some(TOKEN)).1.is_some());
    assert_eq!(lists(), before);
    served.end();
}

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
fn long_anonymised_export_of_large_lists_or_many_names_needs_little_memory() {
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
pub fn large_node(relist: u64) -> Node {
    let node = Node::new().pod("default/web", "uid-1").sandbox("s1").container("c1", "web");
    node.annotation("example.com/notes", &random_text(relist))
}

#[test]
fn long_recorder_in_a_container_with_its_capture_in_memory_survives_an_anonymised_export() {
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
