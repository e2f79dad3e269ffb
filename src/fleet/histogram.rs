//! Computes quantiles of a kubelet's histogram as Prometheus does. A quantile in the last bucket, which has no upper
//! bound, is marked.

/// Cumulative counts by upper bound. The last bound is infinite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BucketHistogram {
    buckets: Vec<(f64, f64)>,
}

/// A quantile of a histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// The value; in the last bucket, the lower bound of the bucket.
    pub seconds: f64,
    /// Whether the quantile is in the last bucket.
    pub beyond: bool,
}

impl BucketHistogram {
    /// Creates a histogram from buckets in any order.
    pub fn new(mut buckets: Vec<(f64, f64)>) -> Self {
        buckets.retain(|(bound, count)| !bound.is_nan() && count.is_finite());
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        Self { buckets }
    }

    /// Returns the number of values.
    pub fn count(&self) -> f64 {
        self.buckets.last().map_or(0.0, |(_, count)| *count)
    }

    /// Returns the histogram of the values since `before`. If the counters were reset, all values count.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        if self.count() < before.count() || self.buckets.len() != before.buckets.len() {
            return self.clone();
        }
        let pairs = self.buckets.iter().zip(&before.buckets);
        Self { buckets: pairs.map(|(now, then)| (now.0, (now.1 - then.1).max(0.0))).collect() }
    }

    /// Returns the quantile for `rank`: 0.99 for the 99th percentile. `None` if there are no values.
    pub fn quantile(&self, rank: f64) -> Option<Quantile> {
        let wanted = self.count() * rank;
        if self.count() <= 0.0 {
            return None;
        }
        let (mut lower, mut below) = (0.0, 0.0);
        for (bound, count) in &self.buckets {
            if *count >= wanted && *count > below {
                if bound.is_infinite() {
                    break;
                }
                let seconds = lower + (bound - lower) * (wanted - below) / (count - below);
                return Some(Quantile { seconds, beyond: false });
            }
            if bound.is_finite() {
                (lower, below) = (*bound, *count);
            }
        }
        Some(Quantile { seconds: lower, beyond: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(counts: &[f64]) -> BucketHistogram {
        BucketHistogram::new(
            [0.1, 1.0, 10.0, f64::INFINITY].into_iter().zip(counts.iter().copied()).collect(),
        )
    }

    #[test]
    fn quantiles_are_interpolated_between_the_bounds() {
        let half = histogram(&[50.0, 100.0, 100.0, 100.0]).quantile(0.5).unwrap();
        assert_eq!(half, Quantile { seconds: 0.1, beyond: false });
        let late = histogram(&[50.0, 100.0, 100.0, 100.0]).quantile(0.75).unwrap();
        assert!((late.seconds - 0.55).abs() < 1e-9, "{late:?}");
    }

    #[test]
    fn a_quantile_in_the_last_bucket_is_marked_as_beyond_the_last_bound() {
        let all = histogram(&[0.0, 0.0, 0.0, 7.0]).quantile(0.5).unwrap();
        assert_eq!(all, Quantile { seconds: 10.0, beyond: true });
    }

    #[test]
    fn a_histogram_without_values_has_no_quantile() {
        assert_eq!(BucketHistogram::default().quantile(0.5), None);
        assert_eq!(histogram(&[0.0; 4]).quantile(0.5), None);
        assert_eq!(BucketHistogram::new(vec![(f64::NAN, 1.0), (1.0, f64::NAN)]).quantile(0.5), None);
    }

    #[test]
    fn the_difference_of_two_histograms_has_the_values_since_the_first() {
        let then = histogram(&[100.0, 100.0, 100.0, 100.0]);
        let now = histogram(&[100.0, 100.0, 103.0, 103.0]);
        assert!(now.since(&then).quantile(0.5).unwrap().seconds > 1.0);
        assert_eq!(then.since(&now), then, "after a restart of the kubelet, all values count");
    }
}
