//! The process tests of `plegctl watch --mode evented`: it reports what the kubelet's evented PLEG would report, and it
//! does not endanger the node.

use std::time::Duration;

use plegctl_engine::cri::{Code, Rpc};
use serde_json::Value;

use crate::cli::stream_records::{Events, of_kind, records, text};
use crate::support::events::{Attempt, End, Event};
use crate::support::plegctl::{Invocation, Output, Running, plegctl};
use crate::support::wire::{self, ContainerEventResponse};
use crate::support::{CallState, FakeRuntime, Node, ReceivedCall, RuntimeKind, recording};

/// The number of recordings that play at the same time. A recording mostly waits.
const AT_A_TIME: usize = 5;

/// The UID of a pod, and the id of its container, that are in no recording. Their event shows that the stream has
/// delivered all earlier events.
const MARKER: &str = "marker";

/// The time limit for a watch that does not give the recorded events.
const AT_MOST: &str = "300s";

/// Returns the delivered events of relists and of the stream.
fn delivered(records: &[Value]) -> Events {
    let mut events = Events::new();
    for event in of_kind(records, "Event").into_iter().filter(|event| event["delivered"] == true) {
        let id = event["id"].as_str().unwrap_or("<nil>").to_owned();
        events.entry(text(&event["pod"]["uid"])).or_default().push((text(&event["type"]), id));
    }
    events
}

/// Plays a recorded history and compares the events and the number of stream attempts with the kubelet's. Returns the
/// difference as an error.
fn check_history(history: &Value) -> Result<(), String> {
    let fake = FakeRuntime::replay(history);
    let mut running = watch(&fake, &["--for", AT_MOST]).spawn();
    let expected = &history["expect"];
    let recorded: Events = expected["events"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(uid, events)| {
            let pairs = events.as_array().into_iter().flatten();
            (uid.clone(), pairs.map(|pair| (text(&pair[0]), text(&pair[1]))).collect())
        })
        .collect();
    let streams = || u64::try_from(fake.calls_of(Rpc::GetContainerEvents).len()).unwrap();
    let is_done =
        |seen: &[Value]| delivered(seen) == recorded && streams() == expected["streams"].as_u64().unwrap();
    let mut seen: Vec<Value> = Vec::new();
    // A stream that fails as often as the kubelet opens it delivers no marker.
    let gave_up = history["stream"]["fails"].as_u64().unwrap() >= expected["streams"].as_u64().unwrap();
    let mut marker_is_sent = false;
    while let Some(line) = running.line() {
        let record: Value = serde_json::from_str(&line).unwrap();
        let is_marker = record["pod"]["uid"] == MARKER;
        if !is_marker {
            seen.push(record);
        }
        if !is_done(&seen) {
            continue;
        }
        if is_marker || gave_up {
            running.signal("INT");
            break;
        }
        if !std::mem::replace(&mut marker_is_sent, true) {
            fake.push_event(happened(STARTED, MARKER, MARKER));
        }
    }
    let output = running.wait();
    assert_eq!(output.code, Some(0), "{output}");
    seen.extend(records(&output.stdout));
    let (found, streams) = (delivered(&seen), streams());
    if is_done(&seen) {
        return Ok(());
    }
    Err(format!("{}: {streams} streams\n ours {found:?}\n kubelet {expected}", history["name"]))
}

#[test]
fn long_recorded_history_of_the_evented_kubelet_1_36_2_is_reproduced() {
    let histories = recording::histories("evented-1.36.2");
    assert_eq!(histories.len(), 20);
    for some in histories.chunks(AT_A_TIME) {
        std::thread::scope(|scope| {
            let plays: Vec<_> = some.iter().map(|history| scope.spawn(|| check_history(history))).collect();
            for play in plays {
                assert_eq!(play.join().unwrap(), Ok(()));
            }
        });
    }
}

// The values of ContainerEventType in the CRI.
const CREATED: i32 = 0;
const STARTED: i32 = 1;
const STOPPED: i32 = 2;
const DELETED: i32 = 3;

fn node() -> Node {
    Node::new().pod("default/web-0", "uid-1").sandbox("s1").container("c1", "app")
}

