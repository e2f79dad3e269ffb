//! Watches the runtime's daemon while a run waits for answers: whether the daemon is stopped, and for how long its threads
//! wait for a processor. A daemon that was stopped for some seconds and runs again looks well in every later sample.
//!
//! Each look reads one file. It makes no calls and judges nothing. A run that ends soon, as on a healthy node, needs no look.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;

use super::offload::{self, FILES_TIME_LIMIT};
use crate::clock::{Clock, Mono, Wall};
use crate::host::proc::ProcessStat;
use crate::host::thread_times;
use crate::report::Rename;
use crate::threads::locked;

/// The time between two looks.
const INTERVAL: Duration = Duration::from_millis(250);

/// The time before the first look. A run that ends earlier has seen no wait for an answer that a look could explain.
const SOON: Duration = Duration::from_millis(100);

/// A shorter stop is not reported: a tracer stops a process for a moment at each system call.
const SHORTEST_STOP: Duration = Duration::from_secs(1);

/// What the looks at the daemon showed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonWatch {
    /// The daemon.
    pub pid: u32,
    /// When it was stopped.
    pub stops: Vec<Stop>,
    /// For how long its threads waited for a processor, together, and the time in which they did; `None` if not readable.
    pub cpu_wait: Option<(Duration, Duration)>,
}

/// A time in which the daemon was stopped by a signal or a tracer in each look, and did not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Rename)]
#[names(emptied(began))]
#[serde(rename_all = "camelCase")]
pub struct Stop {
    /// The state letter, `T` or `t`.
    pub letter: char,
    /// When it was seen stopped first.
    pub from: Wall,
    /// When it was seen running again, or stopped last.
    pub to: Wall,
    /// The time between the two.
    pub length: Duration,
    /// Whether it was stopped in the first look of the run, and so perhaps before.
    pub began_before: bool,
    /// Whether it was stopped in the last look.
    pub lasts: bool,
    #[serde(skip)]
    began: Mono,
    #[serde(skip)]
    cpu_ticks: u64,
}

impl DaemonWatch {
    /// Returns the stop that lasts, otherwise the longest one.
    pub fn worst_stop(&self) -> Option<&Stop> {
        self.stops.iter().max_by_key(|stop| (stop.lasts, stop.length))
    }

    /// Returns for how long the daemon was stopped.
    pub fn stopped_for(&self) -> Duration {
        self.stops.iter().map(|stop| stop.length).sum()
    }

    /// Returns the time that the threads waited for a processor, in percent of the time that passed.
    pub fn cpu_wait_percent(&self) -> Option<f64> {
        let (waited, passed) = self.cpu_wait?;
        (!passed.is_zero()).then(|| 100.0 * waited.as_secs_f64() / passed.as_secs_f64())
    }
}

/// All looks so far.
#[derive(Debug, Default)]
struct Looks {
    count: usize,
    /// The time before the first look, and how long the threads had waited for a processor then.
    waited: Option<(Mono, Duration)>,
    /// When the daemon was started. Another process may get its process id.
    started_ticks: Option<u64>,
    stops: Vec<Stop>,
}

impl Looks {
    /// Adds a look; `stat` is `None` if the process has ended.
    fn add(&mut self, wall: Wall, now: Mono, stat: Option<&ProcessStat>) {
        self.count += 1;
        let stat =
            stat.filter(|stat| *self.started_ticks.get_or_insert(stat.started_ticks) == stat.started_ticks);
        let stopped = stat.filter(|stat| stat.is_stopped());
        if let Some(stop) = self.stops.last_mut().filter(|stop| stop.lasts) {
            (stop.to, stop.length) = (wall, now.since(stop.began));
            stop.lasts = stopped.is_some_and(|stat| stat.cpu_ticks == stop.cpu_ticks);
            if stop.lasts {
                return;
            }
        }
        self.stops.extend(stopped.map(|stat| Stop {
            letter: stat.state,
            from: wall,
            to: wall,
            length: Duration::ZERO,
            began_before: self.count == 1,
            lasts: true,
            began: now,
            cpu_ticks: stat.cpu_ticks,
        }));
    }
}

/// A watch that goes on until it ends or is dropped.
pub(super) struct RunningWatch {
    pid: u32,
    dir: PathBuf,
    clock: Arc<dyn Clock>,
    looks: Arc<Mutex<Looks>>,
    task: JoinHandle<()>,
}

