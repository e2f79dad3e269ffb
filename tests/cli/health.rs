//! The process tests of `plegctl health`: the verdict for each fault of the runtime, the exit status, and every output
//! format.

use std::fs;
use std::time::Duration;

use plegctl_engine::cri::{Code, Rpc};
use serde_json::Value;

use crate::support::plegctl::{Invocation, Output, plegctl};
use crate::support::socket::NotARuntime;
use crate::support::{FakeRuntime, Node, RuntimeKind};

/// Runs `health -o json`.
fn health(endpoint: &str, more: &[&str]) -> Output {
    plegctl(&[["health", "-r", endpoint, "-o", "json"].as_slice(), more].concat())
}

/// Runs `health -o json` with shortened silence limits, for tests in which a call hangs.
fn health_of_hang(endpoint: &str, more: &[&str]) -> Output {
    let arguments = [["health", "-r", endpoint, "-o", "json"].as_slice(), more].concat();
    Invocation::new(&arguments).with_short_silences().run()
}

fn report(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"))
}

/// The expected result for a fault.
struct Row {
    verdict: &'static str,
    phase: &'static str,
    primary: &'static str,
    exit: i32,
}

/// Creates a row of the expected reports.
const fn row(verdict: &'static str, phase: &'static str, primary: &'static str, exit: i32) -> Row {
    Row { verdict, phase, primary, exit }
}

/// Runs `health` and compares the report with the row.
fn expect(fake: &FakeRuntime, row: &Row) -> Value {
    assert_found(&health(&fake.endpoint(), &[]), row)
}

/// Runs `health` with shortened silence limits, for a fault in which a call hangs, and compares the report with the
/// row.
fn expect_hang(fake: &FakeRuntime, row: &Row) -> Value {
    assert_found(&health_of_hang(&fake.endpoint(), &[]), row)
}

/// Compares the report of a run with the row, and returns the report.
fn assert_found(output: &Output, row: &Row) -> Value {
    let report = report(output);
    let found = (report["verdict"].as_str(), report["phase"].as_str(), report["primary"]["id"].as_str());
    assert_eq!(found, (Some(row.verdict), Some(row.phase), Some(row.primary)), "{output}");
    assert_eq!(output.code, Some(row.exit), "{output}");
    assert_eq!(report["primary"], report["findings"][0]);
    report
}

/// Builds pods with one running container each; `p17` has the sandbox `s17` and the container `c17`.
fn pods(count: usize) -> Node {
    (0..count).fold(Node::new(), |node, number| {
        node.pod(&format!("default/p{number}"), &format!("uid-{number}"))
            .sandbox(&format!("s{number}"))
            .container(&format!("c{number}"), "app")
    })
}

#[test]
fn one_hung_container_status_among_many_is_named() {
    let fake = FakeRuntime::start(pods(60));
    fake.on(Rpc::ContainerStatus).id("c17").hang();
    let report = expect_hang(&fake, &row("degraded", "status", "D01", 0));
    assert_eq!(report["primary"]["rpc"], "ContainerStatus");
    assert_eq!(report["primary"]["pod"]["name"], "p17");
    assert_eq!(report["primary"]["container"]["id"], "c17");
    assert_eq!(report["estimate"]["wouldTrip"], false);
    assert_eq!(fake.calls_of(Rpc::ContainerStatus).iter().filter(|call| call.id == "c17").count(), 1);
}

#[test]
fn four_slow_status_calls_are_slow_and_not_hung() {
    let fake = FakeRuntime::start(pods(20));
    for id in ["c1", "c4", "c9", "c16"] {
        fake.on(Rpc::ContainerStatus).id(id).delay(Duration::from_millis(3500));
    }
    let report = expect(&fake, &row("degraded", "status", "D05", 0));
    assert_eq!(report["primary"]["ids"].as_array().unwrap().len(), 4);
    assert_eq!(report["abandonedCalls"], 0);
    assert!(!report.to_string().contains(" hang"), "{report}");
}

