//! A histogram for the durations of a watch, whose memory does not grow with time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::stream::Quantiles;
use crate::report::Seconds;

/// The ratio of the widths of two neighbouring buckets. Quantiles are exact to within 2 %.
const GROWTH: f64 = 1.02;

/// The upper bound of the first bucket.
const FIRST_BOUND: Duration = Duration::from_micros(1);

/// The number of buckets, which is enough for durations of a few hours.
const BUCKETS: usize = 1200;

/// A histogram of durations with logarithmic buckets.
#[derive(Clone, Debug)]
pub struct LatencyHistogram {
    buckets: Vec<u64>,
    /// The counts of the coarse ranges that users see, by upper bound. There are fewer than a hundred ranges.
    ranges: BTreeMap<Duration, u64>,
    count: u64,
    largest: Duration,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], ranges: BTreeMap::new(), count: 0, largest: Duration::ZERO }
    }
}

impl LatencyHistogram {
    /// Adds a duration.
    pub fn add(&mut self, duration: Duration) {
        let bucket = bucket_of(duration);
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count += 1;
        }
        *self.ranges.entry(round_up(duration)).or_default() += 1;
        self.count += 1;
        self.largest = self.largest.max(duration);
    }

    /// Returns the quantiles of all durations; `None` without any duration.
    pub fn quantiles(&self) -> Option<Quantiles> {
        (self.count > 0).then(|| Quantiles {
            p50: self.quantile(50),
            p90: self.quantile(90),
            p99: self.quantile(99),
            max: self.largest.into(),
        })
    }

    /// Returns the duration that `percent` of all durations do not exceed.
    fn quantile(&self, percent: u64) -> Seconds {
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (number, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper_bound(number).min(self.largest).into();
            }
        }
        self.largest.into()
    }

    /// Returns the counts of a coarse histogram, with the upper bounds 1, 2, 5, 10, 20, 50, … microseconds.
    pub fn ranges(&self) -> Vec<(Duration, u64)> {
        self.ranges.iter().map(|(bound, count)| (*bound, *count)).collect()
    }
}

/// Returns the number of the bucket for a duration.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the logarithm of a ratio of at least one"
)]
fn bucket_of(duration: Duration) -> usize {
    let ratio = duration.as_secs_f64() / FIRST_BOUND.as_secs_f64();
    let number = ratio.max(1.0).log(GROWTH).ceil() as usize;
    number.min(BUCKETS - 1)
}

/// Returns the largest duration of a bucket.
#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "a bucket number is small")]
fn upper_bound(bucket: usize) -> Duration {
    FIRST_BOUND.mul_f64(GROWTH.powi(bucket as i32))
}

/// Rounds up to the next value of 1, 2, 5, 10, 20, 50, … microseconds.
fn round_up(duration: Duration) -> Duration {
    let mut decade = Duration::from_micros(1);
    loop {
        for step in [1, 2, 5] {
            let bound = decade.saturating_mul(step);
            if bound >= duration {
                return bound;
            }
        }
        decade = decade.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(millis: impl IntoIterator<Item = u64>) -> LatencyHistogram {
        let mut latencies = LatencyHistogram::default();
        millis.into_iter().for_each(|millis| latencies.add(Duration::from_millis(millis)));
        latencies
    }

    #[test]
    fn an_empty_histogram_has_no_quantiles() {
        assert_eq!(LatencyHistogram::default().quantiles(), None);
        assert!(LatencyHistogram::default().ranges().is_empty());
    }

    #[test]
    fn quantiles_are_exact_to_two_percent_and_the_maximum_is_exact() {
        let quantiles = of(1..=1000).quantiles().unwrap();
        for (found, truth) in [(quantiles.p50, 0.5), (quantiles.p90, 0.9), (quantiles.p99, 0.99)] {
            assert!((found.as_f64() / truth - 1.0).abs() < 0.021, "{found:?} is not {truth}");
        }
        assert!((quantiles.max.as_f64() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn ranges_add_up_to_all_durations() {
        let latencies = of([1, 1, 3, 4, 700]);
        assert_eq!(
            latencies.ranges(),
            [(Duration::from_millis(1), 2), (Duration::from_millis(5), 2), (Duration::from_secs(1), 1)]
        );
    }

    #[test]
    fn a_range_counts_no_duration_above_its_bound() {
        let micros = [499_999, 500_000, 500_001, 509_000, 577_000, 1_000_000, 1_000_001];
        let mut latencies = LatencyHistogram::default();
        for micros in micros {
            latencies.add(Duration::from_micros(micros));
        }
        let millis = Duration::from_millis;
        assert_eq!(latencies.ranges(), [(millis(500), 2), (millis(1000), 4), (millis(2000), 1)]);
    }

    #[test]
    fn very_long_and_zero_durations_have_a_bucket() {
        let mut latencies = of([0]);
        latencies.add(Duration::from_secs(100_000));
        assert_eq!(latencies.quantiles().unwrap().max.duration(), Duration::from_secs(100_000));
    }
}
