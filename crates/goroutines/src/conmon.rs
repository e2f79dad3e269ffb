//! Recognises the waits of signature ST12 in goroutines of CRI-O (for conmon, or for a container to end), and decides
//! whether such a wait is too long.
//!
//! The age of the wait is not enough: a stop may take as long as its caller allows. So this module reads from the
//! frames which wait it is, how long the caller allows, and the address of the container.

use std::time::Duration;

use super::dump::{Frame, Goroutine};

/// The id of the signature for these waits.
pub const SIGNATURE: &str = "ST12";

/// The limit for a kill, and for conmon to reopen a log; both normally take a moment.
const SHORT_LIMIT: Duration = Duration::from_secs(10);

/// The time that a stop may take in addition to the time that its caller allows.
const STOP_MARGIN: Duration = Duration::from_secs(10);

/// The limit for a stop if the dump does not show how long its caller allows.
const DEFAULT_STOP_LIMIT: Duration = Duration::from_secs(20 * 60);

/// The largest number of seconds that counts as a caller's time-out; no caller allows more.
const MAX_STOP_SECONDS: u64 = 24 * 60 * 60;

/// What a goroutine of CRI-O waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConmonWait {
    /// For conmon to reopen a container's log.
    LogReopen,
    /// For a killed container to end. CRI-O repeats the kill, and the goroutine's age starts again each time.
    KilledContainer,
    /// For a container to stop, with the time that the caller allows, if known.
    Stop(Option<Duration>),
    /// For conmon to record the exit of a container, with the container's address, if known.
    Exit(Option<u64>),
}

impl ConmonWait {
    /// Recognises the wait of `goroutine` by its frames.
    pub fn of(goroutine: &Goroutine) -> Option<Self> {
        let frame = |name: &str| goroutine.frames.iter().find(|frame| frame.function.contains(name));
        if let Some(frame) = frame("waitForExitFile") {
            return Some(Self::Exit(last_pointer(frame)));
        }
        if frame("StopLoopForContainer").is_some() {
            let repeats = frame("wait.BackoffUntil").or_else(|| frame("wait.JitterUntil"));
            return Some(if repeats.is_some() { Self::KilledContainer } else { Self::Stop(None) });
        }
        if frame("WaitOnStopTimeout").is_some() {
            return Some(Self::Stop(allowed_stop_time(goroutine)));
        }
        frame("ReopenContainerLog").map(|_| Self::LogReopen)
    }

    /// Returns whether a wait of this length is too long. A wait for an exit ends and starts again after seconds, so its
    /// length never shows that it is too long.
    pub fn is_overdue(self, waited: Duration) -> bool {
        match self {
            Self::LogReopen | Self::KilledContainer => waited >= SHORT_LIMIT,
            Self::Stop(Some(allowed)) => waited > allowed.saturating_add(STOP_MARGIN),
            Self::Stop(None) => waited >= DEFAULT_STOP_LIMIT,
            Self::Exit(_) => false,
        }
    }

    /// Returns the words that follow *waits for* in a report.
    pub const fn target(self) -> &'static str {
        match self {
            Self::LogReopen => "conmon",
            Self::KilledContainer => "a killed container to end",
            Self::Stop(_) => "a container to stop",
            Self::Exit(_) => "conmon to record an exit",
        }
    }

    /// Describes the wait as evidence for a finding.
    pub fn evidence(self) -> Option<String> {
        match self {
            Self::LogReopen => Some("conmon has not reopened the log yet".to_owned()),
            Self::KilledContainer => {
                Some("the grace period is over: the container was killed but still exists".to_owned())
            }
            Self::Stop(Some(allowed)) => {
                Some(format!("its caller allows {} s for the stop", allowed.as_secs()))
            }
            Self::Stop(None) | Self::Exit(_) => None,
        }
    }
}

/// Returns the address of the container that a goroutine stops or whose log it reopens: the second address among the
/// arguments.
pub fn container_address(goroutine: &Goroutine) -> Option<u64> {
    let named = |frame: &&Frame| {
        ["StopLoopForContainer", "(*runtimeOCI).StopContainer", "(*runtimeOCI).ReopenContainerLog"]
            .iter()
            .any(|name| frame.function.ends_with(name))
    };
    let frame = goroutine.frames.iter().find(named)?;
    frame.outer_words().filter(|(bits, certain)| *certain && is_pointer(*bits)).nth(1).map(|(bits, _)| bits)
}