#[test]
fn two_hung_pods_exceed_the_threshold() {
    let fake = FakeRuntime::start(pods(20));
    fake.on(Rpc::PodSandboxStatus).id("s3").hang();
    fake.on(Rpc::PodSandboxStatus).id("s4").hang();
    let report = expect_hang(&fake, &row("unhealthy", "status", "D01", 1));
    assert_eq!(report["estimate"]["wouldTrip"], true);
    assert_eq!(report["estimate"]["hungCalls"], 2);
}

#[test]
fn one_hung_pod_exceeds_the_threshold_only_with_an_old_kubelet() {
    let fake = FakeRuntime::start(pods(20));
    fake.on(Rpc::PodSandboxStatus).id("s3").hang();
    let output = health_of_hang(&fake.endpoint(), &["--kubelet-version", "1.30"]);
    assert_eq!(
        (output.code, report(&output)["estimate"]["wouldTrip"].as_bool()),
        (Some(1), Some(true)),
        "{output}"
    );
    let output = health_of_hang(&fake.endpoint(), &["--kubelet-version", "1.36"]);
    assert_eq!(
        (output.code, report(&output)["estimate"]["wouldTrip"].as_bool()),
        (Some(0), Some(false)),
        "{output}"
    );
}

#[test]
fn hung_list_names_no_pod_without_evidence() {
    let fake = FakeRuntime::start(pods(5));
    fake.on(Rpc::ListContainers).hang();
    let report = expect(&fake, &row("unhealthy", "list", "D02", 1));
    assert_eq!(report["primary"]["rpc"], "ListContainers");
    assert_eq!(report["primary"]["confidence"], "certain", "{report}");
    // Uses the real limits: a silence below ten seconds is never a certain hang.
    let probes = report["probes"].as_array().unwrap();
    let list = probes.iter().find(|probe| probe["name"] == "ListContainers").unwrap();
    assert!(list["durationSeconds"].as_f64().unwrap() >= 10.0, "{report}");
    assert!(report["primary"].get("container").is_none(), "{report}");
    assert_eq!(fake.calls_of(Rpc::ListContainers).len(), 1, "a hung list is not repeated");
}

#[test]
fn failing_lists_are_distinguished_from_hanging_lists() {
    let fake = FakeRuntime::start(pods(5));
    fake.on(Rpc::ListPodSandbox).fail(Code::Unavailable, "server is not initialized yet");
    expect(&fake, &row("unhealthy", "list", "D29", 1));
    let fake = FakeRuntime::start(pods(5));
    let text = "grpc: trying to send message larger than max (17000000 vs. 16777216)";
    fake.on(Rpc::ListContainers).fail(Code::ResourceExhausted, text);
    expect(&fake, &row("unhealthy", "list", "D03", 1));
}

#[test]
fn long_list_above_the_kubelets_limit_is_unhealthy_although_plegctl_can_read_it() {
    // A debug build on a busy machine may need more time than the default budget.
    let found = |bytes, row: &Row| {
        let fake = FakeRuntime::start(Node::many(4, 5));
        fake.on(Rpc::ListContainers).oversize(bytes);
        assert_found(&health(&fake.endpoint(), &["--budget", "10m"]), row);
    };
    found(17 << 20, &row("unhealthy", "list", "D03", 1));
    found(15 << 20, &row("degraded", "list", "D03", 0));
}

#[test]
fn daemon_that_does_not_answer_version_is_silent() {
    let fake = FakeRuntime::start(pods(3));
    fake.on(Rpc::Version).hang();
    expect_hang(&fake, &row("unhealthy", "connect", "D07", 1));
}

#[test]
fn healthy_nodes_are_healthy_in_every_run() {
    // With many pods, a busy machine really is slow. `diagnosis::tests::matrix` has healthy nodes of any size.
    for count in [0, 1, 10] {
        let fake = FakeRuntime::start(pods(count));
        for _ in 0..3 {
            let report = expect(&fake, &row("healthy", "none", "D00", 0));
            let findings = report["findings"].as_array().unwrap();
            assert!(findings.iter().all(|finding| finding["severity"] == "info"), "{report}");
        }
    }
}