/// Returns an event of the pod `uid` with the present time.
fn happened(kind: i32, id: &str, uid: &str) -> Event {
    aged(kind, id, uid, Duration::ZERO)
}

/// Creates an event that was created some time before it is sent.
fn aged(kind: i32, id: &str, uid: &str, age: Duration) -> Event {
    Event::aged(message(kind, id, Some(uid)), i64::try_from(age.as_nanos()).unwrap())
}

/// Returns the event as the runtime sends it. Without `uid` it has no pod, so the kubelet ignores it.
fn message(kind: i32, id: &str, uid: Option<&str>) -> ContainerEventResponse {
    let sandbox = uid.map(|uid| wire::PodSandboxStatus {
        id: format!("sandbox-of-{uid}"),
        metadata: Some(wire::PodSandboxMetadata {
            name: uid.to_owned(),
            namespace: "default".to_owned(),
            uid: uid.to_owned(),
            attempt: 0,
        }),
        ..wire::PodSandboxStatus::default()
    });
    ContainerEventResponse {
        container_id: id.to_owned(),
        container_event_type: kind,
        created_at: 1,
        pod_sandbox_status: sandbox,
        containers_statuses: Vec::new(),
    }
}

/// Returns the command line of an evented watch.
fn watch(fake: &FakeRuntime, more: &[&str]) -> Invocation {
    let endpoint = fake.endpoint();
    Invocation::new(&[&["watch", "--mode", "evented", "-o", "jsonl", "-r", &endpoint], more].concat())
}

/// Returns the states of the stream in the order of the records.
fn states(records: &[Value]) -> Vec<String> {
    of_kind(records, "Stream").iter().map(|stream| text(&stream["state"])).collect()
}

/// Returns the summary at the end of a watch.
fn summary(output: &Output) -> Value {
    assert_eq!(output.code, Some(0), "{output}");
    of_kind(&records(&output.stdout), "WatchSummary")[0].clone()
}

/// Reads until the next record that is `wanted`.
fn next(running: &mut Running, mut wanted: impl FnMut(&Value) -> bool) -> Value {
    loop {
        let line = running.line().expect("the watch still runs");
        let record: Value = serde_json::from_str(&line).unwrap();
        if wanted(&record) {
            return record;
        }
    }
}

/// Waits for the record of the stream's change to this state.
fn next_stream(running: &mut Running, state: &str) -> Value {
    next(running, |record| record["kind"] == "Stream" && record["state"] == state)
}

/// Counts the event streams that the fake has in this state.
fn in_state(calls: &[ReceivedCall], state: CallState) -> usize {
    let streams = calls.iter().filter(|call| call.rpc == Rpc::GetContainerEvents);
    streams.filter(|call| call.state == state).count()
}

/// Whether the process runs.
fn is_alive(pid: &str) -> bool {
    // A zombie counts as ended.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'))
}

/// Waits until the process has ended.
fn wait_until_gone(pid: &str) {
    wait_until("is still there", pid, || !is_alive(pid));
}

/// Waits until the process has stopped, because a SIGCONT before that has no effect.
fn wait_until_stopped(running: &Running) {
    let pid = running.pid().to_string();
    wait_until("still runs", &pid, || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|behind| behind.trim_start().starts_with('T'))
    });
}

/// Waits until `is_so` holds, at most five minutes.
fn wait_until(what: &str, pid: &str, is_so: impl Fn() -> bool) {
    for _ in 0..30_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("process {pid} {what} after five minutes");
}

#[test]
fn disabled_pod_events_in_crio_are_reported_and_the_stream_is_given_up_after_five_relists() {
    let fake = FakeRuntime::start_as(RuntimeKind::Crio, node());
    // One relist at the start, five after the ended streams, and one for the fallback.
    let output = watch(&fake, &["--count", "7"]).run();
    let records = records(&output.stdout);
    let mut expected = ["connected", "closed"].repeat(5);
    expected.push("fallback");
    assert_eq!(states(&records), expected, "{output}");
    assert!(text(&of_kind(&records, "Stream")[1]["error"]).contains("enable_pod_events"), "{output}");
    assert_eq!(fake.calls_of(Rpc::GetContainerEvents).len(), 5);
    assert_eq!(summary(&output)["stream"]["fellBack"], true);
}

