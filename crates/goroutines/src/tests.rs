//! Tests of `judge` with whole dumps: dumps that the tests write, for faults without a recorded dump, and recorded dumps
//! where more than the first finding matters.

use std::collections::BTreeMap;
use std::time::Duration;

use super::judge::{DumpSource, KnownHangs, judge};
use super::read::{Bounds, read};
use super::report::{Finding, StackReport};
use super::signatures::signatures;
use plegctl_base::report::{Confidence, Severity};

fn source(text: &str, taken_at: Option<&str>) -> DumpSource {
    let dump = read(text.as_bytes(), Bounds::default()).unwrap().dumps.remove(0);
    let taken_at = taken_at.map(str::to_owned);
    DumpSource {
        name: "dump".to_owned(),
        dump,
        is_requested_here: taken_at.is_some(),
        taken_at,
        ..DumpSource::default()
    }
}

fn judged(text: &str) -> StackReport {
    judge(&[source(text, None)], &signatures(), &KnownHangs::default())
}

/// Judges two equal dumps that were taken eleven seconds apart, as of a quiet process.
fn judged_twice(text: &str) -> StackReport {
    let sources = [source(text, Some("2026-01-01T00:00:00Z")), source(text, Some("2026-01-01T00:00:11Z"))];
    judge(&sources, &signatures(), &KnownHangs::default())
}

/// Returns the text of a goroutine in a dump.
pub(super) fn goroutine(id: u64, state: &str, frames: &[&str]) -> String {
    let lines: Vec<String> = frames.iter().map(|frame| format!("{frame}\n\t/a.go:1 +0x1\n")).collect();
    format!("goroutine {id} [{state}]:\n{}\n", lines.concat())
}

/// Returns the text of a goroutine of CRI-O that serves `rpc`.
pub(super) fn serving(id: u64, state: &str, rpc: &str, frames: &[&str]) -> String {
    let server = format!(
        "github.com/cri-o/cri-o/server.(*Server).{rpc}(0xc000001000, {{0x1, 0x2}}, 0xc000{id:03}000)"
    );
    let handler =
        format!("k8s.io/cri-api/pkg/apis/runtime/v1._RuntimeService_{rpc}_Handler({{0x1, 0xc000001000}})");
    let all: Vec<&str> = frames.iter().copied().chain([server.as_str(), handler.as_str()]).collect();
    goroutine(id, state, &all)
}

/// Returns the whole minutes for which a finding's goroutines have waited.
fn minutes(finding: &Finding) -> Option<u64> {
    assert!(!finding.waited_at_least, "{finding:#?}");
    finding.waited_seconds.map(|waited| waited.duration().as_secs() / 60)
}

fn found<'a>(report: &'a StackReport, id: &str) -> Option<&'a Finding> {
    report.findings.iter().find(|finding| finding.id == id)
}

/// Returns the texts of two goroutines that wait for the lock of the layer store.
fn two_waiters_for_the_layers() -> String {
    [(31, "ListImages"), (32, "RunPodSandbox")]
        .map(|(id, rpc)| {
            serving(
                id,
                "sync.RWMutex.RLock",
                rpc,
                &[
                    "sync.runtime_SemacquireRWMutexR(0x1?, 0x2?, 0x3?)",
                    "sync.(*RWMutex).RLock(...)",
                    "go.podman.io/storage.(*layerStore).startReading(0xc000700000, 0x0)",
                    "go.podman.io/storage.(*store).Layers(0xc000600000)",
                ],
            )
        })
        .concat()
}

/// Returns the text of a goroutine that writes to the disk and holds the lock of the layer store at `layers`.
fn write_to_the_layers(state: &str, layers: &str) -> String {
    let frame = format!("go.podman.io/storage.(*layerStore).saveLayers({layers})");
    serving(
        30,
        state,
        "CreateContainer",
        &[
            "syscall.Syscall6(0x12, 0x6, 0xc000900000, 0x1000, 0x0, 0x0, 0x0)",
            "golang.org/x/sys/unix.pwrite(0x6?, {0x1, 0x2, 0x3}, 0x0?)",
            "golang.org/x/sys/unix.Pwrite(...)",
            "go.podman.io/storage/pkg/lockfile.(*LockFile).RecordWrite(0xc000800000)",
            &frame,
        ],
    )
}