#[test]
fn endpoint_without_a_runtime_is_unknown_or_unhealthy() {
    let verdict = |socket: &NotARuntime| {
        let output = health_of_hang(&socket.path().display().to_string(), &[]);
        (report(&output)["verdict"].as_str().unwrap().to_owned(), output.code)
    };
    assert_eq!(verdict(&NotARuntime::missing()), ("unknown".to_owned(), Some(2)));
    assert_eq!(verdict(&NotARuntime::regular_file()), ("unknown".to_owned(), Some(2)));
    assert_eq!(verdict(&NotARuntime::answers_http1()), ("unknown".to_owned(), Some(2)));
    assert_eq!(verdict(&NotARuntime::nobody_listens()), ("unhealthy".to_owned(), Some(1)));
    assert_eq!(verdict(&NotARuntime::accepts_and_is_silent()), ("unhealthy".to_owned(), Some(1)));
}

#[test]
fn budget_too_small_for_one_probe_gives_no_verdict() {
    let fake = FakeRuntime::start(pods(3));
    fake.on(Rpc::Version).hang();
    let output = health(&fake.endpoint(), &["--budget", "1ms"]);
    assert_eq!((report(&output)["verdict"].as_str(), output.code), (Some("unknown"), Some(2)), "{output}");
}

#[test]
fn only_the_read_only_rpcs_are_sent_and_no_event_stream_is_opened() {
    let fake = FakeRuntime::start_as(RuntimeKind::Containerd21, pods(10));
    health(&fake.endpoint(), &["--deep", "--budget", "10s"]);
    let sent: Vec<Rpc> = fake.calls().iter().map(|call| call.rpc).collect();
    assert!(!sent.contains(&Rpc::GetContainerEvents) && !sent.contains(&Rpc::ContainerStats), "{sent:?}");
    health(&fake.endpoint(), &["--probe-shims"]);
    assert_eq!(fake.calls_of(Rpc::ContainerStats).len(), 10);
}

#[test]
fn npd_prints_one_line() {
    let fake = FakeRuntime::start(pods(3));
    fake.on(Rpc::ContainerStatus).id("c1").hang();
    fake.on(Rpc::ContainerStatus).id("c2").hang();
    let output = plegctl(&["health", "-r", &fake.endpoint(), "--npd"]);
    assert_eq!(output.code, Some(1), "{output}");
    let line = output.stdout.strip_suffix('\n').unwrap();
    assert!(
        line.starts_with("D01 ") && line.len() <= 80 && line.is_ascii() && !line.contains('\n'),
        "{output}"
    );
}

