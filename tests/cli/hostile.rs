//! Tests with hostile answers of the process behind the socket: plegctl reports each answer correctly and never
//! crashes.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use plegctl_engine::clock::SystemClock;
use plegctl_engine::cri::{Client, Code, Container, Error, Filter, Rpc, Runtime};
use prost::Message;
use prost::bytes::Bytes;
use serde_json::Value;

use crate::support::plegctl::{EMPTY_PROC, Output, plegctl};
use crate::support::raw_server::{RawAnswer, RawServer, framed};
use crate::support::socket::TempDir;
use crate::support::wire;

const NOT_BASE64: &str = "this is !! not base64";

/// Returns a client whose deadline is long enough for an answer of a hundred megabytes on a busy machine.
fn client(server: &RawServer) -> Client {
    let clock = Arc::new(SystemClock::start());
    Client::new(&server.socket(), &server.endpoint(), Duration::from_secs(300), clock)
}

async fn list(server: &RawServer) -> Result<Vec<Container>, Error> {
    client(server).list_containers(&Filter::default()).await.result
}

/// Returns the error of a `ListContainers` that gets this answer.
async fn error_of_list(answer: RawAnswer) -> String {
    let server = RawServer::answering(Rpc::ListContainers, answer);
    list(&server).await.unwrap_err().to_string()
}

