//! The process tests of `plegctl health --state FILE`: later runs do not repeat a call that hangs, except at growing
//! intervals.

use std::fs;
use std::path::{Path, PathBuf};

use plegctl_engine::cri::Rpc;
use serde_json::Value;

use crate::support::plegctl::{Output, plegctl};
use crate::support::{FakeRuntime, Node, RuntimeKind};

fn a_pod() -> Node {
    Node::new().pod("shop/db-0", "uid-0").sandbox("s0").container("c0", "postgres")
}

/// Returns the path of the state file.
fn state(fake: &FakeRuntime) -> PathBuf {
    fake.folder().join("state.json")
}

/// Runs `health` as node-problem-detector does.
fn npd(fake: &FakeRuntime) -> Output {
    npd_with(fake, &[])
}

fn npd_with(fake: &FakeRuntime, more: &[&str]) -> Output {
    let path = state(fake).display().to_string();
    let endpoint = fake.endpoint();
    plegctl(&[["health", "--npd", "--state", &path, "-r", &endpoint].as_slice(), more].concat())
}

/// Counts the calls of an RPC that the fake received.
fn count(fake: &FakeRuntime, rpc: Rpc) -> usize {
    fake.calls_of(rpc).len()
}

/// Moves the times in the state file five minutes back, so that the next run repeats the hung call.
fn make_the_next_call_due(path: &Path) {
    let mut state: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    for stamp in ["since", "askedAt"] {
        let was = humantime::parse_rfc3339(state["hang"][stamp].as_str().unwrap()).unwrap();
        let earlier = was - std::time::Duration::from_secs(300);
        state["hang"][stamp] = humantime::format_rfc3339_nanos(earlier).to_string().into();
    }
    fs::write(path, state.to_string()).unwrap();
}

#[test]
fn hung_list_is_called_once_and_then_at_growing_intervals() {
    let fake = FakeRuntime::start(a_pod());
    fake.on(Rpc::ListContainers).hang();
    let first = npd(&fake);
    assert_eq!(first.stdout, "D02 likely list hang rpc=ListContainers\n", "{first}");
    assert_eq!(first.code, Some(0), "a likely finding needs a second run: {first}");
    let (containers, sandboxes) = (count(&fake, Rpc::ListContainers), count(&fake, Rpc::ListPodSandbox));
    assert_eq!(containers, 1);

    let versions = count(&fake, Rpc::Version);
    let second = npd(&fake);
    assert!(second.stdout.starts_with("D02 still after "), "{second}");
    assert_eq!(second.code, Some(1), "{second}");
    assert_eq!(count(&fake, Rpc::ListContainers), containers, "the pause before the next call is not over");
    assert_eq!(count(&fake, Rpc::ListPodSandbox), sandboxes, "no other list is requested meanwhile");
    assert_eq!(count(&fake, Rpc::Version), versions + 1, "each run makes one Version call");

    make_the_next_call_due(&state(&fake));
    let third = npd(&fake);
    assert_eq!(
        third.stdout, "D02 still after 5m: list hang rpc=ListContainers\n",
        "the hang is certain now: {third}"
    );
    assert_eq!(third.code, Some(1), "{third}");
    assert_eq!(count(&fake, Rpc::ListContainers), containers + 1);
    assert_eq!(count(&fake, Rpc::ListPodSandbox), sandboxes);
}

#[test]
fn hung_stream_is_called_again_as_a_stream() {
    let fake = FakeRuntime::start_as(RuntimeKind::Containerd24, a_pod());
    fake.on(Rpc::StreamContainers).hang();
    let run = || npd_with(&fake, &["--list-calls", "stream"]);
    assert_eq!(run().stdout, "D02 likely list hang rpc=StreamContainers\n");
    make_the_next_call_due(&state(&fake));
    let second = run();
    assert!(second.stdout.starts_with("D02 still after "), "{second}");
    assert_eq!((count(&fake, Rpc::StreamContainers), count(&fake, Rpc::ListContainers)), (2, 0));
}

#[test]
fn two_good_runs_end_the_reported_hang() {
    let fake = FakeRuntime::start(a_pod());
    fake.on(Rpc::ListContainers).hang();
    npd(&fake);
    assert_eq!(npd(&fake).code, Some(1));

    fake.remove_rules();
    make_the_next_call_due(&state(&fake));
    let good = npd(&fake);
    assert!(!good.stdout.contains("D02"), "{good}");
    assert_eq!(good.code, Some(1), "one good run does not end the reported hang: {good}");
    assert_eq!(npd(&fake).code, Some(0));
}

#[test]
fn only_the_hung_status_call_is_made_again() {
    let fake = FakeRuntime::start(a_pod());
    fake.on(Rpc::ContainerStatus).id("c0").hang();
    npd(&fake);
    let lists = count(&fake, Rpc::ListContainers);
    make_the_next_call_due(&state(&fake));
    let again = npd(&fake);
    assert_eq!(
        again.stdout, "D01 still after 5m: degraded, PLEG works: status hang shop/db-0/postgres\n",
        "{again}"
    );
    assert_eq!(count(&fake, Rpc::ContainerStatus), 2);
    assert_eq!(count(&fake, Rpc::ListContainers), lists);
}

#[test]
fn completely_silent_runtime_gets_no_further_calls() {
    let fake = FakeRuntime::start(a_pod());
    fake.on(Rpc::ListContainers).hang();
    npd(&fake);
    fake.on(Rpc::Version).hang();
    assert_eq!(npd(&fake).code, Some(1));
    let before = fake.calls().len();
    let still = npd(&fake);
    assert!(still.stdout.starts_with("D02 still after "), "{still}");
    assert_eq!(
        fake.calls().len(),
        before,
        "neither the list call nor Version is repeated, because both hang"
    );
}

#[test]
fn invalid_state_file_is_replaced_and_reported() {
    let fake = FakeRuntime::start(a_pod());
    for (content, why) in
        [("not json", "it is not a state file of plegctl"), ("{}", "it is not a state file of plegctl")]
    {
        fs::write(state(&fake), content).unwrap();
        let output = npd(&fake);
        assert_eq!(output.code, Some(0), "{output}");
        assert!(
            output.stderr.contains("is replaced with a new state") && output.stderr.contains(why),
            "{output}"
        );
    }
    let read: Value = serde_json::from_slice(&fs::read(state(&fake)).unwrap()).unwrap();
    assert_eq!((&read["kind"], &read["hang"]), (&"HealthState".into(), &Value::Null));

    let nowhere = fake.folder().join("missing/state.json").display().to_string();
    let output = plegctl(&["health", "--npd", "--state", &nowhere, "-r", &fake.endpoint()]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stderr.contains("the next run makes all calls again"), "{output}");
}

#[test]
fn report_shows_how_long_the_call_has_been_silent() {
    let fake = FakeRuntime::start(a_pod());
    fake.on(Rpc::ListContainers).hang();
    npd(&fake);
    make_the_next_call_due(&state(&fake));
    let path = state(&fake).display().to_string();
    let output = plegctl(&["health", "--state", &path, "-r", &fake.endpoint(), "-o", "json"]);
    assert_eq!(output.code, Some(1), "{output}");
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let evidence = report["primary"]["evidence"][0].as_str().unwrap();
    assert!(evidence.starts_with("ListContainers is still silent after 5m"), "{evidence}");
    assert_eq!(report["primary"]["confidence"], "certain");
}
