//! Private containerds with real pods and real faults, for the tests and the benches.

pub mod calls;
pub mod daemon;
pub mod faults;
pub mod messages;
pub mod packages;
pub mod pods;

use std::time::Duration;

/// A time limit that is long enough for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Repeats `ask` until it returns `Some`; panics with `what` after the time limit.
pub fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    // The wait is for other processes, which do not follow an injected clock.
    let started = std::time::Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