#[test]
fn a_saved_report_is_shown_again_with_its_exit_status() {
    let fake = FakeRuntime::start(pods(3));
    fake.on(Rpc::ListContainers).fail(Code::Internal, "broken");
    let saved = fake.folder().join("health.json").display().to_string();
    let first = plegctl(&["health", "-r", &fake.endpoint(), "--save", &saved]);
    let again = plegctl(&["health", "--from", &saved]);
    let without_age = |text: &str| {
        // The line with the age may continue with the endpoint on a line of its own.
        let has_age = |line: &str| line.contains(", containerd ") || line.starts_with("  unix:///");
        text.lines().filter(|line| !has_age(line)).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(
        (again.code, without_age(&again.stdout)),
        (first.code, without_age(&first.stdout)),
        "{first}{again}"
    );
    let third = again.stdout.lines().nth(2).unwrap();
    assert!(
        third.starts_with("SAVED ")
            && third.contains("s ago, ")
            && again.stdout.contains("\nwhy: D29 certain "),
        "{again}"
    );
    assert_eq!(again.stderr, "", "the same program judges the same facts the same way: {again}");
    fs::write(&saved, "{}").unwrap();
    let broken = plegctl(&["health", "--from", &saved]);
    assert_eq!(broken.code, Some(2), "{broken}");
    assert!(broken.stderr.contains("not a HealthReport") && broken.stderr.contains("hint: "), "{broken}");
}

/// A file has what the run measured, so another release may come to another verdict; it says what the file said.
#[test]
fn a_saved_report_is_judged_again_and_a_difference_is_said() {
    let fake = FakeRuntime::start(pods(3));
    fake.on(Rpc::ContainerStatus).id("c1").hang();
    let saved = fake.folder().join("health.json").display().to_string();
    plegctl(&["health", "-r", &fake.endpoint(), "--save", &saved]);
    let document: Value = serde_json::from_str(&fs::read_to_string(&saved).unwrap()).unwrap();
    let show = |change: &dyn Fn(&mut Value)| {
        let mut changed = document.clone();
        change(&mut changed);
        fs::write(&saved, changed.to_string()).unwrap();
        let output = plegctl(&["health", "--from", &saved, "-o", "json"]);
        (report(&output), output)
    };
    let (first, _) = show(&|_| ());
    assert_eq!(first["primary"]["id"], "D01");
    let (other, output) = show(&|document| {
        document["summary"] = "an older release knew less".into();
        document["findings"] = Value::Array(Vec::new());
        document["measured"]["plegctl"] = "0.0.9".into();
    });
    assert_eq!(other, first, "{output}");
    let said = "judged again from what plegctl 0.0.9 measured; it said: degraded: an older release knew less";
    assert!(output.stderr.contains(said), "{output}");
    let (words, output) = show(&|document| document["findings"][0]["evidence"][0] = "other words".into());
    assert_eq!(words, first, "{output}");
    assert!(output.stderr.contains("its report has other words"), "{output}");
    let (kept, output) = show(&|document| {
        document["measured"]["runtime"]["sandboxes"] = "of a later release".into();
        document["summary"] = "as it was saved".into();
    });
    assert_eq!(kept["summary"], "as it was saved", "{output}");
    assert!(output.stderr.contains("its facts cannot be read"), "{output}");
}

#[test]
fn an_old_relist_in_a_file_or_on_stdin_is_unhealthy() {
    let fake = FakeRuntime::start(pods(3));
    for (age, verdict, exit) in [(1, "healthy", 0), (150, "healthy", 0), (629, "unhealthy", 1)] {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let text = format!("kubelet_pleg_last_seen_seconds {}\n", now - age);
        let file = fake.folder().join("metrics.txt").display().to_string();
        fs::write(&file, &text).unwrap();
        let by_file = health(&fake.endpoint(), &["--kubelet-metrics", &file]);
        let arguments = ["health", "-r", &fake.endpoint(), "--kubelet-metrics", "-", "-o", "json"];
        let by_stdin = Invocation::new(&arguments).stdin(text.clone()).run();
        for output in [by_file, by_stdin] {
            let report = report(&output);
            assert_eq!((report["verdict"].as_str(), output.code), (Some(verdict), Some(exit)), "{output}");
            if verdict == "unhealthy" {
                assert_eq!((&report["primary"]["id"], &report["phase"]), (&"D22".into(), &"kubelet".into()));
                assert!(report["kubelet"]["disagreements"][0].as_str().unwrap().contains("10m"), "{output}");
            }
        }
    }
}

#[test]
fn schema_prints_the_file_of_each_kind_and_suggests_the_nearest_kind() {
    let list = plegctl(&["schema"]);
    assert_eq!(list.code, Some(0), "{list}");
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema");
    for line in list.stdout.lines() {
        let (kind, about) = line.split_once(' ').unwrap();
        assert!(about.trim().ends_with('.'), "{line}");
        let schema = plegctl(&["schema", &kind.to_lowercase()]);
        assert_eq!(schema.stdout, std::fs::read_to_string(folder.join(format!("{kind}.json"))).unwrap());
    }
    assert_eq!(list.stdout.lines().count(), std::fs::read_dir(&folder).unwrap().count());
    let slip = plegctl(&["schema", "RelistRepotr"]);
    assert_eq!((slip.code, slip.stdout.as_str()), (Some(2), ""), "{slip}");
    assert!(slip.stderr.contains("did you mean RelistReport?"), "{slip}");
}

#[test]
fn explain_knows_every_id_and_suggests_the_nearest_one() {
    let list = plegctl(&["explain"]);
    assert_eq!(list.code, Some(0), "{list}");
    let ids: Vec<&str> = list.stdout.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(ids.contains(&"D00") && ids.contains(&"D32") && ids.contains(&"SP001"), "{list}");
    for id in ids {
        let output = plegctl(&["explain", &id.to_lowercase()]);
        assert!(output.code == Some(0) && output.stdout.starts_with(&format!("{id}  ")), "{output}");
        assert!(output.stdout.contains("\nto confirm it\n"), "{output}");
    }
    let slip = plegctl(&["explain", "D1"]);
    assert_eq!((slip.code, slip.stdout.as_str()), (Some(2), ""), "{slip}");
    assert!(slip.stderr.contains("hint: did you mean D01?"), "{slip}");
}

#[test]
fn warnings_fail_only_with_fail_on() {
    let fake = FakeRuntime::start(pods(3));
    fake.on(Rpc::ContainerStatus).id("c1").hang();
    assert_eq!(health_of_hang(&fake.endpoint(), &[]).code, Some(0));
    assert_eq!(health_of_hang(&fake.endpoint(), &["--fail-on", "warning"]).code, Some(1));
}

#[test]
fn metrics_come_from_stdin_and_must_be_metrics() {
    let fake = FakeRuntime::start(pods(3));
    let arguments = ["health", "-r", &fake.endpoint(), "--kubelet-metrics", "-", "-o", "json"];
    let output = Invocation::new(&arguments).stdin("not metrics at all\n").run();
    assert_eq!((report(&output)["verdict"].as_str(), output.code), (Some("unknown"), Some(2)), "{output}");
}

#[test]
fn prometheus_has_one_verdict() {
    let fake = FakeRuntime::start(pods(3));
    let output = plegctl(&["health", "-r", &fake.endpoint(), "-o", "prometheus"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("verdict=\"healthy\"} 1\n"), "{output}");
}

#[test]
fn kubelet_newer_than_known_is_reported_once() {
    let metrics = std::env::temp_dir().join(format!("plegctl-newer-{}", std::process::id()));
    fs::write(&metrics, "kubernetes_build_info{git_version=\"v1.99.1\"} 1\n").unwrap();
    let output = health("sim:quiet", &["--kubelet-metrics", metrics.to_str().unwrap()]);
    fs::remove_file(&metrics).unwrap();
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(output.stderr.matches("kubelet 1.99 is not known").count(), 1, "{output}");
    let known = health("sim:quiet", &["--kubelet-version", "1.36"]);
    assert!(!known.stderr.contains("not known"), "{known}");
}

#[test]
fn slow_calls_are_never_unhealthy_and_never_hang() {
    let row = |primary: &'static str, phase: &'static str| row("degraded", phase, primary, 0);
    let slow_statuses = |ids: &[&str], millis: u64| {
        let fake = FakeRuntime::start(pods(20));
        for id in ids {
            fake.on(Rpc::ContainerStatus).id(id).delay(Duration::from_millis(millis));
        }
        fake
    };
    let slow = |rpc: Rpc, millis: u64| {
        let fake = FakeRuntime::start(pods(20));
        fake.on(rpc).delay(Duration::from_millis(millis));
        fake
    };
    let rows = [
        (slow_statuses(&["c1"], 3500), row("D05", "status")),
        (slow_statuses(&["c1"], 6000), row("D05", "status")),
        (slow(Rpc::ListContainers, 4500), row("D30", "list")),
        (slow(Rpc::ListContainers, 6000), row("D30", "list")),
        (slow(Rpc::ListPodSandbox, 4500), row("D30", "list")),
        (slow(Rpc::ListPodSandbox, 6000), row("D30", "list")),
    ];
    // The runs mostly wait, so they run at the same time.
    std::thread::scope(|scope| {
        for (fake, row) in &rows {
            scope.spawn(move || {
                let report = expect(fake, row);
                assert_eq!(report["abandonedCalls"], 0);
                for word in ["hangs", "hung", "does not answer"] {
                    assert!(!report["summary"].as_str().unwrap().contains(word), "{report}");
                    assert!(!report["findings"].to_string().contains(word), "{report}");
                }
            });
        }
        scope.spawn(|| expect(&slow(Rpc::Version, 2000), &self::row("healthy", "none", "D00", 0)));
    });
}

#[test]
fn interrupt_prints_the_report_so_far() {
    let fake = FakeRuntime::start(pods(20));
    fake.on(Rpc::ContainerStatus).id("c7").hang();
    let running = Invocation::new(&["health", "-r", &fake.endpoint(), "-o", "json"]).spawn();
    fake.wait_for(Rpc::ContainerStatus, 20);
    running.signal("INT");
    let output = running.wait();
    assert_eq!((output.code, output.signal), (Some(130), None), "{output}");
    let report = report(&output);
    assert_eq!(report["notChecked"][0]["what"], "the rest", "{output}");
    let mut silent = report["probes"].as_array().unwrap().iter().filter(|probe| probe["outcome"] == "silent");
    assert!(silent.any(|probe| probe["name"] == "ContainerStatus c7"), "{output}");
    let mut culprits = report["culprits"].as_array().unwrap().iter();
    assert!(!culprits.any(|one| one["id"] == "c7" && one["confidence"] == "certain"), "{output}");
    // On a machine that was suspended, the silence may be long enough for a likely hang, and answered calls may count
    // as slow; then the report names such a call.
    let seconds = |probe: &Value| probe["durationSeconds"].as_f64().unwrap();
    let slow = |least: f64| {
        let mut answered =
            report["probes"].as_array().unwrap().iter().filter(|probe| probe["outcome"] == "ok");
        answered.any(|probe| seconds(probe) >= least)
    };
    match report["primary"]["id"].as_str() {
        Some("D05") => assert!(slow(0.1), "{output}"),
        Some("D30") => assert!(slow(1.0), "{output}"),
        _ => {
            let likely = report["primary"]["confidence"] == "likely";
            assert!(report["verdict"] == "unknown" || likely, "{output}");
        }
    }
}

#[test]
fn twice_verbose_shows_every_call() {
    let fake = FakeRuntime::start(pods(3));
    fake.on(Rpc::PodSandboxStatus).id("s1").fail(Code::Internal, "broken");
    let output = plegctl(&["-vv", "health", "-r", &fake.endpoint()]);
    let lines: Vec<&str> = output.stderr.lines().collect();
    for call in fake.calls() {
        let about = match call.rpc {
            _ if call.id.is_empty() => String::new(),
            Rpc::ListPodSandbox | Rpc::ListContainers => " with a filter".to_owned(),
            _ => format!(" {}", call.id),
        };
        let begin = format!("{}{about}: ", call.rpc);
        assert!(lines.iter().any(|line| line.starts_with(&begin)), "{begin}\n{output}");
    }
    assert!(output.stderr.contains("PodSandboxStatus s1: ") && output.stderr.contains("broken"), "{output}");
    let quiet = plegctl(&["-vv", "-q", "health", "-r", &fake.endpoint()]);
    assert_eq!(quiet.stderr, "", "{quiet}");
}

#[test]
fn from_reads_a_report_on_stdin_and_refuses_another_document() {
    let fake = FakeRuntime::start(pods(5));
    let path = |name: &str| fake.folder().join(name).display().to_string();
    let output = plegctl(&["health", "-r", &fake.endpoint(), "--save", &path("health.json")]);
    assert_eq!(output.code, Some(0), "{output}");
    let text = fs::read_to_string(path("health.json")).unwrap();
    let again = Invocation::new(&["health", "--from", "-", "-o", "json"]).stdin(text).run();
    assert_eq!((again.code, report(&again)["verdict"].as_str()), (Some(0), Some("healthy")), "{again}");

    let saved = path("relist.json");
    plegctl(&["relist", "-r", &fake.endpoint(), "--inspect", "all", "--save", &saved]);
    let relist = plegctl(&["health", "--from", &saved]);
    assert_eq!(relist.code, Some(2), "{relist}");
    assert!(relist.stderr.contains("it is not a HealthReport: it is RelistReport"), "{relist}");
    let other = Invocation::new(&["health", "--from", "-"]).stdin("{\"kind\": \"Pod\"}").run();
    assert_eq!(other.code, Some(2), "{other}");
    assert!(other.stderr.contains("cannot show stdin: it is not a HealthReport"), "{other}");
}

#[test]
fn pleg_age_is_judged_from_a_url_a_file_and_stdin() {
    let fake = FakeRuntime::start(pods(3));
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    for (age, verdict, exit) in [(1, "healthy", 0), (120, "healthy", 0), (629, "unhealthy", 1)] {
        let text = format!("kubelet_pleg_last_seen_seconds {}\n", now() - age);
        let file = fake.folder().join("kubelet.txt").display().to_string();
        fs::write(&file, &text).unwrap();
        let kubelet = Kubelet::serve(text.clone());
        for source in [kubelet.url.as_str(), &file, "-"] {
            let arguments = ["health", "-r", &fake.endpoint(), "--kubelet-metrics", source, "-o", "json"];
            let output = Invocation::new(&arguments).stdin(text.clone()).run();
            let report = report(&output);
            let found = (report["verdict"].as_str(), output.code);
            // plegctl reads a URL twice if the age is near the threshold, and the age at this URL does not change.
            let verdict = if (age, source) == (120, kubelet.url.as_str()) { "degraded" } else { verdict };
            assert_eq!(found, (Some(verdict), Some(exit)), "{age} s from {source}: {output}");
            let age_in_report = report["kubelet"]["plegAgeSeconds"].as_f64().unwrap();
            assert!(age_in_report >= f64::from(u32::try_from(age).unwrap()) - 1.0, "{output}");
            if verdict == "unhealthy" {
                assert_eq!((&report["primary"]["id"], &report["phase"]), (&"D22".into(), &"kubelet".into()));
                assert!(!report["kubelet"]["disagreements"].as_array().unwrap().is_empty(), "{output}");
            }
        }
    }
}

/// Answers every request with the same metrics, like the kubelet's read-only port.
struct Kubelet {
    url: String,
}

impl Kubelet {
    /// Serves a page of metrics on a free port.
    fn serve(text: String) -> Self {
        use std::io::{BufRead, BufReader, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                // Reads the whole request, because closing a connection with unread bytes resets it.
                let lines = BufReader::new(&stream).lines();
                let _ = lines.map_while(Result::ok).take_while(|line| !line.is_empty()).count();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len());
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(text.as_bytes()));
            }
        });
        Self { url }
    }
}

