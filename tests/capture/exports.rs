//! `/capture` and `/verdict?facts=true` of a running recorder: who gets them, and what they contain.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plegctl_engine::cri::Rpc;
use serde_json::Value;

use super::service::until;
use crate::support::address::free_address;
use crate::support::captures::{CaptureDir, argument};
use crate::support::plegctl::{Invocation, Running, plegctl};
use crate::support::{FakeRuntime, Node};

pub const TOKEN: &str = "0123456789abcdef-first";
const NEXT_TOKEN: &str = "0123456789abcdef-second";

/// A recorder with a token file.
pub struct Served {
    pub running: Running,
    pub address: String,
    pub place: CaptureDir,
    /// The lines that were read from the recorder so far.
    pub printed: Vec<String>,
}

impl Served {
    pub fn start(endpoint: &str, token: Option<&str>, more: &[&str]) -> Self {
        Self::start_in(CaptureDir::make(), endpoint, token, more)
    }

    /// Starts a recorder that may find an earlier capture.
    pub fn start_in(place: CaptureDir, endpoint: &str, token: Option<&str>, more: &[&str]) -> Self {
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

    pub fn until(&mut self, words: &str) {
        let line = until(&mut self.running, words);
        self.printed.push(line);
    }

    pub fn token_file(&self) -> PathBuf {
        self.place.path("token")
    }

    /// Requests a page; returns the status and the body, which is `None` if its end is missing.
    pub fn get(&self, target: &str, token: Option<&str>) -> (u16, Option<Vec<u8>>) {
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

    pub fn text(&self, target: &str, token: Option<&str>) -> (u16, String) {
        let (status, body) = self.get(target, token);
        (status, String::from_utf8_lossy(&body.unwrap()).into_owned())
    }

    /// Ends the recorder; returns the lines that were read before and all later output.
    pub fn end(self) -> String {
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
pub fn write_token(file: &Path, token: &str, mode: u32) {
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
