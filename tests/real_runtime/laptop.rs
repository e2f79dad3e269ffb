//! A laptop reaches the recorder of a node with a real containerd while a list call hangs and while the daemon is stopped.
//! Between them is a proxy that behaves as the API server's: it forwards no `Authorization` and refuses upgrades. The tests
//! print how long it took from the fault until the laptop had the culprit's name.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use plegctl_engine::capture::Capture;
use serde_json::{Value, json};

use crate::address::free_address;
use crate::daemon::RealRuntime;
use crate::health::with_network;
use crate::packages::Containerd;
use crate::plegctl::{Invocation, Running};
use crate::pods::{ContainerSpec, Pod, PodSpec};
use crate::{real, wait_for};

on_each_containerd! {
    a_held_status_lock_is_named_on_the_laptop
    a_stopped_daemon_is_named_on_the_laptop
}

const TOKEN: &str = "0123456789abcdef-token";

/// The API server. Its threads end with the test's process.
struct ApiServer {
    kubeconfig: PathBuf,
    /// The first lines of all requests.
    requests: Arc<Mutex<Vec<String>>>,
}

impl ApiServer {
    /// Starts a server for one node, whose recorder listens at `recorder`.
    fn start(directory: &Path, recorder: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (log, recorder) = (Arc::clone(&requests), recorder.to_owned());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (log, recorder) = (Arc::clone(&log), recorder.clone());
                thread::spawn(move || answer(stream.unwrap(), &log, &recorder));
            }
        });
        let kubeconfig = directory.join("kubeconfig");
        let text = json!({"current-context": "c", "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {"token": "t0ken"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
        fs::write(&kubeconfig, text.to_string()).unwrap();
        Self { kubeconfig, requests }
    }
}

/// Answers one request.
fn answer(mut stream: TcpStream, log: &Mutex<Vec<String>>, recorder: &str) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let Some(first) = lines.next() else { return };
    let headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    log.lock().unwrap().push(first.clone());
    let path = first.split(' ').nth(1).unwrap();
    let port: u16 = recorder.rsplit_once(':').unwrap().1.parse().unwrap();
    let is_upgrade = headers.iter().any(|header| header.to_ascii_lowercase().starts_with("upgrade:"));
    let proxy = format!("/api/v1/namespaces/plegctl/pods/plegctl-x:{port}/proxy");
    let ready = json!([{"type": "Ready", "status": "True", "message": ""}]);
    let node = json!({"metadata": {"name": "n1"}, "status": {"conditions": ready}});
    let pod = json!({"metadata": {"namespace": "plegctl", "name": "plegctl-x"}, "status": {"phase": "Running"},
        "spec": {"nodeName": "n1", "containers": [{"ports": [{"name": "metrics", "containerPort": port}]}]}});
    let reply = match (path, path.strip_prefix(&proxy)) {
        _ if is_upgrade => "HTTP/1.1 400 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".into(),
        (_, Some(page)) => {
            let hop = |header: &&String| {
                let name = header.split(':').next().unwrap_or_default().to_ascii_lowercase();
                !["authorization", "connection", "host", "keep-alive", "te"].contains(&name.as_str())
            };
            let kept: Vec<&String> = headers.iter().filter(hop).collect();
            forward(recorder, page, &kept)
        }
        ("/api/v1/nodes/n1", _) => document(&node),
        (path, _) if path.starts_with("/api/v1/pods?") => document(&json!({"items": [pod]})),
        _ => b"HTTP/1.1 404 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_vec(),
    };
    // The client may have given up.
    let _ = stream.write_all(&reply);
}