#[test]
fn waiters_for_the_layer_store_are_linked_to_the_goroutine_that_writes_to_the_disk() {
    let write = |layers: &str| write_to_the_layers("syscall", layers);
    // The holder is found with its address, and also without the address by its function.
    for layers in ["0xc000700000", "..."] {
        let report = judged(&(write(layers) + &two_waiters_for_the_layers()));
        let primary = report.primary.as_ref().unwrap();
        assert_eq!((primary.id.as_str(), primary.waiters), ("ST11", 2), "{report:#?}");
        assert!(found(&report, "ST20").is_none(), "{report:#?}");
        let sentence = "2 calls (ListImages, RunPodSandbox) wait for the lock of the layers, held by a CreateContainer that \
                        waits for the file system (write)";
        assert_eq!(report.summary, sentence);
    }
    assert_eq!(
        judged_twice(&(write("0xc000700000") + &two_waiters_for_the_layers())).findings[0].confidence,
        Confidence::Certain
    );
}

#[test]
fn any_function_of_the_store_that_waits_for_the_disk_is_st11() {
    for (inner, outer) in [
        ("syscall.fsync(0x6)", "golang.org/x/sys/unix.Fsync(0x6)"),
        ("golang.org/x/sys/unix.mkdirat(0x6)", "golang.org/x/sys/unix.Mkdirat(0x6)"),
        ("syscall.pwrite(0x6)", "syscall.Pwrite(...)"),
    ] {
        let store = ["github.com/containers/storage/drivers/overlay.(*Driver).create(0xc000500000)"];
        let text = serving(30, "syscall, 2 minutes", "CreateContainer", &[inner, outer, store[0]]);
        let report = judged(&text);
        assert_eq!(report.findings[0].id, "ST11", "{inner}: {report:#?}");
        assert_eq!(report.findings[0].confidence, Confidence::Likely);
    }
}

/// A goroutine of CRI-O that waits for the OCI runtime, in this state.
fn starting(state: &str) -> String {
    let wait = ["os/exec.(*Cmd).Wait(0xc000110000)", "x/oci.(*runtimeOCI).runtimeCmd(0xc000100000)"];
    serving(60, state, "StartContainer", &wait)
}

#[test]
fn a_printed_age_is_an_estimate_that_proves_two_minutes_less() {
    for (state, age, confidence, with_address) in [
        ("syscall", "", Confidence::Possible, Confidence::Possible),
        ("syscall, 1 minutes", " about 1 min", Confidence::Likely, Confidence::Likely),
        ("syscall, 2 minutes", " about 2 min", Confidence::Likely, Confidence::Likely),
        ("syscall, 3 minutes", " about 3 min", Confidence::Likely, Confidence::Certain),
    ] {
        let report = judged(&starting(state));
        assert_eq!(report.summary, format!("a StartContainer waits{age} for the OCI runtime"));
        let evidence = format!("the wait has lasted{age}");
        assert_eq!(report.findings[0].evidence.contains(&evidence), !age.is_empty(), "{report:#?}");
        assert_eq!(report.findings[0].confidence, confidence, "{state}");
        // A dump of a living process is followed by a second one, unless the wait is proven.
        assert_eq!(report.second_dump_may_help(), with_address != Confidence::Certain, "{state}");
        let report = judged(&(write_to_the_layers(state, "0xc000700000") + &two_waiters_for_the_layers()));
        assert_eq!(report.findings[0].confidence, with_address, "{state}: {report:#?}");
    }
}

#[test]
fn only_two_dumps_prove_for_how_long_a_goroutine_has_waited_at_least() {
    let report = judged_twice(&starting("syscall"));
    let finding = &report.findings[0];
    assert_eq!(
        (finding.waited_seconds, finding.waited_at_least),
        (Some(Duration::from_secs(11).into()), true)
    );
    assert_eq!(report.summary, "a StartContainer waits at least 11 s for the OCI runtime");
    // Without a timestamp, the time between two dumps is not known.
    let later = format!("{}{}", starting("syscall"), goroutine(999, "running", &["main.main()"]));
    let sources = [source(&starting("syscall"), None), source(&later, None)];
    let report = judge(&sources, &signatures(), &KnownHangs::default());
    assert_eq!(report.summary, "a StartContainer waits for the OCI runtime");
    assert_eq!(report.findings[0].confidence, Confidence::Likely);
}