#[test]
fn bundle_is_complete_readable_and_has_no_secrets() {
    let fake = FakeRuntime::start(pods(5));
    fake.on(Rpc::ContainerStatus).id("c3").fail(Code::Internal, "broken");
    let path = |name: &str| fake.folder().join(name).display().to_string();
    let metrics = path("metrics.txt");
    fs::write(&metrics, "kubelet_pleg_discard_events 0\n").unwrap();
    let bundle = path("node.tar.gz");
    let output = plegctl(&[
        "health",
        "-r",
        &fake.endpoint(),
        "--bundle",
        &bundle,
        "--kubelet-metrics",
        &metrics,
        "-o",
        "json",
    ]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(fake.calls_of(Rpc::ContainerStatus).len(), 5, "the bundle needs no further call");

    let listed = Invocation::program("tar", &["-tzf", &bundle]).run();
    for name in ["index.json", "health.json", "kubelet/metrics.txt"] {
        assert!(listed.stdout.lines().any(|line| line == name), "{name}: {listed}");
    }
    let out = |name: &str| Invocation::program("tar", &["-xzOf", &bundle, name]).run().stdout;
    assert_eq!(out("kubelet/metrics.txt"), "kubelet_pleg_discard_events 0\n");
    let index: Value = serde_json::from_str(&out("index.json")).unwrap();
    assert_eq!(index["files"].as_array().unwrap().len(), listed.stdout.lines().count() - 1, "{index}");
    assert!(index["leftOut"][0].as_str().unwrap().contains("environment"), "{index}");
    assert!(!listed.stdout.contains("environ"), "{listed}");
    let again = plegctl(&["health", "--from", &bundle, "-o", "json"]);
    assert_eq!((again.code, &report(&again)), (Some(0), &report(&output)), "{again}");
    let screen = plegctl(&["health", "--from", &bundle]);
    assert!(screen.stdout.contains("\nSAVED "), "{screen}");
    fs::write(&bundle, b"\x1f\x8b\x08 no archive").unwrap();
    let broken = plegctl(&["health", "--from", &bundle]);
    assert_eq!(broken.code, Some(2), "{broken}");
    assert!(broken.stderr.contains("it is not a bundle"), "{broken}");
}
