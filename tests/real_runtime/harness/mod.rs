//! Private containerds with real pods and real faults, for the tests and the benches.

pub mod calls;
pub mod daemon;
pub mod faults;
pub mod messages;
pub mod packages;
pub mod pods;

use std::time::Duration;

/// Longer than anything that works takes, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Asks until the answer is `Some`; panics with `what` if it never is.
pub fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    // The things waited for here are other processes, which no injected clock can hurry.
    let started = std::time::Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