#[tokio::test]
async fn status_details_that_are_not_base64_are_an_error_of_that_call() {
    let with = |status: &str| {
        RawAnswer::headers_only(&[("grpc-status", status), ("grpc-status-details-bin", NOT_BASE64)])
    };
    for (answer, status) in [
        (with("0"), "0"),
        (with("5").header("grpc-message", "gone"), "5 `gone`"),
        (RawAnswer::of([Bytes::new()]).trailer("grpc-status-details-bin", NOT_BASE64), "0"),
        (
            RawAnswer::of([Bytes::new()])
                .trailer("grpc-status", "13")
                .trailer("grpc-status-details-bin", "A"),
            "13",
        ),
    ] {
        assert_eq!(
            error_of_list(answer).await,
            "cannot decode the answer to ListContainers: its header grpc-status-details-bin is not base64 (its \
             gRPC status: ".to_owned() + status + ")"
        );
    }
    // Valid details are ignored.
    let not_found = RawAnswer::headers_only(&[
        ("grpc-status", "5"),
        ("grpc-message", "gone"),
        ("grpc-status-details-bin", "CAUSBGdvbmU"),
    ]);
    let server = RawServer::answering(Rpc::ListContainers, not_found);
    assert!(list(&server).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn status_details_that_are_not_base64_end_a_stream_with_an_error() {
    let bad = RawAnswer::of([Bytes::new()]).trailer("grpc-status-details-bin", NOT_BASE64);
    let server = RawServer::start(move |rpc| {
        matches!(rpc, Rpc::StreamContainers | Rpc::GetContainerEvents).then(|| bad.clone())
    });
    let client = client(&server);
    let listed = client.clone().with_streamed_lists().list_containers(&Filter::default()).await;
    assert!(matches!(listed.result, Err(Error::Decode { rpc: Rpc::StreamContainers, .. })), "{listed:?}");
    let mut events = client.container_events().await.unwrap();
    assert!(events.next().await.unwrap().is_some(), "events before the invalid answer are delivered");
    let ended = events.next().await.unwrap_err();
    assert!(matches!(ended, Error::Decode { rpc: Rpc::GetContainerEvents, .. }), "{ended}");
}

#[test]
fn health_has_a_verdict_whichever_call_has_the_header() {
    for rpc in [Rpc::Version, Rpc::Status, Rpc::ListPodSandbox, Rpc::ListContainers] {
        let answer = RawAnswer::healthy(rpc).trailer("grpc-status-details-bin", NOT_BASE64);
        let server = RawServer::answering(rpc, answer);
        let endpoint = server.endpoint();
        let output = plegctl(&["health", "-o", "json", "--proc", "/nowhere", "-r", &endpoint]);
        let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output}"));
        assert_eq!(report["kind"], "HealthReport", "{output}");
        assert!(output.stdout.contains("not base64"), "{rpc}: {output}");
        assert_eq!(output.signal, None, "{output}");
    }
}

#[tokio::test]
async fn error_names_an_answer_that_is_not_grpc() {
    let page = || RawAnswer::of([Bytes::new()]).header("content-type", "text/html").body("<h1>no</h1>");
    for (answer, words) in [
        (page().status(404), "it answered HTTP status 404 Not Found with `text/html`"),
        (page().status(500), "it answered HTTP status 500 Internal Server Error with `text/html`"),
        (page(), "it answered over HTTP/2 with `text/html`"),
    ] {
        let server = RawServer::answering(Rpc::ListContainers, answer);
        let why = list(&server).await.unwrap_err();
        let Error::WrongProtocol { detail, .. } = &why else { panic!("{why}") };
        assert_eq!(detail, words);
    }
}

#[tokio::test]
async fn error_names_what_is_wrong_with_an_answer() {
    let empty = Bytes::new;
    for (answer, words) in [
        (
            RawAnswer::of([empty()]).header("grpc-encoding", "gzip").body(framed(b"\x1f\x8b", 1)),
            "it is compressed (`gzip`), although plegctl did not request that",
        ),
        (RawAnswer::of([empty(), empty()]), "it has more than one message"),
        (RawAnswer::of(Vec::<Bytes>::new()), "it has a status and no message"),
        (RawAnswer::headers_only(&[("grpc-status", "0")]), "it has a status and no message"),
    ] {
        assert_eq!(
            error_of_list(answer).await,
            format!("cannot decode the answer to ListContainers: {words}")
        );
    }
}

#[tokio::test]
async fn error_message_of_a_runtime_is_shortened() {
    let long = "x".repeat(1 << 20);
    for answer in [
        RawAnswer::headers_only(&[("grpc-status", "2"), ("grpc-message", &long)]),
        RawAnswer::of(Vec::<Bytes>::new()).trailer("grpc-status", "2").trailer("grpc-message", &long),
    ] {
        let server = RawServer::answering(Rpc::ListContainers, answer);
        let Err(Error::Runtime { code: Code::Unknown, message, .. }) = list(&server).await else { panic!() };
        assert!(message.starts_with("xxxx") && message.ends_with("x… (1048576 bytes in all)"));
        assert!(message.len() < 5000, "{}", message.len());
    }
}

#[tokio::test]
async fn list_of_empty_entries_is_refused_and_the_next_call_is_made() {
    let nothing = Bytes::from([0x0a, 0].repeat(4 << 20));
    let server = RawServer::start(move |rpc| match rpc {
        Rpc::ListContainers | Rpc::StreamContainers => Some(RawAnswer::of([nothing.clone()])),
        _ => None,
    });
    let client = client(&server);
    for (client, rpc) in
        [(client.clone(), Rpc::ListContainers), (client.clone().with_streamed_lists(), Rpc::StreamContainers)]
    {
        let why = client.list_containers(&Filter::default()).await.result.unwrap_err();
        assert!(matches!(&why, Error::Implausible { rpc: refused, .. } if *refused == rpc), "{why}");
        assert!(why.hint().is_some());
    }
    assert!(client.list_sandboxes(&Filter::default()).await.result.is_ok());
}

/// Runs `health` with a budget that is long enough for huge lists in a debug build on a busy machine.
fn patient_health(server: &RawServer) -> Output {
    plegctl(&["health", "--proc", EMPTY_PROC, "--budget", "10m", "-o", "json", "-r", &server.endpoint()])
}

/// The kubelet limits only the bytes of a list, so it may accept a list that plegctl refuses because of its memory.
#[test]
fn list_refused_for_its_memory_is_not_a_failure_of_the_runtime() {
    for (mebibytes, verdict, summary) in [
        (
            8,
            "unknown",
            "the answer to ListContainers is refused: its 8.0 MiB would take more than 52.0 MiB of memory",
        ),
        (17, "unhealthy", "the kubelet refuses ListContainers: 17.0 MiB and more is over its 16 MiB"),
    ] {
        let nothing = Bytes::from([0x0a, 0].repeat(mebibytes << 19));
        let server = RawServer::start(move |rpc| match rpc {
            Rpc::ListContainers => Some(RawAnswer::of([nothing.clone()])),
            _ => None,
        });
        let output = patient_health(&server);
        let report: Value =
            serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"));
        assert_eq!(report["verdict"], verdict, "{output}");
        assert!(report["summary"].as_str().unwrap().contains(summary), "{output}");
        assert!(!output.stdout.contains("\"D29\""), "{output}");
    }
}

/// Many ended sandboxes with few labels: plegctl refuses the list because of its memory. Above 16 MiB the kubelet
/// refuses it too; below that, the kubelet may accept it.
#[test]
fn long_list_of_many_small_sandboxes_is_unhealthy_above_the_kubelets_limit_and_unknown_below() {
    let sandbox = |number: usize| wire::PodSandbox {
        id: format!("{number:064x}"),
        metadata: Some(wire::PodSandboxMetadata {
            name: format!("{number:060x}"),
            uid: format!("{number:060x}"),
            namespace: format!("{number:060x}"),
            attempt: 1,
        }),
        state: 1,
        created_at: 1_790_000_000_000_000_000,
        labels: (0..9).map(|label| wire::pair(&label.to_string(), "v")).collect(),
        ..Default::default()
    };
    for (count, verdict, primary, summary) in [
        (
            52_000,
            "unhealthy",
            "D03",
            "the kubelet refuses ListPodSandbox: 17.1 MiB and more is over its 16 MiB",
        ),
        (
            44_000,
            "unknown",
            "D03",
            "the answer to ListPodSandbox is refused: its 14.4 MiB would take more than",
        ),
    ] {
        let items = (0..count).map(sandbox).collect();
        let list = Bytes::from(wire::ListPodSandboxResponse { items }.encode_to_vec());
        let server =
            RawServer::start(move |rpc| (rpc == Rpc::ListPodSandbox).then(|| RawAnswer::of([list.clone()])));
        let output = patient_health(&server);
        let report: Value =
            serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"));
        assert_eq!(
            (&report["verdict"], &report["primary"]["id"]),
            (&verdict.into(), &primary.into()),
            "{output}"
        );
        assert!(report["summary"].as_str().unwrap().contains(summary), "{output}");
        let output = plegctl(&["relist", "-r", &server.endpoint(), "--timeout", "5m"]);
        assert_eq!(output.code, Some(2), "{output}");
        assert!(output.stderr.contains("the kubelet limits only bytes (16 MiB per answer)"), "{output}");
    }
}

#[tokio::test]
async fn endless_streamed_list_is_given_up() {
    // Entries of a plausible size, a million bytes in each message.
    let annotations = vec![wire::pair("a", &"x".repeat(1_000_000))];
    let entry = wire::StreamContainersResponse {
        containers: vec![wire::Container { annotations, ..Default::default() }],
    };
    let endless = RawAnswer::of([entry.encode_to_vec()]).endless();
    let server = RawServer::answering(Rpc::StreamContainers, endless);
    let streamed = client(&server).with_streamed_lists();
    let why = streamed.list_containers(&Filter::default()).await.result.unwrap_err();
    assert_eq!(
        why.to_string(),
        "the answer to StreamContainers is refused: it continues after 96 MiB, which is plegctl's limit"
    );
}

fn healthy_runtime() -> RawServer {
    RawServer::start(|_| None)
}

#[test]
fn saving_to_stdout_or_a_device_writes_there_and_replaces_nothing() {
    let (runtime, null) = (healthy_runtime(), std::fs::metadata("/dev/null").unwrap());
    let endpoint = runtime.endpoint();
    let relist = |file: &str| plegctl(&["relist", "-o", "jsonl", "-r", &endpoint, "--save", file]);
    let saved = relist("/dev/stdout");
    assert_eq!(saved.code, Some(0), "{saved}");
    assert_eq!(saved.stdout.matches("\"RelistReport\"").count(), 2, "{saved}");
    assert_eq!(relist("/dev/null").code, Some(0));
    let after = std::fs::symlink_metadata("/dev/null").unwrap();
    assert_eq!((after.ino(), after.rdev()), (null.ino(), null.rdev()));
    let full = relist("/dev/full");
    assert_eq!(full.code, Some(2), "{full}");
    assert!(full.stderr.contains("cannot write `/dev/full`: No space left on device"), "{full}");
}

#[test]
fn report_that_cannot_be_saved_is_still_printed() {
    let (runtime, folder) = (healthy_runtime(), TempDir::new());
    let (endpoint, manifests) = (runtime.endpoint(), folder.path().to_str().unwrap());
    for (arguments, on_stdout) in [
        (&["health", "--proc", "/nowhere", "-r", &endpoint, "--save", "/dev/full"][..], "containerd 2.1.9"),
        (&["health", "--proc", "/nowhere", "-r", &endpoint, "--bundle", "/dev/full"], "containerd 2.1.9"),
        (&["health", "--proc", "/nowhere", "--npd", "-r", &endpoint, "--save", "/dev/full"], "\n"),
        (&["relist", "-r", &endpoint, "--save", "/dev/full"], "ListPodSandbox"),
        (&["static-pods", "lint", "--no-cri", manifests, "--output-file", "json=/dev/full"], "no file"),
        (&["watch", "-o", "jsonl", "--count", "2", "-r", &endpoint, "--log", "/dev/full"], "WatchSummary"),
    ] {
        let output = plegctl(arguments);
        assert_eq!(output.code, Some(2), "{output}");
        assert!(output.stdout.contains(on_stdout), "{output}");
        assert!(output.stderr.contains("cannot write `/dev/full`: No space left on device"), "{output}");
    }
}

#[test]
fn log_can_be_a_fifo_and_output_file_can_not_be_a_socket() {
    let (runtime, folder) = (healthy_runtime(), TempDir::new());
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let path = fifo.clone();
    let reader = thread::spawn(move || std::fs::read_to_string(path).unwrap());
    let fifo = fifo.to_str().unwrap();
    let watch = plegctl(&["watch", "--count", "1", "-r", &runtime.endpoint(), "--log", fifo]);
    assert_eq!(watch.code, Some(0), "{watch}");
    assert!(reader.join().unwrap().contains("\"WatchSummary\""));
    let socket = format!("json={}", runtime.socket().display());
    let manifests = folder.path().to_str().unwrap();
    let lint = plegctl(&["static-pods", "lint", "--no-cri", manifests, "--output-file", &socket]);
    assert_eq!(lint.code, Some(2), "{lint}");
    assert!(lint.stderr.contains("it is a socket\nhint: "), "{lint}");
}

#[test]
fn endless_or_silent_input_file_is_given_up() {
    let folder = TempDir::new();
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let fifo = fifo.to_str().unwrap();
    // A sparse file that is larger than any memory.
    let sparse = |name: &str, begin: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, begin).unwrap();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        path.display().to_string()
    };
    let (endless, capture) =
        (sparse("endless", b""), sparse("endless.plegcap", b"plegcap\n\x01\0\0\0\0\0\0\0"));
    let scratch = folder.path().join("small");
    std::fs::File::create(&scratch).unwrap().set_len(1 << 30).unwrap();
    let zeroes = scratch.to_str().unwrap();
    let cases = [
        (&["health", "--from", "/dev/zero"][..], "cannot read /dev/zero: it is longer than 65536 KiB"),
        (&["diff", "/dev/zero", "/dev/zero"], "cannot read /dev/zero: it is longer than 65536 KiB"),
        (&["relist", "-r", "sim:/dev/zero"], "/dev/zero"),
        (&["health", "--from", fifo], "it delivered nothing for 5s"),
        (&["relist", "-c", fifo], "it did not answer within 1s"),
        (&["stacks", fifo], "it delivered nothing for 5s"),
        (&["nodes", "--kubeconfig", "/dev/zero"], "it is longer than 16384 KiB"),
        (&["nodes", "--kubeconfig", fifo], "it delivered nothing for 5s"),
        (&["pods", "--no-cri", "--node-name", "n1", "--api-pods", fifo], "it delivered nothing for 5s"),
        (&["capture", "ls", "/dev/zero"], "it is neither a directory nor a regular file"),
        (&["capture", "check", fifo], "it is neither a directory nor a regular file"),
        (&["relist", "-r", "capture:/dev/zero"], "it is neither a directory nor a regular file"),
        (&["capture", "report", &endless], "it is larger than the limit of 2048 MiB"),
        (&["capture", "report", &capture], "it is larger than the limit of 2048 MiB"),
        (&["capture", "ls", zeroes], "it does not start with the mark of a capture"),
    ];
    thread::scope(|scope| {
        for (arguments, words) in cases {
            scope.spawn(move || {
                let output = plegctl(arguments);
                assert_eq!(output.code, Some(2), "{output}");
                // With several sources, the error is one of the reported source errors.
                assert!(output.stderr.contains(words) || output.stdout.contains(words), "{output}");
            });
        }
    });
    // Root reads the kernel's log here, which has no end; other users cannot read it.
    let kmsg = plegctl(&["static-pods", "lint", "--no-cri", "/proc/kmsg"]);
    assert_eq!(kmsg.code, Some(2), "{kmsg}");
}

