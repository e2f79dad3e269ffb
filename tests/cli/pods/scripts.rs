//! Plays the 52 scripts of `podconfig-1.36.2.jsonl.gz`, and compares the updates of `pods --watch` with the recorded
//! ones. Each script has changes of the sources, and the updates that the kubelet's own code sent.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use flate2::read::GzDecoder;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::plegctl::command;

/// A step ends when no update has come for this time, as in the recording.
const QUIET: Duration = Duration::from_millis(250);
/// The same time for a source that is read only once a second.
const QUIET_WITH_PERIOD: Duration = Duration::from_millis(1250);
/// The time limit for an expected update.
const TIME_LIMIT: Duration = Duration::from_secs(300);
/// The number of scripts that run at the same time. They mostly wait.
const WORKERS: usize = 20;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Script {
    name: String,
    kind: String,
    node: String,
    dir: PathBuf,
    sources: Vec<String>,
    file_check_frequency: String,
    http_check_frequency: String,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    r#do: Vec<Action>,
    expect: Vec<Value>,
}

#[derive(Deserialize)]
struct Action {
    op: String,
    #[serde(default)]
    file: String,
    #[serde(default)]
    to: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    mode: u32,
    #[serde(default)]
    code: u16,
    #[serde(default)]
    pods: Value,
}

/// Reads the recorded scripts.
fn scripts() -> Vec<Script> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings/podconfig-1.36.2.jsonl.gz");
    let lines = BufReader::new(GzDecoder::new(File::open(path).unwrap())).lines();
    lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
}

/// The current answer of the URL.
type Page = Arc<Mutex<(u16, String)>>;

/// Serves a page that may change, and returns its URL.
fn serve(page: &Page) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/pods", listener.local_addr().unwrap());
    let page = Arc::clone(page);
    thread::spawn(move || {
        for stream in listener.incoming() {
            answer(stream.unwrap(), &page);
        }
    });
    url
}

