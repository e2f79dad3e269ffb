//! A leak is forecast, and what a healthy node does is not: 6-hour runs with fixed seeds, judged at every minute.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "simulated measurements are computed as fractions"
)]

use proptest::prelude::*;

use super::*;
use crate::clock::Wall;
use crate::diagnosis::facts::ProcessRef;

const MAX: u64 = 10_000;
const MINUTE: u64 = 60;
const RUN: u64 = 6 * 60 * MINUTE;
const STEP: u64 = 30;

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(minutes * MINUTE)
}

/// Measures `used` of a time in minutes for so many minutes, every half a minute.
fn measure(length: u64, used: impl Fn(f64) -> f64, pods: impl Fn(f64) -> f64) -> Vec<Measurement> {
    let one = |second: u64| Measurement {
        at: Duration::from_secs(second),
        used: used(second as f64 / 60.0).max(0.0) as u64,
        max: MAX,
        pods: pods(second as f64 / 60.0) as u64,
    };
    (0..=length * MINUTE / STEP).map(|step| one(step * STEP)).collect()
}

fn judge(measured: &[Measurement]) -> Option<Forecast> {
    forecast(measured, SHORTEST)
}

#[test]
fn leak_of_threads_is_forecast_with_its_speed_and_the_time_left() {
    let leak = measure(180, |minute| 2000.0 + 10.0 * minute, |_| 30.0);
    let found = judge(&leak).unwrap();
    assert_eq!((found.used, found.max), (3800, MAX));
    assert!((found.per_second * 60.0 - 10.0).abs() < 0.1, "{found:?}");
    assert_eq!(found.measured, minutes(180));
    assert!(found.left.abs_diff(minutes(620)) < minutes(7), "{found:?}");
    assert_eq!(found.confidence, Confidence::Possible, "it reaches further than twice the measured time");
    let longer = measure(300, |minute| 2000.0 + 10.0 * minute, |_| 30.0);
    assert_eq!(judge(&longer).unwrap().confidence, Confidence::Likely);
}

#[test]
fn half_of_the_limit_makes_a_forecast_likely() {
    let leak = measure(60, |minute| 5000.0 + 25.0 * minute, |_| 30.0);
    assert_eq!(judge(&leak).unwrap().confidence, Confidence::Likely);
}

#[test]
fn less_than_half_an_hour_is_no_forecast() {
    let leak = |length| measure(length, |minute| 6000.0 + 40.0 * minute, |_| 30.0);
    assert_eq!(judge(&leak(29)), None);
    assert!(judge(&leak(30)).is_some());
    let measured = measure(7, |minute| 8000.0 + 100.0 * minute, |_| 30.0);
    assert!(forecast(&measured, minutes(6)).is_some());
}

#[test]
fn growth_that_begins_late_is_measured_from_its_beginning() {
    let late = measure(300, |minute| 5000.0 + 20.0 * (minute - 180.0).max(0.0), |_| 30.0);
    let found = judge(&late).unwrap();
    assert!((minutes(60)..=minutes(121)).contains(&found.measured), "{found:?}");
    assert!((found.per_second * 60.0 - 20.0).abs() < 1.0, "{found:?}");
}

#[test]
fn growth_that_has_ended_is_no_forecast() {
    let ended = |ago: f64| measure(300, |minute| 2000.0 + 15.0 * minute.min(300.0 - ago), |_| 30.0);
    assert!(judge(&ended(5.0)).is_some());
    assert_eq!(judge(&ended(20.0)), None);
}

#[test]
fn growth_with_the_number_of_pods_is_no_forecast() {
    let rollout = |minute: f64| 40.0 + minute / 3.0;
    let follows = measure(120, |minute| 1000.0 + 30.0 * rollout(minute), rollout);
    assert_eq!(judge(&follows), None);
    let leaks = measure(120, |minute| 1000.0 + 30.0 * minute, |minute| 40.0 + minute / 20.0);
    assert!(judge(&leaks).is_some(), "a few new pods do not explain this growth");
}

#[test]
fn limit_that_is_far_away_or_hardly_used_is_no_forecast() {
    let of = |start: f64, each: f64| judge(&measure(1440, |minute| start + each * minute, |_| 30.0));
    assert_eq!(of(2000.0, 0.5), None, "it is 10 days away");
    assert_eq!(of(2000.0, 1.0), None, "4 days away are too far for one measured day");
    assert!(of(4000.0, 1.0).is_some());
    assert_eq!(of(0.0, 0.6), None, "less than a tenth is used");
}