#[test]
fn containerd_without_an_event_stream_makes_watch_fall_back_to_relists() {
    let fake = FakeRuntime::start_as(RuntimeKind::Containerd16, node());
    let output = watch(&fake, &["--count", "7"]).run();
    assert!(output.stderr.contains("has no event stream"), "{output}");
    let records = records(&output.stdout);
    assert_eq!(states(&records).last().unwrap(), "fallback");
    assert!(text(&of_kind(&records, "Stream")[1]["error"]).contains("is not implemented"), "{output}");
    assert_eq!(fake.calls_of(Rpc::GetContainerEvents).len(), 5);
}

#[test]
fn reading_a_stream_that_takes_events_from_the_kubelet_needs_an_option() {
    let fake = FakeRuntime::start_as(RuntimeKind::Containerd17, node());
    for mode in ["evented", "compare"] {
        let refused = plegctl(&["watch", "--mode", mode, "-r", &fake.endpoint()]);
        assert_eq!(refused.code, Some(2), "{refused}");
        assert!(refused.stderr.contains("steals events from the kubelet"), "{refused}");
        assert!(refused.stderr.contains("hint: use --steal-events"), "{refused}");
    }
    assert!(fake.calls_of(Rpc::GetContainerEvents).is_empty());
    let mut running = watch(&fake, &["--steal-events"]).spawn();
    next_stream(&mut running, "connected");
    running.signal("INT");
    let output = running.wait();
    assert_eq!(summary(&output)["stream"]["attempts"], 1, "{output}");
}

#[test]
fn from_kubelet_1_37_on_an_event_makes_pleg_list_one_pod() {
    let fake = FakeRuntime::start(node());
    fake.streams([Attempt::ending(End::Stall)
        .events([happened(STARTED, "c2", "uid-1"), happened(STOPPED, "c1", "uid-1")])]);
    let running = watch(&fake, &["--kubelet-version", "1.37", "--period", "10m"]).spawn();
    // First the relist of all pods, then the list of one pod, selected by its label.
    let lists = |calls: &[ReceivedCall]| calls.iter().filter(|call| call.rpc == Rpc::ListContainers).count();
    fake.wait_until(|calls| lists(calls) == 2);
    running.signal("INT");
    let output = running.wait();
    assert!(output.stderr.contains("no recording confirms it"), "{output}");
    let records = records(&output.stdout);
    assert_eq!(of_kind(&records, "Event").iter().filter(|event| event["source"] == "evented").count(), 0);
    let started = of_kind(&records, "WatchStarted")[0].clone();
    assert_eq!(started["thresholdSeconds"], 180.0, "{output}");
    assert_eq!(summary(&output)["stream"]["events"], 2);
}

#[test]
fn from_kubelet_1_37_on_an_ended_stream_is_not_opened_again() {
    let fake = FakeRuntime::start(node());
    fake.streams([Attempt::fail(Code::Unavailable, "no")]);
    let mut running = watch(&fake, &["--kubelet-version", "1.37", "--period", "10ms"]).spawn();
    let fallback = next_stream(&mut running, "fallback");
    assert!(text(&fallback["error"]).contains("until the kubelet is restarted"), "{fallback}");
    // Relists continue at the same period.
    next(&mut running, |record| record["kind"] == "Relist");
    running.signal("INT");
    assert_eq!(summary(&running.wait())["stream"]["fellBack"], true);
    assert_eq!(fake.calls_of(Rpc::GetContainerEvents).len(), 1);
}

#[test]
fn retries_sets_the_number_of_attempts() {
    let fake = FakeRuntime::start(node());
    fake.streams([Attempt::fail(Code::Unavailable, "no")]);
    let output = watch(&fake, &["--retries", "2", "--count", "4"]).run();
    assert_eq!(states(&records(&output.stdout)), ["connected", "closed", "connected", "closed", "fallback"]);
    assert_eq!(fake.calls_of(Rpc::GetContainerEvents).len(), 2);
}

