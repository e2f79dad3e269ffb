//! The process tests of `plegctl watch`: its output, its calls, and how it ends.

use std::io::{Read, Write};

use plegctl_engine::cri::Rpc;
use serde_json::Value;

use crate::cli::stream_records::{Events, of_kind, records, text};
use crate::support::address::free_address;
use crate::support::plegctl::{Invocation, plegctl};
use crate::support::{FakeRuntime, Gate, Node, ReceivedCall, recording};

/// Returns the delivered events of the relist `number`.
fn events(records: &[Value], number: u64) -> Events {
    let mut events = Events::new();
    for event in of_kind(records, "Event") {
        if event["relist"] == number && event["delivered"] == true {
            let id = event["id"].as_str().unwrap_or("<nil>").to_owned();
            events.entry(text(&event["pod"]["uid"])).or_default().push((text(&event["type"]), id));
        }
    }
    events
}

/// Returns the calls that the fake received, by relist and sorted. A relist begins with an unfiltered sandbox list.
fn calls(received: &[ReceivedCall]) -> Vec<Vec<(String, String)>> {
    let mut relists: Vec<Vec<(String, String)>> = Vec::new();
    for call in received.iter().filter(|call| call.rpc != Rpc::Version) {
        if call.rpc == Rpc::ListPodSandbox && call.id.is_empty() {
            relists.push(Vec::new());
        }
        relists.last_mut().unwrap().push((call.rpc.name().to_owned(), call.id.clone()));
    }
    for calls in &mut relists {
        calls.sort();
    }
    relists
}

fn pairs(value: &Value) -> Vec<(String, String)> {
    value.as_array().into_iter().flatten().map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
}

/// Plays the recorded histories of a kubelet. In each relist, `watch` must emit the same events and make the same
/// calls.
fn replay(version: &str, histories: usize) {
    let recorded = recording::histories(&format!("pleg-{version}"));
    assert_eq!(recorded.len(), histories);
    for history in &recorded {
        let fake = FakeRuntime::replay(history);
        let steps = history["expect"].as_array().unwrap();
        let output = plegctl(&[
            "watch",
            "--runtime-endpoint",
            &fake.endpoint(),
            "--kubelet-version",
            version,
            "--period",
            "1ms",
            "--count",
            &steps.len().to_string(),
            "--output",
            "jsonl",
        ]);
        assert_eq!(output.code, Some(0), "{output}");
        let records = records(&output.stdout);
        let calls = calls(&fake.calls());
        for (number, expected) in (1..).zip(steps) {
            let recorded: Events = expected["events"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(uid, events)| (uid.clone(), pairs(events)))
                .collect();
            let place = format!("{} {version}, relist {number}", history["name"]);
            assert_eq!(events(&records, number), recorded, "{place}");
            assert_eq!(calls[usize::try_from(number).unwrap() - 1], pairs(&expected["calls"]), "{place}");
        }
    }
}

#[test]
fn long_recorded_history_of_kubelet_1_36_2_is_reproduced() {
    replay("1.36.2", 60);
}

#[test]
fn long_recorded_history_of_kubelet_1_32_10_is_reproduced() {
    replay("1.32.10", 20);
}

#[test]
fn long_recorded_history_of_kubelet_1_31_12_is_reproduced() {
    replay("1.31.12", 20);
}

#[test]
fn long_recorded_history_of_kubelet_1_28_6_is_reproduced() {
    replay("1.28.6", 20);
}

fn node() -> Node {
    Node::new().pod("default/web-0", "uid-1").sandbox("s1").container("c1", "app")
}