#[test]
fn limit_that_is_reached_is_no_forecast() {
    assert_eq!(judge(&measure(60, |minute| 9000.0 + 20.0 * minute, |_| 30.0)), None);
}

#[test]
fn a_gap_in_the_measurements_is_no_forecast() {
    let mut leak = measure(60, |minute| 5000.0 + 30.0 * minute, |_| 30.0);
    leak.retain(|one| !(minutes(20)..minutes(42)).contains(&one.at));
    assert_eq!(judge(&leak), None);
}

/// Random numbers with a fixed seed, between -1 and 1.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + f64::midpoint(self.next(), 1.0) * (high - low)
    }
}

/// What a healthy node does: how much it uses, and how many pods it has, at each minute of the run.
type Healthy = fn(&mut Noise) -> Box<dyn FnMut(f64) -> (f64, f64)>;

const HEALTHY: [(&str, Healthy); 6] = [
    ("churn", |noise| {
        let (level, return_in, mut now, mut noise) =
            (noise.between(1200.0, 6000.0), noise.between(10.0, 200.0), 0.0, Noise(noise.0));
        Box::new(move |_| {
            now += noise.next() * level * 0.02 - now / return_in;
            (level + now, 40.0 + 3.0 * noise.next())
        })
    }),
    ("threads, which Go never gives back", |noise| {
        let (level, mut highest, mut noise) = (noise.between(1000.0, 4000.0), 0.0_f64, Noise(noise.0));
        Box::new(move |_| {
            highest = highest.max(level * (1.0 + 0.3 * noise.next() * noise.next() * noise.next()));
            (highest, 40.0)
        })
    }),
    ("daily rhythm", |noise| {
        let (level, height, from) =
            (noise.between(2000.0, 4000.0), noise.between(100.0, 1000.0), noise.between(0.0, 1440.0));
        let mut noise = Noise(noise.0);
        Box::new(move |minute| {
            let day = ((minute + from) / 1440.0 * std::f64::consts::TAU).sin();
            (level + height * (day + 0.02 * noise.next()), 40.0)
        })
    }),
    ("daily rhythm of the number of pods", |noise| {
        let (each, height, from) =
            (noise.between(30.0, 80.0), noise.between(10.0, 40.0), noise.between(0.0, 1440.0));
        let mut noise = Noise(noise.0);
        Box::new(move |minute| {
            let day = ((minute + from) / 1440.0 * std::f64::consts::TAU).sin();
            let pods = (60.0 + height * day).round();
            (each * pods * (1.0 + 0.02 * noise.next()), pods)
        })
    }),
    ("one burst", |noise| {
        let (level, height) = (noise.between(1200.0, 3000.0), noise.between(500.0, 5000.0));
        let (from, rise, stays, stay_high) = (
            noise.between(20.0, 250.0),
            noise.between(1.0, 20.0),
            noise.between(5.0, 60.0),
            noise.next() > 0.0,
        );
        let mut noise = Noise(noise.0);
        Box::new(move |minute| {
            let up = ((minute - from) / rise).clamp(0.0, 1.0);
            let down = if stay_high { 0.0 } else { ((minute - from - rise - stays) / rise).clamp(0.0, 1.0) };
            (level * (1.0 + 0.01 * noise.next()) + height * (up - down), 40.0)
        })
    }),
    ("restart", |noise| {
        let (level, at, warm) =
            (noise.between(1500.0, 6000.0), noise.between(10.0, 300.0), noise.between(2.0, 15.0));
        let mut noise = Noise(noise.0);
        Box::new(move |minute| {
            let used = if minute < at { level } else { level * (1.0 - (-(minute - at) / warm).exp()) };
            (used * (1.0 + 0.01 * noise.next()), 40.0)
        })
    }),
];

/// Does everything at once that a healthy node does.
const EVERYTHING: Healthy = |noise| {
    let mut parts = HEALTHY.map(|(_, healthy)| healthy(noise));
    Box::new(move |minute| {
        let (used, pods): (Vec<f64>, Vec<f64>) = parts.iter_mut().map(|part| part(minute)).unzip();
        (used.iter().sum::<f64>() / 6.0, pods.iter().sum::<f64>() / 6.0)
    })
};