#[test]
fn restarted_runtime_gets_few_stream_attempts_whatever_retries_is() {
    let fake = FakeRuntime::start_as(RuntimeKind::Crio, node());
    fake.streams([Attempt::fail(Code::Unavailable, "no")]);
    let running = watch(&fake, &["--retries", "1000"]).spawn();
    fake.wait_for(Rpc::GetContainerEvents, 1);
    std::thread::sleep(Duration::from_secs(1));
    running.signal("INT");
    let output = running.wait();
    assert_eq!(summary(&output)["stream"]["fellBack"], false, "{output}");
    // The kubelet makes five attempts, the last one after a second; a slow machine may make a few more relists.
    let streams = fake.calls_of(Rpc::GetContainerEvents).len();
    assert!((1..12).contains(&streams), "{streams} streams: {output}");
}

#[test]
fn events_that_crio_never_sends_do_not_count_as_lost() {
    let fake = FakeRuntime::start_as(RuntimeKind::Crio, node());
    fake.streams([Attempt::open()]);
    let endpoint = fake.endpoint();
    let words = ["watch", "--mode", "compare", "-o", "jsonl", "--period", "100ms", "-r", &endpoint];
    let mut running = Invocation::new(&words).spawn();
    fake.wait_until(|calls| in_state(calls, CallState::Streaming) == 1);
    next(&mut running, |record| record["kind"] == "Relist" && record["relist"] == 3);
    // After RemovePodSandbox the lists are empty, and no event reports it.
    fake.set_node(Node::new());
    next(&mut running, |record| record["kind"] == "Divergence" && record["type"] == "ContainerRemoved");
    running.signal("INT");
    let compared = summary(&running.wait())["compare"].clone();
    assert!(compared["untold"].as_u64().unwrap() > 0, "{compared}");
    assert_eq!(compared["unexplained"], 0, "{compared}");
}

#[test]
fn events_of_unknown_pods_count_and_old_events_and_events_without_a_pod_do_not() {
    let fake = FakeRuntime::start(node());
    let hour = Duration::from_secs(3600);
    // The creation time of this event is an hour in the future.
    let ahead = message(STARTED, "ahead", Some("new"));
    let ahead = Event::aged(ahead, -i64::try_from(hour.as_nanos()).unwrap());
    fake.streams([Attempt::open().events([
        happened(STARTED, "unknown", "new"),
        Event::from(message(STOPPED, "nobody", None)),
        aged(STOPPED, "stale", "new", hour),
        ahead,
        // The cache now has an entry one hour in the future, so every other message is outdated.
        happened(STOPPED, "unknown", "new"),
        happened(DELETED, "last", "new"),
    ])]);
    let mut running = watch(&fake, &[]).spawn();
    let mut seen = Vec::new();
    while seen.last() != Some(&("ContainerRemoved".to_owned(), "last".to_owned())) {
        let event = next(&mut running, |record| record["source"] == "evented");
        seen.push((text(&event["type"]), text(&event["id"])));
    }
    let expected = [
        ("ContainerStarted", "unknown"),
        ("ContainerStarted", "ahead"),
        ("ContainerDied", "last"),
        ("ContainerRemoved", "last"),
    ];
    assert_eq!(seen, expected.map(|(kind, id)| (kind.to_owned(), id.to_owned())));
    running.signal("INT");
    let stream = summary(&running.wait())["stream"].clone();
    assert_eq!((&stream["events"], &stream["ignored"]), (&Value::from(6), &Value::from(1)));
}

#[test]
fn long_ten_thousand_events_at_once_all_arrive() {
    let fake = FakeRuntime::start(Node::new());
    let burst = (0..10_000).map(|number| happened(STARTED, &format!("c{number}"), "pod"));
    fake.streams([Attempt::open().events(burst)]);
    let mut running = watch(&fake, &[]).spawn();
    for number in 0..10_000 {
        let event = next(&mut running, |record| record["kind"] == "Event");
        assert_eq!(event["id"], format!("c{number}"));
    }
    running.signal("INT");
    assert_eq!(summary(&running.wait())["stream"]["dropped"], 0);
}