#[test]
fn a_call_that_was_measured_to_hang_tells_about_how_long_its_cause_has_lasted() {
    let hanging = BTreeMap::from([("StartContainer".to_owned(), Duration::from_secs(12))]);
    let report = judge(&[source(&starting("syscall"), None)], &signatures(), &KnownHangs { hanging });
    assert_eq!(report.summary, "a StartContainer waits about 12 s for the OCI runtime");
    assert!(!report.findings[0].waited_at_least);
}

#[test]
fn an_image_pull_that_writes_in_both_dumps_is_only_possible() {
    let pull = serving(
        30,
        "syscall",
        "PullImage",
        &[
            "syscall.write(0x6, {0xc000100000, 0x8000, 0x8000})",
            "go.podman.io/storage.(*layerStore).applyDiff(0xc000700000)",
        ],
    );
    assert_eq!(found(&judged_twice(&pull), "ST11").unwrap().confidence, Confidence::Possible);
}

#[test]
fn a_lock_without_a_visible_holder_is_reported_without_one() {
    let report = judged(&two_waiters_for_the_layers());
    assert_eq!(
        report.summary,
        "2 calls (ListImages, RunPodSandbox) wait for the lock of the layers; the dump does not show who holds it"
    );
}

#[test]
fn a_log_that_conmon_does_not_reopen_is_possible_in_one_dump_and_likely_in_two() {
    let reopen = serving(
        40,
        "select",
        "ReopenContainerLog",
        &[
            "github.com/cri-o/cri-o/internal/oci.(*runtimeOCI).ReopenContainerLog(0xc000100000, {0x1, 0x2}, 0xc000300000)",
        ],
    );
    let one = judged(&reopen);
    let finding = found(&one, "ST12").unwrap();
    assert_eq!(finding.confidence, Confidence::Possible);
    assert_eq!(one.summary, "a ReopenContainerLog waits for conmon");
    assert_eq!(found(&judged_twice(&reopen), "ST12").unwrap().confidence, Confidence::Likely);
    assert!(judged_twice(&reopen).has_problem());
}

/// Returns the text of a goroutine of CRI-O that stops a container; `allowed` is the caller's time-out in seconds.
fn stop(state: &str, allowed: &str) -> String {
    let of_runtime = format!(
        "github.com/cri-o/cri-o/internal/oci.(*runtimeOCI).StopContainer(0xc000100000, {{0x1?, 0x2?}}, 0xc000300000, {allowed})"
    );
    let wait =
        "github.com/cri-o/cri-o/internal/oci.(*Container).WaitOnStopTimeout(0xc000300000, {0x1, 0x2}, 0x1?)";
    serving(41, state, "StopContainer", &[wait, &of_runtime])
}

#[test]
fn a_stop_is_likely_only_after_the_time_that_its_caller_allows() {
    let confidence = |report: &StackReport| found(report, "ST12").unwrap().confidence;
    assert_eq!(confidence(&judged(&stop("select", "0x1e"))), Confidence::Possible);
    assert_eq!(confidence(&judged(&stop("select, 1 minutes", "0x1e"))), Confidence::Possible);
    assert_eq!(confidence(&judged(&stop("select, 3 minutes", "0x1e"))), Confidence::Likely);
    assert_eq!(confidence(&judged(&stop("select, 7 minutes", "0x12c"))), Confidence::Possible);
    assert_eq!(confidence(&judged(&stop("select, 8 minutes", "0x12c"))), Confidence::Likely);
    assert_eq!(confidence(&judged_twice(&stop("select", "0x1e"))), Confidence::Possible);
    assert_eq!(confidence(&judged_twice(&stop("select", "0x0"))), Confidence::Likely);
}

