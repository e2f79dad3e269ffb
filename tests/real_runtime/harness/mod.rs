//! Private containerds with real pods and real faults, for the tests and the benches.

pub mod calls;
pub mod daemon;
pub mod faults;
pub mod messages;
pub mod packages;
pub mod pods;

use std::time::Duration;

/// The time limit of a wait or a call, which is long enough for a busy machine.
pub const TIME_LIMIT: Duration = Duration::from_secs(300);

/// Repeats `condition` until it returns `Some`; panics with `what` after the time limit.
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    // Other processes do not follow a test's clock, so this uses the real one.
    let started = std::time::Instant::now();
    loop {
        if let Some(answer) = condition() {
            return answer;
        }
        assert!(started.elapsed() < TIME_LIMIT, "waited {TIME_LIMIT:?} for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