#[test]
fn long_a_flood_of_pods_makes_the_watch_relist_early_and_forget_removed_pods() {
    let fake = FakeRuntime::start(node());
    let mut running = watch(&fake, &["--no-inspect"]).spawn();
    next_stream(&mut running, "connected");
    let long = "x".repeat(1 << 20);
    let mut sent = 0;
    let mut send_more = || {
        sent += 1;
        let (id, uid) = (format!("c{sent}"), format!("pod-{sent}"));
        let mut event = message(STARTED, &id, Some(&uid));
        event.containers_statuses = vec![wire::ContainerStatus {
            id: id.clone(),
            message: long.clone(),
            ..wire::ContainerStatus::default()
        }];
        fake.push_event(Event::aged(event, 0));
        id
    };
    // The next event is sent when the last one has been read: plegctl closes a stream that it reads too late.
    let mut last = send_more();
    // The next relist is due in five minutes; more than 64 MiB of statuses make it start earlier.
    let relist = next(&mut running, |record| {
        if record["kind"] == "Event" && record["id"] == last.as_str() {
            last = send_more();
        }
        record["kind"] == "Relist" && record["relist"] == 2
    });
    assert_eq!(relist["outcome"], "ok");
    running.signal("INT");
    let summary = summary(&running.wait());
    assert_eq!(summary["stream"]["crowded"], 1, "{summary}");
}

#[test]
fn stalled_stream_does_not_delay_the_end() {
    let fake = FakeRuntime::start(node());
    fake.streams([Attempt::ending(End::Stall).events([happened(STARTED, "c2", "uid-1")])]);
    let mut running = watch(&fake, &[]).spawn();
    next(&mut running, |record| record["source"] == "evented");
    running.signal("INT");
    assert_eq!(summary(&running.wait())["stream"]["failures"], 0);
}

#[test]
fn killed_daemon_gives_five_stream_failures_and_relists_find_it_again() {
    let mut fake = FakeRuntime::start(node());
    let mut running = watch(&fake, &[]).spawn();
    fake.wait_until(|calls| in_state(calls, CallState::Streaming) == 1);
    fake.stop();
    next_stream(&mut running, "fallback");
    fake.restart();
    next(&mut running, |record| record["kind"] == "Relist" && record["outcome"] == "ok");
    running.signal("INT");
    let stream = summary(&running.wait())["stream"].clone();
    assert_eq!((&stream["attempts"], &stream["failures"]), (&Value::from(1), &Value::from(5)));
}

#[test]
fn stream_is_reopened_after_its_maximum_age_without_a_failure() {
    let fake = FakeRuntime::start(node());
    let running = watch(&fake, &["--max-stream", "50ms"]).spawn();
    let many = |calls: &[ReceivedCall]| in_state(calls, CallState::Cancelled) >= 6;
    fake.wait_until(many);
    running.signal("INT");
    let stream = summary(&running.wait())["stream"].clone();
    assert_eq!((&stream["failures"], &stream["fellBack"]), (&Value::from(0), &Value::from(false)));
}

#[test]
fn ctrl_c_closes_the_stream_and_ends_the_guard() {
    let fake = FakeRuntime::start(node());
    let running = watch(&fake, &[]).spawn();
    fake.wait_until(|calls| in_state(calls, CallState::Streaming) == 1);
    let guard = running.guard();
    running.signal("INT");
    let output = running.wait();
    assert_eq!(states(&records(&output.stdout)), ["connected", "closed"], "{output}");
    fake.wait_until(|calls| in_state(calls, CallState::Cancelled) == 1);
    assert!(!is_alive(&guard));
}

#[test]
fn closed_pipe_ends_an_evented_watch() {
    let fake = FakeRuntime::start(node());
    let mut running = watch(&fake, &[]).spawn();
    next_stream(&mut running, "connected");
    running.close_stdout();
    // A process that another test starts may hold the pipe open for a moment, so the first line may not fail.
    let is_cancelled = |calls: &[ReceivedCall]| in_state(calls, CallState::Cancelled) == 1;
    for _ in 0..500 {
        if is_cancelled(&fake.calls()) {
            break;
        }
        fake.push_event(happened(STARTED, "c2", "uid-1"));
        std::thread::sleep(Duration::from_millis(20));
    }
    fake.wait_until(is_cancelled);
    let output = running.wait();
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
}