#[test]
fn a_container_that_still_exists_after_its_kill_is_likely_in_two_dumps() {
    let kill = goroutine(
        42,
        "select",
        &[
            "k8s.io/apimachinery/pkg/util/wait.BackoffUntil(0xc000100000, {0x1, 0xc000400000}, 0x1, 0xc000500000)",
            "github.com/cri-o/cri-o/internal/oci.(*runtimeOCI).StopLoopForContainer(0xc000100000, {0x1, 0x2}, 0xc000300000, {0x1, 0xc000400000})",
        ],
    );
    assert_eq!(found(&judged(&kill), "ST12").unwrap().confidence, Confidence::Possible);
    let report = judged_twice(&kill);
    let finding = found(&report, "ST12").unwrap();
    assert_eq!(finding.confidence, Confidence::Likely);
    assert!(finding.evidence.iter().any(|line| line.contains("was killed but still exists")), "{report:#?}");
}

#[test]
fn two_calls_that_wait_for_one_exit_are_likely_without_an_age() {
    let wait = |id: u64, container: &str| {
        let frame = format!("github.com/cri-o/cri-o/internal/oci.waitForExitFile({{0x1, 0x2}}, {container})");
        serving(id, "sleep", "ContainerStatus", &["time.Sleep(0x1dcd6500)", &frame])
    };
    let same = judged(&(wait(50, "0xc000300000") + &wait(51, "0xc000300000")));
    let finding = found(&same, "ST12").unwrap();
    assert_eq!(finding.confidence, Confidence::Likely, "{same:#?}");
    assert!(finding.evidence.contains(&"2 calls wait for the exit of one container".to_owned()));
    let others = judged(&(wait(50, "0xc000300000") + &wait(51, "0xc000400000")));
    assert_eq!(found(&others, "ST12").unwrap().confidence, Confidence::Possible);
}

#[test]
fn a_goroutine_without_an_age_has_the_age_of_a_goroutine_that_it_started_for_its_wait() {
    let wait = serving(
        60,
        "syscall",
        "StartContainer",
        &[
            "syscall.Syscall6(0xf7, 0x3, 0x1d, 0x1, 0x4, 0x1, 0x0)",
            "os.(*Process).pidfdWait(0x1)",
            "os/exec.(*Cmd).Wait(0xc000110000)",
            "github.com/cri-o/cri-o/internal/oci.(*runtimeOCI).runtimeCmd(0xc000100000, {0x1, 0x2, 0x3})",
        ],
    );
    let copy = |creator: &str| {
        let text = goroutine(
            61,
            "IO wait, 3 minutes",
            &["internal/poll.runtime_pollWait(0x1, 0x72)", "io.Copy(...)"],
        );
        format!("{}created by {creator}\n\t/e.go:1 +0x1\n\n", text.trim_end_matches('\n').to_owned() + "\n")
    };
    let report = judged(&(wait.clone() + &copy("os/exec.(*Cmd).Start in goroutine 60")));
    let finding = found(&report, "ST06").unwrap();
    assert_eq!((minutes(finding), finding.confidence), (Some(3), Confidence::Likely), "{report:#?}");
    // The age of a goroutine does not count if another goroutine started it, or if it was started for another purpose.
    for creator in ["os/exec.(*Cmd).Start in goroutine 7", "net/http.(*Server).Serve in goroutine 60"] {
        let report = judged(&(wait.clone() + &copy(creator)));
        assert_eq!(minutes(found(&report, "ST06").unwrap()), None, "{creator}");
    }
}

#[test]
fn a_single_create_that_waits_for_conmon_is_st06() {
    let create = serving(
        70,
        "select, locked to thread",
        "CreateContainer",
        &[
            "github.com/cri-o/cri-o/internal/oci.(*runtimeOCI).CreateContainer(0xc000100000, {0x1, 0x2}, 0xc000300000, {0xc000120000, 0xd}, 0x0)",
        ],
    );
    let report = judged(&create);
    assert_eq!(report.findings[0].id, "ST06", "{report:#?}");
    assert_eq!(report.summary, "a CreateContainer waits for the OCI runtime");
    let reading = goroutine(
        71,
        "syscall, 2 minutes",
        &["syscall.read(0x1)", "x.(*runtimeOCI).CreateContainer.func4()"],
    );
    let creator = "created by github.com/cri-o/cri-o/internal/oci.(*runtimeOCI).CreateContainer in goroutine 70\n\t/e.go:1 +0x1\n\n";
    let report = judged(&(create + reading.trim_end_matches('\n') + "\n" + creator));
    assert_eq!(minutes(found(&report, "ST06").unwrap()), Some(2), "{report:#?}");
}