impl Drop for RunningWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RunningWatch {
    /// Begins to watch the process `pid` of the process table `proc`, with the first look at once or a moment later.
    pub(super) fn begin(proc: &Path, pid: u32, clock: &Arc<dyn Clock>, at_once: bool) -> Self {
        let dir = proc.join(pid.to_string());
        let looks = Arc::<Mutex<Looks>>::default();
        let task = tokio::spawn({
            let (dir, clock, looks) = (dir.clone(), Arc::clone(clock), Arc::clone(&looks));
            async move {
                if !at_once {
                    tokio::time::sleep(SOON).await;
                }
                let (now, waited) = (clock.mono(), waited(&dir, FILES_TIME_LIMIT).await);
                locked(&looks).waited = waited.map(|waited| (now, waited));
                loop {
                    look(&dir, &*clock, &looks, FILES_TIME_LIMIT).await;
                    tokio::time::sleep(INTERVAL).await;
                }
            }
        });
        Self { pid, dir, clock: Arc::clone(clock), looks, task }
    }

    /// Ends the watch with a last look, which takes at most `limit`, and returns what it showed.
    pub(super) async fn end(self, limit: Duration) -> DaemonWatch {
        self.task.abort();
        let mut watch = DaemonWatch { pid: self.pid, ..DaemonWatch::default() };
        if locked(&self.looks).count == 0 {
            return watch;
        }
        look(&self.dir, &*self.clock, &self.looks, limit / 2).await;
        let later = waited(&self.dir, limit / 2).await;
        let mut looks = locked(&self.looks);
        // The time of a thread that has ended is missing in the later sum.
        watch.cpu_wait = looks
            .waited
            .zip(later)
            .map(|((began, before), later)| (later.saturating_sub(before), self.clock.mono().since(began)));
        watch.stops = std::mem::take(&mut looks.stops);
        watch.stops.retain(|stop| stop.length >= SHORTEST_STOP);
        watch
    }
}

async fn look(dir: &Path, clock: &dyn Clock, looks: &Mutex<Looks>, limit: Duration) {
    let dir = dir.to_path_buf();
    // A look that does not end in time shows nothing.
    if let Some(stat) = offload::value(limit, move || ProcessStat::read(&dir)).await {
        locked(looks).add(clock.wall(), clock.mono(), stat.as_ref());
    }
}

async fn waited(dir: &Path, limit: Duration) -> Option<Duration> {
    let tasks = dir.join("task");
    offload::value(limit, move || thread_times(&tasks)).await.flatten().map(|(_, waited)| waited)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(state: char, cpu: u64, started: u64) -> ProcessStat {
        let text = format!("7 (crio) {state} 1 7 7 0 -1 0 0 0 0 0 {cpu} 0 0 0 20 0 9 0 {started} 4096 2 0");
        ProcessStat::parse(&text).unwrap()
    }

    /// Adds looks that are a quarter of a second apart.
    fn looks(states: &str, cpu: impl Fn(u64) -> u64) -> Vec<Stop> {
        let mut looks = Looks::default();
        for (number, state) in (0_u64..).zip(states.chars()) {
            let at = INTERVAL * u32::try_from(number).unwrap();
            looks.add(Wall::from_nanos(0).plus(at), Mono::at(at), Some(&stat(state, cpu(number), 50)));
        }
        looks.stops
    }

    #[test]
    fn a_stop_lasts_from_the_first_look_that_shows_it_to_the_first_that_does_not() {
        let [stop] = looks("SSTTTTSS", |_| 5).try_into().unwrap();
        let at = |millis| Wall::from_nanos(0).plus(Duration::from_millis(millis));
        assert_eq!((stop.from, stop.to, stop.length), (at(500), at(1500), SHORTEST_STOP));
        assert!(!stop.began_before && !stop.lasts);
        let [stop] = looks("TTT", |_| 5).try_into().unwrap();
        assert!(stop.began_before && stop.lasts);
    }

    #[test]
    fn a_process_that_runs_between_two_looks_was_not_stopped_from_one_to_the_other() {
        let traced = looks("tttttttt", |number| number);
        assert!(traced.iter().all(|stop| stop.length < SHORTEST_STOP), "{traced:?}");
        let mut looks = Looks::default();
        for (number, started) in [(0, 50), (2, 99)] {
            let at = Duration::from_secs(number);
            looks.add(Wall::from_nanos(0).plus(at), Mono::at(at), Some(&stat('T', 5, started)));
        }
        assert!(!looks.stops.last().unwrap().lasts, "the second look is at another process");
    }
}
