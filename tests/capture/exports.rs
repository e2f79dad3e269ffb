//! `/capture` and `/bundle` of a running recorder: who gets them, and what they contain.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use plegctl::capture::{Capture, RecordedCall};
use plegctl::cri::Rpc;
use serde_json::Value;

use super::service::until;
use crate::support::address::free_address;
use crate::support::captures::{CaptureDir, argument, record, skip};
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
fn capture_of_an_incident_and_a_bundle_are_complete() {
    let mut served = Served::start("sim:hung-container", Some(TOKEN), &["--slow", "1s"]);
    served.until("D01");
    let (status, exported) = served.get("/capture?incident=1", Some(TOKEN));
    assert_eq!(status, 200);
    let file = served.place.path("one.plegcap");
    fs::write(&file, exported.unwrap()).unwrap();
    let listed = plegctl(&["capture", "ls", argument(&file), "-o", "json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap_or_else(|_| panic!("{listed}"));
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

    let (status, bundle) = served.get("/bundle", Some(TOKEN));
    assert_eq!(status, 200);
    let file = served.place.path("node.tar.gz");
    fs::write(&file, bundle.unwrap()).unwrap();
    let listed = Invocation::program("tar", &["-tzf", argument(&file)]).run();
    let names: Vec<&str> = listed.stdout.lines().collect();
    assert_eq!(names, ["index.json", "health.json", "verdict.json", "incidents.json", "metrics.txt"]);
    let screen = plegctl(&["health", "--from", argument(&file)]);
    assert!(screen.stdout.contains("shop/db-0/postgres"), "{screen}");
    let index = Invocation::program("tar", &["-xzOf", argument(&file), "index.json"]).run();
    let index: Value = serde_json::from_str(&index.stdout).unwrap();
    assert_eq!(
        (&index["kind"], &index["missing"][0]["what"]),
        (&"HealthBundle".into(), &"relist.json".into())
    );
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
        ("/bundle?anonymise=1", 400, "no parameters"),
    ] {
        let (found, text) = served.text(target, Some(TOKEN));
        assert_eq!(found, status, "{target}: {text}");
        assert!(text.contains(why), "{target}: {text}");
    }
    served.end();
}

#[test]
fn pages_stay_closed_until_the_token_is_right_and_a_new_token_counts_at_once() {
    let mut served = Served::start("sim:quiet", None, &["--slow", "1h"]);
    served.until("/capture and /bundle are closed until the token file");
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
        for target in ["/bundle", "/capture"] {
            let (status, text) = served.text(target, Some(TOKEN));
            assert_eq!(status, 503, "{why}: {text}");
            assert!(text.contains("are closed") && text.contains(why), "{why}: {text}");
        }
        assert_eq!(served.get("/bundle", None).0, 401, "{why}");
    }
    fs::remove_dir(&file).unwrap();
    write_token(&file, TOKEN, 0o400);
    assert_eq!(served.get("/bundle", Some(TOKEN)).0, 200);
    assert_eq!(served.text("/bundle", None).0, 401);
    for wrong in ["", "0123456789abcdef", NEXT_TOKEN] {
        assert_eq!(served.text("/bundle", Some(wrong)), (403, "the recorder has another token\n".to_owned()));
    }
    write_token(&file, NEXT_TOKEN, 0o400);
    assert_eq!(served.get("/bundle", Some(TOKEN)).0, 403);
    assert_eq!(served.get("/bundle", Some(NEXT_TOKEN)).0, 200);
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
    let how = ["--no-diagnose", "--no-host", "--slow", "1s", "--period", "50ms"];
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
    assert!(served.get("/bundle", Some(TOKEN)).1.is_some());
    assert_eq!(lists(), before);
    served.end();
}

/// The memory that an export may need besides that of the recorder.
const EXPORT_MEMORY: u64 = 24 << 20;

#[test]
fn anonymised_export_of_large_lists_needs_little_memory() {
    // Each list has another annotation of 512 KiB, which needs little space on the disk.
    let lists = (0..60).map(|relist| {
        let node = Node::new().pod("default/web", "uid-1").sandbox("s1").container("c1", "web");
        node.annotation("example.com/notes", &format!("{relist:08}").repeat(1 << 16))
    });
    let fake = FakeRuntime::start_steps(RuntimeKind::Containerd21, lists);
    let place = CaptureDir::make();
    let how = ["--count", "60", "--period", "1ms", "--no-host", "--no-diagnose", "--slow", "1h"];
    record(&fake.endpoint(), &place.path("capture"), &how);
    fake.set_node(Node::default());
    let how = ["--period", "1h", "--no-host", "--no-diagnose", "--slow", "1h"];
    let mut served = Served::start_in(place, &fake.endpoint(), Some(TOKEN), &how);
    served.until("recording");
    fake.wait_for(Rpc::ListContainers, 61);
    let process = PathBuf::from(format!("/proc/{}", served.running.pid()));
    let memory = |name: &str| {
        let status = fs::read_to_string(process.join("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    };
    let before = memory("VmRSS:");
    // The kernel forgets the highest memory use so far.
    if fs::write(process.join("clear_refs"), "5").is_err() {
        return skip("the highest memory use of a process cannot be reset here");
    }
    let (status, exported) = served.get("/capture?anonymise=1", Some(TOKEN));
    let file = served.place.path("all.plegcap");
    fs::write(&file, exported.unwrap()).unwrap();
    let more = memory("VmHWM:").saturating_sub(before);
    assert!(status == 200 && more <= EXPORT_MEMORY, "{} KiB more", more >> 10);
    let capture = Capture::open(&file).unwrap();
    assert!(capture.relists.len() >= 60, "{} relists", capture.relists.len());
    let listed: Vec<_> =
        capture.calls.iter().filter(|call| call.rpc == Rpc::ListContainers).take(60).collect();
    let readable = |call: &&&RecordedCall| {
        let messages = call.end.as_ref().and_then(|end| capture.messages(end));
        messages.is_some_and(|messages| !messages.is_empty())
    };
    assert_eq!(listed.iter().filter(readable).count(), 60);
    served.end();
}