#[test]
fn records_are_printed_in_the_order_of_their_times() {
    let fake = FakeRuntime::start(node());
    let output =
        plegctl(&["watch", "-r", &fake.endpoint(), "--count", "2", "--period", "1ms", "-o", "jsonl"]);
    assert_eq!(output.code, Some(0), "{output}");
    let records = records(&output.stdout);
    let kinds: Vec<String> = records.iter().map(|record| text(&record["kind"])).collect();
    assert_eq!(kinds, ["WatchStarted", "Event", "Event", "Relist", "Health", "Relist", "WatchSummary"]);
    assert!(records.iter().all(|record| record["apiVersion"] == "plegctl/v1"));
    assert!(output.stdout.starts_with(r#"{"apiVersion":"plegctl/v1","kind":"WatchStarted","#), "{output}");
}

#[test]
fn ctrl_c_ends_a_watch_during_a_hung_call_and_names_the_call() {
    let fake = FakeRuntime::start(node());
    fake.on(Rpc::ContainerStatus).id("c1").hang();
    let running = Invocation::new(&["watch", "-r", &fake.endpoint(), "-o", "jsonl"]).spawn();
    fake.wait_for(Rpc::ContainerStatus, 1);
    running.signal("INT");
    let output = running.wait();
    assert_eq!(output.code, Some(0), "{output}");
    let records = records(&output.stdout);
    let summary = of_kind(&records, "WatchSummary")[0];
    // The hung call may not be the first entry, because a list may have taken longer than the test took to send Ctrl-C.
    let slowest = summary["slowest"].as_array().unwrap();
    let silent: Vec<&Value> = slowest.iter().filter(|call| call["silentSoFar"] == true).collect();
    assert_eq!(silent.len(), 1, "{output}");
    assert_eq!((&silent[0]["rpc"], &silent[0]["id"]), (&"ContainerStatus".into(), &"c1".into()));
    assert_eq!(silent[0]["pod"]["name"], "web-0");
    let took: Vec<f64> = slowest.iter().map(|call| call["durationSeconds"].as_f64().unwrap()).collect();
    assert!(took.is_sorted_by(|one, next| one >= next), "{output}");
    assert_eq!(fake.calls_of(Rpc::ContainerStatus).len(), 1, "a hung call is not repeated");
}

#[test]
fn for_ends_a_watch_during_a_hung_list() {
    let fake = FakeRuntime::start(node());
    fake.on(Rpc::ListContainers).hang();
    // On a busy machine, a short watch may end before it makes the call that hangs.
    let mut outputs = ["1s", "4s", "16s", "40s"].into_iter().map(|time| {
        let output = plegctl(&["watch", "-r", &fake.endpoint(), "--for", time, "-o", "jsonl"]);
        assert_eq!(output.code, Some(0), "{output}");
        output
    });
    let output = outputs.find(|_| !fake.calls_of(Rpc::ListContainers).is_empty()).unwrap();
    let records = records(&output.stdout);
    let slowest = of_kind(&records, "WatchSummary")[0]["slowest"].as_array().unwrap();
    assert!(
        slowest.iter().any(|call| call["rpc"] == "ListContainers" && call["silentSoFar"] == true),
        "{output}"
    );
}

#[test]
fn slow_call_ends_an_until_slow_watch_and_names_the_culprit() {
    let fake = FakeRuntime::start(node());
    fake.on(Rpc::ContainerStatus).id("c1").hang();
    let arguments = ["watch", "-r", &fake.endpoint(), "--until-slow", "2s"];
    let output = Invocation::new(&arguments).with_short_silences().run();
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stdout.contains("ContainerStatus of default/web-0 c1"), "{output}");
    assert!(output.stdout.contains("ContainerStatus of default/web-0/app does not answer"), "{output}");
    assert!(output.stdout.contains("\nwhy: D01 certain"), "{output}");
    assert_eq!(fake.calls_of(Rpc::ContainerStatus).len(), 1, "the call that hangs is not made again");
}

#[test]
fn diagnosis_does_not_repeat_a_call_that_timed_out() {
    let fake = FakeRuntime::start(node());
    for id in ["c1", "c2"] {
        fake.on(Rpc::ContainerStatus).id(id).hang();
    }
    let endpoint = fake.endpoint();
    let output = plegctl(&["watch", "-r", &endpoint, "--timeout", "8s", "--until-slow", "5s"]);
    assert_eq!(output.code, Some(1), "{output}");
    let calls = fake.calls_of(Rpc::ContainerStatus);
    for id in ["c1", "c2"] {
        assert!(calls.iter().filter(|call| call.id == id).count() <= 1, "{calls:?}\n{output}");
    }
}

#[test]
fn silent_call_gets_lines_and_a_diagnosis_that_does_not_repeat_it() {
    let fake = FakeRuntime::start(node());
    let gate = Gate::new();
    fake.on(Rpc::ContainerStatus).id("c1").hold(&gate);
    let log = fake.folder().join("watch.jsonl").display().to_string();
    let mut running =
        Invocation::new(&["watch", "-r", &fake.endpoint(), "--diagnose", "--log", &log]).spawn();
    let mut line_with = |words: &str| {
        while let Some(line) = running.line() {
            if line.contains(words) {
                return line;
            }
        }
        panic!("the watch ended without {words:?}");
    };
    let silent = line_with("has not answered");
    assert!(silent.contains("ContainerStatus of default/web-0 c1 has not answered for 5s"), "{silent}");
    let diagnosis = line_with("diagnosis: ");
    assert!(diagnosis.contains("D01 "), "{diagnosis}");
    assert_eq!(fake.calls_of(Rpc::ContainerStatus).len(), 1, "the call that is silent is not made again");
    gate.open();
    let ended = line_with("was answered");
    assert!(ended.contains("ContainerStatus of default/web-0 c1 was answered, after "), "{ended}");
    let slow = line_with("relist 1 took");
    assert!(slow.contains("its slowest call was ContainerStatus of default/web-0 c1"), "{slow}");
    running.signal("INT");
    assert_eq!(running.wait().code, Some(0));
    let records = records(&std::fs::read_to_string(&log).unwrap());
    let silence = of_kind(&records, "Silence")[0];
    assert_eq!((&silence["rpc"], &silence["id"]), (&"ContainerStatus".into(), &"c1".into()));
    assert_eq!((&silence["pod"]["name"], &silence["waitedSeconds"]), (&"web-0".into(), &5.0.into()));
}

#[test]
fn pending_call_continues_during_the_diagnosis_of_an_until_slow_watch() {
    let fake = FakeRuntime::start(node());
    let gate = Gate::new();
    fake.on(Rpc::ContainerStatus).id("c1").hold(&gate);
    let running = Invocation::new(&["watch", "-r", &fake.endpoint(), "--until-slow", "2s"]).spawn();
    // Only the diagnosis calls Status.
    fake.wait_for(Rpc::Status, 1);
    assert_eq!(fake.calls_of(Rpc::ContainerStatus).len(), 1, "a pending call is not made again");
    gate.open();
    let output = running.wait();
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stdout.contains("the call has ended since then: relist 1 took"), "{output}");
    assert!(output.stdout.contains("1 relist in"), "{output}");
}