#[test]
fn a_command_that_runs_long_in_cri_o_is_no_hang_of_the_oci_runtime() {
    let exec = |state: &str| {
        let wait = [
            "syscall.Syscall6(0xf7, 0x3, 0x35, 0x77eea967008, 0x4, 0x77eeb6ecf0, 0x0)",
            "os.(*Process).pidfdWait(0x77eeb6f53c0)",
            "os/exec.(*Cmd).Wait(0x77eeb6f8ea0)",
            "github.com/cri-o/cri-o/internal/oci.(*runtimeOCI).ExecSyncContainer(0x77eeb48f400, {0x2f34b78?, 0x77eeb6ffda0?}, 0x77eeb680000)",
        ];
        serving(193, state, "ExecSync", &wait)
    };
    for report in [judged(&exec("syscall, 9 minutes")), judged_twice(&exec("syscall"))] {
        assert_eq!(report.findings.len(), 1, "{report:#?}");
        let finding = &report.findings[0];
        assert_eq!((finding.id.as_str(), finding.severity), ("ST19", Severity::Info));
        assert!(!report.has_problem() && !report.second_dump_may_help());
        assert!(report.summary.ends_with(" for the command in the container"), "{}", report.summary);
    }
}

#[test]
fn a_stop_whose_kill_hangs_waits_for_the_oci_runtime() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/recordings/stacks/o-runc.t200.usr1.gz");
    let dump = read(std::fs::File::open(path).unwrap(), Bounds::default()).unwrap().dumps.remove(0);
    let source = DumpSource { name: path.to_owned(), dump, ..DumpSource::default() };
    let report = judge(&[source], &signatures(), &KnownHangs::default());
    assert_eq!(report.findings[0].id, "ST06");
    assert!(found(&report, "ST12").is_none(), "{:#?}", report.findings);
}

#[test]
fn a_finding_with_a_holder_comes_before_a_finding_without() {
    // Five goroutines wait for a lock without a visible holder, and one call waits for its process: all for minutes.
    let five_waiters: String = (80..85)
        .map(|id| {
            let frames = ["sync.(*RWMutex).RLock(...)", "example.org/x.(*Table).Get(0xc000990000)"];
            serving(id, "sync.RWMutex.RLock, 2 minutes", "ListImages", &frames)
        })
        .collect();
    let one_call = serving(
        86,
        "syscall, 2 minutes",
        "StartContainer",
        &[
            "os/exec.(*Cmd).Wait(0xc000110000)",
            "github.com/cri-o/cri-o/internal/oci.(*runtimeOCI).runtimeCmd(0xc000100000)",
        ],
    );
    let report = judged(&(five_waiters + &one_call));
    let order: Vec<(&str, bool)> =
        report.findings.iter().map(|finding| (finding.id.as_str(), finding.holder.is_some())).collect();
    assert_eq!(order, [("ST06", true), ("ST20", false)], "{report:#?}");
}

#[test]
fn a_second_dump_is_advised_only_after_one_dump() {
    let text = goroutine(
        90,
        "syscall",
        &[
            "syscall.pwrite(0x1)",
            "go.etcd.io/bbolt.(*Tx).Commit(0xc000110000)",
            "github.com/containerd/containerd/v2/internal/cri/server.run()",
        ],
    );
    let advises =
        |report: &StackReport| report.findings[0].next.iter().any(|next| next.contains("second dump"));
    assert!(advises(&judged(&text)), "{:#?}", judged(&text));
    assert!(!advises(&judged_twice(&text)));
    assert_eq!(judged(&text).findings[0].severity, Severity::Info);
}
