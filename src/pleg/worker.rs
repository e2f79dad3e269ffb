//! When the kubelet's worker relists what. Decides, never waits: whoever drives it does the waiting.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::Mono;
use crate::kubelet::timing;

/// How many requests for single pods may wait.
pub const REQUEST_QUEUE_CAPACITY: usize = 200;

/// Pause between relists and the age from which on PLEG is unhealthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From the end of a relist to the start of the next.
    pub period: Duration,
    /// Largest healthy age of the last successful lists.
    pub threshold: Duration,
}

impl Timing {
    /// Relisting alone, also after the event stream was given up.
    pub const GENERIC: Self = Self { period: timing::PERIOD, threshold: timing::THRESHOLD };
    /// Relisting beside the event stream.
    pub const EVENTED: Self = Self { period: timing::EVENTED_PERIOD, threshold: timing::EVENTED_THRESHOLD };
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Nothing, ever again.
    Stop,
    /// Relist everything, then say so with [`Worker::relisted`].
    Relist,
    /// Relist this pod.
    RelistPod(String),
    /// Nothing until then, unless a request comes in.
    Wait(Mono),
}

#[derive(Clone, Debug)]
struct Request {
    uid: String,
    at: Mono,
}

/// The worker's view of time and of what it was asked for.
#[derive(Debug)]
pub struct Worker {
    timing: Timing,
    due: Mono,
    requests: VecDeque<Request>,
    stopped: bool,
}

impl Worker {
    /// A worker whose first relist is due at once.
    pub const fn start(timing: Timing, now: Mono) -> Self {
        Self { timing, due: now, requests: VecDeque::new(), stopped: false }
    }

    /// Its timing.
    pub const fn timing(&self) -> Timing {
        self.timing
    }

    /// Starts anew with another timing, as the kubelet does when it gives up the event stream: a relist is due at once.
    pub const fn restart(&mut self, timing: Timing, now: Mono) {
        self.timing = timing;
        self.due = now;
        self.stopped = false;
    }

    /// No more turns.
    pub const fn stop(&mut self) {
        self.stopped = true;
    }

    /// Asks for a relist of one pod; false if too many requests wait, and the request is lost.
    pub fn request(&mut self, uid: &str, now: Mono) -> bool {
        if self.requests.len() >= REQUEST_QUEUE_CAPACITY {
            return false;
        }
        self.requests.push_back(Request { uid: uid.to_owned(), at: now });
        true
    }

    /// What to do at `now`, given the start of the last relist whose lists succeeded.
    pub fn next(&mut self, now: Mono, last_list: Option<Mono>) -> Turn {
        if self.stopped {
            return Turn::Stop;
        }
        if self.due <= now {
            return Turn::Relist;
        }
        while let Some(request) = self.requests.pop_front() {
            // A relist that began after the request has served it.
            if last_list.is_none_or(|listed| request.at > listed) {
                return Turn::RelistPod(request.uid);
            }
        }
        Turn::Wait(self.due)
    }

    /// A relist of everything has ended at `now`; the pause begins.
    pub fn relisted(&mut self, now: Mono) {
        self.due = now.plus(self.timing.period);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono::at(Duration::from_secs(seconds))
    }

    #[test]
    fn the_first_relist_is_due_at_once_and_the_pause_counts_from_its_end() {
        let mut worker = Worker::start(Timing::GENERIC, at(0));
        assert_eq!(worker.next(at(0), None), Turn::Relist);
        worker.relisted(at(120));
        assert_eq!(worker.next(at(120), Some(at(0))), Turn::Wait(at(121)));
        assert_eq!(worker.next(at(121), Some(at(0))), Turn::Relist);
    }

    #[test]
    fn a_stop_comes_before_a_relist_and_a_relist_before_a_request() {
        let mut worker = Worker::start(Timing::GENERIC, at(0));
        assert!(worker.request("p", at(0)));
        assert_eq!(worker.next(at(1), None), Turn::Relist);
        worker.stop();
        assert_eq!(worker.next(at(1), None), Turn::Stop);
    }

    #[test]
    fn a_request_not_newer_than_the_last_list_was_served_by_it() {
        let mut worker = Worker::start(Timing::GENERIC, at(0));
        worker.relisted(at(10));
        for (uid, when) in [("older", 4), ("same", 5), ("newer", 6)] {
            assert!(worker.request(uid, at(when)));
        }
        assert_eq!(worker.next(at(10), Some(at(5))), Turn::RelistPod("newer".into()));
        assert_eq!(worker.next(at(10), Some(at(5))), Turn::Wait(at(11)));
    }

    #[test]
    fn the_two_hundred_and_first_request_is_lost() {
        let mut worker = Worker::start(Timing::GENERIC, at(0));
        let taken = (0..201).filter(|_| worker.request("p", at(0))).count();
        assert_eq!(taken, REQUEST_QUEUE_CAPACITY);
    }
}