#[test]
fn dumb_terminal_gets_plain_lines_of_its_width() {
    let name = format!("default/{}", "web-".repeat(30));
    let fake = FakeRuntime::start(Node::new().pod(&name, "uid-1").sandbox("s1").container("c1", "app"));
    for term in ["dumb", ""] {
        let arguments = ["watch", "-r", &fake.endpoint(), "--count", "1", "--initial"];
        let output = Invocation::in_terminal(&arguments).env("TERM", term).run();
        assert!(output.stdout.contains("PLEG is healthy"), "{output}");
        assert!(!output.stdout.contains('\u{1b}'), "{output}");
        let output = Invocation::in_terminal_of((24, 72), env!("CARGO_BIN_EXE_plegctl"), &arguments)
            .env("TERM", term)
            .run();
        assert!(output.stdout.lines().all(|line| line.trim_end().chars().count() <= 72), "{output}");
        let row = output.stdout.lines().find(|line| line.contains("web-…")).expect("the name is shortened");
        assert!(
            row.contains("non-existent → running") && row.trim_end().ends_with("ContainerStarted"),
            "{output}"
        );
    }
}

#[test]
fn metrics_are_served_again_when_file_descriptors_are_free() {
    let fake = FakeRuntime::start(node());
    let address = free_address();
    let watch = format!(
        "ulimit -n 32; exec {} watch -r {} --metrics-listen {address} -o jsonl",
        env!("CARGO_BIN_EXE_plegctl"),
        fake.endpoint()
    );
    let mut running = Invocation::program("sh", &["-c", &watch]).spawn();
    assert!(running.line().is_some());
    let crowd: Vec<_> = (0..64).filter_map(|_| std::net::TcpStream::connect(&address).ok()).collect();
    // There are more connections than file descriptors, so the watch has not accepted the last ones.
    assert_eq!(crowd.len(), 64);
    drop(crowd);
    let scraped = (0..600).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let mut stream = std::net::TcpStream::connect(&address).ok()?;
        stream.write_all(b"GET /metrics?x=1 HTTP/1.1\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer).filter(|answer| !answer.is_empty())
    });
    assert!(scraped.unwrap().starts_with("HTTP/1.1 200 OK"));
    running.signal("INT");
    assert_eq!(running.wait().code, Some(0));
}

