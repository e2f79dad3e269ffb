//! Retries an operation that would block, for a limited time: on a FIFO without a reader, or on a busy device.

use std::io;
use std::thread;
use std::time::Duration;

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// The number of attempts, enough for a reader that is just starting or a terminal that was stopped.
pub const ATTEMPTS: u32 = 100;

/// Makes up to this number of attempts, with pauses.
pub fn retry<T>(attempts: u32, mut attempt: impl FnMut() -> io::Result<Option<T>>) -> io::Result<Option<T>> {
    for number in 0..=attempts {
        if let Some(done) = attempt()? {
            return Ok(Some(done));
        }
        if number < attempts {
            thread::park_timeout(PAUSE);
        }
    }
    Ok(None)
}

/// The total time of all attempts.
pub fn total_wait() -> humantime::FormattedDuration {
    humantime::format_duration(PAUSE * ATTEMPTS)
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
