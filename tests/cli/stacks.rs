//! The process tests of `plegctl stacks`: dumps from files, stdin and sockets, and input that is no dump.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use flate2::read::GzDecoder;
use serde_json::Value;

use crate::support::plegctl::{Invocation, Output, plegctl};
use crate::support::socket::TempDir;

pub fn recording(name: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/stacks").join(name);
    path.display().to_string()
}

/// Returns the text without its line breaks.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"))
}

#[test]
fn held_lock_is_reported_in_one_sentence_with_status_1() {
    let output = plegctl(&["stacks", &recording("c2-lock.t200.usr1.gz")]);
    assert_eq!(output.code, Some(1), "{output}");
    let sentence = "9 calls (6 ListContainers) wait for a container's status lock, held by an UpdateContainerResources \
         that waits about 3 min for its shim (ST01, certain)";
    assert!(words(&output.stdout).starts_with(sentence), "{output}");
    let wide = plegctl(&["stacks", "-o", "wide", &recording("c2-lock.t200.usr1.gz")]);
    assert_eq!(wide.stdout.lines().next(), Some(sentence));
    assert!(wide.stdout.contains("no names"), "a saved dump has no names, and the report says so: {wide}");
}

/// The first screen of every recording has the verdict, the chain of waiters and the next steps; the goroutines are in
/// `-o wide`.
#[test]
fn long_default_screen_has_at_most_24_lines_of_100_columns() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/stacks");
    for name in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        if !name.ends_with("gz") {
            continue;
        }
        let output = plegctl(&["stacks", &recording(&name)]);
        if output.code == Some(2) {
            continue;
        }
        let lines: Vec<&str> = output.stdout.lines().collect();
        assert!(
            lines.len() <= 24 && lines.iter().all(|line| line.chars().count() <= 100),
            "{name}: {output}"
        );
        assert!(!output.stdout.contains("goroutines (identical"), "{name}: {output}");
        assert!(lines.last().unwrap().starts_with("with -o wide: "), "{name}: {output}");
        if output.code == Some(1) {
            assert!(
                output.stdout.contains("goroutine ") && output.stdout.contains("\nnext:  "),
                "{name}: {output}"
            );
        }
    }
}

#[test]
fn healthy_daemon_has_status_0() {
    for name in [
        "c2-base.idle.usr1.gz",
        "c2-base.busy-a.usr1.gz",
        "o-base.busy-b.http.gz",
        "k2-base.t5-busy.kubelet.debug2.gz",
    ] {
        let output = plegctl(&["stacks", &recording(name)]);
        assert_eq!(output.code, Some(0), "{output}");
    }
}

#[test]
fn json_has_the_fields_of_the_contract_of_stacks() {
    let output = plegctl(&["stacks", "-o", "json", &recording("c2-lock.t200.usr1.gz")]);
    let report = json(&output);
    assert_eq!(output.code, Some(1));
    assert_eq!(
        (report["apiVersion"].as_str(), report["kind"].as_str()),
        (Some("plegctl/v1"), Some("StackReport"))
    );
    let dump = &report["dumps"][0];
    assert_eq!(
        (dump["daemon"].as_str(), dump["goroutines"].as_u64(), dump["notUnderstood"].as_u64()),
        (Some("containerd"), Some(68), Some(0))
    );
    let finding = &report["findings"][0];
    assert_eq!(finding, &report["primary"]);
    assert_eq!(
        (finding["id"].as_str(), finding["severity"].as_str(), finding["confidence"].as_str()),
        (Some("ST01"), Some("critical"), Some("certain"))
    );
    assert_eq!(
        (finding["rpcs"][0].as_str(), finding["waiters"].as_u64(), finding["waitedSeconds"].as_f64()),
        (Some("ListContainers"), Some(9), Some(180.0))
    );
    assert_eq!(
        (finding["holder"]["goroutine"].as_u64(), finding["holder"]["waitsFor"]["kind"].as_str()),
        (Some(232), Some("shim"))
    );
    assert_eq!(finding["holder"].get("pod"), None);
    assert!(finding["threads"].as_array().unwrap().iter().any(|thread| thread == "containerd#9770"));
    let wait =
        report["waits"].as_array().unwrap().iter().find(|wait| wait["call"] == "StopContainer").unwrap();
    assert_eq!(
        (wait["lock"].as_str(), wait["holders"][0].as_u64(), wait["confidence"].as_str()),
        (Some("RWMutex.RLock"), Some(232), Some("certain"))
    );
    assert!(report["groups"][0]["count"].as_u64().unwrap() >= 6);
    let lines = plegctl(&["stacks", "-o", "jsonl", &recording("c2-lock.t200.usr1.gz")]);
    assert_eq!(lines.stdout.lines().count(), 1);
}