/// Returns the time that the caller allows for a stop: the last argument of `StopContainer`, in seconds.
fn allowed_stop_time(goroutine: &Goroutine) -> Option<Duration> {
    let is_stop = |frame: &&Frame| {
        frame.function.ends_with("(*runtimeOCI).StopContainer")
            || frame.function.ends_with("(*Runtime).StopContainer")
    };
    let (seconds, certain) = goroutine.frames.iter().find(is_stop)?.outer_words().last()?;
    (certain && seconds <= MAX_STOP_SECONDS).then(|| Duration::from_secs(seconds))
}

fn last_pointer(frame: &Frame) -> Option<u64> {
    let pointers = frame.outer_words().filter(|(bits, certain)| *certain && is_pointer(*bits));
    pointers.last().map(|(bits, _)| bits)
}

/// Returns whether a word can be an address. Smaller words are counts, lengths and flags.
const fn is_pointer(bits: u64) -> bool {
    bits >= 1 << 16
}

#[cfg(test)]
mod tests {
    use super::super::read::{Bounds, read};
    use super::*;

    fn goroutine(frames: &[&str]) -> Goroutine {
        let lines: Vec<String> = frames.iter().map(|frame| format!("{frame}\n\t/a.go:1 +0x1\n")).collect();
        let text = format!("goroutine 1 [select]:\n{}", lines.concat());
        read(text.as_bytes(), Bounds::default()).unwrap().dumps.remove(0).goroutines.remove(0)
    }

    const STOP: &str = "x/internal/oci.(*runtimeOCI).StopContainer(0xc000100000, {0x2f34b78?, 0xc000200000?}, 0xc000300000, 0x1e)";

    #[test]
    fn a_stop_is_overdue_only_after_the_time_that_its_caller_allows() {
        let waits = goroutine(&[
            "x/internal/oci.(*Container).WaitOnStopTimeout(0xc000300000, {0x1, 0x2}, 0x1e?)",
            STOP,
        ]);
        let wait = ConmonWait::of(&waits).unwrap();
        assert_eq!(wait, ConmonWait::Stop(Some(Duration::from_secs(30))));
        assert!(!wait.is_overdue(Duration::from_secs(35)) && wait.is_overdue(Duration::from_secs(60)));
        assert_eq!(container_address(&waits), Some(0xc000_300000));
        let unknown = goroutine(&["x/internal/oci.(*Container).WaitOnStopTimeout(0xc000300000)"]);
        assert_eq!(ConmonWait::of(&unknown), Some(ConmonWait::Stop(None)));
        assert!(!ConmonWait::Stop(None).is_overdue(Duration::from_secs(300)));
        let stale =
            goroutine(&["oci.(*Container).WaitOnStopTimeout(0x1?)", &STOP.replace("0x1e)", "0x1e?)")]);
        assert_eq!(ConmonWait::of(&stale), Some(ConmonWait::Stop(None)));
    }

    #[test]
    fn a_killed_container_that_still_runs_after_ten_seconds_is_overdue() {
        let stop_loop = "x/internal/oci.(*runtimeOCI).StopLoopForContainer(0xc000100000, {0x1, 0x2}, 0xc000300000, {0x3, 0x4})";
        let stopping = goroutine(&[stop_loop]);
        assert_eq!(
            (ConmonWait::of(&stopping), container_address(&stopping)),
            (Some(ConmonWait::Stop(None)), Some(0xc000_300000))
        );
        let killed = goroutine(&["k8s.io/apimachinery/pkg/util/wait.BackoffUntil(0x1, 0x2)", stop_loop]);
        assert_eq!(ConmonWait::of(&killed), Some(ConmonWait::KilledContainer));
        assert!(ConmonWait::KilledContainer.is_overdue(Duration::from_secs(10)));
    }

    #[test]
    fn a_wait_for_an_exit_has_the_containers_address() {
        let waits =
            goroutine(&["time.Sleep(0x1)", "x/internal/oci.waitForExitFile({0x1, 0x2}, 0xc000300000)"]);
        assert_eq!(ConmonWait::of(&waits), Some(ConmonWait::Exit(Some(0xc000_300000))));
        let log =
            goroutine(&["x/internal/oci.(*runtimeOCI).ReopenContainerLog(0x1, {0x1, 0x2}, 0xc000300000)"]);
        assert_eq!(ConmonWait::of(&log), Some(ConmonWait::LogReopen));
        assert_eq!(ConmonWait::of(&goroutine(&["main.main()"])), None);
    }
}