fn document(document: &Value) -> Vec<u8> {
    let body = document.to_string();
    let date = "Date: Sat, 21 Nov 2026 12:00:00 GMT";
    format!("HTTP/1.1 200 OK\r\n{date}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        .into()
}

/// Sends a request to the recorder, and returns its whole answer.
fn forward(recorder: &str, page: &str, headers: &[&String]) -> Vec<u8> {
    let mut stream = TcpStream::connect(recorder).unwrap();
    let mut request = format!("GET {page} HTTP/1.1\r\nHost: n1\r\nX-Forwarded-For: 10.0.0.1\r\n");
    for header in headers {
        request.extend([header, "\r\n"]);
    }
    stream.write_all(format!("{request}\r\n").as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

/// A node with a recorder, and the laptop.
struct Scene {
    runtime: RealRuntime,
    guilty: Pod,
    recorder: Running,
    address: String,
    server: ApiServer,
}

impl Scene {
    fn set(version: Containerd) -> Option<Self> {
        let runtime = real(version)?;
        with_network(&runtime);
        runtime.run_pods(3, 1);
        let guilty = runtime.run_pod(&PodSpec::new("guilty"), &[ContainerSpec::new("app")]);
        let (capture, token) = (runtime.directory().join("capture"), runtime.directory().join("token"));
        fs::write(&token, TOKEN).unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(0o400)).unwrap();
        let address = free_address();
        let endpoint = runtime.endpoint();
        let how = ["record", capture.to_str().unwrap(), "-r", &endpoint, "--metrics-listen", &address];
        let how = [&how[..], &["--serve-token-file", token.to_str().unwrap()]].concat();
        let mut recorder = Invocation::new(&how).env("PLEGCTL_TEST_NODE", runtime.node_with(&[])).spawn();
        assert!(recorder.line().unwrap().starts_with("recording"));
        let server = ApiServer::start(runtime.directory(), &address);
        let scene = Self { runtime, guilty, recorder, address, server };
        wait_for("the first relist", || (scene.health()["verdict"] == "healthy").then_some(()));
        Some(scene)
    }

    /// Runs `health --node` on the laptop.
    fn health(&self) -> Value {
        let config = self.server.kubeconfig.to_str().unwrap();
        let output = Invocation::new(&["health", "--node", "n1", "--kubeconfig", config, "-o", "json"]).run();
        let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"));
        assert_eq!(report["source"]["kind"], "recorder", "{output}");
        report
    }

    /// Waits until the laptop gets a diagnosis of the incident that `is_wanted`; prints how long that took.
    fn wait_for_the_name(&self, version: Containerd, fault: &str, is_wanted: impl Fn(&Value) -> bool) {
        let began = Instant::now();
        let report = wait_for("the culprit's name on the laptop", || {
            let report = self.health();
            is_wanted(&report).then_some(report)
        });
        println!(
            "{version}: {:.1} s from {fault} to its name on the laptop: {}",
            began.elapsed().as_secs_f64(),
            report["summary"]
        );
    }

    /// Fetches the capture of the open incident from the recorder through the proxy, and checks that it has the incident.
    fn fetch_capture(&self) {
        let target = "/capture?incident=1";
        let token = format!("X-Plegctl-Token: {TOKEN}");
        let answer = forward(&self.address, target, &[&token]);
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200 OK"), "{}", String::from_utf8_lossy(&answer[..end]));
        let (mut rest, mut body) = (&answer[end + 4..], Vec::new());
        loop {
            let end = rest.windows(2).position(|window| window == b"\r\n").unwrap();
            let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
            if length == 0 {
                break;
            }
            body.extend_from_slice(&rest[end + 2..end + 2 + length]);
            rest = &rest[end + 4 + length..];
        }
        let file = self.runtime.directory().join("one.plegcap");
        fs::write(&file, body).unwrap();
        let capture = Capture::open(&file).unwrap();
        assert!(capture.incidents.contains_key(&1) && !capture.relists.is_empty());
    }

    fn end(self) {
        self.recorder.signal("TERM");
        let printed = self.recorder.wait();
        assert_eq!(printed.code, Some(0), "{printed}");
        assert!(!printed.stdout.contains(TOKEN) && !printed.stderr.contains(TOKEN), "{printed}");
        for request in self.server.requests.lock().unwrap().iter() {
            assert!(request.starts_with("GET "), "{request}");
        }
    }
}

fn a_held_status_lock_is_named_on_the_laptop(version: Containerd) {
    let Some(scene) = Scene::set(version) else { return };
    let held = scene.runtime.hold_status_lock(&scene.guilty.containers[0]);
    scene.wait_for_the_name(version, "a held status lock", |report| {
        report["primary"]["pod"]["name"] == "guilty" && report["verdict"] != "healthy"
    });
    scene.fetch_capture();
    drop(held);
    scene.end();
}

fn a_stopped_daemon_is_named_on_the_laptop(version: Containerd) {
    let Some(scene) = Scene::set(version) else { return };
    let stopped = scene.runtime.stop_daemon();
    scene.wait_for_the_name(version, "a stopped daemon", |report| {
        report["verdict"] == "unhealthy" && report["primary"]["id"] == "D07"
    });
    scene.fetch_capture();
    drop(stopped);
    scene.end();
}