#[test]
fn every_form_of_a_dump_gives_the_same_report() {
    let of = |output: &Output| json(output)["findings"][0]["holder"]["goroutine"].as_u64();
    let plain = plegctl(&["stacks", "-o", "json", &recording("c2-lock.t5.usr1.gz")]);
    let line = plegctl(&["stacks", "-o", "json", &recording("c2-lock.t5.usr1.logline.gz")]);
    assert_eq!((of(&plain), of(&line)), (Some(232), Some(232)));
    let packed = fs::read(recording("c2-lock.t5.usr1.gz")).unwrap();
    let piped = Invocation::new(&["stacks", "-o", "json", "-"]).stdin(packed).run();
    assert_eq!(of(&piped), Some(232), "{piped}");
}

#[test]
fn wait_in_both_dumps_of_a_process_is_certain() {
    let two = plegctl(&[
        "stacks",
        "-o",
        "json",
        &recording("c2-lock.t5.usr1.gz"),
        &recording("c2-lock.t75.debug2.gz"),
    ]);
    let finding = json(&two)["findings"][0].clone();
    assert_eq!(
        (finding["id"].as_str(), finding["confidence"].as_str()),
        (Some("ST01"), Some("certain")),
        "{two}"
    );
    assert!(finding["evidence"].to_string().contains("in both dumps"), "{two}");
    // The same dump given twice counts once.
    let same = plegctl(&["stacks", &recording("c2-lock.t5.usr1.gz"), &recording("c2-lock.t5.usr1.gz")]);
    assert_eq!(same.code, Some(0), "{same}");
    assert!(words(&same.stdout).contains("both dumps are the same"), "{same}");
}

#[test]
fn profile_with_counts_reports_what_it_lacks() {
    let output = plegctl(&["stacks", &recording("k2-lock.t100.kubelet.debug1.gz")]);
    assert!(output.stdout.starts_with("PLEG's relist waits for the runtime's ListContainers; "), "{output}");
    assert!(words(&output.stdout).contains("use debug=2"), "{output}");
}

#[test]
fn file_without_a_dump_is_an_error() {
    let folder = TempDir::new();
    let write = |name: &str, text: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let packed = fs::read(recording("c2-lock.t5.usr1.gz")).unwrap();
    for (path, part) in [
        (write("empty", b""), "it is empty"),
        (write("log", b"one\ntwo\n"), "no line is the header of a goroutine (lines read: 2)"),
        (
            write("java", b"Full thread dump OpenJDK 64-Bit Server VM:\n\n\"main\" #1 prio=5\n"),
            "of a Java process",
        ),
        (write("cut", &packed[..20]), ""),
        (folder.path().join("nothing").display().to_string(), "No such file"),
    ] {
        let output = plegctl(&["stacks", &path]);
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{output}");
        assert!(output.stderr.starts_with("error: cannot read "), "{output}");
        assert!(output.stderr.contains(&path) && output.stderr.contains(part), "{output}");
    }
}

