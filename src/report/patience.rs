//! Waiting for what is not ours: a FIFO's other end, a device that is busy. For a while, and never for ever.

use std::io;
use std::thread;
use std::time::Duration;

/// How often it is looked at again.
const STEP: Duration = Duration::from_millis(50);

/// How many such steps are waited: for a reader that is just being started, a terminal that was stopped.
pub const STEPS: u32 = 100;

/// Tries again for so many steps.
pub fn patiently<T>(steps: u32, mut attempt: impl FnMut() -> io::Result<Option<T>>) -> io::Result<Option<T>> {
    for step in 0..=steps {
        if let Some(done) = attempt()? {
            return Ok(Some(done));
        }
        if step < steps {
            thread::park_timeout(STEP);
        }
    }
    Ok(None)
}

/// How long that is.
pub fn shown() -> humantime::FormattedDuration {
    humantime::format_duration(STEP * STEPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_comes_is_asked_for_so_often_and_no_more() {
        let mut asked = 0;
        let never = patiently(1, || {
            asked += 1;
            Ok(None::<()>)
        });
        assert_eq!((never.unwrap(), asked), (None, 2));
    }
}
