//! Tests against real containerd: 1.6, 1.7 and 2.x, each with its own root, state and socket, with real pods.
//!
//! The tests need root and the packages that `tests/real_runtime/fetch.sh` unpacks into `.cache/real-runtime` (or
//! `$PLEGCTL_RUNTIME_CACHE`). Without these a test prints a message and passes. With `CI=true` the test downloads the
//! packages itself, and fails if it cannot run.
//!
//! ```ignore
//! let Some(runtime) = real(Containerd::V1_7) else { return };
//! let pod = runtime.run_pod(&PodSpec::new("web"), &[ContainerSpec::new("app")]);
//! let held = runtime.hold_status_lock(&pod.containers[0]);
//! // ListContainers hangs for everybody until `held` is dropped.
//! ```
//!
//! No test leaves processes, mounts or files behind, even if it is killed: see `reap.sh`.

/// One test for each containerd, so that they run at the same time and each failure has a name.
macro_rules! on_each_containerd {
    ($($test:ident)*) => {
        $(mod $test {
            use crate::packages::Containerd;

            #[test]
            fn on_containerd_1_6() {
                super::$test(Containerd::V1_6);
            }

            #[test]
            fn on_containerd_1_7() {
                super::$test(Containerd::V1_7);
            }

            #[test]
            fn on_containerd_2() {
                super::$test(Containerd::V2);
            }
        })*
    };
}

#[path = "../support/address.rs"]
mod address;
mod cleanup;
mod clients;
mod cri_missing;
mod driver;
mod false_alarms;
mod forecasts;
mod hanging_disk;
pub mod harness;
mod health;
mod image;
mod impostors;
mod laptop;
mod left_over_shims;
mod lint;
#[path = "../support/plegctl.rs"]
pub mod plegctl;
#[path = "../support/pods_api.rs"]
pub mod pods_api;
mod pods_command;
mod replay;
mod smoke;
mod soak;
mod stacks;
mod stream;
#[path = "../support/terminal.rs"]
pub mod terminal;
mod terminating;
mod top;
mod views;
mod waits;
mod watch;

use std::io::Write;

use daemon::RealRuntime;
use harness::{TIME_LIMIT, daemon, faults, messages, packages, pods, wait_for};
use packages::{Containerd, Packages};

/// What a report names as not checked if the goroutine dump of the runtime did not arrive in time.
const NO_DUMP: &str = "who waits for whom in the runtime (stacks)";

/// Returns a private containerd with its own disk, which can be frozen.
fn real_on_its_own_disk(version: Containerd) -> Option<RealRuntime> {
    packages().map(|packages| RealRuntime::start_on_its_own_disk(version, packages))
}

/// Returns a private containerd of that version, or `None` with the reason on standard error.
fn real(version: Containerd) -> Option<RealRuntime> {
    packages().map(|packages| RealRuntime::start(version, packages))
}

fn packages() -> Option<Packages> {
    match Packages::find() {
        Ok(packages) => Some(packages),
        Err(reason) if packages::on_ci() => panic!("no real runtime although CI=true: {reason}"),
        Err(reason) => {
            let thread = std::thread::current();
            let test = thread.name().unwrap_or("a test").to_owned();
            // Not `eprintln!`: the test harness captures its output in tests that pass.
            let _ = writeln!(std::io::stderr(), "skipped {test}: {reason}");
            None
        }
    }
}