#[test]
fn truncated_dump_is_read_up_to_its_end() {
    let folder = TempDir::new();
    let packed = fs::read(recording("c2-lock.t200.usr1.gz")).unwrap();
    let path = folder.path().join("cut.gz");
    fs::write(&path, &packed[..packed.len() - 1000]).unwrap();
    let output = plegctl(&["stacks", path.to_str().unwrap()]);
    assert!(matches!(output.code, Some(0 | 1)), "{output}");
    assert!(words(&output.stdout).contains("the compressed file is incomplete"), "{output}");
}

#[test]
fn many_incomplete_headers_use_bounded_memory() {
    let folder = TempDir::new();
    let path = folder.path().join("flood");
    fs::write(&path, "goroutine 1 [\n".repeat((3 << 20) / 14)).unwrap();
    let output = plegctl(&["stacks", "-o", "json", path.to_str().unwrap()]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let report = json(&output);
    let lost: u64 =
        report["dumps"].as_array().unwrap().iter().map(|dump| dump["notUnderstood"].as_u64().unwrap()).sum();
    assert_eq!(lost, (3 << 20) / 14);
}

/// Starts a thread that listens on a socket and answers one request with `answer`. The thread returns the request.
fn serve(path: &Path, answer: Vec<u8>) -> thread::JoinHandle<String> {
    let listener = UnixListener::bind(path).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let request = request_of(&mut stream);
        stream.write_all(&answer).unwrap();
        request
    })
}

/// Reads a request up to its empty line, or up to the end of the connection.
fn request_of(stream: &mut impl Read) -> String {
    let (mut request, mut byte) = (Vec::new(), [0]);
    while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
        request.push(byte[0]);
    }
    String::from_utf8(request).unwrap()
}

/// Starts a thread that answers each request with the next of two recorded dumps, as a daemon does. A daemon gives a
/// dump as often as it is asked.
fn serve_dumps<S: Read + Write>(mut accept: impl FnMut() -> S + Send + 'static, dumps: [&str; 2]) {
    let answers = dumps.map(|name| {
        let mut answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_vec();
        GzDecoder::new(fs::File::open(recording(name)).unwrap()).read_to_end(&mut answer).unwrap();
        answer
    });
    thread::spawn(move || {
        for answer in answers {
            let mut stream = accept();
            // A connection that only asks the kernel who listens sends nothing.
            while request_of(&mut stream).is_empty() {
                stream = accept();
            }
            stream.write_all(&answer).unwrap();
        }
    });
}

#[test]
fn hang_of_some_seconds_is_confirmed_by_a_second_dump_of_the_living_daemon() {
    let folder = TempDir::new();
    let on_socket = |name: &str, dumps| {
        let socket = folder.path().join(name);
        let listener = UnixListener::bind(&socket).unwrap();
        serve_dumps(move || listener.accept().unwrap().0, dumps);
        format!("unix://{}", socket.display())
    };
    let on_port = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        serve_dumps(
            move || listener.accept().unwrap().0,
            ["k2-cni.t8.kubelet.debug2.gz", "k2-cni.t80.kubelet.debug2.gz"],
        );
        url
    };
    let crio = on_socket("crio.sock", ["o-runc.t5.usr1.gz", "o-runc.t75.http.gz"]);
    let named = on_socket("named-crio.sock", ["o-runc.t5.usr1.gz", "o-runc.t75.http.gz"]);
    let debug = on_socket("debug.sock", ["c2-lock.t5.usr1.gz", "c2-lock.t75.debug2.gz"]);
    let (kubelet, url) = (on_port(), on_port());
    let root = folder.path().to_str().unwrap();
    let sources: [(&[&str], &str, &str); 5] = [
        (&[&crio], "crio", "ST06"),
        (&["-r", &named], "crio", "ST06"),
        (&[&debug], "containerd", "ST01"),
        (&["--kubelet-url", &kubelet], "kubelet", "ST15"),
        (&[&url], "kubelet", "ST15"),
    ];
    // All at the same time, because each waits for ten seconds.
    let running = sources.map(|(source, daemon, id)| {
        let arguments = [&["stacks", "-o", "json", "--host-root", root], source].concat();
        (Invocation::new(&arguments).spawn(), daemon, id)
    });
    for (running, daemon, id) in running {
        let output = running.wait();
        let report = json(&output);
        assert_eq!(output.code, Some(1), "{output}");
        let daemons: Vec<_> =
            report["dumps"].as_array().unwrap().iter().map(|dump| &dump["daemon"]).collect();
        assert_eq!(daemons, [daemon, daemon], "{output}");
        assert_eq!(report["primary"]["id"], id, "{output}");
        assert!(report["primary"]["evidence"].to_string().contains("in both dumps"), "{output}");
        assert!(output.stderr.contains("a second one follows in 10s"), "{output}");
    }
}

