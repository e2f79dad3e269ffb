//! [`Line`]: how fast something grew, where its growth is a line. A slope is the median of the slopes of all pairs of
//! measurements (Theil–Sen), which no single measurement can move.

use super::Measurement;

/// The slope of each third of a line is at least this part of the steepest one.
pub const AGREEMENT: f64 = 0.5;

/// The largest part of the pairs of measurements whose later one is lower.
const FALLING: f64 = 0.05;

/// The largest such part within one third.
const FALLING_IN_A_PART: f64 = 0.2;

/// The least number of measurements in each third.
const LEAST_IN_A_PART: usize = 4;

/// The number of measurements of a time that are compared in pairs, if they are at equal times.
const COMPARED: u32 = 32;

/// A growth of which three thirds of the time agree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// The growth in units per second.
    pub per_second: f64,
    /// The growth in units per second if the number of pods had stayed the same.
    per_second_of_same_pods: f64,
}

impl Line {
    /// Measures the growth; `None` if the thirds do not agree, if they fall too often, or if a third has too few measurements.
    pub fn of(window: &[Measurement]) -> Option<Self> {
        let slopes = thirds(window)?.map(|part| {
            let growth = growth(part, used).filter(|_| part.len() >= LEAST_IN_A_PART)?;
            (growth.falling <= FALLING_IN_A_PART).then_some(growth.per_second)
        });
        let [Some(one), Some(two), Some(three)] = slopes else { return None };
        let (flattest, steepest) = (one.min(two).min(three), one.max(two).max(three));
        if flattest <= 0.0 || flattest < steepest * AGREEMENT {
            return None;
        }
        let whole = growth(window, used).filter(|whole| whole.falling <= FALLING)?;
        let pods = precise(window.last()?.pods.max(1));
        let same_pods = |one: &Measurement| used(one) * pods / precise(one.pods.max(1));
        let per_second_of_same_pods = growth(window, same_pods)?.per_second;
        Some(Self { per_second: whole.per_second, per_second_of_same_pods })
    }

    /// Whether the number of pods explains half of the growth.
    pub fn follows_pods(&self) -> bool {
        self.per_second_of_same_pods < self.per_second * 0.5
    }
}

/// Returns the growth in units per second, whether or not it is a line.
pub fn per_second(window: &[Measurement]) -> Option<f64> {
    growth(window, used).map(|growth| growth.per_second)
}

/// Cuts the time in three.
fn thirds(window: &[Measurement]) -> Option<[&[Measurement]; 3]> {
    let (first, last) = (window.first()?, window.last()?);
    let third = last.at.saturating_sub(first.at) / 3;
    let end = |thirds: u32| window.partition_point(|one| one.at < first.at.saturating_add(third * thirds));
    let (one, two) = (end(1), end(2));
    Some([window.get(..one)?, window.get(one..two)?, window.get(two..)?])
}

/// The growth in a time.
struct Growth {
    /// The median of the slopes of all pairs.
    per_second: f64,
    /// The part of the pairs whose later measurement is lower.
    falling: f64,
}

fn growth(window: &[Measurement], value: impl Fn(&Measurement) -> f64) -> Option<Growth> {
    let points: Vec<(f64, f64)> =
        compared(window)?.into_iter().map(|one| (one.at.as_secs_f64(), value(one))).collect();
    let mut slopes = Vec::with_capacity(points.len() * points.len() / 2);
    for (number, (later, high)) in points.iter().enumerate() {
        let earlier = points.iter().skip(number + 1);
        slopes.extend(earlier.map(|(at, low)| (high - low) / (later - at)));
    }
    let middle = slopes.len() / 2;
    let falling = slopes.iter().filter(|slope| **slope < 0.0).count();
    let falling = precise(falling as u64) / precise(slopes.len().max(1) as u64);
    (!slopes.is_empty()).then(|| {
        let (_, per_second, _) = slopes.select_nth_unstable_by(middle, f64::total_cmp);
        Growth { per_second: *per_second, falling }
    })
}

/// Returns the last measurement and others before it at equal times: a recorder keeps more of the last hour than of the time
/// before.
fn compared(window: &[Measurement]) -> Option<Vec<&Measurement>> {
    let (first, last) = (window.first()?, window.last()?);
    let apart = last.at.saturating_sub(first.at) / COMPARED;
    let mut kept = vec![last];
    let mut next = last.at;
    for one in window.iter().rev().filter(|one| one.at < last.at) {
        if one.at.saturating_add(apart) <= next {
            next = one.at;
            kept.push(one);
        }
    }
    Some(kept)
}

const fn used(one: &Measurement) -> f64 {
    precise(one.used)
}

#[expect(clippy::cast_precision_loss, reason = "no limit comes near 2^52")]
const fn precise(value: u64) -> f64 {
    value as f64
}
