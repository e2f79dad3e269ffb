//! Repeats an operation that would block, for at most 5 s: opening a FIFO without a reader, or writing to a busy
//! device.

use std::io;
use std::thread;
use std::time::Duration;

/// The pause before each retry.
const PAUSE: Duration = Duration::from_millis(50);

/// The number of retries. Together they take 5 s, in which a reader can start or a stopped terminal can continue.
pub const RETRIES: u32 = 100;

/// Makes one attempt, and then up to `retries` more with a pause before each. Returns `None` if all attempts would
/// block.
pub fn retry<T>(retries: u32, mut attempt: impl FnMut() -> io::Result<Option<T>>) -> io::Result<Option<T>> {
    for number in 0..=retries {
        if let Some(done) = attempt()? {
            return Ok(Some(done));
        }
        if number < retries {
            thread::park_timeout(PAUSE);
        }
    }
    Ok(None)
}

/// Returns the total time of all pauses.
pub fn total_wait() -> humantime::FormattedDuration {
    humantime::format_duration(PAUSE * RETRIES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_attempts_is_limited() {
        let mut attempts_made = 0;
        let never = retry(1, || {
            attempts_made += 1;
            Ok(None::<()>)
        });
        assert_eq!((never.unwrap(), attempts_made), (None, 2));
    }
}