#[test]
fn debug_socket_gets_requests_for_one_fixed_path() {
    let folder = TempDir::new();
    for (name, expected_request) in [
        ("crio.sock", "GET /debug/goroutines HTTP/1.0\r\n"),
        ("debug.sock", "GET /debug/pprof/goroutine?debug=2 HTTP/1.0\r\n"),
    ] {
        let socket = folder.path().join(name);
        let mut answer = b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n".to_vec();
        answer.extend_from_slice(b"goroutine 1 [select]:\nmain.f(0x1)\n\t/a.go:1 +0x1\n");
        let server = serve(&socket, answer);
        let output = plegctl(&["stacks", "-o", "json", &format!("unix://{}", socket.display())]);
        assert_eq!(output.code, Some(0), "{output}");
        let request = server.join().unwrap();
        assert!(request.starts_with(expected_request), "{request}");
        assert_eq!(json(&output)["dumps"][0]["goroutines"], 1);
    }
}

#[test]
fn error_names_why_a_socket_gives_no_dump() {
    let folder = TempDir::new();
    let socket = folder.path().join("old.sock");
    let server = serve(&socket, b"HTTP/1.1 404 Not Found\r\n\r\n".to_vec());
    let output = plegctl(&["stacks", &format!("unix://{}", socket.display())]);
    server.join().unwrap();
    assert_eq!(output.code, Some(2), "{output}");
    assert!(
        output.stderr.contains("HTTP status 404") && output.stderr.contains("hint: CRI-O provides dumps"),
        "{output}"
    );
    let gone = plegctl(&["stacks", "unix:///nowhere/debug.sock"]);
    assert_eq!(gone.code, Some(2), "{gone}");
}