/// Answers one request with the current page.
fn answer(mut stream: TcpStream, page: &Page) {
    let mut request = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    while request.read_line(&mut line).is_ok_and(|length| length > 2) {
        line.clear();
    }
    let (code, text) = page.lock().unwrap().clone();
    // A client that has closed its connection gets no answer.
    let _ = write!(
        stream,
        "HTTP/1.1 {code} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
}

/// Returns a directory outside of the manifest directory, on the same file system, from and to which files move.
fn outside(script: &Script) -> PathBuf {
    script.dir.with_file_name("outside")
}

/// Makes one change of a source: of the manifest directory, of the URL's answer, or of the pod list on stdin.
fn perform(action: &Action, script: &Script, page: &Page, stdin: Option<&mut ChildStdin>) {
    let file = script.dir.join(&action.file);
    let outside_file = outside(script).join(&action.file);
    // An action that fails because its file does not exist is skipped, as in the recorder.
    let _ = match action.op.as_str() {
        "write" => fs::write(&file, &action.text),
        "append" => fs::OpenOptions::new()
            .append(true)
            .open(&file)
            .and_then(|mut open| open.write_all(action.text.as_bytes())),
        "rewrite-same" => fs::read(&file).and_then(|text| fs::write(&file, text)),
        "delete" => fs::remove_file(&file),
        "rename" => fs::rename(&file, script.dir.join(&action.to)),
        "move-out" => fs::rename(&file, &outside_file),
        "move-in" => fs::write(&outside_file, &action.text).and_then(|()| fs::rename(&outside_file, &file)),
        "replace" => {
            let hidden = script.dir.join(format!(".tmp-{}", action.file));
            fs::write(&hidden, &action.text).and_then(|()| fs::rename(&hidden, &file))
        }
        "chmod" => fs::set_permissions(&file, fs::Permissions::from_mode(action.mode)),
        "touch" => fs::File::options()
            .write(true)
            .open(&file)
            .and_then(|open| open.set_modified(std::time::SystemTime::now())),
        "symlink" => {
            let target = outside(script).join(format!("target-of-{}", action.file));
            let _ = fs::remove_file(&file);
            fs::write(&target, &action.text).and_then(|()| symlink(&target, &file))
        }
        "hardlink" => fs::hard_link(&file, script.dir.join(&action.to)),
        "mkdir" => fs::create_dir_all(&file),
        "no-dir" => fs::remove_dir_all(&script.dir),
        "url" => {
            *page.lock().unwrap() = (action.code, action.text.clone());
            Ok(())
        }
        "api" => writeln!(stdin.unwrap(), "{}", action.pods),
        other => panic!("{}: no such action: {other}", script.name),
    };
}

/// A running `pods --watch` and its updates.
struct Watched {
    child: Child,
    updates: Receiver<Value>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts `pods --watch` for a script.
fn start(script: &Script, url: &str) -> Watched {
    let mut command = command(env!("CARGO_BIN_EXE_plegctl"));
    command.args(["pods", "--watch", "-o", "jsonl", "--no-cri", "--quiet", "--kubelet-version", "1.36"]);
    command.args(["--node-name", &script.node]);
    command.args(["--file-check-frequency", &script.file_check_frequency]);
    command.args(["--http-check-frequency", &script.http_check_frequency]);
    for source in &script.sources {
        match source.as_str() {
            "file" => command.arg("--manifests").arg(&script.dir),
            "http" => command.args(["--manifest-url", url]),
            _ => command.args(["--api-pods", "-"]),
        };
    }
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let (sender, updates) = channel();
    let stdout = child.stdout.take().unwrap();
    thread::spawn(move || forward(stdout, &sender));
    Watched { child, updates }
}

/// Sends the updates in the output to the channel.
fn forward(stdout: impl Read, sender: &Sender<Value>) {
    for line in BufReader::new(stdout).lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if line["kind"] == "PodUpdate" && sender.send(line).is_err() {
            return;
        }
    }
}

/// Returns an update in the recording's format. The UIDs of a URL's pods are omitted, because they depend on its
/// port.
fn as_recorded(update: &Value) -> Value {
    let http = update["source"] == "http";
    let pods = update["pods"].as_array().unwrap().iter().map(|pod| {
        let mut pod = pod.clone();
        if http {
            pod.as_object_mut().unwrap().remove("uid");
        }
        pod
    });
    json!({
        "op": update["op"], "source": update["source"], "ready": update["ready"],
        "pods": pods.collect::<Vec<_>>(),
    })
}

/// Plays a script and returns the differences.
fn play(script: &Script) -> Result<(), String> {
    let base = script.dir.parent().unwrap();
    let _ = fs::remove_dir_all(base);
    fs::create_dir_all(&script.dir).unwrap();
    fs::create_dir_all(outside(script)).unwrap();
    let page: Page = Arc::new(Mutex::new((404, String::new())));
    let url = serve(&page);
    let mut running = None;
    let quiet = if script.kind == "file" || script.kind == "api" { QUIET } else { QUIET_WITH_PERIOD };
    let mut stdin: Option<ChildStdin> = None;
    for (number, step) in script.steps.iter().enumerate() {
        // The first step happens before the start, except for its input on stdin.
        let (now, later): (Vec<&Action>, Vec<&Action>) =
            step.r#do.iter().partition(|action| number > 0 || action.op != "api");
        for action in now {
            perform(action, script, &page, stdin.as_mut());
        }
        let watched = running.get_or_insert_with(|| {
            let mut watched = start(script, &url);
            stdin = watched.child.stdin.take();
            watched
        });
        for action in later {
            perform(action, script, &page, stdin.as_mut());
        }
        let mut expected: VecDeque<Value> = step.expect.iter().cloned().collect();
        loop {
            let wait = if expected.is_empty() { quiet } else { TIME_LIMIT };
            match watched.updates.recv_timeout(wait) {
                Ok(update) => {
                    let update = as_recorded(&update);
                    // Each source has its own order. Which of two sources sends first depends on the machine.
                    let next = expected.iter().position(|known| known["source"] == update["source"]);
                    let Some(next) = next.filter(|next| expected[*next] == update) else {
                        return Err(format!(
                            "{} step {number}: got {update}, expected {expected:?}",
                            script.name
                        ));
                    };
                    expected.remove(next);
                }
                Err(RecvTimeoutError::Timeout) if expected.is_empty() => break,
                Err(why) => {
                    return Err(format!("{} step {number}: {why}, expected {expected:?}", script.name));
                }
            }
        }
    }
    drop(running);
    fs::remove_dir_all(Path::new(base)).unwrap();
    Ok(())
}

/// The directory of the recording's manifests. The UIDs depend on this path, so only one run may use it at a time.
const FOLDER: &str = "/tmp/plegctl-podconfig";

/// Waits until no other run of these tests uses [`FOLDER`], also of another user.
fn lock_folder() -> File {
    let path = format!("{FOLDER}.lock");
    // Another user's lock file cannot be written, but reading is enough for a lock.
    let file = File::open(&path).or_else(|_| File::create_new(&path)).or_else(|_| File::open(&path)).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    file
}

#[test]
fn long_every_recorded_script_gives_the_kubelets_own_updates() {
    let _lock = lock_folder();
    let queue = Arc::new(Mutex::new(scripts()));
    let total = queue.lock().unwrap().len();
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                let mut wrong = Vec::new();
                loop {
                    let Some(script) = queue.lock().unwrap().pop() else { return wrong };
                    wrong.extend(play(&script).err());
                }
            })
        })
        .collect();
    let wrong: Vec<String> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
    fs::remove_dir_all(FOLDER).unwrap();
    assert_eq!(total, 52);
    assert!(wrong.is_empty(), "{} of {total} scripts differ:\n{}", wrong.len(), wrong.join("\n"));
}