#[test]
fn unhealthy_pleg_ends_an_until_unhealthy_watch() {
    let fake = FakeRuntime::start(node());
    fake.on(Rpc::ListPodSandbox).hang();
    let arguments =
        ["watch", "-r", &fake.endpoint(), "--threshold", "100ms", "--until-unhealthy", "-o", "jsonl"];
    let output = Invocation::new(&arguments).with_short_silences().run();
    assert_eq!(output.code, Some(1), "{output}");
    let records = records(&output.stdout);
    assert_eq!(of_kind(&records, "Health")[0]["message"], "pleg has yet to be successful");
}

#[test]
fn list_over_the_kubelets_limit_ends_an_until_unhealthy_watch() {
    let fake = FakeRuntime::start(node());
    fake.on(Rpc::ListContainers).oversize(17 << 20);
    let output =
        plegctl(&["watch", "-r", &fake.endpoint(), "--until-unhealthy", "--count", "2", "-o", "jsonl"]);
    assert_eq!(output.code, Some(1), "{output}");
    let records = records(&output.stdout);
    let relist = of_kind(&records, "Relist")[0];
    assert_eq!(relist["outcome"], "error", "{output}");
    let error = relist["error"].as_str().unwrap();
    assert!(
        error.contains("grpc: received message larger than max (") && error.contains(" vs. 16777216)"),
        "{error}"
    );
    assert_eq!(of_kind(&records, "Health")[0]["message"], "pleg has yet to be successful");
}

#[test]
fn a_runtime_restart_is_reported_and_survived() {
    let mut fake = FakeRuntime::start(node());
    let mut running =
        Invocation::new(&["watch", "-r", &fake.endpoint(), "--period", "20ms", "-o", "jsonl"]).spawn();
    let mut next_relist = |outcome: &str| {
        while let Some(line) = running.line() {
            let record: Value = serde_json::from_str(&line).unwrap();
            if record["kind"] == "Relist" && record["outcome"] == outcome {
                return record;
            }
        }
        panic!("the watch ended");
    };
    next_relist("ok");
    fake.stop();
    // Relists that were running or connecting when the runtime ended have other errors. Later relists find no listener
    // on the socket.
    let mut failures = (0..50).map(|_| next_relist("error"));
    let unreachable =
        failures.find(|failed| failed["error"].as_str().unwrap().contains("cannot reach the runtime"));
    assert!(unreachable.is_some(), "no relist finds that the runtime is gone");
    fake.restart();
    next_relist("ok");
    running.signal("TERM");
    assert_eq!(running.wait().code, Some(0));
}

#[test]
fn closed_pipe_ends_a_watch_without_an_error() {
    let fake = FakeRuntime::start(node());
    let mut running =
        Invocation::new(&["watch", "-r", &fake.endpoint(), "--period", "1ms", "-o", "jsonl"]).spawn();
    assert!(running.line().is_some());
    running.close_stdout();
    let output = running.wait();
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
}

#[test]
fn ctrl_c_ends_a_watch_whose_output_is_not_read() {
    let fake = FakeRuntime::start(Node::many(50, 4));
    let running =
        Invocation::new(&["watch", "-r", &fake.endpoint(), "--period", "1ms", "-o", "jsonl"]).spawn();
    fake.wait_for(Rpc::ListPodSandbox, 20);
    running.signal("INT");
    assert_eq!(running.wait_unread().code, Some(0));
}