#[test]
fn error_without_dump_sources_lists_what_was_tried() {
    let root = TempDir::new();
    let output = plegctl(&["stacks", "--host-root", root.path().to_str().unwrap()]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{output}");
    assert!(
        output.stderr.contains("tried CRI-O's socket, containerd's debug socket, dumps in /tmp"),
        "{output}"
    );
    assert!(output.stderr.contains("hint: you can create one: `kill -USR1"), "{output}");
}

#[test]
fn dump_file_in_tmp_is_found() {
    let root = TempDir::new();
    let tmp = root.path().join("tmp");
    fs::create_dir(&tmp).unwrap();
    fs::write(
        tmp.join("containerd.4000001.stacks.log"),
        "goroutine 1 [select]:\nmain.f(0x1)\n\t/a.go:1 +0x1\n",
    )
    .unwrap();
    let output = plegctl(&["stacks", "--host-root", root.path().to_str().unwrap()]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(
        words(&output.stdout).contains("containerd.4000001.stacks.log: 1 goroutine of unknown, taken "),
        "{output}"
    );
}

/// Writes a recorded dump with this age.
fn dump_of_age(path: &Path, name: &str, age: Duration) {
    fs::copy(recording(name), path).unwrap();
    fs::File::options().write(true).open(path).unwrap().set_modified(SystemTime::now() - age).unwrap();
}

#[test]
fn old_dump_of_a_dead_process_is_not_the_state_of_now() {
    let root = TempDir::new();
    fs::create_dir(root.path().join("tmp")).unwrap();
    let path = root.path().join("tmp/containerd.4000001.stacks.log");
    dump_of_age(&path, "c2-lock.t200.usr1.gz", Duration::from_secs(16 * 60 + 10));
    let output = plegctl(&["stacks", "--host-root", root.path().to_str().unwrap()]);
    assert_eq!(output.code, Some(0), "{output}");
    let first = "as of 16m ago (the process has ended since): 9 calls (6 ListContainers) wait for";
    assert!(words(&output.stdout).starts_with(first), "{output}");
    let output = plegctl(&["stacks", "-o", "json", "--host-root", root.path().to_str().unwrap()]);
    let past = &json(&output)["dumps"][0]["past"];
    assert_eq!((past["processEnded"].as_bool(), output.code), (Some(true), Some(0)), "{output}");
    assert!(past["ageSeconds"].as_f64().is_some_and(|age| age >= 970.0), "{output}");
}

#[test]
fn health_uses_no_old_dump_for_its_verdict() {
    let root = TempDir::new();
    for (name, age, why) in [
        ("dump.gz", 3600, "not used: it was written 60m ago; take a new dump"),
        ("containerd.4000001.stacks.log", 1, "and the process that wrote it has ended; take a new dump"),
    ] {
        let path = root.path().join(name);
        dump_of_age(&path, "c2-lock.t5.usr1.gz", Duration::from_secs(age));
        let path = path.to_str().unwrap();
        let arguments = ["health", "-r", "sim:hung-list", "--stacks", path, "--patience", "6s", "-o", "json"];
        let output = Invocation::new(&arguments).with_short_silences().run();
        let report = json(&output);
        let skipped = report["notChecked"].as_array().unwrap();
        let skipped = skipped.iter().find(|skipped| skipped["what"].as_str().unwrap().contains("(stacks)"));
        assert!(skipped.is_some_and(|skipped| skipped["why"].as_str().unwrap().contains(why)), "{output}");
        assert!(!output.stdout.contains("wait for a container's status lock"), "{output}");
    }
}

#[test]
fn health_reads_a_dump_if_a_list_hangs() {
    let root = TempDir::new();
    let dump = root.path().join("dump.gz");
    dump_of_age(&dump, "c2-lock.t5.usr1.gz", Duration::ZERO);
    let dump = dump.to_str().unwrap();
    let arguments = ["health", "-r", "sim:hung-list", "--stacks", dump, "--patience", "6s", "-o", "json"];
    let output = Invocation::new(&arguments).with_short_silences().run();
    let report = json(&output);
    let finding =
        report["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == "D02").unwrap();
    // The dump has no age, but the open call shows about how long the wait has lasted.
    let chain = "8 calls (5 ListContainers) wait for a container's status lock, held by an UpdateContainerResources that waits about ";
    let is_chain = |line: &Value| {
        line.as_str()
            .unwrap()
            .strip_prefix(chain)
            .is_some_and(|rest| rest.ends_with(" s for its shim (ST01)"))
    };
    assert!(finding["evidence"].as_array().unwrap().iter().any(is_chain), "{output}");
    assert!(finding["steps"].to_string().contains("examine the shim, not the lock"), "{output}");
}

#[test]
fn health_reads_no_dump_if_every_call_is_answered() {
    let output = plegctl(&["health", "-r", "sim:quiet", "--stacks", "/nowhere/dump", "-o", "json"]);
    assert!(!output.stdout.contains("/nowhere/dump"), "{output}");
}

#[test]
fn goroutines_of_a_kubelet_are_read_and_no_token_is_sent_in_plain_text() {
    let root = TempDir::new();
    let token = root.path().join("token");
    fs::write(&token, "secret-word\n").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let answers = [
            "HTTP/1.1 200 OK\r\nContent-Length: 56\r\n\r\ngoroutine 1 [select]:\nmain.f(0x1)\n\t/a/kubelet.go:1 +0x1\n",
            "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
        ];
        answers.map(|answer| {
            let (mut stream, _) = listener.accept().unwrap();
            let request = request_of(&mut stream);
            stream.write_all(answer.as_bytes()).unwrap();
            request
        })
    });
    let how = [
        "stacks",
        "-o",
        "json",
        "--host-root",
        root.path().to_str().unwrap(),
        "--kubelet-url",
        &url,
        "--kubelet-token-file",
        token.to_str().unwrap(),
    ];
    let output = plegctl(&how);
    let refused = plegctl(&how);
    for request in server.join().unwrap() {
        assert!(request.starts_with("GET /debug/pprof/goroutine?debug=2 HTTP/1.1\r\n"), "{request}");
        assert!(!request.contains("secret-word"), "{request}");
    }
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(json(&output)["dumps"][0]["goroutines"], 1);
    assert_eq!(refused.code, Some(2), "{refused}");
    assert!(
        refused.stderr.contains("HTTP status 403") && refused.stderr.contains("nodes/proxy"),
        "{refused}"
    );
    assert!(!format!("{output}{refused}").contains("secret-word"), "{refused}");
}

/// Runs a command that plegctl prints, with programs that only write down how they were started.
fn started_by(command: &str) -> Vec<String> {
    let folder = TempDir::new();
    for program in ["curl", "pkill", "sleep"] {
        let path = folder.path().join(program);
        fs::write(&path, format!("#!/bin/sh\necho {program} \"$@\" >> '{}/log'\n", folder.path().display()))
            .unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let shell = Invocation::program("/bin/sh", &["-c", command]);
    let output = shell.env("PATH", folder.path().as_os_str()).current_dir(folder.path()).run();
    assert_eq!(output.code, Some(0), "{output}");
    fs::read_to_string(folder.path().join("log")).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn printed_commands_for_two_dumps_wait_only_between_them_and_never_for_ever() {
    let curl = "curl -s -m 10 --unix-socket /run/crio/crio.sock http://localhost/debug/goroutines";
    for (node, dump) in [("sim:hung-container", curl), ("sim:hung-two-pods", "pkill -USR1 -x containerd")] {
        let arguments = ["health", "-r", node, "--patience", "6s", "-o", "json"];
        let report = json(&Invocation::new(&arguments).with_short_silences().run());
        let mut commands =
            report["keep"].as_array().unwrap().iter().filter_map(|step| step["command"].as_str());
        let command = commands.find(|command| command.contains("sleep 60")).unwrap();
        // A shell has its own `kill`, which would signal a process of this machine.
        assert!(command.contains(dump) && !command.split(' ').any(|word| word == "kill"), "{command}");
        assert_eq!(started_by(command), [dump, "sleep 60", dump], "{command}");
    }
}

#[test]
fn advice_for_crio_does_not_name_containerd() {
    let folder = TempDir::new();
    let socket = folder.path().join("crio.sock");
    let endpoint = format!("unix://{}", socket.display());
    // The socket of a runtime that has ended: nothing listens.
    drop(UnixListener::bind(&socket).unwrap());
    let output = plegctl(&["health", "-r", &endpoint, "-o", "json"]);
    let next = json(&output)["primary"]["steps"].to_string();
    assert!(next.contains("systemctl start crio") && !next.contains("containerd"), "{output}");

    fs::remove_file(&socket).unwrap();
    // The first connection only asks the kernel who listens.
    let listener = UnixListener::bind(&socket).unwrap();
    let server = thread::spawn(move || {
        drop(listener.accept().unwrap());
        let (mut stream, _) = listener.accept().unwrap();
        request_of(&mut stream);
        stream.write_all(b"HTTP/1.1 404 Not Found\r\n\r\n").unwrap();
    });
    let output = plegctl(&["stacks", "-r", &endpoint]);
    server.join().unwrap();
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("HTTP status 404"), "{output}");
    let hint = output.stderr.lines().find(|line| line.starts_with("hint: ")).unwrap();
    assert!(hint.contains("kill -USR1 $(pidof crio)") && !hint.contains("containerd"), "{output}");
}
