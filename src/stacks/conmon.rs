//! Decides how long CRI-O's goroutines may wait for a conmon or for a container to end, if their ages do not show it.
//!
//! A stop may take as long as its caller allows, so its age alone means nothing. The goroutine's frames also show
//! whether conmon was told to reopen its log, whether the container was killed already, how long the caller allows,
//! and which container's exit is awaited.

use std::time::Duration;

use super::dump::{Frame, Goroutine};

/// The signature of these waits.
pub const SIGNATURE: &str = "ST12";

/// An order to conmon or a kill that takes longer than this has failed.
const AT_ONCE: Duration = Duration::from_secs(10);

/// How much longer than its caller allows a stop may take.
const MARGIN: Duration = Duration::from_secs(10);

/// The limit of a stop whose allowed time is unknown.
const LONGEST_STOP: Duration = Duration::from_secs(20 * 60);

/// Callers never allow more; a larger number is something else.
const LONGEST_GRACE: u64 = 24 * 60 * 60;

/// What a goroutine waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConmonWait {
    /// conmon reopens a container's log.
    Log,
    /// A killed container ends. A timer repeats the kill, so the goroutine's age is reset again and again.
    Killed,
    /// A container ends within the time that the caller allows, if known.
    Stop(Option<Duration>),
    /// conmon records the exit of the container at this address.
    Exit(Option<u64>),
}

impl ConmonWait {
    /// The wait of `goroutine`.
    pub fn of(goroutine: &Goroutine) -> Option<Self> {
        let frame = |name: &str| goroutine.frames.iter().find(|frame| frame.function.contains(name));
        if let Some(frame) = frame("waitForExitFile") {
            return Some(Self::Exit(last_pointer(frame)));
        }
        if frame("StopLoopForContainer").is_some() {
            let repeats = frame("wait.BackoffUntil").or_else(|| frame("wait.JitterUntil"));
            return Some(if repeats.is_some() { Self::Killed } else { Self::Stop(None) });
        }
        if frame("WaitOnStopTimeout").is_some() {
            return Some(Self::Stop(grace(goroutine)));
        }
        frame("ReopenContainerLog").map(|_| Self::Log)
    }

    /// Whether a wait of this length is too long. A wait for an exit restarts after seconds, so its length alone
    /// never shows it.
    pub fn is_overdue(self, waited: Duration) -> bool {
        match self {
            Self::Log | Self::Killed => waited >= AT_ONCE,
            Self::Stop(Some(grace)) => waited > grace.saturating_add(MARGIN),
            Self::Stop(None) => waited >= LONGEST_STOP,
            Self::Exit(_) => false,
        }
    }

    /// What is waited for, in words.
    pub const fn target(self) -> &'static str {
        match self {
            Self::Log => "conmon",
            Self::Killed => "a container to end that was killed",
            Self::Stop(_) => "a container to stop",
            Self::Exit(_) => "conmon to write down an exit",
        }
    }

    /// The evidence in words.
    pub fn words(self) -> Option<String> {
        match self {
            Self::Log => Some("conmon has to reopen the log and has not done so".to_owned()),
            Self::Killed => {
                Some("the grace period is over: the container was killed but still exists".to_owned())
            }
            Self::Stop(Some(grace)) => Some(format!("its caller allows {} s for the stop", grace.as_secs())),
            Self::Stop(None) | Self::Exit(_) => None,
        }
    }
}

/// The address of the container that is being stopped.
pub fn container(goroutine: &Goroutine) -> Option<u64> {
    let named = |frame: &&Frame| {
        ["StopLoopForContainer", "(*runtimeOCI).StopContainer", "(*runtimeOCI).ReopenContainerLog"]
            .iter()
            .any(|name| frame.function.ends_with(name))
    };
    let frame = goroutine.frames.iter().find(named)?;
    frame.outer_words().filter(|(bits, certain)| *certain && is_pointer(*bits)).nth(1).map(|(bits, _)| bits)
}

/// The time that the caller allows for a stop: the last argument, in seconds.
fn grace(goroutine: &Goroutine) -> Option<Duration> {
    let is_stop = |frame: &&Frame| {
        frame.function.ends_with("(*runtimeOCI).StopContainer")
            || frame.function.ends_with("(*Runtime).StopContainer")
    };
    let (seconds, certain) = goroutine.frames.iter().find(is_stop)?.outer_words().last()?;
    (certain && seconds <= LONGEST_GRACE).then(|| Duration::from_secs(seconds))
}

fn last_pointer(frame: &Frame) -> Option<u64> {
    let pointers = frame.outer_words().filter(|(bits, certain)| *certain && is_pointer(*bits));
    pointers.last().map(|(bits, _)| bits)
}

/// Smaller words are counts, lengths and flags.
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
    fn a_stop_is_late_only_after_what_its_caller_allows() {
        let waits = goroutine(&[
            "x/internal/oci.(*Container).WaitOnStopTimeout(0xc000300000, {0x1, 0x2}, 0x1e?)",
            STOP,
        ]);
        let wait = ConmonWait::of(&waits).unwrap();
        assert_eq!(wait, ConmonWait::Stop(Some(Duration::from_secs(30))));
        assert!(!wait.is_overdue(Duration::from_secs(35)) && wait.is_overdue(Duration::from_secs(60)));
        assert_eq!(container(&waits), Some(0xc000_300000));
        let unknown = goroutine(&["x/internal/oci.(*Container).WaitOnStopTimeout(0xc000300000)"]);
        assert_eq!(ConmonWait::of(&unknown), Some(ConmonWait::Stop(None)));
        assert!(!ConmonWait::Stop(None).is_overdue(Duration::from_secs(300)));
        let stale =
            goroutine(&["oci.(*Container).WaitOnStopTimeout(0x1?)", &STOP.replace("0x1e)", "0x1e?)")]);
        assert_eq!(ConmonWait::of(&stale), Some(ConmonWait::Stop(None)));
    }

    #[test]
    fn a_container_that_was_killed_has_had_its_time() {
        let stop_loop = "x/internal/oci.(*runtimeOCI).StopLoopForContainer(0xc000100000, {0x1, 0x2}, 0xc000300000, {0x3, 0x4})";
        let asked = goroutine(&[stop_loop]);
        assert_eq!(
            (ConmonWait::of(&asked), container(&asked)),
            (Some(ConmonWait::Stop(None)), Some(0xc000_300000))
        );
        let killed = goroutine(&["k8s.io/apimachinery/pkg/util/wait.BackoffUntil(0x1, 0x2)", stop_loop]);
        assert_eq!(ConmonWait::of(&killed), Some(ConmonWait::Killed));
        assert!(ConmonWait::Killed.is_overdue(Duration::from_secs(10)));
    }

    #[test]
    fn an_exit_is_waited_for_by_the_containers_address() {
        let waits =
            goroutine(&["time.Sleep(0x1)", "x/internal/oci.waitForExitFile({0x1, 0x2}, 0xc000300000)"]);
        assert_eq!(ConmonWait::of(&waits), Some(ConmonWait::Exit(Some(0xc000_300000))));
        let log =
            goroutine(&["x/internal/oci.(*runtimeOCI).ReopenContainerLog(0x1, {0x1, 0x2}, 0xc000300000)"]);
        assert_eq!(ConmonWait::of(&log), Some(ConmonWait::Log));
        assert_eq!(ConmonWait::of(&goroutine(&["main.main()"])), None);
    }
}