/// What a recorder forecasts of a node that uses so much of 10,000 with so many pods, and how often it was asked: at each minute
/// from the first half an hour on.
fn forecasts_of(
    limit: LimitKind,
    mut node: impl FnMut(f64) -> (f64, f64),
) -> (usize, Vec<(u64, LimitForecast)>) {
    // File systems are measured less often.
    let every = if limit == LimitKind::Threads { 1 } else { 3 };
    let mut history = LimitHistory::default();
    let (mut windows, mut found) = (0, Vec::new());
    for step in 0..=RUN / STEP {
        let at = Duration::from_secs(step * STEP);
        if step % every == 0 {
            let (used, pods) = node(step as f64 * STEP as f64 / 60.0);
            let used = used.clamp(0.0, MAX as f64) as u64;
            history.add(
                at,
                pods as u64,
                &[MeasuredLimit { limit, process: None, used, max: MAX, age: Duration::ZERO }],
            );
        }
        if step >= 60 && step % 2 == 0 {
            windows += 1;
            found.extend(history.forecasts(at, Wall::from_nanos(1)).pop().map(|one| (step / 2, one)));
        }
    }
    (windows, found)
}

#[test]
fn healthy_nodes_have_no_forecast_in_ten_thousand_windows() {
    let mut windows = 0;
    for (name, healthy) in HEALTHY.into_iter().chain([("everything", EVERYTHING)]) {
        for seed in 0..6 {
            let (judged, found) = forecasts_of(LimitKind::Threads, healthy(&mut Noise(seed * 7919)));
            assert_eq!(found, [], "{name}, seed {seed}");
            windows += judged;
        }
    }
    assert!(windows >= 10_000, "{windows}");
}

const DISKS: [LimitKind; 4] = [
    LimitKind::RuntimeRootBytes,
    LimitKind::RuntimeRootInodes,
    LimitKind::KubeletBytes,
    LimitKind::KubeletInodes,
];

#[test]
fn disk_that_the_kubelet_cleans_is_never_forecast() {
    for limit in DISKS {
        for (seed, each_minute) in [0.3, 1.0, 3.0, 10.0, 30.0, 100.0].into_iter().enumerate() {
            let (mut noise, mut used) = (Noise(seed as u64), 7000.0);
            // Images come all the time, and every five minutes the kubelet deletes some if 85 % are used.
            let (_, found) = forecasts_of(limit, |minute| {
                used += each_minute * 1.5 * (1.0 + 0.3 * noise.next());
                if minute % 5.0 == 0.0 && used >= 8500.0 {
                    used = 8000.0;
                }
                (used, 40.0)
            });
            assert_eq!(found, [], "{limit}, +{each_minute} a minute");
        }
    }
}

#[test]
fn nearly_full_disk_of_a_healthy_node_is_never_forecast() {
    for (name, healthy) in HEALTHY {
        for (seed, limit) in DISKS.into_iter().enumerate() {
            let mut node = healthy(&mut Noise(seed as u64 * 104_729));
            // What a healthy node does, in the last part of the disk.
            let (_, found) = forecasts_of(limit, |minute| {
                let (used, pods) = node(minute);
                (8600.0 + used * 0.13, pods)
            });
            assert_eq!(found, [], "{name}, {limit}");
        }
    }
}

#[test]
fn disk_that_fills_although_the_kubelet_cleans_is_forecast_half_an_hour_after_it_should_have() {
    let used = |minute: f64| (8000.0 + 10.0 * minute, 40.0);
    for limit in DISKS {
        let (_, found) = forecasts_of(limit, used);
        let (minute, first) = found.first().unwrap();
        // 85 % are used after 50 minutes.
        assert!((80..=82).contains(minute), "{limit}: {first}");
        let left = first.left(Wall::from_nanos(1)).as_secs() / 60;
        assert!((left + minute).abs_diff(200) <= 3, "{limit}: {first}");
    }
    let (minute, _) = &forecasts_of(LimitKind::RuntimeStateBytes, used).1[0];
    assert!((40..=41).contains(minute), "the kubelet cleans nothing there, and it is 160 minutes away");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is measured: a forecast is at most likely, and keeps the limits of its settings.
    #[test]
    fn forecast_keeps_its_limits(values in prop::collection::vec((0_u64..12_000, 0_u64..90, 1_u64..200), 2..150)) {
        let mut at = 0;
        let measured: Vec<Measurement> = values
            .into_iter()
            .map(|(used, pods, apart)| {
                at += apart;
                Measurement { at: Duration::from_secs(at), used, max: MAX, pods }
            })
            .collect();
        if let Some(found) = forecast(&measured, minutes(5)) {
            prop_assert_ne!(found.confidence, Confidence::Certain);
            prop_assert!(found.measured >= minutes(5) && found.left <= FARTHEST);
            prop_assert!(found.left <= found.measured * REACH && found.per_second > 0.0);
        }
    }

    /// A leak is found whatever its speed is, with the growth of four minutes as noise.
    #[test]
    fn leak_is_found_within_a_tenth(speed in 15.0_f64..40.0, seed in 0_u64..1000) {
        let mut noise = Noise(seed);
        let jitter: Vec<f64> = (0..200).map(|_| noise.next() * speed * 2.0).collect();
        let leak = measure(60, |minute| 6000.0 + speed * minute + jitter[(minute * 2.0) as usize], |_| 30.0);
        let found = judge(&leak).unwrap();
        prop_assert!((found.per_second * 60.0 / speed - 1.0).abs() < 0.1, "{found:?} {speed}");
    }
}