#[test]
fn without_inspection_no_status_call_is_made() {
    let fake = FakeRuntime::start(node());
    let output = plegctl(&["watch", "-r", &fake.endpoint(), "--count", "1", "--no-inspect", "-o", "jsonl"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stderr.contains("--no-inspect"), "{output}");
    assert!(fake.calls_of(Rpc::ContainerStatus).is_empty());
    assert_eq!(of_kind(&records(&output.stdout), "Event").len(), 2);
}

#[test]
fn table_shows_the_events_of_the_first_relist_only_with_initial() {
    let fake = FakeRuntime::start(node());
    let endpoint = fake.endpoint();
    let plain = plegctl(&["watch", "-r", &endpoint, "--count", "1"]);
    assert!(plain.stdout.contains("first relist took"), "{plain}");
    assert!(!plain.stdout.contains("ContainerStarted\n"), "{plain}");
    let initial = plegctl(&["watch", "-r", &endpoint, "--count", "1", "--initial"]);
    assert!(
        initial.stdout.contains(
            "default/web-0                     app                   non-existent → running            ContainerStarted"
        ),
        "{initial}"
    );
    assert!(!plain.stdout.contains('\u{1b}') && !initial.stdout.contains('\u{1b}'));
}

#[test]
fn a_header_says_what_is_watched_and_names_the_columns() {
    let fake = FakeRuntime::start(node());
    let watch = |more: &[&str]| {
        plegctl(&[&["watch", "-r", &fake.endpoint(), "--count", "1", "--initial"], more].concat())
    };
    let output = watch(&[]);
    let lines: Vec<&str> = output.stdout.lines().collect();
    let [watching, columns] = ["watching ", "TIME (UTC) "].map(|start| {
        let mut starting = lines.iter().enumerate().filter(|(_, line)| line.starts_with(start));
        let found = starting.next().unwrap_or_else(|| panic!("{start}: {output}"));
        assert!(starting.next().is_none(), "there is one header: {output}");
        found
    });
    assert!(watching.0 == 0 && watching.1.contains(&fake.endpoint()), "{output}");
    assert!(watching.1.contains("): generic mode, a relist every 1s as in kubelet "), "{output}");
    assert!(lines[columns.0 + 1].contains(" → "), "{output}");
    assert!(
        output
            .stdout
            .contains("p99: 99 of 100 relists take at most this long. With only 1, it is the longest"),
        "{output}"
    );
    let without = watch(&["--no-headers"]);
    assert!(!without.stdout.contains("watching ") && !without.stdout.contains("TIME"), "{without}");
}

#[test]
fn the_end_leaves_no_live_line_on_the_terminal() {
    let fake = FakeRuntime::start(node());
    let arguments = ["watch", "-r", &fake.endpoint(), "--period", "20ms", "--count", "100"];
    let output = Invocation::in_terminal_of((24, 80), env!("CARGO_BIN_EXE_plegctl"), &arguments).run();
    assert_eq!(output.code, Some(0), "{output}");
    let (last_live, removal) = (output.stdout.rfind("s of 3m  "), output.stdout.rfind("\r\u{1b}[J"));
    assert!(last_live.is_some() && last_live < removal, "{output}");
    assert!(
        output.stdout.contains("  last ") && output.stdout.contains(|bar| "▁▂▃▄▅▆▇█".contains(bar)),
        "{output}"
    );
    assert!(
        output.stdout.contains("\u{1b}[32m") && output.stdout.contains("PLEG is healthy\u{1b}[0m"),
        "{output}"
    );
    let plain = Invocation::in_terminal_of((24, 80), env!("CARGO_BIN_EXE_plegctl"), &arguments)
        .env("NO_COLOR", "1")
        .run();
    assert!(!plain.stdout.contains("\u{1b}[32m"), "{plain}");
}

#[test]
fn log_has_the_json_lines_while_stdout_has_the_table() {
    let fake = FakeRuntime::start(node());
    let log = fake.folder().join("watch.jsonl");
    let output =
        plegctl(&["watch", "-r", &fake.endpoint(), "--count", "1", "--log", &log.display().to_string()]);
    assert_eq!(output.code, Some(0), "{output}");
    let records = records(&std::fs::read_to_string(&log).unwrap());
    assert_eq!(records.last().unwrap()["kind"], "WatchSummary");
}

#[test]
fn long_log_that_cannot_be_written_in_time_is_an_error() {
    // More bytes than a pipe holds.
    let fake = FakeRuntime::start(Node::many(500, 4));
    let log = fake.folder().join("fifo").display().to_string();
    assert!(std::process::Command::new("mkfifo").arg(&log).status().unwrap().success());
    let mut reader = Invocation::program("sh", &["-c", "exec 3<\"$0\"; echo; exec sleep 1000", &log]).spawn();
    let output = Invocation::new(&["watch", "-r", &fake.endpoint(), "--count", "1", "--log", &log]).run();
    assert!(reader.line().is_some(), "it opens what it does not read");
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains(&format!("cannot write `{log}`")), "{output}");
}

#[test]
fn invalid_counts_and_periods_are_usage_errors() {
    for arguments in [["--count", "0"], ["--period", "0s"], ["--period", "5"], ["--threshold", "0s"]] {
        let output = plegctl(&[["watch"].as_slice(), &arguments].concat());
        assert_eq!(output.code, Some(2), "{output}");
        assert!(output.stderr.contains(arguments[0]), "{output}");
    }
}

#[test]
fn watch_fails_without_a_runtime_at_the_start() {
    let output = plegctl(&["watch", "-r", "/nowhere/at.sock"]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""));
    assert!(output.stderr.contains("no such socket") && output.stderr.contains("hint: "), "{output}");
}