#[test]
fn ctrl_z_closes_the_stream_before_the_stop_and_fg_reopens_it() {
    let fake = FakeRuntime::start(node());
    let mut running = watch(&fake, &[]).spawn();
    next_stream(&mut running, "connected");
    // The watch prints its first line before the runtime sees the stream.
    fake.wait_until(|calls| in_state(calls, CallState::Streaming) == 1);
    let guard = running.guard();
    running.signal("TSTP");
    fake.wait_until(|calls| in_state(calls, CallState::Cancelled) == 1);
    wait_until_gone(&guard);
    wait_until_stopped(&running);
    running.signal("CONT");
    let closed = next_stream(&mut running, "closed");
    assert!(text(&closed["error"]).contains("suspended"), "{closed}");
    next(&mut running, |record| record["kind"] == "Relist");
    next_stream(&mut running, "connected");
    running.signal("INT");
    assert_eq!(summary(&running.wait())["stream"]["failures"], 0);
}

#[test]
fn guard_closes_the_stream_of_a_watch_stopped_by_sigstop() {
    let fake = FakeRuntime::start(node());
    let mut running = watch(&fake, &[]).spawn();
    next_stream(&mut running, "connected");
    // The watch prints its first line before the runtime sees the stream.
    fake.wait_until(|calls| in_state(calls, CallState::Streaming) == 1);
    let guard = running.guard();
    running.signal("STOP");
    // Unread data makes the guard ask at once; without data it would ask after ten seconds.
    fake.push_event(happened(STARTED, "c2", "uid-1"));
    fake.wait_until(|calls| in_state(calls, CallState::Cancelled) == 1);
    wait_until_gone(&guard);
    running.signal("CONT");
    let closed = next_stream(&mut running, "closed");
    assert!(text(&closed["error"]).contains("because plegctl had stopped"), "{closed}");
    next_stream(&mut running, "connected");
    running.signal("INT");
    assert_eq!(summary(&running.wait())["stream"]["failures"], 0);
}

#[test]
fn killed_watch_leaves_neither_stream_nor_guard() {
    let fake = FakeRuntime::start(node());
    let mut running = watch(&fake, &[]).spawn();
    next_stream(&mut running, "connected");
    // The watch prints its first line before the runtime sees the stream.
    fake.wait_until(|calls| in_state(calls, CallState::Streaming) == 1);
    let guard = running.guard();
    running.signal("KILL");
    assert_eq!(running.wait().signal, Some(9));
    fake.wait_until(|calls| in_state(calls, CallState::Cancelled) == 1);
    wait_until_gone(&guard);
}

#[test]
fn stream_is_closed_when_its_guard_dies() {
    let fake = FakeRuntime::start(node());
    let mut running = watch(&fake, &[]).spawn();
    next_stream(&mut running, "connected");
    let guard = running.guard();
    running.kill_guard();
    let closed = next_stream(&mut running, "closed");
    assert!(text(&closed["error"]).contains("guard"), "{closed}");
    next_stream(&mut running, "connected");
    assert_ne!(running.guard(), guard);
    running.signal("INT");
    assert_eq!(summary(&running.wait())["stream"]["failures"], 0);
}

#[test]
fn compare_mode_finds_containers_that_lived_between_two_relists() {
    let fake = FakeRuntime::start(node());
    let endpoint = fake.endpoint();
    let arguments = ["watch", "--mode", "compare", "--period", "20ms", "-o", "jsonl", "-r", &endpoint];
    let mut running = Invocation::new(&arguments).spawn();
    next_stream(&mut running, "connected");
    for kind in [CREATED, STARTED, STOPPED, DELETED] {
        fake.push_event(happened(kind, "short", "uid-1"));
    }
    let mut missed = Vec::new();
    while missed.len() < 3 {
        let divergence = next(&mut running, |record| record["kind"] == "Divergence");
        assert_eq!(
            (&divergence["id"], &divergence["only"]),
            (&Value::from("short"), &Value::from("evented"))
        );
        missed.push(text(&divergence["type"]));
    }
    missed.sort();
    assert_eq!(missed, ["ContainerDied", "ContainerRemoved", "ContainerStarted"]);
    running.signal("TERM");
    let compare = summary(&running.wait())["compare"].clone();
    assert_eq!(compare["missedByRelisting"], 3, "{compare}");
    assert_eq!(compare["unexplained"], 0, "{compare}");
    assert_eq!(compare["missedByStream"], 0, "{compare}");
}

