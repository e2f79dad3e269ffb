//! Tests that signals other than SIGINT and SIGTERM do not end a recorder, whenever they arrive.

use plegctl_engine::cri::Rpc;

use crate::support::captures::{CaptureDir, argument};
use crate::support::plegctl::{Invocation, plegctl};
use crate::support::{FakeRuntime, Gate, Node, Reply};

/// The signals that must not end a recorder. By default they would end a process.
const HARMLESS: [&str; 4] = ["USR1", "USR2", "ALRM", "XFSZ"];

#[test]
fn signals_before_the_first_answer_do_not_end_a_recorder() {
    let fake = FakeRuntime::start(Node::default());
    let gate = Gate::new();
    fake.on(Rpc::Version).replies([Reply::held(&gate)]);
    let place = CaptureDir::make();
    let (directory, endpoint) = (place.path("capture"), fake.endpoint());
    let how =
        ["record", "-r", &endpoint, argument(&directory), "--period", "1ms", "--count", "2", "--no-host"];
    let running = Invocation::new(&how).spawn();
    fake.wait_for(Rpc::Version, 1);
    for signal in HARMLESS.into_iter().chain(["HUP"]) {
        running.signal(signal);
    }
    gate.open();
    let output = running.wait();
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(plegctl(&["capture", "check", argument(&directory)]).code, Some(0));
}

#[test]
fn signals_while_a_list_hangs_do_not_end_a_recorder() {
    let fake = FakeRuntime::start(Node::default());
    let gate = Gate::new();
    fake.on(Rpc::ListContainers).replies([Reply::held(&gate)]);
    let place = CaptureDir::make();
    let (directory, endpoint) = (place.path("capture"), fake.endpoint());
    let how =
        ["record", "-r", &endpoint, argument(&directory), "--period", "1ms", "--count", "2", "--no-host"];
    let running = Invocation::new(&how).spawn();
    fake.wait_for(Rpc::ListContainers, 1);
    for signal in HARMLESS {
        running.signal(signal);
    }
    gate.open();
    let output = running.wait();
    assert_eq!(output.code, Some(0), "{output}");
}

/// `ulimit -f` counts blocks of 512 or 1024 bytes, so the limit is 4 or 8 KiB: less than a segment.
#[test]
fn long_file_size_limit_does_not_end_the_recorder() {
    let place = CaptureDir::make();
    let directory = place.path("capture");
    let plegctl = env!("CARGO_BIN_EXE_plegctl");
    let line = format!(
        "ulimit -f 8; exec '{plegctl}' record -r sim:busy-deploy '{}' --period 1ms --count 40 --no-host",
        argument(&directory)
    );
    let output = Invocation::program("sh", &["-c", &line]).run();
    assert_eq!((output.code, output.signal), (Some(0), None), "{output}");
}

#[test]
fn report_above_the_file_size_limit_is_an_error() {
    let place = CaptureDir::make();
    let (plegctl, file) = (env!("CARGO_BIN_EXE_plegctl"), place.path("report"));
    let line = format!("ulimit -f 1; exec '{plegctl}' relist -r sim:quiet --save '{}'", argument(&file));
    let output = Invocation::program("sh", &["-c", &line]).run();
    assert_eq!((output.code, output.signal), (Some(2), None), "{output}");
    assert!(output.stderr.contains("error: "), "{output}");
}