#[test]
fn recorder_follows_no_symbolic_link() {
    let (runtime, folder) = (healthy_runtime(), TempDir::new());
    let precious = folder.path().join("precious");
    std::fs::write(&precious, "precious").unwrap();
    let planted = folder.path().join("planted");
    std::fs::create_dir(&planted).unwrap();
    std::os::unix::fs::symlink(&precious, planted.join("lock")).unwrap();
    let directory = planted.to_str().unwrap();
    let record = plegctl(&["record", directory, "--for", "1s", "-r", &runtime.endpoint()]);
    assert_eq!(record.code, Some(2), "{record}");
    assert!(record.stderr.contains("cannot use `"), "{record}");
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
}

/// Whether a terminal would interpret this character instead of showing it.
fn is_interpreted(letter: char) -> bool {
    letter.is_control() && !matches!(letter, '\0' | '\n')
}

#[test]
fn written_files_contain_no_terminal_escape_sequences() {
    let folder = TempDir::new();
    let version = wire::VersionResponse {
        version: "0.1.0".into(),
        runtime_name: "con\u{9b}2Jtainerd\u{7f}\u{1b}]0;x\u{7}".into(),
        runtime_version: "2.1.9".into(),
        runtime_api_version: "v1".into(),
    };
    let runtime = RawServer::answering(Rpc::Version, RawAnswer::of([version.encode_to_vec()]));
    let (endpoint, manifests) = (runtime.endpoint(), folder.path().join("manifests"));
    std::fs::create_dir(&manifests).unwrap();
    std::fs::write(
        manifests.join("po\u{9b}2Jd\u{7f}.yaml"),
        "kind: Pod\nmetadata: {name: \"a\\x7f\\x9b\"}\n",
    )
    .unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (relist, health, bundle, lint) = (file("relist"), file("health"), file("bundle"), file("lint"));
    let (sarif, manifests) = (format!("sarif={lint}"), manifests.display().to_string());
    for arguments in [
        &["relist", "-r", &endpoint, "--save", &relist][..],
        &["health", "-r", &endpoint, "--proc", "/nowhere", "--save", &health, "--bundle", &bundle],
        &["static-pods", "lint", "--no-cri", &manifests, "--output-file", &sarif],
    ] {
        plegctl(arguments);
    }
    for (path, packed) in [(&relist, false), (&health, false), (&lint, false), (&bundle, true)] {
        let bytes = std::fs::read(path).unwrap();
        let text = if packed {
            let mut text = String::new();
            flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).unwrap();
            text
        } else {
            String::from_utf8(bytes).unwrap()
        };
        // The path of a manifest appears as a URI.
        let spelled = if *path == lint { "%C2%9B2J" } else { "\\u009b2J" };
        assert!(text.contains(spelled), "{path} does not contain the escaped text: {text}");
        assert!(!text.contains(is_interpreted), "{path}: {text:?}");
    }
}