#[test]
fn compare_mode_counts_events_older_than_the_watch_and_is_undecided_once() {
    let fake = FakeRuntime::start(node());
    let hour = Duration::from_secs(3600);
    let old = (0..1008).map(|number| aged(STARTED, &format!("old-{number}"), "uid-1", hour));
    fake.streams([Attempt::open().events(old)]);
    let endpoint = fake.endpoint();
    let arguments = ["watch", "--mode", "compare", "--period", "100ms", "-r", &endpoint];
    let mut running = Invocation::new(&arguments).spawn();
    let mut text = String::new();
    // A busy machine may receive them in several parts, and then each part has a line.
    let counted = |text: &str| -> u64 {
        let lines = text.lines().filter(|line| line.ends_with("older than the watch (--initial shows them)"));
        let counts = lines.map(|line| {
            let words = line.split_once("  ").unwrap().1;
            let digits: String = words.chars().take_while(|letter| !letter.is_alphabetic()).collect();
            digits.replace(char::is_whitespace, "").parse::<u64>().unwrap()
        });
        counts.sum()
    };
    let mut until = |is_reached: &dyn Fn(&str) -> bool| {
        while !is_reached(&text) {
            text += &running.line().unwrap_or_else(|| panic!("the watch ended early: {text}"));
            text.push('\n');
        }
    };
    until(&|text| counted(text) == 1008);
    fake.push_event(happened(STARTED, "new", "uid-1"));
    until(&|text| text.contains("ContainerStarted  [stream after "));
    running.signal("INT");
    text += &running.wait().stdout;
    assert!(!text.contains("old-"), "{text}");
    assert_eq!(counted(&text), 1008, "{text}");
    assert_eq!(text.matches("undecided").count(), 1, "{text}");
}

/// Kubelets from 1.36 on also list single pods, so they may have seen what full relists missed.
#[test]
fn compare_mode_reports_whether_the_kubelet_could_see_what_relists_missed() {
    for (release, is_reported) in [("1.36", true), ("1.35", false)] {
        let fake = FakeRuntime::start(node());
        let endpoint = fake.endpoint();
        let arguments =
            ["watch", "--mode", "compare", "--period", "20ms", "--kubelet-version", release, "-r", &endpoint];
        let mut running = Invocation::new(&arguments).spawn();
        running.until("event stream open");
        for kind in [CREATED, STARTED, STOPPED, DELETED] {
            fake.push_event(happened(kind, "short", "uid-1"));
        }
        running.until("seen by the stream and not by relisting");
        running.signal("INT");
        let output = running.wait();
        assert_eq!(output.code, Some(0), "{output}");
        let words = "Also, a kubelet from 1.36 on also lists a pod right after it has acted on that pod";
        assert_eq!(output.stdout.contains(words), is_reported, "{release}: {output}");
    }
}

#[test]
fn compare_mode_reports_in_a_sentence_that_a_lossy_stream_is_not_safe() {
    let fake = FakeRuntime::start(node());
    let endpoint = fake.endpoint();
    let arguments = ["watch", "--mode", "compare", "--period", "700ms", "-r", &endpoint];
    let mut running = Invocation::new(&arguments).spawn();
    fake.wait_until(|calls| in_state(calls, CallState::Streaming) == 1);
    // Changes so soon after the start of the stream are not compared.
    let lists = fake.calls_of(Rpc::ListPodSandbox).len();
    fake.wait_for(Rpc::ListPodSandbox, lists + 3);
    fake.set_node(Node::new().pod("default/web-0", "uid-1").sandbox("s1").container("c1", "app").exited(1));
    running.until("ContainerDied seen by relisting and not by the stream");
    running.signal("INT");
    let output = running.wait();
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("EventedPLEG would not be safe here"), "{output}");
}
