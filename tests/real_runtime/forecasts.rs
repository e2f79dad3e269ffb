//! What really grows towards a limit is forecast, with its slope and its end. The measurements are real; the time is not: each
//! one counts as if it were taken some minutes later than the one before.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use plegctl_engine::capture::recording::NodeSampler;
use plegctl_engine::clock::{Mono, Wall};
use plegctl_engine::diagnosis::forecast::{LimitForecast, LimitHistory, LimitKind, MeasuredLimit};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::daemon::RealRuntime;
use crate::packages::Containerd;
use crate::{real, real_on_its_own_disk, wait_for};

/// Measures one limit of a runtime at moments of a simulated time.
struct Growth {
    sampler: NodeSampler,
    history: LimitHistory,
    limit: LimitKind,
    daemon: u32,
    at: Duration,
}

impl Growth {
    fn of(runtime: &RealRuntime, limit: LimitKind) -> Self {
        let sampler = NodeSampler::new(Some("/proc".into()), PathBuf::from("/"), runtime.socket());
        let daemon = runtime.daemon_pid().as_raw_nonzero().get().unsigned_abs();
        Self { sampler, history: LimitHistory::default(), limit, daemon, at: Duration::ZERO }
    }

    /// Takes samples until one has the limit, and lets it count as one that was taken `later`.
    fn measure(&mut self, later: Duration) -> MeasuredLimit {
        let measured = wait_for("a sample of the limit", || {
            let of_node = |one: &MeasuredLimit| one.process.as_ref().is_none_or(|of| of.pid == self.daemon);
            let all = self.sampler.sample(Mono::default(), true)?.measured_limits();
            all.into_iter().find(|one| one.limit == self.limit && of_node(one))
        });
        self.at += later;
        self.history.add(self.at, 1, std::slice::from_ref(&measured));
        measured
    }

    fn forecast(&self) -> Option<LimitForecast> {
        self.history.forecasts(self.at, Wall::from_nanos(0).plus(self.at)).pop()
    }

    /// Measures while something grows until the limit is reached, and compares that with the first forecast.
    fn assert_forecast(mut self, later: Duration, mut grow: impl FnMut()) {
        let mut first = None;
        loop {
            grow();
            let measured = self.measure(later);
            if measured.used >= measured.max {
                break;
            }
            first = first.or_else(|| Some((self.at, self.forecast()?)));
        }
        let (at, first) = first.expect("a forecast before the limit is reached");
        let (left, truth) = (first.full_at.duration_since(first.taken_at), self.at.saturating_sub(at));
        #[expect(clippy::cast_precision_loss, reason = "no limit comes near 2^52")]
        let grown = (first.max - first.used) as f64 / truth.as_secs_f64() * 60.0;
        assert!((30 * 60..=34 * 60).contains(&at.as_secs()), "half an hour is enough: {first}");
        assert!(left.abs_diff(truth) <= truth / 5, "{first}: it was full after {truth:?}");
        assert!(
            (first.per_minute.value() / grown - 1.0).abs() <= 0.1,
            "{first}: it grew by {grown} a minute"
        );
    }
}

#[test]
fn disk_of_the_runtime_that_fills_is_forecast_with_its_slope_and_its_end() {
    let Some(runtime) = real_on_its_own_disk(Containerd::V2) else { return };
    let root = runtime.directory().join("root");
    let file = fs::File::create(root.join("grows")).unwrap();
    let disk = || statvfs(&root).unwrap();
    let mut size = 0;
    let mut grow = |bytes: u64| {
        let free = disk().f_bavail * disk().f_frsize;
        fallocate(&file, FallocateFlags::empty(), size, bytes.min(free.max(4096))).unwrap();
        size += bytes;
    };
    // 86 % are used: of the rest, the kubelet cleans nothing.
    let about = disk();
    grow((about.f_bavail - about.f_blocks * 14 / 100) * about.f_frsize);
    let mut steps = [500_u64, 900, 700].into_iter().cycle();
    let later = Duration::from_secs(90);
    Growth::of(&runtime, LimitKind::RuntimeRootBytes)
        .assert_forecast(later, || grow(steps.next().unwrap() << 10));
}

#[test]
fn descriptors_of_the_runtime_that_leak_are_forecast_with_their_slope_and_their_end() {
    let Some(runtime) = real(Containerd::V2) else { return };
    let daemon = runtime.daemon_pid();
    let limit = Rlimit { current: Some(1000), maximum: Some(1000) };
    prlimit(Some(daemon), Resource::Nofile, limit).unwrap();
    let mut held = Vec::new();
    let mut leak = |count: usize| {
        let least = (descriptors(daemon) + count).min(1000);
        held.extend((0..count).map(|_| UnixStream::connect(runtime.socket()).unwrap()));
        wait_for("the daemon to accept", || (descriptors(daemon) + 3 >= least).then_some(()));
    };
    leak(150);
    let mut steps = [8, 12, 10].into_iter().cycle();
    let later = Duration::from_secs(60);
    Growth::of(&runtime, LimitKind::Descriptors).assert_forecast(later, || leak(steps.next().unwrap()));
}

fn descriptors(daemon: Pid) -> usize {
    fs::read_dir(format!("/proc/{}/fd", daemon.as_raw_nonzero())).unwrap().count()
}