fn threads(pid: u32, used: u64) -> MeasuredLimit {
    let process = Some(ProcessRef { name: "containerd".into(), pid });
    MeasuredLimit { limit: LimitKind::Threads, process, used, max: GO_THREADS, age: Duration::ZERO }
}

#[test]
fn history_of_a_long_leak_is_bounded_and_measures_a_day() {
    let mut history = LimitHistory::default();
    let now = |step: u64| Wall::from_nanos(1_795_000_000_000_000_000).plus(Duration::from_secs(step * STEP));
    // Three threads a minute for 40 hours.
    let steps = 40 * 60 * MINUTE / STEP;
    for step in 0..=steps {
        history.add(Duration::from_secs(step * STEP), 30, &[threads(812, 100 + step * 3 / 2)]);
    }
    let found = history.forecasts(Duration::from_secs(steps * STEP), now(steps));
    let text: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(text.len(), 1, "{text:?}");
    assert!(
        text[0].starts_with("containerd[812] has 7,300 of 10,000 threads, +3.0 a minute since 2026-11-"),
        "{text:?}"
    );
    assert!(
        text[0].ends_with("UTC: full in about 14h") || text[0].ends_with("UTC: full in about 15h"),
        "{text:?}"
    );
    assert!(history.measurements() < 300, "{}", history.measurements());
}

#[test]
fn limit_that_is_no_longer_measured_has_no_forecast() {
    let mut history = LimitHistory::default();
    for step in 0..=100 {
        history.add(Duration::from_secs(step * STEP), 30, &[threads(812, 6000 + 20 * step)]);
    }
    let after = |seconds: u64| {
        history.forecasts(Duration::from_secs(100 * STEP + seconds), Wall::from_nanos(1)).len()
    };
    assert_eq!((after(60), after(121)), (1, 0), "the process may have ended");
}

#[test]
fn a_disk_that_was_read_before_the_sample_is_full_at_the_same_time() {
    let full_at = |age: Duration| {
        let mut history = LimitHistory::default();
        let first = Duration::from_secs(3600);
        for step in 0..=100 {
            let read = first + Duration::from_secs(step * STEP);
            let disk = MeasuredLimit {
                limit: LimitKind::RuntimeRootBytes,
                process: None,
                age,
                ..threads(1, 8600 + 10 * step)
            };
            history.add(read + age, 30, &[disk]);
        }
        // The next reading comes after 90 seconds, or later on a busy node.
        let last = first + Duration::from_secs(100 * STEP + 110) + age;
        history.forecasts(last, Wall::from_nanos(0).plus(last)).pop().map(|forecast| forecast.full_at)
    };
    assert!(full_at(Duration::ZERO).is_some());
    assert_eq!(full_at(Duration::ZERO), full_at(Duration::from_secs(30)));
}

#[test]
fn another_process_or_another_limit_begins_a_new_history() {
    let leak = |change: fn(&mut MeasuredLimit)| {
        let mut history = LimitHistory::default();
        for step in 0..=100 {
            let mut measured = threads(812, 6000 + 20 * step);
            if step > 50 {
                change(&mut measured);
            }
            history.add(Duration::from_secs(step * STEP), 30, &[measured]);
        }
        history.forecasts(Duration::from_secs(100 * STEP), Wall::from_nanos(1)).len()
    };
    assert_eq!(leak(|_| {}), 1);
    assert_eq!(leak(|measured| measured.process = threads(900, 0).process), 0);
    assert_eq!(leak(|measured| measured.max = 30_000), 0);
}
