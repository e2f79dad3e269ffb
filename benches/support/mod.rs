//! The common code of the benches: alternating measurements, medians, and the output of figures.

pub mod memory;
pub mod minimum;
pub mod process;

use std::time::{Duration, Instant};

/// Several measurements of one thing.
#[derive(Clone, Debug)]
pub struct Samples(Vec<Duration>);

impl Samples {
    /// Returns the median; for an even number of samples, the mean of the middle two.
    pub fn median(&self) -> Duration {
        middle(self.0.iter().map(Duration::as_secs_f64).collect(), Duration::from_secs_f64)
    }

    /// Returns the median difference to the sample of `other` from the same turn, in seconds.
    pub fn median_excess(&self, other: &Self) -> f64 {
        let pairs = self.0.iter().zip(&other.0);
        middle(pairs.map(|(own, other)| own.as_secs_f64() - other.as_secs_f64()).collect(), |seconds| seconds)
    }
}

/// Returns the median.
fn middle<T>(mut seconds: Vec<f64>, unit: impl Fn(f64) -> T) -> T {
    assert!(!seconds.is_empty(), "nothing was measured");
    seconds.sort_by(f64::total_cmp);
    let upper = seconds.len() / 2;
    let lower = (seconds.len() - 1) / 2;
    unit(f64::midpoint(seconds[lower], seconds[upper]))
}

/// Measures A and B alternately, after one turn that does not count, so that other load affects both.
pub fn in_turn(
    turns: usize,
    mut a: impl FnMut() -> Duration,
    mut b: impl FnMut() -> Duration,
) -> (Samples, Samples) {
    a();
    b();
    let both: Vec<(Duration, Duration)> = (0..turns).map(|_| (a(), b())).collect();
    (Samples(both.iter().map(|pair| pair.0).collect()), Samples(both.iter().map(|pair| pair.1).collect()))
}

/// Measures A and B once each, for long measurements that vary little.
pub fn once(a: impl FnOnce() -> Duration, b: impl FnOnce() -> Duration) -> (Samples, Samples) {
    (Samples(vec![a()]), Samples(vec![b()]))
}

/// Measures one thing this often, after one turn that does not count.
pub fn alone(turns: usize, mut measure: impl FnMut() -> Duration) -> Samples {
    measure();
    Samples((0..turns).map(|_| measure()).collect())
}

/// Returns the duration of `work`.
pub fn time<T>(work: impl FnOnce() -> T) -> Duration {
    let started = Instant::now();
    // The result is created within the measured time and dropped after it.
    let result = std::hint::black_box(work());
    let took = started.elapsed();
    drop(result);
    took
}

/// Prints what is measured, and how to repeat it.
pub fn heading(what: &str, bench: &str) {
    println!("\n{what}\n  to repeat: cargo bench --bench {bench}");
}

/// Prints one figure.
pub fn figure(name: &str, value: &str) {
    println!("  {name:<58} {value:>12}");
}

/// Prints two medians and their ratio.
pub fn ratio(name: &str, a: &Samples, of: &str, b: &Samples) {
    figure(name, &milliseconds(a.median()));
    figure(of, &milliseconds(b.median()));
    figure("  ratio", &format!("{:.2}", a.median().as_secs_f64() / b.median().as_secs_f64()));
}

/// Formats a value as `12.345 ms`
pub fn milliseconds(duration: Duration) -> String {
    format!("{:.3} ms", duration.as_secs_f64() * 1e3)
}

/// Formats a value as `1.5 MiB`
#[expect(clippy::cast_precision_loss, reason = "a printed size needs no more than 53 bits")]
pub fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Formats a value as `12 KiB`, rounded up.
pub fn kibibytes(bytes: usize) -> String {
    format!("{} KiB", bytes.div_ceil(1024))
}

/// Returns `seconds` divided by `items`, in nanoseconds.
#[expect(clippy::cast_precision_loss, reason = "numbers of containers are small")]
pub fn nanoseconds_each(seconds: f64, items: usize) -> f64 {
    seconds * 1e9 / items as f64
}
